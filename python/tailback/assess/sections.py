"""A dossier's sections on its population of paths, its failed connections and its own errors, in Markdown and HTML."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from tailback.assess import population
from tailback.judge import LEVEL, Verdict
from tailback.numbers import written

if TYPE_CHECKING:
    from tailback.assess.run import Assessment

__all__ = ["Section", "as_html", "as_markdown", "beside", "discovery_counts", "path_command", "sections"]

#: Most rows that the page lists of the worst decile and of changed verdicts; files and JSON have all.
LISTED = 10


@dataclass(frozen=True)
class Table:
    """Column heads and rows of text; the first column is left-aligned, numbers are right-aligned."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: Columns of numbers, counted from zero.
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Section:
    """A title with text and tables."""

    name: str
    title: str
    parts: tuple[str | Table, ...]


def sections(done: Assessment) -> list[Section]:
    """The sections that this dossier has."""
    out = []
    if done.population is not None:
        out.append(_of_paths(done, done.population))
    if any(label == done.candidate.label for _, label in done.lost):
        out.append(_of_lost(done))
    out.append(_of_errors(done))
    return out


def path_command(done: Assessment, path: population.Path) -> str:
    """The command that runs a path of the worst decile again."""
    words = ["tailback", "run", f"{done.folder}population/{path.name}.toml", "--seed", str(population.RUN_SEED)]
    return shlex.join([*words, *(["--allow-code"] if done.candidate.allow_code else [])])


def beside(done: Assessment, label: str) -> str:
    """The population's verdict against one baseline, and the number that decides it."""
    found = done.population
    if found is None:
        return ""
    mine = [each for each in found.judged if each.against == label]
    if not mine:
        return ""
    decides = min(mine, key=lambda each: (each.side, -each.estimate / each.bound))
    return f"{Verdict.of_side(decides.side)}: {_judged(decides)}"


def _of_paths(done: Assessment, found: population.Population) -> Section:
    labels = (found.label, *found.against)
    heads = tuple(f"{100 * level:g} %" for level in population.LEVELS)
    rows = []
    for kind, (what, _, _) in population.HARMS.items():
        for label in labels:
            values = [_points(value) for value in found.quantiles(kind, label)]
            rows.append((what if label == labels[0] else "", label, *values))
        for label in found.against:
            values = [_points(value) for value in population.quantiles(list(found.excess(kind, label).values()))]
            rows.append(("", f"{found.label} beyond {label}", *values))
    quantiles = Table(("harm to the", "flows under test", *heads), tuple(rows), tuple(range(2, 2 + len(heads))))
    judged = Table(
        ("rule", *(f"beside {label}" for label in found.against), "verdict"),
        tuple(
            (_rule(kind, rule), *(_judged(each) for each in each_of), verdict)
            for ((kind, rule), each_of), verdict in zip(found.rules().items(), found.verdicts, strict=True)
        ),
    )
    worst = found.worst()
    listed = tuple(
        (
            f"`{path.name}`",
            path.label,
            population.HARMS[kind][0],
            *(_points(found.harms[kind, label].get(path.number, math.nan)) for label in labels),
        )
        for path, kind, _ in worst[:LISTED]
    )
    numbers = tuple(range(3, 3 + len(labels)))
    decile = Table(("path", "rate, round trip, queue, flows", "harm to the", *labels), listed, numbers)
    shown = f"the {len(listed)} worst of them" if len(listed) < len(worst) else "worst first"
    is_whole = found.count == population.PATHS
    ran = "All of them were run" if is_whole else f"The first {found.count} of them were run"
    own = " · ".join(
        f"{label} {written(population.quantiles(list(found.own[label].values()))[2], 3)} Mbit/s" for label in labels
    )
    return Section(
        "population",
        f"Harm on {found.count} paths",
        (
            f"{population.EXPERIMENT.about} {ran}, each with one seed: "
            "once without the flows under test, and once with each algorithm in them. Harm is that of Ware et al. "
            "(HotNets 2019): x without the flows under test, y beside them; (x − y)/x of a goodput, (y − x)/y of a "
            "time. 0 is none, 100 points are all. Quantiles over the paths, in points:",
            quantiles,
            f"Median goodput of the flows under test: {own}.",
            "Rules on the harm beyond the baseline's on the same path; of the baselines that set bounds the one that "
            "allows most counts:",
            judged,
            f"The worst tenth, by the harm beyond every baseline that sets bounds ({shown}; points). Each is a "
            f"scenario in `population/`: `{path_command(done, worst[0][0])}` runs the first again."
            if worst
            else "No path has harm to compare.",
            *([decile] if worst else []),
        ),
    )


def _rule(kind: str, rule: str) -> str:
    what = population.HARMS[kind][0]
    if rule == "mean":
        return f"{what}: on average at most {100 * population.MEAN_ALLOWANCE:g} points beyond"
    return f"{what}: at most a tenth of the paths more than {100 * population.DECILE_ALLOWANCE:g} points beyond"


def _judged(each: population.Judged) -> str:
    unit = "points" if each.rule == "mean" else "% of paths"
    return f"{100 * each.estimate:.1f} [{100 * each.low:.1f}, {100 * each.high:.1f}] {unit}"


def _points(value: float) -> str:
    return f"{100 * value:.1f}" if math.isfinite(value) else "–"


def _of_lost(done: Assessment) -> Section:
    cells = {cell.name: cell.label for cell in done.cells()}
    rows = tuple(
        (cells[cell], label, str(failed), str(opened))
        for (cell, label), (failed, opened) in done.lost.items()
        if cell in cells
    )
    text = (
        "A flow whose connection fails sends no more, so it does no more harm. What a cell below says of its flows is "
        "of the time before. Seeds without a failure are left out."
    )
    return Section("lost", "Connections that failed", (text, Table(("cell", "flows", "failed", "of"), rows, (2, 3))))


def discovery_counts(done: Assessment) -> tuple[int, int, int]:
    """Counts of numbers tested, decided one by one, and still decided under the false discovery rate."""
    found = [each for criterion in done.criteria for each in criterion.found if math.isfinite(each.p)]
    alone = sum(each.raw in (Verdict.PASSED, Verdict.FAILED) for each in found)
    held = sum(each.verdict in (Verdict.PASSED, Verdict.FAILED) for each in found)
    more = done.population.ps if done.population else []
    return len(found) + len(more), alone + sum(p <= LEVEL for p, _ in more), held + done.population_held


def _of_errors(done: Assessment) -> Section:
    tested, alone, held = discovery_counts(done)
    cells = {cell.name: cell for cell in done.cells()}
    parts: list[str | Table] = [
        f"{tested} numbers were tested. One by one {alone} of them are decided at 95 %. {held} stay decided with the "
        f"false discovery rate held at {100 * LEVEL:g} % among all that pass and among all that fail (Benjamini and "
        "Hochberg 1995). The others are undecided, and had the most seeds. Seeds are 1, 2, 3 … for every dossier."
    ]
    turned = [
        (f"{criterion.experiment.section} {criterion.experiment.title}", cells[each.cell].label,
         each.rule.title, each.raw, f"{each.p:.2g}")
        for criterion in done.criteria for each in criterion.found if each.raw != each.verdict
    ]  # fmt: skip
    if turned:
        heads = ("criterion", "cell", "number", "one by one", "p")
        parts += [f"Undecided for that reason ({_some(turned)}):", Table(heads, tuple(turned[:LISTED]), (4,))]
    plain = [
        (f"{criterion.experiment.section} {criterion.experiment.title}", cells[each.cell].label,
         each.rule.title, each.direct, each.raw)
        for criterion in done.criteria for each in criterion.found if each.direct != each.raw
    ]  # fmt: skip
    if plain:
        heads = ("criterion", "cell", "number", "beside the baseline", "beyond the plain case")
        parts += [
            f"Special cases judged by the difference to the candidate's own plain case ({_some(plain)}):",
            Table(heads, tuple(plain[:LISTED])),
        ]
    return Section("errors", "How many of these verdicts may be wrong", tuple(parts))


def _some(rows: Sequence[object]) -> str:
    return f"{LISTED} of {len(rows)}" if len(rows) > LISTED else f"all {len(rows)}" if len(rows) > 1 else "one"


def as_markdown(section: Section) -> list[str]:
    """Sections as Markdown lines."""
    lines = ["", f"## {section.title}", ""]
    for part in section.parts:
        if isinstance(part, str):
            lines += [part, ""]
            continue
        rules = ("---:" if at in part.numbers else "---" for at in range(len(part.heads)))
        lines += [f"| {' | '.join(part.heads)} |", f"|{'|'.join(rules)}|"]
        lines += [f"| {' | '.join(row)} |" for row in part.rows]
        lines.append("")
    return lines[:-1]


def as_html(section: Section) -> Markup:
    """Sections as paragraphs and tables in HTML."""
    out = Markup("")
    for part in section.parts:
        if isinstance(part, str):
            out += _marked(Markup("<p>{}</p>").format(part))
            continue
        head = Markup("").join(Markup("<th>{}</th>").format(each) for each in part.heads)
        rows = Markup("").join(
            Markup("<tr>{}</tr>").format(Markup("").join(_marked(Markup("<td>{}</td>").format(each)) for each in row))
            for row in part.rows
        )
        out += Markup('<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>').format(
            head, rows
        )
    return out


def _marked(text: Markup) -> Markup:
    """Escaped text with the words between backticks as `<code>`."""
    pieces = str(text).split("`")
    return Markup("").join(Markup(f"<code>{piece}</code>" if at % 2 else piece) for at, piece in enumerate(pieces))
