"""One-way delay of packets (CAIA-TR-080818A section V-B), and the part that is due to queueing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .distribution import quantiles_of
from .registry import measure, metric
from .rows import Floats, NothingToMeasure, Rows, between, floats


@metric(title="One-way delay of every packet", unit="s, s", source="CAIA-TR-080818A section V-B; RFC 7679")
def one_way_delay(
    result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """Sending instants and one-way delays (received − sent) of the packets that arrived.

    The interval selects packets by sending time. Dropped packets, and packets in flight at the end, have no delay.
    """
    packets = Rows.of(result).of_flow("packets", flow)
    sent, received = floats(packets["sent_s"]), floats(packets["received_s"])
    kept = ~np.isnan(received) & between(sent, start_s, end_s)
    return sent[kept], received[kept] - sent[kept]


@metric(title="Smallest possible one-way delay", unit="s", source="definition: empty queues")
def base_delay(result: Any, flow: int | str) -> float:
    """Propagation plus serialisation on every link of the path, with empty queues.

    A link with a timer (`tick_hz`) may hold a packet up to one tick longer, which counts as induced delay. It may also
    release it early by part of a tick: then the base is the smallest delay seen, as it is for a medium.
    """
    rows = Rows.of(result)
    packets = rows.of_flow("packets", flow)
    if not len(packets["bytes"]):
        raise NothingToMeasure(f"{rows.flow_names[rows.flow(flow)]} sent no packet")
    by_path = rows.base_delay_s(flow, float(np.min(packets["bytes"])))
    seen = floats(packets["received_s"]) - floats(packets["sent_s"])
    if bool(np.isnan(seen).all()):
        return by_path
    smallest = float(np.nanmin(seen))
    return smallest if rows.has_media(flow) else min(by_path, smallest)


@metric(
    title="Induced delay of every packet",
    unit="s, s",
    source="CAIA-TR-080818A section VII: OWD less its floor",
)
def induced_delay(
    result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """Sending instants, and one-way delay minus the smallest possible one, which is the queueing delay."""
    rows = Rows.of(result)
    sent, delay = one_way_delay(rows, flow, start_s, end_s)
    return sent, delay - base_delay(rows, flow)


@measure
def delay_quantiles(
    result: Any,
    flow: int | str,
    quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    induced: bool = True,
) -> Floats:
    """Of the induced delay, or with `induced=False` of the whole one. `quantiles` are shares, 0 … 1."""
    _, delays = (induced_delay if induced else one_way_delay)(result, flow, start_s, end_s)
    return quantiles_of(delays, quantiles)


@metric(title="Interarrival jitter", unit="s", source="RFC 3550 section 6.4.1")
def jitter(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> float:
    """RFC 3550's estimate, J ← J + (|D| − J)/16 a packet, D the change of transit time: its mean over the packets.

    Packets are taken in the order of arrival. The estimate averages over about sixteen packets, so its value after the
    last one (`last_jitter`) describes the last third of a second of a call. The interval selects packets by sending
    time.
    """
    return smoothed_jitter(_transit(result, flow, start_s, end_s))


@metric(title="Interarrival jitter, last estimate", unit="s", source="RFC 3550 section 6.4.1")
def last_jitter(result: Any, flow: int | str) -> float:
    """RFC 3550's estimate of `jitter` after the last packet, as a receiver report would carry it."""
    transit = _transit(result, flow)
    estimates = _jitters(transit)
    return float(estimates[-1]) if len(estimates) else _of_no_change(transit)


def smoothed_jitter(transit: Floats) -> float:
    """RFC 3550's jitter of a series of transit times in order of arrival: the mean of its estimates, in their unit."""
    estimates = _jitters(transit)
    return float(np.mean(estimates)) if len(estimates) else _of_no_change(transit)


def _of_no_change(transit: Floats) -> float:
    """The jitter of one packet is zero; that of none does not exist."""
    return 0.0 if len(transit) else float("nan")


def _transit(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> Floats:
    packets = Rows.of(result).of_flow("packets", flow)
    sent = floats(packets["sent_s"])
    kept = between(sent, start_s, end_s)
    sent, received = sent[kept], floats(packets["received_s"])[kept]
    order = np.argsort(received, kind="stable")
    transit = (received - sent)[order]
    return np.asarray(transit[~np.isnan(transit)], dtype=np.float64)


def _jitters(transit: Floats) -> Floats:
    """RFC 3550's estimate after each packet but the first."""
    # scipy's filter does the same, but takes half a second to import, longer than simulating a minute of a call.
    estimates, estimate = [], 0.0
    for change in np.abs(np.diff(transit)).tolist():
        estimate += (change - estimate) / 16
        estimates.append(estimate)
    return np.asarray(estimates, dtype=np.float64)
