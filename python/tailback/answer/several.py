"""Summarizes several runs: medians with intervals over seeds, and the best and worst settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from tailback import metrics
from tailback.answer.parts import LINES, Answer, Measured, Statement
from tailback.experience import NOTICED
from tailback.experiment import statistics
from tailback.experiment.store.axes import pooled, settings
from tailback.judge import are_enough
from tailback.numbers import written
from tailback.plots import sweeps

__all__ = ["answer_of_runs"]

#: A store's columns of people's measures: the column's suffix, its words, its unit, and the measure.
_PEOPLE = (
    ("experience_mos", "quality", "MOS", "voice_quality"),
    ("late_100", "share of late updates", "", "late_share"),
    ("stalled_s", "standstill", "s", "film"),
    ("startup_s", "time until it plays", "s", "film"),
    # Where packets are recorded, what a flow experiences is their delay; else it is the time until a response.
    ("delay_p95_ms", "one-way delay at 95 %", "ms", "delay_quantiles"),
    ("experience_p95_ms", "response time at 95 %", "ms", "response_time_quantiles"),
)
_TRANSFER = ("goodput_mbps", "goodput", "Mbit/s", "goodput")
#: Measures of a film for which lower is better.
_LOWER = frozenset({"stalled_s", "startup_s"})


def answer_of_runs(frame: pl.DataFrame) -> Answer:
    """Summary of a store's runs: people first, then transfers, then the number of seeds.

    Of each the median over seeds, with its interval or range; where a sweep varied something, of the settings in
    which it is best and worst. Runs that failed are left out.
    """
    done = frame.filter(pl.col("status") == "ok") if "status" in frame.columns else frame
    axes = [axis.column for axis in sweeps.axes_of(done)]
    statements = [each for chosen in _columns(done) for each in _of_column(done, axes, *chosen)]
    return Answer((*statements[: LINES - 1], _certainty(done, axes, len(frame) - len(done))))


def _columns(frame: pl.DataFrame) -> Iterator[tuple[str, str, tuple[str, str, str, str]]]:
    """Column, flow and words of each person's first measure, and of each transfer's goodput."""
    names = list(dict.fromkeys(name.rpartition(".")[0] for name in frame.columns if "." in name))
    people: list[str] = []
    for row in _PEOPLE:
        for of in names:
            column = f"{of}.{row[0]}"
            # A film that never stalled is judged by its startup time.
            if of not in people and _has(frame, column) and (row[0] != "stalled_s" or frame[column].max()):
                people.append(of)
                yield column, of, row
    for of in names:
        if of not in people and _has(frame, f"{of}.goodput_mbps"):
            yield f"{of}.goodput_mbps", of, _TRANSFER


def _has(frame: pl.DataFrame, column: str) -> bool:
    if column not in frame.columns or not frame[column].dtype.is_numeric():
        return False
    return bool(frame[column].cast(pl.Float64).is_finite().fill_null(False).any())


def _of_column(
    frame: pl.DataFrame, axes: Sequence[str], column: str, of: str, words: tuple[str, str, str, str]
) -> Iterator[Statement]:
    ending, what, unit, measure = words
    kind = "differs"
    marked = frame.with_columns(pl.lit("all").alias("_every")) if not axes else frame
    rows = statistics.summary(marked, column, axes or ["_every"]).to_dicts()
    rows = [row for row in rows if row["median"] is not None and math.isfinite(row["median"])]
    if not rows:
        return
    is_higher_better = metrics.get(measure).better == "higher" and ending not in _LOWER
    rows.sort(key=lambda row: row["median"], reverse=is_higher_better)
    best, worst = rows[0], rows[-1]

    def value(row: dict[str, Any], asked: str) -> Measured:
        return Measured(measure, of, float(row["median"]), unit, None, asked)

    if len(rows) == 1:
        found = value(best, "median over seeds")
        yield Statement("takes", f"{of}: {what} is {_certain(best, found)}.", (found,))
        return
    step = NOTICED.get(ending)
    alike = [row for row in rows if step and abs(row["median"] - best["median"]) <= step.step]
    good, bad = value(best, f"median, {_setting(best, axes)}"), value(worst, f"median, {_setting(worst, axes)}")
    text = (
        f"{of}: {what} is best with {_setting(best, axes)}, {_certain(best, good)}, "
        f"and worst with {_setting(worst, axes)}, {_certain(worst, bad)}."
    )
    if step and len(alike) == len(rows):
        kind = "spared"
        text = (
            f"{of}: {what} is {good} to {bad}; no setting differs by the {written(step.step)} {unit} that are noticed."
        )
    elif len(alike) > 1:
        text = (
            f"{of}: {what} is best with {_setting(best, axes)}, {_certain(best, good)}; equal within the step of "
            f"{written(step.step if step else 0.0)} {unit} that is noticed: {len(alike) - 1} other settings, such as "
            f"{_setting(alike[1], axes)}. It is worst with {_setting(worst, axes)}, {_certain(worst, bad)}."
        )
    elif _overlap(best, worst):
        kind = "spared"
        text = (
            f"{of}: {what} is {good} to {bad}; no setting is seen to differ from another, as their intervals overlap."
        )
    yield Statement(kind, text, (good, bad))


def _certain(row: dict[str, Any], found: Measured) -> str:
    """A median with its interval, in a sentence's form."""
    if not math.isfinite(row["low"]):
        return f"{found} (one run)"
    return f"{found} ({written(row['low'], 3)} to {written(row['high'], 3)})"


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the intervals of two settings share a value; unknown ones do not."""
    return bool(max(one["low"], other["low"]) <= min(one["high"], other["high"]))


def _setting(row: dict[str, Any], axes: Sequence[str]) -> str:
    return ", ".join(f"{axis} = {row[axis]}" for axis in axes)


def _certainty(frame: pl.DataFrame, axes: Sequence[str], failed: int) -> Statement:
    seeds = frame.group_by(axes).agg(pl.col("seed").n_unique())["seed"] if axes else [frame["seed"].n_unique()]
    few, many = int(min(seeds)), int(max(seeds))
    count = f"{few}" if few == many else f"{few} to {many}"
    where = f" in {settings(frame, axes)} settings" if axes else ""
    if many == 1:
        text = f"{len(frame):,} runs{where}, one seed each: there are no intervals, and other seeds may differ."
    else:
        what = "the median's 95 % interval (bootstrap)" if are_enough(few) else "the range over the seeds"
        text = f"{len(frame):,} runs{where}, {count} seeds each: in parentheses {what}."
    if failed:
        text += f" {failed:,} failed runs are left out."
    if several := pooled(frame, axes):
        text += f" Settings that pool runs of different scenarios: {several}. Keep such sweeps in separate stores."
    return Statement("certainty", text)
