"""The page of the sampled comparison: how errors are distributed, the worst cells, and one kernel against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailback.experiment.statistics import interval
from tailback.files import whole_file
from tailback_validation.sampled import (
    ALGORITHMS,
    BOUNDS,
    CELLS,
    DRAW_SPREAD,
    DRAWS,
    DURATION_S,
    FLOOR_S,
    KERNELS_DRAWS,
    Cell,
    Error,
    errors,
    relative,
)

__all__ = ["compared", "write"]

_WORST = 20
_PLACED = ("goodput", "retransmitted")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_PHASE = (
    "*Phase*: segments arrive at a queue in the very microsecond in which others leave it, because one clock, the "
    "bottleneck's, drives both; which of the two comes first decides what is dropped (Floyd and Jacobson 1991)."
)

#: What was found behind cells that no rule takes for chance.
_MECHANISMS = {
    24: (
        "Phase: the kernel's segment 23 "
        "arrives 20 µs before a place is free and is dropped; in the simulator the departure comes first, and it is "
        "queued. With `processing_jitter` of 20 µs the simulator's twenty runs hold the kernel's figures: 1.081 to "
        "1.138 Mbit/s, 18.8 or 28.2 ms."
    ),
    61: (
        "One packet: the median is eight packets on the kernel and nine here. Phase: with "
        "`processing_jitter` of 100 µs 18 of the simulator's twenty runs have the kernel's 7.04 ms."
    ),
    107: ("Phase: with `processing_jitter` of 100 µs the simulator's twenty runs hold the kernel's figures."),
    164: (
        "The last segment of a transfer, 176 bytes, comes to a full queue on the kernel and just after a place was "
        "free here, in transfer after transfer, and a timeout of 236 ms repairs it (phase)."
    ),
    169: (
        "In its first overshoot the kernel is held by its send buffer, with 2.79 MB in flight of a window of 3.14; "
        "the simulator has 3.13 in flight and loses 797 segments instead of 465."
    ),
    180: (
        "Vegas holds two to four packets, and a packet lasts 4 ms here. Which segment of a pair an ACK ends with "
        "makes one packet's difference in the RTT, and whether the window stays at 12 or goes on to 13, where the "
        "queue of four overflows: on the kernel it goes on."
    ),
    225: ("Phase: with `processing_jitter` of 20 µs the simulator's twenty runs hold the kernel's figures."),
    232: (
        "The kernel has six timeouts and the simulator none: a transfer's last segments, lost at a full queue, as "
        "in cell 164 (judged by the counts, not packet by packet)."
    ),
    270: (
        "At each overflow the kernel loses a segment and, half a round trip later, another, so that its recoveries "
        "last two round trips; the simulator loses one. Which of two segments finds a place free is phase, and what "
        "that costs here is 7 %."
    ),
}


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
    if found and all(error.draws for error in found):
        out |= _chance(found)
    out["worst"] = [_row(error) for error in sorted(found, key=lambda error: -error.worst)[:_WORST]]
    return out


def _chance(found: Sequence[Error]) -> dict[str, Any]:
    """How often the same model with other random numbers is within the bounds, and how often that explains an error."""
    # Each draw in the kernel's place, judged by the others.
    again = [
        Error(
            error.cell,
            **relative(draw, error.measures[1]),
            measures=(draw, error.measures[1]),
            draws=(*error.draws[:number], *error.draws[number + 1 :]),
            again=(),
        )
        for error in found
        for number, draw in enumerate(error.draws)
    ]
    return {
        "draws": len(found[0].draws),
        "draws_within_both": float(np.mean([error.is_within for error in again])),
        "draws_by_chance": float(np.mean([error.is_chance for error in again])),
        "by_chance": float(np.mean([error.is_chance for error in found])),
        "by_chance_of_first": float(np.mean([error.is_chance_of_first for error in found])),
        "beyond": [error.cell.number for error in found if _verdict(error) == "beyond"],
        "places": _places(found),
    }


def _places(found: Sequence[Error]) -> list[dict[str, Any]]:
    """Where the kernel's value lies among the simulator's own, by algorithm: 0 below all of them, 1 above all."""
    places: dict[str, dict[str, list[float]]] = {}
    for error in found:
        of_algorithm = places.setdefault(error.cell.algorithm, {name: [] for name in _PLACED})
        for name, all_of_them in of_algorithm.items():
            kernels = error.measures[0][name]
            own = np.array([run[name] for run in (error.measures[1], *error.draws)])
            all_of_them.append(float(np.mean(own < kernels) + np.mean(own == kernels) / 2))
    everything = {name: [place for row in places.values() for place in row[name]] for name in _PLACED}
    rows = [*((algorithm, places[algorithm]) for algorithm in ALGORITHMS if algorithm in places), ("all", everything)]
    return [
        {"algorithm": algorithm, "cells": len(row["goodput"]), **{name: float(np.mean(row[name])) for name in _PLACED}}
        for algorithm, row in rows
    ]


def _verdict(error: Error) -> str:
    if error.is_within:
        return "within"
    if error.is_chance:
        return "chance"
    return "the kernel's chance" if error.is_chance_of_first else "beyond"


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
        "explained": _verdict(error),
        "draws": {
            name: [scale * pick(run[name] for run in (error.measures[1], *error.draws)) for pick in (min, max)]
            for name, scale in (("goodput", 1.0), ("delay", 1e3))
            if error.draws
        },
    }


def write(pairs: Sequence[dict[str, Any]], kernels: Sequence[str], out: Path) -> None:
    """Write the page of these comparisons."""
    parts = [
        _HEAD.format(
            cells=CELLS,
            duration=f"{DURATION_S:g}",
            floor=f"{1e3 * FLOOR_S:g}",
            draws=DRAWS,
            spread=DRAW_SPREAD,
            kernels=KERNELS_DRAWS,
        )
    ]
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
delay in the bottleneck's queue by 10 % at most, or by 10 % of {floor} ms where the kernel's is smaller than that.

Where loss, an AQM or a start is drawn at random, a cell is one draw, and the kernel's and the simulator's draws part
after the first packet that differs. So the simulator runs each cell {draws} times more, other seeds and starts up to
{spread} later. A cell beyond a bound counts as *chance* if the kernel's value lies between the smallest and the largest
of the simulator's own, and as *beyond* if not; an exact model would be beyond in about one metric of eleven all the
same. This second rule was written down before those runs, but after 77 cells had been judged by the first.

The kernel has its own spread: a few microseconds more in its processor can make another run of the same path. So it
runs each cell beyond both {kernels} times again, with the first of the simulator's seeds and starts. If in each metric
one of those lies in the simulator's spread, the cell counts as *the kernel's chance*. This third rule was written down
before those runs, but after 308 cells had been judged by the other two and two of them been run again by hand."""


def _section(pair: dict[str, Any]) -> str:
    shares = " | ".join(f"{100 * share:g} %" for share in _QUANTILES)
    lines = [
        f"## {pair['of']} against {pair['against']}",
        "",
        f"{pair['cells']} cells; {100 * pair['within_both']:.1f} % within both bounds.",
        "",
        *_told_chance(pair),
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
    extra = ("simulator's own: goodput", "delay", "") if "draws" in pair else ()
    lines += [
        "| " + " | ".join(["cell", "algorithm", "path", "traffic", "goodput (Mbit/s)", "delay (ms)", *extra]) + " |",
        "| ---: |" + " --- |" * (5 + len(extra)),
    ]
    for row in pair["worst"]:
        goodput = " → ".join(f"{value:.3g}" for value in row["goodputs_mbps"])
        delay = " → ".join(f"{value:.3g}" for value in row["delays_ms"])
        lines.append(
            f"| {row['cell']} | {row['algorithm']} | {row['path']} | {row['traffic']} "
            f"| {goodput} ({_percent(row['goodput'])}) | {delay} ({_percent(row['delay'])}) |"
        )
        if extra:
            spread = " | ".join(" to ".join(f"{value:.3g}" for value in row["draws"][name]) for name in BOUNDS)
            lines[-1] += f" {spread} | {row['explained']} |"
    left = [number for number in pair.get("beyond", ()) if number in _MECHANISMS]
    others = [row["cell"] for row in pair["worst"] if row["cell"] in _MECHANISMS and row["cell"] not in left]
    for numbers, told in ((left, "Behind those that the third rule leaves"), (others, "Behind others of the worst")):
        if numbers:
            lines += ["", f"{told}:", "", *(f"- **{number}**: {_MECHANISMS[number]}" for number in numbers)]
    if left or others:
        lines += ["", _PHASE]
    if "places" in pair:
        lines += ["", *_told_places(pair["places"])]
    if pair["refused"]:
        lines += ["", "Not carried by a guest:", "", *(f"- {reason}" for reason in pair["refused"])]
    return "\n".join(lines)


def _told_chance(pair: dict[str, Any]) -> list[str]:
    if "draws" not in pair:
        return []
    within, chance, left = 100 * pair["within_both"], 100 * pair["by_chance"], pair["beyond"]
    first = 100 * pair["by_chance_of_first"]
    beyond = 100 - within - chance
    own, own_chance = 100 * pair["draws_within_both"], 100 * pair["draws_by_chance"]
    told = f"cells {', '.join(map(str, left))}" if left else "no cell"
    return [
        f"By the first two rules {within:.1f} % of the kernel's cells are within, {chance:.1f} % more are chance, "
        f"{beyond:.1f} % are beyond. By the same two an exact model with random numbers of its own would reach "
        f"{own:.1f}, {own_chance:.1f} and {100 - own - own_chance:.1f} %: that is what the simulator's own runs do, "
        "each judged by the others as if it were the kernel. (Simulator and kernel lose the same packets until they "
        "part, so more of the kernel's cells are within.)",
        "",
        f"The third rule takes {first:.1f} of those {beyond:.1f} % for the kernel's chance and leaves "
        f"{beyond - first:.1f} %: {told}. It gives the kernel more tries than the exact model has, so it says where to "
        "look, not how close the model is.",
        "",
    ]


def _told_places(rows: Sequence[dict[str, Any]]) -> list[str]:
    def deviations(row: dict[str, Any], metric: str) -> float:
        return float((row[metric] - 0.5) / math.sqrt(1 / 12 / row["cells"]))

    single = [(row, metric) for row in rows if row["algorithm"] != "all" for metric in _PLACED]
    far = [(row, metric) for row, metric in single if abs(deviations(row, metric)) > 2]
    words = {"goodput": "goodput", "retransmitted": "retransmissions"}
    named = ", ".join(f"{row['algorithm']}'s {words[metric]} ({deviations(row, metric):+.1f})" for row, metric in far)
    return [
        "Where the kernel's value lies among the simulator's own, on average: 0 is below all of them, 1 above all. An "
        "exact model has 0.5 with a deviation of 0.29/√cells. (This table was added after 191 cells had been seen.)",
        "",
        f"Of the {len(single)} numbers of single algorithms {len(far)} are farther from 0.5 than two deviations, where "
        f"chance alone would put {0.0455 * len(single):.0f}: {named or 'none'}. So most of these are biases, if small "
        "ones: the mean errors are in the table above.",
        "",
        *(
            f"Of all cells together the kernel's goodput is {deviations(row, 'goodput'):+.1f} deviations from the "
            f"middle and its retransmissions {deviations(row, 'retransmitted'):+.1f}."
            for row in rows
            if row["algorithm"] == "all"
        ),
        "",
        "| algorithm | cells | goodput | retransmissions | one deviation |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {row['algorithm']} | {row['cells']} | {row['goodput']:.2f} | {row['retransmitted']:.2f} "
            f"| {math.sqrt(1 / 12 / row['cells']):.2f} |"
            for row in rows
        ),
    ]


def _percent(value: float) -> str:
    return "-" if not math.isfinite(value) else f"{100 * value:+.1f} %"
