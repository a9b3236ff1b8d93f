"""The description of an experiment: path, queues, flows, duration, seed. TOML and Python say the same.

A scenario keeps what was written ("1bdp", "80ms") in exact units; `Scenario.resolve` turns it into the form the
engine runs, in which nothing is left open. What the fields are and what they take is stated once, in Rust
(`crates/tailback-scenario/src/schema.rs`); the page `docs/scenario.md` and the types of `parts.pyi` are made from it.
"""

from tailback.scenario.build import bulk, dumbbell, flow, link, network, voip
from tailback.scenario.parts import (
    Condition,
    Dumbbell,
    Expect,
    Flow,
    Instruments,
    Link,
    Medium,
    Named,
    NetemJitter,
    Period,
    Policer,
    Preset,
    Queue,
    Randomness,
    Step,
    Wire,
)
from tailback.scenario.whole import Scenario

__all__ = [
    "Condition",
    "Dumbbell",
    "Expect",
    "Flow",
    "Instruments",
    "Link",
    "Medium",
    "Named",
    "NetemJitter",
    "Period",
    "Policer",
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
