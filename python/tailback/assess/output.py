"""A dossier as JSON, as Markdown and as one HTML page: verdicts first, then each cell with what repeats it."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from tailback import _core
from tailback.assess import population, sections
from tailback.assess.discovery import LEVEL
from tailback.assess.pictures import curves, gauge
from tailback.assess.table import GENERAL, SCOPE_OF, SCOPES, STATISTICS, Cell, Experiment
from tailback.assess.verdicts import NOT_APPLICABLE, Checked, Criterion, Found
from tailback.expect.verdicts import FAILED, PASSED, UNDECIDED, UNFINISHED, together
from tailback.experiment.statistics import Interval
from tailback.files import write_text
from tailback.numbers import written
from tailback.report.page import page

if TYPE_CHECKING:
    from tailback.assess.run import Assessment

__all__ = ["as_json", "command", "html", "markdown", "save", "worst"]

_LENIENT = (
    "RFC 9743 sets no thresholds. Each rule here allows a candidate to be worse than a baseline by a factor and an "
    "allowance, both fixed before the first run; of several baselines the one that allows most counts. Passed and "
    "failed mean that the margins, taken seed by seed, lie on one side: the 95 % interval of their mean, or all of "
    "them in six seeds or by a clear factor; else it is undecided. Over all numbers of the dossier the false discovery "
    "rate is held at 5 %. A special case (a tunnel, an AQM, random loss, …) also passes where the candidate's change "
    "from its own plain case is no worse than the baseline's. Queues of a number of BDP count bytes; cells with a "
    "call have a twin whose queue counts packets, and the worse of both is the criterion's verdict. Beside one "
    "baseline alone: the verdict, and the difference to it of what weighs most, mean and 95 % interval. Bounds of the "
    "queue in milliseconds, of the loss in per cent and of packets a round trip are absolute."
)
#: A red disc, before what the RFC demands and was not run.
_RED = "\N{LARGE RED CIRCLE}"
BROKEN = "This suite is broken: an algorithm whose verdict is known came out otherwise. No verdict below counts."


#: Shares that are written in per cent.
_SHARES = ("loss", "loss_absolute", "unfinished")


def command(done: Assessment, cell: Cell | None = None) -> str:
    """What repeats the dossier, or runs a cell of it alone."""
    written = done.written
    if cell is None:
        words = ["tailback", "assess", written]
        words += [] if done.against == ("cubic", "reno") else ["--against", ",".join(done.against)]
        words += ["--quick"] if done.is_quick else []
        words += ["--seeds", str(done.seeds)] if done.seeds else []
        words += ["--for", done.scope] if done.scope != SCOPE_OF.get(done.candidate.name, GENERAL) else []
        words += [part for name in done.only for part in ("--only", name)]
        words += ["--allow-code"] if done.candidate.allow_code else []
        return shlex.join(words)
    # A class from a file is found from where the dossier was asked for, so that the command is run there too.
    words = ["tailback", "run", f"{done.folder}cells/{cell.name}.toml", "--seed", "1"]
    words += ["--allow-code"] if done.candidate.allow_code else []
    return shlex.join(words)


def worst(found: Found | None, cells: dict[str, Cell]) -> str:
    """The finding that weighs most, in a sentence."""
    if found is None:
        return ""
    if found.why and not math.isfinite(found.candidate.estimate):
        return f"{cells[found.cell].label}: {found.why}"
    rule = STATISTICS[found.statistic]
    value = _amount(found.statistic, found.candidate.estimate)
    base = _amount(found.statistic, found.baselines[found.against].estimate) if found.against else "–"
    return f"{cells[found.cell].label}: {rule.title} {value}, {found.against} {base}"


def effect(criterion: Criterion, label: str) -> str:
    """The verdict beside one baseline alone, and by how much the candidate differs where it weighs most."""
    verdict, found = criterion.against(label)
    if found is None:
        return ""
    # Where the plain case decided, what is beyond it is the effect.
    is_beyond = found.direct != found.raw and label in found.beyond_plain
    difference = found.beyond_plain[label] if is_beyond else found.differences.get(label)
    if difference is None or not math.isfinite(difference.estimate):
        return verdict
    unit = "%" if found.statistic in _SHARES else STATISTICS[found.statistic].unit
    beyond = " beyond plain" if is_beyond else ""
    return f"{verdict}: {_range(found.statistic, difference)}{' ' + unit if unit else ''}{beyond}"


def by_ware(criterion: Criterion, cells: dict[str, Cell]) -> str:
    """What the rule of Ware et al. would have said, in a sentence."""
    if not criterion.ware:
        return ""
    beyond = Criterion(criterion.experiment, together([each.verdict for each in criterion.ware]), criterion.ware)
    told = worst(beyond.worst, cells)
    return (
        f"{criterion.experiment.title}, by Ware et al.'s rule of no more harm to an algorithm than it does to itself: "
        f"{beyond.verdict}{f' ({told})' if told else ''}."
    )


def _amount(statistic: str, value: float) -> str:
    """A number with its unit; shares of packets in per cent."""
    unit = STATISTICS[statistic].unit
    if statistic in _SHARES:
        return f"{written(100 * value, 3)} %"
    return f"{written(value, 3)}{' ' + unit if unit else ''}"


def _range(statistic: str, found: Interval) -> str:
    if not math.isfinite(found.estimate):
        return "–"
    scale = 100.0 if statistic in _SHARES else 1.0

    def number(value: float) -> str:
        # What lies below a ten-thousandth would bury the rest in zeros.
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
        "scope": done.scope,
        "quick": done.is_quick,
        "seeds": list(done.rounds),
        "only": list(done.only),
        "interrupted": done.interrupted,
        "command": command(done),
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


def markdown(done: Assessment) -> str:
    """The page of verdicts."""
    cells = {cell.name: cell for cell in done.cells()}
    lines = [f"# {done.candidate.label} by RFC 9743", ""]
    if done.interrupted:
        lines += ["**Interrupted: not all of its runs were finished.**", ""]
    if done.is_broken:
        lines += [f"**{BROKEN}**", ""]
    lines += [f"{_tally(done)} Against {' and '.join(done.against)}, {_how(done)}. Made by `{command(done)}`.", ""]
    lines += [f"Judged as {done.scope}: {SCOPES[done.scope]}.", ""]
    beside = "".join(f" Beside {label} alone |" for label in done.against)
    lines += [
        f"| § | Criterion | RFC | Verdict | What weighs most |{beside}",
        "|---|---|---|---|---|" + "---|" * len(done.against),
    ]
    for each in done.criteria:
        verdict = f"**{each.verdict}**" if each.verdict == FAILED or each.is_missing_must else each.verdict
        # Markdown has no colours of its own.
        verdict = f"{_RED} {verdict}" if each.is_missing_must else verdict
        verdict += f" ({each.raw} one by one)" if each.raw != each.verdict and each.found else ""
        told = worst(each.worst, cells) or each.why
        is_paths = each.experiment is population.EXPERIMENT
        apart = "".join(
            f" {sections.beside(done, label) if is_paths else effect(each, label)} |" for label in done.against
        )
        head = f"{each.experiment.section} | {each.experiment.title} | {each.experiment.word}"
        lines.append(f"| {head} | {verdict} | {told} |{apart}")
    lines += ["", *(told for each in done.criteria if (told := by_ware(each, cells)))]
    for section in sections.sections(done):
        lines += sections.as_markdown(section)
    lines += ["", "## Is the suite itself sound?"]
    lines += ["", "| Control | must | came out |", "|---|---|---|"]
    lines += [f"| {each.control.label} | {_must(each)} | {each.verdict} |" for each in done.controls]
    return "\n".join([*lines, "", _LENIENT, ""])


def _tally(done: Assessment) -> str:
    counts = done.counted()
    missing = sum(each.is_missing_must for each in done.criteria)
    told = f"{counts[PASSED]} criteria passed, {counts[FAILED]} failed, {counts[UNDECIDED]} undecided, "
    told += f"{counts['not run']} not run ({missing} of them a MUST)"
    told += f", {counts[NOT_APPLICABLE]} not applicable." if counts[NOT_APPLICABLE] else "."
    return told if not counts[UNFINISHED] else f"{counts[UNFINISHED]} not finished, {told}"


def _how(done: Assessment) -> str:
    first, last = done.rounds[0], done.rounds[-1]
    return f"{first} to {last} seeds" if last > first else f"{first} seeds"


def _must(each: Checked) -> str:
    where = ", ".join(each.control.cells)
    return f"{'fail' if each.control.fails else 'not fail'} by {each.control.statistic} in {where}"


def save(done: Assessment, folder: Path) -> Path:
    """Write the dossier; report.html's path."""
    # Where a folder lies on this machine is nobody's business.
    done.folder = "" if folder.is_absolute() else f"{folder.as_posix()}/"
    for cell in done.cells():
        write_text(folder / "cells" / f"{cell.name}.toml", done.scenario(cell).to_toml())
    for path, _, _ in done.population.worst() if done.population else ():
        write_text(folder / "population" / f"{path.name}.toml", path.scenario(done.candidate.cc).to_toml())
    told = json.dumps(_plain(as_json(done)), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(folder / "dossier.json", told + "\n")
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

_BADGES = {PASSED: "reproduced", FAILED: "not", UNDECIDED: "partly"}


def _badge(verdict: str, is_missing_must: bool = False) -> Markup:
    kind = "must" if is_missing_must else _BADGES.get(verdict, "not measured")
    return Markup('<span class="badge {}">{}</span>').format(kind, verdict)


def html(done: Assessment) -> str:
    """The page: what came out, then each cell with its picture, scenario, seed and command."""
    cells = {cell.name: cell for cell in done.cells()}
    counts = done.counted()
    missing = sum(each.is_missing_must for each in done.criteria)
    tiles = [
        {"value": str(counts[PASSED]), "name": "criteria passed", "kind": "good" if counts[PASSED] else ""},
        {"value": str(counts[FAILED]), "name": "failed", "kind": "bad" if counts[FAILED] else ""},
        {"value": str(counts[UNDECIDED]), "name": "undecided", "kind": "some" if counts[UNDECIDED] else ""},
        {"value": str(missing), "name": "MUSTs not run", "kind": "bad" if missing else ""},
        {
            "value": "broken" if done.is_broken else "as known" if done.controls else "–",
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
        title=f"{done.candidate.label} by RFC 9743",
        subtitle=f"Beside {' and '.join(done.against)} in the same cells, {_how(done)}, paired",
        tiles=tiles,
        sections=parts,
        notes=["Interrupted: not all of its runs were finished."] if done.interrupted else [],
        provenance=[
            ("command", command(done)),
            ("version", _core.version()),
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
        share = f"{counted.count(PASSED)} of {len(counted)}" if counted else ""
        rows.append(
            Markup("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>").format(
                each.experiment.section, name, each.experiment.word, _badge(each.verdict, each.is_missing_must), share,
                worst(each.worst, cells) or each.why,
            )
        )  # fmt: skip
    head = Markup(
        '<p class="soft small">{}</p>{}<div class="scroll"><table class="verdicts">'
        "<thead><tr><th>§</th><th>criterion</th><th>RFC</th>"
        "<th>verdict</th><th>numbers that passed</th><th>what weighs most</th></tr></thead><tbody>"
    ).format(_LENIENT, Markup('<p><span class="badge not">{}</span></p>').format(BROKEN) if done.is_broken else "")
    return head + Markup("").join(rows) + Markup("</tbody></table></div>")


def _controls(done: Assessment) -> Markup:
    rows = []
    for each in done.controls:
        numbers = "; ".join(
            f"{one.cell}: {_range(one.statistic, one.candidate)}, bound {_amount(one.statistic, one.bound)}"
            for one in each.found
        )
        came = Markup('<span class="badge {}">{}</span>').format(
            "reproduced" if each.as_known else "not", "as known" if each.as_known else "otherwise"
        )
        source = f"{each.control.source}. {each.control.changed}" if each.control.changed else each.control.source
        rows.append(
            Markup("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>").format(
                each.control.label, _must(each), came, numbers, source
            )
        )
    about = (
        "Algorithms whose verdicts are known, by the same rules against CUBIC and Reno (none against itself). If "
        "one comes out otherwise, the suite is broken, not the candidate."
    )
    return (
        Markup(
            '<p class="soft small">{}</p><div class="scroll"><table><thead><tr><th>algorithm</th><th>must</th><th></th>'
            "<th>measured</th><th>source</th></tr></thead><tbody>"
        ).format(about)
        + Markup("").join(rows)
        + Markup("</tbody></table></div>")
    )


def _criterion(done: Assessment, criterion: Criterion, cells: dict[str, Cell]) -> Markup:
    word = f" RFC 9743: {criterion.experiment.word}." if criterion.experiment.word else ""
    out = Markup("<p>{} {}{}</p>").format(_badge(criterion.verdict), criterion.experiment.about, word)
    if told := by_ware(criterion, cells):
        out += Markup('<p class="soft small">{}</p>').format(told)
    for name in dict.fromkeys(one.cell for one in criterion.found):
        out += _cell(done, criterion.experiment, cells[name], [one for one in criterion.found if one.cell == name])
    return out


def _cell(done: Assessment, criterion: Experiment, cell: Cell, found: Sequence[Found]) -> Markup:
    heads = ["", "verdict", done.candidate.label, *done.against, "difference", "rule", "against the bound"]
    rows = Markup("")
    for one in found:
        rule = STATISTICS[one.statistic]
        share = one.statistic in _SHARES
        title = f"{rule.title}{' (' + ('%' if share else rule.unit) + ')' if share or rule.unit else ''}"
        difference = one.differences.get(one.against)
        bound = f"{rule.rule}: {_amount(one.statistic, one.bound)}" if one.against else rule.rule
        values = [one.why if one.why and not one.against else _range(one.statistic, one.candidate)]
        values += [
            _range(one.statistic, one.baselines[label]) if label in one.baselines else "–" for label in done.against
        ]
        told = f"{_range(one.statistic, difference)} to {one.against}" if difference is not None else "–"
        rows += Markup("<tr><td class=name>{}</td><td>{}</td>").format(title, _badge(one.verdict))
        rows += Markup("").join(Markup("<td>{}</td>").format(value) for value in (*values, told, bound))
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
