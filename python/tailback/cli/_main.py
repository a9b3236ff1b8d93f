"""The commands together, and what is said when one fails."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from typing import Any

import typer
from rich.markup import escape

from tailback.checksums import KeptWarning
from tailback.cli._app import app
from tailback.cli._common import BAD_INPUT, FAILED, INTERRUPTED, BadInput, Message, Stopped, emit, say
from tailback.errors import AlgorithmError, Problem, ScenarioError, TailbackError

# Imported for the commands they add; the order is that of `tailback --help`.
# isort: off
from tailback.cli import examples, runs, machine, explore, testing, assessing, hunting, studies  # noqa: F401
from tailback.cli import output, pcap, catalogue, sweeps, guests, traces  # noqa: F401
# isort: on

__all__ = ["app", "main"]


def fail(error: BaseException, code: int) -> int:
    """Say what went wrong, for people or as JSON; the exit code."""
    text = str(error) or type(error).__name__
    if isinstance(error, AlgorithmError) and error.__cause__ is not None:
        # The user's own code: where it failed is what they need.
        text += "\n" + "".join(traceback.format_exception(error.__cause__)).rstrip()
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    if "--json" in sys.argv[1:]:
        problems = error.problems if isinstance(error, ScenarioError) else ()
        emit({"error": text, "problems": [_problem(problem) for problem in problems]})
    label = "" if code == INTERRUPTED else "[bold red]error:[/bold red] "
    say(f"{label}{escape(text + notes)}")
    return code


def _problem(problem: Problem) -> dict[str, Any]:
    value = problem.value if isinstance(problem.value, bool | int | float | str | None) else str(problem.value)
    return {
        "file": problem.file,
        "line": problem.line,
        "field": problem.field,
        "value": str(value) if isinstance(value, int) and type(value) not in (int, bool) else value,
        "problem": problem.problem,
        "fix": problem.fix,
    }


def _is_meant_for_people(error: BaseException) -> bool:
    """Studies and plots have `ValueError`s of their own that explain themselves; a bare one is a bug."""
    return isinstance(error, TailbackError | OSError) or type(error).__module__.startswith("tailback.")


def _call(command: Any) -> int:
    try:
        return int(command.main(prog_name="tailback", standalone_mode=False) or 0)
    except typer.Exit as error:
        return error.exit_code
    except BrokenPipeError:
        # The reader (head, less) has seen enough; leave nothing for the interpreter's exit to flush.
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
            # A group of commands without one: its help is the answer.
            error.show()  # type: ignore[attr-defined]
            return BAD_INPUT
        if hasattr(error, "format_message"):
            # Usage of the command line itself: unknown option, missing argument.
            command = getattr(getattr(error, "ctx", None), "command_path", "tailback")
            return fail(Message(f"{error.format_message()} Try: {command} --help"), BAD_INPUT)
        raise


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
    if issubclass(category, KeptWarning):
        say(f"[yellow]warning:[/yellow] {escape(str(message))}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


def main() -> int:
    """Run the command line; its exit code."""
    # From `timeout`, a CI system or a container: what tidies up after Ctrl-C does so after this.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    return _call(typer.main.get_command(app))
