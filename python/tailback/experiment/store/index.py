"""The index of a store: one row per run, appended to journals, folded into Parquet.

Each writer appends to its own journal (one JSON object per line) and holds a lock on it while it runs. When the journal
is long enough, or the writer ends, its rows become a Parquet file of the same stem. A journal with a free lock belongs
to a killed writer; the next writer folds it. Rows may briefly be seen twice, but are never lost: readers read journals
before Parquet, and take one row per key.

A line of a journal ends with its own checksum, a Parquet file has its checksum in its name (`STEM.CHECKSUM.parquet`).
A damaged line or file is left out with a warning, and the next writer sets it aside under a name that ends with
`.damaged`. Those of tailback 0.1 have no checksums and are read as well.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import os
import re
import secrets
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tailback.checksums import KeptWarning, digest
from tailback.errors import StoreError
from tailback.experiment.store.axes import is_axis
from tailback.experiment.store.locks import try_lock
from tailback.files import is_plain, open_plain, read_plain, replaced

__all__ = ["Follower", "Writer", "as_frame", "conflicts", "latest", "new_stem", "read_journal"]

Row = dict[str, Any]

#: Rows of a journal before it is folded: about 20 MB of text, and a few MB as Parquet.
FOLD_AFTER = 10_000
#: Seconds between fsyncs: a finished run survives a killed process at once, and a power cut after this time.
SYNC_EVERY_S = 1.0

_STEM = r"\d{8}T\d{6}-[0-9a-f]{4,8}"
_PART = re.compile(rf"{_STEM}(\.[0-9a-f]{{32}})?\.parquet")
_JOURNAL = re.compile(rf"{_STEM}(\.sums)?\.ndjson")
#: Leftovers of killed writers: a partial Parquet file; and what was damaged.
_HALF_PART = re.compile(rf"\.{_STEM}\.[0-9a-f]{{32}}\.parquet\.[0-9a-f]{{8}}\.partial")
_DAMAGED = re.compile(rf"{_STEM}\.damaged")


def parts(folder: Path) -> list[Path]:
    """The Parquet files of the index in a store's folder: regular files with names that tailback writes."""
    return _named(folder / "index", _PART)


def journals(folder: Path) -> list[Path]:
    """The journals in a store's folder: regular files with names that tailback writes."""
    return _named(folder / "journal", _JOURNAL)


def damaged(folder: Path) -> list[Path]:
    """Journals with lines that could not be read, and damaged Parquet files, that writers set aside."""
    return [*_named(folder / "journal", _DAMAGED), *_named(folder / "index", _DAMAGED)]


def leftovers(folder: Path) -> list[Path]:
    """Leftovers of killed writers, and damaged files."""
    return [*_named(folder / "index", _HALF_PART), *damaged(folder)]


def _named(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and is_plain(path))


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
    "tables_sha256": pl.String,
    "scenario": pl.String,
}


# --- Journals -------------------------------------------------------------------------------------------------


#: Suffix of a journal whose lines have checksums.
_SUMMED = ".sums.ndjson"
#: Current suffixes of columns, by their suffix in tailback 0.1.
_FORMER = {f".felt_{key}": f".experience_{key}" for key in ("median_ms", "p95_ms", "lost", "jitter_ms", "mos")}
_SUM = re.compile(rb',"sha256":"([0-9a-f]{16})"\}$')


class Journal(NamedTuple):
    """The rows read from a journal."""

    rows: list[Row]
    #: Offset of the next row.
    end: int
    #: Number of lines that are not rows, or whose checksum differs.
    damaged: int


def read_journal(path: Path, offset: int = 0) -> Journal:
    """The complete rows from `offset` on; an incomplete last line is left for later, as its run is not finished."""
    with open_plain(path) as file:
        file.seek(offset)
        data = file.read()
    end = data.rfind(b"\n") + 1
    lines = data[:end].split(b"\n")[:-1]
    summed = path.name.endswith(_SUMMED)
    # Complete lines may follow one that a power cut truncated.
    rows = [row for row in (_row(line, summed) for line in lines) if row is not None]
    # The byte after a complete row is its newline.
    damaged_end = summed and _row(data[end:-1], summed) is not None
    return Journal(rows, offset + end, len(lines) - len(rows) + damaged_end)


def _row(line: bytes, summed: bool) -> Row | None:
    if summed:
        found = _SUM.search(line)
        if found is None or digest(line[: found.start()])[:16] != found[1].decode():
            return None
        line = line[: found.start()] + b"}"
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or "key" not in row:
        return None
    return {_now(name): value for name, value in row.items()} if b".felt_" in line else row


@functools.lru_cache(maxsize=4096)
def _now(column: str) -> str:
    """The current name of a column. Cached, as every row asks for the same few."""
    flow, dot, key = column.rpartition(".")
    return flow + _FORMER.get(dot + key, dot + key)


def complaint(path: Path, read: Journal) -> str | None:
    """The warning for a damaged journal, or None."""
    if not read.damaged:
        return None
    return f"{path}: {read.damaged} of its lines cannot be read. The same sweep runs what they were about again"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _line(row: Row) -> bytes:
    # JSON has no NaN.
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    text = _encode(plain).encode()[:-1]
    return text + f',"sha256":"{digest(text)[:16]}"}}\n'.encode()


def as_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as a frame: common columns first, numbers as numbers; a column with numbers and words as text."""
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
    """Concatenated frames; a column that is text in one frame becomes text in all."""
    words = {name for frame in frames for name, dtype in frame.schema.items() if dtype == pl.String}
    alike = [
        frame.with_columns(pl.col(name).cast(pl.String) for name in frame.columns if name in words) for frame in frames
    ]
    return pl.concat(alike, how="diagonal_relaxed") if alike else as_frame([])


def latest(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per key and point: of success before failure, then a row with tables, then the newest.

    Points of a key are one scenario in different words, as a queue of "1bdp" or "100ms". Points that agree in their
    axes, where they have both, are one: it has the axes of all, and the sweep that came first.
    """
    order = frame.sort(pl.col("status") == "ok", "tables", "finished", descending=True, nulls_last=True)
    runs = order.unique("key", keep="first", maintain_order=True)
    axes = [name for name in frame.columns if is_axis(name)]
    points = (
        frame.sort("finished", "sweep", "point", nulls_last=True)
        .select("key", "sweep", "point", "scenario", *axes)
        .with_columns(pl.col(axes).backward_fill().forward_fill().over("key"))
        .unique(["key", *axes], keep="first", maintain_order=True)
    )
    joined = runs.drop(points.columns[1:]).join(points, on="key").select(frame.columns)
    return joined.sort("finished", "key", "sweep", "point", nulls_last=True)


def conflicts(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of keys whose runs succeeded with different numbers, which one engine never produces."""
    several = frame.filter(pl.col("status") == "ok").filter(pl.col("key").is_duplicated())
    measured = [
        name for name, kind in frame.schema.items() if name not in COLUMNS and not is_axis(name) and kind.is_numeric()
    ]
    if several.is_empty() or not measured:
        return frame.clear()
    differ = pl.any_horizontal(pl.col(measured).drop_nulls().n_unique() > 1)
    keys = several.group_by("key").agg(differ.alias("differ")).filter("differ")["key"]
    return several.filter(pl.col("key").is_in(keys.implode())).sort("key", "finished", nulls_last=True)


# --- Writing --------------------------------------------------------------------------------------------------


def new_stem() -> str:
    """A new, unique name for a journal or part, sorted by time."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def write_part(folder: Path, stem: str, frame: pl.DataFrame) -> Path:
    """Write a Parquet file of the index, with its checksum in its name. Raises `OSError`."""
    sink = io.BytesIO()
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    data = sink.getvalue()
    path = folder / "index" / f"{stem}.{digest(data)[:32]}.parquet"
    with replaced(path) as partial:
        partial.write_bytes(data)
    return path


def fold_abandoned(folder: Path) -> int:
    """Fold the journals of ended writers into Parquet; returns how many."""
    folded = 0
    for path in journals(folder):
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if try_lock(handle) and os.fstat(handle).st_nlink:
                    _fold(folder, path)
                    folded += 1
            finally:
                os.close(handle)
    return folded


def _fold(folder: Path, journal: Path) -> None:
    read = read_journal(journal)
    if read.rows:
        write_part(folder, stem_of(journal), as_frame(read.rows))
    wrong = complaint(journal, read)
    if wrong is None:
        journal.unlink()
    else:
        journal.rename(journal.with_name(f"{stem_of(journal)}.damaged"))
        warnings.warn(wrong, KeptWarning, stacklevel=2)


def stem_of(path: Path) -> str:
    """The stem that a journal and its Parquet file share."""
    return path.name.partition(".")[0]


def is_shared(folder: Path, own: Path) -> bool:
    """Whether another writer is active."""
    for path in journals(folder):
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
    """Appends rows. Use it from one thread at a time; several writers, in any processes, may share a store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size = self._count = 0
        #: Stems of all its journals, and so of their Parquet files.
        self.stems: set[str] = set()
        self._synced = time.monotonic()
        fold_abandoned(folder)
        self._open()

    def _open(self) -> None:
        while True:
            self.journal = self._folder / "journal" / f"{new_stem()}{_SUMMED}"
            self._handle = os.open(self.journal, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o644)
            # Another writer may have removed it as abandoned, between creation and lock.
            if try_lock(self._handle) and os.fstat(self._handle).st_nlink:
                self._size = self._count = 0
                self.stems.add(stem_of(self.journal))
                return
            os.close(self._handle)

    def add(self, row: Row) -> None:
        """Append a row. If that fails nothing of the row remains, and `StoreError` gives the reason."""
        line = _line(row)
        written = 0
        try:
            while written < len(line):
                written += os.write(self._handle, line[written:])
        except BaseException as error:
            # An interrupt after the last byte undoes nothing: the run is finished and its row is complete.
            if os.fstat(self._handle).st_size == self._size + len(line):
                self._size += len(line)
                self._count += 1
            else:
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
        """Fold the journal and release it. On a full disk it remains complete, and the next writer folds it."""
        try:
            _fold(self._folder, self.journal)
        except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
            self._count = 0
            self._unfolded = str(getattr(error, "strerror", None) or error)
            return False
        os.close(self._handle)
        return True

    def close(self) -> None:
        """Fold the rows. Nothing may be added afterwards."""
        if not self._retire():
            os.close(self._handle)
            warnings.warn(
                f"the index of {self._folder} cannot be written: {self._unfolded}. Nothing is lost: the runs are in "
                f"{self.journal}, and the next sweep on this store puts them into the index",
                KeptWarning,
                stacklevel=2,
            )


# --- Reading while others write -------------------------------------------------------------------------------


class Follower:
    """Reads rows added since the last look, without those of the writer `own`."""

    def __init__(self, folder: Path, columns: Sequence[str] | None = None, own: Writer | None = None) -> None:
        self._folder = folder
        self._columns = columns
        self._own = own
        self._offsets: dict[str, int] = {}
        self._parts: set[str] = set()

    def look(self) -> list[Row]:
        """New rows, in no particular order; some may be repeated."""
        out: list[Row] = []
        own = self._own.stems if self._own else ()
        for path in journals(self._folder):
            if stem_of(path) in own:
                continue
            with contextlib.suppress(FileNotFoundError):
                read = read_journal(path, self._offsets.get(path.name, 0))
                self._offsets[path.name] = read.end
                out += read.rows if self._columns is None else [chosen(row, self._columns) for row in read.rows]
                if read.damaged:
                    warnings.warn(str(complaint(path, read)), KeptWarning, stacklevel=2)
        for path in parts(self._folder):
            if path.name not in self._parts and stem_of(path) not in own:
                self._parts.add(path.name)
                frame = read_sound(path, set_aside=self._own is not None)
                if frame is None:
                    continue
                wanted = [name for name in self._columns or frame.columns if name in frame.columns]
                out += frame.select(wanted).to_dicts()
        return out


def chosen(row: Row, columns: Sequence[str]) -> Row:
    """A row's values of these columns, without missing ones."""
    return {name: row[name] for name in columns if name in row}


class DamagedPart(StoreError):
    """A Parquet file of the index that differs from what was written."""


def read_sound(path: Path, *, set_aside: bool = False) -> pl.DataFrame | None:
    """A Parquet file of the index; None, with a warning, if it is damaged, and on request it is then set aside."""
    try:
        return read_part(path)
    except DamagedPart as error:
        aside = path.with_name(f"{stem_of(path)}.damaged")
        more = f". It is now {aside.name}, which tailback results gc removes" if set_aside else ""
        if set_aside:
            with contextlib.suppress(FileNotFoundError):  # Another writer was first.
                path.rename(aside)
        warnings.warn(f"{error}{more}", KeptWarning, stacklevel=3)
        return None


def read_part(path: Path) -> pl.DataFrame:
    """A Parquet file of the index, compared with its checksum; `DamagedPart` if it differs."""
    try:
        data = read_plain(path)
    except FileNotFoundError:
        raise DamagedPart(f"{path} was set aside as damaged. The same sweep runs again what it held") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        expected = checksum_of(path)
        if expected is not None and digest(data)[:32] != expected:
            raise ValueError("it differs from its checksum")
        # Read with pyarrow, which reports an error for a file on which polars panics.
        frame = pl.from_arrow(pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read())
    except (OSError, ValueError, KeyError, IndexError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise DamagedPart(f"{path} is damaged: {error}. The same sweep runs again what it held") from None
    assert isinstance(frame, pl.DataFrame)
    return frame.rename(_now)


def checksum_of(part: Path) -> str | None:
    """The checksum in the name of a part; None for a part that tailback 0.1 wrote."""
    pieces = part.name.split(".")
    return pieces[1] if len(pieces) == 3 else None
