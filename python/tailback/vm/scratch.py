"""Temporary folders of machines, removed after the run or, if it was killed, by the next run."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tailback.files import is_link, is_plain, remove, try_lock
from tailback.vm.machine import VmError, no_room

__all__ = ["scratch"]

_PREFIX = "tailback-vm-"
_MARKED = b"a virtual machine of tailback works in this folder\n"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a new folder, after removing those that killed runs of this user left."""
    try:
        root = Path(tempfile.gettempdir())
    except OSError as error:
        raise VmError(f"{error.strerror}. {no_room(None)}") from None
    for old in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if _is_ours(old):
                remove(root, old.name)
    with contextlib.ExitStack() as held:
        try:
            made = Path(held.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX)))
            lock: BinaryIO = held.enter_context((made / "lock").open("xb"))
        except OSError as error:
            raise VmError(f"{root}: {error.strerror}. {no_room(root)}") from None
        try_lock(lock.fileno())
        # Written after locking: another process that finds the mark and a free lock knows that the owner has ended.
        lock.write(_MARKED)
        lock.flush()
        yield made


def _is_ours(folder: Path) -> bool:
    """Whether a killed run of this user left `folder`: its lock has the mark and no process holds it."""
    if is_link(folder) or not is_plain(folder / "lock") or folder.stat().st_uid != os.getuid():
        return False
    with (folder / "lock").open("rb") as others:
        # A process number may belong to another container, but only a living process holds a lock.
        return others.read(len(_MARKED) + 1) == _MARKED and try_lock(others.fileno())
