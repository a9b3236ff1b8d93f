"""What a scenario expects of its runs (`[expect]`), and `tailback test`, which judges it. See docs/ci.md."""

from __future__ import annotations

from tailback.expect.testing import Tested, TestedScenario, Testing, demand_sound, test
from tailback.expect.verdicts import Judged, judge

__all__ = ["Judged", "Tested", "TestedScenario", "Testing", "demand_sound", "judge", "test"]
