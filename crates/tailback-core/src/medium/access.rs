//! How a link uses a medium for which stations contend, and the rules that all its stations share.

use crate::packet::Packet;
use crate::time::{Duration, Rate, Time};

/// Converts microseconds.
pub(super) fn us(us: f64) -> Duration {
    Duration::from_secs_f64(us / 1e6)
}

/// Rules on which all stations of a channel must agree.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// Length of a slot.
    pub slot: Duration,
    /// Time from the end of an exchange to the first slot.
    pub gap: Duration,
    /// Time from the end of unacknowledged data to the first slot.
    pub gap_failed: Duration,
    /// Contention windows by number of failures; the last one applies to all further failures.
    pub windows: Vec<u32>,
    /// Additional slots of a station's access category before each countdown.
    pub wait: u64,
    /// Stations may differ in `windows` and `wait`.
    pub has_classes: bool,
    /// Number of lost races at each stage after which a station moves to the next; empty: it never does.
    pub deferrals: Vec<u32>,
    /// A station whose countdown ended while it had nothing to send may send at once.
    pub is_immediate: bool,
    /// The slot in which another station begins to send counts in the countdown.
    pub counts_busy: bool,
    /// Period of the beacon, and the silence at the start of each period.
    pub beacon: Option<(Duration, Duration)>,
}

impl Rules {
    /// Whether stations with these rules and stations with `other` can share a medium.
    pub fn agrees_with(&self, other: &Rules) -> bool {
        if !self.has_classes {
            return self == other;
        }
        Rules { windows: other.windows.clone(), wait: other.wait, ..self.clone() } == *other
    }
}

/// The order in which the links of a station send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// One transmission each, in turn.
    #[default]
    Turns,
    /// Equal airtime: deficit round robin with this quantum.
    Airtime(Duration),
    /// In order of arrival: a driver of limited size takes packets in that order, and its links take turns with the
    /// packets that they have there.
    Fifo {
        /// Capacity of the driver in packets.
        driver: u32,
        /// Limit on the packets of all links together, including those in the driver.
        limit: u32,
    },
}

/// A packet in the air: being sent or resent, or waiting for an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The packet.
    pub packet: Packet,
    /// Units (whole frames, or blocks) that the receiver still lacks.
    pub left: u32,
    /// Number of transmissions so far.
    pub tries: u32,
}

/// Duration of a transmission, from its start.
#[derive(Clone, Copy, Debug)]
pub struct Air {
    /// Until the last bit of data.
    pub data: Duration,
    /// Until the end of the acknowledgement.
    pub exchange: Duration,
    /// Until the end of a collision.
    pub collision: Duration,
}

/// How one link uses the medium.
pub trait Access {
    /// Rules on which the stations must agree.
    fn rules(&self) -> Rules;
    /// The time until which the link may not begin to send, if it may not at `at`. Called in order of time.
    fn silent_until(&mut self, _at: Time) -> Option<Time> {
        None
    }
    /// The order in which its station's links send; all of the station's links must agree.
    fn order(&self) -> Order {
        Order::Turns
    }
    /// Begins a new aggregate at `at`.
    fn begin(&mut self, _at: Time) {}
    /// Whether one more packet, as large as any so far, fits with `frames`. Called again after each packet that joins.
    fn has_room(&mut self, frames: &[Frame]) -> bool;
    /// Number of units that `packet` adds to the aggregate.
    fn units_of(&mut self, packet: &Packet) -> u32;
    /// Airtime of the units left in `frames`.
    fn air(&self, frames: &[Frame]) -> Air;
    /// Number of frames in the transmission, counted from the first that the receiver lacks.
    fn carried(&self) -> usize {
        usize::MAX
    }
    /// Reduces `left` by what the receiver gets from a transmission without collision. Returns whether it acknowledges.
    fn receive(&mut self, frames: &mut [Frame]) -> bool;
    /// A transmission has ended.
    fn learn(&mut self, _is_success: bool) {}
    /// Average rate without competition.
    fn nominal(&self) -> Rate;
    /// Number of transmissions after which a frame is given up.
    fn most_tries(&self) -> u32;
}
