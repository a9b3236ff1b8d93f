"""Merges stores: combines the shards of a sweep, or the runs of several people, in one store.

A row is copied if the store has no row of its key and point, or one of lower rank (`index.latest`). Copied tables
are compared with their checksums. Rows are written after their tables, in atomic parts, so that an interrupted merge
can be started again and continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from tailback.errors import StoreError
from tailback.experiment.store import index
from tailback.experiment.store.axes import is_axis

if TYPE_CHECKING:
    from tailback.experiment.store import Store

__all__ = ["MergeConflict", "Merged", "merged"]

#: Column, during the merge, with the store that a row comes from.
_FROM = "\0store"
#: Of a row: whether its run succeeded, whether it has tables, and when it finished.
_Rank = tuple[bool, bool, float]
#: Maximum number of differing values to print for a run.
_MOST_NAMED = 5


@dataclass(frozen=True)
class Merged:
    """What a merge copied."""

    #: Runs that the store lacked, or had with a lower rank.
    rows: int
    #: Runs that the store already had.
    known: int
    #: Sets of tables copied, and their size in bytes.
    tables: int
    bytes: int


class MergeConflict(StoreError):
    """Runs of the same key, so the same scenario and engine, with different numbers in two stores."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        #: Both rows of the first such run, with all their columns.
        self.rows = [{name: value for name, value in row.items() if name != _FROM} for row in rows]
        one, other = rows[:2]
        names = [name for name in one if name not in index.COLUMNS and name != _FROM and one[name] != other[name]]
        differing = [
            ", ".join(f"{name} {row[name]}" for name in names[:_MOST_NAMED])
            + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
            for row in (one, other)
        ]
        super().__init__(
            f"the run {one['key']} has other numbers in one store than in the other. Nothing was changed.\n"
            f"  {one[_FROM]}: {differing[0]} (sweep {one['sweep']}, point {one['point']}, seed {one['seed']})\n"
            f"  {other[_FROM]}: {differing[1]} (sweep {other['sweep']}, point {other['point']}, seed {other['seed']})\n"
            f"The engine {one['engine']} gives one answer to one scenario: run it again (tailback results show "
            f"{one['key']} --scenario) and leave out the store that is wrong"
        )


def merged(into: Store, others: Sequence[Store]) -> Merged:
    """Copy the runs of `others` into a store; `MergeConflict` before anything is written."""
    if any(other.folder.resolve() == into.folder.resolve() for other in others):
        raise StoreError(f"{into.folder} cannot be merged into itself. Name other stores after it.")
    with contextlib.ExitStack() as stack:
        for store in (into, *others):
            stack.enter_context(store.open())
        frames = [store.everything() for store in (into, *others)]
        _demand_one_answer([into, *others], frames)
        have = _Present(index.latest(frames[0]))
        counts = [_take(into, other, frame, have) for other, frame in zip(others, frames[1:], strict=True)]
    return Merged(*(sum(each) for each in zip(*counts, strict=True))) if counts else Merged(0, 0, 0, 0)


def _demand_one_answer(stores: Sequence[Store], frames: Sequence[pl.DataFrame]) -> None:
    sources = [
        frame.with_columns(pl.lit(str(store.folder)).alias(_FROM)) for store, frame in zip(stores, frames, strict=True)
    ]
    found = index.conflicts(index.together(sources))
    if len(found):
        raise MergeConflict(_two_that_differ(found.filter(pl.col("key") == found["key"][0]).to_dicts()))


def _two_that_differ(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    def differs(row: dict[str, Any]) -> bool:
        return any(
            isinstance(value, float) and isinstance(rows[0][name], float) and value != rows[0][name]
            for name, value in row.items()
            if name not in index.COLUMNS and not is_axis(name)
        )

    return [rows[0], next(row for row in rows if differs(row))]


class _Present:
    """The rank of a store's row for each key and point, and the checksum of each run's tables."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._ranks: dict[str, list[tuple[frozenset[tuple[str, Any]], _Rank]]] = {}
        self.seals: dict[str, str] = {}
        self.add(frame)

    def add(self, frame: pl.DataFrame) -> None:
        columns = ["key", "run", "status", "tables", "tables_sha256", "finished", *filter(is_axis, frame.columns)]
        for row in frame.select(columns).iter_rows(named=True):
            self._ranks.setdefault(row["key"], []).append((_point(row), _rank(row)))
            if row["tables"] and row["tables_sha256"] is not None:
                self.seals[row["run"]] = row["tables_sha256"]

    def lacks(self, row: dict[str, Any]) -> bool:
        # The store's row of the point may have the axes of other sweeps as well.
        point = _point(row)
        have = max((rank for axes, rank in self._ranks.get(row["key"], ()) if axes >= point), default=None)
        # A success with tables is already there; a newer row would differ only in its time.
        return have is None or (have[:2] != (True, True) and _rank(row) > have)


def _point(row: dict[str, Any]) -> frozenset[tuple[str, Any]]:
    """The axis values of a row."""
    return frozenset((name, value) for name, value in row.items() if is_axis(name) and value is not None)


def _rank(row: dict[str, Any]) -> _Rank:
    return row["status"] == "ok", bool(row["tables"]), row["finished"] or 0.0


def _take(into: Store, other: Store, everything: pl.DataFrame, have: _Present) -> tuple[int, int, int, int]:
    frame = index.latest(everything)
    wanted = frame.filter(pl.Series([have.lacks(row) for row in frame.iter_rows(named=True)], dtype=pl.Boolean))
    tables = size = 0
    # In parts, so that an interrupt loses little.
    for part in wanted.iter_slices(index.FOLD_AFTER):
        seals = part["tables_sha256"].to_list()
        for at, (run, kept) in enumerate(part.select("run", "tables").iter_rows()):
            if kept:
                there = have.seals.get(run)
                # A run's tables are stored once, even if several rows measure them.
                if there is not None and into.has_tables(run, there):
                    seals[at] = there
                else:
                    size += into.take_tables(other, run, seals[at])
                    tables += 1
                    if seals[at] is not None:
                        have.seals[run] = seals[at]
        part = part.with_columns(pl.Series("tables_sha256", seals, dtype=pl.String))
        try:
            index.write_part(into.folder, index.new_stem(), _without_empty(part))
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(
                f"{into.folder} cannot be written: {reason}. Make room and start the same merge again."
            ) from None
        have.add(part)
    return len(wanted), len(frame) - len(wanted), tables, size


def _without_empty(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        name for name in frame.columns if name in index.COLUMNS or frame[name].null_count() < len(frame)
    )
