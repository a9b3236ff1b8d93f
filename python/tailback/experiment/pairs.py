"""Compares two scenarios seed by seed: common effects cancel, and the difference has an interval."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailback import engines, programs
from tailback.algorithms import factories
from tailback.candidate import table
from tailback.errors import Interrupted, Problem, ScenarioError, TailbackError, nearest
from tailback.experience import PACKET_BYTES, is_slight, noticed
from tailback.experiment.run_metrics import ENGINES, measurable, measured
from tailback.judge import Interval, interval, paired
from tailback.progress import Runs
from tailback.repeatable import demand_repeatable
from tailback.result import Result
from tailback.run import Algorithms, Cancel, Runnable
from tailback.scenario import Scenario

__all__ = ["PairedMetric", "PairedRuns", "lean", "run_pairs", "that_matter", "with_algorithm"]

#: Instruments that no total is computed from.
_UNUSED = ("segments", "polls", "queue_polls", "queues", "drops", "captures")


@dataclass(frozen=True)
class PairedMetric:
    """One metric of both scenarios, over the pairs in which both have a value."""

    metric: str
    a: Interval
    b: Interval
    #: Interval of b - a, paired by seed.
    difference: Interval
    #: Pairs in which only one of the two has a value.
    one_sided: int = 0
    #: Whether all seeds of a side gave the same run.
    still: bool = False
    #: Whether a person waits for the flow's packets or answers, as for a call's.
    is_users: bool = True

    @property
    def verdict(self) -> str:
        """Whether b is "higher" or "lower" than a, the "same" in every pair, or the difference is "not seen".

        It is "one case" if a side's seeds drew nothing: of that side N pairs have one run N times.
        """
        low, high = self.difference.low, self.difference.high
        if low == high == 0.0:
            return "same"
        if self.still:
            return "one case"
        return "higher" if low > 0.0 else "lower" if high < 0.0 else "not seen"

    @property
    def effect(self) -> str:
        """Whether b is "better" or "worse" for the flow's user: the whole interval lies beyond the step they notice.

        "unnoticed" if the difference lies within it; "" where no step is known, or the interval decides neither.
        """
        step = noticed(self.metric)
        if step is None or not self.is_users or self.verdict == "one case":
            return ""
        low, high = self.difference.low, self.difference.high
        if low > step.step or high < -step.step:
            return "better" if (low > 0.0) == step.is_better_higher else "worse"
        return "unnoticed" if -step.step <= low and high <= step.step else ""

    @property
    def change(self) -> float:
        """The difference as a share of a; NaN where a is zero."""
        return self.difference.estimate / self.a.estimate if self.a.estimate else math.nan

    def to_json(self) -> dict[str, Any]:
        """Plain data."""

        def as_dict(found: Interval) -> dict[str, float]:
            return {"mean": found.estimate, "low": found.low, "high": found.high}

        return {
            "metric": self.metric, "pairs": self.difference.n, "a": as_dict(self.a), "b": as_dict(self.b),
            "difference": as_dict(self.difference), "change": self.change, "verdict": self.verdict,
            "effect": self.effect, "one_sided": self.one_sided,
        }  # fmt: skip


@dataclass
class PairedRuns:
    """The results of the pairs: `metrics` compares those of which both runs were finished."""

    labels: tuple[str, str]
    seeds: tuple[int, ...]
    confidence: float
    wall_s: float = 0.0
    #: Errors of failed runs, with seed and side.
    errors: list[str] = field(default_factory=list)
    _values: tuple[dict[int, dict[str, float]], dict[int, dict[str, float]]] = field(default_factory=lambda: ({}, {}))
    _known: tuple[str, ...] = ()

    @property
    def pairs(self) -> int:
        """Number of finished pairs."""
        return len(self._values[0].keys() & self._values[1].keys())

    @property
    def still(self) -> tuple[str, ...]:
        """Labels of the sides of which all seeds gave equal results: nothing was random there."""

        def agree(values: Mapping[int, Mapping[str, float]]) -> bool:
            rows = ({name: value for name, value in row.items() if name not in ENGINES} for row in values.values())
            return len({json.dumps(row, sort_keys=True) for row in rows}) == 1

        if self.pairs < 2:
            return ()
        return tuple(label for label, values in zip(self.labels, self._values, strict=True) if agree(values))

    @property
    def seeds_agree(self) -> bool:
        """Whether all seeds of a side gave equal results; `still` names the sides."""
        return bool(self.still)

    @property
    def metrics(self) -> list[PairedMetric]:
        """Every metric that both scenarios have, with its difference over the pairs."""
        a, b = self._values
        seeds = sorted(a.keys() & b.keys())
        still = bool(self.still)
        out = []
        for name in self._known:
            columns = [{seed: side[seed][name] for seed in seeds} for side in (a, b)]
            has = [{seed for seed, value in column.items() if math.isfinite(value)} for column in columns]
            both = sorted(has[0] & has[1])
            if not both or name in ENGINES:
                continue
            left, right = ({seed: column[seed] for seed in both} for column in columns)
            means = [interval(list(side.values()), "mean", confidence=self.confidence) for side in (left, right)]
            difference = paired(left, right, confidence=self.confidence).difference
            is_users = f"{name.rpartition('.')[0]}.experience_p95_ms" in self._known
            out.append(PairedMetric(name, means[0], means[1], difference, len(has[0] ^ has[1]), still, is_users))
        return out

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "a": self.labels[0], "b": self.labels[1], "pairs": self.pairs, "asked": len(self.seeds),
            "first_seed": self.seeds[0], "confidence": self.confidence, "seeds_agree": self.seeds_agree,
            "still": list(self.still), "wall_s": self.wall_s,
            "errors": self.errors, "metrics": [row.to_json() for row in self.metrics],
        }  # fmt: skip


#: Metrics in order of interest: user experience, what flows get, loss, link.
_FIRST = (
    ("delay_p95_ms", "experience_p95_ms", "experience_mos"),
    ("goodput_mbps",),
    ("loss", "experience_lost"),
    ("backlog_mean_bytes", "utilisation"),
)


def that_matter(rows: Sequence[PairedMetric], most: int = 10) -> list[PairedMetric]:
    """At most `most` of the rows that differ: what people notice, what flows get, loss, queues, the rest.

    Of each, the whole run comes before its flows and links, then the largest change. What no user notices, and slight
    differences, come last. Of two equivalent metrics of a flow the first is taken.
    """

    def rank(row: PairedMetric) -> tuple[bool, int, bool, float]:
        of, _, name = row.metric.rpartition(".")
        tier = next((number for number, names in enumerate(_FIRST) if name in names), len(_FIRST))
        least = PACKET_BYTES if name.endswith("_bytes") else 0.0
        is_last = row.effect == "unnoticed" or is_slight(row.a.estimate, row.b.estimate, least)
        return is_last, tier, bool(of), -(math.inf if math.isnan(row.change) else abs(row.change))

    found: dict[tuple[str, str, str], PairedMetric] = {}
    for row in sorted((row for row in rows if row.verdict in ("higher", "lower", "one case")), key=rank):
        found.setdefault((row.metric.rpartition(".")[0], f"{row.a.estimate:.6g}", f"{row.b.estimate:.6g}"), row)
    return list(found.values())[:most]


def with_algorithm(
    scenario: Scenario, cc: str, flows: Sequence[str] = (), algorithms: Algorithms | None = None
) -> Scenario:
    """The scenario with another congestion control for the named `flows`, or for all TCP flows."""
    resolved = scenario.resolve(algorithms=factories(algorithms), live=True)
    tcp = [row["name"] for row in resolved["flows"] if row.get("tcp")]
    for name in flows:
        if name not in tcp:
            close = nearest(name, tcp)
            hint = f'Did you mean "{close}"? ' if close else ""
            fix = f"{hint}There are: {', '.join(tcp) or 'none'}"
            raise ScenarioError([Problem("flow", name, "there is no TCP flow of this name", fix)])
    if not tcp:
        fix = "Give two scenario files instead"
        raise ScenarioError([Problem("flow.cc", cc, "no flow uses TCP, so there is nothing to change", fix)])
    return scenario.with_({f"flow.{name}.cc": table(cc) if "," in cc else cc for name in flows or tcp})


def run_pairs(
    a: Scenario | str | os.PathLike[str],
    b: Scenario | str | os.PathLike[str],
    *,
    pairs: int = 60,
    confidence: float = 0.95,
    labels: tuple[str, str] = ("a", "b"),
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
    engine: str | None = None,
    kernel: str | None = None,
    store: str | os.PathLike[str] = engines.GUESTS,
) -> PairedRuns:
    """Run both scenarios with the same seeds, from that of `a` on, and compare every metric that both have.

    Runs of one seed share their random draws, so the difference is taken seed by seed; its interval is Student's. A run
    that fails is listed in `errors` and its pair left out. Ctrl-C raises `Interrupted`; its `partial` has the
    finished pairs. `engine`, `kernel` and `store` are as for `tailback.test`.

    >>> import tailback as tb
    >>> a = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("reno")], duration="5s")
    >>> a = a.with_({"dumbbell.wire.loss": 0.01})
    >>> found = tb.run_pairs(a, a.with_({"flow.bulk.cc": "cubic"}), pairs=5)
    >>> found.pairs, found.metrics[0].metric
    (5, 'goodput_mbps')
    """
    if pairs < 2:
        raise TailbackError(f"pairs must be at least 2, got {pairs}: one pair has no interval. Give for example 60")
    both = [each if isinstance(each, Scenario) else Scenario.from_toml(each) for each in (a, b)]
    names = [name for each in both for name in each.named]
    chosen = engines.for_candidates(names, engine, kernel)
    live = chosen.can.kernel
    resolved = [
        each.resolve(algorithms=factories(algorithms), allow_code=allow_code and not live, live=live) for each in both
    ]
    if live:
        for each in both:
            chosen.check(each, allow_code=allow_code)
    for each in both:
        demand_repeatable(each, undone="compared", algorithms=algorithms, allow_code=allow_code)
    described = [lean(each) for each in resolved]
    sides = [{name for name, lacks in measurable(each).items() if not lacks} for each in described]
    by_programs = {row["name"] for each in described for row in each["flows"] if row["app"]["kind"] == "exec"}
    known = tuple(
        name
        for name in measurable(described[0])
        if name in sides[0] & sides[1] and not (name.rpartition(".")[0] in by_programs and programs.over_kernel(name))
    )
    first = int(resolved[0]["seed"])
    # A seed has 64 bits.
    seeds = tuple((first + number) % 2**64 for number in range(pairs))
    out = PairedRuns(labels, seeds, confidence, _known=known)
    # The runs of a pair are adjacent, so that an interrupted comparison has whole pairs.
    work = [(side, seed) for seed in seeds for side in (0, 1)]
    began = time.perf_counter()
    try:
        asked: list[Runnable] = [
            both[side].with_(seed=seed) if live else described[side] | {"seed": seed} for side, seed in work
        ]
        outcomes = chosen.outcomes(
            asked, workers=workers, cancel=cancel, algorithms=algorithms, allow_code=allow_code, store=store
        )
        with Runs("comparing", shown=progress) as bar, contextlib.closing(outcomes):
            for done, (index, outcome) in enumerate(outcomes, 1):
                side, seed = work[index]
                if isinstance(outcome, Result):
                    value = measured(outcome)
                    out._values[side][seed] = {name: value(name) for name in known}
                else:
                    out.errors.append(f"{labels[side]}, seed {seed}: {outcome}")
                bar.update(done, len(work), spent=done, cost=len(work), failed=len(out.errors))
    except KeyboardInterrupt:
        out.wall_s = time.perf_counter() - began
        raise InterruptedPairs(out) from None
    out.wall_s = time.perf_counter() - began
    return out


class InterruptedPairs(Interrupted):
    """Ctrl-C during a comparison; `partial` has the finished pairs."""

    def __init__(self, partial: PairedRuns) -> None:
        done = partial.pairs
        super().__init__([True] * done + [None] * (len(partial.seeds) - done))
        self.partial = partial


def lean(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario without instruments that no compared metric needs; they do not change results."""
    kept = {key: value for key, value in resolved["instruments"].items() if key not in _UNUSED}
    return dict(resolved) | {"instruments": kept | {"internals": False}}
