"""Sweeps with congestion controls of your own: only where code is allowed, and kept under their source's digest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import algorithms, metrics

MINE = """
import os
import pathlib

pathlib.Path(__file__).with_name("imported").write_text(str(os.getpid())) if "__file__" in globals() else None


class Mine:
    def __init__(self, gain=GAIN):
        self.gain = gain

    def on_ack(self, ack, control):
        if ack.may_grow:
            control.cwnd += self.gain * ack.newly_acked

    def on_congestion(self, congestion, control):
        control.ssthresh = control.cwnd // 2
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the module `my_own_cc`, with a gain, and forget what was imported of it."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def write(gain: int) -> Path:
        (folder / "my_own_cc.py").write_text(MINE.replace("GAIN", str(gain)))
        sys.modules.pop("my_own_cc", None)
        return folder / "imported"

    yield write
    sys.modules.pop("my_own_cc", None)


def base(cc: str = "python:my_own_cc:Mine") -> tb.Scenario:
    return tb.dumbbell(
        rate="2mbit", rtt="20ms", queue="1bdp", flows=[tb.bulk(cc, name="bulk")], duration="3s", name="own"
    )


def test_without_permission_a_reference_is_not_imported_and_the_error_says_how(mine: Any, tmp_path: Path) -> None:
    imported = mine(1)
    store = tmp_path / "store"
    with pytest.raises(tb.ScenarioError, match="--allow-code"):
        tb.sweep(base(), {"dumbbell.rate": ["1mbit", "2mbit"]}, store=store)
    # The point that asks for code comes last: nothing ran before it was found.
    with pytest.raises(tb.ScenarioError, match="--allow-code"):
        tb.sweep(base("reno"), {"flow.bulk.cc": ["reno", "cubic", "python:my_own_cc:Mine"]}, store=store)
    assert not store.exists()
    assert not imported.exists()


def test_with_permission_it_runs_and_a_changed_source_is_another_run(mine: Any, tmp_path: Path) -> None:
    store, axes = tmp_path / "store", {"dumbbell.rate": ["1mbit", "2mbit"]}
    mine(1)
    first = tb.sweep(base(), axes, seeds=2, store=store, keep="tables", allow_code=True)
    assert (first.run, first.failed) == (4, 0), first.errors
    again = tb.sweep(base(), axes, seeds=2, store=store, keep="tables", allow_code=True)
    assert (again.run, again.reused) == (0, 4)
    # The same numbers as one run of it, whose source the kept result has.
    row = first.frame.row(0, named=True)
    alone = tb.run(base().with_({"dumbbell.rate": "1mbit"}, seed=1), allow_code=True)
    assert row["bulk.goodput_mbps"] == pytest.approx(1e-6 * metrics.goodput(alone, "bulk"))
    (source,) = first.result(row["key"]).algorithms.values()
    assert source.text == MINE.replace("GAIN", "1")
    assert row["code"] == f"python:my_own_cc:Mine {source.sha256}"
    mine(9)
    changed = tb.sweep(base(), axes, seeds=2, store=store, keep="tables", allow_code=True)
    assert (changed.run, changed.reused) == (4, 0)
    assert changed.frame["events"].to_list() != first.frame["events"].to_list()


def test_a_file_that_is_edited_after_the_import_is_not_what_ran(mine: Any, tmp_path: Path) -> None:
    file = mine(1).with_name("my_own_cc.py")
    first = tb.sweep(base(), seeds=1, store=tmp_path / "store", allow_code=True)
    file.write_text(MINE.replace("GAIN", "9"))
    again = tb.sweep(base(), seeds=1, store=tmp_path / "store", allow_code=True)
    assert (first.run, again.run, again.reused) == (1, 0, 1)
    sys.modules.pop("my_own_cc")
    afresh = tb.sweep(base(), seeds=1, store=tmp_path / "store", allow_code=True)
    assert (afresh.run, afresh.reused) == (1, 0)


@pytest.mark.parametrize(("module", "runs"), [("a notebook", 0), (__name__, 1)])
def test_a_registered_class_needs_a_file(tmp_path: Path, module: str, runs: int) -> None:
    class Registered:
        def on_ack(self, ack: Any, control: Any) -> None: ...
        def on_congestion(self, congestion: Any, control: Any) -> None:
            control.ssthresh = control.cwnd

    Registered.__module__ = module
    tb.algorithm("registered-here", Registered)
    try:
        if not runs:
            with pytest.raises(tb.TailbackError, match="stands in no file"):
                tb.sweep(base("registered-here"), seeds=1, store=tmp_path / "store")
            return
        done = tb.sweep(base("registered-here"), seeds=1, store=tmp_path / "store")
    finally:
        algorithms._registered.pop("registered-here")
    assert (done.run, done.failed) == (runs, 0), done.errors


def test_what_it_raises_is_recorded_with_the_hook(mine: Any, tmp_path: Path) -> None:
    mine(1).with_name("my_own_cc.py").write_text(MINE.replace("GAIN", "1").replace("ack.newly_acked", "ack.nothing"))
    done = tb.sweep(base(), seeds=1, store=tmp_path / "store", allow_code=True)
    assert done.failed == 1
    assert "python:my_own_cc:Mine failed in on_ack" in next(iter(done.errors))


def test_the_command_takes_the_permission(mine: Any, tmp_path: Path, tailback: Any) -> None:
    mine(1)
    (tmp_path / "base.toml").write_text(base().to_toml())
    grid = tmp_path / "grid.toml"
    grid.write_text('base = "base.toml"\nseeds = 2\n')
    code, printed, _ = tailback("sweep", grid, "--store", tmp_path / "store", "--json")
    assert (code, "--allow-code" in str(printed)) == (2, True)
    code, printed, _ = tailback("sweep", grid, "--store", tmp_path / "store", "--json", "--allow-code")
    assert (code, printed["runs"], printed["failed"]) == (0, 2, 0)
