"""The page of two kernels compared by suites: the changes, their size, first kernel, and command."""

from __future__ import annotations

import html
import math

from tailback.numbers import signed, written
from tailback.report.page import page
from tailback.vm.regression import CONFIDENCE, Found, again, named

__all__ = ["html_page", "markdown"]


def _rows(result: Found) -> list[list[str]]:
    out = []
    for row in result.changed:
        change = f"{100 * row.change:+.1f} %" if math.isfinite(row.change) else "-"
        ends = f"{signed(row.difference.low)} to {signed(row.difference.high)}"
        first = result.since.get(row.point)
        out.append(
            [
                named(row.point),
                row.metric,
                written(row.a.estimate),
                written(row.b.estimate),
                change,
                ends,
                f"{first.kernel} (not {first.after})" if first else "not asked",
                again(row, result.kernels[1]),
            ]
        )
    return out


def _head(result: Found) -> list[str]:
    return ["scenario", "metric", *result.kernels, "change", f"{100 * CONFIDENCE:g} % interval", "since", "command"]


def _of(result: Found) -> str:
    so_far = "" if result.scenarios == result.asked else f" of {result.asked}"
    return f"{result.scenarios}{so_far} scenarios"


def _words(result: Found, command: str) -> list[str]:
    said = [
        f"`{command}` writes this page: {_of(result)}, {result.seeds} seeds each, on two kernels in "
        "virtual machines with exact time. A seed draws when flows start; both kernels get the same starts. A line "
        f"stands here if the {100 * CONFIDENCE:g} % interval of the paired difference leaves zero out, if no seed's "
        "value on one kernel lies within the other's spread, and if the change is 1 % or more.",
        f"{result.compared} comparisons, {len(result.changed)} changed, {result.small} more by less than 1 %. "
        f"If nothing had changed, at most {result.by_chance:.1f} would be listed by chance.",
    ]
    return said if result.changed else [*said, "Nothing changed."]


def markdown(result: Found, command: str) -> str:
    """The page as Markdown: what a maintainer can paste."""
    lines = [f"# {result.kernels[0]} and {result.kernels[1]}", ""]
    for text in _words(result, command):
        lines += [text, ""]
    lines += ["| kernel | release | build |", "| --- | --- | --- |"]
    lines += [f"| {name} | {row['release']} | {row['build']} |" for name, row in result.about.items()]
    if result.changed:
        head = _head(result)
        lines += ["", f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
        lines += [f"| {' | '.join([*row[:-1], f'`{row[-1]}`'])} |" for row in _rows(result)]
    if result.refused:
        lines += ["", "Not compared:", "", *(f"- {reason}" for reason in result.refused)]
    return "\n".join(lines) + "\n"


def html_page(result: Found, command: str) -> str:
    """The same page as one HTML file."""
    tables = [
        {
            "name": "kernels",
            "title": "Kernels",
            "caption": "",
            "columns": ["kernel", "release", "build"],
            "rows": [[name, row["release"], row["build"]] for name, row in result.about.items()],
            "names": 3,
        }
    ]
    if result.changed:
        table = {"name": "changed", "title": "What changed", "caption": "The largest change first.", "names": 2}
        tables.insert(0, table | {"columns": _head(result), "rows": _rows(result)})
    return page(
        title=f"{result.kernels[0]} and {result.kernels[1]}",
        subtitle=html.unescape(" ".join(text.replace("`", "") for text in _words(result, command))),
        tables=tables,
        notes=result.refused,
    )
