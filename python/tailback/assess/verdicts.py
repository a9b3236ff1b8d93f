"""From what runs measured to verdicts: per statistic of a cell, per criterion, and on the suite itself.

A candidate has passed where it is sure to be no worse than the rule allows against one of the baselines, and failed
where it is sure to be worse than the rule allows against each. Sure: the interval of the margin, taken seed by seed,
lies on one side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailback.assess.measure import HARMS, harm
from tailback.assess.table import CONTROLS, STATISTICS, Cell, Control, Experiment, by_name
from tailback.expect.verdicts import FAILED, PASSED, UNDECIDED, UNFINISHED, together
from tailback.experiment.statistics import Interval, interval

__all__ = [
    "ALONE",
    "NOT_RUN",
    "Checked",
    "Criterion",
    "Found",
    "Runs",
    "judge_cell",
    "judge_controls",
    "judge_experiment",
    "with_covered",
]

NOT_RUN = "not run"
#: Whose runs are without the flows under test.
ALONE = "alone"
CONFIDENCE = 0.95

#: By cell and algorithm, by seed: what was measured, or the error that ended the run.
Runs = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any] | str]]


@dataclass(frozen=True)
class Found:
    """One statistic of one cell."""

    cell: str
    statistic: str
    verdict: str
    candidate: Interval
    #: By label: of the baseline, and of candidate - baseline, seed by seed.
    baselines: Mapping[str, Interval] = field(default_factory=dict)
    differences: Mapping[str, Interval] = field(default_factory=dict)
    #: The baseline that the verdict rests on, and the bound that it sets.
    against: str = ""
    bound: float = math.nan
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "cell": self.cell, "statistic": self.statistic, "unit": STATISTICS[self.statistic].unit,
            "rule": STATISTICS[self.statistic].rule, "verdict": self.verdict, "seeds": self.candidate.n,
            "candidate": _told(self.candidate), "against": self.against, "bound": self.bound, "why": self.why,
            "baselines": {label: _told(found) for label, found in self.baselines.items()},
            "differences": {label: _told(found) for label, found in self.differences.items()},
        }  # fmt: skip


def _told(found: Interval) -> dict[str, float]:
    return {"mean": found.estimate, "low": found.low, "high": found.high}


@dataclass(frozen=True)
class Criterion:
    """An experiment with its verdict."""

    experiment: Experiment
    verdict: str
    found: tuple[Found, ...]
    why: str = ""
    #: The same harm by the rule of Ware et al.: no more than the harmed algorithm does to itself. It decides nothing.
    ware: tuple[Found, ...] = ()

    @property
    def is_missing_must(self) -> bool:
        """Did the RFC demand it, and was it not run?"""
        return self.verdict == NOT_RUN and self.experiment.word.startswith("MUST")

    @property
    def worst(self) -> Found | None:
        """The statistic that is furthest beyond its bound, of those with the criterion's verdict."""
        mine = [each for each in self.found if each.verdict == self.verdict and self.verdict in (FAILED, UNDECIDED)]
        return max(mine, key=_excess, default=None)


def _excess(found: Found) -> float:
    rule = STATISTICS[found.statistic]
    beyond = found.bound - found.candidate.estimate if rule.more else found.candidate.estimate - found.bound
    size = max(abs(found.bound), rule.allowance)
    return beyond / size if size and math.isfinite(beyond) else math.inf


@dataclass(frozen=True)
class Checked:
    """A control: an algorithm whose verdict is known, and what came out."""

    control: Control
    verdict: str
    found: tuple[Found, ...]

    @property
    def as_known(self) -> bool:
        """Did it come out as it must?"""
        return self.verdict == FAILED if self.control.fails else self.verdict in (PASSED, UNDECIDED)


def judge_experiment(
    experiment: Experiment, cells: Sequence[Cell], runs: Runs, label: str, against: Sequence[str]
) -> Criterion:
    """The verdict on a criterion by those of its cells that were to be run."""
    if not cells:
        why = experiment.not_run or "none of its cells was asked for"
        return Criterion(experiment, NOT_RUN, (), why)
    found = tuple(each for cell in cells for each in judge_cell(cell, runs, label, against))
    return Criterion(experiment, together([each.verdict for each in found]), found, ware=_by_ware(cells, runs, label))


def _by_ware(cells: Sequence[Cell], runs: Runs, label: str) -> tuple[Found, ...]:
    """RFC 9743 section 5.2.1 compares with earlier standards, Ware et al. with the algorithm that is harmed."""
    judged = [each for cell in cells if cell.rival for each in judge_cell(cell, runs, label, [cell.rival])]
    return tuple(each for each in judged if each.statistic in HARMS)


def with_covered(criteria: Sequence[Criterion]) -> list[Criterion]:
    """The same; a criterion that others examine has the verdict of all of them."""
    verdicts = {each.experiment.name: each.verdict for each in criteria if each.verdict != NOT_RUN}
    out = []
    for each in criteria:
        of = [name for name in each.experiment.covered_by if name in verdicts]
        if of:
            each = replace(each, verdict=together([verdicts[name] for name in of]), why=f"by {', '.join(of)}")
        out.append(each)
    return out


def judge_cell(cell: Cell, runs: Runs, label: str, against: Sequence[str]) -> list[Found]:
    """Each statistic of a cell."""
    mine = runs.get((cell.name, label), {})
    errors = [f"seed {seed}: {row}" for seed, row in sorted(mine.items()) if isinstance(row, str)]
    nothing = interval([], "mean")
    out = []
    for name in cell.statistics:
        if errors:
            out.append(Found(cell.name, name, FAILED, nothing, why=errors[0]))
            continue
        values = _values(cell, name, runs, label)
        others = {other: _values(cell, name, runs, other) for other in against}
        if not mine or not all(others.values()):
            out.append(Found(cell.name, name, UNFINISHED, nothing, why="not all of its runs were finished"))
            continue
        out.append(_judged(cell.name, name, values, others))
    return out


def _values(cell: Cell, name: str, runs: Runs, label: str) -> dict[int, float]:
    """A statistic by seed; NaN where the run has none."""
    out = {}
    alone = runs.get((cell.name, ALONE), {})
    for seed, row in sorted(runs.get((cell.name, label), {}).items()):
        if isinstance(row, str):
            continue
        if name in HARMS:
            base = alone.get(seed)
            if isinstance(base, Mapping):
                out[seed] = harm(name, base, row)
        else:
            value = row.get(name)
            out[seed] = math.nan if value is None else float(value)
    return out


def _judged(cell: str, name: str, values: Mapping[int, float], others: Mapping[str, Mapping[int, float]]) -> Found:
    rule = STATISTICS[name]
    baselines, differences, verdicts, whys, bounds = {}, {}, {}, {}, {}
    for label, theirs in others.items():
        seeds = sorted(values.keys() & theirs.keys())
        both = [seed for seed in seeds if math.isfinite(values[seed]) and math.isfinite(theirs[seed])]
        baselines[label] = _mean([theirs[seed] for seed in seeds])
        differences[label] = _mean([values[seed] - theirs[seed] for seed in both])
        # The bound at the baseline's mean: where its margin is nothing.
        bounds[label] = rule.margin(0.0, baselines[label].estimate) * (-1.0 if rule.more else 1.0)
        lacking = [seed for seed in seeds if math.isfinite(theirs[seed]) and not math.isfinite(values[seed])]
        if lacking:
            # Left out they would hide the worst: what never arrived has no completion time.
            verdicts[label], whys[label] = FAILED, f"there is no such number with seed {lacking[0]}"
        elif not both:
            has = any(math.isfinite(values[seed]) for seed in seeds)
            verdicts[label] = PASSED if has else UNDECIDED
            whys[label] = f"{label} has no such number" + ("" if has else ", nor has the candidate")
        else:
            verdicts[label] = _sign([rule.margin(values[seed], theirs[seed]) for seed in both])
            whys[label] = ""
    # The most lenient counts; of those alike the one with the most room.
    order = {PASSED: 0, UNDECIDED: 1, FAILED: 2}
    room = {label: bounds[label] if not rule.more else -bounds[label] for label in others}
    best = min(others, key=lambda label: (order[verdicts[label]], -room[label] if math.isfinite(room[label]) else 0.0))
    return Found(
        cell, name, verdicts[best], _mean(list(values.values())), baselines, differences, best, bounds[best], whys[best]
    )  # fmt: skip


def _mean(values: Sequence[float]) -> Interval:
    return interval(values, "mean", confidence=CONFIDENCE)


def _sign(margins: Sequence[float]) -> str:
    found = _mean(margins)
    return PASSED if found.low >= 0.0 else FAILED if found.high < 0.0 else UNDECIDED


def judge_controls(runs: Runs) -> list[Checked]:
    """What came of the algorithms whose verdicts are known, against CUBIC and Reno; neither is judged by itself."""
    out = []
    for control in CONTROLS:
        against = [cc for cc in ("cubic", "reno") if cc != control.cc]
        found = tuple(
            each
            for name in control.cells
            for each in judge_cell(by_name()[name], runs, control.cc, against)
            if each.statistic == control.statistic
        )
        out.append(Checked(control, together([each.verdict for each in found]), found))
    return out
