"""The grid as claims read it: one number of every cell as an array, algorithms × queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from tailback.experiment import Data, Measure, Parts, by_name, known, mean, of

from .grid import FEW, TITLES

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

TIE = 0.05
"""Values this close are no order: the largest is within 5 % of any other."""
NAME, QUEUE = "{algorithm}", "{queue_bdp:g} BDP"
"""What numbers beside a claim are called: means over the queues, by algorithm, or one a queue."""


def at(
    data: Data, seed: int | None, what: str, algorithms: Sequence[str], queues: Sequence[float], network: str = "wan",
    flows: int = FEW, **options: Any,
) -> Floats:  # fmt: skip
    """A quantity, shape (algorithms, queues); of all seeds, shape (seeds, algorithms, queues), if none is given."""
    return data.array(
        what, seed, network=network, algorithm=tuple(algorithms), queue_bdp=tuple(queues), flows=flows, **options
    )


def measured(
    network: str | Sequence[str], what: str, algorithms: Sequence[str], queues: Sequence[float],
    value: Callable[[Floats], Any], over: Callable[[Any], float] = mean, **rest: Any,
) -> Measure:  # fmt: skip
    """A measure of an array of shape (…, algorithms, queues), with what is given besides before them."""
    axes: dict[str, Any] = {"flows": FEW, **rest, "network": network, "algorithm": algorithms, "queue_bdp": queues}
    return of(what, value, over, titles=TITLES, **axes)


def named(algorithms: Sequence[str], values: Floats) -> Parts:
    """Means over queues, by algorithm."""
    return by_name(NAME, values, TITLES, algorithm=algorithms, queue_bdp=range(values.shape[-1]))


# --- What is made of algorithms × queues: the first beside the others ----------------------------------------------


def same(a: Floats) -> Any:
    """As it is."""
    return a


def lead(a: Floats) -> Any:
    """The first less the second."""
    return a[0] - a[1]


def ratio(a: Floats) -> Any:
    """The first over the second."""
    return a[0] / a[1]


def above(a: Floats) -> Any:
    """Each of the others less the first."""
    return a[1:] - a[:1]


def times(a: Floats) -> Any:
    """Each of the others over the first."""
    return a[1:] / a[:1]


def over_mean(a: Floats) -> Any:
    """The first over the others' mean."""
    return a[0] / a[1:].mean(axis=0)


def over_largest(a: Floats) -> Any:
    """The first over the largest other."""
    return a[0] / a[1:].max(axis=0)


def over_smallest(a: Floats) -> Any:
    """The first over the smallest other."""
    return a[0] / a[1:].min(axis=0)


def share(holds: Callable[[Floats], Any]) -> Callable[[Floats], float]:
    """Per cent of the values that exist for which it holds."""
    return lambda values: 100.0 * mean(holds(known(values)))


LARGEST, SMALLEST = share(lambda ratio: ratio >= 1 - TIE), share(lambda ratio: ratio <= 1 + TIE)
"""Per cent of the queues at which the first is the largest (smallest) of all within the tie, of its ratios to the best
other."""


LEAST_SEEDS = 3
"""Fewer say nothing about their spread: of two, all of one sample lie below all of another in a sixth of the cases."""


def below_in_every_seed(mine: Floats, other: Floats, gap: Floats) -> Flags:
    """Where every seed of `mine` is below every seed of `other`, and its median by more than `gap`.

    mine, other (seeds, …), gap (…). Of two equal samples of three seeds one is wholly below the other by chance in one
    case of twenty.
    """
    apart: Flags = mine.max(axis=0) < other.min(axis=0)
    return apart & (np.median(mine, axis=0) < np.median(other, axis=0) - gap)


def rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's coefficient over the cells that exist."""
    a, b = np.ravel(a), np.ravel(b)
    both = ~(np.isnan(a) | np.isnan(b))
    if int(np.sum(both)) < 4:
        return float("nan")
    return float(np.corrcoef(rankdata(a[both]), rankdata(b[both]))[0, 1])
