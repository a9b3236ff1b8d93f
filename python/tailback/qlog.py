"""qlog of QUIC flows: what the stacks reported, in the format of their own tools.

One file per connection and side, one record per line (draft-ietf-quic-qlog-main-schema: JSON text sequences). The
records are made from rows: datagrams sent and received (table `packets`), changes of metrics, and losses (table
`stack_states`). Packets' contents are missing, as no table keeps them.

There are two formats: the drafts', and version 0.3 for the viewer qvis. In the latter a datagram is written as a packet
of unknown type, since qvis draws only packets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tailback.errors import ResultError
from tailback.files import whole_file
from tailback.result import Result

__all__ = ["Form", "write"]

Form = Literal["qlog", "qvis"]

SEPARATOR = "\x1e"
"""RFC 7464 section 2.2."""
UDP_HEADERS = 28
"""Bytes of IPv4 and UDP in front of each datagram."""
_METRICS = {
    "smoothed_rtt": ("srtt_s", 1e3),
    "latest_rtt": ("rtt_s", 1e3),
    "min_rtt": ("rtt_min_s", 1e3),
    "congestion_window": ("cwnd", 1),
    "bytes_in_flight": ("in_flight", 1),
    "ssthresh": ("ssthresh", 1),
    "pacing_rate": ("pacing_bps", 1),
}
"""qlog's name of each metric, the column, and the column's unit in qlog's unit."""
_EVENTS: Mapping[Form, Mapping[str, str]] = {
    "qlog": {
        "sent": "quic:udp_datagrams_sent",
        "received": "quic:udp_datagrams_received",
        "metrics": "quic:recovery_metrics_updated",
        "lost": "quic:packet_lost",
    },
    "qvis": {
        "sent": "transport:packet_sent",
        "received": "transport:packet_received",
        "metrics": "recovery:metrics_updated",
        "lost": "recovery:packet_lost",
    },
}


def write(result: Result, folder: Path, form: Form = "qlog") -> dict[Path, int]:
    """Write the files of every QUIC flow, `FLOW-CONNECTION-SIDE.sqlog`; returns the number of events in each.

    Raises `ResultError` if the run had no such flow, or did not record it (`[instruments] segments`).
    """
    theirs = {
        index: spec["tcp"]["transport"]
        for index, spec in enumerate(result.resolved["flows"])
        if (spec.get("tcp") or {}).get("transport")
    }
    if not theirs:
        raise ResultError("no flow of this result is over another stack than tailback's TCP")
    states = result.polars("stack_states")
    written: dict[Path, int] = {}
    for index, transport in theirs.items():
        mine = states.filter(pl.col("flow") == index)
        connections = mine["connection"].unique().sort().to_list()
        for connection in connections:
            for is_server in (False, True):
                rows = mine.filter(connection=connection, at_receiver=is_server)
                datagrams = _datagrams(result, index, connection, is_server, form)
                events = sorted([*_states(rows, form), *datagrams], key=lambda event: float(event["time"]))
                if not events:
                    continue
                side = "server" if is_server else "client"
                name = result.flow_spec(index)["name"]
                path = folder / f"{name}-{connection}-{side}.sqlog"
                head = _head(result, f"{name}, connection {connection}", transport, side, form)
                folder.mkdir(parents=True, exist_ok=True)
                with whole_file(path) as place:
                    place.write_text(
                        "".join(SEPARATOR + json.dumps(record) + "\n" for record in [head, *events]), encoding="utf-8"
                    )
                written[path] = len(events)
    if not written:
        raise ResultError("nothing was recorded of these flows: name them in [instruments] segments")
    return written


def _head(result: Result, title: str, transport: str, side: str, form: Form) -> dict[str, Any]:
    trace = {
        "title": title,
        "description": f"{transport}, under tailback {result.meta.get('engine', '')}".strip(),
        "vantage_point": {"name": transport, "type": side},
    }
    named = {"title": str(result.resolved.get("name", ""))}
    if form == "qvis":
        clock = {"time_format": "relative", "reference_time": 0}
        return {"qlog_version": "0.3", "qlog_format": "JSON-SEQ"} | named | {"trace": trace | {"common_fields": clock}}
    return {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
    } | named | {
        "trace": trace | {
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
            },
            "event_schemas": ["urn:ietf:params:qlog:events:quic-13"],
        },
    }  # fmt: skip


def _event(form: Form, time_s: float, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    # Milliseconds, to the nanosecond.
    return {"time": round(time_s * 1e3, 6), "name": _EVENTS[form][kind], "data": dict(data)}


def _states(rows: pl.DataFrame, form: Form) -> Iterator[dict[str, Any]]:
    lost, before = 0, dict.fromkeys(_METRICS)
    for row in rows.sort("t_s", maintain_order=True).iter_rows(named=True):
        for _ in range(row["packets_lost"] - lost):
            yield _event(form, row["t_s"], "lost", {})
        lost = row["packets_lost"]
        now = {name: _number(row[column], unit) for name, (column, unit) in _METRICS.items()}
        changed = {name: value for name, value in now.items() if value is not None and value != before[name]}
        before = now
        if changed:
            yield _event(form, row["t_s"], "metrics", changed)


def _number(value: float | None, unit: float) -> float | int | None:
    if value is None or math.isnan(value):
        return None
    return value * unit if isinstance(unit, float) else int(value)


def _datagrams(result: Result, flow: int, connection: int, is_server: bool, form: Form) -> Sequence[dict[str, Any]]:
    """Datagrams in the flow's own direction; table `packets` has no others."""
    column, kind = ("received_s", "received") if is_server else ("sent_s", "sent")
    # A connection is a stream of its flow, with a 16-bit number.
    mine = result.polars("packets").filter(flow=flow, stream=connection & 0xFFFF)
    rows = mine.select(column, "bytes").drop_nulls().drop_nans()
    return [_event(form, time_s, kind, _datagram(size - UDP_HEADERS, form)) for time_s, size in rows.iter_rows()]


def _datagram(length: int, form: Form) -> dict[str, Any]:
    raw = {"length": length}
    return {"header": {"packet_type": "unknown"}, "raw": raw} if form == "qvis" else {"count": 1, "raw": [raw]}
