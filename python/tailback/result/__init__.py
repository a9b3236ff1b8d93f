"""The result of a run: labelled tables, their scenario, and everything needed to run it again.

A stored result is a folder with one Parquet file per table. Beside them are `scenario.toml` (as written), `normal.toml`
(the scenario that was run, if its text differs), `resolved.json` (as run), and the sources of your own algorithms.
`meta.json` has the program that produced it and the digest of each file. A folder is written atomically, and replaces
an earlier one only when complete.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tailback import _core
from tailback.errors import ResultError
from tailback.files import whole_file, whole_folder
from tailback.scenario import Scenario
from tailback.views import view

from . import arrow, layout, schema, siftr, summaries
from .described import Described, UnknownName, choices
from .layout import FORMAT, demand_writable
from .provenance import Provenance

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from tailback.algorithms import Source

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
    "write_while",
]

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]

#: What happened to a packet in a queue, by code.
EVENTS = schema.words("queue", "event")
#: Why a packet was dropped, by code.
REASONS = schema.words("queue", "reason")
#: What happened to a sender's window, by code.
KINDS = schema.words("congestion", "kind")
#: Recovery state of a sender, by code.
PHASES = schema.words("polls", "phase")
#: What happened to a packet, by code.
FATES = schema.words("packets", "fate")
#: What kind of exchange a row of `requests` is, by code.
EXCHANGES = schema.words("requests", "kind")
#: How the exchange ended, by code.
ANSWERS = schema.words("requests", "fate")


class Result(Described):
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
        written: str | None = None,
        meta: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        algorithms: Mapping[str, Source] | None = None,
    ) -> None:
        #: The resolved scenario: exact units, no defaults left open.
        self.resolved = dict(resolved)
        #: The scenario that was run, in its normal form.
        self.toml = toml
        #: The scenario file's text, before changes from the command line.
        self.written = toml if written is None else written
        names = tables.get("_names", {})
        self._tables: dict[str, Columns] = {}
        for name, columns in tables.items():
            # The engine returns an empty table if an instrument was off. Remove it: "not recorded" differs from "no
            # events".
            if name != "_names" and (_length(columns) or not schema.why_missing(name, self.resolved)):
                self._tables[name] = columns if isinstance(columns, _Columns) else _Columns(name, columns)
        self._folder: Path | None = None
        self._files = dict(files or {})
        self._algorithms = dict(algorithms or {})
        #: Digest of each file in the folder; None if it was stored without digests.
        self._digests: Mapping[str, str] | None = None
        self._rows = {name: _length(columns) for name, columns in self._tables.items()}
        #: Version, engine, seed and similar: how this result was made.
        self.meta: dict[str, Any] = dict(meta or _meta(self.resolved))
        #: Warnings on probably unintended settings, such as load above capacity.
        self.meta["warnings"] = [str(warning) for warning in names.get("warnings", self.meta.get("warnings", []))]
        self.meta["internals_names"] = [str(name) for name in names.get("internals_names", [])]
        if self._algorithms:
            self.meta["algorithms"] = [layout.described(name, source) for name, source in self._algorithms.items()]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Result:
        """The same as `open_result`."""
        return open_result(folder)

    # -- scenario

    @property
    def scenario(self) -> Scenario:
        """The scenario that was run."""
        return Scenario.parse_toml(self.toml)

    @property
    def description(self) -> Mapping[str, Any]:
        """The resolved scenario: the same as `resolved`."""
        return self.resolved

    @property
    def internals_names(self) -> list[str]:
        """The words that the column `name` of table `internals` indexes."""
        return list(self.meta.get("internals_names", []))

    @property
    def faults(self) -> list[str]:
        """Violations by transports during the run, in words."""
        return list(self.meta["warnings"]) if "stack_faults" in self._rows else []

    @property
    def failed_programs(self) -> list[str]:
        """Programs that ended by themselves by a signal or with a status other than 0, in words."""
        return summaries.failed_programs(self)

    @property
    def bottleneck(self) -> str:
        """The link on the first flow's path that dropped most; if none did, the slowest: see `bottleneck_index`.

        The first link if no queue can form on that path.
        """
        return self.link_names[self.bottleneck_index(self.numpy("links")["dropped"]) or 0]

    # -- tables

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables: totals always, others depending on the scenario's instruments."""
        return tuple(self._rows)

    def __contains__(self, table: object) -> bool:
        return table in self._rows

    def rows(self, table: str) -> int:
        """Number of rows of a table."""
        self._demand(table)
        return self._rows[table]

    def numpy(self, table: str) -> Columns:
        """A table's columns as arrays, by name; read-only and not copied. `ResultError` if there is no such table."""
        self._demand(table)
        if table not in self._tables:
            assert self._folder is not None, "a table in no folder is in memory"
            self._tables[table] = _Columns(table, layout.table(self._folder, table, self._digests, self.names))
        return self._tables[table]

    #: The same as `numpy`.
    table = numpy

    def column(self, table: str, column: str) -> Array:
        """One column; `ResultError` proposes the nearest name if there is none."""
        return self.numpy(table)[column]

    def arrow(self, table: str, *, labels: bool = False) -> Any:
        """A `pyarrow.Table` over the same memory (flags are copied, as Arrow packs them). Missing values are null.

        With `labels`, flows and links become dictionary columns of names, and codes become words. Units are in the
        metadata of the fields.
        """
        return arrow.table(table, self.numpy(table), self.names if labels else None)

    def polars(self, table: str, *, labels: bool = False) -> pl.DataFrame:
        """A Polars frame over the same memory; `labels` as in `arrow`."""
        import polars as pl

        frame = pl.from_arrow(self.arrow(table, labels=labels))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def pandas(self, table: str, *, labels: bool = False) -> pd.DataFrame:
        """A pandas frame, copied only where pandas insists; `labels` as in `arrow`. pandas is an optional extra."""
        try:
            import pandas as pd
        except ImportError:
            raise ResultError("pandas is not installed. Install it with: pip install 'tailback-lab[pandas]'") from None
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

    def names(self, what: str) -> Sequence[str]:
        """The names that columns index: "flows", "links" and the others of `schema.Column.names`."""
        return layout.names_of(self.resolved, self.meta)(what)

    def _demand(self, table: str) -> None:
        if table in self._rows:
            return
        if why := schema.why_missing(table, self.resolved):
            raise ResultError(why)
        raise ResultError(f"there is no table {table}. {choices(table, self.tables)}")

    def differing(self, other: Result) -> list[str]:
        """The tables whose rows differ from those of `other`."""

        def same(table: str) -> bool:
            mine, theirs = self.numpy(table), other.numpy(table)
            if list(mine) != list(theirs):
                return False
            return all(np.array_equal(mine[key], theirs[key], equal_nan=mine[key].dtype.kind == "f") for key in mine)

        either = sorted({*self.tables, *other.tables})
        return [name for name in either if not (name in self and name in other and same(name))]

    # -- looking at it

    def flow_summary(self) -> list[dict[str, Any]]:
        """One row per flow: its properties and the most important totals.

        Goodput counts payload delivered at either end (for UDP, IP bytes) over the time the flow was active.
        """
        return summaries.flows(self)

    def link_summary(self) -> list[dict[str, Any]]:
        """One row per link with a queue; for a medium, rate and utilisation are None."""
        return summaries.links(self)

    def program_summary(self) -> list[dict[str, Any]]:
        """One row per program (`exec`): exit status and time. `status` is None if a signal ended it."""
        return summaries.programs(self)

    def program_metrics(self) -> list[dict[str, Any]]:
        """Measurements by programs themselves, one row per number; its name ends with the unit."""
        return summaries.program_figures(self)

    def counters(self) -> list[dict[str, Any]]:
        """Kernel counters of a guest's hosts, one row per counter that changed, with `nstat`'s names."""
        return summaries.counters(self)

    def experience_summary(self) -> list[dict[str, Any]]:
        """One row for each call, reader, waiting file or ping that was recorded; see `tailback.experience`."""
        rows: list[dict[str, Any]] = view("result.experience")(self)
        return rows

    @property
    def files(self) -> dict[str, bytes]:
        """Output of a live run's programs, by names such as "download/client.out"."""
        if not self._files and self._folder is not None:
            self._files = layout.programs(self._folder, self._digests)
        return dict(self._files)

    @property
    def algorithms(self) -> dict[str, Source]:
        """Sources of your own algorithms that ran, by name in the scenario."""
        if not self._algorithms and self._folder is not None:
            self._algorithms = layout.algorithms(self._folder, self.meta, self._digests)
        return dict(self._algorithms)

    @property
    def provenance(self) -> Provenance:
        """The engine and version that produced the rows."""
        return Provenance.of(self.meta)

    @property
    def title(self) -> str:
        """Name, simulated time and seed in one line."""
        if self.provenance.is_captured:
            return f"{self.name}: {self.duration_s:g} s captured"
        return f"{self.name or 'result'}: {self.duration_s:g} s {self.provenance.way}, seed {self.seed}"

    def __repr__(self) -> str:
        return f"<tailback.Result {self.title}; tables {', '.join(self.tables)}>"

    def __str__(self) -> str:
        return summaries.as_plain(self)

    def __rich__(self) -> RenderableType:
        return summaries.as_text(self)

    def _repr_html_(self) -> str:
        return summaries.as_html(self)

    # -- looking at it

    def plot(self, figure: str = "overview", **options: Any) -> Figure:
        """A figure of this result by name, as drawn by `tailback plot`; notebooks display it.

        `options` are the figure's own, such as `start` and `end` in seconds. Raises `plots.UnknownFigure`, and
        `MissingRows` naming the instrument to switch on.
        """
        drawn: Figure = view("result.figure")(figure)(self, **options)
        return drawn

    def answer(self) -> list[str]:
        """Who gains, who suffers, by how much, how certain it is, in at most ten sentences: see `tailback.answer`."""
        return [each.text for each in view("result.answer")(self).statements]

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report of this result to `path`, one HTML file without external resources."""
        written: Path = view("result.report")(self, Path(path))
        return written

    # -- saving

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
        """Write the result to `folder` atomically, and return its path.

        An earlier result there is replaced in one step (`overwrite`); anything else is left alone. Raises `ResultError`
        if it cannot be written; the folder is then unchanged.
        """
        target = Path(folder).absolute()
        demand_writable(target, overwrite=overwrite)
        with whole_folder(target, layout.objection) as partial:
            layout.write(self, partial)
        return target

    def to_csv(self, folder: str | os.PathLike[str], tables: Iterable[str] | None = None) -> list[Path]:
        """Write each table (or those in `tables`) to `folder/<table>.csv`, with names and words instead of codes."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

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
            with whole_file(path) as partial:
                pa_csv.write_csv(plain, partial)
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
        lines = siftr.lines(self, self.flow_index(flow), side == "receiver", hz)
        with whole_file(target) as partial:
            partial.write_text("".join(lines), encoding="utf-8")
        return target


def write_while(
    folder: str | os.PathLike[str],
    resolved: Mapping[str, Any],
    made: Callable[[Any], Result],
    work: Callable[[layout.Sink], Mapping[str, Columns]],
    command: str,
) -> Result:
    """Do `work`, which passes rows to a sink during the run and returns the rest, from which `made` builds the result.

    The folder is written atomically and has the same bytes as with `Result.save`.
    """
    target = Path(folder).absolute()
    demand_writable(target)
    with whole_folder(target, layout.objection) as partial:
        with layout.Sink(partial, layout.names_of(resolved, {})) as sink:
            tables = work(sink)
            sink.finish(tables)
        result = made(tables)
        result.meta["command"] = command
        result._rows |= sink.rows
        layout.write(result, partial, sink.rows)
    return open_result(target)


def open_result(folder: str | os.PathLike[str]) -> Result:
    """Open a result that `Result.save` wrote. Tables are read on demand.

    Raises `ResultError` if the folder is missing, not a result, damaged, or from another layout version.
    """
    path = Path(folder)
    kept = layout.read(path)
    layout.warn_if_unchecked(path, kept)
    try:
        result = Result(resolved=kept.resolved, toml=kept.toml, written=kept.written, tables={}, meta=kept.meta)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise layout.damaged(path, error) from None
    result.meta["internals_names"] = kept.internals_names
    result._rows = kept.rows
    result._folder = path.absolute()
    result._digests = kept.files
    return result


# --- Helpers --------------------------------------------------------------------------------------------------


def _meta(resolved: Mapping[str, Any]) -> dict[str, Any]:
    # No host, user, path or date, so that the same run writes the same bytes.
    return {
        "format": FORMAT,
        "version": _core.version(),
        "engine": f"sim {_core.version()}",
        "name": resolved.get("name", ""),
        "seed": resolved["seed"],
        "command": "tailback.run",
        "python": ".".join(map(str, sys.version_info[:2])),
        "platform": _platform(),
    }


@functools.cache
def _platform() -> str:
    return f"{platform.system()} {platform.machine()}".lower()


class MissingColumn(UnknownName):
    """A table lacks a column: it is from another version, or was edited."""


class _Columns(dict[str, Array]):
    """A table's columns, read-only; a missing column's error lists the existing ones."""

    def __init__(self, table: str, columns: Columns) -> None:
        super().__init__((key, _read_only(column)) for key, column in columns.items())
        self._table = table

    @classmethod
    def frozen(cls, table: str, columns: Columns) -> _Columns:
        """The original arrays, made read-only."""
        out = cls(table, {})
        for key, column in columns.items():
            column.flags.writeable = False
            dict.__setitem__(out, key, column)
        return out

    def __missing__(self, column: str) -> Array:
        raise MissingColumn(f"table {self._table} has no column {column}. {choices(column, list(self))}")


def _read_only(column: Array) -> Array:
    view = np.asarray(column).view()
    view.flags.writeable = False
    return view


def frozen(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's tables, made read-only in place without views, since no other code holds their columns."""
    return {name: columns if name == "_names" else _Columns.frozen(name, columns) for name, columns in tables.items()}


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values()))) if columns else 0
