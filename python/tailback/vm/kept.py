"""What studies keep of runs in virtual machines, so that they go on where they ended."""

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
    """Where runs on `kernel`, a name or a path, are kept below `folder`."""
    return folder / kernel.replace("/", "_")


def read(file: Path, kernel: Kernel) -> dict[str, Any] | None:
    """What `file` keeps of a run on `kernel`; `None` if it keeps none, or one of another kernel of that name."""
    if not file.is_file():
        return None
    row: dict[str, Any] = json.loads(file.read_text())
    return row if kernel.is_that_of(row.get("kernel")) else None


def attempt(what: Runnable, kernel: Kernel, measure: Callable[[Result], Any], *, dilation: int = 1) -> dict[str, Any]:
    """Run it, and return what is to be kept: the kernel, and what is measured or why the guest could not carry it.

    `LostRun` comes through: it says nothing of the guest, so that nothing is kept and the next call tries again.
    """
    try:
        result = vm.run(what, kernel=kernel.name, dilation=dilation)
    except GuestError as error:
        return {"kernel": kernel.about, "refused": str(error)}
    return {"kernel": result.meta["kernel"], "measures": measure(result)}
