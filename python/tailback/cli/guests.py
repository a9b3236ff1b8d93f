"""`tailback vm`: lists, fetches, builds, compares and bisects the kernels of guests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import AsJson, BadInput, emit, print_rows, say
from tailback.files import write_text
from tailback.lazy import lazy

with lazy():
    from tailback import modules, stack_versions, suites
    from tailback.experiment.sweepfile import read_sweep
    from tailback.report import bisected as search
    from tailback.report import regression as pages
    from tailback.vm import build as making
    from tailback.vm import compared, regression
    from tailback.vm import kernels as fetching
    from tailback.vm import tree as trees
    from tailback.vm.kernels import archive, fetched, find

vm = typer.Typer(
    no_args_is_help=True, help="The kernels that `tailback run --engine vm` runs: list, fetch, compare and bisect them."
)
app.add_typer(vm, name="vm")

_WORK = Path("results/kernels")


def _row(kernel: Any) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "release": kernel.release,
        "hz": kernel.hz,
        "package": kernel.package,
        "congestion_controls": " ".join(kernel.controls),
    }


@vm.command()
def kernels(as_json: AsJson = False) -> None:
    """List the kernels on this machine. Those that can be fetched: `tailback vm fetch --list`.

    For example `tailback vm kernels`
    """
    found = fetched()
    here = [_row(kernel) for kernel in found if kernel.lack is None]
    broken = {kernel.name: str(kernel.lack) for kernel in found if kernel.lack is not None}
    if as_json:
        emit({"kernels": here, "broken": broken})
        return
    if here:
        print_rows(here)
    for name, why in broken.items():
        say(escape(f"{name} cannot be run: {why}"))
    say("Debian's others: tailback vm fetch --list")
    say("Any other: --kernel with the path of an image, of an unpacked or built kernel's folder, or of a .deb.")


@vm.command()
def fetch(
    name: Annotated[
        str | None, typer.Argument(help="A series, such as debian-7.3, or a point release, such as debian-7.3.4.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what can be fetched instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download one of Debian's kernels with its package client and unpack it for this user; nothing is installed.

    The host's package sources are not changed: tailback has its own list of suites in the user's cache.

    For example `tailback vm fetch debian-7.3`
    """
    if listed:
        rows = _series(archive().images())
        emit({"kernels": rows}) if as_json else print_rows(rows)
        return
    if name is None:
        raise BadInput("Which kernel? tailback vm fetch debian-7.3, or tailback vm fetch --list for all of them")
    kernel = fetching.fetch(name)
    if as_json:
        emit(_row(kernel))
        return
    say(f"{escape(kernel.name)}: {escape(kernel.build)}")
    say(f"its congestion controls: {' '.join(kernel.controls)}")


@vm.command()
def source(
    name: Annotated[str, typer.Argument(metavar="SOURCE", help="Debian's source of Linux, such as linux-source-7.3.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Files of it, such as net/sched/sch_dualpi2.c.")],
    out: Annotated[Path, typer.Option(help="The folder to write them to.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write files of Linux's source, from Debian's package, to build them as modules.

    The package (some 150 MB) is kept in this user's cache. The files are under Linux's licence, GPL-2.0.

    For example `tailback vm source linux-source-7.3 net/sched/sch_dualpi2.c`
    """
    version, written = trees.source(name, files, out)
    if as_json:
        emit({"version": version, "files": [str(file) for file in written]})
        return
    for file in written:
        say(f"{escape(str(file))}: {file.stat().st_size:,} bytes, of Linux {version}, under the licence it names")


@vm.command()
def build(
    tree: Annotated[Path, typer.Argument(metavar="TREE", help="A clean tree of Linux, such as a git clone.")],
    name: Annotated[
        str | None, typer.Option(help="What --kernel takes; by default tree- and the folder's name.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the kernel of a tree for guests: small, with BTF, beside the fetched ones; does not change the tree.

    A second call compiles only what changed.

    For example `tailback vm build ~/linux`
    """
    _built(trees.build(tree, name=name, say=_announcer(as_json)), as_json)


@vm.command()
def patch(
    series: Annotated[Path, typer.Argument(metavar="SERIES", help="A patch, or a folder of patches.")],
    on: Annotated[str, typer.Option("--on", help="Debian's source of Linux, such as linux-source-6.12.")],
    name: Annotated[str | None, typer.Option(help="What --kernel takes; by default patched- and the version.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build one of Debian's sources of Linux with a series of patches, for guests.

    A folder's file `series` gives the order of its patches; without it they are sorted by name.

    For example `tailback vm patch bbr3.patch --on linux-source-6.12`, the version for which Google's BBRv3 is written
    """
    _built(trees.patch(series, on, name=name, say=_announcer(as_json)), as_json)


@vm.command()
def module(
    source: Annotated[str, typer.Argument(metavar="MODULE", help="Its file or folder, such as tcp_mine.c.")],
    on: Annotated[str, typer.Option("--on", help="A fetched kernel, such as debian-7.3.")],
    name: Annotated[str | None, typer.Option(help="What --kernel takes; by default of both names.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build your congestion control, and make a copy of a kernel that contains it.

    A scenario then names it like one of the kernel's, if its .name is a congestion control of `tailback list
    algorithms`. One with another name runs only as cc = "module:tcp_mine.c". Its code runs only in guests.

    For example `tailback vm module tcp_prague.c --on debian-7.3 --name prague-7.3`
    """
    _built(making.give(f"{modules.PREFIX}{source}", None, find(on, fetched_only=True), called=name), as_json)


def _announcer(as_json: bool) -> Callable[[str], None]:
    return (lambda _: None) if as_json else (lambda text: say(escape(text)))


def _built(kernel: Any, as_json: bool) -> None:
    if as_json:
        emit(_row(kernel))
        return
    say(f"run it: tailback run FILE --engine vm --kernel {escape(kernel.name)}")


def _series(images: Sequence[Any]) -> list[dict[str, Any]]:
    """One row per series of kernels: the version that `fetch` gets by the series' name, and other point releases."""
    found: dict[str, list[Any]] = {}
    for image in images:
        found.setdefault(image.kernel, []).append(image)
    return [
        {
            "name": name,
            "newest": some[-1].point,
            "version": some[-1].version,
            "point_releases": " ".join(dict.fromkeys(image.point for image in some)),
        }
        for name, some in found.items()
    ]


@vm.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="KERNEL", help="A kernel from `tailback vm kernels`.")],
    second: Annotated[str, typer.Argument(metavar="KERNEL", help="The kernel to compare it with.")],
    sweep: Annotated[
        Path | None, typer.Argument(metavar="[SWEEP]", help="A sweep file (docs/sweeps.md): scenarios and seeds.")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(help="Suites instead of a sweep: cubic,aqm, or single scenarios: cubic/fast-convergence."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, help="Seeds per scenario of a suite: random start times.")] = 4,
    since: Annotated[bool, typer.Option(help="For suites: search for the series that introduced each change.")] = True,
    minutes: Annotated[float, typer.Option(min=0.0, help="Start no run after this; the next call continues.")] = float(
        "inf"
    ),
    work: Annotated[Path, typer.Option(help="Folder for the runs.")] = _WORK,
    out: Annotated[
        Path | None, typer.Option(help="Also write a page here (.md); of suites an .html of that name beside it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a grid or suites on two kernels, at the lowest priority, and report what changed, with intervals.

    For suites the page lists changes outside the spread over paired starts, and the first series of kernels with each.

    For example `tailback vm compare debian-6.1 debian-7.3 --suite cubic,slow-start --out page.md`
    """
    if (sweep is None) == (suite is None):
        raise BadInput("Give a sweep file or --suite, one of the two: tailback vm compare A B --suite cubic,aqm")
    for name in (first, second):
        find(name)
    if suite is not None:
        _suites((first, second), suite, seeds, since, minutes, work, out, as_json)
        return
    assert sweep is not None
    grid = read_sweep(sweep)
    if grid.until is not None or len(grid.seeds) < 2:
        raise BadInput(f"{sweep}: a comparison needs a fixed number of seeds, two or more. Write seeds = 3")
    os.nice(19)
    runs, kernels = compared.runs_of(grid), (first, second)
    announce = (lambda _: None) if as_json else say
    try:
        compared.run_grid(runs, kernels, work, announce=announce, seconds=60 * minutes)
    finally:
        found, refused, about = compared.changes(runs, kernels, work)
        if out is not None and found:
            words = ["tailback vm compare", *(Path(name).name for name in kernels), sweep]
            # --minutes limits one call, but the page covers all calls so far.
            words += ["--work", work] if work != _WORK else []
            write_text(out, compared.page(found, refused, about, kernels, " ".join(map(str, [*words, "--out", out]))))
    page = out if found else None
    if as_json:
        emit({"kernels": about, "refused": refused, "changes": [row.to_json() for row in found], "page": page})
        return
    if not found:
        say(escape(f"{compared.NOTHING_YET}" + (f". {out} was not written" if out is not None else "")))
        return
    changed = [row for row in found if row.verdict in ("higher", "lower")]
    say(f"{len(found)} comparisons, {len(changed)} changed")
    if changed:
        print_rows([{"path": row.point, "metric": row.metric, first: f"{row.a.estimate:.4g}",
                     second: f"{row.b.estimate:.4g}", "verdict": row.verdict} for row in changed])  # fmt: skip
    if page is not None:
        say(f"page: {escape(str(page))}")


def _suites(
    kernels: tuple[str, str], suite: str, seeds: int, since: bool, minutes: float, work: Path, out: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Implements `vm compare --suite`."""
    began = time.monotonic()

    def announce(text: object) -> None:
        if not as_json:
            say(escape(str(text)))

    names = [name.strip() for name in suite.split(",") if name.strip()]
    runs, unfit = regression.runs_of(names, range(1, seeds + 1))
    os.nice(19)
    announce(f"{len(runs)} runs on each kernel; what has run is kept in {work}, and the next call goes on")
    done = compared.run_grid(
        runs, kernels, work, announce=announce, seconds=60 * minutes, keep_refusals=True
    )  # fmt: skip
    found = regression.found(runs, unfit, kernels, work)
    if not found.compared:
        if as_json:
            emit(found.to_json() | {"page": None})
        else:
            say(escape(compared.NOTHING_YET))
        return
    are_debians = all(name.startswith("debian-") for name in kernels)
    if since and done and are_debians and found.changed and time.monotonic() - began < 60 * minutes:
        found = regression.since(found, runs, archive().images(), announce)
    words = ["tailback vm compare", *(Path(name).name for name in kernels), "--suite", suite, "--seeds", seeds]
    command = " ".join(map(str, words))
    if out is not None:
        write_text(out, pages.markdown(found, command))
        write_text(out.with_suffix(".html"), pages.html_page(found, command))
    if as_json:
        emit(found.to_json() | {"page": out and str(out)})
        return
    say(f"{found.compared} comparisons, {len(found.changed)} changed, {found.small} more by less than 1 %")
    if found.changed:
        print_rows([{"scenario": row.point.removeprefix("scenario "), "metric": row.metric,
                     kernels[0]: f"{row.a.estimate:.4g}", kernels[1]: f"{row.b.estimate:.4g}",
                     "verdict": row.verdict} for row in found.changed])  # fmt: skip
    if out is not None:
        say(f"page: {escape(str(out))} and {escape(str(out.with_suffix('.html')))}")


@vm.command()
def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A good kernel, commit or patch.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="One that is bad: earlier or later.")],
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario to run on each.")],
    expect: Annotated[
        str, typer.Option(help="Condition that holds on a good kernel, such as `bulk.goodput_mbps > 9`.")
    ],
    tree: Annotated[Path | None, typer.Option(help="Search the commits of this git tree of Linux.")] = None,
    series: Annotated[Path | None, typer.Option(help="Search this series of patches: a file or a folder.")] = None,
    on: Annotated[str | None, typer.Option(help="The source the series is for, such as linux-source-7.3.")] = None,
    allow_code: Annotated[bool, typer.Option("--allow-code", help="Run code that the scenario names.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the first kernel on which a condition fails, by binary search.

    Searched are Debian's point releases (`tailback vm fetch --list`), fetched as they are needed; or the commits of a
    git tree (--tree); or a series of patches (--series, --on), where 0 is the source itself. Kernels that do not build
    or boot are skipped.

    For example `tailback vm bisect debian-6.1 debian-7.3 voip-and-bulk --expect 'bulk.goodput_mbps > 9'`
    """
    if (series is None) != (on is None) or (series is not None and tree is not None):
        raise BadInput("Give --tree TREE, or --series PATCHES with --on linux-source-7.3, or neither")
    question = search.Question(suites.read(scenario), expect, allow_code)
    announce = _announcer(as_json)
    if tree is not None:
        found = search.commits(question, good, bad, tree, announce)
    elif series is not None:
        found = search.patches(question, good, bad, series, str(on), announce)
    else:
        found = search.releases(question, good, bad, announce)
    rows = search.differences(found)
    if as_json:
        emit(found.to_json() | {"differences": rows})
        return
    say(f"first bad kernel: {escape(found.bad.kernel)} ({escape(found.bad.release)})")
    if found.change:
        say(f"changed by: {escape(found.change)}")
    if found.unknown:
        say(f"or one of these, which do not build or boot: {escape(', '.join(found.unknown))}")
    print_rows([{"metric": row["name"], "good": f"{row['good']:.6g}", "bad": f"{row['bad']:.6g}"} for row in rows])
    for sentence in search.sentences(found):
        say(escape(sentence))


@app.command("bisect")
def bisect_stack(
    crate: Annotated[str, typer.Argument(metavar="CRATE", help="A stack's crate: quinn-proto or noq-proto.")],
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A good version.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="One that is bad: earlier or later.")],
    scenario: Annotated[
        Path,
        typer.Argument(metavar="SCENARIO", help="A scenario with a flow called subject, such as transport/jitter."),
    ],
    expect: Annotated[str, typer.Option(help="Condition that holds on a good version, such as `subject.loss <= 10%`.")],
    cc: Annotated[str, typer.Option(help="One of the stack's congestion controls.")],
    versions: Annotated[
        str | None, typer.Option(help="These versions, oldest first and separated by commas, instead of cargo's index.")
    ] = None,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Compile and run these versions of the crate.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the first version of a QUIC stack's crate on which a condition fails, by binary search.

    cargo fetches and compiles each version with the adapter of `tailback-bench`; as many seeds are run as the verdict
    needs. A version that the adapter does not fit, or that stays undecided, is skipped.

    For example `tailback bisect noq-proto 1.4.0 1.1.0 transport/alone --cc bbr3 --expect 'subject.goodput_mbps >= 16'
    --allow-code`
    """
    if not allow_code:
        raise BadInput(f"{crate} is code, which would be compiled and run. Read it first; then allow it: --allow-code")

    def progress(text: str) -> None:
        if not as_json:
            say(escape(text))

    listed = versions.split(",") if versions else None
    attempt = stack_versions.tried_with(crate, suites.read(scenario), cc, expect)
    found = stack_versions.search(crate, good, bad, attempt, progress, known=listed)
    if as_json:
        emit(found.to_json())
        return
    say(escape(f"first bad version: {crate} {found.bad.kernel}"))
    say(escape(f"last good version: {crate} {found.good.kernel}"))
    if found.unknown:
        say(f"or one of these, which were skipped: {', '.join(found.unknown)}")
    say(escape(f"with {found.good.kernel}: {found.good.release}"))
    say(escape(f"with {found.bad.kernel}: {found.bad.release}"))
