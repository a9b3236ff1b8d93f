"""Atomic writing of files and folders, and the one rule for removing or replacing them.

Only what is provably tailback's own is removed. An unfinished folder has tailback's mark and a free lock; a
result has its sealed `meta.json`, which lists every file. No link is followed, and anything unproven is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailback.errors import ResultError

__all__ = [
    "cached",
    "cannot_write",
    "clear_leftovers",
    "demand_replaceable",
    "is_link",
    "is_plain",
    "leftovers",
    "open_plain",
    "read_plain",
    "remove",
    "replaced",
    "sync_folder",
    "try_lock",
    "whole_file",
    "whole_folder",
    "write_text",
]

#: Age in seconds of an empty unfinished folder that counts as left by a process that ended before marking it.
_YOUNG_S = 10.0
#: In an unfinished folder: the file that marks it as tailback's, and the folder being filled.
_MARK, _WHOLE = "tailback-unfinished", "whole"
_MARKED = b"tailback makes a folder here. Nothing uses what a process that ended has left.\n"
_PARTIAL = ".*.????????.partial"


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a path beside `path`; the file written there replaces `path` on success, and is removed on failure.

    A reader sees the old file or the new one, never a part. Does not catch `OSError`.
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
    """`replaced`, creating parent folders, and with `ResultError` if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as partial:
            yield partial
    except OSError as error:
        raise cannot_write(path, error) from None


def cached(name: str) -> Path:
    """The folder of that name in tailback's cache, which a user may delete."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "tailback" / name


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old text or the new one, never a part."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _holds_something(folder: Path) -> str | None:
    """The objection to replacing any folder that is not empty."""
    return "it is not empty" if any(folder.iterdir()) else None


@contextmanager
def whole_folder(path: Path, objection: Callable[[Path], str | None] = _holds_something) -> Iterator[Path]:
    """Yield a new folder beside `path`, which replaces `path` in one step on success.

    An existing folder is replaced if it is empty, or if `objection` returns None; it returns why a folder is not
    certainly tailback's own. Raises `ResultError` if the folder cannot be written; the existing one is then unchanged.
    Unfinished folders of killed processes beside it are removed first.
    """
    # A sibling, so that the rename stays within one file system.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    whole = partial / _WHOLE
    held = contextlib.ExitStack()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        demand_replaceable(path, objection)
        clear_leftovers(path.parent)
        partial.mkdir()
        with contextlib.suppress(ModuleNotFoundError, PermissionError):
            try_lock(held.enter_context(_open_folder(partial)))
        # After the lock: a process that sees the mark and a free lock knows that the owner has ended.
        (partial / _MARK).write_bytes(_MARKED)
        whole.mkdir()
        yield whole
        for file in sorted(whole.rglob("*")):
            sync_folder(file) if file.is_dir() else _sync(file)
        sync_folder(whole)
        # Another process may have created it meanwhile.
        demand_replaceable(path, objection)
        _put_in_place(whole, path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        # With the lock still held, so that no other process removes it at the same time.
        shutil.rmtree(partial, ignore_errors=True)
        held.close()


def demand_replaceable(path: Path, objection: Callable[[Path], str | None]) -> None:
    """Raise `ResultError` unless there is nothing at `path`, an empty folder, or one without `objection`."""
    if is_link(path):
        raise ResultError(f"{path} is a link and is left alone. Give the folder itself, or another one.")
    if not path.exists():
        return
    if not path.is_dir():
        raise ResultError(f"{path} is a file. Give a folder for the result.")
    if not any(path.iterdir()):
        return
    found = objection(path)
    if found is not None:
        raise ResultError(f"{path} holds something else than a result and is left alone: {found}. Give another folder.")


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder if it is free. The system releases the lock when its holder ends.

    Raises `ModuleNotFoundError` where there are no such locks (Windows).
    """
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def leftovers(folder: Path) -> Iterator[Path]:
    """Unfinished folders in `folder` that tailback made and no process holds; empty on systems without locks."""
    for left in sorted(folder.glob(_PARTIAL)):
        with contextlib.suppress(OSError, ModuleNotFoundError), _open_folder(left) as handle:
            if not try_lock(handle):
                continue
            young = time.time() - os.fstat(handle).st_mtime <= _YOUNG_S
            if _is_marked(handle) or (not young and _is_empty(handle)):
                yield left


def clear_leftovers(folder: Path) -> int:
    """Remove the unfinished folders in `folder` whose process has ended; returns how many."""
    cleared = 0
    for left in leftovers(folder):
        with contextlib.suppress(OSError):
            remove(folder, left.name)
            cleared += 1
    return cleared


def _is_empty(folder: int) -> bool:
    with os.scandir(folder) as found:
        return next(found, None) is None


def _is_marked(folder: int) -> bool:
    try:
        handle = os.open(_MARK, _READ_PLAIN | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return False
    with os.fdopen(handle, "rb") as file:
        return stat.S_ISREG(os.fstat(handle).st_mode) and file.read(len(_MARKED) + 1) == _MARKED


def remove(root: Path, *below: str) -> None:
    """Remove the file or folder `below` the folder `root`, without following links. Raises `OSError`.

    The caller must have proven that it is tailback's own. A link in its place is refused; links inside a folder are
    removed, but not their targets.
    """
    *way, name = below
    if os.unlink not in os.supports_dir_fd:
        # Windows: links need a privilege there.
        path = root.joinpath(*below)
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        return
    with contextlib.ExitStack() as stack:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, handle)
        for step in way:
            handle = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            stack.callback(os.close, handle)
        kind = os.lstat(name, dir_fd=handle).st_mode
        if stat.S_ISDIR(kind):
            shutil.rmtree(name, dir_fd=handle)
        elif stat.S_ISREG(kind):
            os.unlink(name, dir_fd=handle)
        else:
            raise OSError(errno.EINVAL, "it is no ordinary file or folder", str(root.joinpath(*below)))


def is_link(path: Path) -> bool:
    """Whether `path` itself is a link or, on Windows, a junction."""
    return path.is_symlink() or (sys.version_info >= (3, 12) and path.is_junction())


def is_plain(path: Path) -> bool:
    """Whether `path` is a regular file, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


#: Opening a FIFO without a writer must not block.
_READ_PLAIN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_plain(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading. Raises `OSError` if it is a device, a FIFO or a socket, which may never end.

    A link to a regular file is followed, as git-annex and similar tools store results as links.
    """
    handle = os.open(path, _READ_PLAIN)
    with os.fdopen(handle, "rb") as file:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is a device, a FIFO or a socket, not an ordinary file", str(path))
        yield file


def read_plain(path: Path) -> bytes:
    """The bytes of a regular file; `OSError` as by `open_plain`."""
    with open_plain(path) as file:
        return file.read()


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0))
    try:
        yield handle
    finally:
        os.close(handle)


def cannot_write(target: Path, error: OSError) -> ResultError:
    """The error for a file or folder that cannot be written, with the fix."""
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
    """Flush a folder's entries to disk (fsync); does nothing where folders cannot be synced."""
    if os.name == "posix":
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(whole: Path, target: Path) -> None:
    """Rename the new folder to its place, in one step even if an earlier folder exists there."""
    if not target.exists() or not any(target.iterdir()):
        if target.exists() and os.name != "posix":
            target.rmdir()
        whole.rename(target)
    elif not _exchange(whole, target):
        # Two steps if the system cannot exchange folders: in between, the old folder is inside the unfinished one.
        old = whole.with_name("old")
        target.rename(old)
        try:
            whole.rename(target)
        except OSError:
            old.rename(target)
            raise
    sync_folder(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders atomically if the system can (Linux renameat2)."""
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
