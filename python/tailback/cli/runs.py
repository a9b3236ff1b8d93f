"""Commands that run, check, compare and show scenarios and results."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tailback import examples, registry
from tailback.algorithms import factories
from tailback.cli import _tests
from tailback.cli._app import app
from tailback.cli._common import (
    FAILED,
    INTERRUPTED,
    AsJson,
    BadInput,
    ResultFolder,
    console,
    described,
    emit,
    say,
)
from tailback.cli.reading import AllowCode, EngineName, Kept, Kernel, Own, Set, labels_of, own, read_scenario
from tailback.consent import asked_for
from tailback.lazy import lazy
from tailback.numbers import written
from tailback.terminal import Unbroken
from tailback.units import to_unit

with lazy():
    from tailback import compare as comparing
    from tailback import engines, live, plots
    from tailback.capture.matching import matched
    from tailback.expect import demand_sound
    from tailback.experiment import pairs as pairing
    from tailback.experiment.pairs import run_pairs, that_matter, with_algorithm
    from tailback.report.comparison import write_comparison
    from tailback.result import demand_writable, open_result
    from tailback.result.notes import notes_of
    from tailback.run import run as simulate

if TYPE_CHECKING:
    from tailback.engines import Engine
    from tailback.scenario import Scenario

#: As many as experts compare one line of an algorithm with; see docs/plots.md.
PAIRS = 60

_Seed = Annotated[int | None, typer.Option(help="Seed instead of the scenario's.")]


_File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A scenario in TOML (docs/scenario.md), or an example's name.")
]


@app.command()
def run(
    file: _File,
    seed: _Seed = None,
    settings: Set = None,
    algorithm: Own = None,
    allow_code: AllowCode = False,
    out: Annotated[Path | None, typer.Option(help="Save the result to this folder during the run.")] = None,
    most_rows: Annotated[
        int | None, typer.Option(help="Maximum rows that the run may record; see `most_rows` in docs/scenario.md.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="`sim`, `live` (this machine's kernel; needs root), `vm` (any kernel, in a virtual machine), "
            "or several: `sim,vm`."
        ),
    ] = "sim",
    kernel: Annotated[
        str | None,
        typer.Option(help="The kernel of `--engine vm`: a name of `tailback vm kernels`, or an image's path."),
    ] = None,
    dilation: Annotated[
        int,
        typer.Option(help="How many times faster the processor of `--engine vm` is, by slowing its clock."),
    ] = 1,
    test: Annotated[
        str | None,
        typer.Option("--as", help="A test to run on the path instead of the flows: `responsiveness`."),
    ] = None,
    client: Annotated[
        str | None, typer.Option(metavar="NODE", help="For --as: the end that tests. Default: where the data go.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario and show what happened.

    The exit code is 1 if one of its programs failed: by a signal, or with a status other than 0.

    For example:

    - `tailback run scenarios/voip-and-bulk.toml`

    - `tailback run scenarios/voip-and-bulk.toml --set flow.bulk.cc=htcp --set dumbbell.queue=0.25bdp`

    - `tailback run scenarios/voip-and-bulk.toml --seed 7 --out results/seven --json`

    - `sudo tailback run scenarios/voip-and-bulk.toml --engine sim,live --out results/both`

    - `tailback run scenarios/voip-and-bulk.toml --engine sim,vm --kernel debian-6.12`

    - `tailback run scenarios/voip-and-bulk.toml --algorithm mine=mine.py:Mine --set flow.bulk.cc=mine`

    - `tailback run scenarios/bufferbloat.toml --as responsiveness --client left`
    """
    scenario = _tests.made(read_scenario(file, settings, seed), test, client)
    if most_rows is not None:
        scenario = scenario.with_({"instruments.most_rows": most_rows})
    try:
        chosen = engines.named(engine, kernel, dilation)
    except engines.UnknownEngine as error:
        raise BadInput(str(error)) from None
    if kernel is not None and not any(each.can.choose_kernel for each in chosen):
        raise BadInput("--kernel: only a virtual machine has a kernel of its own. Add --engine vm.")
    if dilation != 1 and not any(each.can.choose_kernel for each in chosen):
        raise BadInput("--dilation: only a virtual machine's clock can be slowed. Add --engine vm.")
    if out is not None:
        for place in [out] if len(chosen) == 1 else [out / each.name for each in chosen]:
            _demand_same_scenario(place, scenario.name)
    # Names of files, not where they lie: a result may be given away.
    words = ["tailback run", file.name if file.exists() else str(file), *(f"--set {text}" for text in settings or ())]
    words += [f"--seed {seed}"] if seed is not None else []
    words += [f"--{option} {given}" for option, given in (("as", test), ("client", client)) if given is not None]
    words += [f"--most-rows {most_rows}"] if most_rows is not None else []
    words += ["--allow-code"] if allow_code else []
    if len(chosen) > 1 or not chosen[0].can.stream:
        if algorithm:
            raise BadInput("--algorithm: no kernel runs an algorithm written in Python. Leave out --engine.")
        _run_engines(scenario, chosen, out, words, as_json, allow_code, test)
        return
    words += [
        f"--algorithm {name}={Path(place).name}" for name, _, place in (t.partition("=") for t in algorithm or ())
    ]
    command = " ".join(words)
    result = simulate(
        scenario,
        progress=not as_json,
        algorithms=own(algorithm),
        allow_code=allow_code,
        out=out,
        command=command,
    )
    result.meta["command"] = command
    if as_json:
        notes = {"notes": scenario.notes(result.resolved)}
        emit(described(result) | _tests.numbers(result, test) | notes | {"saved": None if out is None else out})
        return
    _say_notes(scenario, result.resolved)
    _tests.show(result, test)
    if out is not None:
        say(f"saved: {escape(str(out))}   look again with: tailback show {escape(str(out))}")
        if result.algorithms:
            kept = ", ".join(result.algorithms)
            say(escape(f"it keeps the source of {kept}   run it again with: tailback repeat {out} --allow-code"))


@app.command()
def shell(
    file: _File,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND]", help="The command to run. Default: your shell.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(metavar="HOST", help="The host: where a flow begins or ends. The first sender.")
    ] = None,
    server: Annotated[
        str, typer.Option(metavar="COMMAND", help="Run this at the other end meanwhile: 'iperf3 -s -p {port}'.")
    ] = "",
    cc: Annotated[str, typer.Option(help="Congestion control of the command's connections.")] = "cubic",
    limit: Annotated[str, typer.Option(help="End the command after this time.")] = "1h",
    settings: Set = None,
    allow_code: AllowCode = False,
) -> None:
    """Run a shell or a command on a host of a scenario, over its path and beside its flows; needs root.

    The address of the other end is in the variable `TAILBACK_PEER`. The exit status is the command's; nothing is left
    behind afterwards. For example:

    - `sudo tailback shell scenarios/bufferbloat.toml`

    - `sudo tailback shell scenarios/bufferbloat.toml -- sh -c 'ping -c 3 $TAILBACK_PEER'`

    - `sudo tailback shell scenarios/bufferbloat.toml --on right -- ip address`
    """
    scenario = read_scenario(file, settings, None)
    words = command or [os.environ.get("SHELL") or "/bin/sh"]
    status, notes = live.shell(
        scenario, words, on=on, server=server, cc=cc, limit=to_unit(limit, "s"), allow_code=allow_code
    )
    if status == live.shells.STOPPED:
        say(f"the command was still at work after {limit}, and was ended: --limit")
    for note in notes:
        say(f"[bold]note:[/bold] {escape(note)}")
    raise typer.Exit(status)


def _say_notes(scenario: Scenario, resolved: Mapping[str, Any]) -> bool:
    """What the scenario says that may not be meant, and whether any of it is a warning."""
    notes = notes_of(scenario, resolved)
    for note in notes:
        head = "[yellow]warning:[/yellow]" if note.is_warning else "[bold]note:[/bold]"
        say(f"{head} {escape(note.text)}")
    return any(note.is_warning for note in notes)


def _demand_same_scenario(out: Path, name: str) -> None:
    """A run takes the place of an earlier one of the same scenario, and of no other's."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        other = str(json.loads((out / "resolved.json").read_text(encoding="utf-8"))["name"])
        if other != name:
            raise BadInput(
                f"--out {out}: this folder holds a result of the scenario {other or 'without a name'}, and this one is "
                f"{name or 'without a name'}. Choose another folder, or remove that one first"
            )


def _run_engines(
    scenario: Any,
    chosen: Sequence[Engine],
    out: Path | None,
    words: list[str],
    as_json: bool,
    allow_code: bool,
    test: str | None,
) -> None:
    """Run on the engines chosen; several are compared, and each is saved to a folder of its own below `out`."""
    for engine in chosen:
        # Refused now rather than after a minute of simulating.
        engine.check(scenario, allow_code=allow_code)
    names = [engine.name for engine in chosen]
    folders = {name: out if out is None or len(chosen) == 1 else out / name for name in names}
    for folder in folders.values():
        if folder is not None:
            demand_writable(folder)
    _say_notes(scenario, scenario.resolve(live=True))
    results = {}
    for engine in chosen:
        result = engine.run(scenario, progress=not as_json, allow_code=allow_code)
        result.meta["command"] = " ".join([*words, *engine.words])
        results[engine.name] = result
        folder = folders[engine.name]
        if folder is not None:
            result.save(folder)
        for note in result.meta.get("notes", []):
            label = "[bold red]failed:[/bold red]" if note in result.failed_programs else "[bold]note:[/bold]"
            say(f"{label} {escape(note)}")
    rows = comparing.compare(results) if len(results) > 1 else []
    page = None
    if rows:
        # Two engines are run to be compared: the page is wanted even if the results are not kept.
        page = out / "report.html" if out is not None else Path(f"{Path(words[1]).stem}-{'-'.join(names)}.html")
        write_comparison(results, page)
    if as_json:
        described_by_name = {
            name: described(result) | _tests.numbers(result, test) | {"saved": folders[name]}
            for name, result in results.items()
        }
        if len(chosen) == 1:
            emit(described_by_name[names[0]])
        else:
            emit({"engines": described_by_name, "metrics": [row.as_dict() for row in rows], "report": page})
    else:
        for name, result in results.items():
            say(f"\n[bold]{name}[/bold]")
            _tests.show(result, test)
        if rows:
            say("")
            _print_comparison(rows)
        if out is not None:
            say(f"saved: {escape(', '.join(str(folder) for folder in folders.values()))}")
        if page is not None:
            say(f"report of both: {escape(str(page))}")
    if any(result.failed_programs for result in results.values()):
        raise typer.Exit(FAILED)


def _print_comparison(rows: Sequence[Any]) -> None:
    """One row a metric: the baseline's value, then each other result's with its change."""
    if not rows:
        say("no metric differs")
        return
    labels = list(rows[0].values)
    base = rows[0].baseline
    others = [label for label in labels if label != base]
    table = Table(box=None, pad_edge=False)
    for head in ("metric", "of", "unit"):
        table.add_column(head, overflow="fold")
    table.add_column(escape(base), justify="right")
    for label in others:
        table.add_column(escape(label), justify="right")
        table.add_column("change", justify="right", style="dim")

    def change(value: float) -> str:
        return "-" if math.isnan(value) else f"{100 * value:+.1f} %"

    for row in rows:
        values = [
            text for label in others for text in (written(row.values[label], missing="-"), change(row.change(label)))
        ]
        table.add_row(row.metric, escape(row.of), row.unit, written(row.values[base], missing="-"), *values)
    console().print(Unbroken(table, repeated=3))


@app.command()
def compare(
    what: Annotated[
        list[Path],
        typer.Argument(metavar="WHAT...", help="Result folders, two or more; or two scenario files, or one with --cc."),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="For results: the one that changes are relative to. Default: the first.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Of results: a report (.html), or only the figure of all over one another (.png, .pdf, .svg)."
        ),
    ] = None,
    cc: Annotated[
        list[str] | None,
        typer.Option("--cc", help="Two congestion controls for one scenario: `--cc reno --cc cubic`."),
    ] = None,
    flow: Annotated[
        list[str] | None,
        typer.Option("--flow", help="A flow that --cc changes. Default: all TCP flows. May be repeated."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=2, help="Seeds that both scenarios are run with.")] = PAIRS,
    settings: Set = None,
    algorithm: Own = None,
    allow_code: AllowCode = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    engine: EngineName = None,
    kernel: Kernel = None,
    store: Kept = Path("results/guests"),
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="RUN=CAPTURE",
            help="Of results: a run's flow and another result's name of it. Default: by a capture's addresses.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every metric, not only the ten most important differences.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare results, or scenarios over many seeds.

    The ten differences that matter are printed: what people notice, goodput, loss, queues, then the rest. Of each, the
    whole run comes before its parts, then the largest change. Differences of less than 1 %, a packet or what a person
    notices come last. `--all` prints every metric.

    Of results: every metric of each, by how much they differ from the baseline, and all drawn on common axes. A run and
    a capture of it can be compared: `tailback pcap open` makes a result of a capture.

    Of two scenarios: both are run with the same seeds, and each metric's difference, seed by seed, is printed with its
    95 % interval. Exit code 1 if a run failed, 130 after Ctrl-C; finished pairs are printed in either case.

    For example:

    - `tailback compare results/both/sim results/both/live`

    - `tailback compare results/reno results/cubic results/htcp --baseline results/reno --out three.html`

    - `tailback compare scenarios/voip-and-bulk.toml --cc reno --cc cubic --set randomness.start_spread=1s`
    """
    if any(examples.located(path).is_file() or path.suffix == ".toml" for path in what):
        for option, given in (("--baseline", baseline), ("--out", out), ("--map", names)):
            if given is not None:
                raise BadInput(f"{option} is for results, and {what[0]} is a scenario. Leave it out")
        _compare_scenarios(
            what,
            cc or [],
            flow or [],
            pairs,
            settings,
            algorithm,
            allow_code,
            workers,
            everything,
            as_json,
            engine=engine,
            kernel=kernel,
            store=store,
        )
        return
    scenarios_only = {"--cc": cc, "--flow": flow, "--set": settings, "--algorithm": algorithm, "--workers": workers,
                      "--engine": engine, "--kernel": kernel}  # fmt: skip
    for option, chosen in scenarios_only.items():
        if chosen:
            raise BadInput(f"{option} is for scenarios, and {what[0]} is a folder of results. Leave it out")
    _compare_results(what, baseline, out, names or [], everything, as_json)


def _compare_results(
    folders: list[Path], baseline: str | None, out: Path | None, names: list[str], everything: bool, as_json: bool
) -> None:
    if len(folders) < 2:
        raise BadInput(f"{folders[0]}: one result cannot be compared. Give two or more")
    labels = labels_of(folders)
    named = dict(zip(map(str, folders), labels, strict=True))
    base = None if baseline is None else named.get(baseline.rstrip("/"), baseline)
    for each in names:
        if "=" not in each:
            raise BadInput(f"--map {each}: give RUN=CAPTURE, the name of a flow in the run and in the capture")
    opened = dict(zip(labels, map(open_result, folders), strict=True))
    results, notes = matched(opened, dict(each.split("=", 1) for each in names))
    rows = comparing.compare(results, baseline=base)
    if out is not None:
        _write_comparison(results, out, base)
    if as_json:
        folder_of = {label: str(folder) for label, folder in zip(labels, folders, strict=True)}
        metrics = [row.as_dict() for row in rows]
        emit({"results": folder_of, "baseline": base or labels[0], "metrics": metrics, "out": out, "notes": notes})
        return
    shown = rows if everything else comparing.that_matter(rows)
    _print_comparison(shown)
    _say_the_rest(len(rows) - len(shown))
    for note in notes:
        say(f"[bold]note:[/bold] {escape(note)}")
    if out is not None:
        say(f"written: {escape(str(out))}")


def _compare_scenarios(
    files: list[Path],
    cc: list[str],
    flows: list[str],
    pairs: int,
    settings: Sequence[str] | None,
    algorithm: Sequence[str] | None,
    allow_code: bool,
    workers: int | None,
    everything: bool,
    as_json: bool,
    **where: Any,
) -> None:
    if (len(files), len(cc)) not in ((2, 0), (1, 2)):
        fix = "Give two scenario files, or one and two congestion controls: --cc reno --cc cubic"
        raise BadInput(f"{len(files)} scenarios and {len(cc)} times --cc are no pair. {fix}")
    if flows and not cc:
        raise BadInput("--flow says which flows --cc changes, and there is no --cc. Leave it out")
    for each in cc:
        if each.rpartition(":")[0].endswith(".py") and not each.startswith("python:"):
            name = Path(each.rpartition(":")[0]).stem
            raise BadInput(
                f"--cc {each}: this is a place, and --cc takes a name. Give --algorithm {name}={each} --cc {name}"
            )
    algorithms = own(algorithm)
    both = [read_scenario(file, settings, None) for file in files]
    labels = [str(file) for file in files] if len(files) == 2 else cc
    if cc:
        both = [with_algorithm(both[0], each, flows, algorithms) for each in cc]
    if labels[0] == labels[1]:
        labels = [f"{labels[0]} (a)", f"{labels[1]} (b)"]
    try:
        found = run_pairs(
            both[0],
            both[1],
            pairs=pairs,
            labels=(labels[0], labels[1]),
            workers=workers,
            progress=not as_json,
            algorithms=algorithms,
            allow_code=allow_code,
            **where,
        )
    except pairing.InterruptedPairs as interrupted:
        _report_pairs(interrupted.partial, everything, as_json)
        compared = ", and are compared" if interrupted.partial.pairs else ""
        say(f"interrupted: {interrupted.partial.pairs} of {pairs} pairs were finished{compared}")
        raise typer.Exit(INTERRUPTED) from None
    _report_pairs(found, everything, as_json)
    if found.errors:
        raise typer.Exit(FAILED)


def _say_the_rest(count: int) -> None:
    if count:
        say(f"{count} more metrics differ less, not at all, or explain these: --all")


def _report_pairs(found: Any, everything: bool, as_json: bool) -> None:
    for text in found.errors[:5]:
        say(f"[bold red]failed:[/bold red] {escape(text)}")
    if len(found.errors) > 5:
        say(f"  and {len(found.errors) - 5} more")
    if as_json:
        emit(found.to_json())
        return
    if not found.pairs:
        return
    _print_pairs(found, everything)
    share, chance = f"{100 * found.confidence:g} %", f"one in {1 / (1 - found.confidence):.0f}"
    say(
        f"{found.pairs} pairs in {found.wall_s:.1f} s. b - a is taken seed by seed, with its {share} interval; where "
        f"nothing differs, {chance} metrics still seems to"
    )
    if found.still:
        say(
            f"[yellow]warning:[/yellow] all seeds gave the same run with {escape(' and with '.join(found.still))}: "
            "nothing there is drawn, so seeds add no cases. Add for example --set randomness.start_spread=1s"
        )


def _print_pairs(found: Any, everything: bool) -> None:
    colours = {"higher": "bold", "lower": "bold", "same": "dim", "not seen": "dim", "one case": "yellow"}
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", overflow="fold")
    for head in (f"a: {found.labels[0]}", f"b: {found.labels[1]}", "b - a", "95 % interval", "change"):
        table.add_column(escape(head.replace("95 %", f"{100 * found.confidence:g} %")), justify="right")
    table.add_column("b is")
    # What is zero throughout, such as the drops of a link that no flow fills, would bury the rest.
    nothing = [row for row in found.metrics if row.verdict == "same" and not row.a.estimate]
    rows = [row for row in found.metrics if row not in nothing]
    shown = rows if everything else that_matter(rows)
    for row in shown:
        low, high = written(row.difference.low, 3), written(row.difference.high, 3)
        change = "-" if math.isnan(row.change) else f"{100 * row.change:+.1f} %"
        values = [written(each.estimate, missing="-") for each in (row.a, row.b)]
        sided = f" ({row.one_sided} pairs have it on one side only)" if row.one_sided else ""
        verdict = {"same": "the same", "not seen": "not seen to differ"}.get(row.verdict, row.verdict)
        style = colours[row.verdict]
        of = row.metric.rpartition(".")[0]
        if row.effect in ("better", "worse"):
            verdict = f"{verdict}, {row.effect} for {of}"
        elif row.effect == "unnoticed" and row.verdict in ("higher", "lower"):
            verdict, style = f"{verdict}, too little to notice", "dim"
        interval = "-" if row.verdict == "one case" else f"{low} to {high}"
        table.add_row(
            escape(row.metric),
            *values,
            written(row.difference.estimate, 3),
            interval,
            change,
            f"[{style}]{escape(verdict)}[/]{sided}",
        )
    if not shown:
        say("no metric is seen to differ")
    else:
        console().print(Unbroken(table))
    _say_the_rest(len(rows) - len(shown))
    if nothing and everything:
        console().print(f"0 in every run of both: {escape(', '.join(row.metric for row in nothing))}", soft_wrap=True)


def _write_comparison(results: Mapping[str, Any], out: Path, baseline: str | None) -> None:
    if out.suffix == ".html":
        write_comparison(results, out, baseline=baseline)
    elif out.suffix in (".png", ".pdf", ".svg"):
        plots.save(plots.get("overview")(results), out)
    else:
        raise BadInput(f"--out {out}: the ending says what to write. Use .html, .png, .pdf or .svg.")


@app.command()
def check(
    file: _File, seed: _Seed = None, settings: Set = None, algorithm: Own = None, as_json: AsJson = False
) -> None:
    """Check a scenario; neither it nor code that it names is run.

    For example `tailback check scenarios/two-bottlenecks.toml`
    """
    algorithms = own(algorithm)
    scenario = read_scenario(file, settings, seed)
    resolved = scenario.resolve(algorithms=factories(algorithms), live=True)
    if scenario.expect is not None:
        demand_sound(scenario, resolved, algorithms)
    code = [{"field": row.field, "asks_to_run": row.value} for row in asked_for(resolved)]
    if as_json:
        emit({"resolved": resolved, "code": code, "notes": scenario.notes(resolved)})
        return
    found = "no errors" if _say_notes(scenario, resolved) else "nothing wrong"
    say(f"{escape(str(file))}: {found}; {len(resolved['flows'])} flows, {len(resolved['links'])} links")
    if any(registry.application(flow).runs_programs for flow in resolved["flows"]):
        say("its programs run on a kernel: tailback run FILE --engine live (or vm)")
    for row in code:
        say(f"not looked at: {row['field']} asks to run {escape(str(row['asks_to_run']))}; a run needs --allow-code")


@app.command()
def show(result: ResultFolder, as_json: AsJson = False) -> None:
    """Show a saved result: totals of every flow and link.

    For example `tailback show results/seven`
    """
    opened = open_result(result)
    if as_json:
        emit(described(opened))
    else:
        console().print(opened)


@app.command()
def repeat(
    result: ResultFolder,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Allow running the algorithms' sources in the result. Read them first.")
    ] = False,
    kernel: Annotated[
        str | None,
        typer.Option(help="Of a virtual machine's result: the image that it names by path. Trust it first."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Save the new result to this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a result's scenario again, and report whether the rows are the same.

    The result alone is enough: it contains the files of its scenario and the sources of your own algorithms.

    For example:

    - `tailback repeat results/seven`

    - `tailback repeat results/mine --allow-code`
    """
    first = open_result(result)
    command = " ".join(["tailback repeat", result.name, *(["--allow-code"] if allow_code else [])])
    again = engines.repeat(first, progress=not as_json, allow_code=allow_code, out=out, kernel=kernel, command=command)
    differing = first.differing(again)
    versions = {"then": first.meta.get("version"), "now": again.meta["version"]}
    if as_json:
        emit({"same": not differing, "differing": differing, "versions": versions, "saved": out})
    else:
        names = ", ".join(differing)
        say(f"differs in: {escape(names)}" if differing else f"the same rows in all {len(first.tables)} tables")
        if versions["then"] != versions["now"]:
            say(f"made by tailback {versions['then']}, repeated by {versions['now']}")
        if out is not None:
            say(f"saved: {escape(str(out))}")
    if differing:
        raise typer.Exit(FAILED)
