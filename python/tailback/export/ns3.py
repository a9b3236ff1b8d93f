"""Exports a scenario as a C++ program for ns-3.44 that writes the columns of a result's summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tailback.export.common import (
    ECHOES,
    PS,
    SENDERS,
    Export,
    Flow,
    Source,
    by_row,
    comment_lines,
    filled,
    next_hops,
    pairs,
    plain,
    token_bucket,
)
from tailback.scenario import Scenario

#: ns-3's class for each congestion control.
ALGORITHMS = {
    "reno": "TcpLinuxReno", "cubic": "TcpCubic", "bic": "TcpBic", "htcp": "TcpHtcp", "highspeed": "TcpHighSpeed",
    "scalable": "TcpScalable", "vegas": "TcpVegas", "veno": "TcpVeno", "westwood": "TcpWestwoodPlus",
    "hybla": "TcpHybla", "illinois": "TcpIllinois", "yeah": "TcpYeah", "dctcp": "TcpDctcp", "ledbat": "TcpLedbat",
    "bbr": "TcpBbr",
}  # fmt: skip

#: Queue discs: parameter, attribute, format of its value, and tailback's default if ns-3's differs.
_MS, _PLAIN = "{:g}ms", "{:g}"
DISCS: dict[str, tuple[str, tuple[tuple[str, str, str, Any], ...]]] = {
    "codel": ("CoDelQueueDisc", (
        ("target", "Target", _MS, 5), ("interval", "Interval", _MS, 100), ("mtu", "MinBytes", _PLAIN, 1500),
        ("ecn", "UseEcn", "{}", False), ("ce_threshold", "CeThreshold", _MS, None))),
    "fq_codel": ("FqCoDelQueueDisc", (
        ("target", "Target", _MS, 5), ("interval", "Interval", _MS, 100), ("flows", "Flows", _PLAIN, 1024),
        ("drop_batch", "DropBatchSize", _PLAIN, 64), ("ecn", "UseEcn", "{}", True),
        ("ce_threshold", "CeThreshold", _MS, None))),
    "pie": ("PieQueueDisc", (
        ("target", "QueueDelayReference", _MS, 15), ("t_update", "Tupdate", _MS, 15),
        ("alpha", "A", _PLAIN, 0.125),
        ("beta", "B", _PLAIN, 1.25), ("max_burst", "MaxBurstAllowance", _MS, 150), ("ecn", "UseEcn", "{}", False))),
    "red": ("RedQueueDisc", (
        ("min", "MinTh", _PLAIN, 5), ("max", "MaxTh", _PLAIN, None), ("weight", "QW", _PLAIN, 0.002),
        ("gentle", "Gentle", "{}", True), ("mean_packet", "MeanPktSize", _PLAIN, 500), ("ecn", "UseEcn", "{}", False),
        ("harddrop", "UseHardDrop", "{}", False), ("adaptive", "ARED", "{}", None))),
}  # fmt: skip

#: Rate that no link reaches, since every link in ns-3 has a rate.
ENDLESS_RATE, ENDLESS_QUEUE = "100Gbps", "1000000p"
#: IP bytes of a full packet, to convert limits between bytes and packets.
PACKET = 1500
#: Default limit of tailback's queues.
LIMITS = {"codel": "1000p", "fq_codel": "10240p", "pie": "1000p"}

FLOW_COLUMNS = (
    "flow", "app", "cc", "stack", "goodput_mbps", "packets_sent", "loss", "retransmitted", "timeouts", "rtt_min_ms",
    "srtt_ms",
)  # fmt: skip
LINK_COLUMNS = (
    "link", "rate_mbps", "utilisation", "delivered", "dropped", "marked", "backlog_mean_bytes", "backlog_max_bytes",
)  # fmt: skip


def export(scenario: Scenario) -> Export:
    """The program, and what it does not express."""
    source = Source(scenario)
    source.common("ns-3")
    writer = _Writer(source)
    network = writer.network()
    flows = [line for flow in source.flows("ns-3") for line in writer.flow(flow)]
    text = filled(
        "ns3.cc.txt",
        name=source.name,
        seconds=plain(source.duration_s),
        seed=str(source.resolved["seed"] % 2**32 or 1),
        left_out=comment_lines(source.left_out, "//"),
        flow_columns=",".join(FLOW_COLUMNS),
        link_columns=",".join(LINK_COLUMNS),
        nodes=str(len(source.nodes)),
        network=_indented(network),
        flows=_indented(flows),
        changes=_indented(writer.changes),
    )
    return Export("ns3", text, tuple(source.left_out), f"{source.name}-ns3.cc")


class _Writer:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.changes: list[str] = []

    def node(self, name: str) -> str:
        return f"nodes.Get({self.source.nodes.index(name)})"

    # -- the network

    def network(self) -> list[str]:
        next_hops(self.source, "ns-3")
        out = [f"// Node {number}: {name}" for number, name in enumerate(self.source.nodes)]
        watched = []
        for number, (index, back) in enumerate(pairs(self.source.links)):
            link = self.source.links[index]
            other = self.source.links[back] if back is not None else {**link, "rate_bps": None, "queue": None}
            delay = (link["delay_ps"] + other["delay_ps"]) // 2
            if link["delay_ps"] != other["delay_ps"]:
                value = f"{link['delay_ps'] / 1e9:g}ms"
                why = "a channel of ns-3 has one delay for both ways"
                self.source.leave(
                    self.source.place(index, "delay"), value, why, "Each way takes half of the round trip"
                )
            ends = f"NodeContainer({self.node(link['from'])}, {self.node(link['to'])})"
            pair = f"pair{number}"
            out += ["", f"// {link['from']} to {link['to']}: {link['name']}"]
            out.append(f'cable.SetChannelAttribute("Delay", StringValue("{delay}ps"));')
            out.append(f"auto {pair} = cable.Install({ends});")
            for end, (which, at) in enumerate(((link, index), (other, back))):
                rate = ENDLESS_RATE if which["rate_bps"] is None else f"{which['rate_bps']}bps"
                device = f"{pair}.Get({end})"
                out.append(f'{device}->SetAttribute("DataRate", StringValue("{rate}"));')
                out += self.queue(device, at, which)
                if at is not None:
                    self.framing(at, which)
                    out += self.wire(f"{pair}.Get({1 - end})", at, which)
                    bps = "NONE" if which["rate_bps"] is None else f"{which['rate_bps']}"
                    watched.append(f"Watch({json.dumps(which['name'])}, {bps}, {device});")
                    self.schedule(device, at, which)
            out += [f"addresses.Assign({pair});", "addresses.NewNetwork();"]
        return [*out, "", *watched]

    def framing(self, index: int, link: Mapping[str, Any]) -> None:
        """Record that framing is left out: ns-3's devices count only the packet's bytes."""
        for key, value in link.get("framing", {}).items():
            if value not in (0, "ethernet"):
                why = "a device of ns-3 sends IP bytes and two of PPP"
                self.source.leave(self.source.place(index, key), value, why, "Packets take the time of those")

    def wire(self, receiver: str, index: int, link: Mapping[str, Any]) -> list[str]:
        wire, place = link["wire"], self.source.place(index, "wire")
        for key, value in wire.items():
            if value and key != "loss":
                span = value["jitter_ps"] if key == "netem_jitter" else value
                shown = f"{span / 1e9:g}ms" if key.endswith(("_ps", "_jitter")) else value
                self.source.leave(
                    f"{place}.{key.removesuffix('_ps')}", shown, "ns-3's links have no such thing", "Nothing"
                )
        if not wire["loss"]:
            return []
        name = receiver.replace(".Get(", "_").rstrip(")")
        return [
            f"auto loss_{name} = CreateObject<RateErrorModel>();",
            f"loss_{name}->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);",
            f"loss_{name}->SetRate({wire['loss']:g});",
            f'{receiver}->SetAttribute("ReceiveErrorModel", PointerValue(loss_{name}));',
        ]

    def schedule(self, device: str, index: int, link: Mapping[str, Any]) -> None:
        for number, step in enumerate(link.get("schedule", ())):
            place = self.source.place(index, "schedule") + f"[{number}]"
            at = f"Simulator::Schedule(Seconds({plain(step['at_ps'] / PS)}), [device = {device}] {{"
            rate = step["rate_bps"]
            if rate == 0:
                self.source.leave(f"{place}.rate", 0, "a device of ns-3 has a rate above zero", "It goes on at 8 bit/s")
            if rate is not None:
                self.changes.append(f'{at} device->SetAttribute("DataRate", StringValue("{max(rate, 8)}bps")); }});')
            if step["delay_ps"] is not None:
                value = f"{step['delay_ps'] / 1e9:g}ms"
                self.source.leave(
                    f"{place}.delay", value, "a channel of ns-3 has one delay for both ways", "Both change"
                )
                change = f'device->GetChannel()->SetAttribute("Delay", StringValue("{step["delay_ps"]}ps"));'
                self.changes.append(f"{at} {change} }});")

    def queue(self, device: str, index: int | None, link: Mapping[str, Any]) -> list[str]:
        if index is None or link["rate_bps"] is None:
            return _root(device, "FifoQueueDisc", [("MaxSize", ENDLESS_QUEUE)])
        queue = link["queue"]
        kind, attributes = self.disc(index, queue, link)
        inner = queue.get("inner")
        if kind != "TbfQueueDisc":
            return _root(device, kind, attributes)
        limit = token_bucket(by_row(queue), link["rate_bps"])[2]
        below = self.disc(index, inner, link) if inner else ("FifoQueueDisc", [("MaxSize", f"{limit}B")])
        return [
            "{",
            "    TrafficControlHelper control;",
            f'    const uint16_t root = control.SetRootQueueDisc("ns3::{kind}"{_arguments(attributes)});',
            '    auto classes = control.AddQueueDiscClasses(root, 1, "ns3::QueueDiscClass");',
            f'    control.AddChildQueueDisc(root, classes[0], "ns3::{below[0]}"{_arguments(below[1])});',
            f"    control.Install({device});",
            "}",
        ]

    def disc(self, index: int, queue: Mapping[str, Any], link: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
        kind, params = queue["discipline"], by_row(queue)
        place = self.source.place(index, "queue")
        size = _size(params, LIMITS.get(kind))
        if "limit_bytes" in params and "limit_packets" in params:
            value = params["limit_packets"]
            self.source.leave(f"{place}.limit_packets", value, "a queue of ns-3 has one limit", "That in bytes holds")
        bucket = token_bucket(params, link["rate_bps"]) if kind == "token_bucket" else None
        params = {key: value for key, value in params.items() if key not in ("limit_bytes", "limit_packets")}
        if kind == "fifo":
            name, attributes = "FifoQueueDisc", [("MaxSize", size)]
        elif bucket is not None:
            name = "TbfQueueDisc"
            attributes = [("Rate", f"{bucket[0]}bps"), ("Burst", str(bucket[1])), ("MaxSize", ENDLESS_QUEUE)]
        elif kind in DISCS:
            name, table = DISCS[kind]
            attributes = self.attributes(kind, params, table, size, link, place)
        else:
            known = ", ".join(["fifo", *DISCS, "token_bucket"])
            self.source.refuse(f"{place}.discipline", kind, "ns-3.44 has no such queue disc", f"Choose one of {known}")
        for key, value in params.items():
            self.source.leave(f"{place}.{key}", value, f"{name} has no attribute for it", "ns-3's own way holds")
        return name, attributes

    def attributes(
        self, kind: str, params: dict[str, Any], table: Any, size: str, link: Mapping[str, Any], place: str
    ) -> list[tuple[str, str]]:
        variant = params.pop("variant", None)
        own = variant == "ns-3.27"
        out = []
        if kind == "red":
            in_bytes = params.pop("unit", "packets") == "bytes" or variant == "linux"
            if in_bytes:
                params.setdefault("min", 5 * params.get("mean_packet", 500))
            params.setdefault("max", 3 * params.get("min", 5))
            if variant == "linux":
                params.setdefault("gentle", False)
            # Its thresholds count in the unit of its limit.
            number, unit = int(size[:-1]), size[-1]
            if unit != ("B" if in_bytes else "p"):
                size = f"{PACKET * number}B" if in_bytes else f"{max(1, number // PACKET)}p"
                if f"{number}{unit}" != ENDLESS_QUEUE:
                    why = "RedQueueDisc counts its limit in the unit of its thresholds"
                    key = "limit_packets" if in_bytes else "limit_bytes"
                    self.source.leave(f"{place}.{key}", number, why, f"It is {size}, of full packets")
            out += [("LinkBandwidth", f"{link['rate_bps']}bps"), ("LinkDelay", f"{link['delay_ps']}ps")]
            out.append(("LInterm", f"{1 / params.pop('max_p', 0.1):g}"))
            if variant == "adaptive":
                params.setdefault("adaptive", True)
        for key, attribute, form, default in table:
            value = params.pop(key, None if own else default)
            if value is not None:
                out.append((attribute, str(value).lower() if isinstance(value, bool) else form.format(value)))
        return [*out, ("MaxSize", size)]

    # -- the flows

    def flow(self, flow: Flow) -> list[str]:
        stack = flow.tcp.get("stack", "")
        out = ["{"]
        words = ", ".join(json.dumps(each) for each in (flow.name, flow.kind, flow.cc, "ns3-3.44" if stack else ""))
        port = 5201 + flow.index
        out.append(f"    Flow& flow = Add({words}, {port}, {plain(flow.start_s)}, {plain(flow.stop_s)});")
        ends = f"flow, {self.node(flow.sender)}, {self.node(flow.receiver)}"
        if flow.kind in SENDERS:
            out.append(f"    Transfer<{self.algorithm(flow)}>({ends}, {self.tcp(flow)});")
        else:
            what = "Echoes" if flow.kind in ECHOES else "Datagrams"
            out.append(f"    {what}({ends}, {flow.packet_bytes}, {plain(flow.interval_s)});")
        return [*out, "}"]

    def algorithm(self, flow: Flow) -> str:
        if flow.cc not in ALGORITHMS:
            fix = f"Choose one of {', '.join(ALGORITHMS)}"
            self.source.refuse(f"{flow.at}.cc", flow.cc, "ns-3.44 has no such congestion control", fix)
        return ALGORITHMS[flow.cc]

    def tcp(self, flow: Flow) -> str:
        tcp = flow.tcp
        for key in ("stack", "receiver_stack"):
            if tcp[key] not in (None, "ns3-3.44"):
                why = "both ends are ns-3's TCP"
                instead = 'It begins with ten segments, as Linux does; the simulator has it as stack "ns3-3.44"'
                self.source.leave(f"{flow.at}.{key}", tcp[key], why, instead)
        for key, value in tcp["stack_params"].items():
            if key != "ecn" or not isinstance(value, bool):
                self.source.leave(f"{flow.at}.stack.{key}", value, "not set in ns-3's TCP", "It has its own way")
        ecn = tcp["stack_params"].get("ecn") is True or flow.cc == "dctcp"
        # 20 bytes of IP, 20 of TCP, 12 of timestamps.
        numbers = (flow.bytes, tcp["mtu"] - 52, tcp["send_buffer"] or 0, tcp["receive_buffer"] or 0)
        return f"{', '.join(map(str, numbers))}, {'true' if ecn else 'false'}"


def _size(params: Mapping[str, Any], default: str | None = None) -> str:
    if "limit_bytes" in params:
        return f"{params['limit_bytes']}B"
    return f"{params['limit_packets']}p" if "limit_packets" in params else default or ENDLESS_QUEUE


def _arguments(attributes: list[tuple[str, str]]) -> str:
    return "".join(f', "{name}", StringValue("{value}")' for name, value in attributes)


def _root(device: str, kind: str, attributes: list[tuple[str, str]]) -> list[str]:
    return [
        "{",
        "    TrafficControlHelper control;",
        f'    control.SetRootQueueDisc("ns3::{kind}"{_arguments(attributes)});',
        f"    control.Install({device});",
        "}",
    ]


def _indented(lines: list[str]) -> str:
    return "\n".join(f"    {line}" if line else "" for line in lines)
