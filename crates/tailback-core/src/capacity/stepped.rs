//! A rate that changes at given instants, zero included: an outage.
//!
//! Law: a packet of L bytes whose turn comes at t has left at the T for which ∫ C(s) ds from t to T is 8L. A step in
//! the middle of a packet so slows or speeds the rest of it. L counts the link's framing.

use super::Pace;
use crate::framing::Framing;
use crate::packet::Packet;
use crate::scenario::StepSpec;
use crate::time::{Duration, Rate, Time};

const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Rates by the instant from which they hold.
#[derive(Clone, Debug)]
pub struct Stepped {
    steps: Vec<(Time, u64)>,
    /// The step now in force.
    current: usize,
    framing: Framing,
}

impl Stepped {
    /// `rate` from the start, then what `schedule`, which is in order of time, says of rates.
    pub fn new(rate: u64, framing: Framing, schedule: &[StepSpec]) -> Self {
        let mut steps = vec![(Time::ZERO, rate)];
        for step in schedule {
            if let Some(rate) = step.rate_bps {
                steps.push((Time::from_ps(step.at_ps), rate));
            }
        }
        Stepped { steps, current: 0, framing }
    }
}

impl Pace for Stepped {
    fn serve(&mut self, at: Time, packet: &Packet, _continues: bool) -> Time {
        let end_of = |step: usize| self.steps.get(step + 1).map_or(Time::NEVER, |(from, _)| *from);
        while end_of(self.current) <= at {
            self.current += 1;
        }
        // Bits times picoseconds a second, so that nothing is rounded before the end.
        let mut left = u128::from(self.framing.bytes(packet.bytes)) * 8 * PS_PER_SECOND;
        let (mut from, mut step) = (at, self.current);
        loop {
            let (until, rate) = (end_of(step), u128::from(self.steps[step].1));
            let span = u128::from(until.since(from).as_ps());
            if until == Time::NEVER && rate == 0 {
                return Time::NEVER;
            }
            if until == Time::NEVER || left <= span * rate {
                return from + Duration::from_ps((left / rate) as u64);
            }
            left -= span * rate;
            (from, step) = (until, step + 1);
        }
    }

    fn nominal(&self) -> Rate {
        // An outage at the start says nothing about the link.
        Rate::from_bps(self.steps.iter().map(|(_, rate)| *rate).find(|rate| *rate > 0).unwrap_or(1))
    }
}
