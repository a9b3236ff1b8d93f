"""Where a study keeps finished cells: one file each, written whole or not at all.

Keys are those of `tailback.store`. Its index is not used: that holds one row of plain numbers a run, for SQL, and a
cell's summary is nested (distributions, series, a block for each algorithm).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from tailback.checksums import digest
from tailback.files import whole_file
from tailback.store import run_key


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


class Store:
    """Summaries of finished cells by key: a digest of resolved scenario, engine and the extraction's revision."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.folder = folder
        self.revision = revision

    def key(self, scenario_json: str) -> str:
        """The key of a cell."""
        return run_key(scenario_json, self.revision)

    def path(self, key: str) -> Path:
        """Where a cell's summary lies."""
        return self.folder / f"{key}.json"

    def load(self, key: str) -> dict[str, Any] | None:
        """A finished cell's summary; `None` if there is none, or it is damaged and has to be made again."""
        try:
            text, _, checksum = self.path(key).read_bytes().rstrip(b"\n").rpartition(b"\n")
            if digest(text) != checksum.decode():
                return None
            return cast(dict[str, Any], json.loads(text))
        except (FileNotFoundError, ValueError):
            return None

    def save(self, key: str, summary: dict[str, Any]) -> None:
        """Keep a finished cell."""
        text = json.dumps(summary, separators=(",", ":"), allow_nan=True)
        write_text(self.path(key), f"{text}\n{digest(text.encode())}\n")
