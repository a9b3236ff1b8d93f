"""Finds congestion epochs by algorithm.

An epoch is the time between two congestion events in steady state (CAIA-TR-080818A section VI). A congestion event
is the entry into recovery or CWR, or a timeout. Three rules make this robust:

1. Merging. An entry belongs to the previous event if that event's recovery has not ended. It also belongs to it if it
comes within `merge_rtts` loaded round trips of that event's first entry. A loaded round trip is the propagation delay
plus a full queue at the bottleneck. A burst of losses which takes a timeout to repair is one event. 2. Steady state
begins at the second event: the first ends slow start, and the epoch after it starts from whatever slow start left
behind. 3. Typical epochs: the `count` consecutive steady epochs nearest to the middle of the run, each between half and
twice the median duration. If there is no such window, the one nearest to the middle; if there are fewer epochs, all of
them. If there is none, it is the time from the first event (or the start) to the end, marked as not complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..result.provenance import Provenance
from .queue import backlog_series
from .rates import drop_times
from .registry import metric
from .rows import (
    CWR_ENTERED,
    CWR_LEFT,
    RECOVERY_ENTERED,
    RECOVERY_LEFT,
    TIMEOUT,
    Floats,
    Integers,
    Rows,
    between,
    floats,
)

MERGE_RTTS = 2.0
"""Two loaded round trips: one until the loss is noticed, one until recovery's first retransmission is acknowledged."""


@dataclass(frozen=True)
class Events:
    """Congestion events of one flow, in time order."""

    t_s: Floats
    """When the sender reacted: first entry of the event."""
    left_s: Floats
    """When the sender left recovery; NaN if the run ended before."""
    cwnd_before: Floats
    """Congestion window just before the first entry, bytes."""
    ssthresh: Floats
    """Slow-start threshold set at the first entry, bytes: the window to return to."""
    entries: Integers
    """How many entries were merged into the event."""
    timeouts: Integers
    """How many of these were timeouts."""

    def __len__(self) -> int:
        return len(self.t_s)


@dataclass(frozen=True)
class Epochs:
    """Epochs between consecutive events of one flow's steady state."""

    start_s: Floats
    end_s: Floats
    cwnd_start: Floats
    """Window after the reduction at the epoch's start (ssthresh), bytes."""
    cwnd_end: Floats
    """Window just before the event at the end, bytes."""
    first_event_s: float
    """When slow start ended: the first event; 0 if there is none."""
    steady_from_s: float
    open_since_s: float
    """Start of the epoch that the end of the run cut off."""

    def __len__(self) -> int:
        return len(self.start_s)

    @property
    def duration_s(self) -> Floats:
        """Durations."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Window:
    """A stretch of whole epochs."""

    start_s: float
    end_s: float
    first: int
    """Index of the first epoch in it."""
    count: int
    complete: bool
    """Whether it consists of as many whole epochs as requested."""


def loaded_rtt_s(result: Any, flow: int | str, link: int | str | None = None) -> float:
    """Round-trip propagation delay plus the time to drain the full queue at the flow's bottleneck.

    A link with a medium drains at the rate that it carried. For a capture, which has no links, the mean measured round
    trip.
    """
    rows = Rows.of(result)
    if Provenance.of(rows.meta).is_captured:
        return float(rows.column("flows", "srtt_s")[rows.flow(flow)])
    index = rows.bottleneck_of(flow) if link is None else rows.link(link)
    limit, rate = rows.limit_bytes(index), rows.carried_bps(index)
    waiting = 8.0 * limit / rate if np.isfinite(limit) else 0.0
    # Even a queue smaller than a packet holds the packet in transmission.
    sending = 8.0 * 1500.0 / rate
    return rows.base_rtt_s(flow) + max(waiting, sending)


@metric(
    title="Congestion events",
    unit="s, byte",
    source="CAIA-TR-080818A section VI; merging: see the module's rules",
)
def congestion_events(result: Any, flow: int | str, merge_rtts: float = MERGE_RTTS) -> Events:
    """Entries into recovery, CWR or timeout, with near-simultaneous ones merged into one event."""
    rows = Rows.of(result)
    empty = np.zeros(0)
    none = np.zeros(0, dtype=np.int64)
    if not rows.has("congestion"):
        return Events(empty, empty, empty, empty, none, none)
    table = rows.of_flow("congestion", flow)
    times, kinds = floats(table["t_s"]), np.asarray(table["kind"])
    before, ssthresh = floats(table["cwnd_before"]), floats(table["ssthresh"])
    window = merge_rtts * loaded_rtt_s(rows, flow)
    t: list[float] = []
    left: list[float] = []
    cwnd: list[float] = []
    target: list[float] = []
    entries: list[int] = []
    timeouts: list[int] = []
    for i in range(len(times)):
        kind = int(kinds[i])
        if kind in (RECOVERY_LEFT, CWR_LEFT):
            if t:
                left[-1] = float(times[i])
            continue
        if kind not in (RECOVERY_ENTERED, TIMEOUT, CWR_ENTERED):
            continue
        # On some stacks a timeout has no "left" row, so an event also counts as over once its window has passed and the
        # next entry is not a timeout.
        unfinished = bool(t) and np.isnan(left[-1]) and kind == TIMEOUT
        if t and (float(times[i]) - t[-1] <= window or unfinished):
            entries[-1] += 1
            timeouts[-1] += int(kind == TIMEOUT)
            left[-1] = float("nan")
            continue
        t.append(float(times[i]))
        left.append(float("nan"))
        cwnd.append(float(before[i]))
        target.append(float(ssthresh[i]))
        entries.append(1)
        timeouts.append(int(kind == TIMEOUT))
    return Events(
        np.array(t),
        np.array(left),
        np.array(cwnd),
        np.array(target),
        np.array(entries, dtype=np.int64),
        np.array(timeouts, dtype=np.int64),
    )


@metric(
    title="Congestion epochs",
    unit="s",
    source="CAIA-TR-080818A section VI; measurement by algorithm, not by eye",
)
def epochs(result: Any, flow: int | str, merge_rtts: float = MERGE_RTTS) -> Epochs:
    """The time between consecutive congestion events in steady state (from the second event on)."""
    return epochs_of(congestion_events(result, flow, merge_rtts))


def epochs_of(events: Events) -> Epochs:
    """Epochs between given events."""
    times = events.t_s
    if len(times) == 0:
        nothing = np.zeros(0)
        return Epochs(nothing, nothing, nothing, nothing, 0.0, 0.0, 0.0)
    steady = 1 if len(times) > 1 else 0
    return Epochs(
        times[steady:-1],
        times[steady + 1 :],
        events.ssthresh[steady:-1],
        events.cwnd_before[steady + 1 :],
        float(times[0]),
        float(times[steady]),
        float(times[-1]),
    )


@metric(
    title="Typical epochs",
    unit="s",
    source="CAIA-TR-080818A section VI, “three typical congestion epochs from the middle”",
)
def typical_epochs(result: Any, flow: int | str, count: int = 3, merge_rtts: float = MERGE_RTTS) -> Window:
    """`count` consecutive steady epochs nearest the middle of the run, none far from the median duration."""
    return typical_window(epochs(result, flow, merge_rtts), Rows.of(result).duration_s, count)


def typical_window(found: Epochs, duration_s: float, count: int = 3) -> Window:
    """The typical window among given epochs of a run of that duration."""
    if len(found) == 0:
        return Window(found.first_event_s, duration_s, 0, 0, False)
    if len(found) < count:
        return Window(float(found.start_s[0]), float(found.end_s[-1]), 0, len(found), False)
    lengths = found.duration_s
    middle = float(np.median(lengths))
    ordinary = (lengths >= 0.5 * middle) & (lengths <= 2.0 * middle)
    starts = np.arange(len(found) - count + 1)
    whole = np.array([bool(ordinary[s : s + count].all()) for s in starts])
    centre = 0.5 * (found.start_s[starts] + found.end_s[starts + count - 1])
    distance = np.abs(centre - 0.5 * duration_s)
    if bool(whole.any()):
        distance = np.where(whole, distance, np.inf)
    first = int(np.argmin(distance))
    return Window(float(found.start_s[first]), float(found.end_s[first + count - 1]), first, count, True)


@metric(title="Epoch statistics", unit="s", source="definition")
def epoch_statistics(result: Any, flow: int | str) -> dict[str, float]:
    """Number, median, mean, standard deviation and extremes of durations, and the length of the unfinished epoch."""
    rows = Rows.of(result)
    found = epochs(rows, flow)
    d = found.duration_s
    nothing = len(d) == 0
    return {
        "count": float(len(d)),
        "median_s": float("nan") if nothing else float(np.median(d)),
        "mean_s": float("nan") if nothing else float(np.mean(d)),
        "sd_s": float("nan") if nothing else float(np.std(d)),
        "min_s": float("nan") if nothing else float(np.min(d)),
        "max_s": float("nan") if nothing else float(np.max(d)),
        "unfinished_s": rows.duration_s - found.open_since_s,
    }


@metric(title="Reaction time", unit="s", source="CAIA-TR-080818A section VII, “within a few RTTs TCP reacts”")
def reaction_times(result: Any, flow: int | str, link: int | str | None = None) -> Floats:
    """For each steady congestion event: from the first packet of the flow that the queue dropped to the reaction.

    Drops up to one merging window after the previous event belong to that event. NaN if no drop was logged.
    """
    rows = Rows.of(result)
    index = rows.bottleneck_of(flow) if link is None else rows.link(link)
    events = congestion_events(rows, flow)
    drops = drop_times(rows, index, flow)
    window = MERGE_RTTS * loaded_rtt_s(rows, flow)
    waits = np.full(max(len(events) - 1, 0), np.nan)
    for k in range(1, len(events)):
        causes = drops[between(drops, float(events.t_s[k - 1]) + window, float(events.t_s[k]))]
        if len(causes):
            waits[k - 1] = float(events.t_s[k]) - float(causes[0])
    return waits


@metric(title="Smallest backlog of each epoch", unit="byte", source="CAIA-TR-080818A section VII")
def epoch_minimum_backlog(result: Any, flow: int | str, link: int | str | None = None) -> Floats:
    """The smallest backlog of the bottleneck within each steady epoch."""
    rows = Rows.of(result)
    found = epochs(rows, flow)
    times, backlog = backlog_series(rows, rows.bottleneck_of(flow) if link is None else link)
    lows = np.full(len(found), np.nan)
    for k in range(len(found)):
        a, b = np.searchsorted(times, [found.start_s[k], found.end_s[k]])
        if b > a:
            lows[k] = float(np.min(backlog[a:b]))
    return lows


@metric(title="Multiplicative decrease", unit="1", source="CAIA-TR-080818A equation (2)")
def backoff_factors(result: Any, flow: int | str) -> Floats:
    """Ssthresh divided by the previous window, at each steady congestion event: the algorithm's actual β."""
    events = congestion_events(result, flow)
    return events.ssthresh[1:] / events.cwnd_before[1:]
