//! Web probe: a client that fetches objects of doubling size one after another and times each.

use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Exchange, Opening, Report, Rows, Side, Traits, Transport,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "web-probe",
    title: "Web probe",
    law: "connect, request, response of `smallest` bytes, close; then twice as much, up to `largest`, and \
          again from the beginning; `gap` between the end of one fetch and the next. The response time runs \
          from the connection's first SYN to the last byte. The flow's `from` is the client: objects travel \
          against the flow's direction",
    source: "the probe of studies of high-speed TCP's effect on web users: 1, 2, 4 … 128 KB in turn",
    differs: &["1 KB is 1024 B; a connection for every object (the source does not say)"],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::whole("smallest", "B", 1024, (0, 1 << 40), "First object."),
        ParamSpec::whole("largest", "B", 131_072, (0, 1 << 40), "Last object, at most."),
        ParamSpec::whole("request_bytes", "B", 300, (1, 1 << 30), "Payload of a request."),
        ParamSpec::number("gap", "ms", 0.0, (0.0, 3_600_000.0), "From the end of one fetch to the next."),
    ],
};

/// The client and its server.
#[derive(Clone, Debug)]
pub struct WebProbe {
    smallest: Bytes,
    largest: Bytes,
    request: Bytes,
    gap: Duration,
    connections: Slots<Bytes>,
    size: Bytes,
    turn: u32,
    current: Option<Connection>,
    is_on: bool,
}

impl Registered for WebProbe {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Web reader";
    const TRAITS: Traits = Traits::ASKS;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let (smallest, largest) = (given.whole("smallest"), given.whole("largest"));
        if smallest > largest {
            return Err(given.refuse("smallest", "larger than largest", "Give at most largest"));
        }
        Ok(WebProbe {
            smallest,
            largest,
            request: given.whole("request_bytes"),
            gap: Duration::from_secs_f64(given.number("gap") / 1e3),
            connections: Slots::default(),
            size: smallest,
            turn: 0,
            current: None,
            is_on: false,
        })
    }
}

impl WebProbe {
    fn fetch(&mut self, actions: &mut Actions) {
        let (bytes, turn) = (self.size, self.turn);
        let connection = self.connections.keep(bytes);
        self.current = Some(connection);
        self.turn = self.turn.wrapping_add(1);
        self.size = (2 * self.size).max(1);
        if self.size > self.largest {
            self.size = self.smallest;
        }
        actions.push(Action::Connect(Opening { connection, turn, path: 0 }));
        actions.report(Report::Asked { connection, kind: Exchange::Probe, bytes, turn });
        actions.push(Action::Write(connection, self.request));
        if bytes > 0 {
            actions.push(Action::TellReceived(connection, bytes));
        }
    }

    fn finish(&mut self, connection: Connection, is_answered: bool, now: Time, actions: &mut Actions) {
        if self.current == Some(connection) {
            self.current = None;
            if is_answered {
                actions.report(Report::Answered(connection));
            }
            // Goes through the schedule even without a gap, so that a refused connection cannot cause recursion.
            actions.push(Action::WakeAt(now + self.gap));
        }
    }
}

impl Application for WebProbe {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                self.is_on = true;
                self.size = self.smallest;
                if self.current.is_none() {
                    self.fetch(actions);
                }
            }
            (Side::Client, Cue::Stop) => self.is_on = false,
            (Side::Client, Cue::Wake) if self.is_on && self.current.is_none() => self.fetch(actions),
            (Side::Server, Cue::Established(connection)) => {
                actions.push(Action::TellReceived(connection, self.request));
            }
            (Side::Server, Cue::Received(connection, _)) => {
                let bytes = self.connections.get_mut(connection).map_or(0, |bytes| *bytes);
                actions.push(Action::Write(connection, bytes));
                actions.push(Action::Close { connection, discard: false });
            }
            (Side::Client, Cue::Received(connection, _)) => self.finish(connection, true, now, actions),
            (Side::Client, Cue::PeerFinished(connection)) => {
                // For an empty object, the end of the stream is the only sign.
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
}
