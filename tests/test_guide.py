"""The guide's pages: each of one kind, with one next step, and short."""

import re
import runpy
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import guide

ROOT = Path(__file__).parents[1]
PAGES = guide.pages()


def test_every_page_has_one_kind() -> None:
    listed = [guide.data()["first"], *(page.name for page in PAGES)]
    assert sorted(listed) == sorted(path.relative_to(guide.DOCS).as_posix() for path in guide.DOCS.glob("**/*.md"))
    assert {page.kind for page in PAGES} == set(guide.data()["kinds"])


def test_the_menu_has_every_page_once_under_its_kind() -> None:
    parts = runpy.run_path(str(ROOT / "scripts/menu_in_docs.py"))["menu"]()[1:]
    shown = {}
    for part in parts:
        ((title, entries),) = part.items()
        for entry in entries:
            for name in [entry] if isinstance(entry, str) else next(iter(entry.values())):
                assert name not in shown
                shown[name] = title
    assert shown == {page.name: guide.data()["kinds"][page.kind]["title"] for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if not page.is_generated], ids=lambda page: page.name)
def test_a_page_ends_with_one_next_step(page: guide.Page) -> None:
    step = guide.next_step(page.text)
    assert step, 'the last paragraph must be the only one that begins with "Next: "'
    assert len(re.findall(r"\]\(", step)) == 1, step


@pytest.mark.parametrize("page", [page for page in PAGES if page.is_generated], ids=lambda page: page.name)
def test_a_written_page_has_the_next_step_of_its_section(page: guide.Page) -> None:
    assert page.next is not None
    assert page.next in {each.name for each in PAGES}


def test_a_page_is_no_longer_than_its_kind_allows() -> None:
    longer = {page.name: (page.words_by_hand, page.words) for page in PAGES if page.words_by_hand > page.words}
    assert longer == {}, "shorten a text of the page; python scripts/guide.py counts"
    kinds = {kind: about["words"] for kind, about in guide.data()["kinds"].items()}
    needless = [page.name for page in PAGES if page.words > kinds[page.kind] >= page.words_by_hand]
    assert needless == [], "these are short enough now: take them out of `over`"


def test_the_guide_becomes_shorter() -> None:
    words = sum(page.words_by_hand for page in PAGES)
    assert words <= guide.data()["words_at_most"], "shorten another text; python scripts/guide.py counts"


def test_words_by_hand_leave_out_code_and_what_a_program_writes() -> None:
    code = "a b\n\n```sh\nc d\n```\n"
    text = code + "<!-- table x -->\n| e |\n<!-- end of table -->\nf\n<!-- q: begin -->\ng\n<!-- q: end -->\n"
    assert guide.by_hand(text).split() == ["a", "b", "f"]


def test_a_next_step_is_the_last_paragraph_and_the_only_one() -> None:
    assert guide.next_step("# A\n\ntext\n\nNext: [b](b.md).\n") == "Next: [b](b.md)."
    assert guide.next_step("# A\n\nNext: [b](b.md).\n\ntext\n") is None
    assert guide.next_step("# A\n\nNext: [b](b.md).\n\nNext: [c](c.md).\n") is None
