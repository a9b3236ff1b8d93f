"""Interactive figures as plotly descriptions (data and layout), drawn in the reader's browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import metrics
from ..numbers import written
from ..plots.recipes import Curve
from ..plots.style import INK, SKY

Spec = dict[str, Any]

_DASH = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
_GRID = "#ECECEC"


def _numbers(values: Any, digits: int = 4) -> list[float | None]:
    """Rounded numbers for JSON; values that are not finite become gaps."""
    rounded = np.round(np.asarray(values, dtype=np.float64), digits)
    return [None if np.isnan(v) else float(v) for v in rounded]


def _axis(title: str, **more: Any) -> Spec:
    return {"title": {"text": title, "standoff": 6}, "gridcolor": _GRID, "zeroline": False, "automargin": True, **more}


def _layout(height: int, **more: Any) -> Spec:
    return {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 26, "b": 44},
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "x unified",
        "legend": {"orientation": "h", "y": -0.16},
        **more,
    }


def _trace(curve: Curve, axes: str = "", **more: Any) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": curve.label,
        "x": _numbers(curve.x),
        "y": _numbers(curve.y),
        "line": {"color": curve.colour, "width": 1.4, "dash": _dash(curve.style)},
        "xaxis": f"x{axes}",
        "yaxis": f"y{axes}",
        **more,
    }


def _dash(style: Any) -> str:
    """A line style in plotly's form; a list of lengths is converted to pixels."""
    if isinstance(style, tuple):
        return ",".join(f"{1.5 * length:g}px" for length in style[1])
    return _DASH[str(style)]


def _heading(text: str, x: float, y: float) -> Spec:
    return {
        "text": f"<b>{text}</b>",
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }


def panels(rows: Sequence[tuple[str, str, Sequence[Curve]]], x_title: str, height: int = 210) -> Spec:
    """Panels stacked vertically, each (heading, axis title, curves), with separate zoom along time."""
    gap = 0.28 / max(len(rows), 1)
    each = (1.0 - gap * (len(rows) - 1)) / len(rows)
    layout = _layout(height * len(rows) + 60, showlegend=any(len(curves) > 1 for _, _, curves in rows))
    data, annotations = [], []
    for i, (heading, unit, curves) in enumerate(rows):
        name = "" if i == 0 else str(i + 1)
        high = 1.0 - i * (each + gap)
        layout[f"yaxis{name}"] = _axis(unit, domain=[high - each, high], rangemode="tozero")
        layout[f"xaxis{name}"] = _axis(x_title if i == len(rows) - 1 else "", anchor=f"y{name}")
        data += [_trace(curve, name) for curve in curves]
        annotations.append(_heading(heading, 0.0, high))
    layout["annotations"] = annotations
    return {"data": data, "layout": layout}


@dataclass(frozen=True)
class Stacked:
    """A panel of `stacked`: a heading, the unit of its axis, curves, and a limit drawn as a dashed line."""

    heading: str
    unit: str
    curves: Sequence[Curve]
    limit: float | None = None
    limit_name: str = "limit"


def stacked(rows: Sequence[Stacked], x_title: str = "time (s)", height: int = 190) -> Spec:
    """Panels stacked vertically with a common time axis and a common legend on top.

    A panel of one curve that its heading names has no entry in the legend.
    """
    gap = 0.3 / max(len(rows), 4)
    each = (1.0 - gap * (len(rows) - 1)) / len(rows)
    layout = _layout(height * len(rows) + 90)
    layout |= {"legend": {"orientation": "h", "x": 0, "y": 1.0 + 34 / layout["height"], "yanchor": "bottom"}}
    layout["margin"] = layout["margin"] | {"t": 70}
    layout["xaxis"] = _axis(x_title, anchor=f"y{len(rows) if len(rows) > 1 else ''}")
    data: list[Spec] = []
    shapes, annotations = [], []
    for i, panel in enumerate(rows):
        name = "" if i == 0 else str(i + 1)
        high = 1.0 - i * (each + gap)
        layout[f"yaxis{name}"] = _axis(panel.unit, domain=[max(high - each, 0.0), high], rangemode="tozero")
        named = [curve.label == panel.heading for curve in panel.curves]
        data += [
            _trace(curve, name, showlegend=not is_named) | {"xaxis": "x"}
            for curve, is_named in zip(panel.curves, named, strict=True)
        ]
        annotations.append(_heading(panel.heading, 0.0, high))
        if panel.limit is not None and np.isfinite(panel.limit):
            line = {"xref": "paper", "x0": 0, "x1": 1, "yref": f"y{name}", "y0": panel.limit, "y1": panel.limit}
            shapes.append({"type": "line", "line": {"color": "#767676", "width": 1, "dash": "dash"}} | line)
            text = f"{panel.limit_name} {written(panel.limit)} {panel.unit}".strip()
            annotations.append(
                {"text": text, "xref": "paper", "x": 1, "yref": f"y{name}", "y": panel.limit, "xanchor": "right",
                 "yanchor": "bottom", "showarrow": False, "font": {"size": 11}}
            )  # fmt: skip
    layout |= {"shapes": shapes, "annotations": annotations}
    return {"data": _one_legend(data), "layout": layout}


def _one_legend(traces: list[Spec]) -> list[Spec]:
    """Each name appears once in the legend; clicking it hides its curves in every panel."""
    seen: set[str] = set()
    for trace in traces:
        is_shown = trace.get("showlegend", True) and trace["name"] not in seen
        trace |= {"legendgroup": trace["name"], "showlegend": is_shown}
        if is_shown:
            seen.add(trace["name"])
    return traces


def cells(summaries: Mapping[str, Mapping[str, Any] | None], colours: Mapping[str, str]) -> Spec | None:
    """Window and queue of several cells side by side, from their decimated series, all as long as the longest."""
    known = {label: s for label, s in summaries.items() if s and s.get("series")}
    if not known:
        return None
    count = len(known)
    gap = 0.08
    each = (1.0 - gap * (count - 1)) / count
    layout = _layout(430, showlegend=False)
    data: list[Spec] = []
    annotations, shapes = [], []
    spans = {label: (s["series"]["cwnd"][0][0], s["series"]["cwnd"][0][-1]) for label, s in known.items()}
    longest = max(end - start for start, end in spans.values())
    for i, (label, summary) in enumerate(known.items()):
        left = i * (each + gap)
        x, top, bottom = ("" if i == 0 else str(i + 1)), str(2 * i + 1 if i else ""), str(2 * i + 2)
        start = spans[label][0]
        layout[f"xaxis{x}"] = _axis(
            "time (s)", domain=[left, left + each], anchor=f"y{bottom}", range=[start, start + longest]
        )
        layout[f"yaxis{top}"] = _axis(
            "cwnd (segments)" if i == 0 else "", domain=[0.54, 1.0], anchor=f"x{x}", rangemode="tozero"
        )
        layout[f"yaxis{bottom}"] = _axis(
            "queue (kB)" if i == 0 else "", domain=[0.0, 0.48], anchor=f"x{x}", rangemode="tozero"
        )
        series = summary["series"]
        data.append(
            _trace(Curve("cwnd", series["cwnd"][0], series["cwnd"][1], colours[label]))
            | {"xaxis": f"x{x}", "yaxis": f"y{top}"}
        )
        data.append(
            _trace(Curve("queue", series["queue"][0], series["queue"][1], INK))
            | {"xaxis": f"x{x}", "yaxis": f"y{bottom}", "fill": "tozeroy", "fillcolor": _faint(SKY)}
        )
        limit = float(summary["limit_bytes"]) / 1e3
        shapes.append(
            {"type": "line", "xref": f"x{x} domain", "x0": 0, "x1": 1, "yref": f"y{bottom}", "y0": limit, "y1": limit,
             "line": {"color": "#767676", "width": 1, "dash": "dash"}}
        )  # fmt: skip
        annotations.append(_heading(label, left, 1.0))
    layout |= {"annotations": annotations, "shapes": shapes}
    return {"data": data, "layout": layout}


def distributions(groups: Sequence[tuple[str, Sequence[Curve]]]) -> Spec:
    """CDFs side by side with one legend."""
    count = len(groups)
    gap = 0.05
    each = (1.0 - gap * (count - 1)) / count
    layout = _layout(380, hovermode="closest", legend={"orientation": "h", "y": -0.22})
    data, annotations = [], []
    for i, (heading, curves) in enumerate(groups):
        name = "" if i == 0 else str(i + 1)
        left = i * (each + gap)
        layout[f"xaxis{name}"] = _axis(
            "induced delay (ms)", domain=[left, left + each], anchor=f"y{name}", rangemode="tozero"
        )
        layout[f"yaxis{name}"] = _axis("share of call packets" if i == 0 else "", anchor=f"x{name}", range=[0, 1])
        data += [_trace(c, name, showlegend=i == 0, legendgroup=c.label) for c in curves]
        annotations.append(_heading(heading, left, 1.0))
    layout["annotations"] = annotations
    return {"data": data, "layout": layout}


EXPLORED_POINTS = 240
"""Maximum points of a series in the chooser, which has every run of a study; three epochs need no more."""


def _thin(x: Sequence[float], y: Sequence[float]) -> list[list[float | None]]:
    t, v = metrics.decimate(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64), EXPLORED_POINTS)
    return [_numbers(t, 3), _numbers(v, 2)]


def explorer(entries: Sequence[tuple[str, str, str, Mapping[str, Any]]]) -> Spec:
    """Series of every cell (label, role, colour, summary) for the report's chooser."""
    return {
        "entries": [
            {
                "label": label,
                "role": role,
                "colour": colour,
                "limit": float(summary["limit_bytes"]) / 1e3,
                **{kind: _thin(*series) for kind, series in summary["series"].items()},
            }
            for label, role, colour, summary in entries
        ]
    }


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.3)"
