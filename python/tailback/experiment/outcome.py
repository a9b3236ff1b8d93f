"""The result of a study: claims with verdicts, tables, figures and the command; stored as `study.json`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tailback.errors import ResultError
from tailback.judge import CLAIM, PARTLY, Verdict, colour
from tailback.views import view

if TYPE_CHECKING:
    from rich.console import Console

REPRODUCED, UNDECIDED, NOT, UNMEASURED = map(
    CLAIM, (Verdict.PASSED, Verdict.UNDECIDED, Verdict.FAILED, Verdict.NOT_RUN)
)
"""Verdicts. Undecided: only the median reproduces the claim, not every seed or the interval of their mean."""
PREDICTED = "predicted"
"""The standing of a claim whose verdict is evidence."""
CHANGED = "†"
"""Mark of a claim whose rule or measure was changed after results had been seen."""
FORMAT = 2
"""Version of the layout of study.json."""


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its verdict and the values behind it."""

    id: str
    text: str
    kind: str
    where: str
    paper: str
    ours: str
    spread: str
    values: list[float]
    unit: str
    verdict: str
    threshold: str
    definition: str
    figure: str
    note: str
    why: str
    standing: str
    """Whether the verdict is evidence: predicted, fitted, restated, cannot fail or not testable."""
    because: str
    """Why the verdict is not evidence; empty if it is."""
    redefined: str
    """How its measure or rule was changed after first results; empty if it was not."""
    scale: str = ""
    """Rate and time relative to the paper's, and the number of seeds."""

    @property
    def label(self) -> str:
        """The id, marked if the claim was redefined."""
        return f"{self.id} {CHANGED}" if self.redefined else self.id


@dataclass(frozen=True)
class TableOut:
    """A table of the report."""

    name: str
    title: str
    caption: str
    columns: list[str]
    rows: list[list[str]]


@dataclass
class StudyResult:
    """The result of a study."""

    study: str
    title: str
    paper: str
    folder: Path
    report_path: Path
    claims: list[ClaimResult]
    tables: list[TableOut]
    figures: list[dict[str, Any]]
    meta: dict[str, Any]
    wall_s: float
    """Seconds from the start of the study until its page was written: runs, claims and figures."""
    simulated_s: float
    cells_run: int
    cells_reused: int

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`; non-finite numbers are null."""
        found = {"format": FORMAT, **asdict(self), "report": self.report_path}
        return cast(dict[str, Any], _plain({name: found[name] for name in ("format", *_KEPT)}))

    def took(self) -> str:
        """Wall-clock time of this call as text; reused runs are not part of it."""
        return f"{self.wall_s:.1f} s"

    def verdicts(self) -> dict[str, int]:
        """Number of predicted claims by verdict; only predicted claims are evidence."""
        counted = Counter(claim.verdict for claim in self.claims if claim.standing == PREDICTED)
        return {word: counted[word] for word in (REPRODUCED, UNDECIDED, PARTLY, NOT, UNMEASURED) if counted[word]}

    def aside(self) -> dict[str, int]:
        """Number of claims that do not count, by standing."""
        return dict(Counter(claim.standing for claim in self.claims if claim.standing != PREDICTED))

    def counts(self) -> str:
        """Counts of verdicts and of claims that do not count, in a sentence without a full stop."""
        verdicts, aside = (
            ", ".join(f"{count} {word}" for word, count in each.items()) for each in (self.verdicts(), self.aside())
        )
        said = f"{sum(self.verdicts().values())} claims were predicted, and only these count: {verdicts or 'none'}"
        changed = sum(bool(claim.redefined) for claim in self.claims if claim.standing == PREDICTED)
        if changed:
            said += f". {changed} of them ({CHANGED}) by a rule or measure that was changed after earlier results"
        return f"{said}. Not counted: {aside}" if aside else said

    def print(self, console: Console) -> None:
        """Print the claims table and the report's path."""
        from rich.table import Table
        from rich.text import Text

        colours = {word: colour(word) for word in CLAIM.all()} | {PARTLY: "yellow"}
        table = Table(title=self.title, title_justify="left", header_style="bold", pad_edge=False)
        for name in ("claim", "what the paper says", "paper", "ours", "spread", "verdict", "standing", "figure"):
            table.add_column(name, overflow="fold", no_wrap=name in ("claim", "verdict"))
        for claim in self.claims:
            table.add_row(
                claim.label,
                Text(claim.text),
                Text(claim.paper),
                Text(claim.ours),
                Text(claim.spread),
                Text(claim.verdict, style=colours[claim.verdict]),
                claim.standing,
                claim.figure,
            )
        console.print(table)
        console.print(f"{self.counts()}; {self.cells_run} runs in {self.took()}, {self.cells_reused} reused")
        console.print(Text(f"report: {self.report_path}"), soft_wrap=True)

    def _repr_html_(self) -> str:
        """Claims table for notebooks."""
        page: str = view("study.claims")(self)
        return page


_KEPT = [{"report_path": "report"}.get(one.name, one.name) for one in fields(StudyResult) if one.name != "folder"]
"""Fields stored in study.json."""


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value


def load(out: Path) -> StudyResult:
    """Read a finished study back from its folder; `ResultError` if it is damaged or of another version."""
    path = Path(out) / "study.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.get("format") != FORMAT:
            raise _another(path, stored, f"has layout {stored.get('format')}; this tailback reads layout {FORMAT}")
        return _read(stored, Path(out))
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror or error}.") from None
    except json.JSONDecodeError:
        raise ResultError(f"{path} is damaged. Run the study again; finished cells are used again.") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise _another(path, stored, f"was written by another version of tailback ({error})") from None


def _another(path: Path, stored: Any, what: str) -> ResultError:
    name = stored.get("study", "NAME") if isinstance(stored, dict) else "NAME"
    return ResultError(
        f"{path} {what}. It is left as it is; make it again with: tailback study {name} --out {path.parent}"
    )


def _read(stored: dict[str, Any], out: Path) -> StudyResult:
    found = {name: stored[name] for name in _KEPT if name != "report"} | {
        "claims": [ClaimResult(**claim) for claim in stored["claims"]],
        "tables": [TableOut(**table) for table in stored["tables"]],
    }
    return StudyResult(**found, folder=out, report_path=out / "report.html")


def is_study(path: Path) -> bool:
    """Whether this folder holds a finished study."""
    return (Path(path) / "study.json").is_file()
