"""Expectations, written down with their rules before the first run. No paper states them: the five leave them open."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import polars as pl

from tailback.experiment import AtLeast, AtMost, Claim, Data, Measured, Rule

from .grid import PATHS, STANDARD
from .harm import ENOUGH, harms, variance_between

HARM, MBPS = 100.0 * pl.col("harm"), pl.col("mbps")
Each = Callable[[pl.DataFrame], float]
Over = Callable[[list[float]], float]
DELAY_BASED = ("vegas", "cdg", "ledbat")
LOSS_BASED = ("reno", "cubic", "htcp", "highspeed", "scalable", "bic", "hybla", "westwood")


_STANDARD = pl.col("harm").filter(algorithm=STANDARD[0], queue=STANDARD[1])


def queue_over_algorithm(runs: pl.DataFrame) -> float:
    """Variance of harm the queue explains over what the algorithm explains."""
    by = {what: variance_between(runs["harm"], runs[what]) for what in ("queue", "algorithm")}
    return by["queue"] / by["algorithm"] if by["algorithm"] > 0.0 else float("nan")


def _mean(names: tuple[str, ...]) -> pl.Expr:
    return HARM.filter(pl.col("algorithm").is_in(names), queue="fifo").mean()


def _spread(queue: str) -> pl.Expr:
    each = HARM.filter(queue=queue)
    return each.max() - each.min()


def _claim(
    ident: str,
    text: str,
    unit: str,
    definition: str,
    each: pl.Expr | Each,
    rule: Rule,
    figure: str,
    over: Over = median,
    redefined: str = "",
) -> Claim:
    """`each` is of one path's runs, of one seed; `over` makes the claim's value of the paths'."""

    def measure(data: Data, seed: int) -> Measured | None:
        found = harms(data)
        parts = {}
        for name, path in PATHS.items() if len(found) else ():
            runs = found.filter(path=name, seed=seed)
            if len(runs):
                value = runs.select(each).item() if isinstance(each, pl.Expr) else each(runs)
                if value is not None and np.isfinite(value):
                    parts[path.title] = float(value)
        return Measured(over(list(parts.values())), parts) if parts else None

    return Claim(ident, text, "", "expected", unit, definition, measure, rule, figure, kind="expectation",
                 redefined=redefined)  # fmt: skip


CLAIMS = (
    _claim(
        "B1", "On the usual path there is a pair with nine tenths of the best throughput that does less than half the "
        "harm of CUBIC × FIFO", " %",
        "Median over paths of: least harm among pairs with ≥ 90 % of the best throughput, over CUBIC × FIFO's.",
        HARM.filter(ENOUGH * MBPS.max() <= MBPS).min() / _STANDARD.first(), AtMost(50.0, 75.0), "pareto",
        redefined="Throughput was that of the transfers alone, by which it was not so; it is everybody's since a first "
        "look at the results.",
    ),
    _claim(
        "B2", "The queue matters more to others than the algorithm does", "",
        "Median over paths of: variance of harm between queues over variance between algorithms.",
        queue_over_algorithm, AtLeast(1.0, 0.5), "harm-by-pair",
    ),
    _claim(
        "B3", "With FQ-CoDel no algorithm harms the call", " % of paths",
        "Paths on which the worst algorithm with FQ-CoDel takes at most 5 % of the call's R.",
        100.0 * pl.col("call").filter(queue="fq-codel").max(), AtLeast(90.0, 70.0), "harm-by-pair",
        lambda worst: 100.0 * float(np.mean([value <= 5.0 for value in worst])),
    ),
    _claim(
        "B4", "In a FIFO, delay-based algorithms (Vegas, CDG, LEDBAT) do less than half the harm of loss-based ones",
        " %", "Median over paths of: mean harm of the former over that of the latter.",
        100.0 * _mean(DELAY_BASED) / _mean(LOSS_BASED), AtMost(50.0, 75.0), "harm-by-pair",
    ),
    _claim(
        "B5", "With FQ-CoDel the choice of algorithm hardly matters to others", " points",
        "Median over paths of: largest less smallest harm of any algorithm with FQ-CoDel.",
        _spread("fq-codel"), AtMost(10.0, 20.0), "harm-by-pair",
    ),
    _claim(
        "B6", "In a FIFO the choice of algorithm matters much to others", " points",
        "Median over paths of: largest less smallest harm of any algorithm with FIFO.",
        _spread("fifo"), AtLeast(30.0, 15.0), "harm-by-pair",
    ),
)  # fmt: skip
