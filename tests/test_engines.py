"""Engines are objects that say what they can do; a result says which one filled it; no other code compares names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tailback as tb
from tailback import engines, live, vm
from tailback.result.provenance import Provenance

ROOT = Path(__file__).parents[1]
NAMES = {*engines.NAMES, "capture"}
#: Where names are turned into objects.
HOME = {"engines.py", "provenance.py"}
SCENARIO = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("reno", name="a")], duration="1s")


def compared(path: Path, names: set[str]) -> list[str]:
    """Comparisons with the name of an engine in a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            parts = list(node.args)
        parts += [each for part in parts if isinstance(part, ast.Tuple | ast.List | ast.Set) for each in part.elts]
        words = {str(part.value).partition(" ")[0] for part in parts if isinstance(part, ast.Constant)}
        if words & names:
            found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    return found


def test_no_code_outside_compares_the_names_of_engines() -> None:
    found = [
        text
        for path in (ROOT / "python" / "tailback").rglob("*.py")
        if path.name not in HOME
        for text in compared(path, NAMES)
    ]
    # In papers and validation "capture" is also a kind of run.
    for folder in ("papers/tailback_papers", "validation/tailback_validation"):
        found += [text for path in (ROOT / folder).rglob("*.py") for text in compared(path, set(engines.NAMES))]
    assert not found, "\n".join(found)


def test_a_comparison_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_engines.ROOT", tmp_path)
    file = tmp_path / "x.py"
    file.write_text('a = engine == "vm"\nb = engine in ("sim", "live")\nc = engine.startswith("vm ")\nd = x == "y"\n')
    assert [text.partition(": ")[0] for text in compared(file, NAMES)] == ["x.py:1", "x.py:2", "x.py:3"]


def test_engines_by_name() -> None:
    assert [type(each) for each in engines.named("live, sim")] == [engines.Live, engines.Sim]
    (guest,) = engines.named("vm", "/somewhere/bzImage")
    assert guest.words == ["--engine vm", "--kernel bzImage"]
    with pytest.raises(engines.UnknownEngine, match=r'there is no engine "sin"\. Did you mean "sim"'):
        engines.named("sin")
    with pytest.raises(engines.UnknownEngine, match="an engine is named twice"):
        engines.named("sim,sim")
    assert [each.name for each in engines.every()] == list(engines.NAMES)


def test_a_result_says_what_filled_it_and_that_repeats_it() -> None:
    first = tb.run(SCENARIO)
    assert (first.provenance.engine, first.provenance.version) == ("sim", tb.__version__)
    engine = engines.made(first)
    assert isinstance(engine, engines.Sim)
    assert first.differing(engine.repeat(first)) == []
    first.meta["engine"] = "capture"
    assert (engines.made(first), first.provenance.is_captured) == (None, True)
    assert Provenance.of({}).way == "simulated"


def test_what_cannot_give_the_same_rows_does_not_repeat() -> None:
    result = tb.run(SCENARIO)
    for engine in engines.every():
        if not engine.can.repeat:
            with pytest.raises(tb.TailbackError, match="Run its scenario again"):
                engine.repeat(result)


def test_each_engine_checks_and_runs_with_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(live, "check", lambda scenario: said.append("live"))
    monkeypatch.setattr(live, "run", lambda scenario, **options: tb.run(scenario))
    monkeypatch.setattr(vm, "check", lambda scenario, **options: said.append(options["kernel"]))
    monkeypatch.setattr(vm, "run", lambda scenario, **options: said.append(options["kernel"]) or tb.run(scenario))
    for engine in engines.named("sim,live,vm", "mine"):
        engine.check(SCENARIO)
        assert engine.run(SCENARIO).flow_names == ["a"]
    assert said == ["live", "mine", "mine"]


def test_a_kernels_engine_takes_a_scenario_its_resolved_form_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "one.toml"
    file.write_text(SCENARIO.to_toml())
    monkeypatch.setattr(engines.Vm, "run", lambda self, what, **how: tb.run(what))
    found = dict(engines.Vm().outcomes([SCENARIO, SCENARIO.resolve(), file]))
    first = found[0]
    assert isinstance(first, tb.Result)
    for number in (1, 2):
        other = found[number]
        assert isinstance(other, tb.Result)
        assert first.differing(other) == []
