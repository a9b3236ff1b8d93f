//! Ends of connections: they receive, send, report to their applications, open and close.

use super::Network;
use super::flow::NO_CONNECTION;
use crate::engine::connections::{End, MOST_PAIRS, Tally, conversation_of, index_of};
use crate::packet::{Ecn, FlowId, Packet};
use crate::probe::Probe;
use crate::tcp::endpoint::{Composed, State};
use crate::tcp::segment::{Flags, NO_ROW, ip_bytes};
use crate::tcp::sender::Alike;
use crate::time::{Bytes, Time};
use crate::traffic::{Cue, Opening, Side};

impl<P: Probe> Network<P> {
    pub(super) fn wake_end(&mut self, index: usize) {
        let element = self.end_element(index);
        let it = self.connections.at(index);
        let next = it.next_wake();
        if next > self.now && !it.listens {
            // Its timers have moved since it was armed, and nothing happens at the end before they are due.
            it.armed = next;
            return self.schedule.arm(element, next);
        }
        if it.call_at <= self.now {
            it.call_at = Time::NEVER;
            let (flow, side, connection) = (it.flow as usize, it.side, it.connection);
            self.cue(flow, side, Cue::Due(connection));
        }
        self.connections.at(index).end.on_timer(self.now, &mut self.happened);
        self.after_apart(index);
        let it = self.connections.at(index);
        let next = it.next_wake();
        assert!(next > self.now, "end {index} wants to wake at {next:?}, which is not after now");
        it.armed = next;
        self.schedule.arm(element, next);
    }

    /// As [`Self::after`], out of line for events rarer than arriving segments.
    #[inline(never)]
    pub(super) fn after_apart(&mut self, index: usize) {
        self.after(index);
    }

    /// Something happened at an end: report it to the application, send what may be sent, set the timers.
    #[inline(always)]
    pub(super) fn after(&mut self, index: usize) {
        let mut it = self.connections.at(index);
        if it.is_awaited() || it.end.state() != it.state || !self.happened.is_empty() {
            self.report_apart(index);
            it = self.connections.at(index);
        }
        loop {
            // The segment is composed in its slot, which is taken only if there is a segment.
            let slot = self.arena.next();
            let segment = self.arena.at_mut(slot);
            let composed = it.end.compose_next(self.now, segment);
            if composed == Composed::Nothing {
                break;
            }
            let (flow, is_server, first) = (it.flow, it.is_server(), it.first);
            let conversation = conversation_of(it.address);
            if P::EACH {
                self.probe.segment(self.now, FlowId(flow), is_server, true, &it.end, segment);
            }
            let stack = it.end.stack();
            let bytes = ip_bytes(segment, stack);
            let ecn = stack.codepoint(segment);
            let looks_at_queue = stack.small_queue.is_some();
            let is_seen = P::EACH && self.probe.watches_segments(FlowId(flow));
            let alike = if is_seen { Alike::NONE } else { it.end.take_alike(segment, self.now) };
            if looks_at_queue {
                let payload = segment.len;
                self.note_queued(index, first, payload, bytes);
            }
            self.arena.take(slot);
            let packet = self.transmit(flow, is_server, conversation, first, 0, slot, bytes, ecn);
            if alike.number > 0 {
                self.transmit_alike(packet, first, alike);
            }
            it = self.connections.at(index);
            if composed == Composed::Last {
                break;
            }
        }
        if it.end.state() != it.state {
            self.report_state(index);
            it = self.connections.at(index);
        }
        if let Some(next) = it.earlier_wake() {
            it.armed = next;
            let element = self.end_element(index);
            self.schedule.arm(element, next);
        }
    }

    #[inline(never)]
    fn report_apart(&mut self, index: usize) {
        if !self.happened.is_empty() {
            self.list_congestion(index);
        }
        self.report_progress(index);
        self.report_state(index);
    }

    #[cold]
    pub(super) fn list_congestion(&mut self, index: usize) {
        let flow = self.connections.at(index).flow;
        match self.flows[flow as usize].is_crowd {
            true => self.happened.clear(),
            false => self.congestion.extend(self.happened.drain(..).map(|event| (flow, event))),
        }
    }

    pub(super) fn report_progress(&mut self, index: usize) {
        let it = self.connections.at(index);
        if !it.listens {
            return;
        }
        if it.carries {
            return self.serve_tunnel(index);
        }
        let (flow, side, connection) = (it.flow as usize, it.side, it.connection);
        let received = it.end.receiver.delivered();
        let has_received = received >= it.receive_mark;
        let has_drained = it.wants_drained && it.end.sender.is_drained();
        if has_received {
            it.receive_mark = Bytes::MAX;
        }
        it.wants_drained &= !has_drained;
        it.listens = it.receive_mark != Bytes::MAX || it.wants_drained;
        if has_received {
            self.cue(flow, side, Cue::Received(connection, received));
        }
        if has_drained {
            self.cue(flow, side, Cue::Drained(connection));
        }
    }

    pub(super) fn report_state(&mut self, index: usize) {
        let it = self.connections.at(index);
        let (flow, side, connection, before) = (it.flow as usize, it.side, it.connection, it.state);
        let state = it.end.state();
        if state == before {
            return;
        }
        it.state = state;
        let address = it.address;
        let (is_done, has_failed) = (it.end.is_done(), it.end.has_failed());
        let peer_finished = it.end.receiver.is_finished();
        let peer_had_finished = matches!(before, State::CloseWait | State::LastAck | State::TimeWait);
        if before < State::Established && state >= State::Established {
            self.cue(flow, side, Cue::Established(connection));
        }
        if peer_finished && !peer_had_finished {
            self.cue(flow, side, Cue::PeerFinished(connection));
        }
        if is_done {
            self.leaving.push(address);
            self.after_event.are_due = true;
            if !has_failed {
                self.remember(index);
                if side == Side::Client {
                    self.flows[flow].finished = self.now;
                }
                self.cue(flow, side, Cue::Closed(connection));
            }
        }
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "a packet's particulars, each from another owner")]
    pub(super) fn transmit(
        &mut self,
        number: u32,
        is_reverse: bool,
        conversation: u8,
        first: u32,
        stream: u16,
        slot: u32,
        bytes: u32,
        ecn: Ecn,
    ) -> Packet {
        let packet = Packet {
            slot,
            flow: FlowId(number),
            bytes,
            ecn,
            hop: 0,
            is_reverse,
            conversation,
            enqueued: self.now,
        };
        self.note_transmission(&packet, stream);
        self.push(first, packet);
        packet
    }

    /// Sends copies of the segment in `packet` that differ only in their sequence number.
    #[inline(never)]
    fn transmit_alike(&mut self, mut packet: Packet, first: u32, alike: Alike) {
        for left in (0..alike.number).rev() {
            packet.slot = self.arena.take_alike(packet.slot);
            if left == 0 && alike.is_pushed {
                let segment = self.arena.at_mut(packet.slot);
                segment.flags = segment.flags.with(Flags::PSH);
            }
            self.note_transmission(&packet, 0);
            self.push_again(first, packet);
        }
    }

    #[inline(always)]
    fn note_transmission(&mut self, packet: &Packet, stream: u16) {
        let (flow, slot) = (packet.flow, packet.slot);
        let count = &mut self.per_packet[flow.0 as usize].count;
        if !packet.is_reverse {
            if P::EACH {
                let row = self.probe.sent(self.now, flow, count.packets_sent, packet.bytes, stream);
                self.arena.at_mut(slot).row = row;
            }
            count.packets_sent += 1;
            count.bytes_sent += u64::from(packet.bytes);
        }
        if P::EACH {
            self.probe.departed(self.now, packet, self.arena.number(slot), stream, self.arena.at(slot));
        }
    }

    /// Allocates a pair for a new connection; false if no pair is free.
    pub(super) fn open(&mut self, number: usize, opening: Opening) -> bool {
        let flow = &mut self.flows[number];
        let count = &mut self.per_packet[number].count;
        count.connections += 1;
        let order = (count.connections - 1) as u32;
        if self.connections.pairs() >= MOST_PAIRS {
            count.connections_failed += 1;
            return false;
        }
        let address = self.connections.reserve();
        let plan =
            flow.plan.as_mut().unwrap_or_else(|| panic!("flow {number} over datagrams opens a connection"));
        let place = opening.connection as usize;
        if flow.connections.len() <= place {
            flow.connections.resize(place + 1, NO_CONNECTION);
        }
        assert_eq!(flow.connections[place], NO_CONNECTION, "flow {number}: connection {place} is in use");
        flow.connections[place] = address;
        flow.alive += 1;
        flow.latest = address;
        flow.finished = Time::NEVER;
        let firsts = match flow.paths.get(opening.path as usize) {
            Some(links) => *links,
            None => [flow.route[0], flow.back[0]],
        };
        let connections = &mut self.connections;
        let mut new_end = |address: u32, side, state, first| {
            connections.place(|| End {
                end: plan[usize::from(side == Side::Server)].endpoint(opening.turn, address ^ 1),
                address,
                flow: number as u32,
                connection: opening.connection,
                opening: order,
                side,
                first,
                state,
                listens: false,
                carries: false,
                wants_drained: false,
                receive_mark: Bytes::MAX,
                call_at: Time::NEVER,
                armed: Time::NEVER,
                row: NO_ROW,
            })
        };
        let mut client = new_end(address, Side::Client, State::Closed, firsts[0]);
        let mut server = new_end(address + 1, Side::Server, State::Listen, firsts[1]);
        if P::EACH {
            self.probe.connected(self.now, FlowId(number as u32), address, [&client.end, &server.end]);
        }
        client.end.connect();
        server.end.listen();
        self.connections.open(client, server);
        self.remind(index_of(address));
        true
    }

    #[cold]
    pub(super) fn finish_event(&mut self) {
        self.after_event.are_due = false;
        self.report_departures();
        self.close_finished();
    }

    /// Frees the pairs whose two ends are done, or one of whose ends gave up. No RST is sent then.
    pub(super) fn close_finished(&mut self) {
        let mut next = 0;
        while let Some(&address) = self.leaving.get(next) {
            next += 1;
            // The client's index is the even one of the two.
            let client = address & !1;
            let Some(one) = self.connections.find(client) else { continue };
            let (number, connection, row) = (one.flow as usize, one.connection, one.row);
            let (is_done, has_failed) = (one.end.is_done(), one.end.has_failed());
            let other = &self.connections.at(index_of(client) + 1).end;
            let has_failed = has_failed || other.has_failed();
            if !(has_failed || is_done && other.is_done()) {
                continue;
            }
            for index in [index_of(client), index_of(client) + 1] {
                let element = self.end_element(index);
                self.schedule.disarm(element);
            }
            let [one, other] = self.connections.close(client);
            let flow = &mut self.flows[number];
            flow.past.add(&one.end, &other.end);
            self.connections.recycle(one);
            self.connections.recycle(other);
            flow.connections[connection as usize] = NO_CONNECTION;
            flow.alive -= 1;
            self.per_packet[number].count.connections_failed += u64::from(has_failed);
            if P::WANTS {
                self.probe.abandoned(row);
            }
            if has_failed {
                self.cue(number, Side::Client, Cue::Failed(connection));
            }
            self.cue(number, Side::Client, Cue::Released(connection));
        }
        self.leaving.clear();
    }

    /// Totals over a flow's connections until now.
    pub fn tally(&self, number: usize) -> Tally {
        let flow = &self.flows[number];
        let mut tally = flow.past;
        if let Some(foreign) = self.foreign.get(flow.foreign as usize) {
            foreign.live.iter().for_each(|live| tally.add_foreign(live));
        }
        for &address in flow.connections.iter().filter(|address| **address != NO_CONNECTION) {
            let index = index_of(address);
            if let (Some(client), Some(server)) =
                (self.connections.get(index), self.connections.get(index + 1))
            {
                tally.add(&client.end, &server.end);
            }
        }
        tally
    }
}
