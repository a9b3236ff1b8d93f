"""Congestion controls in one BPF source file, as people write them for the kernel: "bpf:mine.bpf.c".

For the simulator such a file is compiled natively and run in a process of its own (`tailback.isolated`); a live run
compiles the same file for the kernel. See docs/candidates.md.
"""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback import _core
from tailback.errors import TailbackError, nearest

__all__ = ["Declared", "Inert", "is_source", "place", "read"]

PREFIX = "bpf:"
_lock = threading.Lock()


def is_source(name: str) -> bool:
    """Is this "bpf:mine.bpf.c"?"""
    return name.startswith(PREFIX)


def place(name: str, folder: Path | None = None) -> Path:
    """Where the file lies: beside the scenario if it is there, else from here."""
    written = name.removeprefix(PREFIX)
    beside = Path(folder, written) if folder is not None else None
    return beside if beside is not None and beside.is_file() else Path(written)


def read(name: str, folder: Path | None = None) -> str:
    """The text of "bpf:mine.bpf.c", in `folder` or here."""
    file = place(name, folder)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise TailbackError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise TailbackError(f"{file} is not UTF-8 text.") from None


@dataclass(frozen=True)
class Declared:
    """A source as what the engine's check takes for an algorithm. Nothing of it runs in this process."""

    name: str
    text: str

    def __call__(self, params: dict[str, Any], seed: int) -> Any:
        """Compile it with these parameters; `ValueError` says what is wrong."""
        del seed
        self.library(params)
        return Inert()

    def library(self, params: Mapping[str, Any]) -> Path:
        """The compiled library."""
        if not hasattr(_core, "bpf_library"):
            raise ValueError("BPF sources need Linux")
        known = sorted(set(re.findall(r"^\s*#\s*ifndef\s+(\w+)", self.text, re.MULTILINE)))
        for key, value in params.items():
            if key not in known:
                close = nearest(key, known)
                hint = f' Did you mean "{close}"?' if close else ""
                there = ", ".join(known) or "none. Write #ifndef and #define around a number to make it one"
                raise ValueError(f"{self.name} has no parameter {key}.{hint} There are: {there}")
            if not isinstance(value, bool | int) and not (isinstance(value, float) and value.is_integer()):
                raise ValueError(f"{key} = {value}: the parameters of a BPF source are whole numbers")
        defines = tuple(sorted((key, str(int(value))) for key, value in params.items()))
        with _lock:
            return _library(self.name.removeprefix(PREFIX), self.text, defines)


class Inert:
    """Stands where an algorithm would while a scenario is checked."""

    def on_ack(self, ack: object, control: object) -> None:
        """Nothing is ever sent."""

    on_congestion = on_ack


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tailback-bpf-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=256)
def _library(name: str, text: str, defines: tuple[tuple[str, str], ...]) -> Path:
    compiled = _core.bpf_library(name, text, dict(defines))
    file = Path(tempfile.mkstemp(suffix=".so", dir=_folder())[1])
    file.write_bytes(compiled)
    return file
