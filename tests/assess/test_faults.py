"""Planted faults: every row has a control, and a fault is red in its row and green in the row of another."""

from __future__ import annotations

from typing import Any

import pytest

import tailback as tb
from tailback.assess import faults
from tailback.assess.kept import Kept
from tailback.assess.measure import HARMS
from tailback.assess.table import CONTROLS, EXPERIMENTS, FAULTS, by_name
from tailback.assess.verdicts import judge_controls

#: Timers are the stack's: the row is for transports, which bring their own.
WITHOUT = {"rto-backoff"}


def test_every_row_has_a_control_that_must_fail() -> None:
    rows = {each.name for each in EXPERIMENTS if each.cells}
    assert rows - {each.experiment for each in CONTROLS if each.fails} == WITHOUT
    assert {name for name, *_ in FAULTS} == set(faults.__all__)
    for control in CONTROLS:
        of = next(each for each in EXPERIMENTS if each.name == control.experiment)
        cells = {cell.name: cell for cell in of.cells}
        assert set(control.cells) <= set(cells), control
        assert all(control.statistic in cells[name].statistics for name in control.cells), control


@pytest.mark.parametrize(
    "row",
    [
        "short-flows",
        "congestion-collapse",
        "persistent-loss",
        "real-time-quality",
        "acks",
        "low-rates",
        "data-centre-marks",
    ],
)
def test_a_planted_fault_is_red_in_its_row(row: str) -> None:
    control = next(each for each in CONTROLS if each.experiment == row and not each.quick)
    wanted: list[tuple[str, str, int, Any]] = []
    for cell in filter(None, (control.cells[0], by_name()[control.cells[0]].plain)):
        for label, cc in ((control.label, control.cc), ("cubic", "cubic"), ("reno", "reno")):
            wanted += [(cell, label, seed, cc) for seed in (1, 2, 3)]
    assert control.statistic not in HARMS
    scenarios = [by_name()[cell].scenario(cc).with_({}, seed=seed) for cell, _, seed, cc in wanted]
    runs: dict[tuple[str, str], dict[int, Any]] = {}
    for (cell, label, seed, _), kept in zip(wanted, tb.run_many(scenarios, then=Kept(), allow_code=True), strict=True):
        runs.setdefault((cell, label), {})[seed] = kept
    assert [each.verdict for each in judge_controls(runs, [control])] == ["failed"]
