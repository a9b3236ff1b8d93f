"""Prints cards: the description, source and parameters of each entry of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from tailback.cli._common import console

_Row = Mapping[str, Any]


def print_cards(rows: Sequence[_Row], parameters: str = "params", extra: Sequence[str] = ("law",)) -> None:
    """Print a block per row: name and title, source, the fields in `extra`, then a line per parameter."""
    out = console()
    for number, row in enumerate(rows):
        if number:
            out.print()
        out.print(f"[bold]{escape(row['name'])}[/bold]  {escape(row['title'])}", highlight=False)
        lines = Table.grid(padding=(0, 2))
        lines.add_column(no_wrap=True, style="dim")
        lines.add_column(overflow="fold")
        for key in (*extra, "source"):
            if row.get(key):
                lines.add_row(f"  {key}", escape(" ".join(str(row[key]).split())))
        for text in row.get("differs") or ():
            lines.add_row("  differs", escape(text))
        if row.get("cost"):
            lines.add_row("  cost", escape(row["cost"]))
        out.print(lines)
        if row.get(parameters):
            out.print(_parameters(row[parameters]))


def _parameters(params: Sequence[_Row]) -> Table:
    table = Table.grid(padding=(0, 2))
    for width in (None, 30, 34, None):
        table.add_column(overflow="fold", max_width=width)
    for param in params:
        table.add_row(f"  {escape(param['name'])}", *(escape(text) for text in (_default(param), _range(param))),
                      escape(param.get("doc") or ""))  # fmt: skip
    return table


def _default(param: _Row) -> str:
    unit = f" {param['unit']}" if param.get("unit") else ""
    if param.get("depends"):
        return f"= {param['depends']}"
    return f"= {_plain(param.get('default'))}{unit}"


def _range(param: _Row) -> str:
    if param.get("choices"):
        return " | ".join(param["choices"])
    if param.get("min") is None or param.get("max") is None:
        return ""
    unit = f" {param['unit']}" if param.get("unit") else ""
    return f"{_plain(param['min'])} … {_plain(param['max'])}{unit}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)
