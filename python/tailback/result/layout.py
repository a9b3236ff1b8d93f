"""A result as a folder: one Parquet file a table, the scenario as written and as run, and by what it was made."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tailback.errors import ResultError
from tailback.files import cannot_write

if TYPE_CHECKING:
    from tailback.result import Result

#: Version of the folder's layout.
FORMAT = 1
_META = "meta.json"
#: The folder in it for what programs wrote.
_PROGRAMS = "programs"


@dataclass(frozen=True)
class Kept:
    """What a folder says of its result, without the tables."""

    resolved: dict[str, Any]
    toml: str
    meta: dict[str, Any]
    #: How many rows each table has.
    rows: dict[str, int]
    internals_names: list[str]


def write(result: Result, folder: Path) -> None:
    """Fill an empty folder."""
    for name in result.tables:
        _write_table(result.arrow(name), folder / f"{name}.parquet")
    for name, data in result.files.items():
        place = folder / _PROGRAMS / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    meta = result.meta | {"tables": {name: result.rows(name) for name in result.tables}}
    for file_name, text in (
        ("scenario.toml", result.toml),
        ("resolved.json", json.dumps(result.resolved, indent=1, sort_keys=True) + "\n"),
        (_META, json.dumps(meta, indent=1) + "\n"),
    ):
        (folder / file_name).write_text(text, encoding="utf-8")


def read(path: Path) -> Kept:
    """What `write` wrote; `ResultError` if it is missing, no result, damaged, or of another version."""
    if not path.is_dir():
        raise ResultError(f"there is no result folder {path}. Make one with: tailback run SCENARIO --out {path}")
    if not (path / _META).is_file():
        raise ResultError(f"{path} is not a result: it has no {_META}. Give a folder that `tailback run --out` wrote.")
    try:
        meta = json.loads((path / _META).read_text(encoding="utf-8"))
        if meta["format"] != FORMAT:
            raise ResultError(
                f"{path} has layout {meta['format']}, written by tailback {meta.get('version', 'unknown')}; this "
                f"version reads layout {FORMAT}. Run it again: tailback run {path / 'scenario.toml'}"
            )
        kept = Kept(
            resolved=json.loads((path / "resolved.json").read_text(encoding="utf-8")),
            toml=(path / "scenario.toml").read_text(encoding="utf-8"),
            rows={str(name): int(count) for name, count in meta.pop("tables").items()},
            internals_names=list(meta.get("internals_names", [])),
            meta=meta,
        )
        # What every reader goes by; an edited file shall not fail in the middle of a figure.
        for key in ("flows", "links", "instruments", "seed", "duration_ps"):
            kept.resolved[key]
    except OSError as error:
        place = error.filename or path
        raise ResultError(f"{place} cannot be read: {error.strerror or error}. Run its scenario again.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, error) from None
    for name, count in kept.rows.items():
        file = path / f"{name}.parquet"
        try:
            stored = pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowException) as error:
            raise ResultError(f"{file} is missing or damaged: {error}. Run the scenario again.") from None
        if stored != count:
            raise ResultError(f"{file} is damaged: {stored} rows, not {count}. Run the scenario again.")
    return kept


def damaged(path: Path, error: Exception) -> ResultError:
    """The error for a folder whose texts make no result."""
    return ResultError(f"{path} is damaged: {error!r}. Run its scenario again.")


def table(folder: Path, name: str) -> dict[str, Any]:
    """A table's columns, mapped from its file."""
    path = folder / f"{name}.parquet"
    try:
        loaded = pq.read_table(path, memory_map=True)
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f"{path} is damaged: {error}. Run the scenario again.") from None
    return {key: loaded[key].combine_chunks().to_numpy(zero_copy_only=False) for key in loaded.column_names}


def programs(folder: Path) -> dict[str, bytes]:
    """What the programs of a live run wrote, by names such as "download/client.out"."""
    below = folder / _PROGRAMS
    paths = sorted(path for path in below.rglob("*") if path.is_file()) if below.is_dir() else []
    return {path.relative_to(below).as_posix(): path.read_bytes() for path in paths}


def demand_writable(folder: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Raise `ResultError` if `Result.save` would refuse `folder`: better before a long run than after it."""
    target = Path(folder).absolute()
    try:
        if target.exists():
            if not target.is_dir():
                raise ResultError(f"{target} is a file. Give a folder for the result.")
            if any(target.iterdir()):
                if not (target / "meta.json").is_file():
                    raise ResultError(
                        f"{target} holds something else than a result and is left alone. Give another folder."
                    )
                if not overwrite:
                    raise ResultError(f"{target} already holds a result. Give another folder, or allow overwriting.")
        above = next(parent for parent in target.parents if parent.exists())
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise cannot_write(target, error) from None


def _write_table(table: Any, path: Path) -> None:
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    others = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    pq.write_table(table, path, compression="zstd", use_dictionary=others, use_byte_stream_split=floats)
