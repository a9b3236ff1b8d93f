"""Evaluates the classifier: on held-out paths, on unknown algorithms, and against the expectations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailback.capture.identify import Forest
from tailback_validation.identification.runs import LATE, PLAN, POINTS, Row, path
from tailback_validation.identification.training import TREES, table, train

#: Algorithms of most servers.
_COMMON = ("reno", "cubic", "bbr")


@dataclass(frozen=True)
class Judged:
    """One row with the classifier's answer."""

    row: Row
    answer: str
    confidence: float

    @property
    def outcome(self) -> str:
        """`named`, `family`, `unknown`, or wrong: `misnamed`, `misplaced`."""
        if self.answer == "unknown":
            return "unknown"
        members = PLAN["families"].get(self.answer)
        if members is None:
            return "named" if self.answer == self.row.label else "misnamed"
        return "family" if self.row.label in members else "misplaced"


def judge(found: Forest, rows: Sequence[Row]) -> list[Judged]:
    """Classify every row."""
    shares = found.shares(table(rows, found.names))
    return [Judged(row, *found.answer(share)) for row, share in zip(rows, shares, strict=True)]


def share(judged: Sequence[Judged], *outcomes: str) -> float:
    """Share of all rows with one of these outcomes."""
    return sum(it.outcome in outcomes for it in judged) / max(len(judged), 1)


def figures(judged: Sequence[Judged]) -> dict[str, float]:
    """The figures for which the plan has expectations."""
    named = [it for it in judged if it.outcome in ("named", "misnamed")]
    placed = [it for it in judged if it.outcome in ("family", "misplaced")]

    def recall(label: str) -> float:
        return share([it for it in judged if it.row.label == label], "named", "family")

    left, right, late = ([it for it in judged if it.row.point == point] for point in (*POINTS, LATE))
    common = [it for it in judged if it.row.label in _COMMON]
    drawn = {number: path(number) for number in {it.row.path for it in common}}
    lossy = [it for it in common if drawn[it.row.path]["loss"] >= PLAN["path"]["heavy_loss"][0]]
    contested = [it for it in common if drawn[it.row.path]["others"]]
    return {
        "named_right": share(judged, "named"),
        "named_precision": share(named, "named"),
        "family_precision": share(placed, "family"),
        "wrong": share(judged, "misnamed", "misplaced"),
        "recall_reno": recall("reno"), "recall_cubic": recall("cubic"), "recall_bbr": recall("bbr"),
        "receiver_loses": share(left, "named") - share(right, "named"),
        "late_loses": share([*left, *right], "named") - share(late, "named"),
        "common_lossy": share(lossy, "named", "family"), "common_contested": share(contested, "named", "family"),
    }  # fmt: skip


def strangers(seen: Sequence[Row], held: Sequence[Row], algorithms: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Per algorithm left out of training: share of its rows answered `unknown`, and share put into its own family."""
    out = {}
    for algorithm in algorithms:
        rows = [row for row in held if row.label == algorithm]
        found = train([row for row in seen if row.algorithm != algorithm], TREES // 2)
        judged = judge(found, rows)
        home = next(name for name, members in PLAN["families"].items() if algorithm in members)
        out[algorithm] = (share(judged, "unknown"), sum(it.answer == home for it in judged) / max(len(judged), 1))
    return out
