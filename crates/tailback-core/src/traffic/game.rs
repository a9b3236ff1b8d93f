//! A game's state updates, one way.

use super::registry::Registered;
use super::{Action, Actions, Application, Cue, Needs, Side, Traits, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "game",
    title: "State updates of a game, one way",
    law: "update n leaves n/rate after the start, in a packet of its own, whatever the network does. The player's inputs \
          and the server's answers are a flow each: `two_way = true`, or two flows where sizes differ. An update is late \
          if it takes more than 50 ms (100 ms) or is lost",
    source: "updates at a fixed tick, of which each is overtaken by the next; 100 ms is where first-person play \
             suffers (Claypool and Claypool, CACM 49(11), 2006). 60 Hz and 150 B are chosen",
    differs: &[
        "every update has the same size: sizes of real ones follow the scene",
        "no dead reckoning: what a late update does to the picture is not judged",
    ],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::whole("rate", "1/s", 60, (1, 10_000), "Updates a second."),
        ParamSpec::whole("packet_bytes", "B", 150, (28, 65_535), "IP length of an update."),
    ],
};

const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Updates at a fixed rate.
#[derive(Clone, Debug)]
pub struct Game {
    rate: u64,
    packet_bytes: u32,
    start: Time,
    sent: u64,
}

impl Registered for Game {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Game";
    const TRAITS: Traits = Traits::UPDATES;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Game {
            rate: given.whole("rate"),
            packet_bytes: given.whole("packet_bytes") as u32,
            start: Time::NEVER,
            sent: 0,
        })
    }
}

impl Game {
    fn next(&self) -> Time {
        if self.start == Time::NEVER {
            return Time::NEVER;
        }
        // Computed from the start, so that rounding errors do not accumulate.
        self.start + Duration::from_ps((u128::from(self.sent) * PS_PER_SECOND / u128::from(self.rate)) as u64)
    }
}

impl Application for Game {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => (self.start, self.sent) = (now, 0),
            (Side::Client, Cue::Stop) => self.start = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            _ => return,
        }
        while self.next() <= now {
            actions.push(Action::Datagram { bytes: self.packet_bytes, stream: 0 });
            self.sent += 1;
        }
        if self.next() != Time::NEVER {
            actions.push(Action::WakeAt(self.next()));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn needs(&self) -> Needs {
        Needs { load_bps: [8.0 * f64::from(self.packet_bytes) * self.rate as f64, 0.0], ..Needs::default() }
    }
}
