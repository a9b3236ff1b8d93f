"""Properties of a resolved scenario's flows and links: names, routes, base delays and bottleneck."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tailback import _core
from tailback.errors import ResultError, nearest

PS_PER_S = 1e12
#: IP bytes of a full packet, unless a flow sets its MTU.
FULL_PACKET = 1500


class UnknownName(ResultError, KeyError):
    """An unknown flow, link or column."""

    # The plain text; KeyError would print it in quotes.
    __str__ = Exception.__str__


class Described:
    """A resolved scenario, the common base of `Result` and of the metrics' `Rows`."""

    @property
    def description(self) -> Mapping[str, Any]:
        """The resolved scenario: exact units, no defaults left open."""
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
        """Names of the flows; the column `flow` indexes this list."""
        return [str(flow["name"]) for flow in self.description["flows"]]

    @property
    def link_names(self) -> list[str]:
        """Names of the links; the column `link` indexes this list."""
        return [str(link["name"]) for link in self.description["links"]]

    def flow_index(self, flow: str | int) -> int:
        """The number of a flow given by name or number; `ResultError` if there is none."""
        return _index(flow, self.description["flows"], "flow")

    def link_index(self, link: str | int) -> int:
        """The number of a link given by name or number; `ResultError` if there is none."""
        return _index(link, self.description["links"], "link")

    def flow_spec(self, flow: str | int) -> dict[str, Any]:
        """A flow in the resolved scenario."""
        return dict(self.description["flows"][self.flow_index(flow)])

    def active_s(self, flow: str | int, started_s: float, finished_s: float) -> float:
        """Seconds in which a flow was on, within its scheduled times; NaN if it never started.

        `started_s` and `finished_s` are columns of the table `flows`. Data in flight at the scheduled stop still count:
        a finished flow was on until it finished.
        """
        return _core.active_s(self.periods_s(flow, started_s, finished_s), started_s)

    def periods_s(self, flow: str | int, started_s: float, finished_s: float) -> list[tuple[float, float]]:
        """Start and end of each period in which a flow was on (`active_s`), in seconds; empty if it never started."""
        spec = self.flow_spec(flow)
        periods = []
        for period in (spec, *spec.get("again", ())):
            stop_ps = period.get("stop_ps")
            periods.append((period.get("start_ps", 0) / PS_PER_S, None if stop_ps is None else stop_ps / PS_PER_S))
        return _core.active_periods_s(periods, started_s, finished_s, self.duration_s)

    def link_spec(self, link: str | int) -> dict[str, Any]:
        """A link in the resolved scenario: `rate_bps`, `delay_ps`, `queue`, …."""
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
        """Links from a flow's sender to its receiver: as given, or with fewest hops; ties go to the first listed."""
        return self._route(flow, "route", "from", "to")

    def back_route(self, flow: int | str) -> list[int]:
        """Links from a flow's receiver back to its sender."""
        return self._route(flow, "back_route", "to", "from")

    def _route(self, flow: int | str, key: str, start: str, end: str) -> list[int]:
        spec = self.flow_spec(flow)
        if spec.get(key):
            return [self.link_index(str(name)) for name in spec[key]]
        # Results of 0.1 may lack the route.
        links = [(str(link["from"]), str(link["to"])) for link in self.description["links"]]
        return _core.fewest_hops(links, str(spec[start]), str(spec[end]))

    # -- delays

    def base_owd_s(self, flow: str | int) -> float:
        """Propagation delay from a flow's sender to its receiver in seconds, without serialisation."""
        return self._propagation_s(self.route(flow))

    def base_rtt_s(self, flow: str | int) -> float:
        """Round-trip propagation delay in seconds, without serialisation."""
        return self._propagation_s([*self.route(flow), *self.back_route(flow)])

    def base_delay_s(self, flow: int | str, packet_bytes: float) -> float:
        """Propagation plus serialisation of a packet in the forward direction, with empty queues."""
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
        """Whether a queue can form at the link: see `holds_queue`."""
        return holds_queue(self.link_spec(link))

    @property
    def has_bottleneck(self) -> bool:
        """Whether a queue can form on the first flow's path."""
        return any(self.holds_queue(link) for link in self.route(0))

    def bottleneck_index(self, dropped: npt.NDArray[Any] | None, flow: int | str = 0) -> int | None:
        """The link on a flow's path that dropped most; if none dropped, the slowest with a rate.

        The path is the first flow's by default.

        A link with a medium or a trace has no rate, and counts as slower than any link with a rate. None if no queue
        can form on the path. `dropped` is the number of dropped packets by link; None if unknown.
        """
        ways = [link for link in self.route(flow) if self.holds_queue(link)]
        lost = np.zeros(len(self.link_names)) if dropped is None else np.asarray(dropped)
        return min(
            ways,
            key=lambda link: (-int(lost[link]), float(np.nan_to_num(self.ip_rate_bps(link)))),
            default=None,
        )

    def has_media(self, flow: int | str) -> bool:
        """Whether a link on a flow's path, in either direction, has a medium or a trace with its own delay."""
        ways = [*self.route(flow), *self.back_route(flow)]
        return any(self.link_spec(link).get(key) is not None for link in ways for key in ("medium", "trace"))

    def rate_bps(self, link: int | str) -> float:
        """Rate of a link; NaN if its medium or trace determines it."""
        rate = self.link_spec(link).get("rate_bps")
        return float("nan") if rate is None else float(rate)

    def mean_rate_bps(self, link: int | str) -> float:
        """Rate of a link in the mean over the run, as its schedule changes it; NaN if its medium or trace decides."""
        spec, rate, at_s, bits = self.link_spec(link), self.rate_bps(link), 0.0, 0.0
        for row in spec.get("schedule") or ():
            if row["rate_bps"] is not None and row["at_ps"] / PS_PER_S < self.duration_s:
                bits += rate * (row["at_ps"] / PS_PER_S - at_s)
                rate, at_s = float(row["rate_bps"]), row["at_ps"] / PS_PER_S
        return (bits + rate * (self.duration_s - at_s)) / self.duration_s if at_s else rate

    def ip_rate_bps(self, link: int | str) -> float:
        """Rate available to full IP packets: less than the link's rate if the link adds framing."""
        on_line = _on_line(self.link_spec(link), FULL_PACKET)
        # Without framing the rate is returned exactly.
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
    """Bytes that a packet occupies on a link: its IP bytes and the link's framing."""
    framing = link.get("framing")
    return float(_core.framed_bytes(int(packet_bytes), **framing)) if framing else packet_bytes


def holds_queue(link: Mapping[str, Any]) -> bool:
    """Whether a queue can form at a link with these fields: it has a rate, a medium or a trace."""
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
    """The existing names, starting with the one most similar to `name`."""
    known = list(known)
    close = nearest(name, known)
    return (f'Did you mean "{close}"? ' if close else "") + f"There are: {', '.join(known)}."
