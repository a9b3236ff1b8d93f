"""A case of a hunt: a bottleneck with disturbances, as a scenario, and its simpler variants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailback.candidate import flow_fields
from tailback.scenario import Scenario, bulk, dumbbell, flow, voip

__all__ = ["SETTLED_S", "Case", "log_between", "mbit", "short", "simpler"]

#: Payload share of a full IP packet on a Linux path.
_PAYLOAD = 1448 / 1500
#: Start in seconds of bursts and rate changes, after the candidate has adapted to the path.
SETTLED_S = 2.0
#: Minimum duration of a run in seconds: a shorter run would show only the start of a connection.
_LEAST_S = 8.0
_POLL_S = 0.1
#: Random send delay of a host per packet, less than a packet's time on the fastest link.
_PROCESSING = "20us"
#: Maximum start spread as a share of a burst's length, since a later start shortens the burst.
_SHARE_OF_BURST = 0.05


@dataclass(frozen=True)
class Case:
    """A bottleneck with disturbances."""

    rate_mbps: float
    rtt_ms: float
    queue_bdp: float
    flows: int = 1
    #: UDP bursts: length, period, and rate as a multiple of the link's rate; a rate of 0 means none.
    burst_ms: float = 0.0
    period_ms: float = 0.0
    burst_rate: float = 0.0
    #: Probability that a packet is lost on the wire.
    loss: float = 0.0
    #: The rate alternates in periods of this length between its full value and this share of it; 1 for no change.
    dip: float = 1.0
    dip_ms: float = 0.0
    #: Whether a Reno flow competes.
    has_rival: bool = False
    #: Whether a call of small packets shares the path.
    has_call: bool = False
    #: Whether the queue's limit counts packets of 1500 bytes; else it counts bytes.
    counts_packets: bool = False
    #: Start spread of the flows; the seed draws the starts.
    start_ms: float = 100.0
    #: Maximum extra delay of each packet (jitter), without reordering.
    jitter_ms: float = 0.0
    #: Probability that a packet is overtaken, and by how many others.
    reorder: float = 0.0
    reorder_packets: int = 0
    #: The application sends responses one after the other, each this share of a BDP at once; 0: it sends continuously.
    answer_bdp: float = 0.0
    #: Pause between a response and the next request.
    think_ms: float = 0.0
    duration_s: float = 12.0
    #: Parameters of the candidate.
    params: tuple[tuple[str, float], ...] = ()

    @property
    def burst_mbps(self) -> float:
        """Mean rate of the bursts."""
        return self.rate_mbps * self.burst_rate * self.burst_ms / self.period_ms if self.burst_rate else 0.0

    @property
    def left_mbps(self) -> float:
        """Capacity left for payload if all bursts get through."""
        busy = 1.0 if self.dip >= 1.0 else (1.0 + self.dip) / 2
        return max(self.rate_mbps * busy * _PAYLOAD - self.burst_mbps, 0.01 * self.rate_mbps)

    def scenario(self, cc: Any, seed: int, *, steady: bool = False) -> Scenario:
        """The scenario with the candidate `cc`; with `steady`, an even stream replaces the bursts."""
        if self.params:
            cc = {**(cc if isinstance(cc, Mapping) else {"name": cc}), **dict(self.params)}
        # `start_spread` moves starts but not stops, and would shorten bursts, so it is small relative to them. The rest
        # of `start_ms` is drawn here.
        drawn = np.random.default_rng([seed, 1]).random() * self.start_ms / 1e3 if self.burst_rate else 0.0
        count = self.flows if self.flows > 1 else None
        given: dict[str, Any] = {"name": "victim", "start": _s(drawn), "stack": "linux"} | flow_fields(cc)
        flows = [self._answers(given) if self.answer_bdp else flow("bulk", count=count, **given)]
        if self.has_rival:
            flows.append(bulk("reno", name="rival"))
        if self.has_call:
            flows.append(voip(name="call"))
        if self.burst_rate:
            flows.append(self._bursts(steady))
        more: dict[str, Any] = {"wire": self.wire} if self.wire else {}
        if self.dip < 1.0:
            times = _every(self.dip_ms / 1e3, self.duration_s)
            steps = more["schedule"] = []
            for number, at in enumerate(times):
                rate = self.rate_mbps * (self.dip if number % 2 == 0 else 1.0)
                steps.append({"at": _s(at), "rate": mbit(rate)})
        return dumbbell(
            rate=mbit(self.rate_mbps),
            rtt=f"{self.rtt_ms:g}ms",
            queue={"limit": self.limit},
            flows=flows,
            duration=_s(self.duration_s),
            seed=seed,
            instruments={"polls": "all", "poll_interval": _s(_POLL_S)},
            **more,
        ).with_(randomness=self.randomness)

    @property
    def wire(self) -> dict[str, Any]:
        """Impairments of the wire."""
        out: dict[str, Any] = {"loss": self.loss} if self.loss else {}
        if self.jitter_ms:
            out["jitter"] = f"{self.jitter_ms:g}ms"
        if self.reorder:
            # Long enough to be overtaken; the count releases a packet earlier.
            out |= {"reorder": self.reorder, "reorder_delay": "500ms", "reorder_packets": self.reorder_packets}
        return out

    @property
    def answer_bytes(self) -> int:
        """Size of a response, at least one packet."""
        return max(round(self.answer_bdp * self.rate_mbps * self.rtt_ms * 125.0), 1500)

    def _answers(self, given: Mapping[str, Any]) -> Any:
        # Responses travel against the flow's direction.
        params = {"request_bytes": 200, "response_bytes": self.answer_bytes, "think": f"{self.think_ms:g}ms"}
        ends: dict[str, Any] = {"from": "right", "to": "left", "params": params}
        return flow("request-response", **{**given, **ends})

    @property
    def limit(self) -> str:
        """Limit of the queue."""
        held = max(round(self.queue_bdp * self.rate_mbps * self.rtt_ms * 125.0), 3000)
        return f"{held // 1500}packets" if self.counts_packets else f"{held}B"

    @property
    def randomness(self) -> dict[str, str]:
        """Random parts of a run; without them all seeds would give the same run."""
        spread = min(self.start_ms, _SHARE_OF_BURST * self.burst_ms) if self.burst_rate else self.start_ms
        return {"start_spread": _s(spread / 1e3), "processing_jitter": _PROCESSING}

    def _bursts(self, steady: bool) -> Any:
        if steady:
            params = {"rate": max(int(self.burst_mbps * 1e6), 1)}
            return flow("udp-cbr", name="bursts", start=_s(SETTLED_S), params=params)
        times = _every(self.period_ms / 1e3, self.duration_s)
        spans: list[dict[str, Any]] = [{"start": _s(at), "stop": _s(at + self.burst_ms / 1e3)} for at in times]
        params = {"rate": max(int(self.burst_rate * self.rate_mbps * 1e6), 1)}
        return flow("udp-cbr", name="bursts", **spans[0], again=spans[1:], params=params)

    @property
    def victims(self) -> list[str]:
        """Names of the candidate's flows."""
        return [f"victim-{number + 1}" for number in range(self.flows)] if self.flows > 1 else ["victim"]


def _every(period_s: float, end_s: float) -> list[float]:
    count = max(int((end_s - SETTLED_S) / max(period_s, 1e-3)), 1)
    return [SETTLED_S + number * period_s for number in range(count)]


def _s(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"


def mbit(rate: float) -> str:
    """A rate in Mbit/s in a scenario's form."""
    return f"{max(round(rate * 1e6), 1000)}bit"


def log_between(u: float, low: float, high: float) -> float:
    """Logarithmic interpolation: `low` at 0, `high` at 1."""
    return short(low * (high / low) ** u)


def short(value: float) -> float:
    """A number with three significant digits."""
    return float(f"{value:.3g}")


def _round(value: float) -> float:
    """A number rounded to one digit: 1, 2 or 5 with zeros."""
    if value <= 0.0:
        return value
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{min((1.0, 2.0, 5.0, 10.0), key=lambda digit: abs(math.log(value / power / digit))) * power:.3g}")


def simpler(case: Case) -> Iterator[Case]:
    """Variants of the case with one disturbance less, largest steps first."""
    if case.has_rival:
        yield replace(case, has_rival=False)
    if case.dip < 1.0:
        yield replace(case, dip=1.0, dip_ms=0.0)
    if case.loss:
        yield replace(case, loss=0.0)
    if case.reorder:
        yield replace(case, reorder=0.0, reorder_packets=0)
    if case.jitter_ms:
        yield replace(case, jitter_ms=0.0)
    if case.counts_packets:
        yield replace(case, counts_packets=False)
    if case.burst_rate:
        yield replace(case, burst_rate=0.0, burst_ms=0.0, period_ms=0.0)
    if case.params:
        yield from (replace(case, params=case.params[:n] + case.params[n + 1 :]) for n in range(len(case.params)))
    if case.flows > 1:
        yield replace(case, flows=1)
        if case.flows > 2:
            yield replace(case, flows=case.flows // 2)
        yield replace(case, flows=case.flows - 1)
    if case.duration_s > _LEAST_S:
        yield replace(case, duration_s=_LEAST_S)
    for name in ("rate_mbps", "rtt_ms", "queue_bdp", "burst_rate", "period_ms", "burst_ms", "dip", "dip_ms", "loss",
                 "start_ms", "jitter_ms", "reorder", "answer_bdp", "think_ms"):  # fmt: skip
        value = getattr(case, name)
        if value and _round(value) != value and not (name == "dip" and value == 1.0):
            rounded: dict[str, Any] = {name: _round(value)}
            yield replace(case, **rounded)
