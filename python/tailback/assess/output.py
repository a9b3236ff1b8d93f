"""Writes a dossier as JSON, Markdown and one HTML page: verdicts first, then each cell with its command."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from tailback import _core
from tailback.assess import population, sections
from tailback.assess.pictures import curves, gauge
from tailback.assess.procedure import GENERAL, Cell, Experiment
from tailback.assess.verdicts import NOT_APPLICABLE, NOT_RUN, OWN, Checked, Criterion, Found, excess
from tailback.files import write_text
from tailback.judge import CLAIM, CONTROL, LEVEL, PARTLY, UNFINISHED, Interval, Verdict, Words, colour, together
from tailback.numbers import written
from tailback.report.page import page

if TYPE_CHECKING:
    from tailback.assess.run import Assessment

__all__ = ["as_json", "colour", "command", "html", "markdown", "save", "worst"]

#: A red disc, before criteria that are a MUST and were not run.
_RED = "\N{LARGE RED CIRCLE}"
BROKEN = "This suite is broken: a control whose verdict is known came out otherwise. No verdict below counts."


#: Shares that are written in per cent.
_SHARES = ("loss", "loss_absolute", "unfinished", "others_unfinished")


def command(done: Assessment, cell: Cell | None = None) -> str:
    """The command that repeats the dossier, or that runs one of its cells."""
    written = done.written
    if cell is None:
        words = ["tailback", "assess", written]
        words += ["--against", ",".join(done.named)] if done.named else []
        words += ["--quick"] if done.is_quick else []
        words += ["--seeds", str(done.seeds)] if done.seeds else []
        words += (
            ["--for", done.scope] if done.scope != done.procedure.scope_of.get(done.candidate.name, GENERAL) else []
        )
        words += [part for name in done.only for part in ("--only", name)]
        words += ["--engine", done.engine] if done.engine else []
        words += ["--kernel", done.kernel] if done.kernel else []
        words += ["--allow-code"] if done.candidate.allow_code else []
        return shlex.join(words)
    # The command runs in the folder of the assessment, because a class's file is looked up from there.
    words = ["tailback", "run", f"{done.folder}cells/{cell.name}.toml", "--seed", "1"]
    on_kernel = bool(done.engine) or done.procedure.needs_guest(done.candidate)
    words += ["--engine", "vm", "--kernel", done.kernel] if on_kernel and done.kernel else []
    words += ["--engine", done.engine] if on_kernel and not done.kernel else []
    words += ["--allow-code"] if done.candidate.allow_code else []
    return shlex.join(words)


def worst(found: Found | None, cells: dict[str, Cell]) -> str:
    """The finding that decides the verdict, in a sentence."""
    if found is None:
        return ""
    if found.why and not math.isfinite(found.candidate.estimate):
        return f"{cells[found.cell].label}: {found.why}"
    if found.why and found.verdict == Verdict.FAILED:
        # It failed because a seed has no such number; the mean of the other seeds does not explain that.
        return f"{cells[found.cell].label}: {found.rule.title}: {found.why}"
    value = _amount(found, found.candidate.estimate)
    shown = f"{cells[found.cell].label}: {found.rule.title} {value}"
    if found.against == OWN or found.rule.is_absolute:
        return f"{shown}, {'at least' if found.rule.more else 'at most'} {_amount(found, found.bound)}"
    base = _amount(found, found.baselines[found.against].estimate) if found.against else "–"
    return f"{shown}, {found.against} {base}"


def _least_room(criterion: Criterion) -> Found | None:
    """The number with the least room to its bound, or furthest beyond it."""
    return max(criterion.found, key=excess, default=None)


def effect(criterion: Criterion, label: str, *, has_own_bounds: bool = False) -> str:
    """The verdict against one baseline, and the candidate's largest relevant difference to it.

    If candidates set bounds themselves: only the difference, in the number that the row shows.
    """
    if has_own_bounds:
        shown = criterion.worst or _least_room(criterion)
        difference = shown.differences.get(label) if shown else None
        return f"{_range(shown, difference)}{_unit(shown)}" if shown and difference else ""
    verdict, found = criterion.against(label)
    if found is None:
        return ""
    # If the plain case decided, the effect is the difference to it.
    is_beyond = found.direct != found.raw and label in found.beyond_plain
    difference = found.beyond_plain[label] if is_beyond else found.differences.get(label)
    if difference is None or not math.isfinite(difference.estimate):
        return verdict
    beyond = " beyond plain" if is_beyond else ""
    return f"{verdict}: {_range(found, difference)}{_unit(found)}{beyond}"


def by_ware(criterion: Criterion, cells: dict[str, Cell]) -> str:
    """The criterion's verdict under the rule of Ware et al., in a sentence."""
    if not criterion.ware:
        return ""
    beyond = Criterion(criterion.experiment, together([each.verdict for each in criterion.ware]), criterion.ware)
    cell = worst(beyond.worst, cells)
    return (
        f"{criterion.experiment.title}: {beyond.verdict} by Ware et al.'s rule{f' ({cell})' if cell else ''}. "
        "It allows no more harm to an algorithm than it does to itself."
    )


def _unit(found: Found) -> str:
    unit = "%" if _is_share(found) else found.rule.unit
    return f" {unit}" if unit else ""


def _is_share(found: Found) -> bool:
    """Whether the number is a share that is printed in per cent; a number measured in per cent has its own unit."""
    return found.statistic in _SHARES and not found.rule.unit


def _amount(found: Found, value: float) -> str:
    """A number with its unit; a share of packets in per cent."""
    return f"{written(100 * value if _is_share(found) else value, 3)}{_unit(found)}"


def _range(of: Found, found: Interval) -> str:
    if not math.isfinite(found.estimate):
        return "–"
    scale = 100.0 if _is_share(of) else 1.0

    def number(value: float) -> str:
        # Values below 0.0001 are rounded: they would need many zeros.
        return written(round(scale * value, 4), 3)

    return f"{number(found.estimate)} [{number(found.low)}, {number(found.high)}]"


def as_json(done: Assessment) -> dict[str, Any]:
    """Every number of the dossier."""
    cells = {cell.name: cell for cell in done.cells()}
    return {
        "candidate": done.candidate.label,
        "digest": done.candidate.digest,
        "version": _core.version(),
        "against": list(done.against),
        "set_bounds": list(done.setting),
        "scope": done.scope,
        "quick": done.is_quick,
        "seeds": list(done.rounds.counts),
        "only": list(done.only),
        "interrupted": done.interrupted,
        "command": command(done),
        **({"kernel": done.kernel} if done.kernel else {}),
        "verdict": done.verdict,
        "broken": done.is_broken,
        "counts": done.counted(),
        "musts_not_run": [each.experiment.name for each in done.criteria if each.is_missing_must],
        "runs": done.run, "reused": done.reused, "failed_runs": done.failed, "wall_s": done.wall_s,
        "controls": [
            {
                "cc": each.control.cc, "statistic": each.control.statistic, "must_fail": each.control.fails,
                "verdict": each.verdict, "as_known": each.as_known, "source": each.control.source,
                "changed": each.control.changed, "found": [one.to_json() for one in each.found],
            }
            for each in done.controls
        ],
        "discovery": dict(
            zip(("tested", "decided_alone", "decided"), sections.discovery_counts(done), strict=True), level=LEVEL
        ),
        "connections_failed": [
            {"cell": cell, "flows": label, "failed": failed, "of": opened}
            for (cell, label), (failed, opened) in done.lost.items()
        ],
        "population": done.population.to_json() if done.population else None,
        "criteria": [
            {
                "name": each.experiment.name, "section": each.experiment.section, "title": each.experiment.title,
                "word": each.experiment.word, "verdict": each.verdict, "why": each.why, "raw": each.raw,
                "missing_must": each.is_missing_must,
                "worst": worst(each.worst, cells), "found": [one.to_json() for one in each.found],
                "by_ware": together([one.verdict for one in each.ware]) if each.ware else None,
                "ware": [one.to_json() for one in each.ware],
            }
            for each in done.criteria
        ],
        "cells": {
            name: {"label": cell.label, "scenario": f"cells/{name}.toml", "command": command(done, cell)}
            for name, cell in cells.items()
        },
    }  # fmt: skip


def _where(done: Assessment) -> str:
    """Where the runs took place, unless all of them were simulated."""
    if done.engine:
        where = f"in guests of {done.kernel}" if done.kernel else "on a machine's kernel"
        return f" All cells ran {where}, the baselines' too; the controls are simulated."
    if not done.kernel:
        return ""
    beside = [each for each in done.against if each.startswith("kernel:")]
    others = f"it and {' and '.join(beside)} in a guest" if beside else "it in a guest"
    return f" Its kernel is {done.kernel}: {others}, all else simulated."


def markdown(done: Assessment) -> str:
    """The page of verdicts."""
    cells = {cell.name: cell for cell in done.cells()}
    lines = [f"# {done.candidate.label} by {done.procedure.rfc}", ""]
    if done.interrupted:
        lines += ["**Interrupted: not all of its runs were finished.**", ""]
    if done.is_broken:
        lines += [f"**{BROKEN}**", ""]
    version = f", {done.candidate.name} {done.candidate.version}" if done.candidate.version else ""
    made = f"Made by `{command(done)}`{version}."
    lines += [f"{_tally(done)} Against {_against(done)}, {_how(done)}. {made}", ""]
    lines += [f"{done.procedure.judged_as(done.candidate, done.scope)}{_where(done)}", ""]
    sign = "{label} alone" if not done.procedure.has_own_bounds else "{label}"
    beside = "".join(f" Beside {sign.format(label=label)} |" for label in done.against)
    lines += [
        f"| § | Criterion | RFC | Verdict | What weighs most |{beside}",
        "|---|---|---|---|---|" + "---|" * len(done.against),
    ]
    own = done.procedure.has_own_bounds
    for each in done.criteria:
        verdict = f"**{each.verdict}**" if each.verdict == Verdict.FAILED or each.is_missing_must else each.verdict
        # Markdown has no colours of its own.
        verdict = f"{_RED} {verdict}" if each.is_missing_must else verdict
        verdict += f" ({each.raw} one by one)" if each.raw != each.verdict and each.found else ""
        reason = worst(each.worst or (_least_room(each) if done.procedure.has_own_bounds else None), cells) or each.why
        is_paths = each.experiment is population.EXPERIMENT
        apart = "".join(
            f" {sections.beside(done, label) if is_paths else effect(each, label, has_own_bounds=own)} |"
            for label in done.against
        )
        head = f"{each.experiment.section} | {each.experiment.title} | {each.experiment.word}"
        lines.append(f"| {head} | {verdict} | {reason} |{apart}")
    lines += ["", *(line for each in done.criteria if (line := by_ware(each, cells)))]
    for section in sections.sections(done):
        lines += sections.as_markdown(section)
    lines += ["", "## Is the suite itself sound?"]
    lines += ["", "| Control | must | came out |", "|---|---|---|"]
    lines += [f"| {each.control.label} | {_must(each)} | {each.verdict} |" for each in done.controls]
    return "\n".join([*lines, "", _note(done), ""])


def _tally(done: Assessment) -> str:
    counts = done.counted()
    missing = sum(each.is_missing_must for each in done.criteria)
    passed, failed, undecided = (counts[each] for each in (Verdict.PASSED, Verdict.FAILED, Verdict.UNDECIDED))
    text = f"{passed} criteria passed, {failed} failed, {undecided} undecided, "
    text += f"{counts[NOT_RUN]} not run ({missing} of them a MUST)"
    text += f", {counts[NOT_APPLICABLE]} not applicable." if counts[NOT_APPLICABLE] else "."
    return text if not counts[UNFINISHED] else f"{counts[UNFINISHED]} not finished, {text}"


def _how(done: Assessment) -> str:
    first, last = done.rounds.counts[0], done.rounds.most
    return f"{first} to {last} seeds" if last > first else f"{first} seeds"


def _against(done: Assessment) -> str:
    """The baselines, those that set no bound last."""
    aside = [label for label in done.against if label not in done.setting]
    return " and ".join(done.setting) + "".join(f", beside {label}, which sets no bound" for label in aside)


def _note(done: Assessment) -> str:
    """How verdicts are reached, and what the baselines are that set no bound."""
    aside = [label for label in done.against if label not in done.setting]
    return " ".join([done.procedure.note, *(done.procedure.compared_notes[label] for label in aside)])


def _must(each: Checked) -> str:
    where = ", ".join(each.control.cells)
    return f"{'fail' if each.control.fails else 'not fail'} by {each.control.statistic} in {where}"


def save(done: Assessment, folder: Path) -> Path:
    """Write the dossier; report.html's path."""
    # A dossier must not show absolute paths of this machine.
    done.folder = "" if folder.is_absolute() else f"{folder.as_posix()}/"
    for cell in done.cells():
        write_text(folder / "cells" / f"{cell.name}.toml", done.scenario(cell).to_toml())
    for path, _, _ in done.population.worst() if done.population else ():
        write_text(folder / "population" / f"{path.name}.toml", path.scenario(done.candidate.cc).to_toml())
    text = json.dumps(_plain(as_json(done)), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(folder / "dossier.json", text + "\n")
    write_text(folder / "dossier.md", markdown(done))
    report = folder / "report.html"
    write_text(report, html(done))
    return report


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- The page -------------------------------------------------------------------------------------------------

#: CSS classes, named like the verdicts of claims.
_BADGES = {Verdict.PASSED: CLAIM(Verdict.PASSED), Verdict.FAILED: CLAIM(Verdict.FAILED), Verdict.UNDECIDED: PARTLY}


def _badge(verdict: str, is_missing_must: bool = False) -> Markup:
    kind = "must" if is_missing_must else _BADGES.get(Words.verdict(verdict), CLAIM(Verdict.NOT_RUN))
    return Markup('<span class="badge {}">{}</span>').format(kind, verdict)


def html(done: Assessment) -> str:
    """The HTML page: verdicts, then each cell with its picture, scenario, seed and command."""
    cells = {cell.name: cell for cell in done.cells()}
    counts = done.counted()
    missing = sum(each.is_missing_must for each in done.criteria)
    tiles = [
        {
            "value": str(counts[Verdict.PASSED]),
            "name": "criteria passed",
            "kind": "good" if counts[Verdict.PASSED] else "",
        },
        {"value": str(counts[Verdict.FAILED]), "name": "failed", "kind": "bad" if counts[Verdict.FAILED] else ""},
        {
            "value": str(counts[Verdict.UNDECIDED]),
            "name": "undecided",
            "kind": "some" if counts[Verdict.UNDECIDED] else "",
        },
        {"value": str(missing), "name": "MUSTs not run", "kind": "bad" if missing else ""},
        {
            "value": "broken" if done.is_broken else CONTROL(Verdict.PASSED) if done.controls else "–",
            "name": "controls",
            "kind": "bad" if done.is_broken else "good",
        },
    ]
    run = [each for each in done.criteria if each.found]
    more = sections.sections(done)
    contents = [("verdicts", "Verdicts"), ("controls", "Controls"), *((each.name, each.title) for each in more)]
    contents += [(each.experiment.name, each.experiment.section) for each in run]
    parts = [("verdicts", "Verdicts", _verdicts(done, cells)), ("controls", "Controls", _controls(done))]
    parts += [(each.name, each.title, sections.as_html(each)) for each in more]
    for each in run:
        title = f"{each.experiment.section} {each.experiment.title}"
        parts.append((each.experiment.name, title, _criterion(done, each, cells)))
    source = done.candidate.source
    return page(
        title=f"{done.candidate.label} by {done.procedure.rfc}",
        subtitle=f"Beside {_against(done)} in the same cells, {_how(done)}, paired",
        tiles=tiles,
        sections=parts,
        notes=["Interrupted: not all of its runs were finished."] if done.interrupted else [],
        provenance=[
            ("command", command(done)),
            ("version", _core.version()),
            *([("version of the transport", done.candidate.version)] if done.candidate.version else []),
            ("digest of the candidate", done.candidate.digest),
            ("runs", f"{done.run:,} done, {done.reused:,} found in the store, {done.failed:,} failed"),
        ],
        sources=[(f"Source of {done.candidate.label}", source)] if source else [],
        contents=contents,
    )


def _verdicts(done: Assessment, cells: dict[str, Cell]) -> Markup:
    rows = []
    for each in done.criteria:
        name = escape(each.experiment.title)
        if each.found or (each.experiment is population.EXPERIMENT and done.population):
            name = Markup('<a href="#{}">{}</a>').format(each.experiment.name, name)
        counted = [one.verdict for one in each.found]
        share = f"{counted.count(Verdict.PASSED)} of {len(counted)}" if counted else ""
        rows.append(
            Markup("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>").format(
                each.experiment.section, name, each.experiment.word, _badge(each.verdict, each.is_missing_must), share,
                worst(each.worst, cells) or each.why,
            )
        )  # fmt: skip
    broken = Markup('<p><span class="badge not">{}</span></p>').format(BROKEN) if done.is_broken else ""
    head = Markup(
        '<p class="soft small">{}</p>{}<div class="scroll"><table class="verdicts">'
        "<thead><tr><th>§</th><th>criterion</th><th>RFC</th>"
        "<th>verdict</th><th>numbers that passed</th><th>what weighs most</th></tr></thead><tbody>"
    ).format(_note(done), broken)
    return head + Markup("").join(rows) + Markup("</tbody></table></div>")


def _controls(done: Assessment) -> Markup:
    rows = []
    for each in done.controls:
        numbers = "; ".join(
            f"{one.cell}: {_range(one, one.candidate)}, bound {_amount(one, one.bound)}" for one in each.found
        )
        verdict = Verdict.of(each.as_known)
        came = Markup('<span class="badge {}">{}</span>').format(CLAIM(verdict), CONTROL(verdict))
        source = f"{each.control.source}. {each.control.changed}" if each.control.changed else each.control.source
        rows.append(
            Markup("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>").format(
                each.control.label, _must(each), came, numbers, source
            )
        )
    about = (
        "Candidates whose verdicts are known, by the same rules beside the usual baselines (none beside itself). If "
        "one comes out otherwise, the suite is broken, not the candidate."
    )
    return (
        Markup(
            '<p class="soft small">{}</p><div class="scroll"><table><thead><tr><th>control</th><th>must</th><th></th>'
            "<th>measured</th><th>source</th></tr></thead><tbody>"
        ).format(about)
        + Markup("").join(rows)
        + Markup("</tbody></table></div>")
    )


def _criterion(done: Assessment, criterion: Criterion, cells: dict[str, Cell]) -> Markup:
    word = f" {done.procedure.rfc}: {criterion.experiment.word}." if criterion.experiment.word else ""
    out = Markup("<p>{} {}{}</p>").format(_badge(criterion.verdict), criterion.experiment.about, word)
    if line := by_ware(criterion, cells):
        out += Markup('<p class="soft small">{}</p>').format(line)
    for name in dict.fromkeys(one.cell for one in criterion.found):
        out += _cell(done, criterion.experiment, cells[name], [one for one in criterion.found if one.cell == name])
    return out


def _from_bound(one: Found) -> Interval:
    """The difference between the candidate and the bound that it sets itself."""
    mine = one.candidate
    return replace(mine, estimate=mine.estimate - one.bound, low=mine.low - one.bound, high=mine.high - one.bound)


def _cell(done: Assessment, criterion: Experiment, cell: Cell, found: Sequence[Found]) -> Markup:
    heads = ["", "verdict", done.candidate.label, *done.against, "difference", "rule", "against the bound"]
    rows = Markup("")
    for one in found:
        rule = one.rule
        share = _is_share(one)
        title = f"{rule.title}{' (' + ('%' if share else rule.unit) + ')' if share or rule.unit else ''}"
        difference = _from_bound(one) if one.against == OWN else one.differences.get(one.against)
        bound = f"{rule.rule}: {_amount(one, one.bound)}" if one.against else rule.rule
        is_said = one.why and (not one.against or one.verdict == Verdict.FAILED)
        values = [one.why if is_said else _range(one, one.candidate)]
        values += [_range(one, one.baselines[label]) if label in one.baselines else "–" for label in done.against]
        versus = f"{_range(one, difference)} to {one.against}" if difference is not None else "–"
        rows += Markup("<tr><td class=name>{}</td><td>{}</td>").format(title, _badge(one.verdict))
        rows += Markup("").join(Markup("<td>{}</td>").format(value) for value in (*values, versus, bound))
        rows += Markup("<td>{}</td></tr>").format(gauge(one))
    head = Markup("").join(Markup("<th>{}</th>").format(each) for each in heads)
    return Markup(
        '<div class="cell" id="{}-{}"><h4>{}</h4>{}<div class="scroll"><table><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div><details><summary>Run it again: seed 1 and the scenario</summary>"
        "<pre>{}</pre><pre>{}</pre></details></div>"
    ).format(
        criterion.name, cell.name, cell.label, curves(done, cell), head, rows, command(done, cell),
        done.scenario(cell).to_toml(),
    )  # fmt: skip
