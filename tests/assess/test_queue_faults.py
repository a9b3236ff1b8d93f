"""Planted broken AQMs: every row of a queue's dossier has a control, and each fault is red in its own row."""

from __future__ import annotations

from typing import Any

import pytest

import tailback as tb
from tailback.assess.kept import Kept
from tailback.assess.procedure import Control
from tailback.assess.procedures import procedure
from tailback.assess.queues import faults
from tailback.assess.queues.table import CONTROLS, FAULTS
from tailback.assess.verdicts import judge_controls

QUEUE = procedure("queue")
SOUND = "python:tailback.assess.queues.faults:Sound"
#: Rows in which CoDel itself is known to fail: RFC 8289's law needs seconds to reach a drop in five.
CODEL_FAILS = {"crowd", "rate-drops", "unresponsive", "l4s", "flows-apart", "hosts-apart"}

#: What was run already, by cell, queue and seed: the baselines are the same beside each fault.
RUN: dict[tuple[str, str, int], Any] = {}


def checked(control: Control) -> str:
    """The verdict on a control beside the baselines: by three seeds, or by six where these leave it open."""
    verdict = by_seeds(control, range(1, 4))
    return by_seeds(control, range(1, 7)) if verdict == "undecided" else verdict


def by_seeds(control: Control, seeds: range) -> str:
    of = {each.label: each for each in (QUEUE.candidate(cc, allow_code=True) for cc in (control.cc, *QUEUE.baselines))}
    wanted = [(cell, label, seed) for cell in control.cells for label in of for seed in seeds]
    new = [each for each in wanted if each not in RUN]
    scenarios = [QUEUE.cells[cell].scenario(of[label]).with_({}, seed=seed) for cell, label, seed in new]
    RUN.update(zip(new, tb.run_many(scenarios, then=Kept(procedure="queue"), allow_code=True), strict=True))
    runs: dict[tuple[str, str], dict[int, Any]] = {}
    for cell, label, seed in wanted:
        runs.setdefault((cell, label), {})[seed] = RUN[cell, label, seed]
    return judge_controls(runs, [control], QUEUE, of)[0].verdict


def test_every_row_has_a_control_that_must_fail() -> None:
    assert {each.name for each in QUEUE.experiments} == {each.experiment for each in CONTROLS if each.fails}
    assert {name for name, *_ in FAULTS} | {"Sound"} == set(faults.__all__)
    for control in CONTROLS:
        cells = {each.name: each for row in QUEUE.experiments if row.name == control.experiment for each in row.cells}
        assert set(control.cells) <= set(cells), control
        assert all(control.statistic in cells[name].statistics for name in control.cells), control


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]}-{fault[1]}")
def test_a_planted_fault_is_red_in_its_own_row_and_a_sound_queue_is_not(fault: tuple[str, ...]) -> None:
    name, row, cell, statistic, why = fault
    control = Control(f"python:tailback.assess.queues.faults:{name}", row, (cell,), statistic, True, why)
    assert checked(control) == "failed"
    if row not in CODEL_FAILS:
        sound = Control(SOUND, row, (cell,), statistic, False, "it has no fault")
        assert checked(sound) != "failed"


@pytest.mark.parametrize(
    "control", [each for each in CONTROLS if each.quick], ids=lambda each: f"{each.cc}-{each.experiment}"
)
def test_a_queue_of_known_character_comes_out_as_known(control: Control) -> None:
    assert checked(control) == ("failed" if control.fails else "passed")
