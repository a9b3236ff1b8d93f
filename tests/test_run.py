"""Runs: the same bytes whatever the threads, cancelled cleanly, failures named, Ctrl-C keeps what is finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailback as tb
from pairs import assert_same_rows
from tailback import _core

READY = sorted((Path(__file__).parent.parent / "scenarios").glob("*.toml"))


def short(seed: int = 1, **changes: Any) -> tb.Scenario:
    scenario = tb.dumbbell(
        rate="10mbit", rtt="20ms", flows=[tb.bulk("reno"), tb.voip()], duration="2s", seed=seed, name=f"short-{seed}",
        randomness={"start_spread": "100ms"}, instruments={"packets": "all", "polls": "all", "queue_polls": "all"},
    )  # fmt: skip
    return scenario.with_(changes) if changes else scenario


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_ready_scenarios_run(path: Path) -> None:
    # Long enough for every flow to have started.
    result = tb.run(tb.Scenario.from_toml(path).with_(duration="30s").with_({"flow[0].stop": None}))
    received = result.column("flows", "bytes_received")
    assert (received > 0).all()
    links = result.numpy("links")
    assert (links["arrived"] == links["delivered"] + links["dropped"] + links["resident"]).all()
    last_start = max(flow["start_ps"] for flow in result.resolved["flows"]) * 1e-12
    assert links["busy_s"].max() > 0.8 * (30 - last_start), "some link is a bottleneck once all have started"


def test_a_scenario_its_resolved_form_and_its_file_run_the_same(tmp_path: Path) -> None:
    scenario = short()
    file = tmp_path / "a.toml"
    file.write_text(scenario.to_toml())
    one = tb.run(scenario)
    for other in (tb.run(scenario.resolve()), tb.run(file), tb.run(str(file))):
        assert_same_rows(one, other)
        assert other.scenario.resolve() == one.resolved


def test_the_same_bytes_on_any_number_of_threads() -> None:
    scenarios = [short(seed) for seed in range(6)]
    alone = [tb.run(scenario) for scenario in scenarios]
    for workers in (1, 2, 5):
        for one, other in zip(alone, tb.run_many(scenarios, workers=workers), strict=True):
            assert_same_rows(one, other)
    with pytest.raises(AssertionError, match="'"):  # Seeds mean something.
        assert_same_rows(alone[0], alone[1])


def test_results_come_in_the_order_given() -> None:
    scenarios = [short(seed, duration=f"{4 - seed}s") for seed in range(4)]
    seen: list[int] = []
    results = tb.run_many(scenarios, workers=2, on_result=lambda number, result: seen.append(number))
    assert [result.seed for result in results] == [0, 1, 2, 3]
    assert sorted(seen) == [0, 1, 2, 3]


def test_then_takes_the_results_place_in_the_thread_that_ran_it() -> None:
    threads = set()

    def then(result: tb.Result) -> int:
        threads.add(threading.get_ident())
        return result.seed * 10

    assert tb.run_many([short(1), short(2)], workers=2, then=then) == [10, 20]
    assert threading.get_ident() not in threads


def test_run_each_yields_what_is_finished_and_can_be_left() -> None:
    each = tb.run_each([short(seed) for seed in range(50)], workers=2)
    number, result = next(each)
    assert result.seed == number
    before = threading.active_count()
    each.close()
    assert threading.active_count() < before


def test_progress_is_reported() -> None:
    fractions: list[float] = []
    tb.run(short(), progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    counts: list[tuple[int, int]] = []
    tb.run_many([short(1), short(2)], progress=lambda done, total: counts.append((done, total)))
    assert counts == [(1, 2), (2, 2)]


def test_a_set_token_cancels() -> None:
    cancel = tb.Cancel()
    cancel.set()
    with pytest.raises(tb.Cancelled, match="short-1"):
        tb.run(short(duration="1000s"), cancel=cancel)
    with pytest.raises(tb.Cancelled):
        tb.run_many([short(1), short(2)], cancel=cancel)


def test_a_token_cancels_from_another_thread() -> None:
    cancel = tb.Cancel()
    timer = threading.Timer(0.2, cancel.set)
    timer.start()
    started = time.monotonic()
    with pytest.raises(tb.Cancelled):
        tb.run_many([short(seed, duration="1h") for seed in range(3)], workers=2, cancel=cancel)
    assert time.monotonic() - started < 20


def test_nothing_runs_if_one_scenario_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "run", lambda *_: pytest.fail("it ran"))
    with pytest.raises(tb.ScenarioError):
        tb.run_many([short(), short(**{"flow[0].cc": "qubic"})])
    with pytest.raises(tb.ScenarioError):
        tb.run(short().resolve() | {"duration_ps": 0})


def test_the_first_failure_names_its_scenario_and_stops_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = _core.run

    def run(text: str, *rest: Any) -> Any:
        if '"name": "short-2"' in text:
            raise _core.EngineError("cwnd below its floor, seed 2")
        return genuine(text, *rest)

    monkeypatch.setattr(_core, "run", run)
    with pytest.raises(tb.EngineError, match="short-2: cwnd below its floor, seed 2") as caught:
        tb.run_many([short(seed) for seed in range(1, 40)], workers=2)
    assert "scenario 1, short-2" in caught.value.__notes__[0]


def test_a_failing_then_is_not_swallowed() -> None:
    def then(result: tb.Result) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tb.run_many([short()], then=then)


def test_workers_must_be_someone() -> None:
    with pytest.raises(tb.TailbackError, match="at least 1, got 0"):
        tb.run_many([short()], workers=0)


def test_nothing_to_run_is_no_error() -> None:
    assert tb.run_many([]) == []


def test_ctrl_c_keeps_what_is_finished() -> None:
    def interrupt(number: int, result: tb.Result) -> None:
        if number == 0:
            raise KeyboardInterrupt

    with pytest.raises(tb.Interrupted, match=r"of 3 runs were finished and are kept") as caught:
        tb.run_many([short(1), short(2, duration="1h"), short(3, duration="1h")], workers=2, on_result=interrupt)
    kept = caught.value.results
    assert isinstance(kept[0], tb.Result)
    assert kept[1:] == [None, None]


@pytest.mark.skipif(os.name != "posix", reason="sends a Unix signal")
@pytest.mark.parametrize("call", ["tb.run(s)", "tb.run_many([s, s, s], workers=2)"])
def test_a_real_ctrl_c_ends_a_long_run_soon(call: str) -> None:
    code = (
        "import tailback as tb\n"
        "s = tb.dumbbell(rate='100mbit', rtt='20ms', flows=[tb.bulk('reno')], duration='500h')\n"
        "print('ready', flush=True)\n"
        f"try:\n    {call}\nexcept KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        try:
            out, _ = child.communicate(timeout=30)
        finally:
            child.kill()
    assert out == "interrupted\n"


def test_no_call_packet_is_invented_or_lost() -> None:
    rows = tb.run(short()).where_flow("packets", "voip")
    assert np.array_equal(rows["index"], np.arange(len(rows["index"])))
