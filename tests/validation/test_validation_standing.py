"""The standing comparison: its grid, what parts a cell, and a page of the cells that a kernel has run."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import tailback as tb
from tailback import vm
from tailback.vm import kernels
from tailback_validation import kernel_rows, standing

KERNEL = {"release": "9.9.9", "build": "#1", "digest": "d"}
CELL = standing.Cell("reno", 1.0, 3, "alone")


def test_every_cell_is_a_scenario_of_its_own_name() -> None:
    cells = standing.cells()
    # 0.1 and 0.3 BDP of 3 Mbit/s are one queue.
    assert len({cell.name for cell in cells}) == len(cells) == (15 * 3 + 3) * 8 + 9
    paths = {(cell.sender, cell.rate_mbps, cell.setting, cell.queue_packets) for cell in cells}
    assert len(paths) == len(cells)
    for cell in cells:
        cell.scenario(0).resolve(live=True)


def test_a_second_flow_has_twice_the_round_trip() -> None:
    scenario = standing.Cell("bbr", 1.0, 3, "unequal").scenario(0)
    result = tb.run(scenario.with_(duration="3s"))
    first, second = result.numpy("flows")["rtt_min_s"]
    assert second - first == pytest.approx(standing.RTT_MS * 1e-3, rel=0.05)


def _runs(goodputs: list[float], dropped: float = 0.0) -> list[dict[str, float]]:
    return [{"goodput": goodput, "share": 1.0, "delay": 0.0, "dropped": dropped} for goodput in goodputs]


@pytest.mark.parametrize(
    ("kernel", "simulator", "measures"),
    [
        (_runs([9.0, 9.1, 9.2]), _runs([9.3, 9.4]), ["goodput"]),
        (_runs([9.0, 9.1, 9.35]), _runs([9.3, 9.4]), []),
        # All on one side, but by less than one per cent.
        (_runs([9.0, 9.1, 9.25]), _runs([9.3, 9.4]), []),
        (_runs([9.3], dropped=40.0), _runs([9.3], dropped=20.0), ["dropped"]),
    ],
)
def test_a_cell_parts_if_all_of_one_side_lie_beyond_all_of_the_other(
    kernel: list[dict[str, float]], simulator: list[dict[str, float]], measures: list[str]
) -> None:
    assert [each.measure for each in standing.parted(CELL, kernel, simulator)] == measures


def test_an_exact_kernel_parts_nowhere_and_a_slow_one_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(standing, "DURATION_S", 4)
    monkeypatch.setattr(standing, "STARTS", 5)
    grid = [CELL, standing.Cell("cubic", 0.3, 3, "cubic"), standing.Cell("vegas", 0.3, 3, "alone")]
    monkeypatch.setattr(standing, "cells", lambda: grid)
    monkeypatch.setattr(kernel_rows, "guest_digest", lambda: "g")
    here = SimpleNamespace(name="k", about=KERNEL, is_that_of=lambda kept: True)
    monkeypatch.setattr(kernels, "find", lambda name: here)

    begun: Counter[str] = Counter()

    def run(scenario: tb.Scenario, *, kernel: str, dilation: int = 1) -> tb.Result:
        algorithm = scenario.resolve()["flows"][0]["tcp"]["cc"]
        begun[algorithm] += 1
        if algorithm == "vegas":
            raise vm.GuestError("overloaded")
        slow = algorithm == "cubic"
        result = tb.run(scenario.with_(flows=[tb.bulk("cubic", receive_buffer="3kB")]) if slow else scenario)
        result.meta["kernel"] = dict(KERNEL)
        return result

    monkeypatch.setattr(vm, "run", run)
    assert standing.study("k", tmp_path, tmp_path / "page.md", seconds=-1)["cells"] == 0
    assert not (tmp_path / "page.md").exists()
    found = standing.study("k", tmp_path, tmp_path / "page.md")
    assert (found["cells"], found["refused"]) == (2, ["vegas 0.3 BDP 3 Mbit/s alone"])
    assert {each["cell"] for each in found["parted"]} == {"cubic 0.3 BDP 3 Mbit/s cubic"}
    # A first start inside the simulator's range settles a cell; one that parts needs all of them.
    assert begun == {"reno": 1, "cubic": standing.KERNELS_STARTS, "vegas": 1}
    assert (
        "2 of 3 cells have been run; 1 of them part, 1 also from a simulator whose hosts"
        in (tmp_path / "page.md").read_text()
    )
