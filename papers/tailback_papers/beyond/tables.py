"""Tables of the report: the answer for each path, every pair ranked."""

from __future__ import annotations

from tailback.experiment import Data, TableOut

from .grid import PATHS, STANDARD
from .harm import ENOUGH, Outcome, best_mbps, eligible, frontier, outcomes, standings

SHOWN = 8


def _interval(estimate: float, low: float, high: float, digits: int = 0) -> str:
    if low != low:  # one seed
        return f"{estimate:.{digits}f}"
    return f"{estimate:.{digits}f} ({low:.{digits}f} … {high:.{digits}f})"


def _harm(one: Outcome) -> str:
    return _interval(100.0 * one.harm.estimate, 100.0 * one.harm.low, 100.0 * one.harm.high)


def _feels(one: Outcome) -> str:
    return (
        f"call R {one.mean('rating'):.0f} (MOS {one.mean('mos'):.1f}), "
        f"page {one.mean('page_s'):.2g} s, {one.throughput.estimate:.3g} Mbit/s"
    )


def _equals(best: Outcome, ranked: list[Outcome]) -> list[str]:
    """Pairs whose harm is within two points, or within the seeds' spread, of the best's."""
    limit = best.harm.estimate + 0.02
    if best.harm.high == best.harm.high:  # several seeds
        limit = max(limit, best.harm.high)
    return [one.label for one in ranked if one is not best and one.harm.estimate <= limit]


def answer_rows(data: Data) -> list[list[str]]:
    """The answers as rows: path, pair, its harm and throughput, CUBIC × FIFO's, and how many pairs do as well."""
    rows = []
    for path in PATHS.values():
        found = outcomes(data, path)
        ranked = eligible(found)
        if ranked:
            best, top = ranked[0], best_mbps(found)
            standard = next((one for one in found if (one.algorithm, one.queue) == STANDARD), None)
            share = [
                f"{_harm(one)} at {100 * one.throughput.estimate / top:.0f} %" if one else "–"
                for one in (best, standard)
            ]
            close = _equals(best, ranked)
            rows.append([path.title, best.label, *share, f"{len(close)}: {', '.join(close[:3])}" if close else "none"])
    return rows


def answers(data: Data) -> list[str]:
    """One sentence a path, in plain words."""
    out = []
    for path in PATHS.values():
        found = outcomes(data, path)
        ranked = eligible(found)
        if not ranked:
            continue
        best = ranked[0]
        close = _equals(best, ranked)
        standard = next((one for one in found if (one.algorithm, one.queue) == STANDARD), None)
        words = f"{path.title}: {best.label} harms least, {_harm(best)} of 100 ({_feels(best)})"
        if close:
            others = ", ".join(close[:4]) + (f" and {len(close) - 4} more" if len(close) > 4 else "")
            words += f"; within 2 points or the seeds' spread of it: {others}"
        if standard is not None and standard is not best:
            words += f". CUBIC × FIFO: {_harm(standard)} ({_feels(standard)})"
        out.append(words + ".")
    return out


def all_tables(data: Data) -> list[TableOut]:
    """The answers, the ranking over all paths, and the best pairs of each path."""
    ranked = [
        [
            str(place),
            one.label,
            _interval(100 * one.harm.estimate, 100 * one.harm.low, 100 * one.harm.high, 1),
            f"{100 * one.share:.0f}",
            f"{100 * one.worst.harm.estimate:.0f}, {one.worst.path.title}",
        ]
        for place, one in enumerate(standings(data), 1)
    ]
    by_path = []
    for path in PATHS.values():
        found = outcomes(data, path)
        best, front = best_mbps(found), frontier(found)
        for place, one in enumerate(eligible(found)[:SHOWN], 1):
            by_path.append(
                [
                    path.title,
                    str(place),
                    one.label,
                    _harm(one),
                    f"{one.mean('rating'):.0f}",
                    f"{one.mean('mos'):.1f}",
                    f"{1e3 * one.mean('call_delay_p95_s'):.0f}",
                    f"{one.mean('page_s'):.3g}",
                    _interval(one.throughput.estimate, one.throughput.low, one.throughput.high, 2),
                    f"{100 * one.throughput.estimate / best:.0f}",
                    "yes" if one in front else "",
                ]
            )
    alone = [
        [path.title, f"{first['rating']:.0f}", f"{1e3 * first['call_delay_s']:.0f}", f"{first['page_s']:.3g}"]
        for path in PATHS.values()
        if (first := data.first_run(path=path.name, algorithm=None, queue="fifo")) is not None
    ]
    return [
        TableOut(
            "answers",
            "The answer for each path",
            "The pair that harms least with at least nine tenths of the best throughput, beside CUBIC × FIFO: harm in "
            "points of 100, and throughput as a share of the best on the path.",
            ["path", "harms least", "its harm", "CUBIC × FIFO's harm", "pairs that do as well"],
            answer_rows(data),
        ),
        TableOut(
            "ranking",
            "Every pair over all paths",
            "Mean over the paths; harm in points of 100, with the 95 % interval over seeds. Throughput is a share of "
            "the best on the path.",
            ["", "pair", "harm", "throughput (%)", "worst path"],
            ranked,
        ),
        TableOut(
            "by-path",
            "The least harmful pairs of each path",
            f"Among those with at least {100 * ENOUGH:.0f} % of the best throughput. In brackets: 95 % interval of the "
            "mean over seeds.",
            [
                "path", "", "pair", "harm", "R", "MOS", "call p95 (ms)", "page (s)", "throughput (Mbit/s)",
                "of the best (%)", "Pareto",
            ],
            by_path,
        ),
        TableOut(
            "alone",
            "Nobody else on the path",
            "What call and reader have without the transfers: harm is measured against this.",
            ["path", "R", "call's delay (ms)", "page (s)"],
            alone,
        ),
    ]  # fmt: skip
