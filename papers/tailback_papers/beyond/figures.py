"""Throughput against harm on every path, and every pair's harm at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tailback.experiment import Data, Plot
from tailback.plots.style import BLUE, FULL_WIDTH, GREEN, INK, ORANGE, SOFT, VERMILLION, halo, house_style, new_figure

from .grid import PATHS, QUEUES, STANDARD, title
from .harm import ENOUGH, Outcome, best_mbps, eligible, frontier, outcomes, standings

COLOURS = {"fifo": VERMILLION, "codel": BLUE, "fq-codel": GREEN, "pie": ORANGE}
MARKERS = {"fifo": "o", "codel": "s", "fq-codel": "D", "pie": "^"}
COLUMNS = 3


def _short(algorithm: str) -> str:
    return {"cdg": "CDG"}.get(algorithm, title(algorithm).removeprefix("TCP ").removeprefix("TCP-"))


def _panel(axes: Any, found: list[Outcome]) -> None:
    best = best_mbps(found)
    for one in found:
        x, y = 100 * one.harm.estimate, 100 * one.throughput.estimate / best
        if np.isfinite(one.harm.low):
            axes.plot([100 * one.harm.low, 100 * one.harm.high], [y, y], color=COLOURS[one.queue], alpha=0.25, lw=0.8)
        axes.plot(x, y, MARKERS[one.queue], color=COLOURS[one.queue], markersize=3.2, markeredgewidth=0, alpha=0.8)
    front = frontier(found)
    axes.plot(
        [100 * one.harm.estimate for one in front],
        [100 * one.throughput.estimate / best for one in front],
        color=INK, linewidth=0.8, drawstyle="steps-post", zorder=1,
    )  # fmt: skip
    axes.axhline(100 * ENOUGH, color=SOFT, linewidth=0.6, linestyle=":")
    good = next(iter(eligible(found)), None)
    for one in found:
        if one is good or (one.algorithm, one.queue) == STANDARD:
            x, y = 100 * one.harm.estimate, 100 * one.throughput.estimate / best
            axes.plot(x, y, "o", markersize=8, fillstyle="none", color=INK if one is good else SOFT, markeredgewidth=1)
    if good is not None:
        halo(
            axes.text(
                0.98, 0.03, f"{_short(good.algorithm)} × {QUEUES[good.queue]}", transform=axes.transAxes, ha="right",
                va="bottom", fontsize=7, color=COLOURS[good.queue], fontweight="bold",
            )
        )  # fmt: skip


def pareto(data: Data) -> Figure:
    """A panel a path."""
    found = {path: rows for path in PATHS.values() if (rows := outcomes(data, path))}
    count = max(1, len(found))
    lines = -(-count // COLUMNS)
    with house_style():
        figure, grid = new_figure(lines, COLUMNS, width=FULL_WIDTH, height=0.4 + 1.9 * lines)
        panels = [axes for row in grid for axes in row]
        for axes, (path, each) in zip(panels, found.items(), strict=False):
            _panel(axes, each)
            axes.set_title(path.title, fontsize=8)
            axes.set_xlim(-3, 103)
            axes.set_ylim(min(80.0, axes.get_ylim()[0]), 104)
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
    found = {path: {(one.algorithm, one.queue): one for one in outcomes(data, path)} for path in PATHS.values()}
    found = {path: rows for path, rows in found.items() if rows}
    order = list(dict.fromkeys(one.algorithm for one in standings(data)))
    with house_style():
        height = 1.1 + 0.19 * len(order)
        figure, rows = new_figure(1, len(QUEUES), width=FULL_WIDTH, height=height, sharey=True)
        image = None
        for axes, (queue, words) in zip(rows[0], QUEUES.items(), strict=True):
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
                        axes.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=5, color=dark)
            axes.set_title(words)
            axes.set_xticks(range(len(found)), [path.name for path in found], rotation=90, fontsize=6.5)
            axes.grid(visible=False)
        rows[0][0].set_yticks(range(len(order)), [_short(algorithm) for algorithm in order], fontsize=7)
        if image is not None:
            figure.colorbar(image, ax=rows[0], label="harm (%)", shrink=0.7, pad=0.01)
    return figure


def pareto_interactive(data: Data) -> dict[str, Any] | None:
    """Every point named, to zoom into."""
    found = {path: rows for path in PATHS.values() if (rows := outcomes(data, path))}
    if not found:
        return None
    traces, buttons = [], []
    for index, (path, rows) in enumerate(found.items()):
        best = best_mbps(rows)
        for queue, words in QUEUES.items():
            each = [one for one in rows if one.queue == queue]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": words,
                    "visible": index == 0,
                    "marker": {"color": COLOURS[queue], "size": 9},
                    "x": [round(100 * one.harm.estimate, 2) for one in each],
                    "y": [round(100 * one.throughput.estimate / best, 2) for one in each],
                    "text": [
                        f"{one.label}<br>R {one.mean('rating'):.0f}, page {one.mean('page_s'):.3g} s, "
                        f"{one.throughput.estimate:.3g} Mbit/s"
                        for one in each
                    ],
                    "hoverinfo": "text",
                }
            )
        shown = [number == index for number in range(len(found)) for _ in QUEUES]
        buttons.append({"label": path.title, "method": "update", "args": [{"visible": shown}]})
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
        "pareto", "Throughput against harm", "Every algorithm with every queue, on each path: everybody's goodput "
        "against harm to whoever suffers more, the caller (E-model R) or the reader (page time). Line: pairs no other "
        "beats in both. Dotted: nine tenths of the best. Whiskers: 95 % interval over seeds. Ringed in black, and "
        "named: the pair that harms least above the dotted line; in grey: CUBIC × FIFO.", pareto, pareto_interactive,
    ),
    Plot(
        "harm-by-pair", "Harm of every pair on every path", "0: caller and reader are as well off as alone; 100: one "
        "of them has nothing left. Algorithms with the least mean harm first.", harm_by_pair,
    ),
)  # fmt: skip
