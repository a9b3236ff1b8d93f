"""What can be made of a result: report, figure, other programs' formats."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import (
    AsJson,
    BadInput,
    ResultFolder,
    beside,
    emit,
    print_rows,
    say,
    unknown,
)


class _Format(StrEnum):
    CSV = "csv"
    SIFTR = "siftr"


@app.command()
def report(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result folder, or a study's.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file. Default: report.html beside the result.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a report: one HTML file that needs nothing else.

    For example `tailback report results/seven --out seven.html`
    """
    reports, studies = import_module("tailback.report"), import_module("tailback.studies")
    from tailback.result import open_result

    is_study = studies.is_study(result)
    subject = studies.load(result) if is_study else open_result(result)
    default = result / "report.html" if is_study else beside(result, ".html")
    path = reports.write(subject, out or default)
    if as_json:
        emit({"report": path})
    else:
        say(f"report: {escape(str(path))}")


@app.command()
def plot(
    result: ResultFolder,
    figure: Annotated[str | None, typer.Option(help="Name of the figure; `--list` shows them.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .png or .pdf file; without suffix both. Default: the figure's name.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a figure of a result.

    For example:

    - `tailback plot results/seven --figure overview`

    - `tailback plot results/seven --list`
    """
    plots = import_module("tailback.plots")
    from tailback.result import open_result

    if listed:
        rows = [{"name": recipe.name, "title": recipe.title} for recipe in plots.catalogue()]
        if as_json:
            emit({"figures": rows})
        else:
            print_rows(rows)
        return
    name = figure or plots.default
    if name not in plots.names():
        raise BadInput(unknown("figure", name, plots.names()))
    drawn = plots.get(name)(open_result(result))
    paths = plots.save(drawn, out or Path(name))
    if as_json:
        emit({"figure": name, "files": paths})
    else:
        say("\n".join(f"figure: {escape(str(path))}" for path in paths))


@app.command()
def export(
    result: ResultFolder,
    form: Annotated[_Format, typer.Option("--format", help="`csv`: a file a table; `siftr`: a FreeBSD siftr(4) log.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder (csv) or file (siftr). Default: RESULT-csv, or RESULT-FLOW.siftr.log.")
    ] = None,
    flow: Annotated[
        str | None, typer.Option(help="Flow, for siftr. Default: the only one whose segments are there.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Table, for csv. May be repeated. Default: all.")] = None,
    side: Annotated[str, typer.Option(help="For siftr: sender or receiver.")] = "sender",
    as_json: AsJson = False,
) -> None:
    """Write a result in another program's format.

    For example:

    - `tailback export results/seven --format csv --table flows --out seven-csv`

    - `tailback export results/seven --format siftr --flow bulk`
    """
    from tailback.result import open_result

    opened = open_result(result)
    if form is _Format.CSV:
        paths = opened.to_csv(out or beside(result, "-csv"), table)
    else:
        which = flow or _logged_flow(opened)
        target = out or beside(result, f"-{which}.siftr.log")
        paths = [opened.to_siftr(target, which, side=side)]
    if as_json:
        emit({"format": form.value, "files": paths})
    else:
        say("\n".join(f"wrote: {escape(str(path))}" for path in paths))


def _logged_flow(result: Any) -> str:
    logged: list[str] = result.resolved["instruments"]["segments"]
    if len(logged) == 1:
        return logged[0]
    if not logged:
        raise BadInput(
            "no flow's segments were recorded. Switch them on in the scenario, [instruments] segments, and run again."
        )
    raise BadInput(f"the segments of several flows were recorded. Choose with --flow: {', '.join(logged)}")
