"""Designs: the points at which a sweep runs, as grids, zipped lists, Latin hypercubes, Sobol sequences, products.

A point maps the path of a value in the scenario to the value. `*` combines every point of one design with every point
of the other; `+` appends one design to the other.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import extras
from tailback.errors import Problem, ScenarioError
from tailback.units import Bytes, Duration, Rate

#: Maximum points of a sweep.
MOST_POINTS = 10_000_000

__all__ = ["Design", "Point", "Span", "grid", "latin_hypercube", "single", "sobol", "table", "zipped"]

Point = dict[str, Any]


def refuse(field: str, value: Any, problem: str, fix: str) -> ScenarioError:
    """The error for a fault in a sweep's description, in the format of a scenario's."""
    return ScenarioError([Problem(field, value, problem, fix)])


#: Maximum runs of a sweep. A row of the store takes some kilobytes, a run at least a millisecond.
MOST_RUNS = 10_000_000


def demand_few(field: str, number: int, what: str) -> None:
    """Raise `ScenarioError` where a sweep would have more than `MOST_RUNS` of something."""
    if number > MOST_RUNS:
        fix = "Give fewer, or several sweeps into one store"
        raise refuse(field, number, f"a sweep has at most {MOST_RUNS} {what}", fix)


class Design:
    """Points, generated when they are needed.

    >>> rates = grid({"dumbbell.rate": ["1mbit", "10mbit"]})
    >>> senders = zipped({"flow.bulk.cc": ["reno", "cubic"], "flow.bulk.stack": ["freebsd-7", "linux"]})
    >>> len(rates * senders), next(iter(rates * senders))
    (4, {'dumbbell.rate': '1mbit', 'flow.bulk.cc': 'reno', 'flow.bulk.stack': 'freebsd-7'})
    """

    def __init__(self, axes: Sequence[str], size: int, points: Callable[[], Iterator[Point]]) -> None:
        demand_few("grid", size, "points")
        #: The paths that the design varies.
        self.axes = tuple(axes)
        self._size = size
        self._points = points

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Point]:
        return self._points()

    def __mul__(self, other: Design) -> Design:
        twice = [path for path in self.axes if path in other.axes]
        if twice:
            raise refuse(twice[0], None, "is varied twice", "Vary each path in one design")
        pairs = lambda: ({**a, **b} for a in self for b in other)  # noqa: E731
        return Design(self.axes + other.axes, len(self) * len(other), pairs)

    def only(self, path: str, value: Any) -> Design:
        """The points at which an axis has this value."""
        levels = list(dict.fromkeys(str(point[path]) for point in self if path in point))
        if str(value) not in levels:
            raise refuse(path, str(value), "no point of the sweep has this value", f"It has: {', '.join(levels)}")
        wanted = [point for point in self if str(point.get(path)) == str(value)]
        return Design(self.axes, len(wanted), lambda: iter(wanted))

    def __add__(self, other: Design) -> Design:
        axes = dict.fromkeys(self.axes + other.axes)
        return Design(tuple(axes), len(self) + len(other), lambda: itertools.chain(self, other))


def _checked(what: str, axes: Mapping[str, Any]) -> None:
    if not axes:
        raise refuse(what, None, "varies nothing", 'Name a path and its values: "dumbbell.rate" = ["1mbit", "10mbit"]')
    for path in axes:
        if path == "seed":
            raise refuse(f"{what}.seed", None, "seeds are no axis", "Use seeds = 5, or a list of seeds")


def _values(what: str, path: str, values: Any) -> list[Any]:
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence | np.ndarray):
        raise refuse(f"{what}.{path}", str(values), "is no list of values", f"Write [{values!r}]")
    out = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not out:
        raise refuse(f"{what}.{path}", None, "the list of values is empty", "Give at least one value")
    return out


def single() -> Design:
    """The base scenario alone, for runs that differ only in the seed."""
    return Design((), 1, lambda: iter([{}]))


def grid(axes: Mapping[str, Sequence[Any]]) -> Design:
    """Every combination of the values of each path; the last path varies fastest.

    >>> len(grid({"dumbbell.rate": ["1mbit", "10mbit"], "flow.bulk.cc": ["reno", "cubic", "htcp"]}))
    6
    """
    _checked("grid", axes)
    lists = {path: _values("grid", path, values) for path, values in axes.items()}

    def points() -> Iterator[Point]:
        return (dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values()))

    return Design(tuple(lists), math.prod(len(values) for values in lists.values()), points)


def zipped(axes: Mapping[str, Sequence[Any]]) -> Design:
    """The first values of all paths as one point, the second values as the next, and so on.

    >>> list(zipped({"flow.bulk.cc": ["reno", "htcp"], "dumbbell.tick_hz": [100, 1000]}))[1]
    {'flow.bulk.cc': 'htcp', 'dumbbell.tick_hz': 1000}
    """
    _checked("zip", axes)
    lists = {path: _values("zip", path, values) for path, values in axes.items()}
    lengths = {path: len(values) for path, values in lists.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{path} has {length}" for path, length in lengths.items())
        raise refuse("zip", None, f"the lists differ in length: {listed}", "Give lists of one length, or use a grid")

    def points() -> Iterator[Point]:
        return (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))

    return Design(tuple(lists), next(iter(lengths.values())), points)


def table(columns: Sequence[str | Sequence[str]], rows: Sequence[Sequence[Any]]) -> Design:
    """One point per row. A column is the path of a value, or several paths with the same value.

    >>> list(table(["dumbbell.rate", ["flow.a.cc", "flow.b.cc"]], [["1mbit", "reno"], ["9mbit", "htcp"]]))[1]
    {'dumbbell.rate': '9mbit', 'flow.a.cc': 'htcp', 'flow.b.cc': 'htcp'}
    """
    groups = [[each] if isinstance(each, str) else list(each) for each in _values("table", "columns", columns)]
    for number, row in enumerate(_values("table", "rows", rows)):
        if isinstance(row, str | Mapping) or not isinstance(row, Sequence) or len(row) != len(groups):
            has = len(row) if isinstance(row, Sequence) and not isinstance(row, str) else "no"
            problem = f"has {has} values for {len(groups)} columns"
            raise refuse(f"table.rows[{number}]", None, problem, "Give each column one value, in the columns' order")
    values = list(zip(*rows, strict=True))
    paths = [path for group in groups for path in group]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise refuse("table.columns", twice[0], "is varied twice", "Name each path in one column")
    return zipped({path: own for group, own in zip(groups, values, strict=True) for path in group})


# --- Samples of a continuous space ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """A range of numbers or quantities to sample from, uniformly or log-uniformly.

    >>> Span("1mbit", "100mbit", log=True).at(0.5)
    '10mbit'
    """

    low: Any
    high: Any
    log: bool = False

    def at(self, share: float) -> Any:
        """The value at the fraction `share` of the range, to six digits."""
        low, high, unit = _ends(self.low, self.high)
        if self.log and not (low > 0 and high > 0):
            raise refuse("span", f"{self.low} … {self.high}", "has no logarithm", "Give ends above zero")
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        if callable(unit):
            return str(unit(round(float(f"{value:.6g}"))))
        if unit:
            return f"{round(value) if unit == 'packets' else float(f'{value:.6g}'):g}{unit}"
        both_whole = isinstance(self.low, int) and isinstance(self.high, int)
        return round(value) if both_whole else float(f"{value:.6g}")


def _ends(low: Any, high: Any) -> tuple[float, float, Any]:
    """Both ends as numbers, and the class or suffix that turns such a number into a value; None for plain numbers."""
    if not isinstance(low, str) and not isinstance(high, str):
        kind = type(low) if isinstance(low, Rate | Duration | Bytes) else None
        return float(low), float(high), kind
    parts = [re.fullmatch(r"\s*([-+]?[0-9.]+(?:[eE][-+]?\d+)?)\s*([A-Za-z/]*)\s*", str(end)) for end in (low, high)]
    if parts[0] and parts[1] and parts[0][2] == parts[1][2] and parts[0][2] in ("bdp", "packets"):
        return float(parts[0][1]), float(parts[1][1]), parts[0][2]
    for kind in (Rate, Duration, Bytes):
        try:
            return float(kind(low)), float(kind(high)), kind
        except ValueError:
            continue
    fix = 'Write for example from = "1mbit", to = "10mbit"'
    raise refuse("span", f"{low} … {high}", "the ends are no quantities of one kind", fix)


def _sampled(what: str, axes: Mapping[str, Any], shares: Any) -> Design:
    rulers: list[Callable[[float], Any]] = []
    for path, axis in axes.items():
        if isinstance(axis, tuple) and len(axis) == 2:
            axis = Span(*axis)
        if isinstance(axis, Span):
            axis.at(0.5)  # Raises the error for a wrong span at once.
            rulers.append(axis.at)
        else:
            values = _values(what, path, axis)
            rulers.append(functools.partial(_choose, values))
    rows = [{path: ruler(float(share)) for path, ruler, share in zip(axes, rulers, row, strict=True)} for row in shares]
    return Design(tuple(axes), len(rows), lambda: (dict(row) for row in rows))


def _choose(values: Sequence[Any], share: float) -> Any:
    return values[min(int(share * len(values)), len(values) - 1)]


def _points_wanted(what: str, points: Any) -> int:
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise refuse(f"{what}.points", points, "is no number of points", "Give 1 or more")
    if points > MOST_POINTS:
        raise refuse(f"{what}.points", points, f"a sweep has at most {MOST_POINTS} points", "Give fewer")
    return points


def latin_hypercube(axes: Mapping[str, Any], points: int, *, seed: int = 1) -> Design:
    """`points` samples, with exactly one in each of `points` equal slices of every axis (McKay et al. 1979).

    An axis is a `Span`, a pair (low, high), or a list of values to choose from.

    >>> design = latin_hypercube({"dumbbell.rate": Span("1mbit", "100mbit", log=True), "dumbbell.queue": ["1bdp"]}, 8)
    >>> len(design)
    8
    """
    _checked("latin-hypercube", axes)
    wanted = _points_wanted("latin-hypercube", points)
    qmc = extras.load("scipy.stats.qmc", "a Latin hypercube")

    return _sampled("latin-hypercube", axes, qmc.LatinHypercube(len(axes), seed=seed).random(wanted))


def sobol(axes: Mapping[str, Any], points: int, *, seed: int = 1) -> Design:
    """`points` samples, a power of two, of Sobol's sequence, scrambled after Owen. Axes as in `latin_hypercube`."""
    _checked("sobol", axes)
    wanted = _points_wanted("sobol", points)
    power = wanted.bit_length() - 1
    if wanted != 1 << power:
        near = f"{1 << power} or {2 << power}"
        raise refuse("sobol.points", wanted, "a Sobol design is balanced only for powers of two", f"Take {near}")
    qmc = extras.load("scipy.stats.qmc", "a Sobol design")

    return _sampled("sobol", axes, qmc.Sobol(len(axes), seed=seed).random_base2(power))
