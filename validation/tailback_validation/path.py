"""The paths on which kernels and ns-2 were measured, as scenarios."""

from __future__ import annotations

from typing import Any

import tailback as tb

__all__ = ["FROM_S", "JITTER", "LIMIT_BYTES", "OFFSETS_MS", "UNTIL_S", "ensemble", "kernel_path", "ns2_path"]

LIMIT_BYTES = 100_000
"""One bandwidth-delay product."""
FROM_S, UNTIL_S = 20.0, 120.0
"""The 100 s of the averages: with these limits, the counts of reductions match their list."""

OFFSETS_MS = (0, 3, 7, 11, 16)
"""Later starts of the transfer against the call, for the ensemble."""
JITTER = "5us"
"""Variation of the kernel's times from run to run, a few microseconds by the measurements' README."""

_LIMITS = (LIMIT_BYTES - 1500, LIMIT_BYTES, LIMIT_BYTES + 1500)

NS2_FROM_S, NS2_UNTIL_S = 30.0, 180.0


def kernel_path(cc: str, *, start_ms: float = 500.0, limit_bytes: int = LIMIT_BYTES) -> tb.Scenario:
    """The kernel's path: a token bucket of one packet over a byte FIFO, each way, then the delay.

    The link itself is so fast that only the bucket shapes. The 12 µs each way are what the kernel's four hosts took:
    its smallest one-way delay was 40.012 ms. Its times vary by a few microseconds, and so do ours: otherwise CDG sees
    the same smallest RTT in each round trip, unlike on real hosts, and uses the largest instead. Any jitter from 1 to
    50 µs gives it the same goodput.

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
        # Off the polling grid, as otherwise every sample would follow a packet of the call.
        flows=[transfer, tb.voip(name="voip", start="7ms")],
        # One poll beyond the end.
        duration="120.52s",
        randomness=tb.Randomness(processing_jitter=JITTER),
        instruments=_instruments(),
    )


def ensemble(cc: str) -> list[tb.Scenario]:
    """The path with other starts and one packet more or less of queue, for the spread of a run.

    The path is deterministic, so seeds change nothing.
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
    """ns-2's path: DropTail in bytes without the packet in transmission, and the settings of `ns2.tcl`."""
    queue: dict[str, Any] = {"discipline": "fifo", "limit_bytes": LIMIT_BYTES, "accept": "ns2"}
    stack: dict[str, Any] = {
        "name": "ns2-sack",
        "initial_window": 10,
        "timestamps": True,
        "counting": "bytes" if cc in _NS2_COUNTS_BYTES else "per-ack",
        # Agent/TCP/Linux detects losses and counts packets in flight as Linux 2.6 did.
        "detection": "fack",
        "pipe": "scoreboard",
        "slow_start_at_equality": True,
        # Its flight decreases by one per packet sent, to min_cwnd, and it leaves recovery with a burst of at most 3.
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
