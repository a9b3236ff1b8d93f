"""The paired null: the simulator against itself with the same seeds, with a host's noise in the second run.

A comparison with a kernel must be read against this null. Kernel and simulator share their random draws, and so do
these pairs; the disturbed run differs only in phase. So an exact model of a kernel on a host with that much noise would
do no better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
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


#: From one microsecond, which reorders simultaneous events, to more than any host has; and a start later by a jiffy at
#: HZ 250.
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
    """The noise per packet at which the simulator differs from itself as much as `within`, in words.

    `within` is the share of cells within both bounds, `shares` that of each noise of `NOISES`, by name. With little
    noise the nulls need not be in order: no bound is given that one of them contradicts.
    """
    steps = [(noise.jitter_us, shares[noise.name]) for noise in NOISES if noise.jitter_us is not None]
    closer = list(takewhile(lambda step: step[1] > within, steps))
    farther = list(takewhile(lambda step: step[1] <= within, reversed(steps)))
    if not farther:
        return f"more than {steps[-1][0]:g} µs"
    return f"between {closer[-1][0]:g} and {farther[-1][0]:g} µs" if closer else f"at most {farther[-1][0]:g} µs"
