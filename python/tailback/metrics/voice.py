"""Voice quality of calls: the E-model of ITU-T G.107 over a playout buffer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import _core

from .delay import delay_quantiles, jitter
from .rates import flow_loss_rate
from .registry import measure
from .rows import LOST, RECEIVED, Rows, between, floats

NOT_RATED = (
    "R supposes the best constant playout delay in every ten seconds: it does not rate how far the delay swings."
)
"""Caveat for R and MOS: a call whose delay swings between 15 and 215 ms is rated as one of 215 ms."""


@measure
def delay_impairment(mouth_to_ear_s: float) -> float:
    """`mouth_to_ear_s` is T in seconds."""
    return _core.delay_impairment(mouth_to_ear_s)


@measure
def loss_impairment(loss: float, burst_ratio: float = 1.0, *, concealment: bool = True) -> float:
    """`loss` is a share, 0 … 1."""
    return _core.loss_impairment(loss, burst_ratio, concealment)


@measure
def mean_opinion_score(rating: float) -> float:
    """`rating` is R; the score of NaN is NaN."""
    return _core.mean_opinion_score(rating)


@measure
def burst_ratio(lost: Any) -> float:
    """`lost` is a flag for each packet, in order of sending."""
    return _core.burst_ratio(np.asarray(lost, dtype=np.bool_))


@dataclass(frozen=True)
class VoiceQuality:
    """The quality of a call for its listener."""

    #: Transmission rating, 0 … 93.2: above 80 "satisfied", below 50 "not recommended" (G.107 Annex B).
    rating: float
    #: Mean opinion score, 1 … 4.4.
    mos: float
    #: Median one-way delay in the network, seconds.
    delay_s: float
    #: RFC 3550's interarrival jitter, its mean over the packets, seconds.
    jitter_s: float
    #: `flow_loss_rate`: share of packets the network lost.
    loss: float
    #: Share of packets that arrived too late for playout.
    late: float
    #: R of every window with packets, averaged over the calls, in order.
    ratings: tuple[float, ...] = ()
    #: Start of each of these windows, seconds.
    windows_s: tuple[float, ...] = ()


@measure
def voice_quality(
    result: Any,
    flow: int | str,
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    window_s: float = 10.0,
    concealment: bool = True,
) -> VoiceQuality:
    """`window_s` is the length of the windows; `concealment`, whether lost frames are concealed."""
    rows = Rows.of(result)
    packets = rows.of_flow("packets", flow)
    sent, received = floats(packets["sent_s"]), floats(packets["received_s"])
    fate = np.asarray(packets["fate"])
    known = ((fate == RECEIVED) | (fate == LOST)) & between(sent, start_s, end_s)
    streams = np.asarray(packets["stream"]) if "stream" in packets else np.zeros(len(sent), dtype=np.int64)
    delay = np.where(fate == LOST, np.nan, received - sent)
    mean, heard = _core.call_rating(sent[known], delay[known], streams[known].astype(np.uint64), window_s, concealment)
    by_window: dict[int, list[float]] = {}
    for window, rating, _ in heard:
        by_window.setdefault(window, []).append(rating)
    late = [share for _, _, share in heard]
    return VoiceQuality(
        rating=mean,
        mos=mean_opinion_score(mean),
        delay_s=float(delay_quantiles(rows, flow, (0.5,), start_s, end_s, induced=False)[0]),
        jitter_s=jitter(rows, flow, start_s, end_s),
        loss=flow_loss_rate(rows, flow, start_s, end_s),
        late=float(np.mean(late)) if late else math.nan,
        ratings=tuple(float(np.mean(ratings)) for ratings in by_window.values()),
        windows_s=tuple(window * window_s for window in by_window),
    )
