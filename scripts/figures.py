"""Figures of runs that a page states by hand: rows of tables with digits, and sentences with a measured value.

python scripts/figures.py [--rows] prints how many each page has, or the rows and sentences themselves.

What a program writes is left out: `console` blocks, blocks between `<!-- … -->` and their end, and pages that
docs/guide.toml lists as generated. So are digits that are no result: names in backquotes, links, numbers of RFCs,
sections, claims and versions.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import guide

_NAMES = re.compile(
    r"`[^`]*`|\]\([^)]*\)|https?:\S+"
    r"|\b(?:RFC|RFCs|section|sections|Section|Figure|Table|Fig\.|Figs|appendix|version|Linux|Debian's?|FreeBSD|kernel|Report)"
    r"[\s-]+\d[\w.]*(?:(?:, | and | to )\d[\w.]*)*"
    r"|\b(?:ns-|ns3-|G\.|802\.|x86-|IPv|SHA-|CRC-|ECT\(|BBRv|IEEE )\d[\w.]*|\b\d{3}-[A-Z]\d+\w*|\b[A-Z]+[a-z]*-?\d+\w*"
    r"|siftr\(4\)|\((?:19|20)\d\d\)|\b(?:19|20)\d\d\b|\b0\d{3}\b|§? ?\b\d+\.\d+\.\d+\b"
)
_VALUE = re.compile(
    r"\d[\d.,]*\s?(?:%|×|points\b|ms\b|µs\b|s\b|[kMG]?bit/s|[kMG]B\b|packets\b|drops\b|losses\b|times\b)"
)
_RESULT = re.compile(
    r"\b(?:lost|loses|gets|got|gave|gives|reach(?:es|ed)|carr(?:y|ies|ied)|used?|uses|fell|falls|had|came|comes out"
    r"|measured|wait(?:s|ed)|dropp?(?:s|ed)|saw|seen|differ(?:s|ed)?|rose|rises|found|took|grew|median|on average"
    r"|in place of|instead of)\b"
)


def rows(text: str) -> list[str]:
    """Rows of tables with digits, typed by hand."""
    found = []
    lines = guide.by_hand(text).splitlines()
    for number, line in enumerate(lines):
        is_body = line.startswith("|") and number > 1 and lines[number - 1].startswith("|")
        # A first cell that is a number alone is an exit code, a section or a decision.
        cells = re.sub(r"^\| *\[?[\d.]+(?:\]\([^)]*\))? *(?=\|)", "", line)
        if is_body and not re.match(r"\|[\s:|-]+$", line) and re.search(r"\d", _NAMES.sub("", cells)):
            found.append(line)
    return found


def sentences(text: str) -> list[str]:
    """Sentences outside tables with a value and a word that says it was measured."""
    prose = "\n".join(line for line in guide.by_hand(text).splitlines() if not line.startswith(("|", "#")))
    parts = re.split(r"(?<=[.:;])\s+|\n\s*\n|\n(?=- |\d+\. )", prose)
    plain = [" ".join(part.split()) for part in parts]
    return [part for part in plain if _VALUE.search(_NAMES.sub("", part)) and _RESULT.search(part)]


def counts() -> dict[str, tuple[int, int]]:
    """Of each page that has any: rows and sentences."""
    found = {}
    for page in guide.pages():
        if not page.is_generated:
            pair = (len(rows(page.text)), len(sentences(page.text)))
            if any(pair):
                found[page.name] = pair
    return found


if __name__ == "__main__":
    for name, (in_tables, in_prose) in counts().items():
        print(f"{in_tables:5} {in_prose:5} {name}")
        if "--rows" in sys.argv:
            text = (guide.DOCS / name).read_text(encoding="utf-8")
            print(*(f"      {each[:200]}" for each in [*rows(text), *sentences(text)]), sep="\n")
