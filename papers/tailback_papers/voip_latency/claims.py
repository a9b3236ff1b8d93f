"""Every claim of the paper, how it is measured and when it counts.

Which measures and rules were changed after first results, and why, is in `standings`.

Numbers the paper prints count as reproduced within ±15 %, partly within ±30 %; the ratio 1.14 within ±5 and ±10 %, lest
no difference at all pass for it. “Three links” are those of the paper's
distributions (Figs 9–11): 100 Mbit/s × 16 ms, 10 Mbit/s × 80 ms, 100 Mbit/s × 80 ms, queue 1 BDP.
“Segments” are full packets of 1448 bytes of payload. A loaded round trip has a full queue in it.
"""

from __future__ import annotations

from tailback.experiment import AtLeast, AtMost, Claim, Near, with_standings

from .measures import (
    disturbed_remark,
    epoch_ratio,
    l1,
    l2,
    l3,
    l4,
    l5,
    l6,
    l7,
    l8,
    l9,
    l10,
    l11,
    l12,
    l13,
    q3,
    q4,
    q5,
    q6,
    q7,
    q8,
    untimed_remark,
)
from .standings import REDEFINED, STANDINGS

_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "000-Q1",
        "Linux NewReno's epochs last about 1.85 times FreeBSD's",
        "number",
        "1.85",
        "",
        "median epoch on Linux over that on FreeBSD, 10 Mbit/s × 80 ms, 1 BDP",
        epoch_ratio("reno"),
        Near(1.85),
        "fig-02-03",
        "VI-A",
    ),
    Claim(
        "000-Q2",
        "Linux H-TCP's epochs last about 1.14 times FreeBSD's",
        "number",
        "1.14",
        "",
        "median epoch on Linux over that on FreeBSD, 10 Mbit/s × 80 ms, 1 BDP",
        epoch_ratio("htcp"),
        Near(1.14, 0.05, 0.10),
        "fig-04-05",
        "VI-A",
    ),
    Claim(
        "000-Q3",
        "CUBIC keeps the queue over three quarters full 90 % of the time",
        "number",
        "90 %",
        " %",
        "the rest: share of call packets whose induced delay is at most ¾ of a full queue's, of which 10 % remain; "
        "median of the three links",
        q3,
        Near(10.0),
        "fig-09-11",
        "VII",
    ),
    Claim(
        "000-Q4",
        "Algorithms become distinguishable when the window can exceed 25 packets",
        "number",
        "25",
        " segments",
        "smallest window (BDP + queue) on the far side of the best cut between paths where two "
        "algorithms on one system "
        "differ by more than a packet of queue and the others",
        q4,
        Near(25.0),
        "fig-discernible",
        "VI",
        why=(
            "CUBIC keeps four fifths of its window at a loss where NewReno keeps half, so the queue it leaves "
            "differs by more than a packet from 13 segments on; NewReno and H-TCP part only above 27. The paper "
            "judged by eye, from cwnd."
        ),
    ),
    Claim(
        "000-Q5",
        "The fall of cwnd_max that triggers fast convergence is a few packets",
        "presence",
        "a few",
        " segments",
        "median fall of the window at loss between events, CUBIC, 10 Mbit/s × 80 ms, 1 BDP",
        q5,
        AtMost(5.0, 10.0),
        "fig-06",
        "VI-C",
    ),
    Claim(
        "000-Q6",
        "Irregular H-TCP epochs at high BDP last tens of seconds",
        "presence",
        "tens of seconds",
        " s",
        "shorter of the two median epochs of Linux H-TCP at 100 Mbit/s × 80 and 160 ms, 1 BDP",
        q6,
        AtLeast(10.0, 5.0),
        "fig-13",
        "VII-A",
        disturbed_remark((80, 160)),
        why=(
            "The share of packets reordered is the smallest that shows Fig. 13, and lengthens the epochs at 80 ms "
            "by a third. With one in ten thousand they last 17 s with 2.6.25's clock; with the clock as mended in "
            "2.6.28 it changes nothing."
        ),
    ),
    Claim(
        "000-Q7",
        "TCP reacts to a drop within a few round trips",
        "presence",
        "a few RTTs",
        " RTTs",
        "largest of the five median times from first drop to reaction, loaded round trips, 10 Mbit/s × 80 ms, 1 BDP",
        q7,
        AtMost(3.0, 5.0),
        "fig-02-03",
        "VII",
    ),
    Claim(
        "000-Q8",
        "Three typical epochs are nearly identical",
        "shape",
        "identical",
        " %",
        "largest relative difference among three typical epochs (CUBIC: same part of the cycle), "
        "10 Mbit/s × 80 ms, 1 BDP",
        q8,
        AtMost(10.0, 25.0),
        "fig-02-03",
        "VI",
    ),
    Claim(
        "000-L1",
        "Median delay: CUBIC largest, H-TCP lowest, on each of the three links",
        "ordering",
        "all",
        " %",
        "share of nine orderings that hold (tie band 5 %)",
        l1,
        AtLeast(100.0, 66.0),
        "fig-12",
        "Abstract, VII, VIII",
    ),
    Claim(
        "000-L2",
        "One-way delay is proportional to queue occupancy, slope 8/C",
        "shape",
        "linear",
        " %",
        "largest deviation of the fitted slope from 8/C, 10 Mbit/s × 80 ms, 1 BDP",
        l2,
        AtMost(2.0, 5.0),
        "fig-07-08",
        "VII",
    ),
    Claim(
        "000-L3",
        "Delay: NewReno about uniform, H-TCP towards the minimum, CUBIC towards the maximum",
        "shape",
        "all",
        " %",
        "share of senders and links: NewReno within 0.15 of uniform (KS), H-TCP's median ≤ 0.4, CUBIC's ≥ 0.6 of a "
        "full queue",
        l3,
        AtLeast(90.0, 60.0),
        "fig-09-11",
        "VII",
    ),
    Claim(
        "000-L4",
        "Every algorithm fills the queue",
        "presence",
        "all",
        " %",
        "share of cells with a whole epoch whose backlog, with the packet in service, reaches 95 % of the limit",
        l4,
        AtLeast(100.0, 90.0),
        "fig-02-03",
        "VII",
    ),
    Claim(
        "000-L5",
        "NewReno and H-TCP drain the queue in each epoch, CUBIC rarely",
        "presence",
        "all",
        " %",
        "share of senders and links: backlog ≤ 5 % of the limit in ≥ 90 % of epochs (CUBIC: in ≤ 10 %)",
        l5,
        AtLeast(100.0, 75.0),
        "fig-09-11",
        "VII",
    ),
    Claim(
        "000-L6",
        "Queue occupancy mimics the congestion window",
        "shape",
        "same",
        "",
        "smallest correlation of window and backlog over the five senders, 10 Mbit/s × 80 ms, 1 BDP",
        l6,
        AtLeast(0.9, 0.7),
        "fig-02-03",
        "VII",
    ),
    Claim(
        "000-L7",
        "Each algorithm's delay distribution is its own, and about the same on the three links",
        "shape",
        "its own",
        " %",
        "share of the twelve (sender, link) without Linux H-TCP whose normalised delay is nearer to its own "
        "algorithm's on the other links than to another's (mean KS distance)",
        l7,
        AtLeast(100.0, 75.0),
        "fig-09-11",
        "VII",
        why=(
            "H-TCP's first, slow second is a larger share of a short epoch than of a long one, so its "
            "distribution must change with the path. CUBIC runs in two parts at 10 and 100 Mbit/s × 80 ms but in "
            "one at 100 Mbit/s × 16 ms."
        ),
    ),
    Claim(
        "000-L8",
        "FreeBSD's epochs are shorter than Linux's, NewReno and H-TCP",
        "ordering",
        "all",
        " %",
        "share of comparable paths with Linux's epoch at least 5 % longer",
        l8,
        AtLeast(100.0, 75.0),
        "fig-02-03",
        "VI-A",
        why=(
            "NewReno on every comparable path, and H-TCP on all but three. The longer the epoch, the less H-TCP's "
            "first slow second and the later start of Linux's clock count, so at 100 Mbit/s with a queue of 1 BDP "
            "the two systems agree within 5 %."
        ),
    ),
    Claim(
        "000-L9",
        "CUBIC's cycle has two parts at 1 BDP, and at 100 Mbit/s × 160 ms with any queue",
        "presence",
        "all",
        " %",
        "share of these paths (window ≥ 25 segments) where short and long epochs alternate",
        l9,
        AtLeast(90.0, 50.0),
        "fig-06",
        "VI-C",
        untimed_remark,
        why=(
            "Fast convergence needs two successive peaks to differ by a segment. The model is so regular that on "
            "some paths every peak is the same, and then each epoch is a short one; which of the two cycles the "
            "flow locks into hangs on the phase of starts and of the router's timer. Small windows grow by whole "
            "segments and always peak alike."
        ),
    ),
    Claim(
        "000-L10",
        "Linux halves by rate, FreeBSD at once; both climb quickly to β·cwnd, in a series of small bursts",
        "shape",
        "both",
        " %",
        "share of the five senders that fall so, below 95 % of β·cwnd, are back there within 3 loaded RTTs, and fill "
        "the queue by three packets in 10 ms at least twice on the way",
        l10,
        AtLeast(100.0, 60.0),
        "fig-recovery",
        "VI-B",
        why=(
            "Linux' rate halving comes down to β·cwnd here and not below it, so there is nothing to climb back; the "
            "paper has both systems climb."
        ),
    ),
    Claim(
        "000-L11",
        "Linux H-TCP at 100 Mbit/s × 80 and 160 ms alternates between slow and fast growth in an epoch",
        "presence",
        "always",
        " %",
        "share of epochs in which growth falls from > 4 to < 2 segments/RTT without a loss",
        l11,
        AtLeast(50.0, 10.0),
        "fig-13",
        "VII-A",
        disturbed_remark((80, 160)),
        why=(
            "2.6.25's clock restarts whenever the sender has passed through Disorder, and three packets in 100,000 "
            "overtaken by two others make it do so in half of the epochs only."
        ),
    ),
    Claim(
        "000-L12",
        "Linux H-TCP at 100 Mbit/s × 16 ms mixes H-TCP-like and NewReno-like epochs",
        "presence",
        "mixed",
        " %",
        "share of the rarer kind (NewReno-like: at least ¾ of the median epoch of NewReno with an ACK per segment)",
        l12,
        AtLeast(10.0, 3.0),
        "fig-14",
        "VII-A",
        disturbed_remark((16,)),
        why=(
            "As L11: the reordering that mixes H-TCP-like with NewReno-like epochs is more frequent than the "
            "smallest share that shows Fig. 13."
        ),
    ),
    Claim(
        "000-L13",
        "No discernible difference at 1 Mbit/s × 16 ms",
        "ordering",
        "none",
        " packets",
        "largest mean distance between two algorithms' delays on one system, in packets of queue",
        l13,
        AtMost(1.0, 1.5),
        "fig-discernible",
        "VI",
    ),
)

CLAIMS = with_standings(_CLAIMS, STANDINGS, REDEFINED)
