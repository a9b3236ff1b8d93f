import tailback as tb


class Threshold(tb.OwnQueue):
    """Drop at the head what has waited longer than `most_ms`."""

    def __init__(self, most_ms=20, **limits):
        super().__init__(**limits)
        self.most_s = most_ms / 1000

    def enqueue(self, packet, now):
        if not self.has_room(packet):
            return "drop"
        self.packets.append(packet)

    def dequeue(self, now):
        while len(self.packets) > 1 and now - self.packets[0].enqueued_s > self.most_s:
            self.packets.popleft().drop()
        return super().dequeue(now)
