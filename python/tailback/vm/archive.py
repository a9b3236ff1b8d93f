"""A guest's initial file system: a cpio archive in the format the kernel unpacks ("newc", initramfs-buffer-format)."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

__all__ = ["Entry", "archive"]

_FOLDER, _PROGRAM, _LINK = 0o040755, 0o100755, 0o120777


@dataclass(frozen=True)
class Entry:
    """A file, a folder, or a symbolic link; a link's `contents` are its target."""

    mode: int
    contents: bytes = b""
    #: Modification time in seconds since 1970.
    changed: int = 0

    @classmethod
    def folder(cls) -> Entry:
        """An empty folder."""
        return cls(_FOLDER)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @classmethod
    def link(cls, target: str) -> Entry:
        """A symbolic link to `target`."""
        return cls(_LINK, target.encode())


def archive(files: Mapping[str, bytes | Entry]) -> bytes:
    """A cpio archive of `files`, keyed by absolute path, and their parent folders; reproducible to the byte."""
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents} - {"/"}
    folders -= files.keys()
    every = dict.fromkeys(folders, Entry.folder())
    every |= {path: what if isinstance(what, Entry) else Entry(_PROGRAM, what) for path, what in files.items()}
    # A folder precedes its contents.
    entries = sorted(every.items(), key=lambda row: (row[1].mode != _FOLDER, row[0]))
    out = [_entry(number, path, entry) for number, (path, entry) in enumerate(entries, 1)]
    return b"".join([*out, _entry(0, "TRAILER!!!", Entry(0))])


def _entry(number: int, path: str, entry: Entry) -> bytes:
    name = path.lstrip("/").encode() + b"\0"
    # Number, mode, owner, group, links, time, size, device and device kind (major, minor), name's length, no checksum.
    fields = (number, entry.mode, 0, 0, 1, entry.changed, len(entry.contents), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(entry.contents)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
