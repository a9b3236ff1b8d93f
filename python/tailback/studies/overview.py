"""One page for all studies: every claim with its verdict, what failed first, written from result folders alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tailback.errors import ResultError

from .outcome import ClaimResult, StudyResult, load
from .store import write_text
from .verdicts import NOT, PARTLY, REPRODUCED, UNMEASURED

ORDER = (NOT, PARTLY, UNMEASURED, REPRODUCED)
"""Worst first: a page that hides its misses is an advertisement."""
TITLES = {NOT: "Not reproduced", PARTLY: "Partly reproduced", UNMEASURED: "Not measured", REPRODUCED: "Reproduced"}
NUMBERS = frozenset({"quantitative", "number"})
"""Kinds of claims that are about a printed number; all others are sentences."""
OURS = "expectation"
"""Kind of what no paper claims."""
COLUMNS = ("study", "claim", "what the paper says", "paper", "ours", "spread")


@dataclass(frozen=True)
class Share:
    """How many of the claims that were measured came out as the paper has them."""

    reproduced: int
    measured: int

    def words(self) -> str:
        """Say it, rounded down: 89.9 % are not 90."""
        if not self.measured:
            return "none measured"
        return f"{self.reproduced} of {self.measured}, {100 * self.reproduced // self.measured} %"


def is_fitted(claim: ClaimResult) -> bool:
    """Was a parameter chosen for this number? Then it is no evidence."""
    return "(fitted)" in claim.paper


def share(claims: Sequence[ClaimResult], *, numbers: bool, fitted: bool) -> Share:
    """Reproduced numbers, or sentences; without fitted ones if `fitted` is false."""
    chosen = [
        claim
        for claim in claims
        if (claim.kind in NUMBERS) == numbers and claim.verdict != UNMEASURED and (fitted or not is_fitted(claim))
    ]
    return Share(sum(claim.verdict == REPRODUCED for claim in chosen), len(chosen))


def find(folder: Path, names: Sequence[str]) -> tuple[list[StudyResult], list[str]]:
    """The finished studies in `folder` (one folder each, by name), and the names of those that are not there."""
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


def markdown(results: Sequence[StudyResult], missing: Sequence[str] = ()) -> str:
    """The page."""
    ours = [result for result in results if all(claim.kind == OURS for claim in result.claims)]
    results = [result for result in results if result not in ours]
    claims = [(result, claim) for result in results for claim in result.claims]
    lines = [
        "# The papers' claims",
        "",
        "Written by `tailback study --overview` from the studies' result folders; do not edit. What failed comes "
        "first. Rules were written down before the runs and are in each study's report, as are all figures.",
        "",
        *_totals(results),
    ]
    lines += [f"\nOf no paper, and not counted: {_link(result)}." for result in ours]
    if missing:
        runs = ", ".join(f"`tailback study {name}`" for name in missing)
        lines += ["", f"Not run for this page: {runs}."]
    for verdict in ORDER:
        of_it = [(result, claim) for result, claim in claims if claim.verdict == verdict]
        if of_it:
            lines += ["", f"## {TITLES[verdict]} ({len(of_it)})", "", *_table(of_it, with_why=verdict in (NOT, PARTLY))]
    lines += ["", "## How this was run", "", *_runs(results)]
    return "\n".join(lines) + "\n"


def _totals(results: Sequence[StudyResult]) -> list[str]:
    lines = [
        "| study | claims | reproduced | partly | not | not measured | numbers reproduced | sentences reproduced |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every = [claim for result in results for claim in result.claims]
    for title, claims in [*((_link(result), result.claims) for result in results), ("**all**", every)]:
        count = Counter(claim.verdict for claim in claims)
        cells = [len(claims), *(count[verdict] for verdict in (REPRODUCED, PARTLY, NOT, UNMEASURED))]
        kinds = [share(claims, numbers=numbers, fitted=True).words() for numbers in (True, False)]
        lines.append("| " + " | ".join([title, *map(str, cells), *kinds]) + " |")
    numbers, sentences = (share(every, numbers=which, fitted=False).words() for which in (True, False))
    fitted = sum(is_fitted(claim) for claim in every)
    return [
        *lines,
        "",
        f"Without the {fitted} claims that a parameter was fitted to: numbers {numbers}; sentences {sentences}. The "
        "aim is nine tenths of each. A number counts as reproduced by its study's rule: within 15 % of the print on "
        "the papers' testbeds, 25 % where the path was the Internet or a home.",
    ]


def _link(result: StudyResult) -> str:
    return f"[{result.study}]({result.study}.md)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(of_it: Sequence[tuple[StudyResult, ClaimResult]], *, with_why: bool) -> list[str]:
    columns = [*COLUMNS, "why"] if with_why else list(COLUMNS)
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for result, claim in of_it:
        cells = [_link(result), claim.id, claim.text, claim.paper, claim.ours, claim.spread]
        if with_why:
            cells.append(claim.why or claim.note or "not explained")
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
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
    """The same as plain data, for `--json`."""
    every = [claim for result in results for claim in result.claims]
    return {
        "studies": {result.study: result.verdicts() for result in results},
        "missing": list(missing),
        "verdicts": dict(Counter(claim.verdict for claim in every if claim.kind != OURS)),
        "claims": [
            {"study": result.study, "id": claim.id, "text": claim.text, "kind": claim.kind, "verdict": claim.verdict,
             "paper": claim.paper, "ours": claim.ours, "spread": claim.spread, "fitted": is_fitted(claim)}
            for result in results
            for claim in result.claims
        ],
    }  # fmt: skip


def write(folder: Path, names: Sequence[str], page: Path) -> dict[str, object]:
    """Write the page from the studies' folders under `folder`; returns `summary`. `ResultError` if there is none."""
    results, missing = find(folder, names)
    write_text(page, markdown(results, missing))
    plain = summary(results, missing)
    json.dumps(plain, allow_nan=False)
    return plain
