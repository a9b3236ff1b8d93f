//! A bulk transfer: one connection that always has data, until a time or a number of bytes.
//!
//! Law: writes without limit (or `bytes`), then closes. At the flow's stop time whatever has not been sent is
//! dropped and the connection closes.
//! Source: iperf's TCP test; the greedy source of every study this project reproduces.

use super::registry::Registered;
use super::{Application, Cue, Say, Side, Transport, Wish};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

/// A bulk transfer.
#[derive(Clone, Debug)]
pub struct Bulk {
    // Zero: until the flow stops.
    bytes: Bytes,
}

impl Registered for Bulk {
    const CARD: Card = Card {
        name: "bulk",
        title: "Bulk transfer",
        law: "writes without limit, or `bytes`, then closes",
        source: "iperf TCP test",
        differs: &[],
        live_twin: Some("tailback socket application"),
        params: &[ParamSpec::whole(
            "bytes",
            "B",
            0,
            (0, 1 << 52),
            "Payload to transfer; 0 means until the flow stops.",
        )],
    };

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Bulk { bytes: given.whole("bytes") })
    }
}

impl Application for Bulk {
    fn step(&mut self, side: Side, cue: Cue, _now: Time, say: &mut Say) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                say.want(Wish::Connect);
                if self.bytes > 0 {
                    say.want(Wish::Write(self.bytes));
                    say.want(Wish::Close { discard: false });
                } else {
                    say.want(Wish::WriteForever);
                }
            }
            (Side::Client, Cue::Stop) => say.want(Wish::Close { discard: true }),
            (Side::Server, Cue::PeerFinished) => say.want(Wish::Close { discard: false }),
            _ => {}
        }
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }
}
