"""The paper's two scenarios as cells, and what it leaves open as ablations.

The paper states rates, delays and durations, but neither queue limits, nor segment size, nor socket buffers, nor start
times. The base takes ns-3.27's defaults for segment size (536 bytes of payload) and drop-tail limit (100 packets). The
latter is the device's queue; a CoDel lies above it and is stopped while it is full. Buffers never limit. With ns-3.27's
default of 131,072 bytes both algorithms would be held at the same 131,072·8/RTT, and no difference could be seen at 40
and 80 ms. The ablation shows it.
"""

from __future__ import annotations

from typing import Any

import tailback as tb
from tailback.experiment import ABLATION, GRID, Cell

ALGORITHMS = ("reno", "cubic")
QUEUES = ("pfifo", "codel")
TITLES = {"reno": "NewReno", "cubic": "CUBIC", "pfifo": "PFIFO", "codel": "CoDel"}
DELAYS_MS = (5, 10, 20, 40, 80)
FAIR_DELAYS_MS = (5, 30)
DURATION_S = 200
FLOWS = 10
RATE, FAIR_RATE = "20mbit", "100mbit"

SEGMENT_MTU = 536 + 52
"""ns-3.27's SegmentSize of 536 bytes, with IPv4, TCP and timestamps."""
STACK = "ns3"
BUFFER = "4MiB"
NS3_BUFFER = "131072B"
DROPTAIL_PACKETS, PFIFO_PACKETS = 100, 1000
EXAMPLE_MTU, EXAMPLE_DEVICE = 1458 + 52, 10
"""ns-3's example codel-vs-pfifo-basic-test: segments of 1,458 bytes, a device that takes 10 packets. A FIFO above it is
one longer FIFO."""
EXAMPLE: dict[str, Any] = {
    "mtu": EXAMPLE_MTU, "device": EXAMPLE_DEVICE, "packets": PFIFO_PACKETS + EXAMPLE_DEVICE,
}  # fmt: skip
START_SPREAD, JITTER = "100ms", "8us"

CUBIC: dict[str, Any] = {"name": "cubic", "variant": "linux-2.6.25", "fast_convergence": False}
"""The CUBIC module for ns-3.26 (Levasseur, Claypool and Kinicki, WNS3 2014): Linux 2.6.2x constants, β = 0.8; its
fast convergence has no effect, as W_max is overwritten right after it."""


def congestion_control(algorithm: str) -> Any:
    """What the paper calls NewReno or CUBIC."""
    return CUBIC if algorithm == "cubic" else algorithm


def queue(discipline: str, packets: int = DROPTAIL_PACKETS, device: int = DROPTAIL_PACKETS) -> dict[str, Any]:
    """A queue of the paper, with ns-3.27's defaults; CoDel lies above a device whose own queue takes `device`."""
    if discipline == "codel":
        return {"discipline": "codel", "variant": "ns-3.27", "device_packets": device}
    return {"discipline": "fifo", "limit_packets": packets}


def _flow(algorithm: str, name: str, mtu: int, buffer: str) -> tb.Flow:
    return tb.bulk(
        name=name,
        cc=congestion_control(algorithm),
        stack=STACK,
        mtu=f"{mtu}B",
        send_buffer=buffer,
        receive_buffer=buffer,
    )


def scenario(
    key: str,
    algorithm: str,
    discipline: str,
    delay_ms: int,
    *,
    flows: int = 1,
    rate: str = RATE,
    buffer: str = BUFFER,
    packets: int = DROPTAIL_PACKETS,
    device: int = DROPTAIL_PACKETS,
    mtu: int = SEGMENT_MTU,
) -> tb.Scenario:
    """One run of the paper. The bottleneck's delay is one way, so the round trip is twice it."""
    names = ["flow"] if flows == 1 else [f"flow-{number}" for number in range(1, flows + 1)]
    return tb.dumbbell(
        rate=rate,
        delay=f"{delay_ms}ms",
        queue=queue(discipline, packets, device),
        flows=[_flow(algorithm, name, mtu, buffer) for name in names],
        duration=f"{DURATION_S}s",
        name=key,
        randomness={"start_spread": START_SPREAD, "processing_jitter": JITTER},
        instruments={"polls": "all", "queue_polls": ["bottleneck"], "poll_interval": "100ms"},
    )


ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ns3-buffers": ("socket buffers of ns-3.27's default, 131,072 B", {"buffer": NS3_BUFFER}),
    "long-pfifo": ("PFIFO of 1,000 packets (the queue discipline) instead of 100 (the device)", {"packets": 1000}),
    "codel-alone": ("CoDel at the link itself, no device queue of 100 packets below it", {"device": 0}),
    "mtu-1500": ("segments of 1,448 B instead of 536 B", {"mtu": 1500}),
    "ns3-example": ("segments, disciplines and device of ns-3's example codel-vs-pfifo-basic-test", EXAMPLE),
}


def _cell(algorithm: str, discipline: str, delay: int, flows: int = 1, reading: str = "") -> Cell:
    """A cell as the paper has it, or under another reading."""
    title, change = ABLATIONS.get(reading, ("", {}))
    ten = flows == FLOWS
    # Ten flows with CoDel alone: there is no other discipline to compare it with.
    alone = ten and reading == "codel-alone"
    named = (reading or "one", "ten") if reading and ten else (reading or ("ten" if ten else "one"),)
    key = "-".join((*named, algorithm, *(() if alone else (discipline,)), f"{delay}ms"))
    queue = "CoDel at the link itself" if alone else TITLES[discipline]
    words = [f"{TITLES[algorithm]} × {queue}", *(["ten flows"] if ten else []), f"{delay} ms"]
    if reading and not alone:
        words.append("ns-3's example" if ten else title)
    factors = {"algorithm": algorithm, "queue": discipline, "delay_ms": delay}
    factors |= ({"ablation": reading} if reading else {}) | ({"flows": flows} if ten else {})
    made = scenario(key, algorithm, discipline, delay, flows=flows, rate=FAIR_RATE if ten else RATE, **change)
    cost = 1.0 if not ten else 3.0 if reading == "ns3-example" else 6.0
    return Cell(key, ", ".join(words), made, factors, role=ABLATION if reading else GRID, cost=cost)


def all_cells(quick: bool) -> list[Cell]:
    """The grid; `quick` leaves the ablations out."""
    pairs = [(algorithm, discipline) for algorithm in ALGORITHMS for discipline in QUEUES]
    cells = []
    if not quick:
        cells += [_cell(one, "codel", delay, FLOWS, "codel-alone") for one in ALGORITHMS for delay in FAIR_DELAYS_MS]
        cells += [_cell(*pair, delay, FLOWS, "ns3-example") for pair in pairs for delay in FAIR_DELAYS_MS]
    for pair in pairs:
        cells += [_cell(*pair, delay) for delay in DELAYS_MS]
        cells += [_cell(*pair, delay, FLOWS) for delay in FAIR_DELAYS_MS]
        if not quick:
            cells += [_cell(*pair, delay, 1, reading) for reading in ABLATIONS for delay in DELAYS_MS]
    return cells
