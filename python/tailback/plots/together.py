"""Many results at a glance: four panels on one page, and box plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import metrics
from ..metrics import MissingRows, Rows
from ..metrics.rows import Floats
from . import fits
from . import flows as who
from .recipes import POINTS, Curve, bin_s, draw_cdfs, rate_line
from .registry import recipe
from .style import FULL_WIDTH, INK, PANEL, nested, new_figure

_Key = tuple[str, int]


def _delays(results: Mapping[str, Rows]) -> tuple[dict[_Key, tuple[Floats, Floats]], str]:
    """Times and delays in ms of UDP flows with recorded packets; without such flows, the echoes' round trips."""
    out: dict[_Key, tuple[Floats, Floats]] = {}
    for label, rows in results.items():
        recorded = set(np.unique(rows.column("packets", "flow")).tolist()) if rows.has("packets") else set()
        for flow in (flow for flow in rows.udp_flows if flow in recorded):
            times, delay = metrics.one_way_delay(rows, flow)
            out[label, flow] = (times, 1e3 * delay)
    if out:
        return out, "one-way delay (ms)"
    for label, rows in results.items():
        pings = np.unique(rows.column("echoes", "flow")).tolist() if rows.has("echoes") else []
        for flow in (flow for flow in pings if rows.shows(flow)):
            times, delay = metrics.echo_rtts(rows, flow)
            out[label, flow] = (times, 1e3 * delay)
    return out, "round-trip time (ms)"


def _throughputs(
    results: Mapping[str, Rows], width_s: float | None = None, *, while_on: bool = False
) -> dict[_Key, tuple[Floats, Floats]]:
    """Times and Mbit/s of the polled flows; with `while_on`, only bins in which the flow was on throughout."""
    out = {}
    for label, rows in results.items():
        for flow in rows.tcp_flows:
            if rows.has("polls", flow):
                width = width_s or bin_s(rows)
                times, rate = metrics.throughput_series(rows, flow, width)
                if while_on:
                    kept = np.zeros(len(times), dtype=np.bool_)
                    for began, ended in rows.on_s(flow):
                        kept |= (times >= began) & (times + width <= ended)
                    times, rate = times[kept], rate[kept]
                out[label, flow] = (times, rate / 1e6)
    return out


def _names(results: Mapping[str, Rows], keys: Any) -> dict[_Key, str]:
    shown: dict[str, list[int]] = {}
    for label, flow in keys:
        shown.setdefault(label, []).append(flow)
    return {(label, flow): who.named(results, label, flow, shown[label]) for label, flow in keys}


@recipe("all", "Throughput, queue and delay on one page", applies=fits.over_time)
def all_four(results: Mapping[str, Rows]) -> Figure:
    """Four panels, after Flent's “all”: throughput, queue and delay over time, and how the delay is distributed.

    What was not recorded is left out.
    Delay is one way, of the flows over UDP whose packets were recorded; without such flows, the round trip of pings.
    The dashed line is the bottleneck's rate. Every queue that was watched is drawn. Several results share the axes: a
    colour a result.
    """
    rates, (delays, unit) = _throughputs(results), _delays(results)
    if not rates and not delays:
        raise MissingRows("polls", "instruments.polls, or instruments.packets or .echoes")
    watched = {label: who.watched_links(rows) for label, rows in results.items()}
    look = who.line_styles(results)
    shown: dict[str, Any] = {}

    def style_of(key: _Key, series: Mapping[_Key, tuple[Floats, Floats]]) -> Any:
        """The flow's style; where each result has one flow, results differ in it too: for print without colours."""
        is_only = len(results) > 1 and sum(label == key[0] for label, _ in series) == 1
        return who.STYLES[list(results).index(key[0]) % len(who.STYLES)] if is_only else look[key].style

    def lines(ax: Axes, series: Mapping[_Key, tuple[Floats, Floats]], **more: Any) -> None:
        for number, (key, name) in enumerate(_names(results, series).items()):
            x, y = metrics.decimate(*series[key], POINTS)
            width = nested(number, len(series), 0.4)
            (line,) = ax.plot(x, y, color=look[key].colour, ls=style_of(key, series), lw=width, **more)
            shown.setdefault(name, line)

    def over_time(ax: Axes, quantity: str) -> None:
        ax.set_ylabel(quantity)
        ax.set_xlabel("time (s)")
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, max(rows.duration_s for rows in results.values()))

    def throughput(ax: Axes) -> None:
        lines(ax, rates, drawstyle="steps-post")
        rate_line(ax, list(results.values()))
        over_time(ax, "throughput (Mbit/s)")

    def queue(ax: Axes) -> None:
        for label, rows in results.items():
            links = watched[label]
            colour = INK if len(results) == 1 else look[label, rows.tcp_flows[0] if rows.tcp_flows else 0].colour
            for number, link in enumerate(links):
                t, backlog = metrics.decimate(*metrics.backlog_series(rows, link), POINTS)
                place = number if len(links) > 1 or len(results) == 1 else list(results).index(label)
                style = who.STYLES[place % len(who.STYLES)]
                (line,) = ax.plot(t, backlog / 1e3, color=colour, ls=style, lw=0.8, drawstyle="steps-post")
                if len(links) > 1:
                    shown.setdefault(f"queue at {rows.link_names[link]}", line)
        over_time(ax, "queue (kB)")

    def delay(ax: Axes) -> None:
        lines(ax, delays)
        over_time(ax, unit)

    def distribution(ax: Axes) -> None:
        curves = [
            Curve(name, *metrics.cdf(delays[key][1]), look[key].colour, style_of(key, delays))
            for key, name in _names(results, delays).items()
        ]
        draw_cdfs(ax, curves, labels=False)
        ax.set_xlabel(unit)
        ax.set_ylabel("share of packets")

    recorded = {throughput: rates, queue: any(watched.values()), delay: delays, distribution: delays}
    drawn = [draw for draw, found in recorded.items() if found]
    deep, wide = -(-len(drawn) // 2), min(len(drawn), 2)
    figure, axes = new_figure(deep, wide, width=FULL_WIDTH, height=2.3 * deep + 0.3)
    panels = [ax for row in axes for ax in row]
    for number, (draw, ax) in enumerate(zip(drawn, panels, strict=False)):
        draw(ax)
        ax.set_gid(f"{PANEL}{number}")
    for ax in panels[len(drawn) :]:
        ax.remove()
    panels[0].set_title(who.paths_of(results))
    figure.legend(list(shown.values()), list(shown), loc="outside upper left", ncols=min(len(shown), 4))
    return figure


@recipe("box", "Delay and throughput as boxes", applies=fits.over_time)
def box(results: Mapping[str, Rows]) -> Figure:
    """Left: delay of every packet. Right: throughput in the seconds that a flow was on. A box a flow of a result.

    The box is from quartile to quartile with the median in it; whiskers reach from the 5th to the 95th percentile.
    """
    delays, unit = _delays(results)
    rates = {key: series for key, series in _throughputs(results, 1.0, while_on=True).items() if len(series[1])}
    halves = [(series, name) for series, name in ((delays, unit), (rates, "throughput (Mbit/s)")) if series]
    if not halves:
        raise MissingRows("polls", "instruments.polls, or instruments.packets or .echoes")
    most = max(len(series) for series, _ in halves)
    figure, axes = new_figure(1, len(halves), width=FULL_WIDTH, height=0.34 * most + 1.0)
    look = who.line_styles(results)
    for ax, (series, name) in zip(axes[0], halves, strict=True):
        names = _names(results, series)
        drawn = ax.boxplot(
            [values for _, values in series.values()],
            orientation="horizontal",
            whis=(5, 95),
            showfliers=False,
            widths=0.6,
            patch_artist=True,
            medianprops={"color": "white", "lw": 1.2},
        )
        for key, patch in zip(series, drawn["boxes"], strict=True):
            # An edge wide enough that a very narrow box is visible beside its median.
            patch.set(facecolor=look[key].colour, edgecolor=look[key].colour, linewidth=2.5)
        ax.set_yticks(np.arange(1, len(series) + 1), [names[key] for key in series])
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ends = [float(end) for whisker in drawn["whiskers"] for end in whisker.get_xdata()]
        ax.set_xlim(0, 1.05 * max(ends))
        ax.set_xlabel(name)
    return figure
