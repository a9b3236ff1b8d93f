//! Source of a link's varying rate or delay: a schedule, a trace, or a medium of its own.

use super::api::{FASTEST, LONGEST_DELAY};
use crate::capacity::Pace;
use crate::capacity::stepped::Stepped;
use crate::capacity::trace::Trace;
use crate::medium::registry::Private;
use crate::packet::Packet;
use crate::queue::Backlog;
use crate::rng::Stream;
use crate::scenario::{LinkSpec, ScenarioError, StepSpec};
use crate::time::{Duration, Rate, Time};

/// The fate of a packet between the serialiser and the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// The packet arrives at this time, after all earlier ones.
    Arrives(Time),
    /// The medium gave the packet up, or the schedule's loss hit it.
    Lost,
}

#[allow(clippy::large_enum_variant, reason = "the pacer lies behind a pointer as a whole")]
#[derive(Clone, Debug)]
enum Kind {
    Stepped(Stepped),
    Trace(Trace),
    Medium(Private),
}

/// Loss ratios of the schedule, each from a time on.
#[derive(Clone, Debug)]
struct Losses {
    steps: Vec<(Time, f64)>,
    stream: Stream,
}

impl Losses {
    /// `None` if the schedule has no losses. The stream's name derives from the link's `name`.
    fn new(schedule: &[StepSpec], name: &str, seed: u64) -> Option<Self> {
        let steps = schedule.iter().filter_map(|step| Some((Time::from_ps(step.at_ps), step.loss?)));
        let steps: Vec<(Time, f64)> = steps.collect();
        let stream = Stream::named(seed, &format!("link/{name}/schedule/loss"));
        (!steps.is_empty()).then_some(Losses { steps, stream })
    }

    /// Whether the packet that leaves at `at` is lost. Draws once per packet, whatever the ratio.
    fn loses(&mut self, at: Time) -> bool {
        let share = in_force(&self.steps, at).unwrap_or(0.0);
        self.stream.chance(share)
    }
}

/// Value of the last step at or before `at`.
fn in_force<T: Copy>(steps: &[(Time, T)], at: Time) -> Option<T> {
    let past = steps.partition_point(|(from, _)| *from <= at);
    Some(steps[past.checked_sub(1)?].1)
}

/// Varying rate and delay of a link.
#[derive(Clone, Debug)]
pub struct Pacer {
    kind: Kind,
    /// Delays of the schedule, each from a time on.
    delays: Vec<(Time, Duration)>,
    losses: Option<Losses>,
    /// Start of the current transmission, and end of the last one.
    began: Time,
    ended: Time,
    /// Latest arrival so far: no packet overtakes another.
    latest: Time,
}

/// An error for a field of link number `index`.
pub fn refusal(index: usize, what: &str, value: impl ToString, problem: &str, fix: &str) -> ScenarioError {
    ScenarioError {
        field: format!("links[{index}].{what}"),
        value: value.to_string(),
        problem: problem.into(),
        fix: fix.into(),
    }
}

/// An error if the schedule, trace or medium is inconsistent in itself or with the link's other fields.
pub fn check(spec: &LinkSpec, index: usize) -> Result<(), ScenarioError> {
    let varies = match (&spec.medium, &spec.trace) {
        (Some(_), _) => Some("the medium"),
        (None, Some(_)) => Some("the trace"),
        (None, None) if spec.schedule.is_empty() => return Ok(()),
        (None, None) => None,
    };
    let refuse =
        |what: &str, value: String, problem: &str, fix: &str| Err(refusal(index, what, value, problem, fix));
    if spec.medium.is_some() && spec.trace.is_some() {
        let problem = "the medium decides already when packets leave";
        return refuse("trace", "a trace".into(), problem, "Leave one of them out");
    }
    if let (Some(what), Some(rate)) = (varies, spec.rate_bps) {
        let problem = format!("{what} decides already how fast the link is");
        return refuse("rate_bps", rate.to_string(), &problem, "Leave the rate out");
    }
    if let Some(hz) = spec.tick_hz {
        let problem = "a timer quantises a constant rate only";
        return refuse("tick_hz", hz.to_string(), problem, "Leave it out");
    }
    let mut before = None;
    for (number, step) in spec.schedule.iter().enumerate() {
        let refuse = |field: &str, value: String, problem: &str, fix: &str| {
            Err(refusal(index, &format!("schedule[{number}].{field}"), value, problem, fix))
        };
        if before.is_some_and(|before| step.at_ps <= before) {
            let problem = "steps must come in order of time, one an instant";
            return refuse("at_ps", step.at_ps.to_string(), problem, "Sort the steps");
        }
        before = Some(step.at_ps);
        if let Some(loss) = step.loss.filter(|loss| !(0.0..=1.0).contains(loss)) {
            return refuse("loss", loss.to_string(), "a probability lies in 0 to 1", "Give 0 to 1");
        }
        if step.rate_bps.is_none() && step.delay_ps.is_none() && step.loss.is_none() {
            return refuse(
                "rate_bps",
                "nothing".into(),
                "the step changes nothing",
                "Give a rate, a delay or a loss",
            );
        }
        if let Some(delay) = step.delay_ps.filter(|ps| *ps > LONGEST_DELAY.as_ps()) {
            return refuse("delay_ps", delay.to_string(), "longer than a day", "Give at most one day");
        }
        if let Some(rate) = step.rate_bps.filter(|_| spec.rate_bps.is_none()) {
            let problem = match varies {
                Some(what) => format!("{what} decides already how fast the link is"),
                None => "the link is infinitely fast before this step".into(),
            };
            let fix = "Give the link a rate from the start, or the step a delay only";
            return refuse("rate_bps", rate.to_string(), &problem, fix);
        }
        if let Some(rate) = step.rate_bps.filter(|bps| *bps > FASTEST) {
            return refuse("rate_bps", rate.to_string(), "above 1 Pbit/s", "Give at most 10^15");
        }
    }
    Ok(())
}

impl Pacer {
    fn new(kind: Kind, spec: &LinkSpec, seed: u64) -> Self {
        let schedule = &spec.schedule;
        let delays = schedule.iter().filter_map(|step| {
            step.delay_ps.map(|delay| (Time::from_ps(step.at_ps), Duration::from_ps(delay)))
        });
        Pacer {
            kind,
            delays: delays.collect(),
            losses: Losses::new(schedule, &spec.name, seed),
            began: Time::ZERO,
            ended: Time::NEVER,
            latest: Time::ZERO,
        }
    }

    /// Pacer of a link with a private medium.
    pub fn of_medium(medium: Private, spec: &LinkSpec, seed: u64) -> Self {
        Self::new(Kind::Medium(medium), spec, seed)
    }

    /// Pacer of link number `index`, which has no medium; `None` if its rate and delay are constant.
    pub fn build(spec: &LinkSpec, index: usize, seed: u64) -> Result<Option<Self>, ScenarioError> {
        let kind = match (&spec.trace, spec.rate_bps) {
            (Some(trace), _) => Kind::Trace(Trace::build(trace, &format!("links[{index}].trace"))?),
            (None, _) if spec.schedule.is_empty() => return Ok(None),
            (None, Some(rate)) => Kind::Stepped(Stepped::new(rate, spec.framing, &spec.schedule)),
            (None, None) => {
                let problem = "an infinitely fast link has nothing to keep in order while its delay changes";
                return Err(refusal(index, "schedule", "delays", problem, "Give the link a rate"));
            }
        };
        Ok(Some(Self::new(kind, spec, seed)))
    }

    /// As [`Pace::serve`]. `was_idle`: the link was idle before; `behind`: backlog behind the packet.
    pub fn serve(&mut self, at: Time, packet: &Packet, was_idle: bool, behind: Backlog) -> Time {
        let continues = !was_idle && at == self.ended;
        self.began = at;
        self.ended = match &mut self.kind {
            Kind::Stepped(pace) => pace.serve(at, packet, continues),
            Kind::Trace(pace) => pace.serve(at, packet, continues),
            Kind::Medium(pace) => {
                pace.behind(behind);
                pace.serve(at, packet, continues)
            }
        };
        self.ended
    }

    /// Fate of the packet whose last bit left at `at`. `delay` applies unless the schedule has set another.
    pub fn cross(&mut self, at: Time, delay: Duration) -> Crossing {
        let detour = match &mut self.kind {
            Kind::Stepped(pace) => pace.detour(at),
            Kind::Trace(pace) => pace.detour(at),
            Kind::Medium(pace) => pace.detour(at),
        };
        let Some(detour) = detour else { return Crossing::Lost };
        if self.losses.as_mut().is_some_and(|losses| losses.loses(at)) {
            return Crossing::Lost;
        }
        let delay = in_force(&self.delays, at).unwrap_or(delay);
        // With a shorter delay, later packets would overtake; they wait instead, as behind a queue.
        self.latest = self.latest.max(at + delay + detour);
        Crossing::Arrives(self.latest)
    }

    /// Start of the current or the last transmission.
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
