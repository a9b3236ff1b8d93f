"""What a run records, in the engine's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import Graph
from .ledger import application, choices, sends_datagrams


def instruments(graph: Graph, nodes: Sequence[str]) -> dict[str, Any]:
    """Which flows and links are recorded, when, and how often."""
    ledger = graph.ledger
    given = ledger.scenario.instruments
    named = list(zip(graph.names, ledger.scenario.flows, strict=True))
    over_tcp = [name for name, flow in named if not sends_datagrams(flow.app)]
    exchanges, echoes = (
        [name for name, flow in named if (app := application(flow.app)) and app.rows == rows]
        for rows in ("requests", "echoes")
    )
    queues = [hop.name for hop in graph.hops if hop.queues]
    out: dict[str, Any] = {}
    for key, everything, known, what in (
        ("segments", over_tcp, graph.names, "flow"),
        ("polls", over_tcp, graph.names, "flow"),
        ("packets", graph.names, graph.names, "flow"),
        ("requests", exchanges, graph.names, "flow"),
        ("echoes", echoes, graph.names, "flow"),
        ("queue_polls", queues, [hop.name for hop in graph.hops], "link"),
        ("queues", queues, [hop.name for hop in graph.hops], "link"),
        ("drops", queues, [hop.name for hop in graph.hops], "link"),
    ):
        place = f"instruments.{key}"
        ledger.places[place] = place
        names = getattr(given, key)
        if names == "all":
            out[key] = list(everything)
            continue
        for index, name in enumerate(names):
            if name not in known:
                ledger.problem(f"{place}[{index}]", f"there is no {what} {name}", choices(name, known), value=name)
            elif name not in everything:
                reason = {
                    "requests": "makes no requests",
                    "echoes": "sends no echo requests",
                    "segments": "runs over UDP and has no TCP state",
                    "polls": "runs over UDP and has no TCP state",
                }.get(key, "has no rate and so no queue")
                ledger.problem(f"{place}[{index}]", f"{what} {name} {reason}", "Remove it", value=name)
        out[key] = list(names)
    points = capture_points(graph, nodes)
    if points:
        out["captures"] = points
    ledger.places |= {
        "instruments.poll_interval_ps": "instruments.poll_interval",
        "instruments.from_ps": "instruments.from",
        "instruments.until_ps": "instruments.until",
    }
    if given.most_rows is not None:
        # Only if given: what does not limit a run does not make it another.
        out["most_rows"] = given.most_rows
    return out | {
        "internals": given.internals,
        "poll_interval_ps": int(given.poll_interval),
        "from_ps": int(given.from_),
        "until_ps": None if given.until is None else int(given.until),
    }


def capture_points(graph: Graph, nodes: Sequence[str]) -> list[str]:
    """The points at which packets are captured: nodes, and sides of links; a link's bare name means both sides."""
    ledger = graph.ledger
    place = "instruments.captures"
    ledger.places[place] = place
    sides = {hop.name: [f"{hop.name}.in", f"{hop.name}.out"] for hop in graph.hops}
    known = [*nodes, *(side for both in sides.values() for side in both)]
    names = ledger.scenario.instruments.captures
    if names == "all":
        return known
    out: list[str] = []
    for index, name in enumerate(names):
        if name in known:
            out.append(name)
        elif name in sides:
            out.extend(sides[name])
        else:
            ledger.problem(
                f"{place}[{index}]", f"there is no node or link {name}", choices(name, [*known, *sides]), value=name
            )
    return list(dict.fromkeys(out))
