"""Metrics: pure functions of rows, each with its definition, unit and source.

>>> from tailback import metrics
>>> round(metrics.jain([1, 2, 3]), 4)
0.8571
>>> metrics.get("jain").unit
'1 (1/n … 1)'
"""

from __future__ import annotations

from .delay import base_delay, delay_quantiles, induced_delay, jitter, one_way_delay, smoothed_jitter
from .distribution import cdf, decimate, distribution_distance, share_above
from .epochs import (
    MERGE_RTTS,
    Epochs,
    Events,
    Window,
    backoff_factors,
    congestion_events,
    epoch_minimum_backlog,
    epoch_statistics,
    epochs,
    epochs_of,
    loaded_rtt_s,
    reaction_times,
    typical_epochs,
    typical_window,
)
from .fairness import friendliness, jain
from .pairs import pair_up, synthetic_packet_pairs
from .queue import backlog_series, delay_against_backlog, delay_slope, occupancy_distribution, time_above
from .rates import drop_times, flow_loss_rate, goodput, loss_rate, throughput_series, utilisation
from .registry import MetricInfo, UnknownMetric, catalogue, get, markdown, metric, names
from .rows import MissingRows, Rows
from .windows import (
    cwnd_series,
    dominant_period,
    growth_per_rtt,
    siftr_series,
    slowdowns_per_epoch,
    web100_series,
    window_queue_correlation,
)

__all__ = [
    "MERGE_RTTS",
    "Epochs",
    "Events",
    "MetricInfo",
    "MissingRows",
    "Rows",
    "UnknownMetric",
    "Window",
    "backlog_series",
    "backoff_factors",
    "base_delay",
    "catalogue",
    "cdf",
    "congestion_events",
    "cwnd_series",
    "decimate",
    "delay_against_backlog",
    "delay_quantiles",
    "delay_slope",
    "distribution_distance",
    "dominant_period",
    "drop_times",
    "epoch_minimum_backlog",
    "epoch_statistics",
    "epochs",
    "epochs_of",
    "flow_loss_rate",
    "friendliness",
    "get",
    "goodput",
    "growth_per_rtt",
    "induced_delay",
    "jain",
    "jitter",
    "loaded_rtt_s",
    "loss_rate",
    "markdown",
    "metric",
    "names",
    "occupancy_distribution",
    "one_way_delay",
    "pair_up",
    "reaction_times",
    "share_above",
    "siftr_series",
    "slowdowns_per_epoch",
    "smoothed_jitter",
    "synthetic_packet_pairs",
    "throughput_series",
    "time_above",
    "typical_epochs",
    "typical_window",
    "utilisation",
    "web100_series",
    "window_queue_correlation",
]
