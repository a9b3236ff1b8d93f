"""Suites: folders of scenarios that judge an algorithm or a queue, and controls that must fail. See docs/suites.md.

>>> from tailback import suites
>>> suites.find("cubic").replaces
'cc'

A suite is a folder with a `suite.toml` beside its scenarios; those in this package also have a name. A scenario is a
file, or a row of a cases file: a sweep whose file name ends in `.cases.toml` and whose rows have names. A candidate
replaces the *subject*: the congestion control, or the application, of every flow called `subject` or `subject-…`, or
the discipline of the bottleneck's queue.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tailback import examples, queue_candidate
from tailback.candidate import flow_fields, table
from tailback.errors import Problem, ScenarioError, TailbackError
from tailback.experiment.sweepfile import read_sweep
from tailback.scenario import Scenario
from tailback.scenario.whole import toml_read

__all__ = [
    "Candidate",
    "Case",
    "Control",
    "Expected",
    "Suite",
    "candidates_changes",
    "cases",
    "find",
    "given",
    "has_subject",
    "in_folder",
    "located",
    "names",
    "opened",
    "read",
    "shown",
    "subjects",
    "with_candidate",
]

#: A congestion control, an application or a discipline in a scenario's form: a name, or a table with parameters.
Candidate = str | Mapping[str, Any]

MANIFEST = "suite.toml"
#: Suffix of a cases file: one scenario, and a table of what each case changes.
CASES = ".cases.toml"
#: Keys of a manifest, and whether each is required.
_KEYS = {
    "title": True, "judges": True, "source": True, "replaces": False, "seconds": False, "control": False,
    "expected": False, "own": False,
}  # fmt: skip
_CONTROL = {"scenario": True, "candidate": True, "why": True}
_EXPECTED = {"scenario": True, "condition": False, "verdict": True, "why": True}
_OWN = {"measure": True, "beyond": True, "why": True}


@dataclass(frozen=True)
class Case:
    """A scenario in a folder: a file, or a row of a cases file."""

    #: The file that it is read from.
    file: Path
    name: str
    #: For a row: the file's base scenario, and the row's changes.
    base: Scenario | None = None
    changes: Mapping[str, Any] | None = None

    @property
    def path(self) -> Path:
        """The path that identifies it: its file, or for a row the file that it would be."""
        return self.file if self.base is None else self.file.with_name(f"{self.name}.toml")

    def scenario(self) -> Scenario:
        """The scenario; `ScenarioError` if it is invalid."""
        return Scenario.from_toml(self.file) if self.base is None else self.base.with_(self.changes)


@dataclass(frozen=True)
class Control:
    """A scenario of the suite that must fail with this candidate; if it passes, the suite's verdicts do not count."""

    scenario: str
    candidate: Candidate
    why: str


@dataclass(frozen=True)
class Expected:
    """A known verdict of the suite's own subjects other than "passed", with its mechanism."""

    scenario: str
    verdict: str
    why: str
    #: Text of the condition, or its number from 1; empty for the only one.
    condition: str | int = ""


@dataclass(frozen=True)
class Own:
    """A bound that depends on the queue's target: its excess over `beyond` is proportional to the target."""

    measure: str
    #: Value of the path alone, in the measure's unit.
    beyond: float
    why: str


@dataclass(frozen=True)
class Suite:
    """A folder of scenarios, with its manifest."""

    name: str
    folder: Path
    title: str
    #: A sentence on what it judges.
    judges: str
    #: The source of its numbers.
    source: tuple[str, ...]
    #: The field that a candidate replaces: "cc", "app" or "queue".
    replaces: str
    #: Measured duration in seconds on two cores, if known.
    seconds: float | None
    controls: tuple[Control, ...]
    expected: tuple[Expected, ...] = ()
    own: tuple[Own, ...] = ()

    @property
    def scenarios(self) -> list[Case]:
        """Its scenarios in order."""
        files = (path for path in self.folder.rglob("*.toml") if path.name != MANIFEST)
        return sorted((case for file in files for case in cases(file)), key=lambda case: case.path)

    def scenario(self, name: str) -> Scenario:
        """One of its scenarios by name; `KeyError` if there is none of this name."""
        for case in self.scenarios:
            if case.path == self.folder / f"{name}.toml":
                return case.scenario()
        raise KeyError(name)


def cases(file: Path) -> list[Case]:
    """The scenario in a file, or each row of a cases file.

    Raises `ScenarioError` for an invalid cases file, or if a row has no name.
    """
    if not file.name.endswith(CASES):
        return [Case(file, file.stem)]
    sweep = read_sweep(file)
    out = {}
    for number, point in enumerate(sweep.design):
        name = point.get("name")
        # A name must be valid as a file name, without a path.
        if not isinstance(name, str) or not name or Path(name).name != name or name in out:
            problem = "is the name of two cases" if name in out else "is no name of a case"
            fix = 'Vary "name", and give each case one of its own, without slashes'
            raise ScenarioError([Problem(f"name (case {number + 1})", name, problem, fix, str(file))])
        out[name] = Case(file, name, sweep.base, point)
    return list(out.values())


def read(path: str | os.PathLike[str]) -> Scenario:
    """A scenario by its file, an example's name, or a case's path or name in its suite.

    >>> read("prudentia/bbr-8mbit").name
    'bbr-8mbit'
    """
    given = located(path)
    found = None if given.exists() else _among(given)
    return Scenario.from_toml(given) if found is None else found.scenario()


def _among(path: Path) -> Case | None:
    """The case with this path; `None` if no cases file there has it."""
    for file in sorted(path.parent.glob(f"*{CASES}")):
        for case in cases(file):
            if case.path == path.with_suffix(".toml"):
                return case
    return None


def in_folder(folder: Path) -> tuple[list[Case], dict[Path, TailbackError]]:
    """All scenarios in a folder and its subfolders, in order, and the cases files that are not readable."""
    found, bad = [], {}
    for file in folder.rglob("*.toml"):
        try:
            found += cases(file)
        except TailbackError as error:
            bad[file] = error
    return sorted(found, key=lambda case: case.path), bad


def given(path: Path) -> Case:
    """The case at a path that the caller names: the file if it exists."""
    return (None if path.exists() else _among(path)) or Case(path, path.stem)


def _home() -> Path:
    return Path(__file__).parent


def shown(file: str | os.PathLike[str]) -> str:
    """The short name of a scenario: `bbr/03-drain.toml` for one of a built-in suite, else the given path."""
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
    """The path itself if it exists; else the path in a suite whose name it begins with, or an example's path."""
    given = examples.located(path)
    if given.exists() or given.is_absolute() or not given.parts or given.parts[0] not in names():
        return given
    inside = _home() / given
    return inside if inside.exists() or inside.suffix == ".toml" else inside.with_name(f"{inside.name}.toml")


def opened(folder: Path) -> Suite | None:
    """The suite of a folder, or of the folder around it; `None` if there is none."""
    for each in (folder, *folder.absolute().parents):
        if (each / MANIFEST).is_file():
            return _read(each)
    return None


def has_subject(scenario: Scenario, replaces: str = "cc") -> bool:
    """Whether it has a subject for a candidate to replace; a suite's known answers have none and run unchanged."""
    return replaces == "queue" or bool(subjects(scenario.to_dict()))


def subjects(fields: Mapping[str, Any]) -> list[int]:
    """Numbers of the flows that a candidate replaces, in a scenario's table."""
    flows = [str(row.get("name", "")) for row in fields.get("flow", ())]
    return [at for at, name in enumerate(flows) if name == "subject" or name.startswith("subject-")]


def with_candidate(scenario: Scenario, candidate: Candidate, replaces: str = "cc") -> Scenario:
    """The scenario with a candidate in place of its subject.

    >>> import tailback as tb
    >>> flows = [tb.bulk("cubic", name="subject"), tb.bulk("reno", name="other")]
    >>> mixed = with_candidate(tb.dumbbell(rate="10mbit", rtt="40ms", flows=flows, duration="5s"), "bbr")
    >>> [flow.cc.name for flow in mixed.flows]
    ['bbr', 'reno']
    """
    return scenario.with_(candidates_changes(scenario, candidate, replaces))


def candidates_changes(scenario: Scenario, candidate: Candidate, replaces: str = "cc") -> dict[str, Any]:
    """The changes that `with_candidate` makes, by path, in the form of `Scenario.with_` and `--set`."""
    value = candidate if isinstance(candidate, str) else dict(candidate)
    fields = scenario.to_dict()
    if replaces == "queue":
        limit = fields.get("dumbbell", {}).get("queue", "1bdp")
        limit = limit.get("limit") if isinstance(limit, Mapping) else limit
        queue = table(value, "discipline", "pie,target=20ms") if isinstance(value, str) else value
        found = ({"limit": limit} if limit else {}) | queue
        return {"dumbbell.queue": {key: item for key, item in found.items() if item is not None}}
    found_at = subjects(fields)
    if not found_at:
        fix = f'Call the flows that it takes over "subject" or "subject-…". There are: {", ".join(scenario.flow_names)}'
        problem = "there is no flow for a candidate to take over"
        raise ScenarioError([Problem("flow", None, problem, fix, scenario._file)])
    if replaces == "app":
        # With its own parameters: the subject's do not apply to it.
        app = table(value, example="media,priority=2") if isinstance(value, str) else value
        params = {key: item for key, item in app.items() if key != "name"}
        changes = {"app": app.get("name"), "params": params}
        return {f"flow[{at}].{key}": item for at in found_at for key, item in changes.items()}
    return {f"flow[{at}].{key}": item for at in found_at for key, item in flow_fields(value).items()}


def bounds_of_its_own(
    suite: Suite, scenario: Scenario, queue: Candidate, *, allow_code: bool = False
) -> dict[str, Any]:
    """Changes that scale the conditions' bounds from the written queue's target to the candidate queue's target.

    A target counts as at least 1.5 packet times.
    """
    if not suite.own or scenario.expect is None:
        return {}
    given = table(queue, "discipline") if isinstance(queue, str) else dict(queue)
    named = {key: value for key, value in given.items() if value is not None}
    packet_ms = 12_000_000.0 / scenario.resolve(check=False)["links"][0]["rate_bps"]
    written = scenario.to_dict()["dumbbell"]["queue"]
    mine, theirs = (
        max(queue_candidate.candidate(each, allow_code=allow_code).target_ms, 1.5 * packet_ms)
        for each in (named, written)
    )
    changes = {}
    for number, condition in enumerate(scenario.expect.conditions):
        for each in suite.own:
            if found := re.fullmatch(rf"{re.escape(each.measure)} <= ([0-9.]+)", condition.holds):
                bound = each.beyond + (float(found[1]) - each.beyond) * mine / theirs
                changes[f"expect.conditions[{number}]"] = f"{each.measure} <= {bound:g}"
    return changes


@cache
def _read(folder: Path) -> Suite:
    file = folder / MANIFEST
    try:
        fields, _ = toml_read(file.read_text(encoding="utf-8"), str(file), "docs/suites.md")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError([Problem("", None, f"cannot be read: {error}", "", str(file))]) from None
    problems = _wrong(fields, _KEYS, "", file)
    controls = fields.get("control", [])
    found, unread = in_folder(folder)
    inside = {str(case.path.relative_to(folder)) for case in found}
    for number, row in enumerate(controls):
        place = f"control[{number}]."
        problems += _wrong(row, _CONTROL, place, file)
        if f"{row.get('scenario')}.toml" not in inside and not unread:
            fix = "Give the name of a scenario beside this file, without .toml"
            problems.append(Problem(f"{place}scenario", row.get("scenario"), "there is none", fix, str(file)))
    judging = {row.get("scenario") for row in controls}
    for number, row in enumerate(fields.get("expected", [])):
        place = f"expected[{number}]."
        problems += _wrong(row, _EXPECTED, place, file)
        name = row.get("scenario")
        if f"{name}.toml" not in inside and not unread:
            fix = "Give the name of a scenario beside this file, without .toml"
            problems.append(Problem(f"{place}scenario", name, "there is none", fix, str(file)))
        if name in judging:
            # The control would fail with any candidate.
            fix = "Give the control a scenario that passes"
            problem = "a control's scenario cannot be known not to pass: then the control proves nothing"
            problems.append(Problem(f"{place}scenario", name, problem, fix, str(file)))
        if row.get("verdict") not in ("failed", "undecided"):
            fix = 'Give "failed" or "undecided"'
            problems.append(Problem(f"{place}verdict", row.get("verdict"), "is no such verdict", fix, str(file)))
    for number, row in enumerate(fields.get("own", [])):
        problems += _wrong(row, _OWN, f"own[{number}].", file)
    if (replaces := fields.get("replaces", "cc")) not in ("cc", "app", "queue"):
        fix = 'Give "cc", "app" or "queue"'
        problems.append(Problem("replaces", replaces, "a candidate cannot replace this", fix))
    if problems:
        raise ScenarioError(problems)
    source = fields["source"]
    return Suite(
        folder.name,
        folder,
        fields["title"],
        fields["judges"],
        (source,) if isinstance(source, str) else tuple(source),
        replaces,
        fields.get("seconds"),
        tuple(Control(**row) for row in controls),
        tuple(Expected(**row) for row in fields.get("expected", [])),
        tuple(Own(**row) for row in fields.get("own", [])),
    )


def _wrong(fields: Mapping[str, Any], keys: Mapping[str, bool], place: str, file: Path) -> list[Problem]:
    """Errors for unknown and for missing keys."""
    known = f"There are: {', '.join(keys)}"
    out = [Problem(place + key, None, "there is no such field", known, str(file)) for key in fields if key not in keys]
    return out + [
        Problem(place + key, None, "is required", "See docs/suites.md", str(file))
        for key, required in keys.items()
        if required and key not in fields
    ]
