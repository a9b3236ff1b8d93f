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
