"""How each claim about the ocean link is measured (sections 4.1.1 and 4.1.2).

“Small” queues are 0.02, 0.05 and 0.1 BDP, “large” ones 0.2, 0.5 and 1 BDP, as the paper divides them. Points are per
cent of the link. “Loss-based” are HS-TCP, H-TCP and CUBIC; “TCP” is SACK.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailback.experiment import Measured

from .extract import JOIN_RTTS, JOIN_RTTS_SEEN
from .grid import ALGORITHMS, LOSS_BASED, MANY, OBJECTS, WAN
from .see import (
    LEAST_SEEDS,
    Look,
    See,
    below_in_every_seed,
    by_name,
    by_queue,
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


def badly_used(see: See) -> Measured:
    """The best algorithm's utilisation with 0.02 and 0.05 BDP, mean of both."""
    used = 100 * see.at("utilisation", ALGORITHMS, TINY)
    return Measured(mean(used.max(axis=0)), by_name(ALGORITHMS, used))


def bursts_matter(see: See) -> Measured:
    """What a web without bursts adds to the utilisation with 0.05 BDP."""
    gained = 100 * (see.ablation("smooth", "utilisation", ALGORITHMS, (0.05,)) - see.at(
        "utilisation", ALGORITHMS, (0.05,)))  # fmt: skip
    return Measured(mean(gained), by_name(ALGORITHMS, gained))


def larger_is_better(see: See) -> Measured:
    """How much more is used with 1 BDP than with 0.02, the algorithm that gains least."""
    used = 100 * see.at("utilisation", ALGORITHMS, (0.02, 1.0))
    gain = used[:, 1:] - used[:, :1]
    return Measured(extreme(gain, False), by_name(ALGORITHMS, gain))


def needed(see: See) -> Measured:
    """Mean of the four fast algorithms less SACK, with 0.5 and 1 BDP."""
    used = 100 * see.at("utilisation", ALGORITHMS, HUGE)
    return Measured(mean(used[1:]) - mean(used[:1]), by_name(ALGORITHMS, used))


def htcp_loses_most(see: See) -> Measured:
    """Share of queues at which H-TCP's loss rate is the highest."""
    loss = see.at("loss", ALGORITHMS, QUEUES)
    share, ratio = share_where(loss[2], np.delete(loss, 2, axis=0), largest=True)
    return Measured(share, by_queue(QUEUES, ratio))


def htcp_much_more(see: See) -> Measured:
    """H-TCP's loss rate over the mean of HS-TCP's and CUBIC's, median of the queues."""
    loss = see.at("loss", ("htcp", "highspeed", "cubic"), QUEUES)
    ratio = loss[0] / loss[1:].mean(axis=0)
    return Measured(median(ratio), by_queue(QUEUES, ratio))


def step_of(algorithm: str, queues: tuple[float, ...]) -> Look:
    """Growth a round trip before a reduction over the larger of HS-TCP's and CUBIC's, median of the queues."""

    def look(see: See) -> Measured:
        steps = see.at("step", (algorithm, "highspeed", "cubic"), queues)
        ratio = steps[0] / steps[1:].max(axis=0)
        return Measured(median(ratio), by_queue(queues, ratio) | by_name((algorithm, "highspeed", "cubic"), steps))

    return look


def compound_loses_small(see: See) -> Measured:
    """Compound's loss rate over the mean of HS-TCP's and CUBIC's at small queues, median."""
    loss = see.at("loss", ("compound", "highspeed", "cubic"), SMALL)
    ratio = loss[0] / loss[1:].mean(axis=0)
    return Measured(median(ratio), by_queue(SMALL, ratio))


def smaller_bursts(see: See) -> Measured:
    """Packets lost in a congestion event: the larger of HS-TCP and CUBIC over H-TCP, median of the queues."""
    lost = see.at("drops_per_event", ("htcp", "highspeed", "cubic"), QUEUES)
    ratio = lost[1:].max(axis=0) / lost[0]
    return Measured(median(ratio), by_queue(QUEUES, ratio) | by_name(("htcp", "highspeed", "cubic"), lost))


STARTERS = ("reno", "compound")


def high_when_huge(see: See) -> Measured:
    """Loss rates of SACK and Compound over HS-TCP's with 0.5 and 1 BDP, the smallest of the four."""
    ratio = see.at("loss", STARTERS, HUGE) / see.at("loss", ("highspeed",), HUGE)
    return Measured(extreme(ratio, False), by_name(STARTERS, ratio))


def at_joins(see: See) -> Measured:
    """Share of the drops that come shortly after a join, SACK and Compound with 0.5 and 1 BDP, the smallest."""
    drops = see.at("drops", STARTERS, HUGE)
    share = 100 * see.at("join_drops", STARTERS, HUGE) / drops
    others = {
        f"within {rtts} RTTs": extreme(100 * see.at(f"join_drops_after/{rtts}", STARTERS, HUGE) / drops, False)
        for rtts in JOIN_RTTS_SEEN
        if rtts != JOIN_RTTS
    }
    time = {"such time in the run (%)": mean(100 * see.at("join_time_share", STARTERS, HUGE))}
    return Measured(extreme(share, False), by_name(STARTERS, share) | _existing(others | time))


def _existing(parts: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in parts.items() if not np.isnan(value)}


def limited_start(see: See) -> Measured:
    """SACK's loss rate with limited slow start over that without, 0.5 and 1 BDP, the larger ratio."""
    ratio = see.ablation("lss", "loss", ("reno",), HUGE) / see.at("loss", ("reno",), HUGE)
    return Measured(extreme(ratio, True), by_queue(HUGE, ratio))


def more_when_larger(see: See) -> Measured:
    """Drops at joins with 1 BDP over those with 0.2, the smaller of SACK and Compound."""
    drops = see.at("join_drops", STARTERS, (0.2, 1.0))
    ratio = drops[:, 1:] / drops[:, :1]
    return Measured(extreme(ratio, False), by_name(STARTERS, ratio))


WITHOUT = "without the slowest twentieth"


def same_pattern(see: See) -> Measured:
    """Rank correlation of the mean response times of each size with those of 64 KB, the lowest of the seven."""
    middle = see.at(W64, ALGORITHMS, QUEUES)
    each = {size: rank_correlation(see.at(f"www/{size}/mean", ALGORITHMS, QUEUES), middle) for size in SIZES}
    parts = {f"{size} KB": value for size, value in each.items() if size != "64"}
    lowest = extreme(np.array(list(parts.values())), False)
    middle = see.without_slowest("64", ALGORITHMS, QUEUES)
    calm = [rank_correlation(see.without_slowest(size, ALGORITHMS, QUEUES), middle) for size in SIZES if size != "64"]
    return Measured(lowest, parts | {f"the lowest {WITHOUT}": extreme(np.array(calm), False)})


def a_little_longer(see: See) -> Measured:
    """What loss-based algorithms add to SACK's response times of 4 and 64 KB, mean over the queues from 0.1 BDP."""
    queues = QUEUES[2:]
    parts = {}
    for size in ("4", "64"):
        took = see.at(f"www/{size}/mean", ("reno", *LOSS_BASED), queues)
        parts[f"{size} KB (%)"] = 100 * mean(took[1:] / took[:1] - 1)
    return Measured(mean(np.array(list(parts.values()))), parts)


def near_the_cliff(see: See) -> Measured:
    """Share of time with the queue more than half full, loss-based algorithms and large queues."""
    share = 100 * see.at("above_half", LOSS_BASED, LARGE)
    # One cut of four empties the queue; twenty flows are not all cut at once.
    many = 100 * replace(see, strict=False).at("above_half", LOSS_BASED, LARGE, flows=MANY)
    return Measured(mean(share), by_name(LOSS_BASED, share) | {"with twenty flows": mean(many)})


def perceptible(see: See) -> Measured:
    """Longest of the loss-based algorithms' 95th percentiles of 64 KB at 0.1 BDP less SACK's."""
    took = 1e3 * see.at("www/64/p95", ("reno", *LOSS_BASED), (0.1,))
    more = took[1:] - took[:1]
    slowest = 1e3 * see.quantile("64", 0.99, ("reno", *LOSS_BASED), (0.1,))
    return Measured(
        extreme(more, True),
        by_name(LOSS_BASED, more) | {"the 99th percentile": extreme(slowest[1:] - slowest[:1], True)},
    )


def especially_htcp(see: See) -> Measured:
    """H-TCP's 95th percentile of 64 KB at 0.1 BDP over the larger of HS-TCP's and CUBIC's."""
    took = see.at("www/64/p95", ("htcp", "highspeed", "cubic"), (0.1,))
    return Measured(float(took[0, 0] / took[1:, 0].max()), by_name(("htcp", "highspeed", "cubic"), took))


def compound_limits(see: See) -> Measured:
    """Compound's mean response time of 64 KB over the loss-based mean, with 0.2 and 0.5 BDP."""
    took = see.at(W64, ("compound", *LOSS_BASED), SEEN)
    ratio = took[0] / took[1:].mean(axis=0)
    return Measured(mean(ratio), by_queue(SEEN, ratio))


def compound_huge(see: See) -> Measured:
    """Compound's response time of 64 KB with 1 BDP over that with 0.2."""
    took = see.at(W64, ("compound",), (0.2, 1.0))
    return Measured(float(took[0, 1] / took[0, 0]), by_queue((0.2, 1.0), took))


def acts_as_tcp(see: See) -> Measured:
    """Share of time with Compound's delay window empty with 1 BDP."""
    return Measured(100 * float(see.at("dwnd_empty", ("compound",), (1.0,))[0, 0]))


def like_http(what: str) -> Look:
    """Rank correlation with the response times of 64 KB over all cells."""

    def look(see: See) -> Measured:
        of_call = see.at(what, ALGORITHMS, QUEUES)
        calm = rank_correlation(of_call, see.without_slowest("64", ALGORITHMS, QUEUES))
        return Measured(rank_correlation(of_call, see.at(W64, ALGORITHMS, QUEUES)), {WITHOUT: calm})

    return look


def delay_raised(see: See) -> Measured:
    """Loss-based mean of the call's delay less SACK's, 0.5 and 1 BDP."""
    delay = see.at("voip_ms", ("reno", *LOSS_BASED), HUGE)
    more = delay[1:] - delay[:1]
    return Measured(mean(more), by_name(LOSS_BASED, more))


def jitter_raised(see: See) -> Measured:
    """Loss-based mean of the call's jitter over SACK's, 0.5 and 1 BDP."""
    jitter = see.at("jitter_ms", ("reno", *LOSS_BASED), HUGE)
    ratio = jitter[1:] / jitter[:1]
    return Measured(mean(ratio), by_name(LOSS_BASED, ratio))


def compound_call(see: See) -> Measured:
    """The larger of Compound's delay beyond the empty path's and jitter over the loss-based mean, 0.2 and 0.5 BDP."""
    parts = {}
    for what, least in (("voip_ms", WAN.delay_ms + WAN.user_ms), ("jitter_ms", 0.0)):
        found = see.at(what, ("compound", *LOSS_BASED), SEEN) - least
        parts[what] = mean(found[0] / found[1:].mean(axis=0))
    return Measured(extreme(np.array(list(parts.values())), True), parts)


def htcp_jitter(see: See) -> Measured:
    """Share of queues at which H-TCP's jitter is the largest."""
    jitter = see.at("jitter_ms", ALGORITHMS, QUEUES)
    share, ratio = share_where(jitter[2], np.delete(jitter, 2, axis=0), largest=True)
    return Measured(share, by_queue(QUEUES, ratio))


def _throughput(see: See, algorithms: tuple[str, ...], base: tuple[str, ...], queues: tuple[float, ...]) -> Measured:
    parts = {}
    for what in ("ftp_mbps", "hftp_mbps"):
        ratio = see.at(what, algorithms, queues).mean(axis=0) / see.at(what, base, queues).mean(axis=0)
        parts[what[:-5].upper()] = mean(ratio)
    return Measured(float(np.mean(list(parts.values()))), parts)


def compound_friendly(see: See) -> Measured:
    """FTP and HFTP beside Compound over those beside the loss-based, large queues."""
    return _throughput(see, ("compound",), LOSS_BASED, LARGE)


def users_slowed(see: See) -> Measured:
    """FTP and HFTP beside the loss-based over those beside SACK, queues from 0.1 BDP."""
    return _throughput(see, LOSS_BASED, ("reno",), QUEUES[2:])


def htcp_slows_most(see: See) -> Measured:
    """Share of queues from 0.1 BDP at which HFTP is slowest beside H-TCP."""
    rate = see.at("hftp_mbps", ALGORITHMS, QUEUES[2:])
    share, ratio = share_where(rate[2], np.delete(rate, 2, axis=0), largest=False)
    return Measured(share, by_queue(QUEUES[2:], ratio))


def htcp_uses_least(see: See) -> Measured:
    """Share of queues at which H-TCP uses less of the link than HS-TCP, CUBIC and, from 0.2 BDP, Compound."""
    used = 100 * see.at("utilisation", ("htcp", "highspeed", "cubic", "compound"), QUEUES)
    used[3, : len(SMALL)] = used[2, : len(SMALL)]
    less = used[0] - used[1:].min(axis=0)
    return Measured(100 * mean(np.where(np.isnan(less), np.nan, less < 0)), by_queue(QUEUES, less))


def htcp_below_tcp(see: See) -> Measured | None:
    """Number of queues at which H-TCP uses less of the link than SACK beyond the seeds' spread."""
    if len(see.data.seeds) < LEAST_SEEDS:
        return None
    used = 100 * see.every_seed("utilisation", ("htcp", "reno"), QUEUES)
    if np.isnan(used).any():
        return None
    below = below_in_every_seed(used[:, 0], used[:, 1], np.full(len(QUEUES), ONE_POINT))
    here = 100 * see.at("utilisation", ("htcp", "reno"), QUEUES)
    return Measured(float(np.sum(below)), by_queue(QUEUES, here[0] - here[1]))


def cross_harm(see: See) -> Measured:
    """Packets of others lost beside H-TCP over those beside CUBIC, median of the queues."""
    lost = see.at("web_drops", ("htcp", "cubic"), QUEUES)
    return Measured(median(lost[0] / lost[1]), by_queue(QUEUES, lost[0] / lost[1]))


def compound_uses_most(see: See) -> Measured:
    """Share of large queues at which Compound uses most of the link, within one point."""
    used = 100 * see.at("utilisation", ALGORITHMS, LARGE)
    lead = used[4] - used[:4].max(axis=0)
    return Measured(100 * mean(np.where(np.isnan(lead), np.nan, lead >= -ONE_POINT)), by_queue(LARGE, lead))


def compound_least_harm(see: See) -> Measured:
    """Share of (large queue × 64 KB, delay, jitter, HFTP) in which Compound is the best of the fast four."""
    parts = {}
    for what, largest in ((W64, False), ("voip_ms", False), ("jitter_ms", False), ("hftp_mbps", True)):
        found = see.at(what, ("compound", *LOSS_BASED), LARGE)
        parts[what] = share_where(found[0], found[1:], largest, tie=0.01)[0]
    return Measured(mean(np.array(list(parts.values()))), parts)


def leaves_the_knee(see: See) -> Measured:
    """The call's delay beside Compound with 1 BDP less that with 0.2."""
    delay = see.at("voip_ms", ("compound",), (0.2, 1.0))
    return Measured(float(delay[0, 1] - delay[0, 0]), by_queue((0.2, 1.0), delay))


def compound_unseeing(see: See) -> Measured:
    """Share of Compound's losses at small queues before which it saw a backlog below γ, mean of the queues."""
    share = 100 * see.at("loss_unseen", ("compound",), SMALL)
    return Measured(mean(share), by_queue(SMALL, share))


def compound_below_tcp(see: See) -> Measured:
    """Share of small queues at which Compound uses less of the link than SACK."""
    used = 100 * see.at("utilisation", ("compound", "reno"), SMALL)
    less = used[0] - used[1]
    return Measured(100 * mean(np.where(np.isnan(less), np.nan, less < 0)), by_queue(SMALL, less))


def compound_harms(see: See) -> Measured:
    """Jitter and response time of 64 KB beside Compound over SACK's, small queues, mean of both."""
    parts = {}
    for what in (W64, "jitter_ms"):
        found = see.at(what, ("compound", "reno"), SMALL)
        parts[what] = mean(found[0] / found[1])
    return Measured(float(np.mean(list(parts.values()))), parts)


def twenty_use_less(see: See) -> Measured:
    """Best loss-based utilisation less Compound's, 20 flows, up to 0.5 BDP."""
    queues = QUEUES[:5]
    used = 100 * see.at("utilisation", ("compound", *LOSS_BASED), queues, flows=20)
    gap = used[1:].max(axis=0) - used[0]
    return Measured(mean(gap), by_queue(queues, gap))


def twenty_no_better(see: See) -> Measured:
    """Compound's response time of 64 KB over the loss-based mean, 20 flows, up to 0.5 BDP."""
    queues = QUEUES[:5]
    took = see.at(W64, ("compound", *LOSS_BASED), queues, flows=20)
    ratio = took[0] / took[1:].mean(axis=0)
    return Measured(mean(ratio), by_queue(queues, ratio))


def not_scalable(see: See) -> Measured:
    """Loss rate of Compound over the loss-based mean with 0.2 BDP: 20 flows over 4 flows."""
    each = []
    for flows in (4, 20):
        loss = see.at("loss", ("compound", *LOSS_BASED), (0.2,), flows=flows)
        each.append(mean(loss[:1]) / mean(loss[1:]))
    return Measured(each[1] / each[0], {"4 flows": each[0], "20 flows": each[1]})
