"""Scenarios describe experiments: path, queues, flows, duration, seed. TOML and Python are equivalent.

A scenario keeps quantities as written ("1bdp", "80ms") in exact units; `Scenario.resolve` converts it to the engine's
form, without open defaults. The fields are defined once, in Rust (`crates/tailback-scenario/src/schema.rs`), from which
`docs/scenario.md` and `parts.pyi` are generated.
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
