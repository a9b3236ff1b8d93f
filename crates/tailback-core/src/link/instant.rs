//! No rate: a packet that comes in goes onto the wire at once, and no queue forms.

use super::api::Watch;
use super::interface::Interface;
use super::pace::Ticks;
use crate::packet::Packet;
use crate::queue::Fate;

/// A link without a rate.
#[derive(Clone, Debug)]
pub struct Instant {
    /// Its delay is counted on a timer.
    pub ticks: Option<Ticks>,
}

impl Instant {
    #[inline]
    pub fn push(&mut self, to: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = to.now;
        to.on_departure(&packet, watch);
        let due = match &mut self.ticks {
            None => now + to.delay,
            Some(ticks) => {
                ticks.arrive(now);
                ticks.due(now)
            }
        };
        to.send(packet, now, due, fate, watch);
    }
}
