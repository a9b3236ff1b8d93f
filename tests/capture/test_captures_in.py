"""Captures in: what is read, against the run's own rows and against tshark and tcptrace on the same files."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
import subprocess

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tailback as tb
from command import tailback
from tailback import capture, metrics, report
from tailback.capture import CaptureError


def needs(*names):
    absent = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


def output(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with a download, a call and pings, and its captures at both hosts."""
    folder = tmp_path_factory.mktemp("captures")
    flows = [tb.bulk(cc="cubic", stop="7s"), tb.voip(), tb.flow(app="ping", params={"interval": 100})]
    bell = tb.dumbbell(rate="10mbit", rtt="40ms", queue="0.5bdp", wire={"loss": 0.001}, flows=flows, duration="8s")
    points = ["left", "right", "bottleneck.in", "bottleneck.out"]
    result = tb.run(bell.with_({"instruments.captures": points, "instruments.packets": "all",
                                "instruments.segments": "all", "instruments.echoes": "all"}))  # fmt: skip
    paths = {point: folder / f"{point}.pcapng" for point in points}
    for point, path in paths.items():
        capture.export(result, point, path)
    return result, paths


# --- Against the run's own rows -----------------------------------------------------------------------------------


def test_flows_are_counted_as_the_run_counted_them(made):
    result, paths = made
    truth = result.table("flows")
    for point in ("left", "right"):
        found = capture.flows(paths[point])
        assert found["client"].to_list() == ["10.0.0.1", "10.0.1.1", "10.0.2.1"]
        sent = truth["packets_sent"] if point == "left" else truth["packets_received"]
        assert found["packets"].to_list() == sent.tolist()
        # Every repetition arrives here (a loss of one would be a miss), and is known for one at either end.
        lost_again = truth["segments_retransmitted"][0] - found["retransmitted"][0]
        assert lost_again == 0 if point == "left" else 0 <= lost_again <= 2
        assert found["out_of_order"].to_list() == [0, 0, 0]
    assert found["mss"][0] == 1460
    assert found["sack"][0] == found["timestamps"][0] == 1


def test_one_way_delays_are_the_rows_to_the_nanosecond(made):
    result, paths = made
    for points in (("left", "right"), ("bottleneck.in", "bottleneck.out")):
        found = capture.owd(*(paths[point] for point in points), rows=True)
        packets = result.table("packets")
        for flow in range(3):
            own = (found.pairs["flow"] == flow) & ~found.pairs["reverse"]
            mine = np.sort(found.pairs["b_ns"][own].astype(np.int64) - found.pairs["a_ns"][own].astype(np.int64))
            rows = (packets["flow"] == flow) & (packets["fate"] == 0)
            theirs = np.sort(np.round((packets["received_s"] - packets["sent_s"])[rows] * 1e9))
            assert len(mine) == len(theirs)
            # Both stamps are whole nanoseconds below their instants.
            assert np.abs(mine - theirs).max() <= 1
        reported = found.table.filter(pl.col("from_to") == "A>B")
        assert reported["lost"].to_list() == [
            int((packets["fate"][packets["flow"] == flow] == 1).sum()) for flow in range(3)
        ]
        assert reported["duplicated"].sum() == reported["reordered"].sum() == 0


def test_a_capture_that_holds_each_packet_twice_is_paired_with_itself(made, tmp_path):
    result, paths = made
    if shutil.which("mergecap") is None:
        pytest.skip("mergecap is not installed")
    both = tmp_path / "both.pcapng"
    subprocess.run(["mergecap", "-w", both, paths["bottleneck.in"], paths["bottleneck.out"]], check=True)
    alone, apart = capture.owd(both), capture.owd(paths["bottleneck.in"], paths["bottleneck.out"])
    columns = ["name", "paired", "lost", "p50_ms", "p95_ms", "max_ms"]
    # At the end some are still under way, and lost to neither.
    assert alone.table.select(columns).equals(apart.table.select(columns))
    assert len(alone.table) == len(result.flow_names)


def test_another_clock_is_found_and_taken_away(made, tmp_path):
    _, paths = made
    if shutil.which("editcap") is None:
        pytest.skip("editcap is not installed")
    late = tmp_path / "late.pcapng"
    subprocess.run(["editcap", "-t", "1234.5", paths["right"], late], check=True)
    found = capture.owd(paths["left"], late, correct="offset")
    assert found.clocks.offset_s == pytest.approx(1234.5, abs=1e-4)
    plain = capture.owd(paths["left"], paths["right"], correct="offset")
    assert found.table["p50_ms"].to_list() == pytest.approx(plain.table["p50_ms"].to_list(), abs=1e-3)
    negative = capture.owd(late, paths["left"])
    assert any("negative" in note for note in negative.notes)


def test_drift_is_found(tmp_path):
    """A second clock that gains 50 ppm, over twelve seconds of datagrams both ways."""
    first, second = [], []
    for number in range(1200):
        t = 10_000_000 * number
        gained = t * 50 // 1_000_000
        back = number % 2
        ends = (b"\x0a\0\0\2", b"\x0a\0\0\1") if back else (b"\x0a\0\0\1", b"\x0a\0\0\2")
        frame = udp(*ends, 5000, 5000, struct.pack(">Q", number) + bytes(20), number)
        sent, got = t, t + 20_000_000 + number * 7919 % 100_000
        (second if back else first).append((sent + (gained if back else 0), frame))
        (first if back else second).append((got + (0 if back else gained), frame))
    for name, rows in (("a", first), ("b", second)):
        write_pcap(tmp_path / f"{name}.pcap", sorted(rows), nano=True)
    found = capture.owd(tmp_path / "a.pcap", tmp_path / "b.pcap", rows=True, correct="drift")
    assert found.clocks.drift_ppm == pytest.approx(50.0, abs=0.5)
    assert found.table["max_ms"].max() - found.table["min_ms"].min() < 0.12


def test_spp_gives_the_round_trip_without_the_delayed_ack():
    from tailback.metrics.pairs import pair_up

    # OUT leaves at 0, reaches the other point 30 later; IN leaves there 15 later and arrives at 80; clocks 1000 apart.
    _, values = pair_up(np.array([0.0]), np.array([1030.0]), np.array([80.0]), np.array([1045.0]))
    assert values.tolist() == [65.0]


def test_synthetic_pairs_are_those_of_the_rows(made):
    result, paths = made
    samples = capture.rtt(paths["left"], paths["right"], flow=0).filter(pl.col("direction") == "A>B")["rtt_s"]
    _, truth = metrics.synthetic_packet_pairs(result, 0)
    assert np.quantile(samples, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(truth, [0.1, 0.5, 0.9]), rel=0.01)


def test_throughput_adds_up(made):
    result, paths = made
    bins = capture.throughput(paths["left"], bin_s=0.5, by="host").filter(pl.col("who") == "10.0.0.1")
    assert bins["bytes"].sum() == result.table("flows")["bytes_sent"][0]
    packets = result.table("packets")
    mine = packets["flow"] == 0
    truth, _ = np.histogram(packets["sent_s"][mine], np.arange(0.0, 8.5, 0.5), weights=packets["bytes"][mine])
    assert bins["bytes"].to_list() == [int(count) for count in truth if count]


def test_the_estimated_window_follows_the_senders(made):
    result, paths = made
    found = capture.window(paths["left"])
    segments = result.where_flow("segments", 0)
    own = segments["outgoing"] & ~segments["at_receiver"] & (segments["length"] > 0) & (segments["phase"] == 0)
    mine = np.interp(segments["t_s"][own], found.sent["t_s"].to_numpy(), found.sent["cwnd"].to_numpy().astype(float))
    steady = segments["t_s"][own] > 1.0
    ratio = mine[steady] / segments["cwnd"][own][steady]
    assert 0.9 < np.median(ratio) < 1.1
    counts = dict(found.sent.group_by("what").len().iter_rows())
    assert counts["repeated"] == result.table("flows")["segments_retransmitted"][0]


# --- A third source of rows ---------------------------------------------------------------------------------------


def test_a_pair_opens_as_a_result_that_everything_works_on(made, tmp_path):
    result, paths = made
    opened = capture.open_capture(paths["left"], paths["right"])
    opened.save(tmp_path / "measured")
    again = tb.open_result(tmp_path / "measured")
    assert again.meta["capture"]["inferred"][0].startswith("cwnd")
    assert "one-way delays" in again.meta["capture"]["measured"]
    call = again.flow_names[1]
    truth = metrics.delay_quantiles(result, "voip", (0.5, 0.95), induced=False)
    assert metrics.delay_quantiles(again, call, (0.5, 0.95), induced=False) == pytest.approx(truth, abs=2e-9)
    assert metrics.voice_quality(again, call).mos == pytest.approx(metrics.voice_quality(result, "voip").mos, abs=1e-6)
    assert metrics.jitter(again, call) == pytest.approx(metrics.jitter(result, "voip"), abs=2e-9)
    echoes = np.sort(again.table("echoes")["rtt_s"])
    assert np.abs(echoes - np.sort(result.table("echoes")["rtt_s"])).max() < 2e-9
    assert again.table("flows")["segments_retransmitted"][0] == result.table("flows")["segments_retransmitted"][0]
    page = report.write(again, tmp_path / "measured.html").read_text()
    assert "captured" in page
    assert "inferred" in page
    for words in (["show"], ["plot", "--figure", "delay-cdf", "--out", tmp_path / "cdf.png"]):
        done = tailback(*words, tmp_path / "measured")
        assert done.code == 0, done.err
    capture.open_capture(paths["left"], paths["right"], correct="offset").save(tmp_path / "corrected")
    done = tailback("compare", tmp_path / "measured", tmp_path / "corrected")
    assert done.code == 0, done.err


def test_recoveries_are_inferred_where_the_sender_had_them(made):
    result, paths = made
    opened = capture.open_capture(paths["left"])
    truth = result.table("congestion")
    entered = truth["t_s"][truth["kind"] == 0]
    found = opened.table("congestion")
    inferred = found["t_s"][found["kind"] == 0]
    near = [t for t in inferred if np.abs(entered - t).min() < 0.01]
    assert len(near) >= 0.8 * len(entered) > 0


def test_calls_are_found_and_rated(made):
    result, paths = made
    alone = capture.voip(paths["right"])
    call = alone.filter(pl.col("flow").str.starts_with("10.0.1.1"))
    # Of the whole call, as the metric, and not what RFC 3550's filter holds at its end.
    assert call["jitter_ms"][0] == pytest.approx(1e3 * metrics.jitter(result, "voip"), abs=0.13)
    assert call["packets"][0] + call["lost"][0] in (398, 399, 400)
    assert call["interval_ms"][0] == pytest.approx(20.0, abs=1.0)


@pytest.mark.parametrize(("first", "second"), [("left", "right"), ("right", "left")])
def test_a_calls_figures_are_of_transit_times_whichever_capture_comes_first(made, first, second):
    result, paths = made
    truth = metrics.voice_quality(result, "voip")
    both = capture.voip(paths[first], paths[second]).filter(pl.col("flow").str.starts_with("10.0.1.1"))
    opened = capture.open_capture(paths[first], paths[second])
    heard = metrics.voice_quality(opened, both["flow"][0])
    assert [1e-3 * both["jitter_ms"][0], heard.jitter_s] == pytest.approx([truth.jitter_s] * 2, abs=2e-9)
    assert [both["mos"][0], heard.mos] == pytest.approx([truth.mos] * 2, abs=1e-2)
    assert {row["count"] for row in opened.experience_summary() if row["measure"] == "delay"} == {399}


def test_two_captures_of_a_lossy_path_have_the_runs_loss_goodput_and_opinion_score(tmp_path):
    # With this seed the first and the last packet arrive: two captures do not show their loss.
    bell = tb.dumbbell(rate="10mbit", rtt="40ms", wire={"loss": 0.1}, flows=[tb.voip()], duration="10s", seed=2,
                       instruments={"captures": ["left", "right"], "packets": "all"})  # fmt: skip
    result = tb.run(bell)
    capture.export_all(result, tmp_path)
    ends = [tmp_path / f"{point}.pcapng" for point in ("left", "right")]
    opened, truth = capture.open_capture(*ends), metrics.voice_quality(result, 0)
    assert metrics.flow_loss_rate(opened, 0) == truth.loss
    # The capture's last packet is sent 20 ms before the run ends.
    assert metrics.goodput(opened, 0) == pytest.approx(metrics.goodput(result, 0), rel=4e-3)
    assert capture.voip(*ends)["mos"][0] == pytest.approx(truth.mos, rel=1e-9)


@pytest.mark.parametrize("correct", ["none", "offset"])
def test_calls_of_two_captures_are_the_same_in_either_order(tmp_path, correct):
    # One call each way beside a filling queue; neither begins with the capture.
    away = {"from": "right", "to": "left"}
    flows = [tb.bulk(start="3s"), tb.voip(start="1s"), tb.voip(name="back", start="2s", **away)]
    bell = tb.dumbbell(rate="2mbit", rtt="60ms", queue="200ms", flows=flows, duration="14s",
                       instruments={"captures": ["left", "right"], "packets": "all"})  # fmt: skip
    result = tb.run(bell)
    capture.export_all(result, tmp_path)
    ends = [tmp_path / f"{point}.pcapng" for point in ("left", "right")]
    found = capture.voip(*ends, correct=correct)
    assert_frame_equal(capture.voip(*reversed(ends), correct=correct), found)
    # Each is counted where it was sent.
    sent = [int((result.numpy("packets")["flow"] == flow).sum()) for flow in (1, 2)]
    assert found["packets"].to_list() == sent
    assert found["mos"][0] < 4.2 < found["mos"][1]


def test_one_capture_of_a_call_says_what_it_cannot_know(made):
    _, paths = made
    done = tailback("pcap", "voip", paths["left"])
    assert "jitter supposes even sending times" in done.err


# --- Against other programs ---------------------------------------------------------------------------------------


@needs("tshark", "editcap")
def test_tshark_counts_the_same(made):
    _, paths = made
    for point in ("left", "right"):
        found = capture.flows(paths[point])
        lines = output("tshark", "-r", paths[point], "-T", "fields", "-e", "ip.src", "-e", "frame.len").splitlines()
        theirs = {}
        for source, length in (line.split("\t") for line in lines):
            theirs[source] = theirs.get(source, 0) + int(length) - 14
        for row in found.iter_rows(named=True):
            assert theirs[row["client"]] == row["bytes"]
            assert theirs.get(row["server"], 0) == row["back_bytes"]
    field = "tcp.analysis.bytes_in_flight"
    lines = output("tshark", "-r", paths["left"], "-Y", "tcp.len > 0", "-T", "fields", "-e", field).splitlines()
    theirs = np.array([int(line) for line in lines])
    rows = capture.read(paths["left"], segments=True, only=[0]).segments
    data = rows["length"] > 0
    # tshark takes away only the blocks of the latest ACK, three at most: where none are, both are the same.
    plain = data & (rows["in_flight"] == rows["outstanding"])
    assert (rows["in_flight"][plain] == theirs[plain[data]]).all()
    assert (rows["outstanding"][data] == theirs).mean() > 0.9


@needs("tcptrace", "editcap")
def test_tcptrace_takes_the_same_rtt_samples(made, tmp_path):
    _, paths = made
    plain = tmp_path / "left.pcap"
    subprocess.run(["editcap", "-F", "pcap", paths["left"], plain], check=True)
    text = output("tcptrace", "-r", "-l", "-n", plain)

    def figure(name):
        # Of the whole connection first, if at all; then a column a direction.
        return float(re.findall(rf"^\s+{name}:\s+([\d.]+)\s", text, re.MULTILINE)[-1])

    row = capture.flows(plain).filter(pl.col("protocol") == 6).row(0, named=True)
    assert row["packets"] == figure("total packets")
    assert row["retransmitted"] == figure("rexmt data pkts")
    assert row["out_of_order"] == figure("outoforder pkts")
    # tcptrace counts the handshake's sample too, and its millisecond has one decimal.
    assert row["rtt_count"] == pytest.approx(figure("RTT samples"), abs=2)
    assert 1e3 * row["rtt_min_s"] == pytest.approx(figure("RTT min"), abs=0.1)
    assert 1e3 * row["rtt_max_s"] == pytest.approx(figure("RTT max"), abs=0.1)
    assert 1e3 * row["rtt_mean_s"] == pytest.approx(figure("RTT avg"), abs=0.1)


# --- Formats ------------------------------------------------------------------------------------------------------


def ipv4(source, target, protocol, payload, number=0, offset=0, more=False):
    flags = (0x2000 if more else 0) | offset // 8
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), number & 0xFFFF, flags, 64, protocol, 0, source, target
    )
    return head + payload


def udp(source, target, from_port, to_port, payload, number=0, kind=0x0800):
    body = struct.pack(">HHHH", from_port, to_port, 8 + len(payload), 0) + payload
    return b"\2\0\0\0\0\2\2\0\0\0\0\1" + struct.pack(">H", kind) + ipv4(source, target, 17, body, number)


def write_pcap(path, rows, *, nano=False, order="<", link=1):
    data = struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for t_ns, frame in rows:
        second, rest = divmod(t_ns, 10**9)
        data += struct.pack(order + "IIII", second, rest if nano else rest // 1000, len(frame), len(frame)) + frame
    path.write_bytes(data)
    return path


A, B = b"\x0a\0\0\1", b"\x0a\0\0\2"


def frames(count=20):
    return [(1_000_000 * n, udp(A, B, 4000, 5000, struct.pack(">Q", n) + bytes(52), n)) for n in range(count)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_pcap_of_either_order_and_resolution(tmp_path, order, nano):
    found = capture.flows(write_pcap(tmp_path / "x.pcap", frames(), nano=nano, order=order))
    assert found["packets"].to_list() == [20]
    assert found["name"][0] == "10.0.0.1:4000>10.0.0.2:5000/udp"
    assert found["duration_s"][0] == pytest.approx(0.019)


def test_compressed_captures(tmp_path):
    plain = write_pcap(tmp_path / "x.pcap", frames())
    (tmp_path / "x.pcap.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert capture.flows(tmp_path / "x.pcap.gz")["packets"].to_list() == [20]
    import pyarrow as pa

    (tmp_path / "x.zst").write_bytes(pa.compress(plain.read_bytes(), codec="zstd", asbytes=True))
    assert capture.flows(tmp_path / "x.zst")["packets"].to_list() == [20]


def test_links_vlan_and_ipv6(tmp_path):
    inner = udp(A, B, 4000, 5000, b"x" * 60)[14:]
    vlan = b"\2\0\0\0\0\2\2\0\0\0\0\1" + struct.pack(">HHHH", 0x88A8, 5, 0x8100, 7) + struct.pack(">H", 0x0800) + inner
    body = struct.pack(">HHHH", 4000, 5000, 68, 0) + b"y" * 60
    six = struct.pack(">IHBB", 6 << 28, len(body), 17, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + body
    cooked = struct.pack(">HHH8sH", 0, 1, 6, bytes(8), 0x0800) + inner
    cooked2 = struct.pack(">HHIHBB8s", 0x0800, 0, 1, 1, 0, 6, bytes(8)) + inner
    null = struct.pack("<I", 2) + inner
    for name, link, frame in (
        ("vlan", 1, vlan), ("raw", 101, inner), ("raw6", 101, six), ("sll", 113, cooked), ("sll2", 276, cooked2),
        ("null", 0, null),
    ):  # fmt: skip
        found = capture.flows(write_pcap(tmp_path / f"{name}.pcap", [(0, frame)], link=link))
        assert (found["packets"][0], found["client_port"][0]) == (1, 4000), name
        assert found["payload"][0] == 60, name
    assert capture.flows(tmp_path / "raw6.pcap")["client"][0] == "::1"


def test_fragments_belong_to_the_flow_of_the_first(tmp_path):
    whole = struct.pack(">HHHH", 4000, 5000, 1608, 0) + bytes(1600)
    head = b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0"
    first = ipv4(A, B, 17, whole[:800], 7, 0, more=True)
    others = [ipv4(A, B, 17, whole[800:], number, 800) for number in (7, 9)]
    rows = [(1000 * place, head + packet) for place, packet in enumerate([first, *others])]
    found = capture.read(write_pcap(tmp_path / "f.pcap", rows))
    assert found.flows["packets"].to_list() == [2]
    assert found.flows["name"][0] == "10.0.0.1:4000>10.0.0.2:5000/udp"
    assert found.flows["payload"].to_list() == [1600]
    assert found.info["orphans"] == 1
    assert any("1 fragments came without" in note for note in found.notes)


# --- Bad input ----------------------------------------------------------------------------------------------------


def test_what_is_no_capture_is_reported_so(tmp_path):
    (tmp_path / "text").write_text("hello, world, this is no capture\n")
    with pytest.raises(CaptureError, match="is no capture: it begins with 68 65 6c 6c 6f"):
        capture.flows(tmp_path / "text")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(CaptureError, match="is empty"):
        capture.flows(tmp_path / "empty")
    with pytest.raises(CaptureError, match="cannot be read: No such file"):
        capture.flows(tmp_path / "absent")


def test_a_cut_capture_keeps_what_it_has_and_says_so(made, tmp_path):
    _, paths = made
    whole = paths["left"].read_bytes()
    (tmp_path / "cut.pcapng").write_bytes(whole[: len(whole) // 2 + 3])
    found = capture.read(tmp_path / "cut.pcapng")
    assert 0 < found.info["packets"] < capture.read(paths["left"]).info["packets"]
    assert any("partial: the file is cut off in the middle of a block" in note for note in found.notes)
    opened = capture.open_capture(tmp_path / "cut.pcapng")
    assert any("partial" in warning for warning in opened.meta["warnings"])


def test_two_captures_of_the_same_side_are_reported_so(made, tmp_path):
    _, paths = made
    shutil.copy(paths["left"], tmp_path / "again.pcapng")
    found = capture.owd(paths["left"], tmp_path / "again.pcapng")
    assert any("these look like two captures at the same point" in note for note in found.notes)
    done = tailback("pcap", "owd", paths["left"], tmp_path / "again.pcapng")
    assert done.code == 0, done.err
    with pytest.raises(CaptureError, match="given twice"):
        capture.owd(paths["left"], paths["left"])


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_compressed_capture_that_is_cut_keeps_what_it_has(made, tmp_path, kind):
    import pyarrow as pa

    _, paths = made
    whole = paths["left"].read_bytes()
    packed = gzip.compress(whole) if kind == "gz" else pa.compress(whole, codec="zstd", asbytes=True)
    (tmp_path / f"cut.{kind}").write_bytes(packed[: len(packed) * 2 // 3])
    found = capture.read(tmp_path / f"cut.{kind}")
    assert 0 < found.info["packets"] < capture.read(paths["left"]).info["packets"]
    assert any("partial: the file cannot be read on" in note for note in found.notes)
    (tmp_path / f"none.{kind}").write_bytes(packed[:6])
    with pytest.raises(CaptureError, match="cannot be read"):
        capture.flows(tmp_path / f"none.{kind}")


def test_absurd_lengths_end_the_reading(tmp_path):
    good = write_pcap(tmp_path / "x.pcap", frames(3)).read_bytes()
    bad = good + struct.pack("<IIII", 1, 0, 0x7FFFFFFF, 0x7FFFFFFF) + bytes(100)
    (tmp_path / "bad.pcap").write_bytes(bad)
    found = capture.read(tmp_path / "bad.pcap")
    assert found.info["packets"] == 3
    assert found.info["trouble"]


def test_captures_that_do_not_belong_together(tmp_path):
    one = write_pcap(tmp_path / "one.pcap", frames())
    other = [
        (10**15 + t, udp(A, B, 4000, 5000, b"other" + bytes([n]) * 60, 1000 + n)) for n, (t, _) in enumerate(frames())
    ]
    two = write_pcap(tmp_path / "two.pcap", other)
    with pytest.raises(CaptureError, match=r"none of the first 20 packets .* do not overlap in time"):
        capture.owd(one, two)
    with pytest.raises(CaptureError, match="given twice"):
        capture.owd(one, one)
    with pytest.raises(CaptureError, match="none of 20 packets occurs twice"):
        capture.owd(one)
    short = write_pcap(tmp_path / "short.pcap", [(t, frame[:44]) for t, frame in frames()])
    with pytest.raises(CaptureError, match="20 were cut too short"):
        capture.owd(one, short)
    same = write_pcap(tmp_path / "same.pcap", [(t + 200, frame) for t, frame in frames()], nano=True)
    nano = write_pcap(tmp_path / "nano.pcap", frames(), nano=True)
    assert any("at the same point" in note for note in capture.owd(nano, same).notes)


# --- Logs ---------------------------------------------------------------------------------------------------------


def test_siftr_logs_are_read_as_they_were_written(made, tmp_path):
    result, _ = made
    about, frame = capture.siftr(result.to_siftr(tmp_path / "bulk.log", 0))
    rows = result.where_flow("segments", 0)
    rows = {name: column[~rows["at_receiver"]] for name, column in rows.items()}
    assert about["siftrver"] == "1.2.4"
    assert frame["cwnd"].to_list() == rows["cwnd"].tolist()
    assert np.nanmax(np.abs(frame["srtt_s"].to_numpy() - np.nan_to_num(rows["srtt_s"]))) < 1e-4
    text = (tmp_path / "bulk.log").read_text().splitlines()
    (tmp_path / "cut.log").write_text("\n".join([*text[:50], text[50][:30]]))
    about, frame = capture.siftr(tmp_path / "cut.log")
    assert len(frame) == 49
    assert "cut off" in about["partial"]
    (tmp_path / "bad.log").write_text("\n".join([text[0], "o,0x0,1.0,1", *text[1:]]))
    with pytest.raises(CaptureError, match="line 2 has 4 fields and not 26"):
        capture.siftr(tmp_path / "bad.log")


def test_polled_logs_are_read_as_they_were_written(tmp_path):
    bell = tb.dumbbell(rate="5mbit", rtt="40ms", flows=[tb.bulk()], duration="2s", instruments={"polls": "all"})
    result = tb.run(bell)
    frame = capture.web100(capture.write_web100(result, tmp_path / "w.csv", 0))
    assert frame["CurCwnd"].to_list() == result.table("polls")["cwnd"].tolist()
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(CaptureError, match="is no polled log"):
        capture.web100(tmp_path / "x.csv")


# --- The commands -------------------------------------------------------------------------------------------------


def check_commands(a, b, tmp_path):
    """Every command works on these two captures of the same traffic."""
    for words in (
        ["flows", a], ["owd", a, b], ["rtt", a], ["rtt", a, b], ["throughput", a, "--interval", "0.5"],
        ["voip", a, b], ["open", a, b, "--out", tmp_path / "opened"], ["window", a],
    ):  # fmt: skip
        done = tailback("pcap", *words, "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)
    for name in ("w.png", "w.html"):
        done = tailback("pcap", "window", a, "--out", tmp_path / name)
        assert done.code == 0, done.err
        assert (tmp_path / name).stat().st_size > 10_000
    done = tailback("pcap", "flows", a, "--csv", tmp_path / "flows.csv")
    assert done.code == 0, done.err
    assert pl.read_csv(tmp_path / "flows.csv")["packets"].sum() > 0


def test_every_command_works_on_a_runs_captures(made, tmp_path):
    result, paths = made
    check_commands(paths["left"], paths["right"], tmp_path)
    result.save(tmp_path / "run")
    done = tailback("pcap", "export", tmp_path / "run", "--point", "left", "--out", tmp_path / "out", "--json")
    assert json.loads(done.out)["files"][0]["packets"] == capture.read(paths["left"]).info["packets"]
    done = tailback("pcap", "siftr", tmp_path / "b.log", "--result", tmp_path / "run", "--flow", "bulk")
    assert done.code == 0, done.err
    done = tailback("pcap", "siftr", tmp_path / "b.log", "--json")
    assert json.loads(done.out)["about"]["hz"] == "1000"
    done = tailback("pcap", "flows", tmp_path / "b.log")
    assert done.code == 1
    assert "is no capture" in done.err
