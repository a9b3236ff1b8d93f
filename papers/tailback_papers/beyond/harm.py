"""Harm, and which pair does least of it for what throughput.

Harm after Ware, Mukerjee, Seshan and Sherry, “Beyond Jain's Fairness Index: Setting the Bar For The Deployment of
Congestion Control Algorithms” (HotNets 2019). It is what a competitor takes from an application, as a share of what it
had alone. (alone − with)/alone where more is better, (with − alone)/with where less is better: 0 is no harm, 1 is ruin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tailback.experiment import Data
from tailback.judge import Interval, interval

from .grid import PATHS, QUEUES, STANDARD, Path, title

ENOUGH = 0.9
"""A pair is eligible with this share of the best throughput any pair has on the path."""


def harms(data: Data) -> pl.DataFrame:
    """One row a run of a pair, with the harm to caller and reader and, in `harm`, to the one that suffers more.

    The call's harm is of its rating R; the page's the share of its time that is the transfers' doing.
    """
    if data.frame.is_empty():
        return pl.DataFrame()
    alone = data.frame.filter(pl.col("algorithm").is_null())
    rating, page_s = pl.col("rating"), pl.col("page_s")
    call = (pl.col("rating_alone") - rating) / pl.col("rating_alone")
    page = pl.when(page_s.is_finite()).then((page_s - pl.col("page_s_alone")) / page_s).otherwise(1.0)
    return (
        data.frame.filter(pl.col("algorithm").is_not_null())
        .join(alone.select("path", "seed", "rating", "page_s"), on=["path", "seed"], suffix="_alone")
        .with_columns(call=call.clip(0.0, 1.0), page=page.clip(0.0, 1.0))
        .with_columns(harm=pl.max_horizontal("call", "page"))
    )


@dataclass(frozen=True)
class Pair:
    """An algorithm with a queue, on a path or over all."""

    algorithm: str
    queue: str

    @property
    def label(self) -> str:
        """Algorithm × queue."""
        return f"{title(self.algorithm)} × {QUEUES[self.queue]}"


@dataclass(frozen=True, eq=False)
class Outcome(Pair):
    """A pair on a path, a row of `harms` a seed."""

    path: Path
    runs: pl.DataFrame

    @cached_property
    def harm(self) -> Interval:
        """Mean of the harm to the one that suffers more, with its 95 % interval."""
        return interval(self.runs["harm"].to_numpy(), "mean")

    @cached_property
    def throughput(self) -> Interval:
        """Mean goodput of transfers and reader together, Mbit/s, with its 95 % interval."""
        return interval(self.runs["mbps"].to_numpy(), "mean")

    def mean(self, value: str) -> float:
        """Mean of one of the summaries' values."""
        return float(np.mean(self.runs[value].to_numpy()))


@dataclass(frozen=True, eq=False)
class OnPath:
    """Every pair that was run on a path."""

    path: Path
    pairs: list[Outcome]

    def share(self, one: Outcome) -> float:
        """A pair's throughput over the most that any has here."""
        return one.throughput.estimate / max(each.throughput.estimate for each in self.pairs)

    @cached_property
    def eligible(self) -> list[Outcome]:
        """Pairs with at least `ENOUGH` of the best throughput, least harm first; ties by throughput."""
        enough = [one for one in self.pairs if self.share(one) >= ENOUGH]
        return sorted(enough, key=lambda one: (round(one.harm.estimate, 3), -one.throughput.estimate))

    @cached_property
    def frontier(self) -> list[Outcome]:
        """Pairs that no other beats in both throughput and harm (Pareto), least harm first."""
        front: list[Outcome] = []
        for one in sorted(self.pairs, key=lambda one: (one.harm.estimate, -one.throughput.estimate)):
            if not front or one.throughput.estimate > front[-1].throughput.estimate:
                front.append(one)
        return front

    @cached_property
    def standard(self) -> Outcome | None:
        """The pair that others are compared with."""
        return next((one for one in self.pairs if (one.algorithm, one.queue) == STANDARD), None)

    @cached_property
    def as_good(self) -> list[str]:
        """Pairs whose harm is within two points, or within the seeds' spread, of the best's."""
        best = self.eligible[0].harm
        limit = max(best.estimate + 0.02, -np.inf if np.isnan(best.high) else best.high)
        return [one.label for one in self.eligible[1:] if one.harm.estimate <= limit]


def on_paths(data: Data) -> list[OnPath]:
    """The paths on which pairs were run."""
    found = harms(data)
    out = []
    for path in PATHS.values() if len(found) else ():
        of_pair = found.filter(path=path.name).group_by("algorithm", "queue", maintain_order=True)
        if pairs := [Outcome(str(algorithm), str(queue), path, runs) for (algorithm, queue), runs in of_pair]:
            out.append(OnPath(path, pairs))
    return out


@dataclass(frozen=True)
class Standing(Pair):
    """A pair over all paths."""

    harm: Interval
    """Mean over paths, and its 95 % interval from the seeds."""
    share: float
    """Mean over paths of throughput over the path's best."""
    worst: Outcome
    """On the path where it does most harm."""


def standings(data: Data) -> list[Standing]:
    """Every pair's mean over the paths, least harm first."""
    by_pair: dict[tuple[str, str], list[tuple[Outcome, float]]] = {}
    for on in on_paths(data):
        for one in on.pairs:
            by_pair.setdefault((one.algorithm, one.queue), []).append((one, on.share(one)))
    out = []
    for pair, each in by_pair.items():
        over_paths = np.mean([one.runs["harm"].to_numpy() for one, _ in each], axis=0)
        share = float(np.mean([share for _, share in each]))
        worst = max((one for one, _ in each), key=lambda one: one.harm.estimate)
        out.append(Standing(*pair, interval(over_paths, "mean"), share, worst))
    return sorted(out, key=lambda one: one.harm.estimate)


def variance_between(values: Sequence[float] | pl.Series, levels: Sequence[str] | pl.Series) -> float:
    """Sum of squares between the levels of a factor (one-way ANOVA): what the factor's means explain of the values."""
    x, of = np.asarray(values, dtype=np.float64), np.asarray(levels)
    return float(sum(np.sum(of == level) * (x[of == level].mean() - x.mean()) ** 2 for level in np.unique(of)))
