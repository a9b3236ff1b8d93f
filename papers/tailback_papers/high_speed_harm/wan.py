"""Sections 4.1.1 and 4.1.2, sentence by sentence: what they say about the ocean link, and when it counts as so.

“Small” queues are 0.02, 0.05 and 0.1 BDP, “large” ones 0.2, 0.5 and 1 BDP, as the paper divides them. Points are per
cent of the link. “Loss-based” are HS-TCP, H-TCP and CUBIC; “TCP” is SACK.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tailback.experiment import (
    SHARE,
    AtLeast,
    AtMost,
    Claim,
    Data,
    Measured,
    Within,
    by_name,
    least,
    mean,
    median,
    most,
)

from .extract import JOIN_RTTS, JOIN_RTTS_SEEN
from .grid import ALGORITHMS, FEW, LOSS_BASED, MANY, OBJECTS, WAN
from .matrices import (
    LARGEST,
    LEAST_SEEDS,
    NAME,
    QUEUE,
    SMALLEST,
    Floats,
    above,
    at,
    below_in_every_seed,
    lead,
    measured,
    named,
    over_largest,
    over_mean,
    over_smallest,
    rank_correlation,
    ratio,
    same,
    share,
    times,
)

QUEUES = WAN.queues
TINY, SMALL, LARGE, HUGE = (0.02, 0.05), (0.02, 0.05, 0.1), (0.2, 0.5, 1.0), (0.5, 1.0)
SEEN = (0.2, 0.5)
SIZES = tuple(str(size >> 10) for size in OBJECTS)
W64 = "www/64/mean"
ONE_POINT = 1.0
"""Of the link's use: closer is no order."""
STARTERS = ("reno", "compound")
HTCP_FIRST = ("htcp", "highspeed", "cubic")
HTCP_AND_ALL = ("htcp", "reno", "highspeed", "cubic", "compound")
COMPOUND_FIRST = ("compound", *LOSS_BASED)
WITHOUT = "without the slowest twentieth"

_wan = partial(measured, "wan")


def _at_joins(data: Data, seed: int) -> Measured:
    drops, of_joins = (at(data, seed, what, STARTERS, HUGE) for what in ("drops", "join_drops"))
    others = {
        f"within {rtts} RTTs": least(100 * at(data, seed, f"join_drops_after/{rtts}", STARTERS, HUGE) / drops)
        for rtts in JOIN_RTTS_SEEN
        if rtts != JOIN_RTTS
    }
    time = {"such time in the run (%)": mean(100 * at(data, seed, "join_time_share", STARTERS, HUGE))}
    parts = {name: value for name, value in (others | time).items() if not np.isnan(value)}
    return Measured(least(100 * of_joins / drops), named(STARTERS, 100 * of_joins / drops) | parts)


def _calm(quantiles: list[float]) -> float:
    """Mean without the slowest twentieth.

    A transaction that waits for a retransmission timer takes several times as long as the others, and a few of them
    decide a mean of some hundred.
    """
    return float(np.mean(quantiles[: 1 + round(0.95 * (len(quantiles) - 1))]))


def _response_times(data: Data, seed: int, size: str, take: Any = None) -> Floats:
    what = f"www/{size}/{'quantiles' if take else 'mean'}"
    return at(data, seed, what, ALGORITHMS, QUEUES, **({"take": take, "strict": False} if take else {}))


def _same_pattern(data: Data, seed: int) -> Measured:
    found = ({size: _response_times(data, seed, size, take) for size in SIZES} for take in (None, _calm))
    usual, calm = (
        {f"{size} KB": rank_correlation(one, each["64"]) for size, one in each.items() if size != "64"}
        for each in found
    )
    return Measured(least(list(usual.values())), usual | {f"the lowest {WITHOUT}": least(list(calm.values()))})


def _like_http(what: str) -> Any:
    def look(data: Data, seed: int) -> Measured:
        of_call = at(data, seed, what, ALGORITHMS, QUEUES)
        usual, calm = (rank_correlation(of_call, _response_times(data, seed, "64", take)) for take in (None, _calm))
        return Measured(usual, {WITHOUT: calm})

    return look


def _near_the_cliff(data: Data, seed: int) -> Measured:
    filled = 100 * at(data, seed, "above_half", LOSS_BASED, LARGE)
    # One cut of four empties the queue; twenty flows are not all cut at once.
    many = 100 * at(data, seed, "above_half", LOSS_BASED, LARGE, flows=MANY, strict=False)
    return Measured(mean(filled), named(LOSS_BASED, filled) | {"with twenty flows": mean(many)})


def _perceptible(data: Data, seed: int) -> Measured:
    took = 1e3 * at(data, seed, "www/64/p95", ("reno", *LOSS_BASED), (0.1,))
    slowest = 1e3 * at(
        data, seed, "www/64/quantiles", ("reno", *LOSS_BASED), (0.1,), strict=False,
        take=lambda each: each[round(0.99 * (len(each) - 1))],
    )  # fmt: skip
    parts = named(LOSS_BASED, above(took)) | {"the 99th percentile": most(above(slowest))}
    return Measured(most(above(took)), parts)


def _htcp_below_tcp(data: Data, seed: int) -> Measured | None:
    used = 100 * at(data, None, "utilisation", ("htcp", "reno"), QUEUES)
    if len(data.seeds) < LEAST_SEEDS or np.isnan(used).any():
        return None
    below = below_in_every_seed(used[:, 0], used[:, 1], np.full(len(QUEUES), ONE_POINT))
    here = 100 * at(data, seed, "utilisation", ("htcp", "reno"), QUEUES)
    return Measured(float(np.sum(below)), by_name(QUEUE, lead(here), queue_bdp=QUEUES))


def _htcp_less(used: Floats) -> Floats:
    # The others are HS-TCP, CUBIC and, from 0.2 BDP, Compound.
    others = used[1:].copy()
    others[2, : len(SMALL)] = others[1, : len(SMALL)]
    less: Floats = used[0] - others.min(axis=0)
    return less


def _best_of_four(found: Floats) -> list[float]:
    """Per cent of the queues in which Compound is best within a hundredth, by measure; of the last most is best."""
    won = [share(lambda ratio: ratio <= 1.01)(over_smallest(one)) for one in found[:-1]]
    return [*won, share(lambda ratio: ratio >= 0.99)(over_largest(found[-1]))]


def _of_what_may_vary(found: Floats) -> list[float]:
    """Of delay, beyond the empty path's, and of jitter: Compound's over the loss-based mean."""
    empty = WAN.delay_ms + WAN.user_ms, 0.0
    return [mean(over_mean(one - least)) for one, least in zip(found, empty, strict=True)]


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
    Claim("002-L1a", "With 0.02 and 0.05 BDP the link is not well used whichever algorithm", f"{RESULTS}, Fig. 4(a)",
          "low for all", " %", "the best algorithm's utilisation, mean of both queues",
          _wan("utilisation", ALGORITHMS, TINY, lambda used: used.max(axis=0), beside=NAME, scale=100), AtMost(85, 92),
          USE, possible=SHARE),
    Claim("002-L1b", "Cause: bursty web traffic makes small queues drop while the link has room", RESULTS, "bursts",
          " points", "utilisation gained at 0.05 BDP if the web's mean load is sent without bursts, mean of all",
          _wan("utilisation", ALGORITHMS, (0.05,), lambda used: 100 * lead(used), each=NAME, ablation=("smooth", None)),
          AtLeast(3, 1), USE),
    Claim("002-L1c", "Wide-area routers need large queues for bursty web traffic", DISCUSSION, "larger is better",
          " points", "utilisation with 1 BDP less that with 0.02, the algorithm that gains least",
          _wan("utilisation", ALGORITHMS, (0.02, 1.0), lambda used: used[:, 1:] - used[:, :1], least, each=NAME,
          scale=100), AtLeast(5, 1), USE),
    Claim("002-L2", "High-speed algorithms are needed to use a large BDP with a large queue", f"{RESULTS}, Fig. 4(a)",
          "TCP lower", " points", "mean of the four less SACK, 0.5 and 1 BDP",
          _wan("utilisation", ALGORITHMS, HUGE, lambda used: mean(used[1:]) - mean(used[:1]), beside=NAME, scale=100),
          AtLeast(5, 1), USE,
          why="Small windows and short runs flatter SACK; at the paper's scale it is far behind [full scale]."),
    Claim("002-L3a", "H-TCP always causes the highest loss rate", f"{RESULTS}, Fig. 4(b)", "100 %", " %",
          "share of the queues at which no other is more than 5 % above it",
          _wan("loss", HTCP_AND_ALL, QUEUES, over_largest, LARGEST, each=QUEUE), AtLeast(100, 66), LOSS,
          why="Elsewhere SACK's slow start or Compound's blind steps lose more, as the paper's 002-L6a and L4a say.",
          possible=SHARE),
    Claim("002-L3b", "Cause: H-TCP's convex growth has a large step when congestion comes", RESULTS, "large", "×",
          "growth a round trip before a reduction, over the larger of HS-TCP's and CUBIC's, median of the queues",
          _wan("step", HTCP_FIRST, QUEUES, over_largest, median, each=QUEUE, beside=NAME), AtLeast(1.5, 1), WHY),
    Claim("002-L3c", "H-TCP causes much higher loss", DISCUSSION, "much higher", "×",
          "loss rate over the mean of HS-TCP's and CUBIC's, median of the queues",
          _wan("loss", HTCP_FIRST, QUEUES, over_mean, median, each=QUEUE), AtLeast(2, 1.2), LOSS),
    Claim("002-L4a", "Compound's loss rate is high when the queue is small", f"{RESULTS}, Fig. 4(b)", "high", "×",
          "loss rate over the mean of HS-TCP's and CUBIC's up to 0.1 BDP, median",
          _wan("loss", ("compound", "highspeed", "cubic"), SMALL, over_mean, median, each=QUEUE), AtLeast(1.2, 1),
          LOSS),
    Claim("002-L4b", "Cause: Compound's binomial step is very large when congestion comes", RESULTS, "very large", "×",
          "growth a round trip before a reduction, over the larger of HS-TCP's and CUBIC's, up to 0.1 BDP, median",
          _wan("step", ("compound", "highspeed", "cubic"), SMALL, over_largest, median, each=QUEUE, beside=NAME),
          AtLeast(1.5, 1), WHY),
    Claim("002-L5", "CUBIC and HS-TCP lose fewer segments in a congestion event", RESULTS, "fewer", "×",
          "packets of the flows lost in an event, the larger of the two over H-TCP, median of the queues",
          _wan("drops_per_event", HTCP_FIRST, QUEUES, lambda lost: lost[1:].max(axis=0) / lost[0], median, each=QUEUE,
          beside=NAME), AtMost(0.67, 1), WHY),
    Claim("002-L6a", "TCP's and Compound's loss rate is very high with 0.5 and 1 BDP", f"{RESULTS}, Fig. 4(b)",
          "very high", "×", "over HS-TCP's, the smallest of the four",
          _wan("loss", ("highspeed", *STARTERS), HUGE, times, least, each=NAME), AtLeast(2, 1), LOSS,
          why="Four joins weigh more in a short schedule, HS-TCP's limited ones too."),
    Claim("002-L6b", "Most of it is lost shortly after new high-speed flows join", RESULTS, "most", " %",
          f"share of the drops within {JOIN_RTTS} empty round trips of a join, the smallest of the four", _at_joins,
          AtLeast(50, 30), WHY, redefined=_JOIN, possible=SHARE),
    Claim("002-L6c", "Cause: TCP and Compound have no limited slow start", RESULTS, "would lose less", "×",
          "SACK's loss rate with limited slow start over that without, 0.5 and 1 BDP, the larger",
          _wan("loss", ("reno",), HUGE, ratio, most, each=QUEUE, ablation=("lss", None)), AtMost(0.5, 0.8), WHY),
    Claim("002-L6d", "The larger the queue, the more is dropped at the end of slow start", RESULTS, "more", "×",
          "drops at joins with 1 BDP over those with 0.2, the smaller of SACK and Compound",
          _wan("join_drops", STARTERS, (0.2, 1.0), lambda drops: drops[:, 1:] / drops[:, :1], least, each=NAME),
          AtLeast(2, 1.2), WHY, redefined=_JOIN),
    Claim("002-L7a", "Response times of all sizes follow the same pattern", RESULTS, "same", "",
          "rank correlation with those of 64 KB over all cells, the lowest of seven sizes", _same_pattern,
          AtLeast(0.8, 0.6), HTTP,
          why="A few transactions that wait for a timer decide a mean [without the slowest twentieth].",
          possible=(-1.0, 1.0)),
    Claim("002-L7b", "Loss-based algorithms raise the mean response time a little", f"{RESULTS}, Fig. 5(a, b)",
          "a little", " %", "over SACK's, mean of 4 and 64 KB from 0.1 BDP",
          _wan("www/{size}/mean", ("reno", *LOSS_BASED), QUEUES[2:],
          lambda took: [100 * mean(times(one) - 1) for one in took], each="{size} KB (%)", size=("4", "64")),
          Within(1, 50, 0, 100), HTTP, possible=(-100.0, math.inf)),
    Claim("002-L7c", "Cause: they keep the network near the cliff most of the time", RESULTS, "most of the time", " %",
          "share of time with the queue over half full, large queues, mean of the three", _near_the_cliff,
          AtLeast(50, 35), WHY,
          why="One cut of all four flows empties the queue; twenty flows keep it fuller [with twenty flows].",
          possible=SHARE),
    Claim("002-L7d", "Loss-based algorithms perceptibly delay some transactions", f"{RESULTS}, Fig. 6", "perceptible",
          " ms", "95th percentile of 64 KB at 0.1 BDP less SACK's, the largest; 100 ms can be felt", _perceptible,
          AtLeast(100, 50), CDF, why="Some are late, but not one of twenty, as the rule asks [the 99th percentile]."),
    Claim("002-L7e", "H-TCP does so most", f"{RESULTS}, Fig. 6", "especially H-TCP", "×",
          "its 95th percentile of 64 KB at 0.1 BDP over the larger of HS-TCP's and CUBIC's",
          _wan("www/64/p95", HTCP_FIRST, (0.1,), over_largest, beside=NAME), AtLeast(1.0, 0.95), CDF,
          why="Losses come in bursts and few transactions meet them: the 95th percentiles are alike."),
    Claim("002-L8a", "Compound limits the increase of response times when the queue is large", RESULTS, "less", "×",
          "mean of 64 KB over the loss-based mean, 0.2 and 0.5 BDP",
          _wan(W64, COMPOUND_FIRST, SEEN, over_mean, each=QUEUE), AtMost(0.97, 1), HTTP,
          why="At a quarter of the rate 0.2 BDP is hardly visible to Compound [γ divided by 4]."),
    Claim("002-L8b", "With 1 BDP Compound still obviously raises it", RESULTS, "obviously", "×",
          "mean of 64 KB with 1 BDP over that with 0.2",
          _wan(W64, ("compound",), (0.2, 1.0), lambda took: took[0, 1] / took[0, 0], beside=QUEUE), AtLeast(1.1, 1.03),
          HTTP, why="Packet errors keep the delay window in use; without them it is so [no packet errors]."),
    Claim("002-L8c", "Cause: with dwnd at zero it acts as TCP and slowly drives the network to the cliff", RESULTS,
          "for a long time", " %", "share of time with the delay window empty, 1 BDP",
          _wan("dwnd_empty", ("compound",), (1.0,), same, scale=100), AtLeast(50, 25), WHY,
          why="Packet errors cut the loss window before it fills the link; without them it is so [no packet errors].",
          possible=SHARE),
    Claim("002-L9a", "The call's delay follows the pattern of response times", f"{RESULTS}, Fig. 5(c)", "similar", "",
          "rank correlation with 64 KB over all cells", _like_http("voip_ms"), AtLeast(0.8, 0.5), CALL,
          why="A few transactions that wait for a timer decide a mean [without the slowest twentieth].",
          possible=(-1.0, 1.0)),
    Claim("002-L9b", "So does its jitter", f"{RESULTS}, Fig. 5(d)", "similar", "",
          "rank correlation with 64 KB over all cells", _like_http("jitter_ms"), AtLeast(0.8, 0.5), CALL,
          why="A few transactions that wait for a timer decide a mean [without the slowest twentieth].",
          possible=(-1.0, 1.0)),
    Claim("002-L9c", "Loss-based algorithms obviously raise the call's delay when the queue is large", RESULTS,
          "obviously", " ms", "mean of the three less SACK's, 0.5 and 1 BDP",
          _wan("voip_ms", ("reno", *LOSS_BASED), HUGE, above, each=NAME), AtLeast(10, 3), CALL),
    Claim("002-L9d", "And its jitter", RESULTS, "obviously", "×", "mean of the three over SACK's, 0.5 and 1 BDP",
          _wan("jitter_ms", ("reno", *LOSS_BASED), HUGE, times, each=NAME), AtLeast(1.1, 1), CALL),
    Claim("002-L9e", "Where it can see congestion Compound is better than the loss-based in both", RESULTS, "better",
          "×", "queueing delay and jitter over the loss-based mean, 0.2 and 0.5 BDP, the larger of both",
          _wan("{measure}", COMPOUND_FIRST, SEEN, _of_what_may_vary, most, each="{measure}",
          measure=("voip_ms", "jitter_ms")), AtMost(0.95, 1), CALL,
          why="Its delay is shorter, but climbs and retreats shake the queue, with a smaller γ too [γ divided by 4]."),
    Claim("002-L9f", "H-TCP causes the largest jitter", DISCUSSION, "largest", " %",
          "share of the queues at which no other is more than 5 % above it",
          _wan("jitter_ms", HTCP_AND_ALL, QUEUES, over_largest, LARGEST, each=QUEUE), AtLeast(80, 50), CALL,
          why="Compound's climbs and retreats shake the middle queues more, with a smaller γ too [γ divided by 4].",
          possible=SHARE),
    Claim("002-L10a", "Compound is very friendly to long transfers when the queue is large", f"{RESULTS}, Fig. 5(e, f)",
          "friendly", "×", "FTP and HFTP beside it over those beside the loss-based, large queues, mean of both",
          _wan("{user}_mbps", COMPOUND_FIRST, LARGE, lambda rate: [mean(over_mean(one)) for one in rate], each="{user}",
          user=("ftp", "hftp")), AtLeast(1.2, 1), FTP,
          why="HFTP is one flow, whose early losses decide its average [spread over seeds]."),
    Claim("002-L10b", "Loss-based algorithms obviously reduce the throughput of FTP users", f"{RESULTS}; {DISCUSSION}",
          "reduced", "×", "FTP and HFTP over those beside SACK, from 0.1 BDP, mean of both",
          _wan("{user}_mbps", (*LOSS_BASED, "reno"), QUEUES[2:],
          lambda rate: [mean(one[:3].mean(axis=0) / one[3]) for one in rate], each="{user}", user=("ftp", "hftp")),
          AtMost(0.9, 1), FTP),
    Claim("002-L10c", "H-TCP performs worst there", RESULTS, "worst", " %",
          "share of the queues from 0.1 BDP at which no other's HFTP is more than 5 % slower",
          _wan("hftp_mbps", HTCP_AND_ALL, QUEUES[2:], over_smallest, SMALLEST, each=QUEUE), AtLeast(75, 50), FTP,
          why="HFTP is one flow, whose early losses decide its average [spread over seeds].", possible=SHARE),
    Claim("002-L11a", "H-TCP uses less of the link than the other high-speed algorithms", DISCUSSION, "lower", " %",
          "share of the queues at which it is below HS-TCP, CUBIC and, from 0.2 BDP, Compound",
          _wan("utilisation", (*HTCP_FIRST, "compound"), QUEUES, _htcp_less, share(lambda less: less < 0), each=QUEUE,
          scale=100), AtLeast(66, 50), USE,
          why="With the agent's recovery as it is meant to be even less so [rate halving].", possible=SHARE),
    Claim("002-L11b", "And in some cases less than TCP", DISCUSSION, "some", " cases",
          "queues at which every seed is below every seed of SACK, and the median by over a point", _htcp_below_tcp,
          AtLeast(2, 1), USE, why="With the agent's recovery as it is meant to be not at all [rate halving].",
          redefined=_NOISE, possible=(0.0, len(QUEUES))),
    Claim("002-L11c", "Cause: its bursts of loss harm cross traffic", DISCUSSION, "harm", "×",
          "packets of others lost beside it over those beside CUBIC, median of the queues",
          _wan("web_drops", ("htcp", "cubic"), QUEUES, ratio, median, each=QUEUE), AtLeast(1.5, 1.1), WHY),
    Claim("002-L12a", "With large queues Compound uses most of the link", DISCUSSION, "highest", " %",
          "share of 0.2, 0.5 and 1 BDP at which no other is more than a point above",
          _wan("utilisation", ("compound", *ALGORITHMS[:4]), LARGE, lambda used: used[0] - used[1:].max(axis=0),
          share(lambda lead: lead >= -ONE_POINT), each=QUEUE, scale=100), AtLeast(100, 66), USE,
          why="At a quarter of the rate it hardly sees 0.2 BDP [γ divided by 4].", possible=SHARE),
    Claim("002-L12b", "And harms the existing applications least", DISCUSSION, "slightest", " %",
          "share of (large queue × 64 KB, delay, jitter, HFTP) in which it is best of the four",
          _wan("{measure}", COMPOUND_FIRST, LARGE, _best_of_four, each="{measure}",
          measure=(W64, "voip_ms", "jitter_ms", "hftp_mbps")), AtLeast(75, 50), HTTP,
          why="In jitter it is not the best, see 002-L9e; HFTP is one flow.", possible=SHARE),
    Claim("002-L12c", "With 1 BDP it can leave the knee and obviously raise queueing delay", DISCUSSION, "obviously",
          " ms", "the call's delay with 1 BDP less that with 0.2",
          _wan("voip_ms", ("compound",), (0.2, 1.0), lambda delay: delay[0, 1] - delay[0, 0], beside=QUEUE),
          AtLeast(10, 3), CALL,
          why="Packet errors keep the delay window in use; without them it is so [no packet errors]."),
    Claim("002-L12d", "Cause: up to 0.1 BDP Compound cannot detect congestion through delay", DISCUSSION, "cannot",
          " %", "share of its losses before which the backlog it saw was below γ",
          _wan("loss_unseen", ("compound",), SMALL, same, each=QUEUE, scale=100), AtLeast(75, 50), WHY, possible=SHARE),
    Claim("002-L12e", "Up to 0.1 BDP it uses even less than TCP", DISCUSSION, "lower", " %",
          "share of the three queues",
          _wan("utilisation", ("compound", "reno"), SMALL, lead, share(lambda less: less < 0), each=QUEUE, scale=100),
          AtLeast(100, 33), USE, possible=SHARE),
    Claim("002-L12f", "And the existing applications are adversely affected", DISCUSSION, "worse", "×",
          "response time of 64 KB and jitter over SACK's, mean of both",
          _wan("{measure}", ("compound", "reno"), SMALL, lambda found: [mean(ratio(one)) for one in found],
          each="{measure}", measure=(W64, "jitter_ms")), AtLeast(1.05, 1), CALL),
    Claim("002-L13a", "With 20 flows Compound does not reach high utilisation up to 0.5 BDP",
          f"{DISCUSSION}, Fig. 7(a)", "lower", " points", "best loss-based less Compound, mean up to 0.5 BDP",
          _wan("utilisation", COMPOUND_FIRST, QUEUES[:5], lambda used: used[1:].max(axis=0) - used[0], each=QUEUE,
          scale=100, flows=MANY), AtLeast(3, 1), TWENTY),
    Claim("002-L13b", "Nor is it better than the loss-based for 64 KB", f"{DISCUSSION}, Fig. 7(b)", "not better", "×",
          "response time over the loss-based mean, up to 0.5 BDP",
          _wan(W64, COMPOUND_FIRST, QUEUES[:5], over_mean, each=QUEUE, flows=MANY), AtLeast(0.98, 0.95), TWENTY),
    Claim("002-L13c", "Cause: holding γ segments a flow, Compound does not scale with the number of flows", DISCUSSION,
          "worse with 20", "×", "its loss rate over the loss-based mean at 0.2 BDP, with 20 flows over with 4",
          _wan("loss", COMPOUND_FIRST, (0.2,), lambda loss: [mean(one[:1]) / mean(one[1:]) for one in loss],
          lambda each: each[1] / each[0], each="{flows} flows", flows=(FEW, MANY)), AtLeast(1.2, 1), TWENTY),
)  # fmt: skip
