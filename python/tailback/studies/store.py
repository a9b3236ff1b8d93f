"""Where a study keeps finished cells: one file each, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, cast

from tailback.plots.files import whole_file


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@cache
def engine_fingerprint() -> str:
    """The engine's version and the digest of its binary, so that a rebuilt engine never meets old cells."""
    from tailback import _core

    binary = Path(str(_core.__file__)).read_bytes()
    return f"{_core.version()}+{hashlib.sha256(binary).hexdigest()[:12]}"


class Store:
    """Summaries of finished cells by key: a digest of resolved scenario, engine and the extraction's revision."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.folder = folder
        self.revision = revision

    def key(self, scenario_json: str) -> str:
        """The key of a cell."""
        text = "\n".join((engine_fingerprint(), self.revision, scenario_json))
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def path(self, key: str) -> Path:
        """Where a cell's summary lies."""
        return self.folder / f"{key}.json"

    def load(self, key: str) -> dict[str, Any] | None:
        """A finished cell's summary; `None` if there is none or it cannot be read."""
        try:
            return cast(dict[str, Any], json.loads(self.path(key).read_text(encoding="utf-8")))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def save(self, key: str, summary: dict[str, Any]) -> None:
        """Keep a finished cell."""
        write_text(self.path(key), json.dumps(summary, separators=(",", ":"), allow_nan=True))
