"""Applications from a scenario file to the tables their users' waiting is read from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tailback as tb


def test_transfers_alternate_and_come_back_from_the_file(tmp_path: Path) -> None:
    text = """
        duration = "40s"
        dumbbell = { rate = "10mbit", rtt = "40ms", queue = "1bdp" }
        instruments = { requests = "all", echoes = "all" }

        [[flow]]
        app = "transfers"
        cc = "reno"
        cc_turns = ["cubic", { name = "htcp", adaptive_backoff = false }]
        stop = "15s"
        again = [{ start = "20s", stop = "35s" }]
        params = { bytes = "1MB", idle_low = "1s", idle_high = "2s" }

        [[flow]]
        app = "ping"
        interval = "200ms"
    """
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    scenario = tb.Scenario.from_toml(path)
    path.write_text(scenario.to_toml())
    assert tb.Scenario.from_toml(path) == scenario
    turns = scenario.resolve()["flows"][0]["tcp"]["cc_turns"]
    assert turns == [
        {"cc": "cubic", "cc_params": {}},
        {"cc": "htcp", "cc_params": {"adaptive_backoff": False}},
    ]
    result = tb.run(scenario)
    requests = result.numpy("requests")
    assert requests["turn"][:5].tolist() == [0, 1, 2, 0, 1]
    assert (requests["t_s"][requests["t_s"] > 15] >= 20).all()
    done = requests["fate"] == 0
    assert done.sum() >= 8
    assert np.nanmin(requests["response_time_s"]) > 0.8
    echoes = result.numpy("echoes")
    assert len(echoes["rtt_s"]) == 200
    assert np.nanmin(echoes["rtt_s"]) >= 0.04


def test_load_above_capacity_is_said_in_the_result(tmp_path: Path) -> None:
    scenario = tb.dumbbell(
        rate="10mbit", rtt="40ms", queue="1bdp", flows=[tb.flow("web", params={"rate": 1000})], duration="2s"
    )
    result = tb.run(scenario)
    assert len(result.meta["warnings"]) == 1
    assert "return" in result.meta["warnings"][0]
    result.save(tmp_path / "result")
    assert tb.open_result(tmp_path / "result").meta["warnings"] == result.meta["warnings"]


@pytest.mark.parametrize(
    ("app", "instrument"),
    [("bulk", "requests"), ("voip", "echoes"), ("ping", "polls")],
)
def test_what_an_application_does_not_do_cannot_be_recorded(app: str, instrument: str) -> None:
    with pytest.raises(tb.ScenarioError, match=f"instruments.{instrument}"):
        tb.dumbbell(
            rate="10mbit", rtt="40ms", flows=[tb.flow(app)], duration="2s", instruments={instrument: [app]}
        ).resolve()


def test_on_periods_that_overlap_are_refused_where_they_stand() -> None:
    scenario = tb.dumbbell(
        rate="10mbit", rtt="40ms", queue="1bdp", duration="30s",
        flows=[tb.flow("bulk", stop="10s", again=[{"start": "5s"}])],
    )  # fmt: skip
    with pytest.raises(tb.ScenarioError, match=r"again\[0\]"):
        tb.run(scenario)
