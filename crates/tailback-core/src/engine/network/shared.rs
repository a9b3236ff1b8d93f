//! Links that share a medium (a tunnel's stand in `tunnelled.rs`): their channel stands in the schedule for all of
//! them, at the first one's element.

use super::Network;
use super::link_host::lend;
use crate::packet::Packet;
use crate::probe::Probe;

/// What happens at a link of a channel.
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
        // The channel says whose link it is about before it shows anything.
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
