"""Verdict rules, written down before the runs: a value in, a word out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

REPRODUCED, PARTLY, NOT, UNMEASURED = "reproduced", "partly", "not", "not measured"


class Rule(Protocol):
    """Turns a claim's value into a verdict and can say how."""

    def verdict(self, value: float) -> str:
        """Decide."""

    def words(self) -> str:
        """Say the rule in words."""


@dataclass(frozen=True)
class Near:
    """The paper prints a number: reproduced within `tolerance` of it, partly within `loose`."""

    target: float
    tolerance: float = 0.15
    loose: float = 0.30

    def verdict(self, value: float) -> str:
        """Decide by the relative deviation."""
        if math.isnan(value):
            return UNMEASURED
        off = abs(value / self.target - 1.0)
        return REPRODUCED if off <= self.tolerance else PARTLY if off <= self.loose else NOT

    def words(self) -> str:
        """Say the rule in words."""
        return (
            f"reproduced within ±{100 * self.tolerance:.0f} % of {self.target:g}, "
            f"partly within ±{100 * self.loose:.0f} %"
        )


@dataclass(frozen=True)
class AtLeast:
    """Reproduced from `enough` upwards, partly from `some`."""

    enough: float
    some: float

    def verdict(self, value: float) -> str:
        """Decide by the lower bounds."""
        if math.isnan(value):
            return UNMEASURED
        return REPRODUCED if value >= self.enough else PARTLY if value >= self.some else NOT

    def words(self) -> str:
        """Say the rule in words."""
        return f"reproduced at ≥ {self.enough:g}, partly at ≥ {self.some:g}"


@dataclass(frozen=True)
class AtMost:
    """Reproduced up to `enough`, partly up to `some`."""

    enough: float
    some: float

    def verdict(self, value: float) -> str:
        """Decide by the upper bounds."""
        if math.isnan(value):
            return UNMEASURED
        return REPRODUCED if value <= self.enough else PARTLY if value <= self.some else NOT

    def words(self) -> str:
        """Say the rule in words."""
        return f"reproduced at ≤ {self.enough:g}, partly at ≤ {self.some:g}"


@dataclass(frozen=True)
class Within:
    """Reproduced inside the inner interval, partly inside the outer."""

    low: float
    high: float
    outer_low: float
    outer_high: float

    def verdict(self, value: float) -> str:
        """Decide by the intervals."""
        if math.isnan(value):
            return UNMEASURED
        if self.low <= value <= self.high:
            return REPRODUCED
        return PARTLY if self.outer_low <= value <= self.outer_high else NOT

    def words(self) -> str:
        """Say the rule in words."""
        return f"reproduced within {self.low:g} … {self.high:g}, partly within {self.outer_low:g} … {self.outer_high:g}"
