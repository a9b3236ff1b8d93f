"""A study: a grid of scenarios, the values to keep, claims with rules fixed beforehand, and figures.

A cell is summarized right after its run, in the same thread, so that large tables are freed at once. The summaries are
kept in a store, which SQL can query, and an interrupted study resumes where it stopped.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tailback import engines
from tailback.errors import ResultError
from tailback.experiment.claims import Claim, NotRun, cited, judge
from tailback.experiment.design import Design, Point
from tailback.experiment.outcome import ClaimResult, StudyResult, TableOut, load
from tailback.experiment.runner import Finished, perform_all
from tailback.experiment.standing import Choice, stand
from tailback.experiment.store import Store, engine_fingerprint, run_key
from tailback.experiment.store.index import COLUMNS
from tailback.experiment.summary import Summary, inside
from tailback.files import read_plain, write_text
from tailback.metrics.rows import Floats
from tailback.result import Result, open_result
from tailback.scenario.whole import as_text
from tailback.views import view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tailback.scenario import Scenario

UNFIT = "unfit"
"""Key in the summary of a live run that was not punctual."""

GRID, ABLATION = "grid", "ablation"
PAPERS_OWN = "rate 1, time 1"
"""Scale of cells that run at the paper's own scale."""


@dataclass(frozen=True)
class Cell:
    """One scenario of a study, to be run with several seeds."""

    key: str
    label: str
    scenario: Scenario
    factors: Mapping[str, Any]
    role: str = GRID
    cost: float = 1.0
    """Relative duration of a run; longer cells run first."""
    keep_tables: bool = False
    """Save the first seed's tables as Parquet, for figures."""
    seeds: int | None = None
    """Maximum number of seeds; `None`: as many as the study."""


@dataclass(frozen=True)
class Plot:
    """A figure of a study: always static, and interactive if zooming helps."""

    name: str
    title: str
    caption: str
    draw: Callable[[Data], Figure]
    interactive: Callable[[Data], dict[str, Any] | None] | None = None


@dataclass
class Data:
    """The input of claims and figures: summaries by cell and seed, and tables of the figure cells."""

    cells: Mapping[str, Cell]
    summaries: Mapping[tuple[str, int], Summary]
    seeds: tuple[int, ...]
    tables: Mapping[str, Path] = field(default_factory=dict)
    """Folder of the tables of each figure cell (first seed)."""
    _open: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per run, in the grid's order: `cell`, `seed`, the cell's factors, and the values kept of the run."""
        order = {key: number for number, key in enumerate(self.cells)}
        runs = sorted(self.summaries, key=lambda run: (order[run[0]], run[1]))
        rows = [{"cell": cell, "seed": seed, **self.cells[cell].factors, **self.summaries[cell, seed]}
                for cell, seed in runs]  # fmt: skip
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pl.DataFrame([_column(name, [row.get(name) for row in rows]) for name in names])

    @cached_property
    def _keys(self) -> dict[frozenset[tuple[str, Any]], str]:
        found: dict[frozenset[tuple[str, Any]], str] = {}
        for key, cell in self.cells.items():
            other = found.setdefault(_known(cell.factors), key)
            if other != key:
                raise ValueError(f"the cells {other} and {key} have the same factors")
        return found

    def key(self, **factors: Any) -> str:
        """Key of the cell with exactly these factors; "" if there is none. A factor `None` counts as absent."""
        return self._keys.get(_known(factors), "")

    def array(
        self,
        what: str | Callable[[Summary], Any],
        seed: int | None = None,
        *,
        take: Callable[[Any], Any] = float,
        strict: bool = True,
        whole: bool = False,
        **factors: Any,
    ) -> Floats:
        """One number per cell. Axes are the factors given as lists or tuples; without `seed`, the seeds come first.

        Factors that change together are one axis: `**{"rate,rtt": [(1, 16), (10, 80)]}`.

        Parameters ---------- what A path in the summary, such as "www/64/mean", or a function of the summary. Factors
        fill in names in braces, which select no cells: "jitter_ms/{cc}". take Converts the value, such as a list, to a
        number. strict Raise `NotRun` for a cell of the grid that was not run. Otherwise it is NaN, as is a cell without
        a value or one that is not in the grid. whole Also raise `NotRun` for cells without a value and for those
        outside the grid.
        """
        inner = set(re.findall(r"{(\w+)}", what)) if isinstance(what, str) else set()
        axes = [value if isinstance(value, list | tuple) else (value,) for value in factors.values()]
        kept = [len(axis) for axis, value in zip(axes, factors.values(), strict=True) if axis is value]
        seeds = self.seeds if seed is None else (seed,)
        numbers = []
        for each, *point in itertools.product(seeds, *axes):
            named: dict[str, Any] = {}
            for name, value in zip(factors, point, strict=True):
                named |= zip(name.split(","), value, strict=True) if "," in name else {name: value}
            cell = {name: value for name, value in named.items() if name not in inner}
            found = self.run(each, **cell)
            if found is None and strict and self.key(**cell):
                raise NotRun(f"{cell}, seed {each}")
            value = None if found is None else what(found) if callable(what) else inside(found, what.format(**named))
            number = math.nan if value in (None, []) else float(take(value))
            if whole and math.isnan(number):
                raise NotRun(f"{what} of {named}, seed {each}")
            numbers.append(number)
        return np.array(numbers).reshape([*([] if seed is not None else [len(seeds)]), *kept])

    def run(self, seed: int, **factors: Any) -> Summary | None:
        """Summary of the cell with these factors, for a seed; `None` if it was not run."""
        return self.summaries.get((self.key(**factors), seed))

    def need(self, seed: int, **factors: Any) -> Summary:
        """Summary of the cell with these factors, for a seed; raises `NotRun` if it was not run."""
        found = self.run(seed, **factors)
        if found is None:
            raise NotRun(f"{factors}, seed {seed}")
        return found

    def runs(self, **factors: Any) -> list[Summary]:
        """Summaries of all seeds of a cell."""
        return [found for seed in self.seeds if (found := self.run(seed, **factors)) is not None]

    def each(self, **factors: Any) -> Iterator[tuple[Cell, list[Summary]]]:
        """The cells that were run and whose factors include these, in grid order; `None` means a missing factor."""
        for cell in self.cells.values():
            if all(cell.factors.get(name) == value for name, value in factors.items()):
                found = self.runs(**cell.factors)
                if found:
                    yield cell, found

    def first_run(self, **factors: Any) -> Summary | None:
        """Summary of the first seed."""
        return self.run(self.seeds[0], **factors)

    def tables_of(self, **factors: Any) -> Any:
        """The kept tables of a figure cell (first seed) as a `Result`; `None` if there are none."""
        key = self.key(**factors)
        if key in self.tables and key not in self._open:
            self._open[key] = open_result(self.tables[key])
        return self._open.get(key)


#: In the README of every study's folder.
_MADE_BY = "Made by `tailback study "


def _known(factors: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset((name, value) for name, value in factors.items() if value is not None)


def _column(name: str, values: list[Any]) -> pl.Series:
    """Numbers and words unchanged; nested values as Python objects."""
    if any(isinstance(value, list | tuple | dict) for value in values):
        return pl.Series(name, values, dtype=pl.Object)
    return pl.Series(name, values, strict=False)


@dataclass(frozen=True)
class Study:
    """A paper's experiment, as code."""

    name: str
    title: str
    paper: str
    doc: str
    revision: str
    """Change it with the extraction, so that old cells are not mixed with new ones."""
    grid: Callable[[bool], list[Cell]]
    extract: Callable[[Cell, Result], Summary]
    claims: Sequence[Claim]
    plots: Sequence[Plot]
    tables: Callable[[Data], list[TableOut]]
    """Tables of the report; empty ones are left out."""
    notes: Callable[[Data], list[str]] = lambda _: []
    explorer: Callable[[Data], dict[str, Any] | None] = lambda _: None
    seeds: int = 5
    """Default number of seeds per cell."""
    full_grid: Callable[[], list[Cell]] | None = None
    """The grid at the paper's own scale, if `grid` is smaller because that would take hours."""
    kernel_grid: Callable[[bool], list[Cell]] | None = None
    """Cells that a Linux of today can run, under the keys of the cells they replace; `None` if there are none."""
    kernel_notes: Sequence[str] = ()
    """How these cells differ from those they replace."""
    scale: Callable[[Data, str], str] = lambda _data, _claim: PAPERS_OWN
    """Rate and time, relative to the paper's, at which the cells of a claim (by id) were run."""
    chosen: Sequence[Choice] = ()
    """Set-ups that were chosen with verdicts in view; the claims that depend on them are fitted."""

    def __post_init__(self) -> None:
        """Refuse a choice that names an unknown claim."""
        stand(self.claims, self.chosen)

    def run(
        self,
        out: Path,
        *,
        seeds: int | None = None,
        quick: bool = False,
        full: bool = False,
        engine: str = "sim",
        kernel: str | None = None,
        progress: bool | Callable[[int, int], object] = True,
        cancel: Any = None,
        workers: int | None = None,
    ) -> StudyResult:
        """Run what is missing, judge the claims, draw the figures, write the report.

        Parameters
        ----------
        out
            Folder of the study; finished cells found there are used again.
        seeds
            How many seeds each cell is run with: 1, 2, … `seeds`; `None`: the study's own number.
        quick
            Only the cells that most figures need, with one seed; claims without data say so.
        full
            The paper's own scale, where the study's usual one is smaller.
        engine
            "sim"; or the cells that a Linux of today can run: "live" on this machine's kernel, one after the other and
            in real time, "vm" on a kernel in virtual machines.
        kernel
            The kernel of "vm": a name of `tailback vm kernels`, or an image's path; `None`: the first one fetched.
        progress
            Report progress on standard error: a bar on a terminal, a line a minute elsewhere; or a function of
            (finished, total).
        cancel
            A `tailback.Cancel` to stop the runs from another thread.
        workers
            Threads; `None`: one a core.
        """
        seeds = self.seeds if seeds is None else seeds
        if seeds < 1:
            raise ValueError(f"a study needs at least one seed, not {seeds}")
        if quick and full:
            raise ValueError("a study runs either quick or full, not both")
        chosen = engines.one(engine, kernel)
        on_kernel = chosen.can.kernel
        made = self._kernel_cells(chosen, quick, full) if on_kernel else None
        began = time.perf_counter()
        out = Path(out)
        self._demand_own(out)
        # Fail before the first run, not after the last, if the folder is not writable.
        write_text(out / "README", f"{self.title}\n\n{_MADE_BY}{self.name}`; see report.html.\n")
        if made is None:
            made = self.full_grid() if full and self.full_grid else self.grid(quick)
        numbers = tuple(range(1, (1 if quick else seeds) + 1))
        runs = Runs(self, made, numbers, on_kernel)
        done = Finished(Store(out / "runs"))
        perform_all(
            runs, done, workers=workers, on=chosen if on_kernel else None, progress=progress, cancel=cancel, strict=True
        )
        mode = " --quick" if quick else f" --full --seeds {seeds}" if full else f" --seeds {seeds}"
        mode += f" {' '.join(chosen.words)}" if on_kernel else ""
        meta = {
            "engine": engine_fingerprint(),
            "quick": quick,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "command": f"tailback study {self.name}{mode}",
        }
        return self._finish(runs.data(done), out, lambda: time.perf_counter() - began, done, meta)

    def _demand_own(self, out: Path) -> None:
        """Refuse to replace a README that no study wrote."""
        file = out / "README"
        if file.exists() and _MADE_BY.encode() not in read_plain(file):
            raise ResultError(f"{file} is there, and no study wrote it. Give another folder.")

    def judge_again(self, out: Path) -> StudyResult:
        """Judge a finished study's stored runs by the current claims and rules, and write its report again.

        The page keeps the engine that ran the study. `ResultError` if `out` holds no finished study or lacks a run that
        today's grid has.
        """
        out = Path(out)
        old = load(out)
        words = old.meta["command"].split()
        quick, on = "--quick" in words, _kernel_of(words)
        if on is not None:
            cells = self.kernel_grid(quick) if self.kernel_grid is not None else []
        else:
            cells = self.full_grid() if "--full" in words and self.full_grid else self.grid(quick)
        runs = Runs(self, cells, tuple(old.meta["seeds"]), on is not None)
        done = Finished(Store(out / "runs"), run=old.cells_run, reused=old.cells_reused)
        runs.find(done, old.meta["engine"], on)
        return self._finish(runs.data(done), out, lambda: old.wall_s, done, old.meta)

    def _kernel_cells(self, engine: engines.Engine, quick: bool, full: bool) -> list[Cell]:
        """The cells for a kernel; `ScenarioError` if this machine cannot run them, `ValueError` if there are none."""
        if self.kernel_grid is None:
            raise ValueError(
                f"no cell of the study {self.name} runs on a kernel: none is of a Linux of today. Run it simulated"
            )
        if full:
            raise ValueError("a study on a kernel has no full scale: it takes as long as what it shows")
        cells = self.kernel_grid(quick)
        for cell in cells:
            engine.check(cell.scenario)
        return cells

    def judged(self, data: Data) -> list[ClaimResult]:
        """Every claim with its verdict, its standing and its scale."""
        standings = stand(self.claims, self.chosen)
        found = [judge(claim, data) for claim in self.claims]
        values = {one.id: one.ours for one in found}
        return [
            replace(
                one,
                scale=f"{self.scale(data, one.id)}, {_seeds(len(one.values))}",
                standing=standings[one.id].kind,
                because=standings[one.id].reason,
                why=cited(one.why, values),
            )
            for one in found
        ]

    def _finish(
        self, data: Data, out: Path, clock: Callable[[], float], done: Finished, meta: Mapping[str, Any]
    ) -> StudyResult:
        claims = self.judged(data)
        kernel_notes = self.kernel_notes if "--engine" in meta["command"] else ()
        result = StudyResult(
            study=self.name,
            title=self.title,
            paper=self.paper,
            folder=out,
            report_path=out / "report.html",
            claims=claims,
            tables=[table for table in self.tables(data) if table.rows],
            figures=[],
            meta={
                **{name: meta[name] for name in ("engine", "quick", "python", "platform", "cores", "command")},
                "seeds": list(data.seeds),
                "cells": len(data.cells),
                "notes": [*kernel_notes, *_unfit(data), *self.notes(data)],
                "chosen": [asdict(choice) for choice in self.chosen],
            },
            wall_s=0.0,
            simulated_s=sum(data.cells[key].scenario.duration.seconds for key, _ in data.summaries),
            cells_run=done.run,
            cells_reused=done.reused,
        )
        view("study.report")(self, data, result, clock)
        write_text(out / "claims.json", json.dumps(result.to_json()["claims"], indent=1, ensure_ascii=False))
        write_text(out / "study.json", json.dumps(result.to_json(), indent=1, ensure_ascii=False))
        return result


class Runs:
    """The cells of a study times their seeds, longest first, in the interface that the runner calls."""

    until = None
    allow_code = False

    def __init__(self, study: Study, cells: Sequence[Cell], seeds: tuple[int, ...], on_kernel: bool) -> None:
        self.name, self.seeds = study.name, seeds
        self.cells = {cell.key: cell for cell in cells}
        self._order = sorted(self.cells.values(), key=lambda cell: -cell.cost)
        axes = tuple(dict.fromkeys(name for cell in self._order for name in cell.factors))
        self.design = Design(axes, len(self._order), lambda: (dict(cell.factors) for cell in self._order))
        self.kept = _Summaries(study, self.cells, f"{study.name}/{study.revision}{'/live' if on_kernel else ''}")

    def scenario(self, number: int, values: Point, seed: int) -> Scenario:
        """The scenario of a cell."""
        return self._order[number].scenario.with_({}, seed=seed)

    def seeds_of(self, number: int) -> tuple[int, ...]:
        """The study's seeds, limited to the number that the cell needs."""
        return self.seeds[: self._order[number].seeds]

    @property
    def most_wall_s(self) -> float | None:
        """No limit on a run's wall-clock time."""
        return None

    def keeps_tables(self, number: int, seed: int) -> bool:
        """Tables are kept for the first seed of figure cells."""
        return self._order[number].keep_tables and seed == self.seeds[0]

    def cost(self, number: int) -> float:
        """The cell's declared cost."""
        return self._order[number].cost

    def find(self, done: Finished, engine: str, on: engines.Engine | None = None) -> None:
        """Fill in the index of `done` with an engine's runs in its store; `ResultError` if a run is missing.

        `on` ran them on a kernel; `None`: they were simulated.
        """
        there = set(done.store.frame().filter(status="ok")["key"])
        missing = []
        for number, cell in enumerate(self._order):
            for seed in self.seeds_of(number):
                scenario = self.scenario(number, {}, seed)
                resolved = as_text(json.loads(as_text(scenario.resolve(live=on is not None))))
                made_by = [on.mark(scenario)] if on is not None else []
                key = run_key(resolved, self.kept.digest, *made_by, engine=engine)
                if key in there:
                    done.index.append((number, seed, key))
                else:
                    missing.append(f"{cell.key}, seed {seed}")
        if missing:
            raise ResultError(
                f"{done.store.folder} lacks {len(missing)} runs of engine {engine} that the study {self.name} needs, "
                f"the first: {missing[0]}. Run them: tailback study {self.name} --out {done.store.folder.parent}"
            )

    def data(self, done: Finished) -> Data:
        """The data of the runs for claims and figures."""
        rows = {row["key"]: row for row in done.store.frame().select("key", "run", "tables", "summary").to_dicts()}
        found = {(self._order[number].key, seed): rows[key] for number, seed, key in done.index}
        tables = {
            cell: done.store.tables_folder(row["run"])
            for (cell, seed), row in found.items()
            if row["tables"] and seed == self.seeds[0]
        }
        summaries = {identity: json.loads(row["summary"]) for identity, row in found.items()}
        return Data(self.cells, summaries, self.seeds, tables)


@dataclass(frozen=True)
class _Summaries:
    """Keeps a cell's numbers as columns, and its whole summary as JSON, including lists and series."""

    study: Study
    cells: Mapping[str, Cell]
    digest: str

    def names(self, resolved: Mapping[str, Any]) -> list[str]:
        """No fixed names: a study's summary determines them."""
        return []

    def __call__(self, result: Result) -> dict[str, Any]:
        cell = self.cells[result.name]
        summary = self.study.extract(cell, result)
        if result.meta.get("fit") is False:
            summary = {**summary, UNFIT: True}
        taken = {*COLUMNS, *cell.factors}
        numbers = {name: value for name, value in summary.items() if type(value) in (int, float) and name not in taken}
        return {**numbers, "summary": json.dumps(summary, separators=(",", ":"))}


def _kernel_of(words: Sequence[str]) -> engines.Engine | None:
    """The engine that a study's command names, for its cells on a kernel; `None` for a simulated study."""
    after = dict(itertools.pairwise(words))
    return engines.one(after["--engine"], after.get("--kernel")) if "--engine" in after else None


def _unfit(data: Data) -> list[str]:
    """A remark that names the runs for which the machine was too late; empty if there are none."""
    late = sorted({key for (key, _), summary in data.summaries.items() if summary.get(UNFIT)})
    if not late:
        return []
    return [
        f"Unfit: {len(late)} of {len(data.cells)} cells. The machine was too late for them to mean what they say; "
        f"run them again when it is quiet: {', '.join(late)}."
    ]


def _seeds(count: int) -> str:
    return "no seed" if not count else "1 seed" if count == 1 else f"{count} seeds"
