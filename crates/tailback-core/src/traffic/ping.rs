//! Echo requests at equal intervals, and their replies.

use super::registry::Registered;
use super::{Action, Actions, Application, Cue, Needs, Report, Rows, Side, Traits, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "ping",
    title: "Ping",
    law: "a request of `packet_bytes` every `interval`; the other end returns a reply of the same size at \
          once",
    source: "ping's default of 56 B payload + ICMP 8 + IPv4 20 = 84 B; two or five a second in CAIA \
          Technical Report 110729A",
    differs: &["the answering host takes no time"],
    live_twin: Some("ping"),
    params: &[
        ParamSpec::number("interval", "ms", 500.0, (0.01, 3_600_000.0), "Time between requests."),
        ParamSpec::whole("packet_bytes", "B", 84, (28, 65_535), "IP length of request and reply."),
    ],
};

/// Echo requests.
#[derive(Clone, Debug)]
pub struct Ping {
    interval: Duration,
    packet_bytes: u32,
    next: Time,
    sent: u64,
}

impl Registered for Ping {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Ping";
    const TRAITS: Traits = Traits::ECHO;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Ping {
            interval: Duration::from_secs_f64(given.number("interval") / 1e3),
            packet_bytes: given.whole("packet_bytes") as u32,
            next: Time::NEVER,
            sent: 0,
        })
    }
}

impl Application for Ping {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => self.next = now,
            (Side::Client, Cue::Stop) => self.next = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            (Side::Client, Cue::Datagram { number, .. }) => return actions.report(Report::Ponged(number)),
            (Side::Server, Cue::Datagram { number, bytes, .. }) => {
                return actions.push(Action::Reply { number, bytes });
            }
            _ => return,
        }
        while self.next <= now {
            actions.report(Report::Pinged(self.sent));
            actions.push(Action::Datagram { bytes: self.packet_bytes, stream: 0 });
            self.sent += 1;
            self.next += self.interval;
        }
        if self.next != Time::NEVER {
            actions.push(Action::WakeAt(self.next));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn rows(&self) -> Rows {
        Rows::Echoes
    }

    fn needs(&self) -> Needs {
        let rate = 8.0 * f64::from(self.packet_bytes) / self.interval.as_secs_f64();
        Needs { datagrams: true, load_bps: [rate; 2], ..Needs::default() }
    }
}
