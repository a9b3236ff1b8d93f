"""What recipes ask of a run before drawing: which flow is the download, which the call, what they are called."""

from __future__ import annotations

from ..metrics import Rows
from .style import CYCLE, algorithm_of, colour_of

STACK_TITLES = {"freebsd-7": "FreeBSD", "freebsd": "FreeBSD", "linux-2.6.25": "Linux 2.6.25", "linux": "Linux"}


def first_tcp(rows: Rows) -> int:
    """The first TCP flow."""
    if not rows.tcp_flows:
        raise ValueError("this figure needs a TCP flow, and the scenario has none")
    return rows.tcp_flows[0]


def first_udp(rows: Rows) -> int:
    """The first flow over UDP whose packets were recorded, else the first: the call."""
    if not rows.udp_flows:
        raise ValueError("this figure needs a flow over UDP (such as voip), and the scenario has none")
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
    stack = str(spec["tcp"]["stack"])
    return f"{STACK_TITLES.get(stack, stack)} {algorithm_of(str(spec['tcp']['cc']))}"


def colour(rows: Rows, flow: int, position: int = 0) -> str:
    """The colour of a flow's algorithm."""
    return colour_of(algorithm(rows, flow), position)


def path_of(rows: Rows) -> str:
    """The bottleneck in words: rate, round-trip time, queue."""
    if not any(rows.link_spec(i).get("rate_bps") for i in rows.route(0)):
        return "no bottleneck"
    index = rows.bottleneck
    rate, limit = rows.rate_bps(index), rows.limit_bytes(index)
    queue = f", queue {limit / 1e3:,.0f} kB" if limit < float("inf") else ""
    return f"{speed(rate)}, RTT {rows.base_rtt_s(0) * 1e3:.0f} ms{queue}"


def speed(rate_bps: float) -> str:
    """A rate with a readable prefix."""
    for scale, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate_bps >= scale:
            return f"{rate_bps / scale:g} {unit}"
    return f"{rate_bps:g} bit/s"


def nth_colour(position: int) -> str:
    """The palette's colours in turn, for flows of the same kind."""
    return CYCLE[position % len(CYCLE)]
