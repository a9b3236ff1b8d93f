//! How much leaves the host at once: bursts cut from larger units.
//!
//! Law: a unit is what fits in 64 KiB and in half of the largest window that the peer has offered when it is written. A
//! burst is what one unit, the window and 1/1024 s of the pacing rate hold, but at least two segments. A burst that
//! could grow with the next ACK waits for it. The last segment of a burst of several carries PSH, and so does that of a
//! unit whose writer then waits for room.
//! Source: Linux 6.1 `tcp_xmit_size_goal`, `tcp_tso_autosize`, `tcp_cwnd_test`, `tcp_tso_should_defer`;
//! `__tcp_transmit_skb` and `tcp_sendmsg_locked` for PSH; `tcp_stream_alloc_skb`, `tso_fragment` and
//! `tcp_sndbuf_expand` for the buffer. Since 4.17 TCP does so even where the device cannot: the
//! cutting then happens on the way to it, so turning offload off with ethtool changes nothing above.
//!
//! The send buffer counts each of these pieces with its bookkeeping, so it holds less payload the smaller they are.
//!
//! Differs from the source: what is repaired leaves by segments; the bookkeeping of pieces cut by a repair or joined
//! by a SACK is left out, as is PSH after half of the peer's window. Each write is a call of its own, which takes back
//! the push of the wait before it. The buffer grows where its writer finds room, and not at each ACK while it waits.
//! Newer kernels (`tcp_grow_skb`) fill the unit at the head again as it leaves, so that its size bounds no burst.

use std::collections::VecDeque;

use super::Sender;
use crate::cc::{CongestionControl, Phase};
use crate::time::{Bytes, Duration, Time};

/// Payload of a unit and the room Linux keeps for headers (GSO_LEGACY_MAX_SIZE − 1).
const UNIT_AND_HEADER: Bytes = 65_535;
/// A burst is sent in 1/1024 s at the pacing rate (sk_pacing_shift = 10).
pub(super) const PER_SECOND: u64 = 1024;
/// A burst waits only while the last one left less than this ago.
const RECENT: Duration = Duration::from_ms(1);
/// A burst waits only for an ACK that is due within this. Linux 6.18, and 6.1, 6.6 and 6.12 since their updates of
/// October 2025; half a round trip before, which on long paths is no sign that one is coming.
const NEAR: Duration = Duration::from_ms(1);
/// What Linux adds to a segment's payload for its buffer, beside the room for headers, before it takes the next power of
/// two, and after: options of 12 B and `skb_shared_info`; `sk_buff`.
const SEGMENT_HEAD: Bytes = 12 + 320;
const SEGMENT_RECORD: Bytes = 256;
/// A send buffer holds what this many segments take at least (TCP_INIT_CWND), twice over.
const LEAST_WINDOW: u64 = 10;
/// Below 1.2 Mbit/s a sender that sets its own pacing sends single segments (`bbr_min_tso_segs`).
const SLOW_BPS: u64 = 1_200_000;

/// What the application that writes is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Writer {
    /// It waits for space in the send buffer.
    #[default]
    Waits,
    /// It is to write as soon as nothing more leaves.
    IsWoken,
    /// It writes until the send buffer is full.
    Writes,
    /// It has just filled the unit to be sent next, of which a burst leaves that does not wait (Linux `tcp_push_one`).
    HasFilledNext,
    /// It has written half of the widest window since its last push, so all leaves that may (Linux `forced_push`).
    Pushes,
}

/// The burst under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Bursts {
    /// Segments still to leave.
    left: u32,
    /// It has several segments, so its last one is pushed.
    is_several: bool,
    /// A burst waits for a wider window, and is treated as a full one.
    pub(super) waits: bool,
    /// A burst waits, for whatever reason, until an ACK or more data comes.
    is_deferred: bool,
    /// Where the unit ends that is being cut.
    unit_end: u64,
    /// How far the application has filled the buffer.
    written: u64,
    /// Bytes of it since its last push.
    unpushed: u32,
    writer: Writer,
    /// Payload of the burst, whose pacing was charged when it began, still to leave.
    pub(super) charged: u32,
}

/// Segments that differ from the one before by their place in the stream alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alike {
    /// Number of segments.
    pub number: u32,
    /// The last of them carries PSH, too.
    pub is_pushed: bool,
}

impl Alike {
    /// There are none.
    pub const NONE: Alike = Alike { number: 0, is_pushed: false };
}

/// What the application has written, in units: looked at where one ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Units {
    /// Size of those that are being sent; zero: none is written.
    size: Bytes,
    /// Size of the units written from an offset on, where it changes later.
    later: VecDeque<(u64, Bytes)>,
    /// Up to where the application pushed.
    pushes: VecDeque<u64>,
    /// How large the buffer may grow.
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

    /// Of those written last.
    fn last_size(&self) -> Bytes {
        self.later.back().map_or(self.size, |(_, size)| *size)
    }

    /// Where the unit begins that ends at `written`; the one before it ends at `from` at the earliest.
    fn start_of_last(&self, from: u64, written: u64) -> u64 {
        let of_its_size = self.later.iter().rev().copied().find(|(at, _)| *at < written);
        let (at, size) = of_its_size.unwrap_or((from, self.size));
        let from = from.max(at);
        from + (written - 1 - from) / size * size
    }

    /// Those of `unsent` bytes, written last.
    fn of(&self, unsent: Bytes) -> u64 {
        match self.last_size() {
            0 => 0,
            size => unsent.div_ceil(size),
        }
    }

    /// Did the writer push up to `end` or less?
    fn are_pushed_at(&mut self, end: u64) -> bool {
        let mut is_pushed = false;
        while self.pushes.front().is_some_and(|at| *at <= end) {
            self.pushes.pop_front();
            is_pushed = true;
        }
        is_pushed
    }
}

/// What bounds a burst that is about to leave, in bytes.
struct Room {
    unit: Bytes,
    is_tail: bool,
    /// What the congestion window leaves.
    cwnd: Bytes,
    /// What the peer's window leaves.
    peer: Bytes,
}

impl Sender {
    /// May a new segment leave in the burst under way, or begin one? `available`: payload that may be sent.
    pub(super) fn joins_burst(&mut self, now: Time, available: Bytes) -> bool {
        if self.bursts.left == 0 && !self.begin_burst(now, available) {
            return false;
        }
        self.bursts.left -= 1;
        true
    }

    /// Has the segment just taken from the burst, which ends at `end`, to be pushed?
    pub(super) fn is_pushed(&mut self, end: u64) -> bool {
        if self.bursts.left > 0 {
            return false;
        }
        self.board.end_burst();
        self.look_for_room();
        // A unit that is begun is filled first.
        let has_pushed = end >= self.bursts.unit_end && self.units.are_pushed_at(end);
        self.bursts.is_several | has_pushed
    }

    /// Is a burst under way, which nothing interrupts?
    #[inline(always)]
    pub fn is_in_burst(&self) -> bool {
        self.bursts.left > 0
    }

    /// What an ACK brings makes a new burst.
    pub(super) fn break_burst(&mut self) {
        self.bursts.left = 0;
        self.bursts.charged = 0;
        self.bursts.waits = false;
        self.bursts.is_deferred = false;
    }

    /// The application has written more.
    pub(super) fn look_again(&mut self) {
        self.bursts.is_deferred = false;
    }

    /// A full segment of a burst has just left: how many like it follow at once, as nothing holds them back. They count as
    /// sent. Among them is the burst's last one, unless it is short or all that was written: then it leaves by itself. None
    /// are of a sender in which losses, marks or those who follow each packet make one segment differ from the next.
    #[inline(never)]
    pub fn take_alike(&mut self, now: Time) -> Alike {
        if self.phase != Phase::Open || !self.sends_alike() {
            return Alike::NONE;
        }
        let (mss, next, left) = (u64::from(self.control.mss), self.snd_nxt, self.bursts.left);
        let is_whole = u64::from(left) * mss
            <= u64::from(self.bursts.charged).min(self.write_end.saturating_sub(next + 1));
        let number = if is_whole { left } else { left - 1 };
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
        self.bursts.left -= number;
        self.bursts.charged -= bytes as u32;
        self.count.segments_sent += u64::from(number);
        self.on_alike_sent(now);
        Alike { number, is_pushed: self.is_pushed(end) }
    }

    /// Whether consecutive new segments differ by their number alone.
    #[inline]
    fn sends_alike(&self) -> bool {
        self.board.lost_segments() == 0
            && self.departed == 0
            && !self.is_followed
            && !self.is_in_frto()
            && self.stack.small_queue.is_none()
    }

    fn begin_burst(&mut self, now: Time, available: Bytes) -> bool {
        let is_pushed = self.bursts.writer == Writer::HasFilledNext;
        if is_pushed {
            self.bursts.writer = Writer::Writes;
        }
        // Time alone ends no wait: Linux looks again at an ACK, at a write, or when a timer sends.
        if self.bursts.is_deferred && !is_pushed {
            return false;
        }
        let mss = u64::from(self.control.mss);
        if self.snd_nxt >= self.bursts.unit_end {
            self.bursts.unit_end = self.snd_nxt + self.units.size_at(self.snd_nxt);
        }
        let unit = (self.bursts.unit_end - self.snd_nxt).min(available);
        let room = Room {
            unit,
            is_tail: unit == available,
            cwnd: self.control.cwnd.saturating_sub(self.in_flight()),
            peer: self.peer.right_edge.saturating_sub(self.snd_nxt),
        };
        // What a burst holds at most is worked out for those alone that may be longer, or may wait to be.
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
        // Linux `tcp_cwnd_test`: half of the window at most; `tcp_mss_split_point`: what does not end the unit is whole.
        let window = room.cwnd.min(self.control.cwnd / 2).min(room.peer) / mss * mss;
        let mut bytes = room.unit.min(window.max(mss)).min(room.peer.max(1));
        if bytes > self.least_of_most() * mss {
            bytes = bytes.min(most.unwrap_or_else(|| self.most_bytes()));
        }
        self.bursts.left = bytes.div_ceil(mss) as u32;
        self.bursts.is_several = self.bursts.left > 1;
        if self.control.pacing.is_some() || self.stack.pacing {
            let segments = self.count.segments_sent + u64::from(self.bursts.left);
            self.charge_pacing(bytes, segments, now);
        }
        self.bursts.charged = bytes as u32;
        true
    }

    /// The application writes a unit, or what is left of one; false if it does not write now. Once woken it writes until
    /// the send buffer is full (Linux `tcp_sendmsg_locked`). After each unit what may leave does, so the unit is shorter, and
    /// the application fills it up without asking for memory.
    #[inline(always)]
    pub(super) fn fill_buffer(&mut self) -> bool {
        if self.bursts.left > 0 || self.bursts.written >= self.write_end {
            return false;
        }
        self.look_for_room();
        self.bursts.writer != Writer::Waits && self.write_unit()
    }

    /// A writer that waits is woken when a third of the buffer is free, which first grows (Linux `tcp_check_space`, after
    /// each burst that leaves and after each ACK; `sk_stream_write_space`).
    #[inline(always)]
    fn look_for_room(&mut self) {
        if self.bursts.writer != Writer::Waits {
            return;
        }
        if self.send_buffer < self.units.most_buffer {
            self.grow_buffer();
        }
        // The payload alone mostly shows that the writer waits. Then the overhead need not be counted.
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

    /// An application that writes goes on until it pushes or the send buffer is full.
    #[inline(always)]
    pub(super) fn write_on(&mut self) {
        while self.bursts.writer == Writer::Writes && self.fill_buffer() {}
    }

    /// When nothing more leaves, an application that has pushed or was woken writes on; false if it does not.
    #[inline(always)]
    pub(super) fn writes_more(&mut self) -> bool {
        if !self.fill_buffer() {
            return false;
        }
        self.write_on();
        true
    }

    /// A writer who waits writes again when the buffer counts no more; at once, where it counts payload.
    fn enough(&self) -> Bytes {
        if self.stack.send_bookkeeping > 0 {
            self.send_buffer / 3 * 2
        } else {
            self.send_buffer.saturating_sub(1)
        }
    }

    /// The buffer a connection begins with. Linux `tcp_sndbuf_expand`: two windows, of ten segments at least, each taken
    /// for as large as it may become; three for BBR.
    pub(super) fn grown_buffer(&self) -> Bytes {
        let windows = if self.algorithm.owns_window() { 3 } else { 2 };
        let head = SEGMENT_HEAD + self.stack.header_room;
        let segment = (u64::from(self.control.mss) + head).next_power_of_two() + SEGMENT_RECORD;
        let segments =
            self.control.cwnd_segments().max(LEAST_WINDOW).max(u64::from(self.reordering.degree) + 1);
        windows * segments * segment
    }

    /// The writer waits for room: the buffer grows, unless the window is full anyway (Linux `tcp_new_space`).
    #[cold]
    fn grow_buffer(&mut self) {
        if !self.is_window_full(self.in_flight()) {
            self.send_buffer = self.send_buffer.max(self.grown_buffer()).min(self.units.most_buffer);
        }
    }

    /// Slow path of `fill_buffer`: writes unless the buffer counts too much.
    #[inline(never)]
    fn write_unit(&mut self) -> bool {
        let bookkeeping = self.stack.send_bookkeeping;
        let held = self.held(bookkeeping);
        let mss = u64::from(self.control.mss);
        if self.bursts.writer == Writer::IsWoken && self.bursts.written < self.snd_nxt + mss {
            // A writer who had to wait for room has left the window unused (Linux looks at each `sendmsg`).
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

    /// What is written up to `end` leaves as soon as it may, and its last segment is pushed if it has not left (Linux
    /// `tcp_mark_push`, `__tcp_push_pending_frames`).
    fn push(&mut self, end: u64) {
        if end > self.snd_nxt {
            self.units.pushes.push_back(end);
            self.bursts.unpushed = 0;
            self.bursts.is_deferred = false;
        }
    }

    /// The writer fills the unit written last up to `size` before it begins another, if any of it is left to send (Linux
    /// `tcp_sendmsg_locked`). Returns where it begins, or what is left of it, if it is not full.
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
        // A push is taken back by the next write into what it pushed.
        if self.units.pushes.back() == Some(&written) {
            self.units.pushes.pop_back();
        }
        if !is_begun && self.units.last_size() != size {
            self.units.later.push_back((tail, size));
        }
        Some(tail)
    }

    /// A unit of `size` begins behind what is written.
    fn begin_unit(&mut self, size: Bytes) -> u64 {
        let start = self.bursts.written.max(self.snd_nxt);
        if self.units.size == 0 {
            self.units.size = size;
        } else if self.units.last_size() != size {
            self.units.later.push_back((start, size));
        }
        start
    }

    /// What the buffer counts: payload, and bookkeeping for each burst that has left and each unit that has not.
    fn held(&self, bookkeeping: Bytes) -> Bytes {
        let units = self.units.of(self.bursts.written.saturating_sub(self.snd_nxt));
        let payload = self.bursts.written.saturating_sub(self.snd_una);
        payload + bookkeeping * (u64::from(self.board.bursts_out()) + units)
    }

    /// How far data can be sent: what is written and in the buffer.
    pub(super) fn buffered_end(&self) -> u64 {
        match self.stack.burst_segments > 1 {
            true => self.bursts.written,
            false => self.write_end.min(self.snd_una + self.send_buffer),
        }
    }

    /// Linux `tcp_tso_should_defer`, of a burst that is not as long as one may be.
    #[inline]
    fn may_wait(&self, room: &Room, now: Time) -> bool {
        let limit = room.cwnd.min(room.peer);
        limit < self.control.cwnd.min(self.send_window()) / 3
            && (room.is_tail || limit < room.unit)
            && room.unit > u64::from(self.control.mss)
            && self.phase < Phase::Recovery
            // Where the sender is paced, the last one left when the next may (`tcp_wstamp_ns`).
            && now.since(self.output.last_sent.max(self.pacing.next_at)) <= RECENT
            && self.is_ack_near(now)
            && !(self.wants_fin && room.is_tail && limit > room.unit)
    }

    /// Is `limit`, and a segment more, less than the most of one burst at the stack's own rate? Then rounding down changes
    /// nothing, and it is seen without a division.
    #[inline]
    fn is_clearly_less_than_most(&self, limit: Bytes) -> bool {
        let mss = u64::from(self.control.mss);
        let with_one_more = limit + mss;
        self.control.pacing.is_none()
            && with_one_more <= self.unit()
            && limit < u64::from(self.stack.burst_segments) * mss
            && self.has_window_rate(with_one_more * PER_SECOND)
    }

    /// The oldest segment's ACK is due within a millisecond, or half a round trip if that is less.
    #[inline]
    fn is_ack_near(&self, now: Time) -> bool {
        let srtt = self.rtt.srtt();
        let near = (srtt / 2).min(NEAR);
        self.board.head_sent().is_some_and(|at| at + srtt <= now + near)
    }

    /// The largest payload of a unit.
    fn unit(&self) -> Bytes {
        UNIT_AND_HEADER - self.stack.header_room
    }

    fn most_bytes(&self) -> Bytes {
        u64::from(self.most_segments()) * u64::from(self.control.mss)
    }

    /// One burst may always hold this many segments (`bbr_min_tso_segs`).
    fn least_of_most(&self) -> u64 {
        if self.control.pacing.is_some_and(|rate| rate.as_bps() < SLOW_BPS) { 1 } else { 2 }
    }

    /// The most segments of one burst: Linux `tcp_tso_autosize`, or what the stack says.
    pub(super) fn most_segments(&self) -> u32 {
        let most = self.stack.burst_segments;
        if !self.stack.burst_autosize {
            return most;
        }
        let round_trip = self.rtt.min().as_us() >> 9;
        // Short paths afford longer bursts (tcp_tso_rtt_log).
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

    /// Linux `tcp_tso_should_defer`, then what is sent, with all that bounds a burst worked out first.
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
        let window = cwnd.min(sender.control.cwnd / 2).min(peer) / MSS * MSS;
        Some(unit.min(most).min(window.max(MSS)).min(peer.max(1)).div_ceil(MSS))
    }

    proptest! {
        #[test]
        fn a_burst_is_as_long_as_if_all_its_bounds_were_worked_out(
            (cwnd, flight, window) in (1u64..60_000, 1u64..40, 1u64..200_000),
            (unit, beyond, wants_fin) in (1u64..70_000, prop_oneof![Just(0), 1u64..9000], any::<bool>()),
            (srtt, age, since) in (100u64..40_000, 0u64..40_000, prop_oneof![Just(0), 0u64..3000]),
            (mbit, autosize) in (prop_oneof![Just(0), 1u64..300], any::<bool>()),
        ) {
            let mut stack = Stack::named("linux", "stack").unwrap();
            stack.burst_autosize = autosize;
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
            let now = sent + Duration::from_us(age);
            sender.output.last_sent = sent + Duration::from_us(age.saturating_sub(since));
            let expected = segments(&sender, unit, unit + beyond, now);
            let begins = sender.begin_burst(now, unit + beyond);
            prop_assert_eq!(begins.then_some(u64::from(sender.bursts.left)), expected);
            prop_assert_eq!(sender.bursts.is_deferred, expected.is_none());
        }
    }

    /// A sender that has sent what `window` segments and the buffer allow, and twice hears of thirty.
    fn limited(send_buffer: u64, window: u64) -> Sender {
        const MSS: u64 = 1448;
        let mut stack = Stack::named("linux", "stack").unwrap();
        // Units leave whole, so there is none to be filled up, which would take no memory.
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
            // Where the rate alone decides, two segments less are clearly less.
            let is_by_rate = min_us >= 32 << 9 && most >= 4 * u64::from(mss);
            let is_most = most == u64::from(stack.burst_segments) * u64::from(mss);
            prop_assert!(
                !is_by_rate || is_most || sender.is_clearly_less_than_most(most - 2 * u64::from(mss))
            );
        }
    }
}
