//! Congestion control algorithms: one per file, one row each in the registry.
//!
//! The sender owns [`Control`]; an algorithm owns only its state. A new signal is a new field of [`Ack`], never a new
//! parameter. The stack decides how the window falls after `on_congestion` (rate halving, PRR, FreeBSD's one-segment
//! ramp): an algorithm only sets the target (`ssthresh`).

pub mod bbr;
pub mod bbr3;
pub mod bic;
pub mod cdg;
pub mod compound;
pub mod cubic;
pub mod dctcp;
pub mod external;
#[cfg(test)]
mod fixture;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
pub mod illinois;
pub mod ledbat;
pub mod parts;
pub mod prague;
pub mod registry;
pub mod reno;
pub mod scalable;
pub mod vegas;
pub mod veno;
pub mod westwood;
pub mod yeah;

use crate::time::{Bytes, Duration, Rate, Time};

/// The variables that an algorithm controls. The sender owns them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// Congestion window in bytes. Linux-like stacks keep it a multiple of `mss`.
    pub cwnd: Bytes,
    /// Slow-start threshold in bytes; [`Control::UNLIMITED`] before the first congestion.
    pub ssthresh: Bytes,
    /// Pacing rate, if the algorithm paces.
    pub pacing: Option<Rate>,
    /// Payload bytes of a full segment (after options).
    pub mss: u32,
    /// Set by an algorithm that deliberately limits the flight, as BBR does in ProbeRTT. The sender then marks
    /// everything in flight as application-limited, and clears the flag.
    pub self_limited: bool,
}

impl Control {
    /// ssthresh before any congestion.
    pub const UNLIMITED: Bytes = u64::MAX / 4;

    /// Whether the window is in slow start. `at_equality`: the stack's comparison includes cwnd = ssthresh.
    #[inline(always)]
    pub fn is_in_slow_start(&self, at_equality: bool) -> bool {
        match at_equality {
            true => self.cwnd <= self.ssthresh,
            false => self.cwnd < self.ssthresh,
        }
    }

    /// cwnd in whole segments, rounded down.
    pub fn cwnd_segments(&self) -> u64 {
        self.cwnd / u64::from(self.mss)
    }
    /// ssthresh in whole segments, rounded down.
    pub fn ssthresh_segments(&self) -> u64 {
        self.ssthresh / u64::from(self.mss)
    }
}

crate::labels! {
    /// Where the sender is in its recovery state machine (the names are Linux's).
    #[derive(PartialOrd, Ord, Default)]
    pub enum Phase {
        /// No loss, reordering or mark is being handled.
        Open = 0 => "open" default,
        /// Duplicate ACKs or SACKs seen, not yet treated as loss.
        Disorder = 1 => "disorder",
        /// Reducing after an ECN echo.
        Cwr = 2 => "cwr",
        /// Fast recovery.
        Recovery = 3 => "recovery",
        /// After a retransmission timeout.
        Loss = 4 => "loss",
    }
}

/// How a stack turns an ACK into credit for window growth; `tcp/stack.rs` has each stack's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// One credit per ACK, however much it covers. A growth step takes cwnd + 1 ACKs, because the ACK that raises the
    /// window is not itself counted (Linux before 3.18).
    PerAck,
    /// One credit per segment newly acknowledged (Linux since 3.18).
    PerSegment,
    /// Per ACK, in bytes: cwnd += max(mss²/cwnd, 1) (FreeBSD 7).
    PerAckBytes,
    /// RFC 3465 appropriate byte counting with this limit L in slow start (FreeBSD 8 and 9: 2).
    Bytes {
        /// Maximum segments credited per ACK in slow start.
        limit: u32,
    },
}

impl Counting {
    /// Its name in scenarios.
    pub const fn word(self) -> &'static str {
        match self {
            Counting::PerAck => "per-ack",
            Counting::PerSegment => "per-segment",
            Counting::PerAckBytes => "per-ack-bytes",
            Counting::Bytes { .. } => "bytes",
        }
    }
}

/// All signals of an ACK for an algorithm. The sender builds it once per ACK.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When the ACK arrived.
    pub now: Time,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Bytes by which the cumulative acknowledgement advanced.
    pub newly_acked: Bytes,
    /// Segments that left the retransmission queue by cumulative acknowledgement.
    pub newly_acked_segments: u32,
    /// Segments newly delivered: cumulatively acknowledged or SACKed now for the first time.
    pub delivered_segments: u32,
    /// Segments newly declared lost on this ACK.
    pub lost_segments: u32,
    /// Bytes that the receiver reports as CE-marked, in whole segments of what the ACK delivers. Accurate only with
    /// DCTCP's echo and AccECN; otherwise one mss per ECE ACK.
    pub marked: Bytes,
    /// RTT sample of this ACK, if it gave one (Karn's rule, or timestamps).
    pub rtt: Option<Duration>,
    /// The same sample from the latest segment's own send time, as the difference of two readings of the stack's clock;
    /// equal to `rtt` if the clock is exact.
    pub rtt_read: Option<Duration>,
    /// Smallest RTT sample of the connection ([`Duration::MAX`] before the first).
    pub rtt_min: Duration,
    /// Smoothed RTT (zero before the first sample).
    pub srtt: Duration,
    /// Bytes in flight after this ACK was processed, before anything new is sent.
    pub in_flight: Bytes,
    /// Bytes in flight before this ACK.
    pub prior_in_flight: Bytes,
    /// When pacing allows the next segment; before `now` if pacing does not delay it.
    pub departs: Time,
    /// Delivery-rate sample, if valid (draft-cheng-iccrg-delivery-rate-estimation).
    pub delivery: Option<DeliverySample>,
    /// Total bytes delivered on the connection so far.
    pub delivered: Bytes,
    /// `delivered` when the segment that gave the rate sample was sent.
    pub prior_delivered: Bytes,
    /// Whether the delivery-rate sample was taken while the application had nothing to send, or while the algorithm was
    /// [limiting itself](Control::self_limited).
    pub app_limited: bool,
    /// Total bytes marked lost on the connection so far, by ACKs and by timers; a segment that is lost again counts
    /// again.
    pub lost: Bytes,
    /// Whether the ACK may have been delayed, so that its RTT may be too large: it covers a single short segment with
    /// nothing else in flight (Linux `FLAG_ACK_MAYBE_DELAYED`).
    pub is_delayed: bool,
    /// First ACK of a new round trip (snd_una passed the snd_nxt of the previous round's start).
    pub round_start: bool,
    /// Whether the congestion window limits the sender, by its stack's rule.
    pub cwnd_limited: bool,
    /// Whether the window was full at some time in the last round trip; unlike `cwnd_limited`, without exceptions for
    /// slow start (Linux `tcp_sock.is_cwnd_limited`).
    pub window_full: bool,
    /// Whether the window may grow on this ACK, by the stack's rule: data acknowledged, no reduction, cwnd-limited.
    pub may_grow: bool,
    /// Recovery state while this ACK is processed.
    pub phase: Phase,
    /// How the stack counts ACKs.
    pub counting: Counting,
    /// Whether the sender is in slow start by the stack's own comparison (cwnd ≤ ssthresh or cwnd < ssthresh).
    pub in_slow_start: bool,
    /// Whether the stack paces algorithms that do not pace themselves (Linux `sk_pacing_status`).
    pub stack_paces: bool,
    /// First unacknowledged byte after this ACK.
    pub snd_una: u64,
    /// Next byte to be sent.
    pub snd_nxt: u64,
}

/// Bytes delivered in an interval. The rate is computed on demand, because few algorithms need it and the division is
/// slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliverySample {
    /// Bytes.
    pub bytes: Bytes,
    /// Time in which they were delivered; never zero.
    pub interval: Duration,
}

impl Ack {
    /// The rate of the delivery-rate sample.
    #[inline]
    pub fn delivery_rate(&self) -> Option<Rate> {
        self.delivery.map(|sample| Rate::from_bytes_over(sample.bytes, sample.interval))
    }
    /// Whether new data was acknowledged and no reduction is in progress: Linux runs its growth rules on such ACKs.
    pub fn advances(&self) -> bool {
        self.newly_acked > 0 && !matches!(self.phase, Phase::Cwr | Phase::Recovery)
    }
}

/// Kind of a congestion signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Loss found by duplicate ACKs, SACK or RACK: entering Recovery.
    Loss,
    /// ECN echo, a loss that a probe has repaired, or a reduction that the algorithm requested: entering CWR.
    Ecn,
    /// Retransmission timeout; `first` unless the same segment timed out before.
    Timeout {
        /// Whether this is not a repeated timeout of the same data.
        first: bool,
    },
}

/// A congestion event. The algorithm sets `control.ssthresh`; the stack brings cwnd there.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Time of the congestion signal.
    pub now: Time,
    /// Kind of the signal.
    pub signal: Signal,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Bytes in flight at that moment.
    pub in_flight: Bytes,
    /// Peer's receive window in bytes (FreeBSD halves min(cwnd, this)).
    pub send_window: Bytes,
    /// Smoothed RTT.
    pub srtt: Duration,
    /// Smallest RTT sample of the connection.
    pub rtt_min: Duration,
    /// First unacknowledged byte.
    pub snd_una: u64,
    /// Next byte to be sent.
    pub snd_nxt: u64,
}

/// A change of the sender's recovery state.
#[derive(Clone, Copy, Debug)]
pub struct PhaseChange {
    /// Time of the change.
    pub now: Time,
    /// Recovery state before the change.
    pub from: Phase,
    /// Recovery state after the change.
    pub to: Phase,
    /// Whether the change ends a reduction: cwnd has reached ssthresh, or an undo at the end of a recovery has restored
    /// it (Linux `CA_EVENT_COMPLETE_CWR`).
    pub completes: bool,
    /// First unacknowledged byte.
    pub snd_una: u64,
    /// Next byte to be sent.
    pub snd_nxt: u64,
    /// Smoothed RTT.
    pub srtt: Duration,
    /// Total bytes delivered on the connection so far.
    pub delivered: Bytes,
    /// Time of the last delivery, or when sending last began again with nothing in flight, if later.
    pub delivered_at: Time,
    /// Total bytes marked lost so far, as [`Ack::lost`].
    pub lost: Bytes,
}

/// Sending resumes with nothing in flight.
#[derive(Clone, Copy, Debug)]
pub struct Resume {
    /// Time at which sending resumes.
    pub now: Time,
    /// Time since the last segment was sent.
    pub idle: Duration,
    /// Whether the application had nothing to send in between; otherwise the window or pacing held the sender.
    pub app_limited: bool,
    /// The next new byte: the first one of a new segment, which is not counted as sent yet.
    pub snd_nxt: u64,
}

/// A sent segment, for an algorithm that [follows packets](CongestionControl::follows_packets).
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Time of the departure.
    pub now: Time,
    /// End offset of the segment; together with the time it identifies the transmission.
    pub end: u64,
    /// Payload of the segment.
    pub bytes: Bytes,
    /// Bytes in flight, including these if they count.
    pub in_flight: Bytes,
    /// Whether there was no more to send: no data waits for the window, and no retransmission is due.
    pub app_limited: bool,
}

/// A transmission declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// When the segment left.
    pub sent: Time,
    /// Offset at which the segment ends.
    pub end: u64,
    /// Payload of the segment.
    pub bytes: Bytes,
}

/// Delivered and lost packets, for an algorithm that [follows packets](CongestionControl::follows_packets).
#[derive(Clone, Copy, Debug)]
pub struct Fates<'a> {
    /// Time of the ACK or the timeout.
    pub now: Time,
    /// The ACK that showed the losses; `None` at a timeout.
    pub ack: Option<&'a Ack>,
    /// The most recently sent of all delivered transmissions: its send time and its end offset.
    pub newest: (Time, u64),
    /// Transmissions newly declared lost.
    pub lost: &'a [Loss],
    /// First unacknowledged byte.
    pub snd_una: u64,
    /// Bytes in flight now.
    pub in_flight: Bytes,
}

/// A congestion control algorithm.
pub trait CongestionControl {
    /// An ACK arrived; losses and the recovery state have not been updated yet (Linux `pkts_acked`, then
    /// `in_ack_event`). The algorithm takes the RTT and the delivery here. [`Self::on_ack`] next receives the same
    /// `ack`, updated: here `phase`, `in_slow_start` and `in_flight` are still old, and `lost_segments` is 0.
    fn on_sample(&mut self, _ack: &Ack, _control: &mut Control) {}
    /// An ACK arrived, in any phase, including one that carries only new SACK information. The window may grow only if
    /// `ack.may_grow`.
    fn on_ack(&mut self, ack: &Ack, control: &mut Control);
    /// [`Self::on_sample`] and [`Self::on_ack`], if nothing has to be updated in between. `at_equality`: the stack's
    /// slow start includes cwnd = ssthresh.
    #[inline(always)]
    fn on_plain_ack(&mut self, ack: &mut Ack, at_equality: bool, control: &mut Control) {
        self.on_sample(ack, control);
        ack.in_slow_start = control.is_in_slow_start(at_equality);
        self.on_ack(ack, control);
    }
    /// A congestion event: sets `control.ssthresh` to the target of the reduction.
    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control);
    /// The connection is established; `srtt` is the handshake's RTT sample, if any.
    fn on_established(&mut self, _now: Time, _srtt: Option<Duration>, _control: &mut Control) {}
    /// The recovery state changed (called after the change, also for entry by `on_congestion`).
    fn on_phase(&mut self, _change: &PhaseChange, _control: &mut Control) {}
    /// The reduction turned out to be spurious and the stack restores cwnd and ssthresh.
    fn on_undo(&mut self, _now: Time, _control: &mut Control) {}
    /// Sending resumes with nothing in flight, after a pause of any length: with new data, or with a retransmission
    /// when everything else is SACKed or lost (Linux CA_EVENT_TX_START).
    fn on_resume(&mut self, _resume: &Resume, _control: &mut Control) {}
    /// The pause was longer than the RTO, and the stack is about to reduce the window (Linux CA_EVENT_CWND_RESTART).
    fn on_idle_restart(&mut self, _now: Time, _idle: Duration, _control: &mut Control) {}
    /// Lower bound of rate halving in bytes; `None`: ssthresh (Linux 2.6 `min_cwnd` hook).
    fn recovery_floor(&self, _control: &Control) -> Option<Bytes> {
        None
    }
    /// True if the algorithm sets cwnd itself in every phase (BBR); the stack then does not reduce it. Only a timeout
    /// sets cwnd to one segment more than is in flight, until the algorithm sets it again.
    fn owns_window(&self) -> bool {
        false
    }
    /// Called after every `on_ack`: whether the algorithm requests a reduction without loss or mark (a delay backoff).
    /// The stack then enters CWR as for an ECN echo and calls `on_congestion` with [`Signal::Ecn`], which also clears
    /// the request.
    fn wants_reduction(&self) -> bool {
        false
    }
    /// Whether the algorithm tracks every packet. If so, `on_sent` and `on_fates` are called.
    fn follows_packets(&self) -> bool {
        false
    }
    /// A segment was sent.
    fn on_sent(&mut self, _departure: &Departure, _control: &mut Control) {}
    /// An ACK arrived (called before `on_ack`), or a timer marked segments lost.
    fn on_fates(&mut self, _fates: &Fates<'_>, _control: &mut Control) {}
    /// Internal quantities of the algorithm for probes, `(name, value)`, in a fixed order.
    fn internals(&self, _out: &mut Vec<(&'static str, f64)>) {}
}
