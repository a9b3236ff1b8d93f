"""Commands that list every name for scenarios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback import presets
from tailback.cli._app import app
from tailback.cli._common import (
    AsJson,
    BadInput,
    console,
    emit,
    print_rows,
    unknown,
)
from tailback.cli.cards import print_cards
from tailback.lazy import lazy
from tailback.scenario import parts

with lazy():
    from tailback import _core, suites


class _Shown(StrEnum):
    ALGORITHMS = "algorithms"
    STACKS = "stacks"
    LINKS = "links"
    PRESETS = "presets"
    QUEUES = "queues"
    APPS = "apps"
    METRICS = "metrics"
    SUITES = "suites"
    TRANSPORTS = "transports"
    CONTROLLERS = "controllers"


@app.command()
def algorithms(as_json: AsJson = False) -> None:
    """List the congestion controls with the source of each.

    For example `tailback algorithms --json`
    """
    _list(_Shown.ALGORITHMS, as_json)


@app.command("list")
def list_(
    what: Annotated[_Shown, typer.Argument(help="What to list.")],
    names: Annotated[list[str] | None, typer.Argument(help="Only these entries.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List available names, with parameters (default, unit, range) and the source of each.

    For example:

    - `tailback list stacks`

    - `tailback list queues codel pie`

    - `tailback list links --json`
    """
    _list(what, as_json, names or [])


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files, for completion and checks in editors.

    For example `tailback schema > scenario.schema.json`
    """
    print(json.dumps(parts.schema()["json_schema"], indent=2, ensure_ascii=False))


def _list(what: _Shown, as_json: bool, names: Sequence[str] = ()) -> None:
    rows = _rows(what)
    known = [row["name"] for row in rows]
    for name in names:
        if name not in known:
            raise BadInput(unknown(f"entry among the {what.value} called", name, known))
    rows = [row for row in rows if not names or row["name"] in names]
    if as_json:
        emit({what.value: rows})
    elif what is _Shown.STACKS:
        print_rows([{"name": row["name"], "title": row["title"]} for row in rows])
        for row in rows:
            console().print(f"\n[bold]{escape(row['name'])}[/bold]")
            print_rows(row["fields"])
    elif what is _Shown.TRANSPORTS:
        print_rows([row | {"algorithms": ", ".join(row["algorithms"])} for row in rows])
    elif what is _Shown.CONTROLLERS:
        print_rows(rows)
    elif what is _Shown.METRICS:
        print_cards(rows, extra=("unit", "formula", "definition", "window", "over_seeds", "better"))
    elif what is _Shown.PRESETS:
        print_cards(rows, parameters="options", extra=("reported",))
    elif what is _Shown.SUITES:
        print_cards(rows, extra=("judges", "replaces", "scenarios", "controls", "time"))
    else:
        print_cards(rows)


def _rows(what: _Shown) -> list[dict[str, Any]]:
    """The entries as plain values."""
    if what is _Shown.METRICS:
        infos = import_module("tailback.metrics").catalogue()
        cards = [vars(info) | {"definition": info.definition} for info in infos]
        return [{key: value for key, value in card.items() if key != "function"} for card in cards]
    if what is _Shown.PRESETS:
        return [
            {key: getattr(card, key) for key in ("name", "title", "source", "reported")}
            | {"options": [vars(option) for option in card.options]}
            for card in presets.CARDS
        ]
    if what is _Shown.SUITES:
        return [
            {
                "name": each.name,
                "title": each.title,
                "judges": each.judges,
                "replaces": each.replaces,
                "scenarios": len(each.scenarios),
                "controls": len(each.controls),
                "time": None if each.seconds is None else f"{each.seconds:g} s on two cores",
                "source": "; ".join(each.source),
            }
            for each in map(suites.find, suites.names())
        ]

    # The list for a link's `medium` has another name in the registry.
    rows: list[dict[str, Any]] = json.loads(_core.registry())["media" if what is _Shown.LINKS else what.value]
    return rows
