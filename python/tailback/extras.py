"""Large optional packages, which an extra of the distribution installs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tailback.errors import TailbackError

__all__ = ["MissingExtra", "load"]

#: Extras of pyproject.toml, by the package that they bring.
EXTRAS = {"scipy": "analysis"}


class MissingExtra(TailbackError, ImportError):
    """An optional package is needed and not installed."""


def load(module: str, purpose: str) -> Any:
    """Import a module of an optional package; `purpose` states in the error what needs it.

    >>> load("scipy.stats", "an interval").__name__
    'scipy.stats'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(
            f"{package} is not installed, and {purpose} needs it. Install it: pip install "
            f"'tailback-lab[{EXTRAS[package]}]'",
            name=package,
        ) from None
