"""Rules: how far a value lies on the good side of what is allowed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass

from tailback.judge.verdict import CLAIM, PARTLY, Verdict

__all__ = ["AtLeast", "AtMost", "Band", "Beside", "Bounds", "Near", "Rule", "Within"]


class Rule(ABC):
    """What is allowed of a value."""

    @abstractmethod
    def margin(self, value: float) -> float:
        """How far the value lies on the good side: zero and more is allowed."""

    @abstractmethod
    def words(self) -> str:
        """Say the rule in words."""

    def judge(self, value: float) -> Verdict:
        """The verdict on one value."""
        if math.isnan(value):
            return Verdict.NOT_RUN
        return Verdict.PASSED if self.margin(value) >= 0.0 else Verdict.FAILED


class Band(Rule):
    """A claim's rule, with a wider band in which it partly holds."""

    @abstractmethod
    def wide_margin(self, value: float) -> float:
        """The same of the wider band."""

    @abstractmethod
    def allowed(self) -> tuple[float, float]:
        """The smallest and the largest value that are allowed."""

    def word(self, value: float) -> str:
        """The verdict in a claim's words.

        >>> [AtLeast(90, 60).word(value) for value in (90, 89.9, 59.9, math.nan)]
        ['reproduced', 'partly', 'not', 'not measured']
        """
        verdict = self.judge(value)
        return PARTLY if verdict is Verdict.FAILED and self.wide_margin(value) >= 0.0 else CLAIM(verdict)


@dataclass(frozen=True)
class Near(Band):
    """A number is printed: allowed is what lies within `tolerance` of it, partly within `loose`."""

    target: float
    tolerance: float = 0.15
    loose: float = 0.30

    def margin(self, value: float) -> float:
        """By the relative deviation."""
        return self.tolerance - abs(value / self.target - 1.0)

    def wide_margin(self, value: float) -> float:
        """By the relative deviation."""
        return self.loose - abs(value / self.target - 1.0)

    def allowed(self) -> tuple[float, float]:
        """The band around the print."""
        low, high = sorted(self.target * (1.0 + side * self.tolerance) for side in (-1.0, 1.0))
        return low, high

    def words(self) -> str:
        """Say the rule in words."""
        wholly, nearly = (f"within ±{100 * share:.0f} %" for share in (self.tolerance, self.loose))
        return f"reproduced {wholly} of {self.target:g}, partly {nearly}"


@dataclass(frozen=True)
class AtLeast(Band):
    """Allowed from `enough` upwards, partly from `some`."""

    enough: float
    some: float

    def margin(self, value: float) -> float:
        """Above the lower bound."""
        return value - self.enough

    def wide_margin(self, value: float) -> float:
        """Above the looser bound."""
        return value - self.some

    def allowed(self) -> tuple[float, float]:
        """Everything from `enough` upwards."""
        return self.enough, math.inf

    def words(self) -> str:
        """Say the rule in words."""
        return f"reproduced at ≥ {self.enough:g}, partly at ≥ {self.some:g}"


@dataclass(frozen=True)
class AtMost(Band):
    """Allowed up to `enough`, partly up to `some`."""

    enough: float
    some: float

    def margin(self, value: float) -> float:
        """Below the upper bound."""
        return self.enough - value

    def wide_margin(self, value: float) -> float:
        """Below the looser bound."""
        return self.some - value

    def allowed(self) -> tuple[float, float]:
        """Everything up to `enough`."""
        return -math.inf, self.enough

    def words(self) -> str:
        """Say the rule in words."""
        return f"reproduced at ≤ {self.enough:g}, partly at ≤ {self.some:g}"


@dataclass(frozen=True)
class Within(Band):
    """Allowed inside the inner interval, partly inside the outer."""

    low: float
    high: float
    outer_low: float
    outer_high: float

    def margin(self, value: float) -> float:
        """To the nearer end."""
        return min(value - self.low, self.high - value)

    def wide_margin(self, value: float) -> float:
        """To the nearer end of the outer interval."""
        return min(value - self.outer_low, self.outer_high - value)

    def allowed(self) -> tuple[float, float]:
        """The inner interval."""
        return self.low, self.high

    def words(self) -> str:
        """Say the rule in words."""
        return f"reproduced within {self.low:g} … {self.high:g}, partly within {self.outer_low:g} … {self.outer_high:g}"


class Beside:
    """By how much a number may be worse than a baseline's: the bound is `factor` × that, and `allowance` beyond.

    What has these three judges by this rule.
    """

    #: Whether a larger value is better.
    more: bool
    factor: float
    allowance: float
    #: The largest value there can be, if less is better; where more is, nothing is the least.
    most: float

    def can_fail(self, bound: float) -> bool:
        """Is there a value on the bad side of this bound?"""
        return bound > 0.0 if self.more else bound < self.most

    @property
    def is_absolute(self) -> bool:
        """Is the bound the same whatever the baseline does?"""
        return self.factor == 0.0

    def margin(self, value: float, baseline: float) -> float:
        """How far `value` is on the good side of the bound that the baseline sets."""
        if self.more:
            return value - (self.factor * baseline - self.allowance)
        return self.factor * baseline + self.allowance - value

    def bound(self, baseline: float) -> float:
        """What is allowed at this value of the baseline: where the margin is nothing."""
        return self.margin(0.0, baseline) * (-1.0 if self.more else 1.0)

    def ratio(self, value: float, baseline: float) -> float:
        """The margin as a factor, above 1 on the good side; NaN where value and bound are not both above zero."""
        bound = self.factor * baseline + (-self.allowance if self.more else self.allowance)
        if not (value > 0.0 and bound > 0.0):
            return math.nan
        return value / bound if self.more else bound / value

    def excess(self, value: float, bound: float) -> float:
        """How far a value is on the bad side of a bound, as a share of the bound."""
        beyond = bound - value if self.more else value - bound
        size = max(abs(bound), self.allowance)
        return beyond / size if size and math.isfinite(beyond) else math.inf


@dataclass(frozen=True)
class Bounds:
    """How large each of several errors may be, by name: validation's rule."""

    of: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.of)

    def items(self) -> ItemsView[str, float]:
        """Names with their bounds."""
        return self.of.items()

    def allows(self, name: str, error: float) -> bool:
        """Is this error within its bound? One that is no number is not."""
        return abs(error) <= self.of[name]

    def missed(self, errors: Mapping[str, float]) -> list[str]:
        """The names whose errors are beyond their bounds, or no numbers.

        >>> Bounds({"goodput": 0.05, "delay": 0.1}).missed({"goodput": -0.06, "delay": 0.1})
        ['goodput']
        """
        return [name for name in self.of if not self.allows(name, errors[name])]

    def excess(self, errors: Mapping[str, float]) -> float:
        """The largest error, in bounds."""
        return max(abs(errors[name]) / bound for name, bound in self.of.items())
