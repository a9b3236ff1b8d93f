//! The scoreboard: every transmitted segment not yet cumulatively acknowledged, in sequence order.
//!
//! The amount in flight follows RFC 6675 `SetPipe` in Linux's bookkeeping: outstanding − SACKed − lost + retransmitted.
//! Marking takes amortised constant time per segment: SACK blocks are compared with the ranges already known, RACK
//! walks a log in order of transmission, and loss detection by sequence keeps a frontier that only advances.
//!
//! This file holds the segments; its modules are `acks` (what an ACK delivers), `lost` (what is declared lost) and
//! `rate` (delivery rate).

mod acks;
mod lost;
mod rate;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::slice::from_ref;

use prefetch_index::prefetch_index;

pub use rate::RateSample;
use rate::RateWork;

use crate::cc::Loss;
use crate::tcp::cold::{AtRest, ColdState};
use crate::tcp::segment::Range;
use crate::time::{Bytes, Duration, Time};

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// The latest transmission was a retransmission that is still in flight.
const RETRANSMITTED: u8 = 4;
const APP_LIMITED: u8 = 8;
const FIN: u8 = 16;
/// Counted as delivered, even if a timeout discarded the SACK that reported it.
const DELIVERED: u8 = 32;
/// The last segment of a piece of the send queue.
const PIECE_END: u8 = 64;

/// One segment in flight, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Sent {
    end: u64,
    len: u32,
    flags: u8,
    transmissions: u8,
    sent: Time,
    // Number of its latest transmission, in order over the connection.
    order: u64,
    // Highest offset sent at its latest transmission: a SACK above it proves a retransmission lost.
    high: u64,
    // Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation section 3.2).
    delivered: Bytes,
    delivered_time: Time,
    first_sent: Time,
}

/// Capacity, in segments, up to which the memory of a finished flight is kept for reuse.
const LONGEST_SPARE: usize = 16;

/// Empty memory for a flight.
#[derive(Debug)]
pub struct Flight(VecDeque<Sent>);

/// What an acknowledgement delivered.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Segments acknowledged cumulatively.
    pub acked_segments: u32,
    /// Segments acknowledged or SACKed for the first time.
    pub delivered_segments: u32,
    /// Bytes of the delivered segments.
    pub delivered_bytes: Bytes,
    /// RTT of the earliest never-retransmitted segment acknowledged now.
    pub rtt_first: Option<Duration>,
    /// RTT of the latest such segment. Algorithms use it because it excludes the wait for a delayed ACK.
    pub rtt_last: Option<Duration>,
    /// RTT of the earliest never-retransmitted segment SACKed now.
    pub rtt_sack: Option<Duration>,
    /// RTT of the latest such segment.
    pub rtt_sack_last: Option<Duration>,
    /// Retransmitted data was acknowledged.
    pub acked_retransmission: bool,
    /// Reordering in segments: the distance from the highest SACKed segment down to the lowest never-retransmitted
    /// segment that arrived after it; 0: no reordering.
    pub late_by: u64,
    /// Lowest end offset of the newly delivered segments that were sent only once; `u64::MAX`: none.
    pub original_end: u64,
    /// Newly SACKed segments.
    pub sacked_segments: u32,
    /// State of the segment that gives the rate sample.
    work: Option<RateWork>,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            acked_segments: 0,
            delivered_segments: 0,
            delivered_bytes: 0,
            rtt_first: None,
            rtt_last: None,
            rtt_sack: None,
            rtt_sack_last: None,
            acked_retransmission: false,
            late_by: 0,
            original_end: u64::MAX,
            sacked_segments: 0,
            work: None,
        }
    }
}

/// RACK's record of the most recently sent segment that was delivered (RFC 8985 section 5.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rack {
    /// When it was sent; zero before the first.
    pub sent: Time,
    /// Its end offset.
    pub end: u64,
    /// RTT of the most recently delivered segment, whether or not it is the one sent last.
    pub rtt: Duration,
    // Whether that transmission was a retransmission.
    is_again: bool,
}

/// Whether a clock with granularity `tick` reads less at `one` than at `other`.
pub fn reads_before(one: Time, other: Time, tick: Duration) -> bool {
    match tick.as_ps() {
        0 => one < other,
        tick => one.as_ps() / tick < other.as_ps() / tick,
    }
}

/// State of a flight with segments that are SACKed, lost or retransmitted.
#[derive(Clone, PartialEq, Debug)]
struct Disturbance {
    // For RACK: retransmissions not yet checked for loss, as (segment number, transmission number), in order.
    again: VecDeque<(u64, u64)>,
    // Lost segments to retransmit, by ascending number: nearly all are lost and repaired in order.
    to_repair: VecDeque<u64>,
    known: VecDeque<Range>,
    // SACK blocks of the last ACK that had any. ACKs repeat them, so they need no further work.
    heard: [Range; 4],
    sacked: Bytes,
    lost: Bytes,
    retransmitted: Bytes,
    retransmitted_segments: u32,
    sacked_segments: u32,
    lost_segments: u32,
    sacked_above_frontier: u32,
    // Number of the highest SACKed segment. Holes below `frontier` have been checked for loss.
    highest_sacked: Option<u64>,
    // `highest_sacked` before the current ACK: segments that one ACK reports together are not reordered.
    prior_highest: Option<u64>,
    // Lowest never-retransmitted segment that the current ACK SACKs below `prior_highest`.
    lowest_late: u64,
    frontier: u64,
}

impl AtRest for Disturbance {
    fn at_rest() -> &'static Self {
        static AT_REST: Disturbance = Disturbance {
            again: VecDeque::new(),
            to_repair: VecDeque::new(),
            known: VecDeque::new(),
            heard: [Range { start: 0, end: 0 }; 4],
            sacked: 0,
            lost: 0,
            retransmitted: 0,
            retransmitted_segments: 0,
            sacked_segments: 0,
            lost_segments: 0,
            sacked_above_frontier: 0,
            highest_sacked: None,
            prior_highest: None,
            lowest_late: u64::MAX,
            frontier: 0,
        };
        &AT_REST
    }
}

impl Disturbance {
    /// Whether nothing is left but a frontier at or below the head.
    fn is_over(&self, base: u64) -> bool {
        self.known.is_empty()
            && self.again.is_empty()
            && self.to_repair.is_empty()
            && self.highest_sacked.is_none()
            && self.sacked_segments == 0
            && self.lost_segments == 0
            && self.retransmitted_segments == 0
            && self.frontier <= base
    }
}

/// The scoreboard. Fields in order of use: an undisturbed flight touches only the first two cache lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Scoreboard {
    segments: VecDeque<Sent>,
    // Number of `segments[0]`; segments are numbered from 0 over the connection.
    base: u64,
    una: u64,
    next_order: u64,
    out: Bytes,
    disturbed: ColdState<Disturbance>,
    app_limited_until: Bytes,
    delivered: Bytes,
    delivered_time: Time,
    first_sent: Time,
    // Bytes marked lost over the connection.
    lost: Bytes,
    /// RACK's state.
    pub rack: Rack,
    // Number of segments that end a piece of the send queue.
    pieces_out: u32,
    // Something has been delivered since RACK last ran.
    has_rack_news: bool,
    keeps_time_order: bool,
    // For RACK: first transmissions from this segment number on have not been checked for loss.
    unjudged: u64,
    timestamp_tick: Duration,
    /// Segments newly declared lost, if an instrument records them.
    pub losses: Option<Vec<Loss>>,
}

impl Scoreboard {
    /// `keeps_time_order`: RACK will need segments in order of transmission. `timestamp_tick`: granularity of the clock
    /// behind the echoed timestamps.
    pub fn new(keeps_time_order: bool, timestamp_tick: Duration) -> Self {
        Scoreboard {
            segments: VecDeque::new(),
            base: 0,
            una: 0,
            next_order: 0,
            out: 0,
            disturbed: ColdState::default(),
            app_limited_until: 0,
            delivered: 0,
            delivered_time: Time::ZERO,
            first_sent: Time::ZERO,
            lost: 0,
            rack: Rack::default(),
            pieces_out: 0,
            has_rack_news: false,
            keeps_time_order,
            unjudged: 0,
            timestamp_tick,
            losses: None,
        }
    }

    /// See [`super::endpoint::Endpoint::fetch`].
    #[inline]
    pub fn fetch(&self) {
        prefetch_index(from_ref(&self.segments), 0);
        prefetch_index(from_ref(&self.out), 0);
        prefetch_index(from_ref(&self.rack.end), 0);
    }
    /// See [`super::sender::Sender::fetch_flight`].
    #[inline]
    pub fn fetch_flight(&self) {
        let (one, other) = self.segments.as_slices();
        prefetch_index(one, 0);
        // The slot of the next segment, unless the ring buffer wraps there.
        let last = if other.is_empty() { one } else { other };
        prefetch_index(last, last.len());
    }
    /// See [`super::sender::Sender::take_flight`]. Shrinks a large buffer.
    pub fn take_flight(&mut self) -> Flight {
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        segments.shrink_to(LONGEST_SPARE);
        Flight(segments)
    }
    /// See [`super::sender::Sender::give_flight`].
    pub fn give_flight(&mut self, Flight(segments): Flight) {
        debug_assert!(self.segments.is_empty() && segments.is_empty(), "a flight is under way");
        self.segments = segments;
    }
    /// A flight of several segments begins: allocates once rather than as it grows.
    #[inline]
    pub fn make_room(&mut self) {
        if self.segments.capacity() < LONGEST_SPARE {
            self.segments.reserve(LONGEST_SPARE);
        }
    }
    /// Bytes between snd_una and the highest sent.
    pub fn outstanding(&self) -> Bytes {
        self.out
    }
    /// RFC 6675 pipe: outstanding − SACKed − lost + retransmitted.
    #[inline(always)]
    pub fn in_flight(&self) -> Bytes {
        if self.disturbed.is_at_rest() {
            return self.out;
        }
        let it = &*self.disturbed;
        self.out + it.retransmitted - it.sacked - it.lost
    }
    /// Number of pieces in which the sender keeps what is in flight: a burst is one, SACKs cut and join them.
    pub fn pieces_out(&self) -> u32 {
        self.pieces_out
    }
    /// Marks the most recently sent segment as the last of a burst.
    #[inline]
    pub fn end_burst(&mut self) {
        if let Some(last) = self.segments.len().checked_sub(1) {
            self.end_piece(last, true);
        }
    }
    /// Makes the segment at `index` the last of its piece, or joins the piece with the next one.
    #[inline]
    fn end_piece(&mut self, index: usize, ends: bool) {
        let segment = &mut self.segments[index];
        match (segment.flags & PIECE_END != 0, ends) {
            (false, true) => self.pieces_out += 1,
            (true, false) => self.pieces_out -= 1,
            _ => return,
        }
        segment.flags ^= PIECE_END;
    }
    /// The segment at `index` has just been SACKed: Linux cuts it from its neighbours that are not, and joins it with
    /// those that are (`tcp_match_skb_to_sack`, `tcp_shift_skb_data`).
    fn reshape(&mut self, index: usize) {
        let is_sacked = |at: usize| self.segments.get(at).is_some_and(|segment| segment.flags & SACKED != 0);
        let joins_next = is_sacked(index + 1);
        if let Some(before) = index.checked_sub(1) {
            let joins_it = is_sacked(before);
            self.end_piece(before, !joins_it);
        }
        self.end_piece(index, !joins_next);
    }
    /// Bytes retransmitted and still in flight.
    pub fn retransmitted(&self) -> Bytes {
        self.disturbed.retransmitted
    }
    /// Segments retransmitted and still in flight.
    pub fn retransmitted_segments(&self) -> u32 {
        self.disturbed.retransmitted_segments
    }
    /// Whether a retransmission is in flight, or the head has been retransmitted (Linux `tcp_any_retrans_done`).
    pub fn has_retransmissions(&self) -> bool {
        self.disturbed.retransmitted > 0 || self.segments.front().is_some_and(|head| head.transmissions > 1)
    }
    /// Segments SACKed.
    pub fn sacked_segments(&self) -> u32 {
        self.disturbed.sacked_segments
    }
    /// Segments declared lost (retransmitted or not).
    pub fn lost_segments(&self) -> u32 {
        self.disturbed.lost_segments
    }
    /// Segments outstanding.
    pub fn segments_out(&self) -> u32 {
        self.segments.len() as u32
    }
    /// Whether anything was delivered since the last call.
    pub fn take_rack_news(&mut self) -> bool {
        std::mem::take(&mut self.has_rack_news)
    }
    /// Makes the next [`Self::take_rack_news`] true.
    pub fn renew_rack_news(&mut self) {
        self.has_rack_news = true;
    }
    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    /// When the head was sent last.
    pub fn head_sent(&self) -> Option<Time> {
        self.segments.front().map(|segment| segment.sent)
    }
    /// Bytes delivered over the connection.
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }
    /// When data was last delivered, or when sending began again with nothing in flight.
    pub fn delivered_at(&self) -> Time {
        self.delivered_time
    }
    /// Bytes marked lost over the connection; a segment that is lost again counts again.
    pub fn lost(&self) -> Bytes {
        self.lost
    }
    /// Segments from the head up to and including the highest SACKed one (Linux `fackets_out`).
    pub fn forward_segments(&self) -> u64 {
        self.disturbed.highest_sacked.map_or(0, |number| number + 1 - self.base)
    }
    /// For a D-SACK of `block` above the cumulative ACK whose segment is SACKed and was retransmitted: the distance in
    /// segments from there to the highest SACKed one. The original was late by that many.
    pub fn duplicate_distance(&self, block: Range) -> Option<u64> {
        let index = self.segments.partition_point(|segment| segment.end <= block.start);
        let segment = self.segments.get(index)?;
        let was_late = segment.flags & SACKED != 0 && segment.transmissions > 1;
        was_late.then(|| {
            self.disturbed
                .highest_sacked
                .map_or(0, |highest| (highest + 1).saturating_sub(self.base + index as u64))
        })
    }
    /// Whether a lost segment waits to be retransmitted.
    #[inline]
    pub fn has_repairs(&self) -> bool {
        !self.disturbed.is_at_rest()
            && self.disturbed.lost_segments > 0
            && !self.disturbed.to_repair.is_empty()
    }
    /// Appends a new segment.
    #[inline(always)]
    pub fn push(&mut self, end: u64, len: u32, is_fin: bool, now: Time) {
        if self.segments.is_empty() {
            self.first_sent = now;
            self.delivered_time = now;
        }
        let mut flags = self.limited_flag();
        if is_fin {
            flags |= FIN;
        }
        self.segments.push_back(Sent {
            end,
            len,
            flags,
            transmissions: 1,
            sent: now,
            order: self.next_order,
            high: end,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
        });
        self.next_order += 1;
        self.out += u64::from(len);
    }

    /// Appends `number` segments of `len` bytes, the first at `start`, as [`Self::push`] does for each. Other segments
    /// must be in flight.
    #[inline]
    pub fn push_alike(&mut self, number: u32, len: u32, start: u64, now: Time) {
        let mut segment = Sent {
            end: start,
            len,
            flags: self.limited_flag(),
            transmissions: 1,
            sent: now,
            order: self.next_order,
            high: start,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
        };
        self.segments.extend((0..number).map(|_| {
            segment.end += u64::from(len);
            segment.high = segment.end;
            let sent = segment;
            segment.order += 1;
            sent
        }));
        self.next_order += u64::from(number);
        self.out += u64::from(number) * u64::from(len);
    }

    /// The lowest lost segment not yet retransmitted: its payload range and whether it carries FIN.
    #[inline]
    pub fn next_repair(&self) -> Option<(Range, bool)> {
        if self.disturbed.is_at_rest() || self.disturbed.lost_segments == 0 {
            return None;
        }
        let number = *self.disturbed.to_repair.front()?;
        let segment = &self.segments[(number - self.base) as usize];
        Some((
            Range { start: segment.end - u64::from(segment.len), end: segment.end },
            segment.flags & FIN != 0,
        ))
    }

    /// The highest segment sent, for a tail loss probe.
    pub fn last(&self) -> Option<(Range, bool)> {
        let segment = self.segments.back()?;
        Some((
            Range { start: segment.end - u64::from(segment.len), end: segment.end },
            segment.flags & FIN != 0,
        ))
    }

    /// Records the retransmission of the segment that [`Self::next_repair`] returned.
    pub fn on_repaired(&mut self, now: Time, snd_nxt: u64) {
        let number = self.disturbed.to_repair.pop_front().expect("a repair was due");
        self.retransmit(number, now, snd_nxt);
    }

    /// Records a probe that repeats the last segment. It counts as in flight once: Linux `tcp_send_loss_probe` leaves
    /// `retrans_out` unchanged.
    pub fn on_probe(&mut self, now: Time, snd_nxt: u64) {
        let Some(last) = self.segments.back() else { return };
        if last.flags & (SACKED | LOST | RETRANSMITTED) == 0 {
            self.send_again(self.base + self.segments.len() as u64 - 1, now, snd_nxt);
        }
    }

    fn retransmit(&mut self, number: u64, now: Time, snd_nxt: u64) {
        let segment = &mut self.segments[(number - self.base) as usize];
        segment.flags |= RETRANSMITTED;
        self.disturbed.retransmitted += u64::from(segment.len);
        self.disturbed.retransmitted_segments += 1;
        self.send_again(number, now, snd_nxt);
    }

    /// What a segment that leaves now says of the application (Linux `tcp_rate_skb_sent`).
    #[inline(always)]
    fn limited_flag(&self) -> u8 {
        if self.app_limited_until > 0 { APP_LIMITED } else { 0 }
    }

    fn send_again(&mut self, number: u64, now: Time, snd_nxt: u64) {
        let limited = self.limited_flag();
        let segment = &mut self.segments[(number - self.base) as usize];
        segment.flags = segment.flags & !APP_LIMITED | limited;
        segment.transmissions = segment.transmissions.saturating_add(1);
        segment.sent = now;
        segment.order = self.next_order;
        segment.high = snd_nxt;
        segment.delivered = self.delivered;
        segment.delivered_time = self.delivered_time;
        segment.first_sent = self.first_sent;
        if self.keeps_time_order {
            self.disturbed.again.push_back((number, self.next_order));
        }
        self.next_order += 1;
    }

    /// Records the retransmission of a segment that is not known to be lost: it counts as in flight twice.
    pub fn on_rescued(&mut self, number: u64, now: Time, snd_nxt: u64) -> (Range, bool) {
        self.retransmit(number, now, snd_nxt);
        let segment = &self.segments[(number - self.base) as usize];
        (Range { start: segment.end - u64::from(segment.len), end: segment.end }, segment.flags & FIN != 0)
    }

    /// Checks the counters against the segments; tests call it after every step.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        let sum = |mask: u8| -> Bytes {
            self.segments.iter().filter(|s| s.flags & mask != 0).map(|s| u64::from(s.len)).sum()
        };
        assert_eq!(self.out, self.segments.iter().map(|s| u64::from(s.len)).sum::<u64>());
        assert_eq!(self.disturbed.sacked, sum(SACKED));
        assert_eq!(self.disturbed.lost, sum(LOST));
        assert_eq!(self.disturbed.retransmitted, sum(RETRANSMITTED));
        let pieces = self.segments.iter().filter(|s| s.flags & PIECE_END != 0).count();
        assert_eq!(self.pieces_out as usize, pieces);
        let again = self.segments.iter().filter(|s| s.flags & RETRANSMITTED != 0).count();
        assert_eq!(self.disturbed.retransmitted_segments as usize, again);
        let waits = |s: &Sent| s.flags & LOST != 0 && s.flags & RETRANSMITTED == 0;
        let waiting = (self.base..).zip(&self.segments).filter(|(_, s)| waits(s)).map(|(number, _)| number);
        assert_eq!(self.disturbed.to_repair, waiting.collect::<Vec<_>>());
        let above = (self.disturbed.frontier.max(self.base)..self.base + self.segments.len() as u64)
            .filter(|n| self.segments[(n - self.base) as usize].flags & SACKED != 0)
            .count();
        assert_eq!(self.disturbed.sacked_above_frontier as usize, above);
    }
}
