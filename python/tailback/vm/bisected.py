"""Which of Debian's kernels is the first on which a condition fails: a search between a good and a bad one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tailback import vm
from tailback.errors import TailbackError
from tailback.expect.conditions import ConditionError, parse
from tailback.experiment.run_metrics import measurable, measured
from tailback.result import Result
from tailback.run import Runnable
from tailback.scenario import Scenario
from tailback.vm.debian import KernelError, Package
from tailback.vm.kernels import fetch, fetched

__all__ = ["Bisected", "Seen", "between", "bisect", "tried_by", "tried_on"]


@dataclass(frozen=True)
class Seen:
    """A scenario's run on one kernel: whether the condition holds there, and the values of its metrics."""

    kernel: str
    release: str
    holds: bool
    values: dict[str, float]


@dataclass(frozen=True)
class Bisected:
    """The last kernel on which the condition holds and the first on which it does not, with what lies between."""

    good: Seen
    bad: Seen
    #: Kernels that did not boot, each with why.
    skipped: dict[str, str]
    #: Of the skipped ones, those between the two: one of them may be the first bad one.
    unknown: tuple[str, ...]


def between(good: str, bad: str, images: Sequence[Package]) -> list[str]:
    """The kernels from `good` to `bad`, both included, by point release; backwards if `good` is the later one.

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
    *,
    cannot: str = "does not boot",
) -> Bisected:
    """Search `kernels`, a good one first and a bad one last. `attempt` runs one, or returns why it does not boot.

    `TailbackError` if the ends do not differ, or do not boot. Versions of something else can be searched too: `cannot`
    says what is wrong with one that was not judged.
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
        values = ", ".join(f"{name} = {value:.6g}" for name, value in found.values.items())
        say(f"{found.kernel}: {'good' if found.holds else 'bad'} ({values})")
        return found

    low, high = 0, len(kernels) - 1
    for field, number, holds in (("GOOD", low, True), ("BAD", high, False)):
        end = look(number)
        if end is None:
            raise TailbackError(f"{field} = {kernels[number]} {cannot}: {skipped[kernels[number]]}. Give another")
        if end.holds is not holds:
            does = "holds" if end.holds else "does not hold"
            fix = "Exchange GOOD and BAD, or change --expect"
            raise TailbackError(f"{field} = {kernels[number]}: the condition {does} there, so nothing is found. {fix}")
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


def tried_on(scenario: Scenario, condition: str, *, allow_code: bool = False) -> Callable[[str], Seen | str]:
    """What `bisect` calls for a kernel: fetch it, run `scenario`, and judge `condition`.

    `TailbackError` at once for a condition that cannot be judged of this scenario.
    """
    try:
        read = parse(condition, measurable(scenario.resolve(live=True)))
    except ConditionError as error:
        raise TailbackError(f'--expect "{condition}": {error.problem}. {error.fix}') from None

    def judged(name: str, release: str, result: Result) -> Seen:
        value = measured(result)
        values = {metric: value(metric) for metric in read.names}
        left, *bounds = read.sides(values.__getitem__, None)
        return Seen(name, release, _holds(read.relation, left, bounds), values)

    return _attempt(scenario, judged, allow_code=allow_code)


def tried_by(
    what: Runnable, metric: str, kept: Callable[[Result], Mapping[str, float]], bound: float, is_below: bool
) -> Callable[[str], Seen | str]:
    """What `bisect` calls for a kernel: run `what`; good is where `metric` lies below `bound`, or else above it."""

    def judged(name: str, release: str, result: Result) -> Seen:
        value = float(kept(result)[metric])
        return Seen(name, release, value < bound if is_below else value > bound, {metric: value})

    return _attempt(what, judged)


def _attempt(
    what: Runnable, judged: Callable[[str, str, Result], Seen], *, allow_code: bool = False
) -> Callable[[str], Seen | str]:
    def attempt(name: str) -> Seen | str:
        try:
            here = {kernel.name: kernel for kernel in fetched()}
            # The newest of a series lies under the series' name.
            point = name.removeprefix("debian-")
            known = next((one for one in here.values() if re.search(rf"-{re.escape(point)}\b", one.package)), None)
            kernel = known or here.get(name) or fetch(name)
            result = vm.run(what, kernel=kernel.name, allow_code=allow_code)
        except (KernelError, vm.LostRun) as error:
            return str(error).splitlines()[0]
        return judged(name, kernel.release, result)

    return attempt


def _holds(relation: str, left: float, bounds: Sequence[float]) -> bool:
    if relation == "in":
        return bounds[0] <= left <= bounds[1]
    return {"<": left < bounds[0], "<=": left <= bounds[0], ">": left > bounds[0], ">=": left >= bounds[0]}[relation]
