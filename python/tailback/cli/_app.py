"""The Typer application, to which the other modules add their commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.core

from tailback.cli._common import Stopped
from tailback.errors import Interrupted


class _Group(typer.core.TyperGroup):
    """The command group; passes Ctrl-C on."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            kept = str(error) if isinstance(error, Interrupted) else "interrupted: earlier results are untouched"
            raise Stopped(kept) from None


app = typer.Typer(
    name="tailback",
    cls=_Group,
    invoke_without_command=True,
    add_completion=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "What TCP congestion control does to throughput, to queues, and to the people who share them.\n\n"
        "Start with `tailback init`, then `tailback run scenario.toml`; `tailback study --list` shows the studies."
    ),
)


def _version(shown: bool) -> None:
    if shown:
        import tailback

        print(f"tailback {tailback.__version__}")
        raise typer.Exit


_FIRST_HOUR = """\
What TCP congestion control does to everyone who shares a link. A first hour:

  tailback init                                         write a commented scenario
  tailback run scenario.toml --out results/first        run it, show who gains and who suffers, save the result
  tailback explain results/first                        what explains delay, loss and shares
  tailback report results/first                         every figure in one HTML file
  tailback compare scenario.toml --cc cubic --cc bbr    two algorithms, seed by seed

All commands: tailback --help
"""


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(_FIRST_HOUR, end="")
