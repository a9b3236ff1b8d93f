"""`tailback hunt`: a search for the paths, bursts and parameters under which a congestion control fails.

A case is a bottleneck and what disturbs it. scipy's differential evolution (Storn and Price 1997) looks for the case in
which a weakness shows most. One that shows it counts only if a plainer twin of it does well (`Weakness.twin`): a path
on which nothing could do well is no finding. It also has to show with fresh seeds, which draw starts and jitter
(`Hunt._holds`): what shows in one run by chance is no finding either. What is found is made as simple as it can be
while it still shows.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tailback import extras, registry
from tailback._core import Cancel
from tailback.algorithms import Algorithm
from tailback.candidate import Candidate, candidate, flow_fields
from tailback.errors import AlgorithmError, EngineError, Interrupted, TailbackError, nearest
from tailback.expect import demand_sound
from tailback.experiment.run_metrics import longest_pause, measured
from tailback.experiment.statistics import is_most
from tailback.progress import Runs
from tailback.result import Result
from tailback.run import run_outcomes
from tailback.scenario import Scenario, bulk, dumbbell, flow, voip

__all__ = ["WEAKNESSES", "Case", "Finding", "Hunt", "hunt"]

#: Of a segment's IP packet, what is payload on a Linux path.
_PAYLOAD = 1448 / 1500
#: When bursts and changes of the rate begin: the candidate has found the path by then.
_SETTLED_S = 2.0
#: Cases of a generation.
_POPULATION = 16
#: Generations after the first that shows a weakness: a worse case shows it more clearly.
_LOOKS_AFTER = 3
#: Of the link, what bursts send at most: more is no attack but a load.
_MOST_BURSTS = 0.33
#: A simpler case shows a weakness at least so clearly, if the case found did: another seed shows it too.
_CLEARLY = 1.2
#: No run is shortened below this: how a connection starts is not what it does.
_LEAST_S = 8.0
_POLL_S = 0.1
#: Fresh seeds by which a finding is confirmed, and how many if those leave it open.
_FRESH = (10, 20)
#: Added to the search's seed for the first of them.
_FRESH_FROM = 1000
#: What a host takes to hand down a packet, drawn for each: less than a packet's time on the fastest link.
_PROCESSING = "20us"
#: Of a burst's length, by how much starts differ at most: later starts leave a burst that much shorter.
_SHARE_OF_BURST = 0.05


@dataclass(frozen=True)
class Case:
    """A bottleneck, and what disturbs it."""

    rate_mbps: float
    rtt_ms: float
    queue_bdp: float
    flows: int = 1
    #: Bursts of UDP: so long, so often, at this many times the link's rate; none at zero.
    burst_ms: float = 0.0
    period_ms: float = 0.0
    burst_rate: float = 0.0
    #: Probability that a packet is lost on the wire.
    loss: float = 0.0
    #: Every other so long the rate is this share of itself; 1: it never changes.
    dip: float = 1.0
    dip_ms: float = 0.0
    #: Reno competes.
    has_rival: bool = False
    #: A call of small packets shares the path.
    has_call: bool = False
    #: The queue counts packets of 1500 bytes; else bytes.
    counts_packets: bool = False
    #: Flows start by so much apart; the seed draws when.
    start_ms: float = 100.0
    #: Each packet is delayed by up to so much more, in order.
    jitter_ms: float = 0.0
    #: Probability that a packet is overtaken by that many others.
    reorder: float = 0.0
    reorder_packets: int = 0
    duration_s: float = 12.0
    #: Parameters of the candidate.
    params: tuple[tuple[str, float], ...] = ()

    @property
    def burst_mbps(self) -> float:
        """What the bursts send on average."""
        return self.rate_mbps * self.burst_rate * self.burst_ms / self.period_ms if self.burst_rate else 0.0

    @property
    def left_mbps(self) -> float:
        """What remains of the link for payload, if all bursts got through."""
        busy = 1.0 if self.dip >= 1.0 else (1.0 + self.dip) / 2
        return max(self.rate_mbps * busy * _PAYLOAD - self.burst_mbps, 0.01 * self.rate_mbps)

    def scenario(self, cc: Any, seed: int, *, steady: bool = False) -> Scenario:
        """With the candidate `cc`; `steady`: what the bursts send comes as an even stream."""
        if self.params:
            cc = {**(cc if isinstance(cc, Mapping) else {"name": cc}), **dict(self.params)}
        # `start_spread` moves starts and not stops, and would eat bursts: it stays small beside them, and what is left
        # of `start_ms` is drawn here.
        drawn = np.random.default_rng([seed, 1]).random() * self.start_ms / 1e3 if self.burst_rate else 0.0
        count = self.flows if self.flows > 1 else None
        flows = [flow("bulk", name="victim", count=count, start=_s(drawn), **{"stack": "linux"} | flow_fields(cc))]
        if self.has_rival:
            flows.append(bulk("reno", name="rival"))
        if self.has_call:
            flows.append(voip(name="call"))
        if self.burst_rate:
            flows.append(self._bursts(steady))
        more: dict[str, Any] = {"wire": self.wire} if self.wire else {}
        if self.dip < 1.0:
            times = _every(self.dip_ms / 1e3, self.duration_s)
            steps = more["schedule"] = []
            for number, at in enumerate(times):
                rate = self.rate_mbps * (self.dip if number % 2 == 0 else 1.0)
                steps.append({"at": _s(at), "rate": _mbit(rate)})
        return dumbbell(
            rate=_mbit(self.rate_mbps),
            rtt=f"{self.rtt_ms:g}ms",
            queue={"limit": self.limit},
            flows=flows,
            duration=_s(self.duration_s),
            seed=seed,
            instruments={"polls": "all", "poll_interval": _s(_POLL_S)},
            **more,
        ).with_(randomness=self.randomness)

    @property
    def wire(self) -> dict[str, Any]:
        """What the wire does beside carrying packets."""
        out: dict[str, Any] = {"loss": self.loss} if self.loss else {}
        if self.jitter_ms:
            out["jitter"] = f"{self.jitter_ms:g}ms"
        if self.reorder:
            # Long enough for the overtaking; the count lets it go sooner.
            out |= {"reorder": self.reorder, "reorder_delay": "500ms", "reorder_packets": self.reorder_packets}
        return out

    @property
    def limit(self) -> str:
        """Of the queue."""
        held = max(round(self.queue_bdp * self.rate_mbps * self.rtt_ms * 125.0), 3000)
        return f"{held // 1500}packets" if self.counts_packets else f"{held}B"

    @property
    def randomness(self) -> dict[str, str]:
        """What a seed draws: without it all seeds would be one run."""
        spread = min(self.start_ms, _SHARE_OF_BURST * self.burst_ms) if self.burst_rate else self.start_ms
        return {"start_spread": _s(spread / 1e3), "processing_jitter": _PROCESSING}

    def _bursts(self, steady: bool) -> Any:
        if steady:
            params = {"rate": max(int(self.burst_mbps * 1e6), 1)}
            return flow("udp-cbr", name="bursts", start=_s(_SETTLED_S), params=params)
        times = _every(self.period_ms / 1e3, self.duration_s)
        spans: list[dict[str, Any]] = [{"start": _s(at), "stop": _s(at + self.burst_ms / 1e3)} for at in times]
        params = {"rate": max(int(self.burst_rate * self.rate_mbps * 1e6), 1)}
        return flow("udp-cbr", name="bursts", **spans[0], again=spans[1:], params=params)

    @property
    def victims(self) -> list[str]:
        """Names of the candidate's flows."""
        return [f"victim-{number + 1}" for number in range(self.flows)] if self.flows > 1 else ["victim"]


def _every(period_s: float, end_s: float) -> list[float]:
    count = max(int((end_s - _SETTLED_S) / max(period_s, 1e-3)), 1)
    return [_SETTLED_S + number * period_s for number in range(count)]


def _s(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"


def _mbit(rate: float) -> str:
    return f"{max(round(rate * 1e6), 1000)}bit"


@dataclass(frozen=True)
class Seen:
    """What a run of a case came to."""

    goodput_mbps: float
    least_mbps: float
    rival_mbps: float
    loss: float
    timeouts: int
    #: The longest time in which one of the candidate's flows got nothing acknowledged: from, until.
    gap: tuple[float, float]
    gap_of: str
    #: Share of the call's packets that were lost.
    call_loss: float = math.nan

    @property
    def gap_s(self) -> float:
        return self.gap[1] - self.gap[0]


def _seen(case: Case, result: Result) -> Seen:
    rows = {str(row["flow"]): row for row in result.flow_summary()}
    links = result.numpy("links")
    neck = result.link_index(result.bottleneck)
    arrived = float(links["arrived"][neck])
    rates = [float(rows[name]["goodput_mbps"] or 0.0) for name in case.victims]
    gaps = {name: longest_pause(result, name) for name in case.victims}
    gap_of = max(gaps, key=lambda name: gaps[name][1] - gaps[name][0])
    call = rows.get("call")
    return Seen(
        goodput_mbps=sum(rates),
        least_mbps=min(rates),
        rival_mbps=float(rows["rival"]["goodput_mbps"] or 0.0) if case.has_rival else math.nan,
        loss=float(links["dropped"][neck]) / arrived if arrived else 0.0,
        timeouts=sum(int(rows[name]["timeouts"] or 0) for name in case.victims),
        gap=gaps[gap_of],
        gap_of=gap_of,
        call_loss=_call_loss(result) if call else math.nan,
    )


def _call_loss(result: Result) -> float:
    flows, at = result.numpy("flows"), result.flow_index("call")
    sent = float(flows["packets_sent"][at])
    return float(flows["packets_dropped"][at]) / sent if sent else math.nan


@dataclass(frozen=True)
class Weakness:
    """A way of failing."""

    name: str
    doc: str
    #: What of a case the search may use beside rate, RTT, queue and the number of flows.
    uses: frozenset[str]
    #: How bad, from what was seen: a finding from 1 on.
    badness: Callable[[Case, Seen], float]
    #: Which twin must do well: the candidate itself with an even stream for the bursts, or Reno in its place,
    twin: str
    #: and when it does, from what was seen of both.
    is_well: Callable[[Case, Seen, Seen], bool]
    #: Conditions that should hold, and do not.
    expected: Callable[[Case, Seen], list[Any]]


def _sum(case: Case, key: str) -> str:
    return " + ".join(f"{name}.{key}" for name in case.victims)


def _timeouts_allowed(case: Case) -> float:
    return max((case.duration_s - _SETTLED_S) / 3.0 * case.flows, 3.0)


#: A run that ends by an error; found on the way, too, whatever is looked for.
PANIC = "panic"
#: What is looked for, in this order: first what disturbs most, as an error may show there at once.
WEAKNESSES: tuple[Weakness, ...] = (
    Weakness(
        PANIC,
        "The run ends by an error",
        frozenset({"bursts", "loss", "dips", "rival", "jitter", "reordering"}),
        # No error is half an error: the search goes where windows are large, and so numbers too.
        lambda case, seen: min(seen.goodput_mbps * case.rtt_ms / 1e4, 0.9),
        "reno",
        lambda case, seen, twin: True,
        lambda case, seen: [],
    ),
    Weakness(
        "stall",
        "Nothing is acknowledged for three seconds, twice as long as with Reno",
        frozenset({"bursts", "loss", "dips", "rival", "jitter", "reordering", "one flow"}),
        lambda case, seen: seen.gap_s / 3.0,
        "reno",
        lambda case, seen, twin: twin.gap_s <= seen.gap_s / 2,
        lambda case, seen: ["victim.longest_pause_ms < 3000"],
    ),
    Weakness(
        "underuse",
        "Alone on a path without losses of its own it uses less than half of what Reno could use four fifths of",
        frozenset({"one flow", "large windows", "jitter", "reordering"}),
        lambda case, seen: 0.5 * case.left_mbps / max(seen.goodput_mbps, 1e-6),
        "reno",
        lambda case, seen, twin: twin.goodput_mbps >= 0.8 * case.left_mbps,
        lambda case, seen: [f"victim.goodput_mbps >= {0.5 * case.left_mbps:.3g}"],
    ),
    Weakness(
        "starvation",
        "Beside one flow of Reno, it or that flow gets a tenth of its fair share; Reno in its place does not",
        frozenset({"rival", "one flow", "rival always", "jitter"}),
        lambda case, seen: 0.05 * case.left_mbps / max(min(seen.least_mbps, seen.rival_mbps), 1e-6),
        "reno",
        lambda case, seen, twin: min(twin.least_mbps, twin.rival_mbps) >= 0.1 * case.left_mbps,
        lambda case, seen: [
            f"{'victim' if seen.least_mbps < seen.rival_mbps else 'rival'}.goodput_mbps >= {0.05 * case.left_mbps:.3g}"
        ],
    ),
    Weakness(
        "loss",
        "A tenth of the packets is lost at the bottleneck, three times as many as Reno's",
        frozenset({"rival"}),
        lambda case, seen: seen.loss / 0.1,
        "reno",
        lambda case, seen, twin: twin.loss <= seen.loss / 3,
        lambda case, seen: ["loss <= 0.1"],
    ),
    Weakness(
        "call",
        "A call beside it loses a twentieth of its packets, three times as many as beside Reno",
        frozenset({"rival", "call"}),
        lambda case, seen: seen.call_loss / 0.05 if math.isfinite(seen.call_loss) else 0.0,
        "reno",
        lambda case, seen, twin: twin.call_loss <= seen.call_loss / 3,
        lambda case, seen: ["call.loss <= 0.05"],
    ),
    Weakness(
        "collapse",
        "Bursts take more than half of what they leave; an even stream of as much does not",
        frozenset({"bursts"}),
        lambda case, seen: 0.4 * case.left_mbps / max(seen.goodput_mbps, 1e-6),
        "steady",
        lambda case, seen, twin: twin.goodput_mbps >= 0.65 * case.left_mbps,
        lambda case, seen: [f"{_sum(case, 'goodput_mbps')} >= {0.4 * case.left_mbps:.3g}"],
    ),
    Weakness(
        "lockout",
        "Bursts drive it from one timeout into the next and take a third of what they leave; an even stream does not",
        frozenset({"bursts"}),
        lambda case, seen: min(
            seen.timeouts / _timeouts_allowed(case), 0.6 * case.left_mbps / max(seen.goodput_mbps, 1e-6)
        ),
        "steady",
        lambda case, seen, twin: twin.timeouts <= seen.timeouts / 4 and twin.goodput_mbps >= 0.65 * case.left_mbps,
        lambda case, seen: [
            f"{_sum(case, 'timeouts')} < {_timeouts_allowed(case):.3g}",
            f"{_sum(case, 'goodput_mbps')} >= {0.6 * case.left_mbps:.3g}",
        ],
    ),
)
#: What a scenario of the user's says must hold.
EXPECT = "expect"


@dataclass
class Finding:
    """A weakness that shows."""

    weakness: str
    #: What happens, for people.
    said: str
    #: How far beyond the bound: 1 is at it.
    badness: float
    scenario: Scenario
    #: Runs until it was found, and until it was as simple as this.
    runs: int
    #: Of how many fresh seeds, how many show it while the twin does well; (1, 1) of an error.
    shown: tuple[int, int] = (1, 1)
    file: Path | None = None
    #: The command that shows it again.
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        kept = {key: getattr(self, key) for key in ("weakness", "said", "badness", "runs", "command")}
        kept["shown"], kept["seeds"] = self.shown
        return kept | {"file": None if self.file is None else str(self.file), "scenario": self.scenario.to_toml()}


class _Enough(Exception):
    """The search may stop."""


@dataclass
class _Scored:
    badness: float
    case: Case
    seen: Seen | None
    #: What ended the run, if it did.
    error: TailbackError | None = None
    scenario: Scenario | None = None
    #: See `Finding.shown`.
    shown: tuple[int, int] = (1, 1)


@dataclass
class Hunt:
    """A search: `go` runs it, and `found` says at any time what there is."""

    candidate: Candidate
    seed: int = 1
    #: Runs at most, shrinking included; fresh seeds that confirm a finding come on top.
    runs: int = 600
    weaknesses: Sequence[str] = ()
    #: Parameters of a built-in candidate that are varied too.
    vary: Sequence[str] = ()
    #: A dumbbell with [expect], varied instead of cases made up.
    base: Scenario | None = None
    workers: int | None = None
    out: Path | None = None
    found: list[Finding] = field(default_factory=list)
    done: int = 0
    #: Runs with fresh seeds, and cases that they showed to be chance.
    confirming: int = 0
    chance: int = 0

    def __post_init__(self) -> None:
        #: A panic is no news any more, unless it is being made simple.
        self._seeks_panic = False
        known = [each.name for each in WEAKNESSES]
        for name in self.weaknesses:
            if name not in known:
                close = nearest(name, known)
                hint = f' Did you mean "{close}"?' if close else ""
                raise TailbackError(f'there is no weakness "{name}".{hint} There are: {", ".join(known)}')
        if self.runs < 1:
            raise TailbackError(f"runs must be at least 1, got {self.runs}")
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
        """Look for every weakness. Ctrl-C raises `KeyboardInterrupt`; `found` keeps what there is."""
        chosen = [each for each in WEAKNESSES if not self.weaknesses or each.name in self.weaknesses]
        with Runs(f"hunting {self.candidate.label}", shown=progress) as line:
            self._line, self._cancel = line, cancel
            if self.base is not None:
                self._search(None, self.runs)
                return self.found
            for number, weakness in enumerate(chosen):
                # What earlier ones left over is for the later.
                share = (self.runs - self.done) // (len(chosen) - number)
                self._search(weakness, share)
        return self.found

    def _search(self, weakness: Weakness | None, budget: int) -> None:
        differential_evolution = extras.load("scipy.optimize", "a hunt").differential_evolution
        qmc = extras.load("scipy.stats.qmc", "a hunt")

        genes = _GENES + len(self._ranges)
        generator = np.random.default_rng([self.seed, *(weakness.name if weakness else EXPECT).encode()])
        start = qmc.LatinHypercube(genes, seed=generator).random(_POPULATION)
        ends_at = self.done + budget
        worst: list[_Scored] = []
        looked = [0]

        def evaluate(_: object, vectors: Any) -> list[float]:
            if self.done >= ends_at - budget // 4:
                raise _Enough
            cases = [self._case(vector, weakness) for vector in np.atleast_2d(np.array(list(vectors)))]
            scored = self._scored(cases, weakness)
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
            return [-each.badness for each in scored]

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
            (name, round(low + u[_GENES + number] * (high - low), 4))
            for number, (name, low, high) in enumerate(self._ranges)
        )
        is_large = "large windows" in uses
        case = Case(
            rate_mbps=_log(u[0], *((10.0, 200.0) if is_large else (2.0, 40.0))),
            rtt_ms=_log(u[1], *((20.0, 200.0) if is_large else (8.0, 200.0))),
            queue_bdp=_log(u[2], 0.05, 2.0),
            flows=1 if "one flow" in uses else 1 + int(u[3] * 7.999),
            params=params,
            has_call="call" in uses,
            counts_packets=u[12] > 0.5,
            start_ms=_log(u[13], 10.0, 500.0),
        )
        if "jitter" in uses and u[14] > 0.5:
            case = replace(case, jitter_ms=_log(2 * u[14] - 1, 0.1, 0.5 * case.rtt_ms))
        if "reordering" in uses and u[15] > 0.6:
            share = (u[15] - 0.6) / 0.4
            case = replace(case, reorder=_log(share, 1e-4, 0.03), reorder_packets=1 + int(30 * u[16] ** 2))
        if "bursts" in uses and (u[4] > 0.3 or uses <= {"bursts"}):
            rate, period = 1.2 + 2.8 * u[5], _log(u[6], 200.0, 2000.0)
            share = 0.05 + 0.25 * u[7]
            burst = max(share * period / rate, 5.0)
            case = replace(case, burst_rate=_short(rate), period_ms=_short(period), burst_ms=_short(burst))
        if "loss" in uses and u[8] > 0.5:
            case = replace(case, loss=_log(2 * u[8] - 1, 1e-4, 0.03))
        if "dips" in uses and u[9] > 0.5:
            case = replace(case, dip=_short(0.05 + 0.9 * (2 * u[9] - 1)), dip_ms=_log(u[10], 300.0, 4000.0))
        if "rival always" in uses or ("rival" in uses and u[11] > 0.6):
            case = replace(case, has_rival=True)
        return case

    def _scored(self, cases: Sequence[Case], weakness: Weakness | None) -> list[_Scored]:
        """Each case run and judged; those that show the weakness, beside their twins."""
        if weakness is None:
            return self._expected(cases)
        out = []
        for case, (scenario, outcome) in zip(
            cases, self._outcomes([self._described(case) for case in cases]), strict=True
        ):
            if isinstance(outcome, Result):
                seen = _seen(case, outcome)
                out.append(_Scored(weakness.badness(case, seen), case, seen, scenario=scenario))
            else:
                out.append(self._ended(case, scenario, outcome))
        self._beside_twins([each for each in out if each.seen is not None and each.badness >= 1.0], weakness)
        return out

    def _ended(self, case: Case, scenario: Scenario, error: TailbackError) -> _Scored:
        if not isinstance(error, AlgorithmError | EngineError):
            # Such as more rows than a run may record.
            return _Scored(0.0, case, None, scenario=scenario)
        is_known = not self._seeks_panic and any(each.weakness == PANIC for each in self.found)
        return _Scored(0.0 if is_known else 100.0, case, None, error, scenario)

    def _described(self, case: Case) -> Scenario:
        return case.scenario(self.candidate.cc, self.seed)

    def _beside_twins(self, scored: Sequence[_Scored], weakness: Weakness) -> None:
        """Lower the badness of those whose twin does no better."""
        plain = [self._twin(each.case, weakness, self.seed) for each in scored]
        for each, (_, outcome) in zip(scored, self._outcomes(plain), strict=True):
            assert each.seen is not None
            if not isinstance(outcome, Result) or not weakness.is_well(each.case, each.seen, _seen(each.case, outcome)):
                each.badness = 0.5

    def _outcomes(
        self, scenarios: Sequence[Scenario], *, confirming: bool = False
    ) -> list[tuple[Scenario, Result | TailbackError]]:
        found: list[Any] = [None] * len(scenarios)
        outcomes = run_outcomes(
            scenarios, workers=self.workers, cancel=self._cancel, allow_code=self.candidate.allow_code
        )
        with contextlib.closing(outcomes):
            for index, outcome in outcomes:
                found[index] = outcome
                if confirming:
                    self.confirming += 1
                else:
                    self.done += 1
                self._line.update(min(self.done, self.runs), self.runs, spent=self.done, cost=max(self.runs, self.done))
        return list(zip(scenarios, found, strict=True))

    # -- a scenario of the user's

    def _varied(self, case: Case, seed: int) -> Scenario:
        """The base with the case's path, loss and bursts, and the candidate in its flow."""
        assert self.base is not None
        cc: Any = self.candidate.cc
        if case.params:
            cc = {**(cc if isinstance(cc, Mapping) else {"name": cc}), **dict(case.params)}
        changes: dict[str, Any] = {
            "dumbbell.rate": _mbit(case.rate_mbps),
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
            conditions, _ = demand_sound(scenario, outcome.resolved)
            broken = 0.0
            for condition, window in conditions:
                if condition.needs_baseline:
                    continue
                values = measured(outcome, start_s=window[0], end_s=window[1])
                broken = max(broken, _broken(condition.relation, condition.sides(values, None)))
            out.append(_Scored(broken, case, None, scenario=scenario))
        return out

    # -- making it simple

    def _keep(self, worst: _Scored, weakness: Weakness | None, ends_at: int) -> None:
        found_at = self.done
        finding = self._finding(worst, weakness, found_at)
        self.found.append(finding)
        # An interrupt now keeps the finding as it is.
        steps = self._shrunk(worst, weakness, ends_at)
        # The simplest that fresh seeds confirm, of the last step and the one halfway there.
        for simple in [steps[-1], steps[len(steps) // 2]] if steps else []:
            if self._holds(simple, weakness):
                self.found[-1] = self._finding(simple, weakness, found_at)
                break

    def _holds(self, scored: _Scored, weakness: Weakness | None) -> bool:
        """Does it show in more than half of all seeds, each beside its twin, and is it sure to?

        `shown` of `seeds` fresh ones show it while the twin with the same seed does well. It holds if the exact 95 %
        interval of that share (Clopper and Pearson 1934) lies above one half: 9 of 10, or 15 of 20. An error needs no
        second seed.
        """
        if scored.error is not None:
            return True
        shown = tried = 0
        for seeds in _FRESH:
            fresh = range(self.seed + _FRESH_FROM + tried, self.seed + _FRESH_FROM + seeds)
            shown += self._shown(scored.case, weakness, fresh)
            tried = seeds
            scored.shown = shown, tried
            if is_most(shown, tried):
                return True
            # More seeds help only what is near.
            if not is_most(shown + _FRESH[-1] - tried, _FRESH[-1]):
                return False
        return False

    def _shown(self, case: Case, weakness: Weakness | None, seeds: Sequence[int]) -> int:
        """In how many seeds the case shows its weakness while its twin does well."""
        if weakness is None:
            return sum(each.badness >= 1.0 for each in self._expected([case] * len(seeds), seeds, confirming=True))
        mine = [case.scenario(self.candidate.cc, seed) for seed in seeds]
        seen = [
            _seen(case, outcome) if isinstance(outcome, Result) else None
            for _, outcome in self._outcomes(mine, confirming=True)
        ]
        bad = [(seed, each) for seed, each in zip(seeds, seen, strict=True)
               if each is not None and weakness.badness(case, each) >= 1.0]  # fmt: skip
        twins = [self._twin(case, weakness, seed) for seed, _ in bad]
        return sum(
            isinstance(outcome, Result) and weakness.is_well(case, each, _seen(case, outcome))
            for (_, each), (_, outcome) in zip(bad, self._outcomes(twins, confirming=True), strict=True)
        )

    def _twin(self, case: Case, weakness: Weakness, seed: int) -> Scenario:
        if weakness.twin == "steady":
            return case.scenario(self.candidate.cc, seed, steady=True)
        return replace(case, params=()).scenario("reno", seed)

    def _shrunk(self, scored: _Scored, weakness: Weakness | None, ends_at: int) -> list[_Scored]:
        """Ever simpler cases that still show it. All ways of simplifying are tried at once; the first is taken."""
        steps: list[_Scored] = []
        is_panic = scored.error is not None
        clearly = min(scored.badness, _CLEARLY)
        self._seeks_panic = is_panic
        while self.done < ends_at:
            tries = [case for case in _simpler(scored.case) if case.burst_mbps <= _MOST_BURSTS * case.rate_mbps]
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
            said = f"{weakness.doc}: {_in_words(case, scored.seen)}; shows with {shown} of {seeds} fresh seeds"
            conditions = weakness.expected(case, scored.seen)
        if conditions:
            if not any(isinstance(each, dict) for each in conditions):
                # Only windows of time need the polls.
                scenario = scenario.with_({"instruments": None})
            # An error needs one run, anything else as many as it was confirmed by.
            least, most = (2, 10) if scored.error is not None else _FRESH
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


#: Numbers that a case is made from.
_GENES = 17


def _log(u: float, low: float, high: float) -> float:
    return _short(low * (high / low) ** u)


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _round(value: float) -> float:
    """With one digit: 1, 2 or 5 and zeros."""
    if value <= 0.0:
        return value
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{min((1.0, 2.0, 5.0, 10.0), key=lambda digit: abs(math.log(value / power / digit))) * power:.3g}")


def _broken(relation: str, sides: Sequence[float]) -> float:
    """How far a condition is from holding: 1 where it just fails."""
    if not all(math.isfinite(side) for side in sides):
        return 2.0
    left, *bounds = sides
    scale = max(max(abs(bound) for bound in bounds), 1e-9)
    if relation == "in":
        off = max(bounds[0] - left, left - bounds[1])
    else:
        off = left - bounds[0] if relation in ("<", "<=") else bounds[0] - left
    return max(1.0 + off / scale, 0.0) if off != 0.0 else (1.0 if relation in ("<", ">") else 0.999)


def _simpler(case: Case) -> Iterator[Case]:
    """The case with one thing less, the largest steps first."""
    if case.has_rival:
        yield replace(case, has_rival=False)
    if case.dip < 1.0:
        yield replace(case, dip=1.0, dip_ms=0.0)
    if case.loss:
        yield replace(case, loss=0.0)
    if case.reorder:
        yield replace(case, reorder=0.0, reorder_packets=0)
    if case.jitter_ms:
        yield replace(case, jitter_ms=0.0)
    if case.counts_packets:
        yield replace(case, counts_packets=False)
    if case.burst_rate:
        yield replace(case, burst_rate=0.0, burst_ms=0.0, period_ms=0.0)
    if case.params:
        yield from (replace(case, params=case.params[:n] + case.params[n + 1 :]) for n in range(len(case.params)))
    if case.flows > 1:
        yield replace(case, flows=1)
        if case.flows > 2:
            yield replace(case, flows=case.flows // 2)
        yield replace(case, flows=case.flows - 1)
    if case.duration_s > _LEAST_S:
        yield replace(case, duration_s=_LEAST_S)
    for name in ("rate_mbps", "rtt_ms", "queue_bdp", "burst_rate", "period_ms", "burst_ms", "dip", "dip_ms", "loss",
                 "start_ms", "jitter_ms", "reorder"):  # fmt: skip
        value = getattr(case, name)
        if value and _round(value) != value and not (name == "dip" and value == 1.0):
            rounded: dict[str, Any] = {name: _round(value)}
            yield replace(case, **rounded)


def _flows(case: Case) -> str:
    return "one flow" if case.flows == 1 else f"{case.flows} flows"


def _in_words(case: Case, seen: Seen) -> str:
    counted = "packets" if case.counts_packets else "bytes"
    queue = f"queue {case.queue_bdp:g} BDP counted in {counted}"
    words = [f"{case.rate_mbps:g} Mbit/s, {case.rtt_ms:g} ms, {queue}, {_flows(case)}"]
    if case.burst_rate:
        mean = case.burst_mbps / case.rate_mbps
        words.append(
            f"bursts of {case.burst_ms:g} ms each {case.period_ms:g} ms at {case.burst_rate:g} times the rate, "
            f"{mean:.0%} of it"
        )
    if case.loss:
        words.append(f"random loss {case.loss:g}")
    if case.jitter_ms:
        words.append(f"jitter up to {case.jitter_ms:g} ms, in order")
    if case.reorder:
        words.append(f"{case.reorder:.2%} of the packets overtaken by {case.reorder_packets}")
    if case.dip < 1.0:
        words.append(f"the rate falls to {case.dip:.0%} every other {case.dip_ms:g} ms")
    words.append(
        f"goodput {seen.goodput_mbps:.3g} of {case.left_mbps:.3g} Mbit/s, loss {seen.loss:.1%}, "
        f"{seen.timeouts} timeouts, longest pause {seen.gap_s:.1f} s"
        + (f", the call's loss {seen.call_loss:.1%}" if case.has_call else "")
    )
    return "; ".join(words)


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
    out: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int, int], object] = False,
    cancel: Cancel | None = None,
) -> list[Finding]:
    """Look for cases in which a congestion control fails, and return the simplest found of each weakness.

    `what` is anything `candidate` takes. The same `seed` and `runs` find the same on any machine. `weaknesses` are
    names of `WEAKNESSES`, all by default; `vary` names numeric parameters of a built-in candidate to vary as well. With
    `scenario`, a dumbbell with [expect], what it expects is what is to be broken. `out` is a folder for scenario files
    that `tailback test` repeats. Ctrl-C raises `Interrupted`, whose `results` are what was found.

    >>> import tailback as tb
    >>> [found.weakness for found in tb.hunt("bbr", weaknesses=["loss"], runs=60)]
    ['loss']
    """
    base = scenario if scenario is None or isinstance(scenario, Scenario) else Scenario.from_toml(scenario)
    chosen = candidate(what, allow_code=allow_code)
    folder = None if out is None else Path(out)
    search = Hunt(chosen, seed, runs, tuple(weaknesses), tuple(vary), base, workers, folder)
    try:
        return search.go(progress=progress, cancel=cancel)
    except KeyboardInterrupt:
        raise Interrupted(search.found) from None
