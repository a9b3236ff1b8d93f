"""`tailback hunt`: a search for the paths, bursts and parameters under which a congestion control fails.

A case is a bottleneck and what disturbs it. scipy's differential evolution (Storn and Price 1997) looks for the case in
which a weakness shows most. One that shows it counts only if a plainer twin of it does well (`Weakness.twin`): a path
on which nothing could do well is no finding. It also has to show with fresh seeds, which draw starts and jitter
(`Hunt._holds`): what shows in one run by chance is no finding either. What is found is made as simple as it can be
while it still shows.
"""

from __future__ import annotations

from tailback.hunting.cases import Case
from tailback.hunting.search import Finding, Hunt, hunt, hunted
from tailback.hunting.weaknesses import WEAKNESSES, Seen

__all__ = ["WEAKNESSES", "Case", "Finding", "Hunt", "Seen", "hunt", "hunted"]
