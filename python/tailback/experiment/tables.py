"""Tables of a study's report: columns declared once, one row per cell or group of runs, medians over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback.experiment.outcome import TableOut
from tailback.experiment.summary import Summary, inside

NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    head: str
    what: str | Callable[[Summary], Any]
    """A path in the summary, or a function of it."""
    digits: int = 2
    factor: float = 1.0

    def shown(self, runs: Iterable[Summary]) -> str:
        """Median over the runs that have a value."""
        each = (self.what(run) if callable(self.what) else inside(run, self.what) for run in runs)
        return shown((None if one is None else self.factor * one for one in each), self.digits)


def shown(values: Iterable[float | None], digits: int) -> str:
    """Median of the finite values, or a dash."""
    found = [float(value) for value in values if value is not None and not np.isnan(value)]
    return f"{np.median(found):.{digits}f}" if found else NOTHING


def table(
    name: str,
    title: str,
    caption: str,
    heads: Sequence[str],
    columns: Sequence[Column],
    rows: Iterable[tuple[Sequence[str], Sequence[Summary]]],
) -> TableOut:
    """One row per label, for labels that have runs."""
    made = [[*label, *(column.shown(runs) for column in columns)] for label, runs in rows if runs]
    return TableOut(name, title, caption, [*heads, *(column.head for column in columns)], made)


def fitted_table(rows: Iterable[Sequence[str]]) -> TableOut:
    """Fitted parameters: value, what each was fitted to, what it was tested on."""
    caption = "Chosen because the paper does not know it. A claim about what a parameter was fitted to is marked so."
    heads = ["parameter", "value", "fitted to", "tested on"]
    return TableOut("fitted", "What was fitted", caption, heads, [list(row) for row in rows])
