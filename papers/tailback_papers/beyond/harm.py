"""Harm, and which pair does least of it for what throughput.

Harm after Ware, Mukerjee, Seshan and Sherry, “Beyond Jain's Fairness Index: Setting the Bar For The Deployment of
Congestion Control Algorithms” (HotNets 2019): what a competitor takes from an application, as a share of what it had
alone. (alone − with)/alone where more is better, (with − alone)/with where less is better: 0 is no harm, 1 is ruin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailback.experiment import Data, Summary
from tailback.experiment.statistics import Interval, interval

from .grid import PATHS, QUEUES, Path, algorithms, alone_key, key_of, title

ENOUGH = 0.9
"""A pair is eligible with this share of the best throughput any pair has on the path."""


def call_harm(alone: Summary, beside: Summary) -> float:
    """Share of the call's rating R that the transfers took."""
    return float(np.clip((alone["rating"] - beside["rating"]) / alone["rating"], 0.0, 1.0))


def page_harm(alone: Summary, beside: Summary) -> float:
    """Share of the time a page takes that is the transfers' doing."""
    if not np.isfinite(beside["page_s"]):
        return 1.0
    return float(np.clip((beside["page_s"] - alone["page_s"]) / beside["page_s"], 0.0, 1.0))


@dataclass(frozen=True)
class Outcome:
    """A pair on a path, seed by seed."""

    path: Path
    algorithm: str
    queue: str
    mbps: tuple[float, ...]
    call: tuple[float, ...]
    page: tuple[float, ...]
    summaries: tuple[Summary, ...]

    @property
    def label(self) -> str:
        """Algorithm × queue."""
        return f"{title(self.algorithm)} × {QUEUES[self.queue]}"

    @property
    def harms(self) -> tuple[float, ...]:
        """Harm to whoever suffers more, caller or reader, by seed."""
        return tuple(max(pair) for pair in zip(self.call, self.page, strict=True))

    @cached_property
    def harm(self) -> Interval:
        """Mean of `harms` with its 95 % interval."""
        return interval(self.harms, "mean")

    @cached_property
    def throughput(self) -> Interval:
        """Mean goodput of transfers and reader together, Mbit/s, with its 95 % interval."""
        return interval(self.mbps, "mean")

    def mean(self, value: str) -> float:
        """Mean of one of the summaries' values."""
        return float(np.mean([summary[value] for summary in self.summaries]))


def outcomes(data: Data, path: Path) -> list[Outcome]:
    """Every pair that was run on a path."""
    found = []
    for algorithm in algorithms():
        for queue in QUEUES:
            both = [
                (alone, beside)
                for seed in data.seeds
                if (beside := data.get(key_of(path.name, algorithm, queue), seed)) is not None
                and (alone := data.get(alone_key(path.name), seed)) is not None
            ]
            if both:
                found.append(
                    Outcome(
                        path,
                        algorithm,
                        queue,
                        tuple(float(beside["mbps"]) for _, beside in both),
                        tuple(call_harm(*pair) for pair in both),
                        tuple(page_harm(*pair) for pair in both),
                        tuple(beside for _, beside in both),
                    )
                )
    return found


def best_mbps(found: Iterable[Outcome]) -> float:
    """The most throughput any pair has on the path."""
    return max((one.throughput.estimate for one in found), default=float("nan"))


def eligible(found: list[Outcome]) -> list[Outcome]:
    """Pairs with at least `ENOUGH` of the best throughput, least harm first; ties by throughput."""
    best = best_mbps(found)
    enough = [one for one in found if one.throughput.estimate >= ENOUGH * best]
    return sorted(enough, key=lambda one: (round(one.harm.estimate, 3), -one.throughput.estimate))


def frontier(found: Iterable[Outcome]) -> list[Outcome]:
    """Pairs that no other beats in both throughput and harm (Pareto), least harm first."""
    front: list[Outcome] = []
    for one in sorted(found, key=lambda one: (one.harm.estimate, -one.throughput.estimate)):
        if not front or one.throughput.estimate > front[-1].throughput.estimate:
            front.append(one)
    return front


@dataclass(frozen=True)
class Standing:
    """A pair over all paths."""

    algorithm: str
    queue: str
    harm: float
    """Mean over paths."""
    share: float
    """Mean over paths of throughput over the path's best."""
    worst: float
    """Harm on the path where it does most."""
    worst_path: Path
    low: float
    high: float
    """95 % interval of the mean harm, from the seeds."""

    @property
    def label(self) -> str:
        """Algorithm × queue."""
        return f"{title(self.algorithm)} × {QUEUES[self.queue]}"


def standings(data: Data) -> list[Standing]:
    """Every pair's mean over the paths, least harm first."""
    by_pair: dict[tuple[str, str], list[tuple[Outcome, float]]] = {}
    for path in PATHS.values():
        found = outcomes(data, path)
        best = best_mbps(found)
        for one in found:
            by_pair.setdefault((one.algorithm, one.queue), []).append((one, best))
    out = []
    for (algorithm, queue), each in by_pair.items():
        worst = max(each, key=lambda pair: pair[0].harm.estimate)[0]
        over_paths = np.mean([one.harms for one, _ in each], axis=0)
        mean = interval(over_paths, "mean")
        out.append(
            Standing(
                algorithm,
                queue,
                mean.estimate,
                float(np.mean([one.throughput.estimate / best for one, best in each])),
                worst.harm.estimate,
                worst.path,
                mean.low,
                mean.high,
            )
        )
    return sorted(out, key=lambda one: one.harm)


def variance_between(values: Sequence[float], levels: Sequence[str]) -> float:
    """Sum of squares between the levels of a factor (one-way ANOVA): what the factor's means explain of the values."""
    x, of = np.asarray(values, dtype=np.float64), np.asarray(levels)
    return float(sum(np.sum(of == level) * (x[of == level].mean() - x.mean()) ** 2 for level in np.unique(of)))
