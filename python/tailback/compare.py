"""Compares results side by side: each metric of each result, and its change from the baseline.

The results may differ in anything: seed, algorithm, queue, simulator or kernel. `tailback.plots` draws them together
with `overview`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import metrics, registry
from tailback.capture.matching import matched
from tailback.errors import TailbackError, nearest
from tailback.experience import NOTICED, PACKET_BYTES, is_slight
from tailback.result import Result

__all__ = ["Comparison", "NothingToCompare", "compare", "that_matter"]


class NothingToCompare(TailbackError, ValueError):
    """The results have nothing in common, or the baseline is not one of them."""


@dataclass(frozen=True)
class Comparison:
    """One metric of every result."""

    metric: str
    """Name of the metric."""
    of: str
    """The flow or link that is measured."""
    unit: str
    values: Mapping[str, float]
    """Values by the result's label; NaN if a result has no rows for it, or no such flow or link."""
    baseline: str
    """The label of the result that changes are relative to."""

    def change(self, label: str) -> float:
        """(value − baseline's)/baseline's; NaN if the baseline's is zero or either is missing."""
        base = self.values[self.baseline]
        return (self.values[label] - base) / base if base else math.nan

    @property
    def largest_change(self) -> float:
        """The largest absolute change of any result; infinite if only the baseline's value is zero."""
        changes = [abs(self.change(label)) for label in self.values if label != self.baseline]
        if not self.values[self.baseline]:
            return math.inf if any(value > 0 for value in self.values.values()) else 0.0
        return max((each for each in changes if not math.isnan(each)), default=0.0)

    @property
    def is_unnoticed(self) -> bool:
        """Whether every result lies within the step that people notice; False where no step is known."""
        step = NOTICED.get(_NOTICED_AS.get(self.metric, ""))
        base = self.values[self.baseline]
        return step is not None and all(abs(value - base) <= step.step for value in self.values.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `values` and `change` by label."""
        changes = {label: self.change(label) for label in self.values if label != self.baseline}
        kept = {"metric": self.metric, "of": self.of, "unit": self.unit}
        return kept | {"values": dict(self.values), "change": changes}


def _total(column: str, scale: float = 1.0) -> Callable[[Result, str], float]:
    return lambda result, flow: float(result.column("flows", column)[result.flow_index(flow)]) * scale


def _link_total(column: str, scale: float = 1.0) -> Callable[[Result, str], float]:
    return lambda result, link: float(result.column("links", column)[result.link_index(link)]) * scale


def _delay(quantile: float) -> Callable[[Result, str], float]:
    return lambda result, flow: 1e3 * float(metrics.delay_quantiles(result, flow, (quantile,), induced=False)[0])


def _response(quantile: float) -> Callable[[Result, str], float]:
    return lambda result, flow: 1e3 * float(metrics.response_time_quantiles(result, flow, (quantile,))[0])


def _echo(quantile: float) -> Callable[[Result, str], float]:
    def measure(result: Result, flow: str) -> float:
        _, times = metrics.echo_rtts(result, flow)
        return 1e3 * float(metrics.quantiles_of(times, (quantile,))[0])

    return measure


def _epoch(key: str) -> Callable[[Result, str], float]:
    def measure(result: Result, flow: str) -> float:
        found = metrics.epochs(result, flow).duration_s
        if key == "number":
            return float(len(found))
        return float(np.median(found)) if len(found) else math.nan

    return measure


def _window(result: Result, flow: str) -> float:
    before = metrics.congestion_events(result, flow).cwnd_before[1:]
    return float(np.median(before)) / 1000 if len(before) else math.nan


#: The columns of `experience.NOTICED` by the names of these metrics.
_NOTICED_AS = {"quality (G.107)": "experience_mos", "delay, 95 %": "delay_p95_ms"}
Measure = Callable[[Result, str], float]
_TCP: list[tuple[str, str, Measure]] = [
    ("goodput", "Mbit/s", lambda result, flow: metrics.goodput(result, flow) / 1e6),
    ("loss rate", "%", lambda result, flow: 100 * metrics.flow_loss_rate(result, flow)),
    ("segments retransmitted", "", lambda result, flow: float(metrics.retransmitted(result, flow))),
    ("recoveries", "", _total("recoveries")),
    ("timeouts", "", _total("timeouts")),
    ("epochs", "", _epoch("number")),
    ("epoch duration, median", "s", _epoch("median")),
    ("window before congestion, median", "kB", _window),
    ("smallest RTT", "ms", _total("rtt_min_s", 1e3)),
]
_UDP: list[tuple[str, str, Measure]] = [
    ("packets sent", "", _total("packets_sent")),
    ("loss rate", "%", lambda result, flow: 100 * metrics.flow_loss_rate(result, flow)),
    ("delay, median", "ms", _delay(0.5)),
    ("delay, 95 %", "ms", _delay(0.95)),
    ("delay, 99 %", "ms", _delay(0.99)),
    ("jitter (RFC 3550)", "ms", lambda result, flow: 1e3 * metrics.jitter(result, flow)),
]
_CALL: list[tuple[str, str, Measure]] = [
    ("quality (G.107)", "MOS", lambda result, flow: metrics.voice_quality(result, flow).mos)
]
_ASKING: list[tuple[str, str, Measure]] = [
    ("response time, median", "ms", _response(0.5)),
    ("response time, 95 %", "ms", _response(0.95)),
    ("never answered", "%", lambda result, flow: 100 * metrics.unanswered(result, flow)),
]
_PING: list[tuple[str, str, Measure]] = [
    ("round trip, median", "ms", _echo(0.5)),
    ("round trip, 95 %", "ms", _echo(0.95)),
]
_LINK: list[tuple[str, str, Measure]] = [
    ("utilisation", "%", lambda result, link: 100 * metrics.utilisation(result, link)),
    ("packets dropped", "", _link_total("dropped")),
    ("packets marked", "", _link_total("marked")),
    ("backlog, mean", "kB", _link_total("backlog_bytes_mean", 1e-3)),
]


def _measures(flow: Mapping[str, Any]) -> list[tuple[str, str, Measure]]:
    if flow.get("tcp") is not None:
        return [*_TCP, *_ASKING]
    datagrams = registry.application(flow).datagrams
    return _PING if datagrams == "echo" else [*_UDP, *(_CALL if datagrams == "voice" else [])]


#: Metrics in order of interest: user experience, what flows get, loss, link.
_FIRST = (
    ("delay, 95 %", "response time, 95 %", "round trip, 95 %", "quality (G.107)"),
    ("goodput",),
    ("loss rate", "never answered"),
    ("backlog, mean", "utilisation"),
)


def that_matter(rows: Sequence[Comparison], most: int = 10) -> list[Comparison]:
    """At most `most` of the rows, in the order of interest, largest change first.

    What no person notices, and slight differences, come last.
    """
    differing = [row for row in rows if row.largest_change]

    def rank(row: Comparison) -> tuple[bool, int, float]:
        tier = next((number for number, names in enumerate(_FIRST) if row.metric in names), len(_FIRST))
        least = PACKET_BYTES / 1000 if row.unit == "kB" else 0.0
        base = row.values[row.baseline]
        is_last = row.is_unnoticed or all(is_slight(base, value, least) for value in row.values.values())
        return is_last, tier, -row.largest_change

    return sorted(differing, key=rank)[:most]


def _own_names(results: Mapping[str, Result], flow: str) -> list[str]:
    """Names of the metrics that flows' programs measured in any result."""
    rows = [row for result in results.values() for row in result.program_metrics()]
    return list(dict.fromkeys(row["measured"] for row in rows if row["flow"] == flow))


def _own(name: str) -> Measure:
    def measure(result: Result, flow: str) -> float:
        found = [row["value"] for row in result.program_metrics() if (row["flow"], row["measured"]) == (flow, name)]
        return float(found[0]) if found else math.nan

    return measure


def _measured(measure: Measure, result: Result, of: str) -> float:
    try:
        return float(measure(result, of))
    except (metrics.MissingRows, KeyError, ValueError):
        # This result did not record the metric.
        return math.nan


def compare(
    results: Mapping[str, Result], *, baseline: str | None = None, names: Mapping[str, str] | None = None
) -> list[Comparison]:
    """Every metric that at least one of the results has rows for, of the flows and links they share by name.

    `results` are by label, two or more; `baseline` is the label that changes are relative to, the first by default. The
    flows of a capture beside a run are matched by addresses or order; `names` maps the run's names to the capture's.
    Raises `NothingToCompare` for fewer than two results, an unknown baseline, or results that share neither a flow
    nor a link.

    >>> import tailback as tb
    >>> from tailback.compare import compare
    >>> base = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("reno")], duration="5s")
    >>> rows = compare({"one": tb.run(base), "two": tb.run(base.with_(seed=2))})
    >>> rows[0].metric, rows[0].of, rows[0].unit
    ('goodput', 'bulk', 'Mbit/s')
    """
    if len(results) < 2:
        raise NothingToCompare("one result cannot be compared. Give two or more")
    labels = list(results)
    base = labels[0] if baseline is None else baseline
    if base not in results:
        close = nearest(base, labels)
        hint = f' Did you mean "{close}"?' if close else ""
        raise NothingToCompare(f'the baseline "{base}" is none of the results.{hint} There are: {", ".join(labels)}')
    results, _ = matched(results, names)
    first, *others = results.values()
    rows = []
    for flow in (name for name in first.flow_names if all(name in other.flow_names for other in others)):
        rows += [(name, flow, unit, measure) for name, unit, measure in _measures(first.flow_spec(flow))]
        rows += [(f"{name} by its program", flow, "", _own(name)) for name in _own_names(results, flow)]
    shared = (spec for spec in first.resolved["links"] if all(spec["name"] in other.link_names for other in others))
    for link in (spec["name"] for spec in shared if metrics.holds_queue(spec)):
        rows += [(name, link, unit, measure) for name, unit, measure in _LINK]
    if not rows:
        raise NothingToCompare("the results share no flow and no link by name: there is nothing to compare")
    out = [
        Comparison(name, of, unit, {label: _measured(m, each, of) for label, each in results.items()}, base)
        for name, of, unit, m in rows
    ]
    return [row for row in out if not all(math.isnan(value) for value in row.values.values())]
