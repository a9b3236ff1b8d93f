"""Every claim of the fourth section, and at what scale those that hang on it are run."""

from __future__ import annotations

from . import lan, wan

CLAIMS = (*wan.CLAIMS, *lan.CLAIMS)

SCALE_SENSITIVE = frozenset(
    {"002-L2", "002-L6a", "002-L6b", "002-L6c", "002-L6d", "002-L8a", "002-L9e", "002-L9f", "002-L12a", "002-L12b",
     "002-L12c", "002-L13c"}
)  # fmt: skip
"""Claims about windows, γ or joins, which a smaller rate or a shorter schedule changes against the queue."""
NETWORK_OF = {claim.id: network for network, part in (("wan", wan), ("lan", lan)) for claim in part.CLAIMS}
"""The network a claim is about."""
