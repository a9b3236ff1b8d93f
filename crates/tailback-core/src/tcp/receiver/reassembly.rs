//! Out-of-order data, and the SACK blocks that report it.
//!
//! Sources: RFC 2018 section 4 (which blocks to report), RFC 2883 (D-SACK).

use std::collections::VecDeque;

use super::Receiver;
use super::delay::AckWhen;
use crate::tcp::cold::AtRest;
use crate::tcp::ranges::first_that_reaches;
use crate::tcp::segment::{Range, Segment};
use crate::tcp::stack::Stack;
use crate::time::{Duration, Time};

/// The queue of out-of-order data.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reassembly {
    /// Disjoint sorted ranges, each with its number of segments.
    pub ranges: VecDeque<(Range, u32)>,
    /// The ranges reported by SACK, most recent first.
    pub recent: [Range; 4],
    pub recent_count: u8,
    /// SACK blocks of a compressed ACK that is still to be sent, without the latest segment, and their count.
    pub flushed: ([Range; 4], u8),
    /// The duplicate to report by D-SACK.
    pub duplicate: Option<Range>,
    /// Total number of segments in the queue.
    pub segments: u32,
}

impl AtRest for Reassembly {
    fn at_rest() -> &'static Self {
        static AT_REST: Reassembly = Reassembly {
            ranges: VecDeque::new(),
            recent: [Range { start: 0, end: 0 }; 4],
            recent_count: 0,
            flushed: ([Range { start: 0, end: 0 }; 4], 0),
            duplicate: None,
            segments: 0,
        };
        &AT_REST
    }
}

impl Reassembly {
    /// Whether there is a duplicate or a range to report.
    #[inline]
    pub fn has_something_to_report(&self) -> bool {
        self.recent_count > 0 || self.duplicate.is_some()
    }

    /// Fast path: `range` extends the last held range, and that range was reported most recently. Returns whether it
    /// applied.
    #[inline(always)]
    fn goes_on(&mut self, range: Range) -> bool {
        let Some((held, segments)) = self.ranges.back_mut() else { return false };
        if held.end != range.start || self.recent_count == 0 || self.recent[0].end != range.start {
            return false;
        }
        held.end = range.end;
        *segments += 1;
        self.segments += 1;
        self.recent[0].end = range.end;
        true
    }

    /// Reports as a duplicate the first contiguous part of `range` that was already held (RFC 2883 section 4.2).
    /// `first`: index of the first held range that can overlap.
    pub fn note_overlap(&mut self, range: Range, first: usize) {
        for (held, _) in self.ranges.range(first..) {
            let shared = Range { start: held.start.max(range.start), end: held.end.min(range.end) };
            if shared.start >= shared.end {
                // A range that ends where this one begins does not overlap; a later one may.
                if held.end <= range.start {
                    continue;
                }
                return;
            }
            match &mut self.duplicate {
                None => self.duplicate = Some(shared),
                Some(known) if known.end == shared.start => known.end = shared.end,
                Some(_) => return,
            }
        }
    }

    /// Puts `range` first among the blocks to report and drops the blocks that it overlaps.
    fn report_first(&mut self, range: Range) {
        let (reported, count) = (self.recent, usize::from(self.recent_count));
        let overlaps = |block: &Range| block.start <= range.end && range.start <= block.end;
        self.recent[0] = range;
        // Fast path: `range` usually extends the most recent block, and the order of the others stays.
        if count > 0 && overlaps(&reported[0]) && !reported[1..count].iter().any(overlaps) {
            return;
        }
        let mut kept = 1;
        for block in reported[..count].iter().filter(|block| !overlaps(block)) {
            if kept < 4 {
                self.recent[kept] = *block;
                kept += 1;
            }
        }
        self.recent_count = kept as u8;
    }
}

impl Receiver {
    /// Fills in the SACK blocks of an outgoing segment.
    #[cold]
    pub(super) fn report(&mut self, segment: &mut Segment, stack: &Stack) {
        let room = if stack.timestamps { 3 } else { 4 };
        let mut count = 0;
        if self.delay.flushes {
            let (blocks, held) = self.reassembly.flushed;
            let held = usize::from(held).min(room);
            segment.sack[..held].copy_from_slice(&blocks[..held]);
            segment.sack_count = held as u8;
            return;
        }
        if let Some(duplicate) = self.reassembly.duplicate.take() {
            segment.sack[0] = duplicate;
            segment.is_dsack = true;
            count = 1;
        }
        for block in &self.reassembly.recent[..usize::from(self.reassembly.recent_count)] {
            if count < room {
                segment.sack[count] = *block;
                count += 1;
            }
        }
        segment.sack_count = count as u8;
        self.rest_if_complete();
    }

    /// Returns to rest if nothing is missing and nothing is left to report.
    fn rest_if_complete(&mut self) {
        if self.reassembly.ranges.is_empty() && !self.reassembly.has_something_to_report() {
            self.reassembly.recent = Default::default();
            self.reassembly.flushed = Default::default();
            self.reassembly.rest();
        }
    }

    /// Whether `range` extends neither of the first two SACK blocks, but a later one or none. Linux
    /// `tcp_sack_new_ofo_skb` then first sends the ACKs that it holds back: every ACK has room for two blocks.
    #[inline]
    fn goes_behind_the_second_block(&self, range: Range) -> bool {
        let it = &*self.reassembly;
        it.recent_count >= 2
            && !it.recent[..2].iter().any(|block| block.start <= range.end && range.start <= block.end)
    }

    #[cold]
    pub(super) fn on_out_of_order(
        &mut self,
        range: Range,
        now: Time,
        srtt: Duration,
        stack: &Stack,
    ) -> AckWhen {
        self.answer_mark(stack);
        if stack.quick_acks_after_gap {
            self.delay.quick_acks = self.delay.quick_acks.max(stack.quick_acks);
        }
        if stack.reassembly_limit.is_some_and(|limit| self.reassembly.segments >= limit) {
            return AckWhen::Now;
        }
        let flushes = self.delay.compressed > 0 && self.goes_behind_the_second_block(range);
        if flushes {
            self.flush(range, stack);
        }
        self.offer.brought = 0;
        let it = &mut *self.reassembly;
        if it.goes_on(range) {
            return self.after_out_of_order(true, false, now, srtt, stack);
        }
        let first = first_that_reaches(&it.ranges, range.start, |(held, _)| held.end);
        if stack.dsack {
            it.note_overlap(range, first);
        }
        let (mut merged, mut is_news, mut joined, mut last) = (range, true, 0, first);
        while let Some((held, count)) = it.ranges.get(last).filter(|(held, _)| held.start <= range.end) {
            is_news &= range.start < held.start || held.end < range.end;
            merged.start = merged.start.min(held.start);
            merged.end = merged.end.max(held.end);
            joined += count;
            last += 1;
        }
        it.segments += u32::from(is_news);
        let whole = (merged, joined + u32::from(is_news));
        match last - first {
            0 if first == it.ranges.len() => it.ranges.push_back(whole),
            0 => it.ranges.insert(first, whole),
            1 => it.ranges[first] = whole,
            _ => {
                it.ranges[first] = whole;
                it.ranges.drain(first + 1..last);
            }
        }
        it.report_first(merged);
        self.after_out_of_order(is_news, flushes, now, srtt, stack)
    }

    /// When to acknowledge out-of-order data; `is_news`: some of it was not held before; `flushes`: it let an ACK go
    /// that was held back.
    #[inline(always)]
    fn after_out_of_order(
        &mut self,
        is_news: bool,
        flushes: bool,
        now: Time,
        srtt: Duration,
        stack: &Stack,
    ) -> AckWhen {
        // Linux `tcp_data_queue_ofo`: without SACK, a wider window would make the duplicate ACK unrecognisable.
        self.delay.is_scheduled = true;
        if stack.buffer_low_rtt.is_some() {
            self.tune_over_gaps();
        }
        if is_news && stack.window_grows_over_gaps && stack.sack && self.grow_window_over_gaps() {
            if !stack.adapts_acks() {
                return AckWhen::Now;
            }
            self.delay.quick_acks |= 1;
        }
        if flushes {
            self.delay.is_scheduled = false;
            return AckWhen::Never;
        }
        // The ACK of a duplicate of held data may also be compressed; the next segment then makes Linux forget the
        // duplicate.
        let may_wait = stack.adapts_acks() || self.reassembly.duplicate.is_none();
        match stack.sack_compression {
            Some(most) if stack.sack && may_wait => self.compress(most, now, srtt, stack),
            _ => AckWhen::Now,
        }
    }

    #[inline(always)]
    pub(super) fn advance_to(&mut self, end: u64) {
        self.next = self.next.max(end);
        if !self.reassembly.is_at_rest() && !self.reassembly.ranges.is_empty() {
            self.advance_over_gap();
        }
    }

    #[inline(never)]
    fn advance_over_gap(&mut self) {
        let it = &mut *self.reassembly;
        let (mut used, held_before) = (0, it.segments);
        for (held, segments) in &it.ranges {
            if held.start > self.next {
                break;
            }
            self.next = self.next.max(held.end);
            it.segments -= segments;
            used += 1;
        }
        it.ranges.drain(..used);
        self.offer.brought = u16::try_from(1 + held_before - it.segments).unwrap_or(u16::MAX);
        let mut count = 0;
        for index in 0..usize::from(it.recent_count) {
            if it.recent[index].start > self.next {
                it.recent[count] = it.recent[index];
                count += 1;
            }
        }
        it.recent_count = count as u8;
        self.rest_if_complete();
    }
}
