"""The record: one page of every verdict that is committed, `record.html` of the site.

    python scripts/record.py [FILE]     # writes site/record.html, prints its SHA-256

Verdicts, effects and intervals are those of docs/assess/; scenarios are made by the cells that were judged. mkdocs
calls `on_files`, so that the site has the same page. Nothing in it depends on time, machine or order: the same sources
give the same bytes.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback import registry, suites
from tailback.assess import cells, population
from tailback.assess.procedure import Cell, Experiment
from tailback.assess.queues import cells as queue_cells
from tailback.files import write_text
from tailback.judge import RECORD, TONES, Verdict, Words
from tailback.queue_candidate import candidate as queue_candidate

ROOT = Path(__file__).resolve().parents[1]
ASSESS = ROOT / "docs/assess"
PAGE = "record.html"
PARTS = Path(__file__).with_name("record")
#: An estimate and its interval, with the unit that may follow.
_EFFECT = re.compile(r"-?[\d,.]+(?:e-?\d+)? \[[^\]]+\][^;]*")
#: The first of the worst paths of a page.
_PATH = re.compile(r"^\| `(path-\d+)` \|", re.MULTILINE)
_MADE_BY = re.compile(r"Made by `([^`]+)`")
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(?:e-?\d+)?")


@dataclass(frozen=True)
class Row:
    """A verdict."""

    kind: str
    subject: str
    criterion: str
    verdict: str
    #: The number that decided, or why there is none.
    weighs: str
    #: Effects with their intervals.
    effect: str
    #: The scenario as a file holds it; empty if the explorer cannot run it.
    scenario: str
    command: str
    #: The page it stands on.
    source: str


def table(text: str, head: str) -> Iterator[list[str]]:
    """The rows below the first table line that begins with `head`, that line first; none if there is no such table."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(head):
            yield cut(line)
            next(lines)
            break
    for line in lines:
        if not line.startswith("|"):
            return
        yield cut(line)


def cut(line: str) -> list[str]:
    """A table's line by cells.

    >>> cut("| a | **b** |")
    ['a', 'b']
    """
    return [cell.strip().replace("**", "").replace("🔴 ", "") for cell in line.strip().strip("|").split("|")]


def toml(cell: Cell, candidate: Any, scope: str) -> str:
    """A cell's scenario with the candidate, as the explorer takes it; empty if the cell cannot have it."""
    try:
        return str(cell.scenario(candidate, scope).to_toml())
    except (TypeError, ValueError, KeyError):
        return ""


def others(algorithms: Iterable[str]) -> list[str]:
    """Dossiers by RFC 9743 of what is no algorithm of tailback's: transports."""
    pages = (path for path in sorted(ASSESS.glob("*.md")) if path.stem not in set(algorithms))
    return [path.stem for path in pages if " by RFC 9743\n" in path.read_text("utf-8")[:200] and path.stem != "index"]


def weighed(experiment: Experiment, weighs: str) -> Cell | None:
    """The cell whose number decided; the first if none is named."""
    named = [cell for cell in experiment.cells if weighs.startswith(f"{cell.label}: ")]
    return next(iter(named or experiment.cells), None)


def dossiers(kind: str, names: Iterable[str], file: str, experiments: Iterable[Experiment], made: Any) -> Iterator[Row]:
    """The rows of dossiers' pages, of those that are committed."""
    of = {each.title: each for each in experiments}
    for name in names:
        path = ASSESS / file.format(name)
        if not path.is_file():
            continue
        text = path.read_text("utf-8")
        title = text.partition("\n")[0].removeprefix("# ").partition(" by RFC")[0]
        command = found[1] if (found := _MADE_BY.search(text)) else f"tailback assess {name}"
        rows = table(text, "| § |")
        beside = [title.removeprefix("Beside ").removesuffix(" alone") for title in next(rows)[5:]]
        for section, criterion, _, verdict, weighs, *effects in rows:
            experiment = of.get(criterion)
            cell = weighed(experiment, weighs) if experiment else None
            seen = [next(iter(_EFFECT.findall(effect)), "") for effect in effects]
            effect = "; ".join(f"beside {of}: {seen}" for of, seen in zip(beside, seen, strict=True) if seen)
            only = f" --only {experiment.name}" if experiment and experiment.cells else ""
            scenario = toml(cell, made(name), "general") if cell and made else ""
            if made and criterion == population.EXPERIMENT.title and (path_of := _PATH.search(text)):
                scenario = worst_path(path_of[1], name)
            yield Row(kind, title, f"{section} {criterion}", verdict, weighs, effect, scenario, f"{command}{only}",
                      f"assess/{path.stem}.html")  # fmt: skip


def worst_path(path: str, cc: str) -> str:
    """The scenario of one of the population's paths."""
    return str(next(each for each in population.paths() if each.name == path).scenario(cc).to_toml())


def transports() -> Iterator[Row]:
    """The suite `transport`."""
    path = ASSESS / "transports.md"
    if not path.is_file():
        return
    rows = table(path.read_text("utf-8"), "| | TCP")
    titles = [title.split() for title in next(rows)[1:]]
    for criterion, *seen in rows:
        case, _, _ = criterion.partition(":")
        for (name, *version, cc), each in zip(titles, seen, strict=True):
            is_foreign = bool(version)
            candidate = f"{name},cc={cc}" if is_foreign else cc
            verdict, _, effect = each.partition(": ")
            scenario = "" if is_foreign else str(with_subject(case, cc))
            kind = "transport" if is_foreign else "TCP beside transports"
            # The name of its dossier, so that what is one thing has one.
            yield Row(kind, f"{name} {cc}", criterion.replace("`", ""), verdict, "", effect, scenario,
                      f"tailback test transport/{case} --candidate {candidate}",
                      "assess/transports.html")  # fmt: skip


def versions() -> str:
    """The transports that the suite ran."""
    path = ASSESS / "transports.md"
    titles = next(table(path.read_text("utf-8"), "| | TCP"), []) if path.is_file() else []
    return ", ".join(dict.fromkeys(title.rpartition(" ")[0] for title in titles if len(title.split()) > 2))


def with_subject(case: str, cc: str) -> str:
    """A scenario of the suite with an algorithm in the subject's place."""
    return str(suites.with_candidate(suites.find("transport").scenario(case), cc).to_toml())


def kernels() -> Iterator[Row]:
    """What one kernel came to in cells of the dossiers."""
    text = (ROOT / "docs/assess.md").read_text("utf-8").partition("<!-- kernel -->")[2]
    by_label = {cell.label: cell for each in cells.EXPERIMENTS for cell in each.cells}
    rows = table(text, "| Cell |")
    next(rows)
    for label, cc, measure, kernel, simulated, verdict in rows:
        cell = by_label.get(label)
        yield Row("kernel", f"Debian 6.1 {cc}", f"{label}: {measure}",
                  RECORD(Verdict.of(verdict == "inside")), "", f"{kernel}; simulated {simulated}",
                  toml(cell, cc, "general") if cell else "", "scripts/assess_on_kernel", "assess.html")  # fmt: skip


def everything() -> list[Row]:
    """Every row, in the order of the page."""
    algorithms, disciplines = registry.names("algorithms"), registry.names("queues")
    of = (*cells.EXPERIMENTS, population.EXPERIMENT)
    return [
        *dossiers("transport", others(algorithms), "{}.md", of, None),
        *transports(),
        *dossiers("algorithm", algorithms, "{}.md", of, lambda name: name),
        *dossiers("queue", disciplines, "queue-{}.md", queue_cells.EXPERIMENTS, queue_candidate),
        *kernels(),
    ]


def build() -> str:
    """The page."""
    rows = everything()
    scenarios = sorted({row.scenario for row in rows if row.scenario})
    number = {text: at for at, text in enumerate(scenarios)}
    body = "\n".join(line(row, at, number.get(row.scenario)) for at, row in enumerate(rows))
    kinds = list(dict.fromkeys(row.kind for row in rows))
    verdicts = list(dict.fromkeys(row.verdict for row in rows))
    filled = {
        "ROWS": body,
        "MATRICES": "\n".join(matrix(kind, rows, is_open=kind == kinds[0]) for kind in kinds),
        "KINDS": options(kinds),
        "VERDICTS": options(verdicts),
        "COUNT": f"{len(rows):,}",
        "VERSIONS": versions(),
        "SCENARIOS": json.dumps(scenarios, ensure_ascii=False).replace("</", "<\\/"),
        "STYLE": (PARTS / "style.css").read_text("utf-8"),
        "SCRIPT": (PARTS / "script.js").read_text("utf-8"),
    }
    page = (PARTS / "page.html").read_text("utf-8")
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda found: filled[found[1]], page)


def options(values: Iterable[str]) -> str:
    """Of a select."""
    return "".join(f"<option>{html.escape(value)}</option>" for value in values)


def word(verdict: str) -> str:
    """The class that colours a verdict.

    >>> word("not run"), word("agrees")
    ('other', 'good')
    """
    tone = TONES.get(Words.verdict(verdict.partition(" (")[0]), "other")
    return "open" if tone == "some" else tone


def line(row: Row, at: int, scenario: int | None) -> str:
    """A row of the table."""
    number = _NUMBER.search(row.effect.partition(": ")[2] or row.effect)
    order = number[0].replace(",", "") if number else ""
    link = "" if scenario is None else f'<a data-s="{scenario}" href="explorer/index.html">explorer</a> '
    cells = [
        ("subject", f'<a href="{row.source}">{html.escape(row.subject)}</a> <small>{row.kind}</small>', row.subject),
        ("criterion", html.escape(row.criterion), row.criterion),
        ("verdict", f'<b class="{word(row.verdict)}">{html.escape(row.verdict)}</b>', row.verdict),
        ("what weighs most", html.escape(row.weighs), row.weighs),
        ("effect, 95 % interval", html.escape(row.effect), order),
        ("again", f"{link}<code>{html.escape(row.command)}</code>", row.command),
    ]
    inner = "".join(f'<td data-l="{label}" data-o="{html.escape(key)}">{text}</td>' for label, text, key in cells)
    return f'<tr id="r{at}" data-k="{row.kind}" data-v="{html.escape(row.verdict)}">{inner}</tr>'


def matrix(kind: str, rows: list[Row], *, is_open: bool = False) -> str:
    """Subjects by criteria, each verdict a link to its row."""
    mine = [(at, row) for at, row in enumerate(rows) if row.kind == kind]
    subjects = list(dict.fromkeys(row.subject for _, row in mine))
    at_place = {(row.criterion, row.subject): (at, row) for at, row in mine}
    head = "".join(f"<th><span>{html.escape(name)}</span></th>" for name in subjects)
    signs = {"good": "●", "bad": "✕", "open": "?", "other": "·"}

    def cell(criterion: str, subject: str) -> str:
        found = at_place.get((criterion, subject))
        if found is None:
            return "<td></td>"
        at, row = found
        title = html.escape(f"{subject}, {criterion}: {row.verdict}")
        return f'<td><a class="{word(row.verdict)}" href="#r{at}" title="{title}">{signs[word(row.verdict)]}</a></td>'

    lines = [
        f"<tr><th>{html.escape(criterion)}</th>{''.join(cell(criterion, name) for name in subjects)}</tr>"
        for criterion in dict.fromkeys(row.criterion for _, row in mine)
    ]
    return (
        f"<details{' open' if is_open else ''}><summary>{kind}: {len(subjects)} × {len(lines)}</summary>"
        f'<div class="wide"><table class="matrix"><tr><th></th>{head}</tr>{"".join(lines)}</table></div></details>'
    )


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Called by mkdocs: the page stands beside those of the guide."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=build()))
    return files


def main() -> None:
    """Write the page to a file and print its hash."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site" / PAGE
    page = build()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)
    print(f"{path}: {len(page):,} characters, sha256 {hashlib.sha256(page.encode()).hexdigest()}")


if __name__ == "__main__":
    main()
