"""The origin of a result, read from its `meta.json`, so that no reader compares engine names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Provenance"]

_WAYS = {"live": "on a real kernel", "vm": "on a kernel in a virtual machine", "capture": "captured"}


@dataclass(frozen=True)
class Provenance:
    """The program that produced the rows of a result."""

    #: "sim", "live", "vm", "capture" or another tool's name; empty if the result does not state it.
    engine: str
    version: str
    #: Release of a guest's kernel, such as "6.1.0-56-cloud-amd64"; else empty.
    release: str = ""

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Provenance:
        """From a result's `meta`.

        >>> Provenance.of({"engine": "vm 0.2.0", "kernel": {"release": "7.3.4"}}).way
        'on Linux 7.3.4 in a virtual machine'
        """
        engine, _, version = str(meta.get("engine", "")).partition(" ")
        kernel = meta.get("kernel") if engine == "vm" else None
        return cls(engine, version, str(kernel.get("release", "")) if isinstance(kernel, Mapping) else "")

    @property
    def is_captured(self) -> bool:
        """Whether the packets were captured on a network without a scenario, whose links and queues are unknown."""
        return self.engine == "capture"

    @property
    def way(self) -> str:
        """Words for use after a duration: "60 s simulated"."""
        if self.release:
            return f"on Linux {self.release} in a virtual machine"
        return _WAYS.get(self.engine, "simulated")

    def __str__(self) -> str:
        return f"{self.engine} {self.version}".strip()
