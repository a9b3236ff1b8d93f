"""The numbers of a queue dossier's run, from the bottleneck's event log and the transfers' times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailback import metrics
from tailback.assess.measure import transfers
from tailback.assess.procedure import Cell
from tailback.assess.queues import cost
from tailback.assess.queues.cells import PACKET, QueueCell
from tailback.metrics.rows import Floats, floats
from tailback.result import Result

__all__ = ["REVISION", "measure", "picture"]

#: Changes when `measure` does, so that old rows are not read as new ones.
REVISION = "assess-queue/2"
_ENQUEUE, _DEQUEUE, _DROP, _MARK = 0, 1, 2, 3
_BINS = 60


class _Log:
    """The events of the bottleneck's queue, and the waiting time of each packet that left."""

    def __init__(self, result: Result) -> None:
        rows = result.numpy("queue")
        at = rows["link"] == result.link_index("bottleneck" if "bottleneck" in result.link_names else result.bottleneck)
        self.t, self.event = floats(rows["t_s"])[at], np.asarray(rows["event"])[at]
        self.flow, self.packet = np.asarray(rows["flow"])[at], np.asarray(rows["packet"])[at]
        self.bytes, self.backlog = np.asarray(rows["bytes"])[at], np.asarray(rows["backlog_bytes"])[at]
        came, left = self.event == _ENQUEUE, self.event == _DEQUEUE
        order = np.argsort(self.packet[came], kind="stable")
        packets, times = self.packet[came][order], self.t[came][order]
        found = np.searchsorted(packets, self.packet[left])
        self.left = np.flatnonzero(left)
        known = found < len(packets)
        known[known] = packets[found[known]] == self.packet[self.left[known]]
        self.left = self.left[known]
        self.wait_ms = 1e3 * (self.t[self.left] - times[found[known]])

    def waits(self, flows: Sequence[int], window: tuple[float, float]) -> Floats:
        """Waiting times in ms of the packets of `flows` that left in the window."""
        kept = np.isin(self.flow[self.left], flows) & _within(self.t[self.left], window)
        return floats(self.wait_ms[kept])

    def counted(self, event: int, flows: Sequence[int], window: tuple[float, float]) -> int:
        """Number of events of one kind."""
        return int(np.sum((self.event == event) & np.isin(self.flow, flows) & _within(self.t, window)))

    def carried(self, flows: Sequence[int], window: tuple[float, float]) -> float:
        """IP bytes that left."""
        kept = np.isin(self.flow[self.left], flows) & _within(self.t[self.left], window)
        return float(np.sum(self.bytes[self.left][kept]))

    def signals_ms(self, flows: Sequence[int], window: tuple[float, float]) -> Floats:
        """Time in ms from each drop to the departure of the same flow's next packet."""
        out = []
        for flow in flows:
            lost = (self.event == _DROP) & (self.flow == flow) & _within(self.t, window)
            mine = self.left[self.flow[self.left] == flow]
            order = np.argsort(self.packet[mine], kind="stable")
            packets, times = self.packet[mine][order], self.t[mine][order]
            behind = np.searchsorted(packets, self.packet[lost], side="right")
            known = behind < len(packets)
            out.append(1e3 * np.maximum(times[behind[known]] - self.t[lost][known], 0.0))
        return np.concatenate(out) if out else np.zeros(0)


def _within(t: Floats, window: tuple[float, float]) -> Any:
    return (t >= window[0]) & (t < window[1])


def measure(cell: Cell, result: Result) -> dict[str, float]:
    """The numbers of a run by name; a number that this run does not have is left out."""
    assert isinstance(cell, QueueCell)
    names = [str(row["name"]) for row in result.resolved["flows"]]
    log, window = _Log(result), cell.window

    def of(*words: str) -> list[int]:
        return [at for at, name in enumerate(names) if any(word in name.split("-") for word in words)]

    long, sent, calls, bursts = of("bulk"), of("datagrams"), of("call"), of("burst")
    every = list(range(len(names)))
    out: dict[str, float] = {"held": float(np.max(log.backlog, initial=0)) / (cell.limit * PACKET)}
    out |= _waits(log.waits(every, window), "wait")
    # Unresponsive datagrams queue only behind themselves if the queue isolates flows.
    out |= _waits(log.waits([at for at in every if at not in sent], window), "others")
    seconds = window[1] - window[0]
    if "schedule" not in cell.neck:
        capacity = 8e3 * PACKET / cell.packet_ms * seconds
        out["use"] = 100.0 * 8.0 * log.carried(every, window) / capacity
    if long:
        out |= _of_long(cell, log, names, long, sent)
    if calls:
        out |= _waits(log.waits(calls, window), "call")
        out["call_loss"] = _lost(log, calls, window)
    if bursts:
        out["burst_loss"] = _lost(log, bursts, window)
    if cell.name == "cost":
        queue = result.resolved["links"][result.link_index("bottleneck")]["queue"]
        grown = cost.growth(str(queue["discipline"]), queue.get("params", {}))
        out |= {} if grown is None else {"cost_growth": grown}
        beyond = cost.beyond_fifo(str(queue["discipline"]))
        out |= {} if beyond is None else {"cost_beyond": beyond}
    if short := [name for name in names if name.split("-")[0] == "short"]:
        times, _ = transfers(result, short)
        if len(times):
            out["fct_p50"], out["fct_p95"] = (1e3 * float(value) for value in metrics.quantiles_of(times, (0.5, 0.95)))
    return {name: value for name, value in out.items() if math.isfinite(value)}


def _waits(waits: Floats, name: str) -> dict[str, float]:
    if not len(waits):
        return {}
    return {f"{name}_p{100 * at:.0f}": float(np.quantile(waits, at)) for at in (0.5, 0.95)}


def _lost(log: _Log, flows: Sequence[int], window: tuple[float, float]) -> float:
    lost, left = (log.counted(event, flows, window) for event in (_DROP, _DEQUEUE))
    return 100.0 * lost / (lost + left) if lost + left else math.nan


def _of_long(
    cell: QueueCell, log: _Log, names: Sequence[str], long: Sequence[int], sent: Sequence[int]
) -> dict[str, float]:
    window = cell.window
    rates = np.asarray([log.carried([at], window) for at in long])
    out = {"loss": _lost(log, long, window), "jain": metrics.jain(rates.tolist()) if rates.sum() else 0.0}
    out["least_share"] = float(rates.min() / rates.mean()) if rates.sum() else 0.0
    if sent:
        both = [*rates.tolist(), *(log.carried([at], window) for at in sent)]
        out["jain_apart"] = metrics.jain(both)
    marks, drops = (log.counted(event, long, window) for event in (_MARK, _DROP))
    # Without any mark or drop, the share of marks counts as 0.
    out["marked_share"] = 100.0 * marks / (marks + drops) if marks + drops else 0.0
    signals = log.signals_ms(long, window)
    if len(signals):
        out["signal_ms"] = float(np.mean(signals))
    hosts = sorted({names[at].split("-")[0] for at in long} - {"bulk"})
    if len(hosts) == 2:
        first = sum(rate for at, rate in zip(long, rates, strict=True) if names[at].startswith(hosts[0]))
        out["host_share"] = 100.0 * float(first / rates.sum()) if rates.sum() else 0.0
    return out


def picture(result: Result) -> dict[str, list[float]]:
    """Median waiting time over time, in ms for each bin."""
    log = _Log(result)
    edges = np.linspace(0.0, result.duration_s, _BINS + 1)
    times = log.t[log.left]
    bounds = np.searchsorted(times, edges)
    medians = [
        float(np.median(log.wait_ms[low:high])) if high > low else 0.0 for low, high in itertools.pairwise(bounds)
    ]
    return {"wait_ms": [round(value, 4) for value in medians]}
