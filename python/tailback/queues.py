"""Queue disciplines of your own, in Python: a class with `enqueue` and `dequeue`; see docs/tutorials/own-queue.md.

A scenario uses the registered name, or `queue = "python:my.py:MyQueue"`. The engine keeps the packets; the class
decides about them, and the engine checks its decisions.
"""

from __future__ import annotations

import dis
import inspect
import random
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from tailback._core import Packet

__all__ = ["OwnQueue", "Packet", "clock_read", "is_queue", "limit_of", "parameters"]


class OwnQueue:
    """A FIFO queue as a base class for your own; unlimited unless given a limit.

    `reorders = True` allows packets of one flow to leave in another order than they arrived. `holds_back = True` allows
    `dequeue` to return a time in seconds until which it holds packets back, although the link is free.

    >>> import tailback as tb
    >>> class Short(tb.OwnQueue):
    ...     def enqueue(self, packet, now):
    ...         if len(self.packets) == 20:
    ...             return "drop"
    ...         self.packets.append(packet)
    >>> path = dict(rate="10mbit", rtt="40ms", duration="5s", queue={"discipline": "short"})
    >>> result = tb.run(tb.dumbbell(flows=[tb.bulk("reno")], **path), algorithms={"short": Short})
    >>> int(result.column("links", "dropped")[0]) > 0
    True
    """

    reorders: bool = False
    holds_back: bool = False

    def __init__(self, limit_packets: int | None = None, limit_bytes: int | None = None) -> None:
        #: Waiting packets, oldest first.
        self.packets: deque[Packet] = deque()
        self.limit_packets, self.limit_bytes = limit_packets, limit_bytes

    def has_room(self, packet: Packet) -> bool:
        """Whether the packet passed to `enqueue` fits within the limits."""
        if self.limit_packets is not None and len(self.packets) >= self.limit_packets:
            return False
        return self.limit_bytes is None or packet.waiting_bytes + packet.bytes <= self.limit_bytes

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """A packet arrives at `now` seconds.

        Return None or "keep" to hold it, "mark" to mark and hold it, "drop" else.
        """
        if not self.has_room(packet):
            return "drop"
        self.packets.append(packet)
        return None

    def dequeue(self, now: float) -> Packet | float | None:
        """The link is free at `now` seconds. Return the next packet, None, or a time in seconds to wait until."""
        return self.packets.popleft() if self.packets else None


def is_queue(made_by: object) -> bool:
    """Whether a class has the hooks of a queue."""
    return all(callable(getattr(made_by, hook, None)) for hook in ("enqueue", "dequeue"))


def parameters(made_by: Any) -> dict[str, Any]:
    """Parameters of a class's `__init__` with their defaults; empty if the signature is unknown."""
    try:
        found = inspect.signature(made_by).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {each.name: each.default for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD}


def limit_of(made_by: Any) -> str:
    """Unit of a class's limit parameter: "packets", "bytes", or "" if it has none.

    >>> class Bare:
    ...     def enqueue(self, packet, now): ...
    ...     def dequeue(self, now): ...
    >>> limit_of(OwnQueue), limit_of(Bare)
    ('packets', '')
    """
    named = parameters(made_by)
    for counted in ("packets", "bytes"):
        if f"limit_{counted}" in named:
            return counted
    # A subclass of OwnQueue may pass `**limits` on.
    return "packets" if takes_any(made_by) and isinstance(made_by, type) and issubclass(made_by, OwnQueue) else ""


def takes_any(made_by: Any) -> bool:
    """Whether a class takes arbitrary keyword arguments."""
    try:
        found = inspect.signature(made_by).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found)


#: Functions whose result depends on the machine or the time, by module.
_CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"}
    | {"process_time_ns", "thread_time", "clock_gettime", "localtime", "gmtime", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "random": {name for name in dir(random) if name[0].islower()} | {"SystemRandom"},
    "os": {"urandom", "getrandom"},
    "secrets": {"token_bytes", "randbelow", "choice", "randbits"},
}


def clock_read(made_by: type) -> str | None:
    """Where a class reads the clock or unseeded random numbers, such as "time.time in MyQueue.enqueue"."""
    for name, function in _functions(made_by):
        found = _read_in(function)
        if found:
            return f"{found} in {name}"
    return None


def _functions(made_by: type) -> Iterator[tuple[str, types.FunctionType]]:
    """The methods of a class, and the functions of its module that they call."""
    waiting = [
        (f"{owner.__name__}.{name}", member)
        for owner in made_by.__mro__
        for name, member in vars(owner).items()
        if isinstance(member, types.FunctionType)
    ]
    seen = set()
    while waiting:
        name, function = waiting.pop(0)
        if function in seen:
            continue
        seen.add(function)
        yield name, function
        called = (function.__globals__.get(word) for word in function.__code__.co_names)
        waiting += [
            (each.__qualname__, each)
            for each in called
            if isinstance(each, types.FunctionType) and each.__module__ == made_by.__module__
        ]


def _read_in(function: types.FunctionType) -> str | None:
    """The first clock function that a function's code names, as a module's attribute or by an imported name."""
    for code in _codes(function.__code__):
        imported: dict[str, str] = {}
        module = ""
        is_generator = False
        for step in dis.get_instructions(code):
            word = str(step.argval)
            if is_generator and step.opname in ("PRECALL", "PUSH_NULL"):
                continue
            if is_generator and step.opname.startswith("CALL") and step.arg == 0:
                return "random.Random() without a seed"
            is_generator = False
            if step.opname in ("IMPORT_NAME", "IMPORT_FROM"):
                module = word if step.opname == "IMPORT_NAME" else module
                if step.opname == "IMPORT_FROM" and word in _CLOCKS.get(module, ()):
                    return f"{module}.{word}"
                continue
            if step.opname.startswith("STORE_FAST") and module:
                imported[word], module = module, ""
                continue
            if step.opname.startswith("LOAD_FAST") and word in imported:
                module = imported[word]
                continue
            if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
                found = function.__globals__.get(word)
                module = getattr(found, "__name__", "") if isinstance(found, types.ModuleType) else ""
                # datetime.datetime.now, and a function such as time.time imported by name.
                home = getattr(found, "__module__", None) or ""
                is_generator = found is random.Random
                if isinstance(found, type) and home == "datetime":
                    module = "datetime"
                elif callable(found) and getattr(found, "__name__", "") in _CLOCKS.get(home, ()):
                    return f"{home}.{found.__name__}"
                elif isinstance(getattr(found, "__self__", None), random.Random) and not isinstance(found, type):
                    return f"random.{word}"
                continue
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and module:
                if word in _CLOCKS.get(module, ()):
                    return f"{module}.{word}"
                is_generator = (module, word) == ("random", "Random")
                module = module if word in ("datetime", "date") else ""
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def factory_of(make: Any) -> Any:
    """The engine's constructor per link, `made(params, seed, rate_bps)`; `make(wanted, params)` calls the class."""

    def made(params: dict[str, Any], seed: int, rate_bps: int | None) -> Any:
        return make({"seed": seed, "rate_bps": rate_bps}, params)

    made.is_queue = True  # type: ignore[attr-defined]
    return made
