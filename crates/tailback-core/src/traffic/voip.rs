//! Phone calls: numbered one-way datagrams at a constant rate.

use super::registry::Registered;
use super::{Action, Actions, Application, Cue, Needs, Side, Traits, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "voip",
    title: "G.711 calls, one way",
    law: "each call sends one packet of `packet_bytes` every `interval`, from start to stop. The first call \
          begins at the start, the others at random instants of the first interval",
    source: "G.711 with 20 ms framing: 160 B of speech + RTP 12 + UDP 8 + IPv4 20 = 200 B, 80 kbit/s at the \
          IP layer (CAIA Technical Report 080818A section IV-A)",
    differs: &["no silence suppression"],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::number("interval", "ms", 20.0, (0.001, 60_000.0), "Time between packets."),
        ParamSpec::whole("packet_bytes", "B", 200, (28, 65_535), "IP length of each packet."),
        CALLS,
    ],
};

/// Parameter: number of calls in the flow.
pub(super) const CALLS: ParamSpec =
    ParamSpec::whole("calls", "", 1, (1, 10_000), "Calls side by side, each a stream of its own.");

/// Constant-rate calls.
#[derive(Clone, Debug)]
pub struct Voip {
    interval: Duration,
    packet_bytes: u32,
    // When each call sends within the interval, in order of time, with the call's number.
    phases: Vec<(Duration, u16)>,
    // The next packet: start of its interval, and index of its call.
    began: Time,
    turn: usize,
}

impl Registered for Voip {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Call";
    const TRAITS: Traits = Traits::VOICE;

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let interval = Duration::from_secs_f64(given.number("interval") / 1e3);
        let mut stream = Stream::named(seed, "phases");
        let mut phases = vec![(Duration::ZERO, 0)];
        phases.extend(
            (1..given.whole("calls"))
                .map(|call| (Duration::from_ps(stream.below(interval.as_ps().max(1))), call as u16)),
        );
        phases.sort();
        Ok(Voip {
            interval,
            packet_bytes: given.whole("packet_bytes") as u32,
            phases,
            began: Time::NEVER,
            turn: 0,
        })
    }
}

impl Voip {
    fn next(&self) -> Time {
        if self.began == Time::NEVER { Time::NEVER } else { self.began + self.phases[self.turn].0 }
    }
}

impl Application for Voip {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => (self.began, self.turn) = (now, 0),
            (Side::Client, Cue::Stop) => self.began = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            _ => return,
        }
        // Due time, not wake time: a late host still sends every packet of the schedule.
        while self.next() <= now {
            actions.push(Action::Datagram { bytes: self.packet_bytes, stream: self.phases[self.turn].1 });
            self.turn += 1;
            if self.turn == self.phases.len() {
                self.turn = 0;
                self.began += self.interval;
            }
        }
        if self.next() != Time::NEVER {
            actions.push(Action::WakeAt(self.next()));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn needs(&self) -> Needs {
        let rate = 8.0 * f64::from(self.packet_bytes) / self.interval.as_secs_f64();
        Needs { load_bps: [rate * self.phases.len() as f64, 0.0], ..Needs::default() }
    }
}
