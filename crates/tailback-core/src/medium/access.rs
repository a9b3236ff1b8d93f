//! How a link uses a medium that stations contend for, and what the stations must agree on.

use crate::packet::Packet;
use crate::time::{Duration, Rate, Time};

/// A time given in microseconds.
pub(super) fn us(us: f64) -> Duration {
    Duration::from_secs_f64(us / 1e6)
}

/// What every station of a channel must agree on.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// Length of a slot.
    pub slot: Duration,
    /// From the end of an exchange to the first slot,
    pub gap: Duration,
    /// and from the end of data that was not acknowledged.
    pub gap_failed: Duration,
    /// Contention windows by number of failures; the last one stays.
    pub windows: Vec<u32>,
    /// Slots that a station waits each time before it counts.
    pub wait: u64,
    /// Stations may differ in `windows` and `wait`.
    pub has_classes: bool,
    /// How often a station may lose the race at each stage before it moves to the next; empty: always.
    pub deferrals: Vec<u32>,
    /// A station that has counted down while it had nothing to send may send at once.
    pub is_immediate: bool,
    /// The slot in which another station begins counts as passed.
    pub counts_busy: bool,
    /// Period of the beacon, and how long no station may send at the start of each.
    pub beacon: Option<(Duration, Duration)>,
}

impl Rules {
    /// Whether stations with these rules and with the `other` ones can share a medium.
    pub fn agrees_with(&self, other: &Rules) -> bool {
        if !self.has_classes {
            return self == other;
        }
        Rules { windows: other.windows.clone(), wait: other.wait, ..self.clone() } == *other
    }
}

/// Which link of a station sends next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// A try each.
    #[default]
    Turns,
    /// Equal airtime, by deficits that grow by this quantum.
    Airtime(Duration),
    /// As their packets came: a driver of bounded room takes them in that order, and its links take turns with those it has.
    Fifo {
        /// Packets that the driver takes.
        driver: u32,
        /// Packets that the links hold together, those in the driver included.
        limit: u32,
    },
}

/// A packet in the air: being sent for the first or a later time, or waiting for one before it.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The packet.
    pub packet: Packet,
    /// Units (whole frames, or blocks) that the receiver does not have yet.
    pub left: u32,
    /// Transmissions so far.
    pub tries: u32,
}

/// How long the medium is taken.
#[derive(Clone, Copy, Debug)]
pub struct Air {
    /// Until the last bit of data,
    pub data: Duration,
    /// until the end of its acknowledgement,
    pub exchange: Duration,
    /// and until a collision is over.
    pub collision: Duration,
}

/// How one link uses the medium.
pub trait Access {
    /// What the stations must agree on.
    fn rules(&self) -> Rules;
    /// If the link may begin nothing at `at`: when it may again. Asked in order of time.
    fn silent_until(&mut self, _at: Time) -> Option<Time> {
        None
    }
    /// Which of its station's links sends next; all of a station's links agree.
    fn order(&self) -> Order {
        Order::Turns
    }
    /// An aggregate is about to be put together at `at`.
    fn begin(&mut self, _at: Time) {}
    /// May one more packet, as large as any so far, join `frames`? Asked again after each that joins.
    fn has_room(&mut self, frames: &[Frame]) -> bool;
    /// Units that `packet` adds to the aggregate.
    fn units_of(&mut self, packet: &Packet) -> u32;
    /// How long sending what is left of `frames` takes.
    fn air(&self, frames: &[Frame]) -> Air;
    /// How many of the frames that the receiver lacks the transmission carries: the first ones.
    fn carried(&self) -> usize {
        usize::MAX
    }
    /// Take from `left` what the receiver gets of one transmission without collision. True if it acknowledges.
    fn receive(&mut self, frames: &mut [Frame]) -> bool;
    /// One transmission is over.
    fn learn(&mut self, _is_success: bool) {}
    /// The rate it has alone, on average.
    fn nominal(&self) -> Rate;
    /// Transmissions after which a frame is given up.
    fn most_tries(&self) -> u32;
}
