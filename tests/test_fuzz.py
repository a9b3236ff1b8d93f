"""Random scenarios over the whole schema are refused with a place or run soundly; what fails is shrunk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from fuzz import damage, web
from fuzz import main as fuzzing
from fuzz.cases import Case, case
from fuzz.shrink import kind, shrink
from tailback import _core, registry
from tailback.scenario.parts import schema

BATCH = 30


# A third of them in every run of the tests, all at night.
BATCHES = [pytest.param(n * BATCH, marks=[pytest.mark.long] if n % 3 else []) for n in range(14)]


@pytest.mark.parametrize("first", BATCHES)
def test_random_scenarios_are_refused_with_a_place_or_run_soundly(first: int) -> None:
    for seed in range(first, first + BATCH):
        fault = fuzzing.fault_of(case(seed), twice=seed % fuzzing.TWICE == 0)
        assert fault is None, f"seed {seed}: {fault}. Shrink it with: scripts/fuzz --first {seed} --cases 1"


def test_what_is_kept_and_damaged_is_refused_or_read_as_it_was(tmp_path: Path) -> None:
    for seed in range(80):
        fault = damage.problem(seed, tmp_path)
        assert fault is None, f"damage {seed}: {fault}"


def test_a_third_of_the_connections_are_of_other_stacks() -> None:
    flows = [flow for seed in range(300) for flow in Case(seed).scenario()["flow"]]
    connected = [flow for flow in flows if "transport" in flow or "cc" in flow or "stack" in flow]
    assert 0.25 < sum("transport" in flow for flow in connected) / len(connected) < 0.45


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
    assert fields - seen == {"client", "server", "parse"}, "give a new field its line in tests/fuzz/cases.py"
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
    assert "3 cases" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (lambda native: {"hash": native}, None),
        (lambda native: {"hash": f"{native}0"}, "the web build gives"),
        (lambda _: {"refused": ["duration: too long"]}, "the web build alone refuses"),
        (lambda _: {"fault": "unreachable"}, "the web build stopped: unreachable"),
    ],
)
def test_a_web_build_that_differs_is_a_fault(answer: Any, fault: str | None) -> None:
    tables = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk()], duration="1s").to_dict()
    resolved = tb.Scenario.from_dict(tables).resolve()
    native = web.digest(_core.run(json.dumps(resolved), most=web.MOST))

    class Answers(web.Web):
        def __init__(self) -> None: ...

        def run(self, toml: str, most: int = web.MOST) -> dict[str, Any]:
            assert tb.Scenario.parse_toml(toml).resolve() == resolved
            out: dict[str, Any] = answer(native)
            return out

    found = Answers().problem(tables)
    assert found is None if fault is None else found is not None and found.startswith(fault)


def test_a_web_build_that_is_not_there_or_older_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.shutil, "which", lambda _: "/usr/bin/node")
    assert web.missing(tmp_path) == "it is not there. Build it: make explorer"
    (tmp_path / web.MODULE).touch()
    assert web.missing(tmp_path) is None
    os.utime(tmp_path / web.MODULE, (0, 0))
    assert "older than the engine's sources" in str(web.missing(tmp_path))
    monkeypatch.setattr(web.shutil, "which", lambda _: None)
    assert web.missing(tmp_path) == "node is not installed"
