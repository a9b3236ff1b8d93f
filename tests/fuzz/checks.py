"""What must hold of any scenario: refused with a place and a fix, or runs, loses nothing, and runs again the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import tailback as tb
from tailback import _core

#: Errors that are about the file as a whole and so have no place in it.
_WHOLE = ("there is no path", "there are no flows", "a dumbbell already describes")


def problem(tables: dict[str, Any], *, most: int, twice: bool) -> str | None:
    """What is wrong, in a line that is the same for the same fault; None if nothing is. Runs at most `most` steps."""
    try:
        scenario = tb.Scenario.from_dict(tables)
        resolved = scenario.resolve()
    except tb.ScenarioError as error:
        return _unplaced(error)
    except Exception as error:  # whatever it is, it is a fault
        return f"the check raised {type(error).__name__}: {error}"
    if tb.Scenario.parse_toml(scenario.to_toml()).resolve() != resolved:
        return "the scenario as TOML is another one"
    again = tb.Scenario.from_resolved(resolved).resolve()
    if again["links"] != resolved["links"] or again["instruments"] != resolved["instruments"]:
        return "the resolved scenario read back is another one"
    try:
        first = _core.run(json.dumps(resolved), most=most)
    except _core.ScenarioError as error:
        is_limit = error.args[0] in ("instruments.most_rows", "instruments.most_memory")
        is_limit = is_limit or any(words in error.args[2] for words in ("would never end", "a run has at most"))
        return None if is_limit else f"refused only when run: {error.args[0]}"
    except Exception as error:
        return f"the run raised {type(error).__name__}: {error}"
    if "stack_faults" in first:
        return f"a stack's fault: {first['_names']['warnings'][-1]}"
    wrong = _not_conserved(first, resolved)
    if wrong is None and twice and _bytes(first) != _bytes(_core.run(json.dumps(resolved), most=most)):
        return "two runs differ"
    return wrong


def _unplaced(error: tb.ScenarioError) -> str | None:
    for one in error.problems:
        if not one.problem or not one.fix:
            return f"an error without problem or fix: {one}"
        if not one.field and not one.problem.startswith(_WHOLE):
            return f"an error without a place: {one.problem}"
    return None if error.problems else "an error without problems"


def _not_conserved(tables: dict[str, Any], resolved: dict[str, Any]) -> str | None:
    links, flows = tables["links"], tables["flows"]
    entered = links["arrived"] + links["duplicated"]
    if not np.array_equal(entered, links["delivered"] + links["dropped"] + links["resident"]):
        return "a link lost or made packets"
    made = int(links["duplicated"].sum())
    if np.any(flows["packets_received"] + flows["packets_dropped"] > flows["packets_sent"] + made):
        return "more packets of a flow ended than began"
    # Other projects' stacks report whole packets as acknowledged, headers and frames included; and a receiver may lie.
    tcp = [flow.get("tcp") or {} for flow in resolved["flows"]]
    is_reported = np.array([not (of.get("transport") or of.get("stack_params", {}).get("acks_ahead")) for of in tcp])
    connected = np.isfinite(flows["established_s"]) & is_reported
    if np.any(flows["bytes_acked"][connected] > flows["bytes_received"][connected]):
        return "bytes were acknowledged that were never received"
    return None


def _bytes(tables: dict[str, Any]) -> list[tuple[str, str, bytes]]:
    named = [(name, columns) for name, columns in tables.items() if name != "_names"]
    return [(name, key, column.tobytes()) for name, columns in named for key, column in columns.items()]
