"""The Common TCP Evaluation Suite's load is what it says, and its metrics mean what their names say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tailback as tb
from pairs import assert_same_rows
from tailback import suites
from tailback.experiment.run_metrics import measurable, measured


def cell(name: str, duration: str, **changes: object) -> tb.Scenario:
    return suites.read(f"tcpeval/{name}").with_({"duration": duration} | changes)


def test_every_network_offers_its_three_loads_in_proportion() -> None:
    for name in ("data-centre", "access-link", "trans-oceanic", "satellite", "wireless-lan", "dial-up"):
        rates = {}
        for load in (60, 85, 110):
            fields = suites.read(f"tcpeval/basic-{name}-{load}").to_dict()
            vectors = [flow["params"]["rate"] for flow in fields["flow"] if flow["app"] == "connection-vectors"]
            small = [flow["params"]["rate"] for flow in fields["flow"] if flow["mtu"] == "536B"]
            # One connection in ten has small packets.
            assert sum(small) / sum(vectors) == pytest.approx(0.1, rel=1e-4)
            rates[load] = sum(vectors) / load
        assert rates[60] == pytest.approx(rates[85], rel=1e-4)
        assert rates[110] == pytest.approx(rates[85], rel=1e-4)


def test_the_load_offered_is_the_load_named() -> None:
    # Twenty seconds of four seeds; a seed's standard deviation over sixty is 2 %, over twenty 4 %.
    runs = [cell("offered-access-link-85", "20s", seed=seed) for seed in (11, 12, 13, 14)]
    loads = [10 * result.link_summary()[0]["utilisation"] for result in tb.run_many(runs)]
    assert np.mean(loads) == pytest.approx(0.85, rel=0.08)


def test_threads_change_nothing() -> None:
    runs = [suites.with_candidate(cell("basic-access-link-110", "2s"), cc) for cc in ("reno", "bbr")]
    one, two = (tb.run_many(runs, workers=workers) for workers in (1, 2))
    for alone, beside in zip(one, two, strict=True):
        assert_same_rows(alone, beside, ["requests"])
    # The same vectors under both algorithms: what is asked for first is asked for in both.
    asked = [{(row, size) for row, size in zip(*(result.numpy("requests")[key] for key in ("connection", "bytes")),
                                              strict=True)} for result in one]  # fmt: skip
    assert len(asked[0] & asked[1]) > 0.9 * max(map(len, asked))


def test_camps_carry_the_same_work_and_their_answers_add_up() -> None:
    scenario = cell("impact-50", "8s")
    assert not measurable(scenario.resolve())["subject.turn_1_answer_p95_ms"]
    result = tb.run(scenario)
    whole = measured(result)
    camps = [whole(f"subject.turn_{turn}_answered_mbps") for turn in (0, 1)]
    assert sum(camps) == pytest.approx(whole("subject.answered_mbps"))
    # Both are Reno, with the same vectors at the same time.
    assert camps[0] == pytest.approx(camps[1], rel=0.1)
    rows = result.where_flow("requests", "subject")
    ends = rows["t_s"] + rows["response_time_s"]
    inside = (ends >= 4) & (ends < 6)
    window = measured(result, start_s=4, end_s=6)
    assert window("subject.answered_mbps") == pytest.approx(8e-6 * rows["bytes"][inside].sum() / 2)
    assert window("subject.answer_p99_ms") == pytest.approx(1e3 * np.quantile(rows["response_time_s"][inside], 0.99))


def test_a_flow_takes_what_is_released_and_the_metric_says_when() -> None:
    result = tb.run(suites.with_candidate(cell("transient-release", "40s"), "cubic"))
    window = measured(result, start_s=30)
    reached = [window(f"subject.window_{share}_ms") for share in (60, 80, 90)]
    assert 0 < reached[0] < reached[1] < reached[2] < 10_000
    polls = result.where_flow("polls", "subject")
    bdp = 100e6 / 8 * float(np.nanmin(polls["rtt_min_s"]))
    for share, after_ms in zip((0.6, 0.8, 0.9), reached, strict=True):
        at = np.flatnonzero(polls["t_s"] >= 30 + after_ms / 1e3 - 1e-9)[0]
        assert polls["cwnd"][at - 1] < share * bdp <= polls["cwnd"][at]
    assert 1448 < window("subject.window_step_bytes") < 0.1 * bdp


def test_a_camp_is_compared_with_its_own_turn_of_the_baseline(tmp_path: Path) -> None:
    file = tmp_path / "impact.toml"
    file.write_text(cell("impact-50", "9s", **{"expect.least": 2}).to_toml())
    found = tb.test(file).to_json()["scenarios"][0]["conditions"]
    camps = [each for each in found if ".turn_" in each["condition"]]
    assert len(camps) == 3
    # Reno in the place of Reno: the same to the byte.
    for each in camps:
        assert each["verdict"] == "passed"
        factor = float(each["condition"].partition("baseline")[0].split()[-2])
        assert each["bounds"][0]["mean"] == pytest.approx(factor * each["measured"]["mean"])
