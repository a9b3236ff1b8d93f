//! The part that all links have, whatever their service: the queue, counts, and the pipe to the far end.

use std::collections::VecDeque;

use super::api::{Host, LinkCount, Watch};
use super::wire::{Passage, Wire};
use crate::packet::Packet;
use crate::queue::outside::Outside;
use crate::queue::registry::Queue;
use crate::queue::{Backlog, DropReason, Fate, QueueDiscipline};
use crate::time::{Bytes, Duration, Time};

/// The common part of all links.
#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    pub queue: Queue,
    /// Whether the queue reads acknowledgements.
    reads_acks: bool,
    /// The queue's backlog after the last operation on it.
    pub queued: Backlog,
    pub delay: Duration,
    /// Packets on the way, by due time. A `foreseen` service also keeps the waiting packets and the one being sent
    /// here, at the end.
    pub pipe: VecDeque<(Time, Packet)>,
    pub pipe_bytes: Bytes,
    pub wire: Option<Box<Wire>>,
    /// Whether the link wakes for every departure and reports it, for a sender that limits its bytes in the queue.
    pub reports: bool,
    count: LinkCount,
    /// Packets in the link according to the counts, updated with each of them.
    inside: Backlog,
    /// The time of the last call.
    pub now: Time,
    /// Whether packets may have entered at later times than the host's clock: see [`Self::look_at`].
    pub runs_ahead: bool,
    pub busy: Duration,
    /// Backlog in bytes since `held_since`, and the sum of bytes × picoseconds before that.
    held: Bytes,
    held_since: Time,
    held_integral: u128,
    held_max: Bytes,
}

impl Interface {
    pub fn new(name: &str, queue: Queue, delay: Duration, wire: Option<Box<Wire>>) -> Self {
        Interface {
            name: name.into(),
            reads_acks: queue.reads_acks(),
            queue,
            queued: Backlog::default(),
            delay,
            pipe: VecDeque::new(),
            pipe_bytes: 0,
            wire,
            reports: false,
            count: LinkCount::default(),
            inside: Backlog::default(),
            now: Time::ZERO,
            runs_ahead: false,
            busy: Duration::ZERO,
            held: 0,
            held_since: Time::ZERO,
            held_integral: 0,
            held_max: 0,
        }
    }

    /// Sets the time of a call by the host.
    #[inline(always)]
    pub fn turn_to(&mut self, now: Time) {
        assert!(
            self.now <= now && now < Time::NEVER,
            "link {}: time ran back from {:?} to {now:?}",
            self.name,
            self.now
        );
        self.now = now;
    }

    /// Sets the time of a call that delivers arrivals at the far end up to `now`. If packets have entered ahead of
    /// that, their later time stays.
    #[inline(always)]
    pub fn look_at(&mut self, now: Time) {
        if !(self.runs_ahead && now < self.now) {
            self.turn_to(now);
        }
    }

    /// Counts `packet`, which enters at `now`.
    #[inline(always)]
    pub fn arrive(&mut self, packet: &mut Packet, now: Time) {
        self.count.arrived += 1;
        self.count.arrived_bytes += Bytes::from(packet.bytes);
        self.inside.packets += 1;
        self.inside.bytes += Bytes::from(packet.bytes);
        packet.enqueued = now;
    }

    /// Offers `packet` to the queue.
    #[inline(always)]
    pub fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate, watch: &mut impl Watch) {
        if self.reads_acks {
            self.show_ack(&packet, watch);
        }
        let before = self.queued;
        let (drops, marks) = (fate.drops.len(), fate.marks.len());
        self.queued = self.queue.enqueue_reporting(packet, now, fate);
        if fate.drops.len() == drops && fate.marks.len() == marks {
            watch.on_enqueue(now, &packet, self.queued);
            return;
        }
        self.report_enqueue(packet, now, before, &fate.drops[drops..], &fate.marks[marks..], watch);
    }

    #[cold]
    fn show_ack(&mut self, packet: &Packet, watch: &impl Watch) {
        if let Some(ack) = watch.acknowledgement(packet) {
            self.queue.show_ack(packet, ack);
        }
    }

    /// Reports an arrival with drops or marks: first the drops that made room, then the arrival, then its mark.
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
            // The packet never joined, so its own drop must not reduce the backlog that was there.
            let with_it = plus(before, &packet);
            self.report(now, with_it, drops, marks, watch);
        } else {
            self.report(now, before, drops, &[], watch);
            watch.on_enqueue(now, &packet, self.queued);
            self.report(now, self.queued, &[], marks, watch);
        }
    }

    /// Counts drops and marks and reports them, each with the backlog after it.
    #[cold]
    fn report(
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
            self.count_drop(packet);
            watch.on_drop(at, packet, held, *reason);
        }
        for packet in marks {
            self.count.marked += 1;
            self.count.marked_bytes += Bytes::from(packet.bytes);
            watch.on_mark(at, packet, held);
        }
    }

    /// Takes the next packet, if the queue returns one.
    pub fn take(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) -> Option<Packet> {
        self.take_by(|queue, fate| queue.dequeue_reporting(at, fate), at, fate, watch)
    }

    /// As [`Self::take`], for a packet that is transmitted from now on.
    #[inline(always)]
    pub fn take_to_send(&mut self, at: Time, fate: &mut Fate, watch: &mut impl Watch) -> Option<Packet> {
        self.take_by(|queue, fate| queue.dequeue_to_send(at, fate), at, fate, watch)
    }

    #[inline(always)]
    fn take_by(
        &mut self,
        dequeue: impl FnOnce(&mut Queue, &mut Fate) -> (Option<Packet>, Backlog),
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) -> Option<Packet> {
        let before = self.queued;
        let (drops, marks) = (fate.drops.len(), fate.marks.len());
        let (next, left) = dequeue(&mut self.queue, fate);
        self.queued = left;
        if fate.drops.len() != drops || fate.marks.len() != marks {
            self.report(at, before, &fate.drops[drops..], &fate.marks[marks..], watch);
        }
        if let Some(packet) = &next {
            watch.on_dequeue(at, packet, self.queued);
        }
        next
    }

    /// Applies `decide` to a queue whose packets are decided about outside, and reports the drops.
    pub fn decide(&mut self, decide: impl FnOnce(&mut Outside), fate: &mut Fate, watch: &mut impl Watch) {
        let (before, drops) = (self.queued, fate.drops.len());
        if let Queue::Outside(queue) = &mut self.queue {
            decide(queue);
            queue.report_lost(fate);
        }
        self.queued = self.queue.backlog();
        self.report(self.now, before, &fate.drops[drops..], &[], watch);
    }

    /// The last bit of `packet` has left the serialiser.
    #[inline]
    pub fn on_departure(&mut self, packet: &Packet, watch: &mut impl Watch) {
        if self.reports {
            watch.on_departure(packet);
        }
    }

    /// Sends `packet`, which left at `at`, over the wire; it arrives at `due` unless the wire impairs it.
    #[inline(always)]
    pub fn send(&mut self, packet: Packet, at: Time, due: Time, fate: &mut Fate, watch: &mut impl Watch) {
        if self.wire.is_some() {
            return self.pass(packet, at, due, fate, watch);
        }
        self.pipe.push_back((due, packet));
        self.pipe_bytes += Bytes::from(packet.bytes);
    }

    /// As [`Self::send`], over a wire that impairs.
    fn pass(&mut self, packet: Packet, at: Time, due: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let wire = self.wire.as_mut().expect("a wire");
        if wire.damages_next() {
            watch.on_damage(&packet);
        }
        if wire.signals.is_some() {
            return self.pass_with_signals(packet, at, due, fate, watch);
        }
        match wire.pass(due, packet.bytes) {
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
        }
        self.pipe_bytes += Bytes::from(packet.bytes);
    }

    /// As [`Self::pass`], over a wire that changes ECN fields, delays or ACKs.
    fn pass_with_signals(
        &mut self,
        mut packet: Packet,
        at: Time,
        due: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        let wire = self.wire.as_mut().expect("a wire");
        let signals = wire.signals.as_mut().expect("they are why this is called");
        packet.ecn = signals.bleached(&packet);
        let drawn = signals.arrival(at, due);
        let due = match drawn {
            // Such a wire has neither jitter nor reordering of its own, so loss is all that it decides.
            Some(_) if wire.loses_next(packet.bytes) => return self.lose(packet, at, fate, watch),
            Some(due) => due,
            None => match wire.pass(due, packet.bytes) {
                Passage::Lost => return self.lose(packet, at, fate, watch),
                Passage::InOrder(due) => {
                    wire.overtake(due);
                    due
                }
                Passage::HeldBack(due) => {
                    wire.hold(packet.slot, due);
                    due
                }
            },
        };
        let acks = self.wire.as_mut().and_then(|wire| wire.signals.as_mut()?.acks.as_mut());
        let kept = acks.map(|acks| acks.pass(&packet, watch.acknowledgement(&packet), at));
        if let Some(slot) = kept.and_then(|kept| kept.replaces) {
            self.thin(slot, at, fate, watch);
        }
        self.put(kept.map_or(due, |kept| due + kept.leaves.since(at)), packet);
        self.pipe_bytes += Bytes::from(packet.bytes);
        while let Some(slot) = self.wire.as_mut().and_then(|wire| wire.released()) {
            self.let_go(slot, due);
        }
    }

    /// Drops the ACK in `slot`, which waits in the pipe: a later one replaces it.
    fn thin(&mut self, slot: u32, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        let place = self.pipe.iter().rposition(|(_, packet)| packet.slot == slot);
        if let Some((_, packet)) = place.and_then(|place| self.pipe.remove(place)) {
            self.pipe_bytes -= Bytes::from(packet.bytes);
            self.drop(packet, DropReason::Thinned, at, fate, watch);
        }
    }

    /// Inserts a packet into the pipe, behind all that arrive no later.
    fn put(&mut self, due: Time, packet: Packet) {
        let mut place = self.pipe.len();
        while place > 0 && self.pipe[place - 1].0 > due {
            place -= 1;
        }
        self.pipe.insert(place, (due, packet));
    }

    /// The packet in `slot`, which was held back, has been overtaken often enough: it arrives directly after the last
    /// one at `due`.
    #[cold]
    fn let_go(&mut self, slot: u32, due: Time) {
        let place = self.pipe.iter().rposition(|(latest, packet)| packet.slot == slot && *latest > due);
        if let Some((_, packet)) = place.and_then(|place| self.pipe.remove(place)) {
            self.put(due, packet);
        }
    }

    fn count_drop(&mut self, packet: &Packet) {
        self.count.dropped += 1;
        self.count.dropped_bytes += Bytes::from(packet.bytes);
        self.inside.packets -= 1;
        self.inside.bytes -= Bytes::from(packet.bytes);
    }

    #[inline(always)]
    fn count_delivery(&mut self, packet: &Packet) {
        self.count.delivered += 1;
        self.count.delivered_bytes += Bytes::from(packet.bytes);
        self.inside.packets -= 1;
        self.inside.bytes -= Bytes::from(packet.bytes);
    }

    /// Loses `packet` on the wire.
    #[cold]
    pub fn lose(&mut self, packet: Packet, at: Time, fate: &mut Fate, watch: &mut impl Watch) {
        self.drop(packet, DropReason::Wire, at, fate, watch);
    }

    /// Drops `packet`, which is not in the queue.
    #[cold]
    pub fn drop(
        &mut self,
        packet: Packet,
        reason: DropReason,
        at: Time,
        fate: &mut Fate,
        watch: &mut impl Watch,
    ) {
        self.count_drop(&packet);
        fate.drop(packet, reason);
        watch.on_drop(at, &packet, self.queued, reason);
    }

    /// Delivers everything that has arrived at the far end by `now`. Returns the time of the next arrival, see
    /// [`Self::next_arrival`].
    #[inline(always)]
    pub fn hand_over(&mut self, now: Time, host: &mut impl Host) -> Time {
        loop {
            let due = self.next_arrival();
            if due > now {
                return due;
            }
            let Some((due, packet)) = self.pipe.pop_front() else { return Time::NEVER };
            self.pipe_bytes -= Bytes::from(packet.bytes);
            self.count_delivery(&packet);
            if self.wire.as_mut().is_some_and(|wire| wire.is_duplicated()) {
                self.deliver_twice(due, packet, host);
            } else {
                host.deliver(due, packet);
            }
        }
    }

    /// Removes the first `packets` packets, of `bytes` in all, from the pipe as delivered, before their time.
    #[inline(always)]
    pub fn deliver_ahead(&mut self, packets: usize, bytes: Bytes) {
        self.pipe.drain(..packets);
        self.pipe_bytes -= bytes;
        self.count.delivered += packets as u64;
        self.count.delivered_bytes += bytes;
        self.inside.packets -= packets as u32;
        self.inside.bytes -= bytes;
    }

    #[cold]
    fn deliver_twice(&mut self, due: Time, packet: Packet, host: &mut impl Host) {
        let copy = host.duplicate(&packet);
        self.count.duplicated += 1;
        self.count.duplicated_bytes += Bytes::from(packet.bytes);
        self.inside.packets += 1;
        self.inside.bytes += Bytes::from(packet.bytes);
        self.count_delivery(&copy);
        host.deliver(due, packet);
        host.deliver(due, copy);
    }

    /// Time of the next arrival at the far end; [`Time::NEVER`] if the pipe is empty.
    #[inline]
    pub fn next_arrival(&self) -> Time {
        self.pipe.front().map_or(Time::NEVER, |&(due, _)| due)
    }

    /// Whether the pipe is not empty and the link wakes only for arrivals.
    #[inline(always)]
    pub fn is_under_way(&self) -> bool {
        !self.pipe.is_empty() && !self.reports
    }

    #[inline]
    pub fn is_reordering(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.is_reordering())
    }

    /// Whether a packet that has not departed yet may arrive before the link's delay is over.
    #[inline]
    pub fn may_be_early(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.may_be_early())
    }

    /// Records the queue's backlog, which may have changed at `at`.
    #[inline]
    pub fn note_backlog(&mut self, at: Time) {
        let held = self.queued.bytes;
        if held != self.held {
            self.held_integral += self.held as u128 * at.since(self.held_since).as_ps() as u128;
            self.held_since = at;
            self.held = held;
            self.held_max = self.held_max.max(held);
        }
    }

    /// `packet` leaves the queue after waiting for `span`: adds to the same sum as [`Self::note_backlog`], per packet.
    #[inline]
    pub fn note_wait(&mut self, packet: &Packet, span: Duration) {
        self.held_integral += u128::from(packet.bytes) * u128::from(span.as_ps());
    }

    /// Records the peak of the backlog after an increase.
    #[inline]
    pub fn note_growth(&mut self) {
        self.held_max = self.held_max.max(self.queued.bytes);
    }

    /// The sum of bytes × picoseconds up to the last call.
    pub fn noted(&self) -> u128 {
        self.held_integral + self.held as u128 * self.now.since(self.held_since).as_ps() as u128
    }

    /// Mean backlog in bytes up to the last call, given the sum `integral` of bytes × picoseconds; 0 before any time
    /// has passed.
    pub fn backlog_mean(&self, integral: u128) -> f64 {
        let span = self.now.as_ps();
        if span == 0 { 0.0 } else { integral as f64 / span as f64 }
    }

    /// Peak backlog of the queue in bytes.
    pub fn backlog_max(&self) -> Bytes {
        self.held_max
    }

    /// Counters of the link.
    pub fn count(&self) -> &LinkCount {
        &self.count
    }

    /// Checks conservation: packets that entered have arrived, were dropped, or are in the link.
    #[inline(always)]
    pub fn check(&self, resident: Backlog) {
        if self.inside != resident {
            self.not_conserved(resident);
        }
    }

    /// Checks that the counts agree with `inside`.
    pub fn check_counts(&self) {
        let count = &self.count;
        let (came, went) = (count.arrived + count.duplicated, count.delivered + count.dropped);
        let came_bytes = count.arrived_bytes + count.duplicated_bytes;
        let went_bytes = count.delivered_bytes + count.dropped_bytes;
        let (packets, bytes) = (u64::from(self.inside.packets), self.inside.bytes);
        if came != went + packets || came_bytes != went_bytes + bytes {
            self.not_conserved(self.inside);
        }
    }

    #[cold]
    fn not_conserved(&self, resident: Backlog) -> ! {
        panic!("link {}: packets not conserved: {:?}, resident {:?}", self.name, self.count, resident);
    }
}

fn plus(backlog: Backlog, packet: &Packet) -> Backlog {
    Backlog { packets: backlog.packets + 1, bytes: backlog.bytes + Bytes::from(packet.bytes) }
}
