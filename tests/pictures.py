"""Pictures for tests that are not about pictures: drawing them would take longer than all the rest."""

from __future__ import annotations

import os
from typing import IO, Any

import pytest
from matplotlib.figure import Figure
from PIL import Image


def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each figure written as a single pixel, as PNG or PDF."""

    def write(self: Figure, place: str | os.PathLike[str] | IO[bytes], *, format: str, **options: Any) -> None:
        Image.new("RGB", (1, 1)).save(place, format=format)

    monkeypatch.setattr(Figure, "savefig", write)
