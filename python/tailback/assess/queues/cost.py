"""Cost of a packet in a queue: instructions, counted and never timed, with few and with many packets waiting.

For a Python class the interpreter's instructions are counted here; work inside a C function (`sorted`, `deque.remove`)
is not counted. For a built-in discipline callgrind counts machine instructions, with the discipline's defaults.
`scripts/instructions` stores them in `instructions.toml`, and `make instructions` compares new counts with these.
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

#: Packets in the queue while instructions are counted.
FEW, MANY = 10, 1000
#: Packets enqueued and dequeued while instructions are counted.
_PASSED = 100
#: Time between packets, too short for any AQM's law to find a packet late.
_GAP_S = 1e-7


class _Packet:
    """A stand-in for the engine's `Packet`."""

    ecn, is_ecn_capable, is_reverse = "not-ect", False, False
    conversation, bytes, waiting_bytes = 0, 1500, 0

    def __init__(self, number: int, now: float) -> None:
        self.number, self.flow, self.enqueued_s = number, number % 8, now

    def drop(self) -> None:
        """Does nothing: the packet is discarded."""

    def mark(self) -> None:
        """Does nothing: the packet is not ECN-capable."""


def instructions(queue: Any, waiting: int) -> float:
    """Interpreter instructions per packet, enqueue and dequeue, while `waiting` packets wait."""
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
    # Only this thread is traced; a debugger's or coverage tool's trace function is restored afterwards.
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
    """Whether the counts of this built-in discipline are stored, for few and for many waiting packets."""
    return all(discipline in _kept()[kind] for kind in ("few", "many"))


def beyond_fifo(discipline: str) -> float | None:
    """Machine instructions per packet beyond drop-tail's, with few waiting; None if not stored."""
    few = _kept()["few"]
    return float(few[discipline] - few["fifo"]) if discipline in few else None


def growth(discipline: str, params: Mapping[str, Any]) -> float | None:
    """Ratio of the cost with many waiting packets to that with few; None if it is not counted."""
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
    """An empty queue with room for all packets, constructed with the arguments that the engine would pass."""
    accepted = queues.parameters(made_by)
    offered = {key: value for key, value in (("seed", 1), ("rate_bps", 20_000_000)) if key in accepted}
    rooms = {"packets": {"limit_packets": 10 * MANY}, "bytes": {"limit_bytes": 10 * MANY * _Packet.bytes}}
    return made_by(**offered, **given, **rooms.get(queues.limit_of(made_by), {}))
