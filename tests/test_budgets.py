"""What would take all time or memory is refused, with the field, the value and what to do; and it fails alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import tailback as tb
from tailback.experiment import read_sweep


def test_many_flows_are_refused_at_once_and_described_in_linear_time() -> None:
    def entries(count: int, each: int, **more: object) -> tb.Scenario:
        flows = [tb.flow("bulk", count=each, **more) for _ in range(count)]
        return tb.dumbbell(rate="1mbit", rtt="1ms", queue="10packets", flows=flows, duration="1s")

    with pytest.raises(tb.ScenarioError, match=r"flow\[10\].count = 10000: with it there are 110000 flows"):
        entries(30, 10_000).resolve()

    def seconds(flows: int) -> float:
        # Links of their own: nodes, links and routes grow with the flows.
        scenario = entries(10, flows // 10, access_delay="1ms")
        began = time.process_time()
        scenario.resolve(check=False)
        return time.process_time() - began

    few, many = seconds(1_000), seconds(8_000)
    assert many < 24 * max(few, 0.01), (few, many)


def test_seeds_and_points_without_end_are_refused(tmp_path: Path) -> None:
    base = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno")], duration="1s")
    (tmp_path / "g.toml").write_text(
        'seeds = 1_000_000_000\n[base]\nduration = "1s"\n[base.dumbbell]\nrate = "1mbit"\nrtt = "20ms"\n'
        '[[base.flow]]\napp = "bulk"\n'
    )
    with pytest.raises(tb.ScenarioError, match="seeds = 1000000000: a sweep has at most 10000000 seeds"):
        read_sweep(tmp_path / "g.toml")
    with pytest.raises(tb.ScenarioError, match="at most 10000000 points"):
        tb.latin_hypercube({"dumbbell.rate": ("1mbit", "2mbit")}, 10**12)
    axes = {f"flow.bulk.params.p{number}": list(range(1_000)) for number in range(3)}
    with pytest.raises(tb.ScenarioError, match="grid = 1000000000: a sweep has at most 10000000 points"):
        tb.sweep(base, axes, store=tmp_path / "store")
    with pytest.raises(tb.ScenarioError, match="at most 10000000 runs"):
        tb.sweep(base, {"dumbbell.rate": ["1mbit", "2mbit"]}, seeds=6_000_000, store=tmp_path / "store")


def test_a_run_without_end_fails_alone(tmp_path: Path) -> None:
    link = tb.link("l0", "n0", "n1", delay="1ns", duplex=True)
    base = tb.network(links=[link], flows=[tb.flow("bulk", from_="n0", to="n1", name="a")], duration="200ms")
    done = tb.sweep(base, {"link.l0.rate": [None, "1mbit"]}, store=tmp_path / "store")
    assert (done.run, done.failed) == (1, 1)
    (error,) = done.errors
    assert "link[0].rate" in error
    assert "would never end" in error


def test_a_run_over_its_time_fails_alone(tmp_path: Path) -> None:
    base = tb.dumbbell(
        rate="1gbit", rtt="20ms", flows=[tb.bulk("reno", name="a")], queue="10packets", duration="100000s"
    )
    # Some 500 million packets, a minute of work, and 0.1 million.
    done = tb.sweep(base, {"dumbbell.rate": ["10gbit", "15kbit"]}, store=tmp_path / "store", most_wall_s=1.0)
    assert (done.run, done.failed) == (1, 1)
    (error,) = done.errors
    assert "duration" in error
    assert "after 1 s of this machine's time" in error


def test_a_run_over_its_memory_fails_alone(tmp_path: Path) -> None:
    flood = tb.flow("udp-cbr", params={"rate": 100_000_000}, name="flood")
    base = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[flood], duration="2s").with_({"instruments.most_memory": "2MB"})
    done = tb.sweep(base, {"dumbbell.queue": ["10packets", "1000000packets"]}, store=tmp_path / "store")
    assert (done.run, done.failed) == (1, 1)
    (error,) = done.errors
    assert "instruments.most_memory" in error
    assert "packets and 0 connections at once" in error
    assert "Give queues a limit" in error


def test_a_pattern_that_is_nested_too_deeply_is_an_error_that_names_it() -> None:
    pattern = "(" * 600 + ")" * 600
    flow = tb.flow("exec", client="x", server="y", parse="regex", params={"pattern": pattern})
    with pytest.raises(tb.ScenarioError, match="nested too deeply"):
        tb.dumbbell(rate="1mbit", rtt="20ms", flows=[flow], duration="1s").resolve(live=True)
