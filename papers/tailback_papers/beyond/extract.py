"""What is kept of a run: what the transfers got, and how the call and the pages went."""

from __future__ import annotations

import numpy as np

from tailback import metrics
from tailback.experiment import Cell, Summary
from tailback.metrics import Rows
from tailback.result import Result

from .grid import BULK, CALL, PAGE, WARM_UP_S

QUANTILE = 0.95


def page_s(rows: Rows) -> float:
    """Time to fetch the probe's eight objects one after another: the sum over sizes of the mean response time.

    An object still on its way at the end took at least the time since it was asked for, and counts with that.
    Infinite if some size was never asked for: the reader did not get that far.
    """
    requests = rows.of_flow("requests", PAGE)
    asked = np.asarray(requests["t_s"], dtype=np.float64)
    took = np.asarray(requests["response_time_s"], dtype=np.float64)
    took = np.where(np.isnan(took), rows.duration_s - asked, took)
    size = np.asarray(requests["bytes"])[asked >= WARM_UP_S]
    took = took[asked >= WARM_UP_S]
    wanted = np.unique(np.asarray(requests["bytes"]))
    if len(wanted) < 8 or not set(wanted) <= set(size):
        return float("inf")
    return float(sum(np.mean(took[size == each]) for each in wanted))


def summarise(cell: Cell, result: Result) -> Summary:
    """Plain numbers of one run, from `WARM_UP_S` on."""
    rows = Rows.of(result)
    heard = metrics.voice_quality(rows, CALL, WARM_UP_S)
    loaded = cell.factors["algorithm"] is not None
    rates = [1e-6 * metrics.goodput(rows, flow, WARM_UP_S) for flow in BULK] if loaded else []
    size, _ = metrics.response_times(rows, PAGE, WARM_UP_S)
    reader = 8e-6 * float(np.sum(size)) / (rows.duration_s - WARM_UP_S)
    return {
        "key": cell.key,
        "mbps": float(sum(rates)) + reader,
        "reader_mbps": reader,
        "jain": metrics.jain(rates) if loaded else None,
        "rating": heard.rating,
        "mos": heard.mos,
        "call_loss": heard.loss,
        "call_delay_s": heard.delay_s,
        "call_delay_p95_s": float(metrics.delay_quantiles(rows, CALL, (QUANTILE,), WARM_UP_S, induced=False)[0]),
        "page_s": page_s(rows),
        "unanswered": metrics.unanswered(rows, PAGE, WARM_UP_S),
    }
