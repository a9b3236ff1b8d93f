"""The study of the household: its rules, and a page and table that fresh runs repeat."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback.experiment import read_sweep
from tailback.experiment.run_metrics import measured
from tailback.judge import Interval

ROOT = Path(__file__).parents[1]
MADE = runpy.run_path(str(ROOT / "scripts/household"))
MEASURES = MADE["MEASURES"]
GRID = MADE["GRID"]


def interval(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 6, 0.95)


def test_only_a_whole_interval_beyond_the_step_harms_or_relieves() -> None:
    call, game = MEASURES[0], MADE["GAME"]
    assert MADE["side"](interval(-0.3, -0.11), call) == -1
    assert MADE["side"](interval(-0.3, -0.09), call) == 0
    assert MADE["side"](interval(0.11, 0.3), call) == 1
    # Of late updates more is worse.
    assert MADE["side"](interval(0.02, 0.30), game) == -1
    assert MADE["side"](interval(-0.30, -0.02), game) == 1
    assert MADE["side"](interval(-0.30, 0.30), game) == 0


def test_nothing_is_written_unless_a_whole_store_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        MADE["main"]([])
    assert "required" in capsys.readouterr().err
    few = read_sweep(GRID).with_values(
        {
            "name": "dsl",
            "dumbbell.queue": "sfq",
            "flow.upload.transport": "noq",
            "duration": "6s",
            "flow.film.start": "5s",
        }
    )
    assert [MADE["cell_of"](point) for point in few.design] == [("dsl", "sfq", "noq")]
    tb.sweep(few, store=tmp_path)
    before = MADE["PAGE"].read_bytes()
    with pytest.raises(SystemExit, match="nothing written"):
        MADE["main"]([str(tmp_path)])
    assert MADE["PAGE"].read_bytes() == before


def test_the_film_fills_the_queue_that_the_call_comes_down() -> None:
    base = read_sweep(GRID).base.with_({"flow.upload.cc": "vegas", "flow.upload.start": "5s"})
    alone = base.with_({"flow.film": None, "instruments.requests": ["page"]})
    with_film, without = (measured(tb.run(each))("call.delay_p95_ms") for each in (base, alone))
    assert without < 11 < 100 < with_film


def test_the_table_has_every_cell_of_the_sweep() -> None:
    sweep = read_sweep(GRID)
    assert sweep.seeds == (*MADE["CHOOSING"], *MADE["JUDGING"])
    wanted = {MADE["cell_of"](point) for point in sweep.design}
    with MADE["TABLE"].open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0][:3] == ["access", "queue", "upload"]
    assert [tuple(row[:3]) for row in rows[1:]] == sorted(wanted)
    assert len(wanted) == 8 * 8 * (19 + 3 + 1)
    chosen = {(row[0], row[1]) for row in rows[1:] if row[-1] == "true"}
    assert sorted(access for access, _ in chosen) == sorted(MADE["ACCESSES"])


def test_over_each_access_people_have_what_its_queue_lets_them() -> None:
    sweep = read_sweep(GRID)
    links = {}
    for number, point in enumerate(sweep.design):
        access, queue, upload = MADE["cell_of"](point)
        if (queue, upload) == (MADE["FIFO"], MADE["ALONE"]):
            links[access] = sweep.scenario(number, point, 1).resolve()["links"]
    assert list(links) == list(MADE["ACCESSES"])
    # 200 ms of what goes up, whatever sets the pace there.
    limits = [each["return"]["queue"]["params"]["limit_bytes"] for each in map(_named, links.values())]
    assert limits == [25_000 * mbit for mbit in (50, 10, 1.7, 0.49, 34, 7.5, 30, 10)]


def _named(links: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {link["name"]: link for link in links}


@pytest.mark.parametrize("cell", [("cable", "200ms", "cubic"), ("lte", "fq_codel", "bbr3"), ("dsl", "200ms", "quinn")])
def test_fresh_runs_give_the_tables_numbers(cell: tuple[str, str, str]) -> None:
    sweep = read_sweep(GRID)
    number, point = next((number, point) for number, point in enumerate(sweep.design) if MADE["cell_of"](point) == cell)
    runs = [measured(tb.run(sweep.scenario(number, point, seed))) for seed in MADE["JUDGING"]]
    with MADE["TABLE"].open(encoding="utf-8") as file:
        kept = {tuple(row[:3]): row[3:] for row in csv.reader(file)}[cell]
    for measure, text in zip(MEASURES, kept[: len(MEASURES)], strict=True):
        mean = sum(run(measure.column) for run in runs) / len(runs)
        assert mean == pytest.approx(float(text), rel=1e-5, abs=1e-9), measure.name


def test_a_part_of_the_page_sets_guests_beside_the_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = MADE["IN_GUESTS"][0]
    made = MADE["beside"].__globals__
    monkeypatch.setitem(made, "TRUTH", tmp_path)
    monkeypatch.setitem(made, "IN_GUESTS", (cell,))
    assert "No cell has run" in MADE["beside"]("k")
    rows, scenarios = MADE["_rows"]("k"), MADE["_scenarios"](cell)
    for seed, scenario in scenarios.items():
        measures = MADE["_numbers"](tb.run(scenario)) | {"page.load_time_s": 29.0}
        found = {"kernel": {"release": "9.9.9", "build": "#1", "digest": "d"}, "measures": measures}
        rows.put(made["kernel_rows"]._row("/".join(cell), seed, scenario, found))
    text = MADE["beside"]("k")
    # The same runs but for the page.
    assert f"**missed**, {len(MEASURES) - 1} of {len(MEASURES)}." in text
    assert ", 29**" in text


def test_more_seeds_of_a_cell_are_judged_by_the_difference_of_the_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MADE["closer"].__globals__
    for name, value in {"TRUTH": tmp_path, "MORE": range(5, 8), "MORE_SIMULATED": range(5, 8)}.items():
        monkeypatch.setitem(made, name, value)
    assert MADE["closer"]("k") == ""
    rows, cell, simulated = MADE["_rows"]("k"), MADE["CLOSER"], []
    for seed, scenario in MADE["_scenarios"](cell, range(5, 8)).items():
        simulated.append(MADE["_numbers"](tb.run(scenario))["call.delay_p95_ms"])
        measures = {"call.delay_p95_ms": simulated[-1] + 400.0}
        found = {"kernel": {"release": "9.9.9", "build": "#1", "digest": "d"}, "measures": measures}
        rows.put(made["kernel_rows"]._row("/".join(cell), seed, scenario, found))
    text = " ".join(MADE["closer"]("k").split())
    assert "a step 30 ms: they differ." in text
    assert f"{sum(each < 100 for each in simulated)} of 3 simulated" in text
