"""`tailback doctor`: what this machine can run live and in virtual machines."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import AsJson, console, emit, say
from tailback.lazy import lazy

with lazy():
    from tailback import live, vm


@app.command()
def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="Remove leftovers of killed live runs.")] = False,
    seconds: Annotated[float, typer.Option(min=0.0, max=60.0, help="How long to measure a timer's lateness.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Report what this machine can run live and in virtual machines, and how to enable what it cannot.

    For example:

    - `sudo tailback doctor`

    - `sudo tailback doctor --clean`
    """
    if clean:
        done = live.clean()
        if as_json:
            emit({"cleaned": done})
        else:
            say("\n".join(map(escape, done)) or "nothing was left")
        return
    found = live.doctor(seconds) | {"vm": vm.doctor()}
    if as_json:
        emit(found)
        return
    for row in [*found["checks"], *found["vm"]]:
        mark = "[green]yes[/green]" if row["ok"] else "[bold red]no[/bold red] "
        console().print(f"{mark}  {escape(row['name'])}: {escape(row['found'])}")
        if row["remedy"]:
            console().print(f"     for {escape(row['needed_for'])}: {escape(row['remedy'])}")
    can = "can" if found["can_run_live"] else "cannot"
    guests = "can" if all(row["ok"] for row in found["vm"]) else "cannot"
    controls = ", ".join(found["congestion_controls"]) or "none"
    console().print(
        f"This machine {can} run live, and {guests} run virtual machines. Its kernel's congestion controls: {controls}"
    )
