"""A study is a grid of scenarios, what to keep of each run, claims with rules fixed beforehand, and figures.

A cell's metrics are taken right after its run, in the worker that ran it, so that big tables are let go at once;
only summaries stay. Each summary is written to disk atomically, and an interrupted study resumes where it stopped.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from tailback.errors import Interrupted
from tailback.progress import Steps
from tailback.store import engine_fingerprint

from .outcome import ClaimResult, StudyResult, TableOut
from .standing import AS_PREDICTED, Standing
from .store import Store, write_text
from .verdicts import NOT, REPRODUCED, Rule

if TYPE_CHECKING:
    from tailback.result import Result
    from tailback.scenario import Scenario

Summary = dict[str, Any]
UNFIT = "unfit"
"""In the summary of a live run that was not punctual."""

GRID, ABLATION = "grid", "ablation"
PAPERS_OWN = "rate 1, time 1"
"""Scale of what is run as the paper ran it."""


@dataclass(frozen=True)
class Cell:
    """One scenario of a study, to be run with several seeds."""

    key: str
    label: str
    scenario: Scenario
    factors: Mapping[str, Any]
    role: str = GRID
    cost: float = 1.0
    """How long it takes compared with others: longest go first."""
    keep_tables: bool = False
    """Save the first seed's tables as Parquet, for figures."""
    seeds: int | None = None
    """At most this many seeds; `None`: as many as the study."""


@dataclass(frozen=True)
class Measured:
    """A claim's value for one seed, with what it was made of."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    holds: bool = True
    """Does what the claim says beside its value hold? If not, it is not so, whatever the value."""


@dataclass(frozen=True)
class Claim:
    """Something a paper says, how it is measured here and when it counts as reproduced."""

    id: str
    text: str
    kind: str
    paper: str
    unit: str
    definition: str
    measure: Callable[[Data, int], Measured | None]
    rule: Rule
    figure: str
    where: str = ""
    remark: Callable[[Data], str] | None = None
    why: str = ""
    """Best explanation of a miss, shown when there is one."""
    standing: Standing = AS_PREDICTED
    """Is its verdict evidence?"""
    redefined: str = ""
    """How its measure or rule was changed after first results, if it was."""


@dataclass(frozen=True)
class Plot:
    """A figure of a study: static always, interactive where zooming helps."""

    name: str
    title: str
    caption: str
    draw: Callable[[Data], Figure]
    interactive: Callable[[Data], dict[str, Any] | None] | None = None


@dataclass
class Data:
    """Everything a claim or a figure may read: summaries by cell and seed, tables of the figure cells."""

    cells: Mapping[str, Cell]
    summaries: Mapping[tuple[str, int], Summary]
    seeds: tuple[int, ...]
    folder: Path
    _open: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str, seed: int) -> Summary | None:
        """Summary of a cell and seed, or `None` if it was not run."""
        return self.summaries.get((key, seed))

    def over_seeds(self, key: str) -> list[Summary]:
        """All seeds' summaries of a cell."""
        return [s for seed in self.seeds if (s := self.get(key, seed)) is not None]

    def first(self, key: str) -> Summary | None:
        """Summary of the first seed."""
        return self.get(key, self.seeds[0])

    def result(self, key: str) -> Any:
        """The saved tables of a figure cell (first seed)."""
        if key not in self._open:
            from tailback.result import open_result

            self._open[key] = open_result(self.folder / "tables" / key)
        return self._open[key]

    def has_tables(self, key: str) -> bool:
        """Were this cell's tables kept?"""
        return (self.folder / "tables" / key / "meta.json").exists()


@dataclass(frozen=True)
class Study:
    """A paper's experiment, as code."""

    name: str
    title: str
    paper: str
    doc: str
    revision: str
    """Changes when the extraction does, so that old cells are not mixed with new ones."""
    grid: Callable[[bool], list[Cell]]
    extract: Callable[[Cell, Result], Summary]
    claims: Sequence[Claim]
    plots: Sequence[Plot]
    tables: Callable[[Data], list[TableOut]]
    notes: Callable[[Data], list[str]] = lambda _: []
    explorer: Callable[[Data], dict[str, Any] | None] = lambda _: None
    seeds: int = 5
    """Seeds a cell unless told otherwise."""
    full_grid: Callable[[], list[Cell]] | None = None
    """The paper's own scale, if `grid` is smaller because that takes hours."""
    live_grid: Callable[[bool], list[Cell]] | None = None
    """What a Linux of today can run live, under the keys of the cells these stand for; `None`: there are none."""
    live_notes: Sequence[str] = ()
    """In what the live cells differ from those they stand for."""
    scale: Callable[[Data, str], str] = lambda _data, _claim: PAPERS_OWN
    """Rate and time, in the paper's, at which the cells of a claim (by name) were run."""
    chosen: Sequence[str] = ()
    """Set-ups that were chosen with verdicts in view, a sentence each."""

    def run(
        self,
        out: Path,
        *,
        seeds: int | None = None,
        quick: bool = False,
        full: bool = False,
        engine: str = "sim",
        progress: bool = True,
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
            "sim", or "live": on this machine's kernel, one cell after the other and in real time, the cells that can.
        progress
            Tell on standard error how far it is: a bar on a terminal, a line a minute elsewhere.
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
        is_live = engine == "live"
        made = self._live_cells(quick, full) if is_live else None
        began = time.perf_counter()
        out = Path(out)
        # Before the first run, not after the last: can anything be written there?
        write_text(out / "README", f"{self.title}\n\nMade by `tailback study {self.name}`; see report.html.\n")
        if made is None:
            made = self.full_grid() if full and self.full_grid else self.grid(quick)
        cells = {cell.key: cell for cell in made}
        numbers = tuple(range(1, (1 if quick else seeds) + 1))
        store = Store(out / "cells", f"{self.name}/{self.revision}{'/live' if is_live else ''}")
        summaries: dict[tuple[str, int], Summary] = {}
        missing: list[tuple[Cell, int, Scenario, str]] = []
        for cell in cells.values():
            for seed in numbers[: cell.seeds]:
                scenario = cell.scenario.with_({}, seed=seed)
                key = store.key(scenario.to_json())
                kept = store.load(key)
                tables_there = not (cell.keep_tables and seed == numbers[0]) or _tables_of(out, cell.key) == key
                if kept is not None and tables_there:
                    summaries[cell.key, seed] = kept
                else:
                    missing.append((cell, seed, scenario, key))
        missing.sort(key=lambda item: -item[0].cost)
        reused = len(summaries)
        each = _live_each(cancel) if is_live else _sim_each(workers, cancel)
        self._run_missing(out, missing, numbers[0], store, summaries, progress, each)
        data = Data(cells, summaries, numbers, out)
        mode = " --quick" if quick else f" --full --seeds {seeds}" if full else f" --seeds {seeds}"
        mode += " --engine live" if is_live else ""
        return self._finish(data, began, len(missing), reused, mode)

    def _live_cells(self, quick: bool, full: bool) -> list[Cell]:
        """The cells to run live; raises `ScenarioError` if this machine cannot, `ValueError` if nobody could."""
        from tailback import live

        if self.live_grid is None:
            raise ValueError(
                f"no cell of the study {self.name} runs live: none is of a Linux of today. Run it simulated"
            )
        if full:
            raise ValueError("a live study has no full scale: it takes as long as what it shows")
        cells = self.live_grid(quick)
        for cell in cells:
            live.check(cell.scenario)
        return cells

    def _run_missing(
        self,
        out: Path,
        missing: Sequence[tuple[Cell, int, Scenario, str]],
        first_seed: int,
        store: Store,
        summaries: dict[tuple[str, int], Summary],
        progress: bool,
        run_each: Callable[[list[Scenario], Callable[[Result], Any]], Iterator[Any]],
    ) -> None:
        if not missing:
            return
        by_identity = {(cell.key, seed): (cell, key) for cell, seed, _, key in missing}

        def keep(result: Result) -> tuple[tuple[str, int], Summary]:
            identity = (result.name, result.seed)
            cell, key = by_identity[identity]
            summary = self.extract(cell, result)
            if result.meta.get("fit") is False:
                summary = {**summary, UNFIT: True}
            if cell.keep_tables and result.seed == first_seed:
                folder = out / "tables" / cell.key
                result.save(folder)
                write_text(folder / "cell", key)
            return identity, summary

        with Steps(self.name, [cell.cost for cell, *_ in missing], shown=progress) as advance:
            try:
                for identity, summary in run_each([scenario for *_, scenario, _ in missing], keep):
                    store.save(by_identity[identity][1], summary)
                    summaries[identity] = summary
                    advance(by_identity[identity][0].cost)
            except KeyboardInterrupt:
                # The same command goes on from here.
                raise Interrupted([summaries.get(identity) for identity in by_identity]) from None

    def _finish(self, data: Data, began: float, ran: int, reused: int, mode: str) -> StudyResult:
        from tailback import report

        claims = [
            replace(judged, scale=f"{self.scale(data, judged.id)}, {_seeds(len(judged.values))}")
            for judged in (judge(claim, data) for claim in self.claims)
        ]
        result = StudyResult(
            study=self.name,
            title=self.title,
            paper=self.paper,
            folder=data.folder,
            report_path=data.folder / "report.html",
            claims=claims,
            tables=self.tables(data),
            figures=[],
            meta={
                "engine": engine_fingerprint(),
                "seeds": list(data.seeds),
                "quick": "--quick" in mode,
                "cells": len(data.cells),
                "python": platform.python_version(),
                "platform": platform.platform(),
                "cores": os.cpu_count(),
                "notes": [*(self.live_notes if "--engine live" in mode else ()), *_unfit(data), *self.notes(data)],
                "chosen": list(self.chosen),
                "command": f"tailback study {self.name}{mode}",
            },
            wall_s=0.0,
            simulated_s=sum(data.cells[key].scenario.duration.seconds for key, _ in data.summaries),
            cells_run=ran,
            cells_reused=reused,
        )
        report.write_study(self, data, result, lambda: time.perf_counter() - began)
        write_text(data.folder / "claims.json", json.dumps(result.to_json()["claims"], indent=1, ensure_ascii=False))
        write_text(data.folder / "study.json", json.dumps(result.to_json(), indent=1, ensure_ascii=False))
        return result


def _sim_each(workers: int | None, cancel: Any) -> Callable[[list[Scenario], Callable[[Result], Any]], Iterator[Any]]:
    """Simulate scenarios in parallel, in the order they finish."""

    def each(scenarios: list[Scenario], then: Callable[[Result], Any]) -> Iterator[Any]:
        from tailback.run import run_each

        for _, kept in run_each(scenarios, workers=workers, cancel=cancel, then=then):
            yield kept

    return each


def _live_each(cancel: Any) -> Callable[[list[Scenario], Callable[[Result], Any]], Iterator[Any]]:
    """Run scenarios live, one after the other: runs at once would wait for the processor."""

    def each(scenarios: list[Scenario], then: Callable[[Result], Any]) -> Iterator[Any]:
        from tailback import live

        for scenario in scenarios:
            yield then(live.run(scenario, cancel=cancel))

    return each


def _unfit(data: Data) -> list[str]:
    """Which live runs the machine was too late for, if any."""
    late = sorted({key for (key, _), summary in data.summaries.items() if summary.get(UNFIT)})
    if not late:
        return []
    return [
        f"Unfit: {len(late)} of {len(data.cells)} cells. The machine was too late for them to mean what they say; "
        f"run them again when it is quiet: {', '.join(late)}."
    ]


def _seeds(count: int) -> str:
    return "no seed" if not count else "1 seed" if count == 1 else f"{count} seeds"


def judge(claim: Claim, data: Data) -> ClaimResult:
    """Measure a claim for every seed and apply its rule to the median."""
    values: list[float] = []
    holds: list[bool] = []
    parts: dict[str, list[float]] = {}
    for seed in data.seeds:
        measured = claim.measure(data, seed)
        if measured is None or math.isnan(measured.value):
            continue
        values.append(measured.value)
        holds.append(measured.holds)
        for name, part in measured.parts.items():
            parts.setdefault(name, []).append(part)
    middle = statistics.median(values) if values else float("nan")
    each = [claim.rule.verdict(value) if so else NOT for value, so in zip(values, holds, strict=True)]
    # Half of the seeds do not make a claim.
    verdict = NOT if values and 2 * sum(holds) <= len(holds) else claim.rule.verdict(middle)
    notes = [f"{name} {statistics.median(series):.3g}" for name, series in parts.items() if series]
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
        why="" if not values or verdict == REPRODUCED else claim.why,
        standing=claim.standing.kind,
        because=claim.standing.reason,
        redefined=claim.redefined,
    )


def _tables_of(out: Path, key: str) -> str | None:
    try:
        return (out / "tables" / key / "cell").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
