"""A search for the kernel that changed something: the question, and the printed comparison of its two ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback.compare import compare, that_matter
from tailback.explain import explain
from tailback.scenario import Scenario
from tailback.vm import bisected, revisions
from tailback.vm.bisected import Bisected, Seen
from tailback.vm.kernels import Kernel, archive

__all__ = ["Question", "commits", "differences", "patches", "releases", "sentences"]

Say = Callable[[str], object]
#: Maximum differences between two kernels to print, to fit a screen.
_MOST_DIFFERENCES, _MOST_SENTENCES = 10, 3


@dataclass(frozen=True)
class Question:
    """The run for each kernel, and the condition that holds on a good one."""

    scenario: Scenario
    condition: str
    allow_code: bool = False

    def attempt(
        self, kernel_of: Callable[[str], Kernel] | None = None, title: Callable[[str], str] = str
    ) -> Callable[[str], Seen | str]:
        """The `attempt` argument of a search; parses the condition at once."""
        code = self.allow_code
        return bisected.tried_on(self.scenario, self.condition, allow_code=code, kernel_of=kernel_of, title=title)


def releases(question: Question, good: str, bad: str, say: Say = lambda _: None) -> Bisected:
    """Search Debian's kernels, fetching them as needed."""
    attempt = question.attempt()
    names = bisected.between(good, bad, archive().images())
    say(f"{len(names)} kernels from {names[0]} to {names[-1]}: at most {len(names).bit_length() + 2} runs")
    return bisected.bisect(names, attempt, say)


def commits(question: Question, good: str, bad: str, tree: Path, say: Say = lambda _: None) -> Bisected:
    """Search the commits of a git tree of Linux."""
    question.attempt()
    with revisions.commits(tree, say) as found:
        return found.search(good, bad, question.attempt(found.kernel, found.title))


def patches(question: Question, good: str, bad: str, given: Path, on: str, say: Say = lambda _: None) -> Bisected:
    """Search a series of patches on Debian's source `on`."""
    series = revisions.Series(given, on, say)
    return series.search(good, bad, question.attempt(series.kernel))


def differences(found: Bisected) -> list[dict[str, Any]]:
    """The condition's metrics, then the largest other differences in results and kernel counters."""
    good, bad = found.good, found.bad
    out: list[dict[str, Any]] = [
        {"name": name, "good": value, "bad": bad.values[name]} for name, value in good.values.items()
    ]
    if good.result is None or bad.result is None:
        return out
    rows = that_matter(compare({"good": good.result, "bad": bad.result}), _MOST_DIFFERENCES)
    out += [{"name": f"{row.of}: {row.metric} {row.unit}".strip(), **row.values} for row in rows]
    counts = [
        {f"{row['host']} {row['counter']}": float(row["count"]) for row in end.counters()}
        for end in (good.result, bad.result)
    ]
    both = {name: [side.get(name, 0.0) for side in counts] for name in {**counts[0], **counts[1]}}
    moved = {name: abs(a - b) / max(a, b) for name, (a, b) in both.items() if a != b}
    most = sorted(moved, key=lambda name: -moved[name])[:_MOST_DIFFERENCES]
    return out + [{"name": name, "good": both[name][0], "bad": both[name][1]} for name in most]


def sentences(found: Bisected) -> list[str]:
    """Sentences that explain the rows of one end and do not hold for the other."""
    ends = {"good": found.good.result, "bad": found.bad.result}
    said = {name: [row.text for row in explain(result)] if result else [] for name, result in ends.items()}
    other = {"good": said["bad"], "bad": said["good"]}
    return [
        f"{name}: {text}"
        for name, texts in said.items()
        for text in [text for text in texts if text not in other[name]][:_MOST_SENTENCES]
    ]
