"""Rules: each computes how far a value lies on the good side of its bound."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass

from tailback.judge.verdict import CLAIM, PARTLY, Verdict

__all__ = ["AtLeast", "AtMost", "Band", "Beside", "Bounds", "Near", "Rule", "Within"]


class Rule(ABC):
    """A bound on a value."""

    @abstractmethod
    def margin(self, value: float) -> float:
        """How far the value lies on the good side; zero and more is allowed."""

    @abstractmethod
    def words(self) -> str:
        """The rule in words."""

    def judge(self, value: float) -> Verdict:
        """The verdict on one value."""
        if math.isnan(value):
            return Verdict.NOT_RUN
        return Verdict.PASSED if self.margin(value) >= 0.0 else Verdict.FAILED


class Band(Rule):
    """A claim's rule, with a wider band in which the claim partly holds."""

    @abstractmethod
    def wide_margin(self, value: float) -> float:
        """The margin to the wider band."""

    @abstractmethod
    def allowed(self) -> tuple[float, float]:
        """The smallest and the largest allowed value."""

    def word(self, value: float) -> str:
        """The verdict in a claim's words.

        >>> [AtLeast(90, 60).word(value) for value in (90, 89.9, 59.9, math.nan)]
        ['reproduced', 'partly', 'not', 'not measured']
        """
        verdict = self.judge(value)
        return PARTLY if verdict is Verdict.FAILED and self.wide_margin(value) >= 0.0 else CLAIM(verdict)


@dataclass(frozen=True)
class Near(Band):
    """A printed number: values within `tolerance` of it are allowed, within `loose` they partly hold."""

    target: float
    tolerance: float = 0.15
    loose: float = 0.30

    def margin(self, value: float) -> float:
        """Margin by the relative deviation."""
        return self.tolerance - abs(value / self.target - 1.0)

    def wide_margin(self, value: float) -> float:
        """Margin to the looser band, by the relative deviation."""
        return self.loose - abs(value / self.target - 1.0)

    def allowed(self) -> tuple[float, float]:
        """The band around the printed number."""
        low, high = sorted(self.target * (1.0 + side * self.tolerance) for side in (-1.0, 1.0))
        return low, high

    def words(self) -> str:
        """The rule in words."""
        wholly, nearly = (f"within ±{100 * share:.0f} %" for share in (self.tolerance, self.loose))
        return f"reproduced {wholly} of {self.target:g}, partly {nearly}"


@dataclass(frozen=True)
class AtLeast(Band):
    """Allowed from `enough` upwards, partly from `some`."""

    enough: float
    some: float

    def margin(self, value: float) -> float:
        """Distance above the lower bound."""
        return value - self.enough

    def wide_margin(self, value: float) -> float:
        """Distance above the looser bound."""
        return value - self.some

    def allowed(self) -> tuple[float, float]:
        """Everything from `enough` upwards."""
        return self.enough, math.inf

    def words(self) -> str:
        """The rule in words."""
        return f"reproduced at ≥ {self.enough:g}, partly at ≥ {self.some:g}"


@dataclass(frozen=True)
class AtMost(Band):
    """Allowed up to `enough`, partly up to `some`."""

    enough: float
    some: float

    def margin(self, value: float) -> float:
        """Distance below the upper bound."""
        return self.enough - value

    def wide_margin(self, value: float) -> float:
        """Distance below the looser bound."""
        return self.some - value

    def allowed(self) -> tuple[float, float]:
        """Everything up to `enough`."""
        return -math.inf, self.enough

    def words(self) -> str:
        """The rule in words."""
        return f"reproduced at ≤ {self.enough:g}, partly at ≤ {self.some:g}"


@dataclass(frozen=True)
class Within(Band):
    """Allowed inside the inner interval, partly inside the outer."""

    low: float
    high: float
    outer_low: float
    outer_high: float

    def margin(self, value: float) -> float:
        """Distance to the nearer end."""
        return min(value - self.low, self.high - value)

    def wide_margin(self, value: float) -> float:
        """Distance to the nearer end of the outer interval."""
        return min(value - self.outer_low, self.outer_high - value)

    def allowed(self) -> tuple[float, float]:
        """The inner interval."""
        return self.low, self.high

    def words(self) -> str:
        """The rule in words."""
        return f"reproduced within {self.low:g} … {self.high:g}, partly within {self.outer_low:g} … {self.outer_high:g}"


class Beside:
    """How much worse than a baseline's a number may be: the bound is `factor` × the baseline's, plus `allowance`.

    Base class of everything that is judged by these fields.
    """

    #: Whether a larger value is better.
    more: bool
    factor: float
    allowance: float
    #: The largest possible value, if less is better; if more is better, the smallest is 0.
    most: float

    def can_fail(self, bound: float) -> bool:
        """Whether some possible value violates this bound."""
        return bound > 0.0 if self.more else bound < self.most

    @property
    def is_absolute(self) -> bool:
        """Whether the bound is the same for all baselines."""
        return self.factor == 0.0

    def margin(self, value: float, baseline: float) -> float:
        """How far `value` is on the good side of the bound that the baseline sets."""
        if self.more:
            return value - (self.factor * baseline - self.allowance)
        return self.factor * baseline + self.allowance - value

    def bound(self, baseline: float) -> float:
        """The bound for this value of the baseline: the value with a margin of 0."""
        return self.margin(0.0, baseline) * (-1.0 if self.more else 1.0)

    def ratio(self, value: float, baseline: float) -> float:
        """The margin as a factor, above 1 on the good side; NaN unless both values are above zero."""
        bound = self.factor * baseline + (-self.allowance if self.more else self.allowance)
        if not (value > 0.0 and bound > 0.0):
            return math.nan
        return value / bound if self.more else bound / value

    def excess(self, value: float, bound: float) -> float:
        """How far a value violates a bound, as a share of the bound."""
        beyond = bound - value if self.more else value - bound
        size = max(abs(bound), self.allowance)
        return beyond / size if size and math.isfinite(beyond) else math.inf


@dataclass(frozen=True)
class Bounds:
    """Bounds on several errors by name: the rule of the validation."""

    of: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.of)

    def items(self) -> ItemsView[str, float]:
        """Names with their bounds."""
        return self.of.items()

    def allows(self, name: str, error: float) -> bool:
        """Whether this error is within its bound; never if it is not finite."""
        return abs(error) <= self.of[name]

    def missed(self, errors: Mapping[str, float]) -> list[str]:
        """The names whose errors exceed their bounds or are not finite.

        >>> Bounds({"goodput": 0.05, "delay": 0.1}).missed({"goodput": -0.06, "delay": 0.1})
        ['goodput']
        """
        return [name for name in self.of if not self.allows(name, errors[name])]

    def excess(self, errors: Mapping[str, float]) -> float:
        """The largest error, as a multiple of its bound."""
        return max(abs(errors[name]) / bound for name, bound in self.of.items())
