"""How many verdicts of a dossier may be wrong: p-values of what was judged, and the false discovery rate over them.

A dossier judges hundreds of numbers, each with an error of 5 %. Benjamini and Hochberg's step-up procedure (JRSS B 57,
1995) bounds the expected share of wrong ones among all that are decided, passed or failed. It is proven for independent
numbers and for positive dependence (Benjamini and Yekutieli, Annals of Statistics 29, 2001). Numbers of one dossier
share runs and seeds. That their dependence is positive is plausible and not proven. `scripts/assess_null` measures what
comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tailback import extras
from tailback.experiment.statistics import RATIO_ERROR

__all__ = ["LEVEL", "combined", "decided", "p_value"]

LEVEL = 0.05
"""Of all verdicts of a dossier, the share that may be wrong."""


def p_value(margins: Sequence[float], ratios: Sequence[float] = ()) -> float:
    """Of both sides together, that `margins` are of a bound: 0.05 or less where `side` decides at 95 %.

    The least of the three ways of `tailback.experiment.statistics.side`, each with its share of the error: Student's t
    of the mean, the sign test, and Student's t of the mean logarithm of `ratios`.

    >>> round(p_value([1.0, 1.2, 0.9]), 4), p_value([1.0, 1.0, 1.0]), p_value([1.0])
    (0.0072, 0.0, 1.0)
    """
    data = np.asarray(margins, dtype=np.float64)
    n = len(data)
    if n < 2:
        return 1.0
    best = _student(data)
    if n < 3 or not (bool((data >= 0.0).all()) or bool((data < 0.0).all())):
        return best
    best = min(best, 2.0 * 0.5**n)
    factors = np.asarray(ratios, dtype=np.float64)
    if len(factors) == n and bool((np.isfinite(factors) & (factors > 0.0)).all()):
        best = min(best, _student(np.log(factors)) / RATIO_ERROR)
    return min(best, 1.0)


def _student(data: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    if float(np.ptp(data)) == 0.0:
        # A margin of exactly nothing is on the good side.
        return 0.0
    stats = extras.load("scipy.stats", "a p-value")
    away = abs(float(np.mean(data))) / float(stats.sem(data))
    return 2.0 * float(stats.t.sf(away, len(data) - 1))


def combined(sides: Mapping[str, int], ps: Mapping[str, float]) -> float:
    """Of a number that is judged against several baselines, of which the most lenient counts.

    Passed is one of them on the good side: the least p, times the number of chances. Failed is all on the bad side: the
    greatest p. `sides` has the direction of each, 1 or -1, whether or not it is sure.

    >>> combined({"a": 1, "b": -1}, {"a": 0.01, "b": 0.2}), combined({"a": -1, "b": -1}, {"a": 0.01, "b": 0.2})
    (0.02, 0.2)
    """
    good = [ps[label] for label, where in sides.items() if where > 0]
    return min(1.0, len(sides) * min(good)) if good else max(ps.values(), default=1.0)


def decided(ps: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of all that were judged stay decided (Benjamini and Hochberg 1995).

    >>> decided([0.001, 0.04, 0.03, 0.9])
    [True, False, False, False]
    >>> decided([0.001, 0.04, 0.03, 0.02])
    [True, True, True, True]
    """
    data = np.asarray(ps, dtype=np.float64)
    order = np.argsort(data, kind="stable")
    below = data[order] <= level * np.arange(1, len(data) + 1) / max(len(data), 1)
    last = int(np.flatnonzero(below)[-1]) + 1 if bool(below.any()) else 0
    out = [False] * len(data)
    for at in order[:last]:
        out[int(at)] = True
    return out
