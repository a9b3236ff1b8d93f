"""Congestion controls of your own, in Python: a class with `on_ack` and `on_congestion`; see docs/own-algorithm.md.

A scenario names one by what it was registered as, or as "python:module:Class", which is imported only where the caller
allows code (`tailback.consent`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar, overload

from tailback import registry
from tailback._core import Ack, Congestion, Control
from tailback.errors import TailbackError

__all__ = ["Ack", "Algorithm", "Congestion", "Control", "Factory", "algorithm", "factories", "load", "registered"]

#: What the engine calls for each connection: `factory(params, seed)` returns an instance.
Factory = Callable[[dict[str, Any], int], Any]
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_PREFIX = "python:"


class Algorithm(Protocol):
    """What a congestion control has. One instance is made for each connection.

    Optional hooks: `on_established(now_s, srtt_s, control)`, `on_phase(change, control)`, `on_undo(now_s, control)`,
    `on_resume(now_s, idle_s, app_limited, control)`, `on_idle_restart(now_s, idle_s, control)`,
    `internals() -> dict[str, float]` for the instrument of that name, and an attribute `owns_window = True` if the
    stack must never reduce `cwnd` itself.
    """

    def on_ack(self, ack: Ack, control: Control) -> object:
        """An ACK arrived. Grow `control.cwnd` only if `ack.may_grow`."""

    def on_congestion(self, congestion: Congestion, control: Control) -> object:
        """A congestion episode begins: set `control.ssthresh`; the stack brings `cwnd` there."""


_Class = TypeVar("_Class", bound=Callable[..., Algorithm])
_registered: dict[str, Callable[..., Algorithm]] = {}


@overload
def algorithm(name: str) -> Callable[[_Class], _Class]: ...
@overload
def algorithm(name: str, made_by: _Class) -> _Class: ...
def algorithm(name: str, made_by: _Class | None = None) -> _Class | Callable[[_Class], _Class]:
    """Register a class under the name that scenarios use for it; as a decorator or with the class given.

    The same name again replaces the class, as when a notebook's cell is run again.

    >>> import tailback as tb
    >>> @tb.algorithm("still")
    ... class Still:
    ...     def on_ack(self, ack, control): ...
    ...     def on_congestion(self, congestion, control):
    ...         control.ssthresh = control.cwnd
    >>> path = dict(rate="10mbit", rtt="80ms", duration="5s")
    >>> result = tb.run(tb.dumbbell(flows=[tb.bulk("still"), tb.bulk("cubic")], **path))
    >>> float(result.column("flows", "bytes_acked")[0]) > 0
    True
    """

    def enter(made_by: _Class) -> _Class:
        _registered[_checked_name(name)] = _callable(name, made_by)
        return made_by

    return enter if made_by is None else enter(made_by)


def registered() -> dict[str, Callable[..., Algorithm]]:
    """What `algorithm` has registered, by name."""
    return dict(_registered)


def load(reference: str) -> Callable[..., Algorithm]:
    """The class at "module:Class" or "path/to/file.py:Class".

    Importing runs the module's code, as `import` does. Raises `TailbackError`, with what the import raised as cause,
    or if what is found is no class with the hooks of an algorithm.
    """
    place, colon, attribute = reference.rpartition(":")
    if not colon or not place or not attribute:
        raise TailbackError(f'"{reference}" names no class. Write "package.module:Class" or "path/to/file.py:Class".')
    try:
        module = _module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:
        raise TailbackError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = getattr(module, attribute, None)
    if found is None:
        raise TailbackError(f"{place} has no {attribute}.")
    if not isinstance(found, type):
        # A function would be called with the file's parameters, whatever it does.
        raise TailbackError(f"{place}:{attribute} is no class. Name a class with on_ack and on_congestion.")
    return _callable(reference, found)


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError("Python cannot tell how to load it")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by name; a module of that name is not replaced.
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def factories(given: Mapping[str, Callable[..., Algorithm]] | None = None) -> dict[str, Factory]:
    """What the engine is handed: those registered, and those `given`, which come first."""
    named = _registered | {_checked_name(name): _callable(name, made_by) for name, made_by in (given or {}).items()}
    return {name: _factory(made_by) for name, made_by in named.items()}


def is_reference(name: str) -> bool:
    """Is this "python:module:Class"?"""
    return name.startswith(_PREFIX)


def referenced(name: str) -> Factory:
    """The factory of "python:module:Class"."""
    return _factory(load(name.removeprefix(_PREFIX)))


def _factory(made_by: Callable[..., Algorithm]) -> Factory:
    try:
        takes_seed = "seed" in inspect.signature(made_by).parameters
    except (TypeError, ValueError):
        takes_seed = False

    def make(params: dict[str, Any], seed: int) -> Algorithm:
        # A seed in the scenario is the user's own.
        return made_by(**({"seed": seed} | params if takes_seed else params))

    return make


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TailbackError(f'{name!r} is no name for an algorithm. Use letters, digits and any of "_.+-".')
    if name in registry.names("algorithms"):
        raise TailbackError(f'"{name}" is a built-in algorithm. Give yours a name of its own, such as "my-{name}".')
    return name


def _callable(name: str, made_by: _Class) -> _Class:
    if not callable(made_by):
        raise TailbackError(f'algorithm "{name}": give the class, not {made_by!r}.')
    # A class tells what is missing before anything is made from it; any other callable does when it is called.
    for hook in ("on_ack", "on_congestion"):
        if isinstance(made_by, type) and not callable(getattr(made_by, hook, None)):
            raise TailbackError(f'algorithm "{name}": {made_by.__name__} has no {hook}(self, …, control).')
    return made_by
