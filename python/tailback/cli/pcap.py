"""`tailback pcap …`: captures out of results, and captures in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import AsJson, ResultFolder, beside, emit, print_rows, say

pcap = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Packet captures: write a run's, and measure anyone's. See docs/captures.md.",
)
app.add_typer(pcap, name="pcap")


@pcap.command("export")
def export(
    result: ResultFolder,
    point: Annotated[
        list[str] | None, typer.Option(help="Only this point; may be repeated. Otherwise all that were captured.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to, instead of RESULT-pcap.")] = None,
    snap: Annotated[int, typer.Option(min=0, help="Bytes kept of each frame; 0 keeps all.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write a result's captured packets as pcapng, one file a point.

    The scenario names the points: `[instruments] captures = ["left", "bottleneck.out"]`.

    - `tailback pcap export results/seven`

    - `tailback pcap export results/seven --point bottleneck.out --snap 96`
    """
    from tailback.capture import export_all
    from tailback.result import open_result

    written = export_all(open_result(result), out or beside(result, "-pcap"), only=point or (), snap=snap)
    if as_json:
        emit({"files": [{"path": path, "packets": count} for path, count in written.items()]})
        return
    print_rows([{"packets": count, "file": str(path)} for path, count in written.items()])
    say(f"look with: wireshark {escape(str(next(iter(written))))}")
