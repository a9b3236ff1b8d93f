"""The record: every verdict that is committed, with its effect, its scenario and a command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tailback as tb

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import record  # noqa: E402 (a script)

DECIDED = ("passed", "failed", "undecided", "agrees", "differs")


@pytest.fixture(scope="module")
def rows() -> list[record.Row]:
    return record.everything()


def test_each_kind_is_there(rows: list[record.Row]) -> None:
    subjects = {(row.kind, row.subject) for row in rows}
    assert {("algorithm", "bbr3"), ("queue", "fq_codel"), ("kernel", "Debian 6.1 bbr")} <= subjects
    # The first in view, each with one name for its dossier and for the suite.
    assert rows[0].kind == "transport"
    quinn = [row for row in rows if row.subject == "quinn bbr"]
    assert {row.source for row in quinn} == {"assess/quinn-bbr.html", "assess/transports.html"}
    assert not any(re.search(r" \d+\.\d+\.", subject) for _, subject in subjects)


def test_what_was_decided_has_an_effect_and_a_scenario_that_can_be_read(rows: list[record.Row]) -> None:
    without = [row for row in rows if row.verdict in DECIDED and not row.effect]
    assert without == []
    # The explorer has no stacks of others.
    without = [row for row in rows if row.verdict in DECIDED and not row.scenario and row.kind != "transport"]
    assert without == []
    for text in {row.scenario for row in rows if row.scenario}:
        tb.Scenario.parse_toml(text)


def test_a_row_says_what_its_dossier_says(rows: list[record.Row]) -> None:
    row = next(row for row in rows if row.subject == "bbr" and row.criterion == "5.1.1 Congestion collapse")
    page = (ROOT / "docs/assess/bbr.md").read_text()
    line = next(line for line in page.splitlines() if "| Congestion collapse |" in line)
    assert row.verdict == "failed"
    assert "**failed**" in line
    assert row.weighs in line
    assert [found.split(": ")[1] in line for found in row.effect.split("; ")] == [True, True]
    # The cell that is named.
    named = re.match(r"(\d+) flows over 1 Mbit/s", row.weighs)
    assert named
    assert f"count = {named[1]}\n" in row.scenario
    assert row.command == "tailback assess bbr --only congestion-collapse"


def test_a_dossier_of_a_transport_is_found_by_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/assess/bbr.md").read_text().replace("# bbr by", "# quinn bbr by")
    text = text.replace("`tailback assess bbr`", "`tailback assess quinn,cc=bbr`")
    (tmp_path / "quinn-bbr.md").write_text(text)
    monkeypatch.setattr(record, "ASSESS", tmp_path)
    rows = [row for row in record.everything() if row.kind == "transport"]
    assert {row.subject for row in rows} == {"quinn bbr"}
    assert "tailback assess quinn,cc=bbr --only congestion-collapse" in {row.command for row in rows}
    assert {row.scenario for row in rows} == {""}


@pytest.mark.long
def test_the_same_sources_give_the_same_page(tmp_path: Path) -> None:
    hashes = set()
    for number in ("1", "2"):
        path = tmp_path / number
        command = [sys.executable, str(ROOT / "scripts/record.py"), str(path)]
        shown = subprocess.run(
            command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": number}
        ).stdout
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        assert found in shown
        hashes.add(found)
    assert len(hashes) == 1


def test_the_page_stands_alone(rows: list[record.Row]) -> None:
    page = record.build()
    assert "{{" not in page
    # Nothing from elsewhere, and links only to pages of the site.
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", page) == []
    for place in set(re.findall(r'href="((?!explorer/|#)[^"]+)"', page)):
        assert (ROOT / "docs" / place.replace(".html", ".md")).is_file(), place
    kept = re.search(r'<script id="scenarios" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert kept
    assert set(json.loads(kept[1])) == {row.scenario for row in rows} - {""}
