"""A machine's folder: gone with the run, or, if that was killed, with the next."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["scratch"]

_PREFIX = "tailback-vm-"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a new folder, after clearing away what killed runs of this user have left."""
    # Not above: Windows has none, and this package must be importable there.
    import fcntl

    root = Path(tempfile.gettempdir())
    for old in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), (old / "lock").open("rb") as lock:
            # Who runs holds its lock, and nobody else can have it: process numbers may be another container's.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as made, (Path(made) / "lock").open("xb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(made)
