//! Segmentation offload: how many segments leave the host at once, cut from larger units.
//!
//! Law: a unit is what fits in 64 KiB and in half of the largest window that the peer had offered when it was written.
//! A burst is limited by its unit, by the window and by 1/1024 s of the pacing rate, but may have two segments. A burst
//! that could be longer after the next ACK waits for it. The last segment of a burst of several carries PSH, and so
//! does the last segment of a unit whose writer then waits for room.
//! Source: Linux 6.1 `tcp_xmit_size_goal`, `tcp_tso_autosize`, `tcp_cwnd_test`, `tcp_tso_should_defer`;
//! `__tcp_transmit_skb` and `tcp_sendmsg_locked` for PSH; `tcp_stream_alloc_skb`, `tso_fragment` and
//! `tcp_sndbuf_expand` for the buffer. Since 4.17 TCP does so even for a device without offload: the segments are then
//! cut on the way to it, so turning offload off with ethtool changes nothing in TCP.
//!
//! The send buffer counts bookkeeping for each of these pieces, so the smaller they are, the less payload it holds.
//!
//! Differs from the source: retransmissions leave segment by segment. Left out are the bookkeeping of pieces that a
//! retransmission cuts, and PSH after half of the peer's window. Each write is a separate call, which takes back the push
//! of the wait before it. The buffer grows when its writer is woken, not at each ACK while it waits.

use std::collections::VecDeque;

use super::Sender;
use crate::cc::{CongestionControl, Phase};
use crate::time::{Bytes, Duration, Time};

/// Payload of a unit plus the room that Linux reserves for headers (GSO_LEGACY_MAX_SIZE − 1).
const UNIT_AND_HEADER: Bytes = 65_535;
/// A burst is sent in 1/1024 s at the pacing rate (sk_pacing_shift = 10).
pub(super) const PER_SECOND: u64 = 1024;
/// A burst waits only if the last segment left less than this ago.
const RECENT: Duration = Duration::from_ms(1);
/// A burst waits only if the next ACK is due within this time. Linux 6.18, and 6.1, 6.6 and 6.12 since their updates of
/// October 2025. Before, the limit was half an RTT, which on a long path does not mean that an ACK is near.
const NEAR: Duration = Duration::from_ms(1);
/// Memory that Linux adds to a segment's payload and header room before rounding up to a power of two: options of 12 B
/// and `skb_shared_info`. `SEGMENT_RECORD` (`sk_buff`) is added after rounding.
const SEGMENT_HEAD: Bytes = 12 + 320;
const SEGMENT_RECORD: Bytes = 256;
/// The send buffer has room for at least twice this many segments (TCP_INIT_CWND).
const LEAST_WINDOW: u64 = 10;
/// An algorithm with its own pacing sends single segments below 1.2 Mbit/s (`bbr_min_tso_segs`).
const SLOW_BPS: u64 = 1_200_000;

/// State of the writing application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Writer {
    /// Waits for space in the send buffer.
    #[default]
    Waits,
    /// Will write as soon as nothing more can be sent.
    IsWoken,
    /// Writes until the send buffer is full.
    Writes,
    /// Has just filled the unit to be sent next; a burst of it leaves without waiting (Linux `tcp_push_one`).
    HasFilledNext,
    /// Has written half of the widest window since its last push, so everything that may leave does (Linux
    /// `forced_push`).
    Pushes,
}

/// The current burst.
#[derive(Clone, Debug, Default)]
pub(super) struct Bursts {
    /// Number of segments still to send.
    left: u16,
    /// Whether the burst has several segments, so that its last one carries PSH.
    is_several: bool,
    /// Whether a burst waits for a wider congestion window, which then counts as full.
    pub(super) waits: bool,
    /// Whether a burst waits until the next ACK or write, for any reason.
    is_deferred: bool,
    /// Offset at which the current unit ends.
    unit_end: u64,
    /// Offset up to which the application has written into the buffer.
    written: u64,
    /// Bytes written since the last push.
    unpushed: u32,
    writer: Writer,
    /// Bytes of the burst still to send whose pacing was charged when the burst began.
    pub(super) charged: u16,
    /// Offset, modulo 2³², at which the latest segment shorter than the MSS ends.
    pub(super) short_end: u32,
}

/// Segments that differ from the previous one only in their sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alike {
    /// Number of segments.
    pub number: u32,
    /// Whether the last of them also carries PSH.
    pub is_pushed: bool,
}

impl Alike {
    /// No such segments.
    pub const NONE: Alike = Alike { number: 0, is_pushed: false };
}

/// Units in the send buffer, with the offsets at which their size changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Units {
    /// Size of the units being sent; zero: nothing has been written.
    size: Bytes,
    /// Later changes of the size: from this offset on, units have this size.
    later: VecDeque<(u64, Bytes)>,
    /// Offsets up to which the application has pushed.
    pushes: VecDeque<u64>,
    /// Limit on the size of the send buffer.
    pub(super) most_buffer: Bytes,
}

impl Units {
    fn size_at(&mut self, at: u64) -> Bytes {
        while let Some((_, size)) = self.later.front().copied().filter(|(from, _)| *from <= at) {
            self.size = size;
            self.later.pop_front();
        }
        self.size
    }

    /// Size of the most recently written unit.
    fn last_size(&self) -> Bytes {
        self.later.back().map_or(self.size, |(_, size)| *size)
    }

    /// Offset at which the unit that ends at `written` begins; the unit before it ends at `from` or later.
    fn start_of_last(&self, from: u64, written: u64) -> u64 {
        let of_its_size = self.later.iter().rev().copied().find(|(at, _)| *at < written);
        let (at, size) = of_its_size.unwrap_or((from, self.size));
        let from = from.max(at);
        from + (written - 1 - from) / size * size
    }

    /// Number of units in the last `unsent` bytes.
    fn of(&self, unsent: Bytes) -> u64 {
        match self.last_size() {
            0 => 0,
            size => unsent.div_ceil(size),
        }
    }

    /// Removes the pushes at offsets up to `end`; true if there were any.
    fn are_pushed_at(&mut self, end: u64) -> bool {
        let mut is_pushed = false;
        while self.pushes.front().is_some_and(|at| *at <= end) {
            self.pushes.pop_front();
            is_pushed = true;
        }
        is_pushed
    }
}

/// Limits on the next burst, in bytes.
struct Room {
    unit: Bytes,
    is_tail: bool,
    /// What the congestion window leaves room for.
    cwnd: Bytes,
    /// What the peer's window leaves room for.
    peer: Bytes,
}

impl Sender {
    /// Whether a new segment may leave, in the current burst or in a new one. `available`: bytes ready to send.
    pub(super) fn joins_burst(&mut self, now: Time, available: Bytes) -> bool {
        if self.bursts.left == 0 && !self.begin_burst(now, available) {
            return false;
        }
        self.bursts.left -= 1;
        true
    }

    /// Whether the segment just taken from the burst, which ends at `end`, carries PSH.
    pub(super) fn is_pushed(&mut self, end: u64) -> bool {
        if self.bursts.left > 0 {
            return false;
        }
        self.board.end_burst();
        self.look_for_room();
        // PSH waits until the current unit is sent to its end.
        let has_pushed = end >= self.bursts.unit_end && self.units.are_pushed_at(end);
        self.bursts.is_several | has_pushed
    }

    /// Whether the rest of a burst is still to be sent without interruption.
    #[inline(always)]
    pub fn is_in_burst(&self) -> bool {
        self.bursts.left > 0
    }

    /// Ends the current burst: what an ACK allows to be sent starts a new one.
    pub(super) fn break_burst(&mut self) {
        self.bursts.left = 0;
        self.bursts.charged = 0;
        self.bursts.waits = false;
        self.bursts.is_deferred = false;
    }

    /// The application has written more, so a waiting burst is checked again.
    pub(super) fn look_again(&mut self) {
        self.bursts.is_deferred = false;
    }

    /// After a full segment of a burst: takes the following segments of the burst that can leave at once and differ
    /// only in their sequence number; they count as sent. The last segment of the burst is included only if it is full
    /// and not the end of the written data. Returns [`Alike::NONE`] while losses, marks or a tracking algorithm make
    /// segments differ.
    #[inline(never)]
    pub fn take_alike(&mut self, now: Time) -> Alike {
        if self.phase != Phase::Open || !self.sends_alike() {
            return Alike::NONE;
        }
        let (mss, next, left) = (u64::from(self.control.mss), self.snd_nxt, self.bursts.left);
        let is_whole = u64::from(left) * mss
            <= u64::from(self.bursts.charged).min(self.write_end.saturating_sub(next + 1));
        let number = u32::from(if is_whole { left } else { left - 1 });
        let bytes = u64::from(number) * mss;
        let end = next + bytes;
        let is_room = end < self.write_end
            && end <= self.buffered_end()
            && end <= self.peer.right_edge
            && self.board.in_flight() + bytes <= self.control.cwnd;
        if number == 0 || !is_room || u64::from(self.bursts.charged) < bytes {
            return Alike::NONE;
        }
        self.board.push_alike(number, self.control.mss, next, now);
        self.snd_nxt = end;
        self.bursts.left -= number as u16;
        self.bursts.charged -= bytes as u16;
        self.count.segments_sent += u64::from(number);
        self.on_alike_sent(now);
        Alike { number, is_pushed: self.is_pushed(end) }
    }

    /// Whether consecutive new segments differ only in their sequence number.
    #[inline]
    fn sends_alike(&self) -> bool {
        self.board.lost_segments() == 0
            && self.departed == 0
            && !self.is_followed
            && !self.is_in_frto()
            && self.stack.small_queue.is_none()
    }

    /// Payload of the next segment, if window and data suffice. A unit of which the window's edge has cut something off
    /// ends with a short segment, unless it is the last one, which the writer fills up (Linux `tcp_write_xmit`).
    #[inline]
    pub(super) fn next_piece(&self) -> Bytes {
        let mss = u64::from(self.control.mss);
        let rest = self.bursts.unit_end.saturating_sub(self.snd_nxt);
        match rest > 0 && rest < mss && self.bursts.unit_end < self.bursts.written && !self.stack.units_refill
        {
            true => rest,
            false => mss,
        }
    }

    /// What a burst may use of this rest of the peer's window: whole segments only, while a short one is in flight (Linux
    /// `tcp_minshall_check`).
    #[cold]
    fn usable_window(&self, rest: Bytes) -> Bytes {
        let has_short_out = self.bursts.short_end.wrapping_sub(self.snd_una as u32) as i32 > 0;
        if has_short_out { rest - rest % u64::from(self.control.mss) } else { rest }
    }

    fn begin_burst(&mut self, now: Time, available: Bytes) -> bool {
        let is_pushed = self.bursts.writer == Writer::HasFilledNext;
        if is_pushed {
            self.bursts.writer = Writer::Writes;
        }
        // Time alone ends no wait: Linux checks again at an ACK, at a write, or when a timer sends.
        if self.bursts.is_deferred && !is_pushed {
            return false;
        }
        let mss = u64::from(self.control.mss);
        if self.snd_nxt >= self.bursts.unit_end {
            self.bursts.unit_end = self.snd_nxt + self.units.size_at(self.snd_nxt);
        }
        let unit = match self.stack.units_refill {
            true => available.min(self.unit()),
            false => (self.bursts.unit_end - self.snd_nxt).min(available),
        };
        let room = Room {
            unit,
            is_tail: unit == available,
            cwnd: self.control.cwnd.saturating_sub(self.in_flight()),
            peer: self.peer.right_edge.saturating_sub(self.snd_nxt),
        };
        // The limit of a burst is computed only if the burst may exceed it or may have to wait.
        let mut most = None;
        let limit = room.cwnd.min(room.peer);
        if !is_pushed
            && self.may_wait(&room, now)
            && (self.is_clearly_less_than_most(limit) || limit < *most.insert(self.most_bytes()))
        {
            self.bursts.is_deferred = true;
            self.bursts.waits = room.cwnd < room.peer && room.cwnd <= room.unit;
            return false;
        }
        // Linux `tcp_cwnd_test`: at most half of the window, in whole segments; `tcp_mss_split_point`: up to the peer's
        // right edge, in whole segments too while a short one is in flight (Nagle).
        let mut window = room.cwnd.min(self.control.cwnd / 2) / mss * mss;
        if room.peer < window {
            window = if is_pushed { room.peer } else { self.usable_window(room.peer) };
        }
        let mut bytes = room.unit.min(window.max(mss)).min(room.peer.max(1));
        if bytes > self.least_of_most() * mss {
            bytes = bytes.min(most.unwrap_or_else(|| self.most_bytes()));
        }
        self.bursts.left = bytes.div_ceil(mss) as u16;
        self.bursts.is_several = self.bursts.left > 1;
        if self.control.pacing.is_some() || self.stack.pacing {
            let segments = self.count.segments_sent + u64::from(self.bursts.left);
            self.charge_pacing(bytes, segments, now);
        }
        self.bursts.charged = bytes as u16;
        true
    }

    /// The application writes a unit, or the rest of one; false if it does not write now. Once woken it writes until
    /// the send buffer is full (Linux `tcp_sendmsg_locked`). After each unit, everything that may leave does; the unit
    /// is then shorter, and the application refills it without allocating memory.
    #[inline(always)]
    pub(super) fn fill_buffer(&mut self) -> bool {
        if self.bursts.left > 0 || self.bursts.written >= self.write_end {
            return false;
        }
        self.look_for_room();
        self.bursts.writer != Writer::Waits && self.write_unit()
    }

    /// Wakes a waiting writer when a third of the buffer is free; the buffer grows first (Linux `tcp_check_space`,
    /// after each burst and after each ACK; `sk_stream_write_space`).
    #[inline(always)]
    fn look_for_room(&mut self) {
        if self.bursts.writer != Writer::Waits {
            return;
        }
        if self.send_buffer < self.units.most_buffer {
            self.grow_buffer();
        }
        // Fast path: the payload alone usually shows that the writer waits, so the bookkeeping need not be counted.
        let enough = self.enough();
        if self.bursts.written.saturating_sub(self.snd_una) <= enough {
            self.wake_writer(enough);
        }
    }

    #[inline(never)]
    fn wake_writer(&mut self, enough: Bytes) {
        if self.held(self.stack.send_bookkeeping) <= enough {
            self.bursts.writer = Writer::IsWoken;
        }
    }

    /// The application writes until it pushes or the send buffer is full.
    #[inline(always)]
    pub(super) fn write_on(&mut self) {
        while self.bursts.writer == Writer::Writes && self.fill_buffer() {}
    }

    /// Called when nothing more can be sent: an application that has pushed or was woken continues writing. False if it
    /// does not.
    #[inline(always)]
    pub(super) fn writes_more(&mut self) -> bool {
        if !self.fill_buffer() {
            return false;
        }
        self.write_on();
        true
    }

    /// Fill level of the buffer at which a waiting writer is woken: two thirds, or just below full if only payload
    /// counts.
    fn enough(&self) -> Bytes {
        if self.stack.send_bookkeeping > 0 {
            self.send_buffer / 3 * 2
        } else {
            self.send_buffer.saturating_sub(1)
        }
    }

    /// Initial send buffer. Linux `tcp_sndbuf_expand`: two windows (three for BBR) of at least ten segments, each
    /// segment at its full memory size.
    pub(super) fn grown_buffer(&self) -> Bytes {
        let windows = if self.algorithm.owns_window() { 3 } else { 2 };
        let head = SEGMENT_HEAD + self.stack.header_room;
        let segment = (u64::from(self.control.mss) + head).next_power_of_two() + SEGMENT_RECORD;
        let segments =
            self.control.cwnd_segments().max(LEAST_WINDOW).max(u64::from(self.reordering.degree) + 1);
        windows * segments * segment
    }

    /// The writer waits for room: grows the buffer, unless the congestion window is full anyway (Linux
    /// `tcp_new_space`).
    #[cold]
    fn grow_buffer(&mut self) {
        if !self.is_window_full(self.in_flight()) {
            self.send_buffer = self.send_buffer.max(self.grown_buffer()).min(self.units.most_buffer);
        }
    }

    /// Slow path of `fill_buffer`: writes a unit, unless the buffer is full.
    #[inline(never)]
    fn write_unit(&mut self) -> bool {
        let bookkeeping = self.stack.send_bookkeeping;
        let held = self.held(bookkeeping);
        let mss = u64::from(self.control.mss);
        if self.bursts.writer == Writer::IsWoken && self.bursts.written < self.snd_nxt + mss {
            // A writer that had to wait for room left the window unused (Linux checks at each `sendmsg`).
            self.look_for_app_limit();
        }
        let size = (self.unit().min(self.peer.widest / 2) / mss * mss).max(mss);
        let from = self.bursts.written;
        let start = match self.room_in_tail(size) {
            Some(tail) => tail,
            None if held < self.send_buffer => self.begin_unit(size),
            None => {
                self.bursts.writer = Writer::Waits;
                self.push(from);
                return false;
            }
        };
        let most = if bookkeeping > 0 { u64::MAX } else { self.snd_una + self.send_buffer };
        let written = (start + size).min(most).min(self.write_end).max(from);
        self.bursts.written = written;
        self.bursts.unpushed = self.bursts.unpushed.saturating_add((written - from) as u32);
        self.bursts.unit_end = self.bursts.unit_end.max(if start <= self.snd_nxt { start + size } else { 0 });
        self.bursts.writer = match written == start + size {
            _ if written == from => {
                self.push(from);
                Writer::Waits
            }
            true if u64::from(self.bursts.unpushed) > self.peer.widest / 2 => {
                self.push(written);
                Writer::Pushes
            }
            true if start <= self.snd_nxt => Writer::HasFilledNext,
            _ => Writer::Writes,
        };
        written > from
    }

    /// Pushes the data up to `end`: it leaves as soon as it may, and its last segment carries PSH if it has not left
    /// yet (Linux `tcp_mark_push`, `__tcp_push_pending_frames`).
    fn push(&mut self, end: u64) {
        if end > self.snd_nxt {
            self.units.pushes.push_back(end);
            self.bursts.unpushed = 0;
            self.bursts.is_deferred = false;
        }
    }

    /// The writer first fills the most recent unit up to `size`, if any of it is still unsent (Linux
    /// `tcp_sendmsg_locked`). Returns the offset of its unsent part, unless the unit is full.
    fn room_in_tail(&mut self, size: Bytes) -> Option<u64> {
        let (next, written) = (self.snd_nxt, self.bursts.written);
        if next >= written {
            return None;
        }
        let is_begun = written <= self.bursts.unit_end;
        let tail = if is_begun { next } else { self.units.start_of_last(self.bursts.unit_end, written) };
        if written - tail >= size {
            return None;
        }
        // The next write into pushed data takes the push back.
        if self.units.pushes.back() == Some(&written) {
            self.units.pushes.pop_back();
        }
        if !is_begun && self.units.last_size() != size {
            self.units.later.push_back((tail, size));
        }
        Some(tail)
    }

    /// Begins a unit of `size` after the written data; returns its offset.
    fn begin_unit(&mut self, size: Bytes) -> u64 {
        let start = self.bursts.written.max(self.snd_nxt);
        if self.units.size == 0 {
            self.units.size = size;
        } else if self.units.last_size() != size {
            self.units.later.push_back((start, size));
        }
        start
    }

    /// Fill level of the buffer: payload, plus bookkeeping for each piece in flight and each unsent unit.
    fn held(&self, bookkeeping: Bytes) -> Bytes {
        let units = self.units.of(self.bursts.written.saturating_sub(self.snd_nxt));
        let payload = self.bursts.written.saturating_sub(self.snd_una);
        payload + bookkeeping * (u64::from(self.board.pieces_out()) + units)
    }

    /// Offset up to which data is in the send buffer.
    pub(super) fn buffered_end(&self) -> u64 {
        match self.stack.burst_segments > 1 {
            true => self.bursts.written,
            false => self.write_end.min(self.snd_una + self.send_buffer),
        }
    }

    /// Linux `tcp_tso_should_defer`, for a burst shorter than the maximum.
    #[inline]
    fn may_wait(&self, room: &Room, now: Time) -> bool {
        let limit = room.cwnd.min(room.peer);
        limit < self.control.cwnd.min(self.send_window()) / 3
            && (room.is_tail || limit < room.unit)
            && room.unit > u64::from(self.control.mss)
            && self.phase < Phase::Recovery
            // With pacing, the last segment counts as sent when the next one may leave (`tcp_wstamp_ns`).
            && now.since(self.output.last_sent.max(self.pacing.next_at)) <= RECENT
            && self.is_ack_near(now)
            && !(self.wants_fin && room.is_tail && limit > room.unit)
    }

    /// Whether `limit` plus one segment is below the largest burst at the stack's own rate. Rounding down then makes no
    /// difference, so no division is needed.
    #[inline]
    fn is_clearly_less_than_most(&self, limit: Bytes) -> bool {
        let mss = u64::from(self.control.mss);
        let with_one_more = limit + mss;
        self.control.pacing.is_none()
            && with_one_more <= self.unit()
            && limit < u64::from(self.stack.burst_segments) * mss
            && self.has_window_rate(with_one_more * PER_SECOND)
    }

    /// Whether the ACK of the oldest segment is due within a millisecond, or within half an RTT if that is less.
    #[inline]
    fn is_ack_near(&self, now: Time) -> bool {
        let srtt = self.rtt.srtt();
        let near = (srtt / 2).min(NEAR);
        self.board.head_sent().is_some_and(|at| at + srtt <= now + near)
    }

    /// Maximum payload of a unit.
    fn unit(&self) -> Bytes {
        UNIT_AND_HEADER - self.stack.header_room
    }

    fn most_bytes(&self) -> Bytes {
        u64::from(self.most_segments()) * u64::from(self.control.mss)
    }

    /// Segments that a burst may always have (`bbr_min_tso_segs`).
    fn least_of_most(&self) -> u64 {
        if self.control.pacing.is_some_and(|rate| rate.as_bps() < SLOW_BPS) { 1 } else { 2 }
    }

    /// Maximum segments of a burst: Linux `tcp_tso_autosize`, or the stack's limit.
    pub(super) fn most_segments(&self) -> u32 {
        let most = self.stack.burst_segments;
        if !self.stack.burst_autosize {
            return most;
        }
        let round_trip = self.rtt.min().as_us() >> 9;
        // Paths with a short RTT allow longer bursts (tcp_tso_rtt_log).
        let near = if round_trip < 32 { self.unit() >> round_trip } else { 0 };
        let bytes = (self.rate_bytes() / PER_SECOND + near).min(self.unit());
        (bytes / u64::from(self.control.mss)).max(self.least_of_most()).min(u64::from(most)) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::tcp::segment::{Flags, Segment};
    use crate::tcp::stack::Stack;
    use crate::time::Rate;

    const MSS: u64 = 1000;

    /// Reference model: Linux `tcp_tso_should_defer`, then the size of the burst, with every limit computed first.
    fn segments(sender: &Sender, unit: Bytes, available: Bytes, now: Time) -> Option<u64> {
        let cwnd = sender.control.cwnd.saturating_sub(sender.in_flight());
        let peer = sender.peer.right_edge.saturating_sub(sender.snd_nxt);
        let most = u64::from(sender.most_segments()) * MSS;
        let (limit, is_tail) = (cwnd.min(peer), unit == available);
        let srtt = sender.rtt.srtt();
        let is_ack_near = sender
            .board
            .head_sent()
            .is_some_and(|at| at + srtt <= now + (srtt / 2).min(Duration::from_ms(1)));
        let could_grow = unit > MSS
            && now.since(sender.output.last_sent.max(sender.pacing.next_at)) <= Duration::from_ms(1)
            && limit < most
            && (is_tail || limit < unit)
            && limit < sender.control.cwnd.min(sender.send_window()) / 3;
        if could_grow && is_ack_near && !(sender.wants_fin && is_tail && limit > unit) {
            return None;
        }
        let window = cwnd.min(sender.control.cwnd / 2) / MSS * MSS;
        let edge = if sender.bursts.short_end > 0 { peer / MSS * MSS } else { peer };
        Some(unit.min(most).min(window.min(edge).max(MSS)).min(peer.max(1)).div_ceil(MSS))
    }

    proptest! {
        #[test]
        fn a_burst_is_as_long_as_if_all_its_bounds_were_worked_out(
            (cwnd, flight, window) in (1u64..60_000, 1u64..40, 1u64..200_000),
            (unit, beyond, wants_fin) in (1u64..70_000, prop_oneof![Just(0), 1u64..9000], any::<bool>()),
            (srtt, age, since) in (100u64..40_000, 0u64..40_000, prop_oneof![Just(0), 0u64..3000]),
            mbit in prop_oneof![Just(0), 1u64..300],
            [autosize, has_short, refills] in any::<[bool; 3]>(),
        ) {
            let mut stack = Stack::named("linux", "stack").unwrap();
            (stack.burst_autosize, stack.units_refill) = (autosize, refills);
            let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
            let mut sender = Sender::new(Arc::new(stack), algorithm, MSS as u32, 1 << 22);
            let sent = Time::from_ms(100);
            sender.on_established(sent, 1 << 20, Some(Duration::from_us(srtt)));
            for _ in 0..flight {
                sender.snd_nxt += MSS;
                sender.board.push(sender.snd_nxt, MSS as u32, false, sent);
            }
            sender.control.cwnd = cwnd.max(MSS);
            sender.control.pacing = (mbit > 0).then(|| Rate::from_bps(mbit * 100_000));
            sender.peer.right_edge = sender.snd_nxt + window;
            sender.bursts.unit_end = sender.snd_nxt + unit;
            sender.wants_fin = wants_fin;
            sender.bursts.short_end = if has_short { sender.snd_nxt as u32 } else { 0 };
            let now = sent + Duration::from_us(age);
            sender.output.last_sent = sent + Duration::from_us(age.saturating_sub(since));
            // What a burst lacks comes from the next unit, if the stack refills the one at the head.
            let head = if refills { (unit + beyond).min(sender.unit()) } else { unit };
            let expected = segments(&sender, head, unit + beyond, now);
            let begins = sender.begin_burst(now, unit + beyond);
            prop_assert_eq!(begins.then_some(u64::from(sender.bursts.left)), expected);
            prop_assert_eq!(sender.bursts.is_deferred, expected.is_none());
        }
    }

    /// A sender that has sent what `window` segments and the buffer allow, and then receives two ACKs of thirty
    /// segments.
    fn limited(send_buffer: u64, window: u64) -> Sender {
        const MSS: u64 = 1448;
        let mut stack = Stack::named("linux", "stack").unwrap();
        // Units leave whole, so none is refilled without taking memory.
        stack.burst_autosize = false;
        let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
        let mut sender = Sender::new(Arc::new(stack), algorithm, MSS as u32, send_buffer * MSS);
        sender.on_established(Time::from_ms(100), 1 << 20, Some(Duration::from_ms(100)));
        (sender.control.cwnd, sender.control.ssthresh) = (window * MSS, window * MSS);
        sender.write_forever();
        let mut now = Time::from_ms(100);
        for acked in [0, 30, 60] {
            if acked > 0 {
                let ack =
                    Segment { ack: acked * MSS, window: 1 << 20, flags: Flags::ACK, ..Segment::blank() };
                sender.on_ack(&ack, now, &mut Vec::new());
            }
            while sender.next_segment(now).is_some() {}
            sender.settle(now);
            now += Duration::from_ms(100);
        }
        sender
    }

    #[test]
    fn units_are_cut_by_the_window_of_their_time_as_the_buffer_grows() {
        // Linux: 2 · 10 · (4096 + 256) B at first, and 2 · 10 · (2048 + 256) with less room for headers. The peer's window of
        // 64 KB bounds the units written into that at 22 segments, and 64 KiB those written later.
        const MSS: u64 = 1448;
        for (grows, header_room, first, later) in
            [(true, 320, 87_040, 45), (true, 256, 46_080, 45), (false, 320, 1 << 22, 22)]
        {
            let mut stack = Stack::named("linux", "stack").unwrap();
            (stack.send_buffer_grows, stack.header_room) = (grows, header_room);
            let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
            let mut sender = Sender::new(Arc::new(stack), algorithm, MSS as u32, 1 << 22);
            let mut now = Time::from_ms(100);
            sender.on_established(now, 65_535, Some(Duration::from_ms(100)));
            sender.write_forever();
            while sender.next_segment(now).is_some() {}
            sender.settle(now);
            assert_eq!((sender.send_buffer(), sender.units.last_size()), (first, 22 * MSS));
            for _ in 0..4 {
                now += Duration::from_ms(100);
                let ack =
                    Segment { ack: sender.snd_nxt, window: 1 << 20, flags: Flags::ACK, ..Segment::blank() };
                sender.on_ack(&ack, now, &mut Vec::new());
                while sender.next_segment(now).is_some() {}
                sender.settle(now);
            }
            assert_eq!(sender.units.last_size(), later * MSS);
            let windows = sender.control.cwnd_segments() * first / 10;
            assert!(!grows || (windows / 2..=windows).contains(&sender.send_buffer()));
        }
    }

    #[test]
    fn the_writer_fills_the_buffer_as_linux_does() {
        // SO_MEMINFO and send(2) on Linux 6.1.192, NewReno, 6.184 Mbit/s, 24.4 ms: segments acknowledged, segments written,
        // bytes of the buffer, and what it then counts.
        const MSS: u64 = 1448;
        let kernel = [
            (0, 32, 46_080, 54_016),
            (12, 78, 101_376, 112_208),
            (24, 124, 156_672, 170_400),
            (58, 261, 313_344, 341_304),
        ];
        let mut stack = Stack::named("linux", "stack").unwrap();
        stack.header_room = 256;
        let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
        let mut sender = Sender::new(Arc::new(stack), algorithm, MSS as u32, 1 << 22);
        let mut now = Time::from_us(24_551);
        sender.on_established(now, 65_160, Some(Duration::from_us(24_551)));
        sender.write_forever();
        let mut seen: Vec<(u64, u64, Bytes, Bytes)> = Vec::new();
        for acked in (0..=16).chain((18..=28).step_by(2)).chain(29..=58) {
            if acked > 0 {
                let arrived = 51_022 + 1_940 * (acked - 1) + if acked > 10 { 6_998 } else { 0 };
                now = Time::from_us(arrived);
                let window = 64_640 + 2 * MSS as u32 * (acked.max(28) - 28) as u32;
                let ack = Segment {
                    ack: acked * MSS,
                    window: window.into(),
                    flags: Flags::ACK,
                    ..Segment::blank()
                };
                sender.on_ack(&ack, now, &mut Vec::new());
            }
            while sender.next_segment(now).is_some() {}
            sender.settle(now);
            let written = sender.bursts.written / MSS;
            if seen.last().is_none_or(|last| last.1 != written) {
                let held = sender.held(sender.stack.send_bookkeeping);
                seen.push((acked, written, sender.send_buffer(), held));
            }
        }
        assert_eq!(seen, kernel);
    }

    #[test]
    fn a_send_buffer_that_is_the_limit_counts_as_the_application() {
        assert!(limited(50, 200).board.is_app_limited(), "the window has room, the buffer has none");
        assert!(!limited(1000, 30).board.is_app_limited(), "the window is the limit");
    }

    proptest! {
        #[test]
        fn what_is_seen_without_a_division_is_so(
            (cwnd, ssthresh) in (1u64..1 << 34, 1u64..1 << 34),
            (srtt_us, min_us) in (0u64..3_000_000, 1u64..3_000_000),
            (limit, mss) in (0u64..1 << 17, 500u32..9000),
        ) {
            let stack = Arc::new(Stack::named("linux", "stack").unwrap());
            let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
            let mut sender = Sender::new(stack.clone(), algorithm, mss, 1 << 20);
            let (srtt, min) = (Duration::from_us(srtt_us), Duration::from_us(min_us));
            sender.rtt.on_sample(&stack, srtt, min, 0, 0);
            (sender.control.cwnd, sender.control.ssthresh) = (cwnd, ssthresh);
            let most = sender.most_bytes();
            prop_assert!(!sender.is_clearly_less_than_most(limit) || limit < most);
            // If only the rate decides, two segments less are below the limit by the quick test too.
            let is_by_rate = min_us >= 32 << 9 && most >= 4 * u64::from(mss);
            let is_most = most == u64::from(stack.burst_segments) * u64::from(mss);
            prop_assert!(
                !is_by_rate || is_most || sender.is_clearly_less_than_most(most - 2 * u64::from(mss))
            );
        }
    }
}
