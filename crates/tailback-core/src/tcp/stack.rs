//! Stack profiles: the same sender and receiver, told how an operating system behaves.
//!
//! A profile is a row in [`PROFILES`]; each of its fields has a source in [`Profile::sources`], and a test
//! demands it. A scenario may set single fields differently (`stack_params`). The profiles themselves are in
//! `stack/freebsd.rs`, `stack/linux.rs` and `stack/others.rs`.
//!
//! Left out on purpose: a cache of route metrics (every connection of a run is the first between its hosts) and
//! the small-queue limit (hosts hand packets straight to their link, so there is no device queue to bound).

mod freebsd;
mod linux;
mod others;

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

/// When an ACK may raise the window at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrowthGate {
    /// On every ACK for new data.
    Always,
    /// Only if the window was full when the ACK arrived (Linux 2.6 without segmentation offload).
    WindowFull,
    /// In slow start if more than half the window was used, else if it was full in the last round (Linux 6).
    RecentlyFull,
    /// While the congestion window and not the peer's is the limit (FreeBSD 9).
    BelowSendWindow,
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
    /// Retransmit what is not yet lost when nothing else may be sent (RFC 6675 NextSeg rules 3 and 4).
    pub rescue: bool,
    /// How the window falls.
    pub reduction: Reduction,
    /// How fast PRR may send below ssthresh.
    pub prr_bound: PrrBound,
    /// Duplicate ACKs, or segments of reordering, tolerated.
    pub duplicate_threshold: u32,
    /// A new segment for each of the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// In recovery only the first partial ACK restarts the retransmission timer (RFC 6582 section 4).
    pub impatient: bool,
    /// Tail loss probe (RFC 8985 section 7).
    pub tail_loss_probe: bool,
    /// Which evidence undoes a reduction.
    pub undo: Undo,
    /// When the window may grow.
    pub growth_gate: GrowthGate,
    /// Bring the window halfway to what is used after a timeout's worth of not using it (RFC 2861).
    pub window_validation: bool,
    /// After a disturbance: cwnd at most in flight + this many segments.
    pub max_burst: Option<u32>,
    /// New data leaves in bursts of so many segments, unless a third of the window is free (Linux TSO deferral).
    pub burst_segments: u32,
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
    /// Granularity of RTT samples; zero: exact.
    pub clock_tick: Duration,
    /// Delayed-ACK timer; `None`: every segment is acknowledged at once.
    pub delayed_ack: Option<Duration>,
    /// The delayed-ACK timer runs on a grid instead of from the segment's arrival.
    pub delayed_ack_tick: bool,
    /// Full segments that force an acknowledgement.
    pub ack_every: u32,
    /// Segments acknowledged at once at the start (quick-ACK mode).
    pub quick_acks: u32,
    /// Quick-ACK mode again after every out-of-order segment.
    pub quick_acks_after_gap: bool,
    /// Window offered at first, growing by two segments for each one received and acknowledged at once while
    /// it grows; `None`: the whole buffer from the start.
    pub initial_receive_window: Option<Bytes>,
    /// Hold back duplicate ACKs after the third for up to this (and 5 % of the RTT); `None`: never.
    pub sack_compression: Option<Duration>,
    /// Speak ECN (RFC 3168).
    pub ecn: bool,
    /// Echo each change of the CE mark instead of latching it until CWR (RFC 8257 section 3.2).
    pub accurate_echo: bool,
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
            GrowthGate::BelowSendWindow => "below-send-window",
        };
        let bound = match self.prr_bound {
            PrrBound::Conservative => "conservative",
            PrrBound::SlowStart => "slow-start",
            PrrBound::SafeAck => "safe-ack",
        };
        let undo = match self.undo {
            Undo::Never => "never",
            Undo::BadRetransmit => "bad-retransmit",
            Undo::Full => "full",
        };
        let idle = match self.idle_restart {
            IdleRestart::Keep => "keep",
            IdleRestart::Restart => "restart",
            IdleRestart::Halve => "halve",
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
            ("rescue", self.rescue.to_string()),
            ("reduction", reduction.into()),
            ("prr_bound", bound.into()),
            ("duplicate_threshold", self.duplicate_threshold.to_string()),
            ("limited_transmit", self.limited_transmit.to_string()),
            ("impatient", self.impatient.to_string()),
            ("tail_loss_probe", self.tail_loss_probe.to_string()),
            ("undo", undo.into()),
            ("growth_gate", gate.into()),
            ("window_validation", self.window_validation.to_string()),
            ("max_burst", or_none(self.max_burst)),
            ("burst_segments", self.burst_segments.to_string()),
            ("idle_restart", idle.into()),
            ("restart_window", self.restart_window.to_string()),
            ("rto_rule", rule.into()),
            ("rto_initial", milliseconds(self.rto_initial)),
            ("rto_minimum", milliseconds(self.rto_minimum)),
            ("rto_maximum", milliseconds(self.rto_maximum)),
            ("clock_tick", milliseconds(self.clock_tick)),
            ("delayed_ack", self.delayed_ack.map_or("off".into(), milliseconds)),
            ("delayed_ack_tick", self.delayed_ack_tick.to_string()),
            ("ack_every", self.ack_every.to_string()),
            ("quick_acks", self.quick_acks.to_string()),
            ("quick_acks_after_gap", self.quick_acks_after_gap.to_string()),
            ("initial_receive_window", bytes_or_all(self.initial_receive_window)),
            ("sack_compression", self.sack_compression.map_or("off".into(), milliseconds)),
            ("ecn", self.ecn.to_string()),
            ("accurate_echo", self.accurate_echo.to_string()),
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
            "rescue" => self.rescue = flag()?,
            "reduction" => {
                self.reduction = one_of!(
                    "immediate" => Reduction::Immediate,
                    "freebsd" => Reduction::FreeBsd,
                    "rate-halving" => Reduction::RateHalving,
                    "prr" => Reduction::Prr,
                )?;
            }
            "prr_bound" => {
                self.prr_bound = one_of!(
                    "conservative" => PrrBound::Conservative,
                    "slow-start" => PrrBound::SlowStart,
                    "safe-ack" => PrrBound::SafeAck,
                )?;
            }
            "duplicate_threshold" => self.duplicate_threshold = number(1.0, 300.0)? as u32,
            "limited_transmit" => self.limited_transmit = flag()?,
            "impatient" => self.impatient = flag()?,
            "tail_loss_probe" => self.tail_loss_probe = flag()?,
            "undo" => {
                self.undo = match value {
                    Value::Flag(false) => Undo::Never,
                    _ => one_of!(
                        "never" => Undo::Never,
                        "bad-retransmit" => Undo::BadRetransmit,
                        "full" => Undo::Full,
                    )?,
                };
            }
            "growth_gate" => {
                self.growth_gate = one_of!(
                    "always" => GrowthGate::Always,
                    "window-full" => GrowthGate::WindowFull,
                    "recently-full" => GrowthGate::RecentlyFull,
                    "below-send-window" => GrowthGate::BelowSendWindow,
                )?;
            }
            "window_validation" => self.window_validation = flag()?,
            "max_burst" => {
                self.max_burst = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1e6)? as u32),
                };
            }
            "burst_segments" => self.burst_segments = number(1.0, 64.0)? as u32,
            "idle_restart" => {
                self.idle_restart = match value {
                    Value::Flag(false) => IdleRestart::Keep,
                    _ => one_of!(
                        "keep" => IdleRestart::Keep,
                        "restart" => IdleRestart::Restart,
                        "halve" => IdleRestart::Halve,
                    )?,
                };
            }
            "restart_window" => self.restart_window = number(1.0, 1000.0)? as u32,
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
            "quick_acks_after_gap" => self.quick_acks_after_gap = flag()?,
            "sack_compression" => {
                self.sack_compression = match value {
                    Value::Flag(false) => None,
                    Value::Number(_) => Some(span()?),
                    _ => return Err(complain("not a time", "Write milliseconds, or false for off.".into())),
                };
            }
            "initial_receive_window" => {
                self.initial_receive_window = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1e12)? as u64),
                };
            }
            "ecn" => self.ecn = flag()?,
            "accurate_echo" => self.accurate_echo = flag()?,
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
        let mut stack = Stack::named("freebsd-7", "x").unwrap();
        let wrong = stack.set("delayed_ack", &Value::Name("soon".into()), "flows[0].tcp").unwrap_err();
        assert!(wrong.to_string().contains("flows[0].tcp"), "{wrong}");
        assert!(stack.set("colour", &Value::Flag(true), "x").unwrap_err().fix.contains("delayed_ack"));
        stack.set("delayed_ack", &Value::Flag(false), "x").unwrap();
        assert_eq!(stack.delayed_ack, None);
        assert!(Stack::named("linnux", "x").unwrap_err().fix.contains("linux-2.6.25"));
    }
}
