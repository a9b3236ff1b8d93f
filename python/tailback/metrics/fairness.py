"""Fairness between flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailback import _core

from .rates import throughput_series
from .registry import measure, metric
from .rows import Floats, Rows


@measure
def jain(shares: Sequence[float]) -> float:
    """`shares` are in any one unit."""
    try:
        values = np.asarray(shares, dtype=np.float64)
    except (TypeError, ValueError):
        fix = "for example [metrics.goodput(result, flow) for flow in result.tcp_flows]"
        raise TypeError(f"jain takes numbers, not {type(shares).__name__}: {fix}") from None
    return _core.measure("jain", [values])


@metric(title="Share against a competitor", unit="1", source="Murray and Ong, friendliness")
def friendliness(rate: float, competitor: float) -> float:
    """X / (x + y); one half is an even split."""
    return rate / (rate + competitor) if rate + competitor > 0.0 else float("nan")


@metric(title="Jain's fairness index over time", unit="s, 1", source="Jain, Chiu and Hawe, DEC-TR-301 (1984)")
def jain_series(result: Any, flows: Sequence[int | str], bin_s: float = 1.0) -> tuple[Floats, Floats]:
    """Jain's index of the flows' throughputs in each bin of `bin_s`: the bins' starts and the index.

    NaN in bins in which no flow delivered anything.
    """
    rows = Rows.of(result)
    series = [throughput_series(rows, flow, bin_s) for flow in flows]
    if not series:
        raise ValueError("fairness among no flows is undefined: name at least one")
    rates = np.stack([rate for _, rate in series])
    return series[0][0], np.array([jain(rates[:, bin].tolist()) for bin in range(rates.shape[1])])


@metric(
    title="δ-fair convergence time", unit="s", source="Bansal, Balakrishnan, Floyd and Shenker, SIGCOMM 2001; RFC 5166"
)
def convergence_time(
    result: Any,
    flows: Sequence[int | str],
    *,
    delta: float = 0.2,
    bin_s: float = 1.0,
    smooth_bins: int = 5,
) -> float:
    """From the last flow's start until every flow has at least (1 − δ) of an equal share; NaN if that never happens.

    Throughput is averaged over the last `smooth_bins` bins of `bin_s`, so that the swing of one epoch is not taken as
    convergence. The time is the end of the first such span after the last start.
    """
    rows = Rows.of(result)
    table = rows.table("flows")
    began = max(float(table["started_s"][rows.flow(flow)]) for flow in flows)
    series = [throughput_series(rows, flow, bin_s) for flow in flows]
    if len(series[0][0]) < smooth_bins:
        return float("nan")
    rates = np.stack([np.convolve(rate, np.ones(smooth_bins) / smooth_bins, "valid") for _, rate in series])
    starts = series[0][0][: rates.shape[1]]
    fair = rates.sum(axis=0) / len(flows)
    even = (fair > 0.0) & (rates >= (1.0 - delta) * fair).all(axis=0) & (starts >= began)
    reached = np.flatnonzero(even)
    return float(starts[reached[0]] + smooth_bins * bin_s - began) if len(reached) else float("nan")
