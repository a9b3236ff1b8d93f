"""The sampled comparison: its design, what counts as an error, and that it goes on where it ended."""

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import tailback as tb
from tailback import vm
from tailback.experiment.store import engine_fingerprint
from tailback.vm import kernels
from tailback_validation import sampled, sampled_page


def test_the_design_is_the_same_everywhere_and_even() -> None:
    cells = sampled.design()
    assert len(cells) == sampled.CELLS
    assert cells[0] == sampled.design(1)[0]
    assert (cells[0].algorithm, cells[0].rate_mbps, cells[0].rtt_ms) == ("cubic", 2.578, 23.713)
    for field in ("algorithm", "queue", "loss", "traffic"):
        counts = Counter(getattr(cell, field) for cell in cells)
        assert max(counts.values()) - min(counts.values()) <= 2, field
    assert {cell.algorithm for cell in cells} == set(sampled.ALGORITHMS)


def test_every_cell_is_a_scenario() -> None:
    for cell in sampled.design():
        cell.scenario()
    for cell in sampled.design(16):
        cell.scenario().resolve(live=True)


KERNEL = {"release": "9.9.9", "build": "#1"}


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is here."""
    monkeypatch.setattr(
        kernels, "find", lambda name: SimpleNamespace(name=name, about=KERNEL | {"digest": "d"}, is_that_of=_is_here)
    )


def _is_here(kept: dict[str, str] | None) -> bool:
    return kept is not None and kept["build"] == KERNEL["build"]


def _kept(folder: Path, engine: str, cell: sampled.Cell, **measures: float) -> None:
    file = folder / engine / f"{cell.number:04d}.json"
    file.parent.mkdir(exist_ok=True)
    told = {"cell": dataclasses.asdict(cell), "engine": engine, "measures": measures}
    of = {"simulator": engine_fingerprint()} if engine == "sim" else {"kernel": dict(KERNEL)}
    file.write_text(json.dumps(told | of))


def test_errors_are_relative_and_a_queue_that_is_hardly_there_has_a_floor(tmp_path: Path) -> None:
    cells = sampled.design(3)
    _kept(tmp_path, "k", cells[0], goodput=10.0, delay=0.010, retransmitted=1e9)
    _kept(tmp_path, "sim", cells[0], goodput=10.4, delay=0.0105, retransmitted=0.0)
    _kept(tmp_path, "k", cells[1], goodput=10.0, delay=0.0001, retransmitted=1e9)
    _kept(tmp_path, "sim", cells[1], goodput=10.0, delay=0.0003, retransmitted=0.0)
    found, refused = sampled.errors(tmp_path, "k", "sim", cells)
    assert refused == []
    assert [error.cell.number for error in found] == [0, 1]
    assert (found[0].goodput, found[0].delay) == pytest.approx((0.04, 0.05))
    assert found[1].delay == pytest.approx(0.2)
    assert [error.is_within for error in found] == [True, False]
    told = sampled_page.compared(tmp_path, "k", "sim", cells)
    assert told["within_both"] == 0.5
    assert [row["cell"] for row in told["worst"]] == [1, 0]
    assert told["draws"] == sampled.DRAWS
    # The kernel has retransmitted more than any of the simulator's runs.
    (both,) = [row for row in told["places"] if row["algorithm"] == "all"]
    assert (both["cells"], both["retransmitted"]) == (2, 1.0)
    assert 0.0 <= told["draws_by_chance"] <= 1.0 - told["draws_within_both"]
    sampled_page.write([told], ["k"], tmp_path / "page.md")
    assert "50.0 % within both bounds" in (tmp_path / "page.md").read_text()


def test_an_error_within_the_simulators_own_spread_is_chance(tmp_path: Path) -> None:
    # One random loss in a hundred: each run is another.
    cell = sampled.design()[37]
    again = sampled.draws(cell, tmp_path)
    assert len(again) == sampled.DRAWS
    assert again == sampled.draws(cell, tmp_path)
    goodputs = sorted(draw["goodput"] for draw in again)
    assert len(set(goodputs)) > 10
    plain = sampled.measure(tb.run(cell.scenario()))
    for goodput, is_chance in ((goodputs[0], True), (0.5 * min(goodputs[0], plain["goodput"]), False)):
        kernel = plain | {"goodput": goodput}
        error = sampled.Error(
            cell, **sampled.relative(kernel, plain), measures=(kernel, plain), draws=tuple(again), again=()
        )
        assert not error.is_within
        assert error.is_chance == is_chance


def test_a_kernel_that_meets_the_simulator_in_another_run_was_another_draw() -> None:
    cell = sampled.design(1)[0]
    plain, far = {"goodput": 10.0, "delay": 0.0}, {"goodput": 5.0, "delay": 0.0}
    for goodputs, is_chance in (([6.0, 9.5], True), ([6.0, 7.0], False)):
        again = tuple({"goodput": goodput, "delay": 0.0} for goodput in goodputs)
        errors = sampled.relative(far, plain)
        error = sampled.Error(
            cell, **errors, measures=(far, plain), draws=({"goodput": 9.0, "delay": 0.0},), again=again
        )
        assert not error.is_chance
        assert error.is_chance_of_first == is_chance


def test_two_cells_beyond_chance_are_phase() -> None:
    # What the kernel measured, in Mbit/s and ms, and the hosts' jitter with which the simulator's runs hold it.
    for number, goodput, delay, jitter in ((24, 1.0889, 18.82, "20us"), (61, 13.1177, 7.04, "100us")):
        plain = sampled.design()[number].scenario()

        def runs(scenario: tb.Scenario, jitter: str) -> list[dict[str, float]]:
            randomness = {"start_spread": sampled.DRAW_SPREAD, "processing_jitter": jitter}
            seeds = (scenario.seed + sampled.CELLS * draw for draw in range(1, sampled.DRAWS + 1))
            return [sampled.measure(tb.run(scenario.with_(seed=seed, randomness=randomness))) for seed in seeds]

        for given, holds in (("0s", False), (jitter, True)):
            found = runs(plain, given)
            delays, goodputs = ([run[name] for run in found] for name in ("delay", "goodput"))
            assert any(abs(1e3 * value - delay) < 0.05 for value in delays) == holds, (number, given)
            if holds:
                assert min(goodputs) <= goodput <= max(goodputs)


def test_a_run_of_another_simulator_is_run_again(tmp_path: Path) -> None:
    (cell,) = sampled.design(1)
    sampled.run_cells([cell], ["sim"], tmp_path)
    file = tmp_path / "sim" / "0000.json"
    ours = json.loads(file.read_text())
    file.write_text(json.dumps(ours | {"simulator": "another", "measures": {}}))
    _kept(tmp_path, "k", cell, goodput=1.0, delay=0.0)
    assert sampled.errors(tmp_path, "k", "sim", [cell]) == ([], [])
    sampled.run_cells([cell], ["sim"], tmp_path)
    assert json.loads(file.read_text())["measures"] == ours["measures"]


def test_cells_of_another_kernel_are_run_again_and_a_lost_machine_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = sampled.design(1)
    path = "/boot/k"
    asked: list[str] = []
    ends: list[Exception | tb.Result] = [vm.LostRun("the guest hangs"), tb.run(cell.scenario())]

    def run(scenario: tb.Scenario, *, kernel: str) -> tb.Result:
        asked.append(kernel)
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        end.meta["kernel"] = KERNEL | {"digest": "d"}
        return end

    monkeypatch.setattr(vm, "run", run)
    told: list[str] = []
    for _ in range(3):
        sampled.run_cells([cell], [path], tmp_path, told=told.append)
    assert asked == [path, path]
    assert "tries again: the guest hangs" in told[0]
    # A kernel by its path is kept in the folder too.
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.json")] == ["_boot_k/0000.json"]
    monkeypatch.setitem(KERNEL, "build", "#2")
    assert sampled.errors(tmp_path, path, path, [cell]) == ([], [])
    ends.append(vm.GuestError("overloaded"))
    sampled.run_cells([cell], [path], tmp_path)
    sampled.run_cells([cell], [path], tmp_path)
    assert len(asked) == 3
    assert sampled.errors(tmp_path, path, path, [cell]) == ([], ["0: overloaded"])


def test_a_draw_of_before_is_of_the_kernel_of_its_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = sampled.design(1)
    file = sampled._again(tmp_path, "k", cell, 1)
    file.parent.mkdir()
    file.write_text(json.dumps({"cell": dataclasses.asdict(cell), "measures": {"goodput": 1.0, "delay": 0.0}}))
    for engine, goodput in (("k", 1.0), ("sim", 2.0)):
        _kept(tmp_path, engine, cell, goodput=goodput, delay=0.0)

    def again() -> int:
        return len(sampled.errors(tmp_path, "k", "sim", [cell])[0][0].again)

    assert again() == 1
    monkeypatch.setitem(KERNEL, "digest", "d")
    _kept(tmp_path, "k", cell, goodput=1.0, delay=0.0)
    assert again() == 0

    def hang(scenario: tb.Scenario, *, kernel: str) -> None:
        raise vm.LostRun("the guest hangs")

    monkeypatch.setattr(vm, "run", hang)
    told: list[str] = []
    sampled.run_again([cell], "k", tmp_path, told=told.append)
    assert [line.split(":")[0] for line in told] == ["0 on k, draw 1", "0 on k, draw 2", "0 on k, draw 3"]


def test_cells_of_another_design_are_not_mixed_in(tmp_path: Path) -> None:
    cell = sampled.design(1)[0]
    other = dataclasses.replace(cell, rtt_ms=1.0)
    _kept(tmp_path, "k", other, goodput=1.0, delay=0.0)
    _kept(tmp_path, "sim", other, goodput=1.0, delay=0.0)
    with pytest.raises(tb.TailbackError, match="another design"):
        sampled.errors(tmp_path, "k", "sim", [cell])


def test_it_goes_on_where_it_ended(tmp_path: Path) -> None:
    cells = sampled.design(2)
    sampled.run_cells(cells, ["sim"], tmp_path, seconds=-1)
    assert not list(tmp_path.rglob("*.json"))
    sampled.run_cells(cells[:1], ["sim"], tmp_path)
    (first,) = tmp_path.rglob("*.json")
    before = first.stat().st_mtime_ns
    told: list[str] = []
    sampled.run_cells(cells, ["sim"], tmp_path, told=told.append)
    assert len(told) == 1
    assert first.stat().st_mtime_ns == before


def test_the_command_finds_the_package_beside_it_from_anywhere(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [Path(sys.executable).parent / "tailback", "validate", "--engine", "vm", "--kernel", "no-such"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert 'there is no kernel "no-such"' in ended.stderr
