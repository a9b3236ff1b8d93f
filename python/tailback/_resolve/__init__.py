"""From what a scenario says to what the engine runs, and from the engine's complaints back to what was said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tailback.algorithms import Factory
from tailback.consent import without_references
from tailback.errors import Problem, ScenarioError
from tailback.scenario import Scenario

from .flows import Flows
from .graph import Graph, hops_of
from .instruments import instruments
from .ledger import Ledger
from .links import Links
from .unresolve import unresolve

__all__ = ["as_text", "complaint", "link_names", "resolve", "unresolve"]

#: Version of the engine's form.
FORMAT = 1


def _describe(ledger: Ledger) -> dict[str, Any]:
    """A scenario in the engine's form; `ScenarioError` with all that is wrong with it."""
    scenario = ledger.scenario
    if scenario.dumbbell is None and not scenario.links:
        ledger.problem("", "there is no path", "Add a [dumbbell] table, [[link]] entries, or [path] with a preset")
    if scenario.dumbbell is not None and scenario.links:
        ledger.problem("link", "a dumbbell already describes the path", "Remove [dumbbell] or the links")
    if not scenario.flows:
        ledger.problem("flow", "there are no flows", 'Add for example [[flow]] with app = "bulk"')
    graph = Graph(ledger)
    nodes = graph.nodes()
    routes = [graph.routes(index, nodes) for index in range(len(scenario.flows))]
    out = {
        "format": FORMAT,
        "name": scenario.name,
        "seed": scenario.seed,
        "duration_ps": int(scenario.duration),
        "nodes": nodes,
        "links": Links(graph, routes).describe(),
        "flows": Flows(graph, routes).describe(),
        "randomness": {
            "start_spread_ps": int(scenario.randomness.start_spread),
            "processing_jitter_ps": int(scenario.randomness.processing_jitter),
        },
        "instruments": instruments(graph, nodes),
    }
    if ledger.problems:
        # A dumbbell's queue stands for two links: what is wrong with it is said once.
        raise ScenarioError(list(dict.fromkeys(ledger.problems)))
    return out


def resolve(
    scenario: Scenario,
    *,
    check: bool,
    own: Mapping[str, Factory] | None,
    live: bool = False,
    allow_code: bool = False,
) -> dict[str, Any]:
    """See `Scenario.resolve`. Without `own` (None, not empty) only built-in algorithms will do."""
    ledger = Ledger(scenario.expanded, own, allow_code)
    out = _describe(ledger)
    if check:
        from tailback import _core

        try:
            checked = out if allow_code else without_references(out)
            _core.check(json.dumps(checked), ledger.factories, live)
        except _core.ScenarioError as error:
            raise ScenarioError([ledger.translate(*map(str, error.args))]) from None
    return out


def complaint(scenario: Scenario, path: str, value: str, problem: str, fix: str) -> Problem:
    """What an engine says of a place in its own form, said of the scenario's."""
    ledger = Ledger(scenario.expanded, {})
    _describe(ledger)
    return ledger.translate(path, value, problem, fix)


def as_text(resolved: Mapping[str, Any]) -> str:
    """JSON text of a resolved description, the same for equal ones."""
    return json.dumps(resolved, sort_keys=True, separators=(",", ":"))


def link_names(scenario: Scenario) -> list[str]:
    """The links' names in the order of the engine's tables."""
    return [hop.name for hop in hops_of(scenario.expanded)]
