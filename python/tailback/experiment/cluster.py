"""The same sweep on many machines: Dask hands out the runs, tailback has no scheduler of its own.

Workers simulate and measure; the process that started the sweep alone writes the store. A run whose worker dies is
given to another one. See `docs/cluster.md`.
"""

from __future__ import annotations

import contextlib
import queue
from pathlib import Path
from typing import Any

from tailback.errors import TailbackError
from tailback.experiment.workers import EngineMismatch, Keep, Outcome, Task, perform

__all__ = ["ClusterError", "Dask", "connect"]

#: A run that took so many workers with it is recorded as failed: it is the run's fault then.
DEATHS = 3


class ClusterError(TailbackError):
    """A cluster that cannot be reached or used."""


def connect(address: str) -> Any:
    """A `distributed.Client` for `dask://HOST:PORT`, or `dask:///PATH` of a scheduler file."""
    scheme, found, rest = address.partition("://")
    if scheme != "dask" or not found or not rest:
        raise ClusterError(f'"{address}" is no cluster. Write dask://HOST:8786, or dask:///path/to/scheduler.json')
    distributed = _distributed()
    try:
        if rest.startswith("/"):
            if not Path(rest).is_file():
                # Dask would wait for it for ever.
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
    """A crew of Dask workers, given by a `distributed.Client`."""

    def __init__(self, client: Any, keep: Keep) -> None:
        if not hasattr(client, "submit") or not hasattr(client, "scheduler_info"):
            raise ClusterError(f"{client!r} is no distributed.Client")
        self._client = client
        # Sent once a worker, not once a run.
        self._keep = client.scatter(keep, broadcast=True, hash=False)
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._futures: dict[str, tuple[Any, int]] = {}

    @property
    def capacity(self) -> int:
        """Enough that a worker need not wait for this process; follows a cluster that grows."""
        ncores = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return max(8, 4 * sum(int(worker["nthreads"]) for worker in ncores))

    def submit(self, task: Task) -> None:
        """Take a task."""
        future = self._client.submit(perform, task, self._keep, key=f"tailback-{id(self):x}-{task.number}", pure=False)
        self._futures[future.key] = (future, task.number)
        future.add_done_callback(self._done.put)

    def next(self, timeout: float) -> Outcome | None:
        """A finished task, or `None`."""
        try:
            future = self._done.get(timeout=timeout)
        except queue.Empty:
            return None
        _, number = self._futures.pop(future.key)
        if future.status == "finished":
            outcome = future.result()
            assert isinstance(outcome, Outcome)
            return outcome
        error = future.exception() if future.status == "error" else None
        if isinstance(error, EngineMismatch):
            raise error
        # Its workers died (`KilledWorker`), or it could not be sent.
        message = (
            f"{type(error).__name__}: {error}" if error is not None else f"the cluster gave it up ({future.status})"
        )
        return Outcome(number, None, message, 0.0)

    def stop(self) -> None:
        """Give back what is not finished; a run that a worker is in the middle of ends by itself, unused."""
        with contextlib.suppress(Exception):
            self._client.cancel([future for future, _ in self._futures.values()], force=True)
        self._futures.clear()
