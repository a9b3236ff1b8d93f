"""What tests of several files do with two runs: the same path, and the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tailback as tb


def beside_reno(cc: Any, **more: Any) -> tb.Scenario:
    """A candidate's flow, and Reno's a second later."""
    shape: dict[str, Any] = {"rate": "10mbit", "rtt": "40ms", "queue": "0.4bdp", "duration": "10s", "seed": 3} | more
    return tb.dumbbell(flows=[tb.bulk(cc, name="bulk"), tb.bulk("reno", name="other", start="1s")], **shape)


def assert_same_rows(one: tb.Result, other: tb.Result, tables: Iterable[str] | None = None) -> None:
    """The same tables, or those named: each column to the bit."""
    if tables is None:
        assert one.tables == other.tables
    for name in one.tables if tables is None else tables:
        mine, theirs = one.numpy(name), other.numpy(name)
        assert set(mine) == set(theirs), name
        for key, column in mine.items():
            assert column.dtype == theirs[key].dtype, (name, key)
            assert column.tobytes() == theirs[key].tobytes(), (name, key)
