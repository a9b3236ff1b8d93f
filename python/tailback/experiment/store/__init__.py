"""A store: a folder that keeps every run once, identified by scenario and engine, with an index for SQL.

A run's key is a digest of its resolved scenario, the engine and the metrics, so that an equal request finds the stored
run. `docs/sweeps.md` describes the files, and queries from DuckDB.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Container, Generator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from tailback import _core
from tailback.checksums import KeptWarning, Verified
from tailback.consent import allow_bucket, demand_bucket_allowed
from tailback.errors import ResultError, StoreError
from tailback.experiment.store import index
from tailback.experiment.store.axes import filled
from tailback.experiment.store.index import Follower, Writer
from tailback.experiment.store.locks import locked
from tailback.experiment.store.merging import MergeConflict, Merged, merged
from tailback.experiment.store.objects import Bucket, bucket
from tailback.experiment.store.query import QueryError, answer
from tailback.files import clear_leftovers, is_link, is_plain, leftovers, read_plain, remove, replaced, whole_folder
from tailback.result import Result, layout, open_result

__all__ = [
    "Collected",
    "Follower",
    "MergeConflict",
    "Merged",
    "QueryError",
    "Store",
    "StoreError",
    "Writer",
    "engine_fingerprint",
    "is_store",
    "open_store",
    "run_key",
]

#: Version of the store's layout.
FORMAT = 1
_MARK = "store.json"
_RUN = re.compile(r"[A-Za-z0-9_-]+")


@cache
def engine_fingerprint() -> str:
    """The engine's version and a digest of its binary, so that a rebuilt engine never reuses old runs."""
    binary = Path(str(_core.__file__)).read_bytes()
    return f"{_core.version()}+{hashlib.sha256(binary).hexdigest()[:12]}"


def run_key(scenario_json: str, *more: str, engine: str = "") -> str:
    """The key of a run: a digest of the resolved scenario, the engine, and `more`, which identifies the kept values.

    `engine` is the fingerprint of the one that ran it; "" for this one.

    >>> run_key("{}") == run_key("{}"), run_key("{}") == run_key("{}", "loss")
    (True, False)
    """
    return hashlib.sha256("\n".join((engine or engine_fingerprint(), scenario_json, *more)).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Collected:
    """What `Store.gc` removed, or would remove in a dry run."""

    rows: int
    tables: int
    leftovers: int
    bytes: int
    #: Paths among the tables that are not certainly the store's own, and so were not removed.
    left: tuple[Path, ...] = ()


class Store:
    """A folder of runs. Opening it reads nothing; several processes may read and write it at once.

    `tables_at` is the address of a bucket in which a new store keeps its tables. An existing store must name the same
    address. A bucket is accessed only if `tables_at` or TAILBACK_TABLES_AT in the environment names it, because the
    folder may come from a stranger.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "store")
    >>> with store.writer() as writer:
    ...     writer.add({"key": "k1", "status": "ok", "finished": 1.0, "goodput_mbps": 9.5})
    >>> store.query("SELECT avg(goodput_mbps) AS mean FROM runs").item()
    9.5
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True, tables_at: str | None = None) -> None:
        self.folder = Path(folder)
        mark = self.folder / _MARK
        if create and not mark.exists():
            self._create(tables_at)
        try:
            stamp = json.loads(read_plain(mark).decode("utf-8"))
            found, kept_at = stamp["format"], stamp.get("tables")
        except FileNotFoundError:
            raise StoreError(
                f"there is no store {self.folder}. Make one with: tailback sweep GRID --store {self.folder}"
            ) from None
        except OSError as error:
            raise StoreError(f"{mark} cannot be read: {error.strerror or error}.") from None
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{mark} is damaged. A store of this version says: {_stamp()}") from None
        #: Address of the bucket with the store's tables; None if they are in its folder.
        self.tables_at = None if kept_at is None else str(kept_at)
        if tables_at is not None:
            allow_bucket(tables_at)
        if tables_at is not None and tables_at != kept_at:
            where = f"at {kept_at}" if kept_at else "in its own folder"
            raise StoreError(f"{self.folder} keeps its tables {where}, not at {tables_at}. Give another folder.")
        if found != FORMAT:
            raise StoreError(
                f"{self.folder} has layout {found}; this tailback reads and writes layout {FORMAT}. It is left as it "
                f"is: give another folder, or use the tailback that made it."
            )

        self._demand_no_links()

    @property
    def bucket(self) -> Bucket | None:
        """The bucket with the tables, or None; `StoreError` unless the caller has named the same address."""
        if self.tables_at is None:
            return None
        demand_bucket_allowed(self.folder, self.tables_at)
        return bucket(self.tables_at)

    def _demand_no_links(self) -> None:
        """Refuse a store with symbolic links for its own folders: it must write and remove only in its folder."""
        for name in ("index", "journal", "tables", "lock"):
            path = self.folder / name
            with contextlib.suppress(FileNotFoundError):
                kind = os.lstat(path).st_mode
                if not (stat.S_ISREG(kind) if name == "lock" else stat.S_ISDIR(kind)):
                    what = "a link" if stat.S_ISLNK(kind) else "something else"
                    raise StoreError(
                        f"{path} is {what}, and a store keeps what is its own in its own folder. Put a "
                        f"{'file' if name == 'lock' else 'folder'} there. For tables elsewhere: a new store "
                        "with --tables-at"
                    )

    def _create(self, tables_at: str | None) -> None:
        if tables_at is not None:
            bucket(tables_at).demand()
        try:
            # Another process may be creating the same store.
            if self.folder.exists() and not (self.folder.is_dir() and _holds_only_ours(self.folder)):
                raise StoreError(f"{self.folder} is there but is no store. Give a new or empty folder.")
            self._demand_no_links()
            for name in ("index", "journal", "tables"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / "lock").touch()
            # Written last, because this file makes the folder a store.
            with replaced(self.folder / _MARK) as partial:
                partial.write_text(_stamp(tables_at), encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be made: {error.strerror or error}.") from None

    # -- writing

    @contextlib.contextmanager
    def writer(self) -> Generator[Writer, None, None]:
        """A context with a `Writer`; at its end the rows are folded into Parquet."""
        try:
            with self.open():
                for shard in self._shards():
                    clear_leftovers(shard)
                writer = Writer(self.folder)
                try:
                    yield writer
                finally:
                    writer.close()
        except OSError as error:
            more = " Make room and start the same sweep again." if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise StoreError(f"{self.folder} cannot be written: {error.strerror or error}.{more}") from None

    def shared_with(self, writer: Writer) -> bool:
        """Whether another writer is active on this store."""
        return index.is_shared(self.folder, writer.journal)

    def follow(self, columns: list[str] | None = None, own: Writer | None = None) -> Follower:
        """A `Follower` of present and new rows, without those of `own`."""
        return Follower(self.folder, columns, own)

    # -- reading

    def frame(self) -> pl.DataFrame:
        """One row per run: the newest success, or else its failure. A run of several points has a row for each."""
        with self.open():
            return filled(index.latest(self.everything()))

    @contextlib.contextmanager
    def open(self) -> Generator[None, None, None]:
        """Hold a shared lock, so that the store is not tidied up meanwhile."""
        busy = f"{self.folder} is being tidied up (tailback results gc). Try again when that is done."
        with locked(self.folder / "lock", busy, shared=True):
            yield

    def everything(self) -> pl.DataFrame:
        """All rows, possibly several per key. Call it while the store is `open`."""
        # Journals first: one that is folded meanwhile is read twice, not missed.
        frames = []
        for path in self._journals():
            with contextlib.suppress(FileNotFoundError):
                read = index.read_journal(path)
                frames.append(index.as_frame(read.rows))
                wrong = index.complaint(path, read)
                if wrong is not None:
                    warnings.warn(wrong, KeptWarning, stacklevel=3)
        frames += [frame for path in self.parts() if (frame := index.read_sound(path)) is not None]
        if any(index.checksum_of(path) is None for path in self.parts()):
            text = (
                f"{self.folder} has runs kept by tailback 0.1, without checksums. `tailback results gc` gives them some"
            )
            warnings.warn(text, KeptWarning, stacklevel=3)
        return index.together(frames)

    def _journals(self) -> list[Path]:
        return index.journals(self.folder)

    def parts(self) -> list[Path]:
        """The Parquet files of the index."""
        return index.parts(self.folder)

    def query(self, sql: str) -> pl.DataFrame:
        """The answer to an SQL query (Polars' dialect). The runs are the table `runs`; quote a column with a dot."""
        return answer(self.frame(), sql)

    def columns(self) -> pl.DataFrame:
        """The columns for queries: `column`, `type`, and an `example` from the newest run that has a value."""
        frame = self.frame()
        newest = [frame[name].drop_nulls().tail(1).to_list() for name in frame.columns]
        examples = [str(values[0]).splitlines()[0][:60] if values and str(values[0]) else "" for values in newest]
        return pl.DataFrame({"column": frame.columns, "type": list(map(str, frame.dtypes)), "example": examples})

    def find(self, start: str) -> dict[str, Any]:
        """The row of the run whose key begins with `start`; `StoreError` if there is not exactly one."""
        frame = self.frame()
        found = frame.filter(pl.col("key").str.starts_with(start)).unique("key", keep="first", maintain_order=True)
        if len(found) != 1:
            what = "no run" if found.is_empty() else f"{len(found)} runs"
            raise StoreError(f"{what} of {self.folder} has a key that begins with {start}. See: tailback results ls")
        return {name: value for name, value in found.to_dicts()[0].items() if value is not None}

    def tables_folder(self, run: str) -> Path:
        """Folder of a run's tables in the store, or the target of a fetch from the bucket."""
        if not _RUN.fullmatch(run):
            raise StoreError(
                f"{self.folder} has a run called {run!r}, which is no name of a folder. Its index was edited."
            )
        shard = self.folder / "tables" / run[:2]
        if is_link(shard):
            raise StoreError(f"{shard} is a link, and a store keeps what is its own in its own folder. Remove the link")
        return shard / run

    def place_of_tables(self, run: str) -> str:
        """Where a worker saves a run's tables: a folder, or the address of the bucket."""
        return self.bucket.url if self.bucket is not None else str(self.tables_folder(run).absolute())

    def result(self, start: str) -> Result:
        """A kept result by the beginning of its key; `StoreError` if its tables were not kept."""
        row = self.find(start)
        run, expected = str(row["run"]), row.get("tables_sha256")
        folder = self.tables_folder(run)
        if self.bucket is not None and row.get("tables"):
            if not folder.exists() or layout.seal_of(folder) != expected:
                with whole_folder(folder, layout.objection) as partial:
                    self.bucket.fetch(run, str(expected), partial)
        elif not folder.exists():
            raise StoreError(
                f"the tables of {row['key']} were not kept. Sweep with --keep tables, or run its scenario again: "
                f"tailback results show {row['key']} --scenario"
            )
        opened = open_result(folder)
        if expected is not None and layout.seal_of(folder) != expected:
            raise StoreError(f"{folder} is not what {row['key']} left there. Remove it and start its sweep again.")
        return opened

    def has_tables(self, run: str, expected: str | None) -> bool:
        """Whether all tables of a run exist; in a folder they are compared with `expected`, their checksum."""
        if self.bucket is not None:
            return expected is not None and self.bucket.has(run, expected)
        try:
            return layout.verify(self.tables_folder(run), expected).ok
        except ResultError:
            return False

    def verify(self) -> Verified:
        """Compare every file of the store with its checksum."""
        out = Verified()
        rows: dict[str, str | None] = {}
        for path in self._journals():
            with contextlib.suppress(FileNotFoundError):
                read = index.read_journal(path)
                rows |= {str(row["run"]): row.get("tables_sha256") for row in read.rows if row.get("tables")}
                out.files += 1
                wrong = index.complaint(path, read)
                out.damaged += [] if wrong is None else [wrong]
        for path in self.parts():
            try:
                frame = index.read_part(path)
            except StoreError as error:
                out.damaged.append(str(error))
                continue
            kept = [row for row in frame.to_dicts() if row.get("tables")]
            rows |= {str(row["run"]): row.get("tables_sha256") for row in kept}
            out.unchecked += [str(path)] if index.checksum_of(path) is None else []
            out.files += 1
            out.bytes += path.stat().st_size
        out.damaged += [
            f"{path} could not be read. Start its sweep again; tailback results gc removes it"
            for path in index.damaged(self.folder)
        ]
        for run, expected in rows.items():
            try:
                if self.bucket is not None:
                    out.add(self.bucket.verify(run, str(expected)))
                else:
                    out.add(layout.verify(self.tables_folder(run), expected))
            except ResultError as error:
                out.damaged.append(str(error))
        return out

    # -- merging

    def merge(self, *others: Store | str | os.PathLike[str]) -> Merged:
        """Copy the runs of other stores, which are not changed; see `tailback.experiment.store.merging`.

        Raises `MergeConflict`, before anything is written, if a run has different numbers in two stores.
        """
        return merged(self, [other if isinstance(other, Store) else Store(other, create=False) for other in others])

    def take_tables(self, other: Store, run: str, expected: str | None) -> int:
        """Copy the tables of a run from another store and compare them with their checksum; returns their bytes."""
        if self.bucket is None:
            with whole_folder(self.tables_folder(run), layout.objection) as partial:
                return other._give_tables(run, expected, partial)
        if self.bucket == other.bucket and self.has_tables(run, expected):
            return 0
        with tempfile.TemporaryDirectory(prefix="tailback-") as folder:
            size = other._give_tables(run, expected, Path(folder))
            self._put(Path(folder), run)
        return size

    def _put(self, folder: Path, run: str) -> None:
        assert self.bucket is not None
        try:
            self.bucket.put(folder, run)
        except OSError as error:
            raise StoreError(f"{self.bucket.url} cannot be written: {error}") from None

    def _give_tables(self, run: str, expected: str | None, folder: Path) -> int:
        if self.bucket is not None:
            return self.bucket.fetch(run, str(expected), folder).bytes
        source = self.tables_folder(run)
        layout.copy(source, folder)
        # Compares the copy, so that damage before or during copying is found.
        found = layout.verify(folder, expected)
        if not found.ok:
            raise StoreError(
                f"{source} is damaged. Start its sweep again on {self.folder}, which runs it again, then the merge."
            )
        return found.bytes

    # -- tidying up

    def gc(self, *, other_engines: bool = False, failed: bool = False, dry_run: bool = False) -> Collected:
        """Fold journals into one Parquet file and remove what is no longer needed.

        Removes rows that a newer row of the same key replaced, tables without a row, and leftovers of killed writers;
        on request also runs of other engines, and failed runs. Raises `StoreError` while a sweep is writing. With a
        bucket, fetched copies are removed too; the bucket is not changed, as other stores may use it.

        Keeps everything that is not certainly the store's own: links, files with other names than writers use, and
        folders with anything but a result. `Collected.left` names such folders and links among the tables.
        """
        busy = f"{self.folder} is in use by a sweep or a query. Tidy up when that is done."
        with locked(self.folder / "lock", busy, shared=False):
            everything = self.everything()
            kept = index.latest(everything)
            if other_engines:
                kept = kept.filter(pl.col("engine") == engine_fingerprint())
            if failed:
                kept = kept.filter(pl.col("status") == "ok")
            needed = set(kept.filter(pl.col("tables"))["run"]) if self.tables_at is None else set()
            tables, left = self._unneeded_tables(needed)
            unfinished = [*index.leftovers(self.folder), *(one for shard in self._shards() for one in leftovers(shard))]
            freed = sum(_bytes_of(path) for path in [*tables, *unfinished])
            if not dry_run:
                old = [*self.parts(), *self._journals()]
                try:
                    written = index.write_part(self.folder, index.new_stem(), kept) if len(kept) else None
                    # Remove the old files last: after a kill in between, rows exist twice, which readers handle.
                    for path in [*(path for path in old if path != written), *tables, *unfinished]:
                        remove(self.folder, *path.relative_to(self.folder).parts)
                except OSError as error:
                    raise StoreError(f"{self.folder} cannot be tidied up: {error.strerror or error}.") from None
            return Collected(len(everything) - len(kept), len(tables), len(unfinished), freed, tuple(left))

    def _shards(self) -> list[Path]:
        """The folders that hold tables; links are left out."""
        below = self.folder / "tables"
        return sorted(path for path in below.iterdir() if path.is_dir() and not is_link(path)) if below.is_dir() else []

    def _unneeded_tables(self, needed: Container[str]) -> tuple[list[Path], list[Path]]:
        """Results without a row, and paths to keep because they may not be results."""
        shards = self._shards()
        below = self.folder / "tables"
        left = sorted(path for path in below.iterdir() if path not in shards) if below.is_dir() else []
        tables: list[Path] = []
        for path in (path for shard in shards for path in sorted(shard.iterdir()) if path.name[0] != "."):
            if path.name in needed and path.name.startswith(path.parent.name):
                continue
            named = _RUN.fullmatch(path.name) and path.name.startswith(path.parent.name)
            (tables if named and layout.objection(path) is None else left).append(path)
        return tables, left

    def __repr__(self) -> str:
        return f"<tailback.Store {self.folder}>"


def open_store(folder: str | os.PathLike[str], *, tables_at: str | None = None) -> Store:
    """Open an existing store; `StoreError` if there is none, or if its version differs.

    `tables_at` allows access to the bucket of this address, which the store must name; without it no bucket is
    accessed.
    """
    return Store(folder, create=False, tables_at=tables_at)


def is_store(folder: str | os.PathLike[str]) -> bool:
    """Whether this folder is a store; does not read the runs."""
    return (Path(folder) / _MARK).is_file()


def _holds_only_ours(folder: Path) -> bool:
    ours = {"index", "journal", "tables", "lock", _MARK}
    return all(path.name in ours or path.name.startswith(f".{_MARK}.") for path in folder.iterdir())


def _stamp(tables_at: str | None = None) -> str:
    stamp = {"format": FORMAT, "what": "a store of tailback", "version": _core.version()}
    return json.dumps(stamp if tables_at is None else stamp | {"tables": tables_at}) + "\n"


def _bytes_of(path: Path) -> int:
    files = [path] if is_plain(path) else [file for file in path.rglob("*") if is_plain(file)]
    return sum(file.stat().st_size for file in files)
