"""What a packet costs a queue alone: instructions, counted and never timed, with few packets waiting and with many.

Of a class in Python they are the interpreter's, counted here; what a function written in C does within one instruction
(`sorted`, `deque.remove`) is not seen. Of a built-in discipline they are the machine's, counted by callgrind with the
discipline's defaults. `scripts/instructions` keeps them in `instructions.toml` and `make instructions` compares.
"""

from __future__ import annotations

import functools
import sys
import tomllib
from collections.abc import Mapping
from importlib import resources
from types import FrameType
from typing import Any

from tailback import queues
from tailback.algorithms import load, registered

__all__ = ["FEW", "MANY", "beyond_fifo", "growth", "instructions", "is_kept"]

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


@functools.cache
def _kept() -> Mapping[str, Mapping[str, int]]:
    text = resources.files("tailback.assess.queues").joinpath("instructions.toml").read_text("utf-8")
    found: dict[str, Mapping[str, int]] = tomllib.loads(text)
    return found


def is_kept(discipline: str) -> bool:
    """Is the cost of this built-in discipline counted, with few packets waiting and with many?"""
    return all(discipline in _kept()[kind] for kind in ("few", "many"))


def beyond_fifo(discipline: str) -> float | None:
    """Machine instructions a packet costs a built-in discipline more than drop-tail, few waiting; None of others."""
    few = _kept()["few"]
    return float(few[discipline] - few["fifo"]) if discipline in few else None


def growth(discipline: str, params: Mapping[str, Any]) -> float | None:
    """A discipline's cost with many waiting, by that with few; None of what is not counted."""
    if is_kept(discipline):
        return _kept()["many"][discipline] / _kept()["few"][discipline]
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
    """An empty queue with room for all, given what the engine would give it."""
    accepted = queues.parameters(made_by)
    offered = {key: value for key, value in (("seed", 1), ("rate_bps", 20_000_000)) if key in accepted}
    rooms = {"packets": {"limit_packets": 10 * MANY}, "bytes": {"limit_bytes": 10 * MANY * _Packet.bytes}}
    return made_by(**offered, **given, **rooms.get(queues.limit_of(made_by), {}))
