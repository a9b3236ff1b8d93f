"""Summaries of a result: the most important totals as rows, as text for a terminal, and as HTML for a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tailback.numbers import written
from tailback.terminal import Unbroken
from tailback.views import view

from . import schema, totals
from .described import holds_queue
from .totals import TablesOf

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tailback.result import Result

#: Heads of columns whose name does not say their unit.
_HEADS = {
    "loss": "loss share", "lost": "lost share", "mos": "mos (1-4.5)",
    "late_50": "share later than 50 ms", "late_100": "share later than 100 ms", "utilisation": "utilisation (0-1)",
}  # fmt: skip
_NO_RATE = "no utilisation (–): a medium has no fixed rate"
#: Why a value is absent, by column.
_ABSENT = {
    "loss": "no loss share (–): it is of what a flow sends, and its data come back, or no packet's fate is known",
    "rate_mbps": _NO_RATE,
    "utilisation": _NO_RATE,
}
_WORDS = ("flow", "link", "app", "cc", "stack", "measure", "program", "end", "measured")


def as_plain(result: Result) -> str:
    """A terminal's table as text without colours, no wider than its columns."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=200, no_color=True, highlight=False, emoji=False).print(as_text(result))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def flows(result: Result) -> list[dict[str, Any]]:
    """One row per flow: its properties and the most important totals.

    Goodput, loss and retransmissions are those of `totals`.
    """
    tables = TablesOf(result)
    flows = tables["flows"]
    out = []
    for index, spec in enumerate(result.resolved["flows"]):
        tcp = spec.get("tcp") or {}
        out.append(
            {
                "flow": spec["name"],
                "app": spec["app"]["kind"],
                "cc": tcp.get("cc"),
                "stack": tcp.get("stack"),
                "goodput_mbps": _known(totals.goodput_bps(result, tables, index), 1e-6),
                "packets_sent": int(flows["packets_sent"][index]),
                "loss": _known(totals.loss(result, tables, index)),
                "retransmitted": totals.retransmitted(tables, index) if tcp else None,
                "timeouts": int(flows["timeouts"][index]) if tcp else None,
                "rtt_min_ms": _known(float(flows["rtt_min_s"][index]), 1e3),
                "srtt_ms": _known(float(flows["srtt_s"][index]), 1e3),
            }
        )
    return out


def links(result: Result) -> list[dict[str, Any]]:
    """One row a link in which a queue can form. Of a medium, rate and utilisation are None.

    The rate of a link with a schedule is its mean over the run.
    """
    totals = result.numpy("links")
    return [
        {
            "link": spec["name"],
            "rate_mbps": _known(result.mean_rate_bps(index), 1e-6),
            "utilisation": None if spec.get("rate_bps") is None else float(totals["busy_s"][index]) / result.duration_s,
            "delivered": int(totals["delivered"][index]),
            "dropped": int(totals["dropped"][index]),
            "marked": int(totals["marked"][index]),
            "backlog_mean_bytes": float(totals["backlog_bytes_mean"][index]),
            "backlog_max_bytes": int(totals["backlog_bytes_max"][index]),
        }
        for index, spec in enumerate(result.resolved["links"])
        if holds_queue(spec)
    ]


def programs(result: Result) -> list[dict[str, Any]]:
    """One row per program (`exec`): exit status or signal, and time."""
    if "programs" not in result:
        return []
    rows = result.numpy("programs")
    roles, ends = schema.words("programs", "role"), schema.words("programs", "fate")
    return [
        {
            "flow": result.flow_names[int(rows["flow"][row])],
            "program": roles[int(rows["role"][row])],
            "end": f"signal {rows['signal'][row]}" if _is_crash(rows, row) else ends[int(rows["fate"][row])],
            "status": None if math.isnan(rows["status"][row]) else int(rows["status"][row]),
            "started_s": float(rows["started_s"][row]),
            "ended_s": float(rows["ended_s"][row]),
        }
        for row in range(result.rows("programs"))
    ]


def _is_crash(rows: Mapping[str, Any], row: int) -> bool:
    """Whether a signal ended the program and the run did not send it."""
    return bool(rows["signal"][row]) and schema.words("programs", "fate")[int(rows["fate"][row])] == "exited"


def failed_programs(result: Result) -> list[str]:
    """Programs that ended by themselves as they may not, with the run's notes on them.

    They may with status 0 or, if the flow has `status` or `server_status`, with those.
    """
    if "programs" not in result:
        return []
    table = result.numpy("programs")
    out = []
    for row, flow, signal in zip(programs(result), table["flow"], table["signal"], strict=True):
        given = result.resolved["flows"][int(flow)]["app"].get("params") or {}
        accepted = given.get("server_status" if row["program"] == "server" else "status") or "0"
        # As a shell has it.
        status = 128 + int(signal) if signal else row["status"]
        if row["end"] in ("stopped", "killed") or status in map(int, str(accepted).split()):
            continue
        how = f"was ended by signal {signal}" if signal else f"ended with status {row['status']}"
        text = f"flow {row['flow']}: its {row['program']} {how}"
        # The note on it has the last lines of its standard error.
        out.append(next((note for note in result.meta["warnings"] if note.startswith(text)), text))
    return out


def program_figures(result: Result) -> list[dict[str, Any]]:
    """Measurements by programs themselves, one row per number; its name ends with the unit."""
    if "program_metrics" not in result:
        return []
    rows, names = result.numpy("program_metrics"), result.meta.get("program_metrics", [])
    return [
        {
            "flow": result.flow_names[int(rows["flow"][row])],
            "measured": str(names[int(rows["name"][row])]),
            "value": float(rows["value"][row]),
        }
        for row in range(result.rows("program_metrics"))
    ]


def counters(result: Result) -> list[dict[str, Any]]:
    """Kernel counters of a guest's hosts, one row per counter that changed."""
    if "counters" not in result:
        return []
    rows, hosts, names = result.numpy("counters"), result.names("hosts"), result.names("counters")
    return [
        {"host": hosts[host], "counter": names[name], "count": int(count)}
        for host, name, count in zip(rows["host"], rows["name"], rows["count"], strict=True)
    ]


def tables(result: Result) -> list[list[dict[str, Any]]]:
    """All summary tables with rows, in display order."""
    noticed = [view(f"result.{what}")(result) for what in ("games", "films", "page_loads")]
    people = [result.experience_summary(), *noticed]
    rows = [result.flow_summary(), *people, result.program_summary(), result.program_metrics()]
    return [table for table in [*rows, result.link_summary()] if table]


def as_text(result: Result) -> RenderableType:
    """Title, tables and recorded instruments, for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text(result.title, style="bold")]
    summaries = tables(result)
    for rows in summaries:
        shown = Table(box=None, pad_edge=False)
        for head in rows[0]:
            words = head in _WORDS
            shown.add_column(_head(head), justify="left" if words else "right")
        for row in rows:
            shown.add_row(*(_cell(*each) for each in row.items()))
        parts += [Text(""), Unbroken(shown)]
    recorded = ", ".join(f"{name} ({result.rows(name):,})" for name in result.tables)
    return Group(*parts, Text(""), *map(Text, _notes(result, summaries)), Text(f"tables: {recorded}"))


def as_html(result: Result) -> str:
    """Title, tables and recorded instruments, for a notebook."""
    out = [f"<p><strong>{html.escape(result.title)}</strong></p>"]
    summaries = tables(result)
    for rows in summaries:
        head = "".join(f"<th>{html.escape(_head(key))}</th>" for key in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(*each))}</td>" for each in row.items()) + "</tr>" for row in rows
        )
        out.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    recorded = ", ".join(f"<code>{html.escape(name)}</code> ({result.rows(name):,})" for name in result.tables)
    out += [f"<p>{html.escape(line)}</p>" for line in _notes(result, summaries)]
    return "".join(out) + f"<p>tables: {recorded}</p>"


def _notes(result: Result, summaries: list[list[dict[str, Any]]]) -> list[str]:
    """The run's warnings, why values are absent, and what ran on a kernel."""
    rows = [row for table in summaries for row in table]
    absent = {why for column, why in _ABSENT.items() if any(row.get(column, 0) is None for row in rows)}
    # What a run on a kernel notes is printed by the command, except what its transports did wrong.
    warnings = result.faults or [each for each in result.meta["warnings"] if each not in result.meta.get("notes", [])]
    return [*(f"warning: {warning}" for warning in warnings), *sorted(absent), *_controls(result)]


_WHOSE = {"kernel": "the kernel's", "twin": "tailback's BPF twin", "own": "a BPF source"}


def _controls(result: Result) -> list[str]:
    """For a run on a kernel: the kernel's source, and the origin of each flow's congestion control."""
    shown = []
    for flow, turns in (result.meta.get("controls") or {}).items():
        each = ", ".join(f"{row['cc']} ({_whose(row)})" for row in turns)
        shown.append(f"{flow}: {each}")
    out = [f"congestion control of {'; '.join(shown)}"] if shown else []
    queues = (result.meta.get("queues") or {}).items()
    if source := (result.meta.get("kernel") or {}).get("source"):
        out.insert(0, f"kernel: {_built_of(source)}")
    return out + [f"queue of {link}: {row['discipline']} ({_whose(row)})" for link, row in queues]


def _built_of(source: Mapping[str, Any]) -> str:
    """Description of a kernel from `tailback vm build` or `patch`."""
    parts = [f"Linux {source['version']} built from {source['tree']}"]
    if "commit" in source:
        changed = f" and {source['changed_files']} changed files" if source["changed_files"] else ""
        parts.append(f"commit {source['commit'][:12]}{changed}")
    parts += [f"{row['name']} ({row['sha256'][:12]})" for row in source.get("patches", ())]
    return ", ".join([*parts, f"SHA-256 of its files {source['sha256'][:12]}"])


def _whose(row: Mapping[str, str]) -> str:
    if "sha256" in row:
        kind = "BPF queue" if row.get("discipline", "").startswith("bpf:") else "module"
        digest = row["sha256"][:12]
        return f'your own {kind}, registered as "{row["registered"]}", SHA-256 of its source as kept {digest}'
    return _WHOSE[row["by"]]


def _head(column: str) -> str:
    return _HEADS.get(column, column.replace("_", " "))


def _known(value: float, scale: float = 1.0) -> float | None:
    return None if math.isnan(value) else value * scale


def _cell(column: str, value: Any) -> str:
    return written(value, missing="–" if column in _ABSENT else "")
