"""Captures out: what other programs read in a run's pcapng, against the run's own rows."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import tailback as tb
from pairs import assert_same_rows
from tailback.errors import ResultError, ScenarioError

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
#: At the sender nothing overtakes anything, so what tshark takes for out of order there was sent again.
SENT_AGAIN = (
    "tcp.analysis.retransmission or tcp.analysis.fast_retransmission or tcp.analysis.spurious_retransmission"
    " or tcp.analysis.out_of_order"
)


def tshark(path, *words):
    done = subprocess.run(["tshark", "-r", path, *words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def run(points, *flows, duration="6s", **fields):
    bell = tb.dumbbell(rate="10mbit", rtt="40ms", flows=list(flows), duration=duration, **fields)
    return tb.run(bell.with_({"instruments.captures": points, "instruments.packets": "all"}))


def sent_again(result, point):
    """Numbers of the point's frames that repeat an earlier one, as tshark counts them, by the simulator's word."""
    wire, headers = result.table("wire"), result.table("headers")
    rows = wire["header"][wire["point"] == tb.capture.points(result).index(point)]
    repeated = headers["repeated"][rows].copy()
    seen = set()
    for frame in np.flatnonzero(headers["flags"][rows] & 2):
        key = (int(headers["connection"][rows[frame]]), bool(headers["reverse"][rows[frame]]))
        repeated[frame] |= key in seen
        seen.add(key)
    return set((np.flatnonzero(repeated) + 1).tolist())


@needs_tshark
@pytest.mark.parametrize(
    "wire",
    [{}, {"loss": 0.05}, {"reorder": 0.02, "reorder_delay": "30ms"}, {"duplicate": 0.05}, {"loss": 0.2}],
    ids=["queue", "loss", "reordering", "duplicates", "timeouts"],
)
def test_tshark_finds_exactly_the_retransmissions_the_simulator_made(tmp_path, wire):
    result = run(["left"], tb.bulk(cc="cubic", stop="5s"), queue="0.5bdp", wire=wire)
    tb.capture.export(result, "left", tmp_path / "left.pcapng")
    frames = tshark(tmp_path / "left.pcapng", "-Y", SENT_AGAIN, "-T", "fields", "-e", "frame.number")
    mine = sent_again(result, "left")
    assert {int(frame) for frame in frames} == mine
    assert len(mine) >= result.table("flows")["segments_retransmitted"][0] > 0


@needs_tshark
def test_every_checksum_is_right_and_nothing_is_malformed(tmp_path):
    stack = {"name": "linux", "params": {"ecn": True}}
    flows = [tb.bulk(cc="cubic", stack=stack, stop="2s"), tb.voip(), tb.flow(app="ping"), tb.flow(app="udp-cbr")]
    result = run(["left", "bottleneck.out"], *flows, queue={"discipline": "codel", "ecn": True}, duration="3s")
    for path in tb.capture.export_all(result, tmp_path):
        on = [word for what in ("tcp", "ip", "udp") for word in ("-o", f"{what}.check_checksum:TRUE")]
        # Status 0 is "bad"; an error of the expert has severity 0x800000.
        wrong = " or ".join(f"{what}.checksum.status == 0" for what in ("tcp", "ip", "udp", "icmp"))
        bad = tshark(path, *on, "-Y", f"_ws.malformed or {wrong} or _ws.expert.severity >= 0x800000")
        assert bad == []
    assert result.table("links")["marked"][0] > 0
    marked = tshark(tmp_path / "bottleneck.out.pcapng", "-Y", "ip.dsfield.ecn == 3")
    assert len(marked) == result.table("links")["marked"][0]


@needs_tshark
def test_options_are_those_the_ends_agreed_on(tmp_path):
    flows = [
        tb.bulk(stack="linux"),
        tb.bulk(stack={"name": "linux", "params": {"timestamps": False, "sack": False, "window_scaling": False}}),
    ]
    result = run(["right"], *flows, duration="1s")
    tb.capture.export(result, "right", tmp_path / "right.pcapng")
    fields = ("tcp.options.mss_val", "tcp.options.wscale.shift", "tcp.options.sack_perm", "tcp.options.timestamp.tsval")
    words = [word for field in fields for word in ("-e", field)]
    first, second = sorted(
        set(tshark(tmp_path / "right.pcapng", "-Y", "tcp.flags.syn==1 and tcp.flags.ack==0", "-T", "fields",
                   "-e", "ip.src", *words))
    )  # fmt: skip
    assert first.split("\t")[:4] == ["10.0.0.1", "1460", "7", "0402"]
    assert second.split("\t") == ["10.0.1.1", "1460", "", "", ""]


@needs_tshark
def test_stamps_are_those_of_the_rows_to_the_nanosecond(tmp_path):
    result = run(["left", "right"], tb.voip(params={"calls": 3}), duration="2s")
    tb.capture.export_all(result, tmp_path)

    def seen(point):
        words = ("-d", "udp.port==16384-16390,rtp", "-T", "fields")
        keys = ("-e", "ip.id", "-e", "frame.time_epoch", "-e", "rtp.ssrc", "-e", "rtp.seq")
        rows = [line.split("\t") for line in tshark(tmp_path / f"{point}.pcapng", *words, *keys)]
        assert all(len(row) == 4 and row[2] and row[3] for row in rows)
        return {row[0]: int(row[1].replace(".", "")) for row in rows}

    left, right = seen("left"), seen("right")
    packets = result.table("packets")
    mine = np.round((packets["received_s"] - packets["sent_s"]) * 1e9)[packets["fate"] == 0]
    theirs = [right[key] - left[key] for key in left if key in right]
    assert len(theirs) == len(mine) >= 290
    # Stamps are whole nanoseconds below the instant: a difference of two is off by less than one.
    assert np.abs(np.array(theirs) - mine).max() <= 1


def test_a_bare_link_means_both_sides_and_all_means_everything():
    points = {"captures": ["bottleneck", "left"]}
    both = tb.dumbbell(rate="1mbit", rtt="40ms", flows=[tb.voip()], duration="1s", instruments=points)
    assert both.resolve()["instruments"]["captures"] == ["bottleneck.in", "bottleneck.out", "left"]
    every = both.with_({"instruments.captures": "all"}).resolve()["instruments"]["captures"]
    assert every == ["left", "right", "bottleneck.in", "bottleneck.out", "return.in", "return.out"]
    with pytest.raises(ScenarioError, match=r"no node or link bottleneck\.on"):
        both.with_({"instruments.captures": ["bottleneck.on"]}).resolve()


def test_captures_change_nothing_else():
    flows = [tb.bulk(cc="cubic"), tb.voip()]
    plain = tb.dumbbell(rate="5mbit", rtt="30ms", flows=flows, duration="3s", instruments={"packets": "all"})
    without, having = tb.run(plain), tb.run(plain.with_({"instruments.captures": "all"}))
    assert_same_rows(without, having, without.tables)


def test_a_point_that_was_not_captured_is_named(tmp_path):
    result = run(["left"], tb.voip(), duration="1s")
    with pytest.raises(ResultError, match=r'nothing was captured at "lefd"\. Did you mean "left"\?'):
        tb.capture.export(result, "lefd", tmp_path / "x.pcapng")
    silent = tb.run(tb.dumbbell(rate="1mbit", rtt="40ms", flows=[tb.voip()], duration="1s"))
    with pytest.raises(ResultError, match="captures = "):
        tb.capture.export(silent, "left", tmp_path / "x.pcapng")
    assert list(tmp_path.iterdir()) == []


def test_snap_length_cuts_frames_and_keeps_their_lengths(tmp_path):
    result = run(["left"], tb.bulk(), duration="1s")
    whole, cut = tmp_path / "whole.pcapng", tmp_path / "cut.pcapng"
    assert tb.capture.export(result, "left", whole) == tb.capture.export(result, "left", cut, snap=96)
    assert cut.stat().st_size < whole.stat().st_size / 4
