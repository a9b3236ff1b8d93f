"""What a player and a viewer notice: late updates of a game, and a film that begins late, stands still or changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import _core, registry

from .registry import measure
from .rows import ANSWERED, LOST, RECEIVED, Rows, between, floats


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
    """A film, as seen."""

    #: From the first request until the picture moves, seconds; NaN if it never did.
    startup_s: float
    #: Time it stood still after that, seconds.
    stalled_s: float
    #: How often it stood still.
    stalls: int
    #: Changes of the bitrate.
    switches: int
    #: Mean bitrate of the segments that arrived, bit/s.
    bitrate_bps: float


@measure
def film(result: Any, flow: int | str) -> Film:
    """`flow` is one of application `video`."""
    rows = Rows.of(result)
    requests = rows.of_flow("requests", flow)
    answered = np.asarray(requests["fate"]) == ANSWERED
    asked, took = floats(requests["t_s"])[answered], floats(requests["response_time_s"])[answered]
    sizes = floats(requests["bytes"])[answered]
    spec = rows.flow_spec(flow)
    segment, start_after = (_parameter(spec, name) for name in ("segment", "start_after"))
    stop = spec.get("stop_ps")
    end = rows.duration_s if stop is None else min(stop / 1e12, rows.duration_s)
    return Film(*_core.film(asked, asked + took, sizes, segment, start_after, end))


def _parameter(spec: Any, name: str) -> float:
    given = spec["app"]["params"].get(name)
    if given is None:
        param = registry.application(spec).param(name)
        assert param is not None, f"{spec['app']['kind']} has no {name}"
        given = param.default
    return float(given)
