"""The paper's five networks as cells: transfers in turn, captures, pairs beside CUBIC, calls, and idle pings.

A cell is one kind of measurement on one network. Transfers of CUBIC, Veno, Westwood and Hybla take turns on it, as
the paper interleaved them; its days between runs are seconds here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tailback as tb
from tailback.experiment import ABLATION, Cell

ALGORITHMS = ("cubic", "veno", "westwood", "hybla")
"""In the order in which they take turns."""
RIVALS = ALGORITHMS[1:]
TITLES = {
    "cubic": "CUBIC", "veno": "Veno", "westwood": "Westwood", "hybla": "Hybla",
    "university": "university, wired", "eduroam": "Eduroam WiFi", "adsl": "ADSL, wired", "adsl-wifi": "ADSL WiFi",
    "3g": "3G",
}  # fmt: skip

CC: dict[str, Any] = {
    # Linux 3.2: HyStart with the threshold and the samples it had from 2.6.39 to 3.18.
    "cubic": {"name": "cubic", "hystart": "hystart-old"},
    "veno": {"name": "veno"},
    "westwood": {"name": "westwood"},
    "hybla": {"name": "hybla"},
}
STACK: dict[str, Any] = {
    "name": "linux-3.2",
    # On by default: each of the four servers remembers ssthresh and RTT of its last transfer to this receiver.
    "metrics_cache": "linux-2.6",
}
"""Senders ran 3.2.0-29; the receiver's 3.8 differs in nothing that the receiving side of the model has."""

RUNS, QUICK_RUNS, ABLATION_RUNS = 60, 10, 20
PAIR_RUNS, CALL_RUNS = 30, 30
"""The paper states no number for these."""
CAPTURES, QUICK_CAPTURES = 3, 1
"""Transfers of each algorithm that are captured for their RTTs: “representative samples”."""
SMALL, LARGE = 1, 20
"""MB of a transfer; 10⁶ bytes."""
CUT = 0.1
"""Share of the slowest runs that the paper leaves out."""
CALLS, CALL_BYTES = 5, 200
"""G.711 with 20 ms of sound: 160 bytes, RTP, UDP and IPv4 headers."""
CALL_JITTER = "1300us"
"""How much later than due iperf's process may send, uniformly; fitted to CUBIC's jitter in Table I."""
PING = "ping"
ORDER_GAP_S = 0.15
"""By how much the flow started first is ahead: a script's next line, and more than a start strays."""
START_SPREAD, JITTER = "100ms", "20us"


@dataclass(frozen=True)
class Network:
    """A network of the paper and how long things take there."""

    name: str
    preset: str
    figure: int
    #: Slot of a transfer, by its size in MB: it is over well before its end, or given up.
    seconds: dict[int, float]
    #: Slot of two transfers side by side.
    pair_s: float
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes that were transferred here, in MB."""
        return tuple(self.seconds)

    @property
    def pair_mb(self) -> int:
        """Size of the transfers that competed."""
        return max(self.sizes)


PORT_QUEUE = "64packets"
"""Of the switch in front of the receiver; fitted to who is fastest and slowest in Figure 3."""
AP_QUEUE = "64packets"
"""Of the access point for one station; chosen as that of the switch."""
SESSIONS = 20.0
"""Web sessions a second on the backbone, a thirtieth of the preset's: they cost most of the time and fill no queue."""

ADSL = {"buffer": "60kB", "line_loss": 2.2e-4}
"""The home's line: noise that destroys two packets in ten thousand, and the queue before it; fitted to who is fastest
in Figure 5."""
HIDDEN = {"rate": 36.0, "hidden": 0.22, "station_sessions": 4.0, "station_buffer": "1000packets"}
"""Eduroam where a station's tries fail as often as Rodrig et al. found (the paper's reference 6: 28 %, with collisions)
and its interface has Linux' txqueuelen; 36 Mbit/s, as more than that of the air is lost."""

NETWORKS = {
    network.name: network
    for network in (
        Network(
            "university", "university", 3, {SMALL: 3.0, LARGE: 12.0}, 22.0,
            {"port": "100mbit", "port_queue": PORT_QUEUE, "sessions": SESSIONS},
        ),
        Network(
            "eduroam", "eduroam", 4, {SMALL: 6.0, LARGE: 42.0}, 85.0,
            {"rate": 12.0, "ap_buffer": AP_QUEUE, "stations": 3, "station_sessions": 3.0, "sessions": SESSIONS},
        ),
        Network("adsl", "adsl2", 5, {SMALL: 4.0, LARGE: 26.0}, 45.0, {**ADSL}),
        Network("adsl-wifi", "adsl2-wifi", 6, {SMALL: 4.0, LARGE: 26.0}, 45.0, {**ADSL}),
        Network("3g", "3g", 7, {SMALL: 18.0}, 45.0, {"share": 0.5}),
    )
}  # fmt: skip
WIRED, WIRELESS = ("university", "adsl"), ("eduroam", "adsl-wifi", "3g")
CALL_NETWORKS = ("university", "eduroam")

FITTED = (
    (
        "university: receiver's port", "100 Mbit/s, queue of 64 packets", "order of throughput (Figure 3, left)",
        "friendliness and RTTs (Figure 3, right), Table I",
    ),
    ("calls: lateness of iperf's process", f"0 to {CALL_JITTER}", "CUBIC's jitter (Table I)", "the other three"),
    (
        "Eduroam: PHY rate, stations, their sessions", "12 Mbit/s, 3, 3 a second", "CUBIC's jitter (Table II)",
        "the other three, losses, Figure 4",
    ),
    (
        "ADSL: queue towards the home, share of packets lost on the line", "60 kB, 0.022 %",
        "who is fastest (Figure 5, left)", "the order of the others, RTTs and friendliness (Figure 5), Figure 6",
    ),
    ("3G: share of the intervals left by others", "0.5", "CUBIC's RTT (Figure 7)", "the other three, throughputs"),
    ("idle delays of the long stretch and of 3G", "53 ms and 76 ms", "ICMP's 54 and 130 ms", "–"),
)  # fmt: skip
"""Parameter, value, what it was fitted to, what it was tested on."""


def _scenario(key: str, network: Network, flows: list[tb.Flow], seconds: float, **rest: Any) -> tb.Scenario:
    """The network with the four senders in front of it, each on a host of its own, and iperf's process behind it."""
    base = tb.presets.scenario(
        network.preset,
        name=key,
        flows=[tb.flow("ping", name=PING, interval="200ms")],
        duration=f"{seconds:.0f}s",
        randomness={"start_spread": START_SPREAD, "processing_jitter": JITTER},
        **network.options | rest.pop("options", {}),
    ).expanded
    crowd = [flow for flow in base.flows if flow.name != PING]
    near: dict[str, Any] = {"rate": "10gbit", "delay": "0s"}
    # The process that sends or receives the calls wakes late; the kernel that answers TCP does not.
    late: dict[str, Any] = {"rate": "1gbit", "delay": "0s", "wire": {"jitter": CALL_JITTER}}
    links = [tb.link("process", "iperf", "right", **late), tb.link("process-back", "right", "iperf", **late)]
    for name in ALGORITHMS:
        links += [tb.link(f"host-{name}", name, "left", **near), tb.link(f"host-{name}-back", "left", name, **near)]
    instruments = base.instruments.with_(**rest["instruments"])
    return base.with_(links=[*base.links, *links], flows=[*flows, *crowd], instruments=instruments)


def flow_name(algorithm: str, megabytes: int) -> str:
    """Name of the transfers of one size with one algorithm."""
    return f"{algorithm}-{megabytes}mb"


def _transfers(
    algorithm: str, megabytes: int, slots: list[tuple[float, float]], stack: dict[str, Any], window: str | None = None
) -> tb.Flow:
    """A transfer in each slot (start and length in s), given up at its end."""
    periods = [{"start": f"{1e3 * at:.0f}ms", "stop": f"{1e3 * (at + long - 0.5):.0f}ms"} for at, long in slots]
    # One transfer a period: the pause outlasts the run.
    params: dict[str, Any] = {"bytes": f"{megabytes}MB", "idle_low": "80000s", "idle_high": "80000s"}
    return tb.flow(
        "transfers", name=flow_name(algorithm, megabytes), from_=algorithm, to="right", cc=CC[algorithm],
        stack=STACK | stack, params=params, receive_buffer=window,
        start=periods[0]["start"], stop=periods[0]["stop"], again=periods[1:],
    )  # fmt: skip


def _in_turn(
    network: Network, sizes: tuple[int, ...], runs: int, stack: dict[str, Any], window: str | None = None
) -> tuple[list[tb.Flow], float]:
    """`runs` transfers of each size with each algorithm: all sizes with one, then with the next; and how long."""
    slots: dict[tuple[str, int], list[tuple[float, float]]] = {}
    at = 0.0
    for _ in range(runs):
        for name in ALGORITHMS:
            for megabytes in sizes:
                slots.setdefault((name, megabytes), []).append((at, network.seconds[megabytes]))
                at += network.seconds[megabytes]
    return [_transfers(name, size, found, stack, window) for (name, size), found in slots.items()], at


def single(
    key: str,
    network: Network,
    runs: int,
    *,
    stack: dict[str, Any] | None = None,
    window: str | None = None,
    captured: bool = False,
    **rest: Any,
) -> tb.Scenario:
    """Transfers alone, in turn; `captured` logs every segment, as tcpdump did."""
    flows, seconds = _in_turn(network, network.sizes, runs, stack or {}, window)
    names = [str(flow.name) for flow in flows]
    wanted = {"requests": names} | ({"segments": names} if captured else {})
    return _scenario(key, network, flows, seconds, instruments=wanted, **rest)


def capture(key: str, network: Network, runs: int, **rest: Any) -> tb.Scenario:
    """The same with every segment logged."""
    return single(key, network, runs, captured=True, **rest)


def pair(key: str, network: Network, rival: str, runs: int, **rest: Any) -> tb.Scenario:
    """A transfer beside one of CUBIC's, again and again; who starts first alternates."""

    def one(algorithm: str, late: int) -> tb.Flow:
        slots = [
            (network.pair_s * run + (ORDER_GAP_S if run % 2 == late else 0.0), network.pair_s - 1)
            for run in range(runs)
        ]
        return _transfers(algorithm, network.pair_mb, slots, {})

    flows = [one("cubic", 1), one(rival, 0)]
    wanted = {"requests": [str(flow.name) for flow in flows]}
    return _scenario(key, network, flows, network.pair_s * runs, instruments=wanted, **rest)


def calls(key: str, network: Network, runs: int, *, downwards: bool = False, **rest: Any) -> tb.Scenario:
    """Downloads in turn beside five calls, which the receiver starts and therefore sends."""
    ends = ("left", "iperf") if downwards else ("iperf", "left")
    voices = [
        tb.voip(name=f"call-{number}", packet_size=f"{CALL_BYTES}B", start=f"{4 * number}ms", from_=ends[0], to=ends[1])
        for number in range(1, CALLS + 1)
    ]
    flows, seconds = _in_turn(network, (LARGE,), runs, {})
    wanted = {"requests": [str(flow.name) for flow in flows], "packets": [str(voice.name) for voice in voices]}
    return _scenario(key, network, [*flows, *voices], seconds, instruments=wanted, **rest)


def idle(key: str, network: Network, **rest: Any) -> tb.Scenario:
    """Pings over the unloaded path."""
    ping = tb.flow("ping", name=PING, interval="200ms", from_="left", to="right")
    return _scenario(key, network, [ping], 60.0, instruments={"echoes": [PING]}, **rest)


def all_cells(quick: bool) -> list[Cell]:
    """Every measurement on every network; `quick` makes fewer runs and leaves the ablations out."""
    runs, captures = (QUICK_RUNS, QUICK_CAPTURES) if quick else (RUNS, CAPTURES)
    pairs, called = (QUICK_RUNS, QUICK_RUNS) if quick else (PAIR_RUNS, CALL_RUNS)
    cells = []
    for name, network in NETWORKS.items():
        cells += [
            _cell(f"idle-{name}", "idle", network, "idle", idle),
            _cell(f"single-{name}", "single", network, "alone", single, runs),
            _cell(f"capture-{name}", "capture", network, "captured", capture, captures),
            *(
                _cell(f"pair-{name}-{rival}", "pair", network, f"{TITLES[rival]} beside CUBIC", pair, rival, pairs,
                      rival=rival)
                for rival in RIVALS
            ),
            *([_cell(f"calls-{name}", "calls", network, "five calls", calls, called)] if name in CALL_NETWORKS else []),
        ]  # fmt: skip
    return cells if quick else cells + _ablations()


def _cell(
    key: str, kind: str, network: Network, label: str, make: Callable[..., tb.Scenario], *of: Any, **factors: Any
) -> Cell:
    scenario = make(key, network, *of)
    cost = (20.0 if network.name in CALL_NETWORKS else 1.0) * scenario.duration.seconds
    title = f"{TITLES[network.name]}, {label}"
    return Cell(key, title, scenario, {"kind": kind, "network": network.name, **factors}, cost=cost)


def _ablations() -> list[Cell]:
    cells = []
    for name, reading in ABLATIONS.items():
        for network in reading.networks:
            key = f"{name}-{network}"
            made = _MADE[reading.kind](key, NETWORKS[network], ABLATION_RUNS, **reading.change)
            factors = {"kind": reading.kind, "network": network, "ablation": name}
            cells.append(Cell(key, f"{TITLES[network]}, {reading.title}", made, factors, role=ABLATION))
    return cells


_MADE: dict[str, Any] = {"single": single, "capture": capture, "calls": calls}


@dataclass(frozen=True)
class Reading:
    """Another reading of something the paper leaves open."""

    title: str
    kind: str
    networks: tuple[str, ...]
    change: dict[str, Any]


STALLED = "stalls of 0.3 to 1 s on the way to the receiver"

ABLATIONS = {
    "calls-down": Reading("the calls in the download's direction", "calls", CALL_NETWORKS, {"downwards": True}),
    "no-cache": Reading(
        "nothing remembered (tcp_no_metrics_save = 1)", "single", tuple(NETWORKS),
        {"stack": {"metrics_cache": "off"}},
    ),
    "quiet-adsl": Reading(
        "no noise on the line, a queue of 100 kB", "single", ("adsl",),
        {"options": {"buffer": "100kB", "line_loss": 0.0}},
    ),
    "noise-alone": Reading("the noise, a queue of 100 kB", "single", ("adsl",), {"options": {"buffer": "100kB"}}),
    "hidden": Reading("stations that do not hear each other", "calls", ("eduroam",), {"options": HIDDEN}),
    "growing-window": Reading(
        "a receive buffer that grows as Linux 3.8's", "single", tuple(NETWORKS),
        {"stack": {"initial_receive_buffer": 87_380}},
    ),
    "growing-window-rtt": Reading(
        "a receive buffer that grows as Linux 3.8's: RTT", "capture", ("3g",),
        {"stack": {"initial_receive_buffer": 87_380}},
    ),
    "deep-adsl": Reading("a queue of 400 kB towards the home", "single", ("adsl",), {"options": {"buffer": "400kB"}}),
    "deep-adsl-rtt": Reading(
        "a queue of 400 kB towards the home: RTT", "capture", ("adsl",), {"options": {"buffer": "400kB"}}
    ),
    "stalls": Reading(STALLED, "single", ("eduroam", "adsl-wifi"), {"options": {"stall_every": "10s"}}),
    "stalls-rtt": Reading(f"{STALLED}: RTT", "capture", ("adsl-wifi",), {"options": {"stall_every": "10s"}}),
    "stalls-3g": Reading(STALLED, "single", ("3g",), {"options": {"stall_every": "5s"}}),
    "stalls-3g-rtt": Reading(f"{STALLED}: RTT", "capture", ("3g",), {"options": {"stall_every": "5s"}}),
    "window-3g": Reading(
        "3G that never drops, and a receive buffer of 128 KiB", "single", ("3g",),
        {"window": "128KiB", "options": {"buffer": "2MB"}},
    ),
    "window-3g-rtt": Reading(
        "3G that never drops, and a receive buffer of 128 KiB: RTT", "capture", ("3g",),
        {"window": "128KiB", "options": {"buffer": "2MB"}},
    ),
}  # fmt: skip
