"""How soon a QUIC stack's program answers an ACK, and how far apart it sends the datagrams of one answer.

`python -m tailback_validation.answers KERNEL` runs each stack in a guest and in the simulator, and prints what
`DATAGRAM_US` of `standing` is rounded from.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

import tailback as tb
from tailback import vm
from tailback.result import Result

__all__ = ["Answers", "measure", "scenario"]

RATE_MBPS, RTT_MS = 25, 40
WARM_UP_ACKS = 20
"""Left out: the handshake and the first window."""
LONGEST_S = 500e-6
"""What leaves later answers the next ACK: full packets leave the bottleneck 480 µs apart."""
LONGEST_ACK = 200
"""Bytes."""


@dataclass(frozen=True)
class Answers:
    """Of a run's answers."""

    #: From an ACK's arrival at the sender's host to the first datagram, µs, median.
    first_us: float
    #: From one datagram to the next within an answer, µs, mean; 0 if no answer has two.
    apart_us: float
    #: Datagrams in an answer, mean.
    datagrams: float


def scenario(transport: str, *, is_beside: bool) -> tb.Scenario:
    """The stack alone or beside CUBIC at a queue of 0.3 BDP, with every packet of both directions recorded."""
    flows = [tb.flow("bulk", name="first", transport=transport)]
    if is_beside:
        flows.append(tb.bulk("cubic", name="second"))
    return tb.dumbbell(
        name="answers",
        rate=f"{RATE_MBPS}mbit",
        rtt=f"{RTT_MS}ms",
        queue="0.3bdp",
        flows=flows,
        duration="6s",
        instruments=tb.Instruments(queues=["bottleneck", "return"]),
    )


def measure(result: Result) -> Answers:
    """The answers of the first flow in a run of `scenario`."""
    queue = result.numpy("queue")
    data, back = (result.link_names.index(name) for name in ("bottleneck", "return"))
    own = queue["flow"] == 0
    sent = np.sort(queue["t_s"][own & (queue["link"] == data) & np.isin(queue["event"], (0, 2))])
    acks = own & (queue["link"] == back) & (queue["event"] == 1) & (queue["bytes"] < LONGEST_ACK)
    on_wire = queue["bytes"][acks] * 8 / (RATE_MBPS * 1e6)
    arrived = np.sort(queue["t_s"][acks] + on_wire + RTT_MS * 1e-3 / 2)[WARM_UP_ACKS:]
    answers = [sent[(sent >= at) & (sent < at + LONGEST_S)] - at for at in arrived]
    first = [float(answer[0]) for answer in answers if len(answer)]
    apart = [float(gap) for answer in answers for gap in np.diff(answer)]
    return Answers(
        first_us=1e6 * float(np.median(first)),
        apart_us=1e6 * float(np.mean(apart)) if apart else 0.0,
        datagrams=float(np.mean([len(answer) for answer in answers if len(answer)])),
    )


def main(kernel: str) -> None:
    """Measure and print."""
    print("stack       beside CUBIC  engine      first (us)  apart (us)  datagrams")
    for transport in ("quinn", "noq", "s2n-quic"):
        for is_beside in (False, True):
            what = scenario(transport, is_beside=is_beside)
            for engine, result in (("simulator", tb.run(what)), (kernel, vm.run(what, kernel=kernel))):
                found = measure(result)
                print(
                    f"{transport:11} {'yes' if is_beside else 'no':13} {engine:11} {found.first_us:10.0f} "
                    f"{found.apart_us:11.0f} {found.datagrams:10.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1])
