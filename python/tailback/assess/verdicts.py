"""Computes verdicts from measurements: per statistic of a cell, per criterion, and on the suite itself.

A candidate passes if it is significantly no worse than the rule allows against at least one baseline. It fails if it is
significantly worse than the rule allows against every baseline. Significant means that the per-seed margins lie on one
side (`tailback.judge.side`). A number whose bound no value can violate has no verdict.

The candidate's plain case may excuse a failed number of a special case (`plain.py`). The number must fail in the plain
case too, and a row of plain paths must fail by it, so that it counts there. The bound derived from the plain case must
be one that some value can violate. A MUST is never excused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailback.assess.measure import HARMS, harm
from tailback.assess.plain import expected
from tailback.assess.procedure import GENERAL, Cell, Control, Experiment, Procedure, Statistic
from tailback.assess.table import PROCEDURE
from tailback.candidate import Candidate
from tailback.experiment.workers import REFUSED
from tailback.judge import (
    COVERED,
    DOSSIER,
    UNFINISHED,
    Interval,
    Verdict,
    Weighed,
    combined,
    decided_apart,
    interval,
    together,
    weigh,
)

__all__ = [
    "ALONE",
    "COVERED",
    "NOT_APPLICABLE",
    "NOT_RUN",
    "OWN",
    "Checked",
    "Criterion",
    "Found",
    "Runs",
    "adjusted",
    "counted_on_plain_paths",
    "excess",
    "judge_cell",
    "judge_controls",
    "judge_experiment",
    "with_covered",
]

NOT_RUN = DOSSIER(Verdict.NOT_RUN)
#: Verdict if the candidate's scope excludes the criterion.
NOT_APPLICABLE = DOSSIER(Verdict.NOT_TESTABLE)
#: Words in place of a verdict, for criteria that have none.
#: `COVERED` ones are judged by other rows, whose verdicts are not counted twice.
ASIDE = (NOT_RUN, NOT_APPLICABLE, COVERED)
#: Label of the runs without the flows under test.
ALONE = "alone"
#: Takes the place of a baseline's label if the candidate sets its own bound.
OWN = "its own bound"

#: By cell and algorithm, then by seed: the measured numbers, or the error that ended the run.
Runs = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any] | str]]


@dataclass(frozen=True)
class Found:
    """The verdict on one statistic of one cell."""

    cell: str
    statistic: str
    rule: Statistic
    verdict: str
    candidate: Interval
    #: By label: the baseline's interval, and the interval of the paired differences candidate − baseline.
    baselines: Mapping[str, Interval] = field(default_factory=dict)
    differences: Mapping[str, Interval] = field(default_factory=dict)
    #: The baseline that decides the verdict, and the bound that it sets.
    against: str = ""
    bound: float = math.nan
    why: str = ""
    #: By label: the verdict against this baseline alone.
    verdicts: Mapping[str, str] = field(default_factory=dict)
    #: For a special case, by label: the excess over the value expected from the candidate's plain case.
    beyond_plain: Mapping[str, Interval] = field(default_factory=dict)
    #: The verdict before the dossier's false discovery rate was controlled, and before the plain case was considered.
    raw: str = ""
    direct: str = ""
    #: p-value of the verdict; NaN if nothing was tested.
    p: float = math.nan
    #: The side of the estimate, significant or not: 1 is good, -1 is bad.
    side: int = 1

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "cell": self.cell, "statistic": self.statistic, "unit": self.rule.unit,
            "rule": self.rule.rule, "verdict": self.verdict, "seeds": self.candidate.n,
            "candidate": _as_json(self.candidate), "against": self.against, "bound": self.bound, "why": self.why,
            "baselines": {label: _as_json(found) for label, found in self.baselines.items()},
            "differences": {label: _as_json(found) for label, found in self.differences.items()},
            "verdicts": dict(self.verdicts), "raw": self.raw, "direct": self.direct, "p": self.p,
            "beyond_plain": {label: _as_json(found) for label, found in self.beyond_plain.items()},
        }  # fmt: skip


def _as_json(found: Interval) -> dict[str, float]:
    return {"mean": found.estimate, "low": found.low, "high": found.high}


@dataclass(frozen=True)
class Criterion:
    """An experiment with its verdict."""

    experiment: Experiment
    verdict: str
    found: tuple[Found, ...]
    why: str = ""
    #: The same harm under the rule of Ware et al., no more than the harmed algorithm does to itself. For information
    #: only.
    ware: tuple[Found, ...] = ()

    @property
    def raw(self) -> str:
        """The verdict before the dossier's false discovery rate was controlled."""
        return together([each.raw for each in self.found]) if self.found else self.verdict

    @property
    def is_missing_must(self) -> bool:
        """Whether it is a MUST and was not run."""
        return self.verdict == NOT_RUN and self.experiment.is_must

    def against(self, label: str) -> tuple[str, Found | None]:
        """The verdict against one baseline, and the statistic that is worst against it."""
        mine = [each for each in self.found if label in each.verdicts]
        verdict = together([each.verdicts[label] for each in mine]) if mine else ""
        return verdict, max(
            (each for each in mine if each.verdicts[label] == verdict),
            key=lambda each: _beyond(each, each.rule.bound(each.baselines[label].estimate)),
            default=None,
        )

    @property
    def worst(self) -> Found | None:
        """The statistic furthest beyond its bound, among those with the criterion's verdict."""
        mine = [
            each
            for each in self.found
            if each.verdict == self.verdict and self.verdict in (Verdict.FAILED, Verdict.UNDECIDED)
        ]
        return max(mine, key=excess, default=None)


def excess(found: Found) -> float:
    """How far a statistic is beyond its bound, as a share of the bound."""
    return _beyond(found, found.bound)


def _beyond(found: Found, bound: float) -> float:
    return found.rule.excess(found.candidate.estimate, bound)


@dataclass(frozen=True)
class Checked:
    """A control with its verdict in this dossier."""

    control: Control
    verdict: str
    found: tuple[Found, ...]

    @property
    def as_known(self) -> bool:
        """Whether the verdict is the known one."""
        return (
            self.verdict == Verdict.FAILED
            if self.control.fails
            else self.verdict in (Verdict.PASSED, Verdict.UNDECIDED)
        )


def judge_experiment(
    experiment: Experiment,
    cells: Sequence[Cell],
    runs: Runs,
    label: str,
    against: Sequence[str],
    scope: str = GENERAL,
    procedure: Procedure = PROCEDURE,
    of: Candidate | None = None,
    *,
    counted: Collection[str] = (),
    looks: int = 1,
) -> Criterion:
    """The verdict on a criterion from its chosen cells; `of` is the candidate with that label.

    `counted` are the numbers that fail on plain paths (`counted_on_plain_paths`). `looks` is the number of rounds after
    which verdicts are tested, which divides the error.
    """
    asked = cells
    if cells:
        cells = [one for cell in cells if (one := procedure.scoped(experiment, cell, scope, of)) is not None]
        if not cells:
            guest = experiment.not_in_guest if of is not None and procedure.needs_guest(of) else ""
            why = guest or procedure.lacks(asked, of) or experiment.needs or f"{scope}: {procedure.scopes[scope]}"
            return Criterion(experiment, NOT_APPLICABLE, (), why)
    if not cells:
        why = experiment.not_run or "none of its cells was asked for"
        return Criterion(experiment, NOT_RUN, (), why)
    excused = () if experiment.is_must else counted
    found = tuple(
        each
        for cell in cells
        for each in judge_cell(cell, runs, label, against, procedure, of, counted=excused, looks=looks)
    )
    left = sum(len(cell.statistics) for cell in asked) - sum(len(cell.statistics) for cell in cells)
    why = f"{left} of its numbers do not apply ({procedure.lacks(asked, of) or scope})" if left else ""
    ware = _by_ware(cells, runs, label, procedure, looks)
    verdict = together([each.verdict for each in found])
    why = found[0].why if verdict == NOT_APPLICABLE and not why else why
    return Criterion(experiment, verdict, found, why, ware)


def counted_on_plain_paths(criteria: Sequence[Criterion]) -> frozenset[str]:
    """The numbers by which a row of plain paths fails; only these can excuse a special case."""
    return frozenset(
        each.rule.of or each.statistic
        for criterion in criteria
        if not criterion.experiment.is_special
        for each in criterion.found
        if each.raw == Verdict.FAILED
    )


def _by_ware(cells: Sequence[Cell], runs: Runs, label: str, procedure: Procedure, looks: int) -> tuple[Found, ...]:
    """Verdicts on harm relative to the harmed algorithm itself (Ware et al.), not to the baselines of RFC 9743."""
    judged = [
        each
        for cell in cells
        if cell.rival
        for each in judge_cell(cell, runs, label, [cell.rival], procedure, looks=looks)
    ]
    return tuple(each for each in judged if each.statistic in HARMS)


def with_covered(criteria: Sequence[Criterion]) -> list[Criterion]:
    """The criteria, with each one that other experiments examine marked as covered by their verdicts."""
    judged = {each.experiment.name: each.verdict for each in criteria if each.verdict not in ASIDE}
    aside = {each.experiment.name: each for each in criteria if each.verdict == NOT_APPLICABLE}
    out = []
    for each in criteria:
        of = [name for name in each.experiment.covered_by if name in judged]
        left = [aside[name] for name in each.experiment.covered_by if name in aside]
        if of:
            each = replace(each, verdict=COVERED, why=f"by {', '.join(f'{name}: {judged[name]}' for name in of)}")
        elif left:
            each = replace(each, verdict=NOT_APPLICABLE, why=left[0].why)
        out.append(each)
    return out


def judge_cell(
    cell: Cell,
    runs: Runs,
    label: str,
    against: Sequence[str],
    procedure: Procedure = PROCEDURE,
    of: Candidate | None = None,
    *,
    counted: Collection[str] = (),
    looks: int = 1,
) -> list[Found]:
    """Verdicts on each statistic of a cell; the plain case may excuse those in `counted`."""
    mine = runs.get((cell.name, label), {})
    errors = [f"seed {seed}: {row}" for seed, row in sorted(mine.items()) if isinstance(row, str)]
    nothing = interval([], "mean")
    out = []
    for name in cell.statistics:
        rule = procedure.statistics[name]
        if refused := _refused(cell, runs, (label, *procedure.setting(against))):
            out.append(
                Found(
                    cell.name, name, rule, NOT_APPLICABLE, nothing, why=refused, raw=NOT_APPLICABLE,
                    direct=NOT_APPLICABLE,
                )
            )  # fmt: skip
            continue
        if errors:
            out.append(
                Found(
                    cell.name,
                    name,
                    rule,
                    Verdict.FAILED,
                    nothing,
                    why=errors[0],
                    raw=Verdict.FAILED,
                    direct=Verdict.FAILED,
                    p=0.0,
                    side=-1,
                )
            )
            continue
        values = _values(cell, name, rule, runs, label)
        others = {other: _values(cell, name, rule, runs, other) for other in against}
        setting = procedure.setting(against)
        # Cells that it cannot run lack a baseline that sets no bound.
        others = {other: row for other, row in others.items() if row or other in setting}
        if not mine or not all(others.values()):
            why = "not all of its runs were finished"
            out.append(Found(cell.name, name, rule, UNFINISHED, nothing, why=why, raw=UNFINISHED, direct=UNFINISHED))
            continue
        of_plain = replace(cell, name=cell.plain)
        may_be = cell.plain and (rule.of or name) in counted
        plain = {each: _values(of_plain, name, rule, runs, each) for each in (label, *against)} if may_be else {}
        own = procedure.reference(cell, rule, of)
        if math.isfinite(own):
            bounds = {OWN: dict.fromkeys(values, own)}
        else:
            named = {each: row for each, row in others.items() if each in rule.beside}
            bounds = named or {each: others[each] for each in setting}
        found = _judged(cell.name, name, rule, values, bounds, plain, label, looks)
        for each in [each for each in others if each not in setting]:
            found = _compared(found, _judged(cell.name, name, rule, values, {each: others[each]}, {}, label, looks))
        out.append(_with_effects(found, values, others))
    return out


def _compared(found: Found, alone: Found) -> Found:
    """The finding with its comparison with a baseline that sets no bound, of which no plain case is run."""
    return replace(
        found,
        baselines={**found.baselines, **alone.baselines},
        differences={**found.differences, **alone.differences},
        verdicts={**found.verdicts, **alone.verdicts},
    )


def _refused(cell: Cell, runs: Runs, labels: Sequence[str]) -> str:
    """Why a kernel or a guest could not run the cell; empty if it could."""
    rows = [row for label in labels for row in runs.get((cell.name, label), {}).values() if isinstance(row, str)]
    return next((row.removeprefix(REFUSED) for row in rows if row.startswith(REFUSED)), "")


def _with_effects(found: Found, values: Mapping[int, float], others: Mapping[str, Mapping[int, float]]) -> Found:
    """The finding with the differences to baselines that set no bound."""
    more = {label: row for label, row in others.items() if label not in found.baselines}
    if not more:
        return found
    paired = {label: [values[seed] - row[seed] for seed in sorted(values.keys() & row.keys())]
              for label, row in more.items()}  # fmt: skip
    baselines = {**found.baselines, **{label: interval(list(row.values()), "mean") for label, row in more.items()}}
    return replace(
        found,
        baselines=baselines,
        differences={**found.differences, **{k: interval(v, "mean") for k, v in paired.items()}},
    )


def _values(cell: Cell, name: str, rule: Statistic, runs: Runs, label: str) -> dict[int, float]:
    """A statistic by seed; NaN for a run without it."""
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
            value = row.get(rule.of or name)
            out[seed] = math.nan if value is None else float(value)
    return out


def _judged(
    cell: str,
    name: str,
    rule: Statistic,
    values: Mapping[int, float],
    others: Mapping[str, Mapping[int, float]],
    plain: Mapping[str, Mapping[int, float]],
    mine: str,
    looks: int,
) -> Found:
    baselines, differences, verdicts, whys, bounds = {}, {}, {}, {}, {}
    beyond, direct = {}, {}
    #: Outcome of each test, by baseline.
    weighed: dict[str, Weighed] = {}
    for label, theirs in others.items():
        seeds = sorted(values.keys() & theirs.keys())
        both = [seed for seed in seeds if math.isfinite(values[seed]) and math.isfinite(theirs[seed])]
        baselines[label] = interval([theirs[seed] for seed in seeds], "mean")
        differences[label] = interval([values[seed] - theirs[seed] for seed in both], "mean")
        bounds[label] = rule.bound(baselines[label].estimate)
        lacking = [seed for seed in seeds if math.isfinite(theirs[seed]) and not math.isfinite(values[seed])]
        whys[label] = ""
        allows_all = bool(both) and not lacking and not rule.can_fail(bounds[label])
        if allows_all:
            whys[label] = f"{label} allows every value there can be"
        elif lacking:
            # Leaving such seeds out would hide the worst ones: a transfer that never finishes has no completion time.
            weighed[label] = Weighed(Verdict.FAILED, -1, 0.0)
            whys[label] = f"nothing came through to measure it by with seed {lacking[0]}"
        elif not both:
            has = any(math.isfinite(values[seed]) for seed in seeds)
            if has:
                weighed[label] = Weighed(Verdict.PASSED, 1, 0.0)
            whys[label] = f"{label} has no such number" + ("" if has else ", nor has the candidate")
        else:
            weighed[label] = _weighed(rule, values, theirs, both, looks)
        without = NOT_APPLICABLE if allows_all else Verdict.UNDECIDED
        verdicts[label] = direct[label] = weighed[label].verdict if label in weighed else without
        hoped = {} if lacking else _excuse(rule, theirs, plain.get(label, {}), plain.get(mine, {}), looks)
        paired = [seed for seed in both if seed in hoped]
        if label in weighed and len(paired) >= 2:
            beyond[label] = interval([values[seed] - hoped[seed] for seed in paired], "mean")
            beside_plain = weighed[f"{label}, plain"] = _weighed(rule, values, hoped, paired, looks)
            if _ORDER[beside_plain.verdict] < _ORDER[verdicts[label]]:
                verdicts[label] = beside_plain.verdict
                bounds[label] = rule.bound(interval([hoped[seed] for seed in paired], "mean").estimate)
    # The most lenient verdict counts; among equals, the baseline with the most room.
    order = _ORDER
    room = {label: bounds[label] if not rule.more else -bounds[label] for label in others}
    best = min(others, key=lambda label: (order[verdicts[label]], -room[label] if math.isfinite(room[label]) else 0.0))
    # A baseline that allows every value decides nothing.
    is_open = verdicts[best] != NOT_APPLICABLE
    directions = {label: each.direction for label, each in weighed.items()}
    p = combined(directions, {label: each.p for label, each in weighed.items()})
    return Found(
        cell, name, rule, verdicts[best], interval(list(values.values()), "mean"), baselines, differences, best,
        bounds[best], whys[best], verdicts, beyond, verdicts[best], min(direct.values(), key=order.__getitem__),
        p if weighed and is_open else math.nan, max(directions.values(), default=1),
    )  # fmt: skip


def _weighed(
    rule: Statistic, values: Mapping[int, float], theirs: Mapping[int, float], seeds: Sequence[int], looks: int
) -> Weighed:
    margins = [rule.margin(values[seed], theirs[seed]) for seed in seeds]
    return weigh(margins, [rule.ratio(values[seed], theirs[seed]) for seed in seeds], looks)


#: The most lenient first.
_ORDER = {NOT_APPLICABLE: -1, Verdict.PASSED: 0, Verdict.UNDECIDED: 1, Verdict.FAILED: 2}


def _excuse(
    rule: Statistic, special: Mapping[int, float], plain: Mapping[int, float], mine: Mapping[int, float], looks: int
) -> dict[int, float]:
    """The value expected for the special case from the candidate's plain case, by seed.

    Empty unless the candidate fails in the plain case too, and some value can violate the bound derived from it.
    """
    seeds = [seed for seed in sorted(special.keys() & plain.keys() & mine.keys())
             if math.isfinite(plain[seed]) and math.isfinite(mine[seed])]  # fmt: skip
    if len(seeds) < 2 or _weighed(rule, mine, plain, seeds, looks).verdict != Verdict.FAILED:
        return {}
    is_rate = rule.more and rule.factor not in (0.0, 1.0)
    found = {seed: expected(is_rate, special[seed], plain[seed], mine[seed]) for seed in seeds}
    found = {seed: value for seed, value in found.items() if math.isfinite(value)}
    can_fail = rule.can_fail(rule.bound(interval(list(found.values()), "mean").estimate))
    return found if can_fail else {}


def adjusted(
    criteria: Sequence[Criterion], more: Sequence[tuple[float, int]] = ()
) -> tuple[list[Criterion], list[bool]]:
    """The criteria, and which of the p-values in `more` stay decided, under one false discovery rate for all.

    The rate is controlled separately over passed and failed numbers. A number that does not stay decided becomes
    undecided.
    """
    tested = [(each.p, each.side) for criterion in criteria for each in criterion.found if math.isfinite(each.p)]
    tested += more
    stay = decided_apart([p for p, _ in tested], [side for _, side in tested])
    left = iter(stay)
    out = []
    for criterion in criteria:
        found = []
        for each in criterion.found:
            if math.isfinite(each.p) and not next(left) and each.verdict in (Verdict.PASSED, Verdict.FAILED):
                each = replace(each, verdict=Verdict.UNDECIDED)
            found.append(each)
        if found:
            criterion = replace(criterion, found=tuple(found), verdict=together([each.verdict for each in found]))
        out.append(criterion)
    return out, stay[len(tested) - len(more) :]


def judge_controls(
    runs: Runs,
    controls: Sequence[Control] | None = None,
    procedure: Procedure = PROCEDURE,
    of: Mapping[str, Candidate] | None = None,
    looks: int = 1,
) -> list[Checked]:
    """Verdicts on the controls against the procedure's baselines; a baseline is not judged against itself."""
    out = []
    for control in procedure.controls if controls is None else controls:
        against = [each for each in procedure.baselines if each != control.cc]
        found = tuple(
            each
            for name in control.cells
            for each in judge_cell(
                replace(procedure.cells[name], statistics=(control.statistic,)), runs, control.label, against,
                procedure, (of or {}).get(control.label), looks=looks,
            )
        )  # fmt: skip
        out.append(Checked(control, together([each.verdict for each in found]), found))
    return out
