"""A run that never happened: a sawtooth whose every number is known, as the engine would have written it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback.metrics import Rows

RATE = 10e6
RTT_S = 0.08
LIMIT = 100_000
MSS = 1448


def scenario(*, duration_s: float = 60.0, name: str = "sawtooth", seed: int = 1) -> dict[str, Any]:
    return {
        "format": 1,
        "name": name,
        "seed": seed,
        "duration_ps": int(duration_s * 1e12),
        "nodes": ["left", "right"],
        "links": [
            {
                "name": "bottleneck",
                "from": "left",
                "to": "right",
                "rate_bps": int(RATE),
                "delay_ps": int(RTT_S / 2 * 1e12),
                "tick_hz": None,
                "queue": {"discipline": "fifo", "params": {"limit_bytes": float(LIMIT)}},
                "wire": {},
            },
            {
                "name": "return",
                "from": "right",
                "to": "left",
                "rate_bps": int(RATE),
                "delay_ps": int(RTT_S / 2 * 1e12),
                "tick_hz": None,
                "queue": {"discipline": "fifo", "params": {"limit_bytes": float(LIMIT)}},
                "wire": {},
            },
        ],
        "flows": [
            {
                "name": "tcp",
                "from": "left",
                "to": "right",
                "app": {"kind": "bulk", "params": {}},
                "tcp": {"stack": "linux-2.6.25", "cc": "reno", "mtu": 1500},
            },
            {"name": "call", "from": "left", "to": "right", "app": {"kind": "voip", "params": {}}, "tcp": None},
        ],
        "randomness": {},
        "instruments": {
            "polls": ["tcp"],
            "queue_polls": ["bottleneck"],
            "drops": ["bottleneck"],
            "packets": ["call"],
            "requests": ["tcp"],
            "echoes": [],
            "poll_interval_ps": 10**10,
        },
    }


def sawtooth(
    *, period_s: float = 8.0, first_s: float = 2.0, duration_s: float = 60.0, depth: float = 1.0, name: str = "sawtooth"
) -> Rows:
    """The queue climbs linearly from (1 − depth)·limit to its limit in each period; the window is queue plus BDP."""
    step = 0.01
    t = np.arange(0.0, duration_s, step)
    cuts = np.arange(first_s, duration_s, period_s)
    phase = np.mod(t - first_s, period_s) / period_s
    share = 1.0 - depth + depth * phase
    backlog = np.floor(share * LIMIT)
    bdp = RATE * RTT_S / 8
    cwnd = (bdp + backlog) / 1500 * MSS
    sent = np.arange(0.0, duration_s, 0.02)
    waiting = (1.0 - depth + depth * np.mod(sent - first_s, period_s) / period_s) * LIMIT * 8 / RATE
    floor = RTT_S / 2 + 200 * 8 / RATE
    n, calls = len(t), len(sent)
    zeros = np.zeros(n)
    received = RATE / 8 * MSS / 1500 * t
    rows = len(cuts)
    entered = np.repeat(cuts, 2)
    entered[1::2] += 0.2
    peak = float(np.max(cwnd))
    tables = {
        "flows": {
            "flow": np.array([0, 1], np.uint32),
            "packets_sent": np.array([50_000, calls], np.uint64),
            "packets_received": np.array([49_990, calls - 1], np.uint64),
            "packets_dropped": np.array([10, 1], np.uint64),
            "bytes_sent": np.array([75e6, calls * 200], np.uint64),
            "bytes_acked": np.array([72e6, 0], np.uint64),
            "bytes_received": np.array([72e6, (calls - 1) * 200], np.uint64),
            "segments_sent": np.array([50_000, 0], np.uint64),
            "segments_retransmitted": np.array([10, 0], np.uint64),
            "recoveries": np.array([rows, 0], np.uint64),
            "timeouts": np.array([0, 0], np.uint64),
            "undos": np.array([0, 0], np.uint64),
            "started_s": np.array([0.0, 0.0]),
            "established_s": np.array([0.08, np.nan]),
            "finished_s": np.array([np.nan, np.nan]),
            "rtt_min_s": np.array([RTT_S, np.nan]),
            "srtt_s": np.array([0.12, np.nan]),
        },
        "links": {
            "link": np.array([0, 1], np.uint32),
            "arrived": np.array([50_000, 25_000], np.uint64),
            "delivered": np.array([49_900, 25_000], np.uint64),
            "dropped": np.array([100, 0], np.uint64),
            "marked": np.array([0, 0], np.uint64),
            "resident": np.array([0, 0], np.uint64),
            "arrived_bytes": np.array([75e6, 1.3e6], np.uint64),
            "delivered_bytes": np.array([int(RATE / 8 * duration_s * 0.9), 1_300_000], np.uint64),
            "dropped_bytes": np.array([150_000, 0], np.uint64),
            "busy_s": np.array([duration_s * 0.9, 1.0]),
            "backlog_bytes_mean": np.array([50_000.0, 0.0]),
            "backlog_bytes_max": np.array([100_000.0, 52.0]),
        },
        "polls": {
            "t_s": t,
            "flow": np.zeros(n, np.uint32),
            "cwnd": cwnd,
            "ssthresh": np.full(n, np.nan),
            "srtt_s": RTT_S + backlog * 8 / RATE,
            "rtt_s": RTT_S + backlog * 8 / RATE,
            "rtt_min_s": np.full(n, RTT_S),
            "rto_s": np.full(n, 0.3),
            "in_flight": cwnd,
            "phase": zeros.astype(np.uint8),
            "bytes_acked": received,
            "bytes_received": received,
            "segments_retransmitted": zeros,
            "dup_acks_in": zeros,
            "snd_wnd": np.full(n, 8e6),
        },
        "queue_polls": {
            "t_s": t,
            "link": np.zeros(n, np.uint32),
            "backlog_bytes": backlog,
            "backlog_packets": backlog // 1500,
        },
        "queue": {
            "t_s": cuts - 0.15,
            "link": np.zeros(rows, np.uint32),
            "event": np.full(rows, 2, np.uint8),
            "flow": np.zeros(rows, np.uint32),
            "packet": np.arange(rows, dtype=np.uint64),
            "bytes": np.full(rows, 1500),
            "backlog_bytes": np.full(rows, LIMIT),
            "backlog_packets": np.full(rows, 67),
            "reason": np.zeros(rows, np.uint8),
        },
        "packets": {
            "flow": np.ones(calls, np.uint32),
            "index": np.arange(calls, dtype=np.uint64),
            "bytes": np.full(calls, 200, np.uint32),
            "sent_s": sent,
            "received_s": np.where(np.arange(calls) == 7, np.nan, sent + floor + waiting),
            "fate": np.where(np.arange(calls) == 7, 1, 0).astype(np.uint8),
        },
        "requests": {
            "t_s": np.arange(40.0),
            "flow": np.zeros(40, np.uint32),
            "connection": np.arange(40, dtype=np.uint32),
            "kind": np.ones(40, np.uint8),
            "turn": np.zeros(40, np.uint32),
            "bytes": 1000 * 2 ** (np.arange(40, dtype=np.uint64) % 8),
            "response_time_s": np.where(np.arange(40) == 39, np.nan, 0.2 + 0.01 * (np.arange(40) % 8)),
            "fate": np.where(np.arange(40) == 39, 2, 0).astype(np.uint8),
        },
        "congestion": {
            "t_s": entered,
            "flow": np.zeros(2 * rows, np.uint32),
            "kind": np.tile(np.array([0, 1], np.uint8), rows),
            "cwnd_before": np.full(2 * rows, peak),
            "cwnd_after": np.full(2 * rows, peak / 2),
            "ssthresh": np.full(2 * rows, peak / 2),
            "in_flight": np.full(2 * rows, peak),
        },
    }
    return Rows(tables, scenario(duration_s=duration_s, name=name))
