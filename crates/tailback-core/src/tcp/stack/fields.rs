//! The fields of a stack by name: what they are, and how a scenario sets one.

use super::{
    AckOnPush, Detection, EcnMode, Frto, FrtoResponse, GrowthGate, IdleRestart, Pipe, PrrBound, Reduction,
    Stack, Undo,
};
use crate::cc::Counting;
use crate::scenario::{ScenarioError, Value};
use crate::tcp::metrics::MetricsCache;
use crate::tcp::rtt::RtoRule;
use crate::time::{Bytes, Duration};

/// A timer that may fire at once never ends. One millisecond is the finest clock a stack's timers have had
/// (RFC 7323 section 5.4; kern.hz = 1000).
const SHORTEST_TIMEOUT_MS: f64 = 1.0;

impl Stack {
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
            Reduction::AtEnd => "at-end",
            Reduction::Prr => "prr",
        };
        let gate = match self.growth_gate {
            GrowthGate::Always => "always",
            GrowthGate::WindowFull => "window-full",
            GrowthGate::RecentlyFull => "recently-full",
            GrowthGate::BelowSendWindow => "below-send-window",
        };
        let pipe = match self.pipe {
            Pipe::Scoreboard => "scoreboard",
            Pipe::Counter => "counter",
        };
        let cache = match self.metrics_cache {
            MetricsCache::Off => "off",
            MetricsCache::Linux2 => "linux-2.6",
            MetricsCache::Linux => "linux",
            MetricsCache::FreeBsd7 => "freebsd-7",
            MetricsCache::FreeBsd => "freebsd",
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
        let frto = match self.frto {
            Frto::Off => "off",
            Frto::Basic => "basic",
            Frto::Sack => "sack",
            Frto::AtOnce => "at-once",
        };
        let frto_response = match self.frto_response {
            FrtoResponse::Undo => "undo",
            FrtoResponse::Halve => "halve",
        };
        let push = match self.ack_on_push {
            AckOnPush::Never => "never",
            AckOnPush::Short => "short",
            AckOnPush::ShortOrPushed => "short-or-pushed",
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
        let ecn = match self.ecn {
            EcnMode::Off => "false",
            EcnMode::Classic => "true",
            EcnMode::L4s => "l4s",
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
            ("grow_on_sacks", self.grow_on_sacks.to_string()),
            ("detection", detection.into()),
            ("rescue", self.rescue.to_string()),
            ("reduction", reduction.into()),
            ("pipe", pipe.into()),
            ("prr_bound", bound.into()),
            ("duplicate_threshold", self.duplicate_threshold.to_string()),
            ("reordering_limit", or_none(self.reordering_limit)),
            ("limited_transmit", self.limited_transmit.to_string()),
            ("impatient", self.impatient.to_string()),
            ("tail_loss_probe", self.tail_loss_probe.to_string()),
            ("undo", undo.into()),
            ("frto", frto.into()),
            ("frto_response", frto_response.into()),
            ("growth_gate", gate.into()),
            ("window_validation", self.window_validation.to_string()),
            ("max_burst", or_none(self.max_burst)),
            ("pacing", self.pacing.to_string()),
            ("burst_segments", self.burst_segments.to_string()),
            ("burst_autosize", self.burst_autosize.to_string()),
            ("small_queue", self.small_queue.map_or("none".into(), |bytes| bytes.to_string())),
            ("idle_restart", idle.into()),
            ("restart_window", self.restart_window.to_string()),
            ("rto_rule", rule.into()),
            ("rto_initial", milliseconds(self.rto_initial)),
            ("rto_minimum", milliseconds(self.rto_minimum)),
            ("rto_maximum", milliseconds(self.rto_maximum)),
            ("persist_minimum", milliseconds(self.persist_minimum)),
            ("persist_maximum", milliseconds(self.persist_maximum)),
            ("clock_tick", milliseconds(self.clock_tick)),
            ("timestamp_tick", milliseconds(self.timestamp_tick)),
            ("timer_tick", milliseconds(self.timer_tick)),
            ("delayed_ack", self.delayed_ack.map_or("off".into(), milliseconds)),
            ("delayed_ack_tick", self.delayed_ack_tick.to_string()),
            ("ack_every", self.ack_every.to_string()),
            ("ack_on_push", push.into()),
            ("fin_ack_delayed", self.fin_ack_delayed.to_string()),
            ("quick_acks", self.quick_acks.to_string()),
            ("quick_acks_after_gap", self.quick_acks_after_gap.to_string()),
            ("initial_receive_window", bytes_or_all(self.initial_receive_window)),
            ("window_grows_over_gaps", self.window_grows_over_gaps.to_string()),
            ("initial_receive_buffer", bytes_or_all(self.initial_receive_buffer)),
            ("sack_compression", self.sack_compression.map_or("off".into(), milliseconds)),
            ("ecn", ecn.into()),
            ("accurate_echo", self.accurate_echo.to_string()),
            ("metrics_cache", cache.into()),
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
        let timeout = || number(SHORTEST_TIMEOUT_MS, 1e6).map(|ms| Duration::from_secs_f64(ms / 1e3));
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
            "grow_on_sacks" => self.grow_on_sacks = flag()?,
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
                    "at-end" => Reduction::AtEnd,
                    "prr" => Reduction::Prr,
                )?;
            }
            "pipe" => {
                self.pipe = one_of!("scoreboard" => Pipe::Scoreboard, "counter" => Pipe::Counter)?;
            }
            "metrics_cache" => {
                self.metrics_cache = match value {
                    Value::Flag(false) => MetricsCache::Off,
                    _ => one_of!(
                        "off" => MetricsCache::Off,
                        "linux-2.6" => MetricsCache::Linux2,
                        "linux" => MetricsCache::Linux,
                        "freebsd-7" => MetricsCache::FreeBsd7,
                        "freebsd" => MetricsCache::FreeBsd,
                    )?,
                };
            }
            "prr_bound" => {
                self.prr_bound = one_of!(
                    "conservative" => PrrBound::Conservative,
                    "slow-start" => PrrBound::SlowStart,
                    "safe-ack" => PrrBound::SafeAck,
                )?;
            }
            "duplicate_threshold" => self.duplicate_threshold = number(1.0, 300.0)? as u32,
            "reordering_limit" => {
                self.reordering_limit = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1000.0)? as u32),
                };
            }
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
            "frto" => {
                self.frto = match value {
                    Value::Flag(false) => Frto::Off,
                    _ => one_of!(
                        "off" => Frto::Off,
                        "basic" => Frto::Basic,
                        "sack" => Frto::Sack,
                        "at-once" => Frto::AtOnce,
                    )?,
                };
            }
            "frto_response" => {
                self.frto_response = one_of!(
                    "undo" => FrtoResponse::Undo,
                    "halve" => FrtoResponse::Halve,
                )?;
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
            "pacing" => self.pacing = flag()?,
            "burst_segments" => self.burst_segments = number(1.0, 64.0)? as u32,
            "burst_autosize" => self.burst_autosize = flag()?,
            "small_queue" => {
                self.small_queue = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1e12)? as u64),
                };
            }
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
            "rto_initial" => self.rto_initial = timeout()?,
            "rto_minimum" => self.rto_minimum = span()?,
            "rto_maximum" => self.rto_maximum = timeout()?,
            "persist_minimum" => self.persist_minimum = span()?,
            "persist_maximum" => self.persist_maximum = timeout()?,
            "clock_tick" => self.clock_tick = span()?,
            "timestamp_tick" => self.timestamp_tick = span()?,
            "timer_tick" => {
                self.timer_tick = number(0.0, 1000.0).map(|ms| Duration::from_secs_f64(ms / 1e3))?
            }
            "delayed_ack" => {
                self.delayed_ack = match value {
                    Value::Flag(false) => None,
                    Value::Number(_) => Some(span()?),
                    _ => return Err(complain("not a time", "Write milliseconds, or false for off.".into())),
                };
            }
            "delayed_ack_tick" => self.delayed_ack_tick = flag()?,
            "ack_every" => self.ack_every = number(1.0, 1000.0)? as u32,
            "ack_on_push" => {
                self.ack_on_push = match value {
                    Value::Flag(false) => AckOnPush::Never,
                    _ => one_of!(
                        "never" => AckOnPush::Never,
                        "short" => AckOnPush::Short,
                        "short-or-pushed" => AckOnPush::ShortOrPushed,
                    )?,
                };
            }
            "fin_ack_delayed" => self.fin_ack_delayed = flag()?,
            "quick_acks" => self.quick_acks = number(0.0, 1e6)? as u32,
            "quick_acks_after_gap" => self.quick_acks_after_gap = flag()?,
            "window_grows_over_gaps" => self.window_grows_over_gaps = flag()?,
            "initial_receive_buffer" => {
                self.initial_receive_buffer = match value {
                    Value::Flag(false) => None,
                    _ => Some(number(1.0, 1e12)? as u64),
                };
            }
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
            "ecn" => {
                self.ecn = match value {
                    Value::Flag(false) => EcnMode::Off,
                    Value::Flag(true) => EcnMode::Classic,
                    Value::Name(text) if text == "l4s" => EcnMode::L4s,
                    _ => return Err(complain("not a kind of ECN", "Write true, false or \"l4s\".".into())),
                };
            }
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
