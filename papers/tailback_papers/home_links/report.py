"""Tables, counterparts of the paper's Figures 1 to 6, and two that put printed and simulated numbers side by side."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tailback.experiment import QUANTILES, Data, Near, Plot, Summary, TableOut, Within, fitted_table, quantile, shown
from tailback.plots.panels import legend_below, listed, plot
from tailback.plots.style import BLUE, GREEN, ORANGE, PURPLE, SOFT

from .claims import CLAIMS, EVERYWHERE, LONG_S, PING, RATE, RTT, SHORT_S
from .grid import ABLATIONS, ALGORITHMS, FITTED, PATHS, TITLES

_COLUMNS: dict[str, tuple[str, Any, int]] = {
    "RTT by pairs": (RTT, quantile(0.5), 1),
    "its 10 %": (RTT, quantile(0.1), 1),
    "90 %": (RTT, quantile(0.9), 1),
    "RTT by pings": (PING, quantile(0.5), 1),
    "throughput, 1 s": (RATE, quantile(0.5), 2),
    "5 s": ("algorithms/{algorithm}/mbps_5s", float, 2),
    "transfer (s)": ("algorithms/{algorithm}/transfer_s", np.median, 1),
    "pairs": ("algorithms/{algorithm}/spp_samples", float, 0),
    "pings": ("algorithms/{algorithm}/ping_samples", float, 0),
}
"""Head, what lies where in the summary, what is taken of it, digits."""


def _medians(data: Data) -> list[list[str]]:
    return [
        [
            TITLES[path], TITLES[algorithm],
            *(shown(data.array(what, take=take, path=path, algorithm=algorithm, strict=False), digits)
              for what, take, digits in _COLUMNS.values()),
        ]
        for path in PATHS
        for algorithm in ALGORITHMS
        if data.runs(path=path)
    ]  # fmt: skip


def _paths(data: Data) -> list[list[str]]:
    rows = []
    for name, path in PATHS.items():
        of = partial(data.array, path=name, strict=False)
        if found := data.runs(path=name):
            drops = (f"{link} {shown(of(f'dropped/{link}'), 0)}" for link in found[0]["dropped"])
            rows.append([
                TITLES[name], f"{path.megabytes} MB", f"{path.pings_a_second} /s", f"{path.idle_ms:g}",
                shown(of("idle_ms"), 1), shown(of("retransmitted"), 0), shown(of("timeouts"), 0), ", ".join(drops),
                shown(of("unfinished"), 0),
            ])  # fmt: skip
    return rows


def _others(data: Data) -> list[list[str]]:
    rows = []
    for name, reading in ABLATIONS.items():
        for path in reading.paths:
            of = partial(data.array, take=quantile(0.5), path=path, ablation=name, strict=False)
            cells = [
                f"{shown(of(PING, algorithm=algorithm), 1)} / {shown(of(RATE, algorithm=algorithm), 2)}"
                for algorithm in ALGORITHMS
            ]
            if data.runs(path=path, ablation=name):
                rows.append([name, reading.title, TITLES[path], *cells])
    return rows


def all_tables(data: Data) -> list[TableOut]:
    """What was fitted, the medians, the links, and the other readings."""
    return [
        fitted_table(FITTED),
        TableOut(
            "medians",
            "Medians",
            "Median over seeds of each evening's pooled medians. RTTs in ms, throughput in Mbit/s of IP.",
            ["link", "algorithm", *_COLUMNS],
            _medians(data),
        ),
        TableOut(
            "links",
            "The links",
            "Idle RTT by pings between the transfers; the rest over a whole evening.",
            [
                "link", "transfers of", "pings", "idle RTT, paper (ms)", "here", "segments sent again", "timeouts",
                "drops by link", "transfers unfinished",
            ],
            _paths(data),
        ),
        TableOut(
            "other-readings",
            "Other readings of what the paper leaves open",
            "Median RTT by pings in ms / median throughput in Mbit/s, one assumption changed.",
            ["ablation", "change", "link", *(TITLES[algorithm] for algorithm in ALGORITHMS)],
            _others(data),
        ),
    ]  # fmt: skip


# --- Figures ----------------------------------------------------------------------------------------------------


COLOURS = {"reno": BLUE, "cubic": GREEN, "vegas": ORANGE, "cdg": PURPLE}
"""In the order in which they are drawn."""


def _evening(data: Data, path: str, algorithm: str) -> Summary:
    """What was kept of an algorithm on a link; of the first seed: one evening, as the paper's."""
    found = data.first_run(path=path)
    return found["algorithms"][algorithm] if found else {}


def _cdf(axes: Axes, data: Data, path: str, what: str, unit: str = "", style: str = "-") -> None:
    for algorithm, colour in COLOURS.items():
        if values := _evening(data, path, algorithm).get(what):
            name = f"{TITLES[algorithm]} (median {quantile(0.5)(values):.3g} {unit})" if unit else None
            axes.plot(values, QUANTILES, style, color=colour, label=name, linewidth=1.2 if unit else 0.8)


def _rtt(path: str, number: int) -> Plot:
    def draw(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
        axes = panels[0][0]
        _cdf(axes, data, path, "spp_ms", "ms")
        _cdf(axes, data, path, "ping_ms", style=":")
        axes.axvline(PATHS[path].idle_ms, color=SOFT, linewidth=0.8)
        _finish(figure, axes, "RTT (ms)", "samples")

    caption = "Solid: synthetic packet pairs; dotted: pings. Grey: the idle RTT the paper prints. First seed."
    return plot(f"rtt-{path}", f"RTT on {TITLES[path]} (Fig. {number})", caption, width=0.72, height=3.3)(draw)


def _bandwidth(path: str, number: int) -> Plot:
    def draw(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
        _cdf(panels[0][0], data, path, "mbps", "Mbit/s")
        _finish(figure, panels[0][0], "throughput in intervals of 1 s (Mbit/s)", "intervals")

    title = f"Throughput on {TITLES[path]} (Fig. {number})"
    caption = "Every packet received, repeated or not, tcpstat's way. First seed."
    return plot(f"bandwidth-{path}", title, caption, width=0.72, height=3.3)(draw)


def _finish(figure: Figure, axes: Axes, what: str, each: str) -> None:
    """Axes, and the medians beneath the panel so that no curve runs through them."""
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1)
    axes.set_xlabel(what)
    axes.set_ylabel(f"share of {each} at or below")
    legend_below(figure, 2)


@plot(
    "medians", "Printed and simulated medians", "Black: the printed median ±25 %. Dots: one seed each.",
    2, len(PATHS), height=4.2,
)  # fmt: skip
def medians(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """RTTs above, throughputs below."""
    for row, what, label in ((panels[0], RTT, "RTT (ms)"), (panels[1], RATE, "throughput (Mbit/s)")):
        found = data.array(what, take=quantile(0.5), path=EVERYWHERE, algorithm=tuple(COLOURS), strict=False)
        for axes, path, ours in zip(row, PATHS, np.moveaxis(found, 1, 0), strict=True):
            for place, (algorithm, colour) in enumerate(COLOURS.items()):
                axes.plot([place] * len(ours), ours[:, place], "o", color=colour, markersize=4, alpha=0.7)
                if printed := _printed(path, algorithm, what):
                    axes.plot([place + 0.25] * 2, printed, color="#222222", linewidth=1.4)
            axes.set_xticks(range(len(COLOURS)), [TITLES[algorithm] for algorithm in COLOURS], fontsize=7)
            axes.set_ylim(bottom=0)
            axes.set_title(TITLES[path])
        row[0].set_ylabel(label)


def _printed(path: str, algorithm: str, what: str) -> tuple[float, float] | None:
    """The interval within which a printed median counts as reproduced."""
    figure = f"{'rtt' if what == RTT else 'bandwidth'}-{path}"
    for claim in CLAIMS:
        if claim.figure == figure and claim.text.startswith(f"{TITLES[path]}: {TITLES[algorithm]}'s"):
            rule = claim.rule
            if isinstance(rule, Near):
                return rule.target * (1 - rule.tolerance), rule.target * (1 + rule.tolerance)
            if isinstance(rule, Within):
                return rule.low, rule.high
    return None


@plot("durations", "How long the transfers took", "First seed; the paper's range in grey.", width=0.75, height=2.6)
def durations(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """A dot for each transfer."""
    axes = panels[0][0]
    axes.axvspan(SHORT_S, LONG_S, color=SOFT, alpha=0.15, linewidth=0)
    names: list[str] = []
    for path in PATHS:
        for algorithm, colour in COLOURS.items():
            took = _evening(data, path, algorithm).get("transfer_s", [])
            axes.plot(took, [len(names)] * len(took), "o", color=colour, markersize=4, alpha=0.6)
            names.append(f"{TITLES[path]}, {TITLES[algorithm]}")
    axes.set_xlim(left=0)
    listed(axes, names, "duration of a transfer (s); grey: “roughly 30 to 50 s”", fontsize=7)


_OF_LINKS = [(_rtt(path, 2 * place + 1), _bandwidth(path, 2 * place + 2)) for place, path in enumerate(PATHS)]
FIGURES = (*(each for pair in _OF_LINKS for each in pair), medians, durations)
