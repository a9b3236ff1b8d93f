//! The sending half: window, loss detection, recovery, timers.
//!
//! One sender serves every stack; the [`Stack`] says how. The order of work on an ACK is Linux's: scoreboard,
//! RTT, loss detection, recovery state, then the algorithm, then the reduction step. This file keeps the state,
//! takes ACKs and sends; its rooms are `burst` (how much leaves at once), `loss` (what is lost), `recovery` (phases and reductions), `undo`, `frto`
//! (timeouts for nothing), `timers`, `persist` (a closed window) and `window` (how much of it is used).
//!
//! Sources: RFC 5681, RFC 6582, RFC 6675, RFC 6937 (PRR), RFC 8985 (RACK-TLP), RFC 6298, RFC 3042, RFC 3522
//! (Eifel detection), RFC 5682 (F-RTO); Linux 2.6.25 and 6.x, FreeBSD 7.3 for what their profiles name.
//!
//! Differs from the sources: segments are acknowledged whole (no repacketisation on retransmission).

mod burst;
mod frto;
mod loss;
mod memory;
mod persist;
mod recovery;
mod timers;
mod undo;
mod window;

use std::slice::from_ref;
use std::sync::Arc;

use persist::Patience;
use prefetch_index::prefetch_index;

use crate::cc::registry::Algorithm;
use crate::cc::{Ack, CongestionControl, Control, Counting, Phase, Resume};
use crate::tcp::metrics::Metrics;
use crate::tcp::rtt::{RtoRule, RttEstimator};
use crate::tcp::scoreboard::{Delivery, Scoreboard};
use crate::tcp::segment::{Flags, Outgoing, Range, Segment};
use crate::tcp::stack::{Detection, Pipe, Reduction, Stack};
use crate::time::{Bytes, Duration, Time};

/// Something worth a row in the `congestion` table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NoteKind {
    /// Fast recovery began.
    RecoveryEntered = 0,
    /// Fast recovery ended.
    RecoveryLeft = 1,
    /// Retransmission timeout.
    Timeout = 2,
    /// Reduction after an ECN echo began.
    CwrEntered = 3,
    /// A reduction was undone.
    Undo = 4,
    /// The reduction after an ECN echo ended.
    CwrLeft = 5,
}

impl NoteKind {
    /// The names in tables, in the order of the discriminants.
    pub const NAMES: [&'static str; 6] =
        ["recovery-entered", "recovery-left", "timeout", "cwr-entered", "undo", "cwr-left"];
}

/// A congestion event at the sender.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// What happened.
    pub kind: NoteKind,
    /// When.
    pub now: Time,
    /// cwnd in bytes before.
    pub cwnd_before: Bytes,
    /// cwnd in bytes after.
    pub cwnd_after: Bytes,
    /// ssthresh in bytes after.
    pub ssthresh: Bytes,
    /// Bytes in flight.
    pub in_flight: Bytes,
}

/// What the sender counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderCount {
    /// Segments with payload or FIN sent, retransmissions included.
    pub segments_sent: u64,
    /// Of those, retransmissions.
    pub segments_retransmitted: u64,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions undone.
    pub undos: u64,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
}

/// The sending half of a connection.
#[derive(Debug)]
pub struct Sender {
    stack: Arc<Stack>,
    /// What the algorithm controls.
    pub control: Control,
    algorithm: Algorithm,
    board: Scoreboard,
    /// RTT estimator.
    pub rtt: RttEstimator,
    snd_una: u64,
    snd_nxt: u64,
    // The application may send up to here; the FIN, if asked for, sits at this offset.
    write_end: u64,
    wants_fin: bool,
    fin_sent: bool,
    send_buffer: Bytes,
    right_edge: u64,
    widest_window: Bytes,
    phase: Phase,
    // Recovery ends when this offset is acknowledged (RFC 6582 `recover`, Linux `high_seq`).
    recover: u64,
    duplicate_acks: u32,
    // Without SACK: duplicate ACKs taken as departures.
    departed: u32,
    partial_acks: u32,
    may_force: bool,
    // Reduction state: PRR and rate halving.
    prior_cwnd: Bytes,
    prr_delivered: Bytes,
    prr_out: Bytes,
    halving_odd: bool,
    // ns-2's count of segments in flight during recovery.
    pipe: i64,
    // What an earlier connection to this host has left.
    recalled: Option<Box<Metrics>>,
    // RFC 6675 NextSeg rule 4 was used in this recovery.
    rescued: bool,
    undo: undo::UndoState,
    reordering: loss::Reordering,
    frto: frto::Step,
    round_end: u64,
    // Growth gate of Linux 6.
    window_full: bool,
    most_out: Bytes,
    usage_end: u64,
    // Window validation: the most that was out since the window was last full, or since `used_since`.
    used: Bytes,
    used_since: Time,
    bursts: burst::Bursts,
    // What waits in the queue of the host's link, if the stack looks at it, and whether sending waits for it.
    queued: Bytes,
    waits_for_queue: bool,
    rto_at: Time,
    probe_at: Time,
    reorder_at: Time,
    probe_end: u64,
    probe_repeated: bool,
    persist: persist::Persist,
    // Pacing: when the next segment may leave, and the wake that waits for it.
    pace_at: Time,
    pace_wake: Time,
    // Something changed, or was sent, since the window was last looked at as a whole.
    unsettled: bool,
    has_sent: bool,
    last_sent: Time,
    timeout_una: u64,
    // The next new segment tells the receiver of a reduction.
    owes_cwr: bool,
    /// Counters.
    pub count: SenderCount,
}

impl Sender {
    /// A sender before the handshake.
    pub fn new(stack: Arc<Stack>, algorithm: Algorithm, mss: u32, send_buffer: Bytes) -> Self {
        let rtt = RttEstimator::new(
            stack.rto_rule,
            stack.rto_initial,
            stack.rto_minimum,
            stack.rto_maximum,
            stack.clock_tick,
        );
        let control = Control {
            cwnd: u64::from(stack.initial_window) * u64::from(mss),
            ssthresh: Control::UNLIMITED,
            pacing: None,
            mss,
        };
        Sender {
            board: Scoreboard::new(stack.detection == Detection::Rack),
            control,
            algorithm,
            rtt,
            snd_una: 0,
            snd_nxt: 0,
            write_end: 0,
            wants_fin: false,
            fin_sent: false,
            send_buffer,
            right_edge: 0,
            widest_window: 0,
            phase: Phase::Open,
            recover: 0,
            duplicate_acks: 0,
            departed: 0,
            partial_acks: 0,
            may_force: false,
            prior_cwnd: 0,
            prr_delivered: 0,
            prr_out: 0,
            halving_odd: false,
            pipe: 0,
            recalled: None,
            rescued: false,
            undo: undo::UndoState::default(),
            reordering: loss::Reordering::new(stack.duplicate_threshold),
            frto: frto::Step::Idle,
            round_end: 0,
            window_full: false,
            most_out: 0,
            usage_end: 0,
            used: 0,
            used_since: Time::ZERO,
            bursts: burst::Bursts::default(),
            queued: 0,
            waits_for_queue: false,
            rto_at: Time::NEVER,
            probe_at: Time::NEVER,
            reorder_at: Time::NEVER,
            probe_end: 0,
            probe_repeated: false,
            persist: persist::Persist::default(),
            pace_at: Time::ZERO,
            pace_wake: Time::NEVER,
            unsettled: false,
            has_sent: false,
            last_sent: Time::ZERO,
            timeout_una: u64::MAX,
            owes_cwr: false,
            count: SenderCount::default(),
            stack,
        }
    }

    /// The handshake is complete: the peer offers `window`, and the SYN's round trip may give a sample.
    pub fn on_established(&mut self, now: Time, window: Bytes, sample: Option<Duration>) {
        self.right_edge = self.snd_una + window;
        self.widest_window = window;
        let recalled = self.recalled.take();
        if let Some(metrics) = &recalled {
            self.recall_before_sample(metrics);
        }
        if let Some(sample) = sample {
            let sample = self.rtt.quantise(sample);
            self.rtt.on_sample(sample, self.snd_una, self.snd_nxt);
        }
        if let Some(metrics) = &recalled {
            self.recall_after_sample(metrics);
        }
        self.algorithm.on_established(now, sample, &mut self.control);
        self.last_sent = now;
        self.used_since = now;
    }

    /// The handshake lost segments: RFC 5681 section 3.1 starts with one segment, and RFC 6298 section 5.7 with
    /// a timeout of 3 s if there is no sample. Linux forgives one loss (`tcp_init_transfer`).
    pub fn on_handshake_lost(&mut self, repeats: u32) {
        let forgiven = if self.stack.rto_rule == RtoRule::Linux { 1 } else { 0 };
        if repeats > forgiven {
            self.control.cwnd = u64::from(self.control.mss);
        }
        self.rtt.fall_back();
    }

    /// See [`super::endpoint::Endpoint::fetch`].
    #[inline]
    pub fn fetch(&self) {
        for field in [&self.snd_una, &self.write_end, &self.recover, &self.round_end, &self.usage_end] {
            prefetch_index(from_ref(field), 0);
        }
        prefetch_index(from_ref(&self.control), 0);
        prefetch_index(from_ref(&self.count.segments_sent), 0);
        prefetch_index(from_ref(&self.phase), 0);
        self.rtt.fetch();
        self.board.fetch();
    }
    /// Have in the cache soon where the flight begins and ends.
    #[inline]
    pub fn fetch_flight(&self) {
        self.board.fetch_flight();
    }
    /// The stack this sender runs.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }
    /// The algorithm.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }
    /// First unacknowledged offset.
    pub fn snd_una(&self) -> u64 {
        self.snd_una
    }
    /// Next offset to send.
    pub fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }
    /// Payload acknowledged.
    pub fn bytes_acked(&self) -> Bytes {
        self.snd_una - u64::from(self.is_fin_acked())
    }
    /// The peer's window in bytes.
    pub fn send_window(&self) -> Bytes {
        self.right_edge.saturating_sub(self.snd_una)
    }
    /// Send buffer in bytes.
    pub fn send_buffer(&self) -> Bytes {
        self.send_buffer
    }
    /// Bytes written and not acknowledged, as far as the buffer holds them.
    pub fn buffered(&self) -> Bytes {
        (self.write_end.saturating_sub(self.snd_una)).min(self.send_buffer)
    }
    /// Bytes that the send buffer has room for.
    pub fn room(&self) -> Bytes {
        self.send_buffer.saturating_sub(self.write_end.saturating_sub(self.snd_una))
    }
    /// Recovery state.
    pub fn phase(&self) -> Phase {
        self.phase
    }
    /// Bytes in flight.
    pub fn in_flight(&self) -> Bytes {
        let departed = if self.phase == Phase::Disorder && !self.stack.limited_transmit {
            0
        } else {
            u64::from(self.departed) * u64::from(self.control.mss)
        };
        self.board.in_flight().saturating_sub(departed)
    }
    /// Segments that may arrive before one that is only late: the duplicate threshold, as reordering has raised it.
    pub fn reordering(&self) -> u32 {
        self.reordering.degree
    }
    /// The FIN was sent and acknowledged.
    pub fn is_fin_acked(&self) -> bool {
        self.fin_sent && self.snd_una > self.write_end
    }
    /// The FIN was sent.
    pub fn is_fin_sent(&self) -> bool {
        self.fin_sent
    }
    /// Everything written has been acknowledged.
    pub fn is_drained(&self) -> bool {
        self.snd_una >= self.write_end
    }

    /// The application hands over `bytes` more.
    pub fn write(&mut self, bytes: Bytes) {
        if !self.wants_fin {
            self.write_end = self.write_end.saturating_add(bytes).min(u64::MAX / 4);
        }
    }
    /// The application always has data.
    pub fn write_forever(&mut self) {
        self.write_end = u64::MAX / 4;
    }
    /// The application is done. `discard`: what was not yet sent is dropped (end of a timed transfer).
    pub fn close(&mut self, discard: bool) {
        if self.wants_fin {
            return;
        }
        self.wants_fin = true;
        if discard {
            self.write_end = self.write_end.min(self.snd_nxt);
        }
    }

    // ---------------------------------------------------------------- acknowledgements

    /// An ACK arrived. `ack` and the SACK blocks come from the segment.
    pub fn on_ack(&mut self, segment: &Segment, now: Time, notes: &mut Vec<Note>) {
        if segment.ack > self.snd_nxt {
            return; // Acknowledges what was never sent: RFC 9293 section 3.10.7.4 drops it.
        }
        let prior_window = self.right_edge;
        let edge = segment.ack + segment.window;
        if segment.ack >= self.snd_una && edge > self.right_edge {
            self.right_edge = edge;
            self.widest_window = self.widest_window.max(segment.window);
        }
        // The side that only receives hears nothing else: no need to look further.
        let has_news = segment.ack != self.snd_una || segment.sack_count > 0 || self.probe_end != 0;
        if !has_news && self.board.is_empty() {
            return;
        }
        let prior_in_flight = self.in_flight();
        let prior_una = self.snd_una;
        let was_cwnd_limited = self.is_cwnd_limited(prior_in_flight);
        let blocks = match segment.is_dsack {
            true => &segment.sack_blocks()[1..],
            false => segment.sack_blocks(),
        };
        let delivery = self.board.on_ack(segment.ack, blocks, now, self.rtt.min());
        let newly_acked = segment.ack.saturating_sub(prior_una);
        self.snd_una = self.snd_una.max(segment.ack);
        self.break_burst();
        let is_duplicate = newly_acked == 0
            && segment.ack == prior_una
            && segment.len == 0
            && !segment.flags.has(Flags::FIN)
            && !self.board.is_empty()
            && (prior_window == self.right_edge || segment.sack_count > 0);
        if is_duplicate {
            self.duplicate_acks += 1;
            self.count.duplicate_acks += 1;
        } else if newly_acked > 0 {
            self.duplicate_acks = 0;
        }
        if !self.stack.sack {
            self.count_departures(is_duplicate, delivery.acked_segments);
        }
        if delivery.late_by > 0 {
            self.reordering.on_late(delivery.late_by, self.stack.reordering_limit);
        }
        if segment.is_dsack {
            self.count_duplicate(segment);
        }

        let sample = self.sample_rtt(segment, newly_acked, &delivery, now);
        if newly_acked > 0 && !self.is_impatient() {
            self.arm_rto(now);
        }
        let round_start = self.snd_una > self.round_end;
        if round_start {
            self.round_end = self.snd_nxt;
        }

        if self.probe_end != 0 {
            self.settle_probe(segment, newly_acked, now, notes);
        }
        let is_marked = self.stack.speaks_ecn() && segment.flags.has(Flags::ECE);
        if is_marked {
            self.on_echo(now, notes);
        }
        if self.phase == Phase::Recovery {
            // Fall & Floyd 1996: a partial ACK stands for the original and for its retransmission.
            self.pipe -= if newly_acked > 0 { 2 } else { 1 };
        }
        if self.is_in_frto() {
            self.judge_timeout(&delivery, newly_acked, is_duplicate, now, notes);
        }
        let was_reducing = matches!(self.phase, Phase::Recovery | Phase::Cwr);
        let lost = self.detect(now, newly_acked > 0);
        let is_undone = self.step_state(segment, newly_acked, lost, now, notes);
        let is_reducing = matches!(self.phase, Phase::Recovery | Phase::Cwr);
        // Linux up to 3.17 grows before it steps its state, so the ACK that ends recovery adds nothing.
        let grows_first = self.stack.counting == Counting::PerAck;
        let rate = self.board.rate_sample(now, self.rtt.min());
        let ack = Ack {
            now,
            mss: self.control.mss,
            newly_acked,
            newly_acked_segments: delivery.acked_segments,
            delivered_segments: delivery.delivered_segments,
            lost_segments: lost,
            marked: match is_marked {
                true if self.stack.accurate_echo => newly_acked,
                true => newly_acked.min(u64::from(self.control.mss)),
                false => 0,
            },
            rtt: sample,
            rtt_read: self.read_rtt(sample, &delivery, now),
            rtt_min: self.rtt.min(),
            srtt: self.rtt.srtt(),
            in_flight: self.in_flight(),
            prior_in_flight,
            delivery_rate: rate.map(|sample| sample.rate),
            delivered: self.board.delivered(),
            prior_delivered: rate.map_or(0, |sample| sample.prior_delivered),
            app_limited: rate.is_some_and(|sample| sample.app_limited),
            round_start,
            cwnd_limited: was_cwnd_limited,
            may_grow: newly_acked > 0 && was_cwnd_limited && !is_reducing && !(was_reducing && grows_first),
            phase: self.phase,
            counting: self.stack.counting,
            in_slow_start: self.is_in_slow_start(),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        };
        self.algorithm.on_ack(&ack, &mut self.control);
        if self.algorithm.wants_reduction() && self.phase < Phase::Cwr {
            self.enter_reduction(now, notes);
        }
        if is_reducing && !is_undone && !self.algorithm.owns_window() {
            self.reduce(&delivery, newly_acked, lost, is_duplicate, !was_reducing);
        }
        self.keep_floor();
        self.unsettled = true;
    }

    fn sample_rtt(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        delivery: &Delivery,
        now: Time,
    ) -> Option<Duration> {
        let by_timestamp = || {
            let usable = self.stack.timestamps && newly_acked > 0 && segment.ts_ecr != Time::NEVER;
            usable.then(|| now.since(segment.ts_ecr))
        };
        // Linux 6 prefers its own send times; the older stacks read the echoed timestamp (RFC 7323).
        let estimate = match self.stack.clock_tick.is_zero() {
            true => delivery.rtt_first.or(delivery.rtt_sack).or_else(by_timestamp),
            false => by_timestamp().or(delivery.rtt_first),
        };
        if let Some(estimate) = estimate {
            let estimate = self.rtt.quantise(estimate);
            self.rtt.on_sample(estimate, self.snd_una, self.snd_nxt);
        }
        match self.stack.clock_tick.is_zero() {
            true => delivery.rtt_last.or(delivery.rtt_sack),
            false => estimate.map(|sample| self.rtt.quantise(sample)),
        }
    }

    /// What the host's clock says between sending and now: with ticks, how many of them began in between.
    fn read_rtt(&self, sample: Option<Duration>, delivery: &Delivery, now: Time) -> Option<Duration> {
        let tick = self.stack.clock_tick;
        if tick.is_zero() {
            return sample;
        }
        let span = delivery.rtt_last.or(delivery.rtt_sack)?;
        let reading = |at: u64| at / tick.as_ps();
        let ticks = reading(now.as_ps()) - reading(now.as_ps().saturating_sub(span.as_ps()));
        Some(tick * ticks)
    }

    fn note(&self, kind: NoteKind, now: Time, cwnd_before: Bytes, notes: &mut Vec<Note>) {
        notes.push(Note {
            kind,
            now,
            cwnd_before,
            cwnd_after: self.control.cwnd,
            ssthresh: self.control.ssthresh,
            in_flight: self.in_flight(),
        });
    }

    // ---------------------------------------------------------------- sending

    /// The next segment the window lets go at `now`; after `None` the host calls [`Self::settle`].
    pub fn next_segment(&mut self, now: Time) -> Option<Outgoing> {
        self.pace_wake = Time::NEVER;
        if self.snd_nxt >= self.write_end && !self.wants_fin && self.board.is_empty() {
            // Nothing to say and nothing to repeat.
            self.board.on_app_limited();
            return None;
        }
        let force = std::mem::take(&mut self.may_force);
        if self.stack.small_queue.is_some() && !force && !self.is_in_burst() && self.has_queued_enough() {
            return None;
        }
        let is_paced = self.control.pacing.is_some() || self.stack.pacing;
        if is_paced && !force && now < self.pace_at && !self.is_in_burst() {
            self.pace_wake = self.pace_at;
            return None;
        }
        if force && self.probe_end != 0 && self.phase < Phase::Recovery {
            return self.send_probe(now);
        }
        if self.frto == frto::Step::NewData {
            let new = self.send_for_frto(now);
            if new.is_some() || self.is_in_frto() {
                return new;
            }
        }
        if let Some((range, is_fin)) = self.board.next_repair() {
            let bytes = range.end - range.start;
            if force || self.may_send(bytes) {
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

    /// Nothing more leaves now: set the probe, and look at how much of the window was used.
    pub fn settle(&mut self, now: Time) {
        if !std::mem::take(&mut self.unsettled) {
            return;
        }
        self.arm_probe(now);
        if std::mem::take(&mut self.has_sent) || self.bursts.waits {
            self.on_window_used(now);
        }
    }

    /// RFC 6675 NextSeg rules 3 and 4: nothing is lost and nothing new may be sent, so repair what may be lost.
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
        Some(self.compose(range, is_fin, now))
    }

    fn may_send(&self, bytes: Bytes) -> bool {
        let used = match self.stack.reduction {
            // FreeBSD 7.3 in recovery: the window covers what this recovery has sent, nothing older.
            Reduction::FreeBsd if self.phase == Phase::Recovery && self.stack.sack => {
                self.board.retransmitted() + (self.snd_nxt - self.recover)
            }
            // RFC 3042 switched off: what was SACKED does not make room before recovery.
            _ if self.phase == Phase::Disorder && !self.stack.limited_transmit => self.board.outstanding(),
            _ if self.phase == Phase::Recovery && self.stack.pipe == Pipe::Counter && self.stack.sack => {
                self.pipe.max(0) as u64 * u64::from(self.control.mss)
            }
            _ => self.in_flight(),
        };
        used + bytes <= self.control.cwnd
    }

    fn repair(&mut self, range: Range, is_fin: bool, now: Time) -> Outgoing {
        self.board.on_repaired(now, self.snd_nxt);
        if range.start <= self.snd_una && !(self.stack.impatient && self.partial_acks > 1) {
            // A fresh timeout for the head's new transmission, as Linux and BSD have it (RFC 6675 section 5).
            self.arm_rto(now);
        }
        self.on_retransmission(now);
        self.compose(range, is_fin, now)
    }

    fn on_retransmission(&mut self, now: Time) {
        self.undo.first_retransmission = self.undo.first_retransmission.min(now);
        self.undo.unexplained += 1;
        self.count.segments_retransmitted += 1;
        if self.rto_at == Time::NEVER {
            self.arm_rto(now);
        }
    }

    #[cold]
    fn send_probe(&mut self, now: Time) -> Option<Outgoing> {
        if !self.probe_repeated {
            if let Some(segment) = self.send_new(now, true) {
                return Some(segment);
            }
        }
        let (range, is_fin) = self.board.last()?;
        self.probe_repeated = true;
        self.board.on_probe(now, self.snd_nxt);
        self.count.segments_retransmitted += 1;
        Some(Outgoing { is_repeated: true, ..self.compose(range, is_fin, now) })
    }

    fn send_new(&mut self, now: Time, force: bool) -> Option<Outgoing> {
        let mss = u64::from(self.control.mss);
        if self.snd_nxt >= self.write_end {
            return self.send_fin(now);
        }
        // The send buffer holds what is not acknowledged.
        let limit = self.write_end.min(self.snd_una + self.send_buffer);
        let available = limit.saturating_sub(self.snd_nxt);
        let window = self.right_edge.saturating_sub(self.snd_nxt);
        let bytes = mss.min(available).min(window);
        if bytes < mss && !self.may_be_short(bytes, available, window) {
            match self.wait_for_window(bytes, available, now) {
                Patience::Wait => return None,
                Patience::Probe => return Some(self.window_probe()),
                Patience::Over => {}
            }
        }
        if self.board.is_empty() {
            self.restart_after_idle(now);
        }
        if !force && !self.may_send(bytes) {
            return None;
        }
        let is_cut = self.stack.burst_segments > 1;
        if is_cut && !force && !self.joins_burst(now, available) {
            return None;
        }
        let range = Range { start: self.snd_nxt, end: self.snd_nxt + bytes };
        let is_first = self.board.is_empty();
        // The FIN rides on the last segment if that is all there is.
        let is_fin = self.wants_fin && range.end == self.write_end;
        let length = bytes + u64::from(is_fin);
        self.snd_nxt += length;
        self.fin_sent |= is_fin;
        self.board.push(self.snd_nxt, length as u32, is_fin, now);
        if is_first {
            self.persist = persist::Persist::default();
            self.arm_rto(now);
            if range.start > 0 {
                let idle = now.since(self.last_sent);
                let resume = Resume { now, idle, app_limited: self.board.is_app_limited() };
                self.algorithm.on_resume(&resume, &mut self.control);
            }
        }
        let mut segment = self.compose(Range { start: range.start, end: range.start + length }, is_fin, now);
        // The end of what was written, or of a burst.
        if range.end == self.write_end || is_cut && self.ends_burst() {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        Some(segment)
    }

    /// Sender-side silly-window avoidance (RFC 9293 section 3.8.6.2.1): a short segment only if it is the end
    /// of what the application wrote, or half of the largest window the peer ever offered.
    fn may_be_short(&self, bytes: Bytes, available: Bytes, window: Bytes) -> bool {
        let is_tail = available <= window && self.snd_nxt + bytes == self.write_end;
        bytes > 0 && (is_tail || bytes * 2 >= self.widest_window)
    }

    #[cold]
    fn send_fin(&mut self, now: Time) -> Option<Outgoing> {
        if !self.wants_fin || self.fin_sent || self.snd_nxt > self.write_end {
            if !self.wants_fin && !self.board.has_repairs() {
                self.board.on_app_limited();
            }
            return None;
        }
        let range = Range { start: self.snd_nxt, end: self.snd_nxt + 1 };
        let is_first = self.board.is_empty();
        self.fin_sent = true;
        self.snd_nxt += 1;
        self.board.push(self.snd_nxt, 1, true, now);
        if is_first {
            self.arm_rto(now);
        }
        Some(self.compose(range, true, now))
    }

    #[inline]
    fn compose(&mut self, range: Range, is_fin: bool, now: Time) -> Outgoing {
        let length = (range.end - range.start) as u32;
        self.count.segments_sent += 1;
        self.last_sent = now;
        if matches!(self.phase, Phase::Recovery | Phase::Cwr) {
            self.prr_out += u64::from(length);
            self.pipe += 1;
        }
        // A burst was charged as a whole when it began.
        let charged = self.bursts.charged.min(u64::from(length));
        self.bursts.charged -= charged;
        if self.control.pacing.is_some() || self.stack.pacing {
            self.charge_pacing(u64::from(length) - charged, now);
        }
        self.unsettled = true;
        self.has_sent = true;
        let mut flags = if is_fin { Flags::FIN } else { Flags::default() };
        // RFC 3168 section 6.1.5: only new data carries CWR, as a retransmission must not be ECN capable.
        if self.owes_cwr && range.end == self.snd_nxt && length > u32::from(is_fin) {
            self.owes_cwr = false;
            flags = flags.with(Flags::CWR);
        }
        Outgoing {
            seq: range.start,
            len: length - u32::from(is_fin),
            flags,
            is_repeated: range.end != self.snd_nxt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::{Flags, Range};

    #[test]
    fn what_is_sent_again_says_so() {
        let stack = Arc::new(Stack::named("linux", "stack").unwrap());
        let algorithm = crate::cc::registry::build("reno", &Default::default(), "tcp", 1).unwrap();
        let mut sender = Sender::new(stack, algorithm, 1000, 1 << 20);
        sender.on_established(Time::from_ms(80), 1 << 20, Some(Duration::from_ms(80)));
        sender.write_forever();
        let first = std::iter::from_fn(|| sender.next_segment(Time::from_ms(80))).collect::<Vec<_>>();
        assert!(first.len() == 10 && first.iter().all(|segment| !segment.is_repeated));
        let mut notes = Vec::new();
        // Everything but the first segment is SACKed.
        let sack = [Range { start: 1000, end: 10_000 }, Range::default(), Range::default(), Range::default()];
        let ack = Segment { flags: Flags::ACK, window: 1 << 20, sack, sack_count: 1, ..Segment::blank() };
        sender.on_ack(&ack, Time::from_ms(165), &mut notes);
        let repair = sender.next_segment(Time::from_ms(165)).unwrap();
        assert!(repair.seq == 0 && repair.is_repeated);
        let new = sender.next_segment(Time::from_ms(165)).unwrap();
        assert!(new.seq == 10_000 && !new.is_repeated);
    }
}
