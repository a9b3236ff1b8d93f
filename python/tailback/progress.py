"""Progress on standard error: a bar on a terminal; elsewhere a line per minute for long work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar", "Runs"]

REPORT_EVERY_S = 60.0


class Bar:
    """A bar from 0 to 1; draws only if `shown` and if standard error is a terminal.

    >>> with Bar("counting", shown=False) as bar:
    ...     bar.update(0.5)
    """

    def __init__(self, title: str, *, shown: bool = True) -> None:
        self._title = title
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if shown and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("[progress.description]{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )

    def update(self, fraction: float, title: str | None = None) -> None:
        """Draw the bar at `fraction`; thread-safe."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=fraction, description=title or self._title)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=1.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


class Runs:
    """Progress of many runs: a bar on a terminal, a line per minute elsewhere, or calls of a function.

    >>> with Runs("counting", shown=False) as progress:
    ...     progress.update(1, 2, spent=1.0, cost=4.0)
    """

    def __init__(
        self, title: str, *, shown: bool | Callable[[int, int], object] = True, every_s: float = REPORT_EVERY_S
    ) -> None:
        self._title = title
        self._call = shown if callable(shown) else None
        self._bar = Bar(title, shown=shown is True)
        self._lines = shown is True and sys.stderr is not None and not sys.stderr.isatty()
        self._every_s = every_s
        self._finished, self._total, self._failed = 0, 0, 0
        self._spent, self._cost, self._found = 0.0, 0.0, 0.0
        self._over = threading.Event()
        # A separate timer thread, since a run may take longer than a minute.
        self._reporter = threading.Thread(target=self._report, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._bar.__enter__()
        if self._lines:
            self._reporter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._lines:
            self._reporter.join()
        self._bar.__exit__(kind, error, trace)

    def update(
        self, finished: int, total: int, *, spent: float, cost: float, found: float = 0.0, failed: int = 0
    ) -> None:
        """Report `finished` runs, with `spent` of the total `cost`, of which `found` was already in the store."""
        news = finished != self._finished
        self._finished, self._total, self._failed = finished, total, failed
        self._spent, self._cost, self._found = spent, cost, found
        if news:
            if self._call is not None:
                self._call(finished, total)
            self._bar.update(spent / cost if cost else 1.0, f"{finished} of {total} runs{self._failures()}")

    def _failures(self) -> str:
        return f", {self._failed} failed" if self._failed else ""

    def _report(self) -> None:
        while not self._over.wait(self._every_s):
            print(self._line(time.monotonic() - self._began), file=sys.stderr, flush=True)

    def _line(self, elapsed_s: float) -> str:
        # Runs found in the store took no time, so they say nothing about the rest.
        spent = self._spent - self._found
        ahead = f", about {_minutes(elapsed_s * (self._cost - self._spent) / spent)} left" if spent else ""
        return (
            f"{self._title}: {self._finished} of {self._total} runs{self._failures()} in {_minutes(elapsed_s)}{ahead}"
        )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"
