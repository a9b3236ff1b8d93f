"""Tables of the report: epochs, the whole grid, and what changing one assumption does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailback.experiment import ABLATION, Data, Summary, TableOut

from .claims import NAN, PATHS, median_delay, median_epoch
from .grid import SENDERS, factors_of, path_title


def _over_seeds(summaries: list[Summary], value: Callable[[Summary], Any], digits: int = 2) -> str:
    every = [value(s) for s in summaries]
    found = [float(v) for v in every if v is not None and not np.isnan(v)]
    return f"{np.median(found):.{digits}f}" if found else "–"


def _ratio(data: Data, path: tuple[int, int, str], algorithm: str) -> float:
    ratios = []
    for seed in data.seeds:
        linux = median_epoch(data.run(seed, **factors_of(path, f"linux-{algorithm}")))
        freebsd = median_epoch(data.run(seed, **factors_of(path, f"freebsd-{algorithm}")))
        if not np.isnan(linux) and not np.isnan(freebsd):
            ratios.append(linux / freebsd)
    return float(np.median(ratios)) if ratios else NAN


def epochs(data: Data) -> TableOut:
    """Epoch durations with the ratios of Linux to FreeBSD."""
    rows = []
    for path in PATHS:
        cells = [data.runs(**factors_of(path, sender.key)) for sender in SENDERS]
        if not any(cells):
            continue
        durations = []
        for summaries in cells:
            text = _over_seeds(summaries, median_epoch)
            if text == "–" and summaries:
                longest = max(float(s["unfinished_s"]) for s in summaries)
                text = f"> {longest:.0f}"
            durations.append(text)
        ratios = [_ratio(data, path, algorithm) for algorithm in ("reno", "htcp")]
        rows.append([path_title(*path), *durations, *("–" if np.isnan(r) else f"{r:.2f}" for r in ratios)])
    return TableOut(
        "epochs",
        "Duration of congestion epochs (s)",
        "Median over the steady epochs of a run, then over seeds; “>”: no epoch was completed. The paper gives 1.85 "
        "(NewReno) and 1.14 (H-TCP) for Linux over FreeBSD.",
        ["path", *(sender.title for sender in SENDERS), "NewReno Linux/FreeBSD", "H-TCP Linux/FreeBSD"],
        rows,
    )


_COLUMNS: dict[str, tuple[Callable[[Summary], Any], int]] = {
    "goodput (Mbit/s)": (lambda s: s["goodput_bps"] / 1e6, 3),
    "utilisation (%)": (lambda s: 100 * s["utilisation"], 1),
    "median delay (ms)": (median_delay, 2),
    "95 % delay (ms)": (lambda s: s["delay_ms"][190] if s["delay_ms"] else None, 2),
    "queue > ¾ (%)": (lambda s: 100 * s["above_three_quarters"], 1),
    "epoch (s)": (median_epoch, 2),
    "TCP loss (‰)": (lambda s: 1000 * s["loss_rate"], 3),
    "call loss (%)": (lambda s: 100 * s["call_loss"], 2),
    "timeouts": (lambda s: s["timeouts"], 0),
}


def whole_grid(data: Data) -> TableOut:
    """Every cell of the grid."""
    rows = [
        [
            path_title(*path),
            sender.title,
            *(_over_seeds(summaries, value, digits) for value, digits in _COLUMNS.values()),
        ]
        for path in PATHS
        for sender in SENDERS
        if (summaries := data.runs(**factors_of(path, sender.key)))
    ]
    return TableOut(
        "grid",
        "The whole grid",
        "Medians over seeds. Delays are induced by queueing, over three typical epochs; “queue > "
        "¾” is the share of call "
        "packets that met such a queue there.",
        ["path", "sender", *_COLUMNS],
        rows,
    )


def ablations(data: Data) -> TableOut:
    """One assumption changed at a time, next to the cell it departs from."""
    rows = []
    for cell in data.cells.values():
        changed = data.runs(**cell.factors)
        if cell.role != ABLATION or not changed:
            continue
        base = data.runs(**{name: cell.factors[name] for name in ("rate", "rtt", "queue", "sender")})
        slow = _over_seeds(
            changed, lambda s: 100 * float(np.mean(np.asarray(s["slowdowns"]) >= 1)) if s["slowdowns"] else None, 0
        )
        rows.append(
            [
                cell.label,
                _over_seeds(changed, median_epoch),
                _over_seeds(base, median_epoch),
                _over_seeds(changed, median_delay),
                _over_seeds(base, median_delay),
                slow,
                _over_seeds(changed, lambda s: s["goodput_bps"] / 1e6, 3),
            ]
        )
    return TableOut(
        "ablations",
        "What it would take: one assumption changed at a time",
        "“Relapses”: share of epochs in which growth falls from above 4 to below 2 segments per "
        "round trip without a loss.",
        [
            "run",
            "epoch (s)",
            "epoch before (s)",
            "median delay (ms)",
            "delay before (ms)",
            "relapses (%)",
            "goodput (Mbit/s)",
        ],
        rows,
    )


def all_tables(data: Data) -> list[TableOut]:
    """All of them; those without rows left out."""
    return [table for table in (epochs(data), ablations(data), whole_grid(data)) if table.rows]
