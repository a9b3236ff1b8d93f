"""Kernel modules: "module:tcp_mine.c" or "module:sch_mine.c", a folder with a Makefile, or a built .ko.

As `cc` a module brings a congestion control, as a queue's `discipline` a queue discipline. It runs in a guest's kernel
and nowhere else: `tailback.vm.build` builds it against that kernel's headers, and `--engine vm` loads it. See
docs/tutorials/kernel-module.md.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailback import compiled, crates
from tailback.errors import TailbackError

__all__ = ["PREFIX", "Declared", "files", "is_queue", "is_source", "read", "registers"]

PREFIX = "module:"
#: Files of a folder that kbuild reads.
_SUFFIXES = (".c", ".h", ".S")
_MAKEFILES = ("Makefile", "Kbuild")
#: Size limit: a module's source has some kilobytes; more is probably the wrong folder.
_MOST_BYTES = 4_000_000
_BUILT = "base64 "


def is_source(name: str) -> bool:
    """Whether it is like "module:tcp_mine.c"."""
    return name.startswith(PREFIX)


def read(name: str, folder: Path | None = None) -> str:
    """The files of a module as one text, from `folder` or here; a built module in base64."""
    place = compiled.place(name.removeprefix(PREFIX), folder)
    if place.is_dir():
        found = sorted(path for path in place.rglob("*") if path.name in _MAKEFILES or path.suffix in _SUFFIXES)
        # kbuild writes generated files beside the sources.
        found = [path for path in found if not path.name.endswith(".mod.c")]
        if not any(path.parent == place and path.name in _MAKEFILES for path in found):
            raise TailbackError(
                f"{place} is no module's folder: it has no Makefile. Write one with the line: obj-m := tcp_mine.o"
            )
    elif place.suffix in (".c", ".ko"):
        found = [place]
    else:
        raise TailbackError(f'"{name}" is no module. Give a .c file, a folder with a Makefile, or a built .ko.')
    out, size = {}, 0
    for path in found:
        try:
            contents = path.read_bytes()
            size += len(contents)
            if size > _MOST_BYTES:
                raise TailbackError(f"{place} holds more than {_MOST_BYTES:,} bytes: that is no module.")
            at = path.name if path == place else path.relative_to(place).as_posix()
            is_built = path.suffix == ".ko"
            out[at] = _BUILT + base64.b64encode(contents).decode() if is_built else contents.decode("utf-8")
        except OSError as error:
            where = "" if path.is_file() else " Write its path from the scenario's folder or the current one."
            raise TailbackError(f'"{name}": {path} cannot be read: {error.strerror}.{where}') from None
        except UnicodeDecodeError:
            raise TailbackError(f"{path} is not UTF-8 text.") from None
    return crates.joined(out)


def files(text: str) -> dict[str, bytes]:
    """Undo `read`: the files by name."""
    return {
        name: base64.b64decode(content.removeprefix(_BUILT)) if name.endswith(".ko") else content.encode()
        for name, content in crates.split(text).items()
    }


def registers(text: str) -> str:
    """The name that a queue discipline's source registers, as its `.id` says; "" if no source says it."""
    found = re.search(r"""\.id\s*=\s*"([^"]+)""", text)
    return found.group(1) if found else ""


def is_queue(text: str) -> bool:
    """Whether a source registers a queue discipline and no congestion control."""
    return "Qdisc_ops" in text and "tcp_congestion_ops" not in text


class Declared(compiled.Declared):
    """A kernel module, which the simulator cannot run."""

    def library(self, params: Mapping[str, Any]) -> Path:
        """Always raises an error."""
        raise ValueError("a kernel module runs in a guest's kernel only: tailback run --engine vm")
