"""What a run measured: labelled tables, the scenario they belong to, and what is needed to run it again.

In a folder a result is one Parquet file a table beside `scenario.toml` (as written), `resolved.json` (as run)
and `meta.json` (by what). A folder appears complete or not at all, and replaces an earlier one only when complete.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import functools
import html
import json
import math
import os
import platform
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tailback import _core
from tailback.errors import ResultError, nearest
from tailback.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

__all__ = [
    "ANSWERS",
    "EVENTS",
    "EXCHANGES",
    "FATES",
    "KINDS",
    "PHASES",
    "REASONS",
    "Result",
    "demand_writable",
    "open_result",
]

#: Version of the folder's layout.
FORMAT = 1
#: The folder in it for what programs wrote.
_PROGRAMS = "programs"

#: What happened to a packet in a queue, by code.
EVENTS = ("enqueue", "dequeue", "drop", "mark")
#: Why a packet was dropped, by code; 255 is none.
REASONS = ("queue-full", "overlimit", "aqm", "wire")
#: What happened to a sender's window, by code.
KINDS = ("recovery-entered", "recovery-left", "timeout", "cwr-entered", "undo", "cwr-left")
#: Recovery state of a sender, by code.
PHASES = ("open", "disorder", "cwr", "recovery", "loss")
#: What became of a packet, by code.
FATES = ("received", "dropped", "in-transit")

#: What kind of exchange a row of `requests` is, by code.
EXCHANGES = ("web", "probe", "transfer", "request")
#: What became of it, by code.
ANSWERS = ("answered", "abandoned", "waiting")

#: Which program of a flow a row of `programs` is, by code,
ROLES = ("server", "client")
#: and how it ended: by itself, when asked at its stop, or by force because it did not when asked.
ENDS = ("exited", "stopped", "killed")

_NONE = 255
_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("queue", "event"): EVENTS,
    ("queue", "reason"): REASONS,
    ("congestion", "kind"): KINDS,
    ("segments", "phase"): PHASES,
    ("polls", "phase"): PHASES,
    ("packets", "fate"): FATES,
    ("requests", "kind"): EXCHANGES,
    ("requests", "fate"): ANSWERS,
    ("programs", "role"): ROLES,
    ("programs", "fate"): ENDS,
}

#: The instruments that fill a table; a table not listed here is always there.
_INSTRUMENTS = {
    "segments": ("segments",),
    "polls": ("polls",),
    "internals": ("internals",),
    "queue": ("queues", "drops"),
    "queue_polls": ("queue_polls",),
    "packets": ("packets",),
    "requests": ("requests",),
    "echoes": ("echoes",),
}

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]


class Result:
    """The tables of one run. Times are seconds since its start, sizes IP bytes unless a column says otherwise.

    >>> import tailback as tb
    >>> result = tb.run(tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.voip()], duration="2s"))
    >>> int(result.numpy("flows")["packets_sent"][0])
    100
    """

    def __init__(
        self,
        *,
        resolved: Mapping[str, Any],
        toml: str,
        tables: Mapping[str, Columns],
        meta: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        #: The scenario in the engine's form: exact units, nothing left open.
        self.resolved = dict(resolved)
        #: The scenario as it was written.
        self.toml = toml
        names = tables.get("_names", {})
        self._tables: dict[str, Columns] = {}
        for name, columns in tables.items():
            # The engine leaves an empty table where an instrument was off: not recorded is not the same as nothing.
            if name != "_names" and (_length(columns) or self._recorded(name)):
                self._tables[name] = {key: _read_only(column) for key, column in columns.items()}
        self._folder: Path | None = None
        self._files = dict(files or {})
        self._rows = {name: _length(columns) for name, columns in self._tables.items()}
        #: Version, engine, seed and the like: by what and how this was made.
        self.meta: dict[str, Any] = dict(meta or _meta(self.resolved))
        #: What the run allowed although it was probably not meant, such as load above capacity.
        self.meta["warnings"] = [str(warning) for warning in names.get("warnings", self.meta.get("warnings", []))]
        self.meta["internals_names"] = [str(name) for name in names.get("internals_names", [])]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Result:
        """The same as `open_result`."""
        return open_result(folder)

    # -- what was run

    @property
    def scenario(self) -> Scenario:
        """The scenario as it was written."""
        return Scenario.parse_toml(self.toml)

    @property
    def name(self) -> str:
        """The scenario's name."""
        return str(self.resolved.get("name", ""))

    @property
    def seed(self) -> int:
        """The scenario's seed."""
        return int(self.resolved["seed"])

    @property
    def duration_s(self) -> float:
        """Simulated seconds."""
        return float(self.resolved["duration_ps"] / 10**12)

    @property
    def flow_names(self) -> list[str]:
        """The flows' names; the column `flow` counts in this list."""
        return [row["name"] for row in self.resolved["flows"]]

    @property
    def link_names(self) -> list[str]:
        """The links' names; the column `link` counts in this list."""
        return [row["name"] for row in self.resolved["links"]]

    @property
    def internals_names(self) -> list[str]:
        """The words that the column `name` of table `internals` counts in."""
        return list(self.meta.get("internals_names", []))

    def flow_index(self, flow: str | int) -> int:
        """The number of a flow given by name or number; `ResultError` if there is none."""
        return _index(flow, self.flow_names, "flow")

    def link_index(self, link: str | int) -> int:
        """The number of a link given by name or number; `ResultError` if there is none."""
        return _index(link, self.link_names, "link")

    def flow_spec(self, flow: str | int) -> dict[str, Any]:
        """What the resolved scenario says of a flow."""
        return dict(self.resolved["flows"][self.flow_index(flow)])

    def link_spec(self, link: str | int) -> dict[str, Any]:
        """What the resolved scenario says of a link: `rate_bps`, `delay_ps`, `queue`, …."""
        return dict(self.resolved["links"][self.link_index(link)])

    @property
    def bottleneck(self) -> str:
        """The link that dropped most; if none dropped anything, the slowest, and the first listed on ties."""
        drops = self.numpy("links")["dropped"]
        rates = [row.get("rate_bps") or math.inf for row in self.resolved["links"]]
        best = max(range(len(rates)), key=lambda link: (int(drops[link]), -rates[link], -link))
        return self.link_names[best]

    def base_owd_s(self, flow: str | int) -> float:
        """Propagation delay from a flow's sender to its receiver in seconds, without serialisation."""
        return self._delay_s(flow, "route")

    def base_rtt_s(self, flow: str | int) -> float:
        """Propagation delay there and back in seconds, without serialisation."""
        return self._delay_s(flow, "route") + self._delay_s(flow, "back_route")

    def _delay_s(self, flow: str | int, key: str) -> float:
        route = self.flow_spec(flow).get(key)
        if route is None:
            # The algorithm may be one that only the run knew, and is nothing to a route.
            here = self.flow_index(flow)
            rows = [row | ({"tcp": row["tcp"] | {"cc": "reno", "cc_params": {}}} if row.get("tcp") else {})
                    for row in self.resolved["flows"]]  # fmt: skip
            route = Scenario.from_resolved(self.resolved | {"flows": rows}).resolve()["flows"][here][key]
        return float(sum(self.link_spec(link)["delay_ps"] for link in route) / 10**12)

    # -- tables

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables there are: totals always, the rest by the scenario's instruments."""
        return tuple(self._rows)

    def __contains__(self, table: object) -> bool:
        return table in self._rows

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        self._demand(table)
        return self._rows[table]

    def numpy(self, table: str) -> Columns:
        """A table's columns as arrays, by name; read-only and not copied. `ResultError` if there is no such table."""
        self._demand(table)
        if table not in self._tables:
            self._tables[table] = self._load(table)
        return self._tables[table]

    #: The same as `numpy`.
    table = numpy

    def column(self, table: str, column: str) -> Array:
        """One column; `ResultError` proposes the nearest name if there is none."""
        columns = self.numpy(table)
        if column not in columns:
            raise ResultError(f"table {table} has no column {column}. {_choices(column, list(columns))}")
        return columns[column]

    def arrow(self, table: str, *, labels: bool = False) -> Any:
        """A `pyarrow.Table` over the same memory (flags are copied, Arrow packs them).

        With `labels`, flows and links become dictionary columns of names, and codes become words.
        """
        columns = self.numpy(table)
        arrays = {name: pa.array(column) for name, column in columns.items()}
        if labels:
            for name, column in columns.items():
                words = self._words(table, name)
                if words is not None:
                    # Only a one-byte code has a "none".
                    mask = column == _NONE if column.dtype == np.uint8 else None
                    codes = pa.array(column, mask=mask) if mask is not None and mask.any() else arrays[name]
                    arrays[name] = pa.DictionaryArray.from_arrays(codes, pa.array(words, type=pa.string()))
        return pa.table(arrays)

    def polars(self, table: str, *, labels: bool = False) -> pl.DataFrame:
        """A Polars frame over the same memory; `labels` as in `arrow`."""
        frame = pl.from_arrow(self.arrow(table, labels=labels))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def pandas(self, table: str, *, labels: bool = False) -> pd.DataFrame:
        """A pandas frame, copied only where pandas insists; `labels` as in `arrow`. pandas is an optional extra."""
        try:
            import pandas as pd
        except ImportError:
            raise ResultError("pandas is not installed. Install it with: pip install 'tailback[pandas]'") from None
        if labels:
            return self.arrow(table, labels=True).to_pandas()
        return pd.DataFrame(dict(self.numpy(table)), copy=False)

    def where_flow(self, table: str, flow: str | int) -> dict[str, Array]:
        """The rows of one flow."""
        return self._where(table, "flow", self.flow_index(flow))

    def where_link(self, table: str, link: str | int) -> dict[str, Array]:
        """The rows of one link."""
        return self._where(table, "link", self.link_index(link))

    def _where(self, table: str, key: str, index: int) -> dict[str, Array]:
        mask = self.column(table, key) == index
        return {name: column[mask] for name, column in self.numpy(table).items()}

    def _words(self, table: str, column: str) -> list[str] | None:
        if column == "flow":
            return self.flow_names
        if column == "link":
            return self.link_names
        if (table, column) == ("internals", "name"):
            return self.internals_names
        if (table, column) == ("program_metrics", "name"):
            return list(self.meta.get("program_metrics", []))
        words = _WORDS.get((table, column))
        return None if words is None else list(words)

    def _recorded(self, table: str) -> bool:
        instruments = self.resolved.get("instruments") or {}
        return table not in _INSTRUMENTS or any(instruments.get(key) for key in _INSTRUMENTS[table])

    def _demand(self, table: str) -> None:
        if table in self._rows:
            return
        if table in _INSTRUMENTS:
            raise ResultError(
                f"{table} was not recorded. "
                f"Switch it on in the scenario, [instruments] {' or '.join(_INSTRUMENTS[table])}, and run again."
            )
        raise ResultError(f"there is no table {table}. {_choices(table, self.tables)}")

    def _load(self, table: str) -> Columns:
        assert self._folder is not None, "a table in no folder is in memory"
        path = self._folder / f"{table}.parquet"
        try:
            loaded = pq.read_table(path, memory_map=True)
        except (OSError, pa.ArrowException) as error:
            raise ResultError(f"{path} is damaged: {error}. Run the scenario again.") from None
        return {
            name: _read_only(loaded[name].combine_chunks().to_numpy(zero_copy_only=False))
            for name in loaded.column_names
        }

    # -- looking at it

    def flow_summary(self) -> list[dict[str, Any]]:
        """One row a flow: what it is and the totals people ask for first. Goodput counts payload delivered at either
        end (for UDP, IP bytes) over the time the flow was active."""  # noqa: D205, D209
        totals = self.numpy("flows")
        out = []
        for index, spec in enumerate(self.resolved["flows"]):
            tcp = spec.get("tcp") or {}

            def total(key: str, index: int = index) -> float:
                return float(totals[key][index])

            end = min(spec.get("stop_ps") or math.inf, self.resolved["duration_ps"]) / 10**12
            finished = total("finished_s")
            active = (end if math.isnan(finished) else finished) - total("started_s")
            sent = total("packets_sent")
            payload = total("bytes_received") + (total("bytes_returned") if "bytes_returned" in totals else 0.0)
            out.append(
                {
                    "flow": spec["name"],
                    "app": spec["app"]["kind"],
                    "cc": tcp.get("cc"),
                    "stack": tcp.get("stack"),
                    "goodput_mbps": payload * 8e-6 / active if active > 0 else None,
                    "packets_sent": int(sent),
                    "loss": total("packets_dropped") / sent if sent else None,
                    "retransmitted": int(total("segments_retransmitted")) if tcp else None,
                    "timeouts": int(total("timeouts")) if tcp else None,
                    "rtt_min_ms": _milli(total("rtt_min_s")),
                    "srtt_ms": _milli(total("srtt_s")),
                }
            )
        return out

    def link_summary(self) -> list[dict[str, Any]]:
        """One row a link that has a rate."""
        totals = self.numpy("links")
        return [
            {
                "link": spec["name"],
                "rate_mbps": spec["rate_bps"] / 1e6,
                "utilisation": float(totals["busy_s"][index]) / self.duration_s,
                "delivered": int(totals["delivered"][index]),
                "dropped": int(totals["dropped"][index]),
                "marked": int(totals["marked"][index]),
                "backlog_mean_bytes": float(totals["backlog_bytes_mean"][index]),
                "backlog_max_bytes": int(totals["backlog_bytes_max"][index]),
            }
            for index, spec in enumerate(self.resolved["links"])
            if spec.get("rate_bps") is not None
        ]

    def felt_summary(self) -> list[dict[str, Any]]:
        """One row for each call, reader, waiting file or ping that was recorded: see `tailback.felt.felt`."""
        from tailback.felt import felt

        return felt(self)

    def _summaries(self) -> list[list[dict[str, Any]]]:
        programs = [self.program_summary(), self.program_metrics()]
        return [self.flow_summary(), self.felt_summary(), *programs, self.link_summary()]

    def program_summary(self) -> list[dict[str, Any]]:
        """One row a program that ran (`exec`): how it ended, and when. `status` is None if a signal ended it."""
        if "programs" not in self:
            return []
        rows = self.numpy("programs")
        return [
            {
                "flow": self.flow_names[int(rows["flow"][row])],
                "program": ROLES[int(rows["role"][row])],
                "end": ENDS[int(rows["fate"][row])],
                "status": None if math.isnan(rows["status"][row]) else int(rows["status"][row]),
                "started_s": float(rows["started_s"][row]),
                "ended_s": float(rows["ended_s"][row]),
            }
            for row in range(self.rows("programs"))
        ]

    def program_metrics(self) -> list[dict[str, Any]]:
        """What programs measured themselves, one row a figure; its unit ends its name."""
        if "program_metrics" not in self:
            return []
        rows, names = self.numpy("program_metrics"), self.meta.get("program_metrics", [])
        return [
            {
                "flow": self.flow_names[int(rows["flow"][row])],
                "measured": str(names[int(rows["name"][row])]),
                "value": float(rows["value"][row]),
            }
            for row in range(self.rows("program_metrics"))
        ]

    @property
    def files(self) -> dict[str, bytes]:
        """What the programs of a live run wrote, by names such as "download/client.out"."""
        if not self._files and self._folder is not None:
            below = self._folder / _PROGRAMS
            paths = sorted(path for path in below.rglob("*") if path.is_file()) if below.is_dir() else []
            self._files = {path.relative_to(below).as_posix(): path.read_bytes() for path in paths}
        return dict(self._files)

    @property
    def title(self) -> str:
        """Name, simulated time and seed in one line."""
        return f"{self.name or 'result'}: {self.duration_s:g} s simulated, seed {self.seed}"

    def __repr__(self) -> str:
        return f"<tailback.Result {self.title}; tables {', '.join(self.tables)}>"

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[RenderableType] = [Text(self.title, style="bold")]
        for rows in self._summaries():
            if not rows:
                continue
            shown = Table(box=None, pad_edge=False)
            for head in rows[0]:
                words = head in ("flow", "link", "app", "cc", "stack", "feels", "program", "end", "measured")
                shown.add_column(head.replace("_", " "), justify="left" if words else "right")
            for row in rows:
                shown.add_row(*(_cell(value) for value in row.values()))
            parts += [Text(""), shown]
        recorded = ", ".join(f"{name} ({self._rows[name]:,})" for name in self.tables)
        return Group(*parts, Text(""), Text(f"tables: {recorded}"))

    def _repr_html_(self) -> str:
        out = [f"<p><strong>{html.escape(self.title)}</strong></p>"]
        for rows in self._summaries():
            if not rows:
                continue
            head = "".join(f"<th>{html.escape(key.replace('_', ' '))}</th>" for key in rows[0])
            body = "".join(
                "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row.values()) + "</tr>"
                for row in rows
            )
            out.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        recorded = ", ".join(f"<code>{html.escape(name)}</code> ({self._rows[name]:,})" for name in self.tables)
        return "".join(out) + f"<p>tables: {recorded}</p>"

    # -- writing it down

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
        """Write the result to `folder`, which appears complete or not at all, and return its path.

        An earlier result there is replaced in one step (`overwrite`), anything else is left alone. Raises
        `ResultError` if it cannot be written; whatever was there is then untouched.
        """
        target = Path(folder).absolute()
        demand_writable(target, overwrite=overwrite)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(target, error) from None
        # A sibling, so that the rename stays within one file system.
        partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
        try:
            partial.mkdir()
            self._write(partial)
            _put_in_place(partial, target)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise _cannot_write(target, error) from None
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return target

    def _write(self, folder: Path) -> None:
        for name in self.tables:
            with (folder / f"{name}.parquet").open("wb") as file:
                _write_table(self.arrow(name), file)
                _sync(file)
        for name, data in self.files.items():
            place = folder / _PROGRAMS / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as kept:
                kept.write(data)
                _sync(kept)
            _sync_folder(place.parent)
        meta = self.meta | {"tables": self._rows}
        for file_name, text in (
            ("scenario.toml", self.toml),
            ("resolved.json", json.dumps(self.resolved, indent=1, sort_keys=True) + "\n"),
            ("meta.json", json.dumps(meta, indent=1) + "\n"),
        ):
            with (folder / file_name).open("w", encoding="utf-8") as out:
                out.write(text)
                _sync(out)
        _sync_folder(folder)

    def to_csv(self, folder: str | os.PathLike[str], tables: Iterable[str] | None = None) -> list[Path]:
        """Write each table (all unless `tables` names some) to `folder/<table>.csv`, names and words spelt out."""
        wanted = list(self.tables if tables is None else tables)
        for name in wanted:
            self._demand(name)
        out = []
        for name in wanted:
            plain = self.arrow(name, labels=True)
            for index, field in enumerate(plain.schema):
                if pa.types.is_dictionary(field.type):
                    plain = plain.set_column(index, field.name, plain[field.name].cast(pa.string()))
            path = Path(folder) / f"{name}.csv"
            _write_file(path, functools.partial(pa_csv.write_csv, plain))
            out.append(path)
        return out

    def to_siftr(self, path: str | os.PathLike[str], flow: str | int, *, side: str = "sender", hz: int = 1000) -> Path:
        """Write a flow's TCP state as the log of FreeBSD's siftr(4), 9.x layout.

        `side` is "sender" or "receiver"; `hz` is the kern.hz that scales smoothed RTT (by 32 · hz) and timeout.
        Needs the instrument `segments`. Raises `ResultError`.
        """
        if side not in ("sender", "receiver"):
            raise ResultError(f'there is no side "{side}". Give "sender" or "receiver".')
        target = Path(path)
        lines = _siftr(self, self.flow_index(flow), side == "receiver", hz)
        _write_file(target, lambda file: file.write("".join(lines).encode()))
        return target


def open_result(folder: str | os.PathLike[str]) -> Result:
    """Open a result that `Result.save` wrote. Tables are read when they are asked for.

    Raises `ResultError` if the folder is missing, no result, damaged, or from another version of the layout.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ResultError(f"there is no result folder {path}. Make one with: tailback run SCENARIO --out {path}")
    meta_path = path / "meta.json"
    if not meta_path.is_file():
        raise ResultError(
            f"{path} is not a result: it has no meta.json. Give a folder that `tailback run --out` wrote."
        )
    try:
        meta = json.loads(meta_path.read_text(encoding="utf-8"))
        found = meta["format"]
        if found != FORMAT:
            raise ResultError(
                f"{path} has layout {found}, written by tailback {meta.get('version', 'unknown')}; this version reads "
                f"layout {FORMAT}. Run it again: tailback run {path / 'scenario.toml'}"
            )
        resolved = json.loads((path / "resolved.json").read_text(encoding="utf-8"))
        toml = (path / "scenario.toml").read_text(encoding="utf-8")
        rows = {str(name): int(count) for name, count in meta.pop("tables").items()}
        names = list(meta.get("internals_names", []))
        result = Result(resolved=resolved, toml=toml, tables={}, meta=meta)
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{path} is damaged: {error!r}. Run its scenario again.") from None
    for name, count in rows.items():
        file = path / f"{name}.parquet"
        try:
            stored = pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowException) as error:
            raise ResultError(f"{file} is missing or damaged: {error}. Run the scenario again.") from None
        if stored != count:
            raise ResultError(f"{file} is damaged: {stored} rows, not {count}. Run the scenario again.")
    result.meta["internals_names"] = names
    result._rows = rows
    result._folder = path.absolute()
    return result


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
        raise _cannot_write(target, error) from None


# --- Helpers --------------------------------------------------------------------------------------------------


def _meta(resolved: Mapping[str, Any]) -> dict[str, Any]:
    # No host, user, path or date: a result says how to make it again, and the same run writes the same bytes.
    return {
        "format": FORMAT,
        "version": _core.version(),
        "engine": f"sim {_core.version()}",
        "name": resolved.get("name", ""),
        "seed": resolved["seed"],
        "command": "tailback.run",
        "python": ".".join(map(str, sys.version_info[:2])),
        "platform": f"{platform.system()} {platform.machine()}".lower(),
    }


def _read_only(column: Array) -> Array:
    view = np.asarray(column).view()
    view.flags.writeable = False
    return view


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values()))) if columns else 0


def _index(which: str | int, names: list[str], what: str) -> int:
    if isinstance(which, str):
        if which in names:
            return names.index(which)
        raise ResultError(f"there is no {what} {which}. {_choices(which, names)}")
    if not 0 <= which < len(names):
        raise ResultError(f"there is no {what} number {which}. There are {len(names)}, counted from 0.")
    return int(which)


def _choices(name: str, known: Iterable[str]) -> str:
    known = list(known)
    close = nearest(name, known)
    return (f'Did you mean "{close}"? ' if close else "") + f"There are: {', '.join(known)}."


def _milli(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds * 1e3


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _write_table(table: Any, file: Any) -> None:
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    others = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    pq.write_table(table, file, compression="zstd", use_dictionary=others, use_byte_stream_split=floats)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename, in one step also if there is an earlier result."""
    if not target.exists() or not any(target.iterdir()):
        if target.exists() and os.name != "posix":
            target.rmdir()
        partial.rename(target)
    elif _exchange(partial, target):
        shutil.rmtree(partial, ignore_errors=True)
    else:
        # Two steps where the system cannot exchange: between them the old result lies beside.
        old = partial.with_suffix(".old")
        target.rename(old)
        try:
            partial.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    _sync_folder(target.parent)


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


def _cannot_write(target: Path, error: OSError) -> ResultError:
    reasons = {
        errno.ENOSPC: "the disk is full. Free some space, or give another folder.",
        errno.EDQUOT: "your disk quota is used up. Free some space, or give another folder.",
        errno.EACCES: "the folder is not writable. Give another, or change its permissions.",
        errno.EPERM: "the folder is not writable. Give another, or change its permissions.",
        errno.EROFS: "the file system is read-only. Give another folder.",
        errno.ENOTDIR: "part of the path is a file. Give another folder.",
        errno.EEXIST: "part of the path is a file. Give another folder.",
        errno.ENAMETOOLONG: "the name is too long. Give a shorter one.",
    }
    reason = reasons.get(error.errno or 0, f"{error.strerror or error}.")
    return ResultError(f"{target} cannot be written: {reason} Nothing was changed.")


def _write_file(path: Path, write: Callable[[Any], object]) -> None:
    """One file, complete or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            write(file)
            _sync(file)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _cannot_write(path, error) from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


#: ssthresh before any congestion as siftr prints it: 65535 << 14.
_SIFTR_UNLIMITED = 65535 << 14
_SIFTR_RTT_SCALE = 32


def _siftr(result: Result, flow: int, at_receiver: bool, hz: int) -> list[str]:
    """The log's lines: on, a record a segment (inbound before TCP saw it, outbound after), off."""
    table = result.numpy("segments")
    mask = (table["flow"] == flow) & (table["at_receiver"] == at_receiver)
    rows = {name: column[mask] for name, column in table.items()}
    count = len(rows["t_s"])
    if not count:
        side = "receiver" if at_receiver else "sender"
        raise ResultError(
            f"no segments of {result.flow_names[flow]} were recorded at its {side}. "
            "Switch them on in the scenario, [instruments] segments, and run again."
        )
    # Addresses stand for a flow's hosts: 10.<flow>.1 sends, 10.<flow>.2 receives.
    hosts = [f"10.{flow >> 8 & 255}.{flow & 255}.{host}" for host in (1, 2)]
    ports = [49152 + flow % 16384, 5001]
    own, peer = (1, 0) if at_receiver else (0, 1)
    ends = f"{hosts[own]},{ports[own]},{hosts[peer]},{ports[peer]}"

    def whole(name: str, scale: float = 1.0) -> list[int]:
        values = np.nan_to_num(np.asarray(rows[name], dtype=np.float64)) * scale
        return np.rint(values).astype(np.int64).tolist()  # type: ignore[no-any-return]

    ssthresh = np.minimum(rows["ssthresh"], _SIFTR_UNLIMITED).astype(np.int64).tolist()
    columns = [
        ["o" if outgoing else "i" for outgoing in rows["outgoing"].tolist()],
        ["0x00000000"] * count,
        [f"{t:.6f}" for t in rows["t_s"].tolist()],
        [ends] * count,
        ssthresh,
        whole("cwnd"),
        [_SIFTR_UNLIMITED] * count,  # the bandwidth-limited window, unused since FreeBSD 8
        whole("snd_wnd"),
        whole("rcv_wnd"),
        whole("snd_scale"),
        whole("rcv_scale"),
        whole("state"),
        whole("mss"),
        whole("srtt_s", _SIFTR_RTT_SCALE * hz),
        whole("sack_enabled"),
        whole("flags"),
        whole("rto_s", hz),
        whole("snd_buf"),
        whole("snd_buf_used"),
        whole("rcv_buf"),
        whole("rcv_buf_used"),
        whole("in_flight"),
        whole("reassembly"),
    ]
    outbound = int(np.count_nonzero(rows["outgoing"]))
    on = {
        "enable_time_secs": 0, "enable_time_usecs": 0, "siftrver": "1.2.4", "hz": hz,
        "tcp_rtt_scale": _SIFTR_RTT_SCALE, "sysname": "tailback", "sysver": _core.version(), "ipmode": 4,
    }  # fmt: skip
    seconds, micros = divmod(round(result.duration_s * 1e6), 10**6)
    off = {
        "disable_time_secs": seconds, "disable_time_usecs": micros,
        "num_inbound_tcp_pkts": count - outbound, "num_outbound_tcp_pkts": outbound, "total_tcp_pkts": count,
        "num_inbound_skipped_pkts_malloc": 0, "num_outbound_skipped_pkts_malloc": 0,
        "num_inbound_skipped_pkts_mtx": 0, "num_outbound_skipped_pkts_mtx": 0,
        "num_inbound_skipped_pkts_tcb": 0, "num_outbound_skipped_pkts_tcb": 0,
        "num_inbound_skipped_pkts_icb": 0, "num_outbound_skipped_pkts_icb": 0,
        "total_skipped_tcp_pkts": 0, "flow_list": "{};{}-{};{},".format(*ends.split(",")),
    }  # fmt: skip
    records = (",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    return ["\t".join(f"{k}={v}" for k, v in on.items()) + "\n", *records,
            "\t".join(f"{k}={v}" for k, v in off.items()) + "\n"]  # fmt: skip
