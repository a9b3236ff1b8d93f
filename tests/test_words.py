"""Words that stop a reader, and commit subjects that do not say what a commit does.

The counts are of what stood there when this test was written, and may only fall: a file that is rewritten lowers its
word's count here.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIST = tomllib.loads((ROOT / "tests/words.toml").read_text())
WRITTEN = ("*.rs", "*.py", "*.md", "*.toml", "*.ts", "*.tsx", "*.c", "*.h")


def _tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files", *WRITTEN], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    own = {"tests/words.toml", "tests/test_words.py"}
    return [ROOT / name for name in names.splitlines() if name not in own and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def text() -> str:
    """All that is written: sources, documents, messages."""
    files = _tracked()
    if not files:
        pytest.skip("this is no git checkout")
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


@pytest.mark.parametrize("word", LIST["words"], ids=lambda word: str(word["write"]))
def test_a_stumbling_word_becomes_rarer(text: str, word: dict[str, str | int]) -> None:
    found = len(re.findall(rf"\b(?:{word['pattern']})\b", text, re.IGNORECASE))
    assert found <= int(word["at_most"]), f"{word['pattern']}: write {word['write']}"


def test_commit_subjects_name_an_area_and_a_change() -> None:
    """Of commits since `since`: "area: imperative summary" of at most 72 characters, and a body that says why."""
    since = LIST["commits"]["since"]
    known = subprocess.run(["git", "cat-file", "-e", since], cwd=ROOT, capture_output=True, check=False)
    if known.returncode:
        pytest.skip("the history is not here")
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e", f"{since}..HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    commits = [entry.strip("\n").split("\x1f") for entry in log.split("\x1e") if entry.strip()]
    wrong = [
        f"{name} {subject}"
        for name, subject, body in commits
        if len(subject) > 72 or not re.match(r"[a-z][a-z0-9 ,/_.-]*: \S", subject) or not body.strip()
    ]
    assert wrong == []
