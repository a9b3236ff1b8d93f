"""The first commit of a tree, and the first patch of a series, on which a condition fails; nothing is compiled."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tailback.errors import TailbackError
from tailback.vm import linux_source, revisions, tree
from tailback.vm.bisected import Seen
from tailback.vm.debian import KernelError
from tailback.vm.kernels import Kernel

pytestmark = pytest.mark.skipif(not (shutil.which("git") and shutil.which("patch")), reason="needs git and patch")

#: The window of each commit; the condition is that it is below 20. "broken" does not compile.
WINDOWS = ["10", "11", "broken", "12", "30", "31", "32"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache; compiling reads the window."""

    def compiled(source: Path, target: Path, patches: object = (), *, say: object) -> Kernel:
        if "broken" in (source / "window").read_text():
            raise tree.BuildFault(f"{source}: it does not compile: window:1: no number")
        return Kernel(name=(source / "window").read_text().strip(), image=target, modules=target, config=target)

    for module in (tree, revisions):
        monkeypatch.setattr(module, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(tree, "compiled", compiled)
    monkeypatch.setattr(tree, "_demand_tools", lambda: None)
    return tmp_path / "cache"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A git tree with a commit and a tag for each window, and a change that is not committed."""
    root = tmp_path / "linux"
    root.mkdir()

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)

    git("init", "--quiet")
    for number, window in enumerate(WINDOWS):
        (root / "window").write_text(f"{window}\n")
        git("add", "window")
        git("commit", "--quiet", "-m", f"window {window}")
        git("tag", f"v{number}")
    (root / "window").write_text("mine\n")
    return root


def attempt(kernel_of: Callable[[str], Kernel], title: Callable[[str], str] = str) -> Callable[[str], Seen | str]:
    def found(name: str) -> Seen | str:
        try:
            window = float(kernel_of(name).name)
        except tree.BuildFault as error:
            return str(error)
        return Seen(title(name), "", window < 20, {"window": window})

    return found


def test_the_first_bad_commit_is_found_and_the_users_tree_stays(clone: Path, home: Path) -> None:
    said: list[str] = []
    with revisions.commits(clone, said.append) as commits:
        found = commits.search("v0", "v6", attempt(commits.kernel, commits.title))
    assert (found.good.values["window"], found.bad.values["window"]) == (12, 30)
    assert found.change.endswith(" window 30")
    assert found.bad.kernel == found.change
    assert found.unknown == ()
    assert (clone / "window").read_text() == "mine\n"
    trees = subprocess.run(["git", "-C", str(clone), "worktree", "list"], capture_output=True, text=True, check=True)
    assert len(trees.stdout.splitlines()) == 1
    assert not list(home.glob("*-tree"))
    assert subprocess.run(["git", "-C", str(clone), "bisect", "log"], capture_output=True, check=False).returncode


def test_backwards_the_commit_that_made_it_good_is_found(clone: Path, home: Path) -> None:
    with revisions.commits(clone) as commits:
        judge = attempt(commits.kernel, commits.title)

        def opposite(name: str) -> Seen | str:
            seen = judge(name)
            return seen if isinstance(seen, str) else Seen(seen.kernel, "", not seen.holds, seen.values)

        found = commits.search("v6", "v0", opposite)
    assert (found.good.values["window"], found.bad.values["window"]) == (30, 12)
    assert found.change.endswith(" window 30")


def test_commits_that_do_not_compile_are_skipped_and_left_open(clone: Path, home: Path) -> None:
    with revisions.commits(clone) as commits:
        judge = attempt(commits.kernel, commits.title)

        def strict(name: str) -> Seen | str:
            seen = judge(name)
            return seen if isinstance(seen, str) else Seen(seen.kernel, "", seen.values["window"] < 12, seen.values)

        found = commits.search("v0", "v6", strict)
    assert (found.good.values["window"], found.bad.values["window"]) == (11, 12)
    assert [name.partition(" ")[2] for name in found.unknown] == ["window broken"]
    assert "does not compile" in next(iter(found.skipped.values()))


def test_wrong_ends_are_refused_and_nothing_is_left(clone: Path, home: Path, tmp_path: Path) -> None:
    for ends, problem in [
        (("v1", "v1"), r"GOOD = v1 and BAD = v1 are the same commit"),
        (("v0", "v9"), r"BAD = v9: .*linux has no such commit\. Give a tag"),
        (("v0", "v1"), r"BAD = \w+ window 11: the condition holds there"),
        (("v5", "v6"), r"GOOD = \w+ window 31: the condition does not hold there"),
        (("v2", "v6"), r"GOOD = \w+ window broken cannot be judged: .*does not compile"),
    ]:
        with pytest.raises(TailbackError, match=problem), revisions.commits(clone) as commits:
            commits.search(*ends, attempt(commits.kernel, commits.title))
        assert not list(home.glob("*-tree"))
    with pytest.raises(KernelError, match=r"no git tree.*--series"), revisions.commits(tmp_path / "none"):
        pass


@pytest.fixture
def patches(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two patches on a source whose window is 10: 11 and then 30."""

    def unpack(tarball: Path, into: Path) -> None:
        (into / "window").write_text("10\n")

    monkeypatch.setattr(linux_source, "fetch", lambda on: tmp_path / f"{on}.tar.xz")
    monkeypatch.setattr(linux_source, "unpack", unpack)
    folder = tmp_path / "patches"
    folder.mkdir()
    for number, (old, new) in enumerate([("10", "11"), ("11", "30")], 1):
        text = f"--- a/window\n+++ b/window\n@@ -1 +1 @@\n-{old}\n+{new}\n"
        (folder / f"{number:04}-{new}.patch").write_text(text)
    return folder


def test_the_first_bad_patch_of_a_series_is_found(patches: Path) -> None:
    series = revisions.Series(patches, "linux-source-6.1")
    assert series.names == ["linux-source-6.1", "1 0001-11.patch", "2 0002-30.patch"]
    found = series.search("0", "0002-30", attempt(series.kernel))
    assert (found.good.kernel, found.bad.kernel) == ("1 0001-11.patch", "2 0002-30.patch")
    assert found.change == "2 0002-30.patch"
    assert series.between("2", "linux-source-6.1") == series.names[::-1]
    for ends, problem in [
        (("1", "0001-11.patch"), "are the same patch"),
        (("0", "3"), r"BAD = 3: no such patch.*0 is linux-source-6\.1 itself.*2 0002-30\.patch"),
        (("0", "1"), r"BAD = 1 0001-11\.patch: the condition holds there"),
    ]:
        with pytest.raises(TailbackError, match=problem):
            series.search(*ends, attempt(series.kernel))
