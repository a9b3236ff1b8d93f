//! Flows of foreign stacks: moves datagrams in and out, keeps timers, and reports progress to the application.
//!
//! A stack is not trusted. A fault ends its flow, with a row and a warning that name it; the other flows continue.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Network;
use crate::engine::bounds::MOST_FOREIGN;
use crate::engine::foreign::{Half, News, Wanted, what_unwound};
use crate::foreign::{StackFault, UDP_HEADERS};
use crate::packet::{FlowId, Packet};
use crate::probe::rows::StackFaultKind;
use crate::probe::{self, Probe};
use crate::tcp::segment::{NO_ROW, Segment};
use crate::tcp::sender::{CongestionEvent, CongestionEventKind};
use crate::time::Time;
use crate::traffic::{Action, Cue, Opening, Report, Side};

/// Key of an end: the flow's number among those of foreign stacks, the connection's serial number, and the side.
type Which = (usize, u32, Side);

/// Marks a flow that does not use a foreign stack.
pub const NOT_FOREIGN: u32 = u32::MAX;

fn other(side: Side) -> Side {
    if side == Side::Client { Side::Server } else { Side::Client }
}

/// Address of an end in a segment, from its connection and its side.
fn address((_, serial, side): Which) -> u32 {
    serial << 1 | u32::from(side == Side::Server)
}

impl<P: Probe> Network<P> {
    pub(super) fn foreign_element(&self, foreign: usize) -> u32 {
        self.poll_element() + 1 + foreign as u32
    }

    /// Ends a flow whose stack has a fault: its connections fail, and it opens no more.
    #[cold]
    fn accuse(&mut self, foreign: usize, what: String, kind: StackFaultKind) {
        let fault = self.foreign[foreign].fault(self.now, what, kind);
        self.end_faulty(foreign, *fault);
    }

    #[cold]
    fn end_faulty(&mut self, foreign: usize, fault: StackFault) {
        let it = &mut self.foreign[foreign];
        it.is_faulty = true;
        let number = it.flow as usize;
        let lives = std::mem::take(&mut it.live);
        let ended = lives.len() as u64;
        self.foreign_open -= lives.len();
        for mut live in lives {
            live.end();
            let flow = &mut self.flows[number];
            flow.past.add_foreign(&live);
            flow.alive -= 1;
            if P::WANTS {
                self.probe.abandoned(live.row);
            }
            // Dropping a stack that panicked may panic again.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(live)));
        }
        self.per_packet[number].count.connections_failed += ended;
        let element = self.foreign_element(foreign);
        self.schedule.arm(element, Time::NEVER);
        self.faults.push((number as u32, ended, fault));
    }

    /// Calls the stack at one end; `None` if its flow has ended or the end is gone.
    fn ask<R>(&mut self, which: Which, ask: impl FnOnce(&mut Half, Time) -> R) -> Option<R> {
        let (foreign, serial, side) = which;
        let now = self.now;
        let half = self.foreign[foreign].half(serial, side)?;
        match catch_unwind(AssertUnwindSafe(|| ask(half, now))) {
            Ok(answer) => Some(answer),
            Err(payload) => {
                let what = what_unwound(payload.as_ref());
                self.accuse(foreign, what, StackFaultKind::Panicked);
                None
            }
        }
    }

    /// A timer of a foreign flow is due.
    pub(super) fn wake_foreign(&mut self, foreign: usize) {
        let serials: Vec<u32> = self.foreign[foreign].live.iter().map(|live| live.serial).collect();
        for serial in serials {
            for side in [Side::Client, Side::Server] {
                let which = (foreign, serial, side);
                let now = self.now;
                let Some(half) = self.foreign[foreign].half(serial, side) else { continue };
                let (is_called, is_due) = (half.call_at <= now, half.timeout <= now);
                if is_called {
                    half.call_at = Time::NEVER;
                    self.call_back(which);
                }
                if is_due {
                    self.ask(which, |half, now| half.endpoint.on_timeout(now));
                    if !self.foreign[foreign].is_advancing(now) {
                        return self.accuse_of_haste(foreign);
                    }
                }
                if is_called || is_due {
                    self.serve_foreign(which);
                }
            }
        }
        self.arm_foreign(foreign);
    }

    #[cold]
    fn accuse_of_haste(&mut self, foreign: usize) {
        let fault = self.foreign[foreign].fault_of_haste(self.now);
        self.end_faulty(foreign, *fault);
    }

    fn arm_foreign(&mut self, foreign: usize) {
        let it = &self.foreign[foreign];
        if it.is_faulty {
            return;
        }
        if it.is_stuck() {
            let what = "it waits for the other end, nothing of it is under way, and it asks for no timer";
            return self.accuse(foreign, what.into(), StackFaultKind::Stuck);
        }
        let (element, next) = (self.foreign_element(foreign), it.next_wake());
        self.schedule.arm(element, if next == Time::NEVER { next } else { next.max(self.now) });
    }

    /// Delivers a datagram of a foreign flow to its host.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_foreign(&mut self, packet: Packet) {
        let foreign = self.flows[packet.flow.0 as usize].foreign as usize;
        let to = self.arena.at(packet.slot).to;
        let datagram = self.arena.take_payload(packet.slot);
        self.arena.release(packet.slot);
        let it = &mut self.foreign[foreign];
        // Copies that a wire makes are not counted when they leave.
        it.under_way = it.under_way.saturating_sub(1);
        let which = (foreign, to >> 1, if to & 1 == 1 { Side::Server } else { Side::Client });
        if it.half(which.1, which.2).is_some() {
            self.ask(which, |half, now| half.receive(now, &datagram, packet.ecn));
            self.serve_foreign(which);
        }
        self.arena.recycle(datagram);
        self.arm_foreign(foreign);
    }

    /// A datagram of a foreign flow was dropped.
    #[cold]
    pub(super) fn drop_foreign(&mut self, packet: &Packet) {
        let foreign = self.flows[packet.flow.0 as usize].foreign as usize;
        let datagram = self.arena.take_payload(packet.slot);
        self.arena.recycle(datagram);
        let it = &mut self.foreign[foreign];
        it.under_way = it.under_way.saturating_sub(1);
        if it.is_stuck() {
            // Deferred, because the stack that is being called now may be this one.
            let (element, now) = (self.foreign_element(foreign), self.now);
            self.schedule.arm(element, now);
        }
    }

    /// Something happened at an end: moves bytes, sends datagrams and reports to the application until nothing is left
    /// to do.
    fn serve_foreign(&mut self, which: Which) {
        loop {
            let peer_accepted = self.foreign[which.0].peer_accepted(which.1, which.2);
            self.ask(which, |half, now| half.move_bytes(now, peer_accepted));
            self.flush_foreign(which);
            if !self.report_to_foreign(which) {
                break;
            }
        }
        let Some(before) =
            self.ask(which, |half, _| std::mem::replace(&mut half.state, half.endpoint.state()))
        else {
            return;
        };
        self.ask(which, |half, _| half.timeout = half.endpoint.next_timeout());
        let (foreign, serial, side) = which;
        let flow = self.foreign[foreign].flow;
        let Some(half) = self.foreign[foreign].half(serial, side) else { return };
        let state = half.state;
        if state.congestion_events > before.congestion_events && side == Side::Client {
            let event = CongestionEvent {
                now: self.now,
                kind: CongestionEventKind::RecoveryEntered,
                cwnd_before: before.cwnd,
                cwnd_after: state.cwnd,
                ssthresh: state.ssthresh,
                in_flight: state.in_flight,
            };
            if !self.flows[flow as usize].is_crowd {
                self.congestion.push((flow, event));
            }
        }
        if P::WANTS {
            self.probe.stack_state(self.now, FlowId(flow), serial, side == Side::Server, &state);
        }
    }

    /// Sends the datagrams that the stack has ready.
    fn flush_foreign(&mut self, which: Which) {
        let (foreign, _, side) = which;
        loop {
            let mut datagram = self.arena.spare_payload();
            let mtu = self.foreign[foreign].mtu;
            let ecn = match self.ask(which, |half, now| half.transmit(now, mtu, &mut datagram)) {
                Some(Ok(Some(ecn))) => ecn,
                Some(Err((what, kind))) => return self.accuse(foreign, what, kind),
                Some(Ok(None)) | None => return self.arena.recycle(datagram),
            };
            let now = self.now;
            let it = &mut self.foreign[foreign];
            if !it.is_advancing(now) {
                return self.accuse_of_haste(foreign);
            }
            it.under_way += 1;
            let number = it.flow as usize;
            let is_reverse = side == Side::Server;
            let flow = &mut self.flows[number];
            let bytes = datagram.len() as u32 + UDP_HEADERS + flow.beyond_v4;
            let segment = Segment {
                seq: flow.datagrams,
                ts_val: now,
                len: datagram.len() as u32,
                to: address((foreign, which.1, other(side))),
                ..Segment::blank()
            };
            flow.datagrams += 1;
            let first = if is_reverse { flow.back[0] } else { flow.route[0] };
            let slot = self.arena.keep(&segment);
            self.arena.carry(slot, datagram);
            // Each connection of a foreign stack's flow is a stream with a port of its own.
            self.transmit(number as u32, is_reverse, which.1 as u8, first, which.1 as u16, slot, bytes, ecn);
        }
    }

    /// The time has come for which an application requested a call.
    fn call_back(&mut self, (foreign, serial, side): Which) {
        let it = &self.foreign[foreign];
        let flow = it.flow as usize;
        let Some(live) = it.live.iter().find(|live| live.serial == serial) else { return };
        let connection = live.connection;
        self.cue(flow, side, Cue::Due(connection));
    }

    /// Reports new progress to the application; true if there was any.
    fn report_to_foreign(&mut self, which: Which) -> bool {
        let (foreign, serial, side) = which;
        let Some(step) = self.ask(which, Half::step) else { return false };
        if step.has_failed() {
            self.close_foreign(which, true);
            return false;
        }
        let flow = self.foreign[foreign].flow as usize;
        let mut is_news = false;
        for news in News::IN_ORDER {
            let Some(cue) = self.foreign[foreign].cue(serial, side, news, step) else { continue };
            is_news = true;
            if news == News::Closed && side == Side::Client {
                self.flows[flow].finished = self.now;
                // The side that opened the connection closes it, once all data is exchanged.
                self.ask(which, |half, now| half.endpoint.close(now));
            }
            self.cue(flow, side, cue);
        }
        let Some(live) = self.foreign[foreign].live.iter().find(|live| live.serial == serial) else {
            return false;
        };
        if live.is_over() {
            self.close_foreign(which, false);
            return false;
        }
        is_news
    }

    /// Removes a connection that is closed at both ends, or has failed at one.
    fn close_foreign(&mut self, (foreign, serial, side): Which, has_failed: bool) {
        if has_failed {
            let why = self.ask((foreign, serial, side), |half, _| half.endpoint.failure()).flatten();
            self.foreign[foreign].note_failure(self.now, why);
        }
        let it = &mut self.foreign[foreign];
        let Some(at) = it.live.iter().position(|live| live.serial == serial) else { return };
        let mut live = it.live.remove(at);
        self.foreign_open -= 1;
        let number = it.flow as usize;
        live.end();
        let flow = &mut self.flows[number];
        flow.past.add_foreign(&live);
        flow.alive -= 1;
        self.per_packet[number].count.connections_failed += u64::from(has_failed);
        if P::WANTS {
            self.probe.abandoned(live.row);
        }
        if has_failed {
            self.cue(number, Side::Client, Cue::Failed(live.connection));
        }
        self.cue(number, Side::Client, Cue::Released(live.connection));
    }

    /// Carries out the actions of a foreign flow's application.
    pub(super) fn act_foreign(&mut self, number: usize, side: Side, actions: &mut Vec<Action>) {
        let foreign = self.flows[number].foreign as usize;
        let mut touched: Vec<u32> = Vec::new();
        for action in actions.drain(..) {
            if let Some(serial) = self.perform_foreign(number, side, action) {
                if !touched.contains(&serial) {
                    touched.push(serial);
                }
            }
        }
        for serial in touched {
            self.serve_foreign((foreign, serial, side));
        }
        self.arm_foreign(foreign);
    }

    /// Carries out an action; returns the connection if it may now have something to send.
    fn perform_foreign(&mut self, number: usize, side: Side, action: Action) -> Option<u32> {
        let foreign = self.flows[number].foreign as usize;
        match self.foreign[foreign].note(side, &action) {
            Wanted::Service(serial) => return Some(serial),
            Wanted::Closing(serial) => {
                self.ask((foreign, serial, side), |half, now| half.endpoint.close(now));
                return Some(serial);
            }
            Wanted::Nothing => return None,
            Wanted::Elsewhere => {}
        }
        match action {
            Action::Connect(opening) => return self.open_foreign(number, foreign, opening),
            Action::Report(report) => {
                if P::WANTS {
                    self.report_foreign(number, foreign, report);
                }
            }
            action => {
                self.perform(number, side, action);
            }
        }
        None
    }

    fn open_foreign(&mut self, number: usize, foreign: usize, opening: Opening) -> Option<u32> {
        if self.foreign[foreign].is_faulty || self.crowded.is_some() {
            return None;
        }
        if self.foreign_open == MOST_FOREIGN {
            self.crowded = Some(number as u32);
            return None;
        }
        let (it, now) = (&mut self.foreign[foreign], self.now);
        let opened = catch_unwind(AssertUnwindSafe(|| it.open(opening.connection, opening.turn, now)));
        let serial = match opened {
            Ok(serial) => serial,
            Err(payload) => {
                let what = what_unwound(payload.as_ref());
                self.accuse(foreign, what, StackFaultKind::Panicked);
                return None;
            }
        };
        self.foreign_open += 1;
        self.foreign_peak = self.foreign_peak.max(self.foreign_open);
        let flow = &mut self.flows[number];
        flow.alive += 1;
        flow.finished = Time::NEVER;
        self.per_packet[number].count.connections += 1;
        Some(serial)
    }

    fn report_foreign(&mut self, number: usize, foreign: usize, report: Report) {
        let flow = FlowId(number as u32);
        match report {
            Report::Asked { connection, kind, bytes, turn } => {
                let it = &mut self.foreign[foreign];
                let turn = turn % it.algorithms.len() as u32;
                let Some(live) = it.of(connection) else { return };
                let serial = u64::from(live.serial);
                live.row = self.probe.asked(self.now, flow, serial, kind, bytes, turn as u16);
            }
            Report::Answered(connection) => {
                let Some(live) = self.foreign[foreign].of(connection) else { return };
                let row = std::mem::replace(&mut live.row, NO_ROW);
                self.probe.answered(self.now, row);
            }
            Report::Served { connection, kind, bytes, asked } => {
                let Some(live) = self.foreign[foreign].of(connection) else { return };
                let row = self.probe.asked(asked, flow, u64::from(live.serial), kind, bytes, 0);
                self.probe.answered(self.now, row);
            }
            Report::Pinged(_) | Report::Ponged(_) => self.report(number, report),
        }
    }

    /// Polls the most recently opened connection of a foreign flow.
    pub(super) fn poll_foreign(&mut self, number: u32) {
        let flow = &self.flows[number as usize];
        let Some(live) = self.foreign[flow.foreign as usize].live.last() else { return };
        let state = live.halves[0].state;
        let tally = self.tally(number as usize);
        let progress = probe::Progress {
            acked: tally.bytes_acked,
            received: tally.bytes_received,
            arrived: tally.bytes_arrived,
        };
        self.probe.poll_stack(self.now, FlowId(number), &state, progress);
    }
}
