"""From what a condition's two sides were, seed by seed, to a verdict.

The difference of the sides has a mean over the seeds and an interval (Student's t). Sides of one run, and those of two
runs with one seed, share their random draws: differences are taken seed by seed. The verdict is that of the interval:
all of it where the condition holds, all of it where it does not, or undecided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailback.experiment.statistics import Interval, interval

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
    #: Why, where the intervals do not say it.
    why: str = ""


def judge(relation: str, sides: Mapping[int, Sequence[float]], confidence: float = 0.95) -> Judged:
    """The verdict on a condition of which `sides` are the left side and the bounds, by seed.

    >>> judge("<", {1: (9.0, 50.0), 2: (11.0, 50.0)}).verdict, judge("<", {1: (9.0, 10.0), 2: (11.0, 10.0)}).verdict
    ('passed', 'undecided')
    """
    told = [interval(column, "mean", confidence=confidence) for column in zip(*sides.values(), strict=True)]
    measured, bounds = told[0], tuple(told[1:])
    missing = [seed for seed, values in sides.items() if not all(math.isfinite(value) for value in values)]
    if missing:
        # Left out they would hide the worst: a flow that never sent has no delay.
        seeds = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
        return Judged(FAILED, measured, bounds, f"there is no such number with seed {seeds}")
    if relation == "in":
        low = _verdict([values[0] - values[1] for values in sides.values()], confidence, strict=False)
        high = _verdict([values[2] - values[0] for values in sides.values()], confidence, strict=False)
        return Judged(together([low, high]), measured, bounds)
    sign = 1.0 if relation in (">", ">=") else -1.0
    margins = [sign * (left - bound) for left, bound in sides.values()]
    return Judged(_verdict(margins, confidence, strict=relation in ("<", ">")), measured, bounds)


def _verdict(margins: Sequence[float], confidence: float, *, strict: bool) -> str:
    """Is the mean above zero, or if not `strict` zero?"""
    found = interval(margins, "mean", confidence=confidence)
    if found.low > 0.0 or (found.low == 0.0 and not strict):
        return PASSED
    if found.high < 0.0 or (found.high == 0.0 and strict):
        return FAILED
    return UNDECIDED


def together(verdicts: Sequence[str]) -> str:
    """That of several: one failure fails all, and what is undecided leaves all undecided."""
    for worst in (FAILED, UNFINISHED, UNDECIDED):
        if worst in verdicts:
            return worst
    return PASSED
