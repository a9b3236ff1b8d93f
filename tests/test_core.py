"""The binding's promises: JSON in, arrays out, and a run that can be watched, stopped and shared by threads."""

import ast
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailback import _core

SECOND = 10**12


def description(seconds: float = 5, **changes: Any) -> str:
    links = [
        {"name": "there", "from": "a", "to": "b", "rate_bps": 10_000_000, "delay_ps": SECOND // 25},
        {"name": "back", "from": "b", "to": "a", "rate_bps": 10_000_000, "delay_ps": SECOND // 25},
    ]
    links[0]["queue"] = {"discipline": "fifo", "params": {"limit_bytes": 100_000}}
    flow: dict[str, Any] = {"name": "bulk", "from": "a", "to": "b", "route": ["there"], "back_route": ["back"]}
    flow |= {"app": {"kind": "bulk"}, "tcp": {"stack": "linux", "cc": "reno", "mtu": 1500}}
    whole = {"format": 1, "seed": 7, "duration_ps": int(seconds * SECOND), "nodes": ["a", "b"]}
    return json.dumps(whole | {"links": links, "flows": [flow]} | changes)


#: Days of simulated time: whatever runs this must be stopped.
ENDLESS = description(seconds=2_000_000)


def test_the_stubs_name_what_the_module_has() -> None:
    stubs = ast.parse(Path(_core.__file__).with_name("_core.pyi").read_text())
    named = {node.name for node in stubs.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    named |= {ast.unparse(node.target) for node in stubs.body if isinstance(node, ast.AnnAssign)}
    assert named == {name for name in dir(_core) if not name.startswith("_")}


def test_every_list_of_the_registry_is_filled() -> None:
    registry = json.loads(_core.registry())
    kinds = ["algorithms", "apps", "controllers", "kernel_queues", "media", "queues", "stacks", "transports"]
    assert list(registry) == kinds
    for kind in ("algorithms", "queues", "apps"):
        for card in registry[kind]:
            assert card["title"], card["name"]
            assert card["law"], card["name"]
            assert card["source"], card["name"]
            for param in card["params"]:
                assert param["default"] is not None or param["depends"], (card["name"], param["name"])
    assert {"freebsd-7", "linux-2.6.25", "linux"} <= {stack["name"] for stack in registry["stacks"]}
    for stack in registry["stacks"]:
        assert all(field["source"] for field in stack["fields"]), stack["name"]


def test_columns_own_rows_of_equal_length() -> None:
    tables = _core.run(description())
    assert tables["flows"]["flow"].tolist() == [0]
    assert tables["links"]["link"].tolist() == [0, 1]
    for table, columns in tables.items():
        if table != "_names":
            assert len({len(column) for column in columns.values()}) == 1, table
            assert all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns.values()), table
    # The link carried what the flow sent, and nearly all the time.
    assert 0.8 * 5 * 10e6 / 8 < tables["flows"]["bytes_acked"][0] < 5 * 10e6 / 8


def test_a_good_scenario_passes_the_check() -> None:
    assert _core.check(description()) is None


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", ""),
        (description(colour="red"), ""),
        (description(duration_ps=0), "duration_ps"),
        (description(nodes=["a"]), "links[0].to"),
    ],
)
def test_a_bad_scenario_is_refused_with_field_problem_and_fix(text: str, field: str) -> None:
    for call in (_core.check, _core.run):
        with pytest.raises(_core.ScenarioError) as caught:
            call(text)
        found, value, problem, fix = caught.value.args
        assert found == field
        assert value
        assert problem
        assert fix
    assert issubclass(_core.ScenarioError, ValueError)


def test_progress_rises_to_one() -> None:
    seen: list[float] = []
    _core.run(description(seconds=300), progress=seen.append)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)
    assert seen[0] > 0


def test_progress_is_reported_ten_times_a_second_at_most() -> None:
    times: list[float] = []
    cancel = _core.Cancel()

    def note(_: float) -> None:
        times.append(time.monotonic())
        if len(times) == 6:
            cancel.set()

    with pytest.raises(_core.Cancelled):
        _core.run(ENDLESS, cancel, note)
    assert times[-1] - times[0] >= 0.45


def test_what_progress_raises_ends_the_run() -> None:
    def refuse(_: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _core.run(ENDLESS, progress=refuse)


def test_cancelling_from_another_thread_ends_the_run_soon() -> None:
    cancel = _core.Cancel()
    assert not cancel.is_set()
    threading.Timer(0.2, cancel.set).start()
    began = time.monotonic()
    with pytest.raises(_core.Cancelled):
        _core.run(ENDLESS, cancel)
    assert time.monotonic() - began < 5
    assert cancel.is_set()


def test_an_interrupt_ends_the_run_soon() -> None:
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        _core.run(ENDLESS)
    assert time.monotonic() - began < 5


def test_python_goes_on_while_a_run_is_under_way() -> None:
    cancel = _core.Cancel()
    outcome: list[BaseException] = []

    def work() -> None:
        try:
            _core.run(ENDLESS, cancel)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    # With the lock held this loop would not turn until the run ended, which it does not.
    for _ in range(20):
        time.sleep(0.01)
    cancel.set()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert [type(error) for error in outcome] == [_core.Cancelled]


def test_the_same_seed_gives_the_same_bytes_in_any_thread() -> None:
    here = _core.run(description())
    there: list[dict[str, dict[str, Any]]] = []
    threads = [threading.Thread(target=lambda: there.append(_core.run(description()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(there) == 3
    for tables in there:
        assert tables.keys() == here.keys()
        for name in here.keys() - {"_names"}:
            for column, values in here[name].items():
                assert values.tobytes() == tables[name][column].tobytes(), (name, column)
