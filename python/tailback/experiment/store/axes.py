"""Columns of a store's rows that hold values of the scenario: what a sweep varied, as written there."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from tailback.units import Bytes, Duration, Rate

__all__ = ["columns_of", "in_base_units", "is_axis", "without_seed"]

#: Top-level keys of a scenario whose values a sweep may vary.
_ROOTS = (
    "dumbbell", "path", "preset", "node", "link", "flow", "duration", "randomness", "instruments", "warmup",
)  # fmt: skip


def is_axis(column: str) -> bool:
    """Whether a column holds a value of the scenario, or its copy in base units."""
    return re.split(r"[.\[]", column)[0] in _ROOTS


def columns_of(point: Mapping[str, Any]) -> dict[str, Any]:
    """Axis values as columns: numbers and words unchanged, a table as JSON, a quantity as text."""
    return {
        path: value
        if value is None or (isinstance(value, bool | int | float | str) and type(value) in (bool, int, float, str))
        else json.dumps(value, sort_keys=True)
        if isinstance(value, Mapping | list)
        else str(value)
        for path, value in point.items()
    }


def in_base_units(point: Mapping[str, Any]) -> dict[str, float]:
    """Quantities among the values as numbers in bit/s, seconds or bytes."""
    out = {}
    for path, value in point.items():
        if isinstance(value, str):
            for kind in (Rate, Duration, Bytes):
                with contextlib.suppress(ValueError):
                    found = kind(value)
                    out[f"{path}.si"] = found.seconds if isinstance(found, Duration) else float(found)
                    break
    return out


def without_seed(scenarios: pl.Series) -> pl.Series:
    """Scenarios in TOML without their seeds: equal for the runs of one setting."""
    return scenarios.str.replace(r"(?m)^seed = .*$", "")
