"""The worked page: its commands run on its captures, real ones by tcpdump, and its Python prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from command import tailback

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "captures-worked.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^tailback (.+)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which the page's paths lead to its captures."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "docs").symlink_to(ROOT / "docs")
    return folder


def test_commands_whose_output_the_page_leaves_out_run(place: Path) -> None:
    """The others' outputs are compared by `test_console_outputs.py`."""
    assert len(COMMANDS) >= 4
    for command in COMMANDS:
        done = tailback(*command.split(), cwd=place)
        assert done.code == 0, (command, done.err)


def test_the_pages_python_prints_the_pages_numbers(place: Path) -> None:
    code, printed = re.findall(r"```python\n(.*?)```\s+```console\n\$ python delays.py\n(.*?)```", PAGE, re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=place, check=True)
    assert done.stdout == printed
