"""Figures of a store of runs: a metric over an axis with its intervals, a heat map, throughput against delay.

Each takes the store's frame (`Store.frame()`, one row per run) and names of its columns; none reads a result's tables.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ..errors import nearest
from ..experiment import statistics
from ..experiment.run_metrics import MOST
from ..experiment.store.axes import pooled
from ..metrics.registry import RUN_MEASURES
from ..metrics.rows import Floats
from .columns import (
    Axis,
    NoSuchColumn,
    axes_of,
    directions,
    is_expression,
    level_text,
    metric_column,
    metric_title,
    name_of,
    path_of,
    quantity,
    with_metric,
)
from .flows import STYLES, nth_colour
from .style import FULL_WIDTH, INK, PANEL, SOFT, headed, house_style, nested, new_figure

__all__ = [
    "FIGURES",
    "NoSuchColumn",
    "axes_of",
    "box",
    "captioned",
    "draw",
    "heat_map",
    "is_measured",
    "metric_over_axis",
    "metric_title",
    "offered",
    "pair_shares",
    "people",
    "throughput_delay",
    "usual",
    "violin",
]

MARKERS = "osD^vP*X"

#: Payload share of a 1500-byte packet with timestamps.
_PAYLOAD = 1448 / 1500


def _axis(frame: pl.DataFrame, column: str) -> Axis:
    found = axes_of(frame)
    for axis in found:
        if axis.column == column:
            return axis
    names = [axis.column for axis in found]
    close = nearest(column, names)
    hint = f' Did you mean "{close}"?' if close else ""
    raise NoSuchColumn(f'the runs do not differ in "{column}".{hint} They differ in: {", ".join(names) or "nothing"}')


def _default_metric(frame: pl.DataFrame) -> str:
    wanted = (".delay_p95_ms", ".experience_p95_ms", "goodput_mbps")
    return next((name for end in wanted for name in frame.columns if name.endswith(end)), "goodput_mbps")


def _delay(frame: pl.DataFrame) -> str:
    """The store's delay column: of packets, of echoes, or else the last round trip that a sender saw."""
    for end in (".delay_p95_ms", ".experience_p95_ms", ".srtt_ms"):
        for name in frame.columns:
            if name.endswith(end):
                return name
    fix = "Record packets of a flow ([instruments] packets), or give the column as metric"
    raise NoSuchColumn(f"the store has no delay to draw goodput against. {fix}")


def _split(frame: pl.DataFrame, axis: str | None, by: str | None) -> tuple[Axis, Axis | None]:
    """The axis to draw along and the axis shown by colour; chosen by default."""
    found = axes_of(frame)
    if not found:
        raise NoSuchColumn("all runs of the store are of one scenario: there is no axis to draw along. Sweep a value")
    along = _axis(frame, axis) if axis else next((a for a in found if a.numbers is not None), found[0])
    rest = [each for each in found if each.column != along.column]
    if by:
        return along, _axis(frame, by)
    # The algorithm first, as it is compared most often.
    rest.sort(key=lambda each: not each.column.endswith(".cc"))
    return along, rest[0] if rest else None


def _apart(frame: pl.DataFrame, first: set[str] | frozenset[str] = frozenset()) -> list[Axis]:
    """The axes without those that another axis determines, as in a zip.

    Axes in `first` are preferred over others, and those of the forward direction over the reverse one.
    """
    out: list[Axis] = []
    for axis in sorted(axes_of(frame), key=lambda each: (each.column not in first, ".back_" in each.column)):
        pairs = (frame.select(each.column, axis.column).n_unique() for each in out)
        if axis.column in first or all(
            count > max(len(axis.levels), len(each.levels)) for count, each in zip(pairs, out, strict=True)
        ):
            out.append(axis)
    return out


def _lines(
    frame: pl.DataFrame, metric: str | None = None, axis: str | None = None, by: str | None = None
) -> tuple[str, Axis, Axis | None]:
    """Values of the lines, the axis along which they run, and what distinguishes them; `NoSuchColumn` without axes."""
    return metric_column(frame, metric or _default_metric(frame)), *_split(frame, axis, by)


def metric_over_axis(
    frame: pl.DataFrame,
    metric: str | None = None,
    *,
    axis: str | None = None,
    by: str | None = None,
    statistic: str = "median",
    confidence: float = 0.95,
) -> Figure:
    """The `statistic` of `metric` over the values of `axis`, one line per level of `by`, with confidence intervals.

    The interval is over all runs that share both levels: the seeds, and whatever else the sweep varied. By default,
    `axis` is the first quantity in which the runs differ and `by` the algorithm. `NoSuchColumn` for an unknown column.
    """
    name, along, lines = _lines(frame, metric, axis, by)
    columns = [along.column] + ([lines.column] if lines else [])
    table = statistics.summary(frame, name, columns, statistic=statistic, confidence=confidence)
    levels = list(lines.levels if lines else [None])
    # The legend beside it has a line for each level.
    figure, grid = new_figure(width=6.4, height=max(3.4, 0.9 + 0.16 * len(levels)))
    ax = grid[0][0]
    x, at = _positions(along)
    empty = []
    for position, level in enumerate(levels):
        part = table if lines is None else table.filter(pl.col(lines.column) == level)
        rows = {row[along.column]: row for row in part.to_dicts()}
        shown = None if lines is None else lines.words(level)
        there = [i for i, each in enumerate(along.levels) if each in rows and _is_number(rows[each][statistic])]
        if not there:
            empty.append(str(shown))
            continue
        middle = np.array([rows[along.levels[i]][statistic] for i in there])
        low, high = (np.array([rows[along.levels[i]][key] for i in there]) for key in ("low", "high"))
        # One over another, lines and markers get smaller: what lies below is seen around and between them.
        style, colour, width = STYLES[position % len(STYLES)], nth_colour(position), nested(position, len(levels))
        look: dict[str, Any] = {
            "marker": MARKERS[position % len(MARKERS)], "ms": 2.5 + 1.3 * width, "color": colour,
            "mfc": "white" if position % 2 else colour, "label": shown,
        }  # fmt: skip
        if x is None:
            # Categories have no order, so they are not joined by lines.
            beside = at[there] + 0.6 * (position - (len(levels) - 1) / 2) / max(len(levels), 1)
            ax.vlines(beside, low, high, color=colour, lw=1.4)
            ax.plot(beside, middle, ls="none", **look | {"ms": 4.5})
        else:
            ax.plot(at[there], middle, ls=style, lw=width, **look)
            ax.fill_between(at[there], low, high, color=colour, alpha=0.18, lw=0)
    if len(empty) == len(levels):
        raise NoSuchColumn(f'no run has a value in "{name}". {_MANY_FLOWS}')
    _along(ax, along, x, at)
    ax.set_ylabel(metric_title(name))
    bottom, top = ax.get_ylim()
    bottom = min(0.0, bottom)
    # Leave room above lines that are all near the top.
    ax.set_ylim(bottom, top + 0.03 * (top - bottom))
    if lines:
        _legend(figure, ax, lines.title)
    headed(ax, f"{statistic} and {_band_words(table, confidence)}", _below(frame, along, lines))
    _missing(
        figure, empty, [level_text(each) for each in along.levels if not _has_value(frame, name, along.column, each)]
    )
    return figure


def box(frame: pl.DataFrame, metric: str | None = None, *, axis: str | None = None, by: str | None = None) -> Figure:
    """How `metric` spreads over the seeds: at every value of `axis` a box a level of `by`.

    The box is from quartile to quartile with the median in it, the whiskers reach from the 5th to the 95th percentile,
    and each run is a dot. Left open, `axis` and `by` are as in `metric_over_axis`.
    """
    return _spread(frame, metric, axis, by, "quartiles, 5th to 95th percentile", _box)


def violin(frame: pl.DataFrame, metric: str | None = None, *, axis: str | None = None, by: str | None = None) -> Figure:
    """How `metric` spreads over the seeds, as `box` has it: the density of the runs, their median, and a dot a run."""
    return _spread(frame, metric, axis, by, "density and median", _violin)


def _box(ax: Axes, values: list[Floats], places: Floats, width: float, colour: str) -> None:
    drawn = ax.boxplot(
        values, positions=places, widths=width, whis=(5, 95), showfliers=False, patch_artist=True,
        medianprops={"color": INK, "lw": 1.2}, manage_ticks=False,
    )  # fmt: skip
    for patch in drawn["boxes"]:
        patch.set(facecolor=colour, alpha=0.35, edgecolor=colour)


def _violin(ax: Axes, values: list[Floats], places: Floats, width: float, colour: str) -> None:
    # Equal values have no density.
    spread = [i for i, each in enumerate(values) if np.ptp(each) > 0]
    if spread:
        drawn = ax.violinplot([values[i] for i in spread], positions=places[spread], widths=width, showextrema=False)
        bodies: Any = drawn["bodies"]
        for body in bodies:
            body.set(facecolor=colour, alpha=0.35, edgecolor=colour)
    middles = [float(np.median(each)) for each in values]
    ax.hlines(middles, places - width / 3, places + width / 3, color=INK, lw=1.2)


def _spread(
    frame: pl.DataFrame,
    metric: str | None,
    axis: str | None,
    by: str | None,
    shows: str,
    shape: Callable[[Axes, list[Floats], Floats, float, str], None],
) -> Figure:
    """One shape per level at every value of the axis, and one dot per run."""
    name, along, groups = _lines(frame, metric, axis, by)
    levels = list(groups.levels if groups else [None])
    width = 0.8 / len(levels)
    figure, grid = new_figure(width=max(6.4, 0.3 * len(levels) * len(along.levels) + 2.0), height=3.4)
    ax = grid[0][0]
    at = np.arange(len(along.levels), dtype=float)
    empty = []
    for number, level in enumerate(levels):
        part = frame if groups is None else frame.filter(pl.col(groups.column) == level)
        each = [_finite(part.filter(pl.col(along.column) == value), name) for value in along.levels]
        kept = [i for i, values in enumerate(each) if len(values)]
        if not kept:
            empty.append(level_text(level))
            continue
        marker, colour = MARKERS[number % len(MARKERS)], nth_colour(number)
        places = at[kept] + width * (number - (len(levels) - 1) / 2)
        shape(ax, [each[i] for i in kept], places, 0.8 * width, colour)
        for i, place in zip(kept, places, strict=True):
            ax.plot(np.full(len(each[i]), place), each[i], marker, ms=2.5, color=colour)
        ax.plot([], [], marker, color=colour, label=groups.words(level) if groups else None)
    if len(empty) == len(levels):
        raise NoSuchColumn(f'no run has a value in "{name}". {_MANY_FLOWS}')
    ax.set_xticks(at, [along.text(i) for i in range(len(at))])
    ax.set_xlabel(along.title)
    ax.set_ylabel(metric_title(name))
    low, high = ax.get_ylim()
    # Values close together and far from zero would show no spread if the axis included zero.
    if low < 0.5 * high:
        ax.set_ylim(bottom=min(0.0, low))
    if groups:
        _legend(figure, ax, groups.title)
    headed(ax, shows, _below(frame, along, groups))
    _missing(
        figure, empty, [level_text(each) for each in along.levels if not _has_value(frame, name, along.column, each)]
    )
    return figure


_MANY_FLOWS = f"Of runs with more than {MOST} flows, metrics of single flows are kept only if [metrics] names them."


def _pooled(frame: pl.DataFrame, *shown: Axis | None) -> str:
    """Other values in which the runs behind a point differ, since their spread is then not that of seeds alone."""
    drawn = {axis.column for axis in shown if axis}
    rest = [name_of(axis.column) for axis in _apart(frame, drawn) if axis.column not in drawn]
    if pooled(frame, [axis.column for axis in axes_of(frame)]):
        rest.append("scenario of the store")
    return f"over every {', '.join(rest)}" if rest else ""


def _below(frame: pl.DataFrame, *shown: Axis | None) -> str:
    """The line beneath a title: the path that all runs share, their number, and what a point pools."""
    first = "; ".join(part for part in (path_of(frame), _runs(frame)) if part)
    over = _pooled(frame, *shown)
    return f"{first},\n{over}" if over else first


def _missing(figure: Figure, levels: list[str], values: list[str]) -> None:
    """Note on the levels without a value, which would otherwise be legend entries without a line."""
    absent = list(dict.fromkeys([*levels, *values]))
    if absent:
        figure.supxlabel(f"No value: {', '.join(absent)}. {_MANY_FLOWS}", fontsize=7, color=SOFT)


def _has_value(frame: pl.DataFrame, metric: str, column: str, level: Any) -> bool:
    return bool(len(_finite(frame.filter(pl.col(column) == level), metric)))


def _finite(frame: pl.DataFrame, column: str) -> Floats:
    values: Floats = frame[column].cast(pl.Float64).drop_nulls().to_numpy()
    return values[np.isfinite(values)]


def _is_number(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


def _positions(along: Axis) -> tuple[Floats | None, Floats]:
    """Positions of the levels: their numbers, or None and consecutive places for categories."""
    if along.numbers is not None and np.all(np.diff(along.numbers) > 0):
        return along.numbers, along.numbers
    return None, np.arange(len(along.levels), dtype=float)


def _along(ax: Axes, along: Axis, x: Floats | None, at: Floats) -> None:
    if x is not None and len(x) > 2 and np.all(x > 0) and x.max() / x.min() > 8:
        ax.set_xscale("log")
    ax.set_xticks(at, [along.text(i) for i in range(len(at))])
    if x is not None:
        ax.minorticks_off()
    ax.set_xlabel(along.title)


def _legend(figure: Figure, ax: Axes, title: str | None) -> None:
    """A legend beside the picture: inside, it could cover a line."""
    figure.legend(*ax.get_legend_handles_labels(), title=title, loc="outside right upper")


def _runs(frame: pl.DataFrame) -> str:
    return f"{len(frame)} runs, {frame['seed'].n_unique()} seeds"


def _cells(
    frame: pl.DataFrame, metric: str | None = None, axis: str | None = None, by: str | None = None
) -> tuple[str, Axis, Axis]:
    """Values of a heat map, across and down; `NoSuchColumn` if the runs have fewer than two axes."""
    name = metric_column(frame, metric or _default_metric(frame))
    across, down = _split(frame, axis, by)
    if down is None:
        raise NoSuchColumn(f"the runs differ in {across.column} only; a heat map needs two axes")
    return name, across, down


def heat_map(
    frame: pl.DataFrame,
    metric: str | None = None,
    *,
    axis: str | None = None,
    by: str | None = None,
    statistic: str = "median",
) -> Figure:
    """The `statistic` of `metric` at every pair of levels: `axis` across, `by` down; the number stands in each cell."""
    name, across, down = _cells(frame, metric, axis, by)
    table = statistics.summary(frame, name, [across.column, down.column], statistic=statistic)
    values = np.full((len(down.levels), len(across.levels)), np.nan)
    for row in table.to_dicts():
        if row[down.column] is not None and row[across.column] is not None:
            values[down.levels.index(row[down.column]), across.levels.index(row[across.column])] = row[statistic]
    figure, grid = new_figure(width=1.2 + 0.85 * max(len(across.levels), 4), height=1.2 + 0.42 * len(down.levels))
    ax = grid[0][0]
    ax.grid(visible=False)
    image = ax.imshow(values, cmap="cividis", aspect="auto")
    middle = 0.5 * (np.nanmin(values) + np.nanmax(values))
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            ax.text(j, i, f"{value:.3g}", ha="center", va="center", fontsize=8,
                    color="white" if value < middle else INK)  # fmt: skip
    ax.set_xticks(range(len(across.levels)), [across.text(i) for i in range(len(across.levels))])
    ax.set_yticks(range(len(down.levels)), [down.text(i) for i in range(len(down.levels))])
    ax.set_xlabel(across.title)
    ax.set_ylabel(down.title)
    figure.colorbar(image, ax=ax, label=metric_title(name))
    headed(ax, statistic, _below(frame, across, down))
    return figure


def _pairs(frame: pl.DataFrame, axis: str | None = None, by: str | None = None) -> tuple[str, str, str, str]:
    """The columns of two flows' algorithms and goodputs; `NoSuchColumn` if the runs are not of pairs."""
    pairs = [each.column for each in axes_of(frame) if each.column.endswith(".cc")]
    down, across = by or (pairs[0] if pairs else ""), axis or (pairs[1] if len(pairs) > 1 else "")
    if down == across or not {down, across} <= set(pairs):
        fix = "Sweep the cc of two flows, see scenarios/grids/pairs.toml"
        raise NoSuchColumn(
            f"the runs are not of pairs of algorithms; they differ in: {', '.join(pairs) or 'none'}. {fix}"
        )
    own, other = (
        metric_column(frame, f"{name.removeprefix('flow.').removesuffix('.cc')}.goodput_mbps")
        for name in (down, across)
    )
    if "dumbbell.rate" not in frame.columns:
        raise NoSuchColumn("the runs are not of a dumbbell with a rate, of which there could be a fair share")
    return down, across, own, other


def _mbps(rate: Any) -> float:
    found = quantity(rate)
    # A plain number is in bit/s.
    return float("nan") if found is None else found[0] if found[1] else found[0] / 1e6


def pair_shares(frame: pl.DataFrame, *, axis: str | None = None, by: str | None = None) -> Figure:
    """What one flow keeps beside another, in per cent of its max-min fair share, for every pair of algorithms.

    Of a sweep over the algorithms of two flows, `by` and `axis`: the mean over the runs and over both roles, so that it
    does not matter whose start was drawn earlier. Both have data without end, so the fair share is half of the
    bottleneck's payload. A panel for each rate.
    """
    down, across, own, other = _pairs(frame, axis, by)
    rows, columns = _axis(frame, down).levels, _axis(frame, across).levels
    rates = frame["dumbbell.rate"].unique(maintain_order=True).to_list()
    side = 0.33 * max(len(rows), 4)
    figure, panels = new_figure(len(rates), 1, width=side + 1.6, height=(side + 1.0) * len(rates))
    for rate, (ax,) in zip(rates, panels, strict=True):
        of_rate = frame.filter(pl.col("dumbbell.rate") == rate)
        fair = _mbps(rate) / 2.0 * _PAYLOAD
        roles = ((down, across, own), (across, down, other))
        both = pl.concat(
            [of_rate.select(mine=mine, theirs=theirs, share=100.0 * pl.col(rate_of) / fair)
             for mine, theirs, rate_of in roles]
        )  # fmt: skip
        values = np.full((len(rows), len(columns)), np.nan)
        for mine, theirs, share in both.group_by("mine", "theirs").agg(pl.col("share").mean()).iter_rows():
            if mine in rows and theirs in columns:
                values[rows.index(mine), columns.index(theirs)] = share
        ax.grid(visible=False)
        image = ax.imshow(values, cmap="RdBu", vmin=0.0, vmax=200.0)
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                ax.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=7,
                        color="white" if abs(value - 100.0) > 65.0 else INK)  # fmt: skip
        ax.set_xticks(range(len(columns)), [str(level) for level in columns], rotation=90)
        ax.set_yticks(range(len(rows)), [str(level) for level in rows])
        ax.set(xlabel="beside this one", ylabel="this one keeps")
        headed(ax, f"{_mbps(rate):g} Mbit/s", _below(of_rate, _axis(frame, down), _axis(frame, across)))
        figure.colorbar(image, ax=ax, label="per cent of the fair share", shrink=0.8)
    return figure


def _plane(frame: pl.DataFrame, delay: str | None = None, goodput: str = "goodput_mbps") -> tuple[str, str]:
    """The columns of delay and goodput; `NoSuchColumn` if the store lacks one."""
    return metric_column(frame, delay or _delay(frame)), metric_column(frame, goodput)


def throughput_delay(
    frame: pl.DataFrame, delay: str | None = None, *, goodput: str = "goodput_mbps", by: str | None = None
) -> Figure:
    """Goodput against delay: a dot a run, an ellipse of one standard deviation around the mean of each setting.

    The seeds of a setting make its ellipse; a colour and a line are a level of `by`, the algorithm by default. The
    delay axis runs from right to left, so that better is up and to the right, as in Winstein, Sivaraman and
    Balakrishnan (Sprout, NSDI 2013, Fig. 7).
    """
    name, good = _plane(frame, delay, goodput)
    found = _apart(frame, {by} if by else frozenset())
    colours = _axis(frame, by) if by else next((axis for axis in found if axis.column.endswith(".cc")), None)
    others = [axis.column for axis in found if colours is None or axis.column != colours.column]
    figure, grid = new_figure(width=6.4, height=3.9)
    ax = grid[0][0]
    kinds = list(frame.group_by(others, maintain_order=True)) if others else [((), frame)]
    texts = [_setting(values, [axis for axis in found if axis.column in others]) for values, _ in kinds]
    # A marker a setting; of more settings than markers each stands beside its own.
    marked = len(kinds) <= len(MARKERS)
    joined = all(axis.numbers is not None for axis in found if axis.column in others)
    several = list(colours.levels if colours else [None])
    for position, level in enumerate(several):
        part = frame if colours is None else frame.filter(pl.col(colours.column) == level)
        colour, width = nth_colour(position), nested(position, len(several), 0.4)
        mine = dict(part.group_by(others, maintain_order=True)) if others else {(): part}
        middles = {values: _cloud(ax, each, name, good, colour) for values, each in mine.items()}
        label = "all runs" if level is None else level_text(level)
        look: dict[str, Any] = {"color": colour, "mfc": "white" if position % 2 else colour, "mew": 1.1}
        style = STYLES[position % len(STYLES)] if joined and len(middles) > 1 else "none"
        ax.plot(*np.array(list(middles.values())).T, ls=style, lw=width, color=colour)
        for number, (values, _) in enumerate(kinds):
            if at := middles.get(values):
                ax.plot(*at, MARKERS[number if marked else position % len(MARKERS)], ms=3.5 + 1.8 * width, **look)
                if not marked:
                    ax.annotate(texts[number], at, xytext=(4, 4), textcoords="offset points", fontsize=7, color=colour)
        shown = MARKERS[0] if marked else MARKERS[position % len(MARKERS)]
        ax.plot([], [], shown, ls=style, lw=width, ms=5, label=label, **look)
    ax.invert_xaxis()
    ax.set_xlabel(f"{metric_title(name)}  better\N{NO-BREAK SPACE}→")
    ax.set_ylabel(f"{metric_title(good)}  better\N{NO-BREAK SPACE}↑")
    _legend(figure, ax, colours.title if colours else None)
    if others and marked:
        handles = [ax.plot([], [], MARKERS[n], color=SOFT, ms=5)[0] for n in range(len(kinds))]
        title = ", ".join(axis.title for axis in found if axis.column in others)
        figure.legend(handles, texts, title=title, loc="outside right lower")
    headed(ax, "mean and one standard deviation", _below(frame, *found))
    return figure


def _setting(values: Sequence[Any], axes: Sequence[Axis]) -> str:
    """A setting in words: its levels, as ticks have them."""
    return ", ".join(
        axis.text(axis.levels.index(value)) for value, axis in zip(values, axes, strict=True) if value is not None
    )


def _cloud(ax: Axes, frame: pl.DataFrame, x_name: str, y_name: str, colour: str) -> tuple[float, float]:
    """The runs of one setting with their ellipse; returns both means."""
    x, y = (frame[column].cast(pl.Float64).to_numpy() for column in (x_name, y_name))
    kept = np.isfinite(x) & np.isfinite(y)
    x, y = x[kept], y[kept]
    if not len(x):
        return float("nan"), float("nan")
    ax.plot(x, y, ".", ms=3, color=colour, alpha=0.35)
    middle = (float(x.mean()), float(y.mean()))
    if len(x) >= 3:
        values, vectors = np.linalg.eigh(np.cov(x, y))
        wide, high = 2.0 * np.sqrt(np.maximum(values[::-1], 0.0))
        angle = float(np.degrees(np.arctan2(vectors[1, -1], vectors[0, -1])))
        ax.add_patch(Ellipse(middle, wide, high, angle=angle, color=colour, alpha=0.25, lw=0))
    return middle


#: Most levels that have a marker each; with more, people are drawn as cells.
_DOTS = len(MARKERS)
#: Most panels, one above another, and most of them side by side.
_PANELS, _BESIDE = 12, 4


def _noticed(frame: pl.DataFrame, flows: Sequence[str] = ()) -> list[str]:
    """Metrics of each flow's (or of these flows') user experience; for a transfer, its goodput."""
    end = ".goodput_mbps"
    every = sorted(name.removesuffix(end) for name in frame.columns if name.endswith(end))
    out: list[str] = []
    for flow in flows or every:
        if flow not in every:
            close = nearest(flow, every)
            hint = f' Did you mean "{close}"?' if close else ""
            raise NoSuchColumn(f'the store has no flow "{flow}".{hint} It has: {", ".join(every) or "none"}')
        kinds = (
            ("startup_s", "bitrate_mbps"),
            ("load_time_s",),
            ("late_100",),
            ("delay_p95_ms",),
            ("experience_p95_ms",),
        )
        known = ([f"{flow}.{name}" for name in names] for names in kinds)
        out += next((names for names in known if all(is_measured(frame, name) for name in names)), [flow + end])
    return out


def is_measured(frame: pl.DataFrame, column: str) -> bool:
    """Whether a column has a finite value in some run."""
    return column in frame.columns and len(_finite(frame, column)) > 0


def _people(
    frame: pl.DataFrame,
    metrics: Sequence[str] = (),
    axis: str | None = None,
    by: str | None = None,
    flows: Sequence[str] = (),
) -> tuple[list[str], Axis, Axis | None, Axis | None]:
    """Metrics to draw, the axis along which, what distinguishes the dots, and what is shown side by side."""
    names = [metric_column(frame, metric) for metric in metrics] or _noticed(frame, flows)
    if not names:
        raise NoSuchColumn("the store has no flow: there is nothing that people notice. Give a metric")
    if len(names) > _PANELS:
        raise NoSuchColumn(f"the figure has at most {_PANELS} panels, and here are {len(names)} metrics. Name some")
    found = _apart(frame, {each for each in (axis, by) if each})
    if not found:
        raise NoSuchColumn("all runs of the store are of one scenario: there is no axis to draw along. Sweep a value")
    rest = [each for each in found if each.column not in (axis, by)]
    dots = _axis(frame, by) if by else next((each for each in rest if each.column.endswith(".cc")), None)
    rest = [each for each in rest if dots is None or each.column != dots.column]
    if axis is None and not rest:
        # The algorithm alone differs.
        assert dots is not None
        return names, dots, None, None
    queue = next((each for each in rest if each.column.endswith("queue")), None)
    along = _axis(frame, axis) if axis else queue or max(rest, key=lambda each: len(each.levels))
    beside = (each for each in rest if each.column != along.column and len(each.levels) <= _BESIDE)
    return names, along, dots, next(beside, None)


def people(
    frame: pl.DataFrame,
    metrics: Sequence[str] = (),
    *,
    axis: str | None = None,
    by: str | None = None,
    flows: Sequence[str] = (),
) -> Figure:
    """What everybody on the link notices: a panel a metric, and in it a dot a level of `by` at each value of `axis`.

    A dot is the median of the runs. Left open, the metrics are what each flow's user notices, or the flow's goodput,
    `axis` is the queue and `by` the algorithm; another value that the sweep varied stands side by side. More than
    eight levels are rows of cells. A flow that starts when a run is over is a level: "no upload".
    """
    frame = _with_absent(frame)
    names, along, dots, beside = _people(frame, metrics, axis, by, flows)
    if dots and len(dots.levels) > _DOTS:
        return _people_cells(frame, names, along, dots, beside)
    keys = [each.column for each in (along, dots, beside) if each]
    levels = dots.levels if dots else [None]
    table = frame.group_by(keys).agg(
        found for name in names for value in (pl.col(name).cast(pl.Float64).fill_nan(None),)
        for found in (value.median(), value.min().alias(f"{name}:low"), value.max().alias(f"{name}:high"))
    )  # fmt: skip
    sides = beside.levels if beside else [None]
    height = 0.95 * len(names) + 1.4
    figure, grid = new_figure(len(names), len(sides), width=FULL_WIDTH, height=height, sharex="col")
    at = np.arange(len(along.levels), dtype=float)
    slant: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if len(at) > 4 else {}
    for row, name in zip(grid, names, strict=True):
        scale = _scale_of(_finite(table, name), name)
        for ax, side in zip(row, sides, strict=True):
            part = table if beside is None else table.filter(pl.col(beside.column) == side)
            for number, level in enumerate(levels):
                mine = part if dots is None else part.filter(pl.col(dots.column) == level)
                value = {each[along.column]: each for each in mine.to_dicts()}
                low, y, high = (
                    np.array([value.get(each, {}).get(name + end) for each in along.levels], dtype=np.float64)
                    for end in (":low", "", ":high")
                )
                x = at + 0.6 * ((number + 0.5) / len(levels) - 0.5)
                colour = nth_colour(number)
                ax.vlines(x, low, high, color=colour, lw=1.0)
                ax.plot(x, y, MARKERS[number], ms=3.8, color=colour, mfc="white" if number % 2 else colour,
                        label=None if dots is None else dots.words(level))  # fmt: skip
            _scale(ax, name, scale)
            ax.grid(visible=False, axis="x")
            ax.set_xlim(-0.6, at[-1] + 0.6)
            ax.set_xticks(at, [along.text(i) for i in range(len(at))], **slant)
        title = metric_title(name, _ways(frame, name)).removesuffix(" (share)")
        row[0].set_ylabel("\n".join(textwrap.wrap(title + ("" if scale == "linear" else ", log"), 19)), fontsize=7)
    for number, ax in enumerate(grid[0] if beside else ()):
        assert beside is not None
        ax.set_title(f"{name_of(beside.column)}: {beside.text(number)} {beside.unit}".strip())
    for ax in grid[-1]:
        ax.set_xlabel(along.title)
    words = f"median of the runs, a line from the least to the largest; {_below(frame, along, dots, beside)}"
    _above(figure, words)
    if dots:
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, title=name_of(dots.column), ncols=min(len(labels), 6),
                      loc="outside lower center")  # fmt: skip
    return figure


def _above(figure: Figure, words: str) -> None:
    """A title above all panels, in the lines it needs."""
    text = "\n".join(textwrap.wrap(words.replace("\n", " "), int(14 * figure.get_figwidth())))
    figure.suptitle(text, x=0.01, ha="left", fontsize=9, fontweight="bold")


def _with_absent(frame: pl.DataFrame) -> pl.DataFrame:
    """Runs in which a flow starts when they are over are of another level of its algorithm: that there is no flow."""
    for axis in axes_of(frame):
        flow = axis.column.removeprefix("flow.").removesuffix(".start")
        cc = f"flow.{flow}.cc"
        if axis.unit != "ms" or axis.numbers is None or axis.column != f"flow.{flow}.start" or cc not in frame.columns:
            continue
        # A start a millisecond before the end is no start either.
        over_ms = 999.0 * frame.select(pl.col("duration_s").cast(pl.Float64).max()).item()
        late = [level for level, ms in zip(axis.levels, axis.numbers, strict=True) if ms >= over_ms]
        if not late or len(late) == len(axis.levels):
            continue
        absent = pl.col(axis.column).is_in(late).fill_null(value=False)
        own = [name for name in frame.columns if name.startswith(f"{flow}.") and frame[name].dtype.is_numeric()]
        first = next(level for level in axis.levels if level not in late)
        frame = frame.with_columns(
            pl.when(absent).then(pl.lit(f"no {flow}")).otherwise(pl.col(cc)).alias(cc),
            pl.when(absent).then(pl.lit(first)).otherwise(pl.col(axis.column)).alias(axis.column),
            *(pl.when(absent).then(None).otherwise(pl.col(name)).alias(name) for name in own),
        )
    return frame


def _ways(frame: pl.DataFrame, metric: str) -> tuple[str, str] | None:
    """The directions' names, of a metric of a flow that has a way back."""
    flow = metric.rpartition(".")[0].removesuffix(".back")
    has_back = any(name.startswith(f"{flow}.back.") for name in frame.columns)
    return directions(frame) if flow and has_back else None


def _people_cells(frame: pl.DataFrame, names: list[str], along: Axis, down: Axis, beside: Axis | None) -> Figure:
    """What everybody notices, of many levels: a panel a metric, a row a level, the median in each cell."""
    sides = [(name, side) for name in names for side in (beside.levels if beside else [None])]
    across = len(beside.levels) if beside else 2 if len(names) > 1 else 1
    rows = -(-len(sides) // across)
    levels = sorted(down.levels, key=lambda level: not str(level).startswith("no "))
    figure, grid = new_figure(rows, across, width=FULL_WIDTH, height=rows * (0.145 * len(levels) + 0.75) + 0.8)
    panels = [ax for row in grid for ax in row]
    for ax in panels[len(sides) :]:
        ax.set_axis_off()
    for number, (ax, (name, side)) in enumerate(zip(panels, sides, strict=False)):
        part = frame if beside is None else frame.filter(pl.col(beside.column) == side)
        values, spread = (np.full((len(levels), len(along.levels)), np.nan) for _ in range(2))
        value = pl.col(name).cast(pl.Float64).fill_nan(None)
        table = part.group_by(down.column, along.column).agg(
            value.median().alias("m"), (value.max() - value.min()).alias("r")
        )
        for row, column, middle, reach in table.iter_rows():
            if row in levels and column in along.levels and middle is not None:
                place = levels.index(row), along.levels.index(column)
                values[place], spread[place] = middle, reach
        is_share = metric_title(name).endswith("(share)")
        title = metric_title(name, _ways(frame, name))
        _cells_of(ax, 100 * values if is_share else values, higher=_is_better_higher(name))
        note = "no run has a value"
        if np.isfinite(spread).any():
            most = float(np.nanmax(100 * spread if is_share else spread))
            note = f"runs of a cell span {most:.2g} at most"
        if beside is not None:
            note = f"{name_of(beside.column)}: {level_text(side)}; {note}"
        headed(ax, title.replace("(share)", "(%)"), note, size=7.5)
        ax.set_gid(f"{PANEL}{number}")
        ax.set_yticks(range(len(levels)), [down.words(level) for level in levels], fontsize=7)
        ax.set_xticks(range(len(along.levels)), [along.text(i) for i in range(len(along.levels))], fontsize=7,
                      rotation=45, ha="right", rotation_mode="anchor")  # fmt: skip
        ax.tick_params(length=0, labelleft=number % across == 0, labelbottom=number >= len(sides) - across)
    _above(figure, f"median of the runs, darker is worse, shades logarithmic; {_below(frame, along, down, beside)}")
    figure.supxlabel(f"{along.title} (across), {name_of(down.column)} (down)", fontsize=8)
    return figure


def _is_better_higher(metric: str) -> bool:
    row = RUN_MEASURES.get(metric.rpartition(".")[2])
    return row is not None and row.better == "higher"


def _cells_of(ax: Axes, values: Floats, *, higher: bool) -> None:
    """Cells with their numbers, the darker the worse, in shades by the logarithm."""
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    known = values[np.isfinite(values)]
    if not len(known):
        return
    # Zero has no logarithm: it stands a decade below the least that counts.
    least = max(float(known[known > 0].min(initial=np.inf)), float(known.max()) / 1e3)
    shades = (
        np.log10(np.maximum(values, least / 10 if (known <= 0).any() else least)) if known.max() > 0 else 0 * values
    )
    low, high = float(np.nanmin(shades)), float(np.nanmax(shades))
    if high - low < 0.3:  # Within a factor of two nothing is much worse.
        low, high = (high - 0.3, high) if higher else (low, low + 0.3)
    ax.imshow(shades, cmap="cividis" if higher else "cividis_r", vmin=low, vmax=high, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            shade = (shades[i, j] - low) / (high - low)
            dark = 1 - shade if higher else shade
            ax.text(j, i, f"{value:.3g}", ha="center", va="center", fontsize=7, color="white" if dark > 0.5 else INK)


def _scale_of(values: Floats, metric: str) -> str:
    """Linear, or logarithmic where most values would lie at the foot of the largest."""
    if metric.endswith("_mos") or not len(values) or values.max() <= 0:
        return "linear"
    if np.median(values) > values.max() / 8:
        return "linear"
    return "log" if values.min() > 0 else "symlog"


def _scale(ax: Axes, metric: str, scale: str = "linear") -> None:
    """From zero on unless logarithmic, but a mean opinion score from 1 to 4.5."""
    if metric.endswith("_mos"):
        ax.set_ylim(1.0, 4.6)
    elif scale == "linear":
        low, high = ax.get_ylim()
        low = min(low, 0.0)
        margin = 0.08 * (high - low)
        ax.set_ylim(low - margin, high + margin)
    elif scale == "log":
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.set_ylim(low / 1.2, high * 1.2)
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        values = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.lines])
        most = float(np.nanmax(values))
        least = max(float(values[values > 0].min(initial=np.inf)), most / 1e3)
        first, last = int(np.floor(np.log10(least))), int(np.ceil(np.log10(most)))
        ax.set_yscale("symlog", linthresh=10.0**first)
        ax.set_yticks([0.0, *(10.0**power for power in range(first, last + 1, 2 if last - first > 2 else 1))])
        ax.yaxis.set_major_formatter("{x:g}")
        ax.set_ylim(-0.3 * 10.0**first, 1.5 * most)
    if metric_title(metric).endswith("(share)"):
        ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    if scale == "linear":
        ax.yaxis.set_major_locator(MaxNLocator(3))


#: Figures of a store by name: title, function, and a function that finds its columns or raises `NoSuchColumn`.
FIGURES: dict[str, tuple[str, Callable[..., Figure], Callable[[pl.DataFrame], object]]] = {
    "lines": ("A metric over an axis, with intervals", metric_over_axis, _lines),
    "box": ("A metric over an axis, a box over the seeds", box, _lines),
    "violin": ("A metric over an axis, its density over the seeds", violin, _lines),
    "heat-map": ("A metric over two axes", heat_map, _cells),
    "people": ("What everybody notices, a panel each", people, _people),
    "pair-shares": ("Fair shares of pairs of algorithms", pair_shares, _pairs),
    "throughput-delay": ("Goodput against delay, with ellipses", throughput_delay, _plane),
}


#: From this many quantities of user experience on, the figure of people is the default.
_CROWD = 3


def usual(frame: pl.DataFrame, metrics: Sequence[str] = (), flows: Sequence[str] = ()) -> str:
    """The default figure: `people` for several metrics or flows, or if there are many people."""
    noticed = [] if metrics or flows else [name for name in _noticed(_done(frame)) if not name.endswith("goodput_mbps")]
    return "people" if len(metrics) > 1 or len(flows) > 1 or len(noticed) >= _CROWD else "lines"


def offered(frame: pl.DataFrame) -> dict[str, str]:
    """Titles of the figures that can be drawn of these runs, by name."""
    done, out = _done(frame), {}
    for name, (title, _, needs) in FIGURES.items():
        with contextlib.suppress(NoSuchColumn):
            needs(done)
            out[name] = title
    return out


def captioned(name: str, frame: pl.DataFrame, metric: str | None = None) -> tuple[str, str]:
    """Title and caption of the figure of that name, with the axes that `draw` chooses."""
    if name == "throughput-delay":
        colours = next((axis.column for axis in axes_of(frame) if axis.column.endswith(".cc")), None)
        by = f", a colour for each {name_of(colours)}" if colours else ""
        return (
            f"{metric_title('goodput_mbps')} against {metric_title(metric or _delay(frame))}",
            f"A small dot is a run, a marker the mean of a setting{by}; where a setting has three runs or more, the "
            "ellipse is one standard deviation around it. Better is up and to the right.",
        )
    if name == "pair-shares":
        return (
            "Fair shares of pairs of algorithms",
            "What the algorithm of the row keeps beside that of the column, in per cent of half the bottleneck: the "
            "mean of the runs, in both roles. Blue is more than fair, red less.",
        )
    if name == "people":
        _, over, dots, _ = _people(_with_absent(frame))
        of = f", for each {name_of(dots.column)}" if dots else ""
        return "What everybody notices", f"The median of the runs at each {name_of(over.column)}{of}."
    shown = metric_title(metric or _default_metric(frame))
    along, other = _split(frame, None, None)
    if name == "heat-map" and other is not None:
        across, down = name_of(along.column), name_of(other.column)
        return (
            f"{shown} over {across} and {down}",
            f"The median of the runs at each {across} (across) and {down} (down).",
        )
    title, lines = f"{shown} over {name_of(along.column)}", ""
    if other:
        title, lines = f"{title}, by {name_of(other.column)}", f", for each {name_of(other.column)}"
    if name == "violin":
        return title, f"The runs at each {name_of(along.column)}{lines}: their density, median, a dot a run."
    if name == "box":
        return (
            title,
            f"The runs at each {name_of(along.column)}{lines}: quartiles, median, 5th to 95th percentile, a dot a run.",
        )
    shape = "band" if along.numbers is not None else "bar"
    return (
        title,
        f"The median of the runs at each {name_of(along.column)}{lines}; the {shape} is its 95 % interval, or of fewer "
        "than six runs their range.",
    )


def _band_words(table: pl.DataFrame, confidence: float) -> str:
    """What the bands of a figure are: its confidence interval, or the range of few runs."""
    ranges = {kind for kind in table["interval"].to_list() if kind.startswith("range")}
    others = {kind for kind in table["interval"].to_list() if kind.endswith("interval")}
    if not ranges:
        return f"{100 * confidence:g} % interval"
    if others:
        return f"{100 * confidence:g} % interval, or range of few runs"
    return ranges.pop() if len(ranges) == 1 else "range of the runs"


def _done(frame: pl.DataFrame) -> pl.DataFrame:
    done = frame.filter(pl.col("status") == "ok")
    if done.is_empty():
        raise NoSuchColumn("the store has no run that succeeded: there is nothing to draw")
    return done


def draw(
    name: str,
    frame: pl.DataFrame,
    *,
    metric: str | Sequence[str] | None,
    axis: str | None,
    by: str | None,
    flow: str | Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the figure of that name in the house style, without failed runs.

    `flow` selects the flow if `metric` has no flow's name, or if it is the default. `people` takes several metrics and
    flows. `labels` rename levels in legend and ticks; `title` is the figure's title.
    """
    done = _done(frame)
    metrics, flows = ([each] if isinstance(each, str) else list(each or ()) for each in (metric, flow))
    chosen: dict[str, Any] = {key: value for key, value in (("axis", axis), ("by", by)) if value}
    if name == "people":
        if metrics and flows:
            raise NoSuchColumn(f'flow "{flows[0]}": the metrics name their flows themselves. Leave out one of them')
        given: tuple[Any, ...] = (metrics,)
        chosen["flows"] = flows
    else:
        one = _one_metric(name, metrics, flows)
        if name == "throughput-delay" and axis:
            raise NoSuchColumn(
                f'axis "{axis}": this figure has goodput and delay for axes. Use by to choose its colours'
            )
        if flows and name == "throughput-delay":
            chosen["goodput"] = metric_column(done, f"{flows[0]}.goodput_mbps")
        elif flows and one and is_expression(one):
            raise NoSuchColumn(
                f'flow "{flows[0]}": the expression "{one}" names its flows itself. Leave out one of them'
            )
        elif flows:
            one = _of_flow(done, flows[0], one)
        metrics = [one] if one else []
        given = () if name == "pair-shares" else (one,)
    for each in metrics:
        done = with_metric(done, each)
    with house_style():
        figure = FIGURES[name][1](done, *given, **chosen)
        _rename(figure, done, labels or {})
        if title and figure.get_suptitle():
            _above(figure, title)
        elif title:
            headed(figure.axes[0], title)
    return figure


def _one_metric(name: str, metrics: Sequence[str], flows: Sequence[str]) -> str | None:
    """The metric of a figure that shows a single one."""
    if name == "pair-shares" and (metrics or flows):
        raise NoSuchColumn(
            f'metric "{[*metrics, *flows][0]}": this figure is of goodput. Use by and axis to choose the two flows'
        )
    for what, several in (("metric", metrics), ("flow", flows)):
        if len(several) > 1:
            raise NoSuchColumn(
                f'{what} "{several[1]}": the figure {name} shows one metric. Give one, or draw the figure people'
            )
    return metrics[0] if metrics else None


def _of_flow(frame: pl.DataFrame, flow: str, metric: str | None) -> str:
    """The column of a flow's metric; by default its delay if it has one, else its goodput."""
    if metric is not None:
        return metric_column(frame, metric if metric.startswith(f"{flow}.") else f"{flow}.{metric}")
    usual = [f"{flow}.{name}" for name in ("delay_p95_ms", "experience_p95_ms", "goodput_mbps")]
    return next((name for name in usual if name in frame.columns), metric_column(frame, usual[-1]))


def _rename(figure: Figure, frame: pl.DataFrame, labels: Mapping[str, str]) -> None:
    """Rename levels; `NoSuchColumn` for a level that no axis has."""
    if not labels:
        return
    known = {level_text(level) for axis in axes_of(frame) for level in axis.levels}
    for level in labels:
        if level not in known:
            close = nearest(level, sorted(known))
            hint = f' Did you mean "{close}"?' if close else ""
            raise NoSuchColumn(f'label "{level}": no axis of the sweep has this level.{hint}')
    # A level may stand in the picture in other words than in the sweep.
    words = {axis.words(level): level_text(level) for axis in axes_of(frame) for level in axis.levels}
    labels = {**labels, **{shown: labels[level] for shown, level in words.items() if level in labels}}
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_text() in labels:
            text.set_text(labels[text.get_text()])
    for ax in figure.axes:
        for each in (ax.xaxis, ax.yaxis):
            ticks = [text.get_text() for text in each.get_ticklabels()]
            if set(ticks) & set(labels):
                each.set_ticks(each.get_ticklocs(), [labels.get(tick, tick) for tick in ticks])
