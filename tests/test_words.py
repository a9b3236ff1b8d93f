"""Words, sentences and comments that stop a reader, and commit subjects that do not name a change.

`tests/words.toml` has the words, the exceptions with their reasons, and the counts of long sentences. A count may only
fall: a change that removes long sentences lowers the count of its place.
"""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from tailback.cli import app

ROOT = Path(__file__).parents[1]
LIST = tomllib.loads((ROOT / "tests/words.toml").read_text())
EXCEPTIONS = LIST.get("exceptions", [])

OWN = {"tests/words.toml", "tests/test_words.py"}

MOST_WORDS = 35
"""Words of a sentence above which it counts as long."""

REFERRING = frozenset(LIST["comments"]["referring"].split())
"""Words that mean something only beside another sentence."""

COMMENTS = {
    **dict.fromkeys((".rs", ".ts", ".tsx", ".c", ".h"), re.compile(r"\s*(//[/!]?|/\*\*?)\s?(.*?)(?:\*/)?\s*$")),
    **dict.fromkeys((".py", ".pyi", ".toml", ".tcl", ""), re.compile(r"\s*(#:?)(?!!)\s?(.*?)\s*$")),
}
"""How a line begins that holds a comment and nothing else."""


@cache
def texts() -> dict[str, str]:
    """Every tracked text file: sources, documents, scenarios, conversations, scripts."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = {}
    for name in listed.splitlines():
        path = ROOT / name
        if name in OWN or name.endswith((".min.js", ".csv", ".lock")) or not path.is_file() or path.is_symlink():
            continue
        try:
            found[name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    if not found:
        pytest.skip("this is no git checkout")
    return found


def matcher(word: dict[str, Any]) -> re.Pattern[str]:
    """Finds the word in prose and as a part of a name, such as `is_told`."""
    return re.compile(rf"(?<![A-Za-z])(?:{word['pattern']})(?![A-Za-z])", re.IGNORECASE)


@cache
def suspects() -> list[tuple[str, int, str]]:
    """Lines with any of the words, but for the exceptions, with their places."""
    any_word = matcher({"pattern": "|".join(word["pattern"] for word in LIST["words"])})
    return [
        (name, number, line)
        for name, text in texts().items()
        if any_word.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if any_word.search(line) and not any(it["file"] == name and it["text"] in line for it in EXCEPTIONS)
    ]


@pytest.mark.parametrize("word", LIST["words"], ids=lambda word: str(word["write"]))
def test_a_stumbling_word_stands_nowhere(word: dict[str, Any]) -> None:
    found = [f"{name}:{number}" for name, number, line in suspects() if matcher(word).search(line)]
    assert found == [], f"{word['pattern']}: write {word['write']}"


@pytest.mark.parametrize("word", LIST["words"], ids=lambda word: str(word["write"]))
def test_no_file_has_a_stumbling_word_in_its_name(word: dict[str, Any]) -> None:
    assert [name for name in texts() if matcher(word).search(name)] == []


def test_every_exception_names_its_reason_and_is_used() -> None:
    assert all(it["reason"] for it in EXCEPTIONS)
    unused = [it for it in EXCEPTIONS if it["text"] not in texts().get(it["file"], "")]
    assert unused == []


def commands(of: click.Command, name: str = "tailback") -> Iterator[tuple[str, click.Command]]:
    """A command and those below it, each with its whole name."""
    yield name, of
    if hasattr(of, "commands"):
        for each, command in of.commands.items():
            yield from commands(command, f"{name} {each}")


def test_no_help_text_has_a_stumbling_word() -> None:
    """Help is put together while the program runs, from the registry and from docstrings."""
    found = []
    words = [(word["pattern"], matcher(word)) for word in LIST["words"]]
    for name, command in commands(typer.main.get_command(app)):
        shown = command.get_help(click.Context(command, info_name=name))
        said = " ".join([shown, command.help or "", *(getattr(it, "help", None) or "" for it in command.params)])
        found += [f"{name}: {word}" for word, pattern in words if pattern.search(said)]
    assert found == []


def paragraphs(markdown: str) -> Iterator[str]:
    """The prose of Markdown or of a docstring, without code, tables and headings."""
    text = re.sub(r"^\s*```.*?^\s*```", "\n\n", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    lines: list[str] = []
    indent = 0
    for raw in [*text.splitlines(), ""]:
        line = raw.strip()
        item = re.match(r"(?:[-*+]|\d+\.)\s+", line)
        is_other = not line or line.startswith(("|", "#", "<", ">>>", "...", "---"))
        now = len(raw) - len(raw.lstrip())
        if lines and (item or is_other or now != indent):
            yield " ".join(lines)
            lines = []
        if not is_other:
            lines.append(line[item.end() :] if item else line)
            indent = now + (item.end() if item else 0)


def sentences(paragraph: str) -> list[str]:
    """Split at full stops; inline code counts as one word, a link as its text."""
    text = re.sub(r"`[^`]*`", "Code", paragraph)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.split(r'(?<=[.!?])["”)*]*\s+(?=[A-Z“"(*_\[])', text)


def is_long(sentence: str) -> bool:
    return len(re.findall(r"\S*[A-Za-z0-9]\S*", sentence)) > MOST_WORDS


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            said := ast.get_docstring(node)
        ):
            yield getattr(node, "lineno", 1), said


def comments(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Runs of comment lines of one kind, each as one text."""
    begins = COMMENTS.get(Path(name).suffix)
    if begins is None:
        return
    kind, start, lines = "", 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        found = begins.match(line)
        if lines and (not found or found[1] != kind):
            yield start, "\n".join(lines)
            lines = []
        if found:
            kind, start = found[1], start if lines else number
            lines.append(found[2])


def prose() -> Iterator[tuple[str, str, str]]:
    """Where a sentence counts, its file, and the text around it."""
    for name, text in texts().items():
        kind = Path(name).suffix
        if kind == ".md":
            yield (name if "/" not in name else f"{name.split('/')[0]}/"), name, text
        elif kind in (".py", ".pyi"):
            yield from (("Python docstrings", name, said) for _, said in docstrings(text))
        elif kind == ".rs":
            yield from (("Rust comments", name, said) for _, said in comments(name, text))


def test_long_sentences_become_rarer() -> None:
    found: Counter[str] = Counter()
    for where, _, text in prose():
        found[where] += sum(is_long(each) for part in paragraphs(text) for each in sentences(part))
    most = {it["where"]: it["at_most"] for it in LIST["sentences"]}
    more = {where: count for where, count in found.items() if count > most.get(where, 0)}
    assert more == {}, f"sentences over {MOST_WORDS} words: split them"


def is_riddle(comment: str) -> bool:
    """One or two words of which one refers to something that the comment does not name: "Them.", "Does it?"."""
    said = comment.split()
    if not 0 < len(said) <= 2 or not re.fullmatch(r"[A-Za-z' ]+[.?!:,]", " ".join(said)):
        return False
    plain = {re.sub(r"[^a-z]", "", word.lower()) for word in said}
    return comment.rstrip().endswith("?") or bool(plain & REFERRING)


def test_no_comment_is_a_riddle() -> None:
    assert all(map(is_riddle, ("Them.", "Does it?", "until here.")))
    assert not any(map(is_riddle, ("Congestion window.", "Time of the change.")))
    found = []
    for name, text in texts().items():
        said = list(comments(name, text))
        if Path(name).suffix in (".py", ".pyi"):
            said += docstrings(text)
        found += [f"{name}:{number}: {each}" for number, each in said if is_riddle(each)]
    assert found == []


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
    entries = [entry.strip("\n").split("\x1f") for entry in log.split("\x1e") if entry.strip()]
    wrong = [
        f"{name} {subject}"
        for name, subject, body in entries
        if len(subject) > 72 or not re.match(r"[a-z][a-z0-9 ,/_.-]*: \S", subject) or not body.strip()
    ]
    assert wrong == []


def test_the_changelogs_next_version_has_one_line_a_bullet_under_the_headings_of_keep_a_changelog() -> None:
    text = texts()["CHANGELOG.md"]
    unreleased = re.split(r"^## (?!Unreleased)", text.partition("## Unreleased")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = unreleased.splitlines()[1:]
    wrapped = [line for line in lines if line and not line.startswith(("- ", "### ", "#### "))]
    assert wrapped == [], "a bullet has one line"
    known = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    found = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert set(found) <= known
    assert len(set(found)) == len(found)
    # What is new is many lines: a reader finds the part by what they do.
    ungrouped = re.findall(r"^### Added\n\n(- .*)", unreleased, re.MULTILINE)
    assert ungrouped == [], "put the line under one of Added's parts"
