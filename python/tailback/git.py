"""Runs git in a folder that a user names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["git", "run_git"]

#: Environment variables that git sets for its hooks; they would select another repository or index.
_LOCAL = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


def run_git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run git there, with the repository's own hooks and programs disabled."""
    env = {key: value for key, value in os.environ.items() if key not in _LOCAL} | {"LC_ALL": "C"}
    return subprocess.run(
        ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )


def git(folder: Path, *words: str) -> str | None:
    """What git prints, or `None` if it fails or is not installed."""
    try:
        done = run_git(folder, *words)
    except FileNotFoundError:
        return None
    return done.stdout.removesuffix("\n") if not done.returncode else None
