"""mkdocs' hook for the menu and the next steps, from docs/guide.toml.

A page that a program writes whole ends with the next step of its section; the others have their own.
"""

from __future__ import annotations

import posixpath
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import guide


def menu() -> list[Any]:
    """What mkdocs takes as `nav`: a part for each kind, in it pages, and sections with a title."""
    found = guide.data()
    out: list[Any] = [found["first"]]
    for kind, about in found["kinds"].items():
        entries: list[Any] = []
        for section in found["section"]:
            if section["kind"] == kind:
                entries += [{section["title"]: section["pages"]}] if "title" in section else section["pages"]
        out.append({about["title"]: entries})
    return out


def on_config(config: Any, **_: Any) -> None:
    """Called by mkdocs before it looks for pages."""
    config["nav"] = menu()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page: the next step of one that a program wrote."""
    pages = {each.name: each for each in guide.pages()}
    about = pages.get(page.file.src_uri)
    if about is None or not about.is_generated or about.next is None:
        return markdown
    title = pages[about.next].title
    place = posixpath.relpath(about.next, posixpath.dirname(about.name) or ".")
    return f"{markdown}\n\nNext: [{title}]({place}).\n"
