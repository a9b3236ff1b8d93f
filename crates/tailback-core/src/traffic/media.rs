//! A video call whose rate adapts to the path: frames, packets and reports, the same for every rate control.
//!
//! A rate control is a file beside this one that implements [`RateControl`]; its row in `traffic/registry.rs` names it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use super::registry::Registered;
use super::{Action, Actions, Application, Cue, Needs, Side, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

/// Largest rate, of every card.
pub(super) const MAX_RATE: ParamSpec =
    ParamSpec::whole("max_rate", "bit/s", 1_500_000, (1_000, 1_000_000_000), "Largest rate (RMAX).");
/// Frames a second, of every card.
pub(super) const FPS: ParamSpec = ParamSpec::whole("fps", "1/s", 30, (1, 1000), "Frames a second.");
/// Size of packets, of every card.
pub(super) const PACKET_BYTES: ParamSpec =
    ParamSpec::whole("packet_bytes", "B", 1200, (100, 65_535), "IP length of a packet, at most.");

/// IPv4 and UDP headers, and RTP's.
const HEADERS: f64 = 40.0;
/// A packet that is overtaken by more than this is never heard of.
const REMEMBERED: usize = 4096;
const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// Finds the rate of a media flow: what its receiver reports, and what its sender makes of the reports.
pub trait RateControl: Clone + Debug + Sized {
    /// The card of the application.
    const CARD: Card;
    /// What users call it.
    const PLAIN: &'static str;
    /// What a report says.
    type Report: Clone + Debug;

    /// A fresh one, whose rate stays between the bounds.
    fn new(given: &Checked<'_>, bounds_bps: [f64; 2]) -> Self;
    /// The flow starts, for the first time or again.
    fn begin(&mut self, now: Time);
    /// The rate at which the encoder produces.
    fn rate_bps(&self) -> f64;
    /// A packet has arrived for the first time. A report that leaves now, with its IP length.
    fn on_packet(&mut self, packet: Arrival) -> Option<(u32, Self::Report)>;
    /// A report has arrived at the sender.
    fn on_report(&mut self, report: Self::Report, now: Time);
    /// What the reports offer at least, in bit/s.
    fn reports_bps(&self) -> f64;
    /// Its packets may be marked instead of dropped.
    fn ecn(&self) -> bool {
        false
    }
}

/// A packet at the receiver.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it arrived.
    pub at: Time,
    /// When it left.
    pub sent: Time,
    /// Its number in the flow.
    pub number: u64,
    /// Its IP length.
    pub bytes: u32,
    /// A queue marked it.
    pub is_marked: bool,
}

/// A media flow: its sender, its receiver, and what their packets say, which the host moves by number.
#[derive(Clone, Debug)]
pub struct MediaFlow<C: RateControl> {
    min_bps: f64,
    fps: u64,
    packet_bytes: f64,
    control: C,
    // Frames since the start; what is left of the one under way, and what the next one inherits.
    start: Time,
    frames: u64,
    packets: u64,
    packets_of_frame: u64,
    frame_bytes: f64,
    left_over: f64,
    // What packets and reports say. Packets by number from `first_stamp`; one that has arrived says nothing more.
    stamps: VecDeque<Time>,
    first_stamp: u64,
    reports: BTreeMap<u64, C::Report>,
    reported: u64,
}

impl<C: RateControl> Registered for MediaFlow<C> {
    const CARD: Card = C::CARD;
    const PLAIN: &'static str = C::PLAIN;

    fn new(given: &Checked<'_>, _seed: u64) -> Result<Self, ScenarioError> {
        let (min_bps, max_bps) = (given.whole("min_rate") as f64, given.whole("max_rate") as f64);
        if min_bps > max_bps {
            return Err(given.refuse("min_rate", "above max_rate", "Give at most max_rate"));
        }
        Ok(MediaFlow {
            min_bps,
            fps: given.whole("fps"),
            packet_bytes: given.whole("packet_bytes") as f64,
            control: C::new(given, [min_bps, max_bps]),
            start: Time::NEVER,
            frames: 0,
            packets: 0,
            packets_of_frame: 0,
            frame_bytes: 0.0,
            left_over: 0.0,
            stamps: VecDeque::new(),
            first_stamp: 0,
            reports: BTreeMap::new(),
            reported: 0,
        })
    }
}

impl<C: RateControl> Application for MediaFlow<C> {
    fn step(&mut self, side: Side, cue: Cue, now: Time, actions: &mut Actions) {
        match (side, cue) {
            (Side::Client, Cue::Start) => self.begin(now),
            (Side::Client, Cue::Stop) => self.start = Time::NEVER,
            (Side::Client, Cue::Wake) => {}
            (Side::Client, Cue::Datagram { number, .. }) => return self.on_report(number, now),
            (Side::Server, Cue::Datagram { number, bytes, is_marked }) => {
                return self.on_packet(Arrival { at: now, sent: now, number, bytes, is_marked }, actions);
            }
            _ => return,
        }
        while self.next() <= now {
            self.send(now, actions);
        }
        if self.start != Time::NEVER {
            actions.push(Action::WakeAt(self.next()));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn needs(&self) -> Needs {
        // Its smallest rate, and reports as long as anything arrives.
        let load_bps = [self.min_bps, self.control.reports_bps()];
        Needs { datagrams: true, ecn: self.control.ecn(), load_bps, ..Needs::default() }
    }
}

impl<C: RateControl> MediaFlow<C> {
    fn begin(&mut self, now: Time) {
        self.start = now;
        (self.frames, self.packets, self.packets_of_frame, self.left_over) = (0, 0, 0, 0.0);
        self.control.begin(now);
    }

    /// When the next packet is due, or the next frame: frame n is due n/fps after the start, its packets share the time until
    /// the next one.
    fn next(&self) -> Time {
        if self.start == Time::NEVER {
            return Time::NEVER;
        }
        let frame = |number: u64| {
            Duration::from_ps((u128::from(number) * u128::from(PS_PER_SECOND) / u128::from(self.fps)) as u64)
        };
        if self.packets == self.packets_of_frame {
            return self.start + frame(self.frames);
        }
        let begin = frame(self.frames - 1);
        let length = frame(self.frames).saturating_sub(begin);
        self.start + begin + Duration::from_ps(length.as_ps() * self.packets / self.packets_of_frame)
    }

    /// A packet; the first of a new frame, if that is due.
    fn send(&mut self, now: Time, actions: &mut Actions) {
        if self.packets == self.packets_of_frame {
            self.frames += 1;
            self.frame_bytes = self.control.rate_bps() / 8.0 / self.fps as f64 + self.left_over;
            self.packets = 0;
            // What would be headers alone waits for the next frame.
            self.packets_of_frame = if self.frame_bytes <= HEADERS {
                0
            } else {
                (self.frame_bytes / self.packet_bytes) as u64 + 1
            };
            if self.packets_of_frame == 0 {
                self.left_over = self.frame_bytes;
                return;
            }
            let bytes = (self.frame_bytes / self.packets_of_frame as f64) as u32;
            self.left_over = self.frame_bytes - f64::from(bytes) * self.packets_of_frame as f64;
        }
        self.packets += 1;
        let bytes = (self.frame_bytes / self.packets_of_frame as f64) as u32;
        self.stamps.push_back(now);
        if self.stamps.len() > REMEMBERED {
            self.stamps.pop_front();
            self.first_stamp += 1;
        }
        actions.push(Action::Datagram { bytes, stream: 0 });
    }

    fn on_packet(&mut self, packet: Arrival, actions: &mut Actions) {
        let Some(place) = packet.number.checked_sub(self.first_stamp) else { return };
        let Some(stamp) = self.stamps.get_mut(place as usize) else { return };
        let sent = std::mem::replace(stamp, Time::NEVER);
        if sent == Time::NEVER {
            return; // A wire's copy.
        }
        if let Some((bytes, report)) = self.control.on_packet(Arrival { sent, ..packet }) {
            self.reports.insert(self.reported, report);
            actions.push(Action::Reply { number: self.reported, bytes });
            self.reported += 1;
        }
    }

    fn on_report(&mut self, number: u64, now: Time) {
        let Some(report) = self.reports.remove(&number) else { return };
        // Older ones are lost, or late: what they would say has been said since.
        self.reports = self.reports.split_off(&number);
        if self.start == Time::NEVER {
            return;
        }
        self.control.on_report(report, now);
    }
}
