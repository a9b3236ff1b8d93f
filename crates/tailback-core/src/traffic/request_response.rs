//! Requests and responses on one open connection, like remote procedure calls.

use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Exchange, Opening, Report, Rows, Side, Traits, Transport,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "request-response",
    title: "Requests and responses",
    law: "on one connection the client sends `request_bytes`; the server answers `server_delay` later with \
          `response_bytes`; the client asks again `think` after the last byte. The response time runs from \
          the request's first byte written to the response's last byte received. The flow's `from` is the \
          client",
    source: "netperf's TCP_RR test",
    differs: &[],
    live_twin: Some("netperf TCP_RR"),
    params: &[
        ParamSpec::whole("request_bytes", "B", 100, (1, 1 << 40), "Payload of a request."),
        ParamSpec::whole("response_bytes", "B", 1000, (1, 1 << 40), "Payload of a response."),
        ParamSpec::number("think", "ms", 0.0, (0.0, 3_600_000.0), "From a response to the next request."),
        ParamSpec::number("server_delay", "ms", 0.0, (0.0, 3_600_000.0), "From a request to its response."),
        ParamSpec::whole("count", "", 0, (0, 1 << 31), "How many; 0 means until the flow stops."),
    ],
};

/// A client and a server that alternate.
#[derive(Clone, Debug)]
pub struct RequestResponse {
    request: Bytes,
    response: Bytes,
    think: Duration,
    server_delay: Duration,
    // Zero: until the flow stops.
    count: u64,
    connections: Slots<()>,
    current: Option<Connection>,
    asked: u64,
    answered: u64,
}

impl Registered for RequestResponse {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Questions and answers";
    const TRAITS: Traits = Traits::ASKS;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(RequestResponse {
            request: given.whole("request_bytes"),
            response: given.whole("response_bytes"),
            think: Duration::from_secs_f64(given.number("think") / 1e3),
            server_delay: Duration::from_secs_f64(given.number("server_delay") / 1e3),
            count: given.whole("count"),
            connections: Slots::default(),
            current: None,
            asked: 0,
            answered: 0,
        })
    }
}

impl RequestResponse {
    fn ask(&mut self, connection: Connection, actions: &mut Actions) {
        if self.count > 0 && self.asked >= self.count {
            self.current = None;
            return actions.push(Action::Close { connection, discard: false });
        }
        let kind = Exchange::Request;
        actions.report(Report::Asked { connection, kind, bytes: self.response, turn: self.asked as u32 });
        self.asked += 1;
        actions.push(Action::Write(connection, self.request));
        actions.push(Action::TellReceived(connection, self.asked * self.response));
    }

    fn answer(&mut self, connection: Connection, actions: &mut Actions) {
        self.answered += 1;
        actions.push(Action::Write(connection, self.response));
        actions.push(Action::TellReceived(connection, (self.answered + 1) * self.request));
    }
}

impl Application for RequestResponse {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                (self.asked, self.answered) = (0, 0);
                let connection = self.connections.keep(());
                self.current = Some(connection);
                actions.push(Action::Connect(Opening { connection, ..Opening::default() }));
            }
            (Side::Client, Cue::Stop) => {
                if let Some(connection) = self.current.take() {
                    actions.push(Action::Close { connection, discard: true });
                }
            }
            (Side::Client, Cue::Established(connection)) if self.current == Some(connection) => {
                self.ask(connection, actions);
            }
            (Side::Server, Cue::Established(connection)) => {
                actions.push(Action::TellReceived(connection, self.request));
            }
            (Side::Server, Cue::Received(connection, _)) if self.current == Some(connection) => {
                if self.server_delay.is_zero() {
                    self.answer(connection, actions);
                } else {
                    actions.push(Action::CallAt(connection, now + self.server_delay));
                }
            }
            (Side::Server, Cue::Due(connection)) if self.current == Some(connection) => {
                self.answer(connection, actions);
            }
            (Side::Client, Cue::Received(connection, _)) if self.current == Some(connection) => {
                actions.report(Report::Answered(connection));
                if self.think.is_zero() {
                    self.ask(connection, actions);
                } else {
                    actions.push(Action::CallAt(connection, now + self.think));
                }
            }
            (Side::Client, Cue::Due(connection)) if self.current == Some(connection) => {
                self.ask(connection, actions);
            }
            (Side::Server, Cue::PeerFinished(connection)) => {
                actions.push(Action::Close { connection, discard: false });
            }
            (Side::Client, Cue::Released(connection)) => {
                self.connections.release(connection);
                if self.current == Some(connection) {
                    self.current = None;
                }
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
