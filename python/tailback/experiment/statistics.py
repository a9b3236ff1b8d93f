"""How sure a number is: intervals for medians and quantiles, paired comparisons, effect tables.

Runs that share a seed share their random numbers, so that two settings are compared seed by seed: what both have in
common cancels. Everything here is a function of its arguments; resampling uses a fixed seed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback import extras
from tailback.errors import TailbackError

__all__ = [
    "Interval",
    "Paired",
    "StatisticsError",
    "effects",
    "fold",
    "interval",
    "is_most",
    "paired",
    "side",
    "summary",
]

Floats = npt.NDArray[np.float64]

_RESAMPLES = 4999


class StatisticsError(TailbackError):
    """A question the data cannot answer."""


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that holds the true value with the given confidence. NaN from one value."""

    estimate: float
    low: float
    high: float
    n: int
    confidence: float

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.high - self.low

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


def _statistic(name: str) -> Callable[..., Any]:
    if name == "mean":
        return np.mean
    quantile = 0.5 if name == "median" else _quantile(name)

    def at(values: Floats, axis: int = -1) -> Any:
        return np.quantile(values, quantile, axis=axis)

    return at


def _quantile(name: str) -> float:
    try:
        if name.startswith("p") and 0.0 <= float(name[1:]) <= 100.0:
            return float(name[1:]) / 100.0
    except ValueError:
        pass
    raise StatisticsError(f'there is no statistic "{name}". There are: mean, median, and quantiles such as p95')


def interval(
    values: Sequence[float] | Floats,
    statistic: str = "median",
    *,
    confidence: float = 0.95,
    method: str | None = None,
    seed: int = 1,
) -> Interval:
    """The `statistic` ("mean", "median", "p95", …) of independent `values` and its confidence interval.

    `method` is "t" (Student; of the mean only), "percentile" or "bca" (bootstrap). Default: "t" for a mean, as a
    bootstrap of five values is too narrow, "percentile" for quantiles. Values that are not finite are left out.

    >>> interval([4.5, 5.5, 5.0, 4.0, 6.0], "mean").estimate
    5.0
    """
    if not 0.0 < confidence < 1.0:
        raise StatisticsError(f"confidence lies between 0 and 1, it is no {confidence}. Give for example 0.95")
    data = np.asarray(values, dtype=np.float64)
    data = data[np.isfinite(data)]
    measure = _statistic(statistic)
    how = method or ("t" if statistic == "mean" else "percentile")
    if how not in ("t", "percentile", "bca") or (how == "t" and statistic != "mean"):
        raise StatisticsError(f'there is no method "{how}" for a {statistic}. There are: percentile, bca; t for a mean')
    if len(data) == 0:
        return Interval(math.nan, math.nan, math.nan, 0, confidence)
    estimate = float(measure(data))
    if len(data) == 1:
        return Interval(estimate, math.nan, math.nan, 1, confidence)
    if float(np.ptp(data)) == 0.0:
        return Interval(estimate, estimate, estimate, len(data), confidence)
    # Half a second to load, which only those who ask for intervals should wait for.
    stats = extras.load("scipy.stats", "a confidence interval")

    if how == "t":
        half = float(stats.t.ppf(0.5 + confidence / 2, len(data) - 1) * stats.sem(data))
        return Interval(estimate, estimate - half, estimate + half, len(data), confidence)
    with warnings.catch_warnings():
        # A bootstrap that collapses to a point shows below by its width, not by a warning.
        warnings.simplefilter("ignore")
        found = stats.bootstrap(
            (data,),
            measure,
            confidence_level=confidence,
            n_resamples=_RESAMPLES,
            method="BCa" if how == "bca" else "percentile",
            vectorized=True,
            random_state=np.random.default_rng(seed),
        ).confidence_interval
    return Interval(estimate, float(found.low), float(found.high), len(data), confidence)


#: The ratio's interval of `side` leaves a fifth of the error that the mean's may make.
RATIO_ERROR = 0.2


def side(margins: Sequence[float], ratios: Sequence[float] = (), *, confidence: float = 0.95, at_zero: int = 1) -> int:
    """On which side of a bound runs lie: 1 the good one, -1 the bad one, 0 not known with this confidence.

    `margins` are how far each run (or pair of runs with one seed) lies on the good side. They decide in three ways,
    of which the second and third need all of them on one side:

    1. The interval of their mean (Student's t) lies on one side.
    2. The sign test: `n` runs at a bound that half of all runs exceed lie on one side with a probability of 2 / 2^n,
       which is below 5 % from six runs on. It assumes no distribution, and is of the median.
    3. The interval of the mean logarithm of `ratios` (above 1 on the good side) does not hold 1. For counts, times and
       rates, which differ by factors: three seeds of 600, 1,300 and 2,450 packets where 6 are allowed spread widely
       about their mean and little beside the factor of hundreds. It is taken at 99 % where the others are at
       95 %, so that a third way of being right adds little to the chance of being wrong.

    Near a bound the further ways decide hardly a sample that the first leaves open (the tests draw them): they are for
    what is far beyond it. `at_zero` is the side of a margin of exactly nothing. A margin
    that is not finite is a `StatisticsError`: what a missing number means is for the caller to say.

    >>> packets = [600.0, 1300.0, 2450.0]
    >>> margins, ratios = [6.0 - each for each in packets], [6.0 / each for each in packets]
    >>> side([-1.0, -1.2, -0.9]), side(margins), side(margins, ratios)
    (-1, 0, -1)
    """
    data = np.asarray(margins, dtype=np.float64)
    if not bool(np.isfinite(data).all()):
        raise StatisticsError(f"a margin is no number: {data.tolist()}. Judge what is missing by a rule of its own")
    found = interval(data, "mean", confidence=confidence)
    if found.low > 0.0 or (found.low == 0.0 and at_zero > 0):
        return 1
    if found.high < 0.0 or (found.high == 0.0 and at_zero < 0):
        return -1
    signs = np.sign(np.where(data == 0.0, at_zero, data))
    if len(data) < 3 or abs(float(signs.sum())) < len(data):
        return 0
    if 2.0 * 0.5 ** len(data) <= 1.0 - confidence:
        return int(signs[0])
    factors = np.asarray(ratios, dtype=np.float64)
    if len(factors) == len(data) and bool((np.isfinite(factors) & (factors > 0.0)).all()):
        strict = 1.0 - RATIO_ERROR * (1.0 - confidence)
        logs = interval(np.log(factors), "mean", confidence=strict)
        if logs.low > 0.0 or logs.high < 0.0:
            return 1 if logs.low > 0.0 else -1
    return 0


def is_most(hits: int, trials: int, *, confidence: float = 0.95) -> bool:
    """Does the exact interval of a share (Clopper and Pearson 1934) lie above one half?

    >>> [is_most(hits, 10) for hits in (8, 9)], [is_most(hits, 20) for hits in (14, 15)]
    ([False, True], [False, True])
    """
    stats = extras.load("scipy.stats", "a share's interval")
    return hits > 0 and float(stats.beta.ppf(0.5 - confidence / 2, hits, trials - hits + 1)) > 0.5


@dataclass(frozen=True)
class Paired:
    """Two settings compared run by run."""

    #: Of `b - a`.
    difference: Interval
    #: Of `b / a`; NaN unless all of `a` is above zero.
    ratio: Interval
    #: Share of pairs in which `b` is above `a`; ties count half.
    above: float
    #: How much narrower the interval of the difference is than without pairing (variances; above 1 is a gain).
    gain: float


def paired(
    a: Mapping[Any, float], b: Mapping[Any, float], *, statistic: str = "mean", confidence: float = 0.95
) -> Paired:
    """Compare `b` with `a`, both by seed (or whatever runs have in common). Only what both have counts.

    >>> paired({1: 10.0, 2: 20.0}, {1: 11.0, 2: 21.0}).difference.estimate
    1.0
    """
    common = [key for key in a if key in b and math.isfinite(a[key]) and math.isfinite(b[key])]
    if not common:
        raise StatisticsError("nothing to pair: the two have no seed in common. Sweep both with the same seeds")
    left = np.array([a[key] for key in common], dtype=np.float64)
    right = np.array([b[key] for key in common], dtype=np.float64)
    difference = right - left
    nothing = Interval(math.nan, math.nan, math.nan, len(common), confidence)
    ratio = interval(right / left, statistic, confidence=confidence) if bool((left > 0).all()) else nothing
    spread = float(np.var(difference, ddof=1)) if len(common) > 1 else math.nan
    unpaired = float(np.var(left, ddof=1) + np.var(right, ddof=1)) if len(common) > 1 else math.nan
    return Paired(
        interval(difference, statistic, confidence=confidence),
        ratio,
        float(np.mean((difference > 0) + 0.5 * (difference == 0))),
        unpaired / spread if spread else math.nan,
    )


def summary(
    frame: pl.DataFrame, metric: str, by: Sequence[str], *, statistic: str = "median", confidence: float = 0.95
) -> pl.DataFrame:
    """One row a combination of the columns `by`: the statistic of `metric` over the rest, with its interval."""
    _demand(frame, [metric, *by])
    rows = []
    for group, part in frame.group_by(by, maintain_order=True):
        found = interval(_numbers(part, metric), statistic, confidence=confidence)
        measured = {statistic: found.estimate, "low": found.low, "high": found.high, "n": found.n}
        rows.append(dict(zip(by, group, strict=True)) | measured)
    return pl.DataFrame(rows, infer_schema_length=None)


def fold(
    frame: pl.DataFrame, *, settings: Iterable[str] = (), statistic: str = "median", confidence: float = 0.95
) -> pl.DataFrame:
    """One row a combination of settings: `statistic` and interval of each measured column.

    Settings are the columns named in `settings` (a swept loss rate is as fractional as a measured one) and all that
    are not fractional; the others are measurements. A measured column `m` becomes `m`, `m low` and `m high`. `n`
    counts the rows that have a measurement: a run that failed has none. A column that lacks some of those has its own
    count, `m n`. `StatisticsError` if nothing of the frame is a measurement or nothing distinguishes its rows.
    """
    given = set(settings)
    measured = [name for name in frame.columns if frame[name].dtype.is_float() and name not in given]
    by = [name for name in frame.columns if name not in measured]
    if not measured or not by:
        what = "no measured column" if not measured else "only measurements"
        raise StatisticsError(
            f"the answer has {what}: {', '.join(frame.columns)}. Select what distinguishes the settings (such as "
            f'"flow.bulk.cc") and what was measured, one row a run'
        )
    rows, counts = [], []
    for group, part in frame.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, group, strict=True))
        values = {name: _numbers(part, name) for name in measured}
        for name in measured:
            found = interval(values[name], statistic, confidence=confidence)
            row |= {name: found.estimate, f"{name} low": found.low, f"{name} high": found.high}
        has_any = np.any([np.isfinite(each) for each in values.values()], axis=0)
        rows.append(row | {"n": int(has_any.sum())})
        counts.append({f"{name} n": int(np.isfinite(each).sum()) for name, each in values.items()})
    lacking = (
        [key for key in counts[0] if any(each[key] != row["n"] for each, row in zip(counts, rows, strict=True))]
        if counts
        else []
    )
    rows = [row | {key: each[key] for key in lacking} for row, each in zip(rows, counts, strict=True)]
    return pl.DataFrame(rows, infer_schema_length=None)


def effects(
    frame: pl.DataFrame,
    metric: str,
    factor: str,
    *,
    across: Sequence[str],
    baseline: Any = None,
    statistic: str = "mean",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """What each level of `factor` does to `metric`, against the `baseline` level (default: the first).

    Runs are paired where all columns `across` agree; name the seed and the other factors there. One row a level:
    pairs, difference and ratio with intervals, share of pairs above the baseline.
    """
    _demand(frame, [metric, factor, *across])
    levels = frame[factor].unique(maintain_order=True).to_list()
    base = levels[0] if baseline is None else baseline
    if base not in levels:
        raise StatisticsError(f"{factor} is never {base}. It is: {', '.join(map(str, levels))}")
    by_level: dict[Any, dict[Any, float]] = {}
    for level in levels:
        part = frame.filter(pl.col(factor) == level)
        keys = [tuple(row) for row in part.select(across).rows()]
        if len(set(keys)) < len(keys):
            raise StatisticsError(
                f"several runs with {factor} = {level} agree in {', '.join(across)}, so they cannot be paired. "
                f"Name every other factor in across"
            )
        by_level[level] = dict(zip(keys, _numbers(part, metric), strict=True))
    rows = []
    for level in levels:
        if level == base:
            continue
        found = paired(by_level[base], by_level[level], statistic=statistic, confidence=confidence)
        rows.append(
            {
                factor: level,
                "against": base,
                "pairs": found.difference.n,
                "difference": found.difference.estimate,
                "low": found.difference.low,
                "high": found.difference.high,
                "ratio": found.ratio.estimate,
                "ratio_low": found.ratio.low,
                "ratio_high": found.ratio.high,
                "above": found.above,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _demand(frame: pl.DataFrame, columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise StatisticsError(f"there is no column {missing[0]}. There are: {', '.join(frame.columns)}")


def _numbers(frame: pl.DataFrame, metric: str) -> Floats:
    return np.array([math.nan if value is None else float(value) for value in frame[metric]], dtype=np.float64)
