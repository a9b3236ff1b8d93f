//! A recorded link: a list of instants at each of which one full packet could be delivered.
//!
//! Law: each opportunity carries 1504 bytes, a 1500-byte packet with the 4 bytes of a tunnel device's header. What a
//! packet leaves of an opportunity goes to the packets queued behind it; what the queue cannot use is lost. A packet
//! that arrives at an opportunity's instant has missed it. After its last instant the trace begins again, so that
//! instant is its length.
//!
//! Source: mahimahi 0.98 src/frontend/link_queue.cc (Netravali et al., "Mahimahi: accurate record-and-replay for
//! HTTP", USENIX ATC 2015); Winstein, Sivaraman and Balakrishnan, NSDI 2013 section 4.2 (traces of cellular links).
//! Live twin: mm-link.

use super::Pace;
use crate::packet::Packet;
use crate::scenario::{ScenarioError, TraceSpec};
use crate::time::{Bytes, Duration, Rate, Time};

/// What an opportunity carries, and what each packet has in addition to its IP bytes.
const OPPORTUNITY: u32 = 1504;
const HEADER: u32 = 4;
/// A trace longer than this is not in milliseconds.
const LONGEST_MS: u64 = 30 * 86_400_000;

/// A trace being replayed.
#[derive(Clone, Debug)]
pub struct Trace {
    deliveries: Vec<Duration>,
    period: Duration,
    /// Start of the round being replayed, and the next opportunity in it.
    round: Time,
    next: usize,
    /// What is left of the opportunity at `current`.
    left: u32,
    current: Time,
}

impl Trace {
    /// The trace that `spec`, found at `field`, gives.
    pub fn build(spec: &TraceSpec, field: &str) -> Result<Self, ScenarioError> {
        let refuse = |at: String, value: String, problem: &str, fix: &str| {
            let field = format!("{field}.deliveries_ms{at}");
            Err(ScenarioError { field, value, problem: problem.into(), fix: fix.into() })
        };
        let times = &spec.deliveries_ms;
        let Some(&last) = times.last() else {
            return refuse(String::new(), "[]".into(), "the trace is empty", "Give at least one instant");
        };
        if let Some(at) = (1..times.len()).find(|at| times[*at] < times[at - 1]) {
            let problem = "the trace goes back in time";
            return refuse(format!("[{at}]"), times[at].to_string(), problem, "Sort the instants");
        }
        let at = format!("[{}]", times.len() - 1);
        if last == 0 {
            return refuse(at, "0".into(), "the trace lasts no time", "Give an instant after 0");
        }
        if last > LONGEST_MS {
            return refuse(at, last.to_string(), "the trace is longer than 30 days", "Give milliseconds");
        }
        Ok(Trace {
            deliveries: times.iter().map(|ms| Duration::from_ms(*ms)).collect(),
            period: Duration::from_ms(last),
            round: Time::ZERO,
            next: 0,
            left: 0,
            current: Time::ZERO,
        })
    }

    /// Let pass what was due until `at`.
    fn skip(&mut self, at: Time) {
        self.left = 0;
        let rounds = at.since(self.round).as_ps() / self.period.as_ps();
        if rounds > 0 {
            self.round += self.period * rounds;
            self.next = 0;
        }
        let passed = at.since(self.round);
        self.next = self.next.max(self.deliveries.partition_point(|due| *due <= passed));
    }

    fn take(&mut self) {
        if self.next == self.deliveries.len() {
            self.round += self.period;
            self.next = 0;
        }
        self.current = self.round + self.deliveries[self.next];
        self.next += 1;
        self.left = OPPORTUNITY;
    }
}

impl Pace for Trace {
    fn serve(&mut self, at: Time, packet: &Packet, continues: bool) -> Time {
        if !continues {
            self.skip(at);
        }
        let mut need = packet.bytes + HEADER;
        loop {
            let used = need.min(self.left);
            (need, self.left) = (need - used, self.left - used);
            if need == 0 {
                return self.current;
            }
            self.take();
        }
    }

    fn nominal(&self) -> Rate {
        Rate::from_bytes_over(Bytes::from(OPPORTUNITY) * self.deliveries.len() as u64, self.period)
    }
}
