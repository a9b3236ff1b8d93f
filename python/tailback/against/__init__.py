"""Compares a base revision with the working tree on the same scenarios, and shows only what changed. See docs/ci.md."""

from __future__ import annotations

from tailback.against.judging import Change
from tailback.against.run import Against, against_base

__all__ = ["Against", "Change", "against_base"]
