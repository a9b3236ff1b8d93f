"""The guide's search: what stands first, what is left out, and that it works from a folder."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts/search_in_docs.py"))
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def index() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = SCRIPT["index"]()
    return found


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("install", "install.html"),
        ("cake", "queues.html"),
        ("bufferbloat", "tutorials/bufferbloat.html"),
        ("policer", "links/policer.html"),
        ("capture", "how-to/captures.html"),
    ],
)
def test_a_word_finds_its_page_first(index: list[dict[str, Any]], query: str, first: str) -> None:
    code = 'const { search } = require("./docs/search.js");'
    code += f'const index = JSON.parse(require("fs").readFileSync(0)); const hits = search(index, "{query}");'
    code += "console.log(JSON.stringify(hits.map((hit) => hit.page.url)))"
    done = subprocess.run(
        [str(NODE), "-e", code], cwd=ROOT, input=json.dumps(index), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)[0] == first


def test_dossiers_and_decisions_are_left_out(index: list[dict[str, Any]]) -> None:
    pages = {page["url"] for page in index}
    assert not [url for url in pages if url.startswith(("assess/", "decisions/"))]
    assert {"assess.html", "how-to/assess.html", "queues.html"} <= pages


def test_tutorials_and_reference_weigh_most(index: list[dict[str, Any]]) -> None:
    ranks: dict[str, int] = {page["kind"]: page["rank"] for page in index}
    most = max(ranks.values())
    assert {kind for kind, rank in ranks.items() if rank == most} == {"Tutorials", "Reference"}


def test_a_section_has_the_anchor_that_the_page_has() -> None:
    text = "# A page\n\nSome `code`.\n\n## The kernel's own [queues](q.md)\n\n| a |\n"
    assert SCRIPT["sections"](text, has_tables=False) == [
        ["", "A page", "Some code ."],
        ["the-kernels-own-queues", "The kernel's own queues", ""],
    ]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_search_works_from_a_folder(tmp_path: Path) -> None:
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    subprocess.run(build, cwd=ROOT, check=True)
    browser = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    browser += [
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        f"{(site / 'links/wires.html').as_uri()}?q=cake",
    ]
    page = subprocess.run(browser, capture_output=True, text=True, check=True, timeout=120).stdout
    (found,) = re.findall(r'<ol class="found"[^>]*>(.*?)</ol>', page, re.DOTALL)
    first = re.search(r'href="([^"]+)"', found)
    assert first is not None
    assert first[1] == (site / "queues.html").as_uri() + "#cake"
