"""Checks that several fields of a scenario share."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    PlainValidator,
)

from tailback.errors import UnitError
from tailback.units import Bytes, Duration, Rate

#: A parameter as the engine takes it: a switch, a number, or a name (or quantity with a unit).
ParamValue = bool | int | float | str

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]*")


def _above_zero(value: Any) -> Any:
    if value <= 0:
        raise UnitError("must be above zero", "Leave it out for the default, or give a positive value")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value == "all":
        raise UnitError(
            "this is not a name",
            'Use letters, digits and any of "_.:+-", such as "bulk-1"; "all" is reserved',
        )
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise UnitError("this is not one line of text", 'Write for example "two flows, one queue"')
    return value


def _mtu(value: Bytes) -> Bytes:
    # IPv4 and TCP headers with timestamps are 52 bytes; the length field of IP has 16 bits.
    if not 100 <= value <= 65_535:
        raise UnitError("an IP packet is 100 to 65535 bytes here", 'Write for example "1500B"')
    return value


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnitError("this is not a whole number", f"Give a whole number from {least} to {most}")
        if not least <= value <= most:
            raise UnitError("out of range", f"Give a whole number from {least} to {most}")
        return int(value)

    return check


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UnitError("a probability lies between 0 and 1", "Write for example 0.01 for one in a hundred")
    return float(value)


def _names(value: Any) -> tuple[str, ...] | Literal["all"]:
    if value == "all":
        return "all"
    if isinstance(value, str):
        return (_name(value),)
    if isinstance(value, Sequence):
        return tuple(_name(item) for item in value)
    raise UnitError("this is not a list of names", 'Write ["first", "second"] or "all"')


def _params(value: Any) -> dict[str, ParamValue]:
    if not isinstance(value, Mapping):
        raise UnitError("parameters are a table", "Write for example { beta = 0.8 }")
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, bool | int | float | str):
            raise UnitError(f"parameter {key} must be true or false, a number or a text", "Write one of these")
        if isinstance(item, float) and not math.isfinite(item):
            raise UnitError(f"parameter {key} must be a finite number", "Write a finite number")
        if isinstance(item, str):
            _text(item)
    return dict(value)


def trace_value(value: Any) -> str | tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return _text(os.fspath(value))
    if isinstance(value, Sequence) and all(isinstance(ms, int) and not isinstance(ms, bool) for ms in value):
        return tuple(value)
    raise UnitError("this is not a trace", 'Write the name of a file, "lte.trace", or a list of whole milliseconds')


NameText = Annotated[str, PlainValidator(_name)]
Text = Annotated[str, PlainValidator(_text)]
Names = Annotated[tuple[str, ...] | Literal["all"], PlainValidator(_names)]
Params = Annotated[dict[str, ParamValue], PlainValidator(_params)]
Probability = Annotated[float, PlainValidator(_probability)]
SpanAboveZero = Annotated[Duration, AfterValidator(_above_zero)]
RateAboveZero = Annotated[Rate, AfterValidator(_above_zero)]
BytesAboveZero = Annotated[Bytes, AfterValidator(_above_zero)]
Tick = Annotated[int, PlainValidator(_whole(1, 2**32 - 1))]
Count = Annotated[int, PlainValidator(_whole(0, 2**32 - 1))]
#: Rows have numbers of 32 bits in the engine.
MostRows = Annotated[int, PlainValidator(_whole(1, 2**32 - 2))]
Seed = Annotated[int, PlainValidator(_whole(0, 2**64 - 1))]
Mtu = Annotated[Bytes, AfterValidator(_mtu)]
