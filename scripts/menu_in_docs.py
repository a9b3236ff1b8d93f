"""mkdocs' hook for the menu: the headings and links of the guide's first page, in their order.

A page that is the first of its folder has the folder's other pages below it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def links(page: Path) -> list[Path]:
    """The guide's pages that a page leads to, each once."""
    names = re.findall(r"\]\(([^)#:\s]+\.md)", page.read_text(encoding="utf-8"))
    return list(dict.fromkeys((page.parent / name).resolve() for name in names))


def menu(guide: Path) -> list[Any]:
    """What mkdocs takes as `nav`."""
    guide, first = guide.resolve(), guide.resolve() / "index.md"
    parts = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", first.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    out: list[Any] = ["index.md"]
    for heading, text in parts:
        entries: list[Any] = []
        pages = [page for page in links(first) if f"]({page.relative_to(guide).as_posix()}" in text]
        for page in pages:
            name = page.relative_to(guide).as_posix()
            is_first = page.stem in ("index", "README")
            below = [each for each in links(page) if is_first and each.parent == page.parent and each not in pages]
            title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            entries.append({title: [name, *(each.relative_to(guide).as_posix() for each in below)]} if below else name)
        if entries:
            out.append({heading: entries})
    return out


def on_config(config: Any, **_: Any) -> None:
    """Called by mkdocs before it looks for pages."""
    config["nav"] = menu(Path(config["docs_dir"]))
