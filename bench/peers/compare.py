"""tailback, ns-2 and ns-3 on the same scenarios, speed and outcome side by side: writes docs/performance.md.

Run by `make bench-peers`. ns-2 is the system's package `ns2`; ns-3 comes as the wheel `ns3`, against whose headers
dumbbell.cc is compiled. A peer that cannot be had is named as such in the table. Every program runs in a process of
its own; the time is processor time less that of the same program with nothing to simulate.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import captures
import numpy as np

import tailback as tb
from tailback import bench, metrics

HERE = Path(__file__).parent
NS3_VERSION = "3.44.post0"
#: Longer than this and a peer is given up.
PATIENCE_S = 1200
#: Each program's time is the best of this many; a peer's that takes longer than `BRIEF_S` is the only one.
ROUNDS, BRIEF_S = 5, 20.0


@dataclass(frozen=True)
class Case:
    """One scenario in the words of all three programs."""

    key: str
    title: str
    ours: Callable[[int], tb.Scenario]
    seconds: int
    rate_bps: int
    rtt_ms: int
    queue_packets: int
    flows: int
    voip: bool = False
    cc: str = "reno"
    loss: float = 0.0
    #: A peer that is not asked, by the first letters of its name, and why.
    left_out: tuple[str, str] | None = None

    def arguments(self, observe: bool, seconds: float | None = None) -> list[str]:
        """Of both peers' programs."""
        numbers = (self.rate_bps, self.rtt_ms, self.queue_packets, self.flows, int(self.voip))
        path = [*map(str, numbers), str(self.seconds if seconds is None else seconds), str(int(observe))]
        return path if self.cc == "reno" else [*path, self.cc, str(self.loss)]

    def no_answer(self, name: str) -> str | None:
        """Why a peer is not asked; `None` if it is."""
        if name.startswith("ns-2") and self.queue_packets == 0:
            return "ns-2.35 has no CoDel"
        return self.left_out[1] if self.left_out and name.startswith(self.left_out[0]) else None


CASES = (
    Case("a", "4 NewReno flows, 1 Gbit/s, 100 ms, 1 BDP", bench.gigabit, 10, 10**9, 100, 8333, 4),
    Case(
        "a-cubic",
        "4 CUBIC flows, 1 Gbit/s, 100 ms, 0.2 BDP, a wire that loses one packet in a million",
        bench.gigabit_cubic,
        60,
        10**9,
        100,
        1667,
        4,
        cc="cubic",
        loss=1e-6,
        left_out=("ns-3", "left out: at its pace in (a) over five minutes, twice"),
    ),
    Case("voip", "a call and a NewReno flow, 10 Mbit/s, 80 ms, 1 BDP", bench.call, 180, 10**7, 80, 66, 1, True),
    Case("e", "10 NewReno flows, 20 Mbit/s, 30 ms, CoDel", bench.codel, 180, 2 * 10**7, 30, 0, 10),
)

Outcome = dict[str, Any]


def tailback(case: Case) -> Outcome:
    """Our own run: the fastest of a few, and what came out."""
    scenario = case.ours(case.seconds)
    # The timed run is bare, as the peers' is.
    bare = scenario.with_(instruments=None)
    # The first run of a process loads numpy: start-up, which is taken off the peers too.
    code = (
        "import sys, time; from tailback import _core; small, text = sys.stdin.read().split('\\0'); "
        "_core.run(small, None, None); began = time.process_time(); "
        "_core.run(text, None, None); print(time.process_time() - began)"
    )
    both = f"{bench.call(1).with_(instruments=None).to_json()}\0{bare.to_json()}"
    command = [sys.executable, "-c", code]
    times = [
        float(subprocess.run(command, input=both, capture_output=True, text=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]
    result = tb.run(scenario)
    link = result.link_summary()[0]
    flows = result.numpy("flows")
    bulk = [index for index, name in enumerate(result.flow_names) if name != "voip"]
    arrived = float(result.numpy("links")["arrived"][0])
    out: Outcome = {
        "data_packets": int(flows["bytes_received"][bulk].sum()) // 1448,
        "jain": metrics.jain(flows["bytes_received"][bulk].astype(float)),
        "dropped": link["dropped"],
        "arrived": arrived,
        "backlog_mean_bytes": link["backlog_mean_bytes"],
        "cpu_s": min(times),
    }
    if case.voip:
        rows = result.where_flow("packets", "voip")
        delay = 1e3 * (rows["received_s"] - rows["sent_s"])
        out |= {f"delay_p{q}_ms": float(np.nanquantile(delay, q / 100)) for q in (50, 95)}
    return out


def peer(command: Sequence[str | Path], case: Case) -> Outcome:
    """A peer's run: timed bare, then watched for what came out."""
    _, empty = timed([*command, *case.arguments(False, 0.001)])
    bare, cpu = timed([*command, *case.arguments(False)])
    if cpu < BRIEF_S:
        cpu = min(cpu, *(timed([*command, *case.arguments(False)])[1] for _ in range(ROUNDS - 1)))
    watched, _ = timed([*command, *case.arguments(True)])
    if bare["data_packets"] != watched["data_packets"]:
        raise RuntimeError(f"watching changed the outcome: {bare} and {watched}")
    return watched | {"cpu_s": cpu - empty}


def timed(command: Sequence[str | Path]) -> tuple[Outcome, float]:
    """What a program printed and the processor time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # ns-2 echoes commands beside it.
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{"))), cpu


def install_ns2() -> list[str | Path]:
    """The command for ns-2; `RuntimeError` says why there is none."""
    if shutil.which("ns") is None and shutil.which("apt-get") and os.geteuid() == 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "install", "--yes", "-qq", "ns2"], env=environment, capture_output=True, check=False)
    if shutil.which("ns") is None:
        raise RuntimeError("ns-2 is not installed (package ns2)")
    return ["ns", HERE / "dumbbell.tcl"]


def install_ns3(folder: Path) -> list[str | Path]:
    """The compiled program for ns-3; `RuntimeError` says why there is none."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("no C++ compiler")
    wheel = folder / "ns3"
    if not (wheel / "ns3").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", wheel, f"ns3=={NS3_VERSION}"]
        if subprocess.run(pip, check=False).returncode:
            raise RuntimeError(f"the wheel ns3 {NS3_VERSION} cannot be had")
    libraries = wheel / "ns3" / "lib64"
    version = NS3_VERSION.rsplit(".", 1)[0]
    wanted = ("core", "network", "internet", "point-to-point", "applications", "traffic-control")
    program = folder / "dumbbell"
    command = [
        compiler, "-std=c++23", "-O2", "-DNDEBUG", f"-I{wheel / 'ns3' / 'include'}",
        HERE / "dumbbell.cc", "-o", program,
        f"-L{libraries}", *(f"-l:libns{version}-{name}.so" for name in wanted),
        f"-Wl,-rpath,{libraries}", "-Wl,--allow-shlib-undefined",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"dumbbell.cc does not compile: {done.stderr.strip().splitlines()[:1]}")
    return [program]


def compare(folder: Path) -> dict[str, dict[str, Outcome | str]]:
    """Every case in every program; a text says why there is none."""
    programs: dict[str, list[str | Path] | str] = {}
    for name, install in (("ns-2.35", install_ns2), (f"ns-{NS3_VERSION[:4]}", lambda: install_ns3(folder))):
        try:
            programs[name] = install()
        except (RuntimeError, OSError) as error:
            programs[name] = str(error)
    out: dict[str, dict[str, Outcome | str]] = {}
    for case in CASES:
        print(f"{case.key}: tailback", file=sys.stderr, flush=True)
        row: dict[str, Outcome | str] = {"tailback": tailback(case)}
        for name, program in programs.items():
            if isinstance(program, str):
                row[name] = program
            elif silent := case.no_answer(name):
                row[name] = silent
            else:
                print(f"{case.key}: {name}", file=sys.stderr, flush=True)
                try:
                    row[name] = peer(program, case)
                except subprocess.TimeoutExpired:
                    row[name] = f"not done after {PATIENCE_S / 60:.0f} minutes"
                except (subprocess.CalledProcessError, RuntimeError, ValueError) as error:
                    row[name] = f"failed: {error}"
        out[case.key] = row
    return out


# --- The page -------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def page(measured: dict[str, Any], peers: dict[str, dict[str, Outcome | str]], reading: str) -> str:
    """docs/performance.md."""
    here = measured["machine"]
    once = " and ".join(key for key, each in bench.SCENARIOS.items() if each.rounds == 1)
    rows = []
    for case in CASES:
        ours = peers[case.key]["tailback"]
        assert isinstance(ours, dict)
        for name, outcome in peers[case.key].items():
            if isinstance(outcome, str):
                rows.append([case.key, name, outcome, *["–"] * 7])
                continue
            seconds = case.seconds
            pace = outcome["data_packets"] / outcome["cpu_s"]
            ratio = ours["data_packets"] / ours["cpu_s"] / pace
            rows.append(
                [
                    case.key,
                    name,
                    f"{pace / 1e6:.3g}",
                    "1" if name == "tailback" else f"{ratio:.1f} ×" if ratio < 10 else f"{ratio:.0f} ×",
                    f"{outcome['data_packets'] * 1448 * 8e-6 / seconds:.1f}",
                    f"{outcome['jain']:.2f}" if "jain" in outcome else "–",
                    f"{100 * outcome['dropped'] / outcome['arrived']:.3f}",
                    f"{outcome['backlog_mean_bytes'] / 1e3:.1f}",
                    f"{outcome['delay_p50_ms']:.1f}" if "delay_p50_ms" in outcome else "–",
                    f"{outcome['delay_p95_ms']:.1f}" if "delay_p95_ms" in outcome else "–",
                ]
            )
    side = table(
        [
            "",
            "program",
            "M packets / core s",
            "tailback is faster by",
            "goodput, Mbit/s",
            "Jain",
            "loss, %",
            "queue, kB",
            "delay p50, ms",
            "p95",
        ],
        rows,
    )
    alone = table(
        ["", "scenario", "M packets / core s", "M events / core s", "× real time", "peak memory, MB"],
        [
            [key, bench.SCENARIOS[key].title, "not in this engine yet", "–", "–", "–"]
            if found is None
            else [
                key,
                found["title"],
                f"{found['packets_per_core_s'] / 1e6:.2f}",
                f"{found['events_per_core_s'] / 1e6:.1f}",
                f"{found['simulated_s'] / found['cpu_s']:.0f}",
                f"{found['peak_mb']:.0f}",
            ]
            for key, found in ((key, measured[key]) for key in bench.SCENARIOS if key in measured)
        ],
    )
    many = measured["sweep"]
    # A share of the cores means nothing while others use them.
    busy = (
        f"it keeps {many['cores']:.0f} cores {100 * many['efficiency']:.0f} % busy with simulating"
        if here["load"] < 0.5
        else f"{100 * many['engine_share']:.0f} % of its processor time on {many['cores']:.0f} cores is the runs' own "
        "(time on the clock says nothing on a machine in use)"
    )
    facts = [
        f"- Start-up, from nothing to a first simulated packet, Python included: {measured['start_up_s']:.2f} s.",
        f"- Memory: {measured['bytes_per_flow'] / 1e3:.1f} kB a flow after 3 s (from 1,000 to 10,000 flows).",
        f"- A sweep adds {many['overhead_ms']:.2f} ms ({many['overhead_ms_least']:.2f} to "
        f"{many['overhead_ms_most']:.2f}) to each run and stores {many['stored_bytes_per_run']:.0f} bytes; "
        f"{busy} ({many['runs']:.0f} runs of {many['run_ms']:.0f} ms).",
    ]
    if "grid" in measured:
        grid = measured["grid"]
        facts.append(
            f"- (d) The {grid['runs']:.0f} runs of the voip-latency grid, measured and judged: {grid['wall_s']:.0f} s "
            f"on {here['cores']} cores."
        )
    cases = "\n".join(f"- **{case.key}**: {case.title}; {case.seconds} s simulated." for case in CASES)
    notes = HERE.parent / "notes.md"
    tail = "\n" + notes.read_text(encoding="utf-8") if notes.exists() else ""
    return f"""# Performance

After this page you know how fast tailback {here["tailback"]} was, whose times these are.

Generated by `make bench-peers` on {time.strftime("%Y-%m-%d", time.gmtime())}; do not edit. Your own machine:
`tailback bench --quick` (some seconds).

Measured on: {here["processor"]}, {here["cores"]} cores, {here["memory_gib"]} GiB, {here["system"]}, Python
{here["python"]}, tailback {here["tailback"]}, compiled {here["build"]};
load before the start {here["load"]}. Times are processor time, beside the peers the best of {ROUNDS} rounds (of a
peer that takes over {BRIEF_S:.0f} s: one), alone of {bench.ROUNDS} ({once}: one).

## Beside ns-2 and ns-3

{cases}

<!-- peers: written by make bench-peers -->
{side}
<!-- end of peers -->

The timed runs record nothing. Packets are data packets delivered to the receivers. Loss and queue are those of the
bottleneck; delay is one-way, of the call; Jain's index is over the bulk flows (where
some starve, the rest lose less). In each program sender and receiver are at the two ends of one link. They have
SACK, an initial window of ten segments, 1448 bytes of payload in IP packets of 1500, delayed acknowledgements, and
windows that never limit. The peers' programs are in `bench/peers/`; ns-3 is PyPI's wheel. The programs are no
copies of each other: slow start, recovery and timers follow ns-2's `Sack1` (for CUBIC its `TCP/Linux`), ns-3's
`TcpNewReno` and our `linux` stack, so outcomes differ. In (a) slow start decides loss and Jain's index; in (e) shares
and queue differ. Start-up time is taken off. In (a) ns-3's slow start is
set to end at 4 MB, as without it 10 simulated seconds did not end within two minutes.

{reading}

## Alone

<!-- alone: written by make bench-peers -->
{alone}

{chr(10).join(facts)}
<!-- end of alone -->
{tail}"""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "docs" / "performance.md")
    parser.add_argument("--json", type=Path, help="Also write the numbers.")
    parser.add_argument("--work", type=Path, help="Folder for the wheel and the program; kept for the next time.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        measured = bench.run(grid=True, announce=lambda text: print(text, file=sys.stderr, flush=True))
        peers = compare(folder.absolute())
        reading = captures.section(*captures.measure())
    if given.json:
        given.json.write_text(json.dumps({"bench": measured, "peers": peers}, indent=1) + "\n")
    given.out.write_text(page(measured, peers, reading), encoding="utf-8")
    print(f"wrote {given.out.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
