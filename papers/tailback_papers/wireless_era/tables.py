"""Tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tailback.experiment import Data, TableOut

from .claims import PRINTED
from .grid import (
    ABLATIONS,
    ALGORITHMS,
    CALL_NETWORKS,
    FITTED,
    LARGE,
    NETWORKS,
    RIVALS,
    TITLES,
)
from .measures import kept_runs


def _middle(values: Iterable[float | None], digits: int) -> str:
    kept = [value for value in values if value is not None]
    return f"{np.median(kept):.{digits}f}" if kept else "–"


def _throughput(data: Data) -> list[list[str]]:
    rows = []
    for name, network in NETWORKS.items():
        for megabytes in network.sizes:
            found = [one["mbps"][str(megabytes)] for one in data.runs(kind="single", network=name)]
            captured = [one["rtts"][str(megabytes)] for one in data.runs(kind="capture", network=name)]
            for algorithm in ALGORITHMS if found else ():
                each = [kept_runs(one[algorithm]) for one in found if one[algorithm]]
                rtt = [one[algorithm] for one in captured]
                rows.append([
                    TITLES[name], f"{megabytes} MB", TITLES[algorithm],
                    *(_middle((float(cut(runs)) for runs in each), 2) for cut in (
                        np.min, _quarter(0.25), np.median, _quarter(0.75), np.max, np.mean)),
                    _middle((one["rtt_ms"] for one in rtt), 1), _middle((one["sd_ms"] for one in rtt), 1),
                ])  # fmt: skip
    return rows


def _quarter(share: float) -> Callable[[Any], Any]:
    return lambda runs: np.quantile(runs, share)


def _pairs(data: Data) -> list[list[str]]:
    rows = []
    for name, network in NETWORKS.items():
        for rival in RIVALS:
            found = [one for one in data.runs(kind="pair", network=name, rival=rival) if one["cubic_mbps"]]
            if not found:
                continue
            cubic, other = ([float(np.mean(one[f"{who}_mbps"])) for one in found] for who in ("cubic", "rival"))
            shares = [100.0 * a / (a + b) for a, b in zip(cubic, other, strict=True)]
            first = [_share_when(one, True) for one in found]
            second = [_share_when(one, False) for one in found]
            rows.append([
                TITLES[name], f"{network.pair_mb} MB", TITLES[rival], _middle(cubic, 2), _middle(other, 2),
                _middle(shares, 1), _middle(first, 1), _middle(second, 1),
            ])  # fmt: skip
    return rows


def _share_when(found: dict[str, list[float]], first: bool) -> float | None:
    chosen = [place for place, was in enumerate(found["cubic_first"]) if bool(was) is first]
    cubic = sum(found["cubic_mbps"][place] for place in chosen)
    both = cubic + sum(found["rival_mbps"][place] for place in chosen)
    return 100.0 * cubic / both if both else None


def _calls(data: Data) -> list[list[str]]:
    rows = []
    for name in CALL_NETWORKS:
        where, jitter, loss = PRINTED[name]
        found = data.runs(kind="calls", network=name)
        for algorithm in ALGORITHMS if found else ():
            sent, lost = (sum(one[what][algorithm] for one in found) for what in ("sent", "lost"))
            rows.append([
                where, TITLES[algorithm], f"{jitter[algorithm]:g}",
                _middle((one["jitter_ms"][algorithm] for one in found), 3), f"{loss[algorithm]:g}",
                f"{100.0 * lost / sent:.2g}" if sent else "–", f"{lost} of {sent}",
            ])  # fmt: skip
    return rows


def _other(data: Data) -> list[list[str]]:
    rows = []
    for key, reading in ABLATIONS.items():
        for network in reading.networks:
            found = data.runs(kind=reading.kind, network=network, ablation=key)
            sizes = NETWORKS[network].sizes if reading.kind != "calls" else (LARGE,)
            for size in sizes if found else ():
                cells = [
                    _shown(reading.kind, [(one, str(size), algorithm) for one in found]) for algorithm in ALGORITHMS
                ]
                rows.append([reading.title, TITLES[network], f"{size} MB", *cells])
    return rows


def _shown(kind: str, of: list[tuple[dict[str, Any], str, str]]) -> str:
    if kind == "calls":
        sent, lost = (sum(one[what][algorithm] for one, _, algorithm in of) for what in ("sent", "lost"))
        jitter = _middle((one["jitter_ms"][algorithm] for one, _, algorithm in of), 3)
        return f"{jitter} ms, {100.0 * lost / sent:.2g} % lost" if sent else "–"
    if kind == "capture":
        return _middle((one["rtts"][size][algorithm]["rtt_ms"] for one, size, algorithm in of), 0) + " ms"
    return _middle((float(np.mean(kept_runs(one["mbps"][size][algorithm]))) for one, size, algorithm in of), 2)


def all_tables(data: Data) -> list[TableOut]:
    """What was fitted, throughput and RTT, shares, the paper's two tables, and other readings."""
    tables = [
        TableOut(
            "fitted", "What was fitted",
            "Chosen because the paper does not know it. A claim about what a parameter was fitted to is marked so.",
            ["parameter", "value", "fitted to", "tested on"], [list(row) for row in FITTED],
        ),
        TableOut(
            "throughput", "Throughput and RTT alone (Figs 3 to 7)",
            "Mbit/s of payload over the runs without the slowest tenth; RTTs by Karn's rule, mean and deviation of a "
            "transfer, averaged. Median over seeds.",
            ["network", "transfer", "algorithm", "min", "25 %", "median", "75 %", "max", "mean", "RTT (ms)", "± (ms)"],
            _throughput(data),
        ),
        TableOut(
            "friendliness", "Beside CUBIC (Figs 3 to 7)",
            "Mean throughput of both, median over seeds; share also by which of the two was started first.",
            ["network", "transfer", "rival", "CUBIC (Mbit/s)", "rival (Mbit/s)", "CUBIC's share (%)", "CUBIC first (%)",
             "rival first (%)"],
            _pairs(data),
        ),
        TableOut(
            "calls", "Five G.711 calls beside a download of 20 MB (Tables I and II)",
            "Jitter in ms, loss in per cent. Lost packets of all seeds together.",
            ["table", "algorithm", "jitter, paper", "ours", "loss, paper", "ours", "packets lost"], _calls(data),
        ),
    ]  # fmt: skip
    if others := _other(data):
        tables.append(
            TableOut(
                "other-readings",
                "Other readings of what the paper leaves open",
                "Mean throughput in Mbit/s, RTT in ms, or jitter and loss of the calls, one assumption changed.",
                ["change", "network", "transfer", *(TITLES[algorithm] for algorithm in ALGORITHMS)],
                others,
            )
        )
    return tables
