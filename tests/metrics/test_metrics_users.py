"""What callers and readers experience, and how evenly flows share over time: against values worked out by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import tailback as tb
from synthetic import scenario
from tailback import metrics
from tailback.experiment.run_metrics import measured
from tailback.metrics import Rows


def rows(**tables):
    return Rows(tables, scenario(duration_s=60.0))


def packets(sent, received, *, fate=None, stream=None, size=200):
    received = np.asarray(received, dtype=float)
    lost = np.isnan(received)
    return {
        "flow": np.full(len(sent), 1, np.uint32),
        "bytes": np.full(len(sent), size, np.uint32),
        "sent_s": np.asarray(sent, dtype=float),
        "received_s": received,
        "fate": (lost * 1).astype(np.uint8) if fate is None else np.asarray(fate, np.uint8),
        "stream": np.zeros(len(sent), np.uint32) if stream is None else np.asarray(stream, np.uint32),
    }


@pytest.mark.parametrize(
    ("delay_s", "idd"),
    # X is 0, 1 and 2: 25·(2^⅙ − 3·(1 + 3⁻⁶)^⅙ + 2) and 25·(65^⅙ − 3·(1 + (⅔)⁶)^⅙ + 2).
    [(0.0, 0.0), (0.1, 0.0), (0.2, 3.0445), (0.4, 24.0701)],
)
def test_delay_impairment_is_g107s(delay_s, idd):
    assert metrics.delay_impairment(delay_s) == pytest.approx(idd, abs=1e-3)


def test_loss_impairment_is_g107s():
    # 95·1/(1 + 25.1) and 95·1/(1 + 4.3); bursts twice as long as chance halve P in the denominator.
    assert metrics.loss_impairment(0.01) == pytest.approx(3.6398, abs=1e-4)
    assert metrics.loss_impairment(0.01, concealment=False) == pytest.approx(17.9245, abs=1e-4)
    assert metrics.loss_impairment(0.01, 2.0) == pytest.approx(95 / 25.6, abs=1e-9)
    assert metrics.loss_impairment(0.0) == 0.0


@pytest.mark.parametrize(("rating", "mos"), [(93.2, 4.409), (80, 4.024), (60, 3.1), (50, 2.575), (-3, 1.0), (101, 4.5)])
def test_opinion_scores_are_annex_bs(rating, mos):
    assert metrics.mean_opinion_score(rating) == pytest.approx(mos, abs=1e-3)


def test_opinion_falls_with_the_rating_and_never_below_one():
    scores = [metrics.mean_opinion_score(rating) for rating in np.linspace(-5, 105, 500)]
    assert all(a <= b for a, b in pairwise(scores))
    assert min(scores) == 1.0


def test_random_loss_has_a_burst_ratio_of_one_and_a_lump_more():
    # Ten in a hundred, all in a row: mean burst 10, by chance 1/0.9.
    lump = np.zeros(100, bool)
    lump[40:50] = True
    assert metrics.burst_ratio(lump) == pytest.approx(9.0)
    rare = np.zeros(100, bool)
    rare[::10] = True
    assert metrics.burst_ratio(rare) == 1.0
    chance = np.random.default_rng(1).random(200_000) < 0.2
    assert metrics.burst_ratio(chance) == pytest.approx(1.0, abs=0.02)


def test_an_undisturbed_call_has_g711s_best_rating():
    sent = np.arange(0, 20, 0.02)
    heard = metrics.voice_quality(rows(packets=packets(sent, sent + 0.04)), "call")
    assert (heard.rating, heard.loss, heard.late) == (pytest.approx(93.2), 0.0, 0.0)
    assert heard.mos == pytest.approx(4.409, abs=1e-3)
    assert heard.delay_s == pytest.approx(0.04)


def test_a_late_packet_is_lost_when_waiting_for_it_would_cost_more():
    sent = np.arange(0, 10, 0.02)
    received = sent + 0.05
    received[100] += 0.6  # one in five hundred; 0.67 s of delay would cost far more than 0.2 % of loss
    heard = metrics.voice_quality(rows(packets=packets(sent, received)), "call")
    assert heard.late == pytest.approx(1 / 500)
    assert heard.jitter_s > 0.0
    assert metrics.voice_quality(rows(packets=packets(sent, received)), "call", 5.0).jitter_s < 1e-9
    assert heard.rating == pytest.approx(93.2 - 95 * 0.2 / (0.2 + 25.1), abs=1e-6)


def test_a_dead_call_has_rating_zero_and_a_bad_stretch_counts_by_its_length():
    sent = np.arange(0, 20, 0.02)
    received = np.where(sent < 10, sent + 0.04, np.nan)
    heard = metrics.voice_quality(rows(packets=packets(sent, received)), "call")
    assert heard.ratings == (pytest.approx(93.2), 0.0)
    assert heard.rating == pytest.approx(46.6)


def test_a_reader_has_a_goodput_of_the_whole_run_only():
    recorded = {"polls": "all", "packets": "all"}
    read = tb.run(tb.dumbbell(rate="1mbit", rtt="40ms", flows=[tb.flow("page")], duration="3s", instruments=recorded))
    assert metrics.goodput(read, 0) > 1e4
    with pytest.raises(metrics.NothingToMeasure, match="most payload of page came back"):
        metrics.goodput(read, 0, 0.0, 3.0)
    assert np.isnan([metrics.flow_loss_rate(read, 0), metrics.flow_loss_rate(read, 0, 0.0, 3.0)]).all()


def test_a_call_of_which_nothing_arrives_has_no_jitter():
    wire = {"loss": 1.0}
    recorded = {"packets": "all"}
    lost = tb.run(
        tb.dumbbell(rate="1mbit", rtt="40ms", wire=wire, flows=[tb.voip()], duration="1s", instruments=recorded)
    )
    (row,) = lost.experience_summary()
    assert (row["lost"], row["median_ms"], row["jitter_ms"], row["mos"]) == (1.0, None, None, 1.0)
    assert np.isnan(measured(lost)("voip.experience_jitter_ms"))


def requests(t, size, took, fate):
    n = len(t)
    return {
        "flow": np.zeros(n, np.uint32),
        "t_s": np.asarray(t, float),
        "bytes": np.asarray(size, np.uint64),
        "response_time_s": np.asarray(took, float),
        "fate": np.asarray(fate, np.uint8),
    }


def test_response_times_are_of_what_was_answered():
    nan = float("nan")
    asked = rows(requests=requests([1, 2, 3, 4], [1000, 2000, 1000, 1000], [0.1, 0.2, 0.3, nan], [0, 0, 0, 2]))
    sizes, times = metrics.response_times(asked, "tcp")
    assert (sizes.tolist(), times.tolist()) == ([1000, 2000, 1000], [0.1, 0.2, 0.3])
    assert metrics.response_time_quantiles(asked, "tcp", (0.5,), object_bytes=1000)[0] == pytest.approx(0.2)
    assert metrics.unanswered(asked, "tcp") == 0.25
    assert np.isnan(metrics.response_time_quantiles(asked, "tcp", (0.5,), object_bytes=7)[0])


def segments(events):
    """(t, outgoing, seq, length, ack)"""
    columns = list(zip(*events, strict=True))
    n = len(events)
    return {
        "flow": np.zeros(n, np.uint32),
        "at_receiver": np.zeros(n, bool),
        "t_s": np.array(columns[0], float),
        "outgoing": np.array(columns[1], bool),
        "seq": np.array(columns[2], np.uint64),
        "length": np.array(columns[3], np.uint32),
        "ack": np.array(columns[4], np.uint64),
    }


def test_karns_rule_takes_no_sample_from_what_was_sent_twice():
    seen = rows(
        segments=segments(
            [
                (0.00, True, 0, 100, 0),
                (0.01, True, 100, 100, 0),
                (0.02, True, 200, 100, 0),
                (0.10, False, 0, 0, 100),  # 100 ms
                (0.11, False, 0, 0, 100),  # no advance
                (0.20, True, 100, 100, 0),  # again
                (0.30, False, 0, 0, 300),  # covers what was sent twice
                (0.31, True, 300, 100, 0),
                (0.32, True, 400, 100, 0),
                (0.43, False, 0, 0, 500),  # the newest it covers: 110 ms
            ]
        )
    )
    t, rtt = metrics.karn_rtts(seen, "tcp")
    assert t.tolist() == [0.10, 0.43]
    assert rtt == pytest.approx([0.10, 0.11])


def test_karns_rule_agrees_with_the_path_of_a_lone_flow():
    made = tb.dumbbell(
        rate="10mbit", rtt="80ms", queue="4bdp", duration="3s",
        flows=[tb.bulk("reno", name="bulk", receive_buffer="32kB")], instruments={"segments": "all"},
    )  # fmt: skip
    _, rtt = metrics.karn_rtts(tb.run(made), "bulk", 1.0)
    # A window below the BDP: no queue but that of a burst of its own.
    assert rtt.min() == pytest.approx(0.0812, abs=2e-4)
    assert np.quantile(rtt, 0.9) < 0.1


def test_echoes_without_reply_have_no_round_trip():
    table = {
        "flow": np.zeros(3, np.uint32),
        "t_s": np.array([0.0, 1.0, 2.0]),
        "number": np.arange(3),
        "rtt_s": np.array([0.05, np.nan, 0.07]),
    }
    t, rtt = metrics.echo_rtts(rows(echoes=table), "tcp")
    assert (t.tolist(), rtt.tolist()) == ([0.0, 2.0], [0.05, 0.07])


def shared(second):
    """Two calls' worth of packets: one steady flow, and one whose rate is `second(t)` of the first's."""
    base = scenario(duration_s=60.0)
    base["flows"] = [{**base["flows"][1], "name": name} for name in ("one", "two")]
    sent = np.arange(0.0, 60.0, 0.01)
    chosen = np.random.default_rng(3).random(len(sent)) < second(sent)
    one, two = packets(sent, sent), packets(sent[chosen], sent[chosen])
    one["flow"][:] = 0
    table = {key: np.concatenate([one[key], two[key]]) for key in one}
    flows = {"flow": np.arange(2, dtype=np.uint32), "started_s": np.array([0.0, 10.0])}
    return Rows({"packets": table, "flows": flows}, base)


def test_fairness_over_time_goes_from_a_half_to_one():
    starts, index = metrics.jain_series(shared(lambda t: (t >= 30) * 1.0), ["one", "two"], bin_s=5.0)
    assert starts[:2].tolist() == [0.0, 5.0]
    assert index[:6] == pytest.approx(0.5)
    assert index[6:] == pytest.approx(1.0)


def test_convergence_is_counted_from_the_last_start():
    # From 10 s on the second flow climbs for 20 s; it has 80 % of a fair share at two thirds of the first's.
    climbs = shared(lambda t: np.clip((t - 10.0) / 20.0, 0.0, 1.0))
    assert metrics.convergence_time(climbs, ["one", "two"], smooth_bins=1) == pytest.approx(13.8, abs=2.0)
    assert np.isnan(metrics.convergence_time(shared(lambda t: 0.3 * (t >= 10)), ["one", "two"]))


def test_tcpstat_counts_every_packet_in_whole_bins():
    sent = np.arange(0.0, 12.0, 0.02)
    starts, rate = metrics.tcpstat_series(rows(packets=packets(sent, sent + 1e-4)), "call", 5.0, 0.0, 12.0)
    assert starts.tolist() == [0.0, 5.0]
    assert rate == pytest.approx(80_000.0)


def test_the_lowest_tenth_is_cut_and_the_quartiles_are_a_half_apart():
    values = np.arange(1.0, 61.0)
    assert metrics.truncated_mean(values) == np.mean(np.arange(7.0, 61.0))
    assert metrics.truncated_mean(np.arange(30.0)) == np.mean(np.arange(3.0, 30.0))
    assert metrics.interquartile_range(np.arange(0.0, 101.0)) == 50.0
    with pytest.raises(ValueError, match="leave nothing"):
        metrics.truncated_mean(values, 0.6, 0.4)


def test_a_result_shows_what_caller_reader_and_ping_feel():
    result = tb.run(
        tb.dumbbell(
            rate="10mbit", rtt="80ms", duration="12s",
            flows=[
                tb.bulk("cubic"), tb.voip(), tb.flow("web-probe", from_="right", to="left"), tb.flow("ping"),
                tb.flow("udp-cbr", params={"rate": "100kbit"}),
            ],
            instruments={"packets": ["voip", "udp-cbr"], "requests": ["web-probe"], "echoes": ["ping"]},
        )
    )  # fmt: skip
    rows = {row["flow"]: row for row in result.experience_summary()}
    assert {flow: row["measure"] for flow, row in rows.items()} == {
        "voip": "delay", "web-probe": "response time", "ping": "round trip", "udp-cbr": "delay",
    }  # fmt: skip
    # Nothing is quicker than the path: 40 ms one way, 80 there and back, two round trips for an object.
    assert 40 < rows["voip"]["median_ms"] < rows["voip"]["p95_ms"] < 125
    assert rows["ping"]["median_ms"] > 80
    assert rows["web-probe"]["median_ms"] > 160
    assert 1 < rows["voip"]["mos"] < 4.42
    assert [flow for flow, row in rows.items() if row["mos"] is not None] == ["voip"]
    quality = metrics.voice_quality(result, "voip")
    assert rows["voip"]["mos"] == quality.mos


def test_what_begins_before_the_recording_has_no_start():
    asked = {"polls": "all", "requests": "all", "from": "2s"}
    flows = [tb.bulk("reno", name="a"), tb.flow("video", name="film")]
    cut = tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="6s", instruments=asked)
    names = ("a.ramp_ms", "a.received_15kB_ms", "a.longest_pause_ms", "film.startup_s")
    known = [measured(tb.run(cut.with_({"instruments.from": "0s"})))(name) for name in names]
    assert max(known) < 1000.0, "they were two seconds and more"
    assert all(math.isnan(measured(tb.run(cut))(name)) for name in names)
    ends = measured(tb.run(cut.with_({"instruments.from": "0s", "instruments.until": "3s"})))
    assert [ends(name) for name in names[:2]] == known[:2]
    assert math.isnan(ends("a.longest_pause_ms"))


def test_answers_are_divided_by_the_time_that_was_recorded():
    asking = tb.flow("request-response", name="asks", params={"think": 0.02, "response_bytes": 10_000})
    whole = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[asking], duration="4s", instruments={"requests": "all"})
    rates = [measured(tb.run(each))("asks.answered_mbps") for each in (whole, whole.with_({"instruments.from": "2s"}))]
    assert rates[0] == pytest.approx(rates[1], rel=0.05)
