"""Other stacks' congestion controllers alone, from a scenario to its tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tailback as tb
from pairs import beside_reno
from tailback import _core, registry, vm

NAMES = registry.load().controllers


class Still:
    """Keeps its window."""

    def on_ack(self, ack: tb.Ack, control: tb.Control) -> None: ...
    def on_congestion(self, congestion: tb.Congestion, control: tb.Control) -> None: ...


def beside(cc: str, seed: int = 1) -> tb.Scenario:
    """It and Linux's CUBIC over 20 Mbit/s."""
    return tb.dumbbell(
        rate="20mbit", rtt="40ms", queue="1bdp", flows=[tb.bulk(cc, name="theirs"), tb.bulk(name="ours")],
        duration="8s", seed=seed, randomness={"start_spread": "10ms"},
    )  # fmt: skip


@pytest.mark.parametrize("cc", NAMES)
def test_each_shares_a_link_and_comes_out_alike(cc: str) -> None:
    first, again = tb.run(beside(cc)), tb.run(beside(cc))
    received = first.numpy("flows")["bytes_received"]
    assert received.sum() * 8 / 8 / 20e6 > 0.85
    assert received.min() > 1e6
    assert first.numpy("flows")["segments_sent"].tolist() == again.numpy("flows")["segments_sent"].tolist()


@pytest.mark.parametrize("cc", NAMES)
def test_a_scenario_names_it_like_any_algorithm(cc: str) -> None:
    scenario = beside(cc)
    assert tb.Scenario.from_resolved(scenario.resolve()).resolve() == scenario.resolve()
    found = tb.candidate(cc)
    assert (found.name, found.kind, found.allow_code) == (cc, "built-in", False)
    with pytest.raises(tb.ScenarioError, match="beta is not a parameter of it"):
        tb.run(beside({"name": cc, "beta": 0.5}))  # type: ignore[arg-type]
    with pytest.raises(tb.TailbackError, match="is a built-in algorithm"):
        tb.algorithm(cc, Still)


def test_they_are_listed_with_the_crate_they_come_from() -> None:
    rows = json.loads(_core.registry())["controllers"]
    assert [row["name"] for row in rows] == ["s2n-bbr2", "s2n-cubic"]
    assert {row["version"] for row in rows} == {"s2n-quic-core 0.91.0"}
    with pytest.raises(tb.TailbackError, match=r'there is no congestion control "s2n-qubic". Did you mean "s2n-cubic"'):
        tb.candidate("s2n-qubic")


@pytest.mark.skipif(not hasattr(_core, "live_check"), reason="live runs need Linux")
@pytest.mark.parametrize(
    ("cc", "says"),
    [
        ("s2n-cubic", r"a QUIC stack's controller alone .* Run it with --engine sim\..* transport = \"s2n-quic\""),
        ("python:mine.py:Mine", r"the kernel runs no Python class\. Run it with --engine sim\."),
        ("rust:mine", r"the kernel runs no Rust crate\. Run it with --engine sim\."),
    ],
)
def test_what_no_kernel_runs_is_named_with_its_field(tmp_path: Path, cc: str, says: str) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(beside_reno("reno").with_({"flow.other.cc": cc}).to_toml())
    for run in (tb.live.check, vm.run):
        with pytest.raises(tb.ScenarioError, match=rf'scenario\.toml:\d+:\d+: flow\[1\]\.cc = "{cc}": {says}'):
            run(file)
