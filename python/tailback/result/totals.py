"""Totals of a flow, each defined once for summaries, metrics, reports, comparisons and the explorer.

Each function takes the described scenario, the tables by name and the flow's number, and passes a measure's columns to
the crate `tailback-measures`, which defines the measure. The explorer does the same for its own runs
(`crates/tailback-web/src/summary.rs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tailback import _core

from . import schema

if TYPE_CHECKING:
    from tailback.result import Result

    from .described import Described

Columns = Mapping[str, Any]
Tables = Mapping[str, Columns]

# Results of 0.1 lack the columns of the reverse direction. Any other missing column is an error that names it.
_OF_THE_WAY_BACK = ("bytes_returned", "back_segments_retransmitted")


class TablesOf(Mapping[str, Columns]):
    """A result's tables, read on demand, so that unused large tables take no memory."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def __getitem__(self, name: str) -> Columns:
        if name not in self._result:
            raise KeyError(name)
        return cast(Columns, self._result.numpy(name))

    def __contains__(self, name: object) -> bool:
        return name in self._result

    def __iter__(self) -> Iterator[str]:
        return iter(self._result.tables)

    def __len__(self) -> int:
        return len(self._result.tables)

    def count(self, name: str) -> int:
        """Number of rows of a table, 0 if there is none; does not read it."""
        return self._result.rows(name) if name in self._result else 0


def goodput_bps(of: Described, tables: Tables, flow: int) -> float:
    """The measure `goodput` over a flow's whole life, bit/s; NaN if it was never on."""
    active = of.active_s(flow, _total(tables, flow, "started_s"), _total(tables, flow, "finished_s"))
    payload = _total(tables, flow, "bytes_received") + _total(tables, flow, "bytes_returned")
    if payload == 0.0 and (seen := _seen(of, tables, flow)) is not None:
        payload = float(np.sum(seen["bytes"][_fate(seen, "received")]))
    return _core.goodput_bps(payload, active)


def loss(of: Described, tables: Tables, flow: int) -> float:
    """The measure `flow_loss_rate` of a whole run, 0 … 1; NaN if no packet's fate was decided."""
    if (seen := _seen(of, tables, flow)) is not None:
        lost, arrived = (int(np.sum(_fate(seen, word))) for word in ("dropped", "received"))
        return _core.loss_of_fates(lost, arrived)
    columns = ("packets_sent", "packets_received", "packets_dropped", "bytes_received", "bytes_returned")
    return _core.loss_of_totals(*(_total(tables, flow, column) for column in columns))


def completion_s(of: Described, tables: Tables, flow: int) -> float:
    """The measure `completion_time`, seconds; NaN for a flow without an end, or stopped before it."""
    app = of.flow_spec(flow)["app"]
    given = 0 if app["kind"] == "transfers" else app.get("params", {}).get("bytes") or 0
    columns = ("bytes_received", "started_s", "finished_s")
    return _core.completion_s(float(given), *(_total(tables, flow, column) for column in columns))


def retransmitted(tables: Tables, flow: int) -> int:
    """Segments retransmitted by either end."""
    return int(_total(tables, flow, "segments_retransmitted") + _total(tables, flow, "back_segments_retransmitted"))


def _total(tables: Tables, flow: int, column: str) -> float:
    flows = tables["flows"]
    if column in _OF_THE_WAY_BACK and column not in flows:
        return 0.0
    return float(flows[column][flow])


def _seen(of: Described, tables: Tables, flow: int) -> Columns | None:
    """Packets of a program's flow, in the direction that carries more, as seen by a live run's emulator.

    None without such rows.
    """
    if of.flow_spec(flow)["app"]["kind"] != "exec" or "captures" not in tables:
        return None
    captures = tables["captures"]
    mine = (np.asarray(captures["flow"]) == flow) & ~np.asarray(captures["copy"], dtype=np.bool_)
    reverse, bytes_ = np.asarray(captures["reverse"], dtype=np.bool_), np.asarray(captures["bytes"], dtype=np.float64)
    mine &= reverse == (np.sum(bytes_[mine & reverse]) > np.sum(bytes_[mine & ~reverse]))
    return {name: np.asarray(captures[name])[mine] for name in ("bytes", "fate")}


def _fate(seen: Columns, word: str) -> Any:
    return seen["fate"] == schema.code("captures", "fate", word)
