"""Judges the study voip-latency from captures alone: its runs are captured at both ends.

What a capture does not show is inferred: the window from the flight, the backlog from the delay of the download's
packets, drops from packets that did not arrive. The path itself (rate, queue limit) is known, as it was in the testbed.
Claims that need the queue's own log (000-L2, 000-L10) cannot be judged so and are left out.

    PYTHONPATH=validation .venv/bin/python -m tailback_validation.from_captures
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tailback as tb
from tailback import capture
from tailback.capture.window import largest_before
from tailback.experiment import Cell, Data, Summary
from tailback.experiment.claims import judge
from tailback.result import Result, schema

Array = npt.NDArray[Any]

#: The paths of the study's own quick grid.
QUICK = True
POINTS = ("left", "right")
#: Claims that need each event of the queue.
NEED_THE_QUEUE = ("000-L2", "000-L10")
_DROP, _FULL = schema.code("queue", "event", "drop"), schema.code("queue", "reason", "queue-full")
_RECOVERY = schema.code("polls", "phase", "recovery")
_FRAME_BYTES = 1500


def rows_of(result: Result, files: Sequence[Path]) -> Result:
    """A result with the run's description, and with tables derived only from the two captures."""
    opened = capture.open_capture(*files)
    number = {f"10.0.{index}.1": index for index in range(len(result.flow_names))}
    of = np.array([number[name.split(":")[0]] for name in opened.flow_names])
    packets = _renumbered(opened, "packets", of)
    flows = _renumbered(opened, "flows", of)
    order = np.argsort(flows["flow"])
    resolved = dict(result.resolved)
    # There is no log of the queue.
    resolved["instruments"] = dict(resolved["instruments"]) | {"queues": [], "segments": [], "captures": []}
    start = float(opened.meta["capture"]["epoch_ns"]) * 1e-9
    for key in ("sent_s", "received_s"):
        packets[key] = packets[key] + start
    congestion = _renumbered(opened, "congestion", of)
    congestion["t_s"] = congestion["t_s"] + start
    link = result.link_index("bottleneck")
    interval = float(result.resolved["instruments"]["poll_interval_ps"]) * 1e-12
    times = np.arange(interval, result.duration_s, interval)
    tables: dict[str, Any] = {
        "flows": {name: column[order] for name, column in flows.items()},
        "packets": packets,
        "congestion": congestion,
        "polls": _polls(opened, of, times, start, congestion),
        **_queue(packets, times, link, result.rate_bps(link)),
        "_names": {},
    }
    tables["links"] = _links(result, packets, link)
    return Result(resolved=resolved, toml=result.toml, tables=tables, meta=result.meta)


def _renumbered(opened: Result, table: str, of: Array) -> dict[str, Array]:
    columns = {name: np.array(column) for name, column in opened.numpy(table).items()}
    columns["flow"] = of[columns["flow"]].astype(np.uint32)
    order = np.argsort(columns["flow"], kind="stable") if table == "packets" else slice(None)
    return {name: column[order] for name, column in columns.items()}


def _polls(
    opened: Result, of: Array, times: Array, start: float, congestion: Mapping[str, Array]
) -> Mapping[str, Array]:
    """The download's state at the polls: the estimated window, and the acknowledged bytes."""
    it = opened.numpy("segments")
    mine = of[it["flow"]] == 0
    t = it["t_s"][mine] + start
    own = it["outgoing"][mine] & (it["length"][mine] > 0)
    acks = ~it["outgoing"][mine]
    srtt = it["srtt_s"][mine]
    known = np.isfinite(srtt)
    rtt = np.interp(times, t[known], srtt[known])
    span = float(np.nanmedian(srtt))
    window = largest_before(t[own], it["cwnd"][mine][own].astype(float), span)
    place = np.clip(np.searchsorted(t[own], times, side="right") - 1, 0, None)
    reached = np.maximum.accumulate(it["ack"][mine][acks])
    at = np.searchsorted(t[acks], times, side="right") - 1
    acked = np.where(at >= 0, reached[np.maximum(at, 0)], 0)
    phase = np.zeros(len(times), dtype=np.uint8)
    kinds = {word: schema.code("congestion", "kind", word) for word in ("recovery-entered", "recovery-left")}
    begun = congestion["t_s"][congestion["kind"] != kinds["recovery-left"]]
    over = congestion["t_s"][congestion["kind"] == kinds["recovery-left"]]
    for first in begun:
        later = over[over > first]
        phase[(times >= first) & (times < (later[0] if len(later) else np.inf))] = _RECOVERY
    started = times >= (t[own][0] if own.any() else 0.0)
    return schema.table("polls").filled(
        int(started.sum()), t_s=times[started], flow=0, cwnd=window[place][started].astype(np.uint64),
        ssthresh=np.full(int(started.sum()), np.nan), srtt_s=rtt[started], rtt_s=rtt[started],
        bytes_acked=acked[started], bytes_received=acked[started], bytes_arrived=acked[started], phase=phase[started],
    )  # fmt: skip


def _queue(packets: Mapping[str, Array], times: Array, link: int, rate_bps: float) -> dict[str, Mapping[str, Array]]:
    """The backlog met by the download's packets, from their extra delay and the link's rate; and drops."""
    mine = (packets["flow"] == 0) & np.isfinite(packets["received_s"]) & (packets["bytes"] == _FRAME_BYTES)
    order = np.argsort(packets["sent_s"][mine])
    sent = packets["sent_s"][mine][order]
    delay = (packets["received_s"] - packets["sent_s"])[mine][order]
    # The smallest delay includes one packet's own transmission; that packet met an empty queue.
    met = np.maximum(delay - delay.min(), 0.0) * rate_bps / 8
    there = times >= sent[0]
    # Since the last packet came, itself included, the queue has drained at the link's rate.
    last = np.searchsorted(sent, times[there], side="right") - 1
    backlog = np.maximum(met[last] + _FRAME_BYTES - rate_bps / 8 * (times[there] - sent[last]), 0.0)
    polls = schema.table("queue_polls").filled(
        int(there.sum()), t_s=times[there], link=link, backlog_bytes=backlog.astype(np.uint64),
        backlog_packets=(backlog / _FRAME_BYTES).astype(np.uint32),
    )  # fmt: skip
    lost = packets["fate"] == schema.code("packets", "fate", "dropped")
    when = np.argsort(packets["sent_s"][lost], kind="stable")
    t_s = packets["sent_s"][lost][when]
    full = np.interp(t_s, sent, met)
    drops = schema.table("queue").filled(
        len(t_s), t_s=t_s, link=link, event=_DROP, reason=_FULL, flow=packets["flow"][lost][when],
        bytes=packets["bytes"][lost][when], backlog_bytes=full.astype(np.uint64),
    )  # fmt: skip
    return {"queue_polls": polls, "queue": drops}


def _links(result: Result, packets: Mapping[str, Array], link: int) -> Mapping[str, Array]:
    count = len(result.link_names)
    here = np.arange(count) == link
    arrived = np.isfinite(packets["received_s"])
    dropped = packets["fate"] == schema.code("packets", "fate", "dropped")
    carried = float(packets["bytes"][arrived].sum())
    return schema.table("links").filled(
        count, link=np.arange(count), arrived=np.where(here, len(arrived), 0), dropped=np.where(here, dropped.sum(), 0),
        delivered=np.where(here, arrived.sum(), 0), delivered_bytes=np.where(here, carried, 0),
        busy_s=np.where(here, 8 * carried / result.rate_bps(link), 0.0),
    )  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """One claim, judged from the run's rows and from captures."""

    claim: str
    rows: str
    captures: str
    rows_value: str
    captures_value: str

    @property
    def is_same(self) -> bool:
        """Whether both verdicts are equal."""
        return self.rows == self.captures


def both(cell: Cell, extract: Any) -> tuple[Summary, Summary]:
    """A cell's summaries, from its rows and from captures."""
    wanted = cell.scenario.with_({"instruments.captures": list(POINTS), "seed": 1})
    result = tb.run(wanted)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{point}.pcapng" for point in POINTS]
        for point, file in zip(POINTS, files, strict=True):
            capture.export(result, point, file, snap=96)
        seen = rows_of(result, files)
    return extract(cell, result), extract(cell, seen)


def compare(announce: Any = print) -> tuple[list[Compared], dict[str, tuple[Summary, Summary]]]:
    """Every claim that the quick grid can measure, judged both ways; and the summaries."""
    from tailback_papers.voip_latency import STUDY

    cells = list(STUDY.grid(QUICK))
    found: dict[str, tuple[Summary, Summary]] = {}
    for number, cell in enumerate(cells, start=1):
        found[cell.key] = both(cell, STUDY.extract)
        announce(f"{number} of {len(cells)}: {cell.key}")
    by_key = {cell.key: cell for cell in cells}
    data = [Data(by_key, {(key, 1): pair[which] for key, pair in found.items()}, (1,)) for which in (0, 1)]
    out = []
    for claim in STUDY.claims:
        if claim.id in NEED_THE_QUEUE:
            continue
        rows = judge(claim, data[0])
        if not rows.values:
            continue
        seen = judge(claim, data[1])
        out.append(Compared(claim.id, rows.verdict, seen.verdict, rows.ours, seen.ours))
    return out, found


def main() -> None:
    """Print a table; the exit status is 0 if every verdict is the same."""
    compared, found = compare(lambda text: print(text, file=sys.stderr, flush=True))
    for it in compared:
        same = "same" if it.is_same else "NOT THE SAME"
        print(f"{it.claim:9} rows: {it.rows} ({it.rows_value}); captures: {it.captures} ({it.captures_value}); {same}")
    delays = [(a["delay_ms"], b["delay_ms"]) for a, b in found.values() if a["delay_ms"] and b["delay_ms"]]
    worst = max(abs(rows[q] - seen[q]) for rows, seen in delays for q in (10, 100, 190))
    alike = sum(it.is_same for it in compared)
    print(f"{alike} of {len(compared)} verdicts are the same; delays (5, 50, 95 %) differ by {worst:.3f} ms at most")
    raise SystemExit(alike != len(compared))


if __name__ == "__main__":
    main()
