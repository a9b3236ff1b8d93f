"""Kernels from source: what a tree must be, what a series of patches changes, and every fault named."""

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from tailback.vm import KernelError, kernels, linux_source, tree

PATCH = """\
From: a@b
Subject: two

--- a/net/ipv4/tcp_x.c
+++ b/net/ipv4/tcp_x.c
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
"""


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    """What of a tree is looked at before make is."""
    root = tmp_path / "linux"
    (root / "arch/x86").mkdir(parents=True)
    (root / "arch/x86/Makefile").touch()
    (root / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n")
    (root / "net/ipv4").mkdir(parents=True)
    (root / "net/ipv4/tcp_x.c").write_text("one\ntwo\nthree\n")
    return root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, with every tool there."""
    monkeypatch.setattr(tree, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(kernels, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(tree, "_demand_tools", lambda: None)
    return tmp_path / "cache"


def test_a_tree_is_linux_and_clean(linux: Path, home: Path) -> None:
    assert tree._version(linux) == "7.3.4"
    with pytest.raises(KernelError, match=r"no tree of Linux.*Give the folder of a clone"):
        tree.build(linux / "net")
    (linux / ".config").touch()
    with pytest.raises(KernelError, match=r"may be half done.*make mrproper"):
        tree.build(linux)
    assert not home.exists()


def test_lacking_tools_are_named_with_what_is_lost(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have = shutil.which
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in ("pahole", "flex") else have(tool))
    monkeypatch.setattr(tree, "_has_header", lambda name: False)
    with pytest.raises(KernelError, match=r"needs .*flex.*pahole.*no BTF.*apt-get install .*libelf-dev"):
        tree.build(linux)


def test_a_name_is_one_trees(linux: Path, home: Path) -> None:
    for name in ("debian-7.3", "../mine", ""):
        with pytest.raises(KernelError, match=r"no name|no tree"):
            tree.build(linux if name else linux / "net", name=name)
    (home / "mine").mkdir(parents=True)
    (home / "mine/tree").write_text("/another/tree")
    with pytest.raises(KernelError, match=r"a build of /another/tree.*--name"):
        tree.build(linux, name="mine")


def test_a_fault_is_named_by_its_line_and_an_old_image_is_not_left(
    linux: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = home / "mine/arch/x86/boot/bzImage"
    image.parent.mkdir(parents=True)
    image.touch()
    (home / "mine/tree").write_text(str(linux))
    said: list[str] = []

    def make(words: list[str], **more: object) -> subprocess.CompletedProcess[bytes]:
        fault = b"" if "allnoconfig" in words else b"../net/ipv4/tcp_x.c:2:1: error: unknown type name 'two'\n"
        more["stdout"].write(fault)  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(words, bool(fault))

    monkeypatch.setattr(tree.subprocess, "run", make)
    with pytest.raises(KernelError, match=r"does not compile: net/ipv4/tcp_x\.c:2: unknown type name 'two'"):
        tree.build(linux, name="mine", say=said.append)
    assert not image.exists()
    assert said[0].startswith("Linux 7.3.4 on ")
    full = tree._fault("ld: final link failed: No space left on device", linux, home / "mine")
    # A search must end there, and not skip the commit.
    assert not isinstance(full, tree.BuildFault)
    assert "disk is full" in str(full)
    assert "kept" in str(full)
    with pytest.raises(KernelError, match=r"the build of mine did not end.*vm build .*linux --name mine"):
        kernels.find("mine")


def test_a_build_says_what_it_was_built_of(linux: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest of the files that the compiler read, so that another line there and no other file changes it."""

    def make(words: list[str], **more: object) -> subprocess.CompletedProcess[bytes]:
        if "bzImage" in words:
            target = home / "mine"
            (target / "net").mkdir(parents=True, exist_ok=True)
            (target / "net/.tcp_x.o.cmd").write_text(f"deps_net/tcp_x.o := \\\n  {linux}/net/ipv4/tcp_x.c \\\n")
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(tree.subprocess, "run", make)
    monkeypatch.setattr(tree, "git", lambda *words: None)
    monkeypatch.setattr(tree, "built", lambda target: kernels.Kernel("mine", target, target, target))
    monkeypatch.setattr(kernels.Kernel, "release", "7.3.4")

    def digest() -> str:
        found = tree.build(linux, name="mine").source
        assert (found["tree"], found["version"]) == ("linux", "7.3.4")
        return str(found["sha256"])

    first = digest()
    (linux / "net/ipv4/tcp_y.c").write_text("not read\n")
    assert digest() == first
    (linux / "net/ipv4/tcp_x.c").write_text("changed\n")
    assert digest() != first


def test_a_full_disk_is_named(linux: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tree, "_take", full)
    with pytest.raises(KernelError, match=r"mine: No space left on device\. Free .* MB and run it again"):
        tree.build(linux, name="mine")


def test_one_folder_is_built_by_one_process(linux: Path, home: Path) -> None:
    with tree.held(home / "mine", "mine is being built"), pytest.raises(KernelError, match="by another process"):
        tree.build(linux, name="mine")


def test_a_series_is_read_in_its_order(tmp_path: Path) -> None:
    folder = tmp_path / "patches"
    folder.mkdir()
    for name in ("b.patch", "a.patch"):
        (folder / name).write_text(PATCH)
    assert [name for name, _ in tree.series(folder)] == ["a.patch", "b.patch"]
    (folder / "series").write_text("# in this order\nb.patch -p1\n\na.patch\n")
    assert [name for name, _ in tree.series(folder)] == ["b.patch", "a.patch"]
    (folder / "a.patch").write_text("words\n")
    with pytest.raises(KernelError, match=r"a\.patch is no patch"):
        tree.series(folder)
    (folder / "series").write_text("c.patch\n")
    with pytest.raises(KernelError, match=r"c\.patch cannot be read: No such file"):
        tree.series(folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(KernelError, match="holds no patch"):
        tree.series(empty)


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
def test_another_series_takes_the_last_one_out(
    linux: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[Path] = []

    def unpack(tarball: Path, into: Path) -> None:
        unpacked.append(into)
        shutil.copytree(linux, into, dirs_exist_ok=True)

    monkeypatch.setattr(linux_source, "fetch", lambda on: tmp_path / f"{on}.tar.xz")
    monkeypatch.setattr(linux_source, "unpack", unpack)
    built: list[tuple[str, str]] = []

    def compiled(source: Path, target: Path, patches: object, *, say: object) -> None:
        built.append((target.name, (source / "net/ipv4/tcp_x.c").read_text()))

    monkeypatch.setattr(tree, "compiled", compiled)
    one, two, bad = (tmp_path / f"{name}.patch" for name in ("one", "two", "bad"))
    one.write_text(PATCH)
    two.write_text(PATCH.replace("TWO", "zwei"))
    bad.write_text(PATCH.replace("-two", "-four"))
    for given in (one, two):
        tree.patch(given, "linux-source-7.3")
    assert built == [("patched-7.3", "one\nTWO\nthree\n"), ("patched-7.3", "one\nzwei\nthree\n")]
    with pytest.raises(
        KernelError, match=r"bad\.patch does not apply to linux-source-7\.3: .*tcp_x\.c.*Hunk #1 FAILED"
    ):
        tree.patch(bad, "linux-source-7.3")
    # Nothing of either stays, and the source was unpacked once.
    assert (unpacked[0] / "net/ipv4/tcp_x.c").read_text() == "one\ntwo\nthree\n"
    assert not list(unpacked[0].rglob("*.rej"))
    assert len(unpacked) == 1
