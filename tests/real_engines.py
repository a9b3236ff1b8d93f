"""For tests that run on real kernels: which of the engines this machine has."""

from __future__ import annotations

import shutil

import pytest

from tailback import live, vm
from tailback.vm import kernels, machine

FOUND = live.doctor(0.0)
"""What this machine has for live runs: asked once, for it takes a quarter of a second."""
WHY = "; ".join(row["found"] for row in FOUND["checks"] if not row["ok"] and row["needed_for"] != "punctual runs")
needs_live = pytest.mark.skipif(not FOUND["can_run_live"], reason=f"no live runs here: {WHY}")
needs_guests = pytest.mark.skipif(
    not (shutil.which(machine.QEMU) and shutil.which("clang") and vm._GUEST.is_file() and kernels.fetched()),
    reason="no guests here: QEMU, clang, the guests' program or a kernel (tailback vm fetch debian-6.1)",
)
#: Of what both do, every change is tried on this machine's kernel, and at night in guests.
REAL = [
    pytest.param(live.run, marks=needs_live, id="live"),
    pytest.param(vm.run, marks=[needs_guests, pytest.mark.long], id="vm"),
]
engines = pytest.mark.parametrize("run", REAL)
