"""The index of a store: one row a run, appended to journals, folded into Parquet.

Each writer appends to a journal of its own (a JSON object a line) and holds a lock on it while it lives. When the
journal is long enough, or the writer ends, its rows become a Parquet file of the same stem. A journal whose lock is
free was left by a writer that was killed; the next writer folds it. Rows may be seen twice for a moment, never lost:
readers look at journals before Parquet, and take one row a key.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tailback.files import replaced
from tailback.store.locks import StoreError, try_lock

__all__ = ["Follower", "Writer", "as_frame", "latest", "read_journal"]

Row = dict[str, Any]

#: Rows of a journal before it is folded: some 20 MB of text, a part of a few MB.
FOLD_AFTER = 10_000
#: A finished run survives a killed process at once, a power cut after this many seconds.
SYNC_EVERY_S = 1.0

#: The columns every row has, in this order, with their types.
COLUMNS: dict[str, Any] = {
    "key": pl.String,
    "run": pl.String,
    "engine": pl.String,
    "status": pl.String,
    "error": pl.String,
    "sweep": pl.String,
    "point": pl.Int64,
    "seed": pl.Int64,
    "name": pl.String,
    "duration_s": pl.Float64,
    "wall_s": pl.Float64,
    "finished": pl.Float64,
    "tables": pl.Boolean,
    "scenario": pl.String,
}


# --- Journals -------------------------------------------------------------------------------------------------


def read_journal(path: Path, offset: int = 0) -> tuple[list[Row], int]:
    """The whole rows from `offset` on, and where the next one begins. A torn last line is left for later."""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    end = data.rfind(b"\n") + 1
    rows = []
    for line in data[:end].splitlines():
        # A line torn by a power cut may be followed by whole ones.
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and "key" in row:
                rows.append(row)
    return rows, offset + end


def _line(row: Row) -> bytes:
    def plain(value: Any) -> Any:
        # JSON has no NaN.
        return None if isinstance(value, float) and not math.isfinite(value) else value

    plain_row = {key: plain(value) for key, value in row.items()}
    return (json.dumps(plain_row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n").encode()


def as_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as a frame: the common columns first, numbers as numbers; a column that also holds words as text."""
    names = list(COLUMNS) + sorted({key for row in rows for key in row} - set(COLUMNS))
    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        dtype = COLUMNS.get(name) or _type(values)
        if dtype is pl.String:
            values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        columns.append(pl.Series(name, values, dtype=dtype, strict=False))
    return pl.DataFrame(columns)


def _type(values: Iterable[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return pl.Float64
    return pl.Boolean if kinds == {bool} else pl.String


def together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Frames below each other; a column that is text in one is text in all."""
    words = {name for frame in frames for name, dtype in frame.schema.items() if dtype == pl.String}
    alike = [
        frame.with_columns(pl.col(name).cast(pl.String) for name in frame.columns if name in words) for frame in frames
    ]
    return pl.concat(alike, how="diagonal_relaxed") if alike else as_frame([])


def latest(frame: pl.DataFrame) -> pl.DataFrame:
    """One row a key: a run that succeeded before one that failed, then the newest."""
    order = frame.sort(pl.col("status") == "ok", "finished", descending=[True, True], nulls_last=True)
    return order.unique("key", keep="first", maintain_order=True).sort("finished", "key", nulls_last=True)


# --- Writing --------------------------------------------------------------------------------------------------


def _stem() -> str:
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def write_part(folder: Path, stem: str, frame: pl.DataFrame) -> Path:
    """Put a Parquet file into the index."""
    path = folder / "index" / f"{stem}.parquet"
    with replaced(path) as partial:
        frame.write_parquet(partial, compression="zstd")
    return path


def fold_abandoned(folder: Path) -> int:
    """Turn the journals of writers that are no more into Parquet; returns how many."""
    folded = 0
    for path in sorted((folder / "journal").glob("*.ndjson")):
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDWR)
            try:
                if try_lock(handle) and os.fstat(handle).st_nlink:
                    _fold(folder, path)
                    folded += 1
            finally:
                os.close(handle)
    return folded


def _fold(folder: Path, journal: Path) -> None:
    rows, _ = read_journal(journal)
    if rows:
        write_part(folder, journal.stem, as_frame(rows))
    journal.unlink()


def is_shared(folder: Path, own: Path) -> bool:
    """Is another writer alive?"""
    for path in (folder / "journal").glob("*.ndjson"):
        if path != own:
            with contextlib.suppress(FileNotFoundError):
                handle = os.open(path, os.O_RDONLY)
                try:
                    if not try_lock(handle, shared=True):
                        return True
                finally:
                    os.close(handle)
    return False


class Writer:
    """Appends rows. One thread at a time; several writers, in any processes, may share a store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size = self._count = 0
        self._synced = time.monotonic()
        fold_abandoned(folder)
        self._open()

    def _open(self) -> None:
        while True:
            self.journal = self._folder / "journal" / f"{_stem()}.ndjson"
            self._handle = os.open(self.journal, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o644)
            # Between creation and lock another writer may have taken it for abandoned and removed it.
            if try_lock(self._handle) and os.fstat(self._handle).st_nlink:
                self._size = self._count = 0
                return
            os.close(self._handle)

    def add(self, row: Row) -> None:
        """Append a row. If it cannot be written whole nothing of it stays, and `StoreError` says why."""
        line = _line(row)
        written = 0
        try:
            while written < len(line):
                written += os.write(self._handle, line[written:])
        except BaseException as error:
            os.ftruncate(self._handle, self._size)
            if isinstance(error, OSError):
                raise StoreError(
                    f"{self._folder} cannot be written: {error.strerror}. The runs finished before are kept; "
                    f"make room and start the same sweep again."
                ) from None
            raise
        self._size += len(line)
        self._count += 1
        if time.monotonic() - self._synced > SYNC_EVERY_S:
            os.fdatasync(self._handle)
            self._synced = time.monotonic()
        if self._count >= FOLD_AFTER and self._retire():
            self._open()

    def _retire(self) -> bool:
        """Fold the journal and let it go. On a full disk it stays, complete; the next writer folds it."""
        try:
            _fold(self._folder, self.journal)
        except OSError:
            self._count = 0
            return False
        os.close(self._handle)
        return True

    def close(self) -> None:
        """Fold what was written. Nothing may be added after."""
        if not self._retire():
            os.close(self._handle)


# --- Reading while others write -------------------------------------------------------------------------------


class Follower:
    """Rows that have come since the last look, whoever wrote them."""

    def __init__(self, folder: Path, columns: Sequence[str] | None = None) -> None:
        self._folder = folder
        self._columns = columns
        self._offsets: dict[str, int] = {}
        self._parts: set[str] = set()

    def look(self) -> list[Row]:
        """New rows, in no particular order; some may have been seen before."""
        out: list[Row] = []
        for path in sorted((self._folder / "journal").glob("*.ndjson")):
            with contextlib.suppress(FileNotFoundError):
                rows, self._offsets[path.stem] = read_journal(path, self._offsets.get(path.stem, 0))
                out += rows
        for path in sorted((self._folder / "index").glob("*.parquet")):
            if path.stem not in self._parts:
                self._parts.add(path.stem)
                frame = read_part(path)
                wanted = [name for name in self._columns or frame.columns if name in frame.columns]
                out += frame.select(wanted).to_dicts()
        return out


def read_part(path: Path) -> pl.DataFrame:
    """A Parquet file of the index."""
    try:
        return pl.read_parquet(path, hive_partitioning=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StoreError(
            f"{path} is damaged: {error}. Remove it and start its sweep again; other runs are in other files."
        ) from None
