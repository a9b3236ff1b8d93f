"""The rules of a queue's dossier, as data: numbers with their bounds, controls, the procedure.

RFC 7567 and RFC 7928 name what to examine and set no threshold. A queue is judged by what it declares: delays by its
own target, bursts by its own allowance, isolation of flows and hosts only if it declares it. A target counts as 1.5
packets' time where a packet takes longer. Throughput, loss and completion times are judged against CoDel and PIE in the
same cell, whichever allows more; drop-tail is shown for comparison. The bounds below were written down before the first
run; what is changed after results were seen says so in `changed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tailback.assess.procedure import GENERAL, Cell, Control, Procedure, Statistic
from tailback.assess.queues.cells import EXPERIMENTS, QueueCell, applies
from tailback.assess.queues.measure import REVISION, measure, picture
from tailback.candidate import Candidate
from tailback.queue_candidate import QueueCandidate, candidate
from tailback.scenario import Scenario

__all__ = ["BASELINES", "CONTROLS", "FAULTS", "PROCEDURE", "STATISTICS"]

BASELINES = ("drop-tail-bytes", "drop-tail-packets", "codel", "pie")
_AQMS = ("codel", "pie")
_TARGET = "the queue's own target"
#: A bound without an outside reference: `reference` returns 1.
_FIXED = "fixed"
_SWINGS = "twice: a window that halves swings the delay about the target by as much"
_TAIL = "four times: a flow's slow start or a drop too late in one packet of twenty"
_CROWD = "twice what a few flows may: where a packet in ten must go, a law takes a larger error to reach that"
_FETCH = "a quarter more, and 10 ms, a third of what anybody notices"

STATISTICS: Mapping[str, Statistic] = {
    "wait_p50": Statistic("median wait", "ms", False, 2.0, 0.0, _SWINGS, own=_TARGET),
    "wait_p95": Statistic("wait, 95th percentile", "ms", False, 4.0, 0.0, _TAIL, own=_TARGET),
    "crowd_p50": Statistic("median wait", "ms", False, 4.0, 0.0, _CROWD, of="wait_p50", own=_TARGET),
    "crowd_p95": Statistic("wait, 95th percentile", "ms", False, 8.0, 0.0, _CROWD, of="wait_p95", own=_TARGET),
    "others_p50": Statistic("median wait beside the datagrams", "ms", False, 2.0, 0.0, _SWINGS, own=_TARGET),
    "wait_after": Statistic("median wait after the change", "ms", False, 2.0, 0.0, _SWINGS, of="wait_p50", own=_TARGET),
    "call_p95": Statistic("wait of a call's packets, 95th percentile", "ms", False, 4.0, 0.0, _TAIL, own=_TARGET),
    "signal_ms": Statistic(
        "from a drop to the flow's next packet",
        "ms",
        False,
        4.0,
        0.0,
        "four targets: a turn of other flows' packets, and not the queue's length",
        own=_TARGET,
    ),
    "use": Statistic(
        "of the link used", "%", True, 0.95, 0.0, "a twentieth: RFC 7928's trade of delay for rate", beside=_AQMS
    ),
    "loss": Statistic(
        "lost of long flows", "%", False, 2.0, 1.0, "twice, and 1 %: rare losses are noisy", beside=_AQMS
    ),
    "burst_loss": Statistic(
        "lost of the bursts", "%", False, 0.0, 1.0, "a burst within the allowance is let through (RFC 8033)", own=_FIXED
    ),
    "jain": Statistic("Jain's index between them", "", True, 1.0, 0.1, "one in ten flows shut out costs so much"),
    "jain_apart": Statistic(
        "Jain's index between them", "", True, 0.0, -0.9, "flows apart get a part each (RFC 8290)", own=_FIXED
    ),
    "host_share": Statistic(
        "part of the host with one flow", "%", True, 0.5, 0.0, "half of what it gets: nine windows are noisy"
    ),
    "host_half": Statistic(
        "part of the host with one flow", "%", True, 0.0, -40.0, "half, less a fifth of it", of="host_share", own=_FIXED
    ),
    "marked_share": Statistic(
        "of the signals that are marks", "%", True, 0.0, -90.0, "RFC 7567 4.2.1: mark and do not drop", own=_FIXED
    ),
    "least_share": Statistic(
        "of a fair part, what the lesser flow gets",
        "",
        True,
        0.0,
        -0.25,
        "RFC 9332 aims at rates nearly alike; a factor of four from half is no coexistence",
        own=_FIXED,
    ),
    "fct_p50": Statistic("time of a transfer, median", "ms", False, 1.25, 10.0, _FETCH, beside=_AQMS),
    "fct_p95": Statistic("time of a transfer, 95th percentile", "ms", False, 1.25, 10.0, _FETCH, beside=_AQMS),
    "call_loss": Statistic(
        "lost of a call's packets", "%", False, 0.0, 1.0, "half of the 2 % that are heard (G.113)", own=_FIXED
    ),
    "held": Statistic("most that waited, of the limit", "", False, 0.0, 1.0, "the limit is a limit", own=_FIXED),
    "cost_growth": Statistic(
        "instructions a packet with 1,000 waiting, of those with 10",
        "",
        False,
        0.0,
        2.0,
        "a cost that grows with what waits is greatest when there is least time",
        own=_FIXED,
    ),
    "cost_beyond": Statistic(
        "instructions a packet beyond drop-tail's, with 10 waiting",
        "",
        False,
        0.0,
        1200.0,
        "a tenth of a core of 10⁹ instructions a second that forwards 1 Gbit/s of full packets",
        own=_FIXED,
    ),
}


def reference(cell: Cell, rule: Statistic, of: Candidate | None) -> float:
    """Reference of the candidate's own bound: its target, or 1.5 packet times if longer; NaN if baselines set it."""
    if not rule.own:
        return math.nan
    if rule.own == _FIXED or not isinstance(of, QueueCandidate) or not isinstance(cell, QueueCell):
        return 1.0
    return max(of.target_ms, 1.5 * cell.packet_ms)


#: Planted faults: class in `faults.py`, row, cell, number, reason.
FAULTS: tuple[tuple[str, str, str, str, str], ...] = (
    ("DelaysEverything", "delay", "delay-4", "wait_p50", "no packet leaves before 60 ms"),
    ("DropsRarely", "crowd", "crowd-64", "crowd_p50", "at most a drop in 200 ms"),
    ("TooEager", "use", "use-160ms", "use", "drops whatever finds two packets"),
    ("GivesUp", "unresponsive", "unresponsive-120", "others_p50", "rests where most arrivals would have to go"),
    ("NoAllowance", "bursts", "burst-80ms", "burst_loss", "drops at once what has waited longer than the target"),
    ("StarvesOne", "mixed-rtts", "alike", "jain", "one flow's packets are dropped one in two"),
    ("StarvesOneApart", "flows-apart", "flows-apart", "jain_apart", "says that flows are apart, and keeps one queue"),
    ("StarvesOne", "hosts", "hosts", "host_share", "one flow's packets are dropped one in two"),
    ("StarvesOneApart", "hosts-apart", "hosts", "host_half", "says that hosts are apart, and keeps one queue"),
    ("DelaysEverything", "low-rates", "low-rate-1", "wait_p50", "no packet leaves before 60 ms"),
    ("SlowToAnswer", "rate-drops", "rate-drop", "wait_after", "takes twenty seconds to see a standing queue"),
    ("DropsTheTail", "signals", "rate-drop-signals", "signal_ms", "drops the newest, behind all that waits"),
    ("NeverMarks", "ecn", "ecn", "marked_share", "drops what could be marked"),
    ("StarvesClassic", "l4s", "l4s", "least_share", "drops whatever is not ECN-capable when it marks"),
    ("PunishesBeginners", "short-flows", "short-15kB", "fct_p50", "drops what begins after a pause"),
    ("DropsSmall", "calls", "call-4", "call_loss", "drops one small packet in twenty"),
    ("ForgetsItsLimit", "memory", "memory", "held", "takes whatever comes"),
    ("LooksAtAll", "cost", "cost", "cost_growth", "adds up all that waits at each arrival"),
)

CONTROLS: tuple[Control, ...] = (
    Control("drop-tail-packets", "delay", ("delay-1", "delay-4"), "wait_p50", True, "Gettys and Nichols, Queue 2011"),
    Control("drop-tail-packets", "ecn", ("ecn",), "marked_share", True, "it never marks"),
    Control("pie", "delay", ("delay-4",), "wait_p50", False, "RFC 8033 section 5"),
    Control("pie", "crowd", ("crowd-64",), "crowd_p50", False, "RFC 8033 section 5"),
    Control("pie", "rate-drops", ("rate-drop",), "wait_after", False, "RFC 8033 section 5"),
    Control("pie", "unresponsive", ("unresponsive-120",), "others_p50", False, "RFC 8033 section 5"),
    Control("codel", "delay", ("delay-1",), "wait_p50", False, "RFC 8289 section 4"),
    Control("fq_codel", "flows-apart", ("flows-apart",), "jain_apart", False, "RFC 8290 section 1.3"),
    Control(
        "cake", "hosts-apart", ("hosts",), "host_half", False, "Høiland-Jørgensen et al., LANMAN 2018, section III"
    ),
    Control("dualpi2", "l4s", ("l4s",), "least_share", False, "RFC 9332 section 1"),
    Control("codel,ecn=true", "l4s", ("l4s",), "least_share", True, "RFC 9331 section 5.4: a classic ECN queue"),
    *(
        Control(f"python:tailback.assess.queues.faults:{name}", row, (cell,), statistic, True, why, quick=False)
        for name, row, cell, statistic, why in FAULTS
    ),
)


def _trial(mine: Candidate) -> Scenario:
    """A trial with more load than the link carries, twice, with a pause between."""
    assert isinstance(mine, QueueCandidate)
    flood = {"app": "udp-cbr", "params": {"rate": "20mbit"}}
    given = {
        "name": "trial",
        "duration": "8s",
        "dumbbell": {"rate": "10mbit", "rtt": "40ms", "queue": mine.table},
        "flow": [
            {"name": "test", "cc": "cubic"},
            {"name": "flood", **flood, "start": "3s", "stop": "4s"},
            {"name": "again", **flood, "start": "6s", "stop": "7s"},
        ],
    }
    return Scenario.from_dict(given)


_NOTE = (
    "RFC 7567 and RFC 7928 set no thresholds. Delays are judged by the target that the queue declares, a queue without "
    "one by PIE's 15 ms; a target counts as 1.5 packets' time where a packet takes longer. Bursts are judged by the "
    "queue's own allowance. Use, loss and times of transfers are judged beside CoDel and PIE, of which the one that "
    "allows more counts. All bounds were fixed before the first run. Passed and failed mean that the margins, taken "
    "seed by seed, lie on one side; else it is undecided. Over all numbers of the dossier the false discovery rate is "
    "held at 5 %. Beside a queue: the difference to it of what weighs most, mean and 95 % interval. Drop-tail stands "
    "in each cell twice, its limit counted in bytes and in packets."
)


def _judged_as(mine: Candidate, scope: str) -> str:
    """States the declared properties by which the queue is judged."""
    assert isinstance(mine, QueueCandidate)
    apart = f", and to keep {mine.isolates} apart" if mine.isolates else ""
    return (
        f"Judged by a target of {mine.target_ms:g} ms and a burst allowance of {mine.burst_ms:g} ms. It "
        f"declares to drop at the {'head' if mine.drops_at_head else 'tail'}{apart}."
    )


PROCEDURE = Procedure(
    name="queue",
    rfc="RFC 7928",
    note=_NOTE,
    statistics=STATISTICS,
    experiments=EXPERIMENTS,
    controls=CONTROLS,
    baselines=BASELINES,
    scopes={GENERAL: "for any bottleneck: every criterion applies that the queue declares itself to meet"},
    scope_of={},
    candidate=candidate,
    trial=_trial,
    trial_words="a trial of 8 s over 10 Mbit/s, with two floods",
    scoped=applies,
    judged_as=_judged_as,
    measure=measure,
    picture=picture,
    revision=REVISION,
    reference=reference,
    has_queues=True,
    needs_guest=lambda mine: isinstance(mine, QueueCandidate) and mine.needs_guest,
)
