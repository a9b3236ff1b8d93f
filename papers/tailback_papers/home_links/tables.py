"""Tables of the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback.experiment import Data, Summary, TableOut

from .extract import QUANTILES
from .grid import ABLATIONS, ALGORITHMS, FITTED, PATHS, TITLES


def _shown(values: list[float | None], digits: int) -> str:
    kept = [value for value in values if value is not None]
    return f"{np.median(kept):.{digits}f}" if kept else "–"


def _quantile(one: dict[str, Any], what: str, share: float) -> float | None:
    return float(np.interp(share, QUANTILES, one[what])) if one[what] else None


def _row(found: list[Summary], algorithm: str) -> list[str]:
    each = [one["algorithms"][algorithm] for one in found]
    return [
        _shown([_quantile(one, "spp_ms", 0.5) for one in each], 1),
        _shown([_quantile(one, "spp_ms", 0.1) for one in each], 1),
        _shown([_quantile(one, "spp_ms", 0.9) for one in each], 1),
        _shown([_quantile(one, "ping_ms", 0.5) for one in each], 1),
        _shown([_quantile(one, "mbps", 0.5) for one in each], 2),
        _shown([one["mbps_5s"] for one in each], 2),
        _shown([float(np.median(one["transfer_s"])) if one["transfer_s"] else None for one in each], 1),
        _shown([float(one["spp_samples"]) for one in each], 0),
        _shown([float(one["ping_samples"]) for one in each], 0),
    ]


def _medians(data: Data) -> list[list[str]]:
    return [
        [TITLES[path], TITLES[algorithm], *_row(found, algorithm)]
        for path in PATHS
        if (found := data.runs(path=path))
        for algorithm in ALGORITHMS
    ]


def _paths(data: Data) -> list[list[str]]:
    rows = []
    for name, path in PATHS.items():
        found = data.runs(path=name)
        if not found:
            continue
        dropped: dict[str, list[float | None]] = {}
        for one in found:
            for link, count in one["dropped"].items():
                dropped.setdefault(link, []).append(float(count))
        drops = ", ".join(f"{link} {_shown(counts, 0)}" for link, counts in dropped.items())
        rows.append([
            TITLES[name], f"{path.megabytes} MB", f"{path.pings_a_second} /s", f"{path.idle_ms:g}",
            _shown([one["idle_ms"] for one in found], 1), _shown([float(one["retransmitted"]) for one in found], 0),
            _shown([float(one["timeouts"]) for one in found], 0), drops,
            _shown([float(one["unfinished"]) for one in found], 0),
        ])  # fmt: skip
    return rows


def _others(data: Data) -> list[list[str]]:
    rows = []
    for name, reading in ABLATIONS.items():
        for path in reading.paths:
            found = data.runs(path=path, ablation=name)
            if not found:
                continue
            cells = [
                " / ".join(
                    (
                        _shown([_quantile(one["algorithms"][algorithm], "ping_ms", 0.5) for one in found], 1),
                        _shown([_quantile(one["algorithms"][algorithm], "mbps", 0.5) for one in found], 2),
                    )
                )
                for algorithm in ALGORITHMS
            ]
            rows.append([name, reading.title, TITLES[path], *cells])
    return rows


def all_tables(data: Data) -> list[TableOut]:
    """What was fitted, the medians, the links, and the other readings."""
    tables = [
        TableOut(
            "fitted",
            "What was fitted",
            "Chosen because the paper does not know it. A claim about what a parameter was fitted to is marked so.",
            ["parameter", "value", "fitted to", "tested on"],
            [list(row) for row in FITTED],
        ),
        TableOut(
            "medians",
            "Medians",
            "Median over seeds of each evening's pooled medians. RTTs in ms, throughput in Mbit/s of IP.",
            [
                "link", "algorithm", "RTT by pairs", "its 10 %", "90 %", "RTT by pings", "throughput, 1 s", "5 s",
                "transfer (s)", "pairs", "pings",
            ],
            _medians(data),
        ),
        TableOut(
            "links",
            "The links",
            "Idle RTT by pings between the transfers; the rest over a whole evening.",
            [
                "link", "transfers of", "pings", "idle RTT, paper (ms)", "here", "segments sent again", "timeouts",
                "drops by link", "transfers unfinished",
            ],
            _paths(data),
        ),
    ]  # fmt: skip
    if others := _others(data):
        tables.append(
            TableOut(
                "other-readings",
                "Other readings of what the paper leaves open",
                "Median RTT by pings in ms / median throughput in Mbit/s, one assumption changed.",
                ["ablation", "change", "link", *(TITLES[algorithm] for algorithm in ALGORITHMS)],
                others,
            )
        )
    return tables
