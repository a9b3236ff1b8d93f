"""Two results side by side: what each metric says of both, by how much they differ, and one figure over the other.

It does not matter where they come from: two seeds, two algorithms, the simulator and the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailback import metrics
from tailback.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Difference", "compare", "overlay"]


@dataclass(frozen=True)
class Difference:
    """One metric of both results."""

    metric: str
    """What is measured."""
    of: str
    """Of which flow or link."""
    unit: str
    a: float
    b: float

    @property
    def change(self) -> float:
        """(b − a)/a; NaN if a is zero or either is missing."""
        return (self.b - self.a) / self.a if self.a else math.nan

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"change": self.change}


def _total(column: str, scale: float = 1.0) -> Callable[[Result, str], float]:
    return lambda result, flow: float(result.column("flows", column)[result.flow_index(flow)]) * scale


def _link_total(column: str, scale: float = 1.0) -> Callable[[Result, str], float]:
    return lambda result, link: float(result.column("links", column)[result.link_index(link)]) * scale


def _delay(quantile: float) -> Callable[[Result, str], float]:
    def measure(result: Result, flow: str) -> float:
        _, delays = metrics.one_way_delay(result, flow)
        return float(np.quantile(delays, quantile)) * 1e3 if len(delays) else math.nan

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


Measure = Callable[[Result, str], float]
_TCP: list[tuple[str, str, Measure]] = [
    ("goodput", "Mbit/s", lambda result, flow: metrics.goodput(result, flow) / 1e6),
    ("loss rate", "%", lambda result, flow: 100 * metrics.flow_loss_rate(result, flow)),
    ("segments retransmitted", "", _total("segments_retransmitted")),
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
_LINK: list[tuple[str, str, Measure]] = [
    ("utilisation", "%", lambda result, link: 100 * metrics.utilisation(result, link)),
    ("packets dropped", "", _link_total("dropped")),
    ("packets marked", "", _link_total("marked")),
    ("backlog, mean", "kB", _link_total("backlog_bytes_mean", 1e-3)),
]


def _measured(measure: Measure, result: Result, of: str) -> float:
    try:
        return float(measure(result, of))
    except (metrics.MissingRows, KeyError, ValueError):
        # Not recorded in this one.
        return math.nan


def compare(a: Result, b: Result) -> list[Difference]:
    """Every metric that both results, or one of them, can tell, for the flows and links they share by name.

    >>> import tailback as tb
    >>> from tailback.compare import compare
    >>> base = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("reno")], duration="5s")
    >>> rows = compare(tb.run(base), tb.run(base.with_(seed=2)))
    >>> rows[0].metric, rows[0].of, rows[0].unit
    ('goodput', 'bulk', 'Mbit/s')
    """
    rows = []
    for flow in (name for name in a.flow_names if name in b.flow_names):
        is_tcp = a.flow_spec(flow).get("tcp") is not None
        rows += [(name, flow, unit, measure) for name, unit, measure in (_TCP if is_tcp else _UDP)]
    shared = (spec for spec in a.resolved["links"] if spec["name"] in b.link_names)
    for link in (spec["name"] for spec in shared if spec.get("rate_bps") is not None):
        rows += [(name, link, unit, measure) for name, unit, measure in _LINK]
    out = [Difference(name, of, unit, _measured(m, a, of), _measured(m, b, of)) for name, of, unit, m in rows]
    return [row for row in out if not (math.isnan(row.a) and math.isnan(row.b))]


def overlay(a: Result, b: Result, labels: tuple[str, str] = ("A", "B")) -> Figure:
    """Window, backlog and delay of both results, one colour each, on common axes."""
    from matplotlib import pyplot as plt

    panels: list[tuple[str, str, Callable[[Result], list[tuple[Any, Any]]]]] = [
        ("congestion window", "kB", _windows),
        ("backlog at the bottleneck", "kB", _backlog),
        ("one-way delay", "ms", _delays),
    ]
    figure, axes = plt.subplots(len(panels), 1, sharex=True, figsize=(8.0, 7.5), layout="constrained")
    for axis, (title, unit, series) in zip(axes, panels, strict=True):
        for result, label, colour in zip((a, b), labels, ("#0072b2", "#d55e00"), strict=True):
            for number, (times, values) in enumerate(series(result)):
                # Drawing every packet of a long run takes minutes and shows no more.
                step = max(1, len(times) // 20_000)
                shown = label if number == 0 else None
                axis.plot(times[::step], values[::step], color=colour, linewidth=0.8, alpha=0.8, label=shown)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel(unit)
        if axis.lines:
            axis.legend(loc="upper right", fontsize=8)
    axes[-1].set_xlabel("time (s)")
    plt.close(figure)
    return figure


def _windows(result: Result) -> list[tuple[Any, Any]]:
    if "polls" not in result:
        return []
    rows = result.numpy("polls")
    out = []
    for flow in np.unique(rows["flow"]):
        mine = rows["flow"] == flow
        out.append((rows["t_s"][mine], rows["cwnd"][mine] / 1e3))
    return out


def _backlog(result: Result) -> list[tuple[Any, Any]]:
    if "queue_polls" not in result:
        return []
    rows = result.where_link("queue_polls", result.bottleneck)
    return [(rows["t_s"], rows["backlog_bytes"] / 1e3)]


def _delays(result: Result) -> list[tuple[Any, Any]]:
    if "packets" not in result:
        return []
    out = []
    for name in result.flow_names:
        # Of datagrams only: a transfer's own packets would bury them.
        if result.flow_spec(name).get("tcp") is None:
            times, delays = metrics.one_way_delay(result, name)
            out.append((times, delays * 1e3))
    return out
