"""The kernels of `--engine vm`: list, fetch and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import AsJson, BadInput, emit, print_rows, say

vm = typer.Typer(
    no_args_is_help=True, help="The kernels that `tailback run --engine vm` runs: list, fetch and compare them."
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
    """List the kernels that are here, and those that can be fetched.

    For example `tailback vm kernels`
    """
    from tailback.vm.kernels import FETCHABLE, fetched

    found = fetched()
    here = [_row(kernel) for kernel in found if kernel.lack is None]
    broken = {kernel.name: str(kernel.lack) for kernel in found if kernel.lack is not None}
    missing = sorted(set(FETCHABLE) - {row["name"] for row in here} - set(broken))
    if as_json:
        emit({"kernels": here, "broken": broken, "fetchable": missing})
        return
    if here:
        print_rows(here)
    for name, why in broken.items():
        say(escape(f"{name} cannot be run: {why}"))
    for name in missing:
        say(f"not here yet: tailback vm fetch {name}")
    say("Any other: --kernel with the path of its image, with its modules and configuration where packages put them.")


@vm.command()
def fetch(name: Annotated[str, typer.Argument(help="debian-6.1 or debian-6.12.")], as_json: AsJson = False) -> None:
    """Download a kernel by the distribution's package client and unpack it for this user; nothing is installed.

    For example `tailback vm fetch debian-6.1`
    """
    from tailback.vm import kernels

    kernel = kernels.fetch(name)
    if as_json:
        emit(_row(kernel))
        return
    say(f"{escape(kernel.name)}: {escape(kernel.build)}")
    say(f"its congestion controls: {' '.join(kernel.controls)}")


@vm.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="KERNEL", help="A kernel, as of `tailback vm kernels`.")],
    second: Annotated[str, typer.Argument(metavar="KERNEL", help="The one to compare with it.")],
    sweep: Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep file (docs/sweeps.md): scenarios and seeds.")],
    minutes: Annotated[float, typer.Option(min=0.0, help="Begin no run after this; the next call goes on.")] = float(
        "inf"
    ),
    work: Annotated[Path, typer.Option(help="Where runs are kept.")] = _WORK,
    out: Annotated[Path | None, typer.Option(help="Also write a page (.md) here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run one grid on two kernels at the lowest priority, and tell what changed, with 95 % intervals over the seeds.

    For example `tailback vm compare debian-6.1 debian-6.12 validation/kernels.toml --minutes 60 --out docs/kernels.md`
    """
    import os

    from tailback.experiment.sweepfile import read_sweep
    from tailback.files import write_text
    from tailback.vm import compared
    from tailback.vm.kernels import find

    for name in (first, second):
        find(name)
    grid = read_sweep(sweep)
    if grid.until is not None or len(grid.seeds) < 2:
        raise BadInput(f"{sweep}: a comparison needs a fixed number of seeds, two or more. Write seeds = 3")
    os.nice(19)
    runs, kernels = compared.runs_of(grid), (first, second)
    told = (lambda _: None) if as_json else say
    try:
        compared.run_grid(runs, kernels, work, told=told, seconds=60 * minutes)
    finally:
        found, refused, about = compared.changes(runs, kernels, work)
        if out is not None and found:
            words = ["tailback vm compare", *(Path(name).name for name in kernels), sweep]
            # --minutes bounds one call, and the page is of all calls so far.
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
