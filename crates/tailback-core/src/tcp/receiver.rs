//! The receiving half: takes segments, and fills in the acknowledgement fields of outgoing ones.
//!
//! This file holds the state. Its modules: `reassembly` (out-of-order data, SACK blocks), `delay` (when to
//! acknowledge), `offer` (the window), `reader` (an application that reads slowly), `ecn`, `claims` (false
//! acknowledgements of a misbehaving receiver).
//!
//! Sources: RFC 9293 section 3.10.7.4, RFC 7323 section 4.3 (which timestamp to echo).

mod claims;
mod delay;
mod ecn;
mod offer;
mod reader;
mod reassembly;
#[cfg(test)]
mod tests;

use std::slice::from_ref;

pub use delay::AckWhen;
pub use ecn::EarlyAck;
use prefetch_index::prefetch_index;

use crate::tcp::cold::ColdState;
use crate::tcp::rtt::RttEstimator;
use crate::tcp::segment::{Flags, Range, Segment};
use crate::tcp::stack::{Lanes, Stack};
use crate::time::{Bytes, Duration, Time};

/// Segments shorter than this do not widen the window (Linux `tcp_event_data_recv`).
const LEAST_FOR_GROWTH: u64 = 128;

/// The receiving half of a connection; fields in order of use.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Receiver {
    next: u64,
    // One past the FIN, once a FIN was seen anywhere.
    fin_end: u64,
    last_ack_sent: u64,
    echo: Time,
    mss: u32,
    lanes: Lanes,
    ecn: ecn::Echo,
    delay: delay::Delay,
    offer: offer::Offer,
    reassembly: ColdState<reassembly::Reassembly>,
    claims: claims::Claims,
}

impl Receiver {
    /// `buffer`: the receive buffer, of which the stack offers its share; `mss`: payload of a full segment.
    pub fn new(stack: &Stack, buffer: Bytes, mss: u32) -> Self {
        Receiver {
            next: 0,
            mss,
            fin_end: u64::MAX,
            last_ack_sent: 0,
            echo: Time::NEVER,
            delay: delay::Delay {
                // With an adaptive delayed-ACK timeout, the first data enters quick-ACK mode.
                quick_acks: if stack.adapts_acks() { 0 } else { stack.quick_acks },
                ..Default::default()
            },
            offer: offer::Offer::new(stack, buffer, mss),
            ecn: Default::default(),
            reassembly: Default::default(),
            lanes: stack.lanes(),
            claims: Default::default(),
        }
    }

    /// See [`super::endpoint::Endpoint::fetch`].
    #[inline]
    pub fn fetch(&self) {
        for field in [&self.next, &self.delay.unacknowledged, &self.offer.right_edge] {
            prefetch_index(from_ref(field), 0);
        }
    }
    /// The next offset expected.
    pub fn next(&self) -> u64 {
        self.next
    }
    /// Payload received in order.
    pub fn delivered(&self) -> Bytes {
        self.next - u64::from(self.is_finished()) - self.claims.skipped
    }
    /// Payload received, in order or not, each byte counted once.
    pub fn arrived(&self) -> Bytes {
        let waiting: u64 = self.reassembly.ranges.iter().map(|(held, _)| held.end - held.start).sum();
        // The FIN has a sequence number and is no payload.
        let has_fin = self.reassembly.ranges.back().is_some_and(|(held, _)| held.end >= self.fin_end);
        self.delivered() + waiting - u64::from(has_fin)
    }
    /// True once the FIN has been received in order.
    pub fn is_finished(&self) -> bool {
        self.next >= self.fin_end
    }
    /// Whether a FIN has arrived, in order or not.
    #[inline(always)]
    pub fn has_seen_end(&self) -> bool {
        self.fin_end != u64::MAX
    }
    /// Segments waiting for a gap to fill.
    pub fn reassembly_segments(&self) -> u32 {
        self.reassembly.segments
    }
    /// When the delayed ACK or the window update is due, or [`Time::NEVER`].
    pub fn ack_deadline(&self, stack: &Stack) -> Time {
        self.due_by(self.delay.due(stack))
    }
    /// A lower bound on [`Self::ack_deadline`] that is cheaper to compute.
    #[inline(always)]
    pub fn ack_deadline_at_least(&self) -> Time {
        self.due_by(self.delay.due_at_least)
    }
    /// The deadline, given that the delayed ACK is due at `delayed`.
    #[inline(always)]
    fn due_by(&self, delayed: Time) -> Time {
        let due = delayed.min(self.delay.compressed_until);
        self.offer.reader.as_ref().map_or(due, |reader| due.min(reader.update_at))
    }
    /// Whether it acknowledges what has arrived, once, and nothing else.
    #[inline]
    pub fn is_honest(&self) -> bool {
        self.lanes.honest
    }
    /// Whether consecutive outgoing segments carry the same acknowledgement fields, if nothing arrives in between.
    #[inline]
    pub fn acknowledges_alike(&self) -> bool {
        self.lanes.honest && self.offer.reader.is_none() && !self.owes_early_ack()
    }
    /// The timestamp to echo.
    pub fn echo(&self) -> Time {
        self.echo
    }

    /// Takes the timestamp to echo from the peer's SYN.
    pub fn on_syn(&mut self, segment: &Segment) {
        self.echo = segment.ts_val;
    }

    /// Whether the segment's timestamp is so old that its sequence number may have wrapped (PAWS, RFC 7323 section
    /// 5.2). A recent segment that a retransmission has overtaken looks the same.
    #[cold]
    pub fn is_from_before(&self, segment: &Segment, stack: &Stack) -> bool {
        let Some(slack) = stack.paws.filter(|_| stack.timestamps && self.echo != Time::NEVER) else {
            return false;
        };
        match stack.timestamp_tick.as_ps() {
            0 => segment.ts_val < self.echo,
            tick => self.echo.as_ps() / tick > segment.ts_val.as_ps() / tick + u64::from(slack),
        }
    }

    /// Discards a segment that PAWS refuses. Returns whether to answer it (RFC 7323 section 5.3 (R1); Linux
    /// `tcp_send_dupack`). FreeBSD answers only data.
    #[cold]
    pub fn refuse(&mut self, segment: &Segment, now: Time, stack: &Stack) -> bool {
        let length = segment.sequence_length();
        if length == 0 {
            return stack.probe_answers.is_some() && self.may_answer(now, stack);
        }
        if segment.seq < self.next && stack.adapts_acks() {
            self.enter_quick_mode(stack.quick_acks, stack);
            if stack.dsack {
                let end = self.next.min(segment.seq + length);
                self.reassembly.duplicate = Some(Range { start: segment.seq, end });
            }
        }
        true
    }

    /// Renews the timestamp to echo from a segment of this length that covers the last ACK sent, unless it is older (RFC
    /// 7323 section 4.3 (2)). So a delayed ACK echoes the earlier of its two segments. Old data lies outside the window
    /// and renews nothing (section 5.3 R2; Linux `tcp_sequence`). Otherwise an unneeded retransmission would make the
    /// segments that it overtook look old.
    #[inline(always)]
    fn renew_echo(&mut self, segment: &Segment, length: u64, stack: &Stack) {
        let covers = segment.seq <= self.last_ack_sent && self.last_ack_sent <= segment.seq + length;
        if covers && (segment.ts_val >= self.echo || self.echo == Time::NEVER || stack.paws.is_none()) {
            self.echo = segment.ts_val;
        }
    }

    /// Takes a segment that carries data or a FIN; `rtt` is this end's estimate. Returns when to acknowledge it.
    #[inline(always)]
    pub fn on_segment(&mut self, segment: &Segment, now: Time, rtt: &RttEstimator, stack: &Stack) -> AckWhen {
        let length = segment.sequence_length();
        if length == 0 {
            // Pure ACKs are echoed too.
            if segment.ts_val != Time::NEVER {
                self.renew_echo(segment, length, stack);
            }
            // RFC 9293 section 3.10.7.4: a segment below the window is answered, whether it is old data or a window
            // probe.
            let is_old = segment.seq.wrapping_add(1) <= self.last_ack_sent;
            return if is_old && self.may_answer(now, stack) { AckWhen::Now } else { AckWhen::Never };
        }
        let (next, duplicates) = (self.next, self.delay.duplicates_sent);
        let mark_changed = stack.speaks_ecn() && self.take_mark(segment, stack);
        let when = self.take_data(segment, length, now, rtt, stack);
        if !mark_changed {
            return when;
        }
        if stack.adapts_acks() {
            // Linux `__tcp_ack_snd_check`: an ACK that must leave at once is none of the three duplicates.
            self.delay.duplicates_sent = if self.next > next { 0 } else { duplicates };
        }
        // RFC 8257 section 3.2: a change of the mark is reported at once; RFC 9768 has its own rule.
        if when == AckWhen::Later { AckWhen::Now } else { when }
    }

    #[inline(always)]
    fn take_data(
        &mut self,
        segment: &Segment,
        length: u64,
        now: Time,
        rtt: &RttEstimator,
        stack: &Stack,
    ) -> AckWhen {
        let range = Range { start: segment.seq, end: segment.seq + length };
        if segment.flags.has(Flags::FIN) {
            self.fin_end = range.end;
        }
        self.renew_echo(segment, length, stack);
        if stack.adapts_acks() && !self.reassembly.is_at_rest() {
            // tcp_data_queue forgets a duplicate that no ACK has reported.
            self.reassembly.duplicate = None;
        }
        if range.end <= self.next || range.start >= self.offer.right_edge.max(self.next + 1) {
            if range.end <= self.next && stack.dsack {
                self.reassembly.duplicate = Some(range);
            }
            if stack.adapts_acks() {
                if range.start <= self.offer.right_edge {
                    self.enter_quick_mode(stack.quick_acks, stack);
                    // What ends before the last ACK is answered without having been scheduled (`tcp_send_dupack`), and
                    // its ACK then uses up no quick ACK.
                    self.delay.is_scheduled |= self.last_ack_sent <= range.end;
                }
                return AckWhen::Now;
            }
            self.delay.quick_acks = self.delay.quick_acks.max(stack.quick_acks);
            self.delay.is_answering = false;
            return AckWhen::Now;
        }
        if range.start > self.next {
            if stack.acks_ahead == 0 {
                self.sample_rtt(segment, now, stack);
                return self.on_out_of_order(range, now, rtt.srtt(), stack);
            }
            self.give_up(range.start);
        }
        if range.start < self.next && stack.dsack {
            self.reassembly.duplicate = Some(Range { start: range.start, end: self.next });
        }
        // In order, perhaps filling a gap.
        let had_gap = !self.reassembly.is_at_rest() && !self.reassembly.ranges.is_empty();
        if had_gap && stack.dsack {
            // It begins before all held ranges.
            self.reassembly.note_overlap(range, 0);
        }
        self.delay.duplicates_sent = 0;
        let prior_next = self.next;
        self.advance_to(range.end);
        if self.offer.reader.is_some() {
            self.on_unread(prior_next, now);
        }
        if self.is_finished() && stack.fin_ack_delayed && !self.reassembly.is_at_rest() {
            // tcp_fin resets SACK: a duplicate that came with the FIN is forgotten.
            self.reassembly.duplicate = None;
        }
        let when = self.decide_in_order(had_gap, segment, length, now, rtt, stack);
        if self.offer.tuning.is_some() {
            // tcp_rcv_space_adjust: the application reads after TCP has decided on the ACK.
            self.tune(segment, now, rtt.srtt(), stack);
        }
        when
    }

    #[inline(always)]
    fn decide_in_order(
        &mut self,
        had_gap: bool,
        segment: &Segment,
        length: u64,
        now: Time,
        rtt: &RttEstimator,
        stack: &Stack,
    ) -> AckWhen {
        if had_gap {
            if stack.adapts_acks() {
                self.adapt(length, now, rtt, stack);
            } else if length >= LEAST_FOR_GROWTH {
                self.grow_window();
            }
            self.count_as_duplicate(stack);
            // RFC 5681 section 4.2: at once when the segment fills all or part of a gap.
            return AckWhen::Now;
        }
        if segment.flags.has(Flags::FIN) {
            return self.on_fin(length, now, rtt, stack);
        }
        let when = self.decide(length, segment.flags, now, rtt, stack);
        if stack.gro_segments > 1 { self.join(when, segment, now, stack) } else { when }
    }

    /// Whether to answer a pure ACK from before the window: not if one was answered recently (Linux
    /// `tcp_oow_rate_limited`).
    #[cold]
    fn may_answer(&mut self, now: Time, stack: &Stack) -> bool {
        let Some(every) = stack.probe_answers else { return true };
        if self.delay.answered != Time::NEVER && now.since(self.delay.answered) < every {
            return false;
        }
        self.delay.answered = now;
        true
    }

    /// Handles the delayed-ACK timer. Returns true if the ACK is due.
    pub fn on_timer(&mut self, now: Time, rtt: &RttEstimator, stack: &Stack) -> bool {
        let is_due = now >= self.ack_deadline(stack);
        if now >= self.delay.due(stack) {
            if stack.adapts_acks() {
                self.delay.on_missed(rtt.timeout(stack), stack);
            }
            // The ACK found no outgoing data to travel with (Linux `tcp_delack_timer_handler`).
            self.delay.is_answering = false;
        }
        is_due
    }

    /// Fills in the acknowledgement of an outgoing segment; every segment acknowledges all that has arrived.
    #[inline(always)]
    pub fn stamp(&mut self, segment: &mut Segment, stack: &Stack) {
        let is_flush = self.delay.flushes;
        segment.flags = segment.flags.with(Flags::ACK);
        if stack.counts_marks() {
            segment.flags = segment.flags.with_ace(self.ecn.ace());
            self.ecn.unreported = 0;
        } else if self.ecn.is_echoed {
            segment.flags = segment.flags.with(Flags::ECE);
        }
        segment.ack = self.next;
        segment.ts_ecr = self.echo;
        let mut has_wider = false;
        // RFC 9293 section 3.8.6: never move the right edge back.
        if self.offer.reader.is_some() {
            self.offer_what_was_read(segment.ts_val);
            segment.window = self.window();
        } else {
            let offered = match self.reassembly.is_at_rest() && self.offer.brought == 0 {
                true => self.offer.offered.min(self.offer.capacity),
                false => {
                    let room = self.room_over_gaps();
                    // `__tcp_select_window`: a buffer that is more than half full ends quick ACKs.
                    if 2 * room < self.offer.capacity && stack.adapts_acks() {
                        self.delay.quick_acks = 0;
                    }
                    self.offer.offered.min(room)
                }
            };
            segment.window = self.offer.as_announced(offered);
            let edge = self.next + segment.window;
            if edge >= self.offer.right_edge {
                self.offer.right_edge = edge;
            } else {
                segment.window = self.keep_edge();
            }
            has_wider = self.offer.brought > 0 && self.read_delivered(segment.window);
        }
        if !self.reassembly.is_at_rest() && self.reassembly.has_something_to_report() && stack.sack {
            self.report(segment, stack);
        }
        if is_flush {
            self.delay.flushes = false;
            return;
        }
        // Linux `tcp_event_data_sent`: data within the least delay of an ACK after data is an answer.
        if segment.len > 0 && self.delay.last_received != Time::NEVER {
            let least = stack.delayed_ack.unwrap_or(Duration::ZERO);
            let delay = if stack.adapts_acks() { self.delay.timeout } else { least };
            self.delay.is_answering |= segment.ts_val.since(self.delay.last_received) < delay;
        }
        self.last_ack_sent = self.next;
        if stack.adapts_acks() {
            self.delay.use_up_quick_ack(stack);
        }
        self.delay.unacknowledged = 0;
        self.delay.joined = 0;
        self.delay.pushes = 0;
        self.delay.due_at_least = Time::NEVER;
        self.delay.compressed = 0;
        self.delay.compressed_until = if has_wider { segment.ts_val } else { Time::NEVER };
    }
}
