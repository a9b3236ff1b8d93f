"""A permanent comparison: every algorithm on few paths, and the cells in which kernel and simulator differ.

The grid and the rule were written before the first cell was run. A cell *parts* if in some measure all of the kernel's
starts lie above, or all below, every start of the simulator, by more than `FLOORS`. An exact model would part in one
measure of some 900: all three of one set above or below the twenty of another, 2 / C(23, 3).
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tailback as tb
from tailback.experiment.store import engine_fingerprint
from tailback.files import whole_file
from tailback.judge import gap
from tailback.result import Result
from tailback_papers.stacks import PROGRAM
from tailback_validation.kernel_rows import Row, Rows, file_name, run
from tailback_validation.sampled import stack_of

__all__ = ["ALGORITHMS", "FLOORS", "Cell", "Parted", "cells", "measure", "parted", "study"]

ALGORITHMS = (
    "reno",
    "cubic",
    "bbr",
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
    "dctcp",
)
TRANSPORTS = ("quinn", "noq", "s2n-quic")
DEPTHS_BDP = (0.1, 0.3, 1.0)
RATES_MBPS = (3, 25, 200)
SETTINGS = ("alone", "unequal", "cubic")
PHASED_MBPS = 3
"""Rate at which the round trip is a whole number of packet times."""
RTT_MS = 40
LEAST_QUEUE = 4
"""Packets that the smallest queue holds. At 3 Mbit/s it takes the place of 0.1 and of 0.3 BDP, which are one cell."""
DURATION_S = 45
STARTS, KERNELS_STARTS = 20, 3
"""Number of starts of the simulator and of the kernel: other seeds, and flows that start up to `SPREAD` later."""
SPREAD = "20ms"
NOISE = "100us"
"""Noise of hosts with which cells that part are simulated once more. A guest's packets are 120 µs late."""
APART_US = {"quinn": 27, "noq": 31, "s2n-quic": 28}
"""How far apart a guest's program sends the datagrams of one answer: `tailback_validation.answers`, beside CUBIC."""
BESIDE_MBPS, BESIDE_BDP = 20, (0.25, 1.0, 4.0)
"""Paths on which each QUIC stack runs beside Linux's CUBIC, before all other cells."""

ENOUGH = 0.1
"""Share of the cells below which the page says that it says nothing."""

FLOORS = {"goodput": 0.01, "share": 0.01, "delay": 0.0005, "dropped": 10.0}
"""Smaller differences do not count: goodput relative, the first flow's share, delay in s, dropped packets."""


@dataclass(frozen=True)
class Cell:
    """A sender (algorithm or QUIC stack) on a path: alone, with a second of twice the round trip, or beside CUBIC."""

    sender: str
    depth_bdp: float
    rate_mbps: int
    setting: str

    @property
    def name(self) -> str:
        """Key of the cell in the rows."""
        return f"{self.sender} {self.depth_bdp:g} BDP {self.rate_mbps} Mbit/s {self.setting}"

    @property
    def queue_packets(self) -> int:
        """Size of the queue: at least four packets."""
        return max(LEAST_QUEUE, round(self.depth_bdp * self.rate_mbps * 1e6 * RTT_MS * 1e-3 / 12_000))

    def scenario(self, start: int, *, beside: str = "", is_spaced: bool = False) -> tb.Scenario:
        """The scenario of both engines, each start with its seed.

        `beside`: the simulator's, with the stack that models this kernel, and a QUIC stack as late as a guest's. With
        `is_spaced` the stack also sends its datagrams as far apart as a guest's.
        """
        is_program = bool(beside) and self.sender in TRANSPORTS
        stack = stack_of(beside)
        first = self._flow("first", stack, PROGRAM if is_program else "0s")
        if is_spaced:
            rate = f"{12_000 / APART_US[self.sender]:.0f}mbit"
            first = first.with_(access_schedule=[{"at": "1ms", "delay": PROGRAM, "rate": rate}])
        flows = [first]
        if self.setting == "unequal":
            flows.append(self._flow("second", stack, f"{RTT_MS // 2}ms"))
        elif self.setting == "cubic":
            flows.append(tb.bulk("cubic", name="second", stack=stack))
        return tb.dumbbell(
            name="standing",
            rate=f"{self.rate_mbps}mbit",
            rtt=f"{RTT_MS}ms",
            queue=f"{1500 * self.queue_packets}B",
            flows=flows,
            duration=f"{DURATION_S}s",
            seed=1 + start,
            randomness={"start_spread": SPREAD},
            instruments=tb.Instruments(queue_polls=["bottleneck"], poll_interval="10ms"),
        )

    def _flow(self, name: str, stack: Mapping[str, Any], access_delay: str = "0s") -> tb.Flow:
        if self.sender in TRANSPORTS:
            return tb.flow("bulk", name=name, transport=self.sender, access_delay=access_delay)
        return tb.bulk(self.sender, name=name, stack=dict(stack), access_delay=access_delay)


def cells() -> list[Cell]:
    """QUIC stacks beside CUBIC; then cheap cells first, and each sender in turn, so that a partial run is fair."""
    beside = [Cell(sender, depth, BESIDE_MBPS, "cubic") for depth in BESIDE_BDP for sender in TRANSPORTS]
    grid = itertools.product(RATES_MBPS, SETTINGS, DEPTHS_BDP, (*ALGORITHMS, *TRANSPORTS))
    # A QUIC stack alone does not involve the kernel: both its path and its model are tailback's.
    drawn = [
        Cell(sender, depth, rate, setting)
        for rate, setting, depth, sender in grid
        if sender in ALGORITHMS or setting == "cubic"
    ]
    paths = {(cell.sender, cell.rate_mbps, cell.setting, cell.queue_packets): cell for cell in reversed(drawn)}
    return beside + [cell for cell in drawn if cell in paths.values()]


def measure(result: Result) -> dict[str, float]:
    """Goodput of all flows in Mbit/s, the first one's share, median queueing delay in s, and dropped packets."""
    received = result.numpy("flows")["bytes_received"].astype(float)
    backlog = result.numpy("queue_polls")["backlog_bytes"]
    rate = float(result.resolved["links"][0]["rate_bps"])
    return {
        "goodput": float(received.sum()) * 8e-6 / result.duration_s,
        "share": float(received[0] / received.sum()) if received.sum() else math.nan,
        "delay": float(np.median(backlog)) * 8 / rate,
        "dropped": float(result.numpy("links")["dropped"][0]),
    }


@dataclass(frozen=True)
class Parted:
    """A cell in which the kernel lies on one side of the simulator: the measure, and both sides' values."""

    cell: Cell
    measure: str
    kernel: tuple[float, ...]
    simulator: tuple[float, ...]

    @property
    def gap(self) -> float:
        """Gap between the nearest values of both sides, in units of `FLOORS`: at least 1."""
        return _gap(self.measure, self.kernel, self.simulator)


def _gap(name: str, kernel: Sequence[float], simulator: Sequence[float]) -> float:
    floor = FLOORS[name] * (float(np.mean(simulator)) if name == "goodput" else 1.0)
    return gap(kernel, simulator) / floor if floor else 0.0


def parted(cell: Cell, kernel: Sequence[dict[str, float]], simulator: Sequence[dict[str, float]]) -> list[Parted]:
    """The measures in which a cell parts."""
    out = []
    for name in FLOORS:
        sides = tuple(tuple(run[name] for run in runs) for runs in (kernel, simulator))
        if _gap(name, *sides) > 1:
            out.append(Parted(cell, name, *sides))
    return out


def study(
    kernel: str,
    folder: Path,
    out: Path,
    *,
    report: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Run the cells that `kernel` lacks in `folder`, and write the page of all settled cells.

    A cell is settled by `KERNELS_STARTS` starts, or by fewer once no measure can part any more. Starts no run after
    `seconds`. Returns the number of cells and those that differ, as JSON-compatible data.
    """
    rows = Rows(folder / file_name("standing", kernel))
    until = time.monotonic() + seconds
    simulator = functools.cache(functools.partial(_simulator, kernel))

    def started(cell: Cell, start: int) -> Row | None:
        scenario = cell.scenario(start)
        run(rows, [(cell.name, start, scenario)], kernel, measure, report=report, until=until)
        return rows.find(cell.name, start, scenario)

    there = {cell: _settling(cell, functools.partial(started, cell), simulator) for cell in cells()}
    settled = {cell: starts for cell, starts in there.items() if starts}
    refused = [cell for cell, starts in there.items() if starts == []]
    apart = [each for cell, starts in settled.items() for each in parted(cell, starts, simulator(cell))]
    where = list({each.cell: None for each in apart})
    noisy = {cell: _simulator(kernel, cell, noise=NOISE) for cell in where}
    spaced = {cell: _simulator(kernel, cell, is_spaced=True) for cell in where if cell.sender in TRANSPORTS}
    if settled:
        about = [*rows.about(), f"guests {', '.join(rows.guests())}", f"simulator {engine_fingerprint()}"]
        with whole_file(out) as partial:
            partial.write_text("\n".join(_page(kernel, list(settled), refused, apart, noisy, spaced, about)) + "\n")
    return {
        "cells": len(settled),
        "of": len(cells()),
        "parted": [{"cell": each.cell.name, "measure": each.measure, "gap": each.gap} for each in apart],
        "refused": [cell.name for cell in refused],
    }


def _settling(
    cell: Cell, started: Callable[[int], Row | None], simulator: Callable[[Cell], Sequence[dict[str, float]]]
) -> list[dict[str, float]] | None:
    """Measures of the kernel's starts that settle a cell; empty if a guest refused one, `None` if one was not run."""
    found: list[dict[str, float]] = []
    for start in range(KERNELS_STARTS):
        row = started(start)
        if row is None:
            return None
        if row.refused:
            return []
        found.append(row.measures)
        if not parted(cell, found, simulator(cell)):
            break
    return found


def _simulator(kernel: str, cell: Cell, noise: str = "0s", *, is_spaced: bool = False) -> list[dict[str, float]]:
    """The measures of a cell's simulated starts, on hosts that delay each packet by up to `noise`."""
    randomness = {"start_spread": SPREAD, "processing_jitter": noise}
    chosen = (cell.scenario(start, beside=kernel, is_spaced=is_spaced) for start in range(STARTS))
    starts = (scenario.with_(randomness=randomness) for scenario in chosen)
    return tb.run_many(starts, then=measure)


def _so_far(carried: int) -> str:
    """What so few cells say."""
    share = carried / len(cells())
    return f" {100 * share:.0f} % run: this says nothing yet." if share < ENOUGH else ""


def _page(
    kernel: str,
    carried: Sequence[Cell],
    refused: Sequence[Cell],
    apart: Sequence[Parted],
    noisy: Mapping[Cell, Sequence[dict[str, float]]],
    spaced: Mapping[Cell, Sequence[dict[str, float]]],
    about: Sequence[str],
) -> Iterator[str]:
    where = {each.cell for each in apart}
    gaps = [(each.cell, _gap(each.measure, each.kernel, _of(each.measure, noisy[each.cell]))) for each in apart]
    still = {cell for cell, gap in gaps if gap > 1}
    unknown = {
        each.cell
        for each in apart
        if each.cell in still
        and (each.cell not in spaced or _gap(each.measure, each.kernel, _of(each.measure, spaced[each.cell])) > 1)
    }
    near = {cell for cell, gap in gaps if 0 < gap <= 1} - still
    closed = " and ".join(str(rate) for rate in sorted({cell.rate_mbps for cell in where - still} - {PHASED_MBPS}))
    rates = sorted({cell.rate_mbps for cell in cells()})
    of_rates = ", ".join(
        f"{sum(cell.rate_mbps == rate for cell in carried)} of {sum(cell.rate_mbps == rate for cell in cells())} at "
        f"{rate} Mbit/s"
        for rate in rates
    )
    yield from (
        "# Where the kernel and the simulator part",
        "",
        f"**{len(carried)} of {len(cells())} cells have been run; {len(where)} of them part, "
        f"{f'{len(still)} also' if still else 'none'} from a simulator whose hosts have noise."
        f"{_so_far(len(carried))}**",
        "",
        "`tailback validate --engine vm --standing` writes this page. Read it to see which algorithm's results to",
        "distrust, and where. Every algorithm runs alone, with a second flow of twice the round trip, and beside",
        f"CUBIC. Paths have {', '.join(map(str, RATES_MBPS))} Mbit/s and queues of 0.1, 0.3 and 1 BDP of {RTT_MS} ms,",
        f"but at least {LEAST_QUEUE} packets: at 3 Mbit/s 0.1 and 0.3 BDP are one path. QUIC stacks run beside Linux",
        f"CUBIC, there and first on paths of {BESIDE_MBPS} Mbit/s with 0.25, 1 and 4 BDP. A run lasts {DURATION_S} s.",
        "",
        f"Cells that take a guest the least time are run first. So far: {of_rates}.",
        "",
        f"A cell parts if all {KERNELS_STARTS} starts of the kernel lie on one side of all {STARTS} starts of the",
        "simulator. They must differ by more than 1 % of goodput, a point of share, half a millisecond of median",
        "queueing delay or ten dropped packets. An exact model would part in one measure of some 900. The rule was",
        "written before the first run. A start within the simulator's range settles that a cell does not part, and",
        "the kernel's other starts are then not run.",
        "",
        f"Whose runs these are: {'; '.join(about)}.",
        "",
        f"## The simulator against {kernel}",
        "",
        "| sender | cells | part |",
        "| --- | ---: | ---: |",
    )
    for sender in (*ALGORITHMS, *TRANSPORTS):
        own = [cell for cell in carried if cell.sender == sender]
        if own:
            yield f"| {sender} | {len(own)} | {sum(cell in where for cell in own)} |"
    if apart:
        yield from (
            "",
            f"At {PHASED_MBPS} Mbit/s the round trip is a whole number of packet times, ten. A packet that an ACK",
            "releases then reaches the full queue in the instant in which another leaves it. Which of both is first",
            "repeats all through a run, and decides who loses (S. Floyd and V. Jacobson, On Traffic Phase Effects in",
            "Packet-Switched Gateways, 1992). The simulator's hosts are exact and keep the phase; a guest's packets",
            f"are some 120 µs late. The last columns have hosts that delay each packet by up to {NOISE[:-2]} µs",
            "(`randomness.processing_jitter`). They were added after cells that part had been seen.",
            "",
            f"A QUIC stack is a program. In the simulator it is {PROGRAM[:-2]} µs late each way, as in a guest, but",
            "sends an answer's datagrams at once. A guest's leave one by one, in the last column with gaps as",
            f"measured there (`python -m tailback_validation.answers {kernel}`): {_listed(APART_US)}.",
            "",
            f"At {closed} Mbit/s the same noise closes the gap; why is not known." * bool(closed)
            + f" Datagrams apart close that of {_names(still - unknown)}." * bool(still - unknown)
            + f" No mechanism is known of {_names(unknown)}." * bool(unknown)
            + (f"\nBy less than the rule counts the kernel lies outside its range in {_names(near)}." if near else ""),
            "",
            "| cell | measure | kernel | simulator | with noise | parts from that | datagrams apart |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        )
    for each in sorted(apart, key=lambda each: -each.gap):
        loud = _of(each.measure, noisy[each.cell])
        sides = (f"{min(values):.4g} to {max(values):.4g}" for values in (each.kernel, each.simulator, loud))
        parts = "yes" if _gap(each.measure, each.kernel, loud) > 1 else "no"
        gapped = _of(each.measure, spaced[each.cell]) if each.cell in spaced else ()
        last = f"{min(gapped):.4g} to {max(gapped):.4g}" if gapped else ""
        yield f"| {each.cell.name} | {_UNITS[each.measure]} | " + " | ".join(sides) + f" | {parts} | {last} |"
    if refused:
        yield from ("", "No guest carried: " + ", ".join(cell.name for cell in refused) + ".")


def _listed(apart_us: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {us} µs" for name, us in apart_us.items())


def _names(which: Iterable[Cell]) -> str:
    return ", ".join(sorted(f"`{cell.name}`" for cell in which))


def _of(name: str, runs: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
    """One measure of several runs."""
    return tuple(run[name] for run in runs)


_UNITS = {
    "goodput": "goodput, Mbit/s",
    "share": "share of the first flow",
    "delay": "median queueing delay, s",
    "dropped": "dropped packets",
}
