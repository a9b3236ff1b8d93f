"""Two congestion controls side by side, each on a kernel that has it, on the sampled paths.

The simulator runs the same cells, and the page has both differences: what a kernel's users would see, and whether the
model would have said so. `EXPECTED` was written before the first cell was run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import tailback as tb
from tailback.experiment.store import engine_fingerprint
from tailback.files import whole_file
from tailback.judge import Interval, interval, rule
from tailback_validation import sampled
from tailback_validation.sampled import Cell, Measures

__all__ = ["EXPECTED", "Expectation", "Pair", "differences", "study", "write"]


@dataclass(frozen=True)
class Pair:
    """What the two measured in one cell: `first` is compared with, `second` is the one of interest."""

    cell: Cell
    first: Measures
    second: Measures

    @property
    def goodput(self) -> float:
        """Relative difference of goodput."""
        return self.second["goodput"] / self.first["goodput"] - 1

    @property
    def delay_ms(self) -> float:
        """Difference of the median queueing delay, in ms."""
        return 1e3 * (self.second["delay"] - self.first["delay"])

    @property
    def repeats(self) -> float:
        """Logarithm of the ratio of repeated segments; one is added to each count, as it may be 0."""
        return math.log((1 + self.second["retransmitted"]) / (1 + self.first["retransmitted"]))


@dataclass(frozen=True)
class Expectation:
    """What was expected of the second of a pair, why, in which cells, and when it holds."""

    says: str
    why: str
    cells: Callable[[Cell], bool]
    holds: Callable[[Sequence[Pair]], bool]


GOODPUT = 0.05
"""Mean relative difference of goodput that counts as none; the bound of the sampled comparison."""
SLOWER, FEW = 0.30, 0.05
"""A cell is slow if this share of goodput is gone; this share of cells may be."""
DELAY_MS = 1.0
"""Mean difference of the median delay that counts as none."""


def _same_goodput(pairs: Sequence[Pair]) -> bool:
    found = interval([pair.goodput for pair in pairs], "mean")
    return found.low >= -GOODPUT and found.high <= GOODPUT


def _fewer_repeats(pairs: Sequence[Pair]) -> bool:
    return interval([pair.repeats for pair in pairs], "mean").high < 0


def _no_more_delay(pairs: Sequence[Pair]) -> bool:
    return interval([pair.delay_ms for pair in pairs], "mean").high <= DELAY_MS


def _rarely_slow(pairs: Sequence[Pair]) -> bool:
    return float(np.mean([pair.goodput <= -SLOWER for pair in pairs])) <= FEW


EXPECTED: dict[tuple[str, str], tuple[Expectation, ...]] = {
    ("bbr", "bbr3"): (
        Expectation(
            "without random loss it repeats fewer segments",
            "it lowers what it keeps in flight once more than 2 % of a round are lost; version 1 ignores losses "
            "(draft-ietf-ccwg-bbr, BBR.LossThresh)",
            lambda cell: cell.loss == 0,
            _fewer_repeats,
        ),
        Expectation(
            f"without random loss goodput stays, within {100 * GOODPUT:g} %",
            "both probe for bandwidth, version 3 with 15 % of headroom where it knows a bound",
            lambda cell: cell.loss == 0,
            _same_goodput,
        ),
        Expectation(
            f"with 1 % of random loss goodput stays, within {100 * GOODPUT:g} %",
            "1 % lies below the 2 % from which it reacts",
            lambda cell: cell.loss == 0.01,
            _same_goodput,
        ),
        Expectation(
            f"the median queueing delay rises by no more than {DELAY_MS:g} ms",
            "it leaves headroom, and probes less often",
            lambda _: True,
            _no_more_delay,
        ),
        Expectation(
            f"at most {100 * FEW:g} % of the cells lose {100 * SLOWER:g} % of goodput",
            "a report of one line that became 30 to 50 % slower had CachyOS drop it (linux-cachyos, issue 706)",
            lambda _: True,
            _rarely_slow,
        ),
    )
}
"""By the pair's names; another pair is compared without expectations."""

SEEN = {
    ("bbr", "bbr3"): "64 runs of `bbr3` had been compared with the simulator's `bbr3` by then, none with `bbr`. ",
}
"""What had been seen of a pair when its expectations were written."""

_GROUPS: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
    ("all", lambda _: True),
    ("FIFO below 1 BDP", lambda cell: cell.queue == "fifo" and cell.queue_bdp < 1),
    ("FIFO of 1 BDP and more", lambda cell: cell.queue == "fifo" and cell.queue_bdp >= 1),
    ("CoDel and FQ-CoDel", lambda cell: "codel" in cell.queue),
    ("PIE", lambda cell: "pie" in cell.queue),
    ("no random loss", lambda cell: cell.loss == 0),
    ("loss 0.1 %", lambda cell: cell.loss == 0.001),
    ("loss 1 %", lambda cell: cell.loss == 0.01),
    ("one transfer", lambda cell: cell.traffic == "one"),
    ("two transfers", lambda cell: cell.traffic == "two"),
    ("short transfers", lambda cell: cell.traffic == "short"),
)
_MOST = 10
"""Cells with the largest differences that the page lists."""


def study(
    algorithms: tuple[str, str],
    kernels: tuple[str, str],
    cells: int,
    folder: Path,
    out: Path,
    *,
    report: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Run the first `cells` cells with each algorithm on its kernel, and write the page of what both have to `out`.

    Rows are kept in `folder`/ALGORITHM, where a comparison with the simulator keeps them too. Returns the number of
    cells, and of each expectation whether it was met.
    """
    until = time.monotonic() + seconds
    designs = [sampled.design(cells, algorithm) for algorithm in algorithms]
    for algorithm, kernel, design in zip(algorithms, kernels, designs, strict=True):
        design[0].scenario().resolve()
        sampled.run_cells(design, kernel, folder / algorithm, report=report, seconds=until - time.monotonic())
    rows = [sampled.rows_of(folder / algorithm, kernel) for algorithm, kernel in zip(algorithms, kernels, strict=True)]
    pairs, own, again = [], [], []
    both = []
    for first, second in zip(*designs, strict=True):
        found = [each.find(cell.number, 0, cell.scenario()) for each, cell in zip(rows, (first, second), strict=True)]
        if all(row is not None and not row.refused for row in found):
            pairs.append(Pair(first, *(row.measures for row in found if row is not None)))
            both.append((first, second))
    if not pairs:
        return {"cells": 0, "expected": []}
    stacks = [sampled.stack_of(kernel) for kernel in kernels]
    wanted = []
    for first, second in both:
        wanted += [first.scenario(stacks[0]), second.scenario(stacks[1]), sampled.drawn(first, 1, stacks[0])]
    runs = iter(tb.run_many(wanted, then=sampled.measure))
    for first, _ in both:
        one, other, disturbed = next(runs), next(runs), next(runs)
        own.append(Pair(first, one, other))
        again.append(Pair(first, one, disturbed))
    about = [name for each in rows for name in each.about()]
    about += [f"guests {', '.join(sorted({guest for each in rows for guest in each.guests()}))}"]
    about += [f"simulator {engine_fingerprint()}"]
    return write(algorithms, kernels, {"kernels": pairs, "simulator": own, "itself": again}, about, out)


def differences(pairs: Sequence[Pair]) -> dict[str, Interval]:
    """The mean differences of pairs with 95 % intervals: goodput (share), delay (ms), repeated segments (ratio)."""
    repeats = interval([pair.repeats for pair in pairs], "mean")
    low, middle, high = (math.exp(each) for each in (repeats.low, repeats.estimate, repeats.high))
    return {
        "goodput": interval([pair.goodput for pair in pairs], "mean"),
        "delay": interval([pair.delay_ms for pair in pairs], "mean"),
        "repeats": replace(repeats, estimate=middle, low=low, high=high),
    }


def write(
    algorithms: tuple[str, str],
    kernels: tuple[str, str],
    pairs: Mapping[str, Sequence[Pair]],
    about: Sequence[str],
    out: Path,
) -> dict[str, Any]:
    """Write the page.

    `pairs` has those of the "kernels", of the "simulator", and of the simulator's first algorithm beside "itself".
    """
    first, second = algorithms
    on_kernels = pairs["kernels"]
    judged: list[dict[str, Any]] = []
    for expectation in EXPECTED.get(algorithms, ()):
        chosen = {name: [pair for pair in each if expectation.cells(pair.cell)] for name, each in pairs.items()}
        held = {name: bool(expectation.holds(each)) for name, each in chosen.items() if len(each) > 1}
        judged.append({"says": expectation.says, "why": expectation.why, "cells": len(chosen["kernels"]), **held})
    found = differences(on_kernels)
    slow = sum(pair.goodput <= -SLOWER for pair in on_kernels)
    lines = [
        f"# `{second}` beside `{first}`, each on a kernel that has it",
        "",
        f"**On {len(on_kernels)} sampled paths `{second}` has {_share(found['goodput'])} goodput and "
        f"{_number(found['delay'])} ms of median queueing delay. It repeats {_number(found['repeats'], '')} times the "
        f"segments that `{first}` repeats. {slow} of the paths lose {100 * SLOWER:g} % of goodput or more.**",
        "",
        f"`tailback validate --engine vm --algorithms {first},{second} --kernel {','.join(kernels)} --cells "
        f"{len(on_kernels)}` writes this page. The paths are the first of [the sampled "
        f"comparison](validation-sampled.md), with `{first}` and then `{second}` in each: one run of "
        f"{sampled.DURATION_S:g} s on each kernel, with the same random draws until the first packet that differs. "
        "Differences are means over paths with 95 % intervals; those of repeated segments are ratios, with one added "
        "to each count.",
        "",
        f"`{first}` runs on `{kernels[0]}`, `{second}` on `{kernels[1]}`: what else the two kernels differ in counts "
        f"as a difference of the two. Whose runs these are: {'; '.join(about)}.",
        "",
    ]
    if judged:
        lines += [
            "## What was expected",
            "",
            "The expectations were written before a path was run with both. "
            f"{SEEN.get(algorithms, '')}The last column is the control: the simulator's `{first}` beside itself with "
            "other draws, which repeats no fewer segments and so must miss the first.",
            "",
            f"| of `{second}` | because | paths | kernels | simulator | `{first}` beside itself |",
            "| --- | --- | ---: | --- | --- | --- |",
        ]
        for row in judged:
            verdicts = " | ".join(
                rule(row[name]) if name in row else "-" for name in ("kernels", "simulator", "itself")
            )
            lines += [f"| {row['says']} | {row['why']} | {row['cells']} | {verdicts} |"]
        lines += [""]
    lines += [
        "## By path",
        "",
        "| paths | | goodput: kernels | simulator | delay in ms: kernels | simulator | repeats: kernels | simulator |",
        "| --- | ---: | --- | --- | --- | --- | --- | --- |",
    ]
    for name, belongs in _GROUPS:
        of_both = [
            differences([pair for pair in pairs[engine] if belongs(pair.cell)]) for engine in ("kernels", "simulator")
        ]
        count = of_both[0]["goodput"].n
        if count < 2:
            continue
        cells = [
            *(_share(each["goodput"]) for each in of_both),
            *(_number(each["delay"]) for each in of_both),
            *(_number(each["repeats"], "") for each in of_both),
        ]
        lines += [f"| {name} | {count} | " + " | ".join(cells) + " |"]
    lines += [
        "",
        f"## The {_MOST} largest differences of goodput",
        "",
        f"In `a → b`, a is of `{first}` and b of `{second}`.",
        "",
        "| path | goodput in Mbit/s: kernels | simulator | delay in ms: kernels | simulator |",
        "| --- | --- | --- | --- | --- |",
    ]
    simulated = {pair.cell.number: pair for pair in pairs["simulator"]}
    for pair in sorted(on_kernels, key=lambda each: -abs(each.goodput))[:_MOST]:
        beside = (pair, simulated[pair.cell.number])
        goodputs = (f"{each.first['goodput']:.3g} → {each.second['goodput']:.3g}" for each in beside)
        delays = (f"{1e3 * each.first['delay']:.3g} → {1e3 * each.second['delay']:.3g}" for each in beside)
        lines += [f"| {pair.cell.path}, {pair.cell.traffic} | " + " | ".join((*goodputs, *delays)) + " |"]
    with whole_file(out) as partial:
        partial.write_text("\n".join(lines) + "\n")
    return {"cells": len(on_kernels), "expected": judged}


def _share(found: Interval) -> str:
    return f"{100 * found.estimate:+.1f} % ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def _number(found: Interval, sign: str = "+") -> str:
    return f"{found.estimate:{sign}.2f} ({found.low:{sign}.2f} to {found.high:{sign}.2f})"
