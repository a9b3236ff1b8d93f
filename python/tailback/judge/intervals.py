"""Uncertainty: intervals for means, medians and quantiles, the side of a bound, paired comparisons.

Runs with the same seed share their random numbers, so two settings are compared seed by seed, and common effects
cancel. All functions are pure; resampling uses a fixed seed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback import _core, extras
from tailback.errors import TailbackError

__all__ = [
    "CONFIDENCE",
    "Interval",
    "Paired",
    "StatisticsError",
    "are_enough",
    "gap",
    "interval",
    "is_most",
    "paired",
    "side",
    "unpaired",
]

Floats = npt.NDArray[np.float64]

#: Default confidence of intervals and verdicts.
CONFIDENCE = 0.95
_RESAMPLES = 4999


class StatisticsError(TailbackError):
    """A question that the data cannot answer."""


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that holds the true value with the given confidence. NaN from one value.

    A median of few values has no such interval: `low` and `high` are then the least and the greatest (`is_range`).
    """

    estimate: float
    low: float
    high: float
    n: int
    confidence: float
    #: Whether the values are too few for an interval of this confidence.
    is_range: bool = False

    @property
    def coverage(self) -> float:
        """The chance that a median lies between the least and the greatest of n values; else the confidence."""
        return 1.0 - 2.0 * 0.5**self.n if self.is_range else self.confidence

    @property
    def kind(self) -> str:
        """What `low` and `high` are: "95 % interval", "range of 5 runs", or "5 equal runs"; "none" from one value."""
        if self.n < 2:
            return "none"
        if self.low == self.high:
            return f"{self.n} equal runs"
        return f"range of {self.n} runs" if self.is_range else f"{100 * self.confidence:g} % interval"

    @property
    def width(self) -> float:
        """Width of the interval."""
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
    confidence: float = CONFIDENCE,
    method: str | None = None,
    seed: int = 1,
) -> Interval:
    """The `statistic` ("mean", "median", "p95", …) of independent `values` and its confidence interval.

    `method` is "t" (Student; of the mean only), "percentile" or "bca" (bootstrap). Default: "t" for a mean, as a
    bootstrap of five values is too narrow, "percentile" for quantiles. Values that are not finite are left out. A
    median of fewer values than its confidence needs (6 for 95 %) gets their range, and says so in `kind`.

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
    if statistic == "median" and method is None and not are_enough(len(data), confidence):
        # A bootstrap would give the same two values, under a confidence that they do not have.
        return Interval(estimate, float(data.min()), float(data.max()), len(data), confidence, is_range=True)
    # Half a second to load, which only those who ask for intervals should wait for.
    stats = extras.load("scipy.stats", "a confidence interval")

    if how == "t":
        half = float(stats.t.ppf(0.5 + confidence / 2, len(data) - 1) * stats.sem(data))
        return Interval(estimate, estimate - half, estimate + half, len(data), confidence)
    with warnings.catch_warnings():
        # A bootstrap that collapses to a point is detected below by its width, not by a warning.
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


def are_enough(n: int, confidence: float = CONFIDENCE) -> bool:
    """Whether a median of n values has an interval of this confidence: all of them hold it with 1 - 2 * 0.5**n.

    >>> [are_enough(n) for n in (5, 6)]
    [False, True]
    """
    return 1.0 - 2.0 * 0.5**n >= confidence


def side(
    margins: Sequence[float], ratios: Sequence[float] = (), *, confidence: float = CONFIDENCE, at_zero: int = 1
) -> int:
    """The side of a bound on which runs lie: 1 is good, -1 is bad, 0 is undecided at this confidence.

    `margins` state how far each run (or pair of runs with one seed) lies on the good side. The interval of their mean
    decides. If all lie on one side, the sign test may decide too, or the interval of the mean logarithm of `ratios`,
    which are above 1 on the good side. `crates/tailback-measures/src/verdict.rs` has the rules and their reasons.
    `at_zero` is the side of a margin of exactly 0. A margin that is not finite raises `StatisticsError`: the caller
    must decide what a missing number means.

    >>> packets = [600.0, 1300.0, 2450.0]
    >>> margins, ratios = [6.0 - each for each in packets], [6.0 / each for each in packets]
    >>> side([-1.0, -1.2, -0.9]), side(margins), side(margins, ratios)
    (-1, 0, -1)
    """
    data = list(map(float, margins))
    if not all(map(math.isfinite, data)):
        raise StatisticsError(f"a margin is no number: {data}. Judge what is missing by a rule of its own")
    return _core.side_of_zero(data, list(map(float, ratios)), confidence, at_zero)


def is_most(hits: int, trials: int, *, confidence: float = CONFIDENCE) -> bool:
    """Whether the exact interval of a share (Clopper and Pearson 1934) lies above one half.

    >>> [is_most(hits, 10) for hits in (8, 9)], [is_most(hits, 20) for hits in (14, 15)]
    ([False, True], [False, True])
    """
    stats = extras.load("scipy.stats", "a share's interval")
    return hits > 0 and float(stats.beta.ppf(0.5 - confidence / 2, hits, trials - hits + 1)) > 0.5


@dataclass(frozen=True)
class Paired:
    """Two settings compared run by run."""

    #: Interval of `b - a`.
    difference: Interval
    #: Interval of `b / a`; NaN unless all values of `a` are above zero.
    ratio: Interval
    #: Share of pairs in which `b` is above `a`; ties count half.
    above: float
    #: Ratio of the variances of the difference without and with pairing; above 1 is a gain.
    gain: float


def paired(
    a: Mapping[Any, float], b: Mapping[Any, float], *, statistic: str = "mean", confidence: float = CONFIDENCE
) -> Paired:
    """Compare `b` with `a`, both by seed (or another common key). Only common keys count.

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
    apart = float(np.var(left, ddof=1) + np.var(right, ddof=1)) if len(common) > 1 else math.nan
    return Paired(
        interval(difference, statistic, confidence=confidence),
        ratio,
        float(np.mean((difference > 0) + 0.5 * (difference == 0))),
        apart / spread if spread else math.nan,
    )


def unpaired(a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """The difference of the means, b - a, of independent runs, with Welch's interval (Biometrika 34, 1947).

    `n` counts the runs of both; at least two of each.

    >>> str(unpaired([1.0, 2.0, 3.0], [11.0, 12.0, 13.0]))
    '10 [7.733, 12.27]'
    """
    if min(len(a), len(b)) < 2:
        raise StatisticsError(f"an interval needs two runs of each: there are {len(a)} and {len(b)}")
    stats = extras.load("scipy.stats", "a confidence interval")
    found = stats.ttest_ind(b, a, equal_var=False).confidence_interval(confidence)
    return Interval(float(np.mean(b) - np.mean(a)), float(found.low), float(found.high), len(a) + len(b), confidence)


def gap(one: Sequence[float], other: Sequence[float]) -> float:
    """The gap between two ranges of values.

    Zero or negative if the ranges touch or overlap.

    >>> gap([1.0, 2.0], [5.0, 9.0]), gap([1.0, 6.0], [5.0, 9.0])
    (3.0, -1.0)
    """
    return max(min(one) - max(other), min(other) - max(one))
