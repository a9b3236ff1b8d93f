"""Metrics: pure functions of rows, each with its definition, unit and source.

>>> from tailback import metrics
>>> round(metrics.jain([1, 2, 3]), 4)
0.8571
>>> metrics.get("jain").unit
'1 (1/n … 1)'
"""

from __future__ import annotations

from tailback.result.described import holds_queue

from .answers import echo_rtts, karn_rtts, response_time_quantiles, response_times, unanswered
from .delay import (
    base_delay,
    delay_quantiles,
    induced_delay,
    jitter,
    last_jitter,
    one_way_delay,
    smoothed_jitter,
)
from .distribution import (
    cdf,
    decimate,
    distribution_distance,
    interquartile_range,
    quantiles_of,
    share_above,
    truncated_mean,
)
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
from .fairness import convergence_time, friendliness, jain, jain_series
from .operators import (
    bufferbloat_grade,
    libreqos_grade,
    loaded_latency,
    loaded_rtts,
    probe_times,
    responsiveness,
    round_trips,
)
from .pairs import pair_up, synthetic_packet_pairs
from .people import Film, PageLoad, film, late_share, page_loads
from .queue import (
    backlog_series,
    delay_against_backlog,
    delay_slope,
    occupancy_distribution,
    queue_delay_quantiles,
    time_above,
)
from .rates import (
    completion_time,
    drop_share_at_link,
    drop_times,
    flow_loss_rate,
    goodput,
    retransmitted,
    tcpstat_series,
    throughput_series,
    utilisation,
)
from .registry import MetricInfo, UnknownMetric, catalogue, get, markdown, measure, metric, names
from .rows import MissingRows, NothingToMeasure, Rows
from .voice import (
    NOT_RATED,
    VoiceQuality,
    burst_ratio,
    delay_impairment,
    loss_impairment,
    mean_opinion_score,
    voice_quality,
)
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
    "NOT_RATED",
    "Epochs",
    "Events",
    "Film",
    "MetricInfo",
    "MissingRows",
    "NothingToMeasure",
    "PageLoad",
    "Rows",
    "UnknownMetric",
    "VoiceQuality",
    "Window",
    "backlog_series",
    "backoff_factors",
    "base_delay",
    "bufferbloat_grade",
    "burst_ratio",
    "catalogue",
    "cdf",
    "completion_time",
    "congestion_events",
    "convergence_time",
    "cwnd_series",
    "decimate",
    "delay_against_backlog",
    "delay_impairment",
    "delay_quantiles",
    "delay_slope",
    "distribution_distance",
    "dominant_period",
    "drop_share_at_link",
    "drop_times",
    "echo_rtts",
    "epoch_minimum_backlog",
    "epoch_statistics",
    "epochs",
    "epochs_of",
    "film",
    "flow_loss_rate",
    "friendliness",
    "get",
    "goodput",
    "growth_per_rtt",
    "holds_queue",
    "induced_delay",
    "interquartile_range",
    "jain",
    "jain_series",
    "jitter",
    "karn_rtts",
    "last_jitter",
    "late_share",
    "libreqos_grade",
    "loaded_latency",
    "loaded_rtt_s",
    "loaded_rtts",
    "loss_impairment",
    "markdown",
    "mean_opinion_score",
    "measure",
    "metric",
    "names",
    "occupancy_distribution",
    "one_way_delay",
    "page_loads",
    "pair_up",
    "probe_times",
    "quantiles_of",
    "queue_delay_quantiles",
    "reaction_times",
    "response_time_quantiles",
    "response_times",
    "responsiveness",
    "retransmitted",
    "round_trips",
    "share_above",
    "siftr_series",
    "slowdowns_per_epoch",
    "smoothed_jitter",
    "synthetic_packet_pairs",
    "tcpstat_series",
    "throughput_series",
    "time_above",
    "truncated_mean",
    "typical_epochs",
    "typical_window",
    "unanswered",
    "utilisation",
    "voice_quality",
    "web100_series",
    "window_queue_correlation",
]
