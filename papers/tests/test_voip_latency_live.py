"""The part of a study that runs on a kernel: which cells, and who refuses. The simulator stands in for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pictures
import tailback as tb
from tailback import cli, live, vm
from tailback.experiment import studies
from tailback_papers.voip_latency import grid


def test_live_cells_are_a_linux_of_todays_and_keep_their_names() -> None:
    whole = {cell.key: cell for cell in grid.all_cells(False)}
    cells = grid.kernel_cells(False)
    assert len(cells) == 9
    assert len(grid.kernel_cells(True)) == 3
    for cell in cells:
        flow = cell.scenario.resolve()["flows"][0]
        assert flow["tcp"]["stack"] == "linux"
        old, new = whole[cell.key].scenario.resolve(), cell.scenario.resolve()
        # Only the sender is another: path, call, duration and what is recorded are the cell's it stands for.
        assert old["links"] == new["links"]
        assert old["flows"][1] == new["flows"][1]
        assert old["instruments"] == new["instruments"]
        assert cell.factors == whole[cell.key].factors


def test_a_live_study_judges_what_it_can_and_says_what_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pictures.undrawn(monkeypatch)
    seen = []

    def run(scenario: tb.Scenario, **options: Any) -> tb.Result:
        seen.append(scenario.name)
        result = tb.run(scenario)
        result.meta["fit"] = len(seen) > 1
        return result

    monkeypatch.setattr(live, "check", lambda scenario: None)
    monkeypatch.setattr(live, "run", run)
    finished = studies.get("voip-latency").run(tmp_path, seeds=1, quick=True, engine="live", progress=False)
    assert sorted(seen) == sorted(cell.key for cell in grid.kernel_cells(True))
    assert finished.meta["notes"][0].startswith("Run on a kernel")
    unfit = [note for note in finished.meta["notes"] if note.startswith("Unfit: 1 of 3")]
    assert len(unfit) == 1
    assert seen[0] in unfit[0]
    assert finished.meta["command"].endswith("--engine live")
    verdicts = finished.verdicts()
    assert verdicts["not measured"] > 0
    assert verdicts["reproduced"] > 0
    # What was run live is no answer to the same study simulated.
    seen.clear()
    again = studies.get("voip-latency").run(tmp_path, seeds=1, quick=True, engine="live", progress=False)
    assert not seen
    assert again.cells_reused == 3
    assert unfit[0] in again.meta["notes"]


def test_a_study_without_live_cells_is_refused_with_those_that_have_some() -> None:
    done = CliRunner().invoke(cli.app, ["study", "aqm-pairs", "--engine", "live"])
    assert done.exit_code != 0
    assert "voip-latency" in str(done.exception)
    done = CliRunner().invoke(cli.app, ["study", "voip-latency", "--engine", "ns3"])
    assert "sim, live, vm" in str(done.exception)
    done = CliRunner().invoke(cli.app, ["study", "voip-latency", "--engine", "sim,vm"])
    assert "this runs on one engine" in str(done.exception)


def test_a_study_runs_on_a_kernel_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pictures.undrawn(monkeypatch)
    kernels = []

    def run(scenario: tb.Scenario, *, kernel: str | None, **options: Any) -> tb.Result:
        kernels.append(kernel)
        return tb.run(scenario)

    monkeypatch.setattr(vm, "check", lambda scenario, **options: None)
    monkeypatch.setattr(vm, "identity", lambda scenario, **options: "a kernel")
    monkeypatch.setattr(vm, "run", run)
    study = studies.get("voip-latency")
    finished = study.run(tmp_path, seeds=1, quick=True, engine="vm", kernel="debian-6.1", progress=False)
    assert kernels == ["debian-6.1"] * 3
    assert finished.meta["command"].endswith("--engine vm --kernel debian-6.1")
    # The stored runs are those of the kernel that the command names.
    assert study.judge_again(tmp_path).verdicts() == finished.verdicts()


def test_what_the_kernel_cannot_do_is_refused_before_the_first_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(scenario: tb.Scenario) -> None:
        raise ValueError("no root")

    monkeypatch.setattr(live, "check", refuse)
    with pytest.raises(ValueError, match="no root"):
        studies.get("voip-latency").run(tmp_path / "out", engine="live", progress=False)
    assert not (tmp_path / "out").exists()
