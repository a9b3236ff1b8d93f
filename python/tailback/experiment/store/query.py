"""SQL queries to a store, and the errors of those that cannot be answered."""

from __future__ import annotations

import re

import polars as pl

from tailback.errors import TailbackError, nearest

__all__ = ["QueryError", "answer", "points", "settings"]

#: This many columns are named where one was not found.
_MOST_NAMED = 12


class QueryError(TailbackError):
    """SQL that cannot be understood, or names what is not there."""


def answer(frame: pl.DataFrame, sql: str) -> pl.DataFrame:
    """Ask `frame`, the table `runs`, in SQL (Polars' dialect); `QueryError` says what to write instead."""
    if not re.match(r"\s*(--|/\*|\(|select\b|with\b|from\b)", sql, re.IGNORECASE):
        raise QueryError(f"a question begins with SELECT, not with {sql.split()[:1] or ['nothing']}; {_example(frame)}")
    try:
        return pl.SQLContext(runs=frame, eager=True).execute(sql)
    except pl.exceptions.PolarsError as error:
        raise QueryError(f"this query cannot be answered: {_explained(str(error), frame)}") from None


#: Keys of a scenario under which a sweep varies values.
_ROOTS = ("dumbbell", "preset", "link", "flow", "duration", "randomness", "instruments", "warmup")


def settings(frame: pl.DataFrame, sql: str) -> list[str]:
    """The names that the swept values of the runs `frame` have in the answer to `sql`, other names given there too."""
    swept = [name for name in frame.columns if re.split(r"[.\[]", name)[0] in _ROOTS]
    out = list(swept)
    for name in swept:
        others = re.findall(rf'(?<!\w)"?{re.escape(name)}"?\s+AS\s+("[^"]+"|\w+)', sql, re.IGNORECASE)
        out += [other.strip('"') for other in others]
    return out


def points(frame: pl.DataFrame) -> int:
    """Of how many scenarios the runs `frame` are, whatever their seeds."""
    return frame["scenario"].str.replace(r"(?m)^seed = .*$", "").n_unique()


def _explained(error: str, frame: pl.DataFrame) -> str:
    """What was wrong, without the plan that Polars prints, and what is there instead."""
    first = error.splitlines()[0].split("; valid columns")[0]
    if "relation" in first:
        return f"{first}; the only table is runs"
    # "unable to find column", or the part of a name before its first dot.
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
