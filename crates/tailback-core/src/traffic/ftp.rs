//! FTP whose sender may have 64 packets unacknowledged: a host without window scaling.
//!
//! Law: a bulk transfer with at most `window_packets` × `packet_bytes` unacknowledged.
//! Source: ns-2 `window_` of 64 and 1000-byte packets, as in studies of existing users beside high-speed flows.
//!
//! Differs from the source: the limit is the send buffer, in bytes.

use super::bulk::{BYTES, Bulk};
use super::registry::Registered;
use super::{Application, Cue, Needs, Say, Side, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

/// FTP with a limited window.
#[derive(Clone, Debug)]
pub struct Ftp {
    bulk: Bulk,
    window_packets: Bytes,
    packet_bytes: u32,
}

impl Registered for Ftp {
    const CARD: Card = Card {
        name: "ftp",
        title: "FTP with a limited window",
        law: "a bulk transfer with at most window_packets packets unacknowledged",
        source: "ns-2 TCP agent, window_ 64, packetSize_ 1000",
        differs: &["the limit is the send buffer, in bytes"],
        live_twin: Some("tailback socket application"),
        params: &[
            BYTES,
            ParamSpec::whole(
                "window_packets",
                "packets",
                64,
                (1, 10_000_000),
                "Packets unacknowledged, at most.",
            ),
            ParamSpec::whole("packet_bytes", "B", 1000, (1, 65_000), "Payload of a packet, at most."),
        ],
    };

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Ftp {
            bulk: Bulk::of(given.whole("bytes")),
            window_packets: given.whole("window_packets"),
            packet_bytes: given.whole("packet_bytes") as u32,
        })
    }
}

impl Application for Ftp {
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
