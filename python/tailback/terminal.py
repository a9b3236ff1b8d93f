"""Tables for a terminal that is too narrow for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Column, Table

__all__ = ["Unbroken"]

#: Spaces between columns.
_BETWEEN = 2


class Unbroken:
    """A table that never truncates cells: columns that do not fit go into a further table below.

    Each part repeats the first `repeated` columns, which identify a row. Columns keep their order. Headings are wrapped
    between words before a column moves to the next part.
    """

    def __init__(self, table: Table, repeated: int = 1) -> None:
        self.table = table
        self.repeated = repeated

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        columns = self.table.columns
        if _width([_natural(console, column) for column in columns]) <= options.max_width:
            yield self.table
            return
        least = [_least(console, column) for column in columns]
        for number, part in enumerate(self._parts(least, options.max_width)):
            if number:
                yield Text("")
            shown = Table(box=None, pad_edge=False)
            for at in part:
                # Only a cell wider than the terminal is wrapped.
                width = min(least[at], options.max_width)
                shown.add_column(columns[at].header, justify=columns[at].justify, width=width, overflow="fold")
            cells = [list(columns[at].cells) for at in part]
            for row, given in enumerate(self.table.rows):
                shown.add_row(*(column[row] for column in cells), style=given.style)
            yield shown

    def _parts(self, least: list[int], most: int) -> Iterator[list[int]]:
        """Column numbers of each part."""
        first = list(range(self.repeated))
        part = list(first)
        for at in range(self.repeated, len(least)):
            if part != first and _width(least[each] for each in [*part, at]) > most:
                yield part
                part = list(first)
            part.append(at)
        yield part


def _width(columns: Iterable[int]) -> int:
    widths = list(columns)
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def _natural(console: Console, column: Column) -> int:
    """Width of a column on one line, in characters."""
    return max((console.measure(each).maximum for each in [column.header, *column.cells]), default=0)


def _least(console: Console, column: Column) -> int:
    """Width of a column, in characters, with its heading wrapped and its cells whole."""
    cells = max((console.measure(each).maximum for each in column.cells), default=0)
    return max(cells, console.measure(column.header).minimum)
