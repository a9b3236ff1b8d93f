"""Which figures apply to a result, decided by its scenario and by counts of rows, without reading tables."""

from __future__ import annotations

from .. import registry
from ..metrics import Rows
from . import flows as who


def recorded(rows: Rows, instrument: str, table: str | None = None) -> set[int]:
    """The flows that an instrument recorded; all flows if there are rows and the scenario does not name them."""
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
    """Whether there is a TCP flow."""
    return bool(rows.tcp_flows)


def loss(rows: Rows) -> bool:
    """Whether packets can be dropped at a queue."""
    return rows.has_bottleneck


def anything(rows: Rows) -> bool:
    """Whether anything was recorded over time, or there is a goodput to show."""
    return tcp(rows) or rows.has("packets") or bool(who.watched_links(rows))


def datagrams(rows: Rows) -> bool:
    """Whether packets of a UDP flow were recorded."""
    return bool(_calls(rows))


def voice(rows: Rows) -> bool:
    """Whether packets of a voice call were recorded."""
    return any(registry.application(rows.flow_spec(flow)).datagrams == "voice" for flow in _calls(rows))


def requests(rows: Rows) -> bool:
    """Whether requests were recorded."""
    return rows.has("requests")


def round_trips(rows: Rows) -> bool:
    """Whether echoes were recorded, or segments or polls of the first TCP flow."""
    return rows.has("echoes") or (tcp(rows) and rows.tcp_flows[0] in _windows(rows))


def window_and_queue(rows: Rows) -> bool:
    """Whether the window of the first TCP flow and the bottleneck's queue were recorded."""
    return tcp(rows) and rows.tcp_flows[0] in _windows(rows) and _watched(rows)


def call_beside_tcp(rows: Rows) -> bool:
    """Whether a call beside a TCP flow was recorded, at a bottleneck."""
    return tcp(rows) and datagrams(rows) and rows.has_bottleneck


def call_and_queue(rows: Rows) -> bool:
    """Whether such a call was recorded, and the bottleneck's queue."""
    return call_beside_tcp(rows) and _watched(rows)


def over_time(rows: Rows) -> bool:
    """Whether throughput or delay over time was recorded."""
    return bool(recorded(rows, "polls") & set(rows.tcp_flows)) or datagrams(rows) or rows.has("echoes")


def htcp(rows: Rows) -> bool:
    """Whether a flow with H-TCP was polled."""
    return any(who.algorithm(rows, flow) == "htcp" for flow in recorded(rows, "polls") & set(rows.tcp_flows))


def sharing(rows: Rows) -> bool:
    """Whether two or more polled flows share the first flow's bottleneck."""
    if not rows.has_bottleneck:
        return False
    polled = recorded(rows, "polls") & set(rows.tcp_flows)
    return sum(rows.bottleneck in rows.route(flow) for flow in polled) > 1
