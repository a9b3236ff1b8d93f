"""Claims: what a paper states, how it is measured, the rule that decides, and whether the verdict is evidence.

A rule is fixed before the runs and maps a value to a verdict. The standing of a claim states whether the verdict is
evidence: predicted, fitted, restated, certain or untestable.
"""

from __future__ import annotations

import contextlib
import math
import re
import statistics
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tailback.experiment.outcome import NOT, PREDICTED, REPRODUCED, UNDECIDED, ClaimResult
from tailback.judge import Band, Verdict, interval
from tailback.metrics.rows import Floats

if TYPE_CHECKING:
    from tailback.experiment.study import Data


# --- Standing: whether a verdict is evidence
# ------------------------------------------------------------------------------------


FITTED, RESTATED, CERTAIN, UNTESTABLE = "fitted", "restated", "cannot fail", "not testable"
KINDS = (PREDICTED, FITTED, RESTATED, CERTAIN, UNTESTABLE)


@dataclass(frozen=True)
class Standing:
    """One of `KINDS`, with the reason."""

    kind: str
    reason: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a claim's standing is one of {', '.join(KINDS)}, not {self.kind!r}")


AS_PREDICTED = Standing(PREDICTED, "")


def fitted(reason: str) -> Standing:
    """Standing of a claim that a parameter was fitted to, or with its verdict in view: no evidence."""
    return Standing(FITTED, reason)


def restated(reason: str) -> Standing:
    """Standing of a claim that follows from other claims, which already count."""
    return Standing(RESTATED, reason)


def certain(reason: str) -> Standing:
    """Standing of a claim that every correct implementation of the set-up meets, so that no result could refute it."""
    return Standing(CERTAIN, reason)


def untestable(reason: str) -> Standing:
    """Standing of a claim that the paper contradicts, or that no run like the paper's could show."""
    return Standing(UNTESTABLE, reason)


# --- Possible values of a measure
# ----------------------------------------------------------------------------------------

Range = tuple[float, float]
"""The smallest and the largest value that a measure can have."""
ANY: Range = (-math.inf, math.inf)
SHARE: Range = (0.0, 100.0)
"""Per cent of a whole."""
POSITIVE: Range = (0.0, math.inf)
"""Range of ratios, counts, times and rates, but not of differences."""
RANGES: Mapping[str, Range] = {"×": POSITIVE, " Mbit/s": POSITIVE}
"""Ranges by unit. A claim in another unit declares its own."""


# --- Claims -----------------------------------------------------------------------------------------------------


class NotRun(LookupError):
    """A run that a claim needs is missing, so the claim is not measured for this seed."""


@dataclass(frozen=True)
class Measured:
    """A claim's value for one seed, with the numbers that it is computed from."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    holds: bool = True
    """Whether the claim's further condition holds; if not, the claim is not reproduced, whatever the value."""


Measure = Callable[["Data", int], Measured | None]
Parts = dict[str, float]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, how it is measured here, and when it counts as reproduced."""

    id: str
    text: str
    where: str
    """Its source: section and figure of the paper."""
    paper: str
    unit: str
    definition: str
    measure: pl.Expr | Measure
    """An expression over the frame of one seed's runs (`Data.frame`) that gives a number; or a function of the data and
    a seed, as `of` makes one."""
    rule: Band
    figure: str
    why: str = ""
    """Best explanation of a miss, shown if the claim is missed. `{name}` cites one of the measure's parts, or
    the value of the claim with this id."""
    standing: Standing = AS_PREDICTED
    """Whether its verdict is evidence."""
    redefined: str = ""
    """How its measure or rule was changed after first results, if it was."""
    kind: str = "qualitative"
    remark: Callable[[Data], str] | None = None
    possible: Range | None = None
    """The smallest and the largest possible value; `None`: the range of the unit, or any value."""

    def __post_init__(self) -> None:
        """Refuse a rule that every possible value meets, or that none meets."""
        low, high = self.range
        first, last = self.rule.allowed()
        if self.standing.kind == PREDICTED and first <= low and last >= high:
            raise ValueError(
                f"{self.id}: no value from {low:g} to {high:g} violates its rule ({self.rule.words()}). Give a rule "
                "that can fail, or the standing certain(reason)."
            )
        if first > high or last < low:
            raise ValueError(
                f"{self.id}: no value from {low:g} to {high:g} meets its rule ({self.rule.words()}). Correct the rule "
                "or `possible`."
            )

    @property
    def range(self) -> Range:
        """The smallest and the largest value that the measure can have."""
        return RANGES.get(self.unit, ANY) if self.possible is None else self.possible


def by_name(label: str, values: Any, titles: Mapping[Any, str] | None = None, **axes: Sequence[Any]) -> Parts:
    """Finite values of an array by name: the label is filled in with the value, or title, of each axis.

    An axis that the label does not name is averaged over.

    >>> by_name("{queue}, {delay_ms} ms", [[1.0, 2.0]], {"pfifo": "PFIFO"}, queue=["pfifo"], delay_ms=[40, 80])
    {'PFIFO, 40 ms': 1.0, 'PFIFO, 80 ms': 2.0}
    """
    values, titles = np.asarray(values, dtype=np.float64), titles or {}
    shown = [name for _, name, _, _ in string.Formatter().parse(label) if name]
    over = tuple(place for place, name in enumerate(axes) if name not in shown)
    found: Parts = {}
    for index in np.ndindex(*(1 if place in over else size for place, size in enumerate(values.shape))):
        each = values[tuple(slice(None) if place in over else at for place, at in enumerate(index))]
        values_of = {name: axis[at] for (name, axis), at in zip(axes.items(), index, strict=True)}
        value = mean(each)
        if not math.isnan(value):
            found[label.format(**{name: titles.get(one, one) for name, one in values_of.items()})] = value
    return found


def of(
    what: str | Callable[[Any], Any],
    value: Callable[[Floats], Any],
    over: Callable[[Floats], float] = float,
    *,
    each: str = "",
    beside: str = "",
    scale: float = 1.0,
    titles: Mapping[Any, str] | None = None,
    **factors: Any,
) -> Measure:
    """A measure: `over` of the `value` of an array of the runs (`Data.array`), times `scale`.

    `beside` is the label of the array's numbers and `each` that of the computed values; both are shown with the claim.
    """
    axes = {name: axis for name, axis in factors.items() if isinstance(axis, list | tuple)}

    def measure(data: Data, seed: int) -> Measured:
        found = scale * data.array(what, seed, **factors)
        made = np.asarray(value(found))
        parts = by_name(each, made, titles, **_left(each, made, axes)) if each else {}
        return Measured(float(over(made)), parts | (by_name(beside, found, titles, **axes) if beside else {}))

    return measure


def _left(label: str, made: Floats, axes: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The axes of the computed array: those that the label names, else the last ones, each cut to its last values."""
    named = {name: axis for name, axis in axes.items() if f"{{{name}" in label}
    left = named if len(named) == made.ndim else dict(list(axes.items())[len(axes) - made.ndim :])
    return {name: axis[len(axis) - size :] for (name, axis), size in zip(left.items(), made.shape, strict=True)}


def known(values: Any) -> Floats:
    """The finite values; for example, a ratio with denominator zero is left out."""
    flat = np.ravel(np.asarray(values, dtype=np.float64))
    return flat[np.isfinite(flat)]


def mean(values: Any) -> float:
    """Mean of the finite values; NaN if there are none."""
    return float(np.mean(found)) if len(found := known(values)) else math.nan


def median(values: Any) -> float:
    """Median of the finite values; NaN if there are none."""
    return float(np.median(found)) if len(found := known(values)) else math.nan


def least(values: Any) -> float:
    """Smallest finite value; NaN if there is none."""
    return float(np.min(found)) if len(found := known(values)) else math.nan


def most(values: Any) -> float:
    """Largest finite value; NaN if there is none."""
    return float(np.max(found)) if len(found := known(values)) else math.nan


def _measured(claim: Claim, data: Data, seed: int) -> Measured | None:
    if not isinstance(claim.measure, pl.Expr):
        # A division by zero gives NaN, which counts as not measured.
        with contextlib.suppress(NotRun), np.errstate(all="ignore"):
            return claim.measure(data, seed)
        return None
    if data.frame.is_empty():
        return None
    runs = data.frame.filter(seed=seed)
    value = runs.select(claim.measure).item()
    return None if value is None else Measured(float(value))


CITATION = re.compile(r"{([^{}]+)}")
"""Matches a figure cited in a reason."""


def _is_secured(rule: Band, values: Sequence[float]) -> bool:
    """Whether Student's interval of the seeds' mean lies within the rule."""
    found = interval(values, "mean")
    return all(rule.judge(end) is Verdict.PASSED for end in (found.low, found.high))


def cited(text: str, figures: Mapping[str, str]) -> str:
    """A reason with its cited figures filled in, or "not measured"; other claims' ids are left as they are."""

    def figure(found: re.Match[str]) -> str:
        return figures.get(found[1], found[0] if IDENTITY.fullmatch(found[1]) else f"({found[1]}: not measured)")

    return CITATION.sub(figure, text)


IDENTITY = re.compile(r"[A-Z0-9]+-[A-Z]*\d+[a-z]?")
"""Format of a claim's id."""


def judge(claim: Claim, data: Data) -> ClaimResult:
    """Measure a claim for every seed and apply its rule to the median.

    The claim is reproduced if every seed reproduces it, or if the interval of the seeds' mean lies within the rule. If
    only the median does, the claim is undecided.
    """
    values: list[float] = []
    holds: list[bool] = []
    parts: dict[str, list[float]] = {}
    for seed in data.seeds:
        measured = _measured(claim, data, seed)
        if measured is None or math.isnan(measured.value):
            continue
        values.append(measured.value)
        holds.append(measured.holds)
        for name, part in measured.parts.items():
            parts.setdefault(name, []).append(part)
    middle = statistics.median(values) if values else float("nan")
    each = [claim.rule.word(value) if so else NOT for value, so in zip(values, holds, strict=True)]
    # The condition must hold in more than half of the seeds.
    verdict = NOT if values and 2 * sum(holds) <= len(holds) else claim.rule.word(middle)
    if verdict == REPRODUCED and set(each) != {REPRODUCED} and not (all(holds) and _is_secured(claim.rule, values)):
        verdict = UNDECIDED
    notes = [f"{name} {statistics.median(series):.3g}" for name, series in parts.items() if series]
    figures = {name: f"{statistics.median(series):.3g}" for name, series in parts.items()}
    if not all(holds):
        notes.append(f"its condition does not hold in {holds.count(False)} of {len(holds)} seeds")
    if len(set(each)) > 1:
        notes.append("single seeds: " + ", ".join(f"{each.count(v)} {v}" for v in dict.fromkeys(each)))
    if claim.remark is not None and values:
        notes.append(claim.remark(data))
    return ClaimResult(
        id=claim.id,
        text=claim.text,
        kind=claim.kind,
        where=claim.where,
        paper=claim.paper,
        ours=f"{middle:.3g}{claim.unit}" if values else "–",
        spread=f"{min(values):.3g} … {max(values):.3g}" if len(values) > 1 else "one seed" if values else "–",
        values=values,
        unit=claim.unit,
        verdict=verdict,
        threshold=claim.rule.words(),
        definition=claim.definition,
        figure=claim.figure,
        note="; ".join(note for note in notes if note),
        why="" if not values or verdict == REPRODUCED else cited(claim.why, figures),
        standing=claim.standing.kind,
        because=claim.standing.reason,
        redefined=claim.redefined,
    )
