"""Sections 4.1.1 and 4.1.2, sentence by sentence: what they say about the ocean link, and when it counts as so.

“Small” queues are 0.02, 0.05 and 0.1 BDP, “large” ones 0.2, 0.5 and 1 BDP, as the paper divides them. Points are per
cent of the link. “Loss-based” are HS-TCP, H-TCP and CUBIC; “TCP” is SACK.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailback.experiment import AtLeast, AtMost, Measured, Within

from .extract import JOIN_RTTS, JOIN_RTTS_SEEN
from .grid import ALGORITHMS, LOSS_BASED, MANY, OBJECTS, WAN
from .matrices import (
    LEAST_SEEDS,
    OfSeed,
    SeedRuns,
    below_in_every_seed,
    by_name,
    by_queue,
    claim,
    extreme,
    mean,
    median,
    rank_correlation,
    share_where,
)

QUEUES = WAN.queues
TINY, SMALL, LARGE, HUGE = (0.02, 0.05), (0.02, 0.05, 0.1), (0.2, 0.5, 1.0), (0.5, 1.0)
SEEN = (0.2, 0.5)
SIZES = tuple(str(size >> 10) for size in OBJECTS)
W64 = "www/64/mean"
ONE_POINT = 1.0
"""Of the link's use: closer is no order."""


def _badly_used(runs: SeedRuns) -> Measured:
    used = 100 * runs.at("utilisation", ALGORITHMS, TINY)
    return Measured(mean(used.max(axis=0)), by_name(ALGORITHMS, used))


def _bursts_matter(runs: SeedRuns) -> Measured:
    gained = 100 * (runs.ablation("smooth", "utilisation", ALGORITHMS, (0.05,)) - runs.at(
        "utilisation", ALGORITHMS, (0.05,)))  # fmt: skip
    return Measured(mean(gained), by_name(ALGORITHMS, gained))


def _larger_is_better(runs: SeedRuns) -> Measured:
    used = 100 * runs.at("utilisation", ALGORITHMS, (0.02, 1.0))
    gain = used[:, 1:] - used[:, :1]
    return Measured(extreme(gain, False), by_name(ALGORITHMS, gain))


def _needed(runs: SeedRuns) -> Measured:
    used = 100 * runs.at("utilisation", ALGORITHMS, HUGE)
    return Measured(mean(used[1:]) - mean(used[:1]), by_name(ALGORITHMS, used))


def _htcp_loses_most(runs: SeedRuns) -> Measured:
    loss = runs.at("loss", ALGORITHMS, QUEUES)
    share, ratio = share_where(loss[2], np.delete(loss, 2, axis=0), largest=True)
    return Measured(share, by_queue(QUEUES, ratio))


def _htcp_much_more(runs: SeedRuns) -> Measured:
    loss = runs.at("loss", ("htcp", "highspeed", "cubic"), QUEUES)
    ratio = loss[0] / loss[1:].mean(axis=0)
    return Measured(median(ratio), by_queue(QUEUES, ratio))


def _step_of(algorithm: str, queues: tuple[float, ...]) -> OfSeed:
    def look(runs: SeedRuns) -> Measured:
        steps = runs.at("step", (algorithm, "highspeed", "cubic"), queues)
        ratio = steps[0] / steps[1:].max(axis=0)
        return Measured(median(ratio), by_queue(queues, ratio) | by_name((algorithm, "highspeed", "cubic"), steps))

    return look


def _compound_loses_small(runs: SeedRuns) -> Measured:
    loss = runs.at("loss", ("compound", "highspeed", "cubic"), SMALL)
    ratio = loss[0] / loss[1:].mean(axis=0)
    return Measured(median(ratio), by_queue(SMALL, ratio))


def _smaller_bursts(runs: SeedRuns) -> Measured:
    lost = runs.at("drops_per_event", ("htcp", "highspeed", "cubic"), QUEUES)
    ratio = lost[1:].max(axis=0) / lost[0]
    return Measured(median(ratio), by_queue(QUEUES, ratio) | by_name(("htcp", "highspeed", "cubic"), lost))


STARTERS = ("reno", "compound")


def _high_when_huge(runs: SeedRuns) -> Measured:
    ratio = runs.at("loss", STARTERS, HUGE) / runs.at("loss", ("highspeed",), HUGE)
    return Measured(extreme(ratio, False), by_name(STARTERS, ratio))


def _at_joins(runs: SeedRuns) -> Measured:
    drops = runs.at("drops", STARTERS, HUGE)
    share = 100 * runs.at("join_drops", STARTERS, HUGE) / drops
    others = {
        f"within {rtts} RTTs": extreme(100 * runs.at(f"join_drops_after/{rtts}", STARTERS, HUGE) / drops, False)
        for rtts in JOIN_RTTS_SEEN
        if rtts != JOIN_RTTS
    }
    time = {"such time in the run (%)": mean(100 * runs.at("join_time_share", STARTERS, HUGE))}
    return Measured(extreme(share, False), by_name(STARTERS, share) | _existing(others | time))


def _existing(parts: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in parts.items() if not np.isnan(value)}


def _limited_start(runs: SeedRuns) -> Measured:
    ratio = runs.ablation("lss", "loss", ("reno",), HUGE) / runs.at("loss", ("reno",), HUGE)
    return Measured(extreme(ratio, True), by_queue(HUGE, ratio))


def _more_when_larger(runs: SeedRuns) -> Measured:
    drops = runs.at("join_drops", STARTERS, (0.2, 1.0))
    ratio = drops[:, 1:] / drops[:, :1]
    return Measured(extreme(ratio, False), by_name(STARTERS, ratio))


WITHOUT = "without the slowest twentieth"


def _same_pattern(runs: SeedRuns) -> Measured:
    middle = runs.at(W64, ALGORITHMS, QUEUES)
    each = {size: rank_correlation(runs.at(f"www/{size}/mean", ALGORITHMS, QUEUES), middle) for size in SIZES}
    parts = {f"{size} KB": value for size, value in each.items() if size != "64"}
    lowest = extreme(np.array(list(parts.values())), False)
    middle = runs.without_slowest("64", ALGORITHMS, QUEUES)
    calm = [rank_correlation(runs.without_slowest(size, ALGORITHMS, QUEUES), middle) for size in SIZES if size != "64"]
    return Measured(lowest, parts | {f"the lowest {WITHOUT}": extreme(np.array(calm), False)})


def _a_little_longer(runs: SeedRuns) -> Measured:
    queues = QUEUES[2:]
    parts = {}
    for size in ("4", "64"):
        took = runs.at(f"www/{size}/mean", ("reno", *LOSS_BASED), queues)
        parts[f"{size} KB (%)"] = 100 * mean(took[1:] / took[:1] - 1)
    return Measured(mean(np.array(list(parts.values()))), parts)


def _near_the_cliff(runs: SeedRuns) -> Measured:
    share = 100 * runs.at("above_half", LOSS_BASED, LARGE)
    # One cut of four empties the queue; twenty flows are not all cut at once.
    many = 100 * replace(runs, strict=False).at("above_half", LOSS_BASED, LARGE, flows=MANY)
    return Measured(mean(share), by_name(LOSS_BASED, share) | {"with twenty flows": mean(many)})


def _perceptible(runs: SeedRuns) -> Measured:
    took = 1e3 * runs.at("www/64/p95", ("reno", *LOSS_BASED), (0.1,))
    more = took[1:] - took[:1]
    slowest = 1e3 * runs.quantile("64", 0.99, ("reno", *LOSS_BASED), (0.1,))
    return Measured(
        extreme(more, True),
        by_name(LOSS_BASED, more) | {"the 99th percentile": extreme(slowest[1:] - slowest[:1], True)},
    )


def _especially_htcp(runs: SeedRuns) -> Measured:
    took = runs.at("www/64/p95", ("htcp", "highspeed", "cubic"), (0.1,))
    return Measured(float(took[0, 0] / took[1:, 0].max()), by_name(("htcp", "highspeed", "cubic"), took))


def _compound_limits(runs: SeedRuns) -> Measured:
    took = runs.at(W64, ("compound", *LOSS_BASED), SEEN)
    ratio = took[0] / took[1:].mean(axis=0)
    return Measured(mean(ratio), by_queue(SEEN, ratio))


def _compound_huge(runs: SeedRuns) -> Measured:
    took = runs.at(W64, ("compound",), (0.2, 1.0))
    return Measured(float(took[0, 1] / took[0, 0]), by_queue((0.2, 1.0), took))


def _acts_as_tcp(runs: SeedRuns) -> Measured:
    return Measured(100 * float(runs.at("dwnd_empty", ("compound",), (1.0,))[0, 0]))


def _like_http(what: str) -> OfSeed:
    def look(runs: SeedRuns) -> Measured:
        of_call = runs.at(what, ALGORITHMS, QUEUES)
        calm = rank_correlation(of_call, runs.without_slowest("64", ALGORITHMS, QUEUES))
        return Measured(rank_correlation(of_call, runs.at(W64, ALGORITHMS, QUEUES)), {WITHOUT: calm})

    return look


def _delay_raised(runs: SeedRuns) -> Measured:
    delay = runs.at("voip_ms", ("reno", *LOSS_BASED), HUGE)
    more = delay[1:] - delay[:1]
    return Measured(mean(more), by_name(LOSS_BASED, more))


def _jitter_raised(runs: SeedRuns) -> Measured:
    jitter = runs.at("jitter_ms", ("reno", *LOSS_BASED), HUGE)
    ratio = jitter[1:] / jitter[:1]
    return Measured(mean(ratio), by_name(LOSS_BASED, ratio))


def _compound_call(runs: SeedRuns) -> Measured:
    parts = {}
    for what, least in (("voip_ms", WAN.delay_ms + WAN.user_ms), ("jitter_ms", 0.0)):
        found = runs.at(what, ("compound", *LOSS_BASED), SEEN) - least
        parts[what] = mean(found[0] / found[1:].mean(axis=0))
    return Measured(extreme(np.array(list(parts.values())), True), parts)


def _htcp_jitter(runs: SeedRuns) -> Measured:
    jitter = runs.at("jitter_ms", ALGORITHMS, QUEUES)
    share, ratio = share_where(jitter[2], np.delete(jitter, 2, axis=0), largest=True)
    return Measured(share, by_queue(QUEUES, ratio))


def _throughput(
    runs: SeedRuns, algorithms: tuple[str, ...], base: tuple[str, ...], queues: tuple[float, ...]
) -> Measured:
    parts = {}
    for what in ("ftp_mbps", "hftp_mbps"):
        ratio = runs.at(what, algorithms, queues).mean(axis=0) / runs.at(what, base, queues).mean(axis=0)
        parts[what[:-5].upper()] = mean(ratio)
    return Measured(float(np.mean(list(parts.values()))), parts)


def _compound_friendly(runs: SeedRuns) -> Measured:
    return _throughput(runs, ("compound",), LOSS_BASED, LARGE)


def _users_slowed(runs: SeedRuns) -> Measured:
    return _throughput(runs, LOSS_BASED, ("reno",), QUEUES[2:])


def _htcp_slows_most(runs: SeedRuns) -> Measured:
    rate = runs.at("hftp_mbps", ALGORITHMS, QUEUES[2:])
    share, ratio = share_where(rate[2], np.delete(rate, 2, axis=0), largest=False)
    return Measured(share, by_queue(QUEUES[2:], ratio))


def _htcp_uses_least(runs: SeedRuns) -> Measured:
    used = 100 * runs.at("utilisation", ("htcp", "highspeed", "cubic", "compound"), QUEUES)
    used[3, : len(SMALL)] = used[2, : len(SMALL)]
    less = used[0] - used[1:].min(axis=0)
    return Measured(100 * mean(np.where(np.isnan(less), np.nan, less < 0)), by_queue(QUEUES, less))


def _htcp_below_tcp(runs: SeedRuns) -> Measured | None:
    if len(runs.data.seeds) < LEAST_SEEDS:
        return None
    used = 100 * runs.every_seed("utilisation", ("htcp", "reno"), QUEUES)
    if np.isnan(used).any():
        return None
    below = below_in_every_seed(used[:, 0], used[:, 1], np.full(len(QUEUES), ONE_POINT))
    here = 100 * runs.at("utilisation", ("htcp", "reno"), QUEUES)
    return Measured(float(np.sum(below)), by_queue(QUEUES, here[0] - here[1]))


def _cross_harm(runs: SeedRuns) -> Measured:
    lost = runs.at("web_drops", ("htcp", "cubic"), QUEUES)
    return Measured(median(lost[0] / lost[1]), by_queue(QUEUES, lost[0] / lost[1]))


def _compound_uses_most(runs: SeedRuns) -> Measured:
    used = 100 * runs.at("utilisation", ALGORITHMS, LARGE)
    lead = used[4] - used[:4].max(axis=0)
    return Measured(100 * mean(np.where(np.isnan(lead), np.nan, lead >= -ONE_POINT)), by_queue(LARGE, lead))


def _compound_least_harm(runs: SeedRuns) -> Measured:
    parts = {}
    for what, largest in ((W64, False), ("voip_ms", False), ("jitter_ms", False), ("hftp_mbps", True)):
        found = runs.at(what, ("compound", *LOSS_BASED), LARGE)
        parts[what] = share_where(found[0], found[1:], largest, tie=0.01)[0]
    return Measured(mean(np.array(list(parts.values()))), parts)


def _leaves_the_knee(runs: SeedRuns) -> Measured:
    delay = runs.at("voip_ms", ("compound",), (0.2, 1.0))
    return Measured(float(delay[0, 1] - delay[0, 0]), by_queue((0.2, 1.0), delay))


def _compound_unseeing(runs: SeedRuns) -> Measured:
    share = 100 * runs.at("loss_unseen", ("compound",), SMALL)
    return Measured(mean(share), by_queue(SMALL, share))


def _compound_below_tcp(runs: SeedRuns) -> Measured:
    used = 100 * runs.at("utilisation", ("compound", "reno"), SMALL)
    less = used[0] - used[1]
    return Measured(100 * mean(np.where(np.isnan(less), np.nan, less < 0)), by_queue(SMALL, less))


def _compound_harms(runs: SeedRuns) -> Measured:
    parts = {}
    for what in (W64, "jitter_ms"):
        found = runs.at(what, ("compound", "reno"), SMALL)
        parts[what] = mean(found[0] / found[1])
    return Measured(float(np.mean(list(parts.values()))), parts)


def _twenty_use_less(runs: SeedRuns) -> Measured:
    queues = QUEUES[:5]
    used = 100 * runs.at("utilisation", ("compound", *LOSS_BASED), queues, flows=20)
    gap = used[1:].max(axis=0) - used[0]
    return Measured(mean(gap), by_queue(queues, gap))


def _twenty_no_better(runs: SeedRuns) -> Measured:
    queues = QUEUES[:5]
    took = runs.at(W64, ("compound", *LOSS_BASED), queues, flows=20)
    ratio = took[0] / took[1:].mean(axis=0)
    return Measured(mean(ratio), by_queue(queues, ratio))


def _not_scalable(runs: SeedRuns) -> Measured:
    each = []
    for flows in (4, 20):
        loss = runs.at("loss", ("compound", *LOSS_BASED), (0.2,), flows=flows)
        each.append(mean(loss[:1]) / mean(loss[1:]))
    return Measured(each[1] / each[0], {"4 flows": each[0], "20 flows": each[1]})


_JOIN = (
    "Drops counted within 5 s of a join at every scale, four fifths of the joining's time at the usual one; it is 20 "
    "round trips."
)
_NOISE = "One case at no tie was enough; a case now lies beyond the seeds' spread, and chance does not give as many."
RESULTS, DISCUSSION = "4.1.1", "4.1.2"
USE, LOSS, HTTP, CALL, FTP, CDF, TWENTY, WHY = (
    "wan-link", "wan-link", "wan-users", "wan-users", "wan-users", "wan-cdf", "wan-20", "mechanism",
)  # fmt: skip
CLAIMS = (
    claim("002-L1a", "With 0.02 and 0.05 BDP the link is not well used whichever algorithm", f"{RESULTS}, Fig. 4(a)",
          "low for all", " %", "the best algorithm's utilisation, mean of both queues", _badly_used, AtMost(85, 92),
          USE),
    claim("002-L1b", "Cause: bursty web traffic makes small queues drop while the link has room", RESULTS, "bursts",
          " points", "utilisation gained at 0.05 BDP if the web's mean load is sent without bursts, mean of all",
          _bursts_matter, AtLeast(3, 1), USE),
    claim("002-L1c", "Wide-area routers need large queues for bursty web traffic", DISCUSSION, "larger is better",
          " points", "utilisation with 1 BDP less that with 0.02, the algorithm that gains least", _larger_is_better,
          AtLeast(5, 1), USE),
    claim("002-L2", "High-speed algorithms are needed to use a large BDP with a large queue", f"{RESULTS}, Fig. 4(a)",
          "TCP lower", " points", "mean of the four less SACK, 0.5 and 1 BDP", _needed, AtLeast(5, 1), USE,
          why="Small windows and short runs flatter SACK; at the paper's scale it is far behind [full scale]."),
    claim("002-L3a", "H-TCP always causes the highest loss rate", f"{RESULTS}, Fig. 4(b)", "100 %", " %",
          "share of the queues at which no other is more than 5 % above it", _htcp_loses_most, AtLeast(100, 66), LOSS,
          why="Elsewhere SACK's slow start or Compound's blind steps lose more, as the paper's 002-L6a and L4a say."),
    claim("002-L3b", "Cause: H-TCP's convex growth has a large step when congestion comes", RESULTS, "large", "×",
          "growth a round trip before a reduction, over the larger of HS-TCP's and CUBIC's, median of the queues",
          _step_of("htcp", QUEUES), AtLeast(1.5, 1), WHY),
    claim("002-L3c", "H-TCP causes much higher loss", DISCUSSION, "much higher", "×",
          "loss rate over the mean of HS-TCP's and CUBIC's, median of the queues", _htcp_much_more, AtLeast(2, 1.2),
          LOSS),
    claim("002-L4a", "Compound's loss rate is high when the queue is small", f"{RESULTS}, Fig. 4(b)", "high", "×",
          "loss rate over the mean of HS-TCP's and CUBIC's up to 0.1 BDP, median", _compound_loses_small,
          AtLeast(1.2, 1), LOSS),
    claim("002-L4b", "Cause: Compound's binomial step is very large when congestion comes", RESULTS, "very large", "×",
          "growth a round trip before a reduction, over the larger of HS-TCP's and CUBIC's, up to 0.1 BDP, median",
          _step_of("compound", SMALL), AtLeast(1.5, 1), WHY),
    claim("002-L5", "CUBIC and HS-TCP lose fewer segments in a congestion event", RESULTS, "fewer", "×",
          "packets of the flows lost in an event, the larger of the two over H-TCP, median of the queues",
          _smaller_bursts, AtMost(0.67, 1), WHY),
    claim("002-L6a", "TCP's and Compound's loss rate is very high with 0.5 and 1 BDP", f"{RESULTS}, Fig. 4(b)",
          "very high", "×", "over HS-TCP's, the smallest of the four", _high_when_huge, AtLeast(2, 1), LOSS,
          why="Four joins weigh more in a short schedule, HS-TCP's limited ones too."),
    claim("002-L6b", "Most of it is lost shortly after new high-speed flows join", RESULTS, "most", " %",
          f"share of the drops within {JOIN_RTTS} empty round trips of a join, the smallest of the four", _at_joins,
          AtLeast(50, 30), WHY, redefined=_JOIN),
    claim("002-L6c", "Cause: TCP and Compound have no limited slow start", RESULTS, "would lose less", "×",
          "SACK's loss rate with limited slow start over that without, 0.5 and 1 BDP, the larger", _limited_start,
          AtMost(0.5, 0.8), WHY),
    claim("002-L6d", "The larger the queue, the more is dropped at the end of slow start", RESULTS, "more", "×",
          "drops at joins with 1 BDP over those with 0.2, the smaller of SACK and Compound", _more_when_larger,
          AtLeast(2, 1.2), WHY, redefined=_JOIN),
    claim("002-L7a", "Response times of all sizes follow the same pattern", RESULTS, "same", "",
          "rank correlation with those of 64 KB over all cells, the lowest of seven sizes", _same_pattern,
          AtLeast(0.8, 0.6), HTTP, why="A few transactions that wait for a timer decide a mean [without the slowest "
          "twentieth]."),
    claim("002-L7b", "Loss-based algorithms raise the mean response time a little", f"{RESULTS}, Fig. 5(a, b)",
          "a little", " %", "over SACK's, mean of 4 and 64 KB from 0.1 BDP", _a_little_longer, Within(1, 50, 0, 100),
          HTTP),
    claim("002-L7c", "Cause: they keep the network near the cliff most of the time", RESULTS, "most of the time", " %",
          "share of time with the queue over half full, large queues, mean of the three", _near_the_cliff,
          AtLeast(50, 35), WHY, why="One cut of all four flows empties the queue; twenty flows keep it fuller [with "
          "twenty flows]."),
    claim("002-L7d", "Loss-based algorithms perceptibly delay some transactions", f"{RESULTS}, Fig. 6", "perceptible",
          " ms", "95th percentile of 64 KB at 0.1 BDP less SACK's, the largest; 100 ms can be felt", _perceptible,
          AtLeast(100, 50), CDF, why="Some are late, but not one of twenty, as the rule asks [the 99th percentile]."),
    claim("002-L7e", "H-TCP does so most", f"{RESULTS}, Fig. 6", "especially H-TCP", "×",
          "its 95th percentile of 64 KB at 0.1 BDP over the larger of HS-TCP's and CUBIC's", _especially_htcp,
          AtLeast(1.0, 0.95), CDF, why="Losses come in bursts and few transactions meet them: the 95th percentiles "
          "are alike."),
    claim("002-L8a", "Compound limits the increase of response times when the queue is large", RESULTS, "less", "×",
          "mean of 64 KB over the loss-based mean, 0.2 and 0.5 BDP", _compound_limits, AtMost(0.97, 1), HTTP,
          why="At a quarter of the rate 0.2 BDP is hardly visible to Compound [γ divided by 4]."),
    claim("002-L8b", "With 1 BDP Compound still obviously raises it", RESULTS, "obviously", "×",
          "mean of 64 KB with 1 BDP over that with 0.2", _compound_huge, AtLeast(1.1, 1.03), HTTP,
          why="Packet errors keep the delay window in use; without them it is so [no packet errors]."),
    claim("002-L8c", "Cause: with dwnd at zero it acts as TCP and slowly drives the network to the cliff", RESULTS,
          "for a long time", " %", "share of time with the delay window empty, 1 BDP", _acts_as_tcp, AtLeast(50, 25),
          WHY, why="Packet errors cut the loss window before it fills the link; without them it is so [no packet "
          "errors]."),
    claim("002-L9a", "The call's delay follows the pattern of response times", f"{RESULTS}, Fig. 5(c)", "similar", "",
          "rank correlation with 64 KB over all cells", _like_http("voip_ms"), AtLeast(0.8, 0.5), CALL,
          why="A few transactions that wait for a timer decide a mean [without the slowest twentieth]."),
    claim("002-L9b", "So does its jitter", f"{RESULTS}, Fig. 5(d)", "similar", "",
          "rank correlation with 64 KB over all cells", _like_http("jitter_ms"), AtLeast(0.8, 0.5), CALL,
          why="A few transactions that wait for a timer decide a mean [without the slowest twentieth]."),
    claim("002-L9c", "Loss-based algorithms obviously raise the call's delay when the queue is large", RESULTS,
          "obviously", " ms", "mean of the three less SACK's, 0.5 and 1 BDP", _delay_raised, AtLeast(10, 3), CALL),
    claim("002-L9d", "And its jitter", RESULTS, "obviously", "×", "mean of the three over SACK's, 0.5 and 1 BDP",
          _jitter_raised, AtLeast(1.1, 1), CALL),
    claim("002-L9e", "Where it can see congestion Compound is better than the loss-based in both", RESULTS, "better",
          "×", "queueing delay and jitter over the loss-based mean, 0.2 and 0.5 BDP, the larger of both",
          _compound_call, AtMost(0.95, 1), CALL, why="Its delay is shorter, but climbs and retreats shake the queue, "
          "with a smaller γ too [γ divided by 4]."),
    claim("002-L9f", "H-TCP causes the largest jitter", DISCUSSION, "largest", " %",
          "share of the queues at which no other is more than 5 % above it", _htcp_jitter, AtLeast(80, 50), CALL,
          why="Compound's climbs and retreats shake the middle queues more, with a smaller γ too [γ divided by 4]."),
    claim("002-L10a", "Compound is very friendly to long transfers when the queue is large", f"{RESULTS}, Fig. 5(e, f)",
          "friendly", "×", "FTP and HFTP beside it over those beside the loss-based, large queues, mean of both",
          _compound_friendly, AtLeast(1.2, 1), FTP, why="HFTP is one flow, whose early losses decide its average "
          "[spread over seeds]."),
    claim("002-L10b", "Loss-based algorithms obviously reduce the throughput of FTP users", f"{RESULTS}; {DISCUSSION}",
          "reduced", "×", "FTP and HFTP over those beside SACK, from 0.1 BDP, mean of both", _users_slowed,
          AtMost(0.9, 1), FTP),
    claim("002-L10c", "H-TCP performs worst there", RESULTS, "worst", " %", "share of the queues from 0.1 BDP at "
          "which no other's HFTP is more than 5 % slower", _htcp_slows_most, AtLeast(75, 50), FTP,
          why="HFTP is one flow, whose early losses decide its average [spread over seeds]."),
    claim("002-L11a", "H-TCP uses less of the link than the other high-speed algorithms", DISCUSSION, "lower", " %",
          "share of the queues at which it is below HS-TCP, CUBIC and, from 0.2 BDP, Compound", _htcp_uses_least,
          AtLeast(66, 50), USE, why="With the agent's recovery as it is meant to be even less so [rate halving]."),
    claim("002-L11b", "And in some cases less than TCP", DISCUSSION, "some", " cases",
          "queues at which every seed is below every seed of SACK, and the median by over a point", _htcp_below_tcp,
          AtLeast(2, 1), USE, why="With the agent's recovery as it is meant to be not at all [rate halving].",
          redefined=_NOISE),
    claim("002-L11c", "Cause: its bursts of loss harm cross traffic", DISCUSSION, "harm", "×",
          "packets of others lost beside it over those beside CUBIC, median of the queues", _cross_harm,
          AtLeast(1.5, 1.1), WHY),
    claim("002-L12a", "With large queues Compound uses most of the link", DISCUSSION, "highest", " %",
          "share of 0.2, 0.5 and 1 BDP at which no other is more than a point above", _compound_uses_most,
          AtLeast(100, 66), USE, why="At a quarter of the rate it hardly sees 0.2 BDP [γ divided by 4]."),
    claim("002-L12b", "And harms the existing applications least", DISCUSSION, "slightest", " %",
          "share of (large queue × 64 KB, delay, jitter, HFTP) in which it is best of the four", _compound_least_harm,
          AtLeast(75, 50), HTTP, why="In jitter it is not the best, see 002-L9e; HFTP is one flow."),
    claim("002-L12c", "With 1 BDP it can leave the knee and obviously raise queueing delay", DISCUSSION, "obviously",
          " ms", "the call's delay with 1 BDP less that with 0.2", _leaves_the_knee, AtLeast(10, 3), CALL,
          why="Packet errors keep the delay window in use; without them it is so [no packet errors]."),
    claim("002-L12d", "Cause: up to 0.1 BDP Compound cannot detect congestion through delay", DISCUSSION, "cannot",
          " %", "share of its losses before which the backlog it saw was below γ", _compound_unseeing, AtLeast(75, 50),
          WHY),
    claim("002-L12e", "Up to 0.1 BDP it uses even less than TCP", DISCUSSION, "lower", " %",
          "share of the three queues", _compound_below_tcp, AtLeast(100, 33), USE),
    claim("002-L12f", "And the existing applications are adversely affected", DISCUSSION, "worse", "×",
          "response time of 64 KB and jitter over SACK's, mean of both", _compound_harms, AtLeast(1.05, 1), CALL),
    claim("002-L13a", "With 20 flows Compound does not reach high utilisation up to 0.5 BDP",
          f"{DISCUSSION}, Fig. 7(a)", "lower", " points", "best loss-based less Compound, mean up to 0.5 BDP",
          _twenty_use_less, AtLeast(3, 1), TWENTY),
    claim("002-L13b", "Nor is it better than the loss-based for 64 KB", f"{DISCUSSION}, Fig. 7(b)", "not better", "×",
          "response time over the loss-based mean, up to 0.5 BDP", _twenty_no_better, AtLeast(0.98, 0.95), TWENTY),
    claim("002-L13c", "Cause: holding γ segments a flow, Compound does not scale with the number of flows", DISCUSSION,
          "worse with 20", "×", "its loss rate over the loss-based mean at 0.2 BDP, with 20 flows over with 4",
          _not_scalable, AtLeast(1.2, 1), TWENTY),
)  # fmt: skip
