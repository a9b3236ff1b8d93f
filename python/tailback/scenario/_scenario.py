"""The whole scenario: reading, varying, resolving and writing it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
)

from tailback import _toml
from tailback.errors import Problem, ScenarioError
from tailback.scenario._base import Part, plain_value
from tailback.scenario._fields import (
    NameText,
    Seed,
    SpanAboveZero,
    Text,
)
from tailback.scenario._flow import Flow, Instruments, Randomness
from tailback.scenario._path import (
    Dumbbell,
    Link,
    OptionalPreset,
)
from tailback.scenario._problems import problems

_TABLES = ("path", "dumbbell", "link", "flow", "randomness", "instruments")


class Scenario(Part):
    """One experiment. Either a `dumbbell` or `links` describes the path; `flows` say who uses it.

    Frozen; `with_` makes variations. Text with units is accepted wherever a quantity is expected. Raises
    `ScenarioError`, which lists everything wrong with field, value and fix.

    >>> import tailback as tb
    >>> scenario = tb.Scenario(
    ...     duration="60s", dumbbell={"rate": "10mbit", "rtt": "80ms"}, flows=[tb.bulk("cubic"), tb.voip()]
    ... )
    >>> scenario.resolve()["links"][0]["queue"]["params"]
    {'limit_bytes': 100000}
    """

    if TYPE_CHECKING:  # Text with units, and tables for parts, are accepted for any field.

        def __init__(self, **fields: Any) -> None: ...

    #: A name for people.
    name: Text = ""
    #: Seed of every random stream.
    seed: Seed = 1
    #: Simulated time.
    duration: SpanAboveZero
    #: A network of the papers, ready made.
    path: OptionalPreset = None
    #: The shorthand for one bottleneck.
    dumbbell: Dumbbell | None = None
    #: Nodes; may be left out, the links name them.
    nodes: tuple[NameText, ...] = ()
    #: The links of a general network (TOML: `[[link]]`).
    links: tuple[Link, ...] = Field(default=(), alias="link")
    #: The flows (TOML: `[[flow]]`).
    flows: tuple[Flow, ...] = Field(default=(), alias="flow")
    #: Deliberate randomness.
    randomness: Randomness = Randomness()
    #: What to record.
    instruments: Instruments = Instruments()

    _file: str | None = PrivateAttr(default=None)
    _lines: Mapping[str, int | None] = PrivateAttr(default_factory=dict)
    # Texts that `with_` was given: the file that a caller names may lie anywhere.
    _given: frozenset[str] = PrivateAttr(default=frozenset())

    # -- reading and writing

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Scenario:
        """Read a scenario file. `ScenarioError` says what is wrong, with lines where they can be found."""
        file = os.fspath(path)
        try:
            # Some editors begin a file with a byte-order mark.
            text = Path(path).read_text(encoding="utf-8-sig")
        except OSError as error:
            problem = Problem("", None, f"cannot be read: {error.strerror}", "Give the path of a scenario file", file)
            raise ScenarioError([problem]) from None
        except UnicodeDecodeError:
            raise ScenarioError([Problem("", None, "is not UTF-8 text", "Save it as UTF-8", file)]) from None
        return cls.parse_toml(text, file=file)

    @classmethod
    def parse_toml(cls, text: str, *, file: str | None = None) -> Scenario:
        """Read a scenario from TOML text; `file` is the name errors give it."""
        try:
            data = _toml.read(text)
        except tomllib.TOMLDecodeError as error:
            match = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
            line = int(match[1]) if match else None
            what = str(error).replace(match[0] if match else "", "")
            problem = Problem("", None, f"is not TOML: {what}", "See docs/scenario.md for the format", file, line)
            raise ScenarioError([problem]) from None
        lines = _toml.lines(text)
        try:
            scenario = cls.from_dict(data)
        except ScenarioError as error:
            raise error.located(file, lines) from None
        scenario._file, scenario._lines = file, lines
        return scenario

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scenario:
        """A scenario from nested dictionaries and lists as TOML gives them."""
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            raise ScenarioError(problems(error, data, cls)) from None

    @classmethod
    def from_resolved(cls, resolved: Mapping[str, Any]) -> Scenario:
        """The general network that a resolved description (`resolve`) stands for."""
        from tailback import _resolve

        return cls.from_dict(_resolve.unresolve(resolved))

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries as TOML holds them: defaults left out, quantities as text."""
        head = {"name": self.name} if self.name else {}
        return head | {"seed": self.seed, "duration": str(self.duration)} | cast(dict[str, Any], self.plain())

    def to_toml(self) -> str:
        """TOML text that reads back as an equal scenario."""
        return _toml.dump(self.to_dict(), _TABLES)

    # -- variations

    def with_(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Scenario:
        """A copy with some values changed, each named by its path; in keywords `__` stands for the dot.

        A flow or link is named by number or by name: `flow[0].cc`, `flow.bulk.cc`. `None` removes a value.

        >>> import tailback as tb
        >>> base = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk()], duration="60s")
        >>> base.with_({"flow[0].cc": "htcp"}, dumbbell__rate="1mbit", seed=7).dumbbell.rate
        Rate('1mbit')
        """
        wanted = dict(changes or {}) | {key.replace("__", "."): value for key, value in more.items()}
        data = self.to_dict()
        for path, value in wanted.items():
            self._put(data, path, value)
        try:
            changed = Scenario.from_dict(data)
        except ScenarioError as error:
            raise error.located(self._file, {}) from None
        changed._file = self._file
        changed._given = self._given | frozenset(_texts(list(wanted.values())))
        # What stands elsewhere now has no line: an error about it must not point at the old value.
        before, after = self.to_dict(), changed.to_dict()
        changed._lines = {
            path: line if _toml.look_up(before, path) == _toml.look_up(after, path) else None
            for path, line in self._lines.items()
        }
        return changed

    def _put(self, data: dict[str, Any], path: str, value: Any) -> None:
        def refuse(problem: str, fix: str) -> ScenarioError:
            return ScenarioError([Problem(path, plain_value(value), problem, fix, self._file)])

        steps = [step for step in re.split(r"[.\[\]]+", path) if step]
        if not steps:
            raise refuse("this names no field", 'Write for example "dumbbell.rate"')
        if steps[0] in ("flows", "links"):
            steps[0] = steps[0][:-1]
        here: Any = data
        at = 0
        while at < len(steps) - 1:
            step = steps[at]
            below = here.get(step)
            if below is None:
                below = here[step] = {}
            elif isinstance(below, str):
                # "1bdp" and "cubic" are short for tables.
                below = here[step] = {"limit" if step.endswith("queue") else "name": below}
            elif isinstance(below, list):
                at += 1
                names = self.flow_names if step == "flow" else [row.get("name", "") for row in below]
                # A name may hold dots: take the longest that fits.
                for end in range(len(steps), at, -1):
                    if ".".join(steps[at:end]) in names:
                        index = names.index(".".join(steps[at:end]))
                        at = end - 1
                        break
                else:
                    index = int(steps[at]) if steps[at].isdigit() else -1
                if not 0 <= index < len(below):
                    raise refuse(f'there is no {step} "{steps[at]}"', f"There are: {', '.join(names)}")
                if at == len(steps) - 1:
                    if value is None:
                        del below[index]
                    else:
                        below[index] = value.plain() if isinstance(value, Part) else value
                    return
                below = below[index]
            if not isinstance(below, dict):
                raise refuse(f"{step} has nothing below it", "Shorten the path")
            here, at = below, at + 1
        if value is None:
            here.pop(steps[-1], None)
        else:
            here[steps[-1]] = plain_value(value)

    # -- names

    @property
    def expanded(self) -> Scenario:
        """The same with the links and flows of its preset spelt out; itself if it has none."""
        from tailback import presets

        return presets.expand(self)

    @property
    def flow_names(self) -> list[str]:
        """The flows' names, given or made, in order; those that a preset adds come last."""
        if self.path is not None:
            return self.expanded.flow_names
        taken = {flow.name for flow in self.flows}
        apps = [flow.app for flow in self.flows if flow.name is None]
        count: dict[str, int] = {}
        out = []
        for flow in self.flows:
            name = flow.name
            if name is None and apps.count(flow.app) == 1 and flow.app not in taken:
                name = flow.app
            while name is None:
                count[flow.app] = count.get(flow.app, 0) + 1
                numbered = f"{flow.app}-{count[flow.app]}"
                name = None if numbered in taken else numbered
            out.append(name)
        return out

    @property
    def link_names(self) -> list[str]:
        """The links' names in the order of the engine's tables."""
        from tailback import _resolve

        return _resolve.link_names(self)

    # -- towards the engine

    def resolve(
        self,
        *,
        check: bool = True,
        algorithms: Mapping[str, Callable[[dict[str, Any], int], Any]] | None = None,
        live: bool = False,
        allow_code: bool = False,
    ) -> dict[str, Any]:
        """The engine's form: exact units, routes and buffers in bytes; `ScenarioError` if it cannot be run.

        `check=False` leaves out the engine's own check (of parameter ranges, for instance). `algorithms` are
        factories of algorithms of your own (`tailback.algorithms.factories`); default: those registered. `live`
        allows real programs, which the simulator cannot run. A class named by reference ("python:module:Class") is
        imported and tried only with `allow_code`; else it is described as it stands.
        """
        from tailback import _resolve
        from tailback.algorithms import factories

        try:
            own = factories() if algorithms is None else algorithms
            return _resolve.resolve(self, check=check, own=own, live=live, allow_code=allow_code)
        except ScenarioError as error:
            raise error.located(self._file, self._lines) from None

    def to_json(self) -> str:
        """The resolved form as JSON text, the same for equal scenarios.

        Algorithms of your own have no such text: nothing in a name tells when their code changes.
        """
        from tailback import _resolve

        try:
            resolved = _resolve.resolve(self, check=True, own=None)
        except ScenarioError as error:
            raise error.located(self._file, self._lines) from None
        return _resolve.as_text(resolved)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __str__(self) -> str:
        return self.to_toml()


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
