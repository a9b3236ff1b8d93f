//! Stack profiles: parameters with which the same sender and receiver behave like a particular operating system.
//!
//! `stack/fields.rs` explains the fields; `stack/profiles.rs` has the profiles with the source of every value. A
//! scenario may override single fields (`stack_params`, parsed by `stack/forms.rs`).

mod choices;
mod fields;
mod forms;
mod lanes;
mod profiles;

use std::fmt::Display;

use crate::packet::Ecn;
use crate::rng::Stream;
use crate::scenario::ScenarioError;
pub use crate::tcp::metrics::MetricsCache;
use crate::tcp::segment::{Flags, Segment};
use crate::time::{Duration, Time};

pub use choices::{
    AckOnPush, Detection, EcnMode, Frto, FrtoResponse, GrowthGate, IdleRestart, Pipe, PrrBound, Reduction,
    Undo,
};
pub use fields::{Sources, Stack};
pub use lanes::Lanes;
pub use profiles::{PROFILES, Profile};

/// Every stack a scenario may name.
pub fn profiles() -> &'static [Profile] {
    PROFILES
}

impl Stack {
    /// Whether the delayed-ACK timeout adapts to arrivals. If so, each ACK sent uses up a quick ACK.
    #[inline(always)]
    pub fn adapts_acks(&self) -> bool {
        self.delayed_ack_limit.is_some()
    }

    /// Bytes of the timestamp option, which Linux includes in `advmss` until both ends have agreed on it.
    pub fn counted_options(&self) -> u8 {
        if self.timestamps { 12 } else { 0 }
    }

    /// When a timer set at `now` for `wait` expires: on the tick after its due time, or later if the wait is long.
    /// Linux's timer wheel (since 4.8, `calc_wheel_index`) is coarser for long waits: 8 ticks for waits from 63 ticks,
    /// 64 ticks from 504, and so on.
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
        let phase = self.tick_phase.as_ps();
        let due = now.as_ps().saturating_add(phase) / tick + ticks;
        Time::from_ps((due / grain + 1).saturating_mul(grain).saturating_mul(tick) - phase)
    }

    /// The host's tick count at `at` (Linux's jiffies); picoseconds if its timers have no tick.
    pub fn tick_of(&self, at: Time) -> u64 {
        at.as_ps().saturating_add(self.tick_phase.as_ps()) / self.timer_tick.as_ps().max(1)
    }

    /// Draws the phase of the host's ticks relative to simulated time from the host's random stream, within the
    /// coarsest granularity of timers up to two minutes.
    pub fn start_ticks(&mut self, mut host: Stream) {
        const COARSEST: u64 = 512;
        if !self.timer_tick.is_zero() {
            self.tick_phase = Duration::from_ps(host.below(self.timer_tick.as_ps() * COARSEST));
        }
    }

    /// Rounds an RTT sample to the stack's clock.
    pub fn quantise(&self, sample: Duration) -> Duration {
        if self.clock_tick.is_zero() {
            return sample;
        }
        // At least one tick: both systems treat a zero sample as one.
        let ticks = (sample.as_ps() / self.clock_tick.as_ps()).max(1);
        self.clock_tick * ticks
    }

    /// The ECN codepoint of a packet with this segment. Only new data is ECN-capable: no SYN, no pure ACK and no
    /// retransmission (RFC 3168 section 6.1.5). With DCTCP every packet is (Linux `tcp_ecn_send` and
    /// `tcp_ecn_send_syn`, `TCP_CONG_NEEDS_ECN`); a stack with accurate echo counts as a DCTCP host. With AccECN every
    /// packet is except the handshake's (Linux 7.3; draft-ietf-tcpm-generalized-ecn).
    #[inline]
    pub fn codepoint(&self, segment: &Segment) -> Ecn {
        if segment.len == 0 || segment.is_repeated {
            let is_dctcp = self.accurate_echo && self.ecn == EcnMode::Classic;
            let is_accurate = self.accecn && !segment.flags.has(Flags::SYN);
            if !is_dctcp && !is_accurate {
                return Ecn::NotEct;
            }
        }
        match self.ecn {
            EcnMode::Off => Ecn::NotEct,
            EcnMode::Classic => Ecn::Ect0,
            EcnMode::L4s => Ecn::Ect1,
        }
    }

    /// Whether the stack uses ECN.
    pub const fn speaks_ecn(&self) -> bool {
        !matches!(self.ecn, EcnMode::Off)
    }

    /// Whether the ECN feedback of each ACK is a counter, as both ends have negotiated.
    pub const fn counts_marks(&self) -> bool {
        self.accecn && self.speaks_ecn()
    }

    /// Whether each change of the CE mark is echoed. L4S needs at least that (RFC 9331 section 4.2).
    pub const fn echoes_each_mark(&self) -> bool {
        self.accurate_echo || matches!(self.ecn, EcnMode::L4s)
    }

    /// The profile called `name`.
    pub fn named(name: &str, field: impl Display) -> Result<Stack, ScenarioError> {
        PROFILES.iter().find(|profile| profile.name == name).map(|profile| profile.stack.clone()).ok_or_else(
            || {
                let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
                ScenarioError {
                    field: field.to_string(),
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
    fn no_source_is_empty() {
        for profile in PROFILES {
            assert!(
                profile.sources.fields().iter().all(|(_, source)| !source.is_empty()),
                "{}",
                profile.name
            );
        }
    }

    #[test]
    fn with_accurate_ecn_all_but_the_handshake_can_be_marked() {
        let data = Segment { len: 1_448, flags: Flags::ACK, ..Segment::blank() };
        let again = Segment { is_repeated: true, ..data };
        let ack = Segment { len: 0, ..data };
        let syn = Segment { flags: Flags::SYN, ..ack };
        let codepoints = |settings: &[(&str, Value)]| {
            let mut stack = Stack::named("linux", "x").unwrap();
            settings.iter().for_each(|(name, value)| stack.set(name, value, "x").unwrap());
            [data, again, ack, syn].map(|segment| stack.codepoint(&segment))
        };
        let (ecn, accecn) = (("ecn", Value::Flag(true)), ("accecn", Value::Flag(true)));
        let l4s = ("ecn", Value::Name("l4s".into()));
        assert_eq!(
            codepoints(std::slice::from_ref(&ecn)),
            [Ecn::Ect0, Ecn::NotEct, Ecn::NotEct, Ecn::NotEct]
        );
        assert_eq!(codepoints(&[ecn, accecn.clone()]), [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::NotEct]);
        assert_eq!(codepoints(&[l4s, accecn.clone()]), [Ecn::Ect1, Ecn::Ect1, Ecn::Ect1, Ecn::NotEct]);
        assert_eq!(codepoints(&[accecn]), [Ecn::NotEct; 4]);
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
    fn no_timer_expires_before_its_wait_is_over() {
        let mut stack = Stack::named("linux", "x").unwrap();
        for tick in [0, 1, 4_000, 10_000] {
            stack.timer_tick = Duration::from_us(tick);
            for (now, wait) in
                (0..2_000u64).map(|n| (Time::from_us(n * 37), Duration::from_us(n * n * 7 % 9_000_011)))
            {
                assert!(stack.expiry(now, wait) >= now + wait, "{tick} {now:?} {wait:?}");
                let shifted = Stack { tick_phase: stack.timer_tick * 3 / 2, ..stack.clone() };
                assert!(shifted.expiry(now, wait) >= now + wait, "{tick} {now:?} {wait:?}");
            }
        }
    }

    #[test]
    fn ticks_begin_where_the_host_says() {
        let mut stack = Stack::named("linux", "x").unwrap();
        let expiry = |stack: &Stack| stack.expiry(Time::from_ms(3), Duration::from_ms(40)).as_us();
        assert_eq!(expiry(&stack), 44_000);
        stack.tick_phase = Duration::from_ms(2);
        assert_eq!(expiry(&stack), 46_000, "5 ms after its ticks began: one, ten more, and the next");
        let mut drawn = |host: &str| {
            stack.start_ticks(Stream::named(1, host));
            stack.tick_phase
        };
        assert!(drawn("one") == drawn("one") && drawn("one") != drawn("other"));
        let mut exact = Stack::named("freebsd-9", "x").unwrap();
        exact.start_ticks(Stream::named(1, "one"));
        assert_eq!(exact.tick_phase, Duration::ZERO, "it has no ticks");
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
