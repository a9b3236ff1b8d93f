"""The parts of a scenario as objects. Their fields are defined in Rust; `parts.pyi` describes them to editors."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, ClassVar

from tailback import _core
from tailback.units import Bytes, Duration, Rate, Size

_QUANTITIES: dict[str, Any] = {"time": Duration, "rate": Rate, "bytes": Bytes, "size": Size}


@cache
def schema() -> dict[str, Any]:
    """Every part with its fields, every preset with its options, and the JSON Schema."""
    return _core.schema()


class Part:
    """A frozen part of a scenario. Raises `ScenarioError` with all faults of its fields."""

    _fields: ClassVar[dict[str, dict[str, Any]]]
    #: Every given field, by its key in a file, quantities as text.
    _full: dict[str, Any]

    def __init__(self, **fields: Any) -> None:
        self.__dict__["_full"] = _core.scenario_part(type(self).__name__, fields, False)

    @classmethod
    def of(cls, given: Any) -> Any:
        """Create one from any value that a file may have in its place."""
        return cls._made(_core.scenario_part(cls.__name__, given, False))

    @classmethod
    def _made(cls, full: dict[str, Any]) -> Any:
        part = cls.__new__(cls)
        part.__dict__["_full"] = full
        return part

    def with_(self, **fields: Any) -> Any:
        """A copy with some fields changed."""
        keys = {self._fields[name]["key"] if name in self._fields else name: value for name, value in fields.items()}
        return self.of(self._full | keys)

    def plain(self) -> Any:
        """The value for a file: defaults left out, quantities as text, a bare name if that is enough."""
        return _core.scenario_part(type(self).__name__, self, True)

    def __getattr__(self, name: str) -> Any:
        field = type(self)._fields.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name}")
        return _value(field, self._full[field["key"]])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: with_ makes a copy with {name} changed")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._full == self._full

    def __hash__(self) -> int:
        return hash(json.dumps(self._full))

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self._full.items() if value not in (None, {}, []))
        return f"{type(self).__name__}({given})"

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.__dict__)


def _restored(part: type[Part], state: dict[str, Any]) -> Part:
    made = part.__new__(part)
    made.__dict__.update(state)
    return made


def _value(field: dict[str, Any], value: Any) -> Any:
    """A field's value as the object for its kind."""
    if value is None:
        return None
    if isinstance(value, list):
        if field["part"]:
            return tuple(globals()[field["part"]]._made(item) for item in value)
        return tuple(value)
    if field["kind"] == "part":
        return globals()[field["part"]]._made(value)
    kind = _QUANTITIES.get(field["kind"])
    return value if kind is None else kind(value)


def _class(name: str) -> Any:
    part = schema()["parts"][name]
    fields = {field["name"]: field for field in part["fields"]}
    listed = "\n".join(f"{name}: {field['doc']}" for name, field in fields.items())
    doc = f"{part['doc']}\n\n{listed}"
    return type(name, (Part,), {"__doc__": doc, "__module__": __name__, "_fields": fields})


Queue = _class("Queue")
Policer = _class("Policer")
Named = _class("Named")
Wire = _class("Wire")
NetemJitter = _class("NetemJitter")
Medium = _class("Medium")
Step = _class("Step")
Preset = _class("Preset")
Dumbbell = _class("Dumbbell")
Link = _class("Link")
Period = _class("Period")
Flow = _class("Flow")
Randomness = _class("Randomness")
Instruments = _class("Instruments")
Condition = _class("Condition")
Expect = _class("Expect")
ScenarioFields = _class("Scenario")
