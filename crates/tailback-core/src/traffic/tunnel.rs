//! The outer connection of a tunnel: links with the medium `tunnel` send their packets in its stream.

use super::registry::Registered;
use super::{Action, Actions, Application, Connection, Cue, Opening, Side, Traits, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "tunnel",
    title: "Outer connection of a tunnel",
    law: "connects at the flow's start and carries packets both ways until it stops; then whatever is in the \
          stream still arrives, and what comes later waits in the queues of the links until there is a \
          connection again. A handshake that failed is tried again after `retry_s`",
    source: "VTun's client with `persist`, over TCP with TCP_NODELAY",
    differs: &["A link of medium tunnel says what is left out"],
    live_twin: None,
    params: &[ParamSpec::number(
        "retry_s",
        "s",
        5.0,
        (0.001, 86_400.0),
        "From a failed handshake to the next.",
    )],
};

/// The outer connection.
#[derive(Clone, Debug)]
pub struct Tunnel {
    retry: Duration,
    is_wanted: bool,
    /// Whether the connection's number is still in use.
    is_taken: bool,
    has_failed: bool,
}

const ONLY: Connection = 0;

impl Registered for Tunnel {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Tunnel";
    const TRAITS: Traits = Traits::CARRIER;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let retry = Duration::from_secs_f64(given.number("retry_s"));
        Ok(Tunnel { retry, is_wanted: false, is_taken: false, has_failed: false })
    }
}

impl Tunnel {
    fn connect(&mut self, actions: &mut Actions) {
        if self.is_wanted && !self.is_taken {
            self.is_taken = true;
            actions.push(Action::Connect(Opening { connection: ONLY, ..Opening::default() }));
        }
    }
}

impl Application for Tunnel {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                self.is_wanted = true;
                self.connect(actions);
            }
            (_, Cue::Established(_)) => actions.push(Action::Carry(ONLY)),
            (Side::Client, Cue::Stop) => {
                self.is_wanted = false;
                actions.push(Action::Close { connection: ONLY, discard: false });
            }
            (Side::Server, Cue::PeerFinished(_)) => {
                actions.push(Action::Close { connection: ONLY, discard: false });
            }
            (Side::Client, Cue::Failed(_)) => self.has_failed = true,
            (Side::Client, Cue::Released(_)) => {
                self.is_taken = false;
                match std::mem::take(&mut self.has_failed) {
                    true => actions.push(Action::WakeAt(now + self.retry)),
                    false => self.connect(actions),
                }
            }
            (Side::Client, Cue::Wake) => self.connect(actions),
            _ => {}
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }
}
