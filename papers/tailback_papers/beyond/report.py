"""The answer for each path, every pair ranked, throughput against harm, and every pair's harm at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tailback.experiment import Data, Plot, TableOut
from tailback.judge import Interval
from tailback.plots.style import BLUE, FULL_WIDTH, GREEN, INK, ORANGE, SOFT, VERMILION, halo, house_style, new_figure

from .grid import PATHS, QUEUES, title
from .harm import ENOUGH, OnPath, Outcome, on_paths, standings

SHOWN = 8


def _interval(of: Interval, digits: int = 0, factor: float = 1.0) -> str:
    estimate, low, high = (f"{factor * value:.{digits}f}" for value in (of.estimate, of.low, of.high))
    return estimate if np.isnan(of.low) else f"{estimate} ({low} … {high})"  # NaN: one seed


def _harm(one: Outcome) -> str:
    return _interval(one.harm, factor=100.0)


def _feels(one: Outcome) -> str:
    return (
        f"call R {one.mean('rating'):.0f} (MOS {one.mean('mos'):.1f}), "
        f"page {one.mean('page_s'):.2g} s, {one.throughput.estimate:.3g} Mbit/s"
    )


def _answer(on: OnPath) -> list[str]:
    """Path, pair, its harm and throughput, CUBIC × FIFO's, and how many pairs do as well."""
    shares = [f"{_harm(one)} at {100 * on.share(one):.0f} %" if one else "–" for one in (on.eligible[0], on.standard)]
    close = f"{len(on.as_good)}: {', '.join(on.as_good[:3])}" if on.as_good else "none"
    return [on.path.title, on.eligible[0].label, *shares, close]


def _in_words(on: OnPath) -> str:
    best, close = on.eligible[0], on.as_good
    words = f"{on.path.title}: {best.label} harms least, {_harm(best)} of 100 ({_feels(best)})"
    if close:
        others = ", ".join(close[:4]) + (f" and {len(close) - 4} more" if len(close) > 4 else "")
        words += f"; within 2 points or the seeds' spread of it: {others}"
    if on.standard is not None and on.standard is not best:
        words += f". CUBIC × FIFO: {_harm(on.standard)} ({_feels(on.standard)})"
    return words + "."


def answers(data: Data) -> list[str]:
    """One sentence a path, in plain words."""
    return [_in_words(on) for on in on_paths(data)]


def _of_path(on: OnPath) -> list[list[str]]:
    return [
        [
            on.path.title, str(place), one.label, _harm(one), f"{one.mean('rating'):.0f}", f"{one.mean('mos'):.1f}",
            f"{1e3 * one.mean('call_delay_p95_s'):.0f}", f"{one.mean('page_s'):.3g}", _interval(one.throughput, 2),
            f"{100 * on.share(one):.0f}", "yes" if one in on.frontier else "",
        ]
        for place, one in enumerate(on.eligible[:SHOWN], 1)
    ]  # fmt: skip


def all_tables(data: Data) -> list[TableOut]:
    """The answers, the ranking over all paths, the best pairs of each path, and who is alone."""
    ranked = [
        [
            str(place), one.label, _interval(one.harm, 1, 100), f"{100 * one.share:.0f}",
            f"{100 * one.worst.harm.estimate:.0f}, {one.worst.path.title}",
        ]
        for place, one in enumerate(standings(data), 1)
    ]  # fmt: skip
    found = on_paths(data)
    alone = [
        [path.title, f"{first['rating']:.0f}", f"{1e3 * first['call_delay_s']:.0f}", f"{first['page_s']:.3g}"]
        for path in PATHS.values()
        if (first := data.first_run(path=path.name, algorithm=None, queue="fifo")) is not None
    ]
    return [
        TableOut(
            "answers",
            "The answer for each path",
            "The pair that harms least with at least nine tenths of the best throughput, beside CUBIC × FIFO: harm in "
            "points of 100, and throughput as a share of the best on the path.",
            ["path", "harms least", "its harm", "CUBIC × FIFO's harm", "pairs that do as well"],
            [_answer(on) for on in found],
        ),
        TableOut(
            "ranking",
            "Every pair over all paths",
            "Mean over the paths; harm in points of 100, with the 95 % interval over seeds. Throughput is a share of "
            "the best on the path.",
            ["", "pair", "harm", "throughput (%)", "worst path"],
            ranked,
        ),
        TableOut(
            "by-path",
            "The least harmful pairs of each path",
            f"Among those with at least {100 * ENOUGH:.0f} % of the best throughput. In brackets: 95 % interval of the "
            "mean over seeds.",
            [
                "path", "", "pair", "harm", "R", "MOS", "call p95 (ms)", "page (s)", "throughput (Mbit/s)",
                "of the best (%)", "Pareto",
            ],
            [row for on in found for row in _of_path(on)],
        ),
        TableOut(
            "alone",
            "No other flow on the path",
            "What call and reader have without the transfers: harm is measured against this.",
            ["path", "R", "call's delay (ms)", "page (s)"],
            alone,
        ),
    ]  # fmt: skip


# --- Figures ----------------------------------------------------------------------------------------------------


COLOURS = {"fifo": VERMILION, "codel": BLUE, "fq-codel": GREEN, "pie": ORANGE}
MARKERS = {"fifo": "o", "codel": "s", "fq-codel": "D", "pie": "^"}
COLUMNS = 3


def _short(algorithm: str) -> str:
    return {"cdg": "CDG"}.get(algorithm, title(algorithm).removeprefix("TCP ").removeprefix("TCP-"))


def _panel(axes: Axes, on: OnPath) -> None:
    place = {one: (100 * one.harm.estimate, 100 * on.share(one)) for one in on.pairs}
    for one, (x, y) in place.items():
        colour = COLOURS[one.queue]
        if np.isfinite(one.harm.low):
            axes.plot([100 * one.harm.low, 100 * one.harm.high], [y, y], color=colour, alpha=0.25, lw=0.8)
        axes.plot(x, y, MARKERS[one.queue], color=colour, markersize=3.2, markeredgewidth=0, alpha=0.8)
    axes.plot(
        *zip(*(place[one] for one in on.frontier), strict=True),
        color=INK,
        linewidth=0.8,
        drawstyle="steps-post",
        zorder=1,
    )
    axes.axhline(100 * ENOUGH, color=SOFT, linewidth=0.6, linestyle=":")
    good = on.eligible[0]
    for one in on.pairs:
        if one is good or one is on.standard:
            colour = INK if one is good else SOFT
            axes.plot(*place[one], "o", markersize=8, fillstyle="none", color=colour, markeredgewidth=1)
    halo(
        axes.text(
            0.98, 0.03, f"{_short(good.algorithm)} × {QUEUES[good.queue]}", transform=axes.transAxes, ha="right",
            va="bottom", fontsize=7, color=COLOURS[good.queue], fontweight="bold",
        )
    )  # fmt: skip
    axes.set_title(on.path.title, fontsize=8)
    axes.set_xlim(-3, 103)
    axes.set_ylim(min(80.0, axes.get_ylim()[0]), 104)


def pareto(data: Data) -> Figure:
    """A panel a path."""
    found = on_paths(data)
    lines = -(-max(1, len(found)) // COLUMNS)
    with house_style():
        figure, grid = new_figure(lines, COLUMNS, width=FULL_WIDTH, height=0.4 + 1.9 * lines)
        panels = [axes for row in grid for axes in row]
        for axes, on in zip(panels, found, strict=False):
            _panel(axes, on)
        for axes in panels[len(found) :]:
            axes.set_axis_off()
        for row in grid:
            row[0].set_ylabel("throughput (% of best)")
        for axes in panels[max(0, len(found) - COLUMNS) : len(found)]:
            axes.set_xlabel("harm to the worse-off (%)")
        handles = [
            panels[0].plot([], [], MARKERS[queue], color=COLOURS[queue], markersize=4, label=words)[0]
            for queue, words in QUEUES.items()
        ]
        if len(found) < len(panels):
            panels[-1].legend(handles=handles, loc="center", fontsize=8)
        else:
            figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def harm_by_pair(data: Data) -> Figure:
    """Algorithms by queues and paths, as shades."""
    found = {on.path.name: {(one.algorithm, one.queue): one for one in on.pairs} for on in on_paths(data)}
    order = list(dict.fromkeys(one.algorithm for one in standings(data)))
    with house_style():
        titles = [on.path.title for on in on_paths(data)]
        height = 2 * (1.9 + 0.155 * len(order))
        # Two by two: at a quarter of the page's width numbers would be too small to read.
        figure, grid = new_figure(2, -(-len(QUEUES) // 2), width=FULL_WIDTH, height=height, sharex=True, sharey=True)
        panels = [axes for row in grid for axes in row]
        image = None
        for axes, (queue, words) in zip(panels, QUEUES.items(), strict=False):
            shades = [
                [
                    100 * one.harm.estimate if (one := each.get((algorithm, queue))) else np.nan
                    for each in found.values()
                ]
                for algorithm in order
            ]
            if not shades:
                continue
            image = axes.imshow(shades, vmin=0, vmax=100, cmap="cividis_r", aspect="auto")
            for y, line in enumerate(shades):
                for x, value in enumerate(line):
                    if np.isfinite(value):
                        dark = "white" if value > 55 else INK
                        axes.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=7, color=dark)
            axes.set_title(words)
            axes.set_xticks(range(len(titles)), titles, rotation=90, fontsize=7)
            axes.grid(visible=False)
        panels[0].set_yticks(range(len(order)), [_short(algorithm) for algorithm in order], fontsize=7)
        if image is not None:
            figure.colorbar(image, ax=panels, label="harm (%)", shrink=0.5, pad=0.01)
    return figure


def pareto_interactive(data: Data) -> dict[str, Any] | None:
    """Every point named, to zoom into."""
    found = on_paths(data)
    if not found:
        return None
    traces, buttons = [], []
    for index, on in enumerate(found):
        for queue, words in QUEUES.items():
            each = [one for one in on.pairs if one.queue == queue]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": words,
                    "visible": index == 0,
                    "marker": {"color": COLOURS[queue], "size": 9},
                    "x": [round(100 * one.harm.estimate, 2) for one in each],
                    "y": [round(100 * on.share(one), 2) for one in each],
                    "text": [
                        f"{one.label}<br>R {one.mean('rating'):.0f}, page {one.mean('page_s'):.3g} s, "
                        f"{one.throughput.estimate:.3g} Mbit/s"
                        for one in each
                    ],
                    "hoverinfo": "text",
                }
            )
        shown = [number == index for number in range(len(found)) for _ in QUEUES]
        buttons.append({"label": on.path.title, "method": "update", "args": [{"visible": shown}]})
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "harm to the worse-off of caller and reader (%)"}, "range": [-3, 103]},
            "yaxis": {"title": {"text": "throughput (% of the path's best)"}},
            "updatemenus": [{"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.15}],
            "hovermode": "closest",
        },
    }


FIGURES = (
    Plot(
        "pareto", "Throughput against harm", "Every algorithm with every queue, on each path: total goodput "
        "against harm to the one that suffers more, caller (E-model R) or reader (page time). Line: pairs no other "
        "beats in both. Dotted: nine tenths of the best. Whiskers: 95 % interval over seeds. Ringed in black, and "
        "named: the pair that harms least above the dotted line; in grey: CUBIC × FIFO.", pareto, pareto_interactive,
    ),
    Plot(
        "harm-by-pair", "Harm of every pair on every path", "0: caller and reader are as well off as alone; 100: one "
        "of them has nothing left. Algorithms with the least mean harm first.", harm_by_pair,
    ),
)  # fmt: skip
