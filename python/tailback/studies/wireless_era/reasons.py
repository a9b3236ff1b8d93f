"""Best explanations found of claims that were missed, by claim; shown in the report where there is a miss."""

from __future__ import annotations

REASONS: dict[str, str] = {}
