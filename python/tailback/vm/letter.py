"""What a guest hands over: a page with its progress, and tables (`crates/tailback-live/src/guest/letter.rs`)."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["DONE", "RUNNING", "SIZE", "STARTED", "Progress", "contents", "prepare", "progress"]

#: How much a guest can hand over, in bytes. The file has holes: it takes what is written.
SIZE = 1 << 30
STARTED, RUNNING, DONE = 1, 2, 3
_CONTENTS = 4096
_ALIGNMENT = 8
_HEAD = struct.Struct("<QQQ")


@dataclass(frozen=True)
class Progress:
    """How far a guest is: its state, and the part of the run that is over."""

    state: int
    fraction: float


def prepare(path: Path) -> None:
    """Make the file that is the guest's memory."""
    with path.open("xb") as file:
        file.truncate(SIZE)


def progress(path: Path) -> Progress:
    """How far the guest is that writes to `path`."""
    with path.open("rb") as file:
        state, ppm, _ = _HEAD.unpack(file.read(_HEAD.size))
    return Progress(state, ppm / 1e6)


def contents(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, bytes]]:
    """What the guest left: its head, its tables by name and column, and the files that programs wrote.

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
