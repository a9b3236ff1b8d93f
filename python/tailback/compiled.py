"""What BPF sources and Rust crates have in common: a name, its text, and a library that is compiled from it."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback import _core
from tailback.errors import TailbackError
from tailback.views import view

__all__ = ["Declared", "MayBeQueue", "QueueAbout", "folder", "lock", "place"]

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
class QueueAbout:
    """What a queue of the user's own says of itself."""

    #: What it declares, by the names of the template's `About`.
    declares: dict[str, str]
    #: The parameters that it reads, with their defaults as text.
    parameters: dict[str, str]

    @property
    def limit(self) -> str:
        """What it takes as its limit: "packets", "bytes", or "" if none."""
        return next((counted for counted in ("packets", "bytes") if f"limit_{counted}" in self.parameters), "")


@dataclass(frozen=True)
class Declared:
    """What the engine's check takes for an algorithm. Nothing of it runs in this process."""

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


@dataclass(frozen=True)
class MayBeQueue(Declared):
    """What may be a queue too: where a link names it, the check calls `as_queue`."""

    def queue_library(self, params: Mapping[str, Any]) -> Path:
        """The compiled library that has its queue with these parameters."""
        raise NotImplementedError

    def has_queue(self) -> bool:
        """Is it a queue? It may be compiled for that; nothing of it runs but what compiling does."""
        raise NotImplementedError

    def as_queue(self, params: dict[str, Any], seed: int, rate_bps: int | None) -> Any:
        """What the engine's check takes for its queue: compiled, and one was made elsewhere with these parameters."""
        del seed
        return _InertQueue(self.about_queue(params, rate_bps))

    def about_queue(self, params: Mapping[str, Any], rate_bps: int | None) -> QueueAbout:
        """What its queue says of itself; `ValueError` says what is wrong."""
        if not hasattr(_core, "NativeAlgorithm"):
            raise ValueError("compiled queues need Linux")
        return _about(self.name, self.queue_library(params), json.dumps(dict(params), sort_keys=True), rate_bps)


@functools.lru_cache(maxsize=1024)
def _about(name: str, library: Path, params: str, rate_bps: int | None) -> QueueAbout:
    """What the library's queue says of itself, made with these parameters in another process."""
    try:
        said: str = view("library.about")(name, str(library), params, rate_bps)
    except TailbackError as error:
        raise ValueError(str(error)) from None
    except _core.AlgorithmError as error:
        raise ValueError(f"it failed as one was made: {error.args[3]}") from None
    rows = [line.partition("=") for line in said.split("\n")]
    found = {key: value for key, _, value in rows}
    kind = "parameter:"
    return QueueAbout(
        declares={key: value for key, value in found.items() if not key.startswith(kind)},
        parameters={key.removeprefix(kind): value for key, value in found.items() if key.startswith(kind)},
    )


class _InertQueue:
    """Stands where a queue would while a scenario is checked."""

    def __init__(self, about: QueueAbout) -> None:
        self.reorders, self.holds_back = (about.declares[name] == "true" for name in ("reorders", "holds_back"))

    def enqueue(self, packet: object, now: float) -> None:
        """Nothing ever comes."""

    def dequeue(self, now: float) -> None:
        """Nothing is held."""


class _Inert:
    """Stands where an algorithm would while a scenario is checked."""

    def on_ack(self, ack: object, control: object) -> None:
        """Nothing is ever sent."""

    on_congestion = on_ack
