"""What the parts of resolving share: the problems found, where each place was written, names and their parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from tailback import registry
from tailback._toml import look_up
from tailback.algorithms import Factory, factories, is_reference, referenced
from tailback.errors import Problem, TailbackError, UnitError, nearest
from tailback.scenario import Scenario
from tailback.scenario._fields import ParamValue
from tailback.units import to_unit

_Row = TypeVar("_Row", registry.Card, registry.Stack)
_UNITS = ("ps", "ns", "us", "ms", "s", "bytes", "B", "packets", "segments", "bps", "hz")


class Ledger:
    """A scenario on its way to the engine's form: what is wrong with it, and where each thing in it was said."""

    def __init__(self, scenario: Scenario, own: Mapping[str, Factory] | None, allow_code: bool = False) -> None:
        self.scenario = scenario
        self.allow_code = allow_code
        self.problems: list[Problem] = []
        #: Where a path of the engine's form was written in the scenario.
        self.places: dict[str, str] = {"duration_ps": "duration"}
        self.known = registry.load()
        self.own = own
        #: Those of `own`, and of other modules, that the scenario names.
        self.factories: dict[str, Factory] = {}

    @cached_property
    def told(self) -> dict[str, Any]:
        """The scenario as TOML would hold it."""
        return self.scenario.to_dict()

    def problem(self, place: str, problem: str, fix: str, value: Any = None) -> None:
        """Note what is wrong at a place of the scenario, beside the value that stands there."""
        if value is None:
            value = look_up(self.told, place)
        self.problems.append(Problem(place, value, problem, fix.rstrip(".") + "."))

    def translate(self, path: str, value: str, problem: str, fix: str) -> Problem:
        """What the engine says of `path`, a place in its own form, said of the scenario's."""
        head, rest = path, ""
        while head and head not in self.places:
            cut = max(head.rfind("."), head.rfind("["), 0)
            head, rest = head[:cut], head[cut:] + rest
        place = self.places.get(head, "") + rest if head else path
        place = re.sub(r"_(ps|bps)$", "", place).lstrip(".")
        if look_up(self.told, place) is None and look_up(self.told, place.rpartition(".")[0]) is not None:
            # `queue = "1bdp"` has no limit_bytes below it.
            short = look_up(self.told, place.rpartition(".")[0])
            place = place.rpartition(".")[0] if isinstance(short, str) else place
        written = look_up(self.told, place)
        return Problem(place, value if written is None else written, problem, fix.rstrip(".") + ".")

    # -- names and parameters

    def is_own(self, name: str, place: str) -> bool:
        """Is it the user's own algorithm? Then the engine will be handed its factory, if code is allowed."""
        registered = self.own if self.own is not None else factories()
        if name not in registered and not is_reference(name):
            return False
        if self.own is None:
            self.problem(
                place,
                "this is an algorithm of your own, and a kept result could not tell when its code changes",
                "Run it with tailback.run, run_each or run_many, not in a sweep",
                value=name,
            )
            return True
        if name not in registered and not self.allow_code:
            # Described, not imported: the file may be a stranger's.
            return True
        try:
            self.factories[name] = registered[name] if name in registered else referenced(name)
        except TailbackError as error:
            self.problem(place, str(error).rstrip("."), "Mend it, or name another", value=name)
        return True

    def card(self, name: str, rows: Sequence[_Row], place: str, what: str, listed: str) -> _Row | None:
        """The row of that name; an unknown name is a problem, with the nearest one as its fix."""
        for row in rows:
            if row.name == name:
                return row
        fix = choices(name, [row.name for row in rows]) + f" (`tailback list {listed}`)"
        self.problem(place, f"there is no {what} called {name}", fix, value=name)
        return None

    def param(self, card: registry.Card, key: str, value: ParamValue, place: str, out: dict[str, ParamValue]) -> None:
        """Put a parameter into `out` under its full name, as the number that the engine takes."""
        names = [param.name for param in card.params]
        name = match(key, names)
        spec = card.param(name) if name is not None else None
        if name is None or spec is None:
            fix = choices(key, names) if names else "It has no parameters: remove it"
            self.problem(place, f"{card.name} has no parameter {key}", fix, value=value)
            return
        try:
            out[name] = value if spec.choices or spec.is_text else plain_number(value, spec.unit)
        except UnitError as error:
            self.problem(place, error.problem, error.fix, value=value)


def choices(name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    hint = f'Did you mean "{close}"? ' if close else ""
    shown = ", ".join(known[:40])
    return f"{hint}There are: {shown}" if known else f"{hint}There are none"


def match(key: str, names: Sequence[str]) -> str | None:
    """The parameter that `key` means: its name with or without the unit at its end."""
    if key in names:
        return key
    stem = key.removesuffix("_size")
    for name in names:
        if any(name == f"{start}_{unit}" for start in (key, stem) for unit in _UNITS):
            return name
    return None


def plain_number(value: ParamValue, unit: str) -> ParamValue:
    """A text that is a quantity as the number the engine takes; other values as they are."""
    if isinstance(value, str) and re.match(r"\s*[+-]?\.?\d", value):
        return to_unit(value, unit)
    return value


def stack_number(value: ParamValue) -> ParamValue:
    """As `plain_number` for a field of a stack: times in milliseconds, sizes in bytes."""
    if not isinstance(value, str) or not re.match(r"\s*[+-]?\.?\d", value):
        return value
    return to_unit(value, "B" if re.search(r"[Bb](ytes?)?\s*$", value) else "ms")


def application(name: str) -> registry.Card | None:
    return next((card for card in registry.load().apps if card.name == name), None)


def sends_datagrams(name: str) -> bool:
    """Does it, by the registry? An unknown one is taken for TCP; its name is complained of elsewhere."""
    app = application(name)
    return app is not None and app.transport == "udp"
