"""The report of a store of runs: figures over what was varied, and each setting's figures with their intervals."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..answer import answer_of_runs
from ..experiment import statistics
from ..experiment.store import Store
from ..experiment.store.axes import settings
from ..numbers import written
from ..plots import sweeps
from .page import page, plot_entry

__all__ = ["stored"]

#: Metrics with a figure and a table of their own, by the ending of their column, where the store has them.
_METRICS = ("delay_p95_ms", "experience_p95_ms", "experience_mos", "goodput_mbps", "jain", "loss")
_MOST = 6


def stored(store: Store) -> str:
    """The report of a store as HTML text; runs that failed are counted and left out."""
    frame = store.frame()
    done = frame.filter(pl.col("status") == "ok") if len(frame) else frame
    if done.is_empty():
        raise sweeps.NoSuchColumn(f"{store.folder} has no run that succeeded: there is nothing to report")
    axes = [axis.column for axis in sweeps.axes_of(done)]
    chosen = _metrics(done)[:_MOST]
    failed = len(frame) - len(done)
    sweep_names = ", ".join(sorted({str(name) for name in done["sweep"].drop_nulls().unique()}))
    tables = [_table(done, name, axes) for name in chosen] if axes else []
    return page(
        title=sweep_names or store.folder.name,
        subtitle=f"{len(done)} runs, {done['seed'].n_unique()} seeds; varied: {', '.join(axes) or 'nothing'}",
        answer=[{"kind": each.kind, "text": each.text} for each in answer_of_runs(done).statements],
        tiles=[
            {"value": f"{len(done):,}", "name": "runs", "kind": ""},
            {"value": f"{settings(done, axes)}", "name": "settings", "kind": ""},
            {"value": f"{failed}", "name": "failed", "kind": "bad" if failed else ""},
            {"value": f"{float(done['duration_s'].sum()) / 3600:.2f} h", "name": "simulated", "kind": ""},
        ],
        plots=_figures(done, chosen, axes),
        tables=tables,
        provenance=[("engines", ", ".join(sorted(done["engine"].unique())))],
        sources=[("Scenario of the newest run (TOML)", str(done["scenario"][-1]))],
        contents=[("figures", "Figures"), *((table["name"], table["title"]) for table in tables)],
    )


def _metrics(done: pl.DataFrame) -> list[str]:
    """The columns of `_METRICS` that have a value in some run; the wait only of flows without a measured delay."""
    found = [name for end in _METRICS for name in done.columns if name == end or name.endswith(f".{end}")]
    kept = [name for name in found if sweeps.is_measured(done, name)]
    copies = {name.replace(".delay_p95_ms", ".experience_p95_ms") for name in kept if name.endswith(".delay_p95_ms")}
    return [name for name in kept if name not in copies]


def _figures(done: pl.DataFrame, chosen: list[str], axes: list[str]) -> list[dict[str, Any]]:
    if not axes:
        return []
    wanted: list[tuple[str, str | None]] = [("people", None)] if sweeps.usual(done) == "people" else []
    wanted += [("lines", name) for name in chosen]
    if done["seed"].n_unique() > 2:
        wanted += [("box", name) for name in chosen[:1]]
    wanted += [("heat-map", name) for name in chosen[:1] if len(axes) > 1] + [("throughput-delay", None)]
    entries = []
    for figure, name in wanted:
        try:
            drawn = sweeps.draw(figure, done, metric=name, axis=None, by=None)
            title, caption = sweeps.captioned(figure, done, name)
        except sweeps.NoSuchColumn:
            # Of a store of calls and echoes only, which have no goodput or no delay.
            continue
        entries.append(plot_entry(f"{figure}-{name or 'all'}", title, caption, drawn, live=False))
    return entries


def _table(done: pl.DataFrame, name: str, axes: list[str]) -> dict[str, Any]:
    rows = statistics.summary(done, name, axes).to_dicts()
    return {
        "name": f"table-{name}",
        "title": sweeps.metric_title(name),
        "caption": f"Column {name}. Median over the runs of a setting, and its 95 % interval (bootstrap); "
        "of fewer than six runs their range.",
        "columns": [*axes, "median", "low", "high", "runs", "low to high"],
        "rows": [
            [
                *(str(row[axis]) for axis in axes),
                *(written(row[key]) for key in ("median", "low", "high")),
                str(row["n"]),
                row["interval"],
            ]
            for row in rows
        ],
        "names": len(axes),
    }
