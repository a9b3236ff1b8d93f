"""Flows and throughput of a capture, read in one pass by Rust, as tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback import _core
from tailback.errors import TailbackError, nearest

FilePath = str | os.PathLike[str]
Columns = Mapping[str, npt.NDArray[Any]]

#: Names of IP protocols with ports, and of other common ones.
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}
NO_SCALE = 255


class CaptureError(TailbackError, ValueError):
    """A file that is not a capture, captures that do not match, or a flow that they lack."""


def call(function: Any, *args: Any, **options: Any) -> Any:
    """Call a function of the compiled core; its errors about a file are raised as `CaptureError`."""
    try:
        return function(*args, **options)
    except _core.CaptureError as error:
        raise CaptureError(str(error)) from None


@dataclass(frozen=True)
class Reading:
    """The result of one pass over a capture."""

    path: Path
    flows: pl.DataFrame
    info: dict[str, Any]
    segments: Columns = field(default_factory=dict)
    blocks: Columns = field(default_factory=dict)
    datagrams: Columns = field(default_factory=dict)
    bins: Columns = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """Notes on this capture, with counts: broken or truncated parts, and what was left out."""
        return notes_of(self.path, self.info)


def notes_of(path: Path, info: Mapping[str, Any], trouble: str | None = None) -> list[str]:
    """Notes on a capture, with counts."""
    out = []
    trouble = trouble or info.get("trouble")
    if trouble:
        out.append(f"{path.name}: partial: {trouble}; {info['packets']:,} packets before that count")
    for key, text in (
        ("broken", "frames had no readable IP header"),
        ("unknown_link", "frames are of a kind of link that is not known"),
        ("headless", "packets were cut before their ports; capture at least 96 bytes (tcpdump -s 96)"),
        ("orphans", "fragments came without their first part and belong to no flow"),
        ("oversize", "packets are larger than 1500 bytes: the card or kernel had joined or not yet cut them "
                     "(ethtool -K DEVICE gro off gso off tso off)"),
        ("backwards", "stamps are earlier than the one before"),
        ("too_many_rows", "rows were left out: too many"),
    ):  # fmt: skip
        if info.get(key):
            out.append(f"{path.name}: {info[key]:,} {text}")
    return out


def read(path: FilePath, **wanted: Any) -> Reading:
    """Read a capture in one pass; `wanted` as for `_core.capture_read`."""
    found = call(_core.capture_read, Path(path), **wanted)
    return Reading(
        Path(path), flow_frame(found["flows"]), found["info"],
        found["segments"], found["blocks"], found["datagrams"], found["bins"],
    )  # fmt: skip


def flow_frame(columns: Mapping[str, Any]) -> pl.DataFrame:
    """The flow columns as a frame, numbered and named."""
    frame = pl.DataFrame(dict(columns))
    names = [
        name_of(row["client"], row["client_port"], row["server"], row["server_port"], row["protocol"])
        for row in frame.select("client", "client_port", "server", "server_port", "protocol").iter_rows(named=True)
    ]
    # A later connection may reuse the same ports.
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            names[index] = f"{name}#{seen[name]}"
    return frame.insert_column(0, pl.Series("name", names, dtype=pl.String)).insert_column(
        0, pl.Series("flow", np.arange(len(names), dtype=np.uint32))
    )


def name_of(client: str, client_port: int, server: str, server_port: int, protocol: int) -> str:
    """The name of a flow: `10.0.0.1:32768>10.0.0.2:5001/tcp`."""
    word = PROTOCOLS.get(protocol, str(protocol))
    if not client_port and not server_port:
        return f"{client}>{server}/{word}"
    ends = [f"[{host}]" if ":" in host else host for host in (client, server)]
    return f"{ends[0]}:{client_port}>{ends[1]}:{server_port}/{word}"


def choose(frame: pl.DataFrame, flow: int | str | None) -> int:
    """The number of a flow given by number or name; by default, the TCP flow with the most payload."""
    if flow is None:
        tcp = frame.filter(pl.col("protocol") == 6)
        if tcp.is_empty():
            raise CaptureError(f"there is no TCP connection among the {len(frame)} flows")
        return int(tcp.sort(pl.col("payload") + pl.col("back_payload"), descending=True)["flow"][0])
    names = frame["name"].to_list()
    if isinstance(flow, int) or flow.isdecimal():
        if not 0 <= int(flow) < len(names):
            raise CaptureError(f"there is no flow {flow}: there are {len(names)}, counted from 0 (tailback pcap flows)")
        return int(flow)
    if flow in names:
        return names.index(flow)
    close = nearest(flow, names)
    raise CaptureError(f"there is no flow {flow}." + (f" Did you mean {close}?" if close else ""))


def flows(path: FilePath) -> pl.DataFrame:
    """The flows of a capture, in order of appearance: addresses, times, volume, and TCP's behaviour.

    One row per flow: values for the client's packets and, with the prefix `back_`, for the server's. Columns are
    `packets`, `bytes` (IP), `payload`, `retransmitted` packets (`repeated`: bytes seen here before, `repaired`: lost
    before this point), `out_of_order`, `duplicate_acks`, `flight_max`, `quic` (its beginning says so), and the options
    of its SYN. `data_segments` and `retransmitted_segments` count a segment that a card has yet to cut as what it is
    cut into. `loss` is the latter over the former: an estimate. RTTs are in seconds from this point to the other end
    and back: `rtt_*` by Karn's rule as tcptrace, but none across a repair; `stamp_rtt_*` by timestamps. Raises
    `CaptureError`.

    >>> import tailback as tb
    >>> bell = tb.dumbbell(rate="5mbit", rtt="40ms", flows=[tb.bulk()], duration="2s")
    >>> result = tb.run(bell.with_({"instruments.captures": ["left"]}))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     count = tb.capture.export(result, "left", f"{folder}/left.pcapng")
    ...     found = tb.capture.flows(f"{folder}/left.pcapng")
    >>> found["name"][0], found["retransmitted"][0] == result.table("flows")["segments_retransmitted"][0]
    ('10.0.0.1:32768>10.0.0.2:5001/tcp', True)
    """
    return derived(read(path).flows)


def derived(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that follow from others: start, duration, goodput and loss."""
    first = frame["first_ns"].min()
    start = pl.col("first_ns") - (first if isinstance(first, int) else 0)
    duration = (pl.col("last_ns") - pl.col("first_ns")).cast(pl.Float64) * 1e-9
    out = frame.with_columns(start_s=start.cast(pl.Float64) * 1e-9, duration_s=duration)
    for side in ("", "back_"):
        fresh = pl.col(f"{side}payload") - pl.col(f"{side}retransmitted_bytes")
        again, data = pl.col(f"{side}retransmitted_segments"), pl.col(f"{side}data_segments")
        out = out.with_columns(
            pl.when(pl.col("duration_s") > 0).then(8.0 * fresh / pl.col("duration_s")).alias(f"{side}goodput_bps"),
            pl.when((pl.col("protocol") == 6) & (data > 0)).then(again / data).alias(f"{side}loss"),
        )
    return out


def throughput(path: FilePath, *, bin_s: float = 1.0, by: str = "flow") -> pl.DataFrame:
    """IP bytes and packets in bins, as tcpstat counts them: all packets, retransmissions included.

    One row per bin that is not empty: `t_s` (its beginning, since the first packet), `who`, `packets`, `bytes`,
    `bps`. `by` is "flow" (each direction), "host" (what each address sent), or "all". Bins are aligned to the first
    packet. Raises `CaptureError`.
    """
    if by not in ("flow", "host", "all"):
        raise CaptureError(f'by = "{by}": there is "flow", "host" and "all"')
    if not bin_s > 0:
        raise CaptureError(f"a bin of {bin_s} s: give a time above zero")
    found = read(path, bin_ns=max(1, round(bin_s * 1e9)))
    bins = pl.DataFrame(dict(found.bins)).join(found.flows.select("flow", "name", "client", "server"), on="flow")
    words: dict[str, Any] = {
        "flow": pl.when(pl.col("reverse")).then(pl.col("name") + " back").otherwise(pl.col("name")),
        "host": pl.when(pl.col("reverse")).then(pl.col("server")).otherwise(pl.col("client")),
        "all": pl.lit("all"),
    }
    sums = (
        bins.with_columns(who=words[by]).group_by("bin", "who").agg(pl.col("packets").sum(), pl.col("bytes").sum())
    ).sort("bin", "who")
    return sums.select(
        t_s=pl.col("bin").cast(pl.Float64) * bin_s, who="who", packets="packets", bytes="bytes",
        bps=8.0 * pl.col("bytes") / bin_s,
    )  # fmt: skip
