"""What every kind of dossier shares: statistics with their rules, cells, experiments and controls.

A dossier judges a congestion control (`table.py`) or a queue (`queues/`). The runner, the judge and the pages depend on
neither: they work from the `Procedure` they are given.
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
    "BUFFERS",
    "EXPLAIN",
    "GENERAL",
    "L4S",
    "MEDIA",
    "MUST",
    "NO_WORD",
    "SHOULD",
    "Cell",
    "Control",
    "Experiment",
    "Flow",
    "Procedure",
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
#: The RFC writes this "should" in lower case: advice, not an RFC 2119 keyword.
ADVICE = "should"
GENERAL, L4S = "general", "l4s"
#: Windows of a transport under test: what Linux allows TCP (tcp_wmem[2] and tcp_rmem[2]). A stack's own hold less than
#: some paths: 1.25 MB in quinn and noq, where a satellite's path and its queue hold 3 MB.
BUFFERS: Mapping[str, str] = {"send_buffer": "4MiB", "receive_buffer": "6MiB"}


@dataclass(frozen=True)
class Statistic(Beside):
    """A number measured in a run, and how much worse than the baseline a candidate's may be."""

    title: str
    unit: str
    #: Whether a larger value is better.
    more: bool
    #: The bound is `factor` × the baseline's value, plus `allowance` (minus it if more is better).
    factor: float
    allowance: float
    #: Reason for the factor and the allowance.
    source: str
    #: "fitted" and when, if the rule was changed with results in view.
    changed: str = ""
    #: Key of the number that the rule judges, if it differs from the statistic's own name.
    of: str = ""
    #: Words for the reference if the candidate sets its own bound, such as "target"; empty if the baselines set it.
    own: str = ""
    #: The only baselines that count; empty if all of them do.
    beside: tuple[str, ...] = ()
    #: The largest possible value, if less is better.
    most: float = math.inf

    @property
    def rule(self) -> str:
        """The rule in words, such as "at most 2 × baseline + 5 ms"."""
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

    #: Unique name, also the scenario's.
    name: str
    #: Label for readers, distinct from those of the neighbouring cells.
    label: str
    #: The scenario as a scenario file has it, without `cc` for the flows under test.
    given: Mapping[str, Any]
    statistics: tuple[str, ...]
    #: Start and end, in seconds, of the window for statistics that are measured "after" an event.
    after: tuple[float, float] | None = None
    #: Whether `--quick` includes it.
    quick: bool = False
    #: The algorithm of the other long flows, if the rule of Ware et al. is to be applied with it; else empty.
    rival: str = ""
    #: Name of the cell that is the plain case of this special case; empty if it has none.
    plain: str = ""

    def scenario(self, cc: str | Mapping[str, Any] | Candidate | None, scope: str = GENERAL) -> Scenario:
        """The scenario with the flows under test running `cc`; without these flows if `cc` is None.

        In the scope "l4s", flows under test that ask for ECN use the L4S code point.
        """
        cc = cc.cc if isinstance(cc, Candidate) else cc
        flows = []
        for flow in self.given["flow"]:
            is_tested = flow["name"].startswith("test")
            if is_tested and cc is None:
                continue
            if is_tested and scope == L4S and flow.get("stack", {}).get("ecn") is True:
                flow = {**flow, "stack": {**flow["stack"], "ecn": "l4s", "accecn": True}}
            if is_tested and cc is not None:
                fields = flow_fields(cc)
                flow = {**(BUFFERS if "transport" in fields else {}), **flow, **fields}
            flows.append(flow)
        shown = instruments(flows, packets="late_packets" in self.statistics)
        return Scenario.from_dict({**self.given, "flow": flows, "name": self.name, "instruments": shown})

    @property
    def has_others(self) -> bool:
        """Whether other flows share the path, so that a harm is measured."""
        return any(name.startswith("harm_") for name in self.statistics)

    @property
    def seconds(self) -> float:
        """Simulated duration in seconds."""
        return float(str(self.given["duration"]).removesuffix("s"))


@dataclass(frozen=True)
class Experiment:
    """A criterion of the RFC with the cells that examine it, or the reason why none do."""

    name: str
    #: Section of RFC 9743 or, for a queue, of RFC 7928 or RFC 7567.
    section: str
    title: str
    #: The RFC's requirement level for the candidate's author: `MUST`, `SHOULD`, `EXPLAIN`, `ADVICE` or none.
    word: str
    about: str
    cells: tuple[Cell, ...] = ()
    #: Why there are no cells.
    not_run: str = ""
    #: Names of the experiments whose cells examine this criterion as well; it then has no cells.
    covered_by: tuple[str, ...] = ()
    #: Reason shown if a candidate does not declare the property that this experiment needs; empty: the scope is the
    #: reason.
    needs: str = ""
    #: Reason it does not apply to a candidate that runs in a guest; empty if it applies.
    not_in_guest: str = ""

    @property
    def is_special(self) -> bool:
        """Whether any of its cells has a plain case."""
        return any(cell.plain for cell in self.cells)

    @property
    def is_must(self) -> bool:
        """Whether the RFC requires the author to examine it (MUST)."""
        return self.word.startswith("MUST")


@dataclass(frozen=True)
class Control:
    """An algorithm with a known verdict on some cells; any other verdict means the suite is broken."""

    cc: str
    experiment: str
    cells: tuple[str, ...]
    statistic: str
    #: Whether it must fail in at least one of the cells; if not, it must fail in none.
    fails: bool
    source: str
    #: "fitted" and why, if it was changed with results in view.
    changed: str = ""
    #: Whether `--quick` includes it. A quick dossier's controls are algorithms that others have written.
    quick: bool = True

    @property
    def label(self) -> str:
        """Label of its runs in the store."""
        return self.cc.rpartition(":")[2].replace(",", " ")


@dataclass(frozen=True)
class Procedure:
    """The definition of one kind of dossier: experiments, statistics, rules, baselines and controls."""

    #: Name of the procedure in stored runs.
    name: str
    #: The RFC in the page titles, such as "RFC 9743".
    rfc: str
    #: How verdicts are reached: the note below a page's table.
    note: str
    statistics: Mapping[str, Statistic]
    experiments: tuple[Experiment, ...]
    controls: tuple[Control, ...]
    #: Baselines by default. Controls are always judged against these.
    baselines: tuple[str, ...]
    #: Scopes with their descriptions, and the scope of each built-in candidate that is not general.
    scopes: Mapping[str, str]
    scope_of: Mapping[str, str]
    #: Builds and checks the candidate that the caller names.
    candidate: Callable[..., Candidate]
    #: A short trial run before the full assessment, and its description.
    trial: Callable[[Candidate], Scenario]
    trial_words: str
    #: Restricts a cell to the statistics that apply to a candidate; None if none applies.
    scoped: Callable[[Experiment, Cell, str, Candidate | None], Cell | None]
    #: The numbers of a run by name, and the series of its picture.
    measure: Callable[[Cell, Result], dict[str, float]]
    picture: Callable[[Result], dict[str, list[float]]]
    #: Changes when `measure` does, so that old rows are not read as new ones.
    revision: str
    #: Why a candidate cannot run some of these cells, because its model lacks a feature; empty if it can.
    lacks: Callable[[Sequence[Cell], Candidate | None], str] = lambda cells, candidate: ""
    #: Reference value of a bound that the candidate sets itself, such as its target; NaN if baselines set it.
    reference: Callable[[Cell, Statistic, Candidate | None], float] = lambda cell, rule, candidate: math.nan
    #: A sentence that states what the candidate is judged as.
    judged_as: Callable[[Candidate, str], str] = lambda candidate, scope: f"Judged as {scope}."
    #: Plain cases, by name.
    plain: Mapping[str, Cell] = field(default_factory=dict)
    #: Whether a candidate can run only in a guest.
    needs_guest: Callable[[Candidate], bool] = lambda candidate: False
    #: Whether the candidates are queues.
    has_queues: bool = False
    #: Whether harm on the population of paths is a row.
    has_population: bool = False
    #: Baselines that set no bound unless they are the only ones, by label: their names, and a sentence about each.
    compared: Mapping[str, str] = field(default_factory=dict)
    compared_notes: Mapping[str, str] = field(default_factory=dict)
    #: Whether a candidate is compared with those by default.
    is_compared: Callable[[Candidate], bool] = lambda candidate: False

    @property
    def has_own_bounds(self) -> bool:
        """Whether candidates set bounds themselves; pages then show differences to baselines, and no verdicts."""
        return any(each.own for each in self.statistics.values())

    def setting(self, against: Sequence[str]) -> tuple[str, ...]:
        """Those of these baselines that set bounds."""
        return tuple(label for label in against if label not in self.compared) or tuple(against)

    @functools.cached_property
    def cells(self) -> Mapping[str, Cell]:
        """Every cell by name, plain cases included; of cells with one name, the first experiment's."""
        return {**self.plain, **{cell.name: cell for each in reversed(self.experiments) for cell in each.cells}}


#: Media that adapt their rate (RFC 8867): NADA, GCC, SCReAM.
MEDIA = ("media", "media-gcc", "media-scream")


def instruments(flows: Sequence[Mapping[str, Any]], packets: bool) -> dict[str, Any]:
    """The instruments of a run: polls of long flows, packets of calls, requests of transfers."""

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
    """The flows under test."""
    return {"name": "test", "count": count, **more} if count > 1 else {"name": "test", **more}


def other(cc: str, **more: Any) -> Flow:
    """A long flow of another sender."""
    return {"name": "other", "cc": cc, **more}


def short(name: str, size: str, **more: Any) -> Flow:
    """Transfers of one size, one after the other."""
    params = {"bytes": size, "idle_low": "200ms", "idle_high": "600ms"}
    return {"name": name, "app": "transfers", "params": params, **more}


def drawn(spread: str = "500ms") -> dict[str, str]:
    """The fields that a seed draws: start times, and the hosts' send delays of less than one packet's time."""
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
    # No RTT is needed if the caller gives the delay of each direction.
    delays = {} if "delay" in more else {"rtt": rtt}
    neck = {"rate": rate, **delays, "queue": queue, "back_queue": "1000packets", **more}
    return {"duration": duration, "dumbbell": neck, "flow": list(flows), "randomness": drawn(spread)}


def several(count: int, what: str = "flow") -> str:
    """`count` and the noun, such as "1 flow", "4 flows"."""
    return f"{count or 'no'} {what}{'s' if count > 1 else ''}"
