//! FTP between hosts with window scaling and large buffers: only the congestion window limits it.
//!
//! Law: a bulk transfer with buffers for `window_packets` × `packet_bytes`.
//! Source: ns-2 `window_` of 100,000 and 1000-byte packets.
//!
//! Differs from the source: the limit is the send buffer, in bytes.

use super::bulk::{BYTES, Bulk};
use super::registry::Registered;
use super::{Application, Cue, Needs, Say, Side, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

/// FTP without a limit.
#[derive(Clone, Debug)]
pub struct Hftp {
    bulk: Bulk,
    window_packets: Bytes,
    packet_bytes: u32,
}

impl Registered for Hftp {
    const CARD: Card = Card {
        name: "hftp",
        title: "FTP without a limit",
        law: "a bulk transfer whose buffers never limit it",
        source: "ns-2 TCP agent, window_ 100000, packetSize_ 1000",
        differs: &["the limit is the send buffer, in bytes"],
        live_twin: Some("tailback socket application"),
        params: &[
            BYTES,
            ParamSpec::whole(
                "window_packets",
                "packets",
                100000,
                (1, 10_000_000),
                "Packets unacknowledged, at most.",
            ),
            ParamSpec::whole("packet_bytes", "B", 1000, (1, 65_000), "Payload of a packet, at most."),
        ],
    };

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Hftp {
            bulk: Bulk::of(given.whole("bytes")),
            window_packets: given.whole("window_packets"),
            packet_bytes: given.whole("packet_bytes") as u32,
        })
    }
}

impl Application for Hftp {
    fn step(&mut self, side: Side, cue: Cue, now: Time, say: &mut Say) {
        self.bulk.step(side, cue, now, say);
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn needs(&self) -> Needs {
        Needs {
            segment: Some(self.packet_bytes),
            window: Some(self.window_packets * u64::from(self.packet_bytes)),
            ..Needs::default()
        }
    }
}
