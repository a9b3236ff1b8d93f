"""What pages show below a command is what the command prints today."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts/console_outputs.py"))


def in_time(page: Path) -> Any:
    """Pages of few commands and no guest; the others at night, the front page among them."""
    text = page.read_text()
    is_long = text.count("\n$ ") > 5 or "```console-vm" in text
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.long] if is_long else [])


@pytest.mark.parametrize("page", [in_time(page) for page in SCRIPT["pages"]()])
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    assert SCRIPT["rewritten"](page, other_kernel=True) == page.read_text(), "write them again: make outputs"


def test_an_output_that_has_changed_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo a \\\n  b\nold\n$ ls\n```\n\n```\n$ false\n```\n")
    assert (
        SCRIPT["rewritten"](page)
        == "```console\n$ echo a \\\n  b\na b\n$ ls\ndocs\nscenarios\n```\n\n```\n$ false\n```\n"
    )


def test_a_grep_of_which_an_alternative_matches_nothing_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```console\n$ echo head | grep -E "head|(a|b)c|^value"\n```\n')
    with pytest.raises(RuntimeError, match=r"matches '\(a\|b\)c'"):
        SCRIPT["rewritten"](page)


def test_a_page_is_run_with_the_files_that_it_has_its_reader_save(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Save this as `a.txt`, once:\n\n```text\nin it\n```\n\n```console\n$ cat a.txt\n```\n")
    assert "$ cat a.txt\nin it\n```" in SCRIPT["rewritten"](page)


@pytest.mark.parametrize(("shown", "kept"), [("3 ms", True), ("3 s", False)])
def test_of_a_guest_another_kernel_may_print_other_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, kept: bool
) -> None:
    monkeypatch.setitem(SCRIPT["rewritten"].__globals__, "_has_kernel", lambda: True)
    page = tmp_path / "page.md"
    page.write_text(f"```console-vm\n$ echo 4.25 ms\n{shown}\n```\n")
    assert (SCRIPT["rewritten"](page, other_kernel=True) == page.read_text()) is kept
    assert "\n4.25 ms\n" in SCRIPT["rewritten"](page)
