"""Input of commands: scenario files with changes from the command line, and the user's own algorithms."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tailback import examples
from tailback.algorithms import load
from tailback.cli._common import BadInput
from tailback.lazy import lazy
from tailback.scenario import Scenario

with lazy():
    from tailback import suites

__all__ = ["AllowCode", "EngineName", "Kept", "Kernel", "Own", "Set", "labels_of", "own", "read_scenario", "setting"]

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value: `--set flow.bulk.cc=htcp`. May be repeated."),
]


Own = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        metavar="NAME=PLACE",
        help="A congestion control of your own, whose file is run: `--algorithm mine=mine.py:Mine`. May be repeated.",
    ),
]


AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Allow running named classes, BPF sources, crates and programs. Read them first; see docs/security.md.",
    ),
]


EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="The engine: sim, vm (a guest, 5 to 60 s per run) or live. Default: the first that has the candidate; a "
        "kernel module and a program run in vm.",
    ),
]


Kernel = Annotated[
    str | None,
    typer.Option("--kernel", help="The guest's kernel, from `tailback vm kernels`. Default: the first by name."),
]


Kept = Annotated[
    Path, typer.Option("--store", help="Folder for runs on a kernel, from which the same command continues.")
]


def setting(text: str) -> tuple[str, Any]:
    """Parse `path=value`; the value is TOML if it parses as TOML, else text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise BadInput(f'--set {text}: this is no setting. Write a path and a value: --set dumbbell.rate="1mbit"')
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value.strip()


def own(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse `name=place:Class` for each algorithm."""
    named: dict[str, Any] = {}
    for text in texts or ():
        name, equals, place = text.partition("=")
        if not equals or not name.strip():
            raise BadInput(f"--algorithm {text}: write a name and a place: --algorithm mine=path/to/file.py:Class")
        named[name.strip()] = load(place.strip())
    return named


def read_scenario(file: Path, settings: Sequence[str] | None, seed: int | None) -> Any:
    """A scenario file with the command line's changes; its name is the file's unless it has one."""
    changes = dict(setting(text) for text in settings or ())
    if seed is not None:
        changes["seed"] = seed
    place = examples.located(file)
    # It may be a suite's; importing `suites` takes longer than a run, so do it only here.
    scenario = Scenario.from_toml(place) if place.exists() else suites.read(file)
    if not scenario.name:
        changes.setdefault("name", file.stem)
    if not changes:
        return scenario
    changed = scenario.with_(changes)
    # Keep the file's text: the command line has the changes.
    return changed._keep(changed._file, changed._places, changed._given, scenario._text)


def labels_of(folders: Sequence[Path]) -> list[str]:
    """Labels of results in tables and figures: their folders, with as much of the path as distinguishes them."""
    parts = [folder.resolve().parts for folder in folders]
    longest = max(len(part) for part in parts)
    for depth in range(1, longest + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    resolved = [folder.resolve() for folder in folders]
    doubled = next(folder for folder, place in zip(folders, resolved, strict=True) if resolved.count(place) > 1)
    raise BadInput(f"{doubled}: this result is given twice")
