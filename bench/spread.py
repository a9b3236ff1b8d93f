"""Many short runs on Dask, one worker killed and one slowed meanwhile: is a run lost, and what does spreading cost?

    python bench/spread.py                     # 20,000 runs of a call beside a download, eight workers here
    python bench/spread.py --points 2000 --seeds 1 --undisturbed

Times are of processors, of all processes together, so that other work on the machine counts little. The same sweep on
threads of one process follows, and both must come to the same frame.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import distributed

import tailback as tb
from tailback import _core, bench
from tailback.experiment import grid

CLOCKS = ("wall_s", "finished")
#: Runs timed by themselves, for what the engine takes.
SAMPLE = 100


def base(simulated_s: int) -> tb.Scenario:
    """A call beside a download, with something left to chance."""
    return bench.call(simulated_s).with_(randomness={"start_spread": "100ms"})


def design(points: int) -> tb.experiment.Design:
    """`points` queue lengths."""
    return grid({"dumbbell.queue": [f"{10 + number}packets" for number in range(points)]})


def engine_s(points: int, simulated_s: int) -> float:
    """Processor time of a run in the engine alone, on the mean of the points."""
    texts = [
        base(simulated_s).with_(point, seed=10**6).to_json()
        for point in list(design(points))[:: max(1, points // SAMPLE)]
    ]
    took = []
    for text in texts:
        began = time.thread_time()
        _core.run(text, None, None)
        took.append(time.thread_time() - began)
    return statistics.fmean(took)


def peak_mb() -> float:
    """Of this process, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def sweep(arguments: argparse.Namespace, store: Path, **more: Any) -> tb.SweepResult:
    """The sweep, into a store."""
    return tb.sweep(base(arguments.simulated), design(arguments.points), seeds=arguments.seeds, store=store, **more)


class Trouble:
    """Kills a worker a third of the way, and halfway stops another for ten seconds and makes it slow from then on."""

    def __init__(self, processes: list[int]) -> None:
        self._killed, self._slowed = processes[:2]
        self.done_so_far: list[str] = []

    def __call__(self, done: int, total: int) -> None:
        """At each look of the sweep."""
        if done >= total // 3 and not self.done_so_far:
            os.kill(self._killed, signal.SIGKILL)
            self.done_so_far.append(f"killed a worker after {done} runs")
        if done >= total // 2 and len(self.done_so_far) == 1:
            os.kill(self._slowed, signal.SIGSTOP)
            os.setpriority(os.PRIO_PROCESS, self._slowed, 19)
            threading.Timer(10.0, os.kill, (self._slowed, signal.SIGCONT)).start()
            self.done_so_far.append(f"stopped another for 10 s after {done} runs, and gave it nice 19")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--simulated", type=int, default=20, help="seconds a run")
    parser.add_argument("--undisturbed", action="store_true", help="kill and slow no worker")
    parser.add_argument("--threads", type=Path, help="a store of the same sweep on threads, instead of doing it")
    arguments = parser.parse_args()
    runs = arguments.points * arguments.seeds
    load, each = os.getloadavg()[0], [engine_s(arguments.points, arguments.simulated)]
    with tempfile.TemporaryDirectory(prefix="tailback-") as folder:
        with (
            distributed.LocalCluster(
                n_workers=arguments.workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            workers = {pid: _stat(pid) for pid in client.run(os.getpid).values()}
            started, own = sum(workers.values()), time.process_time()
            trouble, seen = Trouble(list(workers)), Seen(workers)
            done = sweep(arguments, Path(folder) / "dask", on=client, progress=Both(seen, trouble, arguments))
            own = time.process_time() - own
            seen.look(client.run(os.getpid).values())
            memory = sorted(client.run(peak_mb).values())
            spread = seen.total() - started
        each.append(engine_s(arguments.points, arguments.simulated))
        engine = statistics.fmean(each)
        print(f"load {load:.0f} to {os.getloadavg()[0]:.0f}")
        print(f"{runs} runs on {arguments.workers} workers in {done.wall_s:.0f} s")
        print(*trouble.done_so_far, sep="\n")
        print(f"done {done.run}, failed {done.failed}")
        print(f"ms of processor a run: engine {1e3 * each[0]:.2f} before and {1e3 * each[1]:.2f} after,")
        print(f"  workers {1e3 * spread / runs:.2f}, this process with the scheduler {1e3 * own / runs:.2f}")
        print(f"efficiency: {engine * runs / (spread + own):.3f} of all processor time is the engine's")
        print(f"MB at most: worker {memory[-1]:.0f} (median {statistics.median(memory):.0f}), this {peak_mb():.0f}")
        stored = sum(path.stat().st_size for path in (Path(folder) / "dask" / "index").iterdir())
        print(f"index: {stored / runs:.0f} bytes a run", flush=True)
        began = time.process_time()
        here = sweep(arguments, arguments.threads or Path(folder) / "threads")
        took = (time.process_time() - began) / max(1, here.run)
        print(f"on threads: {here.run} runs, {1e3 * took:.2f} ms of processor each; {here.reused} found")
        same = done.frame.drop(*CLOCKS).equals(here.frame.drop(*CLOCKS))
        print(f"the same frame as on threads: {'yes' if same else 'NO'}")
        if not same or done.run != runs:
            raise SystemExit(1)


def _stat(pid: int) -> float:
    """Processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Seen:
    """Processor time of all workers there have been: of one that died what was seen last."""

    def __init__(self, workers: dict[int, float]) -> None:
        self._seen = dict(workers)

    def look(self, processes: Any) -> None:
        """Look at these, and at those known."""
        for pid in {*processes, *self._seen}:
            try:
                self._seen[pid] = _stat(pid)
            except (FileNotFoundError, ProcessLookupError):
                self._seen.setdefault(pid, 0.0)

    def total(self) -> float:
        """Of all together, in seconds."""
        return sum(self._seen.values())


class Both:
    """At each look of the sweep: look at the workers, then make trouble."""

    def __init__(self, seen: Seen, trouble: Trouble, arguments: argparse.Namespace) -> None:
        self._seen, self._trouble, self._quiet = seen, trouble, arguments.undisturbed
        self._looked = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Done so far, of this many."""
        if time.monotonic() - self._looked > 1.0:
            self._seen.look(())
            self._looked = time.monotonic()
        if not self._quiet:
            self._trouble(done, total)


if __name__ == "__main__":
    main()
