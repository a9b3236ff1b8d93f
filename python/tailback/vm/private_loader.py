"""Runs the guest's own program beside a container image's file system, with a private loader and libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

__all__ = ["ARGUMENT", "libraries", "program"]

_LOADER, _OWN_LOADER = b"/lib64/ld-linux-x86-64.so.2\0", b"/tailback/ld.so\0"
_FOLDER = "/tailback/lib"
#: The kernel passes unknown boot arguments to its first program as environment variables. Other programs do not get
#: them.
ARGUMENT = f"LD_LIBRARY_PATH={_FOLDER}"


def program(contents: bytes) -> bytes:
    """The guest's program, patched to request the private loader (`PT_INTERP`)."""
    return contents.replace(_LOADER, _OWN_LOADER.ljust(len(_LOADER), b"\0"), 1)


def libraries(paths: Sequence[str]) -> dict[str, bytes]:
    """Contents of the loader and libraries, by their paths in the guest."""
    out = {}
    for path in paths:
        contents = Path(path).read_bytes()
        out[f"{_FOLDER}/{PurePosixPath(path).name}"] = contents
        if path == _LOADER.decode().rstrip("\0"):
            out[_OWN_LOADER.decode().rstrip("\0")] = contents
    return out
