"""Delta debugging over a tree of tables: what can be left out or made plainer while the fault stays."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

KeyPath = tuple[str | int, ...]


def kind(fault: str) -> str:
    """A fault without the numbers and names of its scenario."""
    return re.sub(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", "#", fault)


def shrink(
    tables: dict[str, Any], fault_of: Callable[[dict[str, Any]], str | None], tries: int = 2000
) -> dict[str, Any]:
    """The smallest scenario found that shows the same kind of fault; tries at most this many."""
    fault = fault_of(tables)
    assert fault is not None, "only what fails can be shrunk"
    best, wanted = tables, kind(fault)
    left = tries
    improved = True
    while improved and left > 0:
        improved = False
        for plainer in _plainer(best):
            left -= 1
            found = fault_of(plainer)
            if found is not None and kind(found) == wanted:
                best, improved = plainer, True
                break
            if left == 0:
                break
    return best


def _plainer(tables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    # Large parts first: whole tables, then what is in them.
    for place in sorted(_places(tables), key=len):
        without = copy.deepcopy(tables)
        above = _at(without, place[:-1])
        del above[place[-1]]
        yield without
        value = _at(tables, place)
        for other in _simpler(value):
            changed = copy.deepcopy(tables)
            _at(changed, place[:-1])[place[-1]] = other
            yield changed


def _simpler(value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and "name" in value and len(value) == 1:
        yield value["name"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    for plain in (0, 1, round(value)):
        if plain != value and abs(plain) < abs(value):
            yield plain


def _places(value: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in pairs:
        yield (*above, key)
        yield from _places(below, (*above, key))


def _at(value: Any, place: KeyPath) -> Any:
    for step in place:
        value = value[step]
    return value
