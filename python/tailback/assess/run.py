"""Runs what a dossier needs and the store lacks, judges it, and writes the dossier."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailback._core import Cancel
from tailback.assess import output, population
from tailback.assess.kept import Kept
from tailback.assess.measure import HARMS
from tailback.assess.procedure import GENERAL, Cell, Experiment, Procedure
from tailback.assess.procedures import CONGESTION_CONTROL, procedure_of
from tailback.assess.verdicts import (
    ALONE,
    ASIDE,
    NOT_APPLICABLE,
    NOT_RUN,
    Checked,
    Criterion,
    adjusted,
    counted_on_plain_paths,
    judge_controls,
    judge_experiment,
    with_covered,
)
from tailback.candidate import Candidate
from tailback.engines import Engine, Sim, Vm, for_candidates
from tailback.errors import AlgorithmError, Interrupted, TailbackError, nearest
from tailback.experiment.design import Design, Point
from tailback.experiment.runner import Finished, perform_all
from tailback.experiment.store import Store
from tailback.experiment.workers import REFUSED
from tailback.judge import UNFINISHED, Rounds, Verdict, together
from tailback.repeatable import UnfitCandidate, twice
from tailback.run import run
from tailback.scenario import Scenario
from tailback.units import Rate
from tailback.vm import kernels

if TYPE_CHECKING:
    from tailback.algorithms import Algorithm

__all__ = ["Assessment", "UnfitCandidate", "assess"]

#: Seeds per cell after each round; only undecided cells get another round.
ROUNDS = Rounds((5, 10, 20))
#: Two looks take half of the error each; the sign test then needs seven seeds.
QUICK = Rounds((3, 7))
#: Wall-clock limit of the trial, in seconds; a candidate that exceeds it is rejected as stuck.
PATIENCE_S = 30.0
#: Cost model of a guest's run as shares of the trial's time: boot, each simulated second, each thousand packets. Fitted
#: to three cells; the largest took a third longer than predicted.
_BOOT, _SECOND, _THOUSAND = 0.6, 0.008, 0.05


class UnknownWord(TailbackError):
    """A name in the request that is unknown or not allowed."""


class StuckCandidate(UnfitCandidate):
    """A candidate whose code did not return. Its thread cannot be ended and keeps running."""


@dataclass
class Assessment:
    """A dossier; `criteria` has the verdicts in the RFC's order."""

    candidate: Candidate
    #: The candidate as the user wrote it.
    written: str
    against: tuple[str, ...]
    is_quick: bool
    only: tuple[str, ...]
    #: Seeds of each cell if the user sets the number; else `ROUNDS` or `QUICK` apply.
    seeds: int | None = None
    #: What the candidate is meant for, one of the procedure's scopes.
    scope: str = GENERAL
    #: Rules by which the candidate is judged.
    procedure: Procedure = CONGESTION_CONTROL
    #: Version of the kernel that ran candidates which exist only in a kernel; empty if none was needed.
    kernel: str = ""
    #: The engine, "vm" or "live", that ran all cells; empty if each ran in its default engine.
    engine: str = ""
    #: The baselines as the user named them; empty for the default ones.
    named: tuple[str, ...] = ()
    criteria: list[Criterion] = field(default_factory=list)
    controls: list[Checked] = field(default_factory=list)
    #: Harm on the stated population of paths; None if it was not asked for or has not been run.
    population: population.Population | None = None
    #: Number of the population's rules that stay decided under the false discovery rate.
    population_held: int = 0
    #: Series of the pictures, from the first seed, by cell and label.
    pictures: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=dict)
    #: Connections that failed and that were opened, of all seeds, by cell and label; only where some failed.
    lost: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    #: Folder of the dossier, for the commands in it.
    folder: str = ""
    interrupted: bool = False
    run: int = 0
    reused: int = 0
    failed: int = 0
    wall_s: float = 0.0

    @property
    def rounds(self) -> Rounds:
        """Seeds per cell after each round; only undecided cells get another round."""
        return Rounds((self.seeds,)) if self.seeds else QUICK if self.is_quick else ROUNDS

    @property
    def setting(self) -> tuple[str, ...]:
        """The baselines that set bounds."""
        return self.procedure.setting(self.against)

    @property
    def is_broken(self) -> bool:
        """Whether a control has a verdict other than the known one; then no verdict here counts."""
        return any(not each.as_known for each in self.controls if each.verdict != UNFINISHED)

    @property
    def verdict(self) -> str:
        """The joint verdict on all criteria that were run."""
        return together([each.verdict for each in self.criteria if each.verdict not in ASIDE] or [UNFINISHED])

    def counted(self) -> dict[str, int]:
        """Number of criteria by verdict; a row that other rows cover counts with those only."""
        words = [each.verdict for each in self.criteria if not each.experiment.covered_by]
        return {
            word: words.count(word) for word in (Verdict.PASSED, Verdict.FAILED, Verdict.UNDECIDED, UNFINISHED, *ASIDE)
        }

    def cells(self) -> list[Cell]:
        """The cells that were to be run."""
        found = [
            cell
            for each in self.criteria
            for cell in _chosen(each.experiment, self.is_quick, self.only)
            if self.procedure.scoped(each.experiment, cell, self.scope, self.candidate) is not None
        ]
        return found + [
            self.procedure.plain[name] for name in dict.fromkeys(cell.plain for cell in found if cell.plain)
        ]

    def scenario(self, cell: Cell) -> Scenario:
        """A cell's scenario with the candidate in it."""
        return cell.scenario(self.candidate, self.scope)

    def to_json(self) -> dict[str, Any]:
        """Plain data with every number of the dossier."""
        return output.as_json(self)

    def markdown(self) -> str:
        """The verdicts as a Markdown page."""
        return output.markdown(self)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write report.html, dossier.md, dossier.json and the scenario of each cell; report.html's path."""
        return output.save(self, Path(folder))

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {word}" for word, count in self.counted().items() if count)
        return f"<tailback.Assessment {self.candidate.label}: {counts}>"


def assess(
    what: str | Mapping[str, Any] | Callable[..., Algorithm] | Candidate,
    *,
    against: Sequence[str] | None = None,
    quick: bool = False,
    only: Iterable[str] = (),
    seeds: int | None = None,
    scope: str | None = None,
    store: Store | str | os.PathLike[str] = "results/assess/store",
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    on: Any = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    allow_code: bool = False,
    fresh: int = 0,
    engine: str | None = None,
    kernel: str | None = None,
) -> Assessment:
    """Examine a congestion control by RFC 9743, or a queue by RFC 7928, beside those `against` in the same cells.

    `what` is what `candidate` takes, or names a queue: "fq_codel", "pie,target=20ms", "my.py:MyQueue" or a class.
    Without `against` a congestion control is judged beside CUBIC and Reno, a queue beside drop-tail by bytes and by
    packets, CoDel and PIE. A transport is also compared with QUIC's Reno, "quinn,cc=new_reno", which sets no bound
    beside others. Runs are kept in `store`, where the same call finds them again, and where another
    candidate finds the baselines'. `quick` takes a few cells and three seeds, seven where
    three leave a verdict open; else there are five to twenty. `seeds` gives every cell that many instead. `only` names
    experiments. `scope` says what the candidate is meant for, so that rows that do not apply are left out: "general",
    "scavenger", "l4s", "data-centre" or "slow-start"; None takes what a built-in algorithm declares, else "general".
    `fresh` is added to the seeds of the candidate's runs and not of the baselines', for a test of the suite itself.
    `engine` runs all cells of a congestion control: "sim", "vm" or "live", by default the first that has the candidate.
    `kernel` names a guest's kernel, by default the first one fetched, as for a queue such as "kernel:fq_codel", beside
    which tailback's own are simulated. With `out` the dossier is written to that folder. `workers` and
    `on` are as for `sweep`. Raises `UnfitCandidate` for a candidate that sends nothing or does not come back, and what
    it raised for one that crashes. Ctrl-C raises `Interrupted`; what was finished is kept, and the dossier so far is
    written.

    >>> import tailback as tb, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tb.assess("reno", against=["cubic"], quick=True, only=["congestion-collapse"], store=folder)
    ...     [each.verdict for each in found.criteria if each.experiment.name == "congestion-collapse"]
    ['passed']
    """
    began = time.perf_counter()
    procedure = procedure_of(what, allow_code=allow_code)
    chosen = _demand_known(procedure, only)
    try:
        mine = procedure.candidate(what, allow_code=allow_code)
        named = dict.fromkeys(procedure.baselines if against is None else against)
        baselines = [procedure.candidate(each, allow_code=allow_code) for each in named]
        compared = [procedure.candidate(each) for each in procedure.compared.values() if procedure.is_compared(mine)]
    except TailbackError as error:
        raise UnknownWord(str(error)) from None
    if not baselines:
        example = ",".join(procedure.baselines)
        raise UnknownWord(f"against is empty, but most rules are relative to a baseline. Give for example {example}")
    if seeds is not None and seeds < 2:
        raise UnknownWord(f"seeds must be at least 2, got {seeds}: one run has no spread to judge by")
    scope = procedure.scope_of.get(mine.name, GENERAL) if scope is None else scope
    if scope not in procedure.scopes:
        close = nearest(scope, list(procedure.scopes))
        hint = f' Did you mean "{close}"?' if close else ""
        raise UnknownWord(f'there is no scope "{scope}".{hint} There are: {", ".join(procedure.scopes)}')
    guest = _kernels(procedure, [mine, *baselines], engine, kernel)
    if against is None and guest is None:
        baselines += compared
    whole = guest is not None and not procedure.has_queues
    trial_s = _try(procedure, mine, guest if whole or procedure.needs_guest(mine) else None)
    done = Assessment(
        mine,
        what if isinstance(what, str) else mine.label,
        tuple(each.label for each in baselines),
        quick,
        chosen,
        seeds,
        scope,
        procedure,
        kernel=kernels.find(kernel).name if isinstance(guest, Vm) else "",
        engine=guest.name if whole and guest is not None else "",
        named=tuple(against or ()),
    )
    kept = store if isinstance(store, Store) else Store(store)
    work = _Work(done, baselines, fresh, trial_s)
    if whole and guest is not None and progress is True:
        print(work.expectation(guest, workers), file=sys.stderr, flush=True)
    try:
        if _wants_population(done):
            paths = population.Work(mine, baselines, work.paths, fresh)
            finished = Finished(kept)
            try:
                perform_all(paths, finished, workers=workers, on=on, progress=progress, cancel=cancel)
            finally:
                work.take_population(paths, finished)
        for count in done.rounds.counts:
            asked = work.ask(count)
            if not asked:
                break
            for crew in (on, guest) if guest is not None else (on,):
                work.turn_to(crew if crew is guest else None)
                finished = Finished(kept)
                try:
                    perform_all(work, finished, workers=workers, on=crew, progress=progress, cancel=cancel)
                finally:
                    work.take(finished)
    except KeyboardInterrupt as interrupted:
        done.interrupted = True
        done.wall_s = time.perf_counter() - began
        if out is not None:
            done.save(out)
        results = interrupted.results if isinstance(interrupted, Interrupted) else []
        raise InterruptedAssessment(results, done) from None
    done.wall_s = time.perf_counter() - began
    if out is not None:
        done.save(out)
    return done


def _kernels(
    procedure: Procedure, candidates: Sequence[Candidate], engine: str | None, kernel: str | None
) -> Engine | None:
    """The kernel's runner for candidates that need one, else None; for a congestion control it runs every cell.

    Raises an error if this machine has no guest, or if the guest cannot run a candidate.
    """
    if procedure.has_queues:
        if engine is not None:
            raise UnknownWord(
                f"--engine {engine}: a queue's name says where it runs. Write for example kernel:fq_codel"
            )
        needing = [each for each in candidates if procedure.needs_guest(each)]
        if not needing and kernel is not None:
            raise UnknownWord(
                f"--kernel {kernel}: no candidate here runs in a guest. Write for example kernel:fq_codel"
            )
        chosen: Engine = Vm(kernel) if needing else Sim()
    else:
        needing = list(candidates)
        try:
            chosen = for_candidates([each.name for each in candidates], engine, kernel)
        except TailbackError as error:
            raise UnknownWord(str(error)) from None
    if not chosen.can.kernel:
        return None
    for each in needing:
        chosen.check(procedure.trial(each), allow_code=each.allow_code)
    return chosen


class InterruptedAssessment(Interrupted):
    """Ctrl-C during an assessment; `partial` is the dossier with the verdicts so far."""

    def __init__(self, results: Sequence[Any], partial: Assessment) -> None:
        super().__init__(results)
        self.partial = partial


def _demand_known(procedure: Procedure, only: Iterable[str]) -> tuple[str, ...]:
    names = [each.name for each in procedure.experiments if each.cells]
    names += [population.EXPERIMENT.name] if procedure.has_population else []
    for name in only:
        if name not in names:
            close = nearest(name, names)
            hint = f' Did you mean "{close}"?' if close else ""
            raise UnknownWord(f'there is no experiment "{name}".{hint} There are: {", ".join(names)}')
    return tuple(dict.fromkeys(only))


def _chosen(experiment: Experiment, is_quick: bool, only: Sequence[str]) -> tuple[Cell, ...]:
    if only and experiment.name not in only:
        return ()
    return tuple(cell for cell in experiment.cells if cell.quick or not is_quick)


def _wants_population(done: Assessment) -> bool:
    is_asked_for = not done.only or population.EXPERIMENT.name in done.only
    return done.procedure.has_population and is_asked_for and not _without_population(done)


def _without_population(done: Assessment) -> str:
    """Why the population of paths does not apply to the candidate; empty if it does."""
    if done.scope in population.OUT_OF_SCOPE:
        return f"{done.scope}: {done.procedure.scopes[done.scope]}"
    return "" if not done.engine else "its paths of up to 1 Gbit/s exceed a guest's capacity"


def _try(procedure: Procedure, mine: Candidate, guest: Engine | None = None) -> float:
    """A short run that finds an unfit candidate before hours are spent; returns its wall-clock seconds.

    How many seconds it took.
    """
    scenario, words, began = procedure.trial(mine), procedure.trial_words, time.perf_counter()
    outcome: list[Any] = []

    def work() -> None:
        try:
            if guest is not None:
                outcome.append(guest.run(scenario, allow_code=mine.allow_code))
                return
            if mine.allow_code:
                outcome.append(twice(scenario, mine.label, words, undone="assessed", allow_code=True))
            else:
                outcome.append(run(scenario))
        except BaseException as error:  # The waiting thread raises it.
            outcome.append(error)

    # A looping thread cannot be stopped; as a daemon it does not keep the program alive.
    thread = threading.Thread(target=work, daemon=True, name="trial")
    thread.start()
    # A guest has its own time limit, and kernel code cannot loop in this thread.
    thread.join(PATIENCE_S if guest is None else None)
    if not outcome:
        raise StuckCandidate(
            f"{mine.label} did not return within {PATIENCE_S:g} s from {words}: its code seems to loop. It was not "
            "assessed."
        )
    if isinstance(outcome[0], AlgorithmError):
        outcome[0].add_note(f"in {words}; it was not assessed")
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    row = outcome[0].flow_summary()[0]
    # One segment per RTT would deliver three times as much.
    if not (row["goodput_mbps"] or 0.0) > 0.1:
        raise UnfitCandidate(
            f"{mine.label} delivered almost nothing in {words} ({row['packets_sent']} packets sent): there is "
            "nothing to assess."
        )
    return time.perf_counter() - began


def _packets(cell: Cell) -> float:
    """Upper bound of the packets that a cell's bottleneck carries."""
    given = cell.given
    rate = given.get("dumbbell", {}).get("rate") or (given.get("link") or [{}])[0].get("rate") or "20mbit"
    return float(Rate(rate)) * cell.seconds / 12_000


class _Work:
    """The runs of a dossier, in the interface that the runner calls."""

    until = None

    def __init__(self, done: Assessment, baselines: Sequence[Candidate], fresh: int = 0, trial_s: float = 0.0) -> None:
        self.name = f"assess {done.candidate.label}"
        procedure = done.procedure
        self.kept = Kept(procedure=procedure.name)
        self._guest: Engine | None = None
        self._is_whole, self._trial_s = bool(done.engine), trial_s
        # Code of others was refused earlier unless it is allowed; planted faults are tailback's own code.
        self.allow_code = True
        self._controls = [
            each
            for each in procedure.controls
            if each.quick or not (done.is_quick or (done.only and each.experiment not in done.only))
        ]
        self._done, self._fresh = done, fresh
        self.paths = population.QUICK_PATHS if done.is_quick else population.PATHS
        cells = [
            cell
            for each in procedure.experiments
            for cell in _chosen(each, done.is_quick, done.only)
            if procedure.scoped(each, cell, done.scope, done.candidate) is not None
        ]
        named = [*procedure.baselines, *(each.cc for each in self._controls)] + [
            cell.rival for cell in cells if cell.rival
        ]
        self._candidates: dict[str, Candidate] = {}
        for each in (
            done.candidate,
            *baselines,
            *(procedure.candidate(name, allow_code=True) for name in dict.fromkeys(named)),
        ):
            other = self._candidates.setdefault(each.label, each)
            if other.digest != each.digest:
                raise TailbackError(f'two different candidates are called "{each.label}". Rename your own')
        ways = dict.fromkeys((done.candidate.label, *done.against))
        #: Baselines that set no bound: they have no plain cases and the first round's seeds, which saves time.
        self._aside = set(done.against) - {*done.setting, done.candidate.label}
        judging = [way for way in ways if way not in self._aside]
        #: Cells by name, algorithm (or none) and whether a kernel runs them: first the candidate's, then the further
        #: ones that the controls need, which are simulated.
        self._points: dict[tuple[str, str, bool], Cell] = {}
        for cell in cells:
            for way in (*ways, *((ALONE,) if cell.has_others else ())):
                if not (way in self._aside and procedure.lacks([cell], self._candidates[way])):
                    self._points[cell.name, way, self._on_kernel(way)] = cell
            if cell.rival:
                self._points[cell.name, cell.rival, self._on_kernel(cell.rival)] = cell
            if cell.plain:
                plain = procedure.plain[cell.plain]
                for way in (*judging, *((ALONE,) if cell.has_others else ())):
                    self._points[plain.name, way, self._on_kernel(way)] = plain
        if self._is_whole:
            self._points = dict(sorted(self._points.items(), key=lambda item: (_packets(item[1]), item[1].name)))
        self._plain = {cell.name: cell.plain for cell in cells if cell.plain}
        for control in self._controls:
            for name in control.cells:
                beside = (control.label, *procedure.baselines, *((ALONE,) if control.statistic in HARMS else ()))
                of = (name, procedure.cells[name].plain) if procedure.cells[name].plain else (name,)
                for way in dict.fromkeys(beside):
                    for each_of in of:
                        self._points.setdefault((each_of, way, self._needs_guest(way)), procedure.cells[each_of])
        self._order = list(self._points)
        self._seeds: dict[str, int] = {}
        self._of_paths = 0
        self._runs: dict[tuple[str, str], dict[int, Any]] = {}
        self._of_controls: dict[tuple[str, str], dict[int, Any]] = {} if self._is_whole else self._runs
        self.design = Design(
            ("cell", "candidate"),
            len(self._order),
            lambda: ({"cell": cell, "candidate": way} for cell, way, _ in self._order),
        )

    # Interface that the runner calls.

    def scenario(self, number: int, values: Point, seed: int) -> Scenario:
        """A cell with one of the algorithms, or without flows under test."""
        _, way, _ = self._order[number]
        cell = self._points[self._order[number]]
        scope = self._done.scope if way == self._done.candidate.label else GENERAL
        return cell.scenario(None if way == ALONE else self._candidates[way], scope).with_({}, seed=seed)

    def seeds_of(self, number: int) -> tuple[int, ...]:
        """The seeds of this round for the cell."""
        name, way, on_kernel = self._order[number]
        if on_kernel != (self._guest is not None):
            return ()
        first, count = 1 + self._shift(way), self._seeds[name]
        count = min(count, self._done.rounds.counts[0]) if way in self._aside else count
        return tuple(range(first, first + count))

    def _shift(self, way: str) -> int:
        return self._fresh if way == self._done.candidate.label else 0

    @property
    def most_wall_s(self) -> float | None:
        """No limit on a run's wall-clock time."""
        return None

    def keeps_tables(self, number: int, seed: int) -> bool:
        """No tables are kept: a cell's scenario can be run again."""
        return False

    def cost(self, number: int) -> float:
        """Cost estimate: simulated seconds, or the expected wall-clock seconds in a guest."""
        cell = self._points[self._order[number]]
        return cell.seconds if self._guest is None or not self._is_whole else self._expected_s(cell)

    def _expected_s(self, cell: Cell) -> float:
        """Expected wall-clock seconds in a guest, from the trial's time."""
        return self._trial_s * (_BOOT + _SECOND * cell.seconds + _THOUSAND * _packets(cell) / 1000)

    def expectation(self, engine: Engine, workers: int | None) -> str:
        """A sentence for the user on how long the runs on a kernel will take."""
        seeds, at_once = self._done.rounds.counts[0], engine.at_once(workers)
        cells = [cell for (_, _, on_kernel), cell in self._points.items() if on_kernel]
        minutes = seeds * sum(map(self._expected_s, cells)) / at_once / 60
        where = f"in guests of {self._done.kernel}" if self._done.kernel else "on this machine's kernel"
        return (
            f"{self.name}: {seeds * len(cells)} runs {where}, {at_once} at once, about {minutes:.0f} min, less what "
            "the store has; the shortest come first. Ctrl-C keeps what is done, and the same command goes on."
        )

    # Rounds.

    def turn_to(self, guest: Engine | None) -> None:
        """Select the runs to ask for next: the guest's or the simulator's."""
        self._guest = guest

    def _on_kernel(self, way: str) -> bool:
        return self._is_whole or self._needs_guest(way)

    def _needs_guest(self, way: str) -> bool:
        return way in self._candidates and self._done.procedure.needs_guest(self._candidates[way])

    def ask(self, seeds: int) -> bool:
        """Set the seeds of the round: all cells in the first, then the undecided ones; False if none are left."""
        if not self._seeds:
            self._seeds = {name: seeds for name, _, _ in self._order}
            return True
        judged = [each for criterion in self._done.criteria for each in criterion.found]
        judged += [each for control in self._done.controls for each in control.found]
        undecided = {each.cell for each in judged if each.verdict == Verdict.UNDECIDED}
        undecided |= {self._plain[name] for name in undecided if name in self._plain}
        for name in undecided:
            self._seeds[name] = seeds
        return bool(undecided)

    def take(self, finished: Finished) -> None:
        """Judge all finished runs."""
        done = self._done
        wanted = {key for _, _, key in finished.index}
        frame = finished.store.frame()
        mine = frame.filter(frame["key"].is_in(list(wanted))) if wanted else frame.head(0)
        rows = {row["key"]: row for row in mine.to_dicts()}
        for number, seed, key in finished.index:
            row = rows.get(key)
            if row is None:
                continue
            cell, way, on_kernel = self._order[number]
            mine_seed = seed - self._shift(way)
            runs = self._runs if on_kernel == self._on_kernel(way) else self._of_controls
            runs.setdefault((cell, way), {})[mine_seed] = row["error"] if row["status"] != "ok" else row
            if row.get("picture") and runs is self._runs:
                done.pictures[cell, way] = json.loads(row["picture"])
        done.lost = {
            at: (sum(int(row["connections_failed"]) for row in failed), sum(int(row["connections"]) for row in failed))
            for at, runs in self._runs.items()
            if (failed := [row for row in runs.values() if isinstance(row, dict) and row.get("connections_failed")])
        }
        done.run += finished.run
        kept = [*self._runs.values(), *(self._of_controls.values() if self._is_whole else ())]
        done.reused = self._of_paths + sum(map(len, kept)) - done.run
        errors = [row for runs in kept for row in runs.values() if isinstance(row, str)]
        done.failed = sum(not error.startswith(REFUSED) for error in errors)
        done.failed += len(done.population.errors) if done.population else 0
        looks = len(done.rounds.counts)

        def judged(experiment: Experiment, counted: Collection[str] = ()) -> Criterion:
            cells = _chosen(experiment, done.is_quick, done.only)
            return judge_experiment(
                experiment, cells, self._runs, done.candidate.label, done.against, done.scope, done.procedure,
                done.candidate, counted=counted, looks=looks,
            )  # fmt: skip

        on_plain = {each.name: judged(each) for each in done.procedure.experiments if not each.is_special}
        counted = counted_on_plain_paths(list(on_plain.values()))
        done.criteria = [on_plain.get(each.name) or judged(each, counted) for each in done.procedure.experiments]
        done.criteria, stay = adjusted(done.criteria, done.population.ps if done.population else ())
        if done.procedure.has_population:
            done.criteria.append(self._criterion(stay))
        done.criteria = with_covered(done.criteria)
        done.controls = judge_controls(self._of_controls, self._controls, done.procedure, self._candidates, looks)

    def take_population(self, paths: population.Work, finished: Finished) -> None:
        """Judge all finished runs of the population."""
        done = self._done
        keys = [key for _, _, key in finished.index]
        frame = finished.store.frame()
        mine = frame.filter(frame["key"].is_in(keys)) if keys else frame.head(0)
        runs = paths.taken(finished.index, {row["key"]: row for row in mine.to_dicts()})
        done.run += finished.run
        self._of_paths = len(runs)
        if len(runs) == len(paths.design):
            done.population = population.judge(
                runs, done.candidate.label, done.against, self.paths, done.is_quick, done.setting
            )

    def _criterion(self, stay: Sequence[bool]) -> Criterion:
        """The population's row; `stay` states which of its rules stay decided."""
        done, experiment = self._done, population.EXPERIMENT
        if done.population is None:
            if why := _without_population(done):
                return Criterion(experiment, NOT_APPLICABLE, (), why)
            if not _wants_population(done):
                return Criterion(experiment, NOT_RUN, (), "none of its paths was asked for")
            return Criterion(experiment, UNFINISHED, (), "not all of its runs were finished")
        if done.population.errors:
            number, error = next(iter(done.population.errors.items()))
            return Criterion(experiment, Verdict.FAILED, (), f"{population.paths()[number].label}: {error}")
        raw = done.population.verdicts
        done.population_held = sum(stay)
        held = [each if kept else Verdict.UNDECIDED for each, kept in zip(raw, stay, strict=True)]
        verdict = together(held)
        return Criterion(experiment, verdict, (), "" if verdict == Verdict.PASSED else done.population.sentence())
