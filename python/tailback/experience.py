"""User experience on the link: one row per call, reader, waiting file and ping of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import metrics, registry
from tailback.metrics import Rows
from tailback.metrics.rows import LOST, RECEIVED, Floats

__all__ = ["KEYS", "NOTICED", "Noticed", "experience", "films", "games", "loading", "noticed", "page_loads", "recorded"]


@dataclass(frozen=True)
class Noticed:
    """The least difference of a number that people notice, in its unit, and whether more is better."""

    step: float
    is_better_higher: bool


#: By a metric's column. 30 ms of delay: DSLReports' grade A. Half a second before a film: viewers leave from two on,
#: 6 % more with each second (Krishnan and Sitaraman, IMC 2012). A tenth for a page: what seems at once (Nielsen 1993).
NOTICED = {
    "experience_mos": Noticed(0.1, True),
    "delay_p95_ms": Noticed(30.0, False),
    "late_100": Noticed(0.01, False),
    "startup_s": Noticed(0.5, False),
    "bitrate_mbps": Noticed(0.25, True),
    "load_time_s": Noticed(0.1, False),
}


def noticed(metric: str) -> Noticed | None:
    """The step of `FLOW.COLUMN`; None if people have none for it.

    >>> noticed("call.experience_mos")
    Noticed(step=0.1, is_better_higher=True)
    """
    return NOTICED.get(metric.rpartition(".")[2])


#: A full packet: from it on a backlog is a queue, and two backlogs differ.
PACKET_BYTES = 1500.0


def is_slight(one: float, other: float, least: float = 0.0) -> bool:
    """Whether two numbers differ by less than 1 % of the larger one or than `least`, whatever their interval.

    >>> is_slight(1.507, 1.508), is_slight(8.2, 7.8), is_slight(0.05, 0.06, PACKET_BYTES)
    (True, False, True)
    """
    return not abs(other - one) > max(0.01 * max(abs(one), abs(other)), least)


#: Columns of `experience`; a missing value is None.
KEYS = ("flow", "measure", "count", "median_ms", "p95_ms", "lost", "jitter_ms", "mos")


def experience(result: Any) -> list[dict[str, Any]]:
    """One row per flow with recorded packets, requests or echoes, in the scenario's order.

    `measure` names the quantity of `median_ms` and `p95_ms`: one-way delay of packets, response time of requests, or
    round trip of pings. `lost` is the share of lost packets, unanswered requests or unanswered pings. `jitter_ms` is
    RFC 3550's jitter, averaged over the packets; `mos` is the E-model's mean opinion score of a call.
    """
    rows = Rows.of(result)
    measure_of = {"requests": _requests, "echoes": _echoes, "packets": _packets}
    return [measure_of[table](rows, flow) for flow, table in recorded(rows.scenario).items() if rows.has(table)]


def recorded(scenario: Mapping[str, Any]) -> dict[str, str]:
    """The flows of a resolved scenario with a row in `experience`, each with the table it is computed from."""
    instruments, out = scenario["instruments"], {}
    for spec in scenario["flows"]:
        for table in ("requests", "echoes", "packets"):
            if spec["name"] in instruments.get(table, ()) and (table != "packets" or spec.get("tcp") is None):
                out[str(spec["name"])] = table
                break
    return out


def page_loads(result: Any) -> list[dict[str, Any]]:
    """One row per flow of application `page` with recorded requests: completed loads and their times."""
    rows = Rows.of(result)
    return [
        {"flow": flow, **loading(rows, flow)}
        for flow, table in recorded(rows.scenario).items()
        if table == "requests" and registry.application(rows.flow_spec(flow)).loads_pages and rows.has(table)
    ]


def loading(result: Any, flow: str, start_s: float | None = None, end_s: float | None = None) -> dict[str, float]:
    """Number of a page's completed loads that began in a window, and quantiles of their times."""
    seen = metrics.page_loads(result, flow, start_s, end_s)
    whole = [load for load in seen if np.isfinite(load.load_time_s)]
    middle, high = metrics.quantiles_of([load.load_time_s for load in whole], (0.5, 0.95))
    index = metrics.quantiles_of([load.speed_index_s for load in whole], (0.5,))[0]
    values = {"load_time_s": middle, "load_time_p95_s": high, "speed_index_s": index}
    return {"loads": len(whole), **{name: float(value) for name, value in values.items()}}


def films(result: Any) -> list[dict[str, Any]]:
    """One row per flow of application `video` with recorded requests: startup, stalls, switches and bitrate."""
    rows, out = Rows.of(result), []
    for flow, table in recorded(rows.scenario).items():
        if not rows.has_start(flow):
            continue
        if table == "requests" and registry.application(rows.flow_spec(flow)).plays_film and rows.has(table):
            seen = metrics.film(rows, flow)
            out.append(
                {
                    "flow": flow,
                    "startup_s": seen.startup_s,
                    "stalled_s": seen.stalled_s,
                    "stalls": seen.stalls,
                    "switches": seen.switches,
                    "bitrate_mbps": seen.bitrate_bps / 1e6,
                }
            )
    return out


def games(result: Any) -> list[dict[str, Any]]:
    """One row per game flow with recorded packets: shares of updates later than 50 and 100 ms."""
    rows = Rows.of(result)
    played = [
        flow
        for flow, table in recorded(rows.scenario).items()
        if table == "packets" and registry.application(rows.flow_spec(flow)).datagrams == "updates" and rows.has(table)
    ]
    return [
        {
            "flow": flow,
            "updates": len(rows.of_flow("packets", flow)["sent_s"]),
            "late_50": metrics.late_share(rows, flow, 0.050),
            "late_100": metrics.late_share(rows, flow, 0.100),
        }
        for flow in played
    ]


def _row(
    flow: str, measure: str, count: int, times_s: Floats, lost: float | None, **more: float | None
) -> dict[str, Any]:
    middle, high = 1e3 * metrics.quantiles_of(times_s, (0.5, 0.95)) if len(times_s) else (None, None)
    given = {
        "flow": flow, "measure": measure, "count": count, "median_ms": middle, "p95_ms": high, "lost": lost,
    }  # fmt: skip
    return {
        key: float(value) if isinstance(value, np.floating) else value
        for key, value in (dict.fromkeys(KEYS) | given | more).items()
    }


def _packets(rows: Rows, flow: str) -> dict[str, Any]:
    is_call = registry.application(rows.flow_spec(flow)).datagrams == "voice"
    fate = np.asarray(rows.of_flow("packets", flow)["fate"])
    _, delay = metrics.one_way_delay(rows, flow)
    known = int(np.sum((fate == RECEIVED) | (fate == LOST)))
    lost = metrics.flow_loss_rate(rows, flow) if known else None
    heard = metrics.voice_quality(rows, flow) if is_call and known else None
    jitter = 1e3 * (heard.jitter_s if heard else metrics.jitter(rows, flow)) if len(delay) else None
    return _row(flow, "delay", len(fate), delay, lost, jitter_ms=jitter, mos=heard.mos if heard else None)


def _requests(rows: Rows, flow: str) -> dict[str, Any]:
    _, times = metrics.response_times(rows, flow)
    count = len(rows.of_flow("requests", flow)["t_s"])
    return _row(flow, "response time", count, times, metrics.unanswered(rows, flow) if count else None)


def _echoes(rows: Rows, flow: str) -> dict[str, Any]:
    _, times = metrics.echo_rtts(rows, flow)
    count = len(rows.of_flow("echoes", flow)["t_s"])
    return _row(flow, "round trip", count, times, 1.0 - len(times) / count if count else None)
