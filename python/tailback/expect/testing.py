"""`tailback test`: runs scenarios that have conditions, with as many seeds as their verdicts need."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shlex
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailback import _core, engines, hooks, modules, native, programs, queues, suites
from tailback.algorithms import factories, is_reference, load, registered
from tailback.candidate import candidate as examined
from tailback.candidate import table as parsed
from tailback.consent import demand_allowed
from tailback.engines import GUESTS, Engine
from tailback.errors import Interrupted, Problem, ScenarioError, TailbackError, nearest
from tailback.expect.conditions import Condition, ConditionError, parse
from tailback.expect.verdicts import Judged, judge
from tailback.experiment.run_metrics import measurable, measured
from tailback.experiment.workers import REFUSED, refusal
from tailback.judge import TEST, Sequential, Verdict, together
from tailback.progress import Runs
from tailback.repeatable import demand_repeatable
from tailback.result import Result
from tailback.run import Algorithms, Cancel, Runnable
from tailback.scenario import Scenario, bulk, dumbbell
from tailback.scenario.whole import toml_read

__all__ = [
    "Inapplicable",
    "NotApplicable",
    "Tested",
    "TestedScenario",
    "Testing",
    "Unreadable",
    "demand_sound",
    "seen",
    "sides_of",
    "taken",
    "test",
]

Window = tuple[float | None, float | None]
Conditions = Sequence[tuple[Condition, Window]]
#: Values of a run by window and metric.
Seen = dict[Window, dict[str, float]]
#: Rate of the link in the trial that finds which parameters a candidate reads.
_RATE_BPS = 10_000_000


class NotApplicable(TailbackError):
    """No scenario can contain the candidate, so there is no verdict on it."""


class _Unfit(Exception):
    """A candidate that cannot run in any scenario."""

    def __init__(self, error: TailbackError) -> None:
        super().__init__(str(error))
        self.error = error


class _CannotTake(Exception):
    """A scenario that cannot contain the candidate."""


@dataclass(frozen=True)
class Unreadable:
    """A file that is not a test, with the reason."""

    file: str
    error: TailbackError


@dataclass(frozen=True)
class Inapplicable:
    """A readable scenario that cannot contain the candidate, with the reason."""

    file: str
    why: str


@dataclass
class TestedScenario:
    """The verdicts on a scenario's conditions."""

    file: str
    name: str
    #: Texts of the conditions, and their lines in the file, if known.
    conditions: tuple[str, ...]
    lines: tuple[int | None, ...]
    #: Verdicts, one for each judged condition.
    judged: tuple[Judged, ...] = ()
    #: Number of seeds behind the verdicts.
    seeds: int = 0
    #: Error that ended a run, which fails the scenario.
    error: str = ""
    #: Whether it contains the candidate. A scenario without a subject runs unchanged, and its verdict is not on the
    #: candidate.
    has_candidate: bool = True
    #: Words of the command that runs it with one seed; the seed is left out.
    run: tuple[str, ...] = ()
    #: Seed of the first failed run.
    error_seed: int | None = None
    #: Wall-clock seconds from the first run's start to the verdict, while other scenarios run as well.
    wall_s: float = 0.0
    #: Why it must fail, if it is a suite's control.
    control: str = ""
    #: By index of the condition: the verdict declared by its suite, if it is not "passed".
    declared: Mapping[int, str] = field(default_factory=dict)
    #: The file that defines it: `file` itself, or a cases file with it as a row.
    source: str = ""

    @property
    def verdict(self) -> str:
        """The joint verdict on all conditions."""
        if self.error:
            return Verdict.FAILED
        return together([each.verdict for each in self.judged]) if self.judged else TEST(Verdict.NOT_RUN)

    def again(self, condition: int | None = None) -> str:
        """The command for the worst seed of a condition, or for the seed whose run failed."""
        seed = (
            self.error_seed if condition is None or condition >= len(self.judged) else self.judged[condition].worst_seed
        )
        return "" if seed is None or not self.run else shlex.join([*self.run, "--seed", str(seed)])

    @property
    def surprises(self) -> list[tuple[str, str, str]]:
        """Conditions whose verdict differs from the declared one: text, declared verdict, verdict."""
        if self.error or not self.judged:
            return [("its runs finish", Verdict.PASSED, self.verdict)]
        out = []
        for place, (text, each) in enumerate(zip(self.conditions, self.judged, strict=True)):
            declared = self.declared.get(place, Verdict.PASSED)
            # A failure ends a scenario early, so other conditions may be undecided only for that reason.
            is_cut_short = (
                each.verdict == Verdict.UNDECIDED and declared == Verdict.PASSED and self.verdict == Verdict.FAILED
            )
            if each.verdict != declared and not is_cut_short:
                out.append((text, declared, each.verdict))
        return out

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        rows = [
            {
                "condition": text,
                "line": line,
                "verdict": each.verdict,
                "measured": _interval(each.measured),
                "bounds": [_interval(bound) for bound in each.bounds],
                "why": each.why,
                "again": None if each.verdict == Verdict.PASSED else self.again(number),
            }
            for number, (text, line, each) in enumerate(zip(self.conditions, self.lines, self.judged, strict=False))
        ]
        return {
            "file": self.file, "name": self.name, "verdict": self.verdict, "seeds": self.seeds,
            "error": self.error or None, "wall_s": self.wall_s, "has_candidate": self.has_candidate,
            "again": self.again() or None if self.error else None, "conditions": rows,
        }  # fmt: skip


def _interval(found: Any) -> dict[str, float]:
    return {"mean": found.estimate, "low": found.low, "high": found.high}


@dataclass
class Tested:
    """The verdicts on all scenarios."""

    scenarios: list[TestedScenario]
    #: Files that are not readable tests; the others were run.
    unreadable: list[Unreadable] = field(default_factory=list)
    wall_s: float = 0.0
    #: Controls of suites: scenarios with a candidate that must fail.
    controls: list[TestedScenario] = field(default_factory=list)
    #: Scenarios of suites that cannot contain the candidate and so do not judge it.
    inapplicable: list[Inapplicable] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The joint verdict on all readable scenarios."""
        return together([each.verdict for each in self.scenarios])

    @property
    def surprising(self) -> list[TestedScenario]:
        """Scenarios whose verdict differs from the one that their suite declares."""
        return [each for each in self.scenarios if each.surprises]

    @property
    def broken(self) -> list[TestedScenario]:
        """Controls that did not fail, so the verdicts of their suites do not count."""
        return [each for each in self.controls if each.verdict in (Verdict.PASSED, Verdict.UNDECIDED) or each.error]

    @property
    def passed(self) -> bool:
        """Whether everything passed, every file was readable, and every control failed."""
        return self.verdict == Verdict.PASSED and not self.unreadable and not self.broken

    def counted(self) -> dict[str, int]:
        """Number of scenarios with the candidate by verdict, without zeros."""
        return _counted([each for each in self.scenarios if each.has_candidate])

    def known_answers(self) -> dict[str, int]:
        """Number of scenarios without a subject by verdict; they ran unchanged."""
        return _counted([each for each in self.scenarios if not each.has_candidate])

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        bad = [{"file": each.file, "error": str(each.error)} for each in self.unreadable]
        return {
            "verdict": self.verdict, "passed": self.passed, "counts": self.counted(),
            "known_answers": self.known_answers(), "wall_s": self.wall_s,
            "scenarios": [each.to_json() for each in self.scenarios], "unreadable": bad,
            "controls": [each.to_json() | {"must_fail": each.control} for each in self.controls],
            "broken": [each.name for each in self.broken],
            "not_applicable": [{"file": each.file, "why": each.why} for each in self.inapplicable],
        }  # fmt: skip


def _counted(scenarios: Iterable[TestedScenario]) -> dict[str, int]:
    all_of = [each.verdict for each in scenarios]
    return {word: all_of.count(word) for word in TEST.all() if word in all_of}


def seen(conditions: Conditions, result: Result) -> Seen:
    """The values of a run that the conditions need."""
    out: Seen = {}
    for condition, window in conditions:
        value = measured(result, start_s=window[0], end_s=window[1])
        out.setdefault(window, {}).update({name: value(name) for name in condition.names})
    return out


def sides_of(conditions: Conditions, run: Seen, baseline: Seen | None = None) -> list[tuple[float, ...]]:
    """Values of both sides of each condition in a run, and the baseline's of the same seed."""
    return [
        condition.sides(run[window].__getitem__, None if baseline is None else baseline[window].__getitem__)
        for condition, window in conditions
    ]


@dataclass
class _Case:
    """A scenario until it has a verdict."""

    scenario: Scenario
    resolved: dict[str, Any]
    #: The baseline in the engine's form; for a kernel's engine a `Scenario`, which locates programs.
    baseline: dict[str, Any] | Scenario | None
    engine: Engine
    conditions: list[tuple[Condition, Window]]
    confidence: float
    seeds: Sequential
    out: TestedScenario
    #: By seed: values of each condition's sides, for seeds whose runs are all done.
    sides: dict[int, list[tuple[float, ...]]] = field(default_factory=dict)
    #: By seed: values of the finished runs, by baseline or not.
    half: dict[int, dict[bool, Seen]] = field(default_factory=dict)
    issued: int = 0
    began: float | None = None

    def runs(self) -> list[tuple[_Case, int, bool]]:
        """The next runs to do; empty once there is a verdict."""
        if self.out.error or self.out.verdict in (Verdict.PASSED, Verdict.FAILED):
            return []
        more = self.seeds.more(self.issued)
        first = int(self.resolved["seed"]) + self.issued
        self.issued += more
        ways = (False, True) if self.baseline else (False,)
        # A seed has 64 bits.
        return [(self, seed % 2**64, way) for seed in range(first, first + more) for way in ways]

    def described(self, seed: int, is_baseline: bool) -> Runnable:
        """The run in the form that the engine takes."""
        if self.engine.can.kernel:
            chosen = self.baseline if is_baseline else self.scenario
            assert isinstance(chosen, Scenario)
            return chosen.with_(seed=seed)
        resolved = self.baseline if is_baseline and isinstance(self.baseline, dict) else self.resolved
        return resolved | {"seed": seed}

    def take(self, seed: int, is_baseline: bool, result: Result) -> None:
        """Store the values of a run that the conditions need."""
        runs = self.half.setdefault(seed, {})
        runs[is_baseline] = seen(self.conditions, result)
        if len(runs) == (2 if self.baseline else 1):
            self.sides[seed] = sides_of(self.conditions, runs[False], runs.get(True))
            del self.half[seed]

    def judge(self) -> None:
        """Judge by the seeds so far."""
        if len(self.sides) < self.seeds.least or self.out.error:
            return
        ordered = dict(sorted(self.sides.items()))
        self.out.seeds = len(ordered)
        self.out.judged = tuple(
            judge(condition.relation, {seed: sides[number] for seed, sides in ordered.items()}, self.confidence)
            for number, (condition, _) in enumerate(self.conditions)
        )


class Testing:
    """A test of several scenarios: `go` runs it, and `tested` returns the verdicts so far."""

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        candidate: suites.Candidate | None = None,
        changes: Mapping[str, Any] | None = None,
        algorithms: Algorithms | None = None,
        allow_code: bool = False,
        workers: int | None = None,
        engine: str | None = None,
        kernel: str | None = None,
        store: str | os.PathLike[str] = GUESTS,
        options: Sequence[str] = (),
    ) -> None:
        """As for `test`; `options` are the command-line words that stand for `algorithms`."""
        if workers is not None and workers < 1:
            raise TailbackError(f"workers must be at least 1, got {workers}. Give None to use all cores.")
        self._algorithms, self._allow_code, self._workers = algorithms, allow_code, workers
        self._options = tuple(options)
        self._engine, self._kernel, self._store = engine, kernel, store
        self._is_fit = False
        self._cases: list[_Case] = []
        self._bad: list[Unreadable] = []
        self._inapplicable: list[Inapplicable] = []
        self._wall_s = 0.0
        self._changes = dict(changes or {})
        places = [suites.located(path) for path in paths]
        try:
            for case, is_named in self._found(places):
                self._add(case, is_named, candidate)
        except _Unfit as unfit:
            raise unfit.error from None
        if self._inapplicable and not any(case.out.has_candidate for case in self._cases):
            whys = dict.fromkeys(each.why for each in self._inapplicable)
            count, name = len(self._inapplicable), _named(candidate or "")
            reason = "not applicable: of {} scenarios with a subject none can have {} in its place: {}"
            raise NotApplicable(reason.format(count, name, " ".join(whys)))
        for folder in dict.fromkeys(path for path in places if path.is_dir()):
            for suite in self._suites(folder):
                for control in suite.controls:
                    why = f"with {_named(control.candidate)} it must fail: {control.why}"
                    judging = suites.given(suite.folder / f"{control.scenario}.toml")
                    self._add(judging, True, control.candidate, why)
        if not self._cases and not self._bad:
            searched = ", ".join(os.fspath(path) for path in places)
            problem = Problem(
                "expect", None, "no scenario there expects anything", "Add [expect]; see docs/ci.md", searched
            )
            raise ScenarioError([problem])

    @property
    def tested(self) -> Tested:
        """The verdicts so far."""
        scenarios = [case.out for case in self._cases if not case.out.control]
        controls = [case.out for case in self._cases if case.out.control]
        return Tested(scenarios, list(self._bad), self._wall_s, controls, list(self._inapplicable))

    def _found(self, places: Iterable[Path]) -> list[tuple[suites.Case, bool]]:
        """Every scenario, and whether it was named directly; those of a folder in order."""
        out: dict[Path, tuple[suites.Case, bool]] = {}
        for path in places:
            try:
                if path.is_dir():
                    found, bad = suites.in_folder(path)
                    self._bad += [Unreadable(str(file), error) for file, error in sorted(bad.items())]
                    for case in found:
                        out.setdefault(case.path, (case, False))
                else:
                    named = suites.cases(path) if path.is_file() else [suites.given(path)]
                    out |= {case.path: (case, True) for case in named}
            except TailbackError as error:
                self._bad.append(Unreadable(str(path), error))
        return list(out.values())

    def scenarios(self) -> dict[str, Scenario]:
        """The scenarios that `go` will run, by file, with the candidate in them; without the suites' controls."""
        return {case.out.file: case.scenario for case in self._cases if not case.out.control}

    def _suites(self, folder: Path) -> list[suites.Suite]:
        """The suites in a folder, including the folder itself."""
        out = []
        for manifest in sorted(folder.rglob(suites.MANIFEST)):
            try:
                found = suites.opened(manifest.parent)
            except TailbackError as error:
                self._bad.append(Unreadable(str(manifest), error))
            else:
                out += [found] if found else []
        return out

    def _add(self, case: suites.Case, is_named: bool, candidate: suites.Candidate | None, control: str = "") -> None:
        try:
            made = self._case(case, is_named, candidate, control)
        except _CannotTake as error:
            self._inapplicable.append(Inapplicable(str(case.path), str(error)))
        except TailbackError as error:
            self._bad.append(Unreadable(str(case.path), error))
        else:
            self._cases += [made] if made else []

    def _demand_fit(self, candidate: suites.Candidate) -> None:
        """Raise the error of a candidate that runs only on a kernel, once instead of for each scenario."""
        name = str(candidate if isinstance(candidate, str) else candidate.get("name", ""))
        if self._is_fit or not (modules.is_source(name) or programs.is_source(name)):
            return
        try:
            found = examined(candidate, allow_code=self._allow_code)
            chosen = engines.for_candidates([found.name], self._engine, self._kernel)
            trial = dumbbell(rate="10mbit", rtt="40ms", flows=[bulk(found.cc)], duration="1s")
            chosen.check(trial, allow_code=self._allow_code)
        except ScenarioError as error:
            raise _Unfit(error) from None
        except TailbackError as error:
            raise _Unfit(NotApplicable(str(error))) from None
        self._is_fit = True

    def _taken(self, candidate: suites.Candidate, replaces: str = "cc") -> suites.Candidate:
        return taken(candidate, replaces, algorithms=self._algorithms, allow_code=self._allow_code)

    def _case(
        self, case: suites.Case, is_named: bool, candidate: suites.Candidate | None, control: str = ""
    ) -> _Case | None:
        file = case.path
        if not is_named and not _expects(case):
            return None
        if not file.exists() and case.base is None and len(file.parts) == 1 and not file.suffix:
            fix = f"Suites are {', '.join(suites.names())}"
            raise ScenarioError([Problem("", None, "is neither a suite nor a file or folder", fix, str(file))])
        scenario = case.scenario()
        changes: dict[str, Any] = {}
        has_candidate, replaces = True, "cc"
        if candidate is not None:
            suite = suites.opened(file.parent)
            replaces = suite.replaces if suite else "cc"
            has_candidate = suite is None or suites.has_subject(scenario, replaces)
            if has_candidate:
                if replaces == "cc" and not control:
                    self._demand_fit(candidate)
                mine = self._taken(candidate, replaces)
                changes = suites.candidates_changes(scenario, mine, replaces)
                if suite is not None:
                    changes |= suites.bounds_of_its_own(suite, scenario, mine, allow_code=self._allow_code)
        changes |= self._changes if not control else {}
        plain, scenario = scenario, scenario.with_(changes) if changes else scenario
        engine = engines.for_candidates(scenario.named, self._engine, self._kernel)
        live = engine.can.kernel
        try:
            # A kernel loads the code that is named, not this process.
            own, allow = factories(self._algorithms), self._allow_code and not live
            resolved = scenario.resolve(algorithms=own, allow_code=allow, live=live)
            if live:
                demand_allowed(resolved, self._allow_code, scenario)
                engine.check(scenario, allow_code=self._allow_code)
        except ScenarioError as error:
            if candidate is not None and has_candidate and replaces == "cc" and not control:
                if live and self._allow_code:
                    raise _CannotTake(_reasons(error)) from None
                self._demand_applicable(plain, candidate, error)
            raise
        demand_allowed(resolved, self._allow_code, scenario)
        expect = scenario.expect
        if expect is None:
            problem = Problem("expect", None, "the scenario expects nothing", "Add [expect]; see docs/ci.md", str(file))
            raise ScenarioError([problem])
        sound, baseline = demand_sound(scenario, resolved, self._algorithms, live=live)
        lacking = [_lacking(condition, resolved) if live else "" for condition, _ in sound]
        conditions = [each for each, why in zip(sound, lacking, strict=True) if not why]
        if not conditions:
            raise _CannotTake(" ".join(dict.fromkeys(lacking)))
        self._inapplicable += [
            Inapplicable(str(file), f"{condition.text}: {why}")
            for (condition, _), why in zip(sound, lacking, strict=True) if why
        ]  # fmt: skip
        uses_baseline = any(condition.needs_baseline for condition, _ in conditions)
        texts = tuple(condition.text for condition, _ in conditions)
        places = [scenario._places.get(f"expect.conditions[{number}]") for number, why in enumerate(lacking) if not why]
        return _Case(
            scenario,
            resolved,
            None if not uses_baseline else _with_baseline(scenario, resolved) if live else baseline,
            engine,
            conditions,
            expect.confidence,
            Sequential(expect.least, expect.most),
            TestedScenario(
                str(file),
                scenario.name or file.stem,
                texts,
                tuple(place[0] if place else None for place in places),
                control=control,
                has_candidate=has_candidate,
                run=self._run(file, changes, engine),
                declared={} if control or candidate is not None or self._changes else _declared(file, texts),
                source=str(case.file),
            ),
        )

    def _demand_applicable(self, plain: Scenario, candidate: suites.Candidate, error: ScenarioError) -> None:
        """Raise `_CannotTake` if scenario and candidate are valid separately, but not together."""
        own = factories(self._algorithms)
        plain.resolve(algorithms=own, allow_code=self._allow_code)
        alone = dumbbell(rate="10mbit", rtt="40ms", flows=[bulk(self._taken(candidate))], duration="1s")
        try:
            alone.resolve(algorithms=own, allow_code=self._allow_code)
        except ScenarioError:
            return
        raise _CannotTake(_reasons(error)) from None

    def _run(self, file: Path, changes: Mapping[str, Any], engine: Engine) -> tuple[str, ...]:
        """The command that runs the scenario as it is judged, without the seed.

        Empty if the algorithms exist only in the caller's program.
        """
        if self._algorithms and not self._options:
            return ()
        here = Path.cwd()
        shown = file.relative_to(here) if file.is_relative_to(here) else file
        words = ["tailback", "run", str(shown)]
        for path, value in changes.items():
            words += ["--set", f"{path}={as_toml(value)}"]
        if engine.can.kernel:
            words += [word for part in engine.words for word in part.split()]
        return (*words, *self._options, *(["--allow-code"] if self._allow_code else []))

    def go(self, *, progress: bool | Callable[[int, int], object] = False, cancel: Cancel | None = None) -> Tested:
        """Run until all scenarios have verdicts.

        Ctrl-C raises `KeyboardInterrupt`; `tested` keeps the verdicts so far.
        """
        for case in self._cases:
            own, allow = self._algorithms, self._allow_code
            demand_repeatable(case.scenario, undone="judged", algorithms=own, allow_code=allow)
        began = time.perf_counter()
        done = total = 0
        try:
            with Runs("testing", shown=progress) as bar:
                while work := [run for case in self._cases for run in case.runs()]:
                    total += len(work)
                    now = time.perf_counter()
                    for case, _, _ in work:
                        case.began = now if case.began is None else case.began
                    with contextlib.closing(self._outcomes(work, cancel)) as outcomes:
                        for index, outcome in outcomes:
                            case, seed, way = work[index]
                            faults = [] if way or not isinstance(outcome, Result) else outcome.faults
                            if isinstance(outcome, Result) and not faults:
                                case.take(seed, way, outcome)
                            elif isinstance(outcome, TailbackError) and self._is_refused(case, outcome):
                                pass
                            else:
                                case.out.error_seed = case.out.error_seed if case.out.error else seed
                                case.out.error = case.out.error or f"seed {seed}: {'; '.join(faults) or outcome}"
                            done += 1
                            bar.update(done, total, spent=done, cost=total)
                            case.out.wall_s = time.perf_counter() - case.began if case.began is not None else 0.0
                    for case in self._cases:
                        case.judge()
        finally:
            for case in self._cases:
                case.judge()
            self._wall_s = time.perf_counter() - began
        return self.tested

    def _outcomes(
        self, work: Sequence[tuple[_Case, int, bool]], cancel: Cancel | None
    ) -> Generator[tuple[int, Result | TailbackError], None, None]:
        """The outcome of each run by its index in `work`; runs of one engine are done together."""
        by_engine: dict[str, list[int]] = {}
        for place, (case, _, _) in enumerate(work):
            by_engine.setdefault(case.engine.name, []).append(place)
        for places in by_engine.values():
            outcomes = work[places[0]][0].engine.outcomes(
                [work[place][0].described(*work[place][1:]) for place in places],
                workers=self._workers,
                cancel=cancel,
                algorithms=self._algorithms,
                allow_code=self._allow_code,
                store=self._store,
            )
            with contextlib.closing(outcomes):
                for index, outcome in outcomes:
                    yield places[index], outcome

    def _is_refused(self, case: _Case, error: TailbackError) -> bool:
        """Whether the guest could not run it; its scenario is then set aside, without a verdict on the candidate."""
        why = refusal(error)
        if not case.engine.can.kernel or not why.startswith(REFUSED):
            return False
        if case in self._cases:
            self._cases.remove(case)
            self._inapplicable.append(Inapplicable(case.out.file, why.removeprefix(REFUSED)))
        return True


def test(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    candidate: suites.Candidate | None = None,
    changes: Mapping[str, Any] | None = None,
    algorithms: Algorithms | None = None,
    allow_code: bool = False,
    workers: int | None = None,
    engine: str | None = None,
    kernel: str | None = None,
    store: str | os.PathLike[str] = GUESTS,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
) -> Tested:
    """Run the scenarios in `paths` that have `[expect]`, and judge their conditions.

    A path is a file, a folder, or the name of a suite (`tailback.suites`). `candidate` replaces the subject of each
    scenario. Each runs with as many seeds as a verdict needs: from `expect.least`, until every condition has passed,
    one has failed, or `expect.most` is reached. `changes` are made to each, as by `Scenario.with_`; `algorithms` and
    `allow_code` are as for `run`. `engine` is "sim", "vm" or "live", by default the first that runs what a scenario
    names, and `kernel` a guest's; what ran on a kernel is kept in the folder `store`. Unreadable files and failed runs
    are part of the return value. Ctrl-C raises `Interrupted`, whose `results` are the scenarios that were judged.

    >>> import tailback as tb, pathlib, tempfile
    >>> scenario = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("cubic")], duration="5s")
    >>> scenario = scenario.with_(expect={"conditions": ["bulk.goodput_mbps > 8"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "one.toml").write_text(scenario.to_toml())
    ...     tb.test(folder).verdict
    'passed'
    """
    testing = Testing(
        [paths] if isinstance(paths, str | os.PathLike) else paths,
        candidate=candidate,
        changes=changes,
        algorithms=algorithms,
        allow_code=allow_code,
        workers=workers,
        engine=engine,
        kernel=kernel,
        store=store,
    )
    try:
        return testing.go(progress=progress, cancel=cancel)
    except KeyboardInterrupt:
        raise Interrupted([each if each.judged else None for each in testing.tested.scenarios]) from None


def _reasons(error: ScenarioError) -> str:
    reasons = (f"{problem.problem}. {problem.fix}".rstrip(". ") + "." for problem in error.problems)
    return " ".join(dict.fromkeys(reasons))


def _lacking(condition: Condition, resolved: Mapping[str, Any]) -> str:
    """Why a condition needs a metric that no kernel reports for a flow; empty if it does not."""
    by_programs = {row["name"] for row in resolved["flows"] if row["app"]["kind"] == "exec"}
    for name in condition.names:
        flow, _, key = name.rpartition(".")
        if key.startswith("own_"):
            return f"{name} is what an algorithm says of itself, which no kernel passes on."
        if key == "events":
            return "events are the simulator's."
        if flow in by_programs and programs.over_kernel(name):
            return f"{name} is of the kernel's TCP, and a program need not use it."
    return ""


def _with_baseline(scenario: Scenario, resolved: Mapping[str, Any]) -> Scenario | None:
    """The scenario with the baseline's algorithm, for a kernel's engine; programs become bulk flows."""
    expect = scenario.expect
    if expect is None or expect.baseline is None:
        return None
    tcp = [str(row["name"]) for row in resolved["flows"] if row.get("tcp")]
    chosen = tcp if expect.baseline_flows == "all" else list(expect.baseline_flows)
    cc = {"name": expect.baseline.name, **expect.baseline.params}
    # Several flows written as one entry have its name without a number.
    entries = _core.scenario_names(scenario)[2]
    named = [name if name in entries else name.rpartition("-")[0] for name in chosen]
    return scenario.with_({f"flow.{name}.cc": cc for name in dict.fromkeys(named)})


def taken(
    candidate: suites.Candidate, replaces: str, *, algorithms: Algorithms | None, allow_code: bool
) -> suites.Candidate:
    """The candidate in the form of a scenario's field; code is located from here, not from the scenario's folder."""
    key = "discipline" if replaces == "queue" else "name"
    name = str(candidate if isinstance(candidate, str) else candidate.get(key, ""))
    if name in (algorithms or {}) or replaces == "app":
        return candidate
    if replaces == "cc":
        return examined(candidate, allow_code=allow_code).cc
    return _queue_taken(candidate, allow_code)


def _queue_taken(candidate: suites.Candidate, allow_code: bool) -> dict[str, Any]:
    """A queue's name and parameters; "my.py:MyQueue" is a user's class. A queue without a limit parameter gets none."""
    table = parsed(candidate, "discipline", "pie,target=20ms") if isinstance(candidate, str) else dict(candidate)
    name = str(table.get("discipline", ""))
    if compiled := native.written(name):
        table["discipline"] = compiled
        given = {key: value for key, value in table.items() if key not in ("discipline", "limit")}
        if not allow_code or "limit" in table or native.about_queue(compiled, given, _RATE_BPS).limit:
            return table
        return table | {"limit": None}
    own = registered().get(name)
    if own is None and (":" not in name or name.startswith("kernel:")):
        return table
    if own is None:
        table["discipline"] = name if is_reference(name) else f"python:{name}"
        if not allow_code or not str(table["discipline"]).startswith("python:"):
            return table
        own = load(str(table["discipline"]).removeprefix("python:"))
    return table if queues.limit_of(own) or "limit" in table else table | {"limit": None}


def demand_sound(
    scenario: Scenario, resolved: Mapping[str, Any], algorithms: Algorithms | None = None, *, live: bool = False
) -> tuple[list[tuple[Condition, Window]], dict[str, Any] | None]:
    """A scenario's conditions with their windows, and its baseline in the engine's form, unless `live`.

    Raises `ScenarioError` with all faults of its conditions. Runs nothing.
    """
    expect = scenario.expect
    if expect is None:
        return [], None
    problems: list[Problem] = []
    baseline = None
    try:
        baseline = None if live else _baseline(expect, resolved, algorithms)
    except ScenarioError as error:
        problems += error.problems
    out = []
    for number, each in enumerate(expect.conditions):
        start, end = each.from_ or expect.from_, each.until or expect.until
        window = (start.seconds if start is not None else None, end.seconds if end is not None else None)
        place = f"expect.conditions[{number}]"
        latest = int(resolved["duration_ps"])
        if max(int(start or 0), int(end or 0)) > latest or (start is not None and int(start) == latest):
            fix = f"The run ends at {scenario.duration}"
            problems.append(Problem(place, each.holds, "the window of time lies beyond the run", fix))
            continue
        is_window = window != (None, None)
        on = resolved["instruments"]
        if is_window and (int(start or 0) < on["from_ps"] or int(end or latest) > (on["until_ps"] or latest)):
            problem = "the window of time is not recorded throughout"
            problems.append(Problem(place, each.holds, problem, "Record all of it: instruments.from and .until"))
            continue
        known = measurable(resolved, window=is_window)
        try:
            condition = parse(each.holds, known, baseline=expect.baseline is not None, window=is_window)
        except ConditionError as error:
            problems.append(Problem(place, each.holds, error.problem, error.fix))
        else:
            out.append((condition, window))
    if problems:
        raise ScenarioError(problems).located(scenario._file, scenario._places)
    return out, baseline


def _baseline(expect: Any, resolved: Mapping[str, Any], algorithms: Algorithms | None) -> dict[str, Any] | None:
    """The scenario with the baseline's algorithm."""
    if expect.baseline is None:
        return None
    tcp = [row["name"] for row in resolved["flows"] if row.get("tcp")]
    chosen = tcp if expect.baseline_flows == "all" else list(expect.baseline_flows)
    for number, name in enumerate(chosen):
        if name not in tcp:
            close = nearest(name, tcp)
            hint = f'Did you mean "{close}"? ' if close else ""
            fix = f"{hint}There are: {', '.join(tcp)}"
            problem = "there is no flow over TCP of this name"
            raise ScenarioError([Problem(f"expect.baseline_flows[{number}]", name, problem, fix)])
    out: dict[str, Any] = copy.deepcopy(dict(resolved))
    for row in out["flows"]:
        if row["name"] in chosen:
            own = {"cc": expect.baseline.name, "cc_params": dict(expect.baseline.params)}
            # Turns are kept, so that each can be compared with its counterpart.
            turns = {"cc_turns": [own for _ in row["tcp"]["cc_turns"]]} if row["tcp"].get("cc_turns") else {}
            row["tcp"] |= own | turns
    try:
        hooks.check(json.dumps(out), factories(algorithms))
    except _core.ScenarioError as error:
        _, _, problem, fix = map(str, error.args)
        raise ScenarioError([Problem("expect.baseline", expect.baseline.name, problem, fix)]) from None
    return out


def _declared(file: Path, texts: tuple[str, ...]) -> dict[int, str]:
    """Verdicts that the surrounding suite declares for a scenario's conditions, by index."""
    try:
        suite = suites.opened(file.parent)
    except TailbackError:
        return {}  # The folder's test reports the fault; the scenarios run.
    out = {}
    for row in suite.expected if suite else ():
        if suite is None or file.resolve() != (suite.folder / f"{row.scenario}.toml").resolve():
            continue
        meant = [place for place, text in enumerate(texts) if row.condition in ("", text, place + 1)]
        if len(meant) != 1:
            conditions = "; ".join(f"{place} {text}" for place, text in enumerate(texts, 1))
            problem = f"{row.scenario} has {len(meant)} such conditions"
            problems = [Problem("expected.condition", row.condition, problem, f"Give the number of one: {conditions}")]
            raise ScenarioError(problems).located(str(suite.folder / suites.MANIFEST), {})
        out[meant[0]] = row.verdict
    return out


def as_toml(value: Any) -> str:
    """A value in the form that `--set` takes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {as_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _named(candidate: suites.Candidate) -> str:
    if isinstance(candidate, str):
        return candidate
    return ", ".join(f"{key} = {value}" for key, value in candidate.items())


def _expects(case: suites.Case) -> bool:
    """Whether it has a section [expect]. Raises `ScenarioError` if it is not TOML."""
    if case.base is not None:
        return case.base.expect is not None
    try:
        text = case.file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        # Parsing it as a scenario reports the error.
        return True
    return "expect" in toml_read(text, str(case.file), "docs/scenario.md")[0]
