"""Common parts of BPF sources and Rust crates: a name, its text, and the compiled library."""

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

#: Held during compilation, so that no two threads compile the same source.
lock = threading.Lock()


def place(written: str, folder: Path | None = None) -> Path:
    """The path of a source: in the scenario's folder if it exists there, else relative to the working folder."""
    beside = Path(folder, written) if folder is not None else None
    return beside if beside is not None and beside.exists() else Path(written)


@functools.cache
def folder(prefix: str) -> Path:
    """A folder for compiled libraries, removed when this process ends."""
    made = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@dataclass(frozen=True)
class QueueAbout:
    """The properties that a user's queue declares."""

    #: Declared properties, by the names of the template's `About`.
    declares: dict[str, str]
    #: Its parameters, with their defaults as text.
    parameters: dict[str, str]

    @property
    def limit(self) -> str:
        """The unit of its limit parameter: "packets", "bytes", or "" if it has none."""
        return next((counted for counted in ("packets", "bytes") if f"limit_{counted}" in self.parameters), "")


@dataclass(frozen=True)
class Declared:
    """Stands for an algorithm in the engine's check. None of the algorithm's code runs in this process."""

    name: str
    text: str

    def __call__(self, params: dict[str, Any], seed: int) -> Any:
        """Compile it with these parameters; `ValueError` if that fails."""
        del seed
        self.library(params)
        return _Inert()

    def library(self, params: Mapping[str, Any]) -> Path:
        """The library, compiled for these parameters."""
        raise NotImplementedError


@dataclass(frozen=True)
class MayBeQueue(Declared):
    """A source that may be a queue: if a link names it, the check calls `as_queue`."""

    def queue_library(self, params: Mapping[str, Any]) -> Path:
        """The library with its queue, compiled for these parameters."""
        raise NotImplementedError

    def has_queue(self) -> bool:
        """Whether it is a queue. May compile it, but runs nothing else of it."""
        raise NotImplementedError

    def as_queue(self, params: dict[str, Any], seed: int, rate_bps: int | None) -> Any:
        """Stands for its queue in the engine's check: compiled, and constructed in another process."""
        del seed
        return _InertQueue(self.about_queue(params, rate_bps))

    def about_queue(self, params: Mapping[str, Any], rate_bps: int | None) -> QueueAbout:
        """The properties that its queue declares; `ValueError` if it has none or fails."""
        if not hasattr(_core, "NativeAlgorithm"):
            raise ValueError("compiled queues need Linux")
        return _about(self.name, self.queue_library(params), json.dumps(dict(params), sort_keys=True), rate_bps)


@functools.lru_cache(maxsize=1024)
def _about(name: str, library: Path, params: str, rate_bps: int | None) -> QueueAbout:
    """The properties of a library's queue, constructed with these parameters in another process."""
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
    """Stands for a queue while a scenario is checked."""

    def __init__(self, about: QueueAbout) -> None:
        self.reorders, self.holds_back = (about.declares[name] == "true" for name in ("reorders", "holds_back"))

    def enqueue(self, packet: object, now: float) -> None:
        """Never called with a packet."""

    def dequeue(self, now: float) -> None:
        """Returns no packet."""


class _Inert:
    """Stands for an algorithm while a scenario is checked."""

    def on_ack(self, ack: object, control: object) -> None:
        """Never called."""

    on_congestion = on_ack
