"""What commands read: scenario files with what the command line changes in them, and algorithms of the user's own."""

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
        help="Run the classes, BPF sources, crates and programs that are named. Read them first; see docs/security.md.",
    ),
]


EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="What runs it: sim, vm (a guest, 5 to 20 s a run) or live. Default: the first that has the candidate; a "
        "kernel module and a program run in vm.",
    ),
]


Kernel = Annotated[
    str | None,
    typer.Option("--kernel", help="The guest's kernel, of `tailback vm kernels`. Default: the first one fetched."),
]


Kept = Annotated[
    Path, typer.Option("--store", help="Where runs on a kernel are kept, so that the same command goes on from there.")
]


def setting(text: str) -> tuple[str, Any]:
    """`path=value`; the value is TOML if it can be, else text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise BadInput(f'--set {text}: this is no setting. Write a path and a value: --set dumbbell.rate="1mbit"')
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value.strip()


def own(texts: Sequence[str] | None) -> dict[str, Any]:
    """`name=place:Class`, each."""
    named: dict[str, Any] = {}
    for text in texts or ():
        name, equals, place = text.partition("=")
        if not equals or not name.strip():
            raise BadInput(f"--algorithm {text}: write a name and a place: --algorithm mine=path/to/file.py:Class")
        named[name.strip()] = load(place.strip())
    return named


def read_scenario(file: Path, settings: Sequence[str] | None, seed: int | None) -> Any:
    """A scenario file with what the command line changes in it; its name is the file's unless it has one."""
    changes = dict(setting(text) for text in settings or ())
    if seed is not None:
        changes["seed"] = seed
    place = examples.located(file)
    # It may be a suite's; what reads those takes longer to load than a run.
    scenario = Scenario.from_toml(place) if place.exists() else suites.read(file)
    if not scenario.name:
        changes.setdefault("name", file.stem)
    if not changes:
        return scenario
    changed = scenario.with_(changes)
    # What the file says stays known: the command says the rest.
    return changed._keep(changed._file, changed._places, changed._given, scenario._text)


def labels_of(folders: Sequence[Path]) -> list[str]:
    """What results are called in tables and figures: their folders, with as much of the path as distinguishes them."""
    parts = [folder.resolve().parts for folder in folders]
    longest = max(len(part) for part in parts)
    for depth in range(1, longest + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    resolved = [folder.resolve() for folder in folders]
    doubled = next(folder for folder, place in zip(folders, resolved, strict=True) if resolved.count(place) > 1)
    raise BadInput(f"{doubled}: this result is given twice")
