"""Computes verdicts on conditions from the values of both sides, seed by seed.

Both sides share their random draws, as values of one run or of two runs with one seed, so differences are taken seed by
seed. Rust decides on which side of zero they lie, or that it is undecided (`crates/tailback-measures/src/verdict.rs`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailback import _core
from tailback.judge import Interval, Verdict, interval

__all__ = ["Judged", "judge"]


@dataclass(frozen=True)
class Judged:
    """A verdict with its evidence."""

    verdict: str
    #: Interval of the left side.
    measured: Interval
    #: Interval of each bound.
    bounds: tuple[Interval, ...]
    #: Reason for the verdict, if the intervals do not show it.
    why: str = ""
    #: The seed whose run violates the condition most, or is nearest to doing so.
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
        # Leaving such seeds out would hide the worst ones: a flow that never sent has no delay.
        seeds = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
        return Judged(Verdict.FAILED, measured, bounds, f"nothing to measure it by with seed {seeds}", missing[0])
    verdict, worst = _core.condition_judge(relation, [list(each) for each in sides.values()], confidence)
    return Judged(Verdict(verdict), measured, bounds, worst_seed=list(sides)[worst])
