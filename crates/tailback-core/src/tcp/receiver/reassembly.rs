//! Out-of-order data, and the SACK blocks that report it.
//!
//! Sources: RFC 2018 section 4 (which blocks to report), RFC 2883 (D-SACK).

use std::collections::VecDeque;

use super::Receiver;
use super::delay::AckWhen;
use crate::tcp::segment::{Range, Segment};
use crate::tcp::seldom::AtRest;
use crate::tcp::stack::Stack;
use crate::time::{Duration, Time};

/// What waits for a gap to fill.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reassembly {
    /// Disjoint and sorted, with the segments each range is made of.
    pub ranges: VecDeque<(Range, u32)>,
    /// The ranges as last reported, most recent first.
    pub recent: [Range; 4],
    pub recent_count: u8,
    /// The duplicate to report.
    pub duplicate: Option<Range>,
    /// Segments in all of it.
    pub segments: u32,
}

impl AtRest for Reassembly {
    fn at_rest() -> &'static Self {
        static AT_REST: Reassembly = Reassembly {
            ranges: VecDeque::new(),
            recent: [Range { start: 0, end: 0 }; 4],
            recent_count: 0,
            duplicate: None,
            segments: 0,
        };
        &AT_REST
    }
}

impl Reassembly {
    /// Is there a duplicate or a range to report?
    #[inline]
    pub fn has_something_to_report(&self) -> bool {
        self.recent_count > 0 || self.duplicate.is_some()
    }
}

impl Receiver {
    /// Fill in the SACK blocks of an outgoing segment.
    #[cold]
    pub(super) fn report(&mut self, segment: &mut Segment, stack: &Stack) {
        let room = if stack.timestamps { 3 } else { 4 };
        let mut count = 0;
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

    /// Nothing is missing, and nothing is left to be told.
    fn rest_if_complete(&mut self) {
        if self.reassembly.ranges.is_empty() && !self.reassembly.has_something_to_report() {
            self.reassembly.recent = Default::default();
            self.reassembly.rest();
        }
    }

    #[cold]
    pub(super) fn on_out_of_order(
        &mut self,
        range: Range,
        now: Time,
        srtt: Duration,
        stack: &Stack,
    ) -> AckWhen {
        if stack.quick_acks_after_gap {
            self.delay.quick_acks = self.delay.quick_acks.max(stack.quick_acks);
        }
        if stack.reassembly_limit.is_some_and(|limit| self.reassembly.segments >= limit) {
            return AckWhen::Now;
        }
        let first = self.reassembly.ranges.partition_point(|(held, _)| held.end < range.start);
        let last = self.reassembly.ranges.partition_point(|(held, _)| held.start <= range.end);
        if stack.dsack {
            self.note_overlap(range);
        }
        let mut merged = range;
        let mut is_news = true;
        let mut segments = 0;
        for (held, count) in self.reassembly.ranges.range(first..last) {
            is_news &= range.start < held.start || held.end < range.end;
            merged.start = merged.start.min(held.start);
            merged.end = merged.end.max(held.end);
            segments += count;
        }
        segments += u32::from(is_news);
        self.reassembly.segments += segments;
        let it = &mut *self.reassembly;
        for (_, count) in it.ranges.range(first..last) {
            it.segments -= count;
        }
        if first == last {
            self.reassembly.ranges.insert(first, (merged, segments));
        } else {
            self.reassembly.ranges[first] = (merged, segments);
            self.reassembly.ranges.drain(first + 1..last);
        }
        self.report_first(merged);
        // Linux `tcp_data_queue_ofo`: without SACK a wider window would hide the duplicate ACK.
        if is_news && stack.window_grows_over_gaps && stack.sack && self.grow_window() {
            return AckWhen::Now;
        }
        match stack.sack_compression {
            Some(most) if stack.sack && self.reassembly.duplicate.is_none() => self.compress(most, now, srtt),
            _ => AckWhen::Now,
        }
    }

    /// What of `range` was held already is reported as a duplicate (RFC 2883 section 4.2), the first stretch of it that
    /// hangs together.
    pub(super) fn note_overlap(&mut self, range: Range) {
        if self.reassembly.is_at_rest() {
            return;
        }
        let it = &mut *self.reassembly;
        let first = it.ranges.partition_point(|(held, _)| held.end <= range.start);
        for (held, _) in it.ranges.range(first..) {
            let shared = Range { start: held.start.max(range.start), end: held.end.min(range.end) };
            if shared.start >= shared.end {
                return;
            }
            match &mut it.duplicate {
                None => it.duplicate = Some(shared),
                Some(known) if known.end == shared.start => known.end = shared.end,
                Some(_) => return,
            }
        }
    }

    /// Put `range` first among the blocks to report, dropping those it covers.
    pub(super) fn report_first(&mut self, range: Range) {
        let mut kept = [Range::default(); 4];
        kept[0] = range;
        let mut count = 1;
        for block in &self.reassembly.recent[..usize::from(self.reassembly.recent_count)] {
            let overlaps = block.start <= range.end && range.start <= block.end;
            if !overlaps && count < 4 {
                kept[count] = *block;
                count += 1;
            }
        }
        self.reassembly.recent = kept;
        self.reassembly.recent_count = count as u8;
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
        let mut used = 0;
        for (held, segments) in &it.ranges {
            if held.start > self.next {
                break;
            }
            self.next = self.next.max(held.end);
            it.segments -= segments;
            used += 1;
        }
        it.ranges.drain(..used);
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
