"""What is kept of a run: the link, the users' waiting, and how the high-speed flows met congestion."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tailback.experiment import Cell, Summary, quantiles, rounded
from tailback.metrics import Rows
from tailback.metrics.rows import (
    ANSWERED,
    DROPPED,
    QUEUE_FULL,
    RECEIVED,
    RECOVERY_ENTERED,
    TIMEOUT,
    Flags,
    Floats,
    floats,
)
from tailback.result import Result

from .grid import DURATION_S, LAST_JOIN_S, NETWORKS, OBJECTS, PACKET_BYTES, WARM_UP_S, Network, join_s

JOIN_RTTS = 20
"""“Shortly after the join of new flows”, in round trips with empty queues: 14 doublings take two packets past the
link's BDP and a queue of as much at the paper's rate, and the rest lets a loss be found and repaired in a full queue.

Slow start counts in round trips and so must this window: in seconds it is a part of the schedule, which the smaller
scales shorten while the round trips stay."""
JOIN_RTTS_SEEN = (5, 10, 20, 40)
"""The windows whose drops are kept, so that one can see how much hangs on the choice."""
BINS = 400
GAMMA = 30.0
"""Segments of backlog at which Compound sees congestion (section 2.4)."""


def summarise(cell: Cell, result: Result) -> Summary:
    """Plain numbers of one run."""
    rows = Rows.of(result)
    network = NETWORKS[cell.factors["network"]]
    names = rows.flow_names
    fast = [name for name in names if name.startswith("hs-")]
    length = rows.duration_s
    start, settled = length * WARM_UP_S / DURATION_S, length * LAST_JOIN_S / DURATION_S
    spec = rows.link_spec(network.main)
    link = rows.of_link("links", network.main)
    arrived, delivered = float(link["arrived"][0]), float(link["delivered_bytes"][0])
    drops = Drops.of(rows, network.main, fast)
    flows = rows.table("flows")
    received = dict(zip(names, floats(flows["bytes_received"]).tolist(), strict=True))
    timeouts = dict(zip(names, floats(flows["timeouts"]).tolist(), strict=True))
    queue = rows.of_link("queue_polls", network.main)
    t, backlog = floats(queue["t_s"]), floats(queue["backlog_packets"])
    limit = float(spec["queue"]["params"].get("limit_packets") or spec["queue"]["params"]["limit_bytes"] / PACKET_BYTES)
    late = t >= settled
    joins = [join_s(number, len(fast), length) for number in range(len(fast))]
    after = {rtts: int(np.sum(drops.within(joins, rtts * network.rtt_s()))) for rtts in JOIN_RTTS_SEEN}
    return {
        "key": cell.key,
        "utilisation": 8.0 * delivered / length / float(spec["rate_bps"]),
        "loss": len(drops.t) / arrived,
        "arrived": arrived,
        "drops": len(drops.t),
        "join_drops": after[JOIN_RTTS],
        "join_drops_after": {str(rtts): count for rtts, count in after.items()},
        "join_time_share": covered(joins, JOIN_RTTS * network.rtt_s()) / length,
        "late_loss_share": float(np.mean(drops.t >= settled)) if len(drops.t) else 0.0,
        "fast_drops": int(np.sum(drops.fast)),
        "web_drops": int(np.sum(~drops.fast)),
        "fast_mbps": 8e-6 * sum(received[name] for name in fast) / length,
        "fast_timeouts": int(sum(timeouts[name] for name in fast)),
        "ftp_mbps": 8e-6 * received["ftp"] / (length - start),
        "hftp_mbps": 8e-6 * received["hftp"] / (length - start) if "hftp" in received else None,
        "queue_ms": 1e3 * float(np.mean(floats(queue["backlog_bytes"])[late])) * 8 / float(spec["rate_bps"]),
        "above_half": float(np.mean(backlog[late] > limit / 2)),
        "limit_packets": limit,
        **_events(rows, drops, fast, network, settled, length),
        **_retreat(rows, fast, settled),
        "www": _www(rows),
        **_voip(rows),
        "series": _series(rows, fast, t, floats(queue["backlog_bytes"]) * 8e3 / float(spec["rate_bps"]), length),
    }


class Drops:
    """Packets that found the main link's queue full: when, and whether a high-speed flow's."""

    def __init__(self, t: Floats, flow: Floats, fast: Flags) -> None:
        self.t, self.flow, self.fast = t, flow, fast

    @staticmethod
    def of(rows: Rows, link: str, fast: list[str]) -> Drops:
        """From the queue's log."""
        if not rows.has("queue"):
            return Drops(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.bool_))
        log = rows.of_link("queue", link)
        full = (np.asarray(log["event"]) == DROPPED) & (np.asarray(log["reason"]) == QUEUE_FULL)
        flow = floats(log["flow"])[full]
        return Drops(floats(log["t_s"])[full], flow, np.isin(flow, [rows.flow(name) for name in fast]))

    def within(self, starts: list[float], seconds: float) -> Flags:
        """Which came within `seconds` of one of the starts."""
        chosen = np.zeros(len(self.t), dtype=np.bool_)
        for start in starts:
            chosen |= (self.t >= start) & (self.t < start + seconds)
        return chosen


def covered(starts: list[float], seconds: float) -> float:
    """How long the windows of `seconds` after the starts (in order) are together, overlaps counted once."""
    gaps = [later - start for start, later in pairwise(starts)]
    return sum(min(seconds, gap) for gap in gaps) + seconds if starts else 0.0


def bursts(t: Floats, gap: float) -> list[slice]:
    """Runs of instants less than `gap` apart."""
    if not len(t):
        return []
    edges = [0, *(np.flatnonzero(np.diff(t) >= gap) + 1).tolist(), len(t)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _events(
    rows: Rows, drops: Drops, fast: list[str], network: Network, settled: float, length: float
) -> dict[str, Any]:
    """Congestion events of the high-speed flows after all have joined: bursts of their drops, two RTTs apart."""
    mine = drops.fast & (drops.t >= settled)
    t, flow = drops.t[mine], drops.flow[mine]
    found = bursts(t, 2 * network.rtt_s())
    reduced = _reductions(rows, fast, settled)
    steps = [step for name in fast for step in _steps(rows, name, reduced[name], network.rtt_s())]
    count = sum(len(each) for each in reduced.values())
    return {
        "events_per_s": len(found) / (length - settled),
        "drops_per_event": float(np.mean([one.stop - one.start for one in found])) if found else None,
        "hit_share": float(np.mean([len(set(flow[one])) / len(fast) for one in found])) if found else None,
        "reductions_per_s": count / len(fast) / (length - settled),
        "step": float(np.median(steps)) if steps else None,
    }


def _reductions(rows: Rows, fast: list[str], settled: float) -> dict[str, Floats]:
    if not rows.has("congestion"):
        return {name: np.zeros(0) for name in fast}
    table = rows.table("congestion")
    cut = np.isin(np.asarray(table["kind"]), (RECOVERY_ENTERED, TIMEOUT)) & (floats(table["t_s"]) >= settled)
    flow, t = np.asarray(table["flow"])[cut], floats(table["t_s"])[cut]
    return {name: t[flow == rows.flow(name)] for name in fast}


def _steps(rows: Rows, name: str, reduced: Floats, rtt_s: float) -> list[float]:
    """By how many segments a round trip the window grew before each reduction: its slope over a few polls."""
    polls = rows.of_flow("polls", name)
    t, cwnd = floats(polls["t_s"]), floats(polls["cwnd"]) / PACKET_BYTES
    reach = max(3 * rtt_s, 4.5 * float(t[1] - t[0])) if len(t) > 1 else 0.0
    steps = []
    for before, now in zip([-np.inf, *reduced], reduced, strict=False):
        looked = np.flatnonzero((t > max(now - reach, before + rtt_s)) & (t < now))
        if len(looked) >= 3:
            first, last = looked[0], looked[-1]
            steps.append(float((cwnd[last] - cwnd[first]) / (t[last] - t[first])) * rtt_s)
    return steps


def _retreat(rows: Rows, fast: list[str], settled: float) -> dict[str, Any]:
    """Compound: how often loss came before delay was seen, and for how long the delay window was empty."""
    if not rows.has("internals"):
        return {}
    table = rows.table("internals")
    kinds = list(rows.internals_names)
    reduced = _reductions(rows, fast, settled)
    unseen, empty, looked = [], [], 0
    for name in fast:
        mine = np.asarray(table["flow"]) == rows.flow(name)
        t, value, kind = floats(table["t_s"])[mine], floats(table["value"])[mine], np.asarray(table["name"])[mine]
        of = {one: (t[kind == kinds.index(one)], value[kind == kinds.index(one)]) for one in ("dwnd", "backlog")}
        late = of["dwnd"][0] >= settled
        empty += (of["dwnd"][1][late] < 1.0).tolist()
        times, backlog = of["backlog"]
        for now in reduced[name]:
            at = int(np.searchsorted(times, now)) - 1
            if at >= 0:
                unseen.append(backlog[at] < GAMMA)
                looked += 1
    return {
        "loss_unseen": float(np.mean(unseen)) if looked else None,
        "dwnd_empty": float(np.mean(empty)) if empty else None,
    }


def _www(rows: Rows) -> dict[str, Any]:
    """Response times of each size in seconds."""
    table = rows.table("requests")
    done = np.asarray(table["fate"]) == ANSWERED
    size, took = np.asarray(table["bytes"])[done], floats(table["response_time_s"])[done]
    found: dict[str, Any] = {}
    for one in OBJECTS:
        each = took[size == one]
        if len(each):
            found[f"{one >> 10}"] = {
                "mean": float(np.mean(each)),
                "count": len(each),
                "p95": float(np.quantile(each, 0.95)),
                "quantiles": quantiles(each, 5),
            }
    return found


def _voip(rows: Rows) -> dict[str, Any]:
    """One-way delay, and jitter as the mean change of delay from one packet to the next of the same call."""
    packets = rows.of_flow("packets", "voip")
    got = np.asarray(packets["fate"]) == RECEIVED
    delay = 1e3 * (floats(packets["received_s"]) - floats(packets["sent_s"]))[got]
    stream = np.asarray(packets["stream"])[got]
    changes = np.concatenate([np.abs(np.diff(delay[stream == one])) for one in np.unique(stream)])
    known = np.asarray(packets["fate"]) <= 1
    return {
        "voip_ms": float(np.mean(delay)),
        "voip_p95_ms": float(np.quantile(delay, 0.95)),
        "jitter_ms": float(np.mean(changes)),
        "voip_loss": 1.0 - float(np.sum(got)) / max(1, int(np.sum(known))),
        "voip_packets": int(np.sum(got)),
    }


def _series(rows: Rows, fast: list[str], t: Floats, backlog_ms: Floats, length: float) -> dict[str, list[float]]:
    """Windows and queue over time, for pictures: sums and means in equal bins."""
    edges = np.linspace(0.0, length, BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    total = np.zeros(BINS)
    for name in fast:
        polls = rows.of_flow("polls", name)
        total += np.interp(middle, floats(polls["t_s"]), floats(polls["cwnd"]) / PACKET_BYTES, left=0.0)
    which = np.clip(np.digitize(t, edges) - 1, 0, BINS - 1)
    count = np.maximum(np.bincount(which, minlength=BINS), 1)
    queue = np.bincount(which, weights=backlog_ms, minlength=BINS) / count
    return {
        "t_s": rounded(middle, 3),
        "cwnd": rounded(total, 1),
        "queue_ms": rounded(queue, 3),
    }
