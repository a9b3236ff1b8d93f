"""Everything recorded, over time: of one run in panels, of several over one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import metrics
from ..metrics import Rows
from ..metrics.rows import Floats
from . import flows as who
from .recipes import POINTS, Curve, bin_s, draw_drops, rate_line, throughput
from .registry import recipe
from .style import FULL_WIDTH, INK, SKY, SOFT, label_ends, new_figure


@recipe("overview", "Everything recorded, over time")
def overview(results: Mapping[str, Rows], *, start: float | None = None, end: float | None = None) -> Figure:
    """Everything that was recorded, over time: windows, round-trip times, queue, one-way delay, throughput.

    Panels whose instrument was off are left out; with nothing recorded, what was counted is drawn as bars. Several
    results are drawn over one another, a colour a result.
    """
    if len(results) > 1:
        return over_one_another(results, start, end)
    rows = next(iter(results.values()))
    kinds = _kinds(rows)
    if not kinds:
        return throughput(results)
    figure, axes = new_figure(len(kinds), 1, height=1.75 * len(kinds) + 0.5, sharex=True)
    for (ax,), kind in zip(axes, kinds, strict=True):
        kind.draw(ax, rows, start, end)
        ax.yaxis.set_major_locator(MaxNLocator(4))
    axes[-1][0].set_xlabel("time (s)")
    axes[-1][0].set_xlim(0.0 if start is None else start, rows.duration_s if end is None else end)
    axes[0][0].set_title(f"{rows.name or 'run'}: {who.path_of(rows)}, seed {rows.seed}")
    return figure


class _Kind:
    """One row of the overview: which rows it needs and how it draws them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def draw(self, ax: Axes, rows: Rows, start: float | None, end: float | None) -> None:
        ends: list[tuple[float, float, str, str]] = []
        look = who.line_styles({"": rows})
        if self.kind in ("cwnd", "srtt"):
            for flow in rows.tcp_flows:
                curve = _state(rows, flow, self.kind, start, end)
                if curve is None or len(curve[0]) == 0:
                    continue
                t, v = metrics.decimate(*curve, POINTS)
                colour = look["", flow].colour
                ax.plot(t, v, color=colour, lw=0.9)
                ends.append((float(t[-1]), float(v[-1]), rows.flow_names[flow], colour))
            ax.set_ylabel("cwnd (segments)" if self.kind == "cwnd" else "smoothed RTT (ms)")
            ax.set_ylim(bottom=0)
        elif self.kind == "queue":
            t, q = metrics.decimate(*metrics.backlog_series(rows, None, start, end), POINTS)
            ax.fill_between(t, q / 1e3, color=SKY, alpha=0.35, lw=0, step="post")
            ax.plot(t, q / 1e3, color=INK, lw=0.6, drawstyle="steps-post")
            ax.set_ylabel("queue (kB)")
            limit = rows.limit_bytes(rows.bottleneck)
            if np.isfinite(limit):
                ax.axhline(limit / 1e3, color=SOFT, lw=0.8, ls=(0, (4, 2)))
            ax.set_ylim(bottom=0)
            draw_drops(ax, metrics.drop_times(rows))
        elif self.kind == "delay":
            for flow in _with_packets(rows):
                t, d = metrics.decimate(*metrics.one_way_delay(rows, flow, start, end), POINTS)
                if len(t) == 0:
                    continue
                colour = look["", flow].colour
                ax.plot(t, d * 1e3, color=colour, lw=0.8)
                ends.append((float(t[-1]), float(d[-1]) * 1e3, rows.flow_names[flow], colour))
            ax.set_ylabel("one-way delay (ms)")
            ax.set_ylim(bottom=0)
        else:
            _throughput_lines(ax, rows, ends)
        label_ends(ax, ends, gap=0.16)


def _with_packets(rows: Rows) -> list[int]:
    return [int(f) for f in np.unique(rows.column("packets", "flow"))] if rows.has("packets") else []


def _state(rows: Rows, flow: int, kind: str, start: float | None, end: float | None) -> tuple[Floats, Floats] | None:
    column = "cwnd" if kind == "cwnd" else "srtt_s"
    scale = 1.0 / rows.mss(flow) if kind == "cwnd" else 1e3
    for measure, table in ((metrics.web100_series, "polls"), (metrics.siftr_series, "segments")):
        if rows.has(table):
            t, v = measure(rows, flow, column, start, end)
            if len(t):
                return t, v * scale
    return None


def _kinds(rows: Rows) -> list[_Kind]:
    tcp = rows.has("polls") or rows.has("segments")
    wanted = {
        "cwnd": tcp and bool(rows.tcp_flows),
        "srtt": tcp and bool(rows.tcp_flows),
        "queue": rows.has("queue_polls") or bool(rows.scenario.get("instruments", {}).get("queues")),
        "delay": rows.has("packets"),
        "throughput": rows.has("polls"),
    }
    return [_Kind(kind) for kind, there in wanted.items() if there]


def _throughput_lines(ax: Axes, rows: Rows, ends: list[tuple[float, float, str, str]]) -> None:
    look = who.line_styles({"": rows})
    for flow in rows.tcp_flows:
        if not len(rows.of_flow("polls", flow)["t_s"]):
            continue
        t, rate = metrics.throughput_series(rows, flow, bin_s(rows))
        colour = look["", flow].colour
        ax.step(t, rate / 1e6, where="post", color=colour, lw=1.0)
        if len(t):
            ends.append((float(t[-1]), float(rate[-1]) / 1e6, rows.flow_names[flow], colour))
    rate_line(ax, [rows])
    ax.set_ylabel("throughput (Mbit/s)")
    ax.set_ylim(bottom=0)


@dataclass(frozen=True)
class Panel:
    """One quantity of all results over time: its name, its unit, and the curves."""

    title: str
    unit: str
    curves: list[Curve]


_Series = Callable[[Rows], list[tuple[int, Floats, Floats]]]


def panels(results: Mapping[str, Rows], start: float | None = None, end: float | None = None) -> list[Panel]:
    """Window, backlog, throughput, delay and internals of all results; what none recorded is left out.

    `start` and `end` in seconds cut the curves. A colour a result, a line style a flow of it.
    """
    names = dict.fromkeys(name for rows in results.values() for name in rows.internals_names)
    wanted: list[tuple[str, str, _Series]] = [
        ("cwnd", "segments", _windows),
        ("queue", "kB", _backlog),
        ("throughput", "Mbit/s", _throughput),
        ("one-way delay", "ms", _delays),
        *((name, _unit(name), _internals(name)) for name in names),
    ]
    look, out = who.line_styles(results), []
    for title, unit, series in wanted:
        curves = []
        for label, rows in results.items():
            found = series(rows)
            for flow, times, values in found:
                kept = (times >= (start or 0.0)) & (times <= (np.inf if end is None else end))
                drawn = look[label, max(flow, 0)]
                name = label if len(found) == 1 else f"{label}: {rows.flow_names[flow]}"
                curves.append(Curve(name, times[kept], values[kept], drawn.colour, "-" if flow < 0 else drawn.style))
        if any(len(curve.x) for curve in curves):
            out.append(Panel(title, unit, curves))
    return out


def over_one_another(results: Mapping[str, Rows], start: float | None = None, end: float | None = None) -> Figure:
    """Several results on common axes, with one legend: what each recorded of window, queue, throughput and delay."""
    drawn = panels(results, start, end)
    if not drawn:
        raise metrics.MissingRows("polls", "polls, queue_polls and packets")
    figure, grid = new_figure(len(drawn), width=FULL_WIDTH, height=1.75 * len(drawn) + 0.4, sharex=True)
    shown: dict[str, Any] = {}
    for (axis,), panel in zip(grid, drawn, strict=True):
        for curve in panel.curves:
            if not len(curve.x):
                continue
            (line,) = axis.plot(curve.x, curve.y, color=curve.colour, ls=curve.style, lw=0.9, alpha=0.85)
            shown.setdefault(curve.label, line)
        axis.set_ylabel(f"{panel.title}\n({panel.unit})" if panel.unit else panel.title)
        if all(np.nanmin(curve.y) >= 0 for curve in panel.curves if len(curve.y)):
            axis.set_ylim(bottom=0)
        if panel.unit == "Mbit/s":
            rate_line(axis, list(results.values()))
        axis.yaxis.set_major_locator(MaxNLocator(4))
    grid[-1][0].set_xlabel("time (s)")
    figure.legend(list(shown.values()), list(shown), loc="outside upper left", ncols=min(len(shown), 4))
    return figure


def _thin(series: tuple[Floats, Floats], scale: float) -> tuple[Floats, Floats]:
    # Drawing every packet of a long run takes minutes and shows no more.
    times, values = metrics.decimate(*series, POINTS)
    return times, values * scale


def _each(
    rows: Rows, flows: Iterable[int], series: Callable[[int], tuple[Floats, Floats]]
) -> list[tuple[int, Floats, Floats]]:
    out = []
    for flow in flows:
        try:
            times, values = series(flow)
        except metrics.MissingRows:
            continue
        if len(times):
            out.append((flow, times, values))
    return out


def _windows(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    return _each(rows, rows.tcp_flows, lambda flow: _thin(metrics.cwnd_series(rows, flow), 1.0 / rows.mss(flow)))


def _backlog(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    try:
        times, values = _thin(metrics.backlog_series(rows), 1e-3)
    except metrics.MissingRows:
        # Nobody watched, or there is no bottleneck.
        return []
    # The queue belongs to no flow.
    return [(-1, times, values)] if len(times) else []


def _throughput(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    # Some sixty bins, none so short that single round trips show.
    width = min(1.0, max(0.1, rows.duration_s / 60))

    def series(flow: int) -> tuple[Floats, Floats]:
        times, rates = metrics.throughput_series(rows, flow, width)
        return times + width / 2, rates / 1e6

    return _each(rows, rows.tcp_flows, series)


def _delays(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    # Of datagrams only: a transfer's own packets would hide them.
    return _each(rows, rows.udp_flows, lambda flow: _thin(metrics.one_way_delay(rows, flow), 1e3))


def _unit(name: str) -> str:
    """An internal's unit, which its name ends with unless it is a number or segments."""
    _, _, ending = name.rpartition("_")
    return {"s": "s", "ms": "ms", "bps": "bit/s"}.get(ending, "")


def _internals(name: str) -> _Series:
    def of_result(rows: Rows) -> list[tuple[int, Floats, Floats]]:
        def series(flow: int) -> tuple[Floats, Floats]:
            table = rows.of_flow("internals", flow)
            is_it = np.asarray(table["name"]) == rows.internals_names.index(name)
            times, values = np.asarray(table["t_s"])[is_it], np.asarray(table["value"])[is_it]
            there = np.isfinite(values)
            return _thin((times[there], values[there]), 1.0)

        if name not in rows.internals_names:
            return []
        return _each(rows, rows.tcp_flows, series)

    return of_result
