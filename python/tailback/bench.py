"""Measures simulation speed: fixed scenarios, each in its own process, by processor time.

`tailback bench --quick` takes some seconds. For one scenario of any length, `python -m tailback.bench w 830 1` (name,
simulated seconds, rounds) prints processor time and peak memory. The same scenarios in Rust alone are in
`crates/tailback-core/benches/engine.rs`; side by side with ns-2 and ns-3: `make bench-peers`.
"""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback import _core
from tailback.errors import TailbackError
from tailback.experiment import GRID, studies, sweep
from tailback.run import cores, run_each
from tailback.scenario import Flow, Scenario, bulk, dumbbell, flow, voip

__all__ = ["SCENARIOS", "BenchError", "Measured", "grid_wall", "machine", "measure", "run", "sweep_cost"]

#: Default repetitions of a scenario.
ROUNDS = 3
#: Web background sessions per second at full scale.
WEB_SESSIONS = 5000


class BenchError(TailbackError):
    """A measurement that failed."""


def _bulks(count: int, buffer: str = "64MB", cc: str = "reno") -> list[Flow]:
    # Start times spread over a second, as in the engine's own benchmark.
    return [
        bulk(cc, name=f"bulk-{n}", start=f"{n * 1_000_000 // count}us", send_buffer=buffer, receive_buffer=buffer)
        for n in range(count)
    ]


def gigabit(seconds: int, **more: Any) -> Scenario:
    """(a) Four NewReno flows, 1 Gbit/s, 100 ms, a queue of one BDP in packets of 1500 bytes."""
    flows = _bulks(4)
    return dumbbell(rate="1gbit", rtt="100ms", queue="8333packets", flows=flows, duration=f"{seconds}s", **more)


def gigabit_cubic(seconds: int, **more: Any) -> Scenario:
    """(a') Four CUBIC flows, a queue of 0.2 BDP, and random loss of one packet in a million."""
    path: dict[str, Any] = {"rate": "1gbit", "rtt": "100ms", "queue": "1667packets", "wire": {"loss": 1e-6}}
    return dumbbell(**path, flows=_bulks(4, cc="cubic"), duration=f"{seconds}s", **more)


def probed(seconds: int) -> Scenario:
    """(a) with windows and backlog polled every millisecond, and every drop recorded."""
    watch = {"polls": "all", "queue_polls": ["bottleneck"], "drops": ["bottleneck"], "poll_interval": "1ms"}
    return gigabit(seconds, instruments=watch)


def crowd(count: int, seconds: int) -> Scenario:
    """(c) Many flows on the path of (a)."""
    flows = _bulks(count, "4MB")
    return dumbbell(rate="1gbit", rtt="100ms", queue="8333packets", flows=flows, duration=f"{seconds}s")


def codel(seconds: int) -> Scenario:
    """(e) Ten flows through CoDel at 20 Mbit/s, 30 ms."""
    queue = {"discipline": "codel"}
    return dumbbell(rate="20mbit", rtt="30ms", queue=queue, flows=_bulks(10), duration=f"{seconds}s")


def call(seconds: int) -> Scenario:
    """A call beside a download: the voip dumbbell of the comparison with ns-2 and ns-3."""
    flows = [*_bulks(1), voip(name="voip")]
    watch = {"packets": ["voip"]}
    path: dict[str, Any] = {"rate": "10mbit", "rtt": "80ms", "queue": "66packets"}
    return dumbbell(**path, flows=flows, duration=f"{seconds}s", instruments=watch)


def web(seconds: int) -> Scenario | None:
    """(b) The flows of (a) beside web sessions; `None` if the engine has no such application."""
    if not any(row["name"] == "web" for row in json.loads(_core.registry())["apps"]):
        return None
    flows = [*_bulks(4), flow("web", name="web", params={"rate": float(WEB_SESSIONS)})]
    return dumbbell(rate="1gbit", rtt="100ms", queue="8333packets", flows=flows, duration=f"{seconds}s")


def sessions(seconds: int) -> Scenario:
    """(w) The ocean fibre's web background on 1 Gbit/s: 4,000 sessions per second one way and 1,000 the other."""
    ends = {"right": "left", "left": "right"}
    flows = [
        flow("web", name=f"web-{from_}", from_=from_, to=to, params={"rate": rate})
        for (from_, to), rate in zip(ends.items(), (4000.0, 1000.0), strict=True)
    ]
    return dumbbell(rate="1gbit", rtt="100ms", queue="8333packets", flows=flows, duration=f"{seconds}s")


@dataclass(frozen=True)
class _Bench:
    title: str
    make: Callable[[int], Scenario | None]
    #: Simulated seconds in full, and with `--quick` (0 leaves it out).
    full: int
    quick: int
    #: Repetitions, of which the best counts.
    rounds: int = ROUNDS


#: Benchmarks by their letter in docs/performance.md.
SCENARIOS: Mapping[str, _Bench] = {
    "a": _Bench("4 bulk flows, 1 Gbit/s, 100 ms", gigabit, 60, 10),
    "a-cubic": _Bench("4 bulk CUBIC flows, 1 Gbit/s, 100 ms, 0.2 BDP, a loss of 1e-6", gigabit_cubic, 60, 0),
    "a-probed": _Bench("the same, windows and queue read every ms", probed, 60, 0),
    "b": _Bench(f"the same beside {WEB_SESSIONS} web sessions/s", web, 830, 0, rounds=1),
    "w": _Bench("4,000 + 1,000 web sessions/s, 1 Gbit/s", sessions, 100, 0, rounds=1),
    "c-1000": _Bench("1,000 bulk flows, 1 Gbit/s, 100 ms", lambda seconds: crowd(1_000, seconds), 30, 0),
    "c-10000": _Bench("10,000 bulk flows, 1 Gbit/s, 100 ms", lambda seconds: crowd(10_000, seconds), 30, 0),
    "e": _Bench("10 bulk flows, CoDel, 20 Mbit/s, 30 ms", codel, 600, 60),
}


@dataclass(frozen=True)
class Measured:
    """A scenario's speed: the best of the rounds, since the others include more noise from the machine."""

    title: str
    simulated_s: float
    cpu_s: float
    cpu_s_median: float
    packets: float
    events: float
    peak_mb: float

    @property
    def packets_per_core_s(self) -> float:
        """Packets that left the bottleneck, per second of processor time."""
        return self.packets / self.cpu_s

    @property
    def events_per_core_s(self) -> float:
        """Engine events per second of processor time."""
        return self.events / self.cpu_s

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "title": self.title,
            "packets_per_core_s": self.packets_per_core_s,
            "events_per_core_s": self.events_per_core_s,
            "packets": self.packets,
            "events": self.events,
            "cpu_s": self.cpu_s,
            "cpu_s_median": self.cpu_s_median,
            "simulated_s": self.simulated_s,
            "peak_mb": self.peak_mb,
        }


def measure(name: str, seconds: int, rounds: int | None = None) -> Measured | None:
    """Time a scenario in its own process; `None` if this engine cannot build it."""
    command = [sys.executable, "-P", "-m", "tailback.bench", name, str(seconds), str(rounds or SCENARIOS[name].rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"benchmark {name} failed: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    found = json.loads(done.stdout)
    return None if found is None else Measured(**found)


def _measure_here(name: str, seconds: int, rounds: int) -> dict[str, Any] | None:
    scenario = SCENARIOS[name].make(seconds)
    if scenario is None:
        return None
    text = scenario.to_json()
    times = []
    tables: Any = {}
    for _ in range(rounds):
        tables = {}
        began = time.process_time()
        tables = _core.run(text, None, None)
        times.append(time.process_time() - began)
    return {
        "title": SCENARIOS[name].title,
        "simulated_s": float(seconds),
        "cpu_s": min(times),
        "cpu_s_median": statistics.median(times),
        "packets": float(tables["links"]["delivered"][0]),
        "events": float(tables["engine"]["events"][0]),
        "peak_mb": peak_mb(resource.getrusage(resource.RUSAGE_SELF)),
    }


def peak_mb(usage: resource.struct_rusage) -> float:
    """Peak memory of a process in MB; the raw value is in kilobytes on Linux, bytes on macOS."""
    return usage.ru_maxrss / (1e3 if sys.platform == "linux" else 1e6)


def start_up_s() -> float:
    """Seconds from starting Python to the first simulated packet."""
    code = "import tailback as tb; tb.run(tb.dumbbell(rate='1mbit', rtt='20ms', flows=[tb.voip()], duration='1s'))"
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-P", "-c", code], check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def sweep_cost(runs: int = 200, workers: int | None = None) -> dict[str, float]:
    """Overhead of a sweep: time per run on one thread, and utilisation of all cores."""
    count = workers or cores()
    base = dumbbell(rate="20mbit", rtt="20ms", flows=[bulk("reno", name="bulk")], duration="60s")
    scenarios = [base.with_(seed=seed).to_json() for seed in range(1, runs + 1)]
    bare = bare_cpu = many = many_cpu = math.inf
    added = []
    with tempfile.TemporaryDirectory() as folder:
        # Alternating, and the best of each: the others include other load of the machine.
        for turn in range(3):
            began, cpu_began = time.perf_counter(), time.process_time()
            for text in scenarios:
                _core.run(text, None, None)
            bare = min(bare, time.perf_counter() - began)
            this_bare = time.process_time() - cpu_began
            bare_cpu = min(bare_cpu, this_bare)
            cpu_began = time.process_time()
            many = min(many, sweep(base, seeds=runs, store=Path(folder) / f"many-{turn}", workers=count).wall_s)
            many_cpu = min(many_cpu, time.process_time() - cpu_began)
            cpu_began = time.process_time()
            sweep(base, seeds=runs, store=Path(folder) / f"one-{turn}", workers=1)
            added.append(1e3 * (time.process_time() - cpu_began - this_bare) / runs)
        stored = sum(path.stat().st_size for path in (Path(folder) / "one-0").rglob("*") if path.is_file())
    return {
        "runs": float(runs),
        "run_ms": 1e3 * bare_cpu / runs,
        # Processor time, so that other processes do not count. It is a small difference of two large sums, hence the
        # least and the largest value; on a busy machine it may be negative.
        "overhead_ms": sorted(added)[len(added) // 2],
        "overhead_ms_least": min(added),
        "overhead_ms_most": max(added),
        "cores": float(count),
        # Share of the runs in the sweep's processor time on all cores.
        "engine_share": bare_cpu / many_cpu,
        # Wall-clock time: meaningful only on an idle machine.
        "efficiency": bare / (count * many),
        "stored_bytes_per_run": stored / runs,
    }


def grid_wall(workers: int | None = None) -> dict[str, float]:
    """(d) Wall time of the voip-latency study's grid, one seed, measuring included."""
    study = studies.get("voip-latency")
    cells = [cell for cell in study.grid(False) if cell.role == GRID]
    by_name = {cell.scenario.name: cell for cell in cells}
    cells.sort(key=lambda cell: -cell.cost)
    began = time.perf_counter()
    for _ in run_each(
        [cell.scenario for cell in cells],
        workers=workers,
        then=lambda result: study.extract(by_name[result.name], result) and None,
    ):
        pass
    return {"runs": float(len(cells)), "wall_s": time.perf_counter() - began}


def machine() -> dict[str, Any]:
    """The machine's properties that affect the numbers, without its name."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    # The Makefile records the build profile in files.
    is_fast, profile = (Path(sys.prefix) / ".fast").exists(), Path(sys.prefix) / ".profile"
    is_local = profile.is_file() and profile.read_text(encoding="utf-8").strip() == "local"
    usual = "by the profile local (`make demo`)" if is_local else "without a profile (`make env`)"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "tailback": _core.version(),
        "build": "by its own profile (`make fast`)" if is_fast else usual,
        "load": round(os.getloadavg()[0], 2),
    }


def run(
    *,
    quick: bool = False,
    grid: bool = False,
    sweep: bool = False,
    announce: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """All measurements, as `tailback bench --json` prints them; `announce` is called with each name before it starts.

    With `sweep`, only the overhead of a sweep.
    """
    out: dict[str, Any] = {"quick": quick, "machine": machine()}
    if sweep:
        announce("sweep")
        return out | {"sweep": sweep_cost()}
    for name, bench in SCENARIOS.items():
        seconds = bench.quick if quick else bench.full
        if seconds:
            announce(f"{name}: {bench.title}")
            found = measure(name, seconds)
            out[name] = None if found is None else found.to_json()
    if not quick:
        announce("start-up, sweep")
        out["start_up_s"] = start_up_s()
        out["sweep"] = sweep_cost()
        # Ends soon after all flows have started: later the congestion events take more memory than the flows.
        few, many = measure("c-1000", 3, 1), measure("c-10000", 3, 1)
        if few is not None and many is not None:
            out["bytes_per_flow"] = 1e6 * (many.peak_mb - few.peak_mb) / 9_000
    if grid:
        announce("the grid of voip-latency")
        out["grid"] = grid_wall()
    return out


if __name__ == "__main__":
    print(json.dumps(_measure_here(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
