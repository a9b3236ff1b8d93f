"""Every claim of the paper, how it is measured and when it counts.

Numbers the paper prints count as reproduced within ±15 %, partly within ±30 %; the ratio 1.14 within ±5 and ±10 %, lest
no difference at all pass for it. “Three links” are those of the paper's
distributions (Figs 9–11): 100 Mbit/s × 16 ms, 10 Mbit/s × 80 ms, 100 Mbit/s × 80 ms, queue 1 BDP.
“Segments” are full packets of 1448 bytes of payload. A loaded round trip has a full queue in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from tailback.experiment import (
    POSITIVE,
    QUANTILES,
    SHARE,
    AtLeast,
    AtMost,
    Claim,
    Data,
    Measure,
    Measured,
    Near,
    Summary,
    by_name,
    certain,
    fitted,
    known,
    least,
    median,
    most,
    of,
)

from .extract import quantile_distance, quantile_shift
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
VISIBLE = tuple(path for path in PATHS if window_segments(*path) >= VISIBLE_SEGMENTS)
FIGURES_PATH: Path = (*FIGURE_PATH, "1bdp")
"""Of the paper's Figs 2–8."""
LINKS: tuple[Path, ...] = tuple((*path, "1bdp") for path in CDF_PATHS)
"""Of the paper's Figs 9–11."""
ALL = tuple(sender.key for sender in SENDERS)
TITLES = {sender.key: sender.title for sender in SENDERS} | {path: path_title(*path[:2]) for path in LINKS}

# --- What is read of the runs ------------------------------------------------------------------------------------


def at(data: Data, seed: int, path: Path, sender: str) -> Summary | None:
    """Summary of a grid cell."""
    return data.run(seed, **factors_of(path, sender))


def numbers(data: Data, seed: int, what: Any, paths: tuple[Path, ...], senders: tuple[str, ...] = ALL) -> Any:
    """A number of each cell that has it, senders × paths."""
    axes: dict[str, Any] = {"sender": senders, "rate,rtt,queue": paths}
    return data.array(what, seed, strict=False, **axes)


def median_epoch(summary: Summary | None) -> float:
    """Median duration of the steady epochs, NaN if there is none."""
    return float(np.median(summary["epoch_s"])) if summary and summary["epoch_s"] else NAN


def median_delay(summary: Summary | None) -> float:
    """Median induced delay over the typical epochs, milliseconds."""
    return float(summary["delay_ms"][100]) if summary and summary["delay_ms"] else NAN


def full_ms(summary: Summary, path: Path) -> float:
    """What a full queue adds, milliseconds."""
    return 1e3 * (float(summary["loaded_rtt_s"]) - path[1] * 1e-3)


def normalised(summary: Summary, path: Path) -> list[float]:
    """Quantiles of the induced delay as shares of what a full queue adds."""
    return [value / full_ms(summary, path) for value in summary["delay_ms"] or ()]


def _share(facts: Iterable[Any]) -> float:
    found = list(facts)
    return float(np.mean(found)) if found else NAN


# --- What the claims measure -------------------------------------------------------------------------------------


def _of_figures(what: Any, over: Callable[[Any], float], beside: str = "", **options: Any) -> Measure:
    """Of the senders on the figures' path."""
    rate, rtt, queue = FIGURES_PATH
    factors: dict[str, Any] = {"sender": ALL, "rate": rate, "rtt": rtt, "queue": queue, "strict": False}
    return of(what, lambda found: found, over, beside=beside, titles=TITLES, **factors | options)


def _systems(data: Data, seed: int, algorithm: str, paths: tuple[Path, ...]) -> Any:
    """Median epochs on Linux and on FreeBSD."""
    return numbers(data, seed, median_epoch, paths, (f"linux-{algorithm}", f"freebsd-{algorithm}"))


def _epoch_ratio(algorithm: str) -> Measure:
    """Linux over FreeBSD, median epochs, on the figures' path; the other paths' ratios as parts."""

    def measure(data: Data, seed: int) -> Measured:
        ((linux,), (freebsd,)) = _systems(data, seed, algorithm, (FIGURES_PATH,))
        every = _systems(data, seed, algorithm, VISIBLE)
        parts = {"Linux (s)": linux, "FreeBSD (s)": freebsd}
        others = {"median ratio over all comparable paths": median(every[0] / every[1])}
        return Measured(linux / freebsd, parts | (others if known(every[0] / every[1]).size else {}))

    return measure


def _q3(data: Data, seed: int) -> Measured:
    rest = 100.0 * (1.0 - numbers(data, seed, "above_three_quarters", LINKS, ("linux-cubic",))[0])
    return Measured(median(rest), by_name("{path}", rest, TITLES, path=LINKS))


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
"""A queue's grain is one packet: algorithms that fill it alike to within that cannot be distinguished."""


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
    summary = at(data, seed, FIGURES_PATH, "linux-cubic")
    if not summary:
        return None
    # From the fourth event on: before that the window still falls from slow start's height.
    falls = [-d for d in np.diff(summary["cwnd_before"][3:]) if d < 0]
    if not falls:
        return Measured(NAN)
    return Measured(float(np.median(falls)), {"largest (segments)": float(max(falls)), "events": float(len(falls))})


def _reaction(summary: Summary) -> float | None:
    """Median time from a drop to the reaction, in loaded round trips."""
    found = summary["reaction_s"]
    return float(np.nanmedian(found)) / float(summary["loaded_rtt_s"]) if found else None


def _q8(data: Data, seed: int) -> Measured | None:
    parts = {}
    for sender in SENDERS:
        summary = at(data, seed, FIGURES_PATH, sender.key)
        if not summary or not summary["window_complete"]:
            return None
        first = int(summary["window_first"])
        three = summary["epoch_s"][first : first + 3]
        compared = [three[0], three[2]] if sender.cc == "cubic" else three
        parts[sender.title] = 100.0 * (max(compared) - min(compared)) / float(np.mean(compared))
    return Measured(max(parts.values()), parts)


def _l1(data: Data, seed: int) -> Measured:
    medians = numbers(data, seed, median_delay, LINKS)
    medians[:, np.isnan(medians).any(axis=0)] = NAN
    of_sender = dict(zip(ALL, medians, strict=True))
    facts = [(1 - TIE) * medians.max(axis=0) <= of_sender["linux-cubic"]]
    facts += [of_sender[f"{os}-htcp"] < (1 - TIE) * of_sender[f"{os}-reno"] for os in ("linux", "freebsd")]
    complete = ~np.isnan(medians[0])
    parts = by_name("{path} {sender} (ms)", medians.T, {path: TITLES[path] for path in LINKS}, path=LINKS, sender=ALL)
    return Measured(100.0 * _share(np.array(facts)[:, complete].ravel()), parts)


def _l2(data: Data, seed: int) -> Measured | None:
    parts = {}
    for sender in ("freebsd-htcp", "linux-htcp", "linux-cubic"):
        summary = at(data, seed, FIGURES_PATH, sender)
        if summary and "slope" in summary:
            parts[f"{sender} (%)"] = 100.0 * abs(summary["slope"][0] / (8.0 / (FIGURE_PATH[0] * 1e6)) - 1.0)
            parts[f"{sender} r²"] = float(summary["slope"][2])
    off = [v for k, v in parts.items() if k.endswith("(%)")]
    return Measured(max(off), parts) if off else None


def _of_links(data: Data, seed: int) -> Iterable[tuple[Path, Any, Summary]]:
    """What was run on the three links."""
    for path in LINKS:
        for sender in SENDERS:
            if summary := at(data, seed, path, sender.key):
                yield path, sender, summary


def _l3(data: Data, seed: int) -> Measured:
    holds: dict[str, Callable[[list[float]], bool]] = {
        "reno": lambda shape: quantile_distance(shape, list(QUANTILES)) <= 0.15,
        "htcp": lambda shape: shape[100] <= 0.4,
        "cubic": lambda shape: shape[100] >= 0.6,
    }
    facts: list[bool] = []
    parts: dict[str, float] = {}
    for path, sender, summary in _of_links(data, seed):
        # The paper leaves the irregular ones out (its footnote 2).
        irregular = sender.key == "linux-htcp" and path[0] == 100
        if not irregular and (shape := normalised(summary, path)):
            facts.append(holds[sender.cc](shape))
            parts[f"{TITLES[path]} {sender.key} median/full"] = shape[100]
    return Measured(100.0 * _share(facts), parts)


def _l4(data: Data, seed: int) -> Measured:
    def high(summary: Summary) -> float:
        # The packet being sent counts for dummynet but is no longer in the queue.
        return float(summary["backlog_high"]) + MTU / summary["limit_bytes"] if summary["epoch_s"] else -1.0

    filled = numbers(data, seed, high, PATHS)
    parts = {"cells without a whole epoch": float(np.sum(filled == -1))}
    return Measured(100.0 * _share(filled[filled >= 0] >= 0.95), parts)


def _l5(data: Data, seed: int) -> Measured:
    """Share of senders and links for which the claim holds.

    The queue falls to 5 % in at least nine epochs of ten (NewReno, H-TCP), in at most one of ten (CUBIC).
    """
    facts: list[bool] = []
    parts: dict[str, float] = {}
    for path, sender, summary in _of_links(data, seed):
        if summary["backlog_low"]:
            drained = float(np.mean(np.asarray(summary["backlog_low"]) <= 0.05))
            facts.append(drained <= 0.1 if sender.cc == "cubic" else drained >= 0.9)
            parts[f"{TITLES[path]} {sender.key} lowest/limit"] = float(np.median(summary["backlog_low"]))
    return Measured(100.0 * _share(facts), parts)


def _l7(data: Data, seed: int) -> Measured | None:
    """Share of twelve distributions (sender × link) that are nearest to their own algorithm's on the other links.

    Near is the mean Kolmogorov–Smirnov distance of normalised delays to an algorithm's distributions on other links.
    """
    shapes: dict[str, list[tuple[Path, list[float]]]] = {}
    # By sender, then by path. The paper leaves Linux H-TCP out (its footnote 2).
    for path, sender, summary in sorted(_of_links(data, seed), key=lambda each: ALL.index(each[1].key)):
        if sender.key != "linux-htcp" and (shape := normalised(summary, path)):
            shapes.setdefault(sender.cc, []).append((path, shape))
    within, between = [], []
    for cc, mine in shapes.items():
        for path, shape in mine:
            apart = {
                other: float(np.mean(distances))
                for other, theirs in shapes.items()
                if (distances := [quantile_distance(shape, far) for where, far in theirs if where != path])
            }
            if cc in apart and len(apart) > 1:
                within.append(apart.pop(cc))
                between.append(min(apart.values()))
    if not within:
        return None
    parts = {"to its own algorithm": float(np.mean(within)), "to the nearest other": float(np.mean(between))}
    return Measured(100.0 * _share(w < b for w, b in zip(within, between, strict=True)), parts)


def _l8(data: Data, seed: int) -> Measured:
    parts: dict[str, float] = {}
    every: list[Any] = []
    for algorithm in ("reno", "htcp"):
        epochs = _systems(data, seed, algorithm, VISIBLE)
        linux, freebsd = epochs[:, ~np.isnan(epochs).any(axis=0)]
        if len(linux):
            facts = linux > (1 + TIE) * freebsd
            parts[f"{algorithm}: paths of {len(facts)}"] = float(np.sum(facts))
            every += list(facts)
    return Measured(100.0 * _share(every), parts)


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


def _l9(data: Data, seed: int) -> Measured:
    facts: list[bool] = []
    parts: dict[str, float] = {}
    for path in VISIBLE:
        named = path[2] == "1bdp" or path[:2] == (100, 160)
        if named and (found := two_part(at(data, seed, path, "linux-cubic"))):
            facts.append(found[0])
            parts[f"{path_title(*path)} long/short"] = found[1]
    return Measured(100.0 * _share(facts), parts)


def _l10(data: Data, seed: int) -> Measured:
    """Share of senders that recover as the paper says.

    Linux: no single fall of more than a tenth of the reduction. FreeBSD: at once. Both: below 95 % of β·cwnd and back
    within three loaded round trips, while the queue meets a series of bursts. Who never falls below has no climb.
    """
    facts: list[bool] = []
    parts: dict[str, float] = {}
    for sender in SENDERS:
        summary = at(data, seed, FIGURES_PATH, sender.key)
        recovery = summary.get("recovery") if summary else None
        if recovery:
            fall = recovery["largest_fall"]
            shape = fall <= 0.1 if sender.stack.startswith("linux") else fall >= 0.5
            climbs = recovery["lowest"] < 0.95 and recovery["climb_rtts"] <= 3.0
            facts.append(shape and climbs and recovery["bursts"] >= SERIES)
            parts |= {f"{sender.key} {name}": value for name, value in recovery.items()}
    return Measured(100.0 * _share(facts), parts)


def _l11(data: Data, seed: int) -> Measured:
    found = [at(data, seed, (100, rtt, "1bdp"), "linux-htcp") for rtt in (80, 160)]
    return Measured(100.0 * _share(count >= 1 for one in found if one for count in one["slowdowns"]))


def like_newreno(summary: Summary | None, reno: Summary | None) -> float:
    """Share of H-TCP's epochs that last at least three quarters of NewReno's median.

    Linux H-TCP counts packets, so its slow mode grows a segment per round trip: as FreeBSD's NewReno without delayed
    ACKs does, which is therefore the measure.
    """
    limit = 0.75 * median_epoch(reno)
    return _share(d > limit for d in summary["epoch_s"]) if summary and not np.isnan(limit) else NAN


def _l12(data: Data, seed: int) -> Measured | None:
    htcp, reno, per_ack = (
        at(data, seed, (100, 16, "1bdp"), sender) for sender in ("linux-htcp", "linux-reno", "freebsd-reno")
    )
    share = like_newreno(htcp, per_ack)
    if np.isnan(share) or not htcp or not reno:
        return None
    distance = quantile_distance(htcp["delay_ms"], reno["delay_ms"])
    return Measured(100.0 * min(share, 1 - share), {"distance from NewReno's distribution": distance})


def _l13(data: Data, seed: int) -> Measured:
    apart = [distinguishability(data, seed, (1, 16, queue)) for queue in QUEUES]
    titles = {queue: path_title(1, 16, queue) for queue in QUEUES}
    return Measured(most(apart), by_name("{queue}", apart, titles, queue=list(QUEUES)))


def _between(path: Path, first: str, second: str) -> Measure:
    """Distance of two senders' delay distributions on one link."""

    def measure(data: Data, seed: int) -> Measured | None:
        found = [at(data, seed, path, sender) for sender in (first, second)]
        a, b = (one["delay_ms"] if one else None for one in found)
        return Measured(quantile_distance(a, b)) if a and b else None

    return measure


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
    "large difference where a queue holds two. Since the first results it is the mean distance in packets of queue."
)
CLAIMS = (
    Claim("000-Q1", "Linux NewReno's epochs last about 1.85 times FreeBSD's", "VI-A", "1.85", "",
        "median epoch on Linux over that on FreeBSD, 10 Mbit/s × 80 ms, 1 BDP", _epoch_ratio("reno"), Near(1.85),
        "fig-02-03", kind="number", possible=POSITIVE),
    Claim("000-Q2", "Linux H-TCP's epochs last about 1.14 times FreeBSD's", "VI-A", "1.14", "",
        "median epoch on Linux over that on FreeBSD, 10 Mbit/s × 80 ms, 1 BDP", _epoch_ratio("htcp"),
        Near(1.14, 0.05, 0.10), "fig-04-05",
        redefined="Tolerances of 5 and 10 % instead of 15 and 30: with those no difference at all would have passed.",
        kind="number", possible=POSITIVE),
    Claim("000-Q3", "CUBIC keeps the queue over three quarters full 90 % of the time", "VII", "90 %", " %",
        "the rest: share of call packets whose induced delay is at most ¾ of a full queue's, of which 10 % remain; "
        "median of the three links", _q3, Near(10.0), "fig-09-11",
        redefined="±15 % of 90 % let 76.5 % pass; the band is on what remains, 10 %.", kind="number", possible=SHARE),
    Claim("000-Q4", "Algorithms become distinguishable when the window can exceed 25 packets", "VI", "25", " segments",
        "smallest window (BDP + queue) on the far side of the best cut between paths where two algorithms on one "
        "system differ by more than a packet of queue and the others", _q4, Near(25.0), "fig-discernible",
        why="CUBIC keeps four fifths of its window at a loss where NewReno keeps half, so the queue it leaves differs "
        "by more than a packet from {000-Q4} on; NewReno and H-TCP part only with larger windows. The paper judged by "
        "eye, from cwnd.", redefined=_SHIFT, kind="number", possible=POSITIVE),
    Claim("000-Q5", "The fall of cwnd_max that triggers fast convergence is a few packets", "VI-C", "a few",
        " segments", "median fall of the window at loss between events, CUBIC, 10 Mbit/s × 80 ms, 1 BDP", _q5,
        AtMost(5.0, 10.0), "fig-06",
        redefined="One event after slow start was left out; the window needs three to come down.", kind="presence",
        possible=POSITIVE),
    Claim("000-Q6", "Irregular H-TCP epochs at high BDP last tens of seconds", "VII-A", "tens of seconds", " s",
        "shorter of the two median epochs of Linux H-TCP at 100 Mbit/s × 80 and 160 ms, 1 BDP",
        of("epoch_s", lambda epochs: epochs, np.min, beside="{rtt} ms (s)", take=np.median, rate=100, rtt=(80, 160),
        queue="1bdp", sender="linux-htcp", strict=False), AtLeast(10.0, 5.0), "fig-13",
        why="The share of packets reordered is the smallest that shows Fig. 13, and lengthens the epochs at 80 ms. "
        "More of it lengthens them further with 2.6.25's clock; with the clock as corrected in 2.6.28 it changes "
        "nothing.", kind="presence", remark=_disturbed_remark((80, 160)), possible=POSITIVE),
    Claim("000-Q7", "TCP reacts to a drop within a few round trips", "VII", "a few RTTs", " RTTs",
        "largest of the five median times from first drop to reaction, loaded round trips, 10 Mbit/s × 80 ms, 1 BDP",
        _of_figures(_reaction, most, "{sender}"), AtMost(3.0, 5.0), "fig-02-03", kind="presence", possible=POSITIVE,
        standing=certain("Three duplicate ACKs repeat a segment within a round trip of its loss, whatever the "
        "algorithm.")),
    Claim("000-Q8", "Three typical epochs are nearly identical", "VI", "identical", " %",
        "largest relative difference among three typical epochs (CUBIC: same part of the cycle), 10 Mbit/s × 80 ms, 1 "
        "BDP", _q8, AtMost(10.0, 25.0), "fig-02-03", kind="shape", possible=POSITIVE,
        standing=certain("The cycle is deterministic, and the three epochs are chosen among those within a factor "
        "of two of the median.")),
    Claim("000-L1", "Median delay: CUBIC largest, H-TCP lowest, on each of the three links", "Abstract, VII, VIII",
        "all", " %", "share of nine orderings that hold (tie band 5 %)", _l1, AtLeast(100.0, 66.0), "fig-12",
        kind="ordering", possible=SHARE),
    Claim("000-L2", "One-way delay is proportional to queue occupancy, slope 8/C", "VII", "linear", " %",
        "largest deviation of the fitted slope from 8/C, 10 Mbit/s × 80 ms, 1 BDP", _l2, AtMost(2.0, 5.0), "fig-07-08",
        kind="shape", possible=POSITIVE,
        standing=certain("A packet in any first-in-first-out queue waits for the bytes before it.")),
    Claim("000-L3", "Delay: NewReno about uniform, H-TCP towards the minimum, CUBIC towards the maximum", "VII", "all",
        " %", "share of senders and links: NewReno within 0.15 of uniform (KS), H-TCP's median ≤ 0.4, CUBIC's ≥ 0.6 "
        "of a full queue", _l3, AtLeast(90.0, 60.0), "fig-09-11", kind="shape", possible=SHARE),
    Claim("000-L4", "Every algorithm fills the queue", "VII", "all", " %",
        "share of cells with a whole epoch whose backlog, with the packet in service, reaches 95 % of the limit", _l4,
        AtLeast(100.0, 90.0), "fig-02-03",
        redefined="Polls met the router's timer in one phase; the backlog that dropped packets met counts too.",
        kind="presence", possible=SHARE,
        standing=certain("A loss-based sender that nothing else limits grows until the queue overflows.")),
    Claim("000-L5", "NewReno and H-TCP drain the queue in each epoch, CUBIC rarely", "VII", "all", " %",
        "share of senders and links: backlog ≤ 5 % of the limit in ≥ 90 % of epochs (CUBIC: in ≤ 10 %)", _l5,
        AtLeast(100.0, 75.0), "fig-09-11", kind="presence", possible=SHARE),
    Claim("000-L6", "Queue occupancy mimics the congestion window", "VII", "same", "",
        "smallest correlation of window and backlog over the five senders, 10 Mbit/s × 80 ms, 1 BDP",
        _of_figures("correlation", least, "{sender}"), AtLeast(0.9, 0.7), "fig-02-03",
        redefined="FreeBSD's fall to one segment in recovery was counted as growth; recovery is left out.",
        kind="shape", possible=(-1.0, 1.0),
        standing=certain("The backlog of a link in use is the window less what the path holds.")),
    Claim("000-L7", "Each algorithm's delay distribution is its own, and about the same on the three links", "VII",
        "its own", " %", "share of the twelve (sender, link) without Linux H-TCP whose normalised delay is nearer to "
        "its own algorithm's on the other links than to another's (mean KS distance)", _l7, AtLeast(100.0, 75.0),
        "fig-09-11", why="H-TCP's first, slow second is a larger share of a short epoch than of a long one, so its "
        "distribution must change with the path. CUBIC runs in two parts at 10 and 100 Mbit/s × 80 ms but in one at "
        "100 Mbit/s × 16 ms.", redefined="Equality of the three links to 0.15 was stricter than “approximately "
        "consistent”; now each distribution must be nearest to its own algorithm's. It was known that this would "
        "pass.", kind="shape", possible=SHARE),
    Claim("000-L8", "FreeBSD's epochs are shorter than Linux's, NewReno and H-TCP", "VI-A", "all", " %",
        "share of comparable paths with Linux's epoch at least 5 % longer", _l8, AtLeast(100.0, 75.0), "fig-02-03",
        why="The longer the epoch, the less H-TCP's "
        "first slow second and the later start of Linux's clock count, so at 100 Mbit/s with a queue of 1 BDP the two "
        "systems agree within 5 %.", kind="ordering", possible=SHARE),
    Claim("000-L9", "CUBIC's cycle has two parts at 1 BDP, and at 100 Mbit/s × 160 ms with any queue", "VI-C", "all",
        " %", "share of these paths (window ≥ 25 segments) where short and long epochs alternate", _l9,
        AtLeast(90.0, 50.0), "fig-06", why="Fast convergence needs two successive peaks to differ by a segment. The "
        "model is so regular that on some paths every peak is the same, and then each epoch is a short one; which of "
        "the two cycles the flow locks into hangs on the phase of starts and of the router's timer. Small windows "
        "grow by whole segments and always peak alike.", kind="presence", remark=_untimed_remark, possible=SHARE),
    Claim("000-L10",
        "Linux halves by rate, FreeBSD at once; both climb quickly to β·cwnd, in a series of small bursts", "VI-B",
        "both", " %", "share of the five senders that fall so, below 95 % of β·cwnd, are back there within 3 loaded "
        "RTTs, and fill the queue by three packets in 10 ms at least twice on the way", _l10, AtLeast(100.0, 60.0),
        "fig-recovery", why="Linux' rate halving comes down to β·cwnd here and not below it, so there is nothing to "
        "climb back; the paper has both systems climb.",
        redefined="Bursts were measured but not judged, and who never fell below β·cwnd was back at once.",
        kind="shape", possible=SHARE),
    Claim("000-L11", "Linux H-TCP at 100 Mbit/s × 80 and 160 ms alternates between slow and fast growth in an epoch",
        "VII-A", "always", " %", "share of epochs in which growth falls from > 4 to < 2 segments/RTT without a loss",
        _l11, AtLeast(50.0, 10.0), "fig-13", why="2.6.25's clock restarts whenever the sender has passed through "
        "Disorder, and three packets in 100,000 overtaken by two others make it do so in {000-L11} of the epochs only.",
        standing=fitted("The share of packets that the wire holds back at 100 Mbit/s is the smallest tried that "
        "reproduces it. Nothing in the paper says that its testbed reordered packets."), kind="presence",
        remark=_disturbed_remark((80, 160)), possible=SHARE),
    Claim("000-L12", "Linux H-TCP at 100 Mbit/s × 16 ms mixes H-TCP-like and NewReno-like epochs", "VII-A", "mixed",
        " %",
        "share of the rarer kind (NewReno-like: at least ¾ of the median epoch of NewReno with an ACK per segment)",
        _l12, AtLeast(10.0, 3.0), "fig-14", why="As L11: the reordering that mixes H-TCP-like with NewReno-like "
        "epochs is more frequent than the smallest share that shows Fig. 13.",
        redefined="Linux NewReno was the measure of a NewReno-like epoch; it is NewReno without delayed ACKs, as "
        "Linux H-TCP counts packets.", kind="presence", remark=_disturbed_remark((16,)), possible=SHARE),
    Claim("000-L13", "No discernible difference at 1 Mbit/s × 16 ms", "VI", "none", " packets",
        "largest mean distance between two algorithms' delays on one system, in packets of queue", _l13,
        AtMost(1.0, 1.5), "fig-discernible", redefined=_SHIFT, kind="ordering", possible=POSITIVE,
        standing=certain("The queue holds two packets at the most; distributions in it can hardly be a packet "
        "apart.")),
    Claim("000-L14", "At 100 Mbit/s × 16 ms the distribution of delay with Linux H-TCP is similar to NewReno's",
        "VII-A, Fig. 9", "similar", "", "Kolmogorov–Smirnov distance of Linux H-TCP's and Linux NewReno's delays",
        _between((100, 16, "1bdp"), "linux-htcp", "linux-reno"), AtMost(0.15, 0.30), "fig-09-11", kind="shape",
        why="The reordering that would make an epoch like NewReno's is rarer here than on the paper's testbed, see "
        "000-L12 ({000-L12} of the epochs).", possible=(0.0, 1.0)),
    Claim("000-L15", "The effect of Linux H-TCP's fluctuation is seen in its delays at 100 Mbit/s × 80 ms",
        "VII-A, Fig. 11", "seen", "", "Kolmogorov–Smirnov distance of Linux H-TCP's and FreeBSD H-TCP's delays",
        _between((100, 80, "1bdp"), "linux-htcp", "freebsd-htcp"), AtLeast(0.15, 0.05), "fig-09-11", kind="shape",
        possible=(0.0, 1.0)),
)  # fmt: skip
