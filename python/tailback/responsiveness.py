"""A responsiveness test on a scenario's path: the numbers of several operators' tests, from one run.

>>> import tailback as tb
>>> from tailback import responsiveness
>>> line = tb.dumbbell(rate="10mbit", rtt="20ms", queue="fq_codel", flows=[tb.bulk()], duration="10s")
>>> test = responsiveness.scenario(line, most=1)
>>> test.flow_names
['down-1', 'up-1', 'probes', 'round-trips', 'ping']
>>> responsiveness.numbers(tb.run(test)).bufferbloat_grade
'A+'
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import _core, metrics, registry
from tailback.errors import Problem, ScenarioError, TailbackError
from tailback.metrics import Rows
from tailback.result import Result
from tailback.scenario import Scenario

__all__ = ["NotATest", "Numbers", "numbers", "scenario"]

#: Start and end in seconds of the parts: idle, loaded down, loaded up, both; measurements in loaded parts start after
#: `SETTLE_S`.
IDLE = (0.0, 10.0)
DOWN = (10.0, 25.0)
UP = (30.0, 45.0)
BOTH_S = 50.0
SETTLE_S = 5.0
#: ID and MNP of draft-ietf-ippm-responsiveness-09, and the maximum number of intervals.
INTERVAL_S = 5.0
MOST_CONNECTIONS = 16
INTERVALS = 16
#: Connections that load a single direction, as in other tests; the number is chosen.
CONNECTIONS = 8
#: Bytes of a pair of probes, and the share of capacity for probes (PTC), from the same draft.
PAIR_BYTES, PROBE_SHARE = 6000, 0.05
#: Fields that the load copies from a TCP flow.
_OF_TCP = ("cc", "stack", "receiver_stack", "send_buffer", "receive_buffer", "mtu", "ip")


class NotATest(TailbackError, ValueError):
    """A result that is not of a responsiveness test."""


def scenario(base: Scenario, *, client: str | None = None, most: int = MOST_CONNECTIONS) -> Scenario:
    """The test on the path of `base`, in place of its flows.

    Ten seconds idle; eight connections load the path down, then up, for 15 s each; then one more in each direction
    every five seconds, up to `most`, for 80 s. The load copies the first TCP flow. `client` is the node whose access
    line is tested, by default the receiver of that flow.
    """
    if not 1 <= most <= MOST_CONNECTIONS:
        fix = f"Give 1 to {MOST_CONNECTIONS}"
        raise ScenarioError([Problem("most", most, "is no number of connections that the test can open", fix)])
    data = base.expanded.to_dict()
    flows = data.pop("flow", [])
    resolved = base.resolve(check=False)
    model, ends = _model(flows, resolved, client)
    down: dict[str, Any] = {**{key: model[key] for key in _OF_TCP if key in model}, "app": "bulk", **ends}
    up = {**down, **_turned(ends)}
    if "receiver_stack" in model:
        up["stack"], up["receiver_stack"] = model["receiver_stack"], model.get("stack", "linux")
    data.pop("expect", None)
    asks: dict[str, Any] = {**_turned(ends), **{key: down[key] for key in ("cc", "stack", "mtu", "ip") if key in down}}
    interval = _probe_interval_ms(resolved)
    data["flow"] = [
        *(_load(down, f"down-{number}", number, DOWN, most) for number in _numbers(most)),
        *(_load(up, f"up-{number}", number, UP, most) for number in _numbers(most)),
        {**asks, "name": "probes", "app": "rpm-probe", "params": {"interval": interval}},
        {**asks, "name": "round-trips", "app": "request-response", "params": {"think": 100.0, "response_bytes": 100}},
        {**_turned(ends), "name": "ping", "app": "ping", "params": {"interval": 100.0}},
    ]
    loads = [flow["name"] for flow in data["flow"] if flow["app"] == "bulk"]
    data["instruments"] = {
        "polls": loads,
        "poll_interval": "100ms",
        "requests": ["probes", "round-trips"],
        "echoes": ["ping"],
    }
    data["duration"] = f"{BOTH_S + INTERVALS * INTERVAL_S:g}s"
    data["name"] = f"{base.name or 'path'}-responsiveness"
    made = Scenario.from_dict(data)
    return made._keep(base._file, {}, base._given)


def _numbers(most: int) -> range:
    return range(1, 1 + most)


def _load(flow: Mapping[str, Any], name: str, number: int, alone: tuple[float, float], most: int) -> dict[str, Any]:
    """A connection of the load: the first eight load a single direction, and all load both from their interval on."""
    both = f"{BOTH_S + (number - 1) * INTERVAL_S:g}s"
    if number > min(CONNECTIONS, most):
        return {**flow, "name": name, "start": both}
    start, stop = (f"{instant:g}s" for instant in alone)
    return {**flow, "name": name, "start": start, "stop": stop, "again": [{"start": both}]}


def _model(
    flows: list[dict[str, Any]], resolved: Mapping[str, Any], client: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The flow that the load copies, and the ends and routes of a download."""

    def is_tcp(flow: Mapping[str, Any]) -> bool:
        card = registry.card("apps", flow.get("app", "bulk"))
        return flow.get("transport", "tcp") == "tcp" and card.transport == "tcp"

    # Resolved flows keep the order of their entries.
    over_tcp = [spec for spec in resolved["flows"] if not (spec.get("tcp") or {"transport": "udp"}).get("transport")]
    spec = over_tcp[0] if over_tcp else resolved["flows"][0]
    model = next(filter(is_tcp, flows), {}) if over_tcp else {}
    # A flow with an access delay has its own node, in front of the one that the scenario names.
    ends = {"from": str(spec["from"]), "to": str(spec["to"])}
    if "access_delay" in model:
        ends["from"] = model.get("from", "right" if ends["to"] == "left" else "left")
    for key in ("route", "back_route"):
        if key in model:
            ends[key] = model[key]
    if "access_delay" in model:
        ends["access_delay"] = model["access_delay"]
    card = registry.application(spec)
    # Requesting applications receive their data in the reverse direction.
    fetches = card.rows == "requests" and card.name not in ("transfers",)
    wanted = client or ends["from" if fetches else "to"]
    if wanted not in (ends["from"], ends["to"]):
        fix = f"Give {ends['from']} or {ends['to']}, the ends of {spec['name']}"
        raise ScenarioError([Problem("client", wanted, "the flow that the test follows does not end there", fix)])
    return model, ends if wanted == ends["to"] else _turned(ends)


def _turned(ends: Mapping[str, Any]) -> dict[str, Any]:
    other = {"from": "to", "to": "from", "route": "back_route", "back_route": "route"}
    return {other.get(key, key): value for key, value in ends.items()}


def _probe_interval_ms(resolved: Mapping[str, Any]) -> float:
    """Probe interval in ms: probes use a twentieth of the slowest link, at most 50 per second."""
    rates = [link["rate_bps"] for link in resolved["links"] if link.get("rate_bps")]
    share_s = 8 * PAIR_BYTES / (PROBE_SHARE * min(rates)) if rates else 0.1
    return round(1e3 * max(share_s, 0.02), 3)


@dataclass(frozen=True)
class Numbers:
    """The numbers that several operators' tests would report for a path, from one run."""

    #: The node that was tested.
    client: str
    #: Round trips per minute with both directions loaded, and the confidence (draft-ietf-ippm-responsiveness).
    rpm: float
    confidence: str
    #: Its two parts: probes on separate connections, and round trips of the loaded connections.
    rpm_separate: float
    rpm_loaded: float
    #: Round trips per minute of probes on separate connections, while idle.
    rpm_idle: float
    #: Grade by Waveform's scale.
    bufferbloat_grade: str | None
    #: Mean round trips for that grade.
    idle_mean_ms: float
    download_mean_ms: float
    upload_mean_ms: float
    #: Latencies as in Ookla's Speedtest.
    idle_ms: float
    download_ms: float
    upload_ms: float
    #: Grade by LibreQoS's scale, and the mean round trip with both directions loaded, which that scale also uses.
    libreqos_grade: str | None
    both_mean_ms: float
    #: Goodput of the loaded parts.
    download_mbps: float
    upload_mbps: float

    def as_dict(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        return dataclasses.asdict(self)


def numbers(result: Result) -> Numbers:
    """The numbers of a result of `scenario`; `NotATest` for any other result."""
    rows = Rows.of(result)
    if not {"probes", "round-trips", "down-1", "up-1"} <= set(rows.flow_names):
        raise NotATest(f"{result.name} is no responsiveness test. Run it with --as responsiveness")
    down, up = ([name for name in rows.flow_names if name.startswith(f"{way}-")] for way in ("down", "up"))
    windows = {
        "idle": IDLE,
        "down": (DOWN[0] + SETTLE_S, DOWN[1]),
        "up": (UP[0] + SETTLE_S, UP[1]),
        "both": (BOTH_S + SETTLE_S, BOTH_S + 3 * SETTLE_S),
    }
    trips = {part: metrics.round_trips(rows, "round-trips", *window) for part, window in windows.items()}
    mean = {part: float(np.mean(of)) if len(of) else math.nan for part, of in trips.items()}
    middle = {part: 1e3 * _core.measure("loaded_latency", [of]) for part, of in trips.items()}
    until_s, confidence = _measured_until(rows, down, up)
    last = (until_s - _AVERAGED * INTERVAL_S, until_s)
    separate, loaded = _separate(rows, *last), metrics.loaded_rtts(rows, [*down, *up], *last)
    first = float(metrics.quantiles_of(trips["idle"], (0.25,))[0])
    return Numbers(
        client=str(rows.flow_spec("down-1")["to"]),
        rpm=_core.measure("responsiveness", [separate[0], separate[1], separate[2], loaded]),
        confidence=confidence,
        rpm_separate=_per_minute(*separate),
        rpm_loaded=_per_minute(loaded),
        rpm_idle=_per_minute(*_separate(rows, *IDLE)),
        bufferbloat_grade=metrics.bufferbloat_grade(mean["idle"], mean["down"], mean["up"]),
        idle_mean_ms=1e3 * mean["idle"],
        download_mean_ms=1e3 * mean["down"],
        upload_mean_ms=1e3 * mean["up"],
        idle_ms=middle["idle"],
        download_ms=middle["down"],
        upload_ms=middle["up"],
        libreqos_grade=metrics.libreqos_grade(first, mean["down"], mean["up"], mean["both"]),
        both_mean_ms=1e3 * mean["both"],
        download_mbps=_goodput_bps(rows, down, *windows["down"]) / 1e6,
        upload_mbps=_goodput_bps(rows, up, *windows["up"]) / 1e6,
    )


#: MAD: number of intervals that must agree, over which the result is computed.
_AVERAGED = 4


def _separate(rows: Rows, start_s: float, end_s: float) -> list[metrics.rows.Floats]:
    """Seconds for handshake, TLS and fetch of the answered probes that began in a window."""
    return [metrics.probe_times(rows, "probes", kind, start_s, end_s) for kind in ("handshake", "tls", "probe")]


def _per_minute(*of: metrics.rows.Floats) -> float:
    """Round trips per minute, from several kinds of round trips with equal weight."""
    means = [_core.trimmed_mean(each) for each in of if len(each)]
    return 60.0 * len(means) / sum(means) if means else math.nan


def _goodput_bps(rows: Rows, flows: list[str], start_s: float, end_s: float) -> float:
    on = [name for name in flows if any(start < end_s and stop > start_s for start, stop in rows.on_s(name))]
    return sum(metrics.goodput(rows, name, start_s, end_s) for name in on)


def _measured_until(rows: Rows, down: list[str], up: list[str]) -> tuple[float, str]:
    """End of the interval at which the draft's algorithm reports, and its confidence.

    It waits until the moving averages of both directions' goodput agree, then until the responsiveness does.
    """
    goodput: tuple[list[float], list[float]] = ([], [])
    averages: tuple[list[float], list[float]] = ([], [])
    is_full, found = False, []
    for interval in range(INTERVALS):
        start = BOTH_S + interval * INTERVAL_S
        end = start + INTERVAL_S
        if is_full:
            window = (end - _AVERAGED * INTERVAL_S, end)
            loaded = metrics.loaded_rtts(rows, [*down, *up], *window)
            tcp_f, tls_f, http_f = _separate(rows, *window)
            found.append(_core.measure("responsiveness", [tcp_f, tls_f, http_f, loaded]))
            if _core.is_saturated(np.asarray(found)):
                return end, "high"
            continue
        for flows, rates, means in zip((down, up), goodput, averages, strict=True):
            rates.append(_goodput_bps(rows, flows, start, end))
            means.append(float(np.mean(rates[-_AVERAGED:])))
        is_full = all(_core.is_saturated(np.asarray(means)) for means in averages)
    return BOTH_S + INTERVALS * INTERVAL_S, "medium" if len(found) >= _AVERAGED else "low"
