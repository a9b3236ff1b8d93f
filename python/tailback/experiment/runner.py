"""Runs sweeps and studies: distributes the runs that the store lacks, and stores their results.

Runs are points times seeds, on all cores, on a cluster or on this machine's kernel. A key identifies a run, so that a
repeated call continues an interrupted one, and several processes can share a store.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from tailback._core import Cancel
from tailback.algorithms import Source, is_reference, sources
from tailback.consent import asked_for, demand_allowed
from tailback.engines import Engine, Sim
from tailback.errors import Cancelled, Interrupted, Problem, ScenarioError, TailbackError
from tailback.experiment.design import Design, Point, demand_few
from tailback.experiment.store import Store, Writer, engine_fingerprint, run_key
from tailback.experiment.store.axes import columns_of, in_base_units
from tailback.experiment.store.index import chosen, latest
from tailback.experiment.workers import Crew, Keep, OnKernel, Outcome, Task, Threads, refusal
from tailback.progress import Runs
from tailback.scenario import Scenario
from tailback.scenario.whole import as_text

if TYPE_CHECKING:
    from tailback.experiment.sweeps import Until

__all__ = ["Experiment", "Finished", "perform_all"]

#: Seconds between looks at what other processes added to the store.
LOOK_EVERY_S = 2.0
#: The interpreter's thread switch interval, in seconds, while runs are in progress.
TURN_S = 0.0005
#: Placeholder for the seed in a point's text.
_SEED = "\0"


class Experiment(Protocol):
    """What to run: points, the scenario of each, seeds, and the values to keep."""

    @property
    def name(self) -> str:
        """Name for progress and for the store."""

    @property
    def design(self) -> Design:
        """The points."""

    @property
    def until(self) -> Until | None:
        """The stopping rule, if it decides the number of seeds per point."""

    @property
    def kept(self) -> Keep:
        """The values to keep of each run."""

    @property
    def allow_code(self) -> bool:
        """Whether classes that the scenario names by reference may run."""

    @property
    def most_wall_s(self) -> float | None:
        """Wall-clock seconds after which a run is cancelled; None for no limit."""

    def scenario(self, number: int, values: Point, seed: int) -> Scenario:
        """The scenario of a point."""

    def seeds_of(self, number: int) -> Sequence[int]:
        """The seeds of a point, in order."""

    def keeps_tables(self, number: int, seed: int) -> bool:
        """Whether this run's tables are kept."""

    def cost(self, number: int) -> float:
        """Relative duration of a run of this point."""


@dataclass
class Finished:
    """The result of a runner."""

    store: Store
    #: Counts of runs done now, found in the store, and failed (now, or earlier if not tried again).
    run: int = 0
    reused: int = 0
    failed: int = 0
    wall_s: float = 0.0
    #: Up to 20 different errors, each with the number of runs that it ended.
    errors: dict[str, int] = field(default_factory=dict)
    #: Number of the point, seed and key of each run.
    index: list[tuple[int, int, str]] = field(default_factory=list)


def perform_all(
    wanted: Experiment,
    out: Finished,
    *,
    workers: int | None = None,
    on: Any = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    strict: bool = False,
) -> None:
    """Do every run of an experiment that its store lacks, and fill in `out`.

    `on` is a `distributed.Client`, "dask://host:port", an engine of a kernel, or None for threads here. With `strict`
    the first failed run ends the experiment and raises its error; otherwise errors are recorded. Ctrl-C raises
    `Interrupted`.
    """
    if workers is not None and workers < 1:
        raise TailbackError(f"workers must be at least 1, got {workers}. Give None to use all cores.")
    with contextlib.ExitStack() as stack:
        # A thread that returns from the engine waits for this thread's switch interval, so make that as short as this
        # thread's work.
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(TURN_S)
        crew: Crew
        if on is None or isinstance(on, Sim):
            crew = Threads(wanted.kept, workers, strict=strict)
        elif isinstance(on, Engine):
            crew = OnKernel(on, wanted.kept, workers, strict=strict)
        else:
            from tailback.experiment import cluster

            client = stack.enter_context(contextlib.closing(cluster.connect(on))) if isinstance(on, str) else on
            crew = cluster.Dask(client, wanted.kept)
        stack.callback(crew.stop)
        writer = stack.enter_context(out.store.writer())
        run = _Run(wanted, out, writer, crew, cancel, strict)
        try:
            run.go(progress)
        except KeyboardInterrupt:
            raise Interrupted([True] * run.finished + [None] * (run.total - run.finished)) from None


@dataclass
class _PointState:
    """A point with runs in progress."""

    number: int
    values: Point
    issued: int = 0
    settled: int = 0
    measured: list[float] = field(default_factory=list)


@dataclass
class _Job:
    """A run in progress."""

    state: _PointState
    seed: int
    key: str
    run: str
    scenario: Scenario | None
    toml: str
    tables: bool
    #: Names and digests of the user's own algorithms.
    code: str = ""
    #: Runs of other points that are this run in other words, and wait for it.
    same: list[_Job] = field(default_factory=list)


class _Run:
    """The main loop of a runner."""

    def __init__(
        self, wanted: Experiment, out: Finished, writer: Writer, crew: Crew, cancel: Cancel | None, strict: bool
    ) -> None:
        self.wanted, self.out, self.writer, self.crew = wanted, out, writer, crew
        self.store, self.cancel, self.strict = out.store, cancel, strict
        until = wanted.until
        seeds = [until.most if until else len(wanted.seeds_of(number)) for number in range(len(wanted.design))]
        demand_few("seeds", sum(seeds), "runs: points times seeds")
        self.total = sum(seeds)
        self.finished = 0
        self._cost = sum(count * wanted.cost(number) for number, count in enumerate(seeds))
        self._spent = self._found = 0.0
        self._jobs: dict[int, _Job] = {}
        self._running: dict[str, _Job] = {}
        self._extra: collections.deque[tuple[_PointState, int]] = collections.deque()
        self._known: dict[str, dict[str, Any]] = {}
        # Keys with the axis values of their rows in the store; and runs that the store has for other points only.
        self._placed: set[tuple[str, ...]] = set()
        self._unplaced: list[_Job] = []
        metric = [until.metric] if until else []
        self._columns = ["key", "run", "status", "tables_sha256", *metric]
        self._axes = list(wanted.design.axes)
        # Skips this sweep's own rows, which it knows already.
        self._follower = self.store.follow([*self._columns, *self._axes], own=writer)
        self._looked = -math.inf
        self._number = 0
        self._digest = wanted.kept.digest
        # The current point, resolved with some seed; its texts are split at the seed.
        self._resolved: tuple[_PointState, Scenario, list[str], list[str], dict[str, Source], str] | None = None
        self._kernel = crew.engine if isinstance(crew, OnKernel) else None

    def go(self, progress: bool | Callable[[int, int], object]) -> None:
        began = time.perf_counter()
        if self.store.bucket is not None:
            self.store.bucket.demand()
        self._look()
        self._check_consent()
        self._check_metric()
        order = self._order()
        with Runs(self.wanted.name or "sweep", shown=progress) as line:
            while True:
                if self.cancel is not None and self.cancel.is_set():
                    raise Cancelled(f"cancelled after {self.finished} of {self.total} runs; they are kept")
                more = self._hand_out(order)
                if not self._jobs and not more:
                    break
                outcome = self.crew.next(0.1) if self._jobs else None
                while outcome is not None:
                    self._take_in(outcome)
                    outcome = self.crew.next(0.0) if self._jobs else None
                line.update(
                    self.finished, self.total, spent=self._spent, cost=self._cost, found=self._found,
                    failed=self.out.failed,
                )  # fmt: skip
        self._place()
        self.out.wall_s = time.perf_counter() - began

    # -- reading the store

    def _look(self) -> None:
        """Read new rows of the store, from any process."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        for row in self._follower.look():
            # A failed run is tried again: the cause may be gone.
            if row.get("status") == "ok":
                self._known[row["key"]] = chosen(row, self._columns)
                self._placed.add(self._placed_as(row["key"], row))
        self._looked = time.monotonic()

    def _check_consent(self) -> None:
        """Refuse a sweep that needs code it may not run, before the first run."""
        if self.wanted.allow_code:
            return
        seen: set[str] = set()
        for number, point in enumerate(self.wanted.design):
            named = {text for value in point.values() for text in _references(value)}
            if number > 0 and named <= seen:
                continue
            seen |= named
            try:
                scenario = self.wanted.scenario(number, point, 1)
                problems = asked_for(scenario.resolve(check=False))
            except (ScenarioError, ValueError, TypeError):
                continue  # Other errors of a point are recorded when it is run.
            if problems:
                raise ScenarioError(problems).located(scenario._file, scenario._places)

    def _check_metric(self) -> None:
        until = self.wanted.until
        if until is None:
            return
        for number, point in enumerate(self.wanted.design):
            with contextlib.suppress(ScenarioError):
                names = self.wanted.kept.names(self.wanted.scenario(number, point, 1).resolve())
                if until.metric not in names and until.metric.rpartition(".")[0] not in names:
                    raise _NoMetric(until.metric, names)
                return

    # -- starting runs

    def _order(self) -> Iterator[tuple[_PointState, int]]:
        until = self.wanted.until

        def runs() -> Iterator[tuple[_PointState, int]]:
            for number, values in enumerate(self.wanted.design):
                seeds = self.wanted.seeds_of(number)[: until.least if until else None]
                state = _PointState(number, values, issued=len(seeds))
                for seed in seeds:
                    yield state, seed

        if not self.store.shared_with(self.writer):
            return runs()
        # Another process writes to this store, perhaps for the same points: in random order the two rarely collide.
        shuffled = list(runs())
        random.Random(self.writer.journal.stem).shuffle(shuffled)
        return iter(shuffled)

    def _hand_out(self, order: Iterator[tuple[_PointState, int]]) -> bool:
        """Fill the crew's capacity; False if there is no run to start for now."""
        capacity = self.crew.capacity
        settled = 0
        while len(self._jobs) < capacity:
            item = self._extra.popleft() if self._extra else next(order, None)
            if item is None:
                return False
            if not self._start(*item):
                # Thousands of runs may be in the store already: return at times to serve the crew and the progress bar.
                settled += 1
                if settled >= 64:
                    return True
        return True

    def _start(self, state: _PointState, seed: int) -> bool:
        """Start a run; False if it was settled without running."""
        self._look()
        try:
            scenario, text, toml, own, mark = self._described(state, seed)
        except (ScenarioError, ValueError, TypeError) as error:
            if self.strict:
                raise
            text = json.dumps([self.wanted.name, state.values, seed, str(error)], default=str)
            key = run_key("cannot be resolved", self._digest, hashlib.sha256(text.encode()).hexdigest())
            said = f"ScenarioError: {error}" if self._kernel is None else refusal(error)
            self._settle(_Job(state, seed, key, key, None, "", False), None, said, 0.0)
            return False
        code = [f"{name} {source.sha256}" for name, source in own.items()]
        made_by = [*code, mark] if mark else code
        run = run_key(text, *made_by)
        key = run_key(text, self._digest, *made_by)
        job = _Job(state, seed, key, run, scenario, toml, self.wanted.keeps_tables(state.number, seed), ", ".join(code))
        known = self._known.get(key)
        if known is not None and (not job.tables or self.store.has_tables(run, known.get("tables_sha256"))):
            self._reuse(job, known)
            return False
        running = self._running.get(key)
        if running is not None and running.tables >= job.tables:
            running.same.append(job)
            return False
        self._number += 1
        self._jobs[self._number] = self._running[key] = job
        tables = self.store.place_of_tables(run) if job.tables else None
        self.crew.submit(
            Task(
                self._number, text, job.toml, engine_fingerprint(), tables, run, own, self.wanted.most_wall_s,
                scenario._file, self.wanted.allow_code,
            )
        )  # fmt: skip
        return True

    def _described(self, state: _PointState, seed: int) -> tuple[Scenario, str, str, dict[str, Source], str]:
        """Scenario, resolved text and file of a point with this seed; the user's algorithms; the kernel's mark.

        Only the seed differs between a point's runs, so each point is resolved once.
        """
        if self._resolved is None or self._resolved[0] is not state:
            scenario = self.wanted.scenario(state.number, state.values, seed)
            around = scenario.to_toml().split(f"seed = {seed}\n", 1)
            # A kernel has queues and programs that the simulator lacks.
            on_kernel = self._kernel is not None
            resolved = scenario.resolve(allow_code=self.wanted.allow_code and not on_kernel, live=on_kernel)
            demand_allowed(resolved, self.wanted.allow_code, scenario)
            cut = as_text(json.loads(as_text(resolved)) | {"seed": _SEED}).split(json.dumps(_SEED))
            assert len(cut) == 2, "no name has a control character"
            mark = "" if self._kernel is None else self._kernel.mark(scenario)
            self._resolved = state, scenario, cut, around, known_sources(resolved, scenario.folder), mark
        _, scenario, cut, around, own, mark = self._resolved
        return scenario, str(seed).join(cut), f"seed = {seed}\n".join(around), own, mark

    # -- storing results

    def _take_in(self, outcome: Outcome) -> None:
        job = self._jobs.pop(outcome.number)
        self._running.pop(job.key, None)
        if outcome.error is None:
            self.out.run += 1
        self._settle(job, outcome.values, outcome.error, outcome.wall_s, outcome.tables_sha256)
        for same in job.same:
            if outcome.error is None:
                self._reuse(same, self._known[job.key])
            else:
                self._settle(same, None, outcome.error, outcome.wall_s)

    def _reuse(self, job: _Job, known: Mapping[str, Any]) -> None:
        """Settle a run with a row of the store."""
        self.out.reused += 1
        self._found += self.wanted.cost(job.state.number)
        placed = self._placed_as(job.key, columns_of(job.state.values))
        if placed not in self._placed:
            self._placed.add(placed)
            self._unplaced.append(job)
        self._record(job, known)

    def _placed_as(self, key: str, row: Mapping[str, Any]) -> tuple[str, ...]:
        """A key with the values of this sweep's axes in a row; a store may keep numbers as texts."""
        return key, *(_level(row.get(axis)) for axis in self._axes)

    def _place(self) -> None:
        """Add rows for points whose runs the store has for other points only."""
        if not self._unplaced:
            return
        wanted = {job.key for job in self._unplaced}
        everything = self.store.everything()
        rows = {row["key"]: row for row in latest(everything.filter(pl.col("key").is_in(wanted))).to_dicts()}
        for job in self._unplaced:
            found = {name: value for name, value in rows[job.key].items() if value is not None}
            self.writer.add(found | self._row_of(job))

    def _row_of(self, job: _Job) -> dict[str, Any]:
        """The columns of a run's row that say what was run, and for which point."""
        return {
            "key": job.key,
            "run": job.run,
            "engine": engine_fingerprint(),
            "sweep": self.wanted.name,
            "point": job.state.number,
            "seed": job.seed,
            "name": job.scenario.name if job.scenario else None,
            "duration_s": job.scenario.duration.seconds if job.scenario else None,
            "finished": time.time(),
            "scenario": job.toml,
            **({"code": job.code} if job.code else {}),
            **columns_of(job.state.values),
            **in_base_units(job.state.values),
        }

    def _settle(
        self, job: _Job, values: Mapping[str, Any] | None, error: str | None, wall_s: float, kept: str | None = None
    ) -> None:
        row = self._row_of(job) | {
            "status": "ok" if error is None else "failed",
            "error": error,
            "wall_s": wall_s,
            "tables": job.tables and error is None,
            "tables_sha256": kept,
            **(values or {}),
        }
        self.writer.add(row)
        if error is None:
            self._known[job.key] = chosen(row, self._columns)
            self._placed.add(self._placed_as(job.key, row))
        else:
            self.out.failed += 1
            if error in self.out.errors or len(self.out.errors) < 20:
                self.out.errors[error] = self.out.errors.get(error, 0) + 1
        self._record(job, row)

    def _record(self, job: _Job, row: Mapping[str, Any]) -> None:
        """Enter a settled run into the index, and apply the stopping rule."""
        state, until = job.state, self.wanted.until
        self._spent += self.wanted.cost(state.number)
        self.out.index.append((state.number, job.seed, job.key))
        self.finished += 1
        state.settled += 1
        if until is None:
            return
        value = row.get(until.metric)
        state.measured.append(math.nan if value is None else float(value))
        if state.settled < state.issued:
            return
        failing = state.settled >= until.least and not any(math.isfinite(value) for value in state.measured)
        if failing or state.settled >= until.most or until.enough(state.measured):
            self.total -= until.most - state.settled
            self._cost -= (until.most - state.settled) * self.wanted.cost(state.number)
            return
        more = until.more(state.settled)
        seeds = self.wanted.seeds_of(state.number)[state.issued : state.issued + more]
        state.issued += more
        self._extra.extend((state, seed) for seed in seeds)


def _level(value: Any) -> str:
    """An axis value as text, the same for 3, 3.0 and "3"."""
    text = value if isinstance(value, str) else json.dumps(value)
    with contextlib.suppress(ValueError):
        return str(float(text))
    return text


def _references(value: Any) -> Iterator[str]:
    """The references to code in an axis' value."""
    if isinstance(value, str):
        yield from [value] if is_reference(value) else []
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _references(item)


def known_sources(resolved: Mapping[str, Any], folder: Path | None) -> dict[str, Source]:
    """Sources of the user's algorithms. Refuses a class without a file, as changes to it could not be detected."""
    found = sources(resolved, None, folder)
    for name, source in found.items():
        if source.text is None:
            problem = "its source stands in no file, so that a kept run could not show when it changes"
            raise ScenarioError([Problem("cc", name, problem, "Write the class into a file and import it from there")])
    return found


class _NoMetric(TailbackError):
    """The stopping rule's metric is not measured."""

    def __init__(self, metric: str, names: Sequence[str]) -> None:
        super().__init__(f"until.metric: there is no metric {metric}. There are: {', '.join(names)}")
