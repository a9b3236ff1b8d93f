"""Opens a capture, or a pair of them, as a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback import _core, registry
from tailback.capture import pairing
from tailback.capture.reading import CaptureError, FilePath, Reading, derived, read
from tailback.result import Result, schema

Array = npt.NDArray[Any]

#: Classes of segments, as the reader numbers them.
NEW, REPEATED, REPAIRED, OVERTAKEN = 1, 2, 3, 4
_RECEIVED, _DROPPED = (schema.code("packets", "fate", word) for word in ("received", "dropped"))
_RECOVERY_ENTERED, _RECOVERY_LEFT, _TIMEOUT = (
    schema.code("congestion", "kind", word) for word in ("recovery-entered", "recovery-left", "timeout")
)
_OPEN, _RECOVERY = (schema.code("segments", "phase", word) for word in ("open", "recovery"))
_ESTABLISHED = 4
#: Linux's minimum retransmission timeout: a retransmission after this long a silence counts as a timeout.
_SILENCE_S = 0.2
#: G.711's packet size in IP bytes, and its interval: a stream of such datagrams counts as a call.
_CALL_INTERVAL_S = (0.018, 0.032)

MEASURED = ("packets", "bytes", "segments", "options", "windows offered", "retransmissions seen", "RTTs")
INFERRED = (
    "cwnd (bytes in flight less those SACKed)",
    "ssthresh",
    "recovery and timeouts",
    "losses of a single capture",
)


def open_capture(
    first: FilePath, second: FilePath | None = None, *, correct: str = "none", most_flows: int = 1000
) -> Result:
    """A result from a capture, or from a pair of them: the first at the senders' side, the second at the receivers'.

    Tables: `flows`, `links` (one path there and one back), `segments` and `congestion` of TCP connections, `echoes` of
    pings, and of a pair `packets` with the delay of each. `result.meta["capture"]` lists what was measured and what was
    inferred: a capture shows no congestion window, only the bytes in flight. Times are seconds since the first packet.
    `correct` as for `owd`. Raises `CaptureError`.
    """
    reading = read(first, segments=True, datagrams=True)
    if not len(reading.flows):
        raise CaptureError(f"{first}: there is no IP packet in it" + "".join(f"; {note}" for note in reading.notes))
    if len(reading.flows) > most_flows:
        raise CaptureError(f"{first}: {len(reading.flows):,} flows, and a result holds {most_flows:,}. "
                           "Cut it (editcap, tcpdump -r … -w … host ADDRESS), or raise most_flows")  # fmt: skip
    paired = None if second is None else pairing.owd(first, second, rows=True, correct=correct)
    return _Builder(reading, paired, Path(first), None if second is None else Path(second)).result()


class _Builder:
    def __init__(self, reading: Reading, paired: pairing.Delays | None, first: Path, second: Path | None) -> None:
        self.reading, self.paired, self.first, self.second = reading, paired, first, second
        self.flows = derived(reading.flows)
        self.start_ns = int(reading.info["first_ns"])
        self.end_ns = int(reading.info["last_ns"])
        if paired is not None:
            self.end_ns = max(self.end_ns, int(paired.info["second_last_ns"]) - paired.shift_ns)
        self.segments = {key: np.asarray(column) for key, column in reading.segments.items()}
        self.datagrams = {key: np.asarray(column) for key, column in reading.datagrams.items()}
        self.names = self.flows["name"].to_list()
        # The end that sends more payload is a flow's sender, even if the other end opened it.
        self.segments["own"] = self.segments["reverse"] == self._reversed()[self.segments["flow"]]

    def seconds(self, ns: Array) -> Array:
        return (np.asarray(ns).astype(np.int64) - self.start_ns) * 1e-9

    def result(self) -> Result:
        tables: dict[str, Mapping[str, Array]] = {"segments": self._segments()}
        tables["congestion"] = self._congestion(tables["segments"])
        tables["echoes"] = self._echoes()
        if self.paired is not None:
            tables["packets"] = self._packets()
        tables["flows"] = self._flows(tables["congestion"], tables.get("packets"))
        tables["links"] = self._links(tables["flows"])
        resolved = self._resolved(tables)
        files = [path.name for path in (self.first, self.second) if path is not None]
        notes = list(dict.fromkeys([*self.reading.notes, *(self.paired.notes if self.paired else ())]))
        meta: dict[str, Any] = {
            "format": 1,
            "version": _core.version(),
            "engine": "capture",
            "name": resolved["name"],
            "seed": 0,
            "command": "tailback pcap open " + " ".join(files),
            "capture": {
                "files": files,
                "epoch_ns": self.start_ns,
                "measured": [*MEASURED, *(("one-way delays", "losses between the points") if self.paired else ())],
                "inferred": list(INFERRED[: 3 if self.paired else 4]),
                "notes": notes,
            },
        }
        if self.paired is not None:
            clocks = self.paired.clocks
            meta["capture"]["clocks"] = {
                "offset_s": _finite(clocks.offset_s), "drift_ppm": _finite(clocks.drift_ppm),
                "drift_low_ppm": _finite(clocks.drift_low_ppm), "drift_high_ppm": _finite(clocks.drift_high_ppm),
                "uncertainty_s": _finite(clocks.uncertainty_s), "taken_away_s": self.paired.shift_ns * 1e-9,
            }  # fmt: skip
        about = meta["capture"]
        warnings = [f"measured: {', '.join(about['measured'])}", f"inferred: {', '.join(about['inferred'])}", *notes]
        meta["notes"] = warnings
        names: Any = {"warnings": warnings}
        toml = f"# Captured, not described: {' and '.join(files)}\n"
        return Result(resolved=resolved, toml=toml, tables={**tables, "_names": names}, meta=meta)

    # -- tables

    def _segments(self) -> Mapping[str, Array]:
        it = self.segments
        count = len(it["t_ns"])
        flight = _last_of(it, it["in_flight"], it["own"])
        outstanding = _last_of(it, it["outstanding"], it["own"])
        offered = _last_of(it, it["window"], ~it["own"])
        own = _last_of(it, it["window"], it["own"])
        srtt = _smoothed(it)
        mss = self.flows["mss"].to_numpy()
        mss = np.where(mss > 0, mss, 1460)
        again = (it["class"] == REPEATED) | (it["class"] == REPAIRED)
        scale = [np.where(self.flows[f"{side}scale"].to_numpy() == 255, 0, self.flows[f"{side}scale"].to_numpy())
                 for side in ("", "back_")]  # fmt: skip
        return schema.table("segments").filled(
            count,
            t_s=self.seconds(it["t_ns"]),
            flow=it["flow"],
            outgoing=it["own"],
            seq=np.maximum(it["seq"], 0),
            length=it["length"],
            ack=np.maximum(it["ack"], 0),
            cwnd=outstanding,
            snd_wnd=offered,
            rcv_wnd=own,
            snd_scale=scale[1][it["flow"]],
            rcv_scale=scale[0][it["flow"]],
            state=_ESTABLISHED,
            mss=mss[it["flow"]],
            srtt_s=srtt,
            sack_enabled=(self.flows["sack"].to_numpy() > 0)[it["flow"]],
            flags=it["flags"],
            in_flight=flight,
            phase=np.where(_in_recovery(it, again), _RECOVERY, _OPEN),
        )

    def _congestion(self, segments: Mapping[str, Array]) -> Mapping[str, Array]:
        """Congestion episodes: from the first retransmission until everything sent before it is acknowledged."""
        rows: list[_Event] = []
        it = self.segments
        again = ((it["class"] == REPEATED) | (it["class"] == REPAIRED)) & (it["length"] > 0) & it["own"]
        for flow in np.unique(it["flow"][again]):
            mine = np.flatnonzero(it["flow"] == flow)
            rows += _episodes({key: column[mine] for key, column in it.items()}, segments["t_s"][mine], again[mine],
                              int(flow))  # fmt: skip
        rows.sort()
        columns = zip(*rows, strict=True) if rows else [()] * len(_Event._fields)
        named = {key: np.array(column) for key, column in zip(_Event._fields, columns, strict=True)}
        return schema.table("congestion").filled(len(rows), **named)

    def _echoes(self) -> Mapping[str, Array]:
        """Ping requests with their replies, matched by identifier and sequence number."""
        it = self.datagrams
        protocol = self.flows["protocol"].to_numpy()
        pings = np.isin(protocol[it["flow"]], (1, 58)) if len(it["flow"]) else np.zeros(0, dtype=np.bool_)
        asked, answers = pings & ~it["reverse"], pings & it["reverse"]
        replies: dict[tuple[int, int], int] = {}
        for flow, name, t_ns in zip(it["flow"][answers], it["rtp_clock"][answers], it["t_ns"][answers], strict=True):
            replies.setdefault((int(flow), int(name)), int(t_ns))
        t_ns = it["t_ns"][asked]
        keys = [(int(flow), int(name)) for flow, name in zip(it["flow"][asked], it["rtp_clock"][asked], strict=True)]
        rtts = [(replies[key] - int(t)) * 1e-9 if key in replies else np.nan for key, t in zip(keys, t_ns, strict=True)]
        return schema.table("echoes").filled(
            len(rtts),
            t_s=self.seconds(t_ns),
            flow=it["flow"][asked],
            number=it["rtp_clock"][asked] & 0xFFFF,
            rtt_s=np.array(rtts, dtype=np.float64),
        )

    def _packets(self) -> Mapping[str, Array]:
        """Every packet of the flow's sender: seen at both points, or lost between them."""
        assert self.paired is not None
        found = self.paired.packets()
        # Packets in the flow's own direction; the others are acknowledgements.
        own = found["reverse"] == self._reversed()[found["flow"]]
        order = np.flatnonzero(own)[np.lexsort((found["sent_ns"][own], found["flow"][own]))]
        it = {key: column[order] for key, column in found.items()}
        return schema.table("packets").filled(
            len(order),
            flow=it["flow"],
            index=np.arange(len(order)) - np.searchsorted(it["flow"], it["flow"], side="left"),
            bytes=it["bytes"],
            sent_s=self.seconds(it["sent_ns"]),
            received_s=np.where(it["is_lost"], np.nan, self.seconds(it["received_ns"])),
            fate=np.where(it["is_lost"], _DROPPED, _RECEIVED),
        )

    def _reversed(self) -> Array:
        """Whether most payload comes from the server, for each flow."""
        return (self.flows["back_payload"] > self.flows["payload"]).to_numpy()

    def _flows(self, congestion: Mapping[str, Array], packets: Mapping[str, Array] | None) -> Mapping[str, Array]:
        frame, count = self.flows, len(self.names)
        there, back = ("back_", ""), ("", "back_")

        def number(name: str, sides: tuple[str, str] = back) -> Array:
            values = np.where(self._reversed(), frame[sides[1] + name].to_numpy(), frame[sides[0] + name].to_numpy())
            return np.asarray(values).astype(np.uint64)

        sent, lost = number("packets"), number("retransmitted")
        received, datagram_bytes = sent - np.minimum(lost, sent), number("bytes")
        if packets is not None:
            # A packet under way when the captures ended is neither received nor lost.
            arrived = packets["fate"] == _RECEIVED
            lost = np.bincount(packets["flow"][~arrived], minlength=count)
            received = np.bincount(packets["flow"][arrived], minlength=count)
            datagram_bytes = np.bincount(packets["flow"][arrived], packets["bytes"][arrived], minlength=count)
        tcp = frame["protocol"].to_numpy() == 6
        kinds, flows = congestion["kind"], congestion["flow"]

        def events(kind: int) -> Array:
            return np.bincount(flows[kinds == kind], minlength=count).astype(np.uint64)

        fresh = np.minimum(number("payload") - number("retransmitted_bytes"), self._acked())
        rtt = [np.where(self._reversed(), frame[f"back_{name}"].to_numpy(), frame[name].to_numpy())
               for name in ("rtt_min_s", "rtt_mean_s")]  # fmt: skip
        started, ended = self.seconds(frame["first_ns"].to_numpy()), self.seconds(frame["last_ns"].to_numpy())
        done = (frame["fin"].to_numpy() > 0) | (frame["back_fin"].to_numpy() > 0) | (frame["reset"].to_numpy() > 0)
        return schema.table("flows").filled(
            count,
            flow=np.arange(count),
            packets_sent=sent,
            packets_received=received,
            packets_dropped=lost,
            bytes_sent=number("bytes"),
            bytes_acked=np.where(tcp, fresh, 0),
            bytes_received=np.where(tcp, fresh, datagram_bytes),
            segments_sent=np.where(tcp, number("data_segments"), 0),
            segments_retransmitted=number("retransmitted_segments"),
            recoveries=events(_RECOVERY_ENTERED),
            timeouts=events(_TIMEOUT),
            started_s=started,
            established_s=np.where(tcp, started, np.nan),
            finished_s=np.where(tcp & done, ended, np.nan),
            rtt_min_s=rtt[0],
            srtt_s=rtt[1],
            connections=tcp,
            connections_open=tcp & ~done,
            bytes_returned=np.where(tcp, number("payload", there), 0),
            back_segments_sent=np.where(tcp, number("data_segments", there), 0),
            back_segments_retransmitted=number("retransmitted_segments", there),
        )

    def _acked(self) -> Array:
        """Acknowledged payload of each flow; unacknowledged payload may be in flight."""
        it = self.segments
        out = np.zeros(len(self.names), dtype=np.int64)
        acks = ~it["own"] & (it["ack"] >= 0)
        np.maximum.at(out, it["flow"][acks], it["ack"][acks])
        return out.astype(np.uint64)

    def _links(self, flows: Mapping[str, Array]) -> Mapping[str, Array]:
        frame = self.flows
        totals = [[int(frame[side + key].sum()) for side in ("", "back_")] for key in ("packets", "bytes")]
        gone = int(flows["packets_dropped"].sum()) if self.paired else 0
        lost = [gone, 0]
        span = (self.end_ns - self.start_ns) * 1e-9
        return schema.table("links").filled(
            2,
            link=np.arange(2),
            arrived=totals[0],
            delivered=[max(0, n - k) for n, k in zip(totals[0], lost, strict=True)],
            dropped=lost,
            marked=[int(frame["marked"].sum()), int(frame["back_marked"].sum())],
            arrived_bytes=totals[1],
            delivered_bytes=totals[1],
            busy_s=span,
        )

    # -- the description

    def _resolved(self, tables: Mapping[str, Mapping[str, Array]]) -> dict[str, Any]:
        tcp = self.flows["protocol"].to_numpy() == 6
        flows = [self._flow(index, bool(tcp[index])) for index in range(len(self.names))]
        seen = np.unique(tables["packets"]["flow"]) if "packets" in tables else ()
        over_tcp = [name for name, is_tcp in zip(self.names, tcp, strict=True) if is_tcp]
        pings = [flow["name"] for flow in flows if registry.application(flow).datagrams == "echo"]
        queue = {"discipline": "fifo", "params": {}}
        link = {"rate_bps": None, "delay_ps": 0, "tick_hz": None, "queue": queue, "wire": {}}
        return {
            "format": 1,
            "name": self.first.stem,
            "seed": 0,
            "duration_ps": max(1, self.end_ns - self.start_ns) * 1000,
            "nodes": ["near", "far"],
            "links": [
                {"name": "path", "from": "near", "to": "far", **link, "delay_ps": self._least_ps("A>B")},
                {"name": "path.back", "from": "far", "to": "near", **link, "delay_ps": self._least_ps("B>A")},
            ],
            "flows": flows,
            "randomness": {},
            "instruments": {
                "segments": over_tcp, "polls": [], "packets": [self.names[flow] for flow in seen], "requests": [],
                "echoes": pings, "queue_polls": [], "queues": [], "drops": [],
            },
        }  # fmt: skip

    def _least_ps(self, way: str) -> int:
        """Base delay of the path: the smallest delay of any packet; zero if the clocks do not allow one."""
        if self.paired is None:
            return 0
        delays = [row["min_ms"] for row in self.paired.table.iter_rows(named=True) if row["from_to"] == way]
        return max(0, round(min(delays, default=0.0) * 1e9))

    def _flow(self, index: int, is_tcp: bool) -> dict[str, Any]:
        row = self.flows.row(index, named=True)
        kind = "bulk" if is_tcp else self._kind(index, row)
        mss = max(int(row["mss"]), int(row["back_mss"])) or 1460
        is_v6 = ":" in str(row["client"])
        return {
            "name": self.names[index],
            **self._ways(index),
            "start_ps": (int(row["first_ns"]) - self.start_ns) * 1000,
            "stop_ps": (int(row["last_ns"]) - self.start_ns) * 1000 + 1,
            "again": [],
            "app": {"kind": kind, "params": {}},
            "tcp": {
                "stack": "unknown", "cc": "unknown", "cc_params": {}, "mtu": mss + (60 if is_v6 else 40),
                "stack_params": {"timestamps": bool(row["timestamps"])},
            } if is_tcp else None,
            **({"ip": 6} if is_v6 else {}),
        }  # fmt: skip

    def _ways(self, index: int) -> dict[str, Any]:
        """Ends and routes of a flow: from the second point, if its sender is there."""
        ways = self.paired.table if self.paired else pl.DataFrame(schema=("flow", "reverse", "from_to"))
        own = ways.filter(flow=index, reverse=bool(self._reversed()[index]), from_to="B>A")
        if own.is_empty():
            return {"from": "near", "to": "far", "route": ["path"], "back_route": ["path.back"]}
        return {"from": "far", "to": "near", "route": ["path.back"], "back_route": ["path"]}

    def _kind(self, index: int, row: Mapping[str, Any]) -> str:
        if row["protocol"] in (1, 58):
            return "ping"
        mine = (self.datagrams["flow"] == index) & ~self.datagrams["reverse"]
        sizes, times = self.datagrams["bytes"][mine], self.datagrams["t_ns"][mine]
        if len(times) < 3:
            return "udp-cbr"
        interval = float(np.median(np.diff(times.astype(np.int64)))) * 1e-9
        is_steady = len(np.unique(sizes)) == 1 and _CALL_INTERVAL_S[0] <= interval <= _CALL_INTERVAL_S[1]
        is_rtp = bool(self.datagrams["is_rtp"][mine].mean() > 0.9)
        return "voip" if is_steady or (is_rtp and interval < 0.1) else "udp-cbr"


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _last_of(it: Mapping[str, Array], values: Array, chosen: Array) -> Array:
    """The value at the latest selected row of the same flow, up to this row; zero before the first."""
    out = np.zeros(len(values), dtype=np.float64)
    for flow in np.unique(it["flow"]):
        mine = np.flatnonzero(it["flow"] == flow)
        last = np.maximum.accumulate(np.where(chosen[mine], np.arange(len(mine)), -1))
        out[mine] = np.where(last >= 0, values[mine][np.maximum(last, 0)], 0)
    return out


def _smoothed(it: Mapping[str, Array]) -> Array:
    """RFC 6298's smoothed RTT of the client's data, from the samples at the capture point."""
    out = np.full(len(it["flow"]), np.nan)
    best = np.where(it["rtt_ns"] > 0, it["rtt_ns"], it["stamp_rtt_ns"]) * 1e-9
    for flow in np.unique(it["flow"]):
        mine = np.flatnonzero(it["flow"] == flow)
        smoothed = np.nan
        series = np.full(len(mine), np.nan)
        samples = (best[mine] > 0) & ~it["own"][mine]
        for place, value, has in zip(range(len(mine)), best[mine].tolist(), samples.tolist(), strict=True):
            if has:
                smoothed = value if smoothed != smoothed else 0.875 * smoothed + 0.125 * value
            series[place] = smoothed
        out[mine] = series
    return out


def _in_recovery(it: Mapping[str, Array], again: Array) -> Array:
    """Whether a row lies between a retransmission and the ACK of everything sent before it."""
    out = np.zeros(len(again), dtype=np.bool_)
    for flow in np.unique(it["flow"][again]):
        mine = np.flatnonzero(it["flow"] == flow)
        top, until = 0, -1
        for place in mine.tolist():
            if it["own"][place]:
                if again[place]:
                    until = max(until, top)
                top = max(top, int(it["seq"][place]) + int(it["length"][place]))
            elif until >= 0 and int(it["ack"][place]) >= until:
                until = -1
            out[place] = until >= 0
    return out


class _Event(NamedTuple):
    """A row of `congestion`; a capture does not show ssthresh."""

    t_s: float
    flow: int
    kind: int
    cwnd_before: int
    cwnd_after: int
    in_flight: int


def _episodes(it: Mapping[str, Array], t_s: Array, again: Array, flow: int) -> list[_Event]:
    rows = []
    top, until, last_s, flight_before = 0, -1, -np.inf, 0
    for place in range(len(t_s)):
        own = bool(it["own"][place])
        t = float(t_s[place])
        if own and it["length"][place]:
            flight = int(it["outstanding"][place])
            if again[place] and until < 0:
                kind = _TIMEOUT if t - last_s > _SILENCE_S else _RECOVERY_ENTERED
                rows.append(_Event(t, flow, kind, flight_before, flight, flight))
                until = top
            elif until < 0:
                flight_before = flight
            top = max(top, int(it["seq"][place]) + int(it["length"][place]))
            last_s = t
        elif not own and until >= 0 and int(it["ack"][place]) >= until:
            rows.append(_Event(t, flow, _RECOVERY_LEFT, flight_before, int(it["in_flight"][place]), 0))
            until = -1
    return rows
