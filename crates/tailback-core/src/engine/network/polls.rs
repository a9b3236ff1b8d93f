//! Periodic polls of windows and queues.

use super::Network;
use super::foreign::NOT_FOREIGN;
use crate::engine::connections::index_of;
use crate::packet::FlowId;
use crate::probe::{Probe, Progress};

impl<P: Probe> Network<P> {
    pub(super) fn poll(&mut self) {
        for index in 0..self.polling.flows.len() {
            let number = self.polling.flows[index];
            let flow = &self.flows[number as usize];
            if flow.foreign != NOT_FOREIGN {
                self.poll_foreign(number);
                continue;
            }
            // The most recently opened connection, while it is open.
            let index = index_of(flow.latest);
            let (Some(client), Some(server)) = (self.connections.get(index), self.connections.get(index + 1))
            else {
                continue;
            };
            if client.address == flow.latest {
                let progress = Progress {
                    acked: flow.past.bytes_acked + client.end.sender.bytes_acked(),
                    received: flow.past.bytes_received + server.end.receiver.delivered(),
                    arrived: flow.past.bytes_arrived + server.end.receiver.arrived(),
                };
                self.probe.poll_flow(self.now, FlowId(number), &client.end, progress);
            }
        }
        for index in 0..self.polling.links.len() {
            let link = self.polling.links[index];
            self.settle_link(link);
            let it = &self.links[link as usize];
            let mut backlog = it.backlog();
            // Packets that wait or are being sent: the backlog that a packet arriving now would find.
            backlog.packets += u32::from(it.in_service() > 0);
            backlog.bytes += u64::from(it.in_service());
            self.probe.poll_link(self.now, link, backlog);
        }
        self.polling.next += self.polling.interval;
        let poll = self.poll_element();
        self.schedule.arm(poll, self.polling.next);
    }
}
