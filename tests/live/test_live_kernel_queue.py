"""The kernel's own queues at a link of a live run."""

from __future__ import annotations

import pytest

import tailback as tb
from real_engines import needs_live
from tailback import live


@needs_live
@pytest.mark.parametrize("queue", ["pfifo", "fq_codel"])
def test_the_kernels_queue_carries_a_transfer_or_the_kernel_has_none(queue: str) -> None:
    limit = {"limit": "20packets"} if queue == "pfifo" else {}
    one = tb.dumbbell(
        rate="4mbit",
        rtt="20ms",
        queue={"discipline": f"kernel:{queue}", **limit},
        # Packets that follow no clock of the link's, so that drops come at every phase of a packet's time on the wire.
        flows=[tb.bulk("reno"), tb.voip(packet_size="1500B", interval="2.9ms")],
        duration="1s",
        instruments={"drops": ["bottleneck"]},
    )
    try:
        result = live.run(one)
    except tb.TailbackError as error:
        reported = str(error)
    else:
        reported = ""
    if reported:
        # What is loaded is up to the machine; the error says what to do about it.
        assert "this kernel has no" in reported
        assert "modprobe sch_" in reported
        return
    assert result.numpy("flows")["bytes_received"].sum() > 300_000
    if limit:
        # At each drop the queue was full. A packet let out up to 50 µs before the wire is free counts as waiting: that
        # makes some of these counts larger, and none smaller.
        assert min(result.numpy("queue")["backlog_packets"]) == 20
