"""Reading captures: tailback, tshark and tcptrace on the same file, by processor time and memory.

`make bench-peers` calls it; alone, it writes its section of docs/performance.md again. The file is a run's: four
connections at 1 Gbit/s for as many packets as asked, 96 bytes of each kept, captured at both ends. What a program takes
for the run's first second is taken off, start-up included. Each reading is done a few times, the two
lengths in turns: where their times overlap, the machine was not still, and the page says so instead of a figure.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tailback as tb
from tailback import bench, capture

BEGIN, END = "<!-- captures: written by bench/peers/captures.py -->", "<!-- end of captures -->"
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
SECONDS, LEAST_SECONDS = 20, 1
#: A program is read so often, but once only if that takes longer than `PATIENCE_S`.
ROUNDS, PATIENCE_S = 5, 10.0


@dataclass(frozen=True)
class Measured:
    """One program on one file, or why there is none."""

    command: str
    packets: int
    cpu_s: float
    peak_mb: float
    trouble: str = ""


def taken(command: Sequence[str | Path]) -> tuple[float, float]:
    """Processor seconds and peak megabytes of a program."""
    # From a small process: a child's peak is at least what its parent held when it was made.
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=-3, stderr=-3, check=True); "
        "it = resource.getrusage(resource.RUSAGE_CHILDREN); print(it.ru_utime + it.ru_stime, it.ru_maxrss / 1024)"
    )
    words = [sys.executable, "-S", "-c", code, *map(str, command)]
    cpu, peak = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return float(cpu), float(peak)


def captures(folder: Path, seconds: float) -> tuple[list[Path], int]:
    """A run's packets at both ends, as pcap with microseconds, which all programs read; and how many at the sender."""
    scenario = bench.gigabit(seconds).with_(instruments={"captures": ["left", "right"], "most_rows": 50_000_000})
    result = tb.run(scenario)
    paths, count = [], 0
    for point in ("left", "right"):
        path = folder / f"{point}-{seconds:g}.pcapng"
        count = max(count, capture.export(result, point, path, snap=96))
        plain = path.with_suffix(".pcap")
        subprocess.run(["editcap", "-F", "pcap", path, plain], check=True)
        path.unlink()
        paths.append(plain)
    return paths, count


def measure(seconds: float = SECONDS) -> tuple[list[Measured], float]:
    """Every program; and the larger file's megabytes. Needs editcap (Wireshark)."""
    ours: list[str | Path] = [sys.executable, "-c", "from tailback.cli import main; main()", "pcap"]
    programs: list[tuple[str, list[str | Path], bool]] = [
        ("tailback pcap flows", [*ours, "flows"], False),
        ("tailback pcap owd", [*ours, "owd"], True),
        ("tcptrace -l -r -n", ["tcptrace", "-l", "-r", "-n"], False),
        ("tshark -q -z conv,tcp", ["tshark", "-q", "-z", "conv,tcp", "-r"], False),
    ]
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (long, packets), (short, few) = captures(folder, seconds), captures(folder, LEAST_SECONDS)
        size = long[0].stat().st_size / 1e6
        for name, command, is_pair in programs:
            if shutil.which(str(command[0])) is None:
                rows.append(Measured(name, 0, 0.0, 0.0, "not installed"))
                continue
            count = 2 if is_pair else 1
            rounds: list[tuple[tuple[float, float], tuple[float, float]]] = []
            while len(rounds) < ROUNDS and not (rounds and rounds[0][1][0] > PATIENCE_S):
                rounds.append((taken([*command, *short[:count]]), taken([*command, *long[:count]])))
            rows.append(difference(name, (packets - few) * count, rounds))
    return rows, size


def difference(name: str, packets: int, rounds: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> Measured:
    """The longer reading less the shorter, each the best of its rounds of (processor seconds, megabytes).

    No figure if a short reading usually took as long as the best long one: then the machine was busy, not the program.
    """
    empty, (best, peak) = min(short for short, _ in rounds)[0], min(long for _, long in rounds)
    if statistics.median(short[0] for short, _ in rounds) >= best:
        return Measured(name, packets, 0.0, peak, "not measured: the machine was not still")
    return Measured(name, packets, best - empty, peak)


def section(rows: Sequence[Measured], size_mb: float) -> str:
    """Markdown."""
    lines = ["| program | M packets / core s | peak memory, MB |", "| --- | --- | --- |"]
    for row in rows:
        pace = row.trouble or f"{row.packets / row.cpu_s / 1e6:.2f}"
        lines.append(f"| `{row.command}` | {pace} | {'–' if row.trouble else f'{row.peak_mb:.0f}'} |")
    table = "\n".join(lines)
    return f"""{BEGIN}

## Reading captures, beside tshark and tcptrace

{table}

The same file for all: {max(row.packets for row in rows) / 2e6:.2f} million packets of a run at 1 Gbit/s,
{size_mb:.0f} MB with 96 bytes of each, pcap; `owd` reads it and the one at the far end. Processor time, the best of
{ROUNDS} rounds (one if a reading takes over {PATIENCE_S:.0f} s), less what the program takes for the same run's first
second.

{END}"""


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the run")
    given = parser.parse_args()
    text = section(*measure(given.seconds))
    old = PAGE.read_text(encoding="utf-8")
    head, found, rest = old.partition(BEGIN)
    if not found:
        head, found, rest = old.partition("## Alone\n")
        rest = f"{END}\n\n{found}{rest}"
    PAGE.write_text(head + text + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
