"""Measurements of a case's run, and the weaknesses to search for in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tailback.experiment.run_metrics import longest_pause
from tailback.hunting.cases import SETTLED_S, Case
from tailback.result import Result

__all__ = ["EXPECT", "PANIC", "WEAKNESSES", "Seen", "Weakness", "beyond", "described", "seen_in"]


@dataclass(frozen=True)
class Seen:
    """Measurements of a case's run."""

    goodput_mbps: float
    least_mbps: float
    rival_mbps: float
    loss: float
    timeouts: int
    #: Start and end of the longest time without an acknowledgement for one of the candidate's flows.
    gap: tuple[float, float]
    gap_of: str
    #: Loss rate of the call's packets.
    call_loss: float = math.nan

    @property
    def gap_s(self) -> float:
        """Length of the longest time without an acknowledgement, in seconds."""
        return self.gap[1] - self.gap[0]


def seen_in(case: Case, result: Result) -> Seen:
    """Measurements of a run of the case."""
    rows = {str(row["flow"]): row for row in result.flow_summary()}
    links = result.numpy("links")
    neck = result.link_index("bottleneck")
    arrived = float(links["arrived"][neck])
    rates = [float(rows[name]["goodput_mbps"] or 0.0) for name in case.victims]
    gaps = {name: longest_pause(result, name) for name in case.victims}
    gap_of = max(gaps, key=lambda name: gaps[name][1] - gaps[name][0])
    call = rows.get("call")
    return Seen(
        goodput_mbps=sum(rates),
        least_mbps=min(rates),
        rival_mbps=float(rows["rival"]["goodput_mbps"] or 0.0) if case.has_rival else math.nan,
        loss=float(links["dropped"][neck]) / arrived if arrived else 0.0,
        timeouts=sum(int(rows[name]["timeouts"] or 0) for name in case.victims),
        gap=gaps[gap_of],
        gap_of=gap_of,
        call_loss=_call_loss(result) if call else math.nan,
    )


def _call_loss(result: Result) -> float:
    flows, at = result.numpy("flows"), result.flow_index("call")
    sent = float(flows["packets_sent"][at])
    return float(flows["packets_dropped"][at]) / sent if sent else math.nan


@dataclass(frozen=True)
class Weakness:
    """A way of failing."""

    name: str
    doc: str
    #: Features of a case that the search may use besides rate, RTT, queue and number of flows.
    uses: frozenset[str]
    #: Badness from the measurements: 1 or more is a finding.
    badness: Callable[[Case, Seen], float]
    #: The twin that must do well: the candidate with an even stream instead of bursts or without jitter, or Reno or the
    #: paced BBRv3 in its place,
    twin: str
    #: and whether it does well, from both measurements.
    is_well: Callable[[Case, Seen, Seen], bool]
    #: Conditions that should hold but do not.
    expected: Callable[[Case, Seen], list[Any]]


def _sum(case: Case, key: str) -> str:
    return " + ".join(f"{name}.{key}" for name in case.victims)


def _timeouts_allowed(case: Case) -> float:
    return max((case.duration_s - SETTLED_S) / 3.0 * case.flows, 3.0)


#: A run that ends with an error, which any search reports.
PANIC = "panic"
#: Weaknesses in search order: the strongest disturbances first, as they may cause an error at once.
WEAKNESSES: tuple[Weakness, ...] = (
    Weakness(
        PANIC,
        "The run ends by an error",
        frozenset({"bursts", "loss", "dips", "rival", "jitter", "reordering"}),
        # Without an error, prefer large windows, and so large numbers.
        lambda case, seen: min(seen.goodput_mbps * case.rtt_ms / 1e4, 0.9),
        "reno",
        lambda case, seen, twin: True,
        lambda case, seen: [],
    ),
    Weakness(
        "stall",
        "Nothing is acknowledged for three seconds, twice as long as with Reno",
        frozenset({"bursts", "loss", "dips", "rival", "jitter", "reordering", "one flow"}),
        lambda case, seen: seen.gap_s / 3.0,
        "reno",
        lambda case, seen, twin: twin.gap_s <= seen.gap_s / 2,
        lambda case, seen: ["victim.longest_pause_ms < 3000"],
    ),
    Weakness(
        "underuse",
        "Alone on a path without losses of its own it uses less than half of what Reno could use four fifths of",
        frozenset({"one flow", "large windows", "jitter", "reordering"}),
        lambda case, seen: 0.5 * case.left_mbps / max(seen.goodput_mbps, 1e-6),
        "reno",
        lambda case, seen, twin: twin.goodput_mbps >= 0.8 * case.left_mbps,
        lambda case, seen: [f"victim.goodput_mbps >= {0.5 * case.left_mbps:.3g}"],
    ),
    Weakness(
        "starvation",
        "Beside one flow of Reno, it or that flow gets a tenth of its fair share; Reno in its place does not",
        frozenset({"rival", "one flow", "rival always", "jitter"}),
        lambda case, seen: 0.05 * case.left_mbps / max(min(seen.least_mbps, seen.rival_mbps), 1e-6),
        "reno",
        lambda case, seen, twin: min(twin.least_mbps, twin.rival_mbps) >= 0.1 * case.left_mbps,
        lambda case, seen: [
            f"{'victim' if seen.least_mbps < seen.rival_mbps else 'rival'}.goodput_mbps >= {0.05 * case.left_mbps:.3g}"
        ],
    ),
    Weakness(
        "loss",
        "A tenth of the packets is lost at the bottleneck, three times as many as Reno's",
        frozenset({"rival"}),
        lambda case, seen: seen.loss / 0.1,
        "reno",
        lambda case, seen, twin: twin.loss <= seen.loss / 3,
        lambda case, seen: ["loss <= 0.1"],
    ),
    Weakness(
        "call",
        "A call beside it loses a twentieth of its packets, three times as many as beside Reno",
        frozenset({"rival", "call"}),
        lambda case, seen: seen.call_loss / 0.05 if math.isfinite(seen.call_loss) else 0.0,
        "reno",
        lambda case, seen, twin: twin.call_loss <= seen.call_loss / 3,
        lambda case, seen: ["call.loss <= 0.05"],
    ),
    Weakness(
        "collapse",
        "Beside bursts it uses less than 40 % of what they leave; beside an even stream of as much it does not",
        frozenset({"bursts"}),
        lambda case, seen: 0.4 * case.left_mbps / max(seen.goodput_mbps, 1e-6),
        "steady",
        lambda case, seen, twin: twin.goodput_mbps >= 0.65 * case.left_mbps,
        lambda case, seen: [f"{_sum(case, 'goodput_mbps')} >= {0.4 * case.left_mbps:.3g}"],
    ),
    Weakness(
        "lockout",
        "Beside bursts it goes from timeout to timeout and uses less than 60 % of what they leave; beside an even "
        "stream it does not",
        frozenset({"bursts"}),
        lambda case, seen: min(
            seen.timeouts / _timeouts_allowed(case), 0.6 * case.left_mbps / max(seen.goodput_mbps, 1e-6)
        ),
        "steady",
        lambda case, seen, twin: twin.timeouts <= seen.timeouts / 4 and twin.goodput_mbps >= 0.65 * case.left_mbps,
        lambda case, seen: [
            f"{_sum(case, 'timeouts')} < {_timeouts_allowed(case):.3g}",
            f"{_sum(case, 'goodput_mbps')} >= {0.6 * case.left_mbps:.3g}",
        ],
    ),
    Weakness(
        "jitter",
        "A tenth of the packets is lost at the bottleneck where delay varies; without jitter a third of that at most",
        # Such a control's rate estimate is wrong if many packets are in flight.
        frozenset({"one flow", "large windows", "jitter always"}),
        lambda case, seen: seen.loss / 0.1,
        "no jitter",
        lambda case, seen, twin: twin.loss <= seen.loss / 3,
        lambda case, seen: ["loss <= 0.1"],
    ),
    Weakness(
        "answers",
        "A tenth of the packets of answers, each sent at once, is lost; of BBRv3's, which are paced, a third of that",
        frozenset({"one flow", "answers"}),
        lambda case, seen: seen.loss / 0.1,
        "bbr3",
        lambda case, seen, twin: twin.loss <= seen.loss / 3,
        lambda case, seen: ["bottleneck.loss <= 0.1"],
    ),
)
#: The conditions of the user's scenario.
EXPECT = "expect"


def beyond(relation: str, sides: Sequence[float]) -> float:
    """How far a condition is violated: 1 where it just fails."""
    if not all(math.isfinite(side) for side in sides):
        return 2.0
    left, *bounds = sides
    scale = max(max(abs(bound) for bound in bounds), 1e-9)
    if relation == "in":
        off = max(bounds[0] - left, left - bounds[1])
    else:
        off = left - bounds[0] if relation in ("<", "<=") else bounds[0] - left
    return max(1.0 + off / scale, 0.0) if off != 0.0 else (1.0 if relation in ("<", ">") else 0.999)


def _flows(case: Case) -> str:
    return "one flow" if case.flows == 1 else f"{case.flows} flows"


def described(case: Case, seen: Seen) -> str:
    """A case and its measurements in one line."""
    counted = "packets" if case.counts_packets else "bytes"
    queue = f"queue {case.queue_bdp:g} BDP counted in {counted}"
    words = [f"{case.rate_mbps:g} Mbit/s, {case.rtt_ms:g} ms, {queue}, {_flows(case)}"]
    if case.burst_rate:
        mean = case.burst_mbps / case.rate_mbps
        words.append(
            f"bursts of {case.burst_ms:g} ms each {case.period_ms:g} ms at {case.burst_rate:g} times the rate, "
            f"{mean:.0%} of it"
        )
    if case.loss:
        words.append(f"random loss {case.loss:g}")
    if case.jitter_ms:
        words.append(f"jitter up to {case.jitter_ms:g} ms, in order")
    if case.reorder:
        words.append(f"{case.reorder:.2%} of the packets overtaken by {case.reorder_packets}")
    if case.answer_bdp:
        words.append(f"answers of {case.answer_bytes / 1e3:.3g} kB, each asked for {case.think_ms:g} ms after the last")
    if case.dip < 1.0:
        words.append(f"the rate falls to {case.dip:.0%} every other {case.dip_ms:g} ms")
    words.append(
        f"goodput {seen.goodput_mbps:.3g} of {case.left_mbps:.3g} Mbit/s, loss {seen.loss:.1%}, "
        f"{seen.timeouts} timeouts, longest pause {seen.gap_s:.1f} s"
        + (f", the call's loss {seen.call_loss:.1%}" if case.has_call else "")
    )
    return "; ".join(words)
