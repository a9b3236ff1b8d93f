"""Commands for example scenarios: a commented one to start with, and those that come with tailback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tailback import examples
from tailback.cli._app import app
from tailback.cli._common import AsJson, BadInput, emit, print_rows, say, unknown
from tailback.files import whole_file

_OUT_HELP = "Copy it there instead of printing it: a file, or a folder."


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The scenario to write.")] = Path("scenario.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented scenario to start with: a call beside a download.

    For example `tailback init && tailback run scenario.toml`
    """
    _write(file, examples.read("voip-and-bulk").replace("scenarios/voip-and-bulk.toml", file.name), force)
    if as_json:
        emit({"written": file})
    else:
        say(f"written: {escape(str(file))}   run it with: tailback run {escape(str(file))}")


@app.command("examples")
def list_examples(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this one.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help=_OUT_HELP)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the scenarios that come with tailback, print one, or copy it.

    For example:

    - `tailback examples`

    - `tailback examples everyone-on-the-link --out mine.toml`

    - `tailback examples grids/queue-length --out .`
    """
    if name is None:
        if out is not None:
            raise BadInput(f"--out {out}: name the example to copy: tailback examples NAME --out {out}")
        rows = [{"name": each, "about": examples.about(each)} for each in examples.names()]
        emit({"examples": rows}) if as_json else print_rows(rows)
        return
    if name not in examples.names():
        raise BadInput(unknown("example", name, examples.names()))
    text = examples.read(name)
    if out is None:
        emit({"name": name, "text": text}) if as_json else print(text, end="")
        return
    written = []
    for each in [name, *examples.needs(name)]:
        # A grid names its scenario by a relative path, so both keep their places.
        target = out if out.suffix == ".toml" and not examples.needs(name) else out / f"{each}.toml"
        for path, text in [(target, examples.read(each)), *_beside(target, examples.data(each))]:
            _write(path, text, force)
            written.append(path)
    if as_json:
        emit({"written": written})
    else:
        say("\n".join(f"written: {escape(str(path))}" for path in written))


def _beside(file: Path, data: Mapping[str, str]) -> list[tuple[Path, str]]:
    return [(file.parent / name, text) for name, text in data.items()]


def _write(file: Path, text: str, force: bool) -> None:
    if file.exists() and not force:
        raise BadInput(f"{file} is there already. Give another name, or --force to replace it")
    if file.is_dir():
        raise BadInput(f"{file} is a folder. Give the name of a file")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror or error}") from None
