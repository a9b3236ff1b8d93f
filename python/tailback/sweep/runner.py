"""A sweep: points times seeds, run where they are not in the store yet, on all cores or on a cluster."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tailback import statistics
from tailback._core import Cancel
from tailback._resolve import as_text
from tailback.errors import Cancelled, Interrupted, ScenarioError, TailbackError
from tailback.progress import Bar
from tailback.result import Result
from tailback.scenario import Scenario
from tailback.store import Store, Writer, engine_fingerprint, run_key
from tailback.store.index import COLUMNS
from tailback.sweep.design import Design, Point, grid, refuse, single
from tailback.sweep.measures import Measures
from tailback.sweep.work import Crew, Outcome, Task, Threads
from tailback.units import Bytes, Duration, Rate

__all__ = ["Sweep", "SweepResult", "Until", "sweep"]

#: How often others' progress on the same store is looked at.
LOOK_EVERY_S = 2.0
#: How often progress is told where there is no terminal.
TELL_EVERY_S = 30.0
#: How long a thread may keep the interpreter while others want it, during a sweep.
TURN_S = 0.0005


@dataclass(frozen=True)
class Until:
    """When a point has enough seeds: as soon as the interval of `metric` is at most `width` wide.

    >>> Until("bulk.goodput_mbps", width="5%").most
    50
    """

    metric: str
    #: In the metric's unit, or as a share of the estimate: "5%".
    width: float | str
    confidence: float = 0.95
    #: "mean", "median" or a quantile such as "p95".
    statistic: str = "mean"
    least: int = 5
    most: int = 50

    def __post_init__(self) -> None:
        if not 2 <= self.least <= self.most:
            raise refuse("until.least", self.least, "it is at least 2 and at most until.most", "Give least = 5")
        self._limit(1.0)
        statistics.interval([1.0, 2.0], self.statistic, confidence=self.confidence)

    def _limit(self, estimate: float) -> float:
        try:
            relative = isinstance(self.width, str)
            limit = float(str(self.width).removesuffix("%"))
            if relative and not str(self.width).endswith("%"):
                raise ValueError
        except ValueError:
            raise refuse("until.width", self.width, "is no width", 'Give a number, or a share such as "5%"') from None
        if not limit > 0:
            raise refuse("until.width", self.width, "a width is above zero", 'Give for example "5%"')
        return abs(estimate) * limit / 100.0 if relative else limit

    def enough(self, values: Sequence[float]) -> bool:
        """Is the interval of these values narrow enough? Values that do not exist never are."""
        found = statistics.interval(values, self.statistic, confidence=self.confidence)
        return found.n >= self.least and found.width <= self._limit(found.estimate)

    def more(self, have: int) -> int:
        """How many seeds to add: a quarter, as each look costs a little and a late end wastes little."""
        return min(max(2, have // 4), self.most - have)


@dataclass(frozen=True)
class Sweep:
    """What is to be run: a base scenario, a design, seeds, and what to keep."""

    base: Scenario
    design: Design = field(default_factory=single)
    seeds: tuple[int, ...] = (1,)
    until: Until | None = None
    measures: Measures = field(default_factory=Measures)
    keep_tables: bool = False
    name: str = ""

    def __len__(self) -> int:
        """How many runs; with a stopping rule the most there can be."""
        return len(self.design) * (self.until.most if self.until else len(self.seeds))


@dataclass
class SweepResult:
    """What a sweep came to. `frame` has one row a run, in the order of the design."""

    sweep: Sweep
    store: Store
    #: Runs simulated now, found in the store, and failed (now or, if they were not tried again, before).
    run: int = 0
    reused: int = 0
    failed: int = 0
    wall_s: float = 0.0
    #: Up to a few errors, each with the number of runs it happened to.
    errors: dict[str, int] = field(default_factory=dict)
    #: Number of the point, seed and key of each run.
    index: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def frame(self) -> pl.DataFrame:
        """One row a run: point, seed, the values of the axes, what was measured, and how it went."""
        points = [_columns(point) for point in self.sweep.design]
        rows = sorted(self.index)
        heads = [{"point": point, "seed": seed, **points[point], "key": key} for point, seed, key in rows]
        if not heads:
            return pl.DataFrame()
        left = pl.DataFrame(heads, infer_schema_length=None, strict=False)
        found = self.store.frame()
        mine = found.filter(pl.col("key").is_in(left["key"].implode()))
        kept = [name for name in mine.columns if name == "key" or name not in left.columns]
        right = mine.select(kept)
        filled = [name for name in right.columns if name in COLUMNS or right[name].null_count() < len(right)]
        return left.join(right.select(filled), on="key", how="left", maintain_order="left")

    def summary(self, metric: str, *, statistic: str = "median", confidence: float = 0.95) -> pl.DataFrame:
        """One row a point: the statistic of a metric over the seeds, with its interval."""
        return statistics.summary(self.frame, metric, self._axes(), statistic=statistic, confidence=confidence)

    def effects(self, metric: str, axis: str, *, baseline: Any = None, statistic: str = "mean") -> pl.DataFrame:
        """What each value of an axis does to a metric, paired over everything else and the seeds."""
        rest = [name for name in self._axes() if name != axis]
        return statistics.effects(
            self.frame, metric, axis, across=[*rest, "seed"], baseline=baseline, statistic=statistic
        )

    @property
    def seeds_agree(self) -> bool:
        """Did several seeds of every point give the very same? Then nothing was drawn, and intervals say nothing."""
        frame = self.frame
        if frame.is_empty() or not {"packets", "events", "point", "seed"} <= set(frame.columns):
            return False
        told = frame.filter(pl.col("events").is_not_null())
        each = told.group_by("point").agg(pl.len(), pl.col("packets", "events").n_unique())
        several = each.filter(pl.col("len") > 1)
        return len(several) > 0 and bool((several.select(pl.max_horizontal("packets", "events").max()) == 1).item())

    def result(self, key: str) -> Result:
        """The tables of a run, if they were kept."""
        return self.store.result(key)

    def _axes(self) -> list[str]:
        return list(self.sweep.design.axes) or ["point"]

    def to_json(self) -> dict[str, Any]:
        """Plain numbers for `--json`."""
        return {
            "name": self.sweep.name,
            "store": str(self.store.folder),
            "points": len(self.sweep.design),
            "runs": self.run,
            "reused": self.reused,
            "failed": self.failed,
            "wall_s": self.wall_s,
            "seeds_agree": self.seeds_agree,
            "errors": [{"error": text, "runs": count} for text, count in self.errors.items()],
        }

    def __repr__(self) -> str:
        return (
            f"<tailback.SweepResult {self.sweep.name}: {len(self.sweep.design)} points, {self.run} run, "
            f"{self.reused} reused, {self.failed} failed>"
        )


def sweep(
    base: Scenario | Sweep | str | os.PathLike[str],
    design: Design | Mapping[str, Sequence[Any]] | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    until: Until | None = None,
    metrics: Mapping[str, Any] | None = None,
    store: Store | str | os.PathLike[str] = "results/store",
    keep: str = "summaries",
    name: str = "",
    workers: int | None = None,
    on: Any = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
) -> SweepResult:
    """Run `base` at every point of `design` with every seed, unless the store has it already.

    A mapping of paths to lists of values is a grid; see also `zipped`, `latin_hypercube`, `sobol`. `until` adds
    seeds to each point until an interval is narrow enough. `metrics` names what to keep of each run besides the
    usual totals: functions of a `Result`, or tables naming an entry of `tailback.metrics`. `keep="tables"` keeps
    everything. `on` is a `distributed.Client` or "dask://host:port"; else threads work here, on all cores.

    A run that fails is recorded with its error, and the rest goes on. Ctrl-C raises `Interrupted` at once; what
    was finished is in the store, and the same call goes on from there.

    >>> import tailback as tb, tempfile
    >>> base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk("reno", name="a")], duration="2s")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = tb.sweep(base, {"flow.a.cc": ["reno", "cubic"]}, seeds=2, store=folder)
    ...     done.run, done.failed, done.frame["seed"].to_list()
    (4, 0, [1, 2, 1, 2])
    """
    if isinstance(base, Sweep):
        wanted = base
    else:
        wanted = Sweep(
            base=base if isinstance(base, Scenario) else Scenario.from_toml(base),
            design=single() if design is None else design if isinstance(design, Design) else grid(design),
            seeds=seeds_of(seeds, until),
            until=until,
            measures=Measures.of(metrics),
            keep_tables=keeps_tables(keep),
            name=name,
        )
    if workers is not None and workers < 1:
        raise TailbackError(f"workers is {workers}, but someone must work. Give 1 or more, or None for all cores.")
    opened = store if isinstance(store, Store) else Store(store)
    with contextlib.ExitStack() as stack:
        # A thread back from the engine would wait for this one's turn to end: turns as short as our work is.
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(TURN_S)
        crew: Crew
        if on is None:
            crew = Threads(wanted.measures, workers)
        else:
            from tailback import cluster

            client = stack.enter_context(contextlib.closing(cluster.connect(on))) if isinstance(on, str) else on
            crew = cluster.Dask(client, wanted.measures)
        stack.callback(crew.stop)
        writer = stack.enter_context(opened.writer())
        run = _Run(wanted, opened, writer, crew, progress, cancel)
        try:
            return run.go()
        except KeyboardInterrupt:
            raise Interrupted([True] * run.finished + [None] * (run.total - run.finished)) from None


def seeds_of(seeds: int | Sequence[int], until: Until | None) -> tuple[int, ...]:
    """The seeds of each point, in order."""
    if until is not None:
        if seeds != 1:
            fix = "Give until.least and until.most instead"
            raise refuse("seeds", str(seeds), "the stopping rule decides how many seeds there are", fix)
        return tuple(range(1, until.most + 1))
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if seeds < 1:
            raise refuse("seeds", seeds, "a point needs at least one seed", "Give 1 or more")
        return tuple(range(1, seeds + 1))
    out = list(seeds) if isinstance(seeds, list | tuple | range) else []
    if not out or len(set(out)) < len(out) or not all(type(seed) is int and seed >= 0 for seed in out):
        fix = "Write seeds = 5 or seeds = [1, 2, 3]"
        raise refuse("seeds", str(seeds), "is neither a number of seeds nor a list of different ones", fix)
    return tuple(out)


def keeps_tables(keep: str) -> bool:
    """Does "summaries" or "tables" ask for tables?"""
    if keep not in ("summaries", "tables"):
        raise refuse("keep", keep, "is neither summaries nor tables", 'Write keep = "summaries"')
    return keep == "tables"


def _columns(point: Point) -> dict[str, Any]:
    """An axis value as a column: numbers and words stay, a table becomes JSON, a quantity text."""
    return {
        path: value
        if value is None or (isinstance(value, bool | int | float | str) and type(value) in (bool, int, float, str))
        else json.dumps(value, sort_keys=True)
        if isinstance(value, Mapping | list)
        else str(value)
        for path, value in point.items()
    }


def _in_base_units(point: Point) -> dict[str, float]:
    """Quantities among the values also as numbers: bit/s, seconds, bytes."""
    out = {}
    for path, value in point.items():
        if isinstance(value, str):
            for kind in (Rate, Duration, Bytes):
                with contextlib.suppress(ValueError):
                    found = kind(value)
                    out[f"{path}.si"] = found.seconds if isinstance(found, Duration) else float(found)
                    break
    return out


@dataclass
class _PointState:
    """A point of which seeds are under way."""

    number: int
    values: Point
    issued: int = 0
    settled: int = 0
    measured: list[float] = field(default_factory=list)


@dataclass
class _Job:
    """A run under way."""

    state: _PointState
    seed: int
    key: str
    run: str
    scenario: Scenario
    toml: str
    tables: bool


class _Run:
    """The loop: hand out what is not there, take in what is done."""

    def __init__(
        self,
        wanted: Sweep,
        store: Store,
        writer: Writer,
        crew: Crew,
        progress: bool | Callable[[int, int], object],
        cancel: Cancel | None,
    ) -> None:
        self.sweep, self.store, self.writer, self.crew, self.cancel = wanted, store, writer, crew, cancel
        self.out = SweepResult(wanted, store)
        self.total = len(wanted)
        self.finished = 0
        self._progress = progress
        self._jobs: dict[int, _Job] = {}
        self._extra: collections.deque[tuple[_PointState, int]] = collections.deque()
        self._known: dict[str, dict[str, Any]] = {}
        metric = [wanted.until.metric] if wanted.until else []
        self._follower = store.follow(["key", "run", "status", "tables_sha256", *metric])
        self._looked = -math.inf
        self._number = 0
        self._digest = wanted.measures.digest
        # The point begun last, described with some seed; the file it would be is cut where the seed stands.
        self._resolved: tuple[_PointState, Scenario, dict[str, Any], list[str]] | None = None

    def go(self) -> SweepResult:
        began = time.perf_counter()
        self._look()
        self._check_metric()
        order = self._order()
        told = _Teller(self._progress, self.sweep.name or "sweep")
        with told:
            while True:
                if self.cancel is not None and self.cancel.is_set():
                    raise Cancelled(f"cancelled after {self.finished} of {self.total} runs; they are kept")
                more = self._hand_out(order, told)
                if not self._jobs and not more:
                    break
                outcome = self.crew.next(0.1) if self._jobs else None
                while outcome is not None:
                    self._take_in(outcome)
                    outcome = self.crew.next(0.0) if self._jobs else None
                told(self.finished, self.total, self.out)
        self.out.wall_s = time.perf_counter() - began
        return self.out

    # -- what there is

    def _look(self) -> None:
        """Learn what has come into the store, by whomever."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        for row in self._follower.look():
            # A failed run is tried again: what made it fail may have passed.
            if row.get("status") == "ok":
                self._known[row["key"]] = row
        self._looked = time.monotonic()

    def _check_metric(self) -> None:
        until = self.sweep.until
        if until is None:
            return
        for point in self.sweep.design:
            with contextlib.suppress(ScenarioError):
                resolved = self.sweep.base.with_(point).resolve()
                names = self.sweep.measures.names(resolved)
                if until.metric not in names and until.metric.rpartition(".")[0] not in names:
                    raise _NoMetric(until.metric, names)
                return

    # -- handing out

    def _order(self) -> Iterator[tuple[_PointState, int]]:
        first = self.sweep.until.least if self.sweep.until else len(self.sweep.seeds)

        def runs() -> Iterator[tuple[_PointState, int]]:
            for number, values in enumerate(self.sweep.design):
                state = _PointState(number, values, issued=first)
                for seed in self.sweep.seeds[:first]:
                    yield state, seed

        if not self.store.shared_with(self.writer):
            return runs()
        # Someone else is at work here, perhaps on the same points: two who walk differently meet rarely.
        shuffled = list(runs())
        random.Random(self.writer.journal.stem).shuffle(shuffled)
        return iter(shuffled)

    def _hand_out(self, order: Iterator[tuple[_PointState, int]], told: _Teller) -> bool:
        """Give the crew what it can hold; False if there is nothing more to give for now."""
        capacity = self.crew.capacity
        settled = 0
        while len(self._jobs) < capacity:
            item = self._extra.popleft() if self._extra else next(order, None)
            if item is None:
                return False
            if not self._start(*item):
                # Thousands of runs may be there already: keep the crew and the bar alive meanwhile.
                settled += 1
                if settled >= 64:
                    return True
        return True

    def _start(self, state: _PointState, seed: int) -> bool:
        """Begin a run; False if it was settled without one."""
        self._look()
        try:
            scenario, text, toml = self._described(state, seed)
        except (ScenarioError, ValueError, TypeError) as error:
            told = json.dumps([self.sweep.base.to_toml(), state.values, seed], default=str)
            key = run_key("cannot be resolved", hashlib.sha256(told.encode()).hexdigest())
            self._settle(
                _Job(state, seed, key, key, self.sweep.base, self.sweep.base.to_toml(), False),
                None,
                f"ScenarioError: {error}",
                0.0,
            )
            return False
        run = run_key(text)
        key = run_key(text, self._digest)
        job = _Job(state, seed, key, run, scenario, "", self.sweep.keep_tables)
        known = self._known.get(key)
        if known is not None and (not job.tables or self.store.has_tables(run, known.get("tables_sha256"))):
            self.out.reused += 1
            self._note(job, known)
            return False
        job.toml = toml
        self._number += 1
        self._jobs[self._number] = job
        tables = str(self.store.tables_folder(run).absolute()) if job.tables else None
        self.crew.submit(Task(self._number, text, job.toml, engine_fingerprint(), tables))
        return True

    def _described(self, state: _PointState, seed: int) -> tuple[Scenario, str, str]:
        """A point with some seed, and with this one its resolved text and its file.

        Seeds change nothing else, so a point is described once.
        """
        if self._resolved is None or self._resolved[0] is not state:
            scenario = self.sweep.base.with_(state.values, seed=seed)
            around = scenario.to_toml().split(f"seed = {seed}\n", 1)
            self._resolved = state, scenario, json.loads(scenario.to_json()), around
        _, scenario, resolved, around = self._resolved
        return scenario, as_text(resolved | {"seed": seed}), f"seed = {seed}\n".join(around)

    # -- taking in

    def _take_in(self, outcome: Outcome) -> None:
        job = self._jobs.pop(outcome.number)
        if outcome.error is None:
            self.out.run += 1
        self._settle(job, outcome.values, outcome.error, outcome.wall_s, outcome.tables_sha256)

    def _settle(
        self, job: _Job, values: dict[str, float] | None, error: str | None, wall_s: float, kept: str | None = None
    ) -> None:
        row: dict[str, Any] = {
            "key": job.key,
            "run": job.run,
            "engine": engine_fingerprint(),
            "status": "ok" if error is None else "failed",
            "error": error,
            "sweep": self.sweep.name,
            "point": job.state.number,
            "seed": job.seed,
            "name": job.scenario.name,
            "duration_s": job.scenario.duration.seconds,
            "wall_s": wall_s,
            "finished": time.time(),
            "tables": job.tables and error is None,
            "tables_sha256": kept,
            "scenario": job.toml,
            **_columns(job.state.values),
            **_in_base_units(job.state.values),
            **(values or {}),
        }
        self.writer.add(row)
        if error is not None:
            self.out.failed += 1
            if error in self.out.errors or len(self.out.errors) < 20:
                self.out.errors[error] = self.out.errors.get(error, 0) + 1
        self._note(job, row)

    def _note(self, job: _Job, row: Mapping[str, Any]) -> None:
        """A run is settled: in the list, and for the stopping rule."""
        state, until = job.state, self.sweep.until
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
            return
        more = until.more(state.settled)
        seeds = self.sweep.seeds[state.issued : state.issued + more]
        state.issued += more
        self._extra.extend((state, seed) for seed in seeds)


class _NoMetric(TailbackError):
    """The stopping rule watches what is not measured."""

    def __init__(self, metric: str, names: Sequence[str]) -> None:
        super().__init__(f"until.metric: there is no metric {metric}. There are: {', '.join(names)}")


class _Teller:
    """Progress: a bar on a terminal, a line now and then elsewhere, or a function."""

    def __init__(self, progress: bool | Callable[[int, int], object], title: str) -> None:
        self._call = progress if callable(progress) else None
        self._shown = progress is True
        self._bar = Bar(title, shown=self._shown)
        self._lines = self._shown and sys.stderr is not None and not sys.stderr.isatty()
        self._began = self._told = time.monotonic()
        self._last = -1

    def __enter__(self) -> _Teller:
        self._bar.__enter__()
        return self

    def __exit__(self, *what: Any) -> None:
        self._bar.__exit__(*what)

    def __call__(self, finished: int, total: int, out: SweepResult) -> None:
        if finished != self._last:
            self._last = finished
            if self._call is not None:
                self._call(finished, total)
            failed = f", {out.failed} failed" if out.failed else ""
            self._bar.update(finished / total if total else 1.0, f"{finished} of {total} runs{failed}")
        now = time.monotonic()
        if self._lines and now - self._told >= TELL_EVERY_S:
            self._told = now
            # Runs found in the store took no time, so they say nothing about the rest.
            pace = (finished - out.reused) / (now - self._began)
            left = f", about {(total - finished) / pace / 60:.0f} min left" if pace else ""
            print(f"{finished} of {total} runs, {out.failed} failed{left}", file=sys.stderr, flush=True)
