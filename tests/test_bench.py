"""The benchmark measures what it says, and the page for docs is made of what was measured."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import bench, cli

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["a", "a-cubic", "a-probed", "e"])
def test_a_measurement_counts_what_the_run_did(name: str) -> None:
    found = bench.measure(name, 2, rounds=1)
    assert found is not None
    printed = found.to_json()
    assert printed["packets_per_core_s"] == pytest.approx(found.packets / found.cpu_s)
    assert printed["events_per_core_s"] > printed["packets_per_core_s"] > 10_000
    # Two seconds of a link that is never more than full.
    rate = 1e9 if name.startswith("a") else 20e6
    assert 100 < found.packets <= 2 * rate / 8 / 1500 + 1


def test_every_scenario_can_be_built() -> None:
    for name, entry in bench.SCENARIOS.items():
        scenario = entry.make(1)
        assert scenario is not None, name
        if not name.startswith("c-"):
            scenario.resolve()
    assert len(bench.crowd(1000, 1).flows) == 1000


def test_the_command_prints_what_its_users_were_promised(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bench.measure
    monkeypatch.setattr(bench, "measure", lambda name, seconds: real(name, 1, 1))
    monkeypatch.setattr(sys, "argv", ["tailback", "bench", "--quick", "--json"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    printed = json.loads(capsys.readouterr().out)
    assert caught.value.code == 0
    assert printed["a"]["packets_per_core_s"] > 0
    assert printed["e"]["packets_per_core_s"] > 0
    assert printed["machine"]["cores"] >= 1


def calls_of_a_sweep(runs: int, store: Path) -> int:
    """How often a sweep calls a Python function, in whichever thread."""
    count = itertools.count()

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            next(count)

    base = tb.dumbbell(rate="1mbit", rtt="20ms", flows=[tb.bulk("reno", name="bulk")], duration="100ms")
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        tb.sweep(base, seeds=runs, store=store, workers=1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return next(count)


def test_a_sweep_does_little_for_each_run(tmp_path: Path) -> None:
    """Of its overhead, which `tailback bench --sweep` measures in time, nearly all is Python: 370 calls a run."""
    calls_of_a_sweep(2, tmp_path / "first")
    fewer, more = calls_of_a_sweep(20, tmp_path / "fewer"), calls_of_a_sweep(60, tmp_path / "more")
    assert (more - fewer) / 40 < 450


def test_what_a_sweep_adds_is_measured() -> None:
    found = bench.sweep_cost(runs=5, workers=1)
    assert all(map(math.isfinite, found.values()))
    assert found["stored_bytes_per_run"] > 0


def compare() -> Any:
    spec = importlib.util.spec_from_file_location("compare", ROOT / "bench" / "peers" / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare"] = module
    # As a script's own folder is, for the modules beside it.
    sys.path.insert(0, str(ROOT / "bench" / "peers"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def test_the_page_shows_ratios_outcomes_and_who_could_not_be_had() -> None:
    program = compare()
    ours = {
        "data_packets": 800_000,
        "dropped": 10,
        "arrived": 1000.0,
        "backlog_mean_bytes": 5e4,
        "cpu_s": 0.2,
        "jain": 0.5,
    }
    slow = ours | {"cpu_s": 2.0, "delay_p50_ms": 50.0, "delay_p95_ms": 90.0}
    peers = {case.key: {"tailback": ours, "ns-2.35": slow, "ns-3.44": "no C++ compiler"} for case in program.CASES}
    one = bench.Measured("four", 60.0, 2.0, 2.1, 5e6, 1e7, 100.0).to_json()
    measured = {"machine": bench.machine(), **dict.fromkeys(bench.SCENARIOS, one), "b": None, "start_up_s": 0.5}
    measured |= {
        "bytes_per_flow": 3000.0,
        "sweep": dict.fromkeys(
            (
                "runs",
                "run_ms",
                "overhead_ms",
                "overhead_ms_least",
                "overhead_ms_most",
                "cores",
                "efficiency",
                "engine_share",
                "stored_bytes_per_run",
            ),
            1.0,
        ),
    }
    text = program.page(measured, peers, "what reading captures takes")
    assert "what reading captures takes" in text
    assert "| a | ns-2.35 | 0.4 | 10 × | 926.7 | 0.50 | 1.000 | 50.0 | 50.0 | 90.0 |" in text
    assert "| e | ns-3.44 | no C++ compiler |" in text
    assert "| a | four | 2.50 | 5.0 | 30 | 100 |" in text
    assert "not in this engine yet" in text
    assert "alone of 3 (b and w: one)" in text


def test_a_reading_without_a_sure_difference_is_no_figure() -> None:
    captures = compare().captures
    still = [((0.50, 90.0), (1.50, 200.0)), ((0.60, 91.0), (1.45, 201.0))]
    sure = captures.difference("flows", 950_000, still)
    assert (sure.packets, sure.cpu_s, sure.peak_mb, sure.trouble) == (950_000, pytest.approx(0.95), 201.0, "")
    # Two of three short readings took as long as the best long one.
    busy = captures.difference("flows", 950_000, [still[1], *2 * [((1.46, 90.0), (1.60, 200.0))]])
    assert busy.trouble
    assert busy.trouble in captures.section([busy, sure], 100.0)
