"""`tailback test`: runs scenarios with conditions as tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tailback.cli._app import app
from tailback.cli._common import BAD_INPUT, CANDIDATE, FAILED, INTERRUPTED, AsJson, BadInput, console, emit, say
from tailback.cli.reading import AllowCode, EngineName, Kept, Kernel, Own, Set, own, setting
from tailback.files import write_text
from tailback.lazy import lazy

with lazy():
    from tailback import suites
    from tailback.expect import Testing, output
    from tailback.expect import testing as judging

UNDECIDED, BROKEN = 3, 4


@app.command()
def test(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Scenario files with \\[expect], folders of them, or suites by name."),
    ],
    candidate: Annotated[
        str | None,
        typer.Option(
            metavar="CANDIDATE",
            help="Judge this in place of each scenario's subject: an application or a queue where the suite is "
            f"about these, else {CANDIDATE}",
        ),
    ] = None,
    settings: Set = None,
    algorithm: Own = None,
    allow_code: AllowCode = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    engine: EngineName = None,
    kernel: Kernel = None,
    store: Kept = Path("results/guests"),
    as_declared: Annotated[
        bool,
        typer.Option(
            "--as-declared",
            help="Exit with 0 if every scenario comes out as its suite declares, and with 1 if any does not, "
            "be it better or worse.",
        ),
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Print the scenarios' names and run nothing.")] = False,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write each scenario as a separate file there, and run nothing."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run scenarios and judge their conditions. Each runs with as many seeds as a verdict needs.

    The exit code is 0 if every condition passed, 1 if one failed or a run did, and 2 if a file could not be read (the
    others are run). It is 3 if a condition is undecided with the most seeds allowed, and 130 after Ctrl-C. It is 4 if a
    control of a suite did not fail, so that the suite's verdicts do not count. If several apply, the first of 130, 2,
    4, 1, 3 counts.

    On GitHub Actions, conditions that did not pass are shown at their lines, and the table in the job's summary.

    For example:

    - `tailback test scenarios/expect`

    - `tailback test cubic --candidate bbr`

    - `tailback test cubic --candidate module:tcp_mine.c --allow-code --kernel debian-6.1`

    - `tailback test cubic hystart --as-declared`

    - `tailback test tcpeval --list`

    - `tailback test tests/scenarios --algorithm mine=mine.py:Mine --set flow.bulk.cc=mine --junit report.xml`
    """
    if as_declared and (candidate is not None or settings):
        raise BadInput("--as-declared judges the unchanged scenarios. Leave out --candidate and --set.")
    try:
        testing = Testing(
            paths,
            candidate=None if candidate is None else setting(f"candidate={candidate}")[1],
            changes=dict(setting(text) for text in settings or ()),
            algorithms=own(algorithm),
            allow_code=allow_code,
            workers=workers,
            engine=engine,
            kernel=kernel,
            store=store,
            options=[word for each in algorithm or () for word in ("--algorithm", each)],
        )
    except judging.NotApplicable as error:
        raise BadInput(str(error)) from None
    if show or write:
        _write(testing.scenarios(), write, as_json)
        return
    try:
        testing.go(progress=not as_json)
    except KeyboardInterrupt:
        _print_outcome(testing.tested, junit, as_json, as_declared)
        say("interrupted: the verdicts so far are kept")
        raise typer.Exit(INTERRUPTED) from None
    tested = testing.tested
    _print_outcome(tested, junit, as_json, as_declared)
    if tested.unreadable:
        raise typer.Exit(BAD_INPUT)
    if tested.broken:
        raise typer.Exit(BROKEN)
    if as_declared:
        raise typer.Exit(FAILED if tested.surprising else 0)
    if tested.verdict != "passed":
        raise typer.Exit(FAILED if tested.verdict == "failed" else UNDECIDED)


def _write(scenarios: dict[str, Any], folder: Path | None, as_json: bool) -> None:
    """Print the names of scenarios, or write them into a folder if one is given."""
    if folder is not None:
        files = {folder / Path(name).name: scenario for name, scenario in scenarios.items()}
        if len(files) < len(scenarios):
            raise BadInput("--write: scenarios of different folders have one name. Write one suite after the other.")
        if there := [path for path in files if path.exists()]:
            raise BadInput(f"--write: {there[0]} is there already. Give a folder that has no such file.")
        folder.mkdir(parents=True, exist_ok=True)
        for path, scenario in files.items():
            write_text(path, scenario.to_toml())
        scenarios = {str(path): scenario for path, scenario in files.items()}
    if as_json:
        emit([suites.shown(name) for name in scenarios])
    else:
        for name in scenarios:
            print(suites.shown(name))


def _print_outcome(tested: Any, junit: Path | None, as_json: bool, as_declared: bool) -> None:
    if as_json:
        emit(tested.to_json())
    else:
        _print(output.rows(tested), output.colour)
    for each in tested.surprising if as_declared else ():
        for text, declared, found in each.surprises:
            shown = f"{text}: {found}, and its suite declares {declared}"
            say(f"[bold red]{escape(suites.shown(each.file))}:[/bold red] {escape(shown)}")
    for command, what in output.commands(tested) if not as_declared else ():
        say(f"again, {escape(what)}: {escape(command)}")
    for each, why in output.broken(tested):
        say(f"[bold red]{escape(suites.shown(each.file))}:[/bold red] {escape(why)}")
    for why, count in output.inapplicable(tested).items():
        say(f"[yellow]not applicable[/yellow] to {count} scenarios: {escape(why)}")
    errors = [str(bad.error) for bad in tested.unreadable]
    for error in dict.fromkeys(errors):
        times = f" {errors.count(error)} times" if errors.count(error) > 1 else ""
        say(f"[bold red]unreadable{times}:[/bold red] {escape(error)}")
    if not as_json:
        say(output.summary(tested))
    if junit is not None:
        output.write_junit(tested, junit)
    # A reader of a pull request needs no annotation for a verdict that the suite declares.
    if os.environ.get("GITHUB_ACTIONS") == "true" and not as_declared:
        for line in output.github_annotations(tested):
            print(line, file=sys.stderr)
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(output.markdown(tested))


def _print(rows: list[Any], colour: Callable[[str], str]) -> None:
    table = Table(box=None, pad_edge=False)
    for head in ("scenario", "condition", "measured", "bound", "seeds", "verdict"):
        table.add_column(head, overflow="fold", justify="right" if head == "seeds" else "left")
    for file, _, text, found, bound, seeds, verdict, why, _again in rows:
        shown = f"[{colour(verdict)}]{verdict}[/]" + (f": {escape(why)}" if why else "")
        table.add_row(escape(suites.shown(file)), escape(text), found, bound, seeds, shown)
    console().print(table)
