//! A link without a rate: a packet goes onto the wire at once, and no queue forms.

use super::api::Watch;
use super::interface::Interface;
use super::pace::Ticks;
use super::serve::Serve;
use crate::packet::Packet;
use crate::queue::{Backlog, Fate};

/// A link without a rate.
#[derive(Clone, Debug)]
pub struct Instant {
    /// Timer on whose ticks the delay is counted, if any.
    pub ticks: Option<Ticks>,
}

impl Serve for Instant {
    #[inline]
    fn push(&mut self, of: &mut Interface, packet: Packet, fate: &mut Fate, watch: &mut impl Watch) {
        let now = of.now;
        of.on_departure(&packet, watch);
        let due = match &mut self.ticks {
            None => now + of.delay,
            Some(ticks) => {
                ticks.arrive(now);
                ticks.due(now)
            }
        };
        of.send(packet, now, due, fate, watch);
    }

    fn between(&self) -> Backlog {
        Backlog::default()
    }
}
