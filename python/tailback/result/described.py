"""What a resolved scenario says of its flows and links: names, routes, base delays and bottleneck, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tailback import _core
from tailback.errors import ResultError, nearest

PS_PER_S = 1e12
#: IP bytes of a full packet, unless a flow's MTU says otherwise.
FULL_PACKET = 1500


class UnknownName(ResultError, KeyError):
    """A flow, link or column that there is not."""

    # As of any error here; a KeyError would put its text into quotes.
    __str__ = Exception.__str__


class Described:
    """A resolved scenario, read by `Result` and by the metrics' `Rows` alike."""

    @property
    def description(self) -> Mapping[str, Any]:
        """The scenario in the engine's form: exact units, nothing left open."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The scenario's name."""
        return str(self.description.get("name", ""))

    @property
    def seed(self) -> int:
        """The scenario's seed."""
        return int(self.description["seed"])

    @property
    def duration_s(self) -> float:
        """Simulated seconds."""
        return float(self.description["duration_ps"]) / PS_PER_S

    @property
    def flow_names(self) -> list[str]:
        """The flows' names; the column `flow` counts in this list."""
        return [str(flow["name"]) for flow in self.description["flows"]]

    @property
    def link_names(self) -> list[str]:
        """The links' names; the column `link` counts in this list."""
        return [str(link["name"]) for link in self.description["links"]]

    def flow_index(self, flow: str | int) -> int:
        """The number of a flow given by name or number; `ResultError` if there is none."""
        return _index(flow, self.description["flows"], "flow")

    def link_index(self, link: str | int) -> int:
        """The number of a link given by name or number; `ResultError` if there is none."""
        return _index(link, self.description["links"], "link")

    def flow_spec(self, flow: str | int) -> dict[str, Any]:
        """What the resolved scenario says of a flow."""
        return dict(self.description["flows"][self.flow_index(flow)])

    def active_s(self, flow: str | int, started_s: float, finished_s: float) -> float:
        """How long a flow was on, of all the times at which it should be; NaN if it never began.

        `started_s` and `finished_s` are the table `flows`' own. What was on its way when it should stop belongs to it:
        a flow that finished was on until then.
        """
        return _core.active_s(self.periods_s(flow, started_s, finished_s), started_s)

    def periods_s(self, flow: str | int, started_s: float, finished_s: float) -> list[tuple[float, float]]:
        """From when until when a flow was on, in seconds and in order; see `active_s`. Empty if it never began."""
        spec = self.flow_spec(flow)
        periods = []
        for period in (spec, *spec.get("again", ())):
            stop_ps = period.get("stop_ps")
            periods.append((period.get("start_ps", 0) / PS_PER_S, None if stop_ps is None else stop_ps / PS_PER_S))
        return _core.active_periods_s(periods, started_s, finished_s, self.duration_s)

    def link_spec(self, link: str | int) -> dict[str, Any]:
        """What the resolved scenario says of a link: `rate_bps`, `delay_ps`, `queue`, …."""
        return dict(self.description["links"][self.link_index(link)])

    @property
    def tcp_flows(self) -> list[int]:
        """Flows that run over TCP."""
        return [i for i, flow in enumerate(self.description["flows"]) if flow.get("tcp") is not None]

    @property
    def udp_flows(self) -> list[int]:
        """Flows that do not run over TCP."""
        return [i for i, flow in enumerate(self.description["flows"]) if flow.get("tcp") is None]

    # -- routes

    def route(self, flow: int | str) -> list[int]:
        """Links from a flow's sender to its receiver: as given, or fewest hops with the first listed on ties."""
        return self._route(flow, "route", "from", "to")

    def back_route(self, flow: int | str) -> list[int]:
        """Links from a flow's receiver back to its sender."""
        return self._route(flow, "back_route", "to", "from")

    def _route(self, flow: int | str, key: str, start: str, end: str) -> list[int]:
        spec = self.flow_spec(flow)
        if spec.get(key):
            return [self.link_index(str(name)) for name in spec[key]]
        # Results of 0.1 may leave the route open.
        links = [(str(link["from"]), str(link["to"])) for link in self.description["links"]]
        return _core.fewest_hops(links, str(spec[start]), str(spec[end]))

    # -- delays

    def base_owd_s(self, flow: str | int) -> float:
        """Propagation delay from a flow's sender to its receiver in seconds, without serialisation."""
        return self._propagation_s(self.route(flow))

    def base_rtt_s(self, flow: str | int) -> float:
        """Propagation delay there and back in seconds, without serialisation."""
        return self._propagation_s([*self.route(flow), *self.back_route(flow)])

    def base_delay_s(self, flow: int | str, packet_bytes: float) -> float:
        """Propagation plus serialisation of a packet on the way out, with empty queues."""
        total = 0.0
        for index in self.route(flow):
            link = self.link_spec(index)
            total += float(link.get("delay_ps", 0)) / PS_PER_S
            if link.get("rate_bps"):
                total += 8.0 * _on_line(link, packet_bytes) / float(link["rate_bps"])
        return total

    def _propagation_s(self, links: Iterable[int]) -> float:
        return sum(float(self.link_spec(link).get("delay_ps", 0)) for link in links) / PS_PER_S

    # -- queues

    def holds_queue(self, link: int | str) -> bool:
        """Can a queue form there? See `holds_queue`."""
        return holds_queue(self.link_spec(link))

    @property
    def has_bottleneck(self) -> bool:
        """Can a queue form on the first flow's way?"""
        return any(self.holds_queue(link) for link in self.route(0))

    def bottleneck_index(self, dropped: npt.NDArray[Any] | None, flow: int | str = 0) -> int | None:
        """The link on a flow's way, the first's by default, that dropped most; if none did, the slowest with a rate.

        A link with a medium or a trace has no rate of its own, and counts as slower than any that has. None if no
        queue can form on that way. `dropped` are the links' packets dropped; None if that is not known.
        """
        ways = [link for link in self.route(flow) if self.holds_queue(link)]
        lost = np.zeros(len(self.link_names)) if dropped is None else np.asarray(dropped)
        return min(
            ways,
            key=lambda link: (-int(lost[link]), float(np.nan_to_num(self.ip_rate_bps(link)))),
            default=None,
        )

    def has_media(self, flow: int | str) -> bool:
        """Does a link on a flow's way there or back transmit by a medium or a trace, with a delay of its own?"""
        ways = [*self.route(flow), *self.back_route(flow)]
        return any(self.link_spec(link).get(key) is not None for link in ways for key in ("medium", "trace"))

    def rate_bps(self, link: int | str) -> float:
        """Rate of a link; NaN if its medium or trace decides."""
        rate = self.link_spec(link).get("rate_bps")
        return float("nan") if rate is None else float(rate)

    def ip_rate_bps(self, link: int | str) -> float:
        """What full IP packets get of a link's rate: less than it where the link adds framing."""
        on_line = _on_line(self.link_spec(link), FULL_PACKET)
        # A plain link's rate stays as it is, to the last bit.
        return self.rate_bps(link) if on_line == FULL_PACKET else self.rate_bps(link) * FULL_PACKET // on_line

    def limit_bytes(self, link: int | str) -> float:
        """Capacity of a link's queue in bytes (packets count as the largest MTU); infinite when unlimited."""
        params = self.link_spec(link).get("queue", {}).get("params", {})
        limits = []
        if params.get("limit_bytes"):
            limits.append(float(params["limit_bytes"]))
        if params.get("limit_packets"):
            flows = cast(list[Mapping[str, Any]], self.description["flows"])
            mtu = max((float(flow["tcp"].get("mtu", 1500)) for flow in flows if flow.get("tcp")), default=1500.0)
            limits.append(float(params["limit_packets"]) * mtu)
        return min(limits, default=float("inf"))


def _on_line(link: Mapping[str, Any], packet_bytes: float) -> float:
    """Bytes that a packet occupies on a link: its IP bytes, and the link's framing."""
    framing = link.get("framing")
    return float(_core.framed_bytes(int(packet_bytes), **framing)) if framing else packet_bytes


def holds_queue(link: Mapping[str, Any]) -> bool:
    """Can a queue form at a link so described: has it a rate, a medium or a trace?"""
    return any(link.get(key) is not None for key in ("rate_bps", "medium", "trace"))


def _index(which: str | int, rows: list[Mapping[str, Any]], what: str) -> int:
    if isinstance(which, str):
        names = [str(row["name"]) for row in rows]
        if which in names:
            return names.index(which)
        raise UnknownName(f"there is no {what} {which}. {choices(which, names)}")
    if not 0 <= which < len(rows):
        raise UnknownName(f"there is no {what} number {which}. There are {len(rows)}, counted from 0.")
    return int(which)


def choices(name: str, known: Iterable[str]) -> str:
    """What there is, the nearest to `name` first."""
    known = list(known)
    close = nearest(name, known)
    return (f'Did you mean "{close}"? ' if close else "") + f"There are: {', '.join(known)}."
