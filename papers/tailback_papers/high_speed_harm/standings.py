"""Which of the paper's claims are evidence here, what was changed after first results, and at what scale it was run."""

from __future__ import annotations

from tailback.experiment import Standing

STANDINGS: dict[str, Standing] = {}

_JOIN = (
    "Drops counted within 5 s of a join at every scale, four fifths of the joining's time at the usual one; it is 20 "
    "round trips."
)
_WORST = "The old limit lay at or above the worst that the campus's queues can do; it is relative to the leased line."
_NOISE = "One case at no tie was enough; a case now lies beyond the seeds' spread, and chance does not give as many."
REDEFINED = {
    "002-L6b": _JOIN,
    "002-L6d": _JOIN,
    "002-L11b": _NOISE,
    "002-L16a": _WORST,
    "002-L16c": _WORST,
    "002-L16d": _NOISE,
    "002-L18d": _WORST,
}

CHOSEN = (
    "The web's window: with an unlimited one 29 of 66 claims were reproduced; ns-2's default of 20 packets was taken "
    "with that in view.",
    "The flows' stack and the modules of H-TCP and Compound are those of NS2-TCP-Linux, overhead_ and ns-2.35; its "
    "sources were read because verdicts were looked into.",
    "The usual scale: the schedule became an eighth, and the campus went from half its rate to all of it, after first "
    "results. A model scaled down is no replication.",
)

SCALE_SENSITIVE = frozenset(
    {"002-L2", "002-L6a", "002-L6b", "002-L6c", "002-L6d", "002-L8a", "002-L9e", "002-L9f", "002-L12a", "002-L12b",
     "002-L12c", "002-L13c"}
)  # fmt: skip
"""Claims about windows, γ or joins, which a smaller rate or a shorter schedule changes against the queue."""
FIRST_OF_THE_CAMPUS = 14
"""Claims are numbered through; from this one on they are of the local network (section 4.2)."""


def network_of(claim: str) -> str:
    """The network a claim is about."""
    number = int("".join(c for c in claim.removeprefix("002-L") if c.isdigit()))
    return "lan" if number >= FIRST_OF_THE_CAMPUS else "wan"
