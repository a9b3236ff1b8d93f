//! Stack profiles: the same sender and receiver, told how an operating system behaves.
//!
//! A profile is a row in [`PROFILES`]; each of its fields has a source in [`Profile::sources`], and a test
//! demands it. A scenario may set single fields differently (`stack_params`). The profiles themselves are in
//! `stack/freebsd.rs`, `stack/linux.rs` and `stack/others.rs`.

mod fields;
mod freebsd;
mod linux;
mod others;

use crate::cc::Counting;
use crate::packet::Ecn;
use crate::scenario::ScenarioError;
pub use crate::tcp::metrics::MetricsCache;
use crate::tcp::rtt::RtoRule;
use crate::tcp::segment::Segment;
use crate::time::{Bytes, Duration, Time};

/// How losses are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detection {
    /// Three duplicate ACKs; then one hole per partial ACK, or every hole below the highest SACK (FreeBSD).
    DuplicateAcks,
    /// RFC 6675 `IsLost`: three segments' worth SACKed above.
    Rfc6675,
    /// Forward acknowledgement: more than three segments below the highest SACK (Linux before 4.15).
    Fack,
    /// RFC 8985: a segment sent sufficiently later was delivered (Linux since 4.18).
    Rack,
}

/// How the window comes down to ssthresh during recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// At once: cwnd = ssthresh, in-flight accounting does the rest (RFC 6582, RFC 6675).
    Immediate,
    /// To one segment, then up by one per ACK to ssthresh (FreeBSD 7 to 9 with SACK).
    FreeBsd,
    /// One segment less for every second ACK (Linux up to 3.1).
    RateHalving,
    /// Not before recovery ends: a segment for each ACK until then (ns-2's Agent/TCP/Linux with `overhead_`, whose
    /// timer gives back what rate halving has taken).
    AtEnd,
    /// Proportional rate reduction (RFC 6937, Linux since 3.2).
    Prr,
}

/// How much of the window recovery takes for used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pipe {
    /// Outstanding − SACKed − lost + retransmitted (RFC 6675, Linux).
    Scoreboard,
    /// A count from the start of recovery: one less for each ACK, two for a partial one, one more for each segment
    /// sent. What is lost stays in it until a partial ACK takes it out (Fall & Floyd 1996, ns-2's Sack1).
    Counter,
}

/// How fast PRR may send once the flight is below ssthresh (RFC 6937 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrrBound {
    /// Conservative reduction bound: as much as was delivered and not yet answered.
    Conservative,
    /// Slow-start reduction bound: one segment more per ACK.
    SlowStart,
    /// Slow start only while the cumulative acknowledgement advances without new loss (Linux 6, RFC 9937).
    SafeAck,
}

/// Which evidence undoes a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undo {
    /// None.
    Never,
    /// An ACK within half a smoothed RTT of a first timeout (BSD's bad-retransmit window).
    BadRetransmit,
    /// Timestamps (RFC 3522) and D-SACK (RFC 3708), in fast recovery and after timeouts (Linux).
    Full,
}

/// How a spurious timeout is recognised by what follows it (RFC 5682).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frto {
    /// Not at all.
    Off,
    /// By the two ACKs after it (section 2).
    Basic,
    /// By SACK too (section 3).
    Sack,
    /// By SACK, from the first ACK on (Linux since 3.10).
    AtOnce,
}

/// What F-RTO does about a spurious timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrtoResponse {
    /// Window and threshold as before (RFC 4015, Linux since 3.10).
    Undo,
    /// Down to the new threshold without loss of pace (Linux up to 3.9, tcp_frto_response = 0).
    Halve,
}

/// What idleness longer than the retransmission timeout does to the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleRestart {
    /// Nothing.
    Keep,
    /// Down to the restart window at once (RFC 5681 section 4.1).
    Restart,
    /// Halved for every timeout of idleness, not below the restart window (Linux, RFC 2861).
    Halve,
}

/// Which segment makes a reader that has emptied the buffer acknowledge at once (Linux `tcp_cleanup_rbuf`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckOnPush {
    /// None: other stacks wait for a second segment or the timer.
    Never,
    /// One that is shorter than full.
    Short,
    /// That, or a full one with PSH (Linux 6.6, and 6.1 since 6.1.57).
    ShortOrPushed,
}

/// When an ACK may raise the window at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrowthGate {
    /// On every ACK for new data.
    Always,
    /// Only if the window was full when the ACK arrived (Linux 2.6 without segmentation offload).
    WindowFull,
    /// If it was full in the last round, and in slow start if more than half of it was used (Linux 6).
    RecentlyFull,
    /// While the congestion window and not the peer's is the limit (FreeBSD 9).
    BelowSendWindow,
}

/// Which kind of ECN a connection speaks. In order: of two ends the lesser is in force.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EcnMode {
    /// None.
    Off,
    /// New data is ECT(0) (RFC 3168).
    Classic,
    /// New data is ECT(1), each mark is echoed, and the sender responds to their share (RFC 9331 section 4).
    L4s,
}

/// An operating system's TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Initial window in segments.
    pub initial_window: u32,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Report duplicates by SACK (RFC 2883).
    pub dsack: bool,
    /// Timestamps option (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323).
    pub window_scaling: bool,
    /// How ACKs count for window growth.
    pub counting: Counting,
    /// Slow start while cwnd ≤ ssthresh (else while cwnd < ssthresh).
    pub slow_start_at_equality: bool,
    /// Where reordering is known to be high (more than `duplicate_threshold`), what SACKs deliver raises the window as
    /// well (Linux `tcp_may_raise_cwnd`).
    pub grow_on_sacks: bool,
    /// How losses are found.
    pub detection: Detection,
    /// Retransmit what is not yet lost when nothing else may be sent (RFC 6675 NextSeg rules 3 and 4).
    pub rescue: bool,
    /// How the window falls.
    pub reduction: Reduction,
    /// What recovery takes for in flight.
    pub pipe: Pipe,
    /// How fast PRR may send below ssthresh.
    pub prr_bound: PrrBound,
    /// Duplicate ACKs, or segments of reordering, tolerated.
    pub duplicate_threshold: u32,
    /// How far reordering may raise that number (Linux adaptive reordering degree); `None`: it stays.
    pub reordering_limit: Option<u32>,
    /// A new segment for each of the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// In recovery only the first partial ACK restarts the retransmission timer (RFC 6582 section 4).
    pub impatient: bool,
    /// Tail loss probe (RFC 8985 section 7).
    pub tail_loss_probe: bool,
    /// Which evidence undoes a reduction.
    pub undo: Undo,
    /// F-RTO: how a spurious timeout is recognised.
    pub frto: Frto,
    /// What F-RTO does then.
    pub frto_response: FrtoResponse,
    /// When the window may grow.
    pub growth_gate: GrowthGate,
    /// Bring the window halfway to what is used after a timeout's worth of not using it (RFC 2861).
    pub window_validation: bool,
    /// After a disturbance: cwnd at most in flight + this many segments.
    pub max_burst: Option<u32>,
    /// Algorithms that do not pace themselves are paced at 200 % of cwnd/srtt in slow start, 120 % after (Linux with
    /// the fq queue or SO_MAX_PACING_RATE).
    pub pacing: bool,
    /// New data leaves in bursts of so many segments, or as a third of the window is free (Linux TSO deferral).
    pub burst_segments: u32,
    /// Bursts are no longer than a millisecond of the pacing rate, but two segments (Linux TSO autosizing);
    /// `burst_segments` then is the most.
    pub burst_autosize: bool,
    /// The sender stops while so much, or a millisecond of its pacing rate if that is less, waits in the queue of
    /// the first link on its route (Linux TCP small queues); `None`: it does not look.
    pub small_queue: Option<Bytes>,
    /// What an idle time longer than the retransmission timeout does.
    pub idle_restart: IdleRestart,
    /// Window after such an idle time, in segments.
    pub restart_window: u32,
    /// Algorithm that turns RTT samples into a timeout.
    pub rto_rule: RtoRule,
    /// Timeout before the first sample.
    pub rto_initial: Duration,
    /// Lower bound (what it bounds depends on the rule).
    pub rto_minimum: Duration,
    /// Upper bound.
    pub rto_maximum: Duration,
    /// Least wait before a closed window is probed.
    pub persist_minimum: Duration,
    /// Longest wait between probes of a closed window.
    pub persist_maximum: Duration,
    /// Granularity of RTT samples; zero: exact.
    pub clock_tick: Duration,
    /// Granularity of the timestamps option's clock (RFC 7323 section 4.1); zero: exact.
    pub timestamp_tick: Duration,
    /// Timers expire on multiples of this (Linux jiffies); zero: when they are due.
    pub timer_tick: Duration,
    /// Delayed-ACK timer; `None`: every segment is acknowledged at once.
    pub delayed_ack: Option<Duration>,
    /// The delayed-ACK timer runs on a grid instead of from the segment's arrival.
    pub delayed_ack_tick: bool,
    /// Full segments that force an acknowledgement.
    pub ack_every: u32,
    /// What makes the reader, who has emptied the buffer, acknowledge at once.
    pub ack_on_push: AckOnPush,
    /// A FIN is acknowledged as late as data, so that the acknowledgement may ride on this end's own FIN.
    pub fin_ack_delayed: bool,
    /// Segments acknowledged at once at the start (quick-ACK mode).
    pub quick_acks: u32,
    /// Quick-ACK mode again after every out-of-order segment.
    pub quick_acks_after_gap: bool,
    /// Window offered at first, growing by two segments for each one received and acknowledged at once while
    /// it grows; `None`: the whole buffer from the start.
    pub initial_receive_window: Option<Bytes>,
    /// Out-of-order data makes it grow too, if SACK tells such ACKs from others.
    pub window_grows_over_gaps: bool,
    /// Receive buffer a connection begins with, grown as data is read; `None`: `receive_buffer` from the start.
    pub initial_receive_buffer: Option<Bytes>,
    /// Hold back duplicate ACKs after the third for up to this (and 5 % of the RTT); `None`: never.
    pub sack_compression: Option<Duration>,
    /// Which ECN to speak.
    pub ecn: EcnMode,
    /// Echo each change of the CE mark instead of latching it until CWR (RFC 8257 section 3.2).
    pub accurate_echo: bool,
    /// What a connection leaves for the next one to the same host.
    pub metrics_cache: MetricsCache,
    /// Segments the reassembly queue holds at most.
    pub reassembly_limit: Option<u32>,
    /// Send buffer when the scenario names none.
    pub send_buffer: Bytes,
    /// Receive buffer when the scenario names none.
    pub receive_buffer: Bytes,
    /// Per cent of the receive buffer that is offered as window.
    pub window_share: u32,
}

/// A named stack with the source of each field.
pub struct Profile {
    /// Name in scenarios.
    pub name: &'static str,
    /// What it stands for.
    pub title: &'static str,
    /// The profile.
    pub stack: Stack,
    /// Source of every field, by field name.
    pub sources: &'static [(&'static str, &'static str)],
}

/// Every stack a scenario may name.
pub static PROFILES: &[Profile] = &[
    freebsd::FREEBSD_7,
    freebsd::FREEBSD_9,
    linux::LINUX_2_6_25,
    linux::LINUX_3_2,
    linux::LINUX,
    others::NS2_SACK,
    others::NS3,
    others::NS3_44,
    others::WINDOWS_VISTA,
];

/// Every stack a scenario may name.
pub fn profiles() -> &'static [Profile] {
    PROFILES
}

const fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

impl Stack {
    /// The window of the buffer that a connection begins with.
    pub fn initial_window_capacity(&self) -> Option<Bytes> {
        self.initial_receive_buffer.map(|buffer| (buffer * u64::from(self.window_share) / 100).max(1))
    }

    /// When a timer set at `now` for `wait` expires: on the tick after the one it falls on, or later where the wait is
    /// long. Linux's wheel (since 4.8, `calc_wheel_index`) has no finer place for long waits: 8 ticks from a wait of 63
    /// on, 64 from 504 on, and so forth.
    pub fn expiry(&self, now: Time, wait: Duration) -> Time {
        let tick = self.timer_tick.as_ps();
        if tick == 0 {
            return now + wait;
        }
        let ticks = wait.as_ps().div_ceil(tick);
        let mut grain = 1;
        while ticks >= 63 * grain {
            grain *= 8;
        }
        let due = now.as_ps() / tick + ticks;
        Time::from_ps((due / grain + 1).saturating_mul(grain).saturating_mul(tick))
    }

    /// The ECN codepoint of a packet with this segment. Only data is ECN capable: no SYN, no pure ACK, and no
    /// retransmission (RFC 3168 section 6.1.5), in either mode.
    #[inline]
    pub fn codepoint(&self, segment: &Segment) -> Ecn {
        if segment.len == 0 || segment.is_repeated {
            return Ecn::NotEct;
        }
        match self.ecn {
            EcnMode::Off => Ecn::NotEct,
            EcnMode::Classic => Ecn::Ect0,
            EcnMode::L4s => Ecn::Ect1,
        }
    }

    /// Does it speak ECN at all?
    pub const fn speaks_ecn(&self) -> bool {
        !matches!(self.ecn, EcnMode::Off)
    }

    /// Is each change of the mark echoed? L4S needs at least that (RFC 9331 section 4.2).
    pub const fn echoes_each_mark(&self) -> bool {
        self.accurate_echo || matches!(self.ecn, EcnMode::L4s)
    }

    /// The profile called `name`.
    pub fn named(name: &str, field: &str) -> Result<Stack, ScenarioError> {
        PROFILES.iter().find(|profile| profile.name == name).map(|profile| profile.stack.clone()).ok_or_else(
            || {
                let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
                ScenarioError {
                    field: field.into(),
                    value: format!("{name:?}"),
                    problem: "there is no stack of this name".into(),
                    fix: format!("The stacks are: {}.", names.join(", ")),
                }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Value;

    #[test]
    fn every_field_of_every_profile_has_a_source() {
        for profile in PROFILES {
            let fields: Vec<_> = profile.stack.fields().into_iter().map(|(name, _)| name).collect();
            let sources: Vec<_> = profile.sources.iter().map(|(name, _)| *name).collect();
            assert_eq!(fields, sources, "{}", profile.name);
            assert!(profile.sources.iter().all(|(_, source)| !source.is_empty()));
        }
    }

    #[test]
    fn a_timer_that_would_fire_at_once_is_refused() {
        let mut stack = Stack::named("linux", "x").unwrap();
        for name in ["rto_initial", "rto_maximum", "persist_maximum"] {
            let field = format!("flows[0].tcp.stack_params.{name}");
            let wrong = stack.set(name, &Value::Number(0.0), &field).unwrap_err();
            assert_eq!((wrong.field, wrong.value.as_str()), (field, "0"));
            assert!(wrong.fix.contains("from 1"), "{}", wrong.fix);
            stack.set(name, &Value::Number(1.0), "x").unwrap();
        }
    }

    #[test]
    fn timers_expire_on_the_wheel() {
        let stack = Stack::named("linux", "x").unwrap();
        let at = |now, wait| stack.expiry(Time::from_ms(now), Duration::from_ms(wait)).as_us();
        // TCP_DELACK_MIN: 40 to 44 ms, by where in the tick it begins.
        assert_eq!((at(0, 40), at(1, 40), at(3, 40)), (44_000, 44_000, 44_000));
        assert_eq!(at(4, 40), 48_000);
        // 63 ticks and more lie on a grid of 8, 504 and more on one of 64.
        assert_eq!(
            (at(0, 248), at(0, 252), at(0, 1000), at(0, 2016)),
            (252_000, 256_000, 1_024_000, 2_048_000)
        );
        let exact = Stack { timer_tick: Duration::ZERO, ..stack.clone() };
        assert_eq!(exact.expiry(Time::from_ms(3), Duration::from_ms(40)), Time::from_ms(43));
    }

    #[test]
    fn unknown_fields_and_bad_values_name_the_field() {
        let mut stack = Stack::named("freebsd-7", "x").unwrap();
        let wrong = stack.set("delayed_ack", &Value::Name("soon".into()), "flows[0].tcp").unwrap_err();
        assert!(wrong.to_string().contains("flows[0].tcp"), "{wrong}");
        assert!(stack.set("colour", &Value::Flag(true), "x").unwrap_err().fix.contains("delayed_ack"));
        stack.set("delayed_ack", &Value::Flag(false), "x").unwrap();
        assert_eq!(stack.delayed_ack, None);
        assert!(Stack::named("linnux", "x").unwrap_err().fix.contains("linux-2.6.25"));
    }
}
