//! Web background: sessions that start independently of the network's state, each a connection with one request and one
//! response.

use super::packmime::{PackMime, Session};
use super::registry::Registered;
use super::slots::Slots;
use super::{
    Action, Actions, Application, Cue, Exchange, Needs, Opening, Report, Rows, Side, Traits, Transport,
};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Duration, Time};

const CARD: Card = Card {
    name: "web",
    title: "Web background",
    law: "sessions begin and are sized by PackMime-HTTP at `rate` a second; the client sends the request, \
          the server thinks, sends the response and closes, the client closes after it. The flow's `from` is \
          the clients' side: responses travel against the flow's direction",
    source: "Cao, Cleveland, Gao, Jeffay, Smith and Weigle, INFOCOM 2004; ns-2 `PackMimeHTTP`",
    differs: &[
        "size curves thinned to within 1 B or 2 %",
        "memory reaches 256 lags back",
        "no persistent connections",
        "`hosts` pairs of client and server, each with two access delays drawn uniformly once, stand for a \
              cloud of nodes; both delays are spent before the first link in each direction, so round trips \
              are right and the bottleneck sees the same mixture. Of a session whose turn comes while `most` \
              are alive nothing is sent; it counts as failed",
    ],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::number("rate", "1/s", 100.0, (0.1, 1_000_000.0), "Sessions begun a second."),
        ParamSpec::flag("correlated", true, "Whether gaps and requests have long memory."),
        ParamSpec::flag("server_delay", true, "Whether the server thinks before it answers."),
        ParamSpec::whole("largest", "B", 0, (0, 1 << 40), "Responses are cut to this; 0 means never."),
        ParamSpec::whole("hosts", "", 0, (0, 1000), "Pairs of hosts with access delays of their own."),
        ParamSpec::number("access_low", "ms", 5.0, (0.0, 10_000.0), "Shortest delay of an access, one way."),
        ParamSpec::number("access_high", "ms", 15.0, (0.0, 10_000.0), "Longest delay of an access, one way."),
        ParamSpec::whole("most", "", 100_000, (1, 1_000_000), "Sessions alive at once, at most."),
    ],
};

/// State of a session.
#[derive(Clone, Copy, Debug)]
struct Visit {
    session: Session,
    is_answered: bool,
}

/// The web background.
#[derive(Clone, Debug)]
pub struct Web {
    rate: f64,
    cap: Option<Bytes>,
    thinks: bool,
    most: usize,
    source: PackMime,
    visits: Slots<Visit>,
    next: Time,
    opened: u32,
    paths: Vec<Duration>,
    choice: Stream,
}

impl Registered for Web {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Web crowd";
    const TRAITS: Traits = Traits::ASKS;

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let (low, high) = (given.number("access_low"), given.number("access_high"));
        if low > high {
            return Err(given.refuse("access_low", "above access_high", "Give at most access_high"));
        }
        let cap = Some(given.whole("largest")).filter(|bytes| *bytes > 0);
        let mut places = Stream::named(seed, "hosts");
        let mut access = || Duration::from_secs_f64((low + (high - low) * places.uniform()) / 1e3);
        let rate = given.number("rate");
        Ok(Web {
            rate,
            cap,
            thinks: given.flag("server_delay"),
            most: given.whole("most") as usize,
            source: PackMime::new(rate, given.flag("correlated"), cap, seed),
            visits: Slots::default(),
            next: Time::NEVER,
            opened: 0,
            paths: (0..given.whole("hosts")).map(|_| access() + access()).collect(),
            choice: Stream::named(seed, "choice"),
        })
    }
}

impl Web {
    fn open(&mut self, actions: &mut Actions) {
        let session = self.source.session();
        let turn = self.opened;
        self.opened = self.opened.wrapping_add(1);
        let path = if self.paths.is_empty() { 0 } else { self.choice.below(self.paths.len() as u64) as u32 };
        if self.visits.len() >= self.most {
            return actions.push(Action::TurnAway);
        }
        let connection = self.visits.keep(Visit { session, is_answered: false });
        actions.push(Action::Connect(Opening { connection, turn, path }));
        let kind = Exchange::Web;
        actions.report(Report::Asked { connection, kind, bytes: session.response, turn });
        actions.push(Action::Write(connection, session.request));
        if session.response > 0 {
            actions.push(Action::TellReceived(connection, session.response));
        }
    }

    fn respond(&mut self, connection: u32, actions: &mut Actions) {
        let Some(visit) = self.visits.get_mut(connection) else { return };
        actions.push(Action::Write(connection, visit.session.response));
        actions.push(Action::Close { connection, discard: false });
    }

    fn answered(&mut self, connection: u32, actions: &mut Actions) {
        let Some(visit) = self.visits.get_mut(connection) else { return };
        if !std::mem::replace(&mut visit.is_answered, true) {
            actions.report(Report::Answered(connection));
        }
    }
}

impl Application for Web {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => self.next = now + self.source.gap(),
            (Side::Client, Cue::Stop) => self.next = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            (Side::Server, Cue::Established(connection)) => {
                let Some(visit) = self.visits.get_mut(connection) else { return };
                return actions.push(Action::TellReceived(connection, visit.session.request));
            }
            (Side::Server, Cue::Received(connection, _)) => {
                let thinks =
                    self.visits.get_mut(connection).map_or(Duration::ZERO, |visit| visit.session.thinks);
                if self.thinks && !thinks.is_zero() {
                    return actions.push(Action::CallAt(connection, now + thinks));
                }
                return self.respond(connection, actions);
            }
            (Side::Server, Cue::Due(connection)) => return self.respond(connection, actions),
            (Side::Client, Cue::Received(connection, _)) => return self.answered(connection, actions),
            (Side::Client, Cue::PeerFinished(connection)) => {
                // For an empty response, the end of the stream is the only sign.
                self.answered(connection, actions);
                return actions.push(Action::Close { connection, discard: false });
            }
            (Side::Client, Cue::Released(connection)) => {
                self.visits.release(connection);
                return;
            }
            _ => return,
        }
        while self.next <= now {
            self.open(actions);
            self.next += self.source.gap();
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

    fn needs(&self) -> Needs {
        let (request, response) = PackMime::means(self.rate, self.cap);
        Needs {
            paths: self.paths.clone(),
            crowd: true,
            load_bps: [request, response].map(|bytes| 8.0 * bytes * self.rate),
            ..Needs::default()
        }
    }
}
