//! Probes of a responsiveness test: short HTTPS fetches, each on a connection of its own.

use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Connection, Cue, Exchange, Opening, Report, Rows, Side, Traits, Transport,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "rpm-probe",
    title: "Probes of a responsiveness test",
    law: "every `interval` the client opens a connection and fetches a small object over it: TCP's handshake, TLS's \
          (`hello_bytes` up, `certificate_bytes` down), then `request_bytes` up and `response_bytes` down. Each of the \
          three is one exchange of the requests table, of kind `handshake`, `tls` and `probe`. The flow's `from` is the \
          client",
    source: "draft-ietf-ippm-responsiveness-09 section 4.3: foreign probes, tcp_f, tls_f and http_f, about 5000 B each",
    differs: &[
        "TLS is its bytes and its one round trip (TLS 1.3): neither end takes time to compute",
        "names are not resolved",
    ],
    live_twin: Some("networkQuality (macOS), goresponsiveness"),
    params: &[
        ParamSpec::number("interval", "ms", 100.0, (1.0, 3_600_000.0), "Time between probes."),
        ParamSpec::flag("tls", true, "A TLS handshake precedes the request."),
        ParamSpec::whole("hello_bytes", "B", 517, (1, 1 << 20), "What the client sends in TLS's handshake."),
        ParamSpec::whole(
            "certificate_bytes",
            "B",
            3000,
            (1, 1 << 20),
            "What the server answers there: within the initial window it is one round trip.",
        ),
        ParamSpec::whole("request_bytes", "B", 300, (1, 1 << 20), "The request."),
        ParamSpec::whole("response_bytes", "B", 300, (1, 1 << 20), "Headers, and one byte of object."),
    ],
};

/// Stage of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Handshake,
    Tls,
    Fetch,
    Over,
}

/// The prober and its server.
#[derive(Clone, Debug)]
pub struct RpmProbe {
    interval: Duration,
    tls: bool,
    hello: Bytes,
    certificate: Bytes,
    request: Bytes,
    response: Bytes,
    probes: Slots<Stage>,
    next: Time,
}

impl Registered for RpmProbe {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Responsiveness probes";
    const TRAITS: Traits = Traits::ASKS;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(RpmProbe {
            interval: Duration::from_secs_f64(given.number("interval") / 1e3),
            tls: given.flag("tls"),
            hello: given.whole("hello_bytes"),
            certificate: given.whole("certificate_bytes"),
            request: given.whole("request_bytes"),
            response: given.whole("response_bytes"),
            probes: Slots::default(),
            next: Time::NEVER,
        })
    }
}

impl RpmProbe {
    fn probe(&mut self, actions: &mut Actions) {
        let connection = self.probes.keep(Stage::Handshake);
        actions.push(Action::Connect(Opening { connection, ..Opening::default() }));
        actions.report(Report::Asked { connection, kind: Exchange::Handshake, bytes: 0, turn: 0 });
    }

    /// Begins the next step of a probe after a response.
    fn advance(&mut self, connection: Connection, actions: &mut Actions) {
        let before = if self.tls { [self.hello, self.certificate] } else { [0, 0] };
        let tls = self.tls;
        let Some(stage) = self.probes.get_mut(connection) else { return };
        if *stage == Stage::Over {
            return;
        }
        actions.report(Report::Answered(connection));
        *stage = match *stage {
            Stage::Handshake if tls => Stage::Tls,
            Stage::Handshake | Stage::Tls => Stage::Fetch,
            Stage::Fetch | Stage::Over => Stage::Over,
        };
        let (kind, bytes, up, down) = match *stage {
            Stage::Tls => (Exchange::Tls, self.certificate, self.hello, self.certificate),
            Stage::Fetch => (Exchange::Probe, self.response, self.request, before[1] + self.response),
            _ => return actions.push(Action::Close { connection, discard: false }),
        };
        actions.report(Report::Asked { connection, kind, bytes, turn: 0 });
        actions.push(Action::Write(connection, up));
        actions.push(Action::TellReceived(connection, down));
    }
}

impl Application for RpmProbe {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => self.next = now,
            (Side::Client, Cue::Stop) => self.next = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            (Side::Client, Cue::Established(connection) | Cue::Received(connection, _)) => {
                return self.advance(connection, actions);
            }
            (Side::Client, Cue::Released(connection)) => {
                self.probes.release(connection);
                return;
            }
            (Side::Server, Cue::Established(connection)) => {
                let first = if self.tls { self.hello } else { self.request };
                return actions.push(Action::TellReceived(connection, first));
            }
            (Side::Server, Cue::Received(connection, bytes)) => {
                if self.tls && bytes < self.hello + self.request {
                    actions.push(Action::Write(connection, self.certificate));
                    actions.push(Action::TellReceived(connection, self.hello + self.request));
                } else {
                    actions.push(Action::Write(connection, self.response));
                }
                return;
            }
            (Side::Server, Cue::PeerFinished(connection)) => {
                return actions.push(Action::Close { connection, discard: false });
            }
            _ => return,
        }
        while self.next <= now {
            self.probe(actions);
            self.next += self.interval;
        }
        if self.next != Time::NEVER {
            actions.push(Action::WakeAt(self.next));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn rows(&self) -> Rows {
        Rows::Requests
    }
}
