"""Progress bars: on a terminal only, on standard error only."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

__all__ = ["Bar"]


class Bar:
    """A bar from 0 to 1 that draws nothing unless `shown` and standard error is a terminal.

    >>> with Bar("counting", shown=False) as bar:
    ...     bar.update(0.5)
    """

    def __init__(self, title: str, *, shown: bool = True) -> None:
        self._title = title
        self._progress: Progress | None = None
        self._task = TaskID(0)
        if shown and sys.stderr is not None and sys.stderr.isatty():
            self._progress = Progress(
                TextColumn("[progress.description]{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )

    def update(self, fraction: float, title: str | None = None) -> None:
        """Draw at `fraction`; may be called from any thread."""
        if self._progress is not None:
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
