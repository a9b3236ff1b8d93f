"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailback.errors import ResultError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; what was written there takes its place if all went well.

    A reader sees the old file or the new one, never a part. Raises `ResultError` where nothing can be written.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        reason, fix = _explained(error)
        raise ResultError(f"{path} cannot be written: {reason}. {fix}. Nothing was changed.") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _explained(error: OSError) -> tuple[str, str]:
    if error.errno == errno.ENOSPC:
        return "the disk is full", "Free some space, or give another folder"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "permission denied", "Give a folder you may write to"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "part of its path is a file, not a folder", "Give another folder"
    return (error.strerror or str(error)), "Give another folder"
