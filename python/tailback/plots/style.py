"""One house style: colour-blind safe, direct labels, units on axes, no global state.

Figures are made without pyplot, so drawing needs no display and is safe in threads.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
from cycler import cycler
from matplotlib import font_manager, patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from tailback import registry
from tailback.errors import TailbackError
from tailback.files import whole_file

# Okabe and Ito's palette (2008): eight colour-blind safe colours.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, YELLOW, BLACK = "#56B4E9", "#CC79A7", "#F0E442", "#000000"
INK, SOFT, FAINT = "#222222", "#767676", "#DDDDDD"

CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, SOFT)

ALGORITHM_COLOURS = {"reno": BLUE, "newreno": BLUE, "htcp": VERMILION, "cubic": GREEN}

COLUMN_WIDTH, FULL_WIDTH = 3.5, 7.2
"""Inches: one column and the full page of the usual two-column paper."""

# The first one that is installed is used; matplotlib ships the last.
_FONTS = ("Source Sans 3", "Source Sans Pro", "Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")


@cache
def font() -> str:
    """The best sans-serif that is installed."""
    # Matplotlib's list is a cache: with a font that is gone, each text would give a warning.
    installed = {entry.name for entry in font_manager.fontManager.ttflist if Path(entry.fname).exists()}
    return next((name for name in _FONTS if name in installed), "DejaVu Sans")


def parameters() -> dict[str, Any]:
    """Matplotlib's settings for the house style."""
    return {
        "font.family": [font(), "DejaVu Sans"] if font() != "DejaVu Sans" else ["DejaVu Sans"],
        "font.size": 8.5,
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 8.5,
        "axes.edgecolor": SOFT,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=list(CYCLE)),
        "grid.color": "#EBEBEB",
        "grid.linewidth": 0.6,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "lines.linewidth": 1.2,
        "lines.solid_capstyle": "round",
        "legend.frameon": False,
        "legend.fontsize": 8,
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
        "savefig.dpi": 200,
        # Type 42 keeps text as text: searchable, and accepted by journals that refuse Type 3.
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "path.simplify": True,
    }


@contextmanager
def house_style() -> Iterator[None]:
    """A context in which all drawing has the house style, regardless of any matplotlibrc.

    matplotlib reads one in the working folder, which could have every text set by LaTeX.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, parameters()))
        yield


def new_figure(
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = FULL_WIDTH,
    height: float = 3.2,
    **options: Any,
) -> tuple[Figure, list[list[Axes]]]:
    """A figure and its panels, always as a list of rows."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [list(row) for row in axes]


def algorithm_of(cc: str) -> str:
    """An algorithm's name in papers' spelling."""
    known = {row.name: row.title for row in registry.load().algorithms}
    return known.get(cc, cc)


def colour_of(cc: str, position: int = 0) -> str:
    """An algorithm's colour: fixed for well-known ones, else by position."""
    return ALGORITHM_COLOURS.get(cc, CYCLE[position % len(CYCLE)])


def halo(text: Any) -> None:
    """Put a white outline around a text, so that lines behind it do not make it illegible."""
    text.set_path_effects([patheffects.withStroke(linewidth=2.4, foreground="white")])


def label_at(ax: Axes, x: float, y: float, text: str, colour: str, **options: Any) -> None:
    """Write a direct label in the line's colour."""
    settings: dict[str, Any] = {"fontsize": 8, "va": "center", "ha": "left", "color": colour} | options
    halo(ax.text(x, y, text, **settings))


def label_ends(ax: Axes, lines: Sequence[tuple[float, float, str, str]], gap: float = 0.055) -> None:
    """Label lines at their right ends; labels that would overlap are moved apart vertically.

    Each line is (x, y, text, colour); `gap` is the minimum distance as a share of the axis.
    """
    low, high = ax.get_ylim()
    least = gap * (high - low)
    ordered = sorted(lines, key=lambda line: line[1])
    placed: list[float] = []
    for _, y, _, _ in ordered:
        placed.append(max(y, placed[-1] + least) if placed else y)
    # Labels pushed out at the top would stand beside the panel above.
    ceiling = high - 0.4 * least
    for number in reversed(range(len(placed))):
        placed[number] = min(placed[number], ceiling)
        ceiling = placed[number] - least
    for (x, _, text, colour), at in zip(ordered, placed, strict=True):
        halo(
            ax.annotate(
                text,
                (x, at),
                xytext=(4, 0),
                textcoords="offset points",
                color=colour,
                fontsize=8,
                va="center",
                annotation_clip=False,
            )
        )


#: What distinguishes a line beneath a title from other texts.
_BELOW = "below-the-title"


def headed(ax: Axes, title: str, below: str = "", *, size: float | None = None) -> None:
    """A title in bold and, beneath it, a line in plain type; without `below` an earlier line stays.

    `size` is the title's in points, if not the style's.
    """
    old = next((text for text in ax.texts if text.get_gid() == _BELOW), None)
    if old is not None and below:
        old.remove()
    if below:
        old = ax.annotate(
            below, (0, 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points",
            fontsize=7.5, color=INK, va="bottom", gid=_BELOW, annotation_clip=False,
        )  # fmt: skip
    lines = 0 if old is None else old.get_text().count("\n") + 1
    head = ax.set_title(title, pad=6 + 10 * lines)
    if size is not None:
        head.set_fontsize(size)


def nested(number: int, of: int, step: float = 1.2) -> float:
    """The width of a line among several: the first is widest, so that one that lies over it leaves its rim."""
    return 1.0 + step * min(of - 1 - number, 3) if of > 1 else 1.2


class UnknownFormat(TailbackError, ValueError):
    """A file suffix for which figures cannot be written."""


def save(figure: Figure, path: str | Path, *, width: float | None = None) -> list[Path]:
    """Write a figure; a path without suffix gives PNG and PDF. Never leaves half a file behind.

    With a `width`, in inches, the figure is exactly as wide and its text keeps its size: `COLUMN_WIDTH` is a column of
    a paper of two, `FULL_WIDTH` its page. `UnknownFormat` for another suffix of letters; one with digits, as in
    `rate-1.5`, belongs to the name.
    """
    target = Path(path)
    known = (".png", ".pdf", ".svg")
    if target.suffix not in known and target.suffix[1:].isalpha():
        instead = ", ".join(str(target.with_suffix(ending)) for ending in known)
        raise UnknownFormat(f"{target}: figures are not written as {target.suffix}. Write one of: {instead}")
    targets = [target] if target.suffix in known else [target.parent / (target.name + s) for s in (".png", ".pdf")]
    with house_style():
        if width is not None:
            _fit(figure, width)
        _turn_ticks(figure)
        if width is not None:
            _wrap_labels(figure)
    cut: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.05} if width is None else {}
    for each in targets:
        kind = each.suffix[1:]
        # Without a date, so that the same rows give the same bytes.
        metadata: dict[str, Any] = {"CreationDate": None} if kind == "pdf" else {"Date": None} if kind == "svg" else {}
        with whole_file(each) as temporary, house_style():
            figure.savefig(temporary, format=kind, metadata=metadata or None, **cut)
    return targets


#: Approximate width of a title's letter, in inches.
_LETTER = 0.068
#: Minimum margin beside a title, in inches.
_BESIDE = 0.7
#: Width in inches below which the legend is placed below the figure, not beside it.
_NARROW = 5.0


def _fit(figure: Figure, width: float) -> None:
    """Set a figure's width: wraps titles, and moves the legend of a narrow figure below it."""
    height = figure.get_figheight()
    if width < _NARROW:
        _take_out_legend(figure)
        for number, legend in enumerate(list(figure.legends)):
            names = [text.get_text() for text in legend.get_texts()]
            columns = max(1, int(width / (0.5 + 0.075 * max(map(len, names), default=1))))
            handles = [handle for handle in legend.legend_handles if handle is not None]
            heading = legend.get_title().get_text() or None
            figure.legend(handles, names, title=heading, ncols=columns,
                          loc="outside upper center" if number else "outside lower center")  # fmt: skip
            legend.remove()
            height += 0.2 * (-(-len(names) // columns) + 1)
        height += _stack(figure)
    letters = max(16, int((width - _BESIDE) / _LETTER))
    for ax in figure.axes:
        title = ax.get_title(loc="left")
        below = next((text.get_text() for text in ax.texts if text.get_gid() == _BELOW), "")
        lines, more = textwrap.wrap(title, letters), textwrap.wrap(below, int(1.15 * letters))
        if more or len(lines) > 1:
            headed(ax, "\n".join(lines), "\n".join(more))
            height += 0.14 * (len(lines) - 1 + max(0, len(more) - 1))
        for text in ax.texts:
            if text.get_gid() == _BELOW:
                # It is wrapped to the figure's width: a panel beside a colour bar must not shrink for it.
                text.set_in_layout(False)
    if above := figure.get_suptitle():
        lines = textwrap.wrap(above, int(width / _LETTER))
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=9, fontweight="bold")
        height += 0.14 * (len(lines) - above.count("\n") - 1)
    figure.set_size_inches(width, height)


def _take_out_legend(figure: Figure) -> None:
    """Make the only legend the figure's own: in a narrow panel it would lie over the curves."""
    inside = [legend for ax in figure.axes if (legend := ax.get_legend()) is not None]
    if len(inside) == 1 and not figure.legends:
        (legend,) = inside
        handles = [handle for handle in legend.legend_handles if handle is not None]
        figure.legend(handles, [text.get_text() for text in legend.get_texts()], loc="outside lower center")
        legend.remove()


def _turn_ticks(figure: Figure) -> None:
    """Slant names at ticks that overlap, and make the figure higher by what they take up."""
    named = [ax for ax in figure.axes if isinstance(ax.xaxis.get_major_locator(), FixedLocator)]
    if not named:
        return
    figure.draw_without_rendering()
    grows = 0.0
    for ax in named:
        boxes = sorted((text.get_window_extent() for text in _ticks(ax)), key=lambda box: box.x0)
        if all(one.x1 < other.x0 for one, other in pairwise(boxes)) or any(text.get_rotation() for text in _ticks(ax)):
            continue
        ax.tick_params("x", rotation=45)
        for text in _ticks(ax):
            text.set(ha="right", rotation_mode="anchor")
        grows = max(grows, 0.7 * max(box.width for box in boxes) / figure.dpi)
    figure.set_figheight(figure.get_figheight() + grows)


def _ticks(ax: Axes) -> list[Text]:
    return [text for text in ax.get_xticklabels() if text.get_visible() and text.get_text()]


def _wrap_labels(figure: Figure) -> None:
    """Wrap labels of axes that reach to the figure's edge."""
    figure.draw_without_rendering()
    whole = figure.bbox
    for ax in figure.axes:
        for label, first, last in ((ax.xaxis.label, "x0", "x1"), (ax.yaxis.label, "y0", "y1")):
            box = label.get_window_extent()
            low, high = getattr(box, first), getattr(box, last)
            middle = 0.5 * (low + high)
            # Text is a little wider at some resolutions.
            room = 1.9 * min(middle - getattr(whole, first), getattr(whole, last) - middle)
            if high - low > room > 0:
                label.set_text(
                    textwrap.fill(label.get_text(), max(8, int(len(label.get_text()) * room / (high - low))))
                )


#: What the names of panels begin with that a narrow figure stacks.
PANEL = "panel-"


def _stack(figure: Figure) -> float:
    """Put panels that stand side by side beneath one another; the inches that the figure grows by."""
    panels = [ax for ax in figure.axes if str(ax.get_gid()).startswith(PANEL)]
    if not panels:
        return 0.0
    spec = panels[0].get_subplotspec()
    rows = spec.get_gridspec().nrows if spec else len(panels)
    grid = figure.add_gridspec(len(panels), 1)
    for number, ax in enumerate(panels):
        ax.set_subplotspec(grid[number])
        ax.tick_params(labelleft=True, labelbottom=True)
    return (len(panels) / rows - 1) * figure.get_figheight()
