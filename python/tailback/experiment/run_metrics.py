"""The metrics kept of each run: the usual totals, and further ones that the sweep names."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tailback import _core, metrics, registry
from tailback.experience import films, games, loading, page_loads, recorded
from tailback.experiment.design import refuse
from tailback.experiment.store.axes import is_axis
from tailback.experiment.store.index import COLUMNS
from tailback.metrics import MissingRows, Rows, holds_queue
from tailback.metrics.rates import known_counts
from tailback.result import EVENTS, Result

__all__ = ["ENGINES", "RunMetrics", "measurable", "measured", "totals", "totals_names"]

#: Changes when `totals` does, so that old rows are not treated as new ones.
REVISION = "6"
#: Metrics that describe the engine, not the network: they may differ between runs that are otherwise the same.
ENGINES = ("events",)
#: With more flows (or links) than this, only totals over all of them are kept.
MOST = 16

_FLOW = ("goodput_mbps", "loss", "retransmitted", "timeouts", "rtt_min_ms", "srtt_ms")
_LINK = ("utilisation", "delivered", "dropped", "marked", "backlog_mean_bytes", "backlog_max_bytes")
_DELAY = ("delay_p50_ms", "delay_p95_ms", "delay_p99_ms", "delay_mean_ms", "delay_max_ms")
#: Columns of user experience (`tailback.experience`), where it was recorded.
_EXPERIENCE = ("median_ms", "p95_ms", "lost", "jitter_ms", "mos")
_Measure = Callable[[Result, str, float | None, float | None], float]
#: Metric of an algorithm's internal quantity: a statistic, the share of polls at a value, or how often the value is
#: entered.
_OWN = re.compile(r"own_(?P<name>\w+)_(?:(?P<of>mean|min|max|last)|(?P<how>is|enters)_(?P<at>\d+))")
_OWN_STATISTICS: dict[str, Callable[[Any], Any]] = {
    "mean": np.mean, "min": np.min, "max": np.max, "last": lambda values: values[-1],
}  # fmt: skip
#: Metric over the exchanges that one of a flow's algorithms carried; `cc` is turn 0.
_TURN = re.compile(r"turn_(?P<turn>\d+)_(?P<key>answered_mbps|answer_p9[59]_ms)")
_WHOLE = ("goodput_mbps", "jain", "utilisation", "loss", "backlog_mean_bytes", "packets", "events")


def totals_names(resolved: Mapping[str, Any], most: int = MOST) -> list[str]:
    """The names of `totals` for a resolved scenario."""
    flows = [row["name"] for row in resolved["flows"]]
    links = [row["name"] for row in resolved["links"] if holds_queue(row)]
    out = list(_WHOLE)
    if len(flows) <= most:
        tcp = {row["name"] for row in resolved["flows"] if row.get("tcp")}
        out += [f"{flow}.{key}" for flow in flows for key in (_FLOW if flow in tcp else _FLOW[:2])]
        packets = [flow for flow in flows if flow in resolved["instruments"]["packets"]]
        out += [f"{flow}.{key}" for flow in packets for key in _DELAY]
        out += [f"{flow}.experience_{key}" for flow in recorded(resolved) for key in _EXPERIENCE]
        out += [f"{flow}.{key}" for flow, keys in _noticed(resolved).items() for key in keys]
    if len(links) <= most:
        out += [f"{link}.{key}" for link in links for key in _LINK]
    return out


def totals(result: Result, most: int = MOST) -> dict[str, float]:
    """Goodput, loss, delay and occupancy of a run: for each flow and link if they are few, and for the whole run.

    Whole run: total goodput of the TCP flows and their Jain's index; utilisation, loss and mean backlog of the
    bottleneck. Delays are one-way delays of delivered packets, where packets were recorded.
    """
    flows, links = result.flow_summary(), result.link_summary()
    tcp = [number(row["goodput_mbps"]) for row in flows if row["cc"] is not None]
    neck = result.link_index(result.bottleneck)
    columns = result.numpy("links")
    rate = result.link_spec(neck).get("rate_bps")
    # A kernel does not count events.
    events = float(result.numpy("engine")["events"][0]) if "engine" in result.tables else math.nan
    out = {
        "goodput_mbps": float(sum(tcp)) if tcp else math.nan,
        "jain": metrics.jain(tcp),
        "utilisation": float(columns["busy_s"][neck]) / result.duration_s if rate else math.nan,
        "loss": metrics.drop_share_at_link(result, neck),
        "backlog_mean_bytes": float(columns["backlog_bytes_mean"][neck]),
        "packets": float(columns["delivered"][neck]),
        "events": events,
    }
    if len(flows) <= most:
        for row in flows:
            out |= {f"{row['flow']}.{key}": number(row[key]) for key in (_FLOW if row["cc"] is not None else _FLOW[:2])}
        for flow in result.flow_names:
            if flow in result.resolved["instruments"]["packets"]:
                out |= {f"{flow}.{key}": value for key, value in _delays(result, flow).items()}
        people = recorded(result.resolved)
        experienced = {row["flow"]: row for row in result.experience_summary()} if people else {}
        for flow in people:
            out |= {f"{flow}.experience_{key}": number(experienced.get(flow, {}).get(key)) for key in _EXPERIENCE}
        noticed = {row["flow"]: row for row in [*films(result), *games(result), *page_loads(result)]}
        for flow, keys in _noticed(result.resolved).items():
            out |= {f"{flow}.{key}": number(noticed.get(flow, {}).get(key)) for key in keys}
    if len(links) <= most:
        for row in links:
            out |= {f"{row['link']}.{key}": number(row[key]) for key in _LINK}
    return out


def _noticed(resolved: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Metrics of user experience by flow (games, films, web pages), where they were recorded."""
    out: dict[str, tuple[str, ...]] = {}
    tables, specs = recorded(resolved), {row["name"]: row for row in resolved["flows"]}
    for flow, table in tables.items():
        card = registry.application(specs[flow])
        if card.plays_film and table == "requests":
            out[flow] = tuple(_FILM)
        elif card.loads_pages and table == "requests":
            out[flow] = tuple(_PAGES)
        elif card.datagrams == "updates" and table == "packets":
            out[flow] = tuple(_LATE)
    return out


def measurable(resolved: Mapping[str, Any], *, window: bool = False) -> dict[str, str]:
    """Names that `measured` accepts for a resolved scenario, each with the [instruments] line it lacks, or "".

    They include those of `totals` for any number of flows and links, the loss of each link, the mean, smallest and
    largest window of each flow, and the internal quantities of its algorithm. In a `window` of time, only metrics from
    timestamped rows exist.
    """
    flows = resolved["flows"]
    links = [row["name"] for row in resolved["links"] if holds_queue(row)]
    tcp = [row["name"] for row in flows if row.get("tcp")]
    out = {} if window else dict.fromkeys(totals_names(resolved, sys.maxsize), "")

    def need(name: str, of: str, *instruments: str) -> None:
        has = any(of in resolved["instruments"].get(key, ()) for key in instruments)
        out[name] = "" if has else f'{instruments[0]} = ["{of}"]'

    for row in flows:
        flow, card = row["name"], registry.application(row)
        table = card.rows or ("packets" if flow not in tcp else "")
        for key in _EXPERIENCE if table and not window else ():
            need(f"{flow}.experience_{key}", flow, table)
        if table == "requests":
            turns = range(1 + len(row["tcp"].get("cc_turns", ())))
            for whose in ("", *(f"turn_{turn}_" for turn in turns)):
                for key in _EXCHANGES:
                    need(f"{flow}.{whose}{key}", flow, table)
        if card.datagrams == "updates":
            for key in _LATE:
                need(f"{flow}.{key}", flow, "packets")
        for key in _FILM if card.plays_film and not window else ():
            need(f"{flow}.{key}", flow, "requests")
        for key in _PAGES if card.loads_pages else ():
            need(f"{flow}.{key}", flow, "requests")
        if window and card.datagrams == "voice":
            need(f"{flow}.experience_mos", flow, "packets")
        for key in _DELAY:
            need(f"{flow}.{key}", flow, "packets")
        if flow in tcp:
            need(f"{flow}.cwnd_mean_bytes", flow, "polls")
            need(f"{flow}.cwnd_max_bytes", flow, "polls")
            need(f"{flow}.cwnd_min_bytes", flow, "polls")
            need(f"{flow}.in_flight_max_bytes", flow, "polls")
            for key in () if window else _START:
                need(f"{flow}.{key}", flow, "polls")
            for key in _FREED if window else ():
                need(f"{flow}.{key}", flow, "polls")
        if window:
            need(f"{flow}.goodput_mbps", flow, "polls" if flow in tcp else "packets")
            need(f"{flow}.loss", flow, "packets")
            if flow not in tcp:
                need(f"{flow}.settle_ms", flow, "packets")
    if window and tcp:
        lacking = ", ".join(f'"{flow}"' for flow in tcp if flow not in resolved["instruments"].get("polls", ()))
        out |= dict.fromkeys(("goodput_mbps", "jain"), f"polls = [{lacking}]" if lacking else "")
    for link in links:
        if window:
            need(f"{link}.backlog_mean_bytes", link, "queue_polls", "queues")
            need(f"{link}.backlog_max_bytes", link, "queue_polls", "queues")
            need(f"{link}.dropped", link, "drops", "queues")
            need(f"{link}.loss", link, "queues")
        else:
            out[f"{link}.loss"] = ""
    return _Known(out, resolved)


def measured(result: Result, *, start_s: float | None = None, end_s: float | None = None) -> Callable[[str], float]:
    """A function that returns a run's metrics by the names of `measurable`; NaN if the run has no value.

    Metrics cover the whole run, or what was sent, requested or polled in [start_s, end_s).
    """
    window = start_s is not None or end_s is not None
    whole = {} if window else totals(result, sys.maxsize)

    def measure(name: str) -> float:
        if name in whole:
            return whole[name]
        of, _, key = name.rpartition(".")
        if key in _START and not Rows.of(result).has_start(of):
            return math.nan
        try:
            if key in _DELAY:
                return _delays(result, of, start_s, end_s)[key]
            if key.startswith("own_"):
                return _own(result, of, key, start_s, end_s)
            if found := _TURN.fullmatch(key):
                return _EXCHANGES[found["key"]](result, of, start_s, end_s, int(found["turn"]))
            return _MEASURES[key](result, of, start_s, end_s)
        except MissingRows:
            # Recorded, but empty: no packet was sent.
            return math.nan

    return measure


def _goodput_mbps(result: Result, flow: str, start_s: float | None, end_s: float | None) -> float:
    if flow:
        return metrics.goodput(result, flow, start_s, end_s) / 1e6
    return sum(_rates(result, start_s, end_s))


def _jain(result: Result, _: str, start_s: float | None, end_s: float | None) -> float:
    return metrics.jain(_rates(result, start_s, end_s))


def _rates(result: Result, start_s: float | None, end_s: float | None) -> list[float]:
    tcp = [row["name"] for row in result.resolved["flows"] if row.get("tcp")]
    return [_goodput_mbps(result, flow, start_s, end_s) for flow in tcp]


def _loss(result: Result, of: str, start_s: float | None, end_s: float | None) -> float:
    if of in result.flow_names:
        return metrics.flow_loss_rate(result, of, start_s, end_s)
    if start_s is None and end_s is None:
        return metrics.drop_share_at_link(result, of)
    # Counts packets that left the queue: a packet dropped on arrival may have no enqueue row. One that the wire drops
    # has left the queue before.
    table = result.where_link("queue", of)
    dropped, sent = (table["event"] == EVENTS.index(word) for word in ("drop", "dequeue"))
    inside = _within(table["t_s"], start_s, end_s)
    left = np.unique(table["packet"][inside & (dropped | sent)])
    return _core.drop_share_at_link(float(np.sum(inside & dropped)), float(len(left)))


def _dropped(result: Result, link: str, start_s: float | None, end_s: float | None) -> float:
    return float(np.sum(_within(metrics.drop_times(result, link), start_s, end_s)))


def _backlog(result: Result, link: str, start_s: float | None, end_s: float | None) -> tuple[float, float]:
    backlog, held = metrics.held_backlogs(result, link, start_s, end_s)
    if not len(held):
        return math.nan, math.nan
    return float(np.sum(backlog * held) / np.sum(held)), float(backlog.max())


def _polled(column: str, of: Callable[[Any], Any]) -> Callable[[Result, str, float | None, float | None], float]:
    """A statistic, such as the mean, of a polled column."""

    def measure(result: Result, flow: str, start_s: float | None, end_s: float | None) -> float:
        polls = result.where_flow("polls", flow)
        values = polls[column][_within(polls["t_s"], start_s, end_s)]
        return float(of(values)) if len(values) else math.nan

    return measure


def _slow_start_cwnd_bytes(result: Result, flow: str, *_: float | None) -> float:
    """The congestion window at the last poll of slow start; NaN if ssthresh was never set."""
    polls = result.where_flow("polls", flow)
    ended = np.flatnonzero(np.isfinite(polls["ssthresh"].astype(float)))
    return float(polls["cwnd"][ended[0] - 1]) if len(ended) and ended[0] else math.nan


def _ramp_ms(result: Result, flow: str, *_: float | None) -> float:
    """Time from a flow's start until its receiver first gets 90 % of the bottleneck's rate over a base RTT."""
    polls = result.where_flow("polls", flow)
    rate = result.ip_rate_bps(result.bottleneck)
    rtt = polls["rtt_min_s"][np.isfinite(polls["rtt_min_s"])]
    if math.isnan(rate) or not len(rtt):
        return math.nan
    time, got, base = polls["t_s"], polls["bytes_received"].astype(float), float(rtt.min())
    # In IP bytes of full segments, as the link counts them.
    row = next(row for row in result.resolved["flows"] if row["name"] == flow)
    mtu = float(row["tcp"]["mtu"])
    # Headers of IP and TCP with timestamps.
    headers = (40.0 if row.get("ip") == 6 else 20.0) + 20.0 + 12.0
    gained = (got - np.interp(time - base, time, got)) * mtu / (mtu - headers)
    there = np.flatnonzero((gained >= 0.9 * rate / 8.0 * base) & (time >= time[0] + base))
    return 1e3 * (float(time[there[0]]) - _started_s(result, flow)) if len(there) else math.nan


def longest_pause(result: Result, flow: str) -> tuple[float, float]:
    """Start and end in seconds of the longest time without an acknowledgement for a flow while it was on.

    Needs polls. NaN for a flow that never began.
    """
    polls = result.where_flow("polls", flow)
    moved = polls["t_s"][np.diff(polls["bytes_acked"].astype(np.int64), prepend=0) > 0]
    pauses: list[tuple[float, float]] = []
    for start, stop in Rows.of(result).on_s(flow):
        pauses += pairwise([start, *moved[(moved > start) & (moved < stop)].tolist(), stop])
    return max(pauses, key=lambda pause: pause[1] - pause[0], default=(math.nan, math.nan))


def _longest_pause_ms(result: Result, flow: str, *_: float | None) -> float:
    if Rows.of(result).recorded_s[1] < result.duration_s:
        return math.nan
    start, end = longest_pause(result, flow)
    return 1e3 * (end - start)


def _received_ms(size: float) -> _Measure:
    def measure(result: Result, flow: str, *_: float | None) -> float:
        """Time from the flow's start until this many bytes have arrived in order."""
        times, received = known_counts(Rows.of(result), flow)
        there = np.flatnonzero(received >= size)
        return 1e3 * (float(times[there[0]]) - _started_s(result, flow)) if len(there) else math.nan

    return measure


def _started_s(result: Result, flow: str) -> float:
    """When a flow started: with a `start_spread`, later than its scenario says."""
    return float(result.numpy("flows")["started_s"][result.flow_index(flow)])


def _window_reaches_ms(share: float) -> _Measure:
    def measure(result: Result, flow: str, start_s: float | None, end_s: float | None) -> float:
        """Time from the start of the window until cwnd reaches this share of the BDP."""
        polls, bdp, _ = _polls_and_bdp(result, flow, start_s, end_s)
        there = np.flatnonzero(polls["cwnd"] >= share * bdp)
        return 1e3 * (float(polls["t_s"][there[0]]) - (start_s or 0.0)) if len(there) else math.nan

    return measure


def _window_step_bytes(result: Result, flow: str, start_s: float | None, end_s: float | None) -> float:
    """Largest growth of cwnd within a base RTT, before cwnd reaches 90 % of the BDP."""
    polls, bdp, rtt = _polls_and_bdp(result, flow, start_s, end_s)
    time, cwnd = polls["t_s"], polls["cwnd"].astype(float)
    there = np.flatnonzero(cwnd >= 0.9 * bdp)
    last = int(there[0]) + 1 if len(there) else len(time)
    if last < 2:
        return math.nan
    before = np.maximum(np.searchsorted(time, time[:last] - rtt), 0)
    return float(np.max(cwnd[:last] - cwnd[before]))


def _polls_and_bdp(result: Result, flow: str, start_s: float | None, end_s: float | None) -> tuple[Any, float, float]:
    """A time window's polls, the flow's BDP (bottleneck rate times smallest RTT), and that RTT."""
    polls = result.where_flow("polls", flow)
    rtt = float(np.nanmin(polls["rtt_min_s"])) if np.isfinite(polls["rtt_min_s"]).any() else math.nan
    rate = result.ip_rate_bps(result.bottleneck)
    inside = _within(polls["t_s"], start_s, end_s)
    return {name: values[inside] for name, values in polls.items()}, rate / 8.0 * rtt, rtt


def _answers(
    result: Result, flow: str, start_s: float | None, end_s: float | None, turn: int | None
) -> tuple[Any, Any]:
    """Sizes and response times of the answers that a flow requested and fully received in a time window."""
    rows = result.where_flow("requests", flow)
    chosen = np.isfinite(rows["response_time_s"])
    chosen &= _within(rows["t_s"] + np.where(chosen, rows["response_time_s"], 0.0), start_s, end_s)
    if turn is not None:
        chosen &= rows["turn"] == turn
    return rows["bytes"][chosen], rows["response_time_s"][chosen]


def _answered_mbps(
    result: Result, flow: str, start_s: float | None, end_s: float | None, turn: int | None = None
) -> float:
    sizes, _ = _answers(result, flow, start_s, end_s, turn)
    first, last = Rows.of(result).recorded_s
    span = min(last, math.inf if end_s is None else end_s) - max(first, start_s or 0.0)
    return 8e-6 * float(np.sum(sizes, dtype=float)) / span


def _answer_ms(share: float) -> Callable[..., float]:
    def measure(
        result: Result, flow: str, start_s: float | None, end_s: float | None, turn: int | None = None
    ) -> float:
        """Quantile of the response time at this share."""
        _, times = _answers(result, flow, start_s, end_s, turn)
        return 1e3 * float(metrics.quantiles_of(times, (share,))[0])

    return measure


def _settle_ms(result: Result, flow: str, start_s: float | None, end_s: float | None) -> float:
    """Time from the window's start until the one-second rate stays within 10 % of the rate in its last third."""
    rows = result.where_flow("packets", flow)
    start, end = start_s or 0.0, result.duration_s if end_s is None else end_s
    order = np.argsort(rows["received_s"], kind="stable")
    times, bytes_ = rows["received_s"][order], rows["bytes"][order].astype(float)
    sums = np.concatenate(([0.0], np.cumsum(bytes_)))

    def mean(begin: Any, until: Any) -> Any:
        return (sums[np.searchsorted(times, until)] - sums[np.searchsorted(times, begin)]) / (until - begin)

    last = mean(end - (end - start) / 3.0, end)
    ends = np.arange(start + 1.0, end, 0.1)
    if not last or not len(ends):
        return math.nan
    outside = ends[np.abs(mean(ends - 1.0, ends) - last) > 0.1 * last]
    return 1e3 * (float(outside[-1]) - start) if len(outside) else 0.0


class _Known(dict[str, str]):
    """The names of `measurable`, and an algorithm's internal quantities, whose names only a run shows."""

    def __init__(self, names: Mapping[str, str], resolved: Mapping[str, Any]) -> None:
        super().__init__(names)
        has = resolved["instruments"].get("internals")
        polled = resolved["instruments"].get("polls", ())
        self._own = {
            row["name"]: "" if has and row["name"] in polled else f'polls = ["{row["name"]}"] and internals = true'
            for row in resolved["flows"]
            if row.get("tcp")
        }

    def get(self, name: str, default: Any = None) -> Any:
        """The [instruments] line that a name lacks."""
        of, _, key = name.rpartition(".")
        if name not in self and _OWN.fullmatch(key):
            return self._own.get(of, default)
        return super().get(name, default)


def _own(result: Result, flow: str, key: str, start_s: float | None, end_s: float | None) -> float:
    """An algorithm's internal quantity at the polls; NaN if it has none of this name."""
    found = _OWN.fullmatch(key)
    assert found is not None, key
    if found["name"] not in result.internals_names:
        return math.nan
    rows = result.where_flow("internals", flow)
    mine = rows["name"] == result.internals_names.index(found["name"])
    values = rows["value"][mine & _within(rows["t_s"], start_s, end_s)]
    if not len(values):
        return math.nan
    if found["at"] is None:
        return float(_OWN_STATISTICS[found["of"]](values))
    is_there = values == float(found["at"])
    if found["how"] == "is":
        return float(np.mean(is_there))
    return float(np.sum(is_there[1:] & ~is_there[:-1]))


def _mean_opinion(result: Result, flow: str, start_s: float | None, end_s: float | None) -> float:
    return metrics.voice_quality(result, flow, start_s, end_s).mos


def _late(bound_s: float) -> _Measure:
    def measure(result: Result, flow: str, start_s: float | None, end_s: float | None) -> float:
        return metrics.late_share(result, flow, bound_s, start_s, end_s)

    return measure


def _film(what: Callable[[metrics.Film], float]) -> _Measure:
    return lambda result, flow, *_: float(what(metrics.film(result, flow)))


def _page(key: str) -> _Measure:
    return lambda result, flow, start_s, end_s: float(loading(result, flow, start_s, end_s)[key])


def _within(times: Any, start_s: float | None, end_s: float | None) -> Any:
    return (times >= (start_s or 0.0)) & (times < (math.inf if end_s is None else end_s))


#: Metrics of a flow's start and of its longest pause.
_START: dict[str, _Measure] = {
    "slow_start_cwnd_bytes": _slow_start_cwnd_bytes,
    "ramp_ms": _ramp_ms,
    "longest_pause_ms": _longest_pause_ms,
    "received_15kB_ms": _received_ms(1.5e4),
    "received_100kB_ms": _received_ms(1e5),
    "received_150kB_ms": _received_ms(1.5e5),
    "received_1MB_ms": _received_ms(1e6),
    "received_1500kB_ms": _received_ms(1.5e6),
    "received_10MB_ms": _received_ms(1e7),
    "received_15MB_ms": _received_ms(1.5e7),
}
#: Metrics of how a flow uses freed capacity, in a time window.
_FREED: dict[str, _Measure] = {
    "window_60_ms": _window_reaches_ms(0.6),
    "window_80_ms": _window_reaches_ms(0.8),
    "window_90_ms": _window_reaches_ms(0.9),
    "window_step_bytes": _window_step_bytes,
}
#: Metrics of exchanges, with the algorithm's turn as a further argument.
_EXCHANGES: dict[str, Callable[..., float]] = {
    "answered_mbps": _answered_mbps,
    "answer_p95_ms": _answer_ms(0.95),
    "answer_p99_ms": _answer_ms(0.99),
}
#: Metrics for the share of a game's updates that are later than this limit.
_LATE: dict[str, _Measure] = {"late_50": _late(0.050), "late_100": _late(0.100)}
#: Metrics of a film as its viewer sees it.
_FILM: dict[str, _Measure] = {
    "startup_s": _film(lambda film: film.startup_s),
    "stalled_s": _film(lambda film: film.stalled_s),
    "stalls": _film(lambda film: film.stalls),
    "switches": _film(lambda film: film.switches),
    "bitrate_mbps": _film(lambda film: film.bitrate_bps / 1e6),
}
#: Metrics of page loads.
_PAGES: dict[str, _Measure] = {key: _page(key) for key in ("loads", "load_time_s", "load_time_p95_s", "speed_index_s")}
#: Metrics outside the totals, or outside time windows, by the last part of their name.
_MEASURES: dict[str, _Measure] = (
    _START
    | _FREED
    | _EXCHANGES
    | _LATE
    | _FILM
    | _PAGES
    | {
        "goodput_mbps": _goodput_mbps,
        "jain": _jain,
        "loss": _loss,
        "dropped": _dropped,
        "backlog_mean_bytes": lambda *given: _backlog(*given)[0],
        "backlog_max_bytes": lambda *given: _backlog(*given)[1],
        "cwnd_mean_bytes": _polled("cwnd", np.mean),
        "cwnd_max_bytes": _polled("cwnd", np.max),
        "cwnd_min_bytes": _polled("cwnd", np.min),
        "in_flight_max_bytes": _polled("in_flight", np.max),
        "experience_mos": _mean_opinion,
        "settle_ms": _settle_ms,
    }
)


def number(value: Any) -> float:
    """A float; NaN for a missing value."""
    return math.nan if value is None else float(value)


def _delays(result: Result, flow: str, start_s: float | None = None, end_s: float | None = None) -> dict[str, float]:
    rows = result.where_flow("packets", flow)
    delay = 1e3 * (rows["received_s"] - rows["sent_s"])[_within(rows["sent_s"], start_s, end_s)]
    delay = delay[np.isfinite(delay)]
    if not len(delay):
        return dict.fromkeys(_DELAY, math.nan)
    values = [*metrics.quantiles_of(delay, (0.5, 0.95, 0.99)), delay.mean(), delay.max()]
    return {name: float(value) for name, value in zip(_DELAY, values, strict=True)}


@dataclass(frozen=True)
class RunMetrics:
    """The totals and, by name, functions of a result or entries of `tailback.metrics` with their arguments."""

    functions: Mapping[str, Callable[[Result], Any]] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> RunMetrics:
        """Convert a mapping of names to functions, or to tables like `{metric = "delay_quantiles", flow = "voip"}`."""
        functions: dict[str, Callable[[Result], Any]] = {}
        calls: dict[str, Mapping[str, Any]] = {}
        for name, what in (given or {}).items():
            if name in COLUMNS or name in _WHOLE or is_axis(name):
                raise refuse(f"metrics.{name}", None, "this name is taken", "Choose another")
            if callable(what):
                functions[name] = what
            elif isinstance(what, Mapping):
                _check_call(name, what)
                calls[name] = dict(what)
            else:
                fix = 'Write for example { metric = "utilisation", link = "bottleneck" }'
                raise refuse(f"metrics.{name}", str(what), "is no metric", fix)
        return cls(functions, calls)

    @property
    def digest(self) -> str:
        """Identifies the metrics: equal digests keep equal metrics. A function counts by its source, if available."""
        parts: dict[str, Any] = {"revision": REVISION, "calls": self.calls}
        for name, function in self.functions.items():
            parts[name] = _source(function)
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]

    def names(self, resolved: Mapping[str, Any]) -> list[str]:
        """The names of the values; for a metric with several numbers only the first part is known."""
        return [*totals_names(resolved), *self.functions, *self.calls]

    def __call__(self, result: Result) -> dict[str, float]:
        """The values to keep of a run."""
        out = totals(result)
        for name, function in self.functions.items():
            out |= _spread(name, function(result))
        for name, call in self.calls.items():
            arguments = {key: value for key, value in call.items() if key != "metric"}
            out |= _spread(name, metrics.get(call["metric"]).function(result, **arguments))
        return out


def _source(function: Callable[..., Any]) -> Any:
    if isinstance(function, functools.partial):
        return [_source(function.func), function.args, function.keywords]
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"{function!r}"


def _check_call(name: str, call: Mapping[str, Any]) -> None:
    known = metrics.names()
    if call.get("metric") not in known:
        fix = f"There are: {', '.join(known)}"
        raise refuse(f"metrics.{name}.metric", call.get("metric"), "there is no such metric", fix)
    accepted = list(inspect.signature(metrics.get(call["metric"]).function).parameters)[1:]
    for key in call:
        if key != "metric" and key not in accepted:
            fix = f"It takes: {', '.join(accepted)}"
            raise refuse(f"metrics.{name}.{key}", call[key], f"{call['metric']} takes no such argument", fix)


def _spread(name: str, value: Any) -> dict[str, float]:
    """One column for a number, numbered columns for a few; raises an error for a series."""
    if isinstance(value, Mapping):
        return {f"{name}.{key}": number(item) for key, item in value.items()}
    if isinstance(value, Sequence | np.ndarray):
        if len(value) > MOST or any(np.ndim(item) for item in value):
            raise ValueError(f"{name} is a series, and a row has at most {MOST} numbers a metric")
        return {f"{name}.{at}": number(item) for at, item in enumerate(value)}
    return {name: number(value)}
