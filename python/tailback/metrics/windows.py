"""The congestion window over time, as SIFTR and Web100 report it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .epochs import congestion_events, epochs_of, loaded_rtt_s
from .queue import backlog_series
from .registry import metric
from .rows import Floats, Rows, between, floats


@metric(title="SIFTR series", unit="s, as the table's column", source="siftr(4); CAIA-TR-080818A section III-A")
def siftr_series(
    result: Any,
    flow: int | str,
    column: str = "cwnd",
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    at_receiver: bool = False,
) -> tuple[Floats, Floats]:
    """One variable of the TCP state at every segment that the chosen host sent or received."""
    table = Rows.of(result).of_flow("segments", flow)
    times = floats(table["t_s"])
    kept = between(times, start_s, end_s) & (np.asarray(table["at_receiver"]) == at_receiver)
    return times[kept], floats(table[column])[kept]


@metric(
    title="Web100 series",
    unit="s, as the table's column",
    source="Web100; RFC 4898; CAIA-TR-080818A section III-A",
)
def web100_series(
    result: Any,
    flow: int | str,
    column: str = "cwnd",
    start_s: float | None = None,
    end_s: float | None = None,
) -> tuple[Floats, Floats]:
    """One variable of the sender's TCP state, polled at the instruments' interval (1 ms in CAIA-TR-080818A)."""
    table = Rows.of(result).of_flow("polls", flow)
    times = floats(table["t_s"])
    kept = between(times, start_s, end_s)
    return times[kept], floats(table[column])[kept]


@metric(title="Congestion window over time", unit="s, byte", source="CAIA-TR-080818A section V-C")
def cwnd_series(
    result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None
) -> tuple[Floats, Floats]:
    """The sender's window at every segment if the log was on, else as polled."""
    rows = Rows.of(result)
    if rows.has("segments", flow):
        return siftr_series(rows, flow, "cwnd", start_s, end_s)
    return web100_series(rows, flow, "cwnd", start_s, end_s)


@metric(title="Likeness of window and queue", unit="1", source="CAIA-TR-080818A section VII: “mimics the shape”")
def window_queue_correlation(
    result: Any,
    flow: int | str,
    link: int | str | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
    step_s: float = 0.01,
) -> float:
    """Pearson's correlation of congestion window and backlog of a link the flow crosses, sampled every `step_s`.

    The link is the flow's bottleneck by default. Recovery and the two loaded round trips after it are left out, because
    cwnd then reflects retransmissions, not growth.
    """
    rows = Rows.of(result)
    t_w, window = cwnd_series(rows, flow, start_s, end_s)
    t_q, backlog = backlog_series(rows, rows.crossed(flow, link), start_s, end_s)
    if len(t_w) < 3 or len(t_q) < 3:
        return float("nan")
    grid = np.arange(max(t_w[0], t_q[0]), min(t_w[-1], t_q[-1]), step_s)
    for entered, calm in zip(congestion_events(rows, flow).t_s, _settled_s(rows, flow), strict=True):
        grid = grid[(grid < entered) | (grid >= calm)]
    if len(grid) < 3:
        return float("nan")
    w, q = np.interp(grid, t_w, window), np.interp(grid, t_q, backlog)
    if float(np.ptp(w)) == 0.0 or float(np.ptp(q)) == 0.0:
        return float("nan")
    return float(np.corrcoef(w, q)[0, 1])


@metric(title="Dominant period", unit="s", source="autocorrelation")
def dominant_period(times: Floats, values: Floats, step_s: float = 0.02) -> float:
    """Lag of the first peak of the autocorrelation above one half of its largest later peak, in seconds."""
    if len(times) < 8:
        return float("nan")
    grid = np.arange(times[0], times[-1], step_s)
    v = np.interp(grid, times, values)
    v = v - v.mean()
    if float(np.ptp(v)) == 0.0:
        return float("nan")
    size = 1 << int(np.ceil(np.log2(2 * len(v))))
    spectrum = np.abs(np.fft.rfft(v, size)) ** 2
    correlation = np.fft.irfft(spectrum, size)[: len(v) // 2]
    # Normalise by overlap, so that long lags are not penalised.
    correlation = correlation / (len(v) - np.arange(len(correlation)))
    inner = correlation[1:-1]
    peaks = np.flatnonzero((inner > correlation[:-2]) & (inner >= correlation[2:]) & (inner > 0)) + 1
    if len(peaks) == 0:
        return float("nan")
    strong = peaks[correlation[peaks] >= 0.5 * correlation[peaks].max()]
    return float(strong[0] * step_s)


@metric(title="Window growth", unit="s, segments per round trip", source="CAIA-TR-080818A equation (1): α")
def growth_per_rtt(
    result: Any, flow: int | str, start_s: float, end_s: float, step_s: float = 0.5
) -> tuple[Floats, Floats]:
    """Increase of the window in segments per smoothed round trip, over steps of `step_s`; NaN for decreases."""
    rows = Rows.of(result)
    polls = rows.of_flow("polls", flow)
    times = floats(polls["t_s"])
    grid = np.arange(start_s, end_s, step_s)
    if len(grid) < 2 or len(times) < 2:
        return np.zeros(0), np.zeros(0)
    window = np.interp(grid, times, floats(polls["cwnd"])) / rows.mss(flow)
    rtt = np.interp(grid, times, floats(polls["srtt_s"]))
    rise = np.diff(window)
    rate = np.where(rise >= 0, rise / step_s * rtt[:-1], np.nan)
    return grid[:-1], rate


@metric(title="Returns to slow growth within an epoch", unit="1", source="CAIA-TR-080818A section VII-A, Fig. 13")
def slowdowns_per_epoch(
    result: Any, flow: int | str, fast: float = 4.0, slow: float = 2.0, step_s: float = 0.5
) -> Floats:
    """How often, in each epoch, growth fell from above `fast` to below `slow` segments per round trip.

    Counted from the end of recovery and two loaded round trips more, when the window has climbed back to its
    threshold. A window reduction ends the epoch, so within it only the increase α can have fallen.
    """
    rows = Rows.of(result)
    events = congestion_events(rows, flow)
    found = epochs_of(events)
    # The epochs begin with the last events except the final one.
    settled = _settled_s(rows, flow)[len(events) - 1 - len(found) : len(events) - 1]
    counts = np.zeros(len(found))
    for k in range(len(found)):
        _, growth = growth_per_rtt(rows, flow, float(settled[k]), float(found.end_s[k]), step_s)
        was_fast = False
        for value in growth:
            if np.isnan(value):
                continue
            if value > fast:
                was_fast = True
            elif value < slow and was_fast:
                counts[k] += 1
                was_fast = False
    return counts


def _settled_s(rows: Rows, flow: int | str) -> Floats:
    """When each event's reduction is over: two loaded round trips after the end of recovery."""
    events = congestion_events(rows, flow)
    left = np.where(np.isnan(events.left_s), events.t_s, events.left_s)
    return left + 2.0 * loaded_rtt_s(rows, flow)
