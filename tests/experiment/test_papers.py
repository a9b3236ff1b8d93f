"""Studies are found by entry points: the example of docs/papers.md as a package, and what is said without one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tailback as tb
from command import process
from tailback import cli
from tailback.experiment import studies

ROOT = Path(__file__).parents[2]


def test_the_package_of_the_documents_is_found_and_its_claims_are_judged(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    source = tmp_path / "source"
    source.mkdir()
    for fence, name in (("toml", "pyproject.toml"), ("python", "router_buffers.py")):
        found = re.search(rf"^```{fence}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        assert found is not None
        (source / name).write_text(found[1], encoding="utf-8")
    install = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", *install, "--target", tmp_path / "site", source], check=True)
    paths = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    listed = process("study", "--list", env=environment, cwd=tmp_path)
    assert "router-buffers" in listed.stdout, listed.stderr
    ran = process("study", "router-buffers", "--seeds", "2", env=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    result = studies.load(tmp_path / "results" / "router-buffers")
    assert [(claim.id, claim.verdict) for claim in result.claims] == [("RB-1", "reproduced"), ("RB-2", "reproduced")]
    assert all(len(claim.values) == 2 for claim in result.claims)
    sql = "SELECT queue, avg(utilisation) AS used FROM runs GROUP BY queue"
    used = dict(tb.open_store(result.folder / "runs").query(sql).rows())
    assert used["1bdp"] > used["0.125bdp"]


def test_where_no_paper_is_installed_the_message_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "_offered", dict)
    assert studies.names() == []
    with pytest.raises(studies.UnknownStudy, match=r"pip install \./papers"):
        studies.get("voip-latency")
    for words in (["study", "--list"], ["study", "voip-latency"]):
        done = CliRunner().invoke(cli.app, words)
        assert done.exit_code != 0
        assert "pip install ./papers" in str(done.exception)


def test_what_is_offered_as_a_study_and_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = EntryPoint("wrong", "math:pi", studies.GROUP)
    monkeypatch.setattr(studies, "_offered", lambda: {"wrong": wrong})
    with pytest.raises(studies.UnknownStudy, match="study wrong: math:pi is not a Study but a float"):
        studies.get("wrong")


def test_every_paper_is_offered_under_its_own_name() -> None:
    assert studies.names() == sorted(studies.get(name).name for name in studies.names())
    ours = {"aqm-pairs", "beyond", "high-speed-harm", "home-links", "voip-latency", "wireless-era"}
    assert ours <= set(studies.names())
