//! Batches the arrivals of one link: as long as nothing else is due before the next arrival, and, at ends that only
//! receive, even ahead of other events.
//!
//! Suppose two links join the same two sides and no other flow uses either: then a delivery by one of them makes ends
//! send only into the other. An arrival at an end that only receives changes nothing but this end and the back link,
//! where nothing arrives before its delay is over. So the run loop takes arrivals together, each at its own time,
//! without visiting the events elsewhere in between. A batch ends at the next timer (which may be of that end), or
//! after the forward link's delay, within which no new arrival can come in between.
//!
//! Each arrival counts as one event, and both sides arm links and timers in the same order, so that ties resolve as
//! without batching. Runs that record each packet take arrivals one by one: they are the reference for the test in
//! `tests/determinism.rs`.

use super::Network;
use super::flow::Flow;
use super::foreign::NOT_FOREIGN;
use super::link_host::lend;
use crate::engine::connections::conversation_of;
use crate::link::Link;
use crate::packet::{Ecn, FlowId, Packet};
use crate::probe::Probe;
use crate::tcp::segment::ip_bytes;
use crate::time::{Bytes, Time};

/// No such link.
const ALONE: u32 = u32::MAX;

/// How the arrivals of a link may be batched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Several arrivals may be taken together, in order.
    pub together: bool,
    /// The only link that carries responses to what this link delivers, so that arrivals may be taken ahead of other
    /// events; [`ALONE`]: there are several such links.
    back: u32,
}

impl Way {
    /// No batching.
    pub(super) const SINGLY: Way = Way { together: false, back: ALONE };

    /// The back link, if this link's arrivals may be taken ahead of other events.
    pub(super) fn back(self) -> Option<u32> {
        (self.back != ALONE).then_some(self.back)
    }
}

/// The mode of each link. `keeps_order`: no link may take arrivals ahead of other events.
pub(super) fn ways(links: &[Link], flows: &[Flow], keeps_order: bool) -> Vec<Way> {
    // For each link, the link by which all its flows come back; `ALONE` if there are several.
    let mut backs: Vec<Option<u32>> = vec![None; links.len()];
    for flow in flows {
        let by_paths = flow.paths.iter().flatten();
        let used = flow.route.iter().chain(&flow.back).chain(by_paths).copied();
        let is_tcp = flow.plan.is_some() && flow.foreign == NOT_FOREIGN;
        let carries = flow.carried.iter().any(Option::is_some);
        let pair = match (&flow.route[..], &flow.back[..], &flow.paths[..]) {
            (&[there], &[back], []) if is_tcp && !carries && there != back => Some([there, back]),
            _ => None,
        };
        for link in used {
            let other = pair.map_or(ALONE, |[there, back]| if link == there { back } else { there });
            let known = backs[link as usize].get_or_insert(other);
            if *known != other {
                *known = ALONE;
            }
        }
    }
    let back_of = |link: u32| backs[link as usize].unwrap_or(ALONE);
    let way = |link: u32| {
        let together = links[link as usize].delivers_in_order();
        let back = back_of(link);
        let is_pair = back != ALONE && back_of(back) == link && links[back as usize].only_delays();
        Way { together, back: if together && is_pair && !keeps_order { back } else { ALONE } }
    };
    (0..links.len() as u32).map(way).collect()
}

/// How many arrivals ahead to prefetch the segment and its end.
const FAR: usize = 8;
const NEAR: usize = 4;

/// Borrows two different links.
fn two_of(links: &mut [Link], one: usize, other: usize) -> [&mut Link; 2] {
    let (low, high) = links.split_at_mut(one.max(other));
    if one < other { [&mut low[one], &mut high[0]] } else { [&mut high[0], &mut low[other]] }
}

impl<P: Probe> Network<P> {
    /// `link` has just delivered a packet: delivers its next ones, as long as nothing else is due before, or the order
    /// does not matter.
    #[inline(never)]
    pub(super) fn run_on(&mut self, link: u32) {
        let back = self.ways[link as usize].back;
        let begun = self.now;
        let (mut reached, mut place) = (begun, None);
        // Packets that arrive until then have left the link's queue, and its wire will not lose them.
        let departed = self.links[link as usize].departed_until(begun).min(self.end);
        // Closed connections are removed before anything else happens.
        while !self.after_event.are_due {
            self.fetch_next(link);
            if back != ALONE && self.take_train(link, back, departed) {
                place = Some(self.schedule.take_place());
                self.settle_fate();
            }
            let until = departed.min(self.schedule.next_timer());
            let Some((due, packet)) = self.links[link as usize].next_ahead(0, until) else { break };
            let is_next = due < self.schedule.next_link_but(link);
            if !is_next && (back == ALONE || !self.is_received_only(&packet, back, due)) {
                break;
            }
            self.links[link as usize].deliver_ahead(1, packet.bytes.into());
            place = Some(self.schedule.take_place());
            self.now = due;
            if is_next {
                reached = due;
            }
            self.events += 1;
            self.deliver(packet);
        }
        if let Some(place) = place {
            // Arrivals taken ahead of other events do not advance the clock.
            self.now = reached;
            let next = self.links[link as usize].next_wake();
            self.schedule.arm_in(place, link, next);
        }
    }

    /// Whether the packet that arrives at `due` affects only its own end and the back link.
    #[inline(always)]
    fn is_received_only(&mut self, packet: &Packet, back: u32, due: Time) -> bool {
        let segment = self.arena.at(packet.slot);
        let Some(to) = self.connections.find(segment.to) else { return false };
        !to.listens && to.end.only_receives(segment) && self.links[back as usize].is_busy_after(due)
    }

    /// Prefetches what the next arrivals need.
    #[inline(always)]
    fn fetch_next(&self, link: u32) {
        if !self.connections.are_many() {
            return;
        }
        let it = &self.links[link as usize];
        if let Some(next) = it.arriving(FAR) {
            self.arena.fetch(next.slot);
        }
        if let Some(next) = it.arriving(NEAR) {
            let to = self.arena.at(next.slot).to;
            if next.is_reverse { self.connections.fetch(to) } else { self.connections.fetch_receiving(to) }
        }
        if let Some(next) = it.arriving(1).filter(|next| next.is_reverse) {
            self.connections.fetch_flight(self.arena.at(next.slot).to);
        }
    }

    /// As [`Self::run_on`], for a run of full segments that come in order to one end and arm no timer. Does what
    /// [`Self::deliver`] does for each, without the checks that they cannot change, and writes each ACK in its
    /// segment's slot. Returns true if it took any; the back link may then have dropped an ACK.
    #[inline(always)]
    fn take_train(&mut self, link: u32, back: u32, departed: Time) -> bool {
        let until = departed.min(self.schedule.next_timer());
        let [it, reply] = two_of(&mut self.links, link as usize, back as usize);
        let Some((_, packet)) = it.next_ahead(0, until) else { return false };
        if packet.is_reverse {
            return false;
        }
        let address = self.arena.at(packet.slot).to;
        let Some(to) = self.connections.find(address) else { return false };
        let Some(patience) = to.end.receives_steadily() else { return false };
        if to.listens || !to.is_server() {
            return false;
        }
        let acknowledgement = Packet {
            slot: 0,
            flow: FlowId(to.flow),
            bytes: 0,
            ecn: Ecn::NotEct,
            hop: 0,
            is_reverse: true,
            conversation: conversation_of(address),
            enqueued: Time::ZERO,
        };
        let (mut taken, mut bytes) = (0, 0);
        while let Some((due, packet)) = it.next_ahead(taken, until) {
            if let Some(next) = it.arriving(taken + FAR) {
                self.arena.fetch(next.slot);
            }
            let segment = self.arena.at_mut(packet.slot);
            let is_plain = segment.to == address && to.end.is_plain_data(segment);
            let arms = due + patience < to.armed && to.end.stack().expiry(due, patience) < to.armed;
            if !is_plain || arms || !reply.is_busy_after(due) {
                break;
            }
            taken += 1;
            bytes += Bytes::from(packet.bytes);
            if !to.end.receive_plain_data(segment, due) {
                self.arena.release(packet.slot);
                continue;
            }
            to.end.acknowledge(due, segment);
            let bytes = ip_bytes(segment, to.end.stack());
            self.arena.take_at_once(packet.slot);
            let mut host = lend!(self, back, false);
            let packet = Packet { slot: packet.slot, bytes, enqueued: due, ..acknowledgement };
            let rewake = reply.push(packet, due, &mut self.fate, &mut host);
            debug_assert!(rewake.is_none(), "the back link is busy");
            if !self.fate.is_empty() {
                break;
            }
        }
        it.deliver_ahead(taken, bytes);
        self.per_packet[acknowledgement.flow.0 as usize].count.packets_received += taken as u64;
        self.events += taken as u64;
        taken > 0
    }
}
