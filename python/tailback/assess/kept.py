"""What the store keeps from a dossier's run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailback.assess.procedures import procedure
from tailback.result import Result

__all__ = ["Kept"]


@dataclass(frozen=True)
class Kept:
    """Selects what the store keeps from a run."""

    #: Seed of the run that the pictures show.
    pictured: int = 1
    #: Name of the procedure whose numbers are kept.
    procedure: str = "congestion control"

    @property
    def digest(self) -> str:
        """Identifies what is kept: equal digests keep the same numbers."""
        return f"{procedure(self.procedure).revision}/{self.pictured}"

    def names(self, resolved: Mapping[str, Any]) -> list[str]:
        """No fixed names: the numbers depend on the cell."""
        return []

    def __call__(self, result: Result) -> dict[str, Any]:
        """The run's numbers, and the picture's series for the pictured seed."""
        mine = procedure(self.procedure)
        out: dict[str, Any] = mine.measure(mine.cells[result.name], result)
        if result.seed == self.pictured:
            out["picture"] = json.dumps(mine.picture(result), separators=(",", ":"))
        return out
