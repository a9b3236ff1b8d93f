"""Columns of a store of runs: the varied values, the metrics, their titles, and expressions over them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ..errors import TailbackError, nearest
from ..experiment.run_metrics import MOST
from ..metrics.registry import RUN_MEASURES
from ..metrics.rows import Floats
from ..units import Bytes, Duration, Rate

__all__ = ["Axis", "NoSuchColumn", "axes_of", "is_expression", "metric_column", "metric_title", "with_metric"]

#: Top-level keys of a scenario whose values a sweep may vary.
_ROOTS = ("dumbbell", "flow", "link", "duration", "randomness", "instruments", "warmup")


class NoSuchColumn(TailbackError, ValueError):
    """A column that the store does not have, or that the figure cannot use."""


@dataclass(frozen=True)
class Axis:
    """A value that a sweep varied: the column, and its levels in order."""

    column: str
    levels: list[Any]
    numbers: Floats | None
    """The levels as numbers in `unit` if all are quantities of one kind; None for categories."""
    unit: str = ""
    """Unit of the numbers, as printed at an axis; empty for plain numbers and categories."""

    @property
    def title(self) -> str:
        """Name and unit for the axis."""
        return f"{name_of(self.column)} ({self.unit})" if self.unit else name_of(self.column)

    def text(self, position: int) -> str:
        """A level's tick label: the number if the axis has the unit, else the sweep's text."""
        return (
            f"{self.numbers[position]:g}"
            if self.unit and self.numbers is not None
            else level_text(self.levels[position])
        )


def axes_of(frame: pl.DataFrame) -> list[Axis]:
    """The scenario values that differ between runs, in the order of their columns."""
    out = []
    for name in frame.columns:
        root = name.split(".")[0].split("[")[0]
        if root not in _ROOTS or name in ("duration_s",) or frame[name].n_unique() < 2:
            continue
        if name.endswith(".si") and name.removesuffix(".si") in frame.columns:
            # Copies of the values as numbers in base units.
            continue
        levels = frame[name].drop_nulls().unique(maintain_order=True).to_list()
        found = [quantity(level) for level in levels]
        # Sizes in bytes, in packets and in multiples of the BDP have no common scale, nor do disciplines.
        known = [each for each in found if each is not None]
        if len(known) == len(found) and len({unit for _, unit in known}) == 1:
            order = np.argsort([number for number, _ in known], kind="stable")
            at: Floats = np.array([known[i][0] for i in order], dtype=np.float64)
            out.append(Axis(name, [levels[i] for i in order], at, known[0][1]))
        else:
            out.append(Axis(name, levels, None))
    return out


def level_text(level: Any) -> str:
    """A level in the sweep's spelling; a store may keep whole numbers as floats."""
    return f"{level:g}" if isinstance(level, float) else str(level)


def quantity(level: Any) -> tuple[float, str] | None:
    """A level as a number with the axis' unit; None for a word."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level), ""
    text = str(level)
    for ending, unit in (("bdp", "BDP"), ("packets", "packets")):
        if text.endswith(ending):
            try:
                return float(text.removesuffix(ending)), unit
            except ValueError:
                return None
    for kind, scale, unit in ((Rate, 1e-6, "Mbit/s"), (Duration, 1e3, "ms"), (Bytes, 1e-3, "kB")):
        try:
            return float(kind(text)) * scale, unit
        except ValueError:
            continue
    return None


#: Axis names of often varied values of a scenario, by the last parts of their columns.
_NAMES = {
    "dumbbell.rate": "bottleneck rate",
    "dumbbell.back_rate": "rate of the way back",
    "dumbbell.rtt": "round-trip time",
    "dumbbell.delay": "one-way delay",
    "dumbbell.queue": "bottleneck queue",
    "dumbbell.back_queue": "queue of the way back",
    "duration": "duration",
}
_FIELDS = {"cc": "congestion control", "stack": "stack", "count": "number of flows", "app": "application"}
#: Units, by the suffix of metrics without a registry row, such as a sweep's own functions.
_UNITS = {"ms": "ms", "s": "s", "us": "µs", "mbps": "Mbit/s", "bps": "bit/s", "bytes": "B", "share": "share"}


def name_of(column: str) -> str:
    """Axis name of a varied value; an unlisted column keeps its name."""
    if column in _NAMES:
        return _NAMES[column]
    first, _, rest = column.partition(".")
    flow, _, field = rest.rpartition(".")
    return f"{_FIELDS[field]} of {flow}" if first == "flow" and flow and field in _FIELDS else column


def metric_title(column: str) -> str:
    """Axis title of a metric: flow or link, name, and unit.

    >>> metric_title("call.delay_p95_ms")
    'call: one-way delay, 95 % (ms)'
    """
    if is_expression(column):
        return column
    of, _, name = column.rpartition(".")
    if row := RUN_MEASURES.get(name):
        words, unit = row.title, row.unit
    else:
        stem, _, ending = name.rpartition("_")
        words, unit = (stem or name, _UNITS[ending]) if stem and ending in _UNITS else (name, "")
        words = words.replace("_", " ")
    return (f"{of}: " if of else "") + words + (f" ({unit})" if unit else "")


def metric_column(frame: pl.DataFrame, metric: str) -> str:
    """The column of that name, which must be numeric; `NoSuchColumn` suggests the nearest name."""
    numeric = [name for name in frame.columns if frame[name].dtype.is_numeric()]
    if metric in numeric:
        return metric
    close = nearest(metric, numeric)
    hint = f' Did you mean "{close}"?' if close else ""
    kept = f"Of runs with more than {MOST} flows, metrics of single flows are kept only if [metrics] names them"
    raise NoSuchColumn(f'the store has no numbers in a column "{metric}".{hint} {kept}. See: tailback results query')


#: A name in an expression: bare, or in quotes if it has other characters.
_NAME = re.compile(r'"([^"]+)"|([A-Za-z_]\w*(?:\.\w+)*)(?!\s*\()')
#: Total goodput of all TCP flows.
_TOTAL = "total"


def is_expression(metric: str) -> bool:
    """Whether a metric is an expression over columns: it has an operator between spaces, a parenthesis or a quote."""
    return bool(re.search(r'\s[-+*/]\s|[()"]|[*/]', metric))


def with_metric(frame: pl.DataFrame, metric: str) -> pl.DataFrame:
    """The frame with a column of that name: an existing one, or an expression such as `bbr.goodput / total`.

    An expression may have column names, numbers, `+ - * /`, parentheses and SQL functions. A name's unit suffix may be
    left out, names with other characters need quotes, and `total` is the goodput of all flows. Raises `NoSuchColumn`
    for an unknown name.
    """
    if metric in frame.columns or not is_expression(metric):
        return frame
    used: dict[str, pl.Expr] = {}

    def column(found: re.Match[str]) -> str:
        name = _of_expression(frame, found[1] or found[2])
        used[name] = pl.col(name).cast(pl.Float64)
        return f'"{name}"'

    text = _NAME.sub(column, metric)
    if not used:
        raise NoSuchColumn(f'metric "{metric}" names no column. Write for example: bbr.goodput / total')
    try:
        return frame.with_columns(frame.select(**used).select(pl.sql_expr(text).alias(metric)).to_series())
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise NoSuchColumn(
            f'metric "{metric}" cannot be reckoned: {error}. Write for example: bbr.goodput / total'
        ) from None


def _of_expression(frame: pl.DataFrame, name: str) -> str:
    """The column for a name in an expression, which may lack its unit suffix."""
    wanted = "goodput" if name == _TOTAL else name
    for each in (wanted, *(f"{wanted}_{unit}" for unit in _UNITS)):
        if each in frame.columns and frame[each].dtype.is_numeric():
            return each
    return metric_column(frame, name)
