"""Planted faults: NewReno with one defect each, which must fail the dossier's row for that defect.

They are the permanent controls of rows for which no algorithm with a known verdict exists. A fault may also fail other
rows in which the same defect shows; docs/assess.md lists them with reasons.
"""

from __future__ import annotations

import math

from tailback.algorithms import Ack, Congestion, Control
from tailback.examples.newreno import NewReno

__all__ = [
    "CapsWindow",
    "CountsAcks",
    "Fills",
    "FloorOfSixteen",
    "FourSegments",
    "IgnoresMarks",
    "KeepsItsWindow",
    "PunishesRandomLoss",
    "ReducesAtReordering",
    "RemembersThePath",
    "ShyOfManyAcks",
    "SlowAtShortRoundTrips",
    "StartsLate",
    "Sulks",
]


class FloorOfSixteen(NewReno):
    """Never has fewer than sixteen segments in flight, however many packets are lost."""

    owns_window = True
    segments = 16

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does, from the floor up."""
        super().on_ack(ack, control)
        control.cwnd = max(control.cwnd, self.segments * control.mss)

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Halve the window, but to no less than sixteen segments."""
        super().on_congestion(congestion, control)
        if congestion.is_repeated_timeout:
            return
        control.ssthresh = control.cwnd = max(control.ssthresh, self.segments * control.mss)


class FourSegments(NewReno):
    """Never has more than four segments in flight."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does, to at most four segments."""
        super().on_ack(ack, control)
        control.cwnd = min(control.cwnd, 4 * control.mss)


class Fills(NewReno):
    """Keeps 1,100 segments in flight: 16 BDP and the pipe of 20 Mbit/s and 40 ms."""

    owns_window = True

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Keep the window constant."""
        control.cwnd = 1100 * control.mss

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Do not reduce the window."""
        control.ssthresh = control.cwnd = 1100 * control.mss


class KeepsItsWindow(NewReno):
    """Freezes its window after fifteen seconds, so that a flow that starts later finds little room."""

    owns_window = True
    began = math.inf

    def on_established(self, now_s: float, srtt_s: float, control: Control) -> None:
        """Start the fifteen seconds."""
        self.began = now_s

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does, until the window is frozen."""
        if ack.now_s < self.began + 15.0:
            super().on_ack(ack, control)

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Reduce as Reno does, until the window is frozen."""
        if congestion.now_s >= self.began + 15.0:
            control.ssthresh = max(control.cwnd, 2 * control.mss)
            return
        super().on_congestion(congestion, control)
        control.cwnd = min(control.cwnd, control.ssthresh)


class StartsLate(NewReno):
    """Keeps two segments in flight during the first second of each connection."""

    began = -1.0

    def on_established(self, now_s: float, srtt_s: float, control: Control) -> None:
        """Start the first second."""
        self.began = now_s
        control.cwnd = 2 * control.mss

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does, after the first second."""
        if ack.now_s >= self.began + 1.0:
            super().on_ack(ack, control)


class IgnoresMarks(NewReno):
    """Negotiates ECN, but does not reduce its window on a mark."""

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Halve the window on a loss only."""
        if congestion.signal == "ecn":
            control.ssthresh = max(control.cwnd, 2 * control.mss)
            return
        super().on_congestion(congestion, control)


class PunishesRandomLoss(NewReno):
    """Goes to two segments when a packet is lost while the queue is empty."""

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Halve the window if the round trip shows a queue; else fall to two segments."""
        super().on_congestion(congestion, control)
        shortest, usual = congestion.rtt_min_s, congestion.srtt_s
        if shortest is not None and usual is not None and usual < 1.2 * shortest:
            control.ssthresh = 2 * control.mss


class CapsWindow(NewReno):
    """Never has more than 300 segments in flight, like a host without window scaling."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does, up to the cap."""
        super().on_ack(ack, control)
        control.cwnd = min(control.cwnd, 300 * control.mss)


class CountsAcks(NewReno):
    """Grows on each ACK, however few bytes it acknowledges (Savage et al. 1999)."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """One segment per ACK in slow start; then one per round trip, assuming delayed ACKs."""
        control.cwnd += control.mss if ack.in_slow_start else 2.0 * control.mss * control.mss / control.cwnd


class ShyOfManyAcks(NewReno):
    """Limits itself to ten segments in flight while ACKs cover fewer than 1.4 segments each on average."""

    each = 2.0

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does if the receiver acknowledges every second segment."""
        super().on_ack(ack, control)
        if ack.newly_acked_segments > 0:
            self.each += (min(ack.newly_acked_segments, 4) - self.each) / 16.0
        if self.each < 1.4:
            control.cwnd = min(control.cwnd, 10 * control.mss)


class ReducesAtReordering(NewReno):
    """Reduces on the first reordered segment, without waiting for three duplicate ACKs."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does, but treat any selective acknowledgement as congestion."""
        super().on_ack(ack, control)
        if ack.delivered_segments > 0 and ack.newly_acked == 0:
            control.wants_reduction = True


class Sulks(NewReno):
    """Limits itself to four segments in flight for good after its first timeout."""

    is_hurt = False

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does, until the first timeout."""
        super().on_ack(ack, control)
        if self.is_hurt:
            control.cwnd = min(control.cwnd, 4 * control.mss)

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Remember any timeout for good."""
        super().on_congestion(congestion, control)
        self.is_hurt = self.is_hurt or congestion.signal == "timeout"


class RemembersThePath(NewReno):
    """Caps the window at 1.5 BDP of its first fifteen seconds, even after the path has changed."""

    rate = 0.0

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does; after fifteen seconds, up to the remembered cap."""
        super().on_ack(ack, control)
        if ack.now_s < 15.0:
            self.rate = max(self.rate, ack.delivery_rate_bps or 0.0)
            self.round_trip = ack.rtt_min_s
        elif self.round_trip is not None and self.rate > 0.0:
            control.cwnd = min(control.cwnd, max(1.5 * self.rate * self.round_trip / 8.0, 2.0 * control.mss))

    round_trip: float | None = None


class SlowAtShortRoundTrips(NewReno):
    """Treats every round trip as at least ten milliseconds, and paces by that."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow as Reno does; pace where the round trip is short."""
        super().on_ack(ack, control)
        is_short = ack.rtt_min_s is not None and ack.rtt_min_s < 0.001
        control.pacing_bps = 8.0 * control.cwnd / 0.01 if is_short else None
