"""A connection in detail: bytes in flight, an estimated window, and tcptrace's time–sequence plot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.figure import Figure

from tailback.capture.opened import NEW, OVERTAKEN, REPAIRED, REPEATED
from tailback.capture.reading import CaptureError, FilePath, choose, derived, read
from tailback.files import whole_file
from tailback.plots.style import house_style
from tailback.report import page_of_figure

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Window:
    """One connection, as seen from its sender's side of the capture."""

    name: str
    #: One row per segment with payload: `t_s`, `seq`, `end`, `what`, `in_flight`, `cwnd` (bytes; `cwnd` is estimated).
    sent: pl.DataFrame
    #: One row per segment from the receiver: `t_s`, `ack`, `window`, `rtt_s` (NaN without a sample).
    acked: pl.DataFrame
    #: One row per SACK block: `t_s`, `start`, `end`.
    blocks: pl.DataFrame


def window(path: FilePath, flow: int | str | None = None) -> Window:
    """Bytes in flight and the time–sequence data of one connection: that of most payload unless `flow` names one.

    `in_flight` is the highest byte sent less the highest acknowledged, right if the capture was taken at the sender, as
    tshark's `tcp.analysis.bytes_in_flight`. `cwnd` is an estimate: the largest flight, less what SACK blocks report, of
    the round trip before, so it is below the window while the application or the receiver holds the sender back. Raises
    `CaptureError`.
    """
    frame = derived(read(path).flows)
    number = choose(frame, flow)
    row = frame.row(number, named=True)
    if row["protocol"] != 6:
        raise CaptureError(f"{row['name']} is no TCP connection")
    found = read(path, segments=True, only=[number])
    it = {key: np.asarray(column) for key, column in found.segments.items()}
    own = it["reverse"] == (row["back_payload"] > row["payload"])
    t = (it["t_ns"].astype(np.int64) - int(found.info["first_ns"])) * 1e-9
    words = np.array(["probe"] * 8, dtype=object)
    words[[NEW, REPEATED, REPAIRED, OVERTAKEN]] = ["new", "repeated", "repaired", "overtaken"]
    data = own & (it["length"] > 0)
    flight = it["in_flight"][data].astype(np.float64)
    outstanding = it["outstanding"][data].astype(np.float64)
    rtt_s = row["back_rtt_mean_s"] if row["back_payload"] > row["payload"] else row["rtt_mean_s"]
    sent = pl.DataFrame({
        "t_s": t[data], "seq": it["seq"][data], "end": it["seq"][data] + it["length"][data].astype(np.int64),
        "what": words[it["class"][data]].astype(str), "in_flight": flight.astype(np.uint64),
        "cwnd": largest_before(t[data], outstanding, rtt_s if rtt_s and np.isfinite(rtt_s) else 0.1).astype(np.uint64),
    })  # fmt: skip
    back = ~own & (it["ack"] >= 0)
    samples = np.where(it["rtt_ns"] > 0, it["rtt_ns"] * 1e-9, np.nan)
    acked = pl.DataFrame({"t_s": t[back], "ack": it["ack"][back], "window": it["window"][back], "rtt_s": samples[back]})
    rows = np.asarray(found.blocks["row"])
    theirs = ~own[rows] if len(rows) else np.zeros(0, dtype=np.bool_)
    blocks = pl.DataFrame({
        "t_s": t[rows[theirs]], "start": np.asarray(found.blocks["start"])[theirs],
        "end": np.asarray(found.blocks["end"])[theirs],
    })  # fmt: skip
    return Window(str(row["name"]), sent, acked, blocks)


def largest_before(t: Array, values: Array, span_s: float) -> Array:
    """The largest value within the last `span_s` seconds before each instant."""
    from collections import deque

    out = np.empty(len(values))
    held: deque[int] = deque()
    for place, value in enumerate(values.tolist()):
        while held and values[held[-1]] <= value:
            held.pop()
        held.append(place)
        while t[held[0]] < t[place] - span_s:
            held.popleft()
        out[place] = values[held[0]]
    return out


_COLOURS = {"new": "#111111", "repeated": "#d55e00", "repaired": "#cc0000", "overtaken": "#0072b2", "probe": "#999999"}


def draw(it: Window, *, start_s: float | None = None, end_s: float | None = None) -> Figure:
    """A figure with the time–sequence plot above the bytes in flight."""
    with house_style():
        figure = Figure(figsize=(8, 6), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        sent, acked, blocks = (_between(frame, start_s, end_s) for frame in (it.sent, it.acked, it.blocks))
        for what, colour in _COLOURS.items():
            part = sent.filter(pl.col("what") == what)
            if len(part):
                top.vlines(part["t_s"], part["seq"] / 1e6, part["end"] / 1e6, color=colour, lw=1.2, label=what)
        top.step(acked["t_s"], acked["ack"] / 1e6, where="post", color="#009e73", lw=0.8, label="acknowledged")
        offered = (acked["ack"] + acked["window"].cast(pl.Int64)) / 1e6
        highest = float(sent["end"].max() or 0) / 1e6  # type: ignore[arg-type]
        top.step(acked["t_s"], offered, where="post", color="#e69f00", lw=0.8, label="window offered")
        if len(blocks):
            top.vlines(blocks["t_s"], blocks["start"] / 1e6, blocks["end"] / 1e6, color="#cc79a7", lw=0.8, label="SACK")
        lowest = float(sent["seq"].min() or 0) / 1e6  # type: ignore[arg-type]
        top.set_ylim(lowest - 0.02 * (highest - lowest), highest + 0.05 * (highest - lowest) + 1e-6)
        top.set_ylabel("sequence (MB)")
        top.set_title(it.name)
        top.legend(loc="upper left", fontsize="x-small", ncols=2)
        bottom.plot(sent["t_s"], sent["in_flight"] / 1e3, color="#111111", lw=0.7, label="in flight")
        bottom.plot(sent["t_s"], sent["cwnd"] / 1e3, color="#0072b2", lw=0.9, label="cwnd, estimated")
        bottom.set_ylabel("kB")
        bottom.set_xlabel("time (s)")
        bottom.legend(loc="upper left", fontsize="x-small")
        return figure


def _between(frame: pl.DataFrame, start_s: float | None, end_s: float | None) -> pl.DataFrame:
    low, high = start_s if start_s is not None else -np.inf, end_s if end_s is not None else np.inf
    return frame.filter((pl.col("t_s") >= low) & (pl.col("t_s") <= high))


def write_page(it: Window, path: FilePath) -> Path:
    """Write the plot as one HTML page that can be zoomed and needs no other file."""
    traces = []
    for what, colour in _COLOURS.items():
        part = it.sent.filter(pl.col("what") == what)
        if len(part):
            traces.append(_bars(part["t_s"], part["seq"], part["end"], what, colour))
    if len(it.blocks):
        traces.append(_bars(it.blocks["t_s"], it.blocks["start"], it.blocks["end"], "SACK", "#cc79a7"))
    ack = it.acked["ack"]
    offered = ack + it.acked["window"].cast(pl.Int64)
    for name, series, colour in (("acknowledged", ack, "#009e73"), ("window offered", offered, "#e69f00")):
        traces.append(_line(it.acked["t_s"], series, name, colour, "y", shape="hv"))
    for name, key, colour in (("in flight", "in_flight", "#222222"), ("cwnd, estimated", "cwnd", "#0072b2")):
        traces.append(_line(it.sent["t_s"], it.sent[key], name, colour, "y2"))
    plain = {"gridcolor": "#ececec", "zeroline": False, "automargin": True}
    layout = {
        "height": 760,
        "margin": {"l": 72, "r": 16, "t": 16, "b": 48},
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.1},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": plain | {"title": {"text": "time (s)"}, "anchor": "y2"},
        "yaxis": plain | {"title": {"text": "sequence (bytes)"}, "domain": [0.36, 1.0]},
        "yaxis2": plain | {"title": {"text": "bytes"}, "domain": [0.0, 0.32]},
    }
    caption = "A bar is a segment from its first byte to its last. The congestion window is estimated."
    text = page_of_figure(it.name, caption, draw(it), {"data": traces, "layout": layout})
    target = Path(path)
    with whole_file(target) as partial:
        partial.write_text(text, encoding="utf-8")
    return target


def _line(t: pl.Series, y: pl.Series, name: str, colour: str, axis: str, shape: str = "linear") -> dict[str, Any]:
    line = {"color": colour, "width": 1, "shape": shape}
    values = [None if value is None or value != value else value for value in y.to_list()]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": t.to_list(),
        "y": values,
        "yaxis": axis,
        "line": line,
    }


def _bars(t: pl.Series, low: pl.Series, high: pl.Series, name: str, colour: str) -> dict[str, Any]:
    """One line per segment, from its first byte to its last."""
    x = np.repeat(t.to_numpy(), 3)
    y = np.stack([low.to_numpy(), high.to_numpy(), np.full(len(low), np.nan)], axis=1).ravel()
    made = _line(pl.Series(x), pl.Series(y), name, colour, "y")
    return made | {"line": {"color": colour, "width": 2}}
