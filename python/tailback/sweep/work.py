"""One run of a sweep, as done by a thread here or by a worker elsewhere, and the threads here."""

from __future__ import annotations

import json
import os
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tailback import _core
from tailback._core import Cancel
from tailback.errors import TailbackError
from tailback.result import Result, layout
from tailback.store import engine_fingerprint
from tailback.sweep.measures import Measures

__all__ = ["Crew", "EngineMismatch", "Outcome", "Task", "Threads", "perform"]


class EngineMismatch(TailbackError):
    """A worker runs another engine than the one that asked, so its results would be filed under a wrong name."""


@dataclass(frozen=True)
class Task:
    """A run to be done. Everything in it can be sent to another process."""

    number: int
    scenario_json: str
    toml: str
    engine: str
    #: Where to keep the tables, or `None`.
    tables: str | None


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    number: int
    values: dict[str, float] | None
    error: str | None
    wall_s: float
    #: The checksum of the tables, if they were kept.
    tables_sha256: str | None = None


def perform(task: Task, measures: Measures, cancel: Cancel | None = None) -> Outcome:
    """Do a task. Whatever goes wrong with the run becomes its outcome; only a cancelled one raises."""
    if engine_fingerprint() != task.engine:
        raise EngineMismatch(
            f"a worker runs engine {engine_fingerprint()}, this sweep was started with {task.engine}. "
            f"Install the same tailback on all of them."
        )
    began = time.perf_counter()
    try:
        tables = _core.run(task.scenario_json, cancel, None)
        result = Result(resolved=json.loads(task.scenario_json), toml=task.toml, tables=tables)
        kept = None if task.tables is None else layout.seal_of(result.save(Path(task.tables)))
        return Outcome(task.number, measures(result), None, time.perf_counter() - began, kept)
    except _core.Cancelled:
        raise
    except Exception as error:  # a failing point is recorded, the rest goes on
        return Outcome(task.number, None, f"{type(error).__name__}: {error}", time.perf_counter() - began)


class Crew(Protocol):
    """Whoever does the runs."""

    @property
    def capacity(self) -> int:
        """How many tasks keep them busy."""
        ...

    def submit(self, task: Task) -> None:
        """Take a task."""

    def next(self, timeout: float) -> Outcome | None:
        """A finished task; `None` if there is none after `timeout` seconds. Raises what is no fault of a run."""

    def stop(self) -> None:
        """Give up what is not finished."""


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """A crew of threads: the engine works outside the interpreter lock."""

    def __init__(self, measures: Measures, workers: int | None = None) -> None:
        count = workers or cores()
        # A few more than can run, so that no thread waits for this one to look up.
        self._capacity = 2 * count + 1
        self._measures = measures
        self._cancel = Cancel()
        self._done: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="tailback-sweep")

    @property
    def capacity(self) -> int:
        """How many tasks keep the threads busy."""
        return self._capacity

    def submit(self, task: Task) -> None:
        """Take a task."""
        self._pool.submit(self._do, task)

    def _do(self, task: Task) -> None:
        try:
            self._done.put(perform(task, self._measures, self._cancel))
        except BaseException as error:  # whatever it is, the thread that waits must see it
            self._done.put(error)

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
        """Cancel what runs and wait for the threads."""
        self._cancel.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
