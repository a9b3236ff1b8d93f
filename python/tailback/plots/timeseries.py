"""Everything recorded, over time: one run in panels, or several runs on common axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import metrics, registry
from ..metrics import Rows
from ..metrics.rows import Floats
from . import fits
from . import flows as who
from .recipes import POINTS, Curve, bin_s, draw_drops, rate_line, throughput
from .registry import recipe
from .style import CYCLE, FULL_WIDTH, INK, SKY, SOFT, label_ends, nested, new_figure

#: From this many curves per panel on, a legend is used, as labels at the lines' ends would overlap.
_MANY = 6
#: Up to this many watched queues have their own panels; more share one.
_QUEUES = 4


@recipe("overview", "Everything recorded, over time", applies=fits.anything)
def overview(results: Mapping[str, Rows], *, start: float | None = None, end: float | None = None) -> Figure:
    """Everything that was recorded, over time: windows, round-trip times, queues, delay, throughput, films and pages.

    Panels whose instrument was off are left out; with nothing recorded, what was counted is drawn as bars. Several
    results are drawn over one another, a colour a result.
    """
    if len(results) > 1:
        return over_one_another(results, start, end)
    rows = next(iter(results.values()))
    drawn = single(rows, start, end)
    if not drawn:
        return throughput(results)
    figure, axes = new_figure(len(drawn), 1, height=1.75 * len(drawn) + 0.5, sharex=True)
    many = max(len(panel.curves) for panel in drawn) >= _MANY
    shown: dict[str, Any] = {}
    for (ax,), panel in zip(axes, drawn, strict=True):
        _draw(ax, panel)
        ax.yaxis.set_major_locator(MaxNLocator(4))
        if many and (panel.unit != "kB" or len(panel.curves) > 1):
            shown |= {str(line.get_label()): line for line in ax.lines if str(line.get_label()) in _names(panel)}
        elif not many and (len(panel.curves) > 1 or panel.unit != "kB"):
            last = [(float(c.x[-1]), float(c.y[-1]), c.label, c.colour) for c in panel.curves if len(c.x)]
            label_ends(ax, last, gap=0.16)
    axes[-1][0].set_xlabel("time (s)")
    axes[-1][0].set_xlim(0.0 if start is None else start, rows.duration_s if end is None else end)
    # A capture has neither a bottleneck nor a seed.
    setting = f": {who.path_of(rows)}, seed {rows.seed}" if rows.has_bottleneck else ""
    axes[0][0].set_title(f"{rows.name or 'run'}{setting}")
    if many:
        figure.legend(list(shown.values()), list(shown), loc="outside lower left", ncols=min(len(shown), 6))
    return figure


def caption(rows: Rows) -> str:
    """Description of one result's overview, panel by panel."""
    titles = [panel.title for panel in single(rows, None, None)]
    if not titles:
        return "What was counted: nothing was recorded over time."
    drops = " Red ticks above a queue: packets that it dropped." if rows.has("queue") else ""
    dashed = "Dashed lines: a queue's limit, and the bottleneck's rate."
    return f"Over time, from the top: {', '.join(titles)}. {dashed}{drops}"


def _names(panel: Panel) -> set[str]:
    return {curve.label for curve in panel.curves}


def _draw(ax: Axes, panel: Panel) -> None:
    """One panel of the overview."""
    steps = {"kB": "steps-post", "Mbit/s": "steps-post"}.get(panel.unit, "default")
    is_one_queue = panel.unit == "kB" and len(panel.curves) == 1
    for number, curve in enumerate(panel.curves):
        if is_one_queue:
            ax.fill_between(curve.x, curve.y, color=SKY, alpha=0.35, lw=0, step="post")
        width = 0.6 if is_one_queue else nested(number, len(panel.curves), 0.5) - 0.2
        ax.plot(curve.x, curve.y, color=curve.colour, ls=curve.style, lw=width, drawstyle=steps, label=curve.label)
    if panel.limit is not None and np.isfinite(panel.limit):
        ax.axhline(panel.limit, color=SOFT, lw=0.8, ls=(0, (4, 2)))
        ax.annotate(
            f"{panel.limit_name} {panel.limit:,.4g} {panel.unit}".strip(), (1.0, panel.limit),
            xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
            ha="right", fontsize=7, color=SOFT,
        )  # fmt: skip
        # Room for the words between the line and the panel's edge.
        ax.set_ylim(top=max(ax.get_ylim()[1], 1.12 * panel.limit))
    draw_drops(ax, panel.drops)
    title = (
        panel.title if len(panel.title) < 18 else panel.title.replace(" at ", " at\n").replace(" window", "\nwindow")
    )
    ax.set_ylabel(f"{title}\n({panel.unit})")
    ax.set_ylim(bottom=0)


def single(rows: Rows, start: float | None = None, end: float | None = None) -> list[Panel]:
    """What one result recorded, over time: the panels of the overview, as pictures and to zoom into.

    Windows, round-trip times, every queue that was watched, delays, throughput, bitrates of films and load times of
    pages; what was not recorded is left out.
    """
    look = who.line_styles({"": rows})

    def panel(title: str, unit: str, found: list[tuple[int, Floats, Floats]]) -> list[Panel]:
        curves = [
            Curve(rows.flow_names[flow], *_between((t, v), start, end), look["", flow].colour, look["", flow].style)
            for flow, t, v in found
        ]
        return [Panel(title, unit, curves)] if any(len(curve.x) for curve in curves) else []

    out = panel("congestion window", "segments", _states(rows, "cwnd")) + panel(
        "smoothed RTT", "ms", _states(rows, "srtt_s")
    )
    out += _queue_panels(rows, start, end)
    out += panel("one-way delay", "ms", _all_delays(rows))
    rates = _rates(rows)
    link = who.shared_bottleneck(rows, [flow for flow, _, _ in rates])
    for each in panel("throughput", "Mbit/s", rates):
        named = "" if link is None else f"rate of {rows.link_names[link]}"
        out.append(replace(each, limit=np.nan if link is None else rows.rate_bps(link) / 1e6, limit_name=named))
    out += panel("bitrate of film", "Mbit/s", _films(rows)) + panel("page load", "s", _loads(rows))
    return out


def _between(series: tuple[Floats, Floats], start: float | None, end: float | None) -> tuple[Floats, Floats]:
    times, values = series
    kept = (times >= (start or 0.0)) & (times <= (np.inf if end is None else end))
    return metrics.decimate(times[kept], values[kept], POINTS)


def _states(rows: Rows, column: str) -> list[tuple[int, Floats, Floats]]:
    def series(flow: int) -> tuple[Floats, Floats]:
        scale = 1.0 / rows.mss(flow) if column == "cwnd" else 1e3
        for measure, table in ((metrics.web100_series, "polls"), (metrics.siftr_series, "segments")):
            if rows.has(table):
                times, values = measure(rows, flow, column)
                if len(times):
                    return times, values * scale
        return np.zeros(0), np.zeros(0)

    return _each(rows, rows.tcp_flows, series)


def _queue_panels(rows: Rows, start: float | None, end: float | None) -> list[Panel]:
    found = []
    for link in who.watched_links(rows):
        times, backlog = _between(metrics.backlog_series(rows, link), start, end)
        if len(times):
            found.append((link, Curve(f"queue at {rows.link_names[link]}", times, backlog / 1e3, INK)))
    if len(found) <= _QUEUES:
        return [
            Panel(
                curve.label, "kB", [curve], rows.limit_bytes(link) / 1e3, "limit", drops=_drops(rows, link, start, end)
            )
            for link, curve in found
        ]
    styled = [
        replace(curve, colour=who.nth_colour(number), style=who.STYLES[number // len(CYCLE) % len(who.STYLES)])
        for number, (_, curve) in enumerate(found)
    ]
    return [Panel("queues", "kB", styled)]


def _drops(rows: Rows, link: int, start: float | None, end: float | None) -> Floats:
    times = metrics.drop_times(rows, link)
    return times[(times >= (start or 0.0)) & (times <= (np.inf if end is None else end))]


def _all_delays(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    flows = [int(flow) for flow in np.unique(rows.column("packets", "flow"))] if rows.has("packets") else []
    return _each(rows, filter(rows.shows, flows), lambda flow: _scaled(metrics.one_way_delay(rows, flow), 1e3))


def _rates(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    return _each(rows, rows.tcp_flows, lambda flow: _scaled(metrics.throughput_series(rows, flow, bin_s(rows)), 1e-6))


def _films(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    return _each(rows, _asking(rows, "plays_film"), lambda flow: _scaled(metrics.film_series(rows, flow), 1e-6))


def _loads(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    def series(flow: int) -> tuple[Floats, Floats]:
        seen = [load for load in metrics.page_loads(rows, flow) if np.isfinite(load.load_time_s)]
        return np.array([load.begins_s for load in seen]), np.array([load.load_time_s for load in seen])

    return _each(rows, _asking(rows, "loads_pages"), series)


def _asking(rows: Rows, trait: str) -> list[int]:
    """Flows with recorded requests whose application has a trait."""
    asked = [int(flow) for flow in np.unique(rows.column("requests", "flow"))] if rows.has("requests") else []
    return [flow for flow in asked if rows.shows(flow) and getattr(registry.application(rows.flow_spec(flow)), trait)]


def _scaled(series: tuple[Floats, Floats], scale: float) -> tuple[Floats, Floats]:
    return series[0], series[1] * scale


@dataclass(frozen=True)
class Panel:
    """One quantity of all results over time: name, unit, and curves."""

    title: str
    unit: str
    curves: list[Curve]
    limit: float | None = None
    """Value that the curves cannot exceed for long, in the panel's unit: a queue's limit or the bottleneck's rate."""
    limit_name: str = ""
    """What the limit is, in words."""
    whose: str = ""
    """The flow, if all curves are of one of that name: a legend of several results does not say it."""
    drops: Floats = field(default_factory=lambda: np.zeros(0))
    """Times at which the queue dropped a packet."""


_Series = Callable[[Rows], list[tuple[int, Floats, Floats]]]


def panels(results: Mapping[str, Rows], start: float | None = None, end: float | None = None) -> list[Panel]:
    """Window, backlog, throughput, delay, films, pages and internals of all results; what none recorded is left out.

    `start` and `end` in seconds cut the curves. A colour a result, a line style a flow of it.
    """
    names = dict.fromkeys(name for rows in results.values() for name in rows.internals_names)
    links = dict.fromkeys(rows.link_names[link] for rows in results.values() for link in who.watched_links(rows))
    wanted: list[tuple[str, str, _Series]] = [
        ("congestion window", "segments", _windows),
        *(("queue" if len(links) == 1 else f"queue at {link}", "kB", _backlog(link)) for link in links),
        ("throughput", "Mbit/s", _rates),
        ("one-way delay", "ms", _delays),
        ("bitrate of film", "Mbit/s", _films),
        ("page load", "s", _loads),
        *((name, _unit(name), _internals(name)) for name in names),
    ]
    look, out = who.line_styles(results), []
    for title, unit, series in wanted:
        curves: list[Curve] = []
        shown: set[str] = set()
        for position, (label, rows) in enumerate(results.items()):
            found = series(rows)
            for flow, times, values in found:
                kept = (times >= (start or 0.0)) & (times <= (np.inf if end is None else end))
                drawn = look[label, max(flow, 0)]
                name = label if len(found) == 1 else f"{label}: {rows.flow_names[flow]}"
                is_only = flow < 0 or len(found) == 1
                # Where no style is needed for flows, results differ in it too: for print without colours.
                style = who.STYLES[position % len(who.STYLES)] if is_only else drawn.style
                curves.append(Curve(name, times[kept], values[kept], drawn.colour, style))
                shown.add(rows.flow_names[flow] if flow >= 0 else "")
        if any(len(curve.x) for curve in curves):
            out.append(Panel(title, unit, curves, whose=shown.pop() if len(shown) == 1 else ""))
    return out


def over_one_another(results: Mapping[str, Rows], start: float | None = None, end: float | None = None) -> Figure:
    """Several results on common axes, with one legend: what each recorded of window, queue, throughput and delay."""
    drawn = panels(results, start, end)
    if not drawn:
        raise metrics.MissingRows("polls", "polls, queue_polls and packets")
    figure, grid = new_figure(len(drawn), width=FULL_WIDTH, height=1.75 * len(drawn) + 0.4, sharex=True)
    shown: dict[str, Any] = {}
    for (axis,), panel in zip(grid, drawn, strict=True):
        steps = {"kB": "steps-post", "Mbit/s": "steps-post"}.get(panel.unit, "default")
        for number, curve in enumerate(panel.curves):
            if not len(curve.x):
                continue
            width = nested(number, len(panel.curves), 0.4)
            (line,) = axis.plot(curve.x, curve.y, color=curve.colour, ls=curve.style, lw=width, drawstyle=steps)
            shown.setdefault(curve.label, line)
        whose = f"\nof {panel.whose}" if panel.whose and not panel.title.endswith(panel.whose) else ""
        axis.set_ylabel(
            f"{panel.title}{whose}" + (f" ({panel.unit})" if whose else f"\n({panel.unit})") * bool(panel.unit)
        )
        if panel.title == "throughput":
            rate_line(axis, list(results.values()))
        if all(np.nanmin(curve.y) >= 0 for curve in panel.curves if len(curve.y)):
            axis.set_ylim(bottom=0)
        axis.yaxis.set_major_locator(MaxNLocator(4))
    grid[-1][0].set_xlabel("time (s)")
    last = max(rows.duration_s for rows in results.values())
    grid[-1][0].set_xlim(0.0 if start is None else start, last if end is None else end)
    grid[0][0].set_title(who.paths_of(results))
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


def _backlog(link: str) -> _Series:
    def of_result(rows: Rows) -> list[tuple[int, Floats, Floats]]:
        if link not in [rows.link_names[each] for each in who.watched_links(rows)]:
            return []
        times, values = _thin(metrics.backlog_series(rows, link), 1e-3)
        # A queue belongs to no flow.
        return [(-1, times, values)] if len(times) else []

    return of_result


def _delays(rows: Rows) -> list[tuple[int, Floats, Floats]]:
    # Only datagrams: the packets of transfers would hide them.
    return _each(rows, rows.udp_flows, lambda flow: _thin(metrics.one_way_delay(rows, flow), 1e3))


def _unit(name: str) -> str:
    """An internal quantity's unit: the suffix of its name, unless it is a number or in segments."""
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
