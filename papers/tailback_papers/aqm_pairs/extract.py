"""What is kept of a run: throughput, queueing, and how evenly flows shared over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback import metrics
from tailback.experiment import Cell, Summary
from tailback.result import Result

from .grid import DURATION_S

BIN_S = 1.0
"""Width of the bins over which shares are compared."""


def summarise(cell: Cell, result: Result) -> Summary:
    """Plain numbers of one run."""
    polls = result.numpy("polls")
    flows = range(len(result.flow_names))
    t, of = polls["t_s"], polls["flow"]
    edges = np.arange(0.0, DURATION_S + BIN_S / 2, BIN_S)
    received = np.array(
        [np.interp(edges, t[of == flow], polls["bytes_received"][of == flow].astype(float)) for flow in flows]
    )
    per_second = 8e-6 * np.diff(received, axis=1) / BIN_S
    so_far = 8e-6 * received[:, 1:] / edges[1:]
    table = result.numpy("flows")
    # What reached the receivers, retransmissions included, is the paper's “bytes received”.
    wire_bytes = float(result.numpy("links")["delivered_bytes"][result.link_index("bottleneck")])
    payload = float(np.sum(table["bytes_received"]))
    queue_polls = result.numpy("queue_polls")
    queue = queue_polls["backlog_bytes"].astype(float)
    late = queue_polls["t_s"] >= DURATION_S / 4
    rate = result.link_spec("bottleneck")["rate_bps"]
    return {
        "key": cell.key,
        "goodput_mbps": 8e-6 * payload / DURATION_S,
        "received_kibps": 8.0 * wire_bytes / DURATION_S / 1024.0,
        "wire_mbps": 8e-6 * wire_bytes / DURATION_S,
        "utilisation": 8.0 * wire_bytes / DURATION_S / rate,
        "queue_ms_mean": float(8e3 * np.mean(queue[late]) / rate),
        "queue_ms_p95": float(8e3 * np.quantile(queue[late], 0.95) / rate),
        "loss": metrics.drop_share_at_link(result, "bottleneck"),
        "timeouts": int(np.sum(table["timeouts"])),
        "recoveries": int(np.sum(table["recoveries"])),
        "share_mbps": [float(v) for v in np.mean(per_second[:, per_second.shape[1] // 4 :], axis=1)],
        "jain_per_second": _jain(per_second),
        "jain_so_far": _jain(so_far),
        "mbps_per_second": [float(v) for v in np.sum(per_second, axis=0)],
    }


def _jain(shares: Any) -> list[float]:
    if shares.shape[0] < 2:
        return []
    return [float(metrics.jain(column)) for column in shares.T]
