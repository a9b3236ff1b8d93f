"""The paired null: the simulator against itself, same seeds, disturbed as a host may disturb it.

A comparison with a kernel means something only beside this one. Kernel and simulator share their random draws, and so
do these pairs; what the disturbed run differs in is phase alone. So an exact model of a kernel on a host with that much
noise would do no better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import tailback as tb
from tailback_validation.sampled import Cell, Error, Measures, error_of, measure

__all__ = ["NOISES", "Noise", "equivalent", "nulls"]


@dataclass(frozen=True)
class Noise:
    """A disturbance: its name, `[randomness]` of the disturbed run, and its size in µs if hosts delay packets by it."""

    name: str
    randomness: Mapping[str, str]
    jitter_us: float | None = None


def _jitter(us: int) -> Noise:
    return Noise(f"hosts delay each packet by up to {us} µs", {"processing_jitter": f"{us}us"}, us)


#: From a microsecond, which decides between events at one instant, to what no host has; and a jiffy of HZ 250 later.
NOISES = (
    *map(_jitter, (1, 20, 100, 500, 2000)),
    Noise("flows start up to 4 ms (a jiffy) later", {"start_spread": "4ms"}),
)


def nulls(
    cells: Sequence[Cell], own: Mapping[int, Sequence[Measures]], of: Mapping[str, Any] | None = None
) -> dict[str, list[Error]]:
    """For each noise: the errors of the simulator (`own`, of `sampled.simulated`) against itself, disturbed."""
    out = {}
    for noise in NOISES:
        scenarios = [cell.scenario(of).with_(randomness=dict(noise.randomness)) for cell in cells]
        runs = tb.run_many(scenarios, then=measure)
        out[noise.name] = [error_of(cell, truth, own[cell.number]) for cell, truth in zip(cells, runs, strict=True)]
    return out


def equivalent(within: float, shares: Mapping[str, float]) -> str:
    """How much noise on every packet makes the simulator differ from itself as much as `within`, in words.

    `within` is the share of cells within both bounds, `shares` that of each noise of `NOISES`, by name.
    """
    steps = [(noise.jitter_us, shares[noise.name]) for noise in NOISES if noise.jitter_us is not None]
    if within >= steps[0][1]:
        return f"at most {steps[0][0]:g} µs"
    for (low, _), (high, share) in pairwise(steps):
        if within >= share:
            return f"between {low:g} and {high:g} µs"
    return f"more than {steps[-1][0]:g} µs"
