"""The command `tailback`: run a scenario, a study, look at what came out.

Data goes to standard output, everything else to standard error; with `--json` standard output is exactly one
JSON object. Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tomllib
import traceback
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tailback.errors import AlgorithmError, Interrupted, Problem, ScenarioError, TailbackError, nearest

__all__ = ["app", "main"]

_FAILED, _BAD_INPUT, _INTERRUPTED = 1, 2, 130


class _Stopped(TailbackError):
    """Ctrl-C, in a form that passes through the command-line library, which would make it a bare exit."""


class _Group(typer.core.TyperGroup):
    """The commands, with Ctrl-C handed on."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            kept = str(error) if isinstance(error, Interrupted) else "interrupted: earlier results are untouched"
            raise _Stopped(kept) from None


app = typer.Typer(
    name="tailback",
    cls=_Group,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "What TCP congestion control does to throughput, to queues, and to the people who share them.\n\n"
        "Start with `tailback run scenarios/voip-and-bulk.toml`, then `tailback study --list`."
    ),
)


class _Shown(StrEnum):
    ALGORITHMS = "algorithms"
    STACKS = "stacks"
    LINKS = "links"
    PRESETS = "presets"
    QUEUES = "queues"
    APPS = "apps"
    METRICS = "metrics"


class _Format(StrEnum):
    CSV = "csv"
    SIFTR = "siftr"


class _BadInput(TailbackError):
    """Something the user asked for that cannot be: exit code 2."""


class _Told(TailbackError):
    """A text for people that arrived as something else."""


# --- Output ---------------------------------------------------------------------------------------------------


def _out() -> Console:
    # Piped output is for programs and files: no wrapping at a guessed width.
    return Console() if sys.stdout.isatty() else Console(width=200, no_color=True)


def _say(text: str) -> None:
    """A message for people: standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(text)


def _emit(data: Any) -> None:
    """The one JSON object on standard output."""
    print(json.dumps(_jsonable(data), ensure_ascii=False, indent=2, allow_nan=False))


def _jsonable(value: Any) -> Any:
    """NaN and infinity have no JSON: null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and not isinstance(value, str | int):
        return _jsonable(value.item())
    return value


_Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on standard output.")]
_ResultFolder = Annotated[Path, typer.Argument(metavar="RESULT", help="A folder that `tailback run --out` wrote.")]


def _version(shown: bool) -> None:
    if shown:
        import tailback

        print(f"tailback {tailback.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


# --- Commands -------------------------------------------------------------------------------------------------


def _setting(text: str) -> tuple[str, Any]:
    """`path=value`; the value is TOML if it can be, else text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise _BadInput(f'--set {text}: this is no setting. Write a path and a value: --set dumbbell.rate="1mbit"')
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value.strip()


_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value: `--set flow.bulk.cc=htcp`. May be repeated."),
]
_Own = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        metavar="NAME=PLACE",
        help="A congestion control of your own, whose file is run: `--algorithm mine=mine.py:Mine`. May be repeated.",
    ),
]
_Seed = Annotated[int | None, typer.Option(help="Seed instead of the scenario's.")]
_File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario in TOML; see docs/scenario.md.")]


def _own(texts: Sequence[str] | None) -> dict[str, Any]:
    """`name=place:Class`, each."""
    from tailback.algorithms import load

    named: dict[str, Any] = {}
    for text in texts or ():
        name, equals, place = text.partition("=")
        if not equals or not name.strip():
            raise _BadInput(f"--algorithm {text}: write a name and a place: --algorithm mine=path/to/file.py:Class")
        named[name.strip()] = load(place.strip())
    return named


def _read(file: Path, settings: Sequence[str] | None, seed: int | None) -> Any:
    from tailback.scenario import Scenario

    changes = dict(_setting(text) for text in settings or ())
    if seed is not None:
        changes["seed"] = seed
    scenario = Scenario.from_toml(file)
    if not scenario.name:
        changes.setdefault("name", file.stem)
    return scenario.with_(changes) if changes else scenario


@app.command()
def run(
    file: _File,
    seed: _Seed = None,
    settings: _Set = None,
    algorithm: _Own = None,
    out: Annotated[Path | None, typer.Option(help="Save the result to this folder.")] = None,
    engine: Annotated[
        str, typer.Option(help="`sim`, `live` (this machine's kernel; needs root), or `sim,live` for both.")
    ] = "sim",
    as_json: _Json = False,
) -> None:
    """Run a scenario and show what happened.

    For example:

    - `tailback run scenarios/voip-and-bulk.toml`

    - `tailback run scenarios/voip-and-bulk.toml --set flow.bulk.cc=htcp --set dumbbell.queue=0.25bdp`

    - `tailback run scenarios/voip-and-bulk.toml --seed 7 --out results/seven --json`

    - `sudo tailback run scenarios/voip-and-bulk.toml --engine sim,live --out results/both`

    - `tailback run scenarios/voip-and-bulk.toml --algorithm mine=mine.py:Mine --set flow.bulk.cc=mine`
    """
    import tailback
    from tailback.result import demand_writable

    scenario = _read(file, settings, seed)
    if engine != "sim":
        if algorithm:
            raise _BadInput("--algorithm: no kernel runs an algorithm written in Python. Leave out --engine.")
        _run_engines(scenario, _engines(engine), out, ["tailback run", file.name], as_json)
        return
    if out is not None:
        demand_writable(out)
    result = tailback.run(scenario, progress=not as_json, algorithms=_own(algorithm))
    # Names of files, not where they lie: a result may be given away.
    words = ["tailback run", file.name, *(f"--set {text}" for text in settings or ())]
    words += [
        f"--algorithm {name}={Path(place).name}" for name, _, place in (t.partition("=") for t in algorithm or ())
    ]
    result.meta["command"] = " ".join(words + ([f"--seed {seed}"] if seed is not None else []))
    saved = result.save(out) if out is not None else None
    if as_json:
        _emit(_described(result) | {"saved": None if out is None else out})
        return
    _out().print(result)
    if saved is not None:
        _say(f"saved: {escape(str(out))}   look again with: tailback show {escape(str(out))}")


def _engines(text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",")]
    for name in chosen:
        if name not in ("sim", "live"):
            raise _BadInput(_unknown("engine", name, ["sim", "live"]))
    if len(set(chosen)) != len(chosen):
        raise _BadInput(f"--engine {text}: an engine is named twice")
    return chosen


def _run_engines(scenario: Any, chosen: list[str], out: Path | None, words: list[str], as_json: bool) -> None:
    """Run on the engines chosen; two are compared, and each is saved to a folder of its own below `out`."""
    import tailback
    from tailback import compare, live
    from tailback.result import demand_writable

    if "live" in chosen:
        # Refused now rather than after a minute of simulating.
        live.check(scenario)
    folders = {name: out if out is None or len(chosen) == 1 else out / name for name in chosen}
    for folder in folders.values():
        if folder is not None:
            demand_writable(folder)
    results = {}
    for name in chosen:
        result = (live.run if name == "live" else tailback.run)(scenario, progress=not as_json)
        result.meta["command"] = " ".join([*words, f"--engine {name}"])
        results[name] = result
        folder = folders[name]
        if folder is not None:
            result.save(folder)
        for note in result.meta.get("notes", []) if name == "live" else []:
            _say(f"[bold]note:[/bold] {escape(note)}")
    rows = compare.compare(*results.values()) if len(results) == 2 else []
    figure = None
    if rows and out is not None:
        figure = out / "overlay.png"
        first, second = results.values()
        compare.overlay(first, second, (chosen[0], chosen[1])).savefig(figure, dpi=150)
    if as_json:
        described = {name: _described(result) | {"saved": folders[name]} for name, result in results.items()}
        if len(chosen) == 1:
            _emit(described[chosen[0]])
        else:
            _emit({"engines": described, "differences": [row.as_dict() for row in rows], "figure": figure})
        return
    for name, result in results.items():
        _say(f"\n[bold]{name}[/bold]")
        _out().print(result)
    if rows:
        _say("")
        _print_differences(rows, (chosen[0], chosen[1]))
    if out is not None:
        _say(f"saved: {escape(', '.join(str(folder) for folder in folders.values()))}")


def _print_differences(rows: Sequence[Any], labels: tuple[str, str]) -> None:
    table = Table(box=None, pad_edge=False)
    for head, justify in (("metric", "left"), ("of", "left"), ("unit", "left")):
        table.add_column(head, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for head in (*labels, "change"):
        table.add_column(head, justify="right")

    def number(value: float) -> str:
        return "-" if math.isnan(value) else f"{value:.4g}"

    for row in rows:
        change = "-" if math.isnan(row.change) else f"{100 * row.change:+.1f} %"
        table.add_row(row.metric, escape(row.of), row.unit, number(row.a), number(row.b), change)
    _out().print(table)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A result folder.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    out: Annotated[Path | None, typer.Option(help="Draw one over the other into this .png or .pdf file.")] = None,
    as_json: _Json = False,
) -> None:
    """Compare two results: every metric of both, by how much they differ, and one figure over the other.

    For example `tailback compare results/both/sim results/both/live --out overlay.png`
    """
    from tailback import compare as comparing
    from tailback.result import open_result

    first, second = open_result(a), open_result(b)
    rows = comparing.compare(first, second)
    if not rows:
        raise _BadInput("the two results share no flow and no link by name: there is nothing to compare")
    labels = (a.name or str(a), b.name or str(b))
    if out is not None:
        comparing.overlay(first, second, labels).savefig(out, dpi=150)
    if as_json:
        _emit({"a": a, "b": b, "differences": [row.as_dict() for row in rows], "figure": out})
        return
    _print_differences(rows, labels)
    if out is not None:
        _say(f"figure: {escape(str(out))}")


@app.command()
def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="Remove what killed live runs have left.")] = False,
    seconds: Annotated[float, typer.Option(min=0.0, max=60.0, help="How long to measure a timer's lateness.")] = 2.0,
    as_json: _Json = False,
) -> None:
    """Say what this machine can run live, and what to do about what it cannot.

    For example:

    - `sudo tailback doctor`

    - `sudo tailback doctor --clean`
    """
    from tailback import live

    if clean:
        done = live.clean()
        if as_json:
            _emit({"cleaned": done})
        else:
            _say("\n".join(map(escape, done)) or "nothing was left")
        return
    found = live.doctor(seconds)
    if as_json:
        _emit(found)
        return
    for row in found["checks"]:
        mark = "[green]yes[/green]" if row["ok"] else "[bold red]no[/bold red] "
        _out().print(f"{mark}  {escape(row['name'])}: {escape(row['found'])}")
        if row["remedy"]:
            _out().print(f"     for {escape(row['needed_for'])}: {escape(row['remedy'])}")
    can = "can" if found["can_run_live"] else "cannot"
    _out().print(
        f"This machine {can} run live. Congestion controls: {', '.join(found['congestion_controls']) or 'none'}"
    )


def _described(result: Any) -> dict[str, Any]:
    meta = {key: value for key, value in result.meta.items() if key != "internals_names"}
    return {
        "name": result.name,
        "seed": result.seed,
        "duration_s": result.duration_s,
        "meta": meta,
        "flows": result.flow_summary(),
        "links": result.link_summary(),
        "tables": {name: result.rows(name) for name in result.tables},
    }


@app.command()
def check(
    file: _File, seed: _Seed = None, settings: _Set = None, algorithm: _Own = None, as_json: _Json = False
) -> None:
    """Check a scenario without running it.

    For example `tailback check scenarios/two-bottlenecks.toml`
    """
    from tailback.algorithms import factories

    resolved = _read(file, settings, seed).resolve(algorithms=factories(_own(algorithm)))
    if as_json:
        _emit({"resolved": resolved})
    else:
        _say(f"{escape(str(file))}: nothing wrong; {len(resolved['flows'])} flows, {len(resolved['links'])} links")


def _problem(problem: Problem) -> dict[str, Any]:
    value = problem.value if isinstance(problem.value, bool | int | float | str | None) else str(problem.value)
    return {
        "file": problem.file,
        "line": problem.line,
        "field": problem.field,
        "value": str(value) if isinstance(value, int) and type(value) not in (int, bool) else value,
        "problem": problem.problem,
        "fix": problem.fix,
    }


@app.command()
def show(result: _ResultFolder, as_json: _Json = False) -> None:
    """Show a saved result: totals of every flow and link.

    For example `tailback show results/seven`
    """
    from tailback.result import open_result

    opened = open_result(result)
    if as_json:
        _emit(_described(opened))
    else:
        _out().print(opened)


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="Name of a study; `--list` shows them.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds a cell of the grid.")] = 5,
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="A small part of the grid, to see that it works; or all of it.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results, figures and report. Default: results/NAME.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    as_json: _Json = False,
) -> None:
    """Repeat a published study: its grid, its figures, and each of its claims with a verdict.

    For example:

    - `tailback study --list`

    - `tailback study voip-latency --quick`

    - `tailback study voip-latency --seeds 5 --out results/voip-latency --json`
    """
    studies = import_module("tailback.studies")
    names: list[str] = studies.names()
    if listed or name is None:
        rows = [{"name": entry, "title": studies.get(entry).title} for entry in names]
        if as_json:
            _emit({"studies": rows})
        else:
            _print_rows(rows)
        if name is None and not listed:
            _say("Name one of these: tailback study NAME")
            raise typer.Exit(_BAD_INPUT)
        return
    if name not in names:
        raise _BadInput(_unknown("study", name, names))
    folder = out or Path("results") / name
    finished = studies.get(name).run(folder, seeds=seeds, quick=quick, progress=not as_json, workers=workers)
    if as_json:
        _emit(finished.to_json())
    else:
        finished.print(_out())


@app.command()
def algorithms(as_json: _Json = False) -> None:
    """List the congestion controls with the source of each."""
    _list(_Shown.ALGORITHMS, as_json)


@app.command("list")
def list_(
    what: Annotated[_Shown, typer.Argument(help="What to list.")],
    as_json: _Json = False,
) -> None:
    """List what there is by name, with the source of each.

    For example:

    - `tailback list stacks`

    - `tailback list queues --json`
    """
    _list(what, as_json)


def _list(what: _Shown, as_json: bool) -> None:
    if what is _Shown.METRICS:
        infos = import_module("tailback.metrics").catalogue()
        rows = [
            {key: getattr(info, key) for key in ("name", "title", "unit", "definition", "source")} for info in infos
        ]
        if as_json:
            _emit({"metrics": rows})
        else:
            _print_rows(rows)
        return
    if what is _Shown.PRESETS:
        from tailback import presets

        cards = [
            {key: getattr(card, key) for key in ("name", "title", "source", "reported")}
            | {"options": [vars(option) for option in card.options]}
            for card in presets.CARDS
        ]
        if as_json:
            _emit({"presets": cards})
        else:
            _print_rows([card | {"options": ", ".join(o["name"] for o in card["options"])} for card in cards])
        return
    from tailback import _core

    # A scenario's link names a medium; the registry calls the list by what is in it.
    entries = json.loads(_core.registry())["media" if what is _Shown.LINKS else what.value]
    if as_json:
        _emit({what.value: entries})
    elif what is _Shown.STACKS:
        _print_rows([{"name": row["name"], "title": row["title"]} for row in entries])
        for row in entries:
            _out().print(f"\n[bold]{escape(row['name'])}[/bold]")
            _print_rows(row["fields"])
    else:
        keys = ("name", "title", "law", "source")
        rows = [
            {key: row.get(key, "") for key in keys} | {"parameters": ", ".join(p["name"] for p in row["params"])}
            for row in entries
        ]
        _print_rows(rows)


def _print_rows(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for key in rows[0] if rows else ():
        table.add_column(key, overflow="fold", no_wrap=key == "name")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    _out().print(table)


def _unknown(what: str, name: str, names: Sequence[str]) -> str:
    close = nearest(name, names)
    hint = f' Did you mean "{close}"?' if close else ""
    return f'there is no {what} "{name}".{hint} There are: {", ".join(names)}'


@app.command()
def report(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result folder, or a study's.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file. Default: report.html beside the result.")] = None,
    as_json: _Json = False,
) -> None:
    """Write a report: one HTML file that needs nothing else.

    For example `tailback report results/seven --out seven.html`
    """
    reports, studies = import_module("tailback.report"), import_module("tailback.studies")
    from tailback.result import open_result

    is_study = studies.is_study(result)
    subject = studies.load(result) if is_study else open_result(result)
    default = result / "report.html" if is_study else _beside(result, ".html")
    path = reports.write(subject, out or default)
    if as_json:
        _emit({"report": path})
    else:
        _say(f"report: {escape(str(path))}")


@app.command()
def plot(
    result: _ResultFolder,
    figure: Annotated[str | None, typer.Option(help="Name of the figure; `--list` shows them.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .png or .pdf file; without suffix both. Default: the figure's name.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures.")] = False,
    as_json: _Json = False,
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
            _emit({"figures": rows})
        else:
            _print_rows(rows)
        return
    name = figure or plots.default
    if name not in plots.names():
        raise _BadInput(_unknown("figure", name, plots.names()))
    drawn = plots.get(name)(open_result(result))
    paths = plots.save(drawn, out or Path(name))
    if as_json:
        _emit({"figure": name, "files": paths})
    else:
        _say("\n".join(f"figure: {escape(str(path))}" for path in paths))


@app.command()
def export(
    result: _ResultFolder,
    form: Annotated[_Format, typer.Option("--format", help="`csv`: a file a table; `siftr`: a FreeBSD siftr(4) log.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder (csv) or file (siftr). Default: RESULT-csv, or RESULT-FLOW.siftr.log.")
    ] = None,
    flow: Annotated[
        str | None, typer.Option(help="Flow, for siftr. Default: the only one whose segments are there.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Table, for csv. May be repeated. Default: all.")] = None,
    side: Annotated[str, typer.Option(help="For siftr: sender or receiver.")] = "sender",
    as_json: _Json = False,
) -> None:
    """Write a result in another program's format.

    For example:

    - `tailback export results/seven --format csv --table flows --out seven-csv`

    - `tailback export results/seven --format siftr --flow bulk`
    """
    from tailback.result import open_result

    opened = open_result(result)
    if form is _Format.CSV:
        paths = opened.to_csv(out or _beside(result, "-csv"), table)
    else:
        which = flow or _logged_flow(opened)
        target = out or _beside(result, f"-{which}.siftr.log")
        paths = [opened.to_siftr(target, which, side=side)]
    if as_json:
        _emit({"format": form.value, "files": paths})
    else:
        _say("\n".join(f"wrote: {escape(str(path))}" for path in paths))


def _beside(folder: Path, ending: str) -> Path:
    """A sibling of a result; "." has no name until it is spelt out."""
    named = folder if folder.name else folder.absolute()
    return named.with_name(named.name + ending)


def _logged_flow(result: Any) -> str:
    logged: list[str] = result.resolved["instruments"]["segments"]
    if len(logged) == 1:
        return logged[0]
    if not logged:
        raise _BadInput(
            "no flow's segments were recorded. Switch them on in the scenario, [instruments] segments, and run again."
        )
    raise _BadInput(f"the segments of several flows were recorded. Choose with --flow: {', '.join(logged)}")


# --- Sweeps and stores ----------------------------------------------------------------------------------------

_StoreFolder = Annotated[Path, typer.Option("--store", help="The folder of runs.")]
_KeyStart = Annotated[str, typer.Argument(metavar="KEY", help="A run's key, or its beginning.")]


class _Keep(StrEnum):
    SUMMARIES = "summaries"
    TABLES = "tables"


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="GRID", help="A sweep in TOML; see docs/sweeps.md.")],
    store: _StoreFolder = Path("results/store"),
    on: Annotated[
        str | None, typer.Option(help="A Dask cluster: dask://HOST:8786, or dask:///path/to/scheduler.json.")
    ] = None,
    keep: Annotated[_Keep | None, typer.Option(help="Also keep every table of every run.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    as_json: _Json = False,
) -> None:
    """Run a scenario at many points, with many seeds. A run that is in the store already is not run again.

    A run that fails is recorded and the rest goes on; the exit code is then 1.

    For example:

    - `tailback sweep scenarios/grids/queue-length.toml`

    - `tailback sweep scenarios/grids/queue-length.toml --on dask://cluster:8786 --store results/shared`
    """
    from dataclasses import replace

    from tailback.sweep import read_sweep, sweep

    wanted = read_sweep(file)
    if keep is not None:
        wanted = replace(wanted, keep_tables=keep is _Keep.TABLES)
    done = sweep(wanted, store=store, on=on, workers=workers, progress=not as_json)
    if as_json:
        _emit(done.to_json())
    else:
        _say(
            f"{escape(wanted.name)}: {len(wanted.design)} points, {done.run} runs in {done.wall_s:.1f} s, "
            f"{done.reused} found in the store, {done.failed} failed"
        )
        for text, count in list(done.errors.items())[:5]:
            _say(f"  {count} × {escape(text)}")
        _say(f"store: {escape(str(store))}   ask it with: tailback results query 'SELECT …'")
    if done.failed:
        raise typer.Exit(_FAILED)


results = typer.Typer(no_args_is_help=True, help="Look at the runs that sweeps have kept.")
app.add_typer(results, name="results")


@results.command("ls")
def results_ls(
    store: _StoreFolder = Path("results/store"),
    limit: Annotated[int, typer.Option(min=1, help="At most so many runs, the newest ones.")] = 20,
    as_json: _Json = False,
) -> None:
    """List runs, the newest last."""
    from tailback.store import open_store

    frame = open_store(store).frame()
    keys = ("key", "status", "sweep", "point", "seed", "name", "wall_s", "error")
    rows = [{key: row[key] for key in keys} for row in frame.tail(limit).to_dicts()]
    if as_json:
        _emit({"store": store, "runs": len(frame), "shown": rows})
        return
    _print_rows([{key: _brief(value) for key, value in row.items()} for row in rows])
    _say(f"{len(frame)} runs in {escape(str(store))}" + (f", the last {limit} shown" if len(frame) > limit else ""))


@results.command("show")
def results_show(
    key: _KeyStart,
    store: _StoreFolder = Path("results/store"),
    scenario: Annotated[bool, typer.Option("--scenario", help="Print the scenario, as TOML.")] = False,
    as_json: _Json = False,
) -> None:
    """Show a run: what was measured, or the scenario to run it again."""
    from tailback.store import open_store

    row = open_store(store).find(key)
    if scenario:
        _emit({"scenario": row["scenario"]}) if as_json else print(row["scenario"], end="")
    elif as_json:
        _emit(row)
    else:
        _print_rows([{"name": name, "value": _brief(row[name])} for name in row if name != "scenario"])


@results.command("query")
def results_query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="The runs are the table `runs`.")],
    store: _StoreFolder = Path("results/store"),
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: _Json = False,
) -> None:
    """Ask the store in SQL; a column with a dot in its name needs double quotes.

    For example `tailback results query 'SELECT "flow.bulk.cc", avg("voip.delay_p95_ms") FROM runs GROUP BY 1'`
    """
    from tailback.store import QueryError, open_store

    try:
        frame = open_store(store).query(sql)
    except QueryError as error:
        raise _BadInput(str(error)) from None
    if as_json:
        _emit({"rows": frame.to_dicts()})
    elif as_csv:
        print(frame.write_csv(), end="")
    else:
        _print_rows([{key: _brief(value) for key, value in row.items()} for row in frame.to_dicts()])


@results.command("gc")
def results_gc(
    store: _StoreFolder = Path("results/store"),
    other_engines: Annotated[
        bool, typer.Option("--other-engines", help="Also remove the runs of every engine but this.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Also remove runs that failed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: _Json = False,
) -> None:
    """Tidy up a store: one index file, no rows that newer ones replaced, no tables or leftovers without a row."""
    from dataclasses import asdict

    from tailback.store import open_store

    done = open_store(store).gc(other_engines=other_engines, failed=failed, dry_run=dry_run)
    if as_json:
        _emit(asdict(done) | {"dry_run": dry_run})
    else:
        verb = "would remove" if dry_run else "removed"
        what = f"{done.rows} rows, {done.tables} sets of tables, {done.leftovers} leftovers"
        _say(f"{verb} {what}: {done.bytes / 1e6:.1f} MB")


def _brief(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else value


@app.command()
def validate(
    out: Annotated[Path, typer.Option(help="The page; its figures go beside it.")] = Path("docs/validation.md"),
    ns2: Annotated[
        bool, typer.Option("--ns2", help="Also run ns-2 anew; needs `ns` on the path (Debian: apt-get install ns2).")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Compare with a measured Linux kernel and with ns-2, and write the page that says how close.

    For example `tailback validate --out validation.md`
    """
    found = import_module("tailback.validation").validate(out, with_ns2=ns2)
    if as_json:
        _emit(found)
        return
    for truth in ("linux", "ns2"):
        cases = found[truth]
        missed = [case for case in cases if not all(each["met"] for each in case["judged"])]
        names = ", ".join(dict.fromkeys(case["algorithm"] for case in missed)) or "none"
        _say(f"{truth}: {len(cases) - len(missed)} of {len(cases)} within every target; misses: {names}")
    _say(f"page: {escape(str(out))}")


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Two scenarios, half a minute.")] = False,
    grid: Annotated[bool, typer.Option("--grid", help="Also time the whole grid of the voip-latency study.")] = False,
    as_json: _Json = False,
) -> None:
    """Measure how fast this machine simulates.

    For example `tailback bench --quick --json`; side by side with ns-2 and ns-3: docs/performance.md
    """
    from tailback import bench as benchmark

    measured = benchmark.run(quick=quick, grid=grid, told=(lambda _: None) if as_json else _say)
    if as_json:
        _emit(measured)
        return
    rows = [(name, found) for name, found in measured.items() if isinstance(found, dict) and "cpu_s" in found]
    _print_rows(
        [
            {
                "name": name,
                "scenario": found["title"],
                "M packets / core s": f"{found['packets_per_core_s'] / 1e6:.2f}",
                "M events / core s": f"{found['events_per_core_s'] / 1e6:.1f}",
                "× real time": f"{found['simulated_s'] / found['cpu_s']:.0f}",
                "peak MB": f"{found['peak_mb']:.0f}",
            }
            for name, found in rows
        ]
    )
    for name in ("start_up_s", "bytes_per_flow", "sweep", "grid"):
        if name in measured:
            _say(f"{name}: {_facts(measured[name])}")


def _facts(value: Any) -> str:
    return (
        ", ".join(f"{key} {_brief(item)}" for key, item in value.items()) if isinstance(value, dict) else _brief(value)
    )


# --- Entry ----------------------------------------------------------------------------------------------------


def _fail(error: BaseException, code: int) -> int:
    text = str(error) or type(error).__name__
    if isinstance(error, AlgorithmError) and error.__cause__ is not None:
        # The user's own code: where it failed is what they need.
        text += "\n" + "".join(traceback.format_exception(error.__cause__)).rstrip()
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    if "--json" in sys.argv[1:]:
        problems = error.problems if isinstance(error, ScenarioError) else ()
        _emit({"error": text, "problems": [_problem(problem) for problem in problems]})
    label = "" if code == _INTERRUPTED else "[bold red]error:[/bold red] "
    _say(f"{label}{escape(text + notes)}")
    return code


def _is_meant_for_people(error: BaseException) -> bool:
    """Studies and plots have `ValueError`s of their own that explain themselves; a bare one is a bug."""
    return isinstance(error, TailbackError | OSError) or type(error).__module__.startswith("tailback.")


def _call(command: Any) -> int:
    try:
        return int(command.main(prog_name="tailback", standalone_mode=False) or 0)
    except typer.Exit as error:
        return error.exit_code
    except BrokenPipeError:
        # The reader (head, less) has seen enough; leave nothing for the interpreter's exit to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except Exception as error:
        if isinstance(error, _Stopped):
            return _fail(error, _INTERRUPTED)
        if isinstance(error, ScenarioError | _BadInput):
            return _fail(error, _BAD_INPUT)
        if _is_meant_for_people(error):
            return _fail(error, _FAILED)
        if hasattr(error, "format_message"):
            # Usage of the command line itself: unknown option, missing argument.
            return _fail(_Told(f"{error.format_message()} Try: tailback --help"), _BAD_INPUT)
        raise


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    sys.exit(_call(typer.main.get_command(app)))
