"""RTT from two captures without a common clock: synthetic packet pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import metric
from .rows import RECEIVED, Column, Floats, Rows, between, floats


def pair_up(out_ref: Floats, out_mon: Floats, in_ref: Floats, in_mon: Floats) -> tuple[Floats, Floats]:
    """Instants (at the reference point) and RTTs of SPP's packet pairs; the two clocks may differ.

    `out_*` are the instants at which packets leaving the reference point were seen there and at the monitor point,
    `in_*` those of packets towards the reference point. An inbound packet is paired with the latest outbound packet
    that the monitor saw no later than it; an outbound packet is used once.
    """
    order = np.argsort(out_mon, kind="stable")
    out_ref, out_mon = floats(out_ref)[order], floats(out_mon)[order]
    order = np.argsort(in_mon, kind="stable")
    in_ref, in_mon = floats(in_ref)[order], floats(in_mon)[order]
    latest = np.searchsorted(out_mon, in_mon, side="right") - 1
    used, answer = np.unique(latest, return_index=True)
    used, answer = used[used >= 0], answer[used >= 0]
    rtt = (in_ref[answer] - out_ref[used]) - (in_mon[answer] - out_mon[used])
    return (in_ref[answer] + out_ref[used]) / 2.0, np.maximum(rtt, 0.0)


@metric(title="RTT by synthetic packet pairs", unit="s, s", source="SPP 0.3.6 (CAIA); CAIA-TR-110729A section III-A")
def synthetic_packet_pairs(
    result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """Instants and RTTs at a flow's sender, computed by SPP from captures at its two hosts.

    Every ACK is paired with the latest packet that the receiver had got. The RTT is the time between the two at the
    sender minus that at the receiver, which excludes ACK delay. The sample's instant is their midpoint at the sender.
    Packets are those of the packet log. ACKs are matched in the SIFTR rows of both ends by number, and equal ones by
    order; if some of several equal ones were lost, all of these are left out. The interval must contain only one
    connection.
    """
    rows = Rows.of(result)
    packets = rows.of_flow("packets", flow)
    sent = floats(packets["sent_s"])
    got = between(sent, start_s, end_s) & (np.asarray(packets["fate"]) == RECEIVED)
    segments = rows.of_flow("segments", flow)
    t, number = floats(segments["t_s"]), np.asarray(segments["ack"])
    within = between(t, start_s, end_s)
    at_receiver, outgoing = np.asarray(segments["at_receiver"]), np.asarray(segments["outgoing"])
    left, came = within & at_receiver & outgoing, within & ~at_receiver & ~outgoing
    in_mon, in_ref = _seen_twice(number[left], t[left], number[came], t[came])
    return pair_up(sent[got], floats(packets["received_s"])[got], in_ref, in_mon)


def _seen_twice(left: Column, left_t: Floats, came: Column, came_t: Floats) -> tuple[Floats, Floats]:
    """Departure and arrival times of packets with equal numbers; numbers seen more often at one end are left out."""
    numbers, sent = np.unique(left, return_counts=True)
    arrived, received = np.unique(came, return_counts=True)
    both, at_left, at_came = np.intersect1d(numbers, arrived, assume_unique=True, return_indices=True)
    whole = both[sent[at_left] == received[at_came]]
    times = []
    for number, t in ((left, left_t), (came, came_t)):
        kept = np.isin(number, whole)
        times.append(t[kept][np.argsort(number[kept], kind="stable")])
    return times[0], times[1]
