"""QUIC's Reno as a baseline: its own numbers, no bound, and no effect beside itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import tailback as tb
from tailback.assess import output, population
from tailback.assess import run as running
from tailback.assess.kept import Kept
from tailback.assess.table import COMPARED, EXPERIMENTS, PROCEDURE, by_name
from tailback.assess.verdicts import Criterion, judge_cell
from tailback.candidate import candidate
from tailback.cli import assessing

QUIC = "quinn new_reno"
#: Rows of little work, one for a number in which quinn's CUBIC and Reno differ.
SMALL, DIFFERENT = "high-delay", "low-rates"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quic") / "store"


@pytest.fixture(autouse=True)
def no_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "procedure_of", lambda what, **_: replace(PROCEDURE, controls=()))


def of(done: tb.Assessment, row: str) -> Criterion:
    return next(each for each in done.criteria if each.experiment.name == row)


def losses(**shares: float) -> dict[tuple[str, str], dict[int, Any]]:
    """Losses of each algorithm that differ a little from seed to seed."""
    return {
        ("loss-4-flows-0.25bdp", label.replace("_", " ", 1)): {
            seed: {"loss": share + 0.001 * seed} for seed in (1, 2, 3)
        }
        for label, share in shares.items()
    }


def test_quics_reno_has_its_own_difference_and_verdict_and_sets_no_bound() -> None:
    cell = replace(by_name()["loss-4-flows-0.25bdp"], statistics=("loss",))
    runs = losses(mine=0.10, cubic=0.01, reno=0.02, quinn_new_reno=0.07)
    before = judge_cell(cell, runs, "mine", ["cubic", "reno"])[0]
    found = judge_cell(cell, runs, "mine", ["cubic", "reno", QUIC])[0]
    assert {label: round(each.estimate, 6) for label, each in found.differences.items()} == {
        "cubic": 0.09, "reno": 0.08, QUIC: 0.03,
    }  # fmt: skip
    assert found.verdicts == {"cubic": "failed", "reno": "failed", QUIC: "passed"}
    assert (found.verdict, found.against, found.bound, found.p) == ("failed", "reno", before.bound, before.p)
    row = Criterion(next(each for each in EXPERIMENTS if each.name == "high-loss"), found.verdict, (found,))
    assert output.effect(row, QUIC) == "passed: 3 [3, 3] %"
    # As the only baseline it sets the bound.
    assert judge_cell(cell, runs, "mine", [QUIC])[0].verdict == "passed"


def test_a_transport_is_compared_with_runs_of_quics_reno(store: Path) -> None:
    done = tb.assess("quinn,cc=cubic", quick=True, only=[DIFFERENT], seeds=2, store=store)
    assert done.against == ("cubic", "reno", QUIC)
    found = next(one for one in of(done, DIFFERENT).found if one.statistic == "loss")
    cell = by_name()[found.cell]
    measured = {
        label: [Kept()(tb.run(cell.scenario(candidate(name)).with_({}, seed=seed)))[found.statistic] for seed in (1, 2)]
        for label, name in {"cubic": "cubic", "reno": "reno", **COMPARED}.items()
    }
    for label, values in measured.items():
        assert found.baselines[label].estimate == pytest.approx(sum(values) / 2)
    means = [found.candidate.estimate, *(each.estimate for each in found.baselines.values())]
    assert len({round(mean, 3) for mean in means}) == 4
    text = done.markdown()
    assert f"Against cubic and reno, beside {QUIC}, which sets no bound, 2 seeds." in text
    assert f"| Beside reno alone | Beside {QUIC} alone |" in text
    assert "RFC 9002" in text.splitlines()[-1]
    assert done.to_json()["set_bounds"] == ["cubic", "reno"]
    assert done.to_json()["command"] == "tailback assess quinn,cc=cubic --quick --seeds 2 --only low-rates"


def test_a_congestion_control_is_compared_with_it_if_asked(store: Path) -> None:
    assert tb.assess("vegas", quick=True, only=[SMALL], seeds=2, store=store).against == ("cubic", "reno")
    asked = "cubic,reno,quinn,cc=new_reno"
    done = tb.assess("vegas", against=assessing._names(asked), quick=True, only=["acks", SMALL], seeds=2, store=store)
    assert f"--against {asked} " in done.to_json()["command"]
    assert all(QUIC in one.differences for one in of(done, SMALL).found)
    # It brings its own receiver: cells that ask for another have no such runs.
    assert of(done, "acks").verdict in ("passed", "failed", "undecided")
    assert not any(QUIC in one.differences for one in of(done, "acks").found)


def test_it_has_the_first_rounds_seeds_and_no_plain_cases() -> None:
    """Its runs take most of a dossier's time, and decide no verdict."""
    mine, *baselines = (candidate(name) for name in ("quinn,cc=cubic", "cubic", "reno", COMPARED[QUIC]))
    against = tuple(each.label for each in baselines)
    work = running._Work(tb.Assessment(mine, mine.label, against, True, (SMALL,)), baselines)
    work.ask(3)
    work._seeds = dict.fromkeys(work._seeds, 7)
    asked = {(cell, way): len(work.seeds_of(number)) for number, (cell, way, _) in enumerate(work._order)}
    assert {way: asked["geo", way] for way in (mine.label, *against)} == {mine.label: 7, "cubic": 7, "reno": 7, QUIC: 3}
    assert ("plain-geo", "reno") in asked
    assert ("plain-geo", QUIC) not in asked


def test_names_of_baselines_keep_their_parameters() -> None:
    assert assessing._names("cubic, beta=0.5, reno ,quinn,cc=bbr") == ["cubic,beta=0.5", "reno", "quinn,cc=bbr"]


def test_quics_reno_has_no_effect_beside_itself(store: Path) -> None:
    mine = replace(candidate("quinn,cc=new_reno"), label="again")
    rows = [DIFFERENT]
    same = tb.assess(mine, quick=True, only=rows, seeds=3, store=store)
    numbers = [one for row in rows for one in of(same, row).found]
    assert len(numbers) >= 3
    assert {(one.differences[QUIC].low, one.differences[QUIC].high) for one in numbers} == {(0.0, 0.0)}
    fresh = tb.assess(mine, quick=True, only=rows, seeds=5, store=store, fresh=1000)
    found = [one for row in rows for one in of(fresh, row).found]
    # All of these intervals together contain 0 at 95 % (Bonferroni), where each alone does with five seeds.
    alone, together = (stats.t.ppf(1 - 0.05 / count / 2, 4) for count in (1, len(found)))
    for one in found:
        effect = one.differences[QUIC]
        assert abs(effect.estimate) <= together / alone * (effect.high - effect.low) / 2, one.statistic
        assert one.verdicts[QUIC] in ("passed", "undecided", "not applicable")


def test_a_population_is_compared_with_it_too() -> None:
    runs: dict[tuple[int, str], Any] = {}
    for number in range(40):
        size = 1.0 + number % 7
        left = {"alone": 10.0, "mine": 3.0, "cubic": 6.0, QUIC: 2.0}
        for label, mbps in left.items():
            mbps += 0.1 * (number % 3) if label == "mine" else 0.0
            runs[number, label] = {"others_mbps": mbps * size, "round_trip_ms": 10.0, "own_mbps": 1.0}
    found = population.judge(runs, "mine", ["cubic", QUIC], 40, setting=["cubic"])
    beyond = {each.against: each.estimate for each in found.judged if (each.kind, each.rule) == ("goodput", "mean")}
    assert beyond == {"cubic": pytest.approx(0.29, abs=0.01), QUIC: pytest.approx(-0.11, abs=0.01)}
    alone = population.judge(runs, "mine", ["cubic"], 40)
    assert (found.verdicts, found.ps, found.sentence()) == (alone.verdicts, alone.ps, alone.sentence())
    assert dict(zip(found.rules(), found.verdicts, strict=True))["goodput", "mean"] == "failed"
    assert [row[2] for row in found.worst()] == [row[2] for row in alone.worst()]
