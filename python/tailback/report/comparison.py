"""The report of two results: one over the other in time, metric by metric, and how far a live one can be trusted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from .. import compare
from ..metrics import Rows
from ..plots import flows as who
from ..result import Result
from . import _page, _plot_entry, interactive

__all__ = ["comparison", "write_comparison"]

#: Metrics that get a tile when both results have them.
_TILES = ("goodput", "delay, median", "epoch duration, median")


def write_comparison(a: Result, b: Result, path: str | Path, labels: tuple[str, str] = ("A", "B")) -> Path:
    """Write the report of both results as one HTML file, which appears whole or not at all."""
    from ..studies.store import write_text

    target = Path(path)
    write_text(target, comparison(a, b, labels))
    return target


def comparison(a: Result, b: Result, labels: tuple[str, str] = ("A", "B")) -> str:
    """The report of two results as HTML text: time series over one another, differences, punctuality, both scenarios.

    The labels name the results in every picture and table; `a` is what the changes are relative to.
    """
    rows = Rows.of(a)
    differences = compare.compare(a, b)
    pairs = list(zip((a, b), labels, strict=True))
    figures, specs = _figures(a, b, labels)
    punctual = [(result, label) for result, label in pairs if "emulator" in result and result.rows("emulator")]
    tables = [_difference_table(differences, labels)]
    if punctual:
        tables.append(_punctuality_table(punctual))
    same = a.toml == b.toml
    sources = [(_scenario_title(None if same else label), result.toml) for result, label in pairs[: 1 if same else 2]]
    contents = [("figures", "Figures")] if figures else []
    contents += [(table["name"], table["title"]) for table in tables]
    return _page(
        title=f"{rows.name or 'Two results'}: {labels[0]} and {labels[1]}",
        subtitle=f"{who.path_of(rows)}, {rows.duration_s:g} s" if rows.scenario["flows"] else "",
        tiles=[*_fitness_tiles(punctual), *_tiles(differences, labels)],
        plots=figures,
        tables=tables,
        notes=[f"{label}: {note}" for result, label in pairs for note in result.meta.get("notes", [])],
        provenance=[entry for result, label in pairs for entry in _provenance(result, label)],
        sources=sources,
        contents=[*contents, ("again", "Run it again")],
        specs={"figures": specs},
    )


def _figures(a: Result, b: Result, labels: tuple[str, str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    drawn = compare.panels(a, b, labels)
    if not drawn:
        return [], {}
    title = f"{labels[0]} and {labels[1]} over one another"
    caption = "What each result recorded, on common axes; a colour a result, dashes tell its flows apart."
    entry = _plot_entry("overlay", title, caption, compare.overlay(a, b, labels), live=True, live_first=True)
    views = [Rows.of(result) for result in (a, b)]
    limits = [rows.limit_bytes(rows.bottleneck) / 1e3 if rows.has_bottleneck else float("inf") for rows in views]
    stack = [
        (
            f"{panel.title} ({panel.unit})",
            panel.curves,
            limits[0] if panel.unit == "kB" and limits[0] == limits[1] else None,
        )
        for panel in drawn
    ]
    return [entry], {"overlay": _one_legend(interactive.stacked(stack))}


def _one_legend(spec: dict[str, Any]) -> dict[str, Any]:
    """Each name once in the legend; to click it hides its curves in every panel."""
    seen: set[str] = set()
    for trace in spec["data"]:
        trace["legendgroup"] = trace["name"]
        trace["showlegend"] = trace["name"] not in seen
        seen.add(trace["name"])
    return spec


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.4g}"


def _change(difference: compare.Difference) -> str:
    return "–" if math.isnan(difference.change) else f"{100 * difference.change:+.1f} %"


def _difference_table(differences: list[compare.Difference], labels: tuple[str, str]) -> dict[str, Any]:
    return {
        "name": "differences",
        "title": "Differences",
        "caption": f"Over the whole run; the change is that of {labels[1]} against {labels[0]}. "
        "A dash is a metric the result has no rows for.",
        "columns": ["metric", "of", "unit", *labels, "change"],
        "rows": [[d.metric, d.of, d.unit, _number(d.a), _number(d.b), _change(d)] for d in differences],
        "names": 3,
    }


def _punctuality_table(punctual: list[tuple[Result, str]]) -> dict[str, Any]:
    shown = []
    for result, label in punctual:
        row = {name: column[0] for name, column in result.numpy("emulator").items()}
        late = [f"{1e6 * float(row[f'late_{name}_s']):,.0f}" for name in ("median", "p99", "max", "limit")]
        verdict = "fit" if row["fit"] else "unfit"
        shown.append([label, verdict, f"{int(row['packets']):,}", *late, f"{int(row['device_drops'])}"])
    return {
        "name": "punctuality",
        "title": "How punctual the live run was",
        "caption": "By how much longer packets took than the path says. If one in a hundred is later than the limit, "
        "the machine was too busy: the run is unfit, and its figures may be another path's.",
        "columns": [
            "run",
            "verdict",
            "packets",
            "late: median (µs)",
            "99 % (µs)",
            "worst (µs)",
            "limit (µs)",
            "lost outside the path",
        ],
        "rows": shown,
        "names": 2,
    }


def _fitness_tiles(punctual: list[tuple[Result, str]]) -> list[dict[str, str]]:
    return [
        {
            "value": "fit" if result.meta.get("fit") else "unfit",
            "name": f"punctuality, {label}",
            "kind": "good" if result.meta.get("fit") else "bad",
        }
        for result, label in punctual
    ]


def _tiles(differences: list[compare.Difference], labels: tuple[str, str]) -> list[dict[str, str]]:
    shown = [d for d in differences if d.metric in _TILES and not (math.isnan(d.a) or math.isnan(d.b))]
    return [
        {
            "value": f"{d.a:.3g} / {d.b:.3g} {d.unit}",
            "name": f"{d.metric}, {d.of}, {labels[0]} / {labels[1]}",
            "kind": "",
        }
        for d in shown[:4]
    ]


def _scenario_title(label: str | None) -> str:
    return "Scenario (TOML)" if label is None else f"Scenario of {label} (TOML)"


def _provenance(result: Result, label: str) -> list[tuple[str, str]]:
    kept = [
        (key, result.meta[key]) for key in ("command", "engine", "version", "python", "platform") if key in result.meta
    ]
    return [
        (f"{label}: seed", str(result.resolved.get("seed"))),
        *((f"{label}: {key}", str(value)) for key, value in kept),
    ]
