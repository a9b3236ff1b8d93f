"""Two results side by side: what each metric says of both, by how much they differ, and one figure over the other.

It does not matter where they come from: two seeds, two algorithms, the simulator and the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailback import metrics
from tailback.metrics import Rows
from tailback.metrics.rows import Floats
from tailback.plots.recipes import POINTS, Curve
from tailback.plots.style import BLUE, FULL_WIDTH, VERMILLION, house_style, new_figure
from tailback.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Difference", "Panel", "compare", "overlay", "panels"]


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


def _response(quantile: float) -> Callable[[Result, str], float]:
    return lambda result, flow: 1e3 * float(metrics.response_time_quantiles(result, flow, (quantile,))[0])


def _echo(quantile: float) -> Callable[[Result, str], float]:
    def measure(result: Result, flow: str) -> float:
        _, times = metrics.echo_rtts(result, flow)
        return 1e3 * float(np.quantile(times, quantile)) if len(times) else math.nan

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
    kind = flow["app"]["kind"]
    return _PING if kind == "ping" else [*_UDP, *(_CALL if kind.startswith("voip") else [])]


def _own_names(a: Result, b: Result, flow: str) -> list[str]:
    """What the flow's programs measured in either result."""
    rows = [*a.program_metrics(), *b.program_metrics()]
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
        rows += [(name, flow, unit, measure) for name, unit, measure in _measures(a.flow_spec(flow))]
        rows += [(f"{name} by its program", flow, "", _own(name)) for name in _own_names(a, b, flow)]
    shared = (spec for spec in a.resolved["links"] if spec["name"] in b.link_names)
    for link in (spec["name"] for spec in shared if metrics.holds_queue(spec)):
        rows += [(name, link, unit, measure) for name, unit, measure in _LINK]
    out = [Difference(name, of, unit, _measured(m, a, of), _measured(m, b, of)) for name, of, unit, m in rows]
    return [row for row in out if not (math.isnan(row.a) and math.isnan(row.b))]


# --- Drawn over one another ---------------------------------------------------------------------------------------

#: One colour a result; the flows of a result differ by their dashes.
COLOURS = (BLUE, VERMILLION)
_STYLES = ("-", "--", ":")


@dataclass(frozen=True)
class Panel:
    """One quantity of both results over time: its name, its unit, and the curves."""

    title: str
    unit: str
    curves: list[Curve]


_Series = Callable[[Result], list[tuple[str, Floats, Floats]]]


def panels(a: Result, b: Result, labels: tuple[str, str] = ("A", "B")) -> list[Panel]:
    """Window, backlog, throughput, delay and internals of both results; what neither recorded is left out."""
    names = dict.fromkeys(name for result in (a, b) for name in result.internals_names)
    wanted: list[tuple[str, str, _Series]] = [
        ("cwnd", "segments", _windows),
        ("queue", "kB", _backlog),
        ("throughput", "Mbit/s", _throughput),
        ("one-way delay", "ms", _delays),
        *((name, _unit(name), _internals(name)) for name in names),
    ]
    out = []
    for title, unit, series in wanted:
        curves = []
        for result, label, colour in zip((a, b), labels, COLOURS, strict=True):
            found = series(result)
            for number, (flow, times, values) in enumerate(found):
                name = label if len(found) == 1 else f"{label}: {flow}"
                curves.append(Curve(name, times, values, colour, _STYLES[number % len(_STYLES)]))
        if curves:
            out.append(Panel(title, unit, curves))
    return out


def overlay(a: Result, b: Result, labels: tuple[str, str] = ("A", "B")) -> Figure:
    """Both results on common axes, one colour each: what each recorded of window, queue, throughput and delay."""
    drawn = panels(a, b, labels)
    if not drawn:
        raise metrics.MissingRows("polls", "polls, queue_polls and packets")
    with house_style():
        figure, grid = new_figure(len(drawn), width=FULL_WIDTH, height=1.75 * len(drawn), sharex=True)
        axes = [row[0] for row in grid]
        for axis, panel in zip(axes, drawn, strict=True):
            for curve in panel.curves:
                axis.plot(
                    curve.x, curve.y, color=curve.colour, linestyle=curve.style, lw=0.9, alpha=0.85, label=curve.label
                )
            axis.set_title(panel.title)
            axis.set_ylabel(panel.unit)
            if all(np.nanmin(curve.y) >= 0 for curve in panel.curves):
                axis.set_ylim(bottom=0)
            axis.legend(loc="upper right", ncols=2)
        axes[-1].set_xlabel("time (s)")
    return figure


def _thin(series: tuple[Floats, Floats], scale: float) -> tuple[Floats, Floats]:
    # Drawing every packet of a long run takes minutes and shows no more.
    times, values = metrics.decimate(*series, POINTS)
    return times, values * scale


def _each(
    result: Result, flows: Iterable[int], series: Callable[[Rows, int], tuple[Floats, Floats]]
) -> list[tuple[str, Floats, Floats]]:
    rows = Rows.of(result)
    out = []
    for flow in flows:
        try:
            times, values = series(rows, flow)
        except metrics.MissingRows:
            continue
        if len(times):
            out.append((rows.flow_names[flow], times, values))
    return out


def _windows(result: Result) -> list[tuple[str, Floats, Floats]]:
    def series(rows: Rows, flow: int) -> tuple[Floats, Floats]:
        return _thin(metrics.cwnd_series(rows, flow), 1.0 / rows.mss(flow))

    return _each(result, Rows.of(result).tcp_flows, series)


def _backlog(result: Result) -> list[tuple[str, Floats, Floats]]:
    rows = Rows.of(result)
    try:
        times, values = _thin(metrics.backlog_series(rows), 1e-3)
    except metrics.MissingRows:
        # Nobody watched, or there is no bottleneck.
        return []
    return [(rows.link_names[rows.bottleneck], times, values)] if len(times) else []


def _throughput(result: Result) -> list[tuple[str, Floats, Floats]]:
    # Some sixty bins, none so short that single round trips show.
    bin_s = min(1.0, max(0.1, result.duration_s / 60))

    def series(rows: Rows, flow: int) -> tuple[Floats, Floats]:
        times, rates = metrics.throughput_series(rows, flow, bin_s)
        return times + bin_s / 2, rates / 1e6

    return _each(result, Rows.of(result).tcp_flows, series)


def _delays(result: Result) -> list[tuple[str, Floats, Floats]]:
    # Of datagrams only: a transfer's own packets would bury them.
    def series(rows: Rows, flow: int) -> tuple[Floats, Floats]:
        return _thin(metrics.one_way_delay(rows, flow), 1e3)

    return _each(result, Rows.of(result).udp_flows, series)


def _unit(name: str) -> str:
    """An internal's unit, which its name ends with unless it is a number or segments."""
    _, _, ending = name.rpartition("_")
    return {"s": "s", "ms": "ms", "bps": "bit/s"}.get(ending, "")


def _internals(name: str) -> _Series:
    def of_result(result: Result) -> list[tuple[str, Floats, Floats]]:
        def series(rows: Rows, flow: int) -> tuple[Floats, Floats]:
            table = rows.of_flow("internals", flow)
            is_it = np.asarray(table["name"]) == rows.internals_names.index(name)
            times, values = np.asarray(table["t_s"])[is_it], np.asarray(table["value"])[is_it]
            there = np.isfinite(values)
            return _thin((times[there], values[there]), 1.0)

        if name not in result.internals_names:
            return []
        return _each(result, Rows.of(result).tcp_flows, series)

    return of_result
