"""mkdocs' hook for the search: writes search-index.js, which docs/search.js reads.

Pages of a section with `searched = false` in docs/guide.toml are left out.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify

sys.path.insert(0, str(Path(__file__).parent))

import guide

_FENCE = re.compile(r"^```", re.MULTILINE)


def index() -> list[dict[str, Any]]:
    """What docs/search.js takes: a page each, with its sections."""
    kinds = guide.data()["kinds"]
    return [
        {
            "title": page.title,
            "url": re.sub(r"README\.html$", "index.html", page.name.removesuffix(".md") + ".html"),
            "kind": kinds[page.kind]["title"],
            "rank": page.rank,
            "sections": sections(page.text, has_tables=page.kind == "reference"),
        }
        for page in guide.pages()
        if page.is_searched
    ]


def sections(text: str, *, has_tables: bool) -> list[list[str]]:
    """Anchor, heading and plain text of each section; the first has no anchor."""
    out: list[list[str]] = []
    in_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code and (heading := re.match(r"(#+) (.*)", line)):
            title = _plain(heading[2])
            out.append(["" if len(heading[1]) == 1 else slugify(title, "-"), title, ""])
        elif out and (has_tables or not line.startswith("|")):
            out[-1][2] += _plain(line) + " "
    return [[anchor, title, " ".join(words.split())] for anchor, title, words in out]


def _plain(text: str) -> str:
    text = re.sub(r"<!--.*?-->|!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*`|]|-{3,}|<[^>]*>", " ", text).strip()


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs at the end."""
    text = json.dumps(index(), ensure_ascii=False, separators=(",", ":"))
    (Path(config["site_dir"]) / "search-index.js").write_text(f"window.guideIndex = {text};\n", encoding="utf-8")
