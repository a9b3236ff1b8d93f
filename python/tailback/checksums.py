"""Checksums of what is kept: a digest a file, so that a flipped bit is noticed before its number is believed.

A result's `meta.json` holds the digests of its files and one of itself; a part of a store's index has its digest in its
name, a line of a journal ends with its own. Whoever wants to change a result can change its digests too: they are
against accidents, not against forgery.
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
    """Something about a kept result or store that does not stop its use, such as that it has no checksums."""


def digest(data: Any) -> str:
    """SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file. Raises `OSError`."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(meta: Mapping[str, Any]) -> str:
    """The digest of a JSON object, however it is laid out in its file; its own entry "sha256" does not count."""
    plain = {key: value for key, value in meta.items() if key != "sha256"}
    return digest(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())


@dataclass
class Verified:
    """What `tailback.verify` found."""

    #: Files whose digest was right, and their size in bytes.
    files: int = 0
    bytes: int = 0
    #: Files that have no digest, as tailback 0.1 wrote them; they could be read.
    unchecked: list[str] = field(default_factory=list)
    #: What is damaged, a sentence each.
    damaged: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Is nothing damaged?"""
        return not self.damaged

    def add(self, other: Verified) -> None:
        """Count what another look has found."""
        self.files += other.files
        self.bytes += other.bytes
        self.unchecked += other.unchecked
        self.damaged += other.damaged
