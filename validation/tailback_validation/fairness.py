"""Measures how two flows of the same congestion control share a link, with equal and with unequal round trips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

import tailback as tb

__all__ = ["Sharing", "measure"]

#: The link, its queue, and the round trips. The queue is one BDP of the longer one, so that no flow starves for lack of
#: buffer.
RATE = "10mbit"
SHORT_MS, LONG_MS = 40, 160
SEEDS = (1, 2, 3, 4, 5, 6, 7)
#: Start of the second flow, varied by the seed; shares are measured later.
LATER, APART = "10s", "5s"
#: Random send delay of hosts, up to one serialisation time; without it, the two flows would synchronise.
JITTER = "1200us"
FROM_S, UNTIL_S = 60, 180


@dataclass(frozen=True)
class Sharing:
    """Shares of two flows, each the median over the seeds."""

    name: str
    #: Goodput of the smaller flow over that of the larger, both with the short round trip: 1 is fair.
    equal: float
    #: Goodput of the flow with the short round trip over that of the one with the long.
    unequal: float
    #: Goodput of both together over the link's rate, with equal round trips.
    used: float


def _scenario(name: str, second_ms: int, seed: int) -> tb.Scenario:
    extra_ms = (second_ms - SHORT_MS) / 2
    return tb.dumbbell(
        name=f"{name} beside itself at {second_ms} ms",
        rate=RATE,
        rtt=f"{SHORT_MS}ms",
        queue="200kB",
        flows=[
            tb.bulk(name, name="short"),
            tb.bulk(name, name="second", start=LATER, access_delay=f"{extra_ms:g}ms"),
        ],
        duration=f"{UNTIL_S}s",
        seed=seed,
        randomness={"start_spread": APART, "processing_jitter": JITTER},
        instruments={"polls": "all", "poll_interval": "10s"},
    )


def _goodputs(result: tb.Result) -> tuple[float, float]:
    out = []
    for flow in ("short", "second"):
        polls = result.where_flow("polls", flow)
        late = polls["t_s"] >= FROM_S
        acked, t_s = polls["bytes_acked"][late], polls["t_s"][late]
        out.append(float(acked[-1] - acked[0]) * 8 / float(t_s[-1] - t_s[0]))
    return out[0], out[1]


def measure(names: Iterable[str], *, seeds: Sequence[int] = SEEDS, workers: int | None = None) -> list[Sharing]:
    """Run and measure the algorithms called `names`."""
    names = list(names)
    grid = [(name, rtt, seed) for name in names for rtt in (SHORT_MS, LONG_MS) for seed in seeds]
    pairs = tb.run_many((_scenario(*cell) for cell in grid), workers=workers, then=_goodputs)
    found = dict(zip(grid, pairs, strict=True))
    rate = int(tb.Rate(RATE))

    def median(name: str, rtt: int, of: str) -> float:
        cells = np.array([found[name, rtt, seed] for seed in seeds])
        each = {
            "equal": cells.min(axis=1) / cells.max(axis=1),
            "ratio": cells[:, 0] / np.maximum(cells[:, 1], 1.0),
            "used": cells.sum(axis=1) / rate,
        }[of]
        return float(np.median(each))

    return [
        Sharing(name, median(name, SHORT_MS, "equal"), median(name, LONG_MS, "ratio"), median(name, SHORT_MS, "used"))
        for name in names
    ]
