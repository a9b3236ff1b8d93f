"""Tables, and counterparts of the paper's Figures 4 to 9, with two that look at causes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tailback.experiment import QUANTILES, Column, Data, Plot, Summary, TableOut, table
from tailback.plots.panels import band, legend_below, middle, plot, steps_of
from tailback.plots.style import BLUE, GREEN, ORANGE, PURPLE, SOFT, VERMILION

from .extract import JOIN_RTTS
from .grid import ABLATIONS, ALGORITHMS, FEW, LAN, MANY, NETWORKS, TITLES, WAN, Network, factors_of, scales_of

_COLUMNS = (
    Column("utilisation (%)", "utilisation", 1, 100.0),
    Column("loss (ppm)", "loss", 0, 1e6),
    Column("queue (ms)", "queue_ms", 2),
    Column("4 KB (ms)", "www/4/mean", 0, 1e3),
    Column("64 KB (ms)", "www/64/mean", 0, 1e3),
    Column("VoIP delay (ms)", "voip_ms", 1),
    Column("jitter (ms)", "jitter_ms", 3),
    Column("FTP (Mbit/s)", "ftp_mbps", 2),
    Column("HFTP (Mbit/s)", "hftp_mbps", 2),
)
_CAUSES = (
    Column("flows (Mbit/s)", "fast_mbps", 1),
    Column("growth before a reduction (segments/RTT)", "step", 1),
    Column("lost in an event", "drops_per_event", 1),
    Column("flows hit (%)", "hit_share", 0, 100.0),
    Column("reductions of a flow (1/s)", "reductions_per_s", 3),
    Column("lost at joins (%)", lambda one: one["join_drops"] / one["drops"] if one["drops"] else None, 0, 100.0),
    Column("queue over half full (%)", "above_half", 0, 100.0),
    Column("timeouts", "fast_timeouts", 0),
    Column("Compound: losses unseen (%)", "loss_unseen", 0, 100.0),
    Column("Compound: dwnd empty (%)", "dwnd_empty", 0, 100.0),
)
_CHANGED = (*_COLUMNS, _CAUSES[-1])
"""Of the other readings: Compound's delay window too."""
_HEADS = ("algorithm", "queue (BDP)")


def _of_network(data: Data, network: Network, flows: int) -> list[tuple[list[str], list[Summary]]]:
    return [
        ([TITLES[algorithm], f"{queue:g}"], data.runs(**factors_of(network.name, algorithm, queue, flows)))
        for queue in network.queues
        for algorithm in ALGORITHMS
    ]


def _scales(data: Data) -> list[list[str]]:
    rows, scales = {}, scales_of(data)
    for cell in data.cells.values():
        name = cell.factors["network"]
        if name in rows or "ablation" in cell.factors:
            continue
        network, resolved = NETWORKS[name], cell.scenario.resolve()
        rate = next(link["rate_bps"] for link in resolved["links"] if link["name"] == network.main)
        apps = [flow["app"] for flow in resolved["flows"]]
        sessions = [app["params"]["rate"] for app in apps if app["kind"] == "web"]
        limits = (int(rate * 2e-3 * network.delay_ms * network.queues[end] / 8000 + 0.5) for end in (0, -1))
        rows[name] = [
            TITLES[name], scales[name].words(), f"{rate / 1e6:g}", " + ".join(f"{s:g}" for s in sessions),
            f"{cell.scenario.duration.seconds:g}", " to ".join(map(str, limits)),
        ]  # fmt: skip
    return list(rows.values())


def _ablations(data: Data) -> list[list[str]]:
    rows = []
    for name, reading in ABLATIONS.items():
        for where, algorithm, queue in reading.cells:
            found = data.runs(**factors_of(where, algorithm, queue, ablation=name))
            # The same seeds on both sides.
            base = data.runs(**factors_of(where, algorithm, queue))[: len(found)]
            if base:
                changed = [f"{column.shown(base)} → {column.shown(found)}" for column in _CHANGED]
                rows.append([reading.title, TITLES[where], TITLES[algorithm], f"{queue:g}", *changed])
    return rows


def all_tables(data: Data) -> list[TableOut]:
    """The scale, the two networks, what lies behind, and the other readings."""
    tables = [
        TableOut(
            "scale", "The scale of this run", "Sessions a second forward and back; queues in packets.",
            ["network", "scale", "rate (Mbit/s)", "web sessions (1/s)", "duration (s)", "queue (packets)"],
            _scales(data),
        )
    ]  # fmt: skip
    for network, flows in ((WAN, FEW), (WAN, MANY), (LAN, FEW)):
        title = f"The {TITLES[network.name]}, {flows} flows"
        shown: list[tuple[str, str, Sequence[Column]]] = [("users", "Medians over seeds.", _COLUMNS)]
        if flows == FEW:
            caption = "After all flows have joined, medians over seeds; losses at joins and timeouts: the whole run."
            shown.append(("causes", caption, _CAUSES))
        tables += [
            table(f"{network.name}-{flows}-{name}", f"{title}: {name}", caption, _HEADS, columns,
                  _of_network(data, network, flows))
            for name, caption, columns in shown
        ]  # fmt: skip
    heads = ["change", "network", *_HEADS, *(column.head for column in _CHANGED)]
    caption = "As it is → with the change, the same seeds."
    tables.append(
        TableOut("other-readings", "Other readings, and tests of causes", caption, heads, _ablations(data))
    )  # fmt: skip
    return tables


# --- Figures ----------------------------------------------------------------------------------------------------


COLOURS = {"reno": BLUE, "highspeed": PURPLE, "htcp": VERMILION, "cubic": GREEN, "compound": ORANGE}
MARKS = {"reno": "o", "highspeed": "s", "htcp": "^", "cubic": "D", "compound": "v"}
LEAST = 100.0 * float(QUANTILES[1] - QUANTILES[0])
"""Per cent: the last step of the quantiles that are kept."""

USED, LOST = Column("utilisation (%)", "utilisation", factor=100.0), Column("loss rate (%)", "loss", factor=100.0)
USERS = (
    Column("WWW, 4 KB (ms)", "www/4/mean", factor=1e3),
    Column("WWW, 64 KB (ms)", "www/64/mean", factor=1e3),
    Column("VoIP, one-way delay (ms)", "voip_ms"),
    Column("VoIP, jitter (ms)", "jitter_ms"),
    Column("FTP (Mbit/s)", "ftp_mbps"),
    Column("HFTP (Mbit/s)", "hftp_mbps"),
)
CAUSES = (
    Column("growth before a reduction\n(segments a round trip)", "step"),
    Column("packets lost\nin a congestion event", "drops_per_event"),
    Column("reductions of a flow\n(1/s)", "reductions_per_s"),
    Column("time with the queue\nover half full (%)", "above_half", factor=100.0),
)


def _against_queue(axes: Any, data: Data, shown: Column, network: Network, flows: int, label: str) -> None:
    queues = network.queues
    for algorithm in ALGORITHMS:
        factors: dict[str, Any] = {"network": network.name, "algorithm": algorithm, "queue_bdp": queues, "flows": flows}
        each = shown.factor * data.array(shown.what, strict=False, **factors)
        band(axes, queues, each, colour=COLOURS[algorithm], marker=MARKS[algorithm], markersize=3.2,
             label=TITLES[algorithm])  # fmt: skip
    steps_of(axes, queues, label)
    axes.set_ylabel(shown.head)


def _log(axes: Any) -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5, if anything is drawn."""
    if axes.lines:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())


def _panels(name: str, title: str, network: Network, shown: Sequence[Column], height: float, flows: int = FEW) -> Plot:
    def draw(data: Data, figure: Figure, panels: list[list[Any]]) -> None:
        for axes, one in zip((axes for row in panels for axes in row), shown, strict=True):
            _against_queue(axes, data, one, network, flows, "")
            if one is LOST:
                _log(axes)
        for axes in panels[-1]:
            axes.set_xlabel(f"queue (BDP of the {TITLES[network.name]})")
        legend_below(figure)

    caption = (
        "Lines: median over seeds; bands: from the least to the largest. "
        f"{'Four' if flows == FEW else 'Twenty'} high-speed flows."
    )
    return plot(name, title, caption, len(shown) // 2, 2, height=height, sharex=True)(draw)


@plot(
    "wan-cdf", "64 KB beside high-speed flows, 0.1 BDP (Fig. 6)", "The paper's CDF turned over, on a logarithmic "
    "axis: the slow transactions are few. Quantiles are medians over seeds, in steps of half a per cent.", width=0.7,
    height=3.2,
)  # fmt: skip
def cdf(data: Data, figure: Figure, panels: list[list[Any]]) -> None:
    """The share of the transactions that take longer."""
    axes = panels[0][0]
    drawn = []
    for algorithm in ALGORITHMS:
        runs = data.runs(**factors_of("wan", algorithm, 0.1))
        if found := [one["www"]["64"]["quantiles"] for one in runs if "64" in one["www"]]:
            values = np.median(np.array(found), axis=0)
            drawn.append(values)
            # No user takes longer than the slowest.
            slower = 100 * (1 - QUANTILES[:-1])
            axes.plot(values[:-1], slower, color=COLOURS[algorithm], label=TITLES[algorithm])
    if drawn:
        axes.set_xlim(0.97 * min(one[0] for one in drawn), 1.03 * max(one[-2] for one in drawn))
    _log(axes)
    axes.set_ylim(LEAST, 100)
    axes.set_xlabel("response time of 64 KB (s)")
    axes.set_ylabel("transactions that take longer (%)")
    legend_below(figure)


@plot(
    "mechanism", "Why", "After all flows have joined: growth just before reductions (median), packets of the "
    "flows lost in a congestion event, how often a flow reduces, and how long the queue is over half full.",
    2, len(CAUSES), height=4.2,
)  # fmt: skip
def mechanism(data: Data, figure: Figure, panels: list[list[Any]]) -> None:
    """Steps, bursts of loss, how often, and where the queue stands."""
    for row, network in zip(panels, (WAN, LAN), strict=True):
        for axes, one in zip(row, CAUSES, strict=True):
            _against_queue(axes, data, one, network, FEW, "queue (BDP)")
            axes.set_title(one.head, fontsize=7.5, fontweight="normal")
            axes.set_ylabel("")
            if one.what in ("drops_per_event", "reductions_per_s"):
                _log(axes)
            axes.tick_params(axis="x", labelsize=6.5)
        row[0].set_ylabel(TITLES[network.name], fontweight="bold")
    legend_below(figure)


@plot(
    "joins", "What is lost when flows join",
    f"Solid: drops within {JOIN_RTTS} empty round trips of a join; pale: all. Share of the packets that "
    "arrived at the ocean link.", height=2.8,
)  # fmt: skip
def joins(data: Data, figure: Figure, panels: list[list[Any]]) -> None:
    """Bars side by side for each queue."""
    axes, queues, width = panels[0][0], WAN.queues, 0.15
    lost = partial(data.array, network="wan", algorithm=ALGORITHMS, queue_bdp=queues, flows=FEW, strict=False)
    every = np.nan_to_num(middle(lost(lambda one: 1e2 * one["drops"] / one["arrived"])))
    early = np.nan_to_num(middle(lost(lambda one: 1e2 * one["join_drops"] / one["arrived"])))
    for place, algorithm in enumerate(ALGORITHMS):
        at, colour = np.arange(len(queues)) + (place - 2) * width, COLOURS[algorithm]
        axes.bar(at, every[place], width * 0.9, color=colour, alpha=0.3)
        axes.bar(at, early[place], width * 0.9, color=colour, label=TITLES[algorithm])
    axes.set_xticks(range(len(queues)), [f"{queue:g}" for queue in queues])
    axes.set_xlabel("queue (BDP of the ocean link)")
    axes.set_ylabel("packets lost (%)")
    axes.grid(axis="x", visible=False)
    legend_below(figure)


@plot(
    "over-time", "Windows and queue over time", "First seed, the ocean link: the flows' windows together, and the "
    "queue's delay, with 0.1 and 1 BDP.", 4, len(ALGORITHMS), height=5.2, sharex=True, sharey="row",
)  # fmt: skip
def over_time(data: Data, figure: Figure, panels: list[list[Any]]) -> None:
    """Windows above, queue below, for each of the two."""
    for above, below, queue in ((panels[0], panels[1], 0.1), (panels[2], panels[3], 1.0)):
        for column, algorithm in enumerate(ALGORITHMS):
            if one := data.first_run(**factors_of("wan", algorithm, queue)):
                t_s, cwnd, queue_ms = (one["series"][what] for what in ("t_s", "cwnd", "queue_ms"))
                above[column].plot(t_s, cwnd, color=COLOURS[algorithm], linewidth=0.8)
                below[column].fill_between(t_s, queue_ms, color=SOFT, alpha=0.5, linewidth=0)
        above[0].set_ylabel(f"{queue:g} BDP\nwindows (seg.)")
        below[0].set_ylabel("queue (ms)")
    for algorithm, first, last in zip(ALGORITHMS, panels[0], panels[-1], strict=True):
        first.set_title(TITLES[algorithm])
        last.set_xlabel("time (s)")
    for axes in (axes for row in panels for axes in row):
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=6.5)
    figure.align_ylabels([row[0] for row in panels])


FIGURES = (
    _panels("wan-link", "The ocean link: utilisation and loss (Fig. 4)", WAN, (USED, LOST), 3.0),
    _panels("wan-users", "The ocean link: what users get (Fig. 5)", WAN, USERS, 6.2),
    cdf,
    _panels("wan-20", "Twenty flows on the ocean link (Fig. 7)", WAN, (USED, USERS[1]), 3.0, MANY),
    _panels("lan-link", "The campus: utilisation and loss (Fig. 8)", LAN, (USED, LOST), 3.0),
    _panels("lan-users", "The campus: what remote users get (Fig. 9)", LAN, USERS, 6.2),
    mechanism,
    joins,
    over_time,
)
