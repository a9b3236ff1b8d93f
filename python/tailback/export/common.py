"""The common parts of exports. Everything that a target cannot express is listed, never dropped silently.

Mapping by target:

| scenario | netem | ns3 |
| --- | --- | --- |
| node | network namespace | `Node` |
| link: rate and queue | `tbf` and the queue discipline in it, on a router | `DataRate` and a queue disc |
| link: framing | `tbf overhead … linklayer atm` | left out |
| link: delay | `netem delay` on the next router | `PointToPointChannel`, one delay for both ways |
| wire: netem_jitter | `netem delay … distribution` | left out |
| wire: loss | `netem loss`, in bursts `loss gemodel` | `RateErrorModel` |
| schedule | `tc qdisc change` at its instant | `Simulator::Schedule` |
| bulk, ftp, hftp | `iperf3 --congestion` | a writer of its own, with the `TcpCongestionOps` of its name |
| voip, udp-cbr | `iperf3 --udp` | `UdpClient` |
| ping | `ping` | `Ping` |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from tailback import registry
from tailback.errors import Problem, ScenarioError
from tailback.files import whole_file
from tailback.scenario import Scenario

PS = 10**12

#: Applications that targets can replace: TCP senders without pauses, UDP at a constant rate, echoes.
SENDERS, DATAGRAMS, ECHOES = ("bulk", "ftp", "hftp"), ("voip", "udp-cbr"), ("ping",)


@dataclass(frozen=True)
class Export:
    """A program for another tool, and the parts of the scenario that it cannot express.

    >>> import tailback as tb
    >>> path = {"rate": "10mbit", "rtt": "80ms", "wire": {"bit_error": 1e-9}, "duration": "9s"}
    >>> for row in tb.export(tb.dumbbell(flows=[tb.bulk("bbr")], **path), "netem").left_out:
    ...     print(row)
    dumbbell.wire.bit_error = 1e-09: netem damages packets and delivers them. Write a loss in its place
    """

    #: "netem" or "ns3".
    target: str
    #: The script or program.
    text: str
    #: Parts that are different or left out, each with field, value, reason, and replacement.
    left_out: tuple[Problem, ...]
    #: Default name of its file.
    file_name: str

    def save(self, path: str | Path | None = None) -> Path:
        """Write the file, executable if it is a script; returns the path."""
        file = Path(path or self.file_name)
        with whole_file(file) as partial:
            partial.write_text(self.text, encoding="utf-8")
            if self.target == "netem":
                partial.chmod(0o755)
        return file


class Source:
    """A resolved scenario that collects what is left out, by field."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.resolved: dict[str, Any] = json.loads(scenario.to_json())
        self.left_out: list[Problem] = []
        self.nodes: list[str] = self.resolved["nodes"]
        self.links: list[dict[str, Any]] = self.resolved["links"]
        self.duration_s = self.resolved["duration_ps"] / PS
        self._given = scenario.to_dict()

    @property
    def name(self) -> str:
        """The scenario's name as a file name."""
        return re.sub(r"[^\w.+-]", "-", self.scenario.name) or "scenario"

    def leave(self, field: str, value: Any, why: str, instead: str) -> None:
        """Record that a field is left out, or not exact."""
        found = Problem(field, value, why, instead)
        if found not in self.left_out:
            self.left_out.append(found)

    def refuse(self, field: str, value: Any, why: str, fix: str) -> NoReturn:
        """Raise the error for a field without which no export is possible."""
        raise ScenarioError([Problem(field, value, why, fix, self.scenario._file)])

    def place(self, link: int, key: str) -> str:
        """The scenario's field path for a property of a link."""
        if self.scenario.dumbbell is None:
            return f"link.{self.links[link]['name']}.{key}"
        back = f"back_{key}" if link == 1 else key
        return f"dumbbell.{back if back in self._given.get('dumbbell', {}) else key}"

    def common(self, target: str) -> None:
        """Record what no target can express."""
        randomness = self.resolved["randomness"]
        for key in ("start_spread", "processing_jitter", "access_spread"):
            if randomness.get(f"{key}_ps"):
                value = str(getattr(self.scenario.randomness, key))
                self.leave(f"randomness.{key}", value, f"{target} has no such draw", "Every flow starts when it says")
        for index, link in enumerate(self.links):
            for key in ("medium", "trace"):
                if link.get(key):
                    value = link[key]["name"] if key == "medium" else "…"
                    fix = "Give the link a rate and a schedule of rates in its place"
                    if self.scenario.dumbbell is not None:
                        fix = f"Remove it: {self.place(index, 'rate')} then holds"
                    self.refuse(
                        self.place(index, key),
                        value,
                        f"{target} has no link that transmits like this",
                        fix,
                    )
            if link.get("policer"):
                value = f"{link['policer']['rate_bps'] / 1e6:g} Mbit/s"
                self.leave(self.place(index, "policer"), value, f"{target} gets no policer", "Nothing is policed")
            if link["tick_hz"]:
                self.leave(self.place(index, "tick_hz"), link["tick_hz"], "departures have no timer", "They are exact")

    def flows(self, target: str) -> list[Flow]:
        """The flows for which the target has a program; the others are recorded as left out."""
        out = []
        for index, spec in enumerate(self.resolved["flows"]):
            kind = spec["app"]["kind"]
            if kind not in SENDERS + DATAGRAMS + ECHOES:
                known = ", ".join(SENDERS + DATAGRAMS + ECHOES)
                self.leave(f"flow[{index}].app", kind, f"{target} gets no such application", f"Exported are: {known}")
                continue
            if (spec["tcp"] or {}).get("transport"):
                theirs = spec["tcp"]["transport"]
                self.leave(f"flow[{index}].transport", theirs, f"{target} has no such stack", "The flow is left out")
                continue
            if spec.get("ip") == 6:
                self.leave(f"flow[{index}].ip", 6, "the exported flows speak IPv4", "Packets are 20 bytes shorter")
            out.append(Flow(index, spec, self.resolved["duration_ps"]))
            flow = out[-1]
            if spec["again"]:
                self.leave(f"{flow.at}.again", len(spec["again"]), "a flow runs once", "Write a flow for each time")
            calls = int(flow.app.get("calls", 1))
            if calls > 1:
                self.leave(f"{flow.at}.calls", calls, "one call is exported", "Write a flow for each call")
            if flow.app.get("read_rate"):
                self.leave(f"{flow.at}.read_rate", flow.app["read_rate"], "the receiver reads at once", "")
            if kind in ("ftp", "hftp"):
                self.leave(f"{flow.at}.app", kind, "its window and packets are not taken over", "It is a bulk transfer")
            for key, value in flow.tcp.get("cc_params", {}).items():
                why = f"the parameters of {target}'s own {flow.cc} are not set"
                self.leave(f"{flow.at}.cc.{key}", value, why, "It has its defaults")
            if flow.cc == "dctcp" and not flow.tcp["stack_params"].get("ecn"):
                self.leave(f"{flow.at}.stack.ecn", False, f"{target}'s DCTCP always asks for ECN", "It has ECN")
            if flow.tcp.get("cc_turns"):
                self.leave(f"{flow.at}.cc_turns", len(flow.tcp["cc_turns"]), "a flow has one algorithm", "The first")
        if not out:
            self.refuse("flow", None, f"{target} can run none of the flows", "Add a bulk transfer, a call or a ping")
        return out


class Flow:
    """One flow of the resolved scenario, in seconds and bytes."""

    def __init__(self, index: int, spec: Mapping[str, Any], duration_ps: int) -> None:
        self.index, self.at = index, f"flow[{index}]"
        self.name: str = spec["name"]
        self.sender: str = spec["from"]
        self.receiver: str = spec["to"]
        self.kind: str = spec["app"]["kind"]
        self.app: Mapping[str, Any] = spec["app"]["params"]
        self.tcp: Mapping[str, Any] = spec["tcp"] or {}
        self.start_s: float = spec["start_ps"] / PS
        stop_ps: int | None = spec["stop_ps"]
        self.stop_s: float = min(duration_ps if stop_ps is None else stop_ps, duration_ps) / PS

    @property
    def cc(self) -> str:
        """Name of its congestion control."""
        return str(self.tcp.get("cc", ""))

    @property
    def bytes(self) -> int:
        """Size of a transfer; 0 if it runs until it is stopped."""
        return int(self.app.get("bytes", 0))

    def param(self, key: str) -> float:
        """A parameter of its application, or the default."""
        param = registry.card("apps", self.kind).param(key)
        return float(self.app.get(key, param.default if param is not None and param.default is not None else 0))

    @property
    def packet_bytes(self) -> int:
        """IP length of the packets of an application over UDP, or of a ping."""
        return int(self.param("packet_bytes"))

    @property
    def interval_s(self) -> float:
        """Time between its packets."""
        if self.kind == "udp-cbr":
            return 8 * self.packet_bytes / self.param("rate")
        # Parameters are in milliseconds.
        return self.param("interval") / 1e3


def by_row(queue: Mapping[str, Any]) -> dict[str, Any]:
    """A queue's parameters, without defaults that every target has: headers not counted, averages that decay."""
    params = registry.in_units(queue["discipline"], queue["params"])
    return {key: value for key, value in params.items() if (key, value) not in (("header", 0), ("idle_decay", True))}


def token_bucket(params: dict[str, Any], link_bps: int) -> tuple[int, int, int]:
    """Rate, burst and limit of a token bucket in bit/s and bytes; removes them from its parameters."""
    rate = int(params.pop("rate", link_bps))
    # The card's defaults: a burst of 4 ms, and a queue of 50 ms more.
    burst = int(params.pop("burst", max(rate // 2000, 3000)))
    return rate, burst, int(params.pop("limit_bytes", burst + rate // 160))


def next_hops(source: Source, target: str) -> dict[str, dict[str, str]]:
    """The next hop from each node to each other node; flows' own routes that differ are left out."""
    beside: dict[str, list[str]] = {node: [] for node in source.nodes}
    for index, link in enumerate(source.links):
        if link["to"] in beside[link["from"]]:
            fix = "Leave one, or give each a node between"
            source.refuse(source.place(index, "to"), link["to"], f"{target} gets one link between two nodes", fix)
        beside[link["from"]].append(link["to"])
    hops: dict[str, dict[str, str]] = {node: {} for node in source.nodes}
    for origin in source.nodes:
        reached, ahead = {origin}, [(each, each) for each in beside[origin]]
        while ahead:
            node, first = ahead.pop(0)
            if node not in reached:
                reached.add(node)
                hops[origin][node] = first
                ahead += [(each, first) for each in beside[node]]
    ends = {link["name"]: (link["from"], link["to"]) for link in source.links}
    for index, flow in enumerate(source.resolved["flows"]):
        for key, to in (("route", flow["to"]), ("back_route", flow["from"])):
            if any(hops[ends[name][0]].get(to) != ends[name][1] for name in flow[key]):
                source.leave(
                    f"flow[{index}].{key}", flow[key], f"{target} routes by the fewest hops", "So it goes there"
                )
    return hops


def pairs(links: list[dict[str, Any]]) -> list[tuple[int, int | None]]:
    """Each link by number, with the link in the opposite direction, if there is one."""
    numbers = {(link["from"], link["to"]): index for index, link in enumerate(links)}
    backs = [numbers.get((link["to"], link["from"])) for link in links]
    return [(index, back) for index, back in enumerate(backs) if back is None or back > index]


def plain(value: float) -> str:
    """A number without superfluous digits."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def comment_lines(left_out: list[Problem], mark: str) -> str:
    """The list of what is left out, as comments in the target's language."""
    if not left_out:
        return f"{mark} Everything in the scenario is taken over.\n"
    return f"{mark} Not taken over, or not exactly:\n" + "".join(f"{mark}   {each}\n" for each in left_out)


def filled(template: str, **values: str) -> str:
    """A template of this folder with its `@key@` placeholders replaced."""
    text = files(__package__).joinpath(template).read_text(encoding="utf-8")
    return re.sub(r"@([a-z_]+)@", lambda mark: values[mark[1]], text)
