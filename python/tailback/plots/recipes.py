"""The figures. Each recipe measures, then draws; the drawing halves also serve studies that kept summaries only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from .. import metrics
from ..metrics import Rows
from ..metrics.queue import is_logged
from ..metrics.rows import Floats, floats
from . import fits
from . import flows as who
from .registry import recipe
from .style import (
    BLACK,
    FULL_WIDTH,
    INK,
    SKY,
    SOFT,
    VERMILION,
    halo,
    label_at,
    new_figure,
)

POINTS = 4000
"""Maximum points that a page-wide figure can show."""


@dataclass(frozen=True)
class Curve:
    """A curve with its colour and style."""

    label: str
    x: Floats
    y: Floats
    colour: str
    style: str | tuple[float, tuple[float, ...]] = "-"


def draw_drops(ax: Axes, times: Floats, colour: str = VERMILION) -> None:
    """Mark drops as ticks above the panel, where they cross no curve and no text."""
    if len(times):
        over = ax.get_xaxis_transform()
        ax.plot(times, np.full(len(times), 1.03), "|", transform=over, clip_on=False, color=colour, ms=5, mew=0.7)
        ax.annotate(
            "drops", (1.0, 1.03), xycoords="axes fraction", xytext=(4, 0), textcoords="offset points",
            fontsize=7, color=colour, va="center", annotation_clip=False,
        )  # fmt: skip


def draw_cwnd_and_queue(
    top: Axes,
    bottom: Axes,
    window: Curve,
    backlog: Curve,
    limit_bytes: float,
    drops: Floats,
    marks: Sequence[float],
) -> None:
    """Window above, backlog below, on one time axis; epoch boundaries as thin lines."""
    top.plot(window.x, window.y, color=window.colour, lw=1.1)
    top.set_ylim(0, float(np.nanmax(window.y)) * 1.12 if len(window.y) else 1.0)
    bottom.fill_between(backlog.x, backlog.y / 1e3, color=SKY, alpha=0.35, lw=0, step="post")
    bottom.plot(backlog.x, backlog.y / 1e3, color=backlog.colour, lw=0.7, drawstyle="steps-post")
    if np.isfinite(limit_bytes):
        bottom.axhline(limit_bytes / 1e3, color=SOFT, lw=0.8, ls=(0, (4, 2)))
        bottom.set_ylim(0, max(limit_bytes * 1.18, 1.05 * float(np.max(backlog.y, initial=0.0))) / 1e3)
    else:
        bottom.set_ylim(bottom=0)
    draw_drops(bottom, drops)
    for ax in (top, bottom):
        for mark in marks:
            ax.axvline(mark, color=SOFT, lw=0.6, ls=":")


@recipe("cwnd-and-queue", "Congestion window and queue over three typical epochs", applies=fits.window_and_queue)
def cwnd_and_queue(results: Mapping[str, Rows], *, count: int = 3, flow: str | None = None) -> Figure:
    """Congestion window above, occupancy of the bottleneck queue below, over three typical epochs.

    Counterpart of Figs 2–6 of CAIA-TR-080818A. Epochs by `metrics.typical_epochs`; dashed: the queue's limit,
    which a polled queue exceeds by the packet being sent; red ticks: packets dropped. All panels show as much time as
    the longest epochs take: an epoch of twice the length is twice as wide.
    """
    wide = min(len(results), 3)
    deep = -(-len(results) // wide)
    figure, axes = new_figure(
        2 * deep, wide, width=FULL_WIDTH if wide > 1 else 5.2, height=3.4 * deep + 0.2, sharex=False
    )
    look = who.line_styles(results)
    flows = {label: who.first_tcp(rows) if flow is None else rows.flow(flow) for label, rows in results.items()}
    windows = {label: metrics.typical_epochs(rows, flows[label], count) for label, rows in results.items()}
    span = max(window.end_s - window.start_s for window in windows.values())
    margin = 0.03 * span
    for position, (label, rows) in enumerate(results.items()):
        index, window = flows[label], windows[label]
        row, column = 2 * (position // wide), position % wide
        top, bottom = axes[row][column], axes[row + 1][column]
        start, end = window.start_s, window.start_s + span
        t, w = metrics.decimate(*metrics.cwnd_series(rows, index, start - margin, end + margin), POINTS)
        tq, q = metrics.decimate(*metrics.backlog_series(rows, None, start - margin, end + margin), POINTS)
        found = metrics.epochs(rows, index)
        marks = [start, *(found.end_s[window.first : window.first + window.count])]
        lost = metrics.drop_times(rows)
        lost = lost[(lost >= start - margin) & (lost <= end + margin)]
        colour = look[label, index].colour
        draw_cwnd_and_queue(
            top,
            bottom,
            Curve(label, t - start, w / rows.mss(index), colour),
            Curve(label, tq - start, q, INK),
            rows.limit_bytes(rows.bottleneck),
            lost - start,
            [float(m) - start for m in marks],
        )
        for ax in (top, bottom):
            ax.set_xlim(-margin, span + margin)
        top.tick_params(labelbottom=False)
        top.set_title(label if len(results) > 1 else f"{who.title_of(rows, index)}: {who.path_of(rows)}")
        bottom.set_xlabel(f"time since t = {start:.2f} s (s)")
        if column == 0:
            top.set_ylabel("cwnd (segments)")
            polled = not all(is_logged(rows, rows.bottleneck) for rows in results.values())
            bottom.set_ylabel("queue, with the packet\nbeing sent (kB)" if polled else "queue (kB)")
    for empty in range(len(results), wide * deep):
        row, column = 2 * (empty // wide), empty % wide
        axes[row][column].set_visible(False)
        axes[row + 1][column].set_visible(False)
    return figure


@recipe("delay-vs-occupancy", "One-way delay against queue occupancy", applies=fits.call_and_queue)
def delay_vs_occupancy(results: Mapping[str, Rows], *, count: int = 3) -> Figure:
    """Left: the call's one-way delay and the queue's occupancy against time. Right: one against the other.

    Counterpart of Figs 7 and 8 of CAIA-TR-080818A. Every dot is a voice packet, placed at the backlog it met; the
    line is what a FIFO must give: the smallest delay plus 8/C for every byte ahead.
    """
    figure, axes = new_figure(len(results), 2, height=2.9 * len(results), gridspec_kw={"width_ratios": [1.7, 1.0]})
    look = who.line_styles(results)
    for row, (label, rows) in enumerate(results.items()):
        left, right = axes[row]
        tcp, call = who.first_tcp(rows), who.first_udp(rows)
        window = metrics.typical_epochs(rows, tcp, count)
        start, end = window.start_s, window.end_s
        tq, q = metrics.decimate(*metrics.backlog_series(rows, None, start, end), POINTS)
        sent, met, delay = metrics.delay_against_backlog(rows, call, None, start, end)
        colour = look[label, call].colour
        left.fill_between(tq - start, q / 1e3, color=SKY, alpha=0.35, lw=0, step="post")
        left.set_ylabel("queue (kB)", color="#2F7FB0")
        left.set_xlabel(f"time since t = {start:.2f} s (s)")
        left.set_xlim(0, end - start)
        rate = rows.carried_bps(rows.bottleneck)
        floor = metrics.base_delay(rows, call)
        # The two y axes are scaled by 8/C, so that the two curves coincide if the law holds.
        top = max(float(np.max(q)) if len(q) else 0.0, float(np.max(met)) if len(met) else 0.0, 1.0) * 1.12
        left.set_ylim(0, top / 1e3)
        second = left.twinx()
        second.spines["right"].set_visible(True)
        second.grid(False)
        second.plot(sent - start, delay * 1e3, ".", ms=2.2, color=colour)
        second.set_ylim(floor * 1e3, (floor + 8.0 * top / rate) * 1e3)
        second.set_ylabel("one-way delay (ms)", color=colour)
        left.set_title(f"{label}: {who.path_of(rows)}" if len(results) == 1 else label)
        right.plot(met / 1e3, delay * 1e3, ".", ms=2.6, color=colour, alpha=0.6)
        line = np.array([0.0, top])
        right.plot(line / 1e3, (floor + 8.0 * line / rate) * 1e3, color=BLACK, lw=0.9)
        slope, _, r2 = metrics.delay_slope(rows, call, None, start, end)
        right.set_xlim(0, top / 1e3)
        right.set_xlabel("queue met on arrival (kB)")
        right.yaxis.tick_right()
        right.yaxis.set_label_position("right")
        right.spines["right"].set_visible(True)
        right.spines["left"].set_visible(False)
        right.set_ylabel("one-way delay (ms)")
        halo(
            right.text(
                0.05,
                0.94,
                f"law: 8/C = {8e6 / rate:.3g} ms/kB\nfit: {slope * 1e6:.3g} ms/kB, r² = {r2:.4f}",
                transform=right.transAxes,
                va="top",
                fontsize=8,
            )
        )
    return figure


def draw_cdfs(ax: Axes, curves: Sequence[Curve], *, labels: bool = True) -> None:
    """CDFs in milliseconds with direct labels at staggered heights."""
    for position, curve in enumerate(curves):
        ax.plot(curve.x, curve.y, color=curve.colour, ls=curve.style, lw=1.4, label=curve.label)
        if labels and len(curve.x):
            # Staggered so that neighbouring labels do not overlap.
            height = (position + 0.7) / (len(curves) + 0.4)
            at = float(np.interp(height, curve.y, curve.x))
            label_at(ax, at, height, " " + curve.label, curve.colour)
    ax.set_ylim(0, 1)
    ax.set_xlim(left=0)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))


@recipe("delay-cdf", "Distribution of the delays of packets", applies=fits.datagrams)
def delay_cdf(
    results: Mapping[str, Rows], *, start: float | None = None, end: float | None = None, induced: bool = True
) -> Figure:
    """Share of a flow's packets whose delay is at most x, of every flow over UDP whose packets were recorded.

    Over the whole run, or over the packets sent from `start` to `end` (seconds). Delay induced by queueing, or the
    whole delay with `induced=False`.
    """
    figure, axes = new_figure(width=5.6, height=3.4)
    ax = axes[0][0]
    look, curves = who.line_styles(results), []
    measure = metrics.induced_delay if induced else metrics.one_way_delay
    for label, rows in results.items():
        calls = _recorded_udp(rows)
        for call in calls:
            x, y = metrics.cdf(measure(rows, call, start, end)[1])
            drawn = look[label, call]
            curves.append(Curve(who.named(results, label, call, calls), x * 1e3, y, drawn.colour, drawn.style))
    draw_cdfs(ax, curves, labels=False)
    if len(curves) > 1:
        ax.legend(loc="lower right")
    ax.set_xlabel("delay induced by queueing (ms)" if induced else "one-way delay (ms)")
    ax.set_ylabel("share of packets")
    ax.set_title(f"{who.paths_of(results)}; {who.window_of(results, start, end)}")
    return figure


def _recorded_udp(rows: Rows) -> list[int]:
    """UDP flows with recorded packets; the error names the instrument."""
    who.first_udp(rows)
    recorded = set(np.unique(rows.column("packets", "flow")).tolist())
    return [flow for flow in rows.udp_flows if flow in recorded]


@dataclass(frozen=True)
class Medians:
    """Median induced delay of one sender over several paths."""

    label: str
    bdp_bytes: Floats
    median_s: Floats
    low_s: Floats
    high_s: Floats
    colour: str
    hollow: bool = False


def draw_medians(ax: Axes, series: Sequence[Medians], names: Sequence[str]) -> None:
    """Grouped points, one group a path in order of BDP, with the spread over seeds as bars."""
    count = len(series)
    for position, each in enumerate(series):
        x = np.arange(len(each.median_s)) + (position - 0.5 * (count - 1)) * 0.15
        ms = each.median_s * 1e3
        ax.vlines(x, each.low_s * 1e3, each.high_s * 1e3, color=each.colour, lw=1.2)
        face = "white" if each.hollow else each.colour
        ax.plot(x, ms, "o", color=each.colour, mfc=face, ms=5, mew=1.3, label=each.label)
    ax.set_xticks(np.arange(len(names)), names)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel("median induced delay (ms)")
    ax.legend(ncols=min(count, 3), loc="upper left", handletextpad=0.2, columnspacing=1.2)


def _place(rows: Rows) -> str:
    """Bottleneck and round-trip time of the first TCP flow, as a tick has them."""
    rtt_ms = rows.base_rtt_s(who.first_tcp(rows)) * 1e3
    return f"{who.carrier(rows, rows.bottleneck)}\n{rtt_ms:.0f} ms"


@recipe("median-delay-by-bdp", "Median induced delay by bandwidth × delay", applies=fits.call_beside_tcp)
def median_delay_by_bdp(results: Mapping[str, Rows], *, count: int = 3) -> Figure:
    """Median delay that queueing adds to the call, by the path's bandwidth × delay product.

    Counterpart of Fig. 12 of CAIA-TR-080818A. Results of the same sender on different paths form a series; if any two
    have one sender and one path, each result is a series of its own.
    """
    senders = {label: who.title_of(rows, who.first_tcp(rows)) for label, rows in results.items()}
    places = {label: _place(rows) for label, rows in results.items()}
    is_repeated = len({(senders[label], places[label]) for label in results}) < len(results)
    look = who.line_styles(results)
    bdp: dict[str, float] = {}
    groups: dict[str, dict[str, float]] = {}
    drawn: dict[str, tuple[str, bool]] = {}
    for position, (label, rows) in enumerate(results.items()):
        tcp, call = who.first_tcp(rows), who.first_udp(rows)
        window = metrics.typical_epochs(rows, tcp, count)
        median = float(metrics.delay_quantiles(rows, call, (0.5,), window.start_s, window.end_s)[0])
        bdp.setdefault(places[label], rows.carried_bps(rows.bottleneck) * rows.base_rtt_s(tcp) / 8.0)
        series = label if is_repeated else senders[label]
        groups.setdefault(series, {})[places[label]] = median
        colour = look[label, tcp].colour if is_repeated else who.colour(rows, tcp, position)
        drawn.setdefault(series, (colour, "freebsd" in str(rows.flow_spec(tcp)["tcp"]["stack"])))
    names = sorted(bdp, key=lambda place: (bdp[place], place))
    bdps = np.array([bdp[name] for name in names])
    medians = []
    for series, by_place in groups.items():
        median_s = np.array([by_place.get(name, np.nan) for name in names])
        medians.append(Medians(series, bdps, median_s, median_s, median_s, *drawn[series]))
    figure, axes = new_figure(width=FULL_WIDTH, height=3.2)
    draw_medians(axes[0][0], medians, names)
    legend_above(axes[0][0])
    axes[0][0].set_xlabel("bottleneck and round-trip time, in order of bandwidth × delay")
    return figure


@recipe("htcp-irregularities", "Window growth of H-TCP, epoch by epoch", applies=fits.htcp)
def htcp_irregularities(results: Mapping[str, Rows], *, seconds: float = 60.0, flow: str | None = None) -> Figure:
    """Congestion window over a minute from the middle of the run, with the growth per round trip beneath.

    Counterpart of Figs 13 and 14 of CAIA-TR-080818A: growth that falls back to one segment per round trip without
    a loss in between is the irregularity. Of the first flow with H-TCP, or of `flow`, whatever it has.
    """
    figure, axes = new_figure(2 * len(results), 1, height=3.3 * len(results), sharex=False)
    look = who.line_styles(results)
    for position, (label, rows) in enumerate(results.items()):
        index = _first_htcp(rows) if flow is None else rows.flow(flow)
        top, bottom = axes[2 * position][0], axes[2 * position + 1][0]
        middle = 0.5 * rows.duration_s
        start, end = max(0.0, middle - 0.5 * seconds), min(rows.duration_s, middle + 0.5 * seconds)
        t, w = metrics.decimate(*metrics.cwnd_series(rows, index, start, end), POINTS)
        draw_growth(
            top,
            bottom,
            t,
            w / rows.mss(index),
            *metrics.growth_per_rtt(rows, index, start, end),
            look[label, index].colour,
        )
        events = metrics.congestion_events(rows, index).t_s
        for ax in (top, bottom):
            ax.set_xlim(start, end)
            for event in events[(events >= start) & (events <= end)]:
                ax.axvline(float(event), color=SOFT, lw=0.6, ls=":")
        top.set_title(label)
    return figure


def _first_htcp(rows: Rows) -> int:
    if rows.chosen is not None:
        return who.first_tcp(rows)
    for flow in rows.tcp_flows:
        if who.algorithm(rows, flow) == "htcp":
            return flow
    raise metrics.NothingToMeasure(
        "this figure is of H-TCP, and no flow of the scenario has it. Name a flow to draw it"
    )


def draw_growth(top: Axes, bottom: Axes, t: Floats, w: Floats, tg: Floats, growth: Floats, colour: str) -> None:
    """Window above, growth per round trip below (logarithmic)."""
    top.plot(t, w, color=colour, lw=1.1)
    top.set_ylim(bottom=0)
    top.set_ylabel("cwnd (segments)")
    top.tick_params(labelbottom=False)
    bottom.step(tg, np.maximum(growth, 0.1), where="post", color=INK, lw=0.9)
    bottom.set_yscale("log")
    bottom.yaxis.set_major_formatter("{x:g}")
    bottom.yaxis.set_minor_formatter(NullFormatter())
    bottom.axhline(1.0, color=SOFT, lw=0.8, ls=(0, (4, 2)))
    bottom.set_ylabel("growth\n(segments/RTT)")
    bottom.set_xlabel("time (s)")


def bin_s(rows: Rows) -> float:
    """Bin width of a throughput curve: 1/180 of the run, at least 0.1 s."""
    return max(rows.duration_s / 180.0, 0.1)


def rate_line(ax: Axes, several: Sequence[Rows]) -> None:
    """The rate of the bottleneck that the flows share, dashed: what none of them can exceed for long."""
    shared = [(rows, who.shared_bottleneck(rows, rows.tcp_flows)) for rows in several]
    for rate in sorted({rows.rate_bps(link) for rows, link in shared if link is not None}):
        if np.isfinite(rate):
            ax.axhline(rate / 1e6, color=SOFT, lw=0.8, ls=(0, (4, 2)))


@recipe("throughput", "Throughput", applies=fits.tcp)
def throughput(results: Mapping[str, Rows]) -> Figure:
    """Throughput of each TCP flow over time if it was polled, else its goodput over the whole run as bars.

    Payload that reached the receiver, in order or not, each byte counted once, in bins of 1/180 of the run (0.1 s at
    least). The dashed line is the bottleneck's rate.
    """
    look = who.line_styles(results)
    if all(rows.has("polls") for rows in results.values()):
        figure, axes = new_figure(1, 1, height=3.2)
        ax = axes[0][0]
        for label, rows in results.items():
            polled = [flow for flow in rows.tcp_flows if rows.has("polls", flow)]
            for flow in polled:
                t, rate = metrics.throughput_series(rows, flow, bin_s(rows))
                drawn = look[label, flow]
                name = who.named(results, label, flow, polled)
                ax.step(t, rate / 1e6, where="post", color=drawn.colour, ls=drawn.style, lw=1.0, label=name)
        rate_line(ax, list(results.values()))
        ax.set_xlabel("time (s)")
        ax.set_ylabel("throughput (Mbit/s)")
        ax.set_xlim(0, max(rows.duration_s for rows in results.values()))
        ax.set_ylim(bottom=0)
        legend_above(ax)
        return figure
    bars = [
        (f"{label} {rows.flow_names[f]}".strip(), metrics.goodput(rows, f) / 1e6, look[label, f].colour)
        for label, rows in results.items()
        for f in rows.tcp_flows
    ]
    if not bars:
        raise metrics.NothingToMeasure("this figure needs a TCP flow, and the scenario has none")
    figure, axes = new_figure(width=5.6, height=0.34 * len(bars) + 0.9)
    _bars(axes[0][0], bars, "goodput (Mbit/s)", "{:.2f}")
    return figure


def legend_above(ax: Axes) -> None:
    """A legend outside the data, if there is more than one curve."""
    handles, labels = ax.get_legend_handles_labels()
    if len(handles) > 1:
        ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(len(handles), 4))


@recipe("loss", "Packets lost, by flow", applies=fits.loss)
def loss(results: Mapping[str, Rows], *, bin_s: float = 1.0) -> Figure:
    """Packets dropped per second at the bottleneck, by flow, if drops were logged; else the share lost as bars."""
    look = who.line_styles(results)
    logged = {label: rows for label, rows in results.items() if rows.has("queue")}
    if len(logged) != len(results):
        bars = [
            (
                who.named(results, label, f, range(len(rows.flow_names))),
                100 * metrics.flow_loss_rate(rows, f),
                look[label, f].colour,
            )
            for label, rows in results.items()
            for f in range(len(rows.flow_names))
        ]
        figure, axes = new_figure(width=5.6, height=0.34 * len(bars) + 0.9)
        _bars(axes[0][0], bars, "packets lost (%)", "{:.3g}")
        return figure
    figure, axes = new_figure(len(results), 1, height=2.2 * len(results) + 0.4)
    for (ax,), (label, rows) in zip(axes, results.items(), strict=True):
        edges = np.arange(0.0, rows.duration_s + bin_s, bin_s)
        under = np.zeros(len(edges) - 1)
        # One panel per result, with one colour per flow.
        mine = who.line_styles({label: rows})
        for flow in range(len(rows.flow_names)):
            count, _ = np.histogram(metrics.drop_times(rows, None, flow), edges)
            if not count.any():
                continue
            colour = mine[label, flow].colour
            ax.bar(edges[:-1], count, bin_s, under, align="edge", color=colour, label=rows.flow_names[flow])
            under = under + floats(count)
        if under.any():
            ax.legend(loc="upper right", ncols=3)
        ax.set_ylabel(f"drops per {bin_s:g} s")
        link = rows.link_names[rows.bottleneck]
        share = f"{100 * metrics.drop_share_at_link(rows):.3g} % of the packets at {link} dropped"
        ax.set_title(f"{label}: {share}".lstrip(": "))
        ax.set_xlim(0, rows.duration_s)
    axes[-1][0].set_xlabel("time (s)")
    return figure


def _bars(ax: Axes, bars: Sequence[tuple[str, float, str]], unit: str, form: str) -> None:
    at = np.arange(len(bars))[::-1]
    ax.barh(at, [value for _, value, _ in bars], color=[colour for _, _, colour in bars], height=0.62)
    for y, (_, value, _) in zip(at, bars, strict=True):
        ax.annotate(form.format(value), (value, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    ax.set_yticks(at, [name for name, _, _ in bars])
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(unit)
    ax.margins(x=0.12)
