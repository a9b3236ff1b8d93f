//! What a link does at its due times: take a packet from the queue, send it, put it onto the wire.

use super::{Clock, Host, Link, Watch};
use crate::capacity::Crossing;
use crate::packet::Packet;
use crate::queue::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::time::{Bytes, Time};
use crate::wire::Passage;

impl Link {
    #[inline(always)]
    pub(super) fn catch_up(&mut self, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        assert!(
            self.now <= now && now < Time::NEVER,
            "link {}: time ran back from {:?} to {now:?}",
            self.name,
            self.now
        );
        if self.foreseen.is_some() {
            self.turn_out(now, watch);
        }
        while self.step <= now {
            let at = self.step;
            if let Some(packet) = self.serving.take() {
                self.depart(packet, at, fate, watch);
            }
            self.serve(at, fate, watch);
            self.note_backlog(at);
        }
        self.now = now;
    }

    /// The last bit of `packet` left at `at`: onto the wire.
    #[inline]
    pub(crate) fn depart(&mut self, packet: Packet, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        if self.reports {
            watch.on_departure(&packet);
        }
        let due = match &mut self.clock {
            Clock::Exact => at + self.delay,
            Clock::Ticks(ticks) => ticks.due(at),
            Clock::Paced(pacer) => {
                self.busy += at.since(pacer.began());
                match pacer.cross(at, self.delay) {
                    Crossing::Arrives(due) => due,
                    Crossing::Lost => return self.lose(packet, at, fate, watch),
                }
            }
        };
        match &mut self.wire {
            None => self.pipe.push_back((due, packet)),
            Some(wire) => match wire.pass(due, packet.bytes) {
                Passage::Lost => return self.lose(packet, at, fate, watch),
                Passage::InOrder(due) => {
                    wire.overtake(due);
                    self.put(due, packet);
                    while let Some(slot) = self.wire.as_mut().and_then(|wire| wire.released()) {
                        self.let_go(slot, due);
                    }
                }
                Passage::HeldBack(due) => {
                    wire.hold(packet.slot, due);
                    self.put(due, packet);
                }
            },
        }
        self.pipe_bytes += Bytes::from(packet.bytes);
    }

    /// Into the pipe, behind what arrives no later.
    fn put(&mut self, due: Time, packet: Packet) {
        let mut place = self.pipe.len();
        while place > 0 && self.pipe[place - 1].0 > due {
            place -= 1;
        }
        self.pipe.insert(place, (due, packet));
    }

    /// The packet in `slot`, held back, has been overtaken often enough: it arrives right after the last at `due`.
    #[cold]
    fn let_go(&mut self, slot: u32, due: Time) {
        let place = self.pipe.iter().rposition(|(latest, packet)| packet.slot == slot && *latest > due);
        if let Some((_, packet)) = place.and_then(|place| self.pipe.remove(place)) {
            self.put(due, packet);
        }
    }

    /// The serialiser is free at `at`: take the next packet, if the queue gives one.
    #[inline]
    pub(super) fn serve(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let Some(packet) = self.take(at, fate, watch) else {
            self.queue.on_service(0);
            self.step = if self.queued.packets == 0 { Time::NEVER } else { self.retry_at(at) };
            return;
        };
        self.queue.on_service(packet.bytes);
        let serialiser = self.serialiser.as_ref().expect("only a link with a rate queues");
        let transmission = serialiser.time_for(packet.bytes);
        self.step = match &mut self.clock {
            Clock::Exact => {
                self.busy += transmission;
                at + transmission
            }
            Clock::Ticks(ticks) => {
                self.busy += transmission;
                ticks.depart_at(at, packet.bytes, serialiser.rate)
            }
            Clock::Paced(pacer) => pacer.serve(at, &packet, self.step == Time::NEVER),
        };
        self.serving = Some(packet);
    }

    /// The next packet to send, if the queue gives one.
    #[inline]
    pub(crate) fn take(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) -> Option<Packet> {
        let before = self.queued;
        let (drops, marks) = (fate.drops.len(), fate.marks.len());
        let next = self.queue.dequeue(at, fate);
        self.queued = self.queue.backlog();
        if fate.drops.len() != drops || fate.marks.len() != marks {
            self.report(at, before, &fate.drops[drops..], &fate.marks[marks..], watch);
        }
        if let Some(packet) = &next {
            watch.on_dequeue(at, packet, self.queued);
        }
        next
    }

    /// `packet` will never arrive.
    #[cold]
    pub(crate) fn lose(&mut self, packet: Packet, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.count.dropped += 1;
        self.count.dropped_bytes += Bytes::from(packet.bytes);
        fate.drop(packet, DropReason::Wire);
        watch.on_drop(at, &packet, self.queued, DropReason::Wire);
    }

    #[cold]
    fn retry_at(&self, at: Time) -> Time {
        let ready = self.queue.ready_at(at).unwrap_or(at);
        assert!(
            ready > at,
            "link {}: its queue holds packets, gives none and names no later time",
            self.name
        );
        ready
    }

    #[inline(always)]
    pub(crate) fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let before = self.queued;
        let (drops, marks) = (fate.drops.len(), fate.marks.len());
        self.queue.enqueue(packet, now, fate);
        self.queued = self.queue.backlog();
        if fate.drops.len() == drops && fate.marks.len() == marks {
            watch.on_enqueue(now, &packet, self.queued);
            return;
        }
        self.report_enqueue(packet, now, before, &fate.drops[drops..], &fate.marks[marks..], watch);
    }

    /// An arrival with consequences: first others go to make room, then it joins, then it is marked.
    #[cold]
    fn report_enqueue(
        &mut self,
        packet: Packet,
        now: Time,
        before: Backlog,
        drops: &[(Packet, DropReason)],
        marks: &[Packet],
        watch: &mut impl Watch,
    ) {
        let is_refused = drops.iter().any(|(dropped, _)| dropped.slot == packet.slot);
        if is_refused {
            // It never joined: its own drop must not be taken from what the queue held.
            let with_it = plus(before, &packet);
            self.report(now, with_it, drops, marks, watch);
        } else {
            self.report(now, before, drops, &[], watch);
            watch.on_enqueue(now, &packet, self.queued);
            self.report(now, self.queued, &[], marks, watch);
        }
    }

    /// Count drops and marks and show them to the watcher, each with the backlog it left behind.
    #[cold]
    pub(crate) fn report(
        &mut self,
        at: Time,
        mut held: Backlog,
        drops: &[(Packet, DropReason)],
        marks: &[Packet],
        watch: &mut impl Watch,
    ) {
        for (packet, reason) in drops {
            held.packets -= 1;
            held.bytes -= Bytes::from(packet.bytes);
            self.count.dropped += 1;
            self.count.dropped_bytes += Bytes::from(packet.bytes);
            watch.on_drop(at, packet, held, *reason);
        }
        for packet in marks {
            self.count.marked += 1;
            self.count.marked_bytes += Bytes::from(packet.bytes);
            watch.on_mark(at, packet, held);
        }
    }

    #[cold]
    pub(super) fn deliver_twice(&mut self, due: Time, packet: Packet, host: &mut impl Host) {
        let copy = host.duplicate(&packet);
        self.count.duplicated += 1;
        self.count.duplicated_bytes += Bytes::from(packet.bytes);
        self.count.delivered += 1;
        self.count.delivered_bytes += Bytes::from(packet.bytes);
        host.deliver(due, packet);
        host.deliver(due, copy);
    }

    #[inline]
    pub(super) fn is_reordering(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.is_reordering())
    }

    pub(super) fn is_paced(&self) -> bool {
        matches!(self.clock, Clock::Paced(_))
    }

    /// When the transmission under way began, at a varying pace.
    pub(super) fn began(&self) -> Time {
        match &self.clock {
            Clock::Paced(pacer) => pacer.began(),
            _ => self.now,
        }
    }
}

fn plus(backlog: Backlog, packet: &Packet) -> Backlog {
    Backlog { packets: backlog.packets + 1, bytes: backlog.bytes + Bytes::from(packet.bytes) }
}
