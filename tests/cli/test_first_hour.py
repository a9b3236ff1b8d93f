"""What the command says when it is called without one of its commands."""

import re

import typer
from typer.testing import CliRunner

from tailback.cli import app


def test_without_a_command_it_shows_those_of_a_first_hour() -> None:
    shown = CliRunner().invoke(app, [])
    assert shown.exit_code == 0
    commands = re.findall(r"^  tailback (\S+)", shown.output, re.MULTILINE)
    assert commands == ["init", "run", "explain", "report", "compare"]
    assert set(commands) <= set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
