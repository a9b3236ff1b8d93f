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
