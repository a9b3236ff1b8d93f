"""What is kept of a cell: throughput of each run, RTTs by Karn's rule, shares of pairs, jitter and loss of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import metrics
from tailback.experiment import Cell, Summary, rounded
from tailback.metrics import Rows
from tailback.metrics.rows import ANSWERED, RECEIVED, Floats, floats
from tailback.result import Result

from .grid import ALGORITHMS, CALLS, LARGE, NETWORKS, PING, RIVALS, Network, flow_name

DRAWN = 400
"""RTT samples kept for the figures, of the first transfer of each algorithm."""


def summarise(cell: Cell, result: Result) -> Summary:
    """Plain numbers of one cell."""
    rows = Rows.of(result)
    kinds = {"single": _single, "capture": _capture, "pair": _pair, "calls": _calls, "idle": _idle}
    dropped = {name: int(n) for name, n in zip(rows.link_names, rows.column("links", "dropped"), strict=True)}
    each = zip(rows.flow_names, rows.column("flows", "timeouts"), strict=True)
    timeouts = sum(int(count) for name, count in each if name.endswith("mb"))
    network = NETWORKS[str(cell.factors["network"])]
    return {"key": cell.key, "dropped": dropped, "timeouts": timeouts} | kinds[str(cell.factors["kind"])](rows, network)


@dataclass(frozen=True)
class Run:
    """One transfer that came to an end."""

    start_s: float
    took_s: float
    mbps: float


def _runs(rows: Rows, algorithm: str, megabytes: int) -> tuple[list[Run], int]:
    """The transfers that came to an end, and how many did not."""
    table = rows.of_flow("requests", flow_name(algorithm, megabytes))
    columns = (floats(table[name]) for name in ("t_s", "response_time_s", "bytes", "fate"))
    runs = [
        Run(float(start), float(took), 8e-6 * float(size) / float(took))
        for start, took, size, fate in zip(*columns, strict=True)
        if fate == ANSWERED
    ]
    return runs, len(table["fate"]) - len(runs)


def _single(rows: Rows, network: Network) -> Summary:
    each: dict[str, dict[str, list[float]]] = {}
    unfinished = 0
    for megabytes in network.sizes:
        for name in ALGORITHMS:
            runs, lost = _runs(rows, name, megabytes)
            each.setdefault(str(megabytes), {})[name] = [round(run.mbps, 4) for run in runs]
            unfinished += lost
    return {"mbps": each, "unfinished": unfinished}


def _capture(rows: Rows, network: Network) -> Summary:
    sizes: dict[str, Any] = {}
    for megabytes in network.sizes:
        found: dict[str, Any] = {}
        for name in ALGORITHMS:
            flow = flow_name(name, megabytes)
            segments = rows.of_flow("segments", flow)
            t = floats(segments["t_s"])
            samples: list[tuple[Floats, Floats]] = []
            for run in _runs(rows, name, megabytes)[0]:
                # Half a second and more of each slot remains: its last ACKs belong to the transfer.
                now = (t >= run.start_s) & (t < run.start_s + run.took_s + 0.5)
                connection = {column: values[now] for column, values in segments.items()}
                at, rtt = metrics.karn_rtts(Rows({**rows.tables, "segments": connection}, rows.scenario), flow)
                if len(rtt):
                    samples.append((at - run.start_s, 1e3 * rtt))
            found[name] = _delays(samples)
        sizes[str(megabytes)] = found
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
        "drawn": [rounded(at[::every], 4), rounded(rtt[::every], 2)],
    }


def _pair(rows: Rows, network: Network) -> Summary:
    rival = next(name for name in RIVALS if flow_name(name, network.pair_mb) in rows.flow_names)
    (cubic, lost), (others, more) = (_runs(rows, name, network.pair_mb) for name in ("cubic", rival))
    # The two of a pair start within parts of a second, pairs are many seconds apart.
    both = [(mine, other) for mine in cubic for other in others if abs(other.start_s - mine.start_s) < 1.0]
    return {
        "cubic_mbps": [round(mine.mbps, 4) for mine, _ in both],
        "rival_mbps": [round(other.mbps, 4) for _, other in both],
        "cubic_first": [mine.start_s < other.start_s for mine, other in both],
        "unfinished": lost + more,
    }


def _calls(rows: Rows, _: Network) -> Summary:
    jitter: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    sent = dict.fromkeys(ALGORITHMS, 0)
    lost = dict.fromkeys(ALGORITHMS, 0)
    runs = {name: _runs(rows, name, LARGE)[0] for name in ALGORITHMS}
    for number in range(1, CALLS + 1):
        packets = rows.of_flow("packets", f"call-{number}")
        left, received = floats(packets["sent_s"]), floats(packets["received_s"])
        arrived = np.asarray(packets["fate"]) == RECEIVED
        for name, run in ((who, run) for who in ALGORITHMS for run in runs[who]):
            # A call of iperf's lasts as long as the download here; the estimator starts again with each.
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
