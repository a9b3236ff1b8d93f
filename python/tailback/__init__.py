"""tailback: what TCP congestion control does to throughput, to queues, and to the people who share them.

>>> import tailback as tb
>>> scenario = tb.dumbbell(
...     rate="10mbit", rtt="80ms", queue="1bdp", flows=[tb.bulk("cubic"), tb.voip()], duration="10s"
... )
>>> result = tb.run(scenario)
>>> result.flow_names
['bulk', 'voip']
"""

from __future__ import annotations

from tailback import capture, presets, registry, traces
from tailback._core import version as _version
from tailback.algorithms import Ack, Algorithm, Congestion, Control, algorithm
from tailback.checksums import KeptWarning, Verified, verify
from tailback.errors import (
    AlgorithmError,
    Cancelled,
    EngineError,
    Interrupted,
    Problem,
    ResultError,
    ScenarioError,
    TailbackError,
    UnitError,
)
from tailback.result import Result, open_result
from tailback.run import Cancel, run, run_each, run_many
from tailback.scenario import (
    Dumbbell,
    Flow,
    Instruments,
    Link,
    Medium,
    Named,
    Queue,
    Randomness,
    Scenario,
    Step,
    Wire,
    bulk,
    dumbbell,
    flow,
    link,
    network,
    voip,
)
from tailback.store import Store, open_store
from tailback.sweep import Span, SweepResult, Until, grid, latin_hypercube, sobol, sweep, zipped
from tailback.units import Bytes, Duration, Rate, Size

#: Version of tailback, package and engine alike.
__version__ = _version()

__all__ = [
    "Ack",
    "Algorithm",
    "AlgorithmError",
    "Bytes",
    "Cancel",
    "Cancelled",
    "Congestion",
    "Control",
    "Dumbbell",
    "Duration",
    "EngineError",
    "Flow",
    "Instruments",
    "Interrupted",
    "KeptWarning",
    "Link",
    "Medium",
    "Named",
    "Problem",
    "Queue",
    "Randomness",
    "Rate",
    "Result",
    "ResultError",
    "Scenario",
    "ScenarioError",
    "Size",
    "Span",
    "Step",
    "Store",
    "SweepResult",
    "TailbackError",
    "UnitError",
    "Until",
    "Verified",
    "Wire",
    "__version__",
    "algorithm",
    "bulk",
    "capture",
    "dumbbell",
    "flow",
    "grid",
    "latin_hypercube",
    "link",
    "network",
    "open_result",
    "open_store",
    "presets",
    "registry",
    "run",
    "run_each",
    "run_many",
    "sobol",
    "sweep",
    "traces",
    "verify",
    "voip",
    "zipped",
]
