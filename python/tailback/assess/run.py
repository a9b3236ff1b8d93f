"""Run what a dossier needs and a store does not have, judge it, and write the dossier."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailback._core import Cancel
from tailback.assess.measure import Kept
from tailback.assess.table import CONTROLS, EXPERIMENTS, Cell, Experiment, by_name
from tailback.assess.verdicts import ALONE, NOT_RUN, Checked, Criterion, judge_controls, judge_experiment, with_covered
from tailback.candidate import Candidate, candidate
from tailback.errors import AlgorithmError, Interrupted, TailbackError, nearest
from tailback.expect.verdicts import FAILED, PASSED, UNDECIDED, UNFINISHED, together
from tailback.experiment.design import Design, Point
from tailback.experiment.runner import Finished, perform_all
from tailback.experiment.store import Store
from tailback.scenario import Scenario

if TYPE_CHECKING:
    from tailback.algorithms import Algorithm

__all__ = ["Assessment", "UnfitCandidate", "assess"]

#: Seeds of the first round, and after each round of the cells that are still undecided.
ROUNDS = (5, 10, 20)
QUICK = (3,)
#: How long the trial may take before a candidate counts as one that does not come back.
PATIENCE_S = 30.0


class UnknownWord(TailbackError):
    """A name in the request that is not known, or not allowed."""


class UnfitCandidate(TailbackError):
    """A candidate that cannot be assessed: it crashes, sends nothing or does not come back."""


class StuckCandidate(UnfitCandidate):
    """A candidate whose code does not come back. A thread is still in it, and no program can end a thread."""


@dataclass
class Assessment:
    """A dossier: `criteria` has the verdicts in the RFC's order."""

    candidate: Candidate
    #: As the user wrote it.
    written: str
    against: tuple[str, ...]
    is_quick: bool
    only: tuple[str, ...]
    criteria: list[Criterion] = field(default_factory=list)
    controls: list[Checked] = field(default_factory=list)
    #: Of the first seed: what pictures show, by cell and label.
    pictures: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=dict)
    #: Where it was written, for the commands in it.
    folder: str = ""
    interrupted: bool = False
    run: int = 0
    reused: int = 0
    failed: int = 0
    wall_s: float = 0.0

    @property
    def is_broken(self) -> bool:
        """Did a control come out otherwise than it is known to? Then no verdict here counts."""
        return any(not each.as_known for each in self.controls if each.verdict != UNFINISHED)

    @property
    def verdict(self) -> str:
        """Of all criteria that were run."""
        return together([each.verdict for each in self.criteria if each.verdict != NOT_RUN] or [UNFINISHED])

    def counted(self) -> dict[str, int]:
        """How many criteria came to which verdict."""
        words = [each.verdict for each in self.criteria]
        return {word: words.count(word) for word in (PASSED, FAILED, UNDECIDED, UNFINISHED, NOT_RUN)}

    def cells(self) -> list[Cell]:
        """Those that were to be run."""
        return [cell for each in self.criteria for cell in _chosen(each.experiment, self.is_quick, self.only)]

    def scenario(self, cell: Cell) -> Scenario:
        """A cell with the candidate in it."""
        return cell.scenario(self.candidate.cc)

    def to_json(self) -> dict[str, Any]:
        """Plain data: every number of the dossier."""
        from tailback.assess.output import as_json

        return as_json(self)

    def markdown(self) -> str:
        """The page of verdicts."""
        from tailback.assess.output import markdown

        return markdown(self)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write report.html, dossier.md, dossier.json and the scenario of each cell; report.html's path."""
        from tailback.assess.output import save

        return save(self, Path(folder))

    def __repr__(self) -> str:
        told = ", ".join(f"{count} {word}" for word, count in self.counted().items() if count)
        return f"<tailback.Assessment {self.candidate.label}: {told}>"


def assess(
    what: str | Mapping[str, Any] | Callable[..., Algorithm] | Candidate,
    *,
    against: Sequence[str] = ("cubic", "reno"),
    quick: bool = False,
    only: Iterable[str] = (),
    store: Store | str | os.PathLike[str] = "results/assess/store",
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    on: Any = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
    allow_code: bool = False,
) -> Assessment:
    """Examine a congestion control by the criteria of RFC 9743, beside the algorithms `against` in the same cells.

    `what` is what `candidate` takes. Runs are kept in `store`, where the same call finds them again, and where another
    candidate finds the baselines'. `quick` takes a few cells and three seeds; else cells that are undecided get up to
    twenty. `only` names experiments. With `out` the dossier is written to that folder. `workers` and `on` are as for
    `sweep`. Raises `UnfitCandidate` for a candidate that sends nothing or does not come back, and what it raised for
    one that crashes. Ctrl-C raises `Interrupted`; what was finished is kept, and the dossier so far is written.

    >>> import tailback as tb, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tb.assess("reno", against=["cubic"], quick=True, only=["rto-backoff"], store=folder)
    ...     [each.verdict for each in found.criteria if each.experiment.name == "rto-backoff"]
    ['passed']
    """
    began = time.perf_counter()
    chosen = _demand_known(only)
    try:
        mine = candidate(what, allow_code=allow_code)
        baselines = [candidate(each, allow_code=allow_code) for each in dict.fromkeys(against)]
    except TailbackError as error:
        raise UnknownWord(str(error)) from None
    if not baselines:
        raise UnknownWord("against names no algorithm, and every rule is relative to one. Give for example cubic,reno")
    _try(mine)
    done = Assessment(
        mine,
        what if isinstance(what, str) else mine.label,
        tuple(each.label for each in baselines),
        quick,
        chosen,
    )
    kept = store if isinstance(store, Store) else Store(store)
    work = _Work(done, baselines)
    try:
        for seeds in QUICK if quick else ROUNDS:
            asked = work.ask(seeds)
            if not asked:
                break
            finished = Finished(kept)
            try:
                perform_all(work, finished, workers=workers, on=on, progress=progress, cancel=cancel)
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


class InterruptedAssessment(Interrupted):
    """Ctrl-C during an assessment; `partial` has the verdicts there are."""

    def __init__(self, results: Sequence[Any], partial: Assessment) -> None:
        super().__init__(results)
        self.partial = partial


def _demand_known(only: Iterable[str]) -> tuple[str, ...]:
    names = [each.name for each in EXPERIMENTS if each.cells]
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


def _try(mine: Candidate) -> None:
    """A short run with losses and an outage, before hours are spent on a candidate that cannot be run."""
    from tailback.run import run

    given = {
        "name": "trial",
        "duration": "8s",
        "dumbbell": {
            "rate": "10mbit", "rtt": "40ms", "queue": "0.5bdp",
            "schedule": [{"at": "4s", "rate": "0bit"}, {"at": "5s", "rate": "10mbit"}],
        },
        "flow": [{"name": "test", "cc": mine.cc if isinstance(mine.cc, str) else dict(mine.cc)}],
    }  # fmt: skip
    scenario = Scenario.from_dict(given)
    outcome: list[Any] = []

    def work() -> None:
        try:
            done = [run(scenario, allow_code=mine.allow_code) for _ in range(2 if mine.allow_code else 1)]
            if done[0].differing(done[-1]):
                told = f"{mine.label} gave two results with one seed in a trial of 8 s over 10 Mbit/s: it draws from "
                told += "something else than its seed, such as a clock or the order of a hash map. It was not assessed."
                outcome.append(UnfitCandidate(told))
            outcome.append(done[0])
        except BaseException as error:  # the thread that waits must see it
            outcome.append(error)

    # Code that loops cannot be stopped; a thread that nobody waits for at least lets the program end.
    thread = threading.Thread(target=work, daemon=True, name="trial")
    thread.start()
    thread.join(PATIENCE_S)
    if not outcome:
        raise StuckCandidate(
            f"{mine.label} has not come back for {PATIENCE_S:g} s from a trial of 8 s over 10 Mbit/s: its code seems "
            "to loop. It was not assessed."
        )
    if isinstance(outcome[0], AlgorithmError):
        outcome[0].add_note("in a trial of 8 s over 10 Mbit/s, with losses and an outage; it was not assessed")
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    row = outcome[0].flow_summary()[0]
    # One segment an RTT would be three times as much.
    if not (row["goodput_mbps"] or 0.0) > 0.1:
        raise UnfitCandidate(
            f"{mine.label} delivered as good as nothing in a trial of 8 s over 10 Mbit/s, and sent "
            f"{row['packets_sent']} packets: there is nothing to assess."
        )


class _Work:
    """The runs of a dossier, as the runner asks for them."""

    until = None
    kept = Kept()

    def __init__(self, done: Assessment, baselines: Sequence[Candidate]) -> None:
        self.name = f"assess {done.candidate.label}"
        self.allow_code = done.candidate.allow_code or any(each.allow_code for each in baselines)
        self._done = done
        cells = [cell for each in EXPERIMENTS for cell in _chosen(each, done.is_quick, done.only)]
        named = [control.cc for control in CONTROLS] + [cell.rival for cell in cells if cell.rival]
        self._candidates: dict[str, Candidate] = {}
        for each in (done.candidate, *baselines, *map(candidate, dict.fromkeys(named))):
            other = self._candidates.setdefault(each.label, each)
            if other.digest != each.digest:
                raise TailbackError(f'two different algorithms are called "{each.label}". Rename your own')
        ways = dict.fromkeys((done.candidate.label, *done.against))
        #: Which cells are run with which algorithm, or with none: the candidate's, then what the controls need besides.
        self._points: dict[tuple[str, str], Cell] = {}
        for cell in cells:
            for way in (*ways, *((ALONE,) if cell.has_others else ())):
                self._points[cell.name, way] = cell
            if cell.rival:
                self._points[cell.name, cell.rival] = cell
        for control in CONTROLS:
            for name in control.cells:
                self._points.setdefault((name, control.cc), by_name()[name])
        self._order = list(self._points)
        self._seeds: dict[str, int] = {}
        self._runs: dict[tuple[str, str], dict[int, Any]] = {}
        self.design = Design(
            ("cell", "candidate"),
            len(self._order),
            lambda: ({"cell": cell, "candidate": way} for cell, way in self._order),
        )

    # What the runner asks.

    def scenario(self, number: int, values: Point, seed: int) -> Scenario:
        """A cell with one of the algorithms, or with none."""
        name, way = self._order[number]
        cell = self._points[name, way]
        return cell.scenario(None if way == ALONE else self._candidates[way].cc).with_({}, seed=seed)

    def seeds_of(self, number: int) -> tuple[int, ...]:
        """As many as the round has for the cell."""
        return tuple(range(1, self._seeds[self._order[number][0]] + 1))

    def keeps_tables(self, number: int, seed: int) -> bool:
        """None are kept: a cell is run again by its scenario."""
        return False

    def cost(self, number: int) -> float:
        """By the simulated time."""
        return self._points[self._order[number]].seconds

    # Rounds.

    def ask(self, seeds: int) -> bool:
        """Set the round's seeds: of all cells in the first, then of those undecided; False if there are none."""
        if not self._seeds:
            self._seeds = {name: seeds for name, _ in self._order}
            return True
        judged = [each for criterion in self._done.criteria for each in criterion.found]
        judged += [each for control in self._done.controls for each in control.found]
        undecided = {each.cell for each in judged if each.verdict == UNDECIDED}
        for name in undecided:
            self._seeds[name] = seeds
        return bool(undecided)

    def take(self, finished: Finished) -> None:
        """Judge by all that was finished."""
        done = self._done
        wanted = {key for _, _, key in finished.index}
        frame = finished.store.frame()
        mine = frame.filter(frame["key"].is_in(list(wanted))) if wanted else frame.head(0)
        rows = {row["key"]: row for row in mine.to_dicts()}
        for number, seed, key in finished.index:
            row = rows.get(key)
            if row is None:
                continue
            cell, way = self._order[number]
            self._runs.setdefault((cell, way), {})[seed] = row["error"] if row["status"] != "ok" else row
            if row.get("picture"):
                done.pictures[cell, way] = json.loads(row["picture"])
        done.run += finished.run
        done.reused = sum(map(len, self._runs.values())) - done.run
        done.failed = sum(isinstance(row, str) for runs in self._runs.values() for row in runs.values())
        done.criteria = [
            judge_experiment(
                each, _chosen(each, done.is_quick, done.only), self._runs, done.candidate.label, done.against
            )
            for each in EXPERIMENTS
        ]
        done.criteria = with_covered(done.criteria)
        done.controls = judge_controls(self._runs)
