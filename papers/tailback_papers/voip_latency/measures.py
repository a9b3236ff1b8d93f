"""How each claim of the paper is measured: a number a seed, with what it was made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from tailback.experiment import Data, Measured, Summary

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
    disturbed_key,
    key_of,
    path_title,
    untimed_key,
    window_segments,
)

NAN = float("nan")
TIE = 0.05
"""Two delays or durations closer than this count as equal."""

VISIBLE_SEGMENTS = 25.0
"""Windows below this show no differences (000-Q4); claims about shapes leave such paths out."""

Path = tuple[int, int, str]
PATHS: tuple[Path, ...] = tuple((r, t, q) for q in QUEUES for r in RATES_MBIT for t in RTTS_MS)


def at(data: Data, seed: int, path: Path, sender: str) -> Summary | None:
    """Summary of a grid cell."""
    return data.get(key_of(*path, sender), seed)


def median_epoch(summary: Summary | None) -> float:
    """Median duration of the steady epochs, NaN if there is none."""
    return float(np.median(summary["epoch_s"])) if summary and summary["epoch_s"] else NAN


def median_delay(summary: Summary | None) -> float:
    """Median induced delay over the typical epochs, milliseconds."""
    return float(summary["delay_ms"][100]) if summary and summary["delay_ms"] else NAN


def full_ms(summary: Summary) -> float:
    """What a full queue adds, milliseconds."""
    return 1e3 * (float(summary["loaded_rtt_s"]) - base_rtt(summary))


def base_rtt(summary: Summary) -> float:
    """Propagation delay there and back, from the cell's name."""
    return float(str(summary["key"]).split("-")[1].removesuffix("ms")) * 1e-3


def normalised(summary: Summary | None) -> list[float] | None:
    """Quantiles of the induced delay as shares of what a full queue adds."""
    if not summary or not summary["delay_ms"]:
        return None
    full = full_ms(summary)
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


def epoch_ratio(algorithm: str) -> Callable[[Data, int], Measured | None]:
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


def q3(data: Data, seed: int) -> Measured | None:
    """Share of call packets that met a queue below three quarters, CUBIC, three links."""
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


def q4(data: Data, seed: int) -> Measured | None:
    """Smallest window on the far side of the cut that best separates paths with and without discernible differences."""
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


def q5(data: Data, seed: int) -> Measured | None:
    """Median fall of the largest window when it fell, CUBIC on the figures' path, segments."""
    summary = at(data, seed, figure_path(), "linux-cubic")
    if not summary:
        return None
    # From the fourth event on: before that the window still falls from slow start's height.
    falls = [-d for d in np.diff(summary["cwnd_before"][3:]) if d < 0]
    if not falls:
        return Measured(NAN)
    return Measured(float(np.median(falls)), {"largest (segments)": float(max(falls)), "events": float(len(falls))})


def q6(data: Data, seed: int) -> Measured | None:
    """The shorter of the two median epochs of Linux H-TCP at 100 Mbit/s × 80 and 160 ms."""
    parts = {}
    for rtt in (80, 160):
        duration = median_epoch(at(data, seed, (100, rtt, "1bdp"), "linux-htcp"))
        if not np.isnan(duration):
            parts[f"{rtt} ms (s)"] = duration
    return Measured(min(parts.values()), parts) if len(parts) == 2 else None


def q7(data: Data, seed: int) -> Measured | None:
    """Largest of the five median reaction times on the figures' path, in loaded round trips."""
    parts = {}
    for sender in SENDERS:
        summary = at(data, seed, figure_path(), sender.key)
        if summary and summary["reaction_s"]:
            parts[sender.title] = float(np.nanmedian(summary["reaction_s"])) / float(summary["loaded_rtt_s"])
    return Measured(max(parts.values()), parts) if parts else None


def q8(data: Data, seed: int) -> Measured | None:
    """Largest relative difference among the three typical epochs; CUBIC: of the two that are of the same part."""
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


def l1(data: Data, seed: int) -> Measured | None:
    """Share of nine orderings that hold: on each link CUBIC largest of all, H-TCP below NewReno on both systems."""
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


def l2(data: Data, seed: int) -> Measured | None:
    """Largest deviation of the fitted slope from 8/C, in per cent, over the senders of Figs 7 and 8."""
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


def l3(data: Data, seed: int) -> Measured | None:
    """Share of senders and links whose distribution has the shape the paper gives it."""
    facts, parts = [], {}
    for path in cdf_paths():
        for sender in SENDERS:
            # The paper leaves the irregular ones out (its footnote 2).
            if sender.key == "linux-htcp" and path[0] == 100:
                continue
            shape = normalised(at(data, seed, path, sender.key))
            if shape:
                facts.append(_shape_holds(sender.key, shape))
                parts[f"{path_title(*path[:2])} {sender.key} median/full"] = shape[100]
    return Measured(100.0 * _share(facts), parts) if facts else None


def l4(data: Data, seed: int) -> Measured | None:
    """Share of cells with a complete epoch whose queue was at least 95 % full at some time in steady state."""
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


def l5(data: Data, seed: int) -> Measured | None:
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


def l6(data: Data, seed: int) -> Measured | None:
    """Smallest of the five correlations between window and backlog on the figures' path."""
    parts = {}
    for sender in SENDERS:
        summary = at(data, seed, figure_path(), sender.key)
        if summary:
            parts[sender.title] = float(summary["correlation"])
    return Measured(min(parts.values()), parts) if parts else None


def l7(data: Data, seed: int) -> Measured | None:
    """Share of twelve distributions (sender × link) that are nearest to their own algorithm's on the other links.

    Near is the mean Kolmogorov–Smirnov distance of normalised delays to an algorithm's distributions on other links.
    """
    shapes: dict[str, dict[tuple[Path, str], list[float]]] = {}
    for sender in SENDERS:
        # The paper leaves it out (its footnote 2).
        if sender.key == "linux-htcp":
            continue
        for path in cdf_paths():
            shape = normalised(at(data, seed, path, sender.key))
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


def l8(data: Data, seed: int) -> Measured | None:
    """Share of paths (window ≥ 25 segments) on which Linux's epoch is at least 5 % longer, both algorithms."""
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


def l9(data: Data, seed: int) -> Measured | None:
    """Share of the paths the paper names on which CUBIC's cycle has two parts."""
    named = [p for p in PATHS if (p[2] == "1bdp" or p[:2] == (100, 160)) and window_segments(*p) >= VISIBLE_SEGMENTS]
    facts, parts = [], {}
    for path in named:
        found = two_part(at(data, seed, path, "linux-cubic"))
        if found:
            facts.append(found[0])
            parts[f"{path_title(*path)} long/short"] = found[1]
    return Measured(100.0 * _share(facts), parts) if facts else None


def l10(data: Data, seed: int) -> Measured | None:
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


def l11(data: Data, seed: int) -> Measured | None:
    """Share of Linux H-TCP's epochs at 100 Mbit/s × 80 and 160 ms in which growth falls back to slow without a loss."""
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


def l12(data: Data, seed: int) -> Measured | None:
    """The rarer of the two kinds of Linux H-TCP epochs at 100 Mbit/s × 16 ms, as a share of all."""
    path: Path = (100, 16, "1bdp")
    htcp, reno = at(data, seed, path, "linux-htcp"), at(data, seed, path, "linux-reno")
    share = like_newreno(htcp, at(data, seed, path, "freebsd-reno"))
    if np.isnan(share) or not htcp or not reno:
        return None
    distance = quantile_distance(htcp["delay_ms"], reno["delay_ms"])
    return Measured(100.0 * min(share, 1 - share), {"distance from NewReno's distribution": distance})


def l13(data: Data, seed: int) -> Measured | None:
    """Largest mean distance between two algorithms' delays on the same system at 1 Mbit/s × 16 ms, in packets."""
    parts = {path_title(1, 16, q): distinguishability(data, seed, (1, 16, q)) for q in QUEUES}
    known = {k: v for k, v in parts.items() if not np.isnan(v)}
    return Measured(max(known.values()), known) if known else None


def disturbed_remark(rtts: tuple[int, ...]) -> Callable[[Data], str]:
    """What the base model plus a disturbed wire shows."""

    def remark(data: Data) -> str:
        found = []
        for rtt in rtts:
            for share, clock in [*((share, "open") for share in DISTURBANCES), (DISTURBANCES[1], "event")]:
                summary = data.first(disturbed_key(rtt, share, clock))
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
    return like_newreno(summary, data.first(key_of(100, 16, "1bdp", "freebsd-reno")))


def untimed_remark(data: Data) -> str:
    """What the router's timer does to CUBIC's cycle."""
    found = []
    for rate, rtt in UNTIMED:
        summary = data.first(untimed_key(rate, rtt))
        part = two_part(summary)
        if part:
            found.append(f"{path_title(rate, rtt)}: {'two parts' if part[0] else 'one part'}, long/short {part[1]:.2f}")
    return "without the router's 1 kHz timer: " + "; ".join(found) if found else ""
