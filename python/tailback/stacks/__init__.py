"""Transports of your own, without sockets: "c:path/to/stack.c" and, in Python, a class with `connect`.

The nine calls of each end of a connection are defined in `tailback_stack.h` in this folder; see
docs/tutorials/own-stack.md. The machine's C compiler compiles a C source to a shared library, which runs in a separate
process, like a BPF source (`tailback.isolated`). `CFLAGS`, `LDFLAGS` and `LDLIBS` of the environment are used as make
does.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tailback import _core, compiled, hooks
from tailback.checksums import digest
from tailback.errors import TailbackError
from tailback.views import view

__all__ = ["CALLS", "ENDING", "HEADER", "PREFIX", "Declared", "factory_of", "is_source", "is_stack", "read"]

PREFIX = "c:"
ENDING = ".c"
#: Header that a source includes.
HEADER = Path(__file__).with_name("tailback_stack.h")
#: Methods of each end of a connection in Python; `state()` is optional.
CALLS = (
    "on_datagram", "poll_transmit", "next_timeout", "on_timeout", "write", "finish", "read", "close", "progress",
)  # fmt: skip
_OUTSIDE = Path(__file__).with_name("outside.c")
#: Functions that `outside.c` replaces.
_WRAPPED = re.compile(r"^OUTSIDE\((\w+)\)$", re.MULTILINE)
#: Maximum lines of compiler output in an error.
_MOST_LINES = 30


def is_source(name: str) -> bool:
    """Whether it is like "c:path/to/stack.c"."""
    return name.startswith(PREFIX)


def read(name: str, folder: Path | None = None) -> str:
    """The source text, from `folder` or here."""
    path = compiled.place(name.removeprefix(PREFIX), folder)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TailbackError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise TailbackError(f"{path} is not UTF-8 text.") from None


class Declared(compiled.Declared):
    """A transport in C."""

    def __call__(self, params: dict[str, Any], seed: int) -> Any:
        """Always raises an error: it is not a congestion control."""
        raise ValueError("it is a transport: name it as a flow's transport")

    def stack_library(self) -> Path:
        """The compiled library."""
        with compiled.lock:
            return _library(self.name.removeprefix(PREFIX), self.text)

    def as_stack(self) -> tuple[str, list[str]]:
        """Its version and congestion controls; `ValueError` if it cannot be opened."""
        if not hasattr(_core, "NativeStack"):
            raise ValueError("transports in C need Linux")
        return _about(self.name, self.stack_library())


@functools.lru_cache(maxsize=256)
def _about(name: str, library: Path) -> tuple[str, list[str]]:
    """Version and congestion controls of the library's stack, opened in another process."""
    try:
        version, algorithms = view("stack.about")(name, str(library))
    except TailbackError as error:
        raise ValueError(str(error)) from None
    except _core.AlgorithmError as error:
        raise ValueError(f"it failed as it was opened: {error.args[3]}") from None
    return version, list(algorithms)


@functools.lru_cache(maxsize=256)
def _library(name: str, text: str) -> Path:
    """Compile a source; `ValueError` has the compiler's messages with lines of the source."""
    words = shlex.split(os.environ.get("CC", "cc"))
    if not words or shutil.which(words[0]) is None:
        raise ValueError(f"{name}: it is compiled by {' '.join(words) or 'cc'}, which is not installed. Set CC")
    root = compiled.folder("tailback-c-") / digest(text.encode())[:16]
    root.mkdir(parents=True, exist_ok=True)
    source, library = root / Path(name).name, root / "stack.so"
    source.write_text(text, encoding="utf-8")
    wrapped = _WRAPPED.findall(_OUTSIDE.read_text(encoding="utf-8"))
    given = {key: shlex.split(os.environ.get(key, "")) for key in ("CFLAGS", "LDFLAGS", "LDLIBS")}
    done = subprocess.run(
        [
            *words,
            "-std=gnu11", "-O2", "-fPIC", "-shared", f"-I{HEADER.parent}", f"-I{Path(name).parent.resolve()}",
            *given["CFLAGS"],
            "-o", library, source, _OUTSIDE,
            *given["LDFLAGS"], *given["LDLIBS"],
            "-Wl,-z,defs", *(f"-Wl,--wrap={each}" for each in wrapped),
        ],
        capture_output=True, text=True, check=False, errors="replace",
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.replace(str(source), name).splitlines()[:_MOST_LINES]
        raise ValueError("\n".join([f"{name} does not compile:", *said]))
    return library


def is_stack(made_by: Any) -> bool:
    """Whether this is a transport class: one with `connect`."""
    return isinstance(made_by, type) and callable(getattr(made_by, "connect", None))


def demand_sound(name: str, made_by: Any) -> None:
    """Raise `TailbackError` if a transport class lacks a required attribute."""
    for key in ("version", "algorithms"):
        if not hasattr(made_by, key):
            raise TailbackError(
                f'transport "{name}": {made_by.__name__} has no {key}. Set it, such as {_EXAMPLES[key]}'
            )


_EXAMPLES = {"version": 'version = "1.0"', "algorithms": 'algorithms = ("reno",)'}


def factory_of(made_by: Callable[[], Any]) -> Callable[..., Any]:
    """The engine's constructor for each run."""

    def make(*params: Any) -> Any:
        if params:
            raise ValueError(f"{getattr(made_by, '__name__', made_by)} is a transport: name it as a flow's transport")
        with hooks.constructed():
            return made_by()

    make.is_stack = True  # type: ignore[attr-defined]
    return make


def libraries(declared: Mapping[str, Any]) -> dict[str, str]:
    """By name: the libraries of transports in C."""
    return {name: str(made.stack_library()) for name, made in declared.items() if isinstance(made, Declared)}
