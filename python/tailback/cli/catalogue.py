"""Every name a scenario may use."""

from __future__ import annotations

import json
from enum import StrEnum
from importlib import import_module
from typing import Annotated

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import (
    AsJson,
    console,
    emit,
    print_rows,
)


class _Shown(StrEnum):
    ALGORITHMS = "algorithms"
    STACKS = "stacks"
    LINKS = "links"
    PRESETS = "presets"
    QUEUES = "queues"
    APPS = "apps"
    METRICS = "metrics"


@app.command()
def algorithms(as_json: AsJson = False) -> None:
    """List the congestion controls with the source of each."""
    _list(_Shown.ALGORITHMS, as_json)


@app.command("list")
def list_(
    what: Annotated[_Shown, typer.Argument(help="What to list.")],
    as_json: AsJson = False,
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
            emit({"metrics": rows})
        else:
            print_rows(rows)
        return
    if what is _Shown.PRESETS:
        from tailback import presets

        cards = [
            {key: getattr(card, key) for key in ("name", "title", "source", "reported")}
            | {"options": [vars(option) for option in card.options]}
            for card in presets.CARDS
        ]
        if as_json:
            emit({"presets": cards})
        else:
            print_rows([card | {"options": ", ".join(o["name"] for o in card["options"])} for card in cards])
        return
    from tailback import _core

    # A scenario's link names a medium; the registry calls the list by what is in it.
    entries = json.loads(_core.registry())["media" if what is _Shown.LINKS else what.value]
    if as_json:
        emit({what.value: entries})
    elif what is _Shown.STACKS:
        print_rows([{"name": row["name"], "title": row["title"]} for row in entries])
        for row in entries:
            console().print(f"\n[bold]{escape(row['name'])}[/bold]")
            print_rows(row["fields"])
    else:
        keys = ("name", "title", "law", "source")
        rows = [
            {key: row.get(key, "") for key in keys} | {"parameters": ", ".join(p["name"] for p in row["params"])}
            for row in entries
        ]
        print_rows(rows)
