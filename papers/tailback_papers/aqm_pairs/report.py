"""Tables, counterparts of the paper's Figs 3 to 14, and the summary of its eight fairness figures."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tailback.experiment import Cell, Column, Data, Plot, TableOut, table
from tailback.plots.panels import band, listed, middle, plot, steps_of
from tailback.plots.style import BLUE, GREEN, SOFT, colour_of, label_ends

from .claims import mean_jain
from .grid import ABLATIONS, ALGORITHMS, DELAYS_MS, FAIR_DELAYS_MS, FLOWS, QUEUES, TITLES

_ONE = (
    Column("received (Mbit/s)", "wire_mbps", 2),
    Column("received (Kibit/s, eq. 5)", "received_kibps", 0),
    Column("goodput (Mbit/s)", "goodput_mbps", 2),
    Column("queue mean (ms)", "queue_ms_mean", 1),
    Column("queue p95 (ms)", "queue_ms_p95", 1),
    Column("loss rate", "loss", 5),
    Column("timeouts", "timeouts", 0),
)
_TEN = (
    Column("index, mean", lambda one: mean_jain(one["jain_per_second"]), 3),
    Column("lowest", lambda one: np.nanmin(one["jain_per_second"][10:]), 3),
    Column("σ", lambda one: np.nanstd(one["jain_per_second"][10:]), 3),
    Column("whole run", lambda one: one["jain_so_far"][-1], 3),
    Column("received (Mbit/s)", "wire_mbps", 1),
    Column("queue mean (ms)", "queue_ms_mean", 1),
)
_PAIR = ("algorithm", "queue", "delay (ms)")


def _label(cell: Cell, queue: str = "{}") -> list[str]:
    factors = cell.factors
    return [TITLES[factors["algorithm"]], queue.format(TITLES[factors["queue"]]), str(factors["delay_ms"])]


def all_tables(data: Data) -> list[TableOut]:
    """Throughput, fairness, and the other readings."""
    return [
        table(
            "throughput", "One flow, 20 Mbit/s",
            "Median over seeds. The paper divides bits by 1024; both units are given. Queue from 50 s on.",
            _PAIR, _ONE, ((_label(cell), found) for cell, found in data.each(flows=None, ablation=None)),
        ),
        table(
            "fairness", "Ten flows, 100 Mbit/s",
            "Jain's index of one-second rates from 5 s on; lowest and deviation (σ) after 10 s; and of the whole run.",
            _PAIR, _TEN, (
                (_label(cell, queue), found)
                for reading, queue in ((None, "{}"), ("codel-alone", "{}, no device below"),
                                       ("ns3-example", "{}, ns-3's example"))
                for cell, found in data.each(flows=FLOWS, ablation=reading)
            ),
        ),
        table(
            "other-readings", "Other readings of what the paper leaves open",
            "As the first table, one assumption changed.", ("change", *_PAIR), _ONE, (
                ([title, *_label(cell)], found)
                for name, (title, _) in ABLATIONS.items()
                for cell, found in data.each(flows=None, ablation=name)
            ),
        ),
    ]  # fmt: skip


# --- Figures ----------------------------------------------------------------------------------------------------


def _against_delay(data: Data, axes: Axes, value: str, *, labels: bool = True, ablation: str | None = None) -> None:
    ends = []
    for algorithm in ALGORITHMS:
        for queue, line in zip(QUEUES, ("-", "--"), strict=True):
            factors: dict[str, Any] = {
                "algorithm": algorithm,
                "queue": queue,
                "delay_ms": DELAYS_MS,
                "ablation": ablation,
            }
            each, colour = data.array(value, strict=False, **factors), colour_of(algorithm)
            band(axes, DELAYS_MS, each, line, colour=colour, marker="o", markersize=3)
            if not np.isnan(each).all():
                ends.append((DELAYS_MS[-1], middle(each)[-1], f"{TITLES[algorithm]} × {TITLES[queue]}", colour))
    steps_of(axes, DELAYS_MS, "bottleneck delay, one way (ms)")
    if labels and ends:
        label_ends(axes, ends)


@plot(
    "throughput", "Throughput against delay (Figs 3–6)", "One flow, 20 Mbit/s, 200 s; median over seeds, band "
    "from the least to the largest. Solid: PFIFO, dashed: CoDel.", 1, 2, height=2.9,
)  # fmt: skip
def throughput(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """Throughput and the queue's delay against the bottleneck's delay."""
    left, right = panels[0]
    # Labels are set apart by the limits they find.
    left.set_ylim(0, 21)
    _against_delay(data, left, "wire_mbps")
    left.set_ylabel("throughput (Mbit/s)")
    left.set_title("Throughput")
    _against_delay(data, right, "queue_ms_mean")
    right.set_ylabel("mean queueing delay (ms)")
    right.set_title("What it costs the others on the link")
    right.set_ylim(bottom=0)


def _fairness(algorithm: str, title: str, caption: str) -> Plot:
    def draw(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
        for row, queue in zip(panels, ("codel", "pfifo"), strict=True):
            for axes, delay in zip(row, FAIR_DELAYS_MS, strict=True):
                axes.set_title(f"{TITLES[algorithm]} × {TITLES[queue]}, {delay} ms")
                found = data.runs(algorithm=algorithm, queue=queue, delay_ms=delay, flows=FLOWS)
                if not found:
                    continue
                each = np.array([one["jain_per_second"] for one in found])
                seconds = np.arange(1, each.shape[1] + 1)
                axes.fill_between(seconds, each.min(axis=0), each.max(axis=0), color=SOFT, alpha=0.2, linewidth=0)
                axes.plot(seconds, np.median(each, axis=0), color=colour_of(algorithm), linewidth=0.8)
                so_far = np.median([one["jain_so_far"] for one in found], axis=0)
                axes.plot(seconds, so_far, color="#222222", linewidth=1.2)
                axes.set_ylim(0, 1.03)
            row[0].set_ylabel("Jain's index")
        for axes in panels[-1]:
            axes.set_xlabel("time (s)")

    return plot(f"fairness-{algorithm}", title, caption, 2, 2, height=4.2, sharex=True, sharey=True)(draw)


@plot(
    "fairness-summary", "Which pair shares most evenly", "Seconds 5 to 200 of the eight fairness runs.", width=0.75,
    height=2.6,
)  # fmt: skip
def fairness_summary(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """Mean index of each of the eight pairs."""
    axes, names = panels[0][0], list[str]()
    for algorithm in ALGORITHMS:
        for delay in FAIR_DELAYS_MS:
            for queue, colour in (("codel", GREEN), ("pfifo", BLUE)):
                found = data.runs(algorithm=algorithm, queue=queue, delay_ms=delay, flows=FLOWS)
                means = [mean_jain(one["jain_per_second"]) for one in found]
                axes.plot(means, [len(names)] * len(means), "o", color=colour, markersize=4, alpha=0.6)
                names.append(f"{TITLES[algorithm]} × {TITLES[queue]}, {delay} ms")
    listed(axes, names, "mean of Jain's index over one-second bins, each seed a dot")
    axes.set_xlim(right=1.0)


_DEEP = -(-len(ABLATIONS) // 2)


@plot(
    "other-readings", "What the paper leaves open", "Blue: NewReno, green: CUBIC; solid: PFIFO, dashed: CoDel.",
    _DEEP, 2, height=2.3 * _DEEP, sharex=True, sharey=True,
)  # fmt: skip
def ablations(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """The same throughput under other readings."""
    every = [axes for row in panels for axes in row]
    for axes in every[len(ABLATIONS) :]:
        axes.set_visible(False)
    every = every[: len(ABLATIONS)]
    for axes, (name, (title, _)) in zip(every, ABLATIONS.items(), strict=True):
        _against_delay(data, axes, "wire_mbps", labels=False, ablation=name)
        axes.set_title(fill(title, 48), fontsize=8)
    for row in panels:
        row[0].set_ylabel("throughput (Mbit/s)")
    for axes in every[:-2]:
        axes.set_xlabel("")
    # An odd one out leaves the panel above the gap the last of its column.
    for axes in every[-2:]:
        axes.tick_params(labelbottom=True)
    panels[0][0].set_ylim(0, 21)


FIGURES = (
    throughput,
    _fairness(
        "cubic", "CUBIC's fairness over time (Figs 7–10)", "Ten flows, 100 Mbit/s. Coloured: index of "
        "one-second rates (median over seeds, band over all). Black: of the throughput since the start.",
    ),
    _fairness("reno", "NewReno's fairness over time (Figs 11–14)", "As before, for NewReno."),
    fairness_summary,
    ablations,
)  # fmt: skip
