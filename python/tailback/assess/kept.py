"""What a store keeps of a dossier's run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailback.assess.books import book
from tailback.result import Result

__all__ = ["Kept"]


@dataclass(frozen=True)
class Kept:
    """What the store keeps of a run."""

    #: Pictures are drawn from the run of this seed.
    pictured: int = 1
    #: Name of the book whose numbers are kept.
    book: str = "congestion control"

    @property
    def digest(self) -> str:
        """Equal if the same is kept."""
        return f"{book(self.book).revision}/{self.pictured}"

    def names(self, resolved: Mapping[str, Any]) -> list[str]:
        """They depend on the cell."""
        return []

    def __call__(self, result: Result) -> dict[str, Any]:
        """The numbers, and of one seed the picture."""
        mine = book(self.book)
        out: dict[str, Any] = mine.measure(mine.cells[result.name], result)
        if result.seed == self.pictured:
            out["picture"] = json.dumps(mine.picture(result), separators=(",", ":"))
        return out
