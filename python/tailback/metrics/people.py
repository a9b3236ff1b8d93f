"""User experience of a player, a viewer and a reader: late updates, stalls and bitrate changes, slow pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import _core, registry
from tailback.result import schema

from .registry import measure, metric
from .rows import ANSWERED, LOST, RECEIVED, Floats, NothingToMeasure, Rows, between, floats


@measure
def late_share(
    result: Any, flow: int | str, bound_s: float = 0.1, start_s: float | None = None, end_s: float | None = None
) -> float:
    """`bound_s` is D, in seconds."""
    packets = Rows.of(result).of_flow("packets", flow)
    sent, fate = floats(packets["sent_s"]), np.asarray(packets["fate"])
    known = ((fate == RECEIVED) | (fate == LOST)) & between(sent, start_s, end_s)
    delay = np.where(fate == LOST, np.nan, floats(packets["received_s"]) - sent)
    return _core.late_share(delay[known], bound_s)


@dataclass(frozen=True)
class Film:
    """What a viewer sees of a film."""

    #: Seconds from the first request until playback starts; NaN if it never starts.
    startup_s: float
    #: Seconds of stalls after the start.
    stalled_s: float
    #: Number of stalls.
    stalls: int
    #: Number of bitrate changes.
    switches: int
    #: Mean bitrate of the segments that arrived, bit/s.
    bitrate_bps: float


@measure
def film(result: Any, flow: int | str) -> Film:
    """`flow` is a flow of application `video`."""
    rows = Rows.of(result)
    requests = rows.of_flow("requests", flow)
    if not rows.has_start(flow):
        raise NothingToMeasure("the film's first request was not recorded: instruments.from comes after it")
    answered = np.asarray(requests["fate"]) == ANSWERED
    asked, took = floats(requests["t_s"])[answered], floats(requests["response_time_s"])[answered]
    sizes = floats(requests["bytes"])[answered]
    spec = rows.flow_spec(flow)
    segment, start_after = (_parameter(spec, name) for name in ("segment", "start_after"))
    stop = spec.get("stop_ps")
    end = rows.duration_s if stop is None else min(stop / 1e12, rows.duration_s)
    return Film(*_core.film(asked, asked + took, sizes, segment, start_after, end))


@metric(title="Bitrate of a film over time", unit="s, bit/s", source="requests table")
def film_series(result: Any, flow: int | str) -> tuple[Floats, Floats]:
    """When each segment of a film had arrived, and its bitrate: 8·bytes of the response over the segment's length."""
    rows = Rows.of(result)
    requests = rows.of_flow("requests", flow)
    answered = np.asarray(requests["fate"]) == ANSWERED
    there = (floats(requests["t_s"]) + floats(requests["response_time_s"]))[answered]
    return there, 8.0 * floats(requests["bytes"])[answered] / _parameter(rows.flow_spec(flow), "segment")


@dataclass(frozen=True)
class PageLoad:
    """One load of a page."""

    #: Start time, s.
    begins_s: float
    #: Time until all its objects had arrived, s; NaN if they never did.
    load_time_s: float
    #: ∫(1 − share of the bytes of arrived objects) dt, s; NaN likewise.
    speed_index_s: float


@measure
def page_loads(
    result: Any, flow: int | str, start_s: float | None = None, end_s: float | None = None
) -> list[PageLoad]:
    """`flow` is a flow of application `page`; its loads are in order."""
    requests = Rows.of(result).of_flow("requests", flow)
    kinds = np.asarray(requests["kind"])
    asked, took, sizes = (floats(requests[name]) for name in ("t_s", "response_time_s", "bytes"))
    page, single = (kinds == schema.code("requests", "kind", kind) for kind in ("page", "object"))
    page &= between(asked, start_s, end_s)
    found = _core.page_loads(asked[page], took[page], asked[single], (asked + took)[single], sizes[single])
    return [PageLoad(float(began), *seen) for began, seen in zip(asked[page], found, strict=True)]


def _parameter(spec: Any, name: str) -> float:
    given = spec["app"]["params"].get(name)
    if given is None:
        param = registry.application(spec).param(name)
        assert param is not None, f"{spec['app']['kind']} has no {name}"
        given = param.default
    return float(given)
