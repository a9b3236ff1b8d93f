"""Expectations, written down with their rules before the first run. No paper states them: the five leave them open."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tailback.experiment import AtLeast, AtMost, Claim, Data, Measured, Rule, Summary

from .grid import PATHS, QUEUES, STANDARD, Path, algorithms, alone_key, key_of
from .harm import ENOUGH, call_harm, page_harm, variance_between

DELAY_BASED = ("vegas", "cdg", "ledbat")
LOSS_BASED = ("reno", "cubic", "htcp", "highspeed", "scalable", "bic", "hybla", "westwood")
Measure = Callable[[Data, int], Measured | None]


def _harm(data: Data, path: Path, algorithm: str, queue: str, seed: int) -> tuple[float, float] | None:
    """Harm to whoever suffers more, and throughput."""
    alone, beside = data.get(alone_key(path.name), seed), data.get(key_of(path.name, algorithm, queue), seed)
    if alone is None or beside is None:
        return None
    return max(call_harm(alone, beside), page_harm(alone, beside)), float(beside["mbps"])


def _table(data: Data, path: Path, seed: int) -> dict[tuple[str, str], tuple[float, float]]:
    return {
        (algorithm, queue): found
        for algorithm in algorithms()
        for queue in QUEUES
        if (found := _harm(data, path, algorithm, queue, seed)) is not None
    }


def _over_paths(each: Callable[[dict[tuple[str, str], tuple[float, float]]], float]) -> Measure:
    """A value of every path; the claim is about their median."""

    def measure(data: Data, seed: int) -> Measured | None:
        parts = {}
        for path in PATHS.values():
            table = _table(data, path, seed)
            if table:
                value = each(table)
                if not np.isnan(value):
                    parts[path.title] = value
        return Measured(float(np.median(list(parts.values()))), parts) if parts else None

    return measure


def halved(table: dict[tuple[str, str], tuple[float, float]]) -> float:
    """Least harm among pairs with nine tenths of the best throughput, over the standard pair's, %."""
    best = max(rate for _, rate in table.values())
    least = min((harm for harm, rate in table.values() if rate >= ENOUGH * best), default=float("nan"))
    standard = table[STANDARD][0]
    return 100.0 * least / standard if standard > 0.0 else float("nan")


def _mean(table: dict[tuple[str, str], tuple[float, float]], names: tuple[str, ...], queue: str) -> float:
    found = [table[name, queue][0] for name in names if (name, queue) in table]
    return float(np.mean(found)) if found else float("nan")


def queue_over_algorithm(table: dict[tuple[str, str], tuple[float, float]]) -> float:
    """Variance of harm the queue explains over what the algorithm explains."""
    values = [harm for harm, _ in table.values()]
    by_algorithm, by_queue = (variance_between(values, levels) for levels in zip(*table, strict=True))
    return by_queue / by_algorithm if by_algorithm > 0.0 else float("nan")


def delay_based_gain(table: dict[tuple[str, str], tuple[float, float]]) -> float:
    """Harm of delay-based algorithms over that of loss-based ones, FIFO, %."""
    loss = _mean(table, LOSS_BASED, "fifo")
    return 100.0 * _mean(table, DELAY_BASED, "fifo") / loss if loss > 0.0 else float("nan")


def spread_under(queue: str) -> Callable[[dict[tuple[str, str], tuple[float, float]]], float]:
    """How far apart the algorithms' harms are with one queue, in points of 100."""

    def each(table: dict[tuple[str, str], tuple[float, float]]) -> float:
        found = [harm for (_, which), (harm, _) in table.items() if which == queue]
        return 100.0 * float(np.ptp(found)) if found else float("nan")

    return each


def _call_under_fq(data: Data, seed: int) -> Measured | None:
    worst: dict[str, float] = {}
    for path in PATHS.values():
        alone = data.get(alone_key(path.name), seed)
        found: list[Summary] = [
            beside
            for algorithm in algorithms()
            if (beside := data.get(key_of(path.name, algorithm, "fq-codel"), seed)) is not None
        ]
        if alone is not None and found:
            worst[path.title] = 100.0 * max(call_harm(alone, beside) for beside in found)
    return Measured(float(np.mean([value <= 5.0 for value in worst.values()])) * 100.0, worst) if worst else None


def _claim(ident: str, text: str, unit: str, definition: str, measure: Measure, rule: Rule, figure: str) -> Claim:
    return Claim(ident, text, "expectation", "expected", unit, definition, measure, rule, figure)


CLAIMS = (
    _claim(
        "B1",
        "On the usual path there is a pair with nine tenths of the best throughput that does less than half the harm "
        "of CUBIC × FIFO",
        " %",
        "Median over paths of: least harm among pairs with ≥ 90 % of the best throughput, over CUBIC × FIFO's.",
        _over_paths(halved),
        AtMost(50.0, 75.0),
        "pareto",
    ),
    _claim(
        "B2",
        "The queue matters more to others than the algorithm does",
        "",
        "Median over paths of: variance of harm between queues over variance between algorithms.",
        _over_paths(queue_over_algorithm),
        AtLeast(1.0, 0.5),
        "harm-by-pair",
    ),
    _claim(
        "B3",
        "With FQ-CoDel no algorithm harms the call",
        " % of paths",
        "Paths on which the worst algorithm with FQ-CoDel takes at most 5 % of the call's R.",
        _call_under_fq,
        AtLeast(90.0, 70.0),
        "harm-by-pair",
    ),
    _claim(
        "B4",
        "In a FIFO, delay-based algorithms (Vegas, CDG, LEDBAT) do less than half the harm of loss-based ones",
        " %",
        "Median over paths of: mean harm of the former over that of the latter.",
        _over_paths(delay_based_gain),
        AtMost(50.0, 75.0),
        "harm-by-pair",
    ),
    _claim(
        "B5",
        "With FQ-CoDel the choice of algorithm hardly matters to others",
        " points",
        "Median over paths of: largest less smallest harm of any algorithm with FQ-CoDel.",
        _over_paths(spread_under("fq-codel")),
        AtMost(10.0, 20.0),
        "harm-by-pair",
    ),
    _claim(
        "B6",
        "In a FIFO the choice of algorithm matters much to others",
        " points",
        "Median over paths of: largest less smallest harm of any algorithm with FIFO.",
        _over_paths(spread_under("fifo")),
        AtLeast(30.0, 15.0),
        "harm-by-pair",
    ),
)
