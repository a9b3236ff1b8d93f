"""`tailback ci`: runs the same scenarios with a base revision and with the working tree, and compares them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tailback import suites
from tailback.against import judging
from tailback.against.conditions import Expected, Sides, held
from tailback.against.judging import Change, Columns, Key
from tailback.against.revisions import Repository, Revision, RevisionError
from tailback.against.side import Given, Measures, Ready, Setting, Side, SideError
from tailback.candidate import flow_fields
from tailback.errors import Problem, ScenarioError, TailbackError
from tailback.expect.testing import as_toml
from tailback.progress import Runs
from tailback.scenario.whole import toml_read

__all__ = ["Against", "Compared", "Runner", "against_base", "compared", "given_scenarios"]

#: Folder of tailback's own modules, which both sides share.
_OURS = Path(suites.__file__).resolve().parents[1]


class Runner(Protocol):
    """The interface of a side that `compared` uses."""

    def ready(self) -> list[Ready]:
        """The scenarios that it can run, in order."""

    def measure(self, seeds: Mapping[int, Sequence[int]]) -> Iterator[Measures]:
        """Run scenarios, given by index, with these seeds each."""


@dataclass
class Compared:
    """The result of comparing both sides."""

    names: tuple[str, ...]
    changes: list[Change] = field(default_factory=list)
    #: By scenario: why it could not be compared, because the base or both sides cannot run it.
    incomparable: dict[str, str] = field(default_factory=dict)
    #: By scenario: failures in the working tree that the base does not have.
    broken: dict[str, str] = field(default_factory=dict)
    #: By scenario: failures in the base that the working tree does not have.
    repaired: dict[str, str] = field(default_factory=dict)
    #: Number of seeds in each group, counted from each scenario's own seed.
    pairs: int = 0
    measures: int = 0
    runs: int = 0
    #: Number of measures that the first group selected; the second group confirmed those in `changes`.
    examined: int = 0
    #: Scenarios with at least one run that differs.
    differing: tuple[str, ...] = ()
    #: The scenarios' own conditions, judged on both sides.
    expected: list[Expected] = field(default_factory=list)
    #: By scenario and measure: the values of base and working tree over the first group of seeds.
    values: dict[str, dict[str, tuple[list[float], list[float]]]] = field(default_factory=dict)


@dataclass
class Against:
    """A base revision and the working tree, compared."""

    base: Revision
    head: Revision
    #: The caller's name of the base.
    named: str
    uncommitted: list[str]
    compared: Compared
    #: Files that could not be read as scenarios.
    unreadable: dict[str, str]
    notes: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    #: The command that repeats the comparison.
    command: str = ""

    @property
    def changes(self) -> list[Change]:
        """The measures that changed."""
        return self.compared.changes

    @property
    def lost(self) -> list[Expected]:
        """The scenarios' own conditions that held on the base and fail now."""
        return [each for each in self.compared.expected if each.is_lost]

    @property
    def worse(self) -> bool:
        """Whether a measure got worse, a condition is lost, or a run fails that did not fail on the base."""
        return bool(self.compared.broken or self.lost) or any(row.verdict == "worse" for row in self.changes)

    @property
    def tree(self) -> str:
        """Name of the working tree: the commit, and the number of files that differ from it."""
        count = len(self.uncommitted)
        return self.head.short + (f" with {count} uncommitted file{'s' if count > 1 else ''}" if count else "")

    def to_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        found = self.compared
        return {
            "base": self.base.commit, "named": self.named, "head": self.head.commit, "uncommitted": self.uncommitted,
            "scenarios": list(found.names), "differing": list(found.differing), "pairs": found.pairs,
            "measures": found.measures, "runs": found.runs, "examined": found.examined, "wall_s": self.wall_s,
            "changes": [row.to_json() for row in self.changes], "lost": [each.to_json() for each in self.lost],
            "expected": [each.to_json() for each in found.expected], "broken": found.broken, "repaired": found.repaired,
            "incomparable": found.incomparable, "unreadable": self.unreadable, "notes": self.notes,
        }  # fmt: skip


def against_base(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    base: str,
    candidate: suites.Candidate | None = None,
    changes: Mapping[str, Any] | None = None,
    algorithms: Mapping[str, str] | None = None,
    allow_code: bool = False,
    pairs: int = judging.PAIRS,
    least: float = judging.LEAST,
    folder: str | os.PathLike[str] = ".",
    workers: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
) -> Against:
    """Run scenarios with the code of a `base` revision and of the working tree, and compare their measures.

    The base is the last commit that `base` and HEAD have in common, in the repository around `folder`. A path is a
    file, a folder or a suite's name. Scenarios are taken from the working tree. Code that they, `candidate` or
    `algorithms` ("file.py:Class" by name) refer to is taken from each side's own revision. `changes` are applied to
    each scenario. `tailback.against.judging` decides which measures changed. Raises `RevisionError` if there is nothing
    to compare with.
    """
    if pairs < 2:
        raise TailbackError(
            f"pairs must be at least 2, got {pairs}: one pair shows no spread. Give for example {judging.PAIRS}"
        )
    if not 0.0 <= least < 1.0:
        raise TailbackError(f"least must be a share from 0 to below 1, got {least}. Give for example {judging.LEAST}")
    began = time.perf_counter()
    here = Path(folder).resolve()
    repository = Repository(here)
    revision, head = repository.base(base), repository.head()
    below = here.relative_to(repository.top)
    all_paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    scenarios, unreadable = given_scenarios(all_paths, repository.top, here, candidate)
    if not scenarios and not unreadable:
        places = ", ".join(map(str, all_paths))
        raise ScenarioError(
            [Problem("", None, "no scenario was found", "Give scenario files, folders or suites", places)]
        )
    setting = Setting(candidate, dict(changes or {}), dict(algorithms or {}), allow_code, workers)
    notes = []
    with repository.worktree(revision) as top:
        _demand_in_base(setting, here, repository.top, top, below, revision)
        if (top / ".gitmodules").is_file():
            notes.append("The repository has submodules. The base's worktree holds none of their files.")
        with Side(top, below, scenarios, setting) as old, Side(repository.top, below, scenarios, setting) as new:
            try:
                found = compared(scenarios, (old, new), pairs=pairs, least=least, progress=progress)
            except SideError as error:
                raise TailbackError(f"a side of the comparison failed: {error}") from None
            shared = old.modules & {path.resolve() for path in repository.tracked()}
        shared = {path for path in shared if not path.is_relative_to(_OURS)}
        if shared:
            names = ", ".join(sorted(str(path.relative_to(repository.top.resolve())) for path in shared)[:5])
            raise RevisionError(
                f"the base's code imported files of the working tree: {names}. Nothing was compared. Name the "
                "candidate by its file, and do not install the package of the working tree as editable."
            )
    wall_s = time.perf_counter() - began
    command = _command(all_paths, revision, setting, pairs, least)
    return Against(revision, head, base, repository.uncommitted(), found, unreadable, notes, wall_s, command)


def _command(
    paths: Sequence[str | os.PathLike[str]], base: Revision, setting: Setting, pairs: int, least: float
) -> str:
    """The `tailback ci` command with these arguments; the base is given as a commit, since a branch moves."""
    words = ["tailback", "ci", *map(str, paths), "--base", base.short]
    if setting.candidate is not None:
        words += ["--candidate", _text(setting.candidate)]
    for name, value in setting.changes.items():
        words += ["--set", f"{name}={_text(value)}"]
    for name, place in setting.algorithms.items():
        words += ["--algorithm", f"{name}={place}"]
    words += ["--allow-code"] if setting.allow_code else []
    words += ["--pairs", str(pairs)] if pairs != judging.PAIRS else []
    words += ["--least", str(least)] if least != judging.LEAST else []
    return shlex.join(words)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else as_toml(value)


def given_scenarios(
    paths: Sequence[str | os.PathLike[str]], top: Path, here: Path, candidate: suites.Candidate | None = None
) -> tuple[list[Given], dict[str, str]]:
    """The scenarios at `paths` in order, and the files that are not scenarios, with the reason.

    In a folder, every file with a duration counts as a scenario. A suite's scenario without a place for the candidate
    is left out.
    """
    out: dict[str, Given] = {}
    bad: dict[str, str] = {}
    for path in paths:
        place = suites.located(path)
        place = place if place.is_absolute() else here / place
        try:
            if place.is_dir():
                found, unread = suites.in_folder(place)
                bad |= {str(file): str(error) for file, error in unread.items()}
                chosen = [case for case in found if _is_scenario(case)]
            elif place.is_file():
                chosen = suites.cases(place)
            else:
                chosen = [suites.given(place)]
        except TailbackError as error:
            bad[str(path)] = str(error)
            continue
        for case in chosen:
            try:
                given = _given(case, top, here, candidate)
            except TailbackError as error:
                bad[_shown(case.path, here)] = str(error)
            else:
                out |= {given.name: given} if given else {}
    return list(out.values()), bad


def _is_scenario(case: suites.Case) -> bool:
    if case.base is not None:
        return True
    try:
        text = case.file.read_text(encoding="utf-8-sig")
        return "duration" in toml_read(text, str(case.file), "docs/scenario.md")[0]
    except (OSError, UnicodeDecodeError, TailbackError):
        # Parsing it as a scenario reports the error.
        return case.file.name != suites.MANIFEST


def _given(case: suites.Case, top: Path, here: Path, candidate: suites.Candidate | None) -> Given | None:
    scenario = case.scenario()
    suite = suites.opened(case.path.parent)
    replaces = suite.replaces if suite else "cc"
    if candidate is not None and suite is not None and not suites.has_subject(scenario, replaces):
        return None
    path = case.path.resolve()
    file = path.relative_to(top.resolve()) if path.is_relative_to(top.resolve()) else path
    folder = str(suite.folder.resolve()) if suite else ""
    return Given(_shown(case.path, here), str(file), scenario.written, replaces, folder)


def _shown(path: Path, here: Path) -> str:
    return suites.shown(path.relative_to(here) if path.is_relative_to(here) else path)


def _demand_in_base(setting: Setting, here: Path, top: Path, base: Path, below: Path, revision: Revision) -> None:
    """Raise `RevisionError` if a file that the caller names is missing in the base or outside the repository."""
    if not (base / below).is_dir():
        raise RevisionError(f"the base {revision.short} lacks the folder {below}. There is nothing to compare with.")
    candidate = setting.candidate
    fields = candidate if isinstance(candidate, Mapping) else {"name": str(candidate or "").partition(",")[0]}
    named = str(flow_fields(fields).get("name") or fields.get("name") or fields.get("discipline") or "")
    for place in (named, *setting.algorithms.values()):
        file = _file(place)
        if file is None or not (here / file).exists():
            # An invalid name is reported when it is loaded.
            continue
        inside = (here / file).resolve()
        if not inside.is_relative_to(top.resolve()):
            raise RevisionError(f"{file} lies outside the repository {top}: both sides would run the same code.")
        if Path(file).is_absolute():
            raise RevisionError(f"{file} is the working tree's on both sides. Name it relative to the current folder.")
        if not (base / below / file).exists():
            raise RevisionError(
                f"the base {revision.short} lacks {file}: it was added later. There is nothing to compare it with."
            )


def _file(place: str) -> str | None:
    """The file or folder in a candidate's name; None for a built-in one."""
    for prefix in ("python:", "bpf:", "rust:"):
        place = place.removeprefix(prefix)
    if place.endswith((".bpf.c", "Cargo.toml")) or ("/" in place and ":" not in place):
        return place
    file, colon, _ = place.rpartition(":")
    return file if colon and file.endswith(".py") else None


def compared(
    scenarios: Sequence[Given],
    sides: tuple[Runner, Runner],
    *,
    pairs: int = judging.PAIRS,
    least: float = judging.LEAST,
    progress: bool | Callable[[int, int], object] = False,
) -> Compared:
    """Run the scenarios on the base, then on the working tree, and judge the measures."""
    out = Compared(tuple(each.name for each in scenarios))
    ready = [side.ready() for side in sides]
    names: dict[int, list[str]] = {}
    better: dict[Key, str] = {}
    for place, each in enumerate(scenarios):
        old, new = ready[0][place], ready[1][place]
        if old.error and new.error:
            same = old.error == new.error
            out.incomparable[each.name] = new.error if same else f"base: {old.error} Working tree: {new.error}"
        elif old.error:
            out.incomparable[each.name] = f"the base cannot run it: {old.error}"
        elif new.error:
            out.broken[each.name] = f"it cannot be run: {new.error}"
        else:
            names[place] = [name for name in new.measures if name in old.measures]
            better |= {(each.name, name): new.measures[name] for name in names[place]}
    out.measures = sum(map(len, names.values()))
    out.pairs = judging.pairs_needed(out.measures, pairs)
    seeds = [
        # A seed has 64 bits.
        {place: [(ready[1][place].first_seed + at) % 2**64 for at in group] for place in names}
        for group in (range(out.pairs), range(out.pairs, 2 * out.pairs))
    ]
    families: dict[str, Columns] = {}
    exact: list[Change] = []
    first, looked = _measured(sides, seeds[0], out, scenarios, progress)
    for place, rows in first.items():
        name = scenarios[place].name
        found = judging.columns(rows, names[place])
        out.values[name] = _values(rows, names[place])
        if not found:
            out.incomparable.setdefault(name, "fewer than two of its pairs were finished")
        elif judging.is_one_case(rows):
            exact += judging.exact(name, found, better, least)
        else:
            families[name] = found
        # Compared as text, so that a value missing on both sides (NaN) is not a difference.
        if any(repr(rows[0][seed]) != repr(row) for seed, row in rows[1].items() if seed in rows[0]):
            out.differing += (name,)
    keys = judging.examined(families, least)
    out.examined = len(keys)
    conditions = {place: (ready[0][place].conditions, ready[1][place].conditions) for place in first}

    def expected(place: int, fresh: _Sides | None = None) -> list[Expected]:
        return held(scenarios[place].name, conditions[place], looked[place], fresh)

    again = {place for place in first for name, _ in keys if scenarios[place].name == name}
    again |= {place for place in first if any(each.is_lost for each in expected(place))}
    second, fresh = _measured(sides, {place: seeds[1][place] for place in sorted(again)}, out, scenarios, progress)
    out.expected = [each for place in first for each in expected(place, fresh.get(place))]
    confirming = {scenarios[place].name: judging.columns(rows, names[place]) for place, rows in second.items()}
    changed = [*exact, *judging.changes(families, confirming, keys, better, least)]
    order = {name: place for place, name in enumerate(out.names)}
    out.changes = sorted(changed, key=lambda row: order[row.scenario])
    return out


_Rows = tuple[dict[int, dict[str, float]], dict[int, dict[str, float]]]
_Sides = tuple[Sides, Sides]


def _measured(
    sides: tuple[Runner, Runner],
    seeds: Mapping[int, Sequence[int]],
    out: Compared,
    scenarios: Sequence[Given],
    progress: bool | Callable[[int, int], object],
) -> tuple[dict[int, _Rows], dict[int, _Sides]]:
    """The measures of each scenario by side and seed, and the values of its conditions.

    Runs that fail on one side only are entered into `out`.
    """
    if not seeds:
        return {}, {}
    rows: dict[int, _Rows] = {place: ({}, {}) for place in seeds}
    looked: dict[int, tuple[dict[int, Any], dict[int, Any]]] = {place: ({}, {}) for place in seeds}
    errors: dict[int, tuple[dict[int, str], dict[int, str]]] = {place: ({}, {}) for place in seeds}
    total = 2 * sum(map(len, seeds.values()))
    done = 0
    with Runs("comparing", shown=progress) as bar:
        for number, side in enumerate(sides):
            for place, seed, values, found in side.measure(seeds):
                if isinstance(values, str):
                    errors[place][number][seed] = values
                else:
                    rows[place][number][seed] = values
                    looked[place][number][seed] = found
                done += 1
                bar.update(done, total, spent=done, cost=total)
    out.runs += done
    for place, (old, new) in errors.items():
        name = scenarios[place].name
        for kept, these, others in ((out.broken, new, old), (out.repaired, old, new)):
            if only := sorted(these.keys() - others.keys()):
                kept.setdefault(
                    name, f"{len(only)} of {len(seeds[place])} runs, first with seed {only[0]}: {these[only[0]]}"
                )
        if both := sorted(old.keys() & new.keys()):
            out.incomparable.setdefault(name, f"runs fail on both sides, first with seed {both[0]}: {new[both[0]]}")
    return rows, dict(looked)


def _values(rows: _Rows, names: Sequence[str]) -> dict[str, tuple[list[float], list[float]]]:
    def column(side: int, name: str) -> list[float]:
        found = [row[name] for _, row in sorted(rows[side].items())]
        return [value for value in found if np.isfinite(value)]

    return {name: (column(0, name), column(1, name)) for name in names}
