"""What a result says of queues, delays, losses, windows and shares, in plain sentences with the rows they rest on.

A sentence states what was measured. It names a cause only where a law and a test of the rows support it. A queue
explains a delay if the delay grows by 8/C for each byte in it. A cut leaves a link idle if the window after it is
smaller than what the path holds. What merely happened at the same time is not named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tailback import metrics
from tailback.experience import PACKET_BYTES
from tailback.metrics import MissingRows, Rows
from tailback.metrics.queue import is_logged
from tailback.metrics.rows import Floats
from tailback.numbers import written
from tailback.plots import flows as who
from tailback.result.provenance import Provenance

__all__ = ["Finding", "explain"]

#: A flow "has" a link from this share of the payload delivered over it on.
_MAIN_SHARE = 0.5
#: Below this correlation a window does not explain a queue (|r| < 0.7 is less than half of the variance).
_EXPLAINS = 0.7
#: What a queue adds to a packet's delay, as a share of the law's 8/C for each byte: polls in between lower the slope.
_LAWFUL = (0.5, 1.25)
#: Width of the window in which delays are worst, and how much longer than usual they must be there to be worth a word.
_WORST_S, _WORSE = 10.0, 1.5
#: A pause as long as this ends a burst of drops.
_PAUSE_S = 1.0
#: Up to this many flows that lost packets are named; of more, the last ones are added up.
_HIT = 8

Period = tuple[float, float]


@dataclass(frozen=True)
class Finding:
    """One sentence of an explanation, with its evidence."""

    about: str
    """`delay`, `queue`, `loss`, `growth` or `share`."""
    text: str
    rests_on: str
    """The table, how many of its rows, and of which flow."""

    def as_dict(self) -> dict[str, str]:
        """The finding as plain values, for JSON."""
        return asdict(self)


def explain(result: Any) -> list[Finding]:
    """What the rows of a result say of its queues, delays, losses, windows and shares.

    Only what was recorded is explained: a sentence whose rows are missing is left out. Each is a statement of the
    metrics of `tailback.metrics`, so the same holds for simulated, live and captured results. A flow is credited with
    the queues of links that its packets cross, and with the time in which it was on.

    >>> import tailback as tb
    >>> from tailback.explain import explain
    >>> flows = [tb.bulk("reno", name="bulk"), tb.voip(name="call")]
    >>> recorded = {"packets": ["call"], "queue_polls": ["bottleneck"]}
    >>> home = tb.dumbbell(rate="2mbit", rtt="40ms", flows=flows, duration="20s", instruments=recorded)
    >>> explain(tb.run(home))[0].about
    'queue'
    """
    rows = Rows.of(result)
    return [finding for part in (_queues, _delays, _growth, _losses, _shares) for finding in part(rows)]


def _or_none(measure: Callable[[], Any]) -> Any:
    """What is measured, or None if it was not recorded or there is too little of it."""
    try:
        return measure()
    except (MissingRows, ValueError):
        return None


def _queues(rows: Rows) -> Iterator[Finding]:
    if not rows.has("links"):
        return
    places = [link for link in range(len(rows.link_names)) if rows.holds_queue(link) and _crossing(rows, link)]
    if not places:
        if _is_captured(rows):
            # Two captures know nothing of the links between them.
            return
        yield Finding("queue", "No queue can form: no link that a flow crosses has a rate.", "scenario")
        return
    # A queue is worth a sentence if more than the packet being sent was there on average.
    held = {link: float(rows.of_link("links", link)["backlog_bytes_mean"][0]) for link in places}
    standing = [link for link in places if held[link] >= PACKET_BYTES]
    if not standing:
        most = max(places, key=lambda link: held[link])
        text = f"No queue stood: the longest, at {rows.link_names[most]}, held {written(held[most])} B on average."
        yield Finding("queue", text, "links: all rows")
        return
    for link in sorted(standing, key=lambda link: -held[link]):
        yield from _queue(rows, link)


def _queue(rows: Rows, link: int) -> Iterator[Finding]:
    name, totals = rows.link_names[link], rows.of_link("links", link)
    limit, mean = rows.limit_bytes(link), float(totals["backlog_bytes_mean"][0])
    carried = rows.carried_bps(link)
    if math.isnan(rows.rate_bps(link)) or rows.link_spec(link).get("schedule"):
        # Little's law: a medium also waits for others, and a schedule changes the rate.
        carried = 8.0 * float(totals["delivered_bytes"][0]) / rows.duration_s or math.nan
    wait = "" if math.isnan(carried) else f", a wait of {written(8e3 * mean / carried, 3)} ms"
    of_limit = f" of {written(limit / 1e3, 3)} kB" if math.isfinite(limit) else ""
    text = f"A queue is at {name} ({who.carrier(rows, link)}): {written(mean / 1e3, 3)} kB{of_limit} on average{wait}."
    yield Finding("queue", text, f"links: the row of {name}")
    series = _or_none(lambda: metrics.held_backlogs(rows, link))
    if series is None or not len(series[1]):
        return
    backlog, held = series
    empty = float(np.sum(held[backlog == 0]) / np.sum(held))
    said = f"It was empty for {written(100 * empty, 2)} % of the time"
    if math.isfinite(limit):
        said += f" and more than three quarters full for {written(100 * metrics.time_above(rows, 0.75, link), 2)} %"
    idle = 1.0 - metrics.utilisation(rows, link)
    if idle > 0.01:
        said += f"; the link stood idle for {written(100 * idle, 2)} %"
        off = 1.0 - _length(_union([on for flow in _crossing(rows, link) for on in rows.on_s(flow)])) / rows.duration_s
        said += f", no flow being on for {written(100 * off, 2)} %" if off > 0.01 else ""
        said += _cut_too_deep(rows, link)
    yield Finding("queue", f"{said}.", _backlog_rows(rows, link))
    for flow in _senders(rows, link):
        share, strength = _payload_share(rows, flow, link), _correlation(rows, flow, link)
        if share >= _MAIN_SHARE and strength >= _EXPLAINS:
            text = (
                f"{_named(rows, flow)} filled it: {written(100 * share, 2)} % of the payload is its own, and while it "
                f"was on, queue and window rose and fell together (correlation {written(strength, 2)})."
            )
            yield Finding("queue", text, _count(rows, "segments", "polls", flow=flow))


def _cut_too_deep(rows: Rows, link: int) -> str:
    """That a flow's cuts leave less than the path holds, if it has the link to itself and was never off.

    Then the law is exact: a window below the bandwidth-delay product cannot keep the link busy.
    """
    senders = _senders(rows, link)
    if len(senders) != 1 or _payload_share(rows, senders[0], link) < 0.95:
        return ""
    (flow,) = senders
    on = rows.on_s(flow)
    events = _or_none(lambda: metrics.congestion_events(rows, flow))
    if len(on) != 1 or on[0][1] < rows.duration_s or events is None:
        return ""
    after, holds = _median(events.ssthresh), rows.carried_bps(link) * rows.base_rtt_s(flow) / 8.0
    if not after < holds:
        return ""
    mss = rows.mss(flow)
    left, path = written(after / mss, 3), written(holds / mss, 3)
    return f": a cut leaves {rows.flow_names[flow]} {left} segments (median), and the path alone holds {path}"


def _correlation(rows: Rows, flow: int, link: int) -> float:
    """Of window and queue while the flow was on; 0 if that cannot be known."""
    on = rows.on_s(flow)
    if not on:
        return 0.0
    began, ended = max(on, key=lambda period: period[1] - period[0])
    strength = _or_none(lambda: metrics.window_queue_correlation(rows, flow, link, began, ended))
    return 0.0 if strength is None or math.isnan(strength) else float(strength)


def _delays(rows: Rows) -> Iterator[Finding]:
    recorded = set(np.unique(rows.column("packets", "flow")).tolist()) if rows.has("packets") else set()
    for flow in (flow for flow in rows.udp_flows if flow in recorded):
        name = rows.flow_names[flow]
        found = _or_none(lambda flow=flow: metrics.induced_delay(rows, flow))  # type: ignore[misc]
        if found is None or not len(found[1]):
            continue
        # The path's own delay is a sum of rounded numbers: the least wait may come out a hair below or above zero.
        sent, delay = found[0], np.maximum(0.0, np.round(found[1], 9))
        low, middle, high = 1e3 * metrics.quantiles_of(delay, (0.05, 0.5, 0.95))
        text = (
            f"Packets of {name} wait {written(middle, 3)} ms longer than the path itself takes "
            f"(median; {written(low, 3)} ms at the 5th, {written(high, 3)} ms at the 95th percentile)."
        )
        yield Finding("delay", text, _count(rows, "packets", flow=flow))
        explained = _explained_by_queue(rows, flow)
        if explained is not None:
            link, share = explained
            text = (
                f"{written(100 * share, 3)} % of the differences between their delays are the queue at "
                f"{rows.link_names[link]} that each met."
            )
            rests_on = _count(rows, "packets", flow=flow) + "; " + _backlog_rows(rows, link)
            yield Finding("delay", text, rests_on)
        yield from _worst_of(rows, flow, sent, delay)


def _explained_by_queue(rows: Rows, flow: int) -> tuple[int, float] | None:
    """The link on the flow's way whose backlog explains most of the delay's variance, and how much (r²).

    None unless that is at least half, by a slope that the law 8/C allows: queues that merely rise at the same time have
    another.
    """
    best: tuple[int, float] | None = None
    for link in (link for link in rows.route(flow) if rows.holds_queue(link)):
        found = _or_none(lambda link=link: metrics.delay_slope(rows, flow, link))  # type: ignore[misc]
        if found is None or not math.isfinite(found[2]):
            continue
        slope, _, r2 = found
        relative = slope * rows.carried_bps(link) / 8.0
        if r2 >= 0.5 and _LAWFUL[0] <= relative <= _LAWFUL[1] and (best is None or r2 > best[1]):
            best = link, float(r2)
    return best


def _worst_of(rows: Rows, flow: int, sent: Floats, delay: Floats) -> Iterator[Finding]:
    """When waits were longest, if that differs from the rest, and which flow began just then."""
    if rows.duration_s < 2.0 * _WORST_S:
        return
    began, ended = _worst(sent, delay, rows.duration_s)
    inside, usual = _median(delay[(sent >= began) & (sent < ended)]), _median(delay)
    if not inside > _WORSE * usual or inside < 1e-3:
        return
    name = rows.flow_names[flow]
    text = (
        f"The worst {_WORST_S:g} seconds of {name} are {written(began, 3)} to {written(ended, 3)} s: a wait of "
        f"{written(1e3 * inside, 3)} ms (median) against {written(1e3 * usual, 3)} ms over the whole run."
    )
    yield Finding("delay", text, _count(rows, "packets", flow=flow))
    shared = {link for link in rows.route(flow) if rows.holds_queue(link)}
    for other in (other for other in rows.tcp_flows if shared & set(rows.route(other))):
        starts = [start for start, _ in rows.on_s(other) if began <= start < ended]
        for start in starts[:1]:
            before = delay[(sent >= start - _WORST_S) & (sent < start)]
            after = delay[(sent >= start) & (sent < start + _WORST_S)]
            if not len(before) or not _median(after) > 2.0 * max(_median(before), 0.5e-3):
                continue
            link = rows.link_names[next(link for link in rows.route(flow) if link in shared & set(rows.route(other)))]
            text = (
                f"{_named(rows, other)}, which shares {link} with it, began at {written(start, 3)} s: a wait of "
                f"{written(1e3 * _median(before), 3)} ms in the {_WORST_S:g} seconds before, "
                f"{written(1e3 * _median(after), 3)} ms in those after."
            )
            yield Finding("delay", text, _count(rows, "packets", flow=flow) + "; flows: started_s")


def _worst(sent: Floats, delay: Floats, duration_s: float, width_s: float = _WORST_S) -> Period:
    """The window of `width_s` with the largest median delay, in steps of a second."""
    starts = np.arange(0.0, max(duration_s - width_s, 0.0) + 1.0, 1.0)
    medians = [float(np.median(part)) if len(part) else 0.0
               for part in (delay[(sent >= t) & (sent < t + width_s)] for t in starts)]  # fmt: skip
    began = float(starts[int(np.argmax(medians))])
    return began, min(began + width_s, duration_s)


def _growth(rows: Rows) -> Iterator[Finding]:
    if "congestion" not in rows.tables:
        return
    for flow in rows.tcp_flows:
        events = _or_none(lambda flow=flow: metrics.congestion_events(rows, flow))  # type: ignore[misc]
        if events is None or not rows.on_s(flow):
            continue
        if not len(events.t_s):
            dropped = int(rows.of_flow("flows", flow)["packets_dropped"][0])
            some = "one of its packets was" if dropped == 1 else f"{written(dropped)} of its packets were"
            none = "the packets from its sender" if _drops_back(rows, flow) else "its packets"
            rest = f", though {some} dropped" if dropped else f", and none of {none} was dropped"
            text = f"{_named(rows, flow)} met no congestion (recovery, timeout or ECN echo){rest}."
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
        if len(found) >= 2 and len(rows.on_s(flow)) == 1:
            text += f"; an epoch between two takes {written(_median(found.duration_s), 3)} s"
        waited = int(np.sum(events.timeouts))
        if waited:
            text += f"; {waited} of these were timeouts" if waited > 1 else "; one of these was a timeout"
        yield Finding("growth", f"{text}.", _count(rows, "congestion", flow=flow))


def _drops_back(rows: Rows, flow: int) -> bool:
    """Whether links on the flow's way back dropped packets: which of them were its own is not counted."""
    dropped = rows.table("links")["dropped"] if rows.has("links") else ()
    return any(dropped[link] for link in rows.back_route(flow)) if len(dropped) else False


def _losses(rows: Rows) -> Iterator[Finding]:
    if not rows.has("links"):
        return
    dropped = {link: int(rows.of_link("links", link)["dropped"][0]) for link in range(len(rows.link_names))}
    damaged = int(np.sum(rows.column("receiver_drops", "packets"))) if rows.has("receiver_drops") else 0
    total = sum(dropped.values()) + damaged
    if not total:
        if _is_captured(rows):
            # A capture at one place misses nothing that it could name.
            return
        yield Finding("loss", "No link dropped a packet.", "links: all rows")
        return
    most = max(dropped, key=lambda link: dropped[link])
    name = rows.link_names[most]
    there = f"{written(100 * dropped[most] / total, 3)} % of them at {name}"
    if damaged:
        there += f", {written(100 * damaged / total, 3)} % by hosts that received them damaged"
    by_flow = {flow: int(rows.of_flow("flows", flow)["packets_dropped"][0]) for flow in range(len(rows.flow_names))}
    hit = [flow for flow, count in sorted(by_flow.items(), key=lambda each: -each[1]) if count]
    named = hit if len(hit) <= _HIT else hit[: _HIT - 1]
    parts = [f"{rows.flow_names[flow]} {written(by_flow[flow])}" for flow in named]
    if rest := hit[len(named) :]:
        parts.append(f"{len(rest)} other flows {written(sum(by_flow[flow] for flow in rest))}")
    shares = ", ".join(parts)
    # The table of flows counts packets of a flow's own direction: answers and acknowledgements are the rest.
    returned = total - sum(by_flow.values())
    if returned > 0:
        shares += ", and " if shares else ""
        shares += f"{written(returned)} that a flow's receiver sent back, as answers or acknowledgements"
    text = f"{_packets(total)} dropped, {there}"
    yield Finding("loss", f"{text}: {shares}." if shares else f"{text}.", "links, flows: packets dropped")
    times = metrics.drop_times(rows, most)
    if len(times) > 1:
        bursts = 1 + int(np.sum(np.diff(times) > _PAUSE_S))
        # The log has what the link's queue, policer and wire dropped.
        span = f"from {written(times[0], 3)} to {written(times[-1], 3)} s, without a pause of {_PAUSE_S:g} s"
        apart = f"in {bursts} bursts (a burst ends with {_PAUSE_S:g} s without a drop)"
        text = f"The link {name} dropped {apart if bursts > 1 else span}."
        yield Finding("loss", text, f"queue: {len(times)} drops at {name}")


def _shares(rows: Rows) -> Iterator[Finding]:
    for link in range(len(rows.link_names)):
        sharing = [flow for flow in _senders(rows, link) if rows.on_s(flow)]
        # Of a chain of links that the same flows cross, one says it all.
        if rows.holds_queue(link) and len(sharing) > 1 and link in {rows.bottleneck_of(flow) for flow in sharing}:
            yield from _share(rows, link, sharing)


def _share(rows: Rows, link: int, sharing: list[int]) -> Iterator[Finding]:
    together = _common([rows.on_s(flow) for flow in sharing])
    alone = max(_length(rows.on_s(flow)) for flow in sharing)
    if not together:
        return
    window: tuple[float | None, float | None] = (None, None)
    while_on = ""
    if _length(together) < 0.95 * alone:
        window = max(together, key=lambda period: period[1] - period[0])
        while_on = f" while all were on ({written(window[0], 3)} to {written(window[1], 3)} s)"
    found = {flow: _or_none(lambda flow=flow: metrics.goodput(rows, flow, *window)) for flow in sharing}  # type: ignore[misc]
    rates = {flow: float(rate) for flow, rate in found.items() if rate is not None and math.isfinite(rate)}
    total = sum(rates.values())
    if len(rates) < len(sharing) or not total:
        return
    first = max(rates, key=lambda flow: rates[flow])
    text = (
        f"At {rows.link_names[link]}, {_named(rows, first)} got {written(100 * rates[first] / total, 2)} % of the "
        f"goodput of {len(sharing)} flows{while_on} (Jain's index {written(metrics.jain(list(rates.values())), 3)})."
    )
    rests_on = "flows: goodput" if window == (None, None) else _count(rows, "polls")
    yield Finding("share", text, rests_on)
    differing = _differences(rows, sharing)
    if rates[first] > 1.2 * total / len(sharing):
        text = f"They differ in {', '.join(differing)}." if differing else "They are configured alike."
        yield Finding("share", text, "scenario")


def _differences(rows: Rows, flows: list[int]) -> list[str]:
    """In what flows that share a link differ, as the scenario has it."""
    specs = [rows.flow_spec(flow) for flow in flows]
    out = []
    algorithms = sorted({who.algorithm(rows, flow) for flow in flows})
    if len(algorithms) > 1:
        out.append(f"congestion control ({', '.join(algorithms)})")
    trips = [1e3 * rows.base_rtt_s(flow) for flow in flows]
    if max(trips) > 1.05 * min(trips):
        out.append(f"round trip ({written(min(trips), 3)} to {written(max(trips), 3)} ms)")
    starts = [min(start for start, _ in rows.on_s(flow)) for flow in flows]
    if max(starts) - min(starts) >= 1.0:
        out.append(f"start ({written(min(starts), 3)} to {written(max(starts), 3)} s)")
    parts: dict[str, Callable[[dict[str, Any]], Any]] = {
        "stack": lambda spec: (spec["tcp"].get("stack"), spec["tcp"].get("stack_params")),
        "parameters of the congestion control": lambda spec: (spec["tcp"]["cc"], spec["tcp"].get("cc_params")),
        "application": lambda spec: (spec["app"].get("kind"), spec["app"].get("params")),
        "route": lambda spec: (spec.get("route"), spec.get("back_route")),
    }
    for name, part in parts.items():
        if len({repr(part(spec)) for spec in specs}) > 1 and not (
            name.startswith("parameters") and len(algorithms) > 1
        ):
            out.append(name)
    return out


def _is_captured(rows: Rows) -> bool:
    return Provenance.of(rows.meta).is_captured


def _crossing(rows: Rows, link: int) -> list[int]:
    """Flows whose packets cross a link, acknowledgements included."""
    return [flow for flow in range(len(rows.flow_names)) if link in (*rows.route(flow), *rows.back_route(flow))]


def _senders(rows: Rows, link: int) -> list[int]:
    """Flows over TCP most of whose data cross a link in their own direction."""
    return [
        flow
        for flow in rows.tcp_flows
        if link in rows.route(flow) and 2.0 * _payload(rows, flow, link) >= _payload(rows, flow)
    ]


def _payload_share(rows: Rows, flow: int, link: int) -> float:
    """Of the payload that all flows brought over a link, a flow's part."""
    brought = {other: _payload(rows, other, link) for other in _crossing(rows, link)}
    total = sum(brought.values())
    return brought[flow] / total if total else 0.0


def _payload(rows: Rows, flow: int, link: int | None = None) -> float:
    """A flow's payload over a link, or both ways."""
    totals = rows.of_flow("flows", flow)
    there = float(totals["bytes_received"][0]) if link is None or link in rows.route(flow) else 0.0
    is_back = "bytes_returned" in totals and (link is None or link in rows.back_route(flow))
    return there + (float(totals["bytes_returned"][0]) if is_back else 0.0)


def _union(periods: list[Period]) -> list[Period]:
    out: list[Period] = []
    for start, stop in sorted(periods):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], stop))
        else:
            out.append((start, stop))
    return out


def _common(each: list[list[Period]]) -> list[Period]:
    """Periods in which all were on."""
    common = each[0]
    for periods in each[1:]:
        both = [(max(a, c), min(b, d)) for a, b in common for c, d in periods]
        common = [(start, stop) for start, stop in both if stop > start]
    return common


def _length(periods: list[Period]) -> float:
    return sum(stop - start for start, stop in periods)


def _packets(count: int) -> str:
    return "One packet was" if count == 1 else f"{written(count)} packets were"


def _named(rows: Rows, flow: int) -> str:
    return f"{rows.flow_names[flow]} ({who.title_of(rows, flow)})"


def _median(values: Any) -> float:
    kept = np.asarray(values, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    return float(np.median(kept)) if len(kept) else math.nan


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _backlog_rows(rows: Rows, link: int) -> str:
    """The rows that a link's backlog is known from."""
    return _count(rows, "queue" if is_logged(rows, link) else "queue_polls", link=link)


def _count(rows: Rows, *tables: str, flow: int | None = None, link: int | None = None) -> str:
    """The first of these tables that has rows, and how many of the flow or link."""
    for name in tables:
        if not rows.has(name, flow):
            continue
        if flow is not None:
            kept, of = rows.of_flow(name, flow), f" of {rows.flow_names[flow]}"
        elif link is not None:
            kept, of = rows.of_link(name, link), f" of {rows.link_names[link]}"
        else:
            kept, of = dict(rows.table(name)), ""
        number = len(next(iter(kept.values())))
        if number:
            return f"{name}: {written(number)} rows{of}"
    return tables[0]
