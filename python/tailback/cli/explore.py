"""`tailback explore`: the simulator in a web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import BadInput, say
from tailback.lazy import lazy

with lazy():
    import webbrowser

    from tailback.explorer import Server, opened


@app.command()
def explore(
    what: Annotated[
        Path | None,
        typer.Argument(metavar="[SCENARIO|RESULT]", help="A scenario file, or a result folder.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on the loopback address; 0 picks a free one.")] = 0,
    hosted: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar="TAILBACK_EXPLORER", help="Address of a public explorer, for links copied by Share."
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
) -> None:
    """Explore a scenario, or the rows of a stored result, in a web page.

    The simulator runs in the page, which only this machine can open. Ctrl-C ends it.

    - `tailback explore`

    - `tailback explore scenarios/voip-and-bulk.toml`

    - `tailback explore results/seven --no-browser --port 8000`

    - `tailback explore --hosted https://example.org/explorer/`
    """
    if hosted is not None and not hosted.startswith(("https://", "http://")):
        raise BadInput(f"--hosted {hosted}: this is no address of a page. Give one that begins with https://")
    shown = None if what is None else opened(what)
    try:
        server = Server(shown, port=port, hosted=hosted)
    except OSError as error:
        raise BadInput(f"--port {port}: {error.strerror}. Give another, or 0 for a free one") from None
    try:
        say(f"explore at [bold]{escape(server.url)}[/bold]   end with Ctrl-C")
        if not no_browser:
            webbrowser.open(server.url)
        server.serve()
    except KeyboardInterrupt:
        say("ended")
