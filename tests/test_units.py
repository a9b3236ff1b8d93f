"""Quantities are read exactly, written back so that they read the same, and refused with a remedy."""

from __future__ import annotations

import contextlib
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailback.errors import UnitError
from tailback.units import Bytes, Duration, Rate, Size, to_unit

U64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("80ms", 80 * 10**9),
        ("2.5 us", 2_500_000),
        ("2.5µs", 2_500_000),
        ("1s", 10**12),
        ("0s", 0),
        ("1e3ms", 10**12),
        ("1_000ns", 10**6),
        (".5s", 5 * 10**11),
        ("3min", 180 * 10**12),
        ("1h", 3600 * 10**12),
        ("0.1s", 10**11),  # 0.1 has no exact float
        ("1.000000000001s", 10**12 + 1),
    ],
)
def test_times_are_exact(text: str, ps: int) -> None:
    assert Duration(text) == ps


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("10mbit", 10**7),
        ("10Mbps", 10**7),
        ("10 Mbit/s", 10**7),
        ("10mb/s", 10**7),
        ("1.5Gbit", 1_500_000_000),
        ("64kbit", 64_000),
        ("1Kibit", 1024),
        ("9600bit/s", 9600),
        ("56000bps", 56_000),
        ("0.1gbit", 10**8),
    ],
)
def test_rates_are_exact(text: str, bps: int) -> None:
    assert Rate(text) == bps


@pytest.mark.parametrize(
    ("text", "count"),
    [("200B", 200), ("64kB", 64_000), ("64KB", 64_000), ("1MiB", 2**20), ("1.5KiB", 1536), ("9bytes", 9)],
)
def test_sizes_are_exact(text: str, count: int) -> None:
    assert Bytes(text) == count


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (Duration, "80", "unit is missing"),
        (Duration, "nan", "finite"),
        (Duration, "inf s", "finite"),
        (Duration, "-1ms", "negative"),
        (Duration, "5m", "ms or min"),
        (Duration, "5parsec", "not a unit of time"),
        (Duration, "0.1ps", "picosecond"),
        (Duration, "1e9h", "overflows"),
        (Duration, "1e999999999s", "cannot be represented"),
        (Duration, "", "not a time"),
        (Duration, "soon", "not a time"),
        (Duration, "1s 2s", "not a time"),
        (Rate, "10", "unit is missing"),
        (Rate, "10MB/s", "bytes"),
        (Rate, "10MBps", "bytes"),
        (Rate, "10ms", "not a unit of rate"),
        (Rate, "-1mbit", "negative"),
        (Rate, "0.5bit", "bit per second"),
        (Rate, "1e20gbit", "overflows"),
        (Bytes, "10", "unit is missing"),
        (Bytes, "10Mb", "looks like bits"),
        (Bytes, "10mbit", "looks like bits"),
        (Bytes, "1.5B", "byte"),
        (Bytes, "-1B", "negative"),
        (Size, "0bdp", "drops every packet"),
        (Size, "0packets", "drops every packet"),
        (Size, "-1bdp", "negative"),
        (Size, "1.5packets", "packet"),
        (Size, "100", "unit is missing"),
        (Size, "nanbdp", "finite"),
        (Size, "0ms", "drops every packet"),
        (Size, "3mx", "not a unit of size"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(kind: type, text: str, says: str) -> None:
    with pytest.raises(UnitError) as caught:
        kind(text)
    assert says in caught.value.problem + caught.value.fix
    assert caught.value.fix


@pytest.mark.parametrize("value", [True, 1.5, None])
def test_only_text_and_whole_numbers_make_a_quantity(value: object) -> None:
    with pytest.raises(UnitError):
        Duration(value)  # type: ignore[arg-type]


def test_integers_are_the_base_unit_and_checked() -> None:
    assert Duration(5) == Duration("5ps")
    with pytest.raises(UnitError):
        Rate(-1)
    with pytest.raises(UnitError):
        Bytes(2**64)


@given(U64)
def test_written_times_read_back(ps: int) -> None:
    assert Duration(str(Duration(ps))) == ps


@given(U64)
def test_written_rates_read_back(bps: int) -> None:
    assert Rate(str(Rate(bps))) == bps


@given(U64)
def test_written_sizes_read_back(count: int) -> None:
    assert Bytes(str(Bytes(count))) == count


@given(
    st.one_of(
        st.integers(1, 10**9).map(lambda n: f"{n}packets"),
        st.integers(1, 10**12).map(lambda n: f"{n}B"),
        st.decimals(min_value="0.001", max_value="1000", places=3).map(lambda d: f"{d}bdp"),
    )
)
def test_written_queue_sizes_read_back(text: str) -> None:
    size = Size(text)
    assert Size(str(size)) == size
    assert hash(Size(str(size))) == hash(size)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for kind in (Duration, Rate, Bytes, Size):
        with contextlib.suppress(UnitError):
            kind(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Duration("80ms"), "80ms"),
        (Duration("0.0025ms"), "2.5us"),
        (Duration("60s"), "60s"),
        (Duration(0), "0s"),
        (Rate("10000kbit"), "10mbit"),
        (Rate("0bit"), "0bit"),
        (Bytes(65536), "64KiB"),
        (Bytes(100_000), "100kB"),
        (Size("0.25bdp"), "0.25bdp"),
        (Size("1e1packets"), "10packets"),
        (Size("1000B"), "1kB"),
    ],
)
def test_the_human_form(value: object, text: str) -> None:
    assert str(value) == text
    assert f"{value}" == text


def test_bdp_arithmetic_rounds_down_and_is_exact() -> None:
    assert Size("1bdp").in_bytes(rate=Rate("10mbit"), rtt=Duration("80ms")) == 100_000
    assert Size("0.25bdp").in_bytes(rate=Rate("1mbit"), rtt=Duration("16ms")) == 500
    assert Size("0.333bdp").in_bytes(rate=Rate("10mbit"), rtt=Duration("80ms")) == 33_300
    assert Size("1bdp").in_bytes(rate=3, rtt=10**12) == int(Fraction(3, 8))
    with pytest.raises(UnitError):
        Size("5packets").in_bytes(rate=1, rtt=1)


def test_quantities_survive_pickling_and_are_immutable() -> None:
    for value in (Duration("80ms"), Rate("1mbit"), Bytes("1kB"), Size("1bdp")):
        assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(AttributeError):
        Size("1bdp").unit = "bytes"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [("5ms", "us", 5000), ("5ms", "s", 0.005), ("64kB", "B", 64_000), ("1mbit", "bps", 1e6), ("2%", "", 0.02),
     ("3", "", 3), ("40packets", "packets", 40), ("40", "segments", 40)],
)  # fmt: skip
def test_parameters_get_plain_numbers(text: str, unit: str, number: float) -> None:
    assert to_unit(text, unit) == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize(("text", "unit"), [("5ms", ""), ("5kB", "ms"), ("5packets", "segments"), ("5%", "ms")])
def test_a_unit_that_does_not_fit_a_parameter_is_refused(text: str, unit: str) -> None:
    with pytest.raises(UnitError):
        to_unit(text, unit)
