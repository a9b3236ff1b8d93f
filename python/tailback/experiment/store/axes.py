"""Columns of a store's rows that hold values of the scenario: what a sweep varied, as written there."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tailback.errors import ScenarioError
from tailback.presets import CARDS
from tailback.scenario import Scenario
from tailback.units import Bytes, Duration, Rate

__all__ = ["columns_of", "filled", "in_base_units", "is_axis", "pooled", "settings", "without_seed"]

#: Top-level keys of a scenario whose values a sweep may vary.
_ROOTS = (
    "dumbbell", "path", "preset", "node", "link", "flow", "duration", "randomness", "instruments", "warmup",
)  # fmt: skip


#: Ends of metrics, by which those of a flow or link named as a root, such as "link", differ from axes.
_METRIC = re.compile(
    r"\w+\.(\w+_(bytes|lost|mbps|mos|ms|s)|late_\d+"
    "|delivered|dropped|loads|loss|marked|retransmitted|stalls|switches|timeouts|utilisation)"
)
#: Parameters of presets, such as "path.loss", which end like metrics.
_PARAMETERS = frozenset(f"path.{option.name}" for card in CARDS for option in card.options)


def is_axis(column: str) -> bool:
    """Whether a column holds a value of the scenario, or its copy in base units."""
    if column in _PARAMETERS:
        return True
    return re.split(r"[.\[]", column)[0] in _ROOTS and not _METRIC.fullmatch(column)


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


def settings(frame: pl.DataFrame, axes: Sequence[str]) -> int:
    """The number of different values of the axes."""
    return frame.select(axes).n_unique() if axes else 1


def pooled(frame: pl.DataFrame, axes: Sequence[str]) -> int:
    """The number of settings whose runs have several scenarios, as of sweeps with different bases."""
    if "scenario" not in frame.columns:
        return 0
    texts = frame.select(*axes, without_seed(frame["scenario"]).alias("scenario")).unique()
    return texts.group_by(axes).len().filter(pl.col("len") > 1).height if axes else int(texts.height > 1)


def filled(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with the axes of all sweeps: a missing value is the one that the row's scenario states."""
    lacking = [name for name in frame.columns if is_axis(name) and frame[name].null_count()]
    if not lacking:
        return frame
    texts = without_seed(frame["scenario"])
    some = frame.select(pl.any_horizontal(pl.col(lacking).is_null())).to_series()
    stated = {text: _stated(text, lacking) for text in texts.filter(some).drop_nulls().unique()}
    columns = []
    for name in lacking:
        column, values = frame[name], [stated.get(text, {}).get(name) for text in texts]
        if column.dtype == pl.String or any(isinstance(value, str) for value in values):
            column = column.cast(pl.String)
            values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        columns.append(column.zip_with(column.is_not_null(), pl.Series(name, values, column.dtype, strict=False)))
    return frame.with_columns(columns)


def _stated(text: str, columns: Sequence[str]) -> dict[str, Any]:
    try:
        scenario = Scenario.parse_toml(text)
    except ScenarioError:
        return {}  # Of a run that could not be described, or of another version.
    point = columns_of({name: scenario.stated(name) for name in columns if not name.endswith(".si")})
    return point | in_base_units(point)
