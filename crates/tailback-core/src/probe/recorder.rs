//! The recording probe: one vector per column, for the flows and links that the scenario chooses.

use std::collections::BTreeMap;

use super::captures::Captures;
use super::path::{PathRecorder, Window};
use super::rows::{
    EchoRow, Echoes, ExchangeFate, InternalRow, Internals, PollRow, Polls, RequestRow, Requests, SegmentRow,
    Segments, StackStates,
};
use super::schema::{Cell, QuantityId, Threshold};
use super::stacks::{self, Shown};
use super::{Probe, Progress, QueueEvent, QueueRow, Table, Tables};
use crate::cc::CongestionControl;
use crate::foreign::State;
use crate::packet::{FlowId, Packet};
use crate::queue::Backlog;
use crate::tcp::endpoint::Endpoint;
use crate::tcp::segment::{NO_ROW, Segment};
use crate::time::{Bytes, Duration, Time};
use crate::traffic::Exchange;

/// Number of rows of a table that are written at once: about 20 MB of the widest table.
pub const ROWS_A_GROUP: usize = 1 << 17;

/// What to record of a flow, apart from its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Rows of all segments.
    pub segments: bool,
    /// Rows of all exchanges.
    pub requests: bool,
    /// Every echo request.
    pub echoes: bool,
}

/// The recording probe.
#[derive(Debug)]
pub struct Recorder {
    flows: Vec<Wanted>,
    window: Window,
    path: PathRecorder,
    wants_internals: bool,
    segments: Segments,
    stack_states: StackStates,
    shown: Shown,
    polls: Polls,
    internals: Internals,
    internals_names: Vec<&'static str>,
    scratch: Vec<(&'static str, f64)>,
    // Number of rows in all tables except the captures.
    rows: u64,
    requests: Requests,
    echoes: Echoes,
    captures: Option<Captures>,
    // Rows of echo requests without a reply so far.
    unanswered: BTreeMap<(u32, u64), usize>,
}

impl Recorder {
    /// Records these flows, and the path through `path`.
    pub fn new(flows: Vec<Wanted>, path: PathRecorder, wants_internals: bool) -> Self {
        Recorder {
            flows,
            window: path.window,
            path,
            wants_internals,
            segments: Segments::default(),
            stack_states: StackStates::default(),
            shown: Shown::default(),
            polls: Polls::default(),
            internals: Internals::default(),
            internals_names: Vec::new(),
            scratch: Vec::new(),
            rows: 0,
            requests: Requests::default(),
            echoes: Echoes::default(),
            captures: None,
            unanswered: BTreeMap::new(),
        }
    }

    /// The same, with captures.
    #[must_use]
    pub fn with_captures(self, captures: Option<Captures>) -> Self {
        Recorder { captures, ..self }
    }

    /// The captures, while recording is active.
    #[inline]
    fn capturing(&mut self, now: Time) -> Option<&mut Captures> {
        self.captures.as_ref()?;
        let is_on = self.is_on(now);
        self.captures.as_mut().filter(|_| is_on)
    }

    #[inline]
    fn is_on(&self, now: Time) -> bool {
        self.window.is_on(now)
    }

    /// See [`crate::engine::Simulation::take_groups`]. Exchanges and echo requests are few and are not taken.
    pub fn take_groups(&mut self) -> Vec<Table> {
        let mut taken = Vec::new();
        macro_rules! take {
            ($($table:expr),+) => {$(
                for _ in 0..$table.len() / ROWS_A_GROUP {
                    taken.push($table.take(ROWS_A_GROUP).into_table());
                }
            )+};
        }
        take!(
            self.segments,
            self.stack_states,
            self.polls,
            self.internals,
            self.path.queue,
            self.path.queue_polls
        );
        for _ in 0..self.path.settle() / ROWS_A_GROUP {
            taken.push(self.path.take_packets(ROWS_A_GROUP).into_table());
        }
        taken
    }

    /// See [`crate::engine::Simulation::polled`].
    pub fn polled(&self) -> Vec<Table> {
        vec![self.polls.clone().into_table(), self.path.queue_polls.clone().into_table()]
    }

    /// The names behind the codes in table `internals`, so far.
    pub fn internals_names(&self) -> &[&'static str] {
        &self.internals_names
    }

    /// Whether packets or segments are recorded one by one.
    pub fn is_of_each(&self) -> bool {
        self.captures.is_some() || self.flows.iter().any(|flow| flow.segments) || self.path.is_of_each()
    }

    fn quantity(&mut self, name: &'static str) -> QuantityId {
        let code = match self.internals_names.iter().position(|known| *known == name) {
            Some(code) => code as u16,
            None => {
                self.internals_names.push(name);
                (self.internals_names.len() - 1) as u16
            }
        };
        QuantityId(code)
    }
}

impl Recorder {
    #[inline(never)]
    fn record_segment(
        &mut self,
        now: Time,
        flow: FlowId,
        at_server: bool,
        outgoing: bool,
        end: &Endpoint,
        segment: &Segment,
    ) {
        let (sender, receiver, stack) = (&end.sender, &end.receiver, end.stack());
        let srtt = sender.rtt.srtt();
        self.rows += 1;
        self.segments.push(SegmentRow {
            t_s: now.as_secs_f64(),
            flow,
            outgoing,
            at_receiver: at_server,
            seq: segment.seq,
            length: segment.len,
            ack: segment.ack,
            cwnd: sender.control.cwnd,
            ssthresh: Threshold(sender.control.ssthresh),
            snd_wnd: sender.send_window(),
            rcv_wnd: receiver.window(),
            snd_scale: if stack.window_scaling { end.peer_scale() } else { 0 },
            rcv_scale: receiver.scale(),
            state: end.state() as u8,
            mss: sender.control.mss,
            srtt_s: seconds_or_nan(srtt, srtt.is_zero()),
            sack_enabled: stack.sack,
            flags: u32::from(segment.flags.0),
            rto_s: sender.timeout().as_secs_f64(),
            snd_buf: sender.send_buffer(),
            snd_buf_used: sender.buffered(),
            rcv_buf: receiver.capacity(),
            rcv_buf_used: 0,
            in_flight: sender.in_flight(),
            reassembly: receiver.reassembly_segments(),
            phase: sender.phase(),
        });
    }
}

fn seconds_or_nan(span: Duration, is_missing: bool) -> f64 {
    if is_missing { f64::NAN } else { span.as_secs_f64() }
}

impl Probe for Recorder {
    const WANTS: bool = true;
    const EACH: bool = true;

    #[inline(always)]
    fn segment(
        &mut self,
        now: Time,
        flow: FlowId,
        at_server: bool,
        outgoing: bool,
        end: &Endpoint,
        segment: &Segment,
    ) {
        if self.flows[flow.0 as usize].segments && self.is_on(now) {
            self.record_segment(now, flow, at_server, outgoing, end, segment);
        }
    }

    #[inline]
    fn watches_segments(&self, flow: FlowId) -> bool {
        self.flows[flow.0 as usize].segments || self.captures.is_some()
    }

    fn poll_flow(&mut self, now: Time, flow: FlowId, end: &Endpoint, progress: Progress) {
        if !self.is_on(now) {
            return;
        }
        let (sender, rtt) = (&end.sender, &end.sender.rtt);
        let none = rtt.srtt().is_zero();
        self.rows += 1;
        self.polls.push(PollRow {
            t_s: now.as_secs_f64(),
            flow,
            cwnd: sender.control.cwnd,
            ssthresh: Threshold(sender.control.ssthresh),
            srtt_s: seconds_or_nan(rtt.srtt(), none),
            rtt_s: seconds_or_nan(rtt.last(), none),
            rtt_min_s: seconds_or_nan(rtt.min(), none),
            rto_s: sender.timeout().as_secs_f64(),
            in_flight: sender.in_flight(),
            phase: sender.phase(),
            bytes_acked: progress.acked,
            bytes_received: progress.received,
            bytes_arrived: progress.arrived,
            segments_retransmitted: sender.count.segments_retransmitted,
            dup_acks_in: sender.count.duplicate_acks,
            snd_wnd: sender.send_window(),
        });
        if self.wants_internals {
            let mut scratch = std::mem::take(&mut self.scratch);
            sender.algorithm().internals(&mut scratch);
            for (name, value) in scratch.drain(..) {
                let name = self.quantity(name);
                self.rows += 1;
                self.internals.push(InternalRow { t_s: now.as_secs_f64(), flow, name, value });
            }
            self.scratch = scratch;
        }
    }

    fn poll_stack(&mut self, now: Time, flow: FlowId, state: &State, progress: Progress) {
        if self.is_on(now) {
            self.rows += 1;
            self.polls.push(stacks::poll_row(now, flow, state, progress));
        }
    }

    fn stack_state(&mut self, now: Time, flow: FlowId, connection: u32, at_server: bool, state: &State) {
        if !self.flows[flow.0 as usize].segments || !self.is_on(now) {
            return;
        }
        if let Some(row) = self.shown.row(now, flow, connection, at_server, state) {
            self.rows += 1;
            self.stack_states.push(row);
        }
    }

    fn poll_link(&mut self, now: Time, link: u32, backlog: Backlog) {
        self.rows += u64::from(self.is_on(now));
        self.path.poll_link(now, link, backlog);
    }

    #[inline]
    fn sent(&mut self, now: Time, flow: FlowId, index: u64, bytes: u32, stream: u16) -> u32 {
        let row = self.path.sent(now, flow, index, bytes, stream);
        self.rows += u64::from(row != NO_ROW);
        row
    }

    #[inline]
    fn received(&mut self, now: Time, row: u32) {
        self.path.received(now, row);
    }

    fn lost(&mut self, row: u32) {
        self.path.lost(row);
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
        self.requests.push(RequestRow {
            t_s: now.as_secs_f64(),
            flow,
            connection,
            kind,
            turn,
            bytes,
            response_time_s: f64::NAN,
            fate: ExchangeFate::Waiting,
        });
        row
    }

    fn answered(&mut self, now: Time, row: u32) {
        if row != NO_ROW {
            let row = row as usize;
            self.requests.response_time_s[row] = now.as_secs_f64() - self.requests.t_s[row];
            self.requests.fate[row] = ExchangeFate::Answered.stored();
        }
    }

    fn abandoned(&mut self, row: u32) {
        if row != NO_ROW {
            self.requests.fate[row as usize] = ExchangeFate::Abandoned.stored();
        }
    }

    fn pinged(&mut self, now: Time, flow: FlowId, number: u64) {
        if self.flows[flow.0 as usize].echoes && self.is_on(now) {
            self.unanswered.insert((flow.0, number), self.echoes.len());
            self.rows += 1;
            self.echoes.push(EchoRow { t_s: now.as_secs_f64(), flow, number, rtt_s: f64::NAN });
        }
    }

    fn ponged(&mut self, now: Time, flow: FlowId, number: u64) {
        // The reply was duplicated, and its request is already answered.
        if let Some(row) = self.unanswered.remove(&(flow.0, number)) {
            self.echoes.rtt_s[row] = now.as_secs_f64() - self.echoes.t_s[row];
        }
    }

    fn connected(&mut self, now: Time, flow: FlowId, address: u32, ends: [&Endpoint; 2]) {
        if let Some(captures) = &mut self.captures {
            captures.connected(now, flow, address, ends);
        }
    }

    #[inline]
    fn departed(&mut self, now: Time, packet: &Packet, number: u64, stream: u16, segment: &Segment) {
        if self.captures.is_none() {
            return;
        }
        let is_on = self.is_on(now);
        if let Some(captures) = &mut self.captures {
            captures.departed(now, packet, number, stream, segment, is_on);
        }
    }

    #[inline]
    fn entered(&mut self, now: Time, link: u32, is_first: bool, packet: &Packet, segment: &Segment) {
        if let Some(captures) = self.capturing(now) {
            captures.entered(now, link, is_first, packet, segment);
        }
    }

    #[inline]
    fn left(&mut self, now: Time, link: u32, packet: &Packet, segment: &Segment) {
        if let Some(captures) = self.capturing(now) {
            captures.left(now, link, packet, segment);
        }
    }

    #[inline]
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
        let before = self.path.queue.len();
        self.path.queue(link, row);
        self.rows += (self.path.queue.len() - before) as u64;
    }

    #[inline]
    fn rows(&self) -> u64 {
        self.rows + self.captures.as_ref().map_or(0, Captures::rows)
    }

    #[inline]
    fn watches(&self, link: u32) -> bool {
        self.path.watches(link)
    }

    #[inline(always)]
    fn wants_event(&self, link: u32, event: QueueEvent) -> bool {
        self.path.wants_event(link, event)
    }

    fn finish(self, tables: &mut Tables) {
        tables.tables.extend([
            self.segments.into_table(),
            self.stack_states.into_table(),
            self.polls.into_table(),
            self.internals.into_table(),
            self.path.queue.into_table(),
            self.path.queue_polls.into_table(),
            self.path.packets.into_table(),
            self.requests.into_table(),
            self.echoes.into_table(),
        ]);
        if let Some(captures) = self.captures {
            captures.finish(tables);
        }
        tables.internals_names = self.internals_names;
    }
}

/// A recorder of polls and rare events; packets do not call it.
#[derive(Debug)]
pub struct Sparse(pub Recorder);

impl Probe for Sparse {
    const WANTS: bool = true;
    const EACH: bool = false;

    fn poll_flow(&mut self, now: Time, flow: FlowId, end: &Endpoint, progress: Progress) {
        self.0.poll_flow(now, flow, end, progress);
    }
    fn poll_stack(&mut self, now: Time, flow: FlowId, state: &State, progress: Progress) {
        self.0.poll_stack(now, flow, state, progress);
    }
    fn poll_link(&mut self, now: Time, link: u32, backlog: Backlog) {
        self.0.poll_link(now, link, backlog);
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
        self.0.asked(now, flow, connection, kind, bytes, turn)
    }
    fn answered(&mut self, now: Time, row: u32) {
        self.0.answered(now, row);
    }
    fn abandoned(&mut self, row: u32) {
        self.0.abandoned(row);
    }
    fn pinged(&mut self, now: Time, flow: FlowId, number: u64) {
        self.0.pinged(now, flow, number);
    }
    fn ponged(&mut self, now: Time, flow: FlowId, number: u64) {
        self.0.ponged(now, flow, number);
    }
    fn queue(&mut self, link: u32, row: &QueueRow<'_>) {
        self.0.queue(link, row);
    }
    fn wants_event(&self, link: u32, event: QueueEvent) -> bool {
        self.0.wants_event(link, event)
    }
    #[inline]
    fn rows(&self) -> u64 {
        self.0.rows
    }
    fn finish(self, tables: &mut Tables) {
        self.0.finish(tables);
    }
}
