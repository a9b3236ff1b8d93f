"""A machine's folder: gone with the run, or, if that was killed, with the next."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tailback.files import try_lock
from tailback.vm.machine import VmError, no_room

__all__ = ["scratch"]

_PREFIX = "tailback-vm-"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a new folder, after clearing away what killed runs of this user have left."""
    try:
        root = Path(tempfile.gettempdir())
    except OSError as error:
        raise VmError(f"{error.strerror}. {no_room(None)}") from None
    for old in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), (old / "lock").open("rb") as others:
            # Who runs holds its lock, and nobody else can have it: process numbers may be another container's.
            if try_lock(others.fileno()):
                shutil.rmtree(old, ignore_errors=True)
    with contextlib.ExitStack() as held:
        try:
            made = Path(held.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX)))
            lock: BinaryIO = held.enter_context((made / "lock").open("xb"))
        except OSError as error:
            raise VmError(f"{root}: {error.strerror}. {no_room(root)}") from None
        try_lock(lock.fileno())
        yield made
