"""Tables of intervals: medians and quantiles by setting, and the paired effect of each level of a factor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from tailback.errors import nearest
from tailback.judge import CONFIDENCE, StatisticsError, interval, paired
from tailback.metrics.rows import Floats

__all__ = ["StatisticsError", "effects", "fold", "summary"]


def summary(
    frame: pl.DataFrame, metric: str, by: Sequence[str], *, statistic: str = "median", confidence: float = CONFIDENCE
) -> pl.DataFrame:
    """One row per combination of the columns `by`: the statistic of `metric` over the rest, with its interval.

    The column `interval` says what `low` and `high` are: see `judge.Interval.kind`.
    """
    _demand(frame, [metric, *by])
    rows = []
    for group, part in frame.group_by(by, maintain_order=True):
        found = interval(_numbers(part, metric), statistic, confidence=confidence)
        measured: dict[str, Any] = {statistic: found.estimate, "low": found.low, "high": found.high, "n": found.n}
        measured["interval"] = found.kind
        rows.append(dict(zip(by, group, strict=True)) | measured)
    return pl.DataFrame(rows, infer_schema_length=None)


def fold(
    frame: pl.DataFrame,
    *,
    settings: Iterable[str] = (),
    points: int | None = None,
    statistic: str = "median",
    confidence: float = CONFIDENCE,
) -> pl.DataFrame:
    """One row per combination of settings: `statistic` and interval of each measured column.

    Settings are the columns named in `settings` (a swept loss rate is as fractional as a measured one) and all that are
    not fractional; the others are measurements. A measured column `m` becomes `m`, `m low` and `m high`. `n` counts the
    rows that have a measurement: a failed run has none. A column with fewer values has its own count, `m n`.
    `interval` says what low and high are (`m interval` if the columns differ in it): see `judge.Interval.kind`.
    `points` is the number of settings, if known: with one, no column need distinguish the rows. Raises
    `StatisticsError` if the frame has no measurement, or no column that distinguishes its rows.
    """
    given = set(settings)
    measured = [name for name in frame.columns if frame[name].dtype.is_float() and name not in given]
    by = [name for name in frame.columns if name not in measured]
    columns = ", ".join(frame.columns)
    if not measured:
        raise StatisticsError(
            f"the answer has no measured column: {columns}. Select also what was measured, one row a run"
        )
    if not by and points != 1:
        of = "several settings" if points is None else f"{points} settings"
        raise StatisticsError(
            f"the answer has only measurements, of {of}: {columns}. Nothing says which rows belong together. Select "
            'also what was swept (such as "flow.bulk.cc"), or point'
        )
    rows, counts = [], []
    kinds: list[dict[str, str]] = []
    groups = frame.group_by(by, maintain_order=True) if by else [((), frame)]
    for group, part in groups:
        row: dict[str, Any] = dict(zip(by, group, strict=True))
        values = {name: _numbers(part, name) for name in measured}
        kinds.append({})
        for name in measured:
            found = interval(values[name], statistic, confidence=confidence)
            row |= {name: found.estimate, f"{name} low": found.low, f"{name} high": found.high}
            kinds[-1][f"{name} interval"] = found.kind
        has_any = np.any([np.isfinite(each) for each in values.values()], axis=0)
        rows.append(row | {"n": int(has_any.sum())})
        counts.append({f"{name} n": int(np.isfinite(each).sum()) for name, each in values.items()})
    lacking = (
        [key for key in counts[0] if any(each[key] != row["n"] for each, row in zip(counts, rows, strict=True))]
        if counts
        else []
    )
    rows = [row | {key: each[key] for key in lacking} for row, each in zip(rows, counts, strict=True)]
    if all(len(set(each.values())) == 1 for each in kinds):
        kinds = [{"interval": next(iter(each.values()))} for each in kinds]
    rows = [row | each for row, each in zip(rows, kinds, strict=True)]
    return pl.DataFrame(rows, infer_schema_length=None)


def effects(
    frame: pl.DataFrame,
    metric: str,
    factor: str,
    *,
    across: Sequence[str],
    by: Sequence[str] = (),
    baseline: Any = None,
    statistic: str = "mean",
    confidence: float = CONFIDENCE,
) -> pl.DataFrame:
    """Effect of each level of `factor` on `metric`, against the `baseline` level (default: the first).

    Runs are paired if all columns in `across` agree; name the seed and the other factors there. One row per level, of
    each combination of the columns `by` that has pairs: pairs, difference and ratio with intervals, share of pairs
    above the baseline.
    """
    _demand(frame, [metric, factor, *across, *by])
    levels = frame[factor].unique(maintain_order=True).to_list()
    base = levels[0] if baseline is None else baseline
    if base not in levels:
        raise StatisticsError(f"{factor} is never {base}. It is: {', '.join(map(str, levels))}")
    rows = []
    for group, part in frame.group_by(by, maintain_order=True) if by else [((), frame)]:
        by_level = _by_level(part, metric, factor, levels, across)
        for level in levels:
            if level == base or (by and not by_level[base].keys() & by_level[level].keys()):
                continue
            found = paired(by_level[base], by_level[level], statistic=statistic, confidence=confidence)
            rows.append(
                dict(zip(by, group, strict=True))
                | {
                    factor: level,
                    "against": base,
                    "pairs": found.difference.n,
                    "difference": found.difference.estimate,
                    "low": found.difference.low,
                    "high": found.difference.high,
                    "interval": found.difference.kind,
                    "ratio": found.ratio.estimate,
                    "ratio_low": found.ratio.low,
                    "ratio_high": found.ratio.high,
                    "above": found.above,
                }
            )
    if by and not rows:
        raise StatisticsError(f"no two runs differ in {factor} alone, so nothing can be paired. Sweep a grid")
    return pl.DataFrame(rows, infer_schema_length=None)


def _by_level(
    frame: pl.DataFrame, metric: str, factor: str, levels: Sequence[Any], across: Sequence[str]
) -> dict[Any, dict[Any, float]]:
    """The metric of each level's runs, by what pairs them."""
    out: dict[Any, dict[Any, float]] = {}
    for level in levels:
        part = frame.filter(pl.col(factor) == level)
        keys = [tuple(row) for row in part.select(across).rows()]
        if len(set(keys)) < len(keys):
            raise StatisticsError(
                f"several runs with {factor} = {level} agree in {', '.join(across)}, so they cannot be paired. "
                f"Name every other factor in across"
            )
        out[level] = dict(zip(keys, _numbers(part, metric), strict=True))
    return out


def _demand(frame: pl.DataFrame, columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        flow, _, name = missing[0].rpartition(".")
        unrecorded = name.startswith("delay_") and f"{flow}.goodput_mbps" in frame.columns
        fix = f"There are: {', '.join(frame.columns)}"
        if close := nearest(
            missing[0], [name for name in frame.columns if name.startswith(f"{flow}.")] or frame.columns
        ):
            fix = f'Did you mean "{close}"?'
        if unrecorded and f"{flow}.delay_p95_ms" not in frame.columns:
            fix = f'Record the flow\'s packets: instruments = {{ packets = ["{flow}"] }}'
        raise StatisticsError(f"there is no column {missing[0]}. {fix}")


def _numbers(frame: pl.DataFrame, metric: str) -> Floats:
    return np.array([math.nan if value is None else float(value) for value in frame[metric]], dtype=np.float64)
