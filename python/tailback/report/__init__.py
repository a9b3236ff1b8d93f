"""Reports: one self-contained HTML file without external resources.

`write` writes the report of a result, a store or a study. A study's report is first written by `Study.run`, with its
figures beside it.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from .. import metrics, plots, registry
from ..answer import Answer, Person, Statement, answer, answer_of_runs
from ..experience import experience
from ..experiment.outcome import StudyResult
from ..experiment.store import Store
from ..files import write_text
from ..judge import CLAIM, PARTLY, TONES
from ..metrics import Rows
from ..numbers import written
from ..plots import flows as who
from ..plots import timeseries
from ..result.provenance import Provenance
from . import interactive
from .page import page, page_of_figure, plot_entry
from .sweeps import stored

if TYPE_CHECKING:
    from ..experiment.outcome import ClaimResult
    from ..experiment.study import Data, Study

#: Maximum number of transfers with a tile; the table of flows has all.
_TRANSFERS = 6
#: Maximum number of links with tiles.
_LINKS = 2

__all__ = ["answered", "claims_html", "page_of_figure", "single", "write", "write_study"]


def write(what: Any, path: str | Path) -> Path:
    """Write the report of a result, of a store of runs, or of a study that was run, as one HTML file.

    The file is written atomically.
    """
    target = Path(path)
    if isinstance(what, StudyResult):
        if what.report_path.resolve() != target.resolve():
            write_text(target, what.report_path.read_text(encoding="utf-8"))
        return target
    if isinstance(what, Store):
        write_text(target, stored(what))
        return target
    write_text(target, single(what))
    return target


def answered(what: Any) -> list[Statement]:
    """The sentences at the top of the report; none for a study, which begins with its claims."""
    if isinstance(what, StudyResult):
        return []
    return list((answer_of_runs(what.frame()) if isinstance(what, Store) else answer(what)).statements)


# --- Single results -------------------------------------------------------------------------------------------


def single(result: Any) -> str:
    """The report of one result as HTML text: who gains and who suffers, figures, what was counted, the scenario."""
    rows = Rows.of(result)
    shown = []
    specs = {}
    for name, title in _fitting(rows):
        recipe = plots.get(name)
        try:
            figure = recipe(rows)
        except plots.MissingRows:
            continue
        spec = _overview_spec(rows) if name == "overview" else None
        if spec:
            specs[name] = spec
        shown.append(
            plot_entry(name, title, _caption(rows, name), figure, live=spec is not None, live_first=spec is not None)
        )
    meta = rows.meta
    provenance = [
        ("name", rows.name or "–"),
        ("seed", str(rows.seed)),
        ("time", f"{rows.duration_s:g} s {Provenance.of(meta).way}"),
        *((str(k), str(v)) for k, v in meta.items() if k in ("version", "engine", "command", "python", "platform")),
    ]
    toml = getattr(result, "toml", "")
    sources = [("Scenario (TOML)", toml)] if toml else []
    sources.append(("Scenario, resolved (JSON)", json.dumps(rows.scenario, indent=1, ensure_ascii=False)))
    found = answer(rows)
    tables = [_flow_table(rows), *_experience_table(rows), *_program_tables(result), _link_table(rows)]
    return page(
        title=rows.name or "One run",
        subtitle=who.path_of(rows) + f", {rows.duration_s:g} s, seed {rows.seed}" if rows.has_bottleneck else "",
        answer=lines(found),
        tiles=_tiles(rows, found),
        plots=shown,
        tables=tables,
        notes=meta.get("notes", []),
        provenance=provenance,
        sources=sources,
        contents=[("figures", "Figures"), ("flows", "Flows"), ("links", "Links"), ("again", "Run it again")],
        specs={"figures": specs},
    )


def _caption(rows: Rows, name: str) -> str:
    return timeseries.caption(rows) if name == "overview" else plots.get(name).caption


def _fitting(rows: Rows) -> list[tuple[str, str]]:
    wanted = ["overview"]
    watched = bool(rows.tcp_flows) and (rows.has("polls") or rows.has("segments"))
    if watched and len(metrics.epochs(rows, rows.tcp_flows[0])):
        wanted.append("cwnd-and-queue")
    if rows.udp_flows and rows.has("packets"):
        wanted.append("delay-cdf")
        if rows.tcp_flows:
            wanted.append("delay-vs-occupancy")
    if rows.has("requests"):
        wanted.append("response-times")
    if any(registry.application(rows.flow_spec(flow)).datagrams == "voice" for flow in rows.udp_flows):
        wanted.append("voice-quality")
    if rows.has("echoes"):
        wanted.append("rtt-cdf")
    wanted += ["throughput", "loss"]
    if len(rows.tcp_flows) > 1 and rows.has("polls"):
        wanted.append("fairness")
    return [(name, plots.get(name).title) for name in wanted]


def _overview_spec(rows: Rows) -> dict[str, Any] | None:
    """The zoomable overview: the panels of the picture on one time axis."""
    drawn = timeseries.single(rows)
    stack = [
        interactive.Stacked(panel.title, panel.unit, panel.curves, panel.limit, panel.limit_name or "limit")
        for panel in drawn
    ]
    return interactive.stacked(stack) if stack else None


def _tile(value: str, name: str, kind: str = "") -> dict[str, str]:
    return {"value": value, "name": name, "kind": kind}


def _tiles(rows: Rows, found: Answer) -> list[dict[str, str]]:
    """Tiles for each person, each transfer, and the bottleneck."""
    tiles = [_person_tile(person) for person in found.people]
    for rate in found.transfers[:_TRANSFERS]:
        took = metrics.completion_time(rows, rate.of)
        done = "" if math.isnan(took) else f", complete in {written(took, 3)} s"
        tiles.append(_tile(str(rate), f"{rate.of}: goodput{done}"))
    if len(found.transfers) > 1:
        index = metrics.jain([rate.value for rate in found.transfers])
        tiles.append(_tile(written(index, 3), "Jain's fairness index of goodput"))
    if rows.has("links"):
        tiles += [tile for link in _narrow_links(rows) for tile in _link_tiles(rows, link)]
    return tiles


def _narrow_links(rows: Rows) -> list[int]:
    """The first flow's bottleneck and every link that dropped a packet, most drops first."""
    dropped = rows.tables["links"]["dropped"]
    chosen = [link for link in range(len(rows.link_names)) if rows.holds_queue(link) and dropped[link]]
    if rows.has_bottleneck and rows.bottleneck not in chosen:
        chosen.append(rows.bottleneck)
    return sorted(chosen, key=lambda link: -int(dropped[link]))[:_LINKS]


def _link_tiles(rows: Rows, link: int) -> list[dict[str, str]]:
    name, used = rows.link_names[link], metrics.utilisation(rows, link)
    lost = _tile(f"{written(100 * metrics.drop_share_at_link(rows, link), 2)} %", f"{name}: packets dropped")
    # A medium determines its own rate, so its capacity is unknown.
    return [lost] if math.isnan(used) else [_tile(f"{written(100 * used, 3)} %", f"{name}: utilisation"), lost]


def _person_tile(person: Person) -> dict[str, str]:
    kind = {True: "bad", False: "good", None: ""}[person.suffers]
    usual = "" if person.before is None else f" ({person.before} with transfers off)"
    return _tile(str(person.now), f"{person.flow}: {person.what}{usual}", kind)


def lines(found: Answer) -> list[dict[str, str]]:
    """The sentences of an answer in the template's form."""
    return [{"kind": each.kind, "text": each.text} for each in found.statements]


def _flow_table(rows: Rows) -> dict[str, Any]:
    counted = []
    for flow, name in enumerate(rows.flow_names):
        totals = {key: column[0] for key, column in rows.of_flow("flows", flow).items()}
        counted.append(
            [
                name,
                who.title_of(rows, flow),
                written(metrics.goodput(rows, flow) / 1e6),
                f"{int(totals['packets_sent']):,}",
                f"{int(totals['packets_dropped']):,}",
                f"{metrics.retransmitted(rows, flow):,}",
                f"{int(totals['recoveries'])}",
                f"{int(totals['timeouts'])}",
                written(1e3 * float(totals["rtt_min_s"])),
                written(1e3 * float(totals["srtt_s"])),
            ]
        )
    columns = ["flow", "sender", "goodput (Mbit/s)", "packets", "dropped", "retransmitted", "recoveries", "timeouts",
               "smallest RTT (ms)", "last smoothed RTT (ms)"]  # fmt: skip
    return {
        "name": "flows",
        "title": "Flows",
        "caption": "Counted over the whole run.",
        "columns": columns,
        "rows": counted,
        "names": 2,
    }


def _experience_table(rows: Rows) -> list[dict[str, Any]]:
    """User experience of callers, readers and pings; no table if none was recorded."""
    counted = [
        [
            row["flow"],
            row["measure"],
            written(row["count"]),
            written(row["median_ms"]),
            written(row["p95_ms"]),
            written(None if row["lost"] is None else 100 * row["lost"]),
            written(row["jitter_ms"]),
            written(row["mos"]),
        ]
        for row in experience(rows)
    ]
    if not counted:
        return []
    return [
        {
            "name": "experience",
            "title": "What people on the link experience",
            "caption": "Delay is one way. Lost: packets lost, requests or pings never answered. MOS by the E-model, of "
            f"voice. {metrics.NOT_RATED}",
            "columns": ["flow", "measure", "count", "median (ms)", "95 % (ms)", "lost (%)", "jitter (ms)", "MOS"],
            "rows": counted,
            "names": 2,
        }
    ]


def _program_tables(result: Any) -> list[dict[str, Any]]:
    """Exit status and measurements of a live run's programs; empty if there were none."""
    ends = [
        [row["flow"], row["program"], row["end"], "–" if row["status"] is None else str(row["status"]),
         f"{row['started_s']:.3f}", f"{row['ended_s']:.3f}"]
        for row in getattr(result, "program_summary", list)()
    ]  # fmt: skip
    figures = [
        [row["flow"], row["measured"], written(row["value"], 6)] for row in getattr(result, "program_metrics", list)()
    ]
    tables = [
        {
            "name": "programs",
            "title": "Programs",
            "caption": "Exited: by itself; stopped: when asked at its stop; killed: because it did not end then.",
            "columns": ["flow", "program", "end", "status", "started (s)", "ended (s)"],
            "rows": ends,
            "names": 3,
        },
        {
            "name": "program-metrics",
            "title": "What the programs measured",
            "caption": "Read from their own output; the unit ends the name.",
            "columns": ["flow", "measured", "value"],
            "rows": figures,
            "names": 2,
        },
    ]
    return [table for table in tables if table["rows"]]


def _link_table(rows: Rows) -> dict[str, Any]:
    counted = []
    for link, name in enumerate(rows.link_names):
        totals = {key: column[0] for key, column in rows.of_link("links", link).items()}
        spec = rows.link_spec(link)
        queued = rows.holds_queue(link)
        counted.append(
            [
                name,
                str(spec["queue"]["discipline"]) if queued else "–",
                who.carrier(rows, link) if queued else "∞",
                f"{1e3 * float(spec.get('delay_ps', 0)) / 1e12:g}",
                f"{int(totals['arrived']):,}",
                f"{int(totals['dropped']):,}",
                f"{int(totals['marked']):,}",
                written(100 * metrics.utilisation(rows, link)) if queued else "–",
                written(float(totals["backlog_bytes_mean"]) / 1e3),
                written(float(totals["backlog_bytes_max"]) / 1e3),
            ]
        )
    columns = ["link", "queue", "rate", "delay (ms)", "packets", "dropped", "marked", "utilisation (%)",
               "mean queue (kB)", "largest queue (kB)"]  # fmt: skip
    return {
        "name": "links",
        "title": "Links",
        "caption": "Counted over the whole run.",
        "columns": columns,
        "rows": counted,
        "names": 2,
    }


# --- Studies --------------------------------------------------------------------------------------------------


def write_study(study: Study, data: Data, result: StudyResult, clock: Callable[[], float]) -> Path:
    """Draw a study's figures (PNG and PDF into `figures/`) and write its report.

    Fills in `result.figures`, and `result.wall_s` in wall-clock seconds since the study began.
    """
    folder = result.folder / "figures"
    entries, specs = [], {}
    for plot in study.plots:
        figure = plot.draw(data)
        saved = plots.save(figure, folder / plot.name)
        spec = plot.interactive(data) if plot.interactive else None
        if spec:
            specs[plot.name] = spec
        entries.append(plot_entry(plot.name, plot.title, plot.caption, figure, live=spec is not None, saved=saved))
        result.figures.append(
            {"name": plot.name, "title": plot.title, "files": [str(Path("figures") / path.name) for path in saved]}
        )
    explorer = study.explorer(data)
    result.wall_s = clock()
    whole = page(
        title=result.title,
        subtitle=result.paper,
        tiles=_study_tiles(result),
        claims=Markup(_claims_table(result.claims)),
        plots=entries,
        tables=[vars(table) | {"names": 2 if table.columns[1] == "sender" else 1} for table in result.tables],
        explorer=explorer is not None,
        notes=result.meta["notes"],
        provenance=_provenance(result),
        sources=_sources(data),
        contents=[
            ("claims", "Claims"),
            ("figures", "Figures"),
            *((table.name, table.title.split(" (")[0].split(":")[0]) for table in result.tables),
            *([("explorer", "Look at any run")] if explorer else []),
            ("again", "Run it again"),
        ],
        specs={"figures": specs, "explorer": explorer},
    )
    write_text(result.report_path, whole)
    return result.report_path


def _study_tiles(result: StudyResult) -> list[dict[str, str]]:
    kinds = {word: TONES.get(CLAIM.verdict(word), "") for word in CLAIM.all()} | {PARTLY: "some"}
    tiles = [{"value": str(n), "name": word, "kind": kinds.get(word, "")} for word, n in result.verdicts().items()]
    if aside := result.aside():
        tiles.append({"value": str(sum(aside.values())), "name": f"not counted: {', '.join(aside)}", "kind": ""})
    tiles.append({"value": f"{result.cells_run + result.cells_reused}", "name": "runs", "kind": ""})
    tiles.append({"value": f"{result.simulated_s / 3600:.1f} h", "name": "simulated", "kind": ""})
    # The duration of reused runs is unknown.
    if result.cells_run and not result.cells_reused:
        tiles.append({"value": result.took(), "name": f"on {result.meta['cores']} cores", "kind": ""})
    return tiles


def _provenance(result: StudyResult) -> list[tuple[str, str]]:
    meta = result.meta
    return [
        ("command", str(meta["command"])),
        ("seeds", ", ".join(str(seed) for seed in meta["seeds"])),
        ("engine", str(meta["engine"])),
        ("cells", str(meta["cells"])),
        ("Python", str(meta["python"])),
        ("platform", str(meta["platform"])),
    ]


def _sources(data: Data) -> list[tuple[str, str]]:
    shown = [cell for cell in data.cells.values() if cell.keep_tables][:8] or list(data.cells.values())[:1]
    return [(f"Scenario: {cell.label}", cell.scenario.to_toml()) for cell in shown]


def _claims_table(claims: Sequence[ClaimResult]) -> str:
    out = ["<table><thead><tr><th>claim</th><th>what the paper says</th><th>paper</th><th>ours</th><th>spread</th>"
           "<th>verdict</th><th>standing</th><th>figure</th></tr></thead><tbody>"]  # fmt: skip
    for claim in claims:
        e = _escaped(vars(claim))
        out.append(
            f'<tr class="claim" id="{e["id"]}"><td><b>{html.escape(claim.label)}</b></td><td>{e["text"]} '
            f'<span class="soft small">({e["where"]})</span></td><td>{e["paper"]}</td><td><b>{e["ours"]}</b></td>'
            f'<td class="soft">{e["spread"]}</td><td><span class="badge {e["verdict"]}">{e["verdict"]}</span></td>'
            f'<td class="soft">{e["standing"]}</td>'
            f'<td><a href="#{e["figure"]}">{e["figure"]}</a></td></tr>'
        )
        note = f"<br><b>Details.</b> {e['note']}." if e["note"] else ""
        notes = [f"{claim.standing.capitalize()}: {claim.because}" if claim.because else "", claim.why]
        why = "".join(f'<div class="small why">{html.escape(one)}</div>' for one in notes if one)
        changed = f"<br><b>Redefined after first results.</b> {e['redefined']}" if e["redefined"] else ""
        out.append(
            f'<tr class="how"><td></td><td colspan="7">{why}<details><summary>how</summary><div class="in">'
            f"<b>Measured.</b> {e['definition']}.<br><b>Rule.</b> {e['threshold']}."
            f"<br><b>Scale.</b> {e['scale']}, in the paper's rate and time.{changed}{note}</div></details></td></tr>"
        )
    out.append("</tbody></table>")
    return "".join(out)


def _escaped(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: html.escape(str(value)) for name, value in values.items()}


def claims_html(result: StudyResult) -> str:
    """The claims table alone, for notebooks."""
    return _claims_table(result.claims)
