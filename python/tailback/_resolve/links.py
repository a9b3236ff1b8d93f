"""Links of the engine's form: rate, delay, queue, wire, medium, schedule, trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tailback import traces
from tailback._toml import look_up
from tailback.errors import UnitError
from tailback.scenario import Medium, Queue
from tailback.scenario._fields import ParamValue
from tailback.units import Size

from .graph import Graph, Hop, Routes
from .ledger import choices, sends_datagrams

MTU = 1500
LOSSES = ("bit_error", "burst_start", "burst_end", "burst_loss", "gap_loss")
# Media that stations contend for: the ways there and back of a duplex link are one channel.
_SHARED = frozenset({"wifi", "homeplug"})


@dataclass(frozen=True)
class _Site:
    """What a queue's description may refer to."""

    at: str
    """Its path in the engine's form."""
    place: str
    """Its path in the scenario."""
    rate: int | None
    rtt: int | None
    largest: int


class Links:
    """Says the links of a graph in the engine's form, given the routes of its flows."""

    def __init__(self, graph: Graph, routes: Routes) -> None:
        self.graph = graph
        self.ledger = graph.ledger
        self.scenario = graph.scenario
        self.routes = routes

    def describe(self) -> list[dict[str, Any]]:
        """One row a link, in the order of the engine's tables."""
        return [self._link(index, hop) for index, hop in enumerate(self.graph.hops)]

    def _link(self, index: int, hop: Hop) -> dict[str, Any]:
        at = f"links[{index}]"
        self.ledger.places |= {
            at: hop.place,
            f"{at}.rate_bps": self._first(f"{hop.place}.back_rate", f"{hop.place}.rate", back=index == 1),
            f"{at}.delay_ps": self._delay_place(hop, back=index == 1),
            f"{at}.tick_hz": f"{hop.place}.tick_hz",
            f"{at}.queue": hop.queue_place or hop.place,
            f"{at}.queue.discipline": f"{hop.queue_place}.discipline",
            f"{at}.queue.params": hop.queue_place or hop.place,
            f"{at}.wire": hop.wire_place or hop.place,
            f"{at}.medium": f"{hop.place}.medium",
            f"{at}.medium.params": f"{hop.place}.medium",
            f"{at}.schedule": f"{hop.place}.schedule",
            f"{at}.trace": f"{hop.place}.trace",
        }
        out: dict[str, Any] = {
            "name": hop.name,
            "from": hop.from_,
            "to": hop.to,
            "rate_bps": hop.rate,
            "delay_ps": hop.delay,
            "tick_hz": hop.tick_hz,
            "queue": {"discipline": "fifo", "params": {}},
            "wire": {
                "loss": hop.wire.loss,
                "duplicate": hop.wire.duplicate,
                "reorder": hop.wire.reorder,
                "reorder_delay_ps": int(hop.wire.reorder_delay),
                "jitter_ps": int(hop.wire.jitter),
            },
        }
        for key in (*LOSSES, "reorder_packets"):
            if value := getattr(hop.wire, key):
                out["wire"][key] = value
        if hop.queue is not None and hop.queues:
            out["queue"] = self._queue(index, hop, hop.queue, f"{at}.queue")
        if hop.medium is not None:
            out["medium"] = self._medium(hop, hop.medium)
        if hop.schedule:
            out["schedule"] = [
                {
                    "at_ps": int(step.at),
                    "rate_bps": None if step.rate is None else int(step.rate),
                    "delay_ps": None if step.delay is None else int(step.delay),
                }
                for step in hop.schedule
            ]
        if hop.trace is not None:
            out["trace"] = {"deliveries_ms": self._trace(hop, hop.trace)}
        return out

    def _medium(self, hop: Hop, medium: Medium) -> dict[str, Any]:
        place = f"{hop.place}.medium"
        card = self.ledger.card(medium.name, self.ledger.known.media, f"{place}.name", "medium", "links")
        params: dict[str, ParamValue] = {}
        if card is not None:
            for key, value in medium.params.items():
                self.ledger.param(card, key, value, f"{place}.{key}", params)
        out: dict[str, Any] = {"name": medium.name, "params": params}
        if medium.channel is not None or medium.name in _SHARED:
            out["channel"] = medium.channel or hop.channel
        if medium.flow is not None:
            if medium.flow not in self.graph.names:
                problem = f"there is no flow {medium.flow}"
                self.ledger.problem(f"{place}.flow", problem, choices(medium.flow, self.graph.names), value=medium.flow)
            out["flow"] = medium.flow
        return out

    def _trace(self, hop: Hop, trace: str | Sequence[int]) -> list[int]:
        if not isinstance(trace, str):
            return list(trace)
        try:
            return traces.read(self._trace_file(trace))
        except traces.TraceError as error:
            self.ledger.problem(f"{hop.place}.trace", error.problem, error.fix, value=trace)
            return []

    def _trace_file(self, trace: str) -> Path:
        """The file meant. What a scenario file says itself lies in its folder or below; it reads no other file."""
        if self.scenario._file is None:
            return Path(trace)
        folder = Path(self.scenario._file).parent
        beside = folder / trace
        if trace in self.scenario._given:
            return beside if beside.exists() else Path(trace)
        if not beside.resolve().is_relative_to(folder.resolve()):
            raise traces.TraceError(
                "the file lies outside the scenario's folder",
                "Copy it there, or name it yourself: --set PATH.trace=FILE",
            )
        return beside

    def _delay_place(self, hop: Hop, *, back: bool) -> str:
        if hop.place.startswith("flow"):
            return f"{hop.place}.access_delay"
        if look_up(self.ledger.told, f"{hop.place}.rtt") is not None:
            return f"{hop.place}.rtt"
        return self._first(f"{hop.place}.back_delay", f"{hop.place}.delay", back=back)

    def _first(self, first: str, second: str, *, back: bool) -> str:
        return first if back and look_up(self.ledger.told, first) is not None else second

    def _queue(self, index: int, hop: Hop, queue: Queue, at: str) -> dict[str, Any]:
        place = hop.queue_place
        crossing = [n for n, (there, back) in enumerate(self.routes) if index in there or index in back]
        rtt = hop.rtt
        if rtt is None:
            round_trips = [self.routes[n][0] + self.routes[n][1] for n in crossing]
            rtt = max((sum(self.graph.hops[step].delay for step in trip) for trip in round_trips), default=None)
        largest = max((self._largest_packet(n) for n in crossing), default=0)
        return self._one_queue(queue, _Site(at, place, hop.rate, rtt, largest))

    def _one_queue(self, queue: Queue, site: _Site) -> dict[str, Any]:
        place = site.place
        card = self.ledger.card(
            queue.discipline, self.ledger.known.queues, f"{place}.discipline", "queue discipline", "queues"
        )
        params = self._limit(queue, site)
        for key in params:
            if card is not None and card.param(key) is None:
                problem = f"{card.name} has no limit in {key.removeprefix('limit_')}"
                fix = f"It has {', '.join(p.name for p in card.params)}"
                self.ledger.problem(place, problem, fix, value=str(queue.limit))
        if card is not None:
            for key, value in queue.params.items():
                if isinstance(value, str) and re.search(r"bdps?\s*$", value, re.IGNORECASE):
                    try:
                        exact = self._bytes(Size(value), site.rate, site.rtt, f"{place}.{key}")
                    except UnitError as error:
                        self.ledger.problem(f"{place}.{key}", error.problem, error.fix)
                        continue
                    value = f"{exact or 0}B"
                self.ledger.param(card, key, value, f"{place}.{key}", params)
        out: dict[str, Any] = {"discipline": queue.discipline, "params": params}
        if queue.inner is not None:
            inside = f"{place}.inner"
            self.ledger.places |= {
                f"{site.at}.inner": inside,
                f"{site.at}.inner.discipline": f"{inside}.discipline",
                f"{site.at}.inner.params": inside,
            }
            # What waits inside leaves at the bucket's rate.
            rate = params.get("rate_bps", site.rate)
            out["inner"] = self._one_queue(
                queue.inner,
                replace(site, at=f"{site.at}.inner", place=inside, rate=None if rate is None else int(rate)),
            )
        return out

    def _limit(self, queue: Queue, site: _Site) -> dict[str, ParamValue]:
        """The queue's limit as the parameter it is; a queue too short for the largest packet is reported."""
        if queue.limit is None:
            return {}
        if queue.limit.unit == "packets":
            return {"limit_packets": int(queue.limit.amount)}
        size = self._bytes(queue.limit, site.rate, site.rtt, site.place)
        if size is None:
            return {}
        # dummynet's rule looks at the backlog alone: a short queue still takes a packet when it is empty.
        if size < site.largest and queue.params.get("accept") != "below":
            self.ledger.problem(
                site.place,
                f"the queue holds {size} bytes, less than one packet of {site.largest} bytes",
                f'Give at least "{site.largest}B" or "1packets", or accept = "below" (a packet when empty)',
                value=str(queue.limit),
            )
        return {"limit_bytes": size}

    def _bytes(self, size: Size, rate: int | None, rtt: int | None, place: str) -> int | None:
        if size.unit == "bdp" and rate is None:
            problem = "the rate of this link varies, so it has no BDP"
            self.ledger.problem(place, problem, "Give its queue in bytes or packets", value=str(size))
            return None
        if size.unit == "bdp" and rtt is None:
            if self.scenario.flows and not self.ledger.problems:
                self.ledger.problem(
                    place, "no flow crosses this link, so it has no BDP", "Give its queue in bytes or packets"
                )
            return None
        return size.in_bytes(rate=rate or 0, rtt=rtt or 0)

    def _largest_packet(self, index: int) -> int:
        flow = self.scenario.flows[index]
        if not sends_datagrams(flow.app):
            return int(flow.mtu or MTU)
        # A telephone packet unless it says otherwise.
        return int(flow.packet_size or 200)
