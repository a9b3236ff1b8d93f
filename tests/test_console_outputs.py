"""What pages show below a command is what the command prints today."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts/console_outputs.py"))


@pytest.mark.parametrize("page", SCRIPT["pages"](), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    assert SCRIPT["rewritten"](page) == page.read_text(), "write them again: make outputs"


def test_an_output_that_has_changed_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo a \\\n  b\nold\n$ ls\n```\n\n```\n$ false\n```\n")
    assert (
        SCRIPT["rewritten"](page)
        == "```console\n$ echo a \\\n  b\na b\n$ ls\ndocs\nscenarios\n```\n\n```\n$ false\n```\n"
    )


def test_a_page_is_run_with_the_files_that_it_has_its_reader_save(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Save this as `a.txt`, once:\n\n```text\nin it\n```\n\n```console\n$ cat a.txt\n```\n")
    assert "$ cat a.txt\nin it\n```" in SCRIPT["rewritten"](page)
