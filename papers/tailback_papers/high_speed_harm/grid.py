"""The paper's two networks as cells, at three scales, and what it leaves open as ablations.

A scale divides rates and sessions and multiplies error rates by one number, so that a flow meets as many errors a
minute, and shortens the schedule. Round trips and queues in BDPs stay: windows and queues in packets shrink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tailback as tb
from tailback.experiment import ABLATION, GRID, Cell, Data

ALGORITHMS = ("reno", "highspeed", "htcp", "cubic", "compound")
FAST = ALGORITHMS[1:]
LOSS_BASED = ("highspeed", "htcp", "cubic")
TITLES = {
    "reno": "SACK", "highspeed": "HS-TCP", "htcp": "H-TCP", "cubic": "CUBIC", "compound": "Compound",
    "wan": "ocean link", "lan": "campus", "ftp": "FTP", "hftp": "HFTP",
}  # fmt: skip
CC: dict[str, dict[str, Any]] = {
    "reno": {"name": "reno"},
    # Limited slow start, which the paper names as HS-TCP's.
    "highspeed": {"name": "highspeed", "variant": "linux", "max_ssthresh": 100},
    # The modules of NS2-TCP-Linux are those of Linux 2.6.22; its clock has 1000 ticks a second.
    "htcp": {"name": "htcp", "variant": "linux-2.6.22", "hz": 1000},
    "cubic": {"name": "cubic", "variant": "linux-2.6.25", "hz": 1000},
    "compound": {"name": "compound", "variant": "ns2"},
}
STACK = "ns2-sack"
"""Of the users and the web."""
FAST_STACK: dict[str, Any] = {
    "name": STACK,
    "counting": "per-ack",
    "detection": "fack",
    "pipe": "scoreboard",
    "slow_start_at_equality": True,
    # Rate halving, which the timer of overhead_ undoes: a packet for each ACK until recovery ends.
    "reduction": "at-end",
    "max_burst": 3,
    "clock_tick": "1ms",
    "rto_maximum": "120s",
}
"""Of the flows compared: NS2-TCP-Linux, which finds losses and reduces as Linux 2.6 did. Its sink answers each packet;
its time stamps take no bytes, so the RTT is taken from send times here."""

PACKET_BYTES, HEADER_BYTES = 1000, 40
WEB_WINDOW = 20
"""Packets: window_ of ns-2's agents unless a script raises it, and the paper does so only for FTP and fast flows."""
MTU = f"{PACKET_BYTES + HEADER_BYTES}B"
WARM_UP_S, LAST_JOIN_S, DURATION_S = 30, 230, 830
"""Before the users come; when the last high-speed flow has had its share of the joining; the end (section 3.1.4)."""
OBJECTS = tuple(1024 << power for power in range(8))
RESPONSE_BYTES = 8644
"""Mean response of PackMime-HTTP, for the load without bursts that replaces it."""
HOSTS = 200


@dataclass(frozen=True)
class Scale:
    """How much smaller than the paper's."""

    name: str
    rate: int
    """What rates and sessions are divided by, and error rates multiplied."""
    time: int
    """What the schedule's times are divided by."""
    users: int
    """Probes and calls, so that a shorter schedule has about as many samples."""

    def seconds(self, of_the_paper: float) -> float:
        """A time of the schedule."""
        return of_the_paper / self.time

    def words(self) -> str:
        """The path in words, for figures."""
        if self.rate == self.time == 1:
            return "the paper's own"
        rates = "the paper's" if self.rate == 1 else f"1/{self.rate}"
        return f"rates and sessions {rates}, schedule 1/{self.time}"


@dataclass(frozen=True)
class Network:
    """One of the two networks at the paper's scale."""

    name: str
    mbps: float
    delay_ms: float
    """One way, of the main link."""
    error_rate: float
    sessions: tuple[float, float]
    """Web sessions a second forward and back."""
    queues: tuple[float, ...]
    """Of the main link, in its BDPs."""
    access_ms: tuple[float, float]
    """Of a web host, one way."""
    user_ms: float
    """What access links add to a user's one-way delay."""
    reach_ms: tuple[float, float]
    """Range of a high-speed flow's access delay, at each end."""
    main: str
    """The link whose queue varies."""
    start: str
    """Where high-speed flows start."""

    def rtt_s(self) -> float:
        """Mean RTT of a high-speed flow without queues."""
        return 2e-3 * (self.delay_ms + sum(self.reach_ms))

    def queue_packets(self, bdps: float, scale: Scale) -> int:
        """The queue in packets of 1000 bytes, as ns-2's DropTail counts."""
        return round(bdps * self.mbps * 1e6 / scale.rate * 2e-3 * self.delay_ms / (8 * PACKET_BYTES))


WAN = Network(
    "wan", 1000.0, 50.0, 1e-6, (4000.0, 1000.0), (0.02, 0.05, 0.1, 0.2, 0.5, 1.0), (5.0, 15.0), 20.0, (5.0, 15.0),
    "fibre", "left",
)  # fmt: skip
# Web hosts have 1 to 3 ms on one side and 5 to 15 on the other: as two of 3 to 9, the sum has the same mean and range.
LAN = Network(
    "lan", 1000.0, 5.0, 1e-7, (500.0, 125.0), (0.1, 0.2, 0.5, 1.0), (3.0, 9.0), 11.0, (1.0, 3.0), "campus", "border"
)
NETWORKS = {network.name: network for network in (WAN, LAN)}
LEASED_MBPS, LEASED_MS, LEASED_ERROR_RATE = 51.0, 50.0, 1e-6

FULL = {name: Scale("full", 1, 1, 1) for name in NETWORKS}
# The campus keeps its rate: its round trips are short, so that an eighth of the schedule has many congestion events.
USUAL = {"wan": Scale("usual", 4, 8, 8), "lan": Scale("usual", 1, 8, 2)}
QUICK = {"wan": Scale("quick", 10, 8, 4), "lan": Scale("quick", 5, 16, 2)}
FEW, MANY = 4, 20
SOME_QUEUES = (0.1, 0.2, 0.5, 1.0)
"""Of the twenty flows below the full scale: where the paper says that Compound turns."""


def factors_of(
    network: str, algorithm: str, queue_bdp: float, flows: int = FEW, ablation: str | None = None
) -> dict[str, Any]:
    """What distinguishes a cell."""
    made = {"network": network, "algorithm": algorithm, "queue_bdp": queue_bdp, "flows": flows}
    return made | ({"ablation": ablation} if ablation else {})


def access_ms(network: Network, flows: int) -> list[float]:
    """The flows' access delays, both ends together: midpoints of equally likely parts of the sum of two draws."""
    low, high = network.reach_ms
    width, places = high - low, []
    for number in range(flows):
        share = (number + 0.5) / flows
        step = (2 * share) ** 0.5 if share <= 0.5 else 2 - (2 * (1 - share)) ** 0.5
        places.append(2 * low + width * step)
    # Neighbours in time should not be neighbours in space.
    return places[::2] + places[1::2]


def join_s(number: int, flows: int, length_s: float) -> float:
    """When a high-speed flow joins: one after another in even steps. Our reading; see the study's notes."""
    return length_s / DURATION_S * (WARM_UP_S + (LAST_JOIN_S - WARM_UP_S) * number / flows)


def _s(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"


def _ms(milliseconds: float) -> str:
    return _s(milliseconds * 1e-3)


def _links(network: Network, queue: float, scale: Scale, errors: bool, in_bytes: bool) -> list[tb.Link]:
    def link(name: str, from_: str, to: str, mbps: float, delay_ms: float, error_rate: float, limit: int) -> tb.Link:
        return tb.link(
            name, from_, to,
            rate=f"{mbps / scale.rate:g}mbit", delay=_ms(delay_ms),
            queue={"discipline": "fifo", **({"limit_bytes": limit * PACKET_BYTES} if in_bytes else
                                            {"limit_packets": limit})},
            wire={"loss": error_rate * scale.rate if errors else 0.0},
        )  # fmt: skip

    main = (network.mbps, network.delay_ms, network.error_rate, network.queue_packets(queue, scale))
    if network is WAN:
        return [link("fibre", "left", "right", *main), link("fibre-back", "right", "left", *main)]
    bdp = round(LEASED_MBPS * 1e6 / scale.rate * 2e-3 * LEASED_MS / (8 * PACKET_BYTES))
    leased = (LEASED_MBPS, LEASED_MS, LEASED_ERROR_RATE, bdp)
    return [
        link("leased", "left", "border", *leased), link("campus", "border", "right", *main),
        link("campus-back", "right", "border", *main), link("leased-back", "border", "left", *leased),
    ]  # fmt: skip


def _background(network: Network, scale: Scale, smooth: bool, mtu: str, window: int | None) -> list[tb.Flow]:
    def web(name: str, from_: str, to: str, sessions: float) -> tb.Flow:
        low, high = network.access_ms
        params: dict[str, bool | int | float | str] = {
            "rate": sessions / scale.rate, "hosts": HOSTS, "access_low": _ms(low), "access_high": _ms(high),
        }  # fmt: skip
        buffer = f"{window * PACKET_BYTES}B" if window else None
        return tb.flow(
            "web", name=name, from_=from_, to=to, cc="reno", stack=STACK, mtu=mtu, receive_buffer=buffer, params=params
        )

    ahead, back = network.sessions
    flows = [web("web", "right", "left", ahead), web("web-back", "left", "right", back)]
    if smooth:
        size = PACKET_BYTES + HEADER_BYTES
        rate = round(8 * RESPONSE_BYTES * size / PACKET_BYTES * ahead / scale.rate)
        params = {"rate": rate, "packet_bytes": size}
        flows[0] = tb.flow("udp-cbr", name="web", from_="left", to="right", params=params)
    return flows


def _users(network: Network, scale: Scale, hftp: bool) -> list[tb.Flow]:
    tcp: dict[str, Any] = {"cc": "reno", "stack": STACK, "access_delay": _ms(network.user_ms)}
    start = scale.seconds(WARM_UP_S)
    probes = [
        tb.flow("web-probe", name=f"www-{number + 1}", from_="right", to="left", mtu=MTU,
                receive_buffer=f"{WEB_WINDOW * PACKET_BYTES}B", start=_s(start + 0.4 * number), **tcp)
        for number in range(scale.users)
    ]  # fmt: skip
    transfers = ("ftp", "hftp") if hftp else ("ftp",)
    return [
        *probes,
        tb.flow("voip-onoff", name="voip", from_="left", to="right", access_delay=tcp["access_delay"],
                start=_s(start), params={"calls": scale.users}),
        *(tb.flow(kind, name=kind, from_="left", to="right", start=_s(start), **tcp) for kind in transfers),
    ]  # fmt: skip


def scenario(
    key: str,
    network: Network,
    scale: Scale,
    algorithm: str,
    queue: float,
    *,
    flows: int = FEW,
    cc: dict[str, Any] | None = None,
    smooth: bool = False,
    errors: bool = True,
    in_bytes: bool = False,
    web_mtu: str = MTU,
    web_window: int | None = WEB_WINDOW,
    stack: str | dict[str, Any] = FAST_STACK,
    hftp: bool = True,
) -> tb.Scenario:
    """One run of the paper."""
    fast = [
        tb.flow(
            "hftp", name=f"hs-{number + 1}", from_=network.start, to="right", cc=CC[algorithm] | (cc or {}),
            stack=stack, access_delay=_ms(access), start=_s(join_s(number, flows, scale.seconds(DURATION_S))),
        )
        for number, access in enumerate(access_ms(network, flows))
    ]  # fmt: skip
    users = _users(network, scale, hftp)
    return tb.Scenario(
        name=key,
        duration=_s(scale.seconds(DURATION_S)),
        links=tuple(_links(network, queue, scale, errors, in_bytes)),
        flows=(*fast, *_background(network, scale, smooth, web_mtu, web_window), *users),
        # ns-2's overhead_ of 8 us, one packet's time on the link.
        randomness={"processing_jitter": f"{8 * scale.rate}us"},
        instruments={
            "polls": [flow.name for flow in fast],
            "internals": algorithm == "compound",
            "queue_polls": [network.main],
            "poll_interval": "100ms" if network is WAN else "50ms",
            "drops": [network.main],
            "packets": ["voip"],
            # Estimated from the calls' rate at all times: 69 million at the paper's scale; users come and go.
            **({"most_rows": 100_000_000} if scale.rate * scale.time == 1 else {}),
            "requests": [flow.name for flow in users if flow.app == "web-probe"],
        },
    )


@dataclass(frozen=True)
class Reading:
    """Another reading of something open, or a test of a cause the paper names."""

    title: str
    cells: tuple[tuple[str, str, float], ...]
    """Network, algorithm, queue."""
    change: dict[str, Any]
    judged: bool = False
    """A claim needs it: all seeds. Otherwise one."""


_ENDS = (0.1, 1.0)
ABLATIONS = {
    "smooth": Reading(
        "web forward replaced by a constant rate", tuple(("wan", one, 0.05) for one in ALGORITHMS),
        {"smooth": True}, judged=True,
    ),
    "lss": Reading(
        "SACK with limited slow start", (("wan", "reno", 0.5), ("wan", "reno", 1.0)),
        {"cc": {"max_ssthresh": 100}}, judged=True,
    ),
    "no-errors": Reading(
        "no packet errors", (("wan", "reno", 0.1), ("wan", "reno", 1.0), ("wan", "compound", 1.0)), {"errors": False}
    ),
    "no-hftp": Reading(
        "no unlimited transfer over the leased line",
        tuple(("lan", one, 0.1) for one in ALGORITHMS), {"hftp": False},
    ),
    "no-scaling": Reading(
        "H-TCP's α not scaled by the RTT", (("wan", "htcp", 0.1), ("wan", "htcp", 1.0), ("lan", "htcp", 0.2)),
        {"cc": {"rtt_scaling": False}},
    ),
    "sack1": Reading(
        "the flows on ns-2's own SACK agent", tuple(("wan", one, queue) for one in ("reno", "htcp") for queue in _ENDS),
        {"stack": STACK},
    ),
    "gamma": Reading(
        "Compound's γ divided by 4, as the usual scale divides the rate",
        tuple(("wan", "compound", queue) for queue in (0.2, 0.5)), {"cc": {"gamma": 7.5}},
    ),
    "rate-halving": Reading(
        "the flows reduce during recovery, as their agent would without overhead_",
        tuple(("wan", one, 0.1) for one in ALGORITHMS), {"stack": FAST_STACK | {"reduction": "rate-halving"}},
    ),
    "paper-compound": Reading(
        "Compound in real numbers, with its threshold of 41 segments",
        (("wan", "compound", 0.1), ("wan", "compound", 1.0), ("lan", "compound", 0.2)), {"cc": {"variant": "paper"}},
    ),
    "wide-web": Reading(
        "web connections without a limited window", tuple(("wan", one, 0.1) for one in ALGORITHMS),
        {"web_window": None},
    ),
    "bytes": Reading(
        "queue limited in bytes", tuple(("wan", one, 0.1) for one in ("htcp", "compound")), {"in_bytes": True},
    ),
    "web-536": Reading(
        "web segments of 536 bytes, FullTcp's default", tuple(("wan", one, 0.1) for one in ("htcp", "compound")),
        {"web_mtu": "576B"},
    ),
}  # fmt: skip


def cells_at(scales: dict[str, Scale], ablations: bool) -> list[Cell]:
    """The grid at one scale: 4 and 20 flows over the ocean link, 4 on the campus."""
    made = [
        _cell(scales, network.name, algorithm, queue, flows)
        for network, flows in ((WAN, FEW), (WAN, MANY), (LAN, FEW))
        for algorithm in ALGORITHMS
        for queue in (network.queues if flows == FEW or scales is FULL else SOME_QUEUES)
    ]
    for name, reading in ABLATIONS.items() if ablations else ():
        made += [_cell(scales, *where, FEW, name) for where in reading.cells]
    return made


def _cell(
    scales: dict[str, Scale], network: str, algorithm: str, queue: float, flows: int, ablation: str | None = None
) -> Cell:
    scale, reading = scales[network], ABLATIONS[ablation] if ablation else None
    many = "" if flows == FEW else f"-{flows}"
    key = f"{f'{ablation}-' if ablation else ''}{network}{many}-{algorithm}-{queue:g}bdp"
    change = reading.change if reading else {"flows": flows}
    return Cell(
        key,
        f"{TITLES[network]}, {TITLES[algorithm]}, {queue:g} BDP, {reading.title}" if reading else
        f"{TITLES[network]}, {flows} × {TITLES[algorithm]}, {queue:g} BDP",
        scenario(key, NETWORKS[network], scale, algorithm, queue, **change),
        factors_of(network, algorithm, queue, flows, ablation),
        role=ABLATION if reading else GRID,
        cost=100.0 / (scale.rate * scale.time),
        seeds=1 if reading and not reading.judged else None,
    )  # fmt: skip


def all_cells(quick: bool) -> list[Cell]:
    """The usual scale, or the quick one without the ablations."""
    return cells_at(QUICK, ablations=False) if quick else cells_at(USUAL, ablations=True)


def full_cells() -> list[Cell]:
    """The paper's scale, with the ablations that claims need and the others."""
    return cells_at(FULL, ablations=True)


def scales_of(data: Data) -> dict[str, Scale]:
    """The scale of each network in these runs."""
    lengths = {cell.factors["network"]: cell.scenario.duration.seconds for cell in data.cells.values()}
    for scales in (FULL, USUAL, QUICK):
        if all(abs(scales[name].seconds(830) - length) < 1e-6 for name, length in lengths.items()):
            return scales
    return USUAL
