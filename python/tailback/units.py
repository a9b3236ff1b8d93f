"""Quantities with units, read exactly: "80ms", "10mbit", "64KiB", "1bdp".

A quantity becomes an integer (picoseconds, bits per second, bytes) without passing through a float, and is printed in a
form that parses to the same integer. A number without a unit is refused: it is the most common mistake in an
experiment's description, and the most costly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self

from tailback import _core

__all__ = ["Bytes", "Duration", "Rate", "Size"]


class _Quantity(int):
    """An integer with a unit; integer arithmetic on it gives plain integers."""

    _kind: ClassVar[str]

    def __new__(cls, value: str | int) -> Self:
        return super().__new__(cls, _core.quantity_read(cls._kind, int(value) if isinstance(value, cls) else value))

    def __str__(self) -> str:
        return _core.quantity_text(self._kind, int(self))

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

    _kind = "time"

    @property
    def seconds(self) -> float:
        """Seconds as the nearest float."""
        return int(self) / 10**12


class Rate(_Quantity):
    """A rate in whole bits per second, at the IP layer unless a link says otherwise.

    Units: bit, kbit, Mbit, Gbit, Tbit (powers of 1000), Kibit, Mibit, Gibit (of 1024), each with or without
    "/s" or "ps", in any case. Bytes per second are refused because "MBps" is usually a slip. Raises `UnitError`.

    >>> Rate("1.5Gbit") == 1_500_000_000, str(Rate("10 Mbps"))
    (True, '10mbit')
    """

    _kind = "rate"


class Bytes(_Quantity):
    """A number of bytes, at the IP layer unless the field says otherwise.

    Units: B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024). Raises `UnitError`.

    >>> Bytes("64kB") == 64_000, Bytes("1MiB") == 1_048_576, str(Bytes(65536))
    (True, True, '64KiB')
    """

    _kind = "bytes"


class Size:
    """The size of a queue: bytes, packets, a time at the link's rate, or multiples of the BDP. Immutable.

    "1bdp" limits bytes. "1bdp packets" limits packets: the number of the link's largest packets that fit into the size.

    >>> Size("0.25bdp").in_bytes(rate=Rate("10mbit"), rtt=Duration("80ms"))
    25000
    """

    __slots__ = ("_kind", "amount", "unit")
    #: How many of `unit`: whole for bytes, packets and picoseconds.
    amount: Fraction
    #: "bytes", "packets", "time" (in picoseconds) or "bdp".
    unit: str
    #: The size as written.
    _kind: str

    def __init__(self, text: str) -> None:
        amount, digits, unit, written = _core.size_read(text)
        object.__setattr__(self, "amount", Fraction(amount, 10**digits))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "_kind", written)

    def in_bytes(self, *, rate: int, rtt: int) -> int:
        """Bytes at `rate` (bit/s) and `rtt` (ps); `UnitError` for a number of packets.

        Multiples of the BDP are rounded down, a time is rounded up.
        """
        return _core.size_in_bytes(self._kind, int(rate), int(rtt))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self._kind == other._kind

    def __hash__(self) -> int:
        return hash(self._kind)

    def __str__(self) -> str:
        return self._kind

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"

    def __reduce__(self) -> tuple[type[Size], tuple[str]]:
        return Size, (str(self),)


def to_unit(text: str, unit: str) -> float:
    """A quantity as a plain number in `unit`, for an algorithm's parameter.

    `unit` is the parameter's unit in the registry: of time, rate or size, "packets", or empty for a plain number, which
    may also be a percentage.

    >>> to_unit("5ms", "us"), to_unit("2%", "")
    (5000.0, 0.02)
    """
    return _core.to_unit(text, unit)
