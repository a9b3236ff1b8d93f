"""Compares the wire model with the kernel's netem: cells exported by `tailback export --as netem`, run in guests.

In the guest no part of tailback carries packets: hosts, routers, tbf, netem and iperf3 are the kernel's and its tools.
Cells and the rule were written down before the first run. Four runs of the cells that lose packets at random were too
few. `runs_needed` set their number before others were run. It was also expected then that with tbf's burst
(`with_burst`) the 95 % interval of the difference has 0 in it.

`python -m tailback_validation.netem debian-6.1` runs the cells that `truth/netem-debian-6.1.json` lacks, and writes the
page. A third argument limits the seconds in which guests may start.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tailback as tb
from tailback import metrics
from tailback.export.netem import tbf_burst
from tailback.files import write_text
from tailback.judge import rule, unpaired
from tailback_validation.cake import read
from tailback_validation.truth import FOLDER

__all__ = ["BOUND", "CELLS", "LEAST", "Judged", "NetemCell", "judged", "nulls", "page", "simulated"]

BOUND = 0.02
"""Largest allowed relative difference of the mean total goodput."""
LEAST = 11
"""Minimum number of the twelve cells within the bound."""
DURATION_S = 30
HALF_WIDTH = 0.01
"""Largest half width of the difference's 95 % interval that `runs_needed` expects where packets are lost at random."""
QUANTILE = 2.0
"""Student's at 95 % for some dozens of runs."""
DRAWS = 6
"""Number of draws of the null: groups of simulated runs, each in place of the kernel's runs."""
PAGE = FOLDER.parent / "docs" / "validation-netem.md"
#: Programs start one after another, and a busy host delays packets by some microseconds.
NOISE = {"start_spread": "10ms", "processing_jitter": "20us"}
_MODULES = ("veth", "sch_tbf", "sch_netem")
_TOOLS = "ip tc sysctl iperf3 sh head id kill grep sleep ls mkdir true"
#: Extra seconds of a run for set-up, iperf3's start and end, and draining queues.
_SPARE_S = 6
#: Extra seconds if iperf3's control connection also loses packets, and waits for timeouts at both ends of the run.
_SPARE_LOSSY_S = 30


@dataclass(frozen=True)
class NetemCell:
    """A path and its flows."""

    name: str
    label: str
    rate_mbps: int = 20
    flows: tuple[str, ...] = ("cubic", "cubic")
    queue: str = "20packets"
    rtt_ms: int = 40
    wire: Mapping[str, Any] = field(default_factory=dict)
    back_wire: Mapping[str, Any] = field(default_factory=dict)
    schedule: tuple[Mapping[str, str], ...] = ()
    #: Number of runs in guests, each with another seed for the kernel's random numbers; `runs_needed` where packets are
    #: lost at random.
    runs: int = 2
    #: The same over tailback's wire.
    runs_over_ours: int = 2
    #: Simulated runs that the kernel's are compared with.
    sims: int = 24

    @property
    def loses_at_random(self) -> bool:
        """Whether packets are lost at random, so that `runs_needed` sets the number of runs."""
        return self.runs > 2

    def scenario(self) -> tb.Scenario:
        """The scenario that is exported and simulated."""
        return tb.dumbbell(
            name=self.name,
            rate=f"{self.rate_mbps}mbit",
            rtt=f"{self.rtt_ms}ms",
            queue=self.queue,
            back_queue="1000packets",
            wire=dict(self.wire),
            back_wire=dict(self.back_wire),
            schedule=[dict(step) for step in self.schedule],
            flows=[tb.bulk(cc, name=f"flow-{number}") for number, cc in enumerate(self.flows)],
            duration=f"{DURATION_S}s",
        )


#: 2 % of packets meet a burst, of five packets on average, and half of those are lost.
_BURSTS = {"burst_start": 0.00408, "burst_end": 0.2, "burst_loss": 0.5}
_CORRELATED = {"netem_jitter": {"jitter": "5ms", "correlation": 0.5}}
_CHANGES = ({"at": "8s", "rate": "10mbit"}, {"at": "15s", "rate": "20mbit"}, {"at": "22s", "delay": "60ms"})
_LOSSY: dict[str, Any] = {
    "rate_mbps": 50, "rtt_ms": 20, "flows": ("cubic",) * 4, "queue": "100packets", "runs_over_ours": 4, "sims": 480,
}  # fmt: skip
CELLS = (
    NetemCell("pfifo", "a queue of 100 packets", queue="100packets"),
    NetemCell("pfifo-reno", "Reno", flows=("reno", "reno")),
    NetemCell("bytes", "10 Mbit/s, a queue of 20 kB", rate_mbps=10, queue="20kB"),
    NetemCell("uniform", "jitter ±5 ms, uniform", wire={"netem_jitter": "5ms"}),
    NetemCell("normal", "jitter 2 ms, normal", wire={"netem_jitter": {"jitter": "2ms", "distribution": "normal"}}),
    NetemCell("pareto", "jitter 2 ms, pareto", wire={"netem_jitter": {"jitter": "2ms", "distribution": "pareto"}}),
    NetemCell("correlated", "jitter ±5 ms, correlation 50 %", wire=_CORRELATED),
    NetemCell("loss", "1 % lost; 50 Mbit/s, 20 ms, four flows", **_LOSSY, runs=27, wire={"loss": 0.01}),
    NetemCell("bursts", "as many lost in bursts; 50 Mbit/s, 20 ms, four flows", **_LOSSY, runs=48, wire=_BURSTS),
    NetemCell("duplicate", "2 % duplicated", wire={"duplicate": 0.02}),
    NetemCell("lost-acks", "20 % of acknowledgements lost, one flow", flows=("cubic",), back_wire={"loss": 0.2}),
    NetemCell("changes", "10 Mbit/s from 8 s, 20 from 15 s, 80 ms from 22 s", schedule=_CHANGES),
)


#: Cells that are simulated with tbf's burst, too.
WITH_BURST = ("pfifo-reno", "loss", "bursts")


def _file(kernel: str, way: str = "netem") -> Path:
    return FOLDER / "truth" / f"{way}-{kernel}.json"


def _runs(cell: NetemCell, way: str) -> int:
    return cell.runs if way == "netem" else cell.runs_over_ours


def _key(cell: NetemCell, seed: int) -> str:
    return f"{cell.name} {seed}"


def _tables() -> Path:
    """The folder of iproute2's distribution tables."""
    tc = shutil.which("tc")
    places = [Path(top) for top in ("/usr/lib/tc", "/usr/lib/x86_64-linux-gnu/tc", "/usr/lib64/tc", "/usr/share/tc")]
    found = next((place for place in places if (place / "normal.dist").is_file()), None)
    if tc is None or found is None:
        raise FileNotFoundError("tc and its tables of distributions are not installed: apt-get install iproute2")
    return found


def in_guest(cell: NetemCell, seed: int, kernel: str) -> dict[str, Any]:
    """Run the exported script as the only program of a guest; returns the reports of iperf3 and tc."""
    from tailback import vm

    with tempfile.TemporaryDirectory() as folder:
        tb.export(cell.scenario(), "netem").save(Path(folder) / "cell.sh")
        files = " ".join([str(_tables()), *(f"kernel:{name}" for name in _MODULES)])
        spare = _SPARE_LOSSY_S if cell.back_wire.get("loss") else _SPARE_S
        # The guest's emulated path is unused.
        path = Path(folder) / "scenario.toml"
        made = tb.dumbbell(
            name=cell.name,
            seed=seed,
            rate="10mbit",
            rtt="20ms",
            duration=f"{DURATION_S + spare}s",
            flows=[
                tb.flow(
                    "exec",
                    name="script",
                    client="sh {here}/cell.sh {dir}",
                    params={"needs": _TOOLS, "files": files, "collect": "*.json *.txt"},
                )
            ],
        )
        path.write_text(made.to_toml())
        result = vm.run(tb.Scenario.from_toml(path), kernel=kernel, allow_code=True)
    if notes := result.meta["notes"]:
        raise RuntimeError(f"{_key(cell, seed)}: the script did not end as it should: {notes}")
    kept = {name.rpartition("/")[2]: text for name, text in result.files.items()}
    ends = [json.loads(kept[f"flow-{number}.json"])["end"] for number in range(len(cell.flows))]
    count = re.compile(r"Sent (\d+) bytes (\d+) pkt \(dropped (\d+), overlimits")
    return {
        "goodput": [end["sum_received"]["bits_per_second"] / 1e6 for end in ends],
        "retransmits": [end["sum_sent"]["retransmits"] for end in ends],
        "dropped": sum(int(row[2]) for text in kept.values() for row in count.findall(text.decode())),
        "kernel": result.meta["kernel"],
    }


def over_our_wire(cell: NetemCell, seed: int, kernel: str) -> dict[str, Any]:
    """Run the scenario itself in a guest: the kernel's TCP over tailback's emulator, so that only the path differs."""
    from tailback import vm

    # Four flows act at one instant, which needs a processor twice as fast to stay punctual.
    dilation = 2 if len(cell.flows) > 2 else 1
    result = vm.run(cell.scenario().with_(seed=seed, randomness=NOISE), kernel=kernel, dilation=dilation)
    return {
        "goodput": [metrics.goodput(result, name) / 1e6 for name in result.flow_names],
        "retransmits": result.column("flows", "segments_retransmitted").tolist(),
        "notes": result.meta["notes"],
        "kernel": result.meta["kernel"],
    }


#: How a cell is run on a kernel, by the prefix of its rows file.
WAYS: dict[str, Callable[[NetemCell, int, str], dict[str, Any]]] = {"netem": in_guest, "netem-ours": over_our_wire}


def run_missing(
    kernel: str, way: str = "netem", *, seconds: float = math.inf, report: Callable[[str], object] = lambda _: None
) -> dict[str, dict[str, Any]]:
    """Run missing cells in guests, starting none after `seconds`. Returns all stored rows."""
    from tailback import vm

    file = _file(kernel, way)
    rows, until = read(file), time.monotonic() + seconds
    most = {cell.name: _runs(cell, way) for cell in CELLS}
    for seed in range(1, max(most.values()) + 1):
        for cell in CELLS:
            key = _key(cell, seed)
            if seed > most[cell.name] or key in rows or time.monotonic() > until:
                continue
            try:
                rows[key] = WAYS[way](cell, seed, kernel)
            except vm.LostRun as error:
                report(f"{key}: lost, the next call tries again: {error}")
                continue
            write_text(file, json.dumps(rows, indent=1) + "\n")
            report(f"{len(rows)} of {sum(most.values())}: {key}")
    return rows


@dataclass(frozen=True)
class Judged:
    """A cell with the total goodput in Mbit/s of each run."""

    cell: NetemCell
    sim: tuple[float, ...]
    kernel: tuple[float, ...]
    #: The kernel's TCP over tailback's wire.
    ours: tuple[float, ...] = ()
    #: Retransmitted segments of all flows: means of the simulator's runs, of those with netem, and of `ours`.
    again: tuple[float, ...] = ()
    #: The simulator with tbf's burst, in the cells of `WITH_BURST`.
    burst: tuple[float, ...] = ()

    @property
    def error(self) -> float:
        """The simulator's mean relative to the kernel's."""
        return _mean(self.sim) / _mean(self.kernel) - 1.0

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of `error`."""
        return unpaired(self.kernel, self.sim).width / 2 / _mean(self.kernel)

    @property
    def path_error(self) -> float:
        """Tailback's wire relative to netem, both under the kernel's TCP; NaN if that was not run."""
        return _mean(self.ours) / _mean(self.kernel) - 1.0 if self.ours else math.nan

    @property
    def is_within(self) -> bool:
        """Whether the error is within the bound."""
        return abs(self.error) <= BOUND


def runs_needed(sim: Sequence[float]) -> int:
    """Number of a kernel's runs for `HALF_WIDTH`, if they spread as these simulated ones do.

    The variance of the difference of both means is s²(1/n + 1/m), of n runs of the kernel and m simulated.
    """
    variance = statistics.variance(sim) / _mean(sim) ** 2
    return math.ceil(1.0 / ((HALF_WIDTH / QUANTILE) ** 2 / variance - 1.0 / len(sim)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def simulated(cell: NetemCell, scenario: tb.Scenario | None = None) -> list[dict[str, float]]:
    """Total goodput and retransmitted segments, by seed."""
    made = (scenario or cell.scenario()).with_(randomness=NOISE)
    return tb.run_many([made.with_(seed=seed) for seed in range(1, cell.sims + 1)], then=_measured, progress=False)


def with_burst(cell: NetemCell) -> tb.Scenario:
    """The cell's scenario, whose link lets packets through at once while a bucket of the exported tbf has tokens."""
    rate, limit = cell.rate_mbps * 1_000_000, cell.queue.removesuffix("packets")
    queue = {
        "discipline": "token_bucket",
        "rate": f"{cell.rate_mbps}mbit",
        "burst": f"{tbf_burst(rate)}B",
        "inner": {"discipline": "fifo", "limit_packets": int(limit)},
    }
    return cell.scenario().with_({"dumbbell.rate": "10gbit", "dumbbell.queue": queue})


def _measured(result: tb.Result) -> dict[str, float]:
    goodput = sum(metrics.goodput(result, name) for name in result.flow_names) / 1e6
    return {"goodput": goodput, "again": float(result.column("flows", "segments_retransmitted").sum())}


def judged(kernel: str) -> list[Judged]:
    """Every cell that `kernel` has run, with the current simulator's results."""
    out = []
    for cell in CELLS:
        netem, ours = (_kept(kernel, way, cell) for way in WAYS)
        if netem:
            sim = simulated(cell)
            means = (_mean([run["again"] for run in sim]), *_again(netem), *_again(ours))
            rates = [tuple(sum(row["goodput"]) for row in way) for way in (netem, ours)]
            burst = simulated(cell, with_burst(cell)) if cell.name in WITH_BURST else []
            mine = [tuple(run["goodput"] for run in way) for way in (sim, burst)]
            out.append(Judged(cell, mine[0], rates[0], rates[1], means, mine[1]))
    return out


def _kept(kernel: str, way: str, cell: NetemCell) -> list[dict[str, Any]]:
    rows = read(_file(kernel, way))
    return [rows[key] for seed in range(1, _runs(cell, way) + 1) if (key := _key(cell, seed)) in rows]


def _again(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    return [_mean([sum(row["retransmits"]) for row in rows])] if rows else []


def nulls(found: Sequence[Judged]) -> list[int]:
    """By draw: the number of cells within the bound if some simulated runs replace the kernel's."""

    def is_within(each: Judged, draw: int) -> bool:
        runs = len(each.kernel)
        first, last = draw * runs, (draw + 1) * runs
        return Judged(each.cell, each.sim[:first] + each.sim[last:], each.sim[first:last]).is_within

    return [sum(is_within(each, draw) for each in found) for draw in range(DRAWS)]


def page(kernel: str, found: Sequence[Judged]) -> str:
    """The page of these cells and their nulls."""
    builds = {row["kernel"]["digest"]: row["kernel"] for row in read(_file(kernel)).values()}
    whose = "; ".join(f"{each['release']} {each['build']} ({each['digest']})" for each in builds.values())
    within, by_chance = sum(each.is_within for each in found), nulls(found)
    lossy = [each for each in found if each.cell.loses_at_random]
    is_short = any(len(each.kernel) < each.cell.runs for each in lossy)
    head = _HEAD.format(
        kernel=kernel,
        cells=len(found),
        all=len(CELLS),
        duration=DURATION_S,
        runs=min(cell.runs for cell in CELLS),
        sims=min(cell.sims for cell in CELLS),
        lossy=" and ".join(str(each.cell.runs) for each in lossy),
        lossy_sims=max(cell.sims for cell in CELLS),
        so_far=f" So far {' and '.join(str(len(each.kernel)) for each in lossy)} are run." if is_short else "",
        half=f"{100 * HALF_WIDTH:g}",
        bound=f"{100 * BOUND:g}",
        least=LEAST,
        whose=whose,
        verdict=rule(within >= LEAST),
        within=within,
        ours=sum(abs(each.path_error) <= BOUND for each in found),
        groups=len(by_chance),
        counts=", ".join(map(str, sorted(by_chance))),
        least_null=min(by_chance),
        most_null=max(by_chance),
    )
    lines = [
        "| cell | simulator (Mbit/s) | netem | difference | kernel's TCP, tailback's wire | difference | sent again |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in found:
        parts = [each.cell.label, f"{_mean(each.sim):.2f}", _spread(each.kernel), _percent(each.error)]
        parts += [_spread(each.ours), _percent(each.path_error), ", ".join(f"{count:.0f}" for count in each.again)]
        lines.append(f"| {' | '.join(parts)} |")
    shaped = [Judged(each.cell, each.burst, each.kernel) for each in found if each.burst]
    left = _LEFT.format(
        burst=_burst_table(found),
        holding=sum(abs(each.error) <= each.half_width for each in shaped if each.cell.loses_at_random),
        within=sum(each.is_within for each in shaped),
        tried=len(shaped),
        below=sum(each.error < 0 for each in found),
        cells=len(found),
        middle=f"{-100 * statistics.median(each.error for each in found):.1f}",
        bound=f"{100 * BOUND:g}",
    )
    return "\n\n".join([head, "\n".join(lines), left]) + "\n"


def _burst_table(found: Sequence[Judged]) -> str:
    lines = [
        "| cell | netem (Mbit/s) | simulator | difference | with tbf's burst | difference |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in found:
        if each.burst:
            parts = [each.cell.label, f"{_mean(each.kernel):.2f}"]
            for sim in (each.sim, each.burst):
                beside = Judged(each.cell, sim, each.kernel)
                # Two runs have no interval to speak of.
                half = f" ± {100 * beside.half_width:.1f}" if len(each.kernel) > 2 else ""
                parts += [f"{_mean(sim):.2f}", _percent(beside.error) + half]
            lines.append(f"| {' | '.join(parts)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    return f"{_mean(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else "–"


def _percent(error: float) -> str:
    if math.isnan(error):
        return "–"
    text = f"{100 * error:+.1f} %"
    return text if abs(error) <= BOUND else f"**{text}**"


_HEAD = """# The wire against the kernel's netem

`python -m tailback_validation.netem {kernel}` writes this page. Read it to see how far a wire simulated
here is that of `tc`. Of {all} cells {cells} were run. Each is a scenario,
simulated, and the script that `tailback export --as netem` writes of it, run whole in a guest. There hosts, routers,
`tbf`, `netem` and iperf3 carry everything; tailback's emulator carries nothing. What is not said is 20 Mbit/s, 40 ms,
two flows of CUBIC and a queue of 20 packets.

The rule was written before the first run. What counts is the goodput of all flows over {duration} s. Its mean of {runs}
runs in guests differs from the mean of {sims} simulated runs by {bound} % at most. That must hold in {least} of {all}
cells. Where packets are lost at random four runs were too few. There the simulator's spread asks for {lossy} runs
beside {lossy_sims} simulated ones, so that the difference is known to ±{half} %. These numbers were set before the
runs.{so_far}

The rule is {verdict}: {within} of {cells} cells are within.

The null: as many simulated runs in the place of the kernel's, compared with the other simulated ones. In {groups} such
draws {counts} cells were within. Kernel and simulator draw different random numbers. So an exact
model has {least_null} to {most_null}; this one has {within}.

What is the TCP's, and what the path's? The kernel's TCP was also run over tailback's own wire in guests. Under it netem
and that wire are within {bound} % of each other in {ours} of {cells} cells. Segments sent again are the means of
simulator, netem and tailback's wire. Its runs are {runs} a cell, and 4 where packets are lost at random.

Changed after its first run: the cell of lost acknowledgements had two flows. iperf3's control connections lost packets,
too, so that the flows began seconds apart and their rates did not add up.

Whose runs these are: {whose}."""

_LEFT = """What was looked into, apart from this page:

- *Jitter that reorders.* 8 of 12 cells were within until the receiver learnt to refuse old timestamps (PAWS). A
  segment that a retransmission overtakes has one, so Linux has to have it sent again.
- *Losses, and Reno.* tbf saves up tokens while its queue is empty, here for two packets or a millisecond's worth, and
  lets a burst through at once. Tailback's link has no such burst; a `token_bucket` has. The table shows the simulator
  with and without it, and 95 % intervals of the differences where packets are lost at random. That those with a burst
  have 0 in them was expected before the runs: {holding} of 2 do. With it {within} of the {tried} cells are within
  {bound} %; the others were not run with it.
- *Which side.* In {below} of {cells} cells the simulator's mean is below netem's, by {middle} % in the median. No
  mechanism is known for that beyond tbf's burst.

{burst}

Not compared: netem's `reorder`, `corrupt`, `slot`, `rate` and correlated losses, which the export does not write;
delays of single packets; other kernels."""


def main(kernel: str, seconds: float = math.inf) -> None:
    """Run missing cells and write the page."""
    for way in WAYS:
        run_missing(kernel, way, seconds=seconds, report=lambda text: print(text, flush=True))
    found = judged(kernel)
    write_text(PAGE, page(kernel, found))
    print(f"{sum(each.is_within for each in found)} of {len(found)} within {100 * BOUND:g} %")


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:3]))
