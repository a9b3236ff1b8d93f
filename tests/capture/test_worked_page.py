"""The worked page: its commands run on its captures, real ones by tcpdump, and its numbers are what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "captures-worked.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^tailback (.+)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which the page's paths lead to its captures."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "docs").symlink_to(ROOT / "docs")
    return folder


def holds(cell: str, line: str) -> bool:
    """Does a line of a command's table have this cell of the page's, which may be rounded?"""
    if re.fullmatch(r"\d+\.\d+", cell) is None:
        return cell in line
    reported = [float(word) for word in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", line)]
    near = 0.6 * 10.0 ** -len(cell.partition(".")[2])
    return any(abs(float(cell) - value) <= near for value in reported)


def test_every_command_of_the_page_runs_and_says_what_the_page_says(place: Path) -> None:
    assert len(COMMANDS) >= 8
    # A table of the page stands after the block that makes it, until the next block.
    parts = PAGE.split("```")
    for command in COMMANDS:
        code = "from tailback.cli import main; main()"
        words = [sys.executable, "-c", code, *command.split()]
        done = subprocess.run(words, capture_output=True, text=True, cwd=place, env=os.environ | {"COLUMNS": "250"})
        assert done.returncode == 0, (command, done.stderr)
        after = next(rest for block, rest in zip(parts[1::2], parts[2::2], strict=True) if command in block)
        for row in re.findall(r"^\| (?:\d \| )?`(.+?)` \| (.+) \|$", after, re.MULTILINE):
            lines = [line for line in done.stdout.splitlines() if row[0] in line]
            assert any(all(holds(cell, line) for cell in row[1].split(" | ")) for line in lines), (command, row, lines)


def test_the_pages_python_prints_the_pages_numbers(place: Path) -> None:
    code, printed = re.findall(r"```python\n(.*?)```\s+```\n(.*?)```", PAGE, re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=place, check=True)
    assert done.stdout == printed
    before, during = (float(number) for number in re.findall(r"median ([\d.]+) ms", printed)[:2])
    assert f"adds {during - before:.0f} ms" in PAGE
