"""What a caller hears: the E-model of ITU-T G.107 over a playout buffer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .delay import delay_quantiles, jitter
from .registry import metric
from .rows import LOST, RECEIVED, Floats, Rows, between, floats

BEST_RATING = 93.2
"""R of G.711 with every other parameter at G.107's default value (G.107, section 7.7)."""

FRAMING_S = 0.020
"""A packet of 20 ms of speech can leave only when the last of its samples was spoken."""

LOSS_ROBUSTNESS = {True: 25.1, False: 4.3}
"""Bpl of G.711 with and without packet loss concealment (ITU-T G.113, Appendix I); its Ie is 0."""


@metric(title="E-model delay impairment", unit="R", source="ITU-T G.107 section 7.4, Idd")
def delay_impairment(mouth_to_ear_s: float) -> float:
    """What a pure delay costs: Idd = 25·((1 + X⁶)^⅙ − 3·(1 + (X/3)⁶)^⅙ + 2), X = log₂(T / 100 ms); 0 up to 100 ms.

    Echo is taken to be cancelled, so Idte and Idle are 0.
    """
    if mouth_to_ear_s <= 0.1:
        return 0.0
    x = math.log2(mouth_to_ear_s / 0.1)
    return float(25.0 * ((1.0 + x**6) ** (1 / 6) - 3.0 * (1.0 + (x / 3.0) ** 6) ** (1 / 6) + 2.0))


@metric(title="E-model loss impairment", unit="R", source="ITU-T G.107 section 7.5, Ie,eff; G.113 Appendix I")
def loss_impairment(loss: float, burst_ratio: float = 1.0, *, concealment: bool = True) -> float:
    """What lost frames of G.711 cost: Ie,eff = 95·P / (P/BurstR + Bpl), P the loss in per cent.

    Bpl is 25.1 with packet loss concealment, 4.3 without.
    """
    per_cent = 100.0 * loss
    return 95.0 * per_cent / (per_cent / burst_ratio + LOSS_ROBUSTNESS[concealment])


@metric(title="Mean opinion score", unit="MOS (1 … 4.5)", source="ITU-T G.107 Annex B")
def mean_opinion_score(rating: float) -> float:
    """1 for R ≤ 0, 4.5 for R ≥ 100, else 1 + 0.035·R + 7·10⁻⁶·R·(R − 60)·(100 − R)."""
    if math.isnan(rating):
        return math.nan
    if rating <= 0.0:
        return 1.0
    if rating >= 100.0:
        return 4.5
    # Annex B's cubic dips below 1 for R under 6.5.
    return max(1.0, 1.0 + 0.035 * rating + 7e-6 * rating * (rating - 60.0) * (100.0 - rating))


@metric(title="Burst ratio of losses", unit="1", source="ITU-T G.107 section 7.5")
def burst_ratio(lost: Any) -> float:
    """Mean length of the bursts seen over the mean length random loss would give, 1/(1 − P); at least 1."""
    flags = np.asarray(lost, dtype=np.bool_)
    count = int(np.sum(flags))
    if count == 0 or count == len(flags):
        return 1.0
    bursts = int(flags[0]) + int(np.sum(flags[1:] & ~flags[:-1]))
    return max(1.0, count / bursts * (1.0 - count / len(flags)))


@dataclass(frozen=True)
class VoiceQuality:
    """A call, as heard."""

    #: Transmission rating, 0 … 93.2: above 80 "satisfied", below 50 "not recommended" (G.107 Annex B).
    rating: float
    #: Mean opinion score, 1 … 4.4.
    mos: float
    #: Median one-way delay in the network, seconds.
    delay_s: float
    #: RFC 3550's interarrival jitter, its mean over the packets, seconds.
    jitter_s: float
    #: Share of packets the network lost.
    loss: float
    #: Share of packets that came too late to be played.
    late: float
    #: R of every window that had packets, mean over the calls, in order.
    ratings: tuple[float, ...] = ()
    #: When each of them began, seconds.
    windows_s: tuple[float, ...] = ()


def _rate(delay: Floats, lost: Any, concealment: bool) -> tuple[float, float]:
    """R under the best constant playout delay, and the share of packets that delay makes late."""
    if len(lost) == 0:
        return math.nan, math.nan
    if len(delay) == 0:
        return 0.0, 0.0
    best, best_late = -math.inf, 0.0
    came = ~np.asarray(lost, dtype=np.bool_)
    for deadline in np.unique(np.quantile(delay, (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0), method="higher")):
        unheard = ~came
        late = delay > deadline
        unheard[came] = late
        rating = (
            BEST_RATING
            - delay_impairment(FRAMING_S + float(deadline))
            - loss_impairment(float(np.mean(unheard)), burst_ratio(unheard), concealment=concealment)
        )
        if rating > best:
            best, best_late = rating, float(np.sum(late)) / len(lost)
    return max(best, 0.0), best_late


@metric(title="Quality of a call", unit="R, MOS, s, s, share, share", source="ITU-T G.107, G.113; RFC 3550")
def voice_quality(
    result: Any,
    flow: int | str,
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    window_s: float = 10.0,
    concealment: bool = True,
) -> VoiceQuality:
    """R and MOS of a G.711 call by the E-model, from the packets of a `voip` or `voip-onoff` flow.

    Mouth to ear is 20 ms of framing, the network's one-way delay and the playout buffer. In each window of `window_s`
    the buffer waits for a constant playout delay, and of the quantiles of the delays seen the one that gives the
    highest R is taken: what an ideal buffer could do. Packets later than that count as lost. R is the mean over
    windows and over the flow's calls; a window in which nothing arrived has R 0. Talking against one another
    (conversational interactivity), echo and noise are G.107's defaults.
    """
    rows = Rows.of(result)
    packets = rows.of_flow("packets", flow)
    sent, received = floats(packets["sent_s"]), floats(packets["received_s"])
    fate = np.asarray(packets["fate"])
    known = ((fate == RECEIVED) | (fate == LOST)) & between(sent, start_s, end_s)
    streams = np.asarray(packets["stream"]) if "stream" in packets else np.zeros(len(sent), dtype=np.int64)
    windows = np.floor(sent / window_s).astype(np.int64)
    by_window: dict[int, list[float]] = {}
    late = []
    for window in np.unique(windows[known]):
        for stream in np.unique(streams[known & (windows == window)]):
            chosen = known & (streams == stream) & (windows == window)
            lost = fate[chosen] == LOST
            rating, too_late = _rate((received - sent)[chosen][~lost], lost, concealment)
            by_window.setdefault(int(window), []).append(rating)
            late.append(too_late)
    each = [rating for ratings in by_window.values() for rating in ratings]
    mean = float(np.mean(each)) if each else math.nan
    return VoiceQuality(
        rating=mean,
        mos=mean_opinion_score(mean),
        delay_s=float(delay_quantiles(rows, flow, (0.5,), start_s, end_s, induced=False)[0]),
        jitter_s=jitter(rows, flow),
        loss=float(np.mean(fate[known] == LOST)) if bool(known.any()) else math.nan,
        late=float(np.mean(late)) if late else math.nan,
        ratings=tuple(float(np.mean(ratings)) for ratings in by_window.values()),
        windows_s=tuple(window * window_s for window in by_window),
    )
