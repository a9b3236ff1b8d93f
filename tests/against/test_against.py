"""`tailback ci`: what a git repository may hold, and what is shown of it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import PROCESS
from tailback.against import history, output
from tailback.against.judging import examined, pairs_needed
from tailback.against.revisions import Repository, RevisionError
from tailback.judge import signed_rank

LOSSY = """
duration = "2s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
wire = { loss = 0.01 }
[[flow]]
name = "subject"
cc = "reno"
[[flow]]
name = "b"
cc = "reno"
[instruments]
polls = ["subject", "b"]
[expect]
conditions = [{ holds = "subject.goodput_mbps / b.goodput_mbps < 9", from = "1s" }]
"""
#: Nothing is drawn: every seed gives the same run.
FIXED = """
duration = "1s"
[dumbbell]
rate = "10mbit"
rtt = "40ms"
[[flow]]
name = "subject"
cc = "reno"
# Else the seed draws when the host's timers tick.
stack = { name = "linux", timer_tick = "0s" }
"""
MINE = """
class Mine:
    def on_ack(self, ack, control):
        if ack.may_grow:
            control.cwnd += ack.delivered_segments * ack.mss
            if not ack.in_slow_start:
                control.cwnd -= ack.delivered_segments * ack.mss - ack.delivered_segments * ack.mss ** 2 // control.cwnd

    def on_congestion(self, congestion, control):
        control.ssthresh = max(control.cwnd // 2, 2 * control.mss)
"""
Tailback = Callable[..., tuple[int, str, str]]
CANDIDATE = ("--candidate", "mine.py:Mine", "--allow-code", "--workers", 1)


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repo"
    (folder / "scenarios").mkdir(parents=True)
    (folder / "scenarios" / "lossy.toml").write_text(LOSSY)
    (folder / "mine.py").write_text(MINE)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "begin")
    git(folder, "checkout", "--quiet", "-b", "change")
    monkeypatch.chdir(folder)
    # What the machine's own CI says is not this test's.
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return folder


def is_clean(folder: Path) -> bool:
    """Is no worktree left, neither known to git nor in the temporary folder?"""
    return git(folder, "worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_change_of_comments_changes_nothing(repo: Path, tailback: Tailback) -> None:
    (repo / "mine.py").write_text("# A comment.\n" + MINE.replace("control.cwnd // 2", "control.cwnd  //  2"))
    git(repo, "commit", "--quiet", "-am", "comments")
    code, out, err = tailback("ci", "scenarios", "--base", "main", *CANDIDATE)
    assert (code, out) == (0, "")
    assert "conditions: 1 holds" in err
    assert "no run of 1 scenario differs" in err
    assert is_clean(repo)


def test_only_what_changed_is_shown_in_every_form(repo: Path, tailback: Tailback) -> None:
    (repo / "mine.py").write_text(MINE.replace("control.cwnd // 2", "9 * control.cwnd // 10"))
    wanted = ("--markdown", "c.md", "--html", "p.html", "--history", "h.jsonl", "--plot", "h.svg", "--json")
    code, out, _ = tailback("ci", "scenarios", "--base", "main", *CANDIDATE, *wanted)
    found = json.loads(out)
    verdicts = {row["measure"]: row["verdict"] for row in found["changes"]}
    assert verdicts["subject.goodput_mbps"] == "better"
    assert verdicts["subject.goodput_mbps / b.goodput_mbps from 1 s"] == "worse"
    assert "b.rtt_min_ms" not in verdicts
    assert code == 1
    assert found["uncommitted"] == ["mine.py"]
    row = next(row for row in found["changes"] if row["measure"] == "subject.goodput_mbps")
    assert row["difference"]["low"] < row["difference"]["mean"] < row["difference"]["high"]
    assert row["base"]["mean"] + row["difference"]["mean"] == pytest.approx(row["change"]["mean"])
    comment, page = (Path(name).read_text() for name in ("c.md", "p.html"))
    assert comment.startswith(output.MARKER)
    assert f"| {len(verdicts)} of" not in comment
    assert all(f"`{name}`" in comment and name in page for name in verdicts)
    assert "b.rtt_min_ms" not in comment
    assert "uncommitted files: `mine.py`" in comment
    command = f"tailback ci scenarios --base {git(repo, 'rev-parse', '--short=12', 'main')[:7]}"
    assert all(command in text and "--candidate mine.py:Mine --allow-code" in text for text in (comment, page))
    assert "<svg" in Path("h.svg").read_text()
    entries = history.read(Path("h.jsonl"))
    assert [entry.short[-1] == "+" for entry in entries] == [False, True]
    again, _, _ = tailback(
        "ci", "scenarios", "--base", "main", *CANDIDATE, "--fail-on", "never", "--history", "h.jsonl"
    )
    assert again == 0
    assert len(history.read(Path("h.jsonl"))) == 2


def test_a_condition_that_no_longer_holds_is_named(repo: Path, tailback: Tailback) -> None:
    conditions = """
conditions = ["subject.goodput_mbps < b.goodput_mbps", "b.rtt_min_ms > 1s", "subject.goodput_mbps > 0.1 * baseline"]
baseline = "cubic"
"""
    (repo / "scenarios" / "lossy.toml").write_text(LOSSY.partition("conditions")[0] + conditions)
    (repo / "mine.py").write_text(MINE.replace("control.cwnd // 2", "control.cwnd // 9"))
    git(repo, "commit", "--quiet", "-am", "timid")
    git(repo, "branch", "--force", "main")
    (repo / "mine.py").write_text(MINE.replace("control.cwnd // 2", "9 * control.cwnd // 10"))
    wanted = ("--markdown", "c.md", "--html", "p.html", "--json")
    code, out, err = tailback("ci", "scenarios", "--base", "main", *CANDIDATE, *wanted)
    found = json.loads(out)
    assert code == 1
    assert [row["outcome"] for row in found["expected"]] == ["no longer holds", "failed on the base too", "holds"]
    [row] = found["lost"]
    measures = {each["measure"]: each for each in found["changes"]}
    assert row["change"]["measured"]["mean"] == pytest.approx(measures["subject.goodput_mbps"]["change"]["mean"])
    assert "no longer holds: scenarios/lossy.toml: subject.goodput_mbps < b.goodput_mbps: " in err
    assert "1 of 3 conditions no longer hold" in err
    comment, page = (Path(name).read_text() for name in ("c.md", "p.html"))
    assert "- **no longer holds** `scenarios/lossy.toml`: `subject.goodput_mbps < b.goodput_mbps`: " in comment
    assert all(text.count("failed on the base too") for text in (comment, page))
    assert "no longer holds" in page


def test_scenarios_are_the_working_trees_on_both_sides(repo: Path, tailback: Tailback) -> None:
    (repo / "scenarios" / "lossy.toml").write_text(LOSSY.replace("10mbit", "20mbit"))
    (repo / "scenarios" / "new.toml").write_text(FIXED)
    (repo / "scenarios" / "notes.toml").write_text("a = 1\n")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "another rate")
    code, _, err = tailback("ci", "scenarios", "--base", "main", "--workers", 1)
    assert code == 0
    assert "no run of 2 scenarios differs" in err


def test_a_difference_that_is_one_case_is_exact(repo: Path, tailback: Tailback) -> None:
    (repo / "scenarios" / "lossy.toml").write_text(FIXED)
    (repo / "mine.py").write_text(MINE.replace("* ack.mss\n", "* ack.mss // 2\n", 1))
    code, out, _ = tailback("ci", "scenarios", "--base", "main", *CANDIDATE, "--json")
    rows = json.loads(out)["changes"]
    assert code == 1
    assert rows
    assert all(row["exact"] and row["difference"]["low"] == row["difference"]["high"] for row in rows)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([0.0] * 16, 1.0),
        ([3.0] * 16, 2 * 0.5**16),
        ([-3.0] * 16, 2 * 0.5**16),
        ([3.0, -3.0] * 8, 1.0),
        # By the table of Wilcoxon's test: a rank sum of 8 of 10 pairs has 0.0488.
        ([-1.0, -7.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0], 0.0488),
    ],
)
def test_the_signed_rank_test_is_exact_and_equal_sides_have_p_one(differences: list[float], p: float) -> None:
    assert signed_rank(differences) == pytest.approx(p, abs=5e-5)


def test_equal_margins_are_not_certain() -> None:
    """Two seeds whose differences agree say little; 16 say much."""
    assert signed_rank([1.0, 1.0]) == 0.5
    assert pairs_needed(2_000) == 17
    few = {"s": {"m": dict.fromkeys(range(3), (1.0, 2.0)), **{str(n): {1: (1.0, 1.0)} for n in range(20)}}}
    assert examined(few) == []


def test_what_cannot_be_a_base_is_named(repo: Path, tailback: Tailback, tmp_path: Path) -> None:
    def refused(*words: Any) -> str:
        code, out, err = tailback("ci", *words)
        assert (code, out) == (2, "")
        assert is_clean(repo)
        return err.replace("\n", " ")

    assert 'base "no": there is no such revision' in refused("scenarios", "--base", "no")
    # A name that would be an option of git's is a name.
    assert "there is no such revision" in refused("scenarios", "--base=--exec=touch ran")
    assert not (repo / "ran").exists()
    git(repo, "checkout", "--quiet", "--orphan", "other")
    git(repo, "commit", "--quiet", "-m", "elsewhere")
    assert "have no common ancestor" in refused("scenarios", "--base", "main")
    git(repo, "checkout", "--quiet", "change")
    (repo / "new.py").write_text(MINE)
    new = ("--candidate", "new.py:Mine", "--allow-code")
    assert "lacks new.py: it was added later" in refused("scenarios", "--base", "main", *new)
    (tmp_path / "outside.py").write_text(MINE)
    outside = ("--candidate", "../outside.py:Mine", "--allow-code")
    assert "lies outside the repository" in refused("scenarios", "--base", "main", *outside)
    assert "none of worse, change, never" in refused("scenarios", "--base", "main", "--fail-on", "x")
    (repo / "h.jsonl").write_text("{}\n")
    assert "line 1: this is no revision" in tailback("ci", "scenarios", "--base", "main", "--history", "h.jsonl")[2]


def test_a_shallow_clone_and_a_folder_without_git_are_named(repo: Path, tmp_path: Path) -> None:
    (repo / "mine.py").write_text(MINE + "\n")
    git(repo, "commit", "--quiet", "-am", "second")
    git(tmp_path, "clone", "--quiet", "--depth", "1", "--no-single-branch", f"file://{repo}", "shallow")
    with pytest.raises(RevisionError, match=r"(?s)no common ancestor.*fetch-depth: 0"):
        Repository(tmp_path / "shallow").base("origin/main")
    (tmp_path / "plain").mkdir()
    with pytest.raises(RevisionError, match="lies in no git repository"):
        Repository(tmp_path / "plain")


def test_an_old_base_that_cannot_run_is_not_compared_and_the_rest_goes_on(repo: Path, tailback: Tailback) -> None:
    git(repo, "checkout", "--quiet", "main")
    (repo / "mine.py").write_text("class Mine:\n    pass\n")
    git(repo, "commit", "--quiet", "-am", "of another interface")
    git(repo, "checkout", "--quiet", "-B", "change")
    (repo / "mine.py").write_text(MINE)
    (repo / "scenarios" / "own.toml").write_text(LOSSY.replace('"reno"', '"python:mine.py:Mine"', 1))
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "repaired")
    code, out, _ = tailback("ci", "scenarios", "--base", "main", "--allow-code", "--workers", 1, "--json")
    found = json.loads(out)
    assert code == 3
    assert list(found["incomparable"]) == ["scenarios/own.toml"]
    assert "the base cannot run it" in found["incomparable"]["scenarios/own.toml"]
    assert "is neither a queue" in found["incomparable"]["scenarios/own.toml"]
    assert found["runs"] == 32


def test_a_run_that_fails_since_is_broken(repo: Path, tailback: Tailback) -> None:
    (repo / "mine.py").write_text(MINE + "        1 / 0\n")
    code, out, _ = tailback("ci", "scenarios", "--base", "main", *CANDIDATE, "--json")
    assert code == 1
    assert "ZeroDivisionError" in json.loads(out)["broken"]["scenarios/lossy.toml"]
    (repo / "mine.py").write_text("1 / 0\n")
    code, out, _ = tailback("ci", "scenarios", "--base", "main", *CANDIDATE, "--json")
    assert code == 1
    assert "it cannot be run" in json.loads(out)["broken"]["scenarios/lossy.toml"]


def test_code_that_repeats_no_run_is_named(repo: Path, tailback: Tailback) -> None:
    (repo / "mine.py").write_text(
        "import random\n" + MINE.replace("2 * control.mss)", "random.random() * control.cwnd)")
    )
    code, out, _ = tailback("ci", "scenarios", "--base", "main", *CANDIDATE, "--json")
    found = json.loads(out)
    assert (code, found["runs"]) == (1, 0)
    assert "gave two results with one seed" in found["broken"]["scenarios/lossy.toml"]


def test_code_is_not_run_without_consent(repo: Path, tailback: Tailback) -> None:
    (repo / "mine.py").write_text("open('ran', 'w')\n" + MINE)
    git(repo, "commit", "--quiet", "-am", "evil")
    git(repo, "branch", "--force", "main")
    code, _, err = tailback("ci", "scenarios", "--base", "main", "--candidate", "mine.py:Mine")
    assert code == 3
    assert "--allow-code" in err
    assert not (repo / "ran").exists()


def test_a_base_that_reads_the_working_trees_modules_is_refused(
    repo: Path, tailback: Tailback, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "rule.py").write_text("SHARE = 2\n")
    (repo / "mine.py").write_text("from rule import SHARE\n" + MINE)
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "a module")
    git(repo, "branch", "--force", "main")
    monkeypatch.setenv("PYTHONPATH", str(repo))
    code, _, err = tailback("ci", "scenarios", "--base", "main", *CANDIDATE)
    assert code == 2
    assert "imported files of the working tree: rule.py" in err.replace("\n", " ")


def test_nothing_is_left_after_a_kill(repo: Path) -> None:
    (repo / "mine.py").write_text(MINE.replace("def on_ack", "import time; time.sleep(20)\n    def on_ack"))
    words = [*PROCESS, "ci", "scenarios", "--base", "main", *map(str, CANDIDATE)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(words, cwd=repo, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while is_clean(repo) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(number)
        process.wait(60)
        assert is_clean(repo) == (number == signal.SIGTERM)
    # The next one removes what no process could.
    with Repository(repo).worktree(Repository(repo).base("main")) as place:
        assert (place / "mine.py").read_text() == MINE
        assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 2
    assert is_clean(repo)
    assert not place.exists()


def test_a_hook_of_the_repository_is_not_run(repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repo}/ran\n")
    hook.chmod(0o755)
    with Repository(repo).worktree(Repository(repo).base("main")):
        pass
    assert not (repo / "ran").exists()
