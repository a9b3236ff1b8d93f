//! The part of the network that links may use while they work.

use crate::engine::arena::Arena;
use crate::link::{Host, Watch};
use crate::packet::{Acknowledgement, Packet};
use crate::probe::{Probe, QueueEvent, QueueRow};
use crate::queue::{Backlog, DropReason};
use crate::tcp::segment::{Flags, NO_ROW, Segment};
use crate::time::Time;

/// Bytes of a connection that left the first link of their route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub flow: u32,
    /// The end that sent the bytes.
    pub from: u32,
    pub bytes: u32,
}

/// Work to do once an event is over.
#[derive(Debug, Default)]
pub(super) struct AfterEvent {
    /// Whether there is any such work, or a connection to close.
    pub are_due: bool,
    /// Bytes that left the first link of their route, with their sender.
    pub departed: Vec<Departure>,
}

/// Packets that have arrived at a link's far end in this event: nearly always one.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub first: Option<Packet>,
    pub others: Vec<Packet>,
}

/// The fields of a network that a link, or several links with one medium, borrow while they work.
pub(super) struct LinkHost<'a, P> {
    pub link: u32,
    pub watches: bool,
    pub arena: &'a mut Arena,
    pub probe: &'a mut P,
    pub inbox: &'a mut Inbox,
    pub after_event: &'a mut AfterEvent,
}

/// Borrows those fields for link `link`; the other fields of the network stay accessible.
macro_rules! lend {
    ($network:expr, $link:expr, $watches:expr) => {
        $crate::engine::network::link_host::LinkHost {
            link: $link,
            watches: $watches,
            arena: &mut $network.arena,
            probe: &mut $network.probe,
            inbox: &mut $network.inbox,
            after_event: &mut $network.after_event,
        }
    };
}
pub(super) use lend;

impl<P: Probe> LinkHost<'_, P> {
    #[inline(always)]
    fn row(
        &mut self,
        at: Time,
        event: QueueEvent,
        packet: &Packet,
        backlog: Backlog,
        reason: Option<DropReason>,
    ) {
        // Runs that record only losses ask the probe for drops even if the queue is not watched.
        if P::WANTS && (self.watches || !P::EACH) && self.probe.wants_event(self.link, event) {
            let number = self.arena.number(packet.slot);
            self.probe.queue(self.link, &QueueRow { now: at, event, packet, number, backlog, reason });
        }
    }
}

impl<P: Probe> Watch for LinkHost<'_, P> {
    fn turn_to(&mut self, link: u32) {
        self.link = link;
        self.watches = P::EACH && self.probe.watches(link);
    }
    #[inline]
    fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        if P::EACH {
            self.row(at, QueueEvent::Enqueue, packet, backlog, None);
        }
    }
    #[inline]
    fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        if P::EACH {
            self.row(at, QueueEvent::Dequeue, packet, backlog, None);
        }
    }
    #[inline]
    fn on_departure(&mut self, packet: &Packet) {
        self.note_departure(packet);
    }
    #[inline]
    fn on_drop(&mut self, at: Time, packet: &Packet, backlog: Backlog, reason: DropReason) {
        self.row(at, QueueEvent::Drop, packet, backlog, Some(reason));
    }
    fn on_damage(&mut self, packet: &Packet) {
        self.arena.at_mut(packet.slot).is_damaged = true;
    }
    #[inline]
    fn on_mark(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Mark, packet, backlog, None);
    }
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        let segment = self.arena.at(packet.slot);
        if !segment.flags.has(Flags::ACK) || segment.flags.has(Flags::SYN) {
            return None;
        }
        // Offsets never wrap in the engine; their low 32 bits do, as on a wire.
        let mut sack = [[0; 2]; 4];
        for (to, block) in sack.iter_mut().zip(segment.sack_blocks()) {
            *to = [block.start as u32, block.end as u32];
        }
        Some(Acknowledgement {
            number: segment.ack as u32,
            flags: segment.flags.0,
            has_payload: segment.len > 0,
            sack,
            sack_count: segment.sack_count,
        })
    }
}

impl<P: Probe> Host for LinkHost<'_, P> {
    #[inline]
    fn deliver(&mut self, due: Time, packet: Packet) {
        // Links wake at every arrival, so the arrival is due now.
        if P::EACH {
            self.probe.left(due, self.link, &packet, self.arena.at(packet.slot));
        }
        match self.inbox.first {
            None => self.inbox.first = Some(packet),
            Some(_) => self.inbox.others.push(packet),
        }
    }
    fn duplicate(&mut self, packet: &Packet) -> Packet {
        let copy = Segment { row: NO_ROW, ..*self.arena.at(packet.slot) };
        let slot = self.arena.keep(&copy);
        self.arena.share_payload(packet.slot, slot);
        if P::EACH {
            self.probe.doubled(packet.slot, slot, self.arena.number(slot));
        }
        Packet { slot, ..*packet }
    }
}

impl<P: Probe> LinkHost<'_, P> {
    #[cold]
    fn note_departure(&mut self, packet: &Packet) {
        let segment = self.arena.at(packet.slot);
        if packet.hop == 0 && segment.len > 0 {
            // The two ends of a connection are neighbours: their addresses differ in the last bit.
            self.after_event.departed.push(Departure {
                flow: packet.flow.0,
                from: segment.to ^ 1,
                bytes: packet.bytes,
            });
            self.after_event.are_due = true;
        }
    }
}
