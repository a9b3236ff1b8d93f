//! When to acknowledge: delayed ACKs, quick ACKs, and compression of duplicate ACKs.
//!
//! Sources: RFC 1122 section 4.2.3.2, RFC 5681 section 4.2; Linux `__tcp_ack_snd_check`, `tcp_cleanup_rbuf`, quick-ACK mode.

use super::{LEAST_FOR_GROWTH, Receiver};
use crate::tcp::rtt::RttEstimator;
use crate::tcp::segment::{Flags, Range, Segment};
use crate::tcp::stack::{AckOnPush, Stack};
use crate::time::{Duration, Time};

/// Limit on the ACKs that SACK compression holds back (Linux tcp_comp_sack_nr).
const MOST_COMPRESSED: u8 = 44;
/// Number of duplicate ACKs that are never held back, so that fast retransmit is not delayed.
const NEVER_COMPRESSED: u8 = 3;

/// When to acknowledge a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckWhen {
    /// Nothing to acknowledge.
    Never,
    /// At once.
    Now,
    /// When the delayed-ACK timer fires or another segment comes.
    Later,
}

/// State of delayed, quick and compressed ACKs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    /// Payload since the last ACK.
    pub unacknowledged: u64,
    /// Segments since the last ACK that make the reader send one.
    pub pushes: u8,
    /// Linux `pingpong`: this end sends data in response, so its ACK may travel with that data.
    pub is_answering: bool,
    pub last_received: Time,
    /// Number of ACKs still to be sent at once (quick-ACK mode).
    pub quick_acks: u32,
    /// Linux `inet_csk_ack_scheduled`: a segment has arrived since the last ACK. Kept only in quick-ACK mode.
    pub is_scheduled: bool,
    /// Segments joined by GRO since the last ACK.
    pub joined: u16,
    /// An ACK without the latest segment is still to be sent (Linux `tcp_sack_compress_send_ack`).
    pub flushes: bool,
    /// When the delayed ACK is due, exactly if its timer has no ticks and otherwise a lower bound, see [`Self::due`].
    /// [`Time::NEVER`]: none is waiting.
    pub due_at_least: Time,
    /// The last value of [`Self::due_at_least`], which an ACK does not clear: Linux lets the timer run on.
    pub runs_until: Time,
    /// Total delay of the last delayed ACK.
    pub wait: Duration,
    /// Linux `ato`: delay of the next delayed ACK, where it adapts; zero before the first data.
    pub timeout: Duration,
    /// When a pure ACK from before the window was last answered.
    pub answered: Time,
    /// SACK compression: duplicate ACKs sent since the cumulative ACK advanced, those held back, and when they are due.
    pub duplicates_sent: u8,
    pub compressed: u8,
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
            is_scheduled: false,
            joined: 0,
            flushes: false,
            wait: Duration::ZERO,
            timeout: Duration::ZERO,
            answered: Time::NEVER,
            due_at_least: Time::NEVER,
            runs_until: Time::ZERO,
            duplicates_sent: 0,
            compressed: 0,
            compressed_until: Time::NEVER,
        }
    }
}

impl Delay {
    /// When the delayed ACK is due. Costs two divisions, so it is not stored: the next segment usually arrives before
    /// then.
    pub fn due(&self, stack: &Stack) -> Time {
        if self.due_at_least == Time::NEVER || stack.delayed_ack_tick {
            return self.due_at_least;
        }
        stack.expiry(Time::from_ps(self.due_at_least.as_ps() - self.wait.as_ps()), self.wait)
    }

    /// When the delayed-ACK timer fires that no ACK has stopped. If ACKs are held back then, they leave (Linux
    /// `tcp_delack_timer_handler`).
    #[cold]
    fn stale(&self, stack: &Stack) -> Time {
        stack.expiry(Time::ZERO + self.runs_until.since(Time::ZERO).saturating_sub(self.wait), self.wait)
    }

    /// Linux `tcp_dec_quickack_mode`: an ACK leaves and uses up one quick ACK if a segment had arrived.
    #[inline]
    pub fn use_up_quick_ack(&mut self, stack: &Stack) {
        if self.quick_acks > 0 && self.is_scheduled {
            self.quick_acks -= 1;
            if self.quick_acks == 0 {
                self.timeout = stack.delayed_ack.unwrap_or(Duration::ZERO);
            }
        }
        self.is_scheduled = false;
    }

    /// The delayed-ACK timer fired and no data had left with the ACK (Linux `tcp_delack_timer_handler`).
    #[cold]
    pub fn on_missed(&mut self, rto: Duration, stack: &Stack) {
        if self.is_answering {
            self.timeout = stack.delayed_ack.unwrap_or(Duration::ZERO);
        } else {
            let most = stack.delayed_ack_bound.map_or(rto, |bound| bound.min(rto));
            self.timeout = (self.timeout * 2).min(most);
        }
        self.is_answering = false;
        self.due_at_least = Time::NEVER;
    }
}

impl Receiver {
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        length: u64,
        flags: Flags,
        now: Time,
        rtt: &RttEstimator,
        stack: &Stack,
    ) -> AckWhen {
        self.delay.unacknowledged += length;
        if stack.adapts_acks() {
            self.adapt(length, now, rtt, stack);
        } else {
            self.delay.last_received = now;
            if length >= LEAST_FOR_GROWTH && self.grow_window() {
                return AckWhen::Now;
            }
            if self.delay.quick_acks > 0 {
                self.delay.quick_acks -= 1;
                return AckWhen::Now;
            }
        }
        let Some(delay) = stack.delayed_ack else { return AckWhen::Now };
        if self.owes_more_than_one(stack) || self.is_quick() || self.is_asked_by_reader(length, flags, stack)
        {
            return AckWhen::Now;
        }
        self.delay_ack(delay, now, rtt, stack)
    }

    /// Linux `tcp_in_quickack_mode`.
    #[inline]
    pub(super) fn is_quick(&self) -> bool {
        self.delay.quick_acks > 0 && !self.delay.is_answering
    }

    /// Linux `tcp_event_data_recv`: the delayed ACK's time follows the gaps between segments, a gap longer than the
    /// timeout brings quick ACKs, and the window grows.
    #[inline]
    pub(super) fn adapt(&mut self, length: u64, now: Time, rtt: &RttEstimator, stack: &Stack) {
        let least = stack.delayed_ack.unwrap_or(Duration::ZERO);
        let is_usual =
            self.delay.timeout == least && now.since(self.delay.last_received.min(now)) <= least / 2;
        if !is_usual {
            self.adapt_timeout(least, now, rtt.timeout(stack), stack);
        }
        self.delay.last_received = now;
        self.delay.is_scheduled = true;
        self.answer_mark(stack);
        if length >= LEAST_FOR_GROWTH && self.grow_window() {
            // `tcp_grow_window` makes the count odd.
            self.delay.quick_acks |= 1;
        }
    }

    #[cold]
    fn adapt_timeout(&mut self, least: Duration, now: Time, rto: Duration, stack: &Stack) {
        let tick = stack.timer_tick.as_ps().max(1);
        let least_ticks = least.as_ps() / tick;
        let timeout = self.delay.timeout.as_ps() / tick;
        if timeout == 0 {
            self.delay.timeout = least;
            self.add_quick_acks(stack.quick_acks);
            return;
        }
        let gap = stack.tick_of(now).saturating_sub(stack.tick_of(self.delay.last_received));
        let next = if gap <= least_ticks / 2 {
            timeout / 2 + least_ticks / 2
        } else if gap < timeout {
            let most = stack.delayed_ack_bound.map_or(rto, |bound| bound.min(rto));
            (timeout / 2 + gap).min(most.as_ps() / tick)
        } else {
            if gap > rto.as_ps() / tick {
                self.add_quick_acks(stack.quick_acks);
            }
            timeout
        };
        self.delay.timeout = Duration::from_ps(next * tick);
    }

    /// Linux `tcp_incr_quickack`: the number of segments in half of the offered window, or two if that is zero; at most
    /// `most`.
    pub(super) fn add_quick_acks(&mut self, most: u32) {
        let window = self.offer.right_edge.saturating_sub(self.last_ack_sent);
        let half = window / (2 * u64::from(self.mss));
        let quick = if half == 0 { 2 } else { half.min(u64::from(u32::MAX)) as u32 };
        self.delay.quick_acks = self.delay.quick_acks.max(quick.min(most));
    }

    /// Linux `tcp_enter_quickack_mode`.
    #[cold]
    pub(super) fn enter_quick_mode(&mut self, most: u32, stack: &Stack) {
        self.add_quick_acks(most);
        self.delay.is_answering = false;
        self.delay.timeout = stack.delayed_ack.unwrap_or(Duration::ZERO);
    }

    /// Whether full segments in order change only the window and the time of the next ACK. See [`Self::take_steadily`].
    pub fn is_steady(&self) -> bool {
        self.lanes.trains
            && !self.has_seen_end()
            && self.reassembly.is_at_rest()
            && self.offer.reader.is_none()
            && self.delay.quick_acks == 0
            && self.delay.duplicates_sent == 0
            && self.delay.compressed_until == Time::NEVER
            && !self.owes_early_ack()
    }

    /// Whether this is the next segment in order, full, with a timestamp that is not older, and with no flags but ACK
    /// and PSH.
    #[inline(always)]
    pub fn is_next_full(&self, segment: &Segment) -> bool {
        segment.seq == self.next
            && segment.len == self.mss
            && segment.ts_val >= self.echo
            && segment.flags.with(Flags::PSH) == Flags::ACK.with(Flags::PSH)
    }

    /// As [`Self::on_segment`], for a segment and a receiver that satisfy [`Self::is_next_full`] and
    /// [`Self::is_steady`].
    #[inline(always)]
    pub fn take_steadily(
        &mut self,
        segment: &Segment,
        now: Time,
        rtt: &RttEstimator,
        stack: &Stack,
    ) -> AckWhen {
        if segment.seq <= self.last_ack_sent {
            self.echo = segment.ts_val;
        }
        let length = u64::from(segment.len);
        self.next += length;
        let when = self.decide_steadily(length, segment.flags, now, rtt, stack);
        if self.offer.tuning.is_some() {
            self.tune(segment, now, rtt.srtt(), stack);
        }
        when
    }

    #[inline(always)]
    fn decide_steadily(
        &mut self,
        length: u64,
        flags: Flags,
        now: Time,
        rtt: &RttEstimator,
        stack: &Stack,
    ) -> AckWhen {
        self.delay.unacknowledged += length;
        if stack.adapts_acks() {
            self.adapt(length, now, rtt, stack);
            if self.is_quick() {
                return AckWhen::Now;
            }
        } else {
            self.delay.last_received = now;
            if length >= LEAST_FOR_GROWTH && self.grow_window() {
                return AckWhen::Now;
            }
        }
        let is_pushed = flags != Flags::ACK;
        if self.owes_more_than_one(stack) || is_pushed && self.is_asked_by_reader(length, flags, stack) {
            return AckWhen::Now;
        }
        self.delay_ack(stack.delayed_ack.unwrap_or(Duration::ZERO), now, rtt, stack)
    }

    /// Linux `tcp_fin`: the connection is now in pingpong mode, so the ACK waits for this end's own FIN.
    #[cold]
    pub(super) fn on_fin(&mut self, length: u64, now: Time, rtt: &RttEstimator, stack: &Stack) -> AckWhen {
        self.delay.unacknowledged += length;
        if stack.adapts_acks() {
            self.delay.is_scheduled = true;
            // A lone FIN is not data: before the first data `ato` is 0, and the ACK leaves at the next jiffy.
            if length > 1 {
                self.adapt(length - 1, now, rtt, stack);
            }
        } else {
            self.delay.last_received = now;
        }
        match stack.delayed_ack {
            Some(delay) if stack.fin_ack_delayed && !self.owes_more_than_one(stack) => {
                self.delay.is_answering = true;
                self.delay_ack(delay, now, rtt, stack)
            }
            _ => AckWhen::Now,
        }
    }

    /// Whether more than `ack_every` − 1 full segments are unacknowledged; RFC 1122 sets `ack_every` to two.
    #[inline]
    pub(super) fn owes_more_than_one(&self, stack: &Stack) -> bool {
        self.delay.unacknowledged > u64::from(stack.ack_every.saturating_sub(1)) * u64::from(self.mss)
    }

    #[inline]
    pub(super) fn delay_ack(
        &mut self,
        delay: Duration,
        now: Time,
        rtt: &RttEstimator,
        stack: &Stack,
    ) -> AckWhen {
        if let Some(limit) = stack.delayed_ack_limit
            && (self.delay.timeout != delay || self.delay.due_at_least != Time::NEVER)
        {
            return self.delay_ack_by_timeout(limit, delay, now, rtt.srtt(), stack);
        }
        if self.delay.due_at_least == Time::NEVER {
            self.delay.wait = delay;
            self.delay.due_at_least = match stack.delayed_ack_tick {
                // BSD's fast timer fires on a grid, so the delay is anything up to one period.
                true => (now + Duration::from_ps(1)).ceil_to(delay),
                false => now + delay,
            };
            self.delay.runs_until = self.delay.due_at_least;
        }
        AckWhen::Later
    }

    /// Linux `tcp_send_delayed_ack`: the RTT bounds the timeout, an earlier deadline stays, and a deadline that is
    /// nearly reached sends the ACK now.
    #[cold]
    fn delay_ack_by_timeout(
        &mut self,
        limit: Duration,
        least: Duration,
        now: Time,
        srtt: Duration,
        stack: &Stack,
    ) -> AckWhen {
        let tick = stack.timer_tick.as_ps().max(1);
        let mut wait = self.delay.timeout;
        if wait > least && !srtt.is_zero() {
            wait = wait.min(Duration::from_ps(srtt.as_ps().div_ceil(tick) * tick).max(least));
        }
        wait = wait.min(limit);
        let (at, ticks) = (stack.tick_of(now), wait.as_ps() / tick);
        if self.delay.due_at_least != Time::NEVER {
            let began = Time::from_ps(self.delay.due_at_least.as_ps() - self.delay.wait.as_ps());
            let pending = stack.tick_of(began) + self.delay.wait.as_ps().div_ceil(tick);
            if pending <= at + ticks / 4 {
                return AckWhen::Now;
            }
            if pending <= at + ticks {
                return AckWhen::Later;
            }
        }
        (self.delay.wait, self.delay.due_at_least) = (wait, now + wait);
        self.delay.runs_until = self.delay.due_at_least;
        AckWhen::Later
    }

    /// Linux `tcp_cleanup_rbuf`: the application reads at once and has emptied the buffer, and a segment asked for an
    /// ACK. In pingpong mode this takes two such segments.
    #[inline]
    pub(super) fn is_asked_by_reader(&mut self, length: u64, flags: Flags, stack: &Stack) -> bool {
        let is_short = length < u64::from(self.mss);
        let asks = match stack.ack_on_push {
            AckOnPush::Never => false,
            AckOnPush::Short => is_short,
            AckOnPush::ShortOrPushed => is_short || flags.has(Flags::PSH),
        };
        self.delay.pushes = self.delay.pushes.saturating_add(u8::from(asks));
        asks && (!self.delay.is_answering || self.delay.pushes > 1)
    }

    /// GRO: TCP decides once for all segments that the host joins into one. An ACK that is due at once waits for the
    /// rest of its aggregate: up to `gro_segments` segments, up to `gro_wait`, or until a short or pushed segment ends
    /// it.
    #[cold]
    pub(super) fn join(&mut self, when: AckWhen, segment: &Segment, now: Time, stack: &Stack) -> AckWhen {
        self.delay.joined = self.delay.joined.saturating_add(1);
        let ends = segment.len < self.mss || segment.flags != Flags::ACK;
        if when != AckWhen::Now || ends || u32::from(self.delay.joined) >= stack.gro_segments {
            return when;
        }
        if self.delay.compressed_until == Time::NEVER {
            self.delay.compressed_until = now + stack.gro_wait;
        }
        AckWhen::Later
    }

    /// Linux `__tcp_ack_snd_check`: the ACK of a segment that filled a gap but left another is the first of the three
    /// that are never held back. It is none of them if it acknowledges more than a full segment and its window is not
    /// narrower.
    #[cold]
    pub(super) fn count_as_duplicate(&mut self, stack: &Stack) {
        let last = self.offer.right_edge.saturating_sub(self.last_ack_sent);
        let is_narrower = self.offer.as_announced(self.offer.offered.min(self.room_over_gaps())) < last;
        let filled_itself = self.next - self.last_ack_sent <= u64::from(self.mss);
        if (is_narrower || filled_itself)
            && !self.reassembly.ranges.is_empty()
            && !(stack.adapts_acks() && self.is_quick())
        {
            self.delay.duplicates_sent = 1;
        }
    }

    /// Linux `__tcp_ack_snd_check`: duplicate ACKs after the third are held back and merged, for a share of the RTT and
    /// at most `most`.
    pub(super) fn compress(&mut self, most: Duration, now: Time, srtt: Duration, stack: &Stack) -> AckWhen {
        let is_quick = if stack.adapts_acks() { self.is_quick() } else { self.delay.quick_acks > 0 };
        if is_quick || self.delay.compressed >= MOST_COMPRESSED {
            return AckWhen::Now;
        }
        if self.delay.duplicates_sent < NEVER_COMPRESSED {
            self.delay.duplicates_sent += 1;
            return AckWhen::Now;
        }
        // The smaller of two RTT estimates: this end's and that of receive-buffer tuning.
        let tuned = self.offer.tuning.as_ref().map_or(Duration::ZERO, |tuning| tuning.rtt());
        let rtt = [srtt, tuned].into_iter().filter(|rtt| !rtt.is_zero()).min().unwrap_or(Duration::ZERO);
        let share = rtt.as_ps() / 100 * u64::from(stack.sack_compression_share);
        let delay = most.min(Duration::from_ps(share)) + stack.sack_compression_slack;
        if delay.is_zero() {
            return AckWhen::Now;
        }
        self.delay.compressed += 1;
        if self.delay.compressed_until == Time::NEVER {
            self.delay.compressed_until = now + delay;
            let stale = self.delay.stale(stack);
            if stale > now {
                self.delay.compressed_until = stale.min(self.delay.compressed_until);
            }
        }
        AckWhen::Later
    }

    /// Linux `tcp_sack_compress_send_ack`: sends one ACK for all that were held back. It leaves before the latest
    /// segment, of `range`, becomes a SACK block, but after a block that this segment only extends has grown. That
    /// segment then has no ACK of its own.
    #[cold]
    pub(super) fn flush(&mut self, range: Range, stack: &Stack) {
        self.delay.compressed = 0;
        self.delay.compressed_until = Time::NEVER;
        self.delay.is_scheduled = true;
        self.delay.use_up_quick_ack(stack);
        self.delay.flushes = true;
        let it = &mut *self.reassembly;
        it.flushed = (it.recent, it.recent_count);
        let (blocks, count) = &mut it.flushed;
        let touches = |block: &&mut Range| block.start <= range.end && range.start <= block.end;
        if let Some(block) = blocks[..usize::from(*count)].iter_mut().find(touches) {
            *block = Range { start: block.start.min(range.start), end: block.end.max(range.end) };
        }
    }
}
