"""The plain case of a special cell: the same flows on the same path without the special condition.

A candidate that is worse than CUBIC on a plain path is also worse over a satellite; that is one finding, not two. A row
of special cases judges what the special condition adds: the candidate's change from plain to special against the
baseline's change, a difference of differences. `verdicts.py` defines when this may excuse a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["RECEIVER", "expected", "plain_of"]

#: Fields of receivers that lie or acknowledge in an unusual way.
RECEIVER = ("ack_every", "ack_division", "acks_ahead", "conceals_marks")
#: The same and ECN, which a drop-tail queue ignores.
_STACK = (*RECEIVER, "ecn")
#: The plain case of a satellite's round trip.
_FAR, _NEAR = "600ms", "40ms"


def plain_of(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """A scenario's fields without its special conditions; None if it has no dumbbell or is already plain.

    Removes random impairments, schedules, unusual receivers, ECN, and another flow's burst.
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
    """The candidate's expected value in the special case, given its plain case.

    The baseline has `special` and `plain`, the candidate has `mine` in the plain case. Rates change by a factor, shares
    and delays by a difference.

    >>> expected(True, 5.0, 10.0, 8.0), expected(False, 0.3, 0.1, 0.4)
    (4.0, 0.6)
    """
    if is_rate:
        return special * mine / plain if plain > 0.0 else special
    return special + mine - plain
