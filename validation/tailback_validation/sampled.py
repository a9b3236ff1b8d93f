"""The simulator against a real kernel on paths drawn by a design, not chosen: cells, errors, and what is kept of them.

The design and the bounds are fixed: they were written down before the first cell was run.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tailback as tb
from tailback.experiment.store import engine_fingerprint
from tailback.files import whole_file
from tailback.result import Result
from tailback.vm import kept, kernels
from tailback.vm.machine import LostRun

__all__ = [
    "ALGORITHMS",
    "BOUNDS",
    "CELLS",
    "DRAWS",
    "KERNELS_DRAWS",
    "Cell",
    "Error",
    "design",
    "draws",
    "errors",
    "measure",
    "relative",
    "run_again",
    "run_cells",
]

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
QUEUES = ("fifo", "codel", "codel+ecn", "fq_codel", "fq_codel+ecn", "pie", "pie+ecn")
LOSSES = (0.0, 0.001, 0.01)
TRAFFIC = ("one", "two", "short")
CELLS = 512
"""Points of the design; a Sobol sequence is even over its first 2, 4, 8, … points."""
SEED = 20
DURATION_S = 20.0

BOUNDS = {"goodput": 0.05, "delay": 0.10}
"""Largest relative error of goodput and of the median queueing delay that 95 % of the cells may have."""
FLOOR_S = 0.001
"""A delay's error is relative to the kernel's, or to this if that is smaller: a queue that is hardly there."""

DRAWS = 20
"""Times the simulator runs a cell again with other random numbers, to tell a wrong model from another draw."""
DRAW_SPREAD = "20ms"
"""In those runs each flow starts up to this much later, because a path without loss draws nothing else."""


KERNELS_DRAWS = 3
"""Times a kernel runs a cell again that is beyond what the simulator's draws hold, with the first of the same draws."""


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

    def scenario(self) -> tb.Scenario:
        """What both engines run."""
        kind, _, ecn = self.queue.partition("+")
        bdp_packets = self.rate_mbps * 1e6 * self.rtt_ms * 1e-3 / 12_000
        # A queue of less than four packets is no queue.
        packets = max(4, round(self.queue_bdp * bdp_packets))
        queue: dict[str, Any] = {"discipline": kind}
        if kind == "fifo":
            queue["limit"] = f"{1500 * packets}B"
        else:
            queue |= {"limit_packets": packets, "ecn": bool(ecn)}
        stack = {"name": "linux", "ecn": bool(ecn)}
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


def design(cells: int = CELLS) -> list[Cell]:
    """The first `cells` points: SciPy's scrambled Sobol sequence over eight quantities, the same on every machine."""
    from scipy.stats import qmc

    points = qmc.Sobol(8, scramble=True, seed=SEED).random_base2(int(math.log2(CELLS)))
    return [_cell(number, point) for number, point in enumerate(points[:cells])]


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


def draws(cell: Cell, folder: Path) -> list[dict[str, float]]:
    """What the simulator measures in a cell with `DRAWS` other seeds; run once, and kept beside the engines' runs."""
    file = folder / "draws" / f"{cell.number:04d}.json"
    told = {"cell": asdict(cell), "simulator": engine_fingerprint(), "draws": DRAWS, "spread": DRAW_SPREAD}
    if file.is_file():
        kept = json.loads(file.read_text())
        if {key: kept.get(key) for key in told} == told:
            return list(kept["measures"])
    measures = [measure(result) for result in tb.run_many([_drawn(cell, draw) for draw in range(1, DRAWS + 1)])]
    with whole_file(file) as partial:
        partial.write_text(json.dumps(told | {"measures": measures}, indent=1) + "\n")
    return measures


def _drawn(cell: Cell, draw: int) -> tb.Scenario:
    plain = cell.scenario()
    return plain.with_(seed=plain.seed + CELLS * draw, randomness={"start_spread": DRAW_SPREAD})


def run_again(
    cells: Sequence[Cell],
    kernel: str,
    folder: Path,
    *,
    told: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
) -> None:
    """Run what of `cells` is beyond the simulator's draws on `kernel` with other draws; kept as by `run_cells`."""
    began = time.monotonic()
    here = kernels.find(kernel)
    for error in errors(folder, kernel, "sim", cells)[0]:
        if error.is_within or error.is_chance:
            continue
        for draw in range(1, KERNELS_DRAWS + 1):
            if _read_again(folder, kernel, here, error.cell, draw) is not None:
                continue
            if time.monotonic() - began > seconds:
                return
            title = f"{error.cell.number} on {kernel}, draw {draw}"
            found = {"cell": asdict(error.cell), "engine": kernel, "draw": draw}
            try:
                found |= kept.attempt(_drawn(error.cell, draw), here, measure)
            except LostRun as lost:
                told(f"{title}: lost, the next call tries again: {lost}")
                continue
            with whole_file(_again(folder, kernel, error.cell, draw)) as partial:
                partial.write_text(json.dumps(found, indent=1) + "\n")
            told(title)


def _again(folder: Path, kernel: str, cell: Cell, draw: int) -> Path:
    return kept.folder_of(folder, f"{kernel}-again") / f"{cell.number:04d}-{draw}.json"


def _read_again(folder: Path, kernel: str, here: kernels.Kernel, cell: Cell, draw: int) -> dict[str, Any] | None:
    """What is kept of a cell's run with other random numbers."""
    file = _again(folder, kernel, cell, draw)
    row: dict[str, Any] | None = json.loads(file.read_text()) if file.is_file() else None
    if row is None or row["cell"] != asdict(cell):
        return None
    if "kernel" in row:
        return row if here.is_that_of(row["kernel"]) else None
    # Earlier rows do not name their kernel: it is that of the cell's first run, if that is as early.
    first = kept.read(_file(folder, kernel, cell), here)
    return row if first is not None and "digest" not in first["kernel"] else None


def _kept_again(folder: Path, kernel: str, here: kernels.Kernel, cell: Cell) -> tuple[dict[str, float], ...]:
    rows = (_read_again(folder, kernel, here, cell, draw) for draw in range(1, KERNELS_DRAWS + 1))
    return tuple(row["measures"] for row in rows if row is not None and "measures" in row)


def run_cells(
    cells: Sequence[Cell],
    engines: Sequence[str],
    folder: Path,
    *,
    told: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
) -> None:
    """Run what is not in `folder` yet, cell by cell, on "sim" and kernels by name; one file a run, whole or not at all.

    A simulator's run is of the engine of the day, and a kernel's of the kernel that has the name today: that of another
    is run again. A run whose machine was lost is told and not kept, so that the next call tries again.

    It ends before a run that begins after `seconds`; what is there is kept, and the next call goes on.
    """
    began = time.monotonic()
    here = _kernels(engines)
    for cell in cells:
        for engine in engines:
            found: dict[str, Any] = {"cell": asdict(cell), "engine": engine}
            if _read(folder, engine, here, cell) is not None:
                continue
            if time.monotonic() - began > seconds:
                return
            started = time.monotonic()
            if engine == "sim":
                found |= {"simulator": engine_fingerprint(), "measures": measure(tb.run(cell.scenario()))}
            else:
                try:
                    # A cell no guest can carry is reported as one, not left out.
                    found |= kept.attempt(cell.scenario(), here[engine], measure)
                except LostRun as lost:
                    told(f"{cell.number} of {len(cells)} on {engine}: lost, the next call tries again: {lost}")
                    continue
            found["wall_s"] = round(time.monotonic() - started, 2)
            with whole_file(_file(folder, engine, cell)) as partial:
                partial.write_text(json.dumps(found, indent=1) + "\n")
            told(f"{cell.number} of {len(cells)} on {engine}: {found['wall_s']} s")


def _kernels(engines: Sequence[str]) -> dict[str, kernels.Kernel]:
    return {engine: kernels.find(engine) for engine in engines if engine != "sim"}


def _file(folder: Path, engine: str, cell: Cell) -> Path:
    return kept.folder_of(folder, engine) / f"{cell.number:04d}.json"


def _read(folder: Path, engine: str, here: Mapping[str, kernels.Kernel], cell: Cell) -> dict[str, Any] | None:
    """What is kept of a cell on the simulator, or the kernel, of the day."""
    file = _file(folder, engine, cell)
    if engine != "sim":
        return kept.read(file, here[engine])
    row: dict[str, Any] | None = json.loads(file.read_text()) if file.is_file() else None
    return row if row is not None and row.get("simulator") == engine_fingerprint() else None


@dataclass(frozen=True)
class Error:
    """A cell's errors: the second engine against the first, relative."""

    cell: Cell
    goodput: float
    delay: float
    measures: tuple[dict[str, float], dict[str, float]]
    draws: tuple[dict[str, float], ...] = ()
    """What the second engine measures with other random numbers; empty unless asked for."""
    again: tuple[dict[str, float], ...] = ()
    """What the first engine measures with the first of the same numbers, where it was run again."""

    @property
    def is_within(self) -> bool:
        """Within both bounds?"""
        return abs(self.goodput) <= BOUNDS["goodput"] and abs(self.delay) <= BOUNDS["delay"]

    @property
    def is_chance(self) -> bool:
        """Does what is beyond its bound lie between the smallest and the largest of the second engine's own runs?"""
        return self._meets([self.measures[0]])

    @property
    def is_chance_of_first(self) -> bool:
        """If not: does another run of the first engine lie there, metric by metric?"""
        return not self.is_chance and self._meets(self.again)

    def _meets(self, firsts: Sequence[dict[str, float]]) -> bool:
        if self.is_within or not self.draws:
            return False
        beyond = [name for name, bound in BOUNDS.items() if abs(getattr(self, name)) > bound]
        runs = [self.measures[1], *self.draws]
        return all(
            any(min(run[name] for run in runs) <= first[name] <= max(run[name] for run in runs) for first in firsts)
            for name in beyond
        )

    @property
    def worst(self) -> float:
        """The larger of the two, in bounds."""
        return max(abs(self.goodput) / BOUNDS["goodput"], abs(self.delay) / BOUNDS["delay"])


def relative(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    """Errors of `b` against `a`, by the names of `BOUNDS`."""
    return {
        "goodput": b["goodput"] / a["goodput"] - 1 if a["goodput"] else math.nan,
        "delay": (b["delay"] - a["delay"]) / max(a["delay"], FLOOR_S),
    }


def errors(folder: Path, against: str, of: str, cells: Sequence[Cell]) -> tuple[list[Error], list[str]]:
    """The errors of engine `of` against `against` where both have run, and why others were refused.

    Runs of another build of the simulator, or of another kernel of the same name, do not count. The simulator's errors
    come with `draws`: what it measures with other random numbers.
    """
    found, refused = [], []
    here = _kernels((against, of))
    for cell in cells:
        read = [_read(folder, engine, here, cell) for engine in (against, of)]
        rows = [row for row in read if row is not None]
        if len(rows) < len(read):
            continue
        if any(row["cell"] != asdict(cell) for row in rows):
            raise tb.TailbackError(f"{folder}: cell {cell.number} is of another design. Give another folder")
        reasons = [row["refused"] for row in rows if "refused" in row]
        if reasons:
            refused.append(f"{cell.number}: {reasons[0]}")
            continue
        a, b = (row["measures"] for row in rows)
        others = tuple(draws(cell, folder)) if of == "sim" else ()
        again = _kept_again(folder, against, here[against], cell) if against in here else ()
        found.append(Error(cell, **relative(a, b), measures=(a, b), draws=others, again=again))
    return found, refused
