"""Errors that show how to fix them: the place, the value found, the problem, the right value."""

from __future__ import annotations

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
    "ResultError",
    "ScenarioError",
    "StoreError",
    "TailbackError",
    "UnitError",
    "nearest",
]


class TailbackError(Exception):
    """Any error tailback raises on purpose; its text is meant for people and needs no traceback."""


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

    #: Where, as the scenario file spells it: `flow[0].cc`; empty for the scenario as a whole.
    field: str
    #: What was found there; `None` if the point is that nothing was.
    value: Any
    #: What is wrong with the field.
    problem: str
    #: What would be right.
    fix: str
    #: The scenario file, if it came from one.
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
        # A quantity is a number to Python, a word to people.
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value) if isinstance(value, int | float) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


class ScenarioError(TailbackError):
    """A scenario that cannot be run. `problems` lists everything found wrong, in the scenario's order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def located(self, file: str | None, places: Mapping[str, tuple[int, int] | None]) -> ScenarioError:
        """The same problems with the file's name, and lines and columns looked up by field path."""

        def located(problem: Problem) -> Problem:
            found = None if problem.line else _place_of(problem.field, places)
            line, column = found or (problem.line, problem.column)
            return replace(problem, file=problem.file or file, line=line, column=column)

        return ScenarioError([located(problem) for problem in self.problems])


def _place_of(field: str, places: Mapping[str, tuple[int, int] | None]) -> tuple[int, int] | None:
    # The nearest enclosing path that has a place: `flow[0].cc` may only be known as `flow[0]`.
    while field:
        if field in places:
            return places[field]
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return None


class ResultError(TailbackError):
    """A result folder that cannot be written or read."""


class EngineError(TailbackError):
    """A broken invariant inside the simulator: a bug in tailback. The text carries the seed that shows it."""


class AlgorithmError(TailbackError):
    """An algorithm of the user's own failed during a run. Its cause is what was raised, with the traceback."""

    def __init__(self, scenario: str, algorithm: str, hook: str, at_s: float, what: str) -> None:
        super().__init__(f"{scenario}: {algorithm} failed in {hook} at {at_s:.9g} s of simulated time: {what}")
        #: Name of the algorithm in the scenario.
        self.algorithm = algorithm
        #: Method of the algorithm that raised.
        self.hook = hook
        #: Simulated time in seconds.
        self.at_s = at_s


class Cancelled(TailbackError):
    """The run was cancelled through its `Cancel` token."""


class StoreError(ResultError):
    """A store that cannot be read, written or understood."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during several runs. `results` keeps what was finished, in order, `None` where nothing was."""

    def __init__(self, results: Sequence[Any]) -> None:
        self.results = list(results)
        done = sum(result is not None for result in self.results)
        super().__init__(f"interrupted: {done} of {len(self.results)} runs were finished and are kept")


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that `name` was probably meant to be, or `None` if none is close.

    >>> nearest("qubic", ["newreno", "cubic", "htcp"])
    'cubic'
    """
    return _core.nearest(name, list(choices))
