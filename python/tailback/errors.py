"""Errors that include the fix: the place, the value found, the problem, and a valid value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tailback import _core

__all__ = [
    "AlgorithmError",
    "Cancelled",
    "EngineError",
    "Interrupted",
    "Problem",
    "ProgramError",
    "ResultError",
    "ScenarioError",
    "StoreError",
    "TailbackError",
    "UnitError",
    "nearest",
]


class TailbackError(Exception):
    """Any error that tailback raises on purpose; its text is for users and needs no traceback."""


class UnitError(ValueError):
    """A quantity that cannot be read."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}. {fix}")
        self.problem = problem
        self.fix = fix


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a scenario.

    >>> print(Problem("dumbbell.rate", "-1mbit", "a rate must be above zero", 'Write for example "10mbit".'))
    dumbbell.rate = "-1mbit": a rate must be above zero. Write for example "10mbit".
    """

    #: Field path in the scenario file's spelling: `flow[0].cc`; empty for the whole scenario.
    field: str
    #: The value found there; `None` if a value is missing.
    value: Any
    #: What is wrong with the field.
    problem: str
    #: How to fix it.
    fix: str
    #: The scenario file; empty if there is none.
    file: str | None = None
    #: Line in that file, counted from one, if it could be found,
    line: int | None = None
    #: and column, likewise.
    column: int | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if place:
            place += "".join(f":{at}" for at in (self.line, self.column) if at is not None)
        what = self.field or "scenario"
        if self.value is not None:
            what += f" = {_shown(self.value)}"
        return f"{place + ': ' if place else ''}{what}: {self.problem}. {self.fix}".rstrip()


def _shown(value: Any) -> str:
    if isinstance(value, str):
        # Quantities are numbers in Python, but are shown as text.
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value) if isinstance(value, int | float) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


class ScenarioError(TailbackError):
    """A scenario that cannot be run. `problems` lists all errors, in the scenario's order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(map(_with_prefix, problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def located(self, file: str | None, places: Mapping[str, tuple[int, int] | None]) -> ScenarioError:
        """The same problems, with the file's name and the line and column of each field."""

        def located(problem: Problem) -> Problem:
            found = None if problem.line else _place_of(problem.field, places)
            line, column = found or (problem.line, problem.column)
            return replace(problem, file=problem.file or file, line=line, column=column)

        return ScenarioError([located(problem) for problem in self.problems])


#: A file with code of the user's that lacks the prefix with which a scenario names it, by that prefix.
_UNPREFIXED = {"python:": re.compile(r"[^:]+\.py:\w+"), "bpf:": re.compile(r"[^:]+\.bpf\.c")}


def _with_prefix(problem: Problem) -> Problem:
    """A problem with a place of code in the form of a candidate, with the form that a scenario takes."""
    value = str(problem.value)
    prefix = next((prefix for prefix, form in _UNPREFIXED.items() if form.fullmatch(value)), "")
    if not prefix or problem.field.rpartition(".")[2] not in ("cc", "name", "queue", "discipline"):
        return problem
    return replace(problem, fix=f'Write "{prefix}{value}"')


def _place_of(field: str, places: Mapping[str, tuple[int, int] | None]) -> tuple[int, int] | None:
    # The nearest enclosing path with a known position: for `flow[0].cc` perhaps only `flow[0]`.
    while field:
        if field in places:
            return places[field]
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return None


class ResultError(TailbackError):
    """A result folder that cannot be written or read."""


class EngineError(TailbackError):
    """A broken invariant inside the simulator: a bug in tailback. The text has the seed that reproduces it."""


class AlgorithmError(TailbackError):
    """A user's algorithm failed during a run. The cause is its exception, with the traceback."""

    def __init__(self, scenario: str, algorithm: str, hook: str, at_s: float, what: str) -> None:
        where = f"{scenario}: {algorithm} failed in {hook} at {at_s:.9g} s of simulated time"
        super().__init__(f"{where}: {what}{_attributes(what)}")
        #: Name of the algorithm in the scenario.
        self.algorithm = algorithm
        #: Hook that raised.
        self.hook = hook
        #: Simulated time in seconds.
        self.at_s = at_s


def _attributes(what: str) -> str:
    """The attributes of tailback's object that lacks one."""
    found = re.search(r"'tailback\._core\.(\w+)' object has no attribute '(\w+)'", what)
    if found is None:
        return ""
    known = [name for name in dir(getattr(_core, found[1])) if name[0].islower()]
    close = nearest(found[2], known)
    return f". {f'Did you mean {close}? ' if close else ''}It has: {', '.join(known)}"


class ProgramError(TailbackError):
    """A program of a flow failed during a run: a signal ended it, or it returned a status other than 0."""


class Cancelled(TailbackError):
    """The run was cancelled through its `Cancel` token."""


class StoreError(ResultError):
    """A store that cannot be read or written, or has another format."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during several runs. `results` has the finished ones in order, `None` for the others."""

    def __init__(self, results: Sequence[Any]) -> None:
        self.results = list(results)
        done = sum(result is not None for result in self.results)
        super().__init__(f"interrupted: {done} of {len(self.results)} runs were finished and are kept")


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that is most similar to `name`, or `None` if none is similar.

    >>> nearest("qubic", ["newreno", "cubic", "htcp"])
    'cubic'
    """
    return _core.nearest(name, list(choices))
