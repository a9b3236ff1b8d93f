"""Runs one grid of scenarios on two kernels and reports what changed, with intervals over the seeds."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback.errors import ScenarioError, TailbackError
from tailback.experiment.pairs import PairedMetric
from tailback.experiment.run_metrics import RunMetrics
from tailback.experiment.sweeps import Sweep
from tailback.files import whole_file
from tailback.judge import interval, paired
from tailback.vm import guest_digest, stored_runs
from tailback.vm.kernels import find
from tailback.vm.machine import LostRun

__all__ = ["NOTHING_YET", "Change", "Run", "changes", "page", "run_grid", "runs_of", "sides"]


@dataclass(frozen=True)
class Run:
    """One point of the grid with one seed."""

    point: int
    values: Mapping[str, Any]
    seed: int
    resolved: Mapping[str, Any]
    #: Selects the metrics to keep.
    kept: RunMetrics

    @property
    def title(self) -> str:
        """The point's values as text."""
        return ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in self.values.items()) or "as it is"

    def file(self, folder: Path, kernel: str) -> Path:
        """File that keeps this run on `kernel`; its name identifies the scenario, the metrics and the guest."""
        text = json.dumps([self.resolved, self.kept.digest, guest_digest()], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return stored_runs.folder_of(folder, kernel) / f"{digest}.json"


def runs_of(sweep: Sweep) -> list[Run]:
    """All runs of the grid, point by point, so that an interrupted grid has all seeds of its first points."""
    out = []
    for number, values in enumerate(sweep.design):
        for seed in sweep.seeds:
            resolved = sweep.scenario(number, values, seed).resolve(live=True)
            out.append(Run(number, dict(values), seed, resolved, sweep.kept))
    return out


def run_grid(
    runs: Sequence[Run],
    kernels: tuple[str, str],
    folder: Path,
    *,
    announce: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
    keep_refusals: bool = False,
) -> bool:
    """Run what is not in `folder` yet; it ends before a run that begins after `seconds`, and the next call goes on.

    Returns whether all has run. A kernel that cannot run a scenario raises `ScenarioError`, or with `keep_refusals` is
    kept with the reason. A stored run of another kernel of the same name is ignored. A run whose machine was lost is
    tried again by the next call.
    """
    began = time.monotonic()
    here = [find(kernel) for kernel in kernels]
    for number, run in enumerate(runs, 1):
        for kernel in here:
            file = run.file(folder, kernel.name)
            if stored_runs.read(file, kernel) is not None:
                continue
            if time.monotonic() - began > seconds:
                return False
            title = f"run {number} of {len(runs)} on {kernel.name}: {run.title}, seed {run.seed}"
            try:
                found = stored_runs.attempt(run.resolved, kernel, run.kept)
            except LostRun as error:
                announce(f"{title}: lost, the next call tries again: {error}")
                continue
            except ScenarioError as error:
                if not keep_refusals:
                    raise
                found = {"kernel": kernel.about, "refused": str(error).splitlines()[0]}
            row = {"point": run.point, "values": run.values, "seed": run.seed, **found}
            with whole_file(file) as partial:
                partial.write_text(json.dumps(row, indent=1) + "\n")
            announce(title)
    return True


@dataclass(frozen=True)
class Change(PairedMetric):
    """A metric at one point on both kernels, over the seeds that both have run."""

    point: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"point": self.point, **super().to_json()}


def changes(
    runs: Sequence[Run], kernels: tuple[str, str], folder: Path, confidence: float = 0.95
) -> tuple[list[Change], list[str], dict[str, dict[str, Any]]]:
    """Changes between `kernels` from the runs in `folder`, reasons of refused runs, and each kernel's description."""
    measured: dict[int, list[tuple[Run, list[dict[str, Any]]]]] = {}
    refused: list[str] = []
    about: dict[str, dict[str, Any]] = {}
    here = [find(kernel) for kernel in kernels]
    for run in runs:
        rows = [stored_runs.read(run.file(folder, kernel.name), kernel) for kernel in here]
        both = [row for row in rows if row is not None]
        if len(both) < len(rows):
            continue
        reasons = [row["refused"] for row in both if "refused" in row]
        if reasons:
            refused.append(f"{run.title}, seed {run.seed}: {reasons[0]}")
            continue
        about |= {kernel: row["kernel"] for kernel, row in zip(kernels, both, strict=True)}
        measured.setdefault(run.point, []).append((run, [row["measures"] for row in both]))
    out = []
    for pairs in measured.values():
        if len(pairs) < 2:
            continue
        for metric in pairs[0][1][0]:
            sides: list[dict[int, float]] = [{}, {}]
            for run, both_measures in pairs:
                values = [float(row.get(metric, math.nan)) for row in both_measures]
                if all(math.isfinite(value) for value in values):
                    for side, value in zip(sides, values, strict=True):
                        side[run.seed] = value
            if len(sides[0]) < 2:
                continue
            a, b = (interval(list(side.values()), "mean", confidence=confidence) for side in sides)
            difference = paired(sides[0], sides[1], confidence=confidence).difference
            out.append(Change(metric, a, b, difference, point=pairs[0][0].title))
    return _once_each(out), refused, about


def sides(
    runs: Sequence[Run], kernels: tuple[str, str], folder: Path
) -> dict[tuple[str, str], tuple[list[float], list[float]]]:
    """Values on each kernel over the seeds that both have, by point and metric."""
    out: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    here = [find(kernel) for kernel in kernels]
    for run in runs:
        found = [stored_runs.read(run.file(folder, kernel.name), kernel) or {} for kernel in here]
        rows = [row["measures"] for row in found if "measures" in row]
        if len(rows) < len(here):
            continue
        for metric in rows[0]:
            values = [float(row.get(metric, math.nan)) for row in rows]
            if all(math.isfinite(value) for value in values):
                both = out.setdefault((run.title, metric), ([], []))
                both[0].append(values[0])
                both[1].append(values[1])
    return out


#: Message while there are too few runs to compare.
NOTHING_YET = "no point has run with two seeds on both kernels yet: nothing is compared. Give it more minutes"
#: Changes above this relative size are listed one by one.
_SMALL = 0.01


def _once_each(found: Sequence[Change]) -> list[Change]:
    """Drops repeated quantities of a path, such as one flow's total and the total of all flows."""
    distinct: dict[tuple[Any, ...], Change] = {}
    for row in found:
        values = (row.a.estimate, row.b.estimate, row.difference.low, row.difference.high)
        # Two metrics that are zero on both kernels are not necessarily the same quantity.
        distinct.setdefault((row.point, *values) if row.a.estimate else (row.point, row.metric), row)
    return list(distinct.values())


def page(
    found: Sequence[Change],
    refused: Sequence[str],
    about: Mapping[str, Mapping[str, Any]],
    kernels: tuple[str, str],
    command: str,
) -> str:
    """The Markdown page of a comparison."""
    if not found:
        raise TailbackError(NOTHING_YET)
    seen = [row for row in found if row.verdict in ("higher", "lower")]
    large = [row for row in seen if not abs(row.change) < _SMALL]
    same = sum(row.verdict == "same" for row in found)
    seeds = max(row.difference.n for row in found)
    points = len({row.point for row in found})
    lines = [
        f"# {kernels[0]} and {kernels[1]}",
        "",
        f"`{command}` writes this page: one grid of {points} paths on two kernels in virtual machines ([vm](vm.md)), "
        f"up to {seeds} seeds each. Each metric is compared seed by seed; a change is reported when the 95 % interval "
        "of the difference does not contain zero. Of twenty comparisons in which nothing changed one is reported all "
        "the same. "
        "Seeds change what a scenario draws at random, and nothing else: where it draws nothing, all seeds have the "
        "same difference, and an interval without width speaks of that path alone. Losses, retransmissions and what "
        "returns are often one event, seen several times.",
        "",
        "| kernel | release | build | ticks a second |",
        "| --- | --- | --- | ---: |",
        *(f"| {name} | {row['release']} | {row['build']} | {row['hz']} |" for name, row in about.items()),
        "",
        f"{len(found)} comparisons: in {same} every seed gave the same to the last digit, in "
        f"{len(found) - same - len(seen)} no difference was seen, {len(seen)} changed.",
    ]
    if large:
        lines += [
            "",
            "## What changed",
            "",
            f"| path | metric | {kernels[0]} | {kernels[1]} | change | 95 % interval |",
        ]
        lines += ["| --- | --- | ---: | ---: | ---: | --- |"]
        for row in sorted(large, key=lambda row: -abs(row.change) if math.isfinite(row.change) else -math.inf):
            change = f"{100 * row.change:+.1f} %" if math.isfinite(row.change) else "-"
            ends = f"{row.difference.low:+.3g} to {row.difference.high:+.3g}"
            lines.append(
                f"| {row.point} | {row.metric} | {row.a.estimate:.4g} | {row.b.estimate:.4g} | {change} | {ends} |"
            )
    if len(large) < len(seen):
        lines += ["", f"{len(seen) - len(large)} other changes are smaller than {100 * _SMALL:g} %."]
    goodput = [row for row in found if row.metric == "goodput_mbps"]
    if goodput:
        lines += ["", "## Goodput of every path", "", f"| path | {kernels[0]} (Mbit/s) | {kernels[1]} | difference |"]
        lines += ["| --- | ---: | ---: | --- |"]
        for row in goodput:
            ends = f"{row.difference.estimate:+.3g} ({row.difference.low:+.3g} to {row.difference.high:+.3g})"
            lines.append(f"| {row.point} | {row.a.estimate:.4g} | {row.b.estimate:.4g} | {ends} |")
    if refused:
        lines += ["", "Not carried by a guest:", "", *(f"- {reason}" for reason in refused)]
    return "\n".join(lines) + "\n"
