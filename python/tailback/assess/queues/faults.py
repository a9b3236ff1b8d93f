"""Planted faults: a sound AQM in Python with one defect each, which must fail the dossier's row for it.

`Sound` is CoDel (RFC 8289) with ECN. It has no defect, which shows that a failed row is due to the planted fault.
"""

from __future__ import annotations

import math
import random

from tailback.queues import OwnQueue, Packet

__all__ = [
    "DelaysEverything",
    "DropsRarely",
    "DropsSmall",
    "DropsTheTail",
    "ForgetsItsLimit",
    "GivesUp",
    "LooksAtAll",
    "NeverMarks",
    "NoAllowance",
    "PunishesBeginners",
    "SlowToAnswer",
    "Sound",
    "StarvesClassic",
    "StarvesOne",
    "StarvesOneApart",
    "TooEager",
]


class Sound(OwnQueue):
    """CoDel: once packets have waited longer than the target for an interval, it drops or marks ever more often."""

    target_ms = 5.0
    burst_ms = 100.0
    drops_at_head = True
    interval_s = 0.1

    def __init__(self, limit_packets: int | None = 300, seed: int = 1) -> None:
        super().__init__(limit_packets=limit_packets)
        self.random = random.Random(seed)
        #: Time at which the wait will have been above the target for a full interval; None while it is below.
        self.late_from: float | None = None
        self.is_dropping = False
        self.next_drop, self.count, self.last_count = 0.0, 0, 0

    def is_late(self, packet: Packet, now: float) -> bool:
        """Whether the wait has been above the target for a full interval."""
        if now - packet.enqueued_s < self.target_ms / 1e3 or len(self.packets) < 2:
            self.late_from = None
            return False
        if self.late_from is None:
            self.late_from = now + self.interval_s
            return False
        return now >= self.late_from

    def signal(self, packet: Packet) -> bool:
        """Mark or drop the packet at the head; returns whether it was dropped."""
        if packet.is_ecn_capable:
            packet.mark()
            return False
        self.packets.popleft().drop()
        return True

    def spacing(self) -> float:
        """Seconds to the next signal."""
        return self.interval_s / math.sqrt(self.count)

    def dequeue(self, now: float) -> Packet | float | None:
        """Apply the control law of RFC 8289 section 5, then dequeue."""
        while self.packets and self.is_late(self.packets[0], now):
            if not self.is_dropping:
                self.is_dropping = True
                recent = now - self.next_drop < 16.0 * self.interval_s
                delta = self.count - self.last_count
                self.count = delta if delta > 1 and recent else 1
                self.last_count = self.count
                self.next_drop = now
            if now < self.next_drop:
                break
            self.next_drop += self.spacing()
            self.count += 1
            if not self.signal(self.packets[0]):
                break
        else:
            self.is_dropping = False
        return super().dequeue(now)


class DelaysEverything(Sound):
    """Holds each packet for 60 ms."""

    holds_back = True
    extra_s = 0.06

    def dequeue(self, now: float) -> Packet | float | None:
        """Return no packet before it has waited 60 ms."""
        if self.packets and now < self.packets[0].enqueued_s + self.extra_s:
            return self.packets[0].enqueued_s + self.extra_s
        return super().dequeue(now)


class DropsRarely(Sound):
    """Never signals more often than five times a second."""

    def spacing(self) -> float:
        """At least 200 ms between signals."""
        return max(super().spacing(), 0.2)


class TooEager(Sound):
    """Drops every packet that arrives while two packets are waiting."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Admit at most two packets."""
        return "drop" if len(self.packets) >= 2 else super().enqueue(packet, now)


class GivesUp(Sound):
    """Stops signalling once it would have to signal more than thirty times a second."""

    def spacing(self) -> float:
        """Infinite after ten drops in a row."""
        return super().spacing() if self.count < 10 else 1e3


class NoAllowance(Sound):
    """Drops every packet that has waited longer than the target, without waiting for an interval."""

    def is_late(self, packet: Packet, now: float) -> bool:
        """Whether the wait is above the target, without the interval."""
        return now - packet.enqueued_s >= self.target_ms / 1e3 and len(self.packets) > 1

    def spacing(self) -> float:
        """Zero: signal on every late packet."""
        return 0.0


class StarvesOne(Sound):
    """Drops half of the packets of the scenario's first flow, at random."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Drop the first flow's packets with probability 1/2."""
        if packet.flow == 0 and self.random.random() < 0.5:
            return "drop"
        return super().enqueue(packet, now)


class StarvesOneApart(StarvesOne):
    """`StarvesOne` that declares to isolate hosts and flows."""

    isolates = "hosts"


class SlowToAnswer(Sound):
    """Waits for twenty seconds of excess delay before it signals."""

    interval_s = 20.0


class DropsTheTail(Sound):
    """Drops the newest packet, at the tail, instead of the one at the head."""

    def signal(self, packet: Packet) -> bool:
        """Drop the newest packet."""
        if packet.is_ecn_capable:
            return super().signal(packet)
        self.packets.pop().drop()
        return True


class NeverMarks(Sound):
    """Drops packets that it could mark."""

    def signal(self, packet: Packet) -> bool:
        """Drop the packet, ECN-capable or not."""
        self.packets.popleft().drop()
        return True


class StarvesClassic(Sound):
    """Drops one in five of the packets that are not ECN-capable."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Drop a packet that is not ECN-capable with probability 1/5."""
        if not packet.is_ecn_capable and self.random.random() < 0.2:
            return "drop"
        return super().enqueue(packet, now)


class PunishesBeginners(Sound):
    """Drops a flow's first packet after a pause, so that a short transfer waits for a timeout."""

    pause_s = 0.09

    def __init__(self, limit_packets: int | None = 300, seed: int = 1) -> None:
        super().__init__(limit_packets, seed)
        #: By flow: arrival time of its last packet, and whether that packet was dropped here.
        self.last: dict[int, tuple[float, bool]] = {}

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Drop a flow's first packet after a pause, but not its retransmission."""
        before, was_dropped = self.last.get(packet.flow, (-1.0, False))
        begins = now - before > self.pause_s and not was_dropped
        self.last[packet.flow] = (now, begins)
        return "drop" if begins else super().enqueue(packet, now)


class DropsSmall(Sound):
    """Drops one small packet in twenty."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Drop packets below 300 bytes with probability 1/20."""
        if packet.bytes < 300 and self.random.random() < 0.05:
            return "drop"
        return super().enqueue(packet, now)


class ForgetsItsLimit(Sound):
    """Admits every packet, whatever the limit."""

    def has_room(self, packet: Packet) -> bool:
        """Always true."""
        return True


class LooksAtAll(Sound):
    """Walks the whole queue at each arrival."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Sum the sizes of all waiting packets, without need."""
        total = 0
        for each in self.packets:
            total += each.bytes
        return super().enqueue(packet, now) if total >= 0 else "drop"
