"""Faults that a guest's kernel reports: warnings in its log, and the stack of an oops on its console."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["kept", "tcp_warning", "trace", "where"]

#: Harmless messages: the kernel prints them for every out-of-tree module, and when a host is created.
_EXPECTED = re.compile(
    r"loading out-of-tree module taints kernel|module verification failed|A link change request failed"
)
_STAMP = re.compile(r"^\[ *\d+\.\d+\] ")
_REASONS = ("BUG:", "Oops", "rcu: INFO:", "general protection fault", "invalid opcode", "divide error", "Kernel panic")
#: Ends of a stack trace; the last one is the system call entry, after which registers follow.
_ENDS = ("---[ end trace", "Modules linked in", "Kernel panic", "RIP: 0033:")
_MOST_LINES = 40
#: "f+0x1/0x2 [tcp_mine]", after whose name newer kernels say by what it was built.
_OF_MODULE = re.compile(r"([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+ \[(\w+)")


def kept(lines: Sequence[str]) -> list[str]:
    """Warnings that matter for the result of a run."""
    return [line for line in lines if not _EXPECTED.search(line)]


def tcp_warning(lines: Sequence[str]) -> str | None:
    """The first WARN in TCP or a congestion control, with its stack; None if there is none."""
    begins = [number for number, line in enumerate(lines) if line.startswith("WARNING:")]
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=False):
        block = list(lines[begin:end])
        last = next((number for number, line in enumerate(block) if "end trace" in line), len(block) - 1)
        block = block[: last + 1]
        if any("tcp" in line for line in block):
            return "\n".join(f"    {line}" for line in block[:_MOST_LINES])
    return None


def trace(console: Sequence[str]) -> list[str] | None:
    """The reason and the stack of the first oops or stall on a console, without registers and times."""
    lines = [_STAMP.sub("", line) for line in console]
    begin = next((number for number, line in enumerate(lines) if any(reason in line for reason in _REASONS)), None)
    if begin is None or not any("Call Trace" in line for line in lines[begin:]):
        return None
    place = [line for line in lines[begin:] if line.startswith("RIP:")][:1]
    stack = next(number for number, line in enumerate(lines) if number >= begin and "Call Trace" in line)
    end = next(
        (number for number, line in enumerate(lines) if number > stack and any(word in line for word in _ENDS)),
        len(lines),
    )
    return [lines[begin], *place, *lines[stack : min(end, stack + _MOST_LINES)]]


def where(trace: Sequence[str]) -> str:
    """Text after "hangs": the innermost module function of a stack, or that the processor is idle."""
    lines = [line for line in trace if not line.lstrip().startswith("? ")]
    if any("do_idle+" in line for line in lines):
        return " with an idle processor"
    return next((f" in {one[1]} of module {one[2]}" for line in lines if (one := _OF_MODULE.search(line))), "")
