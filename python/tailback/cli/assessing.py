"""`tailback assess`: the dossier of a congestion control or of a queue."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tailback.cli._app import app
from tailback.cli._common import CANDIDATE, FAILED, INTERRUPTED, AsJson, BadInput, console, emit, say
from tailback.cli._failing import fail
from tailback.cli.reading import AllowCode, EngineName, Kernel
from tailback.cli.testing import UNDECIDED
from tailback.lazy import lazy

with lazy():
    from tailback.assess import output
    from tailback.assess import run as examining
    from tailback.assess.run import assess as examine

BROKEN = 4
_QUEUES = (
    " Or a queue: its name with parameters (pie,target=20ms), a kernel's (kernel:fq_codel), or a class (my.py:MyQueue)."
)


@app.command()
def assess(
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help=CANDIDATE + _QUEUES)],
    against: Annotated[
        str | None,
        typer.Option(
            help="Baselines, separated by commas. Default: cubic,reno, and for a transport quinn,cc=new_reno, which "
            "sets no bound; for a queue drop-tail-bytes,drop-tail-packets,codel,pie."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A few cells, three to seven seeds, within a minute; in guests within hours."),
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Seeds of every cell. Default: 5 to 20, of which undecided cells need most.")
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="What the candidate is meant for: general, scavenger, l4s, data-centre or slow-start. "
            "Rows that do not apply are left out. Default: what a built-in algorithm declares, else general.",
        ),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this experiment. May be repeated.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the dossier. Default: results/assess/CANDIDATE, or CANDIDATE-quick.")
    ] = None,
    store: Annotated[Path, typer.Option(help="The store of runs.")] = Path("results/assess/store"),
    on: Annotated[
        str | None, typer.Option(help="A Dask cluster: dask://HOST:8786, or dask:///path/to/scheduler.json.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    engine: EngineName = None,
    kernel: Kernel = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Examine a congestion control by RFC 9743, or a queue by RFC 7928, and write the dossier.

    Each cell is run with the candidate and with its baselines, with the same seeds. Runs are stored: the same command
    continues an interrupted dossier, and another candidate reuses the baselines' runs.

    The exit code is 0 if no criterion failed and none is undecided, 1 if one failed, 2 for bad input, and 3 if one is
    undecided. It is 4 if the suite's own controls came out wrong, and 130 after Ctrl-C. Of several the first of 130, 2,
    4, 1, 3 counts. Criteria that were not run do not count; those that are a MUST are printed in red.

    For example:

    - `tailback assess bbr3 --quick`

    - `tailback assess mine.py:Mine --allow-code --out dossier`

    - `tailback assess fq_codel --quick`

    - `tailback assess kernel:fq_codel --quick --kernel debian-6.1`
    """
    place = Path(candidate)
    # All manifests of crates have the same name.
    place = place.absolute().parent if place.name == "Cargo.toml" else place
    name = "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in place.name)
    folder = out if out is not None else Path("results/assess") / (name + ("-quick" if quick else ""))
    try:
        done = examine(
            candidate,
            against=None if against is None else _names(against),
            quick=quick,
            only=only or (),
            seeds=seeds,
            scope=scope,
            store=store,
            out=folder,
            workers=workers,
            on=on,
            progress=not as_json,
            allow_code=allow_code,
            engine=engine,
            kernel=kernel,
        )
    except examining.InterruptedAssessment as interrupted:
        _print_outcome(interrupted.partial, folder, as_json)
        say("interrupted: what was finished is kept, and the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None
    except examining.StuckCandidate as error:
        # Python would wait for the looping thread, and then abort.
        code = fail(error, FAILED)
        sys.stdout.flush()
        os._exit(code)
    except examining.UnknownWord as error:
        raise BadInput(str(error)) from None
    _print_outcome(done, folder, as_json)
    if done.is_broken:
        raise typer.Exit(BROKEN)
    if done.verdict != "passed":
        raise typer.Exit(FAILED if done.verdict == "failed" else UNDECIDED)


def _names(against: str) -> list[str]:
    """The baselines, each with its parameters: `reno,quinn,cc=new_reno` are two."""
    names: list[str] = []
    for part in filter(None, map(str.strip, against.split(","))):
        if names and "=" in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def _print_outcome(done: Any, folder: Path, as_json: bool) -> None:
    if as_json:
        emit(done.to_json() | {"report": folder / "report.html"})
        return
    cells = {cell.name: cell for cell in done.cells()}
    table = Table(box=None, pad_edge=False)
    for head in ("§", "criterion", "RFC", "verdict", "what weighs most"):
        table.add_column(head, overflow="fold", no_wrap=head == "verdict")
    for each in done.criteria:
        colour = "bold red" if each.is_missing_must else output.colour(each.verdict)
        shown = output.worst(each.worst, cells) or each.why
        table.add_row(
            each.experiment.section, each.experiment.title, each.experiment.word, f"[{colour}]{each.verdict}[/]",
            escape(shown),
        )  # fmt: skip
    console().print(table)
    if done.is_broken:
        say(f"[bold red]{output.BROKEN}[/bold red]")
        for each in done.controls:
            if not each.as_known:
                say(
                    f"  {each.control.label} must {'fail' if each.control.fails else 'not fail'}, and it {each.verdict}"
                )
    say(f"{done.run} runs in {done.wall_s:.0f} s, {done.reused} found in the store, {done.failed} failed")
    say(f"dossier: {escape(str(folder / 'report.html'))}")
