//! Links at work: a packet that has crossed a link enters the next one or is delivered to an end.

use super::Network;
use super::foreign::NOT_FOREIGN;
use super::link_host::lend;
use super::shared::Step;
use crate::engine::connections::index_of;
use crate::link::Server;
use crate::packet::{Ecn, Packet};
use crate::probe::Probe;
use crate::traffic::{Cue, Side};

/// How many arrivals ahead a segment is asked for, and the end it is for.
const FAR: usize = 5;
const NEAR: usize = 2;

impl<P: Probe> Network<P> {
    pub(super) fn wake_link(&mut self, link: u32) {
        match self.links[link as usize].server() {
            Server::Link => self.wake_own(link),
            Server::Channel(channel) => self.at_channel(channel, link, Step::Advance),
            Server::Connection => self.wake_tunnelled(link),
        }
        // Nothing delivered here comes back into the inbox within the event.
        let Some(packet) = self.inbox.first.take() else { return };
        self.deliver(packet);
        if !self.inbox.others.is_empty() {
            self.deliver_others();
        }
        if !P::EACH && self.ways[link as usize].together {
            self.run_on(link);
        }
    }

    #[cold]
    fn deliver_others(&mut self) {
        for index in 0..self.inbox.others.len() {
            let packet = self.inbox.others[index];
            self.deliver(packet);
        }
        self.inbox.others.clear();
    }

    /// Wakes a link that decides itself when its packets leave.
    #[inline(always)]
    fn wake_own(&mut self, link: u32) {
        let mut host = lend!(self, link, self.is_watched(link));
        let it = &mut self.links[link as usize];
        let next = it.advance(self.now, &mut self.fate, &mut host);
        // Prefetches for the next arrivals while this one is processed: the packet, then its segment, then its end.
        if let Some(next) = it.arriving(FAR) {
            self.arena.fetch(next.slot);
        }
        if self.connections.are_many() {
            if let Some(next) = it.arriving(NEAR) {
                self.connections.fetch(self.arena.at(next.slot).to);
            }
            if let Some(next) = it.arriving(0) {
                self.connections.fetch_flight(self.arena.at(next.slot).to);
            }
        }
        // Armed before delivery, because a delivery may push a packet into this very link.
        self.schedule.arm(link, next);
        self.settle_fate();
    }

    /// As [`Self::push`], out of line for callers that are not performance-critical.
    #[inline(never)]
    pub(super) fn push_apart(&mut self, link: u32, packet: Packet) {
        self.push(link, packet);
    }

    #[inline(always)]
    pub(super) fn push(&mut self, link: u32, packet: Packet) {
        self.note_entry(link, &packet);
        self.push_noted(link, packet);
    }

    #[inline(always)]
    fn note_entry(&mut self, link: u32, packet: &Packet) {
        if P::EACH {
            self.probe.entered(self.now, link, packet.hop == 0, packet, self.arena.at(packet.slot));
        }
    }

    #[inline(always)]
    fn push_noted(&mut self, link: u32, packet: Packet) {
        match self.links[link as usize].server() {
            Server::Link => {}
            Server::Channel(channel) => return self.at_channel(channel, link, Step::Push(packet)),
            Server::Connection => return self.push_tunnelled(link, packet),
        }
        let mut host = lend!(self, link, self.is_watched(link));
        let it = &mut self.links[link as usize];
        if let Some(next) = it.push(packet, self.now, &mut self.fate, &mut host) {
            self.schedule.arm(link, next);
        }
        self.settle_fate();
    }

    /// As [`Self::push`], for a packet that follows another one into this link within the event.
    #[inline(always)]
    pub(super) fn push_again(&mut self, link: u32, packet: Packet) {
        self.note_entry(link, &packet);
        let mut host = lend!(self, link, self.is_watched(link));
        if self.links[link as usize].push_again(packet, &mut self.fate, &mut host) {
            self.settle_fate();
        } else {
            self.push_noted_apart(link, packet);
        }
    }

    #[inline(never)]
    fn push_noted_apart(&mut self, link: u32, packet: Packet) {
        self.push_noted(link, packet);
    }

    #[inline]
    pub(super) fn settle_fate(&mut self) {
        if !self.fate.is_empty() {
            self.record_drops();
        }
    }

    #[cold]
    pub(super) fn record_drops(&mut self) {
        for index in 0..self.fate.drops.len() {
            let (packet, reason) = self.fate.drops[index];
            self.per_packet[packet.flow.0 as usize].count.packets_dropped += u64::from(!packet.is_reverse);
            if P::EACH {
                self.probe.lost(self.arena.at(packet.slot).row);
            }
            self.note_drop(&packet, reason);
            if self.flows[packet.flow.0 as usize].foreign != NOT_FOREIGN {
                self.drop_foreign(&packet);
            }
            self.arena.repair(packet.slot);
            self.arena.release(packet.slot);
        }
        self.fate.clear();
    }

    #[inline(always)]
    pub(super) fn deliver(&mut self, mut packet: Packet) {
        let number = packet.flow.0 as usize;
        let per_packet = &mut self.per_packet[number];
        packet.hop += 1;
        if packet.hop < per_packet.hops[usize::from(packet.is_reverse)] {
            let flow = &self.flows[number];
            let route = if packet.is_reverse { &flow.back } else { &flow.route };
            self.push_apart(route[usize::from(packet.hop)], packet);
            return;
        }
        let segment = self.arena.at_mut(packet.slot);
        if segment.is_damaged {
            return self.drop_damaged(&packet);
        }
        // Sent, received and dropped packets count only the flow's own direction; the reverse direction carries its
        // ACKs.
        per_packet.count.packets_received += u64::from(!packet.is_reverse);
        segment.ce = packet.ecn == Ecn::Ce;
        if P::EACH {
            self.probe.arrived(self.now, &packet, segment);
            self.probe.received(self.now, segment.row);
        }
        if per_packet.is_datagrams {
            if self.flows[number].foreign != NOT_FOREIGN {
                return self.deliver_foreign(packet);
            }
            per_packet.count.datagram_bytes_received += u64::from(packet.bytes);
            let cue = Cue::Datagram { number: segment.seq, bytes: packet.bytes, is_marked: segment.ce };
            self.arena.release(packet.slot);
            if self.flows[number].wants_datagrams {
                let side = if packet.is_reverse { Side::Client } else { Side::Server };
                self.cue(number, side, cue);
            }
            return;
        }
        let address = segment.to;
        // If no end has this address, its connection is closed: TIME-WAIT holds no state.
        let to = self.connections.find(address);
        let is_heard = to.is_some();
        if let Some(to) = to {
            if P::EACH {
                self.probe.segment(self.now, packet.flow, !packet.is_reverse, false, &to.end, segment);
            }
            to.end.on_segment(segment, self.now, &mut self.happened);
        }
        self.arena.release(packet.slot);
        if is_heard {
            self.after(index_of(address));
        }
    }

    /// Drops a damaged packet: its receiver's checksum fails.
    #[cold]
    fn drop_damaged(&mut self, packet: &Packet) {
        let number = packet.flow.0 as usize;
        self.per_packet[number].count.packets_dropped += u64::from(!packet.is_reverse);
        self.receiver_drops.add(packet);
        if P::EACH {
            self.probe.lost(self.arena.at(packet.slot).row);
        }
        if self.flows[number].foreign != NOT_FOREIGN {
            self.drop_foreign(packet);
        }
        self.arena.repair(packet.slot);
        self.arena.release(packet.slot);
    }

    /// Whether the probe records each packet in this link's queue.
    #[inline(always)]
    pub(super) fn is_watched(&self, link: u32) -> bool {
        P::EACH && (link as usize) < self.named_links && self.probe.watches(link)
    }

    /// Advances a link's queue to `now`.
    pub fn settle_link(&mut self, link: u32) {
        match self.links[link as usize].server() {
            Server::Link => {}
            Server::Channel(channel) => return self.at_channel(channel, link, Step::Settle),
            Server::Connection => return self.settle_tunnelled(link),
        }
        let mut host = lend!(self, link, self.is_watched(link));
        self.links[link as usize].settle(self.now, &mut self.fate, &mut host);
        let next = self.links[link as usize].next_wake();
        self.schedule.arm(link, next);
        self.settle_fate();
    }
}
