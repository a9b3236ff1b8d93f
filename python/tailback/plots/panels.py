"""The common parts of studies' figures, so that a study contains only the drawing code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..experiment.claims import median
from ..experiment.study import Data, Plot
from .style import FULL_WIDTH, house_style, new_figure

if TYPE_CHECKING:
    from ..metrics.rows import Floats

Draw = Callable[[Data, Figure, list[list[Axes]]], object]


def plot(
    name: str,
    title: str,
    caption: str,
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = 1.0,
    interactive: Callable[[Data], dict[str, Any] | None] | None = None,
    **options: Any,
) -> Callable[[Draw], Plot]:
    """Wrap a function that draws into panels as a study's figure; `width` is a share of the page's width."""

    def made(draw: Draw) -> Plot:
        def drawn(data: Data) -> Figure:
            with house_style():
                figure, panels = new_figure(rows, columns, width=width * FULL_WIDTH, **options)
                draw(data, figure, panels)
            return figure

        return Plot(name, title, caption, drawn, interactive)

    return made


def legend_below(figure: Figure, columns: int | None = None) -> None:
    """One legend below all panels, with the entries of the first panel."""
    lines, names = figure.axes[0].get_legend_handles_labels()
    if lines:
        figure.legend(lines, names, loc="outside lower center", ncols=columns or len(names))


def middle(each: Floats) -> Floats:
    """Median of the finite values over seeds (the first axis)."""
    found: Floats = np.apply_along_axis(median, 0, each)
    return found


def band(axes: Axes, x: Sequence[float], each: Floats, style: str = "-", *, colour: str, **options: Any) -> None:
    """Median over seeds (the first axis) as a line, with a band from smallest to largest value.

    Points without a value in any seed are not drawn.
    """
    there = ~np.isnan(each).all(axis=0)
    if not there.any():
        return
    at, found = np.asarray(x)[there], each[:, there]
    axes.fill_between(at, np.nanmin(found, axis=0), np.nanmax(found, axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.plot(at, middle(found), style, color=colour, **options)


def steps_of(axes: Axes, values: Sequence[float], label: str) -> None:
    """A logarithmic x axis with exactly these values."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)


def listed(axes: Axes, names: Sequence[str], label: str, **options: Any) -> None:
    """Names down the y axis, the first at the top."""
    axes.set_yticks(range(len(names)), names, **options)
    axes.invert_yaxis()
    axes.set_xlabel(label)
