"""mkdocs' hook for blocks of ```` ```explorer TITLE ````: the scenario in them runs in the page, in the explorer.

Without the explorer's page (`make explorer`) a block stays what it is on a page without JavaScript: a scenario to copy.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

SITE = Path(__file__).parents[1] / "python/tailback/explorer/site"
_BLOCK = re.compile(r"^```explorer (?P<title>[^\n]+)\n(?P<toml>.*?)^```$", re.MULTILINE | re.DOTALL)


def fragment(toml: str) -> str:
    """What follows the # of the explorer's address for a scenario, as `explorer/src/fragment.ts` reads it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(json.dumps({"toml": toml}).encode()) + packer.flush()
    return "s=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def blocks(markdown: str) -> list[tuple[str, str]]:
    """Title and scenario of each block."""
    return [(found["title"], found["toml"]) for found in _BLOCK.finditer(markdown)]


def embedded(markdown: str, root: str) -> str:
    """The same page with each block's scenario running in it; `root` leads to the site's root."""

    def frame(found: re.Match[str]) -> str:
        title, place = html.escape(found["title"], quote=True), f"{root}explorer/index.html#{fragment(found['toml'])}"
        return (
            f'<figure class="explorer"><iframe title="{title}" src="{place}" loading="lazy"></iframe>'
            f'<figcaption>{title}. <a href="{place}">Open it in a page of its own</a>; it needs a web server, '
            "or <code>tailback explore</code>.</figcaption></figure>"
        )

    return _BLOCK.sub(frame, markdown)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    if not (SITE / "index.html").is_file():
        return markdown.replace("```explorer ", "```toml ")
    return embedded(markdown, "../" * page.file.dest_uri.count("/"))


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs at the end: the explorer goes beside the pages."""
    if (SITE / "index.html").is_file():
        shutil.copytree(SITE, Path(config["site_dir"]) / "explorer", dirs_exist_ok=True)
