"""NewReno in Python: its trace equals the built-in `reno`'s bit for bit on a Linux stack (docs/own-algorithm.md)."""

from __future__ import annotations

from tailback.algorithms import Ack, Congestion, Control


class NewReno:
    """Slow start, one segment a round trip, and half on congestion (RFC 5681, as Linux counts)."""

    credit = 0

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grow by what was delivered; what slow start leaves counts towards congestion avoidance."""
        if not ack.may_grow:
            return
        room = -((control.cwnd - control.ssthresh) // ack.mss) if ack.in_slow_start else 0
        control.cwnd += min(ack.delivered_segments, room) * ack.mss
        acked = ack.delivered_segments - room
        if room and acked <= 0:
            return
        window = control.cwnd // ack.mss
        if self.credit >= window:
            self.credit, control.cwnd = 0, control.cwnd + ack.mss
        steps, self.credit = divmod(self.credit + acked, window)
        control.cwnd += steps * ack.mss

    def on_congestion(self, congestion: Congestion, control: Control) -> None:
        """Half the window, two segments at least; a repeated timeout is no further sign of congestion."""
        self.credit = 0
        if not congestion.is_repeated_timeout:
            control.ssthresh = max(control.cwnd // control.mss // 2, 2) * control.mss
