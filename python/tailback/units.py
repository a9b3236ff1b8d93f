"""Quantities with units, read exactly: "80ms", "10mbit", "64KiB", "1bdp".

Whatever is read becomes an integer (picoseconds, bits per second, bytes) without passing through a float,
and is written back in a human form that reads as the same integer. A number without a unit is refused: it is
the commonest mistake in an experiment's description, and the costliest.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tailback.errors import UnitError

__all__ = ["Bytes", "Duration", "Rate", "Size"]

_U64 = 2**64 - 1
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-zµμ%/][A-Za-zµμ%/ ]*)?"
)

# Picoseconds.
_TIME_UNITS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12, "h": 3600 * 10**12}
_TIME_WORDS = {
    "µs": "us", "μs": "us", "usec": "us", "msec": "ms", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "minute": "min", "minutes": "min", "hour": "h", "hours": "h",
}  # fmt: skip
# Bits per second.
_RATE_UNITS = {
    "bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12,
    "kibit": 2**10, "mibit": 2**20, "gibit": 2**30,
}  # fmt: skip
# Bytes.
_BYTE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _split(text: str, what: str, example: str) -> tuple[Fraction, str]:
    """Number and unit, both still to be judged."""
    word = text.strip()
    match = _QUANTITY.fullmatch(word)
    if match is None:
        if re.match(r"[+-]?(nan|inf)", word, re.IGNORECASE):
            raise UnitError(f"{what} must be a finite number", f'Write for example "{example}"')
        raise UnitError(f"this is not {what}", f'Write a number and a unit, for example "{example}"')
    number = Decimal(match["number"].replace("_", ""))
    if number and not -60 < number.adjusted() < 60:
        # Before a Fraction is built: 1e999999999 would fill the memory.
        raise UnitError(f"{what} of this size cannot be represented", f'Write for example "{example}"')
    unit = (match["unit"] or "").strip()
    if not unit:
        raise UnitError("the unit is missing", f'Say what {match["number"]} counts, for example "{example}"')
    return Fraction(number), unit


def _whole(value: Fraction, what: str, finest: str, example: str) -> int:
    if value < 0:
        raise UnitError(f"{what} cannot be negative", f'Write for example "{example}"')
    if value.denominator != 1:
        raise UnitError(f"finer than {finest}", f"Round it to a whole {finest.removeprefix('one ')}")
    if value > _U64:
        raise UnitError(f"{what} this large overflows 64 bits", f'Write for example "{example}"')
    return int(value)


def _decimal(value: int, unit: int) -> str:
    """The quotient, exactly; the units used for writing divide some power of ten or are divisors of value."""
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")


class _Quantity(int):
    """An integer that remembers what it counts; plain integer arithmetic gives plain integers."""

    _what: ClassVar[str]
    _example: ClassVar[str]

    def __new__(cls, value: str | int) -> Self:
        if isinstance(value, str):
            return super().__new__(cls, cls._read(value))
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnitError(f"this is not {cls._what}", f'Write for example "{cls._example}"')
        return super().__new__(cls, _whole(Fraction(value), cls._what, "one unit", cls._example))

    @classmethod
    def _read(cls, text: str) -> int:
        raise NotImplementedError

    @classmethod
    def _field(cls, value: Any) -> Self:
        # In a description a bare number is refused, zero included; in code Duration(5) is deliberate.
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise UnitError("the unit is missing", f'Write it as a string with a unit, for example "{cls._example}"')
        raise UnitError(f"this is not {cls._what}", f'Write for example "{cls._example}"')

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._field, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return type(self), (int(self),)


class Duration(_Quantity):
    """A span of time in whole picoseconds. An `int`, so it compares and adds as one.

    Units: ps, ns, us (µs), ms, s, min, h. Raises `UnitError`.

    >>> Duration("2.5 us") == 2_500_000, str(Duration(80 * 10**9)), Duration("80ms").seconds
    (True, '80ms', 0.08)
    """

    _what = "a time"
    _example = "80ms"

    @classmethod
    def _read(cls, text: str) -> int:
        number, unit = _split(text, cls._what, cls._example)
        unit = unit.lower()
        scale = _TIME_UNITS.get(_TIME_WORDS.get(unit, unit))
        if scale is None:
            fix = "Write ms or min: m could mean either" if unit == "m" else "Use ps, ns, us, ms, s, min or h"
            raise UnitError(f'"{unit}" is not a unit of time', fix)
        return _whole(number * scale, cls._what, "one picosecond", cls._example)

    @property
    def seconds(self) -> float:
        """Seconds, as near as a float comes."""
        return int(self) / 10**12

    def __str__(self) -> str:
        value = int(self)
        for unit in ("s", "ms", "us", "ns", "ps"):
            if value >= _TIME_UNITS[unit]:
                return _decimal(value, _TIME_UNITS[unit]) + unit
        return "0s"


class Rate(_Quantity):
    """A rate in whole bits per second, at the IP layer unless a link says otherwise.

    Units: bit, kbit, Mbit, Gbit, Tbit (powers of 1000), Kibit, Mibit, Gibit (of 1024), each with or without
    "/s" or "ps", in any case. Bytes per second are refused because "MBps" is usually a slip. Raises `UnitError`.

    >>> Rate("1.5Gbit") == 1_500_000_000, str(Rate("10 Mbps"))
    (True, '10mbit')
    """

    _what = "a rate"
    _example = "10mbit"

    @classmethod
    def _read(cls, text: str) -> int:
        number, unit = _split(text, cls._what, cls._example)
        if re.fullmatch(r"[kKMGT]?i?B(/s|ps)|.*bytes?(/s)?", unit):
            raise UnitError(
                f'"{unit}" counts bytes, rates are in bits per second', "Multiply by eight: 1 MB/s is 8mbit"
            )
        word = re.sub(r"(/s|ps|/sec)$", "", unit.lower())
        word = re.sub(r"^([kmgt]i?)?b(its?)?$", lambda m: (m[1] or "") + "bit", word)
        if word not in _RATE_UNITS or unit.endswith("B"):
            raise UnitError(f'"{unit}" is not a unit of rate', "Use bit, kbit, mbit or gbit (per second)")
        return _whole(number * _RATE_UNITS[word], cls._what, "one bit per second", cls._example)

    def __str__(self) -> str:
        value = int(self)
        for unit in ("gbit", "mbit", "kbit"):
            if value >= _RATE_UNITS[unit]:
                return _decimal(value, _RATE_UNITS[unit]) + unit
        return f"{value}bit"


def _bytes_text(value: int) -> str:
    choices = [f"{value}B"]
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if value >= unit:
            choices.append(_decimal(value, unit) + name)
            break
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value and value % unit == 0:
            choices.append(f"{value // unit}{name}")
            break
    return min(choices, key=len)


class Bytes(_Quantity):
    """A number of bytes, at the IP layer unless the field says otherwise.

    Units: B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024). Raises `UnitError`.

    >>> Bytes("64kB") == 64_000, Bytes("1MiB") == 1_048_576, str(Bytes(65536))
    (True, True, '64KiB')
    """

    _what = "a size"
    _example = "64kB"

    @classmethod
    def _read(cls, text: str) -> int:
        number, unit = _split(text, cls._what, cls._example)
        return _read_bytes(number, unit, "Use B, kB, MB, KiB or MiB")

    def __str__(self) -> str:
        return _bytes_text(int(self))


def _read_bytes(number: Fraction, unit: str, fix: str) -> int:
    word = re.sub(r"bytes?$", "b", unit.lower())
    if word not in _BYTE_UNITS or re.fullmatch(r"[kKMGT]i?b", unit):
        if re.search(r"bits?$|b$", unit) and unit.lower() != "b":
            raise UnitError(f'"{unit}" looks like bits, a size is in bytes', fix)
        raise UnitError(f'"{unit}" is not a unit of size', fix)
    return _whole(number * _BYTE_UNITS[word], "a size", "one byte", "64kB")


class Size:
    """How much a queue holds: bytes, packets, or multiples of the bandwidth-delay product. Immutable.

    >>> Size("0.25bdp").in_bytes(rate=Rate("10mbit"), rtt=Duration("80ms"))
    25000
    """

    __slots__ = ("amount", "unit")
    #: How many of `unit`: whole for bytes and packets.
    amount: Fraction
    #: "bytes", "packets" or "bdp".
    unit: str

    def __init__(self, text: str) -> None:
        fix = "Use packets, bdp, B, kB, MB, KiB or MiB"
        number, unit = _split(text, "a queue size", "1bdp")
        word = unit.lower()
        if word in ("packet", "packets", "pkt", "pkts", "p"):
            amount, word = Fraction(_whole(number, "a queue size", "one packet", "100packets")), "packets"
        elif word in ("bdp", "bdps"):
            if number < 0:
                raise UnitError("a queue size cannot be negative", 'Write for example "1bdp"')
            amount, word = number, "bdp"
        else:
            amount, word = Fraction(_read_bytes(number, unit, fix)), "bytes"
        if amount == 0:
            raise UnitError(
                "a queue of nothing drops every packet that has to wait",
                'Write for example "1bdp", or "1packets" for the smallest',
            )
        object.__setattr__(self, "amount", amount)
        object.__setattr__(self, "unit", word)

    def in_bytes(self, *, rate: int, rtt: int) -> int:
        """Bytes at `rate` (bit/s) and `rtt` (ps), rounded down; `UnitError` for a number of packets."""
        if self.unit == "packets":
            raise UnitError("a number of packets has no size in bytes", "Give bytes or bdp")
        if self.unit == "bytes":
            return int(self.amount)
        return int(self.amount * rate * rtt / (8 * 10**12))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and (self.amount, self.unit) == (other.amount, other.unit)

    def __hash__(self) -> int:
        return hash((self.amount, self.unit))

    def __str__(self) -> str:
        if self.unit == "bytes":
            return _bytes_text(int(self.amount))
        # Read from decimal digits, so the denominator divides a power of ten.
        digits = 0
        while (self.amount * 10**digits).denominator != 1:
            digits += 1
        return _decimal(int(self.amount * 10**digits), 10**digits) + self.unit

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"

    def __reduce__(self) -> tuple[type[Size], tuple[str]]:
        return Size, (str(self),)

    @classmethod
    def _field(cls, value: Any) -> Size:
        if isinstance(value, Size):
            return value
        if isinstance(value, Bytes):
            return cls(str(value))
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise UnitError("the unit is missing", f'Say what it counts: "{value}packets", "{value}B" or "1bdp"')
        raise UnitError("this is not a queue size", 'Write for example "1bdp", "100packets" or "64kB"')

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._field, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )


def to_unit(text: str, unit: str) -> float:
    """A quantity as the plain number of `unit` that an algorithm's parameter wants.

    `unit` is what the registry says of the parameter: a unit of time, rate or size, "packets", or empty for a
    plain number (then a percentage is read too).

    >>> to_unit("5ms", "us"), to_unit("2%", "")
    (5000.0, 0.02)
    """
    word = unit.strip().lower()
    if word in _TIME_UNITS:
        return float(Fraction(Duration(text), _TIME_UNITS[word]))
    if word in ("b", "bytes", "byte"):
        return float(Bytes(text))
    if word in ("bps", "bit/s", "bits/s"):
        return float(Rate(text))
    bare = not re.search(r"[A-Za-z%]\s*$", text)
    number, found = _split(f"{text} /" if bare else text, "a number", "0.5")
    if found == "%" and not word:
        return float(number / 100)
    if bare or found.lower().rstrip("s") == word.rstrip("s"):
        return float(number)
    raise UnitError(f'"{found}" does not fit', f"Give a number in {unit}" if unit else "Give a plain number")
