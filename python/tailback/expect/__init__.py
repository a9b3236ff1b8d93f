"""Conditions that a scenario's runs must meet (`[expect]`), and `tailback test`, which judges them. See docs/ci.md."""

from __future__ import annotations

from tailback.expect.testing import Tested, TestedScenario, Testing, demand_sound, test
from tailback.expect.verdicts import Judged, judge

__all__ = ["Judged", "Tested", "TestedScenario", "Testing", "demand_sound", "judge", "test"]
