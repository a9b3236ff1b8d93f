"""The sampled comparison: its design, errors, the paired null, and rows that are kept one by one."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import tailback as tb
from tailback import vm
from tailback.vm import kernels
from tailback_validation import beside, kernel_rows, null, sampled, sampled_page


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


def test_one_algorithm_has_the_paths_of_the_design_a_folder_and_a_page_of_its_own(tmp_path: Path) -> None:
    cells = sampled.design(2, "bbr3")
    assert [replace(cell, algorithm=plain.algorithm) for cell, plain in zip(cells, sampled.design(2), strict=True)] == (
        sampled.design(2)
    )
    assert {cell.scenario().flows[0].cc.name for cell in cells} == {"bbr3"}
    for cell in cells:
        _keep(tmp_path / "bbr3", cell, **sampled.measure(tb.run(cell.scenario(sampled.stack_of("k")))))
    out = tmp_path / "page.md"
    (pair,) = sampled_page.study(["k"], 2, tmp_path, out, algorithm="bbr3", seconds=0).values()
    assert (pair["cells"], pair["within_both"]) == (2, 1.0)
    assert out.read_text().startswith("# `bbr3` beside its own code")
    assert sampled_page.study(["k"], 2, tmp_path, out, seconds=0)["The simulator against k"]["cells"] == 0


def test_two_algorithms_are_compared_path_by_path_each_on_its_kernel(tmp_path: Path) -> None:
    designs = [sampled.design(4, algorithm) for algorithm in ("bbr", "bbr3")]
    for number, (first, second) in enumerate(zip(*designs, strict=True)):
        # What bbr3's kernel has: 10 % more goodput, 2 ms less delay, a third of the repeats.
        one = {"goodput": 10.0, "delay": 0.010, "retransmitted": 29.0 + 30 * number}
        _keep(tmp_path / "bbr", first, **one)
        if number != 3:
            two = {"goodput": 11.0, "delay": 0.008, "retransmitted": (one["retransmitted"] + 1) / 3 - 1}
            _keep(tmp_path / "bbr3", second, **two)
    out = tmp_path / "page.md"
    found = beside.study(("bbr", "bbr3"), ("k", "k"), 4, tmp_path, out, seconds=0)
    assert found["cells"] == 3
    page = out.read_text()
    assert "**On 3 sampled paths `bbr3` has +10.0 % (+10.0 to +10.0) goodput and -2.00 (-2.00 to -2.00) ms" in page
    assert "It repeats 0.33 (0.33 to 0.33) times the segments that `bbr` repeats." in page
    slow = next(row for row in found["expected"] if "lose 30 %" in row["says"])
    assert slow["kernels"]
    assert beside.study(("bbr", "cubic"), ("k", "k"), 4, tmp_path, out, seconds=0) == {"cells": 0, "expected": []}


@pytest.mark.parametrize("pair", beside.EXPECTED)
def test_each_expectation_of_two_algorithms_can_fail(pair: tuple[str, str]) -> None:
    def pairs(goodput: float, delay: float, repeats: float) -> list[beside.Pair]:
        one = {"goodput": 10.0, "delay": 0.010, "retransmitted": 99.0}
        two = {"goodput": 10 * goodput, "delay": 0.010 + delay, "retransmitted": 100 * repeats - 1}
        return [beside.Pair(cell, one, two) for cell in sampled.design(8)]

    for expectation in beside.EXPECTED[pair]:
        assert expectation.holds(pairs(1.0, 0.0, 0.5)), expectation.says
        assert not expectation.holds(pairs(0.6, 0.002, 1.5)), expectation.says


def test_dctcp_has_marks_in_each_cell_and_linux_7_its_own_profile() -> None:
    cells = sampled.design(64, "dctcp")
    assert len(cells) == 64
    assert {cell.queue.partition("+")[2] for cell in cells} == {"ecn"}
    (sender,) = cells[0].scenario().resolve(live=True)["flows"]
    assert sender["tcp"]["stack_params"] == {"ecn": True, "accurate_echo": True}
    stacks = [sampled.stack_of(kernel) for kernel in ("debian-6.1*4", "debian-7.3")]
    assert [stack["name"] for stack in stacks] == ["linux", "linux-7"]
    # The simulator's stack is no reason for other draws.
    assert sampled.drawn(cells[0], 1, stacks[1]).seed == sampled.drawn(cells[0], 1).seed


def test_an_unknown_algorithm_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(tb.ScenarioError, match=r'"bbr4".*"bbr"'):
        sampled_page.study(["k"], 2, tmp_path, tmp_path / "page.md", algorithm="bbr4")
    assert list(tmp_path.iterdir()) == []


KERNEL = {"release": "9.9.9", "build": "#1", "digest": "d"}


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is here."""
    here = SimpleNamespace(about=KERNEL, is_that_of=lambda kept: kept["build"] == KERNEL["build"])
    monkeypatch.setattr(kernels, "find", lambda name: SimpleNamespace(name=name, **vars(here)))
    monkeypatch.setattr(kernel_rows, "guest_digest", lambda: "g")


def _keep(folder: Path, cell: sampled.Cell, draw: int = 0, refused: str = "", **measures: float) -> None:
    found = {"kernel": KERNEL, "measures": measures} | ({"refused": refused} if refused else {})
    sampled.rows_of(folder, "k").put(kernel_rows._row(cell.number, draw, sampled.drawn(cell, draw), found))


def test_errors_are_relative_and_a_small_delay_has_a_floor(tmp_path: Path) -> None:
    cells = sampled.design(3)
    _keep(tmp_path, cells[0], goodput=10.0, delay=0.010, retransmitted=1e9)
    _keep(tmp_path, cells[1], goodput=10.0, delay=0.0001, retransmitted=1e9)
    ours = (
        {"goodput": 10.4, "delay": 0.0105, "retransmitted": 0.0},
        {"goodput": 10.0, "delay": 0.0003, "retransmitted": 0.0},
    )
    own = {number: [each, each] for number, each in enumerate(ours)}
    found, refused = sampled.errors(tmp_path, "k", cells, own)
    assert refused == []
    assert [error.cell.number for error in found] == [0, 1]
    assert (found[0].goodput, found[0].delay) == pytest.approx((0.04, 0.05))
    assert found[1].delay == pytest.approx(0.2)
    assert [error.is_within for error in found] == [True, False]
    pair = sampled_page.compared(found)
    assert (pair["within_both"], pair["by_chance"], pair["beyond_chance"], pair["beyond"]) == (0.5, 0.0, 0.5, [1])
    assert [row["cell"] for row in pair["worst"]] == [1, 0]
    # The kernel has retransmitted more than any of the simulator's runs.
    (both,) = [row for row in pair["places"] if row["algorithm"] == "all"]
    assert (both["cells"], both["retransmitted"]) == (2, 1.0)


def test_what_a_guest_could_not_carry_is_named_and_not_counted(tmp_path: Path) -> None:
    (cell,) = sampled.design(1)
    _keep(tmp_path, cell, refused="overloaded")
    assert sampled.errors(tmp_path, "k", [cell], {}) == ([], ["0: overloaded"])


def test_an_error_within_the_simulators_own_spread_is_chance() -> None:
    # One random loss in a hundred: each run is another.
    cell = sampled.design()[37]
    plain, *others = sampled.simulated([cell])[37]
    assert len(others) == sampled.DRAWS
    goodputs = sorted(draw["goodput"] for draw in others)
    assert len(set(goodputs)) > 10
    for goodput, is_chance in ((goodputs[0], True), (0.5 * min(goodputs[0], plain["goodput"]), False)):
        error = sampled.error_of(cell, plain | {"goodput": goodput}, [plain, *others])
        assert not error.is_within
        assert error.is_chance == is_chance


def test_the_null_is_the_simulator_against_itself_and_grows_with_noise() -> None:
    cells = [cell for cell in sampled.design() if cell.rate_mbps < 10 and cell.traffic == "one"][:24]
    own = sampled.simulated(cells)
    disturbed = null.nulls(cells, own)
    assert list(disturbed) == [noise.name for noise in null.NOISES]
    within = {noise.jitter_us: sum(error.is_within for error in disturbed[noise.name]) for noise in null.NOISES}
    assert within[1] > within[2000]
    pair = sampled_page.compared(disturbed[null.NOISES[0].name], disturbed=disturbed)
    assert pair["within_both"] == pair["nulls"][null.NOISES[0].name]["within_both"]
    assert "at most 1 µs" in "\n".join(sampled_page._headline(pair))


@pytest.mark.parametrize(
    ("within", "noise"),
    [
        (0.93, "at most 1 µs"),
        (0.88, "between 20 and 100 µs"),
        (0.8, "between 500 and 2000 µs"),
        (0.5, "more than 2000 µs"),
    ],
)
def test_a_distance_is_said_in_host_noise(within: float, noise: str) -> None:
    steps = dict(zip((1, 20, 100, 500, 2000), (0.92, 0.9, 0.87, 0.81, 0.7), strict=True))
    shares = {each.name: steps[each.jitter_us] for each in null.NOISES if each.jitter_us}
    assert null.equivalent(within, shares) == noise


def test_nulls_that_are_not_in_order_give_no_bound_that_one_of_them_contradicts() -> None:
    shares = [334 / 340, 336 / 340, 334 / 340, 320 / 340, 280 / 340]
    steps = dict(zip((1, 20, 100, 500, 2000), shares, strict=True))
    named = {each.name: steps[each.jitter_us] for each in null.NOISES if each.jitter_us}
    assert null.equivalent(334 / 340, named) == "at most 100 µs"


def test_as_many_cells_beyond_are_the_same_share_whatever_the_others_are() -> None:
    def shares(within: int, chance: int) -> dict[str, float]:
        counts = {(True, False): within, (False, True): chance, (False, False): 340 - within - chance}
        return sampled_page._verdicts(
            [SimpleNamespace(is_within=a, is_chance=b) for (a, b), n in counts.items() for _ in range(n)]  # type: ignore[misc]
        )

    assert shares(281, 53)["beyond_chance"] == shares(307, 27)["beyond_chance"] == 6 / 340
    assert shares(303, 37)["beyond_chance"] == 0


def test_a_missed_rule_is_called_missed(tmp_path: Path) -> None:
    cells = sampled.design(4)
    own = sampled.simulated(cells, sampled.stack_of("k"))
    for cell in cells:
        plain = own[cell.number][0]
        _keep(tmp_path, cell, **plain | {"goodput": plain["goodput"] * (1.0 if cell.number else 2.0)})
    titles = sampled_page.study(["k"], 4, tmp_path, tmp_path / "page.md", seconds=-1)
    assert [pair["within_both"] for pair in titles.values()] == [0.75]
    page = (tmp_path / "page.md").read_text()
    assert "The rule of 95 % is **missed**" in page
    assert "- 9.9.9 #1 (d)\n- guests g\n" in page
    assert "Beyond, and not explained yet: 0." in page


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


def test_rows_are_kept_one_by_one_and_a_lost_machine_keeps_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = sampled.design(2)
    asked: list[str] = []
    ends: list[Exception | tb.Result] = [vm.LostRun("the guest hangs"), tb.run(cells[0].scenario())]

    def run(scenario: tb.Scenario, *, kernel: str, dilation: int = 1) -> tb.Result:
        asked.append(kernel)
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        end.meta["kernel"] = dict(KERNEL)
        return end

    monkeypatch.setattr(vm, "run", run)
    heard: list[str] = []
    sampled.run_cells(cells, "/boot/k", tmp_path, seconds=-1)
    for _ in range(3):
        sampled.run_cells(cells[:1], "/boot/k", tmp_path, report=heard.append)
    assert asked == ["/boot/k", "/boot/k"]
    assert "tries again: the guest hangs" in heard[0]
    # A kernel by its path is kept in the folder too.
    assert [file.name for file in tmp_path.iterdir()] == ["sampled-boot_k.csv"]
    # Another build of the kernel has no row yet; a refusal is one.
    monkeypatch.setitem(KERNEL, "build", "#2")
    ends.append(vm.GuestError("overloaded"))
    for _ in range(2):
        sampled.run_cells(cells[:1], "/boot/k", tmp_path)
    assert len(asked) == 3
    row = sampled.rows_of(tmp_path, "/boot/k").find(0, 0, cells[0].scenario())
    assert row is not None
    assert row.refused == "overloaded"


def test_a_row_run_again_says_whether_it_came_out_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = sampled.design(2)
    results = {cell.scenario().name: tb.run(cell.scenario()) for cell in cells}

    def run(scenario: tb.Scenario, *, kernel: str, dilation: int = 1) -> tb.Result:
        result = results[scenario.name]
        result.meta["kernel"] = dict(KERNEL)
        return result

    monkeypatch.setattr(vm, "run", run)
    _keep(tmp_path, cells[0], **sampled.measure(results[cells[0].scenario().name]))
    _keep(tmp_path, cells[1], goodput=1.0, delay=0.0)
    assert sampled.run_cells(cells, "k", tmp_path, again=True) == ["1.0"]


def test_a_row_of_another_scenario_is_none(tmp_path: Path) -> None:
    first, second = sampled.design(2)
    _keep(tmp_path, first, goodput=1.0, delay=0.0)
    rows = sampled.rows_of(tmp_path, "k")
    assert rows.find(0, 0, first.scenario()) is not None
    assert rows.find(0, 0, second.scenario()) is None


def test_cells_beyond_chance_run_again_with_the_simulators_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = sampled.design(1)
    asked: list[tb.Scenario] = []

    def hang(scenario: tb.Scenario, *, kernel: str, dilation: int = 1) -> tb.Result:
        asked.append(scenario)
        raise vm.LostRun("the guest hangs")

    monkeypatch.setattr(vm, "run", hang)
    plain = {"goodput": 2.0, "delay": 0.0}
    for kernel, runs in ((plain, 0), ({"goodput": 1.0, "delay": 0.0}, 3)):
        asked.clear()
        sampled.run_again([sampled.error_of(cell, kernel, [plain, plain])], "k", tmp_path)
        assert [scenario.seed for scenario in asked] == [sampled.drawn(cell, draw + 1).seed for draw in range(runs)]


def test_the_command_finds_the_package_beside_it_from_anywhere(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [Path(sys.executable).parent / "tailback", "validate", "--engine", "vm", "--kernel", "no-such"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert 'there is no kernel "no-such"' in ended.stderr


def test_what_is_kept_of_a_kernel_that_is_not_here_can_be_written_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> kernels.Kernel:
        raise tb.TailbackError(f"there is no kernel {name}")

    cell = sampled.design(1)[0]
    _keep(tmp_path, cell, goodput=10.0, delay=0.010)
    monkeypatch.setattr(kernels, "find", find)
    sampled.run_cells([cell], "k", tmp_path, seconds=0.0)
    for kernel, seconds in (("k", float("inf")), ("another", 0.0)):
        with pytest.raises(tb.TailbackError, match=f"there is no kernel {kernel}"):
            sampled.run_cells([cell], kernel, tmp_path, seconds=seconds)


def test_a_kernels_name_may_say_how_fast_its_guest_is(tmp_path: Path) -> None:
    assert kernel_rows.speed("debian-6.1") == ("debian-6.1", 1)
    assert kernel_rows.speed("debian-6.1*4") == ("debian-6.1", 4)
    files = {sampled.rows_of(tmp_path, kernel).file.name for kernel in ("debian-6.1", "debian-6.1*4")}
    assert files == {"sampled-debian-6.1.csv", "sampled-debian-6.1_x4.csv"}
    with pytest.raises(tb.TailbackError, match=r"a whole number, as in debian-6.1\*4"):
        kernel_rows.speed("debian-6.1*fast")


def test_the_headline_names_both_columns_of_the_null_and_counts_cells() -> None:
    names = [noise.name for noise in null.NOISES]
    shares = zip((0.91, 0.90, 0.88, 0.80, 0.60, 0.90), (0.0, 0.01, 0.02, 0.05, 0.30, 0.01), strict=True)
    nulls = {
        name: {"within_both": within, "by_chance": 1 - within - beyond, "beyond_chance": beyond}
        for name, (within, beyond) in zip(names, shares, strict=True)
    }
    pair = {"cells": 100, "within_both": 0.85, "by_chance": 0.05, "beyond_chance": 0.10, "nulls": nulls}
    pair |= {"chance_of_first": 3, "beyond": [1, 2], "run_again": 5}
    page = "\n".join(sampled_page._headline(pair))
    assert (
        "with between 100 and 500 µs of noise on every packet. By the cells that are beyond it takes between 500"
        in page
    )
    # 0.10 of 0.15 that part, and 0.75 of those with 2000 µs of noise.
    assert "than in any null" not in page
    assert "5 cells are beyond. The kernel's chance takes 3 of them; left: 1, 2." in page
    assert "4 of them were run again on the kernel" in sampled_page._left(pair | {"run_again": 4})
    nulls[names[4]]["beyond_chance"] = 0.20
    assert "Of the cells that part, more are beyond than in any null." in "\n".join(sampled_page._headline(pair))
