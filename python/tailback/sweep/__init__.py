"""Sweeps: many runs of one scenario, each once, on all cores or on a cluster. See `docs/sweeps.md`."""

from __future__ import annotations

from tailback.sweep.design import Design, Span, grid, latin_hypercube, single, sobol, zipped
from tailback.sweep.file import read_sweep
from tailback.sweep.measures import Measures
from tailback.sweep.runner import Sweep, SweepResult, Until, sweep

__all__ = [
    "Design",
    "Measures",
    "Span",
    "Sweep",
    "SweepResult",
    "Until",
    "grid",
    "latin_hypercube",
    "read_sweep",
    "single",
    "sobol",
    "sweep",
    "zipped",
]
