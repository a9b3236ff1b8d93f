//! Wire effects on the signals that senders read: ECN codepoints, delays per packet, ACKs.

use super::acks::Acks;
use super::netem::NetemJitter;
use crate::packet::{Ecn, Packet};
use crate::rng::Stream;
use crate::scenario::{Bleach, WireSpec};
use crate::time::{Duration, Time};

/// The wire effects on ECN, delays and ACKs.
#[derive(Clone, Debug)]
pub struct Signals {
    bleach: Option<Bleach>,
    pub jitter: Option<NetemJitter>,
    pub acks: Option<Acks>,
}

impl Signals {
    /// Builds the effects of a checked `spec`; `None` if it has none.
    pub fn build(spec: &WireSpec, stream: impl Fn(&str) -> Stream) -> Option<Self> {
        let signals = Signals {
            bleach: spec.bleach.filter(|_| !spec.bleach_before_queue),
            jitter: spec.netem_jitter.map(|jitter| NetemJitter::new(&jitter, stream("netem-jitter"))),
            acks: (spec.ack_hold_ps > 0)
                .then(|| Acks::new(Duration::from_ps(spec.ack_hold_ps), spec.ack_every)),
        };
        let has_any = signals.bleach.is_some() || signals.jitter.is_some() || signals.acks.is_some();
        has_any.then_some(signals)
    }

    /// The codepoint of `packet` after bleaching.
    pub fn bleached(&self, packet: &Packet) -> Ecn {
        self.bleach.map_or(packet.ecn, |bleach| bleach.apply(packet.ecn))
    }

    /// Whether packets may overtake each other.
    pub fn reorder(&self) -> bool {
        self.jitter.is_some() || self.acks.is_some()
    }

    /// Arrival of a packet that left at `at` and would arrive at `due`; `None`: unchanged here.
    pub fn arrival(&mut self, at: Time, due: Time) -> Option<Time> {
        self.jitter.as_mut().map(|jitter| jitter.arrival(at, due))
    }
}
