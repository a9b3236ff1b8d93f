"""The language of conditions: `a.goodput_mbps / b.goodput_mbps in 0.5..2`.

    condition = sum ("<" | "<=" | ">" | ">=") sum  |  sum "in" sum ".." sum
    sum       = product (("+" | "-") product)*
    product   = factor (("*" | "/") factor)*
    factor    = number [unit] | metric | "baseline" | "baseline." metric | "-" factor | "(" sum ")"

`baseline` alone is the left side in the baseline's run. Names may contain "-" and "+", so operators need spaces. A unit
is checked and converted; a bare number takes the unit of the value it is compared with or added to. Rust parses it:
`crates/tailback-scenario/src/condition.rs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tailback import _core
from tailback.errors import TailbackError

__all__ = ["Condition", "ConditionError", "Values", "parse"]

#: The value of a metric, by its name.
Values = Callable[[str], float]


class ConditionError(TailbackError):
    """A condition that cannot be parsed, with the position in its text."""

    def __init__(self, at: int, problem: str, fix: str) -> None:
        super().__init__(f"at character {at + 1}: {problem}. {fix}")
        self.problem, self.fix = f"at character {at + 1}: {problem}", fix


@dataclass(frozen=True)
class _Left:
    """The left side of a condition."""

    condition: Condition
    needs_baseline: bool

    def value(self, run: Values, baseline: Values | None) -> float:
        """Its value in one run."""
        return self.condition.sides(run, baseline)[0]


class Condition:
    """A parsed condition: its left side and its bounds, all in the unit of the left side."""

    def __init__(self, read: _core.ReadCondition) -> None:
        self._read = read
        self.text = read.text
        #: "<", "<=", ">", ">=" or "in".
        self.relation = read.relation
        #: Names of its metrics.
        self.names = tuple(read.names)
        #: Whether it compares with the baseline's run.
        self.needs_baseline = read.needs_baseline
        self.left = _Left(self, read.left_needs_baseline)

    def sides(self, run: Values, baseline: Values | None) -> tuple[float, ...]:
        """Values of the left side and of the bounds in one run (and the baseline's run of the same seed)."""
        if baseline is None:
            return tuple(self._read.sides({name: run(name) for name in self.names}, {}))
        both = ({name: values(name) for name in self.names} for values in (run, baseline))
        return tuple(self._read.sides(*both))


def parse(text: str, metrics: Mapping[str, str], *, baseline: bool = False, window: bool = False) -> Condition:
    """Parse a condition. `metrics` are the known names, each with the [instruments] line that it lacks, or "".

    >>> parse("call.delay_p95_ms < 50", {"call.delay_p95_ms": ""}).sides(lambda name: 40.0, None)
    (40.0, 50.0)
    """
    try:
        return Condition(_core.condition_read(text, _named(text, metrics), baseline, window))
    except ValueError as error:
        raise ConditionError(*error.args) from None


def _named(text: str, metrics: Mapping[str, str]) -> list[tuple[str, str]]:
    """All names with what each lacks; includes names in the text that `metrics` knows only on request."""
    asked = {
        name: lacks for name in re.findall(r"[A-Za-z_][\w.:+-]*", text) if (lacks := metrics.get(name)) is not None
    }
    return list({**metrics, **asked}.items())
