"""Tables, columns, units and codes, as the engine defines them in `crates/tailback-core/src/probe/rows.rs`.

>>> from tailback.result import schema
>>> schema.table("queue").instruments
('queues', 'drops')
>>> schema.column("polls", "cwnd").unit
'B'
>>> schema.code("queue", "event", "drop")
2
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback import _core

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Column:
    """A column as the engine defines it."""

    name: str
    #: NumPy name of its type.
    type: str
    #: Unit; empty for counts, codes, numbers and switches.
    unit: str
    #: Meaning of its values.
    doc: str
    #: Words for its codes, in order.
    words: tuple[str, ...]
    #: Meaning of each word.
    meanings: tuple[str, ...]
    #: The list of names that it indexes: a key of `_LISTS`.
    names: str | None
    #: The number for a missing value; in a float64 column it is NaN.
    none: int | None


@dataclass(frozen=True)
class Table:
    """A table as the engine defines it."""

    name: str
    #: What a row is.
    doc: str
    #: Instruments that fill it, any of them; empty if it is always filled.
    instruments: tuple[str, ...]
    #: Stacks of the flows that it covers: "own" or "foreign"; empty for all.
    stacks: str
    columns: Mapping[str, Column]

    def filled(self, rows: int, **columns: Any) -> dict[str, Array]:
        """Columns of the defined types and order; a column that is not given is missing, or zero if it cannot be.

        Raises `ValueError` for an unknown column.
        """
        unknown = columns.keys() - self.columns.keys()
        if unknown:
            raise ValueError(f"table {self.name} has no column {', '.join(sorted(unknown))}")
        out = {}
        for name, column in self.columns.items():
            given = columns.get(name)
            missing = np.nan if column.type == "float64" else column.none or 0
            out[name] = (
                np.full(rows, missing, dtype=column.type)
                if given is None
                else np.asarray(np.broadcast_to(given, rows), dtype=column.type)
            )
        return out


def _column(row: dict[str, Any]) -> Column:
    words = row.pop("words")
    return Column(**row, words=tuple(word for word, _ in words), meanings=tuple(meaning for _, meaning in words))


@functools.cache
def tables() -> Mapping[str, Table]:
    """Every table by name, in the order of the documentation."""
    rows = [
        Table(row["name"], row["doc"], tuple(row["instruments"]), row["stacks"],
              MappingProxyType({column["name"]: _column(column) for column in row["columns"]}))
        for row in json.loads(_core.tables())
    ]  # fmt: skip
    return MappingProxyType({row.name: row for row in rows})


def table(name: str) -> Table:
    """The definition of a table."""
    return tables()[name]


def column(table: str, column: str) -> Column:
    """The definition of a column."""
    return tables()[table].columns[column]


def known(table: str, column: str) -> Column | None:
    """The definition of a column; None if it is from another version, or the user's own."""
    found = tables().get(table)
    return None if found is None else found.columns.get(column)


def words(table: str, column: str) -> tuple[str, ...]:
    """Words for a column's codes, in order."""
    return tables()[table].columns[column].words


def code(table: str, column: str, word: str) -> int:
    """The code of a word."""
    return words(table, column).index(word)


def instruments(table: str) -> tuple[str, ...]:
    """Instruments that fill a table, any of them; empty if it is always filled, or unknown."""
    found = tables().get(table)
    return () if found is None else found.instruments


#: Words for the flows that a table covers.
_STACKS = {"own": "flows over tailback's own TCP or a kernel's", "foreign": "flows over another stack than that"}


def why_missing(table: str, resolved: Mapping[str, Any]) -> str:
    """Why a run of this scenario lacks the table, and the fix; empty if it has the table."""
    stated, on = tables().get(table), resolved.get("instruments") or {}
    if stated is None or not stated.instruments:
        return ""
    if not any(on.get(key) for key in stated.instruments):
        fix = f"Switch it on in the scenario, [instruments] {' or '.join(stated.instruments)}, and run again."
        return f"{table} was not recorded. {fix}"
    if stated.stacks:
        watched = {name for key in stated.instruments for name in on.get(key) or ()}
        flows = [flow for flow in resolved["flows"] if flow["name"] in watched]
        found = {"foreign" if (flow.get("tcp") or {}).get("transport") else "own" for flow in flows}
        if stated.stacks not in found:
            return f"{table} has {_STACKS[stated.stacks]}, of which this run recorded none."
    return ""


#: The place of the names that a column indexes.
_LISTS = {
    "flows": "a flow of the scenario, by its place",
    "links": "a link of the scenario, by its place",
    "captures": "a point of `instruments.captures`, by its place",
    "internals": "a word of `internals_names` in `meta.json`, by its place",
    "figures": "a word of `program_metrics` in `meta.json`, by its place",
    "hosts": "a word of `hosts` in `meta.json`, by its place",
    "counters": "a word of `counters` in `meta.json`, by its place",
}


_INTRODUCTION = """# Tables and columns

Every table of a result, with its columns, their units and what their codes stand for. `scripts/columns_page` writes
this page from `crates/tailback-core/src/probe/rows.rs`; a test holds the two equal.

- A result has totals always, and each other table if an instrument was on that fills it.
- Times are seconds since the run began.
- **In NumPy**, `result.numpy("queue")`, codes are numbers. What is missing is NaN; a column of whole numbers that can
  lack a value names the number that says so.
- **In Arrow, Polars and CSV** what is missing is null, and `labels=True` makes words and names of codes (CSV always
  has them).
- **In stored Parquet files** what is missing is null too, and words and names stand in place of codes, so that DuckDB
  or Polars can read a file by itself. The metadata of the fields has `unit`, and `labels` with the words in the order
  of their codes.

```sql
SELECT flow, reason, count(*) FROM 'results/run/queue.parquet' WHERE event = 'drop' GROUP BY ALL
```"""


def markdown() -> str:
    """The page `docs/columns.md`, generated from the engine's definitions."""
    lines = [_INTRODUCTION]
    for stated in tables().values():
        lines += ["", f"## {stated.name}", "", stated.doc]
        if stated.instruments:
            named = " or ".join(f"`instruments.{name}`" for name in stated.instruments)
            lines += ["", f"Filled by {named}{f', of {_STACKS[stated.stacks]}' if stated.stacks else ''}."]
        lines += ["", "| Column | Type | Unit | Meaning |", "| --- | --- | --- | --- |"]
        lines += [f"| `{it.name}` | {it.type} | {it.unit} | {_meaning(it)} |" for it in stated.columns.values()]
    return "\n".join(lines) + "\n"


def _meaning(stated: Column) -> str:
    parts = [stated.doc]
    if stated.names is not None:
        parts.append(f"The number is {_LISTS[stated.names]}.")
    codes = zip(stated.words, stated.meanings, strict=True)
    parts += [f"<br>{number} `{word}`: {meaning}" for number, (word, meaning) in enumerate(codes)]
    if stated.none is not None:
        parts.append(f"<br>Missing: {stated.none}.")
    return " ".join(parts)
