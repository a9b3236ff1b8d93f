"""The description of an experiment: path, queues, flows, duration, seed. TOML and Python say the same.

A scenario keeps what was written ("1bdp", "80ms") in exact units; `Scenario.resolve` turns it into the form the
engine runs, in which nothing is left open. The format is described in `docs/scenario.md`.
"""

from tailback.scenario._build import bulk, dumbbell, flow, link, network, voip
from tailback.scenario._flow import Flow, Instruments, Randomness
from tailback.scenario._path import Dumbbell, Link, Medium, Named, Preset, Queue, Step, Wire
from tailback.scenario._scenario import Scenario

__all__ = [
    "Dumbbell",
    "Flow",
    "Instruments",
    "Link",
    "Medium",
    "Named",
    "Preset",
    "Queue",
    "Randomness",
    "Scenario",
    "Step",
    "Wire",
    "bulk",
    "dumbbell",
    "flow",
    "link",
    "network",
    "voip",
]
