"""Stored results of runs in virtual machines, so that an interrupted study can continue."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailback import vm
from tailback.result import Result
from tailback.run import Runnable
from tailback.vm.kernels import Kernel
from tailback.vm.machine import GuestError

__all__ = ["attempt", "folder_of", "read"]


def folder_of(folder: Path, kernel: str) -> Path:
    """Subfolder of `folder` for runs on `kernel`, a name or a path."""
    return folder / kernel.replace("/", "_")


def read(file: Path, kernel: Kernel) -> dict[str, Any] | None:
    """The stored run in `file`; `None` if there is none, or if it is of another kernel of the same name."""
    if not file.is_file():
        return None
    row: dict[str, Any] = json.loads(file.read_text())
    return row if kernel.is_that_of(row.get("kernel")) else None


def attempt(what: Runnable, kernel: Kernel, measure: Callable[[Result], Any], *, dilation: int = 1) -> dict[str, Any]:
    """Run it and return the record to store: the kernel, and the measurements or why the guest refused it.

    Does not catch `LostRun`: a lost machine says nothing about the scenario, so the next call tries again.
    """
    try:
        result = vm.run(what, kernel=kernel.name, dilation=dilation)
    except GuestError as error:
        return {"kernel": kernel.about, "refused": str(error)}
    return {"kernel": result.meta["kernel"], "measures": measure(result)}
