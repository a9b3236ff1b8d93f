"""Goodput, throughput, utilisation and loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback import _core
from tailback.result import totals

from .registry import measure, metric
from .rows import DROPPED, IN_TRANSIT, LOST, Floats, NothingToMeasure, Rows, between, floats


@measure
def goodput(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> float:
    """Without an interval, over all the time the flow was on; with one, from its polls, or packets for UDP.

    A reader has a goodput of the whole run only, because polls do not show what came back.
    """
    rows = Rows.of(result)
    index = rows.flow(flow)
    if start_s is None and end_s is None:
        rows.table("flows")
        return totals.goodput_bps(rows, rows.tables, index)
    start = 0.0 if start_s is None else start_s
    end = rows.duration_s if end_s is None else end_s
    first, last = rows.recorded_s
    if start < first or end > last:
        raise NothingToMeasure(f"only {first:g} … {last:g} s were recorded, not all of {start:g} … {end:g} s")
    if index in rows.udp_flows:
        packets = rows.of_flow("packets", index)
        got = between(floats(packets["received_s"]), start, end)
        return _core.goodput_bps(float(np.sum(packets["bytes"][got])), end - start)
    if comes_back(rows, index):
        name = rows.flow_names[index]
        raise NothingToMeasure(f"most payload of {name} came back, which polls do not show; leave out the interval")
    at = received_by(rows, index, np.array([start, end]))
    return _core.goodput_bps(float(at[1] - at[0]), end - start)


def comes_back(rows: Rows, flow: int | str) -> bool:
    """Whether most of a flow's payload came back to the end that opened the connection, as a reader's does."""
    counts = rows.of_flow("flows", flow) if rows.has("flows") else {}
    # Results of 0.1 do not have the reverse direction.
    return "bytes_returned" in counts and bool(counts["bytes_returned"][0] > counts["bytes_received"][0])


def received_by(rows: Rows, flow: int | str, at_s: Floats, column: str = "bytes_received") -> Floats:
    """Bytes that a TCP flow's receiver had at these instants, interpolated between those at which they are known."""
    return np.asarray(np.interp(at_s, *known_counts(rows, flow, column)), dtype=np.float64)


def known_counts(rows: Rows, flow: int | str, column: str = "bytes_received") -> tuple[Floats, Floats]:
    """Instants, and the bytes that a TCP flow's receiver had at each: at its start, at the polls and at its end.

    The last poll is up to an interval before the end. What was not recorded is left out.
    """
    polls = rows.of_flow("polls", flow)
    times, counts = floats(polls["t_s"]), floats(polls[column])
    if rows.has("flows"):
        of = rows.of_flow("flows", flow)
        started, finished, received = (float(of[name][0]) for name in ("started_s", "finished_s", "bytes_received"))
        first, last = rows.recorded_s
        ended = rows.duration_s if np.isnan(finished) else finished
        if first <= started < np.min(times, initial=np.inf):
            times, counts = np.insert(times, 0, started), np.insert(counts, 0, 0.0)
        if len(times) and times[0] < ended <= last:
            times, counts = times[times < ended], counts[times < ended]
            # What arrived out of order may be more than what was received.
            times, counts = np.append(times, ended), np.append(counts, max(counts[-1], received))
    if not len(times):
        raise NothingToMeasure(f"{rows.flow_names[rows.flow(flow)]} was never polled")
    return times, counts


@metric(title="Throughput over time", unit="s, bit/s", source="tcpstat(1); CAIA-TR-110729A section III-A")
def throughput_series(result: Any, flow: int | str, bin_s: float = 1.0) -> tuple[Floats, Floats]:
    """8·ΣL/T in consecutive bins of T seconds: the bins' starts and the rate in each, while instruments recorded.

    L is what reached the receiver: payload for TCP (polls), in order or not, each byte counted once; IP bytes for UDP
    (packets). A retransmission that fills a gap counts its own bytes, not those that waited behind the gap.
    """
    rows = Rows.of(result)
    index = rows.flow(flow)
    first, last = rows.recorded_s
    edges = np.arange(0.0, last + 0.5 * bin_s, bin_s)
    # The last bin may be shorter.
    edges = np.minimum(edges[edges >= first], last)
    if len(edges) < 2:
        return np.zeros(0), np.zeros(0)
    if index in rows.udp_flows:
        packets = rows.of_flow("packets", index)
        times = floats(packets["received_s"])
        got = ~np.isnan(times)
        total, _ = np.histogram(times[got], bins=edges, weights=floats(packets["bytes"])[got])
        return edges[:-1], 8.0 * total.astype(np.float64) / np.diff(edges)
    # Results of 0.1 have only bytes that arrived in order.
    column = "bytes_arrived" if "bytes_arrived" in rows.of_flow("polls", index) else "bytes_received"
    return edges[:-1], 8.0 * np.diff(received_by(rows, index, edges, column)) / np.diff(edges)


@metric(
    title="Utilisation",
    unit="1",
    source="“Effects of high-speed congestion control” (2007) section 4.1.1; RFC 5166 section 2.1.1",
)
def utilisation(result: Any, link: int | str | None = None) -> float:
    """Share of the run in which a link was sending; NaN for a medium, which determines its own rate."""
    rows = Rows.of(result)
    index = rows.bottleneck if link is None else rows.link(link)
    if np.isnan(rows.rate_bps(index)):
        return float("nan")
    return float(rows.of_link("links", index)["busy_s"][0]) / rows.duration_s


@measure
def drop_share_at_link(result: Any, link: int | str | None = None) -> float:
    """Computed over the whole run; the link is the bottleneck by default."""
    rows = Rows.of(result)
    index = rows.bottleneck if link is None else rows.link(link)
    table = rows.of_link("links", index)
    return _core.drop_share_at_link(float(table["dropped"][0]), float(table["arrived"][0]))


@measure
def flow_loss_rate(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> float:
    """Without an interval: from the flow's totals, if there are any. Else from the packet log, by sending time.

    Summaries, sweeps, `[expect]`, comparisons, `voice_quality` and the explorer show this number as a flow's loss.
    `drop_share_at_link` is another quantity.
    """
    rows = Rows.of(result)
    if start_s is None and end_s is None and rows.has("flows"):
        return totals.loss(rows, rows.tables, rows.flow(flow))
    if comes_back(rows, flow):
        return float("nan")
    packets = rows.of_flow("packets", flow)
    fate = packets["fate"][between(floats(packets["sent_s"]), start_s, end_s)]
    lost, known = float(np.sum(fate == LOST)), float(np.sum(fate != IN_TRANSIT))
    return _core.loss_of_fates(lost, known - lost)


@measure
def completion_time(result: Any, flow: int | str) -> float:
    """For requests and repeated transfers, `response_times` has one time each."""
    rows = Rows.of(result)
    rows.table("flows")
    return totals.completion_s(rows, rows.tables, rows.flow(flow))


@metric(title="Retransmissions of a flow", unit="segments", source="definition: RFC 4898, SegsRetrans, of both ends")
def retransmitted(result: Any, flow: int | str) -> int:
    """TCP segments retransmitted by either end, so responses to a reader of web pages count too."""
    rows = Rows.of(result)
    rows.table("flows")
    return totals.retransmitted(rows.tables, rows.flow(flow))


@metric(title="Drop instants", unit="s", source="dummynet log of CAIA-TR-080818A section III-B")
def drop_times(result: Any, link: int | str | None = None, flow: int | str | None = None) -> Floats:
    """Times at which a link's queue dropped a packet, of one flow or of any."""
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

    tcpstat's default interval is 5 s. Bins begin at `start_s`; an incomplete last bin is left out.
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
    # The last edge belongs to the next bin, like every other edge; `histogram` would include it in the last bin.
    inside = received_s < edges[-1]
    total, _ = np.histogram(received_s[inside], bins=edges, weights=size[inside])
    return edges[:-1], 8.0 * total.astype(np.float64) / bin_s
