"""CAKE's model against the kernel's `sch_cake`: the same path, and only the queue another.

Cells and bounds were written down before the first run. A cell is run in the simulator with the model and in a guest
with `kernel:cake`; `python -m tailback_validation.cake KERNEL FOLDER SECONDS` runs what is not in the folder yet, and
prints each cell with its errors.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tailback as tb
from tailback.files import write_text
from tailback_validation.queues import measure

__all__ = ["BOUNDS", "CakeCell", "cells"]

BOUNDS = {"goodput": 0.02, "delay": 0.10}
"""Largest relative error of all transfers' goodput and of the first transfer's median queueing delay."""
FLOOR_S = 0.001
"""A delay's error is relative to the kernel's, or to this if that is smaller."""
DURATION_S = 10.0


@dataclass(frozen=True)
class CakeCell:
    """A path with CUBIC transfers and a call."""

    rate_mbps: int
    rtt_ms: int
    transfers: int
    ecn: bool
    tins: str
    is_shaped: bool = False

    @property
    def name(self) -> str:
        """For files."""
        words = [f"{self.rate_mbps}mbit", f"{self.rtt_ms}ms", f"{self.transfers}x", "ecn" if self.ecn else "drop"]
        return "-".join([*words, self.tins, *(["shaped"] if self.is_shaped else [])])

    def scenario(self, is_kernels: bool) -> tb.Scenario:
        """The path with the kernel's queue or the model."""
        # The shaper stays below the link's rate, so that it is what limits.
        shaper = {"rate": f"{0.9 * self.rate_mbps:g}mbit"} if self.is_shaped else {}
        stack = {"name": "linux", "ecn": self.ecn}
        return tb.dumbbell(
            name=self.name,
            rate=f"{self.rate_mbps}mbit",
            rtt=f"{self.rtt_ms}ms",
            queue={"discipline": "kernel:cake" if is_kernels else "cake", "tins": self.tins, **shaper},
            # `measure` looks at the first two.
            flows=[
                tb.bulk("cubic", name="transfer", stack=stack),
                tb.voip(name="call"),
                *(tb.bulk("cubic", name=f"other-{number}", stack=stack) for number in range(1, self.transfers)),
            ],
            duration=f"{DURATION_S:g}s",
            seed=20,
            instruments=tb.Instruments(packets=["transfer", "call"]),
        )


def cells() -> list[CakeCell]:
    """Forty of them, in an order that shows each kind early."""
    plain = [
        CakeCell(rate, rtt, transfers, ecn, tins)
        for tins in ("besteffort", "diffserv3")
        for ecn in (False, True)
        for transfers in (1, 4)
        for rtt in (20, 80)
        for rate in (4, 12)
    ]
    shaped = [CakeCell(12, rtt, n, ecn, "diffserv3", True) for rtt in (20, 80) for n in (1, 4) for ecn in (False, True)]
    # By turns: one in five is shaped.
    return [cell for at in range(8) for cell in (*plain[at::8], shaped[at])]


def _errors(sim: dict[str, float], kernel: dict[str, float]) -> dict[str, float]:
    delay = (sim["transfer_p50"] - kernel["transfer_p50"]) / max(kernel["transfer_p50"], FLOOR_S)
    return {"goodput": sim["goodput"] / kernel["goodput"] - 1.0, "delay": delay}


def _measured(result: tb.Result, cell: CakeCell) -> dict[str, float]:
    received = result.column("flows", "bytes_received")
    transfers = float(received.sum() - received[1])
    return measure(result, cell.rtt_ms) | {"goodput": transfers * 8e-6 / result.duration_s}


def main(kernel: str, folder: Path, seconds: float) -> None:
    """Run what is missing until `seconds` have passed, and print every cell that is there."""
    from tailback import vm

    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells():
        file = folder / f"{cell.name}.json"
        if not file.is_file():
            if time.monotonic() - began > seconds:
                return
            sim = _measured(tb.run(cell.scenario(False)), cell)
            real = _measured(vm.run(cell.scenario(True), kernel=kernel), cell)
            write_text(file, json.dumps({"sim": sim, "kernel": real}, indent=1) + "\n")
        found = json.loads(file.read_text())
        errors = _errors(found["sim"], found["kernel"])
        inside = all(abs(errors[name]) <= bound for name, bound in BOUNDS.items())
        print(cell.name, {name: f"{100 * error:+.1f} %" for name, error in errors.items()}, "ok" if inside else "out")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
