"""Verifies a stored result or store against its checksums."""

from __future__ import annotations

import os
from pathlib import Path

from tailback.checksums import Verified
from tailback.experiment.store import Store
from tailback.result import layout

__all__ = ["verify"]


def verify(folder: str | os.PathLike[str], *, tables_at: str | None = None) -> Verified:
    """Read every file of a result or a store and compare it with its checksum.

    `tables_at` is the address of the bucket with the store's tables, if it uses one. Raises `ResultError` if `folder`
    is neither, or if the store names a bucket that the caller has not named.

    >>> import tailback as tb, tempfile
    >>> result = tb.run(tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk()], duration="1s"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.verify(result.save(f"{folder}/one")).ok
    True
    """
    path = Path(folder)
    return (
        Store(path, create=False, tables_at=tables_at).verify()
        if (path / "store.json").is_file()
        else layout.verify(path)
    )
