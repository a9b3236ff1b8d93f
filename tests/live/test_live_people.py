"""A game, a film and probes of responsiveness on real sockets: the simulator's applications, the same rows."""

from __future__ import annotations

import pytest

import tailback as tb
from real_engines import needs_live
from tailback import live, metrics

pytestmark = needs_live


@pytest.fixture(scope="module")
def both() -> tuple[tb.Result, tb.Result]:
    """One run, simulated and live."""
    flows = [
        tb.flow("game", name="game"),
        tb.flow("video", name="film", from_="right", to="left", params={"control": "rate"}),
        tb.flow("rpm-probe", name="probes", from_="right", to="left", params={"interval": 200.0}),
    ]
    recorded = {"requests": "all", "packets": ["game"]}
    scenario = tb.dumbbell(rate="20mbit", rtt="20ms", queue="1bdp", duration="6s", flows=flows, instruments=recorded)
    return tb.run(scenario), live.run(scenario)


def test_a_game_sends_the_same_updates(both) -> None:
    sim, real = (result.where_flow("packets", "game") for result in both)
    assert len(real["sent_s"]) == len(sim["sent_s"]) == 360
    assert set(real["bytes"]) == {150}


def test_a_film_is_the_simulators(both) -> None:
    sim, real = (metrics.film(result, "film") for result in both)
    assert real.startup_s == pytest.approx(sim.startup_s, abs=0.03)
    assert (real.stalls, real.bitrate_bps > 1e6) == (0, True)


@pytest.mark.parametrize("kind", ["handshake", "tls", "probe"])
def test_probes_take_their_round_trips(both, kind) -> None:
    sim, real = (metrics.probe_times(result, "probes", kind) for result in both)
    assert len(real) == len(sim) == 30
    assert sorted(real)[15] == pytest.approx(sorted(sim)[15], abs=0.01)
