"""Measurements of programs in a live run, parsed from their output."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailback import registry
from tailback.result import schema

__all__ = ["PARSERS", "Measured", "OutputError", "carried", "curl", "iperf3", "measured", "regex"]


class OutputError(ValueError):
    """Output that its parser cannot read; the text has the reason."""


def iperf3(text: str) -> dict[str, float]:
    """The client's report in JSON (`iperf3 -J`): rates in Mbit/s, times in ms. Raises `OutputError`.

    >>> iperf3('{"end": {"sum_sent": {"bits_per_second": 2e6, "retransmits": 3}, "streams": []}}')
    {'sent_mbps': 2.0, 'retransmits': 3.0}
    """
    try:
        report = json.loads(text)
        if report.get("error"):
            raise OutputError(f"iperf3 says: {report['error']}")
        end = report["end"]
        # With TCP each end has its own sum; with UDP there is one.
        sums = {"sent": end.get("sum_sent"), "received": end.get("sum_received")}
        if not any(sums.values()):
            sums = {"received": end["sum"]}
        out: dict[str, float] = {}
        for name, row in sums.items():
            if row:
                out[f"{name}_mbps"] = float(row["bits_per_second"]) / 1e6
        datagrams = end.get("sum") or {}
        for key, name in (("jitter_ms", "jitter_ms"), ("lost_percent", "lost_percent")):
            if key in datagrams:
                out[name] = float(datagrams[key])
        if "retransmits" in (sums.get("sent") or {}):
            out["retransmits"] = float(end["sum_sent"]["retransmits"])
        senders = [row["sender"] for row in end.get("streams", []) if "sender" in row]
        for key in ("mean_rtt", "min_rtt", "max_rtt"):
            found = [float(row[key]) / 1e3 for row in senders if key in row]
            if found:
                out[f"rtt_{key.removesuffix('_rtt')}_ms"] = statistics.fmean(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"it is no report of iperf3 -J ({_brief(error)})") from None
    return out


def curl(text: str) -> dict[str, float]:
    r"""Output of `curl -w '%{json}\n'`, one line per transfer; other lines are ignored.

    Times in seconds and rates in Mbit/s are medians over the transfers. Raises `OutputError`.

    >>> curl('{"time_total": 0.5, "size_download": 1000, "speed_download": 2000, "http_code": 200}')["time_total_s"]
    0.5
    """
    found: list[dict[str, Any]] = []
    # Without a newline in the format the objects follow one another on a line.
    reader, rest = json.JSONDecoder(), text
    while (start := rest.find("{")) >= 0:
        try:
            row, end = reader.raw_decode(rest, start)
        except ValueError:
            rest = rest[start + 1 :]
            continue
        if isinstance(row, dict) and "time_total" in row:
            found.append(row)
        rest = rest[end:]
    if not found:
        raise OutputError(r"there is no transfer in it; give curl -w '%{json}\n' and -o for the content")
    try:
        out = {"transfers": float(len(found))}
        out["failed"] = float(sum(_has_failed(row) for row in found))
        for key in ("time_connect", "time_starttransfer", "time_total"):
            # A transfer that reused a connection has no connection time.
            made = [row for row in found if key != "time_connect" or row.get("num_connects", 1)]
            values = [float(row[key]) for row in made if key in row]
            if values:
                out[f"{key}_s"] = statistics.median(values)
        out["time_total_max_s"] = max(float(row["time_total"]) for row in found)
        out["downloaded_bytes"] = sum(float(row.get("size_download", 0)) for row in found)
        speeds = [float(row["speed_download"]) * 8e-6 for row in found if "speed_download" in row]
        if speeds:
            out["speed_mbps"] = statistics.median(speeds)
    except (ValueError, TypeError) as error:
        raise OutputError(f"a figure of curl's is none ({_brief(error)})") from None
    return out


def _has_failed(row: Mapping[str, Any]) -> bool:
    return bool(int(row.get("exitcode", 0))) or not 0 < int(row.get("http_code", 200)) < 400


def regex(pattern: str, text: str) -> dict[str, float]:
    """The named groups of `pattern`; the last matching line counts. Raises `OutputError`.

    >>> regex(r"(?P<rate_mbps>[0-9.]+) Mbit", "1.5 Mbit/s then 2.5 Mbit/s")
    {'rate_mbps': 2.5}
    """
    out: dict[str, float] = {}
    for match in re.finditer(pattern, text, re.MULTILINE):
        for name, value in match.groupdict().items():
            if value is None:
                continue
            try:
                out[name] = float(value)
            except ValueError:
                raise OutputError(f'"{value}", which the pattern calls {name}, is no number') from None
    if not out:
        raise OutputError("the pattern matches nothing in it")
    return out


#: Parsers of a client's standard output by their name in scenarios; "regex" also needs a pattern.
PARSERS: dict[str, Callable[[str], dict[str, float]]] = {"iperf3": iperf3, "curl": curl}


@dataclass
class Measured:
    """The table `program_metrics`, and the words that its column `name` indexes."""

    table: dict[str, dict[str, Any]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


def measured(resolved: Mapping[str, Any], files: Mapping[str, bytes]) -> tuple[Measured, list[str]]:
    """The measurements of a run's programs, and notes on output that could not be parsed.

    A regular expression is searched in the client's standard output, its standard error, and the server's, in this
    order; the other parsers read the client's standard output.
    """
    rows: list[tuple[int, str, float]] = []
    complaints = []
    for flow, spec in enumerate(resolved["flows"]):
        params = spec["app"].get("params") or {}
        how = params.get("parse", "none")
        if not registry.application(spec).runs_programs or how == "none":
            continue
        try:
            rows += [(flow, name, value) for name, value in _read(spec["name"], how, params, files).items()]
        except OutputError as error:
            complaints.append(f"flow {spec['name']}: its client's output was not read as {how}: {error}")
    if not rows:
        return Measured(), complaints
    names = list(dict.fromkeys(name for _, name, _ in rows))
    table = schema.table("program_metrics").filled(
        len(rows),
        flow=[flow for flow, _, _ in rows],
        name=[names.index(name) for _, name, _ in rows],
        value=[value for _, _, value in rows],
    )
    return Measured({"program_metrics": table}, names), complaints


#: Bytes after the IP header: the TCP header with timestamps, and the UDP header.
_TCP_BYTES, _UDP_BYTES = 32, 8


def carried(resolved: Mapping[str, Any], tables: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tables, with programs' traffic in `polls`, and for UDP programs in `flows` too.

    The kernel counts per connection, of which a program may have several, and does not count datagrams. So the values
    are what arrived on the path, in the direction that carried more, including duplicates. Packets are counted in the
    same direction. A flow is on until its last payload arrives, which may be after its client has ended.
    """
    out = {name: dict(table) if isinstance(table, dict) else table for name, table in tables.items()}
    seen = tables.get("captures") or {}
    for flow, spec in enumerate(resolved["flows"]):
        if not registry.application(spec).runs_programs or not len(seen.get("flow", ())):
            continue
        mine = (np.asarray(seen["flow"]) == flow) & np.isfinite(seen["written_s"]) & ~np.asarray(seen["copy"])
        bytes_ = np.asarray(seen["bytes"], dtype=np.int64) - (40 if spec.get("ip") == 6 else 20)
        reverse = np.asarray(seen["reverse"], dtype=bool)
        most = mine & (reverse == bool(bytes_[mine & reverse].sum() > bytes_[mine & ~reverse].sum()))
        totals = out["flows"]
        by_tcp = int(totals["bytes_received"][flow]) + int(totals["bytes_returned"][flow])
        is_udp = 2 * by_tcp < int(bytes_[most].sum())
        gained = np.maximum(bytes_[most] - (_UDP_BYTES if is_udp else _TCP_BYTES), 0)
        if np.any(reverse & most):
            sent = (np.asarray(seen["flow"]) == flow) & reverse & ~np.asarray(seen["copy"])
            counts = {"packets_sent": sent, "packets_received": most, "packets_dropped": sent & ~most}
            for name, chosen in counts.items():
                totals[name] = np.array(totals[name])
                totals[name][flow] = int(chosen.sum())
            totals["bytes_sent"] = np.array(totals["bytes_sent"])
            totals["bytes_sent"][flow] = int(np.asarray(seen["bytes"], dtype=np.int64)[sent].sum())
        order = np.argsort(np.asarray(seen["written_s"])[most], kind="stable")
        times, sums = np.asarray(seen["written_s"])[most][order], np.concatenate(([0], np.cumsum(gained[order])))
        # A TCP host whose program has ended answers further data with a reset.
        ended = np.inf if is_udp else _ended_s(tables.get("programs"), flow)
        arrivals = times[(gained[order] > 0) & (times <= ended)]
        stop_ps = (spec, *spec.get("again", ()))[-1]["stop_ps"] or resolved["duration_ps"]
        finished = totals["finished_s"][flow]
        if len(arrivals) and arrivals[-1] > (stop_ps / 1e12 if np.isnan(finished) else finished):
            totals["finished_s"] = np.array(totals["finished_s"])
            totals["finished_s"][flow] = arrivals[-1]
        if is_udp:
            for name in ("bytes_received", "bytes_acked"):
                totals[name] = np.array(totals[name])
                totals[name][flow] = sums[-1]
        if spec["name"] in resolved["instruments"]["polls"]:
            out["polls"] = _polled(out.get("polls"), flow, spec, resolved, times, sums, is_udp)
    return out


def _ended_s(programs: Mapping[str, Any] | None, flow: int) -> float:
    """When the last program of a flow with a server had ended; the client of a flow without one has another's."""
    if programs is None:
        return float(np.inf)
    mine = np.asarray(programs["flow"]) == flow
    has_server = np.any(np.asarray(programs["role"])[mine] == schema.code("programs", "role", "server"))
    return float(np.max(np.asarray(programs["ended_s"])[mine])) if has_server else float(np.inf)


def _polled(
    polls: dict[str, Any] | None, flow: int, spec: Mapping[str, Any], resolved: Mapping[str, Any],
    times: Any, sums: Any, is_udp: bool,
) -> dict[str, Any]:  # fmt: skip
    """The table `polls` with these byte counts for a flow; for a UDP flow nothing else is known."""
    table = schema.table("polls")
    rows = {name: np.asarray(column) for name, column in (polls or table.filled(0)).items()}
    mine = rows["flow"] == flow
    if is_udp:
        step, end = resolved["instruments"]["poll_interval_ps"], spec["stop_ps"] or resolved["duration_ps"]
        at = np.arange(spec["start_ps"] + step, end + 1, step) / 1e12
        known = sums[np.searchsorted(times, at, side="right")]
        made = table.filled(len(at), t_s=at, flow=[flow] * len(at), bytes_received=known, bytes_arrived=known,
                            bytes_acked=known)  # fmt: skip
        rows = {name: np.concatenate([column[~mine], made[name]]) for name, column in rows.items()}
        order = np.argsort(rows["t_s"], kind="stable")
        return {name: column[order] for name, column in rows.items()}
    for name in ("bytes_received", "bytes_arrived", "bytes_acked"):
        rows[name] = np.array(rows[name])
        rows[name][mine] = sums[np.searchsorted(times, rows["t_s"][mine], side="right")]
    return rows


def _read(flow: str, how: str, params: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, float]:
    def text(name: str) -> str:
        return files.get(f"{flow}/{name}", b"").decode(errors="replace")

    if how != "regex":
        return PARSERS[how](text("client.out"))
    everything = [text(f"{program}.{kind}") for program in ("client", "server") for kind in ("out", "err")]
    return regex(str(params["pattern"]), "\n".join(everything))


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:120]
