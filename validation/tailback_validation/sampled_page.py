"""The page of the sampled comparison: the distribution of errors, the worst cells, and kernels against each other."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailback.experiment.store import engine_fingerprint
from tailback.files import whole_file
from tailback.judge import KERNELS_CHANCE, TARGET, VALIDATION, Verdict, Words, interval, rule
from tailback_validation import sampled
from tailback_validation.null import equivalent, nulls
from tailback_validation.sampled import (
    ALGORITHMS,
    BOUNDS,
    CELLS,
    DRAW_SPREAD,
    DRAWS,
    DURATION_S,
    FLOOR_S,
    KERNELS_DRAWS,
    NEED_MARKS,
    Cell,
    Error,
)

__all__ = ["compared", "study", "write"]

_WORST = 20
ASKED = 0.95
"""Required share of cells within both bounds."""
_PLACED = ("goodput", "retransmitted")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

_PHASE = (
    "*Phase*: segments arrive at a queue in the very microsecond in which others leave it, because one clock, the "
    "bottleneck's, drives both. Which of the two comes first decides what is dropped (Floyd and Jacobson 1991)."
)

#: What was found behind cells that no rule takes for chance.
_MECHANISMS = {
    26: (
        "Phase, seen packet by packet. An ACK that ends a pause takes the guest 8.9 µs until its segments leave, the "
        "next ones 7.6. So from the second on each pair comes 1 to 3 µs before the packet ahead has left, and finds "
        "one packet more. The simulator has both in one instant, and lets the departure come first. Here that is the "
        "eleventh packet of a queue of ten, and six packets are dropped a round trip earlier."
    ),
    131: (
        "Seen with Reno on this path without reordering, not in this cell itself: a transfer's last segment leaves "
        "with the pair before it in both. Here it is dropped at the full queue; on the kernel it is queued."
    ),
    169: (
        "In its first overshoot the kernel is held by its send buffer, with 2.79 MB in flight of a window of 3.14; "
        "the simulator has 3.13 in flight and loses 797 segments instead of 465."
    ),
    180: (
        "It begins with phase. Vegas holds two to four packets, and a packet lasts 4 ms here. Which segment of a pair "
        "an ACK ends with makes one packet's difference in the RTT. So the window stays at 12, or goes on to 13, where "
        "the queue of four overflows. Linux 6.1 goes on where the simulator stays, 7.3 stays where the simulator's "
        "`linux-7` goes on."
    ),
    225: ("Phase: with `processing_jitter` of 20 µs the simulator's twenty runs hold the kernel's figures."),
}


def study(
    kernels: Sequence[str],
    cells: int,
    folder: Path,
    out: Path,
    *,
    report: Callable[[str], object] = lambda _: None,
    seconds: float = math.inf,
    again: int = 0,
    algorithm: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Run the first `cells` cells that kernels have no rows of in `folder`, and write the page of all rows to `out`.

    Starts no run after `seconds`; rows are stored one by one, so the next call continues. The first `again` cells are
    run again, and those with other measures are reported. An `algorithm` is used in every cell, and its rows have a
    folder of that name. Returns the comparisons by title; the page is written if none of them is empty.
    """
    design = sampled.design(cells, algorithm)
    # An unknown algorithm is the caller's mistake, not a guest's refusal.
    design[0].scenario().resolve()
    folder = folder / algorithm if algorithm else folder
    until = time.monotonic() + seconds
    for kernel in kernels:
        if again:
            changed = sampled.run_cells(design[:again], kernel, folder, report=report, again=True)
            report(f"{again} cells of {kernel} run again: {', '.join(changed) or 'none'} came out otherwise")
        sampled.run_cells(design, kernel, folder, report=report, seconds=until - time.monotonic())
    profiles = {kernel: str(sampled.stack_of(kernel)["name"]) for kernel in kernels}
    stacks = {profiles[kernel]: sampled.stack_of(kernel) for kernel in kernels}
    there = {
        profile: [
            cell
            for cell in design
            if any(_has_row(cell, kernel, folder) for kernel in kernels if profiles[kernel] == profile)
        ]
        for profile in stacks
    }
    own = {profile: sampled.simulated(cells, stacks[profile]) for profile, cells in there.items()}

    def errors(kernel: str, cells: Sequence[Cell] | None = None) -> tuple[list[Error], list[str]]:
        profile = profiles[kernel]
        return sampled.errors(folder, kernel, there[profile] if cells is None else cells, own[profile])

    for kernel in kernels:
        found, _ = errors(kernel)
        sampled.run_again(found, kernel, folder, report=report, seconds=until - time.monotonic())
    disturbed = {profile: nulls(cells, own[profile], stacks[profile]) for profile, cells in there.items()}
    against = []
    for kernel in kernels:
        profile = profiles[kernel]
        found, refused = errors(kernel)
        numbers = {error.cell.number for error in found}
        here = {
            name: [error for error in noisy if error.cell.number in numbers]
            for name, noisy in disturbed[profile].items()
        }
        whose = f"The simulator's {algorithm}" if algorithm else "The simulator"
        title = f"{whose} against {kernel}"
        against.append((title, compared(found, refused, here) | {"profile": profile}))
    between = []
    for other in kernels[1:]:
        found = sampled.errors_between(folder, kernels[0], other, design)
        both = [error.cell for error in found]
        beside = {kernel: compared(errors(kernel, both)[0]) for kernel in (kernels[0], other)}
        pair = compared(found) | {"beside": {name: each.get("within_both") for name, each in beside.items()}}
        between.append((f"{other} against {kernels[0]}", pair))
    if all(pair["cells"] for _, pair in (*against, *between)):
        kinds = Counter(cell.queue.partition("+")[0] for cell in there[profiles[kernels[0]]])
        run_so_far = ", ".join(f"{count} of {queue}" for queue, count in sorted(kinds.items()))
        rows = [sampled.rows_of(folder, kernel) for kernel in kernels]
        guests = sorted({guest for each in rows for guest in each.guests()})
        about = list(dict.fromkeys(name for each in rows for name in each.about()))
        about += [f"guests {', '.join(guests)}", f"simulator {engine_fingerprint()}. Cells so far: {run_so_far}"]
        write(against, between, about, out, algorithm)
    return dict((*against, *between))


def _has_row(cell: Cell, kernel: str, folder: Path) -> bool:
    return sampled.rows_of(folder, kernel).find(cell.number, 0, cell.scenario()) is not None


def compared(
    found: Sequence[Error], refused: Sequence[str] = (), disturbed: Mapping[str, Sequence[Error]] | None = None
) -> dict[str, Any]:
    """Summary of cells' errors for JSON; `disturbed` are the errors of the paired nulls, by noise (`null.nulls`)."""
    out: dict[str, Any] = {"cells": len(found), "refused": list(refused), "metrics": {}}
    if not found:
        return out
    for metric, bound in BOUNDS.items():
        values = np.array([getattr(error, metric) for error in found])
        values = values[np.isfinite(values)]
        mean = interval(values, "mean")
        out["metrics"][metric] = {
            "within": float(np.mean(np.abs(values) <= bound)),
            "bound": bound,
            "quantiles": [float(np.quantile(values, share)) for share in _QUANTILES],
            "absolute_p95": float(np.quantile(np.abs(values), 0.95)),
            "mean": mean.estimate,
            "mean_low": mean.low,
            "mean_high": mean.high,
        }
    out |= _verdicts(found)
    out["nulls"] = {name: _verdicts(errors) | {"places": _places(errors)} for name, errors in (disturbed or {}).items()}
    if all(error.draws for error in found):
        out["chance_of_first"] = sum(error.is_chance_of_first for error in found)
        out["run_again"] = sum(bool(error.again) for error in found if not error.is_within and not error.is_chance)
        out["beyond"] = [error.cell.number for error in found if Words.verdict(_verdict(error)) is Verdict.FAILED]
        out["places"] = _places(found)
    out["worst"] = [_row(error) for error in sorted(found, key=lambda error: -error.worst)[:_WORST]]
    return out


def _verdicts(found: Sequence[Error]) -> dict[str, float]:
    """Shares of cells within both bounds, beyond one by chance, and beyond."""
    cells = len(found)
    within = sum(error.is_within for error in found)
    chance = sum(error.is_chance for error in found)
    return {
        "within_both": within / cells,
        "by_chance": chance / cells,
        "beyond_chance": (cells - within - chance) / cells,
    }


def _places(found: Sequence[Error]) -> list[dict[str, Any]]:
    """Rank of the kernel's value among the simulator's own, by algorithm: 0 is below all of them, 1 above all."""
    places: dict[str, dict[str, list[float]]] = {}
    for error in found:
        of_algorithm = places.setdefault(error.cell.algorithm, {name: [] for name in _PLACED})
        for name, all_of_them in of_algorithm.items():
            kernels = error.measures[0][name]
            own = np.array([run[name] for run in (error.measures[1], *error.draws)])
            all_of_them.append(float(np.mean(own < kernels) + np.mean(own == kernels) / 2))
    everything = {name: [place for row in places.values() for place in row[name]] for name in _PLACED}
    ordered = sorted(places, key=[*ALGORITHMS, *places].index)
    rows = [*((algorithm, places[algorithm]) for algorithm in ordered), ("all", everything)]
    return [
        {"algorithm": algorithm, "cells": len(row["goodput"]), **{name: float(np.mean(row[name])) for name in _PLACED}}
        for algorithm, row in rows
    ]


def _verdict(error: Error) -> str:
    if error.is_within:
        return VALIDATION(Verdict.PASSED)
    if error.is_chance:
        return VALIDATION(Verdict.UNDECIDED)
    return KERNELS_CHANCE if error.is_chance_of_first else VALIDATION(Verdict.FAILED)


def _row(error: Error) -> dict[str, Any]:
    cell = error.cell
    return {
        "cell": cell.number,
        "algorithm": cell.algorithm,
        "path": cell.path,
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


def write(
    against: Sequence[tuple[str, dict[str, Any]]],
    between: Sequence[tuple[str, dict[str, Any]]],
    about: Sequence[str],
    out: Path,
    algorithm: str | None = None,
) -> None:
    """Write the page: simulator against kernels, kernels against each other; `about` describes the kernels."""
    head = _HEAD_OF_ONE if algorithm else _HEAD
    ((_, first), *_) = against
    parts = [
        head.format(
            algorithm=algorithm,
            how=_HOW.get(algorithm or "", ""),
            which=" whose queue marks; elsewhere it is Reno" if algorithm in NEED_MARKS else "",
            cells=CELLS,
            duration=f"{DURATION_S:g}",
            lead=_lead(first),
            floor=f"{1e3 * FLOOR_S:g}",
            draws=DRAWS,
            spread=DRAW_SPREAD,
            kernels=KERNELS_DRAWS,
        )
    ]
    parts += ["Whose runs these are:\n\n" + "\n".join(f"- {each}" for each in about)]
    mechanisms = _MECHANISMS_OF.get(algorithm, {}) if algorithm else _MECHANISMS
    parts += [_section(title, pair, mechanisms) for title, pair in (*against, *between) if pair["cells"]]
    with whole_file(out) as partial:
        partial.write_text("\n\n".join(parts) + "\n")


_MECHANISMS_OF = {
    "prague": {
        111: (
            "Which packet of a pair has the first mark. It halves the window, but slow start sets the window by cwnd "
            "again if the same ACK has a packet without mark, and goes on until the queue is full: 704 drops instead "
            "of 192. A guest that records packets, some microseconds later, drops 192 in the first 1.2 s and marks 5, "
            "as the simulator does."
        ),
    },
}

_HEAD = """# The simulator against a real kernel, on sampled paths

{lead}

`tailback validate --engine vm` writes this page. Read it to see how far the simulator's results can stand in for a
kernel's on a path that was not chosen for it.

Cells are points of a Sobol sequence of {cells}, of which any first part covers the paths evenly. A kernel takes a
cell's own time, and no more than those above have been run. They have fourteen algorithms, 1 to 100 Mbit/s, 10 to 200
ms, queues of 0.1 to 4 BDP (FIFO, CoDel, FQ-CoDel, PIE, with and without ECN). Loss is 0, 0.1 or 1 %, with or without
reordering; one transfer, two, or short ones. Each lasts {duration} s in the simulator and on the kernel ([vm](vm.md)).

The rule was written before the first cell was run. In 95 % of the cells goodput differs by at most 5 %. There the
median delay of the bottleneck's queue differs by at most 10 %, or by 10 % of {floor} ms where the kernel's is smaller
than that.

Losses, AQMs and starts are drawn at random. Kernel and simulator share these draws until the first packet that
differs, and then [part](validation-partings.md). Four things help to judge what parted:

- *The paired null.* The simulator against itself, with the same draws, while hosts delay each packet by up to N µs.
  An exact model of a kernel with that much noise would be no closer. Where nulls are not in order, chance is larger
  than what sets them apart. The null was added after the kernel's cells had been seen.
- *Chance.* The simulator runs each cell {draws} times more, with other seeds and starts up to {spread} later. A cell
  outside a bound is *chance* if the kernel's value lies within the range of these runs, and *beyond* if not. This was
  written down after 77 cells had been judged.
- *The kernel's chance.* The kernel runs each cell that is beyond {kernels} times more, with the first of those seeds
  and starts. If one of these lies in the simulator's range, metric by metric, the cell says little. This was written
  down after 308 cells had been judged, and it gives the kernel more tries than the null has: it says where to look.
- *The guest's speed.* A kernel named with `*4` is the same kernel in a guest whose processor is four times as fast
  ([dilation](vm.md#what-a-guest-carries)). It takes less time for a packet, and nothing else differs. What it makes
  of a cell, no model of the kernel can know without the processor. It was added after all cells had been judged."""


_HEAD_OF_ONE = """# `{algorithm}` beside its own code, on sampled paths

{lead}

`tailback validate --engine vm --algorithms {algorithm}` writes this page, with `--kernel` of one that has it. Cells,
bounds, null and chance are those of [the sampled comparison](validation-sampled.md). They were written before a cell
here was run. Only the algorithm is another: `{algorithm}` in each of the first cells of {cells}{which}.
{how}
Each cell lasts {duration} s. A delay's error is relative to the kernel's or to {floor} ms. The simulator's own spread
is that of {draws} runs that start up to {spread} later, and the kernel has {kernels} more tries."""


_HOW = {
    "prague": """
Its own code is version 0.7 of the reference, `net/ipv4/tcp_prague.c` of the tree minuscat/rpi-6.18.y, as a module for
Debian's Linux 7.3, which negotiates accurate ECN by itself. `tailback vm module tcp_prague.c --on debian-7.3 --name
prague-7.3` makes the kernel. The file is for another tree and compiles here with these changes:

- The marks of an ACK are the difference of two readings of `delivered_ce`.
- Packets do not get smaller below 1 Mbit/s, for which 7.3 has no hook.
- `sk_pacing_shift` of 12 and `min_tso_segs` of 1 stand for `tso_segs`: the same bursts, of at most 250 µs.
- `TCP_CONG_ECT_1_NEGOTIATION` stands for `TCP_CONG_WANTS_ECT_1`, `__INET_ECN_xmit` for `TCP_ECN_ECT_1_ESTABLISH`.
- What `ss` shows of it and its messages are left out.

Linux 7.3 writes ECT(0) into each packet all the same (`tcp_ecn_send`). So a queue that sorts packets by ECT(1) cannot
be compared; CoDel, FQ-CoDel and PIE mark either. The simulator's `burst_segments` is 1, as 250 µs are one segment below
96 Mbit/s; in slow start, which is paced twice as fast, below 48. Version 0.7 replaced 0.6 in the model before a cell
here was judged. At first 53 of 64 were within: cell 28 then showed that Linux 7.3 has repeats and pure ACKs marked
as well.
""",
}
"""How to get an algorithm's own code."""


def _section(title: str, pair: dict[str, Any], mechanisms: Mapping[int, str]) -> str:
    shares = " | ".join(f"{100 * share:g} %" for share in _QUANTILES)
    lines = [
        f"## {title}",
        "",
        *_headline(pair),
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
    second, _, first = title.partition(" against ")
    other = "the" + second.removeprefix("The") if second.startswith("The ") else f"`{second}`"
    lines += ["", f"The worst {len(pair['worst'])}. In `a → b`, a is of `{first}` and b of {other}.", ""]
    if "places" in pair:
        lines[-2] += " The last columns have the range of the simulator's own runs, and whether the kernel lies in it: "
        lines[-2] += "*chance* if it does, *beyond* if not."
    extra = ("simulator's own: goodput", "delay", "") if "places" in pair else ()
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
    left = [number for number in pair.get("beyond", ()) if number in mechanisms]
    others = [row["cell"] for row in pair["worst"] if row["cell"] in mechanisms and row["cell"] not in left]
    for numbers, title in (
        (left, "Mechanisms of cells that are beyond"),
        (others, "Mechanisms of others of the worst"),
    ):
        if numbers:
            lines += ["", f"{title}:", "", *(f"- **{number}**: {mechanisms[number]}" for number in numbers)]
    unexplained = [number for number in pair.get("beyond", ()) if number not in mechanisms]
    if unexplained:
        lines += ["", f"Beyond, and not explained yet: {', '.join(map(str, unexplained))}."]
    if left or others:
        lines += ["", _PHASE]
    if "places" in pair:
        lines += ["", *_places_table(pair)]
    if pair["refused"]:
        lines += ["", "Not carried by a guest:", "", *(f"- {reason}" for reason in pair["refused"])]
    return "\n".join(lines)


def _lead(pair: Mapping[str, Any]) -> str:
    """The page's first sentence: how many cells are within both bounds, and how many are required."""
    verdict = TARGET(Verdict.of(pair["within_both"] >= ASKED))
    goodput, delay = (f"{100 * BOUNDS[name]:g} %" for name in ("goodput", "delay"))
    return (
        f"**Of {pair['cells']} cells {_share(pair['within_both'])} are within {goodput} of the kernel's goodput and "
        f"{delay} of its median delay; {100 * ASKED:g} % were asked: {verdict}.**"
    )


def _headline(pair: dict[str, Any]) -> list[str]:
    within = pair["within_both"]
    if not pair["nulls"]:
        lines = [f"{pair['cells']} cells; {_share(within)} within both bounds.", ""]
        if beside := pair.get("beside"):
            shares = " and ".join(f"{_share(share)} against {name}" for name, share in beside.items())
            lines += [f"In the same cells the simulator is within both bounds in {shares}.", ""]
        return lines
    nulls = pair["nulls"].values()
    as_far = equivalent(within, {name: null["within_both"] for name, null in pair["nulls"].items()})
    beyond = equivalent(
        1.0 - pair["beyond_chance"], {name: 1.0 - null["beyond_chance"] for name, null in pair["nulls"].items()}
    )
    parted = [each["beyond_chance"] / (1.0 - each["within_both"] or math.inf) for each in (pair, *nulls)]
    worst = " Of the cells that part, more are beyond than in any null." if parted[0] > max(parted[1:]) else ""
    verdict = f"The rule of 95 % is {rule(within >= ASKED)}."
    profile = pair.get("profile", "linux")
    stack = "" if profile == "linux" else f" The simulator's stack is `{profile}`."
    return [
        "**Kernel and simulator are as far apart as the simulator is from itself "
        f"with {as_far} of noise on every packet. By the cells that are beyond it takes {beyond}.**{worst} "
        f"{pair['cells']} cells; {_share(within)} are within both bounds. {verdict}{stack}",
        "",
        "| in the kernel's place | within both | chance | beyond | beyond, of those that part |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(_verdict_row(f"the simulator; {name}", null) for name, null in pair["nulls"].items()),
        _verdict_row("**the kernel**", pair),
        "",
        _left(pair),
        "",
    ]


def _left(pair: Mapping[str, Any]) -> str:
    """Number of cells beyond, those that the kernel's own chance explains, and the numbers of the remaining cells."""
    if not pair["chance_of_first"] and not pair["beyond"]:
        return "No cell is beyond."
    left = ", ".join(map(str, pair["beyond"])) or "none"
    count, again = pair["chance_of_first"] + len(pair["beyond"]), pair["run_again"]
    tried = "" if again == count else f" {again} of them were run again on the kernel."
    return (
        f"{count} cells are beyond.{tried} The kernel's chance takes {pair['chance_of_first']} of them; left: {left}."
    )


def _verdict_row(name: str, row: Mapping[str, Any]) -> str:
    apart = 1.0 - row["within_both"]
    of_those = _share(row["beyond_chance"] / apart) if apart else "-"
    values = (*(_share(row[key]) for key in ("within_both", "by_chance", "beyond_chance")), of_those)
    return f"| {name} | " + " | ".join(values) + " |"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _deviations(row: Mapping[str, Any], metric: str, middle: float) -> float:
    """Distance of a mean rank from `middle`, in standard deviations of as many uniform ranks."""
    return float((row[metric] - middle) / math.sqrt(1 / 12 / row["cells"]))


def _places_table(pair: dict[str, Any]) -> list[str]:
    """The kernel's rank among the simulator's runs by algorithm, beside the ranks of the paired nulls."""
    nulls = [null["places"] for null in pair["nulls"].values()]

    def of_nulls(algorithm: str, metric: str) -> list[float]:
        return [row[metric] for places in nulls for row in places if row["algorithm"] == algorithm]

    def field(row: Mapping[str, Any], metric: str) -> str:
        values = of_nulls(row["algorithm"], metric)
        among = f" ({min(values):.2f} to {max(values):.2f})" if values else ""
        return f"{row[metric]:.2f}{among}"

    outside = [
        f"{row['algorithm']}'s {_WORDS[metric]}"
        for row in pair["places"]
        for metric in _PLACED
        if row["algorithm"] != "all"
        and not min(of_nulls(row["algorithm"], metric)) <= row[metric] <= max(of_nulls(row["algorithm"], metric))
        and abs(_deviations(row, metric, float(np.mean(of_nulls(row["algorithm"], metric))))) > _FAR
    ]
    return [
        "Where the kernel's value lies among the simulator's own, on average: 0 is below all of them, 1 above all. The "
        "base run of a cell has no start spread and its draws have, so the middle is not 0.5. In brackets the range "
        f"over the {len(nulls)} paired nulls. One more null would lie outside it in {2 / (len(nulls) + 1):.0%} of the "
        "rows, if all were alike.",
        "",
        f"Outside that range, and more than {_FAR:g} deviations from the nulls' mean: "
        + (", ".join(outside) or "none")
        + ". These are candidates for a bias of the model.",
        "",
        "| algorithm | cells | goodput | retransmissions | one deviation |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {row['algorithm']} | {row['cells']} | {field(row, 'goodput')} | {field(row, 'retransmitted')} "
            f"| {math.sqrt(1 / 12 / row['cells']):.2f} |"
            for row in pair["places"]
        ),
    ]


_WORDS = {"goodput": "goodput", "retransmitted": "retransmissions"}
_FAR = 2.0
"""Distance from the middle, in standard deviations, from which on a mean rank is listed."""


def _percent(value: float) -> str:
    return "-" if not math.isfinite(value) else f"{100 * value:+.1f} %"
