"""From what a scenario says to what the engine runs, and from the engine's complaints back to what was said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tailback import registry, traces
from tailback.algorithms import Factory, factories, is_reference, referenced
from tailback.errors import Problem, ScenarioError, TailbackError, UnitError, nearest
from tailback.scenario import Flow, Link, Medium, Named, Queue, Scenario, Step, Wire
from tailback.scenario._fields import ParamValue
from tailback.units import Bytes, Duration, Rate, Size, to_unit

__all__ = ["link_names", "resolve", "unresolve"]

#: Version of the engine's form.
FORMAT = 1
_MTU = 1500
_LOSSES = ("bit_error", "burst_start", "burst_end", "burst_loss", "gap_loss")
# Media that stations contend for: the ways there and back of a duplex link are one channel.
_SHARED = frozenset({"wifi", "homeplug"})
# Both the medium of a tunnel's links and the application of the connection that carries their packets.
_TUNNEL = "tunnel"
_Row = TypeVar("_Row", registry.Card, registry.Stack)
_UNITS = ("ps", "ns", "us", "ms", "s", "bytes", "B", "packets", "segments", "bps", "hz")


def _application(name: str) -> registry.Card | None:
    return next((card for card in registry.load().apps if card.name == name), None)


def _sends_datagrams(name: str) -> bool:
    """Does it, by the registry? An unknown one is taken for TCP; its name is complained of elsewhere."""
    app = _application(name)
    return app is not None and app.transport == "udp"


@dataclass
class _Hop:
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


class _Resolver:
    def __init__(self, scenario: Scenario, own: Mapping[str, Factory] | None) -> None:
        self.scenario = scenario
        self.problems: list[Problem] = []
        #: Where a path of the engine's form was written in the scenario.
        self.places: dict[str, str] = {"duration_ps": "duration"}
        self.names = scenario.flow_names
        self.hops = _hops(scenario)
        self.known = registry.load()
        self.own = own
        #: Those of `own`, and of other modules, that the scenario names.
        self.factories: dict[str, Factory] = {}

    @cached_property
    def told(self) -> dict[str, Any]:
        """The scenario as TOML would hold it."""
        return self.scenario.to_dict()

    def problem(self, place: str, problem: str, fix: str, value: Any = None) -> None:
        if value is None:
            value = _look_up(self.told, place)
        self.problems.append(Problem(place, value, problem, fix.rstrip(".") + "."))

    def run(self) -> dict[str, Any]:
        scenario = self.scenario
        if scenario.dumbbell is None and not scenario.links:
            self.problem("", "there is no path", "Add a [dumbbell] table, [[link]] entries, or [path] with a preset")
        if scenario.dumbbell is not None and scenario.links:
            self.problem("link", "a dumbbell already describes the path", "Remove [dumbbell] or the links")
        if not scenario.flows:
            self.problem("flow", "there are no flows", 'Add for example [[flow]] with app = "bulk"')
        self._unique(self.names, "flow")
        self._unique([hop.name for hop in self.hops], "link")
        nodes = self._nodes()
        routes = [self._routes(index, nodes) for index in range(len(scenario.flows))]
        links = [self._link(index, hop, routes) for index, hop in enumerate(self.hops)]
        flows = [self._flow(index, there, back) for index, (there, back) in enumerate(routes)]
        instruments = self._instruments()
        if self.problems:
            # A dumbbell's queue stands for two links: what is wrong with it is said once.
            raise ScenarioError(list(dict.fromkeys(self.problems)))
        return {
            "format": FORMAT,
            "name": scenario.name,
            "seed": scenario.seed,
            "duration_ps": int(scenario.duration),
            "nodes": nodes,
            "links": links,
            "flows": flows,
            "randomness": {
                "start_spread_ps": int(scenario.randomness.start_spread),
                "processing_jitter_ps": int(scenario.randomness.processing_jitter),
            },
            "instruments": instruments,
        }

    # -- the graph

    def _unique(self, names: Sequence[str], what: str) -> None:
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            if name in seen:
                place = f"flow[{index}].name" if what == "flow" else f"{self.hops[index].place}.name"
                self.problem(place, f"two {what}s are called {name}", f"Give every {what} its own name", value=name)
            seen[name] = index

    def _nodes(self) -> list[str]:
        nodes = list(dict.fromkeys(self.scenario.nodes))
        given = bool(nodes)
        for hop in self.hops:
            for key, node in (("from", hop.from_), ("to", hop.to)):
                if node in nodes:
                    continue
                if given and hop.place.startswith("link"):
                    self.problem(f"{hop.place}.{key}", f"there is no node {node}", _choices(node, self.scenario.nodes))
                nodes.append(node)
        return nodes

    def _ends(self, index: int) -> tuple[str, str]:
        """The nodes between which a flow crosses the network, its access link left out."""
        flow = self.scenario.flows[index]
        if self.scenario.dumbbell is None:
            return flow.from_ or "", flow.to or ""
        other = {"left": "right", "right": "left"}
        from_ = flow.from_ or other.get(flow.to or "", "left")
        return from_, flow.to or other.get(from_, "right")

    def _routes(self, index: int, nodes: Sequence[str]) -> tuple[list[int], list[int]]:
        flow, place = self.scenario.flows[index], f"flow[{index}]"
        from_, to = self._ends(index)
        sound = bool(self.hops)
        for key, node in (("from", from_), ("to", to)):
            if not node:
                self.problem(f"{place}.{key}", "is missing", f"Name the node, one of {', '.join(nodes)}")
                sound = False
            elif self.hops and node not in nodes:
                self.problem(f"{place}.{key}", f"there is no node {node}", _choices(node, nodes), value=node)
                sound = False
        if sound and from_ == to:
            self.problem(f"{place}.to", "the flow leads back to where it starts", "Give two different nodes", value=to)
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
            found = _fewest_hops(self.hops, from_, to, closed)
            if found is None:
                end = "from" if what == "acknowledgements" else "to"
                self.problem(
                    place.rsplit(".", 1)[0] + f".{end}",
                    f"there is no way from {from_} to {to} for its {what}",
                    "Add the missing link, or duplex = true to a link that should work both ways",
                )
            return found or []
        out: list[int] = []
        here = from_
        for step, name in enumerate(given):
            if name not in names:
                self.problem(f"{place}[{step}]", f"there is no link {name}", _choices(name, names), value=name)
                return []
            hop = self.hops[names.index(name)]
            if hop.from_ != here:
                self.problem(
                    f"{place}[{step}]",
                    f"link {name} leaves {hop.from_}, but the route has reached {here}",
                    f"Continue with a link that leaves {here}",
                    value=name,
                )
                return []
            out.append(names.index(name))
            here = hop.to
        if here != to:
            self.problem(place, f"the route ends at {here}, not at {to}", f"Add the links from {here} to {to}")
            return []
        return out

    # -- links

    def _link(self, index: int, hop: _Hop, routes: Sequence[tuple[list[int], list[int]]]) -> dict[str, Any]:
        at = f"links[{index}]"
        self.places |= {
            at: hop.place,
            f"{at}.rate_bps": self._first(f"{hop.place}.back_rate", f"{hop.place}.rate", back=index == 1),
            f"{at}.delay_ps": self._delay_place(hop, back=index == 1),
            f"{at}.tick_hz": f"{hop.place}.tick_hz",
            f"{at}.queue": hop.queue_place or hop.place,
            f"{at}.queue.discipline": f"{hop.queue_place}.discipline",
            f"{at}.queue.params": hop.queue_place or hop.place,
            f"{at}.wire": hop.wire_place or hop.place,
            f"{at}.medium": f"{hop.place}.medium",
            f"{at}.medium.params": f"{hop.place}.medium",
            f"{at}.schedule": f"{hop.place}.schedule",
            f"{at}.trace": f"{hop.place}.trace",
        }
        out: dict[str, Any] = {
            "name": hop.name,
            "from": hop.from_,
            "to": hop.to,
            "rate_bps": hop.rate,
            "delay_ps": hop.delay,
            "tick_hz": hop.tick_hz,
            "queue": {"discipline": "fifo", "params": {}},
            "wire": {
                "loss": hop.wire.loss,
                "duplicate": hop.wire.duplicate,
                "reorder": hop.wire.reorder,
                "reorder_delay_ps": int(hop.wire.reorder_delay),
                "jitter_ps": int(hop.wire.jitter),
            },
        }
        for key in _LOSSES:
            if value := getattr(hop.wire, key):
                out["wire"][key] = value
        if hop.queue is not None and hop.queues:
            out["queue"] = self._queue(index, hop, hop.queue, hop.rate, routes)
        if hop.medium is not None:
            out["medium"] = self._medium(hop, hop.medium)
        if hop.schedule:
            out["schedule"] = [
                {
                    "at_ps": int(step.at),
                    "rate_bps": None if step.rate is None else int(step.rate),
                    "delay_ps": None if step.delay is None else int(step.delay),
                }
                for step in hop.schedule
            ]
        if hop.trace is not None:
            out["trace"] = {"deliveries_ms": self._trace(hop, hop.trace)}
        return out

    def _medium(self, hop: _Hop, medium: Medium) -> dict[str, Any]:
        place = f"{hop.place}.medium"
        card = self._card(medium.name, self.known.media, f"{place}.name", "medium", "links")
        params: dict[str, ParamValue] = {}
        if card is not None:
            for key, value in medium.params.items():
                self._param(card, key, value, f"{place}.{key}", params)
        out: dict[str, Any] = {"name": medium.name, "params": params}
        if medium.channel is not None or medium.name in _SHARED:
            out["channel"] = medium.channel or hop.channel
        if medium.flow is not None:
            if medium.flow not in self.names:
                problem = f"there is no flow {medium.flow}"
                self.problem(f"{place}.flow", problem, _choices(medium.flow, self.names), value=medium.flow)
            out["flow"] = medium.flow
        return out

    def _trace(self, hop: _Hop, trace: str | Sequence[int]) -> list[int]:
        if not isinstance(trace, str):
            return list(trace)
        beside = Path(self.scenario._file).parent / trace if self.scenario._file else Path(trace)
        try:
            return traces.read(beside if beside.exists() else trace)
        except traces.TraceError as error:
            self.problem(f"{hop.place}.trace", error.problem, error.fix, value=trace)
            return []

    def _delay_place(self, hop: _Hop, *, back: bool) -> str:
        if hop.place.startswith("flow"):
            return f"{hop.place}.access_delay"
        if _look_up(self.told, f"{hop.place}.rtt") is not None:
            return f"{hop.place}.rtt"
        return self._first(f"{hop.place}.back_delay", f"{hop.place}.delay", back=back)

    def _first(self, first: str, second: str, *, back: bool) -> str:
        return first if back and _look_up(self.told, first) is not None else second

    def _queue(
        self, index: int, hop: _Hop, queue: Queue, rate: int | None, routes: Sequence[tuple[list[int], list[int]]]
    ) -> dict[str, Any]:
        place = hop.queue_place
        card = self._card(queue.discipline, self.known.queues, f"{place}.discipline", "queue discipline", "queues")
        crossing = [n for n, (there, back) in enumerate(routes) if index in there or index in back]
        rtt = hop.rtt
        if rtt is None:
            round_trips = [routes[n][0] + routes[n][1] for n in crossing]
            rtt = max((sum(self.hops[step].delay for step in trip) for trip in round_trips), default=None)
        params: dict[str, ParamValue] = {}
        if queue.limit is not None:
            if queue.limit.unit == "packets":
                params["limit_packets"] = int(queue.limit.amount)
            else:
                size = self._bytes(queue.limit, rate, rtt, place)
                largest = max((self._largest_packet(n) for n in crossing), default=0)
                # dummynet's rule looks at the backlog alone: a short queue still takes a packet when it is empty.
                takes_any = queue.params.get("accept") == "below"
                if size is not None and size < largest and not takes_any:
                    self.problem(
                        place,
                        f"the queue holds {size} bytes, less than one packet of {largest} bytes",
                        f'Give at least "{largest}B" or "1packets", or accept = "below" (a packet when empty)',
                        value=str(queue.limit),
                    )
                if size is not None:
                    params["limit_bytes"] = size
            key = next(iter(params), None)
            if card is not None and key is not None and card.param(key) is None:
                self.problem(
                    place, f"{card.name} has no limit in {key.removeprefix('limit_')}",
                    f"It has {', '.join(p.name for p in card.params)}", value=str(queue.limit),
                )  # fmt: skip
        if card is not None:
            for key, value in queue.params.items():
                if isinstance(value, str) and re.search(r"bdps?\s*$", value, re.IGNORECASE):
                    try:
                        exact = self._bytes(Size(value), rate, rtt, f"{place}.{key}")
                    except UnitError as error:
                        self.problem(f"{place}.{key}", error.problem, error.fix)
                        continue
                    value = f"{exact or 0}B"
                self._param(card, key, value, f"{place}.{key}", params)
        return {"discipline": queue.discipline, "params": params}

    def _bytes(self, size: Size, rate: int | None, rtt: int | None, place: str) -> int | None:
        if size.unit == "bdp" and rate is None:
            problem = "the rate of this link varies, so it has no BDP"
            self.problem(place, problem, "Give its queue in bytes or packets", value=str(size))
            return None
        if size.unit == "bdp" and rtt is None:
            if self.scenario.flows and not self.problems:
                self.problem(place, "no flow crosses this link, so it has no BDP", "Give its queue in bytes or packets")
            return None
        return size.in_bytes(rate=rate or 0, rtt=rtt or 0)

    def _largest_packet(self, index: int) -> int:
        flow = self.scenario.flows[index]
        if not _sends_datagrams(flow.app):
            return int(flow.mtu or _MTU)
        # A telephone packet unless it says otherwise.
        return int(flow.packet_size or 200)

    # -- flows

    def _flow(self, index: int, there: Sequence[int], back: Sequence[int]) -> dict[str, Any]:
        flow, place, at = self.scenario.flows[index], f"flow[{index}]", f"flows[{index}]"
        self.places |= {
            at: place,
            f"{at}.start_ps": f"{place}.start",
            f"{at}.stop_ps": f"{place}.stop",
            f"{at}.again": f"{place}.again",
            f"{at}.tcp.cc_turns": f"{place}.cc_turns",
            f"{at}.app.kind": f"{place}.app",
            f"{at}.app.params": place,
            f"{at}.tcp": place,
            f"{at}.tcp.cc_params": f"{place}.cc",
            f"{at}.tcp.stack_params": f"{place}.stack",
        }
        from_, to = self._ends(index)
        if flow.start >= self.scenario.duration:
            self.problem(
                f"{place}.start",
                f"it would start at {flow.start}, when the run of {self.scenario.duration} is over",
                "Start it earlier, or raise duration",
            )
        app = self._card(flow.app, self.known.apps, f"{place}.app", "application", "apps")
        params: dict[str, ParamValue] = {}
        if app is not None:
            for key, value in (("bytes", flow.bytes), ("interval", flow.interval), ("packet_size", flow.packet_size)):
                if value is not None:
                    self._param(app, key, str(value), f"{place}.{key}", params)
            for key in ("client", "server", "parse"):
                if (text := getattr(flow, key)) is not None:
                    self._param(app, key, text, f"{place}.{key}", params)
            for key, item in flow.params.items():
                self._param(app, key, item, f"{place}.params.{key}", params)
            if params.get("pattern"):
                self._pattern(str(params["pattern"]), f"{place}.params.pattern")
        return {
            "name": self.names[index],
            "from": f"{self.names[index]}.sender" if flow.access_delay else from_,
            "to": to,
            "route": [self.hops[hop].name for hop in there],
            "back_route": [self.hops[hop].name for hop in back],
            "start_ps": int(flow.start),
            "stop_ps": None if flow.stop is None else int(flow.stop),
            "again": [
                {"start_ps": int(part.start), "stop_ps": None if part.stop is None else int(part.stop)}
                for part in flow.again
            ],
            "app": {"kind": flow.app, "params": params},
            "tcp": self._tcp(flow, place),
        }

    def _pattern(self, pattern: str, place: str) -> None:
        try:
            found = re.compile(pattern).groupindex
        except re.error as error:
            self.problem(place, f"this is no regular expression: {error}", "Mend it", value=pattern)
            return
        if not found:
            fix = r"Name a group after each figure, as in (?P<rate_mbps>[\d.]+) Mbits"
            self.problem(place, "it names no figure", fix, value=pattern)

    def _tcp(self, flow: Flow, place: str) -> dict[str, Any] | None:
        if _sends_datagrams(flow.app):
            for key in ("cc", "cc_turns", "stack", "receiver_stack", "send_buffer", "receive_buffer", "mtu"):
                if getattr(flow, key) not in (None, ()):
                    self.problem(f"{place}.{key}", f"{flow.app} runs over UDP and has no {key}", "Remove it")
            return None
        cc = flow.cc or Named(name="cubic")
        stack = flow.stack or Named(name="linux")
        cc_params = self._algorithm(cc, f"{place}.cc")
        turns = [
            {"cc": turn.name, "cc_params": self._algorithm(turn, f"{place}.cc_turns[{index}]")}
            for index, turn in enumerate(flow.cc_turns)
        ]
        profile = self._card(stack.name, self.known.stacks, f"{place}.stack", "stack", "stacks")
        stack_params: dict[str, ParamValue] = {}
        if profile is not None:
            fields = [entry.name for entry in profile.fields]
            for key, value in stack.params.items():
                name = _match(key, fields)
                if name is None:
                    self.problem(
                        f"{place}.stack.{key}", f"a stack has no field {key}", _choices(key, fields), value=value
                    )
                    continue
                try:
                    stack_params[name] = _stack_number(value)
                except UnitError as error:
                    self.problem(f"{place}.stack.{key}", error.problem, error.fix, value=value)
        if flow.receiver_stack is not None:
            self._card(flow.receiver_stack, self.known.stacks, f"{place}.receiver_stack", "stack", "stacks")
        return {
            "stack": stack.name,
            "receiver_stack": flow.receiver_stack,
            "cc": cc.name,
            "cc_params": cc_params,
            "cc_turns": turns,
            "stack_params": stack_params,
            "send_buffer": None if flow.send_buffer is None else int(flow.send_buffer),
            "receive_buffer": None if flow.receive_buffer is None else int(flow.receive_buffer),
            "mtu": int(flow.mtu or _MTU),
        }

    def _algorithm(self, cc: Named, place: str) -> dict[str, ParamValue]:
        if self._is_own(cc.name, place):
            return dict(cc.params)
        card = self._card(cc.name, self.known.algorithms, place, "congestion control", "algorithms")
        params: dict[str, ParamValue] = {}
        if card is not None:
            for key, value in cc.params.items():
                self._param(card, key, value, f"{place}.{key}", params)
        return params

    # -- names and parameters

    def _is_own(self, name: str, place: str) -> bool:
        """Is it the user's own algorithm? Then the engine will be handed its factory."""
        registered = self.own if self.own is not None else factories()
        if name not in registered and not is_reference(name):
            return False
        if self.own is None:
            self.problem(
                place,
                "this is an algorithm of your own, and a kept result could not tell when its code changes",
                "Run it with tailback.run, run_each or run_many, not in a sweep",
                value=name,
            )
            return True
        try:
            self.factories[name] = registered[name] if name in registered else referenced(name)
        except TailbackError as error:
            self.problem(place, str(error).rstrip("."), "Mend it, or name another", value=name)
        return True

    def _card(self, name: str, rows: Sequence[_Row], place: str, what: str, listed: str) -> _Row | None:
        for row in rows:
            if row.name == name:
                return row
        fix = _choices(name, [row.name for row in rows]) + f" (`tailback list {listed}`)"
        self.problem(place, f"there is no {what} called {name}", fix, value=name)
        return None

    def _param(self, card: registry.Card, key: str, value: ParamValue, place: str, out: dict[str, ParamValue]) -> None:
        names = [param.name for param in card.params]
        name = _match(key, names)
        spec = card.param(name) if name is not None else None
        if name is None or spec is None:
            fix = _choices(key, names) if names else "It has no parameters: remove it"
            self.problem(place, f"{card.name} has no parameter {key}", fix, value=value)
            return
        try:
            out[name] = value if spec.choices or spec.is_text else _plain_number(value, spec.unit)
        except UnitError as error:
            self.problem(place, error.problem, error.fix, value=value)

    # -- instruments

    def _instruments(self) -> dict[str, Any]:
        given = self.scenario.instruments
        named = list(zip(self.names, self.scenario.flows, strict=True))
        over_tcp = [name for name, flow in named if not _sends_datagrams(flow.app)]
        exchanges, echoes = (
            [name for name, flow in named if (app := _application(flow.app)) and app.rows == rows]
            for rows in ("requests", "echoes")
        )
        queues = [hop.name for hop in self.hops if hop.queues]
        out: dict[str, Any] = {}
        for key, everything, known, what in (
            ("segments", over_tcp, self.names, "flow"),
            ("polls", over_tcp, self.names, "flow"),
            ("packets", self.names, self.names, "flow"),
            ("requests", exchanges, self.names, "flow"),
            ("echoes", echoes, self.names, "flow"),
            ("queue_polls", queues, [hop.name for hop in self.hops], "link"),
            ("queues", queues, [hop.name for hop in self.hops], "link"),
            ("drops", queues, [hop.name for hop in self.hops], "link"),
        ):
            place = f"instruments.{key}"
            self.places[place] = place
            names = getattr(given, key)
            if names == "all":
                out[key] = list(everything)
                continue
            for index, name in enumerate(names):
                if name not in known:
                    self.problem(f"{place}[{index}]", f"there is no {what} {name}", _choices(name, known), value=name)
                elif name not in everything:
                    reason = {
                        "requests": "makes no requests",
                        "echoes": "sends no echo requests",
                        "segments": "runs over UDP and has no TCP state",
                        "polls": "runs over UDP and has no TCP state",
                    }.get(key, "has no rate and so no queue")
                    self.problem(f"{place}[{index}]", f"{what} {name} {reason}", "Remove it", value=name)
            out[key] = list(names)
        self.places |= {
            "instruments.poll_interval_ps": "instruments.poll_interval",
            "instruments.from_ps": "instruments.from",
            "instruments.until_ps": "instruments.until",
        }
        return out | {
            "internals": given.internals,
            "poll_interval_ps": int(given.poll_interval),
            "from_ps": int(given.from_),
            "until_ps": None if given.until is None else int(given.until),
        }

    # -- the engine's complaints

    def translate(self, path: str, value: str, problem: str, fix: str) -> Problem:
        head, rest = path, ""
        while head and head not in self.places:
            cut = max(head.rfind("."), head.rfind("["), 0)
            head, rest = head[:cut], head[cut:] + rest
        place = self.places.get(head, "") + rest if head else path
        place = re.sub(r"_(ps|bps)$", "", place).lstrip(".")
        if _look_up(self.told, place) is None and _look_up(self.told, place.rpartition(".")[0]) is not None:
            # `queue = "1bdp"` has no limit_bytes below it.
            short = _look_up(self.told, place.rpartition(".")[0])
            place = place.rpartition(".")[0] if isinstance(short, str) else place
        written = _look_up(self.told, place)
        return Problem(place, value if written is None else written, problem, fix.rstrip(".") + ".")


def _hops(scenario: Scenario) -> list[_Hop]:
    hops: list[_Hop] = []
    bell = scenario.dumbbell
    if bell is not None:
        there, back = bell.delays
        common: dict[str, Any] = {"place": "dumbbell", "tick_hz": bell.tick_hz, "rtt": int(bell.round_trip)}
        hops.append(
            _Hop("bottleneck", "left", "right", rate=bell.rate, delay=int(there), queue=bell.queue,
                 queue_place="dumbbell.queue", wire=bell.wire, wire_place="dumbbell.wire",
                 schedule=bell.schedule, **common)
        )  # fmt: skip
        hops.append(
            _Hop("return", "right", "left", rate=bell.back_rate or bell.rate, delay=int(back),
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
            hops.append(_Hop(f"{name}.access", f"{name}.sender", attached, place, delay=delay))
            hops.append(_Hop(f"{name}.access.back", attached, f"{name}.sender", place, delay=delay))
    return hops


def _hop(link: Link, place: str, name: str, from_: str, to: str) -> _Hop:
    return _Hop(
        name, from_, to, place, rate=link.rate, delay=int(link.delay), tick_hz=link.tick_hz, queue=link.queue,
        queue_place=f"{place}.queue", wire=link.wire, wire_place=f"{place}.wire", medium=link.medium,
        channel=link.name, schedule=link.schedule, trace=link.trace,
    )  # fmt: skip


def link_names(scenario: Scenario) -> list[str]:
    """The links' names in the order of the engine's tables."""
    return [hop.name for hop in _hops(scenario.expanded)]


def _fewest_hops(hops: Sequence[_Hop], from_: str, to: str, closed: str | None = None) -> list[int] | None:
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


def _choices(name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    hint = f'Did you mean "{close}"? ' if close else ""
    shown = ", ".join(known[:40])
    return f"{hint}There are: {shown}" if known else f"{hint}There are none"


def _match(key: str, names: Sequence[str]) -> str | None:
    """The parameter that `key` means: its name with or without the unit at its end."""
    if key in names:
        return key
    stem = key.removesuffix("_size")
    for name in names:
        if any(name == f"{start}_{unit}" for start in (key, stem) for unit in _UNITS):
            return name
    return None


def _plain_number(value: ParamValue, unit: str) -> ParamValue:
    """A text that is a quantity as the number the engine takes; other values as they are."""
    if isinstance(value, str) and re.match(r"\s*[+-]?\.?\d", value):
        return to_unit(value, unit)
    return value


def _stack_number(value: ParamValue) -> ParamValue:
    """As `_plain_number` for a field of a stack: times in milliseconds, sizes in bytes."""
    if not isinstance(value, str) or not re.match(r"\s*[+-]?\.?\d", value):
        return value
    return to_unit(value, "B" if re.search(r"[Bb](ytes?)?\s*$", value) else "ms")


def _look_up(told: Mapping[str, Any], place: str) -> Any:
    """What a scenario, as TOML would hold it, says at `place`, if it is a single value."""
    here: Any = told
    for step in re.findall(r"[^.\[\]]+", place):
        if isinstance(here, Mapping):
            here = here.get(step)
        elif isinstance(here, list) and step.isdigit() and int(step) < len(here):
            here = here[int(step)]
        else:
            return None
    return None if isinstance(here, Mapping | list) else here


def resolve(
    scenario: Scenario, *, check: bool, own: Mapping[str, Factory] | None, live: bool = False
) -> dict[str, Any]:
    """See `Scenario.resolve`. Without `own` (None, not empty) only built-in algorithms will do."""
    resolver = _Resolver(scenario.expanded, own)
    out = resolver.run()
    if check:
        from tailback import _core

        try:
            _core.check(json.dumps(out), resolver.factories, live)
        except _core.ScenarioError as error:
            raise ScenarioError([resolver.translate(*map(str, error.args))]) from None
    return out


def complaint(scenario: Scenario, path: str, value: str, problem: str, fix: str) -> Problem:
    """What an engine says of a place in its own form, said of the scenario's."""
    resolver = _Resolver(scenario.expanded, {})
    resolver.run()
    return resolver.translate(path, value, problem, fix)


def as_text(resolved: Mapping[str, Any]) -> str:
    """JSON text of a resolved description, the same for equal ones."""
    return json.dumps(resolved, sort_keys=True, separators=(",", ":"))


def _named(key: str, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: name} | dict(row.get("params") or {})


def unresolve(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The general network of a resolved description, as TOML would hold it."""

    def span(ps: int | None) -> str | None:
        return None if ps is None else str(Duration(ps))

    def lean(**values: Any) -> dict[str, Any]:
        return {key: value for key, value in values.items() if value not in (None, {}, [], ())}

    links = []
    for row in resolved["links"]:
        queue, wire = row.get("queue"), row.get("wire") or {}
        medium, trace = row.get("medium"), row.get("trace")
        finite = row.get("rate_bps") is not None or medium is not None or trace is not None
        links.append(
            lean(
                **{"from": row["from"]},
                name=row["name"],
                to=row["to"],
                rate=str(Rate(row["rate_bps"])) if row.get("rate_bps") is not None else None,
                delay=span(row.get("delay_ps") or None),
                tick_hz=row.get("tick_hz"),
                queue=_named("discipline", queue["discipline"], queue) if queue and finite else None,
                wire=lean(
                    loss=wire.get("loss") or None,
                    duplicate=wire.get("duplicate") or None,
                    reorder=wire.get("reorder") or None,
                    reorder_delay=span(wire.get("reorder_delay_ps") or None),
                    jitter=span(wire.get("jitter_ps") or None),
                    **{key: wire.get(key) or None for key in _LOSSES},
                ),
                medium=(
                    _named("name", medium["name"], medium)
                    | lean(channel=medium.get("channel"), flow=medium.get("flow"))
                    if medium
                    else None
                ),
                schedule=[
                    lean(
                        at=str(Duration(step["at_ps"])),
                        rate=None if step.get("rate_bps") is None else str(Rate(step["rate_bps"])),
                        delay=span(step.get("delay_ps")),
                    )
                    for step in row.get("schedule") or ()
                ],
                trace=list(trace["deliveries_ms"]) if trace else None,
            )
        )
    flows = []
    for row in resolved["flows"]:
        tcp = row.get("tcp") or {}
        flows.append(
            lean(
                **{"from": row["from"]},
                name=row["name"],
                app=row["app"]["kind"],
                to=row["to"],
                route=row.get("route"),
                back_route=row.get("back_route"),
                start=span(row.get("start_ps") or None),
                stop=span(row.get("stop_ps")),
                again=[
                    lean(start=span(part["start_ps"]), stop=span(part.get("stop_ps")))
                    for part in row.get("again") or ()
                ],
                cc_turns=[
                    _named("name", turn["cc"], {"params": turn.get("cc_params")}) for turn in tcp.get("cc_turns") or ()
                ],
                cc=_named("name", tcp["cc"], {"params": tcp.get("cc_params")}) if tcp else None,
                stack=_named("name", tcp["stack"], {"params": tcp.get("stack_params")}) if tcp else None,
                receiver_stack=tcp.get("receiver_stack"),
                send_buffer=str(Bytes(tcp["send_buffer"])) if tcp.get("send_buffer") else None,
                receive_buffer=str(Bytes(tcp["receive_buffer"])) if tcp.get("receive_buffer") else None,
                mtu=str(Bytes(tcp["mtu"])) if tcp.get("mtu") else None,
                params=dict(row["app"].get("params") or {}),
            )
        )
    randomness = resolved.get("randomness") or {}
    given = resolved.get("instruments") or {}
    words = ("segments", "polls", "queue_polls", "queues", "drops", "packets", "requests", "echoes")
    return lean(
        name=resolved.get("name") or None,
        seed=resolved["seed"],
        duration=span(resolved["duration_ps"]),
        nodes=list(resolved.get("nodes") or ()),
        link=links,
        flow=flows,
        randomness=lean(
            start_spread=span(randomness.get("start_spread_ps") or None),
            processing_jitter=span(randomness.get("processing_jitter_ps") or None),
        ),
        instruments=lean(
            **{"from": span(given.get("from_ps") or None)},
            **{word: list(given.get(word) or ()) for word in words},
            internals=given.get("internals") or None,
            poll_interval=span(given.get("poll_interval_ps") or None),
            until=span(given.get("until_ps")),
        ),
    )
