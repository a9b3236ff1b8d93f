"""Features of a connection's rounds that identify its congestion control, independent of the path's speed.

The ideas are from Nebby (the shape of bytes in flight between two back-offs) and CCAnalyzer (comparison with runs of
known algorithms). Comments state the purpose of each feature.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tailback.capture.rounds import Rounds

Array = npt.NDArray[np.float64]

#: Value of a feature that a connection did not show (no loss, no mark, too short); below all other values.
ABSENT = -99.0
#: Value of a feature that the capture cannot show.
UNKNOWN = float("nan")
#: Hybla's reference round trip.
_HYBLA_S = 0.025
_FEW = 1e-9
#: Features of `_start`.
_START = (
    "start_steepest",
    "start_median",
    "start_rounds_to_event",
    "start_flat_rounds",
    "start_peak_over_typical",
)
#: Features of `_growth`.
_GROWTH = (
    "step_median",
    "step_q10",
    "step_q25",
    "step_q75",
    "step_q90",
    "step_mean",
    "step_over_window",
    "step_over_window_q90",
    "step_over_hybla",
    "step_per_s",
    "step_early",
    "step_middle",
    "step_late",
    "step_first_s",
    "step_third_s",
    "step_later",
    "step_with_window",
    "step_with_age",
    "step_with_queue",
    "step_queue_low",
    "step_queue_high",
    "share_falling",
    "share_still",
    "share_fast",
)


def _log(value: float) -> float:
    return float(np.log2(max(value, 2.0**-20)))


def _signed(value: float) -> float:
    """Maps coefficients of either sign and any magnitude to one axis."""
    return float(np.arcsinh(value))


def _quantile(values: Array, share: float) -> float:
    values = values[np.isfinite(values)]
    return float(np.quantile(values, share)) if len(values) else ABSENT


def _together(one: Array, other: Array) -> float:
    """Correlation; absent if either is constant."""
    good = np.isfinite(one) & np.isfinite(other)
    one, other = one[good], other[good]
    if len(one) < 8 or one.std() < _FEW or other.std() < _FEW:
        return ABSENT
    return float(np.corrcoef(one, other)[0, 1])


def features(it: Rounds) -> dict[str, float]:
    """Every feature by name; NaN for one that the capture began too late to show."""
    out: dict[str, float] = {}
    window = it.window
    out["base_log_ms"] = _log(it.base_s * 1e3)
    out["window_log"] = _log(_quantile(window, 0.5))
    out["window_top_log"] = _log(_quantile(window, 0.98))
    ends = _epochs(it)
    out |= _start(it)
    out |= _back_offs(it)
    out |= _growth(it, ends)
    out |= _shape(it, ends)
    out |= _delay(it)
    out |= _dips(it)
    out |= _rhythm(it)
    out |= _marks(it)
    kept = _START if not it.has_start else ()
    return {key: value if np.isfinite(value) or key in kept else ABSENT for key, value in out.items()}


def _epochs(it: Rounds) -> list[tuple[int, int]]:
    """Index ranges of rounds between two events; after a repair, a range begins when the repair ends."""
    count = len(it.t_s)
    begins = [0, *(int(np.searchsorted(it.t_s, over)) for over in it.over_s)]
    stops = [*(int(np.searchsorted(it.t_s, start, side="right")) - 1 for start in it.event_s), count]
    return [(begin, stop) for begin, stop in zip(begins, stops, strict=True) if stop - begin >= 3]


def _start(it: Rounds) -> dict[str, float]:
    """Slow start: its growth and how it ended; unknown if the capture began later."""
    if not it.has_start:
        return dict.fromkeys(_START, UNKNOWN)
    first = int(np.searchsorted(it.t_s, it.event_s[0])) if len(it.event_s) else len(it.t_s)
    window = it.window[: max(first, 2)]
    ratio = window[1:] / np.maximum(window[:-1], 1.0)
    steep = np.flatnonzero(ratio > 1.25)
    ended = int(steep[-1]) + 1 if len(steep) else 0
    rest = it.window[ended + 1 :]
    typical = _quantile(rest, 0.5)
    peak = float(np.nanmax(window)) if np.isfinite(window).any() else ABSENT
    return {
        # BBR's 2.89 and Hybla's 2^r are steeper than 2.
        "start_steepest": _quantile(ratio[:10], 1.0),
        "start_median": _quantile(ratio[:5], 0.5),
        # HyStart, Vegas and LEDBAT leave slow start before a loss.
        "start_rounds_to_event": float(min(first, 200)),
        "start_flat_rounds": float(min(max(first - ended, 0), 200)),
        "start_peak_over_typical": _log(peak / typical) if typical > 0 and peak > 0 else ABSENT,
    }


def _near(values: Array, place: int, before: int, after: int) -> Array:
    return values[max(place - before, 0) : max(place + after, 0)]


def _back_offs(it: Rounds) -> dict[str, float]:
    """The share of the window that remains after an event, and what that share depends on."""
    kept, queued, rate_kept, gaps, gap_rounds = [], [], [], [], []
    window = it.window
    for index, (start, over, repair) in enumerate(zip(it.event_s, it.over_s, it.is_repair, strict=True)):
        if not repair or not np.isfinite(over):
            continue
        a, b = int(np.searchsorted(it.t_s, start, side="right")) - 1, int(np.searchsorted(it.t_s, over))
        before, after = _near(window, a, 2, 1), window[b : b + 2]
        before, after = before[np.isfinite(before)], after[np.isfinite(after)]
        if index:
            gaps.append(start - it.event_s[index - 1])
            gap_rounds.append(a - int(np.searchsorted(it.t_s, it.event_s[index - 1], side="right")) + 1)
        if not len(before) or not len(after) or before.max() < 4:
            continue
        share = float(np.min(after) / before.max())
        late = _near(it.rtt_s, a, 2, 1)
        late = late[np.isfinite(late)]
        pace = _near(it.acked, a, 3, 0) / np.maximum(_near(it.rtt_s, a, 3, 0), _FEW)
        pace = pace[np.isfinite(pace)]
        # The first event ends slow start, whose overshoot hides the rule.
        if index == 0 and len(it.event_s) > 2:
            continue
        kept.append(share)
        queued.append(it.base_s / late.max() if len(late) else np.nan)
        rate_kept.append(np.min(after) / (pace.max() * it.base_s) if len(pace) and pace.max() > 0 else np.nan)
    kept_, queued_, rate_ = np.array(kept, float), np.array(queued, float), np.array(rate_kept, float)
    return {
        "kept_q10": _quantile(kept_, 0.1), "kept_q25": _quantile(kept_, 0.25), "kept_median": _quantile(kept_, 0.5),
        "kept_q75": _quantile(kept_, 0.75), "kept_q90": _quantile(kept_, 0.9),
        # H-TCP keeps RTTmin/RTTmax, Westwood the bandwidth-delay product.
        "kept_less_rtt_ratio": _quantile(kept_ - queued_, 0.5) if len(kept_) else ABSENT,
        "kept_less_rtt_spread": float(np.nanstd(kept_ - queued_)) if len(kept_) > 2 else ABSENT,
        "kept_of_bdp": _quantile(rate_, 0.5),
        "kept_of_bdp_spread": float(np.nanstd(rate_)) if len(rate_) > 2 else ABSENT,
        "kept_with_queue": _together(kept_, queued_),
        "events_per_100_rounds": 100.0 * float(it.is_repair.sum()) / len(it.t_s),
        "gap_log_s": _log(_quantile(np.array(gaps, float), 0.5)) if gaps else ABSENT,
        "gap_log_rounds": _log(_quantile(np.array(gap_rounds, float), 0.5)) if gap_rounds else ABSENT,
        "gap_spread": float(np.std(gaps) / np.mean(gaps)) if len(gaps) > 2 else ABSENT,
    }  # fmt: skip


def _growth(it: Rounds, ends: list[tuple[int, int]]) -> dict[str, float]:
    """Growth in segments per round (early, middle, late), and its dependence on time, window and queue."""
    steps, sizes, since, place, queues = [], [], [], [], []
    queue = it.rtt_s / it.base_s - 1.0
    for index, (begin, stop) in enumerate(ends):
        # The first epoch is slow start.
        if index == 0 and begin == 0 and len(ends) > 2:
            continue
        own = it.window[begin:stop]
        # Over two rounds, as a single one shows the granularity of bursts.
        step = (own[2:] - own[:-2]) / 2
        steps.append(step)
        sizes.append(own[1:-1])
        since.append(it.t_s[begin + 1 : stop - 1] - it.t_s[begin])
        place.append((np.arange(len(step)) + 0.5) / max(len(step), 1))
        queues.append(queue[begin + 1 : stop - 1])
    if not steps:
        return dict.fromkeys(_GROWTH, ABSENT)
    step, size, age, part, waits = (np.concatenate(all_) for all_ in (steps, sizes, since, place, queues))
    good = np.isfinite(step) & np.isfinite(size)
    step, size, age, part, waits = step[good], size[good], age[good], part[good], waits[good]
    if not len(step):
        return dict.fromkeys(_GROWTH, ABSENT)

    def middle(chosen: npt.NDArray[np.bool_]) -> float:
        return _quantile(step[chosen], 0.5) if chosen.sum() > 2 else ABSENT

    typical = _quantile(step, 0.5)
    round_s = _quantile(it.rtt_s, 0.5)
    hybla = max(it.base_s / _HYBLA_S, 1.0) ** 2
    waiting = np.isfinite(waits)
    low = waits <= _quantile(waits, 0.33) if waiting.any() else np.zeros(len(step), dtype=np.bool_)
    high = waits >= _quantile(waits, 0.67) if waiting.any() else low
    return {
        "step_median": _signed(typical),
        "step_q10": _signed(_quantile(step, 0.1)),
        "step_q25": _signed(_quantile(step, 0.25)),
        "step_q75": _signed(_quantile(step, 0.75)),
        "step_q90": _signed(_quantile(step, 0.9)),
        "step_mean": _signed(float(step.mean())),
        "step_over_window": _quantile(step / np.maximum(size, 1.0), 0.5),
        "step_over_window_q90": _quantile(step / np.maximum(size, 1.0), 0.9),
        "step_over_hybla": _signed(typical / hybla),
        "step_per_s": _signed(typical / round_s) if round_s > 0 else ABSENT,
        "step_early": _signed(middle(part < 0.25)), "step_middle": _signed(middle((part > 0.35) & (part < 0.65))),
        "step_late": _signed(middle(part > 0.75)),
        # H-TCP is like Reno for a second; then its growth increases with time.
        "step_first_s": _signed(middle((age > 0) & (age < 1.0))),
        "step_third_s": _signed(middle((age > 2) & (age < 3.5))),
        "step_later": _signed(middle(age > 5)),
        "step_with_window": _together(step, size), "step_with_age": _together(step, age),
        "step_with_queue": _together(step, waits),
        "step_queue_low": _signed(middle(low)), "step_queue_high": _signed(middle(high)),
        "share_falling": float((step < -0.5).mean()), "share_still": float((np.abs(step) < 0.3).mean()),
        "share_fast": float((step > 2.0).mean()),
    }  # fmt: skip


def _shape(it: Rounds, ends: list[tuple[int, int]]) -> dict[str, float]:
    """The curve between two back-offs with both axes scaled to 0..1; and CUBIC's coefficient, in seconds."""
    quarters, halves, three, cubics, squares, lengths = [], [], [], [], [], []
    for index, (begin, stop) in enumerate(ends):
        if index == 0 and begin == 0 and len(ends) > 2:
            continue
        y = it.window[begin:stop]
        x = it.t_s[begin:stop] - it.t_s[begin]
        good = np.isfinite(y)
        x, y = x[good], y[good]
        lengths.append(len(y))
        if len(y) < 6 or x[-1] <= 0:
            continue
        # A running median removes bursts.
        smooth = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(y, 1, mode="edge"), 3), axis=1)
        low, top = smooth[0], smooth[-3:].max()
        if top - low > max(2.0, 0.05 * top):
            at = np.interp([0.25, 0.5, 0.75], x / x[-1], (smooth - low) / (top - low))
            quarters.append(at[0])
            halves.append(at[1])
            three.append(at[2])
        if len(y) >= 8:
            fit = np.polyfit(x / x[-1], smooth, 3)
            cubics.append(fit[0] / x[-1] ** 3)
            squares.append(np.polyfit(x / x[-1], smooth, 2)[0] / x[-1] ** 2)
    arrays = [np.array(all_, float) for all_ in (quarters, halves, three, cubics, squares, lengths)]
    quarter, half, third, cubic, square, length = arrays
    return {
        "curve_quarter": _quantile(quarter, 0.5), "curve_half": _quantile(half, 0.5),
        "curve_three_quarters": _quantile(third, 0.5), "curve_half_q10": _quantile(half, 0.1),
        "curve_half_q90": _quantile(half, 0.9),
        "curve_cubic": _signed(10 * _quantile(cubic, 0.5)) if len(cubic) else ABSENT,
        "curve_square": _signed(10 * _quantile(square, 0.5)) if len(square) else ABSENT,
        "epoch_rounds_log": _log(_quantile(length, 0.5)) if len(length) else ABSENT,
        "epoch_longest_log": _log(float(length.max())) if len(length) else ABSENT,
    }  # fmt: skip


def _delay(it: Rounds) -> dict[str, float]:
    """The standing queue: Vegas keeps a few segments, LEDBAT a fixed delay, BBR a share of the path's capacity."""
    settled = slice(len(it.t_s) // 4, None)
    rtt, window = it.rtt_s[settled], it.window[settled]
    queue = rtt - it.base_s
    backlog = window * (1.0 - it.base_s / rtt)
    rate = it.acked[settled] / np.maximum(rtt, _FEW)
    fastest = _quantile(rate, 0.95)
    return {
        "queue_ms_q10": _log(1 + 1e3 * max(_quantile(queue, 0.1), 0)),
        "queue_ms_median": _log(1 + 1e3 * max(_quantile(queue, 0.5), 0)),
        "queue_ms_q90": _log(1 + 1e3 * max(_quantile(queue, 0.9), 0)),
        "queue_over_base": _quantile(queue / it.base_s, 0.5), "queue_over_base_q90": _quantile(queue / it.base_s, 0.9),
        "backlog_q10": _signed(_quantile(backlog, 0.1)), "backlog_median": _signed(_quantile(backlog, 0.5)),
        "backlog_q90": _signed(_quantile(backlog, 0.9)),
        "window_of_bdp": _quantile(window, 0.5) / (fastest * it.base_s) if fastest > 0 else ABSENT,
        "window_of_bdp_q90": _quantile(window, 0.9) / (fastest * it.base_s) if fastest > 0 else ABSENT,
        "window_spread": float(np.nanstd(window) / np.nanmean(window)) if np.isfinite(window).sum() > 3 else ABSENT,
        "rate_spread": _quantile(rate, 0.9) / max(_quantile(rate, 0.5), _FEW),
        "window_with_queue": _together(window, queue),
    }  # fmt: skip


def _dips(it: Rounds) -> dict[str, float]:
    """Window reductions without loss: BBR probes for the smallest round trip, CDG reacts to growing delay."""
    window = it.window
    typical = _quantile(window, 0.5)
    calm = np.ones(len(window), dtype=np.bool_)
    for start, over in zip(it.event_s, it.over_s, strict=True):
        first = int(np.searchsorted(it.t_s, start, side="right")) - 2
        last = int(np.searchsorted(it.t_s, over if np.isfinite(over) else it.t_s[-1])) + 3
        calm[max(first, 0) : last] = False
    calm[: min(10, len(calm) // 4)] = False
    ratio = np.full(len(window), np.nan)
    ratio[1:] = window[1:] / np.maximum(window[:-1], 1.0)
    falls = ratio[calm & (ratio < 0.9)]
    deep = calm & (window < 0.6 * typical)
    starts = np.flatnonzero(deep & ~np.roll(deep, 1))
    apart = np.diff(it.t_s[starts])
    least = calm & np.isfinite(window)
    return {
        "falls_per_100_rounds": 100.0 * len(falls) / max(int(calm.sum()), 1),
        "fall_median": _quantile(falls, 0.5), "fall_q10": _quantile(falls, 0.1),
        "dips_per_10_s": 10.0 * len(starts) / max(float(it.t_s[-1]), _FEW),
        "dip_interval_s": _quantile(apart, 0.5) if len(apart) else ABSENT,
        "least_window": _log(float(window[least].min())) if least.any() else ABSENT,
        "least_over_typical": float(window[least].min() / typical) if least.any() and typical > 0 else ABSENT,
    }  # fmt: skip


def _rhythm(it: Rounds) -> dict[str, float]:
    """Periodic probing: BBR v1 sends faster in one of eight rounds."""
    fine = it.fine[len(it.fine) // 4 :]
    out = {"rhythm_strength": ABSENT, "rhythm_lag": ABSENT, "rhythm_eight": ABSENT, "burst_share": ABSENT}
    if len(fine) < 256:
        return out
    # Rounds have the length of the typical round trip, not of the smallest one.
    per_round = 4 * max(_quantile(it.rtt_s[len(it.rtt_s) // 4 :], 0.5) / it.base_s, 1.0)
    kernel = max(round(per_round / 2), 1)
    series = np.convolve(fine, np.ones(kernel) / kernel, mode="same")
    width = max(round(24 * per_round), 3)
    if len(series) <= 2 * width:
        return out
    series = series - np.convolve(series, np.ones(width) / width, mode="same")
    count = 1 << int(2 * len(series) - 1).bit_length()
    spectrum = np.fft.rfft(series, count)
    own = np.fft.irfft(spectrum * np.conj(spectrum), count)[: len(series)]
    if own[0] <= 0:
        return out
    own = own / own[0]
    lags = np.arange(int(3 * per_round), min(int(14 * per_round), len(own)))
    if not len(lags):
        return out
    best = lags[int(np.argmax(own[lags]))]
    eight = own[int(7 * per_round) : int(9 * per_round) + 1]
    out["rhythm_strength"], out["rhythm_lag"] = float(own[best]), float(best / per_round)
    out["rhythm_eight"] = float(eight.max()) if len(eight) else ABSENT
    out["burst_share"] = float((fine == 0).mean())
    return out


def _marks(it: Rounds) -> dict[str, float]:
    """Response to ECN marks: DCTCP reduces a little every round, others halve the window."""
    marks = it.event_s[~it.is_repair]
    kept = []
    for start in marks:
        place = int(np.searchsorted(it.t_s, start, side="right")) - 1
        before, after = _near(it.window, place, 2, 1), it.window[place + 1 : place + 3]
        if np.isfinite(before).any() and np.isfinite(after).any():
            kept.append(float(np.nanmin(after) / np.nanmax(before)))
    gaps = np.diff(marks)
    return {
        "marks_per_100_rounds": 100.0 * len(marks) / len(it.t_s),
        "mark_kept_median": _quantile(np.array(kept, float), 0.5),
        "mark_kept_q10": _quantile(np.array(kept, float), 0.1),
        "mark_gap_rounds": _quantile(gaps, 0.5) / _quantile(it.rtt_s, 0.5) if len(gaps) else ABSENT,
    }  # fmt: skip
