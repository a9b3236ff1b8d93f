"""Flows of the engine's form: application, congestion control, stack, route."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tailback.errors import UnitError
from tailback.scenario import Flow, Named
from tailback.scenario._fields import ParamValue

from .graph import Graph, Routes
from .ledger import choices, match, sends_datagrams, stack_number
from .links import MTU


class Flows:
    """Says the flows of a scenario in the engine's form, given their routes."""

    def __init__(self, graph: Graph, routes: Routes) -> None:
        self.graph = graph
        self.ledger = graph.ledger
        self.scenario = graph.scenario
        self.routes = routes

    def describe(self) -> list[dict[str, Any]]:
        """One row a flow, in the order of the engine's tables."""
        return [self._flow(index, there, back) for index, (there, back) in enumerate(self.routes)]

    def _flow(self, index: int, there: Sequence[int], back: Sequence[int]) -> dict[str, Any]:
        flow, place, at = self.scenario.flows[index], f"flow[{index}]", f"flows[{index}]"
        self.ledger.places |= {
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
        from_, to = self.graph.ends(index)
        if flow.start >= self.scenario.duration:
            self.ledger.problem(
                f"{place}.start",
                f"it would start at {flow.start}, when the run of {self.scenario.duration} is over",
                "Start it earlier, or raise duration",
            )
        app = self.ledger.card(flow.app, self.ledger.known.apps, f"{place}.app", "application", "apps")
        params: dict[str, ParamValue] = {}
        if app is not None:
            for key, value in (("bytes", flow.bytes), ("interval", flow.interval), ("packet_size", flow.packet_size)):
                if value is not None:
                    self.ledger.param(app, key, str(value), f"{place}.{key}", params)
            for key in ("client", "server", "parse"):
                if (text := getattr(flow, key)) is not None:
                    self.ledger.param(app, key, text, f"{place}.{key}", params)
            for key, item in flow.params.items():
                self.ledger.param(app, key, item, f"{place}.params.{key}", params)
            if params.get("pattern"):
                self._pattern(str(params["pattern"]), f"{place}.params.pattern")
        return {
            "name": self.graph.names[index],
            "from": f"{self.graph.names[index]}.sender" if flow.access_delay else from_,
            "to": to,
            "route": [self.graph.hops[hop].name for hop in there],
            "back_route": [self.graph.hops[hop].name for hop in back],
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
            self.ledger.problem(place, f"this is no regular expression: {error}", "Mend it", value=pattern)
            return
        if not found:
            fix = r"Name a group after each figure, as in (?P<rate_mbps>[\d.]+) Mbits"
            self.ledger.problem(place, "it names no figure", fix, value=pattern)

    def _tcp(self, flow: Flow, place: str) -> dict[str, Any] | None:
        if sends_datagrams(flow.app):
            for key in ("cc", "cc_turns", "stack", "receiver_stack", "send_buffer", "receive_buffer", "mtu"):
                if getattr(flow, key) not in (None, ()):
                    self.ledger.problem(f"{place}.{key}", f"{flow.app} runs over UDP and has no {key}", "Remove it")
            return None
        cc = flow.cc or Named(name="cubic")
        stack = flow.stack or Named(name="linux")
        cc_params = self._algorithm(cc, f"{place}.cc")
        turns = [
            {"cc": turn.name, "cc_params": self._algorithm(turn, f"{place}.cc_turns[{index}]")}
            for index, turn in enumerate(flow.cc_turns)
        ]
        profile = self.ledger.card(stack.name, self.ledger.known.stacks, f"{place}.stack", "stack", "stacks")
        stack_params: dict[str, ParamValue] = {}
        if profile is not None:
            fields = [entry.name for entry in profile.fields]
            for key, value in stack.params.items():
                name = match(key, fields)
                if name is None:
                    self.ledger.problem(
                        f"{place}.stack.{key}", f"a stack has no field {key}", choices(key, fields), value=value
                    )
                    continue
                try:
                    stack_params[name] = stack_number(value)
                except UnitError as error:
                    self.ledger.problem(f"{place}.stack.{key}", error.problem, error.fix, value=value)
        if flow.receiver_stack is not None:
            self.ledger.card(
                flow.receiver_stack, self.ledger.known.stacks, f"{place}.receiver_stack", "stack", "stacks"
            )
        return {
            "stack": stack.name,
            "receiver_stack": flow.receiver_stack,
            "cc": cc.name,
            "cc_params": cc_params,
            "cc_turns": turns,
            "stack_params": stack_params,
            "send_buffer": None if flow.send_buffer is None else int(flow.send_buffer),
            "receive_buffer": None if flow.receive_buffer is None else int(flow.receive_buffer),
            "mtu": int(flow.mtu or MTU),
        }

    def _algorithm(self, cc: Named, place: str) -> dict[str, ParamValue]:
        if self.ledger.is_own(cc.name, place):
            return dict(cc.params)
        card = self.ledger.card(cc.name, self.ledger.known.algorithms, place, "congestion control", "algorithms")
        params: dict[str, ParamValue] = {}
        if card is not None:
            for key, value in cc.params.items():
                self.ledger.param(card, key, value, f"{place}.{key}", params)
        return params
