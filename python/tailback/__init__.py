"""tailback: what TCP congestion control does to throughput, to queues, and to the people who share them.

>>> import tailback as tb
>>> scenario = tb.dumbbell(
...     rate="10mbit", rtt="80ms", queue="1bdp", flows=[tb.bulk("cubic"), tb.voip()], duration="10s"
... )
>>> result = tb.run(scenario)
>>> result.flow_names
['bulk', 'voip']

Names are imported when they are first used, so that `tailback --version` does not import numpy.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tailback.views import offer as _offer

if TYPE_CHECKING:
    from tailback import capture, engines, presets, registry, traces
    from tailback.against import Against, against_base
    from tailback.algorithms import Ack, Algorithm, Congestion, Control, algorithm
    from tailback.assess import Assessment, UnfitCandidate, assess
    from tailback.candidate import Candidate, candidate
    from tailback.checksums import KeptWarning, Verified
    from tailback.engines import repeat
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
    from tailback.expect import Tested, test
    from tailback.experiment import (
        PairedRuns,
        Span,
        Store,
        SweepResult,
        Until,
        grid,
        latin_hypercube,
        open_store,
        run_pairs,
        sobol,
        sweep,
        zipped,
    )
    from tailback.export import Export, export
    from tailback.hunting import Finding, hunt
    from tailback.queues import OwnQueue, Packet
    from tailback.result import Result, open_result
    from tailback.run import Cancel, run, run_each, run_many
    from tailback.scenario import (
        Condition,
        Dumbbell,
        Expect,
        Flow,
        Instruments,
        Link,
        Medium,
        Named,
        NetemJitter,
        Policer,
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
    from tailback.units import Bytes, Duration, Rate, Size
    from tailback.verifying import verify

    #: Version of tailback, package and engine alike.
    __version__: str

__all__ = [
    "Ack",
    "Against",
    "Algorithm",
    "AlgorithmError",
    "Assessment",
    "Bytes",
    "Cancel",
    "Cancelled",
    "Candidate",
    "Condition",
    "Congestion",
    "Control",
    "Dumbbell",
    "Duration",
    "EngineError",
    "Expect",
    "Export",
    "Finding",
    "Flow",
    "Instruments",
    "Interrupted",
    "KeptWarning",
    "Link",
    "Medium",
    "Named",
    "NetemJitter",
    "OwnQueue",
    "Packet",
    "PairedRuns",
    "Policer",
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
    "Tested",
    "UnfitCandidate",
    "UnitError",
    "Until",
    "Verified",
    "Wire",
    "__version__",
    "against_base",
    "algorithm",
    "assess",
    "bulk",
    "candidate",
    "capture",
    "dumbbell",
    "engines",
    "export",
    "flow",
    "grid",
    "hunt",
    "latin_hypercube",
    "link",
    "network",
    "open_result",
    "open_store",
    "presets",
    "registry",
    "repeat",
    "run",
    "run_each",
    "run_many",
    "run_pairs",
    "sobol",
    "sweep",
    "test",
    "traces",
    "verify",
    "voip",
    "zipped",
]

#: Modules of the public names, cheapest imports first.
_MODULES = (
    "errors",
    "checksums",
    "units",
    "algorithms",
    "queues",
    "candidate",
    "scenario",
    "result",
    "run",
    "engines",
    "experiment",
    "export",
    "expect",
    "assess",
    "hunting",
    "verifying",
    "against",
)


class _Package(ModuleType):
    """The package's module type: keeps `tailback.run` the function, never the module of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value = getattr(value, name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package

_offer(
    {
        "result.answer": "tailback.answer:answer",
        "library.about": "tailback.isolated:about_queue",
        "library.sound": "tailback.isolated:demand_sound",
        "stack.about": "tailback.isolated:about_stack",
        "result.experience": "tailback.experience:experience",
        "result.films": "tailback.experience:films",
        "result.figure": "tailback.plots:get",
        "result.games": "tailback.experience:games",
        "result.page_loads": "tailback.experience:page_loads",
        "scenario.notes": "tailback.result.notes:notes_of",
        "result.report": "tailback.report:write",
        "study.claims": "tailback.report:claims_html",
        "study.report": "tailback.report:write_study",
    }
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return importlib.import_module("tailback._core").version()
        if not name.startswith("_"):
            if importlib.util.find_spec(f"{__name__}.{name}") is not None:
                # A submodule, such as `tailback.plots`.
                importlib.import_module(f"{__name__}.{name}")
                return globals()[name]
            for place in _MODULES if name in __all__ else ():
                module = importlib.import_module(f"{__name__}.{place}")
                if name in module.__all__:
                    globals()[name] = value = getattr(module, name)
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
