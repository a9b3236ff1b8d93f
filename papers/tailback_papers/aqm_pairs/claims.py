"""The paper's claims.

Throughput is compared in the paper's own measure (received bytes, retransmissions included). “High BDP” is 40 and 80 ms
one way, “low BDP” 5 and 10 ms; the ten-flow scenario has 5 and 30 ms. A difference below 2 % is a tie.
Fairness is Jain's index of the flows' one-second rates, (Σx)²/(n·Σx²). The paper prints (Σx)²/(nΣx)², which would be
1/n² for every allocation; we take it for a misprint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tailback.experiment import SHARE, AtLeast, AtMost, Claim, Data, Measure, Measured, Summary
from tailback.experiment import of as measure_of

from .grid import ALGORITHMS, FAIR_DELAYS_MS, FLOWS, QUEUES, TITLES

LOW_MS, HIGH_MS = (5, 10), (40, 80)
RISING_S, SETTLED_S = 5, 40
FAIR = 0.8
"""Jain's index from which ten flows share rationally; below it two of ten flows' worth of the link is not shared."""
RISE = 0.02
"""The least rise of the index that counts as one: what may be its spread where it is called constant."""


def mean_jain(index: list[float], start_s: int = 5, end_s: int | None = None) -> float:
    """Mean of the per-second index from `start_s` on."""
    return float(np.nanmean(index[start_s:end_s]))


_of = partial(measure_of, titles=TITLES, whole=True)
_one = partial(_of, "wire_mbps")
"""Of the throughput of one flow."""


def _ten(value: Callable[[Any], Any], over: Callable[[Any], Any], each: str, **factors: Any) -> Measure:
    """Of the mean index of ten flows."""
    return _of("jain_per_second", value, over, each=each, take=mean_jain, flows=FLOWS, **factors)


def _share_above_zero(differences: Any) -> float:
    return 100.0 * float(np.mean(differences > 0.0))


def _series(data: Data, seed: int, algorithm: str, queue: str, delay_ms: int) -> tuple[list[float], Any]:
    """Jain's index of each second, and since the start."""
    found: Summary = data.need(seed, algorithm=algorithm, queue=queue, delay_ms=delay_ms, flows=FLOWS)
    return found["jain_per_second"], np.asarray(found["jain_so_far"])


def _rise(so_far: Any) -> float:
    """By how much the index since the start rises from 5 to 40 s."""
    return float(so_far[SETTLED_S - 1] - so_far[RISING_S - 1])


def _settles(data: Data, seed: int) -> Measured:
    _, so_far = _series(data, seed, "cubic", "codel", 5)
    rise = _rise(so_far)
    return Measured(float(np.ptp(so_far[SETTLED_S:])), {"rise from 5 to 40 s": rise}, holds=rise >= RISE)


def _no_recovery(data: Data, seed: int) -> Measured:
    each, so_far = _series(data, seed, "cubic", "pfifo", 5)
    early, late, rise = mean_jain(each, 5, SETTLED_S), mean_jain(each, SETTLED_S), _rise(so_far)
    parts = {"5–40 s": early, "after 40 s": late, "rise from 5 to 40 s": rise}
    return Measured(late - early, parts, holds=rise >= RISE)


def _reno_codel(data: Data, seed: int) -> Measured:
    near, far = (_series(data, seed, "reno", "codel", delay)[0] for delay in FAIR_DELAYS_MS)
    at_near, at_far = (float(np.nanstd(each[10:])) for each in (near, far))
    parts = {"mean at 5 ms": mean_jain(near), "σ at 5 ms": at_near, "σ at 30 ms": at_far}
    return Measured(at_far / at_near, parts)


def _convex_growth(data: Data, seed: int) -> Measured:
    """How much of the rise of the index since the start falls into the second half of its time.

    The rise goes from the index's lowest point until it first is nine tenths of the way to its last value. A straight
    rise has a half, a convex one more.
    """
    _, index = _series(data, seed, "cubic", "codel", 30)
    first = int(np.argmin(index[:SETTLED_S]))
    rise = float(index[-1] - index[first])
    parts = {"lowest": float(index[first]), "last": float(index[-1])}
    if rise < RISE:
        return Measured(0.0, parts, holds=False)
    top = index[first] + 0.9 * rise
    last = first + int(np.flatnonzero(index[first:] >= top)[0])
    middle = float(np.interp(0.5 * (first + last), np.arange(len(index)), index))
    share = 100.0 * (index[last] - middle) / (index[last] - index[first])
    return Measured(float(share), parts | {"rises from (s)": first + 1.0, "until (s)": last + 1.0})


def _high_after_start(data: Data, seed: int) -> Measured:
    each, so_far = _series(data, seed, "reno", "pfifo", 5)
    late = mean_jain(each, SETTLED_S)
    rise = float(so_far[SETTLED_S - 1] - np.nanmin(so_far[:RISING_S]))
    return Measured(rise, {"after 40 s": late}, holds=late >= FAIR)


_RISE = "Only what comes after 40 s was judged; the rise from 5 to 40 s that the paper speaks of must be there too."

# What the paper prints of its fairness is when it settles, in words; it prints no number of a result.
CLAIMS = (
    Claim("004-Q1", "CUBIC with CoDel at 5 ms: fairness improves until 40 s, then stays", "V-2, Fig. 7",
        "constant after 40 s", "",
        "spread (max − min) of the cumulative index after 40 s; from 5 to 40 s it must rise by 0.02", _settles,
        AtMost(0.02, 0.05), "fairness-cubic", redefined=_RISE, possible=(0.0, 1.0)),
    Claim("004-Q2", "CUBIC with DropTail at 5 ms: fairness improves during 5–40 s and does not recover after",
        "V-2, Fig. 9", "no better after 40 s", "",
        "mean per-second index after 40 s less that of 5–40 s; from 5 to 40 s the cumulative one must rise by 0.02",
        _no_recovery, AtMost(0.0, 0.02), "fairness-cubic", why="The index stands at its level before 40 s; its change "
        "after that is within the spread over seeds and of either sign.", redefined=_RISE, possible=(-1.0, 1.0)),
    Claim("004-L1", "NewReno's throughput falls as delay rises", "V-1, Figs 4 and 6", "falls", " %",
        "throughput lost from 5 to 80 ms, the queue with the smaller loss",
        _one(lambda rate: 100.0 * (1.0 - rate[:, 1] / rate[:, 0]), np.min, each="{queue} (%)", algorithm="reno",
        queue=QUEUES, delay_ms=(5, 80)), AtLeast(5.0, 2.0), "throughput", possible=(-math.inf, 100.0)),
    Claim("004-L2", "CUBIC outperforms NewReno as delay grows", "V-1, Figs 3 and 4", "CUBIC ahead", " %",
        "CUBIC's lead at 80 ms, the queue with the smaller lead",
        _one(lambda rate: 100.0 * (rate[1] / rate[0] - 1.0), lambda ahead: np.min(ahead[:, 1]),
        each="{queue}, {delay_ms} ms (%)", algorithm=ALGORITHMS, queue=QUEUES, delay_ms=HIGH_MS), AtLeast(2.0, 0.0),
        "throughput", possible=(-100.0, math.inf)),
    Claim("004-L3a", "At high BDP CoDel makes NewReno worse", "Abstract, VI", "worse", " %",
        "CoDel's throughput over PFIFO's, mean of 40 and 80 ms",
        _one(lambda rate: 100.0 * (rate[1] / rate[0] - 1.0), np.mean, each="{delay_ms} ms (%)", algorithm="reno",
        queue=QUEUES, delay_ms=HIGH_MS), AtMost(-2.0, 0.0), "throughput", why="In ns-3.27 a CoDel lies above the "
        "device's queue of 100 packets and only ever adds to it: NewReno has more to grow back from. CoDel at the "
        "link itself (ablation codel-alone) costs it a tenth at 40 ms, and at 80 ms spares it drop-tail's burst of "
        "losses at the end of slow start.", possible=(-100.0, math.inf)),
    Claim("004-L3b", "At high BDP CoDel makes CUBIC considerably better", "Abstract, VI", "better", " %",
        "CoDel's throughput over PFIFO's, mean of 40 and 80 ms",
        _one(lambda rate: 100.0 * (rate[1] / rate[0] - 1.0), np.mean, each="{delay_ms} ms (%)", algorithm="cubic",
        queue=QUEUES, delay_ms=HIGH_MS), AtLeast(2.0, 0.0), "throughput", why="Better, but there is little to gain: "
        "with SACK CUBIC keeps nearly all of the link "
        "behind a drop-tail queue already.",
        possible=(-100.0, math.inf)),
    Claim("004-L3c", "DropTail worsens both at high BDP", "Abstract, VI", "both fall", " %",
        "throughput lost with PFIFO from 5 to 80 ms, the algorithm that loses less",
        _one(lambda rate: 100.0 * (1.0 - rate[:, 1] / rate[:, 0]), np.min, each="{algorithm} (%)", queue="pfifo",
        algorithm=ALGORITHMS, delay_ms=(5, 80)), AtLeast(2.0, 0.0), "throughput", possible=(-math.inf, 100.0)),
    Claim("004-L4", "NewReno performs well at low BDP", "Abstract, VI", "well", " %",
        "link utilisation at 5 and 10 ms, the least of both queues",
        _of("utilisation", lambda used: 100.0 * used, np.min, algorithm="reno", queue=QUEUES, delay_ms=LOW_MS),
        AtLeast(95.0, 90.0), "throughput", possible=SHARE),
    Claim("004-L5", "CoDel improves fairness in almost all cases", "V-2, VI", "almost all", " %",
        "share of the four pairs in which CoDel's mean index is higher",
        _ten(lambda index: index[1] - index[0], _share_above_zero, "{algorithm}, {delay_ms} ms: CoDel − PFIFO",
        queue=QUEUES, algorithm=ALGORITHMS, delay_ms=FAIR_DELAYS_MS), AtLeast(75.0, 50.0), "fairness-summary",
        redefined="Up to 0.01 less counted as improved.", possible=SHARE),
    Claim("004-L6", "A larger delay lowers fairness", "V-2, Figs 8, 10, 12, 14", "in all four", " %",
        "share of the four pairs in which 30 ms has the lower mean index",
        _ten(lambda index: index[0] - index[1], _share_above_zero, "{algorithm} × {queue}: 5 − 30 ms",
        delay_ms=FAIR_DELAYS_MS, algorithm=ALGORITHMS, queue=QUEUES), AtLeast(100.0, 75.0), "fairness-summary",
        why="By the median of the seeds {004-L6} of the pairs have it. CUBIC with drop-tail does not, and in single "
        "seeds another fails by less than the spread. Why is not known.", possible=SHARE),
    Claim("004-L7", "NewReno with CoDel: a rational share at 5 ms, changing fairness at 30 ms", "V-2, Figs 11, 12",
        "moves more at 30 ms", "×", "standard deviation of the per-second index, 30 ms over 5 ms", _reno_codel,
        AtLeast(1.25, 1.0), "fairness-reno", why="The device's queue, which CoDel does not see, "
        "lets the index move as much at 5 as at 30 ms; with CoDel at the link itself (ablation codel-alone) it moves "
        "more at 30 ms, as printed."),
    Claim("004-L8", "NewReno with DropTail: high right after the start at 5 ms, deteriorated at 30 ms",
        "V-2, Figs 13, 14", "lower at 30 ms", "", "mean per-second index at 5 ms less that at 30 ms",
        _of("jain_per_second", lambda index: index[0] - index[1], beside="{delay_ms} ms", take=mean_jain,
        algorithm="reno", queue="pfifo", delay_ms=FAIR_DELAYS_MS, flows=FLOWS), AtLeast(0.02, 0.0), "fairness-reno",
        why="The index is {5 ms} at 5 ms and {30 ms} at 30 ms.",
        possible=(-1.0, 1.0)),
    Claim("004-L9", "CUBIC with CoDel at 30 ms: the fairness index grows convexly, slowly at first and then rapidly",
        "V-2, Fig. 8", "convex", " %",
        "share of the cumulative index's rise (0.02 or more) in the second half of its time", _convex_growth,
        AtLeast(60.0, 50.0), "fairness-cubic",
        redefined="Figure 8 is a fairness index; the rule timed the flows' sum of rates.", possible=SHARE),
    Claim("004-L10", "CUBIC with DropTail at 30 ms: serious unfairness", "V-2, Fig. 10", "serious", "",
        "mean per-second index from 5 s on", _of("jain_per_second", float, take=mean_jain, algorithm="cubic",
        queue="pfifo", delay_ms=30, flows=FLOWS), AtMost(FAIR, 0.9), "fairness-cubic", possible=(1.0 / FLOWS, 1.0)),
    Claim("004-L11", "NewReno with DropTail at 5 ms: fairness improves greatly after the start and remains high",
        "V-2, Fig. 13", "greatly, high", "", "rise of the cumulative index from its least in the first 5 s to 40 s; "
        "the mean per-second index after 40 s must be 0.8 or more", _high_after_start, AtLeast(0.2, 0.1),
        "fairness-reno", possible=(-1.0, 1.0)),
    Claim("004-L12", "NewReno with CoDel at 5 ms: a rational share", "V-2, Fig. 11", "rational", "",
        "mean per-second index from 5 s on", _of("jain_per_second", float, take=mean_jain, algorithm="reno",
        queue="codel", delay_ms=5, flows=FLOWS), AtLeast(FAIR, 0.7), "fairness-reno", possible=(1.0 / FLOWS, 1.0)),
)  # fmt: skip
