"""The shell steps of `action.yml` with inputs that try to be more than values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

STEPS = {
    step["name"]: step
    for step in yaml.safe_load((Path(__file__).parents[1] / "action.yml").read_text())["runs"]["steps"]
    if "run" in step
}
#: Each is tried in every input; none may become an option, a command or another argument.
HOSTILE = (
    "--algorithm=m=evil.py:M", "-h", "--", "--allow-code", "$(touch ran)", "`touch ran`", "; touch ran", "a b",
    "*", "\\", "'", '"', "--index-url=http://example.invalid", "-rlist", "a\n--allow-code", "a\r--allow-code",
)  # fmt: skip
OPTIONS = {"CANDIDATE": "candidate", "ALGORITHM": "algorithm", "SET": "set", "JUNIT": "junit"}
SWITCHES = ("ALLOW_CODE", "AS_DECLARED")


def started(tmp_path: Path, name: str, **given: str) -> tuple[int, list[list[str]]]:
    """The step's exit code, and the arguments of each program that it started."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    note = "import json, sys; open('calls', 'a').write(json.dumps(sys.argv[1:]) + chr(10))"
    for program in ("tailback", "python"):
        (programs / program).write_text(f"#!{sys.executable} -I\n{note}\n")
        (programs / program).chmod(0o755)
    calls = tmp_path / "calls"
    calls.unlink(missing_ok=True)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "GITHUB_ACTION_PATH": "/action"}
    env |= dict.fromkeys(STEPS[name]["env"], "") | given
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
    done = subprocess.run(script, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


def test_inputs_are_in_no_script() -> None:
    assert all("inputs." not in step["run"] for step in STEPS.values())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_input_is_a_value_and_nothing_else(hostile: str, tmp_path: Path) -> None:
    lines = hostile.split("\n")
    assert started(tmp_path, "Install tailback", PACKAGE=hostile) == (
        0, [["-I", "-m", "pip", "install", "--quiet", "--", hostile]],
    )  # fmt: skip
    assert started(tmp_path, "Test", PATHS=hostile) == (0, [["test", "--", *lines]])
    given = {"PATHS": "a.toml", **dict.fromkeys(OPTIONS, hostile)}
    options = [f"--{option}={line}" for option in OPTIONS.values() for line in lines]
    assert started(tmp_path, "Test", **given) == (0, [["test", *options, "--", "a.toml"]])
    for switch in SWITCHES:
        assert started(tmp_path, "Test", PATHS="a.toml", **{switch: hostile}) == (2, [])
    assert not (tmp_path / "ran").exists()


def test_switches_are_on_with_true_only_and_paths_are_demanded(tmp_path: Path) -> None:
    for value, expected in (("true", ["--allow-code", "--as-declared"]), ("false", []), ("", [])):
        call: Any = started(tmp_path, "Test", PATHS="a.toml", **dict.fromkeys(SWITCHES, value))
        assert call == (0, [["test", *expected, "--", "a.toml"]])
    assert started(tmp_path, "Test", PATHS="\n") == (2, [])


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_base_and_its_files_are_values_and_nothing_else(hostile: str, tmp_path: Path) -> None:
    lines = hostile.split("\n")
    given = {"PATHS": hostile, "BASE": "main", "COMMENT": "c.md", "GITHUB_OUTPUT": "out"}
    base = ["ci", "--base=main", "--markdown=c.md"]
    assert started(tmp_path, "Compare", **given) == (0, [[*base, "--", *lines]])
    assert (tmp_path / "out").read_text() == "comment=c.md\n"
    given = {"PATHS": "a.toml", "BASE": "main", "COMMENT": "c.md"}
    own = {"CANDIDATE": "candidate", "ALGORITHM": "algorithm", "SET": "set"}
    options = [f"--{option}={line}" for option in own.values() for line in lines]
    assert started(tmp_path, "Compare", **given, **dict.fromkeys(own, hostile)) == (
        0, [[*base, *options, "--", "a.toml"]],
    )  # fmt: skip
    # One line each, or none: a second would be another output of the step.
    single = {"BASE": "base", "COMMENT": "markdown", "PAGE": "html", "HISTORY": "history", "FAIL_ON": "fail-on"}
    has_lines = "\n" in hostile or "\r" in hostile
    wanted = [f"--{option}={hostile}" for option in single.values()]
    (tmp_path / "out").unlink()
    for step in [started(tmp_path, "Compare", PATHS="a.toml", GITHUB_OUTPUT="out", **dict.fromkeys(single, hostile))]:
        assert step == ((2, []) if has_lines else (0, [["ci", *wanted, "--", "a.toml"]]))
    assert (tmp_path / "out").exists() != has_lines
    assert started(tmp_path, "Compare", BASE="main", PATHS="a.toml", ALLOW_CODE=hostile) == (2, [])
    assert not (tmp_path / "ran").exists()


def test_the_comment_has_a_place_of_its_own(tmp_path: Path) -> None:
    code, (call,) = started(tmp_path, "Compare", PATHS="a.toml", BASE="main", RUNNER_TEMP="/temp", GITHUB_OUTPUT="out")
    assert (code, call) == (0, ["ci", "--base=main", "--markdown=/temp/tailback-ci.md", "--", "a.toml"])
    assert (tmp_path / "out").read_text() == "comment=/temp/tailback-ci.md\n"
    steps = yaml.safe_load((Path(__file__).parents[1] / "action.yml").read_text())
    assert STEPS["Compare"]["if"] == "${{ !cancelled() && inputs.base != '' }}"
    assert f"steps.{STEPS['Compare']['id']}.outputs.comment" in steps["outputs"]["comment"]["value"]


def test_no_line_of_paths_runs_code(tmp_path: Path) -> None:
    """The same with tailback itself, which must read what comes after `--` as paths."""
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "tailback").write_text(f"#!{sys.executable}\nfrom tailback.cli import main\nmain()\n")
    (programs / "tailback").chmod(0o755)
    env = dict.fromkeys(STEPS["Test"]["env"], "") | {"PATH": f"{programs}:/usr/bin:/bin"}
    env |= {"PATHS": "--algorithm=m=evil.py:M", "PYTHONPATH": os.pathsep.join(sys.path)}
    script = ["bash", "-eo", "pipefail", "-c", STEPS["Test"]["run"]]
    done = subprocess.run(script, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--algorithm=m=evil.py:M" in done.stderr
    assert not (tmp_path / "ran").exists()


#: A candidate of a small repository, and its change: it backs off more.
MINE = """
from tailback.examples.newreno import NewReno

class Mine(NewReno):
    def on_congestion(self, congestion, control):
        super().on_congestion(congestion, control)
        control.ssthresh = max(control.ssthresh * 10 // 10, 2 * control.mss)
"""
SCENARIO = """
duration = "3s"
randomness = { start_spread = "200ms" }
[dumbbell]
rate = "8mbit"
rtt = "40ms"
wire = { loss = 0.003 }
[[flow]]
name = "subject"
cc = "reno"
[expect]
conditions = ["subject.goodput_mbps > 2mbit"]
"""


@pytest.mark.long
def test_the_steps_on_a_repository_test_compare_and_leave_comment_page_and_history(tmp_path: Path) -> None:
    """A repository with a base and a change, and the steps as a runner starts them."""
    repo, programs = tmp_path / "repo", tmp_path / "bin"
    (repo / "scenarios").mkdir(parents=True)
    programs.mkdir()
    (programs / "tailback").write_text(f"#!{sys.executable}\nfrom tailback.cli import main\nmain()\n")
    (programs / "tailback").chmod(0o755)

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=repo, check=True, capture_output=True)

    (repo / "scenarios" / "lossy.toml").write_text(SCENARIO)
    (repo / "mine.py").write_text(MINE)
    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    git("commit", "--quiet", "-m", "begin")
    git("checkout", "--quiet", "-b", "change")
    (repo / "mine.py").write_text(MINE.replace("* 10", "* 5"))
    git("commit", "--quiet", "-am", "back off more")

    def step(name: str, **given: str) -> subprocess.CompletedProcess[str]:
        env = dict.fromkeys(STEPS[name]["env"], "") | {
            "PATH": f"{programs}:/usr/bin:/bin",
            "RUNNER_TEMP": str(tmp_path),
        }
        env |= {"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "out")}
        env |= {"PATHS": "scenarios", "CANDIDATE": "mine.py:Mine", "ALLOW_CODE": "true"} | given
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
        return subprocess.run(script, cwd=repo, env=env, capture_output=True, text=True, check=False)

    tested = step("Test", JUNIT="junit.xml")
    assert tested.returncode == 0, tested.stderr
    assert 'failures="0"' in (repo / "junit.xml").read_text()
    compared = step("Compare", BASE="main", PAGE="page.html", HISTORY="history.jsonl")
    assert compared.returncode == 1, compared.stderr
    assert (tmp_path / "out").read_text() == f"comment={tmp_path}/tailback-ci.md\n"
    comment = (tmp_path / "tailback-ci.md").read_text()
    assert "subject.goodput_mbps" in comment
    assert "lossy" in comment
    assert "<html" in (repo / "page.html").read_text()
    assert len((repo / "history.jsonl").read_text().splitlines()) == 2
    # A change of a comment is none.
    (repo / "mine.py").write_text("# The same.\n" + MINE)
    git("commit", "--quiet", "-am", "as before")
    unchanged = step("Compare", BASE="main")
    assert unchanged.returncode == 0, unchanged.stderr
    assert "no run of 1 scenario differs" in unchanged.stderr
