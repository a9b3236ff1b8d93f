//! The parts of the path that it lends to a link, or to links that share a medium, while they work.

use tailback_core::link::{Host, Watch};
use tailback_core::packet::{Acknowledgement, Packet};
use tailback_core::probe::{QueueEvent, QueueRow};
use tailback_core::queue::{Backlog, DropReason};
use tailback_core::time::Time;

use super::{Captured, Frames, NO_ROW, Observer, Outcome};
use crate::journal::Journal;

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) number: u64,
    pub(super) row: u32,
    /// Whether a link has damaged it.
    pub(super) is_damaged: bool,
}

/// Slots, numbers and rows of the packets in flight.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) held: Vec<Slot>,
    pub(super) free: Vec<u32>,
}

impl Slots {
    pub(super) fn keep(&mut self, slot: Slot) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.held[place as usize] = slot;
                place
            }
            None => {
                self.held.push(slot);
                (self.held.len() - 1) as u32
            }
        }
    }
}

/// Lends parts of the path to a link while it works.
pub(super) struct LinkHost<'a, W, F> {
    pub(super) link: u32,
    pub(super) watches: bool,
    pub(super) named_links: usize,
    pub(super) now: Time,
    pub(super) slots: &'a mut Slots,
    pub(super) captured: &'a mut Journal<Captured>,
    pub(super) outcomes: &'a mut Journal<Outcome>,
    pub(super) inbox: &'a mut Vec<(Time, Packet)>,
    pub(super) observer: &'a mut W,
    pub(super) frames: &'a mut F,
}

impl<W: Observer, F> LinkHost<'_, W, F> {
    fn row(
        &mut self,
        at: Time,
        event: QueueEvent,
        packet: &Packet,
        backlog: Backlog,
        why: Option<DropReason>,
    ) {
        if self.watches {
            let number = self.slots.held[packet.slot as usize].number;
            self.observer
                .queue(self.link, &QueueRow { now: at, event, packet, number, backlog, reason: why });
        }
    }
}

impl<W: Observer, F: Frames> Watch for LinkHost<'_, W, F> {
    fn turn_to(&mut self, link: u32) {
        self.link = link;
        self.watches = (link as usize) < self.named_links && self.observer.watches(link);
    }
    fn on_enqueue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Enqueue, packet, backlog, None);
    }
    fn on_dequeue(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Dequeue, packet, backlog, None);
    }
    fn on_drop(&mut self, at: Time, packet: &Packet, backlog: Backlog, reason: DropReason) {
        // Among links that share a medium, only this call shows which link it was.
        let number = self.slots.held[packet.slot as usize].number;
        self.outcomes[number as usize] = Outcome::Dropped { link: self.link };
        self.row(at, QueueEvent::Drop, packet, backlog, Some(reason));
    }
    fn on_damage(&mut self, packet: &Packet) {
        self.slots.held[packet.slot as usize].is_damaged = true;
    }
    fn on_mark(&mut self, at: Time, packet: &Packet, backlog: Backlog) {
        self.row(at, QueueEvent::Mark, packet, backlog, None);
    }
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.frames.acknowledgement(packet.slot)
    }
}

impl<W: Observer, F: Frames> Host for LinkHost<'_, W, F> {
    fn deliver(&mut self, due: Time, packet: Packet) {
        self.inbox.push((due, packet));
    }
    fn duplicate(&mut self, packet: &Packet) -> Packet {
        let original = self.slots.held[packet.slot as usize];
        let number = self.captured.len() as u64;
        let before = self.captured[original.number as usize];
        self.captured.push(Captured { at: self.now, is_copy: true, ..before });
        self.outcomes.push(Outcome::InTransit);
        let is_damaged = self.slots.held[packet.slot as usize].is_damaged;
        let slot = self.slots.keep(Slot { number, row: NO_ROW, is_damaged });
        self.frames.copy(packet.slot, slot);
        self.observer.doubled(packet.slot, slot);
        Packet { slot, ..*packet }
    }
}
