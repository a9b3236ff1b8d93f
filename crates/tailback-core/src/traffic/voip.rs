//! A phone call: constant-rate datagrams, one way, numbered.
//!
//! Law: one packet of `packet_bytes` every `interval`, from start to stop.
//! Source: G.711 with 20 ms framing: 160 B of speech + RTP 12 + UDP 8 + IPv4 20 = 200 B, 80 kbit/s at the IP
//! layer (CAIA Technical Report 080818A section IV-A).

use super::registry::Registered;
use super::{Application, Cue, Say, Side, Transport, Wish};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

/// A constant-rate call.
#[derive(Clone, Debug)]
pub struct Voip {
    interval: Duration,
    packet_bytes: u32,
    next: Time,
}

impl Registered for Voip {
    const CARD: Card = Card {
        name: "voip",
        title: "G.711 call, one way",
        law: "one packet of packet_bytes every interval",
        source: "G.711, 20 ms framing; CAIA Technical Report 080818A section IV-A",
        differs: &["no silence suppression"],
        live_twin: Some("tailback socket application"),
        params: &[
            ParamSpec::number("interval", "ms", 20.0, (0.001, 60_000.0), "Time between packets."),
            ParamSpec::whole("packet_bytes", "B", 200, (28, 65_535), "IP length of each packet."),
        ],
    };

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        Ok(Voip {
            interval: Duration::from_secs_f64(given.number("interval") / 1e3),
            packet_bytes: given.whole("packet_bytes") as u32,
            next: Time::NEVER,
        })
    }
}

impl Application for Voip {
    fn step(&mut self, side: Side, cue: Cue, now: Time, say: &mut Say) {
        match (side, cue) {
            (Side::Client, Cue::Start) => self.next = now,
            (Side::Client, Cue::Stop) => self.next = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            _ => return,
        }
        // Due time, not wake time: a late host still sends every packet of the schedule.
        while self.next <= now {
            say.want(Wish::Datagram(self.packet_bytes));
            self.next += self.interval;
        }
        if self.next != Time::NEVER {
            say.want(Wish::WakeAt(self.next));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }
}
