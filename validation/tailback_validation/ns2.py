"""Runs ns-2, if installed, on the same path, and measures its trace and our result in the same way.

Its measures differ from the kernel's in two ways: goodput counts IP bytes, and an epoch is the time between
clusters of drops, because `Agent/TCP/Linux` shows no recovery state.
"""

from __future__ import annotations

import csv
import math
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback.errors import TailbackError
from tailback.result import EVENTS
from tailback_validation import truth
from tailback_validation.measures import MSS, induced_ms
from tailback_validation.path import NS2_FROM_S, NS2_UNTIL_S

__all__ = ["ALGORITHMS", "Ns2Measures", "binary", "measure_result", "measure_trace", "run_all", "write_csv"]

Floats = npt.NDArray[np.float64]

ALGORITHMS = (
    "reno",
    "cubic",
    "htcp",
    "highspeed",
    "hybla",
    "vegas",
    "veno",
    "westwood",
    "illinois",
    "yeah",
    "bic",
    "scalable",
    "compound",
)
"""Algorithms that both ns-2.35's Agent/TCP/Linux and tailback have."""

_CLUSTER_S = 0.5
"""Drops further apart than this belong to different congestion events; a recovery here takes 0.2 s."""
_DROP = EVENTS.index("drop")


@dataclass(frozen=True)
class Ns2Measures:
    """One run; names and units are those of truth/ns2-2.35.csv."""

    goodput_mbps: float
    voice_p10_ms: float
    voice_median_ms: float
    voice_p90_ms: float
    voice_p99_ms: float
    voice_lost: float
    epoch_s: float
    dropped: float


def _measures(ip_bytes: float, voice: Floats, drops: Floats) -> Ns2Measures:
    heard = voice[~np.isnan(voice)]
    p10, median, p90, p99 = (float(np.percentile(heard, q)) for q in (10, 50, 90, 99))
    starts = drops[np.diff(drops, prepend=-math.inf) > _CLUSTER_S]
    return Ns2Measures(
        goodput_mbps=8e-6 * ip_bytes / (NS2_UNTIL_S - NS2_FROM_S),
        voice_p10_ms=p10,
        voice_median_ms=median,
        voice_p90_ms=p90,
        voice_p99_ms=p99,
        voice_lost=float(np.isnan(voice).mean()),
        epoch_s=float(np.diff(starts).mean()) if len(starts) > 1 else math.nan,
        dropped=float(len(drops)),
    )


def measure_result(result: Any) -> Ns2Measures:
    """The measures of our run of the same path."""
    polls = result.where_flow("polls", "bulk")
    first, last = (int(np.searchsorted(polls["t_s"], at, side="right")) - 1 for at in (NS2_FROM_S, NS2_UNTIL_S))
    received = float(polls["bytes_received"][last] - polls["bytes_received"][first])
    rows = result.where_link("queue", "bottleneck")
    own = (rows["event"] == _DROP) & (rows["flow"] == result.flow_index("bulk")) & (rows["t_s"] >= NS2_FROM_S)
    # Packets sent shortly before the end are still in flight, as in ns-2's trace.
    voice = induced_ms(result, "voip", NS2_FROM_S, NS2_UNTIL_S - 1.0)
    return _measures(received * 1500 / MSS, voice, rows["t_s"][own])


def measure_trace(path: Path) -> Ns2Measures:
    """The measures of a trace of the bottleneck's queue."""
    sent: dict[str, float] = {}
    received: dict[str, float] = {}
    segments: set[str] = set()
    before: set[str] = set()
    drops: list[float] = []
    with path.open(encoding="ascii") as lines:
        for line in lines:
            event, at, _, _, kind, *_, number, identity = line.split()
            if kind == "cbr":
                if event == "+":
                    sent[identity] = float(at)
                elif event == "r":
                    received[identity] = float(at)
            elif event == "r":
                (segments if float(at) >= NS2_FROM_S else before).add(number)
            elif event == "d" and float(at) >= NS2_FROM_S:
                drops.append(float(at))
    delays = {identity: received.get(identity, math.nan) - at for identity, at in sent.items()}
    base = min(delay for delay in delays.values() if not math.isnan(delay))
    voice = [1e3 * (delays[i] - base) for i, at in sent.items() if NS2_FROM_S <= at < NS2_UNTIL_S - 1.0]
    return _measures(1500.0 * len(segments - before), np.array(voice), np.array(drops))


def binary() -> str | None:
    """The ns-2 binary on the path, if there is one."""
    return shutil.which("ns")


def _run(command: str, script: Path, folder: Path, algorithm: str, delayed: str) -> Ns2Measures:
    trace = folder / f"{algorithm}-{delayed}.tr"
    words = [command, str(script), algorithm, delayed, str(round(NS2_UNTIL_S)), str(trace)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not trace.exists():
        raise TailbackError(f"ns-2 failed on {algorithm}: {(done.stderr or done.stdout).strip()[-400:]}")
    measures = measure_trace(trace)
    trace.unlink()
    return measures


def run_all() -> dict[tuple[str, bool], Ns2Measures]:
    """Run ns-2 with every algorithm, with and without delayed acknowledgements."""
    command = binary()
    if command is None:
        raise TailbackError("ns-2 is not installed: no `ns` on the path. On Debian: apt-get install ns2")
    cases = [(algorithm, delayed) for algorithm in ALGORITHMS for delayed in (True, False)]
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(2) as pool,
    ):
        jobs = [
            pool.submit(_run, command, truth.FOLDER / "ns2.tcl", Path(folder), algorithm, "on" if delayed else "off")
            for algorithm, delayed in cases
        ]
        return {case: job.result() for case, job in zip(cases, jobs, strict=True)}


def write_csv(measured: dict[tuple[str, bool], Ns2Measures], path: Path) -> None:
    """Write the measures beside the other measurements."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["algorithm", "delayed_ack", *(field.name for field in fields(Ns2Measures))])
        for (algorithm, delayed), measures in measured.items():
            numbers = ("" if math.isnan(value) else f"{value:.5g}" for value in astuple(measures))
            writer.writerow([algorithm, "on" if delayed else "off", *numbers])
