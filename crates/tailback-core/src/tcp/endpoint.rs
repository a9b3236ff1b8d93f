//! One end of a connection: handshake, data both ways, close.
//!
//! Sans-I/O: the host passes segments in, takes segments out with `next_segment`, and calls again at `next_wake`.
//! Source: RFC 9293 section 3.3.2 (states), RFC 6298 section 5.7 and RFC 7323 (handshake).
//!
//! Differs from the source: TIME-WAIT holds no state. An old segment cannot reach a new connection anyway, because
//! every connection of a run has endpoints of its own.

use std::sync::Arc;

use crate::cc::registry::Algorithm;
use crate::tcp::receiver::{AckWhen, EarlyAck, Receiver};
use crate::tcp::segment::{Flags, NO_ROW, Outgoing, Segment};
use crate::tcp::sender::{Alike, CongestionEvent, Sender};
use crate::tcp::stack::Stack;
use crate::time::{Bytes, Duration, Rate, Time};

/// Connection states, with the numbers BSD and SIFTR use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum State {
    /// Not open, or over.
    Closed = 0,
    /// Waiting for a SYN.
    Listen = 1,
    /// SYN sent.
    SynSent = 2,
    /// SYN received, SYN-ACK sent.
    SynReceived = 3,
    /// Data may flow.
    Established = 4,
    /// The peer has finished.
    CloseWait = 5,
    /// We have finished, the peer has not acknowledged it.
    FinWait1 = 6,
    /// Both have finished, ours is not acknowledged.
    LastAck = 8,
    /// Our FIN is acknowledged, the peer has not finished.
    FinWait2 = 9,
    /// Both sides have finished.
    TimeWait = 10,
}

/// What [`Endpoint::compose_next`] found to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Composed {
    /// No segment to send.
    Nothing,
    /// A segment; others may follow.
    Segment,
    /// A segment; no other follows until the next event.
    Last,
}

/// Linux tcp_syn_retries: five repetitions, then the attempt is given up.
const SYN_TRIES: u32 = 6;

/// One end of a connection. Fields that every segment touches are together, before those of the handshake.
#[derive(Debug)]
#[repr(C)]
pub struct Endpoint {
    stack: Arc<Stack>,
    syn_at: Time,
    peer: u32,
    state: State,
    ack_pending: bool,
    syn_due: bool,
    has_failed: bool,
    /// The receiving half.
    pub receiver: Receiver,
    /// The sending half.
    pub sender: Sender,
    syn_sent: Time,
    established_at: Time,
    syn_tries: u32,
    peer_scale: u8,
}

/// Parameters of a new endpoint.
pub struct Setup {
    /// Stack, with options already negotiated against the peer's.
    pub stack: Arc<Stack>,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Payload of a full segment.
    pub mss: u32,
    /// Send buffer in bytes.
    pub send_buffer: Bytes,
    /// Receive buffer in bytes; the offered window is the stack's share of it.
    pub receive_buffer: Bytes,
    /// The rate at which the application reads; `None`: it reads at once.
    pub read_rate: Option<Rate>,
    /// The endpoint at the other end.
    pub peer: u32,
}

impl Endpoint {
    /// A closed endpoint.
    pub fn new(setup: Setup) -> Self {
        let mut receiver = Receiver::new(&setup.stack, setup.receive_buffer, setup.mss);
        if !setup.stack.window_scaling {
            receiver.without_scaling();
        }
        if let Some(rate) = setup.read_rate {
            receiver.read_at(rate);
        }
        Endpoint {
            sender: Sender::new(setup.stack.clone(), setup.algorithm, setup.mss, setup.send_buffer),
            receiver,
            stack: setup.stack,
            state: State::Closed,
            peer: setup.peer,
            ack_pending: false,
            syn_due: false,
            syn_at: Time::NEVER,
            syn_tries: 0,
            syn_sent: Time::ZERO,
            established_at: Time::NEVER,
            has_failed: false,
            peer_scale: 0,
        }
    }

    /// Wait for a connection.
    pub fn listen(&mut self) {
        self.state = State::Listen;
        self.receiver.listen(&self.stack);
    }
    /// Begin the handshake.
    pub fn connect(&mut self) {
        debug_assert_eq!(self.state, State::Closed);
        self.state = State::SynSent;
        self.syn_due = true;
    }
    /// The state.
    pub fn state(&self) -> State {
        self.state
    }
    /// Prefetches what an arriving segment touches: one field of each cache line.
    #[inline]
    pub fn fetch(&self) {
        self.sender.fetch();
        self.receiver.fetch();
    }
    /// As [`Self::fetch`], for an end that only receives.
    #[inline]
    pub fn fetch_receiving(&self) {
        self.sender.fetch_resting();
        self.receiver.fetch();
    }
    /// The stack.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }
    /// When the handshake completed, or [`Time::NEVER`].
    pub fn established_at(&self) -> Time {
        self.established_at
    }
    /// Whether the handshake was given up.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }
    /// The window-scale shift the peer announced.
    pub fn peer_scale(&self) -> u8 {
        self.peer_scale
    }
    /// Whether data may flow.
    pub fn is_established(&self) -> bool {
        self.state >= State::Established
    }
    /// Whether both directions are finished and acknowledged.
    pub fn is_done(&self) -> bool {
        self.state == State::TimeWait || self.has_failed
    }

    /// Whether this end would only receive, and perhaps acknowledge, this segment. Then no other state changes, neither
    /// now nor when the ACK leaves, and no other component has to be notified.
    #[inline(always)]
    pub fn only_receives(&self, segment: &Segment) -> bool {
        self.state == State::Established
            && !segment.flags.has(Flags::SYN)
            && !segment.flags.has(Flags::FIN)
            && self.sender.is_silent()
            && self.sender.hears_nothing(segment)
            && !self.receiver.has_seen_end()
    }

    /// `Some` if this end does nothing but acknowledge as long as only full segments in order arrive: about every
    /// second segment at once, the rest by a timer. The value is the minimum delay of that timer.
    pub fn receives_steadily(&self) -> Option<Duration> {
        let is_still =
            self.state == State::Established && !self.syn_due && !self.ack_pending && self.sender.is_silent();
        self.stack.delayed_ack.filter(|_| is_still && self.receiver.is_steady())
    }

    /// Whether this is the next full segment in order and carries no news for the sender.
    #[inline(always)]
    pub fn is_plain_data(&self, segment: &Segment) -> bool {
        self.receiver.is_next_full(segment) && self.sender.hears_nothing(segment)
    }

    /// As [`Self::on_segment`], for a segment and an end that satisfy [`Self::is_plain_data`] and
    /// [`Self::receives_steadily`]. Returns whether an ACK is due at once.
    #[inline(always)]
    pub fn receive_plain_data(&mut self, segment: &Segment, now: Time) -> bool {
        self.sender.take_window(segment);
        self.receiver.take_steadily(segment, now, &self.sender.rtt, &self.stack) == AckWhen::Now
    }

    /// Writes the ACK of an end that only receives.
    #[inline(always)]
    pub fn acknowledge(&mut self, now: Time, place: &mut Segment) {
        self.compose(Outgoing::nothing(self.sender.snd_nxt()), now, place);
    }

    /// A segment arrived.
    pub fn on_segment(&mut self, segment: &Segment, now: Time, events: &mut Vec<CongestionEvent>) {
        if segment.flags.has(Flags::SYN) {
            self.peer_scale = segment.window_scale;
            self.on_syn(segment, now);
            return;
        }
        match self.state {
            State::Closed | State::Listen | State::SynSent => return,
            State::SynReceived if segment.flags.has(Flags::ACK) => self.establish(segment, now),
            _ => {}
        }
        if segment.ts_val < self.receiver.echo() && self.refuses(segment, now) {
            return;
        }
        if segment.flags.has(Flags::ACK) {
            if segment.ack > self.sender.snd_nxt() {
                return; // Acknowledges what was never sent: dropped with all it carries (RFC 9293 section 3.10.7.4).
            }
            self.sender.on_ack(segment, now, events);
        }
        let had_finished = self.sender.is_fin_sent() && self.receiver.is_finished();
        if self.receiver.on_segment(segment, now, &self.sender.rtt, &self.stack) == AckWhen::Now {
            self.ack_pending = true;
        }
        if self.state != State::Established || self.sender.is_fin_sent() || self.receiver.is_finished() {
            // No further segment could carry the ACK of the second FIN.
            self.ack_pending |= self.sender.is_fin_sent() && !had_finished && self.receiver.is_finished();
            self.step_state();
        }
    }

    /// Whether the segment is refused for its old timestamp. Exception: an ACK that repeats the last one, does not
    /// widen the window and is no older than a timeout may merely have been overtaken (Linux `tcp_disordered_ack`).
    #[cold]
    fn refuses(&mut self, segment: &Segment, now: Time) -> bool {
        if !self.receiver.is_from_before(segment, &self.stack) {
            return false;
        }
        let is_pure = segment.sequence_length() == 0 && segment.seq == self.receiver.next();
        if is_pure && self.sender.is_overtaken(segment, self.receiver.echo(), &self.stack) {
            return false;
        }
        self.ack_pending |= self.receiver.refuse(segment, now, &self.stack);
        true
    }

    fn on_syn(&mut self, segment: &Segment, now: Time) {
        match (self.state, segment.flags.has(Flags::ACK)) {
            (State::Listen | State::SynReceived, false) => {
                self.receiver.on_syn(segment);
                self.state = State::SynReceived;
                self.syn_due = true;
            }
            (State::SynSent, true) => {
                self.receiver.on_syn(segment);
                self.establish(segment, now);
                self.ack_pending = true;
            }
            // A repeated SYN-ACK shows that our ACK was lost.
            (_, true) => self.ack_pending = true,
            _ => {}
        }
    }

    fn establish(&mut self, segment: &Segment, now: Time) {
        self.state = State::Established;
        self.established_at = now;
        self.receiver.on_established(now);
        self.syn_due = false;
        self.syn_at = Time::NEVER;
        // Karn's rule holds for the handshake too, unless timestamps identify each repetition.
        let by_timestamp = self.stack.timestamps && segment.ts_ecr != Time::NEVER;
        let sample = match (self.syn_tries, by_timestamp) {
            (1, _) => Some(now.since(self.syn_sent)),
            (_, true) => Some(now.since(segment.ts_ecr)),
            (_, false) => None,
        };
        if self.syn_tries > 1 {
            self.sender.on_handshake_lost(self.syn_tries - 1);
        }
        self.sender.on_established(now, segment.window, sample);
    }

    fn step_state(&mut self) {
        let peer_finished = self.receiver.is_finished();
        let sent = self.sender.is_fin_sent();
        let acked = self.sender.is_fin_acked();
        self.state = match (sent, acked, peer_finished) {
            (false, _, false) => State::Established,
            (false, _, true) => State::CloseWait,
            (true, false, false) => State::FinWait1,
            (true, false, true) => State::LastAck,
            (true, true, false) => State::FinWait2,
            (true, true, true) => State::TimeWait,
        };
    }

    /// Handles the timers that are due at `now`.
    pub fn on_timer(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        if now >= self.syn_at {
            self.syn_at = Time::NEVER;
            if self.syn_tries >= SYN_TRIES {
                self.has_failed = true;
                self.state = State::Closed;
            } else {
                self.syn_due = true;
            }
        }
        if self.is_established() {
            self.sender.on_timer(now, events);
        }
        if self.receiver.on_timer(now, &self.sender.rtt, &self.stack) {
            self.ack_pending = true;
        }
    }

    /// The earliest time at which a timer needs [`Self::on_timer`].
    pub fn next_wake(&self) -> Time {
        // The handshake's timer stops once the connection is established.
        let own = if self.is_established() { self.sender.next_wake() } else { self.syn_at };
        own.min(self.receiver.ack_deadline(&self.stack))
    }

    /// A lower bound on [`Self::next_wake`] that is cheaper to compute.
    #[inline(always)]
    pub fn next_wake_at_least(&self) -> Time {
        let own = if self.is_established() { self.sender.next_wake_at_least() } else { self.syn_at };
        own.min(self.receiver.ack_deadline_at_least())
    }

    /// The next segment to put on the wire at `now`, complete.
    pub fn next_segment(&mut self, now: Time) -> Option<Segment> {
        let mut segment = Segment::blank();
        (self.compose_next(now, &mut segment) != Composed::Nothing).then_some(segment)
    }

    /// As [`Self::next_segment`], written to `place`, which is unchanged if there is no segment.
    #[inline(always)]
    pub fn compose_next(&mut self, now: Time, place: &mut Segment) -> Composed {
        // An end that only receives can only have an ACK to send.
        let is_open = self.is_established() && !self.syn_due;
        if is_open && self.sender.is_silent() && !self.receiver.owes_early_ack() && self.receiver.is_honest()
        {
            if !self.ack_pending {
                return Composed::Nothing;
            }
            self.compose(Outgoing::nothing(self.sender.snd_nxt()), now, place);
            return Composed::Last;
        }
        if self.compose_next_of_all(now, place) { Composed::Segment } else { Composed::Nothing }
    }

    /// `segment` has just been composed: takes the segments that follow at once and differ from it only in `seq`, each
    /// one segment further on. The last may also carry PSH.
    #[inline(always)]
    pub fn take_alike(&mut self, segment: &Segment, now: Time) -> Alike {
        let is_plain = segment.flags == Flags::ACK && segment.sack_count == 0 && !segment.is_repeated;
        let is_full = segment.len == self.sender.mss();
        if self.sender.is_in_burst() && is_plain && is_full && self.receiver.acknowledges_alike() {
            self.sender.take_alike(now)
        } else {
            Alike::NONE
        }
    }

    /// As [`Self::compose_next`], without the fast path for an end that only receives.
    #[inline(always)]
    fn compose_next_of_all(&mut self, now: Time, place: &mut Segment) -> bool {
        if self.syn_due {
            place.replace_by(&self.compose_syn(now));
            return true;
        }
        if !self.is_established() {
            return false;
        }
        if self.receiver.owes_early_ack() {
            match self.receiver.take_early_ack() {
                Some(early) => self.compose_early(early, now, place),
                None => self.compose_flush(now, place),
            }
            return true;
        }
        if !self.receiver.is_honest()
            && let Some(ack) = self.receiver.next_claim(self.ack_pending, &self.stack)
        {
            self.compose_claim(ack, now, place);
            return true;
        }
        // The handshake's ACK is sent alone, before any data.
        let is_first = self.ack_pending && self.sender.snd_nxt() == 0 && self.receiver.next() == 0;
        if !is_first {
            if let Some(outgoing) = self.sender.next_segment(now) {
                self.compose(outgoing, now, place);
                if outgoing.flags.has(Flags::FIN) {
                    self.step_state();
                }
                return true;
            }
            self.sender.settle(now);
        }
        if !self.ack_pending {
            return false;
        }
        self.compose(Outgoing::nothing(self.sender.snd_nxt()), now, place);
        true
    }

    /// Writes every field but the SACK blocks, which are written only if there are any (`sack_count`).
    #[inline]
    fn compose(&mut self, outgoing: Outgoing, now: Time, place: &mut Segment) {
        let Outgoing { seq, len, flags, is_repeated } = outgoing;
        (place.seq, place.len, place.flags, place.is_repeated) = (seq, len, flags, is_repeated);
        (place.ts_val, place.to, place.row) = (now, self.peer, NO_ROW);
        (place.ce, place.window_scale, place.sack_count, place.is_dsack) = (false, 0, 0, false);
        self.receiver.stamp(place, &self.stack);
        self.ack_pending = false;
    }

    /// Composes the ACK for what arrived before the CE mark changed; the current ACK stays due.
    #[cold]
    fn compose_early(&mut self, early: EarlyAck, now: Time, place: &mut Segment) {
        self.compose(Outgoing::nothing(self.sender.snd_nxt()), now, place);
        self.ack_pending = true;
        place.window += place.ack - early.ack;
        place.ack = early.ack;
        place.flags = if early.echo { Flags::ACK.with(Flags::ECE) } else { Flags::ACK };
    }

    /// Composes the compressed ACK for what arrived before the latest segment; that segment's own ACK may stay due.
    #[cold]
    fn compose_flush(&mut self, now: Time, place: &mut Segment) {
        let is_pending = self.ack_pending;
        self.compose(Outgoing::nothing(self.sender.snd_nxt()), now, place);
        self.ack_pending = is_pending;
    }

    /// Composes a false acknowledgement, of less or of more than has arrived; the true one stays due.
    #[cold]
    fn compose_claim(&mut self, ack: u64, now: Time, place: &mut Segment) {
        let is_pending = self.ack_pending;
        self.compose(Outgoing::nothing(self.sender.snd_nxt()), now, place);
        self.ack_pending = is_pending;
        place.window += place.ack.saturating_sub(ack);
        place.ack = ack;
    }

    fn compose_syn(&mut self, now: Time) -> Segment {
        self.syn_due = false;
        let wait = self.stack.rto_initial * (1 << self.syn_tries.min(8));
        let wait = wait.min(self.stack.rto_maximum);
        self.syn_at = self.stack.expiry(now, wait);
        self.syn_tries += 1;
        self.syn_sent = now;
        let mut flags = Flags::SYN;
        let mut echo = Time::NEVER;
        if self.state == State::SynReceived {
            flags = flags.with(Flags::ACK);
            echo = self.receiver.echo();
        }
        Segment {
            to: self.peer,
            flags,
            // RFC 7323 section 2.2: the window of a SYN is never scaled.
            window: self.receiver.window().min(65_535),
            window_scale: self.receiver.scale(),
            ts_val: now,
            ts_ecr: echo,
            ..Segment::blank()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MSS: u32 = 1000;

    /// A server whose handshake is over, at 1 ms.
    fn server(stack: &Arc<Stack>) -> Endpoint {
        let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
        let (send_buffer, receive_buffer) = (1 << 20, 1 << 17);
        let stack = stack.clone();
        let mut end = Endpoint::new(Setup {
            stack,
            algorithm,
            mss: MSS,
            send_buffer,
            receive_buffer,
            read_rate: None,
            peer: 7,
        });
        end.listen();
        let mut events = Vec::new();
        let now = Time::from_ms(1);
        end.on_segment(&Segment { flags: Flags::SYN, ts_val: now, ..Segment::blank() }, now, &mut events);
        assert!(end.next_segment(now).is_some());
        let ack =
            Segment { flags: Flags::ACK, window: 1 << 20, ts_val: now, ts_ecr: now, ..Segment::blank() };
        end.on_segment(&ack, now, &mut events);
        assert!(end.next_segment(now).is_none() && end.is_established());
        end
    }

    /// Two equal servers take the same segments, one of them as steadily as it can; how many it takes so. Of each segment:
    /// what it is if not the next full one, and how many microseconds it takes.
    fn steadily(name: &str, grows: bool, steps: &[(Option<u32>, u64)]) -> usize {
        let mut stack = Stack::named(name, "stack").unwrap();
        if !grows {
            stack.initial_receive_buffer = None;
        }
        let stack = Arc::new(stack);
        let (mut long, mut short) = (server(&stack), server(&stack));
        let (mut now, mut next, mut steady) = (Time::from_ms(1), 0, 0);
        for (what, wait) in steps {
            now += Duration::from_us(*wait);
            for end in [&mut long, &mut short] {
                if end.next_wake() <= now {
                    end.on_timer(now, &mut Vec::new());
                    end.next_segment(now);
                }
            }
            let mut segment = Segment {
                seq: next,
                len: MSS,
                flags: Flags::ACK,
                window: 1 << 20,
                ts_val: now,
                // What a growing window follows: the time since what it echoes.
                ts_ecr: Time::from_ps(now.as_ps() - Duration::from_us(900).as_ps()),
                ..Segment::blank()
            };
            match what {
                Some(0) => segment.seq += u64::from(MSS), // What was before it is lost, and comes next.
                Some(1) => segment.len /= 2,
                Some(2) => segment.seq = next.saturating_sub(u64::from(MSS)),
                Some(_) => segment.flags = Flags::ACK.with(Flags::PSH),
                None => {}
            }
            long.on_segment(&segment, now, &mut Vec::new());
            let mut place = Segment::blank();
            let acknowledged = long.compose_next_of_all(now, &mut place).then_some(place);
            let written = if short.receives_steadily().is_some() && short.is_plain_data(&segment) {
                steady += 1;
                assert!(short.only_receives(&segment));
                let mut place = Segment::blank();
                let is_due = short.receive_plain_data(&segment, now);
                if is_due {
                    short.acknowledge(now, &mut place);
                }
                is_due.then_some(place)
            } else {
                short.on_segment(&segment, now, &mut Vec::new());
                short.next_segment(now)
            };
            assert_eq!(format!("{acknowledged:?}"), format!("{written:?}"));
            assert_eq!(format!("{long:?}"), format!("{short:?}"));
            next = long.receiver.next();
        }
        steady
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_arrives_steadily_does_what_the_long_way_does(
            name in prop::sample::select(vec!["linux", "linux-2.6.25", "freebsd-7", "ns3"]),
            steps in prop::collection::vec((prop::option::weighted(0.05, 0u32..4), 1u64..9000), 20..300),
            grows in any::<bool>(),
        ) {
            steadily(name, grows, &steps);
        }
    }

    #[test]
    fn full_segments_in_order_are_taken_steadily() {
        // Not the first, which quick ACKs answer.
        for grows in [false, true] {
            assert!(steadily("linux", grows, &[(None, 500); 500]) > 400);
        }
    }
}
