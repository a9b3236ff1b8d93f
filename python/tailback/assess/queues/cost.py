"""What a packet costs a queue written in Python: instructions of the interpreter, counted and never timed.

The class stands alone, with packets that only it sees: few wait, then many, which shows whether its cost grows. What a
function written in C does within one instruction (`sorted`, `deque.remove`) is not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from tailback.algorithms import load, registered

__all__ = ["FEW", "MANY", "growth", "instructions"]

#: Packets that wait.
FEW, MANY = 10, 1000
#: Packets that come and go while it is counted.
_PASSED = 100
#: Between packets, so short that no law finds them late.
_GAP_S = 1e-7


class _Packet:
    """As the engine's `Packet`, without an engine."""

    ecn, is_ecn_capable, is_reverse = "not-ect", False, False
    conversation, bytes, waiting_bytes = 0, 1500, 0

    def __init__(self, number: int, now: float) -> None:
        self.number, self.flow, self.enqueued_s = number, number % 8, now

    def drop(self) -> None:
        """It is gone."""

    def mark(self) -> None:
        """It cannot be marked."""


def instructions(queue: Any, waiting: int) -> float:
    """Instructions that a packet's coming and going takes while `waiting` packets wait."""
    now, counted = 0.0, 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            counted += 1
        return trace

    for number in range(waiting):
        now += _GAP_S
        queue.enqueue(_Packet(number, now), now)
    # Its cost is the interpreter's in this thread alone; a debugger or a coverage tool goes on afterwards.
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for number in range(waiting, waiting + _PASSED):
            now += _GAP_S
            queue.enqueue(_Packet(number, now), now)
            queue.dequeue(now)
    finally:
        sys.settrace(before)
    return counted / _PASSED


def growth(discipline: str, params: Mapping[str, Any]) -> float | None:
    """Of a discipline's class: its cost with many waiting, by that with few; None of what is no Python class."""
    name = discipline.removeprefix("python:")
    if discipline in registered():
        made_by: Any = registered()[discipline]
    elif discipline.startswith("python:"):
        made_by = load(name)
    else:
        return None
    given = {key: value for key, value in params.items() if not key.startswith("limit")}
    few, many = (instructions(_made(made_by, given), waiting) for waiting in (FEW, MANY))
    return many / few


def _made(made_by: Any, given: Mapping[str, Any]) -> Any:
    """An empty queue with room for all."""
    for limit in ({"limit_packets": 10 * MANY}, {"limit_bytes": 10 * MANY * 1500}, {}):
        try:
            return made_by(**given, **limit)
        except TypeError:
            continue
    return made_by(**given)
