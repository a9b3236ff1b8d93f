"""Flent's data files (`.flent.gz`): reads them as results, and writes results that Flent can open and plot."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tailback import _core, registry
from tailback.capture.reading import CaptureError, FilePath
from tailback.errors import ResultError
from tailback.files import whole_file
from tailback.metrics import throughput_series
from tailback.result import Result, schema

Array = npt.NDArray[Any]

FORMAT = 4
#: Supported formats. Raw rates of formats 2 and 3 have other units, and are not used.
_READ = (2, 3, 4)
#: Flent's default step in seconds.
STEP_S = 0.2
#: The Unix epoch, which is simulated time zero, in Flent's time format.
_EPOCH = "1970-01-01T00:00:00.000000Z"
_PING = "Ping (ms) ICMP"
_MOST_BYTES = 1 << 30
#: Names of TCP series with their direction, for tests with numbered streams, other tests, and rrul.
_WAYS = {"TCP upload": True, "TCP download": False}
_SUMS = ("avg", "sum", "fairness")


@dataclass(frozen=True)
class Flent:
    """A data file of Flent."""

    #: The test, such as "rrul".
    test: str
    title: str
    #: The file's metadata, including addresses.
    metadata: dict[str, Any]
    #: One row per step: `t_s`, and a column per series (null if there is no value).
    series: pl.DataFrame
    #: One row per raw value: `series`, `t_s` from the start, `value`, and for TCP `rtt_ms` and `cwnd`.
    values: pl.DataFrame
    #: Unit of each series, if the file states it.
    units: dict[str, str]


def flent(path: FilePath) -> Flent:
    """Read a data file of Flent, compressed or not.

    Raises `CaptureError` if it is none, or of a format that is not 2, 3 or 4.

    >>> import tailback as tb
    >>> bell = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk(), tb.flow("ping")], duration="4s")
    >>> result = tb.run(bell.with_({"instruments.polls": "all", "instruments.echoes": "all"}))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tb.capture.write_flent(result, f"{folder}/one.flent.gz")
    ...     found = tb.capture.flent(path)
    >>> found.test, found.series.columns
    ('tcp_nup', ['t_s', 'TCP upload::1', 'TCP upload avg', 'TCP upload sum', 'Ping (ms) ICMP'])
    """
    place = Path(path)
    try:
        raw = place.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            with gzip.open(place) as stream:
                raw = stream.read(_MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        raise CaptureError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > _MOST_BYTES:
        raise CaptureError(f"{place} is larger than 1 GiB unpacked: no data file of Flent")
    try:
        it = json.loads(raw)
    except ValueError as error:
        raise CaptureError(f"{place} is no data file of Flent: it holds no JSON ({error})") from None
    needed = ("version", "metadata", "x_values", "results")
    if not isinstance(it, dict) or any(key not in it for key in needed):
        raise CaptureError(f"{place} is no data file of Flent: it has no {', '.join(needed)}")
    if it["version"] not in _READ:
        known = ", ".join(map(str, _READ))
        raise CaptureError(f"{place} is a data file of Flent in format {it['version']}, and there is {known}")
    try:
        return _parsed(it)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise CaptureError(f"{place} is a damaged data file of Flent: {type(error).__name__}: {error}") from None


def _parsed(it: Mapping[str, Any]) -> Flent:
    metadata = dict(it["metadata"])
    t_s = [float(value) for value in it["x_values"]]
    columns: dict[str, Any] = {"t_s": pl.Series(t_s, dtype=pl.Float64)}
    for name, values in it["results"].items():
        if len(values) != len(t_s):
            raise ValueError(f"{name} has {len(values)} values, and there are {len(t_s)} steps")
        columns[str(name)] = pl.Series([_number(value) for value in values], dtype=pl.Float64)
    rows: dict[str, list[Any]] = {"series": [], "t_s": [], "value": [], "rtt_ms": [], "cwnd": []}
    measured = it.get("raw_values") or {}
    began = _began(metadata, measured)
    for name, values in measured.items():
        for row in values:
            if "t" not in row:
                continue
            rows["series"].append(str(name))
            rows["t_s"].append(float(row["t"]) - began)
            for column, key in (("value", "val"), ("rtt_ms", "tcp_rtt"), ("cwnd", "tcp_cwnd")):
                rows[column].append(_number(row.get(key)))
    types = {"series": pl.String} | dict.fromkeys(("t_s", "value", "rtt_ms", "cwnd"), pl.Float64)
    meta = metadata.get("SERIES_META") or {}
    units = {str(name): str(about["UNITS"]) for name, about in meta.items() if (about or {}).get("UNITS")}
    return Flent(
        str(metadata.get("NAME") or ""), str(metadata.get("TITLE") or ""), metadata, pl.DataFrame(columns),
        pl.DataFrame(rows, schema=types), units,
    )  # fmt: skip


def _number(value: Any) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)


def _began(metadata: Mapping[str, Any], measured: Mapping[str, Any]) -> float:
    """Time of the first raw value, in seconds since 1970."""
    from datetime import UTC, datetime

    text = metadata.get("T0") or metadata.get("TIME")
    first = min((float(row["t"]) for rows in measured.values() for row in rows if "t" in row), default=0.0)
    if not text:
        return first
    zone = str(text).endswith("Z")
    stamp = datetime.fromisoformat(str(text).removesuffix("Z")).replace(tzinfo=UTC).timestamp()
    # Older files have local time without a zone, so it may be off by whole hours.
    return stamp if zone else stamp + 3600.0 * round((first - stamp) / 3600.0)


# --- As a result ------------------------------------------------------------------------------------------------------


def open_flent(path: FilePath) -> Result:
    """A result from a Flent data file: a flow for each TCP stream (rate and window as polls) and for each ping.

    `show`, `plot`, `report` and `compare` work on the rows that it has. Series that Flent computed (averages, sums)
    are left out. Raises `CaptureError`.
    """
    it = flent(path)
    streams, pings, left = [], [], []
    for name in it.series.columns[1:]:
        # Older files have the kernel's window and RTT as separate series.
        way = next((up for start, up in _WAYS.items() if name.startswith(start) and "::tcp_" not in name), None)
        if name.startswith("Ping (ms)") and not name.endswith(_SUMS):
            pings.append(name)
        elif way is not None and not name.endswith(_SUMS):
            streams.append((name, way))
        else:
            left.append(name)
    if not streams and not pings:
        raise CaptureError(f"{path}: neither a TCP stream nor a ping is among its series: {', '.join(left)}")
    names = [_plain(name) for name, _ in streams] + [_plain(name) for name in pings]
    duration = float(it.series["t_s"].max() or 0.0) + STEP_S  # type: ignore[arg-type]
    polls, bytes_ = _polls(it, streams)
    echoes = _echoes(it, pings, len(streams))
    count = len(names)
    sent = np.zeros(count, dtype=np.uint64)
    sent[: len(streams)] = bytes_
    flows = schema.table("flows").filled(
        count, flow=np.arange(count), bytes_received=sent, bytes_acked=sent, bytes_sent=sent,
        connections=np.arange(count) < len(streams), connections_open=np.arange(count) < len(streams),
        started_s=np.zeros(count), established_s=np.where(np.arange(count) < len(streams), 0.0, np.nan),
        finished_s=np.full(count, np.nan),
    )  # fmt: skip
    links = schema.table("links").filled(2, link=np.arange(2))
    resolved = _resolved(it, names, streams, duration)
    measured = ["rates of the streams", *(["round trips of pings"] if pings else [])]
    notes = [f"measured by Flent: {', '.join(measured)}", "not recorded by Flent: packets, queues, losses"]
    if left:
        notes.append("left out: " + ", ".join(left))
    meta: dict[str, Any] = {
        "format": 1, "version": _core.version(), "engine": "flent", "name": resolved["name"], "seed": 0,
        "command": f"tailback pcap flent {Path(path).name}", "notes": notes,
        "flent": {"file": Path(path).name, "test": it.test, "left_out": left},
    }  # fmt: skip
    named: Any = {"warnings": notes}
    tables: Any = {"flows": flows, "links": links, "polls": polls, "echoes": echoes, "_names": named}
    return Result(resolved=resolved, toml=f"# Measured by Flent: {Path(path).name}\n", tables=tables, meta=meta)


def _plain(name: str) -> str:
    """A series' name as a valid flow name: letters, digits, `_ . : + -`."""
    return "".join(sign if sign.isalnum() or sign in "_.:+-" else "-" for sign in name.replace(" (ms)", "")).strip("-")


def _polls(it: Flent, streams: list[tuple[str, bool]]) -> tuple[Mapping[str, Array], Array]:
    """Rates as cumulative bytes received at the end of each step; the kernel's window and RTT if recorded."""
    t_s = it.series["t_s"].to_numpy()
    step = float(np.median(np.diff(t_s))) if len(t_s) > 1 else STEP_S
    columns: dict[str, list[Array]] = {key: [] for key in ("t_s", "flow", "bytes", "srtt_s", "cwnd")}
    total = []
    for number, (name, _) in enumerate(streams):
        rates = it.series.select("t_s", pl.col(name).alias("rate")).drop_nulls()
        # Interpolate steps without a value; before the first value and after the last nothing was sent.
        rate = (
            np.interp(t_s, rates["t_s"].to_numpy(), rates["rate"].to_numpy(), left=0.0, right=0.0)
            if len(rates) else np.zeros(len(t_s))
        )  # fmt: skip
        got = np.cumsum(np.maximum(rate, 0.0) * 1e6 / 8 * step)
        own = it.values.filter(pl.col("series") == name)
        kept = {}
        for key, scale in (("rtt_ms", 1e-3), ("cwnd", 1448.0)):
            good = own.filter(pl.col(key).is_not_null())
            kept[key] = (
                np.interp(t_s + step, good["t_s"].to_numpy(), good[key].to_numpy() * scale)
                if len(good) else np.full(len(t_s), np.nan)
            )  # fmt: skip
        columns["t_s"].append(t_s + step)
        columns["flow"].append(np.full(len(t_s), number))
        columns["bytes"].append(got)
        columns["srtt_s"].append(kept["rtt_ms"])
        columns["cwnd"].append(np.nan_to_num(kept["cwnd"]))
        total.append(got[-1] if len(got) else 0.0)
    joined = {key: np.concatenate(parts) if parts else np.zeros(0) for key, parts in columns.items()}
    order = np.lexsort((joined["flow"], joined["t_s"]))
    got = joined["bytes"][order].astype(np.uint64)
    table = schema.table("polls").filled(
        len(order), t_s=joined["t_s"][order], flow=joined["flow"][order].astype(np.uint32), bytes_acked=got,
        bytes_received=got, bytes_arrived=got, srtt_s=joined["srtt_s"][order],
        cwnd=joined["cwnd"][order].astype(np.uint64),
        rtt_s=joined["srtt_s"][order], ssthresh=np.full(len(order), np.nan),
    )  # fmt: skip
    return table, np.array(total).astype(np.uint64)


def _echoes(it: Flent, pings: list[str], first: int) -> Mapping[str, Array]:
    t_s: list[float] = []
    flow: list[int] = []
    rtt: list[float] = []
    number: list[int] = []
    for place, name in enumerate(pings):
        # The raw values of each series if there are any, or else its steps.
        own = it.values.filter((pl.col("series") == name) & pl.col("value").is_not_null())
        pairs = (
            own.select("t_s", "value") if len(own)
            else it.series.select("t_s", pl.col(name).alias("value")).drop_nulls()
        )  # fmt: skip
        for index, (at, value) in enumerate(pairs.iter_rows()):
            t_s.append(max(at, 0.0))
            flow.append(first + place)
            rtt.append(value * 1e-3)
            number.append(index & 0xFFFF)
    order = np.argsort(t_s, kind="stable")
    return schema.table("echoes").filled(
        len(order), t_s=np.array(t_s)[order], flow=np.array(flow)[order].astype(np.uint32),
        number=np.array(number)[order], rtt_s=np.array(rtt)[order],
    )  # fmt: skip


def _resolved(it: Flent, names: list[str], streams: list[tuple[str, bool]], duration_s: float) -> dict[str, Any]:
    queue = {"discipline": "fifo", "params": {}}
    link = {"rate_bps": None, "delay_ps": 0, "tick_hz": None, "queue": queue, "wire": {}}
    flows = []
    for index, name in enumerate(names):
        over_tcp = index < len(streams)
        up = streams[index][1] if over_tcp else True
        ends, ways = ("near", "far"), ("path", "path.back")
        flows.append({
            "name": name, "from": ends[not up], "to": ends[up], "route": [ways[not up]], "back_route": [ways[up]],
            "start_ps": 0, "stop_ps": round(duration_s * 1e12), "again": [],
            "app": {"kind": "bulk" if over_tcp else "ping", "params": {}},
            "tcp": {"stack": "unknown", "cc": "unknown", "cc_params": {}, "mtu": 1500, "stack_params": {}}
            if over_tcp else None,
        })  # fmt: skip
    return {
        "format": 1, "name": _plain(it.title or it.test or "flent"), "seed": 0, "duration_ps": round(duration_s * 1e12),
        "nodes": ["near", "far"],
        "links": [
            {"name": "path", "from": "near", "to": "far", **link},
            {"name": "path.back", "from": "far", "to": "near", **link},
        ],
        "flows": flows, "randomness": {},
        "instruments": {
            "segments": [], "polls": names[: len(streams)], "packets": [], "requests": [],
            "echoes": names[len(streams) :],
            "queue_polls": [], "queues": [], "drops": [],
        },
    }  # fmt: skip


# --- From a result ----------------------------------------------------------------------------------------------------


def write_flent(result: Result, path: FilePath, *, step_s: float = STEP_S) -> Path:
    """Write a result as a data file of Flent, as its test `tcp_nup`, `tcp_ndown`, `rrul_be_nflows` or `ping` would.

    TCP flows become streams (up: as the first of them goes), pings the ping; rates come from the polls, which all TCP
    flows need, and go with the kernel's RTT and window. Calls are further series of one-way delay, which Flent
    summarises and does not plot. The run begins in 1970. Raises `ResultError`.
    """
    if not step_s > 0:
        raise ResultError(f"a step of {step_s} s: give a time above zero")
    kinds = [registry.application(result.flow_spec(index)).datagrams for index in range(len(result.flow_names))]
    over_tcp = [index for index in range(len(kinds)) if result.flow_spec(index).get("tcp")]
    echoing = [index for index, kind in enumerate(kinds) if kind == "echo"]
    if not over_tcp and not echoing:
        raise ResultError("neither a TCP flow nor a ping is among its flows, and Flent's tests are of these")
    polled = set(np.unique(result.numpy("polls")["flow"]).tolist())
    bare = [result.flow_names[index] for index in over_tcp if index not in polled]
    if bare:
        raise ResultError(f"no polls of {', '.join(bare)} were recorded. Switch them on in the scenario, "
                          '[instruments] polls = "all", and run again.')  # fmt: skip
    steps = max(1, math.ceil(result.duration_s / step_s - 1e-9))
    x = [round(index * step_s, 9) for index in range(steps)]
    results: dict[str, list[float | None]] = {}
    raw: dict[str, list[dict[str, float]]] = {}
    meta: dict[str, dict[str, Any]] = {}
    test, parameters, series = _test(result, over_tcp)
    for index, name in series.items():
        _stream(result, index, name, step_s, steps, results, raw, meta)
    for way in _WAYS:
        mine = [values for name, values in results.items() if name.startswith(way)]
        if mine:
            sums = np.array(mine, dtype=float).sum(axis=0)
            results[f"{way} avg"], results[f"{way} sum"] = _with_gaps(sums / len(mine)), _with_gaps(sums)
            for late in ("avg", "sum"):
                meta[f"{way} {late}"] = {"UNITS": "Mbits/s", "COMPUTED_LATE": False}
    for place, index in enumerate(echoing):
        rows = result.where_flow("echoes", index)
        good = np.isfinite(rows["rtt_s"])
        name = _PING if place == 0 else f"Ping (ms) {result.flow_names[index]}"
        _samples(name, rows["t_s"][good], 1e3 * rows["rtt_s"][good], step_s, steps, results, raw)
        meta[name] = {"UNITS": "ms", "RUNNER": "PingRunner", "ID": result.flow_names[index]}
    if not echoing:
        results[_PING] = [None] * steps
    for index, kind in enumerate(kinds):
        rows = result.where_flow("packets", index) if kind == "voice" else {}
        if kind == "voice" and len(rows["sent_s"]):
            got = np.isfinite(rows["received_s"])
            name = f"VoIP {result.flow_names[index]}::delay"
            delay = 1e3 * (rows["received_s"] - rows["sent_s"])[got]
            _samples(name, rows["received_s"][got], delay, step_s, steps, results, raw)
            meta[name] = {"UNITS": "ms"}
    target = Path(path)
    metadata = {
        "NAME": test, "TITLE": result.name, "HOST": "right", "HOSTS": ["right"], "LOCAL_HOST": "left", "TIME": _EPOCH,
        "T0": _EPOCH, "NOTE": f"tailback {_core.version()}, seed {result.seed}", "LENGTH": steps * step_s,
        "TOTAL_LENGTH": steps * step_s, "STEP_SIZE": step_s, "TEST_PARAMETERS": parameters, "FLENT_VERSION": None,
        "IP_VERSION": 4, "BATCH_NAME": None, "BATCH_TIME": None, "BATCH_TITLE": None, "BATCH_UUID": None,
        "DATA_FILENAME": target.name, "HTTP_GETTER_URLLIST": None, "HTTP_GETTER_DNS": None, "HTTP_GETTER_WORKERS": None,
        "SERIES_META": meta,
    }  # fmt: skip
    whole = {"metadata": metadata, "version": FORMAT, "x_values": x, "results": results, "raw_values": raw}
    text = json.dumps(whole, allow_nan=False).encode()
    with whole_file(target) as partial:
        # No name and no time in the gzip header, so that the same result gives the same bytes.
        partial.write_bytes(gzip.compress(text, mtime=0))
    return target


def _test(result: Result, over_tcp: list[int]) -> tuple[str, dict[str, str], dict[int, str]]:
    """Flent's test, its parameters, and the series name of each TCP flow."""
    if not over_tcp:
        return "ping", {}, {}
    up_from = result.flow_spec(over_tcp[0])["from"]
    ups = [index for index in over_tcp if result.flow_spec(index)["from"] == up_from]
    downs = [index for index in over_tcp if index not in ups]
    # The dumbbell's left is the user's side: data from the right is a download.
    if up_from == "right":
        ups, downs = downs, ups
    both = bool(ups and downs)
    test = "rrul_be_nflows" if both else "tcp_nup" if ups else "tcp_ndown"
    parameters = {"upload_streams": str(len(ups))} if ups else {}
    parameters |= {"download_streams": str(len(downs))} if downs else {}
    middle = " BE" if both else ""
    series = {index: f"TCP upload{middle}::{place}" for place, index in enumerate(ups, start=1)}
    series |= {index: f"TCP download{middle}::{place}" for place, index in enumerate(downs, start=1)}
    return test, parameters, series


def _stream(
    result: Result, index: int, name: str, step_s: float, steps: int, results: dict[str, list[float | None]],
    raw: dict[str, list[dict[str, float]]], meta: dict[str, dict[str, Any]],
) -> None:  # fmt: skip
    begin, rate = throughput_series(result, index, step_s)
    values = np.full(steps, np.nan)
    values[np.round(begin / step_s).astype(np.int64)] = rate * 1e-6
    results[name] = _with_gaps(values)
    polls = result.where_flow("polls", index)
    spec = result.flow_spec(index)
    mss = max(int(spec["tcp"].get("mtu", 1500)) - 52, 1)
    rows = []
    for at, value in zip((np.arange(steps) + 1) * step_s, values.tolist(), strict=True):
        if math.isnan(value):
            continue
        place = int(np.searchsorted(polls["t_s"], at, side="right")) - 1
        row = {"t": round(float(at), 9), "val": value, "dur": step_s}
        if place >= 0 and np.isfinite(polls["srtt_s"][place]):
            row |= {
                "tcp_rtt": float(polls["srtt_s"][place]) * 1e3,
                "tcp_cwnd": round(float(polls["cwnd"][place]) / mss),
            }
        rows.append(row)
    raw[name] = rows
    meta[name] = {"UNITS": "Mbits/s", "RUNNER": "NetperfDemoRunner", "ID": result.flow_names[index],
                  "MEAN_VALUE": sum(row["val"] for row in rows) / max(len(rows), 1),
                  "CONG_CONTROL": str(spec["tcp"].get("cc", ""))}  # fmt: skip


def _with_gaps(values: Array) -> list[float | None]:
    """The values for JSON: null in steps that were not recorded."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def _samples(
    name: str, t_s: Array, values: Array, step_s: float, steps: int, results: dict[str, list[float | None]],
    raw: dict[str, list[dict[str, float]]],
) -> None:  # fmt: skip
    place = np.clip((t_s / step_s).astype(np.int64), 0, steps - 1)
    count = np.bincount(place, minlength=steps)
    total = np.bincount(place, weights=values, minlength=steps)
    results[name] = [float(one / many) if many else None for one, many in zip(total, count, strict=True)]
    raw[name] = [
        {"t": round(float(at), 9), "val": float(value), "seq": float(index)}
        for index, (at, value) in enumerate(zip(t_s, values, strict=True))
    ]
