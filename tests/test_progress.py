"""Progress: a bar on a terminal, a line a minute elsewhere, nothing when nobody asked."""

from __future__ import annotations

import io
import sys
import time

from tailback.progress import Steps


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch):
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with Steps("aqm-pairs", [1.0, 3.0], every_s=0.01) as done:
        done(1.0)
        waited = time.monotonic()
        while "1 of 2 runs" not in told.getvalue() and time.monotonic() < waited + 10:
            time.sleep(0.005)
    assert "aqm-pairs: 1 of 2 runs in 0 min, about 0 min left\n" in told.getvalue()
    length = len(told.getvalue())
    time.sleep(0.05)
    assert len(told.getvalue()) == length


def test_what_is_left_follows_from_what_runs_cost():
    steps = Steps("x", [1.0, 3.0], shown=False)
    assert steps._line(120.0) == "x: 0 of 2 runs in 2 min"
    with steps as done:
        done(1.0)
    assert steps._line(120.0) == "x: 1 of 2 runs in 2 min, about 6 min left"


def test_nothing_is_told_when_nobody_asked(monkeypatch):
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with Steps("x", [1.0], shown=False, every_s=0.001) as done:
        time.sleep(0.02)
        done(1.0)
    assert told.getvalue() == ""
