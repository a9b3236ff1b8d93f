"""Reconstructs a connection's window round trip by round trip, from a capture at any point of the path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback.capture.reading import CaptureError, FilePath, choose, derived, read

Array = npt.NDArray[Any]

_NEW, _REPEATED, _REPAIRED = 1, 2, 3
_CWR = 0x80
#: A point is at the sender if its round trip to the sender is at most this fraction of the whole round trip.
_AT_SENDER = 0.1
#: A point is at the receiver if data is acknowledged within this time.
_AT_RECEIVER_S = 0.002
#: Timestamps may go back by this much, as with several queues of a network card; more means that a clock was set.
_RUNS_BACK_S = 0.001
_MOST_ROUNDS = 20_000
_ETHERNET_MSS = 1460


@dataclass(frozen=True)
class Rounds:
    """One connection's bulk direction, one row per round trip."""

    name: str
    #: Smallest round trip between the two ends, seconds.
    base_s: float
    #: Largest segment's payload, bytes.
    mss: int
    #: Payload acknowledged, bytes.
    acked_bytes: int
    #: When each round began, seconds since the connection's first data,
    t_s: Array
    #: its largest flight in segments while nothing was being repaired (NaN: throughout),
    window: Array
    #: its median round trip (NaN: no sample),
    rtt_s: Array
    #: segments acknowledged in it,
    acked: Array
    #: segments sent in it,
    sent: Array
    #: the largest share of the offered window that was filled,
    filled: Array
    #: and whether a repair or an answer to a mark began in it (0: neither, 1: repair, 2: mark).
    event: Array
    #: Instants of those events, seconds,
    event_s: Array
    #: when each was over,
    over_s: Array
    #: and whether it was a repair.
    is_repair: Array
    #: Bytes sent in steps of the smallest round trip divided by four.
    fine: Array
    #: Whether the capture has the connection's start; otherwise the first round is not in slow start.
    has_start: bool = True
    #: Whether both SYNs were seen, so that offered windows are known in bytes; otherwise `filled` is zero.
    is_offer_known: bool = True


def rounds(path: FilePath, flow: int | str | None = None) -> Rounds:
    """The window of one connection by rounds: that of most payload unless `flow` names one.

    Where a segment echoes a timestamp, the flight is its last byte less what had been acknowledged with that timestamp:
    what the sender knew when it sent it, whichever point of the path this is. Raises `CaptureError`.
    """
    first = [] if flow is None or isinstance(flow, str) else [flow]
    found = read(path, segments=True, only=first)
    frame = derived(found.flows)
    number = choose(frame, flow)
    row = frame.row(number, named=True)
    if row["protocol"] != 6:
        raise CaptureError(f"{row['name']} is no TCP connection")
    if first != [number]:
        found = read(path, segments=True, only=[number])
    columns = {key: np.asarray(column) for key, column in found.segments.items()}
    return of_segments(row, columns, {key: np.asarray(column) for key, column in found.blocks.items()})


def of_segments(row: Mapping[str, Any], it: Mapping[str, Array], blocks: Mapping[str, Array]) -> Rounds:
    """The window by rounds, from a row of `flows` and the connection's segments."""
    is_back = row["back_payload"] > row["payload"]
    own = it["reverse"] == is_back
    data = np.flatnonzero(own & (it["length"] > 0))
    acks = np.flatnonzero(~own & (it["ack"] >= 0))
    if len(data) < 10 or len(acks) < 5:
        raise CaptureError(f"{row['name']}: {len(data)} segments of data and {len(acks)} acknowledgements are too few")
    start_ns = int(it["t_ns"][data[0]])
    t = _running((it["t_ns"].astype(np.int64) - start_ns) * 1e-9, str(row["name"]))
    # Longer segments were merged by a card or kernel; timestamps take twelve bytes of each segment.
    largest = int(row["back_mss" if is_back else "mss"]) or _ETHERNET_MSS
    mss = min(int(np.quantile(it["length"][data], 0.9)), largest - 12 * bool(it["stamp"][data[0]]))
    down = it["rtt_ns"][acks] * 1e-9
    down_t, down_s = t[acks][down > 0], down[down > 0]
    known = _Known.of(it, data, acks, t, blocks)
    up_t, up_s = known.up
    base_down = float(row["back_rtt_min_s" if is_back else "rtt_min_s"])
    if not len(up_s) and not len(down_s):
        raise CaptureError(f"{row['name']}: no round trip could be measured")
    if len(up_s) and not base_down >= _AT_RECEIVER_S:
        # At the receiver, the round trip from this point is only the ACK delay.
        down_t, down_s, base_down = down_t[:0], down_s[:0], 0.0
    base_up = float(up_s.min()) if len(up_s) else 0.0
    is_at_sender = not len(up_s) or base_up < _AT_SENDER * (base_down + base_up)
    if not len(up_s):
        prefix = "back_" if not is_back else ""
        other = row.get(f"{prefix}rtt_min_s", float("nan"))
        if other == other and other > base_down:
            raise CaptureError(f"{row['name']}: taken near the receiver and without TCP timestamps, so the sender's "
                               "window cannot be seen")  # fmt: skip
    if is_at_sender:
        known = _Known.at_sender(it, data, acks, t, blocks)
        rtt_t, rtt_s = down_t, down_s
        base_s = base_down
    else:
        rtt_t = up_t
        rtt_s = up_s + np.interp(up_t, down_t, _least_around(down_s)) if len(down_t) else up_s
        base_s = base_up + base_down
    events, over, is_repair = _events(it, data, acks, t, known, base_s)
    return _by_rounds(row, it, data, acks, t, mss, base_s, (rtt_t, rtt_s), known, (events, over, is_repair))


def _running(t: Array, name: str) -> Array:
    """Timestamps made monotonic. Raises `CaptureError` if a clock was set during the capture."""
    latest: Array = np.maximum.accumulate(t)
    worst = int(np.argmax(latest - t))
    back_s = float(latest[worst] - t[worst])
    if back_s > _RUNS_BACK_S:
        raise CaptureError(f"{name}: its stamps jump back by {back_s:.6g} s at segment {worst}, so no round "
                           "trip around it is known. Cut the capture there (editcap -A TIME -B TIME)")  # fmt: skip
    return latest


def _least_around(values: Array, width: int = 9) -> Array:
    """Each value's running minimum: delayed acknowledgements only add."""
    padded = np.pad(values, width // 2, mode="edge")
    least: Array = np.lib.stride_tricks.sliding_window_view(padded, width).min(axis=1)
    return least[: len(values)]


@dataclass(frozen=True)
class _Known:
    """The sender's knowledge when it sent each data segment."""

    #: Acknowledged offset; -1 if nothing was acknowledged.
    una: Array
    #: Whether the receiver had reported no gap.
    is_clean: Array
    #: Offered window in bytes.
    offered: Array
    #: Round trips from this point to the sender and back: times and durations.
    up: tuple[Array, Array]

    @staticmethod
    def at_sender(it: Mapping[str, Array], data: Array, acks: Array, t: Array, blocks: Mapping[str, Array]) -> _Known:
        place = np.searchsorted(acks, data) - 1
        return _Known._from(it, acks, place, blocks, (np.zeros(0), np.zeros(0)))

    @staticmethod
    def of(it: Mapping[str, Array], data: Array, acks: Array, t: Array, blocks: Mapping[str, Array]) -> _Known:
        stamps, echoes = it["stamp"][acks], it["echo"][data]
        if not stamps.any() or not echoes.any():
            return _Known.at_sender(it, data, acks, t, blocks)
        base = stamps[0]
        unwrapped = (stamps - base).astype(np.int32).astype(np.int64)
        unwrapped = np.maximum.accumulate(unwrapped)
        echoed = (echoes - base).astype(np.int32).astype(np.int64)
        place = np.searchsorted(unwrapped, echoed, side="right") - 1
        first = np.searchsorted(unwrapped, echoed, side="left")
        # The first segment that echoes a stamp times the first acknowledgement that carried it.
        _, fresh = np.unique(echoed, return_index=True)
        exact = (first[fresh] < len(acks)) & (unwrapped[np.minimum(first[fresh], len(acks) - 1)] == echoed[fresh])
        fresh = fresh[exact & (it["class"][data[fresh]] == _NEW)]
        took = t[data[fresh]] - t[acks[first[fresh]]]
        taken = took > 0
        return _Known._from(it, acks, place, blocks, (t[data[fresh]][taken], took[taken]))

    @staticmethod
    def _from(
        it: Mapping[str, Array], acks: Array, place: Array, blocks: Mapping[str, Array], up: tuple[Array, Array]
    ) -> _Known:
        reached = np.maximum.accumulate(it["ack"][acks])
        selective = np.zeros(len(it["t_ns"]), dtype=np.bool_)
        if len(blocks["row"]):
            # A block below what is acknowledged reports a duplicate (RFC 2883).
            above = blocks["start"] >= it["ack"][blocks["row"]]
            selective[blocks["row"][above]] = True
        gap = selective[acks]
        if not gap.any():
            # Without SACK, duplicate ACKs show the gap.
            ack, window = it["ack"][acks], it["window"][acks]
            same = (np.diff(ack, prepend=-1) == 0) & (np.diff(window.astype(np.int64), prepend=-1) == 0)
            gap = same & (it["length"][acks] == 0)
        seen = place >= 0
        safe = np.maximum(place, 0)
        return _Known(
            np.where(seen, reached[safe], -1), np.where(seen, ~gap[safe], True),
            np.where(seen, it["window"][acks][safe], 0), up,
        )  # fmt: skip


def _events(
    it: Mapping[str, Array], data: Array, acks: Array, t: Array, known: _Known, base_s: float
) -> tuple[Array, Array, Array]:
    """Repairs, each until everything sent before it is acknowledged, and responses to marks (CWR)."""
    end = it["seq"][data] + it["length"][data].astype(np.int64)
    top = np.maximum.accumulate(end)
    again = np.isin(it["class"][data], (_REPEATED, _REPAIRED))
    begun: list[float] = []
    over: list[float] = []
    repairs: list[bool] = []
    until = -1
    for place in np.flatnonzero(again):
        if known.una[place] < until:
            continue
        until = int(top[place])
        later = np.flatnonzero(known.una[place:] >= until)
        stop = t[data[place + later[0]]] if len(later) else np.inf
        if over and t[data[place]] < over[-1] + base_s:
            # The same episode: its last repair overlaps with what was sent since.
            over[-1] = stop
        else:
            begun.append(t[data[place]])
            over.append(stop)
            repairs.append(True)
        if not len(later):
            break
    marks = data[(it["flags"][data] & _CWR) > 0]
    for instant in t[marks]:
        begun.append(instant)
        over.append(instant)
        repairs.append(False)
    order = np.argsort(begun, kind="stable")
    return np.array(begun)[order], np.array(over)[order], np.array(repairs, dtype=np.bool_)[order]


def _by_rounds(
    row: Mapping[str, Any], it: Mapping[str, Array], data: Array, acks: Array, t: Array, mss: int, base_s: float,
    rtt: tuple[Array, Array], known: _Known, events: tuple[Array, Array, Array],
) -> Rounds:  # fmt: skip
    begun, over, is_repair = events
    sent_t, last = t[data], float(t[data[-1]])
    smooth_t, smooth = rtt
    order = np.argsort(smooth_t, kind="stable")
    smooth_t, smooth = smooth_t[order], smooth[order]
    edges = [0.0]
    while edges[-1] < last and len(edges) < _MOST_ROUNDS:
        near = np.searchsorted(smooth_t, edges[-1])
        ahead = smooth[near : near + 5]
        edges.append(edges[-1] + max(float(np.median(ahead)) if len(ahead) else base_s, base_s, 1e-4))
    limits = np.array(edges)
    count = len(limits) - 1
    if count < 3:
        raise CaptureError(f"{row['name']}: {count} round trips are too few")
    top = np.maximum.accumulate(it["seq"][data] + it["length"][data].astype(np.int64))
    flight = (top - known.una) / mss
    busy = np.zeros(len(data), dtype=np.bool_)
    for first, end in zip(begun[is_repair], over[is_repair], strict=True):
        busy[np.searchsorted(sent_t, first) : np.searchsorted(sent_t, end)] = True
    clean = (it["class"][data] == _NEW) & known.is_clean & ~busy & (known.una >= 0)
    place = np.clip(np.searchsorted(limits, sent_t, side="right") - 1, 0, count - 1)
    window = np.full(count, -np.inf)
    np.maximum.at(window, place[clean], flight[clean])
    window[~np.isfinite(window)] = np.nan
    offered = np.where(known.offered > 0, flight * mss / np.maximum(known.offered, 1), 0.0)
    # Without both SYNs the window scale is unknown, and any flight would seem to fill the window.
    is_offer_known = bool(row["syn"] and row["back_syn"])
    filled = np.zeros(count)
    if is_offer_known:
        np.maximum.at(filled, place[clean], offered[clean])
    sent = np.bincount(place, weights=it["length"][data], minlength=count) / mss
    reached = np.maximum.accumulate(it["ack"][acks])
    gained = np.diff(reached, prepend=reached[0])
    ack_place = np.clip(np.searchsorted(limits, t[acks], side="right") - 1, 0, count - 1)
    acked = np.bincount(ack_place, weights=gained, minlength=count) / mss
    rtts = np.full(count, np.nan)
    where = np.clip(np.searchsorted(limits, smooth_t, side="right") - 1, 0, count - 1)
    bounds = np.searchsorted(where, np.arange(count + 1))
    for index in range(count):
        part = smooth[bounds[index] : bounds[index + 1]]
        if len(part):
            rtts[index] = np.median(part)
    event = np.zeros(count, dtype=np.int8)
    for instant, repair in zip(begun, is_repair, strict=True):
        event[min(int(np.searchsorted(limits, instant, side="right")) - 1, count - 1)] = 1 if repair else 2
    step = base_s / 4
    fine = (
        np.bincount((sent_t / step).astype(np.int64), weights=it["length"][data]) if last / step < 1e6 else np.zeros(0)
    )
    return Rounds(str(row["name"]), base_s, mss, int(reached[-1] - reached[0]), limits[:-1], window, rtts, acked, sent,
                  filled, event, begun, over, is_repair, fine,
                  has_start=bool(row["back_syn" if row["back_payload"] > row["payload"] else "syn"]),
                  is_offer_known=is_offer_known)  # fmt: skip
