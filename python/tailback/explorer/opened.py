"""Converts what the explorer opens, a scenario's text or a stored result, to the form of the page's own runs."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailback import registry
from tailback.errors import TailbackError
from tailback.experience import loading
from tailback.metrics import MissingRows, Rows, completion_time, jain, quantiles_of, queue_delay_quantiles
from tailback.numbers import jsonable
from tailback.result import Result, open_result, schema

#: Size limit of a scenario in bytes; one with an embedded trace may be large.
_MOST_BYTES = 4 << 20


class CannotOpen(TailbackError, ValueError):
    """A path that is neither a scenario nor a result."""


@dataclass(frozen=True)
class Opened:
    """A scenario, or a result with its rows."""

    #: "scenario" or "result".
    kind: str
    name: str
    toml: str
    result: Result | None = None

    def described(self) -> dict[str, Any]:
        """The part that the page loads first: everything but the rows."""
        out: dict[str, Any] = {"kind": self.kind, "name": self.name, "toml": self.toml}
        if self.result is not None:
            out |= _described(self.result)
        return out

    def table(self, name: str) -> dict[str, Any] | None:
        """A table's columns with units and code words; None if there is no such table."""
        if self.result is None or name not in self.result:
            return None
        return _table(self.result, name)


def opened(path: Path) -> Opened:
    """A scenario file, valid or not, or a result folder."""
    if path.is_dir():
        result = open_result(path)
        return Opened("result", path.resolve().name, result.toml, result)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise CannotOpen(f"{path} has more than {_MOST_BYTES >> 20} MiB: it is no scenario")
        return Opened("scenario", path.stem, path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CannotOpen(f"{path} cannot be read: {error.strerror}. Give a scenario file or a result folder") from None
    except UnicodeDecodeError:
        raise CannotOpen(f"{path} is not UTF-8 text. Give a scenario file or a result folder") from None


def table_hash(result: Result) -> str:
    """Identifies a result: the size of all columns in bytes and their CRC-32, as the page computes for its runs.

    >>> import tailback as tb
    >>> base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk()], duration="1s")
    >>> table_hash(tb.run(base)) == table_hash(tb.run(base))
    True
    """
    crc, count = 0, 0
    for name in sorted(result.tables):
        for column in result.numpy(name).values():
            piece = np.ascontiguousarray(column).astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
            crc, count = zlib.crc32(piece, crc), count + len(piece)
    return f"{count}-{crc:08x}"


def _described(result: Result) -> dict[str, Any]:
    return {
        "made": str(result.meta.get("engine", "")),
        "engine": result.resolved,
        "scenario": result.scenario.to_dict(),
        "hash": table_hash(result),
        "warnings": result.meta["warnings"],
        "flows": _flows(result),
        "links": _links(result),
        "tables": {name: result.rows(name) for name in result.tables},
        "events": int(result.numpy("engine")["events"][0]) if "engine" in result else 0,
    }


def _flows(result: Result) -> list[dict[str, Any]]:
    experienced = {row["flow"]: row for row in result.experience_summary()}
    out = []
    for index, row in enumerate(result.flow_summary()):
        felt = experienced.get(row["flow"], {})
        times, measure = _delays(result, index)
        median, high = (1e3 * float(value) for value in quantiles_of(times, (0.5, 0.95)))
        waits = felt.get("median_ms") if felt.get("measure") == "response time" else None
        loads_pages = registry.application(result.flow_spec(index)).loads_pages
        if loads_pages and waits is not None:
            # The page's requests are its objects.
            waits = jsonable(1e3 * loading(result, row["flow"])["load_time_s"])
        is_page = loads_pages or row["app"] in ("web", "web-probe")
        finished = 1e3 * completion_time(result, index)
        out.append(
            {
                "name": row["flow"],
                "kind": row["app"],
                "cc": row["cc"],
                "goodput_mbps": row["goodput_mbps"],
                "delay_p50_ms": median,
                "delay_p95_ms": high,
                "delay_of": measure,
                "loss": row["loss"],
                "mos": felt.get("mos"),
                "page_load_ms": waits if is_page else None,
                "completion_ms": finished if waits is None or is_page else waits,
                "retransmissions": row["retransmitted"] or 0,
                "timeouts": row["timeouts"] or 0,
            }
        )
    return out


def _delays(result: Result, flow: int) -> tuple[Any, str]:
    """Delays in seconds and their kind: of packets, of echoes, else the sender's RTT samples at the polls.

    For pings, echoes take precedence, because pings measure the round trip.
    """
    is_echo = registry.application(result.flow_spec(flow)).datagrams == "echo"
    for table, measure in (("packets", "one-way"), ("echoes", "round-trip"), ("polls", "round-trip")):
        if table not in result or (table == "packets" and is_echo):
            continue
        rows = result.where_flow(table, flow)
        times = rows["received_s"] - rows["sent_s"] if table == "packets" else rows["rtt_s"]
        times = times[np.isfinite(times)]
        if len(times):
            return times, measure
    return np.zeros(0), "unknown"


def _links(result: Result) -> list[dict[str, Any]]:
    rows, out = Rows.of(result), []
    goodput = {row["flow"]: row["goodput_mbps"] for row in result.flow_summary() if row["cc"] is not None}
    for row in result.link_summary():
        try:
            waits = 1e3 * queue_delay_quantiles(rows, row["link"], (0.5, 0.95))
        except MissingRows:
            waits = np.full(2, np.nan)
        number = result.link_index(row["link"])
        shares = [rate for flow, rate in goodput.items() if number in result.route(flow) and rate is not None]
        out.append(
            {
                "name": row["link"],
                "utilisation": row["utilisation"],
                "queue_p50_ms": float(waits[0]),
                "queue_p95_ms": float(waits[1]),
                "drops": row["dropped"],
                "marks": row["marked"],
                "jain": jain(shares) if len(shares) > 1 else None,
            }
        )
    return out


def _table(result: Result, name: str) -> dict[str, Any]:
    columns = result.numpy(name)
    units, labels, types, none = {}, {}, {}, {}
    for key, column in columns.items():
        types[key] = column.dtype.name
        stated = schema.known(name, key)
        if stated is None:
            continue
        if stated.unit:
            units[key] = stated.unit
        if stated.words or stated.names:
            labels[key] = list(stated.words or map(str, result.names(stated.names or "")))
        if stated.none is not None:
            none[key] = stated.none
    return {
        "rows": result.rows(name),
        "units": units,
        "labels": labels,
        "types": types,
        "columns": {key: _plain(column, none.get(key)) for key, column in columns.items()},
    }


def _plain(column: Any, none: int | None) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f":
        return [value if math.isfinite(value) else None for value in values]
    if column.dtype.itemsize == 8:
        return [None if value == none else value for value in values]
    return values


def as_json(value: Any) -> bytes:
    """Compact JSON; NaN and infinity are null."""
    return json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
