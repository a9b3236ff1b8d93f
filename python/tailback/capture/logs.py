"""Logs of TCP's internal state: reads and writes FreeBSD's SIFTR, and polled logs of Web100 variables."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tailback.capture.reading import CaptureError, FilePath
from tailback.errors import ResultError
from tailback.files import whole_file
from tailback.result import Result

#: The fields of a SIFTR record (FreeBSD 7 to 13, siftr(4)).
SIFTR_FIELDS = (
    "direction", "hash", "t_s", "local_ip", "local_port", "foreign_ip", "foreign_port", "ssthresh", "cwnd", "bwnd",
    "snd_wnd", "rcv_wnd", "snd_scale", "rcv_scale", "state", "mss", "srtt", "sack_enabled", "flags", "rto", "snd_buf",
    "snd_buf_used", "rcv_buf", "rcv_buf_used", "in_flight", "reassembly",
)  # fmt: skip
_WORDS = {"direction", "hash", "local_ip", "foreign_ip"}

#: CurSsthresh before any congestion: the largest its type (Gauge32) holds.
_NO_SSTHRESH = 2**32 - 1
#: Web100's variables (RFC 4898), with the column of table `polls` and the factor for it.
WEB100 = {
    "CurCwnd": ("cwnd", 1.0),
    "CurSsthresh": ("ssthresh", 1.0),
    "SmoothedRTT": ("srtt_s", 1e3),
    "SampleRTT": ("rtt_s", 1e3),
    "MinRTT": ("rtt_min_s", 1e3),
    "CurRTO": ("rto_s", 1e3),
    "DataBytesOut": ("bytes_acked", 1.0),
    "PktsRetrans": ("segments_retransmitted", 1.0),
    "DupAcksIn": ("dup_acks_in", 1.0),
    "CurRwinRcvd": ("snd_wnd", 1.0),
}


def siftr(path: FilePath) -> tuple[dict[str, str], pl.DataFrame]:
    """A SIFTR log: the fields of its first and last lines, and one row per record.

    Columns as siftr(4) names them, times in seconds: `srtt_s` and `rto_s` are scaled by the log's own `hz` and
    `tcp_rtt_scale`. Raises `CaptureError` if it is not such a log, or if a record has another number of fields. A
    truncated log is read as far as it goes, with a note under "partial".
    """
    place = Path(path)
    try:
        lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise CaptureError(f"{place} cannot be read: {error.strerror}") from None
    if not lines or "siftrver=" not in lines[0]:
        raise CaptureError(f"{place} is no SIFTR log: its first line has no siftrver=")
    about = _pairs(lines[0])
    body = lines[1:]
    if body and "\t" in body[-1] and "disable_time_secs=" in body[-1]:
        about |= _pairs(body.pop())
    else:
        about["partial"] = "the log has no last line: it was cut off, or siftr was still on"
    rows = [line.split(",") for line in body if line]
    wrong = [number for number, row in enumerate(rows, start=2) if len(row) != len(SIFTR_FIELDS)]
    if wrong and wrong[0] == len(rows) + 1 and "partial" in about:
        rows.pop()
        wrong.pop()
    if wrong:
        found = len(rows[wrong[0] - 2])
        raise CaptureError(
            f"{place}: line {wrong[0]} has {found} fields and not {len(SIFTR_FIELDS)}; {len(wrong)} lines of "
            f"{len(rows)} are like that. Logs of FreeBSD 14 and later have another layout"
        )
    data: dict[str, Any] = {}
    for index, name in enumerate(SIFTR_FIELDS):
        column = [row[index] for row in rows]
        if name in _WORDS:
            data[name] = column
            continue
        try:
            data[name] = np.array(column, dtype=np.float64 if name == "t_s" else np.int64)
        except ValueError as error:
            raise CaptureError(f"{place}: field {name} holds something else than numbers: {error}") from None
    hz, scale = _number(about, "hz", 1000), _number(about, "tcp_rtt_scale", 32)
    frame = pl.DataFrame(data)
    return about, frame.with_columns(
        srtt_s=pl.col("srtt").cast(pl.Float64) / (hz * scale), rto_s=pl.col("rto").cast(pl.Float64) / hz
    ).drop("srtt", "rto")


def _number(about: dict[str, str], key: str, default: int) -> int:
    value = about.get(key, str(default))
    if not value.isdecimal() or int(value) == 0:
        raise CaptureError(f"the log says {key}={value}, which is no number above zero")
    return int(value)


def _pairs(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split("\t") if "=" in part)


def web100(path: FilePath) -> pl.DataFrame:
    """A polled log of Web100's variables: CSV with a header line, a time column, and variables such as `CurCwnd`.

    The time column is `t_s`, `time` or `Time`, in seconds. Raises `CaptureError` if there is none, or no variable is
    known.
    """
    place = Path(path)
    try:
        frame = pl.read_csv(place)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CaptureError(f"{place} cannot be read as CSV: {error}") from None
    times = [name for name in frame.columns if name.lower() in ("t_s", "time", "timestamp")]
    known = [name for name in frame.columns if name in WEB100]
    if not times or not known:
        raise CaptureError(
            f"{place} is no polled log: it needs a column t_s or time, and some of {', '.join(WEB100)}; it has "
            f"{', '.join(frame.columns)}"
        )
    return frame.rename({times[0]: "t_s"})


def write_web100(result: Result, path: FilePath, flow: int | str) -> Path:
    """Write a flow's polls as a log of Web100's variables. Raises `ResultError` without the instrument `polls`."""
    rows = result.where_flow("polls", flow)
    if not len(rows["t_s"]):
        raise ResultError(f"no polls of {flow} were recorded. Switch them on: [instruments] polls, and run again.")
    target = Path(path)
    rows["ssthresh"] = np.nan_to_num(rows["ssthresh"], nan=_NO_SSTHRESH)
    columns = [rows[name] * factor if factor != 1.0 else rows[name] for name, factor in WEB100.values()]
    with whole_file(target) as partial, partial.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["t_s", *WEB100])
        for row in zip(rows["t_s"].tolist(), *(column.tolist() for column in columns), strict=True):
            writer.writerow([f"{row[0]:.6f}", *(f"{value:.10g}" for value in row[1:])])
    return target
