"""Summaries of runs: numbers that JSON can hold, and distributions as quantiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tailback.metrics.rows import Floats

Summary = dict[str, Any]
QUANTILES = np.linspace(0.0, 1.0, 201)
"""Levels at which a distribution is kept."""


def rounded(values: Any, digits: int) -> list[float]:
    """The values rounded to this many decimals."""
    return [float(value) for value in np.round(values, digits)]


def pooled(parts: Iterable[Floats]) -> Floats:
    """All finite samples in one array."""
    every = np.concatenate([np.zeros(0), *parts])
    found: Floats = every[~np.isnan(every)]
    return found


def quantiles(values: Floats, digits: int = 4) -> list[float] | None:
    """A distribution at the levels of `QUANTILES`; `None` if it is empty."""
    return rounded(np.quantile(values, QUANTILES), digits) if len(values) else None


def quantile(share: float) -> Callable[[list[float]], float]:
    """One quantile from the stored ones."""
    return lambda kept: float(np.interp(share, QUANTILES, kept))


def inside(summary: Summary, path: str) -> Any:
    """The value at a path of a summary, such as "www/64/mean"; `None` if there is none."""
    value: Any = summary
    for part in path.split("/"):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
