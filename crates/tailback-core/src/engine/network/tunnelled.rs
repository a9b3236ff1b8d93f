//! Tunnel links, whose packets travel in another flow's connection. A packet pushed into the link is written to that
//! connection's stream, and leaves the link once its bytes have arrived.

use super::Network;
use super::link_host::lend;
use crate::engine::connections::index_of;
use crate::packet::Packet;
use crate::probe::Probe;
use crate::time::Bytes;
use crate::traffic::Side;

impl<P: Probe> Network<P> {
    /// The links for which this side of a flow sends, and for which it receives.
    fn tunnel_links(&self, number: usize, side: Side) -> [Option<u32>; 2] {
        let [there, back] = self.flows[number].carried;
        if side == Side::Client { [there, back] } else { [back, there] }
    }

    /// From now on the stream of the end at this index carries packets.
    pub(super) fn open_tunnel(&mut self, number: usize, side: Side, index: usize) {
        let it = self.connections.at(index);
        (it.carries, it.listens) = (true, true);
        let address = it.address;
        if let [Some(link), _] = self.tunnel_links(number, side) {
            self.links[link as usize].open_tunnel(address);
        }
    }

    /// The stream accepts no more packets. Does nothing for a flow without a tunnel.
    #[inline]
    pub(super) fn shut_tunnel(&mut self, number: usize, side: Side) {
        if let [Some(link), _] = self.tunnel_links(number, side) {
            self.links[link as usize].shut_tunnel();
        }
    }

    /// Something happened at an end of the outer connection: delivers packets that have arrived, and sends waiting
    /// ones.
    #[cold]
    pub(super) fn serve_tunnel(&mut self, index: usize) {
        let it = self.connections.at(index);
        let (number, side, delivered) = (it.flow as usize, it.side, it.end.receiver.delivered());
        let [outward, inward] = self.tunnel_links(number, side);
        if let Some(link) = inward {
            let is_watched = self.is_watched(link);
            let Network { links, fate, now, schedule, .. } = self;
            let it = &mut links[link as usize];
            let mut host = lend!(self, link, is_watched);
            it.read_tunnel(delivered, *now, fate, &mut host);
            schedule.arm(link, it.next_wake());
            self.settle_fate();
        }
        if let Some(link) = outward {
            self.feed_tunnel(link);
        }
    }

    /// Moves packets from a tunnel's queue to its stream as far as the socket has room. Returns the index of the end if
    /// any moved.
    fn feed_tunnel(&mut self, link: u32) -> Option<usize> {
        let is_watched = self.is_watched(link);
        let Network { links, connections, fate, now, .. } = self;
        let it = &mut links[link as usize];
        let address = it.tunnel_end()?;
        let carrier = connections.find(address)?;
        let sender = &mut carrier.end.sender;
        let mut host = lend!(self, link, is_watched);
        let written: Bytes = it.write_tunnel(sender.room(), sender.is_drained(), *now, fate, &mut host);
        sender.write(written);
        self.settle_fate();
        (written > 0).then_some(index_of(address))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn push_tunnelled(&mut self, link: u32, packet: Packet) {
        let is_watched = self.is_watched(link);
        let Network { links, fate, now, .. } = self;
        let mut host = lend!(self, link, is_watched);
        links[link as usize].push(packet, *now, fate, &mut host);
        self.settle_fate();
        if let Some(index) = self.feed_tunnel(link) {
            // The outer end sends when its turn comes: the packet now on its way into the tunnel may be its own.
            let element = self.end_element(index);
            self.connections.at(index).armed = self.now;
            self.schedule.arm(element, self.now);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wake_tunnelled(&mut self, link: u32) {
        let Network { links, fate, schedule, now, .. } = self;
        let it = &mut links[link as usize];
        let mut host = lend!(self, link, false);
        it.advance(*now, fate, &mut host);
        schedule.arm(link, it.next_wake());
    }

    /// Does nothing: a tunnel changes only when it is called.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_tunnelled(&mut self, link: u32) {
        let Network { links, fate, now, .. } = self;
        links[link as usize].settle(*now, fate, &mut ());
    }
}
