//! Phone calls with silence suppression: exponential bursts and pauses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::registry::Registered;
use super::voip::CALLS;
use super::{Action, Actions, Application, Cue, Needs, Side, Traits, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::rng::Stream;
use crate::scenario::ScenarioError;
use crate::time::{Duration, Rate, Time};

const CARD: Card = Card {
    name: "voip-onoff",
    title: "G.711 calls with pauses, one way",
    law: "a call sends bursts of ⌊Exp(on·rate/(8·packet_bytes)) + ½⌋ packets, at least one, \
          `8·packet_bytes/rate` apart; between the last packet of a burst and the first of the next lies one \
          such interval and a pause of Exp(off). Every call begins with a pause",
    source: "ns-2 Application/Traffic/Exponential; G.711 with Ethernet header and checksum, 218 B every 20 \
          ms in a burst, 0.4 s on and 0.6 s off on average",
    differs: &["every call draws from a stream of its own"],
    live_twin: Some("tailback socket application"),
    params: &[
        ParamSpec::number("on", "s", 0.4, (0.0, 3600.0), "Mean length of a burst."),
        ParamSpec::number("off", "s", 0.6, (0.0, 3600.0), "Mean length of a pause."),
        ParamSpec::whole("rate", "bit/s", 87_200, (8, 1_000_000_000_000), "Rate within a burst."),
        ParamSpec::whole("packet_bytes", "B", 218, (28, 65_535), "Length of each packet on the link."),
        CALLS,
    ],
};

/// Calls with silence suppression.
#[derive(Clone, Debug)]
pub struct VoipOnOff {
    interval: Duration,
    packet_bytes: u32,
    burst_packets: f64,
    pause_s: f64,
    // Packets left in each call's burst.
    left: Vec<u64>,
    next: BinaryHeap<Reverse<(Time, u16)>>,
    // One stream per call, so that the number of calls does not affect their draws.
    streams: Vec<Stream>,
}

impl Registered for VoipOnOff {
    const CARD: Card = CARD;
    const PLAIN: &'static str = "Call with pauses";
    const TRAITS: Traits = Traits::VOICE;

    fn new(given: &Checked<'_>, seed: u64) -> Result<Self, ScenarioError> {
        let packet_bytes = given.whole("packet_bytes");
        let interval = Rate::from_bps(given.whole("rate")).time_for(packet_bytes);
        let calls = given.whole("calls");
        Ok(VoipOnOff {
            interval,
            packet_bytes: packet_bytes as u32,
            burst_packets: given.number("on") / interval.as_secs_f64(),
            pause_s: given.number("off"),
            left: vec![0; calls as usize],
            next: BinaryHeap::new(),
            streams: (0..calls).map(|call| Stream::named(seed, &format!("call/{call}"))).collect(),
        })
    }
}

impl VoipOnOff {
    /// Time from a call's last packet to its next.
    fn gap(&mut self, call: u16) -> Duration {
        let (left, stream) = (&mut self.left[usize::from(call)], &mut self.streams[usize::from(call)]);
        let mut gap = self.interval;
        if *left == 0 {
            *left = ((stream.exponential(self.burst_packets) + 0.5) as u64).max(1);
            gap += Duration::from_secs_f64(stream.exponential(self.pause_s));
        }
        *left -= 1;
        gap
    }
}

impl Application for VoipOnOff {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => {
                for call in 0..self.left.len() as u16 {
                    self.left[usize::from(call)] = 0;
                    let gap = self.gap(call);
                    self.next.push(Reverse((now + gap, call)));
                }
            }
            (Side::Client, Cue::Stop) => self.next.clear(),
            (Side::Client, Cue::Wake) => {}
            _ => return,
        }
        while let Some(&Reverse((due, call))) = self.next.peek().filter(|Reverse((due, _))| *due <= now) {
            self.next.pop();
            actions.push(Action::Datagram { bytes: self.packet_bytes, stream: call });
            let gap = self.gap(call);
            self.next.push(Reverse((due + gap, call)));
        }
        if let Some(Reverse((due, _))) = self.next.peek() {
            actions.push(Action::WakeAt(*due));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn needs(&self) -> Needs {
        let packets = self.burst_packets.max(1.0);
        let cycle = packets * self.interval.as_secs_f64() + self.pause_s;
        let rate = packets * 8.0 * f64::from(self.packet_bytes) / cycle;
        Needs { load_bps: [rate * self.left.len() as f64, 0.0], ..Needs::default() }
    }
}
