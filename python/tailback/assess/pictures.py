"""Small inline SVG pictures, which follow the page's colours (light or dark) and width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from tailback.assess.procedure import Cell
from tailback.assess.verdicts import OWN, Found
from tailback.numbers import written

if TYPE_CHECKING:
    from tailback.assess.run import Assessment

__all__ = ["curves", "gauge"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560.0, 190.0, 46.0, 30.0, 22.0
#: Length of the gauge; 1 is the distance from the baseline to the bound.
REACH = 3.0


def curves(done: Assessment, cell: Cell) -> Markup:
    """Curves of every candidate in the first seed: goodput, queueing delay or, for transfers alone, their times."""
    labels = [
        label for label in dict.fromkeys((done.candidate.label, *done.against)) if (cell.name, label) in done.pictures
    ]
    shown = {label: done.pictures[cell.name, label] for label in labels}
    for key, title in (
        ("test", "Mbit/s of the flows under test"),
        ("times_ms", "ms a transfer takes, in order"),
        ("wait_ms", "ms that packets wait, median"),
    ):
        found = [(label, rows[key]) for label, rows in shown.items() if rows.get(key)]
        if found:
            ends = ("shortest", "longest") if key == "times_ms" else ("0", f"{cell.seconds:g} s")
            bound = _bound_of_wait(done, cell) if key == "wait_ms" else math.nan
            return _lines(f"{title}, seed 1", found, ends, bound)
    found = [(label, rows["others"]) for label, rows in shown.items() if rows.get("others")]
    return _lines("Mbit/s of the others, seed 1", found, ("0", f"{cell.seconds:g} s")) if found else Markup("")


def _bound_of_wait(done: Assessment, cell: Cell) -> float:
    """The candidate's own bound on the median wait in a cell; NaN if it sets none."""
    found = (one for criterion in done.criteria for one in criterion.found if one.cell == cell.name)
    own = (one.bound for one in found if one.against == OWN and (one.rule.of or one.statistic) == "wait_p50")
    return next(own, math.nan)


def _lines(
    title: str, found: Sequence[tuple[str, Sequence[float]]], ends: tuple[str, str], bound: float = math.nan
) -> Markup:
    """Curves with equally spaced points."""
    every = {label: max(values) for label, values in found}
    others = [highest for label, highest in every.items() if not label.startswith("drop-tail")]
    top = max([*(others or every.values()), *([1.1 * bound] if math.isfinite(bound) else [])]) or 1.0
    if max(every.values()) > top:
        title += f"; drop-tail reaches {written(max(every.values()), 3)}"
    wide, high = WIDTH - LEFT - 8.0, HEIGHT - BOTTOM - TOP
    parts = [f'<path class="axis" d="M{LEFT} {TOP}V{TOP + high}H{WIDTH - 8}"/>']
    for share in (0.0, 0.5, 1.0):
        y = TOP + high * (1.0 - share)
        parts.append(f'<path class="axis" d="M{LEFT - 4} {y:.1f}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{written(top * share, 2)}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 12}">{ends[0]}</text>')
    parts.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 12}" text-anchor="end">{ends[1]}</text>')
    parts.append(f'<text x="{LEFT}" y="12">{escape(title)}</text>')
    if math.isfinite(bound):
        y = TOP + high * (1.0 - bound / top)
        parts.append(f'<path class="edge" stroke-dasharray="5 4" d="M{LEFT} {y:.1f}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{WIDTH - 8}" y="{y - 4:.1f}" text-anchor="end">at most {written(bound, 3)}</text>')
    # The candidate is drawn last, over the others.
    for number, (_, values) in reversed(list(enumerate(found))):
        step = wide / max(len(values) - 1, 1)
        points = " ".join(
            f"{LEFT + step * at:.1f},{TOP + high * (1.0 - min(value / top, 1.0)):.1f}"
            for at, value in enumerate(values)
        )
        parts.append(f'<polyline class="line s{min(number, 4)}" points="{points}"/>')
    # The legend stands below the axis, in as many lines as it needs.
    at, base = LEFT, HEIGHT + 6.0
    for number, (label, _) in enumerate(found):
        needs = 34.0 + 6.5 * len(label)
        if at > LEFT and at + needs > WIDTH:
            at, base = LEFT, base + 16.0
        parts.append(f'<path class="line s{min(number, 4)}" d="M{at:.0f} {base - 4:g}h16"/>')
        parts.append(f'<text x="{at + 20:.0f}" y="{base:g}">{escape(label)}</text>')
        at += needs
    size, body = f"0 0 {WIDTH:g} {base + 6:g}", "".join(parts)
    return Markup(f'<svg class="picture" viewBox="{size}" role="img" aria-label="{escape(title)}">{body}</svg>')


def _has_bound(found: Found) -> bool:
    return found.against == OWN or found.rule.is_absolute


def gauge(found: Found) -> Markup:
    """Where the candidate lies between the baseline and the bound, with its interval; red is beyond the bound."""
    shown = found.candidate if _has_bound(found) else found.differences.get(found.against)
    if shown is None or not math.isfinite(shown.estimate):
        return Markup("")
    if _has_bound(found):
        # The bound depends on no baseline: 1 is at the bound, 2 is twice the bound or, if more is better, zero.
        step, origin = (-1.0 if found.rule.more else 1.0) * abs(found.bound), found.bound
    else:
        step, origin = found.bound - found.baselines[found.against].estimate, 0.0
    if not step or not math.isfinite(step):
        return Markup("")
    low, middle, high = sorted(
        max(-REACH, min(REACH, (value - origin) / step + (1.0 if _has_bound(found) else 0.0)))
        if math.isfinite(value)
        else 0.0
        for value in (shown.low, shown.estimate, shown.high)
    )

    def x(value: float) -> float:
        return 70.0 + value * 22.0

    start = "nothing" if _has_bound(found) else found.against
    label = f"{found.rule.title}: {middle:.2g} of the way from {start} to the bound"
    return Markup(
        f'<svg width="140" height="18" viewBox="0 0 140 18" role="img" aria-label="{escape(label)}">'
        f'<rect class="zone" x="{x(1):.1f}" y="1" width="{140 - x(1):.1f}" height="16"/>'
        f'<path class="axis" d="M2 9H138M{x(0):.1f} 3V15"/><path class="edge" d="M{x(1):.1f} 1V17"/>'
        f'<path class="bar" d="M{x(low):.1f} 9H{x(high):.1f}"/>'
        f'<circle class="dot" cx="{x(middle):.1f}" cy="9" r="3.5"/></svg>'
    )
