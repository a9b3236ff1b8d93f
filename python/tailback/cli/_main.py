"""Runs the command line and reports errors."""

from __future__ import annotations

import copy
import functools
import os
import signal
import sys
import warnings
from typing import Any

import typer
from rich.markup import escape

from tailback.checksums import KeptWarning
from tailback.cli._app import app
from tailback.cli._common import BAD_INPUT, FAILED, INTERRUPTED, BadInput, Message, Stopped, say
from tailback.cli._failing import fail
from tailback.errors import ScenarioError, TailbackError

# Imported for the commands they add; the order is that of `tailback --help`.
# isort: off
from tailback.cli import examples, runs, machine, explore, testing, against, assessing, hunting, studies  # noqa: F401
from tailback.cli import output, pcap, catalogue, sweeps, guests, traces, pages  # noqa: F401
# isort: on

__all__ = ["app", "main"]


def _is_meant_for_people(error: BaseException) -> bool:
    """Whether an error's text is for users; a bare `ValueError` is a bug, but those of studies and plots are not."""
    return isinstance(error, TailbackError | OSError) or type(error).__module__.startswith("tailback.")


def _call(command: Any) -> int:
    try:
        return int(command.main(prog_name="tailback", standalone_mode=False) or 0)
    except typer.Exit as error:
        return error.exit_code
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; leave nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if isinstance(error, Stopped):
            return fail(error, INTERRUPTED)
        if isinstance(error, ScenarioError | BadInput):
            return fail(error, BAD_INPUT)
        if _is_meant_for_people(error):
            return fail(error, FAILED)
        if type(error).__name__ == "NoArgsIsHelpError":
            # A command group without a command: print its help.
            error.show()  # type: ignore[attr-defined]
            return BAD_INPUT
        if hasattr(error, "format_message"):
            # Errors of the command line itself: unknown option, missing argument.
            command = getattr(getattr(error, "ctx", None), "command_path", "tailback")
            return fail(Message(f"{error.format_message()} Try: {command} --help"), BAD_INPUT)
        raise


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
    if issubclass(category, KeptWarning):
        say(f"[yellow]warning:[/yellow] {escape(str(message))}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


@functools.cache
def _commands(word: str) -> Any:
    """The named command or group, else all of them: creating all takes longer than most commands run."""
    asked = copy.copy(app)
    asked.registered_commands = [each for each in app.registered_commands if _name(each) == word]
    asked.registered_groups = [
        each
        for each in app.registered_groups
        if each.typer_instance and word in (each.name, each.typer_instance.info.name)
    ]
    found = asked.registered_commands or asked.registered_groups
    return typer.main.get_command(asked if found else app)


def _name(command: Any) -> str:
    return command.name or typer.main.get_command_name(command.callback.__name__)


def main() -> int:
    """Run the command line; returns the exit code."""
    # Sent by `timeout`, a CI system or a container: handle it like Ctrl-C, so that cleanup runs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    return _call(_commands(sys.argv[1] if len(sys.argv) > 1 else ""))
