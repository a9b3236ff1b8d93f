"""Paths that do things to signals: what they do, and what is refused, from the scenario to the tables."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import polars as pl
import pytest

import tailback as tb
from real_engines import REAL

# A full packet of 1500 bytes carries 1448 of a TCP with timestamps.
PAYLOAD = 1448 / 1500


def _dumbbell(*flows: tb.Flow, duration: str = "20s", **shape: Any) -> tb.Scenario:
    path = {"rate": "100mbit", "rtt": "40ms", "queue": "1bdp"} | shape
    return tb.dumbbell(flows=flows, duration=duration, instruments={"drops": "all"}, **path)


def _goodput_mbps(result: tb.Result, flow: int = 0) -> float:
    row = result.numpy("flows")
    return float(row["bytes_received"][flow]) * 8e-6 / result.duration_s


def _reasons(result: tb.Result) -> set[str]:
    return set(result.polars("queue", labels=True)["reason"].cast(pl.String).to_list())


# -- policers


@pytest.mark.parametrize("cc", ["cubic", "reno", "bbr"])
def test_no_transfer_gets_more_through_a_policer_than_its_rate(cc: str) -> None:
    policer = {"rate": "10mbit", "burst": "30kB"}
    result = tb.run(_dumbbell(tb.bulk(cc), policer=policer))
    most = 10 * PAYLOAD + 30e3 * 8e-6 / result.duration_s
    assert 0.5 * most < _goodput_mbps(result) < most
    assert _reasons(result) == {"policer"}
    # Nothing queues: the round trip stays that of the path and a few packets.
    assert result.numpy("links")["backlog_bytes_mean"][0] < 1500


def test_a_small_bucket_costs_a_sender_that_backs_off_more_than_one_that_does_not() -> None:
    policer = {"rate": "10mbit", "burst": "15kB"}
    cubic, bbr = (tb.run(_dumbbell(tb.bulk(cc), policer=policer)) for cc in ("cubic", "bbr"))
    assert _goodput_mbps(cubic) < 0.6 * _goodput_mbps(bbr)


def test_a_datagram_sender_above_the_rate_gets_exactly_the_rate() -> None:
    flow = tb.flow("udp-cbr", name="cbr", params={"rate": "30mbit", "packet_bytes": 1500})
    result = tb.run(_dumbbell(flow, policer={"rate": "10mbit", "burst": "30kB"}))
    received = result.column("links", "delivered_bytes")[0]
    # What passed the policer in the last 20 ms is still under way.
    assert received == pytest.approx(10e6 / 8 * (20 - 0.02) + 30e3, abs=1500)


@pytest.mark.parametrize(
    ("policer", "more", "place", "words"),
    [
        ({"rate": "8mbit", "burst": "1kB"}, {}, "dumbbell.policer.burst", "less than one packet of 1500 bytes"),
        ({"rate": "8mbit"}, {}, "dumbbell.policer.burst", "is missing"),
        ("8mbit", {}, "dumbbell.policer", "a rate and a burst"),
        ({"rate": "8mbit", "burst": "9kB"}, {"queue": "kernel:codel"}, "dumbbell.policer", "in front of kernel:codel"),
    ],
)
def test_a_policer_that_cannot_be_is_refused_with_its_place(
    policer: Any, more: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.run(_dumbbell(tb.bulk("cubic"), policer=policer, **more))
    assert place in str(caught.value)
    assert words in str(caught.value)


def test_a_policer_survives_the_way_to_the_engine_and_back() -> None:
    scenario = _dumbbell(tb.bulk("cubic"), policer={"rate": "8mbit", "burst": "64kB"})
    assert scenario.dumbbell is not None
    assert scenario.dumbbell.policer == tb.Policer(rate="8mbit", burst="64kB")
    again = tb.Scenario.from_resolved(scenario.resolve())
    assert again.links[0].policer == scenario.dumbbell.policer
    assert again.to_json() == scenario.to_json()


def test_an_export_reports_the_policer_that_it_leaves_out() -> None:
    scenario = _dumbbell(tb.bulk("cubic"), policer={"rate": "8mbit", "burst": "64kB"})
    for target in ("netem", "ns3"):
        assert "dumbbell.policer" in [row.field for row in tb.export(scenario, target).left_out]


# -- framing

CELLS = {"overhead": 10, "linklayer": "atm"}


def test_a_framed_link_gives_ip_what_its_cells_leave() -> None:
    # 1500 bytes of IP and 10 of PPPoA fill 32 cells of 53 bytes.
    result = tb.run(_dumbbell(tb.bulk("cubic"), rate="10mbit", **CELLS))
    assert result.link_summary()[0]["utilisation"] == pytest.approx(1.0, abs=0.02)
    assert _goodput_mbps(result) == pytest.approx(10 * 1500 / (32 * 53) * PAYLOAD, rel=0.02)
    assert result.ip_rate_bps("bottleneck") == 10_000_000 * 1500 // (32 * 53)
    # A full packet waits for what lies before it at the rate that the line gives to IP.
    rows = tb.metrics.Rows.of(result)
    assert rows.carried_bps("bottleneck") == pytest.approx(10e6 * 1500 / (32 * 53), rel=0.01)


@pytest.mark.parametrize(
    ("framing", "packet", "on_line"),
    [(CELLS, 200, 5 * 53), ({"overhead": 18, "mpu": 64}, 40, 64), ({"linklayer": "ptm"}, 64, 65), ({}, 40, 40)],
)
def test_a_packet_alone_takes_the_time_of_its_bytes_on_the_line(
    framing: dict[str, Any], packet: int, on_line: int
) -> None:
    flow = tb.flow("udp-cbr", params={"rate": "20kbit", "packet_bytes": packet})
    path = {"rate": "1mbit", "rtt": "40ms"} | framing
    result = tb.run(tb.dumbbell(flows=[flow], duration="1s", instruments={"packets": "all"}, **path))
    packets = result.numpy("packets")
    taken = (packets["received_s"] - packets["sent_s"])[:10]
    assert taken == pytest.approx(0.02 + on_line * 8e-6, abs=1e-9)
    assert tb.metrics.base_delay(result, 0) == pytest.approx(0.02 + on_line * 8e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("framing", "more", "place", "words"),
    [
        ({"overhead": 300}, {}, "dumbbell.overhead = 300", "Give a whole number from -64 to 256"),
        ({"overhead": "44B"}, {}, "dumbbell.overhead", "not a whole number"),
        ({"mpu": 300}, {}, "dumbbell.mpu = 300", "from 0 to 256"),
        ({"linklayer": "adsl"}, {}, "dumbbell.linklayer", "ethernet, atm, ptm"),
    ],
)
def test_framing_that_cannot_be_is_refused_with_its_place(
    framing: dict[str, Any], more: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.run(_dumbbell(tb.bulk("cubic"), **framing, **more))
    assert place in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({}, "a link without rate takes no time for bytes"),
        ({"medium": "adsl"}, "the medium adsl has framing of its own"),
        ({"medium": "wifi"}, "the medium wifi has framing of its own"),
        ({"trace": [1, 2]}, "a trace has framing of its own"),
    ],
)
def test_a_link_that_frames_by_itself_takes_no_framing(link: dict[str, Any], words: str) -> None:
    path = tb.link("line", "a", "b", duplex=True, delay="10ms", mpu=64, **link)
    with pytest.raises(tb.ScenarioError) as caught:
        tb.run(tb.Scenario(links=[path], flows=[tb.bulk("cubic", from_="a", to="b")], duration="1s"))
    assert "link[0].mpu = 64" in str(caught.value)
    assert words in str(caught.value)


def test_framing_survives_the_way_to_the_engine_and_back() -> None:
    scenario = _dumbbell(tb.bulk("cubic"), overhead=-4, mpu=64, linklayer="ptm")
    again = tb.Scenario.from_resolved(scenario.resolve())
    assert [(link.overhead, link.mpu, link.linklayer) for link in again.links] == 2 * [(-4, 64, "ptm")]
    assert again.to_json() == scenario.to_json()
    assert "framing" not in _dumbbell(tb.bulk("cubic")).to_json()


# -- damage


def test_a_receiver_drops_what_a_wire_damaged_and_no_link_does() -> None:
    result = tb.run(_dumbbell(tb.flow("udp-cbr", params={"rate": "10mbit"}), tb.bulk("cubic"), wire={"corrupt": 0.01}))
    rows = result.polars("receiver_drops", labels=True)
    assert set(rows["reason"].cast(pl.String)) == {"corrupt"}
    assert rows["reverse"].to_list() == [False, False]
    flows = result.numpy("flows")
    assert rows["packets"].to_list() == flows["packets_dropped"].tolist()
    assert "wire" not in _reasons(result)
    assert tb.metrics.flow_loss_rate(result, 0) == pytest.approx(0.01, rel=0.4)
    assert flows["segments_retransmitted"][1] >= flows["packets_dropped"][1]
    assert "receiver_drops" not in tb.run(_dumbbell(tb.bulk("cubic"), duration="1s")).tables


def test_damage_survives_the_way_to_the_engine_and_back_and_is_netems_word() -> None:
    scenario = _dumbbell(tb.bulk("cubic"), wire={"corrupt": 0.001})
    again = tb.Scenario.from_resolved(scenario.resolve())
    assert again.links[0].wire.corrupt == 0.001
    assert again.to_json() == scenario.to_json()
    assert "corrupt" not in _dumbbell(tb.bulk("cubic")).to_json()
    made = tb.export(scenario, "netem")
    assert " corrupt 0.1000000%" in made.text
    assert not [row for row in made.left_out if "wire" in row.field]
    assert "dumbbell.wire.corrupt" in [row.field for row in tb.export(scenario, "ns3").left_out]


# -- bleaching


def _ecn(bleach: dict[str, Any]) -> tb.Result:
    codel = {"discipline": "codel", "variant": "linux", "ecn": True}
    flow = tb.bulk("cubic", stack={"name": "linux", "ecn": True})
    return tb.run(_dumbbell(flow, rate="20mbit", queue=codel, wire=bleach))


def test_marks_that_vanish_leave_a_standing_queue_and_those_that_become_drops_do_not() -> None:
    kept, vanished = _ecn({}), _ecn({"bleach": "ce"})
    dropped = _ecn({"bleach": "all", "bleach_before_queue": True})
    backlog = [result.numpy("links")["backlog_bytes_mean"][0] for result in (kept, vanished, dropped)]
    assert backlog[1] > 50 * backlog[0]
    assert backlog[2] < 2 * backlog[0]
    marked = [int(result.column("links", "marked")[0]) for result in (kept, vanished, dropped)]
    assert marked[0] > 0
    assert marked[1] > 100 * marked[0]
    assert marked[2] == 0
    assert _reasons(dropped) == {"aqm"}


# -- jitter


def _jittered(wire: dict[str, Any], seed: int = 1, **how: Any) -> float:
    flow = tb.bulk("cubic", **how)
    return _goodput_mbps(tb.run(_dumbbell(flow, duration="5s", wire=wire).with_(seed=seed)))


def test_a_stack_with_a_fixed_reordering_threshold_pays_for_netems_jitter_and_not_for_the_ordered_one() -> None:
    ordered, drawn = {"jitter": "10ms"}, {"netem_jitter": "5ms"}
    assert _jittered(ordered, transport="noq") > 10 * _jittered(drawn, transport="noq")
    assert _jittered(drawn) > 4 * _jittered(drawn, transport="noq")


def test_what_netems_jitter_costs_linux_is_the_refusal_of_old_timestamps() -> None:
    def mean(wire: dict[str, Any], **how: Any) -> float:
        # One run may be lucky: slow start's end is a matter of chance. In guests of Debian's 6.1 four of these seeds
        # have 47, 87, 92 and 44 Mbit/s.
        return statistics.mean(_jittered(wire, seed=seed, **how) for seed in range(1, 6))

    ordered, drawn = mean({"jitter": "10ms"}), {"netem_jitter": "5ms"}
    assert mean(drawn) < 0.8 * ordered
    assert mean(drawn, stack={"name": "linux", "paws": False}) > 0.9 * ordered


def test_netems_delays_are_seen_by_packets_and_have_their_distribution() -> None:
    flow = tb.flow("udp-cbr", name="cbr", params={"rate": "12mbit", "packet_bytes": 1500})
    for distribution, deviation_ms in (("uniform", 5 / 3**0.5), ("normal", 5.0)):
        wire = {"netem_jitter": {"jitter": "5ms", "distribution": distribution}}
        path = {"rate": "100mbit", "rtt": "80ms", "queue": "1bdp", "wire": wire}
        result = tb.run(tb.dumbbell(flows=[flow], duration="10s", instruments={"packets": "all"}, **path))
        delays = (result.column("packets", "received_s") - result.column("packets", "sent_s")) * 1e3
        delays = delays[np.isfinite(delays)]
        # 40 ms and 0.12 ms of serialising; 10,000 draws know the mean to 0.05 ms and the deviation to 1 %.
        assert delays.mean() == pytest.approx(40.12, abs=0.25)
        assert delays.std() == pytest.approx(deviation_ms, rel=0.03)


# -- acknowledgements


def test_one_acknowledgement_in_four_goes_back_and_the_transfer_still_ends() -> None:
    def back(wire: dict[str, Any]) -> tuple[float, tb.Result]:
        flow = tb.bulk("cubic", bytes="20MB")
        result = tb.run(_dumbbell(flow, duration="30s", rate="50mbit", back_wire=wire))
        return float(result.column("flows", "finished_s")[0]), result

    plain_s, plain = back({})
    thinned_s, thinned = back({"ack_hold": "10ms", "ack_every": 4})
    assert thinned_s < 1.1 * plain_s
    share = thinned.column("links", "delivered")[1] / plain.column("links", "delivered")[1]
    assert 0.2 < share < 0.4
    assert "thinned" in _reasons(thinned)
    held_s, held = back({"ack_hold": "10ms"})
    assert held_s < 2 * plain_s
    assert "thinned" not in _reasons(held)


def test_quics_acknowledgements_are_not_thinned() -> None:
    flow = tb.bulk("cubic", transport="noq")
    wire = {"ack_hold": "10ms", "ack_every": 4}
    result = tb.run(_dumbbell(flow, duration="2s", back_wire=wire))
    assert result.column("links", "dropped")[1] == 0


# -- what is wrong


@pytest.mark.parametrize(
    ("wire", "place", "words"),
    [
        ({"bleach": "cee"}, "dumbbell.wire.bleach", 'Did you mean "ce"'),
        ({"bleach_before_queue": True}, "dumbbell.wire.bleach_before_queue", "nothing is bleached"),
        ({"netem_jitter": {"jitter": "5ms", "distribution": "nomal"}}, "netem_jitter.distribution", '"normal"'),
        ({"netem_jitter": "5s"}, "dumbbell.wire.netem_jitter", "2.147 s"),
        ({"netem_jitter": "5ms", "jitter": "5ms"}, "dumbbell.wire.netem_jitter", "one of jitter, reorder"),
        ({"netem_jitter": 5}, "dumbbell.wire.netem_jitter", 'Write "10ms"'),
        ({"ack_every": 4}, "dumbbell.wire.ack_every", "Give ack_hold"),
        ({"corrupt": 1.5}, "dumbbell.wire.corrupt", "between 0 and 1"),
        ({"ack_every": 1, "ack_hold": "1ms"}, "dumbbell.wire.ack_every", "from 2"),
    ],
)
def test_a_wire_that_cannot_be_is_refused_with_its_place(wire: dict[str, Any], place: str, words: str) -> None:
    with pytest.raises(tb.ScenarioError) as caught:
        tb.run(_dumbbell(tb.bulk("cubic"), wire=wire))
    assert place in str(caught.value)
    assert words in str(caught.value)


def test_bleaching_in_front_of_a_kernels_queue_is_refused() -> None:
    wire = {"bleach": "all", "bleach_before_queue": True}
    with pytest.raises(tb.ScenarioError, match="cannot stand in front of kernel:codel"):
        tb.run(_dumbbell(tb.bulk("cubic"), queue="kernel:codel", wire=wire))


def test_signals_survive_the_way_to_the_engine_and_back() -> None:
    jitter = {"jitter": "5ms", "distribution": "pareto", "correlation": 0.25}
    wire = {"bleach": "ect1", "bleach_before_queue": True, "ack_hold": "3ms", "ack_every": 4, "netem_jitter": jitter}
    scenario = _dumbbell(tb.bulk("cubic"), wire=wire)
    again = tb.Scenario.from_resolved(scenario.resolve())
    assert scenario.dumbbell is not None
    assert again.links[0].wire == scenario.dumbbell.wire
    assert again.to_json() == scenario.to_json()


def test_a_setting_goes_below_a_jitter_written_short() -> None:
    scenario = _dumbbell(tb.bulk("cubic"), wire={"netem_jitter": "5ms"})
    longer = scenario.with_({"dumbbell.wire.netem_jitter.distribution": "normal"})
    assert longer.dumbbell is not None
    assert longer.dumbbell.wire.netem_jitter == tb.NetemJitter(jitter="5ms", distribution="normal")


def test_netem_gets_its_own_jitter_word_by_word() -> None:
    jitter = {"jitter": "5ms", "distribution": "normal", "correlation": 0.25}
    made = tb.export(_dumbbell(tb.bulk("cubic"), wire={"netem_jitter": jitter}), "netem")
    assert "delay 20000us 5000us 25.0000000% distribution normal" in made.text
    assert not [row for row in made.left_out if "wire" in row.field]


# -- a route that changes for one flow


ROUTE = """
duration = "6s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
queue = "1bdp"
[[flow]]
name = "moved"
app = "ping"
interval = "50ms"
access_schedule = [{ at = "2s", delay = "30ms" }, { at = "4s", delay = "5ms" }]
[[flow]]
name = "other"
app = "ping"
interval = "50ms"
[instruments]
echoes = "all"
"""


@pytest.mark.parametrize("run", [pytest.param(tb.run, id="sim"), *REAL])
def test_one_flows_route_changes_and_no_others(run: Any) -> None:
    # A tenth of the round trip, of the quickest echo: a live run on a busy machine holds others up.
    result = run(tb.Scenario.parse_toml(ROUTE))
    for flow, wanted in (("moved", (40, 100, 50)), ("other", (40, 40, 40))):
        echoes = result.where_flow("echoes", flow)
        # Of what left while a step held, and came back before it ended.
        for step, ms in enumerate(wanted):
            inside = (echoes["t_s"] >= 2 * step) & (echoes["t_s"] < 2 * step + 1.8)
            assert inside.sum() > 30
            assert 1e3 * np.nanmin(echoes["rtt_s"][inside]) == pytest.approx(ms, rel=0.1), (flow, step)


def test_a_flows_schedule_is_written_as_links_and_refused_where_it_stands() -> None:
    scenario = tb.Scenario.parse_toml(ROUTE)
    resolved = scenario.resolve()
    links = {row["name"]: row for row in resolved["links"]}
    steps = [{"at_ps": 2 * 10**12, "rate_bps": None, "delay_ps": 3 * 10**10}]
    assert links["moved.access"]["schedule"][:1] == links["moved.access.back"]["schedule"][:1] == steps
    assert resolved["flows"][0]["route"] == ["moved.access", "bottleneck"]
    assert tb.Scenario.parse_toml(scenario.to_toml()) == scenario
    assert tb.Scenario.from_resolved(resolved).resolve()["links"] == resolved["links"]
    with pytest.raises(tb.ScenarioError, match="changes nothing") as caught:
        scenario.with_({"flow.moved.access_schedule": [{"at": "2s"}]}).resolve()
    assert caught.value.problems[0].field.startswith("flow[0].access_schedule[0]"), str(caught.value)
    # An outage of one flow's route: what is sent meanwhile comes afterwards.
    outage = [{"at": "2s", "rate": "0bit"}, {"at": "3s", "rate": "1gbit"}]
    echoes = tb.run(scenario.with_({"flow.moved.access_schedule": outage})).where_flow("echoes", "moved")
    during = (echoes["t_s"] > 2) & (echoes["t_s"] < 3)
    assert echoes["t_s"][during] + echoes["rtt_s"][during] == pytest.approx(3.04, abs=0.003)
