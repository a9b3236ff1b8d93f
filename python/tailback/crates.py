"""Congestion controls and queue disciplines in a Rust crate: "rust:path/to/crate".

The crate implements the trait in `src/tailback.rs`, a file of the template. There is a template for congestion controls
and one for queues. cargo compiles the crate to a shared library, which runs in a separate process, like a BPF source
(`tailback.isolated`). See docs/candidates.md.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tailback import _core, compiled
from tailback.checksums import digest
from tailback.errors import TailbackError
from tailback.views import view

__all__ = ["MANIFEST", "PREFIX", "Declared", "is_source", "read", "written"]

PREFIX = "rust:"
#: A crate may also be named by its manifest.
MANIFEST = "Cargo.toml"
#: Files to keep besides those in src/.
_FILES = ("Cargo.toml", "Cargo.lock", "build.rs", "rust-toolchain.toml")
#: Size limit: a congestion control or queue has some kilobytes; more is probably the wrong folder.
_MOST_BYTES = 1_000_000
#: Maximum lines of cargo's output in an error.
_MOST_LINES = 30
#: Symbol that the library of a crate with a queue exports, in every version.
_QUEUE_SYMBOL = b"\0tailback_queue_abi\0"
_HEAD = re.compile(r"==== (.+), (\d+) lines")


def is_source(name: str) -> bool:
    """Whether it is like "rust:path/to/crate"."""
    return name.startswith(PREFIX)


def written(name: str) -> str:
    """The name for a scenario, from a crate's manifest.

    >>> written("mine/Cargo.toml"), written("Cargo.toml")
    ('rust:mine', 'rust:.')
    """
    return f"{PREFIX}{name.removesuffix(MANIFEST).rstrip('/') or '.'}"


def read(name: str, folder: Path | None = None) -> str:
    """The files of "rust:path/to/crate" as one text, from `folder` or here, each with its name in a line before it."""
    root = compiled.place(name.removeprefix(PREFIX), folder)
    if not (root / "Cargo.toml").is_file():
        raise TailbackError(f"{root} is no Rust crate: it has no Cargo.toml.")
    files = [root / each for each in _FILES if (root / each).is_file()]
    files += sorted(path for path in (root / "src").rglob("*") if path.is_file())
    out, size = {}, 0
    for file in files:
        size += file.stat().st_size
        if size > _MOST_BYTES:
            raise TailbackError(f"{root} holds more than {_MOST_BYTES:,} bytes in src: that is no candidate.")
        try:
            out[file.relative_to(root).as_posix()] = file.read_text(encoding="utf-8")
        except OSError as error:
            raise TailbackError(f"{file} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise TailbackError(f"{file} is not UTF-8 text.") from None
    return joined(out)


def joined(files: Mapping[str, str]) -> str:
    """Texts by name as one text, each with its name in a line before it."""
    out = []
    for name, text in files.items():
        lines = text.removesuffix("\n").split("\n")
        out += [f"==== {name}, {len(lines)} lines", *lines]
    return "\n".join([*out, ""])


def split(text: str) -> dict[str, str]:
    """Undo `joined`: the texts by name."""
    lines, out, at = text.split("\n"), {}, 0
    while at < len(lines) - 1:
        found = _HEAD.fullmatch(lines[at])
        path = PurePosixPath(found[1]) if found else None
        if found is None or path is None or path.is_absolute() or ".." in path.parts:
            raise ValueError("the kept files of the source are damaged")
        end = at + 1 + int(found[2])
        out[found[1]] = "\n".join([*lines[at + 1 : end], ""])
        at = end
    return out


class Declared(compiled.MayBeQueue):
    """A crate."""

    def library(self, params: Mapping[str, Any]) -> Path:
        """The compiled library, the same for all parameters; each set of parameters is tried once."""
        if not hasattr(_core, "NativeAlgorithm"):
            raise ValueError("crates need Linux")
        with compiled.lock:
            return _sound(self.name, self._compiled(), json.dumps(dict(params)))

    def _compiled(self) -> Path:
        return _library(self.name.removeprefix(PREFIX), self.text)

    def queue_library(self, params: Mapping[str, Any]) -> Path:
        """The library with its queue, the same for all parameters."""
        del params
        with compiled.lock:
            return self._compiled()

    def has_queue(self) -> bool:
        """Whether it exports a queue. Compiles it, which runs its build.rs."""
        return _QUEUE_SYMBOL in self.queue_library({}).read_bytes()


@functools.lru_cache(maxsize=256)
def _library(name: str, text: str) -> Path:
    """Compile a crate from its text alone, so that the kept source is what runs."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise ValueError(f"{name}: it is compiled by cargo, which is not installed. Install Rust: https://rustup.rs")
    root = compiled.folder("tailback-rust-") / digest(text.encode())[:16]
    for file, content in split(text).items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(content, encoding="utf-8")
    # Panics must unwind, so that they differ from crashes.
    settings = {"CARGO_TARGET_DIR": str(root / "target"), "CARGO_PROFILE_RELEASE_PANIC": "unwind"}
    done = subprocess.run(
        [
            cargo,
            "rustc",
            "--quiet",
            "--release",
            "--lib",
            "--crate-type",
            "cdylib",
            "--message-format",
            "json-render-diagnostics",
        ],
        cwd=root,
        env=os.environ | settings | {"CARGO_TERM_COLOR": "never"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[:_MOST_LINES])
        raise ValueError(f"{name} does not compile:\n{said}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    built = [
        Path(file)
        for row in rows
        if row.get("reason") == "compiler-artifact" and "cdylib" in row["target"]["crate_types"]
        for file in row["filenames"]
        if file.endswith(".so")
    ]
    if not built:
        raise ValueError(f"{name}: cargo made no shared library of it")
    return built[-1]


@functools.lru_cache(maxsize=1024)
def _sound(name: str, library: Path, params: str) -> Path:
    """The library, after constructing it with these parameters in another process."""
    try:
        view("library.sound")(name, [(params, str(library))])
    except TailbackError as error:
        raise ValueError(str(error)) from None
    except _core.AlgorithmError as error:
        raise ValueError(f"it failed as one was made: {error.args[3]}") from None
    return library
