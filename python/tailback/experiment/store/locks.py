"""File locks that the system releases when their owner ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from tailback import files
from tailback.errors import StoreError

__all__ = ["locked", "try_lock"]


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """`tailback.files.try_lock`, with a `StoreError` on systems without such locks."""
    try:
        return files.try_lock(handle, shared=shared)
    except ModuleNotFoundError:
        raise StoreError("a store needs locks that this system does not have. Use Linux or macOS, or WSL") from None


@contextlib.contextmanager
def locked(path: Path, refusal: str, *, shared: bool) -> Generator[None, None, None]:
    """Hold a lock on `path`; `StoreError` with the text `refusal` if another process holds an excluding lock."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        if not try_lock(handle, shared=shared):
            raise StoreError(refusal)
        yield
    finally:
        os.close(handle)
