"""Decides which measures changed, from the values of both sides seed by seed.

All seeds are fixed beforehand, in two groups of equal size.

1. Each measure of each scenario has a p-value over the first group: Wilcoxon's signed-rank test (1945), exact, over the
differences that are not zero. Equal sides have p = 1. The only assumption is that under the null hypothesis the sides
of a pair are exchangeable, so that a difference is as likely as its negative. A difference that is the same in every
pair counts by its sign like any other. 2. Benjamini and Hochberg's procedure at `FOUND` over all measures of all
scenarios selects those to examine. 3. These are run with the second group, fresh seeds, and Holm's procedure at
`CONFIRMED` decides which changed. A change with the opposite sign does not count. Estimates and intervals are from the
second group alone: those from the first are biased upwards, as it made the selection. 4. A scenario in which every seed
gives the same run, on each side, is one case. Its runs are deterministic, so any difference is due to the change. It is
shown as exact, without an interval, and is not part of the procedures. 5. A difference below `least` of the larger side
is not shown.

A comparison of two equal sides thus gives a false alarm with a probability of at most `FOUND` × `CONFIRMED`, one in a
thousand; if the runs themselves are equal, never.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback.judge import Interval, decided, holm, interval, signed_rank
from tailback.metrics.registry import RUN_MEASURES

__all__ = [
    "CONFIRMED",
    "FOUND",
    "LEAST",
    "PAIRS",
    "Change",
    "Columns",
    "Key",
    "changes",
    "columns",
    "exact",
    "examined",
    "is_one_case",
    "pairs_needed",
]  # fmt: skip

FOUND = 0.05
CONFIRMED = 0.02
#: Pairs in each of the two groups.
PAIRS = 16
#: Differences below this share of the larger side are not shown.
LEAST = 0.01

#: A scenario and one of its measures.
Key = tuple[str, str]
#: By seed: the base's value and the working tree's.
Columns = dict[str, dict[int, tuple[float, float]]]

#: Suffix of a measure's name for the measure of whether it exists.
_EXISTS = " exists"


@dataclass(frozen=True)
class Change:
    """A measure that changed."""

    scenario: str
    measure: str
    base: Interval
    change: Interval
    #: Interval of working tree minus base, paired by seed.
    difference: Interval
    #: p-value of the signed-rank test over the confirming seeds; 0 for an exact difference.
    p: float
    #: "higher" or "lower", whichever is better; "" if neither is.
    better: str
    #: Whether every seed gives the same run, so that the difference is exact.
    is_exact: bool = False

    @property
    def verdict(self) -> str:
        """Whether the working tree is "better" or "worse", or just "changed"."""
        if not self.better:
            return "changed"
        return "better" if (self.difference.estimate > 0) == (self.better == "higher") else "worse"

    @property
    def share(self) -> float:
        """The difference as a share of the base; NaN where that is zero."""
        return self.difference.estimate / abs(self.base.estimate) if self.base.estimate else math.nan

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""

        def as_dict(found: Interval) -> dict[str, float]:
            return {"mean": found.estimate, "low": found.low, "high": found.high}

        return {
            "scenario": self.scenario, "measure": self.measure, "verdict": self.verdict, "pairs": self.difference.n,
            "base": as_dict(self.base), "change": as_dict(self.change), "difference": as_dict(self.difference),
            "share": self.share, "p": self.p, "better": self.better or None, "exact": self.is_exact,
        }  # fmt: skip


def pairs_needed(measures: int, asked: int = PAIRS) -> int:
    """Pairs that a group needs, so that a single changed measure among `measures` can be found.

    >>> pairs_needed(100), pairs_needed(10_000)
    (16, 19)
    """
    return max(asked, 1 + math.ceil(math.log2(max(measures, 1) / FOUND)))


def columns(sides: Sequence[Mapping[int, Mapping[str, float]]], names: Sequence[str]) -> Columns:
    """Pairs of both sides' values by seed; if a side lacks a value, also a measure of whether it exists."""
    out: Columns = {}
    seeds = sorted(sides[0].keys() & sides[1].keys())
    for name in names:
        pairs = {seed: (sides[0][seed][name], sides[1][seed][name]) for seed in seeds}
        there = {seed: (math.isfinite(a), math.isfinite(b)) for seed, (a, b) in pairs.items()}
        out[name] = {seed: pair for seed, pair in pairs.items() if there[seed] == (True, True)}
        if any(a != b for a, b in there.values()):
            out[name + _EXISTS] = {seed: (float(a), float(b)) for seed, (a, b) in there.items()}
    return {name: column for name, column in out.items() if len(column) > 1}


def is_one_case(sides: Sequence[Mapping[int, Mapping[str, float]]]) -> bool:
    """Whether every seed gives the same run, on each side."""
    return all(len({repr(sorted(row.items())) for row in side.values()}) == 1 for side in sides)


def examined(families: Mapping[str, Columns], least: float = LEAST) -> list[Key]:
    """The measures to run again with fresh seeds, selected by the first group."""
    keys = [(scenario, name) for scenario, found in families.items() for name in found]
    ps = [signed_rank(_differences(families[scenario][name])) for scenario, name in keys]
    return [
        key
        for key, is_found in zip(keys, decided(ps, FOUND), strict=True)
        if is_found and _is_large(families[key[0]][key[1]], least)
    ]


def changes(
    first: Mapping[str, Columns],
    second: Mapping[str, Columns],
    keys: Sequence[Key],
    better: Mapping[Key, str],
    least: float = LEAST,
) -> list[Change]:
    """The examined measures that changed according to the second group."""
    ps = []
    for key in keys:
        before, now = (_differences(group.get(key[0], {}).get(key[1], {})) for group in (first, second))
        agrees = sum(before) * sum(now) > 0.0
        ps.append(signed_rank(now) if agrees and _is_large(second[key[0]][key[1]], least) else 1.0)
    return [
        _change(key, second[key[0]][key[1]], p, better.get(key, ""))
        for key, p, is_confirmed in zip(keys, ps, holm(ps, CONFIRMED), strict=True)
        if is_confirmed
    ]


def exact(scenario: str, found: Columns, better: Mapping[Key, str], least: float = LEAST) -> list[Change]:
    """The measures that differ in a scenario that is one case."""
    return [
        _change((scenario, name), column, 0.0, better.get((scenario, name), ""), is_exact=True)
        for name, column in found.items()
        if any(_differences(column)) and _is_large(column, least)
    ]


def better_by_name(measure: str) -> str:
    """Whether "higher" or "lower" is better, by a measure's name; "" if neither is."""
    row = RUN_MEASURES.get(measure.rpartition(".")[2])
    return (row and row.better) or ""


def _differences(column: Mapping[int, tuple[float, float]]) -> list[float]:
    # A rounding error of float sums is not a difference.
    return [0.0 if math.isclose(a, b, rel_tol=1e-12) else b - a for a, b in column.values()]


def _is_large(column: Mapping[int, tuple[float, float]], least: float) -> bool:
    if not column:
        return False
    a, b = np.mean(list(column.values()), axis=0)
    return bool(abs(b - a) >= least * max(abs(a), abs(b)))


def _change(
    key: Key, column: Mapping[int, tuple[float, float]], p: float, better: str, *, is_exact: bool = False
) -> Change:
    a, b = zip(*column.values(), strict=True)
    means = [interval(side, "mean") for side in (a, b)]
    difference = interval([y - x for x, y in column.values()], "mean")
    return Change(key[0], key[1], means[0], means[1], difference, p, better, is_exact)
