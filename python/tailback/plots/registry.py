"""Named recipes: each takes a result, or several by label, and returns a figure."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.figure import Figure

from tailback.errors import TailbackError

from ..metrics import Rows
from .style import headed, house_style

Draw = Callable[..., Figure]
Applies = Callable[[Rows], bool]


class UnknownFigure(TailbackError, ValueError):
    """An unknown name of a figure."""


@dataclass(frozen=True)
class Recipe:
    """A figure by name."""

    name: str
    title: str
    draw: Draw
    applies: Applies
    """Whether a result has what the figure shows, decided by scenario and row counts alone."""

    @property
    def doc(self) -> str:
        """The function's docstring, which describes the figure."""
        return inspect.cleandoc(self.draw.__doc__ or "")

    @property
    def caption(self) -> str:
        """The first paragraph of its description, on one line."""
        return " ".join(self.doc.split("\n\n")[0].split())

    @property
    def takes_window(self) -> bool:
        """Whether it can be drawn for a part of the run (`start`, `end` in seconds)."""
        return {"start", "end"} <= set(inspect.signature(self.draw).parameters)

    def __call__(self, results: Any, **options: Any) -> Figure:
        """Draw it from one result or from several by label."""
        with house_style():
            return self.draw(labelled(results), **options)


_RECIPES: dict[str, Recipe] = {}


def recipe(name: str, title: str, *, applies: Applies) -> Callable[[Draw], Draw]:
    """Decorator: registers a function that draws from `dict[label, Rows]`; `applies` selects the results."""

    def register(draw: Draw) -> Draw:
        if name in _RECIPES:
            raise ValueError(f"two figures are called {name}")
        _RECIPES[name] = Recipe(name, title, draw, applies)
        return draw

    return register


def labelled(results: Any) -> dict[str, Rows]:
    """Views by label; a single result is labelled with its scenario's name."""
    if isinstance(results, Rows):
        return {results.name or "run": results}
    if isinstance(results, Mapping) and not ({"tables", "scenario"} <= set(results)):
        return {str(label): Rows.of(result) for label, result in results.items()}
    rows = Rows.of(results)
    return {rows.name or "run": rows}


def only(results: Any, *flows: str) -> dict[str, Rows]:
    """The results restricted to these flows; a flow that a result lacks is skipped there.

    Raises `UnknownName`, with the nearest name, for a flow that no result has.
    """
    views = labelled(results)
    for flow in flows:
        if not any(flow in rows.flow_names for rows in views.values()):
            next(iter(views.values())).flow(flow)
    return {
        label: replace(rows, chosen=frozenset(rows.flow(flow) for flow in flows if flow in rows.flow_names))
        for label, rows in views.items()
    }


def titled(figure: Figure, title: str) -> Figure:
    """The figure with another title."""
    with house_style():
        first = figure.axes[0]
        if first.get_title(loc="left"):
            headed(first, title)
        else:
            figure.suptitle(title, x=0.01, ha="left", fontsize=9, fontweight="bold")
    return figure


def names() -> list[str]:
    """The recipes' names, in alphabetical order."""
    return sorted(_RECIPES)


def get(name: str) -> Recipe:
    """The recipe of that name."""
    try:
        return _RECIPES[name]
    except KeyError:
        near = difflib.get_close_matches(name, _RECIPES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}"
        raise UnknownFigure(f"no figure is called {name!r}; {hint}") from None


def catalogue() -> list[Recipe]:
    """Every recipe, in alphabetical order."""
    return [_RECIPES[name] for name in names()]


def drawable(results: Any) -> list[Recipe]:
    """The recipes that apply to all of these results, in alphabetical order. Reads no table."""
    views = labelled(results).values()
    return [recipe for recipe in catalogue() if all(recipe.applies(rows) for rows in views)]
