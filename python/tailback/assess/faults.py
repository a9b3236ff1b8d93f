"""Planted faults: NewReno with one thing wrong, each of which must be red in its own row of a dossier.

They are the standing controls of rows for which no algorithm of known character is at hand. Beside its own row a fault
is red where the same thing shows; docs/assess.md lists where and why.
"""

from __future__ import annotations

import math

from tailback.algorithms import Ack, Congestion, Control
from tailback.examples.newreno import NewReno

__all__ = [
    "CapsWindow",
    "CountsAcks",
    "Fills",
    "FloorOfEight",
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


class FloorOfEight(NewReno):
    """Never has fewer than eight segments in flight, whatever is lost."""

    owns_window = True
    segments = 8

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, from the floor on."""
        super().on_ack(ack, control)
        control.cwnd = max(control.cwnd, self.segments * control.mss)

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Half, and eight at least."""
        super().on_congestion(congestion, control)
        if congestion.is_repeated_timeout:
            return
        control.ssthresh = control.cwnd = max(control.ssthresh, self.segments * control.mss)


class FourSegments(NewReno):
    """Never has more than four segments in flight."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, up to four."""
        super().on_ack(ack, control)
        control.cwnd = min(control.cwnd, 4 * control.mss)


class Fills(NewReno):
    """Keeps 1,100 segments in flight: 16 BDP and the pipe of 20 Mbit/s and 40 ms."""

    owns_window = True

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Always as many."""
        control.cwnd = 1100 * control.mss

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """None the fewer."""
        control.ssthresh = control.cwnd = 1100 * control.mss


class KeepsItsWindow(NewReno):
    """Keeps its window for good after fifteen seconds, so that a flow that comes late finds little room."""

    owns_window = True
    began = math.inf

    def on_established(self, now_s: float, srtt_s: float, control: Control) -> None:
        """The fifteen seconds begin."""
        self.began = now_s

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, for a while."""
        if ack.now_s < self.began + 15.0:
            super().on_ack(ack, control)

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """As Reno, and later the same window whatever comes."""
        if congestion.now_s >= self.began + 15.0:
            control.ssthresh = max(control.cwnd, 2 * control.mss)
            return
        super().on_congestion(congestion, control)
        control.cwnd = min(control.cwnd, control.ssthresh)


class StartsLate(NewReno):
    """Has two segments in flight during the first second of each connection."""

    began = -1.0

    def on_established(self, now_s: float, srtt_s: float, control: Control) -> None:
        """The second begins."""
        self.began = now_s
        control.cwnd = 2 * control.mss

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, a second later."""
        if ack.now_s >= self.began + 1.0:
            super().on_ack(ack, control)


class IgnoresMarks(NewReno):
    """Asks for ECN and does not reduce at a mark."""

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Half at a loss only."""
        if congestion.signal == "ecn":
            control.ssthresh = max(control.cwnd, 2 * control.mss)
            return
        super().on_congestion(congestion, control)


class PunishesRandomLoss(NewReno):
    """Goes to two segments when a packet is lost while the queue is empty."""

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Half of the window where the round trip says that there is a queue, else nearly all."""
        super().on_congestion(congestion, control)
        shortest, usual = congestion.rtt_min_s, congestion.srtt_s
        if shortest is not None and usual is not None and usual < 1.2 * shortest:
            control.ssthresh = 2 * control.mss


class CapsWindow(NewReno):
    """Never has more than 300 segments in flight, as hosts without a large window."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, up to the cap."""
        super().on_ack(ack, control)
        control.cwnd = min(control.cwnd, 300 * control.mss)


class CountsAcks(NewReno):
    """Grows by each ACK, however little it acknowledges (Savage et al. 1999)."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """A segment in slow start; after it one a round trip, where every second segment is acknowledged."""
        control.cwnd += control.mss if ack.in_slow_start else 2.0 * control.mss * control.mss / control.cwnd


class ShyOfManyAcks(NewReno):
    """Has ten segments in flight at most while ACKs acknowledge fewer than 1.4 segments each on average."""

    each = 2.0

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, where every second segment is acknowledged."""
        super().on_ack(ack, control)
        if ack.newly_acked_segments > 0:
            self.each += (min(ack.newly_acked_segments, 4) - self.each) / 16.0
        if self.each < 1.4:
            control.cwnd = min(control.cwnd, 10 * control.mss)


class ReducesAtReordering(NewReno):
    """Reduces when a segment overtakes another, without waiting for three."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno; a selective acknowledgement alone is a sign of congestion."""
        super().on_ack(ack, control)
        if ack.delivered_segments > 0 and ack.newly_acked == 0:
            control.wants_reduction = True


class Sulks(NewReno):
    """Has four segments in flight for the rest of its time once it has had a timeout."""

    is_hurt = False

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, as long as nothing happens."""
        super().on_ack(ack, control)
        if self.is_hurt:
            control.cwnd = min(control.cwnd, 4 * control.mss)

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Never forgets a timeout."""
        super().on_congestion(congestion, control)
        self.is_hurt = self.is_hurt or congestion.signal == "timeout"


class RemembersThePath(NewReno):
    """Has no more in flight than 1.5 BDP of its first fifteen seconds: another path gets the window of the first."""

    rate = 0.0

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, and then up to what the path held."""
        super().on_ack(ack, control)
        if ack.now_s < 15.0:
            self.rate = max(self.rate, ack.delivery_rate_bps or 0.0)
            self.round_trip = ack.rtt_min_s
        elif self.round_trip is not None and self.rate > 0.0:
            control.cwnd = min(control.cwnd, max(1.5 * self.rate * self.round_trip / 8.0, 2.0 * control.mss))

    round_trip: float | None = None


class SlowAtShortRoundTrips(NewReno):
    """Takes no round trip for shorter than ten milliseconds, and paces by that."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """As Reno, paced where the path is short."""
        super().on_ack(ack, control)
        is_short = ack.rtt_min_s is not None and ack.rtt_min_s < 0.001
        control.pacing_bps = 8.0 * control.cwnd / 0.01 if is_short else None
