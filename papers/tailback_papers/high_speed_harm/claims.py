"""Every claim of the fourth section, and why those that fail at the usual scale do."""

from __future__ import annotations

from dataclasses import replace

from tailback.experiment import with_standings

from . import claims_lan, claims_wan
from .standings import REDEFINED, STANDINGS

# What was tested is in brackets: another cell, an ablation, or the run at the paper's scale on the study's page.
WHY = {
    "002-L2": "Small windows and short runs flatter SACK; at the paper's scale it is far behind [full scale].",
    "002-L3a": "Elsewhere SACK's slow start or Compound's blind steps lose more, as the paper's 002-L6a and L4a say.",
    "002-L6a": "Four joins weigh more in a short schedule, HS-TCP's limited ones too.",
    "002-L7a": "A few transactions that wait for a timer decide a mean [without the slowest twentieth].",
    "002-L7c": "One cut of all four flows empties the queue; twenty flows keep it fuller [with twenty flows].",
    "002-L7d": "Some are late, but not one of twenty, as the rule asks [the 99th percentile].",
    "002-L7e": "Losses come in bursts and few transactions meet them: the 95th percentiles are alike.",
    "002-L8a": "At a quarter of the rate 0.2 BDP is hardly visible to Compound [γ divided by 4].",
    "002-L8b": "Packet errors keep the delay window in use; without them it is so [no packet errors].",
    "002-L8c": "Packet errors cut the loss window before it fills the link; without them it is so [no packet errors].",
    "002-L9a": "A few transactions that wait for a timer decide a mean [without the slowest twentieth].",
    "002-L9b": "A few transactions that wait for a timer decide a mean [without the slowest twentieth].",
    "002-L9e": "Its delay is shorter, but climbs and retreats shake the queue, with a smaller γ too [γ divided by 4].",
    "002-L9f": "Compound's climbs and retreats shake the middle queues more, with a smaller γ too [γ divided by 4].",
    "002-L10a": "HFTP is one flow, whose early losses decide its average [spread over seeds].",
    "002-L10c": "HFTP is one flow, whose early losses decide its average [spread over seeds].",
    "002-L11a": "With the agent's recovery as it is meant to be even less so [rate halving].",
    "002-L11b": "With the agent's recovery as it is meant to be not at all [rate halving].",
    "002-L12a": "At a quarter of the rate it hardly sees 0.2 BDP [γ divided by 4].",
    "002-L12b": "In jitter it is not the best, see 002-L9e; HFTP is one flow.",
    "002-L12c": "Packet errors keep the delay window in use; without them it is so [no packet errors].",
    "002-L14a": "A tenth of a BDP holds too little for four flows that are cut at once.",
    "002-L14b": "With small queues the campus is no easier: four flows that are cut at once leave it empty.",
    "002-L14e": "The module scales α by the RTT: at 18 ms H-TCP grows hardly faster than SACK [α not scaled].",
    "002-L15c": "Less, but by less than the rule asks.",
    "002-L16a": "With 1 BDP CUBIC holds most of the queue's 10 ms.",
    "002-L16b": "Single transactions that wait for a timer decide the mean of 4 KB.",
    "002-L17a": "Calls wait in the leased line's queue, which HFTP fills; without HFTP jitter is the same [no HFTP].",
    "002-L18c": "Except with 0.1 BDP, where nobody comes near.",
}

CLAIMS = with_standings(
    [replace(one, why=WHY.get(one.id, "")) for one in (*claims_wan.CLAIMS, *claims_lan.CLAIMS)], STANDINGS, REDEFINED
)
