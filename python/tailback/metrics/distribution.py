"""Distributions: CDF, distance between two of them, shares, and decimation that keeps a series' shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailback import _core

from .registry import metric
from .rows import Floats, floats


def quantiles_of(values: Any, shares: Sequence[float]) -> Floats:
    """Quantiles by linear interpolation between order statistics, in the values' unit; NaN if there are no values.

    >>> quantiles_of([4.0, 1.0, 3.0, 2.0], [0.0, 0.5, 1.0]).tolist()
    [1.0, 2.5, 4.0]
    """
    return np.asarray(_core.quantiles(floats(values), [float(share) for share in shares]), dtype=np.float64)


@metric(title="Cumulative distribution", unit="value, share", source="definition")
def cdf(values: Floats) -> tuple[Floats, Floats]:
    """Sorted values and the share of all values at or below each.

    Missing values (NaN) are left out.
    """
    kept = np.sort(floats(values)[~np.isnan(values)])
    if len(kept) == 0:
        return kept, kept
    return kept, np.arange(1, len(kept) + 1, dtype=np.float64) / len(kept)


@metric(title="Distance between distributions", unit="1 (0 … 1)", source="Kolmogorov–Smirnov statistic")
def distribution_distance(first: Floats, second: Floats) -> float:
    """Largest vertical distance between two empirical CDFs (two-sample Kolmogorov–Smirnov statistic)."""
    a, b = np.sort(floats(first)), np.sort(floats(second))
    if len(a) == 0 or len(b) == 0:
        return float("nan")
    every = np.concatenate([a, b])
    share_a = np.searchsorted(a, every, side="right") / len(a)
    share_b = np.searchsorted(b, every, side="right") / len(b)
    return float(np.max(np.abs(share_a - share_b)))


@metric(
    title="Share above a threshold",
    unit="1",
    source="CAIA-TR-080818A section VII, “over 3/4 full 90 % of the time”",
)
def share_above(values: Floats, threshold: float) -> float:
    """Share of the (non-missing) values that are strictly above the threshold."""
    kept = floats(values)[~np.isnan(values)]
    return float(np.mean(kept > threshold)) if len(kept) else float("nan")


@metric(title="Decimation", unit="as given", source="largest and smallest value of each bin")
def decimate(times: Floats, values: Floats, points: int = 2000) -> tuple[Floats, Floats]:
    """At most `points` points that keep first and last value and every bin's minimum and maximum, in time order.

    Unlike striding, it keeps every peak and trough that a picture of that width can show.
    """
    t, v = floats(times), floats(values)
    if len(t) <= points or points < 4:
        return t, v
    bins = (points - 2) // 2
    edges = np.linspace(0, len(t), bins + 1).astype(np.int64)
    sizes = np.diff(edges)
    bin_of = np.repeat(np.arange(bins), sizes)
    chosen = [np.array([0, len(t) - 1])]
    # fmin and fmax ignore missing values; a bin with only missing values has no extremes.
    for extreme in (np.fmin, np.fmax):
        at = np.flatnonzero(v == np.repeat(extreme.reduceat(v, edges[:-1]), sizes))
        chosen.append(at[np.unique(bin_of[at], return_index=True)[1]])
    order = np.unique(np.concatenate(chosen))
    return t[order], v[order]


@metric(title="Truncated mean", unit="as given", source="Murray and Ong: the lowest tenth is cut; trimmed mean")
def truncated_mean(values: Floats, lowest: float = 0.1, highest: float = 0.0) -> float:
    """Mean without the lowest and highest shares of the (non-missing) values, each rounded down to whole values."""
    if lowest < 0.0 or highest < 0.0 or lowest + highest >= 1.0:
        raise ValueError(f"shares of {lowest:g} and {highest:g} leave nothing: both at least 0, together below 1")
    kept = np.sort(floats(values)[~np.isnan(values)])
    # 0.1 · 30 is slightly above 3 in binary, 0.1 · 70 slightly above 7: such a rounding error must not count as a
    # value.
    low, high = int(lowest * len(kept) + 1e-9), int(highest * len(kept) + 1e-9)
    kept = kept[low : len(kept) - high]
    return float(np.mean(kept)) if len(kept) else float("nan")


@metric(title="Interquartile range", unit="as given", source="linear interpolation between order statistics")
def interquartile_range(values: Floats) -> float:
    """Third quartile minus the first, of the (non-missing) values."""
    kept = floats(values)[~np.isnan(values)]
    if len(kept) == 0:
        return float("nan")
    low, high = quantiles_of(kept, (0.25, 0.75))
    return float(high - low)
