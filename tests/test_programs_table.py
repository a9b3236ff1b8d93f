"""The table of programs in guests: which examples it has, and which of the kept runs it counts."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "programs_table"))


def test_every_example_of_a_program_is_in_the_table(table: dict[str, Any]) -> None:
    scenarios = ROOT / "scenarios"
    files = {path.stem for folder in ("programs", "live") for path in (scenarios / folder).glob("*.toml")}
    assert {example.name for example in table["EXAMPLES"]} == files
    assert len(files) >= 12
    for example in table["EXAMPLES"]:
        assert example.flow in [flow["name"] for flow in example.described().resolve(live=True)["flows"]]


def test_an_error_names_no_place_outside_the_clone(table: dict[str, Any]) -> None:
    assert table["plain"](f"{ROOT}/scenarios/a.toml: no | program\n") == "scenarios/a.toml: no / program"


def test_a_changed_program_begins_again_and_another_byte_is_counted(table: dict[str, Any]) -> None:
    example = next(it for it in table["EXAMPLES"] if it.name == "go")
    run = {
        "program": "go",
        "kernel": "debian-6.1",
        "busy": 0.1,
        "files_mb": 9.0,
        "zero_cpu_s": 3.0,
        "note": "",
        "value": 7,
    }
    figures = {"goodput_mbps": 7.0, "delay_ms": 20.0, "load": 1.0, "fit": True}
    kept = [run | figures | {"of": of, "rows": rows, "loops": loops} for of, rows, loops in
            (("old", "a", 0), ("new", "b", 0), ("new", "b", 6), ("new", "c", 6))]  # fmt: skip
    row = table["written"](example, "debian-6.1", kept)
    assert "| 2 of 3 | 1 of 2 |" in row
    live = run | figures | {"kernel": "live", "of": "live", "goodput_mbps": 7.7}
    assert "goodput +10.0 %, delay +0.0 %; missed" in table["written"](example, "debian-6.1", [*kept, live])
    crowded = live | {"load": 1e9}
    assert "does not count" in table["written"](example, "debian-6.1", [*kept, crowded])


def test_the_page_says_how_many_rows_meet_the_rules_of_repeats_and_of_time_zero(table: dict[str, Any]) -> None:
    def runs(name: str, count: int, zero: float, busy: int = 5) -> list[dict[str, Any]]:
        one = {"program": name, "kernel": "debian-6.1", "of": "new", "rows": "a", "loops": 0, "zero_cpu_s": zero}
        return [one | {"loops": 6 * (number < busy)} for number in range(count)]

    said = table["repeats_and_starts"](
        [*runs("go", 20, 4.0), *runs("node", 20, 4.0, busy=4), *runs("java", 19, 6.0), *runs("chromium", 1, 9.0)]
    )
    assert "; 1 of 24 rows have them" in said
    assert "1 of 4 rows miss it" in said
