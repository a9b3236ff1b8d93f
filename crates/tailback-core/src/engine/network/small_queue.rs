//! TCP small queues: senders that track their bytes in the queue of their host's link.

use super::Network;
use super::link_host::Departure;
use crate::engine::connections::{Blueprint, index_of};
use crate::packet::Packet;
use crate::probe::Probe;
use crate::queue::DropReason;
use crate::time::Bytes;

impl<P: Probe> Network<P> {
    /// Records that a segment entered its first link, for a sender that limits its bytes in that link's queue.
    #[cold]
    #[inline(never)]
    pub(super) fn note_queued(&mut self, index: usize, first: u32, payload: u32, bytes: u32) {
        if payload > 0 && self.links[first as usize].reports_departures() {
            self.connections.at(index).end.sender.on_queued(Bytes::from(bytes));
        }
    }

    /// A drop in the first link's queue counts as a departure. A packet lost on the wire has departed already.
    pub(super) fn note_drop(&mut self, packet: &Packet, reason: DropReason) {
        if reason == DropReason::Wire {
            return;
        }
        let plan = &self.flows[packet.flow.0 as usize].plan;
        let looks = |plan: &[Blueprint; 2]| plan.iter().any(|end| end.stack.small_queue.is_some());
        let segment = self.arena.at(packet.slot);
        if packet.hop == 0 && segment.len > 0 && plan.as_deref().is_some_and(looks) {
            self.after_event.departed.push(Departure {
                flow: packet.flow.0,
                from: segment.to ^ 1,
                bytes: packet.bytes,
            });
            self.after_event.are_due = true;
        }
    }

    pub(super) fn report_departures(&mut self) {
        let mut departed = std::mem::take(&mut self.after_event.departed);
        for Departure { flow, from, bytes } in departed.drain(..) {
            if self.flows[flow as usize].plan.is_none() {
                continue; // No sender waits for the departure of datagrams.
            }
            let Some(it) = self.connections.find(from) else { continue };
            let looks = it.end.stack().small_queue.is_some();
            if looks && it.end.sender.on_unqueued(Bytes::from(bytes)) {
                self.after_apart(index_of(from));
            }
        }
        departed.append(&mut self.after_event.departed);
        self.after_event.departed = departed;
    }
}
