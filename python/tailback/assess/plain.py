"""The plain case of a special one: the same flows on the same path, without what is special about it.

A candidate that is worse than CUBIC on a plain path is worse over a satellite too, and that is one fact and not two.
What a row of special cases judges is what the special adds: the candidate's change from plain to special beside the
baseline's change, a difference of differences. `verdicts.py` says when that may excuse a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["RECEIVER", "expected", "plain_of"]

#: What receivers that lie, or acknowledge otherwise, do.
RECEIVER = ("ack_every", "ack_division", "acks_ahead", "conceals_marks")
#: And ECN, which a drop-tail queue leaves alone.
_STACK = (*RECEIVER, "ecn")
#: The plain case of a satellite's round trip.
_FAR, _NEAR = "600ms", "40ms"


def plain_of(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """A scenario's fields without what is special; `None` of one without a dumbbell, or that is plain already.

    Left out are random impairments, schedules, receivers that acknowledge otherwise, ECN, and a burst of another flow.
    Disciplines other than drop-tail become drop-tail with one BDP, a round trip of 600 ms becomes 40 ms.
    """
    if "dumbbell" not in given:
        return None
    neck = {key: value for key, value in given["dumbbell"].items() if key not in ("wire", "schedule")}
    if isinstance(neck.get("queue"), Mapping):
        neck["queue"] = "1bdp"
    if neck.get("rtt") == _FAR:
        neck["rtt"] = _NEAR
    flows = []
    for flow in given["flow"]:
        if flow["name"] == "burst":
            continue
        if isinstance(flow.get("stack"), Mapping):
            stack = {key: value for key, value in flow["stack"].items() if key not in _STACK}
            flow = {key: value for key, value in flow.items() if key != "stack"}
            if stack != {"name": "linux"}:
                flow["stack"] = stack
        flows.append(flow)
    found = {**given, "dumbbell": neck, "flow": flows}
    return None if found == given else found


def expected(is_rate: bool, special: float, plain: float, mine: float) -> float:
    """What the plain case leads to expect of a candidate in the special one.

    The baseline has `special` and `plain`, the candidate has `mine` in the plain case. Rates change by a factor, shares
    and delays by a difference.

    >>> expected(True, 5.0, 10.0, 8.0), expected(False, 0.3, 0.1, 0.4)
    (4.0, 0.6)
    """
    if is_rate:
        return special * mine / plain if plain > 0.0 else special
    return special + mine - plain
