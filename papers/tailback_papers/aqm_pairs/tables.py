"""Tables of the report."""

from __future__ import annotations

import numpy as np

from tailback.experiment import Cell, Data, Summary, TableOut

from .claims import mean_jain
from .grid import ABLATIONS, FLOWS, TITLES

_ONE = {
    "received (Mbit/s)": ("wire_mbps", 2), "received (Kibit/s, eq. 5)": ("received_kibps", 0),
    "goodput (Mbit/s)": ("goodput_mbps", 2), "queue mean (ms)": ("queue_ms_mean", 1),
    "queue p95 (ms)": ("queue_ms_p95", 1), "loss rate": ("loss", 5), "timeouts": ("timeouts", 0),
}  # fmt: skip
_PAIR = ["algorithm", "queue", "delay (ms)"]


def _label(cell: Cell, queue: str | None = None) -> list[str]:
    factors = cell.factors
    return [TITLES[factors["algorithm"]], queue or TITLES[factors["queue"]], str(factors["delay_ms"])]


def _one(found: list[Summary], label: list[str]) -> list[str]:
    middle = {name: np.median([float(one[name]) for one in found]) for name, _ in _ONE.values()}
    return [*label, *(f"{middle[name]:.{digits}f}" for name, digits in _ONE.values())]


def _fairness(found: list[Summary], label: list[str]) -> list[str]:
    each = [
        ([mean_jain(one) for one in found], 3),
        ([float(np.nanmin(one["jain_per_second"][10:])) for one in found], 3),
        ([float(np.nanstd(one["jain_per_second"][10:])) for one in found], 3),
        ([float(one["jain_so_far"][-1]) for one in found], 3),
        ([float(one["wire_mbps"]) for one in found], 1),
        ([float(one["queue_ms_mean"]) for one in found], 1),
    ]
    return [*label, *(f"{np.median(values):.{digits}f}" for values, digits in each)]


def all_tables(data: Data) -> list[TableOut]:
    """Throughput, fairness, and the other readings."""
    single = [_one(found, _label(cell)) for cell, found in data.each(flows=None, ablation=None)]
    fair = [
        _fairness(found, _label(cell, queue and queue.format(TITLES[cell.factors["queue"]])))
        for reading, queue in ((None, None), ("codel-alone", "CoDel, no device below"),
                               ("ns3-example", "{}, ns-3's example"))
        for cell, found in data.each(flows=FLOWS, ablation=reading)
    ]  # fmt: skip
    other = [
        _one(found, [title, *_label(cell)])
        for name, (title, _) in ABLATIONS.items()
        for cell, found in data.each(flows=None, ablation=name)
    ]
    tables = [
        TableOut(
            "throughput",
            "One flow, 20 Mbit/s",
            "Median over seeds. The paper divides bits by 1024; both units are given. Queue from 50 s on.",
            [*_PAIR, *_ONE],
            single,
        ),
        TableOut(
            "fairness",
            "Ten flows, 100 Mbit/s",
            "Jain's index of one-second rates from 5 s on; lowest and deviation (σ) after 10 s; and of the whole run.",
            [*_PAIR, "index, mean", "lowest", "σ", "whole run", "received (Mbit/s)", "queue mean (ms)"],
            fair,
        ),
    ]
    if other:
        caption = "As the first table, one assumption changed."
        title = "Other readings of what the paper leaves open"
        tables.append(TableOut("other-readings", title, caption, ["change", *_PAIR, *_ONE], other))
    return tables
