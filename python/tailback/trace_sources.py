"""Reads path measurements of `irtt`, `iperf3 --json` and Flent as changes of a link.

Each reader returns steps for a link's `schedule`; `steps` selects the reader by the file's contents. A path's delay is
half its round trip, so the reverse path needs the same delay. A rate is the measuring transport's throughput, which is
below the link rate. A round trip under load includes queueing delay.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from tailback.traces import LONGEST, Steps, TraceError, read_text

__all__ = ["flent", "iperf3", "irtt", "read", "steps"]

#: A pause longer than this many usual steps is a gap.
_HOLE = 3.0
_NS = 1e9


def read(path: str | os.PathLike[str], *, upload: bool = False, window_s: float = 1.0) -> Steps:
    """The steps in a file of one of these programs; a Flent file may be compressed."""
    name = os.fspath(path)
    if name.endswith(".gz"):
        try:
            with gzip.open(name, "rb") as file:
                data = file.read(LONGEST + 1)
        except (OSError, EOFError) as error:
            raise TraceError(f"{name} cannot be read: {error}", "Give a file that Flent wrote") from None
        if len(data) > LONGEST:
            raise TraceError(f"{name} holds more than {LONGEST >> 20} MiB", "Give a shorter measurement")
        text = data.decode("utf-8", "replace")
    else:
        text = read_text(Path(name), "a measurement")
    return steps(text, name=name, upload=upload, window_s=window_s)


def steps(text: str, *, name: str = "the file", upload: bool = False, window_s: float = 1.0) -> Steps:
    """The steps in the text of one of these programs."""
    if text.lstrip().startswith("<"):
        raise TraceError(f"{name} is a web page, not a measurement", "Download the file itself")
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        heads = [line for line in text.splitlines() if line.strip() and not line.startswith("#")][:1]
        if any(sign in head for head in heads for sign in ",;\t") and "{" not in heads[0]:
            fix = f'A link takes it as it is: schedule = "{Path(name).name}"'
            raise TraceError(f"{name} is a table, not what irtt, iperf3 or Flent wrote", fix) from None
        where = f"line {error.lineno}, column {error.colno} of {name}"
        raise TraceError(f"{where}: {error.msg}", "Give the JSON that the program wrote, whole") from None
    if isinstance(data, dict) and "round_trips" in data:
        return irtt(data, name=name, window_s=window_s)
    if isinstance(data, dict) and ("intervals" in data or "error" in data):
        return iperf3(data, name=name)
    if isinstance(data, dict) and "x_values" in data:
        return flent(data, name=name, upload=upload)
    raise TraceError(
        f"{name} is from none of irtt, iperf3 and Flent", "It needs round_trips, intervals or x_values with results"
    )


def irtt(data: Mapping[str, Any], *, name: str = "the file", window_s: float = 1.0) -> Steps:
    """Delay and loss in windows: half the median round trip, and the share of probes without an answer.

    >>> probe = {"lost": "false", "timestamps": {"client": {"send": {"wall": 0}}}, "delay": {"rtt": 40_000_000}}
    >>> irtt({"round_trips": [probe]})
    [{'at': '0s', 'delay': '20ms', 'loss': 0.0}]
    """
    windows: dict[int, list[float | None]] = {}
    first, before = None, -math.inf
    for number, row in enumerate(_list(data, "round_trips", name)):
        where = f"round_trips[{number}] of {name}"
        sent = _at(row, ("timestamps", "client", "send", "wall"), where) / _NS
        if sent < before:
            raise TraceError(f"{where} was sent {before - sent:g} s before the one before it", "Sort round_trips")
        first, before = sent if first is None else first, sent
        is_lost = str(row.get("lost", "false")) != "false"
        rtt = None if is_lost else _at(row, ("delay", "rtt"), where) / _NS
        windows.setdefault(int((sent - first) / window_s + 1e-9), []).append(rtt)
    _no_gap([window * window_s for window in windows], name)
    out: Steps = []
    for window, trips in windows.items():
        answered = [trip for trip in trips if trip is not None]
        step: dict[str, Any] = {"at": _seconds(window * window_s)}
        if answered:
            step["delay"] = f"{500 * median(answered):.9g}ms"
        step["loss"] = round(1 - len(answered) / len(trips), 9)
        out.append(step)
    return out


def iperf3(data: Mapping[str, Any], *, name: str = "the file") -> Steps:
    """The rate of each interval, and for UDP also the loss at the receiver.

    >>> iperf3({"intervals": [{"sum": {"start": 0, "end": 1, "bits_per_second": 5e6, "lost_percent": 2}}]})
    [{'at': '0s', 'rate': '5mbit', 'loss': 0.02}]
    """
    if "error" in data:
        raise TraceError(f"{name} holds iperf3's error {data['error']!r}", "Measure again")
    out: Steps = []
    times, ends = [], None
    for number, row in enumerate(_list(data, "intervals", name)):
        where = f"intervals[{number}] of {name}"
        total = row.get("sum") if isinstance(row, dict) else None
        if not isinstance(total, dict):
            raise TraceError(f"{where} has no sum", "Give what iperf3 --json wrote")
        if total.get("omitted"):
            continue
        begins, end = _at(total, ("start",), where), _at(total, ("end",), where)
        if end <= begins or (ends is not None and begins < ends - 1e-3):
            raise TraceError(f"{where} is from {begins:g} to {end:g} s", "Intervals follow one another: sort them")
        ends = end
        step: dict[str, Any] = {"at": "", "rate": _rate(_at(total, ("bits_per_second",), where))}
        if "lost_percent" in total:
            loss = _at(total, ("lost_percent",), where)
            if loss > 100:
                raise TraceError(f"{where}: lost_percent is {loss:g}", "A loss lies in 0 to 100 %")
            step["loss"] = round(loss / 100, 9)
        times.append(begins)
        out.append(step)
    _no_gap(times, name)
    return _timed(out, times)


def flent(data: Mapping[str, Any], *, name: str = "the file", upload: bool = False) -> Steps:
    """Rate and delay at each instant: the sum over one direction's TCP flows, and half the ping.

    >>> flent({"x_values": [0, 1], "results": {"TCP download": [8, 9], "Ping (ms) ICMP": [30, None]}})
    [{'at': '0s', 'rate': '8mbit', 'delay': '15ms'}, {'at': '1s', 'rate': '9mbit'}]
    """
    times = [_number(value, f"x_values[{number}] of {name}") for number, value in enumerate(data["x_values"])]
    results = data.get("results")
    if not isinstance(results, dict) or not times:
        raise TraceError(f"{name} has no results", "Give the .flent or .flent.gz that Flent wrote")
    word = "upload" if upload else "download"
    rates = {key: rows for key, rows in results.items() if key.startswith(f"TCP {word}")}
    # Flent adds sums and means of the flows, which would count them twice.
    total = rates.get(f"TCP {word} sum")
    flows = [total] if total else [rows for key, rows in rates.items() if not key.endswith((" avg", " sum"))]
    pings = {key: rows for key, rows in results.items() if key.startswith("Ping (ms)")}
    ping = next((rows for key, rows in pings.items() if key.endswith("avg")), next(iter(pings.values()), None))
    if not flows and ping is None:
        known = ", ".join(results) or "nothing"
        raise TraceError(f"{name} has neither TCP {word} nor Ping (ms), but {known}", "Measure with a test that has")
    for rows in (*flows, *([ping] if ping else [])):
        if len(rows) != len(times):
            raise TraceError(
                f"{name} has {len(times)} x_values and a series of {len(rows)}", "Give it as Flent wrote it"
            )
    _no_gap(times, name)
    out: Steps = []
    kept = []
    for number, at in enumerate(times):
        step: dict[str, Any] = {"at": ""}
        seen = [_number(rows[number], f"{name}, x_values[{number}]") for rows in flows if rows[number] is not None]
        if seen:
            step["rate"] = _rate(1e6 * sum(seen))
        if ping is not None and ping[number] is not None:
            step["delay"] = f"{_number(ping[number], f'{name}, ping {number}') / 2:.9g}ms"
        if len(step) > 1:
            out.append(step)
            kept.append(at)
    return _timed(out, kept)


def _list(data: Mapping[str, Any], key: str, name: str) -> Sequence[Any]:
    rows = data.get(key)
    if not isinstance(rows, list) or not rows:
        raise TraceError(f"{name} has no {key}", "Give a measurement that took place")
    return rows


def _at(row: Any, keys: Iterable[str], where: str) -> float:
    steps: list[str] = []
    for key in keys:
        steps.append(key)
        if not isinstance(row, dict) or key not in row:
            raise TraceError(f"{where} has no {'.'.join(steps)}", "Give it as the program wrote it")
        row = row[key]
    return _number(row, f"{where}: {'.'.join(steps)}")


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TraceError(f"{where} is {value!r}, not a number", "Give it as the program wrote it")
    if value < 0:
        raise TraceError(f"{where} is {value:g}, below zero", "Remove the row, or correct the clock")
    return float(value)


def _no_gap(times: Sequence[float], name: str) -> None:
    steps = [after - before for before, after in pairwise(times)]
    if any(step <= 0 for step in steps):
        at = next(number for number, step in enumerate(steps) if step <= 0)
        raise TraceError(f"{name}: {times[at + 1]:g} s comes after {times[at]:g} s", "Sort the rows by time")
    usual = median(steps) if steps else 0.0
    for (before, after), step in zip(pairwise(times), steps, strict=True):
        if step > _HOLE * usual:
            fix = "Cut the file there: a link would keep its last values all the while"
            raise TraceError(f"{name}: nothing was measured from {before:g} to {after:g} s", fix)


def _timed(steps: Steps, times: Sequence[float]) -> Steps:
    return [{**step, "at": _seconds(at - times[0])} for step, at in zip(steps, times, strict=True)]


def _rate(bps: float) -> str:
    return f"{bps / 1e6:.9g}mbit"


def _seconds(value: float) -> str:
    return f"{value:.9g}s"
