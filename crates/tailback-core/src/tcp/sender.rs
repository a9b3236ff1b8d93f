//! The sending half: window, loss detection, recovery, timers.
//!
//! One sender serves every stack; the [`Stack`] says how. This file keeps the state; its rooms are `acks` (what an ACK
//! sets off), `output` (what leaves next), `burst` (how much of it at once), `loss` (what is lost), `recovery` (phases
//! and reductions), `undo`, `frto` (timeouts for nothing), `timers`, `persist` (a closed window), `window` (how much of
//! it is used), `memory` (what one connection leaves to the next) and `notes` (what is told).
//!
//! Sources: RFC 5681, RFC 6582, RFC 6675, RFC 6937 (PRR), RFC 8985 (RACK-TLP), RFC 6298, RFC 3042, RFC 3522
//! (Eifel detection), RFC 5682 (F-RTO); Linux 2.6.25 and 6.x, FreeBSD 7.3 for what their profiles name.
//!
//! Differs from the sources: segments are acknowledged whole (no repacketisation on retransmission).

mod acks;
mod burst;
mod frto;
mod loss;
mod memory;
mod notes;
mod output;
mod persist;
mod recovery;
mod timers;
mod undo;
mod window;

use std::slice::from_ref;
use std::sync::Arc;

pub use notes::{Note, NoteKind, SenderCount};
use prefetch_index::prefetch_index;

use crate::cc::registry::Algorithm;
use crate::cc::{CongestionControl, Control, Phase};
use crate::tcp::metrics::Metrics;
use crate::tcp::rtt::{RtoRule, RttEstimator};
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::stack::{Detection, Stack};
use crate::time::{Bytes, Duration, Time};

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
    /// Sequence number of the segment that told the window last (SND.WL1).
    window_told_at: u64,
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
    // The ACK in hand begins the timer's wait anew.
    restarts_timer: bool,
    probe_end: u64,
    probe_repeated: bool,
    persist: persist::Persist,
    // Pacing: when the next segment may leave, and the wake that waits for it.
    pace_at: Time,
    pace_wake: Time,
    // Something changed, or was sent, since the window was last looked at as a whole.
    unsettled: bool,
    has_sent: bool,
    // New data was among it, other than a probe.
    has_sent_new: bool,
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
            board: Scoreboard::new(stack.detection == Detection::Rack, stack.timestamp_tick),
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
            window_told_at: 0,
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
            restarts_timer: false,
            probe_end: 0,
            probe_repeated: false,
            persist: persist::Persist::default(),
            pace_at: Time::ZERO,
            pace_wake: Time::NEVER,
            unsettled: false,
            has_sent: false,
            has_sent_new: false,
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
            self.rtt.on_sample(sample, sample, self.snd_una, self.snd_nxt);
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
            self.look_again();
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
}
