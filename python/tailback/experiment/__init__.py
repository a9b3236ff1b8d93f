"""Experiments: many runs, each stored once. A sweep varies a scenario; a study tests a paper's claims on a grid.

See `docs/sweeps.md` and `docs/papers.md`.
"""

from __future__ import annotations

from tailback.experiment.claims import (
    ANY,
    AS_PREDICTED,
    POSITIVE,
    SHARE,
    Claim,
    Measure,
    Measured,
    NotRun,
    Parts,
    Standing,
    by_name,
    certain,
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
from tailback.experiment.outcome import (
    NOT,
    REPRODUCED,
    UNDECIDED,
    UNMEASURED,
    ClaimResult,
    StudyResult,
    TableOut,
)
from tailback.experiment.pairs import PairedMetric, PairedRuns, run_pairs
from tailback.experiment.run_metrics import RunMetrics
from tailback.experiment.standing import Choice, stand
from tailback.experiment.store import Store, open_store
from tailback.experiment.study import ABLATION, GRID, PAPERS_OWN, Cell, Data, Plot, Study
from tailback.experiment.summary import QUANTILES, Summary, pooled, quantile, quantiles, rounded
from tailback.experiment.sweepfile import read_sweep
from tailback.experiment.sweeps import Shard, Sweep, SweepResult, Until, sweep
from tailback.experiment.tables import Column, fitted_table, shown, table
from tailback.judge import PARTLY, AtLeast, AtMost, Near, Within
from tailback.judge import Band as Rule

__all__ = [
    "ABLATION",
    "ANY",
    "AS_PREDICTED",
    "GRID",
    "NOT",
    "PAPERS_OWN",
    "PARTLY",
    "POSITIVE",
    "QUANTILES",
    "REPRODUCED",
    "SHARE",
    "UNDECIDED",
    "UNMEASURED",
    "AtLeast",
    "AtMost",
    "Cell",
    "Choice",
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
    "certain",
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
    "stand",
    "sweep",
    "table",
    "untestable",
    "zipped",
]
