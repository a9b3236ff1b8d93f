//! The receiving half: reassembly, SACK generation, the window, and when to acknowledge.
//!
//! Sources: RFC 9293 section 3.10.7.4, RFC 2018 section 4 (which blocks to report), RFC 2883 (D-SACK),
//! RFC 1122 section 4.2.3.2 and RFC 5681 section 4.2 (delayed ACKs), RFC 7323 section 4.3 (which timestamp
//! to echo), Linux quick-ACK mode.

mod reader;

use std::collections::VecDeque;
use std::slice::from_ref;

use prefetch_index::prefetch_index;
use reader::{Buffer, Reader};

use crate::tcp::segment::{Flags, Range, Segment};
use crate::tcp::stack::{AckOnPush, Stack};
use crate::tcp::tuning::Tuning;
use crate::time::{Bytes, Duration, Rate, Time};

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

/// The receiving half of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    next: u64,
    // Out-of-order data, disjoint and sorted, with the segments each range is made of.
    ranges: VecDeque<(Range, u32)>,
    // The ranges as last reported, most recent first (RFC 2018 section 4).
    recent: [Range; 4],
    recent_count: u8,
    duplicate: Option<Range>,
    reassembly_segments: u32,
    mss: u32,
    // One past the FIN, once a FIN was seen anywhere.
    fin_end: u64,
    unacknowledged: u64,
    // Segments since the last ACK that ask the reader for one.
    pushes: u32,
    // Linux `pingpong`: this end answers, so that its ACK may ride on the answer.
    is_answering: bool,
    last_received: Time,
    last_ack_sent: u64,
    quick_acks: u32,
    delayed_until: Time,
    echo: Time,
    right_edge: u64,
    capacity: Bytes,
    // Linux `rcv_ssthresh`: the window offered so far, growing towards `capacity`.
    offered: Bytes,
    scale: u8,
    // `capacity` follows it, if the buffer begins small.
    tuning: Option<Box<Tuning>>,
    // ECE goes out with every ACK: latched until CWR (RFC 3168), or the mark of the latest segment (RFC 8257).
    echo_congestion: bool,
    // Accurate echo: the ACK still owed for segments before the mark changed.
    early: Option<EarlyAck>,
    // SACK compression: duplicate ACKs sent since `next` last moved, held back since, and when they leave.
    duplicates_sent: u32,
    compressed: u32,
    compressed_until: Time,
    // An application that does not read at once.
    reader: Option<Box<Reader>>,
}

/// An ACK for what came before the latest segment, with the ECN echo of that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlyAck {
    /// The acknowledgement number.
    pub ack: u64,
    /// Whether it echoes congestion.
    pub echo: bool,
}

/// SACK compression holds back at most so many ACKs (Linux tcp_comp_sack_nr).
const MOST_COMPRESSED: u32 = 44;
/// A shorter segment does not widen the window (Linux `tcp_event_data_recv`).
const LEAST_FOR_GROWTH: u64 = 128;
/// Duplicate ACKs that always leave at once, so that fast retransmit is not delayed.
const NEVER_COMPRESSED: u32 = 3;

impl Receiver {
    /// `capacity`: the window an empty buffer offers; `scale`: the window-scale shift offered; `mss`: payload
    /// of a full segment.
    pub fn new(stack: &Stack, capacity: Bytes, scale: u8, mss: u32) -> Self {
        let most = capacity;
        let capacity = stack.initial_window_capacity().map_or(most, |first| first.min(most));
        let offered = stack.initial_receive_window.map_or(capacity, |bytes| bytes.min(capacity));
        Receiver {
            next: 0,
            ranges: VecDeque::new(),
            recent: [Range::default(); 4],
            recent_count: 0,
            duplicate: None,
            reassembly_segments: 0,
            mss,
            fin_end: u64::MAX,
            unacknowledged: 0,
            pushes: 0,
            is_answering: false,
            last_received: Time::NEVER,
            last_ack_sent: 0,
            quick_acks: stack.quick_acks,
            delayed_until: Time::NEVER,
            echo: Time::NEVER,
            right_edge: 0,
            capacity,
            offered,
            scale,
            tuning: (capacity < most).then(|| Box::new(Tuning::new(offered, most))),
            echo_congestion: false,
            early: None,
            duplicates_sent: 0,
            compressed: 0,
            compressed_until: Time::NEVER,
            reader: None,
        }
        .with_right_edge()
    }

    fn with_right_edge(mut self) -> Self {
        self.right_edge = self.next + self.offered;
        self
    }

    /// The application reads at this rate, and not at once.
    pub fn read_at(&mut self, rate: Rate) {
        self.reader = Some(Box::new(Reader::new(rate)));
    }

    /// See [`super::endpoint::Endpoint::fetch`].
    #[inline]
    pub fn fetch(&self) {
        for field in [&self.next, &self.fin_end, &self.unacknowledged] {
            prefetch_index(from_ref(field), 0);
        }
        prefetch_index(from_ref(&self.early), 0);
        prefetch_index(from_ref(&self.duplicate), 0);
        prefetch_index(from_ref(&self.quick_acks), 0);
    }
    /// The next offset expected.
    pub fn next(&self) -> u64 {
        self.next
    }
    /// Payload received in order.
    pub fn delivered(&self) -> Bytes {
        self.next - u64::from(self.is_finished())
    }
    /// Payload received, in order or not, each byte counted once.
    pub fn arrived(&self) -> Bytes {
        let waiting: u64 = self.ranges.iter().map(|(held, _)| held.end - held.start).sum();
        // The FIN has a sequence number and is no payload.
        let has_fin = self.ranges.back().is_some_and(|(held, _)| held.end >= self.fin_end);
        self.delivered() + waiting - u64::from(has_fin)
    }
    /// True once the FIN has been received in order.
    pub fn is_finished(&self) -> bool {
        self.next >= self.fin_end
    }
    /// Segments waiting for a gap to fill.
    pub fn reassembly_segments(&self) -> u32 {
        self.reassembly_segments
    }
    /// When the delayed ACK or the window update is due, or [`Time::NEVER`].
    pub fn ack_deadline(&self) -> Time {
        let due = self.delayed_until.min(self.compressed_until);
        self.reader.as_ref().map_or(due, |reader| due.min(reader.update_at))
    }
    /// The window offered last, in bytes.
    pub fn window(&self) -> Bytes {
        self.right_edge.saturating_sub(self.next)
    }
    /// The window-scale shift.
    pub fn scale(&self) -> u8 {
        self.scale
    }
    /// The timestamp to echo.
    pub fn echo(&self) -> Time {
        self.echo
    }
    /// Capacity of the receive buffer as a window.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Window scaling was not agreed: the window shrinks to what 16 bits hold.
    pub fn without_scaling(&mut self) {
        self.scale = 0;
        if let Some(tuning) = &mut self.tuning {
            tuning.limit(65_535);
        }
        self.capacity = self.capacity.min(65_535);
        self.offered = self.offered.min(self.capacity);
        self.right_edge = self.next + self.offered;
    }

    /// The handshake's segment gave a timestamp to echo.
    pub fn on_syn(&mut self, segment: &Segment) {
        self.echo = segment.ts_val;
    }

    /// Take a segment that carries data or FIN. Returns when to acknowledge it. `srtt` is this end's estimate.
    pub fn on_segment(&mut self, segment: &Segment, now: Time, srtt: Duration, stack: &Stack) -> AckWhen {
        let length = segment.sequence_length();
        if length == 0 {
            // RFC 7323 section 4.3 (2) asks only where a segment begins: an acknowledgement alone is echoed too.
            if segment.seq <= self.last_ack_sent && segment.ts_val != Time::NEVER {
                self.echo = segment.ts_val;
            }
            // RFC 9293 section 3.10.7.4: what lies below the window is answered, be it old or a probe of the window.
            let is_old = segment.seq.wrapping_add(1) <= self.last_ack_sent;
            return if is_old { AckWhen::Now } else { AckWhen::Never };
        }
        let mark_changed = stack.speaks_ecn() && self.take_mark(segment, stack);
        match self.place(segment, length, now, srtt, stack) {
            // RFC 8257 section 3.2: a change of the mark is reported at once.
            AckWhen::Later if mark_changed => AckWhen::Now,
            when => when,
        }
    }

    /// Note the ECN mark of a segment. Returns true if it must be reported at once.
    #[cold]
    fn take_mark(&mut self, segment: &Segment, stack: &Stack) -> bool {
        if !stack.echoes_each_mark() {
            // RFC 3168 section 6.1.3: a mark on the very packet that brings CWR is news.
            if segment.flags.has(Flags::CWR) {
                self.echo_congestion = false;
            }
            self.echo_congestion |= segment.ce;
            return false;
        }
        if segment.ce == self.echo_congestion {
            return false;
        }
        if self.unacknowledged > 0 {
            self.early = Some(EarlyAck { ack: self.next, echo: self.echo_congestion });
        }
        self.echo_congestion = segment.ce;
        true
    }

    /// The ACK owed before the current one, if the ECN mark changed while an ACK was delayed.
    pub fn take_early_ack(&mut self) -> Option<EarlyAck> {
        self.early.take()
    }

    #[inline]
    fn place(&mut self, segment: &Segment, length: u64, now: Time, srtt: Duration, stack: &Stack) -> AckWhen {
        let range = Range { start: segment.seq, end: segment.seq + length };
        if segment.flags.has(Flags::FIN) {
            self.fin_end = range.end;
        }
        // RFC 7323 section 4.3 (2): echo the segment that covers the last ACK sent, so a delayed ACK echoes
        // the earlier of its two segments.
        if range.start <= self.last_ack_sent {
            self.echo = segment.ts_val;
        }
        if range.end <= self.next || range.start >= self.right_edge.max(self.next + 1) {
            if range.end <= self.next && stack.dsack {
                self.duplicate = Some(range);
            }
            self.quick_acks = self.quick_acks.max(stack.quick_acks);
            self.is_answering = false;
            return AckWhen::Now;
        }
        if range.start > self.next {
            return self.on_out_of_order(range, now, srtt, stack);
        }
        if range.start < self.next && stack.dsack {
            self.duplicate = Some(Range { start: range.start, end: self.next });
        }
        // In order, perhaps filling a gap.
        let had_gap = !self.ranges.is_empty();
        if had_gap && stack.dsack {
            self.note_overlap(range);
        }
        self.duplicates_sent = 0;
        let prior_next = self.next;
        self.advance_to(range.end);
        if self.tuning.is_some() {
            self.tune(segment, now, srtt);
        }
        if self.reader.is_some() {
            self.on_unread(prior_next, now);
        }
        if had_gap {
            if length >= LEAST_FOR_GROWTH {
                self.grow_window();
            }
            // RFC 5681 section 4.2: at once when the segment fills all or part of a gap.
            return AckWhen::Now;
        }
        if segment.flags.has(Flags::FIN) {
            return self.on_fin(length, now, stack);
        }
        self.decide(length, segment.flags, now, stack)
    }

    /// The buffer grows with what was read.
    #[cold]
    fn tune(&mut self, segment: &Segment, now: Time, srtt: Duration) {
        let Some(tuning) = &mut self.tuning else { return };
        if segment.ts_ecr != Time::NEVER && segment.len >= self.mss {
            tuning.sample(segment.ts_ecr, now);
        }
        if let Some(window) = tuning.read(self.next, now, srtt) {
            self.capacity = self.capacity.max(window);
        }
    }

    fn buffer(&self) -> Buffer {
        // RFC 9293 section 3.8.6.2.2, and what the window's scale can tell.
        let step = u64::from(self.mss).min(self.capacity / 2).max(1 << self.scale);
        let (next, edge, offered, capacity) = (self.next, self.right_edge, self.offered, self.capacity);
        Buffer { next, edge, offered, capacity, step }
    }

    /// More waits for the reader.
    #[cold]
    fn on_unread(&mut self, prior_next: u64, now: Time) {
        let buffer = self.buffer();
        if let Some(reader) = &mut self.reader {
            reader.on_arrival(prior_next, now);
            reader.plan(buffer, now);
        }
    }

    /// Move the right edge as far as the reader has made room.
    #[cold]
    fn offer_what_was_read(&mut self, now: Time) {
        let buffer = self.buffer();
        let Some(reader) = &mut self.reader else { return };
        let window = reader.edge(buffer, now).saturating_sub(self.next);
        let window = (window >> self.scale).min(65_535) << self.scale;
        self.right_edge = self.right_edge.max(self.next + window);
        reader.plan(Buffer { edge: self.right_edge, ..buffer }, now);
    }

    fn decide(&mut self, length: u64, flags: Flags, now: Time, stack: &Stack) -> AckWhen {
        self.unacknowledged += length;
        self.last_received = now;
        if length >= LEAST_FOR_GROWTH && self.grow_window() {
            return AckWhen::Now;
        }
        let Some(delay) = stack.delayed_ack else { return AckWhen::Now };
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            return AckWhen::Now;
        }
        if self.owes_more_than_one(stack) || self.is_asked_by_reader(length, flags, stack) {
            return AckWhen::Now;
        }
        self.delay_ack(delay, now, stack)
    }

    /// Linux `tcp_grow_window`: while the offered window still grows, two segments for each one that comes, the
    /// sender is told at once. This is what keeps slow start fed with an ACK a segment.
    fn grow_window(&mut self) -> bool {
        let grows = self.offered < self.capacity;
        if grows {
            self.offered = (self.offered + 2 * u64::from(self.mss)).min(self.capacity);
        }
        grows
    }

    /// Linux `tcp_fin`: the connection answers from now on, so the acknowledgement waits for this end's own FIN.
    #[cold]
    fn on_fin(&mut self, length: u64, now: Time, stack: &Stack) -> AckWhen {
        self.unacknowledged += length;
        self.last_received = now;
        match stack.delayed_ack {
            Some(delay) if stack.fin_ack_delayed && !self.owes_more_than_one(stack) => {
                self.is_answering = true;
                self.delay_ack(delay, now, stack)
            }
            _ => AckWhen::Now,
        }
    }

    /// More than one full segment since the last ACK; `ack_every` generalises the two of RFC 1122.
    fn owes_more_than_one(&self, stack: &Stack) -> bool {
        self.unacknowledged > u64::from(stack.ack_every.saturating_sub(1)) * u64::from(self.mss)
    }

    fn delay_ack(&mut self, delay: Duration, now: Time, stack: &Stack) -> AckWhen {
        if self.delayed_until == Time::NEVER {
            self.delayed_until = match stack.delayed_ack_tick {
                // BSD's fast timer fires on a grid, so the delay is anything up to one period.
                true => (now + Duration::from_ps(1)).ceil_to(delay),
                false => stack.expiry(now, delay),
            };
        }
        AckWhen::Later
    }

    /// Linux `tcp_cleanup_rbuf`: the application, which reads at once, has emptied the buffer, and a segment asked
    /// for an acknowledgement; while this end answers it takes two.
    fn is_asked_by_reader(&mut self, length: u64, flags: Flags, stack: &Stack) -> bool {
        let is_short = length < u64::from(self.mss);
        let asks = match stack.ack_on_push {
            AckOnPush::Never => false,
            AckOnPush::Short => is_short,
            AckOnPush::ShortOrPushed => is_short || flags.has(Flags::PSH),
        };
        self.pushes += u32::from(asks);
        asks && (!self.is_answering || self.pushes > 1)
    }

    #[cold]
    fn on_out_of_order(&mut self, range: Range, now: Time, srtt: Duration, stack: &Stack) -> AckWhen {
        if stack.quick_acks_after_gap {
            self.quick_acks = self.quick_acks.max(stack.quick_acks);
        }
        if stack.reassembly_limit.is_some_and(|limit| self.reassembly_segments >= limit) {
            return AckWhen::Now;
        }
        let first = self.ranges.partition_point(|(held, _)| held.end < range.start);
        let last = self.ranges.partition_point(|(held, _)| held.start <= range.end);
        if stack.dsack {
            self.note_overlap(range);
        }
        let mut merged = range;
        let mut is_news = true;
        let mut segments = 0;
        for (held, count) in self.ranges.range(first..last) {
            is_news &= range.start < held.start || held.end < range.end;
            merged.start = merged.start.min(held.start);
            merged.end = merged.end.max(held.end);
            segments += count;
        }
        segments += u32::from(is_news);
        self.reassembly_segments += segments;
        for (_, count) in self.ranges.range(first..last) {
            self.reassembly_segments -= count;
        }
        if first == last {
            self.ranges.insert(first, (merged, segments));
        } else {
            self.ranges[first] = (merged, segments);
            self.ranges.drain(first + 1..last);
        }
        self.report_first(merged);
        // Linux `tcp_data_queue_ofo`: without SACK a wider window would hide the duplicate ACK.
        if is_news && stack.window_grows_over_gaps && stack.sack && self.grow_window() {
            return AckWhen::Now;
        }
        match stack.sack_compression {
            Some(most) if stack.sack && self.duplicate.is_none() => self.compress(most, now, srtt),
            _ => AckWhen::Now,
        }
    }

    /// What of `range` was held already is reported as a duplicate (RFC 2883 section 4.2), the first stretch of it that
    /// hangs together.
    fn note_overlap(&mut self, range: Range) {
        for (held, _) in &self.ranges {
            let shared = Range { start: held.start.max(range.start), end: held.end.min(range.end) };
            if shared.start >= shared.end {
                continue;
            }
            match &mut self.duplicate {
                None => self.duplicate = Some(shared),
                Some(known) if known.end == shared.start => known.end = shared.end,
                Some(_) => return,
            }
        }
    }

    /// Linux `__tcp_ack_snd_check`: after the third duplicate ACK the next ones wait for each other, a
    /// twentieth of the round trip and at most `most`.
    fn compress(&mut self, most: Duration, now: Time, srtt: Duration) -> AckWhen {
        if self.quick_acks > 0 || self.compressed >= MOST_COMPRESSED {
            return AckWhen::Now;
        }
        if self.duplicates_sent < NEVER_COMPRESSED {
            self.duplicates_sent += 1;
            return AckWhen::Now;
        }
        let delay = most.min(srtt / 20);
        if delay.is_zero() {
            return AckWhen::Now;
        }
        self.compressed += 1;
        if self.compressed_until == Time::NEVER {
            self.compressed_until = now + delay;
        }
        AckWhen::Later
    }

    /// Put `range` first among the blocks to report, dropping those it covers.
    fn report_first(&mut self, range: Range) {
        let mut kept = [Range::default(); 4];
        kept[0] = range;
        let mut count = 1;
        for block in &self.recent[..usize::from(self.recent_count)] {
            let overlaps = block.start <= range.end && range.start <= block.end;
            if !overlaps && count < 4 {
                kept[count] = *block;
                count += 1;
            }
        }
        self.recent = kept;
        self.recent_count = count as u8;
    }

    fn advance_to(&mut self, end: u64) {
        self.next = self.next.max(end);
        if self.ranges.is_empty() {
            return;
        }
        let mut used = 0;
        for (held, segments) in &self.ranges {
            if held.start > self.next {
                break;
            }
            self.next = self.next.max(held.end);
            self.reassembly_segments -= segments;
            used += 1;
        }
        self.ranges.drain(..used);
        let next = self.next;
        let mut count = 0;
        for index in 0..usize::from(self.recent_count) {
            if self.recent[index].start > next {
                self.recent[count] = self.recent[index];
                count += 1;
            }
        }
        self.recent_count = count as u8;
    }

    /// Time passed. Returns true if the delayed ACK is due.
    pub fn on_timer(&mut self, now: Time) -> bool {
        // No answer came for the ACK to ride on (Linux `tcp_delack_timer_handler`).
        self.is_answering &= now < self.delayed_until;
        now >= self.ack_deadline()
    }

    /// Fill in the acknowledgement of an outgoing segment; whatever leaves acknowledges everything.
    pub fn stamp(&mut self, segment: &mut Segment, stack: &Stack) {
        segment.flags = segment.flags.with(Flags::ACK);
        if self.echo_congestion {
            segment.flags = segment.flags.with(Flags::ECE);
        }
        segment.ack = self.next;
        segment.ts_ecr = self.echo;
        // RFC 9293 section 3.8.6: never move the right edge back.
        if self.reader.is_some() {
            self.offer_what_was_read(segment.ts_val);
        } else {
            let offered = (self.offered >> self.scale).min(65_535) << self.scale;
            self.right_edge = self.right_edge.max(self.next + offered);
        }
        segment.window = self.right_edge - self.next;
        if stack.sack {
            let room = if stack.timestamps { 3 } else { 4 };
            let mut count = 0;
            if let Some(duplicate) = self.duplicate.take() {
                segment.sack[0] = duplicate;
                segment.is_dsack = true;
                count = 1;
            }
            for block in &self.recent[..usize::from(self.recent_count)] {
                if count < room {
                    segment.sack[count] = *block;
                    count += 1;
                }
            }
            segment.sack_count = count as u8;
        }
        // Linux `tcp_event_data_sent`: data within the least delay of an ACK after data is an answer.
        if segment.len > 0 && self.last_received != Time::NEVER {
            let delay = stack.delayed_ack.unwrap_or(Duration::ZERO);
            self.is_answering |= segment.ts_val.since(self.last_received) < delay;
        }
        self.last_ack_sent = self.next;
        self.unacknowledged = 0;
        self.pushes = 0;
        self.delayed_until = Time::NEVER;
        self.compressed = 0;
        self.compressed_until = Time::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u64 = 1000;

    fn data(start: u64, len: u64, is_last: bool) -> Segment {
        let flags = if is_last { Flags::ACK.with(Flags::FIN) } else { Flags::ACK };
        Segment { seq: start, len: len as u32, flags, ..Segment::blank() }
    }

    /// Segments of a stream of `count`, in the order of arrival the indices give, some more than once.
    fn arrivals() -> impl Strategy<Value = (u64, Vec<u64>)> {
        (2u64..30).prop_flat_map(|count| {
            let first = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
            let again = prop::collection::vec(0..count, 0..10);
            (Just(count), (first, again).prop_map(|(first, again)| [first, again].concat()))
        })
    }

    proptest! {
        #[test]
        fn any_order_of_arrival_gives_the_stream_and_valid_sack_blocks(
            (count, order) in arrivals(),
            shuffle in any::<u64>(),
            timestamps in any::<bool>(),
            name in prop::sample::select(vec!["linux", "linux-2.6.25", "freebsd-7"]),
        ) {
            let mut stack = Stack::named(name, "").unwrap();
            stack.timestamps = timestamps;
            // The whole buffer from the start, so that nothing falls outside the window.
            stack.initial_receive_window = None;
            let mut receiver = Receiver::new(&stack, 1 << 20, 5, MSS as u32);
            let mut got = vec![false; count as usize];
            let mut now = Time::from_ms(1);
            let mut order = order;
            // Repetitions anywhere, not only at the end.
            let length = order.len() as u64;
            order.swap((shuffle % length) as usize, (length - 1) as usize);
            for number in order {
                now += Duration::from_us(100);
                let is_news = !std::mem::replace(&mut got[number as usize], true);
                let segment = data(number * MSS, MSS, number + 1 == count);
                let when = receiver.on_segment(&segment, now, Duration::from_ms(50), &stack);
                prop_assert_ne!(when, AckWhen::Never);
                let in_order = got.iter().take_while(|got| **got).count() as u64;
                let is_whole = in_order == count;
                prop_assert_eq!(receiver.next(), in_order * MSS + u64::from(is_whole));
                prop_assert_eq!(receiver.delivered(), in_order * MSS);
                let arrived = got.iter().filter(|got| **got).count() as u64;
                prop_assert_eq!(receiver.arrived(), arrived * MSS);
                prop_assert_eq!(receiver.is_finished(), is_whole);
                let waiting = got[in_order as usize..].iter().filter(|got| **got).count() as u32;
                prop_assert_eq!(receiver.reassembly_segments(), waiting);

                let mut ack = Segment::blank();
                receiver.stamp(&mut ack, &stack);
                prop_assert_eq!(ack.ack, receiver.next());
                let blocks = ack.sack_blocks();
                let room = if timestamps { 3 } else { 4 };
                prop_assert!(blocks.len() <= room);
                if ack.is_dsack {
                    prop_assert!(!is_news, "a first arrival is no duplicate");
                    prop_assert_eq!((blocks[0].start, blocks[0].end - blocks[0].start),
                        (number * MSS, MSS + u64::from(number + 1 == count)));
                }
                let blocks = &blocks[usize::from(ack.is_dsack)..];
                for (index, block) in blocks.iter().enumerate() {
                    prop_assert!(block.start > ack.ack && block.start < block.end);
                    let all_got = (block.start / MSS..block.end.div_ceil(MSS).min(count))
                        .all(|number| got[number as usize]);
                    prop_assert!(all_got, "{block:?} claims what never came");
                    for other in &blocks[..index] {
                        prop_assert!(block.end < other.start || other.end < block.start, "{blocks:?}");
                    }
                }
                // RFC 2018 section 4: the first block holds the segment that triggered the ACK.
                if is_news && number >= in_order {
                    let first = blocks.first().expect("out-of-order data is reported");
                    prop_assert!(first.start <= number * MSS && number * MSS < first.end);
                }
            }
            prop_assert!(receiver.is_finished());
        }
    }

    #[test]
    fn a_small_buffer_lets_the_window_double_once_a_round_trip() {
        let mut stack = Stack::named("linux-3.2", "").unwrap();
        stack.initial_receive_window = None;
        stack.initial_receive_buffer = Some(20_000);
        let mut receiver = Receiver::new(&stack, 1 << 20, 5, MSS as u32);
        let mut windows = Vec::new();
        for round in 1..=4u64 {
            // A full window of data, one segment a ms, echoing what was sent a round trip of 100 ms ago.
            for _ in 0..receiver.window() / MSS {
                let at = Time::from_ms(100 * round);
                let segment =
                    Segment { ts_ecr: Time::from_ms(100 * (round - 1)), ..data(receiver.next(), MSS, false) };
                receiver.on_segment(&segment, at, Duration::from_ms(100), &stack);
                let mut ack = Segment::blank();
                receiver.stamp(&mut ack, &stack);
            }
            windows.push(receiver.window());
        }
        // Half of 20 kB, in units of the scale; then never more than twice what a round trip brought.
        assert!((9_900..=10_000).contains(&windows[0]), "{windows:?}");
        assert!(windows.windows(2).all(|pair| pair[1] <= 2 * pair[0] + 2 * MSS), "{windows:?}");
        assert!(windows[3] >= 3 * windows[0], "{windows:?}");
    }
}
