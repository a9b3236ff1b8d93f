"""Why delay, loss and shares came out as they did, in plain sentences, each with the rows it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tailback import metrics
from tailback.metrics import MissingRows, Rows
from tailback.metrics.rows import Floats
from tailback.numbers import written
from tailback.plots import flows as who

__all__ = ["Finding", "explain"]

#: A flow "has" the link from this share of the delivered bytes on.
_MAIN_SHARE = 0.5
#: Below this correlation a window does not explain a queue (|r| < 0.7 is less than half of the variance).
_EXPLAINS = 0.7


@dataclass(frozen=True)
class Finding:
    """One sentence."""

    about: str
    """`delay`, `queue`, `loss`, `growth` or `share`."""
    text: str
    rests_on: str
    """The table, how many of its rows, and of whom."""

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


def explain(result: Any) -> list[Finding]:
    """What the rows of a result say of its queue, delays, losses, windows and shares.

    Only what was recorded is explained: a sentence whose rows are missing is left out. Each is a statement of the
    metrics of `tailback.metrics`, so the same holds for simulated, live and captured results.

    >>> import tailback as tb
    >>> from tailback.explain import explain
    >>> flows = [tb.bulk("reno", name="bulk"), tb.voip(name="call")]
    >>> recorded = {"packets": ["call"], "queue_polls": ["bottleneck"]}
    >>> home = tb.dumbbell(rate="2mbit", rtt="40ms", flows=flows, duration="20s", instruments=recorded)
    >>> explain(tb.run(home))[0].about
    'queue'
    """
    rows = Rows.of(result)
    out: list[Finding] = []
    for part in (_queue, _delays, _growth, _losses, _shares):
        try:
            out += part(rows)
        except (MissingRows, ValueError):
            # Not recorded, or too little of it: nothing to say.
            continue
    return out


def _queue(rows: Rows) -> Iterator[Finding]:
    if not rows.has_bottleneck:
        yield Finding("queue", "No queue can form on the first flow's way: none of its links has a rate.", "scenario")
        return
    neck = rows.bottleneck
    name, totals = rows.link_names[neck], rows.of_link("links", neck)
    carried, limit = rows.carried_bps(neck), rows.limit_bytes(neck)
    mean = float(totals["backlog_bytes_mean"][0])
    wait = "" if math.isnan(carried) else f", a wait of {written(8e3 * mean / carried, 3)} ms"
    of_limit = f" of {written(limit / 1e3, 3)} kB" if math.isfinite(limit) else ""
    text = (
        f"The queue is at {name} ({who.carrier(rows, neck)}): {written(mean / 1e3, 3)} kB{of_limit} on average{wait}."
    )
    yield Finding("queue", text, f"links: the row of {name}")
    times, backlog = metrics.backlog_series(rows, neck)
    if len(times) < 2:
        return
    held = np.diff(times)
    empty = float(np.sum(held[backlog[:-1] == 0]) / np.sum(held))
    full = metrics.time_above(rows, 0.75, neck) if math.isfinite(limit) else math.nan
    said = f"It was empty for {written(100 * empty, 2)} % of the time"
    said += "" if math.isnan(full) else f" and more than three quarters full for {written(100 * full, 2)} %"
    idle = 1.0 - metrics.utilisation(rows, neck)
    if empty > 0.01 and idle > 0.01:
        said += f"; the link stood idle for {written(100 * idle, 2)} %: a cut went deeper than the queue was long"
    yield Finding("queue", f"{said}.", _count(rows, "queue_polls", "queue"))
    filled = [(flow, _correlation(rows, flow)) for flow in rows.tcp_flows if neck in rows.route(flow)]
    for flow, strength in filled:
        if strength >= _EXPLAINS:
            text = (
                f"{_named(rows, flow)} filled it: queue and window of {rows.flow_names[flow]} rise and fall together "
                f"(correlation {written(strength, 2)})."
            )
            yield Finding("queue", text, _count(rows, "polls", "segments", flow=flow))


def _correlation(rows: Rows, flow: int) -> float:
    try:
        strength = metrics.window_queue_correlation(rows, flow)
    except (MissingRows, ValueError):
        return 0.0
    return 0.0 if math.isnan(strength) else strength


def _delays(rows: Rows) -> Iterator[Finding]:
    recorded = set(np.unique(rows.column("packets", "flow")).tolist())
    for flow in (flow for flow in rows.udp_flows if flow in recorded):
        sent, delay = metrics.induced_delay(rows, flow)
        if not len(delay):
            continue
        low, middle, high = 1e3 * np.quantile(delay, (0.05, 0.5, 0.95))
        text = (
            f"Packets of {rows.flow_names[flow]} wait {written(middle, 3)} ms longer than the path itself takes "
            f"(median; {written(low, 3)} ms at the 5th, {written(high, 3)} ms at the 95th percentile)."
        )
        yield Finding("delay", text, _count(rows, "packets", flow=flow))
        share = _explained_by_queue(rows, flow)
        if share is not None:
            text = (
                f"{written(100 * share, 3)} % of the differences between their delays are the queue at "
                f"{rows.link_names[rows.bottleneck]} that each met."
            )
            yield Finding(
                "delay", text, _count(rows, "packets", flow=flow) + "; " + _count(rows, "queue_polls", "queue")
            )
        began, ended = _worst(sent, delay, rows.duration_s)
        cause = _happened(rows, began, ended)
        text = (
            f"The worst ten seconds of {rows.flow_names[flow]} are {written(began, 3)} to {written(ended, 3)} s{cause}."
        )
        yield Finding("delay", text, _count(rows, "packets", flow=flow))


def _explained_by_queue(rows: Rows, flow: int) -> float | None:
    """The share of the delay's variance that the backlog on arrival explains (r² of their regression)."""
    try:
        _, _, r2 = metrics.delay_slope(rows, flow, rows.bottleneck)
    except (MissingRows, ValueError):
        return None
    return float(r2) if math.isfinite(r2) else None


def _worst(sent: Floats, delay: Floats, duration_s: float, width_s: float = 10.0) -> tuple[float, float]:
    """The window of `width_s` with the largest median delay, in steps of a second."""
    starts = np.arange(0.0, max(duration_s - width_s, 0.0) + 1.0, 1.0)
    medians = [float(np.median(part)) if len(part) else 0.0
               for part in (delay[(sent >= t) & (sent < t + width_s)] for t in starts)]  # fmt: skip
    began = float(starts[int(np.argmax(medians))])
    return began, min(began + width_s, duration_s)


def _happened(rows: Rows, began: float, ended: float) -> str:
    """What the TCP flows did in a window of time, as an addition to a sentence."""
    said = []
    for flow in rows.tcp_flows:
        table = rows.of_flow("flows", flow)
        started = float(table["started_s"][0])
        if began <= started <= ended:
            said.append(f"{rows.flow_names[flow]} begins in them")
            continue
        at = metrics.congestion_events(rows, flow).t_s if rows.has("congestion") else np.zeros(0)
        inside = int(np.sum((at >= began) & (at <= ended)))
        if inside:
            said.append(f"{rows.flow_names[flow]} backs off {_times(inside)} in them")
    return f": {', and '.join(said[:3])}" if said else ""


def _growth(rows: Rows) -> Iterator[Finding]:
    if not rows.has("congestion"):
        return
    for flow in rows.tcp_flows:
        events = metrics.congestion_events(rows, flow)
        if not len(events.t_s):
            text = f"{_named(rows, flow)} never backed off: nothing of it was lost or marked."
            yield Finding("growth", text, "congestion: no row of it")
            continue
        mss = rows.mss(flow)
        kept = events.ssthresh / np.where(events.cwnd_before > 0, events.cwnd_before, np.nan)
        found = metrics.epochs(rows, flow)
        text = (
            f"{_named(rows, flow)} backed off {_times(len(events.t_s))}, "
            f"from {written(_median(events.cwnd_before) / mss, 3)} segments "
        )
        # BBR has no threshold, and a capture shows none.
        share = _median(kept)
        text += f"to {written(100 * share, 2)} % of that (medians)" if math.isfinite(share) else "(median)"
        if len(found) >= 2:
            text += f"; an epoch between two takes {written(_median(found.duration_s), 3)} s"
        waited = int(np.sum(events.timeouts))
        if waited:
            text += f"; {waited} timeouts let the line wait" if waited > 1 else "; one timeout let the line wait"
        yield Finding("growth", f"{text}.", _count(rows, "congestion", flow=flow))


def _losses(rows: Rows) -> Iterator[Finding]:
    dropped = {link: int(rows.of_link("links", link)["dropped"][0]) for link in range(len(rows.link_names))}
    total = sum(dropped.values())
    if not total:
        yield Finding("loss", "No link dropped a packet.", "links: all rows")
        return
    most = max(dropped, key=lambda link: dropped[link])
    there = f"{written(100 * dropped[most] / total, 3)} % of them at {rows.link_names[most]}"
    text = f"{written(total)} packets were dropped, {there}"
    by_flow = {flow: int(rows.of_flow("flows", flow)["packets_dropped"][0]) for flow in range(len(rows.flow_names))}
    hit = [flow for flow, count in sorted(by_flow.items(), key=lambda each: -each[1]) if count][:3]
    shares = ", ".join(f"{rows.flow_names[flow]} {written(by_flow[flow])}" for flow in hit)
    yield Finding("loss", f"{text}: {shares}." if shares else f"{text}.", "links, flows: packets dropped")
    times = metrics.drop_times(rows, most)
    if len(times) > 1:
        # A pause of a second ends a burst.
        bursts = 1 + int(np.sum(np.diff(times) > 1.0))
        text = f"They came in {bursts} bursts" if bursts > 1 else "They came in one burst"
        first = float(np.mean(times < times[0] + 1.0))
        if first > 0.3:
            text += f"; {written(100 * first, 2)} % in the first second of loss, at {written(float(times[0]), 3)} s"
        yield Finding("loss", f"{text}.", f"queue: {len(times)} drops at {rows.link_names[most]}")


def _shares(rows: Rows) -> Iterator[Finding]:
    neck = rows.bottleneck
    sharing = [flow for flow in rows.tcp_flows if neck in rows.route(flow)]
    if len(sharing) < 2:
        return
    rates = {flow: metrics.goodput(rows, flow) for flow in sharing}
    total = sum(rates.values())
    first = max(rates, key=lambda flow: rates[flow])
    index = metrics.jain(list(rates.values()))
    share = rates[first] / total if total else math.nan
    text = (
        f"{_named(rows, first)} got {written(100 * share, 2)} % of the goodput of {len(sharing)} flows "
        f"(Jain's index {written(index, 3)})"
    )
    rtts = {flow: float(rows.of_flow("flows", flow)["rtt_min_s"][0]) for flow in sharing}
    slowest, quickest = (pick(rtts.values()) for pick in (max, min))
    kinds = {who.algorithm(rows, flow) for flow in sharing}
    if share > max(_MAIN_SHARE, 1.2 / len(sharing)):
        if quickest > 0 and slowest / quickest > 1.5 and rtts[first] < 1.2 * quickest:
            shortest, longest = (written(1e3 * rtt, 3) for rtt in (quickest, slowest))
            text += f"; its round trip is the shortest, {shortest} ms against up to {longest} ms"
        elif len(kinds) > 1:
            text += f"; the others run {', '.join(sorted(kinds - {who.algorithm(rows, first)})) or 'the same'}"
    yield Finding("share", f"{text}.", "flows: goodput, rtt_min_s")


def _named(rows: Rows, flow: int) -> str:
    return f"{rows.flow_names[flow]} ({who.title_of(rows, flow)})"


def _median(values: Any) -> float:
    kept = np.asarray(values, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    return float(np.median(kept)) if len(kept) else math.nan


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _count(rows: Rows, *tables: str, flow: int | None = None) -> str:
    name = next((table for table in tables if rows.has(table)), tables[0])
    if not rows.has(name):
        return name
    number = len(next(iter((rows.table(name) if flow is None else rows.of_flow(name, flow)).values())))
    return f"{name}: {written(number)} rows" + ("" if flow is None else f" of {rows.flow_names[flow]}")
