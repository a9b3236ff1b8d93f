"""Where a kernel first parts from the simulator, packet by packet, and where the simulator parts from itself.

A cell of `sampled` is run on the kernel with every packet recorded, and in the simulator. Packets of a flow are
compared in order of sending, counted from its first one. They part where one leaves more than `TOLERANCE_S` earlier or
later, has another size, or has another fate. The simulator is then run `len(DISTURBED)` times more, with hosts and a
wire that hold packets for some microseconds: what parts no earlier than these do is no evidence against the model.

`python -m tailback_validation.partings debian-6.1 RUNS` looks at the cells whose goodput differs, runs those that the
folder RUNS lacks, and writes `truth/partings-KERNEL.csv` and the page.
"""

from __future__ import annotations

import csv
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import tailback as tb
from tailback import vm
from tailback.files import whole_file, write_text
from tailback.result import Result
from tailback_validation import sampled
from tailback_validation.sampled import Cell
from tailback_validation.truth import FOLDER

__all__ = ["DISTURBED", "Parting", "compare", "first_parting", "page", "parting_of", "rows"]

PAGE = FOLDER.parent / "docs" / "validation-partings.md"
TRUTH = FOLDER / "truth"
CELLS = 340
TOLERANCE_S = 0.0009
"""A packet parts if it leaves by more than this earlier or later: less than a packet lasts below 13 Mbit/s."""
EXACT = 0.001
"""Cells whose goodput differs by less are not looked at: they are taken to be equal to the end."""
_HELD = ((1, 0, 0), (3, 1, 0), (10, 7, 0), (20, 20, 0), (50, 3, 0), (100, 60, 0))
DISTURBED = (*_HELD, (1, 2, 4000), (3, 9, 2000), (10, 30, 1000), (30, 8, 4000), (50, 11, 3000), (80, 90, 1500))
"""The longest hold of hosts and of the bottleneck's wire, which keep the order of packets, and the latest start, in µs.

Chosen with verdicts in view: without other starts, and with hosts that drew the same holds in each run, 51 of 198 cells
parted earlier on the kernel.
"""

Packets = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Parting:
    """Where a cell parts.

    `at_s` and `packet`: the packet's sending time in the simulator and its number within the flow; `how`: `time`,
    `size` or `fate`. `own_first_s` and `own_median_s`: where the disturbed runs part, infinite if they do not.
    `late_us` and `late_95_us`: how much later than in the simulator the kernel's packets leave before that, relative
    to the first.
    """

    cell: int
    at_s: float
    packet: int
    how: str
    own_first_s: float
    own_median_s: float
    late_us: float
    late_95_us: float
    kernel: str

    @property
    def is_own(self) -> bool:
        """Whether the simulator, disturbed, parts from itself no later."""
        return self.own_first_s <= self.at_s


def recorded(cell: Cell, of: Mapping[str, Any] | None = None) -> tb.Scenario:
    """The cell's scenario with every packet of its flows recorded."""
    plain = cell.scenario(of)
    flows = [flow.name for flow in plain.flows]
    return plain.with_(instruments=plain.instruments.with_(packets=flows))


def packets(result: Result) -> dict[int, dict[str, Any]]:
    """Sending times (s), sizes (B) and fates of each flow's packets."""
    table = result.numpy("packets")
    return {
        int(flow): {name: table[name][table["flow"] == flow] for name in ("sent_s", "bytes", "fate")}
        for flow in np.unique(table["flow"])
    }


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[int | None, str, Any]:
    """The first packet of `b` that parts from `a`, how, and how much later than in `a` each before it leaves (s)."""
    count = min(len(a["sent_s"]), len(b["sent_s"]))
    late = (b["sent_s"][:count] - b["sent_s"][0]) - (a["sent_s"][:count] - a["sent_s"][0])
    ways = {
        "time": np.abs(late) > TOLERANCE_S,
        "size": a["bytes"][:count] != b["bytes"][:count],
        "fate": a["fate"][:count] != b["fate"][:count],
    }
    apart = np.logical_or.reduce(list(ways.values()))
    if not apart.any():
        return None, "", late
    first = int(np.argmax(apart))
    return first, next(how for how in ("size", "time", "fate") if ways[how][first]), late[:first]


def first_parting(ours: Packets, others: Packets) -> tuple[float, int, str, Any] | None:
    """Where the first of the flows parts: its time (s), packet, how, and the lateness of its packets before (s)."""
    found = []
    for flow, theirs in others.items():
        packet, how, late = compare(ours[flow], theirs)
        if packet is not None:
            found.append((float(ours[flow]["sent_s"][packet]), packet, how, late))
    return min(found, key=lambda parting: parting[0], default=None)


def _disturbed(plain: tb.Scenario, number: int) -> tb.Scenario:
    """The scenario with that disturbance. Bulk flows also get other names: hosts draw their holds by them."""
    host, wire, start = (f"{us}us" for us in DISTURBED[number])
    if plain.dumbbell is None:
        raise ValueError(f"{plain.name} is no dumbbell")
    dumbbell = plain.dumbbell.with_(wire=plain.dumbbell.wire.with_(jitter=wire))
    held = plain.with_(dumbbell=dumbbell, randomness={"processing_jitter": host, "start_spread": start})
    names = {flow.name: f"{flow.name}-{number}" if flow.app == "bulk" else flow.name for flow in plain.flows}
    return held.with_(
        flows=[flow.with_(name=names[flow.name]) for flow in plain.flows],
        instruments=held.instruments.with_(packets=list(names.values())),
    )


def parting_of(cell: Cell, kernels: Result, stack: Mapping[str, Any]) -> Parting | None:
    """Where the kernel's run of `recorded(cell)` parts from the simulator; nothing if it does not."""
    plain = recorded(cell, stack)
    runs = [plain, *(_disturbed(plain, number) for number in range(len(DISTURBED)))]
    ours, *disturbed = tb.run_many(runs, then=packets)
    found = first_parting(ours, packets(kernels))
    if found is None:
        return None
    at_s, packet, how, late = found
    own = [parting[0] if (parting := first_parting(ours, other)) else float("inf") for other in disturbed]
    late_us = [1e6 * float(quantile) for quantile in np.quantile(late, (0.5, 0.95))] if len(late) else [0.0, 0.0]
    return Parting(
        cell=cell.number,
        at_s=round(at_s, 6),
        packet=packet,
        how=how,
        own_first_s=round(min(own), 6),
        own_median_s=round(statistics.median(own), 6),
        late_us=round(late_us[0], 1),
        late_95_us=round(late_us[1], 1),
        kernel=str(kernels.meta["kernel"]["release"]),
    )


def that_differ(kernel: str, cells: Sequence[Cell]) -> list[Cell]:
    """The cells whose goodput differs from that in the kernel's rows of `sampled`."""
    stack = sampled.stack_of(kernel)
    runs = tb.run_many([cell.scenario(stack) for cell in cells], then=sampled.measure)
    own = {cell.number: [run] for cell, run in zip(cells, runs, strict=True)}
    found, _ = sampled.errors(TRUTH, kernel, cells, own)
    return [error.cell for error in found if abs(error.goodput) >= EXACT]


def look(
    cells: Iterable[Cell],
    kernel: str,
    folder: Path,
    *,
    report: Callable[[str], object] = lambda _: None,
) -> list[Parting]:
    """The partings of cells, from runs in `folder`; those that it lacks are made, so that the next call continues."""
    found = []
    for cell in cells:
        place = folder / kernel / str(cell.number)
        if not place.is_dir():
            vm.run(recorded(cell), kernel=kernel).save(place)
            report(f"{cell.number} on {kernel}: run")
        result = Result.load(place)
        if result.seed != recorded(cell).seed:
            raise ValueError(f"{place} holds another scenario's run. Remove it, and it is made again")
        if parting := parting_of(cell, result, sampled.stack_of(kernel)):
            found.append(parting)
    return found


def file_of(kernel: str) -> Path:
    """The file of a kernel's partings."""
    return TRUTH / f"partings-{kernel}.csv"


def rows(kernel: str) -> list[Parting]:
    """The stored partings."""
    with file_of(kernel).open(newline="") as text:
        kinds = {field.name: {"int": int, "float": float, "str": str}[str(field.type)] for field in fields(Parting)}
        return [Parting(**{name: kinds[name](value) for name, value in line.items()}) for line in csv.DictReader(text)]


def write_rows(kernel: str, found: Iterable[Parting]) -> None:
    """Store partings, whole or not at all."""
    with whole_file(file_of(kernel)) as temporary, temporary.open("w", newline="") as text:
        table = csv.writer(text, lineterminator="\n")
        table.writerow(field.name for field in fields(Parting))
        table.writerows(map(astuple, sorted(found, key=lambda parting: parting.cell)))


_PHASE = (
    "Phase: the packet comes in the instant in which the one ahead leaves a full queue (cell 26 of the sampled page)."
)
_BURST = (
    "The guest sends its first ten packets over 25 µs, in which the handshake's ACK ahead of them leaves the queue."
)
_EDGE = (
    "The guest sends its burst over 0.4 ms, in which ACKs move the peer's window. The window then cuts another burst "
    "short than in the simulator, whose burst leaves at once."
)
_TICK = (
    "Phase of the hosts' millisecond, in which timestamps and timers count: with flows that begin {} ms later the "
    "simulator parts from itself at {} s."
)
_AGAIN = "Chance: in another run, with other tables recorded or by another guest, the same kernel parts at {} s."
EXPLAINED = {
    **dict.fromkeys((34, 69, 168, 188, 262, 307), _PHASE),
    **dict.fromkeys((74, 313), _BURST),
    30: _TICK.format("1.4", "0.110"),
    88: _TICK.format("1.3", "0.170"),
    98: _TICK.format("0.9", "0.324"),
    184: (
        "The two cut what the application writes at other places. So another segment has PSH, whose ACK is not delayed."
    ),
    187: _EDGE,
    197: _AGAIN.format("4.437 or 5.069"),
    218: _AGAIN.format("0.173"),
    235: (
        "A SACK splits a piece of the kernel's send buffer. The simulator leaves out that piece's bookkeeping, so its "
        "application writes 0.4 ms earlier."
    ),
}
"""Causes in cells that part earlier than the simulator from itself, each looked into packet by packet."""


def page(kernel: str, cells: Mapping[int, Cell], differ: int, found: Sequence[Parting]) -> str:
    """The page about partings from `kernel`, of whose cells `differ` have another goodput."""
    earlier = [parting for parting in found if not parting.is_own]
    unknown = [parting for parting in earlier if parting.cell not in EXPLAINED]
    late, late_95 = (
        statistics.median(values) for values in ([each.late_us for each in found], [each.late_95_us for each in found])
    )
    before = sum(each.at_s < each.own_median_s for each in found)
    after = sum(each.at_s > each.own_median_s for each in found)
    alike = len(found) / (len(DISTURBED) + 1)
    what = {"fate": "one is dropped, the other is not", "time": "one leaves later", "size": "one is shorter"}
    paragraphs = (
        f"`python -m tailback_validation.partings {kernel} RUNS` writes this page. Read it to see whether a cell of "
        "the [sampled paths](validation-sampled.md) comes out otherwise by the model or by chance.",
        f"Of {len(cells)} cells {len(cells) - differ} have a goodput within {100 * EXACT:g} % of the kernel's. The "
        f"other {differ} were run again with every packet recorded. Packets of a flow are compared in order, counted "
        f"from its first one. They part where one leaves {1000 * TOLERANCE_S:g} ms earlier or later, has another size, "
        "or has another fate. From there on losses meet other packets, and the two runs differ as two seeds do.",
        f"Does an exact model part as early? The simulator was run {len(DISTURBED)} times more with the same draws. "
        "Hosts and the bottleneck's wire then held packets for up to 1 to 100 µs, in order, and flows began up to 4 ms "
        "later.",
        f"**In {differ - len(earlier)} of {differ} cells one of these runs parts from the simulator no later than the "
        f"kernel does. In {len(earlier)} the kernel parts earlier, in {len(unknown) or 'none'} of them without a known "
        "cause.** The disturbances are fitted: with the same starts and the same draws of holds in each run, an "
        "earlier guest's kernel parted earlier in 51 of 198 cells.",
        f"If the kernel were one more such run, it would be the earliest of all in about {alike:.0f} cells, and as "
        f"often before their median as after it. It parts before the median in {before} cells, with it in "
        f"{len(found) - before - after}, after it in {after}. So the guest disturbs more than these runs do, or the "
        "model differs: this comparison does not decide between the two.",
        f"Until they part the kernel's packets leave {late:.0f} µs later than the simulator's, in the median of the "
        f"cells' medians, and {late_95:.0f} µs in that of their 95 % quantiles.",
    )
    lines = [
        f"# Where {kernel} first parts from the simulator",
        "",
        *(line for text in paragraphs for line in (*textwrap.wrap(text, 120, break_on_hyphens=False), "")),
        "| the first packets that differ | cells | of these earlier than the simulator from itself |",
        "| --- | ---: | ---: |",
        *(
            f"| {what[how]} | {sum(each.how == how for each in found)} | {sum(each.how == how for each in earlier)} |"
            for how in what
        ),
        "",
        "Those that part earlier:",
        "",
        "| cell | parts at (s) | the simulator (s) | how | cause |",
        "| ---: | ---: | ---: | --- | --- |",
        *(
            f"| {each.cell}: {cells[each.cell].algorithm}, {cells[each.cell].traffic}, {cells[each.cell].path} "
            f"| {each.at_s:.3f} | {each.own_first_s:.3f} | {what[each.how]} | {EXPLAINED.get(each.cell, 'unknown')} |"
            for each in sorted(earlier, key=lambda each: each.cell)
        ),
        "",
        "Disturbed runs have little of what a processor does: their holds do not depend on what is sent. So the",
        "causes were looked for packet by packet, with these partings in view.",
        "",
    ]
    return "\n".join(lines)


def main(kernel: str, folder: str) -> None:
    """Look at the cells that differ, store where they part, and write the page."""
    cells = {cell.number: cell for cell in sampled.design(CELLS)}
    differ = that_differ(kernel, list(cells.values()))
    found = look(differ, kernel, Path(folder), report=print)
    write_rows(kernel, found)
    write_text(PAGE, page(kernel, cells, len(differ), rows(kernel)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
