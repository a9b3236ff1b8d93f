"""Flows over IPv6: the same programs and models, in packets whose header is 20 bytes longer, on each engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from real_engines import engines, needs_live
from tailback import capture, live

RATE = 4e6
#: Payload of a full packet of 1500 bytes: without the headers of IP, of TCP, and its timestamps.
ROOM = {4: 1500 - 20 - 20 - 12, 6: 1500 - 40 - 20 - 12}
NEAR, FAR = "2001:db8::a00:1", "2001:db8::a00:2"

needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")


def dumbbell(*flows: tb.Flow, duration: str, **more: Any) -> tb.Scenario:
    return tb.dumbbell(rate="4mbit", rtt="20ms", queue="1bdp", flows=flows, duration=duration, **more)


def captured(result: tb.Result, folder: Path) -> list[dict[str, Any]]:
    path = folder / "left.pcapng"
    assert capture.export(result, "left", path) > 0
    return list(capture.flows(path).iter_rows(named=True))


@engines
@needs_iperf3
def test_a_program_runs_over_ipv6_and_is_measured(run: Callable[..., tb.Result], tmp_path: Path) -> None:
    client = "iperf3 -6 --client {server_addr} --port {port} --time 2 --json"
    flow = tb.flow("exec", client=client, server="iperf3 -6 --server --one-off --port {port}", parse="iperf3", ip=6)
    result = run(dumbbell(flow, duration="4s", instruments={"captures": ["left"], "packets": "all"}), allow_code=True)
    assert [row["status"] for row in result.program_summary()] == [0, 0]
    report = json.loads(result.files["exec/client.out"])
    assert report["start"]["connected"][0]["remote_host"] == FAR
    flows = result.numpy("flows")
    assert 0 <= flows["bytes_received"][0] - report["end"]["sum_received"]["bytes"] < 10_000
    assert flows["connections"][0] == 2
    # A full link carries its rate less the headers: never more, and at most a tenth less in two seconds, unless the
    # machine was late with packets.
    rate = report["end"]["sum_received"]["bits_per_second"]
    assert rate / (RATE * ROOM[6] / 1500) <= 1.0
    assert rate / (RATE * ROOM[6] / 1500) > 0.9 or not result.meta["fit"]
    assert result.numpy("packets")["bytes"].max() == 1500
    data = max(captured(result, tmp_path), key=lambda row: int(row["bytes"]))
    assert (data["client"], data["server"]) == (NEAR, FAR)


@engines
def test_models_over_ipv6_do_on_a_kernel_what_they_do_simulated(run: Callable[..., tb.Result]) -> None:
    flows = [tb.bulk("cubic", ip=6, stop="4s"), tb.voip(ip=6)]
    given = dumbbell(*flows, duration="5s", instruments={"packets": "all"})
    simulated, real = tb.run(given), run(given)
    for result in (simulated, real):
        packets = result.numpy("packets")
        assert packets["bytes"][packets["flow"] == 0].max() == 1500
        # 160 bytes of speech, RTP, UDP and IPv6.
        assert set(packets["bytes"][packets["flow"] == 1].tolist()) == {160 + 12 + 8 + 40}
    # Chosen before the first run: what a kernel and the model carry in four seconds agrees within a twentieth.
    got = [float(result.numpy("flows")["bytes_received"][0]) for result in (simulated, real)]
    assert got[1] == pytest.approx(got[0], rel=0.05) or not real.meta["fit"]


def test_the_simulators_captures_of_ipv6_are_read_back(tmp_path: Path) -> None:
    flows = [tb.bulk("cubic", ip=6), tb.voip(ip=6), tb.flow("ping", ip=6), tb.bulk("reno")]
    result = tb.run(dumbbell(*flows, duration="2s", instruments={"captures": ["left"]}))
    rows = captured(result, tmp_path)
    by_protocol = {(row["protocol"], ":" in str(row["client"])) for row in rows}
    assert by_protocol == {(6, True), (17, True), (58, True), (6, False)}
    first = next(row for row in rows if row["client"] == NEAR)
    sent = result.numpy("headers")
    mine = (sent["flow"] == 0) & ~sent["reverse"]
    assert int(first["packets"]) == mine.sum()


def test_a_version_that_is_none_is_named_with_its_field() -> None:
    with pytest.raises(tb.ScenarioError, match=r"ip = 5: IP has the versions 4 and 6"):
        tb.run(dumbbell(tb.bulk(ip=5), duration="1s"))
    # Links of IPv6 carry 1280 bytes (RFC 8200 section 5).
    with pytest.raises(tb.ScenarioError, match=r"mtu = .*1280 to 65535"):
        tb.run(dumbbell(tb.bulk(ip=6, mtu="1000B"), duration="1s"))


@needs_live
def test_a_program_that_asks_for_ipv6_where_there_is_none_gets_the_field() -> None:
    flow = tb.flow("exec", client="sh -c 'exit 1' -6")
    result = live.run(dumbbell(flow, duration="1s"), allow_code=True)
    assert any("set ip = 6 in the flow" in note for note in result.meta["notes"])
