"""Sections 4.2.1 and 4.2.2, sentence by sentence: what they say about the campus, and when it counts as so.

Compound “cannot see” congestion below 0.5 BDP there: at 0.1 and 0.2 BDP.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tailback.experiment import ANY, SHARE, AtLeast, AtMost, Claim, Data, Measured, mean, median, most, restated

from .grid import ALGORITHMS, FAST, LAN
from .matrices import (
    LARGEST,
    LEAST_SEEDS,
    NAME,
    QUEUE,
    TIE,
    Floats,
    above,
    at,
    below_in_every_seed,
    lead,
    measured,
    named,
    over_largest,
    over_mean,
    ratio,
    same,
    times,
)

QUEUES = LAN.queues
UNSEEN = (0.1, 0.2)
LEASED_MS = 50.0
"""Propagation of the leased line, beside which the paper calls the campus's queueing very short. The campus's queues,
full all the time, would add 1, 2, 5 and 10 ms: 20 % of it with 1 BDP, 9 % in the mean."""
FULL_QUEUE, FULL_QUEUES = 20.0, 9.0
"""Per cent of the leased line's propagation that a full queue of 1 BDP adds, and the four full queues in the mean."""
SLIGHT_CALL, SLIGHT_PAGE = 2.0, 5.0
"""Per cent that are not obvious: of the leased line's propagation for a call's delay (1 ms), and of a response time."""
CLOCKED, PACED = ("htcp", "cubic"), ("highspeed", "compound")
"""Growth by the wall clock, and growth by the round trip."""

_lan = partial(measured, "lan")


def _paced_over_clocked(found: Floats) -> Any:
    return found[:2].min(axis=0) / found[2:].max(axis=0)


def _largest_mean(values: Floats) -> float:
    return max(mean(row) for row in values)


def _less_synchronised(data: Data, seed: int) -> Measured:
    hit = at(data, seed, "hit_share", ("cubic", "htcp"), QUEUES, "lan")
    return Measured(mean(ratio(hit)), named(("cubic", "htcp"), 100 * hit))


def _sometimes_better(data: Data, seed: int) -> Measured | None:
    """Number of (algorithm, queue, measure) in which a fast algorithm is better than SACK beyond the seeds' spread.

    Of the 48 chance alone gives 2.4, and 7 or more in less than one study of twenty: four share a SACK.
    """
    if len(data.seeds) < LEAST_SEEDS:
        return None
    parts = {}
    for what in ("www/4/mean", "www/64/mean", "voip_ms"):
        found = at(data, None, what, ("reno", *FAST), QUEUES, "lan")
        if np.isnan(found).any():
            return None
        sack = found[:, :1]
        parts[what] = float(np.sum(below_in_every_seed(found[:, 1:], sack, TIE * np.median(sack, axis=0))))
    return Measured(sum(parts.values()), parts)


def _cubic_imperceptible(data: Data, seed: int) -> Measured:
    delay, took = (at(data, seed, what, ("cubic", "reno"), QUEUES, "lan") for what in ("voip_ms", "www/64/mean"))
    call, page = 100 * mean(lead(delay)) / LEASED_MS, 100 * mean(ratio(took) - 1)
    return Measured(max(call / SLIGHT_CALL, page / SLIGHT_PAGE), {"call (%)": call, "64 KB (%)": page})


_WORST = "The old limit lay at or above the worst that the campus's queues can do; it is relative to the leased line."
_NOISE = "One case at no tie was enough; a case now lies beyond the seeds' spread, and chance does not give as many."
RESULTS, DISCUSSION = "4.2.1", "4.2.2"
LINK, USERS, WHY = "lan-link", "lan-users", "mechanism"
CLAIMS = (
    Claim("002-L14a", "On the campus TCP achieves quite high utilisation too", f"{RESULTS}, Fig. 8(a)", "quite high",
          " %", "SACK's utilisation, mean of the queues",
          _lan("utilisation", ("reno",), QUEUES, same, each=QUEUE, scale=100), AtLeast(85, 75), LINK,
          why="A tenth of a BDP holds too little for four flows that are cut at once.", possible=SHARE),
    Claim("002-L14b", "Cause: its BDP is not very large and its RTT short", RESULTS, "higher than on the ocean link",
          " points", "SACK's utilisation less that on the ocean link, the same queues",
          measured(("lan", "wan"), "utilisation", ("reno",), QUEUES, lambda used: 100 * lead(used), each=QUEUE),
          AtLeast(5, 0), LINK,
          why="With small queues the campus is no easier: four flows that are cut at once leave it empty."),
    Claim("002-L14c", "HS-TCP cannot improve utilisation", f"{RESULTS}, Fig. 8(a)", "no better", " points",
          "HS-TCP less SACK, mean of the queues",
          _lan("utilisation", ("highspeed", "reno"), QUEUES, lead, each=QUEUE, scale=100), AtMost(1, 3), LINK),
    Claim("002-L14d", "Compound is even worse than TCP where it cannot see congestion", f"{RESULTS}, Fig. 8(a)",
          "worse", " points", "SACK less Compound, 0.1 and 0.2 BDP",
          _lan("utilisation", ("reno", "compound"), UNSEEN, lead, each=QUEUE, scale=100), AtLeast(1, 0), LINK),
    Claim("002-L14e", "H-TCP and CUBIC achieve higher throughput than TCP", f"{RESULTS}, Fig. 8(a)", "higher",
          " points", "the smaller lead over SACK's utilisation, mean of the queues",
          _lan("utilisation", ("reno", *CLOCKED), QUEUES, above, lambda ahead: min(mean(row) for row in ahead),
          each=NAME, scale=100), AtLeast(1, 0), LINK,
          why="The module scales α by the RTT: at 18 ms H-TCP grows hardly faster than SACK [α not scaled]."),
    Claim("002-L14f", "CUBIC is better than H-TCP", f"{RESULTS}, Fig. 8(a)", "better", " points",
          "CUBIC less H-TCP, mean of the queues",
          _lan("utilisation", ("cubic", "htcp"), QUEUES, lead, each=QUEUE, scale=100), AtLeast(0.5, 0), LINK),
    Claim("002-L14g", "Compound suffers more than HS-TCP, as it cuts by half", RESULTS, "more", " points",
          "HS-TCP less Compound, 0.1 and 0.2 BDP",
          _lan("utilisation", ("highspeed", "compound"), UNSEEN, lead, each=QUEUE, scale=100), AtLeast(1, 0), LINK),
    Claim("002-L15a", "Cause: growth by the round trip congests the campus too frequently", RESULTS, "too frequently",
          "×", "reductions a second of HS-TCP and Compound (smaller) over H-TCP and CUBIC (larger), 0.1 and 0.2 BDP",
          _lan("reductions_per_s", (*PACED, *CLOCKED), UNSEEN, _paced_over_clocked, median, beside=NAME),
          AtLeast(1.5, 1), WHY),
    Claim("002-L15b", "HS-TCP and Compound have high loss rates", f"{RESULTS}, Fig. 8(b)", "high", "×",
          "loss rates, as before",
          _lan("loss", (*PACED, *CLOCKED), UNSEEN, _paced_over_clocked, median, beside=NAME, scale=1e6),
          AtLeast(1.5, 1), LINK),
    Claim("002-L15c", "Cause: CUBIC's losses are less synchronised than H-TCP's", RESULTS, "less", "×",
          "share of the flows hit in an event, CUBIC over H-TCP, mean of the queues", _less_synchronised,
          AtMost(0.8, 1), WHY, why="Less, but by less than the rule asks."),
    Claim("002-L15d", "Cause: so the network keeps working around the cliff", RESULTS, "longer", "×",
          "time with the queue over half full, CUBIC over H-TCP, mean of the queues",
          _lan("above_half", ("cubic", "htcp"), QUEUES, ratio, beside=NAME, scale=100), AtLeast(1.1, 1), WHY),
    Claim("002-L16a", "Queueing on the campus is short beside the leased line's propagation", RESULTS, "very short",
          " %", "largest mean queueing delay over the leased line's 50 ms; a full queue of 1 BDP is 20 %",
          _lan("queue_ms", ALGORITHMS, QUEUES, lambda waited: waited / LEASED_MS, most, each=NAME, scale=100),
          AtMost(10, 15), USERS, why="With 1 BDP CUBIC holds most of the queue's 10 ms.", redefined=_WORST,
          possible=(0.0, FULL_QUEUE)),
    Claim("002-L16b", "Response times are not obviously raised by high-speed algorithms", f"{RESULTS}, Fig. 9(a, b)",
          "not obviously", " %", "4 and 64 KB over SACK's, mean of the queues, the largest of the four",
          _lan("www/{size}/mean", ("reno", *FAST), QUEUES,
          lambda took: [max(100 * (mean(row) - 1) for row in times(one)) for one in took], most, each="{size} KB (%)",
          size=("4", "64")), AtMost(5, 10), USERS,
          why="Single transactions that wait for a timer decide the mean of 4 KB.", possible=(-100.0, math.inf)),
    Claim("002-L16c", "Nor is the call's delay", f"{RESULTS}, Fig. 9(c)", "not obviously", " %",
          "less SACK's over the leased line's 50 ms, mean of the queues, the largest of the four; full queues give 9 %",
          _lan("voip_ms", ("reno", *FAST), QUEUES, lambda delay: 100 * above(delay) / LEASED_MS, _largest_mean,
          each=NAME), AtMost(SLIGHT_CALL, 2 * SLIGHT_CALL), USERS, redefined=_WORST,
          possible=(-FULL_QUEUES, FULL_QUEUES)),
    Claim("002-L16d", "In some cases they are even better than TCP", RESULTS, "some", " cases",
          "of 48 (algorithm, queue, measure) those in which every seed is better than every seed of SACK, and the "
          "median by over 5 %; chance gives 7 in one study of twenty", _sometimes_better, AtLeast(7, 5), USERS,
          redefined=_NOISE, possible=(0.0, 48.0)),
    Claim("002-L17a", "Below 0.5 BDP Compound causes the largest jitter", f"{RESULTS}, Fig. 9(d)", "largest", " %",
          "share of 0.1 and 0.2 BDP at which no other is more than 5 % above it",
          _lan("jitter_ms", ("compound", *ALGORITHMS[:4]), UNSEEN, over_largest, LARGEST, each=QUEUE), AtLeast(100, 50),
          USERS,
          why="Calls wait in the leased line's queue, which HFTP fills; without HFTP jitter is the same [no HFTP].",
          possible=SHARE),
    Claim("002-L17b", "And obviously reduces the throughput of FTP", f"{RESULTS}, Fig. 9(e, f)", "reduced", "×",
          "FTP and HFTP over those beside SACK, 0.1 and 0.2 BDP, mean of both",
          _lan("{user}_mbps", ("compound", "reno"), UNSEEN, lambda rate: [mean(ratio(one)) for one in rate],
          each="{user}", user=("ftp", "hftp")), AtMost(0.9, 1), USERS),
    Claim("002-L17c", "Cause: it cannot detect congestion through delay there", RESULTS, "cannot", " %",
          "share of its losses before which the backlog it saw was below γ, 0.1 and 0.2 BDP",
          _lan("loss_unseen", ("compound",), UNSEEN, same, each=QUEUE, scale=100), AtLeast(75, 50), WHY,
          possible=SHARE),
    Claim("002-L17d", "Cause: in each congestion many segments are dropped", RESULTS, "many", "×",
          "packets lost in an event over the largest of the other three, 0.1 and 0.2 BDP",
          _lan("drops_per_event", ("compound", "highspeed", "htcp", "cubic"), UNSEEN, over_largest, beside=NAME),
          AtLeast(1.2, 1), WHY),
    Claim("002-L18a", "CUBIC effectively reduces the frequency of congestion", DISCUSSION, "reduced", "×",
          "reductions a second over the mean of HS-TCP, Compound and SACK, mean of the queues",
          _lan("reductions_per_s", ("cubic", "highspeed", "compound", "reno"), QUEUES, over_mean, beside=NAME),
          AtMost(0.67, 1), WHY, standing=restated("It is the reverse of 002-L15a.")),
    Claim("002-L18b", "Its concavity reduces the bursts of loss", DISCUSSION, "reduced", "×",
          "packets of the flows lost in an event over H-TCP's, mean of the queues",
          _lan("drops_per_event", ("cubic", "htcp"), QUEUES, ratio, beside=NAME), AtMost(0.8, 1), WHY),
    Claim("002-L18c", "It uses the campus network well", DISCUSSION, "well", " %", "utilisation, mean of the queues",
          _lan("utilisation", ("cubic",), QUEUES, same, each=QUEUE, scale=100), AtLeast(95, 90), LINK,
          why="Except with 0.1 BDP, where no algorithm comes near.", possible=SHARE),
    Claim("002-L18d", "Its effects on interactive users can be imperceptible", DISCUSSION, "imperceptible", "",
          f"what it adds to SACK's delay of the call over {SLIGHT_CALL:g} % of 50 ms, and to its time of 64 KB over "
          f"{SLIGHT_PAGE:g} %, mean of the queues, the larger", _cubic_imperceptible, AtMost(1, 2), USERS,
          possible=ANY, redefined=_WORST, standing=restated("It is the largest of 002-L16b and 002-L16c, of CUBIC "
          "alone.")),
)  # fmt: skip
