"""Judges the scenarios' own conditions (`[expect]`) on both sides of a comparison.

The judge is that of `tailback test`, applied once over the seeds of the pairs. A condition counts as lost only if it
also fails with fresh seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailback.expect.verdicts import Judged, judge
from tailback.judge import Verdict

__all__ = ["HOLDS", "Condition", "Expected", "Sides", "held"]

#: The outcome of a condition that holds on both sides.
HOLDS = "holds"

#: By seed: the values of both sides of each condition, in order.
Sides = Mapping[int, Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Condition:
    """A condition of a scenario, as a side of the comparison parsed it."""

    text: str
    relation: str
    confidence: float


@dataclass(frozen=True)
class Expected:
    """The verdicts on a condition on both sides."""

    scenario: str
    condition: str
    base: Judged
    change: Judged

    @property
    def is_lost(self) -> bool:
        """Whether the condition held on the base and fails now."""
        return (self.base.verdict, self.change.verdict) == (Verdict.PASSED, Verdict.FAILED)

    @property
    def outcome(self) -> str:
        """The outcome in words, the same on every page."""
        if self.is_lost:
            return "no longer holds"
        if self.base.verdict != self.change.verdict:
            return f"{self.base.verdict} on the base, {self.change.verdict} now"
        words = {Verdict.PASSED: HOLDS, Verdict.FAILED: "failed on the base too"}
        return words.get(Verdict(self.base.verdict), f"{self.base.verdict} on both sides")

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""

        def as_dict(found: Judged) -> dict[str, Any]:
            each = [{"mean": one.estimate, "low": one.low, "high": one.high} for one in (found.measured, *found.bounds)]
            return {"verdict": found.verdict, "measured": each[0], "bounds": each[1:], "why": found.why,
                    "worst_seed": found.worst_seed}  # fmt: skip

        return {"scenario": self.scenario, "condition": self.condition, "outcome": self.outcome,
                "base": as_dict(self.base), "change": as_dict(self.change)}  # fmt: skip


def held(
    scenario: str,
    conditions: tuple[Sequence[Condition], Sequence[Condition]],
    first: tuple[Sides, Sides],
    fresh: tuple[Sides, Sides] | None = None,
) -> list[Expected]:
    """Verdicts on a scenario's conditions; with `fresh` seeds, only on those that the first seeds report as lost."""
    out = []
    for place, (old, new) in enumerate(zip(*conditions, strict=True)):
        found = _judged(scenario, place, (old, new), first)
        if found and found.is_lost and fresh:
            found = _judged(scenario, place, (old, new), fresh) or found
        out += [found] if found else []
    return out


def _judged(
    scenario: str, place: int, conditions: tuple[Condition, Condition], sides: tuple[Sides, Sides]
) -> Expected | None:
    # A side without a finished run is reported as broken.
    if not all(sides):
        return None
    base, change = (
        judge(each.relation, {seed: tuple(row[place]) for seed, row in sorted(side.items())}, each.confidence)
        for each, side in zip(conditions, sides, strict=True)
    )
    return Expected(scenario, conditions[1].text, base, change)
