"""The engine's registry by name: congestion controls, queue disciplines, stacks, applications, media.

>>> from tailback import registry
>>> "cubic" in registry.names("algorithms")
True
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tailback import _core
from tailback.errors import TailbackError, nearest

__all__ = ["Card", "Field", "Param", "Registry", "Stack", "Transport", "application", "card", "load", "names"]

#: The five lists.
Kind = Literal["algorithms", "queues", "stacks", "apps", "media"]
KINDS: tuple[Kind, ...] = ("algorithms", "queues", "stacks", "apps", "media")


@dataclass(frozen=True)
class Param:
    """A parameter of an algorithm, queue discipline or application."""

    #: Key in a scenario.
    name: str
    #: Unit of a plain number, and of `default`, `min` and `max`; empty for ratios, counts, switches and names.
    unit: str
    #: Default value; `None` if another parameter determines it.
    default: bool | float | str | None
    #: Smallest value allowed; `None` if it is not a number.
    min: float | None
    #: Largest value allowed; `None` if it is not a number.
    max: float | None
    #: Allowed names of a choice; else empty.
    choices: tuple[str, ...]
    #: Meaning, in one sentence.
    doc: str
    #: How another parameter determines the default; None if none does.
    depends: str | None = None
    #: "time", "rate", "size", "share", "count", "number", "flag", "choice" or "text".
    kind: str = "number"
    #: Key of its value in a resolved scenario, where times are in picoseconds.
    key: str = ""


@dataclass(frozen=True)
class Card:
    """An algorithm, queue discipline or application: its law, and the source of the law."""

    name: str
    title: str
    #: The law in one line.
    law: str
    #: Paper, RFC or kernel, with section.
    source: str
    #: Its counterpart on a live machine.
    live_twin: str | None
    #: How the model differs from its source.
    differs: tuple[str, ...]
    params: tuple[Param, ...]
    #: Transport of an application: "tcp" or "udp".
    transport: str | None = None
    #: The table in which an application records rows: "requests" or "echoes".
    rows: str | None = None
    #: Why an ACK costs an algorithm more than three times NewReno's; empty if it does not.
    cost: str = ""
    #: Kind of an application's datagrams: "voice", whose quality can be rated, "echo", or "updates" of a game.
    datagrams: str | None = None
    #: Whether links send their packets through the application's connection.
    carries_packets: bool = False
    #: Whether the application runs the machine's programs, which needs a kernel.
    runs_programs: bool = False
    #: Whether its requests are for segments of a film.
    plays_film: bool = False
    #: Whether its requests are for objects of web pages.
    loads_pages: bool = False
    #: Whether a queue discipline holds packets back although the link is free.
    is_shaper: bool = False
    #: What a discipline isolates: "flows", "hosts", or nothing.
    isolates: str = ""
    #: Whether a discipline drops at the head: the packet that has waited longest.
    drops_at_head: bool = False
    #: Use of a medium: "private" to one direction; "shared" by contending stations; "carried", packets inside another
    #: flow's connection.
    use: str | None = None

    def param(self, name: str) -> Param | None:
        """The parameter called `name`."""
        return next((param for param in self.params if param.name == name), None)


@dataclass(frozen=True)
class Field:
    """One field of a stack profile, with its source."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True)
class Stack:
    """An operating system's TCP: a profile for the common sender and receiver."""

    name: str
    title: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Transport:
    """Another project's complete transport, as published."""

    name: str
    #: Its congestion controls; the first is its default.
    algorithms: tuple[str, ...]
    #: Of the crate.
    version: str


@dataclass(frozen=True)
class Registry:
    """Everything that the engine can name."""

    algorithms: tuple[Card, ...]
    queues: tuple[Card, ...]
    stacks: tuple[Stack, ...]
    apps: tuple[Card, ...]
    media: tuple[Card, ...] = ()
    #: Congestion controllers of other stacks, without the stack, by their names for `cc`.
    controllers: tuple[str, ...] = ()
    #: Transports that can replace a flow's TCP.
    transports: tuple[Transport, ...] = ()
    #: Kernel queues by the kernel's name, each with the model whose parameters it takes.
    kernel_queues: Mapping[str, str] = field(default_factory=dict)

    def names(self, kind: Kind) -> list[str]:
        """The names of one list, in the registry's order."""
        rows: tuple[Card | Stack, ...] = getattr(self, kind)
        return [row.name for row in rows]


def _card(row: dict[str, Any]) -> Card:
    params = tuple(
        Param(
            name=p["name"],
            unit=p.get("unit") or "",
            default=p.get("default"),
            min=p.get("min"),
            max=p.get("max"),
            choices=tuple(p.get("choices") or ()),
            doc=p.get("doc") or "",
            depends=p.get("depends"),
            kind=p["kind"],
            key=p["key"],
        )
        for p in row.get("params", ())
    )
    return Card(
        name=row["name"],
        title=row.get("title", row["name"]),
        law=row.get("law", ""),
        source=row.get("source", ""),
        live_twin=row.get("live_twin"),
        differs=tuple(row.get("differs") or ()),
        params=params,
        transport=row.get("transport"),
        rows=row.get("rows"),
        cost=row.get("cost") or "",
        datagrams=row.get("datagrams"),
        carries_packets=bool(row.get("carries_packets")),
        runs_programs=bool(row.get("runs_programs")),
        plays_film=bool(row.get("plays_film")),
        loads_pages=bool(row.get("loads_pages")),
        is_shaper=bool(row.get("is_shaper")),
        isolates=row.get("isolates") or "",
        drops_at_head=bool(row.get("drops_at_head")),
        use=row.get("use"),
    )


@functools.cache
def load() -> Registry:
    """The engine's registry, read once."""
    raw = json.loads(_core.registry())
    return Registry(
        algorithms=tuple(_card(row) for row in raw["algorithms"]),
        queues=tuple(_card(row) for row in raw["queues"]),
        stacks=tuple(
            Stack(row["name"], row["title"], tuple(Field(f["name"], f["value"], f["source"]) for f in row["fields"]))
            for row in raw["stacks"]
        ),
        apps=tuple(_card(row) for row in raw["apps"]),
        media=tuple(_card(row) for row in raw.get("media", ())),
        kernel_queues=dict(raw.get("kernel_queues", {})),
        controllers=tuple(row["name"] for row in raw["controllers"]),
        transports=tuple(Transport(row["name"], tuple(row["algorithms"]), row["version"]) for row in raw["transports"]),
    )


def names(kind: Kind) -> list[str]:
    """The names of one list: "algorithms", "queues", "stacks", "apps" or "media"."""
    return load().names(kind)


def application(flow: Mapping[str, Any]) -> Card:
    """The card of a resolved flow's application; an empty card if this version does not have it."""
    name = flow["app"]["kind"]
    known = (row for row in load().apps if row.name == name)
    return next(known, Card(name, name, law="", source="", live_twin=None, differs=(), params=()))


def in_units(queue: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """A queue's resolved parameters, in the names and units of their registry rows.

    >>> in_units("codel", {"target_ps": 2_500_000_000, "ecn": True})
    {'target': 2.5, 'ecn': True}
    """
    rows = {param.key: param for row in load().queues if row.name == queue for param in row.params}
    named = ((rows.get(key), key, value) for key, value in params.items())
    return {
        row.name if row else key: value / _PS[row.unit] if row and row.kind == "time" else value
        for row, key, value in named
    }


#: Picoseconds per unit of the rows.
_PS = {"ms": 10**9, "s": 10**12}


def card(kind: Literal["algorithms", "queues", "apps", "media"], name: str) -> Card:
    """The card of one entry; `TailbackError`, with the nearest name, if it does not exist."""
    rows: tuple[Card, ...] = getattr(load(), kind)
    for row in rows:
        if row.name == name:
            return row
    close = nearest(name, [row.name for row in rows])
    hint = f' Did you mean "{close}"?' if close else ""
    raise TailbackError(f'there is no "{name}" among the {kind}.{hint} There are: {", ".join(names(kind))}')
