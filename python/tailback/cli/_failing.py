"""Reports the error of a failed command, for people or as JSON."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from rich.markup import escape

from tailback.cli._common import INTERRUPTED, emit, say
from tailback.errors import AlgorithmError, Problem, ScenarioError

__all__ = ["fail"]


def fail(error: BaseException, code: int) -> int:
    """Report an error, for people or as JSON; returns the exit code."""
    text = str(error) or type(error).__name__
    if isinstance(error, AlgorithmError) and error.__cause__ is not None and error.__cause__.__traceback__:
        # For the user's own code, show where it failed. A broken rule has no line; its text is enough.
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
