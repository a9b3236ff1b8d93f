"""The list of metrics: one decorator a function, from which `tailback list metrics` and the docs are printed."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tailback.errors import TailbackError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class MetricInfo:
    """What a metric measures, in which unit, by which definition and after whom."""

    name: str
    title: str
    unit: str
    source: str
    function: Callable[..., Any]

    @property
    def definition(self) -> str:
        """The function's own words: its docstring."""
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first sentence of the definition."""
        return " ".join(self.definition.split("\n\n", 1)[0].split())


class UnknownMetric(TailbackError, ValueError):
    """A name that is in no registry row."""


_METRICS: dict[str, MetricInfo] = {}


def metric(*, title: str, unit: str, source: str) -> Callable[[F], F]:
    """Registers a function under its own name; the docstring is the definition."""

    def register(function: F) -> F:
        name = function.__name__
        if name in _METRICS:
            raise ValueError(f"two metrics are called {name}")
        _METRICS[name] = MetricInfo(name, title, unit, source, function)
        return function

    return register


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
    """`docs/metrics.md`, made from the registry so that it cannot go stale."""
    lines = [
        "# Metrics",
        "",
        "Every metric is a pure function of a result's rows; `tailback.metrics.get(name)` finds it and",
        "`tailback list metrics` prints this list. This page is `metrics.markdown()`; a test holds the two equal.",
    ]
    for entry in catalogue():
        lines += ["", f"## {entry.name}", "", f"*{entry.title}.* Unit: {entry.unit}. Source: {entry.source}."]
        lines += ["", entry.definition]
    return "\n".join(lines) + "\n"
