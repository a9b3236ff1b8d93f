"""Finds the first commit of a git tree, or patch of a series, whose kernel fails a condition.

Commits are checked out in a separate worktree in the cache, which leaves the user's files unchanged; `git bisect`
chooses the next one. All kernels are built in one folder, so that little is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tailback.errors import TailbackError
from tailback.git import git, run_git
from tailback.vm import tree as trees
from tailback.vm.bisected import Bisected, Seen, at_ends, bisect
from tailback.vm.debian import KernelError
from tailback.vm.kernels import Kernel, cache

__all__ = ["Commits", "Series", "commits"]

Say = Callable[[str], object]
Attempt = Callable[[str], Seen | str]


class Series:
    """A kernel for each number of patches of a series, applied in order to Debian's source."""

    def __init__(self, given: Path, on: str, say: Say = lambda _: None) -> None:
        self.patches, self.on, self._say = trees.series(given), on, say
        self._target = cache() / f".bisect-{on}"

    @property
    def names(self) -> list[str]:
        """Names of the kernels, from no patch to all patches."""
        return [self.on, *(f"{number} {name}" for number, (name, _) in enumerate(self.patches, 1))]

    def between(self, good: str, bad: str) -> list[str]:
        """The kernels from one end to the other; an end is a number of patches or a patch's name."""
        ends = [self._number(field, given) for field, given in (("GOOD", good), ("BAD", bad))]
        if ends[0] == ends[1]:
            raise KernelError(f"GOOD = {good} and BAD = {bad} are the same patch. Give two, such as 0 and the last one")
        step = 1 if ends[0] < ends[1] else -1
        return self.names[ends[0] : None if ends[1] + step < 0 else ends[1] + step : step]

    def _number(self, field: str, given: str) -> int:
        known = {self.on: 0} | {name: number for number, (name, _) in enumerate(self.patches, 1)}
        known |= {Path(name).stem: number for name, number in known.items() if number}
        number = int(given) if given.isdigit() else known.get(given, -1)
        if 0 <= number <= len(self.patches):
            return number
        names = ", ".join(self.names[1:])
        raise KernelError(f"{field} = {given}: no such patch. Give a number (0 is {self.on} itself) or a name: {names}")

    def kernel(self, name: str) -> Kernel:
        """Build the kernel with one of these names."""
        some = self.patches[: self.names.index(name)]
        with trees.patched(some, self.on) as tree:
            return trees.compiled(tree, self._target, some, say=self._say)

    def search(self, good: str, bad: str, attempt: Attempt) -> Bisected:
        """The first patch with which the condition fails, and the kernel before it."""
        found = bisect(self.between(good, bad), attempt, self._say)
        # Each patch is shown with its kernel.
        later = max(found.good.kernel, found.bad.kernel, key=self.names.index)
        return found if found.unknown else replace(found, change=later)


class Commits:
    """The commits of a git tree, each as a kernel."""

    def __init__(self, tree: Path, work: Path, target: Path, say: Say = lambda _: None) -> None:
        self.tree, self._work, self._target, self._say = tree, work, target, say

    def find(self, field: str, name: str) -> str:
        """The full hash of a revision."""
        found = git(self.tree, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if found is None:
            raise KernelError(f"{field} = {name}: {self.tree} has no such commit. Give a tag, a branch or a hash")
        return found

    def title(self, commit: str) -> str:
        """Short hash and subject of a commit."""
        return git(self.tree, "show", "--no-patch", "--format=%h %s", "--abbrev=12", commit) or commit

    def kernel(self, commit: str) -> Kernel:
        """Build the kernel of a commit."""
        done = run_git(self._work, "checkout", "--quiet", "--force", "--detach", commit)
        if done.returncode:
            raise KernelError(f"{commit[:12]} cannot be checked out: {done.stderr.strip()}")
        return trees.compiled(self._work, self._target, say=self._say)

    def search(self, good: str, bad: str, attempt: Attempt) -> Bisected:
        """The first commit on which the condition fails, and the one before it.

        If BAD is the older commit: the first on which it holds, and the bad one before it.
        """
        ends = self.find("GOOD", good), self.find("BAD", bad)
        if ends[0] == ends[1]:
            raise KernelError(f"GOOD = {good} and BAD = {bad} are the same commit. Give two")
        tried: dict[str, Seen] = {}
        skipped: dict[str, str] = {}

        def look(commit: str) -> Seen | str:
            found = attempt(commit)
            if isinstance(found, str):
                skipped[self.title(commit)] = found
                self._say(f"{self.title(commit)}: skipped, {found}")
            else:
                tried[commit] = found
                self._say(found.line)
            return found

        at_ends(ends, look, self.title)
        is_back = git(self.tree, "merge-base", "--is-ancestor", ends[1], ends[0]) is not None
        old, new = reversed(ends) if is_back else ends
        words, last = ["start", "--no-checkout", new, old], old
        while True:
            done = run_git(self._work, "bisect", *words)
            if first := re.search(r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.MULTILINE):
                change = first[1]
                break
            if "only 'skip'ped commits left" in done.stdout:
                left = re.findall(r"^([0-9a-f]{40})$", done.stdout, re.MULTILINE)
                change = git(self._work, "rev-parse", "refs/bisect/bad") or new
                return self._found(tried, last, change, is_back, skipped, [one for one in left if one != change])
            if done.returncode:
                raise TailbackError(f"git bisect {words[0]}: {(done.stderr or done.stdout).strip()}")
            commit = git(self._work, "rev-parse", "BISECT_HEAD") or ""
            found = look(commit)
            if isinstance(found, str):
                words = ["skip", commit]
                continue
            is_old = found.holds is not is_back
            last = commit if is_old else last
            words = ["good" if is_old else "bad", commit]
        parents = (git(self.tree, "rev-parse", f"{change}^@") or "").split()
        before = next((one for one in parents if one in tried), parents[0])
        if before not in tried and isinstance(found := look(before), str):
            raise TailbackError(f"{self.title(change)} changed it, and the commit before it cannot be run: {found}")
        return self._found(tried, before, change, is_back, skipped, [])

    def _found(
        self, tried: dict[str, Seen], before: str, change: str, is_back: bool, skipped: dict[str, str],
        left: Sequence[str],
    ) -> Bisected:  # fmt: skip
        pair = tried[before], tried[change]
        good, bad = reversed(pair) if is_back else pair
        return Bisected(good, bad, skipped, tuple(map(self.title, left)), self.title(change))


@contextlib.contextmanager
def commits(tree: Path, say: Say = lambda _: None) -> Iterator[Commits]:
    """The commits of a git tree, with a temporary worktree; `KernelError` if it is not a git tree."""
    tree = tree.absolute()
    if shutil.which("git") is None:
        raise KernelError("git is not installed; it says which commit to try next. Install it: apt-get install git")
    if not tree.is_dir() or git(tree, "rev-parse", "--git-dir") is None:
        raise KernelError(f"{tree} is no git tree. Give a clone of Linux, or a series of patches: --series, --on")
    digest = hashlib.sha256(str(tree).encode()).hexdigest()[:12]
    # Always the same path, because ccache's entries depend on it.
    work, target = cache() / f".bisect-{digest}-tree", cache() / f".bisect-{digest}"
    cache().mkdir(parents=True, exist_ok=True)
    with trees.held(work, f"{tree} is being searched"):
        _remove(tree, work)
        say(f"checking {tree} out into a worktree of its own")
        try:
            done = run_git(tree, "worktree", "add", "--quiet", "--detach", str(work), "HEAD")
            if done.returncode:
                raise KernelError(f"{tree} cannot be checked out: {done.stderr.strip()}")
            yield Commits(tree, work, target, say)
        finally:
            _remove(tree, work)


def _remove(tree: Path, work: Path) -> None:
    """Remove the worktree, including one left by a killed search."""
    if work.exists():
        git(tree, "worktree", "remove", "--force", str(work))
        shutil.rmtree(work, ignore_errors=True)
    git(tree, "worktree", "prune")
