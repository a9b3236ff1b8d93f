"""Queue models against the kernel's queues: the cells, what counts as an error, and that kept runs are used."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import tailback as tb
from tailback import engines, vm
from tailback.vm import kernels
from tailback_validation import queues


def test_every_cell_is_a_scenario_and_its_runs_differ_by_the_queue_alone() -> None:
    cells = queues.cells()
    assert len({cell.name for cell in cells}) == len(cells) == 32
    for cell in cells:
        model, kernel = (cell.scenario(run).resolve(live=True) for run in ("model", "kernel"))
        assert kernel["links"][0]["queue"]["discipline"] == f"kernel:{cell.discipline}"
        assert kernel["links"][0]["queue"]["params"] == model["links"][0]["queue"]["params"]
        assert kernel["flows"] == model["flows"]


KERNEL = {"release": "9.9.9", "build": "#1"}


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is here."""
    monkeypatch.setattr(kernels, "find", lambda name: SimpleNamespace(name=name, is_that_of=KERNEL.__eq__))


def _kept(folder: Path, cell: queues.QueueCell, run: str, **measures: float) -> None:
    file = queues._file(folder, cell, run, "k")
    file.parent.mkdir(exist_ok=True)
    full = {"goodput": 4.0, "transfer_p50": 0.010, "transfer_p95": 0.02, "call_p50": 0.001, "call_p95": 0.002}
    full |= {"dropped": 1.0, "marked": 0.0} | measures
    file.write_text(json.dumps({"cell": dataclasses.asdict(cell), "measures": full, "notes": [], "kernel": KERNEL}))


def test_errors_are_against_the_kernels_queue(tmp_path: Path) -> None:
    first, second = queues.cells()[:2]
    for cell in (first, second):
        _kept(tmp_path, cell, "kernel")
    _kept(tmp_path, first, "sim", goodput=4.3)
    _kept(tmp_path, first, "model", transfer_p50=0.0109)
    _kept(tmp_path, second, "sim")
    (row,) = queues.compared(tmp_path, "k", [first, second])
    assert row["errors"]["sim"]["goodput"] == pytest.approx(0.075)
    assert row["errors"]["model"]["delay"] == pytest.approx(0.09)
    assert [row["errors"][run]["within"] for run in ("sim", "model")] == [False, True]
    queues.write([row], "k", tmp_path / "page.md")
    assert "sim 0 of 1, model 1 of 1" in (tmp_path / "page.md").read_text()


def test_runs_of_another_kernel_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = queues.cells()[:1]
    for run in queues.RUNS:
        _kept(tmp_path, cell, run)
    assert len(queues.compared(tmp_path, "k", [cell])) == 1
    asked: list[str] = []

    def hang(scenario: tb.Scenario, *, kernel: str, **options: object) -> None:
        asked.append(kernel)
        raise vm.LostRun("the guest hangs")

    monkeypatch.setattr(vm, "run", hang)
    queues.run_cells([cell], "k", tmp_path)
    assert asked == []
    monkeypatch.setitem(KERNEL, "build", "#2")
    (tmp_path / "k-model" / f"{cell.name}.json").write_text(
        json.dumps({"cell": dataclasses.asdict(cell), "kernel": {"release": "9.9.9", "build": "#1"}})
    )
    assert queues.compared(tmp_path, "k", [cell]) == []
    reported: list[str] = []
    queues.run_cells([cell], "k", tmp_path, announce=reported.append)
    assert asked == ["k", "k"] * engines.Vm.TRIES
    assert "tries again: the guest hangs" in reported[0]
