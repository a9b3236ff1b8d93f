"""Summarizes results side by side: their differences in sentences, most important first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tailback.answer.parts import LINES, Answer, Statement
from tailback.compare import Comparison, that_matter
from tailback.numbers import written

__all__ = ["answer_of_comparison"]


def answer_of_comparison(rows: Sequence[Comparison]) -> Answer:
    """The differences between results in sentences, most important first; each result is one run."""
    statements = []
    for row in that_matter(rows, LINES - 1):
        base = row.values[row.baseline]
        others = "; ".join(
            f"{written(value, 3)} in {label} ({_percent(row.change(label))})"
            for label, value in row.values.items()
            if label != row.baseline
        )
        text = f"{row.of}: {row.metric} is {written(base, 3)} {row.unit}".rstrip() + f" in {row.baseline}, {others}."
        if row.is_unnoticed:
            text = f"{text[:-1]}: too little to notice."
        statements.append(Statement("spared" if row.is_unnoticed else "differs", text))
    if not statements:
        statements.append(Statement("spared", "No measure differs."))
    certain = Statement("certainty", f"{len(rows[0].values)} results, one run each: there are no intervals.")
    return Answer((*statements, certain))


def _percent(change: float) -> str:
    return "no change known" if math.isnan(change) else f"{100 * change:+.1f} %"
