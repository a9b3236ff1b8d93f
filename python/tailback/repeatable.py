"""Checks that a user's code gives the same result for the same seed, before results are kept or compared.

A stack in a Rust crate may read the clock or the machine's entropy without a sign in its source, so that two runs with
one seed differ. `demand_repeatable` makes two such runs before a command starts many.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tailback.algorithms import factories, sources
from tailback.checksums import digest
from tailback.consent import asked_for
from tailback.errors import ScenarioError, TailbackError
from tailback.result import Result
from tailback.run import Algorithms, run
from tailback.scenario import Scenario

__all__ = ["TRIAL_S", "UnfitCandidate", "demand_repeatable", "twice"]

#: Seconds of a scenario to run twice, counted from the start of its last flow.
TRIAL_S = 4.0
_PS = 1e12
#: Digests of code that passed, so that a command checks each only once.
_sound: set[str] = set()


class UnfitCandidate(TailbackError):
    """A candidate that cannot be assessed: it crashes, sends nothing, does not return, or is not repeatable."""


def twice(
    scenario: Scenario, label: str, words: str, *, undone: str, algorithms: Algorithms | None = None, allow_code: bool
) -> Result:
    """The result of a run; `UnfitCandidate` if a second run with the same seed differs. `undone` is for its message."""
    first, second = (run(scenario, algorithms=algorithms, allow_code=allow_code) for _ in range(2))
    if first.differing(second):
        raise UnfitCandidate(
            f"{label} gave two results with one seed in {words}: it draws from something else than its seed, such as a "
            f"clock or a hash map's order. It was not {undone}."
        )
    return first


def demand_repeatable(
    scenario: Scenario, *, undone: str, algorithms: Algorithms | None = None, allow_code: bool = False
) -> None:
    """Raise `UnfitCandidate` if code that the scenario names is not repeatable; no cost for built-in names.

    >>> import tailback as tb
    >>> demand_repeatable(tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk()], duration="1s"), undone="run")
    """
    try:
        resolved = scenario.resolve(algorithms=factories(algorithms), allow_code=allow_code)
        if not allow_code and asked_for(resolved):
            return  # Code without consent is not even imported: the caller refuses it.
        own = sources(resolved, algorithms, scenario.folder)
    except ScenarioError:
        return  # The run reports the error.
    texts = {name: source.text for name, source in own.items()}
    key = digest(json.dumps(texts, sort_keys=True).encode())
    if not own or key in _sound:
        return
    short, length_s = _cut(scenario, resolved)
    words = f"{length_s:g} s of {scenario.name or 'the scenario'}"
    try:
        twice(short, " or ".join(own), words, undone=undone, algorithms=algorithms, allow_code=allow_code)
    except UnfitCandidate:
        raise
    except TailbackError:
        return  # The scenario's runs report the failure.
    _sound.add(key)


def _cut(scenario: Scenario, resolved: Mapping[str, Any]) -> tuple[Scenario, float]:
    """The scenario, ended a while after its last flow has started, and its duration in seconds."""
    whole_s = resolved["duration_ps"] / _PS
    length_s = max(flow["start_ps"] for flow in resolved["flows"]) / _PS + TRIAL_S
    changes: dict[str, Any] = {"instruments.packets": "all"}
    if length_s < whole_s:
        changes |= {"duration": f"{length_s:g}s"} | ({"expect": None} if scenario.expect is not None else {})
    try:
        short = scenario.with_(changes)
        short.resolve(check=False)
    except ScenarioError:
        return scenario, whole_s
    return short, min(length_s, whole_s)
