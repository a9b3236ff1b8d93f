"""Tables, and counterparts of the paper's Figures 3 to 7, of its two tables, and what makes the 3G queue visible."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tailback.experiment import Data, NotRun, Plot, TableOut, fitted_table, known, median, shown
from tailback.plots.panels import legend_below, listed, plot
from tailback.plots.style import GREEN, INK, ORANGE, PURPLE, SOFT, VERMILION

from .claims import DEVIATION, PRINTED, RATE, RTT, SINGLE, kept_runs, retained
from .grid import ABLATIONS, ALGORITHMS, CALL_NETWORKS, FITTED, LARGE, NETWORKS, RIVALS, SMALL, TITLES

CUTS = {"min": np.min, "25 %": 0.25, "median": np.median, "75 %": 0.75, "max": np.max, "mean": np.mean}
"""Of the runs that are kept: what the table of throughputs shows."""


def _cut(mbps: list[float], by: Any) -> float:
    runs = kept_runs(mbps)
    return float(by(runs) if callable(by) else np.quantile(runs, by))


def _throughput(data: Data) -> list[list[str]]:
    rows = []
    cells = [(name, size, one) for name in NETWORKS for size in NETWORKS[name].sizes for one in ALGORITHMS]
    for name, megabytes, algorithm in cells:
        of = partial(data.array, network=name, megabytes=megabytes, algorithm=algorithm, strict=False)
        rows.append([
            TITLES[name], f"{megabytes} MB", TITLES[algorithm],
            *(shown(of(RATE, kind="single", take=partial(_cut, by=by)), 2) for by in CUTS.values()),
            *(shown(of(what, kind="capture"), 1) for what in (RTT, DEVIATION)),
        ])  # fmt: skip
    return [row for row in rows if row[3] != "–"]


def _pairs(data: Data) -> list[list[str]]:
    rows = []
    for name, network in NETWORKS.items():
        for rival in RIVALS:
            found = [one for one in data.runs(kind="pair", network=name, rival=rival) if one["cubic_mbps"]]
            if found:
                rates = [[fmean(one[f"{who}_mbps"]) for one in found] for who in ("cubic", "rival")]
                shares = ([_share(one, first) for one in found] for first in (None, True, False))
                rows.append([
                    TITLES[name], f"{network.pair_mb} MB", TITLES[rival], *(shown(each, 2) for each in rates),
                    *(shown(each, 1) for each in shares),
                ])  # fmt: skip
    return rows


def _share(found: dict[str, list[float]], first: bool | None) -> float | None:
    """CUBIC's share in per cent; only where it was started first, or only where it was not."""
    chosen = np.array([first is None or bool(was) is first for was in found["cubic_first"]])
    cubic, rival = (float(np.sum(np.array(found[f"{who}_mbps"])[chosen])) for who in ("cubic", "rival"))
    return 100.0 * cubic / (cubic + rival) if cubic + rival else None


def _of_calls(data: Data, algorithm: str, **factors: Any) -> tuple[str, float, int, int]:
    """Jitter of the calls, their loss in per cent, packets lost and sent; of all seeds together."""
    factors |= {"kind": "calls", "algorithm": algorithm, "strict": False}
    sent, lost = (int(np.sum(known(data.array(what + "/{algorithm}", **factors)))) for what in ("sent", "lost"))
    return shown(data.array("jitter_ms/{algorithm}", **factors), 3), 100.0 * lost / sent if sent else np.nan, lost, sent


def _calls(data: Data) -> list[list[str]]:
    rows = []
    for name in CALL_NETWORKS:
        where, jitter, loss = PRINTED[name]
        for algorithm in ALGORITHMS if data.runs(kind="calls", network=name) else ():
            ours, share, lost, sent = _of_calls(data, algorithm, network=name)
            rows.append([
                where, TITLES[algorithm], f"{jitter[algorithm]:g}", ours, f"{loss[algorithm]:g}",
                f"{share:.2g}" if sent else "–", f"{lost} of {sent}",
            ])  # fmt: skip
    return rows


def _other(data: Data) -> list[list[str]]:
    rows = []
    for key, reading in ABLATIONS.items():
        for network in reading.networks:
            found = {"kind": reading.kind, "network": network, "ablation": key}
            sizes = NETWORKS[network].sizes if reading.kind != "calls" else (LARGE,)
            for size in sizes if data.runs(**found) else ():
                cells = [_reading(data, algorithm, size, found) for algorithm in ALGORITHMS]
                rows.append([reading.title, TITLES[network], f"{size} MB", *cells])
    return rows


def _reading(data: Data, algorithm: str, size: int, factors: dict[str, Any]) -> str:
    if factors["kind"] == "calls":
        jitter, share, _, sent = _of_calls(data, algorithm, network=factors["network"], ablation=factors["ablation"])
        return f"{jitter} ms, {share:.2g} % lost" if sent else "–"
    factors = factors | {"algorithm": algorithm, "megabytes": size, "strict": False}
    if factors["kind"] == "capture":
        return f"{shown(data.array(RTT, **factors), 0)} ms"
    return shown(data.array(RATE, take=SINGLE["take"], **factors), 2)


def all_tables(data: Data) -> list[TableOut]:
    """What was fitted, throughput and RTT, shares, the paper's two tables, and other readings."""
    return [
        fitted_table(FITTED),
        TableOut(
            "throughput", "Throughput and RTT alone (Figs 3 to 7)",
            "Mbit/s of payload over the runs without the slowest tenth; RTTs by Karn's rule, mean and deviation of a "
            "transfer, averaged. Median over seeds.",
            ["network", "transfer", "algorithm", *CUTS, "RTT (ms)", "± (ms)"], _throughput(data),
        ),
        TableOut(
            "friendliness", "Beside CUBIC (Figs 3 to 7)",
            "Mean throughput of both, median over seeds; share also by which of the two was started first.",
            ["network", "transfer", "rival", "CUBIC (Mbit/s)", "rival (Mbit/s)", "CUBIC's share (%)", "CUBIC first (%)",
             "rival first (%)"],
            _pairs(data),
        ),
        TableOut(
            "calls", "Five G.711 calls beside a download of 20 MB (Tables I and II)",
            "Jitter in ms, loss in per cent. Lost packets of all seeds together.",
            ["table", "algorithm", "jitter, paper", "ours", "loss, paper", "ours", "packets lost"], _calls(data),
        ),
        TableOut(
            "other-readings", "Other readings of what the paper leaves open",
            "Mean throughput in Mbit/s, RTT in ms, or jitter and loss of the calls, one assumption changed.",
            ["change", "network", "transfer", *(TITLES[algorithm] for algorithm in ALGORITHMS)], _other(data),
        ),
    ]  # fmt: skip


# --- Figures ----------------------------------------------------------------------------------------------------


COLOURS = {"cubic": GREEN, "veno": ORANGE, "westwood": VERMILION, "hybla": PURPLE}


def _names(axes: Axes, title: str, names: tuple[str, ...] = ALGORITHMS) -> None:
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.set_xticks(range(len(names)), [TITLES[name] for name in names], fontsize=6.5)
    axes.set_xlim(-0.6, len(names) - 0.4)


def _boxes(axes: Axes, data: Data, network: str, megabytes: int) -> None:
    """Least to largest as a line, the middle half as a bar, the mean as a dot; runs of all seeds pooled."""
    found = [one["mbps"][str(megabytes)] for one in data.runs(kind="single", network=network)]
    for place, name in enumerate(ALGORITHMS):
        runs = np.concatenate([np.zeros(0), *(kept_runs(one[name]) for one in found)])
        if len(runs):
            low, high = np.quantile(runs, [0.25, 0.75])
            axes.plot([place] * 2, [runs.min(), runs.max()], color=COLOURS[name], linewidth=1.0)
            axes.plot([place] * 2, [low, high], color=COLOURS[name], linewidth=8, solid_capstyle="butt", alpha=0.55)
            axes.plot(place, runs.mean(), "o", color=INK, markersize=3.5)
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
    _names(axes, f"{megabytes} MB (Mbit/s)")


def _delay(axes: Axes, data: Data, network: str) -> None:
    sizes = NETWORKS[network].sizes
    for shift, megabytes in zip((-0.14, 0.14) if len(sizes) > 1 else (0.0,), sizes, strict=True):
        of = partial(data.array, kind="capture", network=network, megabytes=megabytes, strict=False)
        for place, name in enumerate(ALGORITHMS):
            mean, deviation = (median(of(what, algorithm=name)) for what in (RTT, DEVIATION))
            if not np.isnan(mean):
                axes.errorbar(
                    place + shift, mean, yerr=deviation, fmt="o" if megabytes == LARGE else "s", color=COLOURS[name],
                    markersize=4, capsize=2, markerfacecolor="white" if megabytes == SMALL else COLOURS[name],
                )  # fmt: skip
    if idle := data.runs(kind="idle", network=network):
        axes.axhline(float(np.median([one["rtt_ms"] for one in idle])), color=SOFT, linewidth=0.8)
    _names(axes, "RTT, mean ± deviation (ms)")


def _friendliness(axes: Axes, data: Data, network: str) -> None:
    for place, rival in enumerate(RIVALS):
        for shift, who, name in ((-0.18, "cubic_mbps", "cubic"), (0.18, "rival_mbps", rival)):
            means = known(data.array(who, take=fmean, kind="pair", network=network, rival=rival, strict=False))
            if len(means):
                axes.bar(place + shift, float(np.median(means)), width=0.32, color=COLOURS[name], alpha=0.75)
                axes.plot([place + shift] * len(means), means, ".", color=INK, markersize=2.5)
    _names(axes, "Beside CUBIC (Mbit/s)", RIVALS)


def _network(name: str) -> Plot:
    sizes = NETWORKS[name].sizes

    def draw(data: Data, _: Figure, panels: list[list[Axes]]) -> None:
        for axes, megabytes in zip(panels[0], sizes, strict=False):
            _boxes(axes, data, name, megabytes)
        _delay(panels[0][-2], data, name)
        _friendliness(panels[0][-1], data, name)

    caption = (
        "Runs of all seeds without the slowest tenth: least to largest, middle half, mean (dot). RTT: squares 1 MB, "
        "dots 20 MB, grey the idle RTT. Beside CUBIC: mean of each, dots the seeds."
    )
    return plot(name, f"{TITLES[name]} (Fig. {NETWORKS[name].figure})", caption, 1, len(sizes) + 2, height=2.5)(draw)


@plot("calls", "Calls (Tables I and II)", "Black: printed. Dots: one seed each.", 2, 2, width=0.8, height=4.0)
def calls(data: Data, _: Figure, panels: list[list[Axes]]) -> None:
    """Jitter above, loss below."""
    for column, network in enumerate(CALL_NETWORKS):
        of = partial(data.array, kind="calls", network=network, algorithm=ALGORITHMS, strict=False)
        jitter, sent, lost = (of(what + "/{algorithm}") for what in ("jitter_ms", "sent", "lost"))
        loss = 100.0 * np.divide(lost, sent, where=sent > 0, out=np.full_like(sent, np.nan))
        for row, ours, label in zip(panels, (jitter, loss), ("jitter (ms)", "loss (%)"), strict=True):
            axes, printed = row[column], PRINTED[network][1:][ours is not jitter]
            for place, name in enumerate(ALGORITHMS):
                axes.plot([place - 0.2, place + 0.2], [printed[name]] * 2, color=INK, linewidth=1.6)
                each = known(ours[:, place])
                axes.plot([place] * len(each), each, "o", color=COLOURS[name], markersize=4, alpha=0.7)
            axes.set_ylabel(label)
            _names(axes, TITLES[network] if ours is jitter else "")


@plot(
    "queue-3g", "The 3G queue", "One transfer of each; the band is what the paper measured. First seed.", width=0.75,
    height=2.8,
)  # fmt: skip
def queue_3g(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """RTT during one transfer of 1 MB."""
    axes = panels[0][0]
    axes.axhspan(500, 700, color=SOFT, alpha=0.15, linewidth=0)
    found = data.first_run(kind="capture", network="3g")
    for name in ALGORITHMS:
        if found and (drawn := found["rtts"][str(SMALL)][name]["drawn"]):
            # Dots, as there are no samples while lost segments are sent again.
            axes.plot(*drawn, ".", color=COLOURS[name], label=TITLES[name], markersize=2.5)
    if idle := data.first_run(kind="idle", network="3g"):
        axes.axhline(idle["rtt_ms"], color=SOFT, linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("time since the transfer began (s)")
    axes.set_ylabel("RTT (ms)")
    legend_below(figure)


@plot("ranks", "Who is fastest where", "Median and range over seeds.", width=0.75, height=3.2)
def ranks(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """Throughput over the mean of the four, on every network."""
    axes = panels[0][0]
    cells = [(network, size) for network in NETWORKS for size in NETWORKS[network].sizes]
    for row, (network, size) in enumerate(cells):
        rates = data.array(RATE, strict=False, network=network, megabytes=size, **SINGLE | {"whole": False})
        shares = rates / rates.mean(axis=1, keepdims=True)
        for name, each in zip(ALGORITHMS, shares[~np.isnan(shares).any(axis=1)].T, strict=True):
            if len(each):
                label = TITLES[name] if not row else None
                axes.plot(float(np.median(each)), row, "o", color=COLOURS[name], label=label, markersize=5)
                axes.plot([min(each), max(each)], [row] * 2, color=COLOURS[name], linewidth=1)
    axes.axvline(1.0, color=SOFT, linewidth=0.8)
    names = [f"{TITLES[network]}, {size} MB" for network, size in cells]
    listed(axes, names, "throughput over the mean of the four", fontsize=7)
    legend_below(figure)


@plot(
    "retained", "What is kept beside CUBIC", "An even split would leave one half. Median over seeds.", width=0.75,
    height=2.4,
)  # fmt: skip
def kept(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """By network and rival."""
    axes = panels[0][0]
    for row, network in enumerate(NETWORKS):
        found = []
        for seed in data.seeds:
            with suppress(NotRun):
                found.append(retained(data, seed, network))
        for name, each in zip(RIVALS, np.transpose(found), strict=False):
            label = TITLES[name] if row == 0 else None
            axes.plot(float(np.median(each)), row, "o", color=COLOURS[name], label=label, markersize=5)
    axes.set_xlim(left=0)
    listed(axes, [TITLES[name] for name in NETWORKS], "throughput beside CUBIC over throughput alone", fontsize=7)
    legend_below(figure)


FIGURES = (*(_network(name) for name in NETWORKS), calls, queue_3g, ranks, kept)
