"""What is kept from each run of a dossier: the numbers behind its statistics, and the series of its picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tailback import _core, metrics
from tailback.assess.procedure import Cell
from tailback.metrics import MissingRows, Rows
from tailback.metrics.rates import comes_back, received_by
from tailback.metrics.rows import Floats, between, floats
from tailback.result import Result
from tailback.units import Duration

__all__ = ["HARMS", "REVISION", "harm", "lowest", "measure", "picture", "received", "transfers", "ware"]

#: Changes when `measure` does, so that old rows are not read as new ones.
REVISION = "assess/5"
#: Length in seconds of the windows for "lowest"; the first two windows do not count.
WINDOW_S = 5.0
#: A flow is starved in a window if it gets less than this fraction of an even share of the bottleneck.
STARVED = 0.1
#: Only transfers requested before this fraction of the run count as unfinished; later ones may still be in progress.
ASKED_BY = 0.8
BINS = 60

#: For each kind of harm: the number that it is computed from, and whether more of that is better.
HARMS: Mapping[str, tuple[str, bool]] = {
    "harm_goodput": ("others_goodput", True),
    "harm_lowest": ("others_lowest", True),
    "harm_delay": ("call_ms", False),
    # A loss of 0 has no ratio, so this harm is computed from the share that arrives.
    "harm_loss": ("call_arrived", True),
    "harm_mos": ("call_mos", True),
    "harm_fct": ("others_fct_ms", False),
    "harm_media": ("media_mbps", True),
    "harm_media_delay": ("media_ms", False),
}


def harm(kind: str, alone: Mapping[str, Any], beside: Mapping[str, Any]) -> float:
    """(x - y)/x where more is better, (y - x)/y where less is: 0 is none, 1 all. Ware et al., HotNets 2019.

    A negative value counts as 0: a baseline that helps the others sets no standard for a candidate.

    >>> harm("harm_goodput", {"others_goodput": 10.0}, {"others_goodput": 4.0})
    0.6
    >>> harm("harm_delay", {"call_ms": 10_000.0}, {"call_ms": 400.0})
    0.0
    """
    name, more = HARMS[kind]
    x, y = _number(alone.get(name)), _number(beside.get(name))
    if not (math.isfinite(x) and math.isfinite(y)):
        # Alone it had a value. None beside the flows under test is the greatest possible harm.
        return 1.0 if math.isfinite(x) else math.nan
    return ware(x, y, more=more)


def ware(x: float, y: float, *, more: bool) -> float:
    """Harm if a number is `x` alone and `y` beside the flows under test; NaN if what it is a share of is 0."""
    whole = x if more else y
    return max(0.0, (x - y) if more else (y - x)) / whole if whole else math.nan


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def measure(cell: Cell, result: Result) -> dict[str, float]:
    """The numbers of a run by name; a number that this run does not have is left out."""
    flows = result.resolved["flows"]
    # A program counts as a long flow.
    apps = {row["name"]: "bulk" if row["app"]["kind"] == "exec" else row["app"]["kind"] for row in flows}
    tested = [name for name in apps if name.startswith("test")]
    long = [name for name in tested if apps[name] == "bulk"]
    others = [name for name in apps if name not in tested and apps[name] == "bulk"]
    out: dict[str, float] = {}
    out |= _of_tested(cell, result, tested)
    if long:
        rates = [_rate(result, name) for name in long]
        out["goodput"] = sum(rates)
        if cell.after:
            rates = [_rate(result, name, *cell.after) for name in long]
            out["goodput_after"] = sum(rates)
        # If all flows are starved, no index is defined: it counts as 0.
        out["jain"] = metrics.jain(rates) if sum(rates) else 0.0
        out["lowest"] = lowest(result, long)
    if others:
        if long:
            out["own_goodput"] = out["goodput"]
        out["others_goodput"] = sum(_rate(result, name) for name in others)
        out["others_lowest"] = lowest(result, others)
        out["starved"] = _starved(result, others, len(long) + len(others))
    mine = [name for name in tested if apps[name] == "transfers"]
    theirs = [name for name in apps if apps[name] == "transfers" and name not in mine]
    if mine:
        times, unfinished = transfers(result, mine)
        out["unfinished"] = unfinished
        if len(times):
            out["fct_p50_ms"], out["fct_p95_ms"] = (
                1e3 * float(value) for value in metrics.quantiles_of(times, (0.5, 0.95))
            )
    if theirs:
        times, out["others_unfinished"] = transfers(result, theirs)
        if len(times):
            out["others_fct_ms"] = 1e3 * float(np.mean(times))
    if "call" in apps:
        out |= _call(result)
    if "media" in apps:
        out |= _media(result)
    return {name: value for name, value in out.items() if math.isfinite(value)}


def _of_tested(cell: Cell, result: Result, tested: Sequence[str]) -> dict[str, float]:
    totals = result.numpy("flows")
    at = [result.flow_index(name) for name in tested]

    def total(column: str) -> float:
        return float(sum(totals[column][index] for index in at))

    out: dict[str, float] = {}
    if failed := total("connections_failed"):
        out["connections_failed"], out["connections"] = failed, total("connections")
    # `flow_loss_rate` of the flows under test together.
    sent, received, dropped = (total(f"packets_{word}") for word in ("sent", "received", "dropped"))
    out["loss"] = _core.loss_of_totals(sent, received, dropped, 0.0, 0.0)
    if math.isfinite(out["loss"]):
        # A program may send from the `to` end.
        arrived = sum(max(totals["bytes_received"][index], totals["bytes_returned"][index]) for index in at)
        out["delivered"] = float(arrived) / total("bytes_sent")
    neck = result.link_index(result.bottleneck)
    rate = result.link_spec(neck).get("rate_bps")
    if rate:
        out["queue_ms"] = 8e3 * float(result.numpy("links")["backlog_bytes_mean"][neck]) / float(rate)
    if "packets_per_rtt" in cell.statistics:
        rtts = result.duration_s / Duration(cell.given["dumbbell"]["rtt"]).seconds
        out["packets_per_rtt"] = total("packets_sent") / rtts / len(tested)
    if "late_packets" in cell.statistics and tested and cell.after:
        late = 0
        for name in tested:
            late += int(np.sum(between(floats(result.where_flow("packets", name)["sent_s"]), *cell.after)))
        out["late_packets"] = late / len(tested)
    return out


def _rate(result: Result, flow: str, start_s: float | None = None, end_s: float | None = None) -> float:
    """Goodput in Mbit/s, by default while the flow was active; 0 in a window if most payload came back."""
    if start_s is not None and comes_back(Rows.of(result), flow):
        return 0.0
    found = metrics.goodput(result, flow, start_s, end_s) / 1e6
    return found if math.isfinite(found) else 0.0


def received(result: Result, flow: str, at_s: Floats) -> Floats:
    """Bytes that a flow's receiver had at these instants; none of a flow without polls."""
    try:
        return received_by(Rows.of(result), flow, at_s)
    except MissingRows:
        return np.zeros(len(at_s))


def lowest(result: Result, flows: Sequence[str]) -> float:
    """The lowest goodput of any of the flows in any window, in Mbit/s."""
    got = _windows(result, flows)
    return float(np.min(got)) if got.size else math.nan


def _windows(result: Result, flows: Sequence[str]) -> Floats:
    """Mbit/s of each flow in each window after the first two; empty if the run has fewer than three windows."""
    edges = np.arange(2 * WINDOW_S, result.duration_s + 1e-9, WINDOW_S)
    if len(edges) < 2:
        return np.zeros(0)
    return np.array([np.diff(received(result, flow, edges)) for flow in flows]) * 8e-6 / WINDOW_S


def _starved(result: Result, flows: Sequence[str], count: int) -> float:
    """The share of these flows' windows in which the flow is starved; `count` long flows share the bottleneck."""
    got = _windows(result, flows)
    rate = result.link_spec(result.link_index(result.bottleneck)).get("rate_bps")
    return float(np.mean(got < STARVED * float(rate) / 1e6 / count)) if rate and got.size else math.nan


def transfers(result: Result, flows: Sequence[str]) -> tuple[Floats, float]:
    """Completion times, and the unfinished share of the transfers that were requested in time."""
    times, asked, missing = [], 0, 0
    for flow in flows:
        rows = result.where_flow("requests", flow)
        took, began = floats(rows["response_time_s"]), floats(rows["t_s"])
        times.append(took[np.isfinite(took)])
        due = began < ASKED_BY * result.duration_s
        asked += int(np.sum(due))
        missing += int(np.sum(due & ~np.isfinite(took)))
    return np.concatenate(times), missing / asked if asked else math.nan


def _call(result: Result) -> dict[str, float]:
    row = next(row for row in result.experience_summary() if row["flow"] == "call")
    out = {"call_ms": row["p95_ms"], "call_mos": row["mos"]}
    if row["lost"] is not None:
        out["call_loss"], out["call_arrived"] = row["lost"], 1.0 - row["lost"]
    return {name: float(value) for name, value in out.items() if value is not None}


def _media(result: Result) -> dict[str, float]:
    """Rate and delay of adaptive media, without the first two windows."""
    rows = result.where_flow("packets", "media")
    sent, received = floats(rows["sent_s"]), floats(rows["received_s"])
    settled = (sent >= 2 * WINDOW_S) & np.isfinite(received)
    if not np.any(settled):
        return {"media_mbps": 0.0}
    arrived = float(np.sum(floats(rows["bytes"])[settled]))
    (delay,) = metrics.quantiles_of((received - sent)[settled], (0.95,))
    return {"media_mbps": 8e-6 * arrived / (result.duration_s - 2 * WINDOW_S), "media_ms": 1e3 * float(delay)}


def picture(result: Result) -> dict[str, list[float]]:
    """Goodput over time of the flows under test and of the others; completion times in order if all are transfers."""
    bulk = [row["name"] for row in result.resolved["flows"] if row["app"]["kind"] in ("bulk", "exec")]
    edges = np.linspace(0.0, result.duration_s, BINS + 1)
    out: dict[str, list[float]] = {}
    for name, flows in (
        ("test", [flow for flow in bulk if flow.startswith("test")]),
        ("others", [flow for flow in bulk if not flow.startswith("test")]),
    ):
        if flows and "polls" in result:
            got = np.sum([np.diff(received(result, flow, edges)) for flow in flows], axis=0)
            out[name] = [round(float(value), 4) for value in 8e-6 * got / np.diff(edges)]
    if not bulk:
        flows = [row["name"] for row in result.resolved["flows"] if row["app"]["kind"] == "transfers"]
        times, _ = transfers(result, flows) if flows else (np.zeros(0), math.nan)
        if len(times):
            shares = np.linspace(0, 1, 41).tolist()
            out["times_ms"] = [round(1e3 * float(value), 3) for value in metrics.quantiles_of(times, shares)]
    return out
