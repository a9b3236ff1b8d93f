"""The paper's grid: 3 rates × 3 round trips × 2 queues × 5 senders, and the runs that vary one assumption.

Sources: CAIA-TR-080818A sections IV and V, Tables II and III, Listings 1–4. Where the text leaves something open the
choice is written at the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailback.experiment import ABLATION, GRID, Cell
from tailback.scenario import Flow, Instruments, Queue, Randomness, Scenario, Wire, bulk, dumbbell, voip

RATES_MBIT = (1, 10, 100)
RTTS_MS = (16, 80, 160)
QUEUES: Mapping[str, float] = {"1bdp": 1.0, "quarter": 0.25}
DURATION_S = 180

MTU, CALL_BYTES = 1500, 200

# The text lists no buffer sizes and patched iperf to set them: eight times what path and queue hold, so that they never
# limit (during a repair nearly four windows may lie between the hole and the newest segment after slow start's
# overshoot). Not the same for every path: a Linux receiver acknowledges every segment while its window still grows
# towards the buffer, which at 1 Mbit/s and tens of megabytes would last for the whole run.
BUFFER_WINDOWS, LEAST_BUFFER = 8, 65_536

# dummynet shortens larger byte limits to this without a word (FreeBSD 7.3 ip_dummynet.c, pipe_byte_limit).
DUMMYNET_CAP = 1_048_576

# The router's kern.hz is not stated; FreeBSD 7's default.
ROUTER_HZ = 1000

# Up to 1 s between the starts and up to 50 µs of processing in each host for each packet: what differs between two
# runs of a real testbed, and what seeds mean here. Both are small against an epoch.
START_SPREAD, JITTER = "1s", "50us"


REORDERED_AT_MBIT = 100
REORDERING: dict[str, Any] = {"reorder": 3e-5, "reorder_packets": 2, "reorder_delay": "10ms"}
"""On paths of that rate the wire holds packets back until two others have overtaken them, one duplicate ACK too few for
a fast retransmit (10 ms if nothing comes). The share is fitted to Figure 13: the smallest tried that
reproduces 000-L11. Nothing in the paper says that its testbed reordered packets."""


@dataclass(frozen=True)
class Sender:
    """An operating system with an algorithm, as the paper tuned it."""

    key: str
    title: str
    stack: str
    cc: str
    cc_params: Mapping[str, Any] = field(default_factory=dict)
    stack_params: Mapping[str, Any] = field(default_factory=dict)


# Listing 1: net.inet.tcp.delayed_ack=0 on both ends. Listing 3: no bandwidth switch, no RTT scaling.
# Listing 4: adaptive_backoff=1. `maxrtt_slip` is FreeBSD 9's arithmetic slip, which would keep the queue from
# draining; the paper saw it drain.
FREEBSD = {"delayed_ack": False}
HTCP_LINUX = {"variant": "linux-2.6.25", "bandwidth_switch": False, "rtt_scaling": False}
HTCP_FREEBSD = {"variant": "freebsd", "adaptive_backoff": True, "rtt_scaling": False, "maxrtt_slip": False}

SENDERS = (
    Sender("freebsd-reno", "FreeBSD NewReno", "freebsd-7", "reno", {}, FREEBSD),
    Sender("freebsd-htcp", "FreeBSD H-TCP", "freebsd-7", "htcp", HTCP_FREEBSD, FREEBSD),
    Sender("linux-reno", "Linux NewReno", "linux-2.6.25", "reno"),
    Sender("linux-htcp", "Linux H-TCP", "linux-2.6.25", "htcp", HTCP_LINUX),
    Sender("linux-cubic", "Linux CUBIC", "linux-2.6.25", "cubic", {"variant": "linux-2.6.25"}),
)
SENDER = {sender.key: sender for sender in SENDERS}

# The paths of the paper's figures. Figs 2–8: section VI. Fig. 9: named in section VII-A. Fig. 11: one of the two
# irregular ones, of which 80 ms is the one where NewReno completes an epoch at all. Fig. 10 is not named: the path of
# the other figures.
FIGURE_PATH = (10, 80)
CDF_PATHS = ((100, 16), (10, 80), (100, 80))


Path = tuple[int, int, str]
"""Rate in Mbit/s, round trip in ms, queue."""


def factors_of(path: Path, sender: str) -> dict[str, Any]:
    """What distinguishes a cell of the grid; others have `kind` besides."""
    return {"rate": path[0], "rtt": path[1], "queue": path[2], "sender": sender}


def window_segments(rate: int, rtt: int, queue: str) -> float:
    """Largest window the path holds: BDP and queue, in full packets."""
    return rate * 1e6 * rtt * 1e-3 / 8 * (1 + QUEUES[queue]) / MTU


def limit_bytes(rate: int, rtt: int, queue: str) -> int:
    """Queue limit in bytes."""
    return round(rate * 1e6 * rtt * 1e-3 / 8 * QUEUES[queue])


def path_title(rate: int, rtt: int, queue: str | None = None) -> str:
    """A path in words."""
    base = f"{rate} Mbit/s × {rtt} ms"
    return base if queue is None else f"{base}, {'1 BDP' if queue == '1bdp' else '¼ BDP'}"


def full_instruments(sender: Sender) -> Instruments:
    """What the testbed logged: SIFTR on FreeBSD, Web100 each millisecond, every queue event, every call packet."""
    return Instruments(
        segments=("tcp",) if sender.stack.startswith("freebsd") else (),
        polls=("tcp",),
        poll_interval="1ms",
        queues=("bottleneck",),
        packets=("call",),
    )


def light_instruments() -> Instruments:
    """Enough for every metric of the grid: no row per TCP segment (there are 1.5 million at 100 Mbit/s)."""
    return Instruments(
        polls=("tcp",),
        queue_polls=("bottleneck",),
        # Not a multiple of the router's tick: else every poll would meet the queue at the same phase of it.
        poll_interval="9.7ms",
        drops=("bottleneck",),
        packets=("call",),
    )


def scenario(
    rate: int,
    rtt: int,
    queue: str,
    sender: Sender,
    *,
    name: str,
    full: bool = False,
    limit: int | None = None,
    wire: Mapping[str, Any] | None = None,
    cc_params: Mapping[str, Any] | None = None,
    stack_params: Mapping[str, Any] | None = None,
    tick_hz: int | None = ROUTER_HZ,
    duration_s: int = DURATION_S,
) -> Scenario:
    """One run: a download and a call cross the bottleneck in the same direction for three minutes.

    Without a `wire` it is the base's, which reorders on the fastest paths.
    """
    if wire is None and rate >= REORDERED_AT_MBIT:
        wire = REORDERING
    size = limit_bytes(rate, rtt, queue) if limit is None else limit
    socket = max(LEAST_BUFFER, BUFFER_WINDOWS * (limit_bytes(rate, rtt, "1bdp") + size))
    # dummynet in FreeBSD 7: the packet being sent still counts, and an arrival is dropped only if the queue already
    # exceeds its limit.
    buffer = Queue(discipline="fifo", limit=f"{size}B", params={"accept": "below", "in_service": "counted"})
    tcp: Flow = bulk(
        {"name": sender.cc, **sender.cc_params, **(cc_params or {})},
        {"name": sender.stack, **sender.stack_params, **(stack_params or {})},
        name="tcp",
        send_buffer=f"{socket}B",
        receive_buffer=f"{socket}B",
        mtu=f"{MTU}B",
    )
    return dumbbell(
        rate=f"{rate}mbit",
        rtt=f"{rtt}ms",
        queue=buffer,
        tick_hz=tick_hz,
        wire=Wire(**wire) if wire else Wire(),
        flows=[tcp, voip(name="call", packet_size=f"{CALL_BYTES}B", interval="20ms")],
        duration=f"{duration_s}s",
        name=name,
        randomness=Randomness(start_spread=START_SPREAD, processing_jitter=JITTER),
        instruments=full_instruments(sender) if full else light_instruments(),
    )


def cost(rate: int) -> float:
    """Packets of a run, in thousands: what its wall time follows."""
    return rate * 15.0 + 9.0


def all_cells(quick: bool) -> list[Cell]:
    """Every cell of the study; `quick`: the paths that most figures need, without the ablations."""
    paths = [(rate, rtt, queue) for queue in QUEUES for rate in RATES_MBIT for rtt in RTTS_MS]
    if quick:
        paths = [path for path in paths if path in ((1, 16, "1bdp"), (10, 80, "1bdp"), (100, 16, "1bdp"))]
    cells = [_grid_cell(*path, sender) for path in paths for sender in SENDERS]
    return cells if quick else cells + ablations()


def _grid_cell(rate: int, rtt: int, queue: str, sender: Sender) -> Cell:
    key = f"{rate}M-{rtt}ms-{queue}-{sender.key}"
    figure = (rate, rtt) == FIGURE_PATH and queue == "1bdp"
    irregular = rate == 100 and queue == "1bdp" and sender.key == "linux-htcp"
    return Cell(
        key=key,
        label=f"{sender.title}, {path_title(rate, rtt, queue)}",
        scenario=scenario(rate, rtt, queue, sender, name=key, full=figure),
        factors=factors_of((rate, rtt, queue), sender.key),
        role=GRID,
        cost=cost(rate) * (1.5 if figure else 1.0),
        keep_tables=figure or irregular,
    )


KERNEL_PATHS = ((1, 16, "1bdp"), (10, 80, "1bdp"), (100, 16, "1bdp"))
"""What is run on a kernel: the paths that most figures need. Three minutes a sender each."""


def kernel_cells(quick: bool) -> list[Cell]:
    """The Linux senders on today's kernel; `quick`: on the figures' path only.

    The kernel has no settings of 2.6.25's: algorithms run as they are now, H-TCP with its bandwidth switch and RTT
    scaling on. Everything else is the cell's it stands for.
    """
    cells = []
    for rate, rtt, queue in KERNEL_PATHS:
        if quick and (rate, rtt) != FIGURE_PATH:
            continue
        for old in SENDERS:
            if old.stack.startswith("linux"):
                sender = Sender(old.key, f"{old.title} (kernel)", "linux", old.cc)
                cells.append(_grid_cell(rate, rtt, queue, sender))
    return cells


DISTURBANCES = (3e-5, 1e-4, 3e-4)
"""Shares of packets held back on the wire: at 100 Mbit/s one every 4 s, 1.2 s and 0.4 s."""

HELD_BACK = "250us"
"""Two packets overtake at 100 Mbit/s: two duplicate ACKs, one too few for a fast retransmit."""

UNTIMED = ((10, 160), (100, 16))
"""Paths on which the router's timer decides whether CUBIC's cycle has two parts."""


def _changed(
    name: str, label: str, path: Path, sender: str, factors: dict[str, Any], *, where: str | None = None,
    seeds: int = 2, keep_tables: bool = False, **change: Any,
) -> Cell:  # fmt: skip
    """A run that changes one assumption; `where` are the words for its path."""
    return Cell(
        key=name,
        label=label.format(where or path_title(*path)),
        scenario=scenario(*path, SENDER[sender], name=name, **change),
        factors=factors_of(path, sender) | factors,
        role=ABLATION,
        cost=cost(path[0]),
        seeds=seeds,
        keep_tables=keep_tables,
    )


ASSUMPTIONS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("abc-linux-reno", "Linux NewReno with byte counting (L = 2)", "linux-reno",
     {"stack_params": {"counting": "bytes"}}),
    ("nodelack-linux-reno", "Linux NewReno without delayed ACKs", "linux-reno",
     {"stack_params": {"delayed_ack": False}}),
    ("nodelack-linux-htcp", "Linux H-TCP without delayed ACKs", "linux-htcp",
     {"stack_params": {"delayed_ack": False}}),
    ("delack-freebsd-reno", "FreeBSD NewReno with delayed ACKs", "freebsd-reno",
     {"stack_params": {"delayed_ack": 100}}),
    ("delack-freebsd-htcp", "FreeBSD H-TCP with delayed ACKs", "freebsd-htcp", {"stack_params": {"delayed_ack": 100}}),
    ("slip-freebsd-htcp", "FreeBSD H-TCP with FreeBSD 9's maxrtt slip", "freebsd-htcp",
     {"cc_params": {"maxrtt_slip": True}}),
)  # fmt: skip
"""On the figures' path: name, words, sender, what is changed."""


def ablations() -> list[Cell]:
    """Runs that change one assumption each. Two seeds: they explain, they do not judge."""
    cells = [
        _changed(
            name, f"{words}, {{}}", (*FIGURE_PATH, "1bdp"), sender, {"kind": "assumption", "change": name}, **change
        )
        for name, words, sender, change in ASSUMPTIONS
    ]
    cells += [
        _changed(f"cap-{sender.key}", f"{sender.title}, {{}}, queue cut to dummynet's 1 MiB", (100, 160, "1bdp"),
                 sender.key, {"kind": "cap"}, where=path_title(100, 160), seeds=1, limit=DUMMYNET_CAP)
        for sender in SENDERS
    ]  # fmt: skip
    cells += [
        _changed(f"untimed-{rate}M-{rtt}ms", "Linux CUBIC, {}, router without a timer", (rate, rtt, "1bdp"),
                 "linux-cubic", {"kind": "untimed"}, tick_hz=None)
        for rate, rtt in UNTIMED
    ]  # fmt: skip
    for rtt in RTTS_MS:
        cells += [disturbed(rtt, share, "open") for share in DISTURBANCES]
        cells.append(disturbed(rtt, DISTURBANCES[1], "event"))
    return cells


def disturbed_factors(rtt: int, share: float, clock: str) -> dict[str, Any]:
    """What distinguishes a disturbed H-TCP cell."""
    return factors_of((100, rtt, "1bdp"), "linux-htcp") | {"kind": "disturbed", "share": share, "clock": clock}


def disturbed(rtt: int, share: float, clock: str) -> Cell:
    """Linux H-TCP at 100 Mbit/s on a wire that lets two packets overtake a small share of the others.

    Each such packet makes the sender pass through Disorder and back to Open without a reduction. 2.6.25 restarts
    H-TCP's clock on every entry into Open (`open`); since 2.6.28 only congestion does (`event`). Without the router's
    timer, whose bursts would let up to eight packets overtake and so trigger a retransmission.
    """
    return _changed(
        f"disturbed-{rtt}ms-{share:g}-{clock}", f"Linux H-TCP, {{}}, {share:g} reordered, clock restarts on {clock}",
        (100, rtt, "1bdp"), "linux-htcp", {"kind": "disturbed", "share": share, "clock": clock},
        wire={"reorder": share, "reorder_delay": HELD_BACK}, cc_params={"clock_restart": clock}, tick_hz=None,
        keep_tables=share == DISTURBANCES[1],
    )  # fmt: skip
