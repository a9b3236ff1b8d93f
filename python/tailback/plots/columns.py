"""Columns of a store of runs: the varied values, the metrics, their titles, and expressions over them."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ..errors import TailbackError, nearest
from ..experiment.run_metrics import MOST
from ..experiment.store.axes import is_axis, without_seed
from ..metrics.registry import RUN_MEASURES
from ..metrics.rows import Floats
from ..units import Bytes, Duration, Rate

__all__ = [
    "Axis",
    "NoSuchColumn",
    "axes_of",
    "directions",
    "is_expression",
    "metric_column",
    "metric_title",
    "path_of",
    "with_metric",
]


#: Keys of a table whose values say what it is.
_NAMING = ("discipline", "name", "kind")


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
        """A level as it stands at a tick: the number where the axis says the unit, else in words."""
        if self.unit and self.numbers is not None:
            return f"{self.numbers[position]:g}"
        return self.words(self.levels[position])

    def words(self, level: Any) -> str:
        """A level where no axis says its unit: a queue given by its limit is a FIFO."""
        return queue_text(level) if self.column.endswith("queue") else level_text(level)


def axes_of(frame: pl.DataFrame) -> list[Axis]:
    """The scenario values that differ between runs, in the order of their columns."""
    out = []
    for name in frame.columns:
        if not is_axis(name) or frame[name].n_unique() < 2:
            continue
        if name.endswith(".si") and name.removesuffix(".si") in frame.columns:
            # Copies of the values as numbers in base units.
            continue
        levels = frame[name].drop_nulls().unique(maintain_order=True).to_list()
        if len(levels) < 2 or len(_without_columns(frame, name, levels)) < 2:
            continue
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


def _without_columns(frame: pl.DataFrame, name: str, levels: list[Any]) -> set[str]:
    """The levels, of tables without the keys that have columns of their own."""
    own = {column.removeprefix(f"{name}.") for column in frame.columns if column.startswith(f"{name}.")}
    if not own:
        return {str(level) for level in levels}
    kept = set()
    for level in map(str, levels):
        table = json.loads(level) if level.startswith("{") else level
        kept.add(str({k: v for k, v in table.items() if k not in own}) if isinstance(table, dict) else table)
    return kept


def queue_text(level: Any) -> str:
    """A queue as the sweep has it; a limit alone is a FIFO's."""
    found = quantity(level)
    return f"FIFO, {found[0]:g} {found[1] or 'B'}" if found else level_text(level)


def path_of(frame: pl.DataFrame) -> str:
    """What all runs share of the bottleneck: rate, round-trip time, queue; empty if nothing."""
    found = _dumbbells(frame)

    def shared(key: str) -> Any:
        first = found[0].get(key) if found else None
        return first if all(each.get(key) == first for each in found) else None

    def words(key: str) -> str:
        return _words(shared(key))

    def carrier(way: str) -> str:
        """The rate of a way, or of its medium behind the medium's name."""
        if not any(f"{way}medium" in each for each in found):
            return words(f"{way}rate")
        medium = shared(f"{way}medium") or {}
        if not isinstance(medium, dict):
            return str(medium)
        return f"{medium.get('name', '')} {_words(medium.get('rate'))}".strip()

    rates = [carrier("")]
    if carrier("back_") != rates[0]:
        rates.append(carrier("back_"))
    rate = "/".join(each for each in rates if each).replace(" Mbit/s/", "/") if all(rates[:1]) else ""
    rtt = f"RTT {words('rtt')}" if words("rtt") else f"one-way delay {words('delay')}" if words("delay") else ""
    queue = shared("queue")
    kind = queue.get("discipline", "") if isinstance(queue, dict) else queue_text(queue) if queue is not None else ""
    return ", ".join(part for part in (rate, rtt, str(kind)) if part)


def _words(value: Any) -> str:
    """A quantity with its unit, a plain number in bit/s; empty for anything else."""
    number = quantity(value)
    if number is None:
        return ""
    return f"{number[0]:g} {number[1]}" if number[1] else f"{number[0] / 1e6:g} Mbit/s"


def directions(frame: pl.DataFrame) -> tuple[str, str]:
    """What the way there and the way back are called: an access is the slower upward."""
    rates = {(str(each.get("rate")), str(each.get("back_rate"))) for each in _dumbbells(frame)}
    found = {(quantity(there), quantity(back)) for there, back in rates}
    if found and all(there and back and there[0] > back[0] for there, back in found):
        return "downward", "upward"
    if found and all(there and back and there[0] < back[0] for there, back in found):
        return "upward", "downward"
    return "forward", "backward"


def _dumbbells(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """The different bottlenecks of the runs; none if a run has no dumbbell."""
    if "scenario" not in frame.columns:
        return []
    texts = without_seed(frame["scenario"].drop_nulls()).unique(maintain_order=True)
    found = [tomllib.loads(text).get("dumbbell") for text in texts]
    kept = [each for each in found if each]
    return kept if len(kept) == len(found) else []


def level_text(level: Any) -> str:
    """A level in the sweep's spelling; a store may keep whole numbers as floats, and tables as JSON.

    >>> level_text(2.0), level_text("40ms"), level_text('{"discipline": "cake", "rate": "9.5mbit"}')
    ('2', '40ms', 'cake, rate 9.5mbit')
    """
    if isinstance(level, str) and level.startswith("{"):
        table = json.loads(level)
        return ", ".join(str(value) if key in _NAMING else f"{key} {value}" for key, value in table.items())
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
    for kind, scale, unit in ((Rate, 1e-6, "Mbit/s"), (Duration, 1e-9, "ms"), (Bytes, 1e-3, "kB")):
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


def metric_title(column: str, ways: tuple[str, str] | None = None) -> str:
    """What a metric is called at an axis: of what, its name and its unit.

    `ways` names the two directions of a flow that has a way back, as `directions` does.

    >>> metric_title("call.delay_p95_ms")
    'call: one-way delay, 95th percentile (ms)'
    >>> metric_title("call.back.delay_p95_ms", ("downward", "upward"))
    'call, upward: one-way delay, 95th percentile (ms)'
    """
    if is_expression(column):
        return column
    of, _, name = column.rpartition(".")
    if row := RUN_MEASURES.get(name):
        words, unit = re.sub(r"\b(\d\d) %", r"\1th percentile", row.title), row.unit
    else:
        stem, _, ending = name.rpartition("_")
        words, unit = (stem or name, _UNITS[ending]) if stem and ending in _UNITS else (name, "")
        words = words.replace("_", " ")
    if ways:
        of = f"{of.removesuffix('.back')}, {ways[of.endswith('.back')]}"
    return (f"{of}: " if of else "") + words + (f" ({unit})" if unit else "")


#: Total goodput of all TCP flows, and the stem of its column.
_TOTAL, _GOODPUT = "total", "goodput"


def metric_column(frame: pl.DataFrame, metric: str) -> str:
    """The numeric column of that name, which may lack its unit suffix; `total` is the goodput of all flows.

    `NoSuchColumn` suggests the nearest name.
    """
    numeric = [name for name in frame.columns if frame[name].dtype.is_numeric()]
    stem = _GOODPUT if metric == _TOTAL else metric
    for name in (metric, stem, *(f"{stem}_{unit}" for unit in _UNITS)):
        if name in numeric:
            return name
    close = nearest(metric, numeric)
    hint = f' Did you mean "{close}"?' if close else ""
    kept = f"Of runs with more than {MOST} flows, metrics of single flows are kept only if [metrics] names them"
    raise NoSuchColumn(f'the store has no numbers in a column "{metric}".{hint} {kept}. See: tailback results query')


#: A name in an expression: bare, or in quotes if it has other characters.
_NAME = re.compile(r'"([^"]+)"|([A-Za-z_]\w*(?:\.\w+)*)(?!\s*\()')


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
        name = metric_column(frame, found[1] or found[2])
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
