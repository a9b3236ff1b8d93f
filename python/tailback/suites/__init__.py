"""Suites: folders of scenarios that judge an algorithm or a queue, and controls that must fail. See docs/suites.md.

>>> from tailback import suites
>>> suites.find("cubic").replaces
'cc'

A suite is a folder with a `suite.toml` beside its scenarios; those in this folder also go by name. A candidate takes
the place of the *subject*: the congestion control, or the application, of every flow called `subject` or
`subject-…`, or the discipline of the bottleneck's queue.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tailback.errors import Problem, ScenarioError
from tailback.scenario import Scenario
from tailback.scenario.whole import toml_read

__all__ = [
    "Candidate",
    "Control",
    "Expected",
    "Suite",
    "find",
    "has_subject",
    "located",
    "names",
    "opened",
    "shown",
    "with_candidate",
]

#: A congestion control, an application or a discipline as a scenario names it: a name, or a table with parameters.
Candidate = str | Mapping[str, Any]

MANIFEST = "suite.toml"
#: What a manifest says, and whether it must.
_KEYS = {
    "title": True, "judges": True, "source": True, "replaces": False, "seconds": False, "control": False,
    "expected": False,
}  # fmt: skip
_CONTROL = {"scenario": True, "candidate": True, "why": True}
_EXPECTED = {"scenario": True, "condition": False, "verdict": True, "why": True}


@dataclass(frozen=True)
class Control:
    """A scenario of the suite that must fail with this candidate: if it passes, the suite judges nothing."""

    scenario: str
    candidate: Candidate
    why: str


@dataclass(frozen=True)
class Expected:
    """A verdict other than "passed" that the suite's own subjects are known to come to, and by what mechanism."""

    scenario: str
    verdict: str
    why: str
    #: The text of the condition, or its number from 1; empty: the only one.
    condition: str | int = ""


@dataclass(frozen=True)
class Suite:
    """A folder of scenarios, as its manifest describes it."""

    name: str
    folder: Path
    title: str
    #: What it judges, in a sentence.
    judges: str
    #: Where its numbers come from.
    source: tuple[str, ...]
    #: What a candidate takes the place of: "cc", "app" or "queue".
    replaces: str
    #: How long it took on two cores, if that was measured.
    seconds: float | None
    controls: tuple[Control, ...]
    expected: tuple[Expected, ...] = ()

    @property
    def scenarios(self) -> list[Path]:
        """Its scenarios in order."""
        return sorted(path for path in self.folder.rglob("*.toml") if path.name != MANIFEST)


def _home() -> Path:
    return Path(__file__).parent


def shown(file: str | os.PathLike[str]) -> str:
    """The name under which people know a scenario: `bbr/03-drain.toml` of a suite here, else its path as given."""
    path = Path(file)
    return str(path.relative_to(_home())) if path.is_relative_to(_home()) else str(file)


def names() -> list[str]:
    """The suites that come with tailback."""
    return sorted(path.parent.name for path in _home().glob(f"*/{MANIFEST}"))


def find(name: str) -> Suite:
    """A suite by name; `KeyError` if there is none of that name."""
    if name not in names():
        raise KeyError(name)
    return _read(_home() / name)


def located(path: str | os.PathLike[str]) -> Path:
    """A path as it is if something is there; else, if it begins with a suite's name, that place in the suite."""
    given = Path(path)
    if given.exists() or given.is_absolute() or not given.parts or given.parts[0] not in names():
        return given
    inside = _home() / given
    return inside if inside.exists() else inside.with_name(f"{inside.name}.toml")


def opened(folder: Path) -> Suite | None:
    """The suite that a folder is, or that the folder around it is; `None` if it is none."""
    for each in (folder, *folder.absolute().parents):
        if (each / MANIFEST).is_file():
            return _read(each)
    return None


def has_subject(scenario: Scenario, replaces: str = "cc") -> bool:
    """Has it something for a candidate to take over? A suite's known answers have not, and run as they are."""
    return replaces == "queue" or bool(_subjects(scenario.to_dict()))


def _subjects(told: Mapping[str, Any]) -> list[int]:
    flows = [str(row.get("name", "")) for row in told.get("flow", ())]
    return [at for at, name in enumerate(flows) if name == "subject" or name.startswith("subject-")]


def with_candidate(scenario: Scenario, candidate: Candidate, replaces: str = "cc") -> Scenario:
    """The scenario with a candidate in its subject's place.

    >>> import tailback as tb
    >>> flows = [tb.bulk("cubic", name="subject"), tb.bulk("reno", name="other")]
    >>> mixed = with_candidate(tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="5s"), "bbr")
    >>> [flow.cc.name for flow in mixed.flows]
    ['bbr', 'reno']
    """
    value = candidate if isinstance(candidate, str) else dict(candidate)
    told = scenario.to_dict()
    if replaces == "queue":
        limit = told.get("dumbbell", {}).get("queue", "1bdp")
        limit = limit.get("limit") if isinstance(limit, Mapping) else limit
        table = {"discipline": value} if isinstance(value, str) else value
        return scenario.with_({"dumbbell.queue": ({"limit": limit} if limit else {}) | table})
    subjects = _subjects(told)
    if not subjects:
        fix = f'Call the flows that it takes over "subject" or "subject-…". There are: {", ".join(scenario.flow_names)}'
        problem = "there is no flow for a candidate to take over"
        raise ScenarioError([Problem("flow", None, problem, fix, scenario._file)])
    if replaces == "app":
        # With parameters of its own: the subject's mean nothing to it.
        table = {"name": value} if isinstance(value, str) else value
        params = {key: item for key, item in table.items() if key != "name"}
        changes = {"app": table.get("name"), "params": params}
        return scenario.with_({f"flow[{at}].{key}": item for at in subjects for key, item in changes.items()})
    return scenario.with_({f"flow[{at}].cc": value for at in subjects})


@cache
def _read(folder: Path) -> Suite:
    file = folder / MANIFEST
    try:
        told, _ = toml_read(file.read_text(encoding="utf-8"), str(file), "docs/suites.md")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError([Problem("", None, f"cannot be read: {error}", "", str(file))]) from None
    problems = _wrong(told, _KEYS, "", file)
    controls = told.get("control", [])
    for number, row in enumerate(controls):
        place = f"control[{number}]."
        problems += _wrong(row, _CONTROL, place, file)
        if not (folder / f"{row.get('scenario')}.toml").is_file():
            fix = "Give the name of a scenario beside this file, without .toml"
            problems.append(Problem(f"{place}scenario", row.get("scenario"), "there is no such file", fix, str(file)))
    judging = {row.get("scenario") for row in controls}
    for number, row in enumerate(told.get("expected", [])):
        place = f"expected[{number}]."
        problems += _wrong(row, _EXPECTED, place, file)
        name = row.get("scenario")
        if not (folder / f"{name}.toml").is_file():
            fix = "Give the name of a scenario beside this file, without .toml"
            problems.append(Problem(f"{place}scenario", name, "there is no such file", fix, str(file)))
        if name in judging:
            # It would fail whoever the candidate is.
            fix = "Give the control a scenario that passes"
            problem = "a control's scenario cannot be known not to pass: then the control proves nothing"
            problems.append(Problem(f"{place}scenario", name, problem, fix, str(file)))
        if row.get("verdict") not in ("failed", "undecided"):
            fix = 'Give "failed" or "undecided"'
            problems.append(Problem(f"{place}verdict", row.get("verdict"), "is no such verdict", fix, str(file)))
    if (replaces := told.get("replaces", "cc")) not in ("cc", "app", "queue"):
        fix = 'Give "cc", "app" or "queue"'
        problems.append(Problem("replaces", replaces, "a candidate cannot replace this", fix))
    if problems:
        raise ScenarioError(problems)
    source = told["source"]
    return Suite(
        folder.name,
        folder,
        told["title"],
        told["judges"],
        (source,) if isinstance(source, str) else tuple(source),
        replaces,
        told.get("seconds"),
        tuple(Control(**row) for row in controls),
        tuple(Expected(**row) for row in told.get("expected", [])),
    )


def _wrong(told: Mapping[str, Any], keys: Mapping[str, bool], place: str, file: Path) -> list[Problem]:
    """Keys that are unknown, and those that are missing."""
    known = f"There are: {', '.join(keys)}"
    out = [Problem(place + key, None, "there is no such field", known, str(file)) for key in told if key not in keys]
    return out + [
        Problem(place + key, None, "is required", "See docs/suites.md", str(file))
        for key, required in keys.items()
        if required and key not in told
    ]
