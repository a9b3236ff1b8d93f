"""Experiments: many runs, each once. A sweep varies a scenario; a study is a paper's grid with its claims.

See `docs/sweeps.md` and `docs/papers.md`.
"""

from __future__ import annotations

from tailback.experiment.claims import (
    AS_PREDICTED,
    AtLeast,
    AtMost,
    Claim,
    Measure,
    Measured,
    Near,
    NotRun,
    Parts,
    Rule,
    Standing,
    Within,
    by_name,
    fitted,
    judge,
    known,
    least,
    mean,
    median,
    most,
    of,
    restated,
    untestable,
)
from tailback.experiment.design import Design, Span, grid, latin_hypercube, single, sobol, zipped
from tailback.experiment.outcome import NOT, PARTLY, REPRODUCED, UNMEASURED, ClaimResult, StudyResult, TableOut
from tailback.experiment.pairs import PairedMetric, PairedRuns, run_pairs
from tailback.experiment.run_metrics import RunMetrics
from tailback.experiment.store import Store, open_store
from tailback.experiment.study import ABLATION, GRID, PAPERS_OWN, Cell, Data, Plot, Study
from tailback.experiment.summary import QUANTILES, Summary, pooled, quantile, quantiles, rounded
from tailback.experiment.sweepfile import read_sweep
from tailback.experiment.sweeps import Shard, Sweep, SweepResult, Until, sweep
from tailback.experiment.tables import Column, fitted_table, shown, table

__all__ = [
    "ABLATION",
    "AS_PREDICTED",
    "GRID",
    "NOT",
    "PAPERS_OWN",
    "PARTLY",
    "QUANTILES",
    "REPRODUCED",
    "UNMEASURED",
    "AtLeast",
    "AtMost",
    "Cell",
    "Claim",
    "ClaimResult",
    "Column",
    "Data",
    "Design",
    "Measure",
    "Measured",
    "Near",
    "NotRun",
    "PairedMetric",
    "PairedRuns",
    "Parts",
    "Plot",
    "Rule",
    "RunMetrics",
    "Shard",
    "Span",
    "Standing",
    "Store",
    "Study",
    "StudyResult",
    "Summary",
    "Sweep",
    "SweepResult",
    "TableOut",
    "Until",
    "Within",
    "by_name",
    "fitted",
    "fitted_table",
    "grid",
    "judge",
    "known",
    "latin_hypercube",
    "least",
    "mean",
    "median",
    "most",
    "of",
    "open_store",
    "pooled",
    "quantile",
    "quantiles",
    "read_sweep",
    "restated",
    "rounded",
    "run_pairs",
    "shown",
    "single",
    "sobol",
    "sweep",
    "table",
    "untestable",
    "zipped",
]
