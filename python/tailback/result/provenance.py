"""How a result came about, read from what its `meta.json` says: `Provenance`, so that no reader compares names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Provenance"]

_WAYS = {"live": "on a real kernel", "vm": "on a kernel in a virtual machine", "capture": "captured"}


@dataclass(frozen=True)
class Provenance:
    """What filled the rows of a result."""

    #: "sim", "live", "vm", "capture" or another tool's name; empty where a result does not say.
    engine: str
    version: str

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Provenance:
        """From a result's `meta`.

        >>> Provenance.of({"engine": "vm 0.2.0"})
        Provenance(engine='vm', version='0.2.0')
        """
        engine, _, version = str(meta.get("engine", "")).partition(" ")
        return cls(engine, version)

    @property
    def is_captured(self) -> bool:
        """Packets of a network that no scenario describes; nothing is known of its links and queues."""
        return self.engine == "capture"

    @property
    def way(self) -> str:
        """To stand behind a duration: "60 s simulated"."""
        return _WAYS.get(self.engine, "simulated")

    def __str__(self) -> str:
        return f"{self.engine} {self.version}".strip()
