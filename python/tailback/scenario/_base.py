"""What every part of a scenario can do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
)

from tailback.errors import ScenarioError
from tailback.units import Bytes, Duration, Rate, Size


class Part(BaseModel):
    """A frozen piece of a description that reports what is wrong as `ScenarioError`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            # Here, for explaining needs to know every part there is.
            from tailback.scenario._problems import problems

            raise ScenarioError(problems(error, data, type(self))) from None

    # Tells pydantic that validation need not go through this method (nested parts must not raise on their own).
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def plain(self) -> Any:
        """What TOML would hold: defaults left out, quantities as text."""
        out: dict[str, Any] = {}
        for name, key, default in _defaults(type(self)):
            value = getattr(self, name)
            if value is not default and value != default:
                out[key] = plain_value(value)
        return out


#: Equal to no value.
_REQUIRED = object()


@cache
def _defaults(part: type[Part]) -> list[tuple[str, str, Any]]:
    """Name, name in TOML and default of each field; to compare with only, as pydantic would copy it every time."""
    return [
        (name, info.alias or name, _REQUIRED if info.is_required() else info.get_default(call_default_factory=True))
        for name, info in part.model_fields.items()
    ]


def plain_value(value: Any) -> Any:
    if isinstance(value, Part):
        return value.plain()
    if isinstance(value, Duration | Rate | Bytes | Size):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    return value
