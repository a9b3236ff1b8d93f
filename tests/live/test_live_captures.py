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
from tailback import capture, live

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_captures_in import check_commands, needs, output

FOUND = live.doctor(0.0)
WHY = "; ".join(row["found"] for row in FOUND["checks"] if not row["ok"] and row["needed_for"] != "punctual runs")
pytestmark = [
    pytest.mark.skipif(not FOUND["can_run_live"], reason=f"no live runs here: {WHY}"),
    pytest.mark.skipif(shutil.which("tcpdump") is None, reason="not installed: tcpdump"),
]

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
