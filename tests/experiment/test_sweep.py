"""Sweeps: the points asked for, each once; failures recorded; interruptions cost nothing; the same on any cores."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tailback as tb
from tailback import metrics
from tailback.experiment import RunMetrics, Sweep, latin_hypercube, read_sweep, single, sobol
from tailback.experiment.run_metrics import totals_names
from tailback.experiment.store import run_key
from tailback.experiment.store.axes import is_axis
from tailback.experiment.sweeps import FailedRuns

ROOT = Path(__file__).parents[2]
BASE = tb.dumbbell(
    rate="2mbit",
    rtt="20ms",
    queue="20packets",
    flows=[tb.bulk("reno", name="bulk"), tb.voip(name="call")],
    duration="2s",
    randomness={"start_spread": "100ms", "processing_jitter": "50us"},
    instruments={"packets": ["call"]},
    name="small",
)


# --- Designs --------------------------------------------------------------------------------------------------


def test_a_grid_has_every_combination_and_a_zip_walks_together() -> None:
    grid = tb.grid({"a": [1, 2], "b": ["x", "y", "z"]})
    assert len(grid) == len(list(grid)) == 6
    assert list(grid)[:2] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}]
    zipped = tb.zipped({"c": [1, 2], "d": [3, 4]})
    assert list(zipped) == [{"c": 1, "d": 3}, {"c": 2, "d": 4}]
    both = grid * zipped
    assert len(both) == len({json.dumps(point) for point in both}) == 12
    assert both.axes == ("a", "b", "c", "d")
    assert len(list(grid + zipped)) == len(grid + zipped) == 8


def test_a_million_points_take_no_memory() -> None:
    design = tb.grid({name: list(range(100)) for name in "abc"})
    assert len(design) == 1_000_000
    assert next(iter(design)) == {"a": 0, "b": 0, "c": 0}


def test_a_latin_hypercube_has_one_point_in_every_slice() -> None:
    design = latin_hypercube({"x": tb.Span(0.0, 1.0), "y": (10.0, 20.0), "z": ["a", "b"]}, 50, seed=3)
    points = list(design)
    assert sorted(int(point["x"] * 50) for point in points) == list(range(50))
    assert sorted(int((point["y"] - 10) * 5) for point in points) == list(range(50))
    assert [point["z"] for point in points].count("a") == 25
    assert points == list(latin_hypercube({"x": tb.Span(0.0, 1.0), "y": (10.0, 20.0), "z": ["a", "b"]}, 50, seed=3))


def test_a_sobol_design_is_balanced_in_two_dimensions() -> None:
    """64 points: one in every cell of every 8 × 8 division of the square into equal boxes."""
    points = np.array([[point["x"], point["y"]] for point in sobol({"x": (0.0, 1.0), "y": (0.0, 1.0)}, 64)])
    for across in range(7):
        cells = np.floor(points * [2**across, 2 ** (6 - across)]).astype(int)
        assert len({tuple(cell) for cell in cells}) == 64


def test_spans_keep_their_unit() -> None:
    assert tb.Span("1mbit", "100mbit", log=True).at(0.5) == "10mbit"
    assert tb.Span("10ms", "30ms").at(0.5) == "20ms"
    assert tb.Span("900us", "1100us").at(0.5) == "1ms"
    assert tb.Span("0.5bdp", "1.5bdp").at(0.5) == "1bdp"
    assert tb.Span("10packets", "20packets").at(0.333) == "13packets"
    assert tb.Span(1, 10).at(0.49) == 5
    assert tb.Span(0.0, 1.0).at(0.25) == 0.25


SWEPT = Sweep(BASE, tb.grid({"flow.bulk.cc": ["reno", "cubic"]}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.grid({}), "varies nothing"),
        (lambda: tb.grid({"a": []}), r"grid.a: the list of values is empty"),
        (lambda: tb.grid({"a": "1mbit"}), "is no list of values"),
        (lambda: tb.grid({"seed": [1, 2]}), "seeds are no axis"),
        (lambda: tb.zipped({"a": [1, 2], "b": [1]}), "differ in length: a has 2, b has 1"),
        (lambda: tb.grid({"a": [1]}) * tb.grid({"a": [2]}), "is varied twice"),
        (lambda: tb.sobol({"a": (0, 1)}, 100), "Take 64 or 128"),
        (lambda: tb.latin_hypercube({"a": (0, 1)}, 0), "no number of points"),
        (lambda: tb.latin_hypercube({"a": tb.Span("1mbit", "2ms")}, 4), "no quantities of one kind"),
        (lambda: tb.latin_hypercube({"a": tb.Span(0, 2, log=True)}, 4), "has no logarithm"),
        (lambda: tb.Until("x", "wide"), "is no width"),
        (lambda: tb.Until("x", "5%", least=1), "at least 2"),
        (lambda: SWEPT.with_values({"flow.bulk.cc": "bbr"}), "no point of the sweep has this value.*reno, cubic"),
        (lambda: SWEPT.with_values({"flow[0].cc": "bbr"}), "the sweep varies it by another path"),
        (lambda: SWEPT.with_values({"seed": 3}), r"its own seeds.*seeds = \[3\]"),
        (lambda: tb.sweep(BASE, seeds=0), "at least one seed"),
        (lambda: tb.sweep(BASE, seeds=[1, 1]), "list of different ones"),
        (lambda: tb.sweep(BASE, seeds=3, until=tb.Until("loss", 1.0)), "stopping rule decides"),
        (lambda: tb.sweep(BASE, seeds=[1 << 63]), r"each below 2\^63"),
        (lambda: tb.sweep(BASE, keep="everything"), "neither summaries nor tables"),
        (lambda: tb.sweep(BASE, metrics={"loss": len}), "name is taken"),
        (lambda: tb.sweep(BASE, metrics={"m": {"metric": "utilization"}}), "There are: .*utilisation"),
        (lambda: tb.sweep(BASE, metrics={"m": {"metric": "utilisation", "lnk": 1}}), "It takes: link"),
    ],
)
def test_what_cannot_be_swept_is_said_before_anything_runs(make: Any, message: str) -> None:
    with pytest.raises(tb.ScenarioError, match=message):
        make()


# --- Running --------------------------------------------------------------------------------------------------


def test_every_point_and_seed_once_and_then_never_again(tmp_path: Path) -> None:
    axes = {"flow.bulk.cc": ["reno", "cubic"], "dumbbell.rate": ["1mbit", "2mbit"]}
    first = tb.sweep(BASE, axes, seeds=2, store=tmp_path / "s")
    assert (first.run, first.reused, first.failed) == (8, 0, 0)
    frame = first.frame
    assert frame.select("flow.bulk.cc", "dumbbell.rate", "seed").rows()[:3] == [
        ("reno", "1mbit", 1),
        ("reno", "1mbit", 2),
        ("reno", "2mbit", 1),
    ]
    assert frame["dumbbell.rate.si"].to_list()[:3] == [1e6, 1e6, 2e6]
    again = tb.sweep(BASE, axes, seeds=2, store=tmp_path / "s")
    assert (again.run, again.reused) == (0, 8)
    assert again.frame.equals(frame)
    more = tb.sweep(BASE, axes, seeds=3, store=tmp_path / "s")
    assert (more.run, more.reused) == (4, 8)


def test_seeds_that_draw_nothing_are_reported(tmp_path: Path) -> None:
    # A seed also draws when the jiffies of Linux begin; ns-2's timers have none.
    still = BASE.with_({"randomness": {}, "flow.bulk.stack": "ns2-sack"})
    done = tb.sweep(still, tb.grid({"dumbbell.queue": ["10packets", "20packets"]}), store=tmp_path / "still", seeds=2)
    assert done.seeds_agree
    drawn = tb.sweep(BASE, tb.grid({"dumbbell.queue": ["10packets", "20packets"]}), store=tmp_path / "drawn", seeds=2)
    assert not drawn.seeds_agree
    # Only one of two points draws.
    mixed = tb.grid({"randomness.start_spread": ["0s", "1s"]})
    some = tb.sweep(still, mixed, store=tmp_path / "mixed", seeds=2)
    assert some.still == (0,)
    once = tb.sweep(still, tb.grid({"dumbbell.queue": ["10packets"]}), store=tmp_path / "still", seeds=1)
    assert not once.seeds_agree


def test_every_seed_runs_what_its_point_describes_with_it(tmp_path: Path) -> None:
    done = tb.sweep(BASE, {"flow.bulk.cc": ["reno", "cubic"]}, seeds=[7, 3, 11], store=tmp_path / "store")
    for row in done.frame.to_dicts():
        alone = BASE.with_({"flow.bulk.cc": row["flow.bulk.cc"]}, seed=row["seed"])
        assert row["run"] == run_key(alone.to_json())
        assert row["scenario"] == alone.to_toml()


def test_what_is_kept_is_what_the_run_shows(tmp_path: Path) -> None:
    done = tb.sweep(BASE, seeds=1, store=tmp_path / "s")
    row = done.frame.to_dicts()[0]
    result = tb.run(BASE)
    flows = {entry["flow"]: entry for entry in result.flow_summary()}
    assert row["bulk.goodput_mbps"] == row["goodput_mbps"] == flows["bulk"]["goodput_mbps"]
    assert row["bottleneck.dropped"] == result.link_summary()[0]["dropped"]
    delays = metrics.one_way_delay(result, "call")[1]
    assert row["call.delay_p95_ms"] == pytest.approx(1e3 * np.quantile(delays, 0.95))
    assert row["jain"] == 1.0
    names = RunMetrics().names(result.resolved)
    assert sorted(names) == sorted(RunMetrics()(result))
    assert tb.Scenario.parse_toml(row["scenario"]) == BASE


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    def rows(workers: int) -> Any:
        done = tb.sweep(
            BASE, {"flow.bulk.cc": ["reno", "cubic"]}, seeds=4, store=tmp_path / str(workers), workers=workers
        )
        return done.frame.drop("wall_s", "finished")

    assert rows(1).equals(rows(3))


@pytest.mark.parametrize("workers", [1, 3])
def test_points_of_one_scenario_share_its_runs_and_have_all_seeds(tmp_path: Path, workers: int) -> None:
    axes = {"dumbbell.rtt": ["20ms", "40ms"], "dumbbell.queue": ["1bdp", "20ms"]}
    done = tb.sweep(BASE, axes, seeds=4, store=tmp_path / "s", workers=workers)
    # At 20 ms both queues are one.
    assert (done.run, done.reused, done.failed) == (12, 4, 0)
    sql = 'SELECT "dumbbell.rtt", "dumbbell.queue", count(*) AS n, sum(events) AS events FROM runs GROUP BY 1, 2'
    rows = done.store.query(sql).sort("dumbbell.rtt", "dumbbell.queue").rows()
    assert [row[:3] for row in rows] == [(rtt, queue, 4) for rtt in axes["dumbbell.rtt"] for queue in ("1bdp", "20ms")]
    assert rows[0][3] == rows[1][3]
    assert rows[2][3] != rows[3][3]
    again = tb.sweep(BASE, axes, seeds=4, store=tmp_path / "s", workers=workers)
    assert (again.run, again.reused, len(again.store.everything())) == (0, 16, 16)
    assert again.frame.equals(done.frame)
    assert len(done.frame) == 16
    assert done.store.gc().rows == 0
    assert len(done.store.frame()) == 16
    key = done.frame["key"][0]
    assert done.store.find(key)["key"] == key


def test_a_failed_run_of_several_points_is_done_once(tmp_path: Path) -> None:
    seen: list[int] = []

    def broken(result: tb.Result) -> float:
        seen.append(result.seed)
        time.sleep(0.2)
        raise RuntimeError("no such thing")

    with pytest.warns(FailedRuns, match="2 of 2 runs failed"):
        done = tb.sweep(
            BASE, {"dumbbell.queue": ["1bdp", "20ms"]}, store=tmp_path / "s", metrics={"broken": broken}, workers=2
        )
    assert (seen, done.store.frame()["dumbbell.queue"].to_list()) == ([1], ["1bdp", "20ms"])


def test_a_study_may_be_extended_in_its_store(tmp_path: Path) -> None:
    queues, store = {"dumbbell.queue": ["1bdp", "codel"]}, tmp_path / "s"
    tb.sweep(BASE, queues, seeds=2, store=store, name="first")
    done = tb.sweep(BASE, queues | {"flow.bulk.cc": ["reno", "cubic"]}, seeds=2, store=store, name="second")
    assert (done.run, done.reused) == (4, 4)
    rows = done.store.frame().select("sweep", "dumbbell.queue", "flow.bulk.cc").unique().sort(pl.all()).rows()
    assert rows == [("first", queue, "reno") for queue in ("1bdp", "codel")] + [
        ("second", queue, "cubic") for queue in ("1bdp", "codel")
    ]


def test_a_row_has_the_axes_of_other_sweeps_from_its_scenario(tmp_path: Path) -> None:
    tb.sweep(BASE, {"dumbbell.rate": ["2mbit", "4mbit"]}, store=tmp_path / "s", name="rates")
    tb.sweep(BASE, {"flow.bulk.cc": ["cubic"], "dumbbell.queue": [{"discipline": "codel"}]}, store=tmp_path / "s")
    axes = ["dumbbell.rate", "dumbbell.rate.si", "flow.bulk.cc", "dumbbell.queue"]
    assert tb.open_store(tmp_path / "s").frame().select(axes).sort(pl.all()).rows() == [
        ("2mbit", 2e6, "cubic", '{"discipline": "codel"}'),
        ("2mbit", 2e6, "reno", "20packets"),
        ("4mbit", 4e6, "reno", "20packets"),
    ]


def test_metrics_of_a_flow_named_as_a_table_of_the_scenario_are_no_axes() -> None:
    apps = {"flow": "bulk", "link": "voip", "path": "page", "node": "video", "preset": "game"}
    flows = [tb.flow(app, name=name) for name, app in apps.items()]
    asked = {"packets": "all", "requests": "all", "polls": "all"}
    scenario = tb.dumbbell(rate="9mbit", rtt="9ms", flows=flows, duration="1s", instruments=asked)
    names = totals_names(scenario.resolve())
    assert {"flow.timeouts", "link.experience_mos", "path.loads", "node.stalls", "preset.late_50"} <= set(names)
    # A preset's parameter of the same name comes first.
    assert list(filter(is_axis, names)) == ["path.loss"]
    assert is_axis("path.loss.si")


def test_own_metrics_are_kept_and_make_runs_of_their_own(tmp_path: Path) -> None:
    wanted = {
        "sent": lambda result: result.numpy("flows")["packets_sent"][0],
        "delay": {"metric": "delay_quantiles", "flow": "call", "quantiles": [0.5, 0.9], "induced": False},
    }
    first = tb.sweep(BASE, seeds=1, store=tmp_path / "s")
    done = tb.sweep(BASE, seeds=1, store=tmp_path / "s", metrics=wanted)
    assert (done.run, done.reused) == (1, 0)
    row = done.frame.to_dicts()[0]
    assert row["sent"] > 0
    assert row["delay.0"] == pytest.approx(row["call.delay_p50_ms"] / 1e3)
    assert row["run"] == first.frame["run"].item()
    assert row["key"] != first.frame["key"].item()


def test_a_failing_point_is_recorded_and_the_rest_goes_on(tmp_path: Path) -> None:
    axes = {"dumbbell.rate": ["1mbit", "3mbit", "2mbit"]}

    def broken(result: tb.Result) -> float:
        if result.resolved["links"][0]["rate_bps"] == 3_000_000:
            raise RuntimeError("no such thing")
        return 1.0

    with pytest.warns(FailedRuns, match="2 of 6 runs failed, 2 of them by: RuntimeError: no such thing"):
        done = tb.sweep(BASE, axes, seeds=2, store=tmp_path / "s", metrics={"broken": broken})
    assert (done.run, done.failed) == (4, 2)
    assert done.frame["status"].to_list() == ["ok", "ok", "failed", "failed", "ok", "ok"]
    assert "no such thing" in done.frame["error"][2]
    assert list(done.errors.values()) == [2]
    # Tried again, as what made it fail may have passed.
    with pytest.warns(FailedRuns):
        again = tb.sweep(BASE, axes, seeds=2, store=tmp_path / "s", metrics={"broken": broken})
    assert (again.run, again.reused, again.failed) == (0, 4, 2)


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"dumbbell.rate": ["1mbit", "-1mbit"]}, r'dumbbell.rate = "-1mbit": .* \(point 1: dumbbell.rate = -1mbit\)'),
        ({"dumbbell.queue": ["1bdp", {"discipline": "cake", "rst": "1s"}]}, r'rst.*\(point 1: .*Did you mean "rtt"'),
        ({"flow.bulk.ccc": ["reno"]}, r"ccc.*\(point 0: flow.bulk.ccc = reno\)"),
    ],
)
def test_a_point_that_is_no_scenario_is_refused_before_the_first_run(tmp_path: Path, axes: Any, says: str) -> None:
    with pytest.raises(tb.ScenarioError, match=says):
        tb.sweep(BASE, axes, seeds=2, store=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_metric_that_fails_is_a_failed_run(tmp_path: Path) -> None:
    def broken(result: tb.Result) -> float:
        if result.seed == 2:
            raise RuntimeError("no such thing")
        return 1.0

    with pytest.warns(FailedRuns):
        done = tb.sweep(BASE, seeds=3, store=tmp_path / "s", metrics={"broken": broken})
    assert (done.run, done.failed, done.errors) == (2, 1, {"RuntimeError: no such thing": 1})


def test_tables_are_kept_on_demand(tmp_path: Path) -> None:
    assert tb.sweep(BASE, seeds=1, store=tmp_path / "s").run == 1
    done = tb.sweep(BASE, seeds=1, store=tmp_path / "s", keep="tables")
    # The summary was there, the tables were not.
    assert done.run == 1
    kept = done.result(done.frame["key"].item())
    assert np.array_equal(kept.numpy("packets")["sent_s"], tb.run(BASE).numpy("packets")["sent_s"])
    again = tb.sweep(BASE, seeds=1, store=tmp_path / "s", keep="tables")
    assert (again.run, again.reused) == (0, 1)
    again.store.gc()
    assert again.store.result(again.frame["key"].item()).rows("packets") > 0


def test_seeds_are_added_until_the_interval_is_narrow(tmp_path: Path) -> None:
    rule = tb.Until("call.delay_mean_ms", "2%", least=4, most=40)
    done = tb.sweep(BASE, {"dumbbell.queue": ["5packets", "20packets"]}, until=rule, store=tmp_path / "s")
    frame = done.frame
    for point in (0, 1):
        values = frame.filter(frame["point"] == point)["call.delay_mean_ms"].to_list()
        assert rule.enough(values) or len(values) == 40
        # It would not have been enough before the last addition.
        assert len(values) == 4 or not rule.enough(values[:4])
    again = tb.sweep(BASE, {"dumbbell.queue": ["5packets", "20packets"]}, until=rule, store=tmp_path / "s", workers=1)
    assert (again.run, again.reused) == (0, done.run)


def test_a_rule_that_is_never_met_ends_at_its_most(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    rule = tb.Until("call.delay_mean_ms", 1e-9, least=2, most=9)
    done = tb.sweep(BASE, until=rule, store=tmp_path / "s", progress=lambda *at: seen.append(at))
    assert (done.run, seen[-1]) == (9, (9, 9))
    with pytest.raises(tb.TailbackError, match=r"There are: .*call.delay_mean_ms"):
        tb.sweep(BASE, until=tb.Until("call.delay", 1.0), store=tmp_path / "s")


def test_effects_and_summaries_of_a_sweep(tmp_path: Path) -> None:
    axes = {"dumbbell.queue": ["5packets", "20packets"], "flow.bulk.cc": ["reno", "cubic"]}
    done = tb.sweep(BASE, axes, seeds=3, store=tmp_path / "s")
    table = done.summary("call.delay_p95_ms")
    assert table.columns == ["dumbbell.queue", "flow.bulk.cc", "median", "low", "high", "n", "interval"]
    assert set(table["interval"]) == {"range of 3 runs"}
    # Other axes are not pooled unless named: one row for each algorithm.
    each = done.effects("call.delay_p95_ms", "dumbbell.queue").to_dicts()
    assert [(row["flow.bulk.cc"], row["pairs"]) for row in each] == [("reno", 3), ("cubic", 3)]
    printed = done.effects("call.delay_p95_ms", "dumbbell.queue", over=["flow.bulk.cc"]).to_dicts()[0]
    assert (printed["dumbbell.queue"], printed["pairs"], printed["above"]) == ("20packets", 6, 1.0)
    assert printed["low"] > 0
    assert printed["over"] == "flow.bulk.cc"
    assert sum(row["difference"] for row in each) / 2 == pytest.approx(printed["difference"])
    with pytest.raises(tb.TailbackError, match="other axes"):
        done.effects("call.delay_p95_ms", "dumbbell.queue", over=["dumbbell.rate"])


def test_cancelling_keeps_what_is_finished(tmp_path: Path) -> None:
    cancel = tb.Cancel()
    with pytest.raises(tb.Cancelled, match="are kept"):
        tb.sweep(
            BASE, seeds=500, store=tmp_path / "s", cancel=cancel, progress=lambda done, total: done > 5 and cancel.set()
        )
    kept = len(tb.open_store(tmp_path / "s").frame())
    assert 5 < kept < 500


@pytest.mark.parametrize("name", ["store", "design", "sweeps", "studies"])
def test_examples_run_as_printed(name: str) -> None:
    done = doctest.testmod(importlib.import_module(f"tailback.experiment.{name}"))
    assert done.attempted > 0
    assert done.failed == 0


# --- From the command line --------------------------------------------------------------------------------------

GRID = """
name = "two"
seeds = {seeds}
base = "base.toml"
[set]
duration = "2s"
[grid]
"flow.bulk.cc" = {values}
"""


def grid_file(folder: Path, seeds: int = 2, values: str = '["reno", "cubic"]') -> Path:
    (folder / "base.toml").write_text(BASE.to_toml())
    path = folder / "grid.toml"
    path.write_text(GRID.format(seeds=seeds, values=values))
    return path


def test_sweep_then_ask(tmp_path: Path, tailback: Any) -> None:
    store = tmp_path / "store"
    code, printed, _ = tailback("sweep", grid_file(tmp_path), "--store", store, "--json")
    assert (code, printed["runs"], printed["failed"], printed["points"]) == (0, 4, 0, 2)
    code, printed, _ = tailback("sweep", grid_file(tmp_path), "--store", store, "--json")
    assert (code, printed["runs"], printed["reused"]) == (0, 0, 4)
    few = ("--set", "flow.bulk.cc=cubic", "--set", "dumbbell.rate=3mbit", "--store", tmp_path / "few")
    code, printed, _ = tailback("sweep", grid_file(tmp_path), *few, "--json")
    assert (code, printed["runs"], printed["points"]) == (0, 2, 1)
    scenarios = [tb.Scenario.parse_toml(text) for text in tb.open_store(tmp_path / "few").frame()["scenario"]]
    assert {str(scenario.dumbbell.rate) for scenario in scenarios} == {"3mbit"}
    code, printed, _ = tailback("results", "ls", "--store", store, "--json", "--limit", "3")
    assert (printed["runs"], len(printed["shown"])) == (4, 3)
    key = printed["shown"][0]["key"]
    sql = 'SELECT "flow.bulk.cc" AS cc, count(*) AS n FROM runs GROUP BY 1 ORDER BY 1'
    assert tailback("results", "query", sql, "--store", store, "--json")[1]["rows"] == [
        {"cc": "cubic", "n": 2},
        {"cc": "reno", "n": 2},
    ]
    assert tailback("results", "query", sql, "--store", store, "--csv")[1] == "cc,n\ncubic,2\nreno,2\n"
    assert tailback("results", "show", key[:9], "--store", store, "--json")[1]["key"] == key
    scenario = tailback("results", "show", key, "--store", store, "--scenario")[1]
    assert tb.Scenario.parse_toml(scenario).duration.seconds == 2.0
    assert tailback("results", "gc", "--store", store, "--json")[1]["rows"] == 0
    code, _, err = tailback("results", "query", "SELECT x FROM runs", "--store", store)
    assert (code, "cannot be answered" in err) == (2, True)
    assert tailback("results", "ls", "--store", tmp_path / "none")[0] == 1


def test_a_piped_table_has_a_line_a_row(tmp_path: Path, tailback: Any) -> None:
    store = tb.open_store(tb.sweep(BASE, {"flow.bulk.cc": ["reno", "cubic"]}, store=tmp_path / "s").store.folder)
    measured = [name for name in store.frame().columns if name.startswith(("bulk.", "call."))]
    columns = ", ".join(f'"{name}"' for name in ["flow.bulk.cc", *measured])
    _, out, _ = tailback("results", "query", "--intervals", f"SELECT {columns} FROM runs", "--store", store.folder)
    head, *rows = out.splitlines()
    assert len(rows) == 2
    assert len(head) > 400
    assert {f"{name} low" for name in measured} <= {" ".join(words.split()) for words in head.split("  ")}


def test_the_exit_code_says_if_points_failed(tmp_path: Path, tailback: Any) -> None:
    file = grid_file(tmp_path, values='["reno", "renault"]')
    code, _, err = tailback("sweep", file, "--store", tmp_path / "s")
    assert (code, "renault" in err) == (2, True)
    file.write_text(f'{grid_file(tmp_path).read_text()}[metrics.x]\nmetric = "delay_quantiles"\nflow = "absent"\n')
    code, printed, _ = tailback("sweep", file, "--store", tmp_path / "s", "--json")
    assert (code, printed["runs"], printed["failed"]) == (1, 0, 4)
    assert "absent" in printed["errors"][0]["error"]
    code, out, err = tailback("sweep", file, "--store", tmp_path / "s")
    assert (code, out) == (1, "")
    assert "0 found in the store, 4 failed" in err
    assert f"tailback results gc --failed --store {tmp_path / 's'}" in " ".join(err.split())
    assert f"results query --store {tmp_path / 's'} 'SELECT" in " ".join(err.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = 4", "base: is no scenario"),
        ('base = "base.toml"', "nothing varies"),
        ('base = "base.toml"\n[grid]\n', "grid: varies nothing"),
        ('base = "base.toml"\n[grid]\n"flow.bulk.cc" = []\n', "list of values is empty"),
        ('base = "base.toml"\nseds = 4\n', 'Did you mean "seeds"'),
        (
            'base = "base.toml"\n[sobol]\npoints = 4\n[sobol.axes]\n"dumbbell.rate" = { from = "1mbit" }',
            "neither a range",
        ),
        ('base = "base.toml"\n[until]\nmetric = "loss"\n', "until.width: is missing"),
        ('base = "none.toml"\nseeds = 3', "cannot be read"),
        ("base = ", "is not TOML"),
    ],
)
def test_a_bad_file_is_bad_input(tmp_path: Path, tailback: Any, text: str, message: str) -> None:
    file = grid_file(tmp_path)
    file.write_text(text)
    code, _, err = tailback("sweep", file, "--store", tmp_path / "s")
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("file", sorted((ROOT / "scenarios" / "grids").glob("*.toml")), ids=lambda path: path.stem)
def test_the_ready_sweeps_can_be_run(file: Path) -> None:
    wanted = read_sweep(file)
    assert len(wanted) > 1
    points = list(wanted.design)
    for point in points[:: max(1, len(points) // 200)]:
        wanted.base.with_(point).resolve()


def test_every_section_of_a_file_multiplies(tmp_path: Path) -> None:
    file = grid_file(tmp_path)
    file.write_text(
        """
        base = "base.toml"
        seeds = [3, 5]
        keep = "tables"
        [grid]
        "flow.bulk.cc" = ["reno", "cubic"]
        [[zip]]
        "dumbbell.rate" = ["1mbit", "2mbit"]
        "dumbbell.rtt" = ["10ms", "20ms"]
        [[table]]
        columns = ["dumbbell.back_rate"]
        rows = [["1mbit"], ["2mbit"], ["3mbit"]]
        [[table]]
        columns = ["flow.bulk.start", "duration"]
        rows = [["1s", "20s"], ["2s", "30s"]]
        [latin-hypercube]
        points = 5
        seed = 9
        [latin-hypercube.axes]
        "dumbbell.queue" = { from = "5packets", to = "50packets", scale = "log" }
        [metrics.loss_of_call]
        metric = "flow_loss_rate"
        flow = "call"
        """
    )
    wanted = read_sweep(file)
    assert (len(wanted.design), wanted.seeds, wanted.keep_tables, len(wanted)) == (120, (3, 5), True, 240)
    assert wanted.name == "grid"
    assert "loss_of_call" in wanted.kept.calls
    assert len(single()) == 1


def test_ctrl_c_keeps_what_is_finished_and_the_next_sweep_goes_on(tmp_path: Path) -> None:
    file, store = grid_file(tmp_path, seeds=2000), tmp_path / "store"
    command = [Path(sys.executable).with_name("tailback"), "sweep", file, "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as child:
        deadline = time.monotonic() + 60
        while not any(path.read_bytes().count(b"\n") > 2 for path in (store / "journal").glob("*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, "")
    assert "are kept" in err
    assert "Traceback" not in err
    kept = tb.open_store(store).frame()
    assert 2 < len(kept) < 4000
    assert list((store / "journal").iterdir()) == []
    known = {row["key"] for row in tb.open_store(store).follow(["key"]).look()}
    assert known == set(kept["key"])


def test_a_notebook_shows_a_scenario_and_a_sweep(tmp_path: Path) -> None:
    base = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno")], duration="1s")
    assert "[dumbbell]" in base._repr_html_() or "[[link]]" in base._repr_html_()
    done = tb.sweep(base, {"dumbbell.rate": ["1mbit", "2mbit"]}, store=tmp_path)
    assert repr(done) == "<tailback.SweepResult: points 2, run 2, reused 0, failed 0>"
    assert "<table" in done._repr_html_()
    assert "1mbit" in done._repr_html_()
