"""Common parts of all commands: output for people and for programs, and errors that end a command."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tailback.errors import TailbackError, nearest
from tailback.lazy import lazy
from tailback.numbers import jsonable

with lazy():
    from tailback.experience import films, games, page_loads

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class Stopped(TailbackError):
    """Ctrl-C, as an exception that the command-line library does not turn into a bare exit."""


class BadInput(TailbackError):
    """Invalid input from the user: exit code 2."""


class Message(TailbackError):
    """A text for the user, raised as an exception."""


AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on standard output.")]


ResultFolder = Annotated[Path, typer.Argument(metavar="RESULT", help="A folder that `tailback run --out` wrote.")]


#: The forms of a candidate; see docs/candidates.md.
CANDIDATE = "cubic, cubic,beta=0.5, mine.py:Mine, mine.bpf.c, mine/Cargo.toml, quinn,cc=bbr; see docs/candidates.md."


def console(piped_width: int = 200) -> Console:
    # Piped output is for programs and files: do not wrap lines.
    return Console(emoji=False) if sys.stdout.isatty() else Console(width=piped_width, no_color=True, emoji=False)


def say(text: str) -> None:
    """Print a message for the user on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(text)


def emit(data: Any) -> None:
    """Print the one JSON object on standard output."""
    print(json.dumps(jsonable(data), ensure_ascii=False, indent=2, allow_nan=False))


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for key in rows[0] if rows else ():
        table.add_column(key, overflow="fold", no_wrap=key == "name")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    # Piped, a row is one line, however long.
    console(piped_width=100_000).print(table)


def brief(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else value


def unknown(what: str, name: str, names: Sequence[str]) -> str:
    close = nearest(name, names)
    hint = f' Did you mean "{close}"?' if close else ""
    return f'there is no {what} "{name}".{hint} There are: {", ".join(names)}'


def beside(folder: Path, ending: str) -> Path:
    """A path beside a result; resolves ".", which has no name."""
    named = folder if folder.name else folder.absolute()
    return named.with_name(named.name + ending)


def described(result: Any) -> dict[str, Any]:
    meta = {key: value for key, value in result.meta.items() if key != "internals_names"}
    return {
        "name": result.name,
        "seed": result.seed,
        "duration_s": result.duration_s,
        "meta": meta,
        "flows": result.flow_summary(),
        "experience": result.experience_summary(),
        "games": games(result),
        "films": films(result),
        "pages": page_loads(result),
        "programs": result.program_summary(),
        "program_metrics": result.program_metrics(),
        "links": result.link_summary(),
        "tables": {name: result.rows(name) for name in result.tables},
    }
