//! FTP as in ns-2: a bulk transfer whose window is limited to a number of packets.

use super::bulk::{BYTES, Bulk};
use super::registry::Registered;
use super::{Actions, Application, Cue, Needs, Side, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Bytes, Time};

/// FTP with a default window of `PACKETS`.
#[derive(Clone, Debug)]
pub struct Windowed<const PACKETS: u64> {
    bulk: Bulk,
    window_packets: Bytes,
    packet_bytes: u32,
}

/// FTP with a limited window.
pub type Ftp = Windowed<64>;
/// FTP between hosts with window scaling and large buffers.
pub type Hftp = Windowed<100_000>;

const fn window(packets: u64) -> ParamSpec {
    let doc = "Packets unacknowledged, at most.";
    ParamSpec::whole("window_packets", "packets", packets, (1, 10_000_000), doc)
}

const PACKET_BYTES: ParamSpec =
    ParamSpec::whole("packet_bytes", "B", 1000, (1, 65_000), "Payload of a packet, at most.");

const FTP: Card = Card {
    name: "ftp",
    title: "FTP with a limited window",
    law: "a bulk transfer with at most `window_packets` × `packet_bytes` unacknowledged: 64 packets, a host without \
          window scaling",
    source: "ns-2's TCP agent, `window_` 64, `packetSize_` 1000",
    differs: &["the limit is the send buffer, in bytes"],
    live_twin: Some("tailback socket application"),
    params: &[BYTES, window(64), PACKET_BYTES],
};

const HFTP: Card = Card {
    name: "hftp",
    title: "FTP without a limit",
    law: "a bulk transfer with enough packets unacknowledged that only the congestion window limits it",
    source: "ns-2's TCP agent, `window_` 100,000, `packetSize_` 1000, as in studies of existing users beside \
          high-speed flows",
    params: &[BYTES, window(100_000), PACKET_BYTES],
    ..FTP
};

impl<const PACKETS: u64> Registered for Windowed<PACKETS> {
    const CARD: Card = if PACKETS == 64 { FTP } else { HFTP };
    const PLAIN: &'static str =
        if PACKETS == 64 { "Old download (64 packets)" } else { "Download without limit" };

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Windowed {
            bulk: Bulk::of(given.whole("bytes")),
            window_packets: given.whole("window_packets"),
            packet_bytes: given.whole("packet_bytes") as u32,
        })
    }
}

impl<const PACKETS: u64> Application for Windowed<PACKETS> {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        self.bulk.step(side, cue, now, actions);
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
