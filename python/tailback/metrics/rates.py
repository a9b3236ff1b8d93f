"""Goodput, throughput, utilisation and loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from .registry import metric
from .rows import DROPPED, IN_TRANSIT, LOST, Floats, Rows, between, floats


@metric(title="Goodput", unit="bit/s", source="RFC 2647 section 3.17; RFC 5166 section 2.1")
def goodput(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> float:
    """Payload delivered in order to the receiving application, in bits, over the time it took.

    Without an interval: all the time the flow was on (connection set-up included). With one: from the polls of
    that flow, interpolated at both ends. For a flow over UDP the IP bytes received count. Over a whole life what came
    back to the end that opened the connection counts too: the pages a reader fetched.
    """
    rows = Rows.of(result)
    index = rows.flow(flow)
    if start_s is None and end_s is None:
        table = rows.of_flow("flows", index)
        active = rows.active_s(index, float(table["started_s"][0]), float(table["finished_s"][0]))
        payload = float(table["bytes_received"][0])
        if "bytes_returned" in table:
            payload += float(table["bytes_returned"][0])
        return 8.0 * payload / active if active > 0.0 else float("nan")
    start = 0.0 if start_s is None else start_s
    end = rows.duration_s if end_s is None else end_s
    if end <= start:
        return float("nan")
    if index in rows.udp_flows:
        packets = rows.of_flow("packets", index)
        got = between(floats(packets["received_s"]), start, end)
        return 8.0 * float(np.sum(packets["bytes"][got])) / (end - start)
    polls = rows.of_flow("polls", index)
    at = np.interp([start, end], floats(polls["t_s"]), floats(polls["bytes_received"]))
    return 8.0 * float(at[1] - at[0]) / (end - start)


@metric(title="Throughput over time", unit="s, bit/s", source="tcpstat(1); CAIA-TR-110729A section III-A")
def throughput_series(result: Any, flow: int | str, bin_s: float = 1.0) -> tuple[Floats, Floats]:
    """8·ΣL/T in consecutive bins of T seconds: the bins' starts and the rate in each.

    L is what reached the receiver: payload for TCP (polls), in order or not, each byte counted once; IP bytes for UDP
    (packets). A retransmission that fills a gap counts as itself, not as all that waited behind the gap.
    """
    rows = Rows.of(result)
    index = rows.flow(flow)
    edges = np.arange(0.0, rows.duration_s + 0.5 * bin_s, bin_s)
    if index in rows.udp_flows:
        packets = rows.of_flow("packets", index)
        times = floats(packets["received_s"])
        got = ~np.isnan(times)
        total, _ = np.histogram(times[got], bins=edges, weights=floats(packets["bytes"])[got])
        return edges[:-1], 8.0 * total.astype(np.float64) / bin_s
    polls = rows.of_flow("polls", index)
    # Results of 0.1 say only what arrived in order.
    arrived = polls["bytes_arrived" if "bytes_arrived" in polls else "bytes_received"]
    at = np.interp(edges, floats(polls["t_s"]), floats(arrived), left=0.0)
    return edges[:-1], 8.0 * np.diff(at) / bin_s


@metric(
    title="Utilisation",
    unit="1",
    source="“Effects of high-speed congestion control” (2007) section 4.1.1; RFC 5166 section 2.1.1",
)
def utilisation(result: Any, link: int | str | None = None) -> float:
    """Share of the run in which a link was sending. Of a medium, whose rate is its own affair: NaN."""
    rows = Rows.of(result)
    index = rows.bottleneck if link is None else rows.link(link)
    if np.isnan(rows.rate_bps(index)):
        return float("nan")
    return float(rows.of_link("links", index)["busy_s"][0]) / rows.duration_s


@metric(
    title="Loss rate of a link",
    unit="1",
    source="“Effects of high-speed congestion control” (2007); RFC 5166 section 2.1.3",
)
def loss_rate(result: Any, link: int | str | None = None) -> float:
    """Packets dropped over packets that arrived at a link's queue."""
    rows = Rows.of(result)
    index = rows.bottleneck if link is None else rows.link(link)
    table = rows.of_link("links", index)
    arrived = float(table["arrived"][0])
    return float(table["dropped"][0]) / arrived if arrived else float("nan")


@metric(title="Loss rate of a flow", unit="1", source="RFC 7680: lost over sent, those still travelling left out")
def flow_loss_rate(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> float:
    """Packets of a flow that were dropped over those whose fate is known.

    From the packet log for an interval (by sending time), else from the flow's counters.
    """
    rows = Rows.of(result)
    if start_s is None and end_s is None:
        table = rows.of_flow("flows", flow)
        lost, received = float(table["packets_dropped"][0]), float(table["packets_received"][0])
        return lost / (lost + received) if lost + received else float("nan")
    packets = rows.of_flow("packets", flow)
    fate = packets["fate"][between(floats(packets["sent_s"]), start_s, end_s)]
    known = int(np.sum(fate != IN_TRANSIT))
    return float(np.sum(fate == LOST)) / known if known else float("nan")


@metric(title="Drop instants", unit="s", source="dummynet log of CAIA-TR-080818A section III-B")
def drop_times(result: Any, link: int | str | None = None, flow: int | str | None = None) -> Floats:
    """When a link's queue dropped a packet, of one flow or of any."""
    rows = Rows.of(result)
    if "queue" not in rows.tables or not rows.has("queue"):
        return np.zeros(0)
    table = rows.of_link("queue", rows.bottleneck if link is None else link)
    dropped = np.asarray(table["event"]) == DROPPED
    if flow is not None:
        dropped &= np.asarray(table["flow"]) == rows.flow(flow)
    return np.compress(dropped, floats(table["t_s"]))


@metric(title="Throughput as tcpstat counts", unit="s, bit/s", source="tcpstat(1) %b; CAIA-TR-110729A section III-A")
def tcpstat_series(
    result: Any, flow: int | str, bin_s: float = 5.0, start_s: float = 0.0, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """8·ΣL/T of every packet that arrived, headers and repetitions included, in each whole bin of `bin_s` seconds.

    tcpstat's own interval is 5 s. Bins begin at `start_s`; what does not fill one is left out.
    """
    rows = Rows.of(result)
    packets = rows.of_flow("packets", flow)
    end = rows.duration_s if end_s is None else end_s
    received = floats(packets["received_s"])
    arrived = ~np.isnan(received)
    return rate_in_bins(received[arrived], floats(packets["bytes"])[arrived], bin_s, start_s, end)


def rate_in_bins(received_s: Floats, size: Floats, bin_s: float, start_s: float, end_s: float) -> tuple[Floats, Floats]:
    """Starts of the whole bins of `bin_s` seconds in an interval, and the rate in bit/s of the packets in each."""
    edges = np.arange(start_s, end_s + 1e-9, bin_s)
    if len(edges) < 2:
        return np.zeros(0), np.zeros(0)
    # The last edge belongs to the bin after it, as every other one does; `histogram` would close it.
    inside = received_s < edges[-1]
    total, _ = np.histogram(received_s[inside], bins=edges, weights=size[inside])
    return edges[:-1], 8.0 * total.astype(np.float64) / bin_s
