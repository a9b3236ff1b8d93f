"""Congestion controls and queues in one BPF source file, written as for the kernel: "bpf:mine.bpf.c".

For the simulator such a file is compiled natively and run in a separate process (`tailback.isolated`); a live run
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

__all__ = ["ENDING", "PREFIX", "Declared", "is_source", "read", "written"]

PREFIX = "bpf:"
#: Suffix of BPF sources.
ENDING = ".bpf.c"
#: A number that the caller may set (#ifndef), with its default (#define).
_PARAMETER = re.compile(r"^\s*#\s*ifndef\s+(\w+)(?:\s*\n\s*#\s*define\s+\1[ \t]+(\S+))?", re.MULTILINE)


def is_source(name: str) -> bool:
    """Whether it is like "bpf:mine.bpf.c"."""
    return name.startswith(PREFIX)


def written(name: str) -> str:
    """The name for a scenario: "bpf:mine.bpf.c" for "mine.bpf.c"."""
    return name if is_source(name) else f"{PREFIX}{name}"


def read(name: str, folder: Path | None = None) -> str:
    """The text of "bpf:mine.bpf.c", found in `folder` or relative to the working folder."""
    file = compiled.place(name.removeprefix(PREFIX), folder)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise TailbackError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise TailbackError(f"{file} is not UTF-8 text.") from None


class Declared(compiled.MayBeQueue):
    """A BPF source."""

    def library(self, params: Mapping[str, Any]) -> Path:
        """The compiled library; parameters are macros, so that each set of values has its own library."""
        return self._compiled(params, is_queue=False)

    def queue_library(self, params: Mapping[str, Any]) -> Path:
        """The compiled library of the queue; each set of parameters has its own."""
        return self._compiled(params, is_queue=True)

    def has_queue(self) -> bool:
        """Whether it fills in a struct Qdisc_ops; does not compile it."""
        return hasattr(_core, "bpf_is_queue") and _core.bpf_is_queue(self.text)

    def about_queue(self, params: Mapping[str, Any], rate_bps: int | None) -> compiled.QueueAbout:
        """Properties of the queue, with parameters in a scenario's spelling: limit_packets for LIMIT_PACKETS."""
        about = super().about_queue(params, rate_bps)
        return compiled.QueueAbout(about.declares, {key.lower(): value for key, value in self._parameters().items()})

    def _parameters(self) -> dict[str, str]:
        return dict(_PARAMETER.findall(self.text))

    def _compiled(self, params: Mapping[str, Any], *, is_queue: bool) -> Path:
        if not hasattr(_core, "bpf_library"):
            raise ValueError("BPF sources need Linux")
        defines = tuple(sorted(macros(self.name, self.text, params).items()))
        with compiled.lock:
            return _library(self.name.removeprefix(PREFIX), self.text, defines, is_queue)


def macros(name: str, text: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Macros for these parameters (LIMIT_PACKETS for limit_packets); `ValueError` for an invalid one."""
    known = sorted(dict(_PARAMETER.findall(text)))
    found = {}
    for key, value in params.items():
        macro = key if key in known else key.upper()
        if macro not in known:
            close = nearest(key, known)
            hint = f' Did you mean "{close}"?' if close else ""
            there = ", ".join(known) or "none. Write #ifndef and #define around a number to make it one"
            raise ValueError(f"{name} has no parameter {key}.{hint} There are: {there}")
        if not isinstance(value, bool | int) and not (isinstance(value, float) and value.is_integer()):
            raise ValueError(f"{key} = {value}: the parameters of a BPF source are whole numbers")
        found[macro] = str(int(value))
    return found


@functools.lru_cache(maxsize=256)
def _library(name: str, text: str, defines: tuple[tuple[str, str], ...], is_queue: bool) -> Path:
    file = Path(tempfile.mkstemp(suffix=".so", dir=compiled.folder("tailback-bpf-"))[1])
    file.write_bytes(_core.bpf_library(name, text, dict(defines), is_queue))
    return file
