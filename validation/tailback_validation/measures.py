"""The measures of the comparison, defined as in the measurements' README."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tailback.result import EVENTS, PHASES

__all__ = ["MSS", "Measures", "entries", "induced_ms", "measure"]

Floats = npt.NDArray[np.float64]

MSS = 1448
"""Payload of a 1500-byte packet with timestamps."""

_REDUCING = tuple(PHASES.index(name) for name in ("cwr", "recovery", "loss"))
_DROP = EVENTS.index("drop")
_LOOK_BACK_S = 0.06
"""`cwnd_before` is the largest window in this time before the entry."""


@dataclass(frozen=True)
class Measures:
    """One run in numbers; names and units are those of truth/linux-6.1.csv."""

    goodput_mbps: float
    voice_median_ms: float
    voice_p90_ms: float
    voice_p99_ms: float
    voice_max_ms: float
    epoch_s: float
    epoch_sd_s: float
    reductions: float
    timeouts: float
    cwnd_before: float
    ssthresh_after: float
    cwnd_mean: float
    cwnd_min: float
    cwnd_max: float
    slow_start_peak: float
    srtt_mean_ms: float
    retransmitted_total: float
    retransmitted: float
    dropped: float
    queue_mean: float
    queue_empty: float


def induced_ms(result: Any, call: str, from_s: float, until_s: float) -> Floats:
    """One-way delay of the call's packets sent in that time, minus the smallest of the run; NaN for lost packets."""
    packets = result.where_flow("packets", call)
    sent = packets["sent_s"]
    delay = (packets["received_s"] - sent) * 1e3
    window = (sent >= from_s) & (sent < until_s)
    return np.asarray(delay[window] - np.nanmin(delay), dtype=np.float64)


def entries(polls: dict[str, Any]) -> npt.NDArray[np.int64]:
    """Poll rows at which the sender enters a reduction."""
    reducing = np.isin(polls["phase"], _REDUCING)
    return np.flatnonzero(reducing[1:] & ~reducing[:-1]) + 1


def measure(
    result: Any, from_s: float, until_s: float, limit_bytes: int, *, bulk: str = "bulk", call: str = "voip"
) -> Measures:
    """The measures of a run between two instants; its polls must be 20 ms apart, as the kernel's were."""
    polls = result.where_flow("polls", bulk)
    t, cwnd = polls["t_s"], polls["cwnd"] / MSS
    window = (t > from_s) & (t <= until_s)
    first, last = (int(np.searchsorted(t, at, side="right")) - 1 for at in (from_s, until_s))
    goodput = 8e-6 * float(polls["bytes_received"][last] - polls["bytes_received"][first]) / float(t[last] - t[first])

    found = entries(polls)
    found = found[t[found] >= from_s]
    # Epochs end with the transfer; counters are taken at the window's end.
    lengths = np.diff(t[found])
    found = found[t[found] < until_s]
    before = [float(cwnd[(t >= t[i] - _LOOK_BACK_S) & (t <= t[i])].max()) for i in found]
    after = [float(polls["ssthresh"][i]) / MSS for i in found]

    voice = induced_ms(result, call, from_s, until_s)
    heard = voice[~np.isnan(voice)]
    queue = result.where_link("queue_polls", "bottleneck")
    backlog = queue["backlog_bytes"][(queue["t_s"] > from_s) & (queue["t_s"] <= until_s)]
    drops = result.where_link("queue", "bottleneck")
    own = (drops["event"] == _DROP) & (drops["flow"] == result.flow_index(bulk))
    dropped = own & (drops["t_s"] > from_s) & (drops["t_s"] <= until_s)
    totals = result.where_flow("flows", bulk)
    sent_again = polls["segments_retransmitted"]
    return Measures(
        goodput_mbps=goodput,
        voice_median_ms=float(np.median(heard)),
        voice_p90_ms=float(np.percentile(heard, 90)),
        voice_p99_ms=float(np.percentile(heard, 99)),
        voice_max_ms=float(heard.max()),
        epoch_s=float(lengths.mean()) if len(lengths) else math.nan,
        epoch_sd_s=float(lengths.std()) if len(lengths) else math.nan,
        reductions=float(len(found)),
        timeouts=float(totals["timeouts"][0]),
        cwnd_before=float(np.mean(before)) if before else math.nan,
        ssthresh_after=float(np.mean(after)) if after else math.nan,
        cwnd_mean=float(cwnd[window].mean()),
        cwnd_min=float(cwnd[window].min()),
        cwnd_max=float(cwnd[window].max()),
        # Slow start ends within the first seconds on this path.
        slow_start_peak=float(cwnd[t < 3.0].max()),
        srtt_mean_ms=1e3 * float(polls["srtt_s"][window].mean()),
        retransmitted_total=float(sent_again[last]),
        retransmitted=float(sent_again[last] - sent_again[first]),
        dropped=float(np.count_nonzero(dropped)),
        queue_mean=float(backlog.mean()) / limit_bytes,
        queue_empty=float(np.mean(backlog == 0)),
    )
