"""`tailback ci`: compares a base revision with the working tree, for continuous integration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tailback.cli._app import app
from tailback.cli._common import BAD_INPUT, CANDIDATE, FAILED, AsJson, BadInput, console, emit, say
from tailback.cli.reading import AllowCode, Set, setting
from tailback.files import write_text
from tailback.lazy import lazy

with lazy():
    from tailback.against import against_base, output, revisions
    from tailback.against.history import appended, figure, read
    from tailback.plots.style import save

INCOMPARABLE = 3
_FAILS = ("worse", "change", "never")


@app.command()
def ci(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Scenario files, folders of them, or suites by name."),
    ],
    base: Annotated[str, typer.Option(metavar="REF", help="Compare with the last common commit of this and HEAD.")],
    candidate: Annotated[
        str | None,
        typer.Option(
            metavar="CANDIDATE", help=f"Judge this, as each revision has it, in each subject's place: {CANDIDATE}"
        ),
    ] = None,
    settings: Set = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PLACE",
            help="A congestion control of your own, as each revision has it: `--algorithm mine=mine.py:Mine`. May be "
            "repeated.",
        ),
    ] = None,
    allow_code: AllowCode = False,
    pairs: Annotated[int, typer.Option(min=2, help="Pairs of runs per scenario; as many again confirm changes.")] = 16,
    least: Annotated[float, typer.Option(help="Hide differences below this share of the larger side.")] = 0.01,
    fail_on: Annotated[
        str, typer.Option(metavar="WHAT", help="Exit with 1 if a measure is `worse`, on any `change`, or `never`.")
    ] = "worse",
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a comment for a pull request.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page.")] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Append the revision's measures to this file; the page draws all that it holds."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the history: .png, .svg or .pdf.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the same scenarios with a base revision and with the working tree, and show only what changed.

    The base is checked out into a temporary git worktree. The exit code is 0 if nothing is
    worse, and 1 if a measure is worse, a condition of `[expect]` no longer holds, or a run fails that did not. It is
    2 if a file could not be read or there is no base, 3 if a scenario could not be compared, and 130 after Ctrl-C.
    If several apply, the first of 130, 2, 1, 3 counts.

    For example:

    - `tailback ci scenarios --base origin/main`

    - `tailback ci cubic --base main --candidate mine.py:Mine --allow-code --markdown comment.md --html page.html`

    - `tailback ci scenarios --base main --history history.jsonl --plot history.svg`
    """
    if fail_on not in _FAILS:
        raise BadInput(f"--fail-on {fail_on}: this is none of {', '.join(_FAILS)}. Write for example --fail-on worse")
    if plot is not None and history is None:
        raise BadInput("--plot draws a history. Name its file with --history FILE.")
    if history is not None:
        # Report an invalid history file before the runs.

        read(history)
    try:
        found = against_base(
            paths,
            base=base,
            candidate=None if candidate is None else setting(f"candidate={candidate}")[1],
            changes=dict(setting(text) for text in settings or ()),
            algorithms=dict(map(_own, algorithm or ())),
            allow_code=allow_code,
            pairs=pairs,
            least=least,
            workers=workers,
            progress=not as_json,
        )
    except revisions.RevisionError as error:
        raise BadInput(str(error)) from None
    entries: list[Any] = []
    if history is not None:
        entries = appended(history, found)
        if plot is not None:
            save(figure(entries), plot)
    if markdown is not None:
        write_text(markdown, output.markdown(found))
    if html is not None:
        output.write_page(found, html, entries)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(output.markdown(found))
    _show(found, as_json)
    if found.unreadable:
        raise typer.Exit(BAD_INPUT)
    if fail_on != "never" and (found.worse or (fail_on == "change" and found.changes)):
        raise typer.Exit(FAILED)
    if found.compared.incomparable:
        raise typer.Exit(INCOMPARABLE)


def _own(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not equals or not name.strip() or not place.strip():
        raise BadInput(f"--algorithm {text}: write a name and a place: --algorithm mine=path/to/file.py:Class")
    return name.strip(), place.strip()


def _show(found: Any, as_json: bool) -> None:
    if as_json:
        emit(found.to_json())
    else:
        if found.changes:
            console().print(_table(output.HEADS, output.rows(found), {"better": "green", "worse": "red"}))
        # Conditions that hold on both sides are only counted, below.
        if rows := [row for row in output.expected(found) if row[-1] != output.HOLDS]:
            console().print(_table(output.EXPECTED, rows, {"no longer holds": "red"}))
    for name, what, why in output.lost(found):
        say(f"[bold red]no longer holds:[/bold red] {escape(f'{name}: {what}: {why}')}")
    for kind, name, why in output.failures(found):
        say(f"[bold red]{kind}:[/bold red] {escape(name)}: {escape(why)}")
    for note in found.notes:
        say(escape(note))
    if found.compared.expected:
        say(escape(f"conditions: {output.conditions(found)}"))
    say(escape(output.summary(found)))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], colours: dict[str, str]) -> Table:
    """A table with names in the first two columns, numbers, and a word in the last."""
    table = Table(box=None, pad_edge=False)
    for number, head in enumerate(heads):
        is_word = number < 2 or number == len(heads) - 1
        table.add_column(head, overflow="fold", justify="left" if is_word else "right")
    for *cells, word in rows:
        table.add_row(*map(escape, cells), f"[{colours.get(word, 'yellow')}]{word}[/]")
    return table
