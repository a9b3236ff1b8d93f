"""Occupancy of a queue over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailback import _core

from .delay import one_way_delay
from .registry import measure, metric
from .rows import Floats, Rows, between, floats


@metric(title="Queue occupancy over time", unit="s, byte", source="dummynet log of CAIA-TR-080818A section III-B")
def backlog_series(
    result: Any, link: int | str | None = None, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """Instants and the queue's backlog in bytes: after each event if events were logged, else as polled.

    Between two instants the backlog keeps the earlier value. A poll also counts the packet that is being sent.
    """
    rows = Rows.of(result)
    index = rows.bottleneck if link is None else rows.link(link)
    table = rows.of_link("queue" if is_logged(rows, index) else "queue_polls", index)
    times = floats(table["t_s"])
    kept = between(times, start_s, end_s)
    return times[kept], floats(table["backlog_bytes"])[kept]


def is_logged(rows: Rows, link: int) -> bool:
    """Whether a link's backlog is known from its events; else it is polled."""
    logged = rows.scenario.get("instruments", {}).get("queues") or []
    return rows.has("queue") and rows.link_names[link] in logged


def held_backlogs(
    result: Any, link: int | str | None = None, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """Backlogs in bytes and the seconds for which each was held.

    A queue keeps its backlog until the next event or poll. A log also says what was before its first event and after
    its last: nothing, if it is of the whole run, and the last backlog.
    """
    rows = Rows.of(result)
    _, backlog, held = _held(rows, rows.bottleneck if link is None else rows.link(link), start_s, end_s)
    return backlog, held


def _held(rows: Rows, link: int, start_s: float | None, end_s: float | None) -> tuple[Floats, Floats, Floats]:
    """When each backlog that lasted began in the interval, in seconds, and what `held_backlogs` returns."""
    times, backlog = backlog_series(rows, link)
    first, last = rows.recorded_s
    if not is_logged(rows, link):
        last = float(np.max(times, initial=0.0))
    elif first == 0.0:
        times, backlog = np.insert(times, 0, 0.0), np.insert(backlog, 0, 0.0)
    begin = 0.0 if start_s is None else start_s
    end = max(begin, last if end_s is None else min(end_s, last))
    edges = np.clip(np.append(times, end), begin, end)
    held = np.diff(edges)
    lasted = held > 0.0
    return edges[:-1][lasted], backlog[lasted], held[lasted]


def _drain_s(rows: Rows, link: int, at_s: Floats, backlog: Floats) -> Floats:
    """Seconds that a link takes to send these backlogs, each from its instant on, at the rates of its schedule."""
    spec = rows.link_spec(link)
    steps = [step for step in spec.get("schedule") or () if step.get("rate_bps") is not None]
    if not steps or spec.get("framing"):
        return np.asarray(8.0 * backlog / rows.carried_bps(link), dtype=np.float64)
    times = [0.0, *(step["at_ps"] / 1e12 for step in steps)]
    rates = [rows.rate_bps(link), *(float(step["rate_bps"]) for step in steps)]
    # The last rate goes on after the run. What it never sends takes an hour.
    times.append(max(times[-1], rows.duration_s) + 3600.0)
    sent = np.concatenate([[0.0], np.cumsum(np.diff(times) * rates)])
    done = np.interp(np.interp(at_s, times, sent) + 8.0 * backlog, sent, times)
    return np.asarray(np.where(backlog > 0.0, done - at_s, 0.0), dtype=np.float64)


@metric(title="Queue occupancy distribution", unit="byte, share of time", source="definition; time-weighted")
def occupancy_distribution(
    result: Any, link: int | str | None = None, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """Backlogs in ascending order and the share of time spent at or below each."""
    backlog, held = held_backlogs(result, link, start_s, end_s)
    if not len(held):
        return np.zeros(0), np.zeros(0)
    order = np.argsort(backlog, kind="stable")
    share = np.cumsum(held[order])
    return backlog[order], share / share[-1]


@measure
def queue_delay_quantiles(
    result: Any,
    link: int | str | None = None,
    quantiles: Sequence[float] = (0.5, 0.95),
    start_s: float | None = None,
    end_s: float | None = None,
) -> Floats:
    """`quantiles` are shares of time, 0 … 1; the link is the bottleneck by default."""
    rows = Rows.of(result)
    index = rows.bottleneck if link is None else rows.link(link)
    at_s, backlog, held = _held(rows, index, start_s, end_s)
    waits = _drain_s(rows, index, at_s, backlog)
    return np.asarray(_core.weighted_quantiles(waits, held, [float(share) for share in quantiles]), dtype=np.float64)


@metric(title="Share of time above a fill level", unit="1", source="CAIA-TR-080818A section VII")
def time_above(
    result: Any,
    fraction: float = 0.75,
    link: int | str | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
) -> float:
    """Share of time in which the backlog exceeds `fraction` of the queue's limit."""
    rows = Rows.of(result)
    index = rows.bottleneck if link is None else rows.link(link)
    backlog, held = held_backlogs(rows, index, start_s, end_s)
    if not len(held):
        return float("nan")
    above = backlog > fraction * rows.limit_bytes(index)
    return float(np.sum(held[above]) / np.sum(held))


@metric(title="Backlog met by each packet", unit="s, byte, s", source="CAIA-TR-080818A Figs 7 and 8")
def delay_against_backlog(
    result: Any,
    flow: int | str,
    link: int | str | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
) -> tuple[Floats, Floats, Floats]:
    """For each packet that arrived: when it was sent, the backlog it met at the link, and its one-way delay.

    The link is one that the flow crosses, by default its bottleneck.

    The backlog met is the one just before its arrival at the queue, found in the queue's log (or polls) at
    sending time plus the delay of the links before.
    """
    rows = Rows.of(result)
    index = rows.crossed(flow, link)
    sent, delay = one_way_delay(rows, flow, start_s, end_s)
    before = 0.0
    for hop in rows.route(flow):
        if hop == index:
            break
        before += float(rows.link_spec(hop).get("delay_ps", 0)) / 1e12
    times, backlog = backlog_series(rows, index)
    # Strictly before the arrival, so that the packet's own enqueueing does not count.
    at = np.searchsorted(times, sent + before, side="left") - 1
    met = np.where(at >= 0, backlog[np.maximum(at, 0)], 0.0)
    return sent, met, delay


@metric(title="Slope of delay over backlog", unit="s/byte, s, 1", source="CAIA-TR-080818A section VII; law: 8/C")
def delay_slope(
    result: Any,
    flow: int | str,
    link: int | str | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
) -> tuple[float, float, float]:
    """Least-squares slope and intercept of one-way delay over the backlog met, and r².

    A FIFO of rate C makes the slope exactly 8/C.
    """
    _, met, delay = delay_against_backlog(result, flow, link, start_s, end_s)
    if len(met) < 3 or float(np.ptp(met)) == 0.0:
        return float("nan"), float("nan"), float("nan")
    x, y = met - met.mean(), delay - delay.mean()
    slope = float(np.dot(x, y) / np.dot(x, x))
    intercept = float(delay.mean() - slope * met.mean())
    r = float(np.dot(x, y) / np.sqrt(np.dot(x, x) * np.dot(y, y)))
    return slope, intercept, r * r
