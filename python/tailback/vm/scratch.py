"""A machine's folder: gone with the run, or, if that was killed, with the next."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tailback.files import try_lock

__all__ = ["scratch"]

_PREFIX = "tailback-vm-"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a new folder, after clearing away what killed runs of this user have left."""
    root = Path(tempfile.gettempdir())
    for old in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), (old / "lock").open("rb") as lock:
            # Who runs holds its lock, and nobody else can have it: process numbers may be another container's.
            if try_lock(lock.fileno()):
                shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as made, (Path(made) / "lock").open("xb") as lock:
        try_lock(lock.fileno())
        yield Path(made)
