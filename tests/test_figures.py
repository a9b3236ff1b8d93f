"""Figures that cannot go stale: tables with digits and measured values in prose come from a run.

What the guide states by hand is listed in tests/figures.toml, a page each, with the reason. The counts may only fall.
"""

import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import figures

LIST = tomllib.loads((Path(__file__).parent / "figures.toml").read_text())
COUNTS = figures.counts()


@pytest.mark.parametrize("page", sorted(COUNTS))
def test_a_page_states_no_new_figures_by_hand(page: str) -> None:
    most = LIST.get(page, {"rows": 0, "sentences": 0})
    rows, sentences = COUNTS[page]
    hint = "write the table between marks by a program, or name its measure: python scripts/figures.py --rows"
    assert rows <= most["rows"], hint
    assert sentences <= most["sentences"], hint


def test_the_list_names_pages_that_have_figures_and_why() -> None:
    assert set(LIST) <= set(COUNTS), "these have none any more: take them out of tests/figures.toml"
    assert [page for page, most in LIST.items() if len(most["why"]) < 10] == []


def test_rows_and_sentences_by_hand_are_found() -> None:
    table = "| path | loss |\n| --- | --- |\n| 10 Mbit/s | 3.1 % |\n| none | RFC 5681 |\n"
    text = f"# A\n\n{table}\nBBR loses 4 % there. RFC 9000 section 3.\n"
    assert figures.rows(text) == ["| 10 Mbit/s | 3.1 % |"]
    assert figures.sentences(text) == ["BBR loses 4 % there."]


def test_exit_codes_names_and_what_a_program_writes_are_no_figures() -> None:
    codes = "| Exit code | |\n|---|---|\n| 0 | passed |\n| [0001](0001-a.md) | a note |\n| `cubic` | `beta = 2` |\n"
    assert figures.rows(codes) == []
    written = (
        "<!-- table x -->\n| a | b |\n|---|---|\n| c | 3 ms |\n<!-- end -->\n\n```console\n$ x\nBBR loses 4 %\n```\n"
    )
    assert figures.rows(written) == []
    assert figures.sentences(written) == []
