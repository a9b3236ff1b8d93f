"""A result as a folder: one Parquet file per table, the scenario as written and as run, and metadata."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tailback import _core
from tailback.algorithms import Source
from tailback.checksums import KeptWarning, Verified, digest, digest_of_file, seal
from tailback.errors import ResultError
from tailback.files import cannot_write, demand_replaceable, is_link, is_plain, open_plain, read_plain
from tailback.lazy import lazy

from . import arrow

with lazy():
    import pyarrow as pa
    from pyarrow import parquet as pq

if TYPE_CHECKING:
    from tailback.result import Result

#: Version of the folder's layout. Layout 1, of tailback 0.1, had no checksums. Layouts 1 and 2 had codes instead of
#: names, and a large number for an ssthresh that is not set; they are still read.
FORMAT = 3
_UNCHECKED = 1
_READ = (_UNCHECKED, 2, FORMAT)
#: In layouts 1 and 2, an ssthresh from this value on means that it was not set.
_UNLIMITED = 2**61
#: Written last, so that it completes a result that is written file by file.
META = "meta.json"
#: Rows per write: as many as the engine delivers of a table at a time.
ROWS_A_GROUP = _core.ROWS_A_GROUP
#: Subfolder for the output of programs.
_PROGRAMS = "programs"
#: Subfolder for the sources of the user's algorithms.
_ALGORITHMS = "algorithms"
_SCENARIO, _NORMAL = "scenario.toml", "normal.toml"
_TABLE = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Kept:
    """The contents of a result folder, without its tables."""

    resolved: dict[str, Any]
    #: The scenario in its normal form.
    toml: str
    #: The scenario file's text.
    written: str
    meta: dict[str, Any]
    #: Number of rows of each table.
    rows: dict[str, int]
    internals_names: list[str]
    #: Digest of each file; None if it was stored without digests.
    files: dict[str, str] | None


def _unreadable() -> tuple[type[Exception], ...]:
    """Exceptions from reading a damaged Parquet file."""
    return (OSError, pa.ArrowException, ValueError, KeyError, IndexError, OverflowError)


class Sink:
    """Writes rows to a folder during the run, so that only a few row groups are in memory.

    The files have the same bytes as those that `write` makes from whole tables.
    """

    def __init__(self, folder: Path, names: arrow.Names) -> None:
        self._folder = folder
        self._names = names
        self._internals: Sequence[str] = ()
        self._writers: dict[str, Any] = {}
        #: Rows so far, by table.
        self.rows: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()

    def __call__(self, name: str, columns: Mapping[str, Any], internals: Sequence[str] = ()) -> None:
        """Write the next rows of a table, by column; `internals` are the names of quantities so far."""
        self._internals = internals or self._internals
        table = arrow.stored(name, columns, self._named)
        if name not in self._writers:
            self._writers[name] = _writer(self._folder / f"{name}.parquet", table.schema)
        self._writers[name].write_table(table, row_group_size=ROWS_A_GROUP)
        self.rows[name] = self.rows.get(name, 0) + table.num_rows

    def _named(self, what: str) -> Sequence[str]:
        return self._internals if what == "internals" else self._names(what)

    def finish(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the remaining rows of the tables that it has begun."""
        internals = tables["_names"]["internals_names"]
        for name in self._writers:
            if len(next(iter(tables[name].values()))):
                self(name, tables[name], internals)


def names_of(resolved: Mapping[str, Any], meta: Mapping[str, Any]) -> arrow.Names:
    """The names that columns index, by the list in the column's schema."""

    def names(what: str) -> list[str]:
        match what:
            case "flows" | "links":
                return [str(row["name"]) for row in resolved[what]]
            case "captures":
                return list((resolved.get("instruments") or {}).get("captures") or ())
            case "internals":
                return list(meta.get("internals_names", []))
            case "figures":
                return list(meta.get("program_metrics", []))
        return list(meta.get(what, []))

    return names


def write(result: Result, folder: Path, written: Container[str] = ()) -> None:
    """Fill an empty folder, or one in which a `Sink` has `written` some tables."""
    for name in result.tables:
        if name in written:
            continue
        _write_table(name, result, folder / f"{_checked_table(name)}.parquet")
    for name, data in result.files.items():
        place = folder / _PROGRAMS / _checked_file(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    for row, source in zip(result.meta.get("algorithms", ()), result.algorithms.values(), strict=True):
        if source.text is not None:
            (folder / _ALGORITHMS).mkdir(exist_ok=True)
            (folder / _checked_file(row["file"])).write_text(source.text, encoding="utf-8", newline="")
    (folder / _SCENARIO).write_text(result.written, encoding="utf-8", newline="")
    if result.toml != result.written:
        (folder / _NORMAL).write_text(result.toml, encoding="utf-8", newline="")
    (folder / "resolved.json").write_text(
        json.dumps(result.resolved, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    more = {
        "format": FORMAT,
        "tables": {name: result.rows(name) for name in result.tables},
        "files": {path.relative_to(folder).as_posix(): digest_of_file(path) for path in _files(folder)},
    }
    # In the form in which it will be read, of which the digest is taken.
    meta = json.loads(json.dumps(result.meta | more))
    (folder / META).write_text(json.dumps(meta | {"sha256": seal(meta)}, indent=1) + "\n", encoding="utf-8")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


class _BadName(ResultError, ValueError):
    """A name that would lead out of the folder."""


def _checked_table(name: str) -> str:
    """A table's name, checked for use as a file name."""
    if not _TABLE.fullmatch(name):
        raise _BadName(f"{name!r} is no name of a table: lower-case letters, digits and _")
    return name


def _checked_file(name: str) -> str:
    """A file's path below a result's folder, checked not to leave it."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise _BadName(f"{name!r} is no name of a file in a result: a path below its folder, with /")
    return name


def read(path: Path) -> Kept:
    """Read what `write` wrote; `ResultError` if it is missing, not a result, damaged, or from another version."""
    if path.suffix == ".toml" and path.is_file():
        # Advice with `--out` and this path would overwrite the scenario.
        fix = f"Run it first: tailback run {path} --out results/{path.stem}"
        raise ResultError(f"{path} is a file, not a result folder. {fix}")
    if path.exists() and not path.is_dir():
        raise ResultError(f"{path} is a file, not a result folder. Give a folder that `tailback run --out` wrote.")
    if not path.is_dir():
        raise ResultError(f"there is no result folder {path}. Make one with: tailback run SCENARIO --out {path}")
    if not (path / META).is_file():
        raise ResultError(f"{path} is not a result: it has no {META}. Give a folder that `tailback run --out` wrote.")
    try:
        meta = _meta(path)
        files = None if meta["format"] == _UNCHECKED else _digests(meta)
        resolved, written = (_text(path, name, files) for name in ("resolved.json", _SCENARIO))
        toml = _text(path, _NORMAL, files) if files is not None and _NORMAL in files else written
        kept = Kept(
            resolved=json.loads(resolved),
            toml=toml,
            written=written,
            rows={_checked_table(str(name)): int(count) for name, count in meta.pop("tables").items()},
            internals_names=list(meta.get("internals_names", [])),
            meta=meta,
            files=files,
        )
        _demand_shape(kept.resolved)
    except OSError as error:
        place = error.filename or path
        raise ResultError(f"{place} cannot be read: {error.strerror or error}. Run its scenario again.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(path, error) from None
    _demand_rows(path, kept.rows)
    return kept


def _demand_rows(path: Path, rows: Mapping[str, int]) -> None:
    """Check that every table exists with the right number of rows."""
    for name, count in rows.items():
        file = path / f"{name}.parquet"
        try:
            with open_plain(file) as opened:
                stored = pq.read_metadata(opened).num_rows
        except _unreadable() as error:
            raise ResultError(f"{file} is missing or damaged: {error}. Run the scenario again.") from None
        if stored != count:
            raise ResultError(f"{file} is damaged: {stored} rows, not {count}. Run the scenario again.")


def warn_if_unchecked(path: Path, kept: Kept) -> None:
    """Warn if damage to a table would not be noticed."""
    if kept.files is None:
        text = f"{path} was kept by tailback 0.1, without checksums: damage may not be noticed. Save it again"
        warnings.warn(text, KeptWarning, stacklevel=3)


def _meta(path: Path) -> dict[str, Any]:
    """The contents of `meta.json`, verified by its own digest."""
    meta = json.loads(read_plain(path / META).decode("utf-8"))
    if meta["format"] not in _READ:
        raise ResultError(
            f"{path} has layout {meta['format']}, written by tailback {meta.get('version', 'unknown')}; this "
            f"version reads layout {FORMAT}. Run it again: tailback run {path / 'scenario.toml'}"
        )
    # Layout 1 had no checksums; a layout number damaged to 1 must not disable them.
    unchecked = meta["format"] == _UNCHECKED and not {"sha256", "files"} & meta.keys()
    if not unchecked and meta.pop("sha256", None) != seal(meta):
        raise ResultError(f"{path / META} is damaged: it differs from its checksum. Run its scenario again.")
    return dict(meta)


def _digests(meta: dict[str, Any]) -> dict[str, str]:
    files = {_checked_file(str(name)): str(value) for name, value in meta.pop("files").items()}
    for name in meta["tables"]:
        files[f"{name}.parquet"]
    return files


def _text(path: Path, name: str, files: Mapping[str, str] | None) -> str:
    data = read_plain(path / name)
    if files is not None and digest(data) != files[name]:
        raise _differs(path / name)
    return data.decode("utf-8")


def _differs(file: Path) -> ResultError:
    return ResultError(f"{file} is damaged: it differs from its checksum. Run the scenario again.")


def _demand_shape(resolved: Any) -> None:
    """Check the fields that all readers use, so that an edited file does not fail in the middle of a figure."""

    def demand(row: Any, place: str, **kinds: type) -> None:
        for key, kind in kinds.items():
            if not isinstance(row, dict) or not isinstance(row.get(key), kind):
                raise ValueError(f"resolved.json has no {place}{key} that is a {kind.__name__}")

    demand(resolved, "", flows=list, links=list, instruments=dict, seed=int, duration_ps=int)
    for index, link in enumerate(resolved["links"]):
        demand(link, f"links[{index}].", **{"name": str, "from": str, "to": str, "delay_ps": int})
    names = {link["name"] for link in resolved["links"]}
    for index, flow in enumerate(resolved["flows"]):
        place = f"flows[{index}]."
        demand(flow, place, **{"name": str, "from": str, "to": str, "app": dict})
        demand(flow["app"], f"{place}app.", kind=str)
        if flow.get("tcp") is not None:
            demand(flow["tcp"], f"{place}tcp.", cc=str, stack=str)
        for key in ("route", "back_route"):
            if not names >= set(flow.get(key) or ()):
                raise ValueError(f"resolved.json has a {place}{key} over links that are not there")


def damaged(path: Path, error: Exception) -> ResultError:
    """The error for a folder whose text files do not form a result."""
    what = f"it lacks {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
    return ResultError(f"{path} is damaged: {what}. Run its scenario again.")


def table(folder: Path, name: str, files: Mapping[str, str] | None, names: arrow.Names) -> dict[str, Any]:
    """A table's columns, read from its file, which is verified by its digest."""
    path = folder / f"{_checked_table(name)}.parquet"
    try:
        # The verified bytes are the ones that are parsed.
        with open_plain(path), pa.memory_map(str(path)) as mapped:
            data = mapped.read_buffer()
        if files is not None and digest(data) != files[path.name]:
            raise _differs(path)
        # `pq.read_table` would import datasets and, where there is one, pandas: half a second.
        loaded = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
        columns = arrow.columns(name, loaded, names)
    except _unreadable() as error:
        raise ResultError(f"{path} is damaged: {error}. Run the scenario again.") from None
    return {key: _of_old(column) if key == "ssthresh" else column for key, column in columns.items()}


def _of_old(ssthresh: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if ssthresh.dtype.kind == "f":
        return ssthresh
    return np.where(ssthresh < _UNLIMITED, ssthresh.astype(np.float64), np.nan)


def programs(folder: Path, files: Mapping[str, str] | None) -> dict[str, bytes]:
    """Output of a live run's programs, by names such as "download/client.out"."""
    below = folder / _PROGRAMS
    if files is None:
        paths = _files(below) if below.is_dir() else iter(())
        return {path.relative_to(below).as_posix(): read_plain(path) for path in paths}
    out = {}
    for name, expected in files.items():
        if name.startswith(f"{_PROGRAMS}/"):
            try:
                data = read_plain(folder / name)
            except OSError as error:
                raise ResultError(f"{folder / name} cannot be read: {error.strerror or error}.") from None
            if digest(data) != expected:
                raise _differs(folder / name)
            out[name.removeprefix(f"{_PROGRAMS}/")] = data
    return out


def described(name: str, source: Source) -> dict[str, Any]:
    """The entry of a user's algorithm in `meta.json`."""
    # An algorithm's name may be a path in another folder.
    stem = re.sub(r"[^\w.+-]+", ".", re.sub("^(python|bpf|rust):", "", name)).strip(".")
    ending = ".py" if source.attribute else ""
    file = None if source.text is None else f"{_ALGORITHMS}/{stem}{ending}"
    return {"name": name, "class": source.attribute, "file": file, "sha256": source.sha256}


def algorithms(folder: Path, meta: Mapping[str, Any], files: Mapping[str, str] | None) -> dict[str, Source]:
    """The stored sources, verified by their digests."""
    try:
        rows = [(str(row["name"]), str(row["class"]), row["file"]) for row in meta.get("algorithms", ())]
        return {
            name: Source(attribute, None if file is None else _text(folder, _checked_file(str(file)), files))
            for name, attribute, file in rows
        }
    except OSError as error:
        raise ResultError(f"{error.filename} cannot be read: {error.strerror or error}.") from None
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise damaged(folder, error) from None


def verify(path: Path, expected: str | None = None) -> Verified:
    """Verify every file by its digest, and `meta.json` by the digest `expected`, if that is given."""
    out = Verified()
    try:
        kept = read(path)
        meta = _meta(path)
        if expected is not None and seal(meta) != expected:
            out.damaged.append(f"{path / META} is of another run than the store says.")
    except ResultError as error:
        if not (path / META).is_file():
            raise
        out.damaged.append(str(error))
        return out
    if kept.files is None:
        names = names_of(kept.resolved, kept.meta)
        for name in kept.rows:
            try:
                table(path, name, None, names)
            except ResultError as error:
                out.damaged.append(str(error))
        out.unchecked += [str(file) for file in _files(path)]
        return out
    for name, wanted in kept.files.items():
        file = path / name
        try:
            if digest_of_file(file) != wanted:
                out.damaged.append(str(_differs(file)))
                continue
            out.bytes += file.stat().st_size
            out.files += 1
        except OSError as error:
            out.damaged.append(f"{file} cannot be read: {error.strerror or error}.")
    out.files += 1
    return out


def digests_of(path: Path) -> dict[str, str]:
    """Digests of a result's other files; only `meta.json` need be present."""
    try:
        return _digests(_meta(path))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(path, error) from None


def copy(path: Path, target: Path) -> None:
    """Copy a result's files into an empty folder; `ResultError` if the source is not a result."""
    read(path)
    for file in _files(path):
        place = target / file.relative_to(path)
        place.parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(file, place)


def seal_of(path: Path) -> str:
    """Digest of a whole result: that of its `meta.json`, which holds all others."""
    return seal(_meta(path))


def objection(path: Path) -> str | None:
    """Why the folder `path` may not be replaced or removed; None if it holds a tailback result and nothing else.

    Its `meta.json` must be sealed, and every file in it must be one that `meta.json` names.
    """
    if is_link(path) or not path.is_dir():
        return "it is no folder"
    if not is_plain(path / META):
        return f"it has no {META} of tailback's"
    try:
        meta = _meta(path)
        expected = {META, *(_digests(meta) if "files" in meta else _files_of_old(path, meta))}
    except (OSError, ResultError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"its {META} is damaged, or not of tailback"
    folders = {above.as_posix() for name in expected for above in PurePosixPath(name).parents}
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        known = (name in expected and is_plain(file)) or (name in folders and file.is_dir() and not is_link(file))
        if not known:
            return f"it also holds {name}, which is no part of the result"
    return None


def _files_of_old(path: Path, meta: Mapping[str, Any]) -> set[str]:
    """Files of a result of tailback 0.1, whose `meta.json` does not list them."""
    if not str(meta["version"]).startswith("0.1"):
        raise ValueError(meta["version"])
    below = {file.relative_to(path).as_posix() for name in (_PROGRAMS, _ALGORITHMS) for file in _files(path / name)}
    return {f"{_checked_table(name)}.parquet" for name in meta["tables"]} | {"resolved.json", _SCENARIO} | below


def demand_writable(folder: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Raise `ResultError` if `Result.save` would refuse `folder`; called before a long run."""
    target = Path(folder).absolute()
    try:
        demand_replaceable(target, objection)
        if not overwrite and (target / META).is_file():
            raise ResultError(f"{target} already holds a result. Give another folder, or allow overwriting.")
        above = next(parent for parent in target.parents if parent.exists())
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise cannot_write(target, error) from None


def _write_table(name: str, result: Result, path: Path) -> None:
    columns = result.numpy(name)
    parts = (
        {key: column[begin : begin + ROWS_A_GROUP] for key, column in columns.items()}
        for begin in range(0, max(1, result.rows(name)), ROWS_A_GROUP)
    )
    with contextlib.ExitStack() as stack:
        writer = None
        for part in parts:
            table = arrow.stored(name, part, result.names)
            writer = writer or stack.enter_context(_writer(path, table.schema))
            writer.write_table(table, row_group_size=ROWS_A_GROUP)


def _writer(path: Path, schema: Any) -> Any:
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    others = [field.name for field in schema if not pa.types.is_floating(field.type)]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=others,
        use_byte_stream_split=floats,
        write_page_checksum=True,
    )
