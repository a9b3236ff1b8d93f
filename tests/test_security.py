"""A file from a stranger runs no code."""

import json
import os
import sys
from pathlib import Path

import pytest

import command
import tailback as tb
from tailback import compare, live, report
from tailback.consent import asked_for
from tailback.experiment import read_sweep

BASE = """
duration = "1s"
[dumbbell]
rate = "1mbit"
rtt = "40ms"
[[flow]]
name = "bulk"
app = "bulk"
"""
SPY = """
from pathlib import Path
from tailback.examples.newreno import NewReno
ran = Path(__file__).with_name("ran")
ran.touch()
class Spy(NewReno): ...
def call(**given): ran.touch()
"""


@pytest.fixture
def spy(tmp_path, monkeypatch):
    """A module `spy` that leaves a file when it is imported; the file's path."""
    (tmp_path / "spy.py").write_text(SPY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "spy", raising=False)
    yield tmp_path / "ran"
    sys.modules.pop("spy", None)


def scenario(cc: str) -> tb.Scenario:
    return tb.Scenario.parse_toml(BASE + f"cc = {cc}\n", file="stranger.toml")


REFERENCES = ('"python:spy:Spy"', '{ name = "python:spy:call", cmd = "id" }', '"reno"\ncc_turns = ["python:spy:Spy"]')


@pytest.mark.parametrize("cc", REFERENCES)
def test_what_a_file_names_is_not_imported_unless_allowed(cc, spy, tmp_path):
    there = scenario(cc)
    resolved = there.resolve()
    tb.Scenario.from_resolved(resolved).resolve()
    for refused in (
        lambda: tb.run(there),
        lambda: tb.run(resolved),
        lambda: tb.run_many([there]),
        lambda: there.to_json(),
        lambda: live.run(there),
        lambda: tb.sweep(there, {"dumbbell.rate": ["1mbit"]}, store=tmp_path / "store"),
    ):
        with pytest.raises(tb.ScenarioError) as caught:
            refused()
        assert caught.value.problems[0].field.startswith("flow[0].cc")
    assert not spy.exists()


def test_the_error_says_what_would_run_and_how_to_allow_it(spy):
    with pytest.raises(tb.ScenarioError) as caught:
        tb.run(scenario('"python:spy:Spy"'))
    text = str(caught.value)
    assert 'stranger.toml:9:6: flow[0].cc = "python:spy:Spy": the scenario asks to import and run spy:Spy' in text
    assert "--allow-code" in text
    assert "allow_code=True" in text


def test_a_class_runs_once_it_is_allowed_and_a_function_never(spy):
    result = tb.run(scenario('"python:spy:Spy"'), allow_code=True)
    assert spy.exists()
    assert result.column("flows", "bytes_acked")[0] > 0
    with pytest.raises(tb.ScenarioError, match="spy:call is no class"):
        tb.run(scenario(REFERENCES[1]), allow_code=True)


@pytest.mark.parametrize("change", [{"cc": "python:spy:call"}, {"cc_turns": [{"cc": "python:spy:Spy"}]}])
def test_a_tampered_result_runs_nothing(change, spy, tmp_path):
    kept = tb.run(scenario('"reno"'))
    first = kept.resolved["flows"][0]
    tcp = first["tcp"] | {"cc_params": {}} | change
    resolved = kept.resolved | {"flows": [first | {"tcp": tcp}]}
    tables = {name: dict(kept.numpy(name)) for name in kept.tables}
    result = tb.Result(resolved=resolved, toml=scenario('"python:spy:Spy"').to_toml(), tables=tables)
    result.save(tmp_path / "result")
    opened = tb.open_result(tmp_path / "result")
    assert opened.base_rtt_s("bulk") == pytest.approx(0.04)
    assert opened.bottleneck == "bottleneck"
    assert opened.scenario.flows
    print(opened)
    report.write(opened, tmp_path / "report.html")
    compare.compare({"opened": opened, "kept": kept})
    assert not spy.exists()


def tailback(*words, cwd):
    env = os.environ | {"NO_COLOR": "1", "PYTHONPATH": f"{cwd}:{os.environ.get('PYTHONPATH', '')}"}
    return command.process(*words, cwd=cwd, env=env)


def test_the_command_line_asks_before_it_runs_code(spy, tmp_path):
    (tmp_path / "stranger.toml").write_text(BASE + 'cc = "python:spy:Spy"\n')
    checked = tailback("check", "stranger.toml", cwd=tmp_path)
    assert checked.returncode == 0
    assert "flow[0].cc asks to run python:spy:Spy" in checked.stderr
    printed = json.loads(tailback("check", "stranger.toml", "--json", cwd=tmp_path).stdout)
    assert printed["code"] == [{"field": "flow[0].cc", "asks_to_run": "python:spy:Spy"}]
    refused = tailback("run", "stranger.toml", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--allow-code" in refused.stderr
    assert not spy.exists()
    allowed = tailback("run", "stranger.toml", "--allow-code", cwd=tmp_path)
    assert allowed.returncode == 0, allowed.stderr
    assert spy.exists()


PROGRAM = BASE.replace('"bulk"\napp = "bulk"', '"own"\napp = "exec"') + 'client = "touch ran"\nserver = "sleep 5"\n'


def test_programs_are_named_by_check_and_refused_without_permission(tmp_path):
    there = tb.Scenario.parse_toml(PROGRAM, file="stranger.toml")
    assert [(row.field, row.value) for row in asked_for(there.resolve(live=True))] == [
        ("flow[0].server", "sleep 5"),
        ("flow[0].client", "touch ran"),
    ]
    (tmp_path / "stranger.toml").write_text(PROGRAM)
    checked = tailback("check", "stranger.toml", cwd=tmp_path)
    assert checked.returncode == 0
    assert "flow[0].client asks to run touch ran" in checked.stderr


@pytest.mark.skipif(not live._HAS_LIVE, reason="live runs need Linux")
def test_a_live_run_asks_before_it_runs_a_program(tmp_path):
    with pytest.raises(tb.ScenarioError, match="asks to run this program") as caught:
        live.run(tb.Scenario.parse_toml(PROGRAM, file="stranger.toml"))
    assert [problem.field for problem in caught.value.problems] == ["flow[0].server", "flow[0].client"]
    (tmp_path / "stranger.toml").write_text(PROGRAM)
    refused = tailback("run", "stranger.toml", "--engine", "live", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--allow-code" in refused.stderr
    assert not Path(tmp_path / "ran").exists()


def test_a_sweeps_file_names_no_file_outside_its_folder(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "below").mkdir(parents=True)
    for place in (tmp_path / "mine.trace", theirs / "below" / "link.trace"):
        tb.traces.write(place, [0, 2, 5])
    link = 'name = "d"\nfrom = "a"\nto = "b"\nduplex = true\nqueue = "9kB"\n'
    flow = 'from = "a"\nto = "b"\n'
    inline = (
        f'[base]\nduration = "1s"\n[[base.link]]\n{link}trace = "TRACE"\n[[base.flow]]\n{flow}'
        '[grid]\n"flow[0].cc" = ["reno", "cubic"]\n'
    )
    (theirs / "s.toml").write_text(f'duration = "1s"\n[[link]]\n{link}trace = "below/link.trace"\n[[flow]]\n{flow}')
    value = 'base = "s.toml"\n[grid]\n"link.d.trace" = ["below/link.trace", "TRACE"]\n'
    fixed = 'base = "s.toml"\n[set]\n"link.d.trace" = "TRACE"\n[grid]\n"flow[0].cc" = ["reno", "cubic"]\n'
    for text in (inline, value, fixed):
        file = theirs / "sweep.toml"
        for outside in (str(tmp_path / "mine.trace"), "../mine.trace"):
            file.write_text(text.replace("TRACE", outside))
            with pytest.raises(tb.ScenarioError, match="the file lies outside the scenario's folder"):
                [point.resolve() for point in points(file)]
        file.write_text(text.replace("TRACE", "below/link.trace"))
        assert [point.resolve()["links"][0]["trace"]["deliveries_ms"] for point in points(file)] == [[0, 2, 5]] * 2


def points(file: Path) -> list[tb.Scenario]:
    """Every scenario of a sweep's file."""
    sweep = read_sweep(file)
    return [sweep.scenario(number, values, 1) for number, values in enumerate(sweep.design)]
