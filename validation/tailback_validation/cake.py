"""Compares CAKE's model with the kernel's `sch_cake`: the same path, only the queue differs.

Cells and bounds were written down before the first run. Each cell is run in the simulator with the model, and in a
guest with `kernel:cake`. `python -m tailback_validation.cake debian-6.1` runs in guests the cells that
`truth/cake-debian-6.1.json` lacks, and writes the page. A third argument limits the seconds in which guests may start.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tailback as tb
from tailback.files import write_text
from tailback.judge import Bounds, rule
from tailback_validation.queues import measure
from tailback_validation.sampled import stack_of
from tailback_validation.truth import FOLDER

__all__ = [
    "BOUNDS",
    "FLOOR_S",
    "NOISES_US",
    "TABLE",
    "AckCell",
    "CakeCell",
    "Judged",
    "QueueTruth",
    "ack_cells",
    "cells",
    "judged",
    "kept",
    "measured",
    "nulls",
    "page",
    "read",
    "run_cells",
    "run_missing",
    "simulated",
    "verdict",
]

BOUNDS = Bounds({"goodput": 0.02, "delay": 0.10})
"""Largest relative error of all transfers' goodput and of the first transfer's median queueing delay."""
SHARE = 0.95
"""Share of the cells that must be within both bounds."""
FLOOR_S = 0.001
"""A delay's error is relative to the kernel's, or to this if that is smaller."""
DURATION_S = 10.0
#: The paired null: hosts that delay each packet by up to N microseconds, in the simulator.
NOISES_US = (20, 100)
#: Draws of that noise for a cell that misses, to see whether the kernel's value lies among them.
DRAWS = 8
#: CAKE's RTT for a target of 5.1 ms, just above the wait of five packets at 12 Mbit/s; the target is a twentieth of it.
BEYOND_THE_EDGE = "102ms"
PAGE = FOLDER.parent / "docs" / "validation-cake.md"
#: The head of a table of cells.
TABLE = (
    "| path | run | goodput (Mbit/s) | transfer's delay, median and 95 % (ms) | call's (ms) | drops | marks |  |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
)


@dataclass(frozen=True)
class CakeCell:
    """A path with CUBIC transfers and a call."""

    rate_mbps: int
    rtt_ms: int
    transfers: int
    ecn: bool
    tins: str
    is_shaped: bool = False

    @property
    def name(self) -> str:
        """Key of the cell in the rows."""
        words = [f"{self.rate_mbps}mbit", f"{self.rtt_ms}ms", f"{self.transfers}x", "ecn" if self.ecn else "drop"]
        return "-".join([*words, self.tins, *(["shaped"] if self.is_shaped else [])])

    @property
    def label(self) -> str:
        """Label for readers."""
        extras = [*(["ECN"] if self.ecn else []), self.tins, *(["shaper"] if self.is_shaped else [])]
        return f"{self.rate_mbps} Mbit/s, {self.rtt_ms} ms, {self.transfers} of CUBIC, {', '.join(extras)}"

    def scenario(self, model_of: str = "") -> tb.Scenario:
        """The path in a kernel, or with the models of this kernel's queue and stack."""
        # The shaper's rate is below the link's, so that it is the bottleneck.
        shaper = {"rate": f"{0.9 * self.rate_mbps:g}mbit"} if self.is_shaped else {}
        stack = stack_of(model_of) | {"ecn": self.ecn}
        return tb.dumbbell(
            name=self.name,
            rate=f"{self.rate_mbps}mbit",
            rtt=f"{self.rtt_ms}ms",
            queue={"discipline": "cake" if model_of else "kernel:cake", "tins": self.tins, **shaper},
            # `measure` uses the first two flows.
            flows=[
                tb.bulk("cubic", name="transfer", stack=stack),
                tb.voip(name="call"),
                *(tb.bulk("cubic", name=f"other-{number}", stack=stack) for number in range(1, self.transfers)),
            ],
            duration=f"{DURATION_S:g}s",
            seed=20,
            instruments=tb.Instruments(packets=["transfer", "call"]),
        )


def cells() -> list[CakeCell]:
    """The forty cells, in an order that has each kind early."""
    plain = [
        CakeCell(rate, rtt, transfers, ecn, tins)
        for tins in ("besteffort", "diffserv3")
        for ecn in (False, True)
        for transfers in (1, 4)
        for rtt in (20, 80)
        for rate in (4, 12)
    ]
    shaped = [CakeCell(12, rtt, n, ecn, "diffserv3", True) for rtt in (20, 80) for n in (1, 4) for ecn in (False, True)]
    # Alternating: one in five is shaped.
    return [cell for at in range(8) for cell in (*plain[at::8], shaped[at])]


@dataclass(frozen=True)
class AckCell:
    """A transfer whose ACKs cross a slow reverse path with CAKE and its ACK filter, and a call."""

    back_kbps: int
    ack_filter: str

    rtt_ms = 40

    @property
    def name(self) -> str:
        """Key of the cell in the rows."""
        return f"acks-{self.back_kbps}kbit-{self.ack_filter}"

    @property
    def label(self) -> str:
        """Label for readers."""
        return f"{self.back_kbps} kbit/s back, ack_filter = {self.ack_filter}"

    def scenario(self, model_of: str = "") -> tb.Scenario:
        """The path in a kernel, or with the models of this kernel's queue and stack."""
        cake = {"discipline": "cake" if model_of else "kernel:cake", "tins": "besteffort"}
        return tb.dumbbell(
            name=self.name,
            rate="20mbit",
            rtt=f"{self.rtt_ms}ms",
            queue={"discipline": "fifo", "limit": "200packets"},
            back_rate=f"{self.back_kbps}kbit",
            back_queue=cake | {"ack_filter": self.ack_filter},
            flows=[tb.bulk("cubic", name="transfer", stack=stack_of(model_of)), tb.voip(name="call")],
            duration=f"{DURATION_S:g}s",
            seed=20,
            instruments=tb.Instruments(packets=["transfer", "call"]),
        )


def ack_cells() -> list[AckCell]:
    """The six cells: a reverse path 100 or 40 times slower, without the filter and with both kinds of it."""
    return [AckCell(rate, kind) for rate in (200, 500) for kind in ("none", "filter", "aggressive")]


class QueueTruth(Protocol):
    """A cell that both a kernel's queue and its model run."""

    @property
    def name(self) -> str:
        """Key of the cell in the rows."""

    @property
    def rtt_ms(self) -> int:
        """Round trip of the path."""

    def scenario(self, model_of: str = "") -> tb.Scenario:
        """The path in a kernel, or with the models of this kernel's queue and stack."""


def measured(result: tb.Result, rtt_ms: float) -> dict[str, float]:
    """The measures of `queues.measure`, but with the goodput of all transfers; the call is the second flow."""
    received = result.column("flows", "bytes_received")
    transfers = float(received.sum() - received[1])
    back = float(result.column("links", "dropped")[1:].sum())
    return measure(result, rtt_ms) | {"goodput": transfers * 8e-6 / result.duration_s, "dropped_back": back}


def kept(kernel: str) -> dict[str, dict[str, Any]]:
    """Stored rows of `kernel`, a name: by cell, the measures, the notes of the run and the kernel's build."""
    return read(_file(kernel))


def read(file: Path) -> dict[str, dict[str, Any]]:
    """The rows of a cells file; empty if the file does not exist."""
    found: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.is_file() else {}
    return found


def _file(kernel: str, kind: str = "cake") -> Path:
    return FOLDER / "truth" / f"{kind}-{kernel}.json"


def run_cells(
    kernel: str, *, seconds: float = math.inf, report: Callable[[str], object] = lambda _: None
) -> dict[str, dict[str, Any]]:
    """Run missing cells in guests, starting none after `seconds`. Returns all stored rows.

    A run whose machine was lost is tried again next time.
    """
    run_missing(_file(kernel, "cake-acks"), ack_cells(), kernel, seconds=seconds, report=report)
    return run_missing(_file(kernel), cells(), kernel, seconds=seconds, report=report)


def run_missing(
    file: Path,
    chosen: Sequence[QueueTruth],
    kernel: str,
    *,
    seconds: float = math.inf,
    report: Callable[[str], object] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Run in guests the `chosen` cells that `file` lacks, starting none after `seconds`. Returns the file's rows.

    A run whose machine was lost is tried again next time.
    """
    from tailback import vm

    rows, until = read(file), time.monotonic() + seconds
    for cell in chosen:
        if cell.name in rows:
            continue
        if time.monotonic() > until:
            break
        try:
            result = vm.run(cell.scenario(), kernel=kernel)
        except vm.LostRun as error:
            report(f"{cell.name}: lost, the next call tries again: {error}")
            continue
        about = {"notes": result.meta.get("notes", []), "kernel": result.meta.get("kernel")}
        rows[cell.name] = {"measures": measured(result, cell.rtt_ms), **about}
        write_text(file, json.dumps(rows, indent=1) + "\n")
        report(f"{len(rows)} of {len(chosen)}: {cell.name}")
    return rows


def simulated(
    cell: QueueTruth, kernel: str, jitter_us: int = 0, seed: int | None = None, rtt: str | None = None
) -> dict[str, float]:
    """The measures of a kernel's models, optionally on hosts that delay each packet by up to `jitter_us`."""
    scenario = cell.scenario(kernel)
    if rtt is not None:
        scenario = scenario.with_({"dumbbell.queue.rtt": rtt})
    if jitter_us:
        scenario = scenario.with_(randomness={"processing_jitter": f"{jitter_us}us"})
    if seed is not None:
        scenario = scenario.with_(seed=seed)
    return measured(tb.run(scenario), cell.rtt_ms)


@dataclass(frozen=True)
class Judged:
    """A cell with the measures of both engines."""

    cell: Any
    sim: dict[str, float]
    kernel: dict[str, float]
    #: The cell's label for readers.
    path: str = ""

    @property
    def errors(self) -> dict[str, float]:
        """The model's relative errors against the kernel, by the names of `BOUNDS`."""
        delay = self.sim["transfer_p50"] - self.kernel["transfer_p50"]
        return {
            "goodput": self.sim["goodput"] / self.kernel["goodput"] - 1.0,
            "delay": delay / max(self.kernel["transfer_p50"], FLOOR_S),
        }

    def is_within(self, *names: str) -> bool:
        """Whether these errors, by default all, are within their bounds."""
        return not set(BOUNDS.missed(self.errors)) & set(names or BOUNDS)

    def lines(self) -> list[str]:
        """The cell's two table rows, for the model and for the kernel."""
        missed = BOUNDS.missed(self.errors)
        out = []
        for run, found in (("model", self.sim), ("kernel", self.kernel)):
            is_sim = run == "model"
            goodput = f"{found['goodput']:.3f}" + (f" ({100 * self.errors['goodput']:+.1f} %)" if is_sim else "")
            median = f"{1e3 * found['transfer_p50']:.2f}" + (
                f" ({100 * self.errors['delay']:+.0f} %)" if is_sim else ""
            )
            verdict = ("within both" if not missed else f"misses {' and '.join(missed)}") if is_sim else ""
            out.append(
                f"| {self.path if is_sim else ''} | {run} | {goodput} | {median}, {1e3 * found['transfer_p95']:.2f} "
                f"| {1e3 * found['call_p50']:.2f}, {1e3 * found['call_p95']:.2f} "
                f"| {found['dropped']:.0f} | {found['marked']:.0f} | {verdict} |"
            )
        return out


def judged(kernel: str) -> list[Judged]:
    """Every cell that `kernel` has run, with the current simulator's measures."""
    rows = kept(kernel)
    there = [cell for cell in cells() if cell.name in rows]
    return [Judged(cell, simulated(cell, kernel), rows[cell.name]["measures"], cell.label) for cell in there]


def nulls(kernel: str, found: Sequence[Judged]) -> dict[int, list[Judged]]:
    """By noise: the simulator against itself on these cells, with the noise in the second run."""
    return {
        noise: [Judged(each.cell, each.sim, simulated(each.cell, kernel, noise), each.path) for each in found]
        for noise in NOISES_US
    }


def _spans(kernel: str, found: Sequence[Judged]) -> tuple[str, list[str]]:
    """For cells that miss: what a target off the edge makes of them, and the model's range over draws of host noise."""
    noises = " | ".join(f"up to {noise} µs" for noise in NOISES_US)
    lines = [f"| path | kernel (ms) | model, no noise | {noises} | a target of 5.1 ms |"]
    lines.append("| --- | ---: | ---: |" + " ---: |" * (len(NOISES_US) + 1))
    within: dict[bool, list[bool]] = {True: [], False: []}
    among = []
    for each in found:
        if each.is_within():
            continue
        spans = []
        everything = [each.sim["transfer_p50"]]
        for noise in NOISES_US:
            drawn = [simulated(each.cell, kernel, noise, seed)["transfer_p50"] for seed in range(1, DRAWS + 1)]
            spans.append(f"{1e3 * min(drawn):.2f} to {1e3 * max(drawn):.2f}")
            everything += drawn
        truth, model = (f"{1e3 * of['transfer_p50']:.2f}" for of in (each.kernel, each.sim))
        moved = Judged(each.cell, simulated(each.cell, kernel, rtt=BEYOND_THE_EDGE), each.kernel)
        is_moved = moved.is_within("delay")
        within[each.cell.transfers == 1].append(is_moved)
        if not is_moved:
            among.append(min(everything) <= each.kernel["transfer_p50"] <= max(everything))
        spans.append(f"{1e3 * moved.sim['transfer_p50']:.2f}, {'within' if is_moved else 'misses'}")
        lines.append(f"| {each.path} | {truth} | {model} | {' | '.join(spans)} |")
    said = (
        f"With it {sum(within[True])} of {len(within[True])} cells of one transfer are within, and "
        f"{sum(within[False])} of {len(within[False])} of four. In {sum(among)} of the {len(among)} that are left the "
        "kernel's median lies among the draws of the noise; "
        + ("the others have no mechanism yet." if not all(among) else "none is beyond them.")
    )
    return said, lines


def _acks(kernel: str) -> list[str]:
    """The cells of the ACK filter as a table."""
    rows = read(_file(kernel, "cake-acks"))
    lines = [
        "| path | goodput, model and kernel (Mbit/s) | acknowledgements dropped, model and kernel |  |",
        "| --- | ---: | ---: | --- |",
    ]
    for cell in ack_cells():
        if cell.name not in rows:
            continue
        sim, truth = simulated(cell, kernel), rows[cell.name]["measures"]
        errors = {
            "goodput": sim["goodput"] / truth["goodput"] - 1.0,
            "drops": sim["dropped_back"] / max(truth["dropped_back"], 1.0) - 1.0,
        }
        missed = [name for name, bound in (("goodput", 0.02), ("drops", 0.10)) if abs(errors[name]) > bound]
        lines.append(
            f"| {cell.label} | {sim['goodput']:.2f} ({100 * errors['goodput']:+.1f} %), {truth['goodput']:.2f} "
            f"| {sim['dropped_back']:,.0f} ({100 * errors['drops']:+.1f} %), {truth['dropped_back']:,.0f} "
            f"| {'misses ' + ' and '.join(missed) if missed else 'within both'} |"
        )
    return lines


def verdict(found: Sequence[Judged]) -> str:
    """The rule's verdict on these cells, in words."""
    counts = {name: sum(each.is_within(name) for each in found) for name in BOUNDS}
    both = sum(each.is_within() for each in found)
    said = rule(both >= SHARE * len(found))
    return (
        f"The rule is {said}: {both} of {len(found)} cells are within both bounds, {counts['goodput']} in goodput "
        f"and {counts['delay']} in delay."
    )


def _null(beside: Mapping[int, Sequence[Judged]]) -> str:
    counts = (f"with {noise} µs {sum(each.is_within() for each in rows)}" for noise, rows in beside.items())
    return (
        f"The null is the simulator against itself, the second time on hosts that delay each packet by up to N µs: "
        f"{', '.join(counts)} cells are within both.\nAn exact model of a host with so much noise would do no better."
    )


def page(kernel: str, found: Sequence[Judged]) -> str:
    """The page of these cells."""
    builds = {json.dumps(row["kernel"]): row["kernel"] for row in kept(kernel).values()}
    whose = "; ".join(f"{build['release']} {build['build']} ({build['digest']})" for build in builds.values())
    head = _HEAD.format(
        kernel=kernel,
        duration=f"{DURATION_S:g}",
        cells=len(found),
        share=f"{100 * SHARE:g}",
        goodput=f"{100 * BOUNDS['goodput']:g}",
        delay=f"{100 * BOUNDS['delay']:g}",
        floor=f"{1e3 * FLOOR_S:g}",
        whose=whose,
    )
    kinds: dict[str, Callable[[CakeCell], bool]] = {
        "one transfer, 20 ms": lambda cell: cell.transfers == 1 and cell.rtt_ms == 20,
        "one transfer, 80 ms": lambda cell: cell.transfers == 1 and cell.rtt_ms == 80,
        "four transfers, 20 ms": lambda cell: cell.transfers == 4 and cell.rtt_ms == 20,
        "four transfers, 80 ms": lambda cell: cell.transfers == 4 and cell.rtt_ms == 80,
        "with the shaper": lambda cell: cell.is_shaped,
        "with ECN": lambda cell: cell.ecn,
        "without ECN": lambda cell: not cell.ecn,
    }
    by_kind = ["| cells | of | within both | in goodput | in delay |", "| --- | ---: | ---: | ---: | ---: |"]
    for kind, is_of in kinds.items():
        mine = [each for each in found if is_of(each.cell)]
        within = (sum(each.is_within(*names) for each in mine) for names in ((), ("goodput",), ("delay",)))
        by_kind.append(f"| {kind} | {len(mine)} | " + " | ".join(str(count) for count in within) + " |")
    table = [*TABLE]
    for each in found:
        table += each.lines()
    said, spans = _spans(kernel, found)
    acks = "\n".join(_acks(kernel))
    parts = [
        head,
        verdict(found),
        _null(nulls(kernel, found)),
        "\n".join(by_kind),
        _MECHANISMS,
        said,
        "\n".join(spans),
        _ACKS,
        acks,
        _CELLS,
        "\n".join(table),
    ]
    return "\n\n".join(parts) + "\n"


_HEAD = """# CAKE's model against the kernel's

`python -m tailback_validation.cake {kernel}` writes this page. Read it to see how far CAKE's model can
stand in for the kernel's. CUBIC transfers and a call cross one CAKE for {duration} s:
in the simulator with the model, and on `{kernel}` with the kernel's `sch_cake`. The {cells} cells: 4 and
12 Mbit/s, round trips of 20 and 80 ms, one transfer or four, ECN or not, one tin or three. Eight of them are with
CAKE's own shaper at nine tenths of the link.

The rule was written before the first run, for {share} % of the cells. The transfers' goodput differs from the kernel's
by {goodput} % at most. The first transfer's median queueing delay differs by {delay} % at most, or by {delay} % of
{floor} ms where the kernel's is smaller than that. Delays are those of packets, without propagation and without their
own time on the wire.

Whose runs these are: {whose}."""

_MECHANISMS = """## What was behind the differences

- *Hosts.* Until 22 of 40 cells were within both bounds, every flow in a guest had addresses of its own. CAKE's quantum
  is 1514/h bytes, where h is the number of busy flows of the packet's busiest host. In the scenario four flows share a
  host, and the kernel saw four hosts. The guest now gives `kernel:cake` the scenario's hosts, and all 40 cells were
  run again.
- *Queues that decay.* Each dequeue first looks at one queue that is empty and has counted signals, not only when no
  other waits. A queue leaves the rotation once it counts none, BLUE is zero and its interval is over.
- *Places.* A flow goes back to the queue it had, even if the one it hashes to is free again.
- *Part of what is left* is the edge of the target. At 12 Mbit/s a packet lasts 1 ms and the target is five of them. A
  packet behind five others has waited 5.00 ms in the simulator, and in a guest some microseconds more or less. The
  table has the medians of the cells that miss, in eight draws of noise, and last with `rtt = "102ms"`, which makes the
  target 5.1 ms. Expected before that run: cells of one transfer are then within the bound of the delay, and half of
  those of four, where a drop more or less moves the median. The comparison with the draws came after that run."""

_ACKS = """## The ACK filter

A CUBIC transfer of 20 Mbit/s, whose acknowledgements and the call's packets cross a slow way back with CAKE. The rule,
written before the first run: goodput within 2 %, acknowledgements dropped within 10 %."""

_CELLS = "## The cells"


def main(kernel: str, seconds: float = math.inf) -> None:
    """Run missing cells in guests until `seconds` have passed, and write the page."""
    run_cells(kernel, seconds=seconds, report=print)
    found = judged(kernel)
    write_text(PAGE, page(kernel, found))
    print(f"{sum(each.is_within() for each in found)} of {len(found)} within both bounds: {PAGE.name}")


if __name__ == "__main__":
    main(sys.argv[1], *(float(word) for word in sys.argv[2:3]))
