"""The paper's five networks as cells: transfers in turn, captures, pairs beside CUBIC, calls, and idle pings.

A cell is one kind of measurement on one network. Transfers of CUBIC, Veno, Westwood and Hybla take turns on it, as
the paper interleaved them; its days between runs are seconds here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tailback as tb

from ..framework import ABLATION, Cell

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
    # On by default: each of the four servers remembers what its last transfer to this receiver ended with.
    "ssthresh_cache": True,
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
FLOW, RIVAL, PING = "download", "rival", "ping"
ORDER_GAP_S = 0.15
"""By how much the flow started first is ahead: a script's next line, and more than a start strays."""
START_SPREAD, JITTER = "100ms", "20us"


@dataclass(frozen=True)
class Network:
    """A network of the paper and how long things take there."""

    name: str
    preset: str
    figure: int
    #: Simulated time for a transfer and the pause after it, by its size in MB.
    seconds: dict[int, float]
    #: Time for two transfers side by side.
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
SESSIONS = 100.0
"""Web sessions a second on the backbone, a sixth of the preset's: they cost most of the time and fill no queue."""

NETWORKS = {
    network.name: network
    for network in (
        Network(
            "university",
            "university",
            3,
            {SMALL: 3.0, LARGE: 8.0},
            16.0,
            {"port": "100mbit", "port_queue": PORT_QUEUE, "sessions": SESSIONS},
        ),
        Network(
            "eduroam",
            "eduroam",
            4,
            {SMALL: 4.5, LARGE: 30.0},
            75.0,
            {"rate": 12.0, "ap_buffer": AP_QUEUE, "stations": 3, "station_sessions": 3.0, "sessions": SESSIONS},
        ),
        Network("adsl", "adsl2", 5, {SMALL: 3.5, LARGE: 20.0}, 45.0),
        Network("adsl-wifi", "adsl2-wifi", 6, {SMALL: 3.5, LARGE: 20.0}, 45.0),
        Network("3g", "3g", 7, {SMALL: 15.0}, 40.0, {"share": 0.5}),
    )
}
WIRED, WIRELESS = ("university", "adsl"), ("eduroam", "adsl-wifi", "3g")
CALL_NETWORKS = ("university", "eduroam")

FITTED = (
    (
        "university: receiver's port",
        "100 Mbit/s, queue of 64 packets",
        "order of throughput (Figure 3, left)",
        "friendliness and RTTs (Figure 3, right), Table I",
    ),
    ("calls: lateness of iperf's process", f"0 to {CALL_JITTER}", "CUBIC's jitter (Table I)", "the other three"),
    (
        "Eduroam: PHY rate, stations, their sessions",
        "12 Mbit/s, 3, 3 a second",
        "CUBIC's jitter (Table II)",
        "the other three, losses, Figure 4",
    ),
    ("3G: share of the intervals left by others", "0.5", "CUBIC's RTT (Figure 7)", "the other three, throughputs"),
    ("idle delays of the long stretch and of 3G", "53 ms and 76 ms", "ICMP's 54 and 130 ms", "–"),
)
"""Parameter, value, what it was fitted to, what it was tested on."""

FITTED_CLAIMS = frozenset({"003-Q1a", "003-Q3a", "003-Q5", "003-Q6a", "003-Q6b", "003-Q7a", "003-L1a", "003-L1b"})
"""Numbers that a parameter was fitted to: no evidence that the model is right."""


def _scenario(key: str, network: Network, flows: list[tb.Flow], seconds: float, **rest: Any) -> tb.Scenario:
    instruments, options = rest.pop("instruments"), rest.pop("options", None)
    return tb.presets.scenario(
        network.preset,
        name=key,
        flows=flows,
        duration=f"{seconds:.0f}s",
        randomness={"start_spread": START_SPREAD, "processing_jitter": JITTER},
        instruments=instruments,
        **network.options | (options or {}),
    )


def _transfers(sizes: tuple[int, ...], runs: int, stack: dict[str, Any], window: str | None = None) -> tb.Flow:
    """`runs` transfers of each size with each algorithm, 1 to 2 s apart: all sizes with one, then with the next."""
    params: dict[str, Any] = {
        "bytes": f"{sizes[0]}MB", "other_bytes": f"{sizes[-1]}MB", "count": runs * len(sizes) * len(ALGORITHMS),
        "idle_low": "1s", "idle_high": "2s",
    }  # fmt: skip
    turns = [CC[name] for name in ALGORITHMS for _ in sizes]
    return tb.flow(
        "transfers", name=FLOW, cc=turns[0], cc_turns=turns[1:], stack=STACK | stack, params=params,
        receive_buffer=window,
    )  # fmt: skip


def single(
    key: str, network: Network, runs: int, stack: dict[str, Any] | None = None, window: str | None = None, **rest: Any
) -> tb.Scenario:
    """Transfers alone, in turn."""
    seconds = 2.0 + sum(network.seconds.values()) * runs * len(ALGORITHMS)
    wanted = {"instruments": {"requests": [FLOW]}} | rest
    return _scenario(key, network, [_transfers(network.sizes, runs, stack or {}, window)], seconds, **wanted)


def capture(key: str, network: Network, runs: int, **rest: Any) -> tb.Scenario:
    """The same with every segment at the sender logged, as tcpdump did."""
    return single(key, network, runs, instruments={"requests": [FLOW], "segments": [FLOW]}, **rest)


def pair(
    key: str, network: Network, rival: str, runs: int, stack: dict[str, Any] | None = None, **rest: Any
) -> tb.Scenario:
    """A transfer beside one of CUBIC's, again and again; who starts first alternates."""

    def one(name: str, algorithm: str, late: int) -> tb.Flow:
        starts = [network.pair_s * run + (ORDER_GAP_S if run % 2 == late else 0.0) for run in range(runs)]
        periods = [{"start": f"{1e3 * t:.0f}ms", "stop": f"{1e3 * (t + network.pair_s - 1):.0f}ms"} for t in starts]
        # One transfer a period: the pause outlasts the run.
        params: dict[str, Any] = {"bytes": f"{network.pair_mb}MB", "idle_low": "80000s", "idle_high": "80000s"}
        return tb.flow(
            "transfers",
            name=name,
            cc=CC[algorithm],
            stack=STACK | (stack or {}),
            params=params,
            **periods[0],
            again=periods[1:],
        )

    flows = [one(FLOW, "cubic", 1), one(RIVAL, rival, 0)]
    wanted = {"instruments": {"requests": [FLOW, RIVAL]}} | rest
    return _scenario(key, network, flows, network.pair_s * runs, **wanted)


def calls(key: str, network: Network, runs: int, *, downwards: bool = False, **rest: Any) -> tb.Scenario:
    """Downloads in turn beside five calls, which the receiver starts and therefore sends."""
    ends = ("left", "iperf") if downwards else ("iperf", "left")
    voices = [
        tb.voip(name=f"call-{number}", packet_size=f"{CALL_BYTES}B", start=f"{4 * number}ms", from_=ends[0], to=ends[1])
        for number in range(1, CALLS + 1)
    ]
    seconds = 2.0 + network.seconds[LARGE] * runs * len(ALGORITHMS)
    downloads = [_transfers((LARGE,), runs, {})]
    made = _scenario(key, network, downloads, seconds, instruments={"requests": [FLOW]}, **rest).expanded
    # The process that sends or receives the calls wakes late; the kernel that answers TCP does not.
    process: dict[str, Any] = {"rate": "1gbit", "delay": "0s", "wire": {"jitter": CALL_JITTER}}
    ways = [tb.link("process", "iperf", "right", **process), tb.link("process-back", "right", "iperf", **process)]
    return made.model_copy(
        update={
            "links": (*made.links, *ways),
            "flows": (*made.flows, *voices),
            "instruments": made.instruments.model_copy(update={"packets": tuple(one.name for one in voices)}),
        }
    )


def idle(key: str, network: Network, **rest: Any) -> tb.Scenario:
    """Pings over the unloaded path."""
    ping = tb.flow("ping", name=PING, interval="200ms")
    return _scenario(key, network, [ping], 60.0, instruments={"echoes": [PING]}, **rest)


def single_key(network: str) -> str:
    """Name of a cell of transfers alone."""
    return f"single-{network}"


def capture_key(network: str) -> str:
    """Name of a captured cell."""
    return f"capture-{network}"


def pair_key(network: str, rival: str) -> str:
    """Name of a cell of pairs."""
    return f"pair-{network}-{rival}"


def calls_key(network: str) -> str:
    """Name of a cell of calls."""
    return f"calls-{network}"


def idle_key(network: str) -> str:
    """Name of a cell of pings."""
    return f"idle-{network}"


def all_cells(quick: bool) -> list[Cell]:
    """Every measurement on every network; `quick` makes fewer runs and leaves the ablations out."""
    runs, captures = (QUICK_RUNS, QUICK_CAPTURES) if quick else (RUNS, CAPTURES)
    pairs, called = (QUICK_RUNS, QUICK_RUNS) if quick else (PAIR_RUNS, CALL_RUNS)
    cells = []

    def add(key: str, kind: str, network: Network, label: str, scenario: tb.Scenario, **factors: Any) -> None:
        busy = 20.0 if network.name in CALL_NETWORKS else 1.0
        cost = busy * scenario.duration.seconds
        title = f"{TITLES[network.name]}, {label}"
        cells.append(Cell(key, title, scenario, {"kind": kind, "network": network.name, **factors}, cost=cost))

    for name, network in NETWORKS.items():
        key = idle_key(name)
        add(key, "idle", network, "idle", idle(key, network))
        key = single_key(name)
        add(key, "single", network, "alone", single(key, network, runs))
        key = capture_key(name)
        add(key, "capture", network, "captured", capture(key, network, captures))
        for rival in RIVALS:
            key = pair_key(name, rival)
            add(key, "pair", network, f"{TITLES[rival]} beside CUBIC", pair(key, network, rival, pairs), rival=rival)
        if name in CALL_NETWORKS:
            key = calls_key(name)
            add(key, "calls", network, "five calls", calls(key, network, called))
    if not quick:
        cells += _ablations()
    return cells


def _ablations() -> list[Cell]:
    cells = []
    for name, reading in ABLATIONS.items():
        for network in (NETWORKS[one] for one in reading.networks):
            key = ablation_key(name, network.name)
            made = _MADE[reading.kind](key, network, ABLATION_RUNS, **reading.change)
            factors = {"kind": reading.kind, "network": network.name, "ablation": name}
            cells.append(Cell(key, f"{TITLES[network.name]}, {reading.title}", made, factors, role=ABLATION))
    return cells


def ablation_key(name: str, network: str) -> str:
    """Name of an ablation's cell."""
    return f"{name}-{network}"


_MADE: dict[str, Any] = {"single": single, "capture": capture, "calls": calls}


@dataclass(frozen=True)
class Reading:
    """Another reading of something the paper leaves open."""

    title: str
    kind: str
    networks: tuple[str, ...]
    change: dict[str, Any]


ABLATIONS = {
    "calls-down": Reading("the calls in the download's direction", "calls", CALL_NETWORKS, {"downwards": True}),
    "no-cache": Reading(
        "no ssthresh remembered (tcp_no_metrics_save = 1)", "single", tuple(NETWORKS),
        {"stack": {"ssthresh_cache": False}},
    ),
    "deep-adsl": Reading("a queue of 400 kB towards the home", "single", ("adsl",), {"options": {"buffer": "400kB"}}),
    "deep-adsl-rtt": Reading(
        "a queue of 400 kB towards the home: RTT", "capture", ("adsl",), {"options": {"buffer": "400kB"}}
    ),
    "window-3g": Reading(
        "3G that never drops, and a window of 64 KiB", "single", ("3g",),
        {"window": "128KiB", "options": {"buffer": "2MB"}},
    ),
    "window-3g-rtt": Reading(
        "3G that never drops, and a window of 64 KiB: RTT", "capture", ("3g",),
        {"window": "128KiB", "options": {"buffer": "2MB"}},
    ),
}  # fmt: skip
