//! What to send next: a retransmission, a probe, new data or the FIN, as far as windows, bursts and pacing allow.

use super::persist::{Patience, Persist};
use super::timers::Waits;
use super::{Sender, frto};
use crate::cc::{CongestionControl, Phase, Resume};
use crate::tcp::segment::{Flags, Outgoing, Range};
use crate::tcp::stack::{Pipe, Reduction};
use crate::time::{Bytes, Time};

/// Largest flight, in segments, that uses the smallest allocation.
const FEW: u64 = 4;

/// What was sent since [`Sender::settle`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Output {
    /// Something changed or was sent.
    pub is_unsettled: bool,
    /// New data was sent.
    has_sent: bool,
    /// New data other than a probe was sent.
    has_sent_new: bool,
    /// Only new data answers this ACK: an original has filled a hole that a retransmission is under way to (Linux
    /// `tcp_try_undo_partial`).
    pub holds_repairs: bool,
    /// When the last segment left.
    pub last_sent: Time,
}

impl Sender {
    /// The next segment that may be sent at `now`. After `None` the host calls [`Self::settle`].
    #[inline(always)]
    pub fn next_segment(&mut self, now: Time) -> Option<Outgoing> {
        if self.stack.burst_segments > 1 {
            self.write_on();
        }
        let mut next = self.next_written(now);
        // Linux `tcp_data_snd_check`: buffered data is sent first, then the writer checks the send buffer.
        while next.is_none() && self.stack.burst_segments > 1 && self.writes_more() {
            next = self.next_written(now);
        }
        next
    }

    #[inline(always)]
    fn next_written(&mut self, now: Time) -> Option<Outgoing> {
        self.pacing.wake_at = Time::NEVER;
        if self.snd_nxt >= self.write_end && !self.wants_fin && self.board.is_empty() {
            // Nothing new to send and nothing to retransmit.
            self.board.on_app_limited();
            self.rests = true;
            return None;
        }
        self.rests = false;
        // A recovery undone before its first retransmission leaves nothing to force.
        let force = std::mem::take(&mut self.may_force) && (self.probe.end != 0 || self.board.has_repairs());
        if self.stack.small_queue.is_some() && !force && !self.is_in_burst() && self.has_queued_enough() {
            return None;
        }
        let is_paced = self.control.pacing.is_some() || self.stack.pacing;
        if is_paced && !force && now < self.pacing.next_at && !self.is_in_burst() {
            self.pacing.wake_at = self.pacing.next_at;
            return None;
        }
        if force && is_paced && self.is_first_repair_early(now) {
            self.may_force = true;
            self.pacing.wake_at = self.pacing.next_at;
            return None;
        }
        if force && self.probe.end != 0 && self.phase < Phase::Recovery {
            return self.send_probe(now);
        }
        if self.frto == frto::Step::NewData {
            let new = self.send_for_frto(now);
            if new.is_some() || self.is_in_frto() {
                return new;
            }
        }
        if let Some((range, is_fin)) = self.board.next_repair()
            && !self.output.holds_repairs
        {
            let bytes = range.end - range.start;
            if self.is_repeatable(range) && (force || self.may_send(bytes)) {
                return Some(self.repair(range, is_fin, now));
            }
            return None;
        }
        let new = self.send_new(now, false);
        if new.is_none() && self.stack.rescue && self.phase == Phase::Recovery && self.stack.sack {
            return self.rescue(now);
        }
        new
    }

    /// Linux `tcp_xmit_retransmit_queue`: pacing also delays the retransmission that begins a recovery, but not that of
    /// a timeout, nor a probe.
    #[cold]
    fn is_first_repair_early(&self, now: Time) -> bool {
        self.phase == Phase::Recovery
            && self.probe.end == 0
            && now < self.pacing.next_at
            && !self.is_in_burst()
    }

    /// Whether nothing is in flight and nothing waits to be sent, and [`Self::next_segment`] and [`Self::settle`] have
    /// already processed that. Calling them again would change nothing.
    #[inline]
    pub fn is_silent(&self) -> bool {
        let is_silent = self.rests && !self.output.is_unsettled;
        debug_assert!(
            !is_silent
                || self.snd_nxt >= self.write_end
                    && !self.wants_fin
                    && self.board.is_empty()
                    && self.board.is_app_limited(),
            "something is in flight or waits"
        );
        is_silent
    }

    /// Nothing more can be sent now: arms the loss probe, and evaluates how much of the window was used.
    #[inline(always)]
    pub fn settle(&mut self, now: Time) {
        if !std::mem::take(&mut self.output.is_unsettled) {
            return;
        }
        self.output.holds_repairs = false;
        if std::mem::take(&mut self.output.has_sent_new) {
            self.on_new_data_sent(now);
        }
        // Linux `tcp_write_xmit`: data that waits behind a full window also counts as use of the window;
        // retransmissions alone do not.
        if std::mem::take(&mut self.output.has_sent) || self.bursts.waits || self.is_held_by_window() {
            self.on_window_used(now);
        }
    }

    /// Whether new data waits because the window is full.
    #[inline]
    fn is_held_by_window(&self) -> bool {
        (self.snd_nxt < self.buffered_end() || self.wants_fin && !self.fin_sent)
            && self.is_window_full(self.in_flight())
    }

    /// RFC 6675 NextSeg rules 3 and 4: nothing is known to be lost and nothing new may be sent, so a segment that may
    /// be lost is retransmitted.
    #[cold]
    fn rescue(&mut self, now: Time) -> Option<Outgoing> {
        if !self.may_send(u64::from(self.control.mss)) {
            return None;
        }
        let number = match self.board.first_unrepaired_hole() {
            Some(hole) => hole,
            None if !self.rescued => {
                self.rescued = true;
                self.board.highest_unsacked()?
            }
            None => return None,
        };
        let (range, is_fin) = self.board.on_rescued(number, now, self.snd_nxt);
        self.on_retransmission(now);
        Some(self.compose(range, is_fin, true, now))
    }

    #[inline(always)]
    pub(super) fn may_send(&self, bytes: Bytes) -> bool {
        let used = if self.phase == Phase::Open { self.in_flight() } else { self.used_in_trouble() };
        used + bytes <= self.control.cwnd
    }

    /// The amount that counts against the window during loss recovery.
    #[inline]
    fn used_in_trouble(&self) -> Bytes {
        match self.stack.reduction {
            // FreeBSD 7.3 in recovery: only what this recovery has sent counts against the window.
            Reduction::FreeBsd if self.phase == Phase::Recovery && self.stack.sack => {
                self.board.retransmitted() + (self.snd_nxt - self.recover)
            }
            // Without limited transmit (RFC 3042), SACKed data makes no room before recovery.
            _ if self.phase == Phase::Disorder && !self.stack.limited_transmit => self.board.outstanding(),
            _ if self.phase == Phase::Recovery && self.stack.pipe == Pipe::Counter && self.stack.sack => {
                self.trouble.pipe.max(0) as u64 * u64::from(self.control.mss)
            }
            _ => self.in_flight(),
        }
    }

    /// Data beyond a window that shrank is not retransmitted, except for the head, which serves as a window probe
    /// (Linux `__tcp_retransmit_skb`).
    pub(super) fn is_repeatable(&self, range: Range) -> bool {
        range.start < self.peer.right_edge || range.start <= self.snd_una
    }

    fn repair(&mut self, range: Range, is_fin: bool, now: Time) -> Outgoing {
        if self.in_flight() == 0 {
            self.resume(now, self.snd_nxt);
        }
        self.board.on_repaired(now, self.snd_nxt);
        if range.start <= self.snd_una && !(self.stack.impatient && self.partial_acks > 1) {
            // The head's retransmission gets a full timeout, as in Linux and BSD (RFC 6675 section 5).
            if !self.timer.runs_for(Waits::Reordering) {
                self.arm_rto(now);
            }
        }
        self.on_retransmission(now);
        self.compose(range, is_fin, true, now)
    }

    /// A segment leaves while nothing is in flight, not even SACKed or lost data (Linux `tcp_event_data_sent`).
    #[cold]
    fn resume(&mut self, now: Time, snd_nxt: u64) {
        let idle = now.since(self.output.last_sent);
        let resume = Resume { now, idle, app_limited: self.board.is_app_limited(), snd_nxt };
        self.algorithm.on_resume(&resume, &mut self.control);
    }

    fn on_retransmission(&mut self, now: Time) {
        self.first_retransmission = self.first_retransmission.min(now);
        self.trouble.undo.unexplained = self.trouble.undo.unexplained.max(0) + 1;
        self.count.segments_retransmitted += 1;
        if !self.timer.runs() {
            self.arm_rto(now);
        }
    }

    /// As [`Self::send_new`], out of line for callers on cold paths.
    #[cold]
    pub(super) fn send_new_apart(&mut self, now: Time, force: bool) -> Option<Outgoing> {
        self.send_new(now, force)
    }

    #[inline(always)]
    fn send_new(&mut self, now: Time, force: bool) -> Option<Outgoing> {
        let mss = u64::from(self.control.mss);
        if self.snd_nxt >= self.write_end {
            return self.send_fin(now);
        }
        let is_cut = self.stack.burst_segments > 1;
        // The send buffer also holds unacknowledged data.
        let available = self.buffered_end().saturating_sub(self.snd_nxt);
        if is_cut && available == 0 {
            return None;
        }
        let window = self.peer.right_edge.saturating_sub(self.snd_nxt);
        let piece = if is_cut { self.next_piece() } else { mss };
        let bytes = piece.min(available).min(window);
        if bytes < piece && !self.is_in_burst() && !self.may_be_short(bytes, available, window) {
            match self.wait_for_window(bytes, available, now) {
                Patience::Wait => return None,
                Patience::Probe => return Some(self.window_probe()),
                Patience::Over => {}
            }
        }
        if self.board.is_empty() {
            self.restart_after_idle(now);
        }
        if !force && !self.may_send(bytes) && !self.ends_the_stream(bytes) {
            return None;
        }
        if is_cut && !force && !self.joins_burst(now, available) {
            return None;
        }
        let range = Range { start: self.snd_nxt, end: self.snd_nxt + bytes };
        let is_first = self.board.is_empty();
        let resumes = is_first || self.phase != Phase::Open && self.in_flight() == 0;
        if is_first && available > FEW * mss {
            self.board.make_room();
        }
        // The FIN travels with the last segment if no other data remains.
        let is_fin = self.wants_fin && range.end == self.write_end;
        let length = bytes + u64::from(is_fin);
        self.snd_nxt += length;
        if bytes < mss {
            self.bursts.short_end = self.snd_nxt as u32;
        }
        self.output.has_sent = true;
        self.output.has_sent_new |= !force;
        self.fin_sent |= is_fin;
        self.board.push(self.snd_nxt, length as u32, is_fin, now);
        if is_first {
            self.persist = Persist::default();
            self.arm_rto(now);
        }
        if resumes && range.start > 0 {
            self.resume(now, range.start);
        }
        let mut segment =
            self.compose(Range { start: range.start, end: range.start + length }, is_fin, false, now);
        // The end of the written data, or of a burst.
        if range.end == self.write_end || is_cut && self.is_pushed(range.end) {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        Some(segment)
    }

    /// Whether these bytes end the stream with a FIN, in a segment that ignores the window (Linux `tcp_cwnd_test`).
    #[inline]
    fn ends_the_stream(&self, bytes: Bytes) -> bool {
        self.stack.fin_ignores_window && self.wants_fin && self.snd_nxt + bytes == self.write_end
    }

    /// Linux `tcp_rate_check_app_limited`: everything written has been sent, although the window has room and no
    /// retransmission waits.
    pub(super) fn look_for_app_limit(&mut self) {
        // Bytes in the host's queue have left TCP. They are known only if the stack limits them.
        if !self.board.has_repairs() && !self.is_window_full(self.in_flight()) && self.queued() == 0 {
            self.board.on_app_limited();
        }
    }

    /// Records that a batch of new segments was sent.
    pub(super) fn on_alike_sent(&mut self, now: Time) {
        let (is_unsettled, has_sent, has_sent_new, holds_repairs) = (true, true, true, false);
        self.output = Output { is_unsettled, has_sent, has_sent_new, holds_repairs, last_sent: now };
    }

    /// Sender-side silly-window avoidance (RFC 9293 section 3.8.6.2.1): a segment may be short only if it ends the
    /// written data or has at least half of the largest window that the peer ever offered. A burst that has begun is
    /// sent to its end.
    fn may_be_short(&self, bytes: Bytes, available: Bytes, window: Bytes) -> bool {
        let is_tail = available <= window && self.snd_nxt + bytes == self.write_end;
        bytes > 0 && (is_tail || bytes * 2 >= self.peer.widest)
    }

    #[cold]
    fn send_fin(&mut self, now: Time) -> Option<Outgoing> {
        if !self.wants_fin || self.fin_sent || self.snd_nxt > self.write_end {
            if !self.wants_fin {
                self.look_for_app_limit();
            }
            return None;
        }
        let range = Range { start: self.snd_nxt, end: self.snd_nxt + 1 };
        let is_first = self.board.is_empty();
        self.fin_sent = true;
        self.output.has_sent = true;
        self.output.has_sent_new = true;
        self.snd_nxt += 1;
        self.board.push(self.snd_nxt, 1, true, now);
        if is_first {
            self.arm_rto(now);
        }
        Some(self.compose(range, true, false, now))
    }

    #[inline(always)]
    pub(super) fn compose(&mut self, range: Range, is_fin: bool, is_repeated: bool, now: Time) -> Outgoing {
        let length = (range.end - range.start) as u32;
        self.count.segments_sent += 1;
        self.output.last_sent = now;
        if matches!(self.phase, Phase::Recovery | Phase::Cwr) {
            self.trouble.descent.out += u64::from(length);
            self.trouble.pipe += 1;
        }
        // The burst was charged as a whole when it began.
        let charged = u32::from(self.bursts.charged).min(length);
        self.bursts.charged -= charged as u16;
        if self.control.pacing.is_some() || self.stack.pacing {
            self.charge_pacing(u64::from(length - charged), self.count.segments_sent, now);
        }
        if self.is_followed {
            self.report_departure(range, now);
        }
        self.output.is_unsettled = true;
        let mut flags = if is_fin { Flags::FIN } else { Flags::default() };
        // RFC 3168 section 6.1.5: only new data carries CWR, because a retransmission must not be ECN-capable.
        if self.owes_cwr && !is_repeated && length > u32::from(is_fin) {
            self.owes_cwr = false;
            flags = flags.with(Flags::CWR);
        }
        Outgoing { seq: range.start, len: length - u32::from(is_fin), flags, is_repeated }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tcp::segment::Segment;
    use crate::tcp::stack::Stack;
    use crate::time::Duration;

    #[test]
    fn what_is_sent_again_says_so() {
        let stack = Arc::new(Stack::named("linux", "stack").unwrap());
        let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
        let mut sender = Sender::new(stack, algorithm, 1000, 1 << 20);
        sender.on_established(Time::from_ms(80), 1 << 20, Some(Duration::from_ms(80)));
        sender.write_forever();
        let first = std::iter::from_fn(|| sender.next_segment(Time::from_ms(80))).collect::<Vec<_>>();
        assert!(first.len() == 10 && first.iter().all(|segment| !segment.is_repeated));
        let mut events = Vec::new();
        // Everything but the first segment is SACKed.
        let sack = [Range { start: 1000, end: 10_000 }, Range::default(), Range::default(), Range::default()];
        let ack = Segment { flags: Flags::ACK, window: 1 << 20, sack, sack_count: 1, ..Segment::blank() };
        sender.on_ack(&ack, Time::from_ms(165), &mut events);
        let repair = sender.next_segment(Time::from_ms(165)).unwrap();
        assert!(repair.seq == 0 && repair.is_repeated);
        let new = sender.next_segment(Time::from_ms(165)).unwrap();
        assert!(new.seq == 10_000 && !new.is_repeated);
    }

    #[test]
    fn the_last_segment_sent_again_says_so_too() {
        let stack = Arc::new(Stack::named("linux", "stack").unwrap());
        let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
        let mut sender = Sender::new(stack, algorithm, 1000, 1 << 20);
        sender.on_established(Time::from_ms(80), 1 << 20, Some(Duration::from_ms(80)));
        sender.write(1000);
        assert!(!sender.next_segment(Time::from_ms(80)).unwrap().is_repeated);
        sender.settle(Time::from_ms(80));
        let mut events = Vec::new();
        let again = std::iter::from_fn(|| {
            let now = sender.next_wake();
            sender.on_timer(now, &mut events);
            Some(sender.next_segment(now))
        });
        // A loss probe, then the timeout's retransmission: both are of the only segment there is.
        let again: Vec<_> = again.flatten().take(2).collect();
        assert!(again.iter().all(|segment| segment.seq == 0 && segment.is_repeated), "{again:?}");
    }
}
