"""Linux's source from Debian's package: what a name means, and the files that are written."""

import subprocess
from pathlib import Path

import pytest

from tailback.vm import KernelError, linux_source

MAKEFILE = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n"


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    """A source of two files."""
    folder = tmp_path / "linux-source-7.3/net/sched"
    folder.mkdir(parents=True)
    (folder / "sch_one.c").write_text("one\n")
    (folder.parents[1] / "Makefile").write_text(MAKEFILE)
    out = tmp_path / "linux-source-7.3.tar.xz"
    subprocess.run(["tar", "-C", str(tmp_path), "-cJf", str(out), "linux-source-7.3"], check=True)
    return out


def test_files_are_written_by_their_last_names(tarball: Path, tmp_path: Path) -> None:
    (written,) = linux_source.extract(tarball, ["net/sched/sch_one.c"], tmp_path / "here")
    assert written == tmp_path / "here/sch_one.c"
    assert written.read_text() == "one\n"
    assert linux_source.version(tarball) == "7.3.4"
    with pytest.raises(
        KernelError, match=r"linux-source-7\.3.* has no file net/sched/sch_two\.c.*from the source's top"
    ):
        linux_source.extract(tarball, ["net/sched/sch_two.c"], tmp_path / "here")
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["sch_one.c"]


def test_a_source_is_fetched_once_and_asked_for_by_its_series(tarball: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux_source, "cache", lambda: tarball.parent / "cache")
    kept = tarball.parent / "cache/.linux-source-7.3" / tarball.name
    kept.parent.mkdir(parents=True)
    tarball.rename(kept)
    assert {linux_source.fetch(name) for name in ("7.3", "linux-source-7.3", "debian-7.3")} == {kept}
    with pytest.raises(KernelError, match=r'"7" names no source of Linux.*linux-source-7\.3'):
        linux_source.fetch("7")


def test_a_whole_source_needs_room(tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = tmp_path / "tree"
    into.mkdir()
    monkeypatch.setattr(linux_source, "_UNPACKED_BYTES", 1)
    linux_source.unpack(tarball, into)
    assert (into / "Makefile").read_text() == MAKEFILE
    monkeypatch.setattr(linux_source, "_UNPACKED_BYTES", 1 << 62)
    with pytest.raises(KernelError, match="MB are free"):
        linux_source.unpack(tarball, into)
