"""The study of the household: its rules, and a page and table that fresh runs repeat."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path

import pytest

import tailback as tb
from tailback.experiment import read_sweep
from tailback.experiment.run_metrics import measured
from tailback.judge import Interval

ROOT = Path(__file__).parents[1]
MADE = runpy.run_path(str(ROOT / "scripts/household"))
PEOPLE = MADE["PEOPLE"]


def interval(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 6, 0.95)


def test_only_a_whole_interval_beyond_the_step_harms_or_relieves() -> None:
    call, game = PEOPLE[0], MADE["GAME"]
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
    few = read_sweep(ROOT / "scenarios/grids/household.toml").with_values(
        {"dumbbell.rate": "50mbit", "dumbbell.queue": "sfq", "flow.upload.cc": "cubic", "duration": "1s"}
    )
    assert [point["dumbbell.back_queue"] for point in few.design] == ["sfq"]
    tb.sweep(few, store=tmp_path)
    before = MADE["PAGE"].read_bytes()
    with pytest.raises(SystemExit, match="nothing written"):
        MADE["main"]([str(tmp_path)])
    assert MADE["PAGE"].read_bytes() == before


def test_the_film_fills_the_queue_that_the_call_comes_down() -> None:
    base = read_sweep(ROOT / "scenarios/grids/household.toml").base.with_({"flow.upload.cc": "vegas"})
    alone = base.with_({"flow.film": None, "instruments.requests": ["page"]})
    with_film, without = (measured(tb.run(each))("call.delay_p95_ms") for each in (base, alone))
    assert without < 11 < 100 < with_film


def test_the_table_has_every_cell_of_the_sweep() -> None:
    sweep = read_sweep(ROOT / "scenarios/grids/household.toml")
    assert sweep.seeds == (*MADE["CHOOSING"], *MADE["JUDGING"])
    wanted = {tuple(str(point[key]) for key in MADE["KEYS"]) for point in sweep.design}
    with MADE["TABLE"].open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["line", "queue", "control", *(person.column for person in PEOPLE)]
    assert {tuple(row[:3]) for row in rows[1:]} == wanted
    assert len(wanted) == 2 * 8 * 19


@pytest.mark.parametrize("cell", [("50mbit", "200ms", "cubic"), ("16mbit", "fq_codel", "bbr3")])
def test_fresh_runs_give_the_tables_numbers(cell: tuple[str, str, str]) -> None:
    sweep = read_sweep(ROOT / "scenarios/grids/household.toml")
    number, point = next(
        (number, point)
        for number, point in enumerate(sweep.design)
        if tuple(str(point[key]) for key in MADE["KEYS"]) == cell
    )
    runs = [measured(tb.run(sweep.scenario(number, point, seed))) for seed in MADE["JUDGING"]]
    with MADE["TABLE"].open(encoding="utf-8") as file:
        kept = {tuple(row[:3]): row[3:] for row in csv.reader(file)}[cell]
    for person, text in zip(PEOPLE, kept, strict=True):
        mean = sum(run(person.column) for run in runs) / len(runs)
        assert mean == pytest.approx(float(text), rel=1e-5, abs=1e-9), person.name
