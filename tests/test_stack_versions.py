"""`tailback bisect`: versions from cargo's index, each compiled and judged; cargo is a stand-in here."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import cli, stack_versions
from tailback.errors import TailbackError
from tailback.stacks import versions

#: What each published version comes to: a verdict and its mean, or None where it does not compile.
PUBLISHED = {
    "1.0.0": ("Passed", 0.01),
    "1.1.0": ("Passed", 0.02),
    "1.1.1": None,
    "1.2.0": ("Undecided", 0.1),
    "1.3.0": ("Failed", 0.4),
    "1.4.0": ("Failed", 0.5),
}
CARGO = """\
#!{python}
import json, os, pathlib, re, stat, sys
published = json.loads({published!r})
version = re.search('proto = .*"=?([^"]+)", default', pathlib.Path("Cargo.toml").read_text())[1]
if sys.argv[1] == "generate-lockfile":
    entry = pathlib.Path(os.environ["CARGO_HOME"], "registry/index/here/.cache/no/q-/noq-proto")
    entry.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({{"vers": each, "yanked": each == "1.2.5"}}) for each in [*reversed(published), "1.2.5"]]
    entry.write_bytes(bytes([0]).join(row.encode() for row in ["head", *rows]))
elif published[version] is None:
    sys.exit("warning: unused\\nerror[E0050]: method `on_ack` has 5 parameters")
else:
    with open(os.environ["LOG"], "a") as log:
        log.write(version + "\\n")
    verdict, mean = published[version]
    program = pathlib.Path(os.environ["CARGO_TARGET_DIR"], "release/tailback-version")
    program.parent.mkdir(parents=True, exist_ok=True)
    lines = ["#!/bin/sh", "grep -q 'subject.loss < 3%' $1 || exit 9", f"echo {{verdict}}; echo {{mean}}; echo by $2"]
    program.write_text("\\n".join(lines))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
"""
WORDS = ("bisect", "noq-proto", "1.0.0", "1.4.0", "transport/alone", "--cc", "bbr3", "--expect", "subject.loss < 3%")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    cargo = tmp_path / "bin" / "cargo"
    cargo.parent.mkdir()
    cargo.write_text(CARGO.format(python=sys.executable, published=json.dumps(PUBLISHED)))
    cargo.chmod(cargo.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{cargo.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    versions._program.cache_clear()
    yield tmp_path
    versions._program.cache_clear()


def ended(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, Any]:
    monkeypatch.setattr("sys.argv", ["tailback", *words])
    with pytest.raises(SystemExit) as found:
        cli.main()
    return int(found.value.code or 0), capsys.readouterr()


def test_it_finds_the_first_bad_version_and_skips_what_cannot_be_judged(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, seen = ended((*WORDS, "--allow-code"), capsys, monkeypatch)
    assert code == 0, seen.err
    assert "first bad version: noq-proto 1.3.0" in seen.err
    assert "last good version: noq-proto 1.1.0" in seen.err
    assert "or one of these, which were skipped: 1.1.1, 1.2.0" in seen.err
    assert "1.1.1: skipped, it does not compile: error[E0050]: method `on_ack` has 5 parameters" in seen.err
    assert "with 1.3.0: by bbr3" in seen.err
    # The ends first, then halves.
    assert (world / "log").read_text().split()[:2] == ["1.0.0", "1.4.0"]


def test_code_wants_consent(world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, seen = ended(WORDS, capsys, monkeypatch)
    assert code == 2
    assert "--allow-code" in seen.err
    assert not (world / "log").exists()


def test_ends_that_do_not_differ_are_refused(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = tuple("1.1.0" if word == "1.4.0" else word for word in WORDS)
    code, seen = ended((*words, "--allow-code"), capsys, monkeypatch)
    assert code == 1
    assert "BAD = 1.1.0: the condition holds there" in seen.err


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(TailbackError, match=r"GOOD = 1\.0\.9: there is no such version\. Did you mean"):
        versions.between("1.0.9", "1.4.0", list(PUBLISHED))
    with pytest.raises(TailbackError, match="no adapter for the crate quiche"):
        stack_versions.tried_with("quiche", tb.suites.read("transport/alone"), "bbr", "subject.loss < 3%")


def test_a_scenario_may_name_the_transport_that_is_bisected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = tmp_path / "judge"
    judge.write_text('#!/bin/sh\ngrep -E "transport|new_reno" "$1" && exit 3\nprintf "Passed\\n1.0\\nwhy\\n"\n')
    judge.chmod(0o755)
    monkeypatch.setattr(versions, "program", lambda crate, version: judge)
    flows = [tb.bulk("new_reno", transport="noq", name="subject")]
    scenario = tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="5s")
    found = stack_versions.tried_with("noq-proto", scenario, "bbr3", "subject.loss < 3%")("1.1.0")
    assert not isinstance(found, str), found


def test_a_version_as_a_candidate_wants_consent_and_an_adapter(world: Path) -> None:
    with pytest.raises(TailbackError, match="is code, which would be run"):
        tb.candidate("noq-proto@1.1.0,cc=bbr3")
    with pytest.raises(TailbackError, match="no adapter for the crate quiche"):
        tb.candidate("quiche@0.29.3,cc=bbr2", allow_code=True)
    assert not (world / "log").exists()


def test_an_adapter_has_what_the_version_has(world: Path) -> None:
    texts = {each: versions._project("noq-proto", each) / "src/noq.rs" for each in ("1.1.0", "1.2.0")}
    assert {each: "on_cwnd_limited" in file.read_text() for each, file in texts.items()} == {
        "1.1.0": False,
        "1.2.0": True,
    }
    # What a fault of the stack names.
    assert 'VERSION: &str = "1.1.0"' in texts["1.1.0"].read_text()


@pytest.mark.parametrize("crate", sorted(versions._FITS))
def test_what_older_versions_lack_is_in_the_adapter_once(crate: str) -> None:
    folder = versions._CRATES / "tailback-bench" / "examples" / versions.STACKS[crate][0]
    text = "".join(file.read_text() for file in folder.glob("*.rs"))
    for _, changes in versions._FITS[crate]:
        assert [text.count(later) for later, _ in changes] == [1] * len(changes), changes
