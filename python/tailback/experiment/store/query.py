"""SQL queries to a store, with errors that explain how to correct a query."""

from __future__ import annotations

import re

import polars as pl

from tailback.errors import TailbackError, nearest
from tailback.experiment.store.axes import is_axis, without_seed

__all__ = ["QueryError", "answer", "points", "settings"]

#: Maximum number of columns to name in an error.
_MOST_NAMED = 12


class QueryError(TailbackError):
    """SQL that cannot be parsed, or that names an unknown column or table."""


def answer(frame: pl.DataFrame, sql: str) -> pl.DataFrame:
    """Run an SQL query (Polars' dialect) on `frame`, the table `runs`; `QueryError` explains the fix."""
    if not re.match(r"\s*(--|/\*|\(|select\b|with\b|from\b)", sql, re.IGNORECASE):
        raise QueryError(f"a question begins with SELECT, not with {sql.split()[:1] or ['nothing']}; {_example(frame)}")
    try:
        return pl.SQLContext(runs=frame, eager=True).execute(sql)
    except pl.exceptions.PolarsError as error:
        raise QueryError(f"this query cannot be answered: {_explained(str(error), frame)}") from None


def settings(frame: pl.DataFrame, sql: str) -> list[str]:
    """Names of the swept columns of the runs `frame` in the answer to `sql`, including aliases."""
    swept = [name for name in frame.columns if is_axis(name)]
    out = list(swept)
    for name in swept:
        others = re.findall(rf'(?<!\w)"?{re.escape(name)}"?\s+AS\s+("[^"]+"|\w+)', sql, re.IGNORECASE)
        out += [other.strip('"') for other in others]
    return out


def points(frame: pl.DataFrame) -> int:
    """The number of different scenarios of the runs `frame`, regardless of seeds."""
    return without_seed(frame["scenario"]).n_unique()


def _explained(error: str, frame: pl.DataFrame) -> str:
    """Polars' error without the query plan, and the names that exist."""
    first = error.splitlines()[0].split("; valid columns")[0]
    if "relation" in first:
        return f"{first}; the only table is runs"
    # Error "unable to find column", with the name or its part before the first dot.
    asked = re.search(r"(?:find column \"|column named ')([^\"']+)", first)
    if asked is None:
        return first
    name = asked.group(1)
    if any(column.startswith(f"{name}.") for column in frame.columns):
        return f'{first}; a column with a dot in its name needs double quotes, such as "{_dotted(name, frame)}"'
    near = nearest(name, frame.columns)
    if near:
        return f'{first}; did you mean "{near}"?'
    return f"{first}; {_example(frame)}"


def _dotted(start: str, frame: pl.DataFrame) -> str:
    return next(column for column in frame.columns if column.startswith(f"{start}."))


def _example(frame: pl.DataFrame) -> str:
    measured = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    named = ", ".join(f'"{name}"' for name in measured[:_MOST_NAMED])
    more = f" and {len(measured) - _MOST_NAMED} more" if len(measured) > _MOST_NAMED else ""
    return f"columns with numbers are {named}{more}; all of them: SELECT * FROM runs LIMIT 1"
