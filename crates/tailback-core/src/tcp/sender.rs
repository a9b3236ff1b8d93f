//! The sending half: window, loss detection, recovery, timers.
//!
//! One sender serves every stack; the [`Stack`] holds the differences. This file keeps the state. Its modules: `acks`
//! (processes ACKs), `output` (what to send next), `burst` (how much at once), `pacing`, `host_queue` (bytes waiting in
//! the host). Losses: `loss` (detection), `recovery` (phases), `reduction` (how the window falls), `undo`, `frto`
//! (spurious timeouts), `timers`, `probe` (tail loss probe). Others: `window` (the peer's window), `persist` (closed
//! windows), `usage` (use of the congestion window), `followed` (algorithms that track each packet), `cached_metrics`
//! (values kept for the next connection) and `events`.
//!
//! Sources: RFC 5681, RFC 6582, RFC 6675, RFC 6937 (PRR), RFC 8985 (RACK-TLP), RFC 6298, RFC 3042, RFC 3522
//! (Eifel detection), RFC 5682 (F-RTO); Linux 2.6.25 and 6.x, FreeBSD 7.3 for what their profiles name.
//!
//! Differs from the sources: segments are acknowledged whole (no repacketisation on retransmission). The window, the
//! flight and what the algorithm is credited are in bytes; Linux counts packets whatever their size, so small writes
//! fill its window sooner (see `docs/stacks.md`).

mod acks;
mod burst;
mod cached_metrics;
mod events;
mod followed;
mod frto;
mod host_queue;
mod loss;
mod output;
mod pacing;
mod persist;
mod probe;
mod recovery;
mod reduction;
mod timers;
mod undo;
mod usage;
mod window;

use std::slice::from_ref;
use std::sync::Arc;

pub use burst::Alike;
pub use events::{CongestionEvent, CongestionEventKind, SenderCount};
use prefetch_index::prefetch_index;

use crate::cc::registry::Algorithm;
use crate::cc::{CongestionControl, Control, Phase};
use crate::tcp::cold::{AtRest, ColdState};
use crate::tcp::metrics::Metrics;
use crate::tcp::rtt::{RtoRule, RttEstimator};
use crate::tcp::scoreboard::{Flight, Scoreboard};
use crate::tcp::segment::Segment;
use crate::tcp::stack::{Detection, Stack};
use crate::time::{Bytes, Duration, Time};

/// The sending half of a connection. Fields in order of use: for a side that only receives, for every ACK and segment,
/// and for losses, marks, timeouts and closed windows.
#[derive(Debug)]
#[repr(C)]
pub struct Sender {
    stack: Arc<Stack>,
    snd_una: u64,
    snd_nxt: u64,
    // End of the data that the application has written; a FIN takes this offset.
    write_end: u64,
    peer: window::PeerWindow,
    timer: timers::Timer,
    pacing: pacing::Pacing,
    probe: probe::TailLossProbe,
    output: output::Output,
    phase: Phase,
    frto: frto::Step,
    wants_fin: bool,
    fin_sent: bool,
    may_force: bool,
    // `next_segment` found nothing in flight and nothing to send.
    rests: bool,
    // The algorithm tracks each packet.
    is_followed: bool,
    // Loss detection is RACK, clocks are exact and ECN is off, so most ACKs take the fast path in `acks`.
    takes_plain_acks: bool,
    // RFC 6675 NextSeg rule 4 was used in this recovery.
    rescued: bool,
    // The next new segment carries CWR.
    owes_cwr: bool,
    duplicate_acks: u32,
    // Without SACK: number of segments that duplicate ACKs show to have left the network.
    departed: u32,
    partial_acks: u32,
    /// RTT estimator.
    pub rtt: RttEstimator,
    board: Scoreboard,
    /// The variables that the algorithm controls.
    pub control: Control,
    bursts: burst::Bursts,
    usage: usage::Usage,
    send_buffer: Bytes,
    // Recovery ends when this offset is acknowledged (RFC 6582 `recover`, Linux `high_seq`).
    recover: u64,
    round_end: u64,
    // When the oldest retransmission that may still be in flight was sent (Linux `retrans_stamp`).
    first_retransmission: Time,
    persist: persist::Persist,
    /// Counters.
    pub count: SenderCount,
    algorithm: Algorithm,
    reordering: loss::Reordering,
    trouble: ColdState<Trouble>,
    units: burst::Units,
    host_queue: host_queue::HostQueue,
}

const _: () =
    assert!(std::mem::offset_of!(Sender, count) <= 592, "what every ACK touches is ten cache lines");

/// State of reductions, timeouts and marks, and metrics of an earlier connection.
#[derive(Clone, PartialEq, Debug)]
struct Trouble {
    undo: undo::UndoState,
    descent: reduction::Descent,
    // ns-2's count of segments in flight during recovery.
    pipe: i64,
    timeout_una: u64,
    // Number of segments that D-SACKs have reported.
    duplicates: u64,
    // AccECN: number of packets known to be marked.
    marked_packets: u64,
    // Metrics of an earlier connection to this host.
    recalled: Option<Metrics>,
}

impl AtRest for Trouble {
    fn at_rest() -> &'static Self {
        static AT_REST: Trouble = Trouble {
            undo: undo::UndoState::NONE,
            descent: reduction::Descent::from_window(0),
            pipe: 0,
            timeout_una: u64::MAX,
            duplicates: 0,
            marked_packets: 0,
            recalled: None,
        };
        &AT_REST
    }
}

impl Sender {
    /// A sender before the handshake.
    pub fn new(stack: Arc<Stack>, algorithm: Algorithm, mss: u32, send_buffer: Bytes) -> Self {
        let is_followed = algorithm.follows_packets();
        let is_cut = stack.burst_segments > 1 && stack.send_bookkeeping > 0;
        let grows = stack.send_buffer_grows && is_cut;
        let mut board = Scoreboard::new(stack.detection == Detection::Rack, stack.timestamp_tick);
        board.losses = is_followed.then(Vec::new);
        let mut sender = Sender {
            control: Control {
                cwnd: u64::from(stack.initial_window) * u64::from(mss),
                ssthresh: Control::UNLIMITED,
                pacing: None,
                mss,
                self_limited: false,
            },
            snd_una: 0,
            snd_nxt: 0,
            write_end: 0,
            recover: 0,
            round_end: 0,
            phase: Phase::Open,
            wants_fin: false,
            fin_sent: false,
            may_force: false,
            rests: false,
            duplicate_acks: 0,
            departed: 0,
            is_followed,
            takes_plain_acks: stack.lanes().plain_acks && !is_followed,
            send_buffer,
            peer: Default::default(),
            timer: Default::default(),
            output: Default::default(),
            usage: Default::default(),
            pacing: Default::default(),
            host_queue: Default::default(),
            probe: Default::default(),
            rtt: RttEstimator::default(),
            board,
            bursts: Default::default(),
            units: Default::default(),
            trouble: ColdState::default(),
            first_retransmission: Time::NEVER,
            count: SenderCount::default(),
            algorithm,
            reordering: loss::Reordering::new(stack.duplicate_threshold),
            frto: Default::default(),
            rescued: false,
            owes_cwr: false,
            partial_acks: 0,
            persist: Default::default(),
            stack,
        };
        sender.units.most_buffer = send_buffer;
        if grows {
            sender.send_buffer = sender.grown_buffer().min(send_buffer);
        }
        sender
    }

    /// The handshake is complete: the peer offers `window`, and the SYN's round trip may give a sample.
    pub fn on_established(&mut self, now: Time, window: Bytes, sample: Option<Duration>) {
        self.peer = window::PeerWindow::new(self.snd_una, window);
        let recalled = match self.trouble.is_at_rest() {
            true => None,
            false => self.trouble.recalled.take(),
        };
        if let Some(metrics) = &recalled {
            self.recall_before_sample(metrics);
        }
        if let Some(sample) = sample {
            let sample = self.stack.quantise(sample);
            self.rtt.on_sample(&self.stack, sample, sample, self.snd_una, self.snd_nxt);
        }
        if let Some(metrics) = &recalled {
            self.recall_after_sample(metrics);
        }
        self.algorithm.on_established(now, sample, &mut self.control);
        self.output.last_sent = now;
        self.usage.used_since = now;
    }

    /// The handshake lost segments: the window starts at one segment (RFC 5681 section 3.1), and without an RTT sample
    /// the timeout is 3 s (RFC 6298 section 5.7). Linux keeps its window after a single loss
    /// (`tcp_init_transfer`).
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
        for field in [&self.snd_una, &self.recover, &self.usage.round_end] {
            prefetch_index(from_ref(field), 0);
        }
        prefetch_index(from_ref(&self.timer), 0);
        prefetch_index(from_ref(&self.output), 0);
        prefetch_index(from_ref(&self.control), 0);
        prefetch_index(from_ref(&self.algorithm), 0);
        self.rtt.fetch();
        self.board.fetch();
    }
    /// As [`Self::fetch`], for a side that only receives.
    #[inline]
    pub fn fetch_resting(&self) {
        prefetch_index(from_ref(&self.snd_una), 0);
        prefetch_index(from_ref(&self.timer), 0);
        prefetch_index(from_ref(&self.output), 0);
    }
    /// Prefetches the head and the tail of the flight.
    #[inline]
    pub fn fetch_flight(&self) {
        self.board.fetch_flight();
    }
    /// Takes the memory of the flight, which must be over.
    pub fn take_flight(&mut self) -> Flight {
        self.board.take_flight()
    }
    /// Provides memory for the flight; only before anything was sent.
    pub fn give_flight(&mut self, flight: Flight) {
        self.board.give_flight(flight);
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
    /// Payload of a full segment.
    #[inline]
    pub fn mss(&self) -> u32 {
        self.control.mss
    }
    /// The peer's window in bytes.
    pub fn send_window(&self) -> Bytes {
        self.peer.right_edge.saturating_sub(self.snd_una)
    }
    /// Whether an ACK with a timestamp older than `echo` was probably overtaken: it repeats the last ACK, does not
    /// widen the window, and is less than a timeout old (Linux `tcp_disordered_ack`, `tcp_tsval_replay`).
    #[cold]
    pub fn is_overtaken(&self, ack: &Segment, echo: Time, stack: &Stack) -> bool {
        ack.ack == self.snd_una
            && ack.ack + ack.window <= self.peer.right_edge
            && echo.since(ack.ts_val) <= self.rtt.timeout(stack) * 6 / 5
    }
    /// AccECN: number of packets known to be marked.
    pub fn marked_packets(&self) -> u64 {
        self.trouble.marked_packets
    }
    /// Send buffer in bytes.
    pub fn send_buffer(&self) -> Bytes {
        self.send_buffer
    }
    /// Bytes written and not acknowledged, up to the size of the send buffer.
    pub fn buffered(&self) -> Bytes {
        self.buffered_end().saturating_sub(self.snd_una)
    }
    /// Free bytes in the send buffer, counted at its maximum size.
    pub fn room(&self) -> Bytes {
        self.units.most_buffer.saturating_sub(self.write_end.saturating_sub(self.snd_una))
    }
    /// Recovery state.
    pub fn phase(&self) -> Phase {
        self.phase
    }
    /// Bytes in flight.
    pub fn in_flight(&self) -> Bytes {
        let in_flight = self.board.in_flight();
        if self.departed == 0 || self.phase == Phase::Disorder && !self.stack.limited_transmit {
            return in_flight;
        }
        in_flight.saturating_sub(u64::from(self.departed) * u64::from(self.control.mss))
    }
    /// The duplicate threshold, raised by observed reordering: how many later segments may arrive before a segment
    /// counts as lost.
    pub fn reordering(&self) -> u32 {
        self.reordering.degree
    }
    /// The retransmission timeout now, with back-off.
    pub fn timeout(&self) -> Duration {
        self.rtt.timeout(&self.stack)
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

    /// The application writes `bytes` more.
    pub fn write(&mut self, bytes: Bytes) {
        if !self.wants_fin {
            self.rests = false;
            self.write_end = self.write_end.saturating_add(bytes).min(u64::MAX / 4);
            self.look_again();
        }
    }
    /// The application always has data to send.
    pub fn write_forever(&mut self) {
        self.rests = false;
        self.write_end = u64::MAX / 4;
    }
    /// The application finishes sending. `discard`: drops data that was not yet sent (end of a timed transfer).
    pub fn close(&mut self, discard: bool) {
        if self.wants_fin {
            return;
        }
        self.wants_fin = true;
        self.rests = false;
        self.look_again();
        if discard {
            self.write_end = self.write_end.min(self.snd_nxt);
        }
    }
}
