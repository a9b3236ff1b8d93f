"""Searches a list of kernels for the first one on which a condition fails, between a good and a bad one.

This module lists Debian's kernels; `tailback.vm.revisions` lists commits and patches.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tailback import vm
from tailback.errors import ProgramError, TailbackError
from tailback.expect.conditions import ConditionError, parse
from tailback.experiment.run_metrics import measurable, measured
from tailback.result import Result
from tailback.run import Runnable
from tailback.scenario import Scenario
from tailback.vm.debian import KernelError, Package
from tailback.vm.kernels import Kernel, fetch, fetched
from tailback.vm.tree import BuildFault

__all__ = ["Bisected", "Seen", "at_ends", "between", "bisect", "tried_by", "tried_on"]

_End = TypeVar("_End")


@dataclass(frozen=True)
class Seen:
    """A scenario's run on one kernel: whether the condition holds there, and the values of its metrics."""

    kernel: str
    release: str
    holds: bool
    values: dict[str, float]
    #: What the run measured; `None` if only the condition's metrics are known.
    result: Result | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def line(self) -> str:
        """The verdict as a line for a log."""
        values = ", ".join(f"{name} = {value:.6g}" for name, value in self.values.items())
        return f"{self.kernel}: {'good' if self.holds else 'bad'} ({values})"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kernel": self.kernel, "release": self.release, "holds": self.holds, "values": self.values}


@dataclass(frozen=True)
class Bisected:
    """The last kernel on which the condition holds, the first on which it fails, and the kernels between them."""

    good: Seen
    bad: Seen
    #: Kernels that did not boot, each with the reason.
    skipped: dict[str, str]
    #: Skipped kernels between the two; one of them may be the first bad one.
    unknown: tuple[str, ...]
    #: The patch or commit between the two, if they differ by only one.
    change: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        ends = {"good": self.good.to_json(), "bad": self.bad.to_json()}
        return ends | {"skipped": self.skipped, "unknown": list(self.unknown), "change": self.change}


def between(good: str, bad: str, images: Sequence[Package]) -> list[str]:
    """The kernels from `good` to `bad`, both included, by point release; in reverse order if `good` is the later one.

    >>> images = [Package(f"linux-image-{point}-cloud-amd64", "1") for point in ("6.1.0-55", "6.1.0-56", "7.3.4")]
    >>> between("debian-6.1", "debian-7.3", images)
    ['debian-6.1.0-56', 'debian-7.3.4']
    """
    ordered = list(dict.fromkeys(f"debian-{image.point}" for image in sorted(images, key=lambda image: image.order)))
    newest = {image.kernel: f"debian-{image.point}" for image in sorted(images, key=lambda image: image.order)}
    ends = []
    for field, name in (("GOOD", good), ("BAD", bad)):
        found = newest.get(name, name)
        if found not in ordered:
            raise KernelError(
                f"{field} = {name}: no such kernel can be fetched. Choose one of: tailback vm fetch --list"
            )
        ends.append(ordered.index(found))
    if ends[0] == ends[1]:
        raise KernelError(f"GOOD = {good} and BAD = {bad} are the same kernel. Give two: tailback vm fetch --list")
    step = 1 if ends[0] < ends[1] else -1
    return [ordered[number] for number in range(ends[0], ends[1] + step, step)]


def bisect(
    kernels: Sequence[str],
    attempt: Callable[[str], Seen | str],
    say: Callable[[str], object] = lambda _: None,
) -> Bisected:
    """Search `kernels`, a good one first and a bad one last. `attempt` runs one, or returns why it cannot be judged.

    Raises `TailbackError` if the condition does not differ between the ends, or if one cannot be judged. It can also
    search other versions than kernels.
    """
    seen: list[Seen | None] = [None] * len(kernels)
    skipped: dict[str, str] = {}

    def look(number: int) -> Seen | None:
        found = attempt(kernels[number])
        if isinstance(found, str):
            skipped[kernels[number]] = found
            say(f"{kernels[number]}: skipped, {found}")
            return None
        seen[number] = found
        say(found.line)
        return found

    low, high = 0, len(kernels) - 1

    def look_or_why(number: int) -> Seen | str:
        return look(number) or skipped[kernels[number]]

    at_ends((low, high), look_or_why, lambda number: kernels[number])
    while True:
        untried = [n for n in range(low + 1, high) if kernels[n] not in skipped]
        if not untried:
            break
        middle = min(untried, key=lambda n: abs(2 * n - low - high))
        found = look(middle)
        if found is not None:
            low, high = (middle, high) if found.holds else (low, middle)
    good, bad = seen[low], seen[high]
    assert good is not None
    assert bad is not None
    return Bisected(good, bad, skipped, tuple(kernels[low + 1 : high]))


def at_ends(
    ends: tuple[_End, _End],
    look: Callable[[_End], Seen | str],
    named: Callable[[_End], str] = str,
) -> None:
    """Try the good and the bad end; `TailbackError` if one cannot be judged or both give the same verdict."""
    for field_name, end, holds in zip(("GOOD", "BAD"), ends, (True, False), strict=True):
        seen = look(end)
        if isinstance(seen, str):
            raise TailbackError(f"{field_name} = {named(end)} cannot be judged: {seen}. Give another")
        if seen.holds is not holds:
            does = "holds" if seen.holds else "does not hold"
            fix = "Exchange GOOD and BAD, or change --expect"
            raise TailbackError(f"{field_name} = {named(end)}: the condition {does} there, so nothing is found. {fix}")


def tried_on(
    scenario: Scenario,
    condition: str,
    *,
    allow_code: bool = False,
    kernel_of: Callable[[str], Kernel] | None = None,
    title: Callable[[str], str] = str,
) -> Callable[[str], Seen | str]:
    """The `attempt` argument of `bisect` for kernels: fetch one, run `scenario`, and judge `condition`.

    `kernel_of` may build the kernel instead; `title` gives its name. Raises `TailbackError` at once if the condition
    cannot be judged for this scenario.
    """
    try:
        read = parse(condition, measurable(scenario.resolve(live=True)))
    except ConditionError as error:
        raise TailbackError(f'--expect "{condition}": {error.problem}. {error.fix}') from None

    def judged(name: str, release: str, result: Result) -> Seen:
        value = measured(result)
        values = {metric: value(metric) for metric in read.names}
        left, *bounds = read.sides(values.__getitem__, None)
        return Seen(title(name), release, _holds(read.relation, left, bounds), values, result)

    return _attempt(scenario, judged, allow_code=allow_code, kernel_of=kernel_of)


def tried_by(
    what: Runnable, metric: str, kept: Callable[[Result], Mapping[str, float]], bound: float, is_below: bool
) -> Callable[[str], Seen | str]:
    """The `attempt` argument of `bisect` for a metric: good is a value below `bound` or, if asked, above it."""

    def judged(name: str, release: str, result: Result) -> Seen:
        value = float(kept(result)[metric])
        return Seen(name, release, value < bound if is_below else value > bound, {metric: value})

    return _attempt(what, judged)


def _attempt(
    what: Runnable,
    judged: Callable[[str, str, Result], Seen],
    *,
    allow_code: bool = False,
    kernel_of: Callable[[str], Kernel] | None = None,
) -> Callable[[str], Seen | str]:
    skips: tuple[type[Exception], ...] = (KernelError, vm.LostRun, ProgramError)
    if kernel_of is not None:
        # A missing tool such as a compiler does not make a commit bad.
        skips = (BuildFault, vm.LostRun, vm.GuestError, ProgramError)

    def attempt(name: str) -> Seen | str:
        try:
            kernel = (kernel_of or _fetched)(name)
            result = vm.run(
                what, kernel=kernel.name if kernel_of is None else str(kernel.modules), allow_code=allow_code
            )
        except skips as error:
            return str(error).splitlines()[0]
        if result.failed_programs:
            # Its numbers are of the time before, so they say nothing about the condition.
            return result.failed_programs[0]
        return judged(name, kernel.release, result)

    return attempt


def _fetched(name: str) -> Kernel:
    here = {kernel.name: kernel for kernel in fetched()}
    # A series' newest kernel is stored under the series' name.
    point = name.removeprefix("debian-")
    known = next((one for one in here.values() if re.search(rf"-{re.escape(point)}\b", one.package)), None)
    return known or here.get(name) or fetch(name)


def _holds(relation: str, left: float, bounds: Sequence[float]) -> bool:
    if relation == "in":
        return bounds[0] <= left <= bounds[1]
    return {"<": left < bounds[0], "<=": left <= bounds[0], ">": left > bounds[0], ">=": left >= bounds[0]}[relation]
