"""The kernels of `--engine vm`: list and fetch them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import AsJson, emit, print_rows, say

vm = typer.Typer(no_args_is_help=True, help="The kernels that `tailback run --engine vm` runs: list and fetch them.")
app.add_typer(vm, name="vm")


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

    here = [_row(kernel) for kernel in fetched()]
    missing = sorted(set(FETCHABLE) - {row["name"] for row in here})
    if as_json:
        emit({"kernels": here, "fetchable": missing})
        return
    if here:
        print_rows(here)
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
