//! Applications: passes them cues, and carries out their actions.

use super::Network;
use super::flow::NO_CONNECTION;
use super::foreign::NOT_FOREIGN;
use crate::engine::connections::index_of;
use crate::packet::{Ecn, FlowId};
use crate::probe::Probe;
use crate::tcp::segment::{NO_ROW, Segment};
use crate::time::Time;
use crate::traffic::{Action, Application, Connection, Cue, Report, Side};

impl<P: Probe> Network<P> {
    pub(super) fn arm_flow(&mut self, flow: usize) {
        let element = self.flow_element(flow);
        let next = self.flows[flow].next_wake();
        self.schedule.arm(element, next);
    }

    pub(super) fn wake_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let cue = if flow.switches.front().is_some_and(|switch| *switch <= self.now) {
            flow.switches.pop_front();
            flow.is_on = !flow.is_on;
            if flow.is_on {
                Cue::Start
            } else {
                flow.wake = Time::NEVER;
                Cue::Stop
            }
        } else {
            flow.wake = Time::NEVER;
            Cue::Wake
        };
        self.cue(number, Side::Client, cue);
        self.arm_flow(number);
    }

    pub(super) fn cue(&mut self, number: usize, side: Side, cue: Cue) {
        let mut actions = std::mem::take(&mut self.actions);
        self.flows[number].app.step(side, cue, self.now, &mut actions);
        if self.flows[number].foreign != NOT_FOREIGN {
            self.act_foreign(number, side, &mut actions.list);
            self.actions = actions;
            return;
        }
        // All actions on one connection take effect together, before the next connection is examined.
        let mut touched = None;
        for action in actions.list.drain(..) {
            if let Some(index) = self.perform(number, side, action) {
                if let Some(before) = touched.replace(index).filter(|before| *before != index) {
                    self.after_apart(before);
                }
            }
        }
        self.actions = actions;
        if let Some(index) = touched {
            self.after_apart(index);
        }
    }

    /// The index of the end at this side of a connection, if it is alive.
    pub(super) fn index(&self, number: usize, side: Side, connection: Connection) -> Option<usize> {
        let address = self.flows[number].connections.get(connection as usize).copied()?;
        (address != NO_CONNECTION).then(|| index_of(address) + usize::from(side == Side::Server))
    }

    /// Carries out an action; returns the index of its end if that may now have something to send or to report. Actions
    /// for a closed connection are ignored. The function is long because it has one arm per action: split in two, it
    /// would match the action twice at every response of a web server.
    pub(super) fn perform(&mut self, number: usize, side: Side, action: Action) -> Option<usize> {
        match action {
            Action::WakeAt(time) => {
                self.flows[number].wake = time;
                self.arm_flow(number);
                None
            }
            Action::Datagram { bytes, stream } => {
                let flow = &mut self.flows[number];
                let segment = Segment { seq: flow.datagrams, ts_val: self.now, ..Segment::blank() };
                flow.datagrams += 1;
                self.send_datagram(number, side, &segment, bytes, stream);
                None
            }
            Action::Reply { number: datagram, bytes } => {
                let segment = Segment { seq: datagram, ts_val: self.now, ..Segment::blank() };
                self.send_datagram(number, side, &segment, bytes, 0);
                None
            }
            Action::ReplyFromServer { number: datagram, bytes } => {
                let segment = Segment { seq: datagram, ts_val: self.now, ..Segment::blank() };
                self.send_datagram(number, Side::Server, &segment, bytes, 0);
                None
            }
            Action::Report(report) => {
                if P::WANTS {
                    self.report(number, report);
                }
                None
            }
            Action::TurnAway => {
                let count = &mut self.per_packet[number].count;
                count.connections += 1;
                count.connections_failed += 1;
                None
            }
            Action::Connect(opening) => {
                if self.open(number, opening) {
                    return self.index(number, side, opening.connection);
                }
                self.cue(number, Side::Client, Cue::Failed(opening.connection));
                self.cue(number, Side::Client, Cue::Released(opening.connection));
                None
            }
            Action::Write(connection, bytes) => {
                let index = self.index(number, side, connection)?;
                self.connections.at(index).end.sender.write(bytes);
                Some(index)
            }
            Action::WriteForever(connection) => {
                let index = self.index(number, side, connection)?;
                self.connections.at(index).end.sender.write_forever();
                Some(index)
            }
            Action::Close { connection, discard } => {
                let index = self.index(number, side, connection)?;
                self.shut_tunnel(number, side);
                self.connections.at(index).end.sender.close(discard);
                Some(index)
            }
            Action::TellReceived(connection, bytes) => {
                let index = self.index(number, side, connection)?;
                let it = self.connections.at(index);
                (it.receive_mark, it.listens) = (bytes, true);
                Some(index)
            }
            Action::TellDrained(connection) => {
                let index = self.index(number, side, connection)?;
                let it = self.connections.at(index);
                (it.wants_drained, it.listens) = (true, true);
                Some(index)
            }
            Action::Carry(connection) => {
                let index = self.index(number, side, connection)?;
                self.open_tunnel(number, side, index);
                Some(index)
            }
            Action::CallAt(connection, time) => {
                let index = self.index(number, side, connection)?;
                self.connections.at(index).call_at = time;
                Some(index)
            }
        }
    }

    pub(super) fn send_datagram(
        &mut self,
        number: usize,
        side: Side,
        segment: &Segment,
        bytes: u32,
        stream: u16,
    ) {
        let flow = &self.flows[number];
        let is_reverse = side == Side::Server;
        let first = if is_reverse { flow.back[0] } else { flow.route[0] };
        let ecn = if is_reverse { Ecn::NotEct } else { flow.ecn };
        let bytes = bytes + flow.beyond_v4;
        let slot = self.arena.keep(segment);
        self.transmit(number as u32, is_reverse, stream as u8, first, stream, slot, bytes, ecn);
    }

    pub(super) fn report(&mut self, number: usize, report: Report) {
        let flow = FlowId(number as u32);
        match report {
            Report::Asked { connection, kind, bytes, turn } => {
                let Some(index) = self.index(number, Side::Client, connection) else { return };
                let opening = self.connections.at(index).opening;
                let turn =
                    turn % self.flows[number].plan.as_ref().map_or(1, |plan| plan[0].algorithms.len() as u32);
                let row = self.probe.asked(self.now, flow, u64::from(opening), kind, bytes, turn as u16);
                self.connections.at(index).row = row;
            }
            Report::Answered(connection) => {
                let Some(index) = self.index(number, Side::Client, connection) else { return };
                let row = std::mem::replace(&mut self.connections.at(index).row, NO_ROW);
                self.probe.answered(self.now, row);
            }
            Report::Served { connection, kind, bytes, asked } => {
                let Some(index) = self.index(number, Side::Client, connection) else { return };
                let opening = self.connections.at(index).opening;
                let row = self.probe.asked(asked, flow, u64::from(opening), kind, bytes, 0);
                self.probe.answered(self.now, row);
            }
            Report::Pinged(datagram) => self.probe.pinged(self.now, flow, datagram),
            Report::Ponged(datagram) => self.probe.ponged(self.now, flow, datagram),
        }
    }
}
