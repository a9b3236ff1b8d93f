"""A guest's initial file system: a cpio archive in the format the kernel unpacks ("newc", initramfs-buffer-format)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

__all__ = ["archive"]

_FOLDER, _PROGRAM = 0o040755, 0o100755


def archive(files: Mapping[str, bytes]) -> bytes:
    """`files` by absolute path, with the folders above them; the same files give the same bytes."""
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents} - {"/"}
    entries: list[tuple[str, int, bytes]] = [(path, _FOLDER, b"") for path in sorted(folders)]
    entries += [(path, _PROGRAM, contents) for path, contents in sorted(files.items())]
    out = [_entry(number, path, mode, contents) for number, (path, mode, contents) in enumerate(entries, 1)]
    return b"".join([*out, _entry(0, "TRAILER!!!", 0, b"")])


def _entry(number: int, path: str, mode: int, contents: bytes) -> bytes:
    name = path.lstrip("/").encode() + b"\0"
    # Number, mode, owner, group, links, time, size, device and device kind (major, minor), name's length, no checksum.
    fields = (number, mode, 0, 0, 1, 0, len(contents), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(contents)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
