"""The input of every metric: labelled columns and the resolved scenario of their run.

`Rows` is a thin view. It is made from a result (`Rows.of(result)`) or, in tests, from plain dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tailback.errors import TailbackError
from tailback.result import schema
from tailback.result.described import Described
from tailback.result.totals import TablesOf

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
Table = Mapping[str, Column]

# Codes in the engine's tables.
RECOVERY_ENTERED, RECOVERY_LEFT, TIMEOUT, CWR_ENTERED, UNDO, CWR_LEFT = (
    schema.code("congestion", "kind", word)
    for word in ("recovery-entered", "recovery-left", "timeout", "cwr-entered", "undo", "cwr-left")
)
ENQUEUED, DEQUEUED, DROPPED, MARKED = (
    schema.code("queue", "event", word) for word in ("enqueue", "dequeue", "drop", "mark")
)
RECEIVED, LOST, IN_TRANSIT = (schema.code("packets", "fate", word) for word in ("received", "dropped", "in-transit"))
ANSWERED = schema.code("requests", "fate", "answered")
QUEUE_FULL = schema.code("queue", "reason", "queue-full")
PHASE_OPEN, PHASE_DISORDER, PHASE_CWR, PHASE_RECOVERY, PHASE_LOSS = (
    schema.code("polls", "phase", word) for word in ("open", "disorder", "cwr", "recovery", "loss")
)


class MissingRows(TailbackError, ValueError):
    """A metric or figure needs rows that the run did not record."""

    def __init__(self, table: str, instrument: str | None = None, *, flow: str = "") -> None:
        self.table = table
        self.instrument = instrument = instrument or _instrument(table)
        of, on = (f" of {flow}", f" for {flow}") if flow else ("", "")
        super().__init__(
            f"this result has no rows{of} in table {table!r}; switch on the instrument {instrument!r}{on} and run again"
        )


class NothingToMeasure(MissingRows):
    """The scenario has nothing for a metric or figure to measure."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


@dataclass(frozen=True)
class Rows(Described):
    """Tables of one run, and the resolved scenario (exact units) that produced them."""

    tables: Mapping[str, Table]
    scenario: Mapping[str, Any]
    meta: Mapping[str, Any] = field(default_factory=dict)
    internals_names: tuple[str, ...] = ()
    chosen: frozenset[int] | None = None
    """The flows that a figure shows; None for all."""

    @staticmethod
    def of(source: Any) -> Rows:
        """A view of a result, of another view, or of `{"tables": …, "scenario": …}`."""
        if isinstance(source, Rows):
            return source
        if isinstance(source, Mapping):
            return Rows(cast(Mapping[str, Table], source["tables"]), cast(Mapping[str, Any], source["scenario"]))
        tables = TablesOf(source)
        names = tuple(source.internals_names) if "internals" in tables else ()
        return Rows(tables, source.resolved, source.meta, names)

    def has(self, table: str, flow: int | str | None = None) -> bool:
        """Whether anything was recorded in this table, or of this flow in it."""
        if flow is not None:
            return self.has(table) and bool((np.asarray(self.tables[table]["flow"]) == self.flow(flow)).any())
        if isinstance(self.tables, TablesOf):
            # Does not read the table, which may be larger than memory.
            return self.tables.count(table) > 0
        columns = self.tables.get(table, {})
        return bool(columns) and len(next(iter(columns.values()))) > 0

    def table(self, name: str) -> Table:
        """A table, or `MissingRows` naming the instrument to switch on."""
        if not self.has(name):
            raise MissingRows(name)
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
        """The rows of one flow, none if it had none to record; `MissingRows` if it was not recorded."""
        found, name = self._select(table, "flow", self.flow(flow)), self.flow_names[self.flow(flow)]
        if not len(found["flow"]) and not self._records(table, name):
            raise MissingRows(table, flow=name)
        return found

    def _records(self, table: str, flow: str) -> bool:
        on, keys = self.scenario.get("instruments", {}), schema.instruments(table)
        return not keys or any(flow in (on.get(key) or ()) for key in keys)

    def of_link(self, table: str, link: int | str) -> dict[str, Column]:
        """The rows of one link."""
        return self._select(table, "link", self.link(link))

    @property
    def description(self) -> Mapping[str, Any]:
        """The resolved scenario."""
        return self.scenario

    #: Index of a flow, and of a link, given by name or number.
    flow = Described.flow_index
    link = Described.link_index

    @property
    def bottleneck(self) -> int:
        """The bottleneck (`bottleneck_index`); `NothingToMeasure` if no queue can form on the first flow's path."""
        return self.bottleneck_of(0)

    def bottleneck_of(self, flow: int | str) -> int:
        """The bottleneck on a flow's path; `NothingToMeasure` if no queue can form on it."""
        dropped = np.asarray(self.tables["links"]["dropped"]) if self.has("links") else None
        found = self.bottleneck_index(dropped, flow)
        if found is None:
            whose = "the first flow's" if self.flow(flow) == 0 else f"{self.flow_names[self.flow(flow)]}'s"
            raise NothingToMeasure(f"no queue can form on {whose} way: none of its links has a rate or a medium")
        return found

    def crossed(self, flow: int | str, link: int | str | None) -> int:
        """A link on a flow's path, by default its bottleneck; `NothingToMeasure` if the flow does not cross it."""
        index = self.bottleneck_of(flow) if link is None else self.link(link)
        if index not in self.route(flow):
            name = self.flow_names[self.flow(flow)]
            crosses = ", ".join(self.link_names[hop] for hop in self.route(flow))
            raise NothingToMeasure(f"{name} does not cross {self.link_names[index]}. It crosses: {crosses}")
        return index

    @property
    def recorded_s(self) -> tuple[float, float]:
        """Start and end of the time in which instruments recorded."""
        on = self.scenario.get("instruments", {})
        until = on.get("until_ps")
        return on.get("from_ps", 0) / 1e12, self.duration_s if until is None else min(until / 1e12, self.duration_s)

    def has_start(self, flow: int | str) -> bool:
        """Whether instruments recorded when a flow started."""
        return self.recorded_s[0] * 1e12 <= float(self.flow_spec(flow).get("start_ps", 0))

    def on_s(self, flow: int | str) -> list[tuple[float, float]]:
        """Start and end of each period in which a flow was on, in seconds and in order."""
        totals = self.of_flow("flows", flow)
        return self.periods_s(flow, float(totals["started_s"][0]), float(totals["finished_s"][0]))

    @property
    def tcp_flows(self) -> list[int]:
        """The chosen flows that use TCP."""
        return [flow for flow in super().tcp_flows if self.shows(flow)]

    @property
    def udp_flows(self) -> list[int]:
        """The chosen flows that do not use TCP."""
        return [flow for flow in super().udp_flows if self.shows(flow)]

    def shows(self, flow: int | str) -> bool:
        """Whether a flow is among the chosen ones."""
        return self.chosen is None or self.flow(flow) in self.chosen

    def smallest_rtt_s(self) -> float:
        """The smallest round trip that any TCP flow measured; NaN if none did."""
        seen = np.asarray(self.tables["flows"]["rtt_min_s"], dtype=float) if self.has("flows") else np.array([np.nan])
        return float(np.nanmin(seen)) if np.isfinite(seen).any() else float("nan")

    def carried_bps(self, link: int | str) -> float:
        """Rate of a link; for a medium, trace or framing, the rate carried while it was sending, NaN if none."""
        rate, is_framed = self.rate_bps(link), bool(self.link_spec(link).get("framing"))
        if not self.has("links") or not (np.isnan(rate) or is_framed):
            return self.ip_rate_bps(link)
        table = self.of_link("links", link)
        busy, carried = float(table["busy_s"][0]), 8.0 * float(table["delivered_bytes"][0])
        return carried / busy if busy else carried / self.duration_s or float("nan")

    def mss(self, flow: int | str) -> float:
        """Payload of a full segment: MTU minus 40 bytes of headers, minus 12 if timestamps were negotiated."""
        index = self.flow(flow)
        if self.has("segments", index):
            return float(np.median(self.of_flow("segments", index)["mss"]))
        tcp = self.flow_spec(index).get("tcp") or {}
        mtu = float(tcp.get("mtu", 1500))
        timestamps = bool((tcp.get("stack_params") or {}).get("timestamps", True))
        return mtu - (52.0 if timestamps else 40.0)


def _instrument(table: str) -> str:
    """The instrument to switch on, in words."""
    instruments = schema.instruments(table)
    if not instruments:
        return table
    return f"instruments.{instruments[0]}" + "".join(f" (or .{other})" for other in instruments[1:])


def floats(column: Column) -> Floats:
    """The column as float64, without copying when it already is."""
    return np.asarray(column, dtype=np.float64)


def between(times: Floats, start_s: float | None, end_s: float | None) -> Flags:
    """Which instants are in [start, end)."""
    chosen = np.ones(times.shape, dtype=np.bool_)
    if start_s is not None:
        chosen &= times >= start_s
    if end_s is not None:
        chosen &= times < end_s
    return chosen
