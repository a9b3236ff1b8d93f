"""Properties of a run that recipes need: which flow is the download, which the call, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import registry
from ..metrics import NothingToMeasure, Rows
from .style import BLUE, CYCLE, GREEN, ORANGE, PURPLE, SKY, SOFT, VERMILION, algorithm_of, colour_of

#: Line styles that distinguish curves of the same colour.
STYLES = (
    "-", "--", ":", "-.", (0, (6, 2, 1, 2, 1, 2)), (0, (8, 2)), (0, (1, 3)), (0, (3, 1, 1, 1)),
)  # fmt: skip

#: Order of palette colours for UDP flows, without the colours of TCP flows. Ink is for the queue.
_UDP_CYCLE = (PURPLE, ORANGE, SKY, GREEN, BLUE, VERMILION, SOFT)


def first_tcp(rows: Rows) -> int:
    """The first TCP flow."""
    if not rows.tcp_flows:
        raise NothingToMeasure("this figure needs a TCP flow, and the scenario has none")
    return rows.tcp_flows[0]


def first_udp(rows: Rows) -> int:
    """The first UDP flow with recorded packets, else the first UDP flow: the call."""
    if not rows.udp_flows:
        raise NothingToMeasure("this figure needs a flow over UDP (such as voip), and the scenario has none")
    recorded = set(rows.column("packets", "flow").tolist()) if rows.has("packets") else set()
    return next((flow for flow in rows.udp_flows if flow in recorded), rows.udp_flows[0])


def algorithm(rows: Rows, flow: int) -> str:
    """Registry name of a flow's congestion control or, for UDP, of its application."""
    spec = rows.flow_spec(flow)
    return str(spec["tcp"]["cc"]) if spec.get("tcp") else str(spec["app"]["kind"])


def title_of(rows: Rows, flow: int) -> str:
    """Stack and algorithm in papers' spelling: “FreeBSD H-TCP”."""
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
    # A medium's contribution to the round trip depends on its state, so use the smallest round trip seen.
    base = "" if rows.has_media(0) else f", RTT {rows.base_rtt_s(0) * 1e3:.0f} ms"
    seen = rows.smallest_rtt_s()
    smallest = f", smallest RTT {seen * 1e3:.3g} ms" if not base and seen == seen else ""
    return f"{carrier(rows, index)}{base}{smallest}{queue}"


def paths_of(results: Mapping[str, Rows]) -> str:
    """The paths of several results in words: the common part, and the differences in path or queue."""
    every = list(results.values())
    if len({path_of(rows) for rows in every}) == 1:
        return path_of(every[0])
    if not all(rows.has_bottleneck for rows in every):
        return "several paths"
    # The smallest round trip seen is a measurement, so it differs between runs over the same path.
    ways = {f"{carrier(rows, rows.bottleneck)}, RTT {rows.base_rtt_s(0) * 1e3:.0f} ms" for rows in every}
    if len(ways) > 1:
        return "several paths"
    queues = {str(rows.link_spec(rows.bottleneck).get("queue")) for rows in every}
    limit = every[0].limit_bytes(every[0].bottleneck)
    queue = f", queue {limit / 1e3:,.0f} kB" if limit < float("inf") else ""
    return f"{ways.pop()}{', several queues' if len(queues) > 1 else queue}"


def carrier(rows: Rows, link: int) -> str:
    """The rate of a link, in the mean over its schedule, or the name of its medium, with its rate if it has one."""
    spec = rows.link_spec(link)
    if spec.get("rate_bps") is not None:
        return speed(rows.mean_rate_bps(link))
    medium = spec.get("medium")
    if not medium:
        return "trace"
    rate = medium.get("params", {}).get("rate_bps")
    return f"{medium['name']} {speed(rate)}" if rate else str(medium["name"])


def watched_links(rows: Rows) -> list[int]:
    """Links whose queue was polled or logged, in the scenario's order; the bottleneck first."""
    instruments = rows.scenario.get("instruments", {})
    polled = instruments.get("queue_polls") or []
    logged = instruments.get("queues") or []
    names = [name for table, given in (("queue_polls", polled), ("queue", logged)) if rows.has(table) for name in given]
    neck = rows.bottleneck if rows.has_bottleneck else -1
    found = {rows.link(name) for name in names if rows.holds_queue(name)}
    return sorted(found, key=lambda link: (link != neck, link))


def shared_bottleneck(rows: Rows, flows: Iterable[int]) -> int | None:
    """The common bottleneck of these flows; None if they have several, or none at which a queue can form."""
    try:
        found = {rows.bottleneck_of(flow) for flow in flows}
    except NothingToMeasure:
        return None
    return found.pop() if len(found) == 1 else None


def speed(rate_bps: float) -> str:
    """A rate with a suitable prefix."""
    for scale, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate_bps >= scale:
            return f"{rate_bps / scale:g} {unit}"
    return f"{rate_bps:g} bit/s"


def nth_colour(position: int) -> str:
    """Colours of the palette in turn, for flows of the same kind."""
    return CYCLE[position % len(CYCLE)]


@dataclass(frozen=True)
class LineStyle:
    """Colour and line style of a flow."""

    colour: str
    style: str | tuple[float, tuple[float, ...]]


def line_styles(results: Mapping[str, Rows]) -> dict[tuple[str, int], LineStyle]:
    """The line style of every flow (label, index), the same in all figures of these results.

    With one result, each flow has a different combination of colour and line style. With several, each result has its
    own colour, so that results which differ in anything are distinguished, and a result's flows differ by line style.
    """
    if len(results) == 1:
        ((label, rows),) = results.items()
        return {(label, flow): look for flow, look in _alone(rows).items()}
    out = {}
    for position, (label, rows) in enumerate(results.items()):
        # After the last colour of the palette, colours repeat with another style.
        shift = position // len(CYCLE)
        for group in (rows.tcp_flows, rows.udp_flows):
            for number, flow in enumerate(group):
                out[label, flow] = LineStyle(nth_colour(position), STYLES[(number + shift) % len(STYLES)])
    return out


def _alone(rows: Rows) -> dict[int, LineStyle]:
    """A distinct style for every flow of one result, while combinations of colour and style last.

    Neighbours differ in both colour and style, which distinguishes overlapping lines, also in print.
    """
    tcp, udp = rows.tcp_flows, rows.udp_flows
    only = [colour(rows, tcp[0])] if len(tcp) == 1 else None
    out: dict[int, LineStyle] = {}
    taken: set[tuple[str, object]] = set()
    for colours, group in ((only or CYCLE, tcp), (_UDP_CYCLE, udp)):
        used = {each.colour for each in out.values()}
        free = [each for each in colours if each not in used] or list(colours)
        for number, flow in enumerate(group):
            hues = free if number < len(free) else list(colours)
            wanted = (
                (hues[number % len(hues)], STYLES[(number + shift) % len(STYLES)]) for shift in range(len(STYLES))
            )
            look = next((each for each in wanted if each not in taken), None) or _free_look(hues, taken)
            taken.add(look)
            out[flow] = LineStyle(*look)
    return out


def _free_look(hues: Sequence[str], taken: set[tuple[str, object]]) -> tuple[str, Any]:
    """A combination of colour and style that no flow has; the first one if all are taken."""
    every = [(hue, style) for style in STYLES for hue in hues]
    return next((each for each in every if each not in taken), every[0])


def named(results: Mapping[str, Rows], label: str, flow: int, of: Iterable[int]) -> str:
    """Label of a curve: the flow for one result, the result if one of its flows is drawn, else both."""
    name = results[label].flow_names[flow]
    if len(results) == 1:
        return name
    return label if len(list(of)) == 1 else f"{label}: {name}"


def window_of(results: Mapping[str, Rows], start: float | None, end: float | None) -> str:
    """The time window of a figure, in words."""
    if start is None and end is None:
        return "whole run"
    last = max(rows.duration_s for rows in results.values()) if end is None else end
    return f"{0.0 if start is None else start:g} to {last:g} s"
