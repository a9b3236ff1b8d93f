"""Runs the paths of the measurements, measures them in the same way, and judges the errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import tailback as tb
from tailback.judge import Bounds
from tailback_validation import ns2, path, truth
from tailback_validation.measures import Measures, measure

__all__ = ["JUDGED", "TARGETS", "Case", "Judgement", "compare_kernel", "compare_ns2", "judge", "registered"]

TARGETS = Bounds({"goodput_mbps": 0.02, "voice_median_ms": 0.10, "epoch_s": 0.10, "dropped": 0.25})
"""Largest allowed error of each measure."""
JUDGED = tuple(TARGETS)


@dataclass(frozen=True)
class Judgement:
    """One measure of one algorithm against the measurement."""

    measure: str
    truth: float
    ours: float
    lowest: float
    """Smallest value over the ensemble: other starts, and one packet more or less of queue."""
    highest: float

    @property
    def error(self) -> float:
        """Error relative to the measurement; NaN if neither has the measure, infinite if only one has."""
        missing = math.isnan(self.truth), math.isnan(self.ours)
        if all(missing):
            return math.nan
        if any(missing):
            return math.inf
        if self.truth == 0.0:
            return 0.0 if self.ours == 0.0 else math.inf
        return self.ours / self.truth - 1.0

    @property
    def is_met(self) -> bool:
        """Whether it is within the target, or absent on both sides (an algorithm without epochs)."""
        return math.isnan(self.error) or TARGETS.allows(self.measure, self.error)

    def to_json(self) -> dict[str, Any]:
        """The judgement with its verdict."""
        return asdict(self) | {"error": self.error, "target": TARGETS[self.measure], "met": self.is_met}


@dataclass(frozen=True)
class Case:
    """One algorithm on one path."""

    algorithm: str
    variant: str
    """How acknowledgements were delayed; empty for the default."""
    ours: Any
    """Our measures, `Measures` or `Ns2Measures`."""
    judgements: tuple[Judgement, ...]
    polls: dict[str, Any] | None = None
    """The run's window and backlog every 20 ms, for figures."""

    @property
    def misses(self) -> tuple[Judgement, ...]:
        """Measures whose errors exceed their targets."""
        return tuple(each for each in self.judgements if not each.is_met)

    def to_json(self) -> dict[str, Any]:
        """Everything but the traces."""
        judged = [each.to_json() for each in self.judgements]
        return {"algorithm": self.algorithm, "variant": self.variant, "ours": asdict(self.ours), "judged": judged}


def registered(algorithms: Sequence[str]) -> list[str]:
    """The given algorithms that this build has."""
    from tailback import registry

    known = set(registry.names("algorithms"))
    return [name for name in algorithms if name in known]


def judge(true: dict[str, float], ours: Any, others: Sequence[Any] = ()) -> tuple[Judgement, ...]:
    """Judge a run against the measurement; `others` is its ensemble."""
    judgements = []
    for name in JUDGED:
        values = np.array([getattr(each, name) for each in (ours, *others)], dtype=np.float64)
        known = values[~np.isnan(values)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (math.nan, math.nan)
        judgements.append(Judgement(name, true[name], float(values[0]), low, high))
    return tuple(judgements)


def _measured(result: tb.Result) -> tuple[Measures, dict[str, Any]]:
    limit = result.link_spec("bottleneck")["queue"]["params"]["limit_bytes"]
    polls = result.where_flow("polls", "bulk")
    queue = result.where_link("queue_polls", "bottleneck")
    kept = {
        "t_s": polls["t_s"].copy(),
        "cwnd": polls["cwnd"].copy(),
        "queue_t_s": queue["t_s"].copy(),
        "queue_bytes": queue["backlog_bytes"].copy(),
    }
    return measure(result, path.FROM_S, path.UNTIL_S, _number(limit)), kept


def _number(value: Any) -> int:
    """A parameter of the resolved scenario, either bare or tagged with its kind."""
    return int(next(iter(value.values())) if isinstance(value, dict) else value)


def compare_kernel(
    algorithms: Sequence[str] | None = None, *, with_ensemble: bool = True, workers: int | None = None
) -> list[Case]:
    """Our Linux stack against Linux 6.1; every algorithm that both the measurements and this build have."""
    names = registered(truth.kernel_algorithms() if algorithms is None else algorithms)
    cases = []
    for name in names:
        scenarios = [path.kernel_path(name), *(path.ensemble(name) if with_ensemble else [])]
        (ours, polls), *others = tb.run_many(scenarios, then=_measured, workers=workers)
        judgements = judge(truth.kernel()[name], ours, [measures for measures, _ in others])
        cases.append(Case(name, "", ours, judgements, polls))
    return cases


def compare_ns2(*, workers: int | None = None) -> list[Case]:
    """Our `ns2-sack` stack against ns-2's Linux algorithms, measured by our own script."""
    true = truth.ns2_ours()
    keys = [key for key in true if key[0] in registered([key[0]])]
    scenarios = [path.ns2_path(name, delayed_ack=delayed) for name, delayed in keys]
    measured = tb.run_many(scenarios, then=ns2.measure_result, workers=workers)
    return [
        Case(name, "delayed" if delayed else "every segment", ours, judge(true[name, delayed], ours))
        for (name, delayed), ours in zip(keys, measured, strict=True)
    ]
