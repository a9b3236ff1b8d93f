"""Figures of user experience on the link, and of fairness between flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from .. import experience, metrics, registry
from ..metrics import MissingRows, Rows
from ..metrics.rows import Floats
from . import fits
from . import flows as who
from .registry import recipe
from .style import FULL_WIDTH, INK, SOFT, label_at, new_figure

#: User satisfaction by R, G.107 Annex B: from this rating upwards.
SATISFACTION = ((80.0, "satisfied"), (70.0, "some dissatisfied"), (60.0, "many dissatisfied"), (50.0, "nearly all"))
#: The classes as words after "users are".
CLASSES = (
    (90.0, "very satisfied"),
    (80.0, "satisfied"),
    (70.0, "dissatisfied in part"),
    (60.0, "mostly dissatisfied"),
    (50.0, "nearly all dissatisfied"),
)
WINDOW_S = 10.0


def _of(rows: Rows, table: str) -> list[str]:
    return [flow for flow, of in experience.recorded(rows.scenario).items() if of == table and rows.shows(flow)]


def _calls(rows: Rows) -> list[str]:
    """Voice flows with recorded packets, as the E-model rates only voice."""
    return [flow for flow in _of(rows, "packets") if registry.application(rows.flow_spec(flow)).datagrams == "voice"]


def _each(
    results: Mapping[str, Rows], table: str, chosen: Callable[[Rows], list[str]] | None = None
) -> Iterator[tuple[str, Rows, str, who.LineStyle]]:
    """Label, rows, flow and style of every flow measured from `table`, or of the `chosen` ones among them."""
    of = {label: (chosen(rows) if chosen else _of(rows, table)) for label, rows in results.items() if rows.has(table)}
    found = [(label, results[label], flow) for label, flows in of.items() for flow in flows]
    if not found:
        raise MissingRows(table)
    look = who.line_styles(results)
    for label, rows, flow in found:
        shown = [rows.flow(name) for name in of[label]]
        yield who.named(results, label, rows.flow(flow), shown), rows, flow, look[label, rows.flow(flow)]


def _cdf(axes: Axes, values: Floats, label: str, look: who.LineStyle) -> None:
    x, share = metrics.cdf(values)
    axes.plot(x, share, color=look.colour, ls=look.style, lw=1.2, drawstyle="steps-post", label=label)


def _shares(axes: Axes, quantity: str) -> None:
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("share of all")
    axes.set_xlabel(quantity)
    axes.legend(loc="lower right")


@recipe("response-times", "What readers of pages wait for", applies=fits.requests)
def response_times(results: Mapping[str, Rows]) -> Figure:
    """Left: share of requests answered within x. Right: median response time by size, bars from quartile to quartile.

    Requests of web, web-probe, transfers and request-response flows; what was never answered is missing on the left
    and counted in the label.
    """
    figure, axes = new_figure(1, 2, width=FULL_WIDTH, height=2.9)
    left, right = axes[0]
    for label, rows, flow, look in _each(results, "requests"):
        sizes, times = metrics.response_times(rows, flow)
        lost = metrics.unanswered(rows, flow)
        _cdf(left, times, label + (f" ({lost:.1%} unanswered)" if lost > 0 else ""), look)
        each = np.unique(sizes)
        if len(each) > 32:
            # For random sizes, bins a factor of two wide.
            sizes = 2 ** np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64)
            each = np.unique(sizes)
        quartiles = np.array([metrics.quantiles_of(times[sizes == size], (0.25, 0.5, 0.75)) for size in each])
        if len(each):
            right.vlines(each / 1e3, quartiles[:, 0], quartiles[:, 2], color=look.colour, lw=1.0, alpha=0.6)
            right.plot(each / 1e3, quartiles[:, 1], "o", color=look.colour, ls=look.style, ms=3, lw=1.0)
    left.set_xscale("log")
    _shares(left, "response time (s)")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("size (kB)")
    right.set_ylabel("response time (s)")
    for axis in (left.xaxis, right.xaxis, right.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    return figure


@recipe("voice-quality", "What a caller hears", applies=fits.voice)
def voice_quality(results: Mapping[str, Rows]) -> Figure:
    """Above: one-way delay of voice packets. Below: the calls' E-model rating R in windows of ten seconds.

    R by `metrics.voice_quality`; lines where G.107 changes its word for how satisfied users are. Beneath: what R leaves
    out, and in the legend within which bounds nine tenths of the delays lie. Flows of other media have no R.
    """
    figure, axes = new_figure(2, 1, width=FULL_WIDTH, height=3.9, sharex=True)
    top, bottom = axes[0][0], axes[1][0]
    for label, rows, flow, look in _each(results, "packets", _calls):
        sent, delay = metrics.one_way_delay(rows, flow)
        t, ms = metrics.decimate(sent, 1e3 * delay, 4000)
        top.plot(t, ms, color=look.colour, ls=look.style, lw=0.7, alpha=0.8)
        heard = metrics.voice_quality(rows, flow, window_s=WINDOW_S)
        ends = np.minimum(np.array(heard.windows_s) + WINDOW_S, rows.duration_s)
        if np.isnan(heard.mos):
            # None of its packets was recorded: there is no call to rate.
            continue
        low, high = 1e3 * metrics.quantiles_of(delay, (0.05, 0.95))
        delays = f"delay {low:.0f} to {high:.0f} ms (5 to 95 %)" if len(delay) else "no packet arrived"
        name = f"{label}, MOS {heard.mos:.1f}, {delays}"
        bottom.hlines(heard.ratings, heard.windows_s, ends, color=look.colour, ls=look.style, lw=1.8, label=name)
    for rating, words in SATISFACTION:
        bottom.axhline(rating, color=SOFT, lw=0.6, ls=":")
        label_at(bottom, 1.005, rating, words, SOFT, transform=bottom.get_yaxis_transform(), fontsize=7)
    top.set_ylim(bottom=0)
    top.set_ylabel("one-way delay (ms)")
    bottom.set_ylim(0, 100)
    bottom.set_ylabel("rating R (0 … 93)")
    bottom.set_xlabel("time (s)")
    named = [str(text) for text in bottom.get_legend_handles_labels()[1]]
    # Two columns of long names would leave no room for the axes.
    bottom.legend(loc="lower left", ncols=2 if max(map(len, named), default=0) < 50 else 1, fontsize=7)
    figure.supxlabel(metrics.NOT_RATED, fontsize=7, color=SOFT)
    return figure


@recipe("rtt-cdf", "Distribution of round-trip times", applies=fits.round_trips)
def rtt_cdf(results: Mapping[str, Rows]) -> Figure:
    """Share of round trips that took at most x: by ping where there is one, else of TCP segments by Karn's rule,
    else as the sender sampled them.
    """  # noqa: D205
    figure, axes = new_figure(1, 1, width=0.7 * FULL_WIDTH, height=2.9)
    look = who.line_styles(results)
    for label, rows in results.items():
        flows = [rows.flow(name) for name in _of(rows, "echoes")] if rows.has("echoes") else []
        if flows:
            found = [(flow, metrics.echo_rtts(rows, flow)[1]) for flow in flows]
        else:
            flow = who.first_tcp(rows)
            found = [(flow, _sampled(rows, rows.flow_names[flow]))]
        for flow, times in found:
            name = who.named(results, label, flow, [flow for flow, _ in found])
            _cdf(axes[0][0], 1e3 * times, name, look[label, flow])
    axes[0][0].set_xlim(left=0)
    _shares(axes[0][0], "round-trip time (ms)")
    return figure


def _sampled(rows: Rows, flow: str) -> Floats:
    try:
        times = metrics.karn_rtts(rows, flow)[1]
    except MissingRows:
        times = np.zeros(0)
    if len(times):
        return times
    sampled: Floats = np.asarray(rows.of_flow("polls", flow)["rtt_s"], dtype=np.float64)
    return sampled[~np.isnan(sampled) & (sampled > 0)]


@recipe("fairness", "How evenly flows share over time", applies=fits.sharing)
def fairness(results: Mapping[str, Rows], *, bin_s: float = 1.0) -> Figure:
    """Above: throughput of each bulk flow in bins of a second. Below: Jain's index over them; dashed: its least value.

    Of flows that were polled and cross the first flow's bottleneck. One that has not started counts as getting nothing.
    """
    figure, axes = new_figure(2, len(results), width=FULL_WIDTH, height=3.9, sharex="col", sharey="row")
    for column, (label, rows) in enumerate(results.items()):
        top, bottom = axes[0][column], axes[1][column]
        polled = set(np.unique(rows.column("polls", "flow")).tolist())
        neck = rows.bottleneck
        flows = [flow for flow in rows.tcp_flows if flow in polled and neck in rows.route(flow)]
        if not flows:
            raise metrics.NothingToMeasure(f"{label or 'this result'} has no polled flow that crosses the bottleneck")
        look = who.line_styles({label: rows})
        for flow in flows:
            t, rate = metrics.throughput_series(rows, flow, bin_s)
            name = rows.flow_names[flow]
            top.plot(t, 1e-6 * rate, color=look[label, flow].colour, lw=0.9, drawstyle="steps-post", label=name)
        bottom.plot(*metrics.jain_series(rows, flows, bin_s), color=INK, lw=1.1)
        bottom.axhline(1.0 / len(flows), color=SOFT, lw=0.8, ls=(0, (4, 2)))
        bottom.set_ylim(0, 1.03)
        top.set_ylim(bottom=0)
        bottom.set_xlabel("time (s)")
        if len(flows) <= 8:
            top.legend(loc="lower right", ncols=3, fontsize=7, bbox_to_anchor=(1.0, 1.0))
            top.set_title(label, loc="left")
    axes[0][0].set_ylabel("throughput (Mbit/s)")
    axes[1][0].set_ylabel("Jain's index (1/n … 1)")
    return figure
