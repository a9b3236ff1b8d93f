"""Counterparts of the paper's Figures 3 to 7, of its two tables, and what makes the 3G queue visible."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tailback.experiment import Data, Plot
from tailback.plots.style import FULL_WIDTH, GREEN, INK, ORANGE, PURPLE, SOFT, VERMILLION, house_style, new_figure

from .claims import PRINTED
from .grid import (
    ALGORITHMS,
    CALL_NETWORKS,
    LARGE,
    NETWORKS,
    RIVALS,
    SMALL,
    TITLES,
)
from .measures import kept_runs, over_seeds, retained, throughput

COLOURS = {"cubic": GREEN, "veno": ORANGE, "westwood": VERMILLION, "hybla": PURPLE}


def _names(axes: Axes, names: tuple[str, ...] = ALGORITHMS) -> None:
    axes.set_xticks(range(len(names)), [TITLES[name] for name in names], fontsize=6.5)
    axes.set_xlim(-0.6, len(names) - 0.4)


def _legend(figure: Figure, columns: int) -> None:
    lines, names = figure.axes[0].get_legend_handles_labels()
    if lines:
        figure.legend(lines, names, loc="outside lower center", ncols=columns)


def _boxes(axes: Axes, data: Data, network: str, megabytes: int) -> None:
    """Least to largest as a line, the middle half as a bar, the mean as a dot; runs of all seeds pooled."""
    found = data.runs(kind="single", network=network)
    for place, name in enumerate(ALGORITHMS):
        runs = np.concatenate([kept_runs(one["mbps"][str(megabytes)][name]) for one in found]) if found else np.zeros(0)
        if not len(runs):
            continue
        low, high = np.quantile(runs, [0.25, 0.75])
        axes.plot([place] * 2, [runs.min(), runs.max()], color=COLOURS[name], linewidth=1.0)
        axes.plot([place] * 2, [low, high], color=COLOURS[name], linewidth=8, solid_capstyle="butt", alpha=0.55)
        axes.plot(place, runs.mean(), "o", color=INK, markersize=3.5)
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
    axes.set_title(f"{megabytes} MB (Mbit/s)")
    _names(axes)


def _delay(axes: Axes, data: Data, network: str) -> None:
    sizes = NETWORKS[network].sizes
    for shift, megabytes in zip((-0.14, 0.14) if len(sizes) > 1 else (0.0,), sizes, strict=True):
        found = data.runs(kind="capture", network=network)
        for place, name in enumerate(ALGORITHMS):
            each = [rtts for one in found if (rtts := one["rtts"][str(megabytes)][name])["rtt_ms"] is not None]
            if not each:
                continue
            mean, deviation = (float(np.median([one[what] for one in each])) for what in ("rtt_ms", "sd_ms"))
            marker = "o" if megabytes == LARGE else "s"
            axes.errorbar(
                place + shift, mean, yerr=deviation, fmt=marker, color=COLOURS[name], markersize=4, capsize=2,
                markerfacecolor="white" if megabytes == SMALL else COLOURS[name],
            )  # fmt: skip
    if idle := data.runs(kind="idle", network=network):
        axes.axhline(float(np.median([one["rtt_ms"] for one in idle])), color=SOFT, linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_title("RTT, mean ± deviation (ms)")
    _names(axes)


def _friendliness(axes: Axes, data: Data, network: str) -> None:
    for place, rival in enumerate(RIVALS):
        found = [one for one in data.runs(kind="pair", network=network, rival=rival) if one["cubic_mbps"]]
        for shift, who, name in ((-0.18, "cubic_mbps", "cubic"), (0.18, "rival_mbps", rival)):
            means = [float(np.mean(one[who])) for one in found]
            if means:
                axes.bar(place + shift, float(np.median(means)), width=0.32, color=COLOURS[name], alpha=0.75)
                axes.plot([place + shift] * len(means), means, ".", color=INK, markersize=2.5)
    axes.set_ylim(bottom=0)
    axes.set_title("Beside CUBIC (Mbit/s)")
    _names(axes, RIVALS)


def _network(name: str) -> Callable[[Data], Figure]:
    def draw(data: Data) -> Figure:
        sizes = NETWORKS[name].sizes
        with house_style():
            figure, rows = new_figure(1, len(sizes) + 2, width=FULL_WIDTH, height=2.5)
            for axes, megabytes in zip(rows[0], sizes, strict=False):
                _boxes(axes, data, name, megabytes)
            _delay(rows[0][-2], data, name)
            _friendliness(rows[0][-1], data, name)
        return figure

    return draw


def calls(data: Data) -> Figure:
    """Jitter and loss as printed (black) and simulated, each seed a dot."""
    with house_style():
        figure, rows = new_figure(2, 2, width=FULL_WIDTH * 0.8, height=4.0)
        for column, network in enumerate(CALL_NETWORKS):
            _, jitter, loss = PRINTED[network]
            found = data.runs(kind="calls", network=network)
            for place, name in enumerate(ALGORITHMS):
                jitters = [one["jitter_ms"][name] for one in found if one["jitter_ms"][name] is not None]
                losses = [100.0 * one["lost"][name] / one["sent"][name] for one in found if one["sent"][name]]
                for axes, printed, ours in (
                    (rows[0][column], jitter[name], jitters),
                    (rows[1][column], loss[name], losses),
                ):
                    axes.plot([place - 0.2, place + 0.2], [printed] * 2, color=INK, linewidth=1.6)
                    axes.plot([place] * len(ours), ours, "o", color=COLOURS[name], markersize=4, alpha=0.7)
            for axes, what in ((rows[0][column], "jitter (ms)"), (rows[1][column], "loss (%)")):
                axes.set_ylim(bottom=0)
                axes.set_ylabel(what)
                _names(axes)
            rows[0][column].set_title(TITLES[network])
    return figure


def queue_3g(data: Data) -> Figure:
    """RTT during one transfer of 1 MB over 3G."""
    with house_style():
        figure, rows = new_figure(1, 1, width=FULL_WIDTH * 0.75, height=2.8)
        axes = rows[0][0]
        axes.axhspan(500, 700, color=SOFT, alpha=0.15, linewidth=0)
        found = data.first_run(kind="capture", network="3g")
        for name in ALGORITHMS:
            drawn = found["rtts"][str(SMALL)][name]["drawn"] if found else []
            if drawn:
                # Dots, as there are no samples while lost segments are sent again.
                axes.plot(*drawn, ".", color=COLOURS[name], label=TITLES[name], markersize=2.5)
        if idle := data.first_run(kind="idle", network="3g"):
            axes.axhline(idle["rtt_ms"], color=SOFT, linewidth=0.8)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel("time since the transfer began (s)")
        axes.set_ylabel("RTT (ms)")
        _legend(figure, 4)
    return figure


def ranks(data: Data) -> Figure:
    """Throughput over the mean of the four, on every network."""
    with house_style():
        figure, rows = new_figure(1, 1, width=FULL_WIDTH * 0.75, height=3.2)
        axes = rows[0][0]
        names: list[str] = []
        for network in NETWORKS:
            for megabytes in NETWORKS[network].sizes:
                each = over_seeds(throughput, data, network, megabytes)
                for name in ALGORITHMS:
                    shares = [rates[name] / np.mean(list(rates.values())) for rates in each]
                    label = TITLES[name] if not names else None
                    if shares:
                        at = float(np.median(shares))
                        axes.plot(at, len(names), "o", color=COLOURS[name], label=label, markersize=5)
                        axes.plot([min(shares), max(shares)], [len(names)] * 2, color=COLOURS[name], linewidth=1)
                names.append(f"{TITLES[network]}, {megabytes} MB")
        axes.axvline(1.0, color=SOFT, linewidth=0.8)
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("throughput over the mean of the four")
        _legend(figure, 4)
    return figure


def kept(data: Data) -> Figure:
    """What each rival keeps of its throughput beside CUBIC."""
    with house_style():
        figure, rows = new_figure(1, 1, width=FULL_WIDTH * 0.75, height=2.4)
        axes = rows[0][0]
        for row, network in enumerate(NETWORKS):
            each = over_seeds(retained, data, network)
            for name in RIVALS:
                values = [found[name] for found in each]
                label = TITLES[name] if row == 0 else None
                if values:
                    axes.plot(float(np.median(values)), row, "o", color=COLOURS[name], label=label, markersize=5)
        axes.set_yticks(range(len(NETWORKS)), [TITLES[name] for name in NETWORKS], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("throughput beside CUBIC over throughput alone")
        _legend(figure, 3)
    return figure


def _figures() -> list[Plot]:
    caption = (
        "Runs of all seeds without the slowest tenth: least to largest, middle half, mean (dot). RTT: squares 1 MB, "
        "dots 20 MB, grey the idle RTT. Beside CUBIC: mean of each, dots the seeds."
    )
    return [Plot(n, f"{TITLES[n]} (Fig. {of.figure})", caption, _network(n)) for n, of in NETWORKS.items()]


FIGURES = (
    *_figures(),
    Plot("calls", "Calls (Tables I and II)", "Black: printed. Dots: one seed each.", calls),
    Plot(
        "queue-3g", "The 3G queue", "One transfer of each; the band is what the paper measured. First seed.", queue_3g,
    ),
    Plot("ranks", "Who is fastest where", "Median and range over seeds.", ranks),
    Plot("retained", "What is kept beside CUBIC", "An even split would leave one half. Median over seeds.", kept),
)  # fmt: skip
