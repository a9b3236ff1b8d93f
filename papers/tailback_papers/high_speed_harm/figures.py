"""Counterparts of the paper's Figures 4 to 9, and two that look at causes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tailback.experiment import Data, Plot, Summary
from tailback.plots.style import (
    BLUE,
    FULL_WIDTH,
    GREEN,
    ORANGE,
    PURPLE,
    SOFT,
    VERMILLION,
    house_style,
    new_figure,
)

from .extract import JOIN_RTTS, QUANTILES
from .grid import ALGORITHMS, FEW, LAN, MANY, TITLES, WAN, Network, factors_of
from .matrices import SeedRuns

COLOURS = {"reno": BLUE, "highspeed": PURPLE, "htcp": VERMILLION, "cubic": GREEN, "compound": ORANGE}
LEAST = 100.0 * float(QUANTILES[1] - QUANTILES[0])
"""Per cent: the last step of the quantiles that are kept."""
MARKS = {"reno": "o", "highspeed": "s", "htcp": "^", "cubic": "D", "compound": "v"}

Panel = tuple[str, str, Callable[[Any], Any]]
"""What of the summary, the axis, and how it becomes the axis's unit."""


def _same(value: Any) -> Any:
    return value


def _percent(value: Any) -> Any:
    return 100.0 * value


def _milliseconds(value: Any) -> Any:
    return 1e3 * value


USED: Panel = ("utilisation", "utilisation (%)", _percent)
LOST: Panel = ("loss", "loss rate (%)", _percent)
USERS: tuple[Panel, ...] = (
    ("www/4/mean", "WWW, 4 KB (ms)", _milliseconds),
    ("www/64/mean", "WWW, 64 KB (ms)", _milliseconds),
    ("voip_ms", "VoIP, one-way delay (ms)", _same),
    ("jitter_ms", "VoIP, jitter (ms)", _same),
    ("ftp_mbps", "FTP (Mbit/s)", _same),
    ("hftp_mbps", "HFTP (Mbit/s)", _same),
)


def _against_queue(axes: Any, data: Data, panel: Panel, network: Network, flows: int) -> None:
    what, label, unit = panel
    queues = network.queues
    for algorithm in ALGORITHMS:
        each = np.array(
            [
                unit(SeedRuns(data, seed, strict=False).at(what, (algorithm,), queues, network.name, flows)[0])
                for seed in data.seeds
            ]
        )
        there = ~np.isnan(each).all(axis=0)
        if not there.any():
            continue
        x, found = np.asarray(queues)[there], each[:, there]
        colour = COLOURS[algorithm]
        low, high = np.nanmin(found, axis=0), np.nanmax(found, axis=0)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        middle = np.nanmedian(found, axis=0)
        axes.plot(x, middle, color=colour, marker=MARKS[algorithm], markersize=3.2, label=TITLES[algorithm])
    axes.set_xscale("log")
    axes.set_xticks(queues, [f"{queue:g}" for queue in queues])
    axes.minorticks_off()
    axes.set_ylabel(label)


def _log(axes: Any) -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure) -> None:
    """One for all panels, beneath them."""
    lines, names = figure.axes[0].get_legend_handles_labels()
    if lines:
        figure.legend(lines, names, loc="outside lower center", ncols=len(names))


def _panels(
    panels: tuple[Panel, ...], network: Network, columns: int, height: float, flows: int = FEW
) -> Callable[[Data], Figure]:
    def draw(data: Data) -> Figure:
        with house_style():
            rows = -(-len(panels) // columns)
            figure, grid = new_figure(rows, columns, width=FULL_WIDTH, height=height, sharex=True)
            flat = [axes for row in grid for axes in row]
            for axes, panel in zip(flat, panels, strict=False):
                _against_queue(axes, data, panel, network, flows)
                if panel is LOST and axes.lines:
                    _log(axes)
            for axes in flat[len(panels) :]:
                axes.set_visible(False)
            for axes in grid[-1]:
                axes.set_xlabel(f"queue (BDP of the {TITLES[network.name]})")
            _legend(figure)
        return figure

    return draw


def cdf(data: Data) -> Figure:
    """Fig. 6: response times of 64 KB with 0.1 BDP, as the share that takes longer."""
    with house_style():
        figure, rows = new_figure(1, 1, width=0.7 * FULL_WIDTH, height=3.2)
        axes = rows[0][0]
        drawn = []
        for algorithm in ALGORITHMS:
            found = [one["www"]["64"]["quantiles"] for one in _found(data, algorithm, 0.1)]
            if found:
                values = np.median(np.array(found), axis=0)
                drawn.append(values)
                # Nobody takes longer than the slowest.
                slower = 100 * (1 - QUANTILES[:-1])
                axes.plot(values[:-1], slower, color=COLOURS[algorithm], label=TITLES[algorithm])
        if drawn:
            axes.set_xlim(0.97 * min(one[0] for one in drawn), 1.03 * max(one[-2] for one in drawn))
            _log(axes)
        axes.set_ylim(LEAST, 100)
        axes.set_xlabel("response time of 64 KB (s)")
        axes.set_ylabel("transactions that take longer (%)")
        _legend(figure)
    return figure


def _found(data: Data, algorithm: str, queue: float) -> list[Summary]:
    return [one for one in data.runs(**factors_of("wan", algorithm, queue)) if "64" in one["www"]]


CAUSES: tuple[Panel, ...] = (
    ("step", "growth before a reduction\n(segments a round trip)", _same),
    ("drops_per_event", "packets lost\nin a congestion event", _same),
    ("reductions_per_s", "reductions of a flow\n(1/s)", _same),
    ("above_half", "time with the queue\nover half full (%)", _percent),
)


def mechanism(data: Data) -> Figure:
    """Why: steps, bursts of loss, how often, and where the queue stands."""
    with house_style():
        figure, grid = new_figure(2, len(CAUSES), width=FULL_WIDTH, height=4.2)
        for row, network in zip(grid, (WAN, LAN), strict=True):
            for axes, panel in zip(row, CAUSES, strict=True):
                _against_queue(axes, data, panel, network, FEW)
                axes.set_title(panel[1], fontsize=7.5, fontweight="normal")
                axes.set_ylabel("")
                if panel[0] in ("drops_per_event", "reductions_per_s") and axes.lines:
                    _log(axes)
                axes.set_xlabel("queue (BDP)")
                axes.tick_params(axis="x", labelsize=6.5)
            row[0].set_ylabel(TITLES[network.name], fontweight="bold")
        _legend(figure)
    return figure


def joins(data: Data) -> Figure:
    """What is lost when flows join, beside the rest."""
    with house_style():
        figure, rows = new_figure(1, 1, width=FULL_WIDTH, height=2.8)
        axes = rows[0][0]
        width = 0.15
        for place, algorithm in enumerate(ALGORITHMS):
            at = np.arange(len(WAN.queues)) + (place - 2) * width
            share = [
                np.median([1e2 * one[what] / one["arrived"] for one in found]) if found else 0
                for what in ("join_drops", "drops")
                for found in (data.runs(**factors_of("wan", algorithm, queue)) for queue in WAN.queues)
            ]
            early, every = share[: len(WAN.queues)], share[len(WAN.queues) :]
            axes.bar(at, every, width * 0.9, color=COLOURS[algorithm], alpha=0.3)
            axes.bar(at, early, width * 0.9, color=COLOURS[algorithm], label=TITLES[algorithm])
        axes.set_xticks(range(len(WAN.queues)), [f"{queue:g}" for queue in WAN.queues])
        axes.set_xlabel("queue (BDP of the ocean link)")
        axes.set_ylabel("packets lost (%)")
        axes.grid(axis="x", visible=False)
        _legend(figure)
    return figure


def over_time(data: Data) -> Figure:
    """Windows and queue of the first seed, 0.1 and 1 BDP."""
    with house_style():
        figure, rows = new_figure(4, len(ALGORITHMS), width=FULL_WIDTH, height=5.2, sharex=True, sharey="row")
        for column, algorithm in enumerate(ALGORITHMS):
            rows[0][column].set_title(TITLES[algorithm])
            for half, queue in enumerate((0.1, 1.0)):
                one = data.first_run(**factors_of("wan", algorithm, queue))
                if one is None:
                    continue
                series = one["series"]
                above, below = rows[2 * half][column], rows[2 * half + 1][column]
                above.plot(series["t_s"], series["cwnd"], color=COLOURS[algorithm], linewidth=0.8)
                below.fill_between(series["t_s"], series["queue_ms"], color=SOFT, alpha=0.5, linewidth=0)
            rows[-1][column].set_xlabel("time (s)")
        for half, queue in enumerate((0.1, 1.0)):
            rows[2 * half][0].set_ylabel(f"{queue:g} BDP\nwindows (seg.)")
            rows[2 * half + 1][0].set_ylabel("queue (ms)")
        for axes in (axes for row in rows for axes in row):
            axes.set_ylim(bottom=0)
            axes.tick_params(labelsize=6.5)
        figure.align_ylabels([row[0] for row in rows])
    return figure


_BANDS = "Lines: median over seeds; bands: from the least to the largest. Four high-speed flows."
FIGURES = (
    Plot("wan-link", "The ocean link: utilisation and loss (Fig. 4)", _BANDS, _panels((USED, LOST), WAN, 2, 3.0)),
    Plot("wan-users", "The ocean link: what users get (Fig. 5)", _BANDS, _panels(USERS, WAN, 2, 6.2)),
    Plot(
        "wan-cdf", "64 KB beside high-speed flows, 0.1 BDP (Fig. 6)", "The paper's CDF turned over, on a logarithmic "
        "axis: the slow transactions are few. Quantiles are medians over seeds, in steps of half a per cent.", cdf,
    ),
    Plot(
        "wan-20", "Twenty flows on the ocean link (Fig. 7)", _BANDS.replace("Four", "Twenty"),
        _panels((USED, USERS[1]), WAN, 2, 3.0, MANY),
    ),
    Plot("lan-link", "The campus: utilisation and loss (Fig. 8)", _BANDS, _panels((USED, LOST), LAN, 2, 3.0)),
    Plot("lan-users", "The campus: what remote users get (Fig. 9)", _BANDS, _panels(USERS, LAN, 2, 6.2)),
    Plot(
        "mechanism", "Why", "After all flows have joined: growth just before reductions (median), packets of the "
        "flows lost in a congestion event, how often a flow reduces, and how long the queue is over half full.",
        mechanism,
    ),
    Plot(
        "joins", "What is lost when flows join",
        f"Solid: drops within {JOIN_RTTS} empty round trips of a join; pale: all. Share of the packets that "
        "arrived at the ocean link.",
        joins,
    ),
    Plot(
        "over-time", "Windows and queue over time", "First seed, the ocean link: the flows' windows together, and the "
        "queue's delay, with 0.1 and 1 BDP.", over_time,
    ),
)  # fmt: skip
