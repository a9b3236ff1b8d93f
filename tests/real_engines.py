"""For tests that run on real kernels: which of the engines this machine has."""

from __future__ import annotations

import shutil

import pytest

from tailback import live, vm
from tailback.vm import kernels, machine

FOUND = live.doctor(0.0)
needs_live = pytest.mark.skipif(not FOUND["can_run_live"], reason="no live runs here")
needs_guests = pytest.mark.skipif(
    not (shutil.which(machine.QEMU) and shutil.which("clang") and vm._GUEST.is_file() and kernels.fetched()),
    reason="no guests here: QEMU, clang, the guests' program or a kernel (tailback vm fetch debian-6.1)",
)
REAL = [pytest.param(live.run, marks=needs_live, id="live"), pytest.param(vm.run, marks=needs_guests, id="vm")]
engines = pytest.mark.parametrize("run", REAL)
