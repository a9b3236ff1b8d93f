"""The dossier of a congestion control by RFC 9743: experiments as data, verdicts relative to baselines.

See docs/assess.md.
"""

from __future__ import annotations

from tailback.assess.run import Assessment, UnfitCandidate, assess

__all__ = ["Assessment", "UnfitCandidate", "assess"]
