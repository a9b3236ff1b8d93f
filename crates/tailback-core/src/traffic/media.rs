//! A video call whose rate adapts to the path: frames, packets and reports, shared by all rate controls.
//!
//! A rate control is a file in this folder that implements [`RateControl`]; its row in `traffic/registry.rs` names it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use super::registry::Registered;
use super::{Action, Actions, Application, Cue, Needs, Side, Transport};
use crate::params::{Card, Checked, ParamSpec};
use crate::scenario::ScenarioError;
use crate::time::{Duration, Time};

/// Maximum rate, a parameter of every card.
pub(super) const MAX_RATE: ParamSpec =
    ParamSpec::whole("max_rate", "bit/s", 1_500_000, (1_000, 1_000_000_000), "Largest rate (RMAX).");
/// Frame rate, a parameter of every card.
pub(super) const FPS: ParamSpec = ParamSpec::whole("fps", "1/s", 30, (1, 1000), "Frames a second.");
/// Packet size, a parameter of every card.
pub(super) const PACKET_BYTES: ParamSpec =
    ParamSpec::whole("packet_bytes", "B", 1200, (100, 65_535), "IP length of a packet, at most.");

/// IPv4 and UDP headers, and RTP's.
const HEADERS: f64 = 40.0;
/// Number of sent packets whose send times are kept. A packet that arrives later than that is ignored.
const REMEMBERED: usize = 4096;
/// Stream numbers in the packets table.
const MEDIA: u16 = 0;
const PADDING: u16 = 1;
const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// Rate control of a media flow: the receiver's reports, and the sender's response to them.
pub trait RateControl: Clone + Debug + Sized {
    /// The card of the application.
    const CARD: Card;
    /// Name for display.
    const PLAIN: &'static str;
    /// Content of a report.
    type Report: Clone + Debug;
    /// Whether a report may allow packets or padding to be sent.
    const REPORTS_RELEASE: bool = false;

    /// A new control, with its rate limited to the bounds.
    fn new(given: &Checked<'_>, bounds_bps: [f64; 2]) -> Self;
    /// The flow starts, for the first time or again.
    fn begin(&mut self, now: Time);
    /// Target rate of the encoder.
    fn rate_bps(&self) -> f64;
    /// A packet has arrived for the first time. Returns a report to send now, if any, with its IP length.
    fn on_packet(&mut self, packet: Arrival) -> Option<(u32, Self::Report)>;
    /// A report has arrived at the sender.
    fn on_report(&mut self, report: Self::Report, now: Time);
    /// When a report is due even if no packet arrives.
    fn report_due(&self) -> Time {
        Time::NEVER
    }
    /// The time of `report_due` has come. Returns a report to send now, if any, with its IP length.
    fn on_report_due(&mut self, _now: Time) -> Option<(u32, Self::Report)> {
        None
    }
    /// The encoder has produced a packet.
    fn on_produced(&mut self, _bytes: u32, _now: Time) {}
    /// When a waiting packet may leave; `Time::NEVER` if a report must arrive first.
    fn leaves_at(&self, _bytes: u32, now: Time) -> Time {
        now
    }
    /// A packet or padding is sent.
    fn on_sent(&mut self, _number: u64, _bytes: u32, _now: Time) {}
    /// Whether to discard all waiting packets, given when the oldest was produced.
    fn discards(&mut self, _oldest: Time, _now: Time) -> bool {
        false
    }
    /// Padding between the packets, for example for a probe: when it is due, and its IP length.
    fn padding(&self) -> Option<(Time, u32)> {
        None
    }
    /// Minimum rate of the reports in bit/s.
    fn reports_bps(&self) -> f64;
    /// Whether its packets are ECN-capable.
    fn ecn(&self) -> bool {
        false
    }
}

/// A packet that has arrived at the receiver.
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

/// Appends a sample, and keeps only the `most` latest.
pub(super) fn keep_latest<T>(samples: &mut VecDeque<T>, sample: T, most: usize) {
    samples.push_back(sample);
    if samples.len() > most {
        samples.pop_front();
    }
}

/// A media flow: its sender and its receiver, and the contents of their packets by number; the host moves only numbers.
#[derive(Clone, Debug)]
pub struct MediaFlow<C: RateControl> {
    min_bps: f64,
    fps: u64,
    packet_bytes: f64,
    control: C,
    // Frames since the start; the rest of the current frame, and the bytes carried over to the next.
    start: Time,
    frames: u64,
    packets: u64,
    packets_of_frame: u64,
    frame_bytes: f64,
    left_over: f64,
    // Packets that may not leave yet: when each was produced, and its IP length.
    waiting: VecDeque<(Time, u32)>,
    /// Time of the last requested wake.
    armed: Time,
    // Contents of packets and reports. Send times of packets by number from `first_stamp`, cleared when one arrives.
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
            waiting: VecDeque::new(),
            armed: Time::NEVER,
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
            (Side::Client, Cue::Stop) => {
                self.start = Time::NEVER;
                self.waiting.clear();
            }
            (Side::Client, Cue::Wake) => {}
            (Side::Client, Cue::Datagram { number, .. }) => {
                self.on_report(number, now);
                if !C::REPORTS_RELEASE {
                    return;
                }
            }
            (Side::Server, Cue::Datagram { number, bytes, is_marked }) => {
                self.on_packet(Arrival { at: now, sent: now, number, bytes, is_marked }, actions);
                return self.arm_for_report(actions);
            }
            _ => return,
        }
        self.advance(now, actions);
        self.armed = self.next().min(self.control.report_due());
        if self.armed != Time::NEVER {
            actions.push(Action::WakeAt(self.armed));
        }
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn needs(&self) -> Needs {
        // Its minimum rate, and reports for as long as packets arrive.
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

    /// Arms a wake for a report without a packet, if that is due first.
    fn arm_for_report(&mut self, actions: &mut Actions) {
        let due = self.control.report_due();
        if due < self.armed {
            self.armed = due;
            actions.push(Action::WakeAt(due));
        }
    }

    /// Does everything that is due: frames and packets, padding, and a report without a packet.
    fn advance(&mut self, now: Time, actions: &mut Actions) {
        while self.next_frame() <= now {
            self.produce(now, actions);
        }
        self.release(now, actions);
        while self.start != Time::NEVER
            && let Some((at, bytes)) = self.control.padding()
            && at <= now
        {
            self.send(bytes, PADDING, now, actions);
        }
        if self.control.report_due() <= now
            && let Some((bytes, report)) = self.control.on_report_due(now)
        {
            let number = self.kept(report);
            actions.push(Action::ReplyFromServer { number, bytes });
        }
    }

    /// Time of the next action, except reports.
    fn next(&self) -> Time {
        if self.start == Time::NEVER {
            return Time::NEVER;
        }
        let padding = self.control.padding().map_or(Time::NEVER, |(at, _)| at);
        let waiting =
            self.waiting.front().map_or(Time::NEVER, |(at, bytes)| self.control.leaves_at(*bytes, *at));
        self.next_frame().min(padding).min(waiting)
    }

    /// When the next packet or frame is due. Frame n is due n/fps after the start; its packets are spread evenly until
    /// the next frame.
    fn next_frame(&self) -> Time {
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

    /// Produces a packet, and begins a new frame if that is due.
    fn produce(&mut self, now: Time, actions: &mut Actions) {
        if self.packets == self.packets_of_frame {
            self.frames += 1;
            self.frame_bytes = self.control.rate_bps() / 8.0 / self.fps as f64 + self.left_over;
            self.packets = 0;
            // A frame with no more than headers is merged into the next one.
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
        self.control.on_produced(bytes, now);
        if self.waiting.is_empty() && self.control.leaves_at(bytes, now) <= now {
            return self.send(bytes, MEDIA, now, actions);
        }
        if self.waiting.front().is_some_and(|(oldest, _)| self.control.discards(*oldest, now)) {
            self.waiting.clear();
        }
        self.waiting.push_back((now, bytes));
    }

    /// Sends waiting packets that may leave now.
    fn release(&mut self, now: Time, actions: &mut Actions) {
        while let Some((_, bytes)) = self.waiting.front().copied()
            && self.control.leaves_at(bytes, now) <= now
        {
            self.waiting.pop_front();
            self.send(bytes, MEDIA, now, actions);
        }
    }

    fn send(&mut self, bytes: u32, stream: u16, now: Time, actions: &mut Actions) {
        self.control.on_sent(self.first_stamp + self.stamps.len() as u64, bytes, now);
        self.stamps.push_back(now);
        if self.stamps.len() > REMEMBERED {
            self.stamps.pop_front();
            self.first_stamp += 1;
        }
        actions.push(Action::Datagram { bytes, stream });
    }

    /// Stores a report until it arrives; returns its number.
    fn kept(&mut self, report: C::Report) -> u64 {
        self.reports.insert(self.reported, report);
        self.reported += 1;
        self.reported - 1
    }

    fn on_packet(&mut self, packet: Arrival, actions: &mut Actions) {
        let Some(place) = packet.number.checked_sub(self.first_stamp) else { return };
        let Some(stamp) = self.stamps.get_mut(place as usize) else { return };
        let sent = std::mem::replace(stamp, Time::NEVER);
        if sent == Time::NEVER {
            return; // A wire's copy.
        }
        if let Some((bytes, report)) = self.control.on_packet(Arrival { sent, ..packet }) {
            let number = self.kept(report);
            actions.push(Action::Reply { number, bytes });
        }
    }

    fn on_report(&mut self, number: u64, now: Time) {
        let Some(report) = self.reports.remove(&number) else { return };
        // Older reports are lost or late, and newer ones have replaced their content.
        self.reports = self.reports.split_off(&number);
        if self.start == Time::NEVER {
            return;
        }
        self.control.on_report(report, now);
    }
}
