"""Executes one run, in a thread here, on a cluster's worker or by a kernel's engine; and the crews of workers."""

from __future__ import annotations

import json
import queue
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tailback import _core, isolated
from tailback._core import Cancel
from tailback.algorithms import Source, made_from
from tailback.engines import Engine, demand_fit
from tailback.errors import AlgorithmError, Cancelled, EngineError, ScenarioError, TailbackError
from tailback.experiment.store import engine_fingerprint
from tailback.experiment.store.objects import bucket
from tailback.result import Result, frozen, layout
from tailback.run import cores
from tailback.scenario import Scenario
from tailback.vm import Overloaded

__all__ = [
    "REFUSED",
    "Crew",
    "EngineMismatch",
    "Keep",
    "OnKernel",
    "Outcome",
    "Task",
    "Threads",
    "perform",
    "perform_several",
    "refusal",
]

#: Prefix of the error of a run that a kernel or guest does not support; it says nothing about the candidate.
REFUSED = "not applicable: "


class EngineMismatch(TailbackError):
    """A worker has a different engine than the caller, so its results would be stored under a wrong key."""


class Keep(Protocol):
    """Selects the values to keep of a run, as a row of the store."""

    @property
    def digest(self) -> str:
        """Identifies what is kept: equal digests keep the same values."""

    def names(self, resolved: Mapping[str, Any]) -> list[str]:
        """The names of the values for a resolved scenario."""

    def __call__(self, result: Result) -> Mapping[str, Any]:
        """Values by name."""


@dataclass(frozen=True)
class Task:
    """A run to do, in a form that can be sent to another process."""

    number: int
    scenario_json: str
    toml: str
    engine: str
    #: Folder or bucket for the tables; `None` if they are not kept.
    tables: str | None
    #: Name under which the tables are kept in a bucket.
    run: str = ""
    #: The user's own algorithms that the scenario names.
    sources: Mapping[str, Source] = field(default_factory=dict)
    #: Wall-clock seconds after which the run is cancelled.
    most_wall_s: float | None = None
    #: The scenario's file, from which a kernel's engine resolves relative names, and whether it may run code.
    file: str | None = None
    allow_code: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of a task."""

    number: int
    values: Mapping[str, Any] | None
    error: str | None
    wall_s: float
    #: Checksum of the tables; None if they were not kept.
    tables_sha256: str | None = None


def perform(task: Task, keep: Keep, cancel: Cancel | None = None, strict: bool = False) -> Outcome:
    """Do a task. Errors become part of the outcome, unless `strict`; a cancelled task raises."""
    if engine_fingerprint() != task.engine:
        raise EngineMismatch(
            f"a worker runs engine {engine_fingerprint()}, this sweep was started with {task.engine}. "
            f"Install the same tailback on all of them."
        )
    began = time.perf_counter()
    try:
        factories = {name: made_from(name, source) for name, source in task.sources.items()}
        resolved = json.loads(task.scenario_json)
        try:
            tables = frozen(
                isolated.run(task.scenario_json, cancel, None, factories, task.sources, None, task.most_wall_s)
            )
        except _core.AlgorithmError as error:
            raise AlgorithmError(str(resolved.get("name")), *error.args) from error.__cause__
        except _core.ScenarioError as error:
            raise Scenario.parse_toml(task.toml).complaint(*map(str, error.args)) from None
        result = Result(resolved=resolved, toml=task.toml, tables=tables, algorithms=dict(task.sources))
        return _kept(task, keep, result, began)
    except _core.Cancelled:
        raise
    except Exception as error:  # a failing point is recorded, the rest goes on
        if strict:
            name = json.loads(task.scenario_json).get("name")
            error.add_note(f"while running {name}")
            if isinstance(error, _core.EngineError):
                raise EngineError(f"{name}: {error}") from None
            raise
        return Outcome(task.number, None, f"{type(error).__name__}: {error}", time.perf_counter() - began)


def perform_several(tasks: Sequence[Task], keep: Keep) -> tuple[list[Outcome], float]:
    """Do several tasks in sequence; also returns the processor seconds that they took."""
    began = time.thread_time()
    return [perform(task, keep) for task in tasks], time.thread_time() - began


def _kept(task: Task, keep: Keep, result: Result, began: float) -> Outcome:
    kept = None if task.tables is None else _tables_kept(task.tables, task.run, result)
    values = dict(keep(result))
    if "stack_faults" in result.tables:
        values["stack_faults"] = result.rows("stack_faults")
    return Outcome(task.number, values, None, time.perf_counter() - began, kept)


def _tables_kept(place: str, run: str, result: Result) -> str:
    """Save the tables of a run; returns the digest of them all."""
    if "://" not in place:
        return layout.seal_of(result.save(Path(place)))
    with tempfile.TemporaryDirectory(prefix="tailback-") as folder:
        return bucket(place).put(result.save(Path(folder) / "result"), run)


class Crew(Protocol):
    """The workers that execute runs."""

    @property
    def capacity(self) -> int:
        """Number of tasks that keep the workers busy."""
        ...

    def submit(self, task: Task) -> None:
        """Accept a task."""

    def next(self, timeout: float) -> Outcome | None:
        """A finished task; `None` if there is none after `timeout` seconds. Raises errors that are not a run's."""

    def stop(self) -> None:
        """Cancel unfinished tasks."""


class Threads:
    """A crew of threads: the engine works outside the interpreter lock."""

    def __init__(self, keep: Keep, workers: int | None = None, *, strict: bool = False) -> None:
        count = workers or cores()
        # A few more than can run, so that no worker waits for this thread.
        self._capacity = 2 * count + 1
        self._keep, self._strict = keep, strict
        self._cancel = Cancel()
        self._done: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="tailback-sweep")

    @property
    def capacity(self) -> int:
        """Number of tasks that keep the threads busy."""
        return self._capacity

    def submit(self, task: Task) -> None:
        """Accept a task."""
        self._pool.submit(self._do, task)

    def _do(self, task: Task) -> None:
        try:
            self._done.put(self._perform(task))
        except BaseException as error:  # the waiting thread raises it
            self._done.put(error)

    def _perform(self, task: Task) -> Outcome:
        return perform(task, self._keep, self._cancel, self._strict)

    def next(self, timeout: float) -> Outcome | None:
        """A finished task, or `None`."""
        try:
            done = self._done.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(done, BaseException):
            raise done
        return done

    def stop(self) -> None:
        """Cancel running tasks and wait for the threads."""
        self._cancel.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


class OnKernel(Threads):
    """A crew that runs on a kernel engine: one run at a time on this machine's kernel, several at once in guests."""

    def __init__(self, engine: Engine, keep: Keep, workers: int | None = None, *, strict: bool = False) -> None:
        count = engine.at_once(workers)
        super().__init__(keep, count, strict=strict)
        self._capacity = count
        self.engine = engine

    def _perform(self, task: Task) -> Outcome:
        began = time.perf_counter()
        try:
            scenario = Scenario.parse_toml(task.toml, file=task.file)
            result = self.engine.run(scenario, cancel=self._cancel, allow_code=task.allow_code)
            if not self._strict:
                demand_fit(result)
            return _kept(task, self._keep, result, began)
        except Cancelled:
            raise
        except Exception as error:  # a failing point is recorded, the rest goes on
            if self._strict:
                raise
            return Outcome(task.number, None, refusal(error), time.perf_counter() - began)


def refusal(error: Exception) -> str:
    """The error of a run on a kernel, as text; with the prefix `REFUSED` if the kernel does not support the run."""
    if isinstance(error, ScenarioError | Overloaded):
        return f"{REFUSED}{error}"
    return f"{type(error).__name__}: {error}"
