"""What cards and kernels do to a capture, and what a point far from the sender sees."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from test_captures_in import ipv4, write_pcap

import tailback as tb
from tailback import capture

A, B = b"\x0a\0\0\1", b"\x0a\0\0\2"
MS = 1_000_000


def tcp(seq: int, payload: int, *, flags: int = 0x10, options: bytes = b"", ack: int = 1, back: bool = False) -> bytes:
    ports = (5001, 40000) if back else (40000, 5001)
    head = struct.pack(">HHIIBBHHH", *ports, seq, ack, (20 + len(options)) // 4 << 4, flags, 65535, 0, 0)
    ends = (B, A) if back else (A, B)
    return b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + ipv4(*ends, 6, head + options + bytes(payload), seq & 0xFFFF)


def test_loss_counts_segments_and_not_what_a_card_has_yet_to_cut(tmp_path: Path):
    """Forty packets of ten segments each, and four segments sent again: 4 of 404, not 4 of 44."""
    mss = struct.pack(">BBH", 2, 4, 1000)
    rows = [tcp(0, 0, flags=2, options=mss), tcp(0, 0, flags=0x12, options=mss, back=True)]
    rows += [tcp(1 + 10_000 * n, 10_000) for n in range(40)]
    rows += [tcp(1 + 10_000 * n, 1_000) for n in range(4)]
    path = write_pcap(tmp_path / "gso.pcap", [(MS * n, frame) for n, frame in enumerate(rows)])
    found = capture.flows(path)
    assert (found["data_packets"][0], found["data_segments"][0], found["retransmitted"][0]) == (44, 404, 4)
    assert found["loss"][0] == pytest.approx(4 / 404)
    assert capture.open_capture(path).table("flows")["segments_sent"][0] == 404


def test_round_trips_at_the_receiver_do_not_hold_the_wait_for_a_repair(tmp_path: Path):
    """What came after a loss is acknowledged with the repair, a round trip of 120 ms later."""
    bell = tb.dumbbell(
        rate="10mbit", rtt="120ms", queue="0.5bdp", wire={"loss": 0.003}, flows=[tb.bulk()], duration="8s"
    )
    result = tb.run(bell.with_({"instruments.captures": ["right"]}))
    capture.export(result, "right", tmp_path / "right.pcapng")
    row = capture.flows(tmp_path / "right.pcapng").row(0, named=True)
    assert row["repaired"] > 10
    # Only a delayed acknowledgement waits here.
    assert row["rtt_count"] > 100
    assert row["rtt_max_s"] < 0.05
