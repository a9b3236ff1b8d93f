"""Two scenarios over the same seeds: differences with intervals, what fails, what interrupts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import engines
from tailback.experiment.pairs import InterruptedPairs, PairedMetric, with_algorithm
from tailback.judge import Interval

ROOT = Path(__file__).parents[2]
LOSSY = """
duration = "5s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
wire = { loss = 0.01 }
[[flow]]
name = "a"
cc = "reno"
[[flow]]
name = "b"
cc = "reno"
"""


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    path = tmp_path / "lossy.toml"
    path.write_text(LOSSY)
    return path


def metrics(found: tb.PairedRuns) -> dict[str, Any]:
    return {row.metric: row for row in found.metrics}


def test_a_scenario_does_not_differ_from_itself(lossy: Path) -> None:
    found = tb.run_pairs(lossy, lossy, pairs=4)
    assert found.pairs == 4
    assert not found.seeds_agree
    assert {row.verdict for row in found.metrics} == {"same"}


def test_the_difference_is_taken_seed_by_seed(lossy: Path) -> None:
    scenario = tb.Scenario.from_toml(lossy)
    other = with_algorithm(scenario, "cubic", ["b"])
    assert [flow.cc.name for flow in other.flows] == ["reno", "cubic"]
    row = metrics(tb.run_pairs(scenario, other, pairs=4))["b.goodput_mbps"]

    def goodput(base: tb.Scenario, seed: int) -> float:
        return float(tb.run(base.with_(seed=seed)).flow_summary()[1]["goodput_mbps"])

    differences = [goodput(other, seed) - goodput(scenario, seed) for seed in (1, 2, 3, 4)]
    assert row.difference.estimate == pytest.approx(sum(differences) / 4)
    assert row.difference.low < row.difference.estimate < row.difference.high


def test_a_change_that_matters_is_seen(lossy: Path) -> None:
    scenario = tb.Scenario.from_toml(lossy)
    found = metrics(tb.run_pairs(scenario, scenario.with_({"dumbbell.rtt": "20ms"}), pairs=6))
    assert found["goodput_mbps"].verdict == "higher"
    assert found["a.rtt_min_ms"].verdict == "lower"


@pytest.mark.parametrize(
    ("metric", "low", "high", "effect"),
    [
        ("call.experience_mos", -0.5, -0.2, "worse"),
        ("call.experience_mos", 0.2, 0.3, "better"),
        ("call.experience_mos", -0.09, -0.01, "unnoticed"),
        ("call.delay_p95_ms", 31.0, 40.0, "worse"),
        ("call.delay_p95_ms", 1.0, 40.0, ""),
        ("bulk.goodput_mbps", 5.0, 6.0, ""),
    ],
)
def test_a_difference_is_worse_for_its_user_only_beyond_a_step(
    metric: str, low: float, high: float, effect: str
) -> None:
    def around(middle: float, below: float, above: float) -> Interval:
        return Interval(middle, below, above, 10, 0.95)

    row = PairedMetric(metric, around(4.0, 3.0, 5.0), around(4.0, 3.0, 5.0), around((low + high) / 2, low, high))
    assert row.effect == effect


def test_a_run_that_fails_leaves_the_other_pairs(lossy: Path) -> None:
    acks = itertools.count()

    class Fails:
        def on_ack(self, ack: Any, control: Any) -> None:
            if next(acks) == 3000:
                raise RuntimeError("not this one")

        def on_congestion(self, congestion: Any, control: Any) -> None:
            control.ssthresh = control.cwnd

    scenario = tb.Scenario.from_toml(lossy)
    found = tb.run_pairs(
        scenario, with_algorithm(scenario, "fails", algorithms={"fails": Fails}), pairs=4, workers=1,
        algorithms={"fails": Fails}, labels=("reno", "fails"),
    )  # fmt: skip
    assert (found.pairs, len(found.errors)) == (3, 1)
    assert "fails, seed " in found.errors[0]
    assert "not this one" in found.errors[0]


def test_what_was_finished_before_control_c_is_compared(
    lossy: Path, monkeypatch: pytest.MonkeyPatch, tailback: Any
) -> None:
    real = engines.run_outcomes

    def interrupted(*given: Any, **more: Any) -> Any:
        for number, each in enumerate(real(*given, **more)):
            if number == 6:
                raise KeyboardInterrupt
            yield each

    monkeypatch.setattr(engines, "run_outcomes", interrupted)
    with pytest.raises(InterruptedPairs) as caught:
        tb.run_pairs(lossy, lossy, pairs=10, workers=1)
    assert caught.value.partial.pairs == 3
    code, out, err = tailback("compare", lossy, "--cc", "reno", "--cc", "cubic", "--workers", "1", "--json")
    assert (code, out["pairs"]) == (130, 3)
    assert "3 of 60 pairs" in err


def test_nothing_is_concluded_from_no_pairs(lossy: Path, monkeypatch: pytest.MonkeyPatch, tailback: Any) -> None:
    def interrupted(*given: Any, **more: Any) -> Any:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(engines, "run_outcomes", interrupted)
    code, out, err = tailback("compare", lossy, "--cc", "reno", "--cc", "cubic")
    assert (code, out) == (130, "")
    assert err.splitlines() == ["interrupted: 0 of 60 pairs were finished"]


def test_the_command_prints_each_metric(lossy: Path, tailback: Any) -> None:
    code, out, err = tailback("compare", lossy, lossy, "--pairs", "3", "--json")
    assert (code, err) == (0, "")
    printed = out
    assert (printed["pairs"], printed["first_seed"]) == (3, 1)
    assert {row["verdict"] for row in printed["metrics"]} == {"same"}
    code, out, err = tailback("compare", lossy, "--cc", "reno", "--cc", "cubic", "--flow", "b", "--pairs", "3", "--all")
    assert code == 0
    assert "b.goodput_mbps" in out
    assert "3 pairs" in err


def test_seeds_that_change_nothing_are_reported(lossy: Path, tailback: Any) -> None:
    lossless = ["compare", lossy, lossy, "--pairs", "2", "--set", "dumbbell.wire.loss=0"]
    # A seed draws when the jiffies of Linux begin; ns-2's timers have none.
    for stack, agree in (("ns2-sack", True), ("linux", False)):
        code, _, err = tailback(*lossless, "--set", f"flow.a.stack={stack}", "--set", f"flow.b.stack={stack}")
        assert code == 0
        assert ("start_spread" in err) == agree


GENTLE = """
class Gentle:
    def on_ack(self, ack, control):
        if ack.may_grow:
            control.cwnd += ack.newly_acked * control.mss / control.cwnd

    def on_congestion(self, congestion, control):
        control.ssthresh = max(0.8 * control.cwnd, 2 * control.mss)
"""


def test_one_run_many_times_is_no_interval(tmp_path: Path, tailback: Any) -> None:
    """A seed changes only the engine's own count of events here."""
    (tmp_path / "gentle.py").write_text(GENTLE)
    call = tmp_path / "call.toml"
    text = (ROOT / "scenarios" / "voip-and-bulk.toml").read_text()
    # Else the seed draws when the host's timers tick.
    call.write_text(text.replace('stack = "linux"', 'stack = { name = "linux", timer_tick = "0s" }'))
    own = ["--algorithm", f"gentle={tmp_path / 'gentle.py'}:Gentle"]
    words = ["compare", call, *own, "--cc", "cubic", "--cc", "gentle", "--pairs", "4"]
    code, out, _ = tailback(*words, "--json")
    assert code == 0
    assert "cubic" in out["still"]
    verdicts = {row["metric"]: row["verdict"] for row in out["metrics"]}
    assert verdicts["bulk.goodput_mbps"] == "one case"
    assert not {"higher", "lower"} & set(verdicts.values())
    code, out, err = tailback(*words)
    assert "all seeds gave the same run with cubic" in err
    assert " to " not in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{file}"], "no pair"),
        (["household"], "no pair"),
        (["{file}", "{file}", "--cc", "reno"], "no pair"),
        (["{file}", "--cc", "reno", "--cc", "qubic"], 'Did you mean "cubic"'),
        (["{file}", "--cc", "reno", "--cc", "cubic", "--flow", "aa"], "there is no TCP flow of this name"),
        (["{file}", "{file}", "--flow", "a"], "there is no --cc"),
        (["{file}", "--cc", "reno", "--cc", "my.py:Mine"], "--algorithm my=my.py:Mine --cc my"),
        (["{file}", "{file}", "--baseline", "x"], "--baseline is for results"),
        (["{folder}", "{folder}", "--cc", "reno"], "--cc is for scenarios"),
        (["none.toml", "none.toml"], "No such file"),
    ],
)
def test_bad_input_is_reported(lossy: Path, tailback: Any, arguments: list[str], says: str) -> None:
    words = [word.format(file=lossy, folder=lossy.parent) for word in arguments]
    code, out, err = tailback("compare", *words)
    assert (code, out) == (2, "")
    assert says in err


def test_a_scenario_that_records_more_than_is_compared(tmp_path: Path, tailback: Any) -> None:
    path = tmp_path / "polled.toml"
    path.write_text(LOSSY + '[instruments]\npolls = "all"\ninternals = true\n')
    code, out, err = tailback("compare", path, "--cc", "reno", "--cc", "cubic", "--pairs", "2", "--all")
    assert code == 0, err
    assert "goodput_mbps" in out
