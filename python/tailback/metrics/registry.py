"""The list of metrics, from which `tailback list metrics` and the documentation are generated.

Measures that the explorer or a Rust program also computes have their row and arithmetic in the crate
`tailback-measures`; `measure` registers their functions. `metric` registers a function that only Python has.
"""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tailback import _core
from tailback.errors import TailbackError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class MetricInfo:
    """A metric: what it measures, its unit, definition and source."""

    name: str
    title: str
    unit: str
    source: str
    function: Callable[..., Any]
    #: The definition as a formula. This and the following fields are empty for a metric without a row in
    #: `tailback-measures`.
    formula: str = ""
    #: Tables it is computed from; `a | b` means either.
    tables: tuple[str, ...] = ()
    #: Which rows belong to a time window.
    window: str = ""
    #: How the values of several seeds are combined.
    over_seeds: str = ""
    #: Whether "higher" or "lower" is better.
    better: str = ""

    @property
    def definition(self) -> str:
        """The function's docstring."""
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first sentence of the definition."""
        return " ".join(self.definition.split("\n\n", 1)[0].split())


class UnknownMetric(TailbackError, ValueError):
    """An unknown name of a metric."""


_METRICS: dict[str, MetricInfo] = {}
_ROWS: dict[str, dict[str, Any]] = {row["name"]: row for row in json.loads(_core.measures())}


@dataclass(frozen=True)
class RunMeasure:
    """A measure of a whole run or of a window, by the last part of the names that sweeps and `[expect]` use."""

    name: str
    #: Label for an axis.
    title: str
    unit: str
    #: "higher" or "lower", whichever is better; None if neither is.
    better: str | None


#: The rows of `crates/tailback-measures/src/run/keys.rs`.
RUN_MEASURES = {row["name"]: RunMeasure(**row) for row in json.loads(_core.run_measures())}


def metric(*, title: str, unit: str, source: str) -> Callable[[F], F]:
    """Decorator: registers a function under its own name; the docstring is the definition."""

    def register(function: F) -> F:
        return _register(MetricInfo(function.__name__, title, unit, source, function), function)

    return register


def measure(function: F) -> F:
    """Decorator: registers a function by the row of its name in `tailback-measures`.

    The row defines the measure; the function's docstring describes its arguments and is appended to the row's
    definition.
    """
    row = dict(_ROWS[function.__name__])
    function.__doc__ = row.pop("definition") + "\n\n" + inspect.cleandoc(function.__doc__ or "")
    tables = tuple(row.pop("tables"))
    return _register(MetricInfo(function=function, tables=tables, **row), function)


def _register(info: MetricInfo, function: F) -> F:
    if info.name in _METRICS:
        raise ValueError(f"two metrics are called {info.name}")
    _METRICS[info.name] = info
    return function


def names() -> list[str]:
    """The metrics' names, in alphabetical order."""
    return sorted(_METRICS)


def get(name: str) -> MetricInfo:
    """The metric of that name."""
    try:
        return _METRICS[name]
    except KeyError:
        near = difflib.get_close_matches(name, _METRICS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}"
        raise UnknownMetric(f"no metric is called {name!r}; {hint}") from None


def catalogue() -> list[MetricInfo]:
    """Every metric, in alphabetical order."""
    return [_METRICS[name] for name in names()]


def markdown() -> str:
    """The page `docs/metrics.md`, generated from the registry."""
    lines = [
        "# Metrics",
        "",
        "Every metric is a pure function of a result's rows; `tailback.metrics.get(name)` finds it and",
        "`tailback list metrics` prints this list. Those with a formula have their row and their arithmetic in the",
        "crate `tailback-measures`, so that Python, the command line and the explorer give one number.",
        "`help(tailback.metrics.jain)` prints a metric's arguments. In tables and [conditions](ci.md#conditions)",
        "`jain` is that of the goodputs of all flows over TCP, over the whole run unless a condition names a window.",
        "`scripts/metrics_page` writes this page from `metrics.markdown()`; a test holds the two equal.",
    ]
    for entry in catalogue():
        lines += ["", f"## {entry.name}", "", f"*{entry.title}.* Unit: {entry.unit}. Source: {entry.source}."]
        if entry.formula:
            lines += ["", f"`{entry.formula}`"]
        lines += ["", entry.definition]
        if entry.formula:
            tables = ", ".join(" or ".join(f"`{name}`" for name in either.split(" | ")) for either in entry.tables)
            lines += ["", f"Tables: {tables or 'none'}. Window: {entry.window}. Over seeds: {entry.over_seeds}."]
            lines[-1] += f" {entry.better.capitalize()} is better."
    return "\n".join(lines) + "\n"
