"""What is kept of each run: numbers for the claims, quantiles for the distributions, a thin series for the eye."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback import metrics
from tailback.experiment import Cell, Summary, quantiles, rounded
from tailback.metrics import Rows
from tailback.metrics.rows import PHASE_OPEN, Floats, floats

SERIES_POINTS = 500
"""Points of each series in the report's explorer, after decimation that keeps every bin's extremes."""


def summarise(cell: Cell, result: Any) -> Summary:
    """Summary of one run."""
    rows = Rows.of(result)
    tcp, call = rows.flow("tcp"), rows.flow("call")
    link = rows.link("bottleneck")
    limit = rows.limit_bytes(link)
    events = metrics.congestion_events(rows, tcp)
    found = metrics.epochs_of(events)
    window = metrics.typical_window(found, rows.duration_s)
    # Whole epochs only, so that no part of the cycle counts twice.
    steady = (float(found.start_s[0]), float(found.end_s[-1])) if len(found) else (found.first_event_s, rows.duration_s)
    mss = rows.mss(tcp)
    totals = rows.of_flow("flows", tcp)
    _, induced = metrics.induced_delay(rows, call, window.start_s, window.end_s)
    _, induced_steady = metrics.induced_delay(rows, call, *steady)
    # Occupancy as the call sees it: delay over what a full queue costs.
    full_s = 8.0 * limit / rows.rate_bps(link)
    t_q, backlog = metrics.backlog_series(rows, link, *steady)
    summary: Summary = {
        "key": cell.key,
        "seed": rows.seed,
        "duration_s": rows.duration_s,
        "loaded_rtt_s": metrics.loaded_rtt_s(rows, tcp, link),
        "limit_bytes": limit,
        "goodput_bps": metrics.goodput(rows, tcp),
        "utilisation": metrics.utilisation(rows, link),
        "loss_rate": metrics.drop_share_at_link(rows, link),
        "call_loss": metrics.flow_loss_rate(rows, call),
        "recoveries": int(totals["recoveries"][0]),
        "timeouts": int(totals["timeouts"][0]),
        "undos": int(totals["undos"][0]),
        "retransmitted": int(totals["segments_retransmitted"][0]),
        "events_s": rounded(events.t_s, 4),
        "left_s": rounded(events.left_s, 4),
        "cwnd_before": rounded(events.cwnd_before / mss, 2),
        "ssthresh": rounded(events.ssthresh / mss, 2),
        "epoch_s": rounded(found.duration_s, 4),
        "steady_from_s": found.steady_from_s,
        "unfinished_s": rows.duration_s - found.open_since_s,
        "window": [window.start_s, window.end_s],
        "window_first": window.first,
        "window_count": window.count,
        "window_complete": window.complete,
        "base_ms": 1e3 * metrics.base_delay(rows, call),
        "delay_ms": quantiles(1e3 * induced),
        "delay_steady_ms": quantiles(1e3 * induced_steady),
        "above_three_quarters": metrics.share_above(induced, 0.75 * full_s),
        "above_three_quarters_steady": metrics.share_above(induced_steady, 0.75 * full_s),
        "time_above_three_quarters": metrics.time_above(rows, 0.75, link, *steady),
        "backlog_low": rounded(metrics.epoch_minimum_backlog(rows, tcp, link) / limit, 4),
        "backlog_high": _highest(rows, link, backlog, *steady) / limit,
        "correlation": metrics.window_queue_correlation(rows, tcp, link, window.start_s, window.end_s),
        "period_cwnd_s": metrics.dominant_period(*metrics.cwnd_series(rows, tcp, *steady)),
        "period_queue_s": metrics.dominant_period(t_q, backlog),
        "reaction_s": rounded(metrics.reaction_times(rows, tcp, link), 4),
        "drops_tcp": len(metrics.drop_times(rows, link, tcp)),
        "drops_call": len(metrics.drop_times(rows, link, call)),
        "disorders": _visits(rows, tcp),
        "slowdowns": rounded(metrics.slowdowns_per_epoch(rows, tcp), 0),
        "series": _series(rows, tcp, call, link, window.start_s, window.end_s) if rows.seed == 1 else None,
    }
    if rows.scenario["instruments"].get("queues"):
        slope, intercept, r2 = metrics.delay_slope(rows, call, link, window.start_s, window.end_s)
        summary["slope"] = [slope, intercept, r2]
        summary["recovery"] = _recovery(rows, tcp, events)
    return summary


def _highest(rows: Rows, link: int, backlog: Floats, start: float, end: float) -> float:
    """The largest backlog seen, by polls and by packets that were dropped."""
    seen = [float(np.max(backlog))] if len(backlog) else []
    if rows.has("queue"):
        table = rows.of_link("queue", link)
        when = floats(table["t_s"])
        met = floats(table["backlog_bytes"])[(when >= start) & (when <= end)]
        seen += [float(np.max(met))] if len(met) else []
    return max(seen, default=float("nan"))


def _visits(rows: Rows, flow: int) -> int:
    """How often a poll found the sender having just left Open: a lower bound on its disturbances."""
    phase = np.asarray(rows.of_flow("polls", flow)["phase"])
    away = phase != PHASE_OPEN
    return int(np.sum(away[1:] & ~away[:-1]))


def _series(rows: Rows, tcp: int, call: int, link: int, start: float, end: float) -> dict[str, Any]:
    """Window, backlog and delay over the typical epochs and a little around, decimated."""
    margin = 0.05 * (end - start)
    low, high = start - margin, end + margin
    t_w, w = metrics.decimate(*metrics.cwnd_series(rows, tcp, low, high), SERIES_POINTS)
    t_q, q = metrics.decimate(*metrics.backlog_series(rows, link, low, high), SERIES_POINTS)
    t_d, d = metrics.decimate(*metrics.one_way_delay(rows, call, low, high), SERIES_POINTS)
    return {
        "cwnd": [rounded(t_w, 4), rounded(w / rows.mss(tcp), 2)],
        "queue": [rounded(t_q, 4), rounded(q / 1e3, 2)],
        "delay": [rounded(t_d, 4), rounded(d * 1e3, 3)],
    }


def _recovery(rows: Rows, flow: int, events: metrics.Events) -> dict[str, float]:
    """How the window comes down and climbs back to β·cwnd, as medians over the steady events.

    `largest_fall`: the largest single fall during recovery, as a share of the whole reduction. `lowest`: the smallest
    window, as a share of β·cwnd. `climb_rtts`: loaded round trips from the reaction until the window is back at 95 % of
    β·cwnd for good. `bursts`: how often the queue's backlog rose by three packets or more within ten milliseconds
    between reaction and climb's end.
    """
    times, cwnd = metrics.cwnd_series(rows, flow)
    t_q, backlog = metrics.backlog_series(rows, "bottleneck")
    rtt = metrics.loaded_rtt_s(rows, flow)
    falls, lows, climbs, bursts = [], [], [], []
    for k in range(1, len(events)):
        at, before, target = float(events.t_s[k]), float(events.cwnd_before[k]), float(events.ssthresh[k])
        a, b = np.searchsorted(times, [at - 0.002, at + 6.0 * rtt])
        if b - a < 5 or not before > target:
            continue
        part, when = cwnd[a:b], times[a:b]
        falls.append(float(np.max(-np.diff(part))) / (before - target))
        lows.append(float(np.min(part)) / target)
        below = np.flatnonzero(part < 0.95 * target)
        done = float(when[below[-1]]) if len(below) else at
        climbs.append((done - at) / rtt)
        grid = np.arange(at, max(done, at + rtt), 0.01)
        filled = np.interp(grid, t_q, backlog)
        bursts.append(float(np.sum(np.diff(filled) >= 3 * 1500)))
    if not falls:
        return {}
    return {
        "largest_fall": float(np.median(falls)),
        "lowest": float(np.median(lows)),
        "climb_rtts": float(np.median(climbs)),
        "bursts": float(np.median(bursts)),
    }


def quantile_shift(first: list[float], second: list[float]) -> float:
    """Mean distance of two distributions given by their quantiles (Wasserstein's), in their unit."""
    return float(np.mean(np.abs(np.asarray(first) - np.asarray(second))))


def quantile_distance(first: list[float], second: list[float]) -> float:
    """Kolmogorov–Smirnov distance of two distributions given by their quantiles."""
    a, b = floats(np.asarray(first)), floats(np.asarray(second))
    grid = np.concatenate([a, b])
    return float(np.max(np.abs(_share_below(a, grid) - _share_below(b, grid))))


def _share_below(quantiles: Floats, at: Floats) -> Floats:
    # The share at or below x is the largest quantile level whose value is at most x, interpolated upwards.
    index = np.searchsorted(quantiles, at, side="right")
    last = len(quantiles) - 1
    low = np.clip(index - 1, 0, last)
    high = np.clip(index, 0, last)
    gap = quantiles[high] - quantiles[low]
    part = np.where(gap > 0, (at - quantiles[low]) / np.where(gap > 0, gap, 1.0), 0.0)
    return np.where(index == 0, 0.0, np.minimum((low + np.clip(part, 0, 1)) / last, 1.0))
