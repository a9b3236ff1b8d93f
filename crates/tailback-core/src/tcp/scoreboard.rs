//! What is in flight: every transmitted segment not yet cumulatively acknowledged, in sequence order.
//!
//! In flight follows RFC 6675 `SetPipe` in Linux's bookkeeping: outstanding − SACKed − lost + retransmitted.
//! Marking costs amortised constant time per segment: SACK blocks are compared with what is known already,
//! RACK walks a log in order of transmission, and loss by sequence keeps a frontier that only advances.

use std::collections::{BTreeSet, VecDeque};

use crate::tcp::segment::Range;
use crate::time::{Bytes, Duration, Rate, Time};

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// The latest transmission was a retransmission that is still in flight.
const RETRANSMITTED: u8 = 4;
const APP_LIMITED: u8 = 8;
const FIN: u8 = 16;
/// Counted as delivered, even if a timeout made us forget the SACK that said so.
const DELIVERED: u8 = 32;

/// One segment in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    len: u32,
    flags: u8,
    transmissions: u8,
    sent: Time,
    // Order of transmission across the connection.
    order: u64,
    // Highest offset sent when it was (re)transmitted: SACKs above it prove a retransmission lost.
    high: u64,
    // Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation section 3.2).
    delivered: Bytes,
    delivered_time: Time,
    first_sent: Time,
}

/// What an acknowledgement delivered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    /// Segments acknowledged cumulatively.
    pub acked_segments: u32,
    /// Segments acknowledged or SACKed for the first time.
    pub delivered_segments: u32,
    /// Their bytes.
    pub delivered_bytes: Bytes,
    /// RTT of the earliest never-retransmitted segment acknowledged now.
    pub rtt_first: Option<Duration>,
    /// RTT of the latest such segment: what algorithms want, as it excludes the delayed-ACK wait.
    pub rtt_last: Option<Duration>,
    /// RTT of the earliest never-retransmitted segment SACKed now.
    pub rtt_sack: Option<Duration>,
    /// Retransmitted data was acknowledged.
    pub acked_retransmission: bool,
    /// A segment never retransmitted was delivered below one delivered before: reordering.
    pub reordering: bool,
    /// New SACK information.
    pub sacked_segments: u32,
}

/// The delivery-rate sample of an ACK.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// The rate.
    pub rate: Rate,
    /// `delivered` when the sampled segment left.
    pub prior_delivered: Bytes,
    /// Taken while the application limited the sender.
    pub app_limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct RateWork {
    prior_delivered: Bytes,
    prior_time: Time,
    send_elapsed: Duration,
    app_limited: bool,
    any: bool,
}

/// RACK's memory of the most recently sent segment that was delivered (RFC 8985 section 5.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rack {
    /// When it was sent; zero before the first.
    pub sent: Time,
    /// Its end offset.
    pub end: u64,
    /// Its round-trip time.
    pub rtt: Duration,
}

/// The scoreboard.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    segments: VecDeque<Sent>,
    // Number of segments[0]; segments are numbered from 0 over the connection.
    base: u64,
    una: u64,
    by_time: VecDeque<(u64, u64)>,
    keeps_time_order: bool,
    to_repair: BTreeSet<u64>,
    known: Vec<Range>,
    next_order: u64,
    out: Bytes,
    sacked: Bytes,
    lost: Bytes,
    retransmitted: Bytes,
    sacked_segments: u32,
    lost_segments: u32,
    // Number of the highest SACKed segment, and the frontier below which holes were judged.
    highest_sacked: Option<u64>,
    // The highest before the ACK in hand: what it reports itself is not out of order.
    prior_highest: Option<u64>,
    frontier: u64,
    sacked_above_frontier: u32,
    delivered: Bytes,
    delivered_time: Time,
    first_sent: Time,
    app_limited_until: Bytes,
    work: RateWork,
    /// RACK's state.
    pub rack: Rack,
}

impl Scoreboard {
    /// `keeps_time_order`: RACK will ask for segments in order of transmission.
    pub fn new(keeps_time_order: bool) -> Self {
        Scoreboard {
            segments: VecDeque::new(),
            base: 0,
            una: 0,
            by_time: VecDeque::new(),
            keeps_time_order,
            to_repair: BTreeSet::new(),
            known: Vec::new(),
            next_order: 0,
            out: 0,
            sacked: 0,
            lost: 0,
            retransmitted: 0,
            sacked_segments: 0,
            lost_segments: 0,
            highest_sacked: None,
            prior_highest: None,
            frontier: 0,
            sacked_above_frontier: 0,
            delivered: 0,
            delivered_time: Time::ZERO,
            first_sent: Time::ZERO,
            app_limited_until: 0,
            work: RateWork {
                prior_delivered: 0,
                prior_time: Time::ZERO,
                send_elapsed: Duration::ZERO,
                app_limited: false,
                any: false,
            },
            rack: Rack::default(),
        }
    }

    /// Bytes between snd_una and the highest sent.
    pub fn outstanding(&self) -> Bytes {
        self.out
    }
    /// RFC 6675 pipe: outstanding − SACKed − lost + retransmitted.
    pub fn in_flight(&self) -> Bytes {
        self.out + self.retransmitted - self.sacked - self.lost
    }
    /// Bytes retransmitted and still in flight.
    pub fn retransmitted(&self) -> Bytes {
        self.retransmitted
    }
    /// Segments SACKed.
    pub fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }
    /// Segments taken for lost (retransmitted or not).
    pub fn lost_segments(&self) -> u32 {
        self.lost_segments
    }
    /// Segments outstanding.
    pub fn segments_out(&self) -> u32 {
        self.segments.len() as u32
    }
    /// Nothing outstanding.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    /// Bytes delivered over the connection.
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }
    /// Segments from the head up to and including the highest SACKed one (Linux `fackets_out`).
    pub fn forward_segments(&self) -> u64 {
        self.highest_sacked.map_or(0, |number| number + 1 - self.base)
    }
    /// Is a lost segment waiting to be retransmitted?
    pub fn has_repairs(&self) -> bool {
        !self.to_repair.is_empty()
    }
    /// A new segment left.
    pub fn push(&mut self, end: u64, len: u32, is_fin: bool, now: Time) {
        if self.segments.is_empty() {
            self.first_sent = now;
            self.delivered_time = now;
        }
        let number = self.base + self.segments.len() as u64;
        let mut flags = if self.app_limited_until > 0 { APP_LIMITED } else { 0 };
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
        if self.keeps_time_order {
            self.by_time.push_back((number, self.next_order));
        }
        self.next_order += 1;
        self.out += u64::from(len);
    }

    /// The lowest lost segment not yet retransmitted: its payload range and whether it carries FIN.
    pub fn next_repair(&self) -> Option<(Range, bool)> {
        let number = *self.to_repair.first()?;
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

    /// The segment [`Self::next_repair`] named was retransmitted.
    pub fn on_repaired(&mut self, now: Time, snd_nxt: u64) {
        let number = self.to_repair.pop_first().expect("a repair was due");
        self.retransmit(number, now, snd_nxt);
    }

    /// The last segment was retransmitted as a probe: it counts as in flight twice.
    pub fn on_probe(&mut self, now: Time, snd_nxt: u64) {
        let Some(last) = self.segments.back() else { return };
        if last.flags & (SACKED | LOST | RETRANSMITTED) == 0 {
            self.retransmit(self.base + self.segments.len() as u64 - 1, now, snd_nxt);
        }
    }

    fn retransmit(&mut self, number: u64, now: Time, snd_nxt: u64) {
        let segment = &mut self.segments[(number - self.base) as usize];
        segment.flags |= RETRANSMITTED;
        segment.transmissions = segment.transmissions.saturating_add(1);
        segment.sent = now;
        segment.order = self.next_order;
        segment.high = snd_nxt;
        segment.delivered = self.delivered;
        segment.delivered_time = self.delivered_time;
        segment.first_sent = self.first_sent;
        self.retransmitted += u64::from(segment.len);
        if self.keeps_time_order {
            self.by_time.push_back((number, self.next_order));
        }
        self.next_order += 1;
    }

    /// Take the cumulative acknowledgement and the SACK blocks of an ACK.
    pub fn on_ack(&mut self, ack: u64, blocks: &[Range], now: Time, rtt_min: Duration) -> Delivery {
        let mut delivery = Delivery::default();
        self.prior_highest = self.highest_sacked;
        for block in blocks {
            if block.end > ack && block.start >= self.una {
                self.on_sack(*block, now, rtt_min, &mut delivery);
            }
        }
        if ack > self.una {
            self.advance(ack, now, rtt_min, &mut delivery);
        }
        self.delivered += delivery.delivered_bytes;
        if delivery.delivered_segments > 0 {
            self.delivered_time = now;
            if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
                self.app_limited_until = 0;
            }
        }
        delivery
    }

    fn on_sack(&mut self, block: Range, now: Time, rtt_min: Duration, delivery: &mut Delivery) {
        // Only what the known ranges leave uncovered is news.
        let first = self.known.partition_point(|known| known.end < block.start);
        let last = self.known.partition_point(|known| known.start <= block.end);
        if last == first + 1 && self.known[first].start <= block.start && block.end <= self.known[first].end {
            return;
        }
        let mut at = block.start;
        let mut merged = block;
        for index in first..last {
            let known = self.known[index];
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
        if first == last {
            self.known.insert(first, merged);
        } else {
            self.known[first] = merged;
            self.known.drain(first + 1..last);
        }
    }

    fn sack_span(&mut self, span: Range, now: Time, rtt_min: Duration, delivery: &mut Delivery) {
        let mut index = self.segments.partition_point(|segment| segment.end <= span.start);
        while index < self.segments.len() && self.segments[index].end <= span.end {
            let number = self.base + index as u64;
            let segment = self.segments[index];
            index += 1;
            if segment.flags & SACKED != 0 || segment.end - u64::from(segment.len) < span.start {
                continue;
            }
            self.leave(number, &segment);
            let held = &mut self.segments[index - 1];
            held.flags = (held.flags & (APP_LIMITED | FIN)) | SACKED | DELIVERED;
            self.sacked += u64::from(segment.len);
            self.sacked_segments += 1;
            if number >= self.frontier {
                self.sacked_above_frontier += 1;
            }
            if segment.transmissions == 1 {
                if delivery.rtt_sack.is_none() {
                    delivery.rtt_sack = Some(now.since(segment.sent));
                }
                delivery.reordering |= self.prior_highest.is_some_and(|highest| number < highest);
            }
            self.highest_sacked = self.highest_sacked.max(Some(number));
            delivery.sacked_segments += 1;
            if segment.flags & DELIVERED == 0 {
                self.deliver(&segment, now, rtt_min, delivery);
            }
        }
    }

    fn advance(&mut self, ack: u64, now: Time, rtt_min: Duration, delivery: &mut Delivery) {
        while let Some(segment) = self.segments.front().copied() {
            if segment.end > ack {
                break;
            }
            let number = self.base;
            self.leave(number, &segment);
            self.segments.pop_front();
            self.base += 1;
            self.out -= u64::from(segment.len);
            delivery.acked_segments += 1;
            if segment.flags & SACKED != 0 {
                self.sacked -= u64::from(segment.len);
                self.sacked_segments -= 1;
                if number >= self.frontier {
                    self.sacked_above_frontier -= 1;
                }
            } else {
                if segment.transmissions == 1 {
                    // Karn's rule: only segments sent once give a sample.
                    let rtt = now.since(segment.sent);
                    delivery.rtt_first = delivery.rtt_first.or(Some(rtt));
                    delivery.rtt_last = Some(rtt);
                    delivery.reordering |= self.prior_highest.is_some_and(|highest| number < highest);
                } else {
                    delivery.acked_retransmission = true;
                }
                if segment.flags & DELIVERED == 0 {
                    self.deliver(&segment, now, rtt_min, delivery);
                }
            }
        }
        self.una = ack;
        self.frontier = self.frontier.max(self.base);
        if self.highest_sacked.is_some_and(|highest| highest < self.base) {
            self.highest_sacked = None;
        }
        if !self.known.is_empty() {
            let gone = self.known.partition_point(|known| known.end <= ack);
            self.known.drain(..gone);
        }
        while self.by_time.front().is_some_and(|(number, _)| *number < self.base) {
            self.by_time.pop_front();
        }
    }

    /// The segment no longer counts as lost or retransmitted.
    fn leave(&mut self, number: u64, segment: &Sent) {
        if segment.flags & LOST != 0 {
            self.lost -= u64::from(segment.len);
            self.lost_segments -= 1;
            self.to_repair.remove(&number);
        }
        if segment.flags & RETRANSMITTED != 0 {
            self.retransmitted -= u64::from(segment.len);
        }
    }

    fn deliver(&mut self, segment: &Sent, now: Time, rtt_min: Duration, delivery: &mut Delivery) {
        delivery.delivered_segments += 1;
        delivery.delivered_bytes += u64::from(segment.len);
        let rtt = now.since(segment.sent);
        // RFC 8985 section 6.2 step 2: a retransmission answered faster than any RTT was answered by the
        // original's ACK.
        let is_spurious = segment.transmissions > 1 && rtt < rtt_min;
        if !is_spurious && (segment.sent, segment.end) > (self.rack.sent, self.rack.end) {
            self.rack = Rack { sent: segment.sent, end: segment.end, rtt };
        }
        if !self.work.any || segment.delivered > self.work.prior_delivered {
            self.work = RateWork {
                prior_delivered: segment.delivered,
                prior_time: segment.delivered_time,
                send_elapsed: segment.sent.since(segment.first_sent),
                app_limited: segment.flags & APP_LIMITED != 0,
                any: true,
            };
            self.first_sent = segment.sent;
        }
    }

    /// The delivery-rate sample of the ACK just taken (draft-cheng section 3.3).
    pub fn rate_sample(&mut self, now: Time, rtt_min: Duration) -> Option<RateSample> {
        if !std::mem::take(&mut self.work.any) {
            return None;
        }
        let work = self.work;
        let interval = work.send_elapsed.max(now.since(work.prior_time));
        // An interval shorter than the minimum RTT would overestimate.
        if interval.is_zero() || (rtt_min != Duration::MAX && interval < rtt_min) {
            return None;
        }
        Some(RateSample {
            rate: Rate::from_bytes_over(self.delivered - work.prior_delivered, interval),
            prior_delivered: work.prior_delivered,
            app_limited: work.app_limited,
        })
    }

    /// The application had nothing more to send while the window had room.
    pub fn on_app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.in_flight()).max(1);
    }

    /// What was sent last was sent by an application that had no more, and is not yet acknowledged, or only just.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    fn mark_lost(&mut self, number: u64) -> bool {
        let segment = &mut self.segments[(number - self.base) as usize];
        if segment.flags & SACKED != 0 {
            return false;
        }
        let len = u64::from(segment.len);
        let was_lost = segment.flags & LOST != 0;
        let was_retransmitted = segment.flags & RETRANSMITTED != 0;
        if was_lost && !was_retransmitted {
            return false;
        }
        segment.flags = (segment.flags | LOST) & !RETRANSMITTED;
        if was_retransmitted {
            self.retransmitted -= len;
        }
        if !was_lost {
            self.lost += len;
            self.lost_segments += 1;
        }
        self.to_repair.insert(number);
        true
    }

    /// The head of the queue is lost (NewReno: entry, and each partial ACK). Returns segments newly lost.
    pub fn mark_head(&mut self) -> u32 {
        if self.segments.is_empty() {
            return 0;
        }
        u32::from(self.mark_lost(self.base))
    }

    /// Every hole below the highest SACKed segment is lost, unless retransmitted already (FreeBSD).
    pub fn mark_holes(&mut self) -> u32 {
        self.highest_sacked.map_or(0, |highest| self.mark_fresh_below(highest))
    }

    fn mark_fresh_below(&mut self, until: u64) -> u32 {
        let mut marked = 0;
        while self.frontier < until {
            let number = self.frontier;
            let flags = self.segments[(number - self.base) as usize].flags;
            if flags & SACKED != 0 {
                self.sacked_above_frontier -= 1;
            } else if flags & (LOST | RETRANSMITTED) == 0 {
                marked += u32::from(self.mark_lost(number));
            }
            self.frontier += 1;
        }
        marked
    }

    /// FACK: whatever lies more than `threshold` segments below the highest SACKed one is lost; a
    /// retransmission is lost once something `threshold` segments above what was highest then is SACKed.
    pub fn mark_by_fack(&mut self, threshold: u32, mss: u32) -> u32 {
        let Some(highest) = self.highest_sacked else { return 0 };
        let until = (highest + 1).saturating_sub(u64::from(threshold)).max(self.base);
        let mut marked = self.mark_fresh_below(until);
        if self.retransmitted > 0 {
            let reach = self.segments[(highest - self.base) as usize].end;
            let slack = u64::from(threshold) * u64::from(mss);
            for number in self.base..highest {
                let segment = &self.segments[(number - self.base) as usize];
                if segment.flags & RETRANSMITTED != 0 && segment.high + slack <= reach {
                    marked += u32::from(self.mark_lost(number));
                }
                if self.retransmitted == 0 {
                    break;
                }
            }
        }
        marked
    }

    /// RFC 6675 `IsLost`: at least `threshold` SACKed segments lie above.
    pub fn mark_by_sacked_above(&mut self, threshold: u32) -> u32 {
        let mut marked = 0;
        while self.sacked_above_frontier >= threshold {
            let number = self.frontier;
            let flags = self.segments[(number - self.base) as usize].flags;
            if flags & SACKED != 0 {
                if self.sacked_above_frontier == threshold {
                    break;
                }
                self.sacked_above_frontier -= 1;
            } else if flags & (LOST | RETRANSMITTED) == 0 {
                marked += u32::from(self.mark_lost(number));
            }
            self.frontier += 1;
        }
        marked
    }

    /// RACK: whatever was sent before the most recently sent delivered segment, and longer ago than its RTT
    /// plus `window`, is lost. Returns segments newly lost and when to look again (RFC 8985 section 6.2).
    pub fn mark_by_rack(&mut self, now: Time, window: Duration) -> (u32, Option<Time>) {
        let mut marked = 0;
        if self.rack.sent == Time::ZERO && self.rack.end == 0 {
            return (0, None);
        }
        while let Some(&(number, order)) = self.by_time.front() {
            if number < self.base {
                self.by_time.pop_front();
                continue;
            }
            let segment = &self.segments[(number - self.base) as usize];
            let is_stale = segment.order != order || segment.flags & SACKED != 0;
            let is_waiting = segment.flags & LOST != 0 && segment.flags & RETRANSMITTED == 0;
            if is_stale || is_waiting {
                self.by_time.pop_front();
                continue;
            }
            if (segment.sent, segment.end) >= (self.rack.sent, self.rack.end) {
                return (marked, None);
            }
            let due = segment.sent + self.rack.rtt + window;
            if due > now {
                return (marked, Some(due));
            }
            self.by_time.pop_front();
            marked += u32::from(self.mark_lost(number));
        }
        (marked, None)
    }

    /// Retransmission timeout: everything not SACKed is lost. `forget_sacks`: the receiver may have reneged.
    pub fn mark_all(&mut self, forget_sacks: bool) -> u32 {
        if forget_sacks {
            for segment in &mut self.segments {
                segment.flags &= !SACKED;
            }
            self.sacked = 0;
            self.sacked_segments = 0;
            self.known.clear();
            self.highest_sacked = None;
            self.sacked_above_frontier = 0;
        }
        let mut marked = 0;
        for number in self.base..self.base + self.segments.len() as u64 {
            marked += u32::from(self.mark_lost(number));
        }
        marked
    }

    /// Retransmission timeout with RACK: the head is lost, and whatever was sent longer ago than the RTT of the
    /// latest delivery and was not SACKed (Linux `tcp_timeout_mark_lost`).
    pub fn mark_stale(&mut self, now: Time) -> u32 {
        let mut marked = 0;
        for number in self.base..self.base + self.segments.len() as u64 {
            let sent = self.segments[(number - self.base) as usize].sent;
            if number == self.base || sent + self.rack.rtt <= now {
                marked += u32::from(self.mark_lost(number));
            }
        }
        marked
    }

    /// RFC 6675 NextSeg rule 3: the lowest segment below the highest SACKed one that is neither SACKed, nor
    /// lost, nor retransmitted.
    pub fn first_unrepaired_hole(&self) -> Option<u64> {
        let highest = self.highest_sacked?;
        (self.base..highest).find(|number| {
            let segment = &self.segments[(number - self.base) as usize];
            segment.flags & (SACKED | LOST | RETRANSMITTED) == 0 && segment.transmissions == 1
        })
    }

    /// RFC 6675 NextSeg rule 4: the highest segment that is not SACKed.
    pub fn highest_unsacked(&self) -> Option<u64> {
        let unsacked = |segment: &Sent| segment.flags & (SACKED | LOST | RETRANSMITTED) == 0;
        self.segments.iter().rposition(unsacked).map(|index| self.base + index as u64)
    }

    /// The segment of this number was retransmitted though nothing says that it is lost: it counts as in
    /// flight twice.
    pub fn on_rescued(&mut self, number: u64, now: Time, snd_nxt: u64) -> (Range, bool) {
        self.retransmit(number, now, snd_nxt);
        let segment = &self.segments[(number - self.base) as usize];
        (Range { start: segment.end - u64::from(segment.len), end: segment.end }, segment.flags & FIN != 0)
    }

    /// A reduction was undone: what is marked lost but not retransmitted is in flight after all.
    pub fn unmark(&mut self) {
        for segment in &mut self.segments {
            if segment.flags & LOST != 0 {
                segment.flags &= !LOST;
                self.lost -= u64::from(segment.len);
                self.lost_segments -= 1;
            }
        }
        self.to_repair.clear();
    }

    /// The counters agree with the segments: checked by tests after every step.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        let sum = |mask: u8| -> Bytes {
            self.segments.iter().filter(|s| s.flags & mask != 0).map(|s| u64::from(s.len)).sum()
        };
        assert_eq!(self.out, self.segments.iter().map(|s| u64::from(s.len)).sum::<u64>());
        assert_eq!(self.sacked, sum(SACKED));
        assert_eq!(self.lost, sum(LOST));
        assert_eq!(self.retransmitted, sum(RETRANSMITTED));
        let above = (self.frontier.max(self.base)..self.base + self.segments.len() as u64)
            .filter(|n| self.segments[(n - self.base) as usize].flags & SACKED != 0)
            .count();
        assert_eq!(self.sacked_above_frontier as usize, above);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u64 = 1000;

    #[derive(Clone, Debug)]
    enum Deed {
        Send(u8),
        Ack(u8),
        // First segment above the head and length.
        Sack(u8, u8),
        Repair(u8),
        Head,
        Holes,
        Fack,
        SackedAbove,
        Rack,
        Probe,
        Rescue,
        Timeout(bool),
        Stale,
        Undo,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            6 => (1u8..12).prop_map(Deed::Send),
            4 => (1u8..6).prop_map(Deed::Ack),
            6 => (1u8..20, 1u8..6).prop_map(|(at, length)| Deed::Sack(at, length)),
            6 => (1u8..4).prop_map(Deed::Repair),
            1 => Just(Deed::Head),
            1 => Just(Deed::Holes),
            2 => Just(Deed::Fack),
            2 => Just(Deed::SackedAbove),
            3 => Just(Deed::Rack),
            1 => Just(Deed::Probe),
            1 => Just(Deed::Rescue),
            1 => any::<bool>().prop_map(Deed::Timeout),
            1 => Just(Deed::Stale),
            1 => Just(Deed::Undo),
        ]
    }

    proptest! {
        #[test]
        fn the_counters_agree_with_the_segments(deeds in prop::collection::vec(deed(), 0..300)) {
            let mut board = Scoreboard::new(true);
            let (mut una, mut nxt, mut now) = (0, 0, Time::ZERO);
            for deed in deeds {
                now += Duration::from_ms(7);
                match deed {
                    Deed::Send(count) => for _ in 0..count {
                        nxt += MSS;
                        board.push(nxt, MSS as u32, false, now);
                    },
                    Deed::Ack(count) => {
                        una = (una + u64::from(count) * MSS).min(nxt);
                        let before = board.delivered();
                        let delivery = board.on_ack(una, &[], now, Duration::from_ms(7));
                        prop_assert_eq!(board.delivered() - before, delivery.delivered_bytes);
                    }
                    Deed::Sack(at, length) => {
                        let start = una + u64::from(at) * MSS;
                        let block = Range { start, end: (start + u64::from(length) * MSS).min(nxt) };
                        if block.start < block.end {
                            board.on_ack(una, &[block], now, Duration::from_ms(7));
                        }
                    }
                    Deed::Repair(count) => for _ in 0..count {
                        if let Some((range, _)) = board.next_repair() {
                            prop_assert!(una <= range.start && range.end <= nxt);
                            board.on_repaired(now, nxt);
                        }
                    },
                    Deed::Head => drop(board.mark_head()),
                    Deed::Holes => drop(board.mark_holes()),
                    Deed::Fack => drop(board.mark_by_fack(3, MSS as u32)),
                    Deed::SackedAbove => drop(board.mark_by_sacked_above(3)),
                    Deed::Rack => drop(board.mark_by_rack(now, Duration::from_ms(2))),
                    Deed::Probe => board.on_probe(now, nxt),
                    Deed::Rescue => {
                        let number = board.first_unrepaired_hole().or_else(|| board.highest_unsacked());
                        if let Some(number) = number {
                            board.on_rescued(number, now, nxt);
                        }
                    }
                    Deed::Timeout(forget) => {
                        board.mark_all(forget);
                        prop_assert_eq!(board.in_flight(), 0);
                    }
                    Deed::Stale => drop(board.mark_stale(now)),
                    Deed::Undo => board.unmark(),
                }
                board.assert_consistent();
                prop_assert_eq!(board.outstanding(), nxt - una);
                // Every segment is in flight at most twice: the original and its latest retransmission.
                prop_assert!(board.in_flight() <= 2 * board.outstanding());
                prop_assert!(board.delivered() <= nxt);
                prop_assert!(board.delivered() >= una, "what is acknowledged was delivered");
            }
        }
    }

    #[test]
    fn pipe_is_that_of_rfc6675_by_hand() {
        // Ten in flight, the first lost, three SACKed: 10 - 3 - 1, and + 1 for the retransmission.
        let mut board = Scoreboard::new(false);
        for number in 1..=10 {
            board.push(number * MSS, MSS as u32, false, Time::ZERO);
        }
        let now = Time::from_ms(100);
        board.on_ack(0, &[Range { start: MSS, end: 4 * MSS }], now, Duration::MAX);
        assert_eq!(board.mark_by_sacked_above(3), 1);
        assert_eq!(board.in_flight(), 6 * MSS);
        board.on_repaired(now, 10 * MSS);
        assert_eq!(board.in_flight(), 7 * MSS);
    }
}
