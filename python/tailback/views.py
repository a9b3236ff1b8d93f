"""Views: what a higher layer makes of an object of a lower one, such as the figure or the report of a result.

A result has the method `plot`, and figures are drawn from results: imported, each would need the other. So the lower
layer asks for a view by its name, and the package, which stands above all layers, says where it is made.

>>> import tailback
>>> view("result.report").__name__
'write'
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["offer", "view"]

_places: dict[str, str] = {}


def offer(places: Mapping[str, str]) -> None:
    """Say where views are made: "module:function" by name. A module is imported when its view is first asked for."""
    _places.update(places)


def view(name: str) -> Callable[..., Any]:
    """The function that makes a view."""
    module, _, function = _places[name].partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return made
