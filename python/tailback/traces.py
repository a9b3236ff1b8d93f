r"""Links that change: mahimahi's trace files, CSV files of time and rate, and generators of both.

A line of a mahimahi trace is the time, in whole milliseconds, of an opportunity to deliver one full packet:

>>> from tailback import traces
>>> traces.parse("2\n5\n5\n10\n")
[2, 5, 5, 10]

`lte` and `low_orbit` generate changes of such links from published statistics, repeatable by seed:

>>> traces.lte(60, seed=1)[0]
{'at': '0s', 'rate': '4.46mbit'}
"""

from __future__ import annotations

import math
import os
import random
import stat
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tailback.errors import TailbackError
from tailback.units import Duration, Rate

__all__ = [
    "ABOUT",
    "Steps",
    "TraceError",
    "constant",
    "low_orbit",
    "lte",
    "opportunities",
    "parse",
    "read",
    "read_text",
    "write",
    "write_csv",
]

#: Changes of a link, in the form of its `schedule`: {"at": "1s", "rate": "5mbit", "delay": "9ms", "loss": 0.1}.
Steps = list[dict[str, Any]]

#: Maximum size of a trace file in bytes.
LONGEST = 16 << 20
#: Bytes per opportunity: a 1500-byte packet and the four-byte header of a tunnel device.
OPPORTUNITY_BITS = 8 * 1504


class TraceError(TailbackError):
    """A trace that cannot be replayed, with the problem, the line, and the fix."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}. {fix}.")
        self.problem = problem
        self.fix = fix


def parse(text: str, *, name: str = "the trace") -> list[int]:
    """The delivery times in a trace in mahimahi's format; `TraceError` names the first invalid line."""
    out: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number} of {name}"
        word = line.strip()
        if not word:
            raise TraceError(f"{where} is empty", "Remove it: every line is one opportunity")
        if not (word.isascii() and word.isdigit()):
            is_table = number == 1 and any(sign in word for sign in ",;\t#")
            fix = (
                'If this is a CSV file, write schedule = "…" in place of trace' if is_table else "Write for example 12"
            )
            raise TraceError(f"{where} is {word[:40]!r}, not a whole number of milliseconds", fix)
        out.append(int(word))
        if len(out) > 1 and out[-1] < out[-2]:
            raise TraceError(f"{where} goes back from {out[-2]} to {out[-1]} ms", "Sort the lines")
    _check(out, name)
    return out


def read(path: str | os.PathLike[str]) -> list[int]:
    """The delivery times in a trace file: a regular file of at most 16 MiB, some hours of a fast link."""
    return parse(read_text(path), name=os.fspath(path))


def read_text(path: str | os.PathLike[str], what: str = "a trace file") -> str:
    """The text of a regular file of at most 16 MiB; `TraceError` if it is not one."""
    try:
        # Pipes are refused, so opening one must not block until it has a writer.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TraceError(f"{path} is no ordinary file", f"Give the path of {what}")
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise TraceError(f"{path} is larger than {LONGEST >> 20} MiB", f"Give {what} of at most as much")
        return data.decode("utf-8")
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}", f"Give the path of {what}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path} is not a text in UTF-8", f"Give {what}") from None


def write(path: str | os.PathLike[str], deliveries_ms: Iterable[int]) -> Path:
    """Write a trace file for `mm-link`; refuses a trace that `read` would refuse."""
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


# -- generators

#: Sources and assumptions of each generator, written into its output.
ABOUT = {
    "lte": """\
A made-up LTE downlink of a moving phone, no measurement. Fitted to one recorded trace, ATT-LTE-driving.down of
mahimahi (786 s; Winstein et al., NSDI 2013), by these figures: in windows of 1 s mean 5.19 Mbit/s, standard deviation
2.89, largest 15.5, autocorrelation 0.92, 0.70 and 0.34 after 1, 5 and 30 s; in windows of 0.1 s standard deviation
3.12, and 5.1 % empty, in spells of 0.43 s on average. What is made has, over a hundred seeds: 5.11, 2.77, 13.1, 0.87,
0.69, 0.26; 3.04, 4.9 %, 0.44 s.""",
    "low-orbit": """\
A made-up low-orbit satellite path, no measurement. Slots of 15 s, each with a round trip and a rate of its own (Mohan
et al., WWW 2024). Round trips: median 50 ms, quartiles 40 and 60, least 20, as from a dish in Belgium to servers all
over Europe in 2022 (Michel et al., IMC 2022; Michel, APNIC blog, November 2022): a path to one server varies less.
Nothing is sent in the first 140 ms of a slot, for as long as the delay is raised there (Casparsen et al., arXiv
2601.08439, 2026). Rates: median 105 Mbit/s, as Ookla reported of Starlink in the United States for the end of 2021;
at most 300, which Michel et al. saw exceeded. How rates spread over slots, and their 10 % within one, is a guess.""",
}
_TICK_S = 0.1
_SLOT_S = 15


def lte(seconds: float, seed: int = 1) -> Steps:
    """The rate of an LTE-like downlink every 0.1 s; `ABOUT["lte"]` says what it was fitted to.

    Two first-order processes, of 35 and 4 s, and noise; outages occur every 8.6 s on average.
    """
    draw = _Draw(seconds, seed)
    slow, fast, silent_until = draw.normal() * 2.85, draw.normal() * 1.1, 0.0
    out = []
    for tick in range(math.ceil(seconds / _TICK_S)):
        at = tick * _TICK_S
        slow = draw.towards(slow, 2.85, 35.0)
        fast = draw.towards(fast, 1.1, 4.0)
        if draw.uniform() < 0.116 * _TICK_S:
            silent_until = max(silent_until, at - 0.38 * math.log(1 - draw.uniform()))
        rate = 0.0 if at < silent_until else min(max(0.2, 5.4 + slow + fast + 0.8 * draw.normal()), 30.0)
        out.append({"at": _seconds(at), "rate": f"{rate:.2f}mbit"})
    return out


def low_orbit(seconds: float, seed: int = 1) -> Steps:
    """Rate and delay of a low-orbit path; `ABOUT["low-orbit"]` says what it was fitted to.

    The delay is the whole round trip, so give the reverse path none.
    """
    draw = _Draw(seconds, seed)
    out: Steps = []
    for slot in range(math.ceil(seconds / _SLOT_S)):
        begins = slot * _SLOT_S
        delay = min(max(20.0, 50 + 14.8 * draw.normal()), 100.0)
        level = min(max(20.0, 105 * math.exp(0.4 * draw.normal())), 270.0)
        out.append({"at": _seconds(begins), "rate": "0mbit", "delay": f"{delay:.1f}ms"})
        starts = [begins + 0.14, *(begins + second for second in range(1, _SLOT_S))]
        wobbles = [0.9 + 0.2 * draw.uniform() for _ in starts]
        out += [
            {"at": _seconds(at), "rate": f"{level * wobble:.1f}mbit"}
            for at, wobble in zip(starts, wobbles, strict=True)
            if at < seconds
        ]
    return out


def opportunities(steps: Iterable[Mapping[str, Any]], seconds: float) -> list[int]:
    """Times for `write` at which a full packet could be delivered, until `seconds`. Delays are left out.

    >>> opportunities([{"at": "0s", "rate": "12.032mbit"}, {"at": "2ms", "rate": "6.016mbit"}], 0.006)
    [1, 2, 4, 6]
    """
    rows = [(Duration(step["at"]).seconds, float(Rate(step["rate"]))) for step in steps]
    out, left = [], float(OPPORTUNITY_BITS)
    for (begins, rate), (ends, _) in pairwise([*rows, (seconds, 0.0)]):
        at = begins
        while rate and at + left / rate <= ends + 1e-12:
            at += left / rate
            out.append(round(at * 1000))
            left = float(OPPORTUNITY_BITS)
        left -= (ends - at) * rate
    return out


def write_csv(path: str | os.PathLike[str], steps: Sequence[Mapping[str, Any]], about: str = "") -> Path:
    """Write a CSV file for a link's `schedule`, with `about` as comments on top."""
    has_delay, has_loss = (any(key in step for step in steps) for key in ("delay", "loss"))
    lines = [f"# {line}".rstrip() for line in about.splitlines()]
    lines.append("time (s),rate (Mbit/s)" + (",delay (ms)" if has_delay else "") + (",loss (%)" if has_loss else ""))
    for step in steps:
        cells = [
            f"{Duration(step['at']).seconds:.9g}",
            f"{float(Rate(step['rate'])) / 1e6:.9g}" if "rate" in step else "",
        ]
        if has_delay:
            cells.append(f"{Duration(step['delay']).seconds * 1000:.9g}" if "delay" in step else "")
        if has_loss:
            cells.append(f"{100 * step['loss']:.9g}" if "loss" in step else "")
        lines.append(",".join(cells))
    target = Path(path)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


class _Draw:
    """Random numbers that are the same on every machine and in every Python version."""

    def __init__(self, seconds: float, seed: int) -> None:
        if not 0 < seconds <= 86_400:
            raise TraceError(f"{seconds:g} s is no length for a trace", "Give more than 0 and at most 86400 seconds")
        #: Uniform in [0, 1); Python guarantees this sequence.
        self.uniform = random.Random(seed).random

    def normal(self) -> float:
        """Approximately standard normal: a sum of twelve needs no logarithm, which machines may round differently."""
        return sum(self.uniform() for _ in range(12)) - 6

    def towards(self, value: float, deviation: float, seconds: float) -> float:
        """The next value of a first-order process with this deviation and time constant."""
        kept = 1 - _TICK_S / seconds
        return kept * value + deviation * math.sqrt(1 - kept * kept) * self.normal()


def _seconds(value: float) -> str:
    return f"{value:.9g}s"
