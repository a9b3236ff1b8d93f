"""Runs a sweep on many machines: Dask distributes the runs, without a scheduler of tailback's own.

Workers simulate and measure; only the process that started the sweep writes the store. Short runs are sent in batches,
as sending costs milliseconds. If a worker dies, another one gets its run. See `docs/cluster.md`.
"""

from __future__ import annotations

import collections
import contextlib
import math
import queue
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailback.errors import TailbackError
from tailback.experiment.workers import EngineMismatch, Keep, Outcome, Task, perform_several

__all__ = ["ClusterError", "Dask", "connect"]

#: Target processor time of a batch in seconds, and its maximum number of runs.
BATCH_S = 0.5
MOST_AT_ONCE = 64
#: Seconds between queries of the cluster's size.
ASK_EVERY_S = 1.0


class ClusterError(TailbackError):
    """A cluster that cannot be reached or used."""


def connect(address: str) -> Any:
    """A `distributed.Client` for `dask://HOST:PORT`, or `dask:///PATH` of a scheduler file."""
    scheme, found, rest = address.partition("://")
    if scheme != "dask" or not found or not rest:
        raise ClusterError(f'"{address}" is no cluster. Write dask://HOST:8786, or dask:///path/to/scheduler.json')
    if not rest.startswith("/") and not re.search(r":\d+$", rest):
        # Without a port Dask would wait, then fail with its own traceback.
        raise ClusterError(f'"{address}" has no port. Write dask://{rest.rstrip(":")}:8786, or that of your scheduler')
    distributed = _distributed()
    try:
        if rest.startswith("/"):
            if not Path(rest).is_file():
                # Dask would wait for a missing file forever.
                raise ClusterError(
                    f"there is no scheduler file {rest}. Start one: dask scheduler --scheduler-file {rest}"
                )
            return distributed.Client(scheduler_file=rest, timeout=20, set_as_default=False)
        return distributed.Client(f"tcp://{rest}", timeout=20, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"{address} cannot be reached: {error}") from None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ClusterError("Dask is not installed. Install it with: pip install 'tailback-lab[dask]'") from None
    return distributed


class Dask:
    """A crew of Dask workers, reached through a `distributed.Client`."""

    def __init__(self, client: Any, keep: Keep) -> None:
        if not hasattr(client, "submit") or not hasattr(client, "scheduler_info"):
            raise ClusterError(f"{client!r} is no distributed.Client")
        self._client = client
        # Sent with each batch: Dask keeps one copy of scattered data, and the worker that holds it may die.
        self._keep = keep
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: list[Task] = []
        self._futures: dict[str, tuple[Any, Sequence[Task]]] = {}
        self._outcomes: collections.deque[Outcome] = collections.deque()
        #: Processor seconds per run, over the last batches.
        self._took: collections.deque[float] = collections.deque(maxlen=16)
        self._threads = 0
        self._asked = -math.inf

    @property
    def capacity(self) -> int:
        """Tasks to have in progress so that no worker waits for this process; follows a growing cluster."""
        if time.monotonic() - self._asked > ASK_EVERY_S:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            self._threads = sum(int(worker["nthreads"]) for worker in workers)
            self._asked = time.monotonic()
        return max(8, 4 * self._threads) * self._at_once

    @property
    def _at_once(self) -> int:
        if not self._took:
            return 1
        # Processor time, not wall-clock time: a busy machine makes runs slower, but sending them no cheaper.
        return max(1, min(MOST_AT_ONCE, int(BATCH_S / max(statistics.median(self._took), 1e-6))))

    def submit(self, task: Task) -> None:
        """Take a task."""
        self._waiting.append(task)

    def _hand_out(self, tasks: Sequence[Task]) -> None:
        key = f"tailback-{id(self):x}-{tasks[0].number}-{len(tasks)}"
        future = self._client.submit(perform_several, tasks, self._keep, key=key, pure=False)
        self._futures[future.key] = (future, tasks)
        future.add_done_callback(self._done.put)

    def next(self, timeout: float) -> Outcome | None:
        """A finished task, or `None`."""
        if self._outcomes:
            return self._outcomes.popleft()
        if self._waiting:
            size = self._at_once
            for begin in range(0, len(self._waiting), size):
                self._hand_out(self._waiting[begin : begin + size])
            self._waiting = []
        try:
            future = self._done.get(timeout=timeout)
        except queue.Empty:
            return None
        _, tasks = self._futures.pop(future.key)
        if future.status == "finished":
            outcomes, took_s = future.result()
            self._outcomes.extend(outcomes)
            self._took.append(took_s / len(tasks))
            return self._outcomes.popleft()
        error = future.exception() if future.status == "error" else None
        if isinstance(error, EngineMismatch):
            raise error
        if len(tasks) > 1:
            # One of the runs may have crashed its workers; send each alone, so that the others are not lost.
            for task in tasks:
                self._hand_out([task])
            return None
        # The workers died (`KilledWorker`), or the task could not be sent.
        message = (
            f"{type(error).__name__}: {error}" if error is not None else f"the cluster gave it up ({future.status})"
        )
        return Outcome(tasks[0].number, None, message, 0.0)

    def stop(self) -> None:
        """Cancel unfinished tasks; a run in progress on a worker ends by itself and is discarded."""
        with contextlib.suppress(Exception):
            self._client.cancel([future for future, _ in self._futures.values()], force=True)
        self._futures.clear()
        self._waiting.clear()
