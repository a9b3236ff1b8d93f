"""One side of a comparison: runs the scenarios with the code of one revision, in a separate process.

Two revisions of one module cannot live in one interpreter. `Side` starts the process in the revision's folder; `serve`
is what runs there. They exchange lines of JSON: the scenarios, then seeds, and the measures of each run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tailback.against.conditions import Condition
from tailback.against.judging import better_by_name
from tailback.errors import TailbackError

__all__ = ["Given", "Measures", "Ready", "Setting", "Side", "SideError", "serve"]

#: Index of the scenario, seed, measures or error of a run, and the values of both sides of each condition.
Measures = tuple[int, int, dict[str, float] | str, list[list[float]]]


#: Whole-run measures that repeat the bottleneck's.
_OF_BOTTLENECK = ("utilisation", "backlog_mean_bytes", "packets")


class SideError(TailbackError):
    """A side's process ended unexpectedly."""


@dataclass(frozen=True)
class Given:
    """A scenario that both sides run."""

    name: str
    #: The scenario's file, relative to the repository's top or absolute.
    file: str
    toml: str
    #: The field that the candidate replaces.
    replaces: str = "cc"
    #: Folder of its suite; empty if it belongs to none.
    suite: str = ""


@dataclass(frozen=True)
class Setting:
    """Options applied to every scenario."""

    candidate: Any = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: Congestion controls of the user's own: "file.py:Class" by name.
    algorithms: Mapping[str, str] = field(default_factory=dict)
    allow_code: bool = False
    workers: int | None = None


@dataclass(frozen=True)
class Ready:
    """A scenario that a side can run, or the reason that it cannot."""

    #: By measure: "higher" or "lower", whichever is better, or "".
    measures: dict[str, str]
    first_seed: int = 1
    error: str = ""
    conditions: tuple[Condition, ...] = ()


class Side:
    """The scenarios of one revision; a context manager that ends the process."""

    def __init__(self, top: Path, below: Path, scenarios: Sequence[Given], setting: Setting) -> None:
        """`below` is the folder, relative to the revision's `top`, from which candidates are resolved."""
        self._top, self._folder = top, top / below
        self._setup = {"top": str(top), "scenarios": [asdict(each) for each in scenarios], "setting": asdict(setting)}
        #: Files of the modules that the process has imported.
        self.modules: set[Path] = set()

    def __enter__(self) -> Self:
        # -P: modules in the revision's folder do not shadow tailback's imports.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from tailback.against.side import serve; serve()"],
            cwd=self._folder,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # Ctrl-C must reach only the process that the user started.
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # Data still buffered for the ended process cannot be written.
                try:
                    pipe.close()
                except OSError:
                    continue

    def ready(self) -> list[Ready]:
        """Whether each scenario can be run, in order."""
        self._say(self._setup)
        rows = self._hear()["ready"]
        return [Ready(**row | {"conditions": tuple(Condition(**each) for each in row["conditions"])}) for row in rows]

    def measure(self, seeds: Mapping[int, Sequence[int]]) -> Iterator[Measures]:
        """Run scenarios, given by index, with these seeds each; yields the runs in the order they end."""
        self._say({"seeds": [[place, list(each)] for place, each in seeds.items()]})
        while "done" not in (row := self._hear()):
            yield (
                row["scenario"],
                row["seed"],
                row["error"]
                or {name: float("nan") if value is None else value for name, value in row["values"].items()},
                row["sides"],
            )
        self.modules = set(map(Path, row["done"]))

    def _say(self, what: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except OSError:
            self._ended()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._ended()
        found: dict[str, Any] = json.loads(line)
        if "fault" in found:
            raise SideError(found["fault"])
        return found

    def _ended(self) -> None:
        code = self._process.wait()
        raise SideError(f"its process ended with exit code {code}, before its runs did")


# --- In the process


def serve() -> None:
    """Answer the lines on standard input until it closes."""
    # Output of the user's code must not mix with the answers.
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    setup = json.loads(sys.stdin.readline())
    try:
        work = _Work(setup)
        answer({"ready": [asdict(each) for each in work.ready]})
        for line in sys.stdin:
            for row in work.run(json.loads(line)["seeds"]):
                answer(row)
            files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
            answer({"done": sorted(os.path.realpath(file) for file in files if file)})
    except TailbackError as error:
        answer({"fault": str(error)})


def _end_with(parent: int) -> None:
    """Exit when the parent process is gone: a killed parent cannot end this process."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


class _Work:
    def __init__(self, setup: Mapping[str, Any]) -> None:
        from tailback.algorithms import load

        setting = Setting(**setup["setting"])
        self._setting = setting
        self._algorithms = {name: load(place) for name, place in setting.algorithms.items()}
        self._resolved: list[dict[str, Any]] = []
        self._conditions: list[list[tuple[Any, Any]]] = []
        #: The scenarios with their conditions' baseline, where a condition needs one.
        self._baselines: list[dict[str, Any] | None] = []
        #: Measures that are the left side of a condition, with the condition's index.
        self._lefts: list[list[tuple[str, int]]] = []
        self._totals: list[list[str]] = []
        self.ready: list[Ready] = []
        for row in setup["scenarios"]:
            given = Given(**row)
            try:
                self.ready.append(self._prepare(given, Path(setup["top"])))
            except TailbackError as error:
                self._resolved.append({})
                self._conditions.append([])
                self._baselines.append(None)
                self._lefts.append([])
                self._totals.append([])
                self.ready.append(Ready({}, error=str(error)))

    def _prepare(self, given: Given, top: Path) -> Ready:
        from tailback import suites
        from tailback.algorithms import factories
        from tailback.consent import demand_allowed
        from tailback.expect.testing import demand_sound, taken
        from tailback.experiment.pairs import lean
        from tailback.experiment.run_metrics import totals_names
        from tailback.repeatable import demand_repeatable
        from tailback.scenario import Scenario

        setting = self._setting
        scenario = Scenario.parse_toml(given.toml, file=str(top / given.file))
        changes = dict(setting.changes)
        if setting.candidate is not None:
            cc = taken(setting.candidate, given.replaces, algorithms=self._algorithms, allow_code=setting.allow_code)
            put = suites.candidates_changes(scenario, cc, given.replaces)
            if suite := suites.opened(Path(given.suite)) if given.suite else None:
                put |= suites.bounds_of_its_own(suite, scenario, cc, allow_code=setting.allow_code)
            changes = put | changes
        scenario = scenario.with_(changes) if changes else scenario
        resolved = scenario.resolve(algorithms=factories(self._algorithms), allow_code=setting.allow_code)
        demand_allowed(resolved, setting.allow_code, scenario)
        demand_repeatable(scenario, undone="compared", algorithms=self._algorithms, allow_code=setting.allow_code)
        known = totals_names(resolved)
        # Leave out the engine's event count, and what the bottleneck's row repeats.
        twice = _OF_BOTTLENECK if any(name.endswith(".delivered") for name in known) else ()
        totals = [name for name in known if name not in ("events", *twice)]
        measures = {name: better_by_name(name) for name in totals}
        conditions, baseline = demand_sound(scenario, resolved, self._algorithms)
        lefts = []
        for number, (condition, window) in enumerate(conditions):
            name = _windowed(re.split(r"\s*(?:<=|>=|<|>|\bin\b)\s*", condition.text, maxsplit=1)[0].strip(), window)
            if name not in measures and not condition.left.needs_baseline:
                measures[name] = {"<": "lower", ">": "higher"}.get(condition.relation[0], "")
                lefts.append((name, number))
        # Recording rows that no measure needs would take time.
        needs_rows = any(
            window != (None, None) or set(condition.names) - set(known) for condition, window in conditions
        )
        slim = dict if needs_rows else lean
        needs_baseline = any(condition.needs_baseline for condition, _ in conditions)
        self._resolved.append(slim(resolved))
        self._baselines.append(slim(baseline) if baseline and needs_baseline else None)
        self._conditions.append(list(conditions))
        self._lefts.append(lefts)
        self._totals.append(totals)
        confidence = scenario.expect.confidence if scenario.expect else 0.0
        shown = (Condition(_windowed(each.text, window), each.relation, confidence) for each, window in conditions)
        return Ready(measures, int(resolved["seed"]), conditions=tuple(shown))

    def run(self, seeds: Sequence[tuple[int, Sequence[int]]]) -> Iterator[dict[str, Any]]:
        from tailback.result import Result
        from tailback.run import run_outcomes

        ways = {place: (False, True) if self._baselines[place] else (False,) for place, _ in seeds}
        work = [(place, seed, way) for place, each in seeds for seed in each for way in ways[place]]
        outcomes = run_outcomes(
            [self._described(place, way) | {"seed": seed} for place, seed, way in work],
            workers=self._setting.workers,
            algorithms=self._algorithms,
            allow_code=self._setting.allow_code,
        )
        rows: dict[tuple[int, int], dict[str, Any]] = {}
        half: dict[tuple[int, int], dict[bool, Any]] = {}
        for index, outcome in outcomes:
            place, seed, way = work[index]
            row = rows.setdefault(
                (place, seed), {"scenario": place, "seed": seed, "error": "", "values": {}, "sides": []}
            )
            done = half.setdefault((place, seed), {})
            faults = outcome.faults if isinstance(outcome, Result) and not way else []
            if not isinstance(outcome, Result) or faults:
                row["error"] = row["error"] or ("with the baseline: " if way else "") + (
                    "; ".join(faults) or str(outcome)
                )
                done[way] = None
            else:
                done[way] = self._seen(place, outcome, row, way)
            if len(done) == len(ways[place]):
                yield self._whole(place, rows.pop((place, seed)), half.pop((place, seed)))

    def _described(self, place: int, way: bool) -> dict[str, Any]:
        return (self._baselines[place] if way else None) or self._resolved[place]

    def _seen(self, place: int, result: Any, row: dict[str, Any], is_baseline: bool) -> Any:
        """The values that a run's conditions need; adds its totals to the row."""
        from tailback.expect.testing import seen
        from tailback.experiment.run_metrics import measured

        if not is_baseline:
            value = measured(result)
            row["values"] = {name: value(name) for name in self._totals[place]}
        return seen(self._conditions[place], result)

    def _whole(self, place: int, row: dict[str, Any], runs: Mapping[bool, Any]) -> dict[str, Any]:
        from math import isfinite

        from tailback.expect.testing import sides_of

        if not row["error"]:
            row["sides"] = sides_of(self._conditions[place], runs[False], runs.get(True))
            row["values"] |= {name: row["sides"][number][0] for name, number in self._lefts[place]}
        row["values"] = {name: each if isfinite(each) else None for name, each in row["values"].items()}
        return row


def _windowed(text: str, window: tuple[float | None, float | None]) -> str:
    """A condition or a measure's name, with its time window appended."""
    start, end = ("" if each is None else f"{each:g} s" for each in window)
    return text + (f" from {start}" if start else "") + (f" until {end}" if end else "")
