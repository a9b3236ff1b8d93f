"""What every metric reads: labelled columns and the resolved scenario they came from, nothing else.

`Rows` is a thin view. It is made from a result (`Rows.of(result)`) or, in tests, from plain dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tailback.errors import TailbackError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
Table = Mapping[str, Column]

PS_PER_S = 1e12

# Codes of the tables, as the engine writes them.
RECOVERY_ENTERED, RECOVERY_LEFT, TIMEOUT, CWR_ENTERED, UNDO, CWR_LEFT = 0, 1, 2, 3, 4, 5
ENQUEUED, DEQUEUED, DROPPED, MARKED = 0, 1, 2, 3
RECEIVED, LOST, IN_TRANSIT = 0, 1, 2
PHASE_OPEN, PHASE_DISORDER, PHASE_CWR, PHASE_RECOVERY, PHASE_LOSS = 0, 1, 2, 3, 4


class MissingRows(TailbackError, ValueError):
    """What a metric or figure needs and the run did not record."""

    def __init__(self, table: str, instrument: str) -> None:
        self.table = table
        self.instrument = instrument
        super().__init__(
            f"this result has no rows in table {table!r}; switch on the instrument {instrument!r} and run again"
        )


class NothingToMeasure(MissingRows):
    """What a metric or figure is about does not occur in the scenario."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


_INSTRUMENT = {
    "segments": "instruments.segments",
    "polls": "instruments.polls",
    "internals": "instruments.internals",
    "queue": "instruments.queues (or .drops)",
    "queue_polls": "instruments.queue_polls",
    "packets": "instruments.packets",
    "requests": "instruments.requests",
    "echoes": "instruments.echoes",
}


class _Tables(Mapping[str, Table]):
    """A result's tables, each read when it is asked for: a large one that nobody looks at takes no memory."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def __getitem__(self, name: str) -> Table:
        if name not in self._result:
            raise KeyError(name)
        return cast(Table, self._result.numpy(name))

    def __contains__(self, name: object) -> bool:
        return name in self._result

    def __iter__(self) -> Iterator[str]:
        return iter(self._result.tables)

    def __len__(self) -> int:
        return len(self._result.tables)


@dataclass(frozen=True)
class Rows:
    """Tables of one run with the resolved scenario (exact units) that produced them."""

    tables: Mapping[str, Table]
    scenario: Mapping[str, Any]
    meta: Mapping[str, Any] = field(default_factory=dict)
    internals_names: tuple[str, ...] = ()

    @staticmethod
    def of(source: Any) -> Rows:
        """A view of a result, of another view, or of `{"tables": …, "scenario": …}`."""
        if isinstance(source, Rows):
            return source
        if isinstance(source, Mapping):
            return Rows(cast(Mapping[str, Table], source["tables"]), cast(Mapping[str, Any], source["scenario"]))
        tables = _Tables(source)
        names = tuple(source.internals_names) if "internals" in tables else ()
        return Rows(tables, source.resolved, source.meta, names)

    def has(self, table: str) -> bool:
        """Was anything recorded in this table?"""
        columns = self.tables.get(table, {})
        return bool(columns) and len(next(iter(columns.values()))) > 0

    def table(self, name: str) -> Table:
        """A table, or `MissingRows` naming the instrument to switch on."""
        if not self.has(name):
            raise MissingRows(name, _INSTRUMENT.get(name, name))
        return self.tables[name]

    def column(self, table: str, name: str) -> Column:
        """One column of a table."""
        return self.table(table)[name]

    def _select(self, name: str, key: str, index: int) -> dict[str, Column]:
        table = self.table(name)
        chosen = np.asarray(table[key]) == index
        if bool(chosen.all()):
            return dict(table)
        return {column: values[chosen] for column, values in table.items()}

    def of_flow(self, table: str, flow: int | str) -> dict[str, Column]:
        """The rows of one flow."""
        return self._select(table, "flow", self.flow(flow))

    def of_link(self, table: str, link: int | str) -> dict[str, Column]:
        """The rows of one link."""
        return self._select(table, "link", self.link(link))

    @property
    def duration_s(self) -> float:
        """Simulated time."""
        return float(self.scenario["duration_ps"]) / PS_PER_S

    @property
    def seed(self) -> int:
        """The seed of every random stream."""
        return int(self.scenario["seed"])

    @property
    def name(self) -> str:
        """The scenario's name for people."""
        return str(self.scenario.get("name", ""))

    @property
    def flow_names(self) -> list[str]:
        """Flow names in table order."""
        return [str(flow["name"]) for flow in self.scenario["flows"]]

    @property
    def link_names(self) -> list[str]:
        """Link names in table order."""
        return [str(link["name"]) for link in self.scenario["links"]]

    def flow(self, flow: int | str) -> int:
        """Index of a flow."""
        return flow if isinstance(flow, int) else _index(self.flow_names, flow, "flow")

    def link(self, link: int | str) -> int:
        """Index of a link."""
        return link if isinstance(link, int) else _index(self.link_names, link, "link")

    def flow_spec(self, flow: int | str) -> Mapping[str, Any]:
        """The resolved description of a flow."""
        return cast(Mapping[str, Any], self.scenario["flows"][self.flow(flow)])

    def link_spec(self, link: int | str) -> Mapping[str, Any]:
        """The resolved description of a link."""
        return cast(Mapping[str, Any], self.scenario["links"][self.link(link)])

    @property
    def tcp_flows(self) -> list[int]:
        """Flows that run over TCP."""
        return [i for i, flow in enumerate(self.scenario["flows"]) if flow.get("tcp") is not None]

    @property
    def udp_flows(self) -> list[int]:
        """Flows that do not run over TCP."""
        return [i for i, flow in enumerate(self.scenario["flows"]) if flow.get("tcp") is None]

    def route(self, flow: int | str) -> list[int]:
        """Links from a flow's sender to its receiver: as given, or fewest hops with the first listed on ties."""
        spec = self.flow_spec(flow)
        if spec.get("route"):
            return [self.link(str(name)) for name in spec["route"]]
        return self._fewest_hops(str(spec["from"]), str(spec["to"]))

    def back_route(self, flow: int | str) -> list[int]:
        """Links from a flow's receiver back to its sender."""
        spec = self.flow_spec(flow)
        if spec.get("back_route"):
            return [self.link(str(name)) for name in spec["back_route"]]
        return self._fewest_hops(str(spec["to"]), str(spec["from"]))

    def _fewest_hops(self, start: str, end: str) -> list[int]:
        reached: dict[str, list[int]] = {start: []}
        frontier = [start]
        while frontier and end not in reached:
            following = []
            for node in frontier:
                for index, link in enumerate(self.scenario["links"]):
                    if link["from"] == node and link["to"] not in reached:
                        reached[str(link["to"])] = [*reached[node], index]
                        following.append(str(link["to"]))
            frontier = following
        return reached.get(end, [])

    @property
    def bottleneck(self) -> int:
        """The link on the first flow's way that dropped most; if none did, the slowest that has a rate.

        A link with a medium or a trace has no rate of its own, and counts as slower than any that has.
        `NothingToMeasure` if no queue can form on that way.
        """
        ways = [i for i in self.route(0) if self.holds_queue(i)]
        if not ways:
            raise NothingToMeasure(
                "no queue can form on the first flow's way: none of its links has a rate or a medium"
            )
        lost = np.asarray(self.tables["links"]["dropped"]) if self.has("links") else np.zeros(len(self.link_names))
        return min(ways, key=lambda i: (-int(lost[i]), float(self.link_spec(i).get("rate_bps") or 0.0)))

    @property
    def has_bottleneck(self) -> bool:
        """Can a queue form on the first flow's way?"""
        return any(self.holds_queue(i) for i in self.route(0))

    def has_media(self, flow: int | str) -> bool:
        """Does a link on a flow's way there or back transmit by a medium or a trace, with a delay of its own?"""
        ways = [*self.route(flow), *self.back_route(flow)]
        return any(self.link_spec(i).get(key) is not None for i in ways for key in ("medium", "trace"))

    def smallest_rtt_s(self) -> float:
        """The smallest round trip that any flow over TCP measured; NaN if none did."""
        seen = np.asarray(self.tables["flows"]["rtt_min_s"], dtype=float) if self.has("flows") else np.array([np.nan])
        return float(np.nanmin(seen)) if np.isfinite(seen).any() else float("nan")

    def holds_queue(self, link: int | str) -> bool:
        """Can a queue form there? See `holds_queue`."""
        return holds_queue(self.link_spec(link))

    def rate_bps(self, link: int | str) -> float:
        """Rate of a link; NaN if its medium or trace decides."""
        rate = self.link_spec(link).get("rate_bps")
        return float("nan") if rate is None else float(rate)

    def carried_bps(self, link: int | str) -> float:
        """Rate of a link; of a medium or trace what it carried while it was sending, NaN if that was nothing."""
        rate = self.rate_bps(link)
        if not np.isnan(rate) or not self.has("links"):
            return rate
        table = self.of_link("links", link)
        busy, carried = float(table["busy_s"][0]), 8.0 * float(table["delivered_bytes"][0])
        return carried / busy if busy else carried / self.duration_s or float("nan")

    def limit_bytes(self, link: int | str) -> float:
        """Capacity of a link's queue in bytes (packets count as the largest MTU); infinite when unlimited."""
        params = self.link_spec(link).get("queue", {}).get("params", {})
        limits = []
        if params.get("limit_bytes"):
            limits.append(float(params["limit_bytes"]))
        if params.get("limit_packets"):
            mtu = max(
                (float(f["tcp"].get("mtu", 1500)) for f in self.scenario["flows"] if f.get("tcp")),
                default=1500.0,
            )
            limits.append(float(params["limit_packets"]) * mtu)
        return min(limits, default=float("inf"))

    def base_delay_s(self, flow: int | str, packet_bytes: float) -> float:
        """Propagation plus serialisation of a packet on the way out, with empty queues."""
        total = 0.0
        for index in self.route(flow):
            link = self.link_spec(index)
            total += float(link.get("delay_ps", 0)) / PS_PER_S
            if link.get("rate_bps"):
                total += 8.0 * packet_bytes / float(link["rate_bps"])
        return total

    def base_rtt_s(self, flow: int | str) -> float:
        """Propagation delay there and back, without serialisation."""
        ways = [*self.route(flow), *self.back_route(flow)]
        return sum(float(self.link_spec(i).get("delay_ps", 0)) for i in ways) / PS_PER_S

    def mss(self, flow: int | str) -> float:
        """Payload of a full segment: MTU less 40 bytes of headers, less 12 if timestamps were negotiated."""
        index = self.flow(flow)
        if self.has("segments"):
            sizes = self.of_flow("segments", index)["mss"]
            if len(sizes):
                return float(np.median(sizes))
        tcp = self.flow_spec(index).get("tcp") or {}
        mtu = float(tcp.get("mtu", 1500))
        timestamps = bool((tcp.get("stack_params") or {}).get("timestamps", True))
        return mtu - (52.0 if timestamps else 40.0)


def holds_queue(link: Mapping[str, Any]) -> bool:
    """Can a queue form at a link so described: has it a rate, a medium or a trace?"""
    return any(link.get(key) is not None for key in ("rate_bps", "medium", "trace"))


def _index(known: list[str], name: str, what: str) -> int:
    try:
        return known.index(name)
    except ValueError:
        raise KeyError(f"no {what} is called {name!r}; known: {', '.join(known)}") from None


def floats(column: Column) -> Floats:
    """The column as float64, without copying when it already is."""
    return np.asarray(column, dtype=np.float64)


def between(times: Floats, start_s: float | None, end_s: float | None) -> Flags:
    """Which instants lie in [start, end)."""
    chosen = np.ones(times.shape, dtype=np.bool_)
    if start_s is not None:
        chosen &= times >= start_s
    if end_s is not None:
        chosen &= times < end_s
    return chosen
