"""What is wrong with a scenario, in the words of who wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import (
    ValidationError,
)

from tailback.errors import Problem, UnitError, nearest
from tailback.scenario._base import Part
from tailback.scenario._flow import Flow, Instruments, Period, Randomness
from tailback.scenario._path import (
    Dumbbell,
    Link,
    Step,
    Wire,
)

_PARTS: dict[str, type[Part]] = {
    "dumbbell": Dumbbell,
    "link": Link,
    "flow": Flow,
    "again": Period,
    "wire": Wire,
    "back_wire": Wire,
    "schedule": Step,
    "randomness": Randomness,
    "instruments": Instruments,
}


def problems(error: ValidationError, data: Mapping[str, Any], whole: type[Part]) -> list[Problem]:
    """Everything wrong with `data`, of which no `whole` could be made."""
    out = []
    for item in error.errors(include_url=False):
        loc = [{"flows": "flow", "links": "link", "from_": "from"}.get(str(step), step) for step in item["loc"]]
        part = next((_PARTS[step] for step in reversed(loc[:-1]) if isinstance(step, str) and step in _PARTS), None)
        keys = [info.alias or key for key, info in (part or whole).model_fields.items()]
        value: Any = item["input"]
        cause = item.get("ctx", {}).get("error")
        if item["type"] == "extra_forbidden":
            close = nearest(str(loc[-1]), keys)
            problem = "there is no such key"
            fix = f'Did you mean "{close}"? ' if close else ""
            fix += f"Known here: {', '.join(keys)}"
        elif item["type"] == "missing":
            value, problem, fix = None, "is missing", _missing(str(loc[-1]))
        elif isinstance(cause, UnitError):
            problem, fix = cause.problem, cause.fix
        else:
            problem = item["msg"][:1].lower() + item["msg"][1:]
            fix = "See docs/scenario.md"
        if isinstance(value, Mapping | list | tuple | Part):
            value = None
        out.append(Problem(_path(_as_written(loc, data)), value, problem, fix.rstrip(".") + "."))
    return out


def _as_written(loc: list[str | int], data: Any) -> list[str | int]:
    """The place without what was not written: `queue = "0bdp"` has no `limit` below it."""
    for at, step in enumerate(loc):
        if isinstance(data, str | int | float):
            return loc[:at]
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list | tuple) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            break
    return loc


def _missing(key: str) -> str:
    examples = {
        "duration": '"60s"', "rate": '"10mbit"', "name": '"first"', "from": '"a"', "to": '"b"', "discipline": '"fifo"',
        "at": '"10s"', "preset": '"adsl1"',
    }  # fmt: skip
    return f"Add for example {key} = {examples.get(key, '…')}"


def _path(loc: Sequence[str | int]) -> str:
    out = ""
    for at, step in enumerate(loc):
        if isinstance(step, int):
            out += f"[{step}]"
        elif step == "params" and at and str(loc[at - 1]).endswith(("queue", "cc", "stack", "medium", "path")):
            continue  # written directly into the table
        else:
            out += f".{step}" if out else str(step)
    return out
