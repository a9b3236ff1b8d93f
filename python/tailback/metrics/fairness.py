"""How evenly flows share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .registry import metric


@metric(title="Jain's fairness index", unit="1 (1/n … 1)", source="Jain, Chiu and Hawe, DEC-TR-301 (1984)")
def jain(shares: Sequence[float]) -> float:
    """(Σx)² / (n·Σx²): 1 when all shares are equal, 1/n when one flow has everything.

    Undefined (NaN) when there is nothing to share.
    """
    x = np.asarray(shares, dtype=np.float64)
    squares = float(np.sum(x * x))
    return float(np.sum(x)) ** 2 / (len(x) * squares) if squares > 0.0 else float("nan")


@metric(title="Share against a competitor", unit="1", source="Murray and Ong, friendliness")
def friendliness(rate: float, competitor: float) -> float:
    """X / (x + y): one half is an even split."""
    return rate / (rate + competitor) if rate + competitor > 0.0 else float("nan")
