"""Progress: a bar on a terminal, a line a minute elsewhere, nothing unless the caller asks."""

from __future__ import annotations

import io
import sys
import time

from tailback.progress import Runs


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with Runs("aqm-pairs", every_s=0.01) as runs:
        runs.update(1, 2, spent=1.0, cost=4.0)
        waited = time.monotonic()
        while "1 of 2 runs" not in shown.getvalue() and time.monotonic() < waited + 10:
            time.sleep(0.005)
    assert "aqm-pairs: 1 of 2 runs in 0 min, about 0 min left\n" in shown.getvalue()
    length = len(shown.getvalue())
    time.sleep(0.05)
    assert len(shown.getvalue()) == length


def test_what_is_left_follows_from_what_runs_cost():
    runs = Runs("x", shown=False)
    with runs:
        runs.update(0, 2, spent=0.0, cost=4.0)
        assert runs._line(120.0) == "x: 0 of 2 runs in 2 min"
        runs.update(1, 2, spent=1.0, cost=4.0)
        assert runs._line(120.0) == "x: 1 of 2 runs in 2 min, about 6 min left"


def test_runs_found_in_the_store_say_nothing_about_the_rest():
    runs = Runs("x", shown=False)
    with runs:
        runs.update(3, 5, spent=3.0, cost=5.0, found=3.0, failed=1)
        assert runs._line(120.0) == "x: 3 of 5 runs, 1 failed in 2 min"
        runs.update(4, 5, spent=4.0, cost=5.0, found=3.0, failed=1)
        assert runs._line(120.0) == "x: 4 of 5 runs, 1 failed in 2 min, about 2 min left"


def test_nothing_is_printed_unless_the_caller_asks(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with Runs("x", shown=False, every_s=0.001) as runs:
        time.sleep(0.02)
        runs.update(1, 1, spent=1.0, cost=1.0)
    assert shown.getvalue() == ""
