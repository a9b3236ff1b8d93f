//! File transfers of one size, one after another, with pauses.

use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Exchange, Needs, Opening, READ_RATE, Report, Rows, Side,
    Transport, reading,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Rate, Time};

const CARD: Card = Card {
    name: "transfers",
    title: "File transfers in sequence",
    law: "connect, send `bytes`, close; once all have arrived pause for a time uniform in [`idle_low`, \
          `idle_high`], then the next transfer on a new connection, with the flow's next congestion control \
          in turn. The time of a transfer runs from its first SYN to the arrival of its last byte",
    source: "repeated rsync downloads, 5 to 7 s apart, alternating between algorithms (CAIA Technical Report \
          110729A section III-A)",
    differs: &["no rsync exchange precedes the data"],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::whole("bytes", "B", 4_000_000, (0, 1 << 52), "Payload of each transfer."),
        ParamSpec::whole("count", "", 0, (0, 1 << 31), "How many; 0 means until the flow stops."),
        ParamSpec::number("idle_low", "s", 5.0, (0.0, 86_400.0), "Shortest pause."),
        ParamSpec::number("idle_high", "s", 7.0, (0.0, 86_400.0), "Longest pause."),
        READ_RATE,
    ],
};

/// Transfers in sequence.
#[derive(Clone, Debug)]
pub struct Transfers {
    bytes: Bytes,
    // Zero: until the flow stops.
    count: u64,
    idle_s: (f64, f64),
    connections: Slots<()>,
    current: Option<Connection>,
    turn: u32,
    is_on: bool,
    pauses: Stream,
    read_rate: Option<Rate>,
}

impl Registered for Transfers {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Files, one after another";

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let idle_s = (given.number("idle_low"), given.number("idle_high"));
        if idle_s.0 > idle_s.1 {
            return Err(given.refuse("idle_low", "above idle_high", "Give at most idle_high"));
        }
        Ok(Transfers {
            bytes: given.whole("bytes"),
            count: given.whole("count"),
            idle_s,
            connections: Slots::default(),
            current: None,
            turn: 0,
            is_on: false,
            pauses: Stream::named(seed, "pauses"),
            read_rate: reading(given.whole(READ_RATE.name)),
        })
    }
}

impl Transfers {
    fn begin(&mut self, actions: &mut Actions) {
        if !self.is_on || self.current.is_some() || self.count > 0 && u64::from(self.turn) >= self.count {
            return;
        }
        let (bytes, turn) = (self.bytes, self.turn);
        let connection = self.connections.keep(());
        self.current = Some(connection);
        self.turn += 1;
        actions.push(Action::Connect(Opening { connection, turn, path: 0 }));
        actions.report(Report::Asked { connection, kind: Exchange::Transfer, bytes, turn });
        actions.push(Action::Write(connection, bytes));
        actions.push(Action::Close { connection, discard: false });
    }

    fn finish(&mut self, connection: Connection, is_answered: bool, now: Time, actions: &mut Actions) {
        if self.current == Some(connection) {
            self.current = None;
            if is_answered {
                actions.report(Report::Answered(connection));
            }
            let (low, high) = self.idle_s;
            let pause = low + (high - low) * self.pauses.uniform();
            actions.push(Action::WakeAt(now + Duration::from_secs_f64(pause)));
        }
    }
}

impl Application for Transfers {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                self.is_on = true;
                self.begin(actions);
            }
            (Side::Client, Cue::Wake) => self.begin(actions),
            (Side::Client, Cue::Stop) => {
                self.is_on = false;
                if let Some(connection) = self.current.take() {
                    actions.push(Action::Close { connection, discard: true });
                }
            }
            (Side::Server, Cue::PeerFinished(connection)) => {
                // The close follows the last byte; an empty file consists only of the close.
                self.finish(connection, true, now, actions);
                actions.push(Action::Close { connection, discard: false });
            }
            (Side::Client, Cue::Failed(connection)) => self.finish(connection, false, now, actions),
            (Side::Client, Cue::Released(connection)) => {
                self.connections.release(connection);
            }
            _ => {}
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn rows(&self) -> Rows {
        Rows::Requests
    }

    fn needs(&self) -> Needs {
        Needs { read_rate: self.read_rate, ..Needs::default() }
    }
}
