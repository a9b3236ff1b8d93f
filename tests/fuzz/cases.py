"""Random scenarios, as the tables of a TOML file. Names and ranges come from the registry: a new row is tried too.

Most values are sensible, some are at the ends of their range, a few are wrong: those must be refused.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import tailback as tb
from tailback import _core, presets, registry

Table = dict[str, Any]

_RATES = ("8kbit", "64kbit", "512kbit", "2mbit", "10mbit", "100mbit", "1gbit", "1tbit")
_SPANS = ("0s", "1ps", "10us", "1ms", "5ms", "20ms", "150ms", "1s")
_SIZES = ("1B", "1500B", "4KiB", "16kB", "1MB", "64MiB")
_TRANSPORTS = [(row["name"], row["algorithms"]) for row in json.loads(_core.registry())["transports"]]
_LIMITS = ("1packets", "10packets", "100packets", "3000B", "10kB", "1MB", "0.1bdp", "1bdp", "4bdp")


class Case:
    """One scenario from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.known = registry.load()
        self.flow_names: list[str] = []
        self.link_names: list[str] = ["nowhere"]
        self.nodes: list[str] = []

    def scenario(self) -> Table:
        """The whole file."""
        self.duration_ms = self.random.choice((1, 100, 1000, 5000, 20_000))
        out: Table = {"duration": f"{self.duration_ms}ms"}
        self.maybe(out, 0.7, "seed", lambda: self.random.choice((0, 1, 2**64 - 1, self.random.getrandbits(64))))
        self.maybe(out, 0.2, "name", lambda: "a fuzzed scenario")
        kind = self.random.random()
        if kind < 0.5:
            out["dumbbell"] = self.dumbbell()
            self.nodes, self.link_names = ["left", "right"], ["bottleneck", "return"]
        elif kind < 0.9:
            out["link"] = self.links()
        else:
            out["path"] = self.path()
            self.nodes = ["left", "right"]
        tunnels = [row for row in out.get("link", ()) if row.get("medium", {}).get("name") == "tunnel"]
        out["flow"] = self.flows(tunnel=bool(tunnels))
        self.maybe(out, 0.1, "nodes", lambda: [*self.nodes, "lonely"])
        self.maybe(out, 0.4, "randomness", self.randomness)
        self.maybe(out, 0.8, "instruments", self.instruments)
        self.maybe(out, 0.2, "expect", self.expect)
        # Drawn last, so that the rest of every case stays what it was.
        if self.random.random() < 0.3:
            self.signals(out)
        for key in ("medium", "back_medium") if "dumbbell" in out else ():
            self.maybe(out["dumbbell"], 0.15, key, self.medium)
        return out

    # -- small things

    def maybe(self, out: Table, chance: float, key: str, value: Callable[[], Any]) -> None:
        """Set a key, sometimes."""
        if self.random.random() < chance:
            out[key] = value()

    def span(self) -> str:
        return self.random.choice(_SPANS)

    def instant(self) -> str:
        return f"{self.random.randrange(self.duration_ms + 1)}ms"

    def share(self) -> float:
        return self.random.choice((0.0, 1e-6, 0.001, 0.01, 0.1, 0.5, 1.0, self.random.random()))

    def value(self, param: registry.Param) -> Any:
        """A value of a registry row's parameter."""
        if param.choices:
            return self.random.choice(param.choices) if self.random.random() < 0.99 else "nonsense"
        if param.kind == "text":
            return "text"
        if param.min is None or param.max is None or isinstance(param.default, bool):
            return self.random.random() < 0.5
        low, high, usual = float(param.min), float(param.max), param.default
        kind = self.random.random()
        if kind < 0.15:
            number = low
        elif kind < 0.25:
            number = high
        elif kind < 0.28:
            number = self.random.choice((low - 1, high + 1, -1.0))
        elif kind < 0.75 and isinstance(usual, int | float) and usual:
            number = min(max(float(usual) * 10 ** self.random.uniform(-1, 1), low), high)
        else:
            start = max(low, 1e-6)
            number = start * (max(high, start) / start) ** self.random.random()
        return round(number) if self.random.random() < 0.7 else float(f"{number:.6g}")

    def parameters(self, card: registry.Card, chance: float) -> Table:
        wanted = (param for param in card.params if self.random.random() < chance)
        return {param.name: self.value(param) for param in wanted}

    def named(self, card: registry.Card, key: str, chance: float = 0.25) -> Any:
        params = self.parameters(card, chance)
        return {key: card.name, **params} if params or self.random.random() < 0.3 else card.name

    # -- the path

    def queue(self) -> Any:
        if self.random.random() < 0.3:
            return self.random.choice(_LIMITS)
        card = self.random.choice(self.known.queues)
        out: Table = {"discipline": card.name, **self.parameters(card, 0.25)}
        if not any(key.startswith("limit") for key in out):
            self.maybe(out, 0.6, "limit", lambda: self.random.choice(_LIMITS))
        return out

    def wire(self) -> Table:
        out: Table = {}
        for key in ("loss", "corrupt", "duplicate", "reorder", "burst_start", "burst_end", "burst_loss", "gap_loss"):
            self.maybe(out, 0.2, key, self.share)
        self.maybe(out, 0.1, "bit_error", lambda: self.random.choice((0.0, 1e-9, 1e-6, 1e-3, 1.0)))
        self.maybe(out, 0.1, "loss_every", lambda: self.random.choice((0, 2, 50, 10_000, 2**32)))
        self.maybe(out, 0.1, "reorder_packets", lambda: self.random.choice((0, 1, 3, 100, 2**32)))
        for key in ("reorder_delay", "jitter"):
            self.maybe(out, 0.3, key, self.span)
        return out

    def framing(self, out: Table) -> None:
        self.maybe(out, 0.1, "overhead", lambda: self.random.choice((-64, -14, 0, 44, 256, 300)))
        self.maybe(out, 0.1, "mpu", lambda: self.random.choice((0, 64, 256, 300)))
        self.maybe(out, 0.1, "linklayer", lambda: self.random.choice(("ethernet", "atm", "ptm", "adsl")))

    def signals(self, tables: Table) -> None:
        """Policers, and what wires do to ECN, delays and acknowledgements, on the links there are."""
        places = [(row, "wire") for row in tables.get("link", ())]
        if "dumbbell" in tables:
            places += [(tables["dumbbell"], "wire"), (tables["dumbbell"], "back_wire")]
        for row, key in places:
            burst = self.random.choice(("1kB", "3kB", "100kB"))
            if key == "wire":
                self.maybe(
                    row, 0.3, "policer", lambda burst=burst: {"rate": self.random.choice(_RATES), "burst": burst}
                )
            out: Table = {}
            self.maybe(out, 0.3, "bleach", lambda: self.random.choice(("ce", "ect1", "all", "ect0")))
            self.maybe(out, 0.2, "bleach_before_queue", lambda: True)
            self.maybe(out, 0.3, "ack_hold", self.span)
            self.maybe(out, 0.2, "ack_every", lambda: self.random.choice((2, 4, 100)))
            if self.random.random() < 0.3:
                jitter: Table = {"jitter": self.span()}
                self.maybe(jitter, 0.6, "distribution", lambda: self.random.choice(("uniform", "normal", "pareto")))
                self.maybe(jitter, 0.3, "correlation", self.share)
                out["netem_jitter"] = jitter
            if out:
                row[key] = row.get(key, {}) | out

    def schedule(self) -> list[Table]:
        times = sorted({self.random.randrange(self.duration_ms + 1) for _ in range(self.random.randrange(1, 4))})
        out = []
        for at in times:
            step: Table = {"at": f"{at}ms"}
            self.maybe(step, 0.6, "rate", lambda: self.random.choice((*_RATES[:-1], "0bit")))
            self.maybe(step, 0.6, "delay", self.span)
            out.append(step)
        return out

    def dumbbell(self) -> Table:
        out: Table = {"rate": self.random.choice(_RATES)}
        if self.random.random() < 0.7:
            out["rtt"] = self.span()
        else:
            self.maybe(out, 0.9, "delay", self.span)
            self.maybe(out, 0.5, "back_delay", self.span)
        self.maybe(out, 0.2, "back_rate", lambda: self.random.choice(_RATES))
        self.maybe(out, 0.8, "queue", self.queue)
        self.maybe(out, 0.3, "back_queue", self.queue)
        self.maybe(out, 0.1, "tick_hz", lambda: self.random.choice((1, 100, 1000, 1_000_000)))
        self.framing(out)
        self.maybe(out, 0.3, "wire", self.wire)
        self.maybe(out, 0.15, "back_wire", self.wire)
        self.maybe(out, 0.15, "schedule", self.schedule)
        return out

    def path(self) -> Table:
        card = self.random.choice(presets.CARDS)
        out: Table = {"preset": card.name}
        for option in card.options:
            self.maybe(out, 0.2, option.name, lambda option=option: option.default)
        return out

    def links(self) -> list[Table]:
        count = self.random.randrange(1, 5)
        self.nodes = [f"n{index}" for index in range(count + 1)]
        rows = [self.link(index) for index in range(count)]
        if self.random.random() < 0.15:
            card = next(card for card in self.known.media if card.name == "tunnel")
            medium = {"name": "tunnel", "flow": "vtun", **self.parameters(card, 0.4)}
            rows.append({"name": "tun", "from": "n0", "to": "n1", "duplex": True, "medium": medium})
        self.link_names = [row["name"] for row in rows] + [f"{row['name']}-back" for row in rows]
        return rows

    def link(self, index: int) -> Table:
        out: Table = {"name": f"l{index}", "from": f"n{index}", "to": f"n{index + 1}", "duplex": True}
        self.maybe(out, 0.8, "delay", self.span)
        kind = self.random.random()
        if kind < 0.55:
            out["rate"] = self.random.choice(_RATES)
            self.maybe(out, 0.15, "schedule", self.schedule)
        elif kind < 0.65:
            out["trace"] = sorted(self.random.randrange(300) for _ in range(self.random.randrange(1, 12)))
        elif kind < 0.9:
            out["medium"] = self.medium()
        self.maybe(out, 0.6, "queue", self.queue)
        self.maybe(out, 0.3, "wire", self.wire)
        self.maybe(out, 0.05, "tick_hz", lambda: self.random.choice((1, 1000)))
        self.framing(out)
        return out

    def medium(self) -> Table:
        card = self.random.choice([card for card in self.known.media if card.name != "tunnel"])
        out: Table = {"name": card.name, **self.parameters(card, 0.25)}
        self.maybe(out, 0.2, "channel", lambda: "air")
        return out

    # -- who uses it

    def flows(self, *, tunnel: bool) -> list[Table]:
        rows = [self.flow(f"f{index}") for index in range(self.random.randrange(1, 7))]
        if tunnel:
            params = self.parameters(next(card for card in self.known.apps if card.name == "tunnel"), 0.4)
            own = {"name": "vtun", "app": "tunnel", "from": "n0", "to": "n1", "params": params}
            rows.append(own | self.connection())
        self.flow_names = [row["name"] for row in rows]
        return rows

    def flow(self, name: str) -> Table:
        card = self.random.choice([card for card in self.known.apps if card.name not in ("exec", "tunnel")])
        if self.random.random() < 0.4:
            card = next(card for card in self.known.apps if card.name == "bulk")
        out: Table = {"name": name, "app": card.name, "params": self.parameters(card, 0.4)}
        if self.nodes != ["left", "right"]:
            out["from"], out["to"] = self.random.sample(self.nodes, 2)
        elif self.random.random() < 0.2:
            out["from"], out["to"] = "right", "left"
        if card.transport != "udp":
            out |= self.connection()
        else:
            self.maybe(out, 0.2, "packet_size", lambda: self.random.choice(("28B", "200B", "1500B", "9000B")))
            self.maybe(out, 0.2, "interval", lambda: self.random.choice(_SPANS[1:]))
        self.maybe(out, 0.2, "ip", lambda: self.random.choice((4, 6)))
        self.maybe(out, 0.1, "bytes", lambda: self.random.choice(_SIZES))
        self.maybe(out, 0.2, "access_delay", self.span)
        self.maybe(out, 0.1, "access_schedule", lambda: [{"at": self.span(), "delay": self.span()}])
        self.maybe(out, 0.05, "route", lambda: self.random.sample(self.link_names, 1))
        self.maybe(out, 0.05, "back_route", lambda: self.random.sample(self.link_names, 1))
        self.times(out)
        self.maybe(out, 0.05, "count", lambda: self.random.randrange(1, 4))
        self.maybe(out, 0.05, "two_way", lambda: True)
        return out

    def times(self, out: Table) -> None:
        times = sorted(self.random.sample(range(self.duration_ms + 2), min(4, self.duration_ms + 1)))
        self.maybe(out, 0.4, "start", lambda: f"{times[0]}ms")
        if len(times) == 4 and self.random.random() < 0.3:
            out["stop"] = f"{times[1]}ms"
            self.maybe(out, 0.4, "again", lambda: [{"start": f"{times[2]}ms", "stop": f"{times[3]}ms"}])

    def connection(self) -> Table:
        out: Table = {}
        algorithm = lambda: self.named(self.random.choice(self.known.algorithms), "name")  # noqa: E731
        self.maybe(out, 0.8, "cc", algorithm)
        self.maybe(out, 0.05, "cc_turns", lambda: [algorithm(), algorithm()])
        self.maybe(out, 0.7, "stack", self.stack)
        self.maybe(out, 0.2, "receiver_stack", lambda: self.random.choice(self.known.stacks).name)
        self.maybe(out, 0.3, "mtu", lambda: self.random.choice(("100B", "576B", "1500B", "9000B", "65535B", "99B")))
        for key in ("send_buffer", "receive_buffer"):
            self.maybe(out, 0.3, key, lambda: self.random.choice(_SIZES))
        if self.random.random() < 1 / 3:
            # Another stack's connection has none of TCP's.
            out = {key: value for key, value in out.items() if key in ("mtu", "send_buffer", "receive_buffer")}
            transport, ccs = self.random.choice(_TRANSPORTS)
            out |= {"transport": transport, "cc": self.random.choice(ccs)}
        return out

    def stack(self) -> Any:
        stack = self.random.choice(self.known.stacks)
        fields = [field.name for field in stack.fields if self.random.random() < 0.15]
        return {"name": stack.name, **{name: self.field(name) for name in fields}} if fields else stack.name

    def field(self, name: str) -> Any:
        """A value of a stack's field: as some profile has it, or at an end."""
        seen = sorted({str(field.value) for stack in self.known.stacks for field in stack.fields if field.name == name})
        word = self.random.choice(seen).removesuffix(" ms")
        if word in ("true", "false", "off", "none", "all"):
            return self.random.choice((True, False)) if word in ("true", "false") else False
        try:
            number = float(word)
        except ValueError:
            return word.split(" ")[0]
        ends = (0, 1, 2, 1000, 1e6, number * 10 ** self.random.uniform(-2, 2))
        chosen = self.random.choice((number, number, *ends))
        return int(chosen) if chosen == int(chosen) or self.random.random() < 0.7 else chosen

    # -- chance and records

    def randomness(self) -> Table:
        return {
            "start_spread": self.span(),
            "processing_jitter": self.random.choice(("0s", "1ps", "50us", "1ms")),
            "access_spread": self.random.choice(("0s", "1ms")),
        }

    def instruments(self) -> Table:
        out: Table = {}
        for key in ("segments", "polls", "packets", "requests", "echoes", "queue_polls", "queues", "drops", "captures"):
            self.maybe(out, 0.4, key, lambda: "all")
        self.maybe(out, 0.1, "packets", lambda: self.random.sample(self.flow_names, 1))
        self.maybe(out, 0.1, "drops", lambda: self.random.sample([*self.link_names, "bottleneck"], 1))
        self.maybe(out, 0.3, "internals", lambda: True)
        self.maybe(out, 0.8, "poll_interval", lambda: self.random.choice(("1ns", "1ms", "20ms", "100ms", "1h")))
        self.maybe(out, 0.2, "most_rows", lambda: self.random.choice((1, 1000, 10**6, 2**32 - 2)))
        self.maybe(out, 0.1, "most_memory", lambda: self.random.choice(("1B", "100kB", "1GB")))
        self.maybe(out, 0.2, "from", self.instant)
        self.maybe(out, 0.2, "until", self.instant)
        return out

    def expect(self) -> Table:
        part: Table = {"holds": "jain <= baseline"}
        self.maybe(part, 0.5, "from", self.instant)
        self.maybe(part, 0.5, "until", self.instant)
        out: Table = {"conditions": ["goodput_mbps >= 0", part]}
        self.maybe(out, 0.5, "baseline", lambda: self.named(self.random.choice(self.known.algorithms), "name"))
        self.maybe(out, 0.2, "baseline_flows", lambda: self.random.choice(("all", ["missing"])))
        self.maybe(out, 0.2, "from", self.instant)
        self.maybe(out, 0.2, "until", self.instant)
        self.maybe(out, 0.3, "confidence", self.share)
        self.maybe(out, 0.3, "least", lambda: self.random.choice((1, 2, 5, 10_000)))
        self.maybe(out, 0.3, "most", lambda: self.random.choice((1, 2, 50, 10_000)))
        return out


def case(seed: int) -> Table:
    """The scenario of a seed, the same as long as registry and generator stay; four in five have been repaired."""
    tables = Case(seed).scenario()
    return tables if seed % 5 == 0 else repaired(tables)


def repaired(tables: Table) -> Table:
    """Without what its errors name: so much is random that nearly every scenario would be refused for something."""
    for _ in range(40):
        try:
            tb.Scenario.from_dict(tables).resolve()
        except tb.ScenarioError as error:
            for problem in error.problems:
                _leave_out(tables, problem.field)
        else:
            break
    return tables


def _leave_out(tables: Table, field: str) -> None:
    steps: list[Any] = [int(step) if step.isdigit() else step for step in re.split(r"[.\[\]]+", field) if step]
    if steps and steps[0] == "dumbbell" and steps[1:] in ([], ["rtt"]):
        kept = {key: value for key, value in tables["dumbbell"].items() if not key.endswith("delay")}
        tables["dumbbell"] = kept | {"rtt": "20ms"}
        return
    if len(steps) == 2 and steps[0] == "link":
        for key in ("queue", "schedule", "tick_hz"):
            tables["link"][steps[1]].pop(key, None)
        return
    if steps in (["dumbbell", "queue"], ["dumbbell", "back_queue"]) and steps[1] not in tables["dumbbell"]:
        # The default, 1 BDP, holds no packet here.
        tables["dumbbell"][steps[1]] = "10packets"
        return
    if len(steps) == 3 and steps[0] == "link" and steps[2] == "rate":
        tables["link"][steps[1]] |= {"rate": "1mbit"}
        return
    above, key = None, None
    here: Any = tables
    for step in steps:
        if isinstance(here, dict) and step not in here and step in here.get("params", ()):
            above, key, here = here, "params", here["params"]
        is_there = step in here if isinstance(here, dict) else isinstance(here, list) and step < len(here)
        has_params = isinstance(here, dict) and bool(here.get("params"))
        if not is_there or (step == "app" and has_params):
            # A parameter clashes with another's default, or the connection cannot do what the application asks for.
            if has_params:
                above, key = here, "params"
            break
        above, key, here = here, step, here[step]
    # Of a list the rest may be about another place: the whole list goes.
    if above is not None and not (isinstance(above, list) and above in (tables.get("flow"), tables.get("link"))):
        del above[key]
