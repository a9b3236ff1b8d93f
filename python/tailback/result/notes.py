"""What a scenario says that its author may not have meant: no limit, two rates, and what its trace files hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailback.numbers import written
from tailback.result.described import PS_PER_S, Described
from tailback.traces import OPPORTUNITY_BITS
from tailback.units import Rate

if TYPE_CHECKING:
    from tailback.scenario import Scenario

__all__ = ["Note", "notes_of"]

#: A step this many times longer than the median one is a gap in a recording.
GAP = 20.0
#: Seconds over which a trace of opportunities is given as a rate.
_WINDOW_S = 1.0


@dataclass(frozen=True)
class Note:
    """One sentence about a scenario; a warning if it is probably a mistake."""

    text: str
    is_warning: bool = False


class _Described(Described):
    def __init__(self, resolved: Mapping[str, Any]) -> None:
        self._resolved = resolved

    @property
    def description(self) -> Mapping[str, Any]:
        return self._resolved


def notes_of(scenario: Scenario, resolved: Mapping[str, Any]) -> list[Note]:
    """The notes on a scenario and its resolved form.

    >>> import tailback as tb
    >>> bare = tb.dumbbell(rate="10mbit", rtt="40ms", queue="fifo", flows=[tb.bulk()], duration="5s")
    >>> notes_of(bare, bare.resolve())[0].text
    'the queue of bottleneck has no limit: write queue = "1bdp", or limit = "100packets"'
    """
    return [*_endless(resolved), *_two_rates(scenario, resolved), *_traces(scenario, resolved)]


def _endless(resolved: Mapping[str, Any]) -> Iterator[Note]:
    """Bottlenecks whose FIFO never drops."""
    path = _Described(resolved)
    found = {path.bottleneck_index(None, flow) for flow in range(len(path.flow_names))} - {None}
    for index in sorted(index for index in found if index is not None):
        link = path.link_spec(index)
        if link["queue"]["discipline"] == "fifo" and path.limit_bytes(index) == float("inf"):
            yield Note(f'the queue of {link["name"]} has no limit: write queue = "1bdp", or limit = "100packets"')


def _two_rates(scenario: Scenario, resolved: Mapping[str, Any]) -> Iterator[Note]:
    """A dumbbell's media with another rate than the dumbbell's, which then only sizes the queue."""
    bell = scenario.expanded.dumbbell
    links = {link["name"]: link for link in resolved["links"]}
    for way, name in (("", "bottleneck"), ("back_", "return")) if bell is not None else ():
        medium, given = links[name].get("medium") or {}, getattr(bell, f"{way}rate")
        own = medium.get("params", {}).get("rate_bps")
        if own is not None and given is not None and Rate(given) != own:
            yield Note(
                f"dumbbell.{way}rate is {written(Rate(given) / 1e6)} Mbit/s, but {medium['name']} transmits at its own "
                f"{written(own / 1e6)} Mbit/s, and dumbbell.{way}rate only sizes the queue: "
                f"set dumbbell.{way}medium.rate to the same",
                is_warning=True,
            )


def _traces(scenario: Scenario, resolved: Mapping[str, Any]) -> Iterator[Note]:
    """What each file of a link's rates holds."""
    seconds = int(resolved["duration_ps"]) / PS_PER_S
    links = {link["name"]: link for link in resolved["links"]}
    whole = scenario.expanded
    named = [(link.name, file) for link in whole.links for file in (link.schedule, link.trace) if isinstance(file, str)]
    if whole.dumbbell is not None and isinstance(whole.dumbbell.schedule, str):
        named.append(("bottleneck", whole.dumbbell.schedule))
    for name, file in named:
        link = links[name]
        if link.get("trace") is not None:
            times = np.asarray(link["trace"]["deliveries_ms"], dtype=np.float64) / 1e3
            yield _opportunities(file, times, seconds)
        elif link.get("schedule"):
            yield from _changes(file, link["schedule"], seconds)


def _opportunities(file: str, times: Any, seconds: float) -> Note:
    """A trace of mahimahi: it repeats, so a short one is no mistake."""
    # A trace shorter than a second is one window; of a longer one the last second may be cut short.
    window = min(_WINDOW_S, times[-1])
    bins = int(np.ceil(times[-1] / window))
    counts, _ = np.histogram(times, bins=bins, range=(0.0, bins * window))
    whole = counts[: int(times[-1] / window)] * OPPORTUNITY_BITS / window / 1e6
    step = float(np.max(np.diff(times, prepend=0.0)))
    text = (
        f"{file}: {len(times):,} opportunities in {written(times[-1], 3)} s, repeated over the run's "
        f"{written(seconds, 3)} s; {_span(whole)} Mbit/s in windows of {written(window, 3)} s; "
        f"longest step {written(step, 3)} s"
    )
    return Note(text)


def _changes(file: str, rows: Sequence[Mapping[str, Any]], seconds: float) -> Iterator[Note]:
    times = np.asarray([row["at_ps"] for row in rows], dtype=np.float64) / PS_PER_S
    rates = np.asarray([row["rate_bps"] for row in rows if row["rate_bps"] is not None], dtype=np.float64) / 1e6
    steps = np.diff(times)
    longest = float(np.max(steps, initial=0.0))
    ends = f"{written(times[0], 3)} to {written(times[-1], 3)} s of {written(seconds, 3)} s"
    text = f"{file}: {len(rows):,} rows from {ends}"
    if len(rates):
        text += f"; {_span(rates)} Mbit/s"
    yield Note(f"{text}; longest step {written(longest, 3)} s")
    if not len(steps):
        return
    median = float(np.median(steps))
    # The last row holds for a step of its own.
    if times[-1] + longest < seconds * 0.999:
        yield Note(
            f"{file} ends at {written(times[-1], 3)} s of the run's {written(seconds, 3)} s, and its last row holds "
            f"from there on: set duration, or look at the unit of its times",
            is_warning=True,
        )
    if longest > GAP * median:
        at = float(times[int(np.argmax(steps))])
        yield Note(
            f"{file} has no row for {written(longest, 3)} s after {written(at, 3)} s, and a row every "
            f"{written(median, 3)} s in the median: the row before the gap holds until its end",
            is_warning=True,
        )


def _span(rates: Any) -> str:
    return f"{written(float(np.min(rates)), 3)} to {written(float(np.max(rates)), 3)}"
