"""The report of several results: common axes, metric by metric, and the punctuality of live runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import compare, plots
from ..answer.compared import answer_of_comparison
from ..files import write_text
from ..metrics import MissingRows, Rows
from ..numbers import written
from ..plots import flows as who
from ..plots.timeseries import panels
from ..result import Result
from . import interactive
from .page import page, plot_entry

__all__ = ["comparison", "write_comparison"]

#: Metrics that get a tile when all results have them.
_TILES = ("goodput", "delay, median", "epoch duration, median")
#: Figures below the time series, if the results have rows for them.
_FIGURES = ("delay-cdf", "rtt-cdf", "response-times", "box")


def write_comparison(results: Mapping[str, Result], path: str | Path, *, baseline: str | None = None) -> Path:
    """Write the report of results by label as one HTML file, atomically."""
    target = Path(path)
    write_text(target, comparison(results, baseline=baseline))
    return target


def comparison(results: Mapping[str, Result], *, baseline: str | None = None) -> str:
    """The report of results by label as HTML text: figures, differences, punctuality, the scenarios.

    The labels name the results in every picture and table; `baseline`, the first by default, is what changes are
    relative to. Raises `compare.NothingToCompare` as `compare.compare` does.
    """
    rows = compare.compare(results, baseline=baseline)
    views = {label: Rows.of(result) for label, result in results.items()}
    first = next(iter(views.values()))
    figures, specs = _figures(views)
    punctual = {label: result for label, result in results.items() if "emulator" in result and result.rows("emulator")}
    tables = [_metric_table(rows)]
    if punctual:
        tables.append(_punctuality_table(punctual))
    sources: dict[str, list[str]] = {}
    for label, result in results.items():
        sources.setdefault(result.toml, []).append(label)
    contents = [("figures", "Figures")] if figures else []
    contents += [(table["name"], table["title"]) for table in tables]
    return page(
        title=f"{first.name or 'Results'}: {', '.join(results)}",
        subtitle=f"{who.path_of(first)}, {first.duration_s:g} s" if first.scenario["flows"] else "",
        answer=[{"kind": each.kind, "text": each.text} for each in answer_of_comparison(rows).statements],
        tiles=[*_fitness_tiles(punctual), *_tiles(rows)],
        plots=figures,
        tables=tables,
        notes=[f"{label}: {note}" for label, result in results.items() for note in result.meta.get("notes", [])],
        provenance=[entry for label, result in results.items() for entry in _provenance(result, label)],
        sources=[(_scenario_title(labels, len(sources)), text) for text, labels in sources.items()],
        contents=[*contents, ("again", "Run it again")],
        specs={"figures": specs},
    )


def _figures(views: Mapping[str, Rows]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    entries, specs = [], {}
    drawn = panels(views)
    if drawn:
        caption = "What each result recorded, on common axes; a colour a result, dashes distinguish its flows."
        figure = plots.get("overview")(views)
        entries.append(plot_entry("overlay", "Over one another", caption, figure, live=True, live_first=True))
        limits = {rows.limit_bytes(rows.bottleneck) / 1e3 for rows in views.values() if rows.has_bottleneck}
        limit = limits.pop() if len(limits) == 1 else None
        stack = [
            interactive.Stacked(panel.title, panel.unit, panel.curves, limit if panel.title == "queue" else None)
            for panel in drawn
        ]
        specs["overlay"] = interactive.stacked(stack)
    for name in _FIGURES:
        recipe = plots.get(name)
        try:
            figure = recipe(dict(views))
        except MissingRows:
            continue
        entries.append(plot_entry(name, recipe.title, recipe.caption, figure, live=False))
    return entries, specs


def _change(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:+.1f} %"


def _metric_table(rows: list[compare.Comparison]) -> dict[str, Any]:
    base = rows[0].baseline
    others = [label for label in rows[0].values if label != base]
    shown = []
    for row in rows:
        values = [text for label in others for text in (written(row.values[label]), _change(row.change(label)))]
        shown.append([row.metric, row.of, row.unit, written(row.values[base]), *values])
    return {
        "name": "differences",
        "title": "Differences",
        "caption": f"Over the whole run; a change is relative to {base}. A dash: the result has no rows for it.",
        "columns": ["metric", "of", "unit", base, *(text for label in others for text in (label, "change"))],
        "rows": shown,
        "names": 3,
    }


def _punctuality_table(punctual: Mapping[str, Result]) -> dict[str, Any]:
    shown = []
    for label, result in punctual.items():
        row = {name: column[0] for name, column in result.numpy("emulator").items()}
        late = [f"{1e6 * float(row[f'late_{name}_s']):,.0f}" for name in ("median", "p99", "max", "limit")]
        # Older results have no rows on their applications' punctuality.
        apps = [float(row.get(f"app_{name}_s", math.nan)) * 1e3 for name in ("late_p99", "waited_p99", "limit")]
        verdict = "fit" if row["fit"] else "unfit"
        values = [*late, *(written(value) for value in apps), f"{int(row['device_drops'])}"]
        shown.append([label, verdict, f"{int(row['packets']):,}", *values])
    return {
        "name": "punctuality",
        "title": "How punctual the live run was",
        "caption": "By how much longer packets took than the path says, how late applications got to act, and how "
        "long their threads waited for a processor. If one in a hundred is beyond its limit, the machine was too busy: "
        "the run is unfit, and its figures may be another path's.",
        "columns": [
            "run",
            "verdict",
            "packets",
            "late: median (µs)",
            "99 % (µs)",
            "worst (µs)",
            "limit (µs)",
            "applications late: 99 % (ms)",
            "waiting: 99 % (ms)",
            "limit (ms)",
            "lost outside the path",
        ],
        "rows": shown,
        "names": 2,
    }


def _fitness_tiles(punctual: Mapping[str, Result]) -> list[dict[str, str]]:
    return [
        {
            "value": "fit" if result.meta.get("fit") else "unfit",
            "name": f"punctuality, {label}",
            "kind": "good" if result.meta.get("fit") else "bad",
        }
        for label, result in punctual.items()
    ]


def _tiles(rows: list[compare.Comparison]) -> list[dict[str, str]]:
    shown = [row for row in rows if row.metric in _TILES and not any(map(math.isnan, row.values.values()))]
    return [
        {
            "value": " / ".join(written(value, 3) for value in row.values.values()) + f" {row.unit}",
            "name": f"{row.metric}, {row.of}: {' / '.join(row.values)}",
            "kind": "",
        }
        for row in shown[:4]
    ]


def _scenario_title(labels: list[str], different: int) -> str:
    return "Scenario (TOML)" if different == 1 else f"Scenario of {', '.join(labels)} (TOML)"


def _provenance(result: Result, label: str) -> list[tuple[str, str]]:
    kept = [
        (key, result.meta[key]) for key in ("command", "engine", "version", "python", "platform") if key in result.meta
    ]
    return [
        (f"{label}: seed", str(result.resolved.get("seed"))),
        *((f"{label}: {key}", str(value)) for key, value in kept),
    ]
