"""How each claim about the campus network is measured (sections 4.2.1 and 4.2.2).

Compound “cannot see” congestion below 0.5 BDP there: at 0.1 and 0.2 BDP.
"""

from __future__ import annotations

import numpy as np

from tailback.experiment import Measured

from .grid import ALGORITHMS, FAST, LAN
from .see import (
    LEAST_SEEDS,
    TIE,
    Floats,
    Look,
    See,
    below_in_every_seed,
    by_name,
    by_queue,
    extreme,
    mean,
    median,
    share_where,
)

QUEUES = LAN.queues
UNSEEN = (0.1, 0.2)
LEASED_MS = 50.0
"""Propagation of the leased line, beside which the paper calls the campus's queueing very short. The campus's queues,
full all the time, would add 1, 2, 5 and 10 ms: 20 % of it with 1 BDP, 9 % in the mean."""
SLIGHT_CALL, SLIGHT_PAGE = 2.0, 5.0
"""Per cent that are not obvious: of the leased line's propagation for a call's delay (1 ms), and of a response time."""
CLOCKED, PACED = ("htcp", "cubic"), ("highspeed", "compound")
"""Growth by the wall clock, and growth by the round trip."""


def _at(see: See, what: str, algorithms: tuple[str, ...], queues: tuple[float, ...] = QUEUES) -> Floats:
    return see.at(what, algorithms, queues, "lan")


def tcp_is_good(see: See) -> Measured:
    """SACK's utilisation, mean of the queues."""
    used = 100 * _at(see, "utilisation", ("reno",))
    return Measured(mean(used), by_queue(QUEUES, used))


def short_is_easy(see: See) -> Measured:
    """SACK's utilisation less that on the ocean link with the same queues in BDPs."""
    gap = 100 * (_at(see, "utilisation", ("reno",)) - see.at("utilisation", ("reno",), QUEUES))
    return Measured(mean(gap), by_queue(QUEUES, gap))


def lead(one: str, other: str, queues: tuple[float, ...] = QUEUES) -> Look:
    """One algorithm's utilisation less another's, in points, mean of the queues."""

    def look(see: See) -> Measured:
        used = 100 * _at(see, "utilisation", (one, other), queues)
        return Measured(mean(used[0] - used[1]), by_queue(queues, used[0] - used[1]))

    return look


def clocked_lead(see: See) -> Measured:
    """Utilisation of H-TCP and CUBIC less SACK's, the smaller lead, each the mean of the queues."""
    used = 100 * _at(see, "utilisation", ("reno", *CLOCKED))
    ahead = used[1:] - used[:1]
    return Measured(min(mean(row) for row in ahead), by_name(CLOCKED, ahead))


def too_often(see: See) -> Measured:
    """Reductions a second of HS-TCP and Compound (smaller) over H-TCP and CUBIC (larger), median of 0.1 and 0.2."""
    found = _at(see, "reductions_per_s", (*PACED, *CLOCKED), UNSEEN)
    return Measured(median(found[:2].min(axis=0) / found[2:].max(axis=0)), by_name((*PACED, *CLOCKED), found))


def high_loss(see: See) -> Measured:
    """Loss rates, as before."""
    found = 1e6 * _at(see, "loss", (*PACED, *CLOCKED), UNSEEN)
    return Measured(median(found[:2].min(axis=0) / found[2:].max(axis=0)), by_name((*PACED, *CLOCKED), found))


def less_synchronised(see: See) -> Measured:
    """Share of the flows hit in a congestion event, CUBIC over H-TCP, mean of the queues."""
    hit = _at(see, "hit_share", ("cubic", "htcp"))
    return Measured(mean(hit[0] / hit[1]), by_name(("cubic", "htcp"), 100 * hit))


def at_the_cliff(see: See) -> Measured:
    """Time with the queue more than half full, CUBIC over H-TCP, mean of the queues."""
    share = 100 * _at(see, "above_half", ("cubic", "htcp"))
    return Measured(mean(share[0] / share[1]), by_name(("cubic", "htcp"), share))


def short_queue(see: See) -> Measured:
    """Largest mean queueing delay of the campus link over the leased line's propagation."""
    share = 100 * _at(see, "queue_ms", ALGORITHMS) / LEASED_MS
    return Measured(extreme(share, True), by_name(ALGORITHMS, share))


def hardly_longer(see: See) -> Measured:
    """Response times of 4 and 64 KB over SACK's, mean of the queues, the largest of the fast four."""
    parts = {}
    for size in ("4", "64"):
        took = _at(see, f"www/{size}/mean", ("reno", *FAST))
        parts[f"{size} KB (%)"] = max(100 * (mean(row) - 1) for row in took[1:] / took[:1])
    return Measured(max(parts.values()), parts)


def hardly_later(see: See) -> Measured:
    """The call's delay less SACK's over the leased line's propagation, mean of the queues, the largest of the four."""
    delay = _at(see, "voip_ms", ("reno", *FAST))
    more = 100 * (delay[1:] - delay[:1]) / LEASED_MS
    return Measured(max(mean(row) for row in more), by_name(FAST, more))


def sometimes_better(see: See) -> Measured | None:
    """Number of (algorithm, queue, measure) in which a fast algorithm is better than SACK beyond the seeds' spread.

    Of the 48 chance alone gives 2.4, and 7 or more in less than one study of twenty: four share a SACK.
    """
    if len(see.data.seeds) < LEAST_SEEDS:
        return None
    parts = {}
    for what in ("www/4/mean", "www/64/mean", "voip_ms"):
        found = see.every_seed(what, ("reno", *FAST), QUEUES, "lan")
        if np.isnan(found).any():
            return None
        sack = found[:, :1]
        parts[what] = float(np.sum(below_in_every_seed(found[:, 1:], sack, TIE * np.median(sack, axis=0))))
    return Measured(sum(parts.values()), parts)


def compound_jitter(see: See) -> Measured:
    """Share of 0.1 and 0.2 BDP at which Compound's jitter is the largest."""
    jitter = _at(see, "jitter_ms", ALGORITHMS, UNSEEN)
    share, ratio = share_where(jitter[4], jitter[:4], largest=True)
    return Measured(share, by_queue(UNSEEN, ratio))


def compound_slows(see: See) -> Measured:
    """FTP and HFTP beside Compound over those beside SACK, 0.1 and 0.2 BDP, mean of both."""
    parts = {}
    for what in ("ftp_mbps", "hftp_mbps"):
        rate = _at(see, what, ("compound", "reno"), UNSEEN)
        parts[what[:-5].upper()] = mean(rate[0] / rate[1])
    return Measured(float(np.mean(list(parts.values()))), parts)


def compound_unseeing(see: See) -> Measured:
    """Share of Compound's losses before which it saw a backlog below γ, 0.1 and 0.2 BDP."""
    share = 100 * _at(see, "loss_unseen", ("compound",), UNSEEN)
    return Measured(mean(share), by_queue(UNSEEN, share))


def compound_bursts(see: See) -> Measured:
    """Packets lost in an event beside Compound over the largest of the other fast ones, 0.1 and 0.2 BDP."""
    lost = _at(see, "drops_per_event", ("compound", "highspeed", "htcp", "cubic"), UNSEEN)
    ratio = lost[0] / lost[1:].max(axis=0)
    return Measured(mean(ratio), by_name(("compound", "highspeed", "htcp", "cubic"), lost))


def cubic_seldom(see: See) -> Measured:
    """CUBIC's reductions a second over the mean of HS-TCP, Compound and SACK, mean of the queues."""
    others = ("highspeed", "compound", "reno")
    found = _at(see, "reductions_per_s", ("cubic", *others))
    return Measured(mean(found[0] / found[1:].mean(axis=0)), by_name(("cubic", *others), found))


def cubic_small_bursts(see: See) -> Measured:
    """Packets CUBIC's flows lose in an event over H-TCP's, mean of the queues."""
    lost = _at(see, "drops_per_event", ("cubic", "htcp"))
    return Measured(mean(lost[0] / lost[1]), by_name(("cubic", "htcp"), lost))


def cubic_uses(see: See) -> Measured:
    """CUBIC's utilisation, mean of the queues."""
    used = 100 * _at(see, "utilisation", ("cubic",))
    return Measured(mean(used), by_queue(QUEUES, used))


def cubic_imperceptible(see: See) -> Measured:
    """What CUBIC adds to SACK's delay of a call and time of 64 KB, each over what is slight; mean of the queues."""
    delay = _at(see, "voip_ms", ("cubic", "reno"))
    took = _at(see, "www/64/mean", ("cubic", "reno"))
    parts = {
        "call (%)": 100 * mean(delay[0] - delay[1]) / LEASED_MS,
        "64 KB (%)": 100 * mean(took[0] / took[1] - 1),
    }
    return Measured(max(parts["call (%)"] / SLIGHT_CALL, parts["64 KB (%)"] / SLIGHT_PAGE), parts)
