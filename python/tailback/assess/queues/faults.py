"""Planted faults: a sound AQM in Python with one thing wrong, each of which must be red in its own row of a dossier.

`Sound` is CoDel (RFC 8289) with ECN. It has no fault, and is the proof that a red row is the fault's doing.
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
    """CoDel: once packets have waited longer than the target for an interval, drop or mark ever more often."""

    target_ms = 5.0
    burst_ms = 100.0
    drops_at_head = True
    interval_s = 0.1

    def __init__(self, limit_packets: int | None = 300, seed: int = 1) -> None:
        super().__init__(limit_packets=limit_packets)
        self.random = random.Random(seed)
        #: When the wait will have been above the target for an interval; None while it is below.
        self.late_from: float | None = None
        self.is_dropping = False
        self.next_drop, self.count, self.last_count = 0.0, 0, 0

    def is_late(self, packet: Packet, now: float) -> bool:
        """Has the wait been above the target for an interval?"""
        if now - packet.enqueued_s < self.target_ms / 1e3 or len(self.packets) < 2:
            self.late_from = None
            return False
        if self.late_from is None:
            self.late_from = now + self.interval_s
            return False
        return now >= self.late_from

    def signal(self, packet: Packet) -> bool:
        """Mark or drop the packet at the head; is it gone?"""
        if packet.is_ecn_capable:
            packet.mark()
            return False
        self.packets.popleft().drop()
        return True

    def spacing(self) -> float:
        """Time to the next signal."""
        return self.interval_s / math.sqrt(self.count)

    def dequeue(self, now: float) -> Packet | float | None:
        """By the control law of RFC 8289 section 5."""
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
        """Nothing that came less than 60 ms ago."""
        if self.packets and now < self.packets[0].enqueued_s + self.extra_s:
            return self.packets[0].enqueued_s + self.extra_s
        return super().dequeue(now)


class DropsRarely(Sound):
    """Never signals more often than five times a second."""

    def spacing(self) -> float:
        """At least 200 ms."""
        return max(super().spacing(), 0.2)


class TooEager(Sound):
    """Drops whatever finds two packets waiting."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Two wait at most."""
        return "drop" if len(self.packets) >= 2 else super().enqueue(packet, now)


class GivesUp(Sound):
    """Stops to signal where it would have to more than thirty times a second."""

    def spacing(self) -> float:
        """For good, beyond ten drops in a row."""
        return super().spacing() if self.count < 10 else 1e3


class NoAllowance(Sound):
    """Drops what has waited longer than the target, at once."""

    def is_late(self, packet: Packet, now: float) -> bool:
        """Without an interval."""
        return now - packet.enqueued_s >= self.target_ms / 1e3 and len(self.packets) > 1

    def spacing(self) -> float:
        """Each of them."""
        return 0.0


class StarvesOne(Sound):
    """Drops half of the packets of the scenario's first flow."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """A coin decides."""
        if packet.flow == 0 and self.random.random() < 0.5:
            return "drop"
        return super().enqueue(packet, now)


class StarvesOneApart(StarvesOne):
    """The same, and says that it keeps hosts and flows apart."""

    isolates = "hosts"


class SlowToAnswer(Sound):
    """Looks for twenty seconds before it signals."""

    interval_s = 20.0


class DropsTheTail(Sound):
    """Drops the packet that came last, behind all that waits."""

    def signal(self, packet: Packet) -> bool:
        """The newest goes."""
        if packet.is_ecn_capable:
            return super().signal(packet)
        self.packets.pop().drop()
        return True


class NeverMarks(Sound):
    """Drops what could be marked."""

    def signal(self, packet: Packet) -> bool:
        """Gone."""
        self.packets.popleft().drop()
        return True


class StarvesClassic(Sound):
    """Drops one in five of the packets that cannot be marked."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """A die decides."""
        if not packet.is_ecn_capable and self.random.random() < 0.2:
            return "drop"
        return super().enqueue(packet, now)


class PunishesBeginners(Sound):
    """Drops the packet with which a flow begins after a pause: a short transfer waits for a timeout."""

    pause_s = 0.09

    def __init__(self, limit_packets: int | None = 300, seed: int = 1) -> None:
        super().__init__(limit_packets, seed)
        #: By flow: when its last packet came, and whether that was dropped here.
        self.last: dict[int, tuple[float, bool]] = {}

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Its repetition, after the timeout, may pass."""
        before, was_dropped = self.last.get(packet.flow, (-1.0, False))
        begins = now - before > self.pause_s and not was_dropped
        self.last[packet.flow] = (now, begins)
        return "drop" if begins else super().enqueue(packet, now)


class DropsSmall(Sound):
    """Drops one small packet in twenty."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """Below 300 bytes."""
        if packet.bytes < 300 and self.random.random() < 0.05:
            return "drop"
        return super().enqueue(packet, now)


class ForgetsItsLimit(Sound):
    """Takes whatever comes."""

    def has_room(self, packet: Packet) -> bool:
        """Always."""
        return True


class LooksAtAll(Sound):
    """Adds up what waits at each arrival."""

    def enqueue(self, packet: Packet, now: float) -> str | None:
        """To no purpose."""
        total = 0
        for each in self.packets:
            total += each.bytes
        return super().enqueue(packet, now) if total >= 0 else "drop"
