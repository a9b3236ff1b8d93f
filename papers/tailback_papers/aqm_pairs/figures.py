"""Counterparts of the paper's Figs 3 to 14, and the summary of its eight fairness figures."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tailback.experiment import Data, Plot, Summary
from tailback.plots.style import (
    BLUE,
    FULL_WIDTH,
    GREEN,
    SOFT,
    colour_of,
    house_style,
    label_ends,
    new_figure,
)

from .claims import mean_jain
from .grid import ABLATIONS, ALGORITHMS, DELAYS_MS, FAIR_DELAYS_MS, FLOWS, QUEUES, TITLES

_LINE = {"pfifo": "-", "codel": "--"}


def _median(found: list[Summary], value: str) -> float:
    return float(np.median([one[value] for one in found])) if found else float("nan")


def _against_delay(data: Data, axes: Any, value: str, *, labels: bool = True, **factors: str) -> None:
    ends = []
    for algorithm in ALGORITHMS:
        for queue in QUEUES:
            cells = [data.runs(algorithm=algorithm, queue=queue, delay_ms=delay, **factors) for delay in DELAYS_MS]
            if not any(cells):
                continue
            middle = [_median(found, value) for found in cells]
            low = [min((one[value] for one in found), default=np.nan) for found in cells]
            high = [max((one[value] for one in found), default=np.nan) for found in cells]
            colour = colour_of(algorithm)
            axes.fill_between(DELAYS_MS, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(DELAYS_MS, middle, _LINE[queue], color=colour, marker="o", markersize=3)
            ends.append((DELAYS_MS[-1], middle[-1], f"{TITLES[algorithm]} × {TITLES[queue]}", colour))
    axes.set_xscale("log")
    axes.set_xticks(DELAYS_MS, [str(delay) for delay in DELAYS_MS])
    axes.minorticks_off()
    axes.set_xlabel("bottleneck delay, one way (ms)")
    if labels and ends:
        label_ends(axes, ends)


def throughput(data: Data) -> Figure:
    """Figs 3 to 6: throughput and the queue's delay against the bottleneck's delay."""
    with house_style():
        figure, rows = new_figure(1, 2, width=FULL_WIDTH, height=2.9)
        left, right = rows[0]
        # Labels are set apart by the limits they find.
        left.set_ylim(0, 21)
        _against_delay(data, left, "wire_mbps")
        left.set_ylabel("throughput (Mbit/s)")
        left.set_title("Throughput")
        _against_delay(data, right, "queue_ms_mean")
        right.set_ylabel("mean queueing delay (ms)")
        right.set_title("What it costs the others on the link")
        right.set_ylim(bottom=0)
    return figure


def _fairness(algorithm: str) -> Any:
    def draw(data: Data) -> Figure:
        with house_style():
            figure, rows = new_figure(2, 2, width=FULL_WIDTH, height=4.2, sharex=True, sharey=True)
            for row, queue in zip(rows, ("codel", "pfifo"), strict=True):
                for axes, delay in zip(row, FAIR_DELAYS_MS, strict=True):
                    axes.set_title(f"{TITLES[algorithm]} × {TITLES[queue]}, {delay} ms")
                    found = data.runs(algorithm=algorithm, queue=queue, delay_ms=delay, flows=FLOWS)
                    if not found:
                        continue
                    seconds = np.arange(1, len(found[0]["jain_per_second"]) + 1)
                    each = np.array([one["jain_per_second"] for one in found])
                    axes.fill_between(seconds, each.min(axis=0), each.max(axis=0), color=SOFT, alpha=0.2, linewidth=0)
                    axes.plot(seconds, np.median(each, axis=0), color=colour_of(algorithm), linewidth=0.8)
                    so_far = np.median([one["jain_so_far"] for one in found], axis=0)
                    axes.plot(seconds, so_far, color="#222222", linewidth=1.2)
                    axes.set_ylim(0, 1.03)
            rows[0][0].set_ylabel("Jain's index")
            rows[1][0].set_ylabel("Jain's index")
            for axes in rows[1]:
                axes.set_xlabel("time (s)")
        return figure

    return draw


def fairness_summary(data: Data) -> Figure:
    """Mean index of each of the eight pairs."""
    with house_style():
        figure, rows = new_figure(1, 1, width=FULL_WIDTH * 0.75, height=2.6)
        axes = rows[0][0]
        names, position = [], 0
        for algorithm in ALGORITHMS:
            for delay in FAIR_DELAYS_MS:
                for queue, colour in (("codel", GREEN), ("pfifo", BLUE)):
                    means = [
                        mean_jain(one)
                        for one in data.runs(algorithm=algorithm, queue=queue, delay_ms=delay, flows=FLOWS)
                    ]
                    axes.plot(means, [position] * len(means), "o", color=colour, markersize=4, alpha=0.6)
                    names.append(f"{TITLES[algorithm]} × {TITLES[queue]}, {delay} ms")
                    position += 1
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel("mean of Jain's index over one-second bins, each seed a dot")
        axes.set_xlim(right=1.0)
    return figure


def ablations(data: Data) -> Figure:
    """The same throughput under other readings of what the paper leaves open."""
    with house_style():
        deep = -(-len(ABLATIONS) // 2)
        figure, rows = new_figure(deep, 2, width=FULL_WIDTH, height=2.3 * deep, sharex=True, sharey=True)
        panels = [axes for row in rows for axes in row]
        every = panels[: len(ABLATIONS)]
        for spare in panels[len(ABLATIONS) :]:
            spare.set_visible(False)
        for axes, (name, (title, _)) in zip(every, ABLATIONS.items(), strict=True):
            _against_delay(data, axes, "wire_mbps", labels=False, ablation=name)
            axes.set_title(fill(title, 48), fontsize=8)
        for row in rows:
            row[0].set_ylabel("throughput (Mbit/s)")
        for axes in every[:-2]:
            axes.set_xlabel("")
        # An odd one out leaves the panel above the gap the last of its column.
        for axes in every[-2:]:
            axes.tick_params(labelbottom=True)
        rows[0][0].set_ylim(0, 21)
    return figure


FIGURES = (
    Plot(
        "throughput", "Throughput against delay (Figs 3–6)", "One flow, 20 Mbit/s, 200 s; median over seeds, band "
        "from the least to the largest. Solid: PFIFO, dashed: CoDel.", throughput,
    ),
    Plot(
        "fairness-cubic", "CUBIC's fairness over time (Figs 7–10)", "Ten flows, 100 Mbit/s. Coloured: index of "
        "one-second rates (median over seeds, band over all). Black: of the throughput since the start.",
        _fairness("cubic"),
    ),
    Plot("fairness-reno", "NewReno's fairness over time (Figs 11–14)", "As before, for NewReno.", _fairness("reno")),
    Plot(
        "fairness-summary", "Which pair shares most evenly", "Seconds 5 to 200 of the eight fairness runs.",
        fairness_summary,
    ),
    Plot(
        "other-readings", "What the paper leaves open", "Blue: NewReno, green: CUBIC; solid: PFIFO, dashed: CoDel.",
        ablations,
    ),
)  # fmt: skip
