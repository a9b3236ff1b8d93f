"""The search of a hunt: runs cases, confirms weaknesses with fresh seeds, and simplifies them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tailback import engines, extras, registry
from tailback._core import Cancel
from tailback.algorithms import Algorithm
from tailback.candidate import Candidate, candidate, flow_fields
from tailback.errors import AlgorithmError, EngineError, Interrupted, TailbackError, nearest
from tailback.expect import demand_sound
from tailback.experiment.run_metrics import measured
from tailback.experiment.workers import REFUSED, refusal
from tailback.hunting.cases import Case, log_between, mbit, short, simpler
from tailback.hunting.weaknesses import EXPECT, PANIC, WEAKNESSES, Seen, Weakness, beyond, described, seen_in
from tailback.judge import Rounds, is_most
from tailback.progress import Runs
from tailback.repeatable import TRIAL_S, demand_repeatable
from tailback.result import Result
from tailback.scenario import Scenario, bulk, dumbbell
from tailback.vm import GuestError, Overloaded

__all__ = ["GENES", "Finding", "Hunt", "hunt"]

#: Number of search variables of a case.
GENES = 17
#: Cases per generation.
_POPULATION = 16
#: Further generations after the first that shows a weakness, to find a clearer case.
_LOOKS_AFTER = 3
#: Maximum mean rate of bursts as a share of the link: more is plain load, not an attack.
_MOST_BURSTS = 0.33
#: Minimum badness of a simpler case (if the original reached it), so that other seeds show the weakness too.
_CLEARLY = 1.2
#: Fresh seeds to confirm a finding, and the total if the first ones do not decide.
_FRESH = Rounds((10, 20))
#: Offset of the first fresh seed from the search's seed.
_FRESH_FROM = 1000


@dataclass
class Finding:
    """A confirmed weakness."""

    weakness: str
    #: Description for the user.
    said: str
    #: Strength of the weakness: 1 is at the bound, more is worse.
    badness: float
    scenario: Scenario
    #: Number of runs until it was found.
    runs: int
    #: Number of fresh seeds that show it while the twin does well, and number tried; (1, 1) for an error.
    shown: tuple[int, int] = (1, 1)
    file: Path | None = None
    #: The command that repeats it.
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        kept = {key: getattr(self, key) for key in ("weakness", "said", "badness", "runs", "command")}
        kept["shown"], kept["seeds"] = self.shown
        return kept | {"file": None if self.file is None else str(self.file), "scenario": self.scenario.to_toml()}


class _Enough(Exception):
    """Ends the search."""


@dataclass
class _Scored:
    badness: float
    case: Case
    seen: Seen | None
    #: Error that ended the run, if any.
    error: TailbackError | None = None
    scenario: Scenario | None = None
    #: See `Finding.shown`.
    shown: tuple[int, int] = (1, 1)


@dataclass
class Hunt:
    """A search: `go` runs it, and `found` has the findings so far."""

    candidate: Candidate
    seed: int = 1
    #: Maximum runs, including simplification but not the confirmation with fresh seeds.
    runs: int = 600
    weaknesses: Sequence[str] = ()
    #: Parameters of a built-in candidate to vary as well.
    vary: Sequence[str] = ()
    #: A dumbbell with [expect] to vary, instead of generated cases.
    base: Scenario | None = None
    workers: int | None = None
    out: Path | None = None
    #: Engine for the cases (by default the first that has the candidate), kernel of a guest, and store of the runs.
    engine: str | None = None
    kernel: str | None = None
    store: str | os.PathLike[str] = engines.GUESTS
    found: list[Finding] = field(default_factory=list)
    #: Number of runs that the engine could not do, by reason; they say nothing about the candidate.
    refused: dict[str, int] = field(default_factory=dict)
    done: int = 0
    #: Number of runs with fresh seeds, and of cases that these did not confirm.
    confirming: int = 0
    chance: int = 0

    def __post_init__(self) -> None:
        #: Whether a known panic still counts, as while it is being simplified.
        self._seeks_panic = False
        known = [each.name for each in WEAKNESSES]
        for name in self.weaknesses:
            if name not in known:
                close = nearest(name, known)
                hint = f' Did you mean "{close}"?' if close else ""
                raise TailbackError(f'there is no weakness "{name}".{hint} There are: {", ".join(known)}')
        if self.runs < 1:
            raise TailbackError(f"runs must be at least 1, got {self.runs}")
        self._on = engines.for_candidates([self.candidate.name], self.engine, self.kernel)
        self._ranges = [self._range(name) for name in self.vary]
        if self.base is not None:
            if self.base.dumbbell is None or self.base.expect is None:
                raise TailbackError("the scenario needs a [dumbbell] and [expect]; see docs/hunt.md")
            self._flow = self._candidates_flow(self.base)

    def _range(self, name: str) -> tuple[str, float, float]:
        if self.candidate.kind != "built-in":
            raise TailbackError(f"{name}: only the parameters of built-in algorithms have ranges to vary them in")
        card = registry.card("algorithms", self.candidate.name)
        numbers = {param.name: param for param in card.params if param.min is not None and param.max is not None}
        if name not in numbers:
            close = nearest(name, numbers)
            hint = f' Did you mean "{close}"?' if close else ""
            raise TailbackError(f"{card.name} has no number {name}.{hint} There are: {', '.join(numbers)}")
        low, high = numbers[name].min, numbers[name].max
        assert low is not None
        assert high is not None
        return name, low, high

    @staticmethod
    def _candidates_flow(base: Scenario) -> str:
        resolved = base.resolve(check=False)
        named = [str(row["name"]) for row in resolved["flows"] if row.get("tcp")]
        if not named:
            raise TailbackError("the scenario has no flow over TCP to put the candidate in")
        return "victim" if "victim" in named else named[0]

    # -- the search

    def go(
        self, *, progress: bool | Callable[[int, int], object] = False, cancel: Cancel | None = None
    ) -> list[Finding]:
        """Search for every weakness. Ctrl-C raises `KeyboardInterrupt`; `found` has the findings so far."""
        flow = bulk(name="candidate", **flow_fields(self.candidate.cc))
        trial = dumbbell(name="a trial", rate="10mbit", rtt="40ms", flows=[flow], duration=f"{TRIAL_S:g}s")
        if self._on.can.kernel:
            self._on.check(trial, allow_code=self.candidate.allow_code)
        elif self.candidate.allow_code:
            demand_repeatable(trial, undone="searched", allow_code=True)
        chosen = [each for each in WEAKNESSES if not self.weaknesses or each.name in self.weaknesses]
        with Runs(f"hunting {self.candidate.label}", shown=progress) as line:
            self._line, self._cancel = line, cancel
            if self.base is not None:
                self._search(None, self.runs)
                return self.found
            for number, weakness in enumerate(chosen):
                # Later searches get the runs that earlier ones did not use.
                share = (self.runs - self.done) // (len(chosen) - number)
                self._search(weakness, share)
        return self.found

    def _search(self, weakness: Weakness | None, budget: int) -> None:
        differential_evolution = extras.load("scipy.optimize", "a hunt").differential_evolution
        qmc = extras.load("scipy.stats.qmc", "a hunt")

        genes = GENES + len(self._ranges)
        generator = np.random.default_rng([self.seed, *(weakness.name if weakness else EXPECT).encode()])
        start = qmc.LatinHypercube(genes, seed=generator).random(_POPULATION)
        begun, ends_at = self.done, self.done + budget
        worst: list[_Scored] = []
        looked = [0]

        def evaluate(_: object, vectors: Any) -> list[float]:
            # Each case of a generation may need its twin.
            is_too_long = self.done > begun and self.done + 2 * _POPULATION > self.runs
            if self.done >= ends_at - budget // 4 or is_too_long:
                raise _Enough
            cases = [self._case(vector, weakness) for vector in np.atleast_2d(np.array(list(vectors)))]
            # Also respects a budget smaller than a generation.
            scored = self._scored(cases[: ends_at - self.done], weakness)
            found = [each for each in scored if each.badness >= 1.0]
            if found:
                clearest = max(found, key=lambda each: each.badness)
                if self._holds(clearest, weakness):
                    worst.append(clearest)
                else:
                    self.chance += 1
                    clearest.badness = 0.5
            looked[0] += bool(worst)
            if looked[0] > _LOOKS_AFTER or any(each.error is not None for each in worst):
                raise _Enough
            # The search minimises.
            return [-each.badness for each in scored] + [0.0] * (len(cases) - len(scored))

        with contextlib.suppress(_Enough):
            differential_evolution(
                lambda vector: 0.0, [(0.0, 1.0)] * genes, init=start, workers=evaluate, updating="deferred",
                maxiter=10_000, tol=-1.0, polish=False, seed=generator, mutation=(0.4, 0.9),
            )  # fmt: skip
        if worst:
            self._keep(max(worst, key=lambda each: each.badness), weakness, ends_at)

    def _case(self, vector: Any, weakness: Weakness | None) -> Case:
        uses = weakness.uses if weakness else frozenset({"bursts", "loss", "one flow", "jitter", "reordering"})
        u = [float(value) for value in vector]
        params = tuple(
            (name, round(low + u[GENES + number] * (high - low), 4))
            for number, (name, low, high) in enumerate(self._ranges)
        )
        is_large = "large windows" in uses
        case = Case(
            rate_mbps=log_between(u[0], *((10.0, 200.0) if is_large else (2.0, 40.0))),
            rtt_ms=log_between(u[1], *((20.0, 200.0) if is_large else (8.0, 200.0))),
            queue_bdp=log_between(u[2], 0.05, 2.0),
            flows=1 if "one flow" in uses else 1 + int(u[3] * 7.999),
            params=params,
            has_call="call" in uses,
            counts_packets=u[12] > 0.5,
            start_ms=log_between(u[13], 10.0, 500.0),
        )
        if "jitter always" in uses:
            case = replace(case, jitter_ms=log_between(u[14], 0.1, 0.5 * case.rtt_ms))
        elif "jitter" in uses and u[14] > 0.5:
            case = replace(case, jitter_ms=log_between(2 * u[14] - 1, 0.1, 0.5 * case.rtt_ms))
        if "reordering" in uses and u[15] > 0.6:
            share = (u[15] - 0.6) / 0.4
            case = replace(case, reorder=log_between(share, 1e-4, 0.03), reorder_packets=1 + int(30 * u[16] ** 2))
        if "bursts" in uses and (u[4] > 0.3 or uses <= {"bursts"}):
            rate, period = 1.2 + 2.8 * u[5], log_between(u[6], 200.0, 2000.0)
            share = 0.05 + 0.25 * u[7]
            burst = max(share * period / rate, 5.0)
            case = replace(case, burst_rate=short(rate), period_ms=short(period), burst_ms=short(burst))
        if "answers" in uses:
            # Below a full path, so that the application is the limit.
            case = replace(case, answer_bdp=log_between(u[5], 0.2, 1.0), think_ms=log_between(u[6], 1.0, 100.0))
        if "loss" in uses and u[8] > 0.5:
            case = replace(case, loss=log_between(2 * u[8] - 1, 1e-4, 0.03))
        if "dips" in uses and u[9] > 0.5:
            case = replace(case, dip=short(0.05 + 0.9 * (2 * u[9] - 1)), dip_ms=log_between(u[10], 300.0, 4000.0))
        if "rival always" in uses or ("rival" in uses and u[11] > 0.6):
            case = replace(case, has_rival=True)
        return case

    def _scored(self, cases: Sequence[Case], weakness: Weakness | None) -> list[_Scored]:
        """Run and judge each case; compare cases that show the weakness with their twins."""
        if weakness is None:
            return self._expected(cases)
        out = []
        for case, (scenario, outcome) in zip(
            cases, self._outcomes([self._described(case) for case in cases]), strict=True
        ):
            if isinstance(outcome, Result):
                seen = seen_in(case, outcome)
                out.append(_Scored(weakness.badness(case, seen), case, seen, scenario=scenario))
            else:
                out.append(self._ended(case, scenario, outcome))
        self._beside_twins([each for each in out if each.seen is not None and each.badness >= 1.0], weakness)
        return out

    def _ended(self, case: Case, scenario: Scenario, error: TailbackError) -> _Scored:
        # A kernel module may crash its kernel.
        if not isinstance(error, AlgorithmError | EngineError | GuestError) or isinstance(error, Overloaded):
            # Other errors, such as too many recorded rows, are not findings.
            return _Scored(0.0, case, None, scenario=scenario)
        is_known = not self._seeks_panic and any(each.weakness == PANIC for each in self.found)
        return _Scored(0.0 if is_known else 100.0, case, None, error, scenario)

    def _described(self, case: Case) -> Scenario:
        return case.scenario(self.candidate.cc, self.seed)

    def _beside_twins(self, scored: Sequence[_Scored], weakness: Weakness) -> None:
        """Lower the badness of cases whose twin does no better."""
        plain = [self._twin(each.case, weakness, self.seed) for each in scored]
        for each, (_, outcome) in zip(scored, self._outcomes(plain), strict=True):
            assert each.seen is not None
            if not isinstance(outcome, Result) or not weakness.is_well(
                each.case, each.seen, seen_in(each.case, outcome)
            ):
                each.badness = 0.5

    def _outcomes(
        self, scenarios: Sequence[Scenario], *, confirming: bool = False
    ) -> list[tuple[Scenario, Result | TailbackError]]:
        found: list[Any] = [None] * len(scenarios)
        outcomes = self._on.outcomes(
            scenarios, workers=self.workers, cancel=self._cancel, allow_code=self.candidate.allow_code, store=self.store
        )
        with contextlib.closing(outcomes):
            for index, outcome in outcomes:
                # A stack's panic ends only its flow.
                faults = outcome.faults if isinstance(outcome, Result) else []
                found[index] = EngineError("; ".join(faults)) if faults else outcome
                if self._on.can.kernel and isinstance(outcome, TailbackError):
                    why = refusal(outcome)
                    if why.startswith(REFUSED):
                        self.refused[why] = self.refused.get(why, 0) + 1
                if confirming:
                    self.confirming += 1
                else:
                    self.done += 1
                self._line.update(min(self.done, self.runs), self.runs, spent=self.done, cost=max(self.runs, self.done))
        return list(zip(scenarios, found, strict=True))

    # -- the user's scenario

    def _varied(self, case: Case, seed: int) -> Scenario:
        """The user's scenario with the case's path, loss and bursts, and the candidate in its flow."""
        assert self.base is not None
        cc: Any = self.candidate.cc
        if case.params:
            cc = {**(cc if isinstance(cc, Mapping) else {"name": cc}), **dict(case.params)}
        changes: dict[str, Any] = {
            "dumbbell.rate": mbit(case.rate_mbps),
            "dumbbell.rtt": f"{case.rtt_ms:g}ms",
            "dumbbell.delay": None,
            "dumbbell.back_delay": None,
            "dumbbell.queue.limit": case.limit,
            **{f"flow.{self._flow}.{key}": value for key, value in flow_fields(cc).items()},
            "seed": seed,
        }
        changes |= {f"dumbbell.wire.{key}": value for key, value in case.wire.items()}
        if not int(self.base.resolve(check=False).get("randomness", {}).get("start_spread_ps", 0)):
            changes |= {f"randomness.{key}": value for key, value in case.randomness.items()}
        varied = self.base.with_(changes)
        if case.burst_rate:
            bursts = replace(case, duration_s=self.base.duration.seconds)._bursts(steady=False)
            varied = Scenario.from_dict(varied.to_dict() | {"flow": [*varied.to_dict()["flow"], bursts.plain()]})
        return varied

    def _expected(
        self, cases: Sequence[Case], seeds: Sequence[int] | None = None, *, confirming: bool = False
    ) -> list[_Scored]:
        out = []
        work = [self._varied(case, seed) for case, seed in zip(cases, seeds or [self.seed] * len(cases), strict=True)]
        for case, (scenario, outcome) in zip(cases, self._outcomes(work, confirming=confirming), strict=True):
            if not isinstance(outcome, Result):
                out.append(self._ended(case, scenario, outcome))
                continue
            conditions, _ = demand_sound(scenario, outcome.resolved, live=self._on.can.kernel)
            broken = 0.0
            for condition, window in conditions:
                if condition.needs_baseline:
                    continue
                values = measured(outcome, start_s=window[0], end_s=window[1])
                broken = max(broken, beyond(condition.relation, condition.sides(values, None)))
            out.append(_Scored(broken, case, None, scenario=scenario))
        return out

    # -- simplification

    def _keep(self, worst: _Scored, weakness: Weakness | None, ends_at: int) -> None:
        found_at = self.done
        finding = self._finding(worst, weakness, found_at)
        self.found.append(finding)
        # If interrupted from here on, the finding is kept as it is.
        steps = self._shrunk(worst, weakness, ends_at)
        # The simpler of two steps, the last one and the middle one, that fresh seeds confirm.
        for simple in [steps[-1], steps[len(steps) // 2]] if steps else []:
            if self._holds(simple, weakness):
                self.found[-1] = self._finding(simple, weakness, found_at)
                break

    def _holds(self, scored: _Scored, weakness: Weakness | None) -> bool:
        """Whether significantly more than half of the fresh seeds show the weakness while the twin does well.

        The twin has the same seed. The exact 95 % interval of the share (Clopper and Pearson 1934) must be above one
        half: 9 of 10, or 15 of 20. An error needs no second seed.
        """
        if scored.error is not None:
            return True
        shown = tried = 0
        for seeds in _FRESH.counts:
            fresh = range(self.seed + _FRESH_FROM + tried, self.seed + _FRESH_FROM + seeds)
            shown += self._shown(scored.case, weakness, fresh)
            tried = seeds
            scored.shown = shown, tried
            if is_most(shown, tried):
                return True
            # More seeds help only a borderline case.
            if not is_most(shown + _FRESH.most - tried, _FRESH.most):
                return False
        return False

    def _shown(self, case: Case, weakness: Weakness | None, seeds: Sequence[int]) -> int:
        """The number of seeds with which the case shows its weakness while its twin does well."""
        if weakness is None:
            return sum(each.badness >= 1.0 for each in self._expected([case] * len(seeds), seeds, confirming=True))
        mine = [case.scenario(self.candidate.cc, seed) for seed in seeds]
        seen = [
            seen_in(case, outcome) if isinstance(outcome, Result) else None
            for _, outcome in self._outcomes(mine, confirming=True)
        ]
        bad = [(seed, each) for seed, each in zip(seeds, seen, strict=True)
               if each is not None and weakness.badness(case, each) >= 1.0]  # fmt: skip
        twins = [self._twin(case, weakness, seed) for seed, _ in bad]
        return sum(
            isinstance(outcome, Result) and weakness.is_well(case, each, seen_in(case, outcome))
            for (_, each), (_, outcome) in zip(bad, self._outcomes(twins, confirming=True), strict=True)
        )

    def _twin(self, case: Case, weakness: Weakness, seed: int) -> Scenario:
        if weakness.twin == "steady":
            return case.scenario(self.candidate.cc, seed, steady=True)
        if weakness.twin == "no jitter":
            return replace(case, jitter_ms=0.0).scenario(self.candidate.cc, seed)
        return replace(case, params=()).scenario(weakness.twin, seed)

    def _shrunk(self, scored: _Scored, weakness: Weakness | None, ends_at: int) -> list[_Scored]:
        """Successively simpler cases that still show the weakness."""
        steps: list[_Scored] = []
        is_panic = scored.error is not None
        clearly = min(scored.badness, _CLEARLY)
        self._seeks_panic = is_panic
        while self.done < ends_at:
            tries = [case for case in simpler(scored.case) if case.burst_mbps <= _MOST_BURSTS * case.rate_mbps]
            # Respect the limit `runs`.
            tries = tries[: ends_at - self.done]
            if not tries:
                break
            judged = self._scored(tries, weakness)
            holds = [each for each in judged if (each.error is not None) == is_panic and each.badness >= clearly]
            if not holds:
                break
            scored = holds[0]
            steps.append(scored)
        self._seeks_panic = False
        return steps

    def _finding(self, scored: _Scored, weakness: Weakness | None, runs: int) -> Finding:
        assert scored.scenario is not None
        case, scenario = scored.case, scored.scenario
        conditions: list[Any] = ["goodput_mbps > 0"]
        if scored.error is not None:
            name, said = PANIC, str(scored.error)
        elif weakness is None:
            name, said, conditions = EXPECT, "what the scenario expects does not hold", []
        else:
            assert scored.seen is not None
            shown, seeds = scored.shown
            name = weakness.name
            said = f"{weakness.doc}: {described(case, scored.seen)}; shows with {shown} of {seeds} fresh seeds"
            conditions = weakness.expected(case, scored.seen)
        if conditions:
            if not any(isinstance(each, dict) for each in conditions):
                # Only time windows need polls.
                scenario = scenario.with_({"instruments": None})
            # An error shows in one run; other findings need the seeds of their confirmation.
            least, most = (2, 10) if scored.error is not None else _FRESH.counts
            scenario = scenario.with_(expect={"conditions": conditions, "least": least, "most": most})
        finding = Finding(name, said, scored.badness, scenario.with_(name=f"{self._stem}-{name}"), runs, scored.shown)
        if self.out is not None:
            self._write(finding)
        return finding

    @property
    def _stem(self) -> str:
        return "".join(sign if sign.isalnum() or sign in "_.+-" else "-" for sign in self.candidate.label)

    def _write(self, finding: Finding) -> None:
        assert self.out is not None
        self.out.mkdir(parents=True, exist_ok=True)
        finding.file = self.out / f"{finding.scenario.name}.toml"
        allow = " --allow-code" if self.candidate.allow_code else ""
        allow += "".join(f" {word}" for word in self._on.words) if self._on.can.kernel else ""
        finding.command = f"tailback test {finding.file}{allow}"
        head = [
            f"Found by: tailback hunt {self.candidate.label}, seed {self.seed}, after {finding.runs} runs.",
            finding.said,
        ]
        lines = [f"# {line}" for text in head for line in text.splitlines()]
        text = "\n".join([*lines, f"# Again: {finding.command}", "", finding.scenario.to_toml()])
        temporary = finding.file.with_suffix(".part")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(finding.file)


def hunted(what: Any, *, allow_code: bool = False) -> Candidate:
    """The candidate that `what` names; `TailbackError` for a queue, which a hunt does not test."""
    name = what.partition(",")[0] if isinstance(what, str) else ""
    if name in registry.names("queues") or name.startswith("kernel:"):
        raise TailbackError(
            f'"{what}" is a queue, and the search is for weaknesses of congestion controls. Examine it with '
            f"tailback assess {what}, or run it in scenarios of your own"
        )
    return candidate(what, allow_code=allow_code)


def hunt(
    what: str | Mapping[str, Any] | Callable[..., Algorithm] | Candidate,
    *,
    seed: int = 1,
    runs: int = 600,
    weaknesses: Sequence[str] = (),
    vary: Sequence[str] = (),
    scenario: Scenario | str | os.PathLike[str] | None = None,
    allow_code: bool = False,
    workers: int | None = None,
    engine: str | None = None,
    kernel: str | None = None,
    store: str | os.PathLike[str] = engines.GUESTS,
    out: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
) -> list[Finding]:
    """Search for cases in which a congestion control fails; returns the simplest found for each weakness.

    `what` is anything `candidate` takes. The same `seed` and `runs` find the same on any machine. `weaknesses` are
    names of `WEAKNESSES`, all by default; `vary` names numeric parameters of a built-in candidate to vary as well. With
    `scenario`, a dumbbell with [expect], the search tries to violate its conditions. `out` is a folder for scenario
    files that `tailback test` repeats. `engine`, `kernel` and `store` are as for `tailback.test`. Ctrl-C raises
    `Interrupted`, whose `results` are what was found.

    >>> import tailback as tb
    >>> [found.weakness for found in tb.hunt("bbr", weaknesses=["loss"], runs=60)]
    ['loss']
    """
    base = scenario if scenario is None or isinstance(scenario, Scenario) else Scenario.from_toml(scenario)
    chosen = hunted(what, allow_code=allow_code)
    folder = None if out is None else Path(out)
    search = Hunt(chosen, seed, runs, tuple(weaknesses), tuple(vary), base, workers, folder, engine, kernel, store)
    try:
        return search.go(progress=progress, cancel=cancel)
    except KeyboardInterrupt:
        raise Interrupted(search.found) from None
