"""Two captures of the same traffic whose answer is known: made by hand, or by a run whose rows are the truth."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from test_captures_in import udp, write_pcap

import tailback as tb
from tailback import capture
from tailback.capture import CaptureError

A, B = b"\x0a\0\0\1", b"\x0a\0\0\2"
MS = 1_000_000


def packet(number: int, *, back: bool = False) -> bytes:
    ends = (B, A) if back else (A, B)
    return udp(*ends, 4000, 4000, struct.pack(">Q", number) + bytes(52), number)


def both(folder: Path, sent: list[tuple[int, int]], arrived: list[tuple[int, int]], **more) -> capture.Delays:
    """Packets by number at the first point and at the second, each with its stamp."""
    one = write_pcap(folder / "a.pcap", [(t, packet(number)) for t, number in sorted(sent)], nano=True)
    two = write_pcap(folder / "b.pcap", [(t, packet(number)) for t, number in sorted(arrived)], nano=True)
    return capture.owd(one, two, **more)


def test_packets_under_way_at_the_end_are_not_lost(tmp_path: Path):
    """Of twenty, 4 and 9 are lost, and the last five are still under way."""
    sent = [(10 * MS * n, n) for n in range(20)]
    arrived = [(t + 55 * MS, n) for t, n in sent if n not in (4, 9) and n < 15]
    found = both(tmp_path, sent, arrived, rows=True)
    assert found.table["lost"].to_list() == [2]
    assert found.table["appeared"].to_list() == [0]
    assert np.asarray(found.lost["t_ns"]).tolist() == [40 * MS, 90 * MS]
    assert found.info["outside"][0] + found.info["under_way"][0] == 5
    # A later packet of another flow says nothing of this one's.
    assert found.table["paired"].to_list() == [13]


def test_packets_that_left_before_the_second_capture_began_are_not_lost(tmp_path: Path):
    sent = [(10 * MS * n, n) for n in range(20)]
    arrived = [(t + 55 * MS, n) for t, n in sent if n >= 7]
    found = both(tmp_path, sent, arrived)
    assert (found.table["lost"][0], found.info["outside"]) == (0, [7, 0])


@pytest.mark.parametrize("first_ms", [20, 900])
def test_a_slow_first_packet_changes_no_count(tmp_path: Path, first_ms: int):
    """8 and 20 are overtaken, 12 and 30 arrive twice; clocks are aligned by the first packet, which may be slow."""
    sent = [(10 * MS * n, n) for n in range(100)]
    delays = dict.fromkeys(range(100), 20 * MS) | {0: first_ms * MS, 8: 33 * MS, 20: 47 * MS}
    arrived = [(t + delays[n], n) for t, n in sent] + [(t + 24 * MS, n) for t, n in sent if n in (12, 30)]
    found = both(tmp_path, sent, arrived)
    # The slow packet was overtaken itself.
    assert found.table["reordered"].to_list() == [2 + (first_ms == 900)]
    assert found.table["duplicated"].to_list() == [2]
    assert found.table["lost"].to_list() == found.table["appeared"].to_list() == [0]
    assert found.table["paired"].to_list() == [100]


def test_a_capture_with_each_packet_twice_counts_copies(tmp_path: Path):
    rows = [(10 * MS * n + d * MS, n) for n in range(20) for d in ((0, 3, 4) if n == 7 else (0,) if n == 9 else (0, 3))]
    path = write_pcap(tmp_path / "x.pcap", [(t, packet(n)) for t, n in sorted(rows)])
    found = capture.owd(path)
    assert found.table.select("paired", "lost", "duplicated", "reordered").row(0) == (19, 1, 1, 0)


def test_a_run_with_loss_copies_and_reordering_is_counted_as_its_rows_count_it(tmp_path: Path):
    """Stopped while the queue is full: what is in it was not lost."""
    wire = {"loss": 0.01, "duplicate": 0.01, "reorder": 0.02, "reorder_delay": "8ms"}
    flows = [tb.flow(app="udp-cbr", name=name, params={"rate": "6mbit"}) for name in ("cbr", "more")]
    bell = tb.dumbbell(rate="10mbit", rtt="40ms", queue="100packets", wire=wire, flows=flows, duration="3s")
    result = tb.run(bell.with_({"instruments.captures": ["left", "right"], "instruments.packets": "all"}))
    for point in ("left", "right"):
        capture.export(result, point, tmp_path / f"{point}.pcapng")
    found = capture.owd(tmp_path / "left.pcapng", tmp_path / "right.pcapng")
    packets = result.table("packets")
    for flow in range(2):
        mine = packets["flow"] == flow
        sent, received, fate = (packets[name][mine] for name in ("sent_s", "received_s", "fate"))
        last = sent[fate == 0].max()
        lost = int(((fate == 1) & (sent < last)).sum())
        under_way = int((sent > last).sum())
        order = np.argsort(received[fate == 0], kind="stable")
        overtaken = int((sent[fate == 0][order] < np.maximum.accumulate(sent[fate == 0][order])).sum())
        row = found.table.row(flow, named=True)
        assert (row["lost"], row["reordered"], row["paired"]) == (lost, overtaken, int((fate == 0).sum()))
        assert min(lost, overtaken, under_way, row["duplicated"]) > 0
        assert row["duplicated"] == result.table("flows")["packets_received"][flow] - row["paired"]


# --- Clocks -------------------------------------------------------------------------------------------------------


def clocked(folder: Path, ppm: float, queue_ms, seconds: int = 30) -> tuple[Path, Path]:
    """Datagrams both ways for so long; the second clock gains, and those to the second point wait in a queue."""
    first, second = [], []
    stream = np.random.default_rng(7)
    for number in range(40 * seconds):
        t = 25 * MS * number
        back = bool(number % 2)
        wait = 0.0 if back else queue_ms(t * 1e-9)
        got = t + 20 * MS + round((wait + stream.exponential(0.3)) * MS)
        (second if back else first).append((t, packet(number, back=back)))
        (first if back else second).append((got, packet(number, back=back)))
    clock = [(t + round(t * ppm * 1e-6), frame) for t, frame in sorted(second)]
    return write_pcap(folder / "a.pcap", sorted(first), nano=True), write_pcap(folder / "b.pcap", clock, nano=True)


def sawtooth(t_s: float) -> float:
    """A queue that a bulk flow fills and leaves, each time a little less deep."""
    return 30.0 * (t_s % 9.0) / 9.0 + 0.4 * t_s


def test_a_queue_that_fills_is_no_drift(tmp_path: Path):
    paths = clocked(tmp_path, 0.0, sawtooth)
    found = capture.owd(*paths)
    assert np.isnan(found.clocks.drift_ppm)
    assert found.clocks.drift_low_ppm < 0 < found.clocks.drift_high_ppm
    assert any("no drift that differs from 0" in note for note in found.notes)
    with pytest.raises(CaptureError, match=r"may be 0: it is between -.* ppm. Take the offset away alone"):
        capture.owd(*paths, correct="drift")


@pytest.mark.parametrize("ppm", [60.0, -60.0])
def test_drift_is_within_its_interval_and_taking_it_away_bends_no_delay(tmp_path: Path, ppm: float):
    paths = clocked(tmp_path, ppm, lambda t_s: 10.0 * (t_s % 3.0 > 1.5))
    found = capture.owd(*paths, rows=True, correct="drift")
    clocks = found.clocks
    assert clocks.drift_low_ppm < ppm < clocks.drift_high_ppm
    assert clocks.drift_ppm == pytest.approx(ppm, abs=6.0)
    assert clocks.drift_high_ppm - clocks.drift_low_ppm < 40.0
    (tmp_path / "true").mkdir()
    truth = capture.owd(*clocked(tmp_path / "true", 0.0, lambda t_s: 10.0 * (t_s % 3.0 > 1.5)), correct="offset")
    for name in ("min_ms", "p50_ms", "p95_ms", "max_ms"):
        assert found.table[name].to_list() == pytest.approx(truth.table[name].to_list(), abs=0.25), name


# --- Snap lengths -------------------------------------------------------------------------------------------------


def test_unequal_snap_lengths_are_paired_without_what_one_of_them_cut(tmp_path: Path):
    bell = tb.dumbbell(rate="5mbit", rtt="40ms", flows=[tb.bulk(), tb.voip()], duration="3s")
    result = tb.run(bell.with_({"instruments.captures": ["left", "right"]}))
    capture.export(result, "left", tmp_path / "left.pcapng")
    capture.export(result, "right", tmp_path / "right.pcapng", snap=60)
    capture.export(result, "right", tmp_path / "whole.pcapng")
    found = capture.owd(tmp_path / "left.pcapng", tmp_path / "right.pcapng")
    truth = capture.owd(tmp_path / "left.pcapng", tmp_path / "whole.pcapng")
    assert any("cut before TCP's timestamps" in note for note in found.notes)
    tcp = pl.col("name").str.ends_with("/tcp")
    assert found.table.filter(tcp).equals(truth.table.filter(tcp))


def test_headers_cut_too_short_are_not_blamed_on_address_translation(tmp_path: Path):
    rows = [(10 * MS * n, packet(n)) for n in range(20)]
    one = write_pcap(tmp_path / "a.pcap", rows)
    # Another flow's packets are whole.
    other = [(t, frame[:44]) for t, frame in rows] + [(500 * MS, udp(A, B, 9, 9, bytes(60), 1))]
    with pytest.raises(CaptureError, match="0 and 20 more were cut too short to be named: capture at least 96 bytes"):
        capture.owd(one, write_pcap(tmp_path / "b.pcap", other))
