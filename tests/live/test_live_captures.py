"""Captures that tcpdump took on two real hosts, read by every command and held against the run's own rows."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tailback as tb
from real_engines import needs_live
from tailback import capture, live

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_captures_in import check_commands, needs, output

pytestmark = [
    needs_live,
    pytest.mark.skipif(shutil.which("tcpdump") is None, reason="not installed: tcpdump"),
]

#: What one may be treated as, by name and by votes.
FAMILY = {"reno": "reno-like", "cubic": "cubic-like", "bbr": "model-based"}
RELATIVES = {"reno": {"reno", "veno", "westwood", "hybla", "dctcp", "compound"}, "cubic": {"cubic", "bic"},
             "bbr": {"bbr", "bbr3"}}  # fmt: skip

#: On every device: Linux cooked. All is over well before the end, so nothing is cut off.
DUMP = "tcpdump -i any -s 128 --time-stamp-precision=nano -Z root -U -w -"


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[tb.Result, Path, Path]:
    """A live run, and what tcpdump saw at its sender and its receiver."""
    folder = tmp_path_factory.mktemp("tcpdump")
    # Segments leave their host as they stand: joined ones are no packets of the path.
    stack: Any = {"name": "linux", "burst_segments": 1}
    flows = [
        tb.bulk(cc="cubic", stack=stack, start="500ms", stop="3s"),
        tb.voip(start="500ms", stop="3s"),
        tb.flow("exec", name="dump", client=DUMP, server=DUMP, params={"ready": 0}, stack=stack),
    ]
    bell = tb.dumbbell(rate="10mbit", rtt="40ms", queue="0.5bdp", wire={"loss": 0.005}, flows=flows, duration="4500ms")
    scenario = bell.with_({"instruments.packets": "all"})
    result = live.run(scenario, allow_code=True)
    paths = []
    for end in ("client", "server"):
        path = folder / f"{end}.pcap"
        path.write_bytes(result.files[f"dump/{end}.out"])
        paths.append(path)
    return result, paths[0], paths[1]


def test_what_tcpdump_saw_is_what_the_run_counted(taken: tuple[tb.Result, Path, Path]) -> None:
    result, near, far = taken
    found = capture.owd(near, far)
    truth = result.table("flows")
    for flow in ("bulk", "voip"):
        index = result.flow_index(flow)
        row = found.table.filter(pl.col("name").str.starts_with(f"10.0.{index}.1:") & ~pl.col("reverse")).row(
            0, named=True
        )
        assert row["from_to"] == "A>B"
        assert row["lost"] == truth["packets_dropped"][index]
        assert row["paired"] == truth["packets_received"][index]
        packets = result.where_flow("packets", flow)
        delays = 1e3 * (packets["received_s"] - packets["sent_s"])[packets["fate"] == 0]
        # The same machine's clock, read at two places in its kernel.
        assert row["p50_ms"] == pytest.approx(float(np.median(delays)), abs=0.2)
    flows = capture.flows(near).filter(pl.col("protocol") == 6)
    assert flows["retransmitted"][0] == truth["segments_retransmitted"][result.flow_index("bulk")]
    assert abs(found.clocks.offset_s) < 0.001


def test_every_command_works_on_them(taken: tuple[tb.Result, Path, Path], tmp_path: Path) -> None:
    _, near, far = taken
    check_commands(near, far, tmp_path)


@needs("tshark")
def test_tshark_finds_the_same_repetitions_in_them(taken: tuple[tb.Result, Path, Path]) -> None:
    _, near, _ = taken
    kinds = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
    lines = output("tshark", "-r", near, "-Y", " or ".join(f"tcp.analysis.{kind}" for kind in kinds)).splitlines()
    assert len(lines) == capture.flows(near)["retransmitted"].sum() > 0


@pytest.mark.long
def test_congestion_controls_of_the_real_kernel_are_identified_from_tcpdump(tmp_path: Path) -> None:
    """Reno, CUBIC and BBR at once, each between hosts of its own, from tcpdump at the receiver and at the sender."""
    dump = "tcpdump -i any -s 128 -Z root -U -w -"
    links: list[Any] = []
    flows: list[Any] = []
    for cc in ("reno", "cubic", "bbr"):
        ends: Any = {"from_": f"near-{cc}", "to": f"far-{cc}"}
        links.append(
            tb.Link(name=cc, from_=ends["from_"], to=ends["to"], rate="8mbit", delay="20ms", queue="1bdp", duplex=True)
        )
        flows.append(tb.bulk(cc=cc, name=cc, start="500ms", stop="19s", **ends))
        flows.append(tb.flow("exec", name=f"dump-{cc}", client=dump, server=dump, params={"ready": 0}, **ends))
    result = live.run(tb.Scenario(links=links, flows=flows, duration="20s"), allow_code=True)
    for cc in ("reno", "cubic", "bbr"):
        for end in ("client", "server"):
            path = tmp_path / f"{cc}-{end}.pcap"
            path.write_bytes(result.files[f"dump-{cc}/{end}.out"])
            (found,) = capture.identify(path)
            # A family that holds it is right, and so is saying nothing; another name is not.
            assert found.looks_like in (cc, FAMILY[cc], "unknown"), found
            assert max(found.votes, key=lambda name: found.votes[name]) in RELATIVES[cc], found


@pytest.fixture(scope="module")
def captured() -> tb.Result:
    """A live run whose own captures were asked for, on a path that loses and doubles packets."""
    flows = [tb.bulk(cc="cubic", stop="3s"), tb.voip(stop="3s"), tb.flow("ping", params={"interval": 100}, stop="3s")]
    bell = tb.dumbbell(
        rate="10mbit", rtt="40ms", queue="0.5bdp", wire={"loss": 0.003, "duplicate": 0.003}, flows=flows, duration="4s"
    )
    return live.run(bell.with_({"instruments.captures": "all", "instruments.packets": "all"}))


def test_a_live_run_writes_its_own_captures(captured: tb.Result, tmp_path: Path) -> None:
    captured.save(tmp_path / "result")
    result = tb.open_result(tmp_path / "result")
    files = capture.export_all(result, tmp_path)
    assert {path.stem for path in files} == {
        "left",
        "right",
        "bottleneck.in",
        "bottleneck.out",
        "return.in",
        "return.out",
    }
    near, far = tmp_path / "left.pcapng", tmp_path / "right.pcapng"
    truth, packets = result.table("flows"), result.table("packets")
    # A flow's host is 10.0.NUMBER.1; the first packet of the run may be of any.
    flows = capture.flows(near).sort("client")
    assert flows["packets"].to_list() == truth["packets_sent"].tolist()
    assert flows["retransmitted"][0] == truth["segments_retransmitted"][0] > 0
    for pair in ((near, far), (tmp_path / "bottleneck.in.pcapng", tmp_path / "bottleneck.out.pcapng")):
        found = capture.owd(*pair, rows=True)
        there = found.table.filter(~pl.col("reverse")).sort("name")
        # What is under way at the end is neither lost nor received; here all is over.
        assert there["lost"].to_list() == truth["packets_dropped"].tolist()
        assert there["duplicated"].sum() > 0
    found = capture.owd(near, far, rows=True)
    assert found.pairs is not None
    for flow in range(3):
        own = (found.pairs["flow"] == flows["flow"][flow]) & ~found.pairs["reverse"]
        mine = np.sort(found.pairs["b_ns"][own].astype(np.int64) - found.pairs["a_ns"][own].astype(np.int64))
        rows = (packets["flow"] == flow) & (packets["fate"] == 0)
        theirs = np.sort(np.round((packets["received_s"] - packets["sent_s"])[rows] * 1e9))
        assert len(mine) == len(theirs)
        assert np.abs(mine - theirs).max() <= 1


@needs("tshark")
def test_tshark_reads_a_live_runs_captures(captured: tb.Result, tmp_path: Path) -> None:
    files = capture.export_all(captured, tmp_path)
    for path, count in files.items():
        fields = ("-T", "fields", "-e", "ip.checksum.status", "-e", "frame.len", "-e", "ip.len")
        lines = output("tshark", "-r", path, "-o", "ip.check_checksum:TRUE", *fields).splitlines()
        assert len(lines) == count
        for line in lines:
            status, whole, length = line.split("\t")
            assert status == "1"
            assert int(whole) == int(length) + 14
        assert not output("tshark", "-r", path, "-Y", "_ws.malformed")
    kinds = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
    wanted = " or ".join(f"tcp.analysis.{kind}" for kind in kinds)
    lines = output("tshark", "-r", tmp_path / "left.pcapng", "-Y", f"ip.src == 10.0.0.1 and ({wanted})").splitlines()
    assert len(lines) == captured.table("flows")["segments_retransmitted"][0]


@needs("tcptrace", "editcap")
def test_tcptrace_counts_the_same_in_them(taken: tuple[tb.Result, Path, Path], tmp_path: Path) -> None:
    import re

    _, near, _ = taken
    # tcptrace knows neither nanoseconds nor Linux cooked frames: the IP packets alone, 20 bytes further on.
    plain = tmp_path / "plain.pcap"
    output("editcap", "-F", "pcap", "-C", "20", "-T", "rawip", near, plain)
    text = output("tcptrace", "-l", "-n", plain)
    rexmt = re.findall(r"rexmt data pkts:\s+(\d+)", text)
    assert int(rexmt[0]) == capture.flows(near).filter(pl.col("protocol") == 6)["retransmitted"][0]
