//! What an acknowledgement delivers, by its cumulative part and by its SACK blocks.

use super::rate::RateWork;
use super::{
    APP_LIMITED, DELIVERED, Delivery, Disturbance, FIN, LOST, PIECE_END, RETRANSMITTED, SACKED, Scoreboard,
    Sent, reads_before,
};
use crate::tcp::ranges::first_that_reaches;
use crate::tcp::segment::Range;
use crate::time::{Bytes, Duration, Time};

/// A run of segments acknowledged together.
struct Train {
    segments: usize,
    bytes: Bytes,
    /// Number of pieces that end in the run.
    pieces: u32,
    /// The next segment, if any, is not acknowledged and is itself undisturbed.
    is_all: bool,
}

impl Disturbance {
    /// Removes the segment from the counts of lost and retransmitted segments.
    fn leave(&mut self, number: u64, segment: &Sent) {
        if segment.flags & LOST != 0 {
            self.lost -= u64::from(segment.len);
            self.lost_segments -= 1;
            // A segment that has been retransmitted is not waiting for repair.
            if segment.flags & RETRANSMITTED == 0
                && let Ok(place) = self.to_repair.binary_search(&number)
            {
                self.to_repair.remove(place);
            }
        }
        if segment.flags & RETRANSMITTED != 0 {
            self.retransmitted -= u64::from(segment.len);
            self.retransmitted_segments -= 1;
        }
    }
}

impl Scoreboard {
    /// Processes the cumulative acknowledgement and the SACK blocks of an ACK. `echoed`: the timestamp that it echoes,
    /// or [`Time::NEVER`].
    pub fn on_ack(
        &mut self,
        ack: u64,
        blocks: &[Range],
        echoed: Time,
        now: Time,
        rtt_min: Duration,
    ) -> Delivery {
        self.take::<true>(ack, blocks, echoed, now, rtt_min)
    }

    /// `TRAINS`: processes runs of undisturbed segments together. A test compares this with one segment at a time.
    #[inline(always)]
    pub(super) fn take<const TRAINS: bool>(
        &mut self,
        ack: u64,
        blocks: &[Range],
        echoed: Time,
        now: Time,
        rtt_min: Duration,
    ) -> Delivery {
        let mut delivery = Delivery::default();
        if !self.disturbed.is_at_rest() {
            let it = &mut *self.disturbed;
            it.prior_highest = it.highest_sacked;
        }
        if !blocks.is_empty() {
            let heard = self.disturbed.heard;
            for block in blocks {
                if block.end > ack && block.start >= self.una && !heard.contains(block) {
                    self.on_sack(*block, now, rtt_min, &mut delivery);
                }
            }
            if !self.disturbed.is_at_rest() {
                self.disturbed.heard[..blocks.len()].copy_from_slice(blocks);
            }
        }
        if !self.disturbed.is_at_rest() && self.disturbed.lowest_late != u64::MAX {
            let lowest = std::mem::replace(&mut self.disturbed.lowest_late, u64::MAX);
            // Linux `tcp_check_sack_reordering` (earlier `fackets_out - reord`): measured from start to end.
            delivery.late_by = self.disturbed.highest_sacked.map_or(0, |highest| highest + 1 - lowest);
        }
        if ack > self.una {
            if TRAINS && self.disturbed.prior_highest.is_none() {
                let train = self.train(ack);
                if train.segments > 0 {
                    self.take_train(&train, now, &mut delivery);
                }
            }
            if self.segments.front().is_some_and(|segment| segment.end <= ack) {
                self.advance_singly(ack, echoed, now, rtt_min, &mut delivery);
            }
            self.advance(ack);
        }
        self.count_delivered(&delivery, now);
        delivery
    }

    /// Does what [`Self::on_ack`] and then [`Self::mark_by_rack`] would do, for an ACK without SACK blocks and a flight
    /// in which nothing is SACKed, lost or retransmitted: then nothing is lost. Returns `None` and changes nothing if
    /// the flight is different.
    #[inline(always)]
    pub fn take_undisturbed(&mut self, ack: u64, now: Time) -> Option<Delivery> {
        if !self.disturbed.is_at_rest() || ack <= self.una {
            return None;
        }
        let mut delivery = Delivery::default();
        let train = self.train(ack);
        if !train.is_all || train.segments == 0 {
            return None;
        }
        let last = &self.segments[train.segments - 1];
        if (last.sent, last.end) <= (self.rack.sent, self.rack.end) {
            return None;
        }
        self.take_train(&train, now, &mut delivery);
        self.una = ack;
        self.count_delivered(&delivery, now);
        self.has_rack_news = self.segments.is_empty();
        Some(delivery)
    }

    #[inline(always)]
    fn count_delivered(&mut self, delivery: &Delivery, now: Time) {
        self.delivered += delivery.delivered_bytes;
        if delivery.delivered_segments > 0 {
            self.delivered_time = now;
            if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
                self.app_limited_until = 0;
            }
        }
    }

    /// Counts needless retransmissions as delivered: `segments` of them, `bytes` in all (Linux `tcp_dsack_seen`).
    #[cold]
    pub fn deliver_again(&mut self, segments: u32, bytes: Bytes, delivery: &mut Delivery, now: Time) {
        delivery.delivered_segments += segments;
        delivery.delivered_bytes += bytes;
        let again = Delivery { delivered_segments: segments, delivered_bytes: bytes, ..Delivery::default() };
        self.count_delivered(&again, now);
    }

    fn on_sack(&mut self, block: Range, now: Time, rtt_min: Duration, delivery: &mut Delivery) {
        // Only the parts that no known range covers are new.
        let known = &self.disturbed.known;
        let first = first_that_reaches(known, block.start, |known| known.end);
        if known.get(first).is_some_and(|known| known.start <= block.start && block.end <= known.end) {
            return;
        }
        let mut at = block.start;
        let mut merged = block;
        let mut last = first;
        while let Some(known) =
            self.disturbed.known.get(last).copied().filter(|known| known.start <= block.end)
        {
            last += 1;
            if known.start > at {
                self.sack_span(Range { start: at, end: known.start }, now, rtt_min, delivery);
            }
            at = at.max(known.end);
            merged.start = merged.start.min(known.start);
            merged.end = merged.end.max(known.end);
        }
        if at < block.end {
            self.sack_span(Range { start: at, end: block.end }, now, rtt_min, delivery);
        }
        let known = &mut self.disturbed.known;
        match last - first {
            0 if first == known.len() => known.push_back(merged),
            0 => known.insert(first, merged),
            1 => known[first] = merged,
            _ => {
                known[first] = merged;
                known.drain(first + 1..last);
            }
        }
    }

    /// Index of the first segment that ends beyond `at`: usually one of the two after the highest SACKed segment.
    pub(super) fn first_beyond(&self, at: u64) -> usize {
        let ends_beyond = |index: usize| self.segments.get(index).is_none_or(|segment| segment.end > at);
        if let Some(highest) = self.disturbed.highest_sacked {
            let highest = (highest - self.base) as usize;
            if !ends_beyond(highest) {
                let next = highest + 1 + usize::from(!ends_beyond(highest + 1));
                if ends_beyond(next) {
                    return next;
                }
            }
        }
        self.segments.partition_point(|segment| segment.end <= at)
    }

    fn sack_span(&mut self, span: Range, now: Time, rtt_min: Duration, delivery: &mut Delivery) {
        let mut index = self.first_beyond(span.start);
        while index < self.segments.len() && self.segments[index].end <= span.end {
            let number = self.base + index as u64;
            let segment = self.segments[index];
            index += 1;
            if segment.flags & SACKED != 0 || segment.end - u64::from(segment.len) < span.start {
                continue;
            }
            let it = &mut *self.disturbed;
            it.leave(number, &segment);
            let held = &mut self.segments[index - 1];
            held.flags = (held.flags & (APP_LIMITED | FIN | PIECE_END)) | SACKED | DELIVERED;
            it.sacked += u64::from(segment.len);
            it.sacked_segments += 1;
            if number >= it.frontier {
                it.sacked_above_frontier += 1;
            }
            if segment.transmissions == 1 && segment.flags & DELIVERED == 0 {
                let rtt = now.since(segment.sent);
                delivery.rtt_sack = delivery.rtt_sack.or(Some(rtt));
                delivery.rtt_sack_last = Some(rtt);
                delivery.original_end = delivery.original_end.min(segment.end);
                if it.prior_highest.is_some_and(|highest| number < highest) {
                    it.lowest_late = it.lowest_late.min(number);
                }
            }
            it.highest_sacked = it.highest_sacked.max(Some(number));
            delivery.sacked_segments += 1;
            self.reshape(index - 1);
            if segment.flags & DELIVERED == 0 {
                self.deliver(&segment, None, now, rtt_min, delivery);
            }
        }
    }

    /// The run of undisturbed segments, sent once, from the head up to `ack`.
    #[inline(always)]
    fn train(&self, ack: u64) -> Train {
        let (mut count, mut bytes, mut pieces, mut is_all) = (0, 0, 0, true);
        while let Some(segment) = self.segments.get(count) {
            let is_plain =
                segment.flags & !(APP_LIMITED | FIN | PIECE_END) == 0 && segment.transmissions == 1;
            if segment.end > ack || !is_plain {
                is_all = is_plain;
                break;
            }
            bytes += u64::from(segment.len);
            pieces += u32::from(segment.flags & PIECE_END != 0);
            count += 1;
        }
        Train { segments: count, bytes, pieces, is_all }
    }

    /// Acknowledges a run of segments, with the same result as `advance_singly`.
    #[inline(always)]
    fn take_train(&mut self, train: &Train, now: Time, delivery: &mut Delivery) {
        let Train { segments: count, bytes, pieces, .. } = *train;
        // The last segment of the run was sent last.
        let last = self.segments[count - 1];
        self.sample_rate(&last, delivery);
        let (first_sent, first_end) = (self.segments[0].sent, self.segments[0].end);
        let last = &self.segments[count - 1];
        let (last_sent, last_end) = (last.sent, last.end);
        let rtt = now.since(last_sent);
        self.has_rack_news = true;
        self.rack.rtt = rtt;
        if (last_sent, last_end) > (self.rack.sent, self.rack.end) {
            (self.rack.sent, self.rack.end, self.rack.is_again) = (last_sent, last_end, false);
        }
        delivery.rtt_first = delivery.rtt_first.or(Some(now.since(first_sent)));
        delivery.rtt_last = Some(rtt);
        delivery.original_end = delivery.original_end.min(first_end);
        delivery.acked_segments += count as u32;
        delivery.delivered_segments += count as u32;
        delivery.delivered_bytes += bytes;
        self.out -= bytes;
        self.pieces_out -= pieces;
        self.base += count as u64;
        self.segments.drain(..count);
    }

    #[inline(never)]
    fn advance_singly(
        &mut self,
        ack: u64,
        echoed: Time,
        now: Time,
        rtt_min: Duration,
        delivery: &mut Delivery,
    ) {
        while let Some(segment) = self.segments.front().copied() {
            if segment.end > ack {
                break;
            }
            let number = self.base;
            if segment.flags & (LOST | RETRANSMITTED) != 0 {
                self.disturbed.leave(number, &segment);
            }
            self.segments.pop_front();
            self.base += 1;
            self.out -= u64::from(segment.len);
            self.pieces_out -= u32::from(segment.flags & PIECE_END != 0);
            delivery.acked_segments += 1;
            delivery.acked_retransmission |= segment.transmissions > 1;
            if segment.flags & SACKED != 0 {
                let it = &mut *self.disturbed;
                it.sacked -= u64::from(segment.len);
                it.sacked_segments -= 1;
                if number >= it.frontier {
                    it.sacked_above_frontier -= 1;
                }
            } else {
                // Karn's rule: only segments sent once give a sample. A segment whose SACK a timeout discarded was
                // delivered earlier: it gives no sample, and is no evidence about the timeout.
                if segment.transmissions == 1 && segment.flags & DELIVERED == 0 {
                    let rtt = now.since(segment.sent);
                    delivery.rtt_first = delivery.rtt_first.or(Some(rtt));
                    delivery.rtt_last = Some(rtt);
                    delivery.original_end = delivery.original_end.min(segment.end);
                    if self.disturbed.prior_highest.is_some_and(|highest| number < highest) {
                        let highest = self.disturbed.highest_sacked.unwrap_or(number);
                        delivery.late_by = delivery.late_by.max(highest + 1 - number);
                    }
                }
                if segment.flags & DELIVERED == 0 {
                    self.deliver(&segment, Some(echoed), now, rtt_min, delivery);
                }
            }
        }
    }

    /// Removes the segments below `ack`.
    #[inline(always)]
    fn advance(&mut self, ack: u64) {
        self.una = ack;
        if !self.disturbed.is_at_rest() {
            self.advance_disturbed(ack);
        }
    }

    #[inline(never)]
    fn advance_disturbed(&mut self, ack: u64) {
        let (base, it) = (self.base, &mut *self.disturbed);
        it.frontier = it.frontier.max(base);
        if it.highest_sacked.is_some_and(|highest| highest < base) {
            it.highest_sacked = None;
        }
        while it.known.front().is_some_and(|known| known.end <= ack) {
            it.known.pop_front();
        }
        while it.again.front().is_some_and(|(number, _)| *number < base) {
            it.again.pop_front();
        }
        if it.is_over(base) {
            (it.frontier, it.prior_highest, it.heard) = (0, None, Default::default());
            self.disturbed.rest();
        }
    }

    /// `echoed`: the echoed timestamp if the segment is acknowledged cumulatively; `None` if it is SACKed.
    fn deliver(
        &mut self,
        segment: &Sent,
        echoed: Option<Time>,
        now: Time,
        rtt_min: Duration,
        delivery: &mut Delivery,
    ) {
        delivery.delivered_segments += 1;
        delivery.delivered_bytes += u64::from(segment.len);
        let rtt = now.since(segment.sent);
        // RFC 8985 section 6.2 step 2: an ACK faster than any RTT belongs to the original, not to the retransmission.
        // So does an ACK that echoes a timestamp from before the retransmission (Linux `tcp_skb_spurious_retrans`).
        let is_spurious = segment.transmissions > 1
            && (rtt < rtt_min
                || echoed.is_some_and(|echoed| {
                    echoed != Time::NEVER && reads_before(echoed, segment.sent, self.timestamp_tick)
                }));
        if !is_spurious {
            self.has_rack_news = true;
            self.rack.rtt = rtt;
            if (segment.sent, segment.end) > (self.rack.sent, self.rack.end) {
                (self.rack.sent, self.rack.end) = (segment.sent, segment.end);
                self.rack.is_again = segment.transmissions > 1;
            }
        }
        self.sample_rate(segment, delivery);
    }

    /// Takes the rate sample from the delivered segment that was sent last (Linux `tcp_rate_skb_delivered`).
    #[inline(always)]
    fn sample_rate(&mut self, segment: &Sent, delivery: &mut Delivery) {
        if delivery.work.is_some_and(|work| (segment.sent, segment.end) <= work.left) {
            return;
        }
        delivery.work = Some(RateWork {
            left: (segment.sent, segment.end),
            prior_delivered: segment.delivered,
            prior_time: segment.delivered_time,
            send_elapsed: segment.sent.since(segment.first_sent),
            app_limited: segment.flags & APP_LIMITED != 0,
        });
        self.first_sent = segment.sent;
    }
}
