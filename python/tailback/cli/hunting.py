"""`tailback hunt`: searches for cases in which a congestion control fails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import CANDIDATE, FAILED, INTERRUPTED, AsJson, BadInput, emit, say
from tailback.cli.reading import AllowCode, EngineName, Kept, Kernel
from tailback.errors import TailbackError
from tailback.lazy import lazy

with lazy():
    from tailback import suites
    from tailback.hunting import Hunt, hunted


@app.command()
def hunt(
    what: Annotated[str, typer.Argument(metavar="CANDIDATE", help=CANDIDATE)],
    seed: Annotated[int, typer.Option(min=0, help="The same seed and runs find the same, on any machine.")] = 1,
    runs: Annotated[int, typer.Option(min=1, help="Maximum runs, including those that simplify.")] = 600,
    weakness: Annotated[
        list[str] | None,
        typer.Option(
            help="Only panic, stall, underuse, starvation, loss, call, collapse, lockout, jitter or answers. "
            "May be repeated."
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="Also vary this parameter of a built-in candidate. May be repeated."),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(help="A dumbbell with \\[expect]: search for violations of its conditions instead."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for a scenario file of each finding.")] = Path("hunt"),
    allow_code: AllowCode = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    engine: EngineName = None,
    kernel: Kernel = None,
    store: Kept = Path("results/guests"),
    as_json: AsJson = False,
) -> None:
    r"""Search for paths, bursts, losses and changing rates under which a congestion control fails, and simplify them.

    Each finding becomes a scenario file with \[expect], which `tailback test FILE` shows again.

    The exit code is 0 if nothing was found, 1 if something was, 2 for bad input, 130 after Ctrl-C; what was found until
    then is kept.

    For example:

    - `tailback hunt bbr`

    - `tailback hunt mine.bpf.c --allow-code --runs 1000 --weakness stall`
    """
    base = None if scenario is None else suites.read(scenario)
    try:
        chosen = hunted(what, allow_code=allow_code)
        search = Hunt(
            chosen, seed, runs, tuple(weakness or ()), tuple(vary or ()), base, workers, out, engine, kernel, store
        )
    except TailbackError as error:
        raise BadInput(str(error)) from None
    try:
        search.go(progress=not as_json)
    except KeyboardInterrupt:
        _print_outcome(search, as_json)
        say("interrupted: what was found is kept")
        raise typer.Exit(INTERRUPTED) from None
    _print_outcome(search, as_json)
    if search.found:
        raise typer.Exit(FAILED)


def _print_outcome(search: Any, as_json: bool) -> None:
    if as_json:
        found = [each.to_json() for each in search.found]
        emit(
            {
                "candidate": search.candidate.label, "seed": search.seed, "runs": search.done, "found": found,
                "not_applicable": search.refused,
            }
        )  # fmt: skip
        return
    for why, count in search.refused.items():
        say(f"{count} runs {escape(why)}")
    for each in search.found:
        print(f"{each.weakness}: {each.said}\n  {each.command}")
    if not search.found:
        say(escape(f"nothing found for {search.candidate.label} in {search.done} runs, seed {search.seed}"))
