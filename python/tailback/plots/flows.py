"""What recipes ask of a run before drawing: which flow is the download, which the call, what they are called."""

from __future__ import annotations

from .. import registry
from ..metrics import NothingToMeasure, Rows
from .style import CYCLE, algorithm_of, colour_of


def first_tcp(rows: Rows) -> int:
    """The first TCP flow."""
    if not rows.tcp_flows:
        raise NothingToMeasure("this figure needs a TCP flow, and the scenario has none")
    return rows.tcp_flows[0]


def first_udp(rows: Rows) -> int:
    """The first flow over UDP whose packets were recorded, else the first: the call."""
    if not rows.udp_flows:
        raise NothingToMeasure("this figure needs a flow over UDP (such as voip), and the scenario has none")
    recorded = set(rows.column("packets", "flow").tolist()) if rows.has("packets") else set()
    return next((flow for flow in rows.udp_flows if flow in recorded), rows.udp_flows[0])


def algorithm(rows: Rows, flow: int) -> str:
    """Registry name of a flow's congestion control, or of its application over UDP."""
    spec = rows.flow_spec(flow)
    return str(spec["tcp"]["cc"]) if spec.get("tcp") else str(spec["app"]["kind"])


def title_of(rows: Rows, flow: int) -> str:
    """Stack and algorithm as papers write them: “FreeBSD H-TCP”."""
    spec = rows.flow_spec(flow)
    if not spec.get("tcp"):
        return str(spec["name"])
    return f"{_stack_title(str(spec['tcp']['stack']))} {algorithm_of(str(spec['tcp']['cc']))}"


def _stack_title(name: str) -> str:
    """The registry's title without its remark in parentheses."""
    known = {row.name: row.title for row in registry.load().stacks}
    return known.get(name, name).split(" (")[0]


def colour(rows: Rows, flow: int, position: int = 0) -> str:
    """The colour of a flow's algorithm."""
    return colour_of(algorithm(rows, flow), position)


def path_of(rows: Rows) -> str:
    """The bottleneck in words: rate, round-trip time, queue."""
    if not rows.has_bottleneck:
        return "no bottleneck"
    index = rows.bottleneck
    limit = rows.limit_bytes(index)
    queue = f", queue {limit / 1e3:,.0f} kB" if limit < float("inf") else ""
    # What a medium adds to the round trip depends on its state: the smallest that was seen says it.
    base = "" if rows.has_media(0) else f", RTT {rows.base_rtt_s(0) * 1e3:.0f} ms"
    seen = rows.smallest_rtt_s()
    smallest = f", smallest RTT {seen * 1e3:.3g} ms" if not base and seen == seen else ""
    return f"{carrier(rows, index)}{base}{smallest}{queue}"


def carrier(rows: Rows, link: int) -> str:
    """What carries a link's packets: its rate, or its medium's name."""
    spec = rows.link_spec(link)
    if spec.get("rate_bps") is not None:
        return speed(rows.rate_bps(link))
    return str(spec["medium"]["name"]) if spec.get("medium") else "trace"


def speed(rate_bps: float) -> str:
    """A rate with a readable prefix."""
    for scale, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate_bps >= scale:
            return f"{rate_bps / scale:g} {unit}"
    return f"{rate_bps:g} bit/s"


def nth_colour(position: int) -> str:
    """The palette's colours in turn, for flows of the same kind."""
    return CYCLE[position % len(CYCLE)]
