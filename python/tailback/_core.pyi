"""The compiled core. Call it through `tailback.run` and friends; see crates/tailback-py."""

from collections.abc import Callable
from typing import Any, final

import numpy.typing as npt

class ScenarioError(ValueError):
    """A scenario that cannot be run."""

    args: tuple[str, str, str, str]
    """Field path, value found, problem, fix."""

class EngineError(RuntimeError):
    """A broken invariant in the engine; the text carries the seed."""

class Cancelled(Exception):
    """The run was cancelled through its `Cancel`."""

@final
class Cancel:
    """Stops a run from another thread."""

    def __new__(cls) -> Cancel: ...
    def set(self) -> None:
        """Cancel every run this was given to."""
    def is_set(self) -> bool:
        """Has `set` been called?"""

def version() -> str:
    """Version of the compiled core."""

def registry() -> str:
    """Everything the engine knows by name, as JSON: algorithms, queues, stacks, apps."""

def check(json: str) -> None:
    """Raise `ScenarioError` unless the scenario can be run."""

def run(
    json: str, cancel: Cancel | None = None, progress: Callable[[float], object] | None = None
) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Run the scenario, without the GIL, and return its tables: `{table: {column: array}}`.

    `progress` gets the fraction simulated, at most ten times a second, and 1.0 at the end; what it raises
    ends the run. The table `_names` holds lists of text that coded columns index.
    """

# The rest is there on Linux only; `tailback.live` asks first.

class LiveError(RuntimeError):
    """A live run that failed while it was under way; everything it made is gone."""

def live_check(json: str) -> None:
    """Raise `ScenarioError` unless the scenario can be run live on this machine."""

def live_run(
    json: str, cancel: Cancel | None = None, progress: Callable[[float], object] | None = None
) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """Run the scenario live and return its tables, as `run` does, with `emulator` and `captures`."""

def live_doctor(seconds: float) -> str:
    """What this machine can run live, as JSON; a timer's lateness is measured for so many seconds."""

def live_clean() -> list[str]:
    """Remove what dead live runs have left; returns what was done, in words."""
