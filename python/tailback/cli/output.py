"""Commands that write reports, figures and other programs' formats from results."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
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
    console,
    emit,
    print_rows,
    say,
    unknown,
)
from tailback.cli.reading import labels_of, read_scenario
from tailback.export import export as make
from tailback.lazy import lazy

with lazy():
    from tailback.capture import write_flent
    from tailback.experiment.store import is_store, open_store
    from tailback.explain import explain
    from tailback.plots import save, sweeps
    from tailback.result import open_result


class _Format(StrEnum):
    CSV = "csv"
    SIFTR = "siftr"
    FLENT = "flent"
    QLOG = "qlog"
    QVIS = "qvis"


class _Target(StrEnum):
    NETEM = "netem"
    NS3 = "ns3"


@app.command()
def report(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result folder, a study's, or a sweep's store of runs.")
    ],
    out: Annotated[Path | None, typer.Option(help="The HTML file. Default: report.html beside the result.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a report as one self-contained HTML file, and print the answer at its top.

    Who gains, who suffers, by how much and how certain it is, in at most ten sentences. For example:

    - `tailback report results/seven --out seven.html`

    - `tailback report results/store`
    """
    reports, studies = import_module("tailback.report"), import_module("tailback.experiment.studies")

    inside = studies.is_study(result) or is_store(result)
    subject = (
        studies.load(result)
        if studies.is_study(result)
        else open_store(result)
        if is_store(result)
        else open_result(result)
    )
    default = result / "report.html" if inside else beside(result, ".html")
    path = reports.write(subject, out or default)
    found = reports.answered(subject)
    if as_json:
        emit({"answer": [each.as_dict() for each in found], "report": path})
        return
    for each in found:
        console().print(escape(each.text), highlight=False, soft_wrap=True)
    say(f"report: {escape(str(path))}")


@app.command("explain")
def explain_result(result: ResultFolder, as_json: AsJson = False) -> None:
    """Explain delay, loss and shares of a result in plain sentences, each with the rows that support it.

    For example `tailback explain results/seven`
    """
    found = explain(open_result(result))
    if as_json:
        emit({"findings": [finding.as_dict() for finding in found]})
        return
    about = ""
    for finding in found:
        if finding.about != about:
            about = finding.about
            console().print(f"[bold]{about}[/bold]")
        console().print(f"  {escape(finding.text)}", highlight=False)
        console().print(f"    [dim]{escape(finding.rests_on)}[/dim]", highlight=False)


@app.command()
def plot(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT...", help="Result folders, as many as you like; or one sweep's store."),
    ],
    figure: Annotated[str | None, typer.Option(help="Name of the figure; `--list` shows them.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A .png, .pdf or .svg file; without suffix .png and .pdf. Default: RESULT-FIGURE."),
    ] = None,
    start: Annotated[float | None, typer.Option("--from", help="Seconds: draw only what comes after.")] = None,
    end: Annotated[float | None, typer.Option("--until", help="Seconds: draw only what comes before.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="For a store: a column, or an expression such as 'bbr.goodput / total'. Repeat for more panels."
        ),
    ] = None,
    axis: Annotated[str | None, typer.Option(help="For a store: the varied value to draw along.")] = None,
    by: Annotated[str | None, typer.Option(help="For a store: the value shown by colour.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="A name for each result, in order; for a store LEVEL=NAME. May be repeated."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the figure.")] = None,
    flow: Annotated[
        list[str] | None, typer.Option(help="Draw only this flow; for a store, its user experience. May be repeated.")
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(help="Width of the picture: inches, or `column` or `page` of a paper with two columns."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures that can be drawn from these.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a figure of one result, of several on the same axes, or of all runs of a sweep.

    For example:

    - `tailback plot results/seven --list`

    - `tailback plot results/reno results/cubic results/htcp --figure delay-cdf --from 10`

    - `tailback plot results/reno results/cubic --label NewReno --label CUBIC --flow bulk --title "Two downloads"`

    - `tailback plot results/store --figure lines --metric voip.delay_p95_ms --axis dumbbell.queue`

    - `tailback plot results/household --figure people`

    - `tailback plot results/pairs --figure violin --metric 'theirs.goodput / total' --width column --out share.pdf`
    """
    plots = import_module("tailback.plots")
    inches = _inches(width)
    if is_store(results[0]):
        if len(results) > 1 or start is not None or end is not None:
            raise BadInput(f"{results[0]} is a store: draw it alone, without --from and --until")
        words = (label or [], title, flow or [])
        _plot_store(results[0], figure, (out, inches), (metric or [], axis, by), words, listed, as_json)
        return
    for option, value in (("--metric", metric[0] if metric else None), ("--axis", axis), ("--by", by)):
        if value is not None:
            raise BadInput(f"{option} {value}: this is for a sweep's store, and {results[0]} is none")
    opened = plots.labelled(dict(zip(_labels(results, label), map(open_result, results), strict=True)))
    if flow:
        opened = plots.only(opened, *flow)
    if listed:
        _list_figures([{"name": r.name, "title": r.title} for r in plots.drawable(opened)], as_json)
        return
    name = figure or plots.default
    if name not in plots.names() and name in sweeps.FIGURES:
        raise BadInput(f"--figure {name} draws a sweep's store, and {results[0]} is a result. Give the store's folder")
    if name not in plots.names():
        raise BadInput(unknown("figure", name, plots.names()))
    window = {key: value for key, value in (("start", start), ("end", end)) if value is not None}
    if window and not plots.get(name).takes_window:
        fits = ", ".join(recipe.name for recipe in plots.catalogue() if recipe.takes_window)
        raise BadInput(f"--from, --until: the figure {name} is of the whole run. These take a window: {fits}")
    _demand_window(start, end, max(rows.duration_s for rows in opened.values()))
    drawn = plots.get(name)(opened, **window)
    saved = plots.save(plots.titled(drawn, title) if title else drawn, out or _named(results, name), width=inches)
    _print_figure(name, saved, as_json)


#: Maximum length of the results' names in a picture's file name; a digest replaces the rest.
_LONGEST_NAME = 80


def _named(results: Sequence[Path], figure: str) -> Path:
    """A picture's path beside its first result. The file name has the results, so that no other picture is replaced."""
    folders = [result.absolute() for result in results]
    names = "-".join(folder.name for folder in folders)
    if len(names) > _LONGEST_NAME or len({folder.parent for folder in folders}) > 1:
        digest = hashlib.sha256("\n".join(map(str, folders)).encode()).hexdigest()[:8]
        names = f"{names[:_LONGEST_NAME]}-{digest}"
    first = results[0] if results[0].name else folders[0]
    return first.with_name(f"{names}-{figure}")


def _inches(width: str | None) -> float | None:
    """A width in inches; None for the figure's own."""
    if width is None:
        return None
    style = import_module("tailback.plots.style")
    known = {"column": style.COLUMN_WIDTH, "page": style.FULL_WIDTH}
    with contextlib.suppress(ValueError):
        found = float(known.get(width, width))
        if 1.0 <= found <= 40.0:
            return found
    raise BadInput(f"--width {width}: give inches from 1 to 40, column ({known['column']}) or page ({known['page']})")


def _labels(results: Sequence[Path], given: Sequence[str] | None) -> list[str]:
    if not given:
        return labels_of(results)
    if len(given) != len(results) or len(set(given)) < len(given):
        raise BadInput(f"--label {', --label '.join(given)}: give each of the {len(results)} results a name of its own")
    return list(given)


def _demand_window(start: float | None, end: float | None, duration: float) -> None:
    """Check that a time window is not empty."""
    if start is not None and end is not None and start >= end:
        raise BadInput(f"--from {start:g} --until {end:g}: the window ends before it begins. Give a later --until")
    for option, value in (("--from", start), ("--until", end)):
        if value is not None and not value >= 0:
            raise BadInput(f"{option} {value:g}: a run begins at 0 s. Give seconds from its start")
    if start is not None and start >= duration:
        raise BadInput(f"--from {start:g}: the run is over after {duration:g} s. Give an earlier --from")
    if end is not None and end <= 0:
        raise BadInput(f"--until {end:g}: nothing comes before 0 s. Give a later --until")


def _plot_store(
    folder: Path,
    figure: str | None,
    where: tuple[Path | None, float | None],
    columns: tuple[Sequence[str], str | None, str | None],
    words: tuple[Sequence[str], str | None, Sequence[str]],
    listed: bool,
    as_json: bool,
) -> None:
    if listed:
        found = sweeps.offered(open_store(folder).frame())
        _list_figures([{"name": name, "title": title} for name, title in found.items()], as_json)
        return
    metric, axis, by = columns
    labels, title, flows = words
    frame = open_store(folder).frame()
    name = figure or sweeps.usual(frame, metric, flows)
    if name not in sweeps.FIGURES:
        raise BadInput(unknown("figure of a store", name, list(sweeps.FIGURES)))
    names = dict(each.split("=", 1) for each in labels if "=" in each)
    if len(names) < len(labels):
        raise BadInput(f"--label {', --label '.join(labels)}: of a store write LEVEL=NAME, as in --label reno=NewReno")
    drawn = sweeps.draw(name, frame, metric=metric, axis=axis, by=by, flow=flows, labels=names, title=title)
    out, width = where
    _print_figure(name, save(drawn, out or _named([folder], name), width=width), as_json)


def _list_figures(rows: list[dict[str, str]], as_json: bool) -> None:
    emit({"figures": rows}) if as_json else print_rows(rows)


def _print_figure(name: str, paths: list[Path], as_json: bool) -> None:
    if as_json:
        emit({"figure": name, "files": paths})
    else:
        say("\n".join(f"figure: {escape(str(path))}" for path in paths))


@app.command()
def export(
    subject: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT|SCENARIO", help="A folder that `tailback run --out` wrote, or a scenario in TOML."
        ),
    ],
    form: Annotated[
        _Format | None,
        typer.Option(
            "--format",
            help="Of a result. `csv`: a file a table; `siftr`: a FreeBSD siftr(4) log; `flent`: Flent's data file; "
            "`qlog`: a file a side of each connection over QUIC; `qvis`: the same as the viewer qvis reads it.",
        ),
    ] = None,
    target: Annotated[
        _Target | None,
        typer.Option(
            "--as",
            help="Of a scenario. `netem`: a script of namespaces, tc and iperf3; `ns3`: a program for ns-3.44.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder (csv, qlog, qvis) or file. Default: RESULT-csv, RESULT-qlog, RESULT-qvis, "
            "RESULT-FLOW.siftr.log, RESULT.flent.gz, NAME-netem.sh or NAME-ns3.cc."
        ),
    ] = None,
    flow: Annotated[
        str | None, typer.Option(help="Flow, for siftr. Default: the only one whose segments are there.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Table, for csv. May be repeated. Default: all.")] = None,
    side: Annotated[str, typer.Option(help="For siftr: sender or receiver.")] = "sender",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Of a scenario: change a value first. May be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a result in another program's format, or a scenario as a program for another tool.

    For example:

    - `tailback export results/seven --format csv --table flows --out seven-csv`

    - `tailback export results/seven --format siftr --flow bulk`

    - `tailback export results/seven --format flent`

    - `tailback export results/quinn --format qlog`

    - `tailback export scenarios/voip-and-bulk.toml --as netem`

    - `tailback export scenarios/voip-and-bulk.toml --as ns3 --set flow.bulk.cc=htcp --out mine.cc`
    """
    if (form is None) == (target is None):
        raise BadInput(
            f"{subject}: give --format {', '.join(_Format)} for a result, or --as netem or ns3 for a scenario"
        )
    if target is not None:
        _export_scenario(subject, target, settings, out, as_json)
        return
    if settings:
        raise BadInput(f"--set {settings[0]}: a result cannot be changed. This is for a scenario, with --as")
    opened = open_result(subject)
    if form is _Format.CSV:
        paths = opened.to_csv(out or beside(subject, "-csv"), table)
    elif form is _Format.FLENT:
        paths = [write_flent(opened, out or beside(subject, ".flent.gz"))]
    elif form in (_Format.QLOG, _Format.QVIS):
        paths = list(import_module("tailback.qlog").write(opened, out or beside(subject, f"-{form}"), str(form)))
    else:
        which = flow or _logged_flow(opened)
        chosen = out or beside(subject, f"-{which}.siftr.log")
        paths = [opened.to_siftr(chosen, which, side=side)]
    if as_json:
        emit({"format": str(form), "files": paths})
    else:
        say("\n".join(f"wrote: {escape(str(path))}" for path in paths))


def _export_scenario(
    file: Path, target: _Target, settings: Sequence[str] | None, out: Path | None, as_json: bool
) -> None:
    made = make(read_scenario(file, settings, None), target.value)
    path = made.save(out)
    if as_json:
        left = [
            {"field": row.field, "value": row.value, "why": row.problem, "instead": row.fix} for row in made.left_out
        ]
        emit({"as": target.value, "files": [path], "left_out": left})
        return
    for row in made.left_out:
        say(f"[yellow]not taken over:[/yellow] {escape(str(row))}")
    say(f"wrote: {escape(str(path))}")


def _logged_flow(result: Any) -> str:
    logged: list[str] = result.resolved["instruments"]["segments"]
    if len(logged) == 1:
        return logged[0]
    if not logged:
        raise BadInput(
            "no flow's segments were recorded. Switch them on in the scenario, [instruments] segments, and run again."
        )
    raise BadInput(f"the segments of several flows were recorded. Choose with --flow: {', '.join(logged)}")
