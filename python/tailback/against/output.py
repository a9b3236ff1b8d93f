"""A comparison with a base as text, as a comment in Markdown, and as an HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailback.against.conditions import HOLDS
from tailback.against.history import Entry, figure
from tailback.against.judging import CONFIRMED, FOUND, Change
from tailback.against.run import Against
from tailback.expect.output import bounds_shown, interval_shown
from tailback.files import write_text
from tailback.judge import Interval
from tailback.numbers import signed, written
from tailback.report.page import page as written_page
from tailback.report.page import plot_entry

__all__ = [
    "EXPECTED",
    "HEADS",
    "HOLDS",
    "MARKER",
    "conditions",
    "expected",
    "failures",
    "lost",
    "markdown",
    "page",
    "rows",
    "summary",
    "write_page",
]

#: Marker by which a workflow finds its earlier comment.
MARKER = "<!-- tailback ci -->"
EXPECTED = ("scenario", "condition", "base", "working tree", "bound", "outcome")
HEADS = ("scenario", "measure", "base", "working tree", "difference", "share", "verdict")


def rows(against: Against) -> list[tuple[str, ...]]:
    """The changes, one row per measure, under `HEADS`."""
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
        return f"{signed(found.estimate)} (one case)"
    if found.width == 0.0:
        return f"{signed(found.estimate)} (each seed)"
    return f"{signed(found.estimate)} [{signed(found.low)}, {signed(found.high)}]"


def expected(against: Against) -> list[tuple[str, ...]]:
    """The scenarios' conditions, one row each, under `EXPECTED`."""
    return [
        (
            each.scenario,
            each.condition,
            interval_shown(each.base.measured),
            interval_shown(each.change.measured),
            bounds_shown(each.change),
            each.outcome,
        )
        for each in against.compared.expected
    ]


def lost(against: Against) -> list[tuple[str, str, str]]:
    """Scenario, condition and values of each condition that held on the base and fails now."""
    out = []
    for each in against.lost:
        values = f"{interval_shown(each.base.measured)} on the base, {interval_shown(each.change.measured)} now"
        out.append((each.scenario, each.condition, values + (f": {each.change.why}" if each.change.why else "")))
    return out


def conditions(against: Against) -> str:
    """Number of conditions by outcome, in a line; empty without conditions."""
    outcomes = [each.outcome for each in against.compared.expected]
    return ", ".join(f"{outcomes.count(word)} {word}" for word in dict.fromkeys(outcomes))


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
    parts += [f"{len(against.lost)} of {len(found.expected)} conditions no longer hold"] if against.lost else []
    parts += [f"{len(found.broken)} broken"] if found.broken else []
    parts += [f"{len(found.repaired)} repaired"] if found.repaired else []
    parts += [f"{len(found.incomparable)} not compared"] if found.incomparable else []
    parts += [f"{len(against.unreadable)} unreadable"] if against.unreadable else []
    return f"{', '.join(parts)}: {against.base.short} against {against.tree}"


def failures(against: Against) -> list[tuple[str, str, str]]:
    """Kind, scenario and reason of each scenario that could not be compared."""
    found = against.compared
    kinds = (
        ("broken", found.broken), ("repaired", found.repaired), ("not compared", found.incomparable),
        ("unreadable", against.unreadable),
    )  # fmt: skip
    return [(kind, name, why) for kind, of in kinds for name, why in of.items()]


def method(against: Against) -> str:
    """The statistical rule, in two sentences."""
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
        # In a table a bar ends the cell, even inside backticks.
        return f"`{text.replace('`', chr(39)).replace('|', chr(92) + '|').replace(chr(10), ' ')}`"

    lines = [MARKER, f"### tailback ci: {cell(summary(against))}", ""]
    if against.changes:
        lines += [f"| {' | '.join(HEADS)} |", "|---|---|--:|--:|--:|--:|---|"]
        for scenario, measure, *values, verdict in rows(against):
            shown = f"**{verdict}**" if verdict == "worse" else verdict
            lines.append(f"| {' | '.join([code(scenario), code(measure), *map(cell, values), shown])} |")
        lines.append("")
    lines += [f"- **no longer holds** {code(name)}: {code(what)}: {cell(why)}" for name, what, why in lost(against)]
    lines += [f"- **{kind}** {code(name)}: {cell(why)}" for kind, name, why in failures(against)]
    lines += [f"- {cell(note)}" for note in against.notes]
    if against.uncommitted:
        files = ", ".join(map(code, against.uncommitted[:5])) + (" …" if len(against.uncommitted) > 5 else "")
        lines.append(f"- The working tree has uncommitted files: {files}")
    if against.compared.expected:
        lines += ["", f"<details><summary>Conditions: {conditions(against)}</summary>", ""]
        lines += [f"| {' | '.join(EXPECTED)} |", "|---|---|--:|--:|--:|---|"]
        for scenario, condition, *values in expected(against):
            lines.append(f"| {' | '.join([code(scenario), code(condition), *map(cell, values)])} |")
        lines += ["", "</details>"]
    again = f" Again: {code(against.command)}" if against.command else ""
    return "\n".join([*lines, "", f"<sub>{method(against)}{again}</sub>", ""])


def page(against: Against, history: Sequence[Entry] = ()) -> str:
    """One HTML file without external resources."""
    tables: list[dict[str, Any]] = []
    if against.changes:
        caption = "Only what changed. " + method(against)
        shown = [list(row) for row in rows(against)]
        tables.append(_table("changes", "What changed", caption, HEADS, shown, 2))
    if against.compared.expected:
        caption = (
            f"{conditions(against)}. The judge of tailback test, over the pairs' seeds in one look. What no longer "
            "holds fails with the fresh seeds too, which its values are of."
        )
        shown = [list(row) for row in expected(against)]
        tables.append(_table("expected", "What the scenarios expect", caption, EXPECTED, shown, 2))
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
    if against.compared.expected:
        count = len(against.lost)
        tiles.append({"value": str(count), "name": "conditions no longer hold", "kind": "bad" if count else ""})
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
    """Write the page atomically."""
    write_text(path, page(against, history))
