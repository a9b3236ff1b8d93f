"""Runs suites on two kernels and writes what changed for a release, each line with its interval and command.

Each seed draws start times, which are the same on both kernels, so any difference is due to the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tailback import suites
from tailback.errors import ScenarioError, TailbackError
from tailback.expect.testing import demand_sound
from tailback.experiment.run_metrics import RunMetrics, measured
from tailback.judge import gap
from tailback.result import Result
from tailback.vm import bisected, compared
from tailback.vm.compared import Change, Run

__all__ = ["CONFIDENCE", "SPREAD", "Found", "Since", "again", "found", "named", "runs_of", "since"]

#: Confidence of each interval. A suite has hundreds of metrics: at 95 %, one in twenty would be listed by chance.
CONFIDENCE = 0.99
#: Start spread for a suite's scenario that has none, so that seeds give different runs.
_STARTS = "100ms"
#: Separates a scenario's name from its spread in a run's title.
SPREAD = ", start_spread "
#: Changes below this are counted but not listed.
_SMALL = 0.01


def _windowed(result: Result, name: str, window: tuple[float | None, float | None]) -> float:
    return measured(result, start_s=window[0], end_s=window[1])(name)


def runs_of(names: Sequence[str], seeds: Sequence[int]) -> tuple[list[Run], list[str]]:
    """The runs of the suites `names` ("cubic", or one scenario: "cubic/fast-convergence"), scenario by scenario.

    Also returns why some scenarios cannot run on a kernel. Raises `TailbackError` for an unknown suite.
    """
    out: list[Run] = []
    unfit: list[str] = []
    point = 0
    for name, _, one in (name.partition("/") for name in names):
        try:
            suite = suites.find(name)
        except KeyError:
            raise TailbackError(
                f'--suite: there is no suite "{name}". There are: {", ".join(suites.names())}'
            ) from None
        chosen = [case for case in suite.scenarios if one in ("", case.name)]
        if not chosen:
            known = ", ".join(case.name for case in suite.scenarios)
            raise TailbackError(f'--suite: {name} has no scenario "{one}". It has: {known}')
        for case in chosen:
            title = suites.shown(case.path).removesuffix(".toml")
            try:
                scenario = case.scenario()
                spread = scenario.resolve(live=True)["randomness"]["start_spread_ps"]
                started = scenario if spread else scenario.with_({"randomness.start_spread": _STARTS})
                resolved = {seed: started.with_(seed=seed).resolve(live=True) for seed in seeds}
                judged, _ = demand_sound(started, resolved[seeds[0]], None)
            except ScenarioError as error:
                unfit.append(f"{title}: {str(error).splitlines()[0]}")
                continue
            # Metrics over a suite's time windows, in addition to those of the whole run.
            functions: dict[str, Callable[[Result], Any]] = {}
            for condition, window in judged:
                for metric in condition.names if window != (None, None) else ():
                    ends = [None if end is None else f"{end:g} s" for end in window]
                    label = f"{metric} {'from ' + ends[0] if ends[0] else ''}{' to ' + ends[1] if ends[1] else ''}"
                    functions[label.strip()] = partial(_windowed, name=metric, window=window)
            kept = RunMetrics(functions=functions)
            values = {"scenario": title} | ({} if spread else {"start_spread": _STARTS})
            out += [Run(point, values, seed, resolved[seed], kept) for seed in seeds]
            point += 1
    # Cheapest runs first, so that a call with a time limit covers part of each suite.
    return sorted(out, key=_work), unfit


def _work(run: Run) -> float:
    """Estimate of a guest's work for a run."""
    rates = [link.get("rate_bps") or 0 for link in run.resolved["links"]]
    return float(run.resolved["duration_ps"] * max(rates, default=0))


@dataclass(frozen=True)
class Since:
    """The first kernel of a series with a change, and the last without it."""

    kernel: str
    after: str


@dataclass(frozen=True)
class Found:
    """The changes in suites between two kernels."""

    kernels: tuple[str, str]
    #: Changes without overlap of the kernels' values, largest first.
    changed: list[Change]
    compared: int
    small: int
    scenarios: int
    #: Number of scenarios that can run on a kernel.
    asked: int
    seeds: int
    #: Reasons of missing runs.
    refused: list[str]
    about: Mapping[str, Mapping[str, Any]]
    #: Rows by scenario.
    since: Mapping[str, Since]

    @property
    def by_chance(self) -> float:
        """Upper bound of the expected number of changes listed by chance."""
        return (1 - CONFIDENCE) * self.compared

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kernels": dict(self.about),
            "changed": [row.to_json() | {"command": again(row, self.kernels[1])} for row in self.changed],
            "compared": self.compared,
            "scenarios": self.scenarios,
            "scenarios_asked": self.asked,
            "smaller_than_1_percent": self.small,
            "refused": self.refused,
            "since": {name: row.__dict__ for name, row in self.since.items()},
        }


def found(runs: Sequence[Run], unfit: Sequence[str], kernels: tuple[str, str], folder: Any) -> Found:
    """The changes in the runs kept in `folder`: significant, and without overlap of the kernels' values."""
    rows, refused, about = compared.changes(runs, kernels, folder, CONFIDENCE)
    sides = compared.sides(runs, kernels, folder)
    seen = [row for row in rows if row.verdict in ("higher", "lower") and gap(*sides[(row.point, row.metric)]) > 0]
    large = [row for row in seen if not abs(row.change) < _SMALL]
    return Found(
        kernels,
        sorted(large, key=lambda row: -abs(row.change) if math.isfinite(row.change) else -math.inf),
        len(rows),
        len(seen) - len(large),
        len({row.point for row in rows}),
        len({run.point for run in runs}),
        max((row.difference.n for row in rows), default=0),
        [named(reason) for reason in (*refused, *unfit)],
        about,
        {},
    )


def since(result: Found, runs: Sequence[Run], images: Sequence[Any], say: Callable[[str], object]) -> Found:
    """The findings, with the first kernel of Debian's series that has each scenario's largest change.

    A scenario whose ends do not differ with the first seed gets none: it would need all seeds.
    """
    names = bisected.between(*result.kernels, images)
    newest = {name.rpartition(".")[0] if name.count(".") > 1 else name: name for name in names}
    series = [name for name in names if name in (names[0], names[-1], *newest.values())]
    out: dict[str, Since] = {}
    for row in result.changed:
        if row.point in out:
            continue
        run = next(run for run in runs if run.title == row.point)
        middle = (row.a.estimate + row.b.estimate) / 2
        attempt = bisected.tried_by(run.resolved, row.metric, run.kept, middle, row.verdict == "higher")
        say(f"{row.point}: since which kernel is {row.metric} {row.verdict}?")
        try:
            one = bisected.bisect(series, attempt, say)
        except TailbackError as error:
            say(str(error))
            continue
        out[row.point] = Since(one.bad.kernel, one.good.kernel)
    return replace(result, since=out)


def named(point: str) -> str:
    """A scenario's title without the words that all titles share."""
    return point.removeprefix("scenario ").replace(f"{SPREAD}{_STARTS}", "")


def again(row: Change, kernel: str) -> str:
    """The command that runs a line's scenario on one of the kernels."""
    name, _, spread = row.point.removeprefix("scenario ").partition(SPREAD)
    return f"tailback run {name} --engine vm --kernel {kernel}" + (
        f" --set randomness.start_spread={spread}" if spread else ""
    )
