"""P-values of judged numbers, and control of the share of wrong verdicts.

A dossier judges hundreds of numbers, each with an error of 5 %. Benjamini and Hochberg's step-up procedure (JRSS B 57,
1995) bounds the expected share of wrong ones among all that pass, and among all that fail. It is proven for independent
numbers and for positive dependence (Benjamini and Yekutieli, Annals of Statistics 29, 2001). Numbers of one dossier
share runs and seeds; that their dependence is positive is plausible but not proven. `scripts/assess_null` measures the
resulting error rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tailback import extras
from tailback.judge.intervals import CONFIDENCE, Floats, side
from tailback.judge.verdict import Verdict

__all__ = [
    "LEVEL", "Share", "Weighed", "combined", "decided", "decided_apart", "holm", "of_mean", "of_share", "p_value",
    "signed_rank", "weigh",
]  # fmt: skip

LEVEL = 0.05
"""The false discovery rate allowed in a dossier."""
#: Share of the error for the interval of ratios, as `RATIO_ERROR` in verdict.rs. A test compares p with `side`.
RATIO_ERROR = 0.2


def p_value(margins: Sequence[float], ratios: Sequence[float] = ()) -> float:
    """Two-sided p-value that `margins` lie at the bound: at most 0.05 where `side` decides at 95 %.

    The least of the three ways of `tailback.judge.side`, each with its share of the error: Student's t
    of the mean, the sign test, and Student's t of the mean logarithm of `ratios`.

    >>> round(p_value([1.0, 1.2, 0.9]), 4), p_value([1.0, 1.0, 1.0]), p_value([1.0])
    (0.0072, 0.0, 1.0)
    """
    data = np.asarray(margins, dtype=np.float64)
    n = len(data)
    if n < 2:
        return 1.0
    best = of_mean(data)
    if n < 3 or not (bool((data >= 0.0).all()) or bool((data < 0.0).all())):
        return best
    best = min(best, 2.0 * 0.5**n)
    factors = np.asarray(ratios, dtype=np.float64)
    if len(factors) == n and bool((np.isfinite(factors) & (factors > 0.0)).all()):
        best = min(best, of_mean(np.log(factors)) / RATIO_ERROR)
    return min(best, 1.0)


def of_mean(values: Sequence[float] | Floats, bound: float = 0.0) -> float:
    """Two-sided p-value of Student's t that the mean of `values` lies at the bound."""
    data = np.asarray(values, dtype=np.float64)
    if float(np.ptp(data)) == 0.0:
        # A margin of exactly 0 is on the good side.
        return 0.0
    stats = extras.load("scipy.stats", "a p-value")
    spread = float(np.std(data, ddof=1)) / math.sqrt(len(data))
    return 2.0 * float(stats.t.sf(abs(float(np.mean(data)) - bound) / spread, len(data) - 1))


@dataclass(frozen=True)
class Share:
    """A share with its exact interval (Clopper and Pearson 1934), and the p-value of a bound."""

    estimate: float
    low: float
    high: float
    p: float


def of_share(hits: int, trials: int, bound: float) -> Share:
    """Exact test that a share lies at the bound.

    >>> of_share(5, 10, 0.5).p
    1.0
    """
    stats = extras.load("scipy.stats", "a share's interval")
    ends = stats.binomtest(hits, trials, bound).proportion_ci(CONFIDENCE)
    tails = float(stats.binom.cdf(hits, trials, bound)), float(stats.binom.sf(hits - 1, trials, bound))
    return Share(hits / trials, float(ends.low), float(ends.high), min(1.0, 2.0 * min(tails)))


@dataclass(frozen=True)
class Weighed:
    """The verdict on margins, taken seed by seed."""

    verdict: Verdict
    #: The side of their mean, 1 or -1, significant or not.
    direction: int
    p: float


def weigh(margins: Sequence[float], ratios: Sequence[float] = (), looks: int = 1) -> Weighed:
    """The verdict on margins (and ratios) as `side` takes them, with its p-value.

    Repeated looks that stop at a significant verdict have as many chances of error. So the `looks` divide the error
    among them (Bonferroni), and p covers all of them.

    >>> weigh([-1.0, -1.2, -0.9]).verdict, weigh([-1.0, -1.6, -0.9]).verdict, weigh([-1.0, -1.6, -0.9], looks=3).verdict
    ('failed', 'failed', 'undecided')
    """
    where = side(margins, ratios, confidence=1.0 - LEVEL / looks)
    p = min(1.0, looks * p_value(margins, ratios))
    return Weighed(Verdict.of_side(where), 1 if math.fsum(margins) >= 0.0 else -1, p)


def combined(sides: Mapping[str, int], ps: Mapping[str, float]) -> float:
    """The joint p-value of a number judged against several baselines, of which the most lenient counts.

    Passed means that one is on the good side: the least p, times the number of chances. Failed means that all are on
    the bad side: the greatest p. `sides` has the direction of each, 1 or -1, significant or not.

    >>> combined({"a": 1, "b": -1}, {"a": 0.01, "b": 0.2}), combined({"a": -1, "b": -1}, {"a": 0.01, "b": 0.2})
    (0.02, 0.2)
    """
    good = [ps[label] for label, where in sides.items() if where > 0]
    return min(1.0, len(sides) * min(good)) if good else max(ps.values(), default=1.0)


def decided(ps: Sequence[float], level: float = LEVEL) -> list[bool]:
    """For each p-value, whether it stays decided (Benjamini and Hochberg 1995).

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


def decided_apart(ps: Sequence[float], sides: Sequence[int]) -> list[bool]:
    """`decided`, separately for the good side (1) and the bad side (-1), each relative to all p-values.

    A joint rate would allow most of a few failures among many clear passes to be wrong.

    >>> decided([0.001, 0.001, 0.001, 0.03]), decided_apart([0.001, 0.001, 0.001, 0.03], [1, 1, 1, -1])
    ([True, True, True, True], [True, True, True, False])
    """
    apart = [decided([p if at == side else 1.0 for p, at in zip(ps, sides, strict=True)]) for side in (1, -1)]
    return [good or bad for good, bad in zip(*apart, strict=True)]


def holm(ps: Sequence[float], level: float) -> list[bool]:
    """For each p-value, whether it stays decided with a family-wise error of at most `level` (Holm 1979).

    >>> holm([0.06, 0.001, 0.02], 0.05)
    [False, True, True]
    """
    out = [False] * len(ps)
    for done, at in enumerate(sorted(range(len(ps)), key=lambda at: ps[at])):
        if ps[at] > level / (len(ps) - done):
            break
        out[at] = True
    return out


def signed_rank(differences: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, exact with ties; zeros are left out.

    >>> signed_rank([0.0, 0.0, 0.0]), signed_rank([2.5] * 10) == 2 * 0.5**10, signed_rank([1.0, -1.0])
    (1.0, True, 1.0)
    """
    data = np.asarray(differences, dtype=np.float64)
    data = data[data != 0.0]
    if not len(data):
        return 1.0
    _, place, count = np.unique(np.abs(data), return_inverse=True, return_counts=True)
    # Twice the mean rank of equal sizes, so that it is a whole number.
    ranks = (2 * np.cumsum(count) - count + 1)[place]
    total = int(ranks.sum())
    # The probability of each sum of positive ranks; signs are equally likely.
    chances = np.zeros(total + 1)
    chances[0] = 1.0
    for rank in ranks:
        shifted = np.zeros_like(chances)
        shifted[rank:] = chances[: total + 1 - rank]
        chances = 0.5 * (chances + shifted)
    seen = int(ranks[data > 0.0].sum())
    tail = float(chances[: min(seen, total - seen) + 1].sum())
    return min(1.0, 2.0 * tail)
