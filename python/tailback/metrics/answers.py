"""Response times: of web objects, echoes, and segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .distribution import quantiles_of
from .registry import measure, metric
from .rows import ANSWERED, Floats, Integers, Rows, between, floats


@metric(title="Response times", unit="byte, s", source="definition: first SYN to last byte")
def response_times(
    result: Any,
    flow: int | str,
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    object_bytes: int | None = None,
) -> tuple[Integers, Floats]:
    """Sizes and response times of the objects a flow requested and got, in order of requests.

    The interval selects requests by time; `object_bytes` selects objects of that size. Abandoned and pending requests
    have no response time: `unanswered` counts them.
    """
    requests = Rows.of(result).of_flow("requests", flow)
    chosen = (np.asarray(requests["fate"]) == ANSWERED) & between(floats(requests["t_s"]), start_s, end_s)
    size = np.asarray(requests["bytes"]).astype(np.int64)
    if object_bytes is not None:
        chosen &= size == object_bytes
    return size[chosen], floats(requests["response_time_s"])[chosen]


@metric(title="Share of requests never answered", unit="1", source="definition")
def unanswered(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> float:
    """Requests that were abandoned or still pending at the end, as a share of all requests."""
    requests = Rows.of(result).of_flow("requests", flow)
    chosen = between(floats(requests["t_s"]), start_s, end_s)
    return float(np.mean(np.asarray(requests["fate"])[chosen] != ANSWERED)) if bool(chosen.any()) else float("nan")


@measure
def response_time_quantiles(
    result: Any,
    flow: int | str,
    quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    object_bytes: int | None = None,
) -> Floats:
    """`quantiles` are shares, 0 … 1. `cdf` of `response_times` draws the curve."""
    _, times = response_times(result, flow, start_s, end_s, object_bytes=object_bytes)
    return quantiles_of(times, quantiles)


@metric(title="Round trips by ping", unit="s, s", source="RFC 792 echo; CAIA-TR-110729A section III")
def echo_rtts(
    result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """When each echo request left and how long its reply took; lost ones are left out."""
    echoes = Rows.of(result).of_flow("echoes", flow)
    asked, rtt = floats(echoes["t_s"]), floats(echoes["rtt_s"])
    chosen = ~np.isnan(rtt) & between(asked, start_s, end_s)
    return asked[chosen], rtt[chosen]


@metric(title="Round trips by Karn's rule", unit="s, s", source="Karn and Partridge, SIGCOMM 1987; RFC 6298 section 3")
def karn_rtts(
    result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """From the sending of a segment to the ACK of its last byte, as a capture at the sender shows them.

    One sample for each ACK that advances: the newest segment it covers. No sample where that segment, or any other
    the ACK newly covers, was sent twice. Instants are those of the ACKs.
    """
    rows = Rows.of(result).of_flow("segments", flow)
    mine = ~np.asarray(rows["at_receiver"], dtype=np.bool_)
    out = mine & np.asarray(rows["outgoing"], dtype=np.bool_)
    t, seq = floats(rows["t_s"]), np.asarray(rows["seq"]).astype(np.int64)
    length = np.asarray(rows["length"]).astype(np.int64)
    out_data = out & (length > 0)
    sent_s, start, end = t[out_data], seq[out_data], (seq + length)[out_data]
    came = mine & ~np.asarray(rows["outgoing"], dtype=np.bool_)
    ack_s, acks = t[came], np.asarray(rows["ack"]).astype(np.int64)[came]
    if len(end) == 0 or len(acks) == 0:
        return np.zeros(0), np.zeros(0)
    new = end > np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]])
    ends, sent_s = end[new], sent_s[new]
    # Cumulative count of segments that were sent twice: a retransmission marks all segments it overlaps.
    twice = np.zeros(len(ends) + 1, dtype=np.int64)
    first = np.searchsorted(ends, start[~new], side="right")
    last = np.searchsorted(ends, end[~new], side="left")
    np.add.at(twice, first, 1)
    np.add.at(twice, np.minimum(last + 1, len(ends)), -1)
    ambiguous = np.concatenate([[0], np.cumsum(np.cumsum(twice[:-1]) > 0)])
    advances = acks > np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(acks)[:-1]])
    ack_s, acks = ack_s[advances], acks[advances]
    covered = np.searchsorted(ends, acks, side="right")
    before = np.concatenate([[0], covered[:-1]])
    chosen = (covered > before) & (ambiguous[covered] == ambiguous[before]) & between(ack_s, start_s, end_s)
    return ack_s[chosen], ack_s[chosen] - sent_s[covered[chosen] - 1]
