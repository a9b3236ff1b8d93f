"""Conditions and verdicts, which Rust reads and judges for both languages, are held to tests/expect/conditions.json.

`TAILBACK_WRITE=1 pytest tests/expect/test_kept_conditions.py` writes it.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import tailback as tb
from tailback.expect import judge
from tailback.expect.conditions import ConditionError, parse

KEPT = Path(__file__).with_name("conditions.json")
METRICS = {
    "jain": "", "utilisation": "", "a.goodput_mbps": "", "b.goodput_mbps": "", "a.loss": "", "a.rtt_min_ms": "",
    "two-b.cwnd_mean_bytes": "", "call.delay_p95_ms": 'packets = ["call"]',
}  # fmt: skip
CONDITIONS = (
    "a.goodput_mbps > 6000kbit",
    "a.goodput_mbps>6",
    "a.rtt_min_ms in 1..0.5s",
    "a.rtt_min_ms in 1 .. 2s",
    "a.loss + 1% < 2 * baseline",
    "a.loss <= baseline.b.goodput_mbps / 1mbit",
    "a.goodput_mbps / b.goodput_mbps in 0.5..2",
    "a.goodput_mbps * a.rtt_min_ms < 64kB",
    "two-b.cwnd_mean_bytes >= 3e4",
    "two-b.cwnd_mean_bytes < 64KiB + 1500B",
    "-a.loss < -(1 - 2)",
    "(a.loss - 4) / (a.loss - 4) < 1",
    "a.loss / 0 > 1",
    "jain < 1 / 3",
    "jain in 0..1",
    "a.rtt_min_ms / 1s < 1",
    "1 / a.rtt_min_ms < 5",
    "a.rtt_min_ms < 2min",
    "jain < 1e400",
    "jain < 1.5e-3",
    "jain < 1.",
    "",
    "  ",
    "jain",
    "jain <",
    "jain < 1 < 2",
    "jain in 1",
    "jain in 2..1",
    "jain in 1..",
    "< 1",
    "5 < jain",
    "jain ? 1",
    "a.goodput_mbps < 5ms",
    "a.loss < 5furlong",
    "a.loss < 5 mss",
    "a.gootput_mbps < 5",
    "c.loss < 1",
    "jian < 1",
    "in < 1",
    "call.delay_p95_ms < 50",
    "baseline < 1",
    "baseline.a.loss < baseline",
    "baseline.a.los < 1",
    "jain < (1",
    "jain < 1)",
    "jain < a.loss b",
    "jain < ..",
    "é < 1",
    "jain < 1µs",
    "jain < 5 % ",
    "jain<=+1",
    "a.goodput_mbps + 1 < 10 mbit",
    "baselines.loss < 1",
    "jain < 1_000",
    "jain < 5ms.x",
)
#: Relation, what each seed's sides are, and the confidence.
VERDICTS: tuple[tuple[str, list[list[float]], float], ...] = (
    ("<", [[9.0, 50.0], [11.0, 50.0]], 0.95),
    ("<", [[9.0, 10.0], [11.0, 10.0]], 0.95),
    (">", [[1.0, 1.0]] * 5, 0.95),
    (">=", [[1.0, 1.0]] * 5, 0.95),
    ("<", [[9.0, 10.0]] * 5 + [[-1e6, 10.0]], 0.95),
    ("<", [[9.0, 10.0]] * 4 + [[-1e6, 10.0]], 0.95),
    ("in", [[1.0, 0.5, 2.0], [1.1, 0.5, 2.0], [0.9, 0.5, 2.0]], 0.95),
    ("in", [[1.0, 0.9, 1.1], [1.4, 0.9, 1.1], [0.5, 0.9, 1.1]], 0.95),
    ("<=", [[1.0, 2.0], [1.9, 2.0], [2.3, 2.0]], 0.5),
    ("<=", [[1.0, 2.0], [1.9, 2.0], [2.3, 2.0]], 0.999),
    (">", [[3.0, 2.9], [3.1, 2.8], [3.2, 3.1], [3.0, 2.99]], 0.95),
    ("in", [[5.0, 0.5, 2.0]] * 3, 0.95),
)
SCENARIO = """
seed = 7
duration = "3s"
[dumbbell]
rate = "5mbit"
rtt = "30ms"
wire = { loss = 0.01 }
[[flow]]
name = "a"
cc = "cubic"
[[flow]]
name = "b"
cc = "reno"
[instruments]
polls = ["a"]
internals = true
[expect]
conditions = [
    "utilisation > 50%",
    "a.goodput_mbps in 1mbit..4mbit",
    "a.loss <= 3 * baseline",
    { holds = "a.cwnd_mean_bytes > 3kB", from = "1s", until = "2s" },
]
baseline = "vegas"
least = 3
"""


def value(name: str) -> float:
    """Some number a name, the same in both languages."""
    return len(name) / 4.0


def other(name: str) -> float:
    """The baseline's."""
    return len(name) / 8.0


def found() -> dict[str, Any]:
    """What comes of them; text of JSON has no NaN and no infinity."""
    read = []
    for text in CONDITIONS:
        try:
            condition = parse(text, METRICS, baseline=True)
        except ConditionError as error:
            read.append({"text": text, "problem": error.problem, "fix": error.fix})
        else:
            sides = [each if math.isfinite(each) else str(each) for each in condition.sides(value, other)]
            names = list(condition.names)
            read.append({"text": text, "sides": sides, "names": names, "needs_baseline": condition.needs_baseline})
    verdicts = [
        {
            "relation": relation, "sides": rows, "confidence": confidence,
            "verdict": judge(relation, dict(enumerate(map(tuple, rows))), confidence).verdict,
        }
        for relation, rows, confidence in VERDICTS
    ]  # fmt: skip
    return {"metrics": list(METRICS.items()), "conditions": read, "verdicts": verdicts}


def of_scenario(tmp_path: Path) -> dict[str, Any]:
    """What Python says of a scenario."""
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO)
    (only,) = tb.test(file, workers=1).scenarios
    rows = [
        {"text": text, "verdict": one.verdict, "mean": one.measured.estimate, "low": one.measured.low,
         "high": one.measured.high, "bounds": [bound.estimate for bound in one.bounds], "worst": one.worst_seed}
        for text, one in zip(only.conditions, only.judged, strict=True)
    ]  # fmt: skip
    return {"toml": SCENARIO, "seeds": only.seeds, "conditions": rows}


def test_python_reads_and_judges_as_is_kept(tmp_path: Path) -> None:
    now = found() | {"scenario": of_scenario(tmp_path)}
    if os.environ.get("TAILBACK_WRITE"):
        KEPT.write_text(json.dumps(now, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    assert json.loads(json.dumps(now)) == json.loads(KEPT.read_text(encoding="utf-8"))
