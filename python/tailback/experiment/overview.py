"""The overview page of all studies: every claim with its verdict, failures first, from result folders alone."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailback.errors import ResultError
from tailback.experiment.claims import CERTAIN, FITTED, RESTATED, UNTESTABLE
from tailback.experiment.outcome import (
    CHANGED,
    NOT,
    PREDICTED,
    REPRODUCED,
    UNDECIDED,
    UNMEASURED,
    ClaimResult,
    StudyResult,
    load,
)
from tailback.files import write_text
from tailback.judge import PARTLY

ORDER = (NOT, PARTLY, UNDECIDED, UNMEASURED, REPRODUCED)
"""Order of verdicts on the page: failures first."""
TITLES = {
    NOT: "Not reproduced",
    PARTLY: "Partly reproduced",
    UNDECIDED: "Undecided: the seeds disagree",
    UNMEASURED: "Not measured",
    REPRODUCED: "Reproduced",
}
ASIDE = {
    FITTED: ("Fitted", "A parameter was chosen for these, or with them in view. They show that the model can do so, "
             "not that it is right."),
    RESTATED: ("Restated", "These follow from other claims, or share their measure, and are counted with those."),
    CERTAIN: ("Cannot fail", "Every correct implementation of the set-up has these: they check the model's arithmetic "
              "and say nothing of the paper."),
    UNTESTABLE: ("Not testable, or contradicted by the paper itself", "No run like the paper's could show these, or "
                 "the paper says the opposite elsewhere."),
}  # fmt: skip
"""Standings that do not count: title and reason."""
NUMBERS = frozenset({"quantitative", "number"})
"""Kinds of claims about a printed number; all other kinds are about words."""
OURS = "expectation"
"""Kind of claims of our own, which no paper makes."""
COLUMNS = ("study", "claim", "what the paper says", "paper", "ours", "spread", "scale")
ALIKE = "‡"
"""Mark of a claim whose seeds hardly differ."""
ALIKE_WITHIN = 0.01
"""Seeds hardly differ if their range is below this share of the median."""


@dataclass(frozen=True)
class Share:
    """How many of the measured claims were reproduced."""

    reproduced: int
    measured: int

    def words(self) -> str:
        """The share in words, rounded down: 89.9 % is not 90 %."""
        if not self.measured:
            return "none measured"
        return f"{self.reproduced} of {self.measured}, {100 * self.reproduced // self.measured} %"


def share(claims: Sequence[ClaimResult], *, numbers: bool, redefined: bool = True) -> Share:
    """The share of reproduced claims that count, about printed numbers or about words; without `redefined` ones."""
    chosen = [
        claim
        for claim in claims
        if (claim.kind in NUMBERS) == numbers and claim.verdict != UNMEASURED and claim.standing == PREDICTED
        if redefined or not claim.redefined
    ]
    return Share(sum(claim.verdict == REPRODUCED for claim in chosen), len(chosen))


def seeds_alike(claim: ClaimResult) -> bool:
    """Whether the seeds hardly differ; their spread then does not show the uncertainty of the value."""
    values = claim.values
    return len(values) > 1 and max(values) - min(values) <= ALIKE_WITHIN * abs(statistics.median(values))


def find(folder: Path, names: Sequence[str]) -> tuple[list[StudyResult], list[str]]:
    """The finished studies in `folder` (one folder each, by name), and the names of missing ones."""
    there, missing = [], []
    for name in names:
        if (folder / name / "study.json").is_file():
            there.append(load(folder / name))
        else:
            missing.append(name)
    if not there:
        raise ResultError(
            f"{folder} holds no finished study. Run one first, for example: "
            f"tailback study {names[0]} --quick --out {folder / names[0]}"
        )
    return there, missing


def markdown(
    results: Sequence[StudyResult], missing: Sequence[str] = (), others: Mapping[str, str] | None = None
) -> str:
    """The page; `others` are pages of studies without claims, by title."""
    ours = [result for result in results if all(claim.kind == OURS for claim in result.claims)]
    results = [result for result in results if result not in ours]
    claims = [(result, claim) for result in results for claim in result.claims]
    lines = [
        "# The papers' claims",
        "",
        "Written by `tailback study --overview` from the studies' result folders; do not edit. What failed comes "
        "first. Each study's report has the rules, all figures, and how each claim was measured.",
        "",
        *_studies([*results, *ours]),
        *_without_claims(others or {}),
        "",
        *_words(),
        "",
        "## Totals",
        "",
        *_totals(results),
        "",
        *_honesty(claims),
    ]
    lines += [f"\nOf no paper, and not counted: {_link(result)}." for result in ours]
    if missing:
        runs = ", ".join(f"`tailback study {name}`" for name in missing)
        lines += ["", f"Not run for this page: {runs}."]
    for verdict in ORDER:
        of_it = [each for each in claims if each[1].standing == PREDICTED and each[1].verdict == verdict]
        if of_it:
            more = ("why",) if verdict in (NOT, PARTLY, UNDECIDED) else ()
            lines += ["", f"## {TITLES[verdict]} ({len(of_it)})", "", *_table(of_it, more)]
    for standing, (title, words) in ASIDE.items():
        of_it = [each for each in claims if each[1].standing == standing]
        if of_it:
            lines += ["", f"## {title} ({len(of_it)})", "", words, "", *_table(of_it, ("verdict", "because"))]
    lines += ["", "## Redefined after results were seen", "", *_redefined(claims)]
    lines += ["", "## Chosen with verdicts in view", "", *_chosen(results)]
    lines += ["", "## How this was run", "", *_runs(results)]
    return "\n".join(lines) + "\n"


def _studies(results: Sequence[StudyResult]) -> list[str]:
    """A table with one line per study: its topic, its paper and the ids of its claims."""
    lines = ["| study | about | paper | its claims |", "|---|---|---|---|"]
    for result in results:
        cells = [_link(result), result.title, result.paper, f"`{result.claims[0].id}` to `{result.claims[-1].id}`"]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return lines


def _without_claims(pages: Mapping[str, str]) -> list[str]:
    listed = ", ".join(f"[{title}]({file})" for title, file in pages.items())
    return ["", f"Without claims, and in pages of their own: {listed}."] if pages else []


def _words() -> list[str]:
    """The key to the tables' terms, above the first table."""
    aside = [f"- *{standing}*: {words[0].lower()}{words[1:]}" for standing, (_, words) in ASIDE.items()]
    return [
        "## Words",
        "",
        "`004-L3a` is part a of claim L3 of paper 004. Q is a sentence with a quantity in it, L one without. A claim's "
        "*standing* says whether it counts:",
        "",
        f"- *predicted*: rule and set-up were fixed before the run that is judged. Only these count; counts without "
        f"those marked {CHANGED} stand beside.",
        *aside,
        "",
        f"{CHANGED} marks a claim whose rule or measure was changed after results had been seen, {ALIKE} seeds that "
        "hardly differ.",
    ]


def _totals(results: Sequence[StudyResult]) -> list[str]:
    lines = [
        "| study | claims | predicted: reproduced | undecided | partly | not | not measured | printed numbers | "
        "words | fitted | restated | cannot fail | not testable |",
        "|" + "---|" * 13,
    ]
    every = [claim for result in results for claim in result.claims]
    for title, claims in [*((_link(result), result.claims) for result in results), ("**all**", every)]:
        count = Counter(claim.verdict for claim in claims if claim.standing == PREDICTED)
        standings = Counter(claim.standing for claim in claims)
        cells = [
            len(claims),
            *(count[verdict] for verdict in (REPRODUCED, UNDECIDED, PARTLY, NOT, UNMEASURED)),
            *(share(claims, numbers=numbers).words() for numbers in (True, False)),
            *(standings[standing] for standing in ASIDE),
        ]
        lines.append("| " + " | ".join([title, *map(str, cells)]) + " |")
    numbers, words, first_numbers, first_words = (
        share(every, numbers=which, redefined=redefined).words()
        for redefined in (True, False)
        for which in (True, False)
    )
    return [
        *lines,
        "",
        f"Of what was predicted, and measured: printed numbers {numbers}; words {words}. Without those marked "
        f"{CHANGED}: printed numbers {first_numbers}; words {first_words}. The aim is nine tenths of each. Only "
        "predicted claims count. A claim is reproduced if every seed reproduces it or the 95 % interval of the seeds' "
        "mean lies within its rule, and undecided if only the median does. A printed number counts as reproduced by "
        "its study's rule: within 15 % of the print on the papers' testbeds, 25 % where the path was the Internet or a "
        "home. Words go by the rule beside them in the report, partly where they nearly hold.",
    ]


def _honesty(claims: Sequence[tuple[StudyResult, ClaimResult]]) -> list[str]:
    """Limitations to know before reading the totals: rules, set-ups, scale and spread."""
    changed = sum(bool(claim.redefined) for _, claim in claims)
    small = sum("1/" in claim.scale for _, claim in claims)
    alike = Counter(result.study for result, claim in claims if seeds_alike(claim))
    where = "; ".join(f"{study} {count}" for study, count in alike.items())
    return [
        "- **Rules** of each study were committed before its first run. Of these "
        f"{len(claims)} claims {changed} ({CHANGED}) were measured or judged differently after results had been seen; "
        "each change is listed below, and was committed before it judged these runs.",
        "- **Set-ups** that the papers leave open were in part chosen with verdicts in view. They are listed below "
        "with the claims that hang on them, which the count of fitted claims has and that of predicted ones has not.",
        f"- **Scale** is that of the cells that a claim was measured on, in the paper's rate and time. Measured on "
        f"less, on a model of the paper's network that is no replication of it: {small} of {len(claims)}.",
        "- **Spread** is the range over seeds, which vary starts, processing and, where there are any, errors and the "
        f"crowd. It is no confidence interval. Where it is marked {ALIKE} the seeds lie within a hundredth of each "
        "other. These runs are all but deterministic, and the spread says nothing of how sure the value is"
        + (f" ({where})." if where else "."),
    ]


def _redefined(claims: Sequence[tuple[StudyResult, ClaimResult]]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for _, claim in claims:
        if claim.redefined:
            by_reason.setdefault(claim.redefined, []).append(claim.id)
    return [f"- {', '.join(names)}: {reason}" for reason, names in by_reason.items()] or ["None."]


def _chosen(results: Sequence[StudyResult]) -> list[str]:
    lines = [
        f"- {_link(result)}: {choice['words']} Claims: {', '.join(choice['claims']) or 'none'}."
        for result in results
        for choice in result.meta.get("chosen", ())
    ]
    return lines or ["None is known."]


def _link(result: StudyResult) -> str:
    return f"[{result.study}]({result.study}.md)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(of_it: Sequence[tuple[StudyResult, ClaimResult]], more: Sequence[str]) -> list[str]:
    """Claims with their results, and further columns: `why`, `verdict` or `because`."""
    columns = [*COLUMNS, *more]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for result, claim in of_it:
        spread = f"{claim.spread} {ALIKE}" if seeds_alike(claim) else claim.spread
        cells = [_link(result), claim.label, claim.text, claim.paper, claim.ours, spread, claim.scale]
        words = {"why": claim.why or claim.note or "not explained", "verdict": claim.verdict, "because": claim.because}
        lines.append("| " + " | ".join(map(_cell, [*cells, *(words[what] for what in more)])) + " |")
    return lines


def _runs(results: Sequence[StudyResult]) -> list[str]:
    lines = ["| study | command | runs | simulated (h) | engine |", "|---|---|---|---|---|"]
    lines += [
        f"| {_link(result)} | `{result.meta['command']}` | {result.cells_run + result.cells_reused} | "
        f"{result.simulated_s / 3600:.1f} | {result.meta['engine']} |"
        for result in results
    ]
    engines = {result.meta["engine"] for result in results}
    if len(engines) > 1:
        lines += ["", "The studies were run by different builds of the engine."]
    return lines


def summary(results: Sequence[StudyResult], missing: Sequence[str] = ()) -> dict[str, object]:
    """The overview as plain data, for `--json`."""
    every = [claim for result in results for claim in result.claims]
    return {
        "studies": {result.study: result.verdicts() for result in results},
        "missing": list(missing),
        "verdicts": dict(Counter(claim.verdict for claim in every if claim.kind != OURS)),
        "predicted": {
            name: dict(zip(("reproduced", "measured"), (one.reproduced, one.measured), strict=True))
            for name, one in (
                (name, share([claim for claim in every if claim.kind != OURS], numbers=which))
                for name, which in (("printed_numbers", True), ("words", False))
            )
        },
        "claims": [
            {"study": result.study, "id": claim.id, "text": claim.text, "kind": claim.kind, "verdict": claim.verdict,
             "paper": claim.paper, "ours": claim.ours, "spread": claim.spread, "scale": claim.scale,
             "standing": claim.standing, "because": claim.because, "redefined": claim.redefined,
             "printed_number": claim.kind in NUMBERS}
            for result in results
            for claim in result.claims
        ],
    }  # fmt: skip


def beside(page: Path, names: Sequence[str]) -> dict[str, str]:
    """Title and file of the pages in the page's folder that belong to no study with claims."""
    files = sorted(file for file in page.parent.glob("*.md") if file.name != page.name and file.stem not in names)
    heads = {file.name: file.read_text(encoding="utf-8").partition("\n")[0] for file in files}
    return {head.removeprefix("# "): name for name, head in heads.items() if head.startswith("# ")}


def write(folder: Path, names: Sequence[str], page: Path) -> dict[str, object]:
    """Write the page from the studies' folders in `folder`; returns `summary`. `ResultError` if there is none."""
    results, missing = find(folder, names)
    write_text(page, markdown(results, missing, beside(page, names)))
    plain = summary(results, missing)
    json.dumps(plain, allow_nan=False)
    return plain
