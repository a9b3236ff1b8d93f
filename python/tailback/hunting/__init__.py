"""`tailback hunt`: a search for the paths, bursts and parameters under which a congestion control fails.

A case is a bottleneck with disturbances. scipy's differential evolution (Storn and Price 1997) searches for the case in
which a weakness is strongest. A case counts only if a plainer twin does well (`Weakness.twin`): a path on which nothing
can do well is not a finding. It must also show the weakness with fresh seeds, which draw starts and jitter
(`Hunt._holds`), so that chance in one run is not a finding. Each finding is simplified as far as it still shows the
weakness.
"""

from __future__ import annotations

from tailback.hunting.cases import Case
from tailback.hunting.search import Finding, Hunt, hunt, hunted
from tailback.hunting.weaknesses import WEAKNESSES, Seen

__all__ = ["WEAKNESSES", "Case", "Finding", "Hunt", "Seen", "hunt", "hunted"]
