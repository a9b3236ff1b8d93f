//! A bulk transfer: one connection that always has data, until a time or a number of bytes.

use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Needs, Opening, READ_RATE, Side, Transport, reading,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Rate, Time};

const CARD: Card = Card {
    name: "bulk",
    title: "Bulk transfer",
    law: "writes without limit (or `bytes`), then closes. At the flow's stop time whatever has not been sent \
          is dropped and the connection closes; each further start opens a new one",
    source: "iperf's TCP test; the greedy source of every study this project reproduces",
    differs: &[],
    live_twin: Some("tailback socket application"),
    params: &[BYTES, READ_RATE],
};

/// Parameter: bytes to transfer; zero: until the flow stops.
pub(super) const BYTES: ParamSpec =
    ParamSpec::whole("bytes", "B", 0, (0, 1 << 52), "Payload to transfer; 0 means until the flow stops.");

/// A bulk transfer.
#[derive(Clone, Debug)]
pub struct Bulk {
    bytes: Bytes,
    // The last connection may still be closing at the next start.
    connections: Slots<()>,
    current: Option<Connection>,
    read_rate: Option<Rate>,
}

impl Bulk {
    pub(super) fn of(bytes: Bytes) -> Self {
        Bulk { bytes, connections: Slots::default(), current: None, read_rate: None }
    }
}

impl Registered for Bulk {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Download";

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let read_rate = reading(given.whole(READ_RATE.name));
        Ok(Bulk { read_rate, ..Bulk::of(given.whole("bytes")) })
    }
}

impl Application for Bulk {
    fn step(&mut self, side: Side, cue: Cue, _now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                let connection = self.connections.keep(());
                self.current = Some(connection);
                actions.push(Action::Connect(Opening { connection, ..Opening::default() }));
                if self.bytes > 0 {
                    actions.push(Action::Write(connection, self.bytes));
                    actions.push(Action::Close { connection, discard: false });
                } else {
                    actions.push(Action::WriteForever(connection));
                }
            }
            (Side::Client, Cue::Stop) => {
                if let Some(connection) = self.current.take() {
                    actions.push(Action::Close { connection, discard: true });
                }
            }
            (Side::Client, Cue::Released(connection)) => {
                self.connections.release(connection);
                if self.current == Some(connection) {
                    self.current = None;
                }
            }
            (Side::Server, Cue::PeerFinished(connection)) => {
                actions.push(Action::Close { connection, discard: false });
            }
            _ => {}
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn needs(&self) -> Needs {
        Needs { read_rate: self.read_rate, ..Needs::default() }
    }
}
