"""From what a condition's two sides were, seed by seed, to a verdict.

Sides of one run, and those of two runs with one seed, share their random draws: differences are taken seed by seed.
Rust says on which side of zero they lie, or that it is undecided (`crates/tailback-measures/src/verdict.rs`).
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
        return Judged(Verdict.FAILED, measured, bounds, f"nothing to measure it by with seed {seeds}", missing[0])
    verdict, worst = _core.condition_judge(relation, [list(each) for each in sides.values()], confidence)
    return Judged(Verdict(verdict), measured, bounds, worst_seed=list(sides)[worst])
