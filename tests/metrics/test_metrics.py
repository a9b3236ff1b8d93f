"""Each metric against values worked out by hand."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest

import tailback as tb
from synthetic import LIMIT, RATE, RTT_S, sawtooth, scenario
from tailback import metrics
from tailback.metrics import Rows
from tailback.metrics.rows import CWR_ENTERED, RECOVERY_ENTERED, RECOVERY_LEFT, TIMEOUT


def with_congestion(times: list[float], kinds: list[int], cwnd: list[float] | None = None) -> Rows:
    base = sawtooth()
    n = len(times)
    before = np.array(cwnd if cwnd is not None else [100.0] * n)
    table = {
        "t_s": np.array(times),
        "flow": np.zeros(n, np.uint32),
        "kind": np.array(kinds, np.uint8),
        "cwnd_before": before,
        "cwnd_after": before / 2,
        "ssthresh": before / 2,
        "in_flight": before,
    }
    return Rows({**base.tables, "congestion": table}, base.scenario)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [((1, 2, 3), 36 / 42), ((1, 1, 1, 1), 1.0), ((1, 0, 0, 0), 0.25), ((1,) * 9 + (2,), 121 / 130)],
)
def test_jain_of_the_textbook_examples(shares, expected):
    assert metrics.jain(shares) == pytest.approx(expected)


def test_throughput_stays_below_the_link_where_gaps_are_filled():
    scenario = tb.dumbbell(
        rate="10mbit",
        rtt="100ms",
        queue="1bdp",
        flows=[tb.bulk("reno")],
        duration="30s",
        instruments={"polls": "all", "poll_interval": "5ms"},
    )
    rows = Rows.of(tb.run(scenario))
    _, rate = metrics.throughput_series(rows, "bulk", 0.1)
    polls = rows.of_flow("polls", "bulk")
    in_order = 8 * np.diff(np.interp(np.arange(0.0, 30.0, 0.1), polls["t_s"], polls["bytes_received"])) / 0.1
    assert in_order.max() > 12e6, "what waited behind a gap came at once"
    # One poll's packets may fall into either of two bins.
    assert 9e6 < rate.max() <= 10e6 * (1 + 0.005 / 0.1)
    assert (polls["bytes_arrived"] >= polls["bytes_received"]).all()
    assert (np.diff(polls["bytes_arrived"].astype(np.int64)) >= 0).all()


def test_jain_of_a_result_names_what_to_give():
    with pytest.raises(TypeError, match=r"jain takes numbers, not Rows: for example \[metrics\.goodput"):
        metrics.jain(sawtooth())


def test_jain_of_nothing_is_undefined():
    assert np.isnan(metrics.jain([0, 0]))


def test_rfc3550_jitter_follows_its_recurrence():
    # Changes of 0, 5, 3 and 10: the estimates are 0, 0.3125, 0.48047 and 1.07544.
    transit = np.cumsum([0.0, 0.0, 5.0, 3.0, 10.0])
    assert metrics.smoothed_jitter(transit) == pytest.approx((0.3125 + 0.480469 + 1.075439) / 4, abs=1e-5)
    assert metrics.smoothed_jitter(transit[:1]) == 0.0


def test_jitter_is_of_the_whole_call_and_not_of_its_end():
    calm, rough = np.zeros(500), np.tile([0.0, 8e-3], 250)
    packets = {"flow": np.zeros(1000, dtype=np.uint32), "sent_s": np.arange(1000) * 0.02}
    packets["received_s"] = packets["sent_s"] + np.concatenate([rough, calm])
    result = Rows({"packets": packets}, sawtooth().scenario)
    # Half of the call has a change of 8 ms at each packet; its last third of a second has none.
    assert metrics.jitter(result, 0) == pytest.approx(4e-3, rel=0.02)
    assert metrics.last_jitter(result, 0) < 1e-9


def test_cdf_counts_shares_and_leaves_out_what_is_missing():
    x, y = metrics.cdf(np.array([3.0, np.nan, 1.0, 2.0, 2.0]))
    assert x.tolist() == [1, 2, 2, 3]
    assert y.tolist() == [0.25, 0.5, 0.75, 1.0]


def test_distance_between_distributions_is_kolmogorov_smirnov():
    a = np.array([1.0, 2.0, 3.0, 4.0])
    assert metrics.distribution_distance(a, a) == 0.0
    assert metrics.distribution_distance(a, a + 10) == 1.0
    assert metrics.distribution_distance(a, np.array([1.0, 2.0, 13.0, 14.0])) == 0.5


def test_decimation_keeps_ends_and_a_lone_spike():
    t = np.arange(100_000.0)
    v = np.zeros_like(t)
    v[54_321], v[54_322] = 7.0, -3.0
    kept_t, kept_v = metrics.decimate(t, v, 500)
    assert len(kept_t) <= 500
    assert (kept_t[0], kept_t[-1]) == (0, 99_999)
    assert (kept_v.max(), kept_v.min()) == (7.0, -3.0)
    assert (np.diff(kept_t) > 0).all()


def test_decimation_leaves_a_short_series_alone():
    t = np.arange(10.0)
    assert metrics.decimate(t, t, 500)[0] is t or (metrics.decimate(t, t, 500)[0] == t).all()


def test_goodput_of_an_interval_comes_from_the_polls():
    rows = sawtooth()
    assert metrics.goodput(rows, "tcp", 10.0, 20.0) == pytest.approx(RATE * 1448 / 1500)


def test_goodput_of_the_whole_run_comes_from_the_counters():
    assert metrics.goodput(sawtooth(), "tcp") == pytest.approx(8 * 72e6 / 60)


def test_throughput_bins_are_even_for_a_steady_flow():
    _, rate = metrics.throughput_series(sawtooth(), "tcp", 1.0)
    assert len(rate) == 60
    assert rate[:-1] == pytest.approx(RATE * 1448 / 1500)
    _, call = metrics.throughput_series(sawtooth(depth=0.0), "call", 2.0)
    assert call[3:-1] == pytest.approx(80_000.0, abs=1700)


def test_rates_are_of_what_was_recorded_and_the_last_bin_of_its_own_length():
    asked = {"polls": "all", "from": "4s"}
    flows = [tb.bulk("reno")]
    cut = tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="7.7s", instruments=asked)
    whole = cut.with_({"instruments.from": "0s"})
    (began, rate), (_, known) = (metrics.throughput_series(tb.run(each), "bulk") for each in (cut, whole))
    assert began.tolist() == [4.0, 5.0, 6.0, 7.0]
    assert rate == pytest.approx(known[4:], rel=0.01)
    assert rate[-1] == pytest.approx(metrics.goodput(tb.run(whole), "bulk", 7.0, 7.7), rel=0.05)
    with pytest.raises(metrics.MissingRows, match="only 4 … "):
        metrics.goodput(tb.run(cut), "bulk", 2.0, 5.0)
    short = metrics.convergence_time(tb.run(whole.with_(duration="3s")), ["bulk"])
    assert np.isnan(short), "five seconds are averaged, and there are three"


def test_a_backlog_drains_at_the_rates_of_its_links_schedule():
    schedule = [{"at": "2s", "rate": "0bit"}, {"at": "4s", "rate": "1mbit"}]
    path = {"rate": "2mbit", "rtt": "40ms", "queue": "20packets", "schedule": schedule}
    result = tb.run(tb.dumbbell(**path, flows=[tb.bulk()], duration="9s", instruments={"queues": "all"}))
    early, outage, late = (
        metrics.queue_delay_quantiles(result, 0, (1.0,), *at)[0] for at in ((0, 1.5), (2, 4), (5, 9))
    )
    # Twenty packets take 0.12 s at 2 Mbit/s and 0.24 s at 1.
    assert (early, late) == pytest.approx((0.12, 0.24), abs=0.013)
    assert 2.0 < outage < 2.24


def test_a_window_of_a_polled_queue_begins_and_ends_with_the_backlog_that_lasts():
    base = sawtooth()
    polls = {
        "t_s": np.array([1.0, 2.0, 3.0]),
        "link": np.zeros(3, np.uint32),
        "backlog_bytes": np.array([8.0, 0.0, 4.0]),
    }
    rows = Rows({**base.tables, "queue_polls": polls}, base.scenario)
    for window, expected in (
        ((1.5, 2.5), ([8.0, 0.0], [0.5, 0.5])),
        ((), ([8.0, 0.0], [1.0, 1.0])),
        ((0.0, 0.9), ([], [])),
    ):
        backlog, held = metrics.held_backlogs(rows, 0, *window)
        assert (backlog.tolist(), held.tolist()) == expected


def test_utilisation_and_loss_rates():
    rows = sawtooth()
    assert metrics.utilisation(rows) == pytest.approx(0.9)
    assert metrics.drop_share_at_link(rows) == pytest.approx(100 / 50_000)
    assert metrics.flow_loss_rate(rows, "tcp") == pytest.approx(10 / 50_000)
    assert metrics.flow_loss_rate(rows, "call", 0.0, 1.0) == pytest.approx(1 / 50)


def test_induced_delay_is_backlog_over_rate():
    rows = sawtooth()
    sent, induced = metrics.induced_delay(rows, "call")
    expected = np.mod(sent - 2.0, 8.0) / 8.0 * LIMIT * 8 / RATE
    assert induced == pytest.approx(expected, abs=1e-12)
    assert metrics.base_delay(rows, "call") == pytest.approx(RTT_S / 2 + 160e-6)
    # A dropped packet has no delay.
    assert len(sent) == len(rows.tables["packets"]["sent_s"]) - 1


def test_a_linear_climb_gives_uniform_quantiles():
    rows = sawtooth()
    quantiles = metrics.delay_quantiles(rows, "call", (0.25, 0.5, 0.75), 10.0, 26.0)
    assert quantiles == pytest.approx([0.02, 0.04, 0.06], abs=3e-4)


def test_time_above_three_quarters_of_a_linear_climb_is_a_quarter():
    assert metrics.time_above(sawtooth(), 0.75, None, 10.0, 26.0) == pytest.approx(0.25, abs=0.002)


def test_occupancy_is_weighted_by_time_not_by_events():
    base = sawtooth()
    polls = {
        "t_s": np.array([0.0, 9.0, 9.1, 9.2, 10.0]),
        "link": np.zeros(5, np.uint32),
        "backlog_bytes": np.array([0.0, 10.0, 20.0, 30.0, 0.0]),
        "backlog_packets": np.zeros(5),
    }
    rows = Rows({**base.tables, "queue_polls": polls}, base.scenario)
    level, share = metrics.occupancy_distribution(rows)
    assert level.tolist() == [0, 10, 20, 30]
    assert share == pytest.approx([0.9, 0.91, 0.92, 1.0])


def test_a_logged_queue_counts_the_time_without_events():
    # The transfer takes two of ten seconds.
    flows = [tb.bulk("reno", bytes="2MB")]
    base = tb.dumbbell(rate="10mbit", rtt="40ms", queue="1bdp", flows=flows, duration="10s")
    logged = tb.run(base.with_({"instruments.queues": "all"}))
    polled = tb.run(base.with_({"instruments.queue_polls": "all", "instruments.poll_interval": "1ms"}))
    assert metrics.queue_delay_quantiles(logged).tolist()[0] == 0.0
    assert metrics.time_above(logged, 0.5) == pytest.approx(metrics.time_above(polled, 0.5), abs=0.01)
    for window in ((0.5, 10.0), (0.0, 0.01), (1.0, 1.5), (5.0, 6.0)):
        mean = [metrics.held_backlogs(each, None, *window) for each in (logged, polled)]
        mean = [float(np.average(backlog, weights=held)) for backlog, held in mean]
        # A poll also counts the packet that is being sent.
        assert mean[0] == pytest.approx(mean[1], abs=1600)
    backlog, held = metrics.held_backlogs(logged)
    assert float(np.average(backlog, weights=held)) == pytest.approx(logged.link_summary()[0]["backlog_mean_bytes"])


def test_delay_over_backlog_has_the_fifo_slope():
    slope, intercept, r2 = metrics.delay_slope(sawtooth(), "call", None, 10.1, 17.9)
    assert slope == pytest.approx(8 / RATE, rel=1e-3)
    assert intercept == pytest.approx(RTT_S / 2 + 160e-6, abs=2e-4)
    assert r2 > 0.999


def test_epochs_are_the_time_between_events_from_the_second_on():
    found = metrics.epochs(sawtooth(), "tcp")
    assert found.duration_s == pytest.approx(8.0)
    assert found.steady_from_s == pytest.approx(10.0)
    assert len(found) == 6
    assert found.open_since_s == pytest.approx(58.0)


def test_a_loaded_round_trip_has_a_full_queue_in_it():
    assert metrics.loaded_rtt_s(sawtooth(), "tcp") == pytest.approx(0.16)


def test_entries_within_two_loaded_round_trips_are_one_event():
    kinds = [RECOVERY_ENTERED, RECOVERY_LEFT, RECOVERY_ENTERED, RECOVERY_LEFT, CWR_ENTERED]
    events = metrics.congestion_events(with_congestion([1.0, 1.1, 1.3, 1.4, 1.33], kinds), "tcp")
    # 1.30 is 0.30 s after the first entry, within 2 × 0.16 s; 1.33 is not.
    assert events.t_s.tolist() == [1.0, 1.33]
    assert events.entries.tolist() == [2, 1]


def test_a_timeout_before_recovery_is_left_belongs_to_the_same_event():
    rows = with_congestion([1.0, 2.5, 9.0], [RECOVERY_ENTERED, TIMEOUT, RECOVERY_ENTERED])
    events = metrics.congestion_events(rows, "tcp")
    assert events.t_s.tolist() == [1.0, 9.0]
    assert events.timeouts.tolist() == [1, 0]


def test_a_timeout_after_recovery_was_left_is_an_event_of_its_own():
    rows = with_congestion([1.0, 1.2, 5.0], [RECOVERY_ENTERED, RECOVERY_LEFT, TIMEOUT])
    assert metrics.congestion_events(rows, "tcp").t_s.tolist() == [1.0, 5.0]


def test_typical_epochs_are_the_three_nearest_the_middle():
    window = metrics.typical_epochs(sawtooth(), "tcp")
    assert (window.start_s, window.end_s) == pytest.approx((18.0, 42.0))
    assert window.complete


def test_typical_epochs_avoid_an_outlier_in_the_middle():
    times = [1.0, 5, 10, 15, 20, 25, 28, 29, 40, 45, 50, 55]
    rows = with_congestion(times, [RECOVERY_ENTERED] * len(times))
    window = metrics.typical_epochs(rows, "tcp")
    # 28–29 lasts less than half the median and 29–40 more than twice: neither may be in it.
    assert (window.start_s, window.end_s) in {(10.0, 25.0), (40.0, 55.0), (15.0, 28.0)}


def test_without_a_whole_epoch_the_window_runs_to_the_end_and_says_so():
    rows = with_congestion([3.0], [RECOVERY_ENTERED])
    window = metrics.typical_epochs(rows, "tcp")
    assert (window.start_s, window.end_s, window.complete) == (3.0, 60.0, False)


def test_two_epochs_are_taken_as_they_are_but_not_as_complete():
    rows = with_congestion([3.0, 10.0, 25.0, 44.0], [RECOVERY_ENTERED] * 4)
    window = metrics.typical_epochs(rows, "tcp")
    assert (window.start_s, window.end_s, window.count, window.complete) == (10.0, 44.0, 2, False)


def test_reaction_time_runs_from_the_first_drop():
    waits = metrics.reaction_times(sawtooth(), "tcp")
    assert waits == pytest.approx(0.15)


def test_backoff_is_ssthresh_over_the_window_before():
    assert metrics.backoff_factors(sawtooth(), "tcp") == pytest.approx(0.5)


def test_each_epochs_smallest_backlog():
    lows = metrics.epoch_minimum_backlog(sawtooth(depth=0.4), "tcp")
    assert lows == pytest.approx(0.6 * LIMIT, rel=0.01)


def test_window_and_queue_of_a_sawtooth_agree_in_shape_and_period():
    rows = sawtooth()
    assert metrics.window_queue_correlation(rows, "tcp", None, 10.0, 58.0) == pytest.approx(1.0, abs=1e-3)
    assert metrics.dominant_period(*metrics.cwnd_series(rows, "tcp")) == pytest.approx(8.0, abs=0.05)
    assert metrics.dominant_period(*metrics.backlog_series(rows)) == pytest.approx(8.0, abs=0.05)


def test_growth_is_counted_in_segments_per_round_trip():
    rows = sawtooth()
    _, growth = metrics.growth_per_rtt(rows, "tcp", 10.0, 17.5)
    # 66.7 segments in 8 s, times a round trip that grows from 80 to 160 ms.
    assert growth[0] == pytest.approx(66.67 / 8 * 0.08, rel=0.03)
    assert growth[-1] == pytest.approx(66.67 / 8 * 0.145, rel=0.01)


def test_a_relapse_within_an_epoch_is_counted():
    base = sawtooth()
    polls = dict(base.tables["polls"])
    t = polls["t_s"]
    # Per second: 50 segments, then none, then 50 again; a round trip is 0.1 s.
    speed = np.where((t % 8 > 3) & (t % 8 < 5), 2.0, 90.0)
    polls["cwnd"] = np.cumsum(speed) * 0.01 * 1448
    polls["srtt_s"] = np.full_like(t, 0.1)
    rows = Rows({**base.tables, "polls": polls}, base.scenario)
    assert metrics.slowdowns_per_epoch(rows, "tcp").tolist() == [1.0] * 6
    assert metrics.slowdowns_per_epoch(base, "tcp").sum() == 0


def test_a_missing_table_names_the_instrument():
    base = sawtooth()
    rows = Rows({k: v for k, v in base.tables.items() if k != "packets"}, base.scenario)
    with pytest.raises(metrics.MissingRows, match=r"instruments\.packets"):
        metrics.one_way_delay(rows, "call")


@pytest.fixture(scope="module")
def watched() -> tuple[tb.Result, tb.Result]:
    """One run twice: with all of its flows recorded, and with `other` alone."""
    flows = [tb.flow(app, name=app) for app in ("bulk", "ping", "rpm-probe", "video")]
    flows += [
        tb.voip(name="call", two_way=True),
        tb.flow("rpm-probe", name="other"),
        tb.flow("ping", name="other-ping"),
    ]
    others = {key: ["other"] for key in ("polls", "segments", "packets", "requests")} | {"echoes": ["other-ping"]}
    path = {"rate": "5mbit", "rtt": "20ms", "queue": "20packets"}

    def run(recorded: dict[str, object]) -> tb.Result:
        on = {"queues": "all", "queue_polls": "all", **recorded}
        return tb.run(tb.dumbbell(**path, flows=flows, duration="3s", instruments=on))

    return run(dict.fromkeys(others, "all")), run(others)


def _taking_flows() -> list[str]:
    named = {"flow", "flows", "loaded", "probes"}
    return [it.name for it in metrics.catalogue() if named & inspect.signature(it.function).parameters.keys()]


@pytest.mark.parametrize("name", _taking_flows())
def test_a_flow_that_was_not_recorded_has_the_same_value_or_misses_rows(watched, name):
    function = metrics.get(name).function
    for flow in ("bulk", "ping", "rpm-probe", "video", "call", "call.back"):
        given = {"flow": flow, "flows": [flow], "loaded": [flow], "probes": flow, "start_s": 1.0, "end_s": 3.0}
        given = {key: given[key] for key in inspect.signature(function).parameters.keys() & given.keys()}
        try:
            known = function(watched[0], **given)
            found = function(watched[1], **given)
        except (metrics.MissingRows, AssertionError):
            # `film` asserts that its flow plays one.
            continue
        known, found = (vars(each) if is_dataclass(each) else each for each in (known, found))
        np.testing.assert_equal(found, known, err_msg=flow)


def test_an_unknown_flow_is_named_with_the_known_ones():
    with pytest.raises(KeyError, match="tcp, call"):
        metrics.goodput(sawtooth(), "tpc")


def test_every_metric_has_definition_unit_and_source():
    assert len(metrics.names()) >= 20
    for entry in metrics.catalogue():
        assert entry.definition.endswith("."), entry.name
        assert entry.unit, entry.name
        assert entry.source, entry.name
        assert entry.summary


def test_an_unknown_metric_suggests_the_nearest():
    with pytest.raises(metrics.UnknownMetric, match="goodput"):
        metrics.get("godput")


def test_the_route_follows_the_fewest_hops():
    rows = sawtooth()
    assert rows.route("call") == [0]
    assert rows.back_route("tcp") == [1]
    assert rows.base_rtt_s("tcp") == pytest.approx(0.08)


def test_the_documentation_is_made_from_the_registry():
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == metrics.markdown()


def test_a_packet_let_go_early_by_a_timer_sets_the_floor():
    base = sawtooth()
    packets = dict(base.tables["packets"])
    packets["received_s"] = packets["received_s"].copy()
    packets["received_s"][5] = packets["sent_s"][5] + 0.0395
    rows = Rows({**base.tables, "packets": packets}, base.scenario)
    assert metrics.base_delay(rows, "call") == pytest.approx(0.0395)
    assert metrics.induced_delay(rows, "call")[1].min() == pytest.approx(0.0)


def test_goodput_counts_the_time_a_flow_was_on() -> None:
    result = tb.run(
        tb.dumbbell(rate="10mbit", rtt="20ms", queue="1bdp", flows=[tb.bulk("reno", stop="5s")], duration="20s")
    )
    (row,) = result.flow_summary()
    # As a run of five seconds has it, and as the table of flows says it.
    assert metrics.goodput(result, 0) / 1e6 == pytest.approx(row["goodput_mbps"])
    assert metrics.goodput(result, 0) / 1e6 > 9.0


def test_packets_under_way_at_the_end_are_not_lost():
    # The last packets of a call that is cut off have left and not arrived: 40 ms of them, two.
    flows = [tb.bulk("reno", name="bulk"), tb.voip(name="call")]
    recorded = {"packets": ["call"]}
    path = {"rate": "2mbit", "rtt": "80ms", "wire": {"loss": 0.05}}
    run = tb.run(tb.dumbbell(**path, flows=flows, duration="6s", instruments=recorded))
    fates = run.where_flow("packets", "call")["fate"]
    lost, under_way = (int(np.sum(fates == code)) for code in (1, 2))
    assert under_way >= 2
    assert lost > 0
    share = lost / (len(fates) - under_way)
    assert metrics.flow_loss_rate(run, "call") == share
    assert metrics.flow_loss_rate(run, "call", 0.0, 6.0) == share
    assert run.flow_summary()[1]["loss"] == share
    assert run.experience_summary()[0]["lost"] == share


def programs(fates, reverse, *, payload=0):
    """A flow of programs that a live run's emulator saw; the kernel counted `payload` bytes over TCP."""
    count = len(fates)
    run = scenario(duration_s=10.0)
    run["flows"] = [dict(run["flows"][0], app={"kind": "exec", "params": {}})]
    flows = {name: np.zeros(1) for name in ("packets_sent", "packets_received", "packets_dropped", "bytes_returned")}
    flows |= {"started_s": np.zeros(1), "finished_s": np.full(1, np.nan), "bytes_received": np.full(1, payload)}
    captures = {
        "flow": np.zeros(count, np.uint32),
        "reverse": np.asarray(reverse, dtype=bool),
        "bytes": np.full(count, 1000, np.uint32),
        "fate": np.asarray(fates, np.uint8),
        "copy": np.zeros(count, dtype=bool),
    }
    return Rows({"flows": flows, "captures": captures}, run)


def test_programs_have_goodput_and_loss_of_the_direction_that_carries_more_from_what_the_emulator_saw():
    # Of two packets there one is lost, of five back one is lost and one under way.
    seen = programs([0, 1, 0, 0, 0, 1, 2], [0, 0, 1, 1, 1, 1, 1])
    assert metrics.flow_loss_rate(seen, 0) == 1 / 4
    assert metrics.goodput(seen, 0) == 8.0 * 3000 / 10.0
    assert metrics.goodput(programs([0], [0], payload=400), 0) == 8.0 * 400 / 10.0, (
        "what the kernel counted comes first"
    )
