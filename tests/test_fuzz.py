"""Random scenarios over the whole schema are refused with a place or run soundly; what fails is shrunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from fuzz import main as fuzzing
from fuzz.cases import Case, case
from fuzz.shrink import kind, shrink
from tailback import registry
from tailback.scenario.parts import schema

BATCH = 30


@pytest.mark.parametrize("first", range(0, 8 * BATCH, BATCH))
def test_random_scenarios_are_refused_with_a_place_or_run_soundly(first: int) -> None:
    for seed in range(first, first + BATCH):
        fault = fuzzing.fault_of(case(seed), twice=seed % fuzzing.TWICE == 0)
        assert fault is None, f"seed {seed}: {fault}. Shrink it with: scripts/fuzz --first {seed} --cases 1"


def test_half_of_the_scenarios_run() -> None:
    def runs(seed: int) -> bool:
        try:
            tb.Scenario.from_dict(case(seed)).resolve()
        except tb.ScenarioError:
            return False
        return True

    assert sum(runs(seed) for seed in range(60)) >= 30


def test_every_field_and_every_row_of_the_registry_is_tried() -> None:
    seen: set[str] = set()

    def note(value: Any) -> None:
        if isinstance(value, dict):
            seen.update(value)
            note(list(value.values()))
        elif isinstance(value, list):
            for part in value:
                note(part)
        elif isinstance(value, str):
            seen.add(value)

    for seed in range(1500):
        note(Case(seed).scenario())
    parts = ("Scenario", "Dumbbell", "Link", "Flow", "Wire", "Step", "Randomness", "Instruments", "Expect", "Condition")
    fields = {field["key"] for part in parts for field in schema()["parts"][part]["fields"]}
    # Of `exec`, which the simulator refuses.
    assert fields - seen == {"client", "server", "parse"}
    known = registry.load()
    rows = [*known.algorithms, *known.queues, *known.media, *(row for row in known.apps if row.name != "exec")]
    assert {row.name for row in rows} | {stack.name for stack in known.stacks} <= seen
    assert {param.name for row in rows for param in row.params} <= seen
    assert {field.name for stack in known.stacks for field in stack.fields} <= seen


def test_what_fails_is_shrunk_to_what_makes_it_fail() -> None:
    def fault_of(tables: Any) -> str | None:
        flows = [flow for flow in tables.get("flow", ()) if flow.get("cc") == "bbr3" and flow.get("mtu") == "65535B"]
        return f"min > max at {len(str(tables))}" if flows else None

    tables = Case(1).scenario()
    tables["flow"][0] |= {"cc": "bbr3", "mtu": "65535B"}
    assert shrink(tables, fault_of) == {"flow": [{"cc": "bbr3", "mtu": "65535B"}]}
    assert kind("link 8 wants to wake at 1.5e3") == kind("link 16 wants to wake at 7")


def test_what_fails_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(fuzzing, "problem", lambda tables, **_: "boom" if tables.get("duration") else None)
    assert fuzzing.main(["--cases", "3", "--first", "1", "--out", str(tmp_path)]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["seed-1.toml"]
    assert "boom" in (tmp_path / "seed-1.toml").read_text()
    assert "3 scenarios" in capsys.readouterr().out
