"""Two captures of the same traffic: one-way delay, loss, duplication, reordering, clock offset, and RTT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback import _core
from tailback.capture.reading import CaptureError, FilePath, call, choose, flow_frame, notes_of, read
from tailback.metrics.pairs import pair_up

Floats = npt.NDArray[np.float64]

#: Number of time windows; the smallest delay in each determines the drift of two clocks.
WINDOWS = 40
#: Number of bootstrap samples of these windows, for the drift's interval.
_SAMPLES = 400
#: Confidence of that interval.
_WITHIN = 0.95
#: Resolution of timestamps in the coarser formats.
_GRAIN_NS = 1000.0
#: Corrections to the second capture's timestamps before delays are computed.
CORRECTIONS = ("none", "offset", "drift")


@dataclass(frozen=True)
class Clocks:
    """The second capture's clock less the first's: `offset_s`, and its growth `drift_ppm`.

    The smallest delays in both directions are assumed to be equal, so an asymmetric path shifts `offset_s` by half the
    difference. `uncertainty_s` is its largest possible error, half the smallest round trip. All are NaN unless packets
    were seen in both directions. `drift_low_ppm` and `drift_high_ppm` are the drift's 95 % interval, which needs ten
    seconds. `drift_ppm` is NaN if the interval contains 0, because a filling queue looks like a clock that gains.
    """

    offset_s: float
    drift_ppm: float
    uncertainty_s: float
    drift_low_ppm: float = float("nan")
    drift_high_ppm: float = float("nan")


@dataclass(frozen=True)
class Delays:
    """The result of `owd`."""

    #: One row per direction of a flow.
    table: pl.DataFrame
    clocks: Clocks
    #: Notes: counts of packets that could not be paired, and why.
    notes: tuple[str, ...]
    #: One row per pair, if requested: `flow`, `reverse`, `a_ns`, `b_ns` (without drift, if that is corrected), `bytes`.
    pairs: Mapping[str, npt.NDArray[Any]] | None
    flows: pl.DataFrame
    info: Mapping[str, Any]
    #: One row per packet seen at only one point: `flow`, `reverse`, `t_ns`, `bytes`, `second` (its point is the
    #: second).
    lost: Mapping[str, npt.NDArray[Any]] | None = None
    #: Nanoseconds that the correction takes from the second capture's times, besides the drift.
    shift_ns: int = 0

    def packets(self) -> dict[str, npt.NDArray[Any]]:
        """One row per packet, if requested: `flow`, `reverse`, `bytes`, `sent_ns`, `received_ns`, `is_lost`.

        Both directions: a packet is sent at the first point of its direction, and lost if the other did not see it.
        Times are corrected.
        """
        assert self.pairs is not None
        assert self.lost is not None
        pairs, alone = ({key: np.asarray(it) for key, it in rows.items()} for rows in (self.pairs, self.lost))
        ups = self.table.filter(pl.col("from_to") == "A>B").select(
            key=pl.col("flow").cast(pl.Int64) * 2 + pl.col("reverse")
        )

        def is_up(rows: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
            return np.isin(rows["flow"].astype(np.int64) * 2 + rows["reverse"], ups["key"].to_numpy())

        alone = {key: it[alone["second"] != is_up(alone)] for key, it in alone.items()}
        up, a_ns, b_ns = is_up(pairs), pairs["a_ns"].astype(np.int64), pairs["b_ns"].astype(np.int64) - self.shift_ns
        gone_ns = alone["t_ns"].astype(np.int64) - np.where(alone["second"], self.shift_ns, 0)
        return {
            **{key: np.concatenate([pairs[key], alone[key]]) for key in ("flow", "reverse", "bytes")},
            "sent_ns": np.concatenate([np.where(up, a_ns, b_ns), gone_ns]),
            "received_ns": np.concatenate([np.where(up, b_ns, a_ns), gone_ns]),
            "is_lost": np.repeat([False, True], [len(up), len(gone_ns)]),
        }


def owd(
    first: FilePath,
    second: FilePath | None = None,
    *,
    rows: bool = False,
    correct: str = "none",
    horizon_s: float = 60.0,
) -> Delays:
    """One-way delays between two captures, by pairing packets; or within one capture that holds each packet twice.

    Packets are paired by a hash of fields that routers do not change: addresses, ports, IP identification, lengths, TCP
    numbers, flags and timestamps, or the first twelve bytes of another payload. `table` has one row per direction of a
    flow: `from_to` is "A>B" or "B>A". `lost` counts packets seen at the first point of their direction and not at the
    second, though a later packet of the flow arrived. Other columns are `paired`, `duplicated`, `reordered`, `min_ms`,
    `p05_ms` … `p99_ms`, `max_ms`, `mean_ms`. `correct` removes the estimated offset, or offset and drift, of the second
    clock. Raises `CaptureError`, with counts, if nothing can be paired, or if the drift to correct may be 0.
    """
    if correct not in CORRECTIONS:
        raise CaptureError(f'correct = "{correct}": there is {", ".join(CORRECTIONS)}')
    if second is not None and Path(first).resolve() == Path(second).resolve():
        raise CaptureError(f"{second} is given twice. For a capture that holds each packet twice give it once")
    found = call(
        _core.capture_pair, Path(first), None if second is None else Path(second),
        horizon_ns=round(horizon_s * 1e9), rows=rows or second is not None,
    )  # fmt: skip
    info = found["info"]
    flows = flow_frame(found["flows"])
    delays = pl.DataFrame(dict(found["delays"]))
    if not info["pairs"]:
        raise CaptureError(_nothing(Path(first), info))
    is_single = second is None
    clocks, forward = _clocks(delays, found.get("pairs"), is_single)
    if correct != "none" and np.isnan(clocks.offset_s):
        raise CaptureError("the clocks cannot be compared: no flow was seen in both directions at both points")
    pairs = found.get("pairs")
    if correct == "drift":
        pairs = _without_drift(pairs, clocks)
        delays = _summaries(pairs, delays)
        clocks = replace(clocks, offset_s=_offset(delays, forward, _has_both(delays))[0] * 1e-9)
    shift_ns = 0.0 if correct == "none" else clocks.offset_s * 1e9
    table = _table(delays, pl.DataFrame(dict(found["counts"])), flows, forward, shift_ns)
    notes = _notes(first, second, info, table, clocks, correct)
    return Delays(
        table, clocks, tuple(notes), pairs if rows else None, flows, info, found.get("lost") if rows else None,
        round(shift_ns),
    )  # fmt: skip


def _nothing(path: Path, info: Mapping[str, Any]) -> str:
    short = info["short"][0]
    cut = f" {short:,} of them were cut too short to match." if short else ""
    return f"{path}: none of {info['packets']:,} packets occurs twice.{cut} Give two captures: tailback pcap owd A B"


def _clocks(delays: pl.DataFrame, pairs: Any, is_single: bool) -> tuple[Clocks, npt.NDArray[np.bool_]]:
    """The clocks; and for each row of `delays`, whether it goes from the first point to the second."""
    middle = delays["p50_ns"].to_numpy()
    none = Clocks(float("nan"), float("nan"), float("nan"))
    if is_single:
        return none, np.ones(len(middle), dtype=np.bool_)
    both = delays.group_by("flow").agg(pl.col("p50_ns").max().alias("high"), pl.col("p50_ns").min().alias("low"),
                                       pl.len().alias("ways")).filter(pl.col("ways") == 2)  # fmt: skip
    if both.is_empty():
        # One direction only: the clocks are not compared.
        return none, middle >= 0
    joined = delays.join(both, on="flow", how="left", maintain_order="left")
    is_up = (joined["p50_ns"] == joined["high"]).fill_null(False).to_numpy()
    is_down = (joined["p50_ns"] == joined["low"]).fill_null(False).to_numpy() & ~is_up
    if not is_down.any():
        # Both directions have the same delay, as at a single point.
        return none, middle >= 0
    offset, uncertainty = _offset(delays, is_up, is_up | is_down)
    forward = np.where(is_up | is_down, is_up, middle >= offset)
    drift, low, high = _drift(pairs, delays, forward) if pairs is not None else (float("nan"),) * 3
    return Clocks(offset * 1e-9, drift, uncertainty * 1e-9, low, high), forward


def _has_both(delays: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """For each row of `delays`, whether its flow was seen in both directions."""
    ways = delays.select(pl.len().over("flow").alias("ways"))["ways"].to_numpy()
    both: npt.NDArray[np.bool_] = ways == 2
    return both


def _offset(delays: pl.DataFrame, is_up: npt.NDArray[np.bool_], counts: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """The second clock's lead in nanoseconds, from the smallest delay in each direction, and its largest error."""
    lowest, highest = delays["min_ns"].to_numpy(), delays["max_ns"].to_numpy()
    least, most = float(lowest[is_up & counts].min()), float(highest[~is_up & counts].max())
    return (least + most) / 2.0, max(0.0, (least - most) / 2.0)


def _drift(
    pairs: Mapping[str, Any], delays: pl.DataFrame, forward: npt.NDArray[np.bool_]
) -> tuple[float, float, float]:
    """The rate in parts per million by which the second clock gains, and its interval.

    If the clock gains, the lower bound of one direction's delays rises, and that of the other direction falls. The line
    is the edge of the convex hull at the middle of the time (Moon, Skelly and Towsley, INFOCOM 1999). A filling queue
    biases the two directions oppositely, so the interval covers both, each with its bootstrap variation over time
    windows. The drift is NaN if the interval contains 0.
    """
    none = (float("nan"),) * 3
    a_ns = np.asarray(pairs["a_ns"]).astype(np.int64)
    difference = np.asarray(pairs["b_ns"]).astype(np.int64) - a_ns
    span = int(a_ns.max() - a_ns.min()) if len(a_ns) else 0
    if span < 10 * 10**9:
        return none
    key = np.asarray(pairs["flow"]).astype(np.int64) * 2 + np.asarray(pairs["reverse"])
    ups = delays.filter(pl.Series(forward)).select(key=pl.col("flow").cast(pl.Int64) * 2 + pl.col("reverse"))
    is_up = np.isin(key, ups["key"].to_numpy())
    since = (a_ns - a_ns.min()).astype(np.float64)
    ways = []
    for chosen, sign in ((is_up, 1.0), (~is_up, -1.0)):
        t, least = _least_by_window(since[chosen], sign * difference[chosen].astype(np.float64), span)
        if len(t) < WINDOWS // 4:
            return none
        slope, low, high = _slope(t, least)
        ways.append((high - low, *sorted((sign * low, sign * high)), sign * slope))
    low, high = min(way[1] for way in ways) * 1e6, max(way[2] for way in ways) * 1e6
    # The direction whose lower bound varies less gives the better line.
    drift = min(ways)[3] * 1e6
    return (float("nan") if low <= 0.0 <= high else drift), low, high


def _least_by_window(t: Floats, values: Floats, span: int) -> tuple[Floats, Floats]:
    """The smallest value in each time window, and its time."""
    window = np.minimum((t * WINDOWS / (span + 1)).astype(np.int64), WINDOWS - 1)
    order = np.lexsort((values, window))
    first = order[np.unique(window[order], return_index=True)[1]]
    return t[first], values[first]


def _slope(t: Floats, values: Floats) -> tuple[float, float, float]:
    """The slope of the line below the points, and its interval."""
    stream = np.random.default_rng(1999)
    slopes = []
    for _ in range(_SAMPLES):
        drawn = np.unique(stream.integers(len(t), size=len(t)))
        if len(drawn) > 2:
            slopes.append(_hull_slope(t[drawn], values[drawn]))
    tail = (1.0 - _WITHIN) / 2.0
    low, high = np.quantile(slopes, [tail, 1.0 - tail])
    grain = _GRAIN_NS / float(t[-1] - t[0])
    return _hull_slope(t, values), float(low) - grain, float(high) + grain


def _hull_slope(t: Floats, values: Floats) -> float:
    """The slope of the lower convex hull's edge at the middle of the time; `t` ascends."""
    hull: list[int] = []
    for place in range(len(t)):
        while len(hull) > 1 and (values[hull[-1]] - values[hull[-2]]) * (t[place] - t[hull[-1]]) >= (
            values[place] - values[hull[-1]]
        ) * (t[hull[-1]] - t[hull[-2]]):
            hull.pop()
        hull.append(place)
    middle = (t[0] + t[-1]) / 2.0
    after = next(number for number in range(1, len(hull)) if t[hull[number]] >= middle)
    one, other = hull[after - 1], hull[after]
    return float((values[other] - values[one]) / (t[other] - t[one]))


def _without_drift(pairs: Mapping[str, Any], clocks: Clocks) -> Mapping[str, Any]:
    """The pairs with the second clock's drift removed, relative to the first pair; the offset remains."""
    if np.isnan(clocks.drift_low_ppm):
        raise CaptureError("the drift of the clocks cannot be measured: it needs ten seconds with packets both ways")
    if np.isnan(clocks.drift_ppm):
        raise CaptureError(
            f"the drift of the clocks may be 0: it is between {clocks.drift_low_ppm:+.1f} and "
            f"{clocks.drift_high_ppm:+.1f} ppm. Take the offset away alone: --correct offset"
        )
    b_ns = np.asarray(pairs["b_ns"])
    since = (b_ns - b_ns.min()).astype(np.float64)
    gained = since * (clocks.drift_ppm * 1e-6 / (1.0 + clocks.drift_ppm * 1e-6))
    return {**pairs, "b_ns": (b_ns.astype(np.int64) - np.round(gained).astype(np.int64)).astype(np.uint64)}


def _summaries(pairs: Mapping[str, Any], delays: pl.DataFrame) -> pl.DataFrame:
    """The rows of `delays` from these pairs."""
    difference = np.asarray(pairs["b_ns"]).astype(np.int64) - np.asarray(pairs["a_ns"]).astype(np.int64)
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
    counted = (
        delays.with_columns(up=pl.Series(forward))
        .join(counts, on=["flow", "reverse"], how="left", maintain_order="left")
        .join(flows.select("flow", "name"), on="flow", how="left", maintain_order="left")
        .with_columns(*milli)
        .with_columns(
            from_to=pl.when(up).then(pl.lit("A>B")).otherwise(pl.lit("B>A")),
            # An equal hash before the first one arrived is another packet; after it, a duplicate.
            lost=pl.when(up)
            .then(pl.col("only_a") + pl.col("early_again_a"))
            .otherwise(pl.col("only_b") + pl.col("early_again_b")),
            appeared=pl.when(up).then("only_b").otherwise("only_a"),
            duplicated=pl.when(up)
            .then(pl.col("again_b") + pl.col("early_again_b"))
            .otherwise(pl.col("again_a") + pl.col("early_again_a")),
            reordered=pl.when(up).then("overtaken_b").otherwise("overtaken_a"),
        )
    )
    figures = [low.replace("_ns", "_ms") for low, _ in _mirrored(delays)]
    order = ["min_ms", *sorted(name for name in figures if name.startswith("p")), "max_ms", "mean_ms"]
    return counted.select(
        "flow", "reverse", "name", "from_to", "paired", "lost", "duplicated", "reordered", "appeared", *order
    )


def _mirrored(delays: pl.DataFrame) -> list[tuple[str, str]]:
    """Each statistic with the one that replaces it when the sign of time is reversed."""
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
        if info["under_way"][which]:
            out.append(
                f"{Path(path).name}: {info['under_way'][which]:,} packets are not counted as lost: no later packet of "
                "their flow arrived, so they may have been under way when the captures ended"
            )
    if info["without_stamps"]:
        out.append(
            "headers were cut before TCP's timestamps, so packets are paired without these; capture 96 bytes "
            "(tcpdump -s 96)"
        )
    if info["strangers"]:
        out.append(f"{info['strangers']:,} packets of the second capture belong to no flow of the first")
    if info["crowded"]:
        out.append(f"{info['crowded']:,} packets were given up early: too many waited for their other sighting")
    if second is None:
        return out
    if not np.isnan(clocks.offset_s):
        between = f"between {clocks.drift_low_ppm:+.1f} and {clocks.drift_high_ppm:+.1f} ppm"
        drift = "" if np.isnan(clocks.drift_low_ppm) else f", with no drift that differs from 0 for certain ({between})"
        if not np.isnan(clocks.drift_ppm):
            drift = f", drifting by {clocks.drift_ppm:+.2f} ppm ({between})"
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
    """Round trips, one row per sample: `t_s` since the first packet, `flow`, `direction`, `rtt_s`.

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
