"""Dossiers: what passes, what fails, what cannot be assessed, and what an interrupt leaves."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import cli
from tailback.assess import output, verdicts
from tailback.assess import run as running
from tailback.assess.measure import HARMS, Kept, harm, measure
from tailback.assess.run import InterruptedAssessment
from tailback.assess.table import CONTROLS, EXPERIMENTS, STATISTICS, by_name
from tailback.assess.verdicts import judge_cell, judge_controls
from tailback.candidate import candidate

#: A cell of little work.
SMALL = ["high-delay"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("assess") / "store"


@pytest.fixture
def tailback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tailback", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return call


def by_experiment(done: tb.Assessment) -> dict[str, Any]:
    return {each.experiment.name: each for each in done.criteria}


# --- The table ------------------------------------------------------------------------------------------------


def test_every_cell_is_a_scenario_with_and_without_the_candidate() -> None:
    names = [cell.name for each in EXPERIMENTS for cell in each.cells]
    assert len(set(names)) == len(names)
    for cell in by_name().values():
        assert cell.statistics
        assert set(cell.statistics) <= set(STATISTICS)
        assert {name for name in cell.statistics if name.startswith("harm_")} <= set(HARMS)
        scenario = cell.scenario({"name": "cubic", "beta": 0.5})
        tested = [flow for flow in scenario.flows if flow.name.startswith("test")]
        assert tested
        assert all(flow.cc.name == "cubic" and flow.cc.params for flow in tested)
        scenario.resolve()
        if cell.has_others:
            left = cell.scenario(None).resolve()["flows"]
            assert left
            assert not any(flow["name"].startswith("test") for flow in left)


def test_every_criterion_has_cells_or_says_why_not() -> None:
    for each in EXPERIMENTS:
        assert bool(each.cells) + bool(each.not_run) + bool(each.covered_by) == 1
        assert set(each.covered_by) <= {other.name for other in EXPERIMENTS}
        if each.cells:
            assert any(cell.quick for cell in each.cells), each.name


def test_each_rule_has_room_for_an_algorithm_equal_to_the_baseline() -> None:
    for rule in STATISTICS.values():
        assert rule.source
        assert rule.margin(1.0, 1.0) > 0.0
        worse, worst = (0.9, 0.0) if rule.more else (1.1, 99.0)
        assert rule.margin(worst, 1.0) < rule.margin(worse, 1.0) < rule.margin(1.0, 1.0)
        assert rule.margin(worst, 1.0) < 0.0


@pytest.mark.parametrize("name", ["real-time-4-1bdp", "others-short-100kB-1-1bdp", "silence", "incast-8", "rate-up"])
def test_what_a_statistic_needs_is_measured(name: str) -> None:
    cell = by_name()[name]
    needed = {HARMS[each][0] if each in HARMS else each for each in cell.statistics}
    assert needed <= set(measure(cell, tb.run(cell.scenario("reno"))))


def test_harm_is_a_share_of_what_there_was_alone() -> None:
    assert harm("harm_goodput", {"others_goodput": 10.0}, {"others_goodput": 2.5}) == pytest.approx(0.75)
    assert harm("harm_delay", {"call_ms": 20.0}, {"call_ms": 80.0}) == pytest.approx(0.75)
    assert harm("harm_fct", {"others_fct_ms": 20.0}, {}) == 1.0
    assert math.isnan(harm("harm_fct", {}, {"others_fct_ms": 20.0}))


# --- Verdicts -------------------------------------------------------------------------------------------------


def judged(mine: list[float | None], theirs: list[float | None], other: list[float | None]) -> verdicts.Found:
    """By loss: twice the baseline and 0.02."""
    cell = replace(by_name()["loss-4-flows-0.25bdp"], statistics=("loss",))
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): dict(enumerate({} if value is None else {"loss": value} for value in values))
        for label, values in (("mine", mine), ("a", theirs), ("b", other))
    }
    return judge_cell(cell, runs, "mine", ["a", "b"])[0]


def test_the_more_lenient_baseline_counts() -> None:
    low, high = [0.01, 0.011, 0.009], [0.09, 0.091, 0.089]
    assert judged(low, low, low).verdict == "passed"
    assert judged(high, low, low).verdict == "failed"
    found = judged(high, low, high)
    assert (found.verdict, found.against) == ("passed", "b")


def test_an_interval_across_the_bound_is_undecided() -> None:
    assert judged([0.01, 0.08, 0.05], [0.01] * 3, [0.01] * 3).verdict == "undecided"


def test_a_number_that_only_the_candidate_lacks_fails_it() -> None:
    found = judged([0.01, None, 0.01], [0.01] * 3, [0.01] * 3)
    assert found.verdict == "failed"
    assert "seed 1" in found.why
    assert judged([0.01] * 3, [None] * 3, [None] * 3).verdict == "passed"
    assert judged([None] * 3, [None] * 3, [None] * 3).verdict == "undecided"


def test_a_run_that_failed_fails_its_cell() -> None:
    cell = by_name()["geo"]
    fine = {1: {"goodput": 1.0, "loss": 0.0}}
    runs: dict[tuple[str, str], dict[int, Any]] = {("geo", "mine"): {1: "AlgorithmError: no"}, ("geo", "a"): fine}
    found = judge_cell(cell, runs, "mine", ["a"])
    assert {each.verdict for each in found} == {"failed"}
    assert "AlgorithmError" in found[0].why


def test_harm_is_also_told_by_what_the_harmed_does_to_itself() -> None:
    experiment = next(each for each in EXPERIMENTS if each.name == "widely-deployed")
    cell = next(each for each in experiment.cells if each.rival == "bbr")
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {"others_goodput": rate, "others_lowest": rate, "loss": 0.0} for seed in range(5)}
        for label, rate in (("alone", 10.0), ("mine", 5.0), ("cubic", 8.0), ("bbr", 4.9))
    }
    found = verdicts.judge_experiment(experiment, [cell], runs, "mine", ["cubic"])
    assert found.verdict == "failed"
    assert {(each.against, each.verdict) for each in found.ware} == {("bbr", "passed")}
    assert "no more harm to an algorithm than it does to itself: passed." in output.by_ware(found, by_name())


# --- Known answers --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shallow() -> dict[tuple[str, str], dict[int, Any]]:
    """The runs of the controls."""
    kept = Kept()
    wanted = dict.fromkeys(
        (name, control.cc, seed) for control in CONTROLS for name in control.cells for seed in (1, 2, 3)
    )
    scenarios = [by_name()[name].scenario(cc).with_({}, seed=seed) for name, cc, seed in wanted]
    out: dict[tuple[str, str], dict[int, Any]] = {}
    for (name, cc, seed), row in zip(wanted, tb.run_many(scenarios, then=kept), strict=True):
        out.setdefault((name, cc), {})[seed] = row
    return out


def test_bbr_fails_with_several_flows_in_shallow_buffers_and_the_others_do_not(shallow: Any) -> None:
    came = {each.control.cc: each.verdict for each in judge_controls(shallow)}
    assert came["bbr"] == "failed"
    assert came["cubic"] == came["reno"] == "passed"
    assert came["bbr3"] != "failed"


def test_a_suite_whose_controls_come_out_otherwise_is_broken(shallow: Any) -> None:
    gentle = {(cell, cc): shallow[cell, "reno" if cc == "bbr" else cc] for cell, cc in shallow}
    harsh = {(cell, cc): shallow[cell, "bbr" if cc == "cubic" else cc] for cell, cc in shallow}
    done = tb.Assessment(candidate("reno"), "reno", ("cubic",), True, (), controls=judge_controls(shallow))
    assert not done.is_broken
    for runs in (gentle, harsh):
        done.controls = judge_controls(runs)
        assert done.is_broken
        assert "suite is broken" in done.markdown()
        assert "suite is broken" in output.html(done)
    assert done.to_json()["broken"] is True


def test_reno_against_reno_passes_whatever_is_run(store: Path) -> None:
    done = tb.assess("reno", against=["reno"], quick=True, store=store)
    assert {each.verdict for each in done.criteria} == {"passed", "not run"}
    assert done.failed == 0
    assert not done.is_broken
    assert [each.experiment.name for each in done.criteria if each.is_missing_must] == ["principles"]
    assert [row["name"] for row in done.to_json()["criteria"] if row["missing_must"]] == ["principles"]
    red = [line for line in done.markdown().splitlines() if "\N{LARGE RED CIRCLE} **not run**" in line]
    assert len(red) == 1
    assert "| 5.3 |" in red[0]
    assert output.html(done).count('<span class="badge must">not run</span>') == 1


# --- Running --------------------------------------------------------------------------------------------------


def test_what_is_in_the_store_is_not_run_again(store: Path, tmp_path: Path) -> None:
    first = tb.assess("vegas", quick=True, only=SMALL, store=store, out=tmp_path / "one")
    again = tb.assess("vegas", quick=True, only=SMALL, store=store, out=tmp_path / "two")
    assert again.run == 0
    assert again.reused == first.run + first.reused
    for name in ("cells/geo.toml", "dossier.md"):
        assert (tmp_path / "one" / name).read_text() == (tmp_path / "two" / name).read_text()


def test_the_dossier_repeats_itself(store: Path, tmp_path: Path) -> None:
    done = tb.assess("cubic,beta=0.5", quick=True, only=SMALL, store=store, out=tmp_path)
    told = json.loads((tmp_path / "dossier.json").read_text())
    assert told["candidate"] == "cubic beta=0.5"
    assert told["command"] == "tailback assess cubic,beta=0.5 --quick --only high-delay"
    assert told["cells"]["geo"]["command"] == "tailback run cells/geo.toml --seed 1"
    goodput = tb.run(tmp_path / "cells" / "geo.toml").flow_summary()[0]["goodput_mbps"]
    row = next(each for each in done.criteria if each.found).found[0]
    assert row.candidate.low <= goodput <= row.candidate.high
    page = (tmp_path / "report.html").read_text()
    for text in ("cubic beta=0.5 by RFC 9743", "<svg", "tailback run cells/geo.toml", "MUSTs not run"):
        assert text in page
    assert "| 7.5 | Paths of high delay |" in (tmp_path / "dossier.md").read_text()


def test_control_c_leaves_a_dossier_of_what_was_finished(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tailback: Any
) -> None:
    real = running.perform_all

    def interrupted(work: Any, finished: Any, **more: Any) -> None:
        def progress(done: int, total: int) -> None:
            if done >= 4:
                raise KeyboardInterrupt

        real(work, finished, **(more | {"progress": progress, "workers": 1}))

    monkeypatch.setattr(running, "perform_all", interrupted)
    kept = tmp_path / "store"
    with pytest.raises(InterruptedAssessment) as caught:
        tb.assess("htcp", quick=True, only=SMALL, store=kept)
    assert caught.value.partial.verdict == "not finished"
    words = ["assess", "htcp", "--quick", "--only", *SMALL, "--store", str(kept), "--out", str(tmp_path / "out")]
    code, _, err = tailback(*words)
    assert code == 130
    assert "goes on from there" in err
    assert "Interrupted" in (tmp_path / "out" / "dossier.md").read_text()
    monkeypatch.undo()
    done = tb.assess("htcp", quick=True, only=SMALL, store=kept)
    assert done.reused >= 4
    assert done.verdict != "not finished"


# --- Bad input ------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Any:
    def write(on_ack: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(
            "class Mine:\n    owns_window = True\n"
            f"    def on_ack(self, ack, control):\n        {on_ack}\n"
            "    def on_congestion(self, congestion, control):\n        control.ssthresh = control.cwnd\n"
        )
        return f"{path}:Mine"

    return write


def test_a_candidate_that_crashes_is_told_with_its_traceback(own: Any, tailback: Any, tmp_path: Path) -> None:
    code, out, err = tailback("assess", own("raise RuntimeError('no idea')"), "--allow-code", "--out", tmp_path / "d")
    assert (code, out) == (1, "")
    assert "no idea" in err
    assert "it was not assessed" in err
    assert not (tmp_path / "d").exists()


def test_a_candidate_that_loops_is_given_up(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE_S", 0.5)
    # Ends by itself, so that the tests that follow have the processor.
    loop = f"import time\n        while time.monotonic() < {time.monotonic() + 1.5}: pass"
    with pytest.raises(tb.UnfitCandidate, match="has not come back"):
        tb.assess(own(loop), allow_code=True)


def test_the_command_ends_though_the_candidate_loops(own: Any) -> None:
    # A process of its own: the thread that loops would go on in this one.
    code = (
        "import sys; from tailback.assess import run; from tailback import cli; run.PATIENCE_S = 1.0\n"
        f"sys.argv = ['tailback', 'assess', {own('while True: pass')!r}, '--allow-code']; cli.main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "has not come back" in ran.stderr
    assert "Fatal" not in ran.stderr


def test_a_candidate_that_never_sends_has_nothing_to_assess(own: Any) -> None:
    with pytest.raises(tb.UnfitCandidate, match="as good as nothing"):
        tb.assess(
            own("pass\n    def on_established(self, now_s, srtt_s, control):\n        control.pacing_bps = 1"),
            allow_code=True,
        )


@pytest.mark.parametrize(
    "drawn",
    ["control.mss * random.randint(2, 40)", "30 * control.mss + random.randint(0, 99)"],
    ids=["packets", "bytes"],
)
def test_a_candidate_that_draws_from_something_else_than_its_seed_is_refused(own: Any, drawn: str) -> None:
    with pytest.raises(tb.UnfitCandidate, match="two results with one seed"):
        tb.assess(own(f"import random\n        control.cwnd = {drawn}"), allow_code=True, only=["high-loss"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["qubic"], 2, 'Did you mean "cubic"'),
        (["cubic", "--only", "high-los"], 2, 'Did you mean "high-loss"'),
        (["cubic", "--against", "rena"], 2, 'Did you mean "reno"'),
        (["cubic", "--against", ""], 2, "relative"),
        (["cubic", "--quik"], 2, "--quick"),
        (["none.py:Mine"], 2, "--allow-code"),
    ],
)
def test_bad_input_is_told(tailback: Any, arguments: list[str], code: int, says: str) -> None:
    ran, out, err = tailback("assess", *arguments)
    assert (ran, out) == (code, "")
    assert says in err
    assert "Traceback" not in err
