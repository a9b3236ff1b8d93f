"""The stated population: its bounds, what its paths are, and what the rules on harm make of known differences."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import tailback as tb
from tailback.assess import population, sections
from tailback.assess import run as running
from tailback.assess.population import ALONE, PATHS, QUICK_PATHS, KeptPath, judge, paths
from tailback.assess.table import PROCEDURE
from tailback.judge import Verdict


def test_every_path_is_within_the_bounds_that_are_stated() -> None:
    assert len({path.name for path in paths()}) == PATHS
    for path in paths():
        assert 1e6 <= path.rate_bps <= 1e9
        assert 0.005 <= path.rtt_s <= 0.3
        assert 0.1 <= path.point["queue_bdp"] <= 8.0
        assert 1 <= path.tested <= 32
        assert 1 <= path.others <= 32
        packets = path.seconds * path.rate_bps / 12_000
        assert packets <= 1.000001 * population.MOST_PACKETS or path.seconds == pytest.approx(120 * path.rtt_s)


def test_the_first_paths_are_spread_as_evenly_as_all() -> None:
    """A net in base two: each half of each axis has half of the points, and each quarter of two axes a sixteenth."""
    few = paths()[:QUICK_PATHS]
    for axis, low, high in (("rate", 1e6, 1e9), ("rtt", 0.005, 0.3)):
        of = [path.rate_bps if axis == "rate" else path.rtt_s for path in few]
        shares = [math.log(value / low) / math.log(high / low) for value in of]
        assert sorted(int(16 * share) for share in shares) == list(range(16))


def test_a_path_without_the_flows_under_test_is_else_the_same() -> None:
    for path in paths()[:40]:
        beside, alone = path.scenario("reno").resolve(), path.scenario(None).resolve()
        others = [row for row in beside["flows"] if not row["name"].startswith("test")]
        assert [row["name"] for row in others] == [row["name"] for row in alone["flows"]]
        assert len(beside["flows"]) - len(others) == path.tested
        assert sum(row["name"].startswith("other") for row in others) == path.others
        necks = [row for row in beside["links"] if row["name"].startswith("neck")]
        assert len(necks) == (2 if path.point["bottlenecks"] == "two" else 1)


def test_a_transport_has_the_dossiers_windows() -> None:
    flows = paths()[0].scenario({"transport": "quinn", "cc": "bbr"}).resolve()["flows"]
    own = {(row["tcp"]["send_buffer"], row["tcp"]["receive_buffer"]) for row in flows if row["name"].startswith("test")}
    assert own == {(4 << 20, 6 << 20)}


def test_every_kind_of_path_is_there() -> None:
    for axis in ("others_cc", "far", "late", "web", "reverse", "bottlenecks"):
        counts = [sum(path.point[axis] == word for path in paths()) for word in dict.fromkeys(population.AXES[axis])]
        # Words are as frequent as they are listed: Sobol's points leave no axis out.
        assert sum(counts) == PATHS
        assert all(count in (64, 128, 192) for count in counts)


def test_what_a_path_measures_is_what_its_flows_got() -> None:
    path = min(paths(), key=lambda each: each.seconds * each.rate_bps)
    kept = KeptPath()(tb.run(path.scenario("reno")))
    assert kept["own_mbps"] + kept["others_mbps"] / (2 if path.point["bottlenecks"] == "two" else 1) > 0.0
    assert kept["own_mbps"] <= path.rate_bps / 1e6
    assert kept["round_trip_ms"] >= 1e3 * path.rtt_s


def made(mine: Any, count: int = 100) -> dict[tuple[int, str], dict[str, float]]:
    """Others have 10 Mbit/s alone and 5 beside the baseline, and beside the candidate what `mine` says by path."""
    runs: dict[tuple[int, str], dict[str, float]] = {}
    for number in range(count):
        # Paths differ by more than the candidate does.
        size = 1.0 + number % 7
        runs[number, ALONE] = {"others_mbps": 10.0 * size, "round_trip_ms": 10.0}
        runs[number, "a"] = {"others_mbps": 5.0 * size, "round_trip_ms": 20.0, "own_mbps": 1.0}
        runs[number, "mine"] = {"others_mbps": mine(number) * size, "round_trip_ms": 20.0, "own_mbps": 1.0}
    return runs


@pytest.mark.parametrize(
    ("mine", "mean", "decile"),
    [
        (lambda number: 5.0, Verdict.PASSED, Verdict.PASSED),
        (lambda number: 2.0 + 0.1 * (number % 3), Verdict.FAILED, Verdict.FAILED),
        # One path in four is starved: on average by 12 points, which is near the 10 that are allowed.
        (lambda number: 0.0 if number % 4 == 0 else 5.0, Verdict.UNDECIDED, Verdict.FAILED),
        (lambda number: 0.0 if number % 50 == 0 else 5.0, Verdict.PASSED, Verdict.PASSED),
    ],
    ids=["equal", "worse", "worse-on-a-quarter", "worse-on-a-fiftieth"],
)
def test_the_rules_see_the_average_and_the_worst_decile(mine: Any, mean: str, decile: str) -> None:
    found = judge(made(mine), "mine", ["a"], 100)
    verdicts = dict(zip(found.rules(), found.verdicts, strict=True))
    assert verdicts["goodput", "mean"] == mean
    assert verdicts["goodput", "decile"] == decile
    assert verdicts["round_trip", "mean"] == Verdict.PASSED
    # Nothing asks for web responses on these paths.
    assert ("web", "mean") not in verdicts


def test_beside_a_verdict_stands_the_number_that_decided_it() -> None:
    found = judge(made(lambda number: 0.0 if number % 4 == 0 else 5.0), "mine", ["a"], 100)
    said = sections.beside(SimpleNamespace(population=found), "a")  # type: ignore[arg-type]
    assert re.fullmatch(r"failed: 25\.0 \[[\d.]+, [\d.]+\] % of paths", said)


def test_the_more_lenient_baseline_counts_and_quick_has_no_decile() -> None:
    runs = made(lambda number: 2.0 + 0.1 * (number % 3))
    runs |= {(number, "b"): row for (number, label), row in runs.items() if label == "mine"}
    found = judge(runs, "mine", ["a", "b"], 100, is_quick=True)
    assert set(found.rules()) == {("goodput", "mean"), ("round_trip", "mean")}
    assert set(found.verdicts) == {Verdict.PASSED}


def test_the_worst_decile_is_what_is_beyond_every_baseline() -> None:
    found = judge(made(lambda number: 1.0 if number == 17 else 5.0), "mine", ["a"], 100)
    worst = found.worst()
    assert len(worst) == 10
    assert (worst[0][0].number, worst[0][1]) == (17, "goodput")
    assert worst[0][2] == pytest.approx(0.4)
    assert all(one[2] >= other[2] for one, other in itertools.pairwise(worst))


def test_a_run_that_failed_is_an_error_of_its_path() -> None:
    runs: dict[Any, Any] = made(lambda number: 5.0)
    runs[3, "mine"] = "AlgorithmError: no"
    assert judge(runs, "mine", ["a"], 100).errors == {3: "AlgorithmError: no"}


def test_a_dossier_has_its_paths_and_their_scenarios(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(population, "QUICK_PATHS", 2)
    monkeypatch.setattr(running, "procedure_of", lambda what, **_: replace(PROCEDURE, controls=()))
    asked: dict[str, Any] = {"quick": True, "only": ["population"], "store": tmp_path / "s"}
    done = tb.assess("vegas", against=["reno"], out=tmp_path / "d", **asked)
    assert done.population is not None
    row = next(each for each in done.criteria if each.experiment.name == "population")
    assert row.verdict in (Verdict.PASSED, Verdict.UNDECIDED, Verdict.FAILED)
    path = done.population.worst()[0][0]
    assert tb.Scenario.from_toml(tmp_path / "d" / "population" / f"{path.name}.toml").name == path.name
    text = (tmp_path / "d" / "dossier.md").read_text()
    assert "## Harm on 2 paths" in text
    assert sections.path_command(done, path) == f"tailback run population/{path.name}.toml --seed 1"
    assert "Harm on 2 paths" in (tmp_path / "d" / "report.html").read_text()
    assert tb.assess("dctcp", **asked).population is None
