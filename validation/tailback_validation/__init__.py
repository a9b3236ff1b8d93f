"""Compares the simulator with measurements: a real Linux kernel, and ns-2, on the same path.

>>> from tailback_validation import compare_kernel
>>> [case.algorithm for case in compare_kernel(["reno"], with_ensemble=False)]
['reno']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tailback_validation import live, ns2, page, truth
from tailback_validation.compare import TARGETS, Case, Judgement, compare_kernel, compare_ns2
from tailback_validation.measures import Measures, measure
from tailback_validation.path import kernel_path, ns2_path

__all__ = [
    "TARGETS",
    "Case",
    "Judgement",
    "Measures",
    "compare_kernel",
    "compare_ns2",
    "kernel_path",
    "measure",
    "ns2_path",
    "validate",
]


def validate(out: Path, *, with_ns2: bool = False, with_live: Sequence[str] = ()) -> dict[str, Any]:
    """Run all comparisons and write the page; returns the findings as JSON-compatible data.

    `with_ns2` runs the ns-2 binary again, `with_live` runs these algorithms on this machine's kernel (three minutes
    each). Both store their measures in the folder `truth`.
    """
    for algorithm in with_live:
        live.keep([live.measure(algorithm)])
    if with_ns2:
        folder = truth.FOLDER / "truth"
        ns2.write_csv(ns2.run_all(), folder / "ns2-2.35-ours.csv")
    kernel, simulator = compare_kernel(), compare_ns2()
    written = page.write(kernel, simulator, out)
    return {
        "targets": dict(TARGETS.of),
        "linux": [case.to_json() for case in kernel],
        "ns2": [case.to_json() for case in simulator],
        "live": [asdict(row) | {"misses": row.misses()} for row in live.known()],
        "page": written[0],
        "figures": written[1:],
    }
