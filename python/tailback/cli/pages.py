"""`tailback page`: generates HAR files of web pages from published distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import AsJson, BadInput, emit, say
from tailback.lazy import lazy

with lazy():
    from tailback import pages

page = typer.Typer(name="page", no_args_is_help=True, help="Make web pages, for a flow of application `page`.")
app.add_typer(page)


@page.callback()
def _group() -> None:
    pass


@page.command()
def generate(
    number: Annotated[int, typer.Argument(help="Which of the 20 pages, from the lightest to the heaviest.")],
    out: Annotated[Path, typer.Option(help="The HAR file.")],
    seed: Annotated[int, typer.Option(help="Seed: each gives another page of the same weight.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate a web page from HTTP Archive's statistics, which the file states.

    For example:

    - `tailback page generate 10 --out page.har`
    """
    if out.exists() and not force:
        raise BadInput(f"{out} is there already. Give another name, or --force to replace it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        pages.write(out, number, seed)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror or error}") from None
    if as_json:
        emit({"written": out, "about": pages.ABOUT})
        return
    say(f'written: {escape(str(out))}   a flow takes it as: app = "page", params = {{ har = "{escape(out.name)}" }}')
