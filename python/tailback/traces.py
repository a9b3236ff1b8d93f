r"""Recorded links: mahimahi's trace files, a line an opportunity to deliver one full packet, in whole milliseconds.

>>> from tailback import traces
>>> traces.parse("2\n5\n5\n10\n")
[2, 5, 5, 10]
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from tailback.errors import TailbackError

__all__ = ["TraceError", "constant", "parse", "read", "write"]

#: Bytes of a trace file at most.
LONGEST = 16 << 20
#: What an opportunity carries: a 1500-byte packet and the four bytes of a tunnel device's header.
OPPORTUNITY_BITS = 8 * 1504


class TraceError(TailbackError):
    """A trace that cannot be replayed: what is wrong, on which line, and what would mend it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}. {fix}.")
        self.problem = problem
        self.fix = fix


def parse(text: str, *, name: str = "the trace") -> list[int]:
    """The instants of a trace in mahimahi's format; `TraceError` names the first line that is wrong."""
    out: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number} of {name}"
        word = line.strip()
        if not word:
            raise TraceError(f"{where} is empty", "Remove it: every line is one opportunity")
        if not (word.isascii() and word.isdigit()):
            raise TraceError(f"{where} is {word[:40]!r}, not a whole number of milliseconds", "Write for example 12")
        out.append(int(word))
        if len(out) > 1 and out[-1] < out[-2]:
            raise TraceError(f"{where} goes back from {out[-2]} to {out[-1]} ms", "Sort the lines")
    _check(out, name)
    return out


def read(path: str | os.PathLike[str]) -> list[int]:
    """The instants of a trace file: an ordinary file of at most 16 MiB, some hours of a fast link."""
    try:
        # Not to wait for whoever writes to a pipe: it is refused.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TraceError(f"{path} is no ordinary file", "Give the path of a trace file")
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise TraceError(f"{path} is larger than {LONGEST >> 20} MiB", "Cut it: after its end a trace begins again")
        return parse(data.decode("ascii"), name=os.fspath(path))
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}", "Give the path of a trace file") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path} is not a text of numbers", "Give a file with one number a line") from None


def write(path: str | os.PathLike[str], deliveries_ms: Iterable[int]) -> Path:
    """Write a trace file that `mm-link` takes; refuses what `read` would."""
    times = list(deliveries_ms)
    for before, after in pairwise(times):
        if after < before:
            raise TraceError(f"the instants go back from {before} to {after} ms", "Sort them")
    _check(times, "the trace")
    target = Path(path)
    target.write_text("".join(f"{ms}\n" for ms in times), encoding="ascii")
    return target


def constant(rate_bps: float, duration_ms: int) -> list[int]:
    """A trace of a constant rate, in full packets.

    >>> constant(12_032_000, 3)
    [1, 2, 3]
    """
    n = int(rate_bps * duration_ms / 1000 / OPPORTUNITY_BITS)
    return [-(-i * duration_ms // n) for i in range(1, n + 1)]


def _check(times: list[int], name: str) -> None:
    if not times:
        raise TraceError(f"{name} is empty", "Give at least one instant")
    if times[0] < 0:
        raise TraceError(f"{name} begins before zero", "Count milliseconds from the start")
    if times[-1] == 0:
        raise TraceError(f"{name} lasts no time: it ends at 0 ms", "Give an instant after 0")
