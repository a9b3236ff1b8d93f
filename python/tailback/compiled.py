"""What BPF sources and Rust crates have in common: a name, its text, and a library that is compiled from it."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Declared", "folder", "lock", "place"]

#: Held while something is compiled, so that no two threads compile the same source.
lock = threading.Lock()


def place(written: str, folder: Path | None = None) -> Path:
    """Where it lies: beside the scenario if it is there, else from here."""
    beside = Path(folder, written) if folder is not None else None
    return beside if beside is not None and beside.exists() else Path(written)


@functools.cache
def folder(prefix: str) -> Path:
    """Where libraries are kept as long as this process lives."""
    made = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@dataclass(frozen=True)
class Declared:
    """What the engine's check takes for an algorithm. Nothing of it runs in this process.

    One that may be a queue has a method `as_queue(params, seed, rate_bps)` beside.
    """

    name: str
    text: str

    def __call__(self, params: dict[str, Any], seed: int) -> Any:
        """Compile it with these parameters; `ValueError` says what is wrong."""
        del seed
        self.library(params)
        return _Inert()

    def library(self, params: Mapping[str, Any]) -> Path:
        """The compiled library, which takes these parameters."""
        raise NotImplementedError


class _Inert:
    """Stands where an algorithm would while a scenario is checked."""

    def on_ack(self, ack: object, control: object) -> None:
        """Nothing is ever sent."""

    on_congestion = on_ack
