//! Stack profiles: the same sender and receiver, told how an operating system behaves.
//!
//! A profile is a row in [`PROFILES`]; each of its fields has a source in [`Profile::sources`], and a test
//! demands it. A scenario may set single fields differently (`stack_params`).

use crate::cc::Counting;
use crate::scenario::{ScenarioError, Value};
use crate::tcp::rtt::RtoRule;
use crate::time::{Bytes, Duration};

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
    /// Proportional rate reduction (RFC 6937, Linux since 3.2).
    Prr,
}

/// When an ACK may raise the window at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrowthGate {
    /// On every ACK for new data.
    Always,
    /// Only if the window was full when the ACK arrived (Linux 2.6 without segmentation offload).
    WindowFull,
    /// In slow start if more than half the window was used, else if it was full in the last round (Linux 6).
    RecentlyFull,
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
    /// How losses are found.
    pub detection: Detection,
    /// How the window falls.
    pub reduction: Reduction,
    /// Duplicate ACKs, or segments of reordering, tolerated.
    pub duplicate_threshold: u32,
    /// A new segment for each of the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// In recovery without SACK only the first partial ACK restarts the retransmission timer (RFC 6582 section 4).
    pub impatient: bool,
    /// Tail loss probe (RFC 8985 section 7).
    pub tail_loss_probe: bool,
    /// Undo a reduction that timestamps prove spurious (RFC 3522, RFC 4015).
    pub undo: bool,
    /// When the window may grow.
    pub growth_gate: GrowthGate,
    /// After a disturbance: cwnd at most in flight + this many segments.
    pub max_burst: Option<u32>,
    /// Shrink the window after an idle time longer than the retransmission timeout.
    pub idle_restart: bool,
    /// Algorithm that turns RTT samples into a timeout.
    pub rto_rule: RtoRule,
    /// Timeout before the first sample.
    pub rto_initial: Duration,
    /// Lower bound (what it bounds depends on the rule).
    pub rto_minimum: Duration,
    /// Upper bound.
    pub rto_maximum: Duration,
    /// Granularity of RTT samples; zero: exact.
    pub clock_tick: Duration,
    /// Delayed-ACK timer; `None`: every segment is acknowledged at once.
    pub delayed_ack: Option<Duration>,
    /// The delayed-ACK timer runs on a grid instead of from the segment's arrival.
    pub delayed_ack_tick: bool,
    /// Full segments that force an acknowledgement.
    pub ack_every: u32,
    /// Segments acknowledged at once at the start and after a gap (quick-ACK mode).
    pub quick_acks: u32,
    /// Window offered at first, growing by two segments for each one received and acknowledged at once while
    /// it grows; `None`: the whole buffer from the start.
    pub initial_receive_window: Option<Bytes>,
    /// Speak ECN (RFC 3168).
    pub ecn: bool,
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

const MS: u64 = 1;
const fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms * MS)
}

/// FreeBSD 7.0 as the VoIP latency study tuned it would set `delayed_ack` off; this is the release.
const FREEBSD_7: Stack = Stack {
    initial_window: 3,
    sack: true,
    dsack: false,
    timestamps: true,
    window_scaling: true,
    counting: Counting::PerAckBytes,
    slow_start_at_equality: true,
    detection: Detection::DuplicateAcks,
    reduction: Reduction::FreeBsd,
    duplicate_threshold: 3,
    limited_transmit: true,
    impatient: false,
    tail_loss_probe: false,
    undo: false,
    growth_gate: GrowthGate::Always,
    max_burst: None,
    idle_restart: true,
    rto_rule: RtoRule::FreeBsd,
    rto_initial: ms(3000),
    rto_minimum: ms(200),
    rto_maximum: ms(64_000),
    clock_tick: ms(1),
    delayed_ack: Some(ms(100)),
    delayed_ack_tick: true,
    ack_every: 2,
    quick_acks: 0,
    initial_receive_window: None,
    ecn: false,
    reassembly_limit: None,
    send_buffer: 262_144,
    receive_buffer: 262_144,
    window_share: 100,
};

const LINUX_2_6_25: Stack = Stack {
    initial_window: 3,
    sack: true,
    dsack: true,
    timestamps: true,
    window_scaling: true,
    counting: Counting::PerAck,
    slow_start_at_equality: true,
    detection: Detection::Fack,
    reduction: Reduction::RateHalving,
    duplicate_threshold: 3,
    limited_transmit: true,
    impatient: false,
    tail_loss_probe: false,
    undo: true,
    growth_gate: GrowthGate::WindowFull,
    max_burst: Some(3),
    idle_restart: true,
    rto_rule: RtoRule::Linux,
    rto_initial: ms(3000),
    rto_minimum: ms(200),
    rto_maximum: ms(120_000),
    clock_tick: ms(4),
    delayed_ack: Some(ms(40)),
    delayed_ack_tick: false,
    ack_every: 2,
    quick_acks: 16,
    initial_receive_window: Some(5_840),
    ecn: false,
    reassembly_limit: None,
    send_buffer: 4_194_304,
    receive_buffer: 4_194_304,
    window_share: 75,
};

const LINUX: Stack = Stack {
    initial_window: 10,
    counting: Counting::PerSegment,
    slow_start_at_equality: false,
    detection: Detection::Rack,
    reduction: Reduction::Prr,
    tail_loss_probe: true,
    growth_gate: GrowthGate::RecentlyFull,
    max_burst: None,
    rto_initial: ms(1000),
    clock_tick: Duration::ZERO,
    initial_receive_window: Some(65_535),
    receive_buffer: 6_291_456,
    window_share: 50,
    ..LINUX_2_6_25
};

/// Every stack a scenario may name.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "freebsd-7",
        title: "FreeBSD 7 (7.3-RELEASE stands in for 7.0)",
        stack: FREEBSD_7,
        sources: &[
            ("initial_window", "tcp_input.c 7.3: rfc3390 = 1, min(4 mss, max(2 mss, 4380 B))"),
            ("sack", "net.inet.tcp.sack.enable = 1"),
            ("dsack", "not implemented in 7.x"),
            ("timestamps", "net.inet.tcp.rfc1323 = 1"),
            ("window_scaling", "net.inet.tcp.rfc1323 = 1"),
            ("counting", "tcp_input.c 7.3: cwnd += max(mss*mss/cwnd, 1) per ACK; no byte counting in 7.x"),
            (
                "slow_start_at_equality",
                "tcp_input.c 7.3: the per-ACK increment is mss while cwnd <= ssthresh",
            ),
            ("detection", "tcp_input.c 7.3: tcprexmtthresh = 3 duplicate ACKs, then every SACK hole"),
            (
                "reduction",
                "tcp_input.c 7.3, SACK branch: cwnd = 1 mss, + 1 mss per duplicate ACK up to ssthresh",
            ),
            ("duplicate_threshold", "tcp_input.c 7.3: tcprexmtthresh"),
            ("limited_transmit", "net.inet.tcp.rfc3042 = 1"),
            ("impatient", "tcp_newreno_partial_ack 7.3 restarts the timer on each partial ACK"),
            ("tail_loss_probe", "not implemented"),
            ("undo", "only the bad-retransmit window after a first timeout; not modelled"),
            ("growth_gate", "tcp_input.c 7.3: growth on every ACK, flight not examined"),
            ("max_burst", "none; cwnd = flight + mss on leaving recovery if flight < ssthresh"),
            ("idle_restart", "tcp_output.c 7.3: idle >= RTO restarts slow start"),
            ("rto_rule", "tcp_timer.h 7.3: rexmit_slop added after TCP_REXMTVAL"),
            ("rto_initial", "tcp_timer.h 7.3: TCPTV_RTOBASE 3 s"),
            ("rto_minimum", "tcp_timer.h 7.3: TCPTV_CPU_VAR 200 ms slop over a 30 ms floor"),
            ("rto_maximum", "tcp_timer.h 7.3: TCPTV_REXMTMAX 64 s"),
            ("clock_tick", "kern.hz = 1000"),
            ("delayed_ack", "net.inet.tcp.delacktime = 100 ms (the VoIP latency study turns it off)"),
            ("delayed_ack_tick", "tcp_timer.c 7.3: per-connection callout, taken here as a grid"),
            ("ack_every", "RFC 1122 section 4.2.3.2"),
            ("quick_acks", "none"),
            ("initial_receive_window", "the whole buffer"),
            ("ecn", "not implemented in 7.x"),
            ("reassembly_limit", "reass.maxqlen is 48 by default; unlimited here, as every study raises it"),
            ("send_buffer", "sendbuf_max 256 KiB"),
            ("receive_buffer", "recvbuf_max 256 KiB"),
            ("window_share", "sbspace: the whole buffer is offered"),
        ],
    },
    Profile {
        name: "linux-2.6.25",
        title: "Linux 2.6.25 (2008)",
        stack: LINUX_2_6_25,
        sources: &[
            ("initial_window", "tcp_init_cwnd 2.6.25: 3 segments for 1095 < mss <= 1460"),
            ("sack", "tcp_sack = 1"),
            ("dsack", "tcp_dsack = 1"),
            ("timestamps", "tcp_timestamps = 1"),
            ("window_scaling", "tcp_window_scaling = 1"),
            ("counting", "tcp_cong.c 2.6.25: per-ACK counter, tcp_abc = 0 (off by default)"),
            ("slow_start_at_equality", "tcp_reno_cong_avoid 2.6.25: slow start while cwnd <= ssthresh"),
            ("detection", "tcp_fack = 1: fackets_out > reordering"),
            ("reduction", "tcp_cwnd_down 2.6.25: rate halving"),
            ("duplicate_threshold", "tcp_reordering = 3"),
            ("limited_transmit", "implied by in-flight accounting (RFC 3042)"),
            ("impatient", "tcp_rearm_rto on every ACK that advances"),
            ("tail_loss_probe", "since 3.10"),
            ("undo", "tcp_try_undo_recovery 2.6.25 (timestamps, D-SACK)"),
            ("growth_gate", "tcp_is_cwnd_limited 2.6.25: in flight >= cwnd without GSO"),
            ("max_burst", "tcp_moderate_cwnd 2.6.25: in flight + 3"),
            ("idle_restart", "tcp_slow_start_after_idle = 1"),
            ("rto_rule", "tcp_rtt_estimator, tcp_set_rto 2.6.25"),
            ("rto_initial", "TCP_TIMEOUT_INIT 3 s until 3.1"),
            ("rto_minimum", "TCP_RTO_MIN 200 ms, as a floor of 4 rttvar"),
            ("rto_maximum", "TCP_RTO_MAX 120 s"),
            ("clock_tick", "jiffies at HZ = 250"),
            ("delayed_ack", "TCP_DELACK_MIN 40 ms; the adaptive timeout stays there for a steady stream"),
            ("delayed_ack_tick", "timer started at the segment"),
            ("ack_every", "__tcp_ack_snd_check: more than one full segment"),
            ("quick_acks", "tcp_incr_quickack: min(rcv_wnd/(2 rcv_mss), 16), again after a gap"),
            (
                "initial_receive_window",
                "tcp_select_initial_window: 4 segments; tcp_grow_window then adds 2 a segment",
            ),
            ("ecn", "tcp_ecn = 0"),
            ("reassembly_limit", "bounded by the receive buffer only"),
            ("send_buffer", "autotuning maximum min(4 MiB, tcp_mem/128); taken as if grown at once"),
            ("receive_buffer", "autotuning maximum for 1 GiB of memory: 4 MiB; taken as if grown at once"),
            ("window_share", "tcp_adv_win_scale = 2: three quarters"),
        ],
    },
    Profile {
        name: "linux",
        title: "Linux 6.x",
        stack: LINUX,
        sources: &[
            ("initial_window", "TCP_INIT_CWND 10 (RFC 6928)"),
            ("sack", "tcp_sack = 1"),
            ("dsack", "tcp_dsack = 1"),
            ("timestamps", "tcp_timestamps = 1"),
            ("window_scaling", "tcp_window_scaling = 1"),
            ("counting", "tcp_cong_avoid_ai: segments acknowledged, since 3.18"),
            ("slow_start_at_equality", "tcp_in_slow_start: cwnd < ssthresh"),
            ("detection", "tcp_recovery = 1: RACK (RFC 8985)"),
            (
                "reduction",
                "tcp_cwnd_reduction: PRR with the slow-start bound when una advances without new loss",
            ),
            ("duplicate_threshold", "tcp_reordering = 3"),
            ("limited_transmit", "implied by in-flight accounting (RFC 3042)"),
            ("impatient", "tcp_rearm_rto on every ACK that advances"),
            ("tail_loss_probe", "tcp_early_retrans = 3"),
            ("undo", "tcp_try_undo_recovery (timestamps, D-SACK)"),
            (
                "growth_gate",
                "tcp_is_cwnd_limited: in slow start cwnd < 2 max_packets_out, else is_cwnd_limited",
            ),
            ("max_burst", "tcp_moderate_cwnd is gone"),
            ("idle_restart", "tcp_slow_start_after_idle = 1"),
            ("rto_rule", "tcp_rtt_estimator, tcp_set_rto"),
            ("rto_initial", "TCP_TIMEOUT_INIT 1 s since 3.1"),
            ("rto_minimum", "TCP_RTO_MIN 200 ms, as a floor of 4 rttvar"),
            ("rto_maximum", "TCP_RTO_MAX 120 s"),
            ("clock_tick", "microseconds; exact here"),
            ("delayed_ack", "TCP_DELACK_MIN 40 ms"),
            ("delayed_ack_tick", "timer started at the segment"),
            ("ack_every", "__tcp_ack_snd_check: more than one full segment"),
            ("quick_acks", "TCP_MAX_QUICKACKS 16, again after a gap"),
            (
                "initial_receive_window",
                "tcp_select_initial_window: 65535 B; tcp_grow_window then adds 2 segments a segment",
            ),
            ("ecn", "tcp_ecn = 2: not asked for by the sender"),
            ("reassembly_limit", "bounded by the receive buffer only"),
            ("send_buffer", "tcp_wmem[2] = 4 MiB; taken as if grown at once"),
            ("receive_buffer", "tcp_rmem[2] = 6 MiB; taken as if grown at once"),
            ("window_share", "tcp_adv_win_scale = 1: one half"),
        ],
    },
];

/// Every stack a scenario may name.
pub fn profiles() -> &'static [Profile] {
    PROFILES
}

impl Stack {
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

    /// Every field with its value as text, in the order of the struct.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        fn milliseconds(span: Duration) -> String {
            format!("{} ms", span.as_secs_f64() * 1e3)
        }
        let counting = match self.counting {
            Counting::PerAck => "per-ack".into(),
            Counting::PerSegment => "per-segment".into(),
            Counting::PerAckBytes => "per-ack-bytes".into(),
            Counting::Bytes { limit } => format!("bytes (L = {limit})"),
        };
        let detection = match self.detection {
            Detection::DuplicateAcks => "duplicate-acks",
            Detection::Rfc6675 => "rfc6675",
            Detection::Fack => "fack",
            Detection::Rack => "rack",
        };
        let reduction = match self.reduction {
            Reduction::Immediate => "immediate",
            Reduction::FreeBsd => "freebsd",
            Reduction::RateHalving => "rate-halving",
            Reduction::Prr => "prr",
        };
        let gate = match self.growth_gate {
            GrowthGate::Always => "always",
            GrowthGate::WindowFull => "window-full",
            GrowthGate::RecentlyFull => "recently-full",
        };
        let rule = match self.rto_rule {
            RtoRule::Rfc6298 => "rfc6298",
            RtoRule::Linux => "linux",
            RtoRule::FreeBsd => "freebsd",
        };
        let or_none = |limit: Option<u32>| limit.map_or("none".into(), |limit| limit.to_string());
        let bytes_or_all = |bytes: Option<Bytes>| bytes.map_or("all".into(), |bytes| bytes.to_string());
        vec![
            ("initial_window", self.initial_window.to_string()),
            ("sack", self.sack.to_string()),
            ("dsack", self.dsack.to_string()),
            ("timestamps", self.timestamps.to_string()),
            ("window_scaling", self.window_scaling.to_string()),
            ("counting", counting),
            ("slow_start_at_equality", self.slow_start_at_equality.to_string()),
            ("detection", detection.into()),
            ("reduction", reduction.into()),
            ("duplicate_threshold", self.duplicate_threshold.to_string()),
            ("limited_transmit", self.limited_transmit.to_string()),
            ("impatient", self.impatient.to_string()),
            ("tail_loss_probe", self.tail_loss_probe.to_string()),
            ("undo", self.undo.to_string()),
            ("growth_gate", gate.into()),
            ("max_burst", or_none(self.max_burst)),
            ("idle_restart", self.idle_restart.to_string()),
            ("rto_rule", rule.into()),
            ("rto_initial", milliseconds(self.rto_initial)),
            ("rto_minimum", milliseconds(self.rto_minimum)),
            ("rto_maximum", milliseconds(self.rto_maximum)),
            ("clock_tick", milliseconds(self.clock_tick)),
            ("delayed_ack", self.delayed_ack.map_or("off".into(), milliseconds)),
            ("delayed_ack_tick", self.delayed_ack_tick.to_string()),
            ("ack_every", self.ack_every.to_string()),
            ("quick_acks", self.quick_acks.to_string()),
            ("initial_receive_window", bytes_or_all(self.initial_receive_window)),
            ("ecn", self.ecn.to_string()),
            ("reassembly_limit", or_none(self.reassembly_limit)),
            ("send_buffer", self.send_buffer.to_string()),
            ("receive_buffer", self.receive_buffer.to_string()),
            ("window_share", self.window_share.to_string()),
        ]
    }

    /// Set one field from a scenario. Times are in milliseconds.
    pub fn set(&mut self, name: &str, value: &Value, field: &str) -> Result<(), ScenarioError> {
        let complain = |problem: &str, fix: String| ScenarioError {
            field: field.into(),
            value: match value {
                Value::Flag(flag) => flag.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Name(text) => format!("{text:?}"),
            },
            problem: problem.into(),
            fix,
        };
        let flag = || match value {
            Value::Flag(flag) => Ok(*flag),
            _ => Err(complain("this field is a switch", "Write true or false.".into())),
        };
        let number = |low: f64, high: f64| match value {
            Value::Number(number) if *number >= low && *number <= high => Ok(*number),
            _ => Err(complain("out of range", format!("Write a number from {low} to {high}."))),
        };
        let span = || number(0.0, 1e6).map(|ms| Duration::from_secs_f64(ms / 1e3));
        macro_rules! one_of {
            ($($text:literal => $choice:expr),+ $(,)?) => {
                match value {
                    $(Value::Name(text) if text == $text => Ok($choice),)+
                    _ => Err(complain("not one of the choices", format!("Choose one of: {}.", [$($text),+].join(", ")))),
                }
            };
        }
        match name {
            "initial_window" => self.initial_window = number(1.0, 1000.0)? as u32,
            "sack" => self.sack = flag()?,
            "dsack" => self.dsack = flag()?,
            "timestamps" => self.timestamps = flag()?,
            "window_scaling" => self.window_scaling = flag()?,
            "counting" => {
                self.counting = one_of!(
                    "per-ack" => Counting::PerAck,
                    "per-segment" => Counting::PerSegment,
                    "per-ack-bytes" => Counting::PerAckBytes,
                    "bytes" => Counting::Bytes { limit: 2 },
                    "bytes-1" => Counting::Bytes { limit: 1 },
                )?;
            }
            "slow_start_at_equality" => self.slow_start_at_equality = flag()?,
            "detection" => {
                self.detection = one_of!(
                    "duplicate-acks" => Detection::DuplicateAcks,
                    "rfc6675" => Detection::Rfc6675,
                    "fack" => Detection::Fack,
                    "rack" => Detection::Rack,
                )?;
            }
            "reduction" => {
                self.reduction = one_of!(
                    "immediate" => Reduction::Immediate,
                    "freebsd" => Reduction::FreeBsd,
                    "rate-halving" => Reduction::RateHalving,
                    "prr" => Reduction::Prr,
                )?;
            }
            "duplicate_threshold" => self.duplicate_threshold = number(1.0, 300.0)? as u32,
            "limited_transmit" => self.limited_transmit = flag()?,
            "impatient" => self.impatient = flag()?,
            "tail_loss_probe" => self.tail_loss_probe = flag()?,
            "undo" => self.undo = flag()?,
            "growth_gate" => {
                self.growth_gate = one_of!(
                    "always" => GrowthGate::Always,
                    "window-full" => GrowthGate::WindowFull,
                    "recently-full" => GrowthGate::RecentlyFull,
                )?;
            }
            "max_burst" => {
                self.max_burst = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1e6)? as u32),
                };
            }
            "idle_restart" => self.idle_restart = flag()?,
            "rto_rule" => {
                self.rto_rule = one_of!(
                    "rfc6298" => RtoRule::Rfc6298,
                    "linux" => RtoRule::Linux,
                    "freebsd" => RtoRule::FreeBsd,
                )?;
            }
            "rto_initial" => self.rto_initial = span()?,
            "rto_minimum" => self.rto_minimum = span()?,
            "rto_maximum" => self.rto_maximum = span()?,
            "clock_tick" => self.clock_tick = span()?,
            "delayed_ack" => {
                self.delayed_ack = match value {
                    Value::Flag(false) => None,
                    Value::Number(_) => Some(span()?),
                    _ => return Err(complain("not a time", "Write milliseconds, or false for off.".into())),
                };
            }
            "delayed_ack_tick" => self.delayed_ack_tick = flag()?,
            "ack_every" => self.ack_every = number(1.0, 1000.0)? as u32,
            "quick_acks" => self.quick_acks = number(0.0, 1e6)? as u32,
            "initial_receive_window" => {
                self.initial_receive_window = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1e12)? as u64),
                };
            }
            "ecn" => self.ecn = flag()?,
            "reassembly_limit" => {
                self.reassembly_limit = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1e9)? as u32),
                };
            }
            "send_buffer" => self.send_buffer = number(1.0, 1e12)? as u64,
            "receive_buffer" => self.receive_buffer = number(1.0, 1e12)? as u64,
            "window_share" => self.window_share = number(1.0, 100.0)? as u32,
            _ => {
                let names: Vec<_> = self.fields().into_iter().map(|(name, _)| name).collect();
                return Err(complain(
                    "a stack has no such field",
                    format!("The fields are: {}.", names.join(", ")),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn unknown_fields_and_bad_values_name_the_field() {
        let mut stack = FREEBSD_7;
        let wrong = stack.set("delayed_ack", &Value::Name("soon".into()), "flows[0].tcp").unwrap_err();
        assert!(wrong.to_string().contains("flows[0].tcp"), "{wrong}");
        assert!(stack.set("colour", &Value::Flag(true), "x").unwrap_err().fix.contains("delayed_ack"));
        stack.set("delayed_ack", &Value::Flag(false), "x").unwrap();
        assert_eq!(stack.delayed_ack, None);
        assert!(Stack::named("linnux", "x").unwrap_err().fix.contains("linux-2.6.25"));
    }
}
