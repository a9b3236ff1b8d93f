"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailback.errors import ResultError

__all__ = ["cannot_write", "replaced", "sync_folder", "try_lock", "whole_file", "whole_folder", "write_text"]


#: So long ago a folder was made at least that nobody holds and that counts as left behind.
_YOUNG_S = 10.0


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a path beside `path`; the file written there takes its place if all went well, and else is removed.

    A reader sees the old file or the new one, never a part. `OSError` comes through as it is.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        _sync(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """As `replaced`, making the folders above, and with `ResultError` where nothing can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as partial:
            yield partial
    except OSError as error:
        raise cannot_write(path, error) from None


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`, which takes its place in one step if all went well.

    An earlier folder there is replaced. Raises `ResultError` if it cannot be written; what was there is then untouched.
    What processes have left beside it that were killed while they wrote the same folder is removed first.
    """
    # A sibling, so that the rename stays within one file system.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    held = contextlib.ExitStack()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        partial.mkdir()
        with contextlib.suppress(ModuleNotFoundError, PermissionError):
            try_lock(held.enter_context(_open(partial)))
        yield partial
        for file in sorted(partial.rglob("*")):
            sync_folder(file) if file.is_dir() else _sync(file)
        sync_folder(partial)
        _put_in_place(partial, path)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise cannot_write(path, error) from None
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        held.close()


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Take a lock on an open file or folder if it is free. The system drops it when its holder ends, however it ends.

    Raises `ModuleNotFoundError` where there are no such locks (Windows).
    """
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_leftovers(path: Path) -> None:
    """Remove the unfinished folders beside `path` that nobody holds any more; where nothing can be held, none."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????.partial"):
        with contextlib.suppress(OSError, ModuleNotFoundError), _open(left) as handle:
            # Whoever has just made his is about to hold it.
            if time.time() - left.stat().st_mtime > _YOUNG_S and try_lock(handle):
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _open(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def cannot_write(target: Path, error: OSError) -> ResultError:
    """The error for a file or folder that the system refuses, with what to do about it."""
    reasons = {
        errno.ENOSPC: "the disk is full. Free some space, or give another folder.",
        errno.EDQUOT: "your disk quota is used up. Free some space, or give another folder.",
        errno.EACCES: "the folder is not writable. Give another, or change its permissions.",
        errno.EPERM: "the folder is not writable. Give another, or change its permissions.",
        errno.EROFS: "the file system is read-only. Give another folder.",
        errno.ENOTDIR: "part of the path is a file, not a folder. Give another folder.",
        errno.EEXIST: "part of the path is a file, not a folder. Give another folder.",
        errno.ENAMETOOLONG: "the name is too long. Give a shorter one.",
    }
    reason = reasons.get(error.errno or 0, f"{error.strerror or error}.")
    return ResultError(f"{target} cannot be written: {reason} Nothing was changed.")


def sync_folder(folder: Path) -> None:
    """Have the system keep the names in a folder; where folders cannot be synced, nothing."""
    if os.name == "posix":
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename, in one step also if there is an earlier folder."""
    if not target.exists() or not any(target.iterdir()):
        if target.exists() and os.name != "posix":
            target.rmdir()
        partial.rename(target)
    elif _exchange(partial, target):
        shutil.rmtree(partial, ignore_errors=True)
    else:
        # Two steps where the system cannot exchange: between them the old folder lies beside.
        old = partial.with_suffix(".old")
        target.rename(old)
        try:
            partial.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    sync_folder(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders atomically where the system can (Linux renameat2)."""
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    at_working_folder, exchange = -100, 2
    done = library.renameat2(
        at_working_folder, os.fsencode(one), at_working_folder, os.fsencode(other), ctypes.c_uint(exchange)
    )
    return bool(done == 0)
