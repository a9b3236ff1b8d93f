"""What is kept of a cell: throughput of each run, RTTs by Karn's rule, shares of pairs, jitter and loss of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import metrics
from tailback.metrics import Rows
from tailback.metrics.rows import RECEIVED, Floats, floats
from tailback.result import Result

from ..framework import Cell, Summary
from .grid import ALGORITHMS, CALLS, FLOW, NETWORKS, PING, RIVAL, Network

_ANSWERED = 0
DRAWN = 400
"""RTT samples kept for the figures, of the first transfer of each algorithm."""


def summarise(cell: Cell, result: Result) -> Summary:
    """Plain numbers of one cell."""
    rows = Rows.of(result)
    kinds = {"single": _single, "capture": _capture, "pair": _pair, "calls": _calls, "idle": _idle}
    dropped = {name: int(n) for name, n in zip(rows.link_names, rows.column("links", "dropped"), strict=True)}
    flows = rows.of_flow("flows", FLOW) if FLOW in result.flow_names else None
    timeouts = int(flows["timeouts"][0]) if flows else 0
    kind = str(cell.factors["kind"])
    return {"key": cell.key, "dropped": dropped, "timeouts": timeouts} | kinds[kind](
        rows, NETWORKS[cell.factors["network"]]
    )


@dataclass(frozen=True)
class Run:
    """One transfer that came to an end."""

    start_s: float
    took_s: float
    mbps: float
    megabytes: int
    turn: int

    def algorithm(self, network: Network, sizes: int | None = None) -> str:
        """Whose turn it was: all sizes with one algorithm, then with the next."""
        return ALGORITHMS[self.turn // (sizes or len(network.sizes)) % len(ALGORITHMS)]


def _runs(rows: Rows, flow: str) -> list[Run]:
    table = rows.of_flow("requests", flow)
    columns = (floats(table[name]) for name in ("t_s", "response_time_s", "bytes", "turn", "fate"))
    return [
        Run(float(start), float(took), 8e-6 * float(size) / float(took), round(float(size) / 1e6), int(turn))
        for start, took, size, turn, fate in zip(*columns, strict=True)
        if fate == _ANSWERED
    ]


def _asked(rows: Rows) -> int:
    return len(np.asarray(rows.of_flow("requests", FLOW)["fate"]))


def _single(rows: Rows, network: Network) -> Summary:
    runs = _runs(rows, FLOW)
    each: dict[str, dict[str, list[float]]] = {str(size): {name: [] for name in ALGORITHMS} for size in network.sizes}
    for run in runs:
        each[str(run.megabytes)][run.algorithm(network)].append(round(run.mbps, 4))
    return {"mbps": each, "unfinished": _asked(rows) - len(runs)}


def _capture(rows: Rows, network: Network) -> Summary:
    segments = rows.of_flow("segments", FLOW)
    t = floats(segments["t_s"])
    sizes: dict[str, Any] = {}
    for megabytes in network.sizes:
        samples: dict[str, list[tuple[Floats, Floats]]] = {name: [] for name in ALGORITHMS}
        for run in (run for run in _runs(rows, FLOW) if run.megabytes == megabytes):
            # The pause after a transfer is a second at least: its last ACKs belong to it.
            now = (t >= run.start_s) & (t < run.start_s + run.took_s + 0.9)
            connection = {name: column[now] for name, column in segments.items()}
            at, rtt = metrics.karn_rtts(Rows({**rows.tables, "segments": connection}, rows.scenario), FLOW)
            if len(rtt):
                samples[run.algorithm(network)].append((at - run.start_s, 1e3 * rtt))
        sizes[str(megabytes)] = {name: _delays(found) for name, found in samples.items()}
    return {"rtts": sizes}


def _delays(samples: list[tuple[Floats, Floats]]) -> dict[str, Any]:
    """Mean and deviation of each transfer, averaged; samples of the last, the servers having remembered by then."""
    if not samples:
        return {"rtt_ms": None, "sd_ms": None, "samples": 0, "drawn": []}
    at, rtt = samples[-1]
    every = max(1, len(rtt) // DRAWN)
    return {
        "rtt_ms": float(np.mean([np.mean(one) for _, one in samples])),
        "sd_ms": float(np.mean([np.std(one) for _, one in samples])),
        "samples": sum(len(one) for _, one in samples),
        "drawn": [_round(at[::every], 4), _round(rtt[::every], 2)],
    }


def _pair(rows: Rows, _: Network) -> Summary:
    # The two of a pair start within a tenth of a second, pairs are many seconds apart.
    both = [
        (mine, other)
        for mine in _runs(rows, FLOW)
        for other in _runs(rows, RIVAL)
        if abs(other.start_s - mine.start_s) < 1.0
    ]
    return {
        "cubic_mbps": [round(mine.mbps, 4) for mine, _ in both],
        "rival_mbps": [round(other.mbps, 4) for _, other in both],
        "cubic_first": [mine.start_s < other.start_s for mine, other in both],
        "unfinished": _asked(rows) - len(both),
    }


def _calls(rows: Rows, network: Network) -> Summary:
    runs = _runs(rows, FLOW)
    jitter: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    sent = dict.fromkeys(ALGORITHMS, 0)
    lost = dict.fromkeys(ALGORITHMS, 0)
    for number in range(1, CALLS + 1):
        packets = rows.of_flow("packets", f"call-{number}")
        left, received = floats(packets["sent_s"]), floats(packets["received_s"])
        arrived = np.asarray(packets["fate"]) == RECEIVED
        for run in runs:
            name = run.algorithm(network, sizes=1)
            # A call of iperf's lasts as long as the download here; the estimator starts anew with each.
            within = slice(*np.searchsorted(left, [run.start_s, run.start_s + run.took_s]))
            sent[name] += len(left[within])
            lost[name] += int(np.sum(~arrived[within]))
            transit = (received - left)[within][arrived[within]]
            if len(transit) > 1:
                jitter[name].append(1e3 * metrics.smoothed_jitter(transit))
    return {
        "jitter_ms": {name: float(np.mean(each)) if each else None for name, each in jitter.items()},
        "sent": sent,
        "lost": lost,
    }


def _idle(rows: Rows, _: Network) -> Summary:
    rtt = 1e3 * floats(rows.of_flow("echoes", PING)["rtt_s"])
    rtt = rtt[~np.isnan(rtt)]
    return {"rtt_ms": float(np.mean(rtt)), "sd_ms": float(np.std(rtt)), "samples": len(rtt)}


def _round(values: Floats, digits: int) -> list[float]:
    return [float(value) for value in np.round(values, digits)]
