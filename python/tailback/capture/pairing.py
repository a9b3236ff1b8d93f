"""Two captures of the same traffic: one-way delay, loss, duplication, reordering, clocks, and RTT by packet pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback import _core
from tailback.capture.reading import CaptureError, FilePath, call, choose, flow_frame, notes_of, read
from tailback.metrics.pairs import pair_up

Integers = npt.NDArray[np.int64]

#: The drift of two clocks is fitted to the smallest delays of so many windows.
WINDOWS = 40
#: What is done to the second capture's stamps before delays are computed.
CORRECTIONS = ("none", "offset", "drift")


@dataclass(frozen=True)
class Clocks:
    """The second capture's clock less the first's: `offset_s` at the first pair, and its growth `drift_ppm`.

    The smallest delay each way is taken as equal, so a path that is longer one way shifts `offset_s` by half the
    difference; `uncertainty_s` is half the smallest round trip, by which it can be wrong at most. All are NaN unless
    packets were seen in both directions; `drift_ppm` needs ten seconds.
    """

    offset_s: float
    drift_ppm: float
    uncertainty_s: float


@dataclass(frozen=True)
class Delays:
    """What `owd` found."""

    #: A row a direction of a flow.
    table: pl.DataFrame
    clocks: Clocks
    #: What people should know: counts of what could not be paired, and why.
    notes: tuple[str, ...]
    #: A row a pair, if asked for: `flow`, `reverse`, `a_ns`, `b_ns`, `bytes`.
    pairs: Mapping[str, npt.NDArray[Any]] | None
    flows: pl.DataFrame
    info: Mapping[str, Any]


def owd(
    first: FilePath,
    second: FilePath | None = None,
    *,
    rows: bool = False,
    correct: str = "none",
    horizon_s: float = 60.0,
) -> Delays:
    """One-way delays between two captures, by pairing packets; or within one capture that holds each packet twice.

    Packets are paired by a hash of what routers leave alone: addresses, ports, IP identification, lengths, TCP numbers,
    flags and timestamps, or the first twelve bytes of another payload. `table` has a row a direction of a flow:
    `from_to` is "A>B" or "B>A"; `paired`, `lost` (seen where it comes from and not where it goes to), `duplicated`,
    `reordered`; `min_ms`, `p05_ms` … `p99_ms`, `max_ms`, `mean_ms`. `correct` takes the estimated offset, or offset and
    drift, of the second clock away. Raises `CaptureError`, with counts, if nothing can be paired.
    """
    if correct not in CORRECTIONS:
        raise CaptureError(f'correct = "{correct}": there is {", ".join(CORRECTIONS)}')
    if second is not None and Path(first).resolve() == Path(second).resolve():
        raise CaptureError(f"{second} is given twice. For a capture that holds each packet twice give it once")
    found = call(
        _core.capture_pair, Path(first), None if second is None else Path(second),
        horizon_ns=round(horizon_s * 1e9), rows=rows or correct == "drift",
    )  # fmt: skip
    info = found["info"]
    flows = flow_frame(found["flows"])
    delays = pl.DataFrame(dict(found["delays"]))
    if not info["pairs"]:
        raise CaptureError(_nothing(Path(first), info))
    is_single = second is None
    clocks, forward = _clocks(delays, found.get("pairs"), is_single)
    shift_ns = 0.0 if correct == "none" or np.isnan(clocks.offset_s) else clocks.offset_s * 1e9
    if correct != "none" and np.isnan(clocks.offset_s):
        raise CaptureError("the clocks cannot be compared: no flow was seen in both directions at both points")
    if correct == "drift":
        delays = _without_drift(found["pairs"], clocks, delays)
    table = _table(delays, pl.DataFrame(dict(found["counts"])), flows, forward, shift_ns)
    notes = _notes(first, second, info, table, clocks, correct)
    return Delays(table, clocks, tuple(notes), found.get("pairs") if rows else None, flows, info)


def _nothing(path: Path, info: Mapping[str, Any]) -> str:
    short = info["short"][0]
    cut = f" {short:,} of them were cut too short to tell." if short else ""
    return f"{path}: none of {info['packets']:,} packets occurs twice.{cut} Give two captures: tailback pcap owd A B"


def _clocks(delays: pl.DataFrame, pairs: Any, is_single: bool) -> tuple[Clocks, npt.NDArray[np.bool_]]:
    """The clocks, and for each row of `delays` whether it goes from the first point to the second."""
    lowest, highest = delays["min_ns"].to_numpy(), delays["max_ns"].to_numpy()
    middle = delays["p50_ns"].to_numpy()
    none = Clocks(float("nan"), float("nan"), float("nan"))
    if is_single:
        return none, np.ones(len(middle), dtype=np.bool_)
    both = delays.group_by("flow").agg(pl.col("p50_ns").max().alias("high"), pl.col("p50_ns").min().alias("low"),
                                       pl.len().alias("ways")).filter(pl.col("ways") == 2)  # fmt: skip
    if both.is_empty():
        # One way only: the clocks are taken as they are.
        return none, middle >= 0
    joined = delays.join(both, on="flow", how="left", maintain_order="left")
    is_up = (joined["p50_ns"] == joined["high"]).fill_null(False).to_numpy()
    is_down = (joined["p50_ns"] == joined["low"]).fill_null(False).to_numpy() & ~is_up
    if not is_down.any():
        # Both ways take equally long, as at one and the same point.
        return none, middle >= 0
    least, most = float(lowest[is_up].min()), float(highest[is_down].max())
    offset = (least + most) / 2.0
    forward = np.where(is_up | is_down, is_up, middle >= offset)
    drift = _drift(pairs, delays, forward) if pairs is not None else float("nan")
    return Clocks(offset * 1e-9, drift, max(0.0, (least - most) / 2.0) * 1e-9), forward


def _drift(pairs: Mapping[str, Any], delays: pl.DataFrame, forward: npt.NDArray[np.bool_]) -> float:
    """Parts per million by which the second clock gains, from the smallest delays each way in windows of time."""
    a_ns = np.asarray(pairs["a_ns"]).astype(np.int64)
    difference = np.asarray(pairs["b_ns"]).astype(np.int64) - a_ns
    span = int(a_ns.max() - a_ns.min()) if len(a_ns) else 0
    if span < 10 * 10**9:
        return float("nan")
    key = np.asarray(pairs["flow"]).astype(np.int64) * 2 + np.asarray(pairs["reverse"])
    ups = delays.filter(pl.Series(forward)).select(key=pl.col("flow").cast(pl.Int64) * 2 + pl.col("reverse"))
    is_up = np.isin(key, ups["key"].to_numpy())
    window = np.minimum((a_ns - a_ns.min()) * WINDOWS // (span + 1), WINDOWS - 1)
    times, middles = [], []
    for number in range(WINDOWS):
        here = window == number
        up, down = difference[here & is_up], difference[here & ~is_up]
        if len(up) and len(down):
            times.append((number + 0.5) * span / WINDOWS)
            middles.append((float(up.min()) + float(down.max())) / 2.0)
    if len(times) < WINDOWS // 4:
        return float("nan")
    from scipy.stats import theilslopes

    return float(theilslopes(middles, times)[0]) * 1e6


def _without_drift(pairs: Mapping[str, Any], clocks: Clocks, delays: pl.DataFrame) -> pl.DataFrame:
    if np.isnan(clocks.drift_ppm):
        raise CaptureError("the drift of the clocks cannot be measured: it needs ten seconds with packets both ways")
    a_ns = np.asarray(pairs["a_ns"]).astype(np.int64)
    since = (a_ns - a_ns.min()).astype(np.float64)
    # The offset was taken over the whole time: half way through it is right.
    gained = (since - since.max() / 2.0) * clocks.drift_ppm * 1e-6
    difference = (np.asarray(pairs["b_ns"]).astype(np.int64) - a_ns).astype(np.float64) - gained
    frame = pl.DataFrame({"flow": pairs["flow"], "reverse": pairs["reverse"], "ns": difference})
    shares = [int(name[1:3]) / 100 for name in delays.columns if name.startswith("p") and name.endswith("_ns")]
    figures = [pl.col("ns").quantile(share).alias(f"p{round(share * 100):02d}_ns") for share in shares]
    figures += [
        pl.col("ns").min().alias("min_ns"),
        pl.col("ns").max().alias("max_ns"),
        pl.col("ns").mean().alias("mean_ns"),
    ]
    new = frame.group_by("flow", "reverse").agg(*figures)
    return (
        delays.select("flow", "reverse").join(new, on=["flow", "reverse"], maintain_order="left").select(delays.columns)
    )


def _table(
    delays: pl.DataFrame, counts: pl.DataFrame, flows: pl.DataFrame, forward: npt.NDArray[np.bool_], shift_ns: float
) -> pl.DataFrame:
    up = pl.col("up")
    milli = [
        pl.when(up).then(pl.col(low) - shift_ns).otherwise(shift_ns - pl.col(high)).cast(pl.Float64).mul(1e-6)
        .alias(low.replace("_ns", "_ms"))
        for low, high in _mirrored(delays)
    ]  # fmt: skip
    told = (
        delays.with_columns(up=pl.Series(forward))
        .join(counts, on=["flow", "reverse"], how="left", maintain_order="left")
        .join(flows.select("flow", "name"), on="flow", how="left", maintain_order="left")
        .with_columns(*milli)
        .with_columns(
            from_to=pl.when(up).then(pl.lit("A>B")).otherwise(pl.lit("B>A")),
            lost=pl.when(up).then("only_a").otherwise("only_b"),
            appeared=pl.when(up).then("only_b").otherwise("only_a"),
            duplicated=pl.when(up).then("again_b").otherwise("again_a"),
            reordered=pl.when(up).then("overtaken_b").otherwise("overtaken_a"),
        )
    )
    figures = [low.replace("_ns", "_ms") for low, _ in _mirrored(delays)]
    order = ["min_ms", *sorted(name for name in figures if name.startswith("p")), "max_ms", "mean_ms"]
    return told.select(
        "flow", "reverse", "name", "from_to", "paired", "lost", "duplicated", "reordered", "appeared", *order
    )


def _mirrored(delays: pl.DataFrame) -> list[tuple[str, str]]:
    """Each figure with the one that takes its place when time is counted the other way."""
    shares = [name for name in delays.columns if name.startswith("p") and name.endswith("_ns")]
    known = {int(name[1:3]): name for name in shares}
    out = [("min_ns", "max_ns"), ("max_ns", "min_ns"), ("mean_ns", "mean_ns")]
    return out + [(name, known[100 - share]) for share, name in known.items()]


def _notes(
    first: FilePath, second: FilePath | None, info: Mapping[str, Any], table: pl.DataFrame, clocks: Clocks, correct: str
) -> list[str]:
    out = []
    for which, path in enumerate([first, *([] if second is None else [second])]):
        one = dict(info) | {"trouble": None} if which == 0 else {"packets": info["second_packets"]}
        out += notes_of(Path(path), one, info["trouble"][which])
        if info["short"][which]:
            out.append(
                f"{Path(path).name}: {info['short'][which]:,} packets were cut too short to pair; capture 96 bytes"
            )
        if info["outside"][which]:
            out.append(f"{Path(path).name}: {info['outside'][which]:,} packets passed while only it was running")
    if info["strangers"]:
        out.append(f"{info['strangers']:,} packets of the second capture belong to no flow of the first")
    if info["crowded"]:
        out.append(f"{info['crowded']:,} packets were given up early: too many waited for their other sighting")
    if second is None:
        return out
    if not np.isnan(clocks.offset_s):
        drift = "" if np.isnan(clocks.drift_ppm) else f", drifting by {clocks.drift_ppm:+.2f} ppm"
        what = {"none": "left as they are", "offset": "corrected by that", "drift": "corrected by both"}[correct]
        out.append(
            f"clocks: the second is {clocks.offset_s * 1e3:+.6f} ms ahead ± {clocks.uncertainty_s * 1e3:.6f} ms if the "
            f"path is equally long both ways{drift}; stamps are {what}"
        )
    spread = (table["max_ms"] - table["min_ms"]).to_numpy()
    if len(spread) and float(np.abs(table["max_ms"].to_numpy()).max()) < 0.001 and float(spread.max()) < 0.001:
        out.append("no packet took a microsecond: these look like two captures at the same point")
    if correct == "none" and (table["min_ms"] < 0).any():
        out.append("some delays are negative: the clocks differ. Take the offset away with --correct offset")
    return out


def rtt(
    first: FilePath, second: FilePath | None = None, *, flow: int | str | None = None, method: str = "karn"
) -> pl.DataFrame:
    """Round trips as a row a sample: `t_s` since the first packet, `flow`, `direction`, `rtt_s`.

    With one capture, from that point to the other end and back, as tcptrace takes them (`method` "karn": exact ACKs of
    segments sent once) or by the timestamp option ("timestamps"). With two, at the first point by synthetic packet
    pairs in both directions, without a common clock: "A>B" counts from the first point, "B>A" from the second. Raises
    `CaptureError`.
    """
    if second is not None:
        return _synthetic(first, second, flow)
    if method not in ("karn", "timestamps"):
        raise CaptureError(f'method = "{method}": there is "karn" and "timestamps"')
    found = read(first) if flow is None else None
    only = [] if flow is None else [choose((found or read(first)).flows, flow)]
    reading = read(first, segments=True, only=only)
    rows = reading.segments
    column = "rtt_ns" if method == "karn" else "stamp_rtt_ns"
    taken = np.flatnonzero(np.asarray(rows[column]) > 0)
    names = reading.flows["name"].to_list()
    return pl.DataFrame(
        {
            "t_s": (np.asarray(rows["t_ns"])[taken] - np.uint64(reading.info["first_ns"])) * 1e-9,
            "flow": [names[number] for number in np.asarray(rows["flow"])[taken]],
            # An ACK from the server times what the client sent.
            "direction": np.where(np.asarray(rows["reverse"])[taken], "client", "server"),
            "rtt_s": np.asarray(rows[column])[taken] * 1e-9,
        }
    )


def _synthetic(first: FilePath, second: FilePath, flow: int | str | None) -> pl.DataFrame:
    found = owd(first, second, rows=True)
    assert found.pairs is not None
    pairs = {key: np.asarray(column) for key, column in found.pairs.items()}
    start = found.info["first_ns"]
    wanted = [choose(found.flows, flow)] if flow is not None else found.flows["flow"].to_list()
    up = {(row["flow"], row["reverse"]): row["from_to"] == "A>B" for row in found.table.iter_rows(named=True)}
    out: dict[str, list[Any]] = {"t_s": [], "flow": [], "direction": [], "rtt_s": []}
    for number in wanted:
        mine = pairs["flow"] == number
        is_up = np.array([up.get((number, bool(back)), False) for back in (False, True)])[
            pairs["reverse"][mine].astype(int)
        ]
        a = (pairs["a_ns"][mine].astype(np.int64) - start) * 1e-9
        b = (pairs["b_ns"][mine].astype(np.int64) - start) * 1e-9
        if is_up.all() or not is_up.any():
            continue
        for label, near, far, leaves in (("A>B", a, b, is_up), ("B>A", b, a, ~is_up)):
            t, values = pair_up(near[leaves], far[leaves], near[~leaves], far[~leaves])
            out["t_s"] += t.tolist()
            out["rtt_s"] += values.tolist()
            out["flow"] += [found.flows["name"][number]] * len(t)
            out["direction"] += [label] * len(t)
    if not out["t_s"]:
        raise CaptureError("no flow was seen in both directions at both points, so no pairs can be formed")
    return pl.DataFrame(out)
