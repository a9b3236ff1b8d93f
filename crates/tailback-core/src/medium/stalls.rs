//! Stalls: periods in which a radio link carries nothing without its sender knowing.
//!
//! Law: a stall begins an exponential time of mean `every` after the end of the last one, and its length is uniform
//! from `least` to `most`. Queued packets wait; a stall loses nothing.
//!
//! Source: RFC 3481 section 2.4 (3G: handovers and link-layer repetitions cause delay spikes of several round trips).
//! Ramani and Savage, "SyncScan", INFOCOM 2005 (802.11: a station that scans other channels is away for more than a
//! quarter of a second). Neither gives a distribution; the exponential and the uniform are ours.

use crate::params::{Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

/// The parameters of a medium that may stall, with their ranges.
pub const PARAMS: [ParamSpec; 3] = [
    ParamSpec::number("stall_every_ms", "ms", 0.0, (0.0, 1e9), "Mean time between two stalls; 0: never."),
    ParamSpec::number("stall_ms", "ms", 300.0, (0.0, 60_000.0), "Shortest stall."),
    ParamSpec::number("stall_most_ms", "ms", 1000.0, (0.0, 60_000.0), "Longest stall."),
];

/// The stalls of one direction.
#[derive(Clone, Debug)]
pub struct Stalls {
    every_s: f64,
    least: Duration,
    spread: Duration,
    stream: Stream,
    /// The current or next stall.
    began: Time,
    ends: Time,
}

impl Stalls {
    /// Builds the stalls from their parameters; `None` if there are none.
    pub fn new(given: &Checked<'_>, stream: Stream) -> Result<Option<Self>, ScenarioError> {
        Self::named(given, ["stall_every_ms", "stall_ms", "stall_most_ms"], stream)
    }

    /// As [`Self::new`], with other parameter names: mean interval, minimum and maximum length.
    pub fn named(
        given: &Checked<'_>,
        names: [&str; 3],
        stream: Stream,
    ) -> Result<Option<Self>, ScenarioError> {
        let [every, least, most] = names.map(|name| given.number(name) / 1e3);
        if least > most {
            let problem = "the shortest is longer than the longest";
            return Err(given.refuse(names[1], problem, &format!("Give at most {}", names[2])));
        }
        if every == 0.0 {
            return Ok(None);
        }
        let mut stalls = Stalls {
            every_s: every,
            least: Duration::from_secs_f64(least),
            spread: Duration::from_secs_f64(most - least),
            stream,
            began: Time::ZERO,
            ends: Time::ZERO,
        };
        stalls.draw();
        Ok(Some(stalls))
    }

    fn draw(&mut self) {
        self.began = self.ends + Duration::from_secs_f64(self.stream.exponential(self.every_s));
        self.ends = self.began + self.least + self.stream.duration_up_to(self.spread);
    }

    /// End of the stall at `at`; `None` if there is none. Called in order of time.
    pub fn end_at(&mut self, at: Time) -> Option<Time> {
        while self.ends <= at {
            self.draw();
        }
        (self.began <= at).then_some(self.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_take_their_share_of_the_time() {
        let mut stalls = Stalls {
            every_s: 5.0,
            least: Duration::from_ms(300),
            spread: Duration::from_ms(700),
            stream: Stream::named(1, "stalls"),
            began: Time::ZERO,
            ends: Time::ZERO,
        };
        stalls.draw();
        let n = 2_000_000u64;
        let (mut stalled, mut count, mut last) = (0u64, 0u64, Time::ZERO);
        for i in 0..n {
            let at = Time::from_ms(10 * i);
            if let Some(end) = stalls.end_at(at) {
                assert!(end > at && end.since(at) <= Duration::from_ms(1000));
                stalled += 1;
                count += u64::from(end != last);
                last = end;
            }
        }
        // 20,000 s of cycles of 5.65 s: 3540 stalls of 0.65 s. Standard deviations 53 and, of the share, 0.0019.
        assert!(count.abs_diff(3540) < 4 * 53, "{count}");
        assert!((stalled as f64 / n as f64 - 0.65 / 5.65).abs() < 4.0 * 0.0019);
    }
}
