"""The base revision of a repository, checked out in a temporary worktree that is always removed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tailback.errors import TailbackError
from tailback.git import run_git

__all__ = ["Repository", "Revision", "RevisionError"]

#: Prefix of worktree folders; the number of the creating process follows.
_PREFIX = "tailback-base-"


class RevisionError(TailbackError):
    """There is no base to compare with: no repository, no such revision, or no common ancestor."""


@dataclass(frozen=True)
class Revision:
    """A commit."""

    #: The full hash.
    commit: str
    #: Time of the commit, in seconds since 1970.
    time_s: int
    subject: str

    @property
    def short(self) -> str:
        """The abbreviated hash."""
        return self.commit[:10]


class Repository:
    """The repository around a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("git") is None:
            raise RevisionError("git is not installed, and a base is one of its revisions. Install git.")
        self.folder = folder.resolve()
        top = self._try("rev-parse", "--show-toplevel")
        if top is None:
            raise RevisionError(f"{folder} lies in no git repository. Run it in the one whose base is meant.")
        self.top = Path(top)

    def base(self, name: str) -> Revision:
        """The last commit that `name` and HEAD have in common."""
        commit = self._try("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        shallow = self._try("rev-parse", "--is-shallow-repository") == "true"
        whole = (
            " This clone is shallow: fetch the whole history, in actions/checkout with fetch-depth: 0."
            if shallow
            else ""
        )
        if commit is None:
            raise RevisionError(
                f'base "{name}": there is no such revision. Give a branch, a tag or a commit, as origin/main.{whole}'
            )
        if self._try("rev-parse", "--verify", "--quiet", "HEAD") is None:
            raise RevisionError("HEAD is no commit yet: commit something first.")
        common = self._try("merge-base", commit, "HEAD")
        if common is None:
            fix = whole or " Give a base that this branch began at."
            raise RevisionError(f'base "{name}" and HEAD have no common ancestor.{fix}')
        return self._revision(common)

    def head(self) -> Revision:
        """The checked-out commit."""
        return self._revision("HEAD")

    def uncommitted(self) -> list[str]:
        """Tracked files that differ from HEAD."""
        text = self._try("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no") or ""
        return [entry[3:] for entry in text.split("\0") if entry]

    def tracked(self) -> set[Path]:
        """Tracked files."""
        text = self._try("ls-files", "-z", "--full-name", "--", ":/") or ""
        return {self.top / entry for entry in text.split("\0") if entry}

    @contextlib.contextmanager
    def worktree(self, revision: Revision) -> Iterator[Path]:
        """A folder with the files of a revision."""
        self._remove_abandoned()
        around = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
        place = around / "base"
        try:
            done = self._git("worktree", "add", "--quiet", "--detach", str(place), revision.commit)
            if done.returncode:
                raise RevisionError(f"the base {revision.short} cannot be checked out: {done.stderr.strip()}")
            yield place
        finally:
            self._remove(around)

    def _remove(self, around: Path) -> None:
        self._git("worktree", "remove", "--force", str(around / "base"))
        shutil.rmtree(around, ignore_errors=True)
        self._git("worktree", "prune")

    def _remove_abandoned(self) -> None:
        """Remove worktrees of killed processes."""
        for line in (self._try("worktree", "list", "--porcelain") or "").splitlines():
            place = Path(line.removeprefix("worktree "))
            found = re.fullmatch(rf"{_PREFIX}(\d+)-\w+", place.parent.name)
            if line.startswith("worktree ") and found and place.name == "base" and not _lives(int(found[1])):
                self._remove(place.parent)

    def _revision(self, name: str) -> Revision:
        text = self._try("show", "--no-patch", "--format=%H%n%ct%n%s", name)
        if text is None:
            raise RevisionError(f"{name} cannot be read from the repository {self.top}.")
        commit, time, subject = text.split("\n", 2)
        return Revision(commit, int(time), subject)

    def _git(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_git(self.folder, *words)

    def _try(self, *words: str) -> str | None:
        done = self._git(*words)
        # Only the newline at the end is git's; a file name may contain any other space.
        return done.stdout.removesuffix("\n") if not done.returncode else None


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
