//! The probe that records: one vector a column, flows and links chosen by the scenario.

use std::collections::BTreeMap;

use super::captures::Captures;
use super::rows::{
    ABANDONED, ANSWERED, DROPPED, Echoes, IN_TRANSIT, Internals, Packets, Polls, Queue, QueuePolls, RECEIVED,
    Requests, Segments, WAITING,
};
use super::{Probe, QueueEvent, QueueRow, Table, Tables};
use crate::cc::CongestionControl;
use crate::packet::{FlowId, Packet};
use crate::queue::Backlog;
use crate::tcp::endpoint::Endpoint;
use crate::tcp::segment::{NO_ROW, Segment};
use crate::time::{Bytes, Duration, Time};
use crate::traffic::Exchange;

/// Rows of a table that are written down at once: some 20 MB of the widest.
pub const ROWS_A_GROUP: usize = 1 << 17;

/// What a flow or link has recorded of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Flow: every segment. Link: every queue event.
    pub every: bool,
    /// Flow: every packet's one-way delay. Link: drops and marks.
    pub some: bool,
    /// Flow: every exchange.
    pub requests: bool,
    /// Flow: every echo request.
    pub echoes: bool,
}

/// The recording probe.
#[derive(Debug)]
pub struct Recorder {
    flows: Vec<Wanted>,
    links: Vec<Wanted>,
    from: Time,
    until: Time,
    wants_internals: bool,
    segments: Segments,
    polls: Polls,
    internals: Internals,
    internals_names: Vec<&'static str>,
    scratch: Vec<(&'static str, f64)>,
    queue: Queue,
    queue_polls: QueuePolls,
    packets: Packets,
    // Rows of `packets` that were taken, and rows from there on whose packets have arrived or are lost.
    packets_taken: usize,
    packets_settled: usize,
    // Rows of all tables.
    rows: u64,
    requests: Requests,
    echoes: Echoes,
    captures: Option<Captures>,
    // Rows of echo requests without a reply yet.
    unanswered: BTreeMap<(u32, u64), usize>,
}

impl Recorder {
    /// A recorder for these flows and links, between these instants.
    pub fn new(flows: Vec<Wanted>, links: Vec<Wanted>, window: (Time, Time), wants_internals: bool) -> Self {
        Recorder {
            flows,
            links,
            from: window.0,
            until: window.1,
            wants_internals,
            segments: Segments::default(),
            polls: Polls::default(),
            internals: Internals::default(),
            internals_names: Vec::new(),
            scratch: Vec::new(),
            queue: Queue::default(),
            queue_polls: QueuePolls::default(),
            packets: Packets::default(),
            packets_taken: 0,
            packets_settled: 0,
            rows: 0,
            requests: Requests::default(),
            echoes: Echoes::default(),
            captures: None,
            unanswered: BTreeMap::new(),
        }
    }

    /// Taking captures too.
    #[must_use]
    pub fn with_captures(self, captures: Option<Captures>) -> Self {
        Recorder { captures, ..self }
    }

    /// The captures, while recording is on.
    #[inline]
    fn capturing(&mut self, now: Time) -> Option<&mut Captures> {
        let is_on = self.is_on(now);
        self.captures.as_mut().filter(|_| is_on)
    }

    fn is_on(&self, now: Time) -> bool {
        self.from <= now && now < self.until
    }

    /// See [`crate::engine::Simulation::take_groups`]. Exchanges and echo requests are few and stay.
    pub fn take_groups(&mut self) -> Vec<Table> {
        let mut taken = Vec::new();
        let whole = |rows: usize| rows - rows % ROWS_A_GROUP;
        macro_rules! take {
            ($($table:ident),+) => {$(
                for _ in 0..whole(self.$table.len()) / ROWS_A_GROUP {
                    taken.push(self.$table.take(ROWS_A_GROUP).into_table());
                }
            )+};
        }
        take!(segments, polls, internals, queue, queue_polls);
        let (fates, settled) = (&self.packets.fate, self.packets_settled);
        self.packets_settled += fates[settled..].iter().take_while(|fate| **fate != IN_TRANSIT).count();
        for _ in 0..whole(self.packets_settled) / ROWS_A_GROUP {
            taken.push(self.packets.take(ROWS_A_GROUP).into_table());
            self.packets_taken += ROWS_A_GROUP;
            self.packets_settled -= ROWS_A_GROUP;
        }
        taken
    }

    fn packet(&self, row: u32) -> usize {
        (row as usize).checked_sub(self.packets_taken).expect("a packet has one fate")
    }

    fn code(&mut self, name: &'static str) -> u16 {
        match self.internals_names.iter().position(|known| *known == name) {
            Some(code) => code as u16,
            None => {
                self.internals_names.push(name);
                (self.internals_names.len() - 1) as u16
            }
        }
    }
}

fn seconds_or_nan(span: Duration, is_missing: bool) -> f64 {
    if is_missing { f64::NAN } else { span.as_secs_f64() }
}

impl Probe for Recorder {
    const WANTS: bool = true;

    fn segment(
        &mut self,
        now: Time,
        flow: FlowId,
        at_server: bool,
        outgoing: bool,
        end: &Endpoint,
        segment: &Segment,
    ) {
        if !self.flows[flow.0 as usize].every || !self.is_on(now) {
            return;
        }
        let (sender, receiver, stack) = (&end.sender, &end.receiver, end.stack());
        let srtt = sender.rtt.srtt();
        self.rows += 1;
        self.segments.push(
            now.as_secs_f64(),
            flow.0,
            outgoing,
            at_server,
            segment.seq,
            segment.len,
            segment.ack,
            sender.control.cwnd,
            sender.control.ssthresh,
            sender.send_window(),
            receiver.window(),
            if stack.window_scaling { end.peer_scale() } else { 0 },
            receiver.scale(),
            end.state() as u8,
            sender.control.mss,
            seconds_or_nan(srtt, srtt.is_zero()),
            stack.sack,
            u32::from(segment.flags.0),
            sender.rtt.timeout().as_secs_f64(),
            sender.send_buffer(),
            sender.buffered(),
            receiver.capacity(),
            0,
            sender.in_flight(),
            receiver.reassembly_segments(),
            sender.phase() as u8,
        );
    }

    fn poll_flow(&mut self, now: Time, flow: FlowId, end: &Endpoint, acked: Bytes, received: Bytes) {
        if !self.is_on(now) {
            return;
        }
        let (sender, rtt) = (&end.sender, &end.sender.rtt);
        let none = rtt.srtt().is_zero();
        self.rows += 1;
        self.polls.push(
            now.as_secs_f64(),
            flow.0,
            sender.control.cwnd,
            sender.control.ssthresh,
            seconds_or_nan(rtt.srtt(), none),
            seconds_or_nan(rtt.last(), none),
            seconds_or_nan(rtt.min(), none),
            rtt.timeout().as_secs_f64(),
            sender.in_flight(),
            sender.phase() as u8,
            acked + sender.bytes_acked(),
            received,
            sender.count.segments_retransmitted,
            sender.count.duplicate_acks,
            sender.send_window(),
        );
        if self.wants_internals {
            let mut scratch = std::mem::take(&mut self.scratch);
            sender.algorithm().internals(&mut scratch);
            for (name, value) in scratch.drain(..) {
                let code = self.code(name);
                self.rows += 1;
                self.internals.push(now.as_secs_f64(), flow.0, code, value);
            }
            self.scratch = scratch;
        }
    }

    fn poll_link(&mut self, now: Time, link: u32, backlog: Backlog) {
        if self.is_on(now) {
            self.rows += 1;
            self.queue_polls.push(now.as_secs_f64(), link, backlog.bytes, backlog.packets);
        }
    }

    fn sent(&mut self, now: Time, flow: FlowId, index: u64, bytes: u32, stream: u16) -> u32 {
        if !self.flows[flow.0 as usize].some || !self.is_on(now) {
            return NO_ROW;
        }
        let row = (self.packets_taken + self.packets.len()) as u32;
        self.rows += 1;
        self.packets.push(flow.0, index, bytes, now.as_secs_f64(), f64::NAN, IN_TRANSIT, stream);
        row
    }

    fn received(&mut self, now: Time, row: u32) {
        if row != NO_ROW {
            let row = self.packet(row);
            self.packets.received_s[row] = now.as_secs_f64();
            self.packets.fate[row] = RECEIVED;
        }
    }

    fn lost(&mut self, row: u32) {
        if row != NO_ROW {
            let row = self.packet(row);
            self.packets.fate[row] = DROPPED;
        }
    }

    fn asked(
        &mut self,
        now: Time,
        flow: FlowId,
        connection: u64,
        kind: Exchange,
        bytes: Bytes,
        turn: u16,
    ) -> u32 {
        if !self.flows[flow.0 as usize].requests || !self.is_on(now) {
            return NO_ROW;
        }
        let row = self.requests.len() as u32;
        self.rows += 1;
        self.requests.push(now.as_secs_f64(), flow.0, connection, kind as u8, turn, bytes, f64::NAN, WAITING);
        row
    }

    fn answered(&mut self, now: Time, row: u32) {
        if row != NO_ROW {
            let row = row as usize;
            self.requests.response_time_s[row] = now.as_secs_f64() - self.requests.t_s[row];
            self.requests.fate[row] = ANSWERED;
        }
    }

    fn abandoned(&mut self, row: u32) {
        if row != NO_ROW {
            self.requests.fate[row as usize] = ABANDONED;
        }
    }

    fn pinged(&mut self, now: Time, flow: FlowId, number: u64) {
        if self.flows[flow.0 as usize].echoes && self.is_on(now) {
            self.unanswered.insert((flow.0, number), self.echoes.flow.len());
            self.rows += 1;
            self.echoes.push(now.as_secs_f64(), flow.0, number, f64::NAN);
        }
    }

    fn ponged(&mut self, now: Time, flow: FlowId, number: u64) {
        // A duplicated reply finds its request answered.
        if let Some(row) = self.unanswered.remove(&(flow.0, number)) {
            self.echoes.rtt_s[row] = now.as_secs_f64() - self.echoes.t_s[row];
        }
    }

    fn connected(&mut self, now: Time, flow: FlowId, address: u32, ends: [&Endpoint; 2]) {
        if let Some(captures) = &mut self.captures {
            captures.connected(now, flow, address, ends);
        }
    }

    fn departed(&mut self, now: Time, packet: &Packet, number: u64, stream: u16, segment: &Segment) {
        let is_on = self.is_on(now);
        if let Some(captures) = &mut self.captures {
            captures.departed(now, packet, number, stream, segment, is_on);
        }
    }

    fn entered(&mut self, now: Time, link: u32, is_first: bool, packet: &Packet, segment: &Segment) {
        if let Some(captures) = self.capturing(now) {
            captures.entered(now, link, is_first, packet, segment);
        }
    }

    fn left(&mut self, now: Time, link: u32, packet: &Packet, segment: &Segment) {
        if let Some(captures) = self.capturing(now) {
            captures.left(now, link, packet, segment);
        }
    }

    fn arrived(&mut self, now: Time, packet: &Packet, segment: &Segment) {
        if let Some(captures) = self.capturing(now) {
            captures.arrived(now, packet, segment);
        }
    }

    fn doubled(&mut self, from: u32, to: u32, number: u64) {
        if let Some(captures) = &mut self.captures {
            captures.doubled(from, to, number);
        }
    }

    fn queue(&mut self, link: u32, row: &QueueRow<'_>) {
        let wanted = self.links[link as usize];
        let is_loss = matches!(row.event, QueueEvent::Drop | QueueEvent::Mark);
        if !(wanted.every || wanted.some && is_loss) || !self.is_on(row.now) {
            return;
        }
        self.rows += 1;
        self.queue.push(
            row.now.as_secs_f64(),
            link,
            row.event as u8,
            row.packet.flow.0,
            row.number,
            row.packet.bytes,
            row.backlog.bytes,
            row.backlog.packets,
            row.reason.map_or(255, |reason| reason as u8),
        );
    }

    #[inline]
    fn rows(&self) -> u64 {
        self.rows + self.captures.as_ref().map_or(0, Captures::rows)
    }

    fn watches(&self, link: u32) -> bool {
        let wanted = self.links[link as usize];
        wanted.every || wanted.some
    }

    fn finish(self, tables: &mut Tables) {
        tables.tables.extend([
            self.segments.into_table(),
            self.polls.into_table(),
            self.internals.into_table(),
            self.queue.into_table(),
            self.queue_polls.into_table(),
            self.packets.into_table(),
            self.requests.into_table(),
            self.echoes.into_table(),
        ]);
        if let Some(captures) = self.captures {
            captures.finish(tables);
        }
        tables.internals_names = self.internals_names;
    }
}
