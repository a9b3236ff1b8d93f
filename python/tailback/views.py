"""Views: functions of a higher layer on an object of a lower one, such as the figure or report of a result.

`Result.plot` needs the plots, and the plots need results, so direct imports would be circular. The lower layer requests
a view by name, and the package, above all layers, registers where it is implemented.

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
    """Register views: "module:function" by name. A module is imported when its view is first used."""
    _places.update(places)


def view(name: str) -> Callable[..., Any]:
    """The function that implements a view."""
    module, _, function = _places[name].partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return made
