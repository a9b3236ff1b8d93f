"""Training and test runs: every algorithm on varied paths, captured at both ends and reduced to features."""

from __future__ import annotations

import math
import struct
import tempfile
import tomllib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tailback as tb
from tailback import capture
from tailback.capture.features import features
from tailback.capture.reading import CaptureError
from tailback.capture.rounds import Rounds, rounds
from tailback_validation import truth

PLAN = tomllib.loads((truth.FOLDER / "identify.toml").read_text(encoding="utf-8"))
POINTS = ("left", "right")
#: Name of a capture at one end that begins in the middle of the connection.
LATE = "late"
ALGORITHMS = (
    "reno", "veno", "westwood", "hybla", "dctcp", "htcp", "highspeed", "scalable", "illinois", "compound", "yeah",
    "cubic", "bic", "vegas", "ledbat", "cdg", "bbr", "bbr3",
)  # fmt: skip
_OTHERS = ("cubic", "reno", "bbr")
_PACKET_BITS = 1500 * 8
#: pcapng's enhanced packet block.
_PACKET_BLOCK = 6


@dataclass(frozen=True)
class Row:
    """One capture of one run."""

    path: int
    algorithm: str
    #: The right answer: the algorithm, or `reno` if only Reno's law is visible.
    label: str
    point: str
    values: dict[str, float]


def path(number: int) -> dict[str, Any]:
    """The random path of this number."""
    plan = PLAN["path"]
    stream = np.random.default_rng([PLAN["seed"], number])

    def log_uniform(low: float, high: float) -> float:
        return math.exp(stream.uniform(math.log(low), math.log(high)))

    while True:
        rate, rtt = log_uniform(*plan["rate_mbit"]), log_uniform(*plan["rtt_ms"])
        segments = rate * 1e6 * rtt * 1e-3 / _PACKET_BITS
        if plan["segments"][0] <= segments <= plan["segments"][1]:
            break
    out: dict[str, Any] = {"rate_kbit": round(rate * 1e3), "rtt_us": round(rtt * 1e3), "number": number}
    out["queue_packets"] = max(8, round(segments * log_uniform(*plan["queue_bdp"])))
    out["duration_ms"] = round(1e3 * log_uniform(*plan["duration_s"]))
    chances = stream.uniform(size=7)
    range_ = plan["heavy_loss"] if chances[0] < plan["with_heavy_loss"] else plan["loss"]
    out["loss"] = round(log_uniform(*range_), 6) if chances[0] < plan["with_heavy_loss"] + plan["with_loss"] else 0.0
    out["jitter_us"] = round(rtt * 1e3 * plan["jitter_of_rtt"]) if chances[1] < plan["with_jitter"] else 0
    out["codel"] = bool(chances[2] < plan["with_codel"])
    out["ecn"] = bool(out["codel"] and chances[3] < plan["with_ecn"])
    count = int(stream.integers(1, plan["most_others"] + 1)) if chances[4] < plan["with_other_bulk"] else 0
    out["others"] = [_OTHERS[int(stream.integers(3))] for _ in range(count)]
    out["call"] = bool(chances[5] < plan["with_call"])
    out["stack"] = "linux-3.2" if chances[6] < plan["with_old_stack"] else "linux"
    out["late_s"] = round(stream.uniform(*plan["late_share"]) * out["duration_ms"] * 1e-3, 3)
    return out


def scenario(drawn: dict[str, Any], algorithm: str) -> tb.Scenario:
    """One algorithm on a random path."""
    stack: dict[str, Any] = {"name": drawn["stack"]}
    if drawn["ecn"]:
        stack["ecn"] = True
        if algorithm == "dctcp":
            stack["accurate_echo"] = True
    flows = [tb.bulk(cc=algorithm, stack=stack, name="own")]
    plain = stack | {"accurate_echo": False} if drawn["ecn"] else stack
    flows += [tb.bulk(cc=other, stack=plain, name=f"other{place}") for place, other in enumerate(drawn["others"])]
    if drawn["call"]:
        flows.append(tb.voip())
    queue: Any = f"{drawn['queue_packets']}packets"
    if drawn["codel"]:
        queue = {"discipline": "codel", "ecn": drawn["ecn"]}
    wire = {key: value for key, value in (("loss", drawn["loss"]), ("jitter", f"{drawn['jitter_us']}us")) if value}
    return tb.dumbbell(
        rate=f"{drawn['rate_kbit']}kbit", rtt=f"{drawn['rtt_us']}us", queue=queue, wire=wire, flows=flows,
        duration=f"{drawn['duration_ms']}ms", seed=PLAN["seed"] * 1000 + drawn["number"],
    ).with_({"instruments.captures": list(POINTS)})  # fmt: skip


def label(algorithm: str, drawn: dict[str, Any], values: dict[str, float]) -> str:
    """The right answer, according to the plan's `reno_where`."""
    segments = 2.0 ** values["window_top_log"]
    is_reno = {
        "hybla": drawn["rtt_us"] <= 25_000,
        "highspeed": segments <= 38,
        "bic": segments <= 14,
        "dctcp": values["marks_per_100_rounds"] == 0,
    }.get(algorithm, False)
    return "reno" if is_reno else algorithm


def begun_late(capture_: bytes, late_s: float) -> bytes:
    """A capture that tailback wrote, cut to begin `late_s` seconds after the run's start."""
    kept, place = [], 0
    while place < len(capture_):
        kind, length = struct.unpack_from("<II", capture_, place)
        if kind == _PACKET_BLOCK:
            high, low = struct.unpack_from("<II", capture_, place + 12)
        if kind != _PACKET_BLOCK or (high << 32 | low) >= late_s * 1e9:
            kept.append(capture_[place : place + length])
        place += length
    return b"".join(kept)


def rows_of(number: int) -> list[Row]:
    """Rows of every algorithm on one path."""
    drawn = path(number)
    out = []
    for algorithm in ALGORITHMS:
        result = tb.run(scenario(drawn, algorithm))
        seen: dict[str, dict[str, float]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for point in POINTS:
                file = Path(folder) / f"{point}.pcapng"
                capture.export(result, point, file, snap=96)
            late = Path(folder) / f"{LATE}.pcapng"
            late.write_bytes(begun_late((Path(folder) / f"{POINTS[number % 2]}.pcapng").read_bytes(), drawn["late_s"]))
            for point in (*POINTS, LATE):
                try:
                    seen[point] = features(_own_rounds(Path(folder) / f"{point}.pcapng"))
                except CaptureError:
                    # Too little data: `identify` answers "unknown" without the trees.
                    continue
        if "left" in seen:
            right = label(algorithm, drawn, seen["left"])
            out += [Row(number, algorithm, right, point, values) for point, values in seen.items()]
    return out


def _own_rounds(file: Path) -> Rounds:
    """Rounds of the first flow, whichever end was seen first."""
    frame = capture.flows(file)
    names = [name for name in frame["name"] if "10.0.0.1:" in name]
    if not names:
        raise CaptureError(f"{file}: the flow is not in it")
    return rounds(file, names[0])


def all_rows(processes: int) -> list[Row]:
    """Every path of the plan; the order does not depend on the number of processes."""
    numbers = range(PLAN["train_paths"] + PLAN["test_paths"])
    with ProcessPoolExecutor(processes) as pool:
        return [row for rows in pool.map(rows_of, numbers) for row in rows]
