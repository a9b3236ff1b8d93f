"""The grid as claims read it: one number of every cell as an array, algorithms × queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from tailback.experiment import Claim, Data, Measured, NotRun, Rule

from .grid import FEW, NETWORKS, TITLES, factors_of

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Parts = dict[str, float]

TIE = 0.05
"""Values this close are no order: the largest is within 5 % of any other."""


@dataclass(frozen=True)
class SeedRuns:
    """The cells of one seed."""

    data: Data
    seed: int
    strict: bool = True
    """Refuse what is not complete; figures show what there is."""

    def at(
        self, what: str, algorithms: Sequence[str], queues: Sequence[float], network: str = "wan", flows: int = FEW
    ) -> Floats:
        """A quantity, shape (algorithms, queues); NaN where a cell has none or is not in this scale's grid.

        Raises `NotRun` for a cell that is in the grid and not yet run, unless not strict.
        """
        return np.array(
            [[self._one(what, factors_of(network, one, queue, flows)) for queue in queues] for one in algorithms]
        )

    def every_seed(self, what: str, algorithms: Sequence[str], queues: Sequence[float], network: str = "wan") -> Floats:
        """The same quantity of every seed of the study, shape (seeds, algorithms, queues)."""
        return np.array([replace(self, seed=one).at(what, algorithms, queues, network) for one in self.data.seeds])

    def quantile(self, size: str, share: float, algorithms: Sequence[str], queues: Sequence[float]) -> Floats:
        """A quantile of response times over the ocean link in seconds, shape (algorithms, queues)."""
        return self._of_quantiles(size, algorithms, queues, lambda each: each[round(share * (len(each) - 1))])

    def without_slowest(self, size: str, algorithms: Sequence[str], queues: Sequence[float]) -> Floats:
        """Mean response times over the ocean link without the slowest twentieth, in seconds.

        A transaction that waits for a retransmission timer takes several times as long as the others, and a few of
        them decide a mean of some hundred.
        """
        return self._of_quantiles(
            size, algorithms, queues, lambda each: float(np.mean(each[: 1 + round(0.95 * (len(each) - 1))]))
        )

    def _of_quantiles(
        self, size: str, algorithms: Sequence[str], queues: Sequence[float], what: Callable[[list[float]], float]
    ) -> Floats:
        found = np.full((len(algorithms), len(queues)), np.nan)
        for row, one in enumerate(algorithms):
            for column, queue in enumerate(queues):
                summary = self.data.run(self.seed, **factors_of("wan", one, queue)) or {}
                if quantiles := summary.get("www", {}).get(size, {}).get("quantiles"):
                    found[row, column] = what(quantiles)
        return found

    def ablation(self, name: str, what: str, algorithms: Sequence[str], queues: Sequence[float]) -> Floats:
        """The same of an ablation over the ocean link."""
        return np.array(
            [[self._one(what, factors_of("wan", one, queue, ablation=name)) for queue in queues] for one in algorithms]
        )

    def _one(self, what: str, factors: Mapping[str, Any]) -> float:
        value: Any = self.data.run(self.seed, **factors)
        if value is None and self.strict and self.data.key(**factors):
            raise NotRun(str(factors))
        for part in what.split("/"):
            value = value.get(part) if isinstance(value, Mapping) else None
        return float("nan") if value is None else float(value)


OfSeed = Callable[[SeedRuns], Measured | None]


def queues_of(network: str) -> tuple[float, ...]:
    """The queue sizes of a network."""
    return NETWORKS[network].queues


def measure(look: OfSeed) -> Callable[[Data, int], Measured | None]:
    """A claim's measure from a look at one seed."""

    def measured(data: Data, seed: int) -> Measured | None:
        with np.errstate(all="ignore"):
            return look(SeedRuns(data, seed))

    return measured


def known(values: Floats) -> Floats:
    """The values that exist; a ratio to nothing does not."""
    flat = np.ravel(values)
    return flat[np.isfinite(flat)]


def mean(values: Floats) -> float:
    """Mean of what exists; NaN of nothing."""
    found = known(values)
    return float(np.mean(found)) if len(found) else float("nan")


def median(values: Floats) -> float:
    """Median of what exists; NaN of nothing."""
    found = known(values)
    return float(np.median(found)) if len(found) else float("nan")


def extreme(values: Floats, largest: bool) -> float:
    """Largest or smallest of what exists; NaN of nothing."""
    found = known(values)
    return float((np.max if largest else np.min)(found)) if len(found) else float("nan")


def by_name(algorithms: Sequence[str], values: Floats) -> Parts:
    """Means over queues, by algorithm."""
    return {TITLES[one]: mean(row) for one, row in zip(algorithms, values, strict=True) if len(known(row))}


def by_queue(queues: Sequence[float], values: Floats) -> Parts:
    """One value a queue."""
    return {
        f"{queue:g} BDP": float(value) for queue, value in zip(queues, np.ravel(values), strict=True)
        if np.isfinite(value)
    }  # fmt: skip


def share_where(mine: Floats, others: Floats, largest: bool, tie: float = TIE) -> tuple[float, Floats]:
    """Per cent of columns in which `mine` is the largest (smallest) of all within the tie; and mine over the best.

    mine (queues,), others (algorithms, queues); columns with a gap are left out.
    """
    best = others.max(axis=0) if largest else others.min(axis=0)
    ratio = mine / best
    found = known(ratio)
    if not len(found):
        return float("nan"), ratio
    won = found >= 1 - tie if largest else found <= 1 + tie
    return 100.0 * float(np.mean(won)), ratio


LEAST_SEEDS = 3
"""Fewer tell nothing of their spread: of two, all of one sample lie below all of another in a sixth of the cases."""


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


def claim(
    name: str, text: str, where: str, paper: str, unit: str, definition: str, look: OfSeed, rule: Rule, figure: str,
    why: str = "", redefined: str = "",
) -> Claim:  # fmt: skip
    """One row of the claims' table. The paper prints no number of its results.

    In brackets behind `why`: what was tested, another cell, an ablation, or the run at the paper's scale.
    """
    return Claim(
        name, text, "qualitative", paper, unit, definition, measure(look), rule, figure, where, why=why,
        redefined=redefined,
    )  # fmt: skip
