"""From what a condition's two sides were, seed by seed, to a verdict.

Sides of one run, and those of two runs with one seed, share their random draws: differences are taken seed by seed.
`tailback.experiment.statistics.side` says on which side of zero they lie, or that it is undecided. It gets no ratios: a
condition is the same if something is added to both of its sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailback.experiment.statistics import Interval, interval, side

__all__ = ["FAILED", "PASSED", "UNDECIDED", "UNFINISHED", "Judged", "judge", "together"]

PASSED, FAILED, UNDECIDED, UNFINISHED = "passed", "failed", "undecided", "not finished"


@dataclass(frozen=True)
class Judged:
    """A verdict with what it rests on."""

    verdict: str
    #: Of the left side.
    measured: Interval
    #: Of each bound.
    bounds: tuple[Interval, ...]
    #: Reason of the verdict, where the intervals do not show it.
    why: str = ""
    #: The seed whose run is furthest from where the condition holds.
    worst_seed: int | None = None


def judge(relation: str, sides: Mapping[int, Sequence[float]], confidence: float = 0.95) -> Judged:
    """The verdict on a condition of which `sides` are the left side and the bounds, by seed.

    >>> judge("<", {1: (9.0, 50.0), 2: (11.0, 50.0)}).verdict, judge("<", {1: (9.0, 10.0), 2: (11.0, 10.0)}).verdict
    ('passed', 'undecided')
    """
    intervals = [interval(column, "mean", confidence=confidence) for column in zip(*sides.values(), strict=True)]
    measured, bounds = intervals[0], tuple(intervals[1:])
    missing = [seed for seed, values in sides.items() if not all(math.isfinite(value) for value in values)]
    if missing:
        # Left out they would hide the worst: a flow that never sent has no delay.
        seeds = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
        return Judged(FAILED, measured, bounds, f"there is no such number with seed {seeds}", missing[0])
    # Smaller and greater of what must not be less, by seed.
    lower = {seed: (values[1], values[0]) for seed, values in sides.items()}
    upper = {seed: (values[0], values[-1]) for seed, values in sides.items()}
    pairs = [lower, upper] if relation == "in" else [lower if relation in (">", ">=") else upper]
    verdict = together([_verdict(list(each.values()), confidence, strict=relation in ("<", ">")) for each in pairs])
    worst = min(sides, key=lambda seed: min(more - less for each in pairs for less, more in [each[seed]]))
    return Judged(verdict, measured, bounds, worst_seed=worst)


def _verdict(pairs: Sequence[tuple[float, float]], confidence: float, *, strict: bool) -> str:
    """Is the second above the first, or if not `strict` equal?"""
    margins = [more - less for less, more in pairs]
    found = side(margins, confidence=confidence, at_zero=-1 if strict else 1)
    return {1: PASSED, -1: FAILED, 0: UNDECIDED}[found]


def together(verdicts: Sequence[str]) -> str:
    """That of several: one failure fails all, and what is undecided leaves all undecided."""
    for worst in (FAILED, UNFINISHED, UNDECIDED):
        if worst in verdicts:
            return worst
    return PASSED
