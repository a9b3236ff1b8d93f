"""Plots: named recipes that take a result (or several by label) and return a matplotlib figure.

>>> from tailback import plots
>>> plots.get("delay-cdf").title
'Distribution of the delays of packets'
"""

from __future__ import annotations

from ..metrics import MissingRows
from . import recipes as recipes
from . import timeseries as timeseries
from . import together as together
from . import users as users
from .registry import Recipe, UnknownFigure, catalogue, drawable, get, labelled, names, only, titled
from .style import UnknownFormat, house_style, save

default = "overview"
"""The default figure."""

__all__ = [
    "MissingRows",
    "Recipe",
    "UnknownFigure",
    "UnknownFormat",
    "catalogue",
    "default",
    "drawable",
    "get",
    "house_style",
    "labelled",
    "names",
    "only",
    "save",
    "titled",
]
