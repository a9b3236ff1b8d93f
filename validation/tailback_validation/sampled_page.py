"""The page of the sampled comparison: how errors are distributed, the worst cells, and one kernel against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailback.experiment.statistics import interval
from tailback.files import whole_file
from tailback_validation.sampled import BOUNDS, CELLS, DURATION_S, FLOOR_S, Cell, Error, errors

__all__ = ["compared", "write"]

_WORST = 20
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def compared(folder: Path, against: str, of: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """What the cells that both engines have run say of `of` against `against`, fit for JSON."""
    found, refused = errors(folder, against, of, cells)
    out: dict[str, Any] = {"against": against, "of": of, "cells": len(found), "refused": refused, "metrics": {}}
    for metric, bound in BOUNDS.items():
        values = np.array([getattr(error, metric) for error in found])
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        mean = interval(values, "mean")
        out["metrics"][metric] = {
            "within": float(np.mean(np.abs(values) <= bound)),
            "bound": bound,
            "quantiles": [float(np.quantile(values, share)) for share in _QUANTILES],
            "absolute_p95": float(np.quantile(np.abs(values), 0.95)),
            "mean": mean.estimate,
            "mean_low": mean.low,
            "mean_high": mean.high,
            "same": float(np.mean(values == 0.0)),
        }
    out["within_both"] = float(np.mean([error.is_within for error in found])) if found else math.nan
    out["worst"] = [_row(error) for error in sorted(found, key=lambda error: -error.worst)[:_WORST]]
    return out


def _row(error: Error) -> dict[str, Any]:
    cell = error.cell
    path = f"{cell.rate_mbps:g} Mbit/s, {cell.rtt_ms:g} ms, {cell.queue} of {cell.queue_bdp:g} BDP"
    harm = [f"loss {100 * cell.loss:g} %"] if cell.loss else []
    harm += ["reordering"] if cell.reorder else []
    return {
        "cell": cell.number,
        "algorithm": cell.algorithm,
        "path": ", ".join([path, *harm]),
        "traffic": cell.traffic,
        "goodput": error.goodput,
        "delay": error.delay,
        "goodputs_mbps": [row["goodput"] for row in error.measures],
        "delays_ms": [1e3 * row["delay"] for row in error.measures],
    }


def write(pairs: Sequence[dict[str, Any]], kernels: Sequence[str], out: Path) -> None:
    """Write the page of these comparisons."""
    parts = [_HEAD.format(cells=CELLS, duration=f"{DURATION_S:g}", floor=f"{1e3 * FLOOR_S:g}")]
    parts += ["Kernels: " + ", ".join(f"`{kernel}`" for kernel in kernels) + "."]
    parts += [_section(pair) for pair in pairs if pair["cells"]]
    with whole_file(out) as partial:
        partial.write_text("\n\n".join(parts) + "\n")


_HEAD = """# The simulator against a real kernel, on paths nobody chose

`tailback validate --engine vm` writes this page. Cells are the points of a Sobol sequence, {cells} of them: fourteen
algorithms, 1 to 100 Mbit/s, 10 to 200 ms, queues of 0.1 to 4 BDP (FIFO, CoDel, FQ-CoDel, PIE, with and without ECN),
loss of 0, 0.1 and 1 %, reordering, one transfer, two, or short ones. Each lasts {duration} s in the simulator and on
the kernel ([vm](vm.md)). Whatever number of cells was run, they are the first of the sequence.

The rule, written before the first cell was run: in 95 % of the cells goodput differs by 5 % at most, and the median
delay in the bottleneck's queue by 10 % at most, or by 10 % of {floor} ms where the kernel's is smaller than that."""


def _section(pair: dict[str, Any]) -> str:
    shares = " | ".join(f"{100 * share:g} %" for share in _QUANTILES)
    lines = [
        f"## {pair['of']} against {pair['against']}",
        "",
        f"{pair['cells']} cells; {100 * pair['within_both']:.1f} % within both bounds.",
        "",
        f"| | within its bound | {shares} | 95 % of sizes below | mean (95 % interval) |",
        "| --- | ---: |" + " ---: |" * (len(_QUANTILES) + 2),
    ]
    for metric, row in pair["metrics"].items():
        quantiles = " | ".join(_percent(value) for value in row["quantiles"])
        mean = f"{_percent(row['mean'])} ({_percent(row['mean_low'])} to {_percent(row['mean_high'])})"
        lines.append(
            f"| {metric} | {100 * row['within']:.1f} % (bound {100 * row['bound']:g} %) | {quantiles} "
            f"| {100 * row['absolute_p95']:.1f} % | {mean} |"
        )
    lines += ["", f"The worst {len(pair['worst'])}:", ""]
    lines += [
        "| cell | algorithm | path | traffic | goodput (Mbit/s) | delay (ms) |",
        "| ---: | --- | --- | --- | --- | --- |",
    ]
    for row in pair["worst"]:
        goodput = " → ".join(f"{value:.3g}" for value in row["goodputs_mbps"])
        delay = " → ".join(f"{value:.3g}" for value in row["delays_ms"])
        lines.append(
            f"| {row['cell']} | {row['algorithm']} | {row['path']} | {row['traffic']} "
            f"| {goodput} ({_percent(row['goodput'])}) | {delay} ({_percent(row['delay'])}) |"
        )
    if pair["refused"]:
        lines += ["", "Not carried by a guest:", "", *(f"- {reason}" for reason in pair["refused"])]
    return "\n".join(lines)


def _percent(value: float) -> str:
    return "-" if not math.isfinite(value) else f"{100 * value:+.1f} %"
