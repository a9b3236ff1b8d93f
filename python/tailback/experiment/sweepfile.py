"""Reads sweeps from TOML: base scenario, axes, seeds, stopping rule."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailback.errors import ScenarioError, nearest
from tailback.experiment.design import Design, Span, grid, latin_hypercube, refuse, single, sobol, table, zipped
from tailback.experiment.run_metrics import RunMetrics
from tailback.experiment.sweeps import Sweep, Until, keeps_tables, seeds_of
from tailback.scenario import Scenario
from tailback.scenario.whole import read_file, toml_read

__all__ = ["read_sweep"]

_KEYS = ("base", "name", "set", "seeds", "until", "keep", "metrics", "grid", "zip", "table", "latin-hypercube", "sobol")
#: Keys that identify a scenario given in place of a sweep.
_OF_SCENARIO = ("dumbbell", "path", "node", "link", "flow", "duration", "instruments")
_DESIGNS = ("grid", "zip", "table", "latin-hypercube", "sobol")


def read_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Read a sweep file; `ScenarioError` describes a fault in it."""
    file = os.fspath(path)
    text = read_file(path, "Give the path of a sweep file")
    data, places = toml_read(text, file, "docs/sweeps.md")
    try:
        return _sweep(data, Path(path))
    except ScenarioError as error:
        raise error.located(file, places) from None


def _sweep(data: Mapping[str, Any], path: Path) -> Sweep:
    if "base" not in data and (of_scenario := [key for key in _OF_SCENARIO if key in data]):
        fix = (
            f'Write a sweep beside it: base = "{path.name}", seeds = 5, and [grid] with '
            '"dumbbell.queue" = ["1bdp", "4bdp"]'
        )
        raise refuse(of_scenario[0], None, "this is a scenario, not a sweep of scenarios", fix)
    for key in data:
        if key not in _KEYS:
            close = nearest(key, _KEYS)
            hint = f'Did you mean "{close}"? ' if close else ""
            raise refuse(key, None, "there is no such key", f"{hint}Known here: {', '.join(_KEYS)}")
    designs = [design for key in _DESIGNS if key in data for design in _designs(key, data[key])]
    until = _until(data["until"]) if "until" in data else None
    seeds = seeds_of(data.get("seeds", 1), until)
    if not designs and len(seeds) == 1:
        fix = 'Add [grid] with "dumbbell.rate" = ["1mbit", "10mbit"], or seeds = 20'
        raise refuse("", None, "nothing varies, neither a value nor the seed", fix)
    design = functools.reduce(operator.mul, designs) if designs else single()
    return Sweep(
        base=_base(data, path),
        design=design,
        seeds=seeds,
        until=until,
        kept=RunMetrics.of(_table("metrics", data.get("metrics", {}))),
        keep_tables=keeps_tables(data.get("keep", "summaries")),
        name=str(data.get("name", path.stem)),
    )


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise refuse(key, str(value), "is no table", f"Write [{key}] and the entries below it")
    return value


def _base(data: Mapping[str, Any], path: Path) -> Scenario:
    base = data.get("base")
    if isinstance(base, str):
        scenario = Scenario.from_toml(path.parent / base)
        scenario = scenario if scenario.name else scenario.with_(name=Path(base).stem)
    elif isinstance(base, Mapping):
        scenario = Scenario.from_dict(base)
    else:
        fix = 'Write base = "scenario.toml", or the scenario itself below [base]'
        raise refuse("base", base, "is no scenario", fix)
    # The file may come from a stranger: its traces must be in its folder, or in its scenario's.
    scenario = scenario.distrusting(os.fspath(path))
    changes = _table("set", data.get("set", {}))
    return scenario.with_(changes) if changes else scenario


def _designs(key: str, value: Any) -> list[Design]:
    if key in ("zip", "table") and isinstance(value, list):
        return [design for each in value for design in _designs(key, _table(key, each))]
    fields = _table(key, value)
    if key == "grid":
        return [grid(fields)]
    if key == "zip":
        return [zipped(fields)]
    if key == "table":
        for name in fields:
            if name not in ("columns", "rows"):
                raise refuse(f"table.{name}", None, "there is no such key", "Known here: columns, rows")
        return [table(fields.get("columns", []), fields.get("rows", []))]
    for name in fields:
        if name not in ("points", "seed", "axes"):
            raise refuse(f"{key}.{name}", None, "there is no such key", "Known here: points, seed, axes")
    given = _table(f"{key}.axes", fields.get("axes", {}))
    axes = {path: _axis(f"{key}.axes.{path}", axis) for path, axis in given.items()}
    make = latin_hypercube if key == "latin-hypercube" else sobol
    return [make(axes, fields.get("points", 0), seed=fields.get("seed", 1))]


def _axis(where: str, axis: Any) -> Any:
    if isinstance(axis, list):
        return axis
    if not isinstance(axis, Mapping) or not {"from", "to"} <= axis.keys() <= {"from", "to", "scale"}:
        fix = 'Write { from = "1mbit", to = "100mbit", scale = "log" }, or a list of values'
        raise refuse(where, str(axis), "is neither a range nor a list", fix)
    if axis.get("scale", "linear") not in ("linear", "log"):
        raise refuse(f"{where}.scale", axis["scale"], "there is no such scale", 'Write "linear" or "log"')
    return Span(axis["from"], axis["to"], log=axis.get("scale") == "log")


def _until(value: Any) -> Until:
    table = dict(_table("until", value))
    known = ("metric", "width", "confidence", "statistic", "least", "most")
    for key in table:
        if key not in known:
            raise refuse(f"until.{key}", None, "there is no such key", f"Known here: {', '.join(known)}")
    for key in ("metric", "width"):
        if key not in table:
            raise refuse(f"until.{key}", None, "is missing", 'Write metric = "bulk.goodput_mbps" and width = "5%"')
    return Until(**table)
