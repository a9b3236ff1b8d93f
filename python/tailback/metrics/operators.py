"""Network operators' metrics: RPM, bufferbloat grades, loaded latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailback import _core
from tailback.result import schema

from .answers import echo_rtts, response_times
from .registry import measure
from .rows import ANSWERED, Floats, Rows, between, floats


@measure
def responsiveness(
    result: Any,
    probes: int | str,
    loaded: Sequence[int | str],
    start_s: float | None = None,
    end_s: float | None = None,
) -> float:
    """`probes` is a flow of application `rpm-probe`; `loaded` are the flows of the load."""
    rows = Rows.of(result)
    tcp_f, tls_f, http_f = (probe_times(rows, probes, kind, start_s, end_s) for kind in ("handshake", "tls", "probe"))
    return _core.measure("responsiveness", [tcp_f, tls_f, http_f, loaded_rtts(rows, loaded, start_s, end_s)])


def probe_times(
    result: Any, probes: int | str, kind: str, start_s: float | None = None, end_s: float | None = None
) -> Floats:
    """Seconds of a probe flow's answered exchanges of this kind that began in a window."""
    requests = Rows.of(result).of_flow("requests", probes)
    asked, took = floats(requests["t_s"]), floats(requests["response_time_s"])
    answered = (np.asarray(requests["fate"]) == ANSWERED) & between(asked, start_s, end_s)
    mine = answered & (np.asarray(requests["kind"]) == schema.code("requests", "kind", kind))
    return np.asarray(took[mine], dtype=np.float64)


def loaded_rtts(
    result: Any, flows: Sequence[int | str], start_s: float | None = None, end_s: float | None = None
) -> Floats:
    """Polled RTT samples of these flows, in seconds, while their data were being acknowledged."""
    rows, found = Rows.of(result), []
    for flow in flows:
        polls = rows.of_flow("polls", flow)
        rtt, at = floats(polls["rtt_s"]), floats(polls["t_s"])
        found.append(rtt[np.isfinite(rtt) & between(at, start_s, end_s)])
    return np.concatenate(found) if found else np.zeros(0)


def round_trips(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> Floats:
    """Round trips in seconds, of a flow of echoes or of requests and responses, that began in a window."""
    rows = Rows.of(result)
    if rows.flow_spec(flow).get("tcp") is None:
        return echo_rtts(rows, flow, start_s, end_s)[1]
    return response_times(rows, flow, start_s, end_s)[1]


@measure
def loaded_latency(result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None) -> float:
    """`flow` is a flow of echoes, or of requests and responses."""
    return _core.measure("loaded_latency", [round_trips(result, flow, start_s, end_s)])


@measure
def bufferbloat_grade(idle_s: float, download_s: float, upload_s: float) -> str | None:
    """Mean round trips in seconds; None if one is unknown."""
    return _core.bufferbloat_grade(idle_s, download_s, upload_s)


@measure
def libreqos_grade(idle_s: float, download_s: float, upload_s: float, both_s: float) -> str | None:
    """Round trips in seconds: the 25 % quantile while idle, and means under load; None if one is unknown."""
    return _core.libreqos_grade(idle_s, download_s, upload_s, both_s)
