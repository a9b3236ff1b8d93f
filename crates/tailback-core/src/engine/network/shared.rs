//! Links that share a medium. The schedule has one element for the whole channel: that of its first link. (Links of a
//! tunnel are in `tunnelled.rs`.)

use super::Network;
use super::link_host::lend;
use crate::packet::Packet;
use crate::probe::Probe;

/// An operation on a link of a channel.
pub(super) enum Step {
    Push(Packet),
    Advance,
    Settle,
}

impl<P: Probe> Network<P> {
    #[cold]
    #[inline(never)]
    pub(super) fn at_channel(&mut self, channel: u32, link: u32, step: Step) {
        let Network { links, channels, schedule, fate, now, .. } = self;
        let channel = &mut channels[channel as usize];
        // The channel sets the link in `host` before it shows anything.
        let mut host = lend!(self, link, false);
        match step {
            Step::Push(packet) => channel.push(links, link, packet, *now, fate, &mut host),
            Step::Advance => channel.advance(links, *now, fate, &mut host),
            Step::Settle => channel.settle(links, *now, fate, &mut host),
        }
        schedule.arm(channel.element(), channel.next_wake(links));
        self.settle_fate();
    }
}
