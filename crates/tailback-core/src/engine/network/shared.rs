//! Links that share a medium (a tunnel's stand in `tunnelled.rs`): their channel stands in the schedule for all of them, at the first one's element.

use super::Network;
use super::links::Lent;
use crate::medium::channel::Channel;
use crate::packet::Packet;
use crate::probe::Probe;

/// What happens at a channel.
enum Deed {
    Push(u32, Packet),
    Advance,
    Settle,
}

impl<P: Probe> Network<P> {
    #[cold]
    #[inline(never)]
    pub(super) fn push_shared(&mut self, link: u32, packet: Packet) {
        if self.links[link as usize].outlet.is_none() {
            return self.push_tunnelled(link, packet);
        }
        self.at_channel(link, Deed::Push(link, packet));
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wake_shared(&mut self, link: u32) {
        if self.links[link as usize].outlet.is_none() {
            return self.wake_tunnelled(link);
        }
        self.at_channel(link, Deed::Advance);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn settle_shared(&mut self, link: u32) {
        if self.links[link as usize].outlet.is_none() {
            return self.links[link as usize].turn_to(self.now);
        }
        self.at_channel(link, Deed::Settle);
    }

    fn at_channel(&mut self, link: u32, deed: Deed) {
        let Network { links, channels, schedule, fate, now, .. } = self;
        let channel: &mut Channel = &mut channels[links[link as usize].channel() as usize];
        // The channel says whose link it is about before it shows anything.
        let mut host = Lent {
            link,
            watches: false,
            arena: &mut self.arena,
            probe: &mut self.probe,
            inbox: &mut self.inbox,
            chores: &mut self.chores,
        };
        match deed {
            Deed::Push(link, packet) => channel.push(links, link, packet, *now, fate, &mut host),
            Deed::Advance => channel.advance(links, *now, fate, &mut host),
            Deed::Settle => channel.settle(links, *now, fate, &mut host),
        }
        schedule.arm(channel.element(), channel.next_wake(links));
        self.settle_fate();
    }
}
