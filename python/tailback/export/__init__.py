"""Exports a scenario as a program for another tool: namespaces with tc and iperf3, or ns-3.

>>> import tailback as tb
>>> scenario = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk("cubic")], duration="60s", name="home")
>>> made = tb.export(scenario, "netem")
>>> made.file_name
'home-netem.sh'
>>> [str(row) for row in made.left_out]
[]
"""

from __future__ import annotations

from importlib import import_module

from tailback.errors import TailbackError, nearest
from tailback.export.common import Export
from tailback.scenario import Scenario

__all__ = ["TARGETS", "Export", "export"]

#: Targets, each in a module of that name.
TARGETS = {
    "netem": "a shell script: network namespaces, tc and iperf3",
    "ns3": "a C++ program for ns-3.44",
}


def export(scenario: Scenario, target: str) -> Export:
    """The scenario as a program for `target`, "netem" or "ns3"; `left_out` lists what the target cannot express.

    Raises `ScenarioError` if the rest would make no sense: for example without a link's rate and delay, or if the
    target lacks a congestion control.

    >>> import tailback as tb
    >>> scenario = tb.dumbbell(rate="10mbit", rtt="80ms", flows=[tb.bulk("htcp")], duration="60s")
    >>> "TcpHtcp" in export(scenario, "ns3").text
    True
    """
    if target not in TARGETS:
        close = nearest(target, TARGETS)
        hint = f' Did you mean "{close}"?' if close else ""
        raise TailbackError(f'there is no export as "{target}".{hint} There are: {", ".join(TARGETS)}')
    made: Export = import_module(f"tailback.export.{target}").export(scenario)
    return made
