"""Memory shared with a guest: its progress and its result tables (`crates/tailback-live/src/guest/letter.rs`)."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["DONE", "LOADING", "RUNNING", "SIZE", "STARTED", "Progress", "contents", "prepare", "progress"]

#: Size of the shared memory in bytes. The file is sparse: only written pages take space.
SIZE = 1 << 30
STARTED, RUNNING, DONE, LOADING = 1, 2, 3, 4
_CONTENTS = 4096
_ALIGNMENT = 8
_HEAD = struct.Struct("<QQQ")


@dataclass(frozen=True)
class Progress:
    """Progress of a guest: its state, and the completed fraction of the run."""

    state: int
    fraction: float
    #: Number of the user's module that the guest is loading.
    module: int | None = None


def prepare(path: Path) -> None:
    """Create the sparse file that is shared with the guest."""
    with path.open("xb") as file:
        file.truncate(SIZE)


def progress(path: Path) -> Progress:
    """Progress of the guest that writes to `path`."""
    with path.open("rb") as file:
        state, number, _ = _HEAD.unpack(file.read(_HEAD.size))
    return Progress(state, 0.0, number) if state == LOADING else Progress(state, number / 1e6)


def contents(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, bytes]]:
    """The guest's results: its head, its tables by name and column, and the files that programs wrote.

    The head of a run that failed has "refused" (field, value, problem, fix) or "failed" (why), and there are no tables.
    """
    with path.open("rb") as file:
        _, _, length = _HEAD.unpack(file.read(_HEAD.size))
        file.seek(_CONTENTS)
        head: dict[str, Any] = json.loads(file.read(length))
        tables: dict[str, dict[str, Any]] = {}
        file.seek(_CONTENTS + _aligned(length))
        for name, columns in head.get("tables", []):
            tables[name] = {}
            for column, kind, rows in columns:
                size = np.dtype(kind).itemsize * rows
                tables[name][column] = np.frombuffer(file.read(_aligned(size))[:size], dtype=kind)
        files = {name: file.read(_aligned(size))[:size] for name, size in head.get("files", [])}
    return head, tables, files


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
