"""Checksums of stored files, so that a corrupted file is detected before its numbers are used.

A result's `meta.json` holds the digests of its files and of itself. A part of a store's index has its digest in its
name, and each line of a journal ends with its digest. The digests detect accidents, not forgery: a person who changes a
result can change them too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailback.files import open_plain

__all__ = ["KeptWarning", "Verified", "digest", "digest_of_file", "seal"]


class KeptWarning(UserWarning):
    """A defect of a stored result or store that does not prevent its use, such as missing checksums."""


def digest(data: Any) -> str:
    """SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file. Raises `OSError`."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(meta: Mapping[str, Any]) -> str:
    """Digest of a JSON object, independent of its layout in the file and without its entry "sha256"."""
    plain = {key: value for key, value in meta.items() if key != "sha256"}
    return digest(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())


@dataclass
class Verified:
    """The result of `tailback.verify`."""

    #: Number of intact files, and their size in bytes.
    files: int = 0
    bytes: int = 0
    #: Readable files without a digest, written by tailback 0.1.
    unchecked: list[str] = field(default_factory=list)
    #: Damaged files, one sentence each.
    damaged: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged

    def add(self, other: Verified) -> None:
        """Add the findings of another check."""
        self.files += other.files
        self.bytes += other.bytes
        self.unchecked += other.unchecked
        self.damaged += other.damaged
