//! An application that reads slowly: unread data closes the window.
//!
//! Law: it reads at a constant rate whatever has arrived in order. Sources: RFC 9293 section 3.8.6.2.2 (the right edge
//! moves by at least a segment or half the buffer), Linux `tcp_cleanup_rbuf` (an unsolicited window update leaves once
//! the window can double).
//!
//! Differs from the sources: the reader's calls have no size, so an ACK that Linux leaves to the next call because its
//! window would not be wider leaves at once. One rule serves every stack but Linux 6 and later (FreeBSD sends updates
//! of two segments or a quarter of the buffer). Unread data reduces the window by its payload; Linux counts memory
//! (truesize) and so buffers some 25 % more at 1448 bytes a segment.

use crate::time::{Bytes, Duration, Rate, Time};

/// Reader of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reader {
    rate: Rate,
    // Time and offset at which the current uninterrupted reading began.
    since: Time,
    from: u64,
    /// When the next window update is due, unless another segment carries it earlier.
    pub update_at: Time,
}

impl Reader {
    pub fn new(rate: Rate) -> Self {
        Reader { rate, since: Time::ZERO, from: 0, update_at: Time::NEVER }
    }

    /// Unread bytes of the stream up to `next`.
    fn unread(&self, next: u64, now: Time) -> Bytes {
        (next - self.from).saturating_sub(self.rate.bytes_in(now.since(self.since)))
    }

    /// Data has arrived up to `next`. A reader that had read everything starts again now.
    pub fn on_arrival(&mut self, prior_next: u64, now: Time) {
        if self.unread(prior_next, now) == 0 {
            (self.since, self.from) = (now, prior_next);
        }
    }

    /// The right edge to offer at `now`, given the buffer's state.
    pub fn edge(&self, buffer: Buffer, now: Time) -> u64 {
        let free = buffer.capacity.saturating_sub(self.unread(buffer.next, now));
        if free < buffer.least && free < buffer.capacity / 2 {
            return buffer.edge;
        }
        let room = free.min(buffer.offered);
        let wider = buffer.next + room;
        if wider >= buffer.edge + buffer.step { wider } else { buffer.edge }
    }

    /// Schedules the next window update: when the window can double and move by at least one step.
    pub fn plan(&mut self, buffer: Buffer, now: Time) {
        let window = buffer.edge.saturating_sub(buffer.next);
        let wanted = (window + window.max(buffer.step)).max(buffer.least);
        self.update_at = match buffer.offered.min(buffer.capacity) >= wanted {
            // By then all but `wanted` bytes of the buffer must be read; the time is rounded up to be sure.
            true => {
                let read = (buffer.next + wanted).saturating_sub(buffer.capacity).saturating_sub(self.from);
                (self.since + self.rate.time_for(read)).max(now) + Duration::from_ps(1)
            }
            false => Time::NEVER,
        };
    }
}

/// The receiver's buffer, as far as it determines the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Buffer {
    /// Offset up to which data has arrived in order.
    pub next: u64,
    /// The right edge offered so far.
    pub edge: u64,
    /// The largest window that the stack offers now.
    pub offered: Bytes,
    /// The largest window that the buffer allows.
    pub capacity: Bytes,
    /// Smallest move of the right edge.
    pub step: Bytes,
    /// The window closes when less than this is free (Linux); 0: it does not close.
    pub least: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    #[test]
    fn a_full_window_opens_when_a_segment_was_read() {
        // 1 MB/s: a segment of 1000 bytes a millisecond.
        let mut reader = Reader::new(Rate::from_bps(8_000_000));
        reader.on_arrival(0, Time::from_ms(5));
        let buffer =
            Buffer { next: 10_000, edge: 10_000, offered: 10_000, capacity: 10_000, step: 1000, least: 0 };
        let edge = |now_ps| reader.edge(buffer, Time::from_ps(now_ps));
        assert_eq!(edge(5 * MS), 10_000);
        assert_eq!(edge(6 * MS - 1), 10_000, "999 bytes are no step");
        assert_eq!(edge(6 * MS), 11_000);
        assert_eq!(edge(9 * MS), 14_000);
        // A closed window is updated after a step, one of 2000 bytes at 4000, and one of 6000 cannot double.
        for (edge, update_at) in
            [(10_000, Time::from_ps(6 * MS + 1)), (12_000, Time::from_ps(9 * MS + 1)), (16_000, Time::NEVER)]
        {
            let mut reader = reader;
            reader.plan(Buffer { edge, ..buffer }, Time::from_ms(5));
            assert_eq!(reader.update_at, update_at);
        }
    }

    #[test]
    fn linux_closes_the_window_below_a_sixteenth_and_then_counts_each_grain() {
        let mut reader = Reader::new(Rate::from_bps(8_000_000));
        reader.on_arrival(0, Time::ZERO);
        let buffer =
            Buffer { next: 64_000, edge: 64_000, offered: 64_000, capacity: 64_000, step: 64, least: 4_000 };
        let edge = |ms| reader.edge(buffer, Time::from_ms(ms));
        assert_eq!((edge(3), edge(4), edge(5)), (64_000, 68_000, 69_000));
        reader.plan(buffer, Time::ZERO);
        assert_eq!(reader.update_at, Time::from_ps(4 * MS + 1));
        // What is left of a window of 3000 may double, but not before a sixteenth is free.
        reader.plan(Buffer { edge: 65_000, ..buffer }, Time::ZERO);
        assert_eq!(reader.update_at, Time::from_ps(4 * MS + 1));
    }

    #[test]
    fn a_reader_that_waits_saves_nothing_up() {
        let mut reader = Reader::new(Rate::from_bps(8_000_000));
        reader.on_arrival(0, Time::ZERO);
        assert_eq!(reader.unread(3000, Time::from_ms(2)), 1000);
        reader.on_arrival(3000, Time::from_ms(100));
        assert_eq!(reader.unread(5000, Time::from_ms(100)), 2000);
        assert_eq!(reader.unread(5000, Time::from_ms(101)), 1000);
    }
}
