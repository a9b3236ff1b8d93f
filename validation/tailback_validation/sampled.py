"""Compares the simulator with real kernels on paths drawn by a design: cells, errors, and stored rows.

The design and the bounds are fixed: they were written down before the first cell was run.
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
from tailback.judge import Bounds
from tailback.result import Result
from tailback_validation.kernel_rows import Rows, file_name, run

__all__ = [
    "ALGORITHMS",
    "BOUNDS",
    "CELLS",
    "DRAWS",
    "KERNELS_DRAWS",
    "Cell",
    "Error",
    "Measures",
    "design",
    "drawn",
    "error_of",
    "errors",
    "errors_between",
    "measure",
    "relative",
    "rows_of",
    "run_again",
    "run_cells",
    "simulated",
    "stack_of",
]

Measures = dict[str, float]

ALGORITHMS = (
    "reno",
    "cubic",
    "bic",
    "htcp",
    "highspeed",
    "hybla",
    "vegas",
    "veno",
    "westwood",
    "illinois",
    "yeah",
    "scalable",
    "cdg",
    "bbr",
)
NEED_MARKS = {"dctcp": "accurate_echo", "prague": "accecn"}
"""Algorithms like Reno without marks: their cells have marking queues, and this stack field to report marks."""
QUEUES = ("fifo", "codel", "codel+ecn", "fq_codel", "fq_codel+ecn", "pie", "pie+ecn")
LOSSES = (0.0, 0.001, 0.01)
TRAFFIC = ("one", "two", "short")
CELLS = 512
"""Points of the design; a Sobol sequence is even over its first 2, 4, 8, … points."""
SEED = 20
DURATION_S = 20.0

BOUNDS = Bounds({"goodput": 0.05, "delay": 0.10})
"""Largest relative error of goodput and of the median queueing delay that 95 % of the cells may have."""
FLOOR_S = 0.001
"""A delay's error is relative to the kernel's, or to this if that is smaller: a queue that is hardly there."""

DRAWS = 20
"""Number of repeated simulator runs of a cell with other random numbers, to distinguish a wrong model from chance."""
DRAW_SPREAD = "20ms"
"""In those runs each flow starts up to this much later, because a path without loss draws nothing else."""


KERNELS_DRAWS = 3
"""Repeated kernel runs, with the first of the same draws, of cells outside the simulator's draws."""


@dataclass(frozen=True)
class Cell:
    """A point of the design."""

    number: int
    algorithm: str
    rate_mbps: float
    rtt_ms: float
    queue_bdp: float
    queue: str
    loss: float
    reorder: bool
    traffic: str

    @property
    def path(self) -> str:
        """The path in words."""
        path = f"{self.rate_mbps:g} Mbit/s, {self.rtt_ms:g} ms, {self.queue} of {self.queue_bdp:g} BDP"
        harm = [f"loss {100 * self.loss:g} %"] if self.loss else []
        harm += ["reordering"] if self.reorder else []
        return ", ".join([path, *harm])

    def scenario(self, of: Mapping[str, Any] | None = None) -> tb.Scenario:
        """The scenario of both engines; in the simulator with the stack that models the kernel (`stack_of`)."""
        kind, _, ecn = self.queue.partition("+")
        bdp_packets = self.rate_mbps * 1e6 * self.rtt_ms * 1e-3 / 12_000
        # The queue holds at least four packets.
        packets = max(4, round(self.queue_bdp * bdp_packets))
        queue: dict[str, Any] = {"discipline": kind}
        if kind == "fifo":
            queue["limit"] = f"{1500 * packets}B"
        else:
            queue |= {"limit_packets": packets, "ecn": bool(ecn)}
        stack: dict[str, Any] = {"name": "linux", "ecn": bool(ecn), **(of or {})}
        if ecn and self.algorithm in NEED_MARKS:
            stack[NEED_MARKS[self.algorithm]] = True
        if of is not None and self.algorithm == "prague":
            # Its code limits a burst to 250 µs: one segment up to 96 Mbit/s, and 48 in slow start.
            stack["burst_segments"] = 1
        if self.traffic == "short":
            flows = [
                tb.flow(
                    "transfers",
                    name="short",
                    cc=self.algorithm,
                    stack=stack,
                    params={"bytes": 200_000, "idle_low": 0.2, "idle_high": 0.6},
                )
            ]
        else:
            flows = [tb.bulk(self.algorithm, name="first", stack=stack)]
        if self.traffic == "two":
            flows.append(tb.bulk(self.algorithm, name="second", stack=stack, start="2s"))
        wire: dict[str, Any] = {"loss": self.loss}
        if self.reorder:
            wire |= {"reorder": 0.005, "reorder_delay": f"{round(self.rtt_ms * 100)}us"}
        return tb.dumbbell(
            name=f"sampled-{self.number:04d}",
            rate=f"{round(self.rate_mbps * 1000)}kbit",
            rtt=f"{round(self.rtt_ms * 1000)}us",
            queue=queue,
            wire=wire,
            flows=flows,
            duration=f"{DURATION_S:g}s",
            seed=1 + self.number,
            instruments=tb.Instruments(queue_polls=["bottleneck"], poll_interval="10ms"),
        )


def design(cells: int = CELLS, algorithm: str | None = None) -> list[Cell]:
    """The first `cells` points: SciPy's scrambled Sobol sequence over eight quantities, the same on every machine.

    An `algorithm`, which `ALGORITHMS` may lack, is used in every cell. One of `NEED_MARKS` gets the first points with a
    marking queue.
    """
    from scipy.stats import qmc

    points = qmc.Sobol(8, scramble=True, seed=SEED).random_base2(int(math.log2(CELLS)))
    drawn_cells = [_cell(number, point) for number, point in enumerate(points)]
    if algorithm in NEED_MARKS:
        drawn_cells = [cell for cell in drawn_cells if cell.queue.endswith("+ecn")]
    drawn_cells = drawn_cells[:cells]
    return [replace(cell, algorithm=algorithm) for cell in drawn_cells] if algorithm else drawn_cells


def _cell(number: int, point: Any) -> Cell:
    algorithm, rate, rtt, depth, queue, loss, reorder, traffic = (float(value) for value in point)

    def one_of(values: Sequence[Any], at: float) -> Any:
        return values[min(int(at * len(values)), len(values) - 1)]

    def between(low: float, high: float, at: float) -> float:
        return float(low * (high / low) ** at)

    return Cell(
        number=number,
        algorithm=one_of(ALGORITHMS, algorithm),
        rate_mbps=round(between(1.0, 100.0, rate), 3),
        rtt_ms=round(between(10.0, 200.0, rtt), 3),
        queue_bdp=round(between(0.1, 4.0, depth), 3),
        queue=one_of(QUEUES, queue),
        loss=one_of(LOSSES, loss),
        reorder=reorder >= 0.75,
        traffic=one_of(TRAFFIC, traffic),
    )


def measure(result: Result) -> dict[str, float]:
    """Goodput of all transfers in Mbit/s, median delay of the bottleneck's queue in s, and counts."""
    flows, links = result.numpy("flows"), result.numpy("links")
    polls = result.numpy("queue_polls")
    rate = float(result.resolved["links"][0]["rate_bps"])
    return {
        "goodput": float(flows["bytes_received"].sum()) * 8e-6 / result.duration_s,
        "delay": float(np.median(polls["backlog_bytes"])) * 8 / rate,
        "retransmitted": float(flows["segments_retransmitted"].sum()),
        "timeouts": float(flows["timeouts"].sum()),
        "dropped": float(links["dropped"][0]),
        "marked": float(links["marked"][0]),
    }


def stack_of(kernel: str) -> dict[str, Any]:
    """The stack that models a kernel, given by name and perhaps with a dilation; without one, what a kernel itself has.

    Debian's cloud kernels and those that `tailback vm build` makes are compiled without CONFIG_WLAN, so that
    MAX_TCP_HEADER is 256 bytes and not 320. A guest's packets come from a TUN device.
    """
    if not kernel:
        return {"name": "linux"}
    return {"name": "linux-7" if "-7." in kernel else "linux", "header_room": 256, "segments_join": False}


def drawn(cell: Cell, draw: int, of: Mapping[str, Any] | None = None) -> tb.Scenario:
    """The scenario of a draw: draw 0 is the cell itself, later ones have other seeds and starts."""
    plain = cell.scenario(of)
    if draw == 0:
        return plain
    return plain.with_(seed=plain.seed + CELLS * draw, randomness={"start_spread": DRAW_SPREAD})


def simulated(cells: Sequence[Cell], of: Mapping[str, Any] | None = None) -> dict[int, list[dict[str, float]]]:
    """The simulator's measures in each cell: first its own run, then `DRAWS` others."""
    draws = range(DRAWS + 1)
    runs = tb.run_many([drawn(cell, draw, of) for cell in cells for draw in draws], then=measure)
    measures = iter(runs)
    return {cell.number: [next(measures) for _ in draws] for cell in cells}


def rows_of(folder: Path, kernel: str) -> Rows:
    """Measures of `kernel`, a name or a path and perhaps a dilation, in the cells."""
    return Rows(folder / file_name("sampled", kernel))


def run_cells(
    cells: Sequence[Cell],
    kernel: str,
    folder: Path,
    *,
    report: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
    again: bool = False,
) -> list[str]:
    """Run the cells that `kernel` lacks; see `kernel_rows.run`."""
    wanted = ((cell.number, 0, cell.scenario()) for cell in cells)
    until = time.monotonic() + seconds
    return run(rows_of(folder, kernel), wanted, kernel, measure, report=report, until=until, again=again)


def run_again(
    found: Sequence[Error],
    kernel: str,
    folder: Path,
    *,
    report: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
) -> None:
    """On `kernel`, run the cells outside the range of the simulator's draws again, with the first of those draws."""
    beyond = [error.cell for error in found if not error.is_within and not error.is_chance]
    wanted = ((cell.number, draw, drawn(cell, draw)) for cell in beyond for draw in range(1, KERNELS_DRAWS + 1))
    until = time.monotonic() + seconds
    run(rows_of(folder, kernel), wanted, kernel, measure, report=report, until=until)


@dataclass(frozen=True)
class Error:
    """A cell's relative errors of the second engine against the first."""

    cell: Cell
    goodput: float
    delay: float
    measures: tuple[dict[str, float], dict[str, float]]
    draws: tuple[dict[str, float], ...] = ()
    """The second engine's measures with other random numbers; empty unless requested."""
    again: tuple[dict[str, float], ...] = ()
    """The first engine's measures with the first of the same random numbers, if it was run again."""

    @property
    def errors(self) -> dict[str, float]:
        """Errors by the names of `BOUNDS`."""
        return {"goodput": self.goodput, "delay": self.delay}

    @property
    def is_within(self) -> bool:
        """Whether both errors are within their bounds."""
        return not BOUNDS.missed(self.errors)

    @property
    def is_chance(self) -> bool:
        """Whether every error beyond its bound is within the range of the second engine's own runs."""
        return self._meets([self.measures[0]])

    @property
    def is_chance_of_first(self) -> bool:
        """Otherwise, whether another run of the first engine is within that range, metric by metric."""
        return not self.is_chance and self._meets(self.again)

    def _meets(self, firsts: Sequence[dict[str, float]]) -> bool:
        if self.is_within or not self.draws:
            return False
        beyond = BOUNDS.missed(self.errors)
        runs = [self.measures[1], *self.draws]
        return all(
            any(min(run[name] for run in runs) <= first[name] <= max(run[name] for run in runs) for first in firsts)
            for name in beyond
        )

    @property
    def worst(self) -> float:
        """The larger of the two errors, relative to its bound."""
        return BOUNDS.excess(self.errors)


def relative(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    """Errors of `b` against `a`, by the names of `BOUNDS`."""
    return {
        "goodput": b["goodput"] / a["goodput"] - 1 if a["goodput"] else math.nan,
        "delay": (b["delay"] - a["delay"]) / max(a["delay"], FLOOR_S),
    }


def errors(
    folder: Path, kernel: str, cells: Sequence[Cell], own: Mapping[int, Sequence[Measures]]
) -> tuple[list[Error], list[str]]:
    """The simulator's errors (`own`, from `simulated`) against `kernel` for cells with a row, and the refused cells."""
    rows, found, refused = rows_of(folder, kernel), [], []
    for cell in cells:
        row = rows.find(cell.number, 0, cell.scenario())
        if row is None:
            continue
        if row.refused:
            refused.append(f"{cell.number}: {row.refused}")
            continue
        others = (rows.find(cell.number, draw, drawn(cell, draw)) for draw in range(1, KERNELS_DRAWS + 1))
        again = tuple(other.measures for other in others if other is not None and not other.refused)
        found.append(error_of(cell, row.measures, own[cell.number], again))
    return found, refused


def errors_between(folder: Path, first: str, second: str, cells: Sequence[Cell]) -> list[Error]:
    """The errors of one kernel against another, in the cells that both have run."""
    found = []
    for cell in cells:
        rows = [rows_of(folder, kernel).find(cell.number, 0, cell.scenario()) for kernel in (first, second)]
        if all(row is not None and not row.refused for row in rows):
            a, b = (row.measures for row in rows if row is not None)
            found.append(error_of(cell, a, [b]))
    return found


def error_of(cell: Cell, truth: Measures, own: Sequence[Measures], again: tuple[Measures, ...] = ()) -> Error:
    """The error of the simulator's own run, the first of `own`, against `truth`; the others are its draws."""
    plain, *others = own
    found = relative(truth, plain)
    return Error(cell, found["goodput"], found["delay"], (truth, plain), tuple(others), again)
