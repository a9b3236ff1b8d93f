"""To which results a figure applies: by the scenario and by counts of rows, so that listing figures reads no table."""

from __future__ import annotations

from .. import registry
from ..metrics import Rows
from . import flows as who


def recorded(rows: Rows, instrument: str, table: str | None = None) -> set[int]:
    """The flows that an instrument recorded; all of them if there are rows and the scenario does not say of which."""
    if not rows.has(table or instrument):
        return set()
    named = rows.scenario.get("instruments", {}).get(instrument)
    return set(range(len(rows.flow_names))) if not named else {rows.flow(name) for name in named}


def _windows(rows: Rows) -> set[int]:
    return recorded(rows, "polls") | recorded(rows, "segments")


def _watched(rows: Rows) -> bool:
    return rows.has_bottleneck and rows.bottleneck in who.watched_links(rows)


def _calls(rows: Rows) -> set[int]:
    return recorded(rows, "packets") & set(rows.udp_flows)


def tcp(rows: Rows) -> bool:
    """Is there a flow over TCP?"""
    return bool(rows.tcp_flows)


def loss(rows: Rows) -> bool:
    """Can packets be lost at a queue?"""
    return rows.has_bottleneck


def anything(rows: Rows) -> bool:
    """Was anything recorded over time, or is there a goodput to show?"""
    return tcp(rows) or rows.has("packets") or bool(who.watched_links(rows))


def datagrams(rows: Rows) -> bool:
    """Were packets of a flow over UDP recorded?"""
    return bool(_calls(rows))


def voice(rows: Rows) -> bool:
    """Were packets of a voice call recorded?"""
    return any(registry.application(rows.flow_spec(flow)).datagrams == "voice" for flow in _calls(rows))


def requests(rows: Rows) -> bool:
    """Were requests recorded?"""
    return rows.has("requests")


def round_trips(rows: Rows) -> bool:
    """Were echoes, or the segments or polls of the first flow over TCP?"""
    return rows.has("echoes") or (tcp(rows) and rows.tcp_flows[0] in _windows(rows))


def window_and_queue(rows: Rows) -> bool:
    """The window of the first flow over TCP, and the bottleneck's queue."""
    return tcp(rows) and rows.tcp_flows[0] in _windows(rows) and _watched(rows)


def call_beside_tcp(rows: Rows) -> bool:
    """A recorded call beside a flow over TCP, at a bottleneck."""
    return tcp(rows) and datagrams(rows) and rows.has_bottleneck


def call_and_queue(rows: Rows) -> bool:
    """The same, with the bottleneck's queue."""
    return call_beside_tcp(rows) and _watched(rows)


def over_time(rows: Rows) -> bool:
    """Throughput or delay over time."""
    return bool(recorded(rows, "polls") & set(rows.tcp_flows)) or datagrams(rows) or rows.has("echoes")


def htcp(rows: Rows) -> bool:
    """A polled flow with H-TCP."""
    return any(who.algorithm(rows, flow) == "htcp" for flow in recorded(rows, "polls") & set(rows.tcp_flows))


def sharing(rows: Rows) -> bool:
    """Two polled flows or more that share the first flow's bottleneck."""
    if not rows.has_bottleneck:
        return False
    polled = recorded(rows, "polls") & set(rows.tcp_flows)
    return sum(rows.bottleneck in rows.route(flow) for flow in polled) > 1
