"""Commands for studies, validation and benchmarks."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import (
    BAD_INPUT,
    AsJson,
    BadInput,
    brief,
    console,
    emit,
    print_rows,
    say,
    unknown,
)
from tailback.cli.reading import Kernel
from tailback.judge import TARGET, Verdict
from tailback.lazy import lazy

with lazy():
    from tailback import bench as benchmark
    from tailback import engines
    from tailback.vm.kernels import find


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="Name of a study; `--list` shows them.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per cell of the grid. Default: the study's.")] = None,
    scale: Annotated[
        bool | None,
        typer.Option(
            "--quick/--full",
            help="A small part of the grid, to see that it works; or all of it at the paper's scale. "
            "Default: all of it, at a smaller scale if the paper's takes hours.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results, figures and report. Default: results/NAME.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Default: all cores.")] = None,
    overview: Annotated[
        Path | None,
        typer.Option(
            metavar="PAGE",
            help="Run nothing: write one page of all studies' claims, what failed first, from the folders in --out.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--judge", help="Run nothing: judge the finished runs in --out by today's rules, whatever engine ran them."
        ),
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            help="`sim`; or the cells that a Linux of today can run: `live` on this machine's kernel, in real time and "
            "as root, `vm` on any kernel."
        ),
    ] = "sim",
    kernel: Kernel = None,
    as_json: AsJson = False,
) -> None:
    """Repeat a published study: its grid, its figures, and each of its claims with a verdict.

    For example:

    - `tailback study --list`

    - `tailback study voip-latency --quick`

    - `tailback study voip-latency --seeds 5 --out results/voip-latency --json`

    - `tailback study voip-latency --quick --engine vm --kernel debian-6.1`
    """
    studies = import_module("tailback.experiment.studies")
    names: list[str] = studies.names()
    if overview is not None:
        _overview(name, names, out or Path("results"), overview, as_json)
        return
    if not names:
        raise BadInput(f"no study is installed. {studies.HOW_TO_GET}")
    if listed or name is None:
        rows = [{"name": entry, "title": studies.get(entry).title} for entry in names]
        if as_json:
            emit({"studies": rows})
        else:
            print_rows(rows)
        if name is None and not listed:
            say("Name one of these: tailback study NAME")
            raise typer.Exit(BAD_INPUT)
        return
    if name not in names:
        raise BadInput(unknown("study", name, names))
    on = engines.one(engine, kernel)
    on_kernel, chosen = on.can.kernel, studies.get(name)
    if kernel is not None and not on.can.choose_kernel:
        raise BadInput("--kernel: only a virtual machine has a kernel of its own. Add --engine vm.")
    if on_kernel and chosen.kernel_grid is None:
        able = ", ".join(entry for entry in names if studies.get(entry).kernel_grid is not None)
        raise BadInput(f"--engine {engine}: no cell of {name} is of a Linux of today. Studies that have some: {able}.")
    if on_kernel and scale is False:
        raise BadInput(f"--full --engine {engine}: a study on a kernel has no full scale. Leave out --full.")
    folder = out or Path("results") / (f"{name}-{engine}" if on_kernel else name)
    if again and (seeds is not None or scale is not None):
        raise BadInput("--judge takes seeds and scale from the runs in --out. Leave out --seeds, --quick and --full.")
    finished = (
        chosen.judge_again(folder)
        if again
        else chosen.run(
            folder,
            seeds=1 if on_kernel and seeds is None else seeds,
            quick=scale is True,
            full=scale is False,
            engine=engine,
            kernel=kernel,
            progress=not as_json,
            workers=workers,
        )
    )
    if as_json:
        emit(finished.to_json())
    else:
        finished.print(console())


def _overview(name: str | None, names: list[str], folder: Path, page: Path, as_json: bool) -> None:
    if name is not None:
        raise BadInput(f"--overview is of all studies: leave out {name}, or leave out --overview.")
    written = import_module("tailback.experiment.overview").write(folder, names, page)
    if as_json:
        emit(written)
        return
    console().print(", ".join(f"{count} {verdict}" for verdict, count in written["verdicts"].items()))
    if written["missing"]:
        console().print(f"not run yet: {', '.join(written['missing'])}")
    console().print(f"written: {page}", soft_wrap=True)


@app.command()
def validate(
    out: Annotated[
        Path | None,
        typer.Option(help="The page; its figures go beside it. Default: this comparison's own page in docs/."),
    ] = None,
    ns2: Annotated[
        bool, typer.Option("--ns2", help="Also run ns-2 again; needs `ns` on the path (Debian: apt-get install ns2).")
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="Also run this machine's kernel, three minutes an algorithm; needs root."),
    ] = False,
    algorithms: Annotated[
        str | None,
        typer.Option(
            help="--live: these, not the usual ten, such as `bic,cubic:twin`. --engine vm: this one in every cell; "
            "or two, the second beside the first, each on its own of two kernels."
        ),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="`vm`: on sampled paths instead, against kernels in virtual machines.")
    ] = None,
    kernels: Annotated[
        str,
        typer.Option(
            "--kernel", help="With --engine vm: kernels by name; `debian-6.1,debian-6.1*4`: also at a dilation of 4."
        ),
    ] = "debian-6.1",
    cells: Annotated[int, typer.Option(min=1, max=512, help="With --engine vm: how many sampled paths.")] = 512,
    minutes: Annotated[
        float, typer.Option(min=0.0, help="With --engine vm: start no run after this; the next call continues.")
    ] = float("inf"),
    work: Annotated[
        Path | None,
        typer.Option(help="With --engine vm: where runs are kept. Default: validation/truth, or results/queues."),
    ] = None,
    standing: Annotated[
        bool,
        typer.Option("--standing", help="With --engine vm: every algorithm on few paths, three starts each, instead."),
    ] = False,
    again: Annotated[
        int, typer.Option(min=0, help="With --engine vm: run the first N cells once more and say which differ.")
    ] = 0,
    queues: Annotated[
        bool, typer.Option("--queues", help="With --engine vm: queue models against one kernel's own queues instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare with a measured kernel, with ns-2 and with this machine's kernel; write the page that says how close.

    For example:

    - `tailback validate --out validation.md`

    - `tailback validate --engine vm --kernel debian-6.1,debian-6.12 --minutes 60`

    - `tailback validate --engine vm --algorithms bbr,bbr3 --kernel debian-6.12,bbr3-6.12 --cells 100`

    - `tailback validate --engine vm --queues`

    - `tailback validate --engine vm --standing --minutes 60`
    """
    if engine is not None:
        able_to = [each.name for each in engines.every() if each.can.choose_kernel]
        if engine not in able_to:
            raise BadInput(unknown("engine", engine, able_to))
        is_other = algorithms is not None and (queues or standing)
        for option, is_given in (("--ns2", ns2), ("--live", live), ("--algorithms", is_other)):
            if is_given:
                raise BadInput(f"{option}: another comparison than that of --engine vm. Leave out one of them.")
        chosen = [name.strip() for name in kernels.split(",")]
        if queues:
            page = out or Path("docs/validation-queues.md")
            _validate_queues(chosen, minutes, work or Path("results/queues"), page, as_json)
        elif standing:
            page = out or Path("docs/validation-standing.md")
            rows = work or Path(_validation().__file__).parents[1] / "truth"
            _validate_standing(chosen, minutes, rows, page, as_json)
        elif algorithms and "," in algorithms:
            two = [name.strip() for name in algorithms.split(",")]
            if len(two) != 2 or len(chosen) != 2:
                raise BadInput(
                    f"--algorithms {algorithms} --kernel {kernels}: two algorithms are compared, each on a kernel that "
                    "has it. Give two of each, such as --algorithms bbr,bbr3 --kernel debian-6.12,bbr3-6.12."
                )
            page = out or Path(f"docs/validation-{two[1]}-beside-{two[0]}.md")
            rows = work or Path(_validation().__file__).parents[1] / "truth"
            _validate_beside((two[0], two[1]), (chosen[0], chosen[1]), cells, minutes, rows, page, as_json)
        else:
            page = out or Path(f"docs/validation-{algorithms or 'sampled'}.md")
            rows = work or Path(_validation().__file__).parents[1] / "truth"
            _validate_sampled(chosen, cells, minutes, rows, page, again, algorithms, as_json)
        return
    if standing:
        raise BadInput("--standing: the comparison is with a kernel in a virtual machine. Add --engine vm.")
    if queues:
        raise BadInput("--queues: the queues are those of a kernel in a virtual machine. Add --engine vm.")
    if work is not None:
        raise BadInput(f"--work {work}: only the runs of --engine vm are kept. Add --engine vm.")
    kernel = _validation("live")
    chosen = [name.strip() for name in algorithms.split(",")] if algorithms is not None else list(kernel.ALGORITHMS)
    if algorithms is not None and not live:
        raise BadInput("--algorithms says what to run live: add --live.")
    for name in chosen:
        if name not in (*kernel.ALGORITHMS, *kernel.OPTIONAL):
            raise BadInput(unknown("algorithm", name, [*kernel.ALGORITHMS, *kernel.OPTIONAL]))
    found = _validation().validate(out or Path("docs/validation.md"), with_ns2=ns2, with_live=chosen if live else ())
    if as_json:
        emit(found)
        return
    for truth in ("linux", "ns2"):
        cases = found[truth]
        missed = [case for case in cases if not all(each["met"] for each in case["judged"])]
        names = ", ".join(dict.fromkeys(case["algorithm"] for case in missed)) or "none"
        say(f"{truth}: {len(cases) - len(missed)} of {len(cases)} within every target; misses: {names}")
    missed = [row["algorithm"] for row in found["live"] if row["misses"]]
    say(
        f"live: {len(found['live']) - len(missed)} of {len(found['live'])} within every target; "
        f"misses: {', '.join(missed) or 'none'}"
    )
    say(f"page: {escape(str(out or 'docs/validation.md'))}")


def _validation(module: str = "") -> Any:
    """The package beside this one in a checkout; no wheel has it, nor the tables that it compares with."""
    folder = Path(__file__).parents[3] / "validation"
    if not (folder / "truth").is_dir():
        raise BadInput(
            "validate compares with tables measured elsewhere, which are not in the wheel. Get the sources of "
            "tailback, say there: make env, and then: .venv/bin/tailback validate"
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return import_module(f"tailback_validation.{module}".rstrip("."))


def _validate_sampled(
    kernels: list[str], cells: int, minutes: float, work: Path, out: Path, again: int, algorithm: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Run missing cells at the lowest priority, then write the page of all stored rows."""
    page = _validation("sampled_page")
    os.nice(19)
    report = (lambda _: None) if as_json else say
    titles = page.study(
        kernels, cells, work, out, report=report, seconds=60 * minutes, again=again, algorithm=algorithm
    )
    if as_json:
        emit({"comparisons": titles, "page": out})
        return
    for title, pair in titles.items():
        share = f"{100 * pair['within_both']:.1f} % within both bounds" if pair["cells"] else "no runs of both yet"
        say(f"{title}: {pair['cells']} cells, {share}")
    is_whole = all(pair["cells"] for pair in titles.values())
    say(f"page: {escape(str(out))}" if is_whole else f"{escape(str(out))} stays as it is")


def _validate_beside(
    algorithms: tuple[str, str], kernels: tuple[str, str], cells: int, minutes: float, work: Path, out: Path,
    as_json: bool,
) -> None:  # fmt: skip
    """Run what is missing at the lowest priority, then write the page of the paths that both have carried."""
    os.nice(19)
    report = (lambda _: None) if as_json else say
    found = _validation("beside").study(algorithms, kernels, cells, work, out, report=report, seconds=60 * minutes)
    if as_json:
        emit(found | {"page": out})
        return
    say(f"{found['cells']} of {cells} paths run with both")
    for row in found["expected"]:
        # Fewer than two paths judge nothing.
        if "kernels" in row:
            say(f"{row['says']}: {TARGET(Verdict.of(row['kernels']))}")
    say(f"page: {escape(str(out))}" if found["cells"] else f"{escape(str(out))} stays as it is")


def _validate_standing(kernels: list[str], minutes: float, work: Path, out: Path, as_json: bool) -> None:
    """Run missing cells at the lowest priority, then write the page of all stored rows."""
    if len(kernels) != 1:
        raise BadInput(f"--kernel {','.join(kernels)}: the standing comparison is with one kernel. Give one.")
    os.nice(19)
    report = (lambda _: None) if as_json else say
    found = _validation("standing").study(kernels[0], work, out, report=report, seconds=60 * minutes)
    if as_json:
        emit(found | {"page": out})
        return
    where = {row["cell"] for row in found["parted"]}
    say(f"{found['cells']} of {found['of']} cells run; {len(where)} part")
    say(f"page: {escape(str(out))}" if found["cells"] else f"{escape(str(out))} stays as it is")


def _validate_queues(kernels: list[str], minutes: float, work: Path, out: Path, as_json: bool) -> None:
    """Run missing cells at the lowest priority, then write the page of all stored rows."""
    queues = _validation("queues")
    if len(kernels) != 1:
        raise BadInput(f"--kernel {','.join(kernels)}: queues are compared with those of one kernel. Give one.")
    find(kernels[0])
    os.nice(19)
    cells = queues.cells()
    announce = (lambda _: None) if as_json else say
    try:
        queues.run_cells(cells, kernels[0], work, announce=announce, seconds=60 * minutes)
    finally:
        rows = queues.compared(work, kernels[0], cells)
        queues.write(rows, kernels[0], out)
    if as_json:
        emit({"cells": rows, "page": out})
        return
    for run in ("sim", "model"):
        say(f"{run}: {sum(row['errors'][run]['within'] for row in rows)} of {len(rows)} cells within both bounds")
    say(f"page: {escape(str(out))}")


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Two scenarios, some seconds.")] = False,
    grid: Annotated[bool, typer.Option("--grid", help="Also time the whole grid of the voip-latency study.")] = False,
    sweep: Annotated[bool, typer.Option("--sweep", help="Only the overhead of a sweep.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure this machine's simulation speed.

    For example `tailback bench --quick --json`; side by side with ns-2 and ns-3: docs/performance.md
    """
    measured = benchmark.run(quick=quick, grid=grid, sweep=sweep, announce=(lambda _: None) if as_json else say)
    if as_json:
        emit(measured)
        return
    rows = [(name, found) for name, found in measured.items() if isinstance(found, dict) and "cpu_s" in found]
    if rows:
        print_rows(
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
            say(f"{name}: {_facts(measured[name])}")


def _facts(value: Any) -> str:
    return ", ".join(f"{key} {brief(item)}" for key, item in value.items()) if isinstance(value, dict) else brief(value)
