"""No-op changes give no false alarm, and changes that matter are found, however noisy the runs.

TAILBACK_NO_OPS=200 with `-m long` runs as many no-op changes; 10 take some seconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from tailback.against.run import compared
from tailback.against.side import Given, Measures, Ready, Setting, _Work

NO_OPS = int(os.environ.get("TAILBACK_NO_OPS", "10"))
#: A lossy link, a queue management with a call beside it, and starts that spread: what seeds draw differs in kind.
SCENARIOS = {
    "lossy": """
duration = "4s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
wire = { loss = 0.01 }
[[flow]]
name = "a"
cc = "reno"
[[flow]]
name = "b"
cc = "cubic"
""",
    "call": """
duration = "4s"
randomness = { start_spread = "400ms", processing_jitter = "100us" }
[dumbbell]
rate = "8mbit"
rtt = "30ms"
queue = "codel"
[[flow]]
name = "a"
cc = "cubic"
[[flow]]
name = "call"
app = "voip"
[instruments]
packets = ["call"]
[expect]
# The mean of 200 seeds: the bound at which a verdict is most a matter of luck.
conditions = ["call.delay_p95_ms < 40.8"]
""",
    "starts": """
duration = "4s"
randomness = { start_spread = "1s" }
[dumbbell]
rate = "6mbit"
rtt = "50ms"
[[flow]]
name = "a"
cc = "bbr"
[[flow]]
name = "b"
cc = "cubic"
""",
}


class Jittered:
    """A side in this process, whose runs have seeds of their own: nothing is equal in a pair but the distribution."""

    def __init__(self, offset: int, changes: Mapping[str, Any] | None = None) -> None:
        given = [asdict(Given(name, f"{name}.toml", text)) for name, text in SCENARIOS.items()]
        setting = asdict(Setting(changes=dict(changes or {})))
        self._work = _Work({"top": "/", "scenarios": given, "setting": setting})
        self._offset = offset

    def ready(self) -> list[Ready]:
        return self._work.ready

    def measure(self, seeds: Mapping[int, Sequence[int]]) -> Iterator[Measures]:
        for row in self._work.run([(place, [seed + self._offset for seed in each]) for place, each in seeds.items()]):
            values = {name: float("nan") if value is None else value for name, value in row["values"].items()}
            yield row["scenario"], row["seed"] - self._offset, row["error"] or values, row["sides"]


@pytest.mark.long if NO_OPS > 10 else lambda test: test
def test_no_op_changes_raise_no_alarm() -> None:
    given = [Given(name, f"{name}.toml", text) for name, text in SCENARIOS.items()]
    alarms, examined, undecided = [], 0, 0
    for number in range(NO_OPS):
        old, new = Jittered(1_000 * (2 * number + 1)), Jittered(1_000 * (2 * number + 2))
        found = compared(given, (old, new))
        assert found.measures > 40
        assert set(found.differing) == set(SCENARIOS)
        alarms += [json.dumps(row.to_json()) for row in found.changes]
        alarms += [json.dumps(row.to_json()) for row in found.expected if row.is_lost]
        undecided += sum(row.base.verdict == "undecided" for row in found.expected)
        examined += found.examined > 0
    print(f"{NO_OPS} no-op changes, {examined} examined twice, {len(alarms)} false alarms")
    assert not alarms
    assert undecided > NO_OPS // 2
    # The first group alone would raise an alarm in one comparison of twenty.
    assert examined <= max(2, NO_OPS // 8)


@pytest.mark.parametrize(
    ("changes", "scenario", "measure", "verdict"),
    [
        ({"dumbbell.rtt": "20ms"}, "lossy", "goodput_mbps", "better"),
        ({"flow.a.cc": "bbr"}, "lossy", "a.goodput_mbps", "better"),
        ({"dumbbell.queue": "fifo"}, "call", "call.delay_p95_ms", "worse"),
    ],
)
def test_a_change_that_matters_is_found(changes: dict[str, Any], scenario: str, measure: str, verdict: str) -> None:
    given = [Given(name, f"{name}.toml", text) for name, text in SCENARIOS.items()]
    found = compared(given, (Jittered(1_000), Jittered(2_000, changes)))
    verdicts = {(row.scenario, row.measure): row.verdict for row in found.changes}
    assert verdicts.get((scenario, measure)) == verdict, verdicts
