"""What every dossier is made of: statistics with their rules, cells, experiments, controls, and the book of them.

A dossier judges a congestion control (`table.py`) or a queue (`queues/`). The runner, the judge and the pages know
neither; each takes its `Book`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailback.candidate import Candidate, flow_fields
from tailback.judge import Beside
from tailback.scenario import Scenario

if TYPE_CHECKING:
    from tailback.result import Result

__all__ = [
    "ADVICE",
    "EXPLAIN",
    "GENERAL",
    "L4S",
    "MEDIA",
    "MUST",
    "NO_WORD",
    "SHOULD",
    "Book",
    "Cell",
    "Control",
    "Experiment",
    "Flow",
    "Statistic",
    "drawn",
    "dumbbell",
    "instruments",
    "other",
    "several",
    "short",
    "under_test",
]

MUST, SHOULD, EXPLAIN, NO_WORD = "MUST", "SHOULD", "MUST explain", ""
#: In small letters the RFC's word is advice, and none of RFC 2119's.
ADVICE = "should"
GENERAL, L4S = "general", "l4s"


@dataclass(frozen=True)
class Statistic(Beside):
    """A number of a run, and by how much a candidate may be worse in it."""

    title: str
    unit: str
    #: Whether a larger value is better.
    more: bool
    #: The bound is `factor` × the baseline's, and `allowance` beyond.
    factor: float
    allowance: float
    #: Reason of the factor and the allowance.
    source: str
    #: "fitted" and when, if the rule was changed with results in view.
    changed: str = ""
    #: The number that it judges, if another name has it.
    of: str = ""
    #: What the bound is of where the candidate sets it itself, in words; empty: the baselines set it.
    own: str = ""
    #: The baselines that count, if not all of them do.
    beside: tuple[str, ...] = ()
    #: The largest value there can be, if less is better.
    most: float = math.inf

    @property
    def rule(self) -> str:
        """The rule in words."""
        unit = f" {self.unit}" if self.unit else ""
        if self.is_absolute:
            return f"at least {-self.allowance:g}{unit}" if self.more else f"at most {self.allowance:g}{unit}"
        times = f"{self.factor:g} × " if self.factor != 1.0 else ""
        sign = "−" if self.more else "+"
        beyond = f" {sign} {self.allowance:g}{unit}" if self.allowance else ""
        of = self.own or (" or ".join(self.beside) if self.beside else "baseline")
        return f"{'at least' if self.more else 'at most'} {times}{of}{beyond}"


@dataclass(frozen=True)
class Cell:
    """One scenario of an experiment."""

    #: Unique; the scenario's name too.
    name: str
    #: Its name for people, which distinguishes it from its neighbours.
    label: str
    #: As a scenario's file has it; of the flows under test `cc` is left open.
    given: Mapping[str, Any]
    statistics: tuple[str, ...]
    #: What is measured "after" something is of this window, in seconds.
    after: tuple[float, float] | None = None
    #: Part of --quick?
    quick: bool = False
    #: What the long flows of others run, if it is one algorithm whose own harm to itself is of interest.
    rival: str = ""
    #: Of a special case: the name of the cell that is its plain case.
    plain: str = ""

    def scenario(self, cc: str | Mapping[str, Any] | Candidate | None, scope: str = GENERAL) -> Scenario:
        """With the flows under test running `cc`; with None they stay away, and the others are alone.

        Where flows under test ask for ECN, those of the scope "l4s" do so with the code point of L4S.
        """
        cc = cc.cc if isinstance(cc, Candidate) else cc
        flows = []
        for flow in self.given["flow"]:
            is_tested = flow["name"].startswith("test")
            if is_tested and cc is None:
                continue
            if is_tested and scope == L4S and flow.get("stack", {}).get("ecn") is True:
                flow = {**flow, "stack": {**flow["stack"], "ecn": "l4s", "accecn": True}}
            flows.append({**flow, **flow_fields(cc)} if is_tested and cc is not None else flow)
        shown = instruments(flows, packets="late_packets" in self.statistics)
        return Scenario.from_dict({**self.given, "flow": flows, "name": self.name, "instruments": shown})

    @property
    def has_others(self) -> bool:
        """Does someone share the path, whom it may harm?"""
        return any(name.startswith("harm_") for name in self.statistics)

    @property
    def seconds(self) -> float:
        """Simulated."""
        return float(str(self.given["duration"]).removesuffix("s"))


@dataclass(frozen=True)
class Experiment:
    """A criterion of the RFC with the cells that examine it, or the reason why none do."""

    name: str
    #: Of RFC 9743.
    section: str
    title: str
    #: What the RFC demands: the candidate's author has to have looked at it.
    word: str
    about: str
    cells: tuple[Cell, ...] = ()
    #: Why there are no cells.
    not_run: str = ""
    #: Instead of cells: the experiments that examine it along with their own criterion.
    covered_by: tuple[str, ...] = ()
    #: Why it does not apply to a candidate that declares nothing of the kind; empty: the scope says why.
    needs: str = ""
    #: Why it does not apply to a candidate that runs in a guest; empty: it does.
    not_in_guest: str = ""

    @property
    def is_special(self) -> bool:
        """Has it cells with a plain case?"""
        return any(cell.plain for cell in self.cells)

    @property
    def is_must(self) -> bool:
        """Does the RFC demand it?"""
        return self.word.startswith("MUST")


@dataclass(frozen=True)
class Control:
    """An algorithm whose verdict on some cells is known; if it comes out otherwise, the suite is broken."""

    cc: str
    experiment: str
    cells: tuple[str, ...]
    statistic: str
    #: Must it fail in one of the cells, or in none?
    fails: bool
    source: str
    #: "fitted" and why, if it was changed with results in view.
    changed: str = ""
    #: Part of --quick? What a quick dossier has of controls is of algorithms that others have written.
    quick: bool = True

    @property
    def label(self) -> str:
        """What its runs are known by."""
        return self.cc.rpartition(":")[2].replace(",", " ")


@dataclass(frozen=True)
class Book:
    """All that a kind of dossier is: what is judged, by which rules, and who must fail."""

    #: Name by which stored runs know the book.
    name: str
    #: "RFC 9743": what the pages are titled by.
    rfc: str
    #: How its verdicts come about, below the table of a page.
    note: str
    statistics: Mapping[str, Statistic]
    experiments: tuple[Experiment, ...]
    controls: tuple[Control, ...]
    #: What a candidate is judged beside unless the caller says otherwise; controls always are.
    baselines: tuple[str, ...]
    #: What a candidate may be meant for, and what the built-in ones are.
    scopes: Mapping[str, str]
    scope_of: Mapping[str, str]
    #: What a caller names, checked.
    candidate: Callable[..., Candidate]
    #: A short run before hours are spent, and what it is in words.
    trial: Callable[[Candidate], Scenario]
    trial_words: str
    #: The cell with the statistics that apply to a candidate; None if none does.
    scoped: Callable[[Experiment, Cell, str, Candidate | None], Cell | None]
    #: The numbers of a run, by name, and what its picture shows.
    measure: Callable[[Cell, Result], dict[str, float]]
    picture: Callable[[Result], dict[str, list[float]]]
    #: Changes when `measure` does, so that old rows are not read as new ones.
    revision: str
    #: Why some of these cells cannot be asked of a candidate, whose model lacks what they are about; empty: they can.
    lacks: Callable[[Sequence[Cell], Candidate | None], str] = lambda cells, candidate: ""
    #: What the candidate's own bound is of, in a cell.
    reference: Callable[[Cell, Statistic, Candidate | None], float] = lambda cell, rule, candidate: math.nan
    #: In a sentence what the candidate is judged as.
    judged_as: Callable[[Candidate, str], str] = lambda candidate, scope: f"Judged as {scope}."
    #: Plain cases, by name.
    plain: Mapping[str, Cell] = field(default_factory=dict)
    #: Whether a candidate runs in a guest alone.
    needs_guest: Callable[[Candidate], bool] = lambda candidate: False
    #: Whether it judges queues.
    has_queues: bool = False
    #: Whether harm on the population of paths is a row.
    has_population: bool = False

    @property
    def has_own_bounds(self) -> bool:
        """Do candidates set bounds themselves? Then a page has differences to baselines and no verdicts beside each."""
        return any(each.own for each in self.statistics.values())

    @functools.cached_property
    def cells(self) -> Mapping[str, Cell]:
        """Every cell by name, plain cases too; of those that two experiments look at, the first's."""
        return {**self.plain, **{cell.name: cell for each in reversed(self.experiments) for cell in each.cells}}


#: Media that adapt their rate (RFC 8867): NADA, GCC, SCReAM.
MEDIA = ("media", "media-gcc", "media-scream")


def instruments(flows: Sequence[Mapping[str, Any]], packets: bool) -> dict[str, Any]:
    """What a run writes down: polls of long flows, packets of calls, requests of transfers."""

    def named(*apps: str) -> list[str]:
        return [
            name if "count" not in flow else f"{name}-{number}"
            for flow in flows
            if flow.get("app", "bulk") in apps
            for name in [flow["name"]]
            for number in range(1, flow.get("count", 1) + 1)
        ]

    return {
        "polls": named("bulk"),
        "packets": named("voip", *MEDIA, *(("bulk",) if packets else ())),
        "requests": named("transfers"),
        "poll_interval": "100ms",
    }


Flow = dict[str, Any]


def under_test(count: int = 1, **more: Any) -> Flow:
    """Flows under test."""
    return {"name": "test", "count": count, **more} if count > 1 else {"name": "test", **more}


def other(cc: str, **more: Any) -> Flow:
    """A long flow of another sender."""
    return {"name": "other", "cc": cc, **more}


def short(name: str, size: str, **more: Any) -> Flow:
    """Transfers of one size, one after the other."""
    params = {"bytes": size, "idle_low": "200ms", "idle_high": "600ms"}
    return {"name": name, "app": "transfers", "params": params, **more}


def drawn(spread: str = "500ms") -> dict[str, str]:
    """What a seed draws: starts and, less than a packet's time, what hosts take to send."""
    return {"start_spread": spread, "processing_jitter": "20us"}


def dumbbell(
    *flows: Flow,
    duration: str = "40s",
    rate: str = "20mbit",
    rtt: str = "40ms",
    queue: Any = "1bdp",
    spread: str = "500ms",
    **more: Any,
) -> dict[str, Any]:
    """A scenario with one bottleneck."""
    # Who gives the ways' delays apart needs no RTT.
    delays = {} if "delay" in more else {"rtt": rtt}
    neck = {"rate": rate, **delays, "queue": queue, "back_queue": "1000packets", **more}
    return {"duration": duration, "dumbbell": neck, "flow": list(flows), "randomness": drawn(spread)}


def several(count: int, what: str = "flow") -> str:
    """`count` of them, in words."""
    return f"{count or 'no'} {what}{'s' if count > 1 else ''}"
