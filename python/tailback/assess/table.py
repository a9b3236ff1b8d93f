"""The rules of RFC 9743's dossier, as data: statistics, scopes, planted faults, controls.

RFC 9743 gives no thresholds, so nearly every rule is relative: the candidate may be worse than the algorithm it is
judged against by a factor and an allowance. Of several such algorithms the worst in the cell counts, because the
Internet already bears it. A few rules are absolute: they state what no algorithm should do. A row judges only what its
title states; link utilization has its own row. The factors and allowances below were written down before their rule's
first run; a rule changed after results were seen says so in `changed`. How tunnels, wireless paths, short flows beside
CUBIC, the candidate's own loss and its share beside CUBIC are judged was changed after a referee had read the dossiers.
Absolute bounds, plain cases and the false discovery rate were added after earlier dossiers had been seen. A
review of those led to three more rules: what a plain case excuses, that negative harm counts as none, and that a bound
which no value can violate gives no verdict. The cells are in `cells.py`.

Revision 5 (`assess/5`) changed these rules after reviewers had read dossiers, and before any dossier by them:

- Full backoff is judged at 60 and 90 % of loss, no longer at 30 %. The mean wait of a timer that doubles has a limit
  up to 50 % of loss, and Reno itself sends about a packet a round trip at 30 %.
- A scavenger's own unfinished transfers do not count, as their completion times did not; those of others do.
- Jain's index at low rates is judged in 5.1.4, which is on fairness within the algorithm, no longer in 7.4, which is on
  constrained nodes.
- A transport under test has the windows that Linux allows TCP: its own ones bound its rate over long paths, which is
  not its congestion control's doing.
- Real-time traffic (5.2.2) has absolute bounds too, in their own row: 150 ms for a call and for media that adapt, and a
  mean opinion score of 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tailback.assess.cells import EXPERIMENTS, PLAIN, SPECIAL
from tailback.assess.measure import REVISION, measure, picture
from tailback.assess.plain import RECEIVER
from tailback.assess.procedure import GENERAL, L4S, Cell, Control, Experiment, Procedure, Statistic
from tailback.candidate import Candidate, candidate, flow_fields
from tailback.scenario import Scenario

__all__ = [
    "BASELINES",
    "COMPARED",
    "CONTROLS",
    "DATA_CENTRE",
    "EXPERIMENTS",
    "FAULTS",
    "GENERAL",
    "L4S",
    "PLAIN",
    "PROCEDURE",
    "SCAVENGER",
    "SCOPES",
    "SCOPE_OF",
    "SLOW_START",
    "SPECIAL",
    "STATISTICS",
    "Cell",
    "Control",
    "Experiment",
    "Statistic",
    "by_name",
    "scoped",
]

_SHARE = "a tenth is what repeated measurements of one algorithm on one path commonly differ by"
_HARM = "Ware et al., HotNets 2019: no more harm than the baseline does in the same place; a tenth for the spread"
_WAIT = "a quarter more, and 5 ms, CoDel's target (RFC 8289), which no user notices"
_CALL = "most conversations bear 150 ms one way (ITU-T G.114)"
_FETCH = "a quarter more, and 10 ms, a third of what a user notices"

#: Statistics by name; `measure.py` defines how each is measured.
STATISTICS: dict[str, Statistic] = {
    "goodput": Statistic("goodput of the flows under test", "Mbit/s", True, 0.9, 0.0, _SHARE),
    "goodput_after": Statistic("their goodput after the change", "Mbit/s", True, 0.9, 0.0, _SHARE),
    "own_goodput": Statistic(
        "what it keeps for itself",
        "Mbit/s",
        True,
        0.5,
        0.0,
        "half: RFC 5348 section 1 calls a flow reasonably fair within a factor of two of TCP's rate on the path",
    ),
    "lowest": Statistic(
        "lowest goodput of one of them in 5 s", "Mbit/s", True, 0.5, 0.0, "half: one window of few is noisy"
    ),
    "jain": Statistic("Jain's index between them", "", True, 1.0, 0.1, "one in ten flows shut out costs so much"),
    "loss": Statistic(
        "their packets lost",
        "",
        False,
        2.0,
        0.02,
        "twice, and 2 %, the loss that BBR's draft tolerates a round trip (draft-ietf-ccwg-bbr, BBR.LossThresh)",
        most=1.0,
    ),
    "delivered": Statistic(
        "payload that arrived for each byte sent", "", True, 0.95, 0.0, "a twentieth of useless work more"
    ),
    "late_packets": Statistic(
        "packets a flow sends from 5 s into the silence on",
        "",
        False,
        1.5,
        2.0,
        "timers that double agree up to one more probe or two (RFC 6298 section 5.5, RFC 8985 section 7)",
    ),
    "queue_ms": Statistic("mean wait in the bottleneck's queue", "ms", False, 1.25, 5.0, _WAIT),
    "call_ms": Statistic("delay of a call's packets, 95th percentile", "ms", False, 1.25, 5.0, _WAIT),
    "fct_p50_ms": Statistic("completion time of short transfers, median", "ms", False, 1.25, 10.0, _FETCH),
    "fct_p95_ms": Statistic("completion time of short transfers, 95th percentile", "ms", False, 1.25, 10.0, _FETCH),
    "unfinished": Statistic("its transfers that did not finish", "", False, 1.0, 0.02, "one in fifty", most=1.0),
    "others_unfinished": Statistic(
        "others' transfers that did not finish", "", False, 1.0, 0.02, "one in fifty", most=1.0
    ),
    "queue_absolute": Statistic(
        "mean wait in the bottleneck's queue",
        "ms",
        False,
        0.0,
        100.0,
        "what a call of 150 ms (G.114) has left after a path of 50 ms",
        of="queue_ms",
    ),
    "loss_absolute": Statistic(
        "their packets lost",
        "",
        False,
        0.0,
        0.1,
        "beyond a tenth TCP lives on timeouts (Padhye et al. 1998)",
        of="loss",
        most=1.0,
    ),
    "call_absolute": Statistic(
        "delay of a call's packets, 95th percentile", "ms", False, 0.0, 150.0, _CALL, of="call_ms"
    ),
    "mos_absolute": Statistic(
        "mean opinion score of a call",
        "",
        True,
        0.0,
        -3.6,
        "R of 70: many users are dissatisfied below it (ITU-T G.107 Annex B)",
        of="call_mos",
    ),
    "media_absolute": Statistic(
        "delay of media that adapt, 95th percentile", "ms", False, 0.0, 150.0, _CALL, of="media_ms"
    ),
    "packets_per_rtt": Statistic(
        "packets a flow sends in each round trip of the empty path",
        "",
        False,
        0.0,
        1.0,
        "full backoff is to one packet a round trip, and then to less (RFC 9743 section 5.1.1; RFC 8961)",
        changed="fitted: also judged at 30 % of loss, until Reno was seen to send up to 1.01 packets there",
    ),
    "packets_backoff": Statistic(
        "packets a flow sends in each round trip of the empty path",
        "",
        False,
        2.0,
        0.01,
        "the same, where one packet a round trip is no backoff yet: twice what doubling timers leave (RFC 6298)",
        of="packets_per_rtt",
    ),
    "queue_marked": Statistic(
        "mean wait in the bottleneck's queue",
        "ms",
        False,
        0.0,
        0.288,
        "K + N packets, 20 and 4 of 1,500 bytes at 1 Gbit/s: the most that N flows of DCTCP queue behind a step at K "
        "(Alizadeh et al., SIGCOMM 2010, section 3.3)",
        of="queue_ms",
    ),
    "starved": Statistic(
        "windows of 5 s in which one of the others gets less than a tenth of an even share",
        "",
        False,
        1.0,
        0.05,
        "one window in twenty: the others' flows have ten or more in a run",
        most=1.0,
    ),
    **{
        name: Statistic(title, "", False, 1.0, allowance, source, most=1.0)
        for name, title, allowance, source in (
            ("harm_goodput", "harm to the others' goodput", 0.1, _HARM),
            ("harm_lowest", "harm to their lowest goodput in 5 s", 0.2, _HARM + ", twice as noisy"),
            ("harm_delay", "harm to a call's delay, 95th percentile", 0.1, _HARM),
            ("harm_loss", "harm to a call's loss", 0.02, "2 % of a call's packets are heard (G.113)"),
            ("harm_mos", "harm to a call's mean opinion score", 0.05, "0.2 of 4.4: just heard (G.107)"),
            ("harm_media", "harm to the rate of media that adapt", 0.1, _HARM),
            ("harm_media_delay", "harm to the delay of media that adapt, 95th percentile", 0.1, _HARM),
            ("harm_fct", "harm to the completion time of others' short transfers", 0.1, _HARM),
        )
    },
}


SCAVENGER, DATA_CENTRE, SLOW_START = "scavenger", "data-centre", "slow-start"
SCOPES: Mapping[str, str] = {
    GENERAL: "for all traffic on all paths: every criterion applies",
    SCAVENGER: "gives way to all others, so that what it gets for itself is not judged",
    L4S: "asks for ECN with the code point of L4S (RFC 9331), where a cell has ECN",
    DATA_CENTRE: "for networks under one control, where RFC 9743 section 4 lets criteria of the Internet rest",
    SLOW_START: "changes how a flow begins, so that only rows with beginnings are judged",
}
"""Scopes: what an algorithm is meant for."""
SCOPE_OF: Mapping[str, str] = {"ledbat": SCAVENGER, "prague": L4S, "dctcp": DATA_CENTRE}
"""Scopes of built-in algorithms that are not general, as their authors declare them."""
_OWN = frozenset({"goodput", "goodput_after", "own_goodput", "lowest", "fct_p50_ms", "fct_p95_ms", "unfinished"})
"""Statistics of a flow's own performance."""
_IN_SCOPE: Mapping[str, frozenset[str]] = {
    DATA_CENTRE: frozenset({"data-centres", "data-centre-marks", "rto-backoff", "persistent-loss"}),
    SLOW_START: frozenset({"congestion-collapse", "bufferbloat", "short-flows", "standard-flows", "real-time",
                           "real-time-adaptive", "real-time-quality", "short-flows-of-others", "high-delay",
                           "path-changes", "low-rates", "data-centres", "starvation"}),
}  # fmt: skip
"""Names of the experiments that apply in each scope; in a scope that is not listed, all apply."""


NO_ECN: Mapping[str, str] = {
    "bbr3": "the draft gives no response to marks, and a sender without one does not ask for them",
}
"""Built-in algorithms that run without ECN, with the reason."""


def _asked_of_the_stack(cells: Sequence[Cell]) -> set[str]:
    """Stack fields of the flows under test that these cells set."""
    return {
        name
        for cell in cells
        for flow in cell.given.get("flow", ())
        if flow["name"].startswith("test")
        for name, value in flow.get("stack", {}).items()
        if value
    }


def lacks(cells: Sequence[Cell], of: Candidate | None) -> str:
    """Why a candidate cannot run some of these cells; empty if it can."""
    if of is None:
        return ""
    if of.kind == "program":
        tested = [flow for cell in cells for flow in cell.given.get("flow", ()) if flow["name"].startswith("test")]
        if any(flow.get("app", "bulk") != "bulk" for flow in tested):
            return "a program stands for long flows alone: it does not say when a transfer ended"
        if _asked_of_the_stack(cells):
            return "a program brings its own stack, of which nothing can be asked"
        return ""
    if of.kind != "transport" and any("late_packets" in cell.statistics for cell in cells):
        return "a congestion control has no timers: those of Linux' stack, which all of them have here, do back off"
    asked = _asked_of_the_stack(cells)
    if of.kind == "transport" and asked & set(RECEIVER):
        return "a transport brings its own receiver, which acknowledges as it likes"
    return NO_ECN.get(of.name, "") if "ecn" in asked else ""


def scoped(experiment: Experiment, cell: Cell, scope: str, of: Candidate | None = None) -> Cell | None:
    """The cell restricted to the statistics that apply in a scope; None if none does."""
    if experiment.name not in _IN_SCOPE.get(scope, {experiment.name}) or lacks([cell], of):
        return None
    left = tuple(name for name in cell.statistics if scope != SCAVENGER or name not in _OWN)
    return replace(cell, statistics=left) if left else None


#: Planted faults, for rows without an algorithm of known verdict: class in `faults.py`, row, cell, number, reason.
FAULTS: tuple[tuple[str, str, str, str, str], ...] = (
    ("FloorOfSixteen", "congestion-collapse", "collapse-crowd-64", "delivered", "1,024 segments where 20 wait"),
    ("FloorOfSixteen", "persistent-loss", "persistent-loss-0.6", "packets_per_rtt", "sixteen segments after a timeout"),
    ("Fills", "low-rates", "low-rate-2", "loss", "2,200 segments where 10 wait"),
    ("Fills", "bufferbloat", "bufferbloat-16bdp", "queue_ms", "a queue of 16 BDP, always full"),
    ("Fills", "loss-in-per-cent", "loss-4-flows-0.25bdp", "loss_absolute", "4,400 segments where 200 have room"),
    ("Fills", "widely-deployed", "beside-bbr3-10mbit-1bdp", "harm_goodput", "1,100 segments where 33 have room"),
    ("Fills", "starvation", "beside-cubic-10mbit-1bdp", "starved", "the queue is always full"),
    ("IgnoresMarks", "data-centre-marks", "marks-long", "queue_marked", "fills 500 kB, where a step marks from 30 kB"),
    ("Fills", "real-time", "real-time-4-1bdp-packets", "harm_loss", "the queue is always full"),
    ("Fills", "real-time-adaptive", "adaptive-gcc-1bdp", "harm_media", "the queue is always full"),
    ("Fills", "real-time-quality", "real-time-1-4bdp", "call_absolute", "160 ms of queue, always full, and 20 of wire"),
    ("Fills", "real-time-quality", "real-time-4-1bdp-packets", "mos_absolute", "the queue is always full"),
    ("Fills", "real-time-quality", "adaptive-gcc-4bdp", "media_absolute", "160 ms of queue, always full"),
    ("Fills", "short-flows-of-others", "others-short-100kB-4-1bdp", "harm_fct", "the queue is always full"),
    ("KeepsItsWindow", "fairness-within", "fair-late", "jain", "who comes late finds no room"),
    ("Fills", "fairness-within", "low-rate-2", "jain", "two flows of 1,100 segments where 10 wait"),
    ("StartsLate", "short-flows", "short-100kB-beside-0", "fct_p50_ms", "a second with two segments"),
    ("IgnoresMarks", "tunnels", "tunnel-ecn", "harm_goodput", "RFC 3168 section 5: a mark is a loss"),
    ("IgnoresMarks", "aqm", "aqm-codel-ecn", "harm_goodput", "RFC 3168 section 5: a mark is a loss"),
    ("PunishesRandomLoss", "wireless", "random-loss-0.001", "goodput", "two segments after each loss"),
    ("FourSegments", "link-use", "bufferbloat-1bdp", "goodput", "four of 67 segments"),
    ("CapsWindow", "high-delay", "geo", "goodput", "300 of 1,000 segments"),
    ("CountsAcks", "misbehaving", "acks-divided-64", "loss", "Savage et al. 1999: ACK division"),
    ("ShyOfManyAcks", "acks", "acks-1", "goodput", "RFC 5681 section 4.2 lets each segment be acknowledged"),
    ("ReducesAtReordering", "reordering", "reordering-3", "goodput", "RFC 5681 section 3.2 waits for three"),
    ("Sulks", "transients", "outage-5s", "goodput_after", "four segments after an outage"),
    ("RemembersThePath", "path-changes", "route-better", "goodput_after", "the window of the path before"),
    ("SlowAtShortRoundTrips", "data-centres", "data-centre-long", "goodput", "a window in 10 ms instead of 0.1"),
)


BASELINES = ("cubic", "reno")
"""Baselines against which controls are judged."""
#: QUIC's Reno (RFC 9002, which RFC 9743 section 5.2 names) as quinn has it: noq's is a copy of that, s2n-quic has none.
#: It sets no bound: the rules were written for TCP's, and a stack's departures from its RFC would excuse a candidate's.
COMPARED: Mapping[str, str] = {"quinn new_reno": "quinn,cc=new_reno"}
_COMPARED_NOTE = (
    "The baseline quinn new_reno is Reno as QUIC has it (RFC 9002), named by RFC 9743. Beside a candidate with "
    "quinn's transport a difference to it is between congestion controls alone, else between transports too. It has "
    "the first round's seeds, and no plain case excuses a number beside it."
)
_SHALLOW = ("loss-4-flows-0.25bdp", "loss-16-flows-0.25bdp")
#: RFC 9743 section 5.1.3 names BBR version 1.
CONTROLS: tuple[Control, ...] = (
    Control("bbr", "high-loss", _SHALLOW, "loss", True, "RFC 9743 section 5.1.3; Hock et al., ICNP 2017"),
    Control(
        "bbr3",
        "high-loss",
        _SHALLOW[:1],
        "loss",
        False,
        "draft-ietf-ccwg-bbr: reacts to 2 % of loss",
        "fitted: at first also with 16 flows, where it fails. A flow then has 13 packets a round trip, of which one "
        "lost is 8 %: 2 % cannot be seen there. Its loss goes with the packets a flow has (13: 7 to 8 %, 52: 1.5 to "
        "2.7 %, 208: 0.9 %), whatever the number of flows",
    ),
    Control("cubic", "high-loss", _SHALLOW, "loss", False, "RFC 9438"),
    Control("cubic", "standing-queue", ("bufferbloat-4bdp",), "queue_absolute", True, "RFC 9743 section 5.1.2"),
    Control("vegas", "standing-queue", ("bufferbloat-4bdp",), "queue_absolute", False, "Brakmo et al. 1994"),
    Control("reno", "persistent-loss", ("persistent-loss-0.6",), "packets_per_rtt", False, "RFC 5681; RFC 6298"),
    Control("reno", "high-loss", _SHALLOW, "loss", False, "RFC 5681"),
    Control(
        "scalable",
        "standard-flows",
        ("beside-cubic-10mbit-1bdp",),
        "harm_goodput",
        True,
        "Li, Leith and Shorten, IEEE/ACM ToN 2007",
    ),
    Control("vegas", "own-share", ("beside-reno-10mbit-1bdp",), "own_goodput", True, "Mo et al., INFOCOM 1999"),
    Control("vegas", "varying-delay", ("delay-20-120",), "goodput_after", True, "La, Walrand and Anantharam 1999"),
    *(
        Control(f"python:tailback.assess.faults:{name}", experiment, (cell,), statistic, True, why, quick=False)
        for name, experiment, cell, statistic, why in FAULTS
    ),
)


def _trial(mine: Candidate) -> Scenario:
    """A trial with losses and an outage."""
    given = {
        "name": "trial",
        "duration": "8s",
        "dumbbell": {
            "rate": "10mbit", "rtt": "40ms", "queue": "0.5bdp",
            "schedule": [{"at": "4s", "rate": "0bit"}, {"at": "5s", "rate": "10mbit"}],
        },
        "flow": [{"name": "test", **flow_fields(mine.cc)}],
    }  # fmt: skip
    return Scenario.from_dict(given)


_NOTE = (
    "RFC 9743 sets no thresholds. Each rule here allows a candidate to be worse than a baseline by a factor and an "
    "allowance, both fixed before the first run of that rule. The absolute bounds, the plain cases, what they excuse, "
    "the false discovery rate and what some rows hold came when earlier dossiers had been seen. Of several "
    "baselines the one that allows most counts. "
    "Passed and failed mean that the margins, taken seed by seed, lie on one side. The interval of their mean says so, "
    "or all of them do in enough seeds or by a clear factor. All looks together have an error of 5 %. Else the verdict "
    "is undecided; there is none where no value could violate the bound. The false discovery rate is held at 5 % over "
    "what passes and over what fails. A special case (an AQM, a satellite, …) that no MUST demands is excused under "
    "three conditions. The candidate fails in the plain case too, a row of plain paths fails by the same number, and "
    "the special case adds no more than it adds for the baseline. Queues of a number of BDP count "
    "bytes; cells with a call have a twin whose queue counts packets, and the worse of both is the criterion's "
    "verdict. Beside one baseline alone: the verdict, and the difference to it of what weighs most, mean and 95 % "
    "interval. Bounds of the queue in milliseconds, of the loss in per cent, of packets a round trip and of a call's "
    "delay and quality are absolute."
)

PROCEDURE = Procedure(
    name="congestion control",
    rfc="RFC 9743",
    note=_NOTE,
    statistics=STATISTICS,
    experiments=EXPERIMENTS,
    controls=CONTROLS,
    baselines=BASELINES,
    scopes=SCOPES,
    scope_of=SCOPE_OF,
    candidate=candidate,
    trial=_trial,
    trial_words="a trial of 8 s over 10 Mbit/s, with losses and an outage",
    scoped=scoped,
    lacks=lacks,
    judged_as=lambda candidate, scope: f"Judged as {scope}: {SCOPES[scope]}.",
    measure=measure,
    picture=picture,
    revision=REVISION,
    plain=PLAIN,
    has_population=True,
    compared=COMPARED,
    compared_notes=dict.fromkeys(COMPARED, _COMPARED_NOTE),
    # A QUIC flow takes eight times a TCP flow's time: this adds some eight minutes of one core to a whole dossier.
    is_compared=lambda candidate: candidate.kind == "transport",
)


def by_name() -> Mapping[str, Cell]:
    """Every cell by name, plain cases included; of cells with one name, the first experiment's."""
    return PROCEDURE.cells
