"""Counterparts of the paper's Figures 1 to 6, and two that put printed and simulated numbers side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tailback.experiment import Data, Near, Plot, Within
from tailback.plots.style import BLUE, FULL_WIDTH, GREEN, ORANGE, PURPLE, SOFT, house_style, new_figure

from .claims import CLAIMS, LONG_S, SHORT_S, median_of
from .extract import QUANTILES
from .grid import PATHS, TITLES

COLOURS = {"reno": BLUE, "cubic": GREEN, "cdg": PURPLE, "vegas": ORANGE}
_DRAWN = ("reno", "cubic", "vegas", "cdg")


def _quantiles(data: Data, path: str, algorithm: str, what: str) -> list[float] | None:
    """Of the first seed: one evening, as the paper's."""
    found = data.first_run(path=path)
    return found["algorithms"][algorithm][what] if found else None


def _cdf(axes: Any, data: Data, path: str, what: str, unit: str, style: str = "-", *, label: bool = True) -> None:
    for algorithm in _DRAWN:
        values = _quantiles(data, path, algorithm, what)
        if not values:
            continue
        middle = float(np.interp(0.5, QUANTILES, values))
        name = f"{TITLES[algorithm]} (median {middle:.3g} {unit})" if label else None
        axes.plot(values, QUANTILES, style, color=COLOURS[algorithm], label=name, linewidth=1.2 if label else 0.8)


def _legend(figure: Figure) -> None:
    """The medians, beneath the panel so that no curve runs through them."""
    lines, names = figure.axes[0].get_legend_handles_labels()
    if lines:
        figure.legend(lines, names, loc="outside lower center", ncols=2)


def _rtt(path: str) -> Callable[[Data], Figure]:
    def draw(data: Data) -> Figure:
        with house_style():
            figure, rows = new_figure(1, 1, width=0.72 * FULL_WIDTH, height=3.3)
            axes = rows[0][0]
            _cdf(axes, data, path, "spp_ms", "ms")
            _cdf(axes, data, path, "ping_ms", "ms", ":", label=False)
            axes.axvline(PATHS[path].idle_ms, color=SOFT, linewidth=0.8)
            axes.set_xlim(left=0)
            axes.set_ylim(0, 1)
            axes.set_xlabel("RTT (ms)")
            axes.set_ylabel("share of samples at or below")
            _legend(figure)
        return figure

    return draw


def _bandwidth(path: str) -> Callable[[Data], Figure]:
    def draw(data: Data) -> Figure:
        with house_style():
            figure, rows = new_figure(1, 1, width=0.72 * FULL_WIDTH, height=3.3)
            axes = rows[0][0]
            _cdf(axes, data, path, "mbps", "Mbit/s")
            axes.set_xlim(left=0)
            axes.set_ylim(0, 1)
            axes.set_xlabel("throughput in intervals of 1 s (Mbit/s)")
            axes.set_ylabel("share of intervals at or below")
            _legend(figure)
        return figure

    return draw


def medians(data: Data) -> Figure:
    """What the paper prints (black, with ±25 %) and what came out, each seed a dot."""
    with house_style():
        figure, rows = new_figure(2, len(PATHS), width=FULL_WIDTH, height=4.2)
        for panels, what, unit in ((rows[0], "spp_ms", "RTT (ms)"), (rows[1], "mbps", "throughput (Mbit/s)")):
            for axes, path in zip(panels, PATHS, strict=True):
                for place, algorithm in enumerate(_DRAWN):
                    values = [median_of(data, seed, path, algorithm, what) for seed in data.seeds]
                    axes.plot([place] * len(values), values, "o", color=COLOURS[algorithm], markersize=4, alpha=0.7)
                    printed = _printed(path, algorithm, what)
                    if printed:
                        low, high = printed
                        axes.plot([place + 0.25] * 2, [low, high], color="#222222", linewidth=1.4)
                axes.set_xticks(range(len(_DRAWN)), [TITLES[algorithm] for algorithm in _DRAWN], fontsize=7)
                axes.set_ylim(bottom=0)
                axes.set_title(TITLES[path])
            panels[0].set_ylabel(unit)
    return figure


def _printed(path: str, algorithm: str, what: str) -> tuple[float, float] | None:
    """The interval within which a printed median counts as reproduced."""
    figure = f"{'rtt' if what == 'spp_ms' else 'bandwidth'}-{path}"
    for claim in CLAIMS:
        if claim.figure == figure and claim.text.startswith(f"{TITLES[path]}: {TITLES[algorithm]}'s"):
            rule = claim.rule
            if isinstance(rule, Near):
                return rule.target * (1 - rule.tolerance), rule.target * (1 + rule.tolerance)
            if isinstance(rule, Within):
                return rule.low, rule.high
    return None


def durations(data: Data) -> Figure:
    """How long each transfer of the first seed took."""
    with house_style():
        figure, rows = new_figure(1, 1, width=FULL_WIDTH * 0.75, height=2.6)
        axes = rows[0][0]
        axes.axvspan(SHORT_S, LONG_S, color=SOFT, alpha=0.15, linewidth=0)
        names: list[str] = []
        for path in PATHS:
            for algorithm in _DRAWN:
                found = data.first_run(path=path)
                took = found["algorithms"][algorithm]["transfer_s"] if found else []
                axes.plot(took, [len(names)] * len(took), "o", color=COLOURS[algorithm], markersize=4, alpha=0.6)
                names.append(f"{TITLES[path]}, {TITLES[algorithm]}")
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("duration of a transfer (s); grey: “roughly 30 to 50 s”")
    return figure


def _figures() -> list[Plot]:
    made = []
    for number, path in enumerate(PATHS):
        made += [
            Plot(
                f"rtt-{path}",
                f"RTT on {TITLES[path]} (Fig. {2 * number + 1})",
                "Solid: synthetic packet pairs; dotted: pings. Grey: the idle RTT the paper prints. First seed.",
                _rtt(path),
            ),
            Plot(
                f"bandwidth-{path}",
                f"Throughput on {TITLES[path]} (Fig. {2 * number + 2})",
                "Every packet received, repeated or not, tcpstat's way. First seed.",
                _bandwidth(path),
            ),
        ]
    return made


FIGURES = (
    *_figures(),
    Plot("medians", "Printed and simulated medians", "Black: the printed median ±25 %. Dots: one seed each.", medians),
    Plot("durations", "How long the transfers took", "First seed; the paper's range in grey.", durations),
)  # fmt: skip
