"""Congestion controls in one BPF source file, as people write them for the kernel: "bpf:mine.bpf.c".

For the simulator such a file is compiled natively and run in a process of its own (`tailback.isolated`); a live run
compiles the same file for the kernel. See docs/candidates.md.
"""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailback import _core, compiled
from tailback.errors import TailbackError, nearest

__all__ = ["Declared", "is_source", "read"]

PREFIX = "bpf:"


def is_source(name: str) -> bool:
    """Is this "bpf:mine.bpf.c"?"""
    return name.startswith(PREFIX)


def read(name: str, folder: Path | None = None) -> str:
    """The text of "bpf:mine.bpf.c", in `folder` or here."""
    file = compiled.place(name.removeprefix(PREFIX), folder)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise TailbackError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise TailbackError(f"{file} is not UTF-8 text.") from None


class Declared(compiled.Declared):
    """A BPF source."""

    def library(self, params: Mapping[str, Any]) -> Path:
        """Its parameters are macros, so that there is a library for each choice of them."""
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
        with compiled.lock:
            return _library(self.name.removeprefix(PREFIX), self.text, defines)


@functools.lru_cache(maxsize=256)
def _library(name: str, text: str, defines: tuple[tuple[str, str], ...]) -> Path:
    file = Path(tempfile.mkstemp(suffix=".so", dir=compiled.folder("tailback-bpf-"))[1])
    file.write_bytes(_core.bpf_library(name, text, dict(defines)))
    return file
