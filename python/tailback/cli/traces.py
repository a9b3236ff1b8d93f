"""`tailback trace`: makes the rates and delays of a changing link, for a scenario's `schedule` or `trace`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tailback import trace_sources, traces
from tailback.cli._app import app
from tailback.cli._common import AsJson, BadInput, emit, say
from tailback.files import whole_file
from tailback.lazy import lazy

with lazy():
    from tailback import _core

trace = typer.Typer(name="trace", no_args_is_help=True, help="Make links that change, for a scenario's `schedule`.")
app.add_typer(trace)


class _Kind(StrEnum):
    LTE = "lte"
    LOW_ORBIT = "low-orbit"


@trace.callback()
def _group() -> None:
    pass


@trace.command()
def generate(
    kind: Annotated[_Kind, typer.Argument(help="The kind of path.")],
    out: Annotated[Path, typer.Option(help="The file: .csv for `schedule`; another ending: mahimahi's, for `trace`.")],
    seconds: Annotated[float, typer.Option(help="How long.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Seed: each gives another trace.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate a changing path from published statistics, which the file states.

    For example:

    - `tailback trace generate lte --seconds 120 --out lte.csv`

    - `tailback trace generate low-orbit --seconds 120 --seed 3 --out orbit.csv`

    - `tailback trace generate lte --out lte.trace`
    """
    if out.exists() and not force:
        raise BadInput(f"{out} is there already. Give another name, or --force to replace it")
    steps = (traces.lte if kind is _Kind.LTE else traces.low_orbit)(seconds, seed)
    is_csv = out.suffix.lower() == ".csv"
    if not is_csv and any("delay" in step for step in steps):
        raise BadInput(f"--out {out}: mahimahi's format has no delays, and this path has. Write a .csv")
    made_by = f"tailback {_core.version()}: tailback trace generate {kind.value} --seconds {seconds:g} --seed {seed}"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(out) as partial:
            if is_csv:
                traces.write_csv(partial, steps, f"{made_by}\n{traces.ABOUT[kind.value]}")
            else:
                traces.write(partial, traces.opportunities(steps, seconds))
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror or error}") from None
    if as_json:
        emit({"written": out, "steps": len(steps), "about": traces.ABOUT[kind.value]})
        return
    field = "schedule" if is_csv else "trace"
    say(f'written: {escape(str(out))}   a link takes it as: {field} = "{escape(out.name)}"')


@trace.command(name="read")
def read_(
    file: Annotated[Path, typer.Argument(help="Output file of irtt, iperf3 --json or Flent.")],
    out: Annotated[Path, typer.Option(help="The CSV file, for `schedule`.")],
    upload: Annotated[bool, typer.Option("--upload", help="For Flent: use the rate of uploads.")] = False,
    window: Annotated[float, typer.Option(help="For irtt: seconds of probes per step.")] = 1.0,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a measurement of a path into changes of a link: rate, delay and loss over time.

    For example:

    - `tailback trace read irtt.json --out path.csv`

    - `tailback trace read rrul.flent.gz --upload --out path.csv`
    """
    if out.exists() and not force:
        raise BadInput(f"{out} is there already. Give another name, or --force to replace it")
    if not window > 0:
        raise BadInput(f"--window {window:g} is no time. Give more than 0 seconds")
    steps = trace_sources.read(file, upload=upload, window_s=window)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(out) as partial:
            traces.write_csv(partial, steps, f"Measured: {file.name}")
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror or error}") from None
    if as_json:
        emit({"written": out, "steps": len(steps)})
        return
    say(f'written: {escape(str(out))}, {len(steps)} steps   a link takes it as: schedule = "{escape(out.name)}"')
