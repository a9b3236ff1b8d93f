"""The papers' networks as presets: links, queues and competing flows under one name.

A scenario uses one with `[path]` and `preset = "adsl1"`, or in Python:

>>> import tailback as tb
>>> scenario = tb.presets.scenario("adsl1", flows=[tb.bulk("cubic")], duration="10s")
>>> scenario.link_names
['internet', 'down', 'up', 'internet-back']

Flows run from `left` to `right` unless they say otherwise: from the server to the user. Numbers are those of the
papers where they print them; the rest is marked "chosen" and explained in docs/links/. The networks themselves are in
`crates/tailback-scenario/src/presets.rs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tailback.scenario import Flow, Instruments, Randomness, Scenario
from tailback.scenario.parts import schema

__all__ = ["CARDS", "Option", "PresetCard", "names", "scenario"]


@dataclass(frozen=True)
class Option:
    """An option of a preset."""

    name: str
    default: bool | int | float | str
    doc: str


@dataclass(frozen=True)
class PresetCard:
    """A network: its source, what the paper measured there, and its options."""

    name: str
    title: str
    #: Paper and section.
    source: str
    #: What the paper reports of it.
    reported: str
    options: tuple[Option, ...]


CARDS: tuple[PresetCard, ...] = tuple(
    PresetCard(**row | {"options": tuple(Option(**option) for option in row["options"])}) for row in schema()["presets"]
)


def names() -> list[str]:
    """The presets' names."""
    return [card.name for card in CARDS]


def scenario(
    preset: str,
    *,
    flows: Iterable[Flow],
    duration: str,
    seed: int = 1,
    name: str = "",
    randomness: Randomness | Mapping[str, Any] | None = None,
    instruments: Instruments | Mapping[str, Any] | None = None,
    **options: bool | int | float | str,
) -> Scenario:
    """A scenario on the network called `preset`; `options` are the preset's. Raises `ScenarioError`."""
    rest = {"randomness": randomness, "instruments": instruments}
    given = {key: value for key, value in rest.items() if value is not None}
    made = Scenario(
        name=name, seed=seed, duration=duration, path={"preset": preset} | options, flows=tuple(flows), **given
    )
    made.expanded  # noqa: B018  what is wrong with the options is said here
    return made
