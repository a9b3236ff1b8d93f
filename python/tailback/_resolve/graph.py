"""The links and nodes of a scenario as one graph, and the ways that flows take through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tailback.scenario import Link, Medium, Queue, Scenario, Step, Wire

from .ledger import Ledger, choices

# Both the medium of a tunnel's links and the application of the connection that carries their packets.
_TUNNEL = "tunnel"

#: Links there and links back, a pair a flow.
Routes = Sequence[tuple[list[int], list[int]]]


@dataclass
class Hop:
    """A link of the graph, with the place in the scenario it came from."""

    name: str
    from_: str
    to: str
    place: str
    rate: int | None = None
    delay: int = 0
    tick_hz: int | None = None
    queue: Queue | None = None
    queue_place: str = ""
    wire: Wire = field(default_factory=Wire)
    wire_place: str = ""
    #: Base RTT that a BDP means here; `None`: that of the flows.
    rtt: int | None = None
    medium: Medium | None = None
    #: Channel of a shared medium, unless the medium names one.
    channel: str = ""
    schedule: Sequence[Step] = ()
    trace: str | Sequence[int] | None = None

    @property
    def queues(self) -> bool:
        """Whether a queue can form."""
        return self.rate is not None or self.medium is not None or self.trace is not None


class Graph:
    """The scenario's network. Building one reports names that occur twice."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.scenario = ledger.scenario
        self.names = ledger.scenario.flow_names
        self.hops = hops_of(ledger.scenario)
        self._unique(self.names, "flow")
        self._unique([hop.name for hop in self.hops], "link")

    def _unique(self, names: Sequence[str], what: str) -> None:
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            if name in seen:
                place = f"flow[{index}].name" if what == "flow" else f"{self.hops[index].place}.name"
                self.ledger.problem(
                    place, f"two {what}s are called {name}", f"Give every {what} its own name", value=name
                )
            seen[name] = index

    def nodes(self) -> list[str]:
        """The nodes as listed, then those that only links name."""
        nodes = list(dict.fromkeys(self.scenario.nodes))
        given = bool(nodes)
        for hop in self.hops:
            for key, node in (("from", hop.from_), ("to", hop.to)):
                if node in nodes:
                    continue
                if given and hop.place.startswith("link"):
                    self.ledger.problem(
                        f"{hop.place}.{key}", f"there is no node {node}", choices(node, self.scenario.nodes)
                    )
                nodes.append(node)
        return nodes

    def ends(self, index: int) -> tuple[str, str]:
        """The nodes between which a flow crosses the network, its access link left out."""
        flow = self.scenario.flows[index]
        if self.scenario.dumbbell is None:
            return flow.from_ or "", flow.to or ""
        other = {"left": "right", "right": "left"}
        from_ = flow.from_ or other.get(flow.to or "", "left")
        return from_, flow.to or other.get(from_, "right")

    def routes(self, index: int, nodes: Sequence[str]) -> tuple[list[int], list[int]]:
        """A flow's links there and back, by number; none if there is no such way, which is then reported."""
        flow, place = self.scenario.flows[index], f"flow[{index}]"
        from_, to = self.ends(index)
        sound = bool(self.hops)
        for key, node in (("from", from_), ("to", to)):
            if not node:
                self.ledger.problem(f"{place}.{key}", "is missing", f"Name the node, one of {', '.join(nodes)}")
                sound = False
            elif self.hops and node not in nodes:
                self.ledger.problem(f"{place}.{key}", f"there is no node {node}", choices(node, nodes), value=node)
                sound = False
        if sound and from_ == to:
            self.ledger.problem(
                f"{place}.to", "the flow leads back to where it starts", "Give two different nodes", value=to
            )
            sound = False
        if not sound:
            return [], []
        access = [hop.name for hop in self.hops].index(f"{self.names[index]}.access") if flow.access_delay else None
        # A tunnel's own connection stays outside tunnels unless it says otherwise.
        closed = _TUNNEL if flow.app == _TUNNEL else None
        there = self._route(flow.route, f"{place}.route", from_, to, "data", closed)
        back = self._route(flow.back_route, f"{place}.back_route", to, from_, "acknowledgements", closed)
        if access is not None:
            return [access, *there], [*back, access + 1]
        return there, back

    def _route(
        self, given: Sequence[str] | None, place: str, from_: str, to: str, what: str, closed: str | None = None
    ) -> list[int]:
        """The links from one node to another; those of the medium `closed` only if they are `given`."""
        names = [hop.name for hop in self.hops]
        if given is None:
            found = fewest_hops(self.hops, from_, to, closed)
            if found is None:
                end = "from" if what == "acknowledgements" else "to"
                self.ledger.problem(
                    place.rsplit(".", 1)[0] + f".{end}",
                    f"there is no way from {from_} to {to} for its {what}",
                    "Add the missing link, or duplex = true to a link that should work both ways",
                )
            return found or []
        out: list[int] = []
        here = from_
        for step, name in enumerate(given):
            if name not in names:
                self.ledger.problem(f"{place}[{step}]", f"there is no link {name}", choices(name, names), value=name)
                return []
            hop = self.hops[names.index(name)]
            if hop.from_ != here:
                self.ledger.problem(
                    f"{place}[{step}]",
                    f"link {name} leaves {hop.from_}, but the route has reached {here}",
                    f"Continue with a link that leaves {here}",
                    value=name,
                )
                return []
            out.append(names.index(name))
            here = hop.to
        if here != to:
            self.ledger.problem(place, f"the route ends at {here}, not at {to}", f"Add the links from {here} to {to}")
            return []
        return out


def hops_of(scenario: Scenario) -> list[Hop]:
    hops: list[Hop] = []
    bell = scenario.dumbbell
    if bell is not None:
        there, back = bell.delays
        common: dict[str, Any] = {"place": "dumbbell", "tick_hz": bell.tick_hz, "rtt": int(bell.round_trip)}
        hops.append(
            Hop("bottleneck", "left", "right", rate=bell.rate, delay=int(there), queue=bell.queue,
                 queue_place="dumbbell.queue", wire=bell.wire, wire_place="dumbbell.wire",
                 schedule=bell.schedule, **common)
        )  # fmt: skip
        hops.append(
            Hop("return", "right", "left", rate=bell.back_rate or bell.rate, delay=int(back),
                 queue=bell.back_queue or bell.queue, wire=bell.back_wire, wire_place="dumbbell.back_wire",
                 queue_place="dumbbell.back_queue" if bell.back_queue else "dumbbell.queue", **common)
        )  # fmt: skip
    for index, link in enumerate(scenario.links):
        hops.append(_hop(link, f"link[{index}]", link.name, link.from_, link.to))
        if link.duplex:
            hops.append(_hop(link, f"link[{index}]", f"{link.name}.back", link.to, link.from_))
    for index, (name, flow) in enumerate(zip(scenario.flow_names, scenario.flows, strict=True)):
        if flow.access_delay:
            attached = flow.from_ or ("right" if flow.to == "left" else "left")
            delay, place = int(flow.access_delay), f"flow[{index}]"
            hops.append(Hop(f"{name}.access", f"{name}.sender", attached, place, delay=delay))
            hops.append(Hop(f"{name}.access.back", attached, f"{name}.sender", place, delay=delay))
    return hops


def _hop(link: Link, place: str, name: str, from_: str, to: str) -> Hop:
    return Hop(
        name, from_, to, place, rate=link.rate, delay=int(link.delay), tick_hz=link.tick_hz, queue=link.queue,
        queue_place=f"{place}.queue", wire=link.wire, wire_place=f"{place}.wire", medium=link.medium,
        channel=link.name, schedule=link.schedule, trace=link.trace,
    )  # fmt: skip


def fewest_hops(hops: Sequence[Hop], from_: str, to: str, closed: str | None = None) -> list[int] | None:
    """Links from one node to another, but none of the medium `closed`; on ties the link listed first."""
    ways: dict[str, list[int]] = {from_: []}
    frontier = [from_]
    while frontier and to not in ways:
        reached = []
        for node in frontier:
            for index, hop in enumerate(hops):
                if hop.medium is not None and hop.medium.name == closed:
                    continue
                if hop.from_ == node and hop.to not in ways:
                    ways[hop.to] = [*ways[node], index]
                    reached.append(hop.to)
        frontier = reached
    return ways.get(to)
