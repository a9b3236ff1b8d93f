"""A game's updates and a film by DASH, by the laws of their models."""

from __future__ import annotations

import numpy as np
import pytest

import tailback as tb
from tailback import metrics
from tailback.experiment.run_metrics import measured

#: Netflix's fixed ladder, kbit/s.
LADDER = (235, 375, 560, 750, 1050, 1750, 2350, 3000, 4300, 5800)
#: Payload of a full segment over its bytes on the link.
PAYLOAD = 1448 / 1500


def film(rate: str, duration: str, **params: object) -> tb.Result:
    player = tb.flow("video", name="film", from_="right", to="left", params=params)
    return tb.run(
        tb.dumbbell(
            rate=rate, rtt="20ms", queue="64kB", flows=[player], duration=duration, instruments={"requests": ["film"]}
        )
    )


def bitrates(result: tb.Result, from_s: float = 0.0) -> np.ndarray:
    """Of the segments asked for from an instant on, kbit/s."""
    rows = result.where_flow("requests", "film")
    return rows["bytes"][rows["t_s"] >= from_s] * 8 / 4e3


@pytest.mark.parametrize(("rate", "rung"), [("4mbit", 3000), ("1.6mbit", 1050), ("30mbit", 5800), ("0.3mbit", 235)])
def test_by_rate_a_constant_capacity_gives_the_rung_below_and_no_other(rate, rung) -> None:
    result = film(rate, "400s", control="rate")
    assert set(bitrates(result, 100.0)) == {rung}
    seen = metrics.film(result, "film")
    assert seen.stalls == 0
    assert seen.switches <= len(LADDER)


@pytest.mark.parametrize(("mbps", "around"), [(4.0, {3000, 4300}), (1.4, {1050, 1750})])
def test_by_buffer_the_two_rungs_around_the_capacity_average_it(mbps, around) -> None:
    result = film(f"{mbps}mbit", "1600s", control="bba")
    settled = bitrates(result, 400.0)
    assert set(settled) == around
    assert settled.mean() == pytest.approx(1e3 * mbps * PAYLOAD, rel=0.02)
    assert metrics.film(result, "film").stalls == 0


def test_by_buffer_plenty_gives_the_highest_rung_and_a_full_buffer() -> None:
    result = film("30mbit", "600s", control="bba")
    assert set(bitrates(result, 200.0)) == {5800}
    # Full: one segment is asked for every four seconds.
    asked = result.where_flow("requests", "film")["t_s"]
    assert np.diff(asked[asked > 200.0]) == pytest.approx(4.0, abs=1e-6)


@pytest.mark.parametrize("control", ["bba", "rate"])
def test_nothing_stands_still_above_the_lowest_rung_and_below_it_the_share_is_known(control) -> None:
    assert metrics.film(film("0.26mbit", "900s", control=control), "film").stalls == 0
    result = film("0.15mbit", "900s", control=control)
    seen = metrics.film(result, "film")
    share = 1 - 150 * PAYLOAD / 235
    assert seen.stalled_s / (result.duration_s - seen.startup_s) == pytest.approx(share, abs=0.02)
    assert seen.stalls > 50
    assert (seen.switches, seen.bitrate_bps) == (0, 235e3)


def test_the_picture_starts_with_the_first_segment() -> None:
    seen = metrics.film(film("1mbit", "20s", control="rate"), "film")
    # The first segment is one of the lowest rung: 4 s at 235 kbit/s through 1 Mbit/s, and the round trip of asking.
    assert seen.startup_s == pytest.approx(0.235 * 4 / PAYLOAD + 0.02, abs=0.03)


def test_names_of_sweeps_are_the_metrics_own() -> None:
    result = film("0.15mbit", "60s")
    seen, asked = metrics.film(result, "film"), measured(result)
    assert asked("film.startup_s") == seen.startup_s
    assert asked("film.stalled_s") == seen.stalled_s > 0
    assert (asked("film.stalls"), asked("film.switches")) == (seen.stalls, seen.switches)
    assert asked("film.bitrate_mbps") == seen.bitrate_bps / 1e6


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"ladder": "apple"}, r"flow\[0\].ladder = .*apple.*one of netflix, sd"),
        ({"buffer": 20.0}, r"flow\[0\].buffer = .*less than reservoir and cushion"),
        ({"buffer": 2.0, "control": "rate"}, r"flow\[0\].buffer = .*needed to play"),
        ({"control": "mpc"}, r"flow\[0\].control = .*mpc.*one of bba, rate"),
    ],
)
def test_a_player_that_cannot_be_says_why(params, text) -> None:
    with pytest.raises(tb.ScenarioError, match=text):
        film("1mbit", "1s", **params)


def game(**shape: object) -> tb.Result:
    flows = [tb.flow("game", name="game", two_way=True)]
    return tb.run(tb.dumbbell(flows=flows, duration="60s", instruments={"packets": "all"}, **shape))


def test_a_game_sends_sixty_updates_a_second_each_way() -> None:
    result = game(rate="10mbit", rtt="20ms")
    for flow in ("game", "game.back"):
        rows = result.where_flow("packets", flow)
        assert len(rows["t_s"] if "t_s" in rows else rows["sent_s"]) == 3600
        assert set(rows["bytes"]) == {150}
        assert np.diff(rows["sent_s"]) == pytest.approx(1 / 60, abs=1e-9)
        assert metrics.late_share(result, flow, 0.050) == 0.0


@pytest.mark.parametrize(("rtt", "late"), [("90ms", (0, 0)), ("110ms", (1, 0)), ("210ms", (1, 1))])
def test_updates_are_late_from_the_bound_on(rtt, late) -> None:
    asked = measured(game(rate="100mbit", rtt=rtt))
    assert (asked("game.late_50"), asked("game.back.late_100")) == late


def test_a_lost_update_is_late() -> None:
    result = game(rate="10mbit", rtt="20ms", wire={"loss": 0.1})
    loss = metrics.flow_loss_rate(result, "game")
    assert loss == pytest.approx(0.1, abs=0.02)
    assert metrics.late_share(result, "game") == pytest.approx(loss, rel=1e-12)


def test_a_probe_is_three_round_trips() -> None:
    probes = tb.flow("rpm-probe", name="probes", params={"interval": 500.0})
    line = tb.dumbbell(rate="1gbit", rtt="40ms", flows=[probes], duration="10s", instruments={"requests": ["probes"]})
    result = tb.run(line)
    for kind in ("handshake", "tls", "probe"):
        took = metrics.probe_times(result, "probes", kind)
        assert len(took) == 20
        assert took == pytest.approx(0.040, abs=0.0005)
    plain = tb.run(line.with_({"flow.probes.params.tls": False}))
    assert len(metrics.probe_times(plain, "probes", "tls")) == 0
    assert len(metrics.probe_times(plain, "probes", "probe")) == 20
