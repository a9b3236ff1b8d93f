"""The paths on which kernels and ns-2 were measured, as scenarios."""

from __future__ import annotations

from typing import Any

import tailback as tb

__all__ = ["FROM_S", "JITTER", "LIMIT_BYTES", "OFFSETS_MS", "UNTIL_S", "ensemble", "kernel_path", "ns2_path"]

LIMIT_BYTES = 100_000
"""One bandwidth-delay product."""
FROM_S, UNTIL_S = 20.0, 120.0
"""The 100 s the truth averages over: its counts of reductions follow from its list of them with these limits."""

OFFSETS_MS = (0, 3, 7, 11, 16)
"""Later starts of the transfer against the call, for the ensemble."""
JITTER = "5us"
"""How far the kernel's times wander from run to run, by the truth's README: a few microseconds."""

_LIMITS = (LIMIT_BYTES - 1500, LIMIT_BYTES, LIMIT_BYTES + 1500)

NS2_FROM_S, NS2_UNTIL_S = 30.0, 180.0


def kernel_path(cc: str, *, start_ms: float = 500.0, limit_bytes: int = LIMIT_BYTES) -> tb.Scenario:
    """The kernel's path: a token bucket of one packet over a byte FIFO, each way, then the delay.

    The link itself is so fast that only the bucket shapes. The 12 µs each way are what the kernel's four hosts
    took: its smallest one-way delay was 40.012 ms. Its times wander by a few microseconds, and so do ours: without
    that, CDG finds the same smallest RTT in each round trip, which no real host does, and asks the largest instead.
    Any jitter from 1 to 50 µs gives it the same goodput.

    >>> kernel_path("reno").link_names
    ['bottleneck', 'return']
    """
    shaper: dict[str, Any] = {
        "discipline": "token_bucket",
        "rate_bps": 10_000_000,
        "burst": 1600,
        "limit_bytes": limit_bytes,
    }
    transfer = tb.bulk(
        cc,
        name="bulk",
        stack="linux",
        start=f"{round(start_ms * 1000)}us",
        stop="120.5s",
        # The kernel's (tcp_wmem, tcp_rmem); neither limits the window.
        send_buffer="4MiB",
        receive_buffer="4MiB",
    )
    return tb.dumbbell(
        name=f"kernel-{cc}",
        rate="100gbit",
        delay="40.012ms",
        queue=shaper,
        back_queue=shaper,
        # Not on the grid of the polls, or every sample would find a packet of the call just arrived.
        flows=[transfer, tb.voip(name="voip", start="7ms")],
        # One poll beyond the end.
        duration="120.52s",
        randomness=tb.Randomness(processing_jitter=JITTER),
        instruments=_instruments(),
    )


def ensemble(cc: str) -> list[tb.Scenario]:
    """The path again with other starts and one packet more or less of queue: the run's own spread.

    Nothing on the path is random, so seeds change nothing.
    """
    return [
        kernel_path(cc, start_ms=500.0 + offset, limit_bytes=limit)
        for limit in _LIMITS
        for offset in OFFSETS_MS
        if (offset, limit) != (0, LIMIT_BYTES)
    ]


_NS2_HZ = 1000
_NS2_ALGORITHMS: dict[str, dict[str, Any]] = {
    "htcp": {"variant": "linux-2.6.22", "hz": _NS2_HZ},
    "cubic": {"variant": "linux-2.6.25", "hz": _NS2_HZ},
    "bic": {"hz": _NS2_HZ},
    "westwood": {"hz": _NS2_HZ},
    "scalable": {"variant": "linux-2.6.25"},
    "vegas": {"variant": "linux-2.6.25"},
    "hybla": {"variant": "linux-2.6.25"},
    "illinois": {"variant": "linux-2.6.22"},
    "compound": {"variant": "ns2"},
}
"""ns-2.35 carries the modules of Linux 2.6.22; its clock counts milliseconds."""

_NS2_COUNTS_BYTES = ("reno", "westwood")
"""Algorithms that share ns-2's Reno growth, which counts acknowledged bytes; the other modules count ACKs."""


def ns2_path(cc: str, *, delayed_ack: bool) -> tb.Scenario:
    """ns-2's path: its DropTail in bytes, the packet on the wire not counted, and what `ns2.tcl` sets."""
    queue: dict[str, Any] = {"discipline": "fifo", "limit_bytes": LIMIT_BYTES, "accept": "ns2"}
    stack: dict[str, Any] = {
        "name": "ns2-sack",
        "initial_window": 10,
        "timestamps": True,
        "counting": "bytes" if cc in _NS2_COUNTS_BYTES else "per-ack",
        # Agent/TCP/Linux judges losses, and counts what is in flight, as Linux 2.6 did.
        "detection": "fack",
        "pipe": "scoreboard",
        "slow_start_at_equality": True,
        # Its flight comes down by one for each packet sent, to min_cwnd, and it leaves with a burst of at most 3.
        "reduction": "rate-halving",
        "max_burst": 3,
        "clock_tick": "1ms",
        "ack_every": 2 if delayed_ack else 1,
        "delayed_ack": "40ms",
    }
    if not delayed_ack:
        del stack["delayed_ack"]
    transfer = tb.bulk(
        {"name": cc} | _NS2_ALGORITHMS.get(cc, {}),
        name="bulk",
        stack=stack,
        start="500ms",
        send_buffer="64MiB",
        receive_buffer="64MiB",
    )
    return tb.dumbbell(
        name=f"ns2-{cc}",
        rate="10mbit",
        rtt="80ms",
        queue=queue,
        back_queue=queue,
        flows=[transfer, tb.voip(name="voip")],
        duration="180s",
        instruments=_instruments(),
    )


def _instruments() -> tb.Instruments:
    return tb.Instruments(
        polls=["bulk"],
        queue_polls=["bottleneck"],
        poll_interval="20ms",
        drops=["bottleneck"],
        packets=["voip"],
    )
