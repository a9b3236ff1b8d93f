"""Matches the flows of a capture, known by addresses, to those of a run, known by the scenario's names."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tailback.errors import TailbackError, nearest
from tailback.result import Result

#: Flow number x·256 + y of a run has the hosts 10.x.y.1 and 10.x.y.2, in its captures and live.
_OWN_HOST = re.compile(r"10\.(\d+)\.(\d+)\.[12]")


class NoSuchName(TailbackError, ValueError):
    """A name in the mapping is unknown, or two flows would get the same name."""


def matched(
    results: Mapping[str, Result], names: Mapping[str, str] | None = None
) -> tuple[dict[str, Result], list[str]]:
    """The results with each capture's flows renamed as in the first run, and notes on unmatched flows.

    `names` maps names of the run's flows to those of the capture's. Other flows are matched by the addresses that a run
    gives its flows. Without such addresses they are matched by order, among flows of one kind if their number is equal.
    Raises `NoSuchName`.
    """
    names = dict(names or {})
    run = next((it for it in results.values() if not _is_capture(it)), next(iter(results.values())))
    out: dict[str, Result] = {}
    notes: list[str] = []
    unused = set(names)
    _must_be(names, run.flow_names, "the run")
    for label, result in results.items():
        wanted = {ours: theirs for ours, theirs in names.items() if theirs in result.flow_names}
        if result is run or not (_is_capture(result) or wanted):
            out[label] = result
            continue
        unused -= set(wanted)
        found = wanted if not _is_capture(result) else _by_address(run, result, wanted, notes)
        out[label] = _called(result, {theirs: ours for ours, theirs in found.items()})
    others = [name for result in results.values() if result is not run for name in result.flow_names]
    for ours in sorted(unused):
        if names[ours] not in others:
            _must_be([names[ours]], others, "the other results")
    return out, list(dict.fromkeys(notes))


def _is_capture(result: Result) -> bool:
    return result.provenance.is_captured


def _must_be(names: Any, known: Sequence[str], where: str) -> None:
    for name in names:
        if name not in known:
            close = nearest(name, known)
            hint = f" Did you mean {close}?" if close else f" There are: {', '.join(known)}"
            raise NoSuchName(f"--map: there is no flow {name} in {where}.{hint}")


def _kind(flow: Mapping[str, Any]) -> str:
    if flow.get("tcp") is not None:
        return "tcp"
    return "ping" if flow["app"]["kind"] == "ping" else "udp"


def _by_address(run: Result, capture: Result, given: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """The capture's name of each of the run's flows, where known."""
    ours, theirs = run.resolved["flows"], capture.resolved["flows"]
    # Flows of equal names are matched, also by an earlier call.
    found = {name: name for name in run.flow_names if name in capture.flow_names} | dict(given)
    groups: dict[int, list[str]] = {}
    for flow in theirs:
        number = _number(flow["name"])
        if number is not None and number < len(ours) and _kind(flow) == _kind(ours[number]):
            groups.setdefault(number, []).append(flow["name"])
    for number, names in sorted(groups.items()):
        name = ours[number]["name"]
        if name in found or name in capture.flow_names:
            continue
        if len(names) > 1:
            notes.append(f"{name} has {len(names)} connections in the capture, and none of them alone is it: "
                         f"--map {name}={names[0]} compares one")  # fmt: skip
            continue
        found[name] = names[0]
    return found if groups else _by_order(ours, theirs, found)


def _by_order(ours: Any, theirs: Any, found: dict[str, str]) -> dict[str, str]:
    def open_(flows: Any, kind: str, taken: Any) -> list[str]:
        own = [flow for flow in flows if _kind(flow) == kind and flow["name"] not in taken]
        return [flow["name"] for flow in sorted(own, key=lambda flow: flow["start_ps"])]

    for kind in ("tcp", "udp", "ping"):
        left, right = open_(ours, kind, found), open_(theirs, kind, found.values())
        if len(left) == len(right):
            found |= dict(zip(left, right, strict=True))
    return found


def _number(name: str) -> int | None:
    """The flow number in a capture's addresses: `10.1.2.1:32768>10.1.2.2:5001/tcp` is flow 258."""
    ends = [_OWN_HOST.match(end) for end in name.split(">")]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0].groups() != ends[1].groups():
        return None
    high, low = map(int, ends[0].groups())
    return 256 * high + low


def _called(result: Result, names: Mapping[str, str]) -> Result:
    """The result with some flows renamed."""
    twice = [new for new in names.values() if new in result.flow_names and new not in names]
    if twice:
        raise NoSuchName(f"--map: the capture has a flow {twice[0]} already")
    # Read all tables first: a stored table is read with its original names.
    for table in result.tables:
        result.numpy(table)
    out = copy.copy(result)
    flows = [flow | {"name": names.get(flow["name"], flow["name"])} for flow in result.resolved["flows"]]
    instruments = {
        key: [names.get(name, name) for name in value] if isinstance(value, list) else value
        for key, value in result.resolved["instruments"].items()
    }
    out.resolved = result.resolved | {"flows": flows, "instruments": instruments}
    return out
