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

import numpy as np
import pytest

import tailback as tb
from tailback import registry
from tailback.assess import output, population, verdicts
from tailback.assess import run as running
from tailback.assess.kept import Kept
from tailback.assess.measure import HARMS, harm, measure
from tailback.assess.run import InterruptedAssessment
from tailback.assess.table import CONTROLS, EXPERIMENTS, PROCEDURE, STATISTICS, by_name
from tailback.assess.verdicts import judge_cell, judge_controls
from tailback.candidate import candidate

#: A cell of little work.
SMALL = ["high-delay"]
#: Controls by algorithms that others have written; planted faults have tests/assess/test_faults.py.
KNOWN = [each for each in CONTROLS if each.quick]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("assess") / "store"


@pytest.fixture(autouse=True)
def few_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two paths of the population: tests/assess/test_population.py looks at more."""
    monkeypatch.setattr(population, "QUICK_PATHS", 2)


def by_experiment(done: tb.Assessment) -> dict[str, Any]:
    return {each.experiment.name: each for each in done.criteria}


# --- The table ------------------------------------------------------------------------------------------------


def test_every_cell_is_a_scenario_with_and_without_the_candidate() -> None:
    given: dict[str, Any] = {}
    for each in EXPERIMENTS:
        for cell in each.cells:
            # Two criteria may look at the same runs, under the same name.
            assert given.setdefault(cell.name, cell.given) == cell.given
            assert by_name()[cell.name].after == cell.after
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
        assert set(each.covered_by) <= {other.name for other in (*EXPERIMENTS, population.EXPERIMENT)}
        if each.cells:
            assert any(cell.quick for cell in each.cells), each.name


def test_each_rule_has_room_for_an_algorithm_equal_to_the_baseline() -> None:
    for rule in STATISTICS.values():
        assert rule.source
        if rule.is_absolute:
            # What no algorithm should do, whatever the baseline does.
            assert rule.margin(0.0, 1.0) == rule.margin(0.0, 9.0) == rule.allowance
            continue
        assert rule.margin(1.0, 1.0) > 0.0
        worse, worst = (0.9, 0.0) if rule.more else (1.1, 99.0)
        assert rule.margin(worst, 1.0) < rule.margin(worse, 1.0) < rule.margin(1.0, 1.0)
        assert rule.margin(worst, 1.0) < 0.0


@pytest.mark.parametrize("name", ["real-time-4-1bdp", "others-short-100kB-1-1bdp", "silence", "incast-8", "rate-up"])
def test_what_a_statistic_needs_is_measured(name: str) -> None:
    cell = by_name()[name]
    needed = {HARMS[each][0] if each in HARMS else each for each in cell.statistics}
    assert needed <= set(measure(cell, tb.run(cell.scenario("reno"))))


def test_a_call_crosses_queues_of_both_counts() -> None:
    judged = (cell for each in EXPERIMENTS for cell in each.cells)
    calls = [cell for cell in judged if any(flow["name"] == "call" for flow in cell.given["flow"])]
    fifos = {cell.name: str(cell.given["dumbbell"]["queue"]) for cell in calls if "dumbbell" in cell.given}
    bytewise = {name for name, queue in fifos.items() if queue.endswith("bdp")}
    assert {f"{name}-packets" for name in bytewise} == {name for name in fifos if fifos[name].endswith("bdp packets")}
    limits = [by_name()[name].scenario("reno").resolve()["links"][0]["queue"]["params"]
              for name in ("real-time-4-0.5bdp", "real-time-4-0.5bdp-packets")]  # fmt: skip
    assert limits == [{"limit_bytes": 25_000}, {"limit_packets": 16}]


@pytest.fixture(scope="module")
def crowded() -> dict[tuple[str, str], dict[int, Any]]:
    """A call beside four flows at half a BDP, by count, six seeds; the flood is 33 times the rate."""
    burst = {"name": "test", "count": 4, "app": "udp-cbr", "packet_size": "1500B", "params": {"rate": "82mbit"}}
    out: dict[tuple[str, str], dict[int, Any]] = {}
    for name in ("real-time-4-0.5bdp", "real-time-4-0.5bdp-packets"):
        cell = by_name()[name]
        cell = replace(cell, given={**cell.given, "duration": "15s"})
        alone = cell.scenario(None)
        flood = tb.Scenario.from_dict(alone.to_dict() | {"flow": [*alone.to_dict()["flow"], burst]})
        ways = {cc: cell.scenario(cc) for cc in ("reno", "cubic", "bbr")} | {"alone": alone, "flood": flood}
        for label, scenario in ways.items():
            rows = tb.run_many([scenario.with_({}, seed=seed) for seed in range(1, 7)], then=Kept())
            out[name, label] = dict(enumerate(rows, 1))
    return out


@pytest.mark.parametrize("label", ["bbr", "flood"])
def test_a_call_suffers_where_packets_are_counted_and_the_criterion_sees_it(crowded: Any, label: str) -> None:
    """A 200-byte packet fits into the remainder of 25,000 B = 16 × 1500 B + 1,000 B, and not into 16 packets."""
    lost = {name: np.mean([row["call_loss"] for row in crowded[name, label].values()])
            for name in ("real-time-4-0.5bdp", "real-time-4-0.5bdp-packets")}  # fmt: skip
    assert lost["real-time-4-0.5bdp"] < 0.01
    assert lost["real-time-4-0.5bdp-packets"] > (0.5 if label == "flood" else 0.05)
    found = {each.statistic: each.verdict for name in lost
             for each in judge_cell(by_name()[name], crowded, label, ["cubic", "reno"])}  # fmt: skip
    assert found["harm_loss"] == "failed"
    experiment = next(each for each in EXPERIMENTS if each.name == "real-time")
    cells = [by_name()[name] for name in lost]
    assert verdicts.judge_experiment(experiment, cells, crowded, label, ["cubic", "reno"]).verdict == "failed"


def test_harm_is_a_share_of_what_there_was_alone() -> None:
    assert harm("harm_goodput", {"others_goodput": 10.0}, {"others_goodput": 2.5}) == pytest.approx(0.75)
    assert harm("harm_delay", {"call_ms": 20.0}, {"call_ms": 80.0}) == pytest.approx(0.75)
    assert harm("harm_fct", {"others_fct_ms": 20.0}, {}) == 1.0
    # What helps the others sets no standard.
    assert harm("harm_delay", {"call_ms": 80.0}, {"call_ms": 20.0}) == 0.0
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


def test_a_hundredfold_of_the_baseline_is_decided_by_three_seeds() -> None:
    cell = replace(by_name()["silence"], statistics=("late_packets",))
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {"late_packets": value} for seed, value in enumerate(values)}
        for label, values in (("mine", [600.0, 1300.0, 2447.0]), ("cubic", [3.0, 3.0, 3.0]))
    }
    assert judge_cell(cell, runs, "mine", ["cubic"])[0].verdict == "failed"


def test_who_starves_beside_cubic_is_shown_it() -> None:
    """1.4 of 9.6 Mbit/s, where CUBIC in its place gets half and Reno less."""
    experiment = next(each for each in EXPERIMENTS if each.name == "own-share")
    cell = next(each for each in experiment.cells if each.quick)
    rates = {"mine": 1.4, "cubic": 4.8, "reno": 3.9}
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {"own_goodput": rate + 0.01 * seed} for seed in range(3)}
        for label, rate in rates.items()
    }
    found = verdicts.judge_experiment(experiment, [cell], runs, "mine", ["cubic", "reno"])
    assert (found.verdict, found.found[0].against) == ("failed", "reno")
    assert "what it keeps for itself 1.41 Mbit/s, reno 3.91 Mbit/s" in output.worst(found.worst, by_name())
    assert {verdicts.judge_experiment(experiment, [cell], runs, each, ["cubic", "reno"]).verdict
            for each in ("cubic", "reno")} == {"passed"}  # fmt: skip


def test_a_verdict_beside_each_baseline_alone() -> None:
    low, high = [0.01, 0.011, 0.009], [0.09, 0.091, 0.089]
    found = judged(high, low, high)
    assert found.verdicts == {"a": "failed", "b": "passed"}
    experiment = next(each for each in EXPERIMENTS if each.name == "high-loss")
    row = verdicts.Criterion(experiment, "passed", (found,))
    assert output.effect(row, "a").startswith("failed: 8 [")
    assert output.effect(row, "b").startswith("passed: 0 [")


# --- Each row judges what its title says ------------------------------------------------------------------------

#: Rows about queues and losses, and of each a cell that is cut to ten seconds.
HARMLESS = {
    "bufferbloat": "bufferbloat-4bdp", "standing-queue": "bufferbloat-4bdp", "high-loss": "loss-4-flows-0.25bdp",
    "loss-in-per-cent": "loss-4-flows-0.25bdp",
}  # fmt: skip


class FewPackets:
    """Four segments in flight, whatever happens."""

    owns_window = True
    segments = 4

    def on_ack(self, ack: Any, control: Any) -> None:
        control.cwnd = self.segments * control.mss

    def on_congestion(self, congestion: Any, control: Any) -> None:
        control.ssthresh = control.cwnd = self.segments * control.mss


class NeverBacksOff(FewPackets):
    """Three hundred segments in flight, whatever happens."""

    segments = 300


def in_rows(fault: Any) -> dict[str, str]:
    """The verdicts of the rows above and of the link's use, three seeds."""
    mine = candidate(fault)
    rows: dict[tuple[str, str], dict[int, Any]] = {}
    cells = {name: by_name()[name] for name in HARMLESS.values()}
    cells = {name: replace(cell, given={**cell.given, "duration": "10s"}) for name, cell in cells.items()}
    for name, cell in cells.items():
        for label, cc in ((mine.label, mine.cc), ("reno", "reno"), ("alone", None)):
            if cc is not None or cell.has_others:
                scenarios = [cell.scenario(cc).with_({}, seed=seed) for seed in (1, 2, 3)]
                rows[name, label] = {seed: Kept()(tb.run(one)) for seed, one in enumerate(scenarios, 1)}
    found = {}
    for experiment in EXPERIMENTS:
        mine_too = [
            replace(cell, given=cells[cell.name].given)
            for cell in experiment.cells
            if cell.name in cells and experiment.name in (*HARMLESS, "link-use")
        ]
        if mine_too:
            found[experiment.name] = verdicts.judge_experiment(experiment, mine_too, rows, mine.label, ["reno"]).verdict
    return found


def test_who_sends_little_fails_only_where_the_use_of_the_link_is_judged() -> None:
    found = in_rows(FewPackets)
    assert found.pop("link-use") == "failed"
    assert set(found.values()) == {"passed"}


def test_who_never_backs_off_fails_every_absolute_row() -> None:
    found = in_rows(NeverBacksOff)
    # Most of what it sends is lost, so it gets less of the link as well.
    del found["link-use"]
    assert found == dict.fromkeys(HARMLESS, "failed")


def test_a_bound_that_no_baseline_sets_is_shown_in_its_place() -> None:
    experiment = next(each for each in EXPERIMENTS if each.name == "loss-in-per-cent")
    cell = next(each for each in experiment.cells if each.quick)
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {"loss": share + 0.001 * seed} for seed in range(3)}
        for label, share in {"mine": 0.3, "cubic": 0.4}.items()
    }
    found = verdicts.judge_experiment(experiment, [cell], runs, "mine", ["cubic"])
    assert found.verdict == "failed"
    assert output.worst(found.worst, by_name()).endswith("their packets lost 30.1 %, at most 10 %")


# --- Scopes -----------------------------------------------------------------------------------------------------


def test_rows_out_of_scope_are_not_applicable(store: Path) -> None:
    done = tb.assess("ledbat", quick=True, only=["high-delay", "link-use"], store=store, seeds=2)
    assert done.scope == "scavenger"
    rows = by_experiment(done)
    assert rows["link-use"].verdict == "not applicable"
    assert {one.statistic for one in rows["high-delay"].found} == {"loss"}
    assert "1 not applicable" in done.markdown()
    assert "Judged as scavenger" in done.markdown()
    # A scope that the algorithm does not declare is in the command that repeats the dossier.
    assert tb.assess("vegas", quick=True, only=SMALL, store=store, seeds=2, scope="scavenger").to_json()["command"] == (
        "tailback assess vegas --quick --seeds 2 --for scavenger --only high-delay"
    )


def test_a_scavenger_answers_for_the_transfers_of_others_alone() -> None:
    rows = {each.name: each for each in EXPERIMENTS}

    def left(row: str, cell: str) -> tuple[str, ...]:
        found = PROCEDURE.scoped(rows[row], by_name()[cell], "scavenger", candidate("ledbat"))
        return found.statistics if found else ()

    assert left("short-flows", "short-100kB-beside-1") == ()
    assert left("short-flows-of-others", "short-100kB-beside-cubic-1") == ("harm_goodput",)
    cell = by_name()["others-short-100kB-1-1bdp"]
    assert left("short-flows-of-others", cell.name) == ("harm_fct", "others_unfinished")
    done = {"others_fct_ms": 100.0, "others_unfinished": 0.0}
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: done | {"others_unfinished": share} for seed in (1, 2, 3)}
        for label, share in (("mine", 0.5), ("cubic", 0.0), ("alone", 0.0))
    }
    verdict = {each.statistic: each.verdict for each in judge_cell(cell, runs, "mine", ["cubic"])}
    assert verdict == {"harm_fct": "passed", "others_unfinished": "failed"}


def test_a_row_asks_only_what_the_candidate_can_have() -> None:
    rows = {each.name: each for each in EXPERIMENTS}

    def without(what: str) -> set[str]:
        of = candidate(what)
        return {name for name, each in rows.items() if each.cells
                and not any(PROCEDURE.scoped(each, cell, "general", of) for cell in each.cells)}  # fmt: skip

    assert without("cubic") == {"rto-backoff"}
    assert without("quinn,cc=bbr") == {"acks", "misbehaving"}
    assert without("bbr3") == {"rto-backoff", "data-centre-marks", "tunnels"}
    tunnels = verdicts.judge_experiment(
        rows["tunnels"], [cell for cell in rows["tunnels"].cells if cell.name.endswith("-ecn")], {}, "bbr3", ["reno"],
        of=candidate("bbr3"),
    )  # fmt: skip
    assert (tunnels.verdict, "no response to marks" in tunnels.why) == ("not applicable", True)


def test_a_transports_dossier_names_the_version_that_was_judged() -> None:
    done = tb.Assessment(candidate("quinn,cc=bbr"), "quinn,cc=bbr", ("cubic",), True, ())
    version = next(row.version for row in registry.load().transports if row.name == "quinn")
    assert f"Made by `{output.command(done)}`, quinn {version}." in done.markdown()
    assert version in output.html(done)
    assert candidate("cubic").version == ""


def test_connections_that_fail_are_listed(store: Path) -> None:
    done = tb.assess("quinn,cc=bbr", quick=True, only=["congestion-collapse"], store=store, seeds=2)
    failed, opened = done.lost["collapse-crowd-64", "quinn bbr"]
    assert 0 < failed < opened == 128
    assert f"| 64 flows over 1 Mbit/s | quinn bbr | {failed} | 128 |" in done.markdown()
    assert done.to_json()["connections_failed"][0] == {
        "cell": "collapse-crowd-64", "flows": "quinn bbr", "failed": failed, "of": 128
    }  # fmt: skip
    assert not any(label in ("cubic", "reno") for _, label in done.lost)


def test_a_transports_windows_hold_what_a_satellites_path_and_queue_hold() -> None:
    """quinn's own 1.25 MB would let it have 16.7 of 20 Mbit/s at most."""
    cell = by_name()["geo"]
    (link,) = (row for row in cell.scenario("cubic").resolve()["links"] if row["name"] == "bottleneck")
    holds = 2 * 20e6 * 0.6 / 8
    assert link["queue"]["params"] == {"limit_bytes": holds / 2}
    (flow,) = cell.scenario(candidate("quinn,cc=cubic")).resolve()["flows"]
    assert min(flow["tcp"][name] for name in ("send_buffer", "receive_buffer")) > holds
    (flow,) = cell.scenario(candidate("cubic")).resolve()["flows"]
    assert flow["tcp"]["receive_buffer"] is None


def test_a_candidate_for_l4s_asks_for_its_own_code_point() -> None:
    cell = by_name()["aqm-codel-ecn"]
    flows = {flow["name"]: flow for flow in cell.scenario("prague", "l4s").to_dict()["flow"]}
    assert (flows["test"]["stack"]["ecn"], flows["test"]["stack"]["accecn"]) == ("l4s", True)
    assert flows["other"]["stack"] == cell.scenario("prague").to_dict()["flow"][0]["stack"] != flows["test"]["stack"]
    cell.scenario("prague", "l4s").resolve()


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


def test_harm_is_also_judged_by_what_the_harmed_does_to_itself() -> None:
    experiment = next(each for each in EXPERIMENTS if each.name == "widely-deployed")
    cell = next(each for each in experiment.cells if each.rival == "bbr")
    runs: dict[tuple[str, str], dict[int, Any]] = {
        (cell.name, label): {seed: {"others_goodput": rate, "others_lowest": rate, "loss": 0.0} for seed in range(5)}
        for label, rate in (("alone", 10.0), ("mine", 5.0), ("cubic", 8.0), ("bbr", 4.9))
    }
    found = verdicts.judge_experiment(experiment, [cell], runs, "mine", ["cubic"])
    assert found.verdict == "failed"
    assert {(each.against, each.verdict) for each in found.ware} == {("bbr", "passed")}
    assert "passed by Ware et al.'s rule." in output.by_ware(found, by_name())


# --- Known answers --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shallow() -> dict[tuple[str, str], dict[int, Any]]:
    """The runs of the controls, with the seeds that a quick dossier has after its last round."""
    kept = Kept()
    wanted = dict.fromkeys(
        (name, cc, seed)
        for control in KNOWN
        for name in control.cells
        for cc in (control.cc, "cubic", "reno", *(("alone",) if control.statistic in HARMS else ()))
        for seed in range(1, running.QUICK.most + 1)
    )
    scenarios = [
        by_name()[name].scenario(None if cc == "alone" else cc).with_({}, seed=seed) for name, cc, seed in wanted
    ]
    out: dict[tuple[str, str], dict[int, Any]] = {}
    for (name, cc, seed), row in zip(wanted, tb.run_many(scenarios, then=kept), strict=True):
        out.setdefault((name, cc), {})[seed] = row
    return out


@pytest.mark.long
def test_bbr_fails_with_several_flows_in_shallow_buffers_and_the_others_do_not(shallow: Any) -> None:
    came = {(each.control.cc, each.control.experiment): each.verdict for each in judge_controls(shallow, KNOWN)}
    assert came["bbr", "high-loss"] == "failed"
    assert came["cubic", "high-loss"] == came["reno", "high-loss"] == "passed"
    assert came["bbr3", "high-loss"] != "failed"
    assert {each for each, verdict in came.items() if verdict == "failed"} == {
        ("bbr", "high-loss"), ("cubic", "standing-queue"), ("scalable", "standard-flows"),
        ("vegas", "own-share"), ("vegas", "varying-delay"),
    }  # fmt: skip
    assert not any(verdict == "not finished" for verdict in came.values())


def test_a_suite_whose_controls_come_out_otherwise_is_broken(shallow: Any) -> None:
    lossy = {key: rows for key, rows in shallow.items() if key[0].startswith("loss-")}
    gentle = shallow | {(cell, cc): lossy[cell, "reno" if cc == "bbr" else cc] for cell, cc in lossy}
    harsh = shallow | {(cell, cc): lossy[cell, "bbr" if cc == "cubic" else cc] for cell, cc in lossy}
    done = tb.Assessment(candidate("reno"), "reno", ("cubic",), True, (), controls=judge_controls(shallow, KNOWN))
    assert not done.is_broken
    for runs in (gentle, harsh):
        done.controls = judge_controls(runs, KNOWN)
        assert done.is_broken
        assert "suite is broken" in done.markdown()
        assert "suite is broken" in output.html(done)
    assert done.to_json()["broken"] is True


@pytest.mark.long
def test_reno_against_reno_passes_whatever_is_run(store: Path) -> None:
    done = tb.assess("reno", against=["reno"], quick=True, store=store)
    relative = [each for each in done.criteria if not any(STATISTICS[one.statistic].is_absolute for one in each.found)]
    # Timers are the stack's.
    assert [each.experiment.name for each in relative if each.verdict == "not applicable"] == ["rto-backoff"]
    assert {each.verdict for each in relative} == {"passed", "not run", "covered", "not applicable"}
    # Reno does not address bufferbloat (RFC 9743 section 5.1.2).
    assert {each.experiment.name for each in done.criteria if each.verdict == "failed"} == {
        "standing-queue", "real-time-quality",
    }  # fmt: skip
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
    first = tb.assess("vegas", quick=True, only=SMALL, store=store, seeds=2, out=tmp_path / "one")
    again = tb.assess("vegas", quick=True, only=SMALL, store=store, seeds=2, out=tmp_path / "two")
    assert again.run == 0
    assert again.reused == first.run + first.reused
    for name in ("cells/geo.toml", "dossier.md"):
        assert (tmp_path / "one" / name).read_text() == (tmp_path / "two" / name).read_text()


@pytest.mark.long
def test_the_user_says_how_many_seeds(store: Path) -> None:
    done = tb.assess("vegas", quick=True, only=SMALL, seeds=4, store=store)
    assert {each.candidate.n for criterion in done.criteria for each in criterion.found} == {4}
    assert done.to_json()["command"] == "tailback assess vegas --quick --seeds 4 --only high-delay"
    assert "4 seeds." in done.markdown()


def test_the_dossier_repeats_itself(store: Path, tmp_path: Path) -> None:
    done = tb.assess("cubic,beta=0.5", quick=True, only=SMALL, store=store, out=tmp_path)
    reported = json.loads((tmp_path / "dossier.json").read_text())
    assert reported["candidate"] == "cubic beta=0.5"
    assert reported["command"] == "tailback assess cubic,beta=0.5 --quick --only high-delay"
    assert reported["cells"]["geo"]["command"] == "tailback run cells/geo.toml --seed 1"
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
        tb.assess("htcp", quick=True, only=SMALL, store=kept, seeds=2)
    assert caught.value.partial.verdict == "not finished"
    words = [
        "assess",
        "htcp",
        "--quick",
        "--seeds",
        "2",
        "--only",
        *SMALL,
        "--store",
        str(kept),
        "--out",
        str(tmp_path / "out"),
    ]
    code, _, err = tailback(*words)
    assert code == 130
    assert "goes on from there" in err
    assert "Interrupted" in (tmp_path / "out" / "dossier.md").read_text()
    monkeypatch.undo()
    done = tb.assess("htcp", quick=True, only=SMALL, store=kept, seeds=2)
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
            "    def on_congestion(self, congestion, control):\n"
            # After a timeout the window is what is in flight and one segment more: it may be below the least ssthresh.
            "        control.ssthresh = max(control.cwnd, 2 * control.mss)\n"
        )
        return f"{path}:Mine"

    return write


def test_a_candidate_that_crashes_is_reported_with_its_traceback(own: Any, tailback: Any, tmp_path: Path) -> None:
    words = ["assess", own("raise RuntimeError('no idea')"), "--allow-code", "--out", tmp_path / "d"]
    code, out, err = tailback(*words, shows_traceback=True)
    assert (code, out) == (1, "")
    assert "no idea" in err
    assert "it was not assessed" in err
    assert not (tmp_path / "d").exists()


def test_a_candidate_that_loops_is_given_up(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE_S", 0.5)
    # Ends by itself, so that the tests that follow have the processor.
    loop = f"import time\n        while time.monotonic() < {time.monotonic() + 1.5}: pass"
    with pytest.raises(tb.UnfitCandidate, match="did not return within"):
        tb.assess(own(loop), allow_code=True)


def test_the_command_ends_though_the_candidate_loops(own: Any) -> None:
    # A process of its own: the thread that loops would go on in this one.
    code = (
        "import sys; from tailback.assess import run; from tailback import cli; run.PATIENCE_S = 1.0\n"
        f"sys.argv = ['tailback', 'assess', {own('while True: pass')!r}, '--allow-code']; cli.main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "did not return within" in ran.stderr
    assert "Fatal" not in ran.stderr


def test_a_candidate_that_never_sends_has_nothing_to_assess(own: Any) -> None:
    with pytest.raises(tb.UnfitCandidate, match="delivered almost nothing"):
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
        (["cubic", "--for", "scavanger"], 2, 'Did you mean "scavenger"'),
        (["cubic", "--seeds", "1"], 2, "seeds must be at least 2, got 1"),
        (["none.py:Mine"], 2, "--allow-code"),
    ],
)
def test_bad_input_is_reported(tailback: Any, arguments: list[str], code: int, says: str) -> None:
    ran, out, err = tailback("assess", *arguments)
    assert (ran, out) == (code, "")
    assert says in err
    assert "Traceback" not in err
