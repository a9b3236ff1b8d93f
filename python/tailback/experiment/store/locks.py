"""Locks that die with their owner."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from tailback.errors import ResultError

__all__ = ["StoreError", "locked", "try_lock"]


class StoreError(ResultError):
    """A store that cannot be read, written or understood."""


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Take a lock on an open file if it is free. The system drops it when its holder ends, however it ends."""
    try:
        import fcntl
    except ModuleNotFoundError:
        raise StoreError("a store needs locks that this system does not have. Use Linux or macOS, or WSL") from None
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, refusal: str, *, shared: bool) -> Generator[None, None, None]:
    """Hold a lock on `path`; `StoreError` with `refusal` if somebody else's lock excludes it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if not try_lock(handle, shared=shared):
            raise StoreError(refusal)
        yield
    finally:
        os.close(handle)
