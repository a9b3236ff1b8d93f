//! A path over low-orbit satellites that is reallocated at fixed times.

use super::Registered;
use crate::capacity::Pace;
use crate::packet::Packet;
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Rate, Time};

const CARD: Card = Card {
    name: "leo",
    title: "Low-orbit path",
    law: "time is cut into intervals of `interval_ms`, at whose bounds all paths are allocated again. Each interval \
          has a rate, uniform in `rate` × (1 ± `spread`), and a delay, uniform from `delay_ms` to `delay_most_ms`, \
          which adds to the link's. After a reallocation nothing is sent for `outage_ms`; what is queued waits. \
          Packets under way at a reallocation are lost with probability `loss`. A delay that falls does not \
          reorder: later packets wait for the earlier ones",
    source: "Mohan et al., \"A Multifaceted Look at Starlink Performance\", WWW 2024; Tanveer et al., \"Making Sense of \
             Constellations\", CoNEXT Companion 2023: intervals of 15 s that are the same everywhere. Michel et al., \
             \"A First Look at Starlink Performance\", IMC 2022: round trips from 20 ms, quartiles 40 and 60. \
             Casparsen et al., arXiv 2601.08439, 2026: silences of 140 ms",
    differs: &[
        "The papers print quantiles; that rates and delays are uniform and independent is ours",
        "`loss` is a guess: losses are reported at reallocations, but no share of the packets under way",
        "Each direction draws for itself, though one satellite serves both; both change at the same instants",
        "Intervals count from the beginning of the run, not from the 12th, 27th, 42nd and 57th second of a minute",
        "Nothing changes within an interval: no other users, no weather, no obstruction",
    ],
    live_twin: None,
    params: &[
        ParamSpec::whole("rate_bps", "bit/s", 100_000_000, (64_000, 10_000_000_000), "Mean rate."),
        ParamSpec::number(
            "spread",
            "",
            0.4,
            (0.0, 0.95),
            "Furthest that a rate strays, as a share of the mean.",
        ),
        ParamSpec::number("delay_ms", "ms", 10.0, (0.0, 1000.0), "Least delay of this direction."),
        ParamSpec::number("delay_most_ms", "ms", 30.0, (0.0, 1000.0), "Most."),
        ParamSpec::number("interval_ms", "ms", 15_000.0, (100.0, 3.6e6), "Between two reallocations."),
        ParamSpec::number("outage_ms", "ms", 140.0, (0.0, 10_000.0), "Silence after a reallocation."),
        ParamSpec::number("loss", "", 0.1, (0.0, 1.0), "Probability that a packet under way then is lost."),
    ],
};

const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// One direction of a path over low-orbit satellites.
#[derive(Clone, Debug)]
pub struct Leo {
    mean: u64,
    spread: f64,
    least: Duration,
    range: Duration,
    interval: Duration,
    outage: Duration,
    loss: f64,
    /// The current interval: its number, rate and delay.
    number: u64,
    rate: u64,
    delay: Duration,
    rates: Stream,
    delays: Stream,
    losses: Stream,
}

impl Registered for Leo {
    const CARD: Card = CARD;
}

impl Leo {
    /// Builds the direction from its parameters.
    pub fn new(given: &Checked<'_>, stream: &dyn Fn(&str) -> Stream) -> Result<Self, ScenarioError> {
        let ms = |name: &str| Duration::from_secs_f64(given.number(name) / 1e3);
        let (least, most) = (ms("delay_ms"), ms("delay_most_ms"));
        if least > most {
            let fix = format!("Give at most {}, or a larger delay_most_ms", given.number("delay_most_ms"));
            return Err(given.refuse("delay_ms", "the least delay is above the most, delay_most_ms", &fix));
        }
        let (interval, outage) = (ms("interval_ms"), ms("outage_ms"));
        if outage >= interval {
            let fix = format!("Give less than {}", given.number("interval_ms"));
            return Err(given.refuse("outage_ms", "the silence lasts the whole interval, interval_ms", &fix));
        }
        let mut path = Leo {
            mean: given.whole("rate_bps"),
            spread: given.number("spread"),
            least,
            range: most.saturating_sub(least),
            interval,
            outage,
            loss: given.number("loss"),
            number: 0,
            rate: 0,
            delay: Duration::ZERO,
            rates: stream("rates"),
            delays: stream("delays"),
            losses: stream("losses"),
        };
        path.draw();
        Ok(path)
    }

    fn draw(&mut self) {
        let share = 1.0 + self.spread * (2.0 * self.rates.uniform() - 1.0);
        self.rate = (self.mean as f64 * share) as u64;
        self.delay = self.least + self.delays.duration_up_to(self.range);
    }

    /// Advances to the interval that contains `at`. Draws also without traffic, so that traffic does not change the
    /// path.
    fn turn_to(&mut self, at: Time) {
        let number = at.as_ps() / self.interval.as_ps();
        while self.number < number {
            self.number += 1;
            self.draw();
        }
    }

    /// Start of the current interval.
    fn begins(&self) -> Time {
        Time::from_ps(self.number * self.interval.as_ps())
    }
}

impl Pace for Leo {
    fn serve(&mut self, at: Time, packet: &Packet, _continues: bool) -> Time {
        let mut left = u128::from(packet.bytes) * 8 * PS_PER_SECOND;
        let mut from = at;
        loop {
            self.turn_to(from);
            if self.number > 0 {
                from = from.max(self.begins() + self.outage);
            }
            let (until, rate) = (self.begins() + self.interval, u128::from(self.rate));
            let span = u128::from(until.since(from).as_ps());
            if left <= span * rate {
                return from + Duration::from_ps((left / rate) as u64);
            }
            (left, from) = (left - span * rate, until);
        }
    }

    fn nominal(&self) -> Rate {
        Rate::from_bps(self.mean)
    }

    fn detour(&mut self, at: Time) -> Option<Duration> {
        self.turn_to(at);
        let is_under_way = at + self.delay > self.begins() + self.interval;
        let is_lost = is_under_way && self.losses.chance(self.loss);
        (!is_lost).then_some(self.delay)
    }
}
