"""Imports delayed until the first use of a name: start-up takes most of a short run.

>>> with lazy():
...     from fractions import Fraction
>>> Fraction
<Fraction of fractions, imported when it is used>
>>> str(Fraction(6, 4))
'3/2'

Type checkers, editors and the test of the layers see ordinary imports. A lazily imported name can be called, and its
attributes read. A class in an `except` clause must be read from its module: `except store.QueryError`.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["lazy"]


class _Later:
    """A module, or a name in one, that is imported on first use."""

    def __init__(self, module: str, name: str | None = None) -> None:
        self._module, self._name = module, name

    def _found(self) -> Any:
        module = importlib.import_module(self._module)
        if self._name is None:
            return module
        try:
            return getattr(module, self._name)
        except AttributeError:
            return importlib.import_module(f"{self._module}.{self._name}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._found()(*args, **kwargs)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._found())

    def __repr__(self) -> str:
        of = f"{self._name} of {self._module}" if self._name else self._module
        return f"<{of}, imported when it is used>"


class _Names:
    """The module object from which a `from` import takes lazy names."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> _Later:
        return _Later(self._module, name)


@contextmanager
def lazy() -> Iterator[None]:
    """Delay the imports of the module that contains the block until they are used."""
    here, plain = sys._getframe(2).f_globals, builtins.__import__

    def wait(
        name: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (), level: int = 0,
    ) -> Any:  # fmt: skip
        if globals is not here or level or ("." in name and not fromlist):
            return plain(name, globals, locals, fromlist or (), level)
        return _Names(name) if fromlist else _Later(name)

    builtins.__import__ = wait
    try:
        yield
    finally:
        builtins.__import__ = plain
