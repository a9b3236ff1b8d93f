"""Studies: papers as code. A grid of scenarios, claims with rules fixed before they judge, figures, a report.

>>> from tailback import studies
>>> studies.names()
["aqm-pairs", "beyond", "high-speed-harm", "home-links", "voip-latency", "wireless-era"]
"""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import cast

from .framework import Cell, Claim, Data, Measured, Plot, Study
from .outcome import ClaimResult, StudyResult, TableOut, is_study, load
from .verdicts import NOT, PARTLY, REPRODUCED, UNMEASURED

# Imported when asked for: a study brings its figures along.
_MODULES = {
    "aqm-pairs": "aqm_pairs",
    "beyond": "beyond",
    "high-speed-harm": "high_speed_harm",
    "home-links": "home_links",
    "voip-latency": "voip_latency",
    "wireless-era": "wireless_era",
}


class UnknownStudy(ValueError):
    """A name that no study has."""


def names() -> list[str]:
    """The studies' names, in alphabetical order."""
    return sorted(_MODULES)


def get(name: str) -> Study:
    """The study of that name."""
    if name not in _MODULES:
        near = difflib.get_close_matches(name, _MODULES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}"
        raise UnknownStudy(f"no study is called {name!r}; {hint}")
    return cast(Study, import_module(f".{_MODULES[name]}", __name__).STUDY)


__all__ = [
    "NOT",
    "PARTLY",
    "REPRODUCED",
    "UNMEASURED",
    "Cell",
    "Claim",
    "ClaimResult",
    "Data",
    "Measured",
    "Plot",
    "Study",
    "StudyResult",
    "TableOut",
    "UnknownStudy",
    "get",
    "is_study",
    "load",
    "names",
]
