"""What each command's help shows: one example at least, which the command takes."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from tailback.cli import app

ROOT = Path(__file__).parents[2]


def commands(of: Any, name: str = "tailback") -> Iterator[tuple[str, Any]]:
    """Each command that does something, by its whole name."""
    if not hasattr(of, "commands"):
        yield name, of
        return
    for each, command in of.commands.items():
        yield from commands(command, f"{name} {each}")


COMMANDS = dict(commands(typer.main.get_command(app)))


def examples(name: str) -> list[list[str]]:
    """The words behind the command's name in each of its examples."""
    # Backquoted calls may be wrapped; calls of a list stand on a line each.
    text = re.sub(r"`[^`]*`", lambda quoted: " ".join(quoted[0].split()), COMMANDS[name].help or "")
    called = re.findall(rf"(?:^|[`\s]){re.escape(name)}\b([^`\n]*)", text, re.MULTILINE)
    # What follows in the shell is not the command's.
    return [list(takewhile(lambda word: word not in ("&&", "|", ">", "#"), shlex.split(rest))) for rest in called]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_that_it_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = examples(name)
    assert shown, "write `For example` and a call into the docstring"
    for words in shown:
        # Parses and converts every argument; nothing runs.
        COMMANDS[name].make_context(name, list(words))
