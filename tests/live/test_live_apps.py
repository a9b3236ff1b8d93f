"""The simulator's applications on real sockets: the same schedules, the same draws, the same tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tailback as tb
from real_engines import needs_live
from tailback import live


def scenario(*flows: tb.Flow, duration: str = "4s", **options: Any) -> tb.Scenario:
    recorded = {"requests": "all", "echoes": "all", "polls": "all", "packets": "all", "poll_interval": "10ms"}
    return tb.dumbbell(
        rate="20mbit", rtt="20ms", queue="1bdp", flows=flows, duration=duration, instruments=recorded, **options
    )


@pytest.fixture(scope="module")
def both() -> tuple[tb.Result, tb.Result]:
    """One run of every application, simulated and live."""
    every = scenario(
        tb.bulk("reno", name="bulk", stop="2500ms"),
        tb.voip(name="calls", params={"calls": 3}),
        tb.flow("voip-onoff", name="onoff"),
        tb.flow("udp-cbr", name="cbr", params={"rate": "200kbit"}),
        tb.flow("ping", name="ping", interval="100ms"),
        tb.flow("web-probe", name="probe", from_="right", to="left"),
        tb.flow("request-response", name="calls-back", params={"think": 50}),
        tb.flow(
            "transfers", name="files", cc="reno", cc_turns=["cubic"],
            params={"bytes": 100_000, "idle_low": 0.05, "idle_high": 0.1},
        ),
        tb.flow("web", name="web", params={"rate": 20}),
        tb.flow("ftp", name="ftp", stop="1s", again=[{"start": "2s"}]),
        tb.flow("hftp", name="hftp", bytes="500kB"),
    )  # fmt: skip
    return tb.run(every), live.run(every)


def total(result: tb.Result, flow: str, column: str) -> float:
    return float(result.column("flows", column)[result.flow_index(flow)])


def exchanges(result: tb.Result, flow: str) -> dict[str, Any]:
    return result.where_flow("requests", flow)


@needs_live
def test_datagrams_leave_by_the_simulators_schedule(both: tuple[tb.Result, tb.Result]) -> None:
    sim, real = both
    for flow in ("calls", "onoff", "cbr", "ping"):
        assert total(real, flow, "packets_sent") == total(sim, flow, "packets_sent") > 10
        streams = [result.where_flow("packets", flow)["stream"] for result in both]
        assert np.array_equal(*streams), flow
    for result in both:
        assert set(result.where_flow("packets", "calls")["stream"]) == {0, 1, 2}


@needs_live
def test_every_echo_takes_at_least_the_propagation_there_and_back(both: tuple[tb.Result, tb.Result]) -> None:
    sim, real = both
    echoes = real.numpy("echoes")
    assert np.array_equal(echoes["number"], sim.numpy("echoes")["number"])
    answered = echoes["rtt_s"][~np.isnan(echoes["rtt_s"])]
    assert len(answered) > 20
    assert answered.min() >= 0.020


@needs_live
def test_exchanges_are_those_of_the_simulator(both: tuple[tb.Result, tb.Result]) -> None:
    sim, real = both
    # The same draws: sizes come in the same order, however far each run gets.
    for flow in ("probe", "web", "files", "calls-back"):
        expected, got = exchanges(sim, flow), exchanges(real, flow)
        both_have = min(len(expected["bytes"]), len(got["bytes"]))
        assert both_have > 8, flow
        for column in ("bytes", "kind", "turn", "connection"):
            assert np.array_equal(expected[column][:both_have], got[column][:both_have]), (flow, column)
    sizes = exchanges(real, "probe")["bytes"][:8]
    assert sizes.tolist() == [1024 << step for step in range(8)]
    assert exchanges(real, "files")["turn"][:4].tolist() == [0, 1, 0, 1]
    # Sessions begin whatever the network does.
    assert len(exchanges(real, "web")["bytes"]) == len(exchanges(sim, "web")["bytes"])


@needs_live
def test_no_answer_is_faster_than_light(both: tuple[tb.Result, tb.Result]) -> None:
    _, real = both
    # A handshake and an exchange; of a transfer only the one-way trip after the handshake.
    for flow, least in (("probe", 0.040), ("web", 0.040), ("files", 0.030), ("calls-back", 0.020)):
        rows = exchanges(real, flow)
        times = rows["response_time_s"][rows["fate"] == 0]
        assert len(times) > 5
        assert times.min() >= least, flow


@needs_live
def test_connections_and_bytes_add_up(both: tuple[tb.Result, tb.Result]) -> None:
    _, real = both
    for flow in ("probe", "web", "files"):
        rows = exchanges(real, flow)
        opened, failed, alive = (
            total(real, flow, f"connections{what}") for what in ("", "_failed", "_open")
        )  # fmt: skip
        assert opened == len(rows["fate"])
        assert failed == 0
        answered = int((rows["fate"] == 0).sum())
        assert answered + int((rows["fate"] == 2).sum()) == opened
        assert opened - alive <= answered
    probe = exchanges(real, "probe")
    assert total(real, "probe", "bytes_returned") >= probe["bytes"][probe["fate"] == 0].sum()
    answered = int((exchanges(real, "calls-back")["fate"] == 0).sum())
    assert 0 <= total(real, "calls-back", "bytes_returned") - 1000 * answered <= 1000
    assert total(real, "hftp", "bytes_received") == total(real, "hftp", "bytes_acked") == 500_000
    assert total(real, "bulk", "bytes_received") == total(real, "bulk", "bytes_acked") > 0
    assert total(real, "bulk", "finished_s") >= 2.5


@needs_live
def test_a_flow_that_is_on_again_opens_another_connection(both: tuple[tb.Result, tb.Result]) -> None:
    _, real = both
    polls = real.where_flow("polls", "ftp")
    assert total(real, "ftp", "connections") == 2
    # On from 0 to 1 s and from 2 s; what is under way at a stop still arrives.
    assert len(polls["t_s"]) > 100
    assert polls["t_s"][(polls["t_s"] > 1.6) & (polls["t_s"] < 2.0)].size == 0
    assert polls["t_s"].max() > 3
    assert np.median(real.where_flow("packets", "ftp")["bytes"]) == 1052


@needs_live
def test_ftp_sends_a_window_a_round_trip() -> None:
    wide = scenario(tb.flow("ftp", name="ftp"), duration="2s").with_({"dumbbell.rate": "100mbit"})
    round_trips = 2.0 / 0.020
    result = live.run(wide)
    # A machine that keeps time loses little but the slow start.
    assert total(result, "ftp", "bytes_received") >= 0.7 * 64_000 * round_trips
    assert total(result, "ftp", "bytes_received") <= 64_000 * round_trips


@needs_live
def test_a_server_that_is_stopped_mid_transfer_leaves_nothing() -> None:
    result = live.run(
        scenario(tb.flow("transfers", name="files", stop="1s", params={"bytes": 50_000_000}), duration="1500ms")
    )
    rows = exchanges(result, "files")
    assert rows["bytes"].tolist() == [50_000_000]
    assert np.isnan(rows["response_time_s"]).all() or total(result, "files", "bytes_received") < 50_000_000


@pytest.mark.parametrize(
    ("flow", "field", "fix"),
    [
        (tb.flow("bulk", stack={"name": "linux", "frto": "basic"}), "frto", "at-once"),
        (tb.flow("bulk", stack={"name": "linux", "initial_window": 3}), "initial_window", "restart_window = 3"),
        (tb.flow("ping", packet_size="30B"), "packet_bytes", "36"),
        (tb.flow("ftp", params={"packet_bytes": 50}), "packet_bytes", "76"),
    ],
)
def test_what_has_no_live_counterpart_is_refused_with_what_works(flow: tb.Flow, field: str, fix: str) -> None:
    if not live._HAS_LIVE:
        pytest.skip("live runs need Linux")
    with pytest.raises(tb.ScenarioError) as caught:
        live.check(scenario(flow))
    problem = caught.value.problems[0]
    assert problem.field.endswith(field)
    assert fix in problem.fix
    assert "--engine sim" in problem.fix


@needs_live
def test_media_follow_their_reports_over_real_sockets() -> None:
    """It leaves its smallest rate, which without reports it never would, and keeps to the link's 0.6 Mbit/s.

    How fast it rises says how busy this machine is: it jumps only while no packet is 10 ms late.
    """
    call = tb.dumbbell(
        rate="600kbit", rtt="20ms", queue="300ms", duration="8s", flows=[tb.flow("media", name="media")],
        instruments={"packets": "all"},
    )  # fmt: skip
    rows = live.run(call).where_flow("packets", "media")
    late = (rows["sent_s"] >= 6.0) & (rows["sent_s"] < 8.0)
    assert 0.2 < 8e-6 * rows["bytes"][late].sum() / 2.0 < 0.75
    marked = call.with_({"flow[0].params": {"ecn": True}})
    with pytest.raises(tb.TailbackError, match="on a kernel applications send datagrams without ECN"):
        live.run(marked)
