"""Tables, counterparts of the paper's Figs 2–14, and three figures of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from tailback import metrics, plots
from tailback.experiment import ABLATION, QUANTILES, Column, Data, Plot, Summary, TableOut, shown, table
from tailback.metrics import Rows
from tailback.plots import recipes
from tailback.plots.panels import plot
from tailback.plots.recipes import Curve, Medians, draw_cdfs, draw_medians
from tailback.plots.style import FULL_WIDTH, INK, SKY, SOFT, colour_of, halo, house_style, new_figure
from tailback.report import interactive

from .claims import (
    ALL,
    DISCERNIBLE,
    FIGURES_PATH,
    LINKS,
    PATHS,
    TITLES,
    VISIBLE_SEGMENTS,
    distinguishability,
    median_delay,
    median_epoch,
    numbers,
)
from .grid import (
    DISTURBANCES,
    RATES_MBIT,
    RTTS_MS,
    SENDER,
    SENDERS,
    Path,
    disturbed_factors,
    factors_of,
    path_title,
    window_segments,
)

_GOODPUT = Column("goodput (Mbit/s)", "goodput_bps", 3, 1e-6)
_COLUMNS = (
    _GOODPUT,
    Column("utilisation (%)", "utilisation", 1, 100),
    Column("median delay (ms)", median_delay, 2),
    Column("95 % delay (ms)", lambda s: s["delay_ms"][190] if s["delay_ms"] else None, 2),
    Column("queue > ¾ (%)", "above_three_quarters", 1, 100),
    Column("epoch (s)", median_epoch, 2),
    Column("TCP loss (‰)", "loss_rate", 3, 1000),
    Column("call loss (%)", "call_loss", 2, 100),
    Column("timeouts", "timeouts", 0),
)
_EPOCH, _DELAY = _COLUMNS[5], _COLUMNS[2]
_RELAPSES = Column(
    "relapses (%)", lambda s: np.mean(np.asarray(s["slowdowns"]) >= 1) if s["slowdowns"] else None, 0, 100
)


def _epoch_or_longer(runs: list[Summary]) -> str:
    text = _EPOCH.shown(runs)
    return text if text != "–" or not runs else f"> {max(float(s['unfinished_s']) for s in runs):.0f}"


def epochs(data: Data) -> TableOut:
    """Epoch durations with the ratios of Linux to FreeBSD."""
    rows = []
    for path in PATHS:
        cells = [data.runs(**factors_of(path, sender)) for sender in ALL]
        if any(cells):
            of_seeds = np.array([numbers(data, seed, median_epoch, (path,))[:, 0] for seed in data.seeds]).T
            found = dict(zip(ALL, of_seeds, strict=True))
            ratios = (found[f"linux-{algorithm}"] / found[f"freebsd-{algorithm}"] for algorithm in ("reno", "htcp"))
            rows.append([path_title(*path), *map(_epoch_or_longer, cells), *(shown(each, 2) for each in ratios)])
    return TableOut(
        "epochs",
        "Duration of congestion epochs (s)",
        "Median over the steady epochs of a run, then over seeds; “>”: no epoch was completed. The paper gives 1.85 "
        "(NewReno) and 1.14 (H-TCP) for Linux over FreeBSD.",
        ["path", *(sender.title for sender in SENDERS), "NewReno Linux/FreeBSD", "H-TCP Linux/FreeBSD"],
        rows,
    )


def whole_grid(data: Data) -> TableOut:
    """Every cell of the grid."""
    return table(
        "grid",
        "The whole grid",
        "Medians over seeds. Delays are induced by queueing, over three typical epochs; “queue > "
        "¾” is the share of call packets that met such a queue there.",
        ("path", "sender"),
        _COLUMNS,
        (
            ([path_title(*path), sender.title], data.runs(**factors_of(path, sender.key)))
            for path in PATHS
            for sender in SENDERS
        ),
    )


def ablations(data: Data) -> TableOut:
    """One assumption changed at a time, next to the cell it departs from."""
    rows = []
    for cell, changed in data.each():
        if cell.role == ABLATION:
            base = data.runs(**{name: cell.factors[name] for name in ("rate", "rtt", "queue", "sender")})
            beside = [column.shown(runs) for column in (_EPOCH, _DELAY) for runs in (changed, base)]
            rows.append([cell.label, *beside, _RELAPSES.shown(changed), _GOODPUT.shown(changed)])
    return TableOut(
        "ablations",
        "What it would take: one assumption changed at a time",
        "“Relapses”: share of epochs in which growth falls from above 4 to below 2 segments per "
        "round trip without a loss.",
        ["run", _EPOCH.head, "epoch before (s)", _DELAY.head, "delay before (ms)", _RELAPSES.head, _GOODPUT.head],
        rows,
    )


def all_tables(data: Data) -> list[TableOut]:
    """Epochs, what changes them, and the whole grid."""
    return [epochs(data), ablations(data), whole_grid(data)]


# --- Figures ----------------------------------------------------------------------------------------------------


def _tables(data: Data, senders: tuple[str, ...]) -> dict[str, Rows]:
    found = {}
    for sender in senders:
        tables = data.tables_of(**factors_of(FIGURES_PATH, sender))
        if tables is not None:
            found[SENDER[sender].title] = Rows.of(tables)
    return found


def _empty(reason: str = "not run") -> Figure:
    with house_style():
        figure, axes = new_figure(width=FULL_WIDTH, height=1.0)
        axes[0][0].axis("off")
        axes[0][0].text(0.5, 0.5, reason, ha="center", va="center", color=SOFT)
    return figure


def _recipe(recipe: str, *senders: str) -> Callable[[Data], Figure]:
    """A figure of the kept tables of these senders, on the figures' path."""

    def draw(data: Data) -> Figure:
        tables = _tables(data, senders)
        return plots.get(recipe)(tables) if tables else _empty()

    return draw


def _cwnd_and_queue(name: str, title: str, caption: str, *senders: str) -> Plot:
    """Window and queue of these senders over three typical epochs, and the same to zoom into."""

    def build(data: Data) -> dict[str, Any] | None:
        return interactive.cells(
            {SENDER[s].title: data.first_run(**factors_of(FIGURES_PATH, s)) for s in senders},
            {SENDER[s].title: colour_of(SENDER[s].cc) for s in senders},
        )

    return Plot(name, title, caption, _recipe("cwnd-and-queue", *senders), build)


def _cdf_curves(data: Data, path: Path) -> list[Curve]:
    curves = []
    for sender in SENDERS:
        summaries = [s for s in data.runs(**factors_of(path, sender.key)) if s["delay_ms"]]
        if not summaries:
            continue
        # Quantile by quantile, the median over seeds.
        x = np.median(np.array([s["delay_ms"] for s in summaries]), axis=0)
        style = "--" if sender.stack.startswith("freebsd") else "-"
        curves.append(Curve(sender.title, x, QUANTILES, colour_of(sender.cc), style))
    return curves


def delay_cdfs_interactive(data: Data) -> dict[str, Any] | None:
    """Figs 9–11 to zoom into."""
    panels = [(TITLES[path], curves) for path in LINKS if (curves := _cdf_curves(data, path))]
    return interactive.distributions(panels) if panels else None


@plot(
    "fig-09-11", "Figs 9–11: distribution of the delay the call sees", "Induced delay (one-way delay less its "
    "smallest possible value) over three typical epochs, queue 1 BDP; each curve the median over seeds. The paper "
    "does not name Fig. 10's link; 10 Mbit/s × 80 ms is the path of its other figures.", 1, len(LINKS),
    interactive=delay_cdfs_interactive, height=2.9, sharey=True,
)  # fmt: skip
def delay_cdfs(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """Side by side."""
    last: list[Curve] = []
    for ax, path, number in zip(panels[0], LINKS, (9, 10, 11), strict=True):
        curves = _cdf_curves(data, path)
        draw_cdfs(ax, curves, labels=False)
        ax.set_title(f"Fig. {number}: {TITLES[path]}", fontsize=8.5)
        ax.set_xlim(0, path[1] * 1.06)
        ax.set_xlabel("induced delay (ms)")
        last = curves or last
    panels[0][0].set_ylabel("share of call packets")
    if last:
        handles = [panels[0][0].plot([], [], color=c.colour, ls=c.style, lw=1.4, label=c.label)[0] for c in last]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), handlelength=1.8)


def medians(data: Data) -> Figure:
    """Fig. 12, for all nine paths."""
    paths = sorted(((r, t, "1bdp") for r in RATES_MBIT for t in RTTS_MS), key=lambda p: (p[0] * p[1], p[0]))
    paths = [p for p in paths if data.runs(**factors_of(p, "linux-cubic"))]
    if not paths:
        return _empty()
    series = []
    for sender in SENDERS:
        values = [[median_delay(s) / 1e3 for s in data.runs(**factors_of(p, sender.key))] or [np.nan] for p in paths]
        middle, low, high = (np.array([of(v) for v in values]) for of in (np.median, min, max))
        bdp, hollow = np.array([p[0] * p[1] * 125.0 for p in paths]), sender.stack.startswith("freebsd")
        series.append(Medians(sender.title, bdp, middle, low, high, colour_of(sender.cc), hollow))
    with house_style():
        figure, axes = new_figure(width=FULL_WIDTH, height=3.4)
        ax = axes[0][0]
        draw_medians(ax, series, [f"{r} Mbit/s\n{t} ms\n{r * t / 8:g} kB" for r, t, _ in paths])
        for position, (_, t, _) in enumerate(paths):
            # A full queue in milliseconds is the path's RTT at 1 BDP.
            ax.hlines(t, position - 0.42, position + 0.42, color=SOFT, lw=0.8, ls=(0, (4, 2)))
        halo(
            ax.text(
                len(paths) - 0.55, paths[-1][1] * 1.02, "full queue", ha="right", va="bottom", fontsize=7.5, color=SOFT
            )
        )
        ax.set_ylim(0, 200)
        ax.set_xlabel("bottleneck, round-trip time, bandwidth × delay (queue: 1 BDP)")
    return figure


def irregular(rtts: tuple[int, ...]) -> Any:
    """Figs 13 and 14: the plain model, then with a disturbed wire and the two clocks."""

    def draw(data: Data) -> Figure:
        shown = _irregular_cells(data, rtts)
        if not shown:
            return _empty()
        with house_style():
            figure, axes = new_figure(len(shown), 2, height=1.5 * len(shown) + 0.4, sharex="row",
                                      gridspec_kw={"width_ratios": [1.5, 1.0]})  # fmt: skip
            for (left, right), (label, rows) in zip(axes, shown, strict=True):
                flow = rows.flow("tcp")
                middle = 0.5 * rows.duration_s
                start, end = middle - 30.0, middle + 30.0
                t, w = metrics.decimate(*metrics.cwnd_series(rows, flow, start, end), recipes.POINTS)
                left.plot(t, w / rows.mss(flow), color=colour_of("htcp"), lw=1.0)
                left.set_ylim(bottom=0)
                left.set_xlim(start, end)
                left.set_ylabel("cwnd (segments)")
                left.set_title(label, fontsize=8)
                tg, growth = metrics.growth_per_rtt(rows, flow, start, end)
                right.step(tg, np.maximum(growth, 0.1), where="post", color=INK, lw=0.8)
                right.set_yscale("log")
                right.yaxis.set_major_formatter("{x:g}")
                right.yaxis.set_minor_formatter(NullFormatter())
                right.axhline(1.0, color=SOFT, lw=0.8, ls=(0, (4, 2)))
                right.set_ylabel("growth (seg./RTT)")
                for event in metrics.congestion_events(rows, flow).t_s:
                    if start <= event <= end:
                        left.axvline(float(event), color=SOFT, lw=0.5, ls=":")
            for ax in axes[-1]:
                ax.set_xlabel("time (s)")
        return figure

    return draw


def _irregular_cells(data: Data, rtts: tuple[int, ...]) -> list[tuple[str, Rows]]:
    wanted = [
        (factors, f"{path_title(100, rtt)}: {what}")
        for rtt in rtts
        for factors, what in (
            (factors_of((100, rtt, "1bdp"), "linux-htcp"), "as configured"),
            (disturbed_factors(rtt, DISTURBANCES[1], "open"),
             "1 packet in 10,000 overtaken, clock restarts on Open (2.6.25)"),
            (disturbed_factors(rtt, DISTURBANCES[1], "event"),
             "the same wire, clock restarts on congestion only (2.6.28)"),
        )
    ]  # fmt: skip
    return [(label, Rows.of(tables)) for factors, label in wanted if (tables := data.tables_of(**factors)) is not None]


def irregular_interactive(rtts: tuple[int, ...]) -> Any:
    """Figs 13 and 14 to zoom into."""

    def build(data: Data) -> dict[str, Any] | None:
        panels = []
        for label, rows in _irregular_cells(data, rtts):
            t, w = metrics.decimate(*metrics.cwnd_series(rows, "tcp"), 3000)
            panels.append((label, "cwnd (segments)", [Curve(label, t, w / rows.mss("tcp"), colour_of("htcp"))]))
        return interactive.panels(panels, "time (s)") if panels else None

    return build


@plot(
    "fig-discernible", "When algorithms can be distinguished", "Mean distance between the call's delay distributions "
    "under the two most different algorithms on one system, in packets of queue, against the largest window the "
    "path holds. Below 0.03: drawn there.", width=5.2 / FULL_WIDTH, height=3.1,
)  # fmt: skip
def discernible(data: Data, figure: Figure, panels: list[list[Axes]]) -> None:
    """A point a path."""
    ax = panels[0][0]
    for path in PATHS:
        values = [d for s in data.seeds if not np.isnan(d := distinguishability(data, s, path))]
        if values:
            x, hollow = window_segments(*path), path[2] != "1bdp"
            colour = colour_of("htcp") if np.median(values) > DISCERNIBLE else colour_of("reno")
            ax.vlines(x, min(values), max(values), color=colour, lw=1)
            ax.plot(x, max(float(np.median(values)), 0.03), "o", color=colour, mfc="white" if hollow else colour, ms=5)
    ax.axvline(VISIBLE_SEGMENTS, color=SOFT, lw=0.9, ls=(0, (4, 2)))
    ax.axhline(DISCERNIBLE, color=SOFT, lw=0.9, ls=(0, (4, 2)))
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.02, 1000)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    halo(ax.text(VISIBLE_SEGMENTS * 1.08, 600, "paper: 25 packets", va="top", fontsize=8, color=SOFT))
    halo(ax.text(2500, DISCERNIBLE * 1.1, "one packet of queue", va="bottom", ha="right", fontsize=8, color=SOFT))
    ax.set_xlabel("largest window the path holds, BDP + queue (segments)")
    ax.set_ylabel("largest distance between\ntwo algorithms (packets of queue)")
    ax.set_title("filled: queue 1 BDP, hollow: ¼ BDP")


def recovery(data: Data) -> Figure:
    """The reduction at close range: one event of each sender."""
    tables = _tables(data, tuple(s.key for s in SENDERS))
    if not tables:
        return _empty()
    with house_style():
        figure, axes = new_figure(2, len(tables), width=FULL_WIDTH, height=3.0, sharex="col", sharey="row")
        highest = 0.0
        for column, (label, rows) in enumerate(tables.items()):
            top, bottom = axes[0][column], axes[1][column]
            flow = rows.flow("tcp")
            events = metrics.congestion_events(rows, flow)
            window = metrics.typical_epochs(rows, flow)
            k = int(np.argmin(np.abs(events.t_s - window.start_s)))
            at = float(events.t_s[k])
            start, end = at - 0.25, at + 0.75
            t, w = metrics.cwnd_series(rows, flow, start, end)
            tq, q = metrics.backlog_series(rows, "bottleneck", start, end)
            cc = str(rows.flow_spec(flow)["tcp"]["cc"])
            top.step(t - at, w / rows.mss(flow), where="post", color=colour_of(cc), lw=1.1)
            top.axhline(events.ssthresh[k] / rows.mss(flow), color=SOFT, lw=0.8, ls=(0, (4, 2)))
            highest = max(highest, float(np.max(w)) / rows.mss(flow))
            top.set_title(label, fontsize=7.5)
            bottom.fill_between(tq - at, q / 1e3, color=SKY, alpha=0.4, lw=0, step="post")
            bottom.plot(tq - at, q / 1e3, color=INK, lw=0.6, drawstyle="steps-post")
            bottom.set_ylim(bottom=0)
            bottom.set_xlim(-0.25, 0.75)
            bottom.set_xticks([0, 0.5])
        axes[0][0].set_ylim(0, 1.08 * highest)
        axes[0][0].set_ylabel("cwnd (segments)")
        axes[1][0].set_ylabel("queue (kB)")
        figure.supxlabel("time since the sender noticed the loss (s)", fontsize=8.5)
    return figure


def explorer(data: Data) -> dict[str, Any] | None:
    """Any cell of the grid, by rate, round trip, queue and sender."""
    entries = []
    for cell in data.cells.values():
        summary = data.first_run(**cell.factors)
        if summary and summary.get("series"):
            entries.append((cell.label, cell.role, colour_of(SENDER[str(cell.factors["sender"])].cc), summary))
    return interactive.explorer(entries) if entries else None


FIGURES: tuple[Plot, ...] = (
    _cwnd_and_queue(
        "fig-02-03", "Figs 2 and 3: NewReno on FreeBSD and Linux", "Congestion window and queue occupancy over three "
        "typical epochs. 10 Mbit/s, RTT 80 ms, queue 1 BDP. Dashed: the queue's limit; red ticks: drops. Both panels "
        "show as much time, so epochs compare by width.", "freebsd-reno", "linux-reno",
    ),
    _cwnd_and_queue(
        "fig-04-05", "Figs 4 and 5: H-TCP on FreeBSD and Linux", "As above.", "freebsd-htcp", "linux-htcp",
    ),
    _cwnd_and_queue(
        "fig-06", "Fig. 6: CUBIC on Linux", "As above; the two-part cycle of fast convergence.", "linux-cubic",
    ),
    Plot(
        "fig-recovery", "Fast recovery at close range", "One reduction of each sender: rate halving on Linux, an "
        "immediate fall and a climb on FreeBSD (section VI-B). Dashed: β·cwnd.", recovery,
    ),
    Plot(
        "fig-07-08", "Figs 7 and 8: delay against occupancy, H-TCP and CUBIC",
        "Dots are call packets. On the left both axes are drawn to the law's scale, so the dots must lie on the "
        "occupancy's edge.", _recipe("delay-vs-occupancy", "freebsd-htcp", "linux-cubic"),
    ),
    delay_cdfs,
    Plot(
        "fig-12", "Fig. 12: median induced delay by bandwidth × delay", "Medians over three typical epochs; bars: "
        "range over seeds. Dashed: what a full queue adds. NewReno completes no epoch at 100 Mbit/s × 160 ms in three "
        "minutes: its points there cover the time since slow start.", medians,
    ),
    Plot(
        "fig-13", "Fig. 13: H-TCP's irregularity at the highest BDPs", "Linux H-TCP at 100 Mbit/s × 80 and 160 ms. "
        "The plain model grows fast without relapse; a wire on which two packets overtake one in ten thousand makes "
        "2.6.25 restart its clock each time, without a loss.", irregular((80, 160)), irregular_interactive((80, 160)),
    ),
    Plot(
        "fig-14", "Fig. 14: H-TCP-like among NewReno-like epochs",
        "Linux H-TCP at 100 Mbit/s × 16 ms, plain and disturbed.", irregular((16,)), irregular_interactive((16,)),
    ),
    discernible,
)  # fmt: skip
