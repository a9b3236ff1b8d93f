//! Serialisers whose pace varies: rates on a schedule, recorded traces, and media with a frame structure of
//! their own.
//!
//! A pace answers one question: a packet whose turn comes now, when has its last bit left? What varies is known in
//! advance or drawn by the slot, so the answer needs no event of its own, and a late wake changes nothing.

pub mod stepped;
pub mod trace;

use self::stepped::Stepped;
use self::trace::Trace;
use crate::link::LONGEST_DELAY;
use crate::medium::registry::{self, Private};
use crate::packet::Packet;
use crate::scenario::{LinkSpec, ScenarioError};
use crate::time::{Duration, Rate, Time};

/// What becomes of a packet between the serialiser and the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// It arrives then, after all that left before it.
    Arrives(Time),
    /// The medium gave it up.
    Lost,
}

/// A serialiser of varying pace.
pub trait Pace {
    /// When the last bit of `packet` has left, whose turn comes at `at`; [`Time::NEVER`] if it never does.
    /// `continues`: it follows the packet before it without a pause.
    fn serve(&mut self, at: Time, packet: &Packet, continues: bool) -> Time;
    /// The rate it has on average, for defaults that scale with a link's rate.
    fn nominal(&self) -> Rate;
    /// How much longer than the propagation delay the packet just served is under way, having left at `at`;
    /// `None` if it is lost.
    fn detour(&mut self, _at: Time) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

#[allow(clippy::large_enum_variant, reason = "the pacer lies behind a pointer as a whole")]
#[derive(Clone, Debug)]
enum Kind {
    Stepped(Stepped),
    Trace(Trace),
    Medium(Private),
}

/// What sets the pace of a link, and the delays it has had.
#[derive(Clone, Debug)]
pub struct Pacer {
    kind: Kind,
    /// Delays from later instants on.
    delays: Vec<(Time, Duration)>,
    /// When the packet being transmitted began, and when the last one ended.
    began: Time,
    ended: Time,
    /// The latest arrival so far: nothing overtakes.
    latest: Time,
}

impl Pacer {
    /// The pacer of link number `index`; `None` for a link of constant rate and delay, or on a shared medium.
    pub fn build(spec: &LinkSpec, index: usize, seed: u64) -> Result<Option<Self>, ScenarioError> {
        let refuse = |what: &str, value: String, problem: &str, fix: &str| ScenarioError {
            field: format!("links[{index}].{what}"),
            value,
            problem: problem.into(),
            fix: fix.into(),
        };
        let varies = match (&spec.medium, &spec.trace) {
            (Some(_), _) => Some("the medium"),
            (None, Some(_)) => Some("the trace"),
            (None, None) if spec.schedule.is_empty() => return Ok(None),
            (None, None) => None,
        };
        if spec.medium.is_some() && spec.trace.is_some() {
            let fix = "Leave one of them out";
            return Err(refuse(
                "trace",
                "a trace".into(),
                "the medium decides already when packets leave",
                fix,
            ));
        }
        if let (Some(what), Some(rate)) = (varies, spec.rate_bps) {
            let problem = format!("{what} decides already how fast the link is");
            return Err(refuse("rate_bps", rate.to_string(), &problem, "Leave the rate out"));
        }
        if let Some(hz) = spec.tick_hz {
            let problem = "a timer quantises a constant rate only";
            return Err(refuse("tick_hz", hz.to_string(), problem, "Leave it out"));
        }
        let mut before = None;
        for (number, step) in spec.schedule.iter().enumerate() {
            let what = |field: &str| format!("schedule[{number}].{field}");
            if before.is_some_and(|before| step.at_ps <= before) {
                let problem = "steps must come in order of time, one an instant";
                return Err(refuse(&what("at_ps"), step.at_ps.to_string(), problem, "Sort the steps"));
            }
            before = Some(step.at_ps);
            if step.rate_bps.is_none() && step.delay_ps.is_none() {
                let problem = "the step changes nothing";
                return Err(refuse(&what("rate_bps"), "nothing".into(), problem, "Give a rate or a delay"));
            }
            if let Some(delay) = step.delay_ps.filter(|ps| *ps > LONGEST_DELAY.as_ps()) {
                let fix = "Give at most one day";
                return Err(refuse(&what("delay_ps"), delay.to_string(), "longer than a day", fix));
            }
            if let Some(rate) = step.rate_bps.filter(|_| spec.rate_bps.is_none()) {
                let problem = match varies {
                    Some(what) => format!("{what} decides already how fast the link is"),
                    None => "the link is infinitely fast before this step".into(),
                };
                let fix = "Give the link a rate from the start, or the step a delay only";
                return Err(refuse(&what("rate_bps"), rate.to_string(), &problem, fix));
            }
            if let Some(rate) = step.rate_bps.filter(|bps| *bps > crate::link::FASTEST) {
                let fix = "Give at most 10^15";
                return Err(refuse(&what("rate_bps"), rate.to_string(), "above 1 Pbit/s", fix));
            }
        }
        let kind = match (&spec.medium, &spec.trace, spec.rate_bps) {
            (Some(medium), ..) => match registry::private(medium, &spec.name, index, seed)? {
                Some(medium) => Kind::Medium(medium),
                // Its channel keeps the time.
                None if spec.schedule.is_empty() => return Ok(None),
                None => {
                    let problem = "a shared medium has no delay that changes";
                    let fix = "Put the changing delay on a link of its own beside it";
                    return Err(refuse("schedule", "a schedule".into(), problem, fix));
                }
            },
            (None, Some(trace), _) => Kind::Trace(Trace::build(trace, &format!("links[{index}].trace"))?),
            (None, None, Some(rate)) => Kind::Stepped(Stepped::new(rate, &spec.schedule)),
            (None, None, None) => {
                let problem = "an infinitely fast link has nothing to keep in order while its delay changes";
                let fix = "Give the link a rate";
                return Err(refuse("schedule", "delays".into(), problem, fix));
            }
        };
        let delays = spec.schedule.iter().filter_map(|step| {
            step.delay_ps.map(|delay| (Time::from_ps(step.at_ps), Duration::from_ps(delay)))
        });
        Ok(Some(Pacer {
            kind,
            delays: delays.collect(),
            began: Time::ZERO,
            ended: Time::NEVER,
            latest: Time::ZERO,
        }))
    }

    /// As [`Pace::serve`]; `was_idle`: the link had nothing to send before.
    pub fn serve(&mut self, at: Time, packet: &Packet, was_idle: bool) -> Time {
        let continues = !was_idle && at == self.ended;
        self.began = at;
        self.ended = match &mut self.kind {
            Kind::Stepped(pace) => pace.serve(at, packet, continues),
            Kind::Trace(pace) => pace.serve(at, packet, continues),
            Kind::Medium(pace) => pace.serve(at, packet, continues),
        };
        self.ended
    }

    /// What becomes of the packet whose last bit left at `at`, where `delay` holds until the schedule changes it.
    pub fn cross(&mut self, at: Time, delay: Duration) -> Crossing {
        let detour = match &mut self.kind {
            Kind::Stepped(pace) => pace.detour(at),
            Kind::Trace(pace) => pace.detour(at),
            Kind::Medium(pace) => pace.detour(at),
        };
        let Some(detour) = detour else { return Crossing::Lost };
        let past = self.delays.partition_point(|(from, _)| *from <= at);
        let delay = if past == 0 { delay } else { self.delays[past - 1].1 };
        // A path that shortens would let later packets overtake; they wait instead, as behind a queue.
        self.latest = self.latest.max(at + delay + detour);
        Crossing::Arrives(self.latest)
    }

    /// When the transmission under way, or the last one, began.
    pub fn began(&self) -> Time {
        self.began
    }

    /// As [`Pace::nominal`].
    pub fn nominal(&self) -> Rate {
        match &self.kind {
            Kind::Stepped(pace) => pace.nominal(),
            Kind::Trace(pace) => pace.nominal(),
            Kind::Medium(pace) => pace.nominal(),
        }
    }
}
