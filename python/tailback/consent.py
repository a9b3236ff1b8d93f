"""What a scenario asks to run besides the simulator: Python classes by reference, BPF sources, and programs.

A file may come from a stranger. Reading, checking, showing and comparing run nothing of what it names; a run does so
only where its caller allows it: `allow_code=True`, on the command line `--allow-code`. See docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tailback import registry
from tailback.algorithms import is_reference
from tailback.errors import Problem, ScenarioError

if TYPE_CHECKING:
    from tailback.scenario import Scenario

__all__ = ["asked_for", "demand_allowed", "demand_kept_allowed", "without_references"]

_FIX = "Read that code first; then allow it with --allow-code, or allow_code=True in Python."


def asked_for(resolved: Mapping[str, Any]) -> list[Problem]:
    """The code that a resolved description names, as what would be said of it without permission; often nothing."""
    out = []
    for index, flow in enumerate(resolved.get("flows", ())):
        place, tcp = f"flow[{index}]", flow.get("tcp") or {}
        rows = [(f"{place}.cc", tcp)]
        rows += [(f"{place}.cc_turns[{turn}]", row) for turn, row in enumerate(tcp.get("cc_turns") or ())]
        for field, row in rows:
            name = str(row.get("cc", ""))
            if is_reference(name):
                kind, _, what = name.partition(":")
                verb = "import" if kind == "python" else "compile"
                out.append(Problem(field, name, f"the scenario asks to {verb} and run {what}", _FIX))
        if registry.application(flow).runs_programs:
            for role in ("server", "client"):
                line = (flow["app"].get("params") or {}).get(role)
                if line:
                    out.append(Problem(f"{place}.{role}", line, "the scenario asks to run this program", _FIX))
    return out


def demand_allowed(resolved: Mapping[str, Any], allow_code: bool, written: Scenario | None = None) -> None:
    """Raise `ScenarioError`, with the lines of `written`, if a description asks to run code and may not."""
    found = [] if allow_code else asked_for(resolved)
    if found:
        error = ScenarioError(found)
        raise error if written is None else error.located(written._file, written._places)


def demand_kept_allowed(kept: Iterable[str], allow_code: bool) -> None:
    """Raise `ScenarioError` if a result keeps sources of these algorithms, and their code may not run."""
    names = ", ".join(kept)
    if names and not allow_code:
        fix = "Read the sources in the result's folder algorithms/; then allow it with --allow-code, or allow_code=True"
        raise ScenarioError([Problem("cc", names, "the result asks to run the code it keeps", fix)])


def without_references(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The same with "reno" wherever a class is named by reference: for checks of everything else."""

    def plain(row: Mapping[str, Any]) -> dict[str, Any]:
        return dict(row) | ({"cc": "reno", "cc_params": {}} if is_reference(str(row.get("cc", ""))) else {})

    flows = []
    for flow in resolved["flows"]:
        tcp = flow.get("tcp")
        if tcp:
            turns = {"cc_turns": [plain(turn) for turn in tcp["cc_turns"]]} if tcp.get("cc_turns") else {}
            flow = flow | {"tcp": plain(tcp) | turns}
        flows.append(flow)
    return dict(resolved) | {"flows": flows}
