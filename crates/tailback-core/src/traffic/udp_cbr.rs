//! Datagrams at a constant rate.

use super::registry::Registered;
use super::{Action, Actions, Application, Cue, Needs, Side, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

const CARD: Card = Card {
    name: "udp-cbr",
    title: "Constant-rate UDP",
    law: "packet n leaves 8·n·packet_bytes/rate after the start, to the picosecond",
    source: "iperf's UDP test, ns-2 Application/Traffic/CBR",
    differs: &["rate and size are those of the IP packets, not of the payload"],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::whole("rate", "bit/s", 1_000_000, (1, 1_000_000_000_000), "Rate at the IP layer."),
        ParamSpec::whole("packet_bytes", "B", 1498, (28, 65_535), "IP length of each packet."),
    ],
};

const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Datagrams at a constant rate.
#[derive(Clone, Debug)]
pub struct UdpCbr {
    rate_bps: u64,
    packet_bytes: u32,
    start: Time,
    sent: u64,
}

impl Registered for UdpCbr {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Steady stream";

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(UdpCbr {
            rate_bps: given.whole("rate"),
            packet_bytes: given.whole("packet_bytes") as u32,
            start: Time::NEVER,
            sent: 0,
        })
    }
}

impl UdpCbr {
    fn next(&self) -> Time {
        if self.start == Time::NEVER {
            return Time::NEVER;
        }
        // Computed from the start, so that rounding errors do not accumulate.
        let bits = u128::from(self.sent) * u128::from(self.packet_bytes) * 8;
        self.start + Duration::from_ps((bits * PS_PER_SECOND / u128::from(self.rate_bps)) as u64)
    }
}

impl Application for UdpCbr {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => (self.start, self.sent) = (now, 0),
            (Side::Client, Cue::Stop) => self.start = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            _ => return,
        }
        while self.next() <= now {
            actions.push(Action::Datagram { bytes: self.packet_bytes, stream: 0 });
            self.sent += 1;
        }
        if self.next() != Time::NEVER {
            actions.push(Action::WakeAt(self.next()));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn needs(&self) -> Needs {
        Needs { load_bps: [self.rate_bps as f64, 0.0], ..Needs::default() }
    }
}
