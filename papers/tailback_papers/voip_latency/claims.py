"""Every claim of the paper, how it is measured and when it counts.

Numbers the paper prints count as reproduced within ±15 %, partly within ±30 %; the ratio 1.14 within ±5 and ±10 %, lest
no difference at all pass for it. “Three links” are those of the paper's
distributions (Figs 9–11): 100 Mbit/s × 16 ms, 10 Mbit/s × 80 ms, 100 Mbit/s × 80 ms, queue 1 BDP.
“Segments” are full packets of 1448 bytes of payload. A loaded round trip has a full queue in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from tailback.experiment import AtLeast, AtMost, Claim, Data, Measured, Near, Summary, fitted

from .extract import QUANTILES, quantile_distance, quantile_shift
from .grid import (
    CDF_PATHS,
    DISTURBANCES,
    FIGURE_PATH,
    MTU,
    QUEUES,
    RATES_MBIT,
    RTTS_MS,
    SENDERS,
    UNTIMED,
    Path,
    disturbed_factors,
    factors_of,
    path_title,
    window_segments,
)

NAN = float("nan")
TIE = 0.05
"""Two delays or durations closer than this count as equal."""

VISIBLE_SEGMENTS = 25.0
"""Windows below this show no differences (000-Q4); claims about shapes leave such paths out."""

PATHS: tuple[Path, ...] = tuple((r, t, q) for q in QUEUES for r in RATES_MBIT for t in RTTS_MS)


def at(data: Data, seed: int, path: Path, sender: str) -> Summary | None:
    """Summary of a grid cell."""
    return data.run(seed, **factors_of(path, sender))


def median_epoch(summary: Summary | None) -> float:
    """Median duration of the steady epochs, NaN if there is none."""
    return float(np.median(summary["epoch_s"])) if summary and summary["epoch_s"] else NAN


def median_delay(summary: Summary | None) -> float:
    """Median induced delay over the typical epochs, milliseconds."""
    return float(summary["delay_ms"][100]) if summary and summary["delay_ms"] else NAN


def full_ms(summary: Summary, path: Path) -> float:
    """What a full queue adds, milliseconds."""
    return 1e3 * (float(summary["loaded_rtt_s"]) - path[1] * 1e-3)


def normalised(data: Data, seed: int, path: Path, sender: str) -> list[float] | None:
    """Quantiles of the induced delay as shares of what a full queue adds."""
    summary = at(data, seed, path, sender)
    if not summary or not summary["delay_ms"]:
        return None
    full = full_ms(summary, path)
    return [value / full for value in summary["delay_ms"]]


def figure_path() -> Path:
    """The path of the paper's Figs 2–8."""
    return (*FIGURE_PATH, "1bdp")


def cdf_paths() -> list[Path]:
    """The paths of the paper's Figs 9–11."""
    return [(*path, "1bdp") for path in CDF_PATHS]


def _share(facts: Iterable[bool]) -> float:
    found = list(facts)
    return float(np.mean(found)) if found else NAN


def _epoch_ratio(algorithm: str) -> Callable[[Data, int], Measured | None]:
    """Linux over FreeBSD, median epochs, on the figures' path; the other paths' ratios as parts."""

    def measure(data: Data, seed: int) -> Measured | None:
        linux = median_epoch(at(data, seed, figure_path(), f"linux-{algorithm}"))
        freebsd = median_epoch(at(data, seed, figure_path(), f"freebsd-{algorithm}"))
        others = [
            ratio
            for path in PATHS
            if window_segments(*path) >= VISIBLE_SEGMENTS
            and not np.isnan(
                ratio := median_epoch(at(data, seed, path, f"linux-{algorithm}"))
                / median_epoch(at(data, seed, path, f"freebsd-{algorithm}"))
            )
        ]
        parts = {"Linux (s)": linux, "FreeBSD (s)": freebsd}
        if others:
            parts["median ratio over all comparable paths"] = float(np.median(others))
        return Measured(linux / freebsd, parts)

    return measure


def _q3(data: Data, seed: int) -> Measured | None:
    parts = {}
    for path in cdf_paths():
        summary = at(data, seed, path, "linux-cubic")
        if summary:
            parts[path_title(*path[:2])] = 100.0 * (1.0 - float(summary["above_three_quarters"]))
    return Measured(float(np.median(list(parts.values()))), parts) if parts else None


def distinguishability(data: Data, seed: int, path: Path) -> float:
    """Largest mean distance between two algorithms' delay distributions on the same system, in packets of queue."""
    pairs = [("freebsd-reno", "freebsd-htcp"), ("linux-reno", "linux-htcp"), ("linux-reno", "linux-cubic"),
             ("linux-htcp", "linux-cubic")]  # fmt: skip
    distances = []
    for first, second in pairs:
        a, b = at(data, seed, path, first), at(data, seed, path, second)
        if a and b and a["delay_ms"] and b["delay_ms"]:
            packet_ms = 8.0 * MTU / (path[0] * 1e3)
            distances.append(quantile_shift(a["delay_ms"], b["delay_ms"]) / packet_ms)
    return max(distances, default=NAN)


SERIES = 2
"""The fewest bursts that are a series."""

DISCERNIBLE = 1.0
"""A queue's grain is one packet: algorithms that fill it alike to within that cannot be told apart."""


def _q4(data: Data, seed: int) -> Measured | None:
    points = [(window_segments(*path), d) for path in PATHS if not np.isnan(d := distinguishability(data, seed, path))]
    if len(points) < 6:
        return None
    points.sort()
    sizes = [size for size, _ in points]
    cuts = [0.5 * sizes[0], *(float(np.sqrt(a * b)) for a, b in pairwise(sizes))]
    wrong = [sum((size > cut) != (d > DISCERNIBLE) for size, d in points) for cut in cuts]
    best = min(wrong)
    cut = max(c for c, errors in zip(cuts, wrong, strict=True) if errors == best)
    beyond = min(size for size in sizes if size > cut)
    parts = {"largest window without (segments)": max((s for s in sizes if s <= cut), default=NAN)}
    return Measured(beyond, parts | {"paths on the wrong side": float(best)})


def _q5(data: Data, seed: int) -> Measured | None:
    summary = at(data, seed, figure_path(), "linux-cubic")
    if not summary:
        return None
    # From the fourth event on: before that the window still falls from slow start's height.
    falls = [-d for d in np.diff(summary["cwnd_before"][3:]) if d < 0]
    if not falls:
        return Measured(NAN)
    return Measured(float(np.median(falls)), {"largest (segments)": float(max(falls)), "events": float(len(falls))})


def _q6(data: Data, seed: int) -> Measured | None:
    parts = {}
    for rtt in (80, 160):
        duration = median_epoch(at(data, seed, (100, rtt, "1bdp"), "linux-htcp"))
        if not np.isnan(duration):
            parts[f"{rtt} ms (s)"] = duration
    return Measured(min(parts.values()), parts) if len(parts) == 2 else None


def _q7(data: Data, seed: int) -> Measured | None:
    parts = {}
    for sender in SENDERS:
        summary = at(data, seed, figure_path(), sender.key)
        if summary and summary["reaction_s"]:
            parts[sender.title] = float(np.nanmedian(summary["reaction_s"])) / float(summary["loaded_rtt_s"])
    return Measured(max(parts.values()), parts) if parts else None


def _q8(data: Data, seed: int) -> Measured | None:
    parts = {}
    for sender in SENDERS:
        summary = at(data, seed, figure_path(), sender.key)
        if not summary or not summary["window_complete"]:
            continue
        first = int(summary["window_first"])
        three = summary["epoch_s"][first : first + 3]
        compared = [three[0], three[2]] if sender.cc == "cubic" else three
        parts[sender.title] = 100.0 * (max(compared) - min(compared)) / float(np.mean(compared))
    return Measured(max(parts.values()), parts) if len(parts) == len(SENDERS) else None


def _l1(data: Data, seed: int) -> Measured | None:
    facts = []
    parts = {}
    for path in cdf_paths():
        medians = {sender.key: median_delay(at(data, seed, path, sender.key)) for sender in SENDERS}
        if any(np.isnan(v) for v in medians.values()):
            continue
        for key, value in medians.items():
            parts[f"{path_title(*path[:2])} {key} (ms)"] = value
        facts.append(medians["linux-cubic"] >= (1 - TIE) * max(medians.values()))
        facts += [medians[f"{os}-htcp"] < (1 - TIE) * medians[f"{os}-reno"] for os in ("linux", "freebsd")]
    return Measured(100.0 * _share(facts), parts) if facts else None


def _l2(data: Data, seed: int) -> Measured | None:
    parts = {}
    for sender in ("freebsd-htcp", "linux-htcp", "linux-cubic"):
        summary = at(data, seed, figure_path(), sender)
        if summary and "slope" in summary:
            parts[f"{sender} (%)"] = 100.0 * abs(summary["slope"][0] / (8.0 / (FIGURE_PATH[0] * 1e6)) - 1.0)
            parts[f"{sender} r²"] = float(summary["slope"][2])
    off = [v for k, v in parts.items() if k.endswith("(%)")]
    return Measured(max(off), parts) if off else None


def _shape_holds(sender: str, quantiles: list[float]) -> bool:
    middle = quantiles[100]
    if sender.endswith("reno"):
        return quantile_distance(quantiles, list(QUANTILES)) <= 0.15
    if sender.endswith("htcp"):
        return middle <= 0.4
    return middle >= 0.6


def _l3(data: Data, seed: int) -> Measured | None:
    facts, parts = [], {}
    for path in cdf_paths():
        for sender in SENDERS:
            # The paper leaves the irregular ones out (its footnote 2).
            if sender.key == "linux-htcp" and path[0] == 100:
                continue
            shape = normalised(data, seed, path, sender.key)
            if shape:
                facts.append(_shape_holds(sender.key, shape))
                parts[f"{path_title(*path[:2])} {sender.key} median/full"] = shape[100]
    return Measured(100.0 * _share(facts), parts) if facts else None


def _l4(data: Data, seed: int) -> Measured | None:
    facts, without = [], 0
    for path in PATHS:
        for sender in SENDERS:
            summary = at(data, seed, path, sender.key)
            if not summary:
                continue
            if not summary["epoch_s"]:
                without += 1
            else:
                # The packet being sent counts for dummynet but is no longer in the queue.
                facts.append(float(summary["backlog_high"]) + MTU / summary["limit_bytes"] >= 0.95)
    return Measured(100.0 * _share(facts), {"cells without a whole epoch": float(without)}) if facts else None


def _l5(data: Data, seed: int) -> Measured | None:
    """Share of senders and links for which the claim holds.

    The queue falls to 5 % in at least nine epochs of ten (NewReno, H-TCP), in at most one of ten (CUBIC).
    """
    facts, parts = [], {}
    for path in cdf_paths():
        for sender in SENDERS:
            summary = at(data, seed, path, sender.key)
            if not summary or not summary["backlog_low"]:
                continue
            drained = float(np.mean(np.asarray(summary["backlog_low"]) <= 0.05))
            facts.append(drained <= 0.1 if sender.cc == "cubic" else drained >= 0.9)
            parts[f"{path_title(*path[:2])} {sender.key} lowest/limit"] = float(np.median(summary["backlog_low"]))
    return Measured(100.0 * _share(facts), parts) if facts else None


def _l6(data: Data, seed: int) -> Measured | None:
    parts = {}
    for sender in SENDERS:
        summary = at(data, seed, figure_path(), sender.key)
        if summary:
            parts[sender.title] = float(summary["correlation"])
    return Measured(min(parts.values()), parts) if parts else None


def _l7(data: Data, seed: int) -> Measured | None:
    """Share of twelve distributions (sender × link) that are nearest to their own algorithm's on the other links.

    Near is the mean Kolmogorov–Smirnov distance of normalised delays to an algorithm's distributions on other links.
    """
    shapes: dict[str, dict[tuple[Path, str], list[float]]] = {}
    for sender in SENDERS:
        # The paper leaves it out (its footnote 2).
        if sender.key == "linux-htcp":
            continue
        for path in cdf_paths():
            shape = normalised(data, seed, path, sender.key)
            if shape:
                shapes.setdefault(sender.cc, {})[path, sender.key] = shape
    within, between = [], []
    for cc, mine in shapes.items():
        for (path, _), shape in mine.items():
            apart = {
                other: float(
                    np.mean([quantile_distance(shape, far) for (at_, _), far in theirs.items() if at_ != path])
                )
                for other, theirs in shapes.items()
                if any(at_ != path for at_, _ in theirs)
            }
            if cc not in apart or len(apart) < 2:
                continue
            within.append(apart.pop(cc))
            between.append(min(apart.values()))
    if not within:
        return None
    parts = {"to its own algorithm": float(np.mean(within)), "to the nearest other": float(np.mean(between))}
    return Measured(100.0 * _share(w < b for w, b in zip(within, between, strict=True)), parts)


def _l8(data: Data, seed: int) -> Measured | None:
    parts = {}
    every: list[bool] = []
    for algorithm in ("reno", "htcp"):
        facts = []
        for path in PATHS:
            if window_segments(*path) < VISIBLE_SEGMENTS:
                continue
            linux = median_epoch(at(data, seed, path, f"linux-{algorithm}"))
            freebsd = median_epoch(at(data, seed, path, f"freebsd-{algorithm}"))
            if not np.isnan(linux) and not np.isnan(freebsd):
                facts.append(linux > (1 + TIE) * freebsd)
        if facts:
            parts[f"{algorithm}: paths of {len(facts)}"] = float(sum(facts))
        every += facts
    return Measured(100.0 * _share(every), parts) if every else None


def two_part(summary: Summary | None) -> tuple[bool, float] | None:
    """Does the cycle alternate, and how much longer is the long part?

    An epoch's part follows from the event that opens it: fast convergence acts if the window fell since the event
    before. Alternating: at least 70 % of neighbours differ, and long epochs last at least 1.2 times the short.
    """
    if not summary or len(summary["epoch_s"]) < 4:
        return None
    peaks = np.asarray(summary["cwnd_before"])
    durations = np.asarray(summary["epoch_s"])
    # Epoch k opens with event k + 1 (the first event ends slow start).
    converging = (np.diff(peaks) < 0)[: len(durations)]
    alternates = float(np.mean(converging[1:] != converging[:-1]))
    if not converging.any() or converging.all():
        return False, 1.0
    ratio = float(np.median(durations[converging]) / np.median(durations[~converging]))
    return alternates >= 0.7 and ratio >= 1.2, ratio


def _l9(data: Data, seed: int) -> Measured | None:
    named = [p for p in PATHS if (p[2] == "1bdp" or p[:2] == (100, 160)) and window_segments(*p) >= VISIBLE_SEGMENTS]
    facts, parts = [], {}
    for path in named:
        found = two_part(at(data, seed, path, "linux-cubic"))
        if found:
            facts.append(found[0])
            parts[f"{path_title(*path)} long/short"] = found[1]
    return Measured(100.0 * _share(facts), parts) if facts else None


def _l10(data: Data, seed: int) -> Measured | None:
    """Share of senders that recover as the paper says.

    Linux: no single fall of more than a tenth of the reduction. FreeBSD: at once. Both: below 95 % of β·cwnd and back
    within three loaded round trips, while the queue meets a series of bursts. Who never falls below has no climb.
    """
    facts, parts = [], {}
    for sender in SENDERS:
        summary = at(data, seed, figure_path(), sender.key)
        recovery = summary.get("recovery") if summary else None
        if not recovery:
            continue
        gradual = recovery["largest_fall"] <= 0.1
        shape = gradual if sender.stack.startswith("linux") else recovery["largest_fall"] >= 0.5
        climbs = recovery["lowest"] < 0.95 and recovery["climb_rtts"] <= 3.0
        facts.append(shape and climbs and recovery["bursts"] >= SERIES)
        for name, value in recovery.items():
            parts[f"{sender.key} {name}"] = value
    return Measured(100.0 * _share(facts), parts) if facts else None


def _l11(data: Data, seed: int) -> Measured | None:
    counts: list[float] = []
    for rtt in (80, 160):
        summary = at(data, seed, (100, rtt, "1bdp"), "linux-htcp")
        if summary:
            counts += summary["slowdowns"]
    return Measured(100.0 * _share(c >= 1 for c in counts)) if counts else None


def like_newreno(summary: Summary | None, reno: Summary | None) -> float:
    """Share of H-TCP's epochs that last at least three quarters of NewReno's median.

    Linux H-TCP counts packets, so its slow mode grows a segment per round trip: as FreeBSD's NewReno without delayed
    ACKs does, which is therefore the measure.
    """
    limit = 0.75 * median_epoch(reno)
    return _share(d > limit for d in summary["epoch_s"]) if summary and not np.isnan(limit) else NAN


def _l12(data: Data, seed: int) -> Measured | None:
    path: Path = (100, 16, "1bdp")
    htcp, reno = at(data, seed, path, "linux-htcp"), at(data, seed, path, "linux-reno")
    share = like_newreno(htcp, at(data, seed, path, "freebsd-reno"))
    if np.isnan(share) or not htcp or not reno:
        return None
    distance = quantile_distance(htcp["delay_ms"], reno["delay_ms"])
    return Measured(100.0 * min(share, 1 - share), {"distance from NewReno's distribution": distance})


def _l13(data: Data, seed: int) -> Measured | None:
    parts = {path_title(1, 16, q): distinguishability(data, seed, (1, 16, q)) for q in QUEUES}
    known = {k: v for k, v in parts.items() if not np.isnan(v)}
    return Measured(max(known.values()), known) if known else None


def _disturbed_remark(rtts: tuple[int, ...]) -> Callable[[Data], str]:
    """What the base model plus a disturbed wire shows."""

    def remark(data: Data) -> str:
        found = []
        for rtt in rtts:
            for share, clock in [*((share, "open") for share in DISTURBANCES), (DISTURBANCES[1], "event")]:
                summary = data.first_run(**disturbed_factors(rtt, share, clock))
                if not summary:
                    continue
                epoch = median_epoch(summary)
                slow = _share(c >= 1 for c in summary["slowdowns"]) if summary["slowdowns"] else NAN
                found.append(
                    f"{rtt} ms, {share:g} reordered, clock on {clock}: epoch "
                    + (f"{epoch:.1f} s (to {max(summary['epoch_s']):.1f} s)" if summary["epoch_s"] else "> 170 s")
                    + ("" if np.isnan(slow) else f", {100 * slow:.0f} % with relapses")
                    + (f", {100 * _newreno_share(data, summary):.0f} % NewReno-like" if rtt == 16 else "")
                )
        return "with a disturbed wire: " + "; ".join(found) if found else ""

    return remark


def _newreno_share(data: Data, summary: Summary) -> float:
    return like_newreno(summary, data.first_run(**factors_of((100, 16, "1bdp"), "freebsd-reno")))


def _untimed_remark(data: Data) -> str:
    """What the router's timer does to CUBIC's cycle."""
    found = []
    for rate, rtt in UNTIMED:
        summary = data.first_run(**factors_of((rate, rtt, "1bdp"), "linux-cubic"), kind="untimed")
        part = two_part(summary)
        if part:
            found.append(f"{path_title(rate, rtt)}: {'two parts' if part[0] else 'one part'}, long/short {part[1]:.2f}")
    return "without the router's 1 kHz timer: " + "; ".join(found) if found else ""


_SHIFT = (
    "The first measure compared distributions by their largest vertical distance, which calls a part of a packet a "
    "large difference where a queue holds two; since the first results it is the mean distance in packets of queue."
)
CLAIMS = (
    Claim(
        "000-Q1", "Linux NewReno's epochs last about 1.85 times FreeBSD's", "number", "1.85", "",
        "median epoch on Linux over that on FreeBSD, 10 Mbit/s × 80 ms, 1 BDP",
        _epoch_ratio("reno"), Near(1.85), "fig-02-03", "VI-A",
    ),
    Claim(
        "000-Q2", "Linux H-TCP's epochs last about 1.14 times FreeBSD's", "number", "1.14", "",
        "median epoch on Linux over that on FreeBSD, 10 Mbit/s × 80 ms, 1 BDP",
        _epoch_ratio("htcp"), Near(1.14, 0.05, 0.10), "fig-04-05", "VI-A",
        redefined="Tolerances of 5 and 10 % instead of 15 and 30: with those no difference at all would have passed.",
    ),
    Claim(
        "000-Q3", "CUBIC keeps the queue over three quarters full 90 % of the time", "number", "90 %", " %",
        "the rest: share of call packets whose induced delay is at most ¾ of a full queue's, of which 10 % remain; "
        "median of the three links",
        _q3, Near(10.0), "fig-09-11", "VII",
        redefined="±15 % of 90 % let 76.5 % pass; the band is on what remains, 10 %.",
    ),
    Claim(
        "000-Q4", "Algorithms become distinguishable when the window can exceed 25 packets", "number", "25",
        " segments", "smallest window (BDP + queue) on the far side of the best cut between paths where two "
        "algorithms on one system differ by more than a packet of queue and the others",
        _q4, Near(25.0), "fig-discernible", "VI",
        why="CUBIC keeps four fifths of its window at a loss where NewReno keeps half, so the queue it leaves differs "
        "by more than a packet from 13 segments on; NewReno and H-TCP part only above 27. The paper judged by eye, "
        "from cwnd.",
        redefined=_SHIFT,
    ),
    Claim(
        "000-Q5", "The fall of cwnd_max that triggers fast convergence is a few packets", "presence", "a few",
        " segments", "median fall of the window at loss between events, CUBIC, 10 Mbit/s × 80 ms, 1 BDP",
        _q5, AtMost(5.0, 10.0), "fig-06", "VI-C",
        redefined="One event after slow start was left out; the window needs three to come down.",
    ),
    Claim(
        "000-Q6", "Irregular H-TCP epochs at high BDP last tens of seconds", "presence", "tens of seconds", " s",
        "shorter of the two median epochs of Linux H-TCP at 100 Mbit/s × 80 and 160 ms, 1 BDP",
        _q6, AtLeast(10.0, 5.0), "fig-13", "VII-A", _disturbed_remark((80, 160)),
        why="The share of packets reordered is the smallest that shows Fig. 13, and lengthens the epochs at 80 ms by "
        "a third. With one in ten thousand they last 17 s with 2.6.25's clock; with the clock as mended in 2.6.28 it "
        "changes nothing.",
    ),
    Claim(
        "000-Q7", "TCP reacts to a drop within a few round trips", "presence", "a few RTTs", " RTTs",
        "largest of the five median times from first drop to reaction, loaded round trips, 10 Mbit/s × 80 ms, 1 BDP",
        _q7, AtMost(3.0, 5.0), "fig-02-03", "VII",
    ),
    Claim(
        "000-Q8", "Three typical epochs are nearly identical", "shape", "identical", " %",
        "largest relative difference among three typical epochs (CUBIC: same part of the cycle), 10 Mbit/s × 80 ms, 1 "
        "BDP",
        _q8, AtMost(10.0, 25.0), "fig-02-03", "VI",
    ),
    Claim(
        "000-L1", "Median delay: CUBIC largest, H-TCP lowest, on each of the three links", "ordering", "all", " %",
        "share of nine orderings that hold (tie band 5 %)",
        _l1, AtLeast(100.0, 66.0), "fig-12", "Abstract, VII, VIII",
    ),
    Claim(
        "000-L2", "One-way delay is proportional to queue occupancy, slope 8/C", "shape", "linear", " %",
        "largest deviation of the fitted slope from 8/C, 10 Mbit/s × 80 ms, 1 BDP",
        _l2, AtMost(2.0, 5.0), "fig-07-08", "VII",
    ),
    Claim(
        "000-L3", "Delay: NewReno about uniform, H-TCP towards the minimum, CUBIC towards the maximum", "shape", "all",
        " %", "share of senders and links: NewReno within 0.15 of uniform (KS), H-TCP's median ≤ 0.4, CUBIC's ≥ 0.6 "
        "of a full queue",
        _l3, AtLeast(90.0, 60.0), "fig-09-11", "VII",
    ),
    Claim(
        "000-L4", "Every algorithm fills the queue", "presence", "all", " %",
        "share of cells with a whole epoch whose backlog, with the packet in service, reaches 95 % of the limit",
        _l4, AtLeast(100.0, 90.0), "fig-02-03", "VII",
        redefined="Polls met the router's timer in one phase; the backlog that dropped packets met counts too.",
    ),
    Claim(
        "000-L5", "NewReno and H-TCP drain the queue in each epoch, CUBIC rarely", "presence", "all", " %",
        "share of senders and links: backlog ≤ 5 % of the limit in ≥ 90 % of epochs (CUBIC: in ≤ 10 %)",
        _l5, AtLeast(100.0, 75.0), "fig-09-11", "VII",
    ),
    Claim(
        "000-L6", "Queue occupancy mimics the congestion window", "shape", "same", "",
        "smallest correlation of window and backlog over the five senders, 10 Mbit/s × 80 ms, 1 BDP",
        _l6, AtLeast(0.9, 0.7), "fig-02-03", "VII",
        redefined="FreeBSD's fall to one segment in recovery was taken for growth; recovery is left out.",
    ),
    Claim(
        "000-L7", "Each algorithm's delay distribution is its own, and about the same on the three links", "shape",
        "its own", " %", "share of the twelve (sender, link) without Linux H-TCP whose normalised delay is nearer to "
        "its own algorithm's on the other links than to another's (mean KS distance)",
        _l7, AtLeast(100.0, 75.0), "fig-09-11", "VII",
        why="H-TCP's first, slow second is a larger share of a short epoch than of a long one, so its distribution "
        "must change with the path. CUBIC runs in two parts at 10 and 100 Mbit/s × 80 ms but in one at 100 Mbit/s × "
        "16 ms.",
        redefined="Equality of the three links to 0.15 was stricter than “approximately consistent”; now each "
        "distribution must be nearest to its own algorithm's. It was known that this would pass.",
    ),
    Claim(
        "000-L8", "FreeBSD's epochs are shorter than Linux's, NewReno and H-TCP", "ordering", "all", " %",
        "share of comparable paths with Linux's epoch at least 5 % longer",
        _l8, AtLeast(100.0, 75.0), "fig-02-03", "VI-A",
        why="NewReno on every comparable path, and H-TCP on all but three. The longer the epoch, the less H-TCP's "
        "first slow second and the later start of Linux's clock count, so at 100 Mbit/s with a queue of 1 BDP the two "
        "systems agree within 5 %.",
    ),
    Claim(
        "000-L9", "CUBIC's cycle has two parts at 1 BDP, and at 100 Mbit/s × 160 ms with any queue", "presence", "all",
        " %", "share of these paths (window ≥ 25 segments) where short and long epochs alternate",
        _l9, AtLeast(90.0, 50.0), "fig-06", "VI-C", _untimed_remark,
        why="Fast convergence needs two successive peaks to differ by a segment. The model is so regular that on some "
        "paths every peak is the same, and then each epoch is a short one; which of the two cycles the flow locks "
        "into hangs on the phase of starts and of the router's timer. Small windows grow by whole segments and always "
        "peak alike.",
    ),
    Claim(
        "000-L10", "Linux halves by rate, FreeBSD at once; both climb quickly to β·cwnd, in a series of small bursts",
        "shape", "both", " %", "share of the five senders that fall so, below 95 % of β·cwnd, are back there within 3 "
        "loaded RTTs, and fill the queue by three packets in 10 ms at least twice on the way",
        _l10, AtLeast(100.0, 60.0), "fig-recovery", "VI-B",
        why="Linux' rate halving comes down to β·cwnd here and not below it, so there is nothing to climb back; the "
        "paper has both systems climb.",
        redefined="Bursts were measured but not judged, and who never fell below β·cwnd was back at once.",
    ),
    Claim(
        "000-L11", "Linux H-TCP at 100 Mbit/s × 80 and 160 ms alternates between slow and fast growth in an epoch",
        "presence", "always", " %", "share of epochs in which growth falls from > 4 to < 2 segments/RTT without a loss",
        _l11, AtLeast(50.0, 10.0), "fig-13", "VII-A", _disturbed_remark((80, 160)),
        why="2.6.25's clock restarts whenever the sender has passed through Disorder, and three packets in 100,000 "
        "overtaken by two others make it do so in half of the epochs only.",
        standing=fitted(
            "The share of packets that the wire holds back at 100 Mbit/s is the smallest tried that reproduces it. "
            "Nothing in the paper says that its testbed reordered packets.",
        ),
    ),
    Claim(
        "000-L12", "Linux H-TCP at 100 Mbit/s × 16 ms mixes H-TCP-like and NewReno-like epochs", "presence", "mixed",
        " %", "share of the rarer kind (NewReno-like: at least ¾ of the median epoch of NewReno with an ACK per "
        "segment)",
        _l12, AtLeast(10.0, 3.0), "fig-14", "VII-A", _disturbed_remark((16,)),
        why="As L11: the reordering that mixes H-TCP-like with NewReno-like epochs is more frequent than the smallest "
        "share that shows Fig. 13.",
        redefined="Linux NewReno was the measure of a NewReno-like epoch; it is NewReno without delayed ACKs, as "
        "Linux H-TCP counts packets.",
    ),
    Claim(
        "000-L13", "No discernible difference at 1 Mbit/s × 16 ms", "ordering", "none", " packets",
        "largest mean distance between two algorithms' delays on one system, in packets of queue",
        _l13, AtMost(1.0, 1.5), "fig-discernible", "VI",
        redefined=_SHIFT,
    ),
)  # fmt: skip
