"""A sweep: points times seeds. Runs those that the store lacks, on all cores or on a cluster."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tailback import engines
from tailback._core import Cancel
from tailback.consent import demand_allowed
from tailback.errors import Problem, ScenarioError
from tailback.experiment import statistics
from tailback.experiment.design import Design, Point, demand_few, grid, refuse, single
from tailback.experiment.run_metrics import ENGINES, RunMetrics
from tailback.experiment.runner import Finished, known_sources, perform_all
from tailback.experiment.store import Store
from tailback.experiment.store.axes import columns_of
from tailback.experiment.store.index import COLUMNS
from tailback.judge import Sequential, interval
from tailback.repeatable import demand_repeatable
from tailback.result import Result
from tailback.scenario import Scenario

__all__ = ["Shard", "Sweep", "SweepResult", "Until", "sweep"]


@dataclass(frozen=True)
class Until:
    """Stopping rule: a point has enough seeds when the interval of `metric` is at most `width` wide.

    >>> Until("bulk.goodput_mbps", width="5%").most
    50
    """

    metric: str
    #: Width in the metric's unit, or as a share of the estimate: "5%".
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
        interval([1.0, 2.0], self.statistic, confidence=self.confidence)

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
        """Whether the interval of these values is narrow enough; never if one is not finite."""
        found = interval(values, self.statistic, confidence=self.confidence)
        return found.n >= self.least and found.width <= self._limit(found.estimate)

    def more(self, have: int) -> int:
        """Number of seeds to add."""
        return Sequential(self.least, self.most).more(have)


@dataclass(frozen=True)
class Shard:
    """A part of a sweep: every `of`-th of its runs from `number` on, in the order of the design.

    >>> str(Shard.of_text("3/8"))
    '3/8'
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise refuse("shard", str(self), "is no part of a sweep", "Write 1/8, 2/8, … 8/8")

    @classmethod
    def of_text(cls, text: str) -> Shard:
        """Parse a text such as "3/8"."""
        number, _, of = text.partition("/")
        try:
            return cls(int(number), int(of))
        except ValueError:
            raise refuse("shard", text, "is no part of a sweep", "Write 1/8, 2/8, … 8/8") from None

    def seeds(self, point: int, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """The point's seeds that are in this part."""
        first = (self.number - 1 - point * len(seeds)) % self.of
        return seeds[first :: self.of]

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Sweep:
    """What to run: a base scenario, a design, seeds, and the values to keep."""

    base: Scenario
    design: Design = field(default_factory=single)
    seeds: tuple[int, ...] = (1,)
    until: Until | None = None
    kept: RunMetrics = field(default_factory=RunMetrics)
    keep_tables: bool = False
    name: str = ""
    allow_code: bool = False
    #: The part of the sweep to run; None for all of it.
    shard: Shard | None = None
    #: Wall-clock seconds after which a run is cancelled and counts as failed; None for no limit.
    most_wall_s: float | None = 3600.0

    def __post_init__(self) -> None:
        if self.shard is not None and self.until is not None:
            problem = "a stopping rule looks at all seeds of a point, and a part has only some of them"
            raise refuse("shard", str(self.shard), problem, "Give seeds = 20 instead of [until]")

    def __len__(self) -> int:
        """Number of runs; with a stopping rule, the maximum."""
        return sum(self.until.most if self.until else len(self.seeds_of(number)) for number in range(len(self.design)))

    def with_values(self, changes: Mapping[str, Any]) -> Sweep:
        """The sweep with values changed at every point; a value that it varies selects the points with this value.

        >>> import tailback as tb
        >>> base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk("reno", name="a")], duration="2s")
        >>> both = Sweep(base, grid({"flow.a.cc": ["reno", "cubic"], "dumbbell.queue": ["1bdp", "codel"]}))
        >>> few = both.with_values({"dumbbell.queue": "codel", "dumbbell.rate": "2mbit"})
        >>> str(few.base.dumbbell.rate), [point["flow.a.cc"] for point in few.design]
        ('2mbit', ['reno', 'cubic'])
        """
        design, fixed = self.design, {}
        for path, value in changes.items():
            if path == "seed":
                raise refuse("seed", value, "a sweep has its own seeds", f"Write seeds = [{value}] in its file")
            if path in design.axes:
                design = design.only(path, value)
            else:
                self._demand_effect(path, value)
                fixed[path] = value
        return replace(self, base=self.base.with_(fixed) if fixed else self.base, design=design)

    def _demand_effect(self, path: str, value: Any) -> None:
        """Refuse a change that every point would override: `flow[0].cc` with an axis `flow.bulk.cc`."""
        changed, point = self.base.with_({path: value}), next(iter(self.design))
        if changed != self.base and changed.with_(point) == self.base.with_(point):
            raise refuse(path, str(value), "the sweep varies it by another path", f"Set {', '.join(self.design.axes)}")

    # Interface that the runner calls.

    def scenario(self, number: int, values: Point, seed: int) -> Scenario:
        """The scenario of a point."""
        return self.base.with_(values, seed=seed)

    def seeds_of(self, number: int) -> tuple[int, ...]:
        """The seeds of a point."""
        return self.seeds if self.shard is None else self.shard.seeds(number, self.seeds)

    def keeps_tables(self, number: int, seed: int) -> bool:
        """Whether tables are kept; the same for all runs."""
        return self.keep_tables

    def cost(self, number: int) -> float:
        """All runs have the same cost, as none is known to be longer."""
        return 1.0


class FailedRuns(UserWarning):
    """Some runs of a sweep failed; the text has the first error."""


@dataclass
class SweepResult(Finished):
    """The result of a sweep. `frame` has one row per run, in the order of the design."""

    sweep: Sweep = field(kw_only=True)

    @property
    def frame(self) -> pl.DataFrame:
        """One row per run: point, seed, axis values, metrics, and status."""
        points = [columns_of(point) for point in self.sweep.design]
        rows = sorted(self.index)
        heads = [{"point": point, "seed": seed, **points[point], "key": key} for point, seed, key in rows]
        if not heads:
            return pl.DataFrame()
        left = pl.DataFrame(heads, infer_schema_length=None, strict=False)
        found = self.store.frame()
        mine = found.filter(pl.col("key").is_in(left["key"].implode()))
        kept = [name for name in mine.columns if name == "key" or name not in left.columns]
        right = mine.select(kept).unique("key", keep="first", maintain_order=True)
        filled = [name for name in right.columns if name in COLUMNS or right[name].null_count() < len(right)]
        return left.join(right.select(filled), on="key", how="left", maintain_order="left")

    def summary(self, metric: str, *, statistic: str = "median", confidence: float = 0.95) -> pl.DataFrame:
        """One row per point: the statistic of a metric over the seeds, with its interval."""
        return statistics.summary(self.frame, metric, self._axes(), statistic=statistic, confidence=confidence)

    def effects(
        self, metric: str, axis: str, *, baseline: Any = None, statistic: str = "mean", over: Sequence[str] = ()
    ) -> pl.DataFrame:
        """The effect of each value of an axis on a metric, seed by seed: a row for each value of the other axes.

        Axes named in `over` are pooled: their values pair runs, as seeds do, and the column `over` names them.
        """
        rest = [name for name in self._axes() if name != axis]
        if unknown := [name for name in over if name not in rest]:
            fix = f"Choose from: {', '.join(rest) or 'none, as the sweep varies nothing else'}"
            raise refuse("over", unknown[0], "is none of the sweep's other axes", fix)
        out = statistics.effects(
            self.frame, metric, axis, across=[*over, "seed"], by=[name for name in rest if name not in over],
            baseline=baseline, statistic=statistic,
        )  # fmt: skip
        return out.with_columns(pl.lit(", ".join(over)).alias("over")) if over else out

    @property
    def still(self) -> tuple[int, ...]:
        """Points of which all seeds gave equal results: nothing was random there, and intervals mean nothing."""
        frame = self.frame
        if frame.is_empty() or not {"events", "point", "seed", "status"} <= set(frame.columns):
            return ()
        done = frame.filter(pl.col("status") == "ok")
        kept = [
            name for name in done.columns
            if name not in COLUMNS and name not in ENGINES and not name.endswith(".si") and name not in self._axes()
        ]  # fmt: skip
        if done.is_empty() or not kept:
            return ()
        each = done.group_by("point", maintain_order=True).agg(pl.len(), pl.col(kept).n_unique())
        alike = each.filter((pl.col("len") > 1) & pl.all_horizontal(pl.col(kept) == 1))
        return tuple(alike["point"].to_list())

    @property
    def seeds_agree(self) -> bool:
        """Whether all seeds of some point gave equal results; `still` lists these points."""
        return bool(self.still)

    def result(self, key: str) -> Result:
        """The tables of a run, if they were kept."""
        return self.store.result(key)

    def _axes(self) -> list[str]:
        return list(self.sweep.design.axes) or ["point"]

    def to_json(self) -> dict[str, Any]:
        """Plain numbers for `--json`."""
        return {
            "name": self.sweep.name,
            "shard": None if self.sweep.shard is None else str(self.sweep.shard),
            "store": str(self.store.folder),
            "points": len(self.sweep.design),
            "runs": self.run,
            "reused": self.reused,
            "failed": self.failed,
            "wall_s": self.wall_s,
            "seeds_agree": self.seeds_agree,
            "still": list(self.still),
            "errors": [{"error": text, "runs": count} for text, count in self.errors.items()],
        }

    def __repr__(self) -> str:
        name = f" {self.sweep.name}" if self.sweep.name else ""
        return (
            f"<tailback.SweepResult{name}: points {len(self.sweep.design)}, run {self.run}, "
            f"reused {self.reused}, failed {self.failed}>"
        )

    def _repr_html_(self) -> str:
        """One row per run, for notebooks."""
        import html

        return f"<p>{html.escape(repr(self))}</p>{self.frame._repr_html_()}"


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
    allow_code: bool = False,
    shard: Shard | str | None = None,
    most_wall_s: float | None = 3600.0,
    engine: str | None = None,
    kernel: str | None = None,
) -> SweepResult:
    """Run `base` at every point of `design` with every seed, unless the store has it already.

    A mapping of paths to lists of values is a grid; see also `zipped`, `latin_hypercube`, `sobol`. `until` adds
    seeds to each point until an interval is narrow enough. `metrics` names what to keep of each run besides the
    usual totals: functions of a `Result`, or tables naming an entry of `tailback.metrics`. `keep="tables"` keeps
    everything. `on` is a `distributed.Client` or "dask://host:port"; else threads work here, on all cores.
    `engine` and `kernel` are as for `tailback.test`; no cluster runs guests.
    `shard="3/8"` does every eighth run, from the third on; `Store.merge` puts the shards' stores together.

    Algorithms of your own may be swept if they stand in a file: a run is kept under the digest of that file, which a
    cluster's workers are sent. `allow_code` allows classes that the scenario names by reference; read them first.

    A point that is no scenario, as with a misspelt path, raises `ScenarioError` before the first run. A run that fails
    is recorded with its error and warned of (`FailedRuns`), and the rest goes on. A run also fails that takes longer
    than `most_wall_s` seconds of the machine's time (None: as long as it takes). Ctrl-C raises `Interrupted` at once;
    what was finished is in the store, and the same call goes on from there.

    >>> import tailback as tb, tempfile
    >>> base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk("reno", name="a")], duration="2s")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = tb.sweep(base, {"flow.a.cc": ["reno", "cubic"]}, seeds=2, store=folder)
    ...     done.run, done.failed, done.frame["seed"].to_list()
    (4, 0, [1, 2, 1, 2])
    """
    part = Shard.of_text(shard) if isinstance(shard, str) else shard
    if isinstance(base, Sweep):
        wanted = replace(
            base, allow_code=base.allow_code or allow_code, shard=part or base.shard, most_wall_s=most_wall_s
        )
    else:
        wanted = Sweep(
            base=base if isinstance(base, Scenario) else Scenario.from_toml(base),
            design=single() if design is None else design if isinstance(design, Design) else grid(design),
            seeds=seeds_of(seeds, until),
            until=until,
            kept=RunMetrics.of(metrics),
            keep_tables=keeps_tables(keep),
            name=name,
            allow_code=allow_code,
            shard=part,
            most_wall_s=most_wall_s,
        )
    chosen = engines.for_candidates(_named(wanted), engine, kernel)
    if not chosen.can.kernel:
        _demand_points(wanted)
    elif on is not None:
        raise refuse("on", str(on), f"this sweep runs in {chosen.name}, which no cluster has", "Leave it out")
    out = SweepResult(store if isinstance(store, Store) else Store(store), sweep=wanted)
    perform_all(wanted, out, workers=workers, on=chosen if chosen.can.kernel else on, progress=progress, cancel=cancel)
    _report_failures(out)
    return out


def _report_failures(out: SweepResult) -> None:
    """Warn if some runs failed."""
    if not out.failed:
        return
    first = next(iter(out.errors))
    text = f"{out.failed} of {len(out.index)} runs failed, {out.errors[first]} of them by: {first}"
    warnings.warn(text, FailedRuns, stacklevel=3)


def _named(wanted: Sweep) -> list[str]:
    """The congestion controls, transports and disciplines that the points name; references to code have a colon."""
    out, seen = list(wanted.base.named), set[str]()
    for number, point in enumerate(wanted.design):
        places = {str(value) for value in point.values() if ":" in str(value)}
        if places - seen:
            seen |= places
            with contextlib.suppress(ScenarioError, ValueError, TypeError):  # Reported by `_demand_points`.
                out += wanted.scenario(number, point, wanted.seeds[0]).named
    return out


def _demand_points(wanted: Sweep) -> None:
    """Refuse, before the first run, a point that is no scenario, and code whose runs cannot be repeated."""
    seen: set[str] = set()
    for number, point in enumerate(wanted.design):
        try:
            scenario = wanted.scenario(number, point, wanted.seeds[0])
            resolved = scenario.resolve(allow_code=wanted.allow_code)
            demand_allowed(resolved, wanted.allow_code, scenario)
            known_sources(resolved, scenario.folder)
        except (ScenarioError, ValueError, TypeError) as error:
            raise _of_point(error, number, point) from None
        # A quantity begins with a digit and does not name code.
        named = {text for text in map(str, point.values()) if not text.lstrip("-")[:1].isdigit()}
        if number == 0 or not named <= seen:
            seen |= named
            demand_repeatable(scenario, undone="swept", allow_code=wanted.allow_code)


def _of_point(error: Exception, number: int, point: Point) -> ScenarioError:
    """The error with the point that it belongs to."""
    plain = Problem("sweep", None, str(error), "Give values that a scenario can have")
    found = error.problems if isinstance(error, ScenarioError) else (plain,)
    values = ", ".join(f"{path} = {value}" for path, value in columns_of(point).items())
    at = f" (point {number}: {values})" if values else ""
    return ScenarioError([replace(each, problem=f"{each.problem}{at}") for each in found])


def seeds_of(seeds: int | Sequence[int], until: Until | None) -> tuple[int, ...]:
    """The seeds of each point, in order."""
    if until is not None:
        if seeds != 1:
            fix = "Give until.least and until.most instead"
            raise refuse("seeds", str(seeds), "the stopping rule decides how many seeds there are", fix)
        demand_few("until.most", until.most, "seeds")
        return tuple(range(1, until.most + 1))
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if seeds < 1:
            raise refuse("seeds", seeds, "a point needs at least one seed", "Give 1 or more")
        demand_few("seeds", seeds, "seeds")
        return tuple(range(1, seeds + 1))
    if isinstance(seeds, list | tuple | range):
        demand_few("seeds", len(seeds), "seeds")
    out = list(seeds) if isinstance(seeds, list | tuple | range) else []
    if not out or len(set(out)) < len(out) or not all(type(seed) is int and 0 <= seed < 1 << 63 for seed in out):
        fix = "Write seeds = 5 or seeds = [1, 2, 3], each below 2^63"
        raise refuse("seeds", str(seeds), "is neither a number of seeds nor a list of different ones", fix)
    return tuple(out)


def keeps_tables(keep: str) -> bool:
    """Whether `keep`, "summaries" or "tables", keeps tables."""
    if keep not in ("summaries", "tables"):
        raise refuse("keep", keep, "is neither summaries nor tables", 'Write keep = "summaries"')
    return keep == "tables"
