"""What is kept of a cell: throughput of each run, RTTs tcptrace's way, shares of pairs, jitter and loss of calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback import metrics
from tailback.metrics import Rows
from tailback.metrics.rows import RECEIVED, Floats, floats
from tailback.result import Result

from ..framework import Cell, Summary
from .grid import ALGORITHMS, CALLS, FLOW, PING, RIVAL

_ANSWERED = 0
DRAWN = 400
"""RTT samples kept for the figures, of the first transfer of each algorithm."""


def tcptrace_rtts(sent_s: Floats, seq: Floats, length: Floats, acked_s: Floats, ack: Floats) -> tuple[Floats, Floats]:
    """Instants and RTTs that tcptrace finds in one connection's capture at its sender.

    An ACK that advances is a sample if it acknowledges the end of a segment that was sent once (Karn's rule); ACKs that
    cover several segments count for the last of them.
    """
    data = length > 0
    ends, first, counts = np.unique(seq[data] + length[data], return_index=True, return_counts=True)
    at = sent_s[data][first]
    highest = np.maximum.accumulate(ack) if len(ack) else ack
    advances = np.concatenate(([True], highest[1:] > highest[:-1])) if len(ack) else np.zeros(0, dtype=np.bool_)
    found = np.searchsorted(ends, ack)
    known = advances & (found < len(ends))
    known[known] &= ends[found[known]] == ack[known]
    known[known] &= counts[found[known]] == 1
    rtt = acked_s[known] - at[found[known]]
    return acked_s[known][rtt > 0], rtt[rtt > 0]


def summarise(cell: Cell, result: Result) -> Summary:
    """Plain numbers of one cell."""
    rows = Rows.of(result)
    kinds = {"single": _single, "capture": _capture, "pair": _pair, "calls": _calls, "idle": _idle}
    dropped = {name: int(n) for name, n in zip(rows.link_names, rows.column("links", "dropped"), strict=True)}
    flows = rows.of_flow("flows", FLOW) if FLOW in result.flow_names else None
    timeouts = int(flows["timeouts"][0]) if flows else 0
    kind = str(cell.factors["kind"])
    return {"key": cell.key, "dropped": dropped, "timeouts": timeouts} | kinds[kind](rows)


def _runs(rows: Rows, flow: str) -> tuple[Floats, Floats, Floats, Any]:
    """Start, duration, Mbit/s and turn of the transfers that came to an end."""
    table = rows.of_flow("requests", flow)
    done = np.asarray(table["fate"]) == _ANSWERED
    start, took = floats(table["t_s"])[done], floats(table["response_time_s"])[done]
    return start, took, 8e-6 * floats(table["bytes"])[done] / took, np.asarray(table["turn"])[done]


def _single(rows: Rows) -> Summary:
    _, _, mbps, turn = _runs(rows, FLOW)
    wanted = len(np.asarray(rows.of_flow("requests", FLOW)["fate"]))
    each = {name: _round(mbps[turn % len(ALGORITHMS) == place], 4) for place, name in enumerate(ALGORITHMS)}
    return {"mbps": each, "unfinished": wanted - len(mbps)}


def _capture(rows: Rows) -> Summary:
    start, took, _, turn = _runs(rows, FLOW)
    table = rows.of_flow("segments", FLOW)
    t, here = floats(table["t_s"]), ~np.asarray(table["at_receiver"])
    outgoing = np.asarray(table["outgoing"])
    found: dict[str, Any] = {}
    for place, name in enumerate(ALGORITHMS):
        means, deviations, largest, samples = [], [], [], 0
        drawn: list[list[float]] = []
        for began, lasted in zip(
            start[turn % len(ALGORITHMS) == place], took[turn % len(ALGORITHMS) == place], strict=True
        ):
            # The pause after a transfer is a second at least: its last ACKs belong to it.
            now = here & (t >= began) & (t < began + lasted + 0.9)
            out, back = now & outgoing, now & ~outgoing
            at, rtt = tcptrace_rtts(
                t[out], floats(table["seq"])[out], floats(table["length"])[out], t[back], floats(table["ack"])[back]
            )
            if not len(rtt):
                continue
            means.append(float(np.mean(rtt)))
            deviations.append(float(np.std(rtt)))
            largest.append(float(np.max(rtt)))
            samples += len(rtt)
            if not drawn:
                every = max(1, len(rtt) // DRAWN)
                drawn = [_round(at[::every] - began, 4), _round(1e3 * rtt[::every], 2)]
        found[name] = {
            "rtt_ms": 1e3 * float(np.mean(means)) if means else None,
            "sd_ms": 1e3 * float(np.mean(deviations)) if deviations else None,
            "max_ms": 1e3 * float(np.mean(largest)) if largest else None,
            "samples": samples,
            "drawn": drawn,
        }
    return {"algorithms": found}


def _pair(rows: Rows) -> Summary:
    start, _, mbps, _ = _runs(rows, FLOW)
    rival_start, _, rival_mbps, _ = _runs(rows, RIVAL)
    # The two of a pair start within a tenth of a second, pairs are many seconds apart.
    both = [
        (mine, other) for mine, at in enumerate(start) for other, its in enumerate(rival_start) if abs(its - at) < 1.0
    ]
    mine, other = [pair[0] for pair in both], [pair[1] for pair in both]
    return {
        "cubic_mbps": _round(mbps[mine], 4),
        "rival_mbps": _round(rival_mbps[other], 4),
        "cubic_first": [bool(start[i] < rival_start[j]) for i, j in both],
        "unfinished": len(np.asarray(rows.of_flow("requests", FLOW)["fate"])) - len(both),
    }


def _calls(rows: Rows) -> Summary:
    start, took, _, turn = _runs(rows, FLOW)
    jitter: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    sent = dict.fromkeys(ALGORITHMS, 0)
    lost = dict.fromkeys(ALGORITHMS, 0)
    for number in range(1, CALLS + 1):
        packets = rows.of_flow("packets", f"call-{number}")
        left, received = floats(packets["sent_s"]), floats(packets["received_s"])
        arrived = np.asarray(packets["fate"]) == RECEIVED
        for began, lasted, which in zip(start, took, turn, strict=True):
            name = ALGORITHMS[int(which) % len(ALGORITHMS)]
            # A call of iperf's lasts as long as the download here; the estimator starts anew with each.
            within = slice(*np.searchsorted(left, [began, began + lasted]))
            sent[name] += len(left[within])
            lost[name] += int(np.sum(~arrived[within]))
            transit = (received - left)[within][arrived[within]]
            if len(transit) > 1:
                jitter[name].append(1e3 * metrics.smoothed_jitter(transit))
    return {
        "jitter_ms": {name: float(np.mean(each)) if each else None for name, each in jitter.items()},
        "jitters": {name: _round(np.array(each), 4) for name, each in jitter.items()},
        "sent": sent,
        "lost": lost,
    }


def _idle(rows: Rows) -> Summary:
    rtt = 1e3 * floats(rows.of_flow("echoes", PING)["rtt_s"])
    rtt = rtt[~np.isnan(rtt)]
    return {"rtt_ms": float(np.mean(rtt)), "sd_ms": float(np.std(rtt)), "samples": len(rtt)}


def _round(values: Floats, digits: int) -> list[float]:
    return [float(value) for value in np.round(values, digits)]
