"""A comparison with a base as text, as a comment in Markdown, and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailback.against.history import Entry, figure
from tailback.against.judging import CONFIRMED, FOUND, Change
from tailback.against.run import Against
from tailback.files import write_text
from tailback.judge import Interval
from tailback.numbers import written
from tailback.report.page import page as written_page
from tailback.report.page import plot_entry

__all__ = ["MARKER", "failures", "markdown", "page", "rows", "summary", "write_page"]

#: By it a workflow finds the comment it wrote before.
MARKER = "<!-- tailback ci -->"
HEADS = ("scenario", "measure", "base", "working tree", "difference", "share", "verdict")


def rows(against: Against) -> list[tuple[str, ...]]:
    """What changed, a row a measure, under `HEADS`."""
    return [
        (
            row.scenario,
            row.measure,
            written(row.base.estimate),
            written(row.change.estimate),
            _interval(row),
            "–" if math.isnan(row.share) else f"{100 * row.share:+.1f} %",
            row.verdict,
        )
        for row in against.changes
    ]


def _interval(row: Change) -> str:
    found: Interval = row.difference
    if row.is_exact:
        return f"{_signed(found.estimate)} (one case)"
    if found.width == 0.0:
        return f"{_signed(found.estimate)} (each seed)"
    return f"{_signed(found.estimate)} [{_signed(found.low)}, {_signed(found.high)}]"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + written(value)


def summary(against: Against) -> str:
    """The result in a line."""
    found = against.compared
    count, total = len(against.changes), len(found.names)
    if not found.measures:
        what = "nothing was compared"
    elif count:
        verdicts = [row.verdict for row in against.changes]
        kinds = ", ".join(
            f"{verdicts.count(kind)} {kind}" for kind in ("worse", "better", "changed") if kind in verdicts
        )
        what = f"{count} of {found.measures} measures changed ({kinds})"
    elif found.differing:
        what = f"runs of {len(found.differing)} of {total} scenarios differ, and no measure changed"
    else:
        what = f"no run of {total} scenario{'s' if total > 1 else ''} differs"
    parts = [what]
    parts += [f"{len(found.broken)} broken"] if found.broken else []
    parts += [f"{len(found.repaired)} repaired"] if found.repaired else []
    parts += [f"{len(found.incomparable)} not compared"] if found.incomparable else []
    parts += [f"{len(against.unreadable)} unreadable"] if against.unreadable else []
    return f"{', '.join(parts)}: {against.base.short} against {against.tree}"


def failures(against: Against) -> list[tuple[str, str, str]]:
    """Kind, scenario and reason of what is no comparison of measures."""
    found = against.compared
    kinds = (
        ("broken", found.broken), ("repaired", found.repaired), ("not compared", found.incomparable),
        ("unreadable", against.unreadable),
    )  # fmt: skip
    return [(kind, name, why) for kind, of in kinds for name, why in of.items()]


def method(against: Against) -> str:
    """By what rule, in two sentences."""
    found = against.compared
    return (
        f"{found.pairs} pairs of runs a scenario with one seed each, {found.runs} runs in {against.wall_s:.0f} s. "
        f"A measure counts as changed if a signed-rank test finds it with the first {found.pairs} seeds (false "
        f"discovery rate {FOUND:.0%}) and confirms it with {found.pairs} fresh ones (Holm, {CONFIRMED:.0%}), on which "
        "the 95 % intervals rest."
    )


def markdown(against: Against) -> str:
    """A comment for a pull request."""

    def cell(text: str) -> str:
        return (
            text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;").replace("@", "&#64;")
        )

    def code(text: str) -> str:
        # In a table a bar ends the cell even between backticks.
        return f"`{text.replace('`', chr(39)).replace('|', chr(92) + '|').replace(chr(10), ' ')}`"

    lines = [MARKER, f"### tailback ci: {cell(summary(against))}", ""]
    if against.changes:
        lines += [f"| {' | '.join(HEADS)} |", "|---|---|--:|--:|--:|--:|---|"]
        for scenario, measure, *values, verdict in rows(against):
            shown = f"**{verdict}**" if verdict == "worse" else verdict
            lines.append(f"| {' | '.join([code(scenario), code(measure), *map(cell, values), shown])} |")
        lines.append("")
    lines += [f"- **{kind}** {code(name)}: {cell(why)}" for kind, name, why in failures(against)]
    lines += [f"- {cell(note)}" for note in against.notes]
    if against.uncommitted:
        files = ", ".join(map(code, against.uncommitted[:5])) + (" …" if len(against.uncommitted) > 5 else "")
        lines.append(f"- The working tree has uncommitted files: {files}")
    again = f" Again: {code(against.command)}" if against.command else ""
    return "\n".join([*lines, "", f"<sub>{method(against)}{again}</sub>", ""])


def page(against: Against, history: Sequence[Entry] = ()) -> str:
    """One HTML file that loads nothing."""
    tables: list[dict[str, Any]] = []
    if against.changes:
        caption = "Only what changed. " + method(against)
        shown = [list(row) for row in rows(against)]
        tables.append(_table("changes", "What changed", caption, HEADS, shown, 2))
    if failed := failures(against):
        caption = "Broken: it fails in the working tree only. Repaired: it fails in the base only."
        tables.append(
            _table("failures", "Not compared", caption, ("kind", "scenario", "reason"), list(map(list, failed)), 3)
        )
    plots = []
    if len(history) > 1:
        caption = "The mean over the seeds of each revision kept, with its 95 % interval."
        plots.append(plot_entry("history", "The branch so far", caption, figure(history), live=False))
    verdicts = [row.verdict for row in against.changes]
    kinds = (("worse", "bad"), ("better", "good"), ("changed", ""))
    tiles = [{"value": str(verdicts.count(name)), "name": f"measures {name}", "kind": kind} for name, kind in kinds]
    tiles.append({"value": str(len(against.compared.names)), "name": "scenarios", "kind": ""})
    notes = list(against.notes)
    if against.uncommitted:
        notes.append(f"The working tree has uncommitted files: {', '.join(against.uncommitted)}")
    if not tables:
        notes.append(method(against))
    return written_page(
        title=f"{against.base.short} against {against.tree}",
        subtitle=summary(against),
        tiles=tiles,
        plots=plots,
        tables=tables,
        notes=notes,
        provenance=[
            ("command", against.command),
            ("base", f"{against.named}: {against.base.commit} {against.base.subject}"),
            ("working tree", f"{against.head.commit} {against.head.subject}"),
            ("scenarios", ", ".join(against.compared.names)),
        ],
    )


def _table(
    name: str, title: str, caption: str, columns: Sequence[str], shown: list[list[str]], names: int
) -> dict[str, Any]:
    return {"name": name, "title": title, "caption": caption, "columns": list(columns), "rows": shown, "names": names}


def write_page(against: Against, path: Path, history: Sequence[Entry] = ()) -> None:
    """The page, whole or not at all."""
    write_text(path, page(against, history))
