"""What is kept of an evening: for each algorithm the RTTs by both methods, throughput and durations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback import metrics
from tailback.experiment import Cell, Summary, pooled, quantiles, rounded
from tailback.metrics import Rows
from tailback.metrics.rates import rate_in_bins
from tailback.metrics.rows import ANSWERED, RECEIVED, Floats, floats
from tailback.result import Result

from .grid import ALGORITHMS, FLOW, PING

BIN_S, LONG_BIN_S = 1.0, 5.0
"""tcpstat's interval: the paper does not state it; its default is 5 s."""


def summarise(cell: Cell, result: Result) -> Summary:
    """Plain numbers of one evening, transfers of the same algorithm pooled."""
    rows = Rows.of(result)
    packets = rows.of_flow("packets", FLOW)
    arrived = np.asarray(packets["fate"]) == RECEIVED
    received_s, size = floats(packets["received_s"])[arrived], floats(packets["bytes"])[arrived]
    echoes = rows.of_flow("echoes", PING)
    asked_s, ping_ms = floats(echoes["t_s"]), 1e3 * floats(echoes["rtt_s"])
    transfers = rows.of_flow("requests", FLOW)
    began, took = floats(transfers["t_s"]), floats(transfers["response_time_s"])
    done = np.asarray(transfers["fate"]) == ANSWERED
    turn = np.asarray(transfers["turn"]) % len(ALGORITHMS)
    loaded = np.zeros(len(asked_s), dtype=np.bool_)
    of_algorithm: dict[str, Any] = {}
    for number, algorithm in enumerate(ALGORITHMS):
        spp, pings, short, long = [], [], [], []
        chosen = done & (turn == number)
        for start, duration in zip(began[chosen], took[chosen], strict=True):
            end = start + duration
            within = (asked_s >= start) & (asked_s < end)
            loaded |= (asked_s >= start - 1.0) & (asked_s < end + 1.0)
            pings.append(ping_ms[within])
            short.append(1e-6 * rate_in_bins(received_s, size, BIN_S, start, end)[1])
            long.append(1e-6 * rate_in_bins(received_s, size, LONG_BIN_S, start, end)[1])
            if rows.has("segments"):
                spp.append(1e3 * metrics.synthetic_packet_pairs(rows, FLOW, start, end)[1])
        of_algorithm[algorithm] = {
            "transfer_s": rounded(took[chosen], 3),
            "spp_ms": quantiles(pooled(spp)),
            "spp_samples": sum(map(len, spp)),
            "spp_ms_each": [_middle([one]) for one in spp],
            "ping_ms": quantiles(pooled(pings)),
            "ping_samples": sum(map(len, pings)),
            "mbps": quantiles(pooled(short)),
            "mbps_each": [_middle([one]) for one in short],
            "mbps_5s": _middle(long),
        }
    return {
        "key": cell.key,
        "idle_ms": _middle([ping_ms[~loaded & (asked_s < np.nanmax(began + took))]]),
        "unfinished": int(np.sum(~done)),
        "retransmitted": int(rows.of_flow("flows", FLOW)["segments_retransmitted"][0]),
        "timeouts": int(rows.of_flow("flows", FLOW)["timeouts"][0]),
        "dropped": {name: int(n) for name, n in zip(rows.link_names, rows.column("links", "dropped"), strict=True)},
        "algorithms": of_algorithm,
    }


def _middle(parts: list[Floats]) -> float | None:
    values = pooled(parts)
    return round(float(np.median(values)), 4) if len(values) else None
