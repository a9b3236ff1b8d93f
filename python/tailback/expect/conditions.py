"""The language of conditions: `a.goodput_mbps / b.goodput_mbps in 0.5..2`.

    condition = sum ("<" | "<=" | ">" | ">=") sum  |  sum "in" sum ".." sum
    sum       = product (("+" | "-") product)*
    product   = factor (("*" | "/") factor)*
    factor    = number [unit] | metric | "baseline" | "baseline." metric | "-" factor | "(" sum ")"

`baseline` alone is the left side in the baseline's run. Names may hold "-" and "+", so that an operator needs spaces.
A unit is checked and converted; a bare number takes the unit of what it is compared with or added to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tailback.errors import TailbackError, nearest
from tailback.units import Bytes, Duration, Rate

__all__ = ["Condition", "ConditionError", "Values", "parse"]

#: The value of a metric, by its name.
Values = Callable[[str], float]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?P<unit>\s*%|\s*[A-Za-zµμ]+(?!\w|\.\w))?"
    r"|(?P<name>[A-Za-z_](?:[\w:+-]|\.(?!\.))*)|(?P<sign><=|>=|<|>|\.\.|[-+*/()]))"
)
_UNITS = ("ns", "us", "ms", "s", "min", "h", "bit", "kbit", "Mbit", "Gbit", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB")


class ConditionError(TailbackError):
    """A condition that cannot be read, with the place in its text."""

    def __init__(self, at: int, problem: str, fix: str) -> None:
        super().__init__(f"at character {at + 1}: {problem}. {fix}")
        self.problem, self.fix = f"at character {at + 1}: {problem}", fix


class Unit(NamedTuple):
    """What a number counts: exponents of bits and of seconds, and how many of these it is."""

    bits: int
    seconds: int
    size: float

    @property
    def text(self) -> str:
        """The condition in words."""
        kind = (self.bits, self.seconds)
        words = {(0, 0): "a pure number", (0, 1): "a time", (1, -1): "a rate", (1, 0): "a number of bytes"}
        return words.get(kind, f"in bit^{kind[0]} s^{kind[1]}")


PURE = Unit(0, 0, 1.0)
#: The units that end a metric's name; a metric without one is a count or a share.
_ENDINGS = {"ms": Unit(0, 1, 1e-3), "s": Unit(0, 1, 1.0), "mbps": Unit(1, -1, 1e6), "bytes": Unit(1, 0, 8.0)}
_EXAMPLES = {(0, 1): "50ms", (1, -1): "8mbit", (1, 0): "64kB", (0, 0): "0.5"}


def unit_of(metric: str) -> Unit:
    """The unit of a metric: the end of its name says it."""
    return _ENDINGS.get(metric.rpartition(".")[2].rpartition("_")[2], PURE)


@dataclass(frozen=True)
class _Term:
    """Part of a condition: where it begins, its unit (None of a bare number), its value, and the metrics in it."""

    at: int
    unit: Unit | None
    value: Callable[[Values, Values | None], float]
    names: tuple[str, ...] = ()
    needs_baseline: bool = False

    def times(self, factor: float) -> _Term:
        """The term, `factor` times."""
        if factor == 1.0:
            return self
        return _Term(self.at, self.unit, lambda a, b: factor * self.value(a, b), self.names, self.needs_baseline)

    def joined(self, other: _Term, unit: Unit | None, how: Callable[[float, float], float]) -> _Term:
        """Both, as one."""
        names, needs = self.names + other.names, self.needs_baseline or other.needs_baseline
        return _Term(self.at, unit, lambda a, b: how(self.value(a, b), other.value(a, b)), names, needs)


@dataclass(frozen=True)
class Condition:
    """A condition that was read: its left side, and what bounds it, all in the unit of the left side."""

    text: str
    #: "<", "<=", ">", ">=" or "in".
    relation: str
    left: _Term
    #: One bound, or the lower and the upper one.
    bounds: tuple[_Term, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics in it."""
        return tuple(dict.fromkeys(name for term in (self.left, *self.bounds) for name in term.names))

    @property
    def needs_baseline(self) -> bool:
        """Does it compare with the baseline's run?"""
        return any(term.needs_baseline for term in (self.left, *self.bounds))

    def sides(self, run: Values, baseline: Values | None) -> tuple[float, ...]:
        """The left side, then the bounds, of one run (and the baseline's of the same seed)."""
        return tuple(term.value(run, baseline) for term in (self.left, *self.bounds))


def parse(text: str, metrics: Mapping[str, str], *, baseline: bool = False, window: bool = False) -> Condition:
    """Read a condition. `metrics` are the known names, each with what [instruments] lacks for it, or nothing.

    >>> parse("call.delay_p95_ms < 50", {"call.delay_p95_ms": ""}).sides(lambda name: 40.0, None)
    (40.0, 50.0)
    """
    return _Parser(text, metrics, baseline, window).condition()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    unit: str = ""


def _tokens(text: str) -> list[_Token]:
    out: list[_Token] = []
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            place = at + len(text[at:]) - len(text[at:].lstrip())
            raise ConditionError(place, f'"{text[place]}" has no place here', 'Write for example "call.loss < 1%"')
        kind = str(found.lastgroup if found.lastgroup != "unit" else "number")
        unit = (found["unit"] or "").strip()
        end = found.end()
        if unit == "in":
            # "1 in 0..2" is no unit.
            unit, end = "", found.end("number")
        out.append(_Token(kind, found[kind], found.start(kind), unit))
        at = end
    return [*out, _Token("end", "", len(text))]


class _Parser:
    """Reads from left to right; nothing in the text is run."""

    def __init__(self, text: str, metrics: Mapping[str, str], baseline: bool, window: bool) -> None:
        self._text, self._metrics, self._has_baseline, self._window = text, metrics, baseline, window
        self._tokens = _tokens(text)
        self._next = 0
        self._left: _Term | None = None

    def condition(self) -> Condition:
        left = self._sum()
        relation = self._take()
        if relation.text not in ("<", "<=", ">", ">=", "in"):
            fix = 'Compare it: "call.delay_p95_ms < 50" or "a.goodput_mbps / b.goodput_mbps in 0.5..2"'
            raise ConditionError(relation.at, "a comparison is missing", fix)
        self._left = left
        bounds = [self._sum()]
        if relation.text == "in":
            dots = self._take()
            if dots.text != "..":
                raise ConditionError(dots.at, "the range has one end", "Write for example in 0.5..2")
            bounds.append(self._sum())
        rest = self._take()
        if rest.kind != "end":
            raise ConditionError(rest.at, f'nothing can follow here, and there is "{rest.text}"', self._spaces())
        if not left.names:
            raise ConditionError(left.at, "the left side measures nothing", "Begin with a metric")
        out = Condition(self._text, relation.text, left, tuple(self._fitting(left, bound) for bound in bounds))
        ends = [bound.value(_nothing, None) for bound in out.bounds if not bound.names]
        if len(ends) == 2 and not ends[0] <= ends[1]:
            raise ConditionError(bounds[0].at, "the range ends before it begins", "Write the smaller number first")
        return out

    @staticmethod
    def _spaces() -> str:
        return "A condition has one comparison; put spaces around + and -"

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _peek(self) -> str:
        token = self._tokens[self._next]
        return token.text if token.kind == "sign" else ""

    def _sum(self) -> _Term:
        out = self._product()
        while self._peek() in ("+", "-"):
            sign = 1.0 if self._take().text == "+" else -1.0
            right = self._fitting(out, self._product()).times(sign)
            out = out.joined(right, out.unit or right.unit, lambda a, b: a + b)
        return out

    def _product(self) -> _Term:
        out = self._factor()
        while self._peek() in ("*", "/"):
            divides = self._take().text == "/"
            right = self._factor()
            out = out.joined(right, *_product(out.unit, right.unit, divides))
        return out

    def _factor(self) -> _Term:
        token = self._take()
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name":
            return self._metric(token)
        if token.text == "-":
            return self._factor().times(-1.0)
        if token.text == "(":
            inner = self._sum()
            closing = self._take()
            if closing.text != ")":
                raise ConditionError(closing.at, "the parenthesis is not closed", 'Add ")"')
            return inner
        what = f'here stands "{token.text}"' if token.text else "the condition ends here"
        raise ConditionError(token.at, f"a metric or a number is missing, {what}", "Add it")

    def _number(self, token: _Token) -> _Term:
        value = float(token.text)
        if not math.isfinite(value):
            raise ConditionError(token.at, "this number is too large", "Write a smaller one")
        if not token.unit:
            return _Term(token.at, None, lambda *_: value)
        if token.unit == "%":
            return _Term(token.at, PURE, lambda *_: value / 100.0)
        for kind, unit in ((Duration, Unit(0, 1, 1e-12)), (Rate, Unit(1, -1, 1.0)), (Bytes, Unit(1, 0, 8.0))):
            try:
                one = kind(f"1{token.unit}")
            except ValueError:
                continue
            return _Term(token.at, unit._replace(size=unit.size * int(one)), lambda *_: value)
        close = nearest(token.unit, _UNITS)
        hint = f'Did you mean "{close}"? ' if close else ""
        known = ", ".join(_UNITS)
        raise ConditionError(token.at, f'there is no unit "{token.unit}"', f"{hint}There are: %, {known}")

    def _metric(self, token: _Token) -> _Term:
        if token.text == "in":
            raise ConditionError(token.at, "a metric or a number is missing before in", "Add it")
        name, is_baseline = token.text, False
        if name == "baseline" or name.startswith("baseline."):
            if not self._has_baseline:
                fix = 'Add to [expect] baseline = "cubic", or another algorithm'
                raise ConditionError(token.at, "no baseline is named", fix)
            is_baseline = True
            name = name.removeprefix("baseline").removeprefix(".")
        if is_baseline and not name:
            if self._left is None:
                fix = "Write baseline. and a metric, as in baseline.bottleneck.loss"
                raise ConditionError(token.at, "baseline alone stands for the left side, and this is it", fix)
            left = self._left
            if left.needs_baseline:
                raise ConditionError(token.at, "the left side is of the baseline already", "Name the metric here")
            return _Term(token.at, left.unit, lambda _, base: left.value(_given(base), None), left.names, True)
        lacks = self._metrics.get(name)
        if lacks is None:
            self._unknown(token, name)
        if lacks:
            raise ConditionError(
                token.at, f"what {name} is measured from is not recorded", f"Add to [instruments] {lacks}"
            )
        if is_baseline:
            return _Term(token.at, unit_of(name), lambda _, base: _given(base)(name), (name,), True)
        return _Term(token.at, unit_of(name), lambda run, _: run(name), (name,))

    def _unknown(self, token: _Token, name: str) -> None:
        close = nearest(name, list(self._metrics))
        of, _, key = name.rpartition(".")
        prefix = f"{of}." if of else ""
        mine = [known for known in self._metrics if known.rpartition(".")[0] == of]
        owners = list(dict.fromkeys(known.rpartition(".")[0] for known in self._metrics if "." in known))
        window = " in a window of time" if self._window else ""
        if of and not mine:
            near = nearest(of, owners)
            hint = f'Did you mean "{near}.{key}"? ' if near else ""
            fix = f"{hint}There are: {', '.join(owners)}"
            raise ConditionError(token.at, f'there is no flow or link "{of}" to measure{window}', fix)
        hint = f'Did you mean "{close}"? ' if close else ""
        listed = ", ".join(mine) if of else ", ".join(name for name in self._metrics if "." not in name)
        problem = f'there is no metric "{name}"{window}'
        raise ConditionError(token.at, problem, f"{hint}There are: {listed or prefix + 'none'}")

    def _fitting(self, left: _Term, right: _Term) -> _Term:
        """The right term in the unit of the left one."""
        if left.unit is None or right.unit is None:
            return right
        if left.unit[:2] != right.unit[:2]:
            kind = left.unit[:2]
            fix = f"Write {left.unit.text}" + (f", for example {_EXAMPLES[kind]}" if kind in _EXAMPLES else "")
            problem = f"this is {right.unit.text}, and what it stands beside is {left.unit.text}"
            raise ConditionError(right.at, problem, fix)
        return right.times(right.unit.size / left.unit.size)


def _product(
    left: Unit | None, right: Unit | None, divides: bool
) -> tuple[Unit | None, Callable[[float, float], float]]:
    """Unit and value of a product or quotient."""
    sign = -1 if divides else 1
    how = _quotient if divides else _times
    if right is None or (left is None and not divides):
        return left if right is None else right, how
    left = left or PURE
    size = left.size / right.size if divides else left.size * right.size
    unit = Unit(left.bits + sign * right.bits, left.seconds + sign * right.seconds, size)
    if unit[:2] == (0, 0):
        # A ratio of like things is a number: 1 s / 1 ms is 1000.
        return PURE, lambda a, b: size * how(a, b)
    return unit, how


def _times(a: float, b: float) -> float:
    return a * b


def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def _nothing(_: str) -> float:
    return math.nan


def _given(values: Values | None) -> Values:
    assert values is not None, "a condition on a baseline is judged with its run"
    return values
