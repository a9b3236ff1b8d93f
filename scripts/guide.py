"""What docs/guide.toml says of the guide's pages, and what of a page is written by hand.

python scripts/guide.py prints each page's kind and its words by hand.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
_FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^\s*<!-- (?P<text>.*?) -->\s*$")
_NEXT = re.compile(r"^Next: ", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A page of the guide as docs/guide.toml lists it."""

    name: str
    kind: str
    section: str
    is_generated: bool
    is_searched: bool
    rank: int
    words: int
    next: str | None

    @property
    def text(self) -> str:
        """The page as it lies in the folder."""
        return (DOCS / self.name).read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """The page's first heading."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def words_by_hand(self) -> int:
        """Words that no program writes; 0 of a page that a program writes whole."""
        return 0 if self.is_generated else len(by_hand(self.text).split())


def data() -> dict[str, Any]:
    """docs/guide.toml, with the pages that a pattern such as "assess/queue-*.md" names."""
    found = tomllib.loads((DOCS / "guide.toml").read_text(encoding="utf-8"))
    for section in found["section"]:
        for key in section.keys() & {"pages", "generated"}:
            section[key] = [page for name in section[key] for page in _named(name)]
    return found


def _named(name: str) -> list[str]:
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob(name)) if "*" in name else [name]


def pages() -> list[Page]:
    """Every page but the first, in the order of the menu."""
    found = data()
    kinds = found["kinds"]
    return [
        Page(
            name,
            section["kind"],
            section.get("title", ""),
            name in section.get("generated", []),
            section.get("searched", True),
            kinds[section["kind"]]["rank"],
            section.get("over", {}).get(name, kinds[section["kind"]]["words"]),
            section.get("next"),
        )
        for section in found["section"]
        for name in section["pages"]
    ]


def by_hand(text: str) -> str:
    """A page's text without code, and without what stands between a mark `<!-- … -->` and its end."""
    kept, is_written = [], False
    for line in _FENCE.sub("", text).splitlines():
        mark = _MARK.match(line)
        if mark:
            is_written = not re.match(r"end\b|.*: end$", mark["text"])
        elif not is_written:
            kept.append(line)
    return "\n".join(kept)


def next_step(text: str) -> str | None:
    """The page's last paragraph, if it is its only one that begins with "Next: "."""
    paragraphs = [part for part in re.split(r"\n\s*\n", text.strip()) if part]
    is_last = paragraphs and paragraphs[-1].startswith("Next: ")
    return paragraphs[-1] if is_last and len(_NEXT.findall(text)) == 1 else None


if __name__ == "__main__":
    for each in pages():
        print(f"{each.words_by_hand:6} {'generated' if each.is_generated else '':9} {each.kind:12} {each.name}")
    print(f"{sum(each.words_by_hand for each in pages()):6} words by hand")
