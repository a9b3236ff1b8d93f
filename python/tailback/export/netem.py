"""Exports a scenario as a shell script: network namespaces, tc's queue disciplines, iperf3 and ping.

Each node is a namespace, with two routers between two nodes. In the forward direction the near router has the queue and
the rate, the far one the delay and the losses; in the reverse direction the roles are swapped. Hosts cannot do this
themselves: TCP small queues limit a socket to about two packets in its own host's queues, so that a bottleneck's queue
would never fill.
"""

from __future__ import annotations

import re
import shlex
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

#: What `tcp_available_congestion_control` may list of ours, with modules loaded.
KERNEL = (
    "reno", "cubic", "bic", "htcp", "highspeed", "scalable", "vegas", "veno", "westwood", "hybla", "illinois", "yeah",
    "dctcp", "cdg", "bbr",
)  # fmt: skip

#: tc's word for each parameter, and how to format the value.
_MS, _PLAIN, _BYTES = "{:g}ms", "{:g}", "{:.0f}"
WORDS: dict[str, dict[str, tuple[str, str]]] = {
    "codel": {
        "limit_packets": ("limit", _PLAIN), "target": ("target", _MS), "interval": ("interval", _MS),
        "ce_threshold": ("ce_threshold", _MS),
    },
    "fq_codel": {
        "limit_packets": ("limit", _PLAIN), "flows": ("flows", _PLAIN), "quantum": ("quantum", _PLAIN),
        "memory_limit": ("memory_limit", _BYTES), "drop_batch": ("drop_batch", _PLAIN), "target": ("target", _MS),
        "interval": ("interval", _MS), "ce_threshold": ("ce_threshold", _MS),
    },
    "pie": {"limit_packets": ("limit", _PLAIN), "target": ("target", _MS), "t_update": ("tupdate", _MS)},
    "fq_pie": {
        "limit_packets": ("limit", _PLAIN), "flows": ("flows", _PLAIN), "quantum": ("quantum", _PLAIN),
        "memory_limit": ("memory_limit", _BYTES), "target": ("target", _MS), "t_update": ("tupdate", _MS),
    },
    "fq": {
        "limit_packets": ("limit", _PLAIN), "flow_limit": ("flow_limit", _PLAIN), "flows": ("buckets", _PLAIN),
        "quantum": ("quantum", _PLAIN), "initial_quantum": ("initial_quantum", _PLAIN),
        "maxrate": ("maxrate", "{:.0f}bit"),
    },
    # The limit of each band is the device's txqueuelen.
    "pfifo_fast": {},
    "prio": {},
    "dualpi2": {
        "limit_packets": ("limit", _PLAIN), "target": ("target", _MS), "t_update": ("tupdate", _MS),
        "alpha": ("alpha", _PLAIN), "beta": ("beta", _PLAIN), "coupling": ("coupling_factor", _PLAIN),
        "step": ("step_thresh", _MS), "c_share": ("classic_protection", _PLAIN),
    },
    "cake": {
        "rate": ("bandwidth", "{:.0f}bit"), "overhead": ("overhead", _PLAIN), "mpu": ("mpu", _PLAIN),
        "rtt": ("rtt", _MS), "memory_limit": ("memlimit", _BYTES),
    },
    "sfq": {
        "limit_packets": ("limit", _PLAIN), "depth": ("depth", _PLAIN), "flows": ("divisor", _PLAIN),
        "active_flows": ("flows", _PLAIN), "quantum": ("quantum", _PLAIN),
    },
}  # fmt: skip

#: Queues that the script has words of tc for: these need more than a word a parameter, the others stand above.
DISCIPLINES = ("fifo", "token_bucket", "red", "choke", *WORDS)

#: A wire's keys that `_Writer.wire` reads, and those that say more of another.
_OF_WIRE = {
    "loss", "loss_every", "corrupt", "duplicate", "reorder", "reorder_delay_ps", "reorder_packets", "jitter_ps",
    "bit_error", "burst_start", "burst_end", "burst_loss", "gap_loss", "bleach", "bleach_before_queue", "netem_jitter",
    "ack_hold_ps", "ack_every",
}  # fmt: skip

#: Stack fields for which the kernel has a sysctl.
SYSCTLS = {"ecn": "net.ipv4.tcp_ecn", "sack": "net.ipv4.tcp_sack", "timestamps": "net.ipv4.tcp_timestamps"}

#: Limit that no queue reaches, since tc has no unlimited queue.
ENDLESS = 1_000_000_000
#: Bytes of the Ethernet header, which tc counts and a scenario does not.
FRAME = 14
#: IP bytes of a full packet.
PACKET = 1500


def export(scenario: Scenario) -> Export:
    """The script, and what it does not express."""
    source = Source(scenario)
    source.common("netem")
    writer = _Writer(source)
    flows = source.flows("netem")
    network = writer.network()
    writer.flows(flows)
    settings = ["", "# What the scenario says of the TCPs.", *writer.settings] if writer.settings else []
    text = filled(
        "netem.sh.txt",
        name=source.name,
        seconds=plain(source.duration_s),
        left_out=comment_lines(source.left_out, "#"),
        programs=" ".join(sorted(writer.programs)),
        modules=" ".join([f"sch_{name}" for name in sorted(writer.qdiscs)] + [f"tcp_{cc}" for cc in writer.algorithms]),
        algorithms=" ".join(writer.algorithms),
        network="\n".join(network + settings),
        receivers="\n".join(writer.receivers),
        changes="\n".join(writer.changes),
        senders="\n".join(writer.senders),
        routers=" ".join(writer.routers),
    )
    return Export("netem", text, tuple(source.left_out), f"{source.name}-netem.sh")


class _Writer:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.hops = next_hops(source, "netem")
        self.names: dict[str, str] = {}
        for node in source.nodes:
            short = re.sub(r"[^A-Za-z0-9_-]", "-", node)
            self.names[node] = short if short not in self.names.values() else f"{short}-{len(self.names)}"
        self.qdiscs = {"tbf"}
        self.algorithms: list[str] = []
        self.programs = {"iperf3"}
        self.routers: list[str] = []
        #: Lines of the script, by placeholder of the template.
        self.receivers: list[str] = []
        self.senders: list[str] = []
        self.settings: list[str] = []
        self.changes: list[str] = []

    def address(self, node: str) -> str:
        number = self.source.nodes.index(node)
        return f"10.255.{number // 250}.{number % 250 + 1}"

    # -- the network

    def network(self) -> list[str]:
        out = ["", "# Nodes: each has an address of its own, by which flows find it."]
        for node, short in self.names.items():
            out.append(f"host {short} {self.address(node)}")
        links = self.source.links
        # Next address and device to reach a neighbour, for nodes and for the routers between them.
        ways: dict[tuple[str, str], tuple[str, str]] = {}
        middles: list[tuple[str, str, str, str, str, str]] = []
        queues: list[str] = []
        for number, (index, back) in enumerate(pairs(links)):
            link = links[index]
            a, b = link["from"], link["to"]
            near, far = f"q{number}-near", f"q{number}-far"
            self.routers += [near, far]
            first, second, third = (f"10.{number // 80}.{number % 80 * 3 + step}" for step in range(3))
            out += [
                "",
                f"# {a} to {b}: link {link['name']}" + ("" if back is None else f", back {links[back]['name']}"),
            ]
            out += [f"router {near}", f"router {far}"]
            for step, (left, right) in enumerate(((self.names[a], near), (near, far), (far, self.names[b]))):
                out.append(f"join {left} l{number}{step}a {right} l{number}{step}b {(first, second, third)[step]}")
            ways[a, b], ways[b, a] = (f"{first}.2", f"l{number}0a"), (f"{third}.1", f"l{number}2b")
            middles.append((near, far, a, b, f"{second}.2 l{number}1a", f"{first}.1 l{number}0b"))
            middles.append((far, near, b, a, f"{second}.1 l{number}1b", f"{third}.2 l{number}2a"))
            queues += self.link(index, near, f"l{number}1a", far, f"l{number}2a")
            if back is not None:
                queues += self.link(back, far, f"l{number}1b", near, f"l{number}0b")
        out += ["", "# Routes, by the fewest hops."]
        for node in self.source.nodes:
            for to, neighbour in self.hops[node].items():
                via, device = ways[node, neighbour]
                short = self.names[node]
                out.append(
                    f"in_ns {short} ip route add {self.address(to)} via {via} dev {device} src {self.address(node)}"
                )
        for here, _, a, b, ahead, behind in middles:
            for to in self.source.nodes:
                # A router has two directions: forward, if the target is on that side, or else back.
                onward = to == b or (to != a and self.hops[a].get(to) == b)
                via, device = (ahead if onward else behind).split()
                out.append(f"in_ns {here} ip route add {self.address(to)} via {via} dev {device}")
        return [*out, "", "# Queues and rates on the near routers, delays and losses on the far ones.", *queues]

    def framing(self, index: int, link: Mapping[str, Any]) -> Mapping[str, Any]:
        """Framing that tbf can count per packet beyond the IP bytes; the rest is recorded as left out."""
        given = dict(link.get("framing", {}))
        own = "Packets take the time of their IP bytes"
        if given.get("overhead", 0) < 0:
            place, overhead = self.source.place(index, "overhead"), given.pop("overhead")
            self.source.leave(place, overhead, "tbf cannot take bytes off a packet", own)
        if given.get("mpu"):
            why = "tbf knows no least size of a packet"
            self.source.leave(self.source.place(index, "mpu"), given["mpu"], why, "Small packets take their own time")
        if given.get("linklayer") == "ptm":
            instead = "The rate is 64/65 of the link's, and no packet pays for its last block in full"
            self.source.leave(self.source.place(index, "linklayer"), "ptm", "tbf knows no PTM", instead)
        return given

    def link(self, index: int, near: str, device: str, far: str, far_device: str) -> list[str]:
        link, out = self.source.links[index], []
        if link["rate_bps"] is not None:
            out.append(f"# {link['name']}: bytes are IP bytes, hence the overhead.")
            tbf = _tbf(link["rate_bps"], link["queue"], self.framing(index, link))
            out.append(f"tc_in {near} qdisc add dev {device} root handle 1: {tbf}")
            out += self.queue(near, device, index, link["queue"], "1:1", 10)
        words = self.wire(index, link)
        if words:
            self.qdiscs.add("netem")
            out.append(f"tc_in {far} qdisc add dev {far_device} root {words}")
        for number, step in enumerate(link.get("schedule", ())):
            at = plain(step["at_ps"] / PS)
            if step["rate_bps"] == 0:
                place = self.source.place(index, "schedule") + f"[{number}].rate"
                self.source.leave(place, 0, "tbf has no rate of zero", "The link goes on at 8 bit/s")
            if step["rate_bps"] is not None:
                rate = max(int(step["rate_bps"]), 8)
                # A change must repeat the stab, or it is dropped.
                tbf = _tbf(rate, link["queue"], self.framing(index, link))
                self.changes.append(f"later {at} {near} tc qdisc change dev {device} root handle 1: {tbf}")
            if step["delay_ps"] is not None:
                words = self.wire(index, {**link, "delay_ps": step["delay_ps"]}) or "netem delay 0"
                verb = "change" if self.wire(index, link) else "add"
                self.qdiscs.add("netem")
                self.changes.append(f"later {at} {far} tc qdisc {verb} dev {far_device} root {words}")
        return out

    def wire(self, index: int, link: Mapping[str, Any]) -> str:
        wire, words = link["wire"], []
        delay, jitter = link["delay_ps"], wire["jitter_ps"]
        place = self.source.place(index, "wire")
        if delay or jitter:
            words.append(f"delay {_us(delay + jitter // 2)}")
        if jitter:
            words.append(_us(jitter // 2))
            value = f"{jitter / 1e9:g}ms"
            self.source.leave(
                f"{place}.jitter", value, "netem lets packets overtake each other", "Some arrive reordered"
            )
        if drawn := wire.get("netem_jitter"):
            words += [] if delay else ["delay 0us"]
            words.append(_us(drawn["jitter_ps"]))
            if drawn["correlation"]:
                words.append(f"{drawn['correlation']:.7%}")
            if drawn["distribution"] != "uniform":
                words.append(f"distribution {drawn['distribution']}")
        for key in ("bleach", "ack_hold"):
            if value := wire.get(key) or wire.get(f"{key}_ps"):
                shown = value if key == "bleach" else f"{value / 1e9:g}ms"
                self.source.leave(f"{place}.{key}", shown, "netem has no word for it", "Packets go on as they come")
        burst = [wire.get(key, 0.0) for key in ("burst_start", "burst_end", "burst_loss", "gap_loss")]
        if any(burst):
            start, end, in_burst, in_gap = burst
            words.append(f"loss gemodel {start:.7%} {end:.7%} {1 - in_burst:.7%} {in_gap:.7%}")
            if wire["loss"]:
                self.source.leave(
                    f"{place}.loss", wire["loss"], "netem has one law of loss", "That of the bursts holds"
                )
        elif wire["loss"]:
            words.append(f"loss {wire['loss']:.7%}")
        if wire.get("loss_every"):
            why = "netem loses packets at random only"
            self.source.leave(f"{place}.loss_every", wire["loss_every"], why, "Write a loss in its place")
        if wire.get("corrupt"):
            words.append(f"corrupt {wire['corrupt']:.7%}")
        if wire["duplicate"]:
            words.append(f"duplicate {wire['duplicate']:.7%}")
        if wire["reorder"]:
            why = "netem's reorder sends a packet at once instead of holding it back"
            self.source.leave(f"{place}.reorder", wire["reorder"], why, "Nothing is reordered")
        if wire.get("bit_error"):
            why = "netem damages packets and delivers them"
            self.source.leave(f"{place}.bit_error", wire["bit_error"], why, "Write a loss in its place")
        for key, value in wire.items():
            if value and key not in _OF_WIRE:
                why = "this script does not know it"
                self.source.leave(f"{place}.{key.removesuffix('_ps')}", value, why, "Packets go on as they come")
        return f"netem limit 1000000 {' '.join(words)}" if words else ""

    def queue(
        self, near: str, device: str, index: int, queue: Mapping[str, Any], parent: str, handle: int
    ) -> list[str]:
        kind, params = queue["discipline"], by_row(queue)
        inner = queue.get("inner")
        if kind == "drr" or queue.get("bands"):
            why = "its classes need filters, which this script does not write"
            place = f"{self.source.place(index, 'queue')}.discipline"
            self.source.refuse(place, kind, why, "Choose another, such as prio without bands or fq_codel")
        words = self.discipline(index, kind, params, self.source.links[index]["rate_bps"])
        self.qdiscs.add(words.split()[0])
        out = [f"tc_in {near} qdisc add dev {device} parent {parent} handle {handle}: {words}"]
        if inner is not None:
            out += self.queue(near, device, index, inner, f"{handle}:1", handle + 10)
        return out

    def discipline(self, index: int, kind: str, params: dict[str, Any], rate_bps: int) -> str:
        place = self.source.place(index, "queue")

        def left(key: str, why: str = "tc has no word for it", instead: str = "tc's default holds") -> None:
            value = params.pop(key)
            self.source.leave(f"{place}.{key}", value, why, instead)

        variant = params.pop("variant", None)
        if variant == "ns-3.27":
            self.source.leave(f"{place}.variant", variant, "a kernel has its own", "It is Linux's")
        words: list[str] = [kind]
        if kind == "fifo":
            in_packets = "limit_bytes" not in params and "limit_packets" in params
            head = params.pop("drop", "tail") == "head"
            if head and not in_packets:
                self.source.leave(
                    f"{place}.drop", "head", "only a queue in packets drops at its head", "It drops at its tail"
                )
            words = ["pfifo_head_drop" if head and in_packets else "pfifo" if in_packets else "bfifo"]
            limit = params.pop("limit_packets" if in_packets else "limit_bytes", ENDLESS)
            words += ["limit", str(limit)]
            if "limit_packets" in params:
                left("limit_packets", "a kernel's FIFO has one limit", "That in bytes holds")
        elif kind == "token_bucket":
            rate, burst, limit = token_bucket(params, rate_bps)
            words = ["tbf", "rate", f"{rate}bit", "burst", str(burst), "limit", str(limit)]
        elif kind == "red":
            in_packets = params.pop("unit", "packets") == "packets" and variant != "linux"
            # tc counts bytes. A packet is a full one; thresholds in bytes have the card's packet of 500.
            mean = float(params.pop("mean_packet", PACKET if in_packets else 500))
            unit = mean if in_packets else 1.0
            low = float(params.pop("min", 5 * mean / unit)) * unit
            high = float(params.pop("max", 3 * low / unit)) * unit
            packets = params.pop("limit_packets", None)
            limit = params.pop("limit_bytes", packets * (mean if in_packets else PACKET) if packets else 20 * high)
            words += ["limit", f"{limit:.0f}", "min", f"{low:.0f}", "max", f"{max(high, low + 1):.0f}"]
            words += ["avpkt", f"{mean:.0f}", "burst", str(max(1, round((2 * low + high) / (3 * mean))))]
            words += ["probability", f"{params.pop('max_p', 0.1):g}", "bandwidth", f"{rate_bps}bit"]
            words += [key for key in ("adaptive", "harddrop") if params.pop(key, False)]
            if variant == "adaptive":
                words.append("adaptive")
        elif kind == "choke":
            low = params.pop("min", 5)
            high = params.pop("max", 3 * low)
            mean = params.pop("mean_packet", 1000)
            words += ["limit", str(params.pop("limit_packets", 4 * high)), "min", str(low), "max", str(high)]
            words += ["avpkt", f"{mean:.0f}", "burst", str(max(1, round((2 * low + high) / 3)))]
            words += ["probability", f"{params.pop('max_p', 0.02):g}", "bandwidth", f"{rate_bps}bit"]
        elif kind not in WORDS:
            self.source.refuse(
                f"{place}.discipline",
                kind,
                "this script has no words of tc for it",
                f"Choose one of {', '.join(DISCIPLINES)}",
            )
        else:
            if kind in ("pie", "fq_pie"):
                # The kernel counts in sixteenths.
                words += [
                    word
                    for key in ("alpha", "beta")
                    if key in params
                    for word in (key, str(max(1, round(16 * params.pop(key)))))
                ]
            if kind == "cake":
                # Choices are words of their own there.
                chosen = [params.pop(key, "none") for key in ("tins", "isolation", "framing")]
                words += [word for word in chosen if word != "none"]
                words += ["ingress"] if params.pop("ingress", False) else []
            for key, (word, form) in WORDS[kind].items():
                if key in params:
                    words += [word, form.format(params.pop(key))]
            if kind == "sfq" and params.pop("drop", "tail") == "head":
                words.append("headdrop")
        if "ecn" in params:
            ecn = params.pop("ecn")
            words += ["ecn"] if ecn else ["noecn"] if kind == "fq_codel" else []
        for key in list(params):
            left(key)
        return " ".join(words)

    # -- the flows

    def flows(self, flows: list[Flow]) -> None:
        for flow in flows:
            here, there = self.names[flow.sender], self.names[flow.receiver]
            port, address = 5201 + flow.index, self.address(flow.receiver)
            length = flow.stop_s - flow.start_s
            whole = max(1, round(length))
            if not flow.bytes and length != whole:
                self.source.leave(
                    f"{flow.at}.stop", f"{flow.stop_s:g}s", "programs run for whole seconds", "It is rounded"
                )
            if flow.kind in ECHOES:
                self.programs.add("ping")
                size = flow.packet_bytes - 28
                file = f"{flow.name}.txt"
                command = f"ping -n -i {plain(flow.interval_s)} -s {size} -w {whole} {address}"
            else:
                self.receivers.append(f"receive {there} {port}")
                file = f"{flow.name}.json"
                words = self.tcp(flow) if flow.kind in SENDERS else self.udp(flow)
                words.append(f"--bytes {flow.bytes}" if flow.bytes else f"--time {whole}")
                command = f"iperf3 --json -c {address} -p {port} {' '.join(words)}"
            self.senders.append(f"flow {plain(flow.start_s)} {here} {shlex.quote(file)} {command}")
        self.switches([flow for flow in flows if flow.kind in SENDERS])

    def switches(self, flows: list[Flow]) -> None:
        """Set each of the namespace's sysctls on which all flows there agree."""
        for key, name in SYSCTLS.items():
            for node in self.source.nodes:
                here = [flow for flow in flows if node in (flow.sender, flow.receiver)]
                given = [flow.tcp["stack_params"].get(key) for flow in here]
                if not any(isinstance(value, bool) for value in given):
                    continue
                if len(set(given)) == 1:
                    self.settings.append(f"in_ns {self.names[node]} sysctl -q -w {name}={int(given[0])}")
                    continue
                why = f"flows at {node} differ in it, and the kernel has one switch for all"
                for flow, value in zip(here, given, strict=True):
                    if value is not None:
                        self.source.leave(f"{flow.at}.stack.{key}", value, why, "Its default holds")

    def udp(self, flow: Flow) -> list[str]:
        payload = flow.packet_bytes - 28
        why = "iperf3 reports its loss and jitter, no one-way delay"
        self.source.leave(f"{flow.at}.app", flow.kind, why, "A ping beside it shows the delay")
        return [f"--udp --length {payload} --bitrate {8 * payload / flow.interval_s:.0f} --pacing-timer 1000"]

    def tcp(self, flow: Flow) -> list[str]:
        if flow.cc not in KERNEL:
            fix = f"Choose one of {', '.join(KERNEL)}"
            self.source.refuse(f"{flow.at}.cc", flow.cc, "the kernel has no such congestion control", fix)
        if flow.cc not in self.algorithms:
            self.algorithms.append(flow.cc)
        words = [f"--congestion {flow.cc}"]
        stack = flow.tcp["stack"]
        if stack != "linux":
            self.source.leave(f"{flow.at}.stack", stack, "both ends run this machine's kernel", "It is Linux's TCP")
        if flow.tcp["receiver_stack"] not in (None, "linux"):
            value = flow.tcp["receiver_stack"]
            self.source.leave(
                f"{flow.at}.receiver_stack", value, "both ends run this machine's kernel", "It is Linux's TCP"
            )
        for key, value in flow.tcp["stack_params"].items():
            if key not in SYSCTLS or not isinstance(value, bool):
                self.source.leave(f"{flow.at}.stack.{key}", value, "no switch of a kernel", "It has its own way")
        if flow.tcp["mtu"] != 1500:
            words.append(f"--set-mss {flow.tcp['mtu'] - 40}")
        send, receive = flow.tcp["send_buffer"], flow.tcp["receive_buffer"]
        if send and send == receive:
            words.append(f"--window {send}")
        else:
            for key, value in (("send_buffer", send), ("receive_buffer", receive)):
                if value:
                    why = "iperf3 sets both buffers alike"
                    self.source.leave(f"{flow.at}.{key}", value, why, "The kernel sizes them; let both be equal")
        return words


def _us(value_ps: int) -> str:
    return f"{value_ps / 1e6:g}us"


def tbf_burst(rate_bps: int) -> int:
    """Bytes that the shaper lets through at once: of one millisecond, so that a late timer does not reduce the rate.

    At least two packets.
    """
    return max(2 * 1514, rate_bps // 8000)


def _tbf(rate_bps: int, queue: Mapping[str, Any], framing: Mapping[str, Any]) -> str:
    """The shaper. A change of tbf resets its FIFO's limit to its own, so it gets the FIFO's limit."""
    params = queue["params"] if queue["discipline"] == "fifo" else {}
    limit = params.get("limit_bytes", params.get("limit_packets", ENDLESS))
    burst = tbf_burst(rate_bps)
    if framing.get("linklayer") == "ptm":
        rate_bps = rate_bps * 64 // 65
    # The shaper alone counts these: the queue in it sees IP bytes.
    counted = f" overhead {framing['overhead']}" if framing.get("overhead") else ""
    counted += " linklayer atm" if framing.get("linklayer") == "atm" else ""
    return f"stab overhead -{FRAME} linklayer ethernet tbf rate {rate_bps}bit{counted} burst {burst} limit {limit}"
