"""Calls in a capture: loss, delay, jitter and quality of RTP or fixed-size datagram streams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback import metrics
from tailback.capture.pairing import Delays, owd
from tailback.capture.reading import CaptureError, FilePath, Reading, read
from tailback.metrics.delay import smoothed_jitter
from tailback.metrics.rows import LOST, RECEIVED, Rows

Array = npt.NDArray[Any]

#: Minimum packets of a call.
LEAST = 10
_RTP_CLOCK_HZ = 8000


def voip(first: FilePath, second: FilePath | None = None, *, correct: str = "none") -> pl.DataFrame:
    """Streams of calls, one row each: RTP by its source, and other datagrams of one size that are evenly spaced.

    With one capture: `packets`, `lost` (gaps in RTP's numbers; None for others), `interval_ms` and `jitter_ms`.
    `jitter_ms` is RFC 3550's estimate (section 6.4.1) averaged over the call. With two captures it is of the transit
    times between them, as `metrics.jitter`; delay and loss are measured between them, and `mos` is the E-model's
    (`metrics.voice_quality`), in windows from the call's first packet. All are None in a direction of which no packet
    was seen in both. The order of the captures does not matter: a direction's sender is found from its delays, and what
    it sent is counted there. With one capture jitter supposes sending times: by RTP's clock at 8 kHz, or else evenly
    spaced. Raises `CaptureError`.
    """
    found = read(first, datagrams=True)
    paired = None if second is None else owd(first, second, rows=True, correct=correct)
    packets = None if paired is None else paired.packets()
    here = _ways(found)
    there = {} if second is None else _ways(read(second, datagrams=True))
    rows = []
    for key in dict.fromkeys([*here, *there]):
        seen = [points[key] for points in (here, there) if key in points]
        between: dict[str, Any] = {}
        sent = seen[0]
        if paired is not None and packets is not None:
            way = _way(paired, here[key]) if key in here else None
            if way is not None and way["from_to"] == "B>A":
                # What was sent is counted at the sender's point, whichever capture that is.
                sent = seen[-1]
            between = _between(paired, packets, seen[0], way)
        if len(sent.datagrams["t_ns"]) >= LEAST:
            name, back = min((each.name, each.back) for each in seen)
            rows += [row | between for row in _streams(sent.datagrams, name, back)]
    if not rows:
        raise CaptureError(
            f"{Path(first).name}: none of the {len(found.flows)} flows is a call: no RTP, and no datagrams of one size "
            "evenly spaced"
        )
    if paired is not None:
        rows.sort(key=lambda row: (row["flow"], row["direction"], row["source"] or ""))
    return pl.DataFrame(rows, infer_schema_length=None)


@dataclass(frozen=True)
class _Way:
    """The datagrams of one direction of a flow, at one point."""

    flow: int
    name: str
    back: bool
    datagrams: dict[str, Array]


def _ways(found: Reading) -> dict[tuple[Any, ...], _Way]:
    """Directions of flows by their sender, receiver and protocol, which are equal at both points.

    Which end counts as the client may differ: it is the one whose packet passed first.
    """
    it = {key: np.asarray(column) for key, column in found.datagrams.items()}
    out: dict[tuple[Any, ...], _Way] = {}
    for row in found.flows.iter_rows(named=True):
        client, server = ((row[end], row[f"{end}_port"]) for end in ("client", "server"))
        again = row["name"].partition("#")[2]
        for back in (False, True):
            mine = (it["flow"] == row["flow"]) & (it["reverse"] == back)
            if mine.any():
                ends = (server, client) if back else (client, server)
                own = {key: column[mine] for key, column in it.items()}
                out[*ends, row["protocol"], again] = _Way(row["flow"], row["name"], back, own)
    return out


def _way(paired: Delays, of: _Way) -> dict[str, Any] | None:
    """The row of a direction in the table of delays; `None` if no packet was seen at both points."""
    return next(paired.table.filter(flow=of.flow, reverse=of.back).iter_rows(named=True), None)


def _between(paired: Delays, it: dict[str, Array], of: _Way, way: dict[str, Any] | None) -> dict[str, Any]:
    """What two captures measure of one direction."""
    if way is None:
        return {"jitter_ms": None}
    mine = np.flatnonzero((it["flow"] == of.flow) & (it["reverse"] == of.back))
    # The lost packets are listed after the others; their bursts show in order of sending.
    mine = mine[np.argsort(it["sent_ns"][mine], kind="stable")]
    sent, received, is_lost = (it[key][mine] for key in ("sent_ns", "received_ns", "is_lost"))
    # The E-model's windows begin with the call. The first capture's start would depend on the order of the captures,
    # and a window that holds a packet or two would count as much as a whole one.
    start = sent[0]
    packets = {
        "flow": np.zeros(len(sent), dtype=np.uint32),
        "sent_s": (sent - start) * 1e-9,
        "received_s": np.where(is_lost, np.nan, (received - start) * 1e-9),
        "fate": np.where(is_lost, LOST, RECEIVED),
    }
    heard = metrics.voice_quality(Rows({"packets": packets}, {"flows": [{"name": way["name"]}]}), 0)
    total = way["paired"] + way["lost"]
    return {
        "lost": way["lost"],
        "loss": way["lost"] / total if total else None,
        "jitter_ms": 1e3 * heard.jitter_s,
        "delay_median_ms": way["p50_ms"],
        "delay_p95_ms": way["p95_ms"],
        "mos": heard.mos,
    }


def _streams(it: dict[str, Array], name: str, back: bool) -> list[dict[str, Any]]:
    is_rtp = bool(it["is_rtp"].mean() > 0.9)
    if not is_rtp:
        return [_stream(it, name, back, None)] if _is_even(it) else []
    sources, counts = np.unique(it["rtp_source"], return_counts=True)
    rows = []
    for source in sources[counts >= LEAST]:
        mine = it["rtp_source"] == source
        rows.append(_stream({key: column[mine] for key, column in it.items()}, name, back, int(source)))
    return rows


def _is_even(it: dict[str, Array]) -> bool:
    """Whether all have one size, and half of the gaps are within a fifth of the median gap."""
    gaps: Array = np.diff(it["t_ns"].astype(np.int64)).astype(np.float64)
    middle = float(np.median(gaps))
    is_regular = middle > 0 and float(np.mean(np.abs(gaps - middle) <= 0.2 * middle)) >= 0.5
    return len(np.unique(it["bytes"])) == 1 and is_regular and middle <= 0.25e9


def _stream(it: dict[str, Array], name: str, back: bool, source: int | None) -> dict[str, Any]:
    t = it["t_ns"].astype(np.int64) * 1e-9
    lost = loss = None
    if source is None:
        sent = np.arange(len(t)) * float(np.mean(np.diff(t)))
    else:
        numbers = _unwrapped(it["rtp_number"], 16)
        expected = int(numbers.max() - numbers.min()) + 1
        lost = expected - len(np.unique(numbers))
        loss = lost / expected
        sent = _unwrapped(it["rtp_clock"], 32) / _RTP_CLOCK_HZ
    return {
        "flow": name,
        "direction": "server" if back else "client",
        "source": None if source is None else f"{source:08x}",
        "packets": len(t),
        "bytes": int(np.median(it["bytes"])),
        "interval_ms": 1e3 * float(np.median(np.diff(t))),
        "duration_s": float(t[-1] - t[0]),
        "lost": lost,
        "loss": loss,
        "jitter_ms": 1e3 * smoothed_jitter(t - sent),
        "delay_median_ms": None,
        "delay_p95_ms": None,
        "mos": None,
    }


def _unwrapped(values: Array, bits: int) -> Array:
    """Numbers of this many bits, unwrapped past their range."""
    wide = values.astype(np.int64)
    steps = np.diff(wide)
    half, whole = 1 << (bits - 1), 1 << bits
    steps = (steps + half) % whole - half
    unwrapped: Array = np.concatenate([[0], np.cumsum(steps)]) + wide[0]
    return unwrapped
