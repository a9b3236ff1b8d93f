//! When to acknowledge: delayed and quick ACKs, and duplicate ACKs held back.
//!
//! Sources: RFC 1122 section 4.2.3.2, RFC 5681 section 4.2; Linux `__tcp_ack_snd_check`, `tcp_cleanup_rbuf`, quick-ACK mode.

use super::{LEAST_FOR_GROWTH, Receiver};
use crate::tcp::segment::{Flags, Segment};
use crate::tcp::stack::{AckOnPush, Stack};
use crate::time::{Duration, Time};

/// SACK compression holds back at most so many ACKs (Linux tcp_comp_sack_nr).
const MOST_COMPRESSED: u32 = 44;
/// Duplicate ACKs that always leave at once, so that fast retransmit is not delayed.
const NEVER_COMPRESSED: u32 = 3;

/// When the acknowledgement of a segment leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckWhen {
    /// Nothing to acknowledge.
    Never,
    /// At once.
    Now,
    /// When the delayed-ACK timer fires or another segment comes.
    Later,
}

/// What decides when the next ACK leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    /// Payload since the last ACK.
    pub unacknowledged: u64,
    /// Segments since the last ACK that ask the reader for one.
    pub pushes: u32,
    /// Linux `pingpong`: this end answers, so that its ACK may ride on the answer.
    pub is_answering: bool,
    pub last_received: Time,
    /// ACKs that leave at once.
    pub quick_acks: u32,
    /// When the delayed ACK is due, if its timer knows no ticks; else a little before, see [`Self::due`]. [`Time::NEVER`]:
    /// it does not wait.
    pub due_at_least: Time,
    /// SACK compression: duplicate ACKs sent since `next` last moved, held back since, and when they leave.
    pub duplicates_sent: u32,
    pub compressed: u32,
    pub compressed_until: Time,
}

impl Default for Delay {
    fn default() -> Self {
        Delay {
            unacknowledged: 0,
            pushes: 0,
            is_answering: false,
            last_received: Time::NEVER,
            quick_acks: 0,
            due_at_least: Time::NEVER,
            duplicates_sent: 0,
            compressed: 0,
            compressed_until: Time::NEVER,
        }
    }
}

impl Delay {
    /// When the delayed ACK is due, by two divisions: the next segment mostly comes before somebody has to know.
    pub fn due(&self, stack: &Stack) -> Time {
        match stack.delayed_ack {
            Some(delay) if self.due_at_least != Time::NEVER && !stack.delayed_ack_tick => {
                stack.expiry(Time::from_ps(self.due_at_least.as_ps() - delay.as_ps()), delay)
            }
            _ => self.due_at_least,
        }
    }
}

impl Receiver {
    #[inline(always)]
    pub(super) fn decide(&mut self, length: u64, flags: Flags, now: Time, stack: &Stack) -> AckWhen {
        self.delay.unacknowledged += length;
        self.delay.last_received = now;
        if length >= LEAST_FOR_GROWTH && self.grow_window() {
            return AckWhen::Now;
        }
        let Some(delay) = stack.delayed_ack else { return AckWhen::Now };
        if self.delay.quick_acks > 0 {
            self.delay.quick_acks -= 1;
            return AckWhen::Now;
        }
        if self.owes_more_than_one(stack) || self.is_asked_by_reader(length, flags, stack) {
            return AckWhen::Now;
        }
        self.delay_ack(delay, now, stack)
    }

    /// Do full segments in order change nothing but the window and when the next ACK leaves? See [`Self::take_steadily`].
    pub fn is_steady(&self, stack: &Stack) -> bool {
        self.is_honest
            && !self.has_seen_end()
            && self.reassembly.is_at_rest()
            && self.offer.reader.is_none()
            && self.delay.quick_acks == 0
            && self.delay.duplicates_sent == 0
            && self.delay.compressed_until == Time::NEVER
            && !self.owes_early_ack()
            && !stack.speaks_ecn()
            && !stack.delayed_ack_tick
    }

    /// Is it the next segment, full, with nothing in its header but ACK, and perhaps PSH?
    #[inline(always)]
    pub fn is_next_full(&self, segment: &Segment) -> bool {
        segment.seq == self.next
            && segment.len == self.mss
            && segment.flags.with(Flags::PSH) == Flags::ACK.with(Flags::PSH)
    }

    /// What [`Self::on_segment`] does of such a segment at such a receiver.
    #[inline(always)]
    pub fn take_steadily(&mut self, segment: &Segment, now: Time, srtt: Duration, stack: &Stack) -> AckWhen {
        if segment.seq <= self.last_ack_sent {
            self.echo = segment.ts_val;
        }
        let length = u64::from(segment.len);
        self.next += length;
        if self.offer.tuning.is_some() {
            self.tune(segment, now, srtt);
        }
        self.delay.unacknowledged += length;
        self.delay.last_received = now;
        if length >= LEAST_FOR_GROWTH && self.grow_window() {
            return AckWhen::Now;
        }
        let is_pushed = segment.flags != Flags::ACK;
        if self.owes_more_than_one(stack)
            || is_pushed && self.is_asked_by_reader(length, segment.flags, stack)
        {
            return AckWhen::Now;
        }
        self.delay_ack(stack.delayed_ack.unwrap_or(Duration::ZERO), now, stack)
    }

    /// Linux `tcp_fin`: the connection answers from now on, so the acknowledgement waits for this end's own FIN.
    #[cold]
    pub(super) fn on_fin(&mut self, length: u64, now: Time, stack: &Stack) -> AckWhen {
        self.delay.unacknowledged += length;
        self.delay.last_received = now;
        match stack.delayed_ack {
            Some(delay) if stack.fin_ack_delayed && !self.owes_more_than_one(stack) => {
                self.delay.is_answering = true;
                self.delay_ack(delay, now, stack)
            }
            _ => AckWhen::Now,
        }
    }

    /// More than one full segment since the last ACK; `ack_every` generalises the two of RFC 1122.
    #[inline]
    pub(super) fn owes_more_than_one(&self, stack: &Stack) -> bool {
        self.delay.unacknowledged > u64::from(stack.ack_every.saturating_sub(1)) * u64::from(self.mss)
    }

    #[inline]
    pub(super) fn delay_ack(&mut self, delay: Duration, now: Time, stack: &Stack) -> AckWhen {
        if self.delay.due_at_least == Time::NEVER {
            self.delay.due_at_least = match stack.delayed_ack_tick {
                // BSD's fast timer fires on a grid, so the delay is anything up to one period.
                true => (now + Duration::from_ps(1)).ceil_to(delay),
                false => now + delay,
            };
        }
        AckWhen::Later
    }

    /// Linux `tcp_cleanup_rbuf`: the application, which reads at once, has emptied the buffer, and a segment asked
    /// for an acknowledgement; while this end answers it takes two.
    #[inline]
    pub(super) fn is_asked_by_reader(&mut self, length: u64, flags: Flags, stack: &Stack) -> bool {
        let is_short = length < u64::from(self.mss);
        let asks = match stack.ack_on_push {
            AckOnPush::Never => false,
            AckOnPush::Short => is_short,
            AckOnPush::ShortOrPushed => is_short || flags.has(Flags::PSH),
        };
        self.delay.pushes += u32::from(asks);
        asks && (!self.delay.is_answering || self.delay.pushes > 1)
    }

    /// Linux `__tcp_ack_snd_check`: after the third duplicate ACK the next ones wait for each other, a
    /// twentieth of the round trip and at most `most`.
    pub(super) fn compress(&mut self, most: Duration, now: Time, srtt: Duration) -> AckWhen {
        if self.delay.quick_acks > 0 || self.delay.compressed >= MOST_COMPRESSED {
            return AckWhen::Now;
        }
        if self.delay.duplicates_sent < NEVER_COMPRESSED {
            self.delay.duplicates_sent += 1;
            return AckWhen::Now;
        }
        let delay = most.min(srtt / 20);
        if delay.is_zero() {
            return AckWhen::Now;
        }
        self.delay.compressed += 1;
        if self.delay.compressed_until == Time::NEVER {
            self.delay.compressed_until = now + delay;
        }
        AckWhen::Later
    }
}
