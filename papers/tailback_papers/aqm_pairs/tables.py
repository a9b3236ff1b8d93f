"""Tables of the report."""

from __future__ import annotations

import numpy as np

from tailback.experiment import Data, Summary, TableOut

from .claims import mean_jain
from .grid import (
    ABLATIONS,
    ALGORITHMS,
    DELAYS_MS,
    FAIR_DELAYS_MS,
    QUEUES,
    TITLES,
    ablation_key,
    alone_key,
    example_key,
    fair_key,
    key_of,
)


def _cell(values: list[float], digits: int) -> str:
    return f"{np.median(values):.{digits}f}" if values else "–"


def _one(data: Data, key: str, label: list[str]) -> list[str] | None:
    found = data.over_seeds(key)
    if not found:
        return None
    each = [
        ("wire_mbps", 2), ("received_kibps", 0), ("goodput_mbps", 2), ("queue_ms_mean", 1), ("queue_ms_p95", 1),
        ("loss", 5), ("timeouts", 0),
    ]  # fmt: skip
    return label + [_cell([float(one[name]) for one in found], digits) for name, digits in each]


def _fairness(found: list[Summary], label: list[str]) -> list[str]:
    return [
        *label,
        _cell([mean_jain(one) for one in found], 3),
        _cell([float(np.nanmin(one["jain_per_second"][10:])) for one in found], 3),
        _cell([float(np.nanstd(one["jain_per_second"][10:])) for one in found], 3),
        _cell([float(one["jain_so_far"][-1]) for one in found], 3),
        _cell([float(one["wire_mbps"]) for one in found], 1),
        _cell([float(one["queue_ms_mean"]) for one in found], 1),
    ]


def all_tables(data: Data) -> list[TableOut]:
    """Throughput, fairness, and the other readings."""
    columns = [
        "received (Mbit/s)", "received (Kibit/s, eq. 5)", "goodput (Mbit/s)", "queue mean (ms)", "queue p95 (ms)",
        "loss rate", "timeouts",
    ]  # fmt: skip
    single = [
        row
        for algorithm in ALGORITHMS
        for queue in QUEUES
        for delay in DELAYS_MS
        if (row := _one(data, key_of(algorithm, queue, delay), [TITLES[algorithm], TITLES[queue], str(delay)]))
    ]
    named = (
        [
            (fair_key(algorithm, queue, delay), [TITLES[algorithm], TITLES[queue], str(delay)])
            for algorithm in ALGORITHMS
            for queue in QUEUES
            for delay in FAIR_DELAYS_MS
        ]
        + [
            (alone_key(algorithm, delay), [TITLES[algorithm], "CoDel, no device below", str(delay)])
            for algorithm in ALGORITHMS
            for delay in FAIR_DELAYS_MS
        ]
        + [
            (example_key(algorithm, queue, delay), [TITLES[algorithm], f"{TITLES[queue]}, ns-3's example", str(delay)])
            for algorithm in ALGORITHMS
            for queue in QUEUES
            for delay in FAIR_DELAYS_MS
        ]
    )
    fair = [_fairness(found, label) for key, label in named if (found := data.over_seeds(key))]
    other = [
        row
        for name, (title, _) in ABLATIONS.items()
        for algorithm in ALGORITHMS
        for queue in QUEUES
        for delay in DELAYS_MS
        if (
            row := _one(
                data, ablation_key(name, algorithm, queue, delay), [title, TITLES[algorithm], TITLES[queue], str(delay)]
            )
        )
    ]
    tables = [
        TableOut(
            "throughput",
            "One flow, 20 Mbit/s",
            "Median over seeds. The paper divides bits by 1024; both units are given. Queue from 50 s on.",
            ["algorithm", "queue", "delay (ms)", *columns],
            single,
        ),
        TableOut(
            "fairness",
            "Ten flows, 100 Mbit/s",
            "Jain's index of one-second rates from 5 s on; lowest and deviation (σ) after 10 s; and of the whole run.",
            [
                "algorithm",
                "queue",
                "delay (ms)",
                "index, mean",
                "lowest",
                "σ",
                "whole run",
                "received (Mbit/s)",
                "queue mean (ms)",
            ],
            fair,
        ),
    ]
    if other:
        tables.append(
            TableOut(
                "other-readings",
                "Other readings of what the paper leaves open",
                "As the first table, one assumption changed.",
                ["change", "algorithm", "queue", "delay (ms)", *columns],
                other,
            )
        )
    return tables
