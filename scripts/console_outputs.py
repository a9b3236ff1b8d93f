#!/usr/bin/env python3
"""Run the commands of pages' `console` blocks and write what they print below them.

python scripts/console_outputs.py [--check] [PAGE ...]

A block's lines that begin with `$ ` are commands; the lines behind them are what they print. A page's blocks run in
order, in a folder of their own with `scenarios`, `docs`, and every file of which the page says "Save this as `NAME`". A
block of `console-vm` stays as it is where QEMU or the kernel is missing. With `--check` nothing is written, and a page
whose outputs have changed is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNEL = "debian-6.1"
"""What blocks of `console-vm` run on."""

_BLOCK = re.compile(r"^```console(?P<vm>-vm)?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(
    r"Save this as `(?P<name>[\w.-]+)`[^\n]*\n(?:[^\n]+\n)*\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def pages() -> list[Path]:
    """The pages that have such blocks."""
    return [
        page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if _BLOCK.search(page.read_text())
    ]


def rewritten(page: Path, *, other_kernel: bool = False) -> str:
    """The page's text with today's outputs. `RuntimeError` if a command fails.

    With `other_kernel` a block of `console-vm` stays if only numbers changed: another point release may have others.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in ("scenarios", "docs"):
            Path(folder, name).symlink_to(ROOT / name)
        for saved in _SAVED.finditer(page.read_text()):
            Path(folder, saved["name"]).write_text(saved["text"])

        def written(block: re.Match[str]) -> str:
            if block["vm"] and not _has_kernel():
                return block[0]
            fresh = f"```console{block['vm'] or ''}\n{_run(block['text'], Path(folder))}```"
            return block[0] if block["vm"] and other_kernel and _shape(block[0]) == _shape(fresh) else fresh

        return _BLOCK.sub(written, page.read_text())


def _shape(text: str) -> list[str]:
    """The words of a block, with one digit for each number."""
    return re.sub(r"\d[\d.,]*", "0", text).split()


def _has_kernel() -> bool:
    from tailback.vm import kernels

    return shutil.which("qemu-system-x86_64") is not None and any(each.name == KERNEL for each in kernels.fetched())


def _run(block: str, folder: Path) -> str:
    out = []
    for command in _commands(block):
        shown = _output("\n".join(command)[2:], folder)
        _demand_matches("\n".join(command), shown)
        out += [*command, *shown]
    return "".join(line + "\n" for line in out)


def _demand_matches(command: str, shown: list[str]) -> None:
    """`RuntimeError` if an alternative of a `grep -E` matches no line shown: the page asks for what is not printed."""
    for pattern in re.findall(r"""\| *grep -E (?:"([^"]+)"|'([^']+)')""", command):
        for alternative in re.split(r"\|(?![^(]*\))", "".join(pattern)):
            if not any(re.search(alternative, line) for line in shown):
                raise RuntimeError(f"{command}\nprints no line that matches {alternative!r}")


def _commands(block: str) -> list[list[str]]:
    """Each command's lines, with those that it continues on."""
    found: list[list[str]] = []
    goes_on = False
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line])
        elif goes_on:
            found[-1].append(line)
        goes_on = (line.startswith("$ ") or goes_on) and line.endswith("\\")
    return found


def _output(command: str, folder: Path) -> list[str]:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        # Standard error has progress and times, which change.
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command}\nended with {done.returncode}: {done.stderr.strip()}")
    return [line.rstrip() for line in done.stdout.rstrip("\n").splitlines()]


def main(words: list[str]) -> int:
    """Write the outputs, or compare them."""
    check = "--check" in words
    named = [Path(word) for word in words if word != "--check"]
    changed = []
    for page in named or pages():
        text = rewritten(page, other_kernel=check)
        if text != page.read_text():
            changed.append(str(page))
            if not check:
                page.write_text(text)
    if changed:
        print(("outputs have changed in " if check else "written: ") + ", ".join(changed))
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
